/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/*
 * Scheduler statistics: where the length of an interval is counted: sums and histograms.
 */
#ifndef PA_BPF_SCHED_TIME_H
#define PA_BPF_SCHED_TIME_H

#include "bpf/lib/sched_maps.h"

/* __noinline: verified once, since it has many branches. */
__noinline int bucket_of(__u64 ns)
{
	return (int)abi_hist_bucket(ns);
}

/* Counts an interval that ended now; @t: NULL if the table was full. @baseline: in no histogram. */
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

/* Returns the histogram of the time in a phase. */
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

/* Counts the time of a thread since since_ns by sum_exec_runtime, when switch events were missed.
 * The lengths of single intervals are unknown, so it is in no histogram. @ran: on-CPU time; @rest:
 * ABI_HIST_* of the other time, where a slice means run-queue time. */
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

/* Returns the on-CPU time of a thread since its last switch-out event. It is 0 for a thread that is
 * off its CPU, since the scheduler updates sum_exec_runtime before sched_switch. */
static __always_inline __u64 ran_since(const struct abi_sched_thread *t, struct task_struct *task)
{
	return task->se.sum_exec_runtime - t->exec0_ns;
}

#endif
