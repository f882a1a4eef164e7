/* SPDX-License-Identifier: Apache-2.0 */
/*
 * loader - BPF objects: probe, configure, size, load, attach; writing their maps, reading their
 * counters. Thread: the object is made and freed by C; what each call may be used by is said there.
 */
#ifndef PA_LOADER_H
#define PA_LOADER_H

#include "base/base.h"
#include "bpf/abi/abi.h"
#include "unwind/unwind.h"

struct load_oncpu;

struct load_sizes {
	uint32_t ring_bytes;    /* power of two, >= page size */
	uint32_t count_entries; /* each of the two tables */
	uint32_t thread_entries;
	uint32_t range_entries;
	uint32_t proc_entries;
	uint32_t shipped_entries; /* power of two */
	uint32_t followed_entries;
	uint32_t image_entries;   /* images that can have an unwind table; 0: no tables (frame
	                           * pointers only) */
	uint32_t copy_ring_bytes; /* power of two: first samples; a page at least */
};

/**
 * load_oncpu_open - open, size and load the object; no program is attached yet
 * @cfg:   copied; shipped_mask, ring_wake_bytes and copy_wake_bytes are filled in from @sizes
 * @sizes: copied; entries of each table, bytes of the ring
 * The fork programs are loaded only for ABI_TARGET_TREE. Where the kernel refuses tables that
 * allocate as they go (-EINVAL, before 6.1), it is tried again with preallocated ones.
 * Returns: 0, -ENOMEM, errno of bpf(2), mmap or the list of CPUs. @err names the call, the last
 * words of libbpf or the verifier, and the remedy where it is known (BTF, RLIMIT_MEMLOCK).
 */
int load_oncpu_open(const struct abi_config *cfg, const struct load_sizes *sizes,
                    struct load_oncpu **ret, struct err *err);
/**
 * load_oncpu_free, load_oncpu_freep - detach, unmap, unload
 * NULL is accepted; free returns NULL, freep is for the cleanup attribute.
 */
struct load_oncpu *load_oncpu_free(struct load_oncpu *l);
void load_oncpu_freep(struct load_oncpu **l);

/**
 * load_oncpu_attach - run the program on each sample of a perf event
 * @perf_fd: stays the caller's; to be closed after load_oncpu_detach
 * Through a link (5.15), else by PERF_EVENT_IOC_SET_BPF, which lasts until the event is closed.
 * Returns: 0, -E2BIG (65,536 links), -ENOMEM, errno of BPF_LINK_CREATE.
 */
int load_oncpu_attach(struct load_oncpu *l, int perf_fd, struct err *err);
/**
 * load_oncpu_detach - close all links: those to events and those of load_follow
 */
void load_oncpu_detach(struct load_oncpu *l);
/**
 * load_target - sample the process that has this number now, not one that gets it later
 * @tgid: in our pid namespace, cfg's target_tgid (target ABI_TARGET_PID)
 * Without this call the number alone counts.
 * Returns: 0, -ESRCH (the iterator does not show it), errno of load_tasks.
 */
int load_target(struct load_oncpu *l, uint32_t tgid);
/**
 * load_follow - sample a process and what it forks from now on (target ABI_TARGET_TREE)
 * @tgid: its number in our pid namespace
 * A failure takes back the links that it made; those of load_oncpu_attach stay.
 * Returns: 0, -ESRCH (no such process), -E2BIG (table or list of links full), -ENOMEM, errno of
 * BPF_RAW_TRACEPOINT_OPEN, of the table's update, or of load_tasks.
 */
int load_follow(struct load_oncpu *l, uint32_t tgid, struct err *err);

/* ---- process map: thread W ------------------------------------------------------------------ */

/**
 * load_range_cnt, load_ranges - the mapped array of address ranges, ranges[load_range_cnt]
 * Shared with the programs that run; borrowed until load_oncpu_free.
 */
uint32_t load_range_cnt(const struct load_oncpu *l);
struct abi_range *load_ranges(struct load_oncpu *l);
/**
 * load_proc_set - publish where a process's ranges lie
 * @p: copied; replaces the entry that is there
 * Returns: 0, -E2BIG (table full), -ENOMEM, what else bpf(2) gives.
 */
int load_proc_set(struct load_oncpu *l, uint32_t tgid, const struct abi_proc *p);
/**
 * load_proc_del - take a process's entry out
 * Returns: 0, -ENOENT (there is none), what else bpf(2) gives.
 */
