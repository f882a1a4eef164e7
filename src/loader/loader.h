/* SPDX-License-Identifier: Apache-2.0 */
/*
 * loader - BPF objects: probe, configure, size, load, attach; writing their maps, reading their
 * counters. Thread: the control thread makes and frees the objects; each call names its own.
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
	uint32_t tid_entries, comm_entries; /* of the filters; 0: none */
	uint32_t image_entries;       /* images that can have an unwind table; 0: no tables (frame
	                           * pointers only) */
	uint32_t deferred_ring_bytes; /* power of two, at least a page: deferred samples */
	bool no_sample;               /* without the program that samples: no load_oncpu_attach */
	bool no_walk;         /* nor the program that reports mappings: no source walks stacks */
	const char *programs; /* what the user asked for, for messages; NULL: "sampling program" */
};

/**
 * load_oncpu_open - open, size and load the object; no program is attached yet
 * @cfg:   copied; shipped_mask, ring_wake_bytes and deferred_wake_bytes are filled in from @sizes
 * @sizes: copied; entries of each table, bytes of the ring
 * Loads the fork programs only with cfg->follow, and the sampling program unless @sizes asks for
 * the maps alone: its verification takes most of the time of this call. Attaches the program that
 * reports mappings, where the kernel allows it (load_hooked): it adds the dirty ranges that
 * load_watermark clears. Before 6.1 kernels refuse tables that allocate as they go (-EINVAL): a
 * second try has preallocated ones.
 * Returns: 0, -ENOMEM, errno of bpf(2), mmap or the list of CPUs. @err names the call, the last
 * message of libbpf or the verifier, and the cause where it is known (BTF, RLIMIT_MEMLOCK,
 * capabilities).
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
 * Attaches through a link (5.15), else by PERF_EVENT_IOC_SET_BPF, which lasts until the event is
 * closed.
 * Returns: 0, -E2BIG (65,536 links), -ENOMEM, errno of BPF_LINK_CREATE.
 */
int load_oncpu_attach(struct load_oncpu *l, int perf_fd, struct err *err);
/**
 * load_oncpu_detach - close all links: those to events, those of load_follow, and the one of the
 * program that reports mappings
 */
void load_oncpu_detach(struct load_oncpu *l);
/**
 * load_target - sample the process that has this number now, not one that gets it later
 * @tgid: in our pid namespace, cfg's target_tgid (target ABI_TARGET_PID)
 * Without this call the number alone counts.
 * Returns: 0, -ESRCH (the iterator does not show it), errno of load_tasks.
 */
int load_target(struct load_oncpu *l, uint32_t tgid);
/* Processes to sample, target ABI_TARGET_TREE. */
struct load_procs {
	const uint32_t *tgids; /* tgids[n], ascending: numbers in our pid namespace */
	uint32_t n;
	bool existing; /* with cfg's follow: also what they have forked before, and so on */
};
/**
 * load_follow - sample these processes; with cfg's follow also what they fork from now on
 * Some of several may have ended. Scans find children by their parents' numbers, after the fork
 * program is attached and until there are no new ones, so that none is missed. Children already
 * reparented are not followed. A failure closes the links that it made; those of load_oncpu_attach
 * stay.
 * Returns: 0, -ESRCH (none of them exists), -E2BIG (table or list of links full), -ENOMEM, errno of
 * BPF_RAW_TRACEPOINT_OPEN, of the table's update, or of load_tasks.
 */
int load_follow(struct load_oncpu *l, const struct load_procs *p, struct err *err);
/**
 * load_filter_tids - sample these threads only (ABI_FILTER_TID), not others that get their numbers
 * @tids: tids[n], ascending, n <= tid_entries: numbers in our pid namespace
 * If the iterator fails the number alone counts, unless our pid namespace is a nested one.
 * Returns: 0, -ESRCH (@err names the first that does not exist), errno of the table's update or of
 * load_tasks. Cost: O(threads of the machine).
 */
