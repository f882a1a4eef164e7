/* SPDX-License-Identifier: Apache-2.0 */
/* Counting events for each CPU and core type, with a kernel of the test's own. */
#include "fake_perf.h"

#define HW        pev_counters_hardware
#define CPU_END   300 /* CPUs of these tests: 0 … 299 */
#define EXT(type) ((uint64_t)(type) << 32)

static const uint32_t cpus[8] = {0, 1, 2, 3, 4, 5, 6, 7}, alike[8] = {0};
static const struct pev_core_type plain[1] = {{"", UINT32_MAX}};
static const struct pev_counter_cpus eight = {cpus, alike, 8, plain, 1};

/* Two and six: P- and E-cores. */
static const uint32_t two_six[8] = {0, 0, 1, 1, 1, 1, 1, 1};
static const struct pev_core_type core_atom[2] = {{"cpu_core", 4}, {"cpu_atom", 10}};
static const struct pev_counter_cpus hybrid = {cpus, two_six, 8, core_atom, 2};

/* ---- what the kernel answers ----------------------------------------------------------------- */

static struct answers {
	int of_config[16];      /* errno by low half of config */
	int of_cpu[CPU_END];    /* errno by CPU */
	unsigned int fail_from; /* the nth open and all after it, from 1 … */
	int fail_errno;         /* … fail so */
	unsigned int gone_from; /* from the nth open on CPU gone_cpu is offline */
	int gone_cpu;
	bool knows_types;  /* the upper half of config, as hybrid x86 */
	bool own_pmu_only; /* … and without it CPUs of other types are refused */
	unsigned int calls, extended, wrong_type;
} kernel;

static int answer(const struct perf_event_attr *attr, int cpu)
{
	uint32_t type = (uint32_t)(attr->config >> 32), config = (uint32_t)attr->config;

	kernel.calls++;
	assert_true(cpu >= 0 && cpu < CPU_END);
	if (type != 0) {
		kernel.extended++;
		if (!kernel.knows_types)
			return ENOENT;
		if (type != core_atom[two_six[cpu]].perf_type) {
			kernel.wrong_type++;
			return ENOENT;
		}
	} else if (kernel.own_pmu_only && attr->type == PERF_TYPE_HARDWARE && cpu >= 2) {
		return ENOENT;
	}
	if (kernel.gone_from && kernel.calls >= kernel.gone_from && cpu == kernel.gone_cpu)
		return ENODEV;
	if (kernel.fail_from && kernel.calls >= kernel.fail_from)
		return kernel.fail_errno;
	if (kernel.of_cpu[cpu])
		return kernel.of_cpu[cpu];
	return config < 16 ? kernel.of_config[config] : EINVAL;
}

static int setup(void **state)
{
	int r = fake_setup(state);

	kernel = (struct answers){0};
	fake.refuse = answer;
	return r;
}

static unsigned int open_in(const struct pev_counters *s, uint32_t counter)
{
	unsigned int n = 0;

	for (uint32_t i = 0; i < s->n_cpus; i++) {
		int fd = pev_counters_fd(s, counter, s->cpu[i]);

		n += fd >= 0;
		if (fd >= 0)
			assert_int_equal(write(fd, "", 0), 0); /* it is open, and ours */
	}
	return n;
}

static void assert_says(const struct pev_counter_state *st, const char *words)
{
	assert_non_null(st->why);
	if (!strstr(st->why, words))
		fail_msg("no \"%s\" in: %s", words, st->why);
}

/* ---- what is asked --------------------------------------------------------------------------- */

