/* SPDX-License-Identifier: Apache-2.0 */
#include "session/session_priv.h"

#include <linux/perf_event.h>
#include <poll.h>
#include <stdio.h>

/* ---- options --------------------------------------------------------------------------------- */

static char **dup_strings(const char *const *v)
{
	size_t n = 0;
	char **r;

	while (v[n])
		n++;
	r = calloc(n + 1, sizeof(*r));
	for (size_t i = 0; r && i < n; i++) {
		r[i] = strdup(v[i]);
		if (!r[i]) {
			while (i > 0)
				free(r[--i]);
			free(r);
			return NULL;
		}
	}
	return r;
}

static void free_strings(const char *const *v)
{
	union {
		const char *const *in;
		char **out;
	} u = {.in = v};

	for (size_t i = 0; v && v[i]; i++)
		free(u.out[i]);
	free(u.out);
}

static int32_t *dup_numbers(const int32_t *v)
{
	size_t n = ses_numbers_cnt(v);
	int32_t *r = calloc(n + 1, sizeof(*r));

	if (r && n)
		memcpy(r, v, n * sizeof(*r));
	return r;
}

static void free_numbers(const int32_t *v)
{
	free((void *)(uintptr_t)v);
}

/* The lists of the options, each copied where it is not NULL. False: out of memory. */
static bool dup_lists(const struct ses_options *o, struct ses_options *to)
{
	const struct {
		const char *const *from, *const **to;
	} strings[] = {{o->argv, &to->argv},
	               {o->tags, &to->tags},
	               {o->debug_dirs, &to->debug_dirs},
	               {o->comms, &to->comms},
	               {o->cgroups, &to->cgroups}};
	bool good = true;

	for (size_t i = 0; i < ARRAY_SIZE(strings); i++) {
		*strings[i].to = NULL;
		if (strings[i].from)
			*strings[i].to = (const char *const *)dup_strings(strings[i].from);
		good &= !strings[i].from || *strings[i].to;
	}
	to->pids = o->pids ? dup_numbers(o->pids) : NULL;
	to->tids = o->tids ? dup_numbers(o->tids) : NULL;
	return good && (!o->pids || to->pids) && (!o->tids || to->tids);
}

static int check_target(const struct enc_target *t, const char *what, struct err *err)
{
	if ((t->path != NULL) + (t->fd != 0) + (t->write != NULL) > 1)
		return err_set(err, -EINVAL, "%s: more than one of path, descriptor and call-back",
		               what);
	return t->fd < 0 ? err_set(err, -EINVAL, "%s: descriptor %d", what, t->fd) : 0;
}

