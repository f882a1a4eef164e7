/* SPDX-License-Identifier: Apache-2.0 */
/* Scheduler statistics and hardware counters: what counts, and the snapshot that is made of it.
 * Thread: C, but for ses_pmu_fold (D). */
#include "session/session_priv.h"

#include <stdio.h>

#include "metrics/metrics.h"

_Static_assert((int)MET_SLICE == (int)ABI_HIST_SLICE && (int)MET_RUNQ == (int)ABI_HIST_RUNQ &&
                       (int)MET_OFF == (int)ABI_HIST_OFF && (int)MET_TIME_CNT == (int)ABI_HIST_CNT,
               "one numbering");
_Static_assert((int)MET_REASON_PREEMPTED == (int)ABI_REASON_PREEMPTED &&
                       (int)MET_REASON_EXITED == (int)ABI_REASON_EXITED &&
                       (int)MET_REASON_CNT == (int)ABI_REASON_CNT,
               "one numbering");
_Static_assert(MET_BUCKETS == ABI_HIST_BUCKETS && MET_COMM_LEN == ABI_COMM_LEN, "one layout");
_Static_assert((int)MET_COUNTER_PAGE_FAULTS == PEV_HARDWARE_CNT, "hardware counters come first");

#define FOLD_NS (60 * NSEC_PER_SEC)
/* Threads of the target at a time; their counts lie in an array that is mapped, 192 bytes each. */
#define THREADS_ONE  8192U
#define THREADS_MANY 32768U

struct ses_pmu {
	struct load_sched *loader;
	struct proc_cpus *cpus;
	struct pev_counters counters;
	uint32_t n_counting;                 /* counters that are open somewhere */
	uint32_t counting[PEV_HARDWARE_CNT]; /* which: enum met_counter_id */
	uint64_t folded_ns;                  /* D */
	bool nested;                         /* we are in a pid namespace of our own */
	bool enabled, others;                /* others: there are processes without a slot */
	bool per_process;

	/* While the snapshot is made. */
	/* By core type and counter: for how long it was wanted and counted, over all CPUs. Reading
	 * that at each switch would cost as much as the counter. */
	struct pev_count times[PROC_CORE_TYPES_MAX][PEV_HARDWARE_CNT];
	struct met_snapshot *snap;
	uint64_t ended_unseen; /* threads that ended after they had left their CPU unseen */
	VEC(uint32_t) shown;   /* processes of threads that a program was shown at the end, and */
	VEC(uint32_t) hidden;  /* of those that it was not, though they are there; some often */
	/* By slot. Two CPUs that meet a process at once give it two, which are one. */
	struct slot {
		uint32_t tgid, first; /* first: the slot that stands for all of its process */
		uint64_t start_ns;
		uint32_t entry; /* of first: index in snap->procs + 1 */
		bool several;
		uint64_t total_ns[MET_TIME_CNT]; /* of first, where there are several */
		struct met_hist *hist; /* of first, where there are several: hist[MET_TIME_CNT] */
	} slots[ABI_SCHED_PROCS + 1];
	struct met_hist *hist;           /* hist[MET_TIME_CNT], of the entry in work */
	uint64_t total_ns[MET_TIME_CNT]; /* likewise: exact sums of the values in hist */
	uint64_t begin_ns, end_ns;
	bool looked; /* at all threads, when it ended */
	int error;
};

int ses_pmu_options(const struct ses_options *o, struct err *err)
{
	if (o->per_pid && (!(o->modes & SES_PMU) || o->target != SES_TARGET_ALL))
		return err_set(err, -EINVAL, "per pid: goes with PMU and the whole machine only");
	if (o->pmu_json && !(o->modes & SES_PMU))
		return err_set(err, -EINVAL, "format of metrics: goes with PMU only");
	return 0;
}

/* ---- counters -------------------------------------------------------------------------------- */

static int open_counters(struct ses *s, struct ses_pmu *p, struct err *err)
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
		tally_note(&s->tally, "%s", *n);
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

/* The programs read a counter where its event stands in their table. */
static int give_counters(struct ses_pmu *p, struct err *err)
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

