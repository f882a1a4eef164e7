/* SPDX-License-Identifier: Apache-2.0 */
/* Targets, tasks and filters in the maps of the programs. */
#include "loader_skeleton.h"

static void test_process_map_is_written_and_read(void **state)
{
	struct load_oncpu *l = open_ok(ABI_TARGET_PID);
	const struct abi_proc p = {.first = 3, .cnt = 2, .exec_id = 9, .start_ns = 77};
	unsigned int before = open_fds();
	struct abi_range *r = load_ranges(l);

	(void)state;
	assert_int_equal(load_range_cnt(l), 1000);
	for (uint32_t i = 0; i < 1000; i++)
		r[i] = (struct abi_range){.start = i, .end = i + 1, .image = i};
	assert_int_equal(r[999].image, 999);
	assert_int_equal(load_proc_set(l, 42, &p), 0);
	assert_int_equal(load_proc_del(l, 42), 0);
	assert_int_equal(load_proc_del(l, 42), -ENOENT);
	for (uint32_t i = 0; i < 16; i++)
		assert_int_equal(load_proc_set(l, 100 + i, &p), 0);
	assert_int_equal(load_proc_set(l, 999, &p), -E2BIG);
	assert_int_equal(open_fds(), before);
	load_oncpu_free(l);
}

struct seen {
	struct abi_task self;
	unsigned int n;
};

static void on_task(void *arg, const struct abi_task *t)
{
	struct seen *s = arg;

	s->n++;
	if (t->tgid == (uint32_t)getpid())
		s->self = *t;
}

static void test_tasks_of_the_machine(void **state)
{
	struct load_oncpu *l = open_ok(ABI_TARGET_PID);
	struct seen s = {0};
	FILE *f;
	char comm[32] = "";
	int status;
	pid_t pid;

	(void)state;
	assert_int_equal(load_tasks(l, on_task, &s), 0);
	assert_true(s.n > 1);
	assert_int_equal(s.self.tgid, getpid());
	f = fopen("/proc/self/comm", "r");
	assert_non_null(f);
	assert_non_null(fgets(comm, sizeof(comm), f));
	fclose(f);
	comm[strcspn(comm, "\n")] = 0;
	assert_string_equal(s.self.comm, comm);
	assert_in_range(s.self.start_ns, 1, now_boottime_ns());
	/* A child was forked, not executed: the same count of execs, a later start. */
	pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		struct seen mine = {0};

		_exit(load_tasks(l, on_task, &mine) == 0 && mine.self.exec_id == s.self.exec_id &&
		                      mine.self.start_ns > s.self.start_ns
		              ? 0
		              : 1);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	load_oncpu_free(l);
}

static void nothing_counted(void *arg, const struct abi_count_key *k, const struct abi_count *v)
{
	(void)k;
	(void)v;
	(*(unsigned int *)arg)++;
}

static void test_tables_without_entries(void **state)
{
	struct load_oncpu *l = open_ok(ABI_TARGET_ALL);
	struct abi_counters c;
	unsigned int n = 0;

	(void)state;
	assert_int_equal(load_counts_drain(l, nothing_counted, &n), 0);
	assert_int_equal(load_control(l)->active, 1);
	assert_int_equal(load_counts_drain(l, nothing_counted, &n), 0);
	assert_int_equal(load_control(l)->active, 0);
	assert_int_equal(load_counts_drain_final(l, nothing_counted, &n), 0);
	assert_int_equal(n, 0);
	assert_int_equal(load_counters(l, &c), 0);
	for (int i = 0; i < ABI_CNT_MAX; i++)
		assert_int_equal(c.v[i], 0);
	load_oncpu_free(l);
}

static int cpu_clock(void)
{
	struct perf_event_attr a = {.type = PERF_TYPE_SOFTWARE,
	                            .size = sizeof(a),
	                            .config = PERF_COUNT_SW_CPU_CLOCK,
	                            .sample_period = 10000000,
	                            .disabled = 1};

	return (int)syscall(SYS_perf_event_open, &a, -1, 0, -1, PERF_FLAG_FD_CLOEXEC);
}

static void test_attaching_falls_back_to_the_ioctl(void **state)
{
	struct load_oncpu *l = open_ok(ABI_TARGET_ALL);
	struct err err = {0};
	int fd = cpu_clock();

	(void)state;
	assert_true(fd >= 0);
	fake.link_errno = EINVAL; /* a kernel before 5.15 */
	if (load_oncpu_attach(l, fd, &err) < 0)
		fail_msg("%s", err.msg);
	close(fd);
	fd = cpu_clock();
	fake.link_errno = EPERM;
	assert_int_equal(load_oncpu_attach(l, fd, &err), -EPERM);
	assert_non_null(strstr(err.msg, "BPF_LINK_CREATE"));
	assert_non_null(strstr(err.msg, "EPERM"));
	close(fd);
	load_oncpu_free(l);
}

