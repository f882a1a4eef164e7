/* SPDX-License-Identifier: Apache-2.0 */
/*
 * perfagent.h - libperfagent, a sampling profiler for Linux
 *
 * The library profiles running processes, a command or the whole machine. It does not modify the
 * target. A capture runs one or more modes:
 *
 *     PROFILE   where threads run: stacks sampled on the CPU, as a pprof profile
 *     OFFCPU    where threads are blocked, for how long and who wakes them, as a pprof profile
 *     PMU       how threads run: scheduler statistics and hardware counters, as metrics
 *
 * This file is the manual:
 *
 *      1. Introduction: an example, conventions, threads, privileges
 *      2. Errors
 *      3. Targets, modes and flags
 *      4. Outputs
 *      5. Options
 *      6. Life cycle of a session
 *      7. Target events: end of the target, the command
 *      8. Statistics, counters, notes
 *      9. Results: functions, off-CPU sites
 *     10. Metrics
 *     11. Exporters
 *     12. Enrichers: labels of processes
 *     13. Unwind tables of a file
 *
 * perfagent_snapshot.h has profiles of a capture that runs.
 */
#ifndef PERFAGENT_H
#define PERFAGENT_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- 1. Introduction -------------------------------------------------------------------------
 *
 * Ten seconds of process 1234 into a file:
 *
 *     struct pfa_options o = PFA_OPTIONS_INIT;
 *     struct pfa_error err = {0};
 *     struct pfa_session *s = NULL;
 *     int rc;
 *
 *     o.target = PFA_TARGET_PID;
 *     o.pid = 1234;
 *     o.profile.path = "profile.pb.gz";
 *
 *     rc = pfa_new(&o, &s, &err);
 *     if (rc == 0)
 *             rc = pfa_start(s, &err);
 *     if (rc == 0) {
 *             sleep(10);
 *             rc = pfa_stop(s, &err);
 *     }
 *     if (rc < 0)
 *             fprintf(stderr, "%s\n", err.message);
 *     pfa_free(s);
 *
 * examples/embed.c and examples/metrics.c are complete programs.
 *
 * Conventions
 *
 *   - A function that returns int returns 0 or a count on success, and a negative errno on failure.
 *   - Zero in an option selects its default.
 *   - pfa_new copies the strings and lists of the options.
 *   - Structures whose first member is their size may get more members at their end. The caller
 *     sets the size with the initializer of the structure. A library that is newer than the caller
 *     uses defaults for the members that the caller lacks. A library that is older returns -E2BIG
 *     if a member that it does not know is not zero.
 *   - Structures without a size, and values of enumerations, never change.
 *   - Times are nanoseconds (_ns) of CLOCK_MONOTONIC, unless the name or the comment says
 *     otherwise. Sizes are bytes (_bytes), frequencies are hertz (_hz).
 *
 * What the library does to its process
 *
 *   - It prints nothing, never exits, installs no signal handler, raises no privileges and changes
 *     no resource limits.
 *   - pfa_start starts threads, in which all signals are blocked. pfa_stop and pfa_free join them.
 *   - pfa_start forks the symbolizer process, "pa-symbols". It decodes the debug information of
 *     untrusted files, confined by seccomp. pfa_stop and pfa_free end and reap it; a wait of the
 *     caller for any child may reap it earlier. PFA_DECODE_IN_PROCESS avoids the process.
 *
 * Threads
 *
 *   - One thread at a time may use a session. Different sessions are independent.
 *   - pfa_stats may be called by any thread at any time.
 *   - pfa_interrupt may be called by any thread, and by signal handlers.
 *   - pfa_version and pfa_unwind_info need no session; any thread may call them.
 *   - Call-backs run inside pfa_stop and pfa_snapshot, in the thread that called it. A call-back may ask the session
 *     for statistics and results. pfa_start, pfa_stop and the pfa_add_… functions return -EBUSY in
 *     a call-back. A call-back must not free the session.
 *
 * Privileges
 *
 *   - CAP_PERFMON, CAP_BPF, CAP_SYS_PTRACE and CAP_SYSLOG are enough for all modes.
 */

#define PFA_API __attribute__((visibility("default")))

struct pfa_session;

/* The version of the library, "0.1.0". */
PFA_API const char *pfa_version(void);

/* ---- 2. Errors -------------------------------------------------------------------------------
 *
 * Functions with a parameter struct pfa_error fill it on failure only; it may be NULL. The message
 * says what failed, on which object, why, and what to do.
 *
 * These codes have the same meaning everywhere and are stable:
 *
 *     -EINVAL   an argument or an option is wrong (the message names it), or the state is wrong
 *     -E2BIG    a list is too long, or a structure was made for a newer library
 *     -EBUSY    not allowed while the session runs, or in a call-back
 *     -EINTR    pfa_interrupt ended pfa_start or pfa_snapshot
 *     -ENOMEM   out of memory
 *
 * Other codes are those of the system call that failed.
 */