static void test_attributes_of_a_counter(void **state)
{
	struct perf_event_attr want = {0};
	unsigned int before = open_fds();
	struct pev_counters set;

	(void)state;
	want.type = PERF_TYPE_HARDWARE;
	want.config = PERF_COUNT_HW_BRANCH_MISSES;
	want.size = sizeof(want);
	want.read_format = PERF_FORMAT_TOTAL_TIME_ENABLED | PERF_FORMAT_TOTAL_TIME_RUNNING;
	want.disabled = 1;
	assert_int_equal(pev_counters_open(HW, PEV_HARDWARE_CNT, &eight, &set, NULL), 0);
	assert_memory_equal(&fake.attr, &want, sizeof(want));
	assert_int_equal(fake.pid, -1);
	assert_int_equal(fake.cpu, 7);
	assert_int_equal(fake.open_flags, PERF_FLAG_FD_CLOEXEC);
	assert_int_equal(fake.enabled, 0);
	assert_int_equal(set.opened, 48);
	assert_int_equal(set.offline_cpus, 0);
	assert_int_equal(kernel.extended, 0);
	for (uint32_t c = 0; c < PEV_HARDWARE_CNT; c++) {
		const struct pev_counter_state *st = pev_counters_state(&set, c, 0);

		assert_int_equal(open_in(&set, c), 8);
		assert_int_equal(st->opened, 8);
		assert_int_equal(st->failed, 0);
		assert_int_equal(st->error, 0);
		assert_int_equal(st->some_error, 0);
		assert_null(st->why);
	}
	assert_int_equal(open_fds(), before + 48);
	assert_int_equal(pev_counters_fd(&set, 0, 8), -ESRCH);
	assert_int_equal(pev_counters_close(&set), 0);
	assert_int_equal(open_fds(), before);
	assert_null(set.fd);
	assert_int_equal(pev_counters_close(&set), 0);
}

static void test_names_of_counters(void **state)
{
	static const char *const hw[] = {"cycles",       "instructions", "cache-references",
	                                 "cache-misses", "branches",     "branch-misses"};
	static const char *const sw[] = {"page-faults", "cpu-migrations", "context-switches",
	                                 "cpu-clock"};

	(void)state;
	for (size_t i = 0; i < PEV_HARDWARE_CNT; i++) {
		assert_string_equal(HW[i].name, hw[i]);
		assert_int_equal(HW[i].type, PERF_TYPE_HARDWARE);
	}
	for (size_t i = 0; i < PEV_SOFTWARE_CNT; i++) {
		assert_string_equal(pev_counters_software[i].name, sw[i]);
		assert_int_equal(pev_counters_software[i].type, PERF_TYPE_SOFTWARE);
	}
}

static void test_arguments_out_of_range(void **state)
{
	static const uint32_t twice[2] = {3, 3}, types[2] = {0, 2};
	static const struct pev_counter_spec wide = {"wide", PERF_TYPE_HARDWARE, EXT(4)};
	const struct pev_counter_cpus bad[] = {
	        {cpus, alike, 0, plain, 1},     {cpus, alike, PEV_COUNTER_CPUS_MAX + 1, plain, 1},
	        {cpus, alike, 8, plain, 0},     {twice, alike, 2, plain, 1},
	        {cpus, types, 2, core_atom, 2},
	};
	struct pev_counters set = {.opened = 77};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		struct err err = {0};

		assert_int_equal(pev_counters_open(HW, 1, &bad[i], &set, &err), -EINVAL);
		assert_int_equal(err.code, -EINVAL);
	}
	assert_int_equal(pev_counters_open(HW, 0, &eight, &set, NULL), -EINVAL);
	assert_int_equal(pev_counters_open(HW, PEV_COUNTERS_MAX + 1, &eight, &set, NULL), -EINVAL);
	assert_int_equal(pev_counters_open(&wide, 1, &eight, &set, NULL), -EINVAL);
	fake.no_memory = true;
	assert_int_equal(pev_counters_open(HW, 1, &eight, &set, NULL), -ENOMEM);
	assert_int_equal(set.opened, 77);
	assert_int_equal(kernel.calls, 0);
}

/* ---- counters that are missing --------------------------------------------------------------- */