/* Follows processes, what they fork too, or takes one of each filter. */
static struct load_oncpu *open_tree(bool follow, uint32_t n_cgroups)
{
	const struct abi_config cfg = {.target = ABI_TARGET_TREE,
	                               .follow = follow,
	                               .filters =
	                                       ABI_FILTER_TID | ABI_FILTER_COMM | ABI_FILTER_CGROUP,
	                               .n_cgroups = n_cgroups,
	                               .hash_seed = 1};
	struct load_oncpu *l = NULL;
	struct err err = {0};

	if (load_oncpu_open(&cfg, &sizes, &l, &err) < 0)
		fail_msg("%s", err.msg);
	return l;
}

/* Descriptor of the newest map of this name. */
static int map_of(const char *name)
{
	for (int fd = 1023; fd > 2; fd--) {
		struct bpf_map_info info = {0};
		uint32_t len = sizeof(info);

		if (bpf_obj_get_info_by_fd(fd, &info, &len) == 0 && strcmp(info.name, name) == 0)
			return fd;
	}
	fail_msg("no map %s", name);
	return -1;
}

static bool is_followed(pid_t pid)
{
	uint32_t key = (uint32_t)pid;
	uint64_t start = 0;

	return bpf_map_lookup_elem(map_of("followed"), &key, &start) == 0 && start != 0;
}

/* A child that waits for its end, and in @ret a child of its own. */
static pid_t fork_two(pid_t *ret)
{
	int p[2];
	pid_t pid;

	assert_int_equal(pipe(p), 0);
	pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		pid_t kid = fork();

		if (kid != 0 && write(p[1], &kid, sizeof(kid)) != sizeof(kid))
			_exit(1);
		for (;;)
			pause();
	}
	assert_int_equal(read(p[0], ret, sizeof(*ret)), sizeof(*ret));
	close(p[0]);
	close(p[1]);
	return pid;
}

static void end(pid_t pid)
{
	assert_int_equal(kill(pid, SIGKILL), 0);
	(void)waitpid(pid, NULL, 0); /* of those that are children of ours */
}

static void test_children_that_exist_are_followed_if_asked_for(void **state)
{
	pid_t kid, stranger_kid, pid = fork_two(&kid), stranger = fork_two(&stranger_kid);
	const uint32_t tgid = (uint32_t)pid;
	struct load_procs p = {.tgids = &tgid, .n = 1};
	struct err err = {0};

	(void)state;
	for (int existing = 0; existing < 2; existing++) {
		struct load_oncpu *l = open_tree(true, 0);

		p.existing = existing;
		if (load_follow(l, &p, &err) < 0)
			fail_msg("%s", err.msg);
		assert_true(is_followed(pid));
		assert_int_equal(is_followed(kid), existing);
		assert_false(is_followed(stranger));
		assert_false(is_followed(stranger_kid));
		assert_false(is_followed(getpid()));
		load_oncpu_free(l);
	}
	end(kid);
	end(pid);
	end(stranger_kid);
	end(stranger);
}

static void test_what_is_forked_meanwhile_is_followed(void **state)
{
	const uint32_t tgid = (uint32_t)getpid();
	const struct load_procs p = {.tgids = &tgid, .n = 1};
	struct load_oncpu *l = open_tree(true, 0);
	struct err err = {0};
	pid_t kid, pid;

	(void)state;
	if (load_follow(l, &p, &err) < 0)
		fail_msg("%s", err.msg);
	pid = fork_two(&kid);
	assert_true(is_followed(pid));
	assert_true(is_followed(kid));
	end(kid);
	end(pid);
	load_oncpu_free(l);
	/* Several without what they fork. */
	l = open_tree(false, 0);
	assert_int_equal(load_follow(l, &p, &err), 0);
	pid = fork_two(&kid);
	assert_true(is_followed(getpid()));
	assert_false(is_followed(pid));
	end(kid);
	end(pid);
	load_oncpu_free(l);
}

static void test_of_several_some_may_have_ended(void **state)
{
	struct load_oncpu *l = open_tree(false, 0);
	uint32_t tgids[2] = {(uint32_t)getpid()};
	struct load_procs p = {.tgids = tgids, .n = 2};
	struct err err = {0};
	pid_t pid = fork();

	(void)state;
	assert_true(pid >= 0);
	if (pid == 0)
		_exit(0);
	assert_int_equal(waitpid(pid, NULL, 0), pid);
	tgids[pid > getpid()] = (uint32_t)pid;
	tgids[pid <= getpid()] = (uint32_t)getpid();
	assert_int_equal(load_follow(l, &p, &err), 0);
	assert_true(is_followed(getpid()));
	assert_false(is_followed(pid));
	tgids[0] = (uint32_t)pid;
	p.n = 1;
	assert_int_equal(load_follow(l, &p, &err), -ESRCH);
	load_oncpu_free(l);
}

