/* SPDX-License-Identifier: Apache-2.0 */
/*
 * perfagent.h - sample a process, a command or the whole machine, and get a profile.
 *
 * Life of a session
 *
 *     pfa_new     NEW      checks the options; opens nothing
 *     pfa_start   RUNNING  checks the outputs, opens events, loads BPF, starts threads, samples
 *     pfa_stop    STOPPED  detaches, drains, names, writes the outputs
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
	PFA_TARGET_PID = 1, /* one process with all its threads; not what it forks */
	PFA_TARGET_ALL = 2, /* every process and kernel thread of the machine; not the idle task */
	PFA_TARGET_COMMAND = 3, /* a program that pfa_start starts, and the processes it starts */
};

/* By which clock. */
enum pfa_event {
	PFA_EVENT_CPU_CLOCK = 0, /* a fixed period of time; values are nanoseconds */
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

/* Called once by pfa_stop with the whole output; returns 0 or a negative errno. @data is valid
 * during the call. */
typedef int (*pfa_write_fn)(void *arg, const void *data, size_t len);

struct pfa_options {
	size_t size; /* sizeof(struct pfa_options): PFA_OPTIONS_INIT sets it */

	uint32_t target; /* enum pfa_target */
	int32_t pid;     /* PID: number in the caller's pid namespace */
	const char *const
	        *argv; /* COMMAND: program (looked up in PATH) and arguments, NULL-terminated */

	uint32_t sample_rate_hz; /* default 99; 1 … kernel.perf_event_max_sample_rate */
	uint32_t event;          /* enum pfa_event */
	uint32_t unwind;         /* enum pfa_unwind */
	uint32_t flags;          /* PFA_… bits */

	const char *const *tags; /* "key=value" strings for the profile's comments, NULL-terminated;
	                            may be NULL */

	/* Where the profile (gzipped pprof) goes: at most one of the three; none: kept for pfa_top
	 * only. */
	const char *profile_path; /* written to a temporary file beside it and renamed */
	int32_t profile_fd;       /* > 0; stays the caller's */
	int32_t reserved0;        /* 0 */
	pfa_write_fn profile_write;
	void *profile_write_arg;

	/* Sizes of kernel-side memory; 0 = chosen by target, rate and CPUs. Rounded up to what the
	 * kernel needs. */
	uint32_t ring_bytes;        /* new stacks on their way to user space */
	uint32_t count_entries;     /* distinct (thread, stacks) pairs between two read-outs */
	uint32_t range_entries;     /* executable mappings of all processes */
	uint32_t drain_interval_ms; /* default 100 */

	/* Unwind tables in kernel memory: those not used for longest make room for others. Default
	 * 256 MiB; 1 MiB … 1 GiB. */
	uint64_t table_budget_bytes;
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
	                          sampling ended */
	uint64_t locked_bytes; /* memory of BPF maps and rings */
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
/* RUNNING only (-EINVAL). The session is STOPPED afterwards even when an output could not be
 * written. */
PFA_API int pfa_stop(struct pfa_session *s, struct pfa_error *err);
PFA_API void pfa_free(struct pfa_session *s); /* NULL ok */

/* A descriptor that polls readable once the target has ended (PID, COMMAND); -1 with ALL or when
 * not RUNNING. Owned by the session. */
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
/* STOPPED: the @max hottest functions by self weight into @ret; how many, or a negative errno. */
PFA_API int pfa_top(const struct pfa_session *s, struct pfa_function *ret, size_t max);
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
