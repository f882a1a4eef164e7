// SPDX-License-Identifier: Apache-2.0
/*
 * track: where an address lay at a time, and up to which time that is known.
 */
#include "fake_loader.h"

#include "track/track_priv.h"

#define EXEC (EXEC_ID + 1)
#define AT   0x10000ULL

/* A process with its own mappings, which are none yet. */
static struct trk *make_one(struct load_oncpu *l)
{
	struct trk *t = make_scanned(l);

	ev_fork(t, PID_BASE, self());
	ev_exec(t, PID_BASE);
	return t;
}

/* Maps file @file at AT and returns a time at which it lay there. */
static uint64_t put_file(struct trk *t, uint32_t file)
{
	ev_mmap(t, PID_BASE, AT, AT + 0x1000, 0, file);
	return tick();
}

static int64_t file_then(const struct trk *t, uint64_t addr, uint64_t time_ns)
{
	struct ev_proc_id id = id_of(PID_BASE, EXEC, 0);
	struct trk_location pl;
	int r = trk_resolve_at(t, &id, addr, time_ns, &pl);

	if (r < 0)
		return r;
	return pl.image ? (int64_t)pl.image->file.ino : 0;
}

static int64_t file_ever(const struct trk *t, uint64_t addr)
{
	struct ev_proc_id id = id_of(PID_BASE, EXEC, 0);
	struct trk_location pl;
	int r = trk_resolve_any(t, &id, addr, &pl);

	if (r < 0)
		return r;
	return pl.image ? (int64_t)pl.image->file.ino : 0;
}

static void test_an_address_lies_where_it_did_then(void **state)
{
	struct load_oncpu *l = fake_new(512);
	struct trk *t = make_one(l);
	uint64_t then[6];

	(void)state;
	/* 1 and 2 in turns, then JIT code. */
	for (uint32_t i = 0; i < 6; i++)
		then[i] = put_file(t, i == 4 ? 0 : 1 + i % 2);
	trk_set_watermark(t, tick());
	for (uint32_t i = 0; i < 6; i++)
		assert_int_equal(file_then(t, AT, then[i]), i == 4 ? 0 : 1 + i % 2);
	assert_int_equal(file_then(t, AT + 0x1000, then[0]), -ENOENT);
	assert_int_equal(trk_stats(t)->replaced, 5);
	trk_free(t);
	fake_free(l);
}

static void test_without_its_time_only_what_is_sure(void **state)
{
	struct load_oncpu *l = fake_new(512);
	struct trk *t = make_one(l);
	uint64_t first = put_file(t, 1), second;

	(void)state;
	assert_int_equal(file_ever(t, AT), 1);
	second = put_file(t, 2);
	/* The same piece of the same file is no other content. */
	ev_mmap(t, PID_BASE, AT + 0x10000, AT + 0x11000, 0, 3);
	ev_mmap(t, PID_BASE, AT + 0x10000, AT + 0x11000, 0, 3);
	assert_int_equal(file_ever(t, AT), -ENOTUNIQ);
	assert_int_equal(file_ever(t, AT + 0x10000), 3);
	assert_int_equal(file_ever(t, AT + 0x20000), -ENOENT);
	/* Events up to that time have not all been heard of. */
	trk_set_watermark(t, first);
	assert_int_equal(file_then(t, AT, first), 1);
	assert_int_equal(file_then(t, AT, second), -ENOTUNIQ);
	assert_int_equal(file_then(t, AT + 0x10000, second), 3);
	trk_set_watermark(t, tick());
	assert_int_equal(file_then(t, AT, second), 2);
	trk_free(t);
	fake_free(l);
}

static void test_mappings_before_the_history_are_not_resolved(void **state)
{
	struct load_oncpu *l = fake_new(512);
	struct trk *t = make_one(l);
	uint64_t first = put_file(t, 1), last = 0;

	(void)state;
	for (uint32_t i = 0; i < 2 * TRK_GONE_MAX; i++)
		last = put_file(t, 1 + (i + 1) % 2);
	trk_set_watermark(t, tick());
	assert_int_equal(file_then(t, AT, first), -ENOTUNIQ);
	assert_int_equal(file_then(t, AT, last), 1);
	assert_true(t->pids && t->quota.n < TRK_GONE_MAX + 64);
	trk_free(t);
	fake_free(l);
}

