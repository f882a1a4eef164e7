/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PA_RESULT_PRIV_H
#define PA_RESULT_PRIV_H

#include "result/result.h"

/* A part of an image in the profile: one mapping for all processes that map it. */
struct result_stretch {
	uint32_t mapping; /* model id */
	uint64_t pgoff, len, start;
};

struct result_image {
	VEC(struct result_stretch) v;
};

/* The outcome of the walk of a stack. */
struct result_outcome {
	uint8_t walk;  /* enum ev_walk */
	uint8_t flags; /* EV_STACK_* */
	uint8_t space; /* enum ev_space of the last frame; RAW where there is none */
	bool shared;   /* its frames do not depend on the process */
	uint32_t image;
	uint32_t uncovered,
	        n_uncovered; /* uncovered[uncovered], …: where callers were found heuristically */
};

/* The cached locations of a stack whose frames do not depend on the process. */
struct result_stack {
	uint32_t first, n;
	struct result_outcome o;
};

/* Cache of frames: most frames of a stack were in others before, and the table of all is several
 * times as large as a CPU cache. */
#define RESULT_CACHE_FRAMES 8192

struct result_cached {
	struct ev_frame frame;
	uint32_t loc; /* 0: free */
};

/* Strings of the model that every sample needs. */
struct result_keys {
	uint32_t pid, tid, comm, state, longest, runqueue, waker, nanoseconds;
};

/* One profile under construction. */
struct build {
	const struct prof_agg *agg;
	const struct result_kind *kind;
	const struct result_source *src;
	const struct result_cpu_time *cpu_time;
	struct result *ret;
	struct prof_model *m; /* of ret */
	/* cache[RESULT_CACHE_FRAMES]; without frames that may be JIT code in a process */
	struct result_cached *cache;
	struct result_image *images; /* images[n_images + 1], by id */
	uint32_t n_images;
	uint32_t kernel_mapping, jit_mapping; /* model ids, 0 until needed */
	uint32_t epoch;                       /* of the current sample */
	uint32_t sample;                      /* index in the model of the last that was added */
	struct intern *frame_keys;            /* struct frame_key -> index of frame_locs */
	VEC(uint32_t) frame_locs;
	struct intern *stack_keys; /* hash -> index of stacks */
	VEC(struct result_stack) stacks;
	VEC(uint32_t) stack_locs;
	VEC(uint32_t) locs; /* of the current sample */
	/* Frames of all shared stacks, then those of the current sample. */
	VEC(struct result_uncovered) uncovered;
	struct result_keys key;
};

/* result_location.c: frames to locations of the model. 0, -ENOMEM, -E2BIG. */
int result_kernel_mapping(struct build *b, uint32_t *ret);
/* Returns mapping and address of file offset @off of an image; also -EINVAL (mapped nowhere). */
int result_image_address(struct build *b, const struct ev_proc_id *proc, uint32_t image,
                         uint64_t off, uint32_t *ret_map, uint64_t *ret_addr);
/* Makes a frame without an address: "[no stack]". */
int result_synthetic(struct build *b, const char *name, uint32_t *ret);
/* Makes the location of a raw frame of this process, without caching it. */
int result_make_location(struct build *b, const struct ev_proc_id *proc, const struct ev_frame *f,
                         uint32_t *ret);
/* Makes or finds the location of a frame whose meaning does not depend on the process, unless it is
 * JIT code. */
int result_frame_location(struct build *b, const struct ev_proc_id *proc, const struct ev_frame *f,
                          uint32_t *ret);

/* result_stack.c: appends the locations of a stack to b->locs. 0, -ENOMEM, -E2BIG. */
/* *ret: its outcome, as far as is known now. */
int result_append_frames(struct build *b, const struct ev_proc_id *proc, const struct ev_stack *st,
                         struct result_outcome *ret);
/* The stack of this hash; *ret_lost: it was lost. */
int result_append_stack(struct build *b, const struct ev_proc_id *proc, uint64_t hash,
                        struct result_outcome *ret, bool *ret_lost);
/* The stack of the waker, as callers of the blocked thread's; *ret: its name, "[interrupt]" or
 * "[waker lost]". */
int result_append_waker(struct build *b, const struct ev_count *c, const char **ret);

#endif