static void test_missing_counter_keeps_its_errno_and_not_the_others(void **state)
{
	const struct pev_counter_state *st;
	unsigned int before = open_fds();
	struct pev_counters set;

	(void)state;
	kernel.of_config[PERF_COUNT_HW_CACHE_REFERENCES] = ENOENT;
	kernel.of_config[PERF_COUNT_HW_BRANCH_MISSES] = EOPNOTSUPP;
	assert_int_equal(pev_counters_open(HW, PEV_HARDWARE_CNT, &eight, &set, NULL), 0);
	assert_int_equal(set.opened, 32);
	assert_int_equal(set.offline_cpus, 0);
	st = pev_counters_state(&set, 2, 0);
	assert_int_equal(st->error, -ENOENT);
	assert_int_equal(st->some_error, 0);
	assert_int_equal(st->opened, 0);
	assert_int_equal(st->failed, 8);
	assert_says(st, "cache-references: perf_event_open cpu 0: no such file or directory "
	                "(ENOENT): this machine has no ");
	st = pev_counters_state(&set, 5, 0);
	assert_int_equal(st->error, -EOPNOTSUPP);
	assert_says(st, "branch-misses: ");
	assert_int_equal(pev_counters_fd(&set, 2, 3), -ENOENT);
	assert_int_equal(pev_counters_fd(&set, 5, 3), -EOPNOTSUPP);
	for (uint32_t c = 0; c < PEV_HARDWARE_CNT; c++)
		assert_int_equal(open_in(&set, c), c == 2 || c == 5 ? 0 : 8);
	assert_int_equal(pev_counters_close(&set), 0);
	assert_int_equal(open_fds(), before);
}

static void test_machine_without_any(void **state)
{
	static const int errnos[] = {ENOENT, ENODEV, EACCES, EPERM, ENOSYS};
	unsigned int before = open_fds();

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(errnos); i++) {
		struct pev_counters set;

		kernel.fail_from = 1;
		kernel.fail_errno = errnos[i];
		assert_int_equal(pev_counters_open(HW, 2, &eight, &set, NULL), 0);
		assert_int_equal(set.opened, 0);
		assert_int_equal(set.offline_cpus, 0); /* not even with ENODEV */
		for (uint32_t c = 0; c < 2; c++) {
			const struct pev_counter_state *st = pev_counters_state(&set, c, 0);

			assert_int_equal(st->error, -errnos[i]);
			assert_says(st, err_symbol(errnos[i]));
		}
		assert_int_equal(pev_counters_enable(&set, NULL), 0);
		assert_int_equal(fake.enabled, 0);
		assert_int_equal(pev_counters_close(&set), 0);
	}
	assert_int_equal(open_fds(), before);
}

static void test_refusals_name_setting_and_capability(void **state)
{
	struct pev_counters set;

	(void)state;
	kernel.fail_from = 1;
	kernel.fail_errno = EACCES;
	assert_int_equal(pev_counters_open(HW, 1, &eight, &set, NULL), 0);
	assert_says(pev_counters_state(&set, 0, 0),
	            "permission denied (EACCES): kernel.perf_event_paranoid=");
	assert_says(pev_counters_state(&set, 0, 0), "CAP_PERFMON: run as root");
	assert_int_equal(pev_counters_close(&set), 0);

	fake.user_ns = true;
	assert_int_equal(pev_counters_open(HW, 1, &eight, &set, NULL), 0);
	assert_says(pev_counters_state(&set, 0, 0), "permission denied (EACCES): a user namespace");
	assert_int_equal(pev_counters_close(&set), 0);
}

/* ---- CPUs that are missing ------------------------------------------------------------------- */

