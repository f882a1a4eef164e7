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

#include "event/event.h"
#include "metrics/metrics.h"
#include "perfagent/perfagent.h"

#include "base/base.h"

struct ses;

#define SES_BUDGET_MIN_BYTES ((uint64_t)1 << 20)
#define SES_BUDGET_MAX_BYTES ((uint64_t)1 << 30)
/* Of debug information, in user space. */
#define SES_SYMBOLS_MIN_BYTES ((uint64_t)1 << 20)
#define SES_SYMBOLS_MAX_BYTES ((uint64_t)16 << 30)
#define SES_DEBUG_DIRS_MAX    64

/* For tests and benchmarks; all zero: as users have it. */
struct ses_hooks {
	uint32_t walk_flags;         /* ABI_WALK_NO_CACHE … */
	uint32_t symbolize_limit_ms; /* symbolization after the end of sampling; 0: 30 s */
	/* A deferred sample, and the hash of its walk in the kernel (walk_flags with
	 * ABI_WALK_DEFER_ALL); may be NULL. Thread: D. */
	void (*deferred)(void *arg, const struct ev_deferred *c);
	void *arg;
};

/* Thread of all below: C, but for ses_stats. */

/**
 * ses_new - a session; checks the options and opens nothing
 * @o: of the size of this library's; copied, strings too
 * Returns: 0, -EINVAL (the message names the option), -ENOMEM.
 */
int ses_new(const struct pfa_options *o, struct ses **ret, struct err *err);
/**
 * ses_set_hooks - for captures to come
 * @h: copied
 */
void ses_set_hooks(struct ses *s, const struct ses_hooks *h);
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
 * @ret: without its size
 * Returns: 0, -ENOMEM, errno of reading the counters. Thread: any.
 */
int ses_stats(struct ses *s, struct pfa_stats *ret);
/**
 * ses_counter - counter number @i: first the kernel side's, then ours, as in the two counters.def
 * @ret: strings are static
 * Returns: 0, -ENOENT (past the last), -ENOMEM, errno of reading them.
 */
int ses_counter(struct ses *s, size_t i, struct pfa_counter *ret);
/**
 * ses_note, ses_quality - line @i of what the user should know; of the profile's quality
 * Quality is there after ses_stop only. NULL past the last. Borrowed until the next start or free.
 */
const char *ses_note(const struct ses *s, size_t i);
const char *ses_quality(const struct ses *s, enum pfa_kind kind, size_t i);
/**
 * ses_top - the hottest functions of the capture that was stopped, by self weight
 * @ret: ret[max]; name is "" for all code of a module that has no names
 * Returns: how many, -EINVAL (no profile: not stopped, or building it failed), -ENOMEM.
 */
int ses_top(const struct ses *s, enum pfa_kind kind, struct pfa_function *ret, size_t max);
/**
 * ses_top_offcpu_sites - in which functions of programs the capture that was stopped waited, longest first
 * @ret: ret[max]
 * A wait belongs to the innermost user frame that is in no library of the system (libc and the
 * like); where there is none to the innermost user frame, else to the kernel function. Addresses
 * without a name are one entry for each module and kernel function.
 * Returns: how many, -EINVAL (no off-CPU profile), -ENOMEM, -E2BIG. Cost: O(frames of all samples).
 */
int ses_top_offcpu_sites(const struct ses *s, struct pfa_offcpu_site *ret, size_t max);
/**
 * ses_metrics - scheduler statistics of the capture that was stopped, NULL: there are none
 * Borrowed until the next start or free.
 */
const struct met_snapshot *ses_metrics(const struct ses *s);
/**
 * ses_add_enricher - who is asked about each process while outputs are built
 * Called once a process by ses_stop, in the order in which they were added. What they add are
 * string labels of all samples of the process and of its entry in the metrics. Stays for later
 * captures.
 * Returns: 0, -EINVAL, -EBUSY (running), -E2BIG (PFA_ENRICHERS_MAX).
 */
int ses_add_enricher(struct ses *s, pfa_enrich_fn fn, void *arg, struct err *err);
/**
 * ses_modes_run - PFA_MODE_…: modes of the capture, less those that were left out; 0: it never
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

#endif