int ses_pmu_open(struct ses *s, struct err *err)
{
	bool all = s->o.target == SES_TARGET_ALL;
	struct load_sched_options o = {.per_process = !all || s->o.per_pid};
	struct ses_pmu *p = calloc(1, sizeof(*p));
	struct err why = {0};
	uint64_t dev, ino;
	bool initial;
	int r;

	if (!p)
		return err_set(err, -ENOMEM, "out of memory");
	s->pmu = p;
	p->shown.max = p->hidden.max = 1U << 22; /* PID_MAX_LIMIT */
	p->nested = proc_self_pidns(&dev, &ino, &initial) < 0 || !initial;
	p->per_process = o.per_process;
	/* Without counters the times are still worth having. */
	r = open_counters(s, p, &why);
	if (r < 0)
		tally_note(&s->tally, "no hardware counters: %s", why.msg);
	o.n_counters = r < 0 ? 0 : p->n_counting;
	o.n_procs = s->o.target == SES_TARGET_PID && !s->o.follow_children
	                    /* Two CPUs that meet a process at once may take two. */
	                    ? MIN_OF(2 * s->targets.n + 6, (uint32_t)ABI_SCHED_PROCS)
	                    : ABI_SCHED_PROCS;
	o.thread_entries = s->o.off_threads ? s->o.off_threads : all ? THREADS_MANY : THREADS_ONE;
	r = load_sched_open(smp_loader(s->smp), &o, &p->loader, err);
	if (r < 0)
		return ses_explain(r, err);
	return o.n_counters ? give_counters(p, err) : 0;
}

int ses_pmu_start(struct ses *s, struct err *err)
{
	struct ses_pmu *p = s->pmu;
	int r = 0;

	if (p->n_counting) {
		r = pev_counters_enable(&p->counters, err);
		p->enabled = r == 0;
	}
	if (r == 0)
		r = load_sched_attach(p->loader, err);
	p->folded_ns = now_ns();
	return r < 0 ? ses_explain(r, err) : 0;
}

void ses_pmu_fold(struct ses *s, uint64_t now)
{
	struct ses_pmu *p = s->pmu;

	if (!p || now - p->folded_ns < FOLD_NS)
		return;
	p->folded_ns = now;
	if (load_sched_fold(p->loader) < 0)
		tally_count(&s->tally, TALLY_READ_ERRORS, 1);
}

void ses_pmu_end(struct ses *s)
{
	if (s->pmu)
		load_sched_detach(s->pmu->loader);
}

uint64_t ses_pmu_locked_bytes(const struct ses *s)
{
	return s->pmu ? load_sched_locked_bytes(s->pmu->loader) : 0;
}

void ses_pmu_free(struct ses *s)
{
	struct ses_pmu *p = s->pmu;

	if (!p)
		return;
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
	s->pmu = NULL;
}

/* ---- the snapshot ---------------------------------------------------------------------------- */

static void add_sums(struct met_entry *e, const struct abi_sched_sums *sums)
{
	for (int i = 0; i < MET_TIME_CNT; i++)
		e->ns[i] += sums->ns[i];
	for (int i = 0; i < MET_REASON_CNT; i++) {
		e->reason[i] += sums->reason[i];
		e->switches += sums->reason[i];
	}
}

/* How much of the time each counter had a counter of the hardware. */
static void read_times(struct ses_pmu *p)
{
	for (uint32_t i = 0; p->n_counting && i < p->cpus->n; i++) {
		uint32_t type = p->cpus->core_type[i];

		for (uint32_t k = 0; k < p->n_counting && type < PROC_CORE_TYPES_MAX; k++) {
			struct pev_count *to = &p->times[type][p->counting[k]], c;

			if (pev_counters_read(&p->counters, p->counting[k], p->cpus->cpu[i], &c) <
			    0)
				continue; /* not open there */
			to->enabled_ns += c.enabled_ns;
			to->running_ns += c.running_ns;
		}
	}
}

static int add_counter(struct met_entry *e, enum met_counter_id id, uint32_t type, int error,
                       uint64_t raw, const struct pev_count *times)
{
	struct met_counter m = {.id = id, .core_type = type, .error = error};

	if (error == 0) {
		m.raw = raw;
		m.enabled_ns = times->enabled_ns;
		m.running_ns = times->running_ns;
		m.value = met_counter_scale(raw, times->enabled_ns, times->running_ns);
	}
	return vec_push(&e->counters, m);
}

