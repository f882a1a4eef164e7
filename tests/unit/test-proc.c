/* SPDX-License-Identifier: Apache-2.0 */
#include "proc/proc.h"

#include <setjmp.h>
#include <stdarg.h>
#include <cmocka.h>

#include <fcntl.h>
#include <inttypes.h>
#include <linux/capability.h>
#include <spawn.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>

extern char **environ;

static char tmp_dir[] = "/tmp/test-proc-XXXXXX";

static const char *tmp_path(const char *name)
{
	static char path[256];

	snprintf(path, sizeof(path), "%s/%s", tmp_dir, name);
	return path;
}

/* A pid that is certainly free: a child that was waited for. */
static uint32_t gone_pid(void)
{
	pid_t pid = fork();

	if (pid == 0)
		_exit(0);
	assert_true(pid > 0);
	assert_int_equal(waitpid(pid, NULL, 0), pid);
	return (uint32_t)pid;
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

/* ---- lists of tasks ------------------------------------------------------------------------- */

static int find_pid(void *arg, uint32_t pid)
{
	return pid == *(uint32_t *)arg ? 7 : 0;
}

static int count_pid(void *arg, uint32_t pid)
{
	(void)pid;
	++*(uint32_t *)arg;
	return 0;
}

static void test_lists_of_tasks(void **state)
{
	uint32_t pid = (uint32_t)getpid(), none = gone_pid(), n = 0;

	(void)state;
	assert_int_equal(proc_each(find_pid, &pid, NULL), 7);
	assert_int_equal(proc_each(find_pid, &none, NULL), 0);
	assert_int_equal(proc_each_thread(pid, find_pid, &pid), 7);
	assert_int_equal(proc_each_thread(pid, count_pid, &n), 0);
	assert_true(n >= 1);
}

/* ---- this kernel ---------------------------------------------------------------------------- */

static void test_cpu_lists(void **state)
{
	static const struct {
		const char *s;
		int n;
		uint32_t cpus[4];
	} cases[] = {
	        {"0\n", 1, {0}},
	        {"0", 1, {0}},
	        {"0-3\n", 4, {0, 1, 2, 3}},
	        {"0-1,8\n", 3, {0, 1, 8}},
	        {"2,4-4,6", 3, {2, 4, 6}},
	        {"\n", 0, {0}},
	        {"", 0, {0}},
	        {"0-4", -E2BIG, {0}},
	        {"0-3,9", -E2BIG, {0}},
	        {"0-4294967295", -EINVAL, {0}},
	        {"0-2147483647", -E2BIG, {0}},
	        {"1-0", -EINVAL, {0}},
	        {"3,1", -EINVAL, {0}},
	        {"1,1", -EINVAL, {0}},
	        {"1,", -EINVAL, {0}},
	        {",1", -EINVAL, {0}},
	        {"1-", -EINVAL, {0}},
	        {"-1", -EINVAL, {0}},
	        {"1-2-3", -EINVAL, {0}},
	        {"0 ", -EINVAL, {0}},
	        {"0\n1\n", -EINVAL, {0}},
	        {"x", -EINVAL, {0}},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		uint32_t cpus[4];
		int n = proc_cpu_list_parse(cases[i].s, cpus, 4);

		if (n != cases[i].n)
			fail_msg("\"%s\": %d", cases[i].s, n);
		if (n > 0)
			assert_memory_equal(cpus, cases[i].cpus, (size_t)n * sizeof(cpus[0]));
	}
}

static void test_online_cpus(void **state)
{
	static uint32_t cpus[4096];
	long want = sysconf(_SC_NPROCESSORS_ONLN);
	struct err err = {0};
	int n;

	(void)state;
	n = proc_online_cpus(cpus, ARRAY_SIZE(cpus), NULL);
	assert_int_equal(n, want);
	for (int i = 1; i < n; i++)
		assert_true(cpus[i - 1] < cpus[i]);
	assert_int_equal(proc_online_cpus(cpus, 0, &err), -E2BIG);
	assert_int_equal(err.code, -E2BIG);
}

static void test_sysctl(void **state)
{
	int64_t v = 77;

	(void)state;
	assert_int_equal(proc_sysctl("kernel/no_such_setting", &v), -ENOENT);
	assert_int_equal(proc_sysctl("kernel/ostype", &v), -EINVAL); /* "Linux" */
	assert_int_equal(v, 77);
	assert_int_equal(proc_sysctl("kernel/pid_max", &v), 0);
	assert_true(v >= 300 && v <= 4194304);
}

static void test_pid_namespace(void **state)
{
	char want[64], link[64] = "";
	uint64_t dev, ino;
	bool initial;

	(void)state;
	assert_int_equal(proc_self_pidns(&dev, &ino, &initial), 0);
	assert_true(readlink("/proc/self/ns/pid", link, sizeof(link) - 1) > 0);
	snprintf(want, sizeof(want), "pid:[%" PRIu64 "]", ino);
	assert_string_equal(link, want);
	assert_int_equal(initial, strcmp(link, "pid:[4026531836]") == 0);
	assert_true(dev != 0);
}

/* Bit of "CapEff" of the calling thread. */
static uint64_t cap_eff(void)
{
	_cleanup_(sbuf_done) struct sbuf b;
	uint64_t v;
	char *p;

	sbuf_init(&b, 1 << 20);
	assert_int_equal(file_read_all(AT_FDCWD, "/proc/thread-self/status", &b, NULL), 0);
	p = strstr(b.p, "CapEff:\t");
	assert_non_null(p);
	p += strlen("CapEff:\t");
	p[strcspn(p, "\n")] = '\0';
	assert_int_equal(parse_u64(p, 16, &v), 0);
	return v;
}

static int child_without(int cap)
{
	struct __user_cap_header_struct head = {.version = _LINUX_CAPABILITY_VERSION_3};
	struct __user_cap_data_struct data[_LINUX_CAPABILITY_U32S_3] = {0};

	if (syscall(SYS_capget, &head, data) < 0)
		return 2;
	data[CAP_TO_INDEX(cap)].effective &= ~CAP_TO_MASK(cap);
	if (syscall(SYS_capset, &head, data) < 0)
		return 3;
	return cap_effective(cap) ? 4 : 0;
}

static void test_capabilities(void **state)
{
	uint64_t eff = cap_eff();
	pid_t pid;
	int status;

	(void)state;
	for (int cap = 0; cap <= CAP_LAST_CAP; cap++)
		assert_int_equal(cap_effective(cap), (eff >> cap) & 1);
	assert_false(cap_effective(-1));
	assert_false(cap_effective(64));
	pid = fork();
	if (pid == 0)
		_exit(child_without(CAP_PERFMON));
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
}

/* ---- notes ---------------------------------------------------------------------------------- */

static void add_note(struct sbuf *b, uint32_t name_len, uint32_t desc_len, uint32_t type,
                     const char *name, size_t name_bytes, size_t desc_bytes)
{
	uint32_t head[3] = {name_len, desc_len, type};

	sbuf_add(b, head, sizeof(head));
	sbuf_add(b, name, name_bytes);
	for (size_t i = 0; i < desc_bytes; i++)
		sbuf_char(b, (char)(i + 1));
}

static void test_notes(void **state)
{
	uint8_t id[EV_BUILD_ID_MAX];
	struct sbuf b;
	size_t len = 77;

	(void)state;
	sbuf_init(&b, 4096);
	assert_int_equal(proc_notes_build_id("", 0, id, &len), -ENOENT);
	add_note(&b, 6, 5, 0x100, "Linux\0\0", 8, 8); /* padded name and contents */
	add_note(&b, 4, 4, 1, "GNU", 4, 4);           /* another type */
	add_note(&b, 4, 4, 3, "XNU", 4, 4);           /* another owner */
	add_note(&b, 4, 0, 3, "GNU", 4, 0);           /* too short */
	add_note(&b, 4, 21, 3, "GNU", 4, 24);         /* too long */
	assert_int_equal(proc_notes_build_id(b.p, b.len, id, &len), -EINVAL);
	assert_int_equal(len, 77);
	add_note(&b, 4, 19, 3, "GNU", 4, 19); /* last, without its padding */
	assert_int_equal(proc_notes_build_id(b.p, b.len, id, &len), 0);
	assert_int_equal(len, 19);
	assert_int_equal(id[0], 1);
	assert_int_equal(id[18], 19);
	for (size_t cut = 1; cut < 32; cut++) /* never past the end */
		assert_int_equal(proc_notes_build_id(b.p, b.len - cut, id, &len), -EINVAL);
	sbuf_done(&b);
}

static void test_notes_with_absurd_sizes(void **state)
{
	static const uint32_t sizes[] = {5,          0x7fffffff, 0x80000000,
	                                 0xfffffffc, 0xfffffffd, 0xffffffff};
	uint8_t id[EV_BUILD_ID_MAX];
	size_t len = 77;

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(sizes); i++) {
		struct sbuf b;

		sbuf_init(&b, 4096);
		add_note(&b, sizes[i], 4, 3, "GNU", 4, 0);
		assert_int_equal(proc_notes_build_id(b.p, b.len, id, &len), -EINVAL);
		sbuf_reset(&b);
		add_note(&b, 4, sizes[i], 3, "GNU", 4, 4);
		assert_int_equal(proc_notes_build_id(b.p, b.len, id, &len), -EINVAL);
		sbuf_done(&b);
	}
	assert_int_equal(len, 77);
}

