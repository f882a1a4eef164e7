/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/*
 * Scheduler statistics: where the length of an interval is counted: sums and histograms.
 */
#ifndef PA_BPF_SCHED_TIME_H
#define PA_BPF_SCHED_TIME_H

#include "bpf/lib/sched_maps.h"

/* A function of its own, which the verifier looks at once: it has many ways through. */
__noinline int bucket_of(__u64 ns)
{
	return (int)abi_hist_bucket(ns);
}

/* An interval of a thread that ended now; t: NULL for one that found no place. */
static __always_inline void count_time(struct abi_cpu_sums *cpu, struct abi_sched_thread *t,
                                       __u32 kind, __u64 ns, __u32 baseline)
{
	__u32 b, key = kind;
	struct abi_cpu_hist *h;
	struct abi_sched_proc *p;

	cpu->sums.ns[kind] += ns;
	if (t)
		t->sums.ns[kind] += ns;
	if (baseline)
		return;
	b = (__u32)bucket_of(ns);
	if (b >= ABI_HIST_BUCKETS)
		return; /* verifier: cannot happen */
	h = bpf_map_lookup_elem(&cpu_hists, &key);
	if (h) {
		h->bucket[b]++;
		h->total_ns += ns;
	}
	if (!per_process)
		return;
	p = proc_at(t ? t->slot : 0);
	if (!p)
		return; /* verifier: cannot happen */
	__sync_fetch_and_add(&p->bucket[kind][b], 1);
	__sync_fetch_and_add(&p->total_ns[kind], ns);
}

/* As what the time in a phase counts. */
static __always_inline __u32 kind_of(__u32 phase)
{
	return phase == ABI_PHASE_BLOCKED ? ABI_HIST_BLOCKED
	       : phase == ABI_PHASE_RUNQ  ? ABI_HIST_RUNQ
	                                  : ABI_HIST_SLICE;
}

static __always_inline __u64 since(__u64 now, __u64 then)
{
	return now > then ? now - then : 0;
}

/* What a thread did from since_ns on, as the scheduler's own account has it: for what no program
 * was told. When it came and went is not in it, so that no histogram gets it. @ran: on a CPU;
 * @rest: ABI_HIST_* of the time that it did not run; a slice: it waited for a CPU. */
static __noinline void account_missed(struct abi_cpu_sums *cpu, struct abi_sched_thread *t,
                                      __u64 ran, __u32 rest, __u64 now)
{
	__u64 ns = since(now, t->since_ns);

	if (ran > ns)
		ran = ns;
	cpu->missed++;
	count_time(cpu, t, ABI_HIST_SLICE, ran, 1);
	count_time(cpu, t, rest == ABI_HIST_BLOCKED ? ABI_HIST_BLOCKED : ABI_HIST_RUNQ, ns - ran,
	           1);
}

/* What it ran since it was last seen to leave its CPU. A thread that waits has run nothing since
 * then: the scheduler brings its account up to date before it tells of the switch. */
static __always_inline __u64 ran_since(const struct abi_sched_thread *t, struct task_struct *task)
{
	return task->se.sum_exec_runtime - t->exec0_ns;
}

#endif
