/* SPDX-License-Identifier: Apache-2.0 */
/* The threads of a capture: D drains, W identifies, B names. */
#include "session/session_priv.h"

#include <poll.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <time.h>

/* ---- D --------------------------------------------------------------------------------------- */

static void push_item(struct ses *s, const struct ses_item *item)
{
	if (queue_push(s->q_w, item) < 0 && item->type == SES_ITEM_PROC) {
		free(item->proc.long_path);
		ses_count(s, SES_CNT_QUEUE_FULL, 1);
		atomic_store(&s->events_dropped, true);
	}
	/* Frames that found no place are named at the end. */
}

static void on_proc_event(void *arg, const struct ev_proc *ev)
{
	struct ses *s = arg;
	struct ses_item item;
	size_t len;

	/* With one process to watch, the rest of the machine is dropped here. */
	if (s->o.target == SES_TARGET_PID && ev->pid != s->target_pid && ev->type != EV_PROC_LOST)
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
				ses_count(s, SES_CNT_QUEUE_FULL, 1);
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

	(void)prof_agg_add_count(s->agg, c); /* counted by the aggregation */
}

static void on_thread(void *arg, const struct ev_thread *t)
{
	struct ses *s = arg;

	(void)prof_agg_add_thread(s->agg, t); /* without it the sample has no comm label */
}

static void on_copy(void *arg, const struct ev_copy *c)
{
	ses_copy_take(arg, c);
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

static void *drain_main(void *arg)
{
	struct ses *s = thread_begin(arg);
	const struct smp_sink sink = {.stack = on_stack,
	                              .count = on_count,
	                              .thread = on_thread,
	                              .copy = on_copy,
	                              .arg = s};
	struct pollfd p[3] = {{.fd = s->stop_fd, .events = POLLIN},
	                      {.fd = smp_poll_fd(s->smp), .events = POLLIN},
	                      {.fd = pev_sideband_poll_fd(s->sideband), .events = POLLIN}};

	for (;;) {
		(void)poll(p, 3,
		           (int)s->o.drain_interval_ms); /* early or late: the drain is the same */
		if (p[0].revents)
			break;
		(void)smp_drain(s->smp, &sink); /* counted: read_errors */
		(void)pev_sideband_read(s->sideband, false, on_proc_event, s);
	}
	(void)smp_finish(s->smp, &sink);
	(void)pev_sideband_read(s->sideband, true, on_proc_event, s);
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
		ses_count(s, SES_CNT_NAMES_LOST, 1);
		return;
	}
	if (!is_new)
		return;
	g = group_of(s, image);
	if (g && !g->addrs.max)
		g->addrs.max = UINT32_MAX;
	if (!g || vec_push(&g->addrs, addr) < 0) {
		ses_count(s, SES_CNT_NAMES_LOST, 1);
		return;
	}
	if (g->due_ns == 0) {
		if (g->interval_ns == 0)
			g->interval_ns = FIRST_BATCH_NS;
		g->due_ns = now_ns() + g->interval_ns;
		g->interval_ns *= 2;
	}
}

static int cmp_u64(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return (x > y) - (x < y);
}

void ses_job_done(struct ses_job *job, bool addrs)
{
	if (job->close_fd)
		closep(&job->fd);
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
}

