// SPDX-License-Identifier: Apache-2.0
/*
 * bench-session TARGET RATE SECONDS OUTPUT [MORE]: makes one capture through the public library and
 * prints one JSON line with its cost. TARGET: a pid, or "all". MORE: a second output; its name ends in
 * .data (perf.data), .html (a page) or .timed.html (a page with a time line). Holds BPF_ENABLE_STATS
 * unless NO_BPF_STATS is set (statistics cost two clock reads a run).
 */
#include <perfagent/perfagent.h>

#include <poll.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/resource.h>
#include <time.h>

#include "bench_stats.h"

static double now(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (double)ts.tv_sec + (double)ts.tv_nsec / 1e9;
}

static double cpu(int who)
{
	struct rusage ru;

	getrusage(who, &ru);
	return (double)ru.ru_utime.tv_sec + (double)ru.ru_utime.tv_usec / 1e6 +
	       (double)ru.ru_stime.tv_sec + (double)ru.ru_stime.tv_usec / 1e6;
}

/* Returns the pid of the symbolizer process, the only child; 0: there is none. */
static int child_pid(void)
{
	char path[64], line[64] = "";
	FILE *f;

	snprintf(path, sizeof(path), "/proc/self/task/%d/children", (int)getpid());
	f = fopen(path, "re");
	if (!f)
		return 0;
	if (!fgets(line, sizeof(line), f))
		line[0] = 0;
	fclose(f);
	return (int)strtol(line, NULL, 10);
}

/* Returns the CPU time of a running process in seconds. */
static double cpu_of(int pid)
{
	char path[64], line[96] = "";
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%d/schedstat", pid);
	f = fopen(path, "re");
	if (!f)
		return 0;
	if (!fgets(line, sizeof(line), f))
		line[0] = 0;
	fclose(f);
	return (double)strtoull(line, NULL, 10) / 1e9;
}

static unsigned long long rss_kib(const char *key)
{
	char line[256];
	unsigned long long v = 0;
	FILE *f = fopen("/proc/self/status", "re");

	while (f && fgets(line, sizeof(line), f))
		if (strncmp(line, key, strlen(key)) == 0)
			v = strtoull(line + strlen(key) + 1, NULL, 10);
	if (f)
		fclose(f);
	return v;
}

static bool ends_with(const char *s, const char *end)
{
	return strlen(s) >= strlen(end) && strcmp(s + strlen(s) - strlen(end), end) == 0;
}

/* @more: more[2], kept by the caller; its second element is the end of the list. */
static void add_output(struct pfa_options *o, const char *path, struct pfa_extra_output *more)
{
	const bool data = ends_with(path, ".data");

	more[0] = (struct pfa_extra_output){
	        .format = data ? PFA_PROFILE_PERF_DATA : PFA_PROFILE_FLAME_HTML, .to.path = path};
	more[1] = (struct pfa_extra_output){.format = PFA_PROFILE_END};
	o->extra_outputs = more;
	if (ends_with(path, ".timed.html"))
		o->flags |= PFA_TIMELINE;
}

static void die(const struct pfa_error *e)
{
	fprintf(stderr, "bench-session: %s\n", e->message);
	exit(1);
}

