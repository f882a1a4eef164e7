/* SPDX-License-Identifier: Apache-2.0 */
/* On-CPU samples: the event that ticks, the CPU time that scales their weights, idle time, quality
 * lines. */
#include <linux/perf_event.h>
#include <stddef.h>

#include "source/source_priv.h"

/* ---- before the start ------------------------------------------------------------------------ */

static int check_rate(uint32_t rate_hz, struct err *err)
{
	int64_t max = 0;

	if (proc_sysctl("kernel/perf_event_max_sample_rate", &max) < 0 || max <= 0 ||
	    rate_hz <= (uint64_t)max)
		return 0;
	return err_set_cause(err, -EINVAL, ERR_SYSCTL, "kernel.perf_event_max_sample_rate",
	                     "sample rate %u is above kernel.perf_event_max_sample_rate=%lld: "
	                     "lower it or raise the sysctl",
	                     rate_hz, (long long)max);
}

static int choose_event(struct oncpu *s, struct err *err)
{
	const struct pfa_options *o = s->env->o;
	int e = 0, r;

	s->spec = pev_spec_cpu_clock(o->sample_rate_hz);
	if (o->event == PFA_EVENT_CPU_CLOCK)
		return 0;
	r = pev_probe_cycles(s->env->cpus[0], o->sample_rate_hz, &s->spec, &e, err);
	if (r < 0)
		return r;
	if (r == 1) {
		s->cycles = true;
		return 0;
	}
	/* Refused, not absent: @err has the call and the remedy. */
	if (o->event == PFA_EVENT_CYCLES && e == EACCES)
		return err ? err->code : -e;
	if (o->event == PFA_EVENT_CYCLES)
		return err_set(err, -e,
		               "event cycles: perf_event_open: %s: no hardware cycles to sample "
		               "here (a virtual machine "
		               "without a PMU?): use cpu-clock or auto",
		               err_name(e));
	s->spec = pev_spec_cpu_clock(o->sample_rate_hz);
	tally_note(s->env->tally,
	           "no hardware cycles to sample (perf_event_open: %s); sampling by cpu-clock",
	           err_name(e));
	return 0;
}

static void *oncpu_free(void *src)
{
	struct oncpu *s = src;

	if (s) {
		s->sampler = smp_oncpu_free(s->sampler);
		s->cpu_time = result_cpu_time_free(s->cpu_time);
		free(s);
	}
	return NULL;
}

static int oncpu_open(const struct src_env *env, void **ret, struct err *err)
{
	struct oncpu *s = calloc(1, sizeof(*s));
	int r;

	if (!s)
		return err_set(err, -ENOMEM, "out of memory");
	s->env = env;
	r = check_rate(env->o->sample_rate_hz, err);
	if (r == 0)
		r = choose_event(s, err);
	if (r < 0)
		(void)oncpu_free(s); /* NULL */
	else
		*ret = s;
	return r;
}

static uint64_t few_weight(const struct oncpu *s)
{
	return ABI_CPU_TIME_SAMPLES * s->spec.period;
}

static void oncpu_config(const void *src, struct abi_config *cfg, struct load_sizes *sizes)
{
	const struct oncpu *s = src;

	sizes->no_sample = false;
	/* Weights of other events are not times. */
	cfg->cpu_time = !s->cycles;
	cfg->few_weight = few_weight(s);
}

static int oncpu_load(void *src, struct err *err)
{
	struct oncpu *s = src;
	const struct smp_oncpu_options o = {.spec = s->spec, .cpu_time = !s->cycles};
	int r = smp_oncpu_open(s->env->walker, &o, &s->sampler);

	return r < 0 ? err_set(err, r, "out of memory") : 0;
}

/* ---- while it runs --------------------------------------------------------------------------- */

static int oncpu_start(void *src, struct err *err)
{
	struct oncpu *s = src;
	int r;

	if (proc_idle_ns(s->env->cpus, s->env->n_cpus, &s->idle_start_ns) < 0)
		s->idle_start_ns = 0; /* idle_pct is left out */
	r = smp_oncpu_start(s->sampler, s->env->cpus, s->env->n_cpus, err);
	if (r == 0)
		tally_count(s->env->tally, TALLY_CPUS_SKIPPED, smp_oncpu_skipped_cpus(s->sampler));
	return r;
}

static void oncpu_drain(void *src, const struct smp_sink *sink, uint64_t now)
{
	struct oncpu *s = src;

	(void)now;
	(void)smp_oncpu_drain(s->sampler, sink); /* counted: read_errors */
}

struct reading_arg {
	struct result_cpu_reading *to;
	int error;
};

static void add_reading(void *arg, const struct smp_cpu_time *v)
{
	struct reading_arg *a = arg;

	if (a->error == 0)
		a->error = result_cpu_reading_add(a->to, v);
}

