/* SPDX-License-Identifier: Apache-2.0 */
/*
 * deferred - unwind tables on demand, and the samples that wait for them.
 *
 * The programs count in abi_image.wanted how often they met an image without a table. A sample that
 * met one is deferred: the kernel side sends registers and a stack snapshot, which user space
 * unwinds once the table exists. W looks at both and has the most wanted tables built by a pool, a
 * few at a time. Thread: D adds samples; W rounds, receives, finishes; C the rest, before and after
 * them.
 */
#ifndef PA_DEFERRED_H
#define PA_DEFERRED_H

#include "bpf/abi/abi.h"
#include "profile/profile.h"
#include "sampler/sampler.h"
#include "tally/tally.h"
#include "track/track.h"
#include "unwind/unwind.h"

struct deferred;
struct deferred_sample;

struct deferred_options {
	struct tally *tally;
	struct trk *trk;
	struct prof_agg *agg; /* D's; C merges into it */
	/* Memory of the kernel side for rules and tables, borrowed for deferred_new; backing NULL:
	 * there are no tables, nothing is deferred. */
	const struct uw_rules_mem *rules;
	const struct uw_backing *backing;
	struct abi_control *control;
	uint64_t budget_bytes; /* of tables */
	bool all;              /* every image that is mapped is wanted, until the budget is full */
	uint64_t hash_seed;    /* of stacks */
	/* D: moves a sample to W, which gives it to deferred_receive. False: no room. */
	bool (*push)(void *arg, struct deferred_sample *k);
	/* Pool: a table came; W should have a round soon. */
	void (*wake)(void *arg);
	/* W: a frame that was found; look-up address. */
	void (*symbolize)(void *arg, uint32_t image, uint64_t addr);
	/* W: a sample was unwound; may change the count. */
	void (*walked)(void *arg, struct ev_count *count, const struct ev_stack *st);
	/* W: reads more of the stack of a thread that is still blocked: into @stack,
	 * SMP_STACK_BYTES long. False: it is not, or may not be read. May be NULL. */
	bool (*reread)(void *arg, struct ev_deferred *c, uint8_t *stack);
	void *arg;
	/* D: samples that the kernel side has unwound too. May be NULL. */
	void (*compare)(void *arg, const struct ev_deferred *c);
	void *compare_arg;
};

/**
 * deferred_new, deferred_free - no table yet; NULL is accepted, free returns NULL; its pool has
 * ended Returns: 0, -EINVAL, -ENOMEM.
 */
int deferred_new(const struct deferred_options *o, struct deferred **ret, struct err *err);
struct deferred *deferred_free(struct deferred *d);
/**
 * deferred_use - the pool that builds tables, before anything is wanted
 */
void deferred_use(struct deferred *d, struct pool *pool);
/**
 * deferred_prepare - with `all`: build the tables of all images that are known, for at most a
 * minute
 * @check: asked again and again; negative ends the wait
 * @ret_ns: how long it took
 * Returns: 0, what @check returned. Thread: C, before W is started.
 */
int deferred_prepare(struct deferred *d, int (*check)(void *arg), uint64_t *ret_ns);

/**
 * deferred_add - a deferred sample; one that finds no room is counted without its stack. Thread: D.
 */
void deferred_add(struct deferred *d, const struct ev_deferred *c);
/**
 * deferred_room - how many samples of SMP_STACK_BYTES may be added now, with room left for others
 * Thread: D.
 */
size_t deferred_room(const struct deferred *d);

/**
 * deferred_receive - a sample that `push` has moved here. Thread: W.
 */
void deferred_receive(struct deferred *d, struct deferred_sample *k);
/**
 * deferred_sample_free - one that nobody received
 */
void deferred_sample_free(struct deferred_sample *k);
/**
 * deferred_hurry - what samples wait for may be there: look at them in the next round
 * @table: a table came, else side-band events were read. Thread: W.
 */
void deferred_hurry(struct deferred *d, bool table);
/**
 * deferred_round - have wanted tables built; unwind samples whose tables came. Thread: W.
 */
void deferred_round(struct deferred *d, uint64_t now);
/**
 * deferred_finish - wait some seconds for tables that samples still need, then unwind all that are
 * left. Thread: W, at its end.
 */
void deferred_finish(struct deferred *d);
/**
 * deferred_merge - add the samples to the aggregation. Thread: C, after D and W.
 */
void deferred_merge(struct deferred *d);
/**
 * deferred_count - count what became of tables and rules. Thread: C, after W.
 */
void deferred_count(struct deferred *d);
/**
 * deferred_abandon - the capture is thrown away: wait for nothing at its end. Thread: C.
 */
void deferred_abandon(struct deferred *d);
/**
 * deferred_cancel - build no more tables
 * @if_abandoned: only where that was said. Thread: C.
 */
void deferred_cancel(struct deferred *d, bool if_abandoned);
/**
 * deferred_has_tables - is anything deferred at all? Thread: any.
 */
bool deferred_has_tables(const struct deferred *d);

/* A file whose code had a frame without a rule, so that its caller was found heuristically. */
struct deferred_uncovered {
	uint32_t image; /* 0: no mapping was known there */
	bool bare;      /* it has no table now: none to be had, evicted for others, or not built */
};
/**
 * deferred_uncovered_at - was the caller of frame @i of a heuristic stack found heuristically?
 * @placed: the frame resolved to a mapping
 * @any: one of an earlier frame of this stack was
 * @ret: its file; written when true is returned
 * As far as the tables of now tell. Thread: C, after W.
 */
bool deferred_uncovered_at(struct deferred *d, const struct ev_stack *st, uint32_t i,
                           const struct ev_frame *placed, bool any, struct deferred_uncovered *ret);

#endif