static void test_facts_of_this_kernel(void **state)
{
	static const char *const modes[] = {"", "none", "integrity", "confidentiality"};
	uint8_t id[EV_BUILD_ID_MAX];
	bool known = false;
	size_t len = 0;
	char mode[32];
	int r;

	(void)state;
	r = proc_kernel_build_id(id, &len);
	assert_true(r == 0 ? len >= 1 && len <= EV_BUILD_ID_MAX : r == -ENOENT || r == -EACCES);
	memset(mode, 'x', sizeof(mode));
	proc_lockdown(mode);
	for (size_t i = 0; i < ARRAY_SIZE(modes); i++)
		known = known || strcmp(mode, modes[i]) == 0;
	assert_true(known);
}

static void test_idle_time_of_cpus(void **state)
{
	static const char text[] = "cpu  9 9 9 9 9 9 9\n"
	                           "cpu0 1 2 3 100 10 5 6\n"
	                           "cpu1 1 2 3 200 20 5 6\n"
	                           "cpu3 1 2 3 400 40 5 6\n"
	                           "intr 1 2 3\n";
	static const char *const bad[] = {"cpu0 1 2 3\n", "cpu0 1 2 3 4 x\n",
	                                  "cpu0 1 2 3 99999999999999999999 1\n"};
	const uint32_t cpus[] = {0, 3}, gone[] = {0, 2};
	uint64_t ticks = 7, ns, later;

	(void)state;
	assert_int_equal(proc_idle_parse(text, sizeof(text) - 1, cpus, 2, &ticks), 0);
	assert_int_equal(ticks, 550);
	ticks = 7;
	assert_int_equal(proc_idle_parse(text, sizeof(text) - 1, gone, 2, &ticks), -ENODATA);
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
		assert_int_equal(proc_idle_parse(bad[i], strlen(bad[i]), cpus, 1, &ticks), -EINVAL);
	assert_int_equal(ticks, 7);
	assert_int_equal(proc_idle_ns(cpus, 1, &ns), 0);
	usleep(20000);
	assert_int_equal(proc_idle_ns(cpus, 1, &later), 0);
	assert_true(later >= ns);
	assert_true(later - ns < 60 * NSEC_PER_SEC);
}

