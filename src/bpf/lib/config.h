/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/* What all programs share: configuration, the words that steer them, who the targets are. */
#ifndef PA_BPF_CONFIG_H
#define PA_BPF_CONFIG_H

#include "bpf/lib/bpf.h"
#include "bpf/lib/kernel_types.h"
#include "bpf/lib/regs.h"

const volatile struct abi_config cfg = {};
struct abi_control ctl = {};

/* TREE: the kernel's number of each process -> its start, which tells a number that was used again;
 * 0: not known. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u64);
} followed SEC(".maps");

/* Filters; filled before the events are enabled, and not changed. */

/* The kernel's number of each thread -> its start; 0: not known. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u64);
} tids SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1);
	__type(key, struct abi_thread);
	__type(value, __u32);
} comms SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_CGROUP_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u32);
} cgroups SEC(".maps");

/* Their numbers, for tasks other than the current one. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1);
	__type(key, __u64);
	__type(value, __u32);
} cgroup_ids SEC(".maps");

#endif
