/* SPDX-License-Identifier: Apache-2.0 */
/*
 * perfagent.h - sample a process, a command or the whole machine, and get a profile.
 *
 * Life of a session
 *
 *     pfa_new     NEW      checks the options; opens nothing
 *     pfa_start   RUNNING  checks the outputs, opens events, loads BPF, starts threads, samples
 *     pfa_stop    STOPPED  detaches, drains, names, writes the outputs, calls the exporters
 *     pfa_start   RUNNING  again, with empty counts …
 *     pfa_free    -        from any state; a running session is abandoned and writes nothing
 *
 * Conventions
 *   - int results are 0 (or a count) on success and a negative errno on failure; a struct pfa_error
 * given by the caller then says which call failed on which object, why, and what to do about it.
 *   - Structures begin with their size, set by the initializer below: a library newer than the
 * caller fills in defaults for what the caller does not know, and one older refuses what it does
 * not know (-E2BIG).
 *   - Zero in an option means its default. Strings in options are copied by pfa_new.
 *   - The library prints nothing, installs no signal handler, never exits, raises no privileges and
 * changes no limits. It blocks all signals in the threads it starts.
 *   - While RUNNING it has a process of its own, "pa-symbols", which decodes debug information of
 * files that others made and can do nothing else. pfa_start forks it, pfa_stop and pfa_free end and
 * reap it (or a wait of the caller's for any child does); PFA_DECODE_IN_PROCESS does without.
 *   - One thread at a time may use a session. pfa_stats alone may be called from any thread.
 */
#ifndef PERFAGENT_H
#define PERFAGENT_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define PFA_API __attribute__((visibility("default")))

struct pfa_session;

struct pfa_error {
	int code;          /* negative errno, 0 = none */
	char message[512]; /* one line, without newline */
};

/* What is sampled: exactly one of these. */
enum pfa_target {
	PFA_TARGET_NONE = 0,
	PFA_TARGET_PID = 1, /* processes with all their threads; what they fork is not in it, unless
	                       PFA_FOLLOW_CHILDREN says so */
	PFA_TARGET_ALL = 2, /* every process and kernel thread of the machine; not the idle task */
	PFA_TARGET_COMMAND = 3, /* a program that pfa_start starts, and the processes it starts */
};

/* By which clock. */
enum pfa_event {
	PFA_EVENT_CPU_CLOCK = 0, /* a period of time, on each CPU one of its own; values are
	                            nanoseconds, scaled to the time between context switches */
	PFA_EVENT_CYCLES =
	        1,          /* hardware cycles, an error where there are none; values are cycles */
	PFA_EVENT_AUTO = 2, /* cycles where there are any, else cpu-clock (see pfa_note) */
};

/* How user stacks are walked. */
enum pfa_unwind {
	PFA_UNWIND_AUTO = 0,  /* by call-frame information, read when a file is first met */
	PFA_UNWIND_DWARF = 1, /* the same, but pfa_start reads all that the target maps; with ALL
	                         this goes on while sampling begins */
	PFA_UNWIND_FP = 2,    /* by frame pointers only */
};

#define PFA_NO_KERNEL_STACKS (1u << 0) /* leave kernel frames out */
#define PFA_EXCLUDE_OWN_PROCESS                                                                    \
	(1u                                                                                        \
	 << 1) /* with ALL: leave the whole calling process out, not only the library's threads */

#define PFA_NO_LINES          (1u << 3) /* names from symbol tables alone: no debug information */
#define PFA_DECODE_IN_PROCESS (1u << 4) /* no process for it: decoded by the library's threads */

#define PFA_FOLLOW_CHILDREN                                                                        \
	(1u                                                                                        \
	 << 2) /* with PID: also what the processes have forked and fork from now on, and so    \
	             on. A child whose parent has ended before the start is nobody's. (A command's \
	             are always followed) */

/* What is captured, together where several are set. */
#define PFA_MODE_PROFILE (1u << 0) /* where the target runs: samples of time on the CPU */
#define PFA_MODE_OFFCPU  (1u << 1) /* where it waits, for how long, and who wakes it */
#define PFA_MODE_PMU     (1u << 2) /* scheduler statistics and hardware counters, no stacks */

