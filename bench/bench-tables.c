// SPDX-License-Identifier: Apache-2.0
/* bench-tables FILE ROUNDS: prints one JSON line with the cost of building and installing the table
 * of a file, and its size compared with the code. It is installed into memory of this process. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>

#include "unwind/unwind.h"

#define SEGMENTS 256

static uint32_t *segments[SEGMENTS];

static int segment(void *arg, uint32_t i, uint32_t **ret)
{
	(void)arg;
	if (!segments[i])
		segments[i] = calloc(ABI_SEGMENT_WORDS, sizeof(uint32_t));
	*ret = segments[i];
	return segments[i] ? 0 : -ENOMEM;
}

static double cpu_ms(void)
{
	struct rusage ru;

	getrusage(RUSAGE_SELF, &ru);
	return (double)(ru.ru_utime.tv_sec + ru.ru_stime.tv_sec) * 1e3 +
	       (double)(ru.ru_utime.tv_usec + ru.ru_stime.tv_usec) / 1e3;
}

static uint64_t code_bytes(const struct img_file *f)
{
	const struct img_segment *s = NULL;
	size_t n = img_segments(f, &s);
	uint64_t sum = 0;

	for (size_t i = 0; i < n; i++)
		sum += s[i].exec ? s[i].file_size : 0;
	return sum;
}

int main(int argc, char **argv)
{
	double build_ms = 1e9, install_ms = 1e9;
	struct uw_build_stats st = {0};
	struct uw_store_stats ss = {0};
	struct rusage ru;
	struct err err = {0};
	uint64_t rounds, code = 0;
	int fd;

	if (argc != 3 || parse_u64(argv[2], 10, &rounds) < 0 || rounds == 0) {
		fprintf(stderr, "usage: bench-tables FILE ROUNDS\n");
		return 2;
	}
	fd = open(argv[1], O_RDONLY | O_CLOEXEC);
	for (uint64_t i = 0; i < rounds;
	     i++) { /* the best round counts: the first also reads the disk */
		struct abi_image images[2] = {0};
		struct uw_backing b = {.images = images,
		                       .n_images = 2,
		                       .max_segments = SEGMENTS,
		                       .segment = segment};
		_cleanup_(img_file_freep) struct img_file *f = NULL;
		_cleanup_(uw_table_freep) struct uw_table *t = NULL;
		struct uw_store *store = NULL;
		struct uw_rules *rules = NULL;
		double t0, t1, t2;
		int r = img_file_open(fd, &f, &err);

		if (r == 0)
			r = uw_rules_new(NULL, &rules);
		if (r == 0)
			r = uw_store_new(&b, 0, &store);
		t0 = cpu_ms();
		if (r == 0)
			r = uw_table_build(f, rules, NULL, &t, &st, &err);
		t1 = cpu_ms();
		if (r == 0)
			r = uw_store_install(store, 1, t);
		t2 = cpu_ms();
		if (r < 0) {
			fprintf(stderr, "bench-tables: %s: %s %s\n", argv[1], err_name(r), err.msg);
			return 1;
		}
		build_ms = MIN_OF(build_ms, t1 - t0);
		install_ms = MIN_OF(install_ms, t2 - t1);
		uw_store_stats(store, &ss);
		code = code_bytes(f);
		uw_store_free(store);
		uw_rules_free(rules);
	}
	getrusage(RUSAGE_SELF, &ru);
	printf("{\"file\":\"%s\",\"build_cpu_ms\":%.1f,\"install_cpu_ms\":%.1f,\"rows\":%llu,"
	       "\"rules\":%llu,\"functions\":%llu,\"table_bytes\":%llu,\"code_bytes\":%llu,"
	       "\"bytes_per_code_mb\":%.0f,\"rss_peak_kib\":%ld}\n",
	       argv[1], build_ms, install_ms, (unsigned long long)st.rows,
	       (unsigned long long)st.rules, (unsigned long long)st.entries,
	       (unsigned long long)ss.bytes, (unsigned long long)code,
	       code ? (double)ss.bytes / ((double)code / 1e6) : 0.0, ru.ru_maxrss);
	return 0;
}