/* The reason of a failure, for callers that decide on it. Append-only. */
enum pfa_cause {
	PFA_CAUSE_NONE = 0,       /* not known, or none of these: see code and message */
	PFA_CAUSE_CAPABILITY = 1, /* object: missing capabilities, "CAP_BPF, CAP_PERFMON" */
	PFA_CAUSE_USER_NS = 2,    /* capabilities of a user namespace do not count */
	PFA_CAUSE_SECCOMP = 3,    /* a seccomp filter or a security module refuses */
	PFA_CAUSE_LOCKDOWN = 4,   /* kernel lockdown; object: its mode */
	PFA_CAUSE_SYSCTL = 5,     /* object: the sysctl, "kernel.perf_event_paranoid" */
	PFA_CAUSE_MEMLOCK = 6,    /* RLIMIT_MEMLOCK is too low */
	PFA_CAUSE_NO_BTF = 7,     /* the kernel has no BTF */
	PFA_CAUSE_OUTPUT = 8,     /* object: the path that cannot be written, or "descriptor 3" */
	PFA_CAUSE_LEFT_OUT = 9,   /* object: a mode that could not be started; a note says why */
};

struct pfa_error {
	int code;          /* negative errno; 0: no error */
	uint32_t cause;    /* enum pfa_cause */
	char object[64];   /* "": none; a longer one loses its end */
	char message[512]; /* one line, without newline */
};

/* ---- 3. Targets, modes and flags ------------------------------------------------------------- */

/* The target of a capture: exactly one of these. */
enum pfa_target {
	PFA_TARGET_NONE = 0,
	/* Processes with all their threads. Their children are included only with
	 * PFA_FOLLOW_CHILDREN. */
	PFA_TARGET_PID = 1,
	/* Every process and kernel thread of the machine, except the idle task. */
	PFA_TARGET_ALL = 2,
	/* A program that pfa_start executes, and all its descendants. */
	PFA_TARGET_COMMAND = 3,
};

/* Modes, in pfa_options.modes; several may be combined. */
#define PFA_MODE_PROFILE (1u << 0) /* on-CPU samples */
#define PFA_MODE_OFFCPU  (1u << 1) /* off-CPU intervals */
#define PFA_MODE_PMU     (1u << 2) /* scheduler statistics and hardware counters; no stacks */

/* The event that takes on-CPU samples. */
enum pfa_event {
	/* A timer on each CPU. The periods of the CPUs differ, so that they do not tick in lockstep.
	 * Values are nanoseconds, scaled to the measured CPU time of each thread. */
	PFA_EVENT_CPU_CLOCK = 0,
	/* Hardware cycles. Values are cycles. pfa_start fails if the machine has no such counter. */
	PFA_EVENT_CYCLES = 1,
	/* Cycles if the machine counts them, else the timer; a note says so. */
	PFA_EVENT_AUTO = 2,
};

/* How user stacks are unwound. */
enum pfa_unwind {
	/* By call-frame information. The unwind table of a file is built when the file is first
	 * sampled. Code without call-frame information is unwound heuristically. */
	PFA_UNWIND_AUTO = 0,
	/* As AUTO, but pfa_start builds the tables of all files that the target maps. With ALL this
	 * continues after sampling has begun. */
	PFA_UNWIND_DWARF = 1,
	/* By frame pointers alone. */
	PFA_UNWIND_FP = 2,
};

/* Flags, in pfa_options.flags. */
/* Leave kernel frames out. */
#define PFA_NO_KERNEL_STACKS (1u << 0)
/* ALL: leave out the calling process. Without it only the library's own threads are left out. */
#define PFA_EXCLUDE_OWN_PROCESS (1u << 1)
/* PID: include the children that the processes have and will have, and so on. Children already
 * reparented when the capture starts are not followed. A command's children always are. */
#define PFA_FOLLOW_CHILDREN (1u << 2)
/* Symbolize with symbol tables alone: no lines and no inlined calls. */
#define PFA_NO_LINES (1u << 3)
/* Decode debug information in a thread of the library, not in the symbolizer process. */
#define PFA_DECODE_IN_PROCESS (1u << 4)
/* OFFCPU: record who woke each thread, with the stack of the waker. */
#define PFA_OFFCPU_WAKERS (1u << 5)
/* PMU and ALL: metrics of each process too, of at most 512. */
#define PFA_PER_PID (1u << 6)
/* Extra output FLAME_HTML: the page has a time line of all samples and intervals. */
#define PFA_TIMELINE (1u << 7)

