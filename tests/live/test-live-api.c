/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test-live-api - the library against the running kernel: life cycle, what it leaves behind, two at
 * once. Also run under ThreadSanitizer. Usage: test-live-api SPIN
 */
#include <stdatomic.h>

#include "apilib.h"

static const char *spin; /* the workload */

static void test_states_follow_the_header(void **state)
{
	struct traces before = look();
	struct sink sink = {0};
	struct pfa_options o = own_process(&sink);
	struct pfa_function top[3];
	struct pfa_session *s = NULL;
	struct pfa_error err = {0};
	struct pfa_stats st;
	int status;

	(void)state;
	ok(pfa_new(&o, &s, &err));
	assert_int_equal(pfa_stop(s, &err), -EINVAL);
	assert_int_equal(err.code, -EINVAL);
	assert_int_equal(pfa_ended_fd(s), -1);
	assert_int_equal(pfa_command_pid(s), -EINVAL);
	assert_int_equal(pfa_modes_run(s) | pfa_modes_written(s), 0);
	assert_int_equal(pfa_command_status(s, &status), -EINVAL);
	assert_int_equal(pfa_top(s, top, 3), -EINVAL);
	assert_null(pfa_quality(s, 0));
	assert_int_equal(stats_of(s).seen, 0);
	assert_no_traces(&before); /* pfa_new opens nothing */

	for (int i = 0; i < 3; i++) {
		uint64_t kept;

		ok(pfa_start(s, &err));
		memset(&err, 0, sizeof(err));
		assert_int_equal(pfa_start(s, &err), -EBUSY);
		assert_int_equal(err.code, -EBUSY);
		assert_true(strlen(err.message) > 0);
		assert_true(pfa_ended_fd(s) >= 0);
		assert_string_equal(pfa_weight_unit(s), "nanoseconds");
		burn_ms(100);
		st = stats_of(s);
		assert_true(st.seen > 0 && st.elapsed_ns >= 100000000 && st.locked_bytes > 0);
		assert_null(pfa_quality(s, 0));
		assert_int_equal(pfa_modes_run(s) | pfa_modes_written(s) << 8, PFA_MODE_PROFILE);
		ok(pfa_stop(s, &err));
		assert_int_equal(pfa_modes_run(s) & pfa_modes_written(s), PFA_MODE_PROFILE);
		assert_int_equal(pfa_stop(s, &err), -EINVAL);
		assert_int_equal(pfa_ended_fd(s), -1);
		assert_int_equal(sink.calls, i + 1);
		assert_true(sink.gzip);

		st = stats_of(s);
		kept = st.kept;
		assert_int_equal(st.seen, st.kept + st.dropped);
		assert_true(kept > 20 && st.weight > 0 && st.agent_cpu_ns > 0 && st.stacks > 0);
		assert_int_equal(stats_of(s).elapsed_ns, st.elapsed_ns);
		assert_true(pfa_top(s, top, 3) >= 1);
		assert_true(top[0].self <= top[0].cum && top[0].cum <= st.weight);
		assert_no_traces(&before);
	}
	pfa_free(s);
	pfa_free(NULL);
	assert_no_traces(&before);
}

static void test_a_hundred_cycles_leave_nothing(void **state)
{
	struct traces before;
	struct sink sink = {0};
	struct pfa_options o = own_process(&sink);
	struct pfa_session *s = NULL;
	struct pfa_error err = {0};

	(void)state;
	before = look();
	ok(pfa_new(&o, &s, &err));
	for (int i = 0; i < 100; i++) {
		ok(pfa_start(s, &err));
		if (i % 10 == 0)
			burn_ms(5);
		ok(pfa_stop(s, &err));
		assert_int_equal(stats_of(s).seen, stats_of(s).kept + stats_of(s).dropped);
	}
	assert_int_equal(sink.calls, 100);
	assert_no_traces(&before);
	pfa_free(s);
	assert_no_traces(&before);
}

