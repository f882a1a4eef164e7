/* SPDX-License-Identifier: Apache-2.0 */
/*
 * shares32 - a 32-bit program with a C library, for a compiler with -m32 and its libraries.
 *
 * Says "ready PID" and spins until it is ended: main → shares_run → shares_a (two thirds of its CPU
 * time, by its own clock) and shares_b (one third); with "vdso", in clock_gettime instead, which is
 * code of the vDSO.
 */
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define NEVER_INLINE __attribute__((noinline, noclone))
#define ROUND        2000000u /* some milliseconds: reading the clock is nothing alongside it */

NEVER_INLINE static void shares_a(uint32_t n)
{
	for (volatile uint32_t i = 0; i < n; i++)
		;
}

/* Other code: compilers make one of two functions that are. */
NEVER_INLINE static void shares_b(uint32_t n)
{
	for (volatile uint32_t k = n; k > 0; k--)
		;
}

NEVER_INLINE static void shares_vdso(void)
{
	struct timespec ts;

	for (int i = 0; i < 1000; i++)
		(void)clock_gettime(CLOCK_MONOTONIC, &ts);
}

static uint64_t cpu_ns(void)
{
	struct timespec ts;

	(void)clock_gettime(CLOCK_THREAD_CPUTIME_ID, &ts); /* cannot fail for this clock */
	return (uint64_t)ts.tv_sec * 1000000000 + (uint64_t)ts.tv_nsec;
}

NEVER_INLINE static void shares_run(int vdso)
{
	uint64_t a_ns = 0, b_ns = 0, before_ns;

	for (;;) {
		if (vdso) {
			shares_vdso();
			continue;
		}
		before_ns = cpu_ns();
		if (a_ns <= 2 * b_ns) {
			shares_a(ROUND);
			a_ns += cpu_ns() - before_ns;
		} else {
			shares_b(ROUND);
			b_ns += cpu_ns() - before_ns;
		}
	}
}

int main(int argc, char **argv)
{
	printf("ready %d\n", (int)getpid());
	fflush(stdout);
	shares_run(argc > 1 && strcmp(argv[1], "vdso") == 0);
	return 0;
}