/* Why a thread is off-CPU, in pfa_options.offcpu_states. */
#define PFA_STATE_INTERRUPTIBLE   (1u << 1) /* sleeps; a signal ends the sleep */
#define PFA_STATE_UNINTERRUPTIBLE (1u << 2) /* sleeps uninterruptibly, not for I/O */
#define PFA_STATE_IOWAIT          (1u << 3) /* I/O wait, as the kernel accounts it */
#define PFA_STATE_STOPPED         (1u << 4) /* stopped or traced */
#define PFA_STATE_PREEMPTED       (1u << 5) /* runnable: preempted, or it yielded */
#define PFA_STATE_IDLE            (1u << 6) /* a kernel thread without work */

/* Limits of lists. */
#define PFA_PIDS_MAX          1024 /* pids; tids */
#define PFA_FILTERS_MAX       64   /* comms; cgroups */
#define PFA_EXTRA_OUTPUTS_MAX 16

/* ---- 4. Outputs ------------------------------------------------------------------------------
 *
 * pfa_stop writes one output for each mode: a gzipped pprof profile for PROFILE and OFFCPU, text or
 * JSON for PMU. Extra outputs have the same profiles in other formats. All outputs are checked
 * before the capture starts. One that cannot be written does not affect the others.
 */

/* Gets the whole output in one call. @data is valid during the call. Returns 0 or a negative errno,
 * which pfa_stop returns. */
typedef int (*pfa_write_fn)(void *arg, const void *data, size_t len);

/* The destination of an output: at most one of path, fd and write. If all are zero, nothing is
 * written, and the results are available from the functions of sections 8 to 10. */
struct pfa_output {
	/* A file. It is written under a temporary name in the same directory, then renamed. */
	const char *path;
	/* A descriptor above 0. It stays the caller's, and open. */
	int32_t fd;
	int32_t reserved0; /* 0 */
	/* A call-back, and its first argument. */
	pfa_write_fn write;
	void *write_arg;
};

/* Formats of metrics. */
enum pfa_format {
	PFA_FORMAT_TEXT = 0, /* for people */
	PFA_FORMAT_JSON = 1, /* docs/metrics.md has the schema */
};

/* Formats of extra outputs; docs/formats.md describes them. */
enum pfa_profile_format {
	PFA_PROFILE_END = 0, /* ends a list of extra outputs */
	/* A page with interactive flame graphs, self-contained; may have both profiles. */
	PFA_PROFILE_FLAME_HTML = 1,
	/* A picture of the flame graph of one profile. Its widths are time, or cycles. */
	PFA_PROFILE_FLAME_SVG = 2,
	/* Folded stacks of one profile, a line for each stack. Values are samples for PROFILE,
	 * microseconds for OFFCPU. */
	PFA_PROFILE_FOLDED = 3,
	/* perf.data, the file of perf(1): each sample and interval with its time, thread and CPU.
	 * May have both profiles, as two events. */
	PFA_PROFILE_PERF_DATA = 4,
};

/* The outermost frame of folded stacks. */
enum pfa_root {
	PFA_ROOT_NONE = 0,
	PFA_ROOT_PROCESS = 1, /* "name-PID" */
	PFA_ROOT_THREAD = 2,  /* "name-PID/TID" */
};

/* One more output of the profiles. */
struct pfa_extra_output {
	uint32_t format;      /* enum pfa_profile_format */
	uint32_t modes;       /* PFA_MODE_PROFILE, PFA_MODE_OFFCPU; 0: those of the capture */
	uint32_t root;        /* FOLDED: enum pfa_root; else 0 */
	uint32_t compress;    /* PERF_DATA: 0, or a level of zstd from 1 to 22; else 0 */
	struct pfa_output to; /* exactly one of path, fd and write */
};

/* ---- 5. Options ------------------------------------------------------------------------------ */

struct pfa_options {
	size_t size; /* sizeof(struct pfa_options); PFA_OPTIONS_INIT sets it */

	/* -- Target -- */

	uint32_t target; /* enum pfa_target; required */
	/* PID: a process, by its number in the pid namespace of the caller. 0: see pids and tids. */
	int32_t pid;
	/* COMMAND: program and arguments, NULL-terminated. The program is searched in PATH. */
	const char *const *argv;
	/* PID: more processes, 0-terminated; NULL: none. Duplicates are ignored. pfa_start fails if
	 * one of the processes does not exist. */
	const int32_t *pids;

	/* -- Filters --
	 *
	 * A task passes if it matches one entry of each list that is given. NULL: no filter. Filters
	 * run in the kernel; a filtered-out task costs the same as one that is not profiled. */

	/* PID: thread numbers, 0-terminated. Without pid and pids, the processes of these threads
	 * are the target. With them, each thread must belong to one of the processes. */
	const int32_t *tids;
	/* Thread names, NULL-terminated; compared when the sample is taken. The kernel keeps 15
	 * bytes of a name: only the first 15 bytes are compared. Names with *, ? or [a-z] are
	 * patterns as the shell's; a backslash takes the next character for itself. */
	const char *const *comms;
	/* Version 2 cgroups, NULL-terminated. A task in a descendant cgroup matches too. Each is the
	 * path of a directory, absolute or relative to the mount point of cgroup2. */
	const char *const *cgroups;

