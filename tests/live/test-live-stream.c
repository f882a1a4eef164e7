// SPDX-License-Identifier: Apache-2.0
/*
 * test-live-stream: the samples of a capture one by one. They add up to the profile, exactly, and
 * agree with what a thread does: it is not on a CPU while it waits.
 *
 * Targets: children of this test, whose threads spin and sleep on a CPU of their own.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "session/session_priv.h"
#include "live_main.h"

#define SAMPLES_MIN 30    /* of the profile, before a capture ends */
#define LIMIT_MS    60000 /* for as many: emulated machines are slow */
#define STEP_MS     100
#define THREADS     2

/* ---- the target ------------------------------------------------------------------------------ */

/* To the @nth CPU of those that this test may use. */
static void pin(unsigned nth)
{
	cpu_set_t may, one;

	if (sched_getaffinity(0, sizeof(may), &may) < 0)
		return;
	CPU_ZERO(&one);
	for (unsigned cpu = 0; cpu < CPU_SETSIZE; cpu++) {
		if (!CPU_ISSET(cpu, &may) || nth-- > 0)
			continue;
		CPU_SET(cpu, &one);
		(void)sched_setaffinity(0, sizeof(one), &one);
		return;
	}
	/* Else it goes where it likes. */
}

static int cpus_allowed(void)
{
	cpu_set_t may;

	return sched_getaffinity(0, sizeof(may), &may) < 0 ? 1 : CPU_COUNT(&may);
}

/* Spins and sleeps, a millisecond or so each. */
static void *work(void *arg)
{
	const struct timespec nap = {.tv_nsec = 300000};
	volatile uint64_t sink = 1;

	pin((unsigned)(uintptr_t)arg);
	for (;;) {
		for (int i = 0; i < 2000000; i++)
			sink = sink * 31 + 1;
		(void)nanosleep(&nap, NULL);
	}
	return NULL;
}

/* Sleeps as often as it can. */
static void *nap_on(void *arg)
{
	const struct timespec nap = {.tv_nsec = 20000};

	(void)arg;
	(void)prctl(PR_SET_TIMERSLACK, 1UL);
	for (;;)
		(void)nanosleep(&nap, NULL);
	return NULL;
}

static pid_t run(void *(*body)(void *))
{
	pid_t pid = fork();

	assert_true(pid >= 0);
	if (pid)
		return pid;
	(void)prctl(PR_SET_PDEATHSIG, SIGKILL); /* else the test ends it */
	for (uintptr_t i = 1; i < THREADS; i++) {
		pthread_t id;

		if (pthread_create(&id, NULL, body, (void *)i) != 0)
			_exit(1);
	}
	(void)body(NULL);
	_exit(0);
}

static void end(pid_t pid)
{
	(void)kill(pid, SIGKILL);
	assert_int_equal(waitpid(pid, NULL, 0), pid);
}

/* ---- a capture ------------------------------------------------------------------------------- */

/* A sample with its count. */
struct timed {
	struct stream_sample s;
	struct ev_count c;
};
struct got {
	VEC(struct timed) v;
	uint64_t profile_samples, profile_weight, offcpu_samples, offcpu_weight; /* of the counts */
	uint64_t samples, weight, intervals, ns;                                 /* of the stream */
	struct pfa_stats st;
	uint64_t ring_full, over_limit;
	uint64_t start_ns, end_ns;
	size_t events;
};

static void on_stream(void *arg, const struct stream *st, const struct prof_agg *agg)
{
	struct got *g = arg;
	size_t n;
	const struct stream_sample *v = stream_samples(st, &n);

	for (size_t i = 0; i < prof_agg_count_cnt(agg); i++) {
		const struct ev_count *c = prof_agg_count_at(agg, i);

		assert_true(c->time_ns == 0);
		*(c->offcpu ? &g->offcpu_samples : &g->profile_samples) += c->samples;
		*(c->offcpu ? &g->offcpu_weight : &g->profile_weight) += c->weight;
	}
	for (size_t i = 0; i < n; i++) {
		const struct timed t = {.s = v[i], .c = *prof_agg_count_at(agg, v[i].count)};

		assert_int_equal(vec_push(&g->v, t), 0);
		if (t.c.offcpu) {
			g->intervals++;
			g->ns += t.s.weight;
		} else {
			g->samples++;
			g->weight += t.s.weight;
		}
	}
	(void)stream_events(st, &g->events);
}

