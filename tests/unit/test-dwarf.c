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
		/* behind the end */
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
	/* Of the length of all that there is. */
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

/* ---- references ----------------------------------------------------------------------------- */

static void test_a_name_is_looked_for_behind_origin_and_specification(void **state)
{
	const uint64_t addrs[] = {DB_CODE};
	struct db b = {0};
	uint64_t decl, abstract;

	(void)state;
	db_init(&b);
	db_unit(&b, 0, 0);
	UNIT(&b);
	decl = db_die(&b, DW_TAG_subprogram, false,
	              DB_ATTRS(NAME("f"), {DW_AT_MIPS_linkage_name, DW_FORM_string, 0, "_Z1f"},
	                       {DW_AT_decl_line, DW_FORM_data1, 3, 0}));
	db_up(&b);
	db_unit_end(&b);
	db_unit(&b, 0, 0); /* another unit */
	db_die(&b, DW_TAG_compile_unit, true, DB_ATTRS(LOW(DB_CODE), SIZE(8)));
	abstract = db_die(&b, DW_TAG_subprogram, false,
	                  DB_ATTRS({DW_AT_specification, DW_FORM_ref_addr, decl, 0},
	                           {DW_AT_decl_line, DW_FORM_data1, 9, 0}));
	db_die(&b, DW_TAG_subprogram, false, DB_ATTRS(ORIGIN(abstract), LOW(DB_CODE), SIZE(8)));
	db_up(&b);
	db_unit_end(&b);
	/* The first unit must not have the address. */
	db_patch(&b, DW_SEC_INFO, 12, DB_CODE + 0x100, 8);
	assert_clean(check(&b, addrs, 1, "f=_Z1f:0:0+9\n"));
}

static void test_a_loop_of_references_ends_and_is_counted(void **state)
{
	const uint64_t addrs[] = {DB_CODE, DB_CODE + 0x10};
	struct db b = {0};
	struct dw_stats s;
	uint64_t x, y;

	(void)state;
	db_init(&b);
	db_unit(&b, 0, 0);
	UNIT(&b);
	x = db_die(&b, DW_TAG_subprogram, false, DB_ATTRS(ORIGIN(0)));
	y = db_die(&b, DW_TAG_subprogram, false, DB_ATTRS(ORIGIN(x)));
	db_patch(&b, DW_SEC_INFO, x + 1, y, 4);
	db_die(&b, DW_TAG_subprogram, false, DB_ATTRS(NAME("f"), ORIGIN(y), LOW(DB_CODE), SIZE(8)));
	function(&b, "g", DB_CODE + 0x10, 8);
	db_up(&b);
	db_unit_end(&b);
	s = check(&b, addrs, 2, "f:0:0\ng:0:0\n");
	assert_int_equal(s.over_limit, 1);
	assert_int_equal(s.bad, 0);
}

static void test_references_to_nowhere_cost_the_name_alone(void **state)
{
	/* Outside of the section, into a header, into the middle of another entry. */
	const uint64_t to[] = {UINT32_MAX, 0x10000, 0, 5, 15};
	const uint64_t addrs[] = {DB_CODE, DB_CODE + 0x10};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(to); i++) {
		struct db b = {0};

		db_init(&b);
		db_unit(&b, 0, 0);
		UNIT(&b);
		db_die(&b, DW_TAG_subprogram, false,
		       DB_ATTRS(ORIGIN(to[i]), LOW(DB_CODE), SIZE(8)));
		function(&b, "g", DB_CODE + 0x10, 8);
		db_up(&b);
		db_unit_end(&b);
		assert_int_equal(check(&b, addrs, 2, "?:0:0\ng:0:0\n").bad, 1);
	}
}

