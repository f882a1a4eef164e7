/* SPDX-License-Identifier: Apache-2.0 */
#include <fcntl.h>
#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <sys/stat.h>
#include <cmocka.h>

#include "base/base.h"

/* ---- failures on demand (-Wl,--wrap) -------------------------------------------------------- */

/* pread64: Meson compiles with 64-bit offsets, and that is the symbol then.
 * The call number @at from now on (1: the next one) fails once; 0: none does. */
static int fail_alloc_at, fail_read_at, fail_pread_at, fail_write_at;
static int fail_errno;
static size_t io_max = SIZE_MAX; /* the most bytes one call moves */
static int reads;

void *__real_realloc(void *p, size_t len);
void *__wrap_realloc(void *p, size_t len);
void *__real_calloc(size_t n, size_t len);
void *__wrap_calloc(size_t n, size_t len);
ssize_t __real_read(int fd, void *p, size_t len);
ssize_t __wrap_read(int fd, void *p, size_t len);
ssize_t __real_pread64(int fd, void *p, size_t len, off_t off);
ssize_t __wrap_pread64(int fd, void *p, size_t len, off_t off);
ssize_t __real_write(int fd, const void *p, size_t len);
ssize_t __wrap_write(int fd, const void *p, size_t len);

static bool fails(int *at)
{
	return *at > 0 && --*at == 0;
}

void *__wrap_realloc(void *p, size_t len)
{
	return fails(&fail_alloc_at) ? NULL : __real_realloc(p, len);
}

void *__wrap_calloc(size_t n, size_t len)
{
	return fails(&fail_alloc_at) ? NULL : __real_calloc(n, len);
}

ssize_t __wrap_read(int fd, void *p, size_t len)
{
	reads++;
	if (fails(&fail_read_at)) {
		errno = fail_errno;
		return -1;
	}
	return __real_read(fd, p, MIN_OF(len, io_max));
}

ssize_t __wrap_pread64(int fd, void *p, size_t len, off_t off)
{
	if (fails(&fail_pread_at)) {
		errno = fail_errno;
		return -1;
	}
	return __real_pread64(fd, p, MIN_OF(len, io_max), off);
}

ssize_t __wrap_write(int fd, const void *p, size_t len)
{
	if (fails(&fail_write_at)) {
		errno = fail_errno;
		return fail_errno ? -1 : 0;
	}
	return __real_write(fd, p, MIN_OF(len, io_max));
}

static int no_failures(void **state)
{
	(void)state;
	fail_alloc_at = fail_read_at = fail_pread_at = fail_write_at = 0;
	fail_errno = 0;
	io_max = SIZE_MAX;
	return 0;
}

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

/* ---- files ---------------------------------------------------------------------------------- */

static FILE *temp_file(size_t len)
{
	FILE *f = tmpfile();

	assert_non_null(f);
	for (size_t i = 0; i < len; i++)
		assert_int_not_equal(fputc((int)(i % 251), f), EOF);
	assert_int_equal(fflush(f), 0);
	rewind(f);
	return f;
}

static void test_file_read_all_reads_proc(void **state)
{
	_cleanup_(sbuf_done) struct sbuf b, all;
	struct err e = {0};

	(void)state;
	sbuf_init(&b, 1 << 20);
	assert_int_equal(file_read_all(AT_FDCWD, "/proc/self/maps", &b, &e), 0);
	assert_true(b.len > 200);
	assert_int_equal(strlen(b.p), b.len);
	assert_int_equal(b.p[b.len - 1], '\n');
	assert_non_null(strstr(b.p, "[stack]"));
	assert_non_null(strstr(b.p, "/libc.so"));

	/* Appends, and reads the same whatever the pieces are. */
	sbuf_init(&all, 1 << 20);
	assert_int_equal(sbuf_str(&all, ">"), 0);
	io_max = 7;
	assert_int_equal(file_read_all(AT_FDCWD, "/proc/version", &all, NULL), 0);
	io_max = SIZE_MAX;
	sbuf_reset(&b);
	assert_int_equal(file_read_all(AT_FDCWD, "/proc/version", &b, NULL), 0);
	assert_int_equal(all.p[0], '>');
	assert_string_equal(all.p + 1, b.p);
}

