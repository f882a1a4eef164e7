/* SPDX-License-Identifier: Apache-2.0 */
/* jitdumps. */
#include "jitcode_files.h"

/* ---- jitdump --------------------------------------------------------------------------------- */

static void dump_header(struct fixture *f, uint32_t magic, uint32_t size, uint64_t flags)
{
	struct {
		uint32_t magic, version, size, mach, pad, pid;
		uint64_t time, flags;
	} h = {magic, 1, size, 62, 0, 1, 0, flags};
	char zero[64] = "";

	append(f, &h, sizeof(h));
	append(f, zero, size > sizeof(h) ? size - sizeof(h) : 0);
}

static void dump_record(struct fixture *f, uint32_t id, uint64_t time, const void *data, size_t len)
{
	struct {
		uint32_t id, size;
		uint64_t time;
	} h = {id, (uint32_t)(16 + len), time};

	append(f, &h, sizeof(h));
	append(f, data, len);
}

static void dump_load(struct fixture *f, uint64_t time, uint64_t addr, uint64_t len,
                      const char *name)
{
	_cleanup_(sbuf_done) struct sbuf b;
	uint32_t ids[2] = {1, 1};
	uint64_t nr[4] = {addr, addr, len, 7};

	sbuf_init(&b, 1 << 20);
	(void)sbuf_add(&b, ids, sizeof(ids));
	(void)sbuf_add(&b, nr, sizeof(nr));
	(void)sbuf_add(&b, name, strlen(name) + 1);
	for (uint64_t i = 0; i < len; i++)
		(void)sbuf_char(&b, (char)0xcc);
	assert_int_equal(b.err, 0);
	dump_record(f, 0, time, b.p, b.len);
}

struct row {
	uint64_t addr;
	uint32_t line;
	const char *file;
};

static void dump_lines(struct fixture *f, uint64_t addr, const struct row *rows, uint64_t n)
{
	_cleanup_(sbuf_done) struct sbuf b;
	uint32_t zero = 0;

	sbuf_init(&b, 1 << 20);
	(void)sbuf_add(&b, &addr, sizeof(addr));
	(void)sbuf_add(&b, &n, sizeof(n));
	for (uint64_t i = 0; i < n; i++) {
		(void)sbuf_add(&b, &rows[i].addr, 8);
		(void)sbuf_add(&b, &rows[i].line, 4);
		(void)sbuf_add(&b, &zero, 4);
		(void)sbuf_add(&b, rows[i].file, strlen(rows[i].file) + 1);
	}
	dump_record(f, 2, 0, b.p, b.len);
}

#define MAGIC 0x4a695444U

static int dump_read(struct fixture *f, uint64_t now)
{
	return jitcode_read_dump(f->j, f->fd, now);
}

static void test_a_dump_has_times_and_lines(void **state)
{
	const struct row rows[] = {
	        {0x1008, 11, "/src/a.c"}, {0x1000, 10, "/src/a.c"}, {0x1010, 5, "\xff"}};
	struct fixture *f = *state;
	struct sym_frame fr;

	dump_header(f, MAGIC, 48, 0);
	dump_lines(f, 0x1000, rows, 3);
	dump_load(f, 100, 0x1000, 0x40, "first");
	dump_load(f, 200, 0x1000, 0x40, "second");
	dump_record(f, 4, 0, "unwinding", 9);
	dump_record(f, 3, 300, "", 0);
	assert_int_equal(dump_read(f, 1000), 1);
	assert_string_equal(name_at(f, 0x1000, 50), "first");
	assert_string_equal(name_at(f, 0x1000, 199), "first");
	assert_string_equal(name_at(f, 0x1000, 200), "second");
	assert_string_equal(name_at(f, 0x1000, UINT64_MAX), "second");
	assert_int_equal(jitcode_find(f->j, 0x1000, 150, &fr), 0);
	assert_string_equal(fr.file, "/src/a.c");
	assert_int_equal(fr.line, 10);
	assert_int_equal(jitcode_find(f->j, 0x100f, 150, &fr), 0);
	assert_int_equal(fr.line, 11);
	assert_int_equal(jitcode_find(f->j, 0x103f, 150, &fr), 0);
	assert_int_equal(fr.line, 5);
	assert_string_equal(fr.file, "/src/a.c");
	assert_int_equal(jitcode_find(f->j, 0x1000, 250, &fr), 0);
	assert_null(fr.file); /* the lines were the first one's */
	assert_int_equal(jitcode_stats(f->j)->bad, 0);
}

