/* SPDX-License-Identifier: Apache-2.0 */
/* Functions and inlined calls, by each form, range list and kind of unit. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdio.h>
#include <fcntl.h>
#include <sys/mman.h>
#include "dwarf_check.h"
#include "line_builder.h"

/* ---- what is read --------------------------------------------------------------------------- */

static void test_inlined_calls_come_innermost_first_with_the_lines_of_calls(void **state)
{
	const uint64_t addrs[] = {DB_CODE, DB_CODE + 0x12, DB_CODE + 0x18, DB_CODE + 0x20};
	struct db b = {0};
	uint64_t in, mid;

	(void)state;
	db_init(&b);
	db_unit(&b, 0, 0);
	UNIT(&b);
	in = db_die(&b, DW_TAG_subprogram, false,
	            DB_ATTRS(NAME("in"), LINKAGE("_Z2in"), {DW_AT_decl_line, DW_FORM_data1, 5, 0}));
	mid = db_die(&b, DW_TAG_subprogram, false, DB_ATTRS(NAME("mid")));
	db_die(&b, DW_TAG_subprogram, true, DB_ATTRS(NAME("out"), LOW(DB_CODE), SIZE(0x100)));
	db_die(&b, DW_TAG_lexical_block, true, DB_ATTRS());
	db_die(&b, DW_TAG_inlined_subroutine, true,
	       DB_ATTRS(ORIGIN(mid), LOW(DB_CODE + 0x10), SIZE(0x10), CALL(70, 7)));
	db_die(&b, DW_TAG_lexical_block, true, DB_ATTRS(LOW(DB_CODE + 0x10), SIZE(8)));
	db_die(&b, DW_TAG_inlined_subroutine, false,
	       DB_ATTRS(ORIGIN(in), LOW(DB_CODE + 0x12), SIZE(2), CALL(300, 3)));
	db_up(&b);
	db_up(&b);
	db_up(&b);
	db_up(&b);
	db_up(&b);
	db_unit_end(&b);
	assert_clean(check(&b, addrs, ARRAY_SIZE(addrs),
	                   "out:0:0\n"
	                   "in=_Z2in:0:0+5! mid:300:3! out:70:7\n"
	                   "mid:0:0! out:70:7\n"
	                   "out:0:0\n"));
}

/* Lengths that are not the same for all units. */
#define ADDRESS 100
#define OFFSET  101
#define REF     102

/* By hand, from DWARF 5 §7.5.6: the builder asks the reader. */
static const struct {
	uint16_t form;
	int size;
} forms[] = {
        {DW_FORM_addr, ADDRESS},
        {DW_FORM_block2, -(int)DW_SKIP_BLOCK2},
        {DW_FORM_block4, -(int)DW_SKIP_BLOCK4},
        {DW_FORM_data2, 2},
        {DW_FORM_data4, 4},
        {DW_FORM_data8, 8},
        {DW_FORM_string, -(int)DW_SKIP_STRING},
        {DW_FORM_block, -(int)DW_SKIP_BLOCK},
        {DW_FORM_block1, -(int)DW_SKIP_BLOCK1},
        {DW_FORM_data1, 1},
        {DW_FORM_flag, 1},
        {DW_FORM_sdata, -(int)DW_SKIP_LEB},
        {DW_FORM_strp, OFFSET},
        {DW_FORM_udata, -(int)DW_SKIP_LEB},
        {DW_FORM_ref_addr, REF},
        {DW_FORM_ref1, 1},
        {DW_FORM_ref2, 2},
        {DW_FORM_ref4, 4},
        {DW_FORM_ref8, 8},
        {DW_FORM_ref_udata, -(int)DW_SKIP_LEB},
        {DW_FORM_indirect, -(int)DW_SKIP_INDIRECT},
        {DW_FORM_sec_offset, OFFSET},
        {DW_FORM_exprloc, -(int)DW_SKIP_BLOCK},
        {DW_FORM_flag_present, 0},
        {DW_FORM_strx, -(int)DW_SKIP_LEB},
        {DW_FORM_addrx, -(int)DW_SKIP_LEB},
        {DW_FORM_ref_sup4, 4},
        {DW_FORM_strp_sup, OFFSET},
        {DW_FORM_data16, 16},
        {DW_FORM_line_strp, OFFSET},
        {DW_FORM_ref_sig8, 8},
        {DW_FORM_implicit_const, 0},
        {DW_FORM_loclistx, -(int)DW_SKIP_LEB},
        {DW_FORM_rnglistx, -(int)DW_SKIP_LEB},
        {DW_FORM_ref_sup8, 8},
        {DW_FORM_strx1, 1},
        {DW_FORM_strx2, 2},
        {DW_FORM_strx3, 3},
        {DW_FORM_strx4, 4},
        {DW_FORM_addrx1, 1},
        {DW_FORM_addrx2, 2},
        {DW_FORM_addrx3, 3},
        {DW_FORM_addrx4, 4},
        {DW_FORM_GNU_addr_index, -(int)DW_SKIP_LEB},
        {DW_FORM_GNU_str_index, -(int)DW_SKIP_LEB},
        {DW_FORM_GNU_ref_alt, OFFSET},
        {DW_FORM_GNU_strp_alt, OFFSET},
};