int load_filter_tids(struct load_oncpu *l, const uint32_t *tids, uint32_t n, struct err *err);
/**
 * load_name_pattern - whether a filter is a pattern for thread names, and not a name
 * Patterns are those of the shell: * for any bytes, ? for one, [a-z] and [!a-z] for one of a set, and \ before
 * a character that is meant itself.
 * Returns: 0 (a name), 1, -E2BIG (it matches names of 16 bytes and more only), -EINVAL ([:class:]).
 */
int load_name_pattern(const char *comm);
/**
 * load_name_add - add a pattern to sets
 * @sets: sets[(i + 4) / 4], zeroed before the first pattern
 * @i:    number of patterns that are in the sets
 * @pattern: for which load_name_pattern returns 1
 */
void load_name_add(struct abi_name_set *sets, uint32_t i, const char *pattern);
/**
 * load_filter_comms - sample threads with these names only (ABI_FILTER_COMM)
 * @comms: comms[n], n <= comm_entries: names, compared by their first 15 bytes, and patterns
 * Returns: 0, -ENOMEM, errno of the table's update.
 */
int load_filter_comms(struct load_oncpu *l, const char *const *comms, uint32_t n, struct err *err);
/**
 * load_filter_cgroups - sample tasks of these cgroups and of those below only (ABI_FILTER_CGROUP)
 * @fds: fds[n], n = cfg's n_cgroups: folders of the cgroup2 file system; may be closed after it
 * Returns: 0, errno of the table's update.
 */
int load_filter_cgroups(struct load_oncpu *l, const int *fds, uint32_t n, struct err *err);

/**
 * load_hooked - does the kernel side report mappings before user space reads their records?
 */
bool load_hooked(const struct load_oncpu *l);

/**
 * load_cpu_time_begin - measure the on-CPU time of the targets from now on (cfg's cpu_time)
 * @cpus: cpus[n]; those that are offline are left out
 * Counts the time between switch events, as the tracepoint sched_switch reports them. Threads that
 * run now count from now on. Each CPU is interrupted once.
 * Returns: 0, -E2BIG, -ENOMEM, errno of BPF_RAW_TRACEPOINT_OPEN or BPF_PROG_TEST_RUN.
 */
int load_cpu_time_begin(struct load_oncpu *l, const uint32_t *cpus, uint32_t n, struct err *err);
/**
 * load_cpu_time_split - count the threads that run up to now, and go on
 * Each CPU is interrupted once. Returns: as load_cpu_time_end.
 */
int load_cpu_time_split(struct load_oncpu *l, const uint32_t *cpus, uint32_t n);
/**
 * load_cpu_time_end - count the threads that run up to now, and nothing from here on
 * Continues with the next CPU after a failure. Returns: 0, the first errno of BPF_PROG_TEST_RUN.
 */
int load_cpu_time_end(struct load_oncpu *l, const uint32_t *cpus, uint32_t n);
typedef void (*load_cpu_time_fn)(void *arg, const struct abi_cpu_time *t);
/**
 * load_cpu_times - hand on the time and the weight of samples of each thread
 * @fn:  the entry is valid during the call
 * @ret: sums over all CPUs: time and samples of threads without an entry, time of the program, and
 *       the counts; its other members are 0
 * Returns: 0, -ENOMEM, errno of reading the tables.
 */
int load_cpu_times(struct load_oncpu *l, load_cpu_time_fn fn, void *arg, struct abi_cpu_clock *ret);

/* ---- process map: tracker thread ------------------------------------------------------------- */

/**
 * load_range_cnt, load_ranges - the mapped array of address ranges, ranges[load_range_cnt]
 * Shared with the programs that run; borrowed until load_oncpu_free.
 */
uint32_t load_range_cnt(const struct load_oncpu *l);
struct abi_range *load_ranges(struct load_oncpu *l);
/**
 * load_proc_set - publish where a process's ranges are
 * @p: copied; replaces the entry that is there
 * Returns: 0, -E2BIG (table full), -ENOMEM, any other errno of bpf(2).
 */
