/* SPDX-License-Identifier: Apache-2.0 */
/* The life of a session: one capture after another from one set of options. Thread: control. */
#include "session/session_priv.h"

int ses_new(const struct pfa_options *o, struct ses **ret, struct err *err)
{
	struct ses *s;
	int r = ses_options_check(o, err);

	if (r < 0)
		return r;
	s = calloc(1, sizeof(*s));
	if (!s)
		return err_set(err, -ENOMEM, "out of memory");
	s->stop_fd = -EBADF;
	ses_command_init(&s->cmd);
	pthread_mutex_init(&s->stats_lock, NULL);
	r = ses_live_init(&s->handover);
	if (r == 0)
		r = ses_options_dup(o, &s->o);
	if (r == 0)
		r = labels_new(&s->labels);
	tgt_init(&s->target, &s->o);
	s->env = (struct src_env){.o = &s->o, .target = &s->target, .tally = &s->tally};
	if (r < 0) {
		ses_free(s);
		return err_set(err, r, "out of memory");
	}
	*ret = s;
	return 0;
}

void ses_set_hooks(struct ses *s, const struct ses_hooks *h)
{
	s->hooks = *h;
}

int ses_add_enricher(struct ses *s, pfa_enrich_fn fn, void *arg, struct err *err)
{
	if (s->state == SES_RUNNING)
		return err_set(err, -EBUSY, "enricher: the session is running already");
	return labels_add_enricher(s->labels, fn, arg, err);
}

/* ---- between captures ------------------------------------------------------------------------ */

static void forget_results(struct ses *s)
{
	s->env.left_out = s->written = s->extra_written = 0;
	s->left_out = (struct err){0};
	for (size_t i = 0; i < SRC_CNT; i++)
		src_product_done(&s->product[i]);
	result_lines_done(&s->added);
	pthread_mutex_lock(&s->stats_lock);
	memset(&s->final, 0, sizeof(s->final));
	tally_reset(&s->tally);
	s->cost = (struct ses_cost){0};
	s->env.start_ns = s->env.end_ns = 0;
	pthread_mutex_unlock(&s->stats_lock);
}

/* Releases everything of one capture but its results. Threads must have ended. */
static void release(struct ses *s)
{
	s->copy = ses_copy_free(s->copy);
	ses_walk_free(s);
	labels_forget(s->labels);
	for (size_t i = SRC_CNT; i > 0; i--) {
		s->src[i - 1] = src_all[i - 1]->free(s->src[i - 1]);
		s->out[i - 1] = enc_output_free(s->out[i - 1]);
	}
	ses_extra_close(s);
	/* Not RUNNING: ses_stats reads no walker. */
	s->walker = s->env.walker = smp_walker_free(s->walker);
	s->env.agg = NULL;
	closep(&s->stop_fd);
	tgt_done(&s->target);
	ses_command_done(&s->cmd);
	free(s->cpus);
	s->cpus = NULL;
	s->env.cpus = NULL;
}

struct ses *ses_free(struct ses *s)
{
	if (!s)
		return NULL;
	if (s->walk.deferred)
		deferred_abandon(s->walk.deferred);
	ses_threads_stop(s);
	if (s->labels)
		release(s);
	forget_results(s);
	s->labels = labels_free(s->labels);
	ses_options_done(&s->o);
	thread_done(&s->drain);
	thread_done(&s->tracker);
	ses_live_done(&s->handover);
	pthread_mutex_destroy(&s->stats_lock);
	free(s);
	return NULL;
}

/* ---- start ----------------------------------------------------------------------------------- */

int ses_start(struct ses *s, struct err *err)
{
	uint64_t cpu = thread_own_cpu_ns();
	int r;

	if (s->state == SES_RUNNING)
		return err_set(err, -EBUSY, "the session is running already");
	forget_results(s);
	ses_command_init(&s->cmd);
	r = ses_start_capture(s, err);
	atomic_store(&s->interrupted, false); /* it was for this start */
	if (r < 0) {
		ses_threads_stop(s);
		release(s);
		return r;
	}
	pthread_mutex_lock(&s->stats_lock);
	s->cost.setup_ns = thread_own_cpu_ns() - cpu + s->cost.before_ns;
	s->state = SES_RUNNING;
	pthread_mutex_unlock(&s->stats_lock);
	return 0;
}

void ses_interrupt(struct ses *s)
{
	atomic_store(&s->interrupted, true);
}

/* ---- stop ------------------------------------------------------------------------------------ */

/* Returns how many CPUs came online since the start; @ret_gone: how many went offline. Events exist
 * for the CPUs of the start only. */
static uint32_t came_online(const struct ses *s, uint32_t *ret_gone)
{
	_cleanup_free_ uint32_t *now = calloc(PEV_CPUS_MAX, sizeof(*now));
	int n = now ? proc_online_cpus(now, PEV_CPUS_MAX, NULL) : 0;
	uint32_t came = 0, same;

	*ret_gone = 0;
	if (n <= 0)
		return 0;
	for (int i = 0, at = 0; i < n; i++) { /* both ascending */
		while (at < (int)s->env.n_cpus && s->cpus[at] < now[i])
			at++;
		came += at == (int)s->env.n_cpus || s->cpus[at] != now[i];
	}
	same = (uint32_t)n - came;
	*ret_gone = s->env.n_cpus - same;
	return came;
}

