/* SPDX-License-Identifier: Apache-2.0 */
/* test-session-build - from counts and stacks to the model, what W and B hand on, and what is said
 * of losses; no kernel side, and a track that is made up */
#include "session_capture.h"

/* One count of a stack of raw addresses. */
static void count_stack(struct ses *s, uint32_t tid, uint64_t hash, const uint64_t *addrs,
                        uint32_t n, uint64_t samples)
{
	struct ev_frame frames[8] = {{0}};
	const struct ev_stack st = {.hash = hash, .walk = EV_WALK_ROOT, .n = n, .frames = frames};
	const struct ev_count c = {.proc = {.pid = 77, .start_ns = 5},
	                           .tid = tid,
	                           .ustack = hash,
	                           .samples = samples,
	                           .weight = 10 * samples};

	for (uint32_t i = 0; i < n; i++)
		frames[i] = (struct ev_frame){.addr = addrs[i], .space = EV_SPACE_RAW, .exact = 1};
	assert_int_equal(prof_agg_add_stack(s->walk.agg, &st, NULL), 0);
	assert_int_equal(prof_agg_add_count(s->walk.agg, &c), 0);
}

static uint64_t counter(const struct ses *s, enum tally_id id)
{
	return tally_get(&s->tally, id);
}

/* ---- W and B --------------------------------------------------------------------------------- */

static void test_w_looks_up_from_a_full_queue(void **state)
{
	struct ses *s = new_capture();
	struct ses_item item = {.type = SES_ITEM_FRAMES_, .n = 1};
	const size_t n = 2 * SES_ROUND_ITEMS + 10;

	(void)state;
	for (size_t i = 0; i < n; i++) {
		item.addrs[0].addr = i;
		assert_int_equal(queue_push(s->walk.queue, &item), 0);
	}
	queue_close(s->walk.queue);
	assert_int_equal(ses_tracker_round(s), 0);
	/* Fewer where 50 ms are over first. */
	assert_true(queue_len(s->walk.queue) >= n - SES_ROUND_ITEMS &&
	            queue_len(s->walk.queue) < n);
	assert_int_equal(flush_calls, 1);
	while (ses_tracker_round(s) == 0)
		;
	assert_int_equal(queue_len(s->walk.queue), 0);
	assert_true(flush_calls >= 3);
	assert_int_equal(symbolizer_requested(s->walk.symbolizer), n);
	ses_free(s);
}

static void test_deferred_samples_leave_half_of_the_queue(void **state)
{
	struct ses *s = new_capture();
	const struct ses_item item = {.type = SES_ITEM_FRAMES_};

	(void)state;
	assert_true(ses_deferred_room(s) == SIZE_MAX); /* without tables none comes */
	s->walk.deferred->has_tables = true;
	assert_in_range(ses_deferred_room(s), 100, SES_QUEUE_ITEMS / 2);
	for (int i = 0; i < SES_QUEUE_ITEMS / 2 - 10; i++)
		assert_int_equal(queue_push(s->walk.queue, &item), 0);
	assert_int_equal(ses_deferred_room(s), 10);
	for (int i = 0; i < 20; i++)
		assert_int_equal(queue_push(s->walk.queue, &item), 0);
	assert_int_equal(ses_deferred_room(s), 0);
	ses_free(s);
}

/* ---- the model ------------------------------------------------------------------------------- */

static void test_frames_past_the_stretches_of_an_image(void **state)
{
	struct ses *s = new_capture();
	struct err err = {0};
	size_t bare = 0;

	(void)state;
	for (uint32_t i = 0; i < 1500; i++) {
		const uint64_t addr = AT(1, i * PAGE + 16);

		count_stack(s, 1, i + 1, &addr, 1, 2);
	}
	if (build(s, &err) < 0)
		fail_msg("%s", err.msg);
	assert_int_equal(s->final.kept, 3000);
	assert_int_equal(s->final.weight, 30000);
	assert_int_equal(s->final.dropped, 0);
	assert_int_equal(s->product[0].result.model->mappings.n, 1024);
	assert_int_equal(s->product[0].result.model->locations.n, 1500);
	for (size_t i = 0; i < s->product[0].result.model->locations.n; i++)
		bare += s->product[0].result.model->locations.p[i].mapping == 0;
	assert_int_equal(bare, 1500 - 1024);
	ses_free(s);
}