int load_proc_set(struct load_oncpu *l, uint32_t tgid, const struct abi_proc *p);
/**
 * load_proc_del - delete a process's entry
 * Returns: 0, -ENOENT (there is none), any other errno of bpf(2).
 */
int load_proc_del(struct load_oncpu *l, uint32_t tgid);
/**
 * load_proc_ended - delete the dirty ranges of a process that has ended
 */
void load_proc_ended(struct load_oncpu *l, uint32_t tgid);
/**
 * load_ranges_reclaimed - ranges are about to be used for another list
 * To be called a grace period after the last entry that named them was deleted. Each CPU caches the
 * entry of a process that it read last, and the ranges by which stacks were walked. Where loads are
 * reordered, a program may have cached the old entry as if it were the new one.
 */
void load_ranges_reclaimed(struct load_oncpu *l);
/**
 * load_watermark - publish the time up to which the lists hold all mappings
 * @until_ns: CLOCK_MONOTONIC, never less than before
 * Clears the dirty ranges of the kernel side that are not later.
 */
void load_watermark(struct load_oncpu *l, uint64_t until_ns);

/* ---- unwind tables: any thread, through the locks of uw_rules and uw_store ------------------- */

/**
 * load_tables - the mapped tables that the walk reads
 * @rules:   for uw_rules_new
 * @backing: for uw_store_new; its segment() makes an inner map, maps it, and inserts it, which
 *           waits an RCU grace period (10 ms); several are made at a time
 * Borrowed until load_oncpu_free. Returns: 0, -ENOENT (image_entries was 0).
 */
int load_tables(struct load_oncpu *l, struct uw_rules_mem *rules, struct uw_backing *backing);

/* ---- rings and tables: drain thread ---------------------------------------------------------- */

/* A whole record of the ring, @len bytes; borrowed until it returns. */
typedef void (*load_ring_fn)(void *arg, const void *rec, size_t len);
/**
 * load_ring_drain - hand on the stacks and the deferred samples that are in the rings
 * @deferred: gets struct abi_deferred and its bytes
 * Returns: records handed on, or negative errno of libbpf's ring_buffer__consume. Allocates: no.
 */
int load_ring_drain(struct load_oncpu *l, load_ring_fn stack, load_ring_fn deferred, void *arg);
/**
 * load_ring_fd - descriptor that polls readable once the ring is past its fill mark, half
 * Borrowed until load_oncpu_free. Thread: any.
 */
int load_ring_fd(const struct load_oncpu *l);

/* One entry of the tables of counts; both borrowed until it returns. */
typedef void (*load_count_fn)(void *arg, const struct abi_count_key *key,
                              const struct abi_count *val);
/**
 * load_counts_drain - flip the two tables of counts, then empty the one that was active
 * Returns: entries handed on, or negative errno of bpf(2). After a failure the entries that were
 * not handed on stay in the table until it is drained again.
 * Cost: waits until no program writes to it, an RCU grace period of 10 ms and more (100 ms where
 * membarrier(2) is refused); then a system call for 1,024 entries. Allocates: no.
 */
int load_counts_drain(struct load_oncpu *l, load_count_fn fn, void *arg);
/**
 * load_counts_drain_final - empty both tables, after load_oncpu_detach
 * Returns: as load_counts_drain; the second table is read even if the first one failed.
 */
int load_counts_drain_final(struct load_oncpu *l, load_count_fn fn, void *arg);

/* One entry of the table of thread names; both borrowed until it returns. */
typedef void (*load_thread_fn)(void *arg, const struct abi_thread_key *key,
                               const struct abi_thread *val);
/**
 * load_threads_read - hand on the table of thread names
 * @clear: empties it too; the next sample of a thread adds its name again
 * Returns: entries handed on, or negative errno of bpf(2). Allocates: no.
 */
int load_threads_read(struct load_oncpu *l, bool clear, load_thread_fn fn, void *arg);

/* ---- statistics ------------------------------------------------------------------------------ */

