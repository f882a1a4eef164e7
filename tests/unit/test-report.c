/* SPDX-License-Identifier: Apache-2.0 */
/* Filters, merges and functions of reports, on models whose truth is known. */
#include "report_models.h"

static const char *const LINES[] = {
        "comm=web pid=1 tid=1|main;serve;read@/lib/libc.so 10 1000",
        "comm=web pid=1 tid=2|main;serve;parse^scan 30 3000",
        "comm=db pid=2 tid=3|main;query;scan 20 2000",
        "comm=db pid=2 tid=3|main;query;query;?@/lib/libz.so 5 500",
        "comm=db pid=2 tid=4|main;idle@/lib/libz.so 7 700",
        NULL,
};

static const struct rep_fn *find(const struct prof_model *m, const struct rep_fns *f,
                                 const char *name)
{
	for (size_t i = 0; i < f->n; i++)
		if (!strcmp(prof_model_str(m, f->p[i].name), name))
			return &f->p[i];
	return NULL;
}

static void is(const struct prof_model *m, const struct rep_fns *f, const char *name, int64_t self,
               int64_t cum)
{
	const struct rep_fn *fn = find(m, f, name);

	if (!fn) {
		fail_msg("no function %s", name);
		return; /* clang-tidy */
	}
	if (fn->self != self || fn->cum != cum)
		fail_msg("%s: self %lld cum %lld", name, (long long)fn->self, (long long)fn->cum);
	assert_int_equal(fn->self_cnt * 100, self); /* a sample is 100 ns in these models */
	assert_int_equal(fn->cum_cnt * 100, cum);
}

static void test_functions_have_self_and_cumulative_values(void **state)
{
	_cleanup_(prof_model_freep) struct prof_model *m = rm_model(LINES);
	_cleanup_(rep_fns_done) struct rep_fns f = {0};

	(void)state;
	assert_int_equal(rep_functions(m, 1, 0, &f), 0);
	assert_int_equal(f.total, 7200);
	assert_int_equal(f.samples, 72);
	assert_int_equal(f.n, 8);
	is(m, &f, "main", 0, 7200);
	is(m, &f, "scan", 5000, 5000); /* inlined, and called */
	is(m, &f, "parse", 0, 3000);   /* the inner function has the self value */
	is(m, &f, "query", 0, 2500);   /* recursion counts once */
	is(m, &f, "", 500, 500);       /* code without a name */
	assert_string_equal(prof_model_str(m, find(m, &f, "read")->path), "/lib/libc.so");
	assert_false(find(m, &f, "scan")->several);
	rep_functions_sort(m, &f, false);
	assert_string_equal(prof_model_str(m, f.p[0].name), "scan");
	rep_functions_sort(m, &f, true);
	assert_string_equal(prof_model_str(m, f.p[0].name), "main");
}

static void test_one_name_in_two_files_is_one_row(void **state)
{
	const char *const lines[] = {"|main;f@/a.so 1 100", "|main;f@/b.so 2 200",
	                             "|main;?@/a.so 4 400", "|main;?@/b.so 8 800", NULL};
	_cleanup_(prof_model_freep) struct prof_model *m = rm_model(lines);
	_cleanup_(rep_fns_done) struct rep_fns f = {0};

	(void)state;
	assert_int_equal(rep_functions(m, 1, UINT32_MAX, &f), 0);
	assert_int_equal(f.n, 4);
	assert_int_equal(f.samples, 0); /* not counted */
	assert_true(find(m, &f, "f")->several);
	assert_int_equal(find(m, &f, "f")->self, 300);
	rep_functions_sort(m, &f, false);
	assert_int_equal(f.p[0].self, 800); /* code without a name: by file */
	assert_int_equal(f.p[1].self, 400);
}

static int64_t total_after(const struct rep_filter *o)
{
	_cleanup_(prof_model_freep) struct prof_model *m = rm_model(LINES), *to = NULL;
	struct err err = {0};
	int64_t total = 0;
	int r = rep_filter(m, o, &to, &err);

	if (r == -ENOENT) {
		assert_non_null(strstr(err.msg, "the filters leave no sample: "));
		return -1;
	}
	if (r < 0)
		fail_msg("%d %s", r, err.msg);
	vec_each (s, &to->samples)
		total += s->value[1];
	return total;
}