static void test_offline_cpu_disables_nothing(void **state)
{
	unsigned int before = open_fds();
	struct pev_counters set;

	(void)state;
	kernel.of_cpu[3] = ENODEV;
	kernel.of_cpu[5] = ESRCH;
	kernel.of_config[PERF_COUNT_HW_INSTRUCTIONS] = ENOENT;
	assert_int_equal(pev_counters_open(HW, 3, &eight, &set, NULL), 0);
	assert_int_equal(set.offline_cpus, 2);
	assert_int_equal(set.opened, 12);
	for (uint32_t c = 0; c < 3; c++) {
		const struct pev_counter_state *st = pev_counters_state(&set, c, 0);

		assert_int_equal(st->opened, c == 1 ? 0 : 6);
		assert_int_equal(st->failed, c == 1 ? 6 : 0);
		assert_int_equal(st->error, c == 1 ? -ENOENT : 0);
		assert_int_equal(st->some_error, 0);
	}
	assert_int_equal(pev_counters_fd(&set, 0, 3), -ENODEV);
	assert_int_equal(pev_counters_enable(&set, NULL), 0);
	assert_int_equal(fake.enabled, 12);
	assert_int_equal(pev_counters_close(&set), 0);
	assert_int_equal(open_fds(), before);
}

/* ENODEV for one counter only is not a CPU that is offline. */
static void test_failure_on_some_cpus_is_reported(void **state)
{
	const struct pev_counter_state *st;
	struct pev_counters set;

	(void)state;
	kernel.of_config[PERF_COUNT_HW_CACHE_MISSES] = ENODEV;
	assert_int_equal(pev_counters_open(HW, 4, &eight, &set, NULL), 0);
	assert_int_equal(set.offline_cpus, 0);
	assert_int_equal(pev_counters_state(&set, 3, 0)->error, -ENODEV);
	assert_int_equal(pev_counters_state(&set, 3, 0)->failed, 8);
	assert_int_equal(pev_counters_close(&set), 0);

	kernel = (struct answers){.of_cpu = {[6] = EBUSY, [7] = EINVAL}};
	assert_int_equal(pev_counters_open(HW, 2, &eight, &set, NULL), 0);
	for (uint32_t c = 0; c < 2; c++) {
		st = pev_counters_state(&set, c, 0);
		assert_int_equal(st->error, 0);
		assert_int_equal(st->some_error, -EBUSY);
		assert_int_equal(st->opened, 6);
		assert_int_equal(st->failed, 2);
		assert_says(st, HW[c].name);
		assert_says(st, ": perf_event_open cpu 6: EBUSY: ");
	}
	assert_int_equal(pev_counters_close(&set), 0);
}

static void test_cpu_that_goes_meanwhile_keeps_what_it_has(void **state)
{
	struct pev_counters set;

	(void)state;
	kernel.gone_from = 9;
	kernel.gone_cpu = 4;
	assert_int_equal(pev_counters_open(HW, 2, &eight, &set, NULL), 0);
	assert_int_equal(set.offline_cpus, 0);
	assert_int_equal(set.opened, 15);
	assert_int_equal(pev_counters_state(&set, 0, 0)->opened, 8);
	assert_int_equal(pev_counters_state(&set, 1, 0)->opened, 7);
	assert_int_equal(pev_counters_state(&set, 1, 0)->failed, 1);
	assert_int_equal(pev_counters_state(&set, 1, 0)->some_error, -ENODEV);
	assert_int_equal(pev_counters_close(&set), 0);
}

static void test_core_type_that_went_offline(void **state)
{
	struct pev_counters set;

	(void)state;
	kernel.knows_types = true;
	kernel.of_cpu[0] = kernel.of_cpu[1] = ENODEV;
	assert_int_equal(pev_counters_open(HW, 2, &hybrid, &set, NULL), 0);
	assert_int_equal(set.offline_cpus, 2);
	for (uint32_t c = 0; c < 2; c++) {
		const struct pev_counter_state *st = pev_counters_state(&set, c, 0);

		assert_int_equal(st->error, -ENODEV);
		assert_int_equal(st->opened + st->failed, 0);
		assert_says(st, "on cpu_core: ENODEV: all of these CPUs are offline");
		assert_int_equal(pev_counters_state(&set, c, 1)->opened, 6);
		assert_int_equal(pev_counters_state(&set, c, 1)->error, 0);
	}
	assert_int_equal(pev_counters_close(&set), 0);
}