static int check_options(const struct ses_options *o, struct err *err)
{
	int r;

	switch (o->target) {
	case SES_TARGET_PID:
		break;
	case SES_TARGET_COMMAND:
		if (!o->argv || !o->argv[0] || !o->argv[0][0])
			return err_set(err, -EINVAL, "argv: no command");
		break;
	case SES_TARGET_ALL:
		break;
	default:
		return err_set(err, -EINVAL, "target: one of PID, ALL and COMMAND is needed");
	}
	r = ses_targets_options(o, err);
	if (r < 0)
		return r;
	if (o->target != SES_TARGET_COMMAND && o->argv)
		return err_set(err, -EINVAL, "argv: given with another target than COMMAND");
	if (o->modes & ~(SES_PROFILE | SES_OFFCPU | SES_PMU))
		return err_set(err, -EINVAL, "modes: unknown bits 0x%x",
		               o->modes & ~(SES_PROFILE | SES_OFFCPU | SES_PMU));
	r = ses_off_options(o, err);
	if (r == 0)
		r = ses_pmu_options(o, err);
	if (r < 0)
		return r;
	if (o->rate_hz == 0)
		return err_set(err, -EINVAL, "sample rate: must be at least 1 Hz");
	if (o->event > SES_EVENT_AUTO)
		return err_set(err, -EINVAL, "event: unknown");
	if (o->unwind > SES_UNWIND_FP)
		return err_set(err, -EINVAL, "unwind: unknown mode %u", (unsigned int)o->unwind);
	if (o->table_budget_bytes && (o->table_budget_bytes < SES_BUDGET_MIN_BYTES ||
	                              o->table_budget_bytes > SES_BUDGET_MAX_BYTES))
		return err_set(err, -EINVAL,
		               "table budget: %llu bytes are not between 1 MiB and 1 GiB",
		               (unsigned long long)o->table_budget_bytes);
	if (o->symbol_budget_bytes && (o->symbol_budget_bytes < SES_SYMBOLS_MIN_BYTES ||
	                               o->symbol_budget_bytes > SES_SYMBOLS_MAX_BYTES))
		return err_set(err, -EINVAL,
		               "symbol budget: %llu bytes are not between 1 MiB and 16 GiB",
		               (unsigned long long)o->symbol_budget_bytes);
	for (const char *const *d = o->debug_dirs; d && *d; d++) {
		if (d - o->debug_dirs == SES_DEBUG_DIRS_MAX)
			return err_set(err, -EINVAL, "debug directories: more than %d",
			               SES_DEBUG_DIRS_MAX);
		if (!**d)
			return err_set(err, -EINVAL, "debug directories: an empty path");
	}
	for (const char *const *t = o->tags; t && *t; t++) {
		const char *eq = strchr(*t, '=');

		if (t - o->tags == SES_TAGS_MAX)
			return err_set(err, -EINVAL, "tag: more than %d", SES_TAGS_MAX);
		if (strlen(*t) > SES_TAG_BYTES)
			return err_set(err, -EINVAL,
			               "tag: '%.40s...' has %zu bytes, the limit is %d", *t,
			               strlen(*t), SES_TAG_BYTES);
		if (!eq || eq == *t)
			return err_set(err, -EINVAL, "tag: '%s' is not of the form key=value", *t);
	}
	r = check_target(&o->profile, "output", err);
	if (r == 0)
		r = check_target(&o->offcpu, "off-CPU output", err);
	if (r == 0)
		r = check_target(&o->pmu, "output of metrics", err);
	if (r < 0)
		return r;
	if (o->ring_bytes > (1U << 30) || o->count_entries > (1U << 24) ||
	    o->range_entries > (1U << 24) || o->drain_interval_ms > 10000)
		return err_set(
		        err, -EINVAL,
		        "sizes: over the limit (ring 1 GiB, tables 16 M entries, drain 10 s)");
	return 0;
}

int ses_new(const struct ses_options *o, struct ses **ret, struct err *err)
{
	struct ses *s;
	int r = check_options(o, err);

	if (r < 0)
		return r;
	s = calloc(1, sizeof(*s));
	if (!s)
		return err_set(err, -ENOMEM, "out of memory");
	s->o = *o;
	s->o.profile.path = s->o.offcpu.path = s->o.pmu.path = NULL;
	if (!s->o.modes)
		s->o.modes = SES_PROFILE;
	s->targets.epoll_fd = -EBADF;
	s->ended_fd = s->stop_fd = s->cmd.go_fd = s->cmd.error_fd = -EBADF;
	for (size_t i = 0; i < SES_KIND_CNT; i++)
		s->product[i].quality.max = 1024;
	pthread_mutex_init(&s->stats_lock, NULL);
	if (o->profile.path)
		s->o.profile.path = strdup(o->profile.path);
	if (o->offcpu.path)
		s->o.offcpu.path = strdup(o->offcpu.path);
	if (o->pmu.path)
		s->o.pmu.path = strdup(o->pmu.path);
	if (s->o.drain_interval_ms == 0)
		s->o.drain_interval_ms = 100;
	if (!dup_lists(o, &s->o) || (o->profile.path && !s->o.profile.path) ||
	    (o->offcpu.path && !s->o.offcpu.path) || (o->pmu.path && !s->o.pmu.path)) {
		ses_free(s);
		return err_set(err, -ENOMEM, "out of memory");
	}
	*ret = s;
	return 0;
}

/* ---- between captures ------------------------------------------------------------------------ */

static void forget_results(struct ses *s)
{
	s->metrics = met_snapshot_free(s->metrics);
	s->without = s->written = 0;
	s->without_why = (struct err){0};
	for (size_t i = 0; i < SES_KIND_CNT; i++) {
		struct ses_product *p = &s->product[i];

		result_done(&p->result);
		vec_each (q, &p->quality)
			free(*q);
		p->quality.n = 0;
	}
	pthread_mutex_lock(&s->stats_lock);
	memset(&s->final, 0, sizeof(s->final));
	tally_reset(&s->tally);
	s->setup_cpu_ns = s->capture_cpu_ns = s->stop_cpu_ns = 0;
	s->before_cpu_ns = s->prepare_ns = 0;
	s->start_ns = s->end_ns = 0;
	s->locked_bytes = 0;
	pthread_mutex_unlock(&s->stats_lock);
}

