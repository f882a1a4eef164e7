/* SPDX-License-Identifier: Apache-2.0 */
/* The snapshot of scheduler statistics, from the counts of the programs. */
#include <stdio.h>
#include <unistd.h>

#include "source/source_priv.h"

_Static_assert((int)MET_SLICE == (int)ABI_HIST_SLICE && (int)MET_RUNQ == (int)ABI_HIST_RUNQ &&
                       (int)MET_OFF == (int)ABI_HIST_BLOCKED &&
                       (int)MET_TIME_CNT == (int)ABI_HIST_CNT,
               "one numbering");
_Static_assert((int)MET_REASON_PREEMPTED == (int)ABI_REASON_PREEMPTED &&
                       (int)MET_REASON_EXITED == (int)ABI_REASON_EXITED &&
                       (int)MET_REASON_CNT == (int)ABI_REASON_CNT,
               "one numbering");
_Static_assert(MET_BUCKETS == ABI_HIST_BUCKETS && MET_COMM_LEN == ABI_COMM_LEN, "one layout");
_Static_assert((int)MET_COUNTER_PAGE_FAULTS == PEV_HARDWARE_CNT, "hardware counters come first");

static void add_sums(struct met_entry *e, const struct abi_sched_sums *sums)
{
	for (int i = 0; i < MET_TIME_CNT; i++)
		e->ns[i] += sums->ns[i];
	for (int i = 0; i < MET_REASON_CNT; i++) {
		e->reason[i] += sums->reason[i];
		e->switches += sums->reason[i];
	}
}

/* Reads how long each counter was enabled, and how long it had a hardware counter. */
static void read_times(struct sched *p)
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

/* Adds the hardware counters of an entry, those too that this machine lacks. */
static int add_counters(const struct sched *p, struct met_entry *e,
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

static void summarize(const struct sched *p, struct met_entry *e)
{
	for (int i = 0; i < MET_TIME_CNT; i++)
		met_hist_summary(&p->hist[i], p->total_ns[i], p->end_ns - p->begin_ns, &e->time[i]);
}

static struct met_entry *entry_of_slot(struct sched *p, uint32_t slot)
{
	uint32_t entry = slot < ARRAY_SIZE(p->slots) ? p->slots[p->slots[slot].first].entry : 0;

	return entry ? &p->snap->procs.p[entry - 1] : NULL;
}

/* Finds the slots of one process. */
static void on_slot(void *arg, const struct load_sched_proc *q)
{
	struct sched *p = arg;
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

/* Adds up a process that has several slots. */
static int add_several(struct sched *p, struct slot *first, const struct load_sched_proc *q)
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
static void add_to_counters(const struct sched *p, struct met_entry *e,
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
	struct sched *p = arg;
	struct slot *first = &p->slots[p->slots[q->slot].first];
	struct met_entry e, *known = entry_of_slot(p, q->slot);
	int r = 0;

	/* Slot 0 has all processes without a slot. */
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

/* Two CPUs that add a thread at once may both have made an entry of it. The one that stayed in use
 * has more switches; the other has counted a moment, and an interval without an end. Returns false
 * if @m is that other. */
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
		/* Its open interval was counted as blocked time. */
		all->ns[MET_OFF] -= MIN_OF(all->ns[MET_OFF], o->open_ns);
		*o = of->threads.p[--of->threads.n];
		return true;
	}
	return true;
}

/* Returns true if a thread lives but the final scan did not return it: a security module hides it
 * from programs. Its last switch event was missed then, and its present state is not known. */
static bool is_hidden(const struct sched *p, uint32_t kernel_tid, const struct abi_sched_thread *t)
{
	char path[32];

	/* A thread of another pid namespace has the kernel's number, which is another thread's in
	 * ours. */
	if (!p->scanned || t->scanned || !t->tid || t->phase == ABI_PHASE_LOST ||
	    (p->nested && t->tid == kernel_tid))
		return false;
	(void)snprintf(path, sizeof(path), "/proc/%u", t->tid);
	return access(path, F_OK) == 0;
}

static void on_thread(void *arg, uint32_t kernel_tid, const struct abi_sched_thread *t)
{
	struct sched *p = arg;
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
	if (t->phase == ABI_PHASE_LOST ||
	    (hidden && (t->phase == ABI_PHASE_ON || t->phase == ABI_PHASE_RUNQ)))
		p->ended_missed++;
	else if (t->phase != ABI_PHASE_NONE && t->since_ns < p->end_ns)
		open = p->end_ns - MAX_OF(t->since_ns, p->begin_ns);
	m.ns[at] += open;
	m.open_ns = open;
	if (of && !is_newer(of, all, &m))
		return;
	if (hidden)
		r = vec_push(&p->hidden, of ? of->pid : 0);
	else if (t->scanned)
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

int sched_read(struct sched *p, struct load_sched_total *total, struct err *err)
{
	const struct load_sched_sink sink = {.proc = on_proc, .thread = on_thread, .arg = p},
	                             slots = {.proc = on_slot, .thread = no_thread, .arg = p};
	int r;

	p->hist = calloc(MET_TIME_CNT, sizeof(*p->hist));
	r = p->hist ? met_snapshot_new(&p->snap) : -ENOMEM;
	/* The times first: open intervals end then. */
	if (r == 0)
		r = load_sched_read(p->loader, &slots, total);
	if (r < 0)
		return err_set(err, r, "reading scheduler statistics: %s", err_name(r));
	p->others = total->lost_procs > 0;
	read_times(p);
	p->begin_ns = total->begin_ns;
	p->end_ns = total->end_ns;
	p->scanned = total->scanned;
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
	total->missed += p->ended_missed;
	if (r == 0)
		r = add_software(&p->snap->all, MET_COUNTER_SWITCHES, p->snap->all.switches);
	vec_each (e, &p->snap->procs)
		r = r < 0 ? r : add_software(e, MET_COUNTER_SWITCHES, e->switches);
	return r < 0 ? err_set(err, r, "building scheduler statistics: %s", err_name(r)) : 0;
}
