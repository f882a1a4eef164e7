/* SPDX-License-Identifier: Apache-2.0 */
/* The verdict: the same at the end of a capture and of its file; after filters it is that of what is left. */
#include "report_models.h"
#include "report/rep_priv.h"

static const char *const LINES[] = {
        "comm=web|main;work;_PyEval_EvalFrameDefault@/bin/python3 60 60",
        "comm=web|main;f@/usr/lib/jvm/libjvm.so 30 30", "comm=db|main;g 6 6", NULL};

static const char *const STATEMENTS[] = {"perf-agent: 0.1.0",
                                         "target: pid 7 (java)",
                                         "dropped: 9",
                                         "dropped_agent: 4",
                                         "dropped_counts_full: 5",
                                         "busy_children: 2",
                                         "ended_children_cpu_pct: 31",
                                         "complete_stacks_pct: 90.00",
                                         "walk_jit_code_pct: 6.00",
                                         "walk_32_bit_task_pct: 4.00",
                                         "incomplete_in: [jit] 6.00",
                                         "incomplete_in: a b.so 3.00",
                                         "incomplete_in: [others] 0.40",
                                         "unnamed_in: [jit] (JIT code without names) 31.00",
                                         "unnamed_in: c.so (no symbol table) 3.00",
                                         "unnamed_in: d (file not readable) 2.00",
                                         "cut_stacks_pct: 1.00",
                                         "heuristic_stacks_pct: 20.00",
                                         "walk_other_pid_namespace_pct: 1.00",
                                         "lost_stacks_pct: 0.40"};

/* "id level text: remedy", a line each. */
static char *defects(const struct rep_judgement *j)
{
	struct sbuf b;

	sbuf_init(&b, 1 << 20);
	vec_each (d, &j->defects)
		(void)sbuf_addf(&b, "%s %s %s%s%s\n", d->id, rep_level_name(d->level), d->text,
		                *d->remedy ? ": " : "", d->remedy);
	return sbuf_take(&b);
}

static struct prof_model *model_with_statements(void)
{
	_cleanup_(sbuf_done) struct sbuf all;
	struct prof_model *m = rm_model(LINES);

	sbuf_init(&all, 1 << 16);
	for (size_t i = 0; i < ARRAY_SIZE(STATEMENTS); i++)
		prof_comment_pack(&all, STATEMENTS[i]);
	assert_int_equal(prof_model_comment(m, "%s", all.p), 0);
	return m;
}

static void test_a_capture_and_its_file_have_the_same_defects(void **state)
{
	_cleanup_(prof_model_freep) struct prof_model *m = model_with_statements();
	_cleanup_(rep_judgement_done) struct rep_judgement j = {0};
	_cleanup_(rep_quality_done) struct rep_quality q = {0};
	struct rep_evidence e = {
	        .lines = STATEMENTS, .n_lines = ARRAY_SIZE(STATEMENTS), .samples = 96, .lost = 5};
	_cleanup_free_ char *of_capture = NULL, *of_file = NULL;

	(void)state;
	assert_int_equal(rep_runtimes_of(m, &e.runtimes), 0);
	assert_int_equal(rep_judge(&e, &j), 0);
	assert_int_equal(rep_quality_of(m, NULL, &q), 0);
	of_capture = defects(&j);
	of_file = defects(&q.judgement);
	assert_string_equal(of_capture, of_file);
	assert_string_equal(q.verdict, "poor");
	assert_string_equal(
	        of_file,
	        "dropped fair dropped 5 samples because the count table was full\n"
	        "busy_children fair 2 busy children are not profiled, nor those that have ended "
	        "(31 % of a CPU): add --follow-children\n"
	        "few_samples fair 96 samples: shares are about \xc2\xb1 10 %: capture for longer, "
	        "or "
	        "raise --sample-rate\n"
	        "lost_stacks good <1 % of the time lost its stack ([stack lost]): lower "
	        "--sample-rate\n"
	        "jit_without_names poor 31 % of the time is JIT code without names: run jcmd 7 "
	        "Compiler.perfmap during the capture (docs/jit.md)\n"
	        "no_symbols good 3 % of the time is code of files without symbols (c.so 3 %): "
	        "install their debug symbols (Debian: packages named -dbgsym), or give "
	        "--debug-dir\n"
	        "no_names good 2 % of the time is code without names: d (file not readable) 2 %: "
	        "docs/troubleshooting.md#frames-without-a-name\n"
	        "jit_without_frame_pointers fair 6 % of the stacks end in JIT code: start java "
	        "with "
	        "-XX:+PreserveFramePointer (docs/jit.md)\n"
	        "python_without_names poor 63 % of the time is Python code without names: start "
	        "python3 with -X perf (3.12 and later; docs/jit.md)\n"
	        "incomplete_stacks fair 10 % of the user stacks are incomplete (6 % JIT code, 4 % "
	        "32-bit task, 1 % other pid namespace); they end in [jit] 6 %, a b.so 3 %: "
	        "docs/troubleshooting.md#incomplete-stacks\n"
	        "other_pid_namespace good 1 % of the stacks are of processes outside this pid "
	        "namespace: run the container with --pid host (Kubernetes: hostPID: true)\n"
	        "truncated_stacks good 1 % of the stacks are deeper than the limit: callers are "
	        "missing, at [truncated]\n"
	        "heuristic_stacks good 20 % of the stacks have callers that were found "
	        "heuristically: docs/unwinding.md\n");
}