/* Hardware counters of an entry, those too that this machine lacks. */
static int add_counters(const struct ses_pmu *p, struct met_entry *e,
                        const struct abi_counted (*counted)[ABI_COUNTERS_MAX])
{
	int r = 0;

	for (uint32_t t = 0; p->cpus && p->counters.n_counters && t < p->cpus->n_types; t++) {
		for (uint32_t k = 0, at = 0; k < PEV_HARDWARE_CNT && r == 0; k++) {
			const struct pev_counter_state *st = pev_counters_state(&p->counters, k, t);
			bool counting = at < p->n_counting && p->counting[at] == k;

			/* Open on some CPUs only, its sum would be a part of the truth. */
			r = add_counter(e, (enum met_counter_id)k, t,
			                st->opened && !st->some_error ? 0
			                : st->some_error              ? st->some_error
			                : st->error                   ? st->error
			                                              : -ENODEV,
			                counting ? counted[t][at].value : 0, &p->times[t][k]);
			at += counting;
		}
	}
	return r;
}

static int add_software(struct met_entry *e, enum met_counter_id id, uint64_t value)
{
	const struct met_counter m = {.id = id, .value = value, .raw = value};

	for (size_t i = 0; i < e->counters.n; i++)
		if (e->counters.p[i].id == id) {
			e->counters.p[i].value += value;
			e->counters.p[i].raw += value;
			return 0;
		}
	return vec_push(&e->counters, m);
}

static int add_faults(struct met_entry *e, const struct abi_sched_sums *sums)
{
	int r = add_software(e, MET_COUNTER_PAGE_FAULTS, sums->faults);

	return r < 0 ? r : add_software(e, MET_COUNTER_MIGRATIONS, sums->migrations);
}

static void summarize(const struct ses_pmu *p, struct met_entry *e)
{
	for (int i = 0; i < MET_TIME_CNT; i++)
		met_hist_summary(&p->hist[i], p->total_ns[i], p->end_ns - p->begin_ns, &e->time[i]);
}

static struct met_entry *entry_of_slot(struct ses_pmu *p, uint32_t slot)
{
	uint32_t entry = slot < ARRAY_SIZE(p->slots) ? p->slots[p->slots[slot].first].entry : 0;

	return entry ? &p->snap->procs.p[entry - 1] : NULL;
}

/* Which slots are of one process. */
static void on_slot(void *arg, const struct load_sched_proc *q)
{
	struct ses_pmu *p = arg;
	struct slot *s = &p->slots[q->slot];

	*s = (struct slot){.tgid = q->tgid, .start_ns = q->start_ns, .first = q->slot};
	for (uint32_t i = 1; i < q->slot; i++) {
		if (p->slots[i].tgid == q->tgid && p->slots[i].start_ns == q->start_ns) {
			s->first = p->slots[i].first;
			p->slots[s->first].several = true;
			return;
		}
	}
}

static void no_thread(void *arg, uint32_t kernel_tid, const struct abi_sched_thread *t)
{
	(void)arg;
	(void)kernel_tid;
	(void)t;
}

/* A process whose figures stand in several slots. */
static int add_several(struct ses_pmu *p, struct slot *first, const struct load_sched_proc *q)
{
	if (!first->hist)
		first->hist = calloc(MET_TIME_CNT, sizeof(*first->hist));
	if (!first->hist)
		return -ENOMEM;
	for (int i = 0; i < MET_TIME_CNT; i++) {
		for (uint32_t b = 0; b < MET_BUCKETS; b++)
			first->hist[i].bucket[b] += q->bucket[i][b];
		first->total_ns[i] += q->total_ns[i];
		p->total_ns[i] = first->total_ns[i];
	}
	memcpy(p->hist, first->hist, MET_TIME_CNT * sizeof(*p->hist));
	return 0;
}

/* Adds the counters of another slot. */
static void add_to_counters(const struct ses_pmu *p, struct met_entry *e,
                            const struct abi_counted (*counted)[ABI_COUNTERS_MAX])
{
	vec_each (m, &e->counters) {
		for (uint32_t at = 0; at < p->n_counting && m->error == 0; at++) {
			if (p->counting[at] != (uint32_t)m->id)
				continue;
			m->raw += counted[m->core_type][at].value;
			m->value = met_counter_scale(m->raw, m->enabled_ns, m->running_ns);
		}
	}
}

