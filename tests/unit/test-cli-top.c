/* SPDX-License-Identifier: Apache-2.0 */
/* test-cli-top.c - the live view without a terminal: lines at several widths, keys */
#include "cli/cli_top.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#define ARRAY_LEN(a) (sizeof(a) / sizeof((a)[0]))
#define MS           1000000ULL

static const struct cli_top_row rows[] = {
        {.name = "std::vector<int, std::allocator<int> >::push_back(int const&)",
         .module = "/usr/lib/x86_64-linux-gnu/libstdc++.so.6",
         .last = {600 * MS, 700 * MS},
         .all = {5000 * MS, 9000 * MS}},
        {.name = "gr\xc3\xbc\xc3\x9f"
                 "e",
         .module = "/bin/x",
         .last = {300 * MS, 1000 * MS}},
        {.name = "evil\033[2J\n", .module = "[kernel]", .last = {100 * MS, 100 * MS}},
        {.name = "漢字e\u0301()", .module = "/bin/x", .last = {50 * MS, 50 * MS}},
};

static struct cli_top_screen *screen(size_t n_rows, size_t columns)
{
	struct cli_top_screen *s = calloc(1, sizeof(*s));

	assert_non_null(s);
	s->rows = n_rows;
	s->columns = columns;
	return s;
}

static struct cli_top_view view(void)
{
	return (struct cli_top_view){.target = "demo (123)",
	                             .unit = "nanoseconds",
	                             .both = true,
	                             .rows = rows,
	                             .n = ARRAY_LEN(rows),
	                             .sums = {.last_weight = 1000 * MS,
	                                      .last_ns = 5000 * MS,
	                                      .all_weight = 10000 * MS,
	                                      .all_ns = 12000 * MS,
	                                      .samples = 1234}};
}

static void test_80_columns(void **state)
{
	struct cli_top_screen *s = screen(24, 80);
	struct cli_top_view v = view();

	(void)state;
	cli_top_draw(&v, s);
	assert_int_equal(s->n, 24);
	assert_string_equal(s->line[0], "perf-agent top: demo (123), 12 s, on-CPU");
	assert_string_equal(s->line[1], "last 5 s: 1.00 s | all: 10.0 s, 1,234 samples, 0 lost");
	assert_string_equal(s->line[4], ">  60.0   70.0 |   50.0   90.0  std::vector<int, "
	                                "std::all.. libstdc++.so.6");
	assert_string_equal(s->line[5], "   30.0  100.0 |    0.0    0.0  gr\xc3\xbc\xc3\x9f"
	                                "e                       x");
	assert_non_null(strstr(s->line[6], "evil?[2J?"));
	/* Modules begin in one column. */
	*strrchr(s->line[5], 'x') = *strrchr(s->line[7], 'x') = '\0';
	assert_int_equal(cli_columns(s->line[5]), cli_columns(s->line[7]));
	assert_int_equal(s->look[4], CLI_TOP_SELECTED);
	for (size_t i = 0; i < s->n; i++)
		assert_true(cli_columns(s->line[i]) <= 80);
	free(s);
}

static void test_every_size_fits(void **state)
{
	static const enum cli_top_page pages[] = {CLI_TOP_FUNCTIONS, CLI_TOP_PROCESSES,
	                                          CLI_TOP_THREADS, CLI_TOP_WAITS, CLI_TOP_CALLERS};

	(void)state;
	for (size_t columns = 1; columns <= 130; columns++) {
		for (size_t n = 1; n <= 26; n += 5) {
			struct cli_top_screen *s = screen(n, columns);
			struct cli_top_view v = view();

			for (size_t p = 0; p < ARRAY_LEN(pages); p++) {
				v.page = pages[p];
				v.help = p == 1 && n > 10;
				cli_top_draw(&v, s);
				assert_true(s->n <= n && s->n > 0);
				for (size_t i = 0; i < s->n; i++)
					assert_true(cli_columns(s->line[i]) <= columns);
			}
			free(s);
		}
	}
}

static void test_40_columns_have_the_last_seconds_alone(void **state)
{
	struct cli_top_screen *s = screen(10, 40);
	struct cli_top_view v = view();

	(void)state;
	cli_top_draw(&v, s);
	assert_int_equal(s->n, 10);
	assert_string_equal(s->line[3], "  SELF%   CUM%  FUNCTION");
	assert_string_equal(s->line[4], ">  60.0   70.0  std::vector<int, std::..");
	free(s);
}

static void test_the_selected_row_is_on_the_screen(void **state)
{
	static struct cli_top_row many[100];
	static char names[100][8];
	struct cli_top_screen *s = screen(15, 80); /* 10 rows of the list */
	struct cli_top_view v = view();

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(many); i++) {
		(void)snprintf(names[i], sizeof(names[i]), "f%zu", i);
		many[i] = (struct cli_top_row){.name = names[i], .module = ""};
	}
	v.rows = many;
	v.n = ARRAY_LEN(many);
	assert_int_equal(cli_top_list_rows(s), 10);
	for (int i = 0; i < 12; i++)
		assert_int_equal(cli_top_key(&v, CLI_KEY_DOWN, 10), CLI_TOP_NOTHING);
	cli_top_draw(&v, s);
	assert_int_equal(v.first, 3);
	assert_non_null(strstr(s->line[13], "f12"));
	(void)cli_top_key(&v, CLI_KEY_END, 10);
	cli_top_draw(&v, s);
	assert_int_equal(v.selected, 99);
	assert_non_null(strstr(s->line[13], "f99"));
	(void)cli_top_key(&v, CLI_KEY_PAGE_UP, 10);
	(void)cli_top_key(&v, 'k', 10);
	cli_top_draw(&v, s);
	assert_int_equal(v.selected, 88);
	(void)cli_top_key(&v, CLI_KEY_HOME, 10);
	cli_top_draw(&v, s);
	assert_int_equal(v.first, 0);
	v.n = 2; /* fewer rows than were selected */
	v.selected = 50;
	cli_top_draw(&v, s);
	assert_int_equal(v.selected, 1);
	free(s);
}