static void test_a_fork_keeps_what_was_before_it(void **state)
{
	struct load_oncpu *l = fake_new(512);
	struct trk *t = make_one(l);
	uint32_t kid = PID_BASE + 1;
	struct ev_proc_id id = id_of(kid, EXEC, 0);
	uint64_t first = put_file(t, 1), second = put_file(t, 2), third;
	struct trk_location pl;

	(void)state;
	ev_fork(t, kid, PID_BASE);
	ev_mmap(t, kid, AT, AT + 0x1000, 0, 3);
	third = tick();
	trk_set_watermark(t, tick());
	assert_int_equal(trk_resolve_at(t, &id, AT, second, &pl), 0);
	assert_int_equal(pl.image->file.ino, 2);
	assert_int_equal(trk_resolve_at(t, &id, AT, third, &pl), 0);
	assert_int_equal(pl.image->file.ino, 3);
	assert_int_equal(file_then(t, AT, third), 2);
	assert_int_equal(file_then(t, AT, first), 1);
	trk_free(t);
	fake_free(l);
}

/* The tracker publishes the watermark after the lists of mappings, and none while events are
 * missing. */
static void test_watermark_follows_the_lists(void **state)
{
	struct load_oncpu *l = fake_new(512);
	struct trk *t = make_one(l);
	uint64_t now = put_file(t, 1), lost;
	struct abi_range r;

	(void)state;
	trk_set_watermark(t, now);
	assert_int_equal(l->watermark_ns, 0);
	trk_flush(t);
	assert_int_equal(l->watermark_ns, now);
	trk_set_watermark(t, now - 1); /* never back */
	trk_flush(t);
	assert_int_equal(trk_watermark_ns(t), now);
	ev_lost(t);
	lost = tick();
	trk_set_watermark(t, lost);
	assert_int_equal(trk_watermark_ns(t), now);
	trk_flush(t); /* all is read again: this process is none of the real ones, and ends */
	assert_int_equal(l->watermark_ns, now);
	assert_int_equal(kernel_find(l, PID_BASE, EXEC, AT, &r), 0);
	assert_int_equal(l->ended, PID_BASE);
	trk_set_watermark(t, tick());
	trk_flush(t);
	assert_true(l->watermark_ns > lost);
	trk_free(t);
	fake_free(l);
}

static void test_events_were_lost_then_time_says_nothing(void **state)
{
	struct load_oncpu *l = fake_new(512);
	struct trk *t = make_one(l);
	uint64_t first = put_file(t, 1), between;

	(void)state;
	trk_set_watermark(t, tick());
	ev_lost(t);
	between = put_file(t, 2);
	assert_int_equal(file_then(t, AT, between), -ENOTUNIQ);
	trk_flush(t);
	trk_set_watermark(t, tick());
	assert_int_equal(file_then(t, AT, between), -ENOTUNIQ);
	assert_int_equal(file_then(t, AT, first), 1);
	trk_free(t);
	fake_free(l);
}

static void test_walks_verify_where_something_was_replaced(void **state)
{
	(void)state;
	for (int hooked = 0; hooked < 2; hooked++) {
		struct load_oncpu *l = fake_new(512);
		struct trk *t = make_one(l);

		l->hooked = hooked;
		put_file(t, 1);
		trk_flush(t);
		assert_int_equal(fake_slot(l, PID_BASE)->v.flags, 0);
		put_file(t, 2);
		trk_flush(t);
		assert_int_equal(fake_slot(l, PID_BASE)->v.flags, hooked ? 0 : ABI_PROC_VERIFY);
		trk_free(t);
		fake_free(l);
	}
}

static void test_ranges_say_which_content(void **state)
{
	struct load_oncpu *l = fake_new(512);
	struct trk *t = make_scanned(l);
	struct ev_proc_id id = id_of(self(), EXEC_ID, 0);
	struct trk_location pl;
	struct abi_range r;
	struct stat st;
	uint64_t here = (uint64_t)(uintptr_t)test_ranges_say_which_content;

	(void)state;
	trk_flush(t);
	assert_int_equal(trk_resolve(t, &id, here, &pl), 0);
	assert_int_equal(fstat(pl.image->fd, &st), 0);
	assert_int_equal(kernel_find(l, self(), EXEC_ID, here, &r), 1);
	assert_int_equal(r.content, abi_content(st.st_ino, (uint64_t)st.st_mtim.tv_sec,
	                                        (uint64_t)st.st_mtim.tv_nsec));
	assert_int_not_equal(r.content, abi_content(st.st_ino, (uint64_t)st.st_mtim.tv_sec,
	                                            (uint64_t)st.st_mtim.tv_nsec + 1));
	trk_free(t);
	fake_free(l);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	        cmocka_unit_test(test_an_address_lies_where_it_did_then),
	        cmocka_unit_test(test_without_its_time_only_what_is_sure),
	        cmocka_unit_test(test_mappings_before_the_history_are_not_resolved),
	        cmocka_unit_test(test_a_fork_keeps_what_was_before_it),
	        cmocka_unit_test(test_watermark_follows_the_lists),
	        cmocka_unit_test(test_events_were_lost_then_time_says_nothing),
	        cmocka_unit_test(test_walks_verify_where_something_was_replaced),
	        cmocka_unit_test(test_ranges_say_which_content),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