static void test_forms_have_the_lengths_of_the_standard(void **state)
{
	const struct dw_sizes a = {8, 4, 4}, b = {4, 8, 4};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(forms); i++) {
		int size = forms[i].size;

		assert_int_equal(dw_form_size(a, forms[i].form), size == ADDRESS ? 8
		                                                 : size == OFFSET || size == REF
		                                                         ? 4
		                                                         : size);
		assert_int_equal(dw_form_size(b, forms[i].form), size == ADDRESS || size == REF ? 4
		                                                 : size == OFFSET               ? 8
		                                                                  : size);
	}
	assert_int_equal(dw_form_size(a, 0x7777), -(int)DW_SKIP_UNKNOWN);
}

/* In an entry that is passed over, and in one whose attributes are read. */
static void check_forms(uint16_t version, bool is64, uint8_t address_size)
{
	const uint64_t addrs[] = {DB_CODE + 4};

	for (size_t i = 0; i < ARRAY_SIZE(forms); i++) {
		struct db b = {.version = version, .is64 = is64, .address_size = address_size};
		struct db_attr a = {0x3ffe, forms[i].form, 200, NULL};
		char block[200];

		memset(block, 'x', sizeof(block));
		a.s = forms[i].form == DW_FORM_string ? "some string" : block;
		db_init(&b);
		db_unit(&b, DW_UT_compile, 0);
		UNIT(&b);
		db_die(&b, DW_TAG_variable, false, &a, 1);
		db_die(&b, DW_TAG_structure_type, true, &a, 1);
		db_die(&b, DW_TAG_member, false, &a, 1);
		db_up(&b);
		db_die(&b, DW_TAG_subprogram, false,
		       DB_ATTRS(a, NAME("f"), a, LOW(DB_CODE), a, SIZE(8)));
		db_up(&b);
		db_unit_end(&b);
		assert_clean(check(&b, addrs, 1, "f:0:0\n"));
	}
}

static void test_each_form_is_passed_over_by_its_length(void **state)
{
	(void)state;
	for (uint16_t version = 2; version <= 5; version++) {
		check_forms(version, false, 8);
		check_forms(version, true, 8);
		check_forms(version, false, 4);
	}
}

