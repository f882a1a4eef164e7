/* SPDX-License-Identifier: Apache-2.0 */
/* Reports as text, markdown and JSON: names, numbers, quality lines, tables. */
#include <locale.h>

#include "report_models.h"

#include "report/rep_priv.h"

static const char *name_of(const char *name, size_t columns, bool fold)
{
	static char text[256];
	_cleanup_(sbuf_done) struct sbuf b;
	size_t n;

	sbuf_init(&b, 1 << 20);
	n = rep_put_name(&b, name, columns, fold);
	assert_int_equal(b.err, 0);
	assert_int_equal(n, columns_of(b.p ? b.p : "", b.len));
	(void)str_copy(text, sizeof(text), b.p ? b.p : "");
	return text;
}

#define E "\xe2\x80\xa6"

static void test_names_are_cut_to_columns_not_characters(void **state)
{
	static const struct {
		const char *name;
		size_t columns;
		const char *cut;
	} cases[] = {
	        {"漢字漢字", 8, "漢字漢字"}, /* two columns each */
	        {"漢字漢字", 7,
	         "漢" E "字"}, /* three columns are free at either side: one is left */
	        {"漢字漢字", 6, "漢" E "字"},
	        {"漢字漢字", 2, E},
	        {"e\u0301a\u0308o\u0308u\u0308", 4, "e\u0301a\u0308o\u0308u\u0308"},
	        {"e\u0301a\u0308o\u0308u\u0308", 3, "e\u0301" E "u\u0308"},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++)
		assert_string_equal(name_of(cases[i].name, cases[i].columns, true), cases[i].cut);
}

static void test_template_arguments_are_folded(void **state)
{
	static const struct {
		const char *name, *folded;
	} cases[] = {
	        {"std::_Rb_tree<int, std::pair<int const, int>, X>::_M_lower_bound",
	         "std::_Rb_tree<" E ">::_M_lower_bound"},
	        {"f<A>(std::map<int, B<C> > const&)", "f<A>(std::map<" E "> const&)"},
	        {"std::operator<< <std::char_traits<char> >(std::ostream&)",
	         "std::operator<< <" E ">(std::ostream&)"},
	        {"a::operator<(b<c> const&)", "a::operator<(b<c> const&)"},
	        {"X::operator->() const", "X::operator->() const"},
	        {"operator<=><int>", "operator<=><int>"},
	        {"std::vector<int>::size() const", "std::vector<int>::size() const"},
	        {"f<long long>(std::pair<int, int>)", "f<" E ">(std::pair<" E ">)"},
	        {"bool operator< <char, int>(A, B)", "bool operator< <" E ">(A, B)"},
	        {"A::operator<<(int, long)", "A::operator<<(int, long)"},
	        {"operator<=>(A<long int>)", "operator<=>(A<" E ">)"},
	        {"call<fn(u8) -> Vec<u8>>", "call<" E ">"},
	        {"a > b", "a > b"},
	        {"py::<unknown code>", "py::<unknown code>"},
	        {"<alloc::vec::Vec<T> as core::ops::Drop>::drop",
	         "<alloc::vec::Vec<T> as core::ops::Drop>::drop"},
	        {"core::iter::Map::<A, B>::next", "core::iter::Map::<" E ">::next"},
	        {"call<void (*)(int) -> int>::run", "call<" E ">::run"},
	        {"<unknown>", "<unknown>"},
	        {"a<b", "a<b"}, /* they do not end */
	        {"main", "main"},
	        {"", ""},
	        {"myoperator<long>", "myoperator<" E ">"},
	        {"py::<module>", "py::<module>"},
	        {"py::<lambda>:a.py", "py::<lambda>:a.py"},
	        {"py::f.<locals>.<genexpr>", "py::f.<locals>.<genexpr>"},
	        {"py::_load:<frozen importlib>", "py::_load:<frozen importlib>"},
	        {"java::util::List::<init>", "java::util::List::<init>"},
	        {"Main<clinit>", "Main<clinit>"},
	        {"a::<module_of<int>>::f", "a::<" E ">::f"},
	        {"a (<b>)", "a (<b>)"},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		assert_string_equal(name_of(cases[i].name, 0, true), cases[i].folded);
		assert_string_equal(name_of(cases[i].name, 0, false), cases[i].name);
	}
}