static void test_free_while_running_writes_nothing(void **state)
{
	struct traces before = look();
	struct sink sink = {0};
	struct pfa_options o = own_process(&sink);
	struct pfa_session *s = NULL;
	struct pfa_error err = {0};
	char path[128];

	(void)state;
	ok(pfa_new(&o, &s, &err));
	ok(pfa_start(s, &err));
	burn_ms(10);
	pfa_free(s);
	assert_int_equal(sink.calls, 0);
	assert_no_traces(&before);

	snprintf(path, sizeof(path), "%s/profile.pb.gz", folder);
	o = own_process(NULL);
	o.profile.path = path;
	ok(pfa_new(&o, &s, &err));
	ok(pfa_start(s, &err));
	/* 1: the temporary file, on file systems that know none without a name. */
	assert_in_range(entries(folder), before.files, before.files + 1);
	pfa_free(s);
	assert_no_traces(&before);

	ok(pfa_new(&o, &s, &err));
	ok(pfa_start(s, &err));
	ok(pfa_stop(s, &err));
	pfa_free(s);
	assert_int_equal(access(path, R_OK), 0);
	assert_int_equal(unlink(path), 0);
	assert_no_traces(&before);
}

static void test_an_error_of_the_call_back_is_that_of_stop(void **state)
{
	struct traces before = look();
	struct sink sink = {.answer = -EDQUOT};
	struct pfa_options o = own_process(&sink);
	struct pfa_session *s = NULL;
	struct pfa_error err = {0};

	(void)state;
	ok(pfa_new(&o, &s, &err));
	ok(pfa_start(s, &err));
	burn_ms(30);
	assert_int_equal(pfa_stop(s, &err), -EDQUOT);
	assert_int_equal(err.code, -EDQUOT);
	assert_int_equal(sink.calls, 1);
	assert_int_equal(pfa_stop(s, &err), -EINVAL); /* STOPPED */
	assert_true(stats_of(s).kept > 0);
	assert_non_null(pfa_quality(s, 0));
	sink.answer = 0;
	ok(pfa_start(s, &err));
	ok(pfa_stop(s, &err));
	assert_int_equal(sink.calls, 2);
	pfa_free(s);
	assert_no_traces(&before);
}

static void test_failed_start_releases_everything(void **state)
{
	struct traces before = look();
	struct pfa_options o = own_process(NULL);
	struct pfa_session *s = NULL;
	struct pfa_error err = {0};

	(void)state;
	o.profile.path = "/nonexistent-directory/x.pb.gz";
	ok(pfa_new(&o, &s, &err));
	assert_int_equal(pfa_start(s, &err), -ENOENT);
	assert_non_null(strstr(err.message, "/nonexistent-directory"));
	assert_no_traces(&before);
	pfa_free(s);

	o = (struct pfa_options)PFA_OPTIONS_INIT;
	o.target = PFA_TARGET_COMMAND;
	o.argv = (const char *const[]){"/nonexistent-program", NULL};
	ok(pfa_new(&o, &s, &err));
	for (int i = 0; i < 2; i++) {
		assert_int_equal(pfa_start(s, &err), -ENOENT);
		assert_non_null(strstr(err.message, "/nonexistent-program"));
		assert_no_traces(&before); /* no zombie either */
	}
	pfa_free(s);
	assert_no_traces(&before);
}

static struct pfa_session *at_fork; /* its start is interrupted when the command is forked */

static void interrupt_at_fork(void)
{
	if (at_fork)
		pfa_interrupt(at_fork);
}

static void test_interrupted_start_starts_no_command(void **state)
{
	struct traces before = look();
	struct pfa_options o = PFA_OPTIONS_INIT;
	struct pfa_session *s = NULL;
	struct pfa_error err = {0};
	char marker[128];
	int status = 0;

	(void)state;
	snprintf(marker, sizeof(marker), "%s/started", folder);
	o.target = PFA_TARGET_COMMAND;
	o.argv = (const char *const[]){"mkdir", marker, NULL};
	assert_int_equal(pthread_atfork(interrupt_at_fork, NULL, NULL), 0);
	ok(pfa_new(&o, &s, &err));
	pfa_interrupt(s);
	assert_int_equal(pfa_start(s, &err), -EINTR);
	assert_no_traces(&before);
	at_fork = s;
	assert_int_equal(pfa_start(s, &err), -EINTR);
	at_fork = NULL;
	assert_non_null(strstr(err.message, "before the capture began"));
	assert_no_traces(&before); /* the marker is one, and the command */

	/* Too late for this one, and not meant for the next. */
	for (int i = 0; i < 2; i++) {
		struct pollfd p = {.events = POLLIN};

		ok(pfa_start(s, &err));
		pfa_interrupt(s);
		p.fd = pfa_ended_fd(s);
		assert_int_equal(poll(&p, 1, 60000), 1);
		ok(pfa_stop(s, &err));
		assert_int_equal(pfa_command_status(s, &status), 1);
		assert_int_equal(status, 0);
		assert_int_equal(rmdir(marker), 0);
	}
	pfa_free(s);
	assert_no_traces(&before);

	o = own_process(NULL);
	ok(pfa_new(&o, &s, &err));
	pfa_interrupt(s);
	assert_int_equal(pfa_start(s, &err), -EINTR);
	ok(pfa_start(s, &err));
	ok(pfa_stop(s, &err));
	pfa_free(s);
	assert_no_traces(&before);
}