	/* -- Capture -- */

	uint32_t modes; /* PFA_MODE_…; default PROFILE */
	/* PROFILE: samples per second on each CPU; default 99. From 1 to the sysctl
	 * kernel.perf_event_max_sample_rate. */
	uint32_t sample_rate_hz;
	uint32_t event;  /* PROFILE: enum pfa_event; default CPU_CLOCK */
	uint32_t unwind; /* enum pfa_unwind; default AUTO */
	uint32_t flags;  /* PFA_… flags; default none */
	/* How often the kernel-side tables and rings are read; default 100, at most 10,000. */
	uint32_t drain_interval_ms;

	/* PMU: format of its output, enum pfa_format; default TEXT. */
	uint32_t pmu_format;
	/* OFFCPU: states of intervals, PFA_STATE_…; default interruptible, uninterruptible and
	 * iowait. */
	uint32_t offcpu_states;
	/* OFFCPU: shortest and longest interval, inclusive; default 0: no limit. An interval that
	 * began before the capture, or is open at its end, has the length of the part inside. */
	uint64_t offcpu_min_ns, offcpu_max_ns;

	/* -- Outputs -- */

	struct pfa_output profile; /* PROFILE: gzipped pprof */
	struct pfa_output offcpu;  /* OFFCPU: gzipped pprof */
	struct pfa_output pmu;     /* PMU: metrics */
	/* Comments of the profiles and labels of the metrics: "key=value", NULL-terminated; NULL:
	 * none. */
	const char *const *tags;

	/* -- Symbolization -- */

	/* Directories with debug files, NULL-terminated; NULL: none. At most 64. They are searched
	 * before those of the target's file system. */
	const char *const *debug_dirs;
	/* Memory for symbol indexes and debug information: 1 MiB to 16 GiB; default 64 MiB. The
	 * least recently used is evicted. A file that needs more than this has no lines, which a
	 * counter reports. */
	uint64_t symbol_budget_bytes;

	/* -- Sizes --
	 *
	 * Default 0: chosen from target, rate and number of CPUs. Rounded up as the kernel needs. */

	/* Kernel memory for unwind tables: 1 MiB to 1 GiB; default 256 MiB. The least recently used
	 * table is evicted. */
	uint64_t table_budget_bytes;
	uint32_t ring_bytes;     /* ring buffer for new stacks */
	uint32_t count_entries;  /* distinct (thread, stacks) pairs in one drain interval */
	uint32_t range_entries;  /* executable mappings of all processes */
	uint32_t offcpu_threads; /* OFFCPU: threads of the target that exist at one time */

	/* -- Extra outputs -- */

	/* Ended by an entry with format PFA_PROFILE_END; at most 16; NULL: none. */
	const struct pfa_extra_output *extra_outputs;
};
/* Sets all options to their defaults, as PFA_OPTIONS_INIT does, which C++ before C++20 does not know. */
static inline void pfa_options_init(struct pfa_options *o)
{
	memset(o, 0, sizeof(*o));
	o->size = sizeof(*o);
}
#define PFA_OPTIONS_INIT                                                                           \
	{                                                                                          \
		.size = sizeof(struct pfa_options)                                                 \
	}

/* ---- 6. Life cycle of a session --------------------------------------------------------------
 *
 *     pfa_new     -> NEW       checks the options; opens nothing
 *     pfa_start   -> RUNNING   checks the outputs, opens events, loads BPF programs, samples
 *     pfa_stop    -> STOPPED   detaches, drains, symbolizes, writes the outputs, calls exporters
 *     pfa_start   -> RUNNING   again, with empty counts
 *     pfa_free                 from any state; a running capture is abandoned and writes nothing
 */

/* Creates a session. Returns 0, -EINVAL, -E2BIG or -ENOMEM. *@ret is written on success only. */
PFA_API int pfa_new(const struct pfa_options *opts, struct pfa_session **ret,
                    struct pfa_error *err);

/* Starts a capture; NEW or STOPPED only, else -EBUSY. On failure everything is released, and the
 * session is in the state that it was in. Results of the previous capture are gone in either case.
 *
 * A mode that cannot start with others is left out: see pfa_modes_run. */
PFA_API int pfa_start(struct pfa_session *s, struct pfa_error *err);

/* Makes the pfa_start that is running, or else the next one, return -EINTR. A command is then not
 * executed. While a capture runs it does the same to pfa_snapshot; the capture goes on. */
PFA_API void pfa_interrupt(struct pfa_session *s);

/* Ends a capture and writes all outputs; RUNNING only, else -EINVAL. The session is STOPPED
 * afterwards, even on failure. If several outputs or exporters fail, the first error is returned,
 * and the others are written all the same. */
PFA_API int pfa_stop(struct pfa_session *s, struct pfa_error *err);

/* Frees a session; NULL is allowed. */
PFA_API void pfa_free(struct pfa_session *s);

