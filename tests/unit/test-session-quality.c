/* SPDX-License-Identifier: Apache-2.0 */
/* Lines about the quality of a capture, and refusals. */
#include "session_fixture.h"

static void measure(struct ses *s, uint64_t ran_ns, uint64_t seen)
{
	struct oncpu *on = s->src[0];

	assert_int_equal(result_cpu_time_new(0, &on->cpu_time), 0);
	assert_int_equal(result_cpu_time_add(on->cpu_time, &(struct smp_cpu_time){.ran_ns = ran_ns,
	                                                                          .seen = seen}),
	                 0);
}

static void test_quality_statistics(void **state)
{
	/* [1] … [8]; 2 and 8 are files of one name. */
	static uint64_t incomplete[] = {20, 10, 30, 0, 40, 1, 2, 3, 31};
	/* With a table, without one. */
	static uint64_t heuristic[2 * ARRAY_SIZE(incomplete)] = {
	        [0] = 4, [2] = 3, [4] = 30, [5] = 17, [16] = 4, [17] = 17};
	struct ses *s = new_capture(PFA_TARGET_ALL);
	struct result_quality q = {.weight = 1000,
	                           .user_weight = 850,
	                           .user_frames = 800,
	                           .user_named = 600,
	                           .kernel_frames = 200,
	                           .kernel_named = 50,
	                           .stack_lost = 100,
	                           .kernel_cut = 30,
	                           .heuristic = 85,
	                           .jit = 17,
	                           .incomplete = incomplete,
	                           .n_incomplete = ARRAY_SIZE(incomplete),
	                           .incomplete_unknown = 5,
	                           .heuristic_in = heuristic,
	                           .heuristic_early = 17};
	size_t first = 0;

	(void)state;
	q.walk[EV_WALK_ROOT] = 500;
	q.walk[EV_WALK_NONE] = 130;
	q.walk[EV_WALK_LEFT] = 20;
	q.walk[EV_WALK_DEPTH] = 70;
	q.walk[EV_WALK_FAULT] = 150;
	q.reason_frames[EV_REASON_NO_SYMTAB] = 4;
	s->final.seen = 60;
	s->final.kept = 50;
	s->final.dropped = 10;
	s->final.elapsed_ns = 2000000000;
	s->final.agent_cpu_ns = 20000000;
	((struct oncpu *)s->src[0])->idle_start_ns = 1;
	((struct oncpu *)s->src[0])->idle_ns = 600000000;
	s->env.n_cpus = 2;
	s->cost.setup_ns = 300000000;
	s->cost.capture_ns = 15000000;
	s->drain.cpu_ns = 25000000;
	s->cost.stop_ns = thread_own_cpu_ns();
	s->tally.kernel.v[ABI_CNT_TICK_FOREIGN] = 10;
	s->tally.kernel.v[ABI_CNT_DROP_AGENT] = 8;
	tally_count(&s->tally, TALLY_DROP_UNREAD, 2);
	tally_count(&s->tally, TALLY_ELF_BAD, 3);
	tally_count(&s->tally, TALLY_IMAGES_DAMAGED, 2);
	tally_note(&s->tally, "something");
	measure(s, 2000000000, 1400000000);
	s->product[0].result.model->duration_ns = 2000000000;
	s->state = SES_STOPPED;
	assert_int_equal(add_quality(s, &q), 0);

	assert_string_equal(statistic(s, "target"), "all processes");
	assert_non_null(strstr(statistic(s, "command"), "test-session-quality"));
	assert_string_equal(statistic(s, "event"), "software/cpu-clock");
	assert_string_equal(statistic(s, "sample_rate_hz"), "99");
	assert_string_equal(statistic(s, "duration_s"), "2.000");
	assert_string_equal(statistic(s, "samples_seen"), "60");
	assert_string_equal(statistic(s, "samples_in_profile"), "50");
	assert_string_equal(statistic(s, "dropped"), "10");
	assert_string_equal(statistic(s, "dropped_agent"), "8");
	assert_string_equal(statistic(s, "dropped_unread"), "2");
	assert_null(statistic(s, "dropped_counts_full"));
	assert_null(statistic(s, "empty"));
	assert_string_equal(statistic(s, "complete_stacks_pct"), "58.82"); /* 500 of 850 */
	assert_string_equal(statistic(s, "unwind"), "auto");
	assert_string_equal(statistic(s, "heuristic_stacks_pct"), "10.00");
	assert_string_equal(statistic(s, "jit_stacks_pct"), "2.00");
	assert_string_equal(statistic(s, "incomplete_in"), "a b.so 7.18");
	while (strncmp(ses_quality(s, PFA_KIND_ONCPU, first), "incomplete_in", 13) != 0)
		first++;
	assert_string_equal(ses_quality(s, PFA_KIND_ONCPU, first + 1),
	                    "incomplete_in: four.so 4.71");
	assert_string_equal(ses_quality(s, PFA_KIND_ONCPU, first + 2), "incomplete_in: [jit] 2.35");
	assert_string_equal(ses_quality(s, PFA_KIND_ONCPU, first + 3),
	                    "incomplete_in: one.so 1.18");
	assert_string_equal(ses_quality(s, PFA_KIND_ONCPU, first + 4),
	                    "incomplete_in: [unknown] 0.59");
	assert_string_equal(ses_quality(s, PFA_KIND_ONCPU, first + 5),
	                    "incomplete_in: [others] 0.71");
	first += 6;
	assert_string_equal(ses_quality(s, PFA_KIND_ONCPU, first), "heuristic_in: a b.so 4.00");
	assert_string_equal(ses_quality(s, PFA_KIND_ONCPU, first + 1),
	                    "heuristic_in: a b.so (without table) 4.00");
	assert_string_equal(ses_quality(s, PFA_KIND_ONCPU, first + 2),
	                    "heuristic_in: [before its table] 2.00");
	assert_string_equal(ses_quality(s, PFA_KIND_ONCPU, first + 3),
	                    "heuristic_in: [unknown] 0.47");
	assert_string_equal(ses_quality(s, PFA_KIND_ONCPU, first + 4), "heuristic_in: one.so 0.35");
	assert_null(strstr(ses_quality(s, PFA_KIND_ONCPU, first + 5), "heuristic_in"));
	assert_string_equal(statistic(s, "walk_root_reached_pct"), "58.82"); /* of 850, as above */
	assert_string_equal(statistic(s, "walk_read_fault_pct"), "17.65");
	assert_string_equal(statistic(s, "walk_depth_limit_pct"), "8.24");
	assert_string_equal(statistic(s, "walk_no_walk_pct"), "13.00"); /* of 1000: there is none */
	assert_string_equal(statistic(s, "walk_mm_released_pct"), "2.00");
	assert_null(statistic(s, "walk_no_rule_pct"));
	assert_string_equal(statistic(s, "cut_stacks_pct"), "10.00");
	assert_string_equal(statistic(s, "lost_stacks_pct"), "10.00");
	assert_string_equal(statistic(s, "named_user_pct"), "75.00");
	assert_string_equal(statistic(s, "named_kernel_pct"), "25.00");
	assert_string_equal(statistic(s, "unnamed_frames_no_symbol_table"), "4");
	assert_string_equal(statistic(s, "elf_bad_items"), "3");
	assert_string_equal(statistic(s, "images_damaged"), "2");
	assert_null(statistic(s, "kallsyms_bad_lines"));
	assert_string_equal(statistic(s, "idle_pct"), "15.00"); /* 0.6 of 2 x 2 s */
	assert_string_equal(statistic(s, "cpu_time_ms"), "2000.000");
	assert_string_equal(statistic(s, "cpu_time_clock"), "sched_switch");
	assert_string_equal(statistic(s, "cpu_time_covered_pct"), "70.00");
	/* 30 % is more than 5 % and three deviations of 198 samples, 21.3 %. */
	assert_non_null(strstr(ses_note(s, 1), "samples cover 70 % of the CPU time"));
	assert_non_null(strstr(ses_note(s, 1), "ticks came late or not at all"));
	assert_null(ses_note(s, 2));
	assert_string_equal(statistic(s, "agent_setup_cpu_ms"), "300.0");
	/* 10 of the drain since sampling ended, and the CPU time of this test itself. */
	assert_true(strtod(statistic(s, "agent_finish_cpu_ms"), NULL) >= 10);
	assert_true(strtod(statistic(s, "agent_finish_cpu_ms"), NULL) < 300);
	assert_string_equal(statistic(s, "agent_cpu_ms"), "20.0");
	assert_string_equal(statistic(s, "agent_cpu_pct"), "1.00");
	s->state = SES_RUNNING;
	assert_null(ses_quality(s, PFA_KIND_ONCPU, 0)); /* not yet */
	s->state = SES_STOPPED;
	ses_free(s);
}