static void test_code_that_moves_takes_its_lines_along(void **state)
{
	const struct row rows[] = {{0x1000, 10, "/a.c"}, {0x1020, 20, "/a.c"}};
	const struct {
		uint32_t pid, tid;
		uint64_t vma, from, to, size, idx;
	} mv = {1, 1, 0, 0x1000, 0x9000, 0x40, 7};
	struct fixture *f = *state;
	struct sym_frame fr;

	dump_header(f, MAGIC, 40, 0);
	dump_lines(f, 0x1000, rows, 2);
	dump_load(f, 100, 0x1000, 0x40, "f");
	dump_record(f, 1, 200, &mv, sizeof(mv));
	assert_int_equal(dump_read(f, 1000), 0);
	assert_int_equal(jitcode_find(f->j, 0x9021, UINT64_MAX, &fr), 0);
	assert_string_equal(fr.name, "f");
	assert_int_equal(fr.line, 20);
	dump_record(f, 1, 200, &mv, 39); /* cut off */
	assert_int_equal(dump_read(f, 1000), 0);
	assert_int_equal(jitcode_stats(f->j)->bad, 1);
}

static void test_a_dump_is_read_as_it_grows(void **state)
{
	struct fixture *f = *state, whole = {.fd = memfd_create("whole", MFD_CLOEXEC)};
	uint8_t bytes[1024];
	ssize_t n;

	dump_header(&whole, MAGIC, 40, 0);
	dump_load(&whole, 100, 0x1000, 0x10, "a");
	dump_load(&whole, 200, 0x2000, 0x10, "b");
	dump_load(&whole, 300, 0x1000, 0x10, "c");
	n = file_pread_full(whole.fd, bytes, sizeof(bytes), 0);
	assert_true(n > 100 && n < (ssize_t)sizeof(bytes));
	for (ssize_t i = 0; i < n; i++) {
		append(f, &bytes[i], 1);
		assert_int_equal(dump_read(f, 1000), i == n - 1);
	}
	assert_string_equal(name_at(f, 0x1000, 150), "a");
	assert_string_equal(name_at(f, 0x2000, UINT64_MAX), "b");
	assert_string_equal(name_at(f, 0x1000, UINT64_MAX), "c");
	assert_int_equal(jitcode_stats(f->j)->entries, 3);
	assert_int_equal(jitcode_stats(f->j)->bad, 0);
	closep(&whole.fd);
}

static void test_what_is_no_dump_is_refused(void **state)
{
	struct fixture *f = *state;

	dump_header(f, 0x4454694aU, 40, 0); /* of the other byte order */
	assert_int_equal(dump_read(f, 1), -EINVAL);
	assert_int_equal(ftruncate(f->fd, 0), 0);
	assert_int_equal(lseek(f->fd, 0, SEEK_SET), 0);
	dump_header(f, MAGIC, 39, 0);
	assert_int_equal(dump_read(f, 1), -EINVAL);
}

