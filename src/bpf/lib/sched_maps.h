/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/*
 * Scheduler statistics: constants and maps.
 */
#ifndef PA_BPF_SCHED_MAPS_H
#define PA_BPF_SCHED_MAPS_H

#include "bpf/lib/config.h"

/* Constants of the capture. */
const volatile __u32 per_process = 0;
const volatile __u32 n_counters = 0; /* 0 … ABI_COUNTERS_MAX */
const volatile __u32 timed = 0;      /* 1: with how long each counter was wanted, and counted */
const volatile __u32 n_cpus = 1;     /* possible ones */
const volatile __u32 n_slots = 1;    /* entries of sched_procs */
const volatile __u32 fast_mask = 0;  /* entries of sched_fast - 1 */

struct abi_sched_control sw SEC(".data.sched") = {};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, ABI_HIST_CNT);
	__type(key, __u32);
	__type(value, struct abi_cpu_hist);
} cpu_hists SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct abi_cpu_sums);
} cpu_sums SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct abi_sched_proc);
} sched_procs SEC(".maps");

/* The kernel's number of a process -> its slot. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u32);
} sched_slots SEC(".maps");

/* Slots that are taken. A set, since 5.10 has no atomic operation that returns something. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u32);
} sched_taken SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct abi_sched_thread);
} sched_threads SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct abi_sched_fast);
} sched_fast SEC(".maps");

/* Which of its entries are taken, and by which thread. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u32);
} sched_claims SEC(".maps");

/* [counter * n_cpus + CPU] */
struct {
	__uint(type, BPF_MAP_TYPE_PERF_EVENT_ARRAY);
	__uint(max_entries, 1);
	__uint(key_size, sizeof(__u32));
	__uint(value_size, sizeof(__u32));
} sched_events SEC(".maps");

static __always_inline struct abi_cpu_sums *this_cpu(void)
{
	__u32 zero = 0;

	return bpf_map_lookup_elem(&cpu_sums, &zero);
}

static __always_inline struct abi_sched_proc *proc_at(__u32 slot)
{
	return bpf_map_lookup_elem(&sched_procs, &slot);
}

#endif