static void test_names_and_origins_come_from_the_common_file_of_dwz(void **state)
{
	const uint64_t addrs[] = {DB_CODE, DB_CODE + 0x10};
	_cleanup_(img_file_freep) struct img_file *alt = NULL;
	struct dw_options o = {0};
	struct db b = {0}, c = {0};
	struct dw_stats s;
	uint64_t str, die;

	(void)state;
	db_init(&c);
	db_str(&c, DW_SEC_STR, "x");
	str = db_str(&c, DW_SEC_STR, "common");
	db_unit(&c, 0, 0);
	db_die(&c, DW_TAG_partial_unit, true, DB_ATTRS());
	die = db_die(&c, DW_TAG_subprogram, false, DB_ATTRS({DW_AT_name, DW_FORM_strp, str, NULL}));
	db_up(&c);
	db_unit_end(&c);
	alt = db_file(&c);
	o.alt = alt;

	for (int i = 0; i < 2; i++) {
		b = (struct db){0};
		db_init(&b);
		db_unit(&b, 0, 0);
		UNIT(&b);
		db_die(&b, DW_TAG_subprogram, false,
		       DB_ATTRS({DW_AT_name, DW_FORM_GNU_strp_alt, str, NULL}, LOW(DB_CODE),
		                SIZE(8)));
		db_die(&b, DW_TAG_subprogram, false,
		       DB_ATTRS({DW_AT_abstract_origin, DW_FORM_GNU_ref_alt, die, NULL},
		                LOW(DB_CODE + 0x10), SIZE(8)));
		db_up(&b);
		db_unit_end(&b);
		check_with(&b, &o, addrs, 2, i ? "?:0:0\n?:0:0\n" : "common:0:0\ncommon:0:0\n", &s);
		assert_clean(s);
		db_done(&b);
		o.alt = NULL; /* and without it */
	}
	alt = img_file_free(alt);
	db_done(&c);
}

/* ---- packed sections ------------------------------------------------------------------------ */

#define PACKED_UNITS 40
#define PACKED_BLOCK 60000

/* Units with names and inlined functions in their own, in one before, and in the common file; so
 * large that 2 MiB of memory has windows of it only. */
static void build_packed(struct db *b, struct db *c, uint64_t addrs[2 * PACKED_UNITS],
                         struct sbuf *want)
{
	_cleanup_free_ char *block = malloc(PACKED_BLOCK);
	uint64_t shared[PACKED_UNITS], common[PACKED_UNITS], x = 1;

	assert_non_null(block);
	for (size_t i = 0; i < PACKED_BLOCK; i++) {
		x = x * 6364136223846793005ULL + 1442695040888963407ULL;
		block[i] = (char)(x >> 60);
	}
	db_init(b);
	db_init(c);
	db_unit(c, 0, 0);
	db_die(c, DW_TAG_partial_unit, true, DB_ATTRS());
	db_unit(b, 0, 0);
	db_die(b, DW_TAG_partial_unit, true, DB_ATTRS());
	for (size_t i = 0; i < PACKED_UNITS; i++) {
		char name[32];
		uint64_t str;

		(void)snprintf(name, sizeof(name), "shared%zu", i);
		(void)sbuf_add(&b->secs[DW_SEC_STR], block, PACKED_BLOCK);
		str = db_str(b, DW_SEC_STR, name);
		shared[i] = db_die(b, DW_TAG_subprogram, false,
		                   DB_ATTRS({DW_AT_name, DW_FORM_strp, str, NULL},
		                            {0x3fff, DW_FORM_block4, PACKED_BLOCK, block}));
		(void)snprintf(name, sizeof(name), "common%zu", i);
		(void)sbuf_add(&c->secs[DW_SEC_STR], block, PACKED_BLOCK);
		str = db_str(c, DW_SEC_STR, name);
		common[i] = db_die(c, DW_TAG_subprogram, false,
		                   DB_ATTRS({DW_AT_name, DW_FORM_strp, str, NULL},
		                            {0x3fff, DW_FORM_block4, PACKED_BLOCK, block}));
	}
	db_up(b);
	db_unit_end(b);
	db_up(c);
	db_unit_end(c);
	for (size_t i = 0; i < PACKED_UNITS; i++) {
		const uint64_t at = DB_CODE + i * 0x100;
		const size_t other = (i * 7 + 3) % PACKED_UNITS;
		char name[32];
		uint64_t str;

		(void)snprintf(name, sizeof(name), "own%zu", i);
		(void)sbuf_add(&b->secs[DW_SEC_STR], block, PACKED_BLOCK / 8);
		str = db_str(b, DW_SEC_STR, name);
		db_unit(b, 0, 0);
		db_die(b, DW_TAG_compile_unit, true, DB_ATTRS(LOW(at), SIZE(0x100)));
		db_die(b, DW_TAG_subprogram, true,
		       DB_ATTRS({DW_AT_name, DW_FORM_strp, str, NULL}, LOW(at), SIZE(0x10)));
		db_die(b, DW_TAG_inlined_subroutine, false,
		       DB_ATTRS(ORIGIN(shared[other]), LOW(at), SIZE(8), CALL(i + 1, 2)));
		db_up(b);
		db_die(b, DW_TAG_subprogram, true,
		       DB_ATTRS({DW_AT_abstract_origin, DW_FORM_GNU_ref_alt, common[other], NULL},
		                {DW_AT_linkage_name, DW_FORM_strp, str, NULL}, LOW(at + 0x10),
		                SIZE(0x10)));
		db_up(b);
		db_up(b);
		db_unit_end(b);
		addrs[2 * i] = at + 4;
		addrs[2 * i + 1] = at + 0x14;
		sbuf_addf(want, "shared%zu:0:0! own%zu:%zu:2\ncommon%zu=own%zu:0:0\n", other, i,
		          i + 1, other, i);
	}
}

