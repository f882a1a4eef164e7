// SPDX-License-Identifier: Apache-2.0
/*
 * bench-perf-data - bytes and time of the perf.data writer, from samples that are made here
 *
 *   bench-perf-data [SAMPLES [DEPTH]]     default: 100,000 of 30 frames, a quarter of them in the kernel
 *   bench-perf-data SAMPLES DEPTH FORMAT  writes once, for tools that count instructions: classic, zstd
 *
 * 64 threads on 4 CPUs, 2,000 distinct stacks. Prints for classic and for compressed records bytes, bytes per 1,000
 * samples and the median of 5 times.
 */
#include <linux/perf_event.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "encode/encode.h"

#include "bench_chance.h"

#define STACKS    2000
#define DEPTH_MAX 127
#define RUNS      5

struct samples {
	uint64_t chain[STACKS][DEPTH_MAX];
	uint32_t depth, n, at;
};

static void begin(void *arg)
{
	struct samples *s = arg;

	s->at = 0;
	chance_state = CHANCE_SEED; /* both passes have the same samples */
}

static int next(void *arg, struct enc_perf_record *ret)
{
	struct samples *s = arg;
	const uint64_t *chain = s->chain[chance(STACKS)];
	const uint32_t n_kernel = s->depth / 4;

	if (s->at == s->n)
		return 0;
	*ret = (struct enc_perf_record){.type = ENC_PERF_SAMPLE,
	                                .pid = 1000,
	                                .tid = 1000 + chance(64),
	                                .time_ns = 1000000000ULL + s->at++ * 250000ULL};
	ret->sample.cpu = chance(4);
	ret->sample.period = 1001001;
	ret->sample.kernel = chain;
	ret->sample.n_kernel = n_kernel;
	ret->sample.user = chain + n_kernel;
	ret->sample.n_user = s->depth - n_kernel;
	return 1;
}

static int count(void *arg, const void *data, size_t len)
{
	(void)data;
	*(uint64_t *)arg += len;
	return 0;
}

static double cpu_ms(void)
{
	struct timespec t;

	(void)clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
	return (double)t.tv_sec * 1e3 + (double)t.tv_nsec / 1e6;
}

static int by_value(const void *a, const void *b)
{
	const double *x = a, *y = b;

	return (*x > *y) - (*x < *y);
}

static uint64_t write_once(struct samples *s, int level)
{
	const struct enc_perf_event event = {.name = "cpu-clock",
	                                     .type = PERF_TYPE_SOFTWARE,
	                                     .config = PERF_COUNT_SW_CPU_CLOCK,
	                                     .sample_freq = 999};
	const struct enc_perf_data d = {.events = &event,
	                                .n_events = 1,
	                                .next = next,
	                                .rewind = begin,
	                                .arg = s,
	                                .zstd_level = level};
	uint64_t bytes = 0;

	if (enc_perf_data(&d, count, &bytes, NULL) < 0) {
		fprintf(stderr, "bench-perf-data: level %d failed\n", level);
		exit(1);
	}
	return bytes;
}

static void measure(const char *name, struct samples *s, int level)
{
	uint64_t bytes = 0;
	double ms[RUNS];

	for (int i = 0; i < RUNS; i++) {
		const double before = cpu_ms();

		bytes = write_once(s, level);
		ms[i] = cpu_ms() - before;
	}
	qsort(ms, RUNS, sizeof(*ms), by_value);
	printf("%-10s %10llu bytes %10.0f bytes/1,000 samples %8.1f ms CPU\n", name,
	       (unsigned long long)bytes, (double)bytes * 1000 / s->n, ms[RUNS / 2]);
}

int main(int argc, char **argv)
{
	static struct samples s;

	s.n = argc > 1 ? (uint32_t)atoi(argv[1]) : 100000;
	s.depth = argc > 2 ? MIN_OF((uint32_t)atoi(argv[2]), (uint32_t)DEPTH_MAX) : 30;
	for (size_t i = 0; i < STACKS; i++)
		for (size_t k = 0; k < DEPTH_MAX; k++)
			s.chain[i][k] =
			        (k < s.depth / 4 ? 0xffffffff81000000ULL : 0x555555554000ULL) +
			        16ULL * chance(100000);
	if (argc > 3) {
		printf("%llu bytes\n",
		       (unsigned long long)write_once(&s, strcmp(argv[3], "zstd") == 0));
		return 0;
	}
	measure("classic", &s, 0);
	measure("zstd_1", &s, 1);
	return 0;
}