static void test_lists_end(void **state)
{
	struct sink sink = {0};
	struct pfa_options o = own_process(&sink);
	struct pfa_function *top = calloc(10000, sizeof(*top));
	struct pfa_session *s = NULL;
	struct pfa_error err = {0};
	struct pfa_counter c;
	uint64_t cum = 0;
	size_t n;
	int r, n_top;

	(void)state;
	assert_non_null(top);
	ok(pfa_new(&o, &s, &err));
	ok(pfa_start(s, &err));
	burn_ms(100);
	ok(pfa_stop(s, &err));
	for (n = 0; (r = pfa_counter(s, n, &c)) == 0; n++) {
		assert_true(c.name[0] && c.unit[0] && c.help[0]);
		assert_true(n < 1000);
	}
	assert_int_equal(r, -ENOENT);
	assert_true(n > 20);
	assert_int_equal(pfa_counter(s, SIZE_MAX, &c), -ENOENT);
	for (n = 0; pfa_quality(s, n); n++)
		assert_non_null(strstr(pfa_quality(s, n), ": "));
	assert_true(n > 10);
	assert_null(pfa_quality(s, n + 1));
	for (n = 0; pfa_note(s, n); n++)
		assert_true(n < 100);
	assert_null(pfa_note(s, n + 1));
	n_top = pfa_top(s, top, 10000);
	assert_true(n_top > 1 && n_top < 10000);
	for (int i = 0; i < n_top; i++) {
		assert_true(top[i].name && top[i].module && top[i].cum >= top[i].self);
		assert_true(i == 0 || top[i].self <= top[i - 1].self);
		cum += top[i].self;
	}
	assert_int_equal(cum, stats_of(s).weight);
	assert_int_equal(pfa_top(s, top, 1), 1);
	assert_int_equal(pfa_top(s, top, 0), -EINVAL);
	pfa_free(s);
	free(top);
}

static void test_end_of_the_target_is_seen(void **state)
{
	struct traces before = look();
	struct pfa_options o = PFA_OPTIONS_INIT;
	struct pfa_session *s = NULL;
	struct pfa_error err = {0};
	struct pollfd p = {.events = POLLIN};
	int go[2];
	pid_t child;

	(void)state;
	assert_int_equal(pipe2(go, O_CLOEXEC), 0);
	child = fork();
	assert_true(child >= 0);
	if (child == 0) {
		char c;

		close(go[1]);
		_exit(read(go[0], &c, 1) == 0 ? 0 : 1);
	}
	close(go[0]);
	o.target = PFA_TARGET_PID;
	o.pid = (int32_t)child;
	ok(pfa_new(&o, &s, &err));
	ok(pfa_start(s, &err));
	p.fd = pfa_ended_fd(s);
	assert_int_equal(poll(&p, 1, 0), 0);
	close(go[1]);
	assert_int_equal(poll(&p, 1, 30000), 1);
	ok(pfa_stop(s, &err));
	assert_int_equal(waitpid(child, NULL, 0),
	                 child); /* the library took nothing from its parent */
	assert_int_equal(pfa_start(s, &err), -ESRCH);
	pfa_free(s);
	assert_no_traces(&before);
}

static void run_command(const char *const *argv, struct pfa_session **ret)
{
	struct pfa_options o = PFA_OPTIONS_INIT;
	struct pfa_error err = {0};
	struct pollfd p = {.events = POLLIN};

	o.target = PFA_TARGET_COMMAND;
	o.argv = argv;
	ok(pfa_new(&o, ret, &err));
	ok(pfa_start(*ret, &err));
	assert_true(pfa_command_pid(*ret) > 0);
	p.fd = pfa_ended_fd(*ret);
	assert_int_equal(poll(&p, 1, 60000), 1);
}

