/* SPDX-License-Identifier: Apache-2.0 */
/* Views of reports, on models whose truth is known. */
#include "report_models.h"

#include "report/rep_priv.h"

static const char *const LINES[] = {
        "comm=web pid=1 tid=1|main;serve;read@/lib/libc.so 10 1000",
        "comm=pool pid=1 tid=2|main;serve;parse^scan 30 3000",
        "comm=db pid=2 tid=3|main;query;scan 20 2000",
        "comm=db pid=2 tid=3|main;query;query;?@/lib/libz.so 5 500",
        "comm=db pid=2 tid=4|main;idle@/lib/libz.so 7 700",
        NULL,
};

/* The rows of a report as JSON, one a line, without what is before and after them. */
static char *rows_of(const struct rep_options *from)
{
	_cleanup_(prof_model_freep) struct prof_model *m = rm_model(LINES);
	struct rep_input in = {.name = "a", .model = m};
	struct rep_options o = *from;
	struct err err = {0};
	struct sbuf out;
	int r;

	o.format = REP_JSON;
	sbuf_init(&out, 1 << 20);
	r = rep_write(&o, &in, 1, &out, &err);
	if (r < 0) {
		sbuf_done(&out);
		return strdup(err.msg);
	}
	return sbuf_take(&out);
}

/* Asserts that the texts are in @json in this order. */
static void in_order(char *json, const char *const *texts)
{
	const char *at = json;

	assert_non_null(json);
	if (!json)
		return; /* clang-tidy */
	for (; *texts; texts++) {
		const char *next = strstr(at, *texts);

		if (!next) {
			fail_msg("no %s after %.200s in %s", *texts, at, json);
			return; /* clang-tidy */
		}
		at = next;
	}
	free(json);
}

static void test_callers_and_callees_have_the_values_of_their_calls(void **state)
{
	(void)state;
	in_order(rows_of(&(struct rep_options){.view = REP_PEEK, .subject = "query"}),
	         (const char *const[]){
	                 "{\"table\": \"functions\"", "\"cum\": 2500",
	                 "{\"table\": \"callers\", \"of\": \"query\"",
	                 "\"value\": 2500, \"value_pct\": 100.0000, \"function\": \"main\"",
	                 "{\"table\": \"callees\", \"of\": \"query\"",
	                 "\"value\": 2000, \"value_pct\": 80.0000, \"function\": \"scan\"",
	                 "\"value\": 500, \"value_pct\": 20.0000, \"function\": \"[libz.so]\"",
	                 NULL});
	/* An inlined function has a caller too. */
	in_order(rows_of(&(struct rep_options){.view = REP_PEEK, .subject = "^sca"}),
	         (const char *const[]){
	                 "\"value\": 3000, \"value_pct\": 60.0000, \"function\": \"parse\"",
	                 "\"value\": 2000, \"value_pct\": 40.0000, \"function\": \"query\"", NULL});
	in_order(rows_of(&(struct rep_options){.view = REP_PEEK, .subject = "nothing"}),
	         (const char *const[]){"a: no function matches 'nothing'", NULL});
	in_order(rows_of(&(struct rep_options){.view = REP_PEEK, .subject = "libz"}),
	         (const char *const[]){"\"of\": \"[libz.so]\"", "\"function\": \"query\"", NULL});
}

static void test_a_tree_has_the_largest_calls_first(void **state)
{
	struct rep_options o = {.view = REP_TREE, .min_share = 0.08};

	(void)state;
	in_order(rows_of(&o),
	         (const char *const[]){"\"cum\": 7200, \"cum_pct\": 100.0000, \"self\": 0",
	                               "\"depth\": 0, \"function\": \"main\"", "\"cum\": 4000",
	                               "\"depth\": 1, \"function\": \"serve\"",
	                               "\"depth\": 2, \"function\": \"parse\"",
	                               "\"depth\": 3, \"function\": \"scan\"",
	                               "\"depth\": 2, \"function\": \"read\"", "\"cum\": 2500",
	                               "\"depth\": 1, \"function\": \"query\", \"recursion\": 2",
	                               "\"cum\": 2000", "\"depth\": 2, \"function\": \"scan\"",
	                               "\"cum\": 700", "\"depth\": 1, \"function\": \"idle\"",
	                               NULL});
}

static const char *const RECURSION[] = {"|main;fib;fib;fib 3 30", "|main;fib;fib;leaf;fib 2 20",
                                        "|main;fib 1 10", NULL};

