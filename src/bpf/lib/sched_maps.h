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
const volatile __u32 timed = 0;      /* 1: also read enabled and running times of counters */
const volatile __u32 n_cpus = 1;     /* possible ones */
const volatile __u32 n_slots = 1;    /* entries of sched_procs */
const volatile __u32 fast_mask = 0;  /* entries of sched_fast - 1 */

/* Phase of the capture; written by user space and programs. */
struct abi_sched_control sw SEC(".data.sched") = {};

/* Histograms. Writers: all programs. Reader: user space. Size: ABI_HIST_CNT for each CPU. */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, ABI_HIST_CNT);
	__type(key, __u32);
	__type(value, struct abi_cpu_hist);
} cpu_hists SEC(".maps");

/* Sums, and the state of each CPU. Writers: all programs. Reader: user space. Size: 1 for each
 * CPU. */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct abi_cpu_sums);
} cpu_sums SEC(".maps");

/*
 * Slot -> statistics of a process; slot 0 is "other".
 * Writers: all programs, on all CPUs, atomically. Reader: user space.
 * Size: n_slots. Full: the process is counted in slot 0 and in sw.lost_procs.
 */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct abi_sched_proc);
} sched_procs SEC(".maps");

/* The kernel's number of a process -> its slot. Writers and readers: the programs. Size: as
 * sched_procs. Full: as sched_procs. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u32);
} sched_slots SEC(".maps");

/* Set of claimed slots; a map, since 5.10 has no atomic operation that returns a value. Writers and
 * readers: the programs. Size: as sched_procs. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u32);
} sched_taken SEC(".maps");

/*
 * The kernel's tid -> a thread that found its entry of sched_fast claimed.
 * Writers: the programs. Readers: the programs; user space at the end.
 * Size: the threads of the options. Full: counted in abi_cpu_sums.lost.
 */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct abi_sched_thread);
} sched_threads SEC(".maps");

/*
 * The kernel's tid & fast_mask -> a thread.
 * Writers: the programs. Readers: the programs; user space at the end.
 * Size: a power of two. A thread that collides is in sched_threads.
 */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct abi_sched_fast);
} sched_fast SEC(".maps");

/* Index in sched_fast -> the kernel's tid of the thread that claimed it. Writers and readers: the
 * programs. Size: as sched_fast. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u32);
} sched_claims SEC(".maps");

/* Perf events of the counters, at [counter * n_cpus + CPU]. Writer: user space. */
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
