// SPDX-License-Identifier: Apache-2.0
/*
 * bench-sched TARGET COUNTERS CPUS SECONDS [COMMAND ...]: prints one JSON line with the cost of the
 * programs of scheduler statistics, as the kernel measures it (BPF_ENABLE_STATS). Programs that do
 * nothing run alongside: they show the cost of measuring.
 *
 * TARGET: pid, all, or per-pid. COUNTERS: 0 … 6 software counters, 6t with their times. CPUS: 1:
 * two threads that pass a byte through pipes share a CPU; 2: each has its own. A COMMAND runs
 * instead of them.
 */
#include <fcntl.h>
#include <linux/perf_event.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "bench_stats.h"
#include "loader/loader.h"

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wcast-qual"
#include "bench.skel.h"
#pragma GCC diagnostic pop

static const uint64_t events[] = {PERF_COUNT_SW_PAGE_FAULTS,     PERF_COUNT_SW_CONTEXT_SWITCHES,
                                  PERF_COUNT_SW_CPU_MIGRATIONS,  PERF_COUNT_SW_CPU_CLOCK,
                                  PERF_COUNT_SW_PAGE_FAULTS_MIN, PERF_COUNT_SW_PAGE_FAULTS_MAJ};

static int there[2], back[2];

static void pin(int cpu)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(cpu, &set);
	(void)sched_setaffinity(0, sizeof(set), &set);
}

static void *pong(void *arg)
{
	char c;

	pin((int)(intptr_t)arg);
	while (read(there[0], &c, 1) == 1 && write(back[1], &c, 1) == 1)
		;
	return NULL;
}

static void ping(int cpus)
{
	pthread_t t;
	char c = 0;

	(void)prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (pipe(there) < 0 || pipe(back) < 0)
		_exit(1);
	pin(0);
	if (pthread_create(&t, NULL, pong, (void *)(intptr_t)(cpus - 1)) != 0)
		_exit(1);
	while (write(there[1], &c, 1) == 1 && read(back[0], &c, 1) == 1)
		;
	_exit(0);
}

static void command(char **argv)
{
	int null = open("/dev/null", O_WRONLY);

	(void)prctl(PR_SET_PDEATHSIG, SIGKILL);
	(void)dup2(null, 1);
	(void)dup2(null, 2);
	execvp(argv[0], argv);
	_exit(127);
}

static _Noreturn void die(const struct err *e)
{
	fprintf(stderr, "bench-sched: %s\n", e->msg);
	exit(1);
}

static void open_counters(struct load_sched *s, uint32_t n)
{
	long cpus = sysconf(_SC_NPROCESSORS_CONF);

	for (uint32_t i = 0; i < n; i++) {
		for (int cpu = 0; cpu < cpus; cpu++) {
			struct perf_event_attr a = {
			        .type = PERF_TYPE_SOFTWARE,
			        .size = sizeof(a),
			        .config = events[i],
			        .read_format = PERF_FORMAT_TOTAL_TIME_ENABLED |
			                       PERF_FORMAT_TOTAL_TIME_RUNNING,
			};
			int fd = (int)syscall(SYS_perf_event_open, &a, -1, cpu, -1, 0);

			if (fd < 0 || load_sched_counter(s, i, (uint32_t)cpu, fd) < 0) {
				perror("perf_event_open");
				exit(1);
			}
			(void)close(fd);
		}
	}
}

/* Returns the difference between now and an earlier reading. */
static struct bench_stats since(const char *name, struct bench_stats before)
{
	struct bench_stats now = bench_stats_of(name);

	now.runs -= before.runs;
	now.ns -= before.ns;
	return now;
}

static double per_run(struct bench_stats s)
{
	return s.runs ? (double)s.ns / (double)s.runs : 0;
}

