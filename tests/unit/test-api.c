/* SPDX-License-Identifier: Apache-2.0 */
/* test-api - the public face without a kernel: options of older and newer callers, what is refused,
 * what answers before a start */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "perfagent/perfagent.h"

/* ---- allocations that fail ------------------------------------------------------------------- */

static int fail_in = -1; /* so many allocations succeed, then one fails; -1: none fails */

void *__real_calloc(size_t n, size_t size);
char *__real_strdup(const char *s);
void *__wrap_calloc(size_t n, size_t size);
char *__wrap_strdup(const char *s);

static int fails_now(void)
{
	return fail_in >= 0 && fail_in-- == 0;
}

void *__wrap_calloc(size_t n, size_t size)
{
	return fails_now() ? NULL : __real_calloc(n, size);
}

char *__wrap_strdup(const char *s)
{
	return fails_now() ? NULL : __real_strdup(s);
}

/* ---- options --------------------------------------------------------------------------------- */

/* As a newer header would have them. */
struct newer_options {
	struct pfa_options known;
	uint64_t more[4];
};

static struct pfa_options all_processes(void)
{
	struct pfa_options o = PFA_OPTIONS_INIT;

	o.target = PFA_TARGET_ALL;
	return o;
}

static void test_newer_caller_may_leave_the_new_part_zero(void **state)
{
	struct newer_options n = {.known = all_processes()};
	struct pfa_session *s = NULL;
	struct pfa_error err = {0};

	(void)state;
	n.known.size = sizeof(n);
	assert_int_equal(pfa_new(&n.known, &s, &err), 0);
	assert_non_null(s);
	s = (pfa_free(s), NULL);

	for (size_t i = 0; i < sizeof(n.more); i++) {
		memset(n.more, 0, sizeof(n.more));
		((uint8_t *)n.more)[i] = 1;
		memset(&err, 0, sizeof(err));
		assert_int_equal(pfa_new(&n.known, &s, &err), -E2BIG);
		assert_int_equal(err.code, -E2BIG);
		assert_non_null(strstr(err.message, "newer"));
		assert_null(s); /* untouched */
	}
}

static void test_older_caller_gets_defaults(void **state)
{
	struct pfa_options o = all_processes();
	struct pfa_session *s = NULL;

	(void)state;
	/* Members past its size are ignored: these would all be refused. */
	o.size = offsetof(struct pfa_options, sample_rate_hz);
	o.event = 99;
	o.unwind = 99;
	o.flags = ~0U;
	o.profile.fd = -4;
	assert_int_equal(pfa_new(&o, &s, NULL), 0);
	pfa_free(s);
}

static void test_size_that_was_not_set(void **state)
{
	struct pfa_options o = all_processes();
	struct pfa_session *s = NULL;
	struct pfa_error err = {0};

	(void)state;
	for (o.size = 0; o.size < offsetof(struct pfa_options, target) + sizeof(o.target);
	     o.size++) {
		assert_int_equal(pfa_new(&o, &s, &err), -EINVAL);
		assert_non_null(strstr(err.message, "PFA_OPTIONS_INIT"));
	}
	assert_int_equal(pfa_new(NULL, &s, &err), -EINVAL);
	o.size = sizeof(o);
	assert_int_equal(pfa_new(&o, NULL, &err), -EINVAL);
	assert_null(s);
}

static int no_write(void *arg, const void *data, size_t len)
{
	(void)arg;
	(void)data;
	(void)len;
	return 0;
}