static void expect_command(const char *args, size_t len, const char *want)
{
	struct sbuf b;

	sbuf_init(&b, 1 << 16);
	assert_int_equal(ses_quote_command(args, len, &b), 0);
	assert_string_equal(b.p, want);
	sbuf_done(&b);
}

static void test_the_command_line_is_quoted_for_a_shell(void **state)
{
	static const char args[] = "perf-agent\0-p\0007\0--\0echo\0\0it's\0$HOME *\0a\x1b[2J\nb";
	char args_max[5000], one[5000], want[5000];

	(void)state;
	expect_command(args, sizeof(args),
	               "perf-agent -p 7 -- echo '' 'it'\\''s' '$HOME *' 'a?[2J?b'");
	memset(one, 'x', sizeof(one));
	one[0] = 'a';
	one[1] = one[sizeof(one) - 1] = '\0';
	expect_command(one, sizeof(one), "a ...");
	/* 4,094 bytes, a blank and one more are whole. */
	memset(args_max, 'y', sizeof(args_max));
	args_max[4094] = args_max[4096] = '\0';
	memcpy(want, args_max, 4097);
	want[4094] = ' ';
	expect_command(args_max, 4097, want);
	args_max[4096] = 'y';
	args_max[4097] = '\0';
	(void)snprintf(want + 4094, 8, " ...");
	expect_command(args_max, 4098, want);
}

