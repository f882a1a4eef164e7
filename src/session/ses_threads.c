/* SPDX-License-Identifier: Apache-2.0 */
/* The threads of a capture: D drains, W identifies; B is a pool of threads that name and build. */
#include "session/session_priv.h"

#include <poll.h>
#include <sys/eventfd.h>

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
		symbolizer_kernel_record(s->symbolizer, ev);
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
	jit_add_stack(s->jit, st);
	item.type = SES_ITEM_FRAMES_;
	item.n = 0;
	for (uint32_t i = 0; i < st->n; i++) {
		const struct ev_frame *f = &st->frames[i];

		if (f->space != EV_SPACE_IMAGE && f->space != EV_SPACE_KERNEL)
			continue;
		item.addrs[item.n++] = (struct ses_addr){
		        .addr = f->exact ? f->addr : f->addr - 1,
		        .image = f->space == EV_SPACE_KERNEL ? SYMBOLIZER_KERNEL : f->image,
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

	jit_stamp(s->jit, &count);
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
	struct ses *s = arg;
	struct ev_copy copy = *c;

	if (!c->promise)
		jit_stamp_deferred(s->jit, &copy.count);
	deferred_add(s->deferred, &copy);
}

/* Tells the kernel side that samples of this thread are the agent's. */
static void thread_begin(const struct ses *s, uint32_t slot)
{
	volatile struct abi_control *ctl = load_control(smp_loader(s->smp));

	ctl->agent_tids[slot] = (uint32_t)gettid();
}

static bool on_jit_sample(void *arg, const struct ev_proc_id *id, const uint64_t *addrs, uint32_t n)
{
	struct ses_item item = {.type = SES_ITEM_JIT, .n = n, .jit = {.proc = *id}};
	const struct ses *s = arg;

	memcpy(item.jit.addrs, addrs, n * sizeof(*addrs));
	return queue_push(s->q_w, &item) == 0;
}

static void on_jit_epoch(void *arg, void *drain, uint16_t epoch)
{
	const struct ses *s = arg;

	(void)smp_take(s->smp, drain); /* counted: read_errors */
	load_control(smp_loader(s->smp))->jit_epoch = epoch;
}

static const char *image_path(void *arg, uint32_t image)
{
	const struct trk_image *img = trk_image(((const struct ses *)arg)->trk, image);

	return img ? img->path : NULL;
}

static bool is_tracked(void *arg, uint32_t pid)
{
	const struct ev_proc_id id = {.pid = pid};

	return trk_proc_reason(((const struct ses *)arg)->trk, &id) != EV_REASON_NO_MAPPING;
}

int ses_jit_new(struct ses *s)
{
	const struct jit_options o = {.tally = &s->tally,
	                              .agg = s->agg,
	                              .interval_ns = s->o.drain_interval_ms * NSEC_PER_MSEC,
	                              .targets = s->targets.pids,
	                              .n_targets = s->o.target == SES_TARGET_PID ? s->targets.n : 0,
	                              .sampled = on_jit_sample,
	                              .end_epoch = on_jit_epoch,
	                              .image_path = image_path,
	                              .is_tracked = is_tracked,
	                              .arg = s};

	return jit_new(&o, &s->jit);
}

static bool push_deferred(void *arg, struct deferred_sample *k)
{
	const struct ses_item item = {.type = SES_ITEM_COPY, .copy = k};

	return queue_push(((const struct ses *)arg)->q_w, &item) == 0;
}

/* W need not be woken while it has work. Closed: it waits for tables by itself. */
static void wake_tracker(void *arg)
{
	const struct ses_item item = {.type = SES_ITEM_WAKE};
	const struct ses *s = arg;

	if (queue_len(s->q_w) == 0)
		(void)queue_push(s->q_w, &item);
}

static void on_deferred_frame(void *arg, uint32_t image, uint64_t addr)
{
	symbolizer_request(((const struct ses *)arg)->symbolizer, image, addr);
}

static void on_deferred_walk(void *arg, struct ev_count *count, const struct ev_stack *st)
{
	jit_walked(((const struct ses *)arg)->jit, count, st);
}

static bool reread_stack(void *arg, struct ev_copy *c, uint8_t *stack)
{
	const struct ses *s = arg;

	return s->off && smp_off_reread(s->off, c, stack);
}

int ses_deferred_new(struct ses *s, const struct uw_rules_mem *rules,
                     const struct uw_backing *backing, struct abi_control *control, struct err *err)
{
	const struct deferred_options o = {.tally = &s->tally,
	                                   .trk = s->trk,
	                                   .agg = s->agg,
	                                   .rules = rules,
	                                   .backing = backing,
	                                   .control = control,
	                                   .budget_bytes = s->o.table_budget_bytes
	                                                           ? s->o.table_budget_bytes
	                                                           : SES_BUDGET_BYTES,
	                                   .all = s->o.unwind == SES_UNWIND_DWARF,
	                                   .hash_seed = s->hash_seed,
	                                   .push = push_deferred,
	                                   .wake = wake_tracker,
	                                   .symbolize = on_deferred_frame,
	                                   .walked = on_deferred_walk,
	                                   .reread = reread_stack,
	                                   .arg = s,
	                                   .compare = s->o.copy_fn,
	                                   .compare_arg = s->o.copy_arg};

	return deferred_new(&o, &s->deferred, err);
}

int ses_prepare_check(void *arg)
{
	const struct ses *s = arg;
	struct pollfd p = {.fd = s->ended_fd, .events = POLLIN};

	if (s->ended_fd >= 0 && poll(&p, 1, 0) > 0)
		return -ESRCH;
	return atomic_load(&s->interrupted) ? -EINTR : 0;
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

/* 32-bit sums of a process wrap after 2^31 switches, a minute at the very least. */
#define FOLD_EVERY_MS 1000

/* Stacks of threads that waited at the beginning are taken as W has room for them, as often. */
#define BLOCKED_EVERY_MS 2

size_t ses_deferred_room(const struct ses *s)
{
	const size_t queued = queue_len(s->q_w), max = SES_QUEUE_W / 2;

	if (!deferred_has_tables(s->deferred))
		return SIZE_MAX; /* no sample is deferred */
	return MIN_OF(deferred_room(s->deferred), queued < max ? max - queued : 0);
}

/* Returns how many are left. */
static size_t hand_on_blocked(struct ses *s, const struct smp_sink *sink)
{
	size_t left, before, room = ses_deferred_room(s);

	/* Most are much shorter than there is room for. */
	do {
		before = room;
		left = smp_off_blocked(s->off, deferred_has_tables(s->deferred), room, sink);
		room = ses_deferred_room(s);
	} while (left > 0 && room > 0 && room < before);
	return left;
}

static void drain_main(void *arg)
{
	struct ses *s = arg;
	struct smp_sink drain = {.stack = on_stack,
	                         .count = on_count,
	                         .thread = on_thread,
	                         .copy = on_copy,
	                         .waker = on_waker,
	                         .arg = s};
	const struct smp_sink sink = drain;
	/* The last is -1, passed over, unless there are several processes. */
	struct pollfd p[] = {{.fd = s->stop_fd, .events = POLLIN},
	                     {.fd = smp_poll_fd(s->smp), .events = POLLIN},
	                     {.fd = pev_sideband_poll_fd(s->sideband), .events = POLLIN},
	                     {.fd = s->targets.epoll_fd, .events = POLLIN}};

	const uint64_t interval_ns = (uint64_t)s->o.drain_interval_ms * NSEC_PER_MSEC;
	uint64_t now = now_ns(), due_ns = now + interval_ns;
	size_t blocked = 0; /* threads whose stacks are still to be taken */

	thread_begin(s, 0);
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
			jit_drained(s->jit, &drain);
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
}

/* The same for scheduler statistics alone: there are no rings and no side-band. */
static void fold_main(void *arg)
{
	struct ses *s = arg;
	struct pollfd p[] = {{.fd = s->stop_fd, .events = POLLIN},
	                     {.fd = s->targets.epoll_fd, .events = POLLIN}};

	thread_begin(s, 0);
	for (;;) {
		(void)poll(p, ARRAY_SIZE(p), FOLD_EVERY_MS); /* early or late: it is the same */
		if (p[0].revents)
			break;
		if (p[1].revents)
			ses_targets_look(s);
		ses_pmu_fold(s, now_ns());
	}
}

/* ---- W --------------------------------------------------------------------------------------- */

static void handle_item(struct ses *s, struct ses_item *item)
{
	switch (item->type) {
	case SES_ITEM_PROC:
		item->proc.ev.map.path =
		        item->proc.long_path ? item->proc.long_path : item->proc.path;
		trk_event(s->trk, &item->proc.ev);
		jit_event(s->jit, &item->proc.ev);
		free(item->proc.long_path);
		break;
	case SES_ITEM_FRAMES_:
		for (uint32_t i = 0; i < item->n; i++)
			symbolizer_request(s->symbolizer, item->addrs[i].image,
			                   item->addrs[i].addr);
		break;
	case SES_ITEM_COPY:
		deferred_receive(s->deferred, item->copy);
		break;
	case SES_ITEM_JIT:
		jit_watch(s->jit, &item->jit.proc, item->jit.addrs, item->n);
		break;
	case SES_ITEM_WAKER:
		trk_learn(s->trk, &item->waker);
		break;
	case SES_ITEM_WAKE:
		deferred_hurry(s->deferred, true);
		break;
	case SES_ITEM_SETTLED:
		/* Those that D had to drop came before it. */
		if (!atomic_load(&s->events_dropped))
			trk_settled(s->trk, item->settled_ns);
		deferred_hurry(s->deferred, false);
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
	jit_round(s->jit, now_ns(), (uint32_t)trk_image_cnt(s->trk));
	deferred_round(s->deferred, now_ns()); /* before the names: they wait longer */
	(void)symbolizer_send(s->symbolizer, now_ns(),
	                      false); /* what finds no room goes in a later round */
	return r;
}

static void identify_main(void *arg)
{
	struct ses *s = arg;

	thread_begin(s, 1);
	if (s->o.target == SES_TARGET_ALL) {
		/* After sampling began: until then frames are raw addresses, which are placed at
		 * the end. */
		s->scan_error = trk_scan(s->trk, NULL);
		trk_flush(s->trk);
	}
	while (ses_identify_round(s) != -EPIPE)
		;
	deferred_finish(s->deferred);
}

/* ---- B --------------------------------------------------------------------------------------- */

static void on_worker(void *arg, uint32_t i)
{
	thread_begin(arg, 2 + i);
}

static void open_image(void *arg, uint32_t image, struct trk_open *ret)
{
	const struct ses *s = arg;

	trk_image_open(s->trk, image, true, ret);
}

/* Tells the kernel side that samples of the symbolizer process are the agent's. */
static void on_symbolizer_process(void *arg, uint32_t pid)
{
	const struct ses *s = arg;
	volatile struct abi_control *ctl = load_control(smp_loader(s->smp));

	ctl->agent_child = pid;
}

/* ---- start and stop -------------------------------------------------------------------------- */

int ses_naming_start(struct ses *s, struct err *err)
{
	const struct pool_options po = {.name = "pa-name",
	                                .n_threads = MIN_OF(MAX_OF(s->n_cpus, 2U) - 1,
	                                                    (uint32_t)SES_B_MAX),
	                                .max_jobs = SES_POOL_JOBS,
	                                .begin = on_worker,
	                                .arg = s};
	struct symbolizer_options so = {.tally = &s->tally,
	                                .open = open_image,
	                                .child = on_symbolizer_process,
	                                .arg = s,
	                                .debug_dirs = s->o.debug_dirs,
	                                .budget_bytes = s->o.symbol_budget_bytes,
	                                .no_lines = s->o.no_lines,
	                                .in_process = s->o.decode_in_process};
	int r = queue_new(sizeof(struct ses_item), SES_QUEUE_W, &s->q_w);

	if (r < 0)
		return err_set(err, r, "queues: %s", err_name(r));
	r = symbolizer_new(&so, &s->symbolizer, err); /* forks: before there are threads */
	if (r < 0)
		return r;
	r = pool_new(&po, &s->pool);
	if (r < 0)
		return err_set(err, r, "pthread_create: %s", err_name(r));
	symbolizer_use(s->symbolizer, s->pool);
	deferred_use(s->deferred, s->pool);
	return 0;
}

int ses_threads_start(struct ses *s, struct err *err)
{
	int r;

	s->stop_fd = eventfd(0, EFD_CLOEXEC);
	if (s->stop_fd < 0)
		return err_set(err, -errno, "eventfd: %s", err_name(errno));
	r = ses_walks(s) ? thread_start(&s->w, identify_main, s, "pa-identify") : 0;
	if (r == 0)
		r = thread_start(&s->d, ses_walks(s) ? drain_main : fold_main, s, "pa-drain");
	return r < 0 ? err_set(err, r, "pthread_create: %s", err_name(r)) : 0;
}

void ses_threads_stop(struct ses *s)
{
	uint64_t one = 1;

	if (s->d.made) {
		(void)file_write_full(s->stop_fd, &one,
		                      sizeof(one)); /* an eventfd at 0 takes a 1 */
		thread_join(&s->d);
	} else if (s->q_w) {
		queue_close(s->q_w);
	}
	if (s->deferred)
		deferred_cancel(s->deferred, true);
	thread_join(&s->w);
	if (s->deferred)
		deferred_cancel(s->deferred, false);
}

void ses_naming_stop(struct ses *s)
{
	if (s->symbolizer)
		symbolizer_cancel(s->symbolizer);
	s->pool = pool_free(s->pool);
}
