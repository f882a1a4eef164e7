/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/* Configuration, control words, and the maps that say which tasks are targets. */
#ifndef PA_BPF_CONFIG_H
#define PA_BPF_CONFIG_H

#include "bpf/lib/bpf.h"
#include "bpf/lib/kernel_types.h"
#include "bpf/lib/regs.h"

const volatile struct abi_config cfg = {};
struct abi_control ctl = {};

/*
 * TREE: the kernel's number of a followed process -> its start, which tells a reused number apart;
 * 0: not known.
 * Writers: user space, before the start; follow_fork and follow_free. Readers: all programs.
 * Size: load_sizes.followed_entries. Full: follow_full; the child is not followed.
 */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u64);
} followed SEC(".maps");

/* ---- filters: written by user space before the events are enabled, then constant ------------- */

/* The kernel's tid -> the thread's start; 0: not known. Size: the threads given. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u64);
} tids SEC(".maps");

/* Set of thread names. Size: the names given. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1);
	__type(key, struct abi_thread);
	__type(value, __u32);
} comms SEC(".maps");

/* Patterns of thread names. Size: cfg.n_name_sets. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct abi_name_set);
} name_sets SEC(".maps");

/* Cgroups, for the helper that compares the current task. Size: the cgroups given. */
struct {
	__uint(type, BPF_MAP_TYPE_CGROUP_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u32);
} cgroups SEC(".maps");

/* Set of their ids, for tasks other than the current one. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1);
	__type(key, __u64);
	__type(value, __u32);
} cgroup_ids SEC(".maps");

#endif
