/* SPDX-License-Identifier: Apache-2.0 */
/* Reading and writing of files. */
#include "base_wraps.h"

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
	assert_string_equal(b.p, "test-base-files\n");
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
	        T(test_map_of_the_first_user_namespace),
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
	return cmocka_run_group_tests_name("base-files", tests, NULL, NULL);
}
