// SPDX-License-Identifier: Apache-2.0
/*
 * bench-startup PID|all RATE SECONDS OUTPUT: prints one JSON line with the time from the beginning
 * of main to the first counted sample, and to the last walk that met an image without a table.
 */
#include <perfagent/perfagent.h>

#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define STEP_MS 5

static double now_ms(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (double)ts.tv_sec * 1e3 + (double)ts.tv_nsec / 1e6;
}

static uint64_t counter(struct pfa_session *s, const char *name)
{
	struct pfa_counter c;

	for (size_t i = 0; pfa_counter(s, i, &c) == 0; i++)
		if (strcmp(c.name, name) == 0)
			return c.value;
	return 0;
}

static void die(const struct pfa_error *e)
{
	fprintf(stderr, "bench-startup: %s\n", e->message);
	exit(1);
}

int main(int argc, char **argv)
{
	struct pfa_options o = PFA_OPTIONS_INIT;
	struct pfa_error e = {0};
	struct pfa_session *s;
	struct pfa_counter c;
	double t0 = now_ms(), started, stop, first = 0, last_without = 0;
	uint64_t without = 0;

	if (argc != 5) {
		fprintf(stderr, "usage: bench-startup PID|all RATE SECONDS OUTPUT\n");
		return 2;
	}
	o.target = strcmp(argv[1], "all") == 0 ? PFA_TARGET_ALL : PFA_TARGET_PID;
	if (o.target == PFA_TARGET_PID)
		o.pid = (int32_t)strtol(argv[1], NULL, 10);
	o.sample_rate_hz = (uint32_t)strtoul(argv[2], NULL, 10);
	o.profile.path = argv[4];
	if (pfa_new(&o, &s, &e) < 0 || pfa_start(s, &e) < 0)
		die(&e);
	started = now_ms();
	while (now_ms() < started + strtod(argv[3], NULL) * 1e3) {
		uint64_t n;

		poll(NULL, 0, STEP_MS);
		if (!first && counter(s, "samples_seen"))
			first = now_ms();
		n = counter(s, "walks_without_table");
		if (n != without) {
			without = n;
			last_without = now_ms();
		}
	}
	stop = now_ms();
	if (pfa_stop(s, &e) < 0)
		die(&e);
	printf("{\"start_ms\":%.1f,\"sampling_ms\":%.1f,\"all_tables_ms\":%.1f,\"stop_ms\":%."
	       "1f",
	       started - t0, first ? first - t0 : -1, last_without ? last_without - t0 : -1,
	       now_ms() - stop);
	for (size_t i = 0; pfa_counter(s, i, &c) == 0; i++)
		printf(",\"%s\":%llu", c.name, (unsigned long long)c.value);
	printf("}\n");
	pfa_free(s);
	return 0;
}
