/* SPDX-License-Identifier: Apache-2.0 */
/* Facts about this kernel, notes and cgroups. */
#include "proc_files.h"

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
