/* SPDX-License-Identifier: Apache-2.0 */
/* The threads of a capture: D drains, W identifies, B names. */
#include "session/session_priv.h"

#include <poll.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>

/* ---- D --------------------------------------------------------------------------------------- */

static void push_item(struct ses *s, const struct ses_item *item)
{
	if (queue_push(s->q_w, item) < 0 && item->type == SES_ITEM_PROC) {
		free(item->proc.long_path);
		tally_count(&s->tally, TALLY_QUEUE_FULL, 1);
		atomic_store(&s->events_dropped, true);
	}
	/* Frames that found no place are named at the end. */
}

static void on_proc_event(void *arg, const struct ev_proc *ev)
{
	struct ses *s = arg;
	struct ses_item item;
	size_t len;

	if (ev->type == EV_PROC_KSYMBOL) {
		ses_kernel_record(s, ev);
		return;
	}
	/* With known processes to watch, the rest of the machine is dropped here. */
	if (s->o.target == SES_TARGET_PID && !s->o.follow_children && ev->type != EV_PROC_LOST &&
	    !ses_targets_have(&s->targets, ev->pid))
		return;
	item.type = SES_ITEM_PROC;
	item.n = 0;
	item.proc.ev = *ev;
	item.proc.long_path = NULL;
	item.proc.path[0] = 0;
	if (ev->type == EV_PROC_MMAP) {
		len = strlen(ev->map.path);
		if (len < sizeof(item.proc.path)) {
			memcpy(item.proc.path, ev->map.path, len + 1);
		} else {
			item.proc.long_path = strdup(ev->map.path);
			if (!item.proc.long_path) {
				tally_count(&s->tally, TALLY_QUEUE_FULL, 1);
				atomic_store(&s->events_dropped, true);
				return;
			}
		}
	}
	push_item(s, &item);
}

static void on_stack(void *arg, const struct ev_stack *st)
{
	struct ses *s = arg;
	struct ses_item item;
	bool is_new = false;

	if (prof_agg_add_stack(s->agg, st, &is_new) < 0 || !is_new)
		return; /* counted by the aggregation */
	ses_jit_stack(s, st);
	item.type = SES_ITEM_FRAMES_;
	item.n = 0;
	for (uint32_t i = 0; i < st->n; i++) {
		const struct ev_frame *f = &st->frames[i];

		if (f->space != EV_SPACE_IMAGE && f->space != EV_SPACE_KERNEL)
			continue;
		item.addrs[item.n++] = (struct ses_addr){
		        .addr = f->exact ? f->addr : f->addr - 1,
		        .image = f->space == EV_SPACE_KERNEL ? SES_KERNEL_IMAGE : f->image,
		};
		if (item.n == SES_ITEM_FRAMES) {
			push_item(s, &item);
			item.n = 0;
		}
	}
	if (item.n)
		push_item(s, &item);
}

static void on_count(void *arg, const struct ev_count *c)
{
	struct ses *s = arg;
	struct ev_count count = *c;

	ses_jit_count(s, &count);
	if (count.samples)                                /* else it told whose stack it is */
		(void)prof_agg_add_count(s->agg, &count); /* counted by the aggregation */
}

static void on_thread(void *arg, const struct ev_thread *t)
{
	struct ses *s = arg;

	(void)prof_agg_add_thread(s->agg, t); /* without it the sample has no comm label */
}

static void on_waker(void *arg, const struct ev_waker *w)
{
	const struct ses_item item = {.type = SES_ITEM_WAKER, .waker = w->proc};
	struct ses *s = arg;

	(void)prof_agg_add_waker(s->agg, w); /* counted by the aggregation */
	/* Each stack of theirs is told once; without room the next one says it. */
	if (w->ustack && !w->foreign_ns && !w->kthread && s->o.target != SES_TARGET_ALL)
		push_item(s, &item);
}

static void on_copy(void *arg, const struct ev_copy *c)
{
	struct ev_copy copy = *c;

	if (!c->promise)
		ses_jit_copy(arg, &copy.count);
	ses_copy_take(arg, &copy);
}

