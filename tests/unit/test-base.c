/* SPDX-License-Identifier: Apache-2.0 */
#include "base_wraps.h"

/* ---- cleanup and errors --------------------------------------------------------------------- */

static void test_freep_frees_and_leaves_null(void **state)
{
	char *p = strdup("x");
	uint32_t *none = NULL;

	(void)state;
	freep(&p);
	assert_null(p);
	freep(&none);
	assert_null(none);
}

static void test_closep_closes_and_keeps_errno(void **state)
{
	int fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
	int copy = fd;

	(void)state;
	assert_true(fd >= 0);
	errno = ENOTTY;
	closep(&fd);
	assert_int_equal(fd, -EBADF);
	assert_int_equal(errno, ENOTTY);
	assert_int_equal(fcntl(copy, F_GETFD), -1);
	assert_int_equal(errno, EBADF);
	errno = 0;
	closep(&fd);
	assert_int_equal(fd, -EBADF);
	assert_int_equal(errno, 0);
}

static char *make_string(bool keep)
{
	_cleanup_free_ char *p = strdup("kept");

	return keep ? TAKE_PTR(p) : NULL;
}

static void test_take_disarms_cleanup(void **state)
{
	char *p = make_string(true);
	int fd = 7;

	(void)state;
	assert_string_equal(p, "kept");
	free(p);
	assert_null(make_string(false));
	assert_int_equal(TAKE_FD(fd), 7);
	assert_int_equal(fd, -EBADF);
}

static void test_err_set_describes_and_keeps_errno(void **state)
{
	struct err e = {0};
	char lng[2 * sizeof(e.msg)];

	(void)state;
	errno = EINTR;
	assert_int_equal(err_set(&e, -EPERM, "open %s: %s", "a", err_symbol(EPERM)), -EPERM);
	assert_int_equal(e.code, -EPERM);
	assert_string_equal(e.msg, "open a: EPERM");
	assert_int_equal(err_set(NULL, -EIO, "%d", 1), -EIO);
	assert_int_equal(errno, EINTR);
	assert_int_equal(err_set(&e, -EIO, "again: %s", e.msg), -EIO);
	assert_string_equal(e.msg, "again: open a: EPERM");

	memset(lng, 'x', sizeof(lng) - 1);
	lng[sizeof(lng) - 1] = '\0';
	assert_int_equal(err_set(&e, -EIO, "%s", lng), -EIO);
	assert_int_equal(strlen(e.msg), sizeof(e.msg) - 1);
}

static void test_err_set_cause_names_cause_and_object(void **state)
{
	struct err e = {0}, copy = {0};
	char lng[2 * sizeof(e.object)];

	(void)state;
	errno = EINTR;
	assert_int_equal(err_set_cause(&e, -EACCES, ERR_SYSCTL, "kernel.x", "a %d", 1), -EACCES);
	assert_int_equal(e.code, -EACCES);
	assert_int_equal(e.cause, ERR_SYSCTL);
	assert_string_equal(e.object, "kernel.x");
	assert_string_equal(e.msg, "a 1");
	assert_int_equal(err_set_cause(NULL, -EIO, ERR_SYSCTL, "x", "a"), -EIO);
	assert_int_equal(err_copy(&copy, &e), -EACCES);
	assert_memory_equal(&copy, &e, sizeof(e));
	assert_int_equal(err_copy(NULL, &e), -EACCES);
	assert_int_equal(err_prefix(&e, "b"), -EACCES);
	assert_int_equal(e.cause, ERR_SYSCTL);
	assert_string_equal(e.object, "kernel.x");
	/* Arguments may lie in the struct itself. */
	(void)err_set_cause(&e, -EIO, ERR_OUTPUT, e.object, "c: %s", e.msg);
	assert_string_equal(e.object, "kernel.x");
	assert_string_equal(e.msg, "c: b: a 1");
	/* A failure that is described anew has neither. */
	(void)err_set(&e, -EIO, "d");
	assert_int_equal(e.cause, ERR_NONE);
	assert_string_equal(e.object, "");
	(void)err_set_cause(&e, -EIO, ERR_SECCOMP, NULL, "e");
	assert_string_equal(e.object, "");
	assert_int_equal(errno, EINTR);

	memset(lng, 'x', sizeof(lng) - 1);
	lng[sizeof(lng) - 1] = '\0';
	(void)err_set_cause(&e, -EIO, ERR_OUTPUT, lng, "f");
	assert_int_equal(strlen(e.object), sizeof(e.object) - 1);
}