static void test_two_hundred_cpus_with_holes(void **state)
{
	static const uint32_t same[200] = {0};
	uint32_t nr[200];
	struct pev_counter_cpus many = {nr, same, 200, plain, 1};
	unsigned int before = open_fds();
	struct pev_counters set;

	(void)state;
	for (uint32_t i = 0; i < 200; i++)
		nr[i] = i + i / 2; /* without every third */
	assert_int_equal(nr[199], 298);
	kernel.of_cpu[298] = ENODEV;
	assert_int_equal(pev_counters_open(HW, 2, &many, &set, NULL), 0);
	assert_int_equal(set.offline_cpus, 1);
	assert_int_equal(set.opened, 398);
	for (uint32_t cpu = 0; cpu < CPU_END; cpu++) {
		int fd = pev_counters_fd(&set, 1, cpu);

		if (cpu == 298)
			assert_int_equal(fd, -ENODEV);
		else if (cpu % 3 == 2 || cpu > 298)
			assert_int_equal(fd, -ESRCH);
		else
			assert_true(fd >= 0);
	}
	assert_int_equal(pev_counters_close(&set), 0);
	assert_int_equal(open_fds(), before);
}

/* ---- core types ------------------------------------------------------------------------------ */

static void test_hybrid_names_the_pmu_of_each_core_type(void **state)
{
	const struct pev_counter_state *st;
	struct pev_counters set;

	(void)state;
	kernel.knows_types = kernel.own_pmu_only = true;
	assert_int_equal(pev_counters_open(HW, PEV_HARDWARE_CNT, &hybrid, &set, NULL), 0);
	assert_int_equal(set.opened, 48);
	assert_int_equal(kernel.extended, 48);
	assert_int_equal(kernel.calls, 48);
	assert_int_equal(kernel.wrong_type, 0);
	assert_int_equal(fake.attr.type, PERF_TYPE_HARDWARE);
	assert_true(fake.attr.config == (EXT(10) | PERF_COUNT_HW_BRANCH_MISSES));
	assert_int_equal(pev_counters_state(&set, 0, 0)->opened, 2);
	assert_int_equal(pev_counters_state(&set, 0, 1)->opened, 6);
	assert_int_equal(pev_counters_close(&set), 0);

	/* A counter that only one of them has. */
	for (int cpu = 2; cpu < 8; cpu++)
		kernel.of_cpu[cpu] = EINVAL;
	assert_int_equal(pev_counters_open(HW, 1, &hybrid, &set, NULL), 0);
	assert_int_equal(pev_counters_state(&set, 0, 0)->opened, 2);
	st = pev_counters_state(&set, 0, 1);
	assert_int_equal(st->opened, 0);
	assert_int_equal(st->failed, 6);
	assert_int_not_equal(st->error, 0);
	assert_says(st, "cycles on cpu_atom: perf_event_open cpu 2: ");
	assert_int_equal(pev_counters_close(&set), 0);
}

/* arm64 before 6.6: the CPU alone decides. */
static void test_kernel_that_does_not_know_core_types(void **state)
{
	struct pev_counters set;

	(void)state;
	assert_int_equal(pev_counters_open(HW, 3, &hybrid, &set, NULL), 0);
	assert_int_equal(set.opened, 24);
	assert_int_equal(kernel.extended, 2); /* one for each type, then it is known */
	assert_int_equal(kernel.calls, 26);
	assert_true(fake.attr.config == PERF_COUNT_HW_CACHE_REFERENCES);
	assert_int_equal(pev_counters_state(&set, 2, 1)->opened, 6);
	assert_int_equal(pev_counters_close(&set), 0);
}