static void test_names_come_from_each_string_section(void **state)
{
	static const uint16_t indexed[] = {DW_FORM_strx,  DW_FORM_strx1, DW_FORM_strx2,
	                                   DW_FORM_strx3, DW_FORM_strx4, DW_FORM_GNU_str_index};
	const uint64_t addrs[] = {DB_CODE};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(indexed) + 2; i++) {
		struct db b = {.version = 5};
		struct db_attr name = {DW_AT_name, 0, 0, NULL};

		db_init(&b);
		db_str(&b, DW_SEC_STR, "before");
		db_str(&b, DW_SEC_LINE_STR, "");
		db_num(&b.secs[DW_SEC_STR_OFFSETS], 0, 8); /* a header */
		db_num(&b.secs[DW_SEC_STR_OFFSETS], 0, 4);
		db_num(&b.secs[DW_SEC_STR_OFFSETS], b.secs[DW_SEC_STR].len, 4);
		name.form = i < ARRAY_SIZE(indexed)    ? indexed[i]
		            : i == ARRAY_SIZE(indexed) ? DW_FORM_strp
		                                       : DW_FORM_line_strp;
		name.u = i < ARRAY_SIZE(indexed)     ? 1
		         : name.form == DW_FORM_strp ? b.secs[DW_SEC_STR].len
		                                     : b.secs[DW_SEC_LINE_STR].len;
		db_str(&b, name.form == DW_FORM_line_strp ? DW_SEC_LINE_STR : DW_SEC_STR, "here");
		db_unit(&b, DW_UT_compile, 0);
		db_die(&b, DW_TAG_compile_unit, true,
		       DB_ATTRS(LOW(DB_CODE), SIZE(0x100),
		                {DW_AT_str_offsets_base, DW_FORM_sec_offset, 8, NULL}));
		db_die(&b, DW_TAG_subprogram, false, DB_ATTRS(name, LOW(DB_CODE), SIZE(8)));
		db_up(&b);
		db_unit_end(&b);
		assert_clean(check(&b, addrs, 1, "here:0:0\n"));
	}
}

static void test_addresses_come_by_each_index_form_and_high_pc_may_be_one(void **state)
{
	static const uint16_t indexed[] = {DW_FORM_addrx,  DW_FORM_addrx1, DW_FORM_addrx2,
	                                   DW_FORM_addrx3, DW_FORM_addrx4, DW_FORM_GNU_addr_index};
	const uint64_t addrs[] = {DB_CODE - 1, DB_CODE, DB_CODE + 7, DB_CODE + 8};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(indexed); i++) {
		struct db b = {.version = 5};

		db_init(&b);
		db_num(&b.secs[DW_SEC_ADDR], 0, 8); /* a header */
		db_num(&b.secs[DW_SEC_ADDR], DB_CODE, 8);
		db_num(&b.secs[DW_SEC_ADDR], DB_CODE + 8, 8);
		db_unit(&b, DW_UT_compile, 0);
		db_die(&b, DW_TAG_compile_unit, true,
		       DB_ATTRS({DW_AT_low_pc, indexed[i], 0, NULL}, SIZE(0x100),
		                {DW_AT_addr_base, DW_FORM_sec_offset, 8, NULL}));
		db_die(&b, DW_TAG_subprogram, false,
		       DB_ATTRS(NAME("f"), {DW_AT_low_pc, indexed[i], 0, NULL},
		                {DW_AT_high_pc, indexed[i], 1, NULL}));
		db_up(&b);
		db_unit_end(&b);
		assert_clean(check(&b, addrs, ARRAY_SIZE(addrs), "f:0:0\nf:0:0\n"));
	}
}

/* A unit whose function "f" has the ranges of @list. */
static void ranged(struct db *b, const struct db_attr *ranges)
{
	db_unit(b, DW_UT_compile, 0);
	db_die(b, DW_TAG_compile_unit, true,
	       DB_ATTRS(LOW(DB_CODE), SIZE(0x10000), {DW_AT_addr_base, DW_FORM_sec_offset, 0, NULL},
	                {DW_AT_rnglists_base, DW_FORM_sec_offset, 12, NULL}));
	db_die(b, DW_TAG_subprogram, false, DB_ATTRS(NAME("f"), *ranges));
	db_up(b);
	db_unit_end(b);
}

