/* SPDX-License-Identifier: Apache-2.0 */
/* The parts for stacks: aggregation, tracker, unwind tables, JIT code, symbolizer; and the calls
 * between them. Thread: control, but for the call-backs of the modules. */
#include "session/session_priv.h"

#include <poll.h>

#define WORKERS_MAX  4                     /* symbolizer threads: more have no benefit */
#define BUDGET_BYTES ((uint64_t)256 << 20) /* uw_store_new has the same default */
#define POOL_JOBS    256                   /* tables and symbolizer batches in the queue */

void ses_agent_thread(const struct ses *s, uint32_t slot)
{
	volatile struct abi_control *ctl = load_control(smp_walker_loader(s->walker));

	ctl->agent_tids[slot] = (uint32_t)gettid();
}

static bool on_jit_sample(void *arg, const struct ev_proc_id *id, const uint64_t *addrs, uint32_t n)
{
	struct ses_item item = {.type = SES_ITEM_JIT, .n = n, .jit = {.proc = *id}};
	const struct ses *s = arg;

	memcpy(item.jit.addrs, addrs, n * sizeof(*addrs));
	return queue_push(s->walk.queue, &item) == 0;
}

static void on_jit_epoch(void *arg, void *drain, uint16_t epoch)
{
	const struct ses *s = arg;

	ses_each_source (s, i, src)
		if (src_all[i]->drain_all)
			src_all[i]->drain_all(src, drain, NULL, NULL);
	load_control(smp_walker_loader(s->walker))->jit_epoch = epoch;
}

static const char *image_path(void *arg, uint32_t image)
{
	const struct trk_image *img = trk_image(((const struct ses *)arg)->walk.trk, image);

	return img ? img->path : NULL;
}

static bool is_tracked(void *arg, uint32_t pid)
{
	const struct ev_proc_id id = {.pid = pid};

	return trk_proc_reason(((const struct ses *)arg)->walk.trk, &id) != EV_REASON_NO_MAPPING;
}

static int new_jit(struct ses *s)
{
	const struct jit_options o = {.tally = &s->tally,
	                              .agg = s->walk.agg,
	                              .interval_ns =
	                                      (uint64_t)s->o.drain_interval_ms * NSEC_PER_MSEC,
	                              .targets = s->target.pids,
	                              .n_targets = s->o.target == PFA_TARGET_PID ? s->target.n : 0,
	                              .sampled = on_jit_sample,
	                              .end_epoch = on_jit_epoch,
	                              .image_path = image_path,
	                              .is_tracked = is_tracked,
	                              .arg = s};

	return jit_new(&o, &s->walk.jit);
}

static bool push_deferred(void *arg, struct deferred_sample *k)
{
	const struct ses_item item = {.type = SES_ITEM_DEFERRED, .deferred = k};

	return queue_push(((const struct ses *)arg)->walk.queue, &item) == 0;
}

/* Wakes the tracker unless it has work. If the queue is closed it waits for tables by itself. */
static void wake_tracker(void *arg)
{
	const struct ses_item item = {.type = SES_ITEM_WAKE};
	const struct ses *s = arg;

	if (queue_len(s->walk.queue) == 0)
		(void)queue_push(s->walk.queue, &item);
}

static void on_deferred_frame(void *arg, uint32_t image, uint64_t addr)
{
	symbolizer_request(((const struct ses *)arg)->walk.symbolizer, image, addr);
}

static void on_deferred_walk(void *arg, struct ev_count *count, const struct ev_stack *st)
{
	jit_walked(((const struct ses *)arg)->walk.jit, count, st);
}

static bool reread_stack(void *arg, struct ev_deferred *c, uint8_t *stack)
{
	const struct ses *s = arg;

	ses_each_source (s, i, src)
		if (src_all[i]->reread && src_all[i]->reread(src, c, stack))
			return true;
	return false;
}