static void test_bad_options_are_named(void **state)
{
	static const int32_t one[] = {5, 0}, none[] = {0}, negative[] = {1, -3, 0};
	static const char *words[PFA_FILTERS_MAX + 2];
	static int32_t many[PFA_PIDS_MAX + 2];
	static const char *const command[] = {"true", NULL}, *const nothing[] = {NULL},
	                         *const empty[] = {"", NULL}, *const no_dir[] = {"", NULL};
	static const char *const tag[] = {"a=b", "novalue", NULL}, *const no_key[] = {"=b", NULL};
	const struct {
		struct pfa_options o;
		const char *name;
	} cases[] = {
	        {{.target = PFA_TARGET_NONE}, "target"},
	        {{.target = 4}, "target"},
	        {{.target = PFA_TARGET_PID}, "pid"},
	        {{.target = PFA_TARGET_PID, .pid = -1}, "pid"},
	        {{.target = PFA_TARGET_ALL, .pid = 1}, "pid"},
	        {{.target = PFA_TARGET_COMMAND}, "argv"},
	        {{.target = PFA_TARGET_COMMAND, .argv = nothing}, "argv"},
	        {{.target = PFA_TARGET_COMMAND, .argv = empty}, "argv"},
	        {{.target = PFA_TARGET_ALL, .argv = command}, "argv"},
	        {{.target = PFA_TARGET_ALL, .event = 3}, "event"},
	        {{.target = PFA_TARGET_ALL, .unwind = 3}, "unwind"},
	        {{.target = PFA_TARGET_ALL, .flags = 1u << 20}, "flags"},
	        {{.target = PFA_TARGET_ALL, .flags = PFA_FOLLOW_CHILDREN}, "following children"},
	        {{.target = PFA_TARGET_PID, .tids = one, .flags = PFA_FOLLOW_CHILDREN},
	         "following children"},
	        {{.target = PFA_TARGET_PID, .pids = none}, "pid"},
	        {{.target = PFA_TARGET_PID, .pids = negative}, "pids"},
	        {{.target = PFA_TARGET_PID, .tids = negative}, "tids"},
	        {{.target = PFA_TARGET_PID, .pids = many}, "pids: 1025 given"},
	        {{.target = PFA_TARGET_ALL, .pids = one}, "pids"},
	        {{.target = PFA_TARGET_ALL, .tids = one}, "tids"},
	        {{.target = PFA_TARGET_COMMAND, .argv = tag, .tids = one}, "tids"},
	        {{.target = PFA_TARGET_ALL, .comms = empty}, "comm"},
	        {{.target = PFA_TARGET_ALL, .comms = words}, "comms: more than 64"},
	        {{.target = PFA_TARGET_ALL, .cgroups = empty}, "cgroup"},
	        {{.target = PFA_TARGET_ALL, .cgroups = words}, "cgroups: more than 64"},
	        {{.target = PFA_TARGET_ALL, .tags = tag}, "tag: 'novalue'"},
	        {{.target = PFA_TARGET_ALL, .tags = no_key}, "tag: '=b'"},
	        {{.target = PFA_TARGET_ALL, .profile.fd = -1}, "output"},
	        {{.target = PFA_TARGET_ALL, .profile.fd = 3, .profile.path = "x"}, "output"},
	        {{.target = PFA_TARGET_ALL, .profile.write = no_write, .profile.path = "x"},
	         "output"},
	        {{.target = PFA_TARGET_ALL, .profile.write = no_write, .profile.fd = 3}, "output"},
	        {{.target = PFA_TARGET_ALL, .ring_bytes = UINT32_MAX}, "sizes"},
	        {{.target = PFA_TARGET_ALL, .count_entries = UINT32_MAX}, "sizes"},
	        {{.target = PFA_TARGET_ALL, .range_entries = UINT32_MAX}, "sizes"},
	        {{.target = PFA_TARGET_ALL, .drain_interval_ms = UINT32_MAX}, "sizes"},
	        {{.target = PFA_TARGET_ALL, .table_budget_bytes = 1}, "table budget"},
	        {{.target = PFA_TARGET_ALL, .table_budget_bytes = (1u << 20) - 1}, "table budget"},
	        {{.target = PFA_TARGET_ALL, .table_budget_bytes = (1u << 30) + 1}, "table budget"},
	        {{.target = PFA_TARGET_ALL, .symbol_budget_bytes = (1u << 20) - 1},
	         "symbol budget"},
	        {{.target = PFA_TARGET_ALL, .symbol_budget_bytes = (16ull << 30) + 1},
	         "symbol budget"},
	        {{.target = PFA_TARGET_ALL, .debug_dirs = no_dir}, "debug directories"},
	};

	(void)state;
	for (int i = 0; i <= PFA_PIDS_MAX; i++)
		many[i] = i + 1;
	for (int i = 0; i <= PFA_FILTERS_MAX; i++)
		words[i] = "w";
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct pfa_options o = cases[i].o;
		struct pfa_session *s = NULL;
		struct pfa_error err = {0};

		o.size = sizeof(o);
		assert_int_equal(pfa_new(&o, &s, &err), -EINVAL);
		assert_null(s);
		assert_int_equal(err.code, -EINVAL);
		if (strncmp(err.message, cases[i].name, strlen(cases[i].name)) != 0)
			fail_msg("case %zu: '%s' does not begin with '%s'", i, err.message,
			         cases[i].name);
		assert_null(strchr(err.message, '\n'));
		assert_int_equal(pfa_new(&o, &s, NULL), -EINVAL);
	}
}

static void test_out_of_memory_at_each_allocation(void **state)
{
	static const char *const command[] = {"a", "b", NULL}, *const tags[] = {"k=v", NULL};
	struct pfa_options o = PFA_OPTIONS_INIT;
	int failures = 0;

	(void)state;
	o.target = PFA_TARGET_COMMAND;
	o.argv = command;
	o.tags = tags;
	o.profile.path = "x";
	o.comms = tags;
	o.cgroups = command;
	for (;; failures++) {
		struct pfa_session *s = NULL;
		struct pfa_error err = {0};
		int r;

		fail_in = failures;
		r = pfa_new(&o, &s, &err);
		fail_in = -1;
		pfa_free(s);
		if (r == 0)
			break;
		assert_int_equal(r, -ENOMEM);
		assert_int_equal(err.code, -ENOMEM);
		assert_null(s);
	}
	assert_true(failures >= 13); /* two structures, four arrays, six strings and a path */
}