static void test_packed_sections_are_read_by_windows(void **state)
{
	(void)state;
	for (uint8_t compression = 0; compression <= IMG_COMPRESSED_ZSTD; compression++) {
		const size_t max = compression == IMG_COMPRESSED_ZSTD ? 16 << 20 : 2 << 20;
		struct dw_options o = {.max_bytes = max};
		uint64_t addrs[2 * PACKED_UNITS];
		struct db b = {.compression = compression}, c = {.compression = compression};
		_cleanup_(img_file_freep) struct img_file *alt = NULL;
		_cleanup_(sbuf_done) struct sbuf want;
		struct dw_stats s;

		sbuf_init(&want, 1 << 20);
		build_packed(&b, &c, addrs, &want);
		alt = db_file(&c);
		o.alt = alt;
		assert_true(b.secs[DW_SEC_INFO].len > max / 8 && b.secs[DW_SEC_STR].len > max / 8);
		check_with(&b, &o, addrs, ARRAY_SIZE(addrs), want.p, &s);
		assert_clean(s);
		assert_int_equal(s.sections_refused, 0);
		assert_true(s.bytes_peak <= max);
		db_done(&b);
		alt = img_file_free(alt);
		db_done(&c);
	}
}

/* A file that makes each name cost a whole section ends at the steps, with what it has by then. */
static void test_going_back_in_packed_sections_costs_steps(void **state)
{
	struct dw_options o = {.max_bytes = 12 << 20, .max_steps = 100000};
	uint64_t addrs[2 * PACKED_UNITS];
	struct db b = {.compression = IMG_COMPRESSED_ZSTD},
	          c = {.compression = IMG_COMPRESSED_ZSTD};
	_cleanup_(img_file_freep) struct img_file *f = NULL;
	_cleanup_(sbuf_done) struct sbuf want;
	_cleanup_(dw_freep) struct dw_file *d = NULL;
	struct got g = {0};

	(void)state;
	sbuf_init(&want, 1 << 20);
	sbuf_init(&g.text, 1 << 20);
	build_packed(&b, &c, addrs, &want);
	f = db_file(&b);
	assert_int_equal(dw_open(f, &o, &d), 0);
	assert_int_equal(dw_resolve(d, addrs, ARRAY_SIZE(addrs), on_frame, &g), 0);
	assert_true(dw_stats(d)->over_steps > 0);
	sbuf_done(&g.text);
	d = dw_free(d);
	f = img_file_free(f);
	db_done(&b);
	db_done(&c);
}

/* ---- split units ---------------------------------------------------------------------------- */

#define DWO_ID 0x1122334455667788

static struct db *dwo_file;
static size_t dwo_opened;

static int open_dwo(void *arg, const char *dir, const char *name, int *ret_fd)
{
	int fd;

	(void)arg;
	assert_string_equal(dir, "/dir");
	assert_string_equal(name, "x.dwo");
	dwo_opened++;
	if (!dwo_file)
		return -ENOENT;
	fd = memfd_create("dwo", MFD_CLOEXEC);
	assert_true(fd >= 0);
	assert_int_equal(file_write_full(fd, dwo_file->file.p, dwo_file->file.len), 0);
	*ret_fd = fd;
	return 0;
}

