/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test-live-snapshot - profiles of running captures. Also run under ThreadSanitizer.
 * Usage: test-live-snapshot SPIN WAITS
 */
#include <stdatomic.h>

#include "apilib.h"
#include "perfagent/perfagent_snapshot.h"

static const char *spin, *waits; /* the workloads */

static void wait_ms(int ms)
{
	struct pollfd none = {.fd = -1};

	(void)poll(&none, 1, ms);
}

static struct pfa_profile *snapshot(struct pfa_session *s, uint32_t kind, uint32_t flags)
{
	struct pfa_profile *p = NULL;
	struct pfa_error err = {0};

	ok(pfa_snapshot(s, kind, flags, &p, &err));
	assert_non_null(p);
	return p;
}

static struct pfa_profile_totals totals(const struct pfa_profile *p)
{
	struct pfa_profile_totals t = {.size = sizeof(t)};

	assert_int_equal(pfa_profile_totals(p, &t), 0);
	return t;
}

/* The cumulative weight of a function of that name, which may end in ".isra.0" or the like. */
static uint64_t cum_of(const struct pfa_profile *p, const char *name)
{
	static struct pfa_function top[1000];
	int n = pfa_profile_top(p, PFA_BY_CUM, top, 1000);

	assert_true(n >= 0);
	for (int i = 1; i < n; i++)
		assert_true(top[i].cum <= top[i - 1].cum);
	for (int i = 0; i < n; i++)
		if (strncmp(top[i].name, name, strlen(name)) == 0)
			return top[i].cum;
	return 0;
}

static struct pfa_session *start_with(const char *const *argv, uint32_t modes, uint32_t flags)
{
	struct pfa_options o = PFA_OPTIONS_INIT;
	struct pfa_session *s = NULL;
	struct pfa_error err = {0};

	o.target = PFA_TARGET_COMMAND;
	o.argv = argv;
	o.modes = modes;
	o.sample_rate_hz = 499;
	o.flags = flags;
	ok(pfa_new(&o, &s, &err));
	ok(pfa_start(s, &err));
	return s;
}

static struct pfa_session *start(const char *const *argv, uint32_t modes)
{
	return start_with(argv, modes, 0);
}

#define ENOUGH  50  /* samples or intervals, before a command is ended */
#define TIMES   400 /* that they are waited for, 150 ms each: a machine may be busy */
#define WAIT_MS 60000

static bool has_ended(const struct pfa_session *s, int ms)
{
	struct pollfd p = {.fd = pfa_ended_fd(s), .events = POLLIN};

	return poll(&p, 1, ms) > 0;
}

static uint64_t deferred_of(const struct pfa_session *s)
{
	struct pfa_counter c;

	for (size_t i = 0; pfa_counter(s, i, &c) == 0; i++)
		if (strcmp(c.name, "samples_deferred") == 0)
			return c.value;
	fail_msg("no counter samples_deferred");
	return 0;
}

/* Whether a sample has not reached the snapshots yet: a deferred one that is being unwound. */
static bool lacks(const struct pfa_session *s, uint32_t kind, uint64_t samples)
{
	const struct pfa_stats st = stats_of(s);

	return samples < (kind == PFA_KIND_ONCPU ? st.kept : st.offcpu_kept);
}

/* Snapshots until there are enough samples, and after the command has ended until all of its samples
 * are in one. */