/* ---- before a start -------------------------------------------------------------------------- */

static void test_statistics_before_a_start(void **state)
{
	struct pfa_options o = all_processes();
	struct {
		struct pfa_stats known;
		uint64_t more[2];
	} wide;
	struct pfa_stats st;
	struct pfa_session *s = NULL;
	struct pfa_function top;
	struct pfa_hot_function hot;
	struct pfa_offcpu_site wait;
	struct pfa_counter c;
	size_t n = 0;

	(void)state;
	assert_int_equal(pfa_new(&o, &s, NULL), 0);
	st.size = 0;
	assert_int_equal(pfa_stats(s, &st), -EINVAL);
	memset(&st, 0xff, sizeof(st));
	st.size = offsetof(struct pfa_stats, dropped);
	assert_int_equal(pfa_stats(s, &st), 0);
	assert_int_equal(st.size, offsetof(struct pfa_stats, dropped));
	assert_int_equal(st.kept, 0);
	assert_true(st.dropped == UINT64_MAX); /* past its size */
	memset(&wide, 0xff, sizeof(wide));
	wide.known.size = sizeof(wide);
	assert_int_equal(pfa_stats(s, &wide.known), 0);
	assert_int_equal(wide.known.size, sizeof(st)); /* what is known here */
	assert_true(wide.more[0] == 0 && wide.more[1] == 0);

	while (pfa_counter(s, n, &c) == 0) {
		assert_int_equal(c.value, 0);
		n++;
	}
	assert_true(n > 20);
	assert_null(pfa_note(s, 0));
	assert_null(pfa_quality(s, 0));
	assert_int_equal(pfa_top(s, &top, 1), -EINVAL);
	assert_int_equal(pfa_hot_functions(s, PFA_KIND_ONCPU, 0, &hot, 1), -EINVAL);
	assert_int_equal(pfa_hot_functions(s, PFA_KIND_ONCPU, 2, &hot, 1), -EINVAL);
	assert_int_equal(pfa_top_offcpu_sites(s, &wait, 1), -EINVAL);
	assert_int_equal(pfa_top_offcpu_sites(s, &wait, 0), -EINVAL);
	assert_int_equal(pfa_ended_fd(s), -1);
	assert_int_equal(pfa_stop(s, NULL), -EINVAL);
	assert_string_equal(pfa_version(), PERF_AGENT_VERSION);
	pfa_free(s);
	pfa_free(NULL);
}

/* ---- what is known of a file ----------------------------------------------------------------- */

static int n_lines;
static char first_line[64];

static void on_line(void *arg, const char *text)
{
	assert_ptr_equal(arg, &n_lines);
	assert_null(strchr(text, '\n'));
	if (n_lines++ == 0)
		(void)snprintf(first_line, sizeof(first_line), "%s", text);
}

static void test_unwind_info_of_files(void **state)
{
	const uint64_t outside = 1;
	struct pfa_error err = {0};

	(void)state;
	assert_int_equal(pfa_unwind_info("/proc/self/exe", NULL, on_line, &n_lines, &err), 0);
	assert_int_equal(n_lines, 9);
	assert_non_null(strstr(first_line, "sources: eh_frame"));
	n_lines = 0;
	assert_int_equal(pfa_unwind_info("/proc/self/exe", &outside, on_line, &n_lines, &err),
	                 -ENOENT);
	assert_non_null(strstr(err.message, "0x1 is outside"));
	assert_int_equal(pfa_unwind_info("/dev/null", NULL, on_line, &n_lines, &err), -EINVAL);
	assert_non_null(strstr(err.message, "a device"));
	assert_int_equal(pfa_unwind_info("/nowhere/at/all", NULL, on_line, &n_lines, NULL),
	                 -ENOENT);
	assert_int_equal(pfa_unwind_info(NULL, NULL, on_line, &n_lines, &err), -EINVAL);
	assert_int_equal(pfa_unwind_info("/proc/self/exe", NULL, NULL, NULL, &err), -EINVAL);
	assert_int_equal(n_lines, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	        cmocka_unit_test(test_newer_caller_may_leave_the_new_part_zero),
	        cmocka_unit_test(test_older_caller_gets_defaults),
	        cmocka_unit_test(test_size_that_was_not_set),
	        cmocka_unit_test(test_bad_options_are_named),
	        cmocka_unit_test(test_out_of_memory_at_each_allocation),
	        cmocka_unit_test(test_statistics_before_a_start),
	        cmocka_unit_test(test_unwind_info_of_files),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
