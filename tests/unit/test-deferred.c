/* SPDX-License-Identifier: Apache-2.0 */
/* test-deferred - which unwind tables are wanted and built, and what becomes of deferred samples;
 * track, builder, store and walk are made up, and the pool is this thread but where it is said */
#include "deferred_fixture.h"

/* Far enough apart that images are looked through in each. */
static uint64_t clock_ns;

static void round_later(struct capture *s, uint64_t ms)
{
	clock_ns = MAX_OF(clock_ns, now_ns()) + ms * NSEC_PER_MSEC;
	deferred_round(s->deferred, clock_ns);
}

/* ---- asking ---------------------------------------------------------------------------------- */

static void test_most_wanted_first_and_few_at_a_time(void **state)
{
	struct capture *s = new_capture(false, 16, 64);
	struct pool_job job;

	(void)state;
	want(1, 5);
	want(2, 1);
	want(3, 9);
	want(5, 3);
	want(6, 7);
	round_later(s, 20);
	round_later(s, 20); /* asks for none twice */
	assert_int_equal(s->deferred->outstanding, 2);
	assert_int_equal(do_job(s), 3);
	round_later(s, 20);
	assert_int_equal(do_job(s), 6);
	assert_int_equal(do_job(s), 1);
	round_later(s, 20);
	assert_int_equal(do_job(s), 5);
	assert_int_equal(do_job(s), 2);
	round_later(s, 20);
	assert_int_equal(next_job(s, &job, 0), 0); /* no sample needs 4 */
	assert_int_equal(counter(s, TALLY_TABLES_BUILT), 5);
	assert_int_equal(counter(s, TALLY_TABLE_BAD_ENTRIES), 10);
	assert_int_equal(counter(s, TALLY_TABLE_UNSUPPORTED), 25);
	capture_free(s);
}

static void test_dwarf_wants_all_that_is_mapped(void **state)
{
	struct capture *s = new_capture(true, 16, 64);

	(void)state;
	n_images = 3;
	want(3, 2);
	round_later(s, 20);
	assert_int_equal(do_job(s), 3);
	assert_int_equal(do_job(s), 1);
	round_later(s, 20);
	assert_int_equal(do_job(s), 2);
	round_later(s, 20);
	assert_int_equal(do_job(s), 0);
	n_images = 4; /* dlopen */
	round_later(s, 20);
	assert_int_equal(do_job(s), 4);
	capture_free(s);
}

static void test_what_there_is_none_of_is_not_asked_for_again(void **state)
{
	struct capture *s = new_capture(false, 16, 64);

	(void)state;
	build_gives[1] = -ENOENT;
	build_gives[2] = -ENOTSUP;
	build_gives[3] = -ENOMEM;
	images[4].reason = EV_REASON_NOT_PERMITTED;
	install_gives[5] = -ENOSPC;
	install_gives[6] = -ENOMEM; /* of a segment */
	for (uint32_t i = 1; i <= 6; i++)
		want(i, 1);
	for (int i = 0; i < 6; i++) {
		round_later(s, 20);
		assert_int_not_equal(do_job(s), 0);
	}
	for (uint32_t i = 1; i <= 6; i++) {
		assert_int_equal(kernel_images[i].state, ABI_TABLE_NONE);
		assert_int_equal(builds[i], i != 4);
		want(i, 1);
	}
	round_later(s, 60000);
	assert_int_equal(do_job(s), 0);
	assert_int_equal(counter(s, TALLY_TABLES_BUILT), 0);
	assert_int_equal(counter(s, TALLY_TABLES_NONE), 2);
	assert_int_equal(counter(s, TALLY_TABLES_FAILED), 2);
	assert_int_equal(counter(s, TALLY_TABLES_REFUSED), 2);
	capture_free(s);
}

static void test_table_without_room_is_built_later(void **state)
{
	struct capture *s = new_capture(false, 16, 64);

	(void)state;
	install_gives[1] = -EAGAIN;
	want(1, 1);
	round_later(s, 20);
	assert_int_equal(do_job(s), 1);
	assert_int_equal(kernel_images[1].state, ABI_TABLE_ABSENT);
	clock_ns = 0;
	round_later(s, 20); /* its room is not there yet */
	assert_int_equal(do_job(s), 0);
	install_gives[1] = 0;
	round_later(s, 1000); /* and it need not be met again */
	assert_int_equal(do_job(s), 1);
	assert_int_equal(kernel_images[1].state, ABI_TABLE_READY);
	assert_int_equal(counter(s, TALLY_TABLES_BUILT), 1);
	capture_free(s);
}

