/* SPDX-License-Identifier: Apache-2.0 */
#include "dw_line_check.h"

static void test_every_version_and_format_has_rows_and_files(void **state)
{
	(void)state;
	for (uint16_t version = 2; version <= 5; version++) {
		for (int is64 = 0; is64 < 2; is64++) {
			/* version 5 numbers from 0, with main.c before the others */
			const uint64_t a = 1;
			struct fix f;

			fix_init(&f, version);
			f.lb.is64 = is64;
			lb_usual_header(&f.lb);
			lb_set_address(&f.lb, 0x1000, 8);
			lb_row(&f.lb, 0, 9); /* line 10 */
			lb_num(&f.lb, 5, 1); /* set_column */
			lb_uleb(&f.lb, 300);
			lb_num(&f.lb, 4, 1); /* set_file */
			lb_uleb(&f.lb, 2);
			lb_row(&f.lb, 4, -3);   /* 7 */
			lb_row(&f.lb, 400, 90); /* 97 */
			lb_end_sequence(&f.lb, 0x10);
			fix_open(&f);
			assert_string_equal(row_at(&f, 0xfff), "-");
			assert_string_equal(row_at(&f, 0x1000), "1:10:0");
			assert_string_equal(row_at(&f, 0x1003), "1:10:0");
			assert_string_equal(row_at(&f, 0x1004), "2:7:300");
			assert_string_equal(row_at(&f, 0x1004 + 399), "2:7:300");
			assert_string_equal(row_at(&f, 0x1004 + 400), "2:97:300");
			assert_string_equal(row_at(&f, 0x1004 + 415), "2:97:300");
			assert_string_equal(row_at(&f, 0x1004 + 416), "-");
			assert_string_equal(file_at(&f, a), "/comp/a.c");
			assert_string_equal(file_at(&f, a + 1), "/inc/b.h");
			assert_string_equal(file_at(&f, a + 2), "/comp/rel/c.h");
			assert_string_equal(file_at(&f, a + 3), "/abs.c");
			assert_string_equal(file_at(&f, a + 4), "-");
			assert_string_equal(file_at(&f, UINT64_MAX), "-");
			assert_string_equal(file_at(&f, 0), version == 5 ? "/comp/main.c" : "-");
			assert_int_equal(f.stats.bad + f.stats.unsupported + f.stats.over_limit, 0);
			fix_done(&f);
		}
	}
}

/* Forms of names, with what they lead to, and of other contents. */
static void test_entries_of_version_5_have_any_form(void **state)
{
	struct fix f;

	(void)state;
	for (int is64 = 0; is64 < 2; is64++) {
		static const uint16_t formats[][2] = {
		        {1, 0x1f},      /* path: line_strp */
		        {2, 0x0b},      /* directory: data1 */
		        {5, 0x1e},      /* MD5: data16 */
		        {3, 0x09},      /* time: block */
		        {4, 0x0f},      /* size: udata */
		        {0x2001, 0x1f}, /* source: line_strp */
		        {0x3fff, 0x0a}, /* of a vendor: block1, block2, block4, sdata, data2, 4, 8
		                         */
		        {0x3fff, 0x03}, {0x3fff, 0x04},  {0x3fff, 0x0d}, {0x3fff, 0x05},
		        {0x3fff, 0x06}, {0x3fff, 0x07},  {0x3fff, 0x0c}, {0x3fff, 0x17},
		        {0x3fff, 0x1d}, {0x3fff, 0x1f21}};

		fix_init(&f, 5);
		f.lb.is64 = is64;
		lb_begin(&f.lb);
		lb_num(&f.lb, 1, 1);
		lb_uleb(&f.lb, 1);
		lb_uleb(&f.lb, 0x0e); /* strp */
		lb_uleb(&f.lb, 2);
		lb_off(&f.lb, 1);
		lb_off(&f.lb, 11);
		lb_num(&f.lb, ARRAY_SIZE(formats), 1);
		for (size_t i = 0; i < ARRAY_SIZE(formats); i++) {
			lb_uleb(&f.lb, formats[i][0]);
			lb_uleb(&f.lb, formats[i][1]);
		}
		lb_uleb(&f.lb, 3);
		for (uint64_t i = 0; i < 3; i++) {
			lb_off(&f.lb, i == 2 ? 1000 : 6);
			lb_num(&f.lb, i, 1);
			lb_num(&f.lb, 0x1111, 8);
			lb_num(&f.lb, 0x1111, 8);
			lb_uleb(&f.lb, 3);
			lb_num(&f.lb, 0x010203, 3);
			lb_uleb(&f.lb, 1 << 20);
			lb_off(&f.lb, 0);
			lb_num(&f.lb, 1, 1);
			lb_num(&f.lb, 7, 1);
			lb_num(&f.lb, 1, 2);
			lb_num(&f.lb, 7, 1);
			lb_num(&f.lb, 1, 4);
			lb_num(&f.lb, 7, 1);
			lb_sleb(&f.lb, -70000);
			lb_num(&f.lb, 7, 2);
			lb_num(&f.lb, 7, 4);
			lb_num(&f.lb, 7, 8);
			lb_num(&f.lb, 1, 1);
			lb_off(&f.lb, 7);
			lb_off(&f.lb, 7);
			lb_off(&f.lb, 7);
		}
		lb_end_header(&f.lb);
		fix_open(&f);
		assert_string_equal(file_at(&f, 0), "/comp/one/five.c");
		assert_string_equal(file_at(&f, 1), "/three/five.c");
		assert_string_equal(file_at(&f, 2), "-"); /* name outside its section */
		assert_string_equal(file_at(&f, 3), "-");
		assert_int_equal(f.stats.bad + f.stats.unsupported, 0);
		fix_done(&f);
	}
}

