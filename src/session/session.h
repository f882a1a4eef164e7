/* SPDX-License-Identifier: Apache-2.0 */
/*
 * session - threads, wiring, lifetime: one capture after another from one set of options.
 *
 * Threads: C is the caller's. D drains the kernel's rings. W knows processes and images. B × (cores
 * - 1, 1 to 4) name addresses. Everything belongs to one of them; what crosses goes through a
 * queue. All end in ses_stop.
 */
#ifndef PA_SESSION_H
#define PA_SESSION_H

#include "encode/encode.h"
#include "event/event.h"
#include "result/result.h"
#include "tally/tally.h"

struct ses;

enum ses_target { SES_TARGET_PID = 1, SES_TARGET_ALL, SES_TARGET_COMMAND };
enum ses_event { SES_EVENT_CPU_CLOCK = 0, SES_EVENT_CYCLES, SES_EVENT_AUTO };

/* AUTO: tables are built when a walk first needs them. DWARF: of all that the target maps, before
 * sampling; of what it maps later, and with ALL of everything, as soon as it is known: sampling
 * begins meanwhile. FP: frame pointers only. */
enum ses_unwind { SES_UNWIND_AUTO = 0, SES_UNWIND_DWARF = 1, SES_UNWIND_FP = 2 };
/* Smallest budget of tables: one value of 64 KiB and some. */
#define SES_BUDGET_MIN_BYTES ((uint64_t)1 << 20)
#define SES_BUDGET_MAX_BYTES ((uint64_t)1 << 30)
#define SES_BUDGET_BYTES     ((uint64_t)256 << 20) /* uw_store_new has the same default */

/* Of debug information, in user space. */
#define SES_SYMBOLS_MIN_BYTES ((uint64_t)1 << 20)
#define SES_SYMBOLS_MAX_BYTES ((uint64_t)16 << 30)
#define SES_DEBUG_DIRS_MAX    64
#define SES_PIDS_MAX          1024 /* processes, and threads, that are given by number */
#define SES_FILTERS_MAX       64   /* names, and cgroups */

/* What is captured, together where several are set; none: PROFILE. */
#define SES_PROFILE (1u << 0) /* where it runs */
#define SES_OFFCPU  (1u << 1) /* where it waits */
#define SES_PMU     (1u << 2) /* scheduler statistics and hardware counters */
/* The profiles of a capture. */
enum ses_kind { SES_KIND_ONCPU = 0, SES_KIND_OFFCPU, SES_KIND_CNT };

/* For tests and benchmarks: a sample's registers and stack, and the hash of its walk in the kernel
 * (walk_flags with ABI_WALK_COPY_ALL). Thread: D. */
typedef void (*ses_copy_fn)(void *arg, const struct ev_copy *c);

/* A process that is asked about; borrowed until the call returns. */
struct ses_process {
	uint32_t pid;      /* 0: it has no number in our pid namespace */
	uint64_t start_ns; /* CLOCK_BOOTTIME; 0: not known */
	const char *comm;  /* any bytes; "": not known */
	const char
	        *cgroup; /* version 2, as /proc tells: "/a/b"; NULL: not known, or it has ended */
};
#define SES_ENRICHERS_MAX     16
#define SES_LABELS_MAX        RESULT_LABELS_MAX /* of a process */
#define SES_LABEL_KEY_BYTES   63
#define SES_LABEL_VALUE_BYTES 255
struct ses_label_sink;
/* Adds labels to @to, which is gone when it returns. */
typedef void (*ses_enrich_fn)(void *arg, const struct ses_process *p, struct ses_label_sink *to);

