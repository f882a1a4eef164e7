/* SPDX-License-Identifier: Apache-2.0 */
/*
 * session - threads, wiring, lifetime: one capture after another from one set of options.
 *
 * Threads: the caller's is the control thread. The drain thread drains the kernel's rings. The
 * tracker thread knows processes and images. Symbolizer threads (cores - 1, 1 to 4) symbolize and
 * build tables. Each object belongs to one thread; data crosses through queues. All of them end in
 * ses_stop.
 */
#ifndef PA_SESSION_H
#define PA_SESSION_H

#include "event/event.h"
#include "metrics/metrics.h"
#include "perfagent/perfagent.h"
#include "perfagent/perfagent_snapshot.h"
#include "profile/profile.h"
#include "result/result.h"
#include "stream/stream.h"

#include "base/base.h"

struct ses;

#define SES_BUDGET_MIN_BYTES ((uint64_t)1 << 20)
#define SES_BUDGET_MAX_BYTES ((uint64_t)1 << 30)
/* Memory for debug information, in user space. */
#define SES_SYMBOLS_MIN_BYTES ((uint64_t)1 << 20)
#define SES_SYMBOLS_MAX_BYTES ((uint64_t)16 << 30)
#define SES_DEBUG_DIRS_MAX    64

/* For tests and benchmarks; all zero: the behaviour that users have. */
struct ses_hooks {
	uint32_t walk_flags;         /* ABI_WALK_NO_CACHE … */
	uint32_t symbolize_limit_ms; /* symbolization after the end of sampling; 0: 30 s */
	/* Gets a deferred sample, and the hash of its walk in the kernel (walk_flags with
	 * ABI_WALK_DEFER_ALL); may be NULL. Thread: drain. */
	void (*deferred)(void *arg, const struct ev_deferred *c);
	/* Gets the stream of samples, in order, with their scaled weights, before outputs are
	 * written; makes the capture have one. May be NULL. */
	void (*stream)(void *arg, const struct stream *st, const struct prof_agg *agg);
	struct stream_limits stream_limits; /* 0: the defaults */
	void *arg;
};

/* Thread of all below: control, but for ses_stats. */

/**
 * ses_new - make a session: checks the options and opens nothing
 * @o: copied, strings too; of the size of this library's
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
 * Drops the results of the capture before. A failure releases everything and kills a command that
 * has not executed yet.
 * Returns: 0; -EBUSY (running), -EINVAL (the rate is over the kernel's limit, the pid is a thread
 * or a kernel thread, a tid of another process, or a cgroup that is none), -ESRCH (no such process
 * or thread, all ended meanwhile, or /proc is of another pid namespace), -ENOENT and -ENOTDIR (a
 * cgroup), -EMFILE, -EPERM or -EACCES (@err has the cause), -ENODEV, -EOPNOTSUPP and the
 * like (event cycles), -ECHILD or errno of execve (the command), -EINTR (ses_interrupt), -ENOMEM;
 * other errors of opening the output, the sampler, the side-band or the threads.
 */
int ses_start(struct ses *s, struct err *err);
/**
 * ses_interrupt - make a start or a snapshot return -EINTR, the one in progress or the next
 * The command of a start is then not started.
 * Thread: any; a signal handler too.
 */
void ses_interrupt(struct ses *s);
/**
 * ses_stop - end the capture, symbolize, write the outputs
 * The command keeps running. After a failure too the session is stopped and can be started again.
 * Returns: 0, -EINVAL (not running), -ENOMEM, -E2BIG, errors of enc_output_commit; if a mode was
 * left out and all else succeeded its error, with ERR_LEFT_OUT.
 */
int ses_stop(struct ses *s, struct err *err);
/**
 * ses_free - end and free it; a running capture leaves no output
 * NULL is accepted. Returns: NULL.
 */
struct ses *ses_free(struct ses *s);
/**
 * ses_running - whether it was started and not stopped since
 */
bool ses_running(const struct ses *s);

/* A profile of a running capture, of its own. All zero: none. */
struct ses_profile {
	struct result_kind kind;
	struct result result;
	uint32_t of;      /* enum pfa_kind */
	uint64_t dropped; /* samples of its time */
	uint64_t unnamed; /* addresses whose names have not arrived */
};
/**
 * ses_snapshot - profile of a running capture
 * @flags: PFA_SNAPSHOT_…
 * @ret: for ses_profile_done; written on success only
 * Samples of consecutive profiles since the last one add up to those of the capture.
 * Returns: 0, -EINVAL (not running, no such profile, unknown flags), -EINTR (ses_interrupt),
 * -ENOMEM, -E2BIG. Cost: a round of the drain thread, and O(frames of all distinct stacks); the
 * tracker is held up for some 10 ms at a time.
 */
