/* SPDX-License-Identifier: Apache-2.0 */
#include "perf_records.h"

/* ---- what is asked of the kernel ------------------------------------------------------------ */

static void test_attributes_of_a_cpu_clock(void **state)
{
	struct pev_spec s = pev_spec_cpu_clock(99);
	struct perf_event_attr want = {0};
	struct pev_set set;

	(void)state;
	want.type = PERF_TYPE_SOFTWARE;
	want.config = PERF_COUNT_SW_CPU_CLOCK;
	want.size = sizeof(want);
	want.sample_period = pev_cpu_period(&s, 3);
	want.disabled = 1;
	assert_int_equal(pev_open_cpus(&s, cpus, 4, &set, NULL), 0);
	assert_memory_equal(&fake.attr, &want, sizeof(want));
	assert_int_equal(fake.pid, -1);
	assert_int_equal(fake.cpu, 3);
	assert_int_equal(fake.open_flags, PERF_FLAG_FD_CLOEXEC);
	assert_int_equal(set.n, 4);
	assert_int_equal(set.skipped_cpus, 0);
	for (uint32_t i = 0; i < 4; i++) {
		assert_int_equal(set.e[i].cpu, i);
		assert_int_equal(set.e[i].fd, fake.fd[i]);
	}
	assert_int_equal(fake.enabled, 0);
	assert_int_equal(pev_set_close(&set), 0);
	assert_null(set.e);
	assert_int_equal(set.n, 0);
}

static void test_each_cpu_has_a_period_of_its_own(void **state)
{
	static const uint32_t rates[] = {1, 99, 997, 9999, 97000};
	uint64_t *seen = calloc(PEV_CPUS_MAX, sizeof(*seen));

	(void)state;
	assert_non_null(seen);
	for (size_t k = 0; k < ARRAY_SIZE(rates); k++) {
		struct pev_spec s = pev_spec_cpu_clock(rates[k]);
		uint64_t sum = 0;

		assert_int_equal(pev_cpu_period(&s, 0), s.period);
		for (uint32_t i = 0; i < PEV_CPUS_MAX; i++) {
			uint64_t p = pev_cpu_period(&s, i);

			assert_in_range(p, s.period - s.period / 40, s.period + s.period / 40);
			assert_true(p >= 10000);
			seen[i] = p;
			sum += p;
		}
		/* All CPUs together sample at the rate that was asked for. */
		assert_in_range(sum / PEV_CPUS_MAX, s.period - s.period / 1000,
		                s.period + s.period / 1000);
		if (rates[k] > 997)
			continue; /* fewer nanoseconds to choose from than there are CPUs */
		/* No two of up to 64 CPUs are nearer than a quarter of an even spread. */
		for (uint32_t i = 0; i < 64; i++)
			for (uint32_t j = 0; j < i; j++) {
				uint64_t apart =
				        seen[i] > seen[j] ? seen[i] - seen[j] : seen[j] - seen[i];

				assert_true(apart >= s.period / 20 / 64 / 4);
			}
	}
	free(seen);
}

static void test_other_events_have_one_period(void **state)
{
	static const struct pev_spec specs[] = {
	        {PERF_TYPE_HARDWARE, PERF_COUNT_HW_CPU_CYCLES, 99, true},
	        {PERF_TYPE_HARDWARE, PERF_COUNT_HW_CPU_CYCLES, 1000000, false},
	        {PERF_TYPE_SOFTWARE, PERF_COUNT_SW_CPU_CLOCK, 99, true},
	        {PERF_TYPE_SOFTWARE, PERF_COUNT_SW_PAGE_FAULTS, 1000000, false},
	        {PERF_TYPE_SOFTWARE, PERF_COUNT_SW_CPU_CLOCK, 5000, false},
	};

	(void)state;
	for (size_t k = 0; k < ARRAY_SIZE(specs); k++)
		for (uint32_t i = 0; i < 4; i++) {
			if (k == 4) /* below what the kernel keeps: not shorter still */
				assert_true(pev_cpu_period(&specs[k], i) >= specs[k].period);
			else
				assert_int_equal(pev_cpu_period(&specs[k], i), specs[k].period);
		}
}

static void test_names_of_events(void **state)
{
	static const struct {
		struct pev_spec s;
		const char *name;
	} cases[] = {
	        {{PERF_TYPE_SOFTWARE, PERF_COUNT_SW_CPU_CLOCK, 1, false}, "software/cpu-clock"},
	        {{PERF_TYPE_HARDWARE, PERF_COUNT_HW_CPU_CYCLES, 1, false}, "hardware/cpu-cycles"},
	        {{PERF_TYPE_SOFTWARE, PERF_COUNT_SW_PAGE_FAULTS_MAJ, 1, false}, "software/other"},
	        {{PERF_TYPE_SOFTWARE, 1u << 30, 1, false}, "software/other"},
	        {{PERF_TYPE_HARDWARE, 1u << 30, 1, false}, "hardware/other"},
	        {{PERF_TYPE_RAW, 1, 1, false}, "raw"},
	        {{77, 1, 1, false}, "pmu/other"},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++)
		assert_string_equal(pev_spec_name(&cases[i].s), cases[i].name);
}

