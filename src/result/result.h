/* SPDX-License-Identifier: Apache-2.0 */
/*
 * result - makes a profile: a function of the aggregation, of resolved and symbolized addresses and
 * of the measured time. It changes none of them and does not depend on the end of the capture, so a
 * running one can have a profile as well.
 *
 * Thread: the owner of the aggregation.
 */
#ifndef PA_RESULT_H
#define PA_RESULT_H

#include "event/event.h"
#include "jit/jit.h"
#include "metrics/metrics.h"
#include "perfagent/perfagent.h"
#include "profile/profile.h"
#include "sampler/sampler.h"
#include "symbolize/symbolize.h"
#include "track/track.h"

/* ---- the target's on-CPU time -----------------------------------------------------------------
 */

/* Weights of samples by the time between switch events: result_cpu_time.c says why. */
struct result_cpu_time;
struct result_cpu_time_total {
	uint64_t ran_ns;
	uint64_t seen; /* unscaled weight of samples, kept or dropped; without the agent's */
};
/**
 * result_cpu_time_new, result_cpu_time_free - begin without threads; NULL is accepted, free returns
 * NULL
 * @few: threads whose samples weigh less share a ratio of time to weight
 * Returns: 0, -ENOMEM.
 */
int result_cpu_time_new(uint64_t few, struct result_cpu_time **ret);
struct result_cpu_time *result_cpu_time_free(struct result_cpu_time *t);
/**
 * result_cpu_time_add - add the sums of a thread
 * Returns: 0, -ENOMEM, -E2BIG.
 */
int result_cpu_time_add(struct result_cpu_time *t, const struct smp_cpu_time *v);
/**
 * result_cpu_time_add_rest - add the sums of threads without an entry, which share a ratio however
 * many samples they have
 */
void result_cpu_time_add_rest(struct result_cpu_time *t, uint64_t ran_ns, uint64_t seen);
/**
 * result_cpu_time_total - sums of all threads; borrowed until the next change
 */
const struct result_cpu_time_total *result_cpu_time_total(const struct result_cpu_time *t);
/**
 * result_cpu_time_weight - returns the weight of a count, scaled to the time of its thread
 */
uint64_t result_cpu_time_weight(const struct result_cpu_time *t, const struct ev_count *c);

/* Time and weight of each thread at one moment of a capture. All zero: empty. */
struct result_cpu_reading {
	VEC(struct smp_cpu_time) threads;
	struct result_cpu_time_total rest; /* threads without an entry */
	uint64_t few;                      /* as for result_cpu_time_new; 0: not read */
};
/**
 * result_cpu_reading_add - add the sums of a thread
 * Returns: 0, -ENOMEM.
 */
int result_cpu_reading_add(struct result_cpu_reading *r, const struct smp_cpu_time *v);
void result_cpu_reading_done(struct result_cpu_reading *r); /* free it; leaves it zeroed */
/**
 * result_cpu_time_between - measured time between two readings of a capture
 * @before: NULL: from the start of the capture on
 * @after: its rest is raised where it lacks time that @before has: a thread without an entry now may
 *         not be in the rest yet
 * Time of a thread whose entry is gone is in the rest now. So time between is counted once: sums
 * over consecutive readings are those of the last one.
 * Returns: 0, -ENOMEM, -E2BIG.
 */
int result_cpu_time_between(const struct result_cpu_reading *before,
                            struct result_cpu_reading *after, struct result_cpu_time **ret);

/* ---- meaning of addresses ---------------------------------------------------------------------
 */

/* The file of an uncovered frame: no rule covers it, so its caller was found heuristically. */
struct result_uncovered {
	uint32_t image; /* 0: in no known mapping */
	bool bare;      /* it has no table now */
};

/* Call-backs that give addresses their meaning: from the tracker and the symbolizer of a capture,
 * from tables in tests. */