static void test_err_prefix_goes_before(void **state)
{
	struct err e = {0};
	char lng[sizeof(e.msg)];

	(void)state;
	(void)err_set(&e, -ENOENT, "b");
	errno = EINTR;
	assert_int_equal(err_prefix(&e, "a %d", 1), -ENOENT);
	assert_string_equal(e.msg, "a 1: b");
	assert_int_equal(err_prefix(NULL, "a"), 0);
	assert_int_equal(errno, EINTR);

	for (size_t len = sizeof(lng) - 4; len < sizeof(lng); len++) {
		(void)err_set(&e, -ENOENT, "tail");
		memset(lng, 'x', len);
		lng[len] = '\0';
		assert_int_equal(err_prefix(&e, "%s", lng), -ENOENT);
		assert_int_equal(strlen(e.msg), sizeof(e.msg) - 1);
		assert_int_equal(e.msg[len - 1], 'x');
	}
}

static void test_err_symbol_names_the_errno(void **state)
{
	char first[16];

	(void)state;
	assert_string_equal(err_symbol(EPERM), "EPERM");
	assert_string_equal(err_symbol(-EPERM), "EPERM");
	assert_string_equal(err_symbol(-EOPNOTSUPP), "EOPNOTSUPP");
	assert_string_equal(err_symbol(999), "E#999");
	assert_string_equal(err_symbol(-999), "E#999");
	assert_int_equal(str_copy(first, sizeof(first), err_symbol(INT_MIN)), 0);
	assert_string_equal(first, "E#2147483648");
}

static void test_err_name_has_words_and_symbol(void **state)
{
	const char *one = err_name(-ENOENT), *other = err_name(EACCES);

	(void)state;
	assert_string_equal(one, "no such file or directory (ENOENT)");
	assert_string_equal(other, "permission denied (EACCES)");
	assert_string_equal(err_name(-EIO), "input/output error (EIO)");
	assert_string_equal(err_name(-ENOTSUP), "operation not supported (EOPNOTSUPP)");
	assert_string_equal(err_name(EDOTDOT), "RFS specific error (EDOTDOT)");
	assert_string_equal(err_name(999), "E#999");
}

static void test_sizes_report_overflow(void **state)
{
	size_t v = 3;

	(void)state;
	assert_true(size_mul(SIZE_MAX / 2, 2, &v));
	assert_int_equal(v, SIZE_MAX - 1);
	assert_false(size_mul(SIZE_MAX / 2 + 1, 2, &v));
	assert_true(size_add(SIZE_MAX - 1, 1, &v));
	assert_int_equal(v, SIZE_MAX);
	assert_false(size_add(SIZE_MAX, 1, &v));
}

/* ---- strings -------------------------------------------------------------------------------- */

static void test_str_copy_terminates_and_reports(void **state)
{
	static const struct {
		const char *src;
		size_t size;
		int r;
		const char *out;
	} cases[] = {
	        {"", 1, 0, ""},         {"abc", 4, 0, "abc"}, {"abc", 3, -E2BIG, "ab"},
	        {"abc", 1, -E2BIG, ""}, {"abc", 9, 0, "abc"},
	};
	char buf[16];

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		memset(buf, '#', sizeof(buf));
		assert_int_equal(str_copy(buf, cases[i].size, cases[i].src), cases[i].r);
		assert_string_equal(buf, cases[i].out);
		assert_int_equal(buf[cases[i].size], '#');
	}
	buf[0] = '#';
	assert_int_equal(str_copy(buf, 0, ""), -E2BIG);
	assert_int_equal(buf[0], '#');
}

static void test_str_starts(void **state)
{
	(void)state;
	assert_true(str_starts("abc", "ab"));
	assert_true(str_starts("abc", "abc"));
	assert_true(str_starts("abc", ""));
	assert_true(str_starts("", ""));
	assert_false(str_starts("ab", "abc"));
	assert_false(str_starts("xabc", "abc"));
}

