/* SPDX-License-Identifier: Apache-2.0 */
/* Run time of BPF programs: the kernel measures it while a BPF_ENABLE_STATS descriptor is open. */
#ifndef PA_BENCH_STATS_H
#define PA_BENCH_STATS_H

#include <bpf/bpf.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct bench_stats {
	unsigned long long runs, ns;
	unsigned int insns_verified, xlated_bytes;
};

/* Returns the descriptor to keep open; exits without CAP_SYS_ADMIN. */
static inline int bench_stats_enable(void)
{
	int fd = bpf_enable_stats(BPF_STATS_RUN_TIME);

	if (fd < 0) {
		fprintf(stderr, "bpf(BPF_ENABLE_STATS): %s: needs CAP_SYS_ADMIN\n", strerror(-fd));
		exit(77);
	}
	return fd;
}

/* Returns the sums over all loaded programs of this name, of which the kernel keeps 15 bytes. */
static inline struct bench_stats bench_stats_of(const char *name)
{
	struct bench_stats sum = {0};
	unsigned int id = 0;

	while (bpf_prog_get_next_id(id, &id) == 0) {
		struct bpf_prog_info info = {0};
		unsigned int len = sizeof(info);
		int fd = bpf_prog_get_fd_by_id(id);

		if (fd < 0)
			continue;
		if (bpf_obj_get_info_by_fd(fd, &info, &len) == 0 &&
		    strncmp(info.name, name, 15) == 0) {
			sum.runs += info.run_cnt;
			sum.ns += info.run_time_ns;
			sum.insns_verified = info.verified_insns;
			sum.xlated_bytes = info.xlated_prog_len;
		}
		close(fd);
	}
	return sum;
}

#endif