static void test_status_of_a_command(void **state)
{
	static const struct {
		const char *script;
		bool by_signal;
		int number;
	} cases[] = {{"exit 0", false, 0}, {"exit 7", false, 7}, {"kill -TERM $$", true, SIGTERM}};
	struct traces before = look();

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		const char *const argv[] = {"sh", "-c", cases[i].script, NULL};
		struct pfa_session *s = NULL;
		struct pfa_error err = {0};
		int status = -1;

		run_command(argv, &s);
		ok(pfa_stop(s, &err));
		for (int again = 0; again < 2; again++) {
			assert_int_equal(pfa_command_status(s, &status), 1);
			assert_int_equal(WIFSIGNALED(status), cases[i].by_signal);
			assert_int_equal(cases[i].by_signal ? WTERMSIG(status)
			                                    : WEXITSTATUS(status),
			                 cases[i].number);
		}
		pfa_free(s);
		assert_no_traces(&before);
	}
}

static void test_status_is_unknown_where_children_are_not_kept(void **state)
{
	const char *const argv[] = {"true", NULL};
	struct sigaction ignore = {.sa_handler = SIG_IGN}, before;
	struct pfa_session *s = NULL;
	struct pfa_error err = {0};
	int status = 12345;

	(void)state;
	assert_int_equal(sigaction(SIGCHLD, &ignore, &before), 0);
	run_command(argv, &s);
	ok(pfa_stop(s, &err));
	assert_int_equal(pfa_command_status(s, &status), -ECHILD);
	assert_int_equal(pfa_command_status(s, &status), -ECHILD);
	assert_int_equal(status, 12345);
	pfa_free(s);
	assert_int_equal(sigaction(SIGCHLD, &before, NULL), 0);
}

static void test_a_command_may_outlive_the_session(void **state)
{
	const char *const argv[] = {"sh", "-c", "exec \"$0\" --seconds 100 >/dev/null", spin, NULL};
	struct pfa_options o = PFA_OPTIONS_INIT;
	struct pfa_session *s = NULL;
	struct pfa_error err = {0};
	struct pollfd none = {.fd = -1};
	int status = 0;
	pid_t pid;

	(void)state;
	o.target = PFA_TARGET_COMMAND;
	o.argv = argv;
	ok(pfa_new(&o, &s, &err));
	ok(pfa_start(s, &err));
	pid = pfa_command_pid(s);
	while (stats_of(s).seen == 0)
		poll(&none, 1, 10);
	ok(pfa_stop(s, &err));
	assert_int_equal(pfa_command_status(s, &status), 0);
	pfa_free(s);
	assert_int_equal(kill(pid, SIGKILL), 0);
	assert_int_equal(waitpid(pid, &status, 0), pid); /* still there, and ours to reap */
	assert_true(WIFSIGNALED(status));
}

/* pfa_stats of another thread, at any time. */
struct asker {
	struct pfa_session *s;
	_Atomic bool end;
	_Atomic unsigned int asked, failed, backward;
	_Atomic unsigned int capture; /* odd: one runs */
};

static void *ask(void *arg)
{
	struct asker *a = arg;
	struct pfa_stats last = {.size = sizeof(last)};
	unsigned int seen_in = 0;

	while (!atomic_load(&a->end)) {
		struct pfa_stats st = {.size = sizeof(st)};
		unsigned int capture = atomic_load(&a->capture);

		if (pfa_stats(a->s, &st) < 0)
			atomic_fetch_add(&a->failed, 1);
		atomic_fetch_add(&a->asked, 1);
		if (capture % 2 == 0 || atomic_load(&a->capture) != capture)
			continue;
		/* Within one capture what is counted does not go back (agent_cpu_ns is an estimate
		 * in part, and 0 until one of the library's threads has run). */
		if (capture == seen_in && (st.seen < last.seen || st.elapsed_ns < last.elapsed_ns))
			atomic_fetch_add(&a->backward, 1);
		seen_in = capture;
		last = st;
	}
	return NULL;
}

static void test_stats_of_any_thread_at_any_time(void **state)
{
	struct sink sink = {0};
	struct pfa_options o = own_process(&sink);
	struct pfa_session *s = NULL;
	struct pfa_error err = {0};
	struct asker a = {0};
	pthread_t thread;

	(void)state;
	ok(pfa_new(&o, &s, &err));
	a.s = s;
	assert_int_equal(pthread_create(&thread, NULL, ask, &a), 0);
	for (int i = 0; i < 5; i++) {
		unsigned int asked = atomic_load(&a.asked);

		ok(pfa_start(s, &err));
		atomic_fetch_add(&a.capture, 1);
		burn_ms(20);
		while (atomic_load(&a.asked) < asked + 10)
			sched_yield();
		ok(pfa_stop(s, &err));
		atomic_fetch_add(&a.capture, 1);
		assert_true(stats_of(s).agent_cpu_ns > 0);
	}
	atomic_store(&a.end, true);
	pthread_join(thread, NULL);
	assert_int_equal(a.failed, 0);
	assert_int_equal(a.backward, 0);
	pfa_free(s);
}