static void test_what_the_model_refuses_is_dropped(void **state)
{
	static const int errors[] = {-E2BIG, -EINVAL};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(errors); i++) {
		struct ses *s = new_capture();
		const uint64_t addr = AT(1, 16);
		struct err err = {0};

		for (uint32_t tid = 1; tid <= 5; tid++)
			count_stack(s, tid, 9, &addr, 1, tid);
		sample_fails_in = 2;
		sample_error = errors[i];
		assert_int_equal(build(s, &err), 0);
		assert_int_equal(counter(s, TALLY_DROP_MODEL_FULL), 3);
		assert_int_equal(s->final.kept, 12);
		assert_int_equal(s->final.weight, 120);
		assert_int_equal(s->final.dropped, 3);
		ses_free(s);
	}
}

struct asked {
	uint32_t calls;
	uint32_t pid;
	uint64_t start_ns;
};

static void say_team(void *arg, const struct pfa_process *p, struct pfa_label_sink *to)
{
	struct asked *a = arg;

	a->calls++;
	a->pid = p->pid;
	a->start_ns = p->start_ns;
	assert_int_equal(label_add(to, "team", p->pid == 77 ? "red" : "blue"), 0);
	assert_int_equal(label_add(to, "zone", "north"), 0);
}

static void test_labels_of_enrichers_are_on_all_samples(void **state)
{
	struct ses *s = new_capture();
	const uint64_t addr = AT(1, 16);
	const struct prof_model *m;
	struct asked asked = {0};
	struct err err = {0};

	(void)state;
	assert_int_equal(ses_add_enricher(s, say_team, &asked, &err), 0);
	for (uint32_t tid = 1; tid <= 5; tid++)
		count_stack(s, tid, 9, &addr, 1, tid);
	assert_int_equal(build(s, &err), 0);
	assert_int_equal(asked.calls, 1);
	assert_int_equal(asked.pid, 77);
	assert_int_equal(asked.start_ns, 5);
	m = s->product[0].result.model;
	assert_int_equal(m->samples.n, 5);
	vec_each (sample, &m->samples) {
		const struct prof_label *l =
		        &m->labels.p[sample->label_first + sample->label_cnt - 2];

		assert_int_equal(sample->label_cnt, 4); /* pid, tid */
		assert_string_equal(prof_model_str(m, l[0].key), "team");
		assert_string_equal(prof_model_str(m, l[0].str), "red");
		assert_string_equal(prof_model_str(m, l[1].key), "zone");
		assert_string_equal(prof_model_str(m, l[1].str), "north");
	}
	ses_free(s);
}

static void test_statistics_stand_when_the_build_fails(void **state)
{
	struct ses *s = new_capture();
	const uint64_t addr = AT(1, 16);
	struct err err = {0};

	(void)state;
	for (uint32_t tid = 1; tid <= 5; tid++)
		count_stack(s, tid, 9, &addr, 1, tid);
	sample_fails_in = 2;
	sample_error = -ENOMEM;
	assert_int_equal(build(s, &err), -ENOMEM);
	assert_non_null(strstr(err.msg, "building the profile"));
	assert_int_equal(s->final.kept, 1 + 2);
	assert_int_equal(s->final.weight, 30);
	assert_int_equal(s->final.dropped, 3 + 4 + 5);
	assert_int_equal(s->final.stacks, 1);
	ses_free(s);
}