static void follow(const char *const *argv, uint32_t modes, uint32_t kind)
{
	struct pfa_session *s = start(argv, modes);
	struct pfa_profile_totals sum = {0}, whole, t;
	struct pfa_profile *p;
	struct pfa_error err = {0};
	struct pfa_stats st;
	uint64_t room;
	int n = 0;

	for (bool end = false; !end || (lacks(s, kind, sum.samples) && n < TIMES); n++) {
		if (end) {
			wait_ms(100);
		} else if (sum.samples >= ENOUGH && n >= 3) {
			assert_int_equal(kill(pfa_command_pid(s), SIGKILL), 0);
			end = has_ended(s, WAIT_MS);
			assert_true(end);
		} else {
			assert_false(has_ended(s, 150));
			assert_true(n < TIMES);
		}
		p = snapshot(s, kind, PFA_SNAPSHOT_SINCE_LAST);
		t = totals(p);
		sum.samples += t.samples;
		sum.weight += t.weight;
		sum.duration_ns += t.duration_ns;
		sum.dropped += t.dropped;
		assert_int_equal(t.kind, kind);
		pfa_profile_free(p);
	}
	p = snapshot(s, kind, PFA_SNAPSHOT_SAME_MOMENT);
	whole = totals(p);
	ok(pfa_stop(s, &err));
	st = stats_of(s);
	print_message("# %llu samples, %llu lost; weights of %d snapshots %llu, of all %llu, at "
	              "the end %llu\n",
	              (unsigned long long)whole.samples, (unsigned long long)whole.dropped, n,
	              (unsigned long long)sum.weight, (unsigned long long)whole.weight,
	              (unsigned long long)(kind == PFA_KIND_ONCPU ? st.weight : st.offcpu_ns));
	assert_int_equal(sum.duration_ns, whole.duration_ns);
	assert_int_equal(sum.samples, whole.samples);
	assert_int_equal(sum.dropped, whole.dropped);
	if (kind == PFA_KIND_ONCPU) {
		assert_int_equal(st.kept, whole.samples);
		assert_int_equal(st.dropped, whole.dropped);
		assert_int_equal(st.seen, st.kept + st.dropped);
		assert_int_equal(st.weight, whole.weight);
		/* Each is scaled to the CPU time of its own window. A deferred sample is in a later
		 * one than its time. */
		room = st.weight / 50 + deferred_of(s) * (st.weight / st.kept);
		print_message("# %llu deferred\n", (unsigned long long)deferred_of(s));
		assert_in_range(sum.weight, st.weight - room, st.weight + room);
		/* The profile does not depend on the capture. */
		assert_in_range(cum_of(p, "spin_a"), whole.weight / 2, whole.weight);
	} else {
		assert_int_equal(st.offcpu_kept, whole.samples);
		assert_int_equal(st.offcpu_dropped, whole.dropped);
		assert_int_equal(st.offcpu_ns, whole.weight);
		assert_int_equal(sum.weight, whole.weight);
	}
	pfa_profile_free(p);
	pfa_free(s);
}

static void test_profiles_since_the_last_add_up(void **state)
{
	const char *const argv[] = {"sh", "-c", "exec \"$0\" --seconds 100 >/dev/null", spin, NULL};

	(void)state;
	follow(argv, PFA_MODE_PROFILE, PFA_KIND_ONCPU);
}

static void test_intervals_since_the_last_add_up(void **state)
{
	const char *const argv[] = {"sh", "-c", "exec \"$0\" sleep --seconds 100 >/dev/null", waits,
	                            NULL};

	(void)state;
	follow(argv, PFA_MODE_PROFILE | PFA_MODE_OFFCPU, PFA_KIND_OFFCPU);
}

static uint64_t blocked_in(struct pfa_session *s, const char *name, uint32_t flags)
{
	struct pfa_profile *p = snapshot(s, PFA_KIND_OFFCPU, flags);
	uint64_t ns = cum_of(p, name);

	pfa_profile_free(p);
	return ns;
}

/* A thread that waits for a signal, then runs on. */
static void follow_stuck(uint32_t flags)
{
	const char *const argv[] = {"sh", "-c", "exec \"$0\" stuck --seconds 100 >/dev/null", waits,
	                            NULL};
	const uint32_t open = PFA_SNAPSHOT_OPEN, last = PFA_SNAPSHOT_SINCE_LAST,
	               same = PFA_SNAPSHOT_SAME_MOMENT;
	struct pfa_session *s = start_with(argv, PFA_MODE_OFFCPU, flags);
	struct pfa_error err = {0};
	uint64_t sum = 0, before;
	int n = 0;

	while (sum == 0 && n++ < TIMES) {
		wait_ms(150);
		sum += blocked_in(s, "wait_stuck", open | last);
	}
	assert_true(sum >= 1000000000);
	assert_int_equal(blocked_in(s, "wait_stuck", same), 0); /* none has ended */
	assert_int_equal(blocked_in(s, "wait_stuck", open | same), sum);
	wait_ms(1000);
	before = sum;
	sum += blocked_in(s, "wait_stuck", open | last);
	assert_true(sum >= before + 1000000000);
	assert_int_equal(blocked_in(s, "wait_stuck", open | same), sum);
	assert_int_equal(kill(pfa_command_pid(s), SIGUSR1), 0);
	for (n = 0; n < TIMES && blocked_in(s, "wait_stuck", same) == 0; n++) {
		wait_ms(150);
		sum += blocked_in(s, "wait_stuck", open | last);
	}
	assert_int_equal(blocked_in(s, "wait_stuck", open | same), sum);
	assert_true(sum > before + 1000000000);
	assert_int_equal(kill(pfa_command_pid(s), SIGKILL), 0);
	ok(pfa_stop(s, &err));
	pfa_free(s);
}

