/* SPDX-License-Identifier: Apache-2.0 */
/* test-session-snapshot - profiles of a capture that runs, without kernel side and threads, and with a
 * track that is made up; and the hand-over between threads */
#include "session_capture.h"

#include <stdatomic.h>

static struct ses *new_running(void)
{
	struct ses *s = new_capture();

	s->state = SES_RUNNING;
	s->env.start_ns = now_ns();
	return s;
}

static void end(struct ses *s)
{
	s->state = SES_STOPPED;
	ses_free(s);
}

/* ses_stats asks the kernel side, which is not there. */
int __wrap_ses_stats(struct ses *s, struct pfa_stats *ret);
static uint64_t stats_dropped, drops_per_look;
int __wrap_ses_stats(struct ses *s, struct pfa_stats *ret)
{
	(void)s;
	*ret = (struct pfa_stats){.dropped = stats_dropped};
	stats_dropped += drops_per_look;
	return 0;
}

static void count(struct prof_agg *a, uint32_t tid, uint64_t hash, uint64_t samples)
{
	struct ev_frame f = {.addr = 16 * hash, .image = 1, .space = EV_SPACE_IMAGE, .exact = 1};
	const struct ev_stack st = {.hash = hash, .walk = EV_WALK_ROOT, .n = 1, .frames = &f};
	const struct ev_count c = {.proc = {.pid = 77, .start_ns = 5},
	                           .tid = tid,
	                           .ustack = hash,
	                           .samples = samples,
	                           .weight = 10 * samples};

	assert_int_equal(prof_agg_add_stack(a, &st, NULL), 0);
	assert_int_equal(prof_agg_add_count(a, &c), 0);
}

static struct ses_profile take(struct ses *s, uint32_t flags)
{
	struct ses_profile p = {0};
	struct err err = {0};

	if (ses_snapshot(s, PFA_KIND_ONCPU, flags, &p, &err) < 0)
		fail_msg("%s", err.msg);
	assert_non_null(p.result.model);
	return p;
}

static uint64_t samples_in(struct ses *s, uint32_t flags)
{
	struct ses_profile p = take(s, flags);
	uint64_t n = p.result.kept;

	assert_int_equal(p.result.weight, 10 * n);
	ses_profile_done(&p);
	return n;
}

static void test_differences_add_up(void **state)
{
	const uint32_t last = PFA_SNAPSHOT_SINCE_LAST, same = PFA_SNAPSHOT_SAME_MOMENT;
	struct ses *s = new_running();

	(void)state;
	assert_int_equal(samples_in(s, last), 0);
	count(s->walk.agg, 1, 1, 3);
	count(s->walk.agg, 2, 2, 4);
	assert_int_equal(samples_in(s, last | same), 0); /* they are of later */
	assert_int_equal(samples_in(s, 0), 7);
	assert_int_equal(samples_in(s, last), 7);
	assert_int_equal(samples_in(s, last), 0);
	count(s->walk.agg, 1, 1, 1); /* of a stack that was met before */
	count(s->walk.agg, 1, 3, 5);
	assert_int_equal(samples_in(s, last), 6);
	assert_int_equal(samples_in(s, same), 13);
	/* Deferred samples, which the tracker keeps until the end. */
	count(s->walk.deferred->walked, 1, 1, 2);
	count(s->walk.deferred->walked, 3, 4, 8);
	assert_int_equal(samples_in(s, 0), 23);
	assert_int_equal(samples_in(s, last), 10);
	assert_int_equal(samples_in(s, last), 0);
	/* The end result is not touched. */
	deferred_merge(s->walk.deferred);
	assert_int_equal(prof_agg_stats(s->walk.agg)->samples, 23);
	end(s);
}

const struct smp_offcpu_stats *__wrap_smp_offcpu_stats(const struct smp_offcpu *o);
const struct smp_offcpu_stats *__wrap_smp_offcpu_stats(const struct smp_offcpu *o)
{
	static const struct smp_offcpu_stats none;

	(void)o;
	return &none;
}

