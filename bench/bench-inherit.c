// SPDX-License-Identifier: Apache-2.0
/*
 * bench-inherit RATE COMMAND…: runs the command under one inherited cpu-clock event with
 * enable_on_exec, and prints the number of samples of it and its children with their CPU time. That
 * is the profile that perf-agent would have with inherited events.
 */
#include <linux/perf_event.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define RING_PAGES 64

static void die(const char *what)
{
	perror(what);
	exit(1);
}

int main(int argc, char **argv)
{
	struct perf_event_attr a = {.type = PERF_TYPE_SOFTWARE,
	                            .size = sizeof(a),
	                            .config = PERF_COUNT_SW_CPU_CLOCK,
	                            .sample_type = PERF_SAMPLE_TID,
	                            .disabled = 1,
	                            .inherit = 1,
	                            .enable_on_exec = 1};
	long cpus = sysconf(_SC_NPROCESSORS_ONLN), page = sysconf(_SC_PAGESIZE);
	unsigned long long samples = 0;
	struct perf_event_mmap_page **rings;
	struct rusage ru;
	int hold[2], status;
	pid_t pid;
	char c = 0;

	if (argc < 3) {
		fprintf(stderr, "usage: bench-inherit RATE COMMAND...\n");
		return 2;
	}
	a.sample_period = 1000000000ULL / strtoul(argv[1], NULL, 10);
	rings = calloc((size_t)cpus, sizeof(struct perf_event_mmap_page *));
	if (!rings || pipe(hold) < 0)
		die("pipe");
	pid = fork();
	if (pid == 0) {
		if (read(hold[0], &c, 1) == 1)
			execv(argv[2], argv + 2);
		_exit(127);
	}
	/* One event per CPU, as a ring needs; together they follow the task to each CPU. */
	for (long i = 0; i < cpus; i++) {
		int fd = (int)syscall(SYS_perf_event_open, &a, pid, i, -1, PERF_FLAG_FD_CLOEXEC);

		if (fd < 0)
			die("perf_event_open");
		rings[i] = mmap(NULL, (size_t)((1 + RING_PAGES) * page), PROT_READ | PROT_WRITE,
		                MAP_SHARED, fd, 0);
		if (rings[i] == MAP_FAILED)
			die("mmap");
	}
	if (write(hold[1], &c, 1) != 1 || wait4(pid, &status, 0, &ru) < 0)
		die("wait4");
	for (long i = 0; i < cpus; i++) {
		const char *data = (const char *)rings[i] + page;
		uint64_t at = 0, head = rings[i]->data_head;

		while (at < head && head <= (uint64_t)(RING_PAGES * page)) {
			const struct perf_event_header *h = (const void *)(data + at);

			samples += h->type == PERF_RECORD_SAMPLE;
			at += h->size;
		}
	}
	printf("{\"samples\":%llu,\"sampled_s\":%.3f,\"cpu_s\":%.3f}\n", samples,
	       (double)samples * (double)a.sample_period / 1e9,
	       (double)(ru.ru_utime.tv_sec + ru.ru_stime.tv_sec) +
	               (double)(ru.ru_utime.tv_usec + ru.ru_stime.tv_usec) / 1e6);
	return 0;
}