static void test_an_open_interval_is_in_the_profile_on_request(void **state)
{
	(void)state;
	follow_stuck(0);
}

/* An interval gets its waker when it ends. */
static void test_an_open_interval_with_wakers_counts_once(void **state)
{
	(void)state;
	follow_stuck(PFA_OFFCPU_WAKERS);
}

static void test_lists_of_a_snapshot(void **state)
{
	const char *const argv[] = {"sh", "-c", "exec \"$0\" --seconds 100 >/dev/null", spin, NULL};
	static const char *const a[] = {"spin_a", NULL}, *const none[] = {NULL};
	struct pfa_session *s = start(argv, PFA_MODE_PROFILE);
	struct pfa_profile *p = NULL;
	struct pfa_profile_totals t;
	struct pfa_function by[20];
	struct pfa_task tasks[20];
	struct pfa_offcpu_site site;
	struct pfa_error err = {0};
	uint64_t cum = 0;
	int n;

	(void)state;
	/* The names of a new program are there after a few snapshots at most. */
	for (int i = 0; i < 50 && cum == 0; i++) {
		wait_ms(200);
		pfa_profile_free(p);
		p = snapshot(s, PFA_KIND_ONCPU, 0);
		cum = cum_of(p, "spin_a");
	}
	t = totals(p);
	assert_in_range(cum, 1, t.weight);
	n = pfa_profile_callers(p, a, by, 20);
	assert_true(n >= 1);
	assert_true(by[0].cum <= cum && by[0].self == by[0].cum);
	assert_int_equal(strncmp(by[0].name, "spin_", 5), 0);
	assert_int_equal(pfa_profile_callers(p, none, by, 20), -EINVAL);
	n = pfa_profile_processes(p, tasks, 20);
	assert_true(n >= 1);
	assert_int_equal(tasks[0].pid, pfa_command_pid(s));
	assert_int_equal(tasks[0].tid, 0);
	assert_string_equal(tasks[0].comm, "spin");
	assert_true(pfa_profile_threads(p, tasks, 20) >= 1);
	assert_int_equal(tasks[0].tid, tasks[0].pid);
	assert_int_equal(pfa_profile_offcpu_sites(p, &site, 1), -EINVAL);
	pfa_profile_free(p);
	p = NULL;
	assert_int_equal(pfa_snapshot(s, PFA_KIND_OFFCPU, 0, &p, &err), -EINVAL);
	assert_non_null(strstr(err.message, "off-CPU"));
	assert_int_equal(pfa_snapshot(s, PFA_KIND_ONCPU, 1u << 31, &p, &err), -EINVAL);
	assert_int_equal(kill(pfa_command_pid(s), SIGKILL), 0);
	ok(pfa_stop(s, &err));
	assert_int_equal(pfa_snapshot(s, PFA_KIND_ONCPU, 0, &p, &err), -EINVAL);
	assert_null(p);
	pfa_free(s);
}