/* Weight of an off-CPU profile. @intervals: what it must have. */
static uint64_t blocked_in(struct ses *s, uint32_t flags, uint64_t intervals)
{
	struct ses_profile p = {0};
	struct err err = {0};
	uint64_t weight;

	if (ses_snapshot(s, PFA_KIND_OFFCPU, flags, &p, &err) < 0)
		fail_msg("%s", err.msg);
	weight = p.result.weight;
	assert_int_equal(p.result.kept, intervals);
	ses_profile_done(&p);
	return weight;
}

static void test_open_intervals_are_subtracted_from_the_next_profile(void **state)
{
	const uint32_t last = PFA_SNAPSHOT_SINCE_LAST, open = PFA_SNAPSHOT_OPEN;
	struct ev_count c = {
	        .proc = {.pid = 77, .start_ns = 5}, .tid = 1, .offcpu = 1, .samples = 1};
	struct ses *s = new_running();

	(void)state;
	assert_int_equal(src_offcpu.open(&s->env, &s->src[SRC_OFFCPU], NULL), 0);
	assert_int_equal(blocked_in(s, last | open, 0), 0);
	c.weight = 10;
	assert_int_equal(vec_push(&s->copy->open, c), 0);
	assert_int_equal(blocked_in(s, open, 1), 10);
	assert_int_equal(blocked_in(s, 0, 0), 0);
	assert_int_equal(blocked_in(s, last | open, 1), 10);
	s->copy->open.p[0].weight = 25;
	assert_int_equal(blocked_in(s, last | open, 0), 15);
	assert_int_equal(blocked_in(s, open, 1), 25);
	/* It ends. */
	s->copy->open.n = 0;
	c.weight = 30;
	assert_int_equal(prof_agg_add_count(s->walk.agg, &c), 0);
	assert_int_equal(blocked_in(s, last | open, 0), 5);
	assert_int_equal(blocked_in(s, open, 1), 30);
	assert_int_equal(blocked_in(s, last | open, 0), 0);
	/* Another one, which is not asked for any more. */
	c.weight = 50;
	assert_int_equal(vec_push(&s->copy->open, c), 0);
	assert_int_equal(blocked_in(s, last | open, 1), 50);
	assert_int_equal(blocked_in(s, last, 0), 0);
	c.weight = 60;
	assert_int_equal(prof_agg_add_count(s->walk.agg, &c), 0);
	assert_int_equal(blocked_in(s, last, 1), 60);
	end(s);
}

/* The waker of an interval is known when it ends. Windows add up to the profile since the start. */
static void test_an_interval_that_gets_a_waker_counts_once(void **state)
{
	const uint32_t last = PFA_SNAPSHOT_SINCE_LAST, open = PFA_SNAPSHOT_OPEN;
	struct ev_count c = {.proc = {.pid = 77, .start_ns = 5},
	                     .tid = 1,
	                     .offcpu = 1,
	                     .samples = 1,
	                     .weight = 20,
	                     .longest_ns = 20,
	                     .epoch = 3};
	struct ses *s = new_running();

	(void)state;
	assert_int_equal(src_offcpu.open(&s->env, &s->src[SRC_OFFCPU], NULL), 0);
	assert_int_equal(blocked_in(s, last | open, 0), 0);
	assert_int_equal(vec_push(&s->copy->open, c), 0);
	assert_int_equal(blocked_in(s, last | open, 1), 20);
	/* It is woken, but does not run yet. */
	s->copy->open.p[0].waker = 99;
	s->copy->open.p[0].weight = s->copy->open.p[0].longest_ns = 30;
	assert_int_equal(blocked_in(s, last | open, 0), 10);
	/* It ends; its stack has come, without JIT code. */
	s->copy->open.n = 0;
	c.waker = 99;
	c.epoch = 0;
	c.weight = c.longest_ns = 31;
	assert_int_equal(prof_agg_add_count(s->walk.agg, &c), 0);
	assert_int_equal(blocked_in(s, last | open, 0), 1);
	assert_int_equal(blocked_in(s, open, 1), 31);
	assert_int_equal(blocked_in(s, last | open, 0), 0);
	end(s);
}