int ses_deferred_new(struct ses *s, const struct uw_rules_mem *rules,
                     const struct uw_backing *backing, struct abi_control *control, struct err *err)
{
	const struct deferred_options o = {
	        .tally = &s->tally,
	        .trk = s->walk.trk,
	        .agg = s->walk.agg,
	        .stream = s->walk.stream,
	        .rules = rules,
	        .backing = backing,
	        .control = control,
	        .budget_bytes = s->o.table_budget_bytes ? s->o.table_budget_bytes : BUDGET_BYTES,
	        .all = s->o.unwind == PFA_UNWIND_DWARF,
	        .hash_seed = s->walk.hash_seed,
	        .push = push_deferred,
	        .wake = wake_tracker,
	        .symbolize = on_deferred_frame,
	        .walked = on_deferred_walk,
	        .reread = reread_stack,
	        .arg = s,
	        .compare = s->hooks.deferred,
	        .compare_arg = s->hooks.arg};

	return deferred_new(&o, &s->walk.deferred, err);
}

static int check_prepare(void *arg)
{
	const struct ses *s = arg;
	struct pollfd p = {.fd = s->target.ended_fd, .events = POLLIN};

	if (s->target.ended_fd >= 0 && poll(&p, 1, 0) > 0)
		return -ESRCH;
	return atomic_load(&s->interrupted) ? -EINTR : 0;
}

static void on_worker(void *arg, uint32_t i)
{
	ses_agent_thread(arg, 2 + i);
}

static void open_image(void *arg, uint32_t image, struct trk_open *ret)
{
	const struct ses *s = arg;

	trk_image_open(s->walk.trk, image, true, ret);
}

/* Has the kernel side count samples of the symbolizer process as those of the agent. */
static void on_symbolizer_process(void *arg, uint32_t pid)
{
	const struct ses *s = arg;
	volatile struct abi_control *ctl = load_control(smp_walker_loader(s->walker));

	ctl->symbolizer_tgid = pid;
}

static int start_workers(struct ses *s, struct err *err)
{
	const struct pool_options po = {.name = "pa-name",
	                                .n_threads = MIN_OF(MAX_OF(s->env.n_cpus, 2U) - 1,
	                                                    (uint32_t)WORKERS_MAX),
	                                .max_jobs = POOL_JOBS,
	                                .begin = on_worker,
	                                .arg = s};
	struct symbolizer_options so = {.tally = &s->tally,
	                                .open = open_image,
	                                .process = on_symbolizer_process,
	                                .arg = s,
	                                .debug_dirs = s->o.debug_dirs,
	                                .budget_bytes = s->o.symbol_budget_bytes,
	                                .no_lines = (s->o.flags & PFA_NO_LINES) != 0,
	                                .in_process = (s->o.flags & PFA_DECODE_IN_PROCESS) != 0};
	int r = symbolizer_new(&so, &s->walk.symbolizer, err); /* forks: before there are threads */

	if (r < 0)
		return r;
	r = pool_new(&po, &s->walk.pool);
	if (r < 0)
		return err_set(err, r, "pthread_create: %s", err_name(r));
	symbolizer_use(s->walk.symbolizer, s->walk.pool);
	deferred_use(s->walk.deferred, s->walk.pool);
	return 0;
}

/* ---- life ------------------------------------------------------------------------------------ */

int ses_walk_new(struct ses *s)
{
	const struct prof_agg_limits limits = {0};
	int r = prof_agg_new(&limits, &s->walk.agg);

	if (r == 0 && ses_streams(s))
		r = stream_new(&s->hooks.stream_limits, &s->walk.stream);
	if (r == 0)
		r = new_jit(s);
	if (r == 0)
		r = queue_new(sizeof(struct ses_item), SES_QUEUE_ITEMS, &s->walk.queue);
	return r;
}

/* Opens the unwind tables; tracker and aggregation exist. */
static int open_tables(struct ses *s, struct err *err)
{
	struct load_oncpu *l = smp_walker_loader(s->walker);
	struct uw_rules_mem rules = {0};
	struct uw_backing backing = {0};
	int r;

	if (s->o.unwind == PFA_UNWIND_FP)
		return ses_deferred_new(s, NULL, NULL, load_control(l), err);
	r = load_tables(l, &rules, &backing);
	if (r < 0)
		return err_set(err, r, "unwind tables: %s", err_name(r));
	return ses_deferred_new(s, &rules, &backing, load_control(l), err);
}

