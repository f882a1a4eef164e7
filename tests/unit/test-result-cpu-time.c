/* SPDX-License-Identifier: Apache-2.0 */
/* test-session-cpu-time - weights of samples against the time between switch events */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "result/result.h"

#define MS 1000000ULL

static struct smp_cpu_time times(uint32_t pid, uint32_t tid, uint64_t ran_ns, uint64_t seen)
{
	return (struct smp_cpu_time){
	        .proc = {.pid = pid, .start_ns = 7}, .tid = tid, .ran_ns = ran_ns, .seen = seen};
}

static uint64_t weight(const struct result_cpu_time *t, uint32_t pid, uint32_t tid, uint64_t w)
{
	struct ev_count c = {
	        .proc = {.pid = pid, .exec_id = 3, .start_ns = 7}, .tid = tid, .weight = w};

	return result_cpu_time_weight(t, &c);
}

static struct result_cpu_time *made(uint64_t few, const struct smp_cpu_time *v, size_t n)
{
	struct result_cpu_time *t = NULL;

	assert_int_equal(result_cpu_time_new(few, &t), 0);
	for (size_t i = 0; i < n; i++)
		assert_int_equal(result_cpu_time_add(t, &v[i]), 0);
	return t;
}

static void test_samples_of_a_thread_weigh_its_time(void **state)
{
	/* A server that lost half of its ticks, a client that lost none, in one process and in two.
	 */
	const struct smp_cpu_time v[] = {times(1, 1, 2000 * MS, 1000 * MS),
	                                 times(1, 2, 3000 * MS, 3000 * MS),
	                                 times(2, 2, 900 * MS, 1000 * MS)};
	struct result_cpu_time *t = made(500 * MS, v, ARRAY_SIZE(v));

	(void)state;
	assert_int_equal(weight(t, 1, 1, 10 * MS), 20 * MS);
	assert_int_equal(weight(t, 1, 2, 10 * MS), 10 * MS);
	assert_int_equal(weight(t, 2, 2, 10 * MS), 9 * MS);
	/* All samples of a thread together are its time, also where nothing divides evenly. */
	assert_in_range(weight(t, 2, 2, 333 * MS) + weight(t, 2, 2, 667 * MS), 900 * MS - 2,
	                900 * MS);
	assert_int_equal(result_cpu_time_total(t)->ran_ns, 5900 * MS);
	assert_int_equal(result_cpu_time_total(t)->seen, 5000 * MS);
	assert_null(result_cpu_time_free(t));
}

static void test_threads_with_few_samples_share_a_ratio(void **state)
{
	/* 100 threads of 5 ms at 99 Hz: half of them have a sample of 10 ms. */
	struct result_cpu_time *t = made(500 * MS, NULL, 0);

	(void)state;
	for (uint32_t i = 1; i <= 100; i++) {
		struct smp_cpu_time v = times(i, i, 5 * MS, i % 2 ? 10 * MS : 0);

		assert_int_equal(result_cpu_time_add(t, &v), 0);
	}
	/* By its own ratio each would weigh 5 ms, and half of the time would be missing. */
	assert_int_equal(weight(t, 1, 1, 10 * MS), 10 * MS);
	/* Threads that ended, and those that found the table full, are in the sums without a name.
	 */
	result_cpu_time_add_rest(t, 5500 * MS, 2500 * MS);
	assert_int_equal(weight(t, 1, 1, 10 * MS), 20 * MS);
	assert_int_equal(weight(t, 4711, 4711, 10 * MS), 20 * MS);
	assert_int_equal(result_cpu_time_total(t)->ran_ns, 6000 * MS);
	assert_int_equal(result_cpu_time_total(t)->seen, 3000 * MS);
	result_cpu_time_free(t);
}

static void test_a_number_used_again_is_another_thread(void **state)
{
	struct smp_cpu_time v[] = {times(1, 1, 2000 * MS, 1000 * MS),
	                           times(1, 1, 500 * MS, 1000 * MS),
	                           times(1, 1, 700 * MS, 1000 * MS)};
	struct result_cpu_time *t;
	struct ev_count c = {.proc = {.pid = 1, .start_ns = 8}, .tid = 1, .weight = 10};

	(void)state;
	v[1].proc.start_ns = 8;
	v[2].foreign_ns = true; /* the kernel's numbers, not ours */
	t = made(500 * MS, v, ARRAY_SIZE(v));
	assert_int_equal(weight(t, 1, 1, 10), 20);
	assert_int_equal(result_cpu_time_weight(t, &c), 5);
	c.proc.start_ns = 7;
	c.foreign_ns = true;
	assert_int_equal(result_cpu_time_weight(t, &c), 7);
	result_cpu_time_free(t);
}

static void test_entries_of_one_thread_are_added(void **state)
{
	/* Its kernel number changes when a thread that is no leader executes a program. */
	const struct smp_cpu_time v[] = {times(1, 1, 1000 * MS, 1000 * MS),
	                                 times(1, 1, 3000 * MS, 1000 * MS)};
	struct result_cpu_time *t = made(500 * MS, v, ARRAY_SIZE(v));

	(void)state;
	assert_int_equal(weight(t, 1, 1, 10), 20);
	result_cpu_time_free(t);
}

