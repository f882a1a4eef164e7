/* SPDX-License-Identifier: Apache-2.0 */
/* test-loader-refusals - what is said when the kernel does not take the BPF object, by injected
 * errors: this machine's kernel has BTF, and cannot be put into other states. */
#include "loader/load_priv.h"

#include <linux/capability.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>

#include <cmocka.h>

static int btf_errno; /* 0: BTF is there */

int __wrap_access(const char *path, int mode);

int __wrap_access(const char *path, int mode)
{
	assert_string_equal(path, "/sys/kernel/btf/vmlinux");
	assert_int_equal(mode, R_OK);
	errno = btf_errno;
	return btf_errno ? -1 : 0;
}

static uint64_t caps = UINT64_MAX;
static bool user_ns;

bool __wrap_cap_effective(int cap);
bool __wrap_cap_ns_initial(void);

bool __wrap_cap_effective(int cap)
{
	return caps >> cap & 1;
}

bool __wrap_cap_ns_initial(void)
{
	return !user_ns;
}

static void say_at(enum libbpf_print_level level, const char *text)
{
	/* As libbpf would: through its own printing function of the moment. */
	libbpf_print_fn_t fn = libbpf_set_print(NULL);

	(void)libbpf_set_print(fn);
	if (fn) {
		va_list none;

		memset(&none, 0, sizeof(none)); /* the format has no arguments */
		(void)fn(level, text, none);
	}
}

static void say(const char *text)
{
	say_at(LIBBPF_WARN, text);
}

static void test_no_btf_names_file_and_setting(void **state)
{
	static const int errors[] = {ENOENT, EACCES};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(errors); i++) {
		struct load_log log;
		struct err err = {0};

		btf_errno = errors[i];
		load_log_begin(&log);
		assert_int_equal(load_explain(&log, -ESRCH, "bpf(BPF_PROG_LOAD)", &err), -ESRCH);
		load_log_end(&log);
		assert_int_equal(err.code, -ESRCH);
		assert_int_equal(err.cause, ERR_NO_BTF);
		assert_string_equal(err.object, "/sys/kernel/btf/vmlinux");
		assert_non_null(strstr(
		        err.msg, "bpf(BPF_PROG_LOAD): no such process (ESRCH): no kernel BTF"));
		assert_non_null(strstr(err.msg, "/sys/kernel/btf/vmlinux"));
		assert_non_null(strstr(err.msg, err_symbol(errors[i])));
		assert_non_null(strstr(err.msg, "CONFIG_DEBUG_INFO_BTF=y"));
	}
	btf_errno = 0;
}

static void test_the_telling_line_is_kept(void **state)
{
	struct load_log log;
	struct err err = {0};

	(void)state;
	load_log_begin(&log);
	say("libbpf: prog 'p': -- BEGIN PROG LOAD LOG --\n");
	say("R1 invalid mem access 'scalar'\n");
	say("processed 12 insns\n-- END PROG LOAD LOG --\n");
	say("libbpf: failed to load object 'oncpu_bpf'\n");
	assert_int_equal(load_explain(&log, -EACCES, "call", &err), -EACCES);
	load_log_end(&log);
	assert_string_equal(err.msg,
	                    "call: permission denied (EACCES) (R1 invalid mem access 'scalar')");

	/* Advice of libbpf is left out. */
	load_log_begin(&log);
	say("libbpf: Error in bpf_object__probe_loading():Operation not permitted(1). Couldn't "
	    "load trivial BPF program.\n");
	assert_int_equal(load_explain(&log, -EPERM, "call", &err), -EPERM);
	load_log_end(&log);
	assert_string_equal(err.msg, "call: operation not permitted (EPERM)");

	/* A consequence, or mere information, after the reason. */
	load_log_begin(&log);
	say("libbpf: failed to iterate BTF objects: -1\n");
	say("libbpf: extern (var ksym) 'v': not found in kernel BTF\n");
	say_at(LIBBPF_INFO, "libbpf: elf: skipping section\n");
	say_at(LIBBPF_DEBUG, "libbpf: prog 'p': relocated\n");
	assert_int_equal(load_explain(&log, -EINVAL, "call", &err), -EINVAL);
	load_log_end(&log);
	assert_string_equal(err.msg,
	                    "call: invalid argument (EINVAL) (failed to iterate BTF objects: -1)");
}

