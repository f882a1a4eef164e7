/* SPDX-License-Identifier: Apache-2.0 */
/*
 * unwind - user stacks walked on the host with the step that BPF runs (unwind_step.h).
 * Thread: any; no state.
 */
#ifndef PA_UNWIND_H
#define PA_UNWIND_H

#include "base/base.h"
#include "bpf/abi/abi.h"

/* Reads 8 bytes at a target's address: 0, or non-zero on a fault. */
typedef int (*uw_read_fn)(void *arg, uint64_t *ret, uint64_t addr);

struct uw_memory {
	uw_read_fn read;
	void *arg;
};

/* Registers at the leaf. */
struct uw_start {
	uint64_t pc, sp, fp;
};

/**
 * uw_walk_fp - walk by frame pointers
 * @pcs: pcs[max]: leaf's pc, then return addresses
 * @ret_walk: enum abi_walk; DEPTH when @max was reached
 * Returns: frames written (>= 1 when max >= 1). Cost: two reads a frame. Allocates: no.
 */
size_t uw_walk_fp(const struct uw_start *at, const struct uw_memory *mem, uint64_t *pcs, size_t max,
                  int *ret_walk);
/**
 * uw_stack_hash - the hash that the kernel side gives to this user stack; never 0
 * @seed:   abi_config's hash_seed
 * @frames: frames[n], as they stand in the ring's record
 * @walk:   enum abi_walk
 */
uint64_t uw_stack_hash(uint64_t seed, const uint64_t *frames, size_t n, int walk);
/**
 * uw_call_precedes - could a call end right before a return address?
 * @before: the 8 bytes before it
 */
bool uw_call_precedes(const uint8_t before[8]);

#endif
