/* SPDX-License-Identifier: Apache-2.0 */
/*
 * snapshots.c - where a process spends its time, second by second, with libperfagent
 *
 *     cc snapshots.c $(pkg-config --cflags --libs perfagent) -o snapshots && sudo ./snapshots PID 5
 *
 * Prints the hottest functions of each second, and those of the whole time at the end. Ends earlier
 * if the process does. Exit status 0 if the last profile has samples.
 */
#include <perfagent/perfagent_snapshot.h>

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>

enum {
	TOP = 5,
	SECOND_MS = 1000,
};

static int fail(const char *what, const struct pfa_error *err)
{
	fprintf(stderr, "snapshots: %s: %s\n", what, err->message);
	return -1;
}

/* Prints a profile. Returns its samples, or -1. */
static long long print_snapshot(struct pfa_session *s, uint32_t flags, const char *title)
{
	struct pfa_profile_totals sum = {.size = sizeof(sum)};
	struct pfa_function top[TOP];
	struct pfa_profile *p = NULL;
	struct pfa_error err = {0};
	int n;

	if (pfa_snapshot(s, PFA_KIND_ONCPU, flags, &p, &err) < 0)
		return fail("pfa_snapshot", &err);
	(void)pfa_profile_totals(p, &sum); /* cannot fail: the size is set */
	n = pfa_profile_top(p, PFA_BY_SELF, top, TOP);
	printf("%s: %.2f s of CPU time in %.2f s, %llu samples, %llu dropped\n", title,
	       (double)sum.weight / 1e9, (double)sum.duration_ns / 1e9,
	       (unsigned long long)sum.samples, (unsigned long long)sum.dropped);
	for (int i = 0; i < n; i++)
		printf("%5.1f %%  %s  %s\n",
		       sum.weight ? 100.0 * (double)top[i].self / (double)sum.weight : 0.0,
		       top[i].name, top[i].module);
	pfa_profile_free(p);
	return (long long)sum.samples;
}

static long long watch(struct pfa_session *s, int seconds)
{
	struct pollfd ended = {.events = POLLIN};
	struct pfa_error err = {0};
	long long n = 0;

	if (pfa_start(s, &err) < 0)
		return fail("pfa_start", &err);
	ended.fd = pfa_ended_fd(s);
	for (int i = 0; i < seconds && n >= 0 && poll(&ended, 1, SECOND_MS) == 0; i++)
		n = print_snapshot(s, PFA_SNAPSHOT_SINCE_LAST, "this second");
	if (n >= 0)
		n = print_snapshot(s, 0, "all of it");
	if (pfa_stop(s, &err) < 0)
		return fail("pfa_stop", &err);
	return n;
}

int main(int argc, char **argv)
{
	struct pfa_options o = PFA_OPTIONS_INIT;
	struct pfa_session *s = NULL;
	struct pfa_error err = {0};
	long long n;

	if (argc != 3) {
		fprintf(stderr, "usage: snapshots PID SECONDS\n");
		return 2;
	}
	o.target = PFA_TARGET_PID;
	o.pid = (int32_t)strtol(argv[1], NULL, 10);
	if (pfa_new(&o, &s, &err) < 0)
		return fail("pfa_new", &err) < 0;
	n = watch(s, (int)strtol(argv[2], NULL, 10));
	pfa_free(s);
	return n > 0 ? 0 : 1;
}