/* Checked by ses_new; all pointers are copied. */
struct ses_options {
	enum ses_target target;
	int64_t pid; /* PID: 0: pids or tids have them all */
	/* PID: more processes; the threads of theirs that are sampled, which stand for their
	 * processes where none is given. 0-terminated, may be NULL. */
	const int32_t *pids, *tids;
	bool follow_children;    /* PID: also what they forked and fork, and so on */
	const char *const *argv; /* COMMAND */
	/* Of the target only threads of one of these names, only tasks below one of these cgroups.
	 * May be NULL. */
	const char *const *comms, *const *cgroups;
	uint32_t rate_hz;
	enum ses_event event;
	bool kernel_stacks;
	bool exclude_process;      /* leave the whole calling process out of ALL */
	const char *const *tags;   /* may be NULL */
	uint32_t modes;            /* SES_PROFILE … */
	struct enc_target profile; /* all zero: no output */
	struct enc_target offcpu;  /* as well */
	struct enc_target pmu;     /* as well */
	bool pmu_json;             /* else text */
	bool per_pid;              /* PMU of ALL: each process too */
	uint32_t off_states; /* bit 1 << enum ev_off; 0: interruptible, uninterruptible, iowait */
	bool off_wakers;     /* who woke each thread, and from where */
	uint64_t off_min_ns, off_max_ns; /* of one wait, inclusive; max 0: no limit */
	uint32_t off_threads;            /* threads of the target at a time; 0: chosen */
	/* 0: chosen by target, rate and CPUs */
	uint32_t ring_bytes, count_entries, range_entries, drain_interval_ms;
	enum ses_unwind unwind;
	uint64_t table_budget_bytes;   /* of unwind tables in the kernel; 0: 256 MiB */
	const char *const *debug_dirs; /* may be NULL */
	uint64_t symbol_budget_bytes;  /* 0: 64 MiB */
	bool no_lines;                 /* names of symbol tables alone */
	bool decode_in_process;        /* no child decodes files of others */
	uint32_t naming_limit_ms;      /* all naming after the end of sampling; 0: 30 s */
	uint32_t walk_flags;           /* ABI_WALK_NO_CACHE …: tests and benchmarks */
	ses_copy_fn copy_fn;           /* may be NULL */
	void *copy_arg;
};

struct ses_stats {
	uint64_t elapsed_ns;
	uint64_t seen, kept, dropped, idle, weight, stacks;
	uint64_t agent_cpu_ns, locked_bytes;
	uint64_t waits, wait_ns; /* in the off-CPU profile; wait_ns: 0 until it is built */
	uint64_t waits_seen, waits_dropped;
};

struct ses_function {
	const char *name, *module; /* borrowed until the next start or free */
	uint64_t self, cum;
};

/* Thread of all below: C, but for ses_stats. */

/**
 * ses_new - a session; checks the options and opens nothing
 * @o: copied, strings too
 * Returns: 0, -EINVAL (the message names the option), -ENOMEM.
 */
int ses_new(const struct ses_options *o, struct ses **ret, struct err *err);
/**
 * ses_start - begin a capture: check, open, start the threads and the command
 * Results of the capture before are forgotten. A failure takes everything back; a command
 * that was not started yet is ended.
 * Returns: 0; -EBUSY (running), -EINVAL (the rate is over the kernel's limit, the pid is a thread
 * or a kernel thread, a tid of another process, or a cgroup that is none), -ESRCH (no such process
 * or thread, all ended meanwhile, or /proc is of another pid namespace), -ENOENT and -ENOTDIR (a
 * cgroup), -EMFILE, -EPERM or -EACCES (@err says what is missing), -ENODEV, -EOPNOTSUPP and the
 * like (event cycles), -ECHILD or errno of execve (the command), -EINTR (ses_interrupt), -ENOMEM;
 * what else opening the output, the sampler, the side-band or the threads gives.
 */
int ses_start(struct ses *s, struct err *err);
/**
 * ses_interrupt - make a start end with -EINTR, the one that goes on or the next
 * The command is then not started. Once sampling has begun it does nothing.
 * Thread: any; a signal handler too.
 */
void ses_interrupt(struct ses *s);
/**
 * ses_stop - end the capture, name what was seen, write the output
 * The command goes on. After a failure too the session is stopped and can be started again.
 * Returns: 0, -EINVAL (not running), -ENOMEM, -E2BIG, what enc_output_commit gives.
 */
int ses_stop(struct ses *s, struct err *err);
/**
 * ses_free - end it; a capture that still runs leaves no output
 * NULL is accepted. Returns: NULL.
 */
struct ses *ses_free(struct ses *s);
/**
 * ses_running - whether it was started and not stopped since
 */
bool ses_running(const struct ses *s);

/**
 * ses_ended_fd - readable once the process or command has ended, of several all of them
 * Borrowed until ses_stop. -1: all processes are the target, or no capture runs.
 */
int ses_ended_fd(const struct ses *s);
/**
 * ses_command_status - how the command of the newest capture ended
 * @ret: as waitpid gives it; written when 1 is returned
 * Returns: 1 (ended), 0 (runs), -EINVAL (no command), -ECHILD (ended, and somebody else took its
 * status). Reaps the command.
 */
int ses_command_status(struct ses *s, int *ret);
/**
 * ses_command_pid - its number, -EINVAL if there is no command
 */
