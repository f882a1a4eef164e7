/* SPDX-License-Identifier: Apache-2.0 */
/* The end of a capture: what is left of the deferred samples. */
#include "deferred_fixture.h"

static int check_capture(void *arg)
{
	return ((const struct capture *)arg)->check_gives;
}

static void test_dwarf_waits_before_sampling(void **state);

/* ---- the end --------------------------------------------------------------------------------- */

static void *b_main(void *arg)
{
	struct capture *s = arg;
	struct pool_job job;

	while ((building = next_job(s, &job, UINT64_MAX)))
		job.run(job.owner, job.item);
	return NULL;
}

/* As D and W do at the end: the queue is closed, with B still there. */
static void finish(struct capture *s)
{
	pthread_t b;

	queue_close(s->q_w);
	assert_int_equal(pthread_create(&b, NULL, b_main, s), 0);
	while (w_round(s) != -EPIPE)
		;
	deferred_finish(s->deferred);
	pool_close(s->pool);
	assert_int_equal(pthread_join(b, NULL), 0);
	deferred_merge(s->deferred);
}

static void test_end_waits_for_tables_of_deferred_samples(void **state)
{
	struct capture *s = new_capture(false, 16, 64);

	(void)state;
	walk_needs[0] = 3;
	walk_needs[1] = 4;
	walk_needs[2] = 2;
	want(5, 100); /* not needed any more */
	take(s, 0x10);
	take(s, 0x11);
	finish(s);
	assert_int_equal(s->deferred->pending, 0);
	assert_int_equal(samples_in(s->agg), 2);
	assert_int_equal(final_walks, 0);
	assert_int_equal(builds[3] + builds[4] + builds[2], 3);
	assert_int_equal(prof_agg_stack_at(s->agg, 0)->walk, EV_WALK_ROOT);
	assert_int_equal(prof_agg_stack_at(s->agg, 0)->flags, 0);
	capture_free(s);
}

static void test_end_walks_by_heuristics_without_a_table(void **state)
{
	struct capture *s = new_capture(false, 16, 64);

	(void)state;
	walk_needs[0] = 3;
	never_there = true; /* evicted again each time */
	take(s, 0x10);
	finish(s);
	assert_int_equal(s->deferred->pending, 0);
	assert_int_equal(samples_in(s->agg), 1);
	assert_int_equal(final_walks, 1);
	assert_int_equal(prof_agg_stack_at(s->agg, 0)->flags, EV_STACK_HEURISTIC);
	capture_free(s);
}

static void test_end_without_a_process_counts_it_as_gone(void **state)
{
	struct capture *s = new_capture(false, 16, 64);

	(void)state;
	proc_reason = EV_REASON_NO_MAPPING;
	take(s, 0x10);
	finish(s);
	assert_int_equal(samples_in(s->agg), 1);
	assert_int_equal(prof_agg_stack_at(s->agg, 0)->walk, EV_WALK_GONE);
	capture_free(s);
}

static void test_abandoned_capture_waits_for_nothing(void **state)
{
	struct capture *s = new_capture(false, 16, 64);

	(void)state;
	walk_needs[0] = 3;
	take(s, 0x10);
	one_round(s);
	s->deferred->abandoned = true;
	deferred_finish(s->deferred); /* without B: it would never end */
	assert_int_equal(s->deferred->pending, 1);
	capture_free(s);
}

static void test_dwarf_waits_before_sampling(void **state)
{
	struct capture *s = new_capture(true, 16, 64);
	pthread_t b;

	(void)state;
	assert_int_equal(pthread_create(&b, NULL, b_main, s), 0);
	assert_int_equal(deferred_prepare(s->deferred, check_capture, &s->prepare_ns), 0);
	for (uint32_t i = 1; i <= n_images; i++)
		assert_int_equal(kernel_images[i].state, ABI_TABLE_READY);
	assert_true(s->prepare_ns > 0);
	assert_int_equal(s->deferred->outstanding, 0);
	pool_close(s->pool);
	assert_int_equal(pthread_join(b, NULL), 0);
	capture_free(s);
}

static void test_wait_before_sampling_can_be_interrupted(void **state)
{
	struct capture *s = new_capture(true, 16, 64);

	(void)state;
	s->check_gives = -EINTR;
	assert_int_equal(deferred_prepare(s->deferred, check_capture, &s->prepare_ns),
	                 -EINTR); /* without B: it would never end */
	capture_free(s);
}

static void test_statistics_of_the_end(void **state)
{
	struct capture *s = new_capture(false, 16, 64);

	(void)state;
	deferred_count(s->deferred);
	assert_int_equal(counter(s, TALLY_TABLES_EVICTED), 3);
	assert_int_equal(counter(s, TALLY_TABLE_ROWS), 250);
	assert_int_equal(counter(s, TALLY_TABLE_BYTES), 1000);
	assert_int_equal(counter(s, TALLY_TABLE_RULES), 40);
	assert_int_equal(counter(s, TALLY_RULES_REFUSED), 4);
	capture_free(s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	        cmocka_unit_test_setup(test_dwarf_waits_before_sampling, setup),
	        cmocka_unit_test_setup(test_end_waits_for_tables_of_deferred_samples, setup),
	        cmocka_unit_test_setup(test_end_walks_by_heuristics_without_a_table, setup),
	        cmocka_unit_test_setup(test_end_without_a_process_counts_it_as_gone, setup),
	        cmocka_unit_test_setup(test_abandoned_capture_waits_for_nothing, setup),
	        cmocka_unit_test_setup(test_wait_before_sampling_can_be_interrupted, setup),
	        cmocka_unit_test_setup(test_statistics_of_the_end, setup),
	};

	make_file();
	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