static void test_file_read_cap_is_exact(void **state)
{
	static const struct {
		size_t file, max;
		int r;
	} cases[] = {
	        {0, 0, 0},
	        {1, 0, -E2BIG},
	        {1, 1, 0},
	        {2, 1, -E2BIG},
	        {4096, 4096, 0},
	        {4097, 4096, -E2BIG},
	        {4096, 4095, -E2BIG},
	        {63, 64, 0},
	        {30000, 30000, 0},
	        {30000, 29999, -E2BIG},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		_cleanup_(sbuf_done) struct sbuf b;
		FILE *f = temp_file(cases[i].file);

		sbuf_init(&b, cases[i].max);
		assert_int_equal(file_read_fd(fileno(f), &b), cases[i].r);
		assert_int_equal(b.err, cases[i].r);
		assert_int_equal(b.len, MIN_OF(cases[i].file, cases[i].max));
		for (size_t k = 0; k < b.len; k++)
			assert_int_equal((uint8_t)b.p[k], k % 251);
		assert_int_equal(b.p[b.len], '\0');
		assert_int_equal(file_read_fd(fileno(f), &b),
		                 cases[i].r); /* at its end, or sticky */
		assert_int_equal(fclose(f), 0);
	}
}

static void test_file_read_all_names_the_failure(void **state)
{
	_cleanup_(sbuf_done) struct sbuf b;
	struct err e = {0};

	(void)state;
	sbuf_init(&b, 100);
	assert_int_equal(file_read_all(AT_FDCWD, "/nonexistent/x", &b, &e), -ENOENT);
	assert_int_equal(e.code, -ENOENT);
	assert_string_equal(e.msg, "open /nonexistent/x: no such file or directory (ENOENT)");
	assert_int_equal(b.err, 0);
	assert_int_equal(file_read_all(AT_FDCWD, "/", &b, &e), -EISDIR);
	assert_string_equal(e.msg, "read /: is a directory (EISDIR)");
	assert_int_equal(b.err, 0);
	assert_int_equal(file_read_all(AT_FDCWD, "/proc/self/maps", &b, &e), -E2BIG);
	assert_string_equal(e.msg, "/proc/self/maps: longer than the limit of 100 bytes");
	assert_int_equal(b.err, -E2BIG);
	assert_int_equal(b.len, 100);
	assert_int_equal(file_read_all(AT_FDCWD, "/proc/self/maps", &b, NULL), -E2BIG);
	sbuf_reset(&b);
	fail_alloc_at = 1;
	sbuf_done(&b);
	assert_int_equal(file_read_all(AT_FDCWD, "/proc/version", &b, &e), -ENOMEM);
	assert_string_equal(e.msg, "read /proc/version: cannot allocate memory (ENOMEM)");
}

static void test_file_read_all_follows_dirfd(void **state)
{
	_cleanup_(sbuf_done) struct sbuf b;
	_cleanup_close_ int dir = open("/proc/self", O_PATH | O_DIRECTORY | O_CLOEXEC);

	(void)state;
	sbuf_init(&b, 100);
	assert_true(dir >= 0);
	assert_int_equal(file_read_all(dir, "comm", &b, NULL), 0);
	assert_string_equal(b.p, "test-base\n");
}

static void test_file_read_all_does_not_wait_for_a_fifo(void **state)
{
	_cleanup_(sbuf_done) struct sbuf b;
	char dir[] = "/tmp/test-base-XXXXXX";
	char path[64];

	(void)state;
	sbuf_init(&b, 100);
	assert_non_null(mkdtemp(dir));
	(void)snprintf(path, sizeof(path), "%s/fifo", dir);
	assert_int_equal(mkfifo(path, 0600), 0);
	assert_int_equal(file_read_all(AT_FDCWD, path, &b, NULL), 0);
	assert_int_equal(b.len, 0);
	assert_int_equal(unlink(path), 0);
	assert_int_equal(rmdir(dir), 0);
}

static void test_file_read_retries_eintr_and_reports_the_rest(void **state)
{
	FILE *f = temp_file(100);

	(void)state;
	/* Call 1 reads the content, call 2 sees the end: at the cap that is the probe's. */
	for (int at = 1; at <= 2; at++) {
		for (size_t max = 100; max <= 101; max++) {
			_cleanup_(sbuf_done) struct sbuf b;

			sbuf_init(&b, max);
			rewind(f);
			fail_errno = EINTR;
			fail_read_at = at;
			assert_int_equal(file_read_fd(fileno(f), &b), 0);
			assert_int_equal(b.len, 100);
			sbuf_reset(&b);
			rewind(f);
			fail_errno = EIO;
			fail_read_at = at;
			assert_int_equal(file_read_fd(fileno(f), &b), -EIO);
			assert_int_equal(b.len, at == 1 ? 0 : 100);
			assert_int_equal(b.err, 0);
		}
	}
	assert_int_equal(fclose(f), 0);
}