static void on_proc(void *arg, const struct load_sched_proc *q)
{
	struct ses_pmu *p = arg;
	struct slot *first = &p->slots[p->slots[q->slot].first];
	struct met_entry e, *known = entry_of_slot(p, q->slot);
	int r = 0;

	/* The first is of all that found no slot. */
	if (p->error < 0 || (q->slot == 0 && (!p->per_process || !p->others)))
		return;
	for (int i = 0; i < MET_TIME_CNT; i++) {
		memcpy(p->hist[i].bucket, q->bucket[i], sizeof(p->hist[i].bucket));
		p->total_ns[i] = q->total_ns[i];
	}
	if (first->several)
		r = add_several(p, first, q);
	if (r == 0 && known) {
		summarize(p, known);
		known->ended_threads += q->ended;
		add_sums(known, &q->sums);
		add_to_counters(p, known, q->counted);
		r = add_faults(known, &q->sums);
	}
	if (r < 0 || known) {
		p->error = r;
		return;
	}
	met_entry_init(&e);
	e.pid = q->slot ? q->tgid : 0;
	e.start_ns = q->slot ? q->start_ns : 0;
	(void)str_copy(e.comm, sizeof(e.comm), q->slot ? q->comm : "other");
	e.ended_threads = q->ended;
	add_sums(&e, &q->sums);
	summarize(p, &e);
	r = add_counters(p, &e, q->counted);
	if (r == 0)
		r = add_faults(&e, &q->sums);
	if (r == 0)
		r = vec_push(&p->snap->procs, e);
	if (r < 0) {
		met_entry_done(&e);
		p->error = r;
		return;
	}
	first->entry = (uint32_t)p->snap->procs.n;
}

static enum met_time time_of_phase(uint32_t phase)
{
	return phase == ABI_PHASE_ON ? MET_SLICE : phase == ABI_PHASE_RUNQ ? MET_RUNQ : MET_OFF;
}

/* Two CPUs that meet a thread at once may both have made an entry of it. The one that went on has
 * more switches; what the other has counted is a moment, and an interval without an end. False: @m
 * is that other. */
static bool is_newer(struct met_entry *of, struct met_entry *all, const struct met_thread *m)
{
	uint64_t now = 0, before = 0;

	for (size_t i = 0; i < of->threads.n; i++) {
		struct met_thread *o = &of->threads.p[i];

		if (o->tid != m->tid)
			continue;
		for (int k = 0; k < MET_REASON_CNT; k++) {
			now += m->reason[k];
			before += o->reason[k];
		}
		if (now <= before)
			return false;
		for (int k = 0; k < MET_TIME_CNT; k++)
			of->ns[k] -= o->ns[k];
		/* Its open interval is that of one who waits. */
		all->ns[MET_OFF] -= MIN_OF(all->ns[MET_OFF], o->open_ns);
		*o = of->threads.p[--of->threads.n];
		return true;
	}
	return true;
}

/* It is there, and not to be seen: where a security module hides a thread from programs, that it
 * went to sleep again was told to nobody, and what it does now is not known. */
static bool is_hidden(const struct ses_pmu *p, uint32_t kernel_tid,
                      const struct abi_sched_thread *t)
{
	char path[32];

	/* Of another pid namespace the number is the kernel's, which is somebody else's in ours. */
	if (!p->looked || t->looked || !t->tid || t->phase == ABI_PHASE_LEFT ||
	    (p->nested && t->tid == kernel_tid))
		return false;
	(void)snprintf(path, sizeof(path), "/proc/%u", t->tid);
	return access(path, F_OK) == 0;
}

