/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BENCH_CHANCE_H
#define BENCH_CHANCE_H

#include <stdint.h>

#define CHANCE_SEED 42

static uint64_t chance_state = CHANCE_SEED;

/* Returns a number below @below. xorshift64*: the same numbers on every machine. One thread. */
static inline uint32_t chance(uint32_t below)
{
	chance_state ^= chance_state >> 12;
	chance_state ^= chance_state << 25;
	chance_state ^= chance_state >> 27;
	return (uint32_t)((chance_state * 0x2545f4914f6cdd1dULL) >> 33) % below;
}

#endif
