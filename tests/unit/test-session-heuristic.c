/* SPDX-License-Identifier: Apache-2.0 */
/* Heuristic frames in the model. */
#include "session_capture.h"

#define RULE 16
#define NONE (PAGE + 16)
#define BAD  (2 * PAGE + 16)

static struct ev_frame in(uint32_t image, uint64_t off)
{
	return (struct ev_frame){.addr = off, .image = image, .space = EV_SPACE_IMAGE};
}

/* Adds a stack with these heuristic frames, and two counts of it. */
static void count_heuristic(struct ses *s, uint64_t hash, enum ev_walk walk,
                            const struct ev_frame *frames, uint32_t n, uint64_t weight)
{
	const struct ev_stack st = {.hash = hash,
	                            .walk = (uint8_t)walk,
	                            .flags = EV_STACK_HEURISTIC,
	                            .n = n,
	                            .frames = frames};

	assert_int_equal(prof_agg_add_stack(s->walk.agg, &st, NULL), 0);
	for (uint32_t tid = 1; tid <= 2; tid++) {
		const struct ev_count c = {.proc = {.pid = 77, .start_ns = 5},
		                           .tid = tid,
		                           .ustack = hash,
		                           .samples = 1,
		                           .weight = weight / 2};

		assert_int_equal(prof_agg_add_count(s->walk.agg, &c), 0);
	}
}

/* A capture with four images that have tables as __wrap_uw_store_code says. */
static struct ses *new_tables(void)
{
	struct ses *s = new_capture();
	static const char *const paths[] = {"/a/one.so", "/a/two.so", "/a/none.so", "/a/gone.so"};

	s->walk.deferred->has_tables = true;
	assert_int_equal(uw_rules_new(NULL, &s->walk.deferred->rules), 0);
	n_images = ARRAY_SIZE(paths);
	for (uint32_t i = 0; i < n_images; i++)
		images[i].path = paths[i];
	return s;
}

/* The values of a key, in their order, each with a line feed. */
static const char *lines(const struct ses *s, const char *key)
{
	static char text[1024];
	size_t len = strlen(key), n = 0;

	text[0] = '\0';
	for (size_t i = 0; i < s->product[0].quality.v.n; i++)
		if (strncmp(s->product[0].quality.v.p[i], key, len) == 0 &&
		    s->product[0].quality.v.p[i][len] == ':')
			n += (size_t)snprintf(text + n, sizeof(text) - n, "%s\n",
			                      s->product[0].quality.v.p[i] + len + 2);
	return text;
}

static void test_heuristic_frames_are_in_code_without_a_rule(void **state)
{
	const struct ev_frame none[] = {in(1, RULE), in(1, NONE), in(2, RULE), in(1, RULE)},
	                      both[] = {in(2, BAD), in(1, NONE), in(2, NONE), in(1, RULE)},
	                      /* a call that ends a page belongs to that page */
	        edge[] = {in(1, RULE), in(2, 3 * PAGE), in(2, PAGE), in(1, RULE)},
	                      bare[] = {in(1, RULE), in(3, RULE), in(4, NONE), in(1, RULE)},
	                      early[] = {in(1, RULE), in(2, RULE)};
	struct ses *s = new_tables();
	struct err err = {0};

	(void)state;
	count_heuristic(s, 1, EV_WALK_ROOT, none, 4, 10);
	count_heuristic(s, 2, EV_WALK_ROOT, both, 4, 20);
	count_heuristic(s, 3, EV_WALK_ROOT, edge, 4, 40);
	count_heuristic(s, 4, EV_WALK_FAULT, bare, 4, 14);
	count_heuristic(s, 5, EV_WALK_ROOT, early, 2, 16);
	assert_int_equal(build(s, &err), 0);
	assert_string_equal(statistic(s, "heuristic_stacks_pct"), "100.00");
	assert_string_equal(lines(s, "heuristic_in"), "two.so 60.00\n"
	                                              "one.so 30.00\n"
	                                              "[before its table] 16.00\n"
	                                              "gone.so (without table) 14.00\n"
	                                              "none.so (without table) 14.00\n");
	ses_free(s);
}