/* ---- failures ------------------------------------------------------------------------------- */

static void test_offline_cpus_are_skipped(void **state)
{
	struct pev_spec s = pev_spec_cpu_clock(99);
	struct pev_set set = {.n = 77};
	unsigned int before = open_fds();
	struct err err = {0};

	(void)state;
	fake.open_errno[1] = ENODEV;
	fake.open_errno[2] = ESRCH;
	assert_int_equal(pev_open_cpus(&s, cpus, 4, &set, &err), 0);
	assert_int_equal(set.n, 2);
	assert_int_equal(set.skipped_cpus, 2);
	assert_int_equal(set.e[1].cpu, 3);
	assert_int_equal(open_fds(), before + 2);
	assert_int_equal(pev_set_close(&set), 0);
	assert_int_equal(open_fds(), before);

	fake.open_errno[0] = fake.open_errno[3] = ESRCH;
	set.n = 77;
	assert_int_equal(pev_open_cpus(&s, cpus, 4, &set, &err), -ENODEV);
	assert_int_equal(err.code, -ENODEV);
	assert_int_equal(set.n, 77);
	assert_int_equal(open_fds(), before);
}

static void test_other_failures_release_everything(void **state)
{
	static const int errnos[] = {EACCES, EPERM, EMFILE, ENFILE, EINVAL,
	                             ENOSYS, EBUSY, ENOENT, E2BIG};
	struct pev_spec s = pev_spec_cpu_clock(99);
	struct pev_set set = {.n = 77};
	unsigned int before = open_fds();

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(errnos); i++) {
		struct err err = {0};

		fake.open_errno[3] = errnos[i];
		assert_int_equal(pev_open_cpus(&s, cpus, 4, &set, &err), -errnos[i]);
		assert_int_equal(err.code, -errnos[i]);
		assert_non_null(strstr(err.msg, "cpu 3"));
		assert_non_null(strstr(err.msg, err_symbol(errnos[i])));
		assert_int_equal(set.n, 77);
		assert_int_equal(open_fds(), before);
	}
	assert_int_equal(pev_open_cpus(&s, cpus, 0, &set, NULL), -EINVAL);
	fake.no_memory = true;
	assert_int_equal(pev_open_cpus(&s, cpus, 4, &set, NULL), -ENOMEM);
	assert_int_equal(open_fds(), before);
}

static void test_messages_name_cause_and_remedy(void **state)
{
	static const struct {
		int error;
		uint64_t caps;
		bool freq;
		const char *words[4];
		enum err_cause cause;
	} cases[] = {
	        {EACCES,
	         0,
	         false,
	         {"permission denied (EACCES): kernel.perf_event_paranoid=",
	          "missing CAP_BPF, CAP_PERFMON", "run as root", "setcap"},
	         ERR_CAPABILITY},
	        {EPERM,
	         0,
	         false,
	         {"operation not permitted (EPERM): kernel.perf_event_paranoid=",
	          "missing CAP_BPF, CAP_PERFMON"},
	         ERR_CAPABILITY},
	        {EPERM,
	         1ULL << CAP_PERFMON,
	         false,
	         {"CAP_PERFMON is held", "seccomp", "paranoid="},
	         ERR_SECCOMP},
	        {EACCES,
	         1ULL << CAP_SYS_ADMIN,
	         false,
	         {"CAP_SYS_ADMIN is held", "security module"},
	         ERR_SECCOMP},
	        {EMFILE, 0, false, {"EMFILE: RLIMIT_NOFILE is", "ulimit -n"}, ERR_NONE},
	        {ENFILE, 0, false, {"fs.file-max"}, ERR_NONE},
	        {ENOSYS, 0, false, {"seccomp"}, ERR_SECCOMP},
	        {EOPNOTSUPP, 0, false, {"this machine has no software/cpu-clock"}, ERR_NONE},
	        {EINVAL,
	         0,
	         true,
	         {"kernel.perf_event_max_sample_rate=", "asked for 10101010 Hz"},
	         ERR_NONE},
	        {EINVAL, 0, false, {"does not take this event"}, ERR_NONE},
	        {EBUSY, 0, false, {"another event"}, ERR_NONE},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct pev_spec s = pev_spec_cpu_clock(99);
		struct err err = {0};
		struct pev_set set;

		s.freq = cases[i].freq;
		fake.open_errno[3] = cases[i].error;
		fake.caps = cases[i].caps;
		assert_int_equal(pev_open_cpus(&s, cpus, 4, &set, &err), -cases[i].error);
		for (size_t w = 0; w < 4 && cases[i].words[w]; w++) {
			if (!strstr(err.msg, cases[i].words[w]))
				fail_msg("no \"%s\" in: %s", cases[i].words[w], err.msg);
		}
		assert_int_equal(err.cause, cases[i].cause);
		if (cases[i].caps && strstr(err.msg, "missing CAP"))
			fail_msg("asks for what is held: %s", err.msg);
	}
}