/* Why threads are off their CPU; in pfa_options.offcpu_states. */
#define PFA_STATE_INTERRUPTIBLE   (1u << 1)
#define PFA_STATE_UNINTERRUPTIBLE (1u << 2) /* other than for I/O */
#define PFA_STATE_IOWAIT          (1u << 3) /* what the kernel calls I/O wait */
#define PFA_STATE_STOPPED         (1u << 4) /* stopped or traced */
#define PFA_STATE_PREEMPTED       (1u << 5) /* it could run: no wait of its own making */
#define PFA_STATE_IDLE            (1u << 6) /* kernel threads that wait for work */

#define PFA_OFFCPU_WAKERS (1u << 5) /* with OFFCPU: who woke each thread, and from where */
#define PFA_PER_PID       (1u << 6) /* with PMU and ALL: figures of each process too */

/* The profiles of a capture, for the questions below. */
enum pfa_kind {
	PFA_KIND_ONCPU = 0,
	PFA_KIND_OFFCPU = 1,
};

/* How metrics are written. */
enum pfa_format {
	PFA_FORMAT_TEXT = 0, /* for people */
	PFA_FORMAT_JSON = 1, /* docs/metrics.md has the schema */
};

/* Of a thread's time, in arrays by this: it always is in one of the three. */
enum pfa_time {
	PFA_TIME_ON_CPU = 0,    /* time slices */
	PFA_TIME_RUN_QUEUE = 1, /* it could run, and waits for a CPU */
	PFA_TIME_OFF_CPU = 2,   /* blocked */
};
#define PFA_TIMES 3

/* Why threads leave their CPU, in arrays by this; later versions may have more. */
enum pfa_reason {
	PFA_REASON_PREEMPTED = 0,
	PFA_REASON_YIELDED = 1,
	PFA_REASON_SLEEP = 2, /* interruptible: timers, pipes, futexes … */
	PFA_REASON_IOWAIT = 3,
	PFA_REASON_UNINTERRUPTIBLE = 4, /* other than for I/O */
	PFA_REASON_STOPPED = 5,         /* stopped or traced */
	PFA_REASON_EXITED = 6,
};

/* What metrics are of. */
enum pfa_scope {
	PFA_SCOPE_PIDS = 1,    /* the processes of PID or COMMAND */
	PFA_SCOPE_ALL = 2,     /* the machine as a whole: no processes */
	PFA_SCOPE_PER_PID = 3, /* the machine, with PFA_PER_PID */
};

#define PFA_PIDS_MAX    1024 /* processes and threads that are given by number, each */
#define PFA_FILTERS_MAX 64   /* names, and cgroups */

/* Called once by pfa_stop with the whole output; returns 0 or a negative errno. @data is valid
 * during the call. */
typedef int (*pfa_write_fn)(void *arg, const void *data, size_t len);

/* Where an output goes: at most one of the three; all zero: nowhere, and its results are kept for
 * the questions below. Stays as it is. */
struct pfa_output {
	const char *path;  /* written to a temporary file beside it and renamed */
	int32_t fd;        /* > 0; stays the caller's */
	int32_t reserved0; /* 0 */
	pfa_write_fn write;
	void *write_arg;
};

struct pfa_options {
	size_t size; /* sizeof(struct pfa_options): PFA_OPTIONS_INIT sets it */

	uint32_t target; /* enum pfa_target */
	int32_t pid;     /* PID: number in the caller's pid namespace; 0: see pids and tids */
	const char *const
	        *argv; /* COMMAND: program (looked up in PATH) and arguments, NULL-terminated */

	uint32_t sample_rate_hz; /* default 99; 1 … kernel.perf_event_max_sample_rate */
	uint32_t event;          /* enum pfa_event */
	uint32_t unwind;         /* enum pfa_unwind */
	uint32_t flags;          /* PFA_… bits */

	const char *const *tags; /* "key=value" strings for the profile's comments, NULL-terminated;
	                            may be NULL */

	struct pfa_output profile; /* gzipped pprof */

	/* Sizes of kernel-side memory; 0 = chosen by target, rate and CPUs. Rounded up to what the
	 * kernel needs. */
	uint32_t ring_bytes;        /* new stacks on their way to user space */
	uint32_t count_entries;     /* distinct (thread, stacks) pairs between two read-outs */
	uint32_t range_entries;     /* executable mappings of all processes */
	uint32_t drain_interval_ms; /* default 100 */

	/* Unwind tables in kernel memory: those not used for longest make room for others. Default
	 * 256 MiB; 1 MiB … 1 GiB. */
	uint64_t table_budget_bytes;

