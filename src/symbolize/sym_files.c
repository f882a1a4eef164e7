/* SPDX-License-Identifier: Apache-2.0 */
/* Names, lines and inlined calls of images: keeps the process that decodes them, and restarts
 * it. */
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <sys/syscall.h>

#include "symbolize/sym_process.h"

#define BUDGET_DEFAULT_BYTES ((size_t)64 << 20)
#define FDS_DEFAULT          64
/* A process that died is replaced at once, up to RESTARTS_MAX times. BATCHES_START good batches, or
 * a second without a start, allow one more. Otherwise addresses stay without a name. */
#define RESTARTS_MAX  32
#define BATCHES_START 16
/* Most bytes that are sent at once, unless one batch alone is larger: the process holds them
 * all. */
#define SEND_BYTES ((size_t)1 << 20)

struct sym_files {
	struct sym_files_options o;
	char **dirs;
	struct sym_engine_options eo;
	struct sym_files_stats stats;
	/* Guards all members below. One batch at a time is decoded. Leaf. */
	pthread_mutex_t lock;
	struct sym_engine *engine; /* decodes in this process; NULL: struct sym_process does */
	struct sym_process process;
	_Atomic uint32_t process_pid;
	struct sym_engine_stats process_stats; /* of this process, already in stats */
	uint64_t process_cpu_ns;
	uint32_t restarts, good_batches;
	uint64_t restart_ns;
	struct intern *given_up;  /* ids of images whose decoding ended a process */
	pthread_mutex_t end_lock; /* guards ended and end_fd; leaf, below lock */
	bool ended;
	int end_fd; /* pidfd of the process, for sym_files_end during a batch; -EBADF: none */
	_Atomic(char *) refused; /* path, set once */
};

static int help_parts(void *arg, const struct sym_source *src, struct sym_parts *ret)
{
	struct sym_files *c = arg;

	return sym_parts_find(&c->o.find, &c->stats.find, src, ret);
}

static int help_dwo(void *arg, const struct sym_source *src, const char *dir, const char *name,
                    int *ret_fd)
{
	struct sym_files *c = arg;

	return sym_find_dwo(&c->o.find, &c->stats.find, dir, name, src->root_fd, ret_fd);
}

/* ---- who decodes ----------------------------------------------------------------------------- */

static bool is_given_up(const struct sym_files *c, uint32_t id)
{
	return intern_find(c->given_up, &id, sizeof(id)) != INTERN_NONE;
}

static bool has_ended(struct sym_files *c)
{
	bool ended;

	pthread_mutex_lock(&c->end_lock);
	ended = c->ended;
	pthread_mutex_unlock(&c->end_lock);
	return ended;
}

/* Makes a new process known to sym_files_end. Returns false if that was called already, or if the
 * descriptor cannot be duplicated. */
static bool may_be_ended(struct sym_files *c)
{
	int fd = fcntl(c->process.pidfd, F_DUPFD_CLOEXEC, 3);
	bool good;

	pthread_mutex_lock(&c->end_lock);
	good = fd >= 0 && !c->ended;
	closep(&c->end_fd);
	c->end_fd = fd;
	pthread_mutex_unlock(&c->end_lock);
	return good;
}

void sym_files_end(struct sym_files *c)
{
	pthread_mutex_lock(&c->end_lock);
	c->ended = true;
	if (c->end_fd >= 0)
		(void)syscall(SYS_pidfd_send_signal, c->end_fd, SIGKILL, NULL,
		              0U); /* it may have ended */
	pthread_mutex_unlock(&c->end_lock);
}

/* Returns true if there is a process, or one could be started. Under lock. */
static bool have_process(struct sym_files *c)
{
	if (sym_process_lives(&c->process))
		return true;
	if (c->restarts == RESTARTS_MAX && now_ns() - c->restart_ns < NSEC_PER_SEC)
		return false;
	if (c->restarts == RESTARTS_MAX)
		c->restarts--;
	c->restart_ns = now_ns();
	c->restarts++;
	if (sym_process_start(&c->eo, &c->process) < 0)
		return false;
	if (!may_be_ended(c)) {
		sym_process_stop(&c->process);
		return false;
	}
	memset(&c->process_stats, 0, sizeof(c->process_stats));
	c->process_cpu_ns = 0;
	c->process_pid = (uint32_t)c->process.pid;
	return true;
}

