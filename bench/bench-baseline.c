// SPDX-License-Identifier: Apache-2.0
/* bench-baseline empty|get_stack RATE SECONDS [TGID]: prints one JSON line with the mean cost of a
 * run of that program on cpu-clock events of all CPUs. */
#include <linux/perf_event.h>
#include <stdint.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>

#include <bpf/libbpf.h>

#include "bench_stats.h"

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wcast-qual"
#include "bench.skel.h"
#pragma GCC diagnostic pop

static void die(const char *what)
{
	fprintf(stderr, "bench-baseline: %s: %s\n", what, strerror(errno));
	exit(1);
}

int main(int argc, char **argv)
{
	struct bench_bpf *skel;
	struct bpf_program *prog;
	struct bench_stats st;
	const char *name;
	long rate, seconds;

	if (argc < 4) {
		fprintf(stderr, "usage: bench-baseline empty|get_stack RATE SECONDS [TGID]\n");
		return 2;
	}
	rate = strtol(argv[2], NULL, 10);
	seconds = strtol(argv[3], NULL, 10);
	skel = bench_bpf__open();
	if (!skel)
		die("open");
	skel->rodata->target_tgid = argc > 4 ? (uint32_t)strtoul(argv[4], NULL, 10) : 0;
	if (bench_bpf__load(skel) < 0)
		die("load");
	prog = strcmp(argv[1], "empty") == 0 ? skel->progs.bench_empty
	                                     : skel->progs.bench_get_stack;
	name = bpf_program__name(prog);
	bench_stats_enable();
	for (int cpu = 0; cpu < libbpf_num_possible_cpus(); cpu++) {
		struct perf_event_attr a = {.type = PERF_TYPE_SOFTWARE,
		                            .size = sizeof(a),
		                            .config = PERF_COUNT_SW_CPU_CLOCK,
		                            .sample_period = 1000000000ULL / (uint64_t)rate,
		                            .disabled = 1};
		int fd = (int)syscall(SYS_perf_event_open, &a, -1, cpu, -1, PERF_FLAG_FD_CLOEXEC);

		if (fd < 0)
			die("perf_event_open");
		if (bpf_link_create(bpf_program__fd(prog), fd, BPF_PERF_EVENT, NULL) < 0)
			die("bpf_link_create");
		if (ioctl(fd, PERF_EVENT_IOC_ENABLE, 0) < 0)
			die("enable");
	}
	sleep((unsigned int)seconds);
	st = bench_stats_of(name);
	printf("{\"program\":\"%s\",\"rate_hz\":%ld,\"runs\":%llu,\"ns_per_run\":%.1f}\n", name,
	       rate, st.runs, st.runs ? (double)st.ns / (double)st.runs : 0.0);
	bench_bpf__destroy(skel);
	return 0;
}