static void test_parse_u64(void **state)
{
	static const struct {
		const char *s;
		int base, r;
		uint64_t val;
	} cases[] = {
	        {"0", 10, 0, 0},
	        {"42", 10, 0, 42},
	        {"0042", 10, 0, 42},
	        {"18446744073709551615", 10, 0, UINT64_MAX},
	        {"18446744073709551616", 10, -ERANGE, 0},
	        {"18446744073709551620", 10, -ERANGE, 0},
	        {"99999999999999999999999999", 10, -ERANGE, 0},
	        {"99999999999999999999999999x", 10, -EINVAL, 0},
	        {"", 10, -EINVAL, 0},
	        {"+1", 10, -EINVAL, 0},
	        {"-1", 10, -EINVAL, 0},
	        {" 1", 10, -EINVAL, 0},
	        {"1 ", 10, -EINVAL, 0},
	        {"1\n", 10, -EINVAL, 0},
	        {"1a", 10, -EINVAL, 0},
	        {"0x1", 10, -EINVAL, 0},
	        {"1.5", 10, -EINVAL, 0},
	        {"ff", 16, 0, 255},
	        {"0xFf", 16, 0, 255},
	        {"0Xff", 16, 0, 255},
	        {"0", 16, 0, 0},
	        {"0x", 16, -EINVAL, 0},
	        {"x1", 16, -EINVAL, 0},
	        {"0x0x1", 16, -EINVAL, 0},
	        {"g", 16, -EINVAL, 0},
	        {"ffffffffffffffff", 16, 0, UINT64_MAX},
	        {"0000000000ffffffffffffffff", 16, 0, UINT64_MAX},
	        {"10000000000000000", 16, -ERANGE, 0},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		uint64_t val = 0x5a5a;
		int r = parse_u64(cases[i].s, cases[i].base, &val);

		if (r != cases[i].r)
			fail_msg("parse_u64(\"%s\", %d) = %s", cases[i].s, cases[i].base,
			         err_name(r));
		assert_int_equal(val, r == 0 ? cases[i].val : 0x5a5a);
	}
}

static void test_parse_i64_range(void **state)
{
	static const struct {
		const char *s;
		int64_t min, max;
		int r;
		int64_t val;
	} cases[] = {
	        {"0", 0, 0, 0, 0},
	        {"-0", 0, 0, 0, 0},
	        {"5", 1, 5, 0, 5},
	        {"6", 1, 5, -ERANGE, 0},
	        {"0", 1, 5, -ERANGE, 0},
	        {"-3", -3, 5, 0, -3},
	        {"-4", -3, 5, -ERANGE, 0},
	        {"9223372036854775807", INT64_MIN, INT64_MAX, 0, INT64_MAX},
	        {"9223372036854775808", INT64_MIN, INT64_MAX, -ERANGE, 0},
	        {"-9223372036854775808", INT64_MIN, INT64_MAX, 0, INT64_MIN},
	        {"-9223372036854775809", INT64_MIN, INT64_MAX, -ERANGE, 0},
	        {"", 0, 9, -EINVAL, 0},
	        {"-", -9, 9, -EINVAL, 0},
	        {"--1", -9, 9, -EINVAL, 0},
	        {"-+1", -9, 9, -EINVAL, 0},
	        {"- 1", -9, 9, -EINVAL, 0},
	        {"1k", -9, 9, -EINVAL, 0},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		int64_t val = 0x5a5a;
		int r = parse_i64_range(cases[i].s, cases[i].min, cases[i].max, &val);

		if (r != cases[i].r)
			fail_msg("parse_i64_range(\"%s\") = %s", cases[i].s, err_name(r));
		assert_int_equal(val, r == 0 ? cases[i].val : 0x5a5a);
	}
}

static void test_sbuf_grows_and_stays_terminated(void **state)
{
	_cleanup_(sbuf_done) struct sbuf b;
	char *p;

	(void)state;
	sbuf_init(&b, 10000);
	assert_null(b.p);
	assert_int_equal(sbuf_add(&b, NULL, 0), 0);
	assert_string_equal(b.p, "");
	for (int i = 0; i < 1000; i++) {
		assert_int_equal(sbuf_addf(&b, "%03d", i), 0);
		assert_int_equal(sbuf_char(&b, ','), 0);
		assert_int_equal(b.p[b.len], '\0');
	}
	assert_int_equal(b.len, 4000);
	assert_int_equal(strlen(b.p), 4000);
	assert_memory_equal(b.p + 4 * 517, "517,", 4);
	sbuf_reset(&b);
	assert_int_equal(b.len, 0);
	assert_string_equal(b.p, "");
	assert_int_equal(sbuf_add(&b, "a\0b", 3), 0);
	assert_int_equal(b.len, 3);
	assert_memory_equal(b.p, "a\0b", 4);
	p = sbuf_reserve(&b, 2);
	assert_ptr_equal(p, b.p + 3);
	assert_int_equal(b.len, 3);
}