static void test_user_namespace_is_what_refuses(void **state)
{
	static const uint64_t held[] = {0, 1ULL << CAP_PERFMON, UINT64_MAX};

	(void)state;
	fake.user_ns = true;
	fake.open_errno[3] = EPERM;
	for (size_t i = 0; i < ARRAY_SIZE(held); i++) {
		struct pev_spec s = pev_spec_cpu_clock(99);
		struct err err = {0};
		struct pev_set set;

		fake.caps = held[i];
		assert_int_equal(pev_open_cpus(&s, cpus, 4, &set, &err), -EPERM);
		assert_int_equal(err.cause, ERR_USER_NS);
		assert_non_null(strstr(err.msg, "cpu 3: operation not permitted (EPERM): a user "
		                                "namespace: its capabilities"));
		assert_null(strstr(err.msg, "seccomp"));
		assert_null(strstr(err.msg, "setcap"));
	}
}

static void test_probe_of_cycles(void **state)
{
	static const struct {
		int error, r;
	} cases[] = {
	        {0, 1},      {EOPNOTSUPP, 0}, {ENOENT, 0},       {ENODEV, 0},     {EINVAL, 0},
	        {EACCES, 0}, {EPERM, -EPERM}, {EMFILE, -EMFILE}, {ESRCH, -ESRCH}, {ENOSYS, -ENOSYS},
	};
	unsigned int before = open_fds();

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct pev_spec s = {.period = 77};
		struct err err = {0};
		int e = 77;

		fake.open_errno[2] = cases[i].error;
		assert_int_equal(pev_probe_cycles(2, 999, &s, &e, &err), cases[i].r);
		assert_int_equal(e, cases[i].r < 0 ? 77 : cases[i].error);
		assert_int_equal(err.code, -cases[i].error);
		assert_int_equal(s.period, cases[i].r == 1 ? 999 : 77);
		assert_int_equal(open_fds(), before);
	}
	assert_int_equal(fake.attr.type, PERF_TYPE_HARDWARE);
	assert_int_equal(fake.attr.config, PERF_COUNT_HW_CPU_CYCLES);
	assert_int_equal(fake.attr.freq, 1);
	assert_int_equal(fake.attr.disabled, 1);
	assert_int_equal(fake.pid, -1);
	assert_int_equal(fake.cpu, 2);
	fake.open_errno[2] = 0;
	assert_int_equal(pev_probe_cycles(2, 999, &(struct pev_spec){0}, NULL, NULL), 1);
}

/* ---- sets ----------------------------------------------------------------------------------- */

static void test_enable_is_all_or_none(void **state)
{
	struct pev_spec s = pev_spec_cpu_clock(99);
	struct err err = {0};
	struct pev_set set;
	int taken;

	(void)state;
	assert_int_equal(pev_open_cpus(&s, cpus, 4, &set, NULL), 0);
	taken = TAKE_FD(set.e[1].fd);
	assert_int_equal(pev_set_enable(&set, &err), 0);
	assert_int_equal(fake.enabled, 3);
	fake.enabled = 0;
	fake.enable_fail_at = 3;
	assert_int_equal(pev_set_enable(&set, &err), -EIO);
	assert_non_null(strstr(err.msg, "cpu 3"));
	assert_int_equal(fake.disabled, 3);
	fake.disable_errno = ENXIO;
	assert_int_equal(pev_set_disable(&set), -ENXIO);
	assert_int_equal(fake.disabled, 6);
	assert_int_equal(close(taken), 0);
	assert_int_equal(pev_set_close(&set), 0);
}

static void test_close_goes_on_after_an_error(void **state)
{
	struct pev_spec s = pev_spec_cpu_clock(99);
	unsigned int before = open_fds();
	struct pev_set set;

	(void)state;
	assert_int_equal(pev_open_cpus(&s, cpus, 4, &set, NULL), 0);
	assert_int_equal(close(set.e[1].fd), 0);
	assert_int_equal(pev_set_close(&set), -EBADF);
	assert_int_equal(open_fds(), before);
	assert_int_equal(pev_set_close(&set), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	        FAKED(test_attributes_of_a_cpu_clock),
	        FAKED(test_each_cpu_has_a_period_of_its_own),
	        FAKED(test_other_events_have_one_period),
	        FAKED(test_names_of_events),
	        FAKED(test_offline_cpus_are_skipped),
	        FAKED(test_other_failures_release_everything),
	        FAKED(test_messages_name_cause_and_remedy),
	        FAKED(test_user_namespace_is_what_refuses),
	        FAKED(test_probe_of_cycles),
	        FAKED(test_enable_is_all_or_none),
	        FAKED(test_close_goes_on_after_an_error),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
