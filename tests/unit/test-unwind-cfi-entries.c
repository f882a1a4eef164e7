/* SPDX-License-Identifier: Apache-2.0 */
/* Entries of call-frame information: FDEs, and what the sink refuses. */
#include "cfi_text.h"

/* ---- FDEs ------------------------------------------------------------------------------------ */

static void test_functions_that_the_linker_dropped(void **state)
{
	struct cb c;
	size_t cie;

	(void)state;
	cb_init(&c, true, false);
	cie = cb_cie(&c, &(struct cb_cie){0});
	(void)cb_fde(&c, cie, 0, 0, 0x20, CB(""));               /* at 0 */
	(void)cb_fde(&c, cie, 0, 0x30, 0x20, CB(""));            /* at an addend */
	(void)cb_fde(&c, cie, 0, 0x403000, 0x20, CB(""));        /* in data */
	(void)cb_fde(&c, cie, 0, CB_TEXT + 0x1000, 1, CB(""));   /* after text */
	(void)cb_fde(&c, cie, 0, CB_TEXT + 0x10, 0, CB(""));     /* of no bytes */
	(void)cb_fde(&c, cie, 0, CB_TEXT + 0xff0, 0x10, CB("")); /* the last there can be */
	(void)cb_fde(&c, cie, 0, CB_TEXT + 0xff0, 0x11, CB("")); /* beyond */
	(void)cb_fde(&c, cie, 0, CB_TEXT + 0x10, UINT64_MAX, CB(""));
	expect(&c, "dropped", "ff0-1000: 0 " CALL "\n", 2, 0);
}

static void test_terminator(void **state)
{
	for (int debug = 0; debug < 2; debug++) {
		struct cb c;
		size_t cie;

		(void)state;
		cb_init(&c, debug, false);
		cie = cb_cie(&c, &(struct cb_cie){0});
		(void)cb_fde(&c, cie, 0, CB_TEXT, 0x20, CB(""));
		cb_num(&c, 0, 4);
		(void)cb_fde(&c, cie, 0, CB_TEXT + 0x20, 0x20, CB(""));
		expect(&c, "terminator",
		       debug ? "0-20: 0 " CALL "\n20-40: 0 " CALL "\n" : "0-20: 0 " CALL "\n", 0,
		       0);
	}
}

static void test_entry_past_the_end_ends_the_reading(void **state)
{
	static const uint32_t lens[] = {0x7fffffff, 0xfffffff0, 0xfffffffe, 0xffffffff, 64, 3, 1};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(lens); i++) {
		struct cb c;
		size_t cie;

		cb_init(&c, false, false);
		cie = cb_cie(&c, &(struct cb_cie){0});
		(void)cb_fde(&c, cie, 0, CB_TEXT, 0x20, CB(""));
		cb_num(&c, lens[i], 4);
		cb_num(&c, 0x5555555555555555, lens[i] < 8 ? lens[i] : 8);
		expect(&c, "past the end", "0-20: 0 " CALL "\n", 1, 0);
	}
}

static void test_cie_pointer_to_nowhere(void **state)
{
	static const size_t to[] = {1, 8, 1 << 20, (size_t)-64};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(to); i++) {
		struct cb c;
		size_t cie;

		cb_init(&c, false, false);
		cie = cb_cie(&c, &(struct cb_cie){0});
		(void)cb_fde(&c, to[i], 0, CB_TEXT, 0x20, CB(""));
		(void)cb_fde(&c, cie, 0, CB_TEXT + 0x20, 0x20, CB(""));
		expect(&c, "no CIE", "20-40: 0 " CALL "\n", 1, 0);
	}
}

/* A file whose first segment was moved and stretched. */
static struct img_file *file_with_text_at(uint64_t vaddr, uint64_t mem_size, struct sbuf *b)
{
	const struct eb_opts o = {0};
	struct img_file *f = NULL;
	struct eb_map m;
	Elf64_Phdr p;

	eb_build(&o, b, &m);
	memcpy(&p, b->p + m.phoff, sizeof(p));
	p.p_vaddr = vaddr;
	p.p_memsz = mem_size;
	memcpy(b->p + m.phoff, &p, sizeof(p));
	assert_int_equal(img_file_open_mem(b->p, b->len, &f, NULL), 0);
	return f;
}

