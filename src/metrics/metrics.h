/* SPDX-License-Identifier: Apache-2.0 */
/*
 * metrics - scheduler statistics and hardware counters of a capture as values, merged and
 * summarized. No system calls, no BPF. Thread: objects belong to one thread at a time.
 */
#ifndef PA_METRICS_H
#define PA_METRICS_H

#include "base/base.h"

#define MET_COMM_LEN 16

/* Numbers are those of enum abi_hist and enum abi_reason (bpf/abi/abi_sched.h). */
enum met_time { MET_SLICE = 0, MET_RUNQ = 1, MET_OFF = 2, MET_TIME_CNT };
#define MET_REASONS(X)                                                                             \
	X(PREEMPTED, "preempted")                                                                  \
	X(YIELDED, "yielded")                                                                      \
	X(SLEEP, "voluntary_sleep")                                                                \
	X(IOWAIT, "io_wait")                                                                       \
	X(UNINTERRUPTIBLE, "uninterruptible")                                                      \
	X(STOPPED, "stopped")                                                                      \
	X(EXITED, "exited")
enum met_reason {
#define X(id, name) MET_REASON_##id,
	MET_REASONS(X)
#undef X
	        MET_REASON_CNT
};
/**
 * met_reason_name - stable name of a reason, as in the JSON output
 */
const char *met_reason_name(enum met_reason r);

/* Log-linear histogram of nanoseconds, in the buckets of abi_hist_bucket(). */
#define MET_SUB_BITS 6
#define MET_OCTAVES  42
#define MET_BUCKETS  ((MET_OCTAVES - MET_SUB_BITS + 1) << MET_SUB_BITS)
struct met_hist {
	uint64_t bucket[MET_BUCKETS];
};
/* Nanoseconds; all zero if count is 0. Percentiles (nearest rank), min and max are middles of
 * buckets: within 0.8 % of the exact value, never above the limit that was given. The mean is
 * exact; min is never above it, max never below. A single value is exact. */
struct met_summary {
	uint64_t count, total_ns;
	uint64_t min_ns, max_ns, mean_ns, p50_ns, p95_ns, p99_ns, p999_ns;
};
/**
 * met_hist_add - add the counts of another histogram
 */
void met_hist_add(struct met_hist *to, const struct met_hist *from);
/**
 * met_hist_low, met_hist_high - lowest value of a bucket, and of the next one
 * @bucket: < MET_BUCKETS
 * The last bucket has all longer values: its high is UINT64_MAX.
 */
uint64_t met_hist_low(uint32_t bucket);
uint64_t met_hist_high(uint32_t bucket);
/**
 * met_hist_summary - mean, percentiles and extremes of a histogram
 * @total_ns: exact sum of the values in @h, and of no others
 * @limit_ns: length of the capture; no value can be longer
 * Values in the last bucket (73 minutes and more) are replaced by their mean, which follows from
 * the sum. Cost: two passes over the buckets. Allocates: no.
 */
void met_hist_summary(const struct met_hist *h, uint64_t total_ns, uint64_t limit_ns,
                      struct met_summary *ret);

/* Counters, in the order of output. Hardware first; software ones are always there. */
#define MET_COUNTERS(X)                                                                            \
	X(CYCLES, "cycles", true)                                                                  \
	X(INSTRUCTIONS, "instructions", true)                                                      \
	X(CACHE_REFERENCES, "cache-references", true)                                              \
	X(CACHE_MISSES, "cache-misses", true)                                                      \
	X(BRANCHES, "branches", true)                                                              \
	X(BRANCH_MISSES, "branch-misses", true)                                                    \
	X(PAGE_FAULTS, "page-faults", false)                                                       \
	X(MIGRATIONS, "cpu-migrations", false)                                                     \
	X(SWITCHES, "context-switches", false)
enum met_counter_id {
#define X(id, name, hw) MET_COUNTER_##id,
	MET_COUNTERS(X)
#undef X
	        MET_COUNTER_CNT
};
/**
 * met_counter_name, met_counter_is_hardware - stable name of a counter, as in perf; whether the
 * machine may lack it
 */
const char *met_counter_name(enum met_counter_id id);
bool met_counter_is_hardware(enum met_counter_id id);

/* A counter of one entry, on one type of cores. */
struct met_counter {
	enum met_counter_id id;
	uint32_t core_type;  /* index in met_snapshot.core_types */
	int error;           /* 0, or the negative errno of opening it: value is unknown */
	uint64_t value;      /* scaled by enabled/running */
	uint64_t raw;        /* as counted */
	uint64_t enabled_ns; /* time that it should have counted; running_ns: time that it did */
	uint64_t running_ns;
};
/**
 * met_counter_counted - whether the value is known: the counter was opened and, if its time is
 * known, counted for some of it. Software counters need no time.
 */
bool met_counter_counted(const struct met_counter *c);
/**
 * met_counter_scale - extrapolate a counter to the time that it should have counted
 * Returns: @raw * @enabled_ns / @running_ns, UINT64_MAX if that does not fit; @raw if it ran all
 * the time or never.
 */
