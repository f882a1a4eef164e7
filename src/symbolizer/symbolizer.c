/* SPDX-License-Identifier: Apache-2.0 */
/* Requests and answers. Thread: the owner's (tracker, then control). */
#include "symbolizer/symbolizer_priv.h"

#include <poll.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>

/* Addresses until the first batch of an image is sent; each further batch waits twice as long. */
#define FIRST_BATCH_NS (200 * NSEC_PER_MSEC)
/* Share of descriptors for debug files. The tracker keeps half of the allowed ones for images. */
#define DEBUG_FDS_SHARE 8
#define DEBUG_FDS_MAX   256

/* ---- life ------------------------------------------------------------------------------------ */

static int files_options(const struct symbolizer_options *o, struct sym_files_options *ret,
                         struct err *err)
{
	struct rlimit rl = {0};

	*ret = (struct sym_files_options){.find.dirs = o->debug_dirs,
	                                  .budget_bytes = o->budget_bytes,
	                                  .no_lines = o->no_lines,
	                                  .in_process = o->in_process};
	for (; o->debug_dirs && o->debug_dirs[ret->find.n_dirs]; ret->find.n_dirs++) {
		const char *dir = o->debug_dirs[ret->find.n_dirs];
		struct stat st;

		if (stat(dir, &st) < 0)
			return err_set(err, -errno, "debug directory %s: %s: it must exist", dir,
			               err_name(errno));
		if (!S_ISDIR(st.st_mode))
			return err_set(err, -ENOTDIR, "debug directory %s: not a directory", dir);
	}
	if (getrlimit(RLIMIT_NOFILE, &rl) < 0)
		return err_set(err, -errno, "getrlimit: %s", err_name(errno));
	ret->max_fds = (uint32_t)MIN_OF(rl.rlim_cur / DEBUG_FDS_SHARE, (rlim_t)DEBUG_FDS_MAX);
	return 0;
}

static int init_locks(struct symbolizer *s)
{
	int r = cond_init_monotonic(&s->changed);

	if (r < 0)
		return r;
	r = pthread_mutex_init(&s->lock, NULL);
	if (r)
		(void)pthread_cond_destroy(&s->changed); /* no thread waits */
	s->has_lock = r == 0;
	return -r;
}

int symbolizer_new(const struct symbolizer_options *o, struct symbolizer **ret, struct err *err)
{
	struct sym_files_options files;
	struct symbolizer *s = NULL;
	int r = files_options(o, &files, err);

	if (r < 0)
		return r;
	s = calloc(1, sizeof(*s));
	if (!s)
		return err_set(err, -ENOMEM, "out of memory");
	s->o = *o;
	s->o.debug_dirs = NULL; /* copied below */
	s->results.max = s->names.max = UINT32_MAX;
	r = init_locks(s);
	if (r == 0)
		r = queue_new(sizeof(struct symbolizer_job),
		              o->max_jobs ? o->max_jobs : SYMBOLIZER_JOBS_MAX, &s->jobs);
	if (r == 0)
		r = intern_new(1U << 24, SIZE_MAX / 2, &s->requested);
	if (r == 0)
		r = kernel_names_new(o->tally, &s->kernel);
	if (r == 0)
		r = sym_files_new(&files, &s->files);
	if (r < 0) {
		symbolizer_free(s);
		return err_set(err, r, "symbols: %s", err_name(r));
	}
	if (sym_files_pid(s->files) == 0 && !o->in_process)
		tally_note(
		        o->tally,
		        "debug information is decoded in the agent itself: no symbolizer process "
		        "could be made");
	if (s->o.process)
		s->o.process(s->o.arg, sym_files_pid(s->files));
	*ret = s;
	return 0;
}

void symbolizer_use(struct symbolizer *s, struct pool *pool)
{
	s->pool = pool;
}

struct symbolizer *symbolizer_free(struct symbolizer *s)
{
	struct symbolizer_job job;

