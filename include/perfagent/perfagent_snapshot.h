/* SPDX-License-Identifier: Apache-2.0 */
/*
 * perfagent_snapshot.h - profiles of a capture that runs
 *
 * A snapshot is a profile of what a capture has sampled so far, or since the snapshot before. The
 * capture goes on, and its end result is the same as without snapshots. Live views and programs
 * that export profiles periodically are made of them:
 *
 *     struct pfa_profile *p = NULL;
 *     struct pfa_function top[10];
 *
 *     while (!done && pfa_snapshot(s, PFA_KIND_ONCPU, PFA_SNAPSHOT_SINCE_LAST, &p, &err) == 0) {
 *             int n = pfa_profile_top(p, PFA_BY_SELF, top, 10);
 *             …
 *             pfa_profile_free(p);
 *             sleep(1);
 *     }
 *
 * examples/snapshots.c is a complete program. The conventions of perfagent.h hold. A profile does
 * not depend on its session: it is valid until pfa_profile_free, and any one thread at a time may
 * use it.
 */
#ifndef PERFAGENT_SNAPSHOT_H
#define PERFAGENT_SNAPSHOT_H

#include <perfagent/perfagent.h>

#ifdef __cplusplus
extern "C" {
#endif

struct pfa_profile;

/* Contents of a snapshot, in the flags of pfa_snapshot. */
/* The samples since the last snapshot of this kind with this flag, or since the start. Without it,
 * all samples since the start. Consecutive profiles share no sample, and together have all of
 * them. */
#define PFA_SNAPSHOT_SINCE_LAST (1u << 0)
/* The moment of the snapshot before, which may be of the other kind or without the flag above.
 * Nothing is read from the kernel, so several views of one moment agree and cost less. At the first
 * snapshot of a capture it has no effect. */
#define PFA_SNAPSHOT_SAME_MOMENT (1u << 1)
/* OFFCPU: with the open intervals of threads that are off-CPU for a second or more, up to this moment; with
 * SINCE_LAST, the part of them since the last snapshot. Without the flag an interval is in the profile
 * of the time in which it ended, as a whole. Together with SAME_MOMENT it needs the flag at the
 * snapshot before, of whatever kind. With offcpu_max_ns an interval is left out until the thread is woken: its
 * length is not known before. */
#define PFA_SNAPSHOT_OPEN (1u << 2)

/* RUNNING: makes a profile of one kind, enum pfa_kind. *@ret is written on success only.
 *
 *   - Names are asked for if they are not known, and waited for 100 ms at most. Functions without
 *     one have their address until a later snapshot.
 *   - Weights of on-CPU samples are scaled to the CPU time of the same interval. So weights of
 *     consecutive profiles add up to the CPU time, and samples to the samples of the capture.
 *   - Off-CPU intervals are in the profile once they have ended, or with PFA_SNAPSHOT_OPEN.
 *   - From the first snapshot on, the session keeps a copy of its counts: twice the memory.
 *   - Enrichers are called, in the calling thread, for processes that are new.
 *
 * Returns 0, or:
 *
 *     -EINVAL   not RUNNING, a kind that the capture does not have, or unknown flags
 *     -EINTR    pfa_interrupt; a SINCE_LAST profile then has more the next time, nothing is lost
 *     -EBUSY    in a call-back
 *     -ENOMEM   out of memory
 */
PFA_API int pfa_snapshot(struct pfa_session *s, uint32_t kind, uint32_t flags,
                         struct pfa_profile **ret, struct pfa_error *err);

/* Frees a profile; NULL is allowed. */
PFA_API void pfa_profile_free(struct pfa_profile *p);

/* Sums of a profile. */
struct pfa_profile_totals {
	size_t size; /* sizeof(struct pfa_profile_totals); set by the caller */
	uint32_t kind;
	uint32_t reserved0;
	uint64_t samples;                        /* ONCPU: samples; OFFCPU: intervals */
	uint64_t weight;                         /* nanoseconds; ONCPU by cycles: cycles */
	uint64_t begin_realtime_ns, duration_ns; /* of the profile: since 1970, and its length */
	uint64_t dropped;     /* samples of this time that were lost, for all reasons */
	uint64_t stacks_lost; /* samples in the profile without their stack */
	uint64_t unnamed;     /* distinct addresses whose names have not arrived yet */
};

/* Fills *@ret; ret->size must be set. Returns 0 or -EINVAL. */
PFA_API int pfa_profile_totals(const struct pfa_profile *p, struct pfa_profile_totals *ret);

/* The order of lists. */
enum pfa_order {
	PFA_BY_SELF = 0,
	PFA_BY_CUM = 1,
};

/* Fills @ret with the first @max functions, by descending weight. Strings are valid until
 * pfa_profile_free; so are those of the functions below. Returns how many, or a negative errno. */
PFA_API int pfa_profile_top(const struct pfa_profile *p, uint32_t order, struct pfa_function *ret,
                            size_t max);

/* A process, or one of its threads. */
struct pfa_task {
	uint32_t pid; /* 0: not in the pid namespace of the caller */
	uint32_t tid; /* 0: all threads of the process */
	/* The name of the thread; of a process that of its main thread, or of another one if that
	 * was not sampled. "": unknown. */
	const char *comm;
	uint64_t samples, weight;
};

/* Fills @ret with the @max processes, or threads, of most weight. Returns how many, or a negative
 * errno. */
PFA_API int pfa_profile_processes(const struct pfa_profile *p, struct pfa_task *ret, size_t max);
PFA_API int pfa_profile_threads(const struct pfa_profile *p, struct pfa_task *ret, size_t max);

/* OFFCPU: as pfa_top_offcpu_sites. In a SINCE_LAST profile longest_ns is an upper bound. */
PFA_API int pfa_profile_offcpu_sites(const struct pfa_profile *p, struct pfa_offcpu_site *ret,
                                     size_t max);

/* Fills @ret with the @max callers of most weight of a chain of functions: @path has a function,
 * its caller, the caller of that one and so on, NULL-terminated. self and cum of a caller are both
 * the weight of the samples in which it calls the chain. The name "" is the end of the stack.
 * Returns how many; -EINVAL if @path is empty. */
PFA_API int pfa_profile_callers(const struct pfa_profile *p, const char *const *path,
                                struct pfa_function *ret, size_t max);

/* A format of pfa_profile_write besides those of enum pfa_profile_format: gzipped pprof. */
#define PFA_PROFILE_PPROF 0u

/* Writes a profile as @format to @to, of which exactly one of path, fd and write is set. Returns 0,
 * -EINVAL, -ENOMEM, what the call-back returned, or an error of the output. */
PFA_API int pfa_profile_write(const struct pfa_profile *p, uint32_t format,
                              const struct pfa_output *to, struct pfa_error *err);

/* The same of the sum of profiles p[n] of one kind, such as consecutive ones since the last. @focus: NULL, or
 * NULL-terminated: only the samples that have, for each of these regular expressions, a frame that matches it;
 * see focus of struct pfa_report_options. Returns also -EINVAL for none or different kinds or for an expression
 * that is none, and -ENOENT if no sample is left. */
PFA_API int pfa_profiles_write(const struct pfa_profile *const *p, size_t n,
                               const char *const *focus, uint32_t format,
                               const struct pfa_output *to, struct pfa_error *err);

#ifdef __cplusplus
}
#endif
#endif
