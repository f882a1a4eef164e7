/* SPDX-License-Identifier: Apache-2.0 */
/*
 * loader - BPF objects: probe, configure, size, load, attach; writing their maps, reading their
 * counters. Thread: the object is made and freed by C; what each call may be used by is said there.
 */
#ifndef PA_LOADER_H
#define PA_LOADER_H

#include "base/base.h"
#include "bpf/abi/abi.h"

struct load_oncpu;

struct load_sizes {
	uint32_t ring_bytes;    /* power of two, >= page size */
	uint32_t count_entries; /* each of the two tables */
	uint32_t thread_entries;
	uint32_t range_entries;
	uint32_t proc_entries;
	uint32_t shipped_entries; /* power of two */
	uint32_t followed_entries;
};

/* Opens, sizes and loads the object. @cfg's fields about sizes are filled in from @sizes.
 * The message of a failure names the call, the missing capability or setting, and the remedy. */
int load_oncpu_open(const struct abi_config *cfg, const struct load_sizes *sizes,
                    struct load_oncpu **ret, struct err *err);
struct load_oncpu *load_oncpu_free(struct load_oncpu *l); /* detaches */
void load_oncpu_freep(struct load_oncpu **l);

/* Makes the program run on each sample of @perf_fd, which stays the caller's and must be closed
 * after detaching. Through a link (5.15), else by PERF_EVENT_IOC_SET_BPF, which lasts until the
 * event is closed. */
int load_oncpu_attach(struct load_oncpu *l, int perf_fd, struct err *err);
void load_oncpu_detach(struct load_oncpu *l); /* closes all links */
/* PID: the target is process @tgid (our number) as it runs now, not one that gets its number later.
 * Without this call the number alone counts. -ESRCH if the iterator does not show it, errno. */
int load_target(struct load_oncpu *l, uint32_t tgid);
/* TREE: follows process @tgid (our number) and what it forks from now on. -ESRCH if there is none.
 */
int load_follow(struct load_oncpu *l, uint32_t tgid, struct err *err);

/* Process map. Thread: one (W). */
uint32_t load_range_cnt(const struct load_oncpu *l);
struct abi_range *load_ranges(struct load_oncpu *l); /* mapped; ranges[load_range_cnt] */
int load_proc_set(struct load_oncpu *l, uint32_t tgid, const struct abi_proc *p);
int load_proc_del(struct load_oncpu *l, uint32_t tgid);

/* Ring of stacks. Thread: one (D). @fn gets each whole record; returns records read or errno. */
typedef void (*load_ring_fn)(void *arg, const void *rec, size_t len);
int load_ring_drain(struct load_oncpu *l, load_ring_fn fn, void *arg);
int load_ring_fd(const struct load_oncpu *l); /* polls readable past the fill mark */

/* Flips the tables of counts, waits until no program writes the one that was active (10 ms and
 * more: an RCU grace period), reads and clears it. Thread: one (D). Returns entries or errno. */
typedef void (*load_count_fn)(void *arg, const struct abi_count_key *key,
                              const struct abi_count *val);
int load_counts_take(struct load_oncpu *l, load_count_fn fn, void *arg);
/* Both tables, after detaching. */
int load_counts_take_final(struct load_oncpu *l, load_count_fn fn, void *arg);
typedef void (*load_thread_fn)(void *arg, const struct abi_thread_key *key,
                               const struct abi_thread *val);
/* Reads the table of thread names; @clear empties it (names come again with the next sample). */
int load_threads_take(struct load_oncpu *l, bool clear, load_thread_fn fn, void *arg);

/* Sums over CPUs. load_counters: any thread, allocates; load_counters_drain: D only, does not. */
int load_counters(const struct load_oncpu *l, struct abi_counters *ret);
int load_counters_drain(struct load_oncpu *l, struct abi_counters *ret);
struct abi_control *load_control(struct load_oncpu *l); /* mapped */
uint64_t load_locked_bytes(const struct load_oncpu *l); /* memory of all maps, from fdinfo */

/* Every process as the kernel knows it (exec id, exact start). Thread: W. 0 or errno. */
typedef void (*load_task_fn)(void *arg, const struct abi_task *t);
int load_tasks(struct load_oncpu *l, load_task_fn fn, void *arg);

#endif
