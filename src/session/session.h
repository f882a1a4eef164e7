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

/* For tests and benchmarks: a sample's registers and stack, and the hash of its walk in the kernel
 * (walk_flags with ABI_WALK_COPY_ALL). Thread: D. */
typedef void (*ses_copy_fn)(void *arg, const struct ev_copy *c);

/* Checked by ses_new; all pointers are copied. */
struct ses_options {
	enum ses_target target;
	int64_t pid;
	const char *const *argv; /* COMMAND */
	uint32_t rate_hz;
	enum ses_event event;
	bool kernel_stacks;
	bool exclude_process;      /* leave the whole calling process out of ALL */
	const char *const *tags;   /* may be NULL */
	struct enc_target profile; /* all zero: no output */
	/* 0: chosen by target, rate and CPUs */
	uint32_t ring_bytes, count_entries, range_entries, drain_interval_ms;
	enum ses_unwind unwind;
	uint64_t table_budget_bytes; /* of unwind tables in the kernel; 0: 256 MiB */
	uint32_t walk_flags;         /* ABI_WALK_NO_CACHE …: tests and benchmarks */
	ses_copy_fn copy_fn;         /* may be NULL */
	void *copy_arg;
};

struct ses_stats {
	uint64_t elapsed_ns;
	uint64_t seen, kept, dropped, idle, weight, stacks;
	uint64_t agent_cpu_ns, locked_bytes;
};

struct ses_function {
	const char *name, *module; /* borrowed until the next start or free */
	uint64_t self, cum;
};

struct ses_counter {
	const char *name, *unit, *help;
	uint64_t value;
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
 * or a kernel thread), -ESRCH (no such process, it ended meanwhile, or /proc is of another pid
 * namespace), -EMFILE, -EPERM or -EACCES (@err says what is missing), -ENODEV, -EOPNOTSUPP and the
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
 * ses_ended_fd - pidfd of the process or command: readable once it has ended
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
int ses_counter(struct ses *s, size_t i, struct ses_counter *ret);
/**
 * ses_note, ses_quality - line @i of what the user should know; of the profile's quality
 * Quality is there after ses_stop only. NULL past the last. Borrowed until the next start or free.
 */
const char *ses_note(const struct ses *s, size_t i);
const char *ses_quality(const struct ses *s, size_t i);
/**
 * ses_top - the hottest functions of the capture that was stopped, by self weight
 * @ret: ret[max]; name is "" for all code of a module that has no names
 * Returns: how many, -EINVAL (no profile: not stopped, or building it failed), -ENOMEM.
 */
int ses_top(const struct ses *s, struct ses_function *ret, size_t max);
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