	/* Directories with debug files, looked at before those of the target's file system: NULL-
	 * terminated; may be NULL. */
	const char *const *debug_dirs;
	/* Memory for debug information and indexes of symbols: what was not used for longest makes
	 * room, what is larger is left out and counted. Default 64 MiB; 1 MiB … 16 GiB. */
	uint64_t symbol_budget_bytes;

	/* PID: more processes, 0-terminated; may be NULL. One that is given twice counts once. The
	 * start is refused if one of them does not exist. */
	const int32_t *pids;

	/* Filters of the target, each NULL (no filter) or a list. What is sampled passes each kind
	 * that is given, by one entry of its list. They act in the kernel: a task that does not
	 * pass is not seen, as if it were no part of the target, and costs next to nothing. */

	/* PID: these threads only, by number, 0-terminated. Without pid and pids they stand for
	 * their processes, else they belong to these. */
	const int32_t *tids;
	/* Threads with one of these names at the time of the sample, NULL-terminated. Names are
	 * what the kernel knows of them: 15 bytes, so more of a name is not compared. */
	const char *const *comms;
	/* Tasks in one of these cgroups (version 2) or in one below, NULL-terminated: the path of a
	 * folder of the cgroup2 file system, or what stands behind the place where that is mounted.
	 */
	const char *const *cgroups;

	uint32_t modes; /* PFA_MODE_…; 0: PROFILE */

	struct pfa_output offcpu; /* OFFCPU: gzipped pprof */
	uint32_t offcpu_states;   /* PFA_STATE_…; 0: interruptible, uninterruptible and iowait */
	uint32_t offcpu_threads;  /* threads of the target at a time; 0: chosen */
	uint64_t offcpu_min_ns, offcpu_max_ns; /* of one wait, inclusive; max 0: no limit */

	struct pfa_output pmu;
	uint32_t pmu_format; /* enum pfa_format */
	uint32_t reserved0;  /* 0 */
};
#define PFA_OPTIONS_INIT                                                                           \
	{                                                                                          \
		.size = sizeof(struct pfa_options)                                                 \
	}

/* Figures of the session so far. Weights are in the unit of the values. */
struct pfa_stats {
	size_t size;         /* sizeof(struct pfa_stats), set by the caller */
	uint64_t elapsed_ns; /* since sampling began, until it ended */
	uint64_t seen;       /* samples that hit the target = kept + dropped */
	uint64_t kept;
	uint64_t dropped;      /* sum over all reasons: see pfa_counter */
	uint64_t idle;         /* ticks of the idle task (ALL) */
	uint64_t weight;       /* of the samples in the profile; 0 until pfa_stop */
	uint64_t stacks;       /* distinct stacks */
	uint64_t agent_cpu_ns; /* CPU time of the library's threads and of its BPF programs, until
	                          sampling ended; those at context switches are in it from
	                          pfa_stop on */
	uint64_t locked_bytes; /* memory of BPF maps and rings */
	/* OFFCPU: off-CPU intervals. offcpu_seen = offcpu_kept + offcpu_dropped; intervals that are
	 * still open count from pfa_stop on. */
	uint64_t offcpu_seen, offcpu_kept, offcpu_dropped;
	uint64_t offcpu_ns; /* sum of the kept intervals; 0 until pfa_stop */
};

/* One counter of the tables in docs/counters.md. */
struct pfa_counter {
	const char *name; /* "dropped_counts_full": stable */
	const char *unit; /* "samples", "bytes", … */
	const char *help; /* one line */
	uint64_t value;
};

/* One function of the finished profile. Strings live until the next pfa_start or pfa_free. */
struct pfa_function {
	const char *name;
	const char *module; /* path or "[kernel]", "[jit]", "" */
	uint64_t self, cum; /* weight where it was the leaf; where it was anywhere on the stack */
};

/* A function in which threads of the finished off-CPU profile wait. Strings as above. */
struct pfa_offcpu_site {
	const char *name;   /* of several addresses without a name, one of them */
	const char *module; /* path or "[kernel]", "[jit]", "" */
	const char *where;  /* kernel function in which most of the time is waited; "preempted" and
	                       the like where that says nothing: the threads' state */
	uint32_t where_cnt; /* how many of these there are */
	uint32_t unnamed_cnt; /* addresses without a name that wait there, all of one module; 0: it
	                         has a name */
	uint64_t offcpu_ns, intervals;
	uint64_t longest_ns; /* the longest interval */
};