static void test_full_budget_ends_wanting_all(void **state)
{
	struct capture *s = new_capture(true, 16, 64);

	(void)state;
	install_gives[1] = -EAGAIN;
	round_later(s, 20);
	assert_int_equal(do_job(s), 1);
	assert_int_equal(do_job(s), 2);
	install_gives[1] = 0;
	want(5, 1);
	round_later(s, 1000);
	assert_int_equal(do_job(s), 1);
	assert_int_equal(do_job(s), 5);
	round_later(s, 1000);
	assert_int_equal(do_job(s), 0); /* not 3, 4, 6 */
	capture_free(s);
}

static void test_evicted_table_is_built_again_when_it_is_met(void **state)
{
	struct capture *s = new_capture(false, 16, 64);

	(void)state;
	want(1, 3);
	round_later(s, 20);
	assert_int_equal(do_job(s), 1);
	kernel_images[1].state = ABI_TABLE_ABSENT;
	round_later(s, 5000);
	assert_int_equal(do_job(s), 0); /* no sample met it since */
	want(1, 1);
	round_later(s, 20);
	assert_int_equal(do_job(s), 1);
	kernel_images[1].state = ABI_TABLE_ABSENT;
	want(1, 1);
	clock_ns = 0;
	round_later(s, 20);
	assert_int_equal(do_job(s), 0); /* not all the time */
	round_later(s, 1500);
	assert_int_equal(do_job(s), 1);
	assert_int_equal(counter(s, TALLY_TABLES_BUILT), 3);
	capture_free(s);
}

static void test_full_queue_is_tried_again(void **state)
{
	struct capture *s = new_capture(false, 16, 1);

	(void)state;
	want(1, 2);
	want(2, 1);
	round_later(s, 20);
	assert_int_equal(do_job(s), 1);
	assert_int_equal(do_job(s), 0);
	round_later(s, 20);
	assert_int_equal(do_job(s), 2);
	assert_int_equal(s->deferred->outstanding, 0);
	capture_free(s);
}

static void test_images_past_the_array_are_left_out(void **state)
{
	struct capture *s = new_capture(true, 16, 64);

	(void)state;
	s->deferred->n_images = 3;
	round_later(s, 20);
	assert_int_equal(do_job(s), 1);
	assert_int_equal(do_job(s), 2);
	round_later(s, 20);
	assert_int_equal(do_job(s), 0);
	deferred_ask(s->deferred, 3); /* nowhere to write to */
	assert_false(deferred_absent(s->deferred, 3));
	s->deferred->n_images = IMAGES;
	capture_free(s);
}

static void test_epoch_counts_tenths_of_seconds(void **state)
{
	struct capture *s = new_capture(false, 16, 64);
	uint32_t before;

	(void)state;
	round_later(s, 1);
	before = control.epoch;
	for (int i = 0; i < 50; i++)
		round_later(s, 10);
	assert_int_equal(control.epoch - before, 5);
	capture_free(s);
}

/* ---- deferred samples ---------------------------------------------------------------------------
 * */