/* Adds a note: programs at switches run on every CPU, events exist on those of the start. */
static void count_changed_cpus(struct ses *s, uint32_t changed)
{
	if (!changed)
		return;
	tally_count(&s->tally, TALLY_CPUS_CHANGED, changed);
	tally_note(&s->tally,
	           "%u CPU%s went offline or came online during the capture: no samples and no "
	           "hardware counters of %s from then on; programs that started there may have no "
	           "names",
	           changed, changed == 1 ? "" : "s", changed == 1 ? "it" : "them");
}

/* Collects the counters that all sources share, then those of each source. */
static void collect(struct ses *s)
{
	const struct smp_walker_stats *st = smp_walker_stats(s->walker);
	struct abi_counters *c = &s->tally.kernel;
	uint32_t came, gone;

	if (load_counters(smp_walker_loader(s->walker), c) < 0)
		tally_count(&s->tally, TALLY_READ_ERRORS, 1);
	tally_count(&s->tally, TALLY_RING_BAD, st->bad_records);
	tally_count(&s->tally, TALLY_READ_ERRORS, st->read_errors);
	came = came_online(s, &gone);
	/* The side-band reports those that went offline and came back, too. */
	count_changed_cpus(s, came + (s->walk.sideband
	                                      ? pev_sideband_stats(s->walk.sideband)->stopped_cpus
	                                      : gone));
	if (s->walk.trk)
		ses_walk_count(s);
	ses_each_source (s, i, src)
		if (src_all[i]->collect)
			src_all[i]->collect(src);
}

static void final_statistics(struct ses *s)
{
	const struct abi_counters *c = &s->tally.kernel;

	/* Segments of tables were made meanwhile. */
	if (s->walk.deferred && deferred_has_tables(s->walk.deferred)) {
		uint64_t bytes = load_locked_bytes(smp_walker_loader(s->walker));

		pthread_mutex_lock(&s->stats_lock);
		s->cost.locked_bytes = MAX_OF(s->cost.locked_bytes, bytes);
		pthread_mutex_unlock(&s->stats_lock);
	}
	s->final.idle = c->v[ABI_CNT_TICK_IDLE];
	s->final.elapsed_ns = s->env.end_ns - s->env.start_ns;
	s->final.locked_bytes = s->cost.locked_bytes;
	s->final.agent_cpu_ns = ses_agent_cpu_ns(s, c);
}

/* Makes and writes all outputs of the capture: a failure of one does not affect the others. */
static int make_results(struct ses *s, struct err *err)
{
	int r = 0;

	ses_each_source (s, i, src)
		if (src_all[i]->product)
			r = ses_first(r, src_all[i]->product(src, &s->product[i],
			                                     r == 0 ? err : NULL));
	final_statistics(s);
	if (s->walk.trk)
		r = ses_first(r, ses_profile_build(s, r == 0 ? err : NULL));
	for (size_t i = 0; i < SRC_CNT; i++) {
		int one = s->product[i].metrics
		                  ? labels_of_metrics(s->labels, s->walk.trk, s->product[i].metrics)
		                  : 0;

		if (one < 0 && r == 0)
			r = err_set(err, one, "labels of processes: %s", err_name(one));
	}
	return ses_first(r, ses_write_outputs(s, r == 0 ? err : NULL));
}

static void mark_end(struct ses *s)
{
	pthread_mutex_lock(&s->stats_lock);
	s->env.end_ns = now_ns();
	if (s->walk.symbolizer)
		symbolizer_late(s->walk.symbolizer);
	s->cost.capture_ns = ses_threads_cpu_ns(s);
	pthread_mutex_unlock(&s->stats_lock);
	s->cost.stop_ns = thread_own_cpu_ns();
}

/* Ends the sources before the drain thread ends, which may wait for a grace period. The capture
 * ends with the first source: on-CPU samples, which have no end time of their own. */
static void end_sources(struct ses *s)
{
	ses_each_source (s, i, src) {
		src_all[i]->end(src);
		if (!s->env.end_ns)
			mark_end(s);
	}
}

int ses_stop(struct ses *s, struct err *err)
{
	int r;

	if (s->state != SES_RUNNING)
		return err_set(err, -EINVAL, "the session is not running");
	end_sources(s);
	ses_threads_stop(s);
	if (s->walk.scan_error < 0)
		tally_note(&s->tally,
		           "the initial scan of all processes failed: %s; some frames may have no "
		           "names",
		           err_name(s->walk.scan_error));
	if (s->walk.deferred)
		deferred_merge(s->walk.deferred);
	collect(s);
	r = make_results(s, err);
	if (r == 0 && s->env.left_out)
		r = err_copy(err, &s->left_out);
	if (s->o.target == PFA_TARGET_COMMAND)
		(void)ses_command_poll(&s->cmd); /* asked again by ses_command_status */
	/* Before the sources are freed: from here on pfa_stats of another thread returns the final
	 * statistics. */
	pthread_mutex_lock(&s->stats_lock);
	s->state = SES_STOPPED;
	pthread_mutex_unlock(&s->stats_lock);
	atomic_store(&s->interrupted,
	             false); /* it came too late; it does not affect the next start */
	release(s);
	return r;
}