uint64_t ses_thread_cpu_ns(void)
{
	struct timespec ts;

	if (clock_gettime(CLOCK_THREAD_CPUTIME_ID, &ts) < 0)
		return 0;
	return (uint64_t)ts.tv_sec * NSEC_PER_SEC + (uint64_t)ts.tv_nsec;
}

/* Tells the kernel side that this thread's samples are the agent's. */
static struct ses *thread_begin(struct ses_thread *t)
{
	volatile struct abi_control *ctl = load_control(smp_loader(t->s->smp));

	ctl->agent_tids[t->slot] = (uint32_t)gettid();
	return t->s;
}

/* All that is known of processes up to now is on its way to W. */
static void push_settled(struct ses *s)
{
	const struct ses_item item = {.type = SES_ITEM_SETTLED,
	                              .settled_ns = pev_sideband_stats(s->sideband)->settled_ns};

	push_item(s, &item); /* without room the next one says it */
}

/* A program that has just loaded one thing in the place of another is likely to do it again, and
 * until that is heard of its samples there have to wait, or are wrong where the kernel side cannot
 * see mappings: its events are read so often for so long. */
#define FOLLOW_EVERY_MS 5
#define FOLLOW_NS       NSEC_PER_SEC

/* Stacks of threads that waited at the beginning are taken as W has room for them, as often. */
#define BLOCKED_EVERY_MS 2

/* How many are left. */
static size_t hand_on_blocked(struct ses *s, const struct smp_sink *sink)
{
	size_t left, before, room = ses_copy_room(s);

	/* Most are much shorter than there is room for. */
	do {
		before = room;
		left = smp_off_blocked(s->off, s->tables != NULL, room, sink);
		room = ses_copy_room(s);
	} while (left > 0 && room > 0 && room < before);
	return left;
}

static void *drain_main(void *arg)
{
	struct ses *s = thread_begin(arg);
	const struct smp_sink sink = {.stack = on_stack,
	                              .count = on_count,
	                              .thread = on_thread,
	                              .copy = on_copy,
	                              .waker = on_waker,
	                              .arg = s};
	/* The last is -1, passed over, unless there are several processes. */
	struct pollfd p[] = {{.fd = s->stop_fd, .events = POLLIN},
	                     {.fd = smp_poll_fd(s->smp), .events = POLLIN},
	                     {.fd = pev_sideband_poll_fd(s->sideband), .events = POLLIN},
	                     {.fd = s->targets.epoll_fd, .events = POLLIN}};

	const uint64_t interval_ns = (uint64_t)s->o.drain_interval_ms * NSEC_PER_MSEC;
	uint64_t now = now_ns(), due_ns = now + interval_ns;
	size_t blocked = 0; /* threads whose stacks are still to be taken */

	if (s->off)
		blocked = hand_on_blocked(s, &sink);
	for (;;) {
		int wait_ms = due_ns > now ? (int)((due_ns - now) / NSEC_PER_MSEC) + 1 : 0;

		if (now < atomic_load(&s->follow_until_ns))
			wait_ms = MIN_OF(wait_ms, FOLLOW_EVERY_MS);
		if (blocked > 0)
			wait_ms = MIN_OF(wait_ms, BLOCKED_EVERY_MS);
		(void)poll(p, ARRAY_SIZE(p), wait_ms); /* early or late: the drain is the same */
		if (p[0].revents)
			break;
		if (p[3].revents)
			ses_targets_look(s);
		now = now_ns();
		if (blocked > 0)
			blocked = hand_on_blocked(s, &sink);
		if (p[1].revents || now >= due_ns) {
			(void)smp_drain(s->smp, &sink); /* counted: read_errors */
			if (s->off)
				(void)smp_off_drain(s->off, &sink); /* as well */
			ses_jit_drained(s, &sink);
			ses_pmu_fold(s, now);
			due_ns = now + interval_ns;
		}
		(void)pev_sideband_read(s->sideband, false, on_proc_event, s);
		push_settled(s);
	}
	if (s->off)
		(void)smp_off_finish(s->off, &sink);
	(void)smp_finish(s->smp, &sink);
	(void)pev_sideband_read(s->sideband, true, on_proc_event, s);
	push_settled(s);
	queue_close(s->q_w);
	s->d.cpu_ns = ses_thread_cpu_ns();
	return NULL;
}