/* Returns the modes that the capture runs or ran, PFA_MODE_…; 0 if NEW. A mode that cannot start
 * with others is left out: a note says why, and pfa_stop returns that error after it has written
 * the outputs of the others. */
PFA_API uint32_t pfa_modes_run(const struct pfa_session *s);

/* STOPPED: returns the modes whose output was written completely, whatever pfa_stop returned. */
PFA_API uint32_t pfa_modes_written(const struct pfa_session *s);

/* STOPPED: returns the extra outputs that were written completely: bit i for extra_outputs[i]. */
PFA_API uint32_t pfa_extra_outputs_written(const struct pfa_session *s);

/* ---- 7. Target events ------------------------------------------------------------------------ */

/* Returns a descriptor that polls readable when the target has ended, or -1 with ALL or if not
 * RUNNING. With PID the target has ended when all processes that were given, or whose threads were
 * given, have; their children do not count. The session owns the descriptor. */
PFA_API int pfa_ended_fd(const struct pfa_session *s);

/* COMMAND: returns its pid, else -EINVAL. The command is a child of the calling process. It
 * continues if it still runs at pfa_stop or pfa_free; after pfa_free the caller must reap it. */
PFA_API int pfa_command_pid(const struct pfa_session *s);

/* COMMAND: returns 1 and its wait status in *@ret once it has ended, 0 while it runs, -ECHILD if it
 * was reaped elsewhere (SIGCHLD is ignored), else -EINVAL. Still available after pfa_stop. */
PFA_API int pfa_command_status(struct pfa_session *s, int *ret);

/* ---- 8. Statistics, counters, notes ---------------------------------------------------------- */

/* The profiles of a capture. */
enum pfa_kind {
	PFA_KIND_ONCPU = 0,
	PFA_KIND_OFFCPU = 1,
};

/* Statistics of a capture. Weights have the unit of pfa_weight_unit. */
struct pfa_stats {
	size_t size; /* sizeof(struct pfa_stats); set by the caller */
	/* Length of the capture so far. */
	uint64_t elapsed_ns;
	/* PROFILE: samples of the target. seen = kept + dropped, always. */
	uint64_t seen;
	uint64_t kept;
	uint64_t dropped; /* for all reasons; counters have each */
	uint64_t idle;    /* ALL: samples of the idle task; not part of seen */
	uint64_t weight;  /* of the samples in the profile; 0 until pfa_stop */
	uint64_t stacks;  /* distinct stacks */
	/* CPU time of the library's threads and BPF programs during the capture. The programs at
	 * context switches are included from pfa_stop on. */
	uint64_t agent_cpu_ns;
	uint64_t locked_bytes; /* memory of BPF maps and ring buffers */
	/* OFFCPU: intervals. offcpu_seen = offcpu_kept + offcpu_dropped, always. Intervals that are
	 * open at the end are included from pfa_stop on. */
	uint64_t offcpu_seen, offcpu_kept, offcpu_dropped;
	uint64_t offcpu_ns; /* sum of the kept intervals; 0 until pfa_stop */
};

/* Fills *@ret; ret->size must be set. Returns 0 or -EINVAL. */
PFA_API int pfa_stats(const struct pfa_session *s, struct pfa_stats *ret);

/* Returns the unit of weights, "nanoseconds" or "cycles"; NULL if NEW. */
PFA_API const char *pfa_weight_unit(const struct pfa_session *s);

/* A counter; docs/counters.md lists them. */
struct pfa_counter {
	const char *name; /* "dropped_counts_full"; stable */
	const char *unit; /* "samples", "bytes", … */
	const char *help; /* one line */
	uint64_t value;
};

/* Fills *@ret with counter @i, from 0 on. Returns 0, or -ENOENT past the last. */
PFA_API int pfa_counter(const struct pfa_session *s, size_t i, struct pfa_counter *ret);

/* Returns note @i: one line about something that is missing or degraded, why, and what to do. NULL
 * past the last. Valid until the next pfa_start or pfa_free. */
PFA_API const char *pfa_note(const struct pfa_session *s, size_t i);

/* STOPPED: returns line @i of the statistics of a profile, "key: value", as packed in a comment of
 * the profile. NULL past the last. docs/output.md explains the keys. Among them, in percent of the user
 * stacks:
 *
 *     complete_stacks_pct    stacks that reached their root
 *     walk_…_pct             one key for each reason why a walk ended
 *     incomplete_in          FILE SHARE, for the files in which most incomplete stacks end
 *
 * pfa_quality is pfa_quality_of with PFA_KIND_ONCPU. @kind is enum pfa_kind. */
PFA_API const char *pfa_quality(const struct pfa_session *s, size_t i);
PFA_API const char *pfa_quality_of(const struct pfa_session *s, uint32_t kind, size_t i);

