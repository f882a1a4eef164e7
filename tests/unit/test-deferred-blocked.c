/* SPDX-License-Identifier: Apache-2.0 */
/* test-deferred-blocked - deferred samples of threads that are blocked: their stacks can be read
 * again. All is made up as in test-deferred. */
#include "deferred/deferred_priv.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>

#include <cmocka.h>

#include "fake_tables.h"

/* Bytes read of the stack of a thread that still waits; 0: it does not. */
static uint32_t reread_len, rereads, reread_needs; /* @reread_needs: the image it leads to */

static bool reread(void *arg, struct ev_deferred *c, uint8_t *buf)
{
	(void)arg;
	rereads++;
	if (!reread_len)
		return false;
	memset(buf, 7, reread_len);
	c->addr = 0x2000;
	c->len = reread_len;
	c->holes = 0;
	c->bytes = buf;
	walk_gives = ABI_WALK_ROOT;
	walk_needs[0] = reread_needs;
	return true;
}

static int setup_waits(void **state)
{
	reread_len = rereads = reread_needs = 0;
	return setup(state);
}

#define PLACEHOLDER 4711
static uint32_t word_reads;

static struct ev_deferred a_wait(void)
{
	struct ev_deferred c = a_copy(0x10);

	c.placeholder = PLACEHOLDER;
	c.kernel_tid = 78;
	c.count.samples = 0;
	return c;
}

static struct capture *capture_of_waits(void)
{
	struct capture *s = new_capture(false, 16, 64);

	s->deferred->o.reread = reread;
	return s;
}

static void end_of_waits(struct capture *s)
{
	capture_free(s);
}

/* Reads the deferred sample's bytes, or those that were read again. */
static void look_at_both(const struct uw_target *t)
{
	uint64_t v = 0;

	if (t->read(t->arg, &v, 0x2ff8) == 0 && v == 0x0707070707070707)
		word_reads++;
	assert_int_equal(t->read(t->arg, &v, 0x1000) == 0, walk_gives == ABI_WALK_FAULT);
}

static void test_wait_larger_than_its_copy_is_read_again(void **state)
{
	struct capture *s = capture_of_waits();
	const struct ev_deferred c = a_wait();

	(void)state;
	word_reads = 0;
	walk_gives = ABI_WALK_FAULT;
	walk_looks = look_at_both;
	reread_len = 4096;
	deferred_add(s->deferred, &c);
	one_round(s);
	assert_int_equal(rereads, 1);
	assert_int_equal(walks, 2);
	assert_int_equal(word_reads, 1);
	assert_int_equal(counter(s, TALLY_OFFCPU_REREAD), 1);
	assert_int_equal(s->deferred->pending, 0);
	assert_int_equal(s->deferred->pending_bytes, 0);
	deferred_merge(s->deferred);
	assert_int_equal(prof_agg_stack(s->agg, PLACEHOLDER)->walk, EV_WALK_ROOT);
	assert_int_equal(samples_in(s->agg), 0);
	end_of_waits(s);
}

static void test_what_was_read_again_waits_for_its_tables(void **state)
{
	struct capture *s = capture_of_waits();
	const struct ev_deferred c = a_wait();

	(void)state;
	walk_gives = ABI_WALK_FAULT;
	reread_len = 4096;
	reread_needs = 3; /* the rest of its stack leads there */
	deferred_add(s->deferred, &c);
	one_round(s);
	assert_int_equal(walks, 2);
	assert_int_equal(s->deferred->pending, 1);
	assert_true(s->deferred->pending_bytes >= 4096);
	reread_len = 0; /* the wait is over meanwhile */
	walk_looks = look_at_both;
	word_reads = 0;
	one_round(s);
	assert_int_equal(do_job(s), 3);
	one_round(s);
	assert_int_equal(walks, 3);
	assert_int_equal(word_reads, 1);
	assert_int_equal(rereads, 1);
	assert_int_equal(s->deferred->pending_bytes, 0);
	deferred_merge(s->deferred);
	assert_int_equal(prof_agg_stack(s->agg, PLACEHOLDER)->walk, EV_WALK_ROOT);
	end_of_waits(s);
}

static void test_wait_that_is_over_keeps_what_its_copy_gave(void **state)
{
	struct capture *s = capture_of_waits();
	const struct ev_deferred c = a_wait();
	struct ev_deferred sample = a_copy(0x30);

	(void)state;
	walk_gives = ABI_WALK_FAULT;
	deferred_add(s->deferred, &c);
	deferred_add(s->deferred, &sample); /* runs on */
	one_round(s);
	assert_int_equal(rereads, 1);
	deferred_merge(s->deferred);
	assert_int_equal(prof_agg_stack(s->agg, PLACEHOLDER)->walk, EV_WALK_FAULT);
	assert_int_equal(prof_agg_stack(s->agg, PLACEHOLDER)->n, 2);
	end_of_waits(s);
}

static void test_cut_interval_keeps_heuristic_frames_that_agree(void **state)
{
	for (int agree = 0; agree < 2; agree++) {
		struct capture *s = capture_of_waits();
		struct ev_deferred c = a_wait();
		struct ev_frame frames[] = {
		        {.space = EV_SPACE_IMAGE, .image = 1, .addr = 0x10, .exact = true},
		        {.space = EV_SPACE_IMAGE, .image = 2, .addr = agree ? 0x20 : 0x28},
		        {.space = EV_SPACE_IMAGE, .image = 3, .addr = 0x30}};
		const struct ev_stack heuristic = {
		        .hash = 99, .walk = EV_WALK_ROOT, .n = 3, .frames = frames};

		(void)state;
		walk_gives = ABI_WALK_FAULT;
		c.heuristic = 99;
		assert_int_equal(prof_agg_add_stack(s->agg, &heuristic, NULL), 0);
		deferred_add(s->deferred, &c);
		one_round(s);
		deferred_merge(s->deferred);
		assert_int_equal(prof_agg_stack(s->agg, PLACEHOLDER)->n, agree ? 3 : 2);
		assert_int_equal(prof_agg_stack(s->agg, PLACEHOLDER)->walk,
		                 agree ? EV_WALK_ROOT : EV_WALK_FAULT);
		assert_int_equal(samples_in(s->agg), 0);
		assert_int_equal(counter(s, TALLY_DEFERRED_HEURISTIC), 0);
		end_of_waits(s);
	}
}

static void test_room_for_threads_that_waited_already(void **state)
{
	struct capture *s = new_capture(false, 16384, 64);
	size_t first = deferred_room(s->deferred);

	(void)state;
	assert_in_range(first, 500, 1024); /* of 64 KiB, in 64 MiB, with some left for others */
	for (int i = 0; i < 6100; i++)
		take(s, 0x10);
	assert_in_range(deferred_room(s->deferred), 1, 44);
	for (int i = 0; i < 200; i++)
		take(s, 0x10);
	assert_int_equal(deferred_room(s->deferred), 0);
	while (w_round(s) != -EPIPE && queue_len(s->q_w) > 0)
		;
	assert_int_equal(deferred_room(s->deferred), first);
	capture_free(s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	        cmocka_unit_test_setup(test_wait_larger_than_its_copy_is_read_again, setup_waits),
	        cmocka_unit_test_setup(test_what_was_read_again_waits_for_its_tables, setup_waits),
	        cmocka_unit_test_setup(test_wait_that_is_over_keeps_what_its_copy_gave,
	                               setup_waits),
	        cmocka_unit_test_setup(test_cut_interval_keeps_heuristic_frames_that_agree,
	                               setup_waits),
	        cmocka_unit_test_setup(test_room_for_threads_that_waited_already, setup_waits),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