static void test_share_of_named_is_of_all_frames(void **state)
{
	struct ses *s = new_capture();
	/* The last two are no code: frames without a name where it is not known better. */
	const uint64_t one[] = {AT(1, 16), AT(1, 32), NO_CODE}, two[] = {AT(1, 16), NO_CODE + 1};
	struct err err = {0};

	(void)state;
	proc_reason = EV_REASON_NOT_PERMITTED;
	count_stack(s, 1, 1, one, 3, 30);
	count_stack(s, 2, 2, two, 2, 10);
	count_stack(s, 3, 2, two, 2, 50); /* refused: in no statistic */
	sample_fails_in = 2;
	sample_error = -E2BIG;
	assert_int_equal(build(s, &err), 0);
	/* (2 * 30 + 10) / (3 * 30 + 2 * 10) */
	assert_string_equal(statistic(s, "named_user_pct"), "63.64");
	assert_string_equal(statistic(s, "unnamed_frames_process_not_readable"), "2");
	assert_string_equal(statistic(s, "complete_stacks_pct"), "100.00");
	ses_free(s);
}

static void test_an_address_is_placed_once(void **state)
{
	struct ses *s = new_capture();
	const uint64_t addrs[] = {AT(1, 16), AT(1, PAGE + 4), AT(1, 32)};
	struct err err = {0};

	(void)state;
	for (uint32_t tid = 1; tid <= 10; tid++)
		count_stack(s, tid, 1, addrs, 3, 1);
	count_stack(s, 1, 2, addrs, 2, 1);
	assert_int_equal(build(s, &err), 0);
	assert_int_equal(place_calls, 3);
	assert_int_equal(s->product[0].result.model->locations.n, 3);
	assert_string_equal(statistic(s, "named_user_pct"), "100.00");
	ses_free(s);
}

/* A stack of an image, JIT or raw frame each, and a count of it. */
static void count_walk(struct ses *s, uint64_t hash, enum ev_walk walk, uint8_t flags,
                       const struct ev_frame *last, uint64_t weight)
{
	const struct ev_frame frames[] = {{.addr = 16, .image = 1, .space = EV_SPACE_IMAGE}, *last};
	const struct ev_stack st = {
	        .hash = hash, .walk = (uint8_t)walk, .flags = flags, .n = 2, .frames = frames};
	const struct ev_count c = {.proc = {.pid = 77, .start_ns = 5},
	                           .tid = 1,
	                           .ustack = hash,
	                           .samples = 1,
	                           .weight = weight};

	assert_int_equal(prof_agg_add_stack(s->walk.agg, &st, NULL), 0);
	assert_int_equal(prof_agg_add_count(s->walk.agg, &c), 0);
}

static void test_incomplete_stacks_count_for_their_last_frame(void **state)
{
	const struct ev_frame one = {.addr = 32, .image = 1, .space = EV_SPACE_IMAGE},
	                      two = {.addr = 32, .image = 2, .space = EV_SPACE_IMAGE},
	                      jit = {.addr = 99, .space = EV_SPACE_ANON},
	                      raw = {.addr = AT(2, 64), .space = EV_SPACE_RAW, .exact = 1};
	struct ses *s = new_capture();
	struct err err = {0};
	size_t first = 0;

	(void)state;
	n_images = 2;
	images[1].path = "/lib/two.so";
	count_walk(s, 1, EV_WALK_ROOT, EV_STACK_HEURISTIC, &one, 40);
	count_walk(s, 2, EV_WALK_UNCOVERED, 0, &one, 10);
	count_walk(s, 3, EV_WALK_FAULT, EV_STACK_HEURISTIC | EV_STACK_JIT, &two, 5);
	count_walk(s, 4, EV_WALK_JIT, EV_STACK_JIT, &jit, 25);
	count_walk(s, 5, EV_WALK_FAULT, 0, &raw, 20); /* which lies in the second file */
	assert_int_equal(build(s, &err), 0);
	assert_string_equal(statistic(s, "complete_stacks_pct"), "40.00");
	assert_string_equal(statistic(s, "heuristic_stacks_pct"), "45.00");
	assert_string_equal(statistic(s, "jit_stacks_pct"), "30.00");
	while (strncmp(s->product[0].quality.v.p[first], "incomplete_in", 13) != 0)
		first++;
	assert_string_equal(s->product[0].quality.v.p[first], "incomplete_in: [jit] 25.00");
	assert_string_equal(s->product[0].quality.v.p[first + 1], "incomplete_in: two.so 25.00");
	assert_string_equal(s->product[0].quality.v.p[first + 2],
	                    "incomplete_in: made-up.so 10.00");
	assert_null(strstr(s->product[0].quality.v.p[first + 3], "incomplete_in"));
	/* All of them have the same innermost frame. */
	assert_string_equal(statistic(s, "unnamed_in"),
	                    "made-up.so (out of memory or over a limit) 100.00");
	ses_free(s);
}

