/* SPDX-License-Identifier: Apache-2.0 */
#include <time.h>

#include "base/base.h"

#define CLOCK_TRIES  10
#define CLOCK_GAP_NS 2000U

static uint64_t clock_ns(clockid_t id)
{
	struct timespec ts;
	int r = clock_gettime(id, &ts);

	assert(r == 0); /* only an unknown clock fails, and all three are older than our floor */
	(void)r;
	return (uint64_t)ts.tv_sec * NSEC_PER_SEC + (uint64_t)ts.tv_nsec;
}

uint64_t now_ns(void)
{
	return clock_ns(CLOCK_MONOTONIC);
}

uint64_t now_realtime_ns(void)
{
	return clock_ns(CLOCK_REALTIME);
}

uint64_t now_and_realtime_ns(uint64_t *real_ns)
{
	uint64_t begin, end, gap = UINT64_MAX, now = 0;

	/* A preemption between the two reads would move them apart. */
	for (int i = 0; i < CLOCK_TRIES && gap > CLOCK_GAP_NS; i++) {
		uint64_t real;

		begin = now_ns();
		real = now_realtime_ns();
		end = now_ns();
		if (end - begin < gap) {
			gap = end - begin;
			now = begin + gap / 2;
			*real_ns = real;
		}
	}
	return now;
}

uint64_t now_boottime_ns(void)
{
	return clock_ns(CLOCK_BOOTTIME);
}