static void test_agent_cpu_is_of_the_capture(void **state)
{
	struct ses *s = new_capture(PFA_TARGET_ALL);
	struct abi_counters c = {0};

	(void)state;
	c.v[ABI_CNT_PROG_NS] = 7;
	c.v[ABI_CNT_TICK_FOREIGN] = 100;
	c.v[ABI_CNT_TICK_IDLE] = 28;
	c.v[ABI_CNT_FOREIGN_NS] = 50;
	c.v[ABI_CNT_FOREIGN_TIMED] = 2;
	s->cost.setup_ns = 1000000; /* in neither */
	s->drain.cpu_ns = 20;
	s->tracker.cpu_ns = 80;
	s->cost.capture_ns = 60;
	assert_int_equal(ses_threads_cpu_ns(s), 100);
	assert_int_equal(ses_agent_cpu_ns(s, &c), 100 + 7 + 50 * 64);
	s->env.end_ns = 1; /* what the threads do from here on is none of sampling */
	assert_int_equal(ses_agent_cpu_ns(s, &c), 60 + 7 + 50 * 64);
	ses_free(s);
}

/* Coverage that chance explains is a statistic, and no note. */
static void test_coverage_within_chance_has_no_note(void **state)
{
	static const struct {
		uint64_t seen; /* of 2 s at 99 Hz: 5 % and three deviations are 26.3 % */
		const char *covered;
		bool note;
	} cases[] = {{1480000000, "74.00", false},
	             {1470000000, "73.50", true},
	             {2520000000, "126.00", false},
	             {2530000000, "126.50", true}};
	const struct result_quality q = {0};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct ses *s = new_capture(PFA_TARGET_COMMAND);

		measure(s, 2000000000, cases[i].seen);
		((struct oncpu *)s->src[0])->idle_start_ns = 1;
		assert_int_equal(add_quality(s, &q), 0);
		s->state = SES_STOPPED;
		assert_string_equal(statistic(s, "cpu_time_covered_pct"), cases[i].covered);
		assert_int_equal(ses_note(s, 0) != NULL, cases[i].note);
		/* More than all of the time is no lack of ticks. */
		if (cases[i].note)
			assert_int_equal(strstr(ses_note(s, 0), "late") != NULL,
			                 cases[i].seen < 2000000000);
		assert_null(statistic(s, "idle_pct")); /* of the machine */
		ses_free(s);
	}
}

static void test_quality_of_nothing(void **state)
{
	struct ses *s = new_capture(PFA_TARGET_ALL);
	const struct result_quality q = {0};

	(void)state;
	s->state = SES_STOPPED;
	assert_int_equal(add_quality(s, &q), 0);
	assert_string_equal(statistic(s, "empty"), "no samples of the target");
	assert_null(statistic(s, "complete_stacks_pct"));
	for (size_t i = 0; ses_quality(s, PFA_KIND_ONCPU, i); i++)
		assert_null(strstr(ses_quality(s, PFA_KIND_ONCPU, i), "nan"));
	ses_free(s);
}

/* ---- refusals -------------------------------------------------------------------------------- */

#define CAP(x) (1ULL << CAP_##x)