static void skeleton(struct db *b)
{
	struct db_attr v5[] = {
	        LOW(DB_CODE),
	        SIZE(0x100),
	        {DW_AT_comp_dir, DW_FORM_string, 0, "/dir"},
	        {DW_AT_dwo_name, DW_FORM_string, 0, "x.dwo"},
	        {DW_AT_addr_base, DW_FORM_sec_offset, 8, NULL},
	};
	struct db_attr v4[] = {
	        LOW(DB_CODE),
	        SIZE(0x100),
	        {DW_AT_comp_dir, DW_FORM_string, 0, "/dir"},
	        {DW_AT_GNU_dwo_name, DW_FORM_string, 0, "x.dwo"},
	        {DW_AT_GNU_addr_base, DW_FORM_sec_offset, 8, NULL},
	        {DW_AT_GNU_dwo_id, DW_FORM_data8, DWO_ID, NULL},
	        {DW_AT_GNU_ranges_base, DW_FORM_sec_offset, 16, NULL},
	};

	db_init(b);
	db_num(&b->secs[DW_SEC_ADDR], 0, 8);
	db_num(&b->secs[DW_SEC_ADDR], DB_CODE, 8);
	db_num(&b->secs[DW_SEC_RANGES], 0, 16);
	db_num(&b->secs[DW_SEC_RANGES], 0x40, 8);
	db_num(&b->secs[DW_SEC_RANGES], 0x50, 8);
	db_num(&b->secs[DW_SEC_RANGES], 0, 16);
	db_unit(b, DW_UT_skeleton, DWO_ID);
	if (b->version >= 5)
		db_die(b, DW_TAG_skeleton_unit, false, v5, ARRAY_SIZE(v5));
	else
		db_die(b, DW_TAG_compile_unit, false, v4, ARRAY_SIZE(v4));
	db_unit_end(b);
}

/* "f" by an index, "g" by ranges; in a package behind @pad bytes of others. */
static void split(struct db *b, uint64_t id, size_t pad)
{
	struct sbuf *s;
	bool v5;

	b->dwo = true;
	db_init(b);
	v5 = b->version >= 5;
	s = &b->secs[DW_SEC_STR_OFFSETS];
	for (size_t i = 0; i < pad; i++) {
		db_num(s, 0xee, 1);
		db_num(&b->secs[DW_SEC_RNGLISTS], 0xee, 1);
	}
	db_num(s, 0, v5 ? 8 : 0);
	db_num(s, db_str(b, DW_SEC_STR, "f"), 4);
	db_num(s, db_str(b, DW_SEC_STR, "g"), 4);
	s = &b->secs[DW_SEC_RNGLISTS];
	db_num(s, 0, 12);
	db_num(s, 4, 4);
	db_num(s, 4, 1);
	db_uleb(s, 0x40);
	db_uleb(s, 0x50);
	db_num(s, 0, 1);
	db_unit(b, DW_UT_split_compile, id);
	db_die(b, DW_TAG_compile_unit, true, DB_ATTRS({DW_AT_GNU_dwo_id, DW_FORM_data8, id, NULL}));
	db_die(b, DW_TAG_subprogram, false,
	       DB_ATTRS({DW_AT_name, v5 ? DW_FORM_strx1 : DW_FORM_GNU_str_index, 0, NULL},
	                {DW_AT_low_pc, v5 ? DW_FORM_addrx : DW_FORM_GNU_addr_index, 0, NULL},
	                SIZE(8)));
	db_die(b, DW_TAG_subprogram, false,
	       DB_ATTRS({DW_AT_name, v5 ? DW_FORM_strx1 : DW_FORM_GNU_str_index, 1, NULL},
	                {DW_AT_ranges, v5 ? DW_FORM_rnglistx : DW_FORM_sec_offset, 0, NULL}));
	db_up(b);
	db_unit_end(b);
}

static void check_split(uint16_t version, uint64_t id, const char *want, uint64_t missing)
{
	const uint64_t addrs[] = {DB_CODE, DB_CODE + 0x48};
	struct db b = {.version = version}, c = {.version = version};
	_cleanup_(img_file_freep) struct img_file *f = NULL;
	struct dw_options o = {.open_dwo = open_dwo};
	struct dw_stats s;

	skeleton(&b);
	split(&c, id, 0);
	f = db_file(&c);
	dwo_file = &c;
	dwo_opened = 0;
	check_with(&b, &o, addrs, 2, want, &s);
	assert_int_equal(s.dwo_missing, missing);
	assert_int_equal(s.bad, 0);
	assert_int_equal(dwo_opened, 1); /* and kept for the second time */
	f = img_file_free(f);
	db_done(&b);
	db_done(&c);
}

