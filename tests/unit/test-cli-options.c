/* SPDX-License-Identifier: Apache-2.0 */
/* Options of the command line: words, lists, modes, targets. */
#include "cli/cli_priv.h"
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#define ARRAY_LEN(a) (sizeof(a) / sizeof((a)[0]))
#define S_NS         1000000000ll

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
	static const char *const bad[] = {
	        "",   "1,",         ",1",  "1,,2", "0",
	        "-1", "2147483648", "1,0", "+3",   "99999999999999999999999"};
	static const char *const names[] = {"1 2", "0x5", "1;2", "all", "x*"};
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
		assert_non_null(strstr(message, i < 4 ? "an empty entry"
		                                      : "is not a number from 1 to 2147483647"));
		assert_int_equal(parse(&o, message, 0, "--profile", "--tid", bad[i], NULL),
		                 -EINVAL);
		assert_non_null(strstr(message, "--tid: '"));
	}
	for (size_t i = 0; i < ARRAY_LEN(names); i++) {
		assert_int_equal(parse(&o, message, 0, "--profile", "--tid", names[i], NULL),
		                 -EINVAL);
		assert_int_equal(parse(&o, message, 0, "--profile", "-p", names[i], NULL),
		                 CLI_ACTION_RUN);
		assert_string_equal(o.pid_names.v[0], names[i]);
		assert_int_equal(o.pids.n, 0);
		cli_options_done(&o);
	}
	assert_int_equal(parse(&o, message, 0, "--profile", "-p", "a b,7", "-p8,c", NULL),
	                 CLI_ACTION_RUN);
	assert_int_equal(o.pid_names.n, 2);
	assert_string_equal(o.pid_names.v[0], "a b");
	assert_string_equal(o.pid_names.v[1], "c");
	assert_null(o.pid_names.v[2]);
	assert_int_equal(o.pids.n, 2);
	cli_options_done(&o);
	assert_int_equal(parse(&o, message, 0, "--profile", "-p", "x", "-a", NULL), -EINVAL);
	assert_int_equal(parse(&o, message, 0, "--profile", "-p", "x", "--cgroup", "y", NULL),
	                 CLI_ACTION_RUN);
	assert_false(o.all);
	cli_options_done(&o);
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
	assert_string_equal(o.comms[0], "a,b"); /* a comma may are in a name */
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
	        {{"--keep-command", "-d1", "--", "true"}, NULL},
	        {{"--keep-command", "--", "true"}, "--keep-command needs --duration and --"},
	        {{"--keep-command", "-d1", "-p", "4"}, "--keep-command needs --duration and --"},
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

static void test_letters_of_options(void **state)
{
	char message[CLI_MESSAGE_MAX];
	struct cli_options o;

	(void)state;
	assert_int_equal(parse(&o, message, 0, "--profile", "-p", "7", "-F99", "-d", "10", "-o",
	                       "x.pb.gz", NULL),
	                 CLI_ACTION_RUN);
	assert_int_equal(o.pids.v[0], 7);
	assert_int_equal(o.sample_rate_hz, 99);
	assert_true(o.duration_ns == 10 * S_NS);
	assert_string_equal(o.output[CLI_PROFILE], "x.pb.gz");
	cli_options_done(&o);
	assert_int_equal(parse(&o, message, 0, "--sched", "-p7,8", "-d1.5", "-p=9", NULL),
	                 CLI_ACTION_RUN);
	assert_true(o.on[CLI_METRICS]);
	assert_int_equal(o.pids.n, 3);
	assert_true(o.duration_ns == 3 * S_NS / 2);
	cli_options_done(&o);
	/* Only numbers follow a letter at once. */
	assert_int_equal(parse(&o, message, 0, "--profile", "-a", "-ox.svg", NULL), -EINVAL);
	assert_int_equal(parse(&o, message, 0, "--profile", "-a9", NULL), -EINVAL);
	assert_int_equal(parse(&o, message, 0, "--profile", "--F99", "-a", NULL), -EINVAL);
	assert_int_equal(parse(&o, message, 0, "--profile", "-a", "-", NULL), -EINVAL);
}