/* Stacks of this sample: (0: none) a kernel stack that is cut at its limit, that failed,
 * that is whole or that never came; a user stack. */
enum { K_CUT = 31, K_FAILED, K_WHOLE, K_LOST, U_WHOLE, U_LEFT, U_LOST };
static void count_stacks(struct ses *s, uint32_t tid, bool kthread, uint64_t kernel, uint64_t user,
                         uint64_t weight)
{
	const struct ev_frame k = {.addr = 1ULL << 47, .space = EV_SPACE_KERNEL},
	                      u = {.addr = 16, .image = 1, .space = EV_SPACE_IMAGE, .exact = 1};
	const struct ev_stack stacks[] = {
	        {.hash = K_CUT, .kernel = true, .walk = EV_WALK_DEPTH, .n = 1, .frames = &k},
	        {.hash = K_FAILED, .kernel = true, .walk = EV_WALK_FAULT},
	        {.hash = K_WHOLE, .kernel = true, .walk = EV_WALK_ROOT, .n = 1, .frames = &k},
	        {.hash = U_WHOLE, .walk = EV_WALK_ROOT, .n = 1, .frames = &u},
	        {.hash = U_LEFT, .walk = EV_WALK_LEFT, .n = 1, .frames = &u},
	};
	const struct ev_count c = {.proc = {.pid = 77, .start_ns = 5},
	                           .tid = tid,
	                           .kthread = kthread,
	                           .kstack = kernel,
	                           .ustack = user,
	                           .samples = 1,
	                           .weight = weight};

	for (size_t i = 0; i < ARRAY_SIZE(stacks); i++)
		if (stacks[i].hash == kernel || stacks[i].hash == user)
			assert_int_equal(prof_agg_add_stack(s->walk.agg, &stacks[i], NULL), 0);
	assert_int_equal(prof_agg_add_count(s->walk.agg, &c), 0);
}

static void test_kernel_threads_are_in_no_share_of_user_stacks(void **state)
{
	struct ses *s = new_capture();
	struct err err = {0};

	(void)state;
	count_stacks(s, 1, true, K_CUT, 0, 10);
	count_stacks(s, 2, true, K_FAILED, 0, 20);
	count_stacks(s, 3, true, K_WHOLE, 0, 30);
	count_stacks(s, 4, true, K_LOST, 0, 40);
	count_stacks(s, 5, true, 0, 0, 50);
	count_stacks(s, 6, false, K_CUT, U_LEFT, 50);
	count_stacks(s, 7, false, K_WHOLE, U_WHOLE, 150);
	assert_int_equal(build(s, &err), 0);
	assert_string_equal(statistic(s, "complete_stacks_pct"), "100.00");
	assert_string_equal(statistic(s, "incomplete_in"), "none");
	assert_string_equal(statistic(s, "cut_stacks_pct"), "17.14");  /* 60 of 350 */
	assert_string_equal(statistic(s, "lost_stacks_pct"), "11.43"); /* 40 */
	ses_free(s);
}

