/* SPDX-License-Identifier: Apache-2.0 */
/* test-cli.c - the pure parts of the command line: durations, numbers, booleans, names, options,
 * shortened text */
#include "cli/cli_priv.h"
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#define ARRAY_LEN(a) (sizeof(a) / sizeof((a)[0]))
#define S_NS         1000000000ll

static void test_durations(void **state)
{
	static const struct {
		const char *text;
		int rc;
		int64_t ns;
	} cases[] = {
	        {"300ms", 0, 300000000},
	        {"10s", 0, 10 * S_NS},
	        {"1m30s", 0, 90 * S_NS},
	        {"1.5h", 0, 5400 * S_NS},
	        {"1h2m3s4ms5us6ns", 0, 3723 * S_NS + 4005006},
	        {"7\u00b5s", 0, 7000},
	        {"7\u03bcs", 0, 7000},
	        {".5s", 0, S_NS / 2},
	        {"1.s", 0, S_NS},
	        {"0.000000001s", 0, 1},
	        {"0.0000000009s", 0, 0},
	        {"0.3333333333333333333333h", 0, 1199999999999},
	        {"+5s", 0, 5 * S_NS},
	        {"-5s", 0, -5 * S_NS},
	        {"0", 0, 0},
	        {"-0", 0, 0},
	        {"0s", 0, 0},
	        {"9223372036854775807ns", 0, INT64_MAX},
	        {"9223372036854775808ns", -ERANGE, 0},
	        {"2562047h47m16.854775808s", -ERANGE, 0},
	        {"99999999999999999999s", -ERANGE, 0},
	        {"9999999999999h", -ERANGE, 0},
	        {"", -EINVAL, 0},
	        {"-", -EINVAL, 0},
	        {"10", 0, 10 * S_NS},
	        {"1.5", 0, 3 * S_NS / 2},
	        {"-2", 0, -2 * S_NS},
	        {"99999999999", -ERANGE, 0},
	        {"1m30", -EINVAL, 0},
	        {"1.2.3", -EINVAL, 0},
	        {"s", -EINVAL, 0},
	        {".s", -EINVAL, 0},
	        {".", -EINVAL, 0},
	        {"1x", -EINVAL, 0},
	        {"1sec", -EINVAL, 0},
	        {"1 s", -EINVAL, 0},
	        {" 1s", -EINVAL, 0},
	        {"1s ", -EINVAL, 0},
	        {"1m-3s", -EINVAL, 0},
	        {"1M", -EINVAL, 0},
	        {"1d", -EINVAL, 0},
	        {"--5s", -EINVAL, 0},
	        {"1s5", -EINVAL, 0},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		int64_t ns = 42;

		print_message("# '%s'\n", cases[i].text);
		assert_int_equal(cli_parse_duration(cases[i].text, &ns), cases[i].rc);
		assert_int_equal(ns, cases[i].rc ? 42 : cases[i].ns);
	}
}

static void test_booleans(void **state)
{
	static const char *const yes[] = {"1", "t", "T", "true", "TRUE", "yes", "On", "y"};
	static const char *const no[] = {"0", "f", "F", "false", "FALSE", "NO", "off", "n"};
	static const char *const none[] = {"", "ye", "nope", "2", "true ", "o", "yes!"};
	bool b;

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(yes); i++) {
		b = false;
		assert_int_equal(cli_parse_bool(yes[i], &b), 0);
		assert_true(b);
		assert_int_equal(cli_parse_bool(no[i], &b), 0);
		assert_false(b);
	}
	for (size_t i = 0; i < ARRAY_LEN(none); i++)
		assert_int_equal(cli_parse_bool(none[i], &b), -EINVAL);
}

static void test_numbers_have_digits_only(void **state)
{
	static const char *const bad[] = {"", "-1", "+1", " 1", "1 ", "0x10", "1e3", "1.0", "a"};
	uint64_t v = 7;

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(bad); i++)
		assert_int_equal(cli_parse_u64(bad[i], &v), -EINVAL);
	assert_int_equal(cli_parse_u64("18446744073709551616", &v), -ERANGE);
	assert_int_equal(v, 7);
	assert_int_equal(cli_parse_u64("18446744073709551615", &v), 0);
	assert_true(v == UINT64_MAX);
	assert_int_equal(cli_parse_u64("007", &v), 0);
	assert_int_equal(v, 7);
}

