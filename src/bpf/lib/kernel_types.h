/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/*
 * The few kernel structures that the programs read, with the few fields that they read. CO-RE finds
 * the real offsets at load time, so neither order nor size matters here; no generated vmlinux.h.
 */
#ifndef PA_KERNEL_TYPES_H
#define PA_KERNEL_TYPES_H

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

struct ns_common {
	unsigned int inum;
};

struct pid_namespace {
	struct ns_common ns;
};

struct upid {
	int nr;
	struct pid_namespace *ns;
};

struct pid {
	unsigned int level;
	struct upid numbers[1];
};

struct task_struct {
	unsigned int flags;
	int pid, tgid;
	__u64 self_exec_id;   /* 64 bits since 5.7 */
	__u64 start_boottime; /* so named since 5.5 */
	struct task_struct *group_leader;
	struct pid *thread_pid;
	void *stack;
	void *mm; /* struct mm_struct */
	char comm[16];
};

struct seq_file {
	void *private;
};

struct bpf_iter_meta {
	struct seq_file *seq;
	__u64 session_id;
	__u64 seq_num;
};

struct bpf_iter__task {
	struct bpf_iter_meta *meta;
	struct task_struct *task;
};

#pragma clang attribute pop

#define PF_KTHREAD 0x00200000 /* include/linux/sched.h: unchanged since 2.6 */

#endif