static void test_cpus_without_core_type_count_in_software_only(void **state)
{
	static const uint32_t types[8] = {
	        0, 0, 1, 1, 1, 1, PEV_COUNTER_NO_CORE_TYPE, PEV_COUNTER_NO_CORE_TYPE};
	const struct pev_counter_cpus some = {cpus, types, 8, core_atom, 2};
	const struct pev_counter_spec specs[2] = {HW[0], pev_counters_software[0]};
	const struct pev_counter_state *st;
	struct pev_counters set;

	(void)state;
	kernel.knows_types = true;
	assert_int_equal(pev_counters_open(specs, 2, &some, &set, NULL), 0);
	assert_int_equal(open_in(&set, 0), 6);
	assert_int_equal(open_in(&set, 1), 8);
	assert_int_equal(set.offline_cpus, 0);
	st = pev_counters_state(&set, 0, PEV_COUNTER_NO_CORE_TYPE);
	assert_int_equal(st->error, -ENOENT);
	assert_int_equal(st->failed, 2);
	assert_says(
	        st,
	        "cycles: cpu 6: no such file or directory (ENOENT): no core type is known for it");
	st = pev_counters_state(&set, 1, PEV_COUNTER_NO_CORE_TYPE);
	assert_int_equal(st->opened, 2);
	assert_int_equal(st->error, 0);
	/* Software events belong to no PMU. */
	assert_int_equal(fake.attr.type, PERF_TYPE_SOFTWARE);
	assert_true(fake.attr.config == PERF_COUNT_SW_PAGE_FAULTS);
	assert_int_equal(pev_counters_close(&set), 0);
}

/* ---- limits ---------------------------------------------------------------------------------- */

static void test_limit_leaves_whole_counters(void **state)
{
	static const struct {
		int error;
		const char *words[2];
	} cases[] = {
	        {EMFILE, {"EMFILE: RLIMIT_NOFILE is ", "(6 counters on 8 CPUs are 48)"}},
	        {ENFILE, {"ENFILE: ", "fs.file-max"}},
	        {ENOMEM, {"ENOMEM: ", "memory limit of this cgroup"}},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		unsigned int before = open_fds();
		struct pev_counters set;

		kernel = (struct answers){.fail_from = 22, .fail_errno = cases[i].error};
		assert_int_equal(pev_counters_open(HW, PEV_HARDWARE_CNT, &eight, &set, NULL), 0);
		/* 16 of two counters stay, 5 of the third are closed, the rest is not tried */
		assert_int_equal(kernel.calls, 22);
		assert_int_equal(set.opened, 16);
		assert_int_equal(set.offline_cpus, 0);
		assert_int_equal(open_fds(), before + 16);
		for (uint32_t c = 0; c < PEV_HARDWARE_CNT; c++) {
			const struct pev_counter_state *st = pev_counters_state(&set, c, 0);

			assert_int_equal(open_in(&set, c), c < 2 ? 8 : 0);
			assert_int_equal(st->opened, c < 2 ? 8 : 0);
			assert_int_equal(st->error, c < 2 ? 0 : -cases[i].error);
			if (c < 2)
				continue;
			assert_says(st, HW[c].name);
			assert_says(st, cases[i].words[0]);
			assert_says(st, cases[i].words[1]);
			assert_int_equal(pev_counters_fd(&set, c, 0), -cases[i].error);
		}
		assert_int_equal(pev_counters_close(&set), 0);
		assert_int_equal(open_fds(), before);
	}
}

static void test_limit_and_offline_cpus(void **state)
{
	unsigned int before = open_fds();
	struct pev_counters set;

	(void)state;
	kernel = (struct answers){.fail_from = 10, .fail_errno = EMFILE};
	kernel.of_cpu[2] = ENODEV;
	assert_int_equal(pev_counters_open(HW, 3, &eight, &set, NULL), 0);
	assert_int_equal(set.opened, 7);
	assert_int_equal(set.offline_cpus, 1);
	assert_int_equal(pev_counters_state(&set, 0, 0)->error, 0);
	assert_int_equal(pev_counters_state(&set, 1, 0)->error, -EMFILE);
	assert_int_equal(pev_counters_state(&set, 2, 0)->error, -EMFILE);
	assert_int_equal(pev_counters_close(&set), 0);
	assert_int_equal(open_fds(), before);
}