static void test_names_by_index_go_through_strx(void **state)
{
	static const uint8_t forms[] = {0x1a, 0x25, 0x26, 0x27, 0x28};
	struct fix f;

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(forms); i++) {
		fix_init(&f, 5);
		lb_begin(&f.lb);
		lb_num(&f.lb, 0, 1);
		lb_uleb(&f.lb, 0);
		lb_num(&f.lb, 1, 1);
		lb_uleb(&f.lb, 1);
		lb_uleb(&f.lb, forms[i]);
		lb_uleb(&f.lb, 3);
		for (uint64_t v = 0; v < 3; v++)
			lb_num(&f.lb, v, forms[i] == 0x1a ? 1 : forms[i] - 0x24);
		lb_end_header(&f.lb);
		fix_open(&f);
		assert_string_equal(file_at(&f, 0), "/comp/one");
		assert_string_equal(file_at(&f, 1), "/comp/two.c");
		assert_string_equal(file_at(&f, 2), "-");
		dw_line_freep(&f.l);
		f.env.strx = NULL;
		fix_open(&f);
		assert_string_equal(file_at(&f, 0), "-");
		fix_done(&f);
	}
}

static void test_paths_without_a_compilation_directory(void **state)
{
	struct fix f;

	(void)state;
	fix_init(&f, 4);
	f.env.comp_dir = "";
	lb_begin(&f.lb);
	lb_str(&f.lb, "d/");
	lb_end_table(&f.lb);
	lb_file(&f.lb, "a.c", 0);
	lb_file(&f.lb, "a.c", 1);
	lb_file(&f.lb, "a.c", 7); /* no such directory */
	lb_end_table(&f.lb);
	lb_end_header(&f.lb);
	fix_open(&f);
	assert_string_equal(file_at(&f, 1), "a.c");
	assert_string_equal(file_at(&f, 2), "d/a.c");
	assert_string_equal(file_at(&f, 3), "a.c");
	dw_line_freep(&f.l);
	f.env.comp_dir = "/";
	fix_open(&f);
	assert_string_equal(file_at(&f, 1), "/a.c");
	assert_string_equal(file_at(&f, 2), "/d/a.c");
	fix_done(&f);
}

static void test_path_over_the_buffers_bound_leaves_it(void **state)
{
	_cleanup_(sbuf_done) struct sbuf b;
	struct fix f;

	(void)state;
	fix_init(&f, 4);
	lb_usual_header(&f.lb);
	fix_open(&f);
	for (size_t max = 1; max < 10; max++) {
		sbuf_init(&b, max);
		assert_int_equal(dw_line_file(f.l, 1, &b), max < 9 ? -E2BIG : 0);
		assert_int_equal(b.len, max < 9 ? 0 : 9);
		sbuf_done(&b);
	}
	sbuf_init(&b, 10);
	fix_done(&f);
}