static void test_file_read_needs_few_calls(void **state)
{
	_cleanup_(sbuf_done) struct sbuf b;
	FILE *f = temp_file(1000000);

	(void)state;
	sbuf_init(&b, SIZE_MAX);
	reads = 0;
	assert_int_equal(file_read_fd(fileno(f), &b), 0);
	assert_int_equal(b.len, 1000000);
	assert_in_range(reads, 2, 20);
	assert_int_equal(fclose(f), 0);
}

static void test_pread_full(void **state)
{
	static const struct {
		size_t len;
		uint64_t off;
		ssize_t r;
	} cases[] = {
	        {0, 0, 0},
	        {100, 0, 100},
	        {101, 0, 100},
	        {10, 95, 5},
	        {10, 100, 0},
	        {10, 1000, 0},
	        {10, INT64_MAX - 10, 0},
	        {10, INT64_MAX - 9, -EINVAL},
	        {10, UINT64_MAX, -EINVAL},
	        {SIZE_MAX, 0, -EINVAL},
	};
	FILE *f = temp_file(100);
	uint8_t buf[128];

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		for (io_max = 3; io_max <= 300; io_max += 297) {
			ssize_t r = file_pread_full(fileno(f), buf, cases[i].len, cases[i].off);

			assert_int_equal(r, cases[i].r);
			for (ssize_t k = 0; k < r; k++)
				assert_int_equal(buf[k], cases[i].off + (size_t)k);
		}
	}
	io_max = 30;
	fail_errno = EINTR;
	fail_pread_at = 2;
	assert_int_equal(file_pread_full(fileno(f), buf, 100, 0), 100);
	fail_errno = EIO;
	fail_pread_at = 2;
	assert_int_equal(file_pread_full(fileno(f), buf, 100, 0), -EIO);
	assert_int_equal(fclose(f), 0);
}

static void test_write_full(void **state)
{
	FILE *f = tmpfile();
	uint8_t buf[100], back[200];

	(void)state;
	assert_non_null(f);
	for (size_t i = 0; i < sizeof(buf); i++)
		buf[i] = (uint8_t)i;
	io_max = 30;
	fail_errno = EINTR;
	fail_write_at = 2;
	assert_int_equal(file_write_full(fileno(f), buf, sizeof(buf)), 0);
	assert_int_equal(file_pread_full(fileno(f), back, sizeof(back), 0), 100);
	assert_memory_equal(buf, back, sizeof(buf));
	assert_int_equal(file_write_full(fileno(f), NULL, 0), 0);
	fail_errno = ENOSPC;
	fail_write_at = 3;
	assert_int_equal(file_write_full(fileno(f), buf, sizeof(buf)), -ENOSPC);
	fail_errno = 0; /* 0 bytes written */
	fail_write_at = 1;
	assert_int_equal(file_write_full(fileno(f), buf, sizeof(buf)), -EIO);
	assert_int_equal(fclose(f), 0);
}

static void test_map_of_the_first_user_namespace(void **state)
{
	static const struct {
		const char *text;
		bool initial;
	} cases[] = {
	        {"         0          0 4294967295\n", true},
	        {"0 0 4294967295\n", true},
	        {"         0       1000          1\n", false},
	        {"         0     100000      65536\n", false},
	        {"         0          0 4294967294\n", false},
	        {"         0          0 42949672950\n", false},
	        {"         0          0 4294967295\n         1          1          1\n", false},
	        {"         0          0 -1\n", false},
	        {"         0          0", false},
	        {"", false}, /* one whose map was not written yet */
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++)
		assert_int_equal(cap_uid_map_is_initial(cases[i].text, strlen(cases[i].text)),
		                 cases[i].initial);
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
	        T(test_map_of_the_first_user_namespace),
	        T(test_parse_u64),
	        T(test_parse_i64_range),
	        T(test_sbuf_grows_and_stays_terminated),
	        T(test_sbuf_cap_is_exact_and_sticks),
	        T(test_sbuf_max_zero_holds_the_empty_string),
	        T(test_sbuf_without_memory_sticks),
	        T(test_sbuf_take_moves_the_string),
	        T(test_file_read_all_reads_proc),
	        T(test_file_read_cap_is_exact),
	        T(test_file_read_all_names_the_failure),
	        T(test_file_read_all_follows_dirfd),
	        T(test_file_read_all_does_not_wait_for_a_fifo),
	        T(test_file_read_retries_eintr_and_reports_the_rest),
	        T(test_file_read_needs_few_calls),
	        T(test_pread_full),
	        T(test_write_full),
	};
#undef T

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests_name("base", tests, NULL, NULL);
}