static void test_samples_without_a_time_weigh_what_they_did(void **state)
{
	const struct smp_cpu_time v[] = {times(1, 1, 0, 1000 * MS)};
	struct result_cpu_time *t = made(500 * MS, v, ARRAY_SIZE(v));

	(void)state;
	assert_int_equal(weight(t, 1, 1, 10), 10);
	assert_int_equal(weight(t, 2, 2, 10), 10);
	result_cpu_time_free(t);
}

static void test_large_weights_do_not_overflow(void **state)
{
	const struct smp_cpu_time v[] = {times(1, 1, 3ULL << 60, 1ULL << 60)};
	struct result_cpu_time *t = made(0, v, ARRAY_SIZE(v));

	(void)state;
	assert_true(weight(t, 1, 1, 1ULL << 60) == 3ULL << 60);
	result_cpu_time_free(t);
}

static struct result_cpu_reading reading(const struct smp_cpu_time *v, size_t n,
                                         uint64_t rest_ran_ns, uint64_t rest_seen)
{
	struct result_cpu_reading r = {.few = 100 * MS,
	                               .rest = {.ran_ns = rest_ran_ns, .seen = rest_seen}};

	for (size_t i = 0; i < n; i++)
		assert_int_equal(result_cpu_reading_add(&r, &v[i]), 0);
	return r;
}

/* Time between two readings; the second one is the first of the next call. */
static struct result_cpu_time *between(struct result_cpu_reading *before,
                                       struct result_cpu_reading after)
{
	struct result_cpu_time *t = NULL;

	assert_int_equal(result_cpu_time_between(before->threads.n ? before : NULL, &after, &t), 0);
	result_cpu_reading_done(before);
	*before = after;
	return t;
}

static void test_time_between_readings_counts_once(void **state)
{
	/* Thread 2 ends after the second reading: its entry is removed before the rest has its time
	 * (third reading), and is in the rest in the fourth. */
	const struct smp_cpu_time first[] = {times(1, 1, 200 * MS, 100 * MS),
	                                     times(1, 2, 50 * MS, 40 * MS)},
	                          second[] = {times(1, 1, 500 * MS, 300 * MS),
	                                      times(1, 2, 60 * MS, 50 * MS)},
	                          third[] = {times(1, 1, 520 * MS, 310 * MS)},
	                          fourth[] = {times(1, 1, 530 * MS, 320 * MS)};
	struct result_cpu_reading r = {0};
	struct result_cpu_time *t;
	uint64_t ran_ns = 0, seen = 0;

	(void)state;
	t = between(&r, reading(first, 2, 0, 0));
	assert_int_equal(weight(t, 1, 1, 10 * MS), 20 * MS);
	assert_int_equal(result_cpu_time_total(t)->ran_ns, 250 * MS);
	ran_ns += result_cpu_time_total(t)->ran_ns;
	seen += result_cpu_time_total(t)->seen;
	result_cpu_time_free(t);

	t = between(&r, reading(second, 2, 7 * MS, 7 * MS));
	/* By its own ratio of this time, not of all. */
	assert_int_equal(weight(t, 1, 1, 10 * MS), 15 * MS);
	assert_int_equal(weight(t, 1, 2, 10 * MS), 10 * MS); /* 17 of the rest in 17 */
	ran_ns += result_cpu_time_total(t)->ran_ns;
	seen += result_cpu_time_total(t)->seen;
	result_cpu_time_free(t);

	t = between(&r, reading(third, 1, 7 * MS, 7 * MS));
	/* Less than before in all: no time, not a negative one. */
	assert_int_equal(result_cpu_time_total(t)->ran_ns, 0);
	assert_int_equal(result_cpu_time_total(t)->seen, 0);
	ran_ns += result_cpu_time_total(t)->ran_ns;
	seen += result_cpu_time_total(t)->seen;
	result_cpu_time_free(t);

	t = between(&r, reading(fourth, 1, 70 * MS, 60 * MS));
	ran_ns += result_cpu_time_total(t)->ran_ns;
	seen += result_cpu_time_total(t)->seen;
	result_cpu_time_free(t);
	assert_int_equal(ran_ns, 600 * MS);
	assert_int_equal(seen, 380 * MS);
	result_cpu_reading_done(&r);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	        cmocka_unit_test(test_samples_of_a_thread_weigh_its_time),
	        cmocka_unit_test(test_time_between_readings_counts_once),
	        cmocka_unit_test(test_threads_with_few_samples_share_a_ratio),
	        cmocka_unit_test(test_a_number_used_again_is_another_thread),
	        cmocka_unit_test(test_entries_of_one_thread_are_added),
	        cmocka_unit_test(test_samples_without_a_time_weigh_what_they_did),
	        cmocka_unit_test(test_large_weights_do_not_overflow),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests_name("session-cpu-time", tests, NULL, NULL);
}