/* RUNNING: adds a line "key: value" to the statistics of all profiles of this capture: facts that the
 * caller has measured. @key: lower-case letters, digits and '_'. perf-agent adds busy_children and
 * ended_children_cpu_pct, which pfa_verdict reads. Returns 0, -EINVAL, -E2BIG (more than 16) or
 * -ENOMEM. */
PFA_API int pfa_add_statistic(struct pfa_session *s, const char *key, const char *value,
                              struct pfa_error *err);

/* Verdicts: how far a profile can be trusted. */
enum pfa_level {
	PFA_LEVEL_GOOD = 0,
	PFA_LEVEL_FAIR = 1, /* a defect may mislead */
	PFA_LEVEL_POOR = 2, /* a defect does */
	PFA_LEVEL_NONE = 3, /* no sample, and none was lost */
};

/* A defect of a profile; docs/output.md lists them. Strings are valid during the call. */
struct pfa_defect {
	const char *id;     /* "few_samples"; stable */
	uint32_t level;     /* enum pfa_level: what the verdict is at best */
	const char *text;   /* one line */
	const char *remedy; /* what to do; "": nothing */
};

typedef void (*pfa_defect_fn)(void *arg, const struct pfa_defect *d);

/* STOPPED: judges a profile by its statistics; pfa_report does the same with its file. Calls @fn, unless
 * it is NULL, for each defect. Returns enum pfa_level, -EINVAL (no such profile) or -ENOMEM. */
PFA_API int pfa_verdict(const struct pfa_session *s, uint32_t kind, pfa_defect_fn fn, void *arg);

/* ---- 9. Results ------------------------------------------------------------------------------
 *
 * STOPPED only. Strings are valid until the next pfa_start or pfa_free.
 */

/* A function of a profile. */
struct pfa_function {
	const char *name;
	const char *module; /* path, or "[kernel]", "[jit]", "", "[several]" */
	uint64_t self;      /* weight of the samples whose leaf it is */
	uint64_t cum;       /* weight of the samples that have it anywhere on the stack */
};

/* Fills @ret with the @max functions of most self weight. Returns how many, or a negative errno.
 * Weights of PFA_KIND_OFFCPU are nanoseconds off-CPU; self weight is that of intervals in which
 * nothing but the scheduler is below the function.
 *
 * pfa_top is pfa_top_of with PFA_KIND_ONCPU. @kind is enum pfa_kind. */
PFA_API int pfa_top(const struct pfa_session *s, struct pfa_function *ret, size_t max);
PFA_API int pfa_top_of(const struct pfa_session *s, uint32_t kind, struct pfa_function *ret,
                       size_t max);

/* A function of a profile, as tables for people show it. */
struct pfa_hot_function {
	const char *name;
	const char *module;  /* path, or "[kernel]", "[jit]", "" */
	const char *process; /* name of the processes; "" without PFA_HOT_BY_PROCESS */
	/* 1: the program's own code. 0: the kernel, system libraries (libc, the dynamic linker and the
	 * like), interpreters and run times, or wrappers of the standard libraries of C++, Rust and
	 * Go. */
	uint32_t own;
	/* Percent of the weight of the complete user stacks that has the function, of the processes of
	 * this name with PFA_HOT_BY_PROCESS; 0 if none is known to be complete. */
	uint32_t complete_pct;
	uint64_t self, cum; /* as of pfa_top_of */
};

/* An entry for each function and process name, not for each function. */
#define PFA_HOT_BY_PROCESS (1u << 0)

/* As pfa_top_of, for people: the self weight of an evaluator that runs an interpreted function with
 * a name is that function's. @flags: PFA_HOT_… flags. */
PFA_API int pfa_hot_functions(const struct pfa_session *s, uint32_t kind, uint32_t flags,
                              struct pfa_hot_function *ret, size_t max);

/* A function of a program in which threads are off-CPU. */
struct pfa_offcpu_site {
	const char *name;   /* of several addresses without a name, one of them */
	const char *module; /* path, or "[kernel]", "[jit]", "" */
	/* The kernel function in which most of the time is blocked; the state of the threads
	 * ("preempted") if no function tells it. */
	const char *where;
	uint32_t where_cnt;   /* distinct values of where */
	uint32_t unnamed_cnt; /* addresses without a name, all of one module; 0: it has a name */
	uint64_t offcpu_ns;   /* sum of the intervals */
	uint64_t intervals;
	uint64_t longest_ns; /* the longest interval */
};

/* OFFCPU: fills @ret with the @max sites of most off-CPU time. Returns how many, or a negative
 * errno. An interval belongs to the innermost frame of the program's own code, as
 * pfa_hot_functions has it. If there is none it belongs to the innermost frame of a run time, else
 * to the innermost user frame, else to the kernel function. */
PFA_API int pfa_top_offcpu_sites(const struct pfa_session *s, struct pfa_offcpu_site *ret,
                                 size_t max);

