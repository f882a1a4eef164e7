/* SPDX-License-Identifier: Apache-2.0 */
/* A library without needs of its own, so that it can be loaded twice: tiny functions for stubs,
 * deep ones for stacks. */
#include "../workload.h"

#define SHAPE_EXPORT __attribute__((visibility("default")))

SHAPE_EXPORT uint64_t plug_tiny(uint64_t x);
SHAPE_EXPORT uint64_t plug_other(uint64_t x);
SHAPE_EXPORT uint64_t plug_small(uint64_t (*fn)(uint64_t), uint64_t arg);
SHAPE_EXPORT uint64_t plug_outer(uint64_t (*fn)(uint64_t), uint64_t arg);

WL_FUNC uint64_t plug_tiny(uint64_t x)
{
	return x * 3 + 1;
}

WL_FUNC uint64_t plug_other(uint64_t x)
{
	return x ^ x >> 5;
}

/* A frame of one word: its return address is found by looking for it. */
WL_FUNC uint64_t plug_small(uint64_t (*fn)(uint64_t), uint64_t arg)
{
	return fn(arg) + 1;
}

WL_FUNC static uint64_t plug_inner(uint64_t (*fn)(uint64_t), uint64_t arg)
{
	volatile uint64_t local[25];

	local[arg % 25] = arg;
	return fn(arg) + local[arg % 25];
}

uint64_t plug_outer(uint64_t (*fn)(uint64_t), uint64_t arg)
{
	return plug_inner(fn, arg) + 1;
}