static void test_the_end_of_output_selects_its_format(void **state)
{
	static const struct {
		const char *words[6];
		enum cli_product product;
		bool profile_file; /* --profile has a file of its own */
		const char *says;  /* NULL: good */
	} cases[] = {
	        {{"--profile", "-o", "x.pb.gz"}, CLI_PROFILE, true, NULL},
	        {{"--offcpu", "-o", "x.PB.GZ"}, CLI_OFFCPU, false, NULL},
	        {{"--profile", "-o", "x.html"}, CLI_FLAME, false, NULL},
	        {{"--profile", "--offcpu", "-o", "x.html"}, CLI_FLAME, false, NULL},
	        {{"--profile", "-o", "x.Svg"}, CLI_FLAME, false, NULL},
	        {{"--profile", "-o", "x.svg", "--pmu"}, CLI_FLAME, false, NULL},
	        {{"--profile", "-o", "x.svg", "--profile-output=p"}, CLI_FLAME, true, NULL},
	        {{"--profile", "-o", "x.svg", "--profile-output=auto"}, CLI_FLAME, true, NULL},
	        {{"--profile", "-o", "x.folded"}, CLI_FOLDED, false, NULL},
	        {{"--profile", "-o", "x.txt", "--folded-root=process"}, CLI_FOLDED, false, NULL},
	        {{"--pmu", "-o", "x.txt"}, CLI_METRICS, false, NULL},
	        {{"--pmu", "-o", "x.json"}, CLI_METRICS, false, NULL},
	        {{"--pmu", "-o", "-"}, CLI_METRICS, false, NULL},
	        {{"--profile", "-o", "-"}, CLI_PROFILE, true, NULL},
	        {{"--profile", "-o", "a.svg", "-o", "a.svg"}, CLI_FLAME, false, NULL},
	        {{"--profile", "-o", "a.svg", "-o", "b.pb.gz"}, 0, 0, "is given twice"},
	        {{"--profile", "-o", "x.foo"}, 0, 0, "selects no format; use .pb.gz (pprof)"},
	        {{"--profile", "-o", ".svg"}, 0, 0, "selects no format"},
	        {{"--profile", "-o", "x"}, 0, 0, "selects no format"},
	        {{"--profile", "-o", ""}, 0, 0, "--output: the path is empty"},
	        {{"--profile", "-o", "x.json"}, 0, 0, "'x.json' is the name of an output of --pmu"},
	        {{"--pmu", "-o", "x.svg"}, 0, 0, "an output of --profile or --offcpu"},
	        {{"--pmu", "--profile", "-o", "x.txt"}, 0, 0, "--pmu-output or --folded-output"},
	        {{"--profile", "--offcpu", "-o", "x.pb.gz"}, 0, 0, "or --offcpu-output"},
	        {{"--profile", "--offcpu", "-o", "-"}, 0, 0, "or --offcpu-output"},
	        {{"--profile", "--offcpu", "-o", "x.svg"}, 0, 0, "shows one profile"},
	        {{"--profile", "-o", "x.svg", "--flamegraph-output=y.svg"}, 0, 0, "both name"},
	        {{"--profile", "-o", "x.pb.gz", "--profile-output=y"}, 0, 0, "both name"},
	        {{"--pmu", "-o", "x.json", "--pmu-format=text"}, 0, 0, "does not fit"},
	};
	char message[CLI_MESSAGE_MAX];
	struct cli_options o;

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		const char *const *w = cases[i].words;
		int rc = parse(&o, message, 0, "-a", w[0], w[1], w[2], w[3], w[4], w[5], NULL);

		if (rc != (cases[i].says ? -EINVAL : CLI_ACTION_RUN))
			fail_msg("case %zu: %d: %s", i, rc, message);
		if (cases[i].says && !strstr(message, cases[i].says))
			fail_msg("case %zu: '%s' is not in '%s'", i, cases[i].says, message);
		if (cases[i].says)
			continue;
		assert_true(o.on[cases[i].product]);
		assert_string_equal(o.output[cases[i].product], o.extra.common);
		if (o.on[CLI_PROFILE])
			assert_int_equal(!o.extra.no_file[CLI_PROFILE], cases[i].profile_file);
		if (cases[i].product == CLI_METRICS && o.extra.common[0] != '-')
			assert_int_equal(o.pmu_format == PFA_FORMAT_JSON,
			                 !strcmp(o.extra.common, "x.json"));
		cli_options_done(&o);
	}
}

static void test_names_of_other_formats(void **state)
{
	static const struct {
		const char *words[4];
		const char *says; /* NULL: good */
	} cases[] = {
	        {{"--profile", "--profile-output=x.html"}, "--flamegraph-output writes .html"},
	        {{"--profile", "--profile-output=x.JSON"}, "--pmu-output writes .json files"},
	        {{"--offcpu", "--offcpu-output=x.folded"}, "--folded-output writes .folded files"},
	        {{"--profile", "--flamegraph-output=x.pb.gz"}, "does not end in .html or .svg"},
	        {{"--profile", "--folded-output=x.html"}, "--flamegraph-output writes .html"},
	        {{"--profile", "--folded-output=x.pb.gz"}, "--profile-output writes .pb.gz files"},
	        {{"--pmu", "--pmu-output=x.svg"}, "--flamegraph-output writes .svg files"},
	        {{"--pmu", "--pmu-output=x.json"}, "'x.json' does not fit --pmu-format text"},
	        {{"--pmu", "--pmu-output=x.txt", "--pmu-format=json"}, "fit --pmu-format json"},
	        {{"--pmu", "--pmu-output=x.JSON", "--pmu-format=json"}, NULL},
	        {{"--profile", "--profile-output=x.pprof"}, NULL},
	        {{"--profile", "--folded-output=x.TXT"}, NULL},
	        {{"--profile", "--flamegraph-output=x.HTML"}, NULL},
	};
	char message[CLI_MESSAGE_MAX];
	struct cli_options o;

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		const char *const *w = cases[i].words;
		int rc = parse(&o, message, 0, "-a", w[0], w[1], w[2], w[3], NULL);

		if (rc != (cases[i].says ? -EINVAL : CLI_ACTION_RUN))
			fail_msg("case %zu: %d: %s", i, rc, message);
		if (cases[i].says && !strstr(message, cases[i].says))
			fail_msg("case %zu: '%s' is not in '%s'", i, cases[i].says, message);
		if (!cases[i].says)
			cli_options_done(&o);
	}
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
	        cmocka_unit_test(test_letters_of_options),
	        cmocka_unit_test(test_the_end_of_output_selects_its_format),
	        cmocka_unit_test(test_names_of_other_formats),
	        cmocka_unit_test(test_modes_and_what_goes_with_them),
	        cmocka_unit_test(test_outputs_and_their_defaults),
	        cmocka_unit_test(test_addresses),
	        cmocka_unit_test(test_lists_of_numbers),
	        cmocka_unit_test(test_filters_are_lists_of_words),
	        cmocka_unit_test(test_targets_that_go_together),
	        cmocka_unit_test(test_defaults),
	        cmocka_unit_test(test_dashes_and_equals_mean_the_same),
	        cmocka_unit_test(test_command_keeps_its_words),
	        cmocka_unit_test(test_rate_is_checked_against_the_last_value_only),
	        cmocka_unit_test(test_help_and_version_win_over_what_follows),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