/* ---- 10. Metrics -----------------------------------------------------------------------------
 *
 * PMU. Read-only; valid, with everything that they point to, until the next pfa_start or pfa_free.
 * docs/metrics.md explains the values. Members beyond .size of a structure do not exist. Names of
 * processes and threads are any bytes up to a NUL.
 */

/* Scope of metrics. */
enum pfa_scope {
	PFA_SCOPE_PIDS = 1,    /* the processes of PID or COMMAND */
	PFA_SCOPE_ALL = 2,     /* the machine as a whole; no processes */
	PFA_SCOPE_PER_PID = 3, /* the machine and its processes: PFA_PER_PID */
};

/* A thread is always in one of three. Indexes of arrays. */
enum pfa_time {
	PFA_TIME_ON_CPU = 0,    /* running: time slices */
	PFA_TIME_RUN_QUEUE = 1, /* runnable, without a CPU */
	PFA_TIME_OFF_CPU = 2,   /* blocked */
};
#define PFA_TIMES 3

/* Why a thread leaves its CPU. Indexes of arrays; later versions may have more. */
enum pfa_reason {
	PFA_REASON_PREEMPTED = 0,
	PFA_REASON_YIELDED = 1,
	PFA_REASON_SLEEP = 2, /* interruptible sleep: timers, pipes, futexes, … */
	PFA_REASON_IOWAIT = 3,
	PFA_REASON_UNINTERRUPTIBLE = 4, /* not for I/O */
	PFA_REASON_STOPPED = 5,         /* stopped or traced */
	PFA_REASON_EXITED = 6,
};

/* Complete intervals of one kind. All zero if count is 0. Percentiles are within 0.8 %. */
struct pfa_summary {
	size_t size;
	uint64_t count, total_ns;
	uint64_t min_ns, max_ns, mean_ns, p50_ns, p95_ns, p99_ns, p999_ns;
};

struct pfa_label {
	const char *key, *value;
};