static void test_filters_by_name_select_samples(void **state)
{
	const struct {
		struct rep_filter f;
		int64_t total;
	} cases[] = {
	        {{.focus = "scan"}, 5000},
	        {{.focus = "^scan$"}, 5000},
	        {{.focus = "SCAN"}, -1},
	        {{.focus = "(?i)SCAN"}, 5000},
	        {{.focus = "libz"}, 1200},      /* the path of a mapping */
	        {{.focus = "query\\.c"}, 2500}, /* the source file */
	        {{.focus = "scan|read"}, 6000},
	        {{.focus = "nothing"}, -1},
	        {{.ignore = "scan"}, 2200},
	        {{.ignore = "main"}, -1},
	        {{.focus = "query", .ignore = "libz"}, 2000},
	        {{.hide = "libz"}, 7200}, /* "idle" is hidden, its sample has "main" */
	        {{.hide = "main|query|idle|serve|read|parse|scan"}, 500},
	        {{.show = "query"}, 2500},
	        {{.focus = ""}, 7200},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		int64_t total = total_after(&cases[i].f);

		if (total != cases[i].total)
			fail_msg("case %zu: %lld", i, (long long)total);
	}
}

static void test_filters_by_label_select_samples(void **state)
{
	const struct {
		const char *text;
		int64_t total; /* of tagfocus; tagignore has the rest */
	} cases[] =
	        {
	                {"comm=web", 4000},
	                {"comm=^w", 4000},
	                {"comm=x,eb", 4000}, /* any of them */
	                {"comm:web", 4000},  /* "key:value" */
	                {"web", 4000},
	                {"web,comm", 4000}, /* all of them */
	                {"web,db", -1},
	                {"pid=2", 3200},
	                {"pid=2:", 3200},
	                {"pid=:1", 4000},
	                {"tid=2:3", 5500},
	                {"tid=2:3ms", -1}, /* a range of two units is a regular expression */
	                {"2:2", 6200},     /* any number: tid 2, pid 2 */
	                {"nokey=web", -1},
	                {"nokey=1", -1},
	        };

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct rep_filter focus = {.tagfocus = cases[i].text},
		                  ignore = {.tagignore = cases[i].text};
		int64_t total = total_after(&focus), rest = total_after(&ignore);

		if (total != cases[i].total || rest != 7200 - MAX_OF(total, 0))
			fail_msg("%s: %lld, rest %lld", cases[i].text, (long long)total,
			         (long long)rest);
	}
}

static void test_units_of_labels_are_converted(void **state)
{
	const char *const lines[] = {"|main 1 100", NULL};
	_cleanup_(prof_model_freep) struct prof_model *m = rm_model(lines);
	struct prof_label label = {.num = 2500};
	const uint32_t loc = 1;
	const int64_t values[] = {1, 7};
	const struct {
		const char *text;
		bool matches;
	} cases[] = {{"longest=2ms:3ms", true},
	             {"longest=2500us", true},
	             {"longest=3ms:", false},
	             {"longest=2500", false},
	             {"longest=2kb:", false}};

	(void)state;
	label.key = rm_string(m, "longest");
	label.unit = rm_string(m, "microseconds");
	assert_int_equal(prof_model_sample(m, &loc, 1, &label, 1, values), 0);
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		_cleanup_(prof_model_freep) struct prof_model *to = NULL;
		struct rep_filter o = {.tagfocus = cases[i].text};

		if (rep_filter(m, &o, &to, NULL) != (cases[i].matches ? 0 : -ENOENT))
			fail_msg("%s", cases[i].text);
		if (to)
			assert_int_equal(to->samples.p[0].value[1], 7);
	}
}