static void test_each_kind_of_entry_of_a_range_list(void **state)
{
	const uint64_t addrs[] = {DB_CODE + 0x10,  DB_CODE + 0x110, DB_CODE + 0x210,
	                          DB_CODE + 0x310, DB_CODE + 0x410, DB_CODE + 0x510,
	                          DB_CODE + 0x610};

	(void)state;
	for (int i = 0; i < 2; i++) {
		struct db b = {.version = 5};
		struct db_attr ranges = {DW_AT_ranges, i ? DW_FORM_rnglistx : DW_FORM_sec_offset,
		                         i ? 1 : 20, NULL};
		struct sbuf *s = &b.secs[DW_SEC_RNGLISTS], *a = &b.secs[DW_SEC_ADDR];

		db_init(&b);
		db_num(a, DB_CODE + 0x100, 8);
		db_num(a, DB_CODE + 0x120, 8);
		db_num(a, DB_CODE + 0x400, 8);
		db_num(s, 0, 12); /* a header */
		db_num(s, 0, 4);
		db_num(s, 8, 4); /* offsets: the list is at 20 */
		db_num(s, 4, 1); /* offset_pair, by the unit's address */
		db_uleb(s, 0x10);
		db_uleb(s, 0x20);
		db_num(s, 2, 1); /* startx_endx */
		db_uleb(s, 0);
		db_uleb(s, 1);
		db_num(s, 6, 1); /* start_end */
		db_num(s, DB_CODE + 0x210, 8);
		db_num(s, DB_CODE + 0x220, 8);
		db_num(s, 7, 1); /* start_length */
		db_num(s, DB_CODE + 0x310, 8);
		db_uleb(s, 0x10);
		db_num(s, 1, 1); /* base_addressx */
		db_uleb(s, 2);
		db_num(s, 4, 1);
		db_uleb(s, 0x10);
		db_uleb(s, 0x20);
		db_num(s, 5, 1); /* base_address */
		db_num(s, DB_CODE + 0x500, 8);
		db_num(s, 4, 1);
		db_uleb(s, 0x10);
		db_uleb(s, 0x20);
		db_num(s, 3, 1); /* startx_length, of no bytes */
		db_uleb(s, 0);
		db_uleb(s, 0);
		db_num(s, 0, 1);
		/* after the end */
		db_num(s, 7, 1);
		db_num(s, DB_CODE + 0x610, 8);
		db_uleb(s, 0x10);
		ranged(&b, &ranges);
		assert_clean(check(&b, addrs, ARRAY_SIZE(addrs),
		                   "f:0:0\nf:0:0\nf:0:0\nf:0:0\nf:0:0\nf:0:0\n"));
	}
}

static void test_old_range_lists_select_their_base(void **state)
{
	const uint64_t addrs[] = {DB_CODE + 0x10, DB_CODE + 0x110, DB_CODE + 0x210};
	const struct db_attr ranges = RANGES(16);
	struct db b = {0};
	struct sbuf *s = &b.secs[DW_SEC_RANGES];

	(void)state;
	db_init(&b);
	db_num(s, 0, 16);
	db_num(s, 0x10, 8);
	db_num(s, 0x18, 8);
	db_num(s, UINT64_MAX, 8);
	db_num(s, DB_CODE + 0x100, 8);
	db_num(s, 0x10, 8);
	db_num(s, 0x18, 8);
	db_num(s, 0, 16);
	db_num(s, 0x110, 8);
	db_num(s, 0x118, 8);
	ranged(&b, &ranges);
	assert_clean(check(&b, addrs, ARRAY_SIZE(addrs), "f:0:0\nf:0:0\n"));
}

static void test_code_that_was_thrown_away_claims_nothing(void **state)
{
	const uint64_t tombstones[] = {0, 1, UINT64_MAX, UINT64_MAX - 1};
	const uint64_t addrs[] = {2, 0x100, DB_CODE, UINT64_MAX - 1};
	struct db b = {0};

	(void)state;
	db_init(&b);
	db_unit(&b, 0, 0);
	UNIT(&b);
	function(&b, "f", DB_CODE, 8);
	/* The length of all entries. */
	for (size_t i = 0; i < ARRAY_SIZE(tombstones); i++)
		function(&b, "dead", tombstones[i], 0x80000000);
	db_up(&b);
	db_unit_end(&b);
	for (size_t i = 0; i < ARRAY_SIZE(tombstones); i++) {
		db_unit(&b, 0, 0);
		db_die(&b, DW_TAG_compile_unit, true,
		       DB_ATTRS(LOW(tombstones[i]), SIZE(0x80000000)));
		function(&b, "dead", DB_CODE, 8);
		db_up(&b);
		db_unit_end(&b);
	}
	assert_clean(check(&b, addrs, ARRAY_SIZE(addrs), "f:0:0\n"));
}