struct result_source {
	uint32_t n_images; /* ids 1 … n_images */
	const struct trk_image *(*image)(void *arg, uint32_t id);
	/* Resolves a raw frame of a process to its mapping; it stays RAW if there is none. */
	void (*resolve)(void *arg, const struct ev_proc_id *proc, const struct ev_frame *raw,
	                struct ev_frame *ret);
	/* As trk_resolve_image. */
	int (*mapping)(void *arg, const struct ev_proc_id *proc, uint32_t image, uint64_t off,
	               struct trk_location *ret);
	/* As trk_main_image, of the newest program of a pid. */
	uint32_t (*main_image)(void *arg, uint32_t pid);
	/* As trk_comm: the name of a process whose main thread has no sample. NULL: not known. */
	const char *(*comm)(void *arg, const struct ev_proc_id *proc);
	/* As trk_proc_reason. */
	enum ev_reason (*proc_reason)(void *arg, const struct ev_proc_id *proc);
	/* As symbolizer_find. */
	struct sym_named (*name)(void *arg, uint32_t image, uint64_t addr);
	/* Whether the caller of frame @i of a heuristic stack was found heuristically; @any: one of
	 * an earlier frame of it was. @placed: the frame resolved. */
	bool (*uncovered)(void *arg, const struct ev_stack *st, uint32_t i,
	                  const struct ev_frame *resolved, bool any, struct result_uncovered *ret);
	/* Returns the labels of a process: 0 with (*ret)[*ret_n], at most PFA_LABELS_MAX, borrowed
	 * until the next call; -ENOMEM. NULL: there are none. */
	int (*labels)(void *arg, const struct ev_count *c, const char *comm,
	              const struct met_label **ret, uint32_t *ret_n);
	struct jit *jit; /* may be NULL */
	void *arg;
};

/* ---- the profile ------------------------------------------------------------------------------
 */

/* The kind and the time of a profile. */
struct result_kind {
	bool offcpu;       /* counts with a state; else those without */
	bool cycles;       /* on-CPU weights are cycles, else nanoseconds */
	bool all;          /* the whole machine: the main mapping is the kernel */
	bool freq;         /* the kernel chose periods: the profile has their mean */
	const char *event; /* "cpu-clock": static; for the line "event" */
	uint32_t rate_hz;  /* for the line "sample_rate_hz"; 0: none */
	uint32_t target_pid;
	uint64_t period;
	uint64_t begin_realtime_ns, duration_ns;
	prof_skip_fn skip; /* leaves that lists of top functions pass over; NULL: none */
};

/* Quality of the stacks, in weight. */
struct result_quality {
	uint64_t weight;
	/* Weight of samples with a user stack: kernel threads and exiting tasks have none. */
	uint64_t user_weight;
	uint64_t walk[EV_WALK_CNT]; /* by outcome of the user walk */
	uint64_t kernel_cut, stack_lost;
	/* Frames times weight, which may exceed 64 bits; and the part of frames with a name. */
	double user_frames, user_named, kernel_frames, kernel_named;
	uint64_t reason_frames[EV_REASON_CNT]; /* distinct frames by reason */
	uint64_t heuristic, jit;               /* user stacks with such a frame */
	/* User walks that did not reach their root, by the image of their last frame:
	 * incomplete[n_incomplete], by id; [0] JIT code. NULL: none. */
	uint64_t *incomplete;
	uint32_t n_incomplete;
	uint64_t incomplete_unknown; /* last frame in no known mapping, or no frame */
	/* Heuristic stacks by the image of a frame without a rule: heuristic_in[2 * n_incomplete],
	 * two for each image: it has a table, and it has none; [0]: no known mapping. A stack
	 * counts for each of its images. NULL: none. */
	uint64_t *heuristic_in;
	uint64_t heuristic_early; /* stacks whose frames all have a rule by now */
	/* Weight of samples whose innermost user frame has no name, by the id of its location less
	 * one: unnamed[n_unnamed]; NULL: none. */
	uint64_t *unnamed;
	size_t n_unnamed;
};