struct capture {
	int result;
	uint64_t kept;
	struct pfa_error err;
	struct sink sink;
};

static void *one_capture(void *arg)
{
	struct capture *c = arg;
	struct pfa_options o = own_process(&c->sink);
	struct pfa_session *s = NULL;

	c->result = pfa_new(&o, &s, &c->err);
	for (int i = 0; i < 3 && c->result == 0; i++) {
		c->result = pfa_start(s, &c->err);
		if (c->result < 0)
			break;
		burn_ms(50);
		c->result = pfa_stop(s, &c->err);
		if (c->result == 0)
			c->kept += stats_of(s).kept;
	}
	pfa_free(s);
	return NULL;
}

static void test_two_sessions_at_once(void **state)
{
	struct traces before = look();
	struct capture c[2];
	pthread_t thread[2];

	(void)state;
	memset(c, 0, sizeof(c));
	for (int i = 0; i < 2; i++)
		assert_int_equal(pthread_create(&thread[i], NULL, one_capture, &c[i]), 0);
	for (int i = 0; i < 2; i++)
		pthread_join(thread[i], NULL);
	for (int i = 0; i < 2; i++) {
		if (c[i].result < 0)
			fail_msg("%d: %s", c[i].result, c[i].err.message);
		assert_true(c[i].kept > 0);
		assert_int_equal(c[i].sink.calls, 3);
	}
	assert_no_traces(&before);
}

static void test_signals_stay_with_the_program(void **state)
{
	struct sink sink = {0};
	struct pfa_options o = own_process(&sink);
	struct pfa_session *s = NULL;
	struct pfa_error err = {0};
	char path[64], text[4096];
	struct dirent *e;
	int others = 0;
	DIR *d;

	(void)state;
	ok(pfa_new(&o, &s, &err));
	ok(pfa_start(s, &err));
	d = opendir("/proc/self/task");
	assert_non_null(d);
	while ((e = readdir(d))) {
		unsigned long long blocked;
		const char *line;
		FILE *f;

		if (e->d_name[0] == '.' || strtol(e->d_name, NULL, 10) == getpid())
			continue;
		snprintf(path, sizeof(path), "/proc/self/task/%.16s/status", e->d_name);
		f = fopen(path, "re");
		assert_non_null(f);
		text[fread(text, 1, sizeof(text) - 1, f)] = '\0';
		fclose(f);
		if (!strstr(text, "Name:\tpa-"))
			continue; /* a sanitizer's own */
		line = strstr(text, "SigBlk:\t");
		assert_non_null(line);
		blocked = strtoull(line + 8, NULL, 16);
		for (int number = 1; number < 32; number++)
			if (number != SIGKILL && number != SIGSTOP)
				assert_true(blocked >> (number - 1) & 1);
		others++;
	}
	closedir(d);
	assert_true(others >= 3);
	ok(pfa_stop(s, &err));
	pfa_free(s);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
	        cmocka_unit_test(test_states_follow_the_header),
	        cmocka_unit_test(test_a_hundred_cycles_leave_nothing),
	        cmocka_unit_test(test_free_while_running_writes_nothing),
	        cmocka_unit_test(test_an_error_of_the_call_back_is_that_of_stop),
	        cmocka_unit_test(test_failed_start_releases_everything),
	        cmocka_unit_test(test_interrupted_start_starts_no_command),
	        cmocka_unit_test(test_lists_end),
	        cmocka_unit_test(test_end_of_the_target_is_seen),
	        cmocka_unit_test(test_status_of_a_command),
	        cmocka_unit_test(test_status_is_unknown_where_children_are_not_kept),
	        cmocka_unit_test(test_a_command_may_outlive_the_session),
	        cmocka_unit_test(test_stats_of_any_thread_at_any_time),
	        cmocka_unit_test(test_two_sessions_at_once),
	        cmocka_unit_test(test_signals_stay_with_the_program),
	};

	if (argc != 2) {
		fprintf(stderr, "usage: test-live-api SPIN\n");
		return 2;
	}
	spin = argv[1];
	return run_api_tests(tests, sizeof(tests) / sizeof(tests[0]));
}