/* Metrics of a capture (PMU), read-only, and all that they point to: live until the next pfa_start
 * or pfa_free. docs/metrics.md explains the figures. Structures that begin with their size may get
 * more members at their end: what lies beyond .size is not there. Names of processes and threads
 * are any bytes up to a NUL. */

/* Complete intervals; all zero when count is 0. */
struct pfa_summary {
	size_t size;
	uint64_t count, total_ns;
	uint64_t min_ns, max_ns, mean_ns, p50_ns, p95_ns, p99_ns, p999_ns;
};

/* Stays as it is. */
struct pfa_label {
	const char *key, *value;
};

struct pfa_metrics_counter {
	size_t size;
	const char *name;      /* "cycles", "context-switches": stable */
	const char *core_type; /* one of pfa_metrics.core_types; software counters: "" */
	uint32_t hardware;     /* 1: a counter that the machine may lack */
	uint32_t counted;      /* 0: value and raw mean nothing, and are 0 */
	int32_t error;         /* 0, or the negative errno that opening it gave */
	int32_t reserved0;
	uint64_t value;      /* scaled to all of enabled_ns */
	uint64_t raw;        /* as counted */
	uint64_t enabled_ns; /* how long it was wanted; 0: not measured */
	uint64_t running_ns; /* how long it was counted */
};

struct pfa_metrics_thread {
	size_t size;
	uint32_t tid;
	uint32_t reserved0;
	const char *comm;
	uint64_t sum_ns[PFA_TIMES]; /* by enum pfa_time */
	size_t n_reasons;
	const uint64_t *reasons; /* reasons[n_reasons], by enum pfa_reason */
};

/* A process, or all that was counted. */
struct pfa_metrics_entry {
	size_t size;
	uint32_t pid; /* 0: all, or what found no place of its own: see other_threads */
	uint32_t reserved0;
	const char *comm;
	const struct pfa_summary *times[PFA_TIMES]; /* by enum pfa_time */
	uint64_t sum_ns[PFA_TIMES]; /* of all threads, with what had begun before the capture or
	                               went on after it */
	uint64_t switches;          /* sum of reasons */
	size_t n_reasons;
	const uint64_t *reasons; /* reasons[n_reasons], by enum pfa_reason */
	size_t n_counters;
	const struct pfa_metrics_counter *const *counters; /* counters[n_counters] */
	size_t n_threads;
	const struct pfa_metrics_thread *const *threads; /* threads[n_threads]: those that live,
	                                                    descending by time on the CPU */
	uint64_t ended_threads;                          /* in the sums, not in threads */
	size_t n_labels;
	const struct pfa_label *labels; /* labels[n_labels], of enrichers */
};

struct pfa_metrics {
	size_t size;
	const void *library; /* the library's own */
	uint32_t scope;      /* enum pfa_scope */
	uint32_t cpus, cpus_offline;
	uint32_t reserved0;
	uint64_t time_realtime_ns; /* when the capture began, since 1970 */
	uint64_t duration_ns;
	size_t n_core_types;
	const char *const *core_types; /* one "" where all cores are alike, else their PMUs */
	const struct pfa_metrics_entry *all;
	size_t n_procs;
	const struct pfa_metrics_entry *const *procs; /* procs[n_procs], descending by time on the
	                                                 CPU; that with pid 0, if any, the last */
	uint64_t other_threads; /* how many threads the process with pid 0 stands for */
	size_t n_notes;
	const char *const *notes; /* what is missing, and why */
	size_t n_labels;
	const struct pfa_label *labels; /* labels[n_labels]: the tags of the options */
};

/* Takes the metrics of each capture. */
struct pfa_exporter {
	size_t size;      /* sizeof(struct pfa_exporter): PFA_EXPORTER_INIT sets it */
	const char *name; /* for messages; copied */
	/* Called once by pfa_stop, in its thread, after all other outputs have been written; @m is
	 * what pfa_metrics gives. Returns 0, or a negative errno that pfa_stop then returns, with
	 * what stands in @err. Like an enricher and a pfa_write_fn it may ask questions of the
	 * session, but start, stop and add are -EBUSY, and it must not free the session. */
	int (*export_metrics)(void *arg, const struct pfa_metrics *m, struct pfa_error *err);
	void *arg;
};
#define PFA_EXPORTER_INIT                                                                          \
	{                                                                                          \
		.size = sizeof(struct pfa_exporter)                                                \
	}