static void test_frames_known_without_a_rule_are_not_heuristic(void **state)
{
	struct ev_frame trampoline[] = {in(2, NONE), in(1, NONE), in(2, RULE), in(2, RULE)},
	                jit[] = {{.addr = 99, .space = EV_SPACE_ANON}, in(2, NONE), in(2, RULE)},
	                by_hand[] = {in(2, NONE), in(2, RULE), in(1, 3 * PAGE)},
	                failed[] = {in(2, NONE), in(1, NONE)}, only[] = {in(2, RULE), in(1, NONE)};
	struct ses *s = new_tables();
	struct err err = {0};

	(void)state;
	trampoline[2].exact = 1; /* what the signal interrupted */
	count_heuristic(s, 1, EV_WALK_ROOT, trampoline, 4, 20);
	count_heuristic(s, 2, EV_WALK_ROOT, jit, 3, 20);
	count_heuristic(s, 3, EV_WALK_ROOT, by_hand, 3, 20);
	/* The end of a walk is reported elsewhere; but if nothing else explains the heuristic
	 * frame, its
	 * end was one. */
	count_heuristic(s, 4, EV_WALK_UNCOVERED, failed, 2, 20);
	count_heuristic(s, 5, EV_WALK_ROOT, only, 2, 20);
	assert_int_equal(build(s, &err), 0);
	assert_string_equal(lines(s, "heuristic_in"), "two.so 80.00\none.so 20.00\n");
	assert_string_equal(lines(s, "incomplete_in"), "one.so 20.00\n");
	ses_free(s);
}

#if defined(__x86_64__)
static void test_the_end_of_a_thread_is_not_heuristic(void **state)
{
	/* mov %eax, %edi; mov $60, %eax */
	static const uint8_t code[] = {0x89, 0xc7, 0xb8, 60, 0, 0, 0, 0};
	const struct ev_frame end[] = {in(2, RULE), in(1, NONE)}, no[] = {in(2, RULE), in(1, BAD)};
	struct ses *s = new_tables();
	FILE *f = tmpfile();
	struct err err = {0};

	(void)state;
	assert_non_null(f);
	code_fd = fileno(f);
	assert_int_equal(pwrite(code_fd, code, sizeof(code), NONE), sizeof(code));
	assert_int_equal(ftruncate(code_fd, 4 * PAGE), 0);
	count_heuristic(s, 1, EV_WALK_ROOT, end, 2, 60);
	count_heuristic(s, 2, EV_WALK_ROOT, no, 2, 40);
	assert_int_equal(build(s, &err), 0);
	assert_string_equal(lines(s, "heuristic_in"), "[before its table] 60.00\none.so 40.00\n");
	ses_free(s);
	(void)fclose(f);
}
#endif

static void test_raw_heuristic_frames_count_for_their_mapping(void **state)
{
	const struct ev_frame raw[] = {in(1, RULE),
	                               {.addr = AT(2, NONE), .space = EV_SPACE_RAW},
	                               in(1, RULE)},
	                      nowhere[] = {{.addr = NO_CODE, .space = EV_SPACE_RAW, .exact = 1},
	                                   in(1, RULE)};
	struct ses *s = new_tables();
	struct err err = {0};

	(void)state;
	count_heuristic(s, 1, EV_WALK_ROOT, raw, 3, 60);
	count_heuristic(s, 2, EV_WALK_ROOT, nowhere, 2, 40);
	assert_int_equal(build(s, &err), 0);
	assert_string_equal(lines(s, "heuristic_in"), "two.so 60.00\n[unknown] 40.00\n");
	ses_free(s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(test_heuristic_frames_are_in_code_without_a_rule, setup),
		cmocka_unit_test_setup(test_frames_known_without_a_rule_are_not_heuristic, setup),
#if defined(__x86_64__)
		cmocka_unit_test_setup(test_the_end_of_a_thread_is_not_heuristic, setup),
#endif
		cmocka_unit_test_setup(test_raw_heuristic_frames_count_for_their_mapping, setup),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