static void test_a_split_unit_is_read_from_its_file(void **state)
{
	(void)state;
	check_split(4, DWO_ID, "f:0:0\ng:0:0\n", 0);
	check_split(5, DWO_ID, "f:0:0\ng:0:0\n", 0);
}

static void test_a_split_unit_of_another_number_is_not_believed(void **state)
{
	(void)state;
	check_split(4, DWO_ID + 1, "", 1);
	check_split(5, DWO_ID + 1, "", 1);
}

static void test_a_split_unit_that_is_not_there_is_counted(void **state)
{
	const uint64_t addrs[] = {DB_CODE};
	struct dw_options o = {.open_dwo = open_dwo};
	struct db b = {.version = 5};
	struct dw_stats s;

	(void)state;
	dwo_file = NULL;
	skeleton(&b);
	check_with(&b, &o, addrs, 1, "", &s);
	assert_int_equal(s.dwo_missing, 1);
	db_done(&b);
}

/* An index of one unit, in the slot that its hash does not lead to at once. */
static void package_index(struct db *c, uint16_t version, size_t pad)
{
	struct sbuf *s = &c->secs[DW_SEC_CU_INDEX];
	const uint64_t hash = DWO_ID & 3, step = ((DWO_ID >> 32) & 3) | 1;
	const uint32_t columns[] = {1, 3, 6, version == 5 ? 8 : 5};
	const size_t lens[] = {c->secs[DW_SEC_INFO].len, c->secs[DW_SEC_ABBREV].len + 1,
	                       c->secs[DW_SEC_STR_OFFSETS].len - pad,
	                       c->secs[DW_SEC_RNGLISTS].len - pad};

	db_num(s, version, 4);
	db_num(s, 4, 4);
	db_num(s, 1, 4);
	db_num(s, 4, 4);
	for (uint64_t i = 0; i < 4; i++)
		db_num(s, i == ((hash + step) & 3) ? DWO_ID : i == hash ? DWO_ID - 4 : 0, 8);
	for (uint64_t i = 0; i < 4; i++)
		db_num(s, i == ((hash + step) & 3) || i == hash, 4);
	for (size_t i = 0; i < 4; i++)
		db_num(s, columns[i], 4);
	for (size_t i = 0; i < 4; i++)
		db_num(s, i >= 2 ? pad : 0, 4);
	for (size_t i = 0; i < 4; i++)
		db_num(s, lens[i], 4);
}

static void check_package(uint16_t version)
{
	const uint64_t addrs[] = {DB_CODE, DB_CODE + 0x48};
	struct db b = {.version = version}, c = {.version = version};
	_cleanup_(img_file_freep) struct img_file *f = NULL;
	struct dw_options o = {0};
	struct dw_stats s;

	skeleton(&b);
	split(&c, DWO_ID, 24);
	package_index(&c, version == 5 ? 5 : 2, 24);
	f = db_file(&c);
	o.dwp = f;
	check_with(&b, &o, addrs, 2, "f:0:0\ng:0:0\n", &s);
	assert_clean(s);
	f = img_file_free(f);
	db_done(&b);
	db_done(&c);
}

static void test_a_split_unit_is_found_in_a_package(void **state)
{
	(void)state;
	check_package(4);
	check_package(5);
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
	        cmocka_unit_test(test_a_name_is_looked_for_behind_origin_and_specification),
	        cmocka_unit_test(test_a_loop_of_references_ends_and_is_counted),
	        cmocka_unit_test(test_references_to_nowhere_cost_the_name_alone),
	        cmocka_unit_test(test_names_and_origins_come_from_the_common_file_of_dwz),
	        cmocka_unit_test(test_packed_sections_are_read_by_windows),
	        cmocka_unit_test(test_going_back_in_packed_sections_costs_steps),
	        cmocka_unit_test(test_a_split_unit_is_read_from_its_file),
	        cmocka_unit_test(test_a_split_unit_of_another_number_is_not_believed),
	        cmocka_unit_test(test_a_split_unit_that_is_not_there_is_counted),
	        cmocka_unit_test(test_a_split_unit_is_found_in_a_package),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