/* A search to the end for each bracket would take minutes. */
static void test_brackets_without_end_are_searched_once(void **state)
{
	enum { PAIRS = 250000 };
	_cleanup_free_ char *name = malloc(2 * PAIRS + 1);
	_cleanup_(sbuf_done) struct sbuf b;

	(void)state;
	assert_non_null(name);
	if (!name)
		return; /* clang-tidy */
	for (size_t i = 0; i < PAIRS; i++)
		memcpy(name + 2 * i, "a<", 2);
	name[2 * PAIRS] = 0;
	sbuf_init(&b, 1 << 22);
	assert_int_equal(rep_put_name(&b, name, 0, true), 2 * PAIRS);
}

static void test_long_names_lose_their_middle(void **state)
{
	(void)state;
	assert_string_equal(name_of("abcdefghij", 10, false), "abcdefghij");
	assert_string_equal(name_of("abcdefghij", 9, false), "abcd" E "ghij");
	assert_string_equal(name_of("abcdefghij", 4, false), "a" E "ij");
	assert_string_equal(name_of("\xc3\xa4\xc3\xb6\xc3\xbc\xc3\xa4\xc3\xb6", 3, false),
	                    "\xc3\xa4" E "\xc3\xb6");
}

/* A name that is cut still says which function it is. */
static void test_long_names_keep_their_function(void **state)
{
	(void)state;
	assert_string_equal(name_of("engine::physics::World::Solver::step(float)", 24, false),
	                    "engine::ph" E "::step(float)");
	assert_string_equal(name_of("engine::physics::World::step_all(float, int)", 24, false),
	                    "e" E "::step_all(float, int)");
	assert_string_equal(name_of("ns::function(std::vector::type, long)", 20, false),
	                    E "function(std::vect" E);
	assert_string_equal(name_of("<a::b::Reader as c::d::Stream>::poll", 20, false),
	                    "<a::b::Re" E "eam>::poll");
	assert_string_equal(name_of("std::sys::backtrace::run::<T>", 15, false),
	                    "std:" E "::run::<T>");
	assert_string_equal(name_of("a::b", 2, false), E "b");
	assert_string_equal(name_of("a::b", 1, false), E);
}

static void test_names_cannot_control_a_terminal(void **state)
{
	(void)state;
	assert_string_equal(name_of("a\x1b[31mb\nc\xff\xc2\x9b\xe2\x80\xae", 0, true),
	                    "a?[31mb?c???");
}

static const char *value_of(int64_t v, const char *unit)
{
	static char text[64];
	_cleanup_(sbuf_done) struct sbuf b;

	sbuf_init(&b, 64);
	rep_put_value(&b, v, unit);
	(void)str_copy(text, sizeof(text), b.p);
	return text;
}

static void test_values_have_units(void **state)
{
	(void)state;
	assert_string_equal(value_of(0, "nanoseconds"), "0");
	assert_string_equal(value_of(999, "nanoseconds"), "999 ns");
	assert_string_equal(value_of(1234567890, "nanoseconds"), "1.23 s");
	assert_string_equal(value_of(-1500000, "nanoseconds"), "-1.50 ms");
	assert_string_equal(value_of(999600, "nanoseconds"), "1.00 ms");
	assert_string_equal(value_of(250, "milliseconds"), "250 ms");
	assert_string_equal(value_of(3600, "seconds"), "3600 s");
	assert_string_equal(value_of(360000, "seconds"), "100 h");
	assert_string_equal(value_of(1536, "bytes"), "1.50 kB");
	assert_string_equal(value_of(1234567, "count"), "1,234,567");
	assert_string_equal(value_of(-1234, "count"), "-1,234");
	assert_string_equal(value_of(INT64_MIN, "count"), "-9,223,372,036,854,775,808");
}

static const char *pct_of(double pct, int64_t samples)
{
	static char text[64];
	_cleanup_(sbuf_done) struct sbuf b;

	sbuf_init(&b, 64);
	rep_put_pct(&b, pct, samples);
	(void)str_copy(text, sizeof(text), b.p);
	return text;
}

