/* SPDX-License-Identifier: Apache-2.0 */
/*
 * workload.h - what the workloads share: options, the ready line, clocks.
 *
 * Every workload takes --seconds S (wall time, decimals allowed) and prints "ready <pid>" as its
 * first line, flushed, before it begins: a test reads that line instead of sleeping. What it
 * measured of itself it prints at the end, one JSON object a line. They are built with frame
 * pointers and without sibling calls, never inlined with WL_FUNC, and never with a
 * sanitizer, so that their stacks are known by construction.
 */
#ifndef WORKLOAD_H
#define WORKLOAD_H

#include <errno.h>
#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

/* A function that has a frame of its own and its own name in the symbol table: not inlined, not
 * cloned. */
#if defined(__has_attribute)
#if __has_attribute(noipa)
#define WL_FUNC __attribute__((noipa))
#endif
#endif
#ifndef WL_FUNC
#define WL_FUNC __attribute__((noinline))
#endif

/* For functions that call nothing: gcc leaves their frame out, -fno-omit-frame-pointer or not,
 * unless something needs it (ix86_finalize_stack_frame_flags), and a walk then skips their caller.
 */
#define WL_NEED_FRAME() __asm__ volatile("" : : "r"(__builtin_frame_address(0)))

#define WL_NSEC_PER_SEC  1000000000ULL
#define WL_NSEC_PER_MSEC 1000000ULL

/* Iterations between two looks at a clock: some 20 µs, so that reading it stays near 1 % of the
 * time. */
#define WL_BATCH 20000

/* The result of arithmetic goes here, so that no compiler drops it. */
static volatile uint64_t wl_sink __attribute__((unused));

/* A few dependent operations; in its caller's frame, so that the caller is the leaf of the stack.
 */
static inline __attribute__((always_inline)) uint64_t wl_mix(uint64_t x)
{
	x ^= x << 13;
	x ^= x >> 7;
	x ^= x << 17;
	return x;
}

static inline __attribute__((always_inline)) void wl_batch(void)
{
	uint64_t x = wl_sink | 1;

	for (int i = 0; i < WL_BATCH; i++)
		x = wl_mix(x);
	wl_sink = x;
}

static inline uint64_t wl_clock_ns(clockid_t id)
{
	struct timespec ts;

	if (clock_gettime(id, &ts) < 0) {
		perror("clock_gettime");
		exit(1);
	}
	return (uint64_t)ts.tv_sec * WL_NSEC_PER_SEC + (uint64_t)ts.tv_nsec;
}

static inline uint64_t wl_now_ns(void)
{
	return wl_clock_ns(CLOCK_MONOTONIC);
}

static inline uint64_t wl_thread_cpu_ns(void)
{
	return wl_clock_ns(CLOCK_THREAD_CPUTIME_ID);
}

static inline int wl_gettid(void)
{
	return (int)syscall(SYS_gettid);
}

/* The scheduler's own account of the calling thread: first field of schedstat, 0 where the kernel
 * has none. */
static inline uint64_t wl_schedstat_ns(void)
{
	char path[64];
	unsigned long long ns = 0;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/self/task/%d/schedstat", wl_gettid());
	f = fopen(path, "re");
	if (!f)
		return 0;
	char line[96];
	if (fgets(line, sizeof(line), f))
		ns = strtoull(line, NULL, 10);
	fclose(f);
	return ns;
}

static inline void wl_ready(void)
{
	printf("ready %d\n", (int)getpid());
	fflush(stdout);
}

/* ---- options -------------------------------------------------------------------------------- */

/* One option: --name VALUE (a number of at least @min, into *num), --name (into *flag) or --name
 * TEXT. */
struct wl_opt {
	const char *name;
	double *num;
	double min, max;
	bool *flag;
	const char **text;
};

static inline __attribute__((noreturn)) void wl_usage(const char *prog, const struct wl_opt *opts)
{
	fprintf(stderr, "usage: %s", prog);
	for (const struct wl_opt *o = opts; o->name; o++)
		fprintf(stderr, " [--%s%s]", o->name, o->flag ? "" : o->num ? " N" : " TEXT");
	fputc('\n', stderr);
	exit(2);
}

/* @opts ends with an entry without a name. Whatever is not understood ends the program with 2. */
static inline void wl_options(int argc, char **argv, const struct wl_opt *opts)
{
	for (int i = 1; i < argc; i++) {
		const struct wl_opt *o = opts;
		char *end;

		if (strncmp(argv[i], "--", 2) != 0)
			wl_usage(argv[0], opts);
		while (o->name && strcmp(argv[i] + 2, o->name) != 0)
			o++;
		if (!o->name)
			wl_usage(argv[0], opts);
		if (o->flag) {
			*o->flag = true;
			continue;
		}
		if (++i == argc)
			wl_usage(argv[0], opts);
		if (o->text) {
			*o->text = argv[i];
			continue;
		}
		errno = 0;
		*o->num = strtod(argv[i], &end);
		if (errno || end == argv[i] || *end || !isfinite(*o->num) || *o->num < o->min ||
		    *o->num > o->max)
			wl_usage(argv[0], opts);
	}
}

#define WL_OPT_SECONDS(var)                                                                        \
	{                                                                                          \
		.name = "seconds", .num = &(var), .min = 0, .max = 86400                           \
	}
#define WL_OPT_END                                                                                 \
	{                                                                                          \
		.name = NULL                                                                       \
	}

static inline uint64_t wl_seconds_ns(double seconds)
{
	return (uint64_t)(seconds * (double)WL_NSEC_PER_SEC);
}

#endif