uint64_t met_counter_scale(uint64_t raw, uint64_t enabled_ns, uint64_t running_ns);

/* One thread's time. */
struct met_thread {
	uint32_t tid;
	char comm[MET_COMM_LEN];
	uint64_t ns[MET_TIME_CNT];
	uint64_t reason[MET_REASON_CNT];
	uint64_t open_ns; /* part of ns: of the interval that is still open */
};

/* A label of a user or an enricher. */
struct met_label {
	char *key, *value;
};

/* A process, the other processes (pid 0), or everything. */
struct met_entry {
	uint32_t pid;
	uint64_t start_ns;       /* of the process, CLOCK_BOOTTIME; 0: unknown, or no process */
	char comm[MET_COMM_LEN]; /* any bytes, with or without a NUL; so is a thread's */
	struct met_summary time[MET_TIME_CNT];
	/* Sums over threads. They include the parts of intervals open at start and end. */
	uint64_t ns[MET_TIME_CNT];
	uint64_t reason[MET_REASON_CNT];
	uint64_t switches; /* sum of reason[] */
	VEC(struct met_counter) counters;
	/* By descending CPU time; without ended threads. */
	VEC(struct met_thread) threads;
	uint64_t ended_threads;
	VEC(struct met_label) labels; /* owned */
};
/* Caps, far above what the kernel side keeps. */
#define MET_CORE_TYPES_MAX 16
#define MET_COUNTERS_MAX   (MET_CORE_TYPES_MAX * 16)
#define MET_THREADS_MAX    (1 << 22) /* PID_MAX_LIMIT of the kernel */
#define MET_PROCS_MAX      (1 << 16)
#define MET_NOTES_MAX      256
#define MET_LABELS_MAX     64   /* of an entry */
#define MET_TAGS_MAX       2048 /* labels of the whole: tags and filters */
/**
 * met_entry_init, met_entry_done - an empty entry, all zero, its lists with their caps; free them
 */
void met_entry_init(struct met_entry *e);
void met_entry_done(struct met_entry *e);
/**
 * met_entry_label - append a label; strings are copied
 * Returns: 0, -ENOMEM, -E2BIG (at the cap).
 */
int met_entry_label(struct met_entry *e, const char *key, const char *value);

enum met_scope { MET_PIDS = 1, MET_ALL, MET_PER_PID };
struct met_snapshot {
	enum met_scope scope;
	uint64_t time_realtime_ns, duration_ns;
	uint32_t cpus, cpus_offline;
	VEC(char *) core_types;      /* "" if all cores are alike, else the PMU: "cpu_core" */
	struct met_entry all;        /* everything that was counted */
	VEC(struct met_entry) procs; /* by descending CPU time */
	/* sched_switch and sched_wakeup events: that no program saw; that a full thread table dropped. */
	uint64_t missed_events, dropped_events;
	uint64_t other_threads; /* threads of processes without a slot: together in the entry with
	                           pid 0 */
	VEC(char *) notes;      /* one line each: what is missing and why */
	VEC(struct met_label) labels;
};
struct met_snapshot *met_snapshot_free(struct met_snapshot *s);
void met_snapshot_freep(struct met_snapshot **s);
/**
 * met_snapshot_new - empty, all zero; the lists have their caps
 * Returns: 0, -ENOMEM.
 */
int met_snapshot_new(struct met_snapshot **ret);
/**
 * met_snapshot_core_type, met_snapshot_note, met_snapshot_label - append; strings are copied
 * Returns: 0, -ENOMEM, -E2BIG (at the cap).
 */
int met_snapshot_core_type(struct met_snapshot *s, const char *name);
int met_snapshot_note(struct met_snapshot *s, const char *text);
int met_snapshot_label(struct met_snapshot *s, const char *key, const char *value);
/**
 * met_snapshot_sort - put processes, threads and counters into the order of the output
 * Processes and threads by descending CPU time, then by number; the entry with pid 0 is the last.
 */
void met_snapshot_sort(struct met_snapshot *s);
/**
 * met_counter_find - sum a counter of an entry over core types
 * Returns: 0; the negative errno of the first core type if none has it; -ENODATA if it is not in
 * the list, or was opened and never counted.
 */
int met_counter_find(const struct met_entry *e, enum met_counter_id id, uint64_t *ret);
/**
 * met_ratio, met_ratio_on - ratio of two counters: instructions per cycle, misses per instruction
 * @core_type: index in met_snapshot.core_types; met_ratio: all on which both counted
 * Returns: 0; -ENODATA (a counter is missing, or the divisor is 0).
 */
int met_ratio(const struct met_entry *e, enum met_counter_id num, enum met_counter_id den,
              double *ret);
int met_ratio_on(const struct met_entry *e, uint32_t core_type, enum met_counter_id num,
                 enum met_counter_id den, double *ret);

#endif