/* ---- W --------------------------------------------------------------------------------------- */

#define FIRST_BATCH_NS (200 * NSEC_PER_MSEC)

static struct ses_group *group_of(struct ses *s, uint32_t image)
{
	if (image >= s->n_groups) {
		uint32_t n = MAX_OF(image + 1, s->n_groups * 2);
		struct ses_group *g = reallocarray(s->groups, n, sizeof(*g));

		if (!g)
			return NULL;
		memset(g + s->n_groups, 0, (n - s->n_groups) * sizeof(*g));
		s->groups = g;
		s->n_groups = n;
	}
	return &s->groups[image];
}

void ses_request(struct ses *s, uint32_t image, uint64_t addr)
{
	struct ses_addr key = {.addr = addr, .image = image};
	struct ses_group *g;
	uint32_t id;
	bool is_new;

	if (intern_add(s->requested, &key, sizeof(key), &id, &is_new) < 0) {
		/* Over the limit: the frame stays without a name, with its reason. */
		tally_count(&s->tally, TALLY_NAMES_LOST, 1);
		return;
	}
	if (!is_new)
		return;
	g = group_of(s, image);
	if (g && !g->addrs.max)
		g->addrs.max = UINT32_MAX;
	if (!g || vec_push(&g->addrs, addr) < 0) {
		tally_count(&s->tally, TALLY_NAMES_LOST, 1);
		return;
	}
	if (g->due_ns == 0) {
		if (g->interval_ns == 0)
			g->interval_ns = FIRST_BATCH_NS;
		g->due_ns = now_ns() + g->interval_ns;
		g->interval_ns *= 2;
	}
}

void ses_job_done(struct ses_job *job, bool addrs)
{
	if (job->close_fd)
		closep(&job->fd);
	closep(&job->root_fd);
	if (addrs)
		free(job->addrs);
}

void ses_job_open(struct ses *s, struct ses_job *job)
{
	const struct trk_image *img =
	        job->image <= trk_image_cnt(s->trk) ? trk_image(s->trk, job->image) : NULL;

	job->reason = img ? img->reason : EV_REASON_NO_FILE;
	job->no_file = img && img->kind == EV_MAP_OTHER;
	if (img && img->mem) {
		job->mem = img->mem;
		job->mem_len = img->mem_len;
	} else if (img && img->reason == EV_REASON_NAMED) {
		job->fd = trk_image_fd(s->trk, job->image, &job->close_fd);
		if (job->fd < 0)
			job->reason =
			        job->fd == -ESTALE ? EV_REASON_FILE_REPLACED : EV_REASON_NO_FILE;
	}
	job->path = img ? img->path : "";
	if (img && job->type == SES_JOB_NAMES && job->reason == EV_REASON_NAMED && !img->mem)
		job->root_fd = proc_other_root(img->pid);
	if (job->root_fd >= 0)
		job->path = proc_path_inside(img->pid, img->path);
}

bool ses_send_groups(struct ses *s, uint64_t now, bool all)
{
	for (uint32_t i = 0; i < s->n_groups; i++) {
		struct ses_group *g = &s->groups[i];
		struct ses_job job = {
		        .type = SES_JOB_NAMES, .image = i, .fd = -EBADF, .root_fd = -EBADF};

		if (g->due_ns == 0 || (!all && g->due_ns > now))
			continue;
		if (i != SES_KERNEL_IMAGE)
			ses_job_open(s, &job);
		job.addrs = g->addrs.p;
		job.n = g->addrs.n;
		qsort(job.addrs, job.n, sizeof(*job.addrs), u64_cmp);
		if (queue_push(s->q_jobs, &job) < 0) {
			ses_job_done(&job, false);
			return false;
		}
		memset(&g->addrs, 0, sizeof(g->addrs));
		g->due_ns = 0;
		tally_count(&s->tally, TALLY_SYMBOL_JOBS, 1);
	}
	return true;
}