bool ses_send_groups(struct ses *s, uint64_t now, bool all)
{
	for (uint32_t i = 0; i < s->n_groups; i++) {
		struct ses_group *g = &s->groups[i];
		struct ses_job job = {.type = SES_JOB_NAMES, .image = i, .fd = -EBADF};

		if (g->due_ns == 0 || (!all && g->due_ns > now))
			continue;
		if (i != SES_KERNEL_IMAGE)
			ses_job_open(s, &job);
		job.addrs = g->addrs.p;
		job.n = g->addrs.n;
		qsort(job.addrs, job.n, sizeof(*job.addrs), cmp_u64);
		if (queue_push(s->q_jobs, &job) < 0) {
			ses_job_done(&job, false);
			return false;
		}
		memset(&g->addrs, 0, sizeof(g->addrs));
		g->due_ns = 0;
		ses_count(s, SES_CNT_SYMBOL_JOBS, 1);
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
		free(item->proc.long_path);
		break;
	case SES_ITEM_FRAMES_:
		for (uint32_t i = 0; i < item->n; i++)
			ses_request(s, item->addrs[i].image, item->addrs[i].addr);
		break;
	case SES_ITEM_COPY:
		ses_copy_handle(s, item->copy);
		break;
	case SES_ITEM_WAKE:
		if (s->tables)
			s->tables->hurry = true;
		break;
	}
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
	trk_flush(s->trk);
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

static struct sym_kernel *kernel_symbols(struct ses *s)
{
	struct sym_kernel *k;

	pthread_mutex_lock(&s->kernel_lock);
	if (!s->kernel_tried) {
		s->kernel_tried = true;
		s->kernel_error = sym_kernel_load("/proc/kallsyms", &s->kernel, NULL);
		if (s->kernel)
			ses_count(s, SES_CNT_KALLSYMS_BAD, sym_kernel_bad_lines(s->kernel));
	}
	k = s->kernel;
	pthread_mutex_unlock(&s->kernel_lock);
	return k;
}

static int name_none(const struct ses_job *job, enum ev_reason reason, struct sym_batch *ret)
{
	int r = sym_none_resolve(reason, job->n, ret);

	for (size_t i = 0; r == 0 && i < ret->n; i++)
		ret->names[i].start = job->addrs[i];
	return r;
}

static int name_kernel(struct ses *s, const struct ses_job *job, struct sym_batch *ret)
{
	struct sym_kernel *k = kernel_symbols(s);

	if (k)
		return sym_kernel_resolve(k, job->addrs, job->n, ret);
	return name_none(
	        job, s->kernel_error == -EPERM ? EV_REASON_KALLSYMS_HIDDEN : EV_REASON_NO_KALLSYMS,
	        ret);
}

static int name_image(struct ses *s, const struct ses_job *job, struct sym_batch *ret)
{
	_cleanup_(img_file_freep) struct img_file *f = NULL;
	int r;

	if (job->reason != EV_REASON_NAMED)
		return name_none(job, job->reason, ret);
	r = job->mem ? img_file_open_mem(job->mem, job->mem_len, &f, NULL)
	             : img_file_open(job->fd, &f, NULL);
	if (r == -ENOMEM)
		return r;
	if (r < 0)
		return name_none(job,
		                 r == -ENOEXEC  ? EV_REASON_NOT_ELF
		                 : r == -EINVAL ? EV_REASON_BAD_ELF
		                                : EV_REASON_NO_FILE,
		                 ret);
	r = sym_elf_resolve(f, job->addrs, job->n, ret);
	/* What has no name is shown by the address that nm and objdump print. */
	for (size_t i = 0; r == 0 && i < ret->n; i++)
		if (ret->names[i].reason != EV_REASON_NAMED &&
		    img_off_to_vaddr(f, job->addrs[i], &ret->names[i].start) < 0)
			ret->names[i].start = job->addrs[i];
	ses_count(s, SES_CNT_ELF_BAD, img_bad_items(f));
	return r;
}

void ses_result_add(struct ses *s, struct ses_result *res)
{
	int r;

	pthread_mutex_lock(&s->results_lock);
	r = vec_push(&s->results, *res);
	pthread_mutex_unlock(&s->results_lock);
	if (r < 0) {
		/* Their frames have no name: NO_MEMORY. */
		ses_count(s, SES_CNT_NAMES_LOST, res->batch.n);
		sym_batch_done(&res->batch);
		free(res->addrs);
	}
}

static void *name_main(void *arg)
{
	struct ses_thread *me = arg;
	struct ses *s = thread_begin(me);
	struct ses_job job;

	while (queue_pop(s->q_jobs, &job, UINT64_MAX) == 0) {
		struct ses_result res = {.image = job.image, .addrs = job.addrs};
		int r;

		if (job.type == SES_JOB_TABLE) {
			ses_table_job(s, &job);
			continue;
		}
		r = job.image == SES_KERNEL_IMAGE ? name_kernel(s, &job, &res.batch)
		                                  : name_image(s, &job, &res.batch);
		ses_job_done(&job, r < 0);
		if (r < 0) /* their frames have no name: NO_MEMORY */
			ses_count(s, SES_CNT_NAMES_LOST, job.n);
		else
			ses_result_add(s, &res);
	}
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

static void join(struct ses_thread *t)
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
	(void)pthread_join(t->id, NULL);
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
	for (uint32_t i = 0; i < s->n_b && r == 0; i++)
		r = start_thread(s, &s->b[i], 2 + i, name_main, "pa-name", err);
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
		join(&s->d);
	} else if (s->q_w) {
		queue_close(s->q_w);
	}
	if (s->tables && atomic_load(&s->tables->abandoned))
		atomic_store(&s->tables->cancel, true);
	join(&s->w);
	if (s->tables)
		atomic_store(&s->tables->cancel, true);
}

void ses_naming_stop(struct ses *s)
{
	if (s->q_jobs)
		queue_close(s->q_jobs);
	for (uint32_t i = 0; i < s->n_b; i++)
		join(&s->b[i]);
}