/* Everything of one capture but its results. Threads must have ended. */
static void release(struct ses *s)
{
	struct ses_item item;

	ses_naming_stop(s);
	while (s->q_w && queue_pop(s->q_w, &item, 0) == 0)
		if (item.type == SES_ITEM_PROC)
			free(item.proc.long_path);
		else if (item.type == SES_ITEM_COPY)
			deferred_sample_free(item.copy);
	s->q_w = queue_free(s->q_w);
	s->symbolizer = symbolizer_free(s->symbolizer);
	s->deferred = deferred_free(s->deferred);
	s->jit = jit_free(s->jit);
	s->trk = trk_free(s->trk);
	s->sideband = pev_sideband_free(s->sideband);
	ses_pmu_free(s);
	ses_labels_free(s);
	s->off = smp_off_free(s->off);
	s->smp = smp_free(s->smp); /* not RUNNING: ses_stats does not look at it */
	s->agg = prof_agg_free(s->agg);
	s->cpu_time = result_cpu_time_free(s->cpu_time);
	for (size_t i = 0; i < SES_KIND_CNT; i++)
		s->product[i].out = enc_output_free(s->product[i].out);
	s->pmu_out = enc_output_free(s->pmu_out);
	closep(&s->stop_fd);
	closep(&s->ended_fd);
	ses_targets_done(s);
	ses_command_done(&s->cmd);
	free(s->cpus);
	s->cpus = NULL;
}

struct ses *ses_free(struct ses *s)
{
	if (!s)
		return NULL;
	if (s->deferred)
		deferred_abandon(s->deferred);
	ses_threads_stop(s);
	release(s);
	forget_results(s);
	for (size_t i = 0; i < SES_KIND_CNT; i++)
		vec_done(&s->product[i].quality);
	free_strings(s->o.argv);
	free_strings(s->o.tags);
	free_strings(s->o.debug_dirs);
	free_strings(s->o.comms);
	free_strings(s->o.cgroups);
	free_numbers(s->o.pids);
	free_numbers(s->o.tids);
	free((void *)(uintptr_t)s->o.profile.path);
	free((void *)(uintptr_t)s->o.offcpu.path);
	free((void *)(uintptr_t)s->o.pmu.path);
	thread_done(&s->d);
	thread_done(&s->w);
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
	memset(&s->cmd, 0, sizeof(s->cmd));
	s->cmd.go_fd = s->cmd.error_fd = -EBADF;
	s->target_pid = 0;
	r = ses_start_capture(s, err);
	atomic_store(&s->interrupted, false); /* it was for this start */
	if (r < 0) {
		ses_threads_stop(s);
		release(s);
		return r;
	}
	pthread_mutex_lock(&s->stats_lock);
	s->setup_cpu_ns = thread_own_cpu_ns() - cpu + s->before_cpu_ns;
	s->state = SES_RUNNING;
	pthread_mutex_unlock(&s->stats_lock);
	return 0;
}

/* ---- stop ------------------------------------------------------------------------------------ */

/* CPUs that are online now and were not at the start, and those that are not any more (@ret_gone).
 * Events exist for those of the start. */
static uint32_t came_online(const struct ses *s, uint32_t *ret_gone)
{
	_cleanup_free_ uint32_t *now = calloc(PEV_CPUS_MAX, sizeof(*now));
	int n = now ? proc_online_cpus(now, PEV_CPUS_MAX, NULL) : 0;
	uint32_t came = 0, same;

	*ret_gone = 0;
	if (n <= 0)
		return 0;
	for (int i = 0, at = 0; i < n; i++) { /* both ascending */
		while (at < (int)s->n_cpus && s->cpus[at] < now[i])
			at++;
		came += at == (int)s->n_cpus || s->cpus[at] != now[i];
	}
	same = (uint32_t)n - came;
	*ret_gone = s->n_cpus - same;
	return came;
}

/* Waits and switches are seen on every CPU. */
static void count_changed_cpus(struct ses *s, uint32_t changed)
{
	if (!changed)
		return;
	tally_count(&s->tally, TALLY_CPUS_CHANGED, changed);
	tally_note(
	        &s->tally,
	        "%u CPU%s went offline or came online during the capture: from then on no samples "
	        "and no hardware counters of %s, and programs that started there may lack names",
	        changed, changed == 1 ? "" : "s", changed == 1 ? "it" : "them");
}

static void count_walk(struct ses *s)
{
	const struct pev_sideband_stats *sb = pev_sideband_stats(s->sideband);
	const struct trk_stats *t = trk_stats(s->trk);

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
	deferred_count(s->deferred);
	ses_off_figures(s);
}

