/* SPDX-License-Identifier: Apache-2.0 */
/* test-session - options, commands, counters, quality statistics and what refusals are said to mean;
 * no kernel side */
#include "session_fixture.h"

/* ---- options --------------------------------------------------------------------------------- */

static void test_options_are_checked(void **state)
{
	static const char *const command[] = {"true", NULL};
	const struct {
		struct pfa_options o;
		const char *name;
	} cases[] = {
	        {{.target = (enum pfa_target)0}, "target"},
	        {{.target = (enum pfa_target)9}, "target"},
	        {{.target = PFA_TARGET_PID, .pid = 0}, "pid"},
	        {{.target = PFA_TARGET_ALL, .pid = 3}, "pid"},
	        {{.target = PFA_TARGET_COMMAND}, "argv"},
	        {{.target = PFA_TARGET_ALL, .argv = command}, "argv"},
	        {{.target = PFA_TARGET_ALL, .flags = 1u << 31}, "flags"},
	        {{.target = PFA_TARGET_ALL, .profile = {.fd = -1}}, "output of the on-CPU"},
	        {{.target = PFA_TARGET_ALL, .pmu = {.reserved0 = 1}}, "output of the PMU"},
	        {{.target = PFA_TARGET_ALL, .event = (enum pfa_event)3}, "event"},
	        {{.target = PFA_TARGET_ALL, .drain_interval_ms = 10001}, "sizes"},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct err err = {0};
		struct ses *s = NULL;

		assert_int_equal(ses_new(&cases[i].o, &s, &err), -EINVAL);
		assert_null(s);
		if (strncmp(err.msg, cases[i].name, strlen(cases[i].name)) != 0)
			fail_msg("case %zu: '%s' does not begin with '%s'", i, err.msg,
			         cases[i].name);
	}
}

static void test_tags_have_limits(void **state)
{
	static char tag[4096 + 2];
	static const char *tags[1024 + 2];
	const struct pfa_options o = {.target = PFA_TARGET_ALL, .tags = tags};
	struct err err = {0};
	struct ses *s = NULL;

	(void)state;
	memset(tag, 'x', 4096 + 1);
	tag[1] = '=';
	tags[0] = tag;
	tags[1] = NULL;
	assert_int_equal(ses_new(&o, &s, &err), -EINVAL);
	assert_non_null(strstr(err.msg, "tag: 'x=xxx"));
	assert_non_null(strstr(err.msg, "4097 bytes, the limit is 4096"));
	tag[4096] = 0;
	assert_int_equal(ses_new(&o, &s, &err), 0);
	ses_free(s);

	tag[3] = 0;
	for (size_t i = 0; i < 1024 + 1; i++)
		tags[i] = tag;
	assert_int_equal(ses_new(&o, &s, &err), -EINVAL);
	assert_non_null(strstr(err.msg, "tag: more than 1024"));
	tags[1024] = NULL;
	assert_int_equal(ses_new(&o, &s, &err), 0);
	ses_free(s);
}

static void test_strings_of_options_are_copied(void **state)
{
	char program[] = "program", tag[] = "k=v", path[] = "out.pb.gz";
	const char *argv[] = {program, NULL}, *tags[] = {tag, NULL};
	const struct pfa_options o = {.target = PFA_TARGET_COMMAND,
	                              .argv = argv,
	                              .tags = tags,
	                              .profile = {.path = path}};
	struct ses *s = NULL;

	(void)state;
	assert_int_equal(ses_new(&o, &s, NULL), 0);
	program[0] = tag[0] = path[0] = 'X';
	argv[0] = tags[0] = NULL;
	assert_string_equal(s->o.argv[0], "program");
	assert_null(s->o.argv[1]);
	assert_string_equal(s->o.tags[0], "k=v");
	assert_string_equal(s->o.profile.path, "out.pb.gz");
	assert_null(ses_free(s));
}

/* ---- notes ----------------------------------------------------------------------------------- */

static void test_a_note_is_said_once(void **state)
{
	struct ses *s = new_session(PFA_TARGET_ALL);

	(void)state;
	tally_note(&s->tally, "a %d", 1);
	tally_note(&s->tally, "a %d", 2);
	tally_note(&s->tally, "a %d", 1);
	assert_string_equal(ses_note(s, 0), "a 1");
	assert_string_equal(ses_note(s, 1), "a 2");
	assert_null(ses_note(s, 2));
	for (int i = 0; i < 2 * TALLY_NOTES_MAX; i++)
		tally_note(&s->tally, "b %d", i);
	assert_non_null(ses_note(s, TALLY_NOTES_MAX - 1));
	assert_null(ses_note(s, TALLY_NOTES_MAX));
	ses_free(s);
}

static void assert_reaped(pid_t pid)
{
	assert_int_equal(waitpid(pid, NULL, WNOHANG), -1);
	assert_int_equal(errno, ECHILD);
}