static void test_deferred_sample_waits_for_its_tables(void **state)
{
	struct capture *s = new_capture(false, 16, 64);
	const uint64_t frames[] = {FRAME(1, 0x10) | ABI_FRAME_EXACT, FRAME(2, 0x20)};
	const struct ev_stack *st;
	const struct ev_count *c;
	uint64_t hash = uw_stack_hash(12345, frames, 2, ABI_WALK_ROOT, 0);

	(void)state;
	walk_needs[0] = 3;
	walk_needs[1] = 4;
	take(s, 0x10);
	one_round(s);
	assert_int_equal(walks, 1);
	assert_int_equal(do_job(s), 3);
	one_round(s); /* woken by B */
	assert_int_equal(walks, 2);
	assert_int_equal(samples_in(s->deferred->walked), 0);
	assert_int_equal(do_job(s), 4);
	one_round(s);
	assert_int_equal(walks, 3);
	assert_int_equal(final_walks, 0);
	assert_int_equal(s->deferred->pending, 0);
	assert_int_equal(s->deferred->pending_bytes, 0);
	deferred_merge(s->deferred);
	assert_int_equal(prof_agg_count_cnt(s->agg), 1);
	c = prof_agg_count_at(s->agg, 0);
	assert_true(c->ustack == hash);
	assert_int_equal(c->tid, 78);
	assert_int_equal(c->samples, 1);
	assert_int_equal(c->weight, 10);
	st = prof_agg_stack(s->agg, hash);
	assert_non_null(st);
	assert_int_equal(st->n, 2);
	assert_int_equal(st->walk, EV_WALK_ROOT);
	assert_int_equal(st->flags, 0);
	assert_int_equal(st->frames[0].exact, 1);
	assert_int_equal(st->frames[1].image, 2);
	assert_int_equal(s->symbolized, 2); /* names, before the end */
	assert_int_equal(counter(s, TALLY_DEFERRED_UNWOUND), 1);
	capture_free(s);
}

static void test_samples_of_one_stack_are_one(void **state)
{
	struct capture *s = new_capture(false, 16, 64);

	(void)state;
	for (int i = 0; i < 5; i++)
		take(s, 0x10);
	one_round(s);
	deferred_merge(s->deferred);
	assert_int_equal(prof_agg_count_cnt(s->agg), 1);
	assert_int_equal(samples_in(s->agg), 5);
	assert_int_equal(prof_agg_stack_cnt(s->agg), 1);
	capture_free(s);
}

static uint32_t hook_calls;
static uint64_t hook_hash;

static void hook(void *arg, const struct ev_deferred *c)
{
	assert_ptr_equal(arg, &hook_calls);
	hook_calls++;
	hook_hash = c->count.ustack;
}

static void test_copies_for_comparison_are_not_counted(void **state)
{
	struct capture *s = new_capture(false, 16, 64);
	struct ev_deferred c = a_copy(0x10);

	(void)state;
	c.count.ustack = 99;
	deferred_add(s->deferred, &c); /* no hook compares it */
	s->deferred->o.compare = hook;
	s->deferred->o.compare_arg = &hook_calls;
	deferred_add(s->deferred, &c);
	assert_int_equal(hook_calls, 1);
	assert_int_equal(hook_hash, 99);
	assert_int_equal(queue_len(s->q_w), 0);
	assert_int_equal(samples_in(s->agg), 0);
	capture_free(s);
}

static void test_no_sample_is_lost_for_want_of_room(void **state)
{
	struct capture *s = new_capture(false, 16384, 64);
	const uint64_t empty = uw_stack_hash(12345, NULL, 0, ABI_WALK_NO_TABLE, 0);

	(void)state;
	for (int i = 0; i < 8196; i++)
		take(s, 0x10);
	assert_int_equal(queue_len(s->q_w), 8192);
	assert_int_equal(samples_in(s->agg), 4);
	assert_int_equal(counter(s, TALLY_DEFERRED_LOST), 4);
	assert_non_null(prof_agg_stack(s->agg, empty));
	assert_int_equal(prof_agg_stack(s->agg, empty)->walk, EV_WALK_NO_TABLE);
	assert_int_equal(prof_agg_stack(s->agg, empty)->n, 0);
	while (w_round(s) != -EPIPE && queue_len(s->q_w) > 0)
		;
	assert_int_equal(s->deferred->pending, 0);
	take(s, 0x10); /* there is room again */
	assert_int_equal(queue_len(s->q_w), 1);
	one_round(s);
	deferred_merge(s->deferred);
	assert_int_equal(samples_in(s->agg), 8197);
	capture_free(s);
}

static void test_copies_have_a_cap_in_bytes(void **state)
{
	struct capture *s = new_capture(false, 8192, 64);
	static uint8_t bytes[ABI_DEFERRED_BYTES];
	struct ev_deferred c = a_copy(0x10);

	(void)state;
	c.bytes = bytes;
	c.len = sizeof(bytes);
	for (int i = 0; i < 4096; i++)
		deferred_add(s->deferred, &c);
	assert_true(s->deferred->pending_bytes <= (uint64_t)64 << 20);
	assert_true(s->deferred->pending > 3900 && s->deferred->pending < 4096);
	assert_int_equal(s->deferred->pending + samples_in(s->agg), 4096);
	capture_free(s); /* what waits in the queue is freed */
}