/* An interval can end between the reading of the counts and that of the open ones: it is in neither. */
static void test_an_interval_that_is_missing_for_a_moment_counts_once(void **state)
{
	const uint32_t last = PFA_SNAPSHOT_SINCE_LAST, open = PFA_SNAPSHOT_OPEN;
	struct ev_count c = {.proc = {.pid = 77, .start_ns = 5},
	                     .tid = 1,
	                     .offcpu = 1,
	                     .samples = 1,
	                     .weight = 20,
	                     .longest_ns = 20};
	struct ses *s = new_running();

	(void)state;
	assert_int_equal(src_offcpu.open(&s->env, &s->src[SRC_OFFCPU], NULL), 0);
	assert_int_equal(blocked_in(s, last | open, 0), 0);
	assert_int_equal(vec_push(&s->copy->open, c), 0);
	assert_int_equal(blocked_in(s, last | open, 1), 20);
	s->copy->open.n = 0;
	assert_int_equal(blocked_in(s, last | open, 0), 0);
	assert_int_equal(blocked_in(s, last | open, 0), 0);
	c.weight = c.longest_ns = 25;
	assert_int_equal(prof_agg_add_count(s->walk.agg, &c), 0);
	assert_int_equal(blocked_in(s, last | open, 0), 5);
	assert_int_equal(blocked_in(s, open, 1), 25);
	/* An interval that is not requested as open any more is whole again. */
	assert_int_equal(vec_push(&s->copy->open, c), 0);
	assert_int_equal(blocked_in(s, last | open, 1), 25);
	s->copy->open.n = 0;
	assert_int_equal(blocked_in(s, last | open, 0), 0);
	assert_int_equal(blocked_in(s, last, 0), 0);
	assert_int_equal(prof_agg_add_count(s->walk.agg, &c), 0);
	assert_int_equal(blocked_in(s, last | open, 1), 25);
	end(s);
}

static void test_a_profile_that_fails_is_not_lost(void **state)
{
	const uint32_t last = PFA_SNAPSHOT_SINCE_LAST, open = PFA_SNAPSHOT_OPEN;
	struct ev_count c = {.proc = {.pid = 77, .start_ns = 5},
	                     .tid = 1,
	                     .offcpu = 1,
	                     .samples = 1,
	                     .weight = 20};
	struct ses *s = new_running();
	struct ses_profile p = {0};
	struct err err = {0};
	size_t max;

	(void)state;
	assert_int_equal(src_offcpu.open(&s->env, &s->src[SRC_OFFCPU], NULL), 0);
	assert_int_equal(blocked_in(s, last | open, 0), 0);
	assert_int_equal(vec_push(&s->copy->open, c), 0);
	c.tid = 2;
	assert_int_equal(prof_agg_add_count(s->walk.agg, &c), 0);
	max = s->copy->open_before.max;
	s->copy->open_before.max = 0; /* as without memory */
	assert_true(ses_snapshot(s, PFA_KIND_OFFCPU, last | open, &p, &err) < 0);
	s->copy->open_before.max = max;
	assert_int_equal(blocked_in(s, last | open, 2), 40);
	s->copy->open.n = 0;
	end(s);
}

static void test_times_and_losses_are_of_the_same_span(void **state)
{
	const uint32_t last = PFA_SNAPSHOT_SINCE_LAST;
	struct ses *s = new_running();
	struct ses_profile a, b, c;

	(void)state;
	stats_dropped = 5;
	a = take(s, last);
	stats_dropped = 7;
	b = take(s, last);
	c = take(s, PFA_SNAPSHOT_SAME_MOMENT);
	assert_int_equal(a.dropped, 5);
	assert_int_equal(b.dropped, 2);
	assert_int_equal(c.dropped, 7);
	assert_int_equal(a.kind.duration_ns + b.kind.duration_ns, c.kind.duration_ns);
	assert_int_equal(b.kind.begin_realtime_ns, a.kind.begin_realtime_ns + a.kind.duration_ns);
	stats_dropped = 0;
	ses_profile_done(&a);
	ses_profile_done(&b);
	ses_profile_done(&c);
	end(s);
}

/* Samples are dropped all the time: also while a profile is built. */
static void test_losses_add_up(void **state)
{
	struct ses *s = new_running();
	uint64_t sum = 0, whole;
	struct ses_profile p;

	(void)state;
	stats_dropped = 1;
	drops_per_look = 10;
	for (int i = 0; i < 3; i++) {
		p = take(s, PFA_SNAPSHOT_SINCE_LAST);
		sum += p.dropped;
		ses_profile_done(&p);
	}
	drops_per_look = 0;
	p = take(s, 0);
	whole = p.dropped;
	ses_profile_done(&p);
	p = take(s, PFA_SNAPSHOT_SINCE_LAST);
	sum += p.dropped;
	ses_profile_done(&p);
	assert_int_equal(whole, stats_dropped);
	assert_int_equal(sum, whole);
	stats_dropped = 0;
	end(s);
}