int main(int argc, char **argv)
{
	struct pfa_options o = PFA_OPTIONS_INIT;
	struct pfa_extra_output more[2];
	struct pfa_stats st = {.size = sizeof(st)}, warm = {.size = sizeof(warm)};
	struct pfa_session *s;
	struct pfa_error e = {0};
	struct bench_stats bpf = {0};
	struct pfa_counter c;
	double t0 = now(), started, stopped, before_stop, cpu_warm, t_warm, cpu_end;
	double seconds, child_end, cpu_stopped;
	unsigned long long rss_before_stop, anon_before_stop;
	struct rusage child_usage;
	int warm_s, child;

	if (argc != 5 && argc != 6) {
		fprintf(stderr, "usage: bench-session PID|all RATE SECONDS OUTPUT [MORE]\n");
		return 2;
	}
	o.target = strcmp(argv[1], "all") == 0 ? PFA_TARGET_ALL : PFA_TARGET_PID;
	if (o.target == PFA_TARGET_PID)
		o.pid = (int32_t)strtol(argv[1], NULL, 10);
	else
		o.flags = PFA_EXCLUDE_OWN_PROCESS;
	o.sample_rate_hz = (uint32_t)strtoul(argv[2], NULL, 10);
	seconds = strtod(argv[3], NULL);
	o.profile.path = argv[4];
	if (argc == 6)
		add_output(&o, argv[5], more);
	if (!getenv("NO_BPF_STATS"))
		bench_stats_enable();
	if (pfa_new(&o, &s, &e) < 0 || pfa_start(s, &e) < 0)
		die(&e);
	started = now();
	/* The steady state begins after 5 s, or half the time. */
	warm_s = seconds > 10 ? 5 : (int)(seconds / 2);
	poll(NULL, 0, warm_s * 1000);
	cpu_warm = cpu(RUSAGE_SELF);
	t_warm = now();
	(void)pfa_stats(s, &warm);
	poll(NULL, 0, (int)((seconds - warm_s) * 1000));
	bpf = bench_stats_of("oncpu_sample");
	(void)pfa_stats(s, &st);
	child = child_pid();
	child_end = child > 0 ? cpu_of(child) : 0;
	rss_before_stop = rss_kib("VmHWM:");
	anon_before_stop = rss_kib("RssAnon:"); /* without mapped BPF maps */
	cpu_end = cpu(RUSAGE_SELF);
	before_stop = now();
	if (pfa_stop(s, &e) < 0)
		die(&e);
	stopped = now();
	cpu_stopped = cpu(RUSAGE_SELF);
	getrusage(RUSAGE_CHILDREN, &child_usage);
	printf("{\"target\":\"%s\",\"rate_hz\":%u,\"seconds\":%.2f,\"start_ms\":%.1f,\"stop_ms\":%."
	       "1f",
	       o.pid ? "pid" : "all", o.sample_rate_hz, before_stop - started, (started - t0) * 1e3,
	       (stopped - before_stop) * 1e3);
	printf(",\"bpf_runs\":%llu,\"bpf_ns_per_run\":%.1f,\"bpf_insns_verified\":%u,\"bpf_bytes\":"
	       "%u",
	       bpf.runs, bpf.runs ? (double)bpf.ns / (double)bpf.runs : 0.0, bpf.insns_verified,
	       bpf.xlated_bytes);
	printf(",\"steady_user_cpu_pct\":%.3f,\"steady_agent_cpu_pct\":%.3f",
	       100 * (cpu_end - cpu_warm) / (before_stop - t_warm),
	       100 * (double)(st.agent_cpu_ns - warm.agent_cpu_ns) / 1e9 / (before_stop - t_warm));
	printf(",\"agent_cpu_ms\":%.1f", (double)st.agent_cpu_ns / 1e6);
	printf(",\"stop_cpu_ms\":%.1f,\"stop_child_cpu_ms\":%.1f,\"child_cpu_ms\":%.1f",
	       1e3 * (cpu_stopped - cpu_end),
	       child > 0 ? 1e3 * (cpu(RUSAGE_CHILDREN) - child_end) : 0.0,
	       1e3 * cpu(RUSAGE_CHILDREN));
	printf(",\"rss_before_stop_kib\":%llu,\"rss_anon_before_stop_kib\":%llu", rss_before_stop,
	       anon_before_stop);
	printf(",\"child_rss_peak_kib\":%ld", child_usage.ru_maxrss);
	printf(",\"rss_kib\":%llu,\"rss_peak_kib\":%llu,\"rss_anon_kib\":%llu,\"locked_bytes\":%"
	       "llu",
	       rss_kib("VmRSS:"), rss_kib("VmHWM:"), rss_kib("RssAnon:"),
	       (unsigned long long)st.locked_bytes);
	for (size_t i = 0; pfa_counter(s, i, &c) == 0; i++)
		printf(",\"%s\":%llu", c.name, (unsigned long long)c.value);
	printf("}\n");
	pfa_free(s);
	return 0;
}