static void test_errno_of_a_string_is_handed_on(void **state)
{
	struct fix f;

	(void)state;
	fix_init(&f, 5);
	lb_begin(&f.lb);
	lb_num(&f.lb, 0, 1);
	lb_uleb(&f.lb, 0);
	lb_num(&f.lb, 1, 1);
	lb_uleb(&f.lb, 1);
	lb_uleb(&f.lb, 0x1f);
	lb_uleb(&f.lb, 1);
	lb_off(&f.lb, 1);
	lb_end_header(&f.lb);
	fix_open(&f);
	assert_string_equal(file_at(&f, 0), "/comp/four");
	f.io = -EIO;
	assert_string_equal(file_at(&f, 0), "EIO");
	f.io = -ENOMEM;
	assert_string_equal(file_at(&f, 0), "ENOMEM");
	fix_done(&f);
}

static void test_standard_operations_advance_as_they_say(void **state)
{
	struct fix f;

	(void)state;
	fix_init(&f, 3);
	f.lb.min_insn = 4;
	f.lb.opcode_base = 15; /* 13: unknown, with two operands; 14: none */
	lb_usual_header(&f.lb);
	lb_set_address(&f.lb, 0x1000, 8);
	lb_row(&f.lb, 0, 0); /* line 1 */
	lb_num(&f.lb, 9, 1); /* fixed_advance_pc: not times 4 */
	lb_num(&f.lb, 0x102, 2);
	lb_row(&f.lb, 0, 1); /* 0x1102: 2 */
	lb_num(&f.lb, 8, 1); /* const_add_pc: (255 - 15) / 14 * 4 = 68 */
	lb_row(&f.lb, 0, 1); /* 0x1146: 3 */
	lb_num(&f.lb, 6, 1);
	lb_num(&f.lb, 7, 1);
	lb_num(&f.lb, 10, 1);
	lb_num(&f.lb, 11, 1);
	lb_num(&f.lb, 12, 1); /* set_isa */
	lb_uleb(&f.lb, 1000);
	lb_num(&f.lb, 13, 1);
	lb_uleb(&f.lb, 1000);
	lb_uleb(&f.lb, 1000);
	lb_num(&f.lb, 14, 1);
	lb_num(&f.lb, 0, 1); /* unknown extended operation: by its length */
	lb_uleb(&f.lb, 4);
	lb_num(&f.lb, 0x010180, 4);
	lb_num(&f.lb, 0, 1); /* discriminator */
	lb_uleb(&f.lb, 2);
	lb_num(&f.lb, 0x0704, 2);
	lb_num(&f.lb, 0, 2); /* of no length */
	lb_row(&f.lb, 8, 1); /* 0x114e: 4 */
	lb_end_sequence(&f.lb, 4);
	fix_open(&f);
	assert_string_equal(row_at(&f, 0x1101), "1:1:0");
	assert_string_equal(row_at(&f, 0x1102), "1:2:0");
	assert_string_equal(row_at(&f, 0x1145), "1:2:0");
	assert_string_equal(row_at(&f, 0x1146), "1:3:0");
	assert_string_equal(row_at(&f, 0x114d), "1:3:0");
	assert_string_equal(row_at(&f, 0x114e), "1:4:0");
	assert_string_equal(row_at(&f, 0x1151), "1:4:0");
	assert_string_equal(row_at(&f, 0x1152), "-");
	assert_int_equal(f.stats.bad, 0);
	fix_done(&f);
}

static void test_a_low_opcode_base_makes_more_operations_special(void **state)
{
	struct fix f;

	(void)state;
	fix_init(&f, 4);
	f.lb.opcode_base = 4; /* set_file and all that follow are special */
	f.lb.line_base = 1;
	f.lb.line_range = 4;
	lb_usual_header(&f.lb);
	lb_set_address(&f.lb, 0x1000, 8);
	lb_num(&f.lb, 4, 1); /* 0 bytes, 1 line */
	lb_num(&f.lb, 9, 1); /* (9 - 4) / 4 = 1 byte, 2 lines */
	lb_end_sequence(&f.lb, 4);
	fix_open(&f);
	assert_string_equal(row_at(&f, 0x1000), "1:2:0");
	assert_string_equal(row_at(&f, 0x1001), "1:4:0");
	fix_done(&f);
}