static void test_durations_and_weights_as_people_read_them(void **state)
{
	static const struct {
		uint64_t ns;
		const char *text;
	} cases[] = {
	        {0, "0 ns"},
	        {999, "999 ns"},
	        {1000, "1.00 us"},
	        {300000000, "300 ms"},
	        {12340000, "12.3 ms"},
	        {999499, "999 us"},
	        {999500, "1.00 ms"},
	        {999499999, "999 ms"},
	        {999500000, "1.00 s"},
	        {9994999999, "9.99 s"},
	        {9996000000, "10.0 s"},
	        {90000000000, "90.0 s"},
	        {3600000000000, "3600 s"},
	};
	char text[32];

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		cli_format_duration(cases[i].ns, text, sizeof(text));
		assert_string_equal(text, cases[i].text);
	}
	cli_format_weight(1500000000, "nanoseconds", text, sizeof(text));
	assert_string_equal(text, "1.50 s");
	cli_format_weight(999, "cycles", text, sizeof(text));
	assert_string_equal(text, "999");
	cli_format_weight(36100000, "cycles", text, sizeof(text));
	assert_string_equal(text, "36.1 M");
	cli_format_weight(999600, "cycles", text, sizeof(text));
	assert_string_equal(text, "1.00 M");
	cli_format_weight(UINT64_MAX, "cycles", text, sizeof(text));
	assert_string_equal(text, "18.4 E");
}

static void test_shares_have_the_precision_of_their_samples(void **state)
{
	static const struct {
		double pct;
		uint64_t samples;
		const char *text;
	} cases[] = {
	        {0, 0, "0"},
	        {100, 1, "100"},
	        {66.667, 3, "67"},
	        {0.4, 999, "<1"},
	        {0.5, 999, "<1"},
	        {99.4, 999, "99"},
	        {99.5, 999, ">99"},
	        {66.667, 1000, "66.7"},
	        {0.04, 1000, "<0.1"},
	        {99.96, 99999, ">99.9"},
	        {66.667, 100000, "66.67"},
	        {0.004, 100000, "<0.01"},
	        {99.996, 1000000, ">99.99"},
	        {0, 1000000, "0.00"},
	};
	char text[CLI_PCT_MAX];

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		cli_format_pct(cases[i].pct, cases[i].samples, text);
		if (strcmp(text, cases[i].text) != 0)
			fail_msg("%g of %llu: %s", cases[i].pct,
			         (unsigned long long)cases[i].samples, text);
	}
}

static void test_counts_have_commas(void **state)
{
	static const struct {
		uint64_t n;
		const char *text;
	} cases[] = {
	        {0, "0"},        {999, "999"},           {1000, "1,000"},
	        {1912, "1,912"}, {1234567, "1,234,567"}, {UINT64_MAX, "18,446,744,073,709,551,615"},
	};
	char text[CLI_COUNT_MAX];

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		cli_format_count(cases[i].n, text);
		assert_string_equal(text, cases[i].text);
	}
}

static void test_names_are_safe_in_paths(void **state)
{
	static const struct {
		const char *name, *clean;
	} cases[] = {
	        {"nginx", "nginx"},
	        {"kworker/0:1-ev", "kworker_0_1-ev"},
	        {" a b\n", "a_b"},
	        {"../../etc", "_._.._etc"},
	        {"..", "_."},
	        {".hidden", "_hidden"},
	        {"-rf", "_rf"},
	        {"a\x1b[2J\x7f", "a__2J_"},
	        {"a\xff;$(x) b", "a____x__b"},
	        {"a\xe2\x80\xae\xd8\x9c\xc2\x9b", "a___"},
	        {"\u00e9t\u00e9@c++", "\u00e9t\u00e9@c++"},
	        {"/", "_"},
	        {"", ""},
	        {" \t\n", ""},
	        {"0123456789abcdef", "0123456789abcde"},
	        {"0123456789abcd\u00e9", "0123456789abcd"},
	};
	char clean[16];

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		cli_clean_name(cases[i].name, clean, sizeof(clean));
		assert_string_equal(clean, cases[i].clean);
	}
}

static void test_profile_names(void **state)
{
	const struct tm when = {
	        .tm_year = 125, .tm_mon = 0, .tm_mday = 31, .tm_hour = 9, .tm_min = 5};
	char name[64], small[20] = "kept";

	(void)state;
	assert_int_equal(cli_output_name("nginx", &when, 1, "-on-cpu.pb.gz", name, sizeof(name)),
	                 0);
	assert_string_equal(name, "nginx-202501310905-on-cpu.pb.gz");
	assert_int_equal(cli_output_name(NULL, &when, 1, "-on-cpu.pb.gz", name, sizeof(name)), 0);
	assert_string_equal(name, "202501310905-on-cpu.pb.gz");
	assert_int_equal(cli_output_name("nginx", &when, 2, "-on-cpu.pb.gz", name, sizeof(name)),
	                 0);
	assert_string_equal(name, "nginx-202501310905-2-on-cpu.pb.gz");
	assert_int_equal(cli_output_name(NULL, &when, 10, "-on-cpu.pb.gz", name, sizeof(name)), 0);
	assert_string_equal(name, "202501310905-10-on-cpu.pb.gz");
	assert_int_equal(cli_output_name("nginx", &when, 3, "-pmu.json", name, sizeof(name)), 0);
	assert_string_equal(name, "nginx-202501310905-3-pmu.json");
	assert_int_equal(cli_output_name("nginx", &when, 1, "-on-cpu.pb.gz", small, sizeof(small)),
	                 -ENAMETOOLONG);
}