int load_proc_del(struct load_oncpu *l, uint32_t tgid);
/**
 * load_procs_changed - makes the programs read the table of processes again
 * Each CPU remembers the entry that it read last. Done by load_proc_set and _del; and to be done
 * once more before ranges are used for another list, a grace period after the entry went: where
 * loads are reordered, a program may have kept the old entry as if it were the new one.
 */
void load_procs_changed(struct load_oncpu *l);

/* ---- unwind tables: any thread, through the locks of uw_rules and uw_store ------------------- */

/**
 * load_tables - the mapped tables that the walk reads
 * @rules:   for uw_rules_new
 * @backing: for uw_store_new; its segment() makes an inner map, maps it, and puts it in its place,
 *           which waits an RCU grace period (10 ms); several are made at a time
 * Borrowed until load_oncpu_free. Returns: 0, -ENOENT (image_entries was 0).
 */
int load_tables(struct load_oncpu *l, struct uw_rules_mem *rules, struct uw_backing *backing);

/* ---- what comes back: thread D -------------------------------------------------------------- */

/* A whole record of the ring, @len bytes; borrowed until it returns. */
typedef void (*load_ring_fn)(void *arg, const void *rec, size_t len);
/**
 * load_ring_drain - hand on the stacks and the copies (first samples) that are in the rings
 * @copy: gets struct abi_copy and its bytes
 * Returns: records handed on, or negative errno of libbpf's ring_buffer__consume. Allocates: no.
 */
int load_ring_drain(struct load_oncpu *l, load_ring_fn stack, load_ring_fn copy, void *arg);
/**
 * load_ring_fd - descriptor that polls readable once the ring is past its fill mark, half
 * Borrowed until load_oncpu_free. Thread: any.
 */
int load_ring_fd(const struct load_oncpu *l);

/* One entry of the tables of counts; both borrowed until it returns. */
typedef void (*load_count_fn)(void *arg, const struct abi_count_key *key,
                              const struct abi_count *val);
/**
 * load_counts_take - flip the two tables of counts, then empty the one that was active
 * Returns: entries handed on, or negative errno of bpf(2): what was handed on before it is gone
 * from the table, the rest comes when this table's turn comes again.
 * Cost: waits until no program writes to it, an RCU grace period of 10 ms and more (100 ms where
 * membarrier(2) is refused); then a system call for 1,024 entries. Allocates: no.
 */
int load_counts_take(struct load_oncpu *l, load_count_fn fn, void *arg);
/**
 * load_counts_take_final - empty both tables, after load_oncpu_detach
 * Returns: as load_counts_take; the second table is read even if the first one failed.
 */
int load_counts_take_final(struct load_oncpu *l, load_count_fn fn, void *arg);

/* One entry of the table of thread names; both borrowed until it returns. */
typedef void (*load_thread_fn)(void *arg, const struct abi_thread_key *key,
                               const struct abi_thread *val);
/**
 * load_threads_take - hand on the table of thread names
 * @clear: empties it too; a thread's name comes again with its next sample
 * Returns: entries handed on, or negative errno of bpf(2). Allocates: no.
 */
int load_threads_take(struct load_oncpu *l, bool clear, load_thread_fn fn, void *arg);

/* ---- figures -------------------------------------------------------------------------------- */

/**
 * load_counters, load_counters_drain - the programs' counters, summed over CPUs
 * Returns: 0, errno of bpf(2), load_counters also -ENOMEM.
 * Allocates: load_counters a row for each possible CPU, load_counters_drain nothing.
 * Thread: load_counters any, load_counters_drain D.
 */
int load_counters(const struct load_oncpu *l, struct abi_counters *ret);
int load_counters_drain(struct load_oncpu *l, struct abi_counters *ret);
/**
 * load_control - the mapped words that steer the running programs
 * Shared with them; borrowed until load_oncpu_free.
 */
struct abi_control *load_control(struct load_oncpu *l);
/**
 * load_locked_bytes - memory of all maps, as their fdinfo tells ("memlock")
 * A map whose fdinfo cannot be read or parsed counts 0. Segments of tables made meanwhile count.
 * Cost: a file in /proc for each map.
 */
uint64_t load_locked_bytes(const struct load_oncpu *l);

/* One process; borrowed until it returns. */
typedef void (*load_task_fn)(void *arg, const struct abi_task *t);
/**
 * load_tasks - hand on every process as the kernel knows it (exec id, exact start)
 * Returns: 0, errno of bpf(2) or of reading the iterator; some may have been handed on before it.
 * Cost: O(processes) in the kernel. Thread: one at a time (C in load_target and load_follow,
 * else W).
 */
int load_tasks(struct load_oncpu *l, load_task_fn fn, void *arg);

#endif