static void handle_item(struct ses *s, struct ses_item *item)
{
	switch (item->type) {
	case SES_ITEM_PROC:
		item->proc.ev.map.path =
		        item->proc.long_path ? item->proc.long_path : item->proc.path;
		trk_event(s->trk, &item->proc.ev);
		ses_jit_event(s, &item->proc.ev);
		free(item->proc.long_path);
		break;
	case SES_ITEM_FRAMES_:
		for (uint32_t i = 0; i < item->n; i++)
			ses_request(s, item->addrs[i].image, item->addrs[i].addr);
		break;
	case SES_ITEM_COPY:
		ses_copy_handle(s, item->copy);
		break;
	case SES_ITEM_JIT:
		ses_jit_seen(s, &item->jit.proc, item->jit.addrs, item->n);
		break;
	case SES_ITEM_WAKER:
		trk_learn(s->trk, &item->waker);
		break;
	case SES_ITEM_WAKE:
		if (s->tables)
			s->tables->hurry = true;
		break;
	case SES_ITEM_SETTLED:
		/* Those that D had to drop came before it. */
		if (!atomic_load(&s->events_dropped))
			trk_settled(s->trk, item->settled_ns);
		if (s->tables && s->tables->copies)
			s->tables->hurry = true;
		break;
	}
}

/* Tells D to read events often for a while. */
static void follow_closely(struct ses *s)
{
	uint64_t replaced = trk_stats(s->trk)->replaced;

	if (replaced != s->replaced)
		atomic_store(&s->follow_until_ns, now_ns() + FOLLOW_NS);
	s->replaced = replaced;
}

#define ROUND_NS (50 * NSEC_PER_MSEC)

int ses_identify_round(struct ses *s)
{
	struct ses_item item;
	uint64_t end_ns;
	int r = queue_pop(s->q_w, &item, 100 * NSEC_PER_MSEC);

	/* Not until the queue is empty: where events come faster than they can be worked on, the
	 * process map in the kernel would never be brought up to date. */
	end_ns = now_ns() + ROUND_NS;
	for (int n = 1; r == 0; n++) {
		handle_item(s, &item);
		if (n == SES_ROUND_ITEMS || now_ns() > end_ns)
			break;
		r = queue_pop(s->q_w, &item, 0);
	}
	if (atomic_exchange(&s->events_dropped, false)) {
		const struct ev_proc lost = {.type = EV_PROC_LOST, .time_ns = now_ns()};

		trk_event(s->trk, &lost);
	}
	follow_closely(s);
	trk_flush(s->trk);
	ses_jit_round(s, now_ns());
	ses_tables_round(s, now_ns());             /* before the names: they wait longer */
	(void)ses_send_groups(s, now_ns(), false); /* what finds no room goes in a later round */
	return r;
}

static void *identify_main(void *arg)
{
	struct ses *s = thread_begin(arg);

	if (s->o.target == SES_TARGET_ALL) {
		/* After sampling began: until then frames are raw addresses, which are placed at
		 * the end. */
		s->scan_error = trk_scan(s->trk, NULL);
		trk_flush(s->trk);
	}
	while (ses_identify_round(s) != -EPIPE)
		;
	ses_tables_finish(s);
	s->w.cpu_ns = ses_thread_cpu_ns();
	return NULL;
}

/* ---- B --------------------------------------------------------------------------------------- */

static int name_none(const struct ses_job *job, enum ev_reason reason, struct sym_batch *ret)
{
	int r = sym_none_resolve(reason, job->n, ret);

	for (size_t i = 0; r == 0 && i < ret->n; i++)
		ret->names[i].start = job->addrs[i];
	return r;
}

/* Tells the kernel side that samples of the process that decodes files are the agent's. */
static void leave_child_out(struct ses *s)
{
	volatile struct abi_control *ctl = load_control(smp_loader(s->smp));

	ctl->agent_child = sym_files_child(s->files);
}

/* Debug files are kept open beside the images, of which track keeps half of what is allowed. */
#define DEBUG_FDS_SHARE 8
#define DEBUG_FDS_MAX   256