	if (!s)
		return NULL;
	while (s->jobs && queue_pop(s->jobs, &job, 0) == 0) {
		free(job.addrs);
		symbolizer_job_done(&job);
	}
	s->jobs = queue_free(s->jobs);
	vec_each (res, &s->results) {
		free(res->addrs);
		sym_batch_done(&res->batch);
	}
	vec_done(&s->results);
	for (uint32_t i = 0; i < s->n_groups; i++)
		vec_done(&s->groups[i].addrs);
	free(s->groups);
	s->requested = intern_free(s->requested);
	s->keys = intern_free(s->keys);
	vec_done(&s->names);
	s->files = sym_files_free(s->files);
	s->kernel = kernel_names_free(s->kernel);
	if (s->has_lock) {
		(void)pthread_cond_destroy(&s->changed); /* the pool has ended */
		(void)pthread_mutex_destroy(&s->lock);
	}
	free(s);
	return NULL;
}

/* ---- requests -------------------------------------------------------------------------------- */

static struct symbolizer_group *group_of(struct symbolizer *s, uint32_t image)
{
	if (image >= s->n_groups) {
		uint32_t n = MAX_OF(image + 1, s->n_groups * 2);
		struct symbolizer_group *g = reallocarray(s->groups, n, sizeof(*g));

		if (!g)
			return NULL;
		memset(g + s->n_groups, 0, (n - s->n_groups) * sizeof(*g));
		s->groups = g;
		s->n_groups = n;
	}
	return &s->groups[image];
}

void symbolizer_request(struct symbolizer *s, uint32_t image, uint64_t addr)
{
	struct symbolizer_key key = {.addr = addr, .image = image};
	struct symbolizer_group *g;
	uint32_t id;
	bool is_new;

	if (intern_add(s->requested, &key, sizeof(key), &id, &is_new) < 0) {
		/* Over the limit: the frame has no name, and this reason. */
		tally_count(s->o.tally, TALLY_NAMES_LOST, 1);
		return;
	}
	if (!is_new)
		return;
	g = group_of(s, image);
	if (g && !g->addrs.max)
		g->addrs.max = UINT32_MAX;
	if (!g || vec_push(&g->addrs, addr) < 0) {
		tally_count(s->o.tally, TALLY_NAMES_LOST, 1);
		return;
	}
	if (g->due_ns == 0) {
		if (g->interval_ns == 0)
			g->interval_ns = FIRST_BATCH_NS;
		g->due_ns = now_ns() + g->interval_ns;
		g->interval_ns *= 2;
	}
}

size_t symbolizer_requested(const struct symbolizer *s)
{
	return intern_count(s->requested);
}

/* Returns false if the queue is full or closed. */
static bool send(struct symbolizer *s, const struct symbolizer_job *job)
{
	pthread_mutex_lock(&s->lock);
	s->outstanding++;
	pthread_mutex_unlock(&s->lock);
	if (queue_push(s->jobs, job) == 0) {
		symbolizer_kick(s);
		return true;
	}
	pthread_mutex_lock(&s->lock);
	s->outstanding--;
	pthread_mutex_unlock(&s->lock);
	return false;
}

bool symbolizer_send(struct symbolizer *s, uint64_t now, bool all)
{
	for (uint32_t i = 0; i < s->n_groups; i++) {
		struct symbolizer_group *g = &s->groups[i];
		struct symbolizer_job job = {.image = i, .from.fd = -EBADF, .from.root_fd = -EBADF};

		if (g->due_ns == 0 || (!all && g->due_ns > now))
			continue;
		if (i != SYMBOLIZER_KERNEL)
			s->o.open(s->o.arg, i, &job.from);
		job.addrs = g->addrs.p;
		job.n = g->addrs.n;
		qsort(job.addrs, job.n, sizeof(*job.addrs), u64_cmp);
		if (!send(s, &job)) {
			symbolizer_job_done(&job);
			return false;
		}
		memset(&g->addrs, 0, sizeof(g->addrs)); /* moved into the job */
		g->due_ns = 0;
		tally_count(s->o.tally, TALLY_SYMBOL_JOBS, 1);
	}
	return true;
}

