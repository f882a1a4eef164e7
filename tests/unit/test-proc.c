/* SPDX-License-Identifier: Apache-2.0 */
#include "proc_files.h"

extern char **environ;

static const char *tmp_path(const char *name)
{
	static char path[256];

	snprintf(path, sizeof(path), "%s/%s", tmp_dir, name);
	return path;
}

/* ---- status and its neighbours -------------------------------------------------------------- */

#define STATUS_HEAD "Name:\tcat\nUmask:\t0022\nState:\tR (running)\nTgid:\t10\nNgid:\t0\nPid:\t11\n"
#define STATUS_IDS  "PPid:\t6\nTracerPid:\t0\nUid:\t1000\t0\t0\t0\nGid:\t0\t0\t0\t0\n"

static int parse_status(const char *text, struct proc_status *s)
{
	return proc_status_parse(text, strlen(text), s);
}

static void test_status_fields(void **state)
{
	struct proc_status s;

	(void)state;
	assert_int_equal(parse_status(STATUS_HEAD STATUS_IDS "NStgid:\t10\t3\t1\nNSpid:\t11\t4\t2\n"
	                                                     "Kthread:\t0\nVmSize:\t 1 kB\n",
	                              &s),
	                 0);
	assert_int_equal(s.tgid, 10);
	assert_int_equal(s.ppid, 6);
	assert_int_equal(s.uid, 1000);
	assert_int_equal(s.nspid_cnt, 3);
	assert_int_equal(s.nspid[0], 11);
	assert_int_equal(s.nspid[1], 4);
	assert_int_equal(s.nspid[2], 2);
	assert_false(s.kthread);
	assert_string_equal(s.name, "cat");
	/* No pid namespaces in this kernel. */
	assert_int_equal(parse_status(STATUS_HEAD STATUS_IDS, &s), 0);
	assert_int_equal(s.nspid_cnt, 1);
	assert_int_equal(s.nspid[0], 11);
}

static void test_status_names(void **state)
{
	struct proc_status s;

	(void)state;
	assert_int_equal(
	        parse_status("Name:\ta\\nb\\\\c\\x d\\\nState:\tS\nTgid:\t1\nPid:\t1\n" STATUS_IDS,
	                     &s),
	        0);
	assert_string_equal(s.name, "a\nb\\c\\x d\\");
	assert_int_equal(parse_status("Name:\t\nTgid:\t1\nPid:\t1\n" STATUS_IDS, &s), 0);
	assert_string_equal(s.name, "");
	assert_int_equal(parse_status("Name:\tkworker/u256:123456-a-name-that-is-longer-than-the-"
	                              "kernel's-limit\nTgid:\t1\nPid:\t1\n" STATUS_IDS,
	                              &s),
	                 0);
	assert_int_equal(strlen(s.name), 63);
}

static void test_status_tells_who_sleeps(void **state)
{
	static const struct {
		const char *text;
		bool asleep;
	} cases[] = {
	        {STATUS_HEAD STATUS_IDS, false},
	        {STATUS_HEAD STATUS_IDS "State:\tS (sleeping)\n", true},
	        {STATUS_HEAD STATUS_IDS "State:\tD (disk sleep)\n", true},
	        {STATUS_HEAD STATUS_IDS "State:\tR (running)\n", false},
	        {STATUS_HEAD STATUS_IDS "State:\tT (stopped)\n", false},
	        {STATUS_HEAD STATUS_IDS "State:\tI (idle)\n", false},
	        {STATUS_HEAD STATUS_IDS "State:\n", false},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct proc_status s;

		assert_int_equal(parse_status(cases[i].text, &s), 0);
		if (s.asleep != cases[i].asleep)
			fail_msg("case %zu", i);
	}
}

static void test_status_kernel_threads(void **state)
{
	static const struct {
		const char *text;
		bool kthread;
	} cases[] = {
	        {STATUS_HEAD STATUS_IDS "Kthread:\t1\n", true},
	        {STATUS_HEAD STATUS_IDS "Kthread:\t0\n", false},
	        {"Name:\tk\nState:\tI (idle)\nTgid:\t9\nPid:\t9\nPPid:\t2\nUid:\t0\t0\t0\t0\n",
	         true},
	        {"Name:\tk\nState:\tS\nTgid:\t2\nPid:\t2\nPPid:\t0\nUid:\t0\t0\t0\t0\n", true},
	        {"Name:\tk\nState:\tZ (zombie)\nTgid:\t9\nPid:\t9\nPPid:\t2\nUid:\t0\t0\t0\t0\n",
	         false},
	        {"Name:\tk\nState:\tX (dead)\nTgid:\t9\nPid:\t9\nPPid:\t2\nUid:\t0\t0\t0\t0\n",
	         false},
	        {"Name:\tk\nState:\tS\nTgid:\t9\nPid:\t9\nPPid:\t2\nUid:\t0\t0\t0\t0\nVmSize:\t 4 "
	         "kB\n",
	         false},
	        /* Exiting: its memory is gone, but it is no zombie yet. */
	        {STATUS_HEAD STATUS_IDS, false},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct proc_status s;

		assert_int_equal(parse_status(cases[i].text, &s), 0);
		if (s.kthread != cases[i].kthread)
			fail_msg("case %zu", i);
	}
}