static void test_refusals_name_what_is_missing(void **state)
{
	static const struct {
		uint64_t caps;
		const char *lockdown;
		int code;
		enum err_cause cause;
		const char *object, *says;
	} cases[] = {
	        {0, "none", -EPERM, ERR_CAPABILITY, "CAP_BPF, CAP_PERFMON",
	         "call: E: missing CAP_BPF, CAP_PERFMON: run as root, or: setcap"},
	        {CAP(BPF), "none", -EPERM, ERR_CAPABILITY, "CAP_PERFMON",
	         "call: E: missing CAP_PERFMON: "},
	        {CAP(PERFMON), "none", -EACCES, ERR_CAPABILITY, "CAP_BPF",
	         "call: E: missing CAP_BPF: "},
	        {CAP(BPF) | CAP(PERFMON), "none", -EPERM, ERR_SECCOMP, "bpf",
	         "call: E: the capabilities are there, so a seccomp filter or a security module "},
	        {CAP(SYS_ADMIN), "none", -EPERM, ERR_SECCOMP, "bpf", "call: E: the capabilities"},
	        {CAP(SYS_ADMIN), "integrity", -EPERM, ERR_SECCOMP, "bpf",
	         "call: E: the capabilities"},
	        {CAP(SYS_ADMIN), "confidentiality", -EPERM, ERR_LOCKDOWN, "confidentiality",
	         "call: E: kernel lockdown is 'confidentiality', which "},
	        {CAP(BPF), "confidentiality", -EPERM, ERR_CAPABILITY, "CAP_PERFMON",
	         "call: E: missing CAP_PERFMON: "},
	        {CAP(SYS_ADMIN), "none", -ENOSYS, ERR_SECCOMP, "bpf",
	         "call: E: a kernel without bpf(2), or a seccomp filter"},
	        {0, "none", -ENOMEM, ERR_NONE, "", "call: E"},
	};
	struct ses *s = new_session(PFA_TARGET_ALL);

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct err err = {.code = cases[i].code, .msg = "call: E"};

		caps = cases[i].caps;
		lockdown = cases[i].lockdown;
		assert_int_equal(ses_explain(cases[i].code, &err), cases[i].code);
		assert_int_equal(err.cause, cases[i].cause);
		assert_string_equal(err.object, cases[i].object);
		if (!str_starts(err.msg, cases[i].says))
			fail_msg("case %zu: not '%s': %s", i, cases[i].says, err.msg);
		assert_int_equal(ses_explain(cases[i].code, NULL), cases[i].code);
	}
	ses_free(s);
}

static void test_known_cause_is_not_explained_again(void **state)
{
	static const enum err_cause causes[] = {ERR_CAPABILITY, ERR_USER_NS, ERR_SECCOMP,
	                                        ERR_SYSCTL,     ERR_MEMLOCK, ERR_NO_BTF};
	struct ses *s = new_session(PFA_TARGET_ALL);

	(void)state;
	caps = 0;
	for (size_t i = 0; i < ARRAY_SIZE(causes); i++) {
		struct err err = {.code = -EPERM, .cause = causes[i], .msg = "call: E"};

		assert_int_equal(ses_explain(-EPERM, &err), -EPERM);
		assert_int_equal(err.cause, causes[i]);
		assert_string_equal(err.msg, "call: E");
	}
	ses_free(s);
}

static void test_capabilities_of_a_user_namespace_do_not_count(void **state)
{
	static const uint64_t held[] = {0, CAP(SYS_ADMIN), UINT64_MAX};
	struct ses *s = new_session(PFA_TARGET_ALL);

	(void)state;
	user_ns = true;
	lockdown = "none";
	for (size_t i = 0; i < ARRAY_SIZE(held); i++) {
		struct err err = {.code = -EPERM, .msg = "call: EPERM"};

		caps = held[i];
		assert_int_equal(ses_explain(-EPERM, &err), -EPERM);
		assert_int_equal(err.cause, ERR_USER_NS);
		assert_non_null(strstr(err.msg, "call: EPERM: a user namespace: its capabilities"));
		assert_null(strstr(err.msg, "seccomp"));
		assert_null(strstr(err.msg, "setcap"));
	}
	user_ns = false;
	ses_free(s);
}

