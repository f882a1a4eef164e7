/* SPDX-License-Identifier: Apache-2.0 */
/* As plug.c, with other frames under other names: code that takes the place of plug's. */
#include <stdint.h>

#define SHAPE_EXPORT __attribute__((visibility("default")))

SHAPE_EXPORT uint64_t twin_outer(uint64_t (*fn)(uint64_t), uint64_t arg);

__attribute__((noinline)) static uint64_t twin_inner(uint64_t (*fn)(uint64_t), uint64_t arg)
{
	volatile uint64_t local[70];

	local[arg % 70] = arg;
	return fn(arg) ^ local[arg % 70];
}

uint64_t twin_outer(uint64_t (*fn)(uint64_t), uint64_t arg)
{
	volatile uint64_t local[3];

	local[arg % 3] = arg;
	return twin_inner(fn, arg) + local[arg % 3];
}