/* ---- cgroups --------------------------------------------------------------------------------- */

static void test_mount_of_cgroups(void **state)
{
	static const struct {
		const char *text, *path; /* NULL: there is none */
	} cases[] = {
	        {"", NULL},
	        {"\n", NULL},
	        {"cgroup2", NULL},
	        {"cgroup2 /x", NULL},
	        {"cgroup2 cgroup2 cgroup2", "cgroup2"},
	        {"none  cgroup2 rw 0 0\n", NULL},
	        {"cgroup /sys/fs/cgroup/cpu cgroup rw,cpu 0 0\n", NULL},
	        {"cgroup2 /x cgroup22 rw 0 0\n", NULL},
	        {"cgroup /a cgroup rw 0 0\nnone /sys/fs/cgroup/unified cgroup2 rw 0 0\n"
	         "cgroup2 /second cgroup2 rw 0 0\n",
	         "/sys/fs/cgroup/unified"},
	        {"c /with\\040blank\\134\\011end cgroup2 rw 0 0", "/with blank\\\tend"},
	        {"c /no\\04 cgroup2 rw 0 0", "/no\\04"},
	        {"c /no\\999\\ cgroup2 rw 0 0", "/no\\999\\"},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct sbuf b;
		int r;

		sbuf_init(&b, 4096);
		r = proc_cgroup2_mount_parse(cases[i].text, strlen(cases[i].text), &b);
		assert_int_equal(r, cases[i].path ? 0 : -ENOENT);
		if (cases[i].path)
			assert_string_equal(b.p, cases[i].path);
		sbuf_done(&b);
	}
}