int ses_snapshot(struct ses *s, enum pfa_kind kind, uint32_t flags, struct ses_profile *ret,
                 struct err *err);
void ses_profile_done(struct ses_profile *p); /* free it; leaves it zeroed */
/**
 * ses_profile_write - write a profile
 * @format: PFA_PROFILE_PPROF or enum pfa_profile_format
 * Returns: 0, -EINVAL (no such format), -ENOMEM, -E2BIG, errors of enc_output_open and _commit.
 */
int ses_profile_write(const struct ses_profile *p, uint32_t format, const struct pfa_output *to,
                      struct err *err);

/**
 * ses_ended_fd - descriptor that is readable once all processes of the target, or the command,
 * ended Borrowed until ses_stop. -1: all processes are the target, or no capture runs.
 */
int ses_ended_fd(const struct ses *s);
/**
 * ses_command_status - how the command of the newest capture ended
 * @ret: as waitpid gives it; written when 1 is returned
 * Returns: 1 (ended), 0 (runs), -EINVAL (no command), -ECHILD (ended, and another waiter has
 * its status). Reaps the command.
 */
int ses_command_status(struct ses *s, int *ret);
/**
 * ses_command_pid - its number, -EINVAL if there is no command
 */
int ses_command_pid(const struct ses *s);
/**
 * ses_stats - statistics up to now, or of the capture that was stopped
 * While it runs weight is 0: building the profile computes it.
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
 * ses_note, ses_quality - note @i for the user; line @i of the profile's quality
 * Quality lines exist after ses_stop only. NULL past the last. Borrowed until the next start or
 * free.
 */
const char *ses_note(const struct ses *s, size_t i);
const char *ses_quality(const struct ses *s, enum pfa_kind kind, size_t i);
/**
 * ses_add_statistic - add a line to the quality lines of all profiles; RUNNING only
 * @key: lower-case letters, digits and '_'
 * Returns: 0, -EINVAL (@err), -E2BIG, -ENOMEM.
 */
int ses_add_statistic(struct ses *s, const char *key, const char *value, struct err *err);
/**
 * ses_model - the profile of the capture that was stopped; NULL: there is none. Borrowed until the
 * next start or free.
 */
const struct prof_model *ses_model(const struct ses *s, enum pfa_kind kind);
/**
 * ses_top - the hottest functions of the capture that was stopped, by self weight
 * @ret: ret[max]; name is "" for all code of a module that has no names
 * Returns: how many, -EINVAL (no profile: not stopped, or building it failed), -ENOMEM.
 */
int ses_top(const struct ses *s, enum pfa_kind kind, struct pfa_function *ret, size_t max);
/**
 * ses_functions - as result_functions
 * Returns: how many, -EINVAL (no profile), -ENOMEM, -E2BIG.
 */
int ses_functions(const struct ses *s, enum pfa_kind kind, bool by_process,
                  struct pfa_hot_function *ret, size_t max);
/**
 * ses_top_offcpu_sites - functions in which threads were blocked in the stopped capture, longest first
 * @ret: ret[max]
 * As result_sites.
 * Returns: how many, -EINVAL (no off-CPU profile), -ENOMEM, -E2BIG. Cost: O(frames of all samples).
 */
int ses_top_offcpu_sites(const struct ses *s, struct pfa_offcpu_site *ret, size_t max);
/**
 * ses_metrics - scheduler statistics of the stopped capture, NULL: there are none
 * Borrowed until the next start or free.
 */
const struct met_snapshot *ses_metrics(const struct ses *s);
/**
 * ses_add_enricher - add a call-back that gives labels to processes
 * ses_stop calls all of them once a process, in the order in which they were added. Their labels
 * are string labels of all samples of the process and of its entry in the metrics. Stays for later
 * captures.
 * Returns: 0, -EINVAL, -EBUSY (running), -E2BIG (PFA_ENRICHERS_MAX).
 */
int ses_add_enricher(struct ses *s, pfa_enrich_fn fn, void *arg, struct err *err);
/**
 * ses_modes_run - PFA_MODE_…: modes of the capture without those that were left out; 0: it never
 * started
 */
uint32_t ses_modes_run(const struct ses *s);
/**
 * ses_modes_written - modes whose output ses_stop has written completely, whatever it returned
 */
uint32_t ses_modes_written(const struct ses *s);
/**
 * ses_extra_written - extra outputs that ses_stop has written completely: bit i for number i
 */
uint32_t ses_extra_written(const struct ses *s);
/**
 * ses_weight_unit - "nanoseconds" or, once ses_start has chosen that event, "cycles"; static
 */
const char *ses_weight_unit(const struct ses *s);

#endif