/* ---- use ------------------------------------------------------------------------------------- */

static void test_enable_is_all_or_none(void **state)
{
	struct pev_counters set;
	struct err err = {0};

	(void)state;
	kernel.of_config[PERF_COUNT_HW_INSTRUCTIONS] = ENOENT;
	assert_int_equal(pev_counters_open(HW, 3, &eight, &set, NULL), 0);
	assert_int_equal(pev_counters_enable(&set, &err), 0);
	assert_int_equal(fake.enabled, 16);
	fake.enabled = 0;
	fake.enable_fail_at = 11;
	assert_int_equal(pev_counters_enable(&set, &err), -EIO);
	assert_non_null(strstr(err.msg, "counter 2 of cpu 2: input/output error (EIO)"));
	assert_int_equal(fake.disabled, 16);
	fake.disable_errno = ENXIO;
	assert_int_equal(pev_counters_disable(&set), -ENXIO);
	assert_int_equal(fake.disabled, 32);
	assert_int_equal(pev_counters_close(&set), 0);
}

static void test_close_goes_on_after_an_error(void **state)
{
	unsigned int before = open_fds();
	struct pev_counters set;

	(void)state;
	assert_int_equal(pev_counters_open(HW, 2, &eight, &set, NULL), 0);
	assert_int_equal(close(pev_counters_fd(&set, 0, 4)), 0);
	assert_int_equal(pev_counters_close(&set), -EBADF);
	assert_int_equal(open_fds(), before);
}

static void test_read_gives_value_and_times(void **state)
{
	static const struct pev_count v = {UINT32_MAX + 5ULL, 1000, 250};
	struct pev_count got = {.value = 77};
	struct pev_counters set;
	int fd;

	(void)state;
	kernel.of_config[PERF_COUNT_HW_INSTRUCTIONS] = ENOENT;
	assert_int_equal(pev_counters_open(HW, 2, &eight, &set, NULL), 0);
	assert_int_equal(pev_counters_read(&set, 0, 5, &got), -EIO); /* an empty file */
	assert_int_equal(pev_counters_read(&set, 1, 5, &got), -ENOENT);
	assert_int_equal(pev_counters_read(&set, 0, 50, &got), -ESRCH);
	assert_int_equal(got.value, 77);
	fd = pev_counters_fd(&set, 0, 5);
	assert_int_equal(write(fd, &v, sizeof(v)), sizeof(v));
	assert_int_equal(lseek(fd, 0, SEEK_SET), 0);
	assert_int_equal(pev_counters_read(&set, 0, 5, &got), 0);
	assert_memory_equal(&got, &v, sizeof(v));
	assert_int_equal(pev_counters_close(&set), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define T(name) cmocka_unit_test_setup_teardown(name, setup, fake_teardown)
	        T(test_attributes_of_a_counter),
	        T(test_names_of_counters),
	        T(test_arguments_out_of_range),
	        T(test_missing_counter_keeps_its_errno_and_not_the_others),
	        T(test_machine_without_any),
	        T(test_refusals_name_setting_and_capability),
	        T(test_offline_cpu_disables_nothing),
	        T(test_failure_on_some_cpus_is_reported),
	        T(test_cpu_that_goes_meanwhile_keeps_what_it_has),
	        T(test_core_type_that_went_offline),
	        T(test_two_hundred_cpus_with_holes),
	        T(test_hybrid_names_the_pmu_of_each_core_type),
	        T(test_kernel_that_does_not_know_core_types),
	        T(test_cpus_without_core_type_count_in_software_only),
	        T(test_limit_leaves_whole_counters),
	        T(test_limit_and_offline_cpus),
	        T(test_enable_is_all_or_none),
	        T(test_close_goes_on_after_an_error),
	        T(test_read_gives_value_and_times),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