static uint64_t counter(struct ses *s, const char *name)
{
	struct pfa_counter c;

	for (size_t i = 0; ses_counter(s, i, &c) == 0; i++)
		if (strcmp(c.name, name) == 0)
			return c.value;
	fail_msg("no counter %s", name);
	return 0;
}

static void capture(const struct pfa_options *o, size_t max_samples, uint64_t min, struct got *g)
{
	const struct ses_hooks hooks = {
	        .stream = on_stream, .stream_limits = {.max_samples = max_samples}, .arg = g};
	struct err err = {0};
	struct ses *s;

	memset(g, 0, sizeof(*g));
	g->v.max = SIZE_MAX / sizeof(*g->v.p);
	if (ses_new(o, &s, &err) < 0)
		fail_msg("%s", err.msg);
	ses_set_hooks(s, &hooks);
	g->start_ns = now_ns();
	if (ses_start(s, &err) < 0)
		fail_msg("%s", err.msg);
	for (int ms = 0; ms < LIMIT_MS; ms += STEP_MS) {
		(void)usleep(STEP_MS * 1000);
		assert_int_equal(ses_stats(s, &g->st), 0);
		if (g->st.kept + g->st.offcpu_kept >= min &&
		    (!(o->modes & PFA_MODE_PROFILE) || g->st.kept >= SAMPLES_MIN))
			break;
	}
	if (ses_stop(s, &err) < 0)
		fail_msg("%s", err.msg);
	g->end_ns = now_ns();
	assert_int_equal(ses_stats(s, &g->st), 0);
	g->ring_full = counter(s, "stream_ring_full");
	g->over_limit = counter(s, "stream_samples_over_limit");
	ses_free(s);
	print_message("# %llu samples, %llu intervals; not in the stream: %llu, %llu; %zu events\n",
	              (unsigned long long)g->samples, (unsigned long long)g->intervals,
	              (unsigned long long)g->ring_full, (unsigned long long)g->over_limit,
	              g->events);
}

/* All that is in the profile is in the stream, with the same weight, but for what did not fit into
 * the ring of a busy machine, which is counted. */
static void check_equal(const struct got *g)
{
	assert_int_equal(g->over_limit, 0);
	assert_true(g->st.kept + g->st.offcpu_kept > 0);
	if (g->ring_full) {
		assert_true(g->samples + g->intervals + g->ring_full ==
		            g->st.kept + g->st.offcpu_kept);
		assert_true(g->samples <= g->st.kept && g->intervals <= g->st.offcpu_kept);
		assert_true(g->weight <= g->st.weight + g->st.kept);
		assert_true(g->ns <= g->st.offcpu_ns);
		return;
	}
	assert_true(g->samples == g->st.kept);
	assert_true(g->weight == g->st.weight);
	assert_true(g->intervals == g->st.offcpu_kept);
	assert_true(g->ns == g->st.offcpu_ns);
}

static int by_thread(const void *va, const void *vb)
{
	const struct timed *a = va, *b = vb;

	if (a->c.tid != b->c.tid)
		return (a->c.tid > b->c.tid) - (a->c.tid < b->c.tid);
	return (a->s.time_ns > b->s.time_ns) - (a->s.time_ns < b->s.time_ns);
}

/* Returns how many CPUs the samples are of. */
static unsigned check_times(struct got *g, bool pinned)
{
	uint64_t cpus = 0;

	for (size_t i = 0; i < g->v.n; i++) {
		const struct timed *t = &g->v.p[i];

		assert_true(i == 0 || t->s.time_ns >= t[-1].s.time_ns);
		assert_in_range(t->s.time_ns, g->start_ns, g->end_ns);
		if (!t->c.offcpu)
			cpus |= 1ULL << (t->s.cpu & 63);
	}
	qsort(g->v.p, g->v.n, sizeof(*g->v.p), by_thread);
	for (size_t i = 1; i < g->v.n; i++) {
		const struct timed *t = &g->v.p[i];

		if (t->c.tid != t[-1].c.tid)
			continue;
		/* The time on a CPU that comes first, and waits, end where this wait begins. */
		if (t->c.offcpu)
			assert_true(t->s.time_ns - t->s.runq_ns - t->s.weight >= t[-1].s.time_ns);
		if (pinned && !t->c.offcpu && !t[-1].c.offcpu)
			assert_int_equal(t->s.cpu, t[-1].s.cpu);
	}
	return (unsigned)__builtin_popcountll(cpus);
}

