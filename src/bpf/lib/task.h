/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/* A task as the programs see it: its number in our pid namespace, its user registers. */
#ifndef PA_BPF_TASK_H
#define PA_BPF_TASK_H

#include "bpf/lib/config.h"

#define HAS_HELPER(name) bpf_core_enum_value_exists(enum bpf_func_id, BPF_FUNC_##name)
/* Reads a field of a task: directly where it is a typed pointer (5.11), else by a probe read. */
#define TASK_GET(task, field)                                                                      \
	(HAS_HELPER(get_current_task_btf) ? (task)->field : BPF_CORE_READ(task, field))

static __always_inline struct task_struct *current_task(void)
{
	if (HAS_HELPER(get_current_task_btf))
		return (struct task_struct *)bpf_get_current_task_btf();
	return (struct task_struct *)bpf_get_current_task();
}

/* Number of a task in our pid namespace, 0 if it has none there. Walks the namespaces it is in. */
static __noinline __u32 ns_number(struct task_struct *task)
{
	struct pid *p = BPF_CORE_READ(task, thread_pid);
	__u32 level, i;

	if (!p)
		return 0;
	level = BPF_CORE_READ(p, level);
	/* 32: MAX_PID_NS_LEVEL */
	for (i = 0; i <= 32 && i <= level; i++) {
		struct pid_namespace *ns = 0;
		const char *at = (const char *)p + bpf_core_field_offset(struct pid, numbers) +
		                 i * bpf_core_type_size(struct upid);
		int nr = 0;

		if (bpf_probe_read_kernel(&ns, sizeof(ns),
		                          at + bpf_core_field_offset(struct upid, ns)))
			return 0;
		if (!ns || BPF_CORE_READ(ns, ns.inum) != cfg.pidns_ino)
			continue;
		if (bpf_probe_read_kernel(&nr, sizeof(nr),
		                          at + bpf_core_field_offset(struct upid, nr)))
			return 0;
		return nr;
	}
	return 0;
}

#endif