struct result {
	struct prof_model *model; /* NULL: it could not be made */
	uint64_t kept, weight;    /* samples or intervals in it, and their weight */
	uint64_t dropped;         /* over a limit of the profile, or without memory */
	uint64_t lost_stacks;     /* samples in it whose stack was lost */
	/* By index of the aggregation's counts: index in the model's samples; UINT32_MAX: it has
	 * none of this count. samples_of[n_samples_of]; NULL: no sample was added. */
	uint32_t *samples_of;
	size_t n_samples_of;
	struct result_quality quality;
	/* Names of processes: the pids of the labels, and the strings by their numbers there. */
	struct intern *pids;
	VEC(uint32_t) comms;
};

/**
 * result_build - build the profile of one kind
 * @before: an earlier error of the caller: if negative all samples are dropped, and it is returned
 * @cpu_time: scales the weights of on-CPU samples; NULL: weights stay
 * @ret: zeroed; filled as far as possible, also after a failure; for result_done
 * Samples that do not fit are dropped, and counted in @ret.
 * Returns: 0, -ENOMEM, -E2BIG. Cost: O(frames of all distinct stacks).
 */
int result_build(const struct prof_agg *agg, const struct result_kind *kind,
                 const struct result_source *src, const struct result_cpu_time *cpu_time,
                 int before, struct result *ret);
/**
 * result_traced_frames - returns how many frames at the top of an off-CPU kernel stack are left out
 * of profiles: the scheduler, its tracepoint and our program
 * @src: only its names are used
 */
uint32_t result_traced_frames(const struct result_source *src, const struct ev_stack *st);
/**
 * result_done - free the model and what belongs to it; leaves it zeroed
 */
void result_done(struct result *r);
/**
 * result_name_process - name the process with this pid, unless it has a name
 * Returns: 0, -ENOMEM, -E2BIG.
 */
int result_name_process(struct result *r, uint32_t pid, const char *name);
/**
 * result_has_user_stack - kernel threads have none, and tasks whose mm is released have none any
 * more
 */
static inline bool result_has_user_stack(enum ev_walk walk)
{
	return walk != EV_WALK_NONE && walk != EV_WALK_LEFT;
}

/* ---- quality lines ------------------------------------------------------------------------- */

/* Lines "key: value", each malloc'ed. All zero: none. */
struct result_lines {
	VEC(char *) v;
	int error; /* of the first line that could not be added; later lines are dropped */
};
#define RESULT_LINES_MAX 1024
/**
 * result_line - add a line
 * Returns: 0, -ENOMEM, -E2BIG, or the error of an earlier line.
 */
int result_line(struct result_lines *l, const char *fmt, ...) PRINTF_FMT(2, 3);
void result_lines_done(struct result_lines *l); /* free all; leaves it zeroed */
/**
 * result_pct - a share in percent; 0 if @whole is 0
 */
static inline double result_pct(uint64_t part, uint64_t whole)
{
	return whole ? 100.0 * (double)part / (double)whole : 0.0;
}

/* ---- functions -------------------------------------------------------------------------------- */

/**
 * result_functions - functions of a profile by self value, then cum, then name
 * @skip: leaves that are passed over; NULL: none
 * @by_process: an entry for each function and process name
 * @ret: ret[max], max at most 1,000,000; strings are the model's
 * The value of a leaf that evaluates a function with a name is that function's. A process without
 * a name has that of the thread.
 * Returns: how many, -ENOMEM, -E2BIG. Cost: O(frames of all samples).
 */
int result_functions(const struct result *r, prof_skip_fn skip, bool by_process,
                     struct pfa_hot_function *ret, size_t max);

/* ---- off-CPU ----------------------------------------------------------------------------------
 */

/**
 * result_sites - functions of programs in which threads were blocked, longest first
 * @m: an off-CPU profile; @ret: ret[max]; strings are the model's
 * An interval belongs to the innermost frame of the program's own code (prof_owner), else of a run
 * time, else to the innermost user frame, else to the kernel function. Addresses without a name are
 * one entry for each module and kernel function.
 * Returns: how many, -ENOMEM, -E2BIG. Cost: O(frames of all samples).
 */
int result_sites(const struct prof_model *m, struct pfa_offcpu_site *ret, size_t max);

#endif
