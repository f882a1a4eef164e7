// SPDX-License-Identifier: Apache-2.0
/*
 * bench-programs SECONDS NAME...: prints the cost of all loaded BPF programs of these names during
 * that time, as the kernel measures it (BPF_ENABLE_STATS): {"NAME": [runs, ns], ...}.
 */
#include "bench_stats.h"

int main(int argc, char **argv)
{
	struct bench_stats before[16];
	int fd;

	if (argc < 3 || argc > 18) {
		fprintf(stderr, "usage: bench-programs SECONDS NAME...\n");
		return 2;
	}
	fd = bench_stats_enable();
	for (int i = 2; i < argc; i++)
		before[i - 2] = bench_stats_of(argv[i]);
	(void)usleep((useconds_t)(atof(argv[1]) * 1e6));
	for (int i = 2; i < argc; i++) {
		struct bench_stats now = bench_stats_of(argv[i]);

		printf("%s\"%s\": [%llu, %llu]", i == 2 ? "{" : ", ", argv[i],
		       now.runs - before[i - 2].runs, now.ns - before[i - 2].ns);
	}
	puts("}");
	close(fd);
	return 0;
}