static void on_thread(void *arg, uint32_t kernel_tid, const struct abi_sched_thread *t)
{
	struct ses_pmu *p = arg;
	struct met_entry *of = entry_of_slot(p, t->slot), *all = &p->snap->all;
	struct met_thread m = {.tid = t->tid};
	uint64_t open = 0;
	enum met_time at = time_of_phase(t->phase);
	bool hidden;
	int r = 0;

	if (p->error < 0)
		return;
	memcpy(m.comm, t->comm, sizeof(m.comm));
	for (int i = 0; i < MET_TIME_CNT; i++)
		m.ns[i] = t->sums.ns[i];
	for (int i = 0; i < MET_REASON_CNT; i++)
		m.reason[i] = t->sums.reason[i];
	hidden = is_hidden(p, kernel_tid, t);
	if (t->phase == ABI_PHASE_LEFT ||
	    (hidden && (t->phase == ABI_PHASE_ON || t->phase == ABI_PHASE_RUNQ)))
		p->ended_unseen++;
	else if (t->phase != ABI_PHASE_NONE && t->since_ns < p->end_ns)
		open = p->end_ns - MAX_OF(t->since_ns, p->begin_ns);
	m.ns[at] += open;
	m.open_ns = open;
	if (of && !is_newer(of, all, &m))
		return;
	if (hidden)
		r = vec_push(&p->hidden, of ? of->pid : 0);
	else if (t->looked)
		r = vec_push(&p->shown, of ? of->pid : 0);
	if (r < 0) {
		p->error = r;
		return;
	}
	all->ns[at] += open;
	r = add_faults(all, &t->sums);
	if (r == 0 && of) {
		add_sums(of, &t->sums);
		of->ns[at] += open;
		r = add_faults(of, &t->sums);
		if (r == 0 && of->pid)
			r = vec_push(&of->threads, m);
	}
	p->error = r;
}

_Static_assert(SES_TAGS_MAX + 1 + 2 * SES_FILTERS_MAX <= MET_TAGS_MAX, "all of them have room");

static int add_filter(void *arg, const char *key, const char *value)
{
	return met_snapshot_label(arg, key, value);
}

static bool is_shown(const struct ses_pmu *p, uint32_t pid)
{
	vec_each (shown, &p->shown)
		if (*shown == pid)
			return true;
	return false;
}

/* What a reader might take for the whole, or for nothing that happened. */
static void note_unseen(struct ses *s, const struct ses_pmu *p, uint64_t lost)
{
	const struct met_entry *all = &p->snap->all;
	uint64_t threads = 0, asleep = 0;
	uint32_t procs = 0;

	vec_each (pid, &p->hidden)
		threads += is_shown(p, *pid);
	/* Where all had room. */
	for (uint32_t i = 0;
	     i < s->targets.n && p->looked && !lost && !p->others && !ses_targets_filtered(s);
	     i++) {
		uint64_t n = is_shown(p, s->targets.pids[i])
		                     ? 0
		                     : ses_asleep_cnt(&s->targets, s->targets.pids[i]);

		asleep += n;
		procs += n > 0;
	}
	if (procs)
		tally_note(&s->tally,
		           "%u process(es) of the target are hidden from BPF programs on this "
		           "machine: "
		           "what their threads did, of which %llu sleep, is not in the figures of "
		           "--pmu",
		           procs, (unsigned long long)asleep);
	if (threads)
		tally_note(&s->tally,
		           "%llu thread(s) are hidden from BPF programs on this machine: of what "
		           "they did only a part is in the figures of --pmu",
		           (unsigned long long)threads);
	if (!threads && !procs && !p->others && !all->switches && !all->ns[MET_SLICE] &&
	    !all->ns[MET_RUNQ] && !all->ns[MET_OFF] && ses_targets_filtered(s))
		tally_note(&s->tally,
		           "--pmu has counted nothing: there was no thread that --tid, --comm "
		           "and --cgroup let through");
}

