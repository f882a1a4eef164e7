/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/*
 * Scheduler statistics: the entries of threads, from admission to their end.
 */
#ifndef PA_BPF_SCHED_THREAD_H
#define PA_BPF_SCHED_THREAD_H

#include "bpf/lib/sched_process.h"

/* Returns the begin of the capture. A CPU may see sw.active before sw.begin_ns: then it is @now. */
static __always_inline __u64 capture_begin(__u64 now)
{
	__u64 begin = *(volatile __u64 *)&sw.begin_ns;

	return begin ? begin : now;
}

static __always_inline __u64 faults_of(struct task_struct *task)
{
	return task->min_flt + task->maj_flt;
}

static __always_inline struct abi_sched_fast *fast_at(__u32 tid)
{
	__u32 at = tid & fast_mask;

	return bpf_map_lookup_elem(&sched_fast, &at);
}

static __always_inline struct abi_sched_thread *thread_find(__u32 tid)
{
	struct abi_sched_fast *f = fast_at(tid);

	if (f && f->key == tid)
		return &f->t;
	return bpf_map_lookup_elem(&sched_threads, &tid);
}

static __always_inline struct abi_sched_thread *thread_of(struct task_struct *task)
{
	return thread_find(task->pid);
}

static __always_inline void thread_remove(__u32 tid)
{
	struct abi_sched_fast *f = fast_at(tid);
	__u32 at = tid & fast_mask;

	if (f && f->key == tid) {
		f->key = 0;
		(void)bpf_map_delete_elem(&sched_claims, &at);
		return;
	}
	(void)bpf_map_delete_elem(&sched_threads, &tid);
}

/* Inserts the entry of a new thread: 0; 1: the table is full; 2: another CPU is inserting it. */
static __noinline int thread_insert(__u32 tid, const struct abi_sched_thread *t)
{
	struct abi_sched_fast *f = fast_at(tid);
	__u32 at = tid & fast_mask, *owner;

	if (f && bpf_map_update_elem(&sched_claims, &at, &tid, BPF_NOEXIST) == 0) {
		f->t = *t;
		/* Publishes the entry; a full barrier. */
		__sync_fetch_and_add(&f->key, tid);
		return 0;
	}
	owner = bpf_map_lookup_elem(&sched_claims, &at);
	if (owner && *owner == tid)
		return 2;
	if (bpf_map_update_elem(&sched_threads, &tid, t, BPF_NOEXIST))
		return 1;
	return 0;
}

#define ADD_NEW         1 /* a new thread, which begins now */
#define ADD_PHASE_SHIFT 8 /* its phase since the begin of the capture */

/* Adds a target thread that passes(). Returns NULL if it is filtered out, or, with *lost = 1, if
 * the table is full. The entry is complete when other CPUs see it, except its slot: at the begin
 * there may be more sleeping processes than slots. */
static __noinline struct abi_sched_thread *thread_add(struct task_struct *task, __u32 how,
                                                      __u32 *lost)
{
	struct abi_sched_thread t = {};
	__u32 tid = task->pid, ns_tid = tid, ns_tgid = task->tgid;
	int r;

	*lost = 0;
	if (!passes_tid(task))
		return 0;
	if (cfg.nested_ns) {
		ns_tid = number_of(task);
		ns_tgid = number_of(task->group_leader);
	}
	if (ns_tid && is_agent(ns_tgid, ns_tid))
		return 0;
	t.tid = ns_tid ? ns_tid : tid;
	t.faults0 = faults_of(task);
	t.migrations0 = task->se.nr_migrations;
	t.exec0_ns = task->se.sum_exec_runtime;
	bpf_probe_read_kernel_str(t.comm, sizeof(t.comm), task->comm);
	if (how & ADD_NEW || sw.ready) {
		/* Its past is unknown. */
		t.since_ns = bpf_ktime_get_ns();
	} else {
		t.since_ns = capture_begin(bpf_ktime_get_ns());
		t.phase = how >> ADD_PHASE_SHIFT;
		t.baseline = 1;
	}
	if (how & ADD_NEW) {
		t.phase = ABI_PHASE_RUNQ;
		thread_remove(tid);
	}
	r = thread_insert(tid, &t);
	if (r == 1) {
		*lost = 1;
		return 0;
	}
	return thread_find(tid); /* NULL while another CPU is inserting it */
}

/* Reads the kernel's own counts of a thread. */
static __always_inline void update_faults(struct abi_sched_thread *t, struct task_struct *task)
{
	t->sums.faults = faults_of(task) - t->faults0;
	t->sums.migrations = task->se.nr_migrations - t->migrations0;
}

/* Excludes faults and migrations since the last update. */
static __always_inline void skip_faults(struct abi_sched_thread *t, struct task_struct *task)
{
	t->faults0 = faults_of(task) - t->sums.faults;
	t->migrations0 = task->se.nr_migrations - t->sums.migrations;
}

/* Sets a thread to filtered out: the interval that ends now is not counted, nor later ones until
 * it passes again. @since_ns: its switch-in; 0: it does not run. */
static __always_inline void set_filtered(struct abi_sched_thread *t, __u64 since_ns)
{
	t->phase = ABI_PHASE_NONE;
	t->since_ns = since_ns;
}

static __always_inline int is_filtered(const struct abi_sched_thread *t)
{
	return cfg.filters & FILTERS_MUTABLE && t->phase == ABI_PHASE_NONE;
}

/* Adds the sums of a thread that ended to its process. @leader: the task that names the process, or
 * NULL. */
static __noinline void fold_into_process(struct abi_sched_thread *t, struct task_struct *leader)
{
	struct abi_sched_proc *p = proc_at(per_process ? t->slot : 0);
	__u32 i;

	if (p) {
		if (leader && p->tgid)
			name_proc(p, leader);
		for (i = 0; i < ABI_HIST_CNT; i++)
			__sync_fetch_and_add(&p->sums.ns[i], t->sums.ns[i]);
		for (i = 0; i < ABI_REASON_CNT; i++)
			__sync_fetch_and_add(&p->sums.reason[i], t->sums.reason[i]);
		__sync_fetch_and_add(&p->sums.faults, t->sums.faults);
		__sync_fetch_and_add(&p->sums.migrations, t->sums.migrations);
	}
}

#endif