static void test_shares_are_as_precise_as_the_samples(void **state)
{
	(void)state;
	assert_string_equal(pct_of(12.345, 100), "12");
	assert_string_equal(pct_of(12.345, 1000), "12.3");
	assert_string_equal(pct_of(12.345, 100000), "12.35");
	assert_string_equal(pct_of(0.2, 100), "<1");
	assert_string_equal(pct_of(-0.2, 100), "-<1");
	assert_string_equal(pct_of(-12.345, 1000), "-12.3");
	assert_string_equal(pct_of(0, 100), "0");
	assert_string_equal(pct_of(99.8, 100), ">99");
	assert_string_equal(pct_of(100, 100), "100");
}

static char *written(const struct rep_options *o, const struct rep_input *in, size_t n)
{
	struct sbuf out;
	struct err err = {0};
	int r;

	sbuf_init(&out, 1 << 24);
	r = rep_write(o, in, n, &out, &err);
	if (r < 0)
		fail_msg("%d %s", r, err.msg);
	return sbuf_take(&out);
}

static const char *const LINES[] = {
        "comm=web|main;std::map<int,int>::find@/lib/libx.so 750 75000000",
        "comm=web|main;<script>`a|b`@/lib/liby.so 250 25000000", NULL};

static void test_text_has_quality_first_and_then_functions(void **state)
{
	_cleanup_(prof_model_freep) struct prof_model *m = rm_model(LINES);
	struct rep_input in = {.name = "a.pb.gz", .model = m, .format = "pprof"};
	struct rep_options o = {0};
	_cleanup_free_ char *text = written(&o, &in, 1);

	(void)state;
	assert_string_equal(text,
	                    "a.pb.gz: samples, cpu over 10.0 s; pprof of another tool\n"
	                    "quality: not known; 1,000 samples: shares are about \xc2\xb1 3 %\n"
	                    "\n"
	                    "   self  self %      cum   cum %  function           module\n"
	                    "75.0 ms  75.0 %  75.0 ms  75.0 %  std::map<" E ">::find  libx.so\n"
	                    "25.0 ms  25.0 %  25.0 ms  25.0 %  <script>`a|b`      liby.so\n");
}

static void test_rows_are_limited_and_counted(void **state)
{
	_cleanup_(prof_model_freep) struct prof_model *m = rm_model(LINES);
	struct rep_input in = {.name = "a", .model = m};
	struct rep_options o = {.max_rows = 1}, cum = {.by_cum = true, .max_rows = 1};
	_cleanup_free_ char *text = written(&o, &in, 1), *by_cum = written(&cum, &in, 1);

	(void)state;
	assert_non_null(strstr(text, "\nand 1 more function with 25.0 %\n"));
	assert_null(strstr(text, "<script>"));
	assert_non_null(strstr(by_cum, "  main"));
	assert_non_null(strstr(by_cum, "\nand 2 more functions\n"));
}

static void test_lines_fit_the_terminal(void **state)
{
	const char *const lines[] = {
	        "|main;averyveryveryveryveryveryveryveryveryveryveryverylongname@/l/libx.so 1 100",
	        NULL};
	_cleanup_(prof_model_freep) struct prof_model *m = rm_model(lines);
	struct rep_input in = {.name = "a", .model = m};
	struct rep_options o = {.width = 70};
	char *text, *save = NULL;

	(void)state;
	text = written(&o, &in, 1);
	for (char *line = strtok_r(strstr(text, "\n\n"), "\n", &save); line;
	     line = strtok_r(NULL, "\n", &save))
		assert_true(columns_of(line, strlen(line)) <= 70);
	free(text);
}

static void test_quality_is_that_of_the_comments(void **state)
{
	_cleanup_(prof_model_freep) struct prof_model *m = rm_model(LINES);
	struct rep_input in = {.name = "x", .model = m};
	struct rep_options o = {0};
	_cleanup_(rep_quality_done) struct rep_quality q = {0};
	char *text;

	(void)state;
	assert_int_equal(prof_model_comment(m, "a tag"), 0);
	assert_int_equal(prof_model_comment(m,
	                                    "# perf-agent: 0.1.0; target: pid 7; "
	                                    "complete_stacks_pct: 93.10; lost_stacks_pct: 0.50; "
	                                    "named_user_pct: 98.00; incomplete_in: libz.so 6.00; "
	                                    "note: a\x1b\\; remedy"),
	                 0);
	assert_int_equal(rep_quality_of(m, NULL, &q), 0);
	assert_string_equal(q.verdict, "fair");
	assert_string_equal(q.tool, "0.1.0");
	assert_int_equal(q.samples, 1000);
	assert_true(q.named_kernel_pct < 0);
	text = written(&o, &in, 1);
	assert_non_null(strstr(text, "x: samples, cpu of pid 7 over 10.0 s; perf-agent 0.1.0\n"));
	assert_non_null(strstr(
	        text, "quality: fair; 1,000 samples: shares are about \xc2\xb1 3 %; 93.1 % of "
	              "stacks complete, 0.5 % lost, 98.0 % of user frames named\n"));
	assert_non_null(strstr(text, "\n  6.9 % of the user stacks are incomplete; they end in "
	                             "libz.so 6.0 %: docs/troubleshooting.md#incomplete-stacks\n"));
	assert_non_null(strstr(text, "\n  0.5 % of the time lost its stack ([stack lost]): lower "
	                             "--sample-rate\n"));
	assert_non_null(strstr(text, "  note: a ; remedy\n"));
	free(text);
}