static void test_hidden_frames_leave_their_value_to_the_caller(void **state)
{
	_cleanup_(prof_model_freep) struct prof_model *m = rm_model(LINES), *to = NULL;
	_cleanup_(rep_fns_done) struct rep_fns f = {0};
	struct rep_filter o = {.hide = "^scan$"};

	(void)state;
	m->period = 7;
	assert_int_equal(prof_model_comment(m, "a: b"), 0);
	assert_int_equal(rep_filter(m, &o, &to, NULL), 0);
	assert_int_equal(rep_functions(to, 1, 0, &f), 0);
	assert_null(find(to, &f, "scan"));
	is(to, &f, "parse", 3000, 3000); /* scan was inlined into it */
	is(to, &f, "query", 2000, 2500);
	assert_int_equal(to->period, 7);
	assert_int_equal(to->duration_ns, m->duration_ns);
	assert_int_equal(to->comments.n, 1);
	assert_string_equal(prof_model_str(to, to->default_type), "cpu");
}

static void test_regular_expressions_are_those_of_go(void **state)
{
	/* A function of this name, and whether the expression matches it. */
	const struct {
		const char *re, *name;
		bool matches;
	} cases[] = {
	        {"f\\d+", "f12", true},
	        {"f\\d+", "fd", false},
	        {"^[\\w.]+$", "a.b_c", true},
	        {"^[\\w.]+$", "a-b", false},
	        {"^a{2}$", "aa", true},
	        {"a{x}", "a{x}", true},
	        {"(?:ab)+?c", "ababc", true},
	        {"(?P<n>ab)c", "abc", true},
	        {"\\Qa.b\\E$", "a.b", true},
	        {"^\\Qa.b\\E", "axb", false},
	        {"\\<T>", "x<T>", true},
	        {"\\bfoo\\b", "a foo b", true},
	        {"\\bfoo\\b", "foobar", false},
	        {"[^\\]]$", "a]", false},
	        {"[\\]^-]", "-", true},
	        {"[\\^]", "^", true},
	        {"[[.]", "[", true},
	        {"[]a]", "]", true},
	        {"[a-c]x", "bx", true},
	        {"[a\\-c]x", "bx", false},
	        {"x$", "xy", false},
	        {"operator\\(\\)", "operator()", true},
	        {"[[:digit:]]", "7", true},
	        {"^[a-]$", "-", true},
	        {"^[-a]$", "-", true},
	        {"^[a-c-x]$", "-", true},
	        {"^[a-c-x]$", "w", false},
	        {"^[\\d-x]$", "5", true},
	        {"^[\\d-x]$", "a", false},
	        {"^[+-\\.]$", ",", true},
	        {"^[\\t-\\r]$", "\n", true},
	        {"\\Aab\\z", "ab", true},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		_cleanup_(prof_model_freep) struct prof_model *m = NULL, *to = NULL;
		struct rep_filter o = {.focus = cases[i].re};
		const char *const none[] = {NULL};
		struct err err = {0};
		struct prof_function fn = {0};
		struct prof_line line = {0};
		uint32_t loc;
		int r;

		m = rm_model(none);
		fn.name = rm_string(m, cases[i].name);
		assert_int_equal(prof_model_function(m, &fn, &line.function), 0);
		assert_int_equal(prof_model_location(m, 0, 1, 0, &line, 1, &loc), 0);
		assert_int_equal(prof_model_sample(m, &loc, 1, NULL, 0, (int64_t[]){1, 1}), 0);
		r = rep_filter(m, &o, &to, &err);
		if (r != (cases[i].matches ? 0 : -ENOENT))
			fail_msg("%s on %s: %d %s", cases[i].re, cases[i].name, r, err.msg);
	}
}