static void test_a_command_waits_for_go(void **state)
{
	static const char *const argv[] = {"sh", "-c", "exit 9", NULL};
	struct ses_command c = {.go_fd = -EBADF, .error_fd = -EBADF};
	struct err err = {0};

	(void)state;
	assert_int_equal(ses_command_poll(&c), -EINVAL);
	assert_int_equal(ses_command_spawn(argv, &c, &err), 0);
	assert_int_equal(ses_command_poll(&c), 0);
	assert_true(fcntl(c.go_fd, F_GETFD) & FD_CLOEXEC);
	assert_true(fcntl(c.error_fd, F_GETFD) & FD_CLOEXEC);
	assert_int_equal(ses_command_go(&c, argv[0], &err), 0);
	wait_for_end(c.pid);
	assert_int_equal(ses_command_poll(&c), 1);
	assert_int_equal(ses_command_poll(&c), 1);
	assert_int_equal(WEXITSTATUS(c.status), 9);
	assert_reaped(c.pid);
	ses_command_done(&c);
}

static void test_an_exec_that_fails_is_reported_and_reaped(void **state)
{
	static const struct {
		const char *program;
		int error;
	} cases[] = {{"/nonexistent/program", ENOENT}, {"/dev/null", EACCES}, {"/", EACCES}};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		const char *const argv[] = {cases[i].program, NULL};
		struct ses_command c = {.go_fd = -EBADF, .error_fd = -EBADF};
		struct err err = {0};

		assert_int_equal(ses_command_spawn(argv, &c, &err), 0);
		assert_int_equal(ses_command_go(&c, argv[0], &err), -cases[i].error);
		assert_non_null(strstr(err.msg, cases[i].program));
		assert_non_null(strstr(err.msg, err_symbol(cases[i].error)));
		assert_reaped(c.pid);
		assert_int_equal(ses_command_poll(&c), 1);
		assert_int_equal(WEXITSTATUS(c.status), 127);
		ses_command_done(&c);
	}
}

/* SIGPIPE has its default here: it would end this test. */
static void test_a_command_that_dies_before_go(void **state)
{
	static const char *const argv[] = {"true", NULL};
	struct ses_command c = {.go_fd = -EBADF, .error_fd = -EBADF};
	struct err err = {0};

	(void)state;
	assert_int_equal(ses_command_spawn(argv, &c, &err), 0);
	assert_int_equal(kill(c.pid, SIGKILL), 0);
	wait_for_end(c.pid);
	assert_int_equal(ses_command_go(&c, argv[0], &err), -ECHILD);
	assert_non_null(strstr(err.msg, "true"));
	ses_command_done(&c);
	assert_reaped(c.pid);
}

static void test_a_command_that_is_given_up_never_runs(void **state)
{
	char file[] = "/tmp/perf-agent-session-XXXXXX";
	int fd = mkstemp(file);
	const char *const argv[] = {"rm", file, NULL};
	struct ses_command c = {.go_fd = -EBADF, .error_fd = -EBADF};
	struct err err = {0};

	(void)state;
	assert_true(fd >= 0);
	close(fd);
	assert_int_equal(ses_command_spawn(argv, &c, &err), 0);
	ses_command_done(&c);
	assert_reaped(c.pid);
	assert_int_equal(unlink(file), 0); /* it is still there */
}

static void test_a_status_that_somebody_else_took(void **state)
{
	static const char *const argv[] = {"true", NULL};
	struct ses_command c = {.go_fd = -EBADF, .error_fd = -EBADF};
	struct err err = {0};

	(void)state;
	assert_int_equal(ses_command_spawn(argv, &c, &err), 0);
	assert_int_equal(ses_command_go(&c, argv[0], &err), 0);
	assert_int_equal(waitpid(c.pid, NULL, 0), c.pid);
	assert_int_equal(ses_command_poll(&c), -ECHILD);
	assert_int_equal(ses_command_poll(&c), -ECHILD);
	ses_command_done(&c);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	        cmocka_unit_test_setup(test_options_are_checked, setup),
	        cmocka_unit_test_setup(test_tags_have_limits, setup),
	        cmocka_unit_test_setup(test_strings_of_options_are_copied, setup),
	        cmocka_unit_test_setup(test_a_note_is_said_once, setup),
	        cmocka_unit_test_setup(test_a_command_waits_for_go, setup),
	        cmocka_unit_test_setup(test_an_exec_that_fails_is_reported_and_reaped, setup),
	        cmocka_unit_test_setup(test_a_command_that_dies_before_go, setup),
	        cmocka_unit_test_setup(test_a_command_that_is_given_up_never_runs, setup),
	        cmocka_unit_test_setup(test_a_status_that_somebody_else_took, setup),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