static int files_new(struct ses *s, struct err *err)
{
	struct sym_files_options o = {
	        .find.dirs = s->o.debug_dirs,
	        .budget_bytes = s->o.symbol_budget_bytes,
	        .no_lines = s->o.no_lines,
	        .in_process = s->o.decode_in_process,
	};
	struct rlimit rl = {0};
	int r;

	for (; o.find.dirs && o.find.dirs[o.find.n_dirs]; o.find.n_dirs++) {
		const char *dir = o.find.dirs[o.find.n_dirs];
		struct stat st;

		if (stat(dir, &st) < 0)
			return err_set(err, -errno, "debug directory %s: %s: it must exist", dir,
			               err_name(errno));
		if (!S_ISDIR(st.st_mode))
			return err_set(err, -ENOTDIR, "debug directory %s: not a directory", dir);
	}
	if (getrlimit(RLIMIT_NOFILE, &rl) < 0)
		return err_set(err, -errno, "getrlimit: %s", err_name(errno));
	o.max_fds = (uint32_t)MIN_OF(rl.rlim_cur / DEBUG_FDS_SHARE, (rlim_t)DEBUG_FDS_MAX);
	r = sym_files_new(&o, &s->files);
	if (r < 0)
		return err_set(err, r, "symbols: %s", err_name(r));
	if (sym_files_child(s->files) == 0 && !s->o.decode_in_process)
		tally_note(&s->tally, "debug information is decoded in the agent itself: no child "
		                      "process could be made for it");
	leave_child_out(s);
	return 0;
}

void ses_files_figures(struct ses *s)
{
	const struct sym_files_stats *st = s->files ? sym_files_stats(s->files) : NULL;
	uint64_t wrong;

	if (!st)
		return;
	tally_count(&s->tally, TALLY_ELF_BAD, st->engine.elf_bad);
	tally_count(&s->tally, TALLY_DEBUG_FILES, st->engine.debug_files);
	tally_count(&s->tally, TALLY_DEBUG_DROPPED, st->engine.dropped);
	tally_count(&s->tally, TALLY_DEBUG_REBUILT, st->engine.rebuilt);
	tally_count(&s->tally, TALLY_DEBUG_REFUSED, st->engine.refused);
	if (st->engine.refused > 0 && sym_files_refused(s->files))
		tally_note(&s->tally,
		           "debug information of %s%s needs more memory than the symbol budget: "
		           "functions of it have no lines: raise --symbol-budget",
		           sym_files_refused(s->files),
		           st->engine.refused > 1 ? " and others" : "");
	tally_count(&s->tally, TALLY_DEBUG_BYTES, st->engine.bytes_peak);
	tally_count(&s->tally, TALLY_SYMBOLIZER_CRASHES, st->crashes);
	tally_count(&s->tally, TALLY_NAMES_GIVEN_UP, st->given_up);
	tally_count(&s->tally, TALLY_NAMES_LATE, st->late);
	if (st->late > 0)
		tally_note(&s->tally,
		           "%llu addresses have no name: naming was ended %g s after sampling",
		           (unsigned long long)st->late,
		           s->o.naming_limit_ms ? s->o.naming_limit_ms / 1e3
		                                : (double)SES_NAMING_NS / 1e9);
	wrong = st->find.wrong_build_id + st->find.wrong_crc;
	tally_count(&s->tally, TALLY_DEBUG_WRONG, wrong);
	if (wrong > 0)
		tally_note(&s->tally,
		           "debug files of another build were found and not used (%llu): "
		           "install those of this build",
		           (unsigned long long)wrong);
	tally_count(&s->tally, TALLY_DEBUG_UNREADABLE,
	            st->find.not_regular + st->find.unreadable + st->find.bad + st->find.itself +
	                    st->engine.bad_files);
	tally_count(&s->tally, TALLY_DWARF_BAD, st->engine.bad);
	tally_count(&s->tally, TALLY_DWARF_UNSUPPORTED, st->engine.unsupported);
	tally_count(&s->tally, TALLY_DWARF_OVER_LIMIT,
	            st->engine.over_limit + st->engine.over_steps);
	tally_count(&s->tally, TALLY_DWO_MISSING, st->engine.dwo_missing);
}

