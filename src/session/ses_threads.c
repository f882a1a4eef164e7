/* SPDX-License-Identifier: Apache-2.0 */
/* The threads of a capture: the drain thread and the tracker. */
#include "session/session_priv.h"

#include <poll.h>
#include <sys/eventfd.h>

/* ---- drain thread ---------------------------------------------------------------------------- */

static void push_item(struct ses *s, const struct ses_item *item)
{
	if (queue_push(s->walk.queue, item) < 0 && item->type == SES_ITEM_PROC) {
		free(item->proc.long_path);
		tally_count(&s->tally, TALLY_QUEUE_FULL, 1);
		atomic_store(&s->walk.events_dropped, true);
	}
	/* Addresses that were dropped here are symbolized at stop. */
}

static void on_proc_event(void *arg, const struct ev_proc *ev)
{
	struct ses *s = arg;
	struct ses_item item;
	size_t len;

	if (ev->type == EV_PROC_KSYMBOL) {
		symbolizer_kernel_record(s->walk.symbolizer, ev);
		if (s->walk.stream)
			stream_add_event(s->walk.stream, ev);
		return;
	}
	/* With a fixed set of processes, events of all others are dropped here. */
	if (s->o.target == PFA_TARGET_PID && !tgt_follows(&s->target) && ev->type != EV_PROC_LOST &&
	    !tgt_has(&s->target, ev->pid))
		return;
	if (s->walk.stream)
		stream_add_event(s->walk.stream, ev);
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
				atomic_store(&s->walk.events_dropped, true);
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

	if (prof_agg_add_stack(s->walk.agg, st, &is_new) < 0 || !is_new)
		return; /* counted by the aggregation */
	jit_add_stack(s->walk.jit, st);
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
	uint32_t id;

	jit_stamp(s->walk.jit, &count);
	if (!count.samples)
		return; /* it only names the process of a stack */
	/* A failure is counted by the aggregation. */
	if (prof_agg_add_count_id(s->walk.agg, &count, &id) == 0 && s->walk.stream)
		stream_add(s->walk.stream, id, &count);
}

static void on_thread(void *arg, const struct ev_thread *t)
{
	struct ses *s = arg;

	(void)prof_agg_add_thread(s->walk.agg, t); /* without it the sample has no comm label */
}

static void on_waker(void *arg, const struct ev_waker *w)
{
	const struct ses_item item = {.type = SES_ITEM_WAKER, .waker = w->proc};
	struct ses *s = arg;

	(void)prof_agg_add_waker(s->walk.agg, w); /* counted by the aggregation */
	/* Each waker stack is reported once; if the queue is full the next one asks again. */
	if (w->ustack && !w->foreign_ns && !w->kthread && !tgt_all(&s->target))
		push_item(s, &item);
}

static void on_deferred(void *arg, const struct ev_deferred *c)
{
	struct ses *s = arg;
	struct ev_deferred copy = *c;

	if (!c->placeholder)
		jit_stamp_deferred(s->walk.jit, &copy.count);
	deferred_add(s->walk.deferred, &copy);
}

/* Reports to the tracker the time up to which all process events were pushed. */
static void push_watermark(struct ses *s)
{
	const struct ses_item item = {.type = SES_ITEM_WATERMARK,
	                              .watermark_ns =
	                                      pev_sideband_stats(s->walk.sideband)->watermark_ns};

	push_item(s, &item); /* if the queue is full the next one does */
}

/* A program that has just replaced a mapping is likely to do it again. Until the tracker knows, its
 * samples there are deferred, or wrong where the kernel side cannot report mappings. So its events
 * are read this often for this long. */
#define FOLLOW_EVERY_MS 5
#define FOLLOW_NS       NSEC_PER_SEC

#define COUNT_EVERY_MS 1000

/* Stacks of threads that were blocked before the capture are read this often, as the tracker has
 * room for them. */
#define BACKLOG_EVERY_MS 2

size_t ses_deferred_room(const struct ses *s)
{
	const size_t queued = queue_len(s->walk.queue), max = SES_QUEUE_ITEMS / 2;

	if (!deferred_has_tables(s->walk.deferred))
		return SIZE_MAX; /* no sample is deferred */
	return MIN_OF(deferred_room(s->walk.deferred), queued < max ? max - queued : 0);
}

/* Hands on stacks of threads that were blocked before the capture, as far as the tracker has room.
 * Returns how many are left. */
