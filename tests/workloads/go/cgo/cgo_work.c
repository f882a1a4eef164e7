/* SPDX-License-Identifier: Apache-2.0 */
/* The C side of the cgo workload. */
#include "_cgo_export.h"

void c_work(int rounds);
void c_outer(int depth);

static volatile unsigned long c_sink;

__attribute__((noinline)) static void c_spin(int rounds)
{
	unsigned long x = c_sink | 1;

	for (int i = 0; i < rounds; i++) {
		x ^= x << 13;
		x ^= x >> 7;
		x ^= x << 17;
	}
	c_sink = x;
}

__attribute__((noinline)) void c_work(int rounds)
{
	c_spin(rounds);
	c_sink++;
}

__attribute__((noinline)) static void c_back(void)
{
	goBack();
	c_sink++;
}

__attribute__((noinline)) void c_outer(int depth)
{
	if (depth > 0)
		c_outer(depth - 1);
	else
		c_back();
	c_sink++;
}