static void test_the_worst_part_decides_the_verdict(void **state)
{
	static const struct {
		const char *complete, *lost, *unnamed, *verdict;
		const char *line;
	} cases[] = {
	        {"99", "0", "1", "good", "|main 100 1"},  {"95", "0", "1", "fair", "|main 100 1"},
	        {"80", "0", "1", "poor", "|main 100 1"},  {"99", "0.5", "1", "fair", "|main 100 1"},
	        {"99", "5", "1", "poor", "|main 100 1"},  {"99", "0", "5", "fair", "|main 100 1"},
	        {"99", "0", "20", "poor", "|main 100 1"}, {"99", "0", "1", "fair", "|main 99 1"},
	        {"99", "0", "1", "poor", "|main 19 1"},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		const char *const lines[] = {cases[i].line, NULL};
		_cleanup_(prof_model_freep) struct prof_model *m = rm_model(lines);
		_cleanup_(rep_quality_done) struct rep_quality q = {0};

		assert_int_equal(prof_model_comment(m,
		                                    "# perf-agent: 1; complete_stacks_pct: %s; "
		                                    "lost_stacks_pct: %s; unnamed_in: x (no "
		                                    "symbol table) %s",
		                                    cases[i].complete, cases[i].lost,
		                                    cases[i].unnamed),
		                 0);
		assert_int_equal(rep_quality_of(m, NULL, &q), 0);
		if (strcmp(q.verdict, cases[i].verdict) != 0)
			fail_msg("case %zu: %s", i, q.verdict);
	}
}

static void test_a_claim_without_perf_agent_is_not_believed(void **state)
{
	_cleanup_(prof_model_freep) struct prof_model *m = rm_model(LINES);
	_cleanup_(rep_quality_done) struct rep_quality q = {0};

	(void)state;
	assert_int_equal(prof_model_comment(m, "complete_stacks_pct: 99.10"), 0);
	assert_int_equal(rep_quality_of(m, NULL, &q), 0);
	assert_string_equal(q.verdict, "not known");
	assert_true(q.complete_pct < 0);
}

static void test_a_profile_without_samples_says_so(void **state)
{
	_cleanup_(prof_model_freep) struct prof_model *m = rm_model(LINES);
	struct rep_input in = {.name = "a", .model = m};
	struct rep_options text = {.format = REP_TEXT}, json = {.format = REP_JSON};
	char *out;

	(void)state;
	m->samples.n = 0;
	out = written(&text, &in, 1);
	assert_non_null(strstr(out, "\nquality: no samples\n"));
	free(out);
	out = written(&json, &in, 1);
	assert_non_null(strstr(out, "\"quality\": \"none\""));
	free(out);
}

static void test_markdown_has_names_as_code(void **state)
{
	_cleanup_(prof_model_freep) struct prof_model *m = rm_model(LINES);
	struct rep_input in = {.name = "a|b", .model = m, .format = "pprof"};
	struct rep_options o = {.format = REP_MARKDOWN};
	_cleanup_free_ char *text = written(&o, &in, 1);

	(void)state;
	assert_non_null(strstr(text, "- `a|b: samples, cpu over 10.0 s; pprof of another tool`\n"));
	assert_non_null(strstr(text, "\n| self | self % | cum | cum % | function | module |\n"
	                             "| ---: | ---: | ---: | ---: | :--- | :--- |\n"));
	assert_non_null(strstr(text, "| 75.0 ms | 75.0 % | 75.0 ms | 75.0 % | `std::map<" E
	                             ">::find` | `libx.so` |\n"));
	assert_non_null(strstr(text, "| `` <script>`a\\|b` `` | `liby.so` |\n"));
}