static void test_without_a_line_range_special_operations_stop(void **state)
{
	struct fix f;

	(void)state;
	fix_init(&f, 4);
	f.lb.no_range = true;
	lb_usual_header(&f.lb);
	lb_set_address(&f.lb, 0x1000, 8);
	lb_num(&f.lb, 200, 1);
	lb_num(&f.lb, 8, 1);
	lb_num(&f.lb, 201, 1);
	lb_end_sequence(&f.lb, 4);
	fix_open(&f);
	assert_string_equal(row_at(&f, 0x1003), "1:1:0");
	fix_done(&f);
}

static void test_of_rows_at_one_address_the_last_counts(void **state)
{
	struct fix f;

	(void)state;
	fix_init(&f, 5);
	lb_usual_header(&f.lb);
	lb_set_address(&f.lb, 0x1000, 8);
	lb_row(&f.lb, 0, 1);
	lb_row(&f.lb, 0, 1);
	lb_row(&f.lb, 2, 1);
	lb_row(&f.lb, 0, 1);
	lb_end_sequence(&f.lb, 2);
	fix_open(&f);
	assert_string_equal(row_at(&f, 0x1000), "1:3:0");
	assert_string_equal(row_at(&f, 0x1002), "1:5:0");
	fix_done(&f);
}

static void test_sequences_come_in_any_order(void **state)
{
	static const uint64_t addrs[] = {0xfff,  0x1000, 0x10ff, 0x1100,
	                                 0x2000, 0x2001, 0x3000, 0x4000};
	static const uint32_t lines[] = {0, 10, 10, 0, 20, 20, 30, 0};
	struct dw_row rows[ARRAY_SIZE(addrs)];
	struct fix f;

	(void)state;
	fix_init(&f, 5);
	lb_usual_header(&f.lb);
	add_sequence(&f.lb, 0x3000, 0x100, 30, 8);
	add_sequence(&f.lb, 0x1000, 0x100, 10, 4);
	add_sequence(&f.lb, 0x2000, 0x100, 20, 8);
	fix_open(&f);
	assert_int_equal(dw_line_find(f.l, addrs, ARRAY_SIZE(addrs), rows), 0);
	for (size_t i = 0; i < ARRAY_SIZE(addrs); i++) {
		assert_int_equal(rows[i].found, lines[i] != 0);
		assert_int_equal(rows[i].line, lines[i]);
	}
	assert_int_equal(dw_line_find(f.l, NULL, 0, NULL), 0);
	fix_done(&f);
}

static void test_of_overlapping_sequences_the_one_that_ends_first_counts(void **state)
{
	struct fix f;

	(void)state;
	fix_init(&f, 5);
	lb_usual_header(&f.lb);
	add_sequence(&f.lb, 0x1000, 0x1000, 10, 8);
	add_sequence(&f.lb, 0x1400, 0x400, 20, 8);
	add_sequence(&f.lb, 0x1600, 0x800, 30, 8);
	add_sequence(&f.lb, 0x1400, 0x400, 40, 8);
	fix_open(&f);
	assert_string_equal(row_at(&f, 0x13ff), "1:10:0");
	assert_string_equal(row_at(&f, 0x1400), "1:20:0");
	assert_string_equal(row_at(&f, 0x17ff), "1:20:0");
	assert_string_equal(row_at(&f, 0x1800), "1:30:0");
	assert_string_equal(row_at(&f, 0x1dff), "1:30:0");
	assert_string_equal(row_at(&f, 0x1e00), "1:10:0");
	fix_done(&f);
}

static void test_discarded_sequences_claim_nothing(void **state)
{
	static const uint64_t starts[] = {0, UINT64_MAX, UINT64_MAX - 1};
	struct fix f;

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(starts); i++) {
		fix_init(&f, 5);
		lb_usual_header(&f.lb);
		add_sequence(&f.lb, starts[i], 0x2000, 10, 8);
		add_sequence(&f.lb, 0x1000, 0x10, 20, 8);
		fix_open(&f);
		assert_string_equal(row_at(&f, 0x1000), "1:20:0");
		assert_string_equal(row_at(&f, 0x1010), "-");
		assert_string_equal(row_at(&f, starts[i]), "-");
		fix_done(&f);
	}
	/* Numbers of 32 bits do not wrap in 64. */
	fix_init(&f, 5);
	f.lb.address_size = 4;
	lb_usual_header(&f.lb);
	add_sequence(&f.lb, UINT32_MAX, 0x2000, 10, 4);
	add_sequence(&f.lb, UINT32_MAX - 1, 0x2000, 10, 4);
	fix_open(&f);
	assert_string_equal(row_at(&f, UINT32_MAX), "-");
	assert_string_equal(row_at(&f, UINT32_MAX + 5ULL), "-");
	fix_done(&f);
}