static void test_function_at_0_is_none_even_if_there_is_code(void **state)
{
	struct recorder rec;
	struct img_file *f;
	struct sbuf b;
	struct cb c;
	size_t cie;

	(void)state;
	f = file_with_text_at(0, EB_TEXT_SIZE, &b);
	cb_init(&c, true, false);
	cie = cb_cie(&c, &(struct cb_cie){0});
	(void)cb_fde(&c, cie, 0, 0, 0x800, CB(""));
	(void)cb_fde(&c, cie, 0, 0x100, 0x20, CB(""));
	rec_init(&rec);
	assert_int_equal(cb_read(&c, f, &rec), 0);
	assert_int_equal(rec.funcs.n, 1);
	assert_int_equal(rec.funcs.p[0].start, 0x100);
	assert_int_equal(rec.stats.bad_entries, 0);
	rec_done(&rec);
	sbuf_done(&c.b);
	img_file_free(f);
	sbuf_done(&b);
}

static void test_rows_of_a_function_are_bounded(void **state)
{
	uint8_t *insn = malloc((CFI_ROWS_MAX + 2) * 3ul);
	struct recorder rec;
	struct img_file *f;
	struct sbuf b;
	size_t cie;
	struct cb c;

	(void)state;
	assert_non_null(insn);
	for (size_t i = 0; i < CFI_ROWS_MAX + 2; i++)
		memcpy(insn + 3 * i, i & 1 ? "\x0e\x10\x41" : "\x0e\x18\x41", 3);
	f = file_with_text_at(CB_TEXT, 8ul << 20, &b);
	for (size_t over = 0; over < 2; over++) {
		cb_init(&c, false, false);
		cie = cb_cie(&c, &(struct cb_cie){0});
		(void)cb_fde(&c, cie, 0, CB_TEXT, CFI_ROWS_MAX + over, insn,
		             3 * (CFI_ROWS_MAX + over));
		(void)cb_fde(&c, cie, 0, CB_TEXT + (4 << 20), 0x20, CB(""));
		rec_init(&rec);
		assert_int_equal(cb_read(&c, f, &rec), 0);
		assert_int_equal(rec.funcs.n, 2);
		assert_int_equal(rec.funcs.p[0].n, over ? 1 : CFI_ROWS_MAX);
		assert_int_equal(rec.stats.bad_entries, over);
		rec_done(&rec);
		sbuf_done(&c.b);
	}
	free(insn);
	img_file_free(f);
	sbuf_done(&b);
}

/* ---- what the others say --------------------------------------------------------------------- */

static void test_refused_rules_are_bad_rows(void **state)
{
	struct recorder rec;
	struct cb c;
	size_t cie;
	char *got;

	(void)state;
	cb_init(&c, false, false);
	cie = cb_cie(&c, &(struct cb_cie){0});
	(void)cb_fde(&c, cie, 0, CB_TEXT, 0x20, CB("\x41\x0e\x10"));
	rec_init(&rec);
	rec.rules.fail_code = -E2BIG;
	assert_int_equal(cb_read(&c, file, &rec), 0);
	got = cb_text(&rec);
	assert_string_equal(got, "0-20: 0 bad\n");
	assert_int_equal(rec.stats.bad_entries, 1);
	free(got);
	rec_done(&rec);
	rec_init(&rec);
	rec.rules.fail_code = -ENOMEM;
	assert_int_equal(cb_read(&c, file, &rec), -ENOMEM);
	rec_done(&rec);
	rec_init(&rec);
	rec.fail = -E2BIG;
	assert_int_equal(cb_read(&c, file, &rec), -E2BIG);
	rec_done(&rec);
	sbuf_done(&c.b);
}

static void test_equal_rules_are_asked_for_once(void **state)
{
	struct recorder rec;
	struct cb c;
	size_t cie;

	(void)state;
	cb_init(&c, false, false);
	cie = cb_cie(&c, &(struct cb_cie){0});
	for (size_t i = 0; i < 100; i++)
		(void)cb_fde(&c, cie, 0, CB_TEXT + 0x20 * i, 0x20,
		             CB("\x41\x0e\x10\x45\x0e" CALL_OFF));
	rec_init(&rec);
	assert_int_equal(cb_read(&c, file, &rec), 0);
	assert_int_equal(rec.funcs.n, 100);
	assert_int_equal(rec.rows.n, 300);
	assert_int_equal(rec.rules.calls, 2);
	rec_done(&rec);
	sbuf_done(&c.b);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	        cmocka_unit_test(test_functions_that_the_linker_dropped),
	        cmocka_unit_test(test_function_at_0_is_none_even_if_there_is_code),
	        cmocka_unit_test(test_rows_of_a_function_are_bounded),
	        cmocka_unit_test(test_terminator),
	        cmocka_unit_test(test_entry_past_the_end_ends_the_reading),
	        cmocka_unit_test(test_cie_pointer_to_nowhere),
	        cmocka_unit_test(test_refused_rules_are_bad_rows),
	        cmocka_unit_test(test_equal_rules_are_asked_for_once),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests_name("unwind-cfi-entries", tests, setup, teardown);
}