static void test_a_snapshot_is_written_in_each_format(void **state)
{
	struct traces before = look();
	struct sink sink = {0};
	struct pfa_options o = own_process(NULL);
	const struct pfa_output out = {.write = take, .write_arg = &sink}, nowhere = {0};
	struct pfa_session *s = NULL;
	struct pfa_profile *p = NULL;
	struct pfa_error err = {0};

	(void)state;
	ok(pfa_new(&o, &s, &err));
	ok(pfa_start(s, &err));
	/* Samples may be deferred ones at first. */
	for (int i = 0; i < 50 && (!p || totals(p).samples == 0); i++) {
		pfa_profile_free(p);
		burn_ms(100);
		p = snapshot(s, PFA_KIND_ONCPU, 0);
	}
	ok(pfa_profile_write(p, PFA_PROFILE_PPROF, &out, &err));
	assert_true(sink.gzip);
	ok(pfa_profile_write(p, PFA_PROFILE_FLAME_HTML, &out, &err));
	assert_true(!sink.gzip && sink.bytes > 1000);
	ok(pfa_profile_write(p, PFA_PROFILE_FLAME_SVG, &out, &err));
	ok(pfa_profile_write(p, PFA_PROFILE_FOLDED, &out, &err));
	assert_int_equal(sink.calls, 4);
	assert_int_equal(pfa_profile_write(p, 12345, &out, &err), -EINVAL);
	assert_int_equal(pfa_profile_write(p, PFA_PROFILE_PPROF, &nowhere, &err), -EINVAL);
	/* A capture that is abandoned with a snapshot of it. */
	pfa_free(s);
	assert_true(totals(p).samples > 0);
	pfa_profile_free(p);
	pfa_profile_free(NULL);
	assert_no_traces(&before);
}

/* Appends folded stacks to a buffer, and ends them with a NUL. */
static char folded[1U << 20];
static int take_folded(void *arg, const void *data, size_t len)
{
	size_t *n = arg;

	if (len >= sizeof(folded) - *n)
		return -E2BIG;
	memcpy(folded + *n, data, len);
	*n += len;
	folded[*n] = 0;
	return 0;
}

/* The sum of all lines, each of which must have the text. */
static uint64_t folded_sum(const struct pfa_profile *const *p, size_t n, const char *const *focus,
                           const char *text)
{
	size_t len = 0;
	const struct pfa_output out = {.write = take_folded, .write_arg = &len};
	struct pfa_error err = {0};
	uint64_t sum = 0;

	ok(pfa_profiles_write(p, n, focus, PFA_PROFILE_FOLDED, &out, &err));
	for (char *rest = folded, *line; (line = strsep(&rest, "\n"));) {
		if (!*line)
			continue;
		assert_non_null(strstr(line, text));
		sum += strtoull(strrchr(line, ' ') + 1, NULL, 10);
	}
	return sum;
}

static void test_several_snapshots_are_written_as_one(void **state)
{
	const char *const argv[] = {"sh", "-c", "exec \"$0\" --seconds 100 >/dev/null", spin, NULL};
	const char *const a[] = {"^spin_a", NULL}, *const both[] = {"^spin_a", "(?i)MAIN", NULL},
	                  *const none[] = {"^spin_a", "^not there$", NULL},
	                  *const bad[] = {"(", NULL};
	struct pfa_session *s = start(argv, PFA_MODE_PROFILE);
	struct pfa_profile *p[2] = {NULL, NULL};
	const struct pfa_profile *const *all = (const struct pfa_profile *const *)p;
	struct sink sink = {0};
	const struct pfa_output out = {.write = take, .write_arg = &sink};
	struct pfa_error err = {0};
	uint64_t with_a;

	(void)state;
	/* Names come within a few snapshots. */
	for (int i = 0; i < TIMES && (!p[0] || !cum_of(p[0], "spin_a") || !cum_of(p[1], "spin_a"));
	     i++) {
		pfa_profile_free(p[0]);
		p[0] = p[1];
		wait_ms(200);
		p[1] = snapshot(s, PFA_KIND_ONCPU, PFA_SNAPSHOT_SINCE_LAST);
	}
	assert_int_equal(folded_sum(all, 2, NULL, ""), totals(p[0]).samples + totals(p[1]).samples);
	assert_int_equal(folded_sum(all, 1, NULL, ""), totals(p[0]).samples);
	with_a = folded_sum(all, 2, a, "spin_a");
	assert_in_range(with_a, 1, totals(p[0]).samples + totals(p[1]).samples);
	assert_in_range(folded_sum(all, 2, both, "main"), 1, with_a);
	assert_int_equal(pfa_profiles_write(all, 2, none, PFA_PROFILE_FOLDED, &out, &err), -ENOENT);
	assert_int_equal(pfa_profiles_write(all, 2, bad, PFA_PROFILE_FOLDED, &out, &err), -EINVAL);
	assert_int_equal(pfa_profiles_write(all, 0, NULL, PFA_PROFILE_FOLDED, &out, &err), -EINVAL);
	assert_int_equal(sink.calls, 0);
	assert_int_equal(kill(pfa_command_pid(s), SIGKILL), 0);
	ok(pfa_stop(s, &err));
	pfa_profile_free(p[0]);
	pfa_profile_free(p[1]);
	pfa_free(s);
}