/**
 * load_counters, load_counters_drain - the programs' counters, summed over CPUs
 * Returns: 0, errno of bpf(2), load_counters also -ENOMEM.
 * Allocates: load_counters a row for each possible CPU, load_counters_drain nothing.
 * Thread: load_counters any, load_counters_drain the drain thread.
 */
int load_counters(const struct load_oncpu *l, struct abi_counters *ret);
int load_counters_drain(struct load_oncpu *l, struct abi_counters *ret);
/**
 * load_control - the mapped control words of the running programs
 * Shared with them; borrowed until load_oncpu_free.
 */
struct abi_control *load_control(struct load_oncpu *l);
/**
 * load_locked_bytes - memory of all maps, by their fdinfo ("memlock")
 * A map whose fdinfo cannot be read or parsed counts 0. Segments of tables are included.
 * Cost: a file in /proc for each map.
 */
uint64_t load_locked_bytes(const struct load_oncpu *l);

/* One process; borrowed until it returns. */
typedef void (*load_task_fn)(void *arg, const struct abi_task *t);
/**
 * load_tasks - hand on every process as the kernel knows it (exec id, exact start)
 * Returns: 0, errno of bpf(2) or of reading the iterator; some may have been handed on before it.
 * Cost: O(processes) in the kernel. Thread: one at a time (control in load_target, load_follow and
 * load_filter_tids, else tracker).
 */
int load_tasks(struct load_oncpu *l, load_task_fn fn, void *arg);

/* ---- off-CPU --------------------------------------------------------------------------------- */

struct load_offcpu;

struct load_offcpu_options {
	uint32_t states; /* bit 1 << enum abi_offcpu_state */
	bool wakers;
	uint64_t min_ns, max_ns; /* of one interval, inclusive */
	uint32_t thread_entries; /* threads of the target at a time */
	uint32_t count_entries;  /* each of the two tables */
};

/**
 * load_offcpu_open - load the off-CPU programs over the maps of @base
 * @base: its target, filters, process map, tables, rings and table of names are shared; must live
 *        longer
 * Returns: 0, -ENOMEM, errno of bpf(2); @err as for load_oncpu_open.
 */
int load_offcpu_open(struct load_oncpu *base, const struct load_offcpu_options *o,
                     struct load_offcpu **ret, struct err *err);
/**
 * load_offcpu_free, load_offcpu_freep - detach and unload; NULL is accepted, free returns NULL
 */
struct load_offcpu *load_offcpu_free(struct load_offcpu *l);
void load_offcpu_freep(struct load_offcpu **l);
/**
 * load_offcpu_attach - attach all programs, which do nothing until load_offcpu_follow
 * Returns: 0, errno of BPF_RAW_TRACEPOINT_OPEN (@err names the tracepoint).
 */
int load_offcpu_attach(struct load_offcpu *l, struct err *err);
/**
 * load_offcpu_follow - follow switches from here on, without counting intervals yet
 */
void load_offcpu_follow(struct load_offcpu *l);
/**
 * load_offcpu_begin - count intervals from here on; of open ones the part from here on
 * Returns: the time of it, CLOCK_MONOTONIC. Cost: 1 ms, asleep.
 */
uint64_t load_offcpu_begin(struct load_offcpu *l);
/**
 * load_offcpu_end - stop opening and closing intervals, from the first moment of the call on
 * @end_ns: now, CLOCK_MONOTONIC
 * The final task scan finds intervals that ended before @end_ns without a switch event
 * (abi_offcpu_thread.ended_ns). If it fails they last to the end.
 * Returns: 0, negative errno of bpf(2) or of reading the iterator. Cost: O(threads of the machine)
 * in the kernel, 1 us each.
 */
int load_offcpu_end(struct load_offcpu *l, uint64_t end_ns);
/**
 * load_offcpu_detach - detach the programs
 * Cost: an RCU grace period.
 */
void load_offcpu_detach(struct load_offcpu *l);

/* One entry of the tables of intervals; both borrowed until it returns. */
typedef void (*load_offcpu_fn)(void *arg, const struct abi_offcpu_key *key,
                               const struct abi_offcpu_count *val);