static void test_cgroup_of_a_process(void **state)
{
	static const struct {
		const char *text, *path; /* NULL: there is none */
	} cases[] = {
	        {"", NULL},
	        {"0::/\n", "/"},
	        {"0::/a.slice/b c:0::/d\n", "/a.slice/b c:0::/d"},
	        {"0::/end", "/end"},
	        {"0::\n", NULL},
	        {"0::relative\n", NULL},
	        {"12:cpu:/old\n1:name=systemd:/x\n", NULL},
	        {"12:cpu:/old\n0::/new\n0::/second\n", "/new"},
	        {"10::/x\n", NULL},
	};
	struct sbuf b;
	int r;

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		sbuf_init(&b, 4096);
		r = proc_cgroup_path_parse(cases[i].text, strlen(cases[i].text), &b);
		assert_int_equal(r, cases[i].path ? 0 : -ENOENT);
		if (cases[i].path)
			assert_string_equal(b.p, cases[i].path);
		sbuf_done(&b);
	}
	sbuf_init(&b, 4096);
	r = proc_cgroup_path((uint32_t)getpid(), &b);
	assert_true(r == 0 ? b.p[0] == '/' : r == -ENOENT); /* old hierarchies alone */
	sbuf_reset(&b);
	assert_int_equal(proc_cgroup_path(UINT32_MAX, &b), -ESRCH);
	sbuf_done(&b);
}

static void test_paths_that_are_no_cgroups(void **state)
{
	static const struct {
		const char *path;
		int code;
		const char *says;
	} cases[] = {
	        {"/tmp", -EINVAL, "cgroup /tmp is no cgroup"},
	        {"/proc/self/stat", -ENOTDIR, "is a file"},
	        {"/nowhere/at/all", -ENOENT, "cgroup /nowhere/at/all does not exist"},
	        {"nowhere at all", -ENOENT, "cgroup nowhere at all"},
	};
	struct sbuf b;

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct err err = {0};

		assert_int_equal(proc_cgroup_open(cases[i].path, &err), cases[i].code);
		assert_int_equal(err.code, cases[i].code);
		if (!strstr(err.msg, cases[i].says))
			fail_msg("'%s' is not in '%s'", cases[i].says, err.msg);
	}
	sbuf_init(&b, 4096);
	if (proc_cgroup2_mount(&b) == 0) {
		int fd = proc_cgroup_open(b.p, NULL), same = proc_cgroup_open(".", NULL);

		assert_true(fd >= 0 && same >= 0);
		close(fd);
		close(same);
	}
	sbuf_done(&b);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	        cmocka_unit_test(test_idle_time_of_cpus),
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
	        cmocka_unit_test(test_lists_of_tasks),
	        cmocka_unit_test(test_cpu_lists),
	        cmocka_unit_test(test_online_cpus),
	        cmocka_unit_test(test_sysctl),
	        cmocka_unit_test(test_pid_namespace),
	        cmocka_unit_test(test_capabilities),
	        cmocka_unit_test(test_notes),
	        cmocka_unit_test(test_notes_with_absurd_sizes),
	        cmocka_unit_test(test_facts_of_this_kernel),
	        cmocka_unit_test(test_mount_of_cgroups),
	        cmocka_unit_test(test_cgroup_of_a_process),
	        cmocka_unit_test(test_paths_that_are_no_cgroups),
	};
	int r;

	cmocka_set_message_output(CM_OUTPUT_TAP);
	if (!mkdtemp(tmp_dir))
		return 1;
	r = cmocka_run_group_tests(tests, NULL, NULL);
	(void)rmdir(tmp_dir);
	return r;
}