#define PFA_EXPORTERS_MAX 16

/* A process that an enricher is asked about; valid during the call. */
struct pfa_process {
	size_t size;
	uint32_t pid; /* 0: it has no number in the caller's pid namespace */
	uint32_t reserved0;
	uint64_t start_ns;  /* CLOCK_BOOTTIME; 0: not known */
	const char *comm;   /* any bytes up to a NUL; "": not known */
	const char *cgroup; /* of version 2, as /proc/PID/cgroup has it: "/system.slice/a.service";
	                       NULL: not known, or the process has ended */
};
struct pfa_label_sink;
/* Adds what it knows of a process by pfa_label_add. Called by pfa_stop, in its thread, once for
 * each process that is in an output. */
typedef void (*pfa_enrich_fn)(void *arg, const struct pfa_process *p, struct pfa_label_sink *sink);
#define PFA_ENRICHERS_MAX     16
#define PFA_LABELS_MAX        16 /* of a process, of all enrichers */
#define PFA_LABEL_KEY_BYTES   63 /* longest key, without its NUL */
#define PFA_LABEL_VALUE_BYTES 255

PFA_API const char *pfa_version(void); /* "0.1.0" */

/* 0, -EINVAL (message names the option), -E2BIG (options of a newer library), -ENOMEM. */
PFA_API int pfa_new(const struct pfa_options *opts, struct pfa_session **ret,
                    struct pfa_error *err);
/* NEW or STOPPED only (-EBUSY). On failure everything is released and the session is in the state
 * it was in; what the last capture left (figures, notes, functions) is gone. */
PFA_API int pfa_start(struct pfa_session *s, struct pfa_error *err);
/* Makes a pfa_start end with -EINTR, the one that goes on or the next; a command is then not
 * started. Once sampling has begun it does nothing. For any thread, and for signal handlers. */
PFA_API void pfa_interrupt(struct pfa_session *s);
/* RUNNING only (-EINVAL; -EBUSY in a call-back of pfa_stop's own). The session is STOPPED
 * afterwards even when an output could not be written, or an exporter failed. */
PFA_API int pfa_stop(struct pfa_session *s, struct pfa_error *err);
PFA_API void pfa_free(struct pfa_session *s); /* NULL ok */

/* A descriptor that polls readable once the target has ended (PID: all of the processes that were
 * given, or whose threads were; not their children; COMMAND); -1 with ALL or when not RUNNING.
 * Owned by the session. */
PFA_API int pfa_ended_fd(const struct pfa_session *s);
/* COMMAND: wait status of the command (as waitpid gives it): 1 and *ret once it has ended, 0 while
 * it runs, -ECHILD when it ended but was reaped by somebody else (SIGCHLD is ignored), -EINVAL
 * otherwise. Stays readable after pfa_stop. */
PFA_API int pfa_command_status(struct pfa_session *s, int *ret);
/* COMMAND: its pid, else -EINVAL. It is a child of the calling process, and goes on when it is
 * still running at pfa_stop or pfa_free: after pfa_free reaping it is up to the caller. */
PFA_API int pfa_command_pid(const struct pfa_session *s);

PFA_API int pfa_stats(const struct pfa_session *s, struct pfa_stats *ret);
/* Counter @i, 0 … until -ENOENT. */
PFA_API int pfa_counter(const struct pfa_session *s, size_t i, struct pfa_counter *ret);
/* What was degraded and why ("kernel addresses hidden: needs CAP_SYSLOG …"), line @i, NULL past the
 * last. Lives until the next pfa_start or pfa_free. */
PFA_API const char *pfa_note(const struct pfa_session *s, size_t i);
/* STOPPED: figures of the profile's quality, one "key: value" a line as in its comments; NULL past
 * the last. Among them, in percent of the user stacks: "complete_stacks_pct"; "walk_…_pct" for each
 * reason why walks ended; "incomplete_in: FILE SHARE" for the files in which most incomplete stacks
 * end. docs/output.md explains all. */
