/* SPDX-License-Identifier: Apache-2.0 */
/*
 * stack_capture - samples of one process by the parts of a session, on one thread, with unwind
 * tables for all it maps: what the kernel side walked, and with ABI_WALK_DEFER_ALL the registers and
 * the stack of the same instant.
 */
#ifndef STACK_CAPTURE_H
#define STACK_CAPTURE_H

#include "perfevent/perfevent.h"
#include "proc/proc.h"
#include "sampler/sampler.h"
#include "track/track.h"
#include "unwind/unwind.h"

/* A user stack as the kernel side sent it. */
struct cap_stack {
	uint64_t hash;
	uint8_t walk, flags;
	uint32_t n;
	struct ev_frame *frames; /* frames[n] */
};
/* Registers and memory of one sample. */
struct cap_copy {
	uint64_t hash; /* of the kernel side's walk */
	uint32_t tid;
	uint64_t pc, reg[EV_DEFERRED_REGS];
	bool in_syscall; /* pc is after the instruction of a system call */
	uint64_t addr;   /* of bytes[0] */
	uint32_t len;
	uint8_t *bytes; /* bytes[len] */
};
struct cap_options {
	uint32_t pid, rate_hz;
	uint32_t walk_flags; /* ABI_WALK_* */
	uint32_t max_copies; /* more are left out */
	bool no_inline;      /* all rules in the tables, none in the rows */
	bool frame_pointers; /* without tables */
};
struct cap {
	struct cap_options o;
	struct smp_walker *walker;
	struct smp_oncpu *oncpu;
	struct trk *trk;
	struct pev_sideband *sideband;
	struct uw_rules *rules;
	struct uw_store *store;
	uint32_t tables; /* images [1 … tables] have been looked at */
	uint32_t no_table;
	VEC(struct cap_stack) stacks;
	VEC(struct cap_copy) copies;
};

/**
 * cap_start - open, build all tables, begin to sample
 * Returns: 0, -ENOMEM, what the modules below give.
 */
int cap_start(const struct cap_options *o, struct cap **ret, struct err *err);
/**
 * cap_run - drain for so long, or until there are max_copies copies
 * Returns: 0, the first errno of draining.
 */
int cap_run(struct cap *c, uint32_t ms);
/**
 * cap_finish - end sampling and take what is left
 */
int cap_finish(struct cap *c);
/**
 * cap_stack - the stack with this hash, NULL if it did not come
 */
const struct cap_stack *cap_stack(const struct cap *c, uint64_t hash);
/**
 * cap_counter - a counter of the kernel side; ends the program when it cannot be read
 */
uint64_t cap_counter(const struct cap *c, enum abi_counter id);
struct cap *cap_free(struct cap *c);

#endif