/* Adds what the process counted since the batch before. Under lock. */
static void add_stats(struct sym_files *c, const struct sym_engine_stats *now, uint64_t cpu_ns)
{
	struct sym_engine_stats *to = &c->stats.engine;
	const struct sym_engine_stats *seen = &c->process_stats;

	to->debug_files += now->debug_files - seen->debug_files;
	to->dropped += now->dropped - seen->dropped;
	to->rebuilt += now->rebuilt - seen->rebuilt;
	to->refused += now->refused - seen->refused;
	to->bad_files += now->bad_files - seen->bad_files;
	to->bad += now->bad - seen->bad;
	to->unsupported += now->unsupported - seen->unsupported;
	to->over_limit += now->over_limit - seen->over_limit;
	to->over_steps += now->over_steps - seen->over_steps;
	to->dwo_missing += now->dwo_missing - seen->dwo_missing;
	to->elf_bad += now->elf_bad - seen->elf_bad;
	if (now->bytes_peak > to->bytes_peak)
		to->bytes_peak = now->bytes_peak;
	memcpy(&c->process_stats, now, sizeof(c->process_stats));
	c->stats.process_cpu_ns += cpu_ns - c->process_cpu_ns;
	c->process_cpu_ns = cpu_ns;
}

static int none(struct sym_files *c, enum ev_reason reason, struct sym_request *a)
{
	if (reason == EV_REASON_LATE)
		c->stats.late += a->n;
	else
		c->stats.given_up += a->n;
	return sym_batch_none(reason, a->offs, a->n, &a->batch);
}

/* Keeps the path of the first file whose debug information was refused. Under lock. */
static void note_refused(struct sym_files *c, uint64_t before, const struct sym_request *a)
{
	if (c->stats.engine.refused > before && !c->refused)
		c->refused = strdup(a->src.path); /* NULL: the next one is kept */
}

/* Receives the answer to one batch. Returns -EIO if the process died. Under lock. */
static int receive_answer(struct sym_files *c, struct sym_request *a)
{
	struct sym_engine_stats now;
	uint64_t cpu_ns, refused = c->stats.engine.refused;
	uint32_t id;
	int r;

	r = sym_process_receive(&c->process, &c->eo.helper, a, &a->batch, &now, &cpu_ns);
	if (r == 0) {
		add_stats(c, &now, cpu_ns);
		note_refused(c, refused, a);
		if (++c->good_batches % BATCHES_START == 0 && c->restarts > 0)
			c->restarts--;
	}
	if (r != -EIO)
		return r;
	c->process_pid = 0;
	if (has_ended(c))
		return none(c, EV_REASON_LATE, a);
	/* Either its file ended the process, or something else did. The next batch gets a new
	 * process. */
	c->stats.crashes++;
	r = intern_add(c->given_up, &a->src.id, sizeof(a->src.id), &id, NULL);
	if (r < 0)
		c->stats.given_up += a->n;
	return r < 0 ? r : none(c, EV_REASON_GIVEN_UP, a);
}

/* Returns how many of v[n] are sent at once. The first is known to be sent. */
static size_t count_sendable(const struct sym_files *c, const struct sym_request *v, size_t n)
{
	size_t bytes = 0, i;

	for (i = 0; i < MIN_OF(n, (size_t)SYM_WIRE_REQUESTS_MAX); i++) {
		bytes += v[i].n * sizeof(*v[i].offs) + (v[i].src.mem ? v[i].src.mem_len : 0);
		if (i > 0 && (bytes > SEND_BYTES || is_given_up(c, v[i].src.id)))
			break;
	}
	return i;
}