struct pfa_metrics_counter {
	size_t size;
	const char *name;      /* "cycles", "context-switches"; stable */
	const char *core_type; /* one of pfa_metrics.core_types; "" for software counters */
	uint32_t hardware;     /* 1: a hardware counter, which the machine may lack */
	uint32_t counted;      /* 0: value and raw are unknown, and 0 */
	int32_t error;         /* 0, or the negative errno of opening it */
	int32_t reserved0;
	uint64_t value;      /* scaled to all of enabled_ns */
	uint64_t raw;        /* as counted */
	uint64_t enabled_ns; /* time that it should have counted; 0: not measured */
	uint64_t running_ns; /* time that it counted */
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

/* A process, or everything that was counted. */
struct pfa_metrics_entry {
	size_t size;
	/* 0: everything, or the processes over the limit: see pfa_metrics.other_threads. */
	uint32_t pid;
	uint32_t reserved0;
	const char *comm;
	const struct pfa_summary *times[PFA_TIMES]; /* by enum pfa_time */
	/* Sums over all threads. They include the parts of intervals that began before the capture
	 * or are open at its end. */
	uint64_t sum_ns[PFA_TIMES];
	uint64_t switches; /* sum of reasons */
	size_t n_reasons;
	const uint64_t *reasons; /* reasons[n_reasons], by enum pfa_reason */
	size_t n_counters;
	const struct pfa_metrics_counter *const *counters; /* counters[n_counters] */
	/* Threads that have not ended, by descending time on the CPU. */
	size_t n_threads;
	const struct pfa_metrics_thread *const *threads; /* threads[n_threads] */
	uint64_t ended_threads;                          /* included in the sums, not in threads */
	size_t n_labels;
	const struct pfa_label *labels; /* labels[n_labels], from enrichers */
};

struct pfa_metrics {
	size_t size;
	const void *library; /* for the library */
	uint32_t scope;      /* enum pfa_scope */
	uint32_t cpus, cpus_offline;
	uint32_t reserved0;
	uint64_t time_realtime_ns; /* start of the capture, since 1970 */
	uint64_t duration_ns;
	/* One "" if all cores are alike, else the names of their PMUs. */
	size_t n_core_types;
	const char *const *core_types; /* core_types[n_core_types] */
	const struct pfa_metrics_entry *all;
	/* Processes by descending time on the CPU. The entry with pid 0, if any, is the last. */
	size_t n_procs;
	const struct pfa_metrics_entry *const *procs; /* procs[n_procs] */
	uint64_t other_threads; /* threads that the entry with pid 0 sums up */
	/* Missing parts, and why. */
	size_t n_notes;
	const char *const *notes; /* notes[n_notes] */
	size_t n_labels;
	const struct pfa_label *labels; /* labels[n_labels], the tags of the options */
	/* sched_switch and sched_wakeup events that were missed: the times around them are in the
	 * sums, and in no summary; and that were dropped, because the thread table was full: their
	 * intervals are missing. */
	uint64_t missed_events, dropped_events;
};

/* STOPPED: returns the metrics of the capture; NULL if there are none (PMU was not requested, or
 * failed), or if memory is short. */
PFA_API const struct pfa_metrics *pfa_metrics(struct pfa_session *s);

/* Formats metrics as the output pmu does, and passes the whole to @write in one call. @m is from
 * pfa_metrics, or what an exporter got. Returns 0, -EINVAL, -ENOMEM, or what @write returned. */
PFA_API int pfa_export_text(const struct pfa_metrics *m, pfa_write_fn write, void *arg);
PFA_API int pfa_export_json(const struct pfa_metrics *m, pfa_write_fn write, void *arg);

/* ---- 11. Exporters --------------------------------------------------------------------------- */

/* Receives the metrics of each capture. */
struct pfa_exporter {
	size_t size;      /* sizeof(struct pfa_exporter); PFA_EXPORTER_INIT sets it */
	const char *name; /* for messages; copied */
	/* Called once by pfa_stop, after all outputs have been written. Returns 0, or a negative
	 * errno that pfa_stop returns with the message in @err. */
	int (*export_metrics)(void *arg, const struct pfa_metrics *m, struct pfa_error *err);
	void *arg; /* first argument of export_metrics */
};
#define PFA_EXPORTER_INIT                                                                          \
	{                                                                                          \
		.size = sizeof(struct pfa_exporter)                                                \
	}
#define PFA_EXPORTERS_MAX 16

/* Adds an exporter for all captures to come that have PMU among their modes; NEW or STOPPED only.
 * pfa_stop calls all exporters in the order in which they were added, even if one fails. Returns 0,
 * -EINVAL, -EBUSY, -E2BIG (more than PFA_EXPORTERS_MAX) or -ENOMEM. */
PFA_API int pfa_add_exporter(struct pfa_session *s, const struct pfa_exporter *e,
                             struct pfa_error *err);

/* ---- 12. Enrichers ---------------------------------------------------------------------------
 *
 * An enricher adds labels to processes. They become labels of all samples of the process in the
 * profiles, and of its entry in the metrics.
 */

/* A process; valid during the call. */
struct pfa_process {
	size_t size;
	uint32_t pid; /* 0: not in the pid namespace of the caller */
	uint32_t reserved0;
	uint64_t start_ns;  /* CLOCK_BOOTTIME; 0: unknown */
	const char *comm;   /* any bytes up to a NUL; "": unknown */
	const char *cgroup; /* version 2, as in /proc/PID/cgroup: "/system.slice/a.service"; NULL:
	                       unknown, or the process has ended */
};

struct pfa_label_sink;

/* Called by pfa_stop and pfa_snapshot once for each process in an output. Calls pfa_label_add for each label. */
typedef void (*pfa_enrich_fn)(void *arg, const struct pfa_process *p, struct pfa_label_sink *sink);

#define PFA_ENRICHERS_MAX     16
#define PFA_LABELS_MAX        16  /* of one process, from all enrichers */
#define PFA_LABEL_KEY_BYTES   63  /* longest key, without its NUL */
#define PFA_LABEL_VALUE_BYTES 255 /* longest value, without its NUL */

/* Adds an enricher for all captures to come; NEW or STOPPED only. Returns 0, -EINVAL, -EBUSY or
 * -E2BIG (more than PFA_ENRICHERS_MAX). */
PFA_API int pfa_add_enricher(struct pfa_session *s, pfa_enrich_fn fn, void *arg,
                             struct pfa_error *err);

/* In an enricher: adds a label; key and value are copied. On failure the label is left out:
 *
 *     -EINVAL   key or value is empty or has a control character
 *     -EEXIST   the process has this key already, or the profile uses it (pid, tid, comm, state,
 *               longest, runqueue, waker)
 *     -E2BIG    key or value is too long, or the process has PFA_LABELS_MAX labels
 *     -ENOMEM   out of memory
 */
PFA_API int pfa_label_add(struct pfa_label_sink *sink, const char *key, const char *value);

/* ---- 13. Unwind tables of a file ------------------------------------------------------------- */

/* Gets one line without newline; valid during the call. */
typedef void (*pfa_line_fn)(void *arg, const char *text);

/* Describes the unwind table of a program or library, one "key: value" a call of @line: sources,
 * functions, rows, rules, bytes. If @pc is not NULL, describes the rule at that virtual address of
 * the file instead. Needs no privileges and no session. Returns 0, or:
 *
 *     -EINVAL    not a program or library
 *     -ENOEXEC   not an ELF file
 *     -ENOTSUP   32-bit code, or another processor
 *     -ENOENT    no such file, no call-frame information, or no code at @pc
 *     -ENOMEM    out of memory
 *
 * Other codes are those of open(2). */
PFA_API int pfa_unwind_info(const char *path, const uint64_t *pc, pfa_line_fn line, void *arg,
                            struct pfa_error *err);

#ifdef __cplusplus
}
#endif
#endif