static void test_status_refuses_junk(void **state)
{
	static const char *const bad[] = {
	        "",
	        "\n\n",
	        STATUS_HEAD,
	        STATUS_IDS,
	        "Name:\tx\nTgid:\t1\nPid:\t1\nPPid:\t1\n",
	        "Name:\tx\nTgid:\t-1\nPid:\t1\n" STATUS_IDS,
	        "Name:\tx\nTgid:\t4294967296\nPid:\t1\n" STATUS_IDS,
	        "Name:\tx\nTgid:\t\nPid:\t1\n" STATUS_IDS,
	        "Name:\tx\nTgid:\t1\nPid:\tx\n" STATUS_IDS,
	        STATUS_HEAD STATUS_IDS "Kthread:\tyes\n",
	        STATUS_HEAD STATUS_IDS "NSpid:\t1\tx\n",
	        STATUS_HEAD STATUS_IDS
	        "NSpid:"
	        "\t1\t2\t3\t4\t5\t6\t7\t8\t9\t1\t2\t3\t4\t5\t6\t7\t8\t9\t1\t2\t3\t4\t5\t6\t7\t8"
	        "\t9\t1\t2\t3\t4\t5\t6\t7\n",
	};
	struct proc_status s = {.tgid = 77};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		if (parse_status(bad[i], &s) != -EINVAL)
			fail_msg("taken: %s", bad[i]);
		assert_int_equal(s.tgid, 77);
	}
}

static void test_status_of_ourselves(void **state)
{
	char name[] = "a) R 1 (b\\\nc"; /* looks like fields of stat, and needs escapes in status */
	struct proc_status s;
	char comm[64];

	(void)state;
	assert_int_equal(prctl(PR_SET_NAME, name), 0);
	assert_int_equal(proc_status_read((uint32_t)getpid(), &s, NULL), 0);
	assert_int_equal(s.tgid, getpid());
	assert_int_equal(s.ppid, getppid());
	assert_int_equal(s.uid, getuid());
	assert_false(s.kthread);
	assert_true(s.nspid_cnt >= 1);
	assert_int_equal(s.nspid[0], getpid());
	assert_string_equal(s.name, name);
	assert_int_equal(proc_comm((uint32_t)getpid(), (uint32_t)getpid(), comm), 0);
	assert_string_equal(comm, name);
}

static void *thread_main(void *arg)
{
	uint32_t *tid = arg;
	struct proc_status s;

	*tid = (uint32_t)gettid();
	/* A thread id has a status of its own below /proc, though it is not listed there. */
	return proc_status_read(*tid, &s, NULL) == 0 && s.tgid == (uint32_t)getpid() &&
	                       s.nspid[0] == *tid
	               ? arg
	               : NULL;
}

static void test_thread_names_its_process(void **state)
{
	pthread_t t;
	uint32_t tid;
	void *res;

	(void)state;
	assert_int_equal(pthread_create(&t, NULL, thread_main, &tid), 0);
	assert_int_equal(pthread_join(t, &res), 0);
	assert_ptr_equal(res, &tid);
}

static void test_tasks_that_are_gone(void **state)
{
	_cleanup_(sbuf_done) struct sbuf b;
	uint32_t pid = gone_pid();
	struct proc_status s;
	struct err err = {0};
	char comm[64];
	uint64_t v;

	(void)state;
	sbuf_init(&b, 4096);
	assert_int_equal(proc_status_read(pid, &s, &err), -ESRCH);
	assert_int_equal(err.code, -ESRCH);
	assert_int_equal(proc_start_ns(pid, &v), -ESRCH);
	assert_int_equal(proc_thread_cpu_ns(pid, pid, &v), -ESRCH);
	assert_int_equal(proc_comm(pid, pid, comm), -ESRCH);
	assert_int_equal(proc_exe(pid, &b), -ESRCH);
	assert_int_equal(proc_each_thread(pid, NULL, NULL), -ESRCH);
}