static void test_a_function_that_calls_itself_has_one_row(void **state)
{
	_cleanup_(prof_model_freep) struct prof_model *m = rm_model(RECURSION);
	struct rep_input in = {.name = "a", .model = m};
	struct rep_options o = {.view = REP_TREE}, narrow = {.view = REP_TREE, .width = 60};
	struct err err = {0};
	struct sbuf out;

	(void)state;
	sbuf_init(&out, 1 << 20);
	assert_int_equal(rep_write(&o, &in, 1, &out, &err), 0);
	assert_non_null(strstr(out.p, "60.0 ns  100 %        0     0 %  main      app\n"
	                              "60.0 ns  100 %  40.0 ns    67 %   fib \xc3\x97"
	                              "3   app\n"
	                              "20.0 ns   33 %        0     0 %    leaf    app\n"
	                              "20.0 ns   33 %  20.0 ns    33 %     fib    app\n"));
	sbuf_reset(&out);
	assert_int_equal(rep_write(&narrow, &in, 1, &out, &err), 0);
	assert_non_null(strstr(out.p, " fib \xc3\x97"
	                              "3 "));
	sbuf_done(&out);
}

static const char *const UNNAMED[] = {"|main;0x12@/lib/libz.so 3 30",
                                      "|main;0x34@/lib/libz.so 2 20",
                                      "|main;0x56@/lib/liby.so 1 10", NULL};

static char *unnamed_rows(const struct rep_options *from)
{
	_cleanup_(prof_model_freep) struct prof_model *m = rm_model(UNNAMED);
	struct rep_input in = {.name = "a", .model = m};
	struct rep_options o = *from;
	struct err err = {0};
	struct sbuf out;

	o.format = REP_JSON;
	sbuf_init(&out, 1 << 20);
	assert_int_equal(rep_write(&o, &in, 1, &out, &err), 0);
	return sbuf_take(&out);
}

static void test_code_without_names_is_one_row_for_each_file(void **state)
{
	(void)state;
	in_order(unnamed_rows(&(struct rep_options){0}),
	         (const char *const[]){"\"self\": 50,",
	                               "\"function\": \"[libz.so]\", \"module\": "
	                               "\"/lib/libz.so\"",
	                               "\"self\": 10,", "\"function\": \"[liby.so]\"", NULL});
	in_order(unnamed_rows(&(struct rep_options){.view = REP_TREE}),
	         (const char *const[]){"\"cum\": 50,", "\"function\": \"[libz.so]\"", NULL});
	in_order(unnamed_rows(&(struct rep_options){.view = REP_TREE, .addresses = true}),
	         (const char *const[]){"\"cum\": 30,", "\"function\": \"0x12\"", "\"cum\": 20,",
	                               "\"function\": \"0x34\"", NULL});
}

static void test_processes_and_threads_have_names(void **state)
{
	(void)state;
	in_order(rows_of(&(struct rep_options){.view = REP_BY, .subject = "process"}),
	         (const char *const[]){"\"value\": 4000, \"value_pct\": 55.5556, \"name\": \"web "
	                               "(1)\", \"samples\": 40",
	                               "\"value\": 3200, \"value_pct\": 44.4444, \"name\": \"db "
	                               "(2)\", \"samples\": 32",
	                               NULL});
	in_order(rows_of(&(struct rep_options){.view = REP_BY, .subject = "thread"}),
	         (const char *const[]){"\"name\": \"pool (1/2)\"", "\"name\": \"db (2/3)\"",
	                               "\"name\": \"web (1/1)\"", "\"name\": \"db (2/4)\"", NULL});
}

static void test_values_by_label_module_file_and_line(void **state)
{
	(void)state;
	in_order(rows_of(&(struct rep_options){.view = REP_BY, .subject = "comm"}),
	         (const char *const[]){"\"value\": 3200", "\"name\": \"db\"", "\"value\": 3000",
	                               "\"name\": \"pool\"", "\"name\": \"web\"", NULL});
	in_order(rows_of(&(struct rep_options){.view = REP_BY, .subject = "tid"}),
	         (const char *const[]){"\"name\": \"2\"", "\"name\": \"3\"", NULL});
	in_order(rows_of(&(struct rep_options){.view = REP_BY, .subject = "module"}),
	         (const char *const[]){"\"self\": 5000", "\"cum\": 7200", "\"name\": \"/bin/app\"",
	                               "\"self\": 1200", "\"cum\": 1200",
	                               "\"name\": \"/lib/libz.so\"", NULL});
	in_order(rows_of(&(struct rep_options){.view = REP_BY, .subject = "file", .by_cum = true}),
	         (const char *const[]){"\"cum\": 7200", "\"name\": \"main.c\"", "\"cum\": 5000",
	                               "\"name\": \"scan.c\"", "\"name\": \"[no file] libz.so\"",
	                               NULL});
	in_order(rows_of(&(struct rep_options){.view = REP_BY, .subject = "line"}),
	         (const char *const[]){"\"self\": 3000", "\"name\": \"scan.c:12\"",
	                               "\"self\": 2000", "\"name\": \"scan.c:11\"", NULL});
	in_order(rows_of(&(struct rep_options){.view = REP_BY, .subject = "state"}),
	         (const char *const[]){"a has no label 'state'; its labels: comm, pid, tid", NULL});
}