int ses_command_pid(const struct ses *s);
/**
 * ses_stats - figures up to now, or of the capture that was stopped
 * While it runs weight is 0: it is known once the profile is built.
 * Returns: 0, -ENOMEM, errno of reading the counters. Thread: any.
 */
int ses_stats(struct ses *s, struct ses_stats *ret);
/**
 * ses_counter - counter number @i: first the kernel side's, then ours, as in the two counters.def
 * @ret: strings are static
 * Returns: 0, -ENOENT (past the last), -ENOMEM, errno of reading them.
 */
int ses_counter(struct ses *s, size_t i, struct tally_counter *ret);
/**
 * ses_note, ses_quality - line @i of what the user should know; of the profile's quality
 * Quality is there after ses_stop only. NULL past the last. Borrowed until the next start or free.
 */
const char *ses_note(const struct ses *s, size_t i);
const char *ses_quality(const struct ses *s, enum ses_kind kind, size_t i);
/**
 * ses_top - the hottest functions of the capture that was stopped, by self weight
 * @ret: ret[max]; name is "" for all code of a module that has no names
 * Returns: how many, -EINVAL (no profile: not stopped, or building it failed), -ENOMEM.
 */
int ses_top(const struct ses *s, enum ses_kind kind, struct ses_function *ret, size_t max);
/**
 * ses_top_waits - in which functions of programs the capture that was stopped waited, longest first
 * @ret: ret[max]
 * A wait belongs to the innermost user frame that is in no library of the system (libc and the
 * like); where there is none to the innermost user frame, else to the kernel function. Addresses
 * without a name are one entry for each module and kernel function.
 * Returns: how many, -EINVAL (no off-CPU profile), -ENOMEM, -E2BIG. Cost: O(frames of all samples).
 */
int ses_top_waits(const struct ses *s, struct result_site *ret, size_t max);
/**
 * ses_metrics - scheduler statistics of the capture that was stopped, NULL: there are none
 * Borrowed until the next start or free.
 */
const struct met_snapshot *ses_metrics(const struct ses *s);
/**
 * ses_export_metrics - encode and hand over, as the session does for its own output
 * @write: called once with the whole
 * Returns: 0, -ENOMEM, -E2BIG, or what @write returned (@err is then not set). Thread: any.
 */
int ses_export_metrics(const struct met_snapshot *m, bool json, enc_write_fn write, void *arg,
                       struct err *err);
/**
 * ses_add_enricher - who is asked about each process while outputs are built
 * Called once a process by ses_stop, in the order in which they were added. What they add are
 * string labels of all samples of the process and of its entry in the metrics. Stays for later
 * captures.
 * Returns: 0, -EINVAL, -EBUSY (running), -E2BIG (SES_ENRICHERS_MAX).
 */
int ses_add_enricher(struct ses *s, ses_enrich_fn fn, void *arg, struct err *err);
/**
 * ses_label_add - add a label; copied
 * Returns: 0; -EINVAL (empty, or a control character), -EEXIST (the process has this key, or it is
 * one of ours: pid, tid, comm, state, longest, runqueue, waker), -E2BIG (too long, or
 * SES_LABELS_MAX), -ENOMEM.
 */
int ses_label_add(struct ses_label_sink *to, const char *key, const char *value);
/**
 * ses_modes_run - SES_PROFILE …: modes of the capture, less those that were left out; 0: it never
 * started
 */
uint32_t ses_modes_run(const struct ses *s);
/**
 * ses_modes_written - those whose output ses_stop has written whole, whatever it returned
 */
uint32_t ses_modes_written(const struct ses *s);
/**
 * ses_weight_unit - "nanoseconds" or, once ses_start has chosen that event, "cycles"; static
 */
const char *ses_weight_unit(const struct ses *s);

/* One line without newline; borrowed until it returns. */
typedef void (*ses_line_fn)(void *arg, const char *text);
/**
 * ses_unwind_info - what unwind tables know about a file, "key: value" a line
 * @pc: NULL: sources, functions, rows, rules and bytes; else the rule at this virtual address
 * Returns: 0; errno of open; -EINVAL (not a regular file, or damaged headers), -ENOEXEC (no ELF
 * file), -ENOTSUP (32 bits, or another processor), -ENOENT (no call-frame information, or @pc is no
 * code), -E2BIG, -ENOMEM, errno of pread. @err says what to do. Thread: any.
 */
int ses_unwind_info(const char *path, const uint64_t *pc, ses_line_fn line, void *arg,
                    struct err *err);

#endif
