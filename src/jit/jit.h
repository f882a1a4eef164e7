/* SPDX-License-Identifier: Apache-2.0 */
/*
 * jit - names of JIT code: perf-maps and jitdumps of processes that were sampled in code without a
 * file, and the epochs of their counts.
 *
 * The drain finds stacks with such frames and reports processes and addresses. The tracker reads the
 * files, and requests the end of an epoch when the code at a sampled address was replaced. The drain
 * ends the epoch by draining the counts so far. Control reads the files for the last time, and looks
 * up the names that held when the epoch of a count began. Each function states its thread; before
 * and after drain and tracker run, all belong to control.
 */
#ifndef PA_JIT_H
#define PA_JIT_H

#include "event/event.h"
#include "profile/profile.h"
#include "jitcode/jitcode.h"
#include "tally/tally.h"

#define JIT_ADDRS 32 /* addresses reported at a time */

struct jit;

struct jit_options {
	struct tally *tally;
	const struct prof_agg *agg; /* the drain's: stacks by hash */
	uint64_t interval_ns;       /* of drains; files are checked as often */
	/* Processes that may have mapped a jitdump before the capture: targets[n_targets],
	 * borrowed. */
	const uint32_t *targets;
	uint32_t n_targets;
	/* Drain: reports a process and the addresses where it was sampled; n <= JIT_ADDRS. False:
	 * no room, reported again with the next count. */
	bool (*sampled)(void *arg, const struct ev_proc_id *id, const uint64_t *addrs, uint32_t n);
	/* Drain: drains the counts so far, which belong to the epoch before @epoch. @drain: the
	 * argument of jit_drained. */
	void (*end_epoch)(void *arg, void *drain, uint16_t epoch);
	/* Tracker, control: path of an image, or NULL; is a process of this number tracked? */
	const char *(*image_path)(void *arg, uint32_t image);
	bool (*is_tracked)(void *arg, uint32_t pid);
	void *arg;
};

/**
 * jit_new, jit_free - an object without processes; free accepts NULL and returns NULL
 * Returns: 0, -ENOMEM.
 */
int jit_new(const struct jit_options *o, struct jit **ret);
struct jit *jit_free(struct jit *j);
/**
 * jit_begin - sampling begins now
 * @start_ns: CLOCK_MONOTONIC; the first epoch begins then
 */
void jit_begin(struct jit *j, uint64_t start_ns);

/**
 * jit_add_stack - a new stack. Thread: drain.
 */
void jit_add_stack(struct jit *j, const struct ev_stack *st);
/**
 * jit_stamp - give a count its epoch if its stack has frames in JIT code, and report its process
 * Thread: drain.
 */
void jit_stamp(struct jit *j, struct ev_count *c);
/**
 * jit_stamp_deferred - the same for a deferred sample, whose frames are not known yet
 * Thread: drain.
 */
void jit_stamp_deferred(struct jit *j, struct ev_count *c);
/**
 * jit_drained - the rings were drained: ends the epoch if the tracker asked for it
 * @drain: handed to end_epoch
 * Thread: drain.
 */
void jit_drained(struct jit *j, void *drain);

/**
 * jit_watch - watch the code at addresses where a process was sampled. Thread: tracker.
 */
void jit_watch(struct jit *j, const struct ev_proc_id *id, const uint64_t *addrs, uint32_t n);
/**
 * jit_walked - a deferred sample was unwound: @count loses its epoch if no frame is in JIT code
 * Thread: tracker. NULL is accepted.
 */
void jit_walked(struct jit *j, struct ev_count *count, const struct ev_stack *st);
/**
 * jit_event - a side-band event, after the tracker has handled it. Thread: tracker.
 */
void jit_event(struct jit *j, const struct ev_proc *ev);
/**
 * jit_round - read files that have grown, for a bounded time
 * @n_images: number of images that the tracker has
 * Thread: tracker.
 */
void jit_round(struct jit *j, uint64_t now, uint32_t n_images);

/**
 * jit_want - track the process of a count that turned out to have frames in JIT code
 * NULL is accepted. Thread: control.
 */
void jit_want(struct jit *j, const struct ev_count *c);
/**
 * jit_finish - read all files for the last time; count and note failures
 * NULL is accepted. Thread: control.
 */
void jit_finish(struct jit *j);
/**
 * jit_maybe - can this frame be in JIT code?
 * JIT code is in no file, or in a memfd (.NET). Thread: tracker, control. NULL is accepted.
 */
bool jit_maybe(const struct jit *j, const struct ev_frame *f);
/**
 * jit_any - is there a process with such code? NULL is accepted. Thread: control.
 */
bool jit_any(const struct jit *j);
/**
 * jit_find_proc - number of a process for jit_name, 0 if it has no names. NULL is accepted.
 */
uint32_t jit_find_proc(const struct jit *j, const struct ev_proc_id *id);
/**
 * jit_name - name of the code at an address when an epoch began
 * @proc: from jit_find_proc
 * @ret: its frames are valid until the next call
 * Returns: false if nothing is known. Thread: control.
 */
bool jit_name(struct jit *j, uint32_t proc, uint16_t epoch, uint64_t addr, struct sym_named *ret);

#endif