void ses_result_add(struct ses *s, struct ses_result *res)
{
	int r;

	pthread_mutex_lock(&s->results_lock);
	r = vec_push(&s->results, *res);
	pthread_mutex_unlock(&s->results_lock);
	if (r < 0) {
		/* Their frames have no name: NO_MEMORY. */
		tally_count(&s->tally, TALLY_NAMES_LOST, res->batch.n);
		sym_batch_done(&res->batch);
		free(res->addrs);
	}
}

/* Batches that go to the child at once: those that wait already. */
#define ASKED_MAX 32

struct ses_naming {
	size_t n;
	struct ses_job jobs[ASKED_MAX];
	struct sym_ask asks[ASKED_MAX];
};

static void job_named(struct ses *s, struct ses_job *job, int r, struct sym_batch *b)
{
	struct ses_result res = {.image = job->image, .addrs = job->addrs, .batch = *b};
	bool late = atomic_load(&s->ended);

	tally_count(&s->tally, TALLY_SYMBOL_ADDRS, job->n);
	tally_count(&s->tally, TALLY_SYMBOL_JOBS_LATE, late);
	tally_count(&s->tally, TALLY_SYMBOL_ADDRS_LATE, late ? job->n : 0);
	ses_job_done(job, r < 0);
	if (r < 0) /* their frames have no name: NO_MEMORY */
		tally_count(&s->tally, TALLY_NAMES_LOST, job->n);
	else
		ses_result_add(s, &res);
}

static void name_images(struct ses *s, struct ses_naming *nm)
{
	if (nm->n == 0)
		return;
	sym_files_resolve_all(s->files, nm->asks, nm->n);
	leave_child_out(s); /* it may be another one now */
	for (size_t i = 0; i < nm->n; i++)
		job_named(s, &nm->jobs[i], nm->asks[i].result, &nm->asks[i].batch);
	nm->n = 0;
}

/* A job at once, or with others of its kind. */
static void take_job(struct ses *s, struct ses_naming *nm, struct ses_job *job)
{
	struct sym_batch b = {0};
	int r;

	if (job->type == SES_JOB_TABLE) {
		ses_table_job(s, job);
	} else if (job->image == SES_KERNEL_IMAGE) {
		r = ses_kernel_names(s, job->addrs, job->n, &b);
		job_named(s, job, r, &b);
	} else if (job->reason != EV_REASON_NAMED) {
		r = name_none(job, job->reason, &b);
		job_named(s, job, r, &b);
	} else {
		nm->jobs[nm->n] = *job;
		nm->asks[nm->n++] = (struct sym_ask){
		        .src = {.id = job->image,
		                .fd = job->fd,
		                .mem = job->mem,
		                .mem_len = job->mem_len,
		                .path = job->path,
		                .root_fd = job->root_fd},
		        .offs = job->addrs,
		        .n = job->n,
		};
	}
}

static void *name_main(void *arg)
{
	struct ses_thread *me = arg;
	struct ses *s = thread_begin(me);
	struct ses_naming *nm = me->naming;
	struct ses_job job;
	int r;

	do {
		r = queue_pop(s->q_jobs, &job, nm->n ? 0 : UINT64_MAX);
		if (r == 0)
			take_job(s, nm, &job);
		if (r < 0 || nm->n == ASKED_MAX)
			name_images(s, nm);
	} while (r != -EPIPE);
	me->cpu_ns = ses_thread_cpu_ns();
	return NULL;
}

/* ---- start and stop -------------------------------------------------------------------------- */

static int start_thread(struct ses *s, struct ses_thread *t, uint32_t slot, void *(*fn)(void *),
                        const char *name, struct err *err)
{
	sigset_t all, before;
	int r;

	t->s = s;
	t->slot = slot;
	atomic_store(&t->cpu_ns, 0);
	/* Signals belong to the embedding program's threads. */
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	r = pthread_create(&t->id, NULL, fn, t);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	if (r != 0)
		return err_set(err, -r, "pthread_create: %s", err_name(r));
	t->made = true;
	(void)pthread_setname_np(t->id, name); /* for people who look with ps */
	return 0;
}