static void test_cut_and_lost_stacks_are_not_complete(void **state)
{
	struct ses *s = new_capture();
	struct err err = {0};

	(void)state;
	count_stacks(s, 1, false, K_CUT, U_WHOLE, 10);
	count_stacks(s, 2, false, 0, U_LOST, 20);
	count_stacks(s, 3, false, K_LOST, U_WHOLE, 30);
	count_stacks(s, 4, false, 0, U_WHOLE, 40);
	count_stacks(s, 5, true, K_CUT, 0, 900);
	assert_int_equal(build(s, &err), 0);
	assert_string_equal(statistic(s, "complete_stacks_pct"), "40.00");
	assert_string_equal(statistic(s, "incomplete_in"), "none");
	ses_free(s);
}

/* A process without a number here cannot be looked up: if it was not found, it has not ended. */
static void test_stacks_of_other_pid_namespaces_say_so(void **state)
{
	static const struct {
		enum ev_walk walk;
		const char *here, *there; /* statistics of it */
	} cases[] = {
	        {EV_WALK_GONE, "walk_process_gone_pct", "walk_other_pid_namespace_pct"},
	        {EV_WALK_NO_TABLE, "walk_no_table_yet_pct", "walk_other_pid_namespace_pct"},
	        {EV_WALK_NO_REGS, "walk_no_registers_pct", "walk_other_pid_namespace_pct"},
	        {EV_WALK_ROOT, "walk_root_reached_pct", "walk_root_reached_pct"},
	        {EV_WALK_FAULT, "walk_read_fault_pct", "walk_read_fault_pct"},
	};
	const struct ev_frame raw = {.addr = 77, .space = EV_SPACE_RAW, .exact = 1};

	(void)state;
	for (size_t i = 0; i < 2 * ARRAY_SIZE(cases); i++) {
		const bool foreign = i % 2;
		struct ses *s = new_capture();
		const struct ev_stack st = {
		        .hash = 9, .walk = (uint8_t)cases[i / 2].walk, .n = 1, .frames = &raw};
		struct ev_count c = {.proc = {.pid = 77, .start_ns = 5},
		                     .tid = 1,
		                     .foreign_ns = foreign,
		                     .ustack = 9,
		                     .samples = 1,
		                     .weight = 10};
		struct err err = {0};

		assert_int_equal(prof_agg_add_stack(s->walk.agg, &st, NULL), 0);
		assert_int_equal(prof_agg_add_count(s->walk.agg, &c), 0);
		c.tid = 2; /* from the cache of stacks */
		assert_int_equal(prof_agg_add_count(s->walk.agg, &c), 0);
		assert_int_equal(build(s, &err), 0);
		assert_string_equal(statistic(s, foreign ? cases[i / 2].there : cases[i / 2].here),
		                    "100.00");
		ses_free(s);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	        cmocka_unit_test_setup(test_w_looks_up_from_a_full_queue, setup),
	        cmocka_unit_test_setup(test_deferred_samples_leave_half_of_the_queue, setup),
	        cmocka_unit_test_setup(test_frames_past_the_stretches_of_an_image, setup),
	        cmocka_unit_test_setup(test_what_the_model_refuses_is_dropped, setup),
	        cmocka_unit_test_setup(test_labels_of_enrichers_are_on_all_samples, setup),
	        cmocka_unit_test_setup(test_statistics_stand_when_the_build_fails, setup),
	        cmocka_unit_test_setup(test_share_of_named_is_of_all_frames, setup),
	        cmocka_unit_test_setup(test_an_address_is_placed_once, setup),
	        cmocka_unit_test_setup(test_incomplete_stacks_count_for_their_last_frame, setup),
	        cmocka_unit_test_setup(test_kernel_threads_are_in_no_share_of_user_stacks, setup),
	        cmocka_unit_test_setup(test_cut_and_lost_stacks_are_not_complete, setup),
	        cmocka_unit_test_setup(test_stacks_of_other_pid_namespaces_say_so, setup),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