/* Names come from a pool whose answers may be late: a later snapshot has them. */
static void test_a_name_comes_with_a_later_snapshot(void **state)
{
	struct ses *s = new_running();
	struct ses_profile p;
	const char *name = "";

	(void)state;
	count(s->walk.agg, 1, 1, 3);
	for (int i = 0; i < 100 && strcmp(name, "f") != 0; i++) {
		struct prof_top *top = NULL;
		size_t n = 0;

		p = take(s, 0);
		assert_int_equal(prof_model_top(p.result.model, 1, 10, &top, &n), 0);
		assert_int_equal(n, 1);
		name = strcmp(prof_model_str(p.result.model, top[0].name), "f") == 0 ? "f" : "";
		assert_true((p.unnamed == 0) == (name[0] != 0));
		free(top);
		ses_profile_done(&p);
	}
	assert_string_equal(name, "f");
	end(s);
}

static void test_refusals(void **state)
{
	struct ses *s = new_running();
	struct ses_profile p = {0};
	struct err err = {0};

	(void)state;
	assert_int_equal(ses_snapshot(s, PFA_KIND_OFFCPU, 0, &p, &err), -EINVAL);
	assert_int_equal(ses_snapshot(s, (enum pfa_kind)7, 0, &p, &err), -EINVAL);
	assert_int_equal(ses_snapshot(s, PFA_KIND_ONCPU, 1U << 9, &p, &err), -EINVAL);
	ses_interrupt(s);
	assert_int_equal(ses_snapshot(s, PFA_KIND_ONCPU, 0, &p, &err), -EINTR);
	assert_null(p.result.model);
	p = take(s, 0); /* one interrupt, one refusal */
	ses_profile_done(&p);
	s->state = SES_STOPPED;
	assert_int_equal(ses_snapshot(s, PFA_KIND_ONCPU, 0, &p, &err), -EINVAL);
	end(s);
}

/* ---- the tracker's turn ---------------------------------------------------------------------- */

static _Atomic bool stop;
static uint64_t rounds; /* the tracker's state: whoever has its turn changes it */

static void track(void *arg)
{
	struct ses *s = arg;

	while (!atomic_load(&stop)) {
		rounds++;
		ses_live_offer(&s->handover);
	}
	/* As the drain thread is joined first, no thread waits. */
}

static void test_the_tracker_gives_its_turn_away(void **state)
{
	struct ses *s = new_running();
	uint64_t before, first = 0;

	(void)state;
	atomic_store(&stop, false);
	rounds = 0;
	assert_int_equal(thread_start(&s->tracker, track, s, "track"), 0);
	for (int i = 0; i < 200; i++) {
		ses_live_take(s);
		before = rounds;
		assert_true(before > first); /* it had a round meanwhile */
		first = before;
		rounds += 2;
		sched_yield();
		assert_int_equal(rounds, before + 2);
		first = rounds - 1;
		ses_live_give(s);
	}
	atomic_store(&stop, true);
	thread_join(&s->tracker);
	end(s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	        cmocka_unit_test_setup(test_differences_add_up, setup),
	        cmocka_unit_test_setup(test_open_intervals_are_subtracted_from_the_next_profile,
	                               setup),
	        cmocka_unit_test_setup(test_an_interval_that_gets_a_waker_counts_once, setup),
	        cmocka_unit_test_setup(test_an_interval_that_is_missing_for_a_moment_counts_once,
	                               setup),
	        cmocka_unit_test_setup(test_a_profile_that_fails_is_not_lost, setup),
	        cmocka_unit_test_setup(test_losses_add_up, setup),
	        cmocka_unit_test_setup(test_times_and_losses_are_of_the_same_span, setup),
	        cmocka_unit_test_setup(test_a_name_comes_with_a_later_snapshot, setup),
	        cmocka_unit_test_setup(test_refusals, setup),
	        cmocka_unit_test_setup(test_the_tracker_gives_its_turn_away, setup),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