/* Scans the processes of the target, and builds the tables of the images that they map. */
static int learn_targets(struct ses *s, struct err *err)
{
	int r = trk_scan(s->walk.trk, err);

	if (r < 0)
		return r;
	trk_flush(s->walk.trk);
	ses_check_privileges(s, 0);
	/* Symbolizer threads build the tables. */
	r = start_workers(s, err);
	if (r < 0)
		return r;
	r = deferred_prepare(s->walk.deferred, check_prepare, &s->walk.prepare_ns);
	/* The caller checks whether it was interrupted. */
	return r == -EINTR ? 0
	       : r < 0     ? err_set(err, -ESRCH,
	                             "the target ended while the capture was being started")
	                   : 0;
}

int ses_walk_open(struct ses *s, struct err *err)
{
	const struct load_procs procs = tgt_procs(&s->target);
	const struct trk_options o = {.loader = smp_walker_loader(s->walker),
	                              .target_pids = procs.tgids,
	                              .n_target_pids = procs.n,
	                              .follow_children = tgt_follows(&s->target)};
	int r = ses_walk_new(s);

	if (r < 0)
		return err_set(err, r, "aggregation: %s", err_name(r));
	/* Rings first: records then report changes that happen while /proc is read. */
	r = pev_sideband_open(s->env.cpus, s->env.n_cpus, tgt_all(&s->target) ? 64 : 32,
	                      &s->walk.sideband, err);
	if (r < 0)
		return ses_explain(r, err);
	r = trk_new(&o, &s->walk.trk, err);
	if (r == 0)
		r = open_tables(s, err);
	if (r < 0)
		return r;
	return tgt_all(&s->target) ? start_workers(s, err) : learn_targets(s, err);
}

void ses_walk_stop(struct ses *s)
{
	if (s->walk.symbolizer)
		symbolizer_cancel(s->walk.symbolizer);
	s->walk.pool = pool_free(s->walk.pool);
}

void ses_walk_free(struct ses *s)
{
	struct ses_walk *w = &s->walk;
	struct ses_item item;

	ses_walk_stop(s);
	while (w->queue && queue_pop(w->queue, &item, 0) == 0)
		if (item.type == SES_ITEM_PROC)
			free(item.proc.long_path);
		else if (item.type == SES_ITEM_DEFERRED)
			deferred_sample_free(item.deferred);
	w->queue = queue_free(w->queue);
	w->symbolizer = symbolizer_free(w->symbolizer);
	w->deferred = deferred_free(w->deferred);
	w->jit = jit_free(w->jit);
	w->trk = trk_free(w->trk);
	w->sideband = pev_sideband_free(w->sideband);
	w->stream = stream_free(w->stream);
	w->agg = prof_agg_free(w->agg);
	w->events_dropped = false;
	w->follow_until_ns = w->replaced = w->hash_seed = w->prepare_ns = 0;
	w->scan_error = 0;
}

void ses_walk_count(struct ses *s)
{
	const struct pev_sideband_stats *sb = pev_sideband_stats(s->walk.sideband);
	const struct trk_stats *t = trk_stats(s->walk.trk);

	tally_count(&s->tally, TALLY_SB_RECORDS, sb->records);
	tally_count(&s->tally, TALLY_SB_LOST, sb->lost);
	tally_count(&s->tally, TALLY_SB_BAD, sb->malformed);
	tally_count(&s->tally, TALLY_PROCS, t->procs);
	tally_count(&s->tally, TALLY_PROCS_DENIED, t->procs_denied);
	tally_count(&s->tally, TALLY_PROCS_DROPPED, t->dropped_procs);
	tally_count(&s->tally, TALLY_IMAGES, t->images);
	tally_count(&s->tally, TALLY_IMAGES_FAILED, t->images_failed);
	tally_count(&s->tally, TALLY_IMAGES_SHUT, t->images_shut);
	tally_count(&s->tally, TALLY_IMAGES_DAMAGED, t->damaged_notes);
	tally_count(&s->tally, TALLY_IMAGES_DROPPED, t->dropped_images);
	tally_count(&s->tally, TALLY_MAPPINGS_DROPPED, t->dropped_mappings);
	tally_count(&s->tally, TALLY_RANGES_FULL, t->ranges_full);
	tally_count(&s->tally, TALLY_MAPS_BAD, t->bad_map_lines);
	deferred_count(s->walk.deferred);
}