static void test_all_text_formats_have_all_views(void **state)
{
	static const struct rep_options views[] = {
	        {.view = REP_PEEK, .subject = "query"},
	        {.view = REP_TREE},
	        {.view = REP_BY, .subject = "comm"},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(views); i++) {
		for (int f = REP_TEXT; f <= REP_MARKDOWN; f++) {
			_cleanup_(prof_model_freep) struct prof_model *m = rm_model(LINES);
			struct rep_input in = {.name = "a", .model = m};
			struct rep_options o = views[i];
			struct err err = {0};
			struct sbuf out;

			o.format = (enum rep_format)f;
			o.max_rows = 2;
			sbuf_init(&out, 1 << 20);
			assert_int_equal(rep_write(&o, &in, 1, &out, &err), 0);
			assert_non_null(strstr(out.p, i == 2 ? "db" : "main"));
			if (i > 0)
				assert_non_null(strstr(out.p, "\nand "));
			sbuf_done(&out);
		}
	}
}

static void test_changes_are_scaled_and_judged(void **state)
{
	static const char *const lines[] = {
	        "|main;serve;read@/lib/libc.so 40 4000", /* twice as long, twice as much: no change */
	        "|main;query;scan 40 4000",              /* 5000 before, 10,000 expected */
	        "|main;added 60 6000", NULL};
	_cleanup_(prof_model_freep) struct prof_model *before = rm_model(LINES),
	                                              *after = rm_model(lines);
	struct rep_input a = {.name = "a", .model = before}, b = {.name = "b", .model = after};
	struct rep_options o = {.view = REP_DIFF, .format = REP_JSON, .base = &a, .n_base = 1};
	struct err err = {0};
	struct sbuf out;

	(void)state;
	after->duration_ns = 2 * before->duration_ns;
	rm_add(before, "|main;serve;read@/lib/libc.so 10 1000"); /* 20 in all */
	sbuf_init(&out, 1 << 20);
	assert_int_equal(rep_write(&o, &b, 1, &out, &err), 0);
	in_order(strdup(out.p),
	         (const char *const[]){"\"before\": 10000, \"after\": 4000, \"change\": -6000, ",
	                               "\"z\": -3.873, \"verdict\": \"\", \"function\": \"scan\"",
	                               "\"before\": 0, \"after\": 6000, \"change\": 6000",
	                               "\"verdict\": \"new\", \"function\": \"added\"",
	                               "\"before\": 1400, \"after\": 0, \"change\": -1400",
	                               "\"verdict\": \"gone\", \"function\": \"idle\"",
	                               "\"before\": 1000, \"after\": 0",
	                               "\"function\": \"[libz.so]\"", NULL});
	assert_null(strstr(out.p, "read"));
	sbuf_reset(&out);
	o.value = "samples"; /* half the rate: as many samples are twice the time */
	before->period = 10;
	after->period = 20;
	assert_int_equal(rep_write(&o, &b, 1, &out, &err), 0);
	in_order(strdup(out.p),
	         (const char *const[]){"\"before\": 0, \"after\": 60, \"change\": 60",
	                               "\"before\": 20, \"after\": 40, \"change\": 20",
	                               "\"function\": \"read\"", NULL});
	sbuf_reset(&out);
	o.value = NULL;
	after->sample_type[0].type = rm_string(after, "other");
	assert_int_equal(rep_write(&o, &b, 1, &out, &err), 0); /* both have CPU time */
	assert_non_null(strstr(out.p, "\"function\": \"scan\""));
	after->sample_type[1].unit = rm_string(after, "seconds");
	assert_int_equal(rep_write(&o, &b, 1, &out, &err), -EINVAL);
	assert_string_equal(err.msg, "a and b have values of different types");
	sbuf_done(&out);
}

static char *diff_of(struct prof_model *before, struct prof_model *after, const char *value,
                     enum rep_format format)
{
	struct rep_input a = {.name = "a", .model = before}, b = {.name = "b", .model = after};
	struct rep_options o = {
	        .view = REP_DIFF, .format = format, .base = &a, .n_base = 1, .value = value};
	struct err err = {0};
	struct sbuf out;

