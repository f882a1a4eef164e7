/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/*
 * Scheduler statistics: tasks, and the slots of processes.
 */
#ifndef PA_BPF_SCHED_PROCESS_H
#define PA_BPF_SCHED_PROCESS_H

#include "bpf/lib/sched_maps.h"
#include "bpf/lib/filter.h"

/* ---- tasks ----------------------------------------------------------------------------------- */
/*
 * Functions that loop over the levels of namespaces or cgroups are global, so the verifier checks
 * each once instead of at each call. Global functions take only numbers.
 */

static __always_inline __u64 address_of(struct task_struct *task)
{
	__u64 address = 0;

	/* verifier: a value that was read is a number. */
	bpf_probe_read_kernel(&address, sizeof(address), &task);
	return address;
}

__noinline int address_number(__u64 task)
{
	return (int)ns_number((struct task_struct *)task);
}

/* As ns_number. */
static __always_inline __u32 number_of(struct task_struct *task)
{
	return (__u32)address_number(address_of(task));
}

__noinline int address_passes(__u64 task)
{
	return passes_mutable_filters((struct task_struct *)task);
}

/* Returns 1 if a thread passes the filters by name and cgroup now. Both may change during an
 * interval: an interval belongs to the name and cgroup at its end. */
static __always_inline int passes(struct task_struct *task)
{
	return !(cfg.filters & FILTERS_MUTABLE) || address_passes(address_of(task));
}

/* Returns 1 if the task is on a CPU, or has not quite left it. */
static __always_inline int runs(struct task_struct *task)
{
	return bpf_core_field_exists(task->on_cpu) && task->on_cpu;
}

/* ---- processes ------------------------------------------------------------------------------- */

#define SLOT_TRIES 8

static __always_inline void name_proc(struct abi_sched_proc *p, struct task_struct *leader)
{
	p->exec_id = (__u32)leader->self_exec_id;
	bpf_probe_read_kernel_str(p->comm, sizeof(p->comm), leader->comm);
}

/* Claims a free slot for a process. Returns 0 if there is none. */
static __noinline __u32 claim_slot(struct task_struct *leader)
{
	__u32 i, slot = *(volatile __u32 *)&sw.next_slot, tgid = leader->tgid;
	struct abi_sched_proc *p;

	for (i = 0; i < SLOT_TRIES; i++) {
		slot++;
		if (slot == 0 || slot >= n_slots) {
			*(volatile __u32 *)&sw.next_slot = n_slots - 1;
			return 0;
		}
		if (bpf_map_update_elem(&sched_taken, &slot, &tgid, BPF_NOEXIST))
			continue;
		*(volatile __u32 *)&sw.next_slot = slot;
		p = proc_at(slot);
		if (!p)
			return 0; /* verifier: cannot happen */
		p->start_ns = leader->start_boottime;
		name_proc(p, leader);
		p->tgid = cfg.nested_ns ? number_of(leader) : tgid;
		return slot;
	}
	return 0;
}

/* Returns the slot of a process, 0 if it has none yet. */
static __always_inline __u32 find_slot(struct task_struct *leader)
{
	__u32 tgid = leader->tgid, *known = bpf_map_lookup_elem(&sched_slots, &tgid);
	struct abi_sched_proc *p;

	if (!known || !*known)
		return 0;
	p = proc_at(*known);
	return p && p->start_ns == leader->start_boottime ? *known : 0;
}

static __noinline __u32 find_or_claim_slot(struct task_struct *task)
{
	struct task_struct *leader = task->group_leader;
	__u32 tgid = task->tgid, slot = find_slot(leader);
	struct abi_sched_proc *p;

	if (slot)
		return slot;
	if (cfg.nested_ns && !number_of(leader))
		return 0; /* outside of our pid namespace: slot 0 */
	slot = claim_slot(leader);
	if (!slot)
		return find_slot(leader); /* another CPU may just have claimed one */
	/* The old slot stays for the report. It is of a process that ended and whose number was
	 * reused, or of this process, by another CPU: user space adds up two slots of one
	 * process. */
	if (bpf_map_update_elem(&sched_slots, &tgid, &slot, BPF_ANY)) {
		(void)bpf_map_delete_elem(&sched_taken, &slot);
		p = proc_at(slot);
		if (p)
			p->tgid = 0;
		return 0;
	}
	return slot;
}

/* Gives a thread the slot of its process, once; @t may be NULL. When no slot is free, later
 * switches of the thread only test a flag. If other CPUs were faster at all tries, its next event
 * tries again. */
static __always_inline void assign_slot(struct abi_sched_thread *t, struct task_struct *task)
{
	if (!per_process || !t || t->slot_tried)
		return;
	t->slot = find_or_claim_slot(task);
	if (!t->slot) {
		if (*(volatile __u32 *)&sw.next_slot + 1 < n_slots &&
		    !(cfg.nested_ns && !number_of(task->group_leader)))
			return;
		__sync_fetch_and_add(&sw.lost_procs, 1);
	}
	t->slot_tried = 1;
}

#endif