static void final_figures(struct ses *s)
{
	const struct smp_stats *st = smp_stats(s->smp);
	struct abi_counters *c = &s->tally.kernel;
	uint64_t taken = st->taken_samples + st->copied_samples, idle_ns;
	uint32_t came, gone;

	if (load_counters(smp_loader(s->smp), c) < 0) {
		tally_count(&s->tally, TALLY_READ_ERRORS, 1);
		c->v[ABI_CNT_SEEN] = c->v[ABI_CNT_KEPT] = taken;
	}
	if (s->idle_start_ns && proc_idle_ns(s->cpus, s->n_cpus, &idle_ns) == 0)
		s->idle_ns = idle_ns - MIN_OF(idle_ns, s->idle_start_ns);
	else
		s->idle_start_ns = 0;
	/* With those in records of the ring of copies that contradicted themselves. */
	if (c->v[ABI_CNT_KEPT] > taken)
		tally_count(&s->tally, TALLY_DROP_UNREAD, c->v[ABI_CNT_KEPT] - taken);
	tally_count(&s->tally, TALLY_RING_BAD, st->bad_records);
	tally_count(&s->tally, TALLY_READ_ERRORS, st->read_errors);
	came = came_online(s, &gone);
	/* The side-band tells of those that went offline and came back, too. */
	count_changed_cpus(s, came + (s->sideband ? pev_sideband_stats(s->sideband)->stopped_cpus
	                                          : gone));
	if (ses_walks(s))
		count_walk(s);
	if (s->deferred &&
	    deferred_has_tables(s->deferred)) { /* segments of tables were made meanwhile */
		uint64_t bytes = load_locked_bytes(smp_loader(s->smp));

		pthread_mutex_lock(&s->stats_lock);
		s->locked_bytes = MAX_OF(s->locked_bytes, bytes);
		pthread_mutex_unlock(&s->stats_lock);
	}
	s->final.seen = c->v[ABI_CNT_SEEN];
	s->final.idle = c->v[ABI_CNT_TICK_IDLE];
	s->final.elapsed_ns = s->end_ns - s->start_ns;
	s->final.locked_bytes = s->locked_bytes;
	s->final.agent_cpu_ns = ses_agent_cpu_ns(s, c);
}

struct cpu_time_arg {
	struct result_cpu_time *to;
	int error;
};

static void on_cpu_time(void *arg, const struct smp_cpu_time *v)
{
	struct cpu_time_arg *a = arg;

	if (a->error == 0)
		a->error = result_cpu_time_add(a->to, v);
}

/* Without it samples weigh their periods, and nothing tells how much of the time they cover. */
static void read_cpu_time(struct ses *s)
{
	struct smp_cpu_time rest = {0};
	struct cpu_time_arg a = {0};
	struct smp_cpu_time_cost cost = {0};
	int r;

	if (!(s->o.modes & SES_PROFILE) || s->cycles)
		return;
	r = result_cpu_time_new(ABI_CPU_TIME_SAMPLES * s->spec.period, &a.to);
	if (r == 0)
		r = smp_cpu_times(s->smp, on_cpu_time, &a, &rest, &cost);
	if (r == 0)
		result_cpu_time_add_rest(a.to, rest.ran_ns, rest.seen);
	r = r < 0 ? r : a.error;
	if (r < 0) {
		a.to = result_cpu_time_free(a.to);
		tally_note(&s->tally,
		           "the CPU time of the target could not be measured (%s): totals are "
		           "those of the samples alone",
		           err_name(r));
	}
	s->cpu_time = a.to;
	s->tally.kernel.v[ABI_CNT_PROG_NS] += cost.prog_ns;
	s->final.agent_cpu_ns += cost.prog_ns;
	tally_count(&s->tally, TALLY_CPU_TIME_MISSED, cost.missed);
	tally_count(&s->tally, TALLY_CPU_TIME_FULL, cost.full);
}

static int write_output(struct ses_product *p, struct err *err)
{
	struct sbuf b;
	int r;

	sbuf_init(&b, SIZE_MAX / 2);
	r = enc_pprof(p->result.model, &b);
	if (r < 0)
		r = err_set(err, r, "encoding the profile: %s", err_name(r));
	else
		r = enc_output_commit(p->out, b.p, b.len, err);
	sbuf_done(&b);
	return r;
}

int ses_export_metrics(const struct met_snapshot *m, bool json, enc_write_fn write, void *arg,
                       struct err *err)
{
	struct sbuf b;
	int r;

