/* SPDX-License-Identifier: Apache-2.0 */
/* Frames with files and lines, and what a file costs between calls. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "dwarf_check.h"
#include "line_builder.h"

static void add_program(struct db *b, uint64_t at, uint64_t file, int64_t line)
{
	struct lb l = {.version = 4};

	lb_usual_header(&l);
	lb_set_address(&l, at, 8);
	lb_num(&l, 4, 1); /* set_file */
	lb_uleb(&l, file);
	lb_row(&l, 0, line - 1);
	lb_end_sequence(&l, 0x100);
	(void)lb_end(&l);
	(void)sbuf_add(&b->secs[DW_SEC_LINE], l.b.p, l.b.len);
	sbuf_done(&l.b);
}

static void add_unit(struct db *b, uint64_t program, uint64_t call_file)
{
	uint64_t in;

	db_unit(b, 0, 0);
	db_die(b, DW_TAG_compile_unit, true,
	       DB_ATTRS({DW_AT_comp_dir, DW_FORM_string, 0, "/comp"}, LOW(DB_CODE), SIZE(0x1000),
	                {DW_AT_stmt_list, DW_FORM_sec_offset, program, NULL}));
	in = db_die(b, DW_TAG_subprogram, false, DB_ATTRS(NAME("in")));
	db_die(b, DW_TAG_subprogram, true, DB_ATTRS(NAME("out"), LOW(DB_CODE), SIZE(0x80)));
	db_die(b, DW_TAG_inlined_subroutine, false,
	       DB_ATTRS(ORIGIN(in), LOW(DB_CODE + 0x10), SIZE(0x10),
	                {DW_AT_call_file, DW_FORM_data1, call_file, NULL}, CALL(70, 7)));
	db_up(b);
	db_up(b);
	db_unit_end(b);
}

static void test_the_innermost_frame_has_the_row_and_the_others_their_calls(void **state)
{
	const uint64_t addrs[] = {DB_CODE, DB_CODE + 0x10, DB_CODE + 0x80, DB_CODE + 0x100};
	struct db b = {0};

	(void)state;
	db_init(&b);
	add_program(&b, DB_CODE, 2, 30);
	add_unit(&b, 0, 3);
	assert_clean(check(&b, addrs, ARRAY_SIZE(addrs),
	                   "out@/inc/b.h:30:0\n"
	                   "in@/inc/b.h:30:0! out@/comp/rel/c.h:70:7\n"
	                   "?@/inc/b.h:30:0\n"));
}

static void test_a_row_of_no_file_has_no_line(void **state)
{
	const uint64_t addrs[] = {DB_CODE, DB_CODE + 0x10, DB_CODE + 0x80};
	struct db b = {0};

	(void)state;
	db_init(&b);
	add_program(&b, DB_CODE, 9, 30);
	add_unit(&b, 0, 9);
	assert_clean(check(&b, addrs, ARRAY_SIZE(addrs), "out:0:0\nin:0:0! out:70:7\n"));
}

static void test_a_program_that_is_not_there_costs_the_lines_alone(void **state)
{
	const uint64_t addrs[] = {DB_CODE + 0x10};
	struct db b = {0};
	struct dw_stats s;

	(void)state;
	db_init(&b);
	add_program(&b, DB_CODE, 2, 30);
	add_unit(&b, 0x10000, 2);
	s = check(&b, addrs, ARRAY_SIZE(addrs), "in:0:0! out:70:7\n");
	assert_true(s.bad > 0);
}

static void test_a_file_of_lines_alone_has_frames_without_names(void **state)
{
	const uint64_t addrs[] = {DB_CODE, DB_CODE + 0x180, DB_CODE + 0x200};
	struct db b = {0};

	(void)state;
	db_init(&b);
	add_program(&b, DB_CODE, 4, 30);
	add_program(&b, DB_CODE + 0x100, 2, 40);
	assert_clean(check(&b, addrs, ARRAY_SIZE(addrs), "?@/abs.c:30:0\n?@/inc/b.h:40:0\n"));
}

static void test_between_calls_a_file_costs_its_index(void **state)
{
	const uint64_t addr = DB_CODE;
	_cleanup_(img_file_freep) struct img_file *f = NULL;
	_cleanup_(dw_freep) struct dw_file *d = NULL;
	struct dw_options o = {0};
	struct got g = {0};
	struct db b = {0};

	(void)state;
	db_init(&b);
	add_program(&b, DB_CODE, 2, 30);
	add_unit(&b, 0, 2);
	f = db_file(&b);
	assert_int_equal(dw_open(f, &o, &d), 0);
	assert_in_range(dw_bytes(d), 1, 64 << 10);
	sbuf_init(&g.text, 1 << 20);
	assert_int_equal(dw_resolve(d, &addr, 1, on_frame, &g), 0);
	assert_string_equal(g.text.p, "out@/inc/b.h:30:0\n");
	assert_in_range(dw_bytes(d), 1, 64 << 10);
	sbuf_done(&g.text);
	d = dw_free(d);
	f = img_file_free(f);
	db_done(&b);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	        cmocka_unit_test(test_the_innermost_frame_has_the_row_and_the_others_their_calls),
	        cmocka_unit_test(test_a_row_of_no_file_has_no_line),
	        cmocka_unit_test(test_a_program_that_is_not_there_costs_the_lines_alone),
	        cmocka_unit_test(test_a_file_of_lines_alone_has_frames_without_names),
	        cmocka_unit_test(test_between_calls_a_file_costs_its_index),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests_name("dwarf-lines", tests, NULL, NULL);
}