static void oncpu_drain_all(void *src, const struct smp_sink *sink, const struct smp_sink *open,
                            struct result_cpu_reading *ret)
{
	struct oncpu *s = src;
	struct reading_arg a = {.to = ret};
	struct smp_cpu_time rest = {0};
	struct smp_cpu_time_cost cost;
	int r;

	(void)open;
	(void)smp_oncpu_drain_all(s->sampler, sink); /* counted: read_errors */
	if (!ret || s->cycles)
		return;
	r = smp_oncpu_split_times(s->sampler, add_reading, &a, &rest, &cost);
	if (r < 0 || a.error < 0)
		return; /* weights stay as they are */
	ret->rest = (struct result_cpu_time_total){.ran_ns = rest.ran_ns, .seen = rest.seen};
	ret->few = few_weight(s);
}

static void oncpu_end(void *src)
{
	struct oncpu *s = src;

	if (smp_oncpu_end(s->sampler) < 0)
		tally_count(s->env->tally, TALLY_READ_ERRORS, 1);
}

static void oncpu_finish(void *src, const struct smp_sink *sink)
{
	struct oncpu *s = src;

	(void)smp_oncpu_finish(s->sampler, sink); /* counted: read_errors */
}

/* ---- after it -------------------------------------------------------------------------------- */

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

/* Reads the CPU time. Without it samples weigh their periods, and their coverage is not known. */
static void read_cpu_time(struct oncpu *s)
{
	struct tally *tally = s->env->tally;
	struct smp_cpu_time rest = {0};
	struct cpu_time_arg a = {0};
	struct smp_cpu_time_cost cost = {0};
	int r;

	if (s->cycles)
		return;
	r = result_cpu_time_new(few_weight(s), &a.to);
	if (r == 0)
		r = smp_oncpu_times(s->sampler, on_cpu_time, &a, &rest, &cost);
	if (r == 0)
		result_cpu_time_add_rest(a.to, rest.ran_ns, rest.seen);
	r = r < 0 ? r : a.error;
	if (r < 0) {
		a.to = result_cpu_time_free(a.to);
		tally_note(tally,
		           "cannot measure the CPU time of the target: %s; totals come from the "
		           "samples alone",
		           err_name(r));
	}
	s->cpu_time = a.to;
	tally->kernel.v[ABI_CNT_PROG_NS] += cost.prog_ns;
	tally_count(tally, TALLY_CPU_TIME_MISSED, cost.missed);
	tally_count(tally, TALLY_CPU_TIME_FULL, cost.full);
}

static void oncpu_collect(void *src)
{
	struct oncpu *s = src;
	const struct smp_oncpu_stats *st = smp_oncpu_stats(s->sampler);
	const struct smp_walker_stats *w = smp_walker_stats(s->env->walker);
	struct tally *tally = s->env->tally;
	uint64_t read = st->read_samples + w->ring_samples + w->deferred_samples, idle_ns;
	struct abi_counters *c = &tally->kernel;

	if (s->idle_start_ns && proc_idle_ns(s->env->cpus, s->env->n_cpus, &idle_ns) == 0)
		s->idle_ns = idle_ns - MIN_OF(idle_ns, s->idle_start_ns);
	else
		s->idle_start_ns = 0;
	if (!c->v[ABI_CNT_SEEN] && !c->v[ABI_CNT_KEPT]) /* they could not be read */
		c->v[ABI_CNT_SEEN] = c->v[ABI_CNT_KEPT] = read;
	/* Includes deferred samples in records that contradicted themselves. */
	if (c->v[ABI_CNT_KEPT] > read)
		tally_count(tally, TALLY_DROP_UNREAD, c->v[ABI_CNT_KEPT] - read);
	tally_count(tally, TALLY_READ_ERRORS, st->read_errors);
	read_cpu_time(s);
}

static const struct result_cpu_time *oncpu_cpu_time(const void *src)
{
	return ((const struct oncpu *)src)->cpu_time;
}

static void oncpu_kind(const void *src, struct result_kind *ret)
{
	const struct oncpu *s = src;

	ret->cycles = s->cycles;
	ret->freq = s->spec.freq;
	ret->period = s->spec.period;
	ret->event = pev_spec_name(&s->spec);
	ret->rate_hz = s->env->o->sample_rate_hz;
}

static void oncpu_built(void *src, const struct src_product *p, struct pfa_stats *final)
{
	struct oncpu *s = src;
	struct tally *tally = s->env->tally;

	tally_count(tally, TALLY_STACK_LOST, p->result.lost_stacks);
	tally_count(tally, TALLY_DROP_MODEL_FULL, p->result.dropped);
	tally_count(tally, TALLY_DROP_AGG_FULL,
	            prof_agg_stats(s->env->agg)->counts_dropped_samples);
	final->seen = tally->kernel.v[ABI_CNT_SEEN];
	final->kept = p->result.kept;
	final->weight = p->result.weight;
	final->dropped = tally_dropped(tally, &tally->kernel);
}