#define CAP(x) (1ULL << CAP_##x)

static void test_missing_privileges_are_the_cause(void **state)
{
	static const struct {
		uint64_t caps;
		bool user_ns;
		int code;
		enum err_cause cause;
		const char *object;
	} cases[] = {
	        {0, false, -EPERM, ERR_CAPABILITY, "CAP_BPF, CAP_PERFMON"},
	        {CAP(BPF), false, -EACCES, ERR_CAPABILITY, "CAP_PERFMON"},
	        {CAP(PERFMON), false, -EPERM, ERR_CAPABILITY, "CAP_BPF"},
	        {UINT64_MAX, true, -EPERM, ERR_USER_NS, ""},
	        {0, true, -EPERM, ERR_USER_NS, ""},
	        {CAP(BPF) | CAP(PERFMON), false, -EACCES, ERR_NONE, ""},
	        {CAP(SYS_ADMIN), false, -EACCES, ERR_NONE, ""},
	        {0, false, -EINVAL, ERR_NONE, ""},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		bool known = cases[i].cause != ERR_NONE;
		struct load_log log;
		struct err err = {0};

		caps = cases[i].caps;
		user_ns = cases[i].user_ns;
		load_log_begin(&log);
		say("libbpf: an advice\n");
		assert_int_equal(load_explain(&log, cases[i].code, "call", &err), cases[i].code);
		load_log_end(&log);
		assert_int_equal(err.cause, cases[i].cause);
		assert_string_equal(err.object, cases[i].object);
		/* The words of libbpf are no reason where the reason is known. */
		assert_int_equal(strstr(err.msg, "an advice") == NULL, known);
		assert_int_equal(strstr(err.msg, "setcap") != NULL,
		                 cases[i].cause == ERR_CAPABILITY);
	}
	caps = UINT64_MAX;
	user_ns = false;
}

static int heard;

static PRINTF_FMT(2, 0) int embedder(enum libbpf_print_level level, const char *fmt, va_list ap)
{
	(void)level;
	(void)fmt;
	(void)ap;
	heard++;
	return 0;
}

static void *own_use_of_libbpf(void *arg)
{
	(void)arg;
	say("libbpf: something of the embedding program's\n");
	return NULL;
}

/* Two sessions load at once, and end in the order in which they began. */
static void test_the_embedding_program_keeps_its_voice(void **state)
{
	libbpf_print_fn_t before = libbpf_set_print(embedder);
	struct load_log a, b;
	struct err err = {0};
	pthread_t thread;

	(void)state;
	load_log_begin(&a);
	load_log_begin(&b);
	assert_int_equal(pthread_create(&thread, NULL, own_use_of_libbpf, NULL), 0);
	assert_int_equal(pthread_join(thread, NULL), 0);
	assert_int_equal(heard, 1); /* another thread's words go where they went before */
	say("libbpf: ours\n");
	assert_int_equal(heard, 1);
	(void)load_explain(&b, -EINVAL, "call", &err);
	assert_string_equal(err.msg, "call: invalid argument (EINVAL) (ours)");
	load_log_end(&a);
	load_log_end(&b);
	assert_ptr_equal(libbpf_set_print(before), embedder);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	        cmocka_unit_test(test_no_btf_names_file_and_setting),
	        cmocka_unit_test(test_the_telling_line_is_kept),
	        cmocka_unit_test(test_missing_privileges_are_the_cause),
	        cmocka_unit_test(test_the_embedding_program_keeps_its_voice),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
