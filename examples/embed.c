/* SPDX-License-Identifier: Apache-2.0 */
/*
 * embed.c - profile one's own process with libperfagent
 *
 *     cc embed.c $(pkg-config --cflags --libs perfagent) -o embed && sudo ./embed
 *
 * Spins for a second in two functions, twice as long in the first. Keeps the profile in memory
 * instead of a file, and prints the hottest functions. Exit status 0 if the profile has samples.
 */
#include <perfagent/perfagent.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum {
	TOP = 10,
	RATE_HZ = 499,
	ROUNDS = 34, /* of 30 ms */
};

/* The profile (gzipped pprof) as the library hands it over. */
struct profile {
	void *data;
	size_t len;
};

static volatile unsigned long sink;

static unsigned long cpu_ms(void)
{
	struct timespec t;

	if (clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t) < 0)
		return 0;
	return (unsigned long)t.tv_sec * 1000 + (unsigned long)t.tv_nsec / 1000000;
}

/* CPU time, not time on the clock: on a busy machine the proportions stay. */
static void __attribute__((noinline)) spin_twice(unsigned long until_ms)
{
	while (cpu_ms() < until_ms) {
		for (unsigned long i = 0; i < 100000; i++)
			sink += i;
	}
}

static void __attribute__((noinline)) spin_once(unsigned long until_ms)
{
	while (cpu_ms() < until_ms) {
		for (unsigned long i = 0; i < 100000; i++)
			sink ^= i;
	}
}

static void work(void)
{
	unsigned long ms = cpu_ms();

	for (int i = 0; i < ROUNDS; i++) {
		spin_twice(ms + 20);
		spin_once(ms + 30);
		ms += 30;
	}
}

static int keep_profile(void *arg, const void *data, size_t len)
{
	struct profile *p = arg;
	void *copy = malloc(len);

	if (!copy)
		return -ENOMEM;  /* pfa_stop passes it on */
	memcpy(copy, data, len); /* @data is the library's, and gone after this call */
	free(p->data);
	p->data = copy;
	p->len = len;
	return 0;
}

static int fail(const char *what, int rc, const struct pfa_error *err)
{
	fprintf(stderr, "embed: %s: %s (%d)\n", what,
	        err->message[0] ? err->message : strerror(-rc), rc);
	return rc;
}

static int print_top(const struct pfa_session *s)
{
	struct pfa_stats stats = {.size = sizeof(stats)};
	struct pfa_function top[TOP];
	int n, rc;

	rc = pfa_stats(s, &stats);
	if (rc < 0)
		return rc;
	n = pfa_top(s, top, TOP);
	if (n < 0)
		return n;
	printf("%llu samples, %llu dropped; unit %s\n", (unsigned long long)stats.seen,
	       (unsigned long long)stats.dropped, pfa_weight_unit(s));
	for (int i = 0; i < n; i++)
		printf("%3.0f %%  %s  %s\n",
		       stats.weight ? 100.0 * (double)top[i].self / (double)stats.weight : 0.0,
		       top[i].name, top[i].module);
	for (size_t i = 0; pfa_note(s, i); i++)
		printf("note: %s\n", pfa_note(s, i));
	return n;
}

static int profile_myself(struct pfa_session *s, struct profile *p)
{
	struct pfa_error err = {0};
	int rc;

	rc = pfa_start(s, &err);
	if (rc < 0)
		return fail("start", rc, &err);
	work();
	rc = pfa_stop(s, &err);
	if (rc < 0)
		return fail("stop", rc, &err);
	rc = print_top(s);
	if (rc < 0)
		return fail("statistics", rc, &err);
	printf("profile: %zu bytes in memory\n", p->len);
	if (!rc || !p->len) {
		fprintf(stderr, "embed: the profile has no samples\n");
		return -1;
	}
	return 0;
}

int main(void)
{
	struct pfa_options o = PFA_OPTIONS_INIT;
	struct pfa_error err = {0};
	struct profile p = {0};
	struct pfa_session *s;
	int rc;

	o.target = PFA_TARGET_PID;
	o.pid = getpid();
	o.sample_rate_hz = RATE_HZ;
	o.profile.write = keep_profile;
	o.profile.write_arg = &p;

	rc = pfa_new(&o, &s, &err);
	if (rc < 0) {
		(void)fail("options", rc, &err);
		return 1;
	}
	rc = profile_myself(s, &p);
	pfa_free(s);
	free(p.data);
	return rc < 0 ? 1 : 0;
}
