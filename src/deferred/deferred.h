/* SPDX-License-Identifier: Apache-2.0 */
/*
 * deferred - unwind tables on demand, and the deferred samples that need them.
 *
 * The programs count in abi_image.wanted how often a walk reached an image without a table. Such a
 * sample is deferred: the kernel side sends registers and a stack snapshot, which user space
 * unwinds once the table exists. The tracker has the most wanted tables built by a pool, a few at
 * a time. Thread: the drain adds samples; the tracker rounds, receives, finishes; control calls the
 * rest, before and after them.
 */
#ifndef PA_DEFERRED_H
#define PA_DEFERRED_H

#include "bpf/abi/abi.h"
#include "profile/profile.h"
#include "sampler/sampler.h"
#include "stream/stream.h"
#include "tally/tally.h"
#include "track/track.h"
#include "unwind/unwind.h"

struct deferred;
struct deferred_sample;

struct deferred_options {
	struct tally *tally;
	struct trk *trk;
	struct prof_agg *agg;  /* the drain's; control merges into it */
	struct stream *stream; /* likewise; NULL: none */
	/* Memory of the kernel side for rules and tables, borrowed for deferred_new. backing NULL:
	 * no tables, no sample is deferred. */
	const struct uw_rules_mem *rules;
	const struct uw_backing *backing;
	struct abi_control *control;
	uint64_t budget_bytes; /* of tables */
	bool all;              /* build tables of all mapped images, until the budget is full */
	uint64_t hash_seed;    /* of stacks */
	/* Drain: moves a sample to the tracker, which calls deferred_receive. False: no room. */
	bool (*push)(void *arg, struct deferred_sample *k);
	/* Pool: a table was built; the tracker should do a round soon. */
	void (*wake)(void *arg);
	/* Tracker: requests the name of a frame; look-up address. */
	void (*symbolize)(void *arg, uint32_t image, uint64_t addr);
	/* Tracker: a sample was unwound; may change the count. */
	void (*walked)(void *arg, struct ev_count *count, const struct ev_stack *st);
	/* Tracker: reads more of the stack of a thread that is still blocked: into @stack,
	 * SMP_STACK_BYTES long. False: it is not, or may not be read. May be NULL. */
	bool (*reread)(void *arg, struct ev_deferred *c, uint8_t *stack);
	void *arg;
	/* Drain: gets samples that the kernel side has unwound as well. May be NULL. */
	void (*compare)(void *arg, const struct ev_deferred *c);
	void *compare_arg;
};

/**
 * deferred_new, deferred_free - an object without tables; free accepts NULL and returns NULL
 * Free it after its pool. Returns: 0, -EINVAL, -ENOMEM.
 */
int deferred_new(const struct deferred_options *o, struct deferred **ret, struct err *err);
struct deferred *deferred_free(struct deferred *d);
/**
 * deferred_use - set the pool that builds tables, before any is wanted
 */
void deferred_use(struct deferred *d, struct pool *pool);
/**
 * deferred_prepare - with `all`: build the tables of all known images, for at most a minute
 * @check: called repeatedly; a negative value ends the wait
 * @ret_ns: how long it took
 * Returns: 0, what @check returned. Thread: control, before the tracker is started.
 */
int deferred_prepare(struct deferred *d, int (*check)(void *arg), uint64_t *ret_ns);

/**
 * deferred_add - add a deferred sample. Without room it is counted without its stack
 * Thread: drain.
 */
void deferred_add(struct deferred *d, const struct ev_deferred *c);
/**
 * deferred_room - number of samples of SMP_STACK_BYTES that may be added, with some room to spare
 * Thread: drain.
 */
size_t deferred_room(const struct deferred *d);

/**
 * deferred_receive - add a sample that `push` has moved to the tracker. Thread: tracker.
 */
void deferred_receive(struct deferred *d, struct deferred_sample *k);
/**
 * deferred_sample_free - free a sample that was not received
 */
void deferred_sample_free(struct deferred_sample *k);
/**
 * deferred_hurry - retry deferred samples in the next round
 * @table: a table was built; else side-band events were read. Thread: tracker.
 */
void deferred_hurry(struct deferred *d, bool table);
/**
 * deferred_round - have wanted tables built; unwind samples whose tables exist. Thread: tracker.
 */
void deferred_round(struct deferred *d, uint64_t now);
/**
 * deferred_finish - wait some seconds for tables that samples still need, then unwind the rest
 * Thread: tracker, at its end.
 */
void deferred_finish(struct deferred *d);
/**
 * deferred_merge - add the samples to the aggregation
 * Thread: control, after the drain and the tracker.
 */
void deferred_merge(struct deferred *d);
/* How far its samples were copied. All zero: none were. */
struct deferred_seen {
	struct prof_seen walked;
	size_t cut;
};
/**
 * deferred_copy_changes - as prof_agg_copy_changes, of the samples that were unwound so far
 * @seen: updated; deferred_seen_done frees it
 * Thread: tracker. Returns: 0, -ENOMEM.
 */
int deferred_copy_changes(struct deferred *d, struct deferred_seen *seen, struct prof_agg *to,
                          struct prof_agg *const since[2]);
void deferred_seen_done(struct deferred_seen *seen);
/**
 * deferred_count - add the statistics of tables and rules to the tally
 * Thread: control, after the tracker.
 */
void deferred_count(struct deferred *d);
/**
 * deferred_abandon - the capture is discarded: do not wait at its end. Thread: control.
 */
void deferred_abandon(struct deferred *d);
/**
 * deferred_cancel - build no more tables
 * @if_abandoned: only after deferred_abandon(). Thread: control.
 */
void deferred_cancel(struct deferred *d, bool if_abandoned);
/**
 * deferred_has_tables - is anything deferred at all? Thread: any.
 */
bool deferred_has_tables(const struct deferred *d);

/* A file with an uncovered frame: without a rule, its caller was found heuristically. */
struct deferred_uncovered {
	uint32_t image; /* 0: no mapping is known there */
	bool bare;      /* it has no table now: none exists, evicted, or not built */
};
/**
 * deferred_uncovered_at - is frame @i of a heuristic stack uncovered?
 * @resolved: the frame, resolved to a mapping
 * @any: an earlier frame of this stack is uncovered
 * @ret: its file; written when true is returned
 * Judged by the tables of now. Thread: control, after the tracker.
 */
bool deferred_uncovered_at(struct deferred *d, const struct ev_stack *st, uint32_t i,
                           const struct ev_frame *resolved, bool any,
                           struct deferred_uncovered *ret);

#endif