int main(int argc, char **argv)
{
	static const char *const names[] = {"sched_switched", "sched_woken", "bench_switch",
	                                    "bench_wakeup"};
	struct bench_stats at[ARRAY_SIZE(names)];
	struct bench_bpf *empty;
	struct load_sizes sizes = {
	        .ring_bytes = 65536,
	        .count_entries = 64,
	        .thread_entries = 64,
	        .range_entries = 64,
	        .proc_entries = 64,
	        .shipped_entries = 64,
	        .followed_entries = 64,
	};
	struct abi_config cfg = {.target = ABI_TARGET_ALL, .hash_seed = 1};
	struct load_sched_options o = {.n_procs = ABI_SCHED_PROCS, .thread_entries = 65536};
	static struct load_sched_total total;
	struct load_oncpu *base;
	struct load_sched *s;
	struct err err = {0};
	uint64_t n = 0;
	pid_t pid;

	if (argc < 5) {
		fprintf(stderr, "usage: bench-sched pid|all|per-pid COUNTERS CPUS SECONDS "
		                "[COMMAND ...]\n");
		return 2;
	}
	o.n_counters = MIN_OF((uint32_t)strtoul(argv[2], NULL, 10), (uint32_t)ARRAY_SIZE(events));
	o.counter_times = strchr(argv[2], 't') != NULL;
	pid = fork();
	if (pid == 0) {
		if (argc > 5)
			command(argv + 5);
		ping((int)strtol(argv[3], NULL, 10));
	}
	if (strcmp(argv[1], "pid") == 0) {
		cfg.target = ABI_TARGET_PID;
		cfg.target_tgid = (uint32_t)pid;
		o.n_procs = 1;
	}
	o.per_process = strcmp(argv[1], "all") != 0;
	bench_stats_enable();
	if (load_oncpu_open(&cfg, &sizes, &base, &err) < 0 ||
	    load_sched_open(base, &o, &s, &err) < 0)
		die(&err);
	open_counters(s, o.n_counters);
	if (load_sched_attach(s, &err) < 0)
		die(&err);
	empty = bench_bpf__open_and_load();
	if (!empty || !bpf_program__attach(empty->progs.bench_switch) ||
	    !bpf_program__attach(empty->progs.bench_wakeup)) {
		perror("programs that do nothing");
		return 1;
	}
	(void)usleep(200 * 1000);
	for (size_t i = 0; i < ARRAY_SIZE(names); i++)
		at[i] = bench_stats_of(names[i]);
	(void)usleep((useconds_t)(strtod(argv[4], NULL) * 1e6));
	for (size_t i = 0; i < ARRAY_SIZE(names); i++)
		at[i] = since(names[i], at[i]);
	load_sched_detach(s);
	if (load_sched_read(s, NULL, &total) < 0)
		return 1;
	for (int i = 0; i < ABI_REASON_CNT; i++)
		n += total.sums.reason[i];
	printf("{\"target\":\"%s\",\"counters\":\"%s\",\"cpus\":%s,\"switch_runs\":%llu,\"switch_"
	       "ns\":"
	       "%.1f,\"wakeup_runs\":%llu,\"wakeup_ns\":%.1f,\"both_ns\":%.1f",
	       argv[1], argv[2], argv[3], at[0].runs, per_run(at[0]), at[1].runs, per_run(at[1]),
	       per_run(at[0]) + per_run(at[1]));
	printf(",\"empty_both_ns\":%.1f,\"switches\":%llu,\"lost\":%llu,\"missed\":%llu,"
	       "\"locked_bytes\":%llu}\n",
	       per_run(at[2]) + per_run(at[3]), (unsigned long long)n,
	       (unsigned long long)total.lost, (unsigned long long)total.missed,
	       (unsigned long long)load_sched_locked_bytes(s));
	bench_bpf__destroy(empty);
	load_sched_free(s);
	load_oncpu_free(base);
	(void)kill(pid, SIGKILL);
	(void)waitpid(pid, NULL, 0);
	return 0;
}