static void test_wide_and_combining_characters(void **state)
{
	static const struct {
		const char *text;
		size_t columns, cut_to;
		const char *begin, *end;
	} cases[] = {
	        {"漢字かな", 8, 6, "漢字..", "..かな"},
	        {"漢字かな", 8, 5, "漢..", "..な"}, /* no half of a character */
	        {"漢字かな", 8, 3, "..", ".."},
	        {"漢字かな", 8, 1, "", ""},
	        {"e\u0301a\u0308o\u0308u\u0308", 4, 3, "e\u0301..", "..u\u0308"},
	        {"a\U0001f600b", 4, 3, "a..", "..b"},
	        {"a\u200bb\ufe0f", 2, 2, "a\u200bb\ufe0f", "a\u200bb\ufe0f"},
	        {"\xe6\xbc", 2, 2, "\xe6\xbc", "\xe6\xbc"}, /* cut off: each byte is one */
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		char begin[64], end[64];

		assert_int_equal(cli_columns(cases[i].text), cases[i].columns);
		(void)snprintf(begin, sizeof(begin), "%s", cases[i].text);
		(void)snprintf(end, sizeof(end), "%s", cases[i].text);
		cli_shorten(begin, cases[i].cut_to, false);
		assert_string_equal(begin, cases[i].begin);
		cli_shorten(end, cases[i].cut_to, true);
		assert_string_equal(end, cases[i].end);
	}
}

static void test_terminal_text(void **state)
{
	char esc[] = "a\x1b]0;x\x07\tb\xc2\x9b\x7f", umlaut[] = "\u00e4\u00f6\u00fc\u00df\u00e9",
	     same[] = "abcd";
	char tail[] = "abcdefgh", one[] = "abc";

	(void)state;
	cli_make_printable(esc);
	assert_string_equal(esc, "a?]0;x??b??");
	assert_int_equal(cli_columns(umlaut), 5);
	cli_shorten(umlaut, 4, false);
	assert_string_equal(umlaut, "\u00e4\u00f6..");
	cli_shorten(same, 4, false);
	assert_string_equal(same, "abcd");
	cli_shorten(tail, 5, true);
	assert_string_equal(tail, "..fgh");
	cli_shorten(one, 1, false);
	assert_string_equal(one, "a");
}

static void test_suggestions(void **state)
{
	static const struct {
		const char *command;       /* NULL: of a capture */
		const char *word, *option; /* NULL: none */
	} cases[] = {
	        {NULL, "durration", "duration"},
	        {NULL, "dur", "duration"},
	        {NULL, "profle", "profile"},
	        {NULL, "ofcpu", "offcpu"},
	        {NULL, "rate", "sample-rate"},
	        {NULL, "frequency", "sample-rate"},
	        {NULL, "plid", "pid"},
	        {NULL, "pdi", "pid"},
	        {NULL, "profile-ouptut", "profile-output"},
	        {NULL, "pcs", NULL},
	        {NULL, "x", NULL},
	        {NULL, "", NULL},
	        {NULL, "nonsense", NULL},
	        {NULL, "test-ring-byte", NULL},
	        {NULL, "a-word-that-is-longer-than-any-name", NULL},
	        {"report", "focsu", "focus"},
	        {"report", "full", "full-names"},
	        {"report", "frequency", NULL},
	        {"report", "durration", NULL},
	        {"unwind-info", "p", NULL},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		const char *got =
		        cli_suggest_option(cases[i].command, cases[i].word, strlen(cases[i].word));

		if (!got != !cases[i].option || (got && strcmp(got, cases[i].option) != 0))
			fail_msg("'%s': '%s'", cases[i].word, got ? got : "(none)");
	}
	assert_string_equal(cli_suggest_command("unwindinfo"), "unwind-info");
	assert_null(cli_suggest_command("ls"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	        cmocka_unit_test(test_suggestions),
	        cmocka_unit_test(test_durations),
	        cmocka_unit_test(test_booleans),
	        cmocka_unit_test(test_numbers_have_digits_only),
	        cmocka_unit_test(test_durations_and_weights_as_people_read_them),
	        cmocka_unit_test(test_shares_have_the_precision_of_their_samples),
	        cmocka_unit_test(test_counts_have_commas),
	        cmocka_unit_test(test_names_are_safe_in_paths),
	        cmocka_unit_test(test_profile_names),
	        cmocka_unit_test(test_wide_and_combining_characters),
	        cmocka_unit_test(test_terminal_text),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