void symbolizer_kernel_record(struct symbolizer *s, const struct ev_proc *ev)
{
	kernel_names_record(s->kernel, ev);
}

void symbolizer_late(struct symbolizer *s)
{
	atomic_store(&s->late, true);
}

void symbolizer_cancel(struct symbolizer *s)
{
	sym_files_end(s->files);
}

/* ---- answers --------------------------------------------------------------------------------- */

/* Waits for all results. Addresses that are not decoded by @until_ns get the reason LATE. */
static void await_results(struct symbolizer *s, uint64_t until_ns)
{
	const struct timespec until = {.tv_sec = (time_t)(until_ns / NSEC_PER_SEC),
	                               .tv_nsec = (long)(until_ns % NSEC_PER_SEC)};
	bool given_up = false;

	pthread_mutex_lock(&s->lock);
	while (s->outstanding > 0) {
		if (given_up) {
			(void)pthread_cond_wait(&s->changed, &s->lock); /* cannot fail */
		} else if (pthread_cond_timedwait(&s->changed, &s->lock, &until) == ETIMEDOUT) {
			given_up = true;
			pthread_mutex_unlock(&s->lock);
			symbolizer_cancel(s);
			pthread_mutex_lock(&s->lock);
		}
	}
	pthread_mutex_unlock(&s->lock);
}

/* Looks up kernel addresses without a name once more. */
static void finish_kernel(struct symbolizer *s)
{
	VEC(uint64_t) addrs = VEC_INIT(UINT32_MAX);
	struct symbolizer_result res = {.image = SYMBOLIZER_KERNEL};
	int r = 0;

	vec_each (b, &s->results) {
		for (size_t i = 0; b->image == SYMBOLIZER_KERNEL && i < b->batch.n && r == 0; i++)
			if (b->batch.names[i].reason != EV_REASON_NAMED)
				r = vec_push(&addrs, b->addrs[i]);
	}
	if (r == 0 && addrs.n > 0) {
		/* each address was requested once */
		qsort(addrs.p, addrs.n, sizeof(*addrs.p), u64_cmp);
		r = kernel_names_resolve_again(s->kernel, addrs.p, addrs.n, &res.batch);
	} else {
		r = -ENOENT;
	}
	if (r < 0) {
		vec_done(&addrs); /* they stay without a name */
		return;
	}
	res.addrs = addrs.p;
	symbolizer_add_result(s, &res);
}

static int collect_batch(struct symbolizer *s, const struct symbolizer_result *res)
{
	int r = 0;

	for (size_t i = 0; i < res->batch.n && r == 0; i++) {
		struct symbolizer_key key = {.addr = res->addrs[i], .image = res->image};
		uint32_t id = 0;
		bool is_new = false;

		/* Room comes before the interner, whose ids must match the vector. */
		r = vec_reserve(&s->names, 1);
		if (r == 0)
			r = intern_add(s->keys, &key, sizeof(key), &id, &is_new);
		if (r == 0 && is_new)
			s->names.p[s->names.n++] = sym_batch_at(&res->batch, i);
		else if (r == 0 && s->names.p[id].reason != EV_REASON_NAMED)
			s->names.p[id] = sym_batch_at(&res->batch, i); /* looked up again */
	}
	return r;
}

int symbolizer_collect(struct symbolizer *s, uint64_t *ret_waiting)
{
	int r = s->keys ? 0 : intern_new(UINT32_MAX - 1, SIZE_MAX / 2, &s->keys);

	pthread_mutex_lock(&s->lock);
	while (r == 0 && s->collected < s->results.n) {
		/* A batch does not change any more, but the list of batches may move. */
		const struct symbolizer_result res = s->results.p[s->collected];

		pthread_mutex_unlock(&s->lock);
		r = collect_batch(s, &res);
		s->collected += r == 0;
		pthread_mutex_lock(&s->lock);
	}
	*ret_waiting = s->outstanding;
	pthread_mutex_unlock(&s->lock);
	return r;
}