	sbuf_init(&b, SIZE_MAX / 2);
	r = json ? enc_metrics_json(m, &b) : enc_metrics_text(m, &b);
	if (r < 0)
		r = err_set(err, r, "encoding the metrics: %s", err_name(r));
	else
		r = write(arg, b.p, b.len);
	sbuf_done(&b);
	return r;
}

struct checked_output {
	struct enc_output *out;
	struct err *err;
};

static int commit(void *arg, const void *data, size_t len)
{
	const struct checked_output *to = arg;

	return enc_output_commit(to->out, data, len, to->err);
}

static int write_metrics(struct ses *s, struct err *err)
{
	struct checked_output to = {.out = s->pmu_out, .err = err};

	return ses_export_metrics(s->metrics, s->o.pmu_json, commit, &to, err);
}

static int first_of(int before, int r)
{
	return before < 0 ? before : r;
}

/* All of them, whatever becomes of one: the first failure. */
static int write_outputs(struct ses *s, struct err *err)
{
	static const uint32_t modes[SES_KIND_CNT] = {
	        [SES_KIND_ONCPU] = SES_PROFILE, [SES_KIND_OFFCPU] = SES_OFFCPU};
	int r = 0, one;

	for (size_t i = 0; i < SES_KIND_CNT; i++) {
		if (!s->product[i].out || !s->product[i].result.model)
			continue;
		one = write_output(&s->product[i], r == 0 ? err : NULL);
		s->written |= one < 0 ? 0 : modes[i];
		r = first_of(r, one);
	}
	if (s->pmu_out && s->metrics) {
		one = write_metrics(s, r == 0 ? err : NULL);
		s->written |= one < 0 ? 0 : (uint32_t)SES_PMU;
		r = first_of(r, one);
	}
	return r;
}

void ses_interrupt(struct ses *s)
{
	atomic_store(&s->interrupted, true);
}

int ses_stop(struct ses *s, struct err *err)
{
	int r;

	if (s->state != SES_RUNNING)
		return err_set(err, -EINVAL, "the session is not running");
	/* Now, and not when D has come to its end: that may wait for a grace period. */
	if (smp_end(s->smp) < 0)
		tally_count(&s->tally, TALLY_READ_ERRORS, 1);
	pthread_mutex_lock(&s->stats_lock);
	s->end_ns = now_ns();
	if (s->symbolizer)
		symbolizer_late(s->symbolizer);
	s->capture_cpu_ns = ses_threads_cpu_ns(s);
	pthread_mutex_unlock(&s->stats_lock);
	s->stop_cpu_ns = thread_own_cpu_ns();
	if (s->off)
		smp_off_end(s->off);
	ses_pmu_end(s);
	ses_threads_stop(s);
	if (s->scan_error < 0)
		tally_note(&s->tally, "the first look at all processes failed: %s",
		           err_name(s->scan_error));
	if (ses_walks(s))
		deferred_merge(s->deferred);
	final_figures(s);
	ses_check_waits(s);
	read_cpu_time(s);
	/* What one of them lacks is no loss of the others. */
	r = s->pmu ? ses_pmu_collect(s, err) : 0;
	if (ses_walks(s))
		r = first_of(r, ses_profile_build(s, r == 0 ? err : NULL));
	r = first_of(r, ses_labels_metrics(s, r == 0 ? err : NULL));
	r = first_of(r, write_outputs(s, r == 0 ? err : NULL));
	if (r == 0 && s->without)
		r = err_set(err, s->without_why.code, "%s", s->without_why.msg);
	if (s->o.target == SES_TARGET_COMMAND)
		(void)ses_command_poll(&s->cmd); /* asked again by ses_command_status */
	/* Before the sampler goes: from here on pfa_stats of another thread answers with the final
	 * figures. */
	pthread_mutex_lock(&s->stats_lock);
	s->state = SES_STOPPED;
	pthread_mutex_unlock(&s->stats_lock);
	atomic_store(&s->interrupted, false); /* it came too late, and is not for the next start */
	release(s);
	return r;
}

/* ---- questions ------------------------------------------------------------------------------- */

uint32_t ses_modes_run(const struct ses *s)
{
	return s->state == SES_NEW ? 0 : s->o.modes & ~s->without;
}

uint32_t ses_modes_written(const struct ses *s)
{
	return s->written;
}

bool ses_running(const struct ses *s)
{
	return s->state == SES_RUNNING;
}