static void test_full_or_closed_queue_loses_no_sample(void **state)
{
	struct capture *s = new_capture(false, 2, 64);

	(void)state;
	for (int i = 0; i < 3; i++)
		take(s, 0x10);
	assert_int_equal(samples_in(s->agg), 1);
	assert_int_equal(s->deferred->pending, 2);
	queue_close(s->q_w);
	take(s, 0x10);
	assert_int_equal(samples_in(s->agg), 2);
	capture_free(s);
}

static void test_unknown_process_is_waited_for_then_gone(void **state)
{
	struct capture *s = new_capture(false, 16, 64);

	(void)state;
	proc_reason = EV_REASON_NO_MAPPING;
	take(s, (5ULL << 32) + 0x10);
	take(s, (5ULL << 32) + 0x10);
	one_round(s);
	assert_int_equal(s->deferred->pending, 2);
	proc_reason = EV_REASON_NAMED;
	clock_ns = 0;
	round_later(s, 100);
	assert_int_equal(s->deferred->pending, 0);
	assert_int_equal(walks, 2);

	proc_reason = EV_REASON_NO_MAPPING;
	take(s, (5ULL << 32) + 0x10);
	one_round(s);
	round_later(s, 1500);
	assert_int_equal(s->deferred->pending, 0);
	proc_reason = EV_REASON_NOT_PERMITTED; /* that will not change */
	take(s, (5ULL << 32) + 0x11);
	one_round(s);
	assert_int_equal(s->deferred->pending, 0);
	assert_int_equal(walks, 2);
	deferred_merge(s->deferred);
	assert_int_equal(samples_in(s->agg), 4);
	assert_int_equal(prof_agg_stack_at(s->agg, 1)->walk, EV_WALK_GONE);
	assert_int_equal(prof_agg_stack_at(s->agg, 1)->n, 1);
	assert_int_equal(prof_agg_stack_at(s->agg, 1)->frames[0].space, EV_SPACE_RAW);
	assert_true(prof_agg_stack_at(s->agg, 1)->frames[0].addr == (5ULL << 32) + 0x10);
	assert_int_equal(prof_agg_stack_at(s->agg, 2)->walk, EV_WALK_DENIED);
	capture_free(s);
}

/* ---- the target's memory --------------------------------------------------------------------- */

static void look_around(const struct uw_target *t)
{
	uint64_t v = 0, off = 0;
	uint32_t image = 77;

	assert_int_equal(t->read(t->arg, &v, 0x1000), 0);
	assert_true(v == 0x0807060504030201);
	assert_int_equal(t->read(t->arg, &v, 0x1001), 0);
	assert_true(v == 0x0908070605040302);
	assert_int_equal(t->read(t->arg, &v, 0x1000 + 64 - 8), 0);
	assert_int_not_equal(t->read(t->arg, &v, 0x1000 + 64 - 7), 0);
	assert_int_not_equal(t->read(t->arg, &v, 0xfff), 0);
	assert_int_not_equal(t->read(t->arg, &v, 0), 0);
	assert_int_not_equal(t->read(t->arg, &v, UINT64_MAX), 0);

	assert_int_equal(t->resolve(t->arg, (2ULL << 32) + 0x30, &image, &off), 0);
	assert_int_equal(image, 2);
	assert_int_equal(off, 0x30);
	assert_int_equal(t->resolve(t->arg, 7ULL << 44, &image, &off), 0);
	assert_int_equal(image, 0);
	assert_int_equal(t->resolve(t->arg, 0x40, &image, &off), -ENOENT);

	/* Byte i of the file is i / 16: from its middle, over the end of a window, at its end. */
	assert_int_equal(t->read_code(t->arg, &v, (2ULL << 32) + 0x10), 0);
	assert_true(v == 0x0101010101010101);
	assert_int_equal(t->read_code(t->arg, &v, (2ULL << 32) + DEFERRED_WINDOW_BYTES - 4), 0);
	assert_true(v == 0x00000000ffffffff);
	assert_int_equal(t->read_code(t->arg, &v, (2ULL << 32) + 5000 - 8), 0);
	assert_int_not_equal(t->read_code(t->arg, &v, (2ULL << 32) + 5000 - 7), 0);
	assert_int_not_equal(t->read_code(t->arg, &v, (2ULL << 32) + 100000), 0);
	assert_int_not_equal(t->read_code(t->arg, &v, 7ULL << 44), 0);
	/* The vDSO has bytes, no file. */
	assert_int_equal(t->read_code(t->arg, &v, (3ULL << 32) + 1), 0);
	assert_true(v == 0x3837363534333231);
	assert_int_not_equal(t->read_code(t->arg, &v, (3ULL << 32) + 3), 0);
}