	sbuf_init(&out, 1 << 20);
	assert_int_equal(rep_write(&o, &b, 1, &out, &err), 0);
	return sbuf_take(&out);
}

/* The same program at 99 Hz and at 999 Hz: ten times the samples are the same time. */
static void test_rates_do_not_change_the_verdict(void **state)
{
	static const char *const slow[] = {"|main;hot 90 909090", "|main;cold 10 101010", NULL};
	static const char *const fast[] = {"|main;hot 880 880880", "|main;cold 120 120120", NULL};
	_cleanup_(prof_model_freep) struct prof_model *before = rm_model(slow),
	                                              *after = rm_model(fast);

	(void)state;
	before->period = 10101;
	after->period = 1001;
	in_order(diff_of(before, after, NULL, REP_JSON),
	         (const char *const[]){"\"change\": -28210, ", "\"z\": -0.281, ",
	                               "\"verdict\": \"within noise\", \"function\": \"hot\"",
	                               "\"change\": 19110, ", "\"z\": 0.566, ", NULL});
	in_order(diff_of(before, after, "samples", REP_JSON),
	         (const char *const[]){"\"before\": 908, \"after\": 880, \"change\": -28, ",
	                               "\"z\": -0.279, \"verdict\": \"within noise\"", NULL});
	in_order(diff_of(before, after, "samples", REP_TEXT),
	         (const char *const[]){"before is multiplied by 10.091, to the duration and the "
	                               "sampling rate of after\n",
	                               NULL});
	in_order(diff_of(before, after, NULL, REP_TEXT),
	         (const char *const[]){"before is multiplied by 1, to the duration of after\n",
	                               NULL});
}

static void test_numbers_of_samples_without_a_rate_have_no_verdict(void **state)
{
	static const char *const slow[] = {"|main;hot 90 909090", NULL};
	static const char *const fast[] = {"|main;hot 800 800800", NULL};
	_cleanup_(prof_model_freep) struct prof_model *before = rm_model(slow),
	                                              *after = rm_model(fast);

	(void)state;
	before->period = 10101;
	in_order(diff_of(before, after, "samples", REP_JSON),
	         (const char *const[]){"\"before\": 90, \"after\": 800, ",
	                               "\"z\": null, \"verdict\": \"\"", NULL});
	in_order(diff_of(before, after, "samples", REP_TEXT),
	         (const char *const[]){"before is multiplied by 1, to the duration of after; the "
	                               "sampling rates are not known\n",
	                               NULL});
	in_order(diff_of(before, after, NULL, REP_JSON), /* time needs no rate */
	         (const char *const[]){"\"verdict\": \"within noise\"", NULL});
}

/* Off-CPU stacks end in the scheduler: the program's own function has the value. */
static void test_off_cpu_values_are_those_of_the_programs_functions(void **state)
{
	static const char *const lines[] = {
	        "|main;serve;read@/lib/libc.so.6;vfs_read@[kernel];schedule@[kernel] 3 3000",
	        "|main;wait@/lib/libc.so.6;futex_wait@[kernel];schedule@[kernel] 1 1000",
	        "|kthread@[kernel];worker@[kernel];schedule@[kernel] 1 500", NULL};
	_cleanup_(prof_model_freep) struct prof_model *m = rm_model(lines),
	                                              *before = rm_model(lines);
	struct rep_input in = {.name = "a", .model = m};
	struct rep_options o = {.view = REP_TOP, .format = REP_JSON};
	struct err err = {0};
	struct sbuf out;

	(void)state;
	for (int i = 0; i < 2; i++) {
		struct prof_model *one = i ? m : before;

		one->sample_type[0].type = rm_string(one, "contentions");
		one->sample_type[1].type = rm_string(one, "offcpu");
	}
	sbuf_init(&out, 1 << 20);
	assert_int_equal(rep_write(&o, &in, 1, &out, &err), 0);
	in_order(strdup(out.p),
	         (const char *const[]){"\"self\": 3000, ", "\"function\": \"serve\"",
	                               "\"self\": 1000, ", "\"function\": \"main\"",
	                               "\"self\": 500, ", "\"function\": \"worker\"", NULL});
	assert_null(strstr(out.p, "schedule"));
	sbuf_reset(&out);
	o.format = REP_TEXT;
	assert_int_equal(rep_write(&o, &in, 1, &out, &err), 0);
	assert_non_null(strstr(out.p, "\noff-CPU: self is in the program's own function"));
	sbuf_done(&out);
	rm_add(m, "|main;serve;read@/lib/libc.so.6;vfs_read@[kernel];schedule@[kernel] 1 900");
	in_order(diff_of(before, m, NULL, REP_JSON),
	         (const char *const[]){"\"change\": 900, ", "\"z\": null",
	                               "\"function\": \"serve\"", NULL});
}

