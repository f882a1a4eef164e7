/* SPDX-License-Identifier: Apache-2.0 */
#include "go_rows.h"

#ifdef ABI_ARM64

int main(void)
{
	puts("1..0 # SKIP the code in this test is x86-64");
	return 0;
}

#else

static void check_fns(const struct got *g, const struct gb_map *m)
{
	static const struct {
		size_t fn, off;
		const char *want;
	} cases[] = {
	        {0, 0, "r7+8"},      {0, 1, "r7+16 fp"},  {0, 7, "r7+16 fp"}, {0, 8, "r7+48 fp"},
	        {0, 19, "r7+48 fp"}, {0, 20, "r7+16 fp"}, {0, 21, "r7+8"},    {0, 22, "r7+48 fp"},
	        {0, 23, "none"},     {1, 0, "r7+8"},      {1, 4, "r7+48"},    {1, 8, "r7+48"},
	        {1, 9, "r7+48 fp"},  {1, 22, "r7+48 fp"}, {1, 23, "r7+8"},    {1, 24, "none"},
	        {2, 3, "r7+8"},      {2, 4, "r7+16"},     {2, 11, "r7+16"},   {2, 12, "r7+8"},
	        {3, 6, "r7+8"},      {3, 7, "r7+520"},    {3, 14, "r7+520"},  {3, 15, "r7+520 fp"},
	        {4, 0, "root"},      {4, 15, "root"},     {5, 0, "r7+8"},     {5, 4, "bad"},
	        {5, 8, "r7+24"},     {6, 0, "none"},      {7, 3, "r7+8"},     {7, 4, "r7+0"},
	        {7, 8, "r7+8"},
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		const char *text = text_at(g, m->at[cases[i].fn] + cases[i].off);

		if (strcmp(text, cases[i].want) != 0)
			print_error("function %zu + %zu\n", cases[i].fn, cases[i].off);
		assert_string_equal(text, cases[i].want);
	}
}

static void test_every_version_gives_the_same_rows(void **state)
{
	static const int versions[] = {12, 116, 118, 120};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(versions); i++) {
		const struct gb_opts o = {.version = versions[i]};
		_cleanup_(done) struct got g = {0};
		_cleanup_(sbuf_done) struct sbuf b;
		struct gb_map m;

		gb_build(&o, fns, ARRAY_SIZE(fns), &b, &m);
		assert_int_equal(read_bytes(uw_go_read, &b, NO_LIMIT, &g), 0);
		check_fns(&g, &m);
		assert_int_equal(g.stats.entries, ARRAY_SIZE(fns));
		assert_int_equal(g.stats.bad_entries, 0);
	}
}

static void test_table_without_a_section_is_found_in_the_data(void **state)
{
	const struct gb_opts o = {.version = 120, .in_data = true};
	_cleanup_(done) struct got g = {0};
	_cleanup_(sbuf_done) struct sbuf b;
	struct gb_map m;

	(void)state;
	gb_build(&o, fns, ARRAY_SIZE(fns), &b, &m);
	assert_int_equal(read_bytes(uw_go_read, &b, NO_LIMIT, &g), 0);
	check_fns(&g, &m);
}

static void test_start_of_text_is_found_in_the_code(void **state)
{
	/* no-op; call runtime.goexit1, 25 bytes on; no-op: of two with that name, it is the second
	 */
	static const uint8_t goexit[] = {0x90, 0xe8, 26, 0, 0, 0, 0x90, 0xcc};
	const struct gb_fn with[] = {
	        STORE,
	        {.name = "runtime.goexit",
	         .flag = 1,
	         .code = goexit,
	         .len = sizeof(goexit),
	         .step = {{0, 8}}},
	        {.name = "runtime.goexit1", .len = 24, .step = {{0, 24}}},
	        {.name = "runtime.goexit1", .len = 16, .step = {{0, 16}}},
	};
	struct gb_opts o = {.version = 120, .no_text_start = true, .lead = 48};

	(void)state;
	for (size_t n = 2; n <= ARRAY_SIZE(with); n++) {
		_cleanup_(done) struct got g = {0};
		_cleanup_(sbuf_done) struct sbuf b;
		struct gb_map m;

		gb_build(&o, with, n, &b, &m);
		if (n < ARRAY_SIZE(with)) {
			assert_int_equal(read_bytes(uw_go_read, &b, NO_LIMIT, &g), -ENOENT);
			continue;
		}
		assert_int_equal(read_bytes(uw_go_read, &b, NO_LIMIT, &g), 0);
		assert_string_equal(text_at(&g, m.at[0] + 9), "r7+48 fp");
		assert_string_equal(text_at(&g, m.at[1]), "root");
		assert_string_equal(text_at(&g, m.at[0] - 1), "none");
	}
}

