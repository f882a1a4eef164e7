/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/*
 * Maps shared by the programs that walk stacks. The on-CPU object creates them; the off-CPU object
 * reuses their descriptors. The loader sets the sizes of maps with one entry
 * (src/loader/load_oncpu.c).
 */
#ifndef PA_BPF_MAPS_H
#define PA_BPF_MAPS_H

#include "bpf/lib/config.h"

/* ---- process map: written by user space, read by the walk ------------------------------------ */

/*
 * Executable mappings of all processes; those of one process are adjacent (struct abi_proc).
 * Writer: the tracker. Readers: all walks.
 * Size: load_sizes.range_entries. Full: the process stays out of procs (process_map_full).
 */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct abi_range);
} ranges SEC(".maps");

/*
 * Process number in our pid namespace -> its part of ranges.
 * Writer: the tracker. Readers: all walks, record_mapping.
 * Size: load_sizes.proc_entries. Full: frames of further processes are raw addresses.
 * Not preallocated: a reader could see a preallocated element while another process reuses it.
 * Kernels before 6.1 refuse that flag for perf_event programs; the loader clears it there. The walk
 * then copies the entry and compares its start time.
 */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct abi_proc);
} procs SEC(".maps");

/*
 * Process number in our pid namespace -> its dirty ranges (dirty.h).
 * Writer: record_mapping; the tracker deletes entries of processes that ended. Readers: all walks.
 * Size: as procs. Full: counted as dirty_ranges_full; samples may show the mapping before.
 */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct abi_dirty_ranges);
} dirty_ranges SEC(".maps");

/* ---- unwind tables: written by user space, read by the walk ---------------------------------- */

/*
 * Image id -> its unwind table in the word space.
 * Writer: uw_store; the programs write only `wanted` and `used`. Readers: all walks.
 * Size: load_sizes.image_entries. Full: further images have no table.
 */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct abi_image);
} images SEC(".maps");

/*
 * Rules shared by all tables, by the codes of their rows.
 * Writer: uw_rules. Readers: all walks. Size: ABI_RULES_MAX. Full: table_rules_refused.
 */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, ABI_RULES_MAX);
	__type(key, __u32);
	__type(value, struct abi_rule);
} rules SEC(".maps");

/*
 * Rules that do not fit struct abi_rule; indexed by abi_rule.cfa_off.
 * Writer: uw_rules. Readers: all walks. Size: ABI_WIDES_MAX. Full: table_rules_refused.
 */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, ABI_WIDES_MAX);
	__type(key, __u32);
	__type(value, struct abi_wide);
} wides SEC(".maps");

/*
 * Decoded DWARF expressions, one operation an entry.
 * Writer: uw_rules. Readers: all walks. Size: ABI_OPS_MAX. Full: table_rules_refused.
 */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, ABI_OPS_MAX);
	__type(key, __u32);
	__type(value, struct abi_op);
} ops SEC(".maps");

struct words {
	__u32 w[ABI_VALUE_WORDS];
};
/* One segment of the word space: an inner map. */
struct segment {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, ABI_SEGMENT_WORDS / ABI_VALUE_WORDS);
	__uint(key_size, sizeof(__u32));
	__uint(value_size, sizeof(struct words)); /* a type here stays a declaration in BTF */
};
/*
 * The word space: indexes and rows of all tables.
 * Writer: uw_store, which adds segments as it needs them. Readers: all walks.
 * Size: ABI_SEGMENTS_MAX of 256 KiB; --table-budget bounds them. Full: tables_refused.
 */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY_OF_MAPS);
	__uint(max_entries, ABI_SEGMENTS_MAX);
	__type(key, __u32);
	__array(values, struct segment);
} segments SEC(".maps");

/* ---- state of the programs ------------------------------------------------------------------- */

/*
 * Shared cache: (table, offset) -> code (abi_unwind.h).
 * Writers and readers: all walks, on all CPUs. Size: ABI_CACHE_ENTRIES, direct-mapped. Full: a
 * collision replaces the entry.
 */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, ABI_CACHE_ENTRIES);
	__type(key, __u32);
	__type(value, __u64);
} pc_cache SEC(".maps");

#define QUOTA_ENTRIES 4096
/*
 * Deferred samples of a process and image: upper half a tag, lower half their number.
 * Writers and readers: all walks. Size: QUOTA_ENTRIES, direct-mapped. Full: a collision replaces
 * the entry, so that both start again at 0.
 */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, QUOTA_ENTRIES);
	__type(key, __u32);
	__type(value, __u64);
} quotas SEC(".maps");

/*
 * Hashes of stacks that the stack ring accepted.
 * Writers and readers: all programs that send stacks. Size: load_sizes.shipped_entries, in sets of
 * two. Full: the older entry is replaced, and its stack is sent once more.
 */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u64);
} shipped SEC(".maps");

/* ---- results: written by the programs, read by user space ------------------------------------ */

/*
 * Thread -> its name.
 * Writers: all sampling programs. Reader: the drain thread, which empties it.
 * Size: load_sizes.thread_entries. Full: threads_full; the thread has no name.
 */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, 1);
	__type(key, struct abi_thread_key);
	__type(value, struct abi_thread);
} threads SEC(".maps");

/*
 * New stacks (struct abi_stack), some with their sample, and wakers.
 * Writers: all sampling programs. Reader: the drain thread.
 * Size: load_sizes.ring_bytes. Full: stack_ring_full; the stack is sent with its next sample.
 */
struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 4096);
} stack_ring SEC(".maps");

/*
 * Deferred samples (struct abi_deferred): registers and a stack snapshot.
 * Writers: all sampling programs. Reader: the drain thread.
 * Size: load_sizes.deferred_ring_bytes. Full: deferred_ring_full; the sample is unwound
 * heuristically.
 */
struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 4096);
} deferred_ring SEC(".maps");

/*
 * Counters of one object (counters.def); each object has its own map.
 * Writers: all programs. Readers: any thread of user space. Size: 1 for each CPU.
 */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct abi_counters);
} counters SEC(".maps");

#define CNT_ADD(c, id, n) ((c)->v[ABI_CNT_##id] += (n))

#endif
