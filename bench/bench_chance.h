/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BENCH_CHANCE_H
#define BENCH_CHANCE_H

#include <stdint.h>

/* Returns a number below @below. xorshift64*: the same numbers on every machine. One thread. */
static inline uint32_t chance(uint32_t below)
{
	static uint64_t state = 42;

	state ^= state >> 12;
	state ^= state << 25;
	state ^= state >> 27;
	return (uint32_t)((state * 0x2545f4914f6cdd1dULL) >> 33) % below;
}

#endif