static void test_json_has_exact_values_and_whole_names(void **state)
{
	_cleanup_(prof_model_freep) struct prof_model *m = rm_model(LINES);
	struct rep_input in = {.name = "a\"b", .model = m, .format = "pprof"};
	struct rep_options o = {.format = REP_JSON};
	_cleanup_free_ char *text = written(&o, &in, 1);

	(void)state;
	assert_non_null(strstr(text, "{\"schema\": \"perf-agent.report/1\", \"view\": \"top\","));
	assert_non_null(strstr(
	        text, "{\"file\": \"a\\\"b\", \"format\": \"pprof\", \"perf_agent\": null,"));
	assert_non_null(strstr(text, "\"total\": 100000000, \"samples\": 1000,"));
	assert_non_null(strstr(
	        text,
	        "{\"self\": 75000000, \"self_pct\": 75.0000, \"cum\": 75000000, "
	        "\"cum_pct\": 75.0000, \"function\": \"std::map<int,int>::find\", \"module\": "
	        "\"/lib/libx.so\", \"self_samples\": 750, \"cum_samples\": 750}"));
	assert_non_null(strstr(text, "\"complete_stacks_pct\": null"));
}

static void test_numbers_do_not_depend_on_the_locale(void **state)
{
	static const char *const locales[] = {"de_DE.UTF-8", "fr_FR.UTF-8", "de_DE", "C"};
	_cleanup_(prof_model_freep) struct prof_model *m = rm_model(LINES);
	struct rep_input in = {.name = "a", .model = m};
	struct rep_options o = {.format = REP_JSON};
	char *text;

	(void)state;
	/* If none of them is installed, this checks less. */
	for (size_t i = 0; i < ARRAY_SIZE(locales) && !setlocale(LC_NUMERIC, locales[i]); i++)
		;
	assert_int_equal(prof_model_comment(m, "# perf-agent: 1; complete_stacks_pct: 93.25"), 0);
	text = written(&o, &in, 1);
	(void)setlocale(LC_NUMERIC, "C");
	assert_non_null(strstr(text, "\"self_pct\": 75.0000"));
	assert_non_null(strstr(text, "\"complete_stacks_pct\": 93.25"));
	assert_non_null(strstr(text, "\"duration_s\": 10.000"));
	free(text);
	assert_string_equal(value_of(-1234, "nanoseconds"), "-1.23 us");
}

static void test_profiles_of_two_kinds_have_a_section_each(void **state)
{
	_cleanup_(prof_model_freep) struct prof_model *a = rm_model(LINES), *b = rm_model(LINES),
	                                              *c = rm_model(LINES);
	struct rep_input in[] = {
	        {.name = "a", .model = a}, {.name = "b", .model = b}, {.name = "c", .model = c}};
	struct rep_options o = {.format = REP_JSON}, wrong = {.value = "space"};
	struct err err = {0};
	struct sbuf out;
	char *text;

	(void)state;
	b->sample_type[1].type = rm_string(b, "off");
	b->default_type = 0;
	text = written(&o, in, 3);
	assert_non_null(strstr(text, "{\"type\": \"cpu\", \"unit\": \"nanoseconds\", \"total\": "
	                             "200000000, \"samples\": 2000,"));
	assert_non_null(strstr(text, "{\"type\": \"off\", \"unit\": \"nanoseconds\", \"total\": "
	                             "100000000, \"samples\": 1000,"));
	free(text);
	o.value = "samples";
	text = written(&o, in, 3);
	assert_non_null(
	        strstr(text, "{\"type\": \"samples\", \"unit\": \"count\", \"total\": 2000,"));
	free(text);
	o.format = REP_TEXT;
	o.value = NULL;
	text = written(&o, in, 3);
	assert_non_null(strstr(text, "\n\ncpu: 200 ms, 2,000 samples or intervals\n\n"));
	assert_non_null(strstr(text, "\n\noff: 100 ms, 1,000 samples or intervals\n\n"));
	free(text);
	/* The files that have such values are shown, and the others are named. */
	o.value = "off";
	text = written(&o, in, 3);
	assert_non_null(strstr(text, "a: samples, cpu over 10.0 s; profile of another tool\n"
	                             "quality: not known; 1,000 samples: shares are about \xc2\xb1 "
	                             "3 %\n  left out: it has no values of the type off\n"));
	assert_non_null(strstr(text, "\n\n   self  self %"));
	assert_non_null(strstr(text, "  libx.so\n"));
	free(text);
	sbuf_init(&out, 1 << 20);
	assert_int_equal(rep_write(&wrong, in, 1, &out, &err), -EINVAL);
	assert_string_equal(err.msg,
	                    "a has no values of the type 'space'; its types: samples, cpu");
	sbuf_done(&out);
}