static void test_degradations_name_what_is_missing(void **state)
{
	static const struct {
		uint64_t caps, procs, files;
		int kernel_error, kptr_restrict;
		const char *says[2];
	} cases[] = {
	        {0, 0, 0, 0, 0, {NULL}},
	        {0, 3, 0, 0, 0, {"3 processes of other users; their", "CAP_SYS_PTRACE"}},
	        {CAP(SYS_PTRACE), 3, 0, 0, 0, {"cannot read 3 processes;", "security module"}},
	        {0, 1, 0, 0, 0, {"1 process of other users; its", "CAP_SYS_PTRACE"}},
	        {0, 0, 1, 0, 0, {"1 mapped file; its", "needs CAP_SYS_PTRACE"}},
	        {0, 0, 5, 0, 0, {"5 mapped files; their", "needs CAP_SYS_PTRACE"}},
	        {CAP(SYS_PTRACE), 0, 5, 0, 0, {"5 mapped files", "needs CAP_DAC_READ_SEARCH"}},
	        {0, 0, 0, -EPERM, 0, {"kernel.kptr_restrict=0", "needs CAP_SYSLOG"}},
	        {0, 0, 0, -EPERM, 1, {"kernel.kptr_restrict=1", "needs CAP_SYSLOG"}},
	        {0, 0, 0, -EPERM, 2, {"kernel.kptr_restrict=2", "kernel.kptr_restrict below 2"}},
	        {0,
	         0,
	         0,
	         -ENOENT,
	         0,
	         {"/proc/kallsyms: no such file or directory (ENOENT)", "no names"}},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct ses *s = new_session(PFA_TARGET_ALL);

		caps = cases[i].caps;
		kptr_restrict = cases[i].kptr_restrict;
		track_stats.procs_denied = cases[i].procs;
		track_stats.images_denied = cases[i].files;
		ses_check_privileges(s, cases[i].kernel_error);
		if (!cases[i].says[0])
			assert_null(ses_note(s, 0));
		for (size_t k = 0; k < 2 && cases[i].says[k]; k++) {
			assert_non_null(ses_note(s, 0));
			if (!strstr(ses_note(s, 0), cases[i].says[k]))
				fail_msg("case %zu: no '%s' in: %s", i, cases[i].says[k],
				         ses_note(s, 0));
		}
		assert_null(ses_note(s, 1));
		ses_free(s);
	}
}

static void test_targets_are_checked(void **state)
{
	struct ses *s = new_session(PFA_TARGET_PID);
	struct err err = {0};
	pid_t child;

	(void)state;
	assert_int_equal(ses_check_proc(&err), 0);
	assert_int_equal(tgt_open(&s->target, &err), 0);
	assert_true(s->target.ended_fd >= 0);
	assert_int_equal(s->target.pid, getpid());

	proc_self = "1234567";
	assert_int_equal(ses_check_proc(&err), -ESRCH);
	assert_non_null(strstr(err.msg, "another pid namespace"));
	assert_non_null(strstr(err.msg, "1234567"));
	assert_non_null(strstr(err.msg, "mount -t proc proc /proc"));
	proc_self = NULL;

	child = fork();
	assert_true(child >= 0);
	if (child == 0)
		_exit(0);
	wait_for_end(child);
	s->o.pid = child;
	assert_int_equal(tgt_open(&s->target, &err), -ESRCH);
	assert_non_null(strstr(err.msg, "zombie"));
	assert_int_equal(waitpid(child, NULL, 0), child);
	assert_int_equal(tgt_open(&s->target, &err), -ESRCH);
	assert_non_null(strstr(err.msg, "does not exist"));
	ses_free(s);
}

static void test_descriptors_are_counted(void **state)
{
	struct ses *s = new_session(PFA_TARGET_ALL);
	struct rlimit before, low;
	struct err err = {0};

	(void)state;
	s->env.n_cpus = 1000;
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
	low = before;
	low.rlim_cur = 1000;
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &low), 0);
	assert_int_equal(ses_check_descriptors(s, &err), -EMFILE);
	assert_non_null(strstr(err.msg, "RLIMIT_NOFILE is 1000 with"));
	assert_non_null(strstr(err.msg, "1000 CPUs"));
	assert_non_null(strstr(err.msg, "ulimit -n "));
	s->env.n_cpus = 2;
	assert_int_equal(ses_check_descriptors(s, &err), 0);
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
	ses_free(s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	        cmocka_unit_test_setup(test_quality_statistics, setup),
	        cmocka_unit_test_setup(test_the_command_line_is_quoted_for_a_shell, setup),
	        cmocka_unit_test_setup(test_agent_cpu_is_of_the_capture, setup),
	        cmocka_unit_test_setup(test_every_loss_is_a_line, setup),
	        cmocka_unit_test_setup(test_coverage_within_chance_has_no_note, setup),
	        cmocka_unit_test_setup(test_quality_of_nothing, setup),
	        cmocka_unit_test_setup(test_refusals_name_what_is_missing, setup),
	        cmocka_unit_test_setup(test_known_cause_is_not_explained_again, setup),
	        cmocka_unit_test_setup(test_capabilities_of_a_user_namespace_do_not_count, setup),
	        cmocka_unit_test_setup(test_degradations_name_what_is_missing, setup),
	        cmocka_unit_test_setup(test_targets_are_checked, setup),
	        cmocka_unit_test_setup(test_descriptors_are_counted, setup),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