static void press(struct cli_top_view *v, const char *keys, enum cli_top_act last)
{
	for (const char *k = keys; *k; k++) {
		enum cli_top_act act = cli_top_key(v, (unsigned char)*k, 10);

		if (!k[1])
			assert_int_equal(act, last);
	}
}

static void test_keys(void **state)
{
	struct cli_top_view v = view();

	(void)state;
	press(&v, "q", CLI_TOP_QUIT);
	press(&v, "\003", CLI_TOP_QUIT);
	press(&v, "\032", CLI_TOP_SUSPEND);
	press(&v, "c", CLI_TOP_LIST);
	assert_true(v.by_cum);
	press(&v, "t", CLI_TOP_LIST);
	assert_true(v.by_all);
	press(&v, "/gr\xc3\xbc\177x\r", CLI_TOP_LIST); /* a whole character is removed */
	assert_string_equal(v.search, "grx");
	press(&v, "/abc\033", CLI_TOP_NOTHING);
	assert_string_equal(v.search, "grx");
	press(&v, "\r", CLI_TOP_LIST);
	assert_int_equal(v.page, CLI_TOP_CALLERS);
	assert_int_equal(v.n_path, 1);
	assert_string_equal(v.path[0], rows[0].name);
	press(&v, "j\r", CLI_TOP_LIST);
	assert_string_equal(v.path[1], rows[1].name);
	press(&v, "\033", CLI_TOP_LIST);
	press(&v, "\177", CLI_TOP_LIST);
	assert_int_equal(v.page, CLI_TOP_FUNCTIONS);
	press(&v, "4", CLI_TOP_LIST);
	assert_true(v.offcpu && v.page == CLI_TOP_WAITS);
	press(&v, "o", CLI_TOP_LIST);
	assert_true(v.ended_only && strstr(v.message, "without"));
	press(&v, "o", CLI_TOP_LIST);
	assert_false(v.ended_only);
	press(&v, "m", CLI_TOP_LIST);
	assert_true(!v.offcpu && v.page == CLI_TOP_FUNCTIONS);
	v.both = false;
	press(&v, "m", CLI_TOP_NOTHING);
	assert_non_null(strstr(v.message, "only on-CPU"));
	press(&v, "4", CLI_TOP_NOTHING);
	press(&v, "w\025a.svg\r", CLI_TOP_WRITE);
	assert_string_equal(v.typed, "a.svg");
	for (int i = 0; i < 1000; i++)
		press(&v, i ? "x" : "/", CLI_TOP_NOTHING);
	assert_int_equal(strlen(v.typed), CLI_TOP_TEXT_MAX - 1);
	/* Callers of callers end. */
	press(&v, "\033", CLI_TOP_NOTHING);
	for (int i = 0; i < 100; i++)
		(void)cli_top_key(&v, CLI_KEY_ENTER, 10);
	assert_int_equal(v.n_path, CLI_TOP_PATH_MAX);
	cli_top_view_done(&v);
	assert_int_equal(v.n_path, 0);
}

static void test_keys_of_terminals(void **state)
{
	static const struct {
		const char *bytes;
		size_t used;
		int key;
	} cases[] = {
	        {"a", 1, 'a'},
	        {"\r", 1, CLI_KEY_ENTER},
	        {"\n", 1, CLI_KEY_ENTER},
	        {"\177", 1, CLI_KEY_BACKSPACE},
	        {"\b", 1, CLI_KEY_BACKSPACE},
	        {"\033", 1, CLI_KEY_ESCAPE},
	        {"\033x", 1, CLI_KEY_ESCAPE},
	        {"\033[A", 3, CLI_KEY_UP},
	        {"\033OB", 3, CLI_KEY_DOWN},
	        {"\033[5~q", 4, CLI_KEY_PAGE_UP},
	        {"\033[1;5A", 6, CLI_KEY_NONE},
	        {"\033[", 2, CLI_KEY_NONE},
	        {"\033[12", 4, CLI_KEY_NONE},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		int key = -1;

		assert_int_equal(cli_key_decode((const unsigned char *)cases[i].bytes,
		                                strlen(cases[i].bytes), &key),
		                 cases[i].used);
		assert_int_equal(key, cases[i].key);
	}
}

static void test_keys_that_are_cut(void **state)
{
	static const struct {
		const char *bytes;
		bool cut;
	} cases[] = {
	        {"a", false},      {"ab\033", true},     {"\033[", true},        {"\033[1;", true},
	        {"\033[A", false}, {"\033[A\033", true}, {"\033O", true},        {"\033OB", false},
	        {"\033x", false},  {"\033[5~q", false},  {"\033[5\033[5", true}, {"q\033[12", true},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++)
		assert_int_equal(cli_key_is_cut((const unsigned char *)cases[i].bytes,
		                                strlen(cases[i].bytes)),
		                 cases[i].cut);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	        cmocka_unit_test(test_80_columns),
	        cmocka_unit_test(test_every_size_fits),
	        cmocka_unit_test(test_40_columns_have_the_last_seconds_alone),
	        cmocka_unit_test(test_the_selected_row_is_on_the_screen),
	        cmocka_unit_test(test_keys),
	        cmocka_unit_test(test_keys_of_terminals),
	        cmocka_unit_test(test_keys_that_are_cut),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
