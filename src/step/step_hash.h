/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/* step, the hash of a stack: the same in the programs and in the walks of user space. */
#ifndef PA_STEP_HASH_H
#define PA_STEP_HASH_H

#include "step/step_state.h"

/*
 * Hash of a stack, frame by frame, with a key that targets do not know. It has two multiplications,
 * the second by the key. A difference in the highest bits passes the first one unchanged; with that
 * one alone, it could cancel against a difference in the next frame, whatever the initial value.
 * With 64 bits, two of a million stacks collide once in 37 million captures.
 */
UW_INLINE __u64 uw_hash_mix(__u64 h, __u64 v, __u64 key)
{
	h = (h ^ v) * 0x9e3779b97f4a7c15ULL;
	h = (h ^ (h >> 32)) * (key | 1);
	return h ^ (h >> 29);
}

/* Closes the hash over the number of frames, the outcome and the flags; never 0. */
UW_INLINE __u64 uw_hash_finish(__u64 h, __u32 n, __u32 walk, __u32 flags, __u64 key)
{
	h = uw_hash_mix(h, ((__u64)(walk << 8 | flags) << 32) | n, key);
	return h ? h : 1;
}

#endif