/* Interrupts at any time, and snapshots between them. */
struct interrupter {
	struct pfa_session *s;
	_Atomic bool end;
	uint64_t asked;
};

static void *interrupt_often(void *arg)
{
	struct interrupter *i = arg;
	struct pfa_stats st;

	while (!atomic_load(&i->end)) {
		wait_ms(7);
		pfa_interrupt(i->s);
		st = (struct pfa_stats){.size = sizeof(st)};
		i->asked += pfa_stats(i->s, &st) == 0;
	}
	return NULL;
}

static void test_an_interrupted_snapshot_loses_nothing(void **state)
{
	struct pfa_options o = own_process(NULL);
	struct interrupter i = {0};
	struct pfa_profile *p;
	struct pfa_error err = {0};
	uint64_t samples = 0;
	int interrupted = 0;
	pthread_t t;

	(void)state;
	ok(pfa_new(&o, &i.s, &err));
	ok(pfa_start(i.s, &err));
	pfa_interrupt(i.s);
	p = NULL;
	assert_int_equal(pfa_snapshot(i.s, PFA_KIND_ONCPU, 0, &p, &err), -EINTR);
	assert_null(p);
	assert_int_equal(pthread_create(&t, NULL, interrupt_often, &i), 0);
	for (int n = 0; n < 40; n++) {
		int r = pfa_snapshot(i.s, PFA_KIND_ONCPU, PFA_SNAPSHOT_SINCE_LAST, &p, &err);

		burn_ms(5);
		interrupted += r == -EINTR;
		if (r == -EINTR)
			continue;
		ok(r);
		samples += totals(p).samples;
		pfa_profile_free(p);
	}
	atomic_store(&i.end, true);
	assert_int_equal(pthread_join(t, NULL), 0);
	assert_true(interrupted > 0 && i.asked > 0);
	for (int r = -EINTR; r == -EINTR;) {
		r = pfa_snapshot(i.s, PFA_KIND_ONCPU, PFA_SNAPSHOT_SINCE_LAST, &p, &err);
		if (r != -EINTR)
			ok(r);
	}
	samples += totals(p).samples;
	pfa_profile_free(p);
	p = snapshot(i.s, PFA_KIND_ONCPU, PFA_SNAPSHOT_SAME_MOMENT);
	assert_int_equal(samples, totals(p).samples);
	pfa_profile_free(p);
	ok(pfa_stop(i.s, &err));
	pfa_free(i.s);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
	        cmocka_unit_test(test_profiles_since_the_last_add_up),
	        cmocka_unit_test(test_intervals_since_the_last_add_up),
	        cmocka_unit_test(test_an_open_interval_is_in_the_profile_on_request),
	        cmocka_unit_test(test_an_open_interval_with_wakers_counts_once),
	        cmocka_unit_test(test_lists_of_a_snapshot),
	        cmocka_unit_test(test_a_snapshot_is_written_in_each_format),
	        cmocka_unit_test(test_several_snapshots_are_written_as_one),
	        cmocka_unit_test(test_an_interrupted_snapshot_loses_nothing),
	};

	if (argc != 3)
		return 2;
	spin = argv[1];
	waits = argv[2];
	return run_api_tests(tests, sizeof(tests) / sizeof(tests[0]));
}