/* ---- tests ----------------------------------------------------------------------------------- */

static void test_stream_adds_up_to_the_profiles(void **state)
{
	const pid_t pid = run(work);
	const struct pfa_options o = {.target = PFA_TARGET_PID,
	                              .pid = pid,
	                              .sample_rate_hz = 499,
	                              .offcpu_states = PFA_STATE_INTERRUPTIBLE |
	                                               PFA_STATE_UNINTERRUPTIBLE |
	                                               PFA_STATE_IOWAIT | PFA_STATE_PREEMPTED,
	                              .modes = PFA_MODE_PROFILE | PFA_MODE_OFFCPU};
	struct got g;
	unsigned cpus;

	(void)state;
	(void)usleep(200000); /* its threads are on their CPUs */
	capture(&o, 0, 200, &g);
	end(pid);
	check_equal(&g);
	assert_true(g.samples + g.ring_full >= SAMPLES_MIN && g.intervals + g.ring_full > 0);
	cpus = check_times(&g, true);
	if (cpus_allowed() >= THREADS && !g.ring_full)
		assert_int_equal(cpus, THREADS);
	vec_done(&g.v);
}

/* Names and ends of threads are in it too, and deferred samples: nothing has a table at first. */
static void test_stream_of_a_command(void **state)
{
	static const char *const argv[] = {
	        "sh", "-c",
	        "for i in 1 2 3 4 5 6; do head -c 6000000 /dev/urandom >/dev/null; done", NULL};
	const struct pfa_options o = {.target = PFA_TARGET_COMMAND,
	                              .argv = argv,
	                              .sample_rate_hz = 999,
	                              .modes = PFA_MODE_PROFILE | PFA_MODE_OFFCPU};
	struct got g;

	(void)state;
	capture(&o, 0, SAMPLES_MIN, &g);
	check_equal(&g);
	(void)check_times(&g, false);
	assert_true(g.events >= 3);
	vec_done(&g.v);
}

static void test_stream_of_all_processes(void **state)
{
	const pid_t pid = run(work);
	const struct pfa_options o = {.target = PFA_TARGET_ALL, .modes = PFA_MODE_PROFILE};
	struct got g;

	(void)state;
	capture(&o, 0, SAMPLES_MIN, &g);
	end(pid);
	check_equal(&g);
	(void)check_times(&g, false);
	vec_done(&g.v);
}

/* A page of ring, read once in ten seconds: most do not fit, and the profile has them all. */
static void test_what_a_full_ring_refuses_is_counted(void **state)
{
	const pid_t pid = run(nap_on);
	const struct pfa_options o = {.target = PFA_TARGET_PID,
	                              .pid = pid,
	                              .ring_bytes = 4096,
	                              .drain_interval_ms = 10000,
	                              .modes = PFA_MODE_OFFCPU};
	struct got g;

	(void)state;
	capture(&o, 0, 3000, &g);
	end(pid);
	assert_true(g.ring_full > 0);
	assert_int_equal(g.st.offcpu_dropped, 0);
	assert_true(g.intervals + g.ring_full == g.st.offcpu_kept);
	assert_true(g.ns < g.st.offcpu_ns);
	vec_done(&g.v);
}

static void test_what_is_over_the_limit_is_counted(void **state)
{
	const pid_t pid = run(work);
	const struct pfa_options o = {
	        .target = PFA_TARGET_PID, .pid = pid, .modes = PFA_MODE_PROFILE | PFA_MODE_OFFCPU};
	struct got g;

	(void)state;
	capture(&o, 10, 100, &g);
	end(pid);
	assert_int_equal(g.v.n, 10);
	assert_true(g.v.n + g.over_limit == g.st.kept + g.st.offcpu_kept);
	vec_done(&g.v);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	        cmocka_unit_test(test_stream_adds_up_to_the_profiles),
	        cmocka_unit_test(test_stream_of_a_command),
	        cmocka_unit_test(test_stream_of_all_processes),
	        cmocka_unit_test(test_what_a_full_ring_refuses_is_counted),
	        cmocka_unit_test(test_what_is_over_the_limit_is_counted),
	};

	return LIVE_RUN(tests);
}