static size_t hand_on_backlog(struct ses *s, const struct smp_sink *sink)
{
	const bool tables = deferred_has_tables(s->walk.deferred);
	size_t all = 0, left, before, room;

	ses_each_source (s, i, src) {
		if (!src_all[i]->backlog)
			continue;
		room = ses_deferred_room(s);
		/* Most stacks are much shorter than their room. */
		do {
			before = room;
			left = src_all[i]->backlog(src, tables, room, sink);
			room = ses_deferred_room(s);
		} while (left > 0 && room > 0 && room < before);
		all += left;
	}
	return all;
}

static void drain_sources(struct ses *s, const struct smp_sink *sink, uint64_t now)
{
	ses_each_source (s, i, src)
		if (src_all[i]->drain)
			src_all[i]->drain(src, sink, now);
}

static void finish(struct ses *s, const struct smp_sink *sink)
{
	smp_walker_detach(s->walker);
	ses_each_source (s, i, src)
		if (src_all[i]->finish)
			src_all[i]->finish(src, sink);
	(void)smp_walker_finish(s->walker, sink); /* counted: read_errors */
	(void)pev_sideband_read(s->walk.sideband, true, on_proc_event, s);
	push_watermark(s);
	queue_close(s->walk.queue);
}

static void drain_main(void *arg)
{
	struct ses *s = arg;
	struct smp_sink drain = {.stack = on_stack,
	                         .count = on_count,
	                         .thread = on_thread,
	                         .deferred = on_deferred,
	                         .waker = on_waker,
	                         .arg = s};
	const struct smp_sink sink = drain;
	/* The last is -1, which poll ignores, unless there are several processes. */
	struct pollfd p[] = {{.fd = s->stop_fd, .events = POLLIN},
	                     {.fd = smp_walker_poll_fd(s->walker), .events = POLLIN},
	                     {.fd = pev_sideband_poll_fd(s->walk.sideband), .events = POLLIN},
	                     {.fd = s->target.epoll_fd, .events = POLLIN}};

	const uint64_t interval_ns = (uint64_t)s->o.drain_interval_ms * NSEC_PER_MSEC;
	uint64_t now = now_ns(), due_ns = now + interval_ns;
	size_t backlog;

	ses_agent_thread(s, 0);
	backlog = hand_on_backlog(s, &sink);
	for (;;) {
		int wait_ms = due_ns > now ? (int)((due_ns - now) / NSEC_PER_MSEC) + 1 : 0;

		if (now < atomic_load(&s->walk.follow_until_ns))
			wait_ms = MIN_OF(wait_ms, FOLLOW_EVERY_MS);
		if (backlog > 0)
			wait_ms = MIN_OF(wait_ms, BACKLOG_EVERY_MS);
		(void)poll(p, ARRAY_SIZE(p),
		           wait_ms); /* a failure only changes the time of the drain */
		if (p[0].revents && !ses_live_asked(s))
			break;
		if (p[0].revents)
			ses_live_answer(s, &sink);
		if (p[3].revents)
			tgt_reap(&s->target);
		now = now_ns();
		if (backlog > 0)
			backlog = hand_on_backlog(s, &sink);
		if (p[1].revents || now >= due_ns) {
			(void)smp_walker_drain(s->walker, &sink); /* counted: read_errors */
			drain_sources(s, &sink, now);
			if (!atomic_load(&s->keep_epoch))
				jit_drained(s->walk.jit, &drain);
			due_ns = now + interval_ns;
		}
		(void)pev_sideband_read(s->walk.sideband, false, on_proc_event, s);
		push_watermark(s);
	}
	finish(s, &sink);
}

/* The drain thread of sources that walk no stacks: there are no rings and no side-band. */
static void count_main(void *arg)
{
	struct ses *s = arg;
	struct pollfd p[] = {{.fd = s->stop_fd, .events = POLLIN},
	                     {.fd = s->target.epoll_fd, .events = POLLIN}};

	ses_agent_thread(s, 0);
	for (;;) {
		(void)poll(p, ARRAY_SIZE(p), COUNT_EVERY_MS); /* a failure only changes the time */
		if (p[0].revents)
			break;
		if (p[1].revents)
			tgt_reap(&s->target);
		drain_sources(s, NULL, now_ns());
	}
}

/* ---- tracker thread -------------------------------------------------------------------------- */