static void test_address_of_another_size_is_passed_over(void **state)
{
	struct fix f;

	(void)state;
	fix_init(&f, 4);
	lb_usual_header(&f.lb);
	lb_set_address(&f.lb, 0x1000, 8);
	lb_set_address(&f.lb, 0x2000, 3);
	lb_row(&f.lb, 0, 6);
	lb_end_sequence(&f.lb, 4);
	fix_open(&f);
	assert_string_equal(row_at(&f, 0x1000), "1:7:0");
	assert_int_equal(f.stats.bad, 1);
	fix_done(&f);
}

static void test_rows_that_go_back_are_harmless(void **state)
{
	struct fix f;

	(void)state;
	fix_init(&f, 4);
	lb_usual_header(&f.lb);
	lb_set_address(&f.lb, 0x1000, 8);
	lb_row(&f.lb, 0, 0);
	lb_row(&f.lb, 0x100, 1);
	lb_set_address(&f.lb, 0x800, 8);
	lb_row(&f.lb, 0, 1);
	lb_set_address(&f.lb, 0x1080, 8);
	lb_row(&f.lb, 0, 1);
	lb_end_sequence(&f.lb, 0x100);
	fix_open(&f);
	assert_string_equal(row_at(&f, 0x900), "-"); /* before the first row */
	assert_string_equal(row_at(&f, 0x1010), "1:3:0");
	assert_string_equal(row_at(&f, 0x1090), "1:4:0");
	assert_string_equal(row_at(&f, 0x1180), "-");
	fix_done(&f);
}

static void test_what_comes_before_the_damage_stays(void **state)
{
	struct fix f;

	(void)state;
	fix_init(&f, 5);
	lb_usual_header(&f.lb);
	add_sequence(&f.lb, 0x1000, 0x100, 10, 8);
	lb_set_address(&f.lb, 0x2000, 8);
	lb_row(&f.lb, 0, 0);
	lb_num(&f.lb, 0, 1);
	lb_uleb(&f.lb, 100); /* more than there is */
	lb_num(&f.lb, 1, 1);
	fix_open(&f);
	assert_string_equal(row_at(&f, 0x1000), "1:10:0");
	assert_int_equal(f.stats.bad, 1);
	assert_string_equal(row_at(&f, 0x2000), "-");
	fix_done(&f);
}

static void test_a_sequence_without_end_claims_nothing(void **state)
{
	struct fix f;

	(void)state;
	fix_init(&f, 5);
	lb_usual_header(&f.lb);
	lb_set_address(&f.lb, 0x2000, 8);
	lb_row(&f.lb, 0, 0);
	lb_row(&f.lb, 0x100, 0);
	fix_open(&f);
	assert_string_equal(row_at(&f, 0x2000), "-");
	assert_int_equal(f.stats.bad, 1);
	fix_done(&f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	        cmocka_unit_test(test_every_version_and_format_has_rows_and_files),
	        cmocka_unit_test(test_entries_of_version_5_have_any_form),
	        cmocka_unit_test(test_names_by_index_go_through_strx),
	        cmocka_unit_test(test_paths_without_a_compilation_directory),
	        cmocka_unit_test(test_path_over_the_buffers_bound_leaves_it),
	        cmocka_unit_test(test_errno_of_a_string_is_handed_on),
	        cmocka_unit_test(test_standard_operations_advance_as_they_say),
	        cmocka_unit_test(test_a_low_opcode_base_makes_more_operations_special),
	        cmocka_unit_test(test_without_a_line_range_special_operations_stop),
	        cmocka_unit_test(test_of_rows_at_one_address_the_last_counts),
	        cmocka_unit_test(test_sequences_come_in_any_order),
	        cmocka_unit_test(test_of_overlapping_sequences_the_one_that_ends_first_counts),
	        cmocka_unit_test(test_discarded_sequences_claim_nothing),
	        cmocka_unit_test(test_address_of_another_size_is_passed_over),
	        cmocka_unit_test(test_rows_that_go_back_are_harmless),
	        cmocka_unit_test(test_what_comes_before_the_damage_stays),
	        cmocka_unit_test(test_a_sequence_without_end_claims_nothing),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests_name("dw-line", tests, NULL, NULL);
}
