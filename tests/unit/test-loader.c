// SPDX-License-Identifier: Apache-2.0
/* Linked with --wrap of bpf_object__load_skeleton, access, bpf_link_create and
 * libbpf_probe_bpf_helper. What needs the kernel runs only with CAP_BPF and CAP_PERFMON. */
#include "loader_skeleton.h"

static void test_refusals_name_the_call_and_release_everything(void **state)
{
	static const int errnos[] = {EPERM, EACCES, ENOMEM, E2BIG};
	const struct abi_config cfg = {.target = ABI_TARGET_ALL};
	unsigned int before = open_fds();

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(errnos); i++) {
		struct load_oncpu *l = NULL;
		struct err err = {0};

		fake.loads = 0;
		fake.load_errno[0] = errnos[i];
		assert_int_equal(load_oncpu_open(&cfg, &sizes, &l, &err), -errnos[i]);
		assert_null(l);
		assert_int_equal(fake.loads, 1);
		assert_int_equal(err.code, -errnos[i]);
		assert_non_null(strstr(err.msg, "BPF_PROG_LOAD"));
		assert_non_null(strstr(err.msg, err_symbol(errnos[i])));
		assert_int_equal(open_fds(), before);
	}
}

/* Loaded once more without it, and what then refuses is reported. */
static void test_a_refused_hook_is_done_without(void **state)
{
	const struct abi_config cfg = {.target = ABI_TARGET_ALL};
	struct load_oncpu *l = NULL;
	struct err err = {0};
	int plain;

	(void)state;
	/* Before 6.1 the kernel refuses maps that are not preallocated: two without it, too. */
	load_oncpu_free(open_ok(ABI_TARGET_PID));
	plain = fake.loads;
	assert_in_range(plain, 1, 2);
	fake.loads = 0;
	fake.hooks = true;
	fake.load_errno[0] = EPERM;
	load_oncpu_free(open_ok(ABI_TARGET_PID));
	assert_int_equal(fake.loads, 1 + plain);

	fake.loads = 0;
	fake.load_errno[1] = ENOMEM;
	assert_int_equal(load_oncpu_open(&cfg, &sizes, &l, &err), -ENOMEM);
	assert_int_equal(fake.loads, 2);
	assert_non_null(strstr(err.msg, "ENOMEM"));
}

static void test_missing_btf_is_reported(void **state)
{
	const struct abi_config cfg = {.target = ABI_TARGET_ALL};
	struct load_oncpu *l = NULL;
	struct err err = {0};

	(void)state;
	fake.load_errno[0] = ESRCH; /* what libbpf gives then */
	fake.no_btf = true;
	assert_int_equal(load_oncpu_open(&cfg, &sizes, &l, &err), -ESRCH);
	assert_non_null(strstr(err.msg, "/sys/kernel/btf/vmlinux"));
	assert_non_null(strstr(err.msg, "CONFIG_DEBUG_INFO_BTF"));
}

static void test_old_kernels_get_preallocated_maps(void **state)
{
	struct load_oncpu *l;

	(void)state;
	fake.load_errno[0] = EINVAL;
	l = open_ok(ABI_TARGET_PID);
	assert_int_equal(fake.loads, 2);
	/* Preallocated: two tables of 1,024 counts of 64 bytes alone. */
	assert_true(load_locked_bytes(l) > 2 * 1024 * 64);
	load_oncpu_free(l);
}

/* A load that is refused with EPERM under a limit of locked memory. */
static void refuse_with_limit(rlim_t limit, bool old, struct err *err)
{
	const struct abi_config cfg = {.target = ABI_TARGET_ALL};
	struct load_oncpu *l = NULL;
	struct rlimit before, lim;

	assert_int_equal(getrlimit(RLIMIT_MEMLOCK, &before), 0);
	lim = (struct rlimit){.rlim_cur = MIN_OF(limit, before.rlim_max),
	                      .rlim_max = before.rlim_max};
	assert_int_equal(setrlimit(RLIMIT_MEMLOCK, &lim), 0);
	fake.loads = 0;
	fake.load_errno[0] = EPERM;
	fake.old = old;
	assert_int_equal(load_oncpu_open(&cfg, &sizes, &l, err), -EPERM);
	assert_int_equal(setrlimit(RLIMIT_MEMLOCK, &before), 0);
}

static void test_locked_memory_is_named_where_it_counts(void **state)
{
	struct err err = {0};

	(void)state;
	refuse_with_limit(65536, true, &err);
	assert_non_null(strstr(err.msg, "RLIMIT_MEMLOCK is 65536 bytes"));
	refuse_with_limit(65536, false, &err);
	assert_null(strstr(err.msg, "RLIMIT_MEMLOCK"));
}

static void test_two_refusals_give_the_first(void **state)
{
	const struct abi_config cfg = {.target = ABI_TARGET_ALL};
	struct load_oncpu *l = NULL;
	struct err err = {0};

	(void)state;
	fake.load_errno[0] = EINVAL;
	fake.load_errno[1] = ENOSPC;
	assert_int_equal(load_oncpu_open(&cfg, &sizes, &l, &err), -EINVAL);
	assert_int_equal(fake.loads, 2);
	assert_non_null(strstr(err.msg, "EINVAL"));
}

int main(void)
{
	const struct CMUnitTest injected[] = {
	        cmocka_unit_test_setup(test_refusals_name_the_call_and_release_everything, reset),
	        cmocka_unit_test_setup(test_a_refused_hook_is_done_without, reset),
	        cmocka_unit_test_setup(test_missing_btf_is_reported, reset),
	        cmocka_unit_test_setup(test_two_refusals_give_the_first, reset),
	};
	const struct CMUnitTest all[] = {
	        injected[0],
	        injected[1],
	        injected[2],
	        injected[3],
	        cmocka_unit_test_setup(test_old_kernels_get_preallocated_maps, reset),
	        cmocka_unit_test_setup(test_locked_memory_is_named_where_it_counts, reset),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	if (!permitted())
		return cmocka_run_group_tests(injected, NULL, NULL);
	return cmocka_run_group_tests(all, NULL, NULL);
}
