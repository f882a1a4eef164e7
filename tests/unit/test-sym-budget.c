/* SPDX-License-Identifier: Apache-2.0 */
/* The budget of bytes for debug data: what is held, what is dropped, and that it comes back. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdio.h>
#include <sys/mman.h>

#include "dwarf_check.h"
#include "symbolize/symbolize.h"

#define BUDGET_BYTES ((size_t)1 << 20)
#define FILES        24
#define ROUNDS       3
/* Address at which es_build puts the text of a file with one segment. */
#define CODE (ES_BIAS + 0x78)

/* A program of one function, with debug information of some size that no address needs. Packed
 * debug information is held as a whole. */
static int make_file(size_t i, size_t info_bytes, size_t str_bytes, uint64_t *ret_off)
{
	const size_t n = info_bytes + 1;
	_cleanup_free_ char *block = malloc(n);
	_cleanup_(img_file_freep) struct img_file *f = NULL;
	struct db b = {.compression = IMG_COMPRESSED_ZLIB};
	const struct img_segment *segs = NULL;
	char name[32];
	uint64_t x = i + 1, str;
	int fd;

	assert_non_null(block);
	for (size_t k = 0; k < n; k++) {
		x = x * 6364136223846793005ULL + 1442695040888963407ULL;
		block[k] = (char)(x >> 56);
	}
	(void)snprintf(name, sizeof(name), "function%zu", i);
	db_init(&b);
	for (size_t k = 0; k < str_bytes; k += info_bytes)
		(void)sbuf_add(&b.secs[DW_SEC_STR], block, info_bytes);
	str = db_str(&b, DW_SEC_STR, name);
	db_unit(&b, 0, 0);
	db_die(&b, DW_TAG_compile_unit, true, DB_ATTRS(LOW(CODE), SIZE(16)));
	db_die(&b, DW_TAG_subprogram, false,
	       DB_ATTRS({DW_AT_name, DW_FORM_strp, str, NULL}, LOW(CODE), SIZE(16)));
	db_die(&b, DW_TAG_variable, false, DB_ATTRS({0x3fff, DW_FORM_block4, info_bytes, block}));
	db_up(&b);
	db_unit_end(&b);
	f = db_file(&b);
	assert_int_equal(img_segments(f, &segs), 1);
	assert_int_equal(segs[0].vaddr, CODE);
	*ret_off = segs[0].off + 4;
	fd = memfd_create("image", MFD_CLOEXEC);
	assert_true(fd >= 0);
	assert_int_equal(file_write_full(fd, b.file.p, b.file.len), 0);
	f = img_file_free(f);
	db_done(&b);
	return fd;
}

static struct sym_files *files_new(bool in_process)
{
	const struct sym_files_options o = {.in_process = in_process, .budget_bytes = BUDGET_BYTES};
	struct sym_files *c = NULL;

	assert_int_equal(sym_files_new(&o, &c), 0);
	return c;
}

/* NULL: it has none. */
static void check_name(struct sym_files *c, size_t i, int fd, uint64_t off, const char *want)
{
	char path[32];
	struct sym_source src = {.id = (uint32_t)i, .fd = fd, .path = path, .root_fd = -EBADF};
	struct sym_batch b;

	(void)snprintf(path, sizeof(path), "/image%zu", i);
	assert_int_equal(sym_files_resolve(c, &src, &off, 1, &b), 0);
	if (want) {
		assert_int_equal(b.names[0].reason, EV_REASON_NAMED);
		assert_string_equal(sym_batch_frames(&b, 0)->name, want);
	} else {
		assert_int_not_equal(b.names[0].reason, EV_REASON_NAMED);
	}
	sym_batch_done(&b);
}

static void test_what_was_dropped_for_the_budget_comes_back(void **state)
{
	uint64_t offs[FILES];
	int fds[FILES];

	(void)state;
	for (size_t i = 0; i < FILES; i++)
		fds[i] = make_file(i, 60000, 1000, &offs[i]);
	for (int here = 0; here < 2; here++) {
		_cleanup_(sym_files_freep) struct sym_files *c = files_new(here);
		const struct sym_engine_stats *st = &sym_files_stats(c)->engine;

		for (size_t k = 0; k < ROUNDS * FILES; k++) {
			char name[32];

			(void)snprintf(name, sizeof(name), "function%zu", k % FILES);
			check_name(c, k % FILES, fds[k % FILES], offs[k % FILES], name);
			assert_true(st->bytes_peak <= BUDGET_BYTES);
		}
		/* Five or so fit alongside one in work: by turns, each has gone when it is its
		 * turn.
		 */
		assert_true(st->dropped >= ROUNDS * FILES - 8);
		assert_int_equal(st->rebuilt, (ROUNDS - 1) * FILES);
		assert_int_equal(st->debug_files, ROUNDS * FILES);
		assert_true(st->bytes_peak > 100000);
		assert_int_equal(st->refused, 0);
		assert_int_equal(st->over_limit + st->over_steps + st->bad, 0);
		assert_null(sym_files_refused(c));
		/* One after another, it stays. */
		for (size_t k = 0; k < FILES; k++)
			check_name(c, 1, fds[1], offs[1], "function1");
		assert_int_equal(st->rebuilt, (ROUNDS - 1) * FILES + 1);
	}
	for (size_t i = 0; i < FILES; i++)
		closep(&fds[i]);
}

/* Its strings are over the budget: they are read by windows. */
static void test_sections_larger_than_the_budget_are_read(void **state)
{
	uint64_t off;
	int fd = make_file(3, 100000, 4 * BUDGET_BYTES, &off);

	(void)state;
	for (int here = 0; here < 2; here++) {
		_cleanup_(sym_files_freep) struct sym_files *c = files_new(here);
		const struct sym_engine_stats *st = &sym_files_stats(c)->engine;

		for (int k = 0; k < 3; k++)
			check_name(c, 3, fd, off, "function3");
		assert_int_equal(st->refused, 0);
		assert_true(st->bytes_peak <= BUDGET_BYTES);
		assert_int_equal(st->debug_files, 1);
	}
	closep(&fd);
}

/* A unit is needed as a whole. */
static void test_a_unit_larger_than_the_budget_is_refused_and_named(void **state)
{
	uint64_t off;
	int fd = make_file(5, 2 * BUDGET_BYTES, 1000, &off);

	(void)state;
	for (int here = 0; here < 2; here++) {
		_cleanup_(sym_files_freep) struct sym_files *c = files_new(here);
		const struct sym_engine_stats *st = &sym_files_stats(c)->engine;

		for (int k = 0; k < 3; k++)
			check_name(c, 5, fd, off, NULL);
		assert_int_equal(st->refused, 1);
		assert_true(st->bytes_peak <= BUDGET_BYTES);
		assert_string_equal(sym_files_refused(c), "/image5");
	}
	closep(&fd);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	        cmocka_unit_test(test_what_was_dropped_for_the_budget_comes_back),
	        cmocka_unit_test(test_sections_larger_than_the_budget_are_read),
	        cmocka_unit_test(test_a_unit_larger_than_the_budget_is_refused_and_named),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
