/* SPDX-License-Identifier: Apache-2.0 */
/* Scheduler statistics and hardware counters: options, counters, programs, notes of the
 * snapshot. */
#include <stddef.h>
#include <stdio.h>

#include "encode/encode.h"
#include "source/source_priv.h"

#define FOLD_NS (60 * NSEC_PER_SEC)
/* Threads of the target at a time; their counts are in a mapped array, 192 bytes each. */
#define THREADS_ONE  8192U
#define THREADS_MANY 32768U

static int sched_check(const struct pfa_options *o, struct err *err)
{
	if (o->flags & PFA_PER_PID && (!(o->modes & PFA_MODE_PMU) || o->target != PFA_TARGET_ALL))
		return err_set(err, -EINVAL, "per pid: needs PMU and the whole machine");
	if (o->pmu_format > PFA_FORMAT_JSON)
		return err_set(err, -EINVAL, "format of metrics: unknown value %u", o->pmu_format);
	if (o->pmu_format != PFA_FORMAT_TEXT && !(o->modes & PFA_MODE_PMU))
		return err_set(err, -EINVAL, "format of metrics: needs PMU");
	return 0;
}

/* ---- counters -------------------------------------------------------------------------------- */

static int open_counters(struct sched *p, struct err *err)
{
	struct pev_core_type types[PROC_CORE_TYPES_MAX];
	struct pev_counter_cpus on = {.types = types};
	int r = proc_cpus_read("/sys", &p->cpus, err);

	if (r < 0)
		return r;
	for (uint32_t i = 0; i < p->cpus->n_types; i++)
		types[i] = (struct pev_core_type){.name = p->cpus->types[i].name,
		                                  .perf_type = p->cpus->types[i].perf_type};
	vec_each (n, &p->cpus->notes)
		tally_note(p->env->tally, "%s", *n);
	on.cpu = p->cpus->cpu;
	on.core_type = p->cpus->core_type;
	on.n = p->cpus->n;
	on.n_types = p->cpus->n_types;
	r = pev_counters_open(pev_counters_hardware, PEV_HARDWARE_CNT, &on, &p->counters, err);
	for (uint32_t k = 0; k < PEV_HARDWARE_CNT && r == 0; k++) {
		uint32_t opened = 0;

		for (uint32_t t = 0; t < p->cpus->n_types; t++)
			opened += pev_counters_state(&p->counters, k, t)->opened;
		if (opened)
			p->counting[p->n_counting++] = k;
	}
	return r;
}

/* Gives the programs the events of the counters. */
static int give_counters(struct sched *p, struct err *err)
{
	_cleanup_free_ uint32_t *types = calloc(PROC_CPUS_MAX, sizeof(*types));
	int r = 0;

	if (!types)
		return err_set(err, -ENOMEM, "out of memory");
	for (uint32_t i = 0; i < p->cpus->n; i++)
		if (p->cpus->core_type[i] != PROC_CORE_TYPE_NONE)
			types[p->cpus->cpu[i]] = p->cpus->core_type[i];
	r = load_sched_core_types(p->loader, types);
	for (uint32_t k = 0; k < p->n_counting && r == 0; k++) {
		for (uint32_t i = 0; i < p->cpus->n && r == 0; i++) {
			uint32_t cpu = p->cpus->cpu[i];
			int fd = pev_counters_fd(&p->counters, p->counting[k], cpu);

			if (fd >= 0)
				r = load_sched_counter(p->loader, k, cpu, fd);
		}
	}
	return r < 0 ? err_set(err, r, "counters for the scheduler programs: %s", err_name(r)) : 0;
}

/* ---- life ------------------------------------------------------------------------------------ */

static void *sched_free(void *src)
{
	struct sched *p = src;

	if (!p)
		return NULL;
	p->loader = load_sched_free(p->loader);
	if (p->enabled)
		(void)pev_counters_disable(&p->counters); /* closed next */
	(void)pev_counters_close(&p->counters);           /* nothing is lost by it */
	p->cpus = proc_cpus_free(p->cpus);
	p->snap = met_snapshot_free(p->snap);
	for (size_t i = 0; i < ARRAY_SIZE(p->slots); i++)
		free(p->slots[i].hist);
	vec_done(&p->shown);
	vec_done(&p->hidden);
	free(p->hist);
	free(p);
	return NULL;
}