/* Waits for the end of a thread, of which at @until_ns no file is decoded any more. */
static void wait_end(struct ses_thread *t, uint64_t until_ns)
{
	/* Of the two clocks that a join can have this is the one that ThreadSanitizer knows: a step
	 * of the date changes how long names may take. */
	uint64_t now = now_ns(), end = now_realtime_ns() + (until_ns > now ? until_ns - now : 0);
	const struct timespec until = {.tv_sec = (time_t)(end / NSEC_PER_SEC),
	                               .tv_nsec = (long)(end % NSEC_PER_SEC)};

	if (until_ns == UINT64_MAX || !t->s->files) {
		(void)pthread_join(t->id, NULL);
	} else if (pthread_timedjoin_np(t->id, NULL, &until) != 0) {
		sym_files_end(t->s->files);
		(void)pthread_join(t->id, NULL);
	}
}

static void join(struct ses_thread *t, uint64_t until_ns)
{
	uint64_t unset = 0, so_far = 0;
	struct timespec ts;
	clockid_t clock;

	if (!t->made)
		return;
	/* A joined thread has no clock any more. Until it has ended and told its own figure,
	 * ses_stats gets this one. */
	if (pthread_getcpuclockid(t->id, &clock) == 0 && clock_gettime(clock, &ts) == 0)
		so_far = (uint64_t)ts.tv_sec * NSEC_PER_SEC + (uint64_t)ts.tv_nsec;
	(void)atomic_compare_exchange_strong(&t->cpu_ns, &unset,
	                                     so_far); /* fails when it has told */
	pthread_mutex_lock(&t->s->stats_lock);
	t->made = false;
	pthread_mutex_unlock(&t->s->stats_lock);
	wait_end(t, until_ns);
}

int ses_naming_start(struct ses *s, struct err *err)
{
	int r;

	s->n_b = MIN_OF(MAX_OF(s->n_cpus, 2U) - 1, (uint32_t)SES_B_MAX);
	r = queue_new(sizeof(struct ses_item), SES_QUEUE_W, &s->q_w);
	if (r == 0)
		r = queue_new(sizeof(struct ses_job), SES_QUEUE_JOBS, &s->q_jobs);
	if (r < 0)
		return err_set(err, r, "queues: %s", err_name(r));
	r = files_new(s, err);
	if (r < 0)
		return r;
	for (uint32_t i = 0; i < s->n_b && r == 0; i++) {
		s->b[i].naming = calloc(1, sizeof(*s->b[i].naming));
		r = s->b[i].naming ? start_thread(s, &s->b[i], 2 + i, name_main, "pa-name", err)
		                   : err_set(err, -ENOMEM, "out of memory");
	}
	return r;
}

int ses_threads_start(struct ses *s, struct err *err)
{
	int r;

	s->stop_fd = eventfd(0, EFD_CLOEXEC);
	if (s->stop_fd < 0)
		return err_set(err, -errno, "eventfd: %s", err_name(errno));
	r = start_thread(s, &s->w, 1, identify_main, "pa-identify", err);
	if (r == 0)
		r = start_thread(s, &s->d, 0, drain_main, "pa-drain", err);
	return r;
}

void ses_threads_stop(struct ses *s)
{
	uint64_t one = 1;

	if (s->d.made) {
		(void)file_write_full(s->stop_fd, &one,
		                      sizeof(one)); /* an eventfd at 0 takes a 1 */
		join(&s->d, UINT64_MAX);
	} else if (s->q_w) {
		queue_close(s->q_w);
	}
	if (s->tables && atomic_load(&s->tables->abandoned))
		atomic_store(&s->tables->cancel, true);
	join(&s->w, UINT64_MAX);
	if (s->tables)
		atomic_store(&s->tables->cancel, true);
}

void ses_naming_stop(struct ses *s, uint64_t until_ns)
{
	if (s->q_jobs)
		queue_close(s->q_jobs);
	for (uint32_t i = 0; i < s->n_b; i++)
		join(&s->b[i], until_ns);
	for (uint32_t i = 0; i < s->n_b; i++)
		freep(&s->b[i].naming);
}