static void test_intervals_have_their_own_losses(void **state)
{
	static const char *const lines[] = {"dropped_tables_busy: 1", "dropped_counts_full: x",
	                                    "busy_children: 2", "dropped_: 0",
	                                    "lost_stacks_pct: 1"};
	_cleanup_(rep_judgement_done) struct rep_judgement j = {0};
	struct rep_evidence e = {.lines = lines,
	                         .n_lines = ARRAY_SIZE(lines),
	                         .offcpu = true,
	                         .samples = 3,
	                         .lost = 1};
	_cleanup_free_ char *text = NULL;

	(void)state;
	assert_int_equal(rep_judge(&e, &j), 0);
	text = defects(&j);
	assert_string_equal(text,
	                    "dropped poor dropped 1 interval because the count table could not be "
	                    "updated (out of memory, or its lock was held)\n"
	                    "lost_stacks fair 1 % of the time lost its stack ([stack lost]): give "
	                    "--offcpu-min 100us\n");
}

static void test_without_samples_there_is_nothing_to_judge(void **state)
{
	_cleanup_(rep_judgement_done) struct rep_judgement j = {0}, lost = {0};
	struct rep_evidence e = {0};

	(void)state;
	assert_int_equal(rep_judge(&e, &j), 0);
	assert_int_equal(j.level, REP_NOTHING);
	e.lost = 7;
	assert_int_equal(rep_judge(&e, &lost), 0);
	assert_int_equal(lost.level, REP_POOR);
	assert_int_equal(lost.defects.n, 0);
}

/* A file can have any lines, and any number of them. */
static void test_defects_of_untrusted_lines_are_limited(void **state)
{
	const size_t n = 1000, len = 100000;
	_cleanup_free_ const char **lines = calloc(n, sizeof(*lines));
	_cleanup_free_ char *line = malloc(len + 64);
	_cleanup_(rep_judgement_done) struct rep_judgement j = {0};
	struct rep_evidence e = {.lines = lines, .n_lines = n, .samples = 1000};

	(void)state;
	assert_non_null(lines);
	assert_non_null(line);
	memset(line, 'x', len);
	memcpy(line, "unnamed_in: ", strlen("unnamed_in: "));
	(void)snprintf(line + len, 64, " 50.00");
	for (size_t i = 0; i < n; i++)
		lines[i] = i % 2 ? line : "dropped_counts_full: 1";
	assert_int_equal(rep_judge(&e, &j), 0);
	assert_int_equal(j.level, REP_POOR);
	assert_true(j.defects.n <= 64);
}

static char *written(const struct rep_options *o, const struct rep_input *in, size_t n)
{
	struct err err = {0};
	struct sbuf out;

	sbuf_init(&out, 1 << 20);
	if (rep_write(o, in, n, &out, &err) < 0)
		fail_msg("%s", err.msg);
	return sbuf_take(&out);
}

static void test_filters_leave_a_quality_of_their_own(void **state)
{
	_cleanup_(prof_model_freep) struct prof_model *m = model_with_statements();
	const struct rep_input in[] = {{.name = "x", .model = m}, {.name = "y", .model = m}};
	const struct rep_options none = {.filter.hide = "nothing"},
	                         some = {.filter.tagfocus = "comm=db"};
	_cleanup_free_ char *whole = written(&none, in, 1), *part = written(&some, in, 1),
	                    *two = written(&some, in, 2);

	(void)state;
	assert_non_null(strstr(whole,
	                       "\nquality: poor; 96 samples: shares are about \xc2\xb1 10 %; "
	                       "90.0 % of stacks complete"));
	assert_non_null(strstr(part,
	                       "\nquality: poor; 6 of 96 samples pass the filters: shares are "
	                       "about \xc2\xb1 40 %; of the whole file: 90.0 % of stacks "
	                       "complete"));
	assert_non_null(strstr(part, "\n  6 samples: shares are about \xc2\xb1 40 %: "));
	assert_non_null(strstr(two, "x: "));
	assert_non_null(strstr(strstr(two, "y: "), "\nquality: poor; 6 of 96 samples"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	        cmocka_unit_test(test_a_capture_and_its_file_have_the_same_defects),
	        cmocka_unit_test(test_intervals_have_their_own_losses),
	        cmocka_unit_test(test_without_samples_there_is_nothing_to_judge),
	        cmocka_unit_test(test_defects_of_untrusted_lines_are_limited),
	        cmocka_unit_test(test_filters_leave_a_quality_of_their_own),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