/* As in a profile of changes that `go tool pprof -base` writes. */
static const char *const SIGNED[] = {"|main;less -300 -30000", "|main;more 100 10000",
                                     "|main;even;plus 100 5000", "|main;even;minus 100 -5000",
                                     NULL};

static char *signed_rows(const struct rep_options *from, const char *const *before)
{
	_cleanup_(prof_model_freep) struct prof_model *m = rm_model(SIGNED), *b = rm_model(before);
	struct rep_input in = {.name = "a", .model = m}, base = {.name = "b", .model = b};
	struct rep_options o = *from;
	struct err err = {0};
	struct sbuf out;

	o.base = o.view == REP_DIFF ? &base : NULL;
	o.n_base = o.view == REP_DIFF ? 1 : 0;
	sbuf_init(&out, 1 << 20);
	assert_int_equal(rep_write(&o, &in, 1, &out, &err), 0);
	return sbuf_take(&out);
}

static void test_negative_values_are_shares_of_all_changes(void **state)
{
	struct rep_options tree = {.view = REP_TREE, .format = REP_JSON, .min_share = 0.05},
	                   top = {.view = REP_TOP, .format = REP_JSON},
	                   by = {.view = REP_BY, .subject = "file", .format = REP_JSON};

	(void)state;
	in_order(signed_rows(&tree, SIGNED),
	         (const char *const[]){
	                 "\"total\": -20000", "\"cum\": -20000, \"cum_pct\": -40.0000",
	                 "\"function\": \"main\"", "\"cum\": -30000, \"cum_pct\": -60.0000",
	                 "\"function\": \"less\"", "\"cum\": 10000, \"cum_pct\": 20.0000",
	                 "\"function\": \"more\"", "\"cum\": 0, \"cum_pct\": 0.0000",
	                 "\"function\": \"even\"", "\"cum\": 5000", "\"function\": \"plus\"",
	                 "\"cum\": -5000", "\"function\": \"minus\"", NULL});
	in_order(signed_rows(&top, SIGNED),
	         (const char *const[]){"\"self\": -30000, \"self_pct\": -60.0000",
	                               "\"self\": 10000", "\"self\": 5000", "\"self\": -5000",
	                               NULL});
	in_order(signed_rows(&by, SIGNED),
	         (const char *const[]){"\"self\": -30000, \"self_pct\": -60.0000",
	                               "\"self\": 10000", NULL});
}

static void test_changes_of_negative_values(void **state)
{
	static const char *const before[] = {"|main;less 300 30000", "|main;more -100 -10000",
	                                     NULL};
	static const char *const least[] = {"|main;less 1 -9223372036854775808", NULL};
	struct rep_options diff = {.view = REP_DIFF, .format = REP_JSON};

	(void)state;
	in_order(signed_rows(&diff, before),
	         (const char *const[]){"\"before\": 30000, \"after\": -30000, \"change\": -60000, "
	                               "\"change_pct\": -120.0000",
	                               "\"before\": -10000, \"after\": 10000, \"change\": 20000, "
	                               "\"change_pct\": 40.0000",
	                               NULL});
	in_order(signed_rows(&diff, least),
	         (const char *const[]){"\"before\": -9223372036854775807, \"after\": -30000, "
	                               "\"change\": 9223372036854745807, \"change_pct\": 100.0000",
	                               NULL});
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	        cmocka_unit_test(test_callers_and_callees_have_the_values_of_their_calls),
	        cmocka_unit_test(test_a_tree_has_the_largest_calls_first),
	        cmocka_unit_test(test_a_function_that_calls_itself_has_one_row),
	        cmocka_unit_test(test_code_without_names_is_one_row_for_each_file),
	        cmocka_unit_test(test_processes_and_threads_have_names),
	        cmocka_unit_test(test_values_by_label_module_file_and_line),
	        cmocka_unit_test(test_changes_are_scaled_and_judged),
	        cmocka_unit_test(test_rates_do_not_change_the_verdict),
	        cmocka_unit_test(test_numbers_of_samples_without_a_rate_have_no_verdict),
	        cmocka_unit_test(test_off_cpu_values_are_those_of_the_programs_functions),
	        cmocka_unit_test(test_negative_values_are_shares_of_all_changes),
	        cmocka_unit_test(test_changes_of_negative_values),
	        cmocka_unit_test(test_all_text_formats_have_all_views),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