static void test_sbuf_cap_is_exact_and_sticks(void **state)
{
	_cleanup_(sbuf_done) struct sbuf b;

	(void)state;
	sbuf_init(&b, 5);
	assert_int_equal(sbuf_str(&b, "abcde"), 0);
	assert_int_equal(sbuf_str(&b, ""), 0);
	assert_int_equal(sbuf_char(&b, 'f'), -E2BIG);
	assert_int_equal(b.err, -E2BIG);
	assert_string_equal(b.p, "abcde");
	assert_int_equal(sbuf_str(&b, ""), -E2BIG);
	assert_int_equal(sbuf_addf(&b, "x"), -E2BIG);
	assert_null(sbuf_reserve(&b, 0));
	assert_null(sbuf_take(&b));
	sbuf_reset(&b);
	assert_int_equal(sbuf_addf(&b, "%s", "123456"), -E2BIG);
	assert_int_equal(b.len, 0);
	sbuf_reset(&b);
	assert_int_equal(sbuf_addf(&b, "%s", "12345"), 0);
	assert_string_equal(b.p, "12345");
	sbuf_reset(&b);
	assert_null(sbuf_reserve(&b, SIZE_MAX));
	assert_int_equal(b.err, -E2BIG);

	sbuf_done(&b);
	sbuf_init(&b, SIZE_MAX);
	assert_int_equal(sbuf_char(&b, 'x'), 0);
	assert_null(sbuf_reserve(&b, SIZE_MAX));
	assert_int_equal(b.err, -E2BIG);
	assert_string_equal(b.p, "x");
}

static void test_sbuf_max_zero_holds_the_empty_string(void **state)
{
	_cleanup_(sbuf_done) struct sbuf b;

	(void)state;
	sbuf_init(&b, 0);
	assert_int_equal(sbuf_str(&b, ""), 0);
	assert_string_equal(b.p, "");
	assert_int_equal(sbuf_char(&b, 'x'), -E2BIG);
}

static void test_sbuf_without_memory_sticks(void **state)
{
	_cleanup_(sbuf_done) struct sbuf b;
	char big[100] = {0};

	(void)state;
	sbuf_init(&b, 1000);
	fail_alloc_at = 1;
	assert_int_equal(sbuf_str(&b, "a"), -ENOMEM);
	assert_null(b.p);
	assert_int_equal(sbuf_str(&b, "a"), -ENOMEM);
	sbuf_reset(&b);
	assert_int_equal(sbuf_str(&b, "a"), 0);
	fail_alloc_at = 1;
	assert_int_equal(sbuf_add(&b, big, sizeof(big)), -ENOMEM);
	assert_string_equal(b.p, "a");
	sbuf_done(&b);
	fail_alloc_at = 1;
	sbuf_init(&b, 1000);
	assert_null(sbuf_take(&b));
	assert_int_equal(b.err, -ENOMEM);
}

static void test_sbuf_take_moves_the_string(void **state)
{
	_cleanup_(sbuf_done) struct sbuf b;
	char *p;

	(void)state;
	sbuf_init(&b, 100);
	p = sbuf_take(&b);
	assert_string_equal(p, "");
	free(p);
	assert_int_equal(sbuf_str(&b, "one"), 0);
	p = sbuf_take(&b);
	assert_string_equal(p, "one");
	free(p);
	assert_null(b.p);
	assert_int_equal(sbuf_str(&b, "two"), 0);
	assert_string_equal(b.p, "two");
}

int main(void)
{
#define T(fn) cmocka_unit_test_teardown(fn, no_failures)
	const struct CMUnitTest tests[] = {
	        T(test_freep_frees_and_leaves_null),
	        T(test_closep_closes_and_keeps_errno),
	        T(test_take_disarms_cleanup),
	        T(test_err_set_describes_and_keeps_errno),
	        T(test_err_set_cause_names_cause_and_object),
	        T(test_err_prefix_goes_before),
	        T(test_err_symbol_names_the_errno),
	        T(test_err_name_has_words_and_symbol),
	        T(test_sizes_report_overflow),
	        T(test_str_copy_terminates_and_reports),
	        T(test_str_starts),
	        T(test_parse_u64),
	        T(test_parse_i64_range),
	        T(test_sbuf_grows_and_stays_terminated),
	        T(test_sbuf_cap_is_exact_and_sticks),
	        T(test_sbuf_max_zero_holds_the_empty_string),
	        T(test_sbuf_without_memory_sticks),
	        T(test_sbuf_take_moves_the_string),
	};
#undef T

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests_name("base", tests, NULL, NULL);
}