static void test_functions_are_found_in_namespaces_and_in_others_with_other_addresses(void **state)
{
	const uint64_t addrs[] = {DB_CODE, DB_CODE + 0x100, DB_CODE + 0x200, DB_CODE + 0x300};
	struct db b = {0};

	(void)state;
	db_init(&b);
	db_unit(&b, 0, 0);
	UNIT(&b);
	db_die(&b, 0x39 /* namespace */, true, DB_ATTRS(NAME("n")));
	function(&b, "a", DB_CODE, 0x10);
	db_up(&b);
	db_die(&b, DW_TAG_subprogram, true,
	       DB_ATTRS(NAME("outer"), LOW(DB_CODE + 0x400), SIZE(0x10)));
	function(&b, "nested", DB_CODE + 0x100, 0x10);
	db_up(&b);
	db_die(&b, DW_TAG_structure_type, true, DB_ATTRS(NAME("s")));
	function(&b, "method", DB_CODE + 0x200, 0x10);
	db_up(&b);
	db_die(&b, 0x7fff /* not known */, true, DB_ATTRS());
	function(&b, "odd", DB_CODE + 0x300, 0x10);
	db_up(&b);
	db_up(&b);
	db_unit_end(&b);
	assert_clean(
	        check(&b, addrs, ARRAY_SIZE(addrs), "a:0:0\nnested:0:0\nmethod:0:0\nodd:0:0\n"));
}

static void test_of_two_units_the_first_has_an_address_and_of_two_functions_the_last(void **state)
{
	const uint64_t addrs[] = {DB_CODE + 0x10};
	struct db b = {0};

	(void)state;
	db_init(&b);
	for (int i = 0; i < 2; i++) {
		db_unit(&b, 0, 0);
		UNIT(&b);
		function(&b, i ? "c" : "a", DB_CODE + 0x10, 0x10);
		function(&b, i ? "d" : "b", DB_CODE + 0x10, 0x10);
		db_up(&b);
		db_unit_end(&b);
	}
	assert_clean(check(&b, addrs, ARRAY_SIZE(addrs), "b:0:0\n"));
}

static void test_address_ranges_of_units_come_from_their_section(void **state)
{
	const uint64_t addrs[] = {DB_CODE + 0x10, DB_CODE + 0x110};
	struct db b = {0};
	struct sbuf *s = &b.secs[DW_SEC_ARANGES];

	(void)state;
	db_init(&b);
	db_num(s, 44, 4);
	db_num(s, 2, 2);
	db_num(s, 0, 4); /* the first unit */
	db_num(s, 8, 1);
	db_num(s, 0, 1);
	db_num(s, 0, 4);
	db_num(s, DB_CODE + 0x100, 8);
	db_num(s, 0x100, 8);
	db_num(s, 0, 16);
	db_unit(&b, 0, 0);
	UNIT(&b); /* what it says itself is more, and not asked for */
	function(&b, "f", DB_CODE, 0x200);
	db_up(&b);
	db_unit_end(&b);
	assert_clean(check(&b, addrs, ARRAY_SIZE(addrs), "f:0:0\n"));
}

static void test_the_range_of_a_unit_goes_on_where_a_lower_one_begins(void **state)
{
	const uint64_t addrs[] = {DB_CODE + 0x8, DB_CODE + 0x18, DB_CODE + 0x28};
	struct db b = {0};

	(void)state;
	db_init(&b);
	for (uint64_t i = 0; i < 2; i++) {
		db_unit(&b, 0, 0);
		db_die(&b, DW_TAG_compile_unit, true,
		       DB_ATTRS(LOW(DB_CODE + (i ? 0 : 0x10)), SIZE(0x20)));
		function(&b, i ? "second" : "first", DB_CODE, 0x30);
		db_up(&b);
		db_unit_end(&b);
	}
	assert_clean(check(&b, addrs, ARRAY_SIZE(addrs), "first:0:0\nsecond:0:0\nsecond:0:0\n"));
}

