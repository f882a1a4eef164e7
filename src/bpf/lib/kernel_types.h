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

struct kernfs_node {
	__u64 id;
};

struct cgroup_subsys_state {
	struct cgroup_subsys_state *parent;
};

struct cgroup {
	struct cgroup_subsys_state self;
	struct kernfs_node *kn;
};

struct css_set {
	struct cgroup *dfl_cgrp;
};

struct thread_info {
	struct {
		unsigned int count;
	} preempt; /* arm64 */
};

struct pcpu_hot { /* 6.2 to 6.14 */
	int preempt_count;
};

struct sched_entity {
	__u64 sum_exec_runtime;
	__u64 nr_migrations;
};

struct task_struct {
	unsigned int flags;
	int pid, tgid;
	__u64 self_exec_id;   /* 64 bits since 5.7 */
	__u64 start_boottime; /* so named since 5.5 */
	struct task_struct *group_leader, *real_parent;
	struct pid *thread_pid;
	void *stack;
	struct mm_struct *mm;
	char comm[16];
	unsigned int __state; /* so named since 5.14 */
	unsigned in_iowait : 1;
	struct css_set *cgroups;
	struct thread_info thread_info; /* arm64 */
	unsigned int on_cpu;            /* SMP */
	unsigned long min_flt, maj_flt;
	struct sched_entity se;
};

struct task_struct___5_10 {
	long state;
};

struct timespec64 {
	long long tv_sec;
	long tv_nsec;
};

struct inode {
	unsigned long i_ino;
	long long i_mtime_sec; /* so named since 6.11 */
	unsigned int i_mtime_nsec;
};

struct inode___6_7 {
	struct timespec64 __i_mtime;
};

struct inode___5_10 {
	struct timespec64 i_mtime;
};

struct file {
	struct inode *f_inode;
};

struct vm_area_struct {
	unsigned long vm_start, vm_end;
	unsigned long vm_flags;
	unsigned long vm_pgoff;
	struct file *vm_file;
};

struct maple_tree { /* 6.1 */
	void *ma_root;
};

struct mm_struct {
	struct maple_tree mm_mt;
};

#define MAPLE_RANGE_SLOTS  16
#define MAPLE_ARANGE_SLOTS 10
struct maple_range_64 {
	unsigned long pivot[MAPLE_RANGE_SLOTS - 1];
	void *slot[MAPLE_RANGE_SLOTS];
};

struct maple_arange_64 {
	unsigned long pivot[MAPLE_ARANGE_SLOTS - 1];
	void *slot[MAPLE_ARANGE_SLOTS];
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

/* include/linux/sched.h: unchanged since 4.14, later ones excepted. */
#define TASK_INTERRUPTIBLE   0x1
#define TASK_UNINTERRUPTIBLE 0x2
#define TASK_STOPPED         0x4
#define TASK_TRACED          0x8
#define TASK_PARKED          0x40
#define TASK_DEAD            0x80
#define TASK_NOLOAD          0x400
#define TASK_RTLOCK_WAIT     0x1000 /* 5.16 */
#define TASK_FROZEN          0x8000 /* 6.1 */

#define PF_KTHREAD 0x00200000 /* include/linux/sched.h: unchanged since 2.6 */
#define VM_EXEC    0x4        /* include/linux/mm.h: unchanged since 2.6 */

#endif
