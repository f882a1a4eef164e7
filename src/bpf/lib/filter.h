/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/* Targets and filters: whether a task is sampled. The agent itself is not. */
#ifndef PA_BPF_FILTER_H
#define PA_BPF_FILTER_H

#include "bpf/lib/task.h"

/* Returns 1 for a task of the agent: its process or only its threads, and the symbolizer
 * process. */
static __always_inline int is_agent(__u32 tgid, __u32 tid)
{
	__u32 i, symbolizer = ctl.symbolizer_tgid;

	if (symbolizer && tgid == symbolizer)
		return 1;
	if (tgid != cfg.agent_tgid)
		return 0;
	if (cfg.agent_whole)
		return 1;
	for (i = 0; i < ABI_AGENT_TIDS; i++)
		if (ctl.agent_tids[i] && ctl.agent_tids[i] == tid)
			return 1;
	return 0;
}

/* Returns 1 if a thread name, in two words, matches a pattern. __noinline: verified once. */
__noinline int name_matches(__u64 lo, __u64 hi)
{
	__u32 i;

	for (i = 0; i < ABI_NAME_SETS && i < cfg.n_name_sets; i++) {
		__u32 key = i;
		const struct abi_name_set *set = bpf_map_lookup_elem(&name_sets, &key);

		if (set && abi_name_matches(set, lo, hi))
			return 1;
	}
	return 0;
}

static __always_inline int passes_name(const struct abi_thread *name)
{
	__u64 lo, hi;

	if (bpf_map_lookup_elem(&comms, name))
		return 1;
	if (!cfg.n_name_sets)
		return 0;
	__builtin_memcpy(&lo, name->comm, sizeof(lo));
	__builtin_memcpy(&hi, name->comm + sizeof(lo), sizeof(hi));
	return name_matches(lo, hi);
}

/* Returns 1 if the current task passes all filters. __noinline: verified once. */
__noinline int passes_filters(__u32 tid)
{
	if (cfg.filters & ABI_FILTER_TID) {
		struct task_struct *task = current_task();
		__u64 *start = bpf_map_lookup_elem(&tids, &tid);

		if (!start || (*start && *start != TASK_GET(task, start_boottime)))
			return 0;
	}
	if (cfg.filters & ABI_FILTER_COMM) {
		struct abi_thread name = {};

		bpf_get_current_comm(name.comm, sizeof(name.comm));
		if (!passes_name(&name))
			return 0;
	}
	if (cfg.filters & ABI_FILTER_CGROUP) {
		__u32 i;

		for (i = 0; i < ABI_FILTER_CGROUPS && i < cfg.n_cgroups; i++)
			if (bpf_current_task_under_cgroup(&cgroups, i) == 1)
				return 1;
		return 0;
	}
	return 1;
}

/* Ancestors of a task's cgroup that are compared. */
#define CGROUP_LEVELS 32

/* As bpf_current_task_under_cgroup, for any task. */
static __noinline int under_cgroup(struct task_struct *task)
{
	struct cgroup *at = task ? BPF_CORE_READ(task, cgroups, dfl_cgrp) : 0;
	__u32 i;

	for (i = 0; i < CGROUP_LEVELS && at; i++) {
		__u64 id = BPF_CORE_READ(at, kn, id);
		const char *css;

		if (bpf_map_lookup_elem(&cgroup_ids, &id))
			return 1;
		css = (const char *)BPF_CORE_READ(at, self.parent);
		at = css ? (struct cgroup *)(css - bpf_core_field_offset(struct cgroup, self)) : 0;
	}
	return 0;
}

/* Returns 1 if a task passes the thread filter. The result never changes during its life. */
static __always_inline int passes_tid(struct task_struct *task)
{
	__u32 tid = task->pid;
	__u64 *start;

	if (!(cfg.filters & ABI_FILTER_TID))
		return 1;
	start = bpf_map_lookup_elem(&tids, &tid);
	return start && (!*start || *start == task->start_boottime);
}

/* Filters whose result may change during a task's life. No field is read directly, so @task may be
 * an untyped address. */
#define FILTERS_MUTABLE (ABI_FILTER_COMM | ABI_FILTER_CGROUP)
static __always_inline int passes_mutable_filters(struct task_struct *task)
{
	if (cfg.filters & ABI_FILTER_CGROUP && !under_cgroup(task))
		return 0;
	if (cfg.filters & ABI_FILTER_COMM) {
		struct abi_thread name = {};

		bpf_probe_read_kernel_str(name.comm, sizeof(name.comm), task->comm);
		if (!passes_name(&name))
			return 0;
	}
	return 1;
}

/* As passes_filters, for any task. */
static __always_inline int task_passes_filters(struct task_struct *task)
{
	return passes_mutable_filters(task) && passes_tid(task);
}

/* Returns 1 if the task belongs to the target; filters are not applied. */
static __always_inline int is_target(struct task_struct *task, __u32 tgid)
{
	struct task_struct *leader = TASK_GET(task, group_leader);

	if (cfg.target == ABI_TARGET_TREE) {
		__u64 *start = bpf_map_lookup_elem(&followed, &tgid);

		return start && (!*start || *start == TASK_GET(leader, start_boottime));
	}
	if (cfg.target != ABI_TARGET_PID)
		return 1;
	if (!cfg.nested_ns) {
		if (tgid != cfg.target_tgid)
			return 0;
	} else if (ctl.resolved_tgid) {
		if (tgid != ctl.resolved_tgid)
			return 0;
	} else {
		/* In a container, the first tick that hits the target yields the kernel's
		 * number. */
		if (ns_number(leader) != cfg.target_tgid)
			return 0;
		ctl.resolved_tgid = tgid;
	}
	/* Another process may have the number now. */
	return !ctl.target_start_ns || ctl.target_start_ns == TASK_GET(leader, start_boottime);
}

#endif
