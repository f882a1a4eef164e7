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

static void test_duration_forms_of_go(void **state)
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
	        {"10", -EINVAL, 0},
	        {"1", -EINVAL, 0},
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

static void test_bool_forms_of_go(void **state)
{
	static const char *const yes[] = {"1", "t", "T", "true", "TRUE", "True"};
	static const char *const no[] = {"0", "f", "F", "false", "FALSE", "False"};
	static const char *const none[] = {"", "yes", "no", "tRUE", "2", "true ", "on"};
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

static void test_names_are_safe_in_paths(void **state)
{
	static const struct {
		const char *name, *clean;
	} cases[] = {
	        {"nginx", "nginx"},
	        {"kworker/0:1-ev", "kworker_0:1-ev"},
	        {" a b\n", "a b"},
	        {"../../etc", "_._.._etc"},
	        {"..", "_."},
	        {".hidden", "_hidden"},
	        {"-rf", "_rf"},
	        {"a\x1b[2J\x7f", "a_[2J_"},
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

static void test_terminal_text(void **state)
{
	char esc[] = "a\x1b]0;x\x07\tb\xc2\x9b\x7f", umlaut[] = "\u00e4\u00f6\u00fc\u00df\u00e9",
	     same[] = "abcd";
	char tail[] = "abcdefgh", one[] = "abc";

	(void)state;
	cli_make_printable(esc);
	assert_string_equal(esc, "a?]0;x??b???");
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

/* Parses words up to NULL. */
static int parse(struct cli_options *o, char message[CLI_MESSAGE_MAX], uint32_t max_rate_hz, ...)
{
	/* The options keep pointers into it. */
	static char program[] = "perf-agent", *argv[16];
	va_list ap;
	int argc = 1;

	memset(argv, 0, sizeof(argv));
	argv[0] = program;
	va_start(ap, max_rate_hz);
	while (argc < 15 && (argv[argc] = va_arg(ap, char *)))
		argc++;
	va_end(ap);
	message[0] = '\0';
	return cli_options_parse(argc, argv, max_rate_hz, o, message);
}

static void test_defaults(void **state)
{
	char message[CLI_MESSAGE_MAX];
	struct cli_options o;

	(void)state;
	assert_int_equal(parse(&o, message, 0, "-profile", "-pid", "42", NULL), CLI_ACTION_RUN);
	assert_true(o.on[CLI_PROFILE] && !o.on[CLI_OFFCPU] && !o.on[CLI_METRICS] && !o.all &&
	            o.kernel_stacks);
	assert_int_equal(o.pids.n, 1);
	assert_int_equal(o.pids.v[0], 42);
	assert_int_equal(o.pids.v[1], 0);
	assert_int_equal(o.tids.n, 0);
	assert_null(o.tids.v);
	assert_null(o.comms[0]);
	assert_null(o.cgroups[0]);
	assert_false(o.follow_children);
	assert_int_equal(o.sample_rate_hz, 99);
	assert_int_equal(o.event, PFA_EVENT_CPU_CLOCK);
	assert_int_equal(o.duration_ns, 0);
	assert_null(o.output[CLI_PROFILE]);
	assert_null(o.tags[0]);
	assert_null(o.command);
	cli_options_done(&o);
}

static void test_dashes_and_equals_mean_the_same(void **state)
{
	char message[CLI_MESSAGE_MAX];
	struct cli_options o;

	(void)state;
	assert_int_equal(parse(&o, message, 0, "--profile=T", "-pid=1", "--pid", "2",
	                       "--duration=1m30s", "-sample-rate", "999", "-event=cycles",
	                       "-kernel-stacks=false", "-tag", "a=b=c",
	                       "--tag=d=", "--profile-output=--x", NULL),
	                 CLI_ACTION_RUN);
	assert_int_equal(o.pids.n, 2);
	assert_int_equal(o.pids.v[0], 1);
	assert_int_equal(o.pids.v[1], 2);
	assert_true(o.duration_ns == 90 * S_NS);
	assert_int_equal(o.sample_rate_hz, 999);
	assert_int_equal(o.event, PFA_EVENT_CYCLES);
	assert_false(o.kernel_stacks);
	assert_string_equal(o.tags[0], "a=b=c");
	assert_string_equal(o.tags[1], "d=");
	assert_null(o.tags[2]);
	assert_string_equal(o.output[CLI_PROFILE], "--x");
	cli_options_done(&o);
}

static void test_command_keeps_its_words(void **state)
{
	char message[CLI_MESSAGE_MAX];
	struct cli_options o;

	(void)state;
	assert_int_equal(parse(&o, message, 0, "--profile", "--", "ls", "-a", "--", "--pid", NULL),
	                 CLI_ACTION_RUN);
	assert_false(o.all);
	assert_string_equal(o.command[0], "ls");
	assert_string_equal(o.command[3], "--pid");
	assert_null(o.command[4]);
	cli_options_done(&o);
}

static void test_rate_is_checked_against_the_last_value_only(void **state)
{
	char message[CLI_MESSAGE_MAX];
	struct cli_options o;

	(void)state;
	assert_int_equal(parse(&o, message, 1000, "--profile", "-a", "--sample-rate=2000",
	                       "--sample-rate=1000", NULL),
	                 CLI_ACTION_RUN);
	cli_options_done(&o);
	assert_int_equal(parse(&o, message, 1000, "--profile", "-a", "--sample-rate=1001", NULL),
	                 -EINVAL);
	assert_non_null(strstr(message, "kernel.perf_event_max_sample_rate is 1000"));
	assert_int_equal(parse(&o, message, 50, "--profile", "-a", NULL), -EINVAL);
	/* It is no limit of what takes no samples. */
	assert_int_equal(parse(&o, message, 50, "--offcpu", "-a", NULL), CLI_ACTION_RUN);
	cli_options_done(&o);
}

static void test_help_and_version_win_over_what_follows(void **state)
{
	char message[CLI_MESSAGE_MAX];
	struct cli_options o;

	(void)state;
	assert_int_equal(parse(&o, message, 0, "-h", "--nonsense", NULL), CLI_ACTION_HELP);
	cli_options_done(&o);
	assert_int_equal(parse(&o, message, 0, "--pid", "1", "--version", NULL),
	                 CLI_ACTION_VERSION);
	cli_options_done(&o);
	assert_int_equal(parse(&o, message, 0, "--nonsense", "-h", NULL), -EINVAL);
}

static void test_lists_of_numbers(void **state)
{
	static const char *const bad[] = {"",     "0",    "-1",
	                                  "1,",   ",1",   "1,,2",
	                                  "1 2",  "1, 2", "2147483648",
	                                  "1,0",  "0x5",  "1;2",
	                                  "all",  "+3",   "99999999999999999999999",
	                                  "1,2,x"};
	char message[CLI_MESSAGE_MAX], *many, *at;
	struct cli_options o;

	(void)state;
	assert_int_equal(parse(&o, message, 0, "--profile", "--pid", "7,3,7", "--pid=2147483647",
	                       "--pid=3", "--tid", "5", "--tid=4,5", NULL),
	                 CLI_ACTION_RUN);
	assert_int_equal(o.pids.n, 3);
	assert_int_equal(o.pids.v[0], 7); /* the first names the profile */
	assert_int_equal(o.pids.v[1], 3);
	assert_int_equal(o.pids.v[2], 2147483647);
	assert_int_equal(o.pids.v[3], 0);
	assert_int_equal(o.tids.n, 2);
	assert_int_equal(o.tids.v[0], 5);
	assert_int_equal(o.tids.v[1], 4);
	cli_options_done(&o);
	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		assert_int_equal(parse(&o, message, 0, "--profile", "--pid", bad[i], NULL),
		                 -EINVAL);
		assert_non_null(strstr(message, "--pid: '"));
		assert_non_null(strstr(message, "is not a number from 1 to 2147483647"));
		assert_int_equal(parse(&o, message, 0, "--profile", "--tid", bad[i], NULL),
		                 -EINVAL);
		assert_non_null(strstr(message, "--tid: '"));
	}
	many = malloc((PFA_PIDS_MAX + 1) * (size_t)8);
	assert_non_null(many);
	at = many;
	for (int i = 1; i <= PFA_PIDS_MAX; i++)
		at += snprintf(at, 8, "%s%d", i > 1 ? "," : "", i);
	assert_int_equal(parse(&o, message, 0, "--profile", "--pid", many, "--pid=7", NULL),
	                 CLI_ACTION_RUN);
	assert_int_equal(o.pids.n, PFA_PIDS_MAX);
	cli_options_done(&o);
	assert_int_equal(parse(&o, message, 0, "--profile", "--pid", many, "--pid=9999", NULL),
	                 -EINVAL);
	assert_non_null(strstr(message, "--pid: more than 1024"));
	free(many);
}

static void test_filters_are_lists_of_words(void **state)
{
	char message[CLI_MESSAGE_MAX];
	static char program[] = "perf-agent", profile[] = "--profile", all[] = "-a",
	            same[] = "--comm=same";
	char *argv[PFA_FILTERS_MAX + 6] = {program, profile, all};
	struct cli_options o;
	int argc = 3;

	(void)state;
	assert_int_equal(parse(&o, message, 0, "--profile", "--pid=1", "--comm", "a,b",
	                       "--comm= x ", "--cgroup", "c/d", "--cgroup=/e", "--follow-children",
	                       NULL),
	                 CLI_ACTION_RUN);
	assert_false(o.all);
	assert_true(o.follow_children);
	assert_string_equal(o.comms[0], "a,b"); /* a comma may stand in a name */
	assert_string_equal(o.comms[1], " x ");
	assert_null(o.comms[2]);
	assert_string_equal(o.cgroups[0], "c/d");
	assert_string_equal(o.cgroups[1], "/e");
	assert_null(o.cgroups[2]);
	cli_options_done(&o);
	assert_int_equal(parse(&o, message, 0, "--profile", "--pid=1", "--comm", "", NULL),
	                 -EINVAL);
	assert_non_null(strstr(message, "--comm: the value is empty"));
	assert_int_equal(parse(&o, message, 0, "--profile", "--cgroup=", NULL), -EINVAL);
	assert_non_null(strstr(message, "--cgroup: the value is empty"));
	for (int i = 0; i < PFA_FILTERS_MAX; i++)
		argv[argc++] = same;
	assert_int_equal(cli_options_parse(argc, argv, 0, &o, message), CLI_ACTION_RUN);
	cli_options_done(&o);
	argv[argc++] = same;
	assert_int_equal(cli_options_parse(argc, argv, 0, &o, message), -EINVAL);
	assert_non_null(strstr(message, "--comm: more than 64"));
}

static void test_targets_that_go_together(void **state)
{
	static const struct {
		const char *words[6];
		const char *says; /* NULL: good */
	} cases[] = {
	        {{"--cgroup", "x"}, NULL},
	        {{"--cgroup", "x", "--comm", "y"}, NULL},
	        {{"--tid", "5"}, NULL},
	        {{"--pid", "4", "--tid", "5"}, NULL},
	        {{"--pid", "4", "--cgroup", "x"}, NULL},
	        {{"--follow-children", "--comm", "x", "--", "true"}, NULL},
	        {{"--cgroup", "x", "--", "true"}, NULL},
	        {{"-a", "--comm", "x"}, NULL},
	        {{"--comm", "x"},
	         "no target: give --pid, --tid, -a/--all, --cgroup or -- COMMAND; --comm"},
	        {{"--follow-children"}, "--follow-children needs --pid"},
	        {{"--follow-children", "-a"}, "--follow-children and -a/--all"},
	        {{"--follow-children", "--cgroup", "x"}, "--follow-children and -a/--all"},
	        {{"--follow-children", "--tid", "5"}, "--tid and --follow-children"},
	        {{"--tid", "5", "-a"}, "--tid and -a/--all"},
	        {{"--tid", "5", "--", "true"}, "--tid and -- COMMAND"},
	};
	char message[CLI_MESSAGE_MAX];
	struct cli_options o;

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		const char *const *w = cases[i].words;
		int rc = parse(&o, message, 0, "--profile", w[0], w[1], w[2], w[3], w[4], NULL);

		if (rc != (cases[i].says ? -EINVAL : CLI_ACTION_RUN))
			fail_msg("case %zu: %d: %s", i, rc, message);
		if (cases[i].says && !strstr(message, cases[i].says))
			fail_msg("case %zu: '%s' is not in '%s'", i, cases[i].says, message);
		if (!cases[i].says) {
			assert_int_equal(o.all, i < 2 || i == 7);
			cli_options_done(&o);
		}
	}
}

static void test_modes_and_what_goes_with_them(void **state)
{
	static const struct {
		const char *words[5];
		const char *says; /* NULL: good */
	} cases[] = {
	        {{"--offcpu", "--offcpu-min=1s", "--offcpu-max=1s"}, NULL},
	        {{"--offcpu", "--offcpu-min=1s"}, NULL},
	        {{"--offcpu", "--unwind=fp", "--kernel-stacks=false"}, NULL},
	        {{"--offcpu", "--pmu", "--offcpu-output=-", "--pmu-output=x"}, NULL},
	        {{"--pmu", "--offcpu-output=-", "--offcpu=false"}, "--offcpu-output needs"},
	        {{"--pmu", "--offcpu-wakers", "--offcpu-wakers=false"}, NULL},
	        {{"--pmu", "--per-pid"}, NULL},
	        {{"--pmu", "--per-pid", "--profile", "--profile-output=-"}, "standard output"},
	        {{"--pmu", "--pmu-output=auto", "--profile", "--profile-output=-"}, NULL},
	        {{"--offcpu", "--per-pid"}, "--per-pid needs -a/--all and --pmu"},
	        {{"--offcpu", "--event=auto"}, "--event needs --profile"},
	        {{"--pmu", "--unwind=fp"}, "--unwind needs --profile or --offcpu"},
	        {{"--pmu", "--lines=false", "--lines"}, NULL},
	        {{"--offcpu", "--offcpu-min=2ns", "--offcpu-max=1ns"}, "is above"},
	        {{"--offcpu=false"}, "no mode: give at least one of --profile, --offcpu and --pmu"},
	};
	char message[CLI_MESSAGE_MAX];
	struct cli_options o;

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		const char *const *w = cases[i].words;
		int rc = parse(&o, message, 99, "-a", w[0], w[1], w[2], w[3], w[4], NULL);
		if (rc != (cases[i].says ? -EINVAL : CLI_ACTION_RUN))
			fail_msg("case %zu: %d: %s", i, rc, message);
		if (cases[i].says && !strstr(message, cases[i].says))
			fail_msg("case %zu: '%s' is not in '%s'", i, cases[i].says, message);
		if (!cases[i].says)
			cli_options_done(&o);
	}
}

static void test_outputs_and_their_defaults(void **state)
{
	char message[CLI_MESSAGE_MAX];
	struct cli_options o;

	(void)state;
	assert_int_equal(parse(&o, message, 0, "--offcpu", "--pmu", "-a", NULL), CLI_ACTION_RUN);
	assert_true(!o.on[CLI_PROFILE] && o.on[CLI_OFFCPU] && o.on[CLI_METRICS]);
	assert_null(o.output[CLI_OFFCPU]); /* a name is made */
	assert_string_equal(o.output[CLI_METRICS], "-");
	assert_int_equal(o.pmu_format, PFA_FORMAT_TEXT);
	assert_int_equal(o.offcpu_states, 0);
	assert_true(o.offcpu_min_ns == 0 && o.offcpu_max_ns == 0);
	cli_options_done(&o);
	assert_int_equal(parse(&o, message, 0, "--offcpu", "--pmu", "-a", "--pmu-output", "auto",
	                       "--pmu-format=json", "--offcpu-output", "auto", "--offcpu-states",
	                       "stopped,iowait", NULL),
	                 CLI_ACTION_RUN);
	assert_null(o.output[CLI_METRICS]);
	assert_null(o.output[CLI_OFFCPU]);
	assert_int_equal(o.pmu_format, PFA_FORMAT_JSON);
	assert_int_equal(o.offcpu_states, PFA_STATE_STOPPED | PFA_STATE_IOWAIT);
	cli_options_done(&o);
}

static void test_sizes(void **state)
{
	static const struct {
		const char *text;
		int rc;
		uint64_t bytes;
	} cases[] = {
	        {"0", 0, 0},
	        {"1", 0, 1},
	        {"1K", 0, 1024},
	        {"64M", 0, 64ull << 20},
	        {"2G", 0, 2ull << 30},
	        {"007K", 0, 7168},
	        {"18446744073709551615", 0, UINT64_MAX},
	        {"18446744073709551616", -ERANGE, 0},
	        {"17179869183G", 0, 17179869183ull << 30},
	        {"17179869184G", -ERANGE, 0},
	        {"0000000000000000000000000000000000001", -EINVAL, 0},
	        {"", -EINVAL, 0},
	        {"K", -EINVAL, 0},
	        {"1k", -EINVAL, 0},
	        {"1KB", -EINVAL, 0},
	        {"1KK", -EINVAL, 0},
	        {"-1", -EINVAL, 0},
	        {"+1", -EINVAL, 0},
	        {"1 M", -EINVAL, 0},
	        {"1.5M", -EINVAL, 0},
	        {"0x10", -EINVAL, 0},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		uint64_t bytes = 77;
		int rc = cli_parse_size(cases[i].text, &bytes);

		if (rc != cases[i].rc || bytes != (rc ? 77 : cases[i].bytes))
			fail_msg("'%s': %d, %llu", cases[i].text, rc, (unsigned long long)bytes);
	}
}

static void test_addresses(void **state)
{
	static const struct {
		const char *text;
		int rc;
		uint64_t address;
	} cases[] = {
	        {"0", 0, 0},
	        {"0x0", 0, 0},
	        {"12aF", 0, 0x12af},
	        {"0X12af", 0, 0x12af},
	        {"ffffffffffffffff", 0, UINT64_MAX},
	        {"00000000000000000000000000000001", 0, 1},
	        {"10000000000000000", -ERANGE, 0},
	        {"", -EINVAL, 0},
	        {"0x", -EINVAL, 0},
	        {"x1", -EINVAL, 0},
	        {"0x0x1", -EINVAL, 0},
	        {"-1", -EINVAL, 0},
	        {" 1", -EINVAL, 0},
	        {"1g", -EINVAL, 0},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		uint64_t address = 77;
		int rc = cli_parse_address(cases[i].text, &address);

		if (rc != cases[i].rc || address != (rc ? 77 : cases[i].address))
			fail_msg("'%s': %d, %llx", cases[i].text, rc, (unsigned long long)address);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	        cmocka_unit_test(test_sizes),
	        cmocka_unit_test(test_modes_and_what_goes_with_them),
	        cmocka_unit_test(test_outputs_and_their_defaults),
	        cmocka_unit_test(test_addresses),
	        cmocka_unit_test(test_lists_of_numbers),
	        cmocka_unit_test(test_filters_are_lists_of_words),
	        cmocka_unit_test(test_targets_that_go_together),
	        cmocka_unit_test(test_duration_forms_of_go),
	        cmocka_unit_test(test_bool_forms_of_go),
	        cmocka_unit_test(test_numbers_have_digits_only),
	        cmocka_unit_test(test_durations_and_weights_as_people_read_them),
	        cmocka_unit_test(test_shares_have_the_precision_of_their_samples),
	        cmocka_unit_test(test_names_are_safe_in_paths),
	        cmocka_unit_test(test_profile_names),
	        cmocka_unit_test(test_terminal_text),
	        cmocka_unit_test(test_defaults),
	        cmocka_unit_test(test_dashes_and_equals_mean_the_same),
	        cmocka_unit_test(test_command_keeps_its_words),
	        cmocka_unit_test(test_rate_is_checked_against_the_last_value_only),
	        cmocka_unit_test(test_help_and_version_win_over_what_follows),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