PFA_API const char *pfa_quality(const struct pfa_session *s, size_t i);
/* The same of one of the profiles of the capture; pfa_quality is PFA_KIND_ONCPU's. */
PFA_API const char *pfa_quality_of(const struct pfa_session *s, uint32_t kind, size_t i);
/* STOPPED: the @max hottest functions by self weight into @ret; how many, or a negative errno. */
PFA_API int pfa_top(const struct pfa_session *s, struct pfa_function *ret, size_t max);
/* The same of one of the profiles of the capture: of OFFCPU weights are nanoseconds of waiting, and
 * a function's own are those of the waits in which nothing but the scheduler is below it. */
PFA_API int pfa_top_of(const struct pfa_session *s, uint32_t kind, struct pfa_function *ret,
                       size_t max);
/* STOPPED, OFFCPU: the @max functions of programs in which most time is waited; how many, or a
 * negative errno. A wait belongs to the innermost user frame that lies in no library of the system
 * (libc, the dynamic linker and the like); where there is none to the innermost user frame, else to
 * the kernel function. */
PFA_API int pfa_top_offcpu_sites(const struct pfa_session *s, struct pfa_offcpu_site *ret,
                                 size_t max);
/* PFA_MODE_…: those that the capture runs, or ran, of those that were asked for. One that cannot be
 * started beside others is left out: a note says why, and pfa_stop fails with that once it has
 * written the outputs of the others. 0: NEW. */
PFA_API uint32_t pfa_modes_run(const struct pfa_session *s);
/* STOPPED: those of them whose output was written whole, whatever pfa_stop returned. */
PFA_API uint32_t pfa_modes_written(const struct pfa_session *s);
/* STOPPED: the metrics of the capture; NULL: there are none (PMU was not asked for, or failed), or
 * no memory. */
PFA_API const struct pfa_metrics *pfa_metrics(struct pfa_session *s);
/* Metrics as PFA_FORMAT_TEXT or _JSON, the whole in one call of @write: what the library itself
 * writes to the output pmu. @m: of pfa_metrics, or an exporter's. 0, -EINVAL,
 * -ENOMEM, or what @write returned. */
PFA_API int pfa_export_text(const struct pfa_metrics *m, pfa_write_fn write, void *arg);
PFA_API int pfa_export_json(const struct pfa_metrics *m, pfa_write_fn write, void *arg);
/* NEW or STOPPED only (-EBUSY): for all captures to come, with PMU among their modes. All are
 * called, in this order, whatever becomes of one and of the other outputs; pfa_stop returns the
 * first failure. -EINVAL, -E2BIG (more than PFA_EXPORTERS_MAX, or a newer library's), -ENOMEM. */
PFA_API int pfa_add_exporter(struct pfa_session *s, const struct pfa_exporter *e,
                             struct pfa_error *err);
/* NEW or STOPPED only (-EBUSY): for all captures to come. Labels are string labels of all samples
 * of the process, on CPU and off, and are in its entry of the metrics. -EINVAL, -E2BIG (more than
 * PFA_ENRICHERS_MAX). */
PFA_API int pfa_add_enricher(struct pfa_session *s, pfa_enrich_fn fn, void *arg,
                             struct pfa_error *err);
/* For enrichers: copies key and value. 0; -EINVAL (one is empty or has a control character),
 * -EEXIST (the process has such a key, or it is the profile's own: pid, tid, comm, state, longest,
 * runqueue, waker), -E2BIG (too long, or too many), -ENOMEM: the label is left out. */
PFA_API int pfa_label_add(struct pfa_label_sink *sink, const char *key, const char *value);
/* Unit of weights: "nanoseconds" or "cycles". Known once RUNNING. */
PFA_API const char *pfa_weight_unit(const struct pfa_session *s);

/* One line without newline; lives during the call. */
typedef void (*pfa_line_fn)(void *arg, const char *text);
/* What the unwind tables know about a program or library, "key: value" a line: sources, functions,
 * rows, rules, bytes; with @pc (may be NULL) the rule at that virtual address of the file instead.
 * Needs no privileges and no session. Any thread. 0, or a negative errno: what open gives, -EINVAL
 * (no file of code), -ENOEXEC (no ELF file), -ENOTSUP (32 bits, another processor), -ENOENT (it has
 * no call-frame information, or no code at @pc), -ENOMEM. */
PFA_API int pfa_unwind_info(const char *path, const uint64_t *pc, pfa_line_fn line, void *arg,
                            struct pfa_error *err);

#ifdef __cplusplus
}
#endif
#endif