static void test_filters_are_filled(void **state)
{
	static const char *const comms[] = {"short", "a-name-of-20-bytes--", "pa*"};
	const uint32_t first = 0;
	struct abi_name_set set;
	struct load_oncpu *l = open_tree(false, 1);
	char cut[ABI_COMM_LEN] = "a-name-of-20-by";
	uint32_t tid = (uint32_t)gettid(), one;
	int tmp = open("/tmp", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	struct err err = {0};
	uint64_t start = 0;
	pid_t pid = fork();

	(void)state;
	assert_true(pid >= 0);
	if (pid == 0)
		_exit(0);
	assert_int_equal(waitpid(pid, NULL, 0), pid);
	assert_int_equal(load_filter_tids(l, &tid, 1, &err), 0);
	assert_int_equal(bpf_map_lookup_elem(map_of("tids"), &tid, &start), 0);
	assert_true(start != 0 && start < now_boottime_ns());
	tid = (uint32_t)pid;
	assert_int_equal(load_filter_tids(l, &tid, 1, &err), -ESRCH);
	assert_non_null(strstr(err.msg, "ended while"));

	assert_int_equal(load_filter_comms(l, comms, 3, &err), 0);
	assert_int_equal(bpf_map_lookup_elem(map_of("name_sets"), &first, &set), 0);
	assert_true(abi_name_matches(&set, 'p' | 'a' << 8 | 'x' << 16, 0));
	assert_false(abi_name_matches(&set, 'p', 0));
	assert_int_equal(bpf_map_lookup_elem(map_of("comms"), cut, &one), 0);
	memset(cut, 0, sizeof(cut));
	memcpy(cut, "short", 5);
	assert_int_equal(bpf_map_lookup_elem(map_of("comms"), cut, &one), 0);
	cut[0] = 'S';
	assert_int_equal(bpf_map_lookup_elem(map_of("comms"), cut, &one), -ENOENT);

	assert_true(tmp >= 0);
	assert_true(load_filter_cgroups(l, &tmp, 1, &err) < 0);
	assert_non_null(strstr(err.msg, "cgroup 0"));
	close(tmp);
	load_oncpu_free(l);
}

static void test_following_needs_a_process(void **state)
{
	struct load_oncpu *l = open_tree(true, 0);
	uint32_t tgid;
	const struct load_procs p = {.tgids = &tgid, .n = 1};
	unsigned int before = open_fds();
	struct err err = {0};
	int status;
	pid_t pid = fork();

	(void)state;
	assert_true(pid >= 0);
	if (pid == 0)
		_exit(0);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	tgid = (uint32_t)pid;
	assert_int_equal(load_follow(l, &p, &err), -ESRCH);
	assert_non_null(strstr(err.msg, "ESRCH"));
	/* Nothing stays attached; +1: the iterator over tasks, kept for the next time. */
	assert_int_equal(open_fds(), before + 1);
	tgid = (uint32_t)getpid();
	assert_int_equal(load_follow(l, &p, &err), 0);
	load_oncpu_free(l);
}

static void test_opening_and_freeing_leaves_nothing(void **state)
{
	unsigned int before = open_fds();

	(void)state;
	for (int i = 0; i < 5; i++)
		load_oncpu_free(open_ok(ABI_TARGET_ALL));
	assert_int_equal(open_fds(), before);
	assert_null(load_oncpu_free(NULL));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	        cmocka_unit_test_setup(test_process_map_is_written_and_read, reset),
	        cmocka_unit_test_setup(test_tasks_of_the_machine, reset),
	        cmocka_unit_test_setup(test_tables_without_entries, reset),
	        cmocka_unit_test_setup(test_attaching_falls_back_to_the_ioctl, reset),
	        cmocka_unit_test_setup(test_following_needs_a_process, reset),
	        cmocka_unit_test_setup(test_children_that_exist_are_followed_if_asked_for, reset),
	        cmocka_unit_test_setup(test_what_is_forked_meanwhile_is_followed, reset),
	        cmocka_unit_test_setup(test_of_several_some_may_have_ended, reset),
	        cmocka_unit_test_setup(test_filters_are_filled, reset),
	        cmocka_unit_test_setup(test_opening_and_freeing_leaves_nothing, reset),
	};

	if (!permitted()) {
		puts("1..0 # SKIP BPF objects may not be loaded here");
		return 0;
	}
	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