/**
 * load_offcpu_drain, load_offcpu_drain_final - as load_counts_drain and _final, of closed intervals
 */
int load_offcpu_drain(struct load_offcpu *l, load_offcpu_fn fn, void *arg);
int load_offcpu_drain_final(struct load_offcpu *l, load_offcpu_fn fn, void *arg);
/* A thread, and the kernel's number of it. */
typedef void (*load_offcpu_thread_fn)(void *arg, uint32_t kernel_tid,
                                      const struct abi_offcpu_thread *t);
/**
 * load_offcpu_threads - hand on all threads of the table; out_ns != 0: its interval is open
 * Before load_offcpu_end the programs change entries meanwhile: some may be missing.
 * Returns: how many, or negative errno of bpf(2).
 */
int load_offcpu_threads(struct load_offcpu *l, load_offcpu_thread_fn fn, void *arg);
/* A thread that was blocked when the capture began; borrowed until it returns. */
typedef void (*load_blocked_fn)(void *arg, const struct abi_offcpu_blocked *b);
/**
 * load_offcpu_blocked - add the threads of the target that are blocked already, and hand them on
 * Once, between load_offcpu_follow and load_offcpu_begin.
 * Returns: 0, errno of bpf(2) or of reading the iterator. Cost: O(threads) in the kernel.
 */
int load_offcpu_blocked(struct load_offcpu *l, load_blocked_fn fn, void *arg);
/**
 * load_offcpu_is_open - is the interval of a thread whose user stack is @ustack still open?
 * False too once load_offcpu_end was called: the programs change no entry any more. Thread: any.
 */
bool load_offcpu_is_open(const struct load_offcpu *l, uint32_t kernel_tid, uint64_t ustack);
/**
 * load_offcpu_counters - the programs' counters, summed over CPUs
 * Returns: 0, errno of bpf(2), -ENOMEM. Thread: any.
 */
int load_offcpu_counters(const struct load_offcpu *l, struct abi_counters *ret);
/**
 * load_offcpu_locked_bytes - memory of the maps that it does not share with the base
 */
uint64_t load_offcpu_locked_bytes(const struct load_offcpu *l);

/* ---- scheduler statistics -------------------------------------------------------------------- */

struct load_sched;

struct load_sched_options {
	bool per_process;    /* histograms and counters of each process */
	uint32_t n_procs;    /* processes with a slot, 1 … ABI_SCHED_PROCS; the rest shares one */
	uint32_t n_counters; /* 0 … ABI_COUNTERS_MAX */
	bool counter_times;  /* also the time that each was enabled and counted, where counters
	                      * share hardware: 60 ns more for each at a switch. Without it
	                      * enabled_ns and running_ns are 0, and a read(2) of an event at the
	                      * end says whether and how its CPU's values are scaled */
	uint32_t thread_entries; /* threads of the target at a time, at least */
};

/**
 * load_sched_open - load the programs of scheduler statistics over the maps of @base
 * @base: has the target, the filters and the control words that they use; must live longer
 * Returns: 0, -EINVAL (options), -ENOMEM, errno of bpf(2) or mmap; @err as for load_oncpu_open.
 */
int load_sched_open(struct load_oncpu *base, const struct load_sched_options *o,
                    struct load_sched **ret, struct err *err);
/**
 * load_sched_free, load_sched_freep - detach and unload; NULL is accepted, free returns NULL
 */
struct load_sched *load_sched_free(struct load_sched *l);
void load_sched_freep(struct load_sched **l);
/**
 * load_sched_counter - the event that counts @counter on a CPU
 * @counter: 0 … n_counters - 1; the caller knows what each counts
 * @cpu:     0 … possible CPUs - 1
 * @perf_fd: a counting event of that CPU and no task, enabled; stays the caller's, and may be
 *           closed. Again for a CPU that came back.
 * Returns: 0, -ERANGE, errno of bpf(2). A CPU without an event counts nothing.
 */