int ses_ended_fd(const struct ses *s)
{
	return s->state == SES_RUNNING && s->ended_fd >= 0 ? s->ended_fd : -1;
}

int ses_command_status(struct ses *s, int *ret)
{
	int r = ses_command_poll(&s->cmd);

	if (r == 1)
		*ret = s->cmd.status;
	return r;
}

int ses_command_pid(const struct ses *s)
{
	return s->cmd.pid ? (int)s->cmd.pid : -EINVAL;
}

/* Counters as of now: of the running programs, or the final ones; @ret_off: of those off the CPU.
 * With stats_lock, or on C. */
static int counters_now(struct ses *s, struct abi_counters *ret, struct abi_counters *ret_off)
{
	int r;

	*ret_off = s->tally.offcpu;
	if (s->state != SES_RUNNING) {
		*ret = s->tally.kernel;
		return 0;
	}
	r = load_counters(smp_loader(s->smp), ret);
	return r == 0 && s->off ? ses_off_counters_now(s, ret_off, ret) : r;
}

int ses_stats(struct ses *s, struct ses_stats *ret)
{
	struct abi_counters c, off;
	int r = 0;

	pthread_mutex_lock(&s->stats_lock);
	if (s->state != SES_RUNNING)
		*ret = s->final;
	else
		r = counters_now(s, &c, &off);
	if (s->state == SES_RUNNING && r == 0) {
		memset(ret, 0, sizeof(*ret));
		ret->elapsed_ns = (s->end_ns ? s->end_ns : now_ns()) - s->start_ns;
		ret->seen = c.v[ABI_CNT_SEEN];
		ret->kept = c.v[ABI_CNT_KEPT];
		ret->dropped = tally_dropped(&s->tally, &c);
		ret->idle = c.v[ABI_CNT_TICK_IDLE];
		ret->stacks = c.v[ABI_CNT_STACK_SHIPPED];
		ret->agent_cpu_ns = ses_agent_cpu_ns(s, &c);
		ret->locked_bytes = s->locked_bytes;
		ret->waits_seen = off.v[ABI_CNT_SEEN];
		ret->waits_dropped =
		        off.v[ABI_CNT_DROP_COUNTS_FULL] + off.v[ABI_CNT_DROP_COUNTS_BUSY];
		ret->waits = ret->waits_seen - MIN_OF(ret->waits_seen, ret->waits_dropped);
	}
	pthread_mutex_unlock(&s->stats_lock);
	return r;
}

int ses_counter(struct ses *s, size_t i, struct tally_counter *ret)
{
	struct abi_counters c, off;
	int r = counters_now(s, &c, &off);

	return r < 0 ? r : tally_counter(&s->tally, &c, i, ret);
}

const char *ses_note(const struct ses *s, size_t i)
{
	return i < s->tally.n_notes ? s->tally.notes[i] : NULL;
}

const char *ses_quality(const struct ses *s, enum ses_kind kind, size_t i)
{
	const struct ses_product *p = &s->product[kind];

	return s->state == SES_STOPPED && i < p->quality.n ? p->quality.p[i] : NULL;
}

int ses_top(const struct ses *s, enum ses_kind kind, struct ses_function *ret, size_t max)
{
	_cleanup_free_ struct prof_top *top = NULL;
	const struct prof_model *m = s->product[kind].result.model;
	size_t n = 0;
	int r;

	if (s->state != SES_STOPPED || !m)
		return -EINVAL;
	r = prof_model_top_beyond(m, 1, kind == SES_KIND_OFFCPU ? result_is_switch : NULL, max,
	                          &top, &n);
	if (r < 0)
		return r;
	for (size_t i = 0; i < n; i++) {
		ret[i].name = prof_model_str(m, top[i].name);
		ret[i].module = top[i].mapping
		                        ? prof_model_str(m, m->mappings.p[top[i].mapping - 1].path)
		                        : "";
		ret[i].self = (uint64_t)top[i].self;
		ret[i].cum = (uint64_t)top[i].cum;
	}
	return (int)n;
}

int ses_top_waits(const struct ses *s, struct result_site *ret, size_t max)
{
	const struct prof_model *m = s->product[SES_KIND_OFFCPU].result.model;

	return s->state == SES_STOPPED && m ? result_sites(m, ret, max) : -EINVAL;
}

const struct met_snapshot *ses_metrics(const struct ses *s)
{
	return s->state == SES_STOPPED ? s->metrics : NULL;
}

const char *ses_weight_unit(const struct ses *s)
{
	return s->cycles ? "cycles" : "nanoseconds";
}