static void test_profiles_are_converted(void **state)
{
	_cleanup_(prof_model_freep) struct prof_model *a = rm_model(LINES), *b = rm_model(LINES);
	struct rep_input in[] = {{.name = "a", .model = a}, {.name = "b", .model = b}};
	struct rep_options folded = {.format = REP_FOLDED, .filter = {.focus = "map"}},
	                   cpu = {.format = REP_FOLDED, .filter = {.focus = "map"}, .value = "cpu"},
	                   pprof = {.format = REP_PPROF}, html = {.format = REP_HTML};
	struct err err = {0};
	struct sbuf out, raw;
	char *text;

	(void)state;
	text = written(&folded, in, 2);
	assert_string_equal(text, "main;std::map<int,int>::find 1500\n");
	free(text);
	text = written(&cpu, in, 1); /* in microseconds */
	assert_string_equal(text, "main;std::map<int,int>::find 75000\n");
	free(text);
	sbuf_init(&out, 1 << 24);
	sbuf_init(&raw, 1 << 24);
	assert_int_equal(rep_write(&pprof, in, 1, &out, &err), 0);
	assert_int_equal(enc_pprof(a, &raw), 0);
	assert_int_equal(out.len, raw.len); /* nothing is lost */
	assert_memory_equal(out.p, raw.p, raw.len);
	b->sample_type[1].type = rm_string(b, "off");
	assert_int_equal(rep_write(&pprof, in, 2, &out, &err), -EINVAL);
	assert_string_equal(err.msg, "a and b have values of different types, which this format "
	                             "cannot have in one file; give --value cpu or off");
	in[1].name = "a"; /* both are of one perf.data */
	assert_int_equal(rep_write(&pprof, in, 2, &out, &err), -EINVAL);
	assert_string_equal(err.msg, "a has values of different types, which this format cannot "
	                             "have in one file; give --value cpu or off");
	in[1].name = "b";
	sbuf_reset(&out);
	assert_int_equal(rep_write(&html, in, 2, &out, &err), 0); /* a page has both */
	assert_true(out.len > raw.len);
	sbuf_done(&out);
	sbuf_done(&raw);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	        cmocka_unit_test(test_names_are_cut_to_columns_not_characters),
	        cmocka_unit_test(test_template_arguments_are_folded),
	        cmocka_unit_test(test_brackets_without_end_are_searched_once),
	        cmocka_unit_test(test_long_names_lose_their_middle),
	        cmocka_unit_test(test_long_names_keep_their_function),
	        cmocka_unit_test(test_names_cannot_control_a_terminal),
	        cmocka_unit_test(test_values_have_units),
	        cmocka_unit_test(test_shares_are_as_precise_as_the_samples),
	        cmocka_unit_test(test_text_has_quality_first_and_then_functions),
	        cmocka_unit_test(test_rows_are_limited_and_counted),
	        cmocka_unit_test(test_lines_fit_the_terminal),
	        cmocka_unit_test(test_quality_is_that_of_the_comments),
	        cmocka_unit_test(test_the_worst_part_decides_the_verdict),
	        cmocka_unit_test(test_a_claim_without_perf_agent_is_not_believed),
	        cmocka_unit_test(test_a_profile_without_samples_says_so),
	        cmocka_unit_test(test_markdown_has_names_as_code),
	        cmocka_unit_test(test_json_has_exact_values_and_whole_names),
	        cmocka_unit_test(test_profiles_are_converted),
	        cmocka_unit_test(test_numbers_do_not_depend_on_the_locale),
	        cmocka_unit_test(test_profiles_of_two_kinds_have_a_section_each),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