static void test_wrong_regular_expressions_are_refused(void **state)
{
	static const char *const wrong[] = {"[A-\\]]", "[A-\\^]", "[A-[]",      "[+--]",
	                                    "[--a]",   "[]-a]",   "[\\[-a]",    "[a-\\d]",
	                                    "[a-",     "[a-\\",   "[\xc3\xa4]", "[a-\xc3\xa4]",
	                                    "(",       "[a",      "a)",         "*a",
	                                    "a\\",     "\\pL",    "(?i:a)",     "a(?i)b",
	                                    "a{1001}", "\\1",     "a{3,2}",     "(a{100}){20}",
	                                    "\\x41",   "[\\p]"};
	char longer[5000];

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(wrong); i++) {
		struct rep_filter names = {.hide = wrong[i]}, tags = {.tagignore = wrong[i]};
		struct err err = {0};

		if (rep_filter_check(&names, &err) != -EINVAL)
			fail_msg("%s is accepted", wrong[i]);
		assert_non_null(strstr(err.msg, "hide: '"));
		assert_non_null(strstr(err.msg, wrong[i]));
		if (!strchr(wrong[i], ',')) {
			assert_int_equal(rep_filter_check(&tags, &err), -EINVAL);
			assert_non_null(strstr(err.msg, "tagignore: '"));
		}
	}
	memset(longer, 'a', sizeof(longer) - 1);
	longer[sizeof(longer) - 1] = 0;
	assert_int_equal(rep_filter_check(&(struct rep_filter){.focus = longer}, NULL), -EINVAL);
}

static void test_merged_profiles_add_up(void **state)
{
	const char *const more[] = {"comm=web pid=1 tid=1|main;serve;read@/lib/libc.so 1 100",
	                            "|other@/lib/libother.so;scan 2 200", NULL};
	_cleanup_(prof_model_freep) struct prof_model *a = rm_model(LINES), *b = rm_model(more),
	                                              *m = NULL, *none = NULL;
	_cleanup_(rep_fns_done) struct rep_fns f = {0};
	const struct prof_model *both[] = {a, b};

	(void)state;
	a->time_realtime_ns = 200;
	b->time_realtime_ns = 100;
	assert_int_equal(prof_model_comment(a, "x: 1"), 0);
	assert_int_equal(prof_model_comment(b, "x: 1"), 0);
	assert_int_equal(prof_model_comment(b, "x: 2"), 0);
	assert_int_equal(rep_merge(both, 2, &m), 0);
	assert_int_equal(rep_functions(m, 1, 0, &f), 0);
	assert_int_equal(f.total, 7500);
	is(m, &f, "read", 1100, 1100);
	is(m, &f, "scan", 5200, 5200);
	assert_int_equal(m->samples.n, 6); /* the first of the second is one of the first */
	assert_int_equal(m->duration_ns, 20000000000);
	assert_int_equal(m->time_realtime_ns, 100);
	assert_int_equal(m->comments.n, 2);
	b->sample_type[1].unit = rm_string(b, "bytes");
	assert_false(rep_same_types(a, b));
	assert_int_equal(rep_merge(both, 2, &none), -EINVAL);
}

static void test_a_file_at_two_addresses_is_one_mapping(void **state)
{
	const char *const one[] = {"|?@/lib/libc.so 1 100", NULL};
	const char *const two[] = {"|before;?@/lib/libc.so 1 100", NULL};
	_cleanup_(prof_model_freep) struct prof_model *a = rm_model(one), *b = rm_model(two),
	                                              *m = NULL;
	const struct prof_model *both[] = {a, b};
	size_t libs = 0;

	(void)state;
	assert_int_equal(rep_merge(both, 2, &m), 0);
	vec_each (map, &m->mappings)
		libs += !strcmp(prof_model_str(m, map->path), "/lib/libc.so");
	assert_int_equal(libs, 1);
	assert_int_equal(m->locations.n, 2); /* the address in it was the same */
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	        cmocka_unit_test(test_functions_have_self_and_cumulative_values),
	        cmocka_unit_test(test_one_name_in_two_files_is_one_row),
	        cmocka_unit_test(test_filters_by_name_select_samples),
	        cmocka_unit_test(test_filters_by_label_select_samples),
	        cmocka_unit_test(test_units_of_labels_are_converted),
	        cmocka_unit_test(test_hidden_frames_leave_their_value_to_the_caller),
	        cmocka_unit_test(test_regular_expressions_are_those_of_go),
	        cmocka_unit_test(test_wrong_regular_expressions_are_refused),
	        cmocka_unit_test(test_merged_profiles_add_up),
	        cmocka_unit_test(test_a_file_at_two_addresses_is_one_mapping),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