/* ---- lines ---------------------------------------------------------------------------------- */

/* A line program of version 4: a.c:10 at DB_CODE, a.c:11 from DB_CODE + 0x10 to 0x20. */
static void lines(struct db *b)
{
	struct lb l = {.version = 4};

	lb_usual_header(&l);
	lb_set_address(&l, DB_CODE, 8);
	lb_row(&l, 0, 9);
	lb_row(&l, 0x10, 1);
	lb_end_sequence(&l, 0x10);
	(void)lb_end(&l); /* it is all of l.b */
	sbuf_add(&b->secs[DW_SEC_LINE], l.b.p, l.b.len);
	sbuf_done(&l.b);
}

static void test_lines_go_to_the_innermost_frame_and_files_of_calls_to_the_others(void **state)
{
	const uint64_t addrs[] = {DB_CODE, DB_CODE + 0x11, DB_CODE + 0x18, DB_CODE + 0x20};
	struct db b = {0};
	uint64_t in;

	(void)state;
	db_init(&b);
	lines(&b);
	db_unit(&b, 0, 0);
	db_die(&b, DW_TAG_compile_unit, true,
	       DB_ATTRS(LOW(DB_CODE), SIZE(0x100), {DW_AT_comp_dir, DW_FORM_string, 0, "/comp"},
	                {DW_AT_stmt_list, DW_FORM_sec_offset, 0, NULL}));
	in = db_die(&b, DW_TAG_subprogram, false, DB_ATTRS(NAME("in")));
	db_die(&b, DW_TAG_subprogram, true, DB_ATTRS(NAME("f"), LOW(DB_CODE), SIZE(0x14)));
	db_die(&b, DW_TAG_inlined_subroutine, false,
	       DB_ATTRS(ORIGIN(in), LOW(DB_CODE + 0x10), SIZE(4), CALL(7, 2),
	                {DW_AT_call_file, DW_FORM_data1, 3, NULL}));
	db_up(&b);
	db_up(&b);
	db_unit_end(&b);
	/* Then an address with a line and no function, and one with neither. */
	assert_clean(check(&b, addrs, ARRAY_SIZE(addrs),
	                   "f@/comp/a.c:10:0\n"
	                   "in@/comp/a.c:11:0! f@/comp/rel/c.h:7:2\n"
	                   "?@/comp/a.c:11:0\n"));
}

static void test_a_file_may_have_lines_alone(void **state)
{
	const uint64_t addrs[] = {DB_CODE - 1, DB_CODE, DB_CODE + 0x20};
	struct db b = {0};

	(void)state;
	db_init(&b);
	lines(&b);
	lines(&b); /* the first program that has it */
	assert_clean(check(&b, addrs, ARRAY_SIZE(addrs), "?@a.c:10:0\n"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	        cmocka_unit_test(test_forms_have_the_lengths_of_the_standard),
	        cmocka_unit_test(test_inlined_calls_come_innermost_first_with_the_lines_of_calls),
	        cmocka_unit_test(test_each_form_is_passed_over_by_its_length),
	        cmocka_unit_test(test_names_come_from_each_string_section),
	        cmocka_unit_test(test_addresses_come_by_each_index_form_and_high_pc_may_be_one),
	        cmocka_unit_test(test_each_kind_of_entry_of_a_range_list),
	        cmocka_unit_test(test_old_range_lists_select_their_base),
	        cmocka_unit_test(test_code_that_was_thrown_away_claims_nothing),
	        cmocka_unit_test(
	                test_functions_are_found_in_namespaces_and_in_others_with_other_addresses),
	        cmocka_unit_test(
	                test_of_two_units_the_first_has_an_address_and_of_two_functions_the_last),
	        cmocka_unit_test(test_address_ranges_of_units_come_from_their_section),
	        cmocka_unit_test(test_the_range_of_a_unit_goes_on_where_a_lower_one_begins),
	        cmocka_unit_test(
	                test_lines_go_to_the_innermost_frame_and_files_of_calls_to_the_others),
	        cmocka_unit_test(test_a_file_may_have_lines_alone),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