/* Resolves some of v[n]: returns how many have their result. Under lock. */
static size_t resolve_some(struct sym_files *c, struct sym_request *v, size_t n)
{
	uint64_t refused = c->stats.engine.refused;
	size_t k, i;
	int r;

	if (has_ended(c)) {
		v->result = none(c, EV_REASON_LATE, v);
		return 1;
	}
	if (c->engine) {
		v->result = sym_engine_resolve(c->engine, &v->src, v->offs, v->n, &v->batch);
		note_refused(c, refused, v);
		return 1;
	}
	if (is_given_up(c, v->src.id) || !have_process(c)) {
		v->result = none(c, has_ended(c) ? EV_REASON_LATE : EV_REASON_GIVEN_UP, v);
		return 1;
	}
	k = count_sendable(c, v, n);
	r = sym_process_send(&c->process, v, k);
	if (r == -ENOMEM) {
		v->result = r;
		return 1;
	}
	/* The first batch without an answer ended the process; those after it are sent again. */
	for (i = 0; i < k && (i == 0 || c->process.sock >= 0); i++)
		v[i].result = receive_answer(c, &v[i]);
	return i;
}

void sym_files_resolve_all(struct sym_files *c, struct sym_request *v, size_t n)
{
	pthread_mutex_lock(&c->lock);
	for (size_t i = 0; i < n;)
		i += resolve_some(c, v + i, n - i);
	pthread_mutex_unlock(&c->lock);
}

int sym_files_resolve(struct sym_files *c, const struct sym_source *src, const uint64_t *offs,
                      size_t n, struct sym_batch *ret)
{
	struct sym_request a = {.src = *src, .offs = offs, .n = n};

	sym_files_resolve_all(c, &a, 1);
	if (a.result == 0)
		*ret = a.batch;
	return a.result;
}

const char *sym_files_refused(const struct sym_files *c)
{
	return c->refused;
}

uint32_t sym_files_pid(const struct sym_files *c)
{
	return c->process_pid;
}

const struct sym_files_stats *sym_files_stats(const struct sym_files *c)
{
	return &c->stats;
}

/* ---- life ------------------------------------------------------------------------------------ */

struct sym_files *sym_files_free(struct sym_files *c)
{
	if (!c)
		return NULL;
	sym_process_stop(&c->process);
	c->engine = sym_engine_free(c->engine);
	c->given_up = intern_free(c->given_up);
	for (size_t i = 0; c->dirs && i < c->o.find.n_dirs; i++)
		free(c->dirs[i]);
	free(c->dirs);
	closep(&c->end_fd);
	free(c->refused);
	(void)pthread_mutex_destroy(&c->lock); /* no thread uses it any more */
	(void)pthread_mutex_destroy(&c->end_lock);
	free(c);
	return NULL;
}

void sym_files_freep(struct sym_files **c)
{
	*c = sym_files_free(*c);
}

static int copy_dirs(struct sym_files *c)
{
	c->dirs = calloc(c->o.find.n_dirs + 1, sizeof(*c->dirs));
	if (!c->dirs)
		return -ENOMEM;
	for (size_t i = 0; i < c->o.find.n_dirs; i++) {
		c->dirs[i] = strdup(c->o.find.dirs[i]);
		if (!c->dirs[i])
			return -ENOMEM;
	}
	c->o.find.dirs = (const char *const *)c->dirs;
	return 0;
}

int sym_files_new(const struct sym_files_options *o, struct sym_files **ret)
{
	_cleanup_(sym_files_freep) struct sym_files *c = calloc(1, sizeof(*c));
	int r;

	if (!c)
		return -ENOMEM;
	(void)pthread_mutex_init(&c->lock, NULL); /* cannot fail with default attributes */
	(void)pthread_mutex_init(&c->end_lock, NULL);
	c->end_fd = -EBADF;
	c->process.sock = c->process.pidfd = -EBADF;
	c->o = *o;
	c->eo = (struct sym_engine_options){
	        .helper = {.parts = help_parts, .dwo = help_dwo, .arg = c},
	        .stats = &c->stats.engine,
	        .budget_bytes = o->budget_bytes ? o->budget_bytes : BUDGET_DEFAULT_BYTES,
	        .max_fds = o->process_fds,
	        .no_lines = o->no_lines,
	};
	r = copy_dirs(c);
	if (r == 0)
		r = intern_new(UINT32_MAX - 1, SIZE_MAX / 2, &c->given_up);
	if (r == 0 && (o->in_process || !have_process(c))) {
		c->eo.max_fds = o->max_fds ? o->max_fds : FDS_DEFAULT;
		r = sym_engine_new(&c->eo, &c->engine);
	}
	if (r < 0)
		return r;
	*ret = TAKE_PTR(c);
	return 0;
}