int load_sched_counter(struct load_sched *l, uint32_t counter, uint32_t cpu, int perf_fd);
/**
 * load_sched_core_types - set the kind of core of each CPU, before load_sched_attach
 * @types: types[possible CPUs], 0 … ABI_CORE_TYPES_MAX - 1; without this call all are 0
 * Returns: 0, -ERANGE, -ENOMEM, errno of bpf(2).
 */
int load_sched_core_types(struct load_sched *l, const uint32_t *types);
/**
 * load_sched_attach - count time from here on, of every thread that exists now or starts later
 * Once for each object.
 * Returns: 0, -ENOMEM, errno of BPF_RAW_TRACEPOINT_OPEN (@err names the tracepoint), of
 * BPF_PROG_TEST_RUN or of the task iterator.
 * Cost: O(threads of the machine), an interrupt for each CPU if there are counters.
 */
int load_sched_attach(struct load_sched *l, struct err *err);
/**
 * load_sched_detach - stop counting; reads the hardware counters up to now
 * Cost: as load_sched_attach.
 */
void load_sched_detach(struct load_sched *l);
/**
 * load_sched_fold - read the 32-bit buckets of processes before they wrap
 * To be called every minute or so; reads the number of switches only until there were 2^31 of them.
 * Returns: 0, -ENOMEM, errno of bpf(2). Thread: that of load_sched_read.
 */
int load_sched_fold(struct load_sched *l);

/* The sums of all counts, 57 KiB. The open intervals of threads are not in any sum. */
struct load_sched_total {
	uint64_t begin_ns, end_ns; /* CLOCK_MONOTONIC: of attaching, and of detaching or reading */
	struct abi_cpu_hist hist[ABI_HIST_CNT]; /* with the exact sums of their values */
	/* faults and migrations: of threads that ended. */
	struct abi_sched_sums sums;
	struct abi_counted counted[ABI_CORE_TYPES_MAX][ABI_COUNTERS_MAX];
	uint64_t lost;       /* switches and wake-ups dropped because the thread table was full:
	                      * their times are in no sum */
	uint64_t missed;     /* switches or wake-ups whose event was missed: the times around them
	                      * are in sums, of a phase that may not be right, and in no
	                      * histogram */
	uint64_t lost_procs; /* threads whose process has no slot: the table was full */
	bool scanned;        /* the final scan of all threads succeeded */
	uint64_t prog_ns;    /* cost of the program at switches, by one run in 64 */
};
/* A process. Two with the same tgid and start are one: the caller adds them up. */
struct load_sched_proc {
	uint32_t slot; /* 0: all processes without a slot */
	uint32_t tgid, exec_id;
	uint64_t start_ns;
	char comm[16];
	uint64_t ended;             /* threads; sums are theirs */
	struct abi_sched_sums sums; /* of slot 0 also where there is no per_process */
	struct abi_counted counted[ABI_CORE_TYPES_MAX][ABI_COUNTERS_MAX];
	uint64_t bucket[ABI_HIST_CNT][ABI_HIST_BUCKETS];
	uint64_t total_ns[ABI_HIST_CNT]; /* of the values in buckets */
};
/* All arguments are borrowed during the call. */
struct load_sched_sink {
	void (*proc)(void *arg, const struct load_sched_proc *p);
	void (*thread)(void *arg, uint32_t kernel_tid, const struct abi_sched_thread *t);
	void *arg;
};
/**
 * load_sched_read - hand on what was counted: every process with a slot, then every living thread
 * @sink: NULL: only @ret
 * After load_sched_detach threads' faults and migrations are those of that moment; before it those
 * of the beginning, and threads may be missing or come twice.
 * Returns: 0, -ENOMEM, errno of bpf(2).
 */
int load_sched_read(struct load_sched *l, const struct load_sched_sink *sink,
                    struct load_sched_total *ret);
/**
 * load_sched_locked_bytes - memory of the maps that it does not share with the base
 */
uint64_t load_sched_locked_bytes(const struct load_sched *l);

#endif