static void test_a_damaged_record_costs_itself(void **state)
{
	const struct row far[] = {{0x10, 1, "/low"}, {1ULL << 60, 2, "/high"}, {0x5004, 3, "/in"}};
	uint64_t huge[2] = {0x5000, UINT64_MAX};
	struct fixture *f = *state;
	struct sym_frame fr;

	dump_header(f, MAGIC, 40, 0);
	dump_load(f, 100, 0x1000, 0, "empty");
	dump_load(f, 100, 0x1000, 0x10, "");
	dump_load(f, 100, UINT64_MAX - 4, 0x10, "wraps");
	dump_record(f, 0, 100, "short", 5);
	dump_record(f, 2, 100, huge, sizeof(huge));
	dump_record(f, 2, 100, huge, 8);
	dump_record(f, 77, 100, "not known", 9);
	dump_lines(f, 0x5000, far, 3);
	dump_load(f, 100, 0x5000, 0x10, "good");
	assert_int_equal(dump_read(f, 1000), 0);
	assert_int_equal(jitcode_stats(f->j)->bad, 6);
	assert_int_equal(jitcode_find(f->j, 0x5005, UINT64_MAX, &fr), 0);
	assert_string_equal(fr.name, "good");
	assert_string_equal(fr.file, "/in");
	assert_int_equal(fr.line, 3);
	assert_string_equal(name_at(f, 0x1000, UINT64_MAX), "");
	/* After one whose length cannot be, nothing can be found. */
	append(f, "\1\0\0\0\1\0\0\0AAAAAAAA", 16);
	dump_load(f, 100, 0x6000, 0x10, "after");
	assert_int_equal(dump_read(f, 1000), 0);
	assert_int_equal(dump_read(f, 1000), 0);
	assert_int_equal(jitcode_stats(f->j)->bad, 7);
	assert_string_equal(name_at(f, 0x6000, UINT64_MAX), "");
}

static void test_times_that_cannot_be_are_put_right(void **state)
{
	struct fixture *f = *state;

	dump_header(f, MAGIC, 40, 0);
	dump_load(f, UINT64_MAX, 0x1000, 0x10, "future");
	dump_load(f, 10, 0x1000, 0x10, "past");
	assert_int_equal(dump_read(f, 1000), 1);
	assert_string_equal(name_at(f, 0x1000, 1000), "past");
	assert_int_equal(ftruncate(f->fd, 0), 0);
	assert_int_equal(lseek(f->fd, 0, SEEK_SET), 0);
	dump_header(f, MAGIC, 40, 1); /* the processor's own clock */
	dump_load(f, 5, 0x2000, 0x10, "a");
	assert_int_equal(dump_read(f, 2000), 0);
	dump_load(f, 6, 0x2000, 0x10, "b");
	assert_int_equal(dump_read(f, 3000), 1);
	assert_string_equal(name_at(f, 0x2000, 2999), "a");
	assert_string_equal(name_at(f, 0x2000, 3000), "b");
}

static void test_map_and_dump_of_the_same_code_agree(void **state)
{
	const struct row rows[] = {{0x1000, 10, "/a.c"}};
	struct fixture *f = *state;
	int map = memfd_create("map", MFD_CLOEXEC);
	struct sym_frame fr;
	uint32_t code;

	assert_true(dprintf(map, "1000 10 name of the map\n") > 0);
	assert_int_equal(jitcode_read_map(f->j, map, 10, false), 0);
	code = jitcode_version(f->j, 0x1000);
	dump_header(f, MAGIC, 40, 0);
	dump_lines(f, 0x1000, rows, 1);
	dump_load(f, 5, 0x1000, 0x10, "name of the dump");
	assert_int_equal(dump_read(f, 20), 0);
	assert_int_equal(jitcode_version(f->j, 0x1000), code);
	assert_int_equal(jitcode_find(f->j, 0x1000, UINT64_MAX, &fr), 0);
	assert_string_equal(fr.name, "name of the dump");
	assert_int_equal(fr.line, 10);
	assert_true(dprintf(map, "1000 10 another of the map\n") > 0);
	assert_int_equal(jitcode_read_map(f->j, map, 30, false), 0);
	assert_string_equal(name_at(f, 0x1000, UINT64_MAX), "name of the dump");
	closep(&map);
}

int main(void)
{
#define T(fn) cmocka_unit_test_setup_teardown(fn, setup, teardown)
	const struct CMUnitTest tests[] = {
	        T(test_a_dump_has_times_and_lines),
	        T(test_code_that_moves_takes_its_lines_along),
	        T(test_a_dump_is_read_as_it_grows),
	        T(test_what_is_no_dump_is_refused),
	        T(test_a_damaged_record_costs_itself),
	        T(test_times_that_cannot_be_are_put_right),
	        T(test_map_and_dump_of_the_same_code_agree),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