static int sched_open(const struct src_env *env, void **ret, struct err *err)
{
	struct sched *p = calloc(1, sizeof(*p));
	uint64_t dev, ino;
	bool initial;

	if (!p)
		return err_set(err, -ENOMEM, "out of memory");
	p->env = env;
	p->shown.max = p->hidden.max = 1U << 22; /* PID_MAX_LIMIT */
	p->nested = proc_self_pidns(&dev, &ino, &initial) < 0 || !initial;
	p->per_process = !tgt_all(env->target) || (env->o->flags & PFA_PER_PID);
	*ret = p;
	return 0;
}

static int sched_load(void *src, struct err *err)
{
	struct sched *p = src;
	const struct pfa_options *opts = p->env->o;
	const struct target *t = p->env->target;
	struct load_sched_options o = {.per_process = p->per_process};
	struct err why = {0};
	/* Without counters there are still the times. */
	int r = open_counters(p, &why);

	if (r < 0)
		tally_note(p->env->tally, "no hardware counters: %s", why.msg);
	o.n_counters = r < 0 ? 0 : p->n_counting;
	o.n_procs = opts->target == PFA_TARGET_PID && !tgt_follows(t)
	                    /* Two CPUs that add a process at once may use two slots. */
	                    ? MIN_OF(2 * t->n + 6, (uint32_t)ABI_SCHED_PROCS)
	                    : ABI_SCHED_PROCS;
	o.thread_entries = opts->offcpu_threads ? opts->offcpu_threads
	                   : tgt_all(t)         ? THREADS_MANY
	                                        : THREADS_ONE;
	r = load_sched_open(smp_walker_loader(p->env->walker), &o, &p->loader, err);
	return r == 0 && o.n_counters ? give_counters(p, err) : r;
}

static int sched_start(void *src, struct err *err)
{
	struct sched *p = src;
	int r = 0;

	if (p->n_counting) {
		r = pev_counters_enable(&p->counters, err);
		p->enabled = r == 0;
	}
	if (r == 0)
		r = load_sched_attach(p->loader, err);
	p->folded_ns = now_ns();
	return r;
}

/* 32-bit sums of a process wrap after 2^31 switches, a minute at the very least. */
static void sched_drain(void *src, const struct smp_sink *sink, uint64_t now)
{
	struct sched *p = src;

	(void)sink;
	if (now - p->folded_ns < FOLD_NS)
		return;
	p->folded_ns = now;
	if (load_sched_fold(p->loader) < 0)
		tally_count(p->env->tally, TALLY_READ_ERRORS, 1);
}

static void sched_end(void *src)
{
	load_sched_detach(((struct sched *)src)->loader);
}

static uint64_t sched_locked_bytes(const void *src)
{
	return load_sched_locked_bytes(((const struct sched *)src)->loader);
}

/* ---- the snapshot ---------------------------------------------------------------------------- */

static int add_filter(void *arg, const char *key, const char *value)
{
	return met_snapshot_label(arg, key, value);
}

static bool is_shown(const struct sched *p, uint32_t pid)
{
	vec_each (shown, &p->shown)
		if (*shown == pid)
			return true;
	return false;
}

/* Adds a note if statistics are incomplete, or empty, without saying so. */
static void note_missed(const struct sched *p, uint64_t lost)
{
	const struct target *t = p->env->target;
	const struct met_entry *all = &p->snap->all;
	uint64_t threads = 0, asleep = 0;
	uint32_t procs = 0;

	vec_each (pid, &p->hidden)
		threads += is_shown(p, *pid);
	/* Only if no thread was dropped: the table had room. */
	for (uint32_t i = 0; i < t->n && p->scanned && !lost && !p->others && !tgt_filtered(t);
	     i++) {
		uint64_t n = is_shown(p, t->pids[i]) ? 0 : tgt_asleep_cnt(t, t->pids[i]);

		asleep += n;
		procs += n > 0;
	}
	if (procs)
		tally_note(p->env->tally,
		           "BPF programs on this machine do not get the scheduler events of %u "
		           "process%s of the target: --pmu lacks %s threads (blocked: %llu)",
		           procs, procs == 1 ? "" : "es", procs == 1 ? "its" : "their",
		           (unsigned long long)asleep);
	if (threads)
		tally_note(p->env->tally,
		           "BPF programs on this machine do not get all scheduler events of %llu "
		           "thread%s: --pmu has only a part of %s time",
		           (unsigned long long)threads, threads == 1 ? "" : "s",
		           threads == 1 ? "its" : "their");
	if (!threads && !procs && !p->others && !all->switches && !all->ns[MET_SLICE] &&
	    !all->ns[MET_RUNQ] && !all->ns[MET_OFF] && tgt_filtered(t))
		tally_note(p->env->tally, "--pmu counted nothing: no thread matched the filters");
}

