/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PA_RESULT_PRIV_H
#define PA_RESULT_PRIV_H

#include "result/result.h"

/* A stretch of an image in the profile: one mapping stands for all processes that map it. */
struct result_stretch {
	uint32_t mapping; /* model id */
	uint64_t pgoff, len, start;
};

struct result_image {
	VEC(struct result_stretch) v;
};

/* How the walk of a stack ended. */
struct result_outcome {
	uint8_t walk;  /* enum ev_walk */
	uint8_t flags; /* EV_STACK_* */
	uint8_t space; /* enum ev_space of the last frame; RAW where there is none */
	bool shared;   /* its frames do not depend on the process */
	uint32_t image;
	uint32_t uncovered,
	        n_uncovered; /* uncovered[uncovered], …: where callers were found heuristically */
};

/* Locations of a stack whose frames do not depend on the process. */
struct result_stack {
	uint32_t first, n;
	struct result_outcome o;
};

/* Frames that were met lately: most frames of a stack were in others before, and the table of all
 * is several times as large as a cache. */
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
	/* cache[RESULT_CACHE_FRAMES]; only of frames that are no JIT code in any process */
	struct result_cached *cache;
	struct result_image *images; /* images[n_images + 1], by id */
	uint32_t n_images;
	uint32_t kernel_mapping, jit_mapping; /* model ids, 0 until needed */
	uint32_t epoch;                       /* of the sample in work */
	struct intern *frame_keys; /* what a location depends on -> index of frame_locs */
	VEC(uint32_t) frame_locs;
	struct intern *stack_keys; /* hash -> index of stacks */
	VEC(struct result_stack) stacks;
	VEC(uint32_t) stack_locs;
	VEC(uint32_t) locs; /* of the sample in work */
	/* Of all shared stacks, then those of the sample in work. */
	VEC(struct result_uncovered) uncovered;
	struct result_keys key;
};

/* result_location.c: frames to locations of the model. 0, -ENOMEM, -E2BIG. */
int result_kernel_mapping(struct build *b, uint32_t *ret);
/* Where file offset @off of an image is shown; also -EINVAL (mapped nowhere). */
int result_image_address(struct build *b, const struct ev_proc_id *proc, uint32_t image,
                         uint64_t off, uint32_t *ret_map, uint64_t *ret_addr);
/* A frame that is no address: "[no stack]". */
int result_synthetic(struct build *b, const char *name, uint32_t *ret);
/* A raw frame of this process: nothing of it is remembered. */
int result_make_location(struct build *b, const struct ev_proc_id *proc, const struct ev_frame *f,
                         uint32_t *ret);
/* A frame whose meaning does not depend on the process, unless it is JIT code. */
int result_frame_location(struct build *b, const struct ev_proc_id *proc, const struct ev_frame *f,
                          uint32_t *ret);

/* result_stack.c: appends the locations of a stack to b->locs. 0, -ENOMEM, -E2BIG. */
/* *ret: how it ended, as far as is known now. */
int result_append_frames(struct build *b, const struct ev_proc_id *proc, const struct ev_stack *st,
                         struct result_outcome *ret);
/* The stack of this hash; *ret_lost: it never arrived. */
int result_append_stack(struct build *b, const struct ev_proc_id *proc, uint64_t hash,
                        struct result_outcome *ret, bool *ret_lost);
/* Who woke the thread, as callers of the whole; *ret: the waker's name, "[interrupt]" or
 * "[waker lost]". */
int result_append_waker(struct build *b, const struct ev_count *c, const char **ret);

#endif