/* ---- quality lines --------------------------------------------------------------------------- */

static int add_counter(void *arg, const char *name, uint64_t value)
{
	return result_line(arg, "%s: %llu", name, (unsigned long long)value);
}

static int add_samples(const struct oncpu *s, const struct pfa_stats *final,
                       struct result_lines *to)
{
	(void)result_line(to, "samples_seen: %llu", (unsigned long long) final->seen);
	(void)result_line(to, "samples_in_profile: %llu", (unsigned long long) final->kept);
	(void)result_line(to, "dropped: %llu", (unsigned long long) final->dropped);
	(void)tally_each(s->env->tally, TALLY_DROP, add_counter, to);
	if (final->kept == 0)
		(void)result_line(to, "empty: no samples of the target");
	return to->error;
}

/* A note is added if the samples cover the time by this much too much or too little, beyond three
 * standard deviations. */
#define COVERED_ROOM_PCT 5.0

/* Adds the target's on-CPU time, and the share of it that the samples cover. */
static void add_cpu_time(const struct oncpu *s, struct result_lines *to)
{
	const struct result_cpu_time_total *t;
	double covered, off;

	if (!s->cpu_time)
		return;
	t = result_cpu_time_total(s->cpu_time);
	(void)result_line(to, "cpu_time_ms: %.3f", (double)t->ran_ns / 1e6);
	(void)result_line(to, "cpu_time_clock: sched_switch");
	if (!t->ran_ns)
		return;
	covered = result_pct(t->seen, t->ran_ns);
	off = (covered > 100 ? covered - 100 : 100 - covered) - COVERED_ROOM_PCT;
	/* The variance of a share, in percent, with the number of samples that the time would
	 * give. */
	if (off > 0 && off * off > 9 * 1e4 * (double)s->spec.period / (double)t->ran_ns)
		tally_note(s->env->tally,
		           "samples cover %.0f %% of the CPU time of the target, which is measured "
		           "at context switches%s; totals are scaled to the measured time, shares "
		           "come from the samples",
		           covered,
		           covered < 100
		                   ? ": ticks came late or not at all (it runs for "
		                     "microseconds at a time or in step with the ticks, a "
		                     "hypervisor delays interrupts, or the sample rate is too "
		                     "high for this machine)"
		                   : "");
	(void)result_line(to, "cpu_time_covered_pct: %.2f", covered);
}

/* /proc/stat counts idle time in steps of 10 ms a CPU: a share of less than this has no
 * precision. */
#define IDLE_MIN_NS NSEC_PER_SEC

/* Adds the idle share of the CPUs, and the deferred samples. */
static void add_ticks(const struct oncpu *s, const struct pfa_stats *final, struct result_lines *to)
{
	const uint64_t all_ns = (uint64_t)s->env->n_cpus * final->elapsed_ns;
	const uint64_t walked = tally_get(s->env->tally, TALLY_DEFERRED_UNWOUND);

	/* It is a property of the machine, not of one process on it. */
	if (tgt_all(s->env->target) && s->idle_start_ns && final->elapsed_ns >= IDLE_MIN_NS)
		(void)result_line(to, "idle_pct: %.2f",
		                  result_pct(MIN_OF(s->idle_ns, all_ns), all_ns));
	if (!walked)
		return;
	(void)result_line(to, "deferred_samples: %llu", (unsigned long long)walked);
	(void)result_line(to, "deferred_samples_incomplete: %llu",
	                  (unsigned long long)tally_get(s->env->tally, TALLY_DEFERRED_INCOMPLETE));
}

static int oncpu_statistics(const void *src, const struct src_product *p,
                            const struct pfa_stats *final, struct result_lines *to)
{
	(void)p;
	return add_samples(src, final, to);
}

static int oncpu_coverage(const void *src, const struct pfa_stats *final, struct result_lines *to)
{
	add_cpu_time(src, to);
	add_ticks(src, final, to);
	return to->error;
}

const struct source src_oncpu = {
        .mode = PFA_MODE_PROFILE,
        .title = "on-CPU profile",
        .programs = "sampling",
        .required = true,
        .walks = true,
        .output = offsetof(struct pfa_options, profile),
        .open = oncpu_open,
        .config = oncpu_config,
        .load = oncpu_load,
        .start = oncpu_start,
        .drain = oncpu_drain,
        .drain_all = oncpu_drain_all,
        .end = oncpu_end,
        .finish = oncpu_finish,
        .collect = oncpu_collect,
        .cpu_time = oncpu_cpu_time,
        .profile_kind = PFA_KIND_ONCPU,
        .kind = oncpu_kind,
        .built = oncpu_built,
        .statistics = oncpu_statistics,
        .coverage = oncpu_coverage,
        .encode = src_encode_pprof,
        .free = oncpu_free,
};