static void test_start_lies_where_the_child_began(void **state)
{
	uint64_t before = now_boottime_ns(), after, start;
	uint64_t tick = NSEC_PER_SEC / (uint64_t)sysconf(_SC_CLK_TCK);
	int hold[2];
	pid_t pid;
	char c;

	(void)state;
	assert_int_equal(pipe2(hold, O_CLOEXEC), 0);
	pid = fork();
	if (pid == 0) {
		close(hold[1]);
		_exit(read(hold[0], &c, 1) == 0 ? 0 : 1);
	}
	assert_true(pid > 0);
	after = now_boottime_ns();
	assert_int_equal(proc_start_ns((uint32_t)pid, &start), 0);
	assert_true(start + tick >= before);
	assert_true(start <= after);
	close(hold[1]);
	close(hold[0]);
	assert_int_equal(waitpid(pid, NULL, 0), pid);
}

static void test_thread_cpu_time(void **state)
{
	uint32_t pid = (uint32_t)getpid(), tid = (uint32_t)gettid();
	struct timespec ts;
	uint64_t v, clock_ns;

	(void)state;
	do { /* a few ticks of work, so that the kernel has added some */
		assert_int_equal(clock_gettime(CLOCK_THREAD_CPUTIME_ID, &ts), 0);
		clock_ns = (uint64_t)ts.tv_sec * NSEC_PER_SEC + (uint64_t)ts.tv_nsec;
	} while (clock_ns < 50 * NSEC_PER_MSEC);
	assert_int_equal(proc_thread_cpu_ns(pid, tid, &v), 0);
	assert_true(v > 0);
	assert_int_equal(clock_gettime(CLOCK_THREAD_CPUTIME_ID, &ts), 0);
	clock_ns = (uint64_t)ts.tv_sec * NSEC_PER_SEC + (uint64_t)ts.tv_nsec;
	assert_true(v <= clock_ns);
	assert_true(v + 40 * NSEC_PER_MSEC >= clock_ns);
}

static void copy_program(const char *from, const char *to)
{
	int in = open(from, O_RDONLY | O_CLOEXEC),
	    out = open(to, O_WRONLY | O_CREAT | O_CLOEXEC, 0700);
	char buf[4096];
	ssize_t n;

	assert_true(in >= 0 && out >= 0);
	while ((n = read(in, buf, sizeof(buf))) > 0)
		assert_int_equal(file_write_full(out, buf, (size_t)n), 0);
	assert_int_equal(n, 0);
	close(in);
	assert_int_equal(close(out), 0);
}

static void test_exe_of_a_program_that_was_removed(void **state)
{
	const char *path = tmp_path("sleeper (deleted)");
	char arg0[] = "sleeper", arg1[] = "600";
	char *const argv[] = {arg0, arg1, NULL};
	_cleanup_(sbuf_done) struct sbuf b;
	pid_t pid;

	(void)state;
	sbuf_init(&b, 4096);
	copy_program("/bin/sleep", path);
	assert_int_equal(posix_spawn(&pid, path, NULL, NULL, argv, environ),
	                 0); /* waits for the exec */
	assert_int_equal(proc_exe((uint32_t)pid, &b), 0);
	assert_string_equal(b.p, path);
	assert_int_equal(unlink(path), 0);
	sbuf_reset(&b);
	assert_int_equal(proc_exe((uint32_t)pid, &b), 0);
	assert_string_equal(b.p, path);
	assert_int_equal(kill(pid, SIGKILL), 0);
	assert_int_equal(waitpid(pid, NULL, 0), pid);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	        cmocka_unit_test(test_status_fields),
	        cmocka_unit_test(test_status_names),
	        cmocka_unit_test(test_status_tells_who_sleeps),
	        cmocka_unit_test(test_status_kernel_threads),
	        cmocka_unit_test(test_status_refuses_junk),
	        cmocka_unit_test(test_status_of_ourselves),
	        cmocka_unit_test(test_thread_names_its_process),
	        cmocka_unit_test(test_tasks_that_are_gone),
	        cmocka_unit_test(test_start_lies_where_the_child_began),
	        cmocka_unit_test(test_thread_cpu_time),
	        cmocka_unit_test(test_exe_of_a_program_that_was_removed),
	};
	int r;

	cmocka_set_message_output(CM_OUTPUT_TAP);
	if (!mkdtemp(tmp_dir))
		return 1;
	r = cmocka_run_group_tests(tests, NULL, NULL);
	(void)rmdir(tmp_dir);
	return r;
}