static void test_walk_sees_the_copy_and_the_files(void **state)
{
	struct capture *s = new_capture(false, 16, 64);

	(void)state;
	images[3].kind = EV_MAP_VDSO;
	images[3].mem = "0123456789";
	images[3].mem_len = 10;
	walk_looks = look_around;
	take(s, 0x10);
	one_round(s);
	assert_int_equal(walks, 1);
	capture_free(s);
}

static void look_at_one_word(const struct uw_target *t)
{
	uint64_t v = 0;

	assert_int_equal(t->read(t->arg, &v, 0x1000), 0);
	assert_int_not_equal(t->read(t->arg, &v, 0x1001), 0);
	assert_int_not_equal(t->read(t->arg, &v, 0x1008), 0);
}

static void test_short_copies(void **state)
{
	struct capture *s = new_capture(false, 16, 64);
	struct ev_deferred c = a_copy(0x10);

	(void)state;
	c.len = 8;
	walk_looks = look_at_one_word;
	deferred_add(s->deferred, &c);
	one_round(s);
	assert_int_equal(walks, 1);

	c.len = 0;
	c.bytes = NULL;
	walk_looks = NULL;
	deferred_add(s->deferred, &c);
	one_round(s);
	assert_int_equal(walks, 2); /* that needed no stack */
	walk_gives = ABI_WALK_FAULT;
	c.pc++;
	deferred_add(s->deferred, &c);
	one_round(s);
	deferred_merge(s->deferred);
	assert_int_equal(samples_in(s->agg), 3);
	assert_int_equal(prof_agg_stack_cnt(s->agg), 2);
	assert_int_equal(prof_agg_stack_at(s->agg, 0)->walk, EV_WALK_ROOT);
	assert_int_not_equal(prof_agg_stack_at(s->agg, 1)->walk, EV_WALK_ROOT);
	capture_free(s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	        cmocka_unit_test_setup(test_most_wanted_first_and_few_at_a_time, setup),
	        cmocka_unit_test_setup(test_dwarf_wants_all_that_is_mapped, setup),
	        cmocka_unit_test_setup(test_what_there_is_none_of_is_not_asked_for_again, setup),
	        cmocka_unit_test_setup(test_table_without_room_is_built_later, setup),
	        cmocka_unit_test_setup(test_full_budget_ends_wanting_all, setup),
	        cmocka_unit_test_setup(test_evicted_table_is_built_again_when_it_is_met, setup),
	        cmocka_unit_test_setup(test_full_queue_is_tried_again, setup),
	        cmocka_unit_test_setup(test_images_past_the_array_are_left_out, setup),
	        cmocka_unit_test_setup(test_epoch_counts_tenths_of_seconds, setup),
	        cmocka_unit_test_setup(test_deferred_sample_waits_for_its_tables, setup),
	        cmocka_unit_test_setup(test_samples_of_one_stack_are_one, setup),
	        cmocka_unit_test_setup(test_copies_for_comparison_are_not_counted, setup),
	        cmocka_unit_test_setup(test_no_sample_is_lost_for_want_of_room, setup),
	        cmocka_unit_test_setup(test_copies_have_a_cap_in_bytes, setup),
	        cmocka_unit_test_setup(test_full_or_closed_queue_loses_no_sample, setup),
	        cmocka_unit_test_setup(test_unknown_process_is_waited_for_then_gone, setup),
	        cmocka_unit_test_setup(test_walk_sees_the_copy_and_the_files, setup),
	        cmocka_unit_test_setup(test_short_copies, setup),
	};

	make_file();
	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