/* Counts the results of decoding, and notes what the user can change. */
static void count_files(struct symbolizer *s, uint64_t limit_ms)
{
	const struct sym_files_stats *st = sym_files_stats(s->files);
	struct tally *t = s->o.tally;
	uint64_t wrong = st->find.wrong_build_id + st->find.wrong_crc;

	tally_count(t, TALLY_ELF_BAD, st->engine.elf_bad);
	tally_count(t, TALLY_DEBUG_FILES, st->engine.debug_files);
	tally_count(t, TALLY_DEBUG_DROPPED, st->engine.dropped);
	tally_count(t, TALLY_DEBUG_REBUILT, st->engine.rebuilt);
	tally_count(t, TALLY_DEBUG_REFUSED, st->engine.refused);
	if (st->engine.refused > 0 && sym_files_refused(s->files))
		tally_note(t,
		           "debug information of %s%s exceeds the symbol budget; some functions "
		           "have no lines: raise --symbol-budget",
		           sym_files_refused(s->files),
		           st->engine.refused > 1 ? " and others" : "");
	tally_count(t, TALLY_DEBUG_BYTES, st->engine.bytes_peak);
	tally_count(t, TALLY_SYMBOLIZER_CRASHES, st->crashes);
	tally_count(t, TALLY_NAMES_GIVEN_UP, st->given_up);
	tally_count(t, TALLY_NAMES_LATE, st->late);
	if (st->late > 0)
		tally_note(t,
		           "%llu addresses have no name: symbolization ended %g s after sampling",
		           (unsigned long long)st->late, (double)limit_ms / 1e3);
	tally_count(t, TALLY_DEBUG_WRONG, wrong);
	if (wrong > 0)
		tally_note(t,
		           "%llu debug file%s of another build not used: install those of this "
		           "build",
		           (unsigned long long)wrong, wrong == 1 ? "" : "s");
	tally_count(t, TALLY_DEBUG_UNREADABLE,
	            st->find.not_regular + st->find.unreadable + st->find.bad + st->find.itself +
	                    st->engine.bad_files);
	tally_count(t, TALLY_DWARF_BAD, st->engine.bad);
	tally_count(t, TALLY_DWARF_UNSUPPORTED, st->engine.unsupported);
	tally_count(t, TALLY_DWARF_OVER_LIMIT, st->engine.over_limit + st->engine.over_steps);
	tally_count(t, TALLY_DWO_MISSING, st->engine.dwo_missing);
}

int symbolizer_finish(struct symbolizer *s, uint64_t until_ns, uint64_t limit_ms)
{
	uint64_t waiting;

	while (!symbolizer_send(s, UINT64_MAX, true)) {
		if (now_ns() > until_ns)
			symbolizer_cancel(s);
		(void)poll(NULL, 0, 1); /* the pool makes room: no job waits for this thread */
	}
	await_results(s, until_ns);
	count_files(s, limit_ms);
	finish_kernel(s);
	return symbolizer_collect(s, &waiting);
}

struct sym_named symbolizer_find(const struct symbolizer *s, uint32_t image, uint64_t addr)
{
	struct symbolizer_key key = {.addr = addr, .image = image};
	uint32_t id = s->keys ? intern_find(s->keys, &key, sizeof(key)) : INTERN_NONE;

	if (id != INTERN_NONE && id < s->names.n)
		return s->names.p[id];
	return (struct sym_named){.reason = EV_REASON_NO_MEMORY, .start = addr};
}

int symbolizer_kernel_error(struct symbolizer *s)
{
	return kernel_names_error(s->kernel);
}

uint64_t symbolizer_process_cpu_ns(const struct symbolizer *s)
{
	return sym_files_stats(s->files)->process_cpu_ns;
}

uint32_t symbolizer_process(const struct symbolizer *s)
{
	return sym_files_pid(s->files);
}