static int describe(struct sched *p, const struct load_sched_total *total)
{
	const struct src_env *env = p->env;
	const struct target *target = env->target;
	struct met_snapshot *m = p->snap;
	char text[512];
	int r = 0;

	m->scope = !tgt_all(target) ? MET_PIDS : p->per_process ? MET_PER_PID : MET_ALL;
	m->time_realtime_ns = env->start_realtime_ns + (p->begin_ns - env->start_ns);
	m->duration_ns = p->end_ns - p->begin_ns;
	m->cpus = p->cpus ? p->cpus->n : env->n_cpus;
	m->cpus_offline = p->cpus ? p->cpus->offline_cnt : 0;
	m->missed_events = total->missed;
	m->dropped_events = total->lost;
	m->other_threads = total->lost_procs;
	for (uint32_t t = 0; t < (p->cpus ? p->cpus->n_types : 1) && r == 0; t++)
		r = met_snapshot_core_type(
		        m, p->cpus && p->cpus->n_types > 1 ? p->cpus->types[t].name : "");
	note_missed(p, total->lost);
	for (size_t i = 0; i < env->tally->n_notes && r == 0; i++)
		r = met_snapshot_note(m, env->tally->notes[i]);
	if (r == 0 && total->lost) {
		(void)snprintf(text, sizeof(text),
		               "the thread table was full: %llu switches and wake-ups were "
		               "dropped, and their intervals are missing",
		               (unsigned long long)total->lost);
		tally_note(env->tally, "%s", text);
		r = met_snapshot_note(m, text);
	}
	if (r == 0 && total->missed) {
		(void)snprintf(
		        text, sizeof(text),
		        "%llu sched_switch or sched_wakeup events were missed: the times around "
		        "them are in the sums, from sum_exec_runtime, and in no histogram",
		        (unsigned long long)total->missed);
		r = met_snapshot_note(m, text);
	}
	for (const char *const *tag = env->o->tags; tag && *tag && r == 0; tag++) {
		const char *eq = strchr(*tag, '=');
		_cleanup_free_ char *key = strndup(*tag, (size_t)(eq - *tag));

		r = key ? met_snapshot_label(m, key, eq + 1) : -ENOMEM;
	}
	return r < 0 ? r : tgt_each_filter(target, add_filter, m);
}

static int sched_product(void *src, struct src_product *product, struct err *err)
{
	struct sched *p = src;
	struct tally *tally = p->env->tally;
	_cleanup_free_ struct load_sched_total *total = calloc(1, sizeof(*total));
	int r = total ? sched_read(p, total, err) : err_set(err, -ENOMEM, "out of memory");

	if (r < 0)
		return r;
	assert(total);
	r = describe(p, total);
	if (r < 0)
		return err_set(err, r, "building scheduler statistics: %s", err_name(r));
	met_snapshot_sort(p->snap);
	product->metrics = TAKE_PTR(p->snap);
	tally_count(tally, TALLY_PMU_SWITCHES, product->metrics->all.switches);
	tally_count(tally, TALLY_PMU_LOST, total->lost);
	tally_count(tally, TALLY_PMU_MISSED, total->missed);
	tally_count(tally, TALLY_PMU_PROCS_LOST, total->lost_procs);
	tally->kernel.v[ABI_CNT_PROG_NS] += total->prog_ns;
	return 0;
}

static int encode(const struct src_product *p, const struct pfa_options *o, struct sbuf *b)
{
	return o->pmu_format == PFA_FORMAT_JSON ? enc_metrics_json(p->metrics, b)
	                                        : enc_metrics_text(p->metrics, b);
}

const struct source src_sched = {
        .mode = PFA_MODE_PMU,
        .title = "PMU",
        .programs = "scheduler",
        .output = offsetof(struct pfa_options, pmu),
        .check = sched_check,
        .open = sched_open,
        .load = sched_load,
        .start = sched_start,
        .drain = sched_drain,
        .end = sched_end,
        .product = sched_product,
        .locked_bytes = sched_locked_bytes,
        .encode = encode,
        .free = sched_free,
};