static int describe(struct ses *s, struct ses_pmu *p, const struct load_sched_total *total)
{
	struct met_snapshot *m = p->snap;
	char text[512];
	int r = 0;

	m->scope = s->o.target != SES_TARGET_ALL ? MET_PIDS : s->o.per_pid ? MET_PER_PID : MET_ALL;
	m->time_realtime_ns = s->start_realtime_ns + (p->begin_ns - s->start_ns);
	m->duration_ns = p->end_ns - p->begin_ns;
	m->cpus = p->cpus ? p->cpus->n : s->n_cpus;
	m->cpus_offline = p->cpus ? p->cpus->offline_cnt : 0;
	m->other_threads = total->lost_procs;
	for (uint32_t t = 0; t < (p->cpus ? p->cpus->n_types : 1) && r == 0; t++)
		r = met_snapshot_core_type(
		        m, p->cpus && p->cpus->n_types > 1 ? p->cpus->types[t].name : "");
	note_unseen(s, p, total->lost);
	for (size_t i = 0; i < s->tally.n_notes && r == 0; i++)
		r = met_snapshot_note(m, s->tally.notes[i]);
	if (r == 0 && total->lost) {
		(void)snprintf(
		        text, sizeof(text),
		        "%llu switches and wake-ups of threads that found no place in the table: "
		        "their waits are missing",
		        (unsigned long long)total->lost);
		tally_note(&s->tally, "%s", text);
		r = met_snapshot_note(m, text);
	}
	if (r == 0 && total->missed) {
		(void)snprintf(
		        text, sizeof(text),
		        "%llu switches or wake-ups were told to no program: the times around "
		        "them are in the sums, by the scheduler's account, and in no histogram",
		        (unsigned long long)total->missed);
		r = met_snapshot_note(m, text);
	}
	for (const char *const *t = s->o.tags; t && *t && r == 0; t++) {
		const char *eq = strchr(*t, '=');
		_cleanup_free_ char *key = strndup(*t, (size_t)(eq - *t));

		r = key ? met_snapshot_label(m, key, eq + 1) : -ENOMEM;
	}
	return r < 0 ? r : ses_targets_each_filter(s, add_filter, m);
}

int ses_pmu_collect(struct ses *s, struct err *err)
{
	struct ses_pmu *p = s->pmu;
	_cleanup_free_ struct load_sched_total *total = calloc(1, sizeof(*total));
	const struct load_sched_sink sink = {.proc = on_proc, .thread = on_thread, .arg = p},
	                             slots = {.proc = on_slot, .thread = no_thread, .arg = p};
	int r;

	p->hist = calloc(MET_TIME_CNT, sizeof(*p->hist));
	r = total && p->hist ? met_snapshot_new(&p->snap) : -ENOMEM;
	/* The times first: open intervals end then. */
	if (r == 0)
		r = load_sched_read(p->loader, &slots, total);
	if (r < 0)
		return err_set(err, r, "reading scheduler statistics: %s", err_name(r));
	p->others = total->lost_procs > 0;
	read_times(p);
	p->begin_ns = total->begin_ns;
	p->end_ns = total->end_ns;
	p->looked = total->looked;
	add_sums(&p->snap->all, &total->sums);
	for (int i = 0; i < MET_TIME_CNT; i++) {
		memcpy(p->hist[i].bucket, total->hist[i].bucket, sizeof(p->hist[i].bucket));
		p->total_ns[i] = total->hist[i].total_ns;
	}
	summarize(p, &p->snap->all);
	r = add_counters(p, &p->snap->all, total->counted);
	if (r == 0)
		r = add_faults(&p->snap->all, &total->sums);
	if (r == 0)
		r = load_sched_read(p->loader, &sink, total);
	if (r == 0)
		r = p->error;
	total->missed += p->ended_unseen;
	if (r == 0)
		r = add_software(&p->snap->all, MET_COUNTER_SWITCHES, p->snap->all.switches);
	vec_each (e, &p->snap->procs)
		r = r < 0 ? r : add_software(e, MET_COUNTER_SWITCHES, e->switches);
	if (r == 0)
		r = describe(s, p, total);
	if (r < 0)
		return err_set(err, r, "building scheduler statistics: %s", err_name(r));
	met_snapshot_sort(p->snap);
	s->metrics = TAKE_PTR(p->snap);
	tally_count(&s->tally, TALLY_PMU_SWITCHES, s->metrics->all.switches);
	tally_count(&s->tally, TALLY_PMU_LOST, total->lost);
	tally_count(&s->tally, TALLY_PMU_MISSED, total->missed);
	s->tally.kernel.v[ABI_CNT_PROG_NS] += total->prog_ns;
	s->final.agent_cpu_ns += total->prog_ns;
	tally_count(&s->tally, TALLY_PMU_PROCS_LOST, total->lost_procs);
	return 0;
}