static void test_files_without_a_known_table_are_left_out(void **state)
{
	static const struct gb_opts cases[] = {
	        {.version = 120, .section = ".text"},
	        {.version = 120, .magic = 0xfffffff2},
	        {.version = 120, .quantum = 4},
	        {.version = 120, .no_text_start = true}, /* and no code to find it by */
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		_cleanup_(done) struct got g = {0};
		_cleanup_(sbuf_done) struct sbuf b;
		struct gb_map m;

		gb_build(&cases[i], fns, ARRAY_SIZE(fns), &b, &m);
		assert_int_equal(read_bytes(uw_go_read, &b, NO_LIMIT, &g), -ENOENT);
		assert_int_equal(read_bytes(uw_go_special_read, &b, NO_LIMIT, &g), -ENOENT);
		assert_int_equal(g.n_fn, 0);
	}
}

static void test_start_of_the_program_is_outermost(void **state)
{
	const struct gb_fn start[] = {
	        {.name = "_rt0_amd64_linux", .len = 16, .step = {{0, 16}}},
	        {.name = "_rt0_amd64_linux_lib", .len = 16, .step = {{0, 16}}},
	};
	const struct gb_opts o = {.version = 120};
	_cleanup_(done) struct got g = {0};
	_cleanup_(sbuf_done) struct sbuf b;
	struct gb_map m;

	(void)state;
	gb_build(&o, start, ARRAY_SIZE(start), &b, &m);
	assert_int_equal(read_bytes(uw_go_read, &b, NO_LIMIT, &g), 0);
	assert_string_equal(text_at(&g, m.at[0]), "root");
	assert_string_equal(text_at(&g, m.at[1]), "r7+8");
}

static void test_damaged_function_costs_that_one(void **state)
{
	const struct gb_opts o = {.version = 120};
	_cleanup_(done) struct got g = {0};
	_cleanup_(sbuf_done) struct sbuf b;
	const uint32_t outside = 0x7fffffff;
	struct gb_map m;

	(void)state;
	gb_build(&o, fns, ARRAY_SIZE(fns), &b, &m);
	/* The place of the second function's record. */
	memcpy(b.p + m.table + 8 + 8 * 8 + 8 + 4, &outside, sizeof(outside));
	assert_int_equal(read_bytes(uw_go_read, &b, NO_LIMIT, &g), 0);
	assert_int_equal(g.stats.bad_entries, 1);
	assert_string_equal(text_at(&g, m.at[1] + 9), "none");
	assert_string_equal(text_at(&g, m.at[0] + 8), "r7+48 fp");
	assert_string_equal(text_at(&g, m.at[2] + 4), "r7+16");
}

static void test_limits_and_failures_end_the_reading(void **state)
{
	const struct gb_opts o = {.version = 120};
	_cleanup_(done) struct got g = {0};
	_cleanup_(sbuf_done) struct sbuf b;
	struct gb_map m;

	(void)state;
	gb_build(&o, fns, ARRAY_SIZE(fns), &b, &m);
	assert_int_equal(read_bytes(uw_go_read, &b, 8, &g), -E2BIG);
	assert_in_range(g.n_row, 1, 12);
	g.fail = -ENOMEM;
	assert_int_equal(read_bytes(uw_go_read, &b, NO_LIMIT, &g), -ENOMEM);
	assert_int_equal(g.n_row, 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	        cmocka_unit_test(test_every_version_gives_the_same_rows),
	        cmocka_unit_test(test_table_without_a_section_is_found_in_the_data),
	        cmocka_unit_test(test_start_of_text_is_found_in_the_code),
	        cmocka_unit_test(test_files_without_a_known_table_are_left_out),
	        cmocka_unit_test(test_start_of_the_program_is_outermost),
	        cmocka_unit_test(test_damaged_function_costs_that_one),
	        cmocka_unit_test(test_limits_and_failures_end_the_reading),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
#endif