static void handle_item(struct ses *s, struct ses_item *item)
{
	switch (item->type) {
	case SES_ITEM_PROC:
		item->proc.ev.map.path =
		        item->proc.long_path ? item->proc.long_path : item->proc.path;
		trk_event(s->walk.trk, &item->proc.ev);
		jit_event(s->walk.jit, &item->proc.ev);
		free(item->proc.long_path);
		break;
	case SES_ITEM_FRAMES_:
		for (uint32_t i = 0; i < item->n; i++)
			symbolizer_request(s->walk.symbolizer, item->addrs[i].image,
			                   item->addrs[i].addr);
		break;
	case SES_ITEM_DEFERRED:
		deferred_receive(s->walk.deferred, item->deferred);
		break;
	case SES_ITEM_JIT:
		jit_watch(s->walk.jit, &item->jit.proc, item->jit.addrs, item->n);
		break;
	case SES_ITEM_WAKER:
		trk_learn(s->walk.trk, &item->waker);
		break;
	case SES_ITEM_WAKE:
		deferred_hurry(s->walk.deferred, true);
		break;
	case SES_ITEM_WATERMARK:
		/* Events that the drain thread dropped are earlier than this watermark. */
		if (!atomic_load(&s->walk.events_dropped))
			trk_set_watermark(s->walk.trk, item->watermark_ns);
		deferred_hurry(s->walk.deferred, false);
		break;
	}
}

/* Makes the drain thread read events often for a while, if a mapping was replaced. */
static void follow_closely(struct ses *s)
{
	uint64_t replaced = trk_stats(s->walk.trk)->replaced;

	if (replaced != s->walk.replaced)
		atomic_store(&s->walk.follow_until_ns, now_ns() + FOLLOW_NS);
	s->walk.replaced = replaced;
}

#define ROUND_NS (50 * NSEC_PER_MSEC)

int ses_tracker_round(struct ses *s)
{
	struct ses_item item;
	uint64_t end_ns;
	int r = queue_pop(s->walk.queue, &item, 100 * NSEC_PER_MSEC);

	/* Not until the queue is empty: if events come faster than they are handled, the process
	 * map in the kernel would never be updated. */
	end_ns = now_ns() + ROUND_NS;
	for (int n = 1; r == 0; n++) {
		handle_item(s, &item);
		if (n == SES_ROUND_ITEMS || now_ns() > end_ns)
			break;
		r = queue_pop(s->walk.queue, &item, 0);
	}
	if (atomic_exchange(&s->walk.events_dropped, false)) {
		const struct ev_proc lost = {.type = EV_PROC_LOST, .time_ns = now_ns()};

		trk_event(s->walk.trk, &lost);
	}
	follow_closely(s);
	trk_flush(s->walk.trk);
	jit_round(s->walk.jit, now_ns(), (uint32_t)trk_image_cnt(s->walk.trk));
	deferred_round(s->walk.deferred, now_ns()); /* before symbolization, which can wait */
	(void)symbolizer_send(s->walk.symbolizer, now_ns(),
	                      false); /* addresses without room go in a later round */
	ses_live_offer(&s->handover);
	return r;
}

static void tracker_main(void *arg)
{
	struct ses *s = arg;

	ses_agent_thread(s, 1);
	if (tgt_all(&s->target)) {
		/* Sampling has begun: frames are raw addresses until then, and are resolved to
		 * mappings at the end. */
		s->walk.scan_error = trk_scan(s->walk.trk, NULL);
		trk_flush(s->walk.trk);
	}
	while (ses_tracker_round(s) != -EPIPE)
		;
	deferred_finish(s->walk.deferred);
}

/* ---- start and stop -------------------------------------------------------------------------- */

int ses_threads_start(struct ses *s, struct err *err)
{
	int r;

	s->stop_fd = eventfd(0, EFD_CLOEXEC);
	if (s->stop_fd < 0)
		return err_set(err, -errno, "eventfd: %s", err_name(errno));
	r = s->walk.trk ? thread_start(&s->tracker, tracker_main, s, "pa-identify") : 0;
	if (r == 0)
		r = thread_start(&s->drain, s->walk.trk ? drain_main : count_main, s, "pa-drain");
	return r < 0 ? err_set(err, r, "pthread_create: %s", err_name(r)) : 0;
}

void ses_threads_stop(struct ses *s)
{
	uint64_t one = 1;

	if (s->drain.made) {
		(void)file_write_full(s->stop_fd, &one,
		                      sizeof(one)); /* an eventfd at 0 takes a 1 */
		thread_join(&s->drain);
	} else if (s->walk.queue) {
		queue_close(s->walk.queue);
	}
	if (s->walk.deferred)
		deferred_cancel(s->walk.deferred, true);
	thread_join(&s->tracker);
	if (s->walk.deferred)
		deferred_cancel(s->walk.deferred, false);
}
