/* SPDX-License-Identifier: Apache-2.0 */
/* Debug information that is damaged, hostile or over a limit. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "dwarf_check.h"

static void test_a_bad_unit_does_not_cost_the_others(void **state)
{
	/* Damage of the first unit: a version that is not known, an address size, abbreviations
	 * outside.
	 */
	static const struct {
		size_t at;
		uint64_t v;
		size_t n;
		uint64_t bad, unsupported;
	} cases[] = {{4, 6, 2, 0, 1}, {10, 3, 1, 0, 1}, {6, 0xffffff, 4, 1, 0}, {11, 99, 1, 1, 0}};
	const uint64_t addrs[] = {DB_CODE, DB_CODE + 0x20000};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct db b = {0};
		struct dw_stats s;

		db_init(&b);
		db_unit(&b, 0, 0);
		UNIT(&b);
		function(&b, "a", DB_CODE, 8);
		db_up(&b);
		db_unit_end(&b);
		db_unit(&b, 0, 0);
		db_die(&b, DW_TAG_compile_unit, true, DB_ATTRS(LOW(DB_CODE + 0x20000), SIZE(16)));
		function(&b, "b", DB_CODE + 0x20000, 8);
		db_up(&b);
		db_unit_end(&b);
		db_patch(&b, DW_SEC_INFO, cases[i].at, cases[i].v, cases[i].n);
		s = check(&b, addrs, 2, "b:0:0\n");
		assert_int_equal(s.bad, cases[i].bad);
		assert_int_equal(s.unsupported, cases[i].unsupported);
	}
}

static void test_a_unit_is_good_up_to_where_it_is_damaged(void **state)
{
	const uint64_t addrs[] = {DB_CODE, DB_CODE + 0x10};

	(void)state;
	for (int i = 0; i < 3; i++) {
		struct db b = {0};
		struct dw_stats s;

		db_init(&b);
		db_unit(&b, 0, 0);
		UNIT(&b);
		function(&b, "a", DB_CODE, 8);
		if (i == 0) /* no such abbreviation */
			db_uleb(&b.secs[DW_SEC_INFO], 0x4000);
		else if (i == 1) /* a form that is not known */
			db_die(&b, DW_TAG_variable, false, DB_ATTRS({DW_AT_name, 0x7777, 0, NULL}));
		else /* a block that is longer than the unit */
			db_die(&b, DW_TAG_variable, false,
			       DB_ATTRS({DW_AT_name, DW_FORM_data4, 0, NULL},
			                {DW_AT_name, DW_FORM_block4, 0, ""}));
		if (i == 2)
			db_patch(&b, DW_SEC_INFO, b.secs[DW_SEC_INFO].len - 4, 0xfffffff0, 4);
		function(&b, "b", DB_CODE + 0x10, 8);
		db_up(&b);
		db_unit_end(&b);
		s = check(&b, addrs, 2, "a:0:0\n");
		assert_int_equal(s.bad, i != 1);
		assert_int_equal(s.unsupported, i == 1);
	}
}

static void test_a_sibling_that_leads_backward_or_out_ends_the_unit(void **state)
{
	const uint64_t to[] = {0, 12, 0xffffff};
	const uint64_t addrs[] = {DB_CODE, DB_CODE + 0x10};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(to); i++) {
		struct db b = {0};

		db_init(&b);
		db_unit(&b, 0, 0);
		UNIT(&b);
		function(&b, "a", DB_CODE, 8);
		db_die(&b, DW_TAG_array_type, true,
		       DB_ATTRS({DW_AT_sibling, DW_FORM_ref4, to[i], NULL}));
		db_up(&b);
		function(&b, "b", DB_CODE + 0x10, 8);
		db_up(&b);
		db_unit_end(&b);
		assert_int_equal(check(&b, addrs, 2, "a:0:0\n").bad, 1);
	}
}

static void test_what_is_nested_too_deep_is_passed_over(void **state)
{
	const uint64_t addrs[] = {DB_CODE, DB_CODE + 0x10};
	struct db b = {0};

	(void)state;
	db_init(&b);
	db_unit(&b, 0, 0);
	UNIT(&b);
	db_die(&b, DW_TAG_subprogram, true, DB_ATTRS(NAME("f"), LOW(DB_CODE), SIZE(8)));
	for (int i = 0; i < 2 * DW_DEPTH_MAX; i++)
		db_die(&b, DW_TAG_lexical_block, true, DB_ATTRS());
	db_die(&b, DW_TAG_inlined_subroutine, false, DB_ATTRS(LOW(DB_CODE), SIZE(8)));
	for (int i = 0; i < 2 * DW_DEPTH_MAX + 1; i++)
		db_up(&b);
	function(&b, "g", DB_CODE + 0x10, 8);
	db_up(&b);
	db_unit_end(&b);
	assert_int_equal(check(&b, addrs, 2, "f:0:0\ng:0:0\n").over_limit, 1);
}

static void test_the_outermost_of_too_many_frames_are_cut(void **state)
{
	const uint64_t addrs[] = {DB_CODE};
	_cleanup_(sbuf_done) struct sbuf want;
	struct db b = {0};

	(void)state;
	sbuf_init(&want, 1 << 20);
	db_init(&b);
	db_unit(&b, 0, 0);
	UNIT(&b);
	db_die(&b, DW_TAG_subprogram, true, DB_ATTRS(NAME("f"), LOW(DB_CODE), SIZE(8)));
	for (unsigned int i = 0; i < DW_FRAMES_MAX + 10; i++)
		db_die(&b, DW_TAG_inlined_subroutine, true,
		       DB_ATTRS(NAME("i"), LOW(DB_CODE), SIZE(8), CALL(i, 1)));
	for (unsigned int i = 0; i < DW_FRAMES_MAX; i++)
		sbuf_addf(&want, "i:%u:%u!%s", i ? DW_FRAMES_MAX + 10 - i : 0, i ? 1 : 0,
		          i == DW_FRAMES_MAX - 1 ? "\n" : " ");
	db_unit_end(&b);
	assert_int_equal(check(&b, addrs, 1, want.p).over_steps, 0);
}

static void test_a_call_ends_when_its_steps_are_used_up(void **state)
{
	const uint64_t addrs[] = {DB_CODE, DB_CODE + 0x10};
	struct dw_options o = {.max_steps = 10000};
	struct db b = {0};
	struct dw_stats s;

	(void)state;
	db_init(&b);
	db_unit(&b, 0, 0);
	UNIT(&b);
	function(&b, "a", DB_CODE, 8);
	db_die(&b, DW_TAG_variable, false, DB_ATTRS());
	for (int i = 0; i < 20000; i++) /* the same again */
		db_uleb(&b.secs[DW_SEC_INFO], b.codes);
	function(&b, "b", DB_CODE + 0x10, 8);
	db_up(&b);
	db_unit_end(&b);
	check_with(&b, &o, addrs, 2, "a:0:0\n", &s);
	assert_int_equal(s.over_steps, 1);
	db_done(&b);
}

/* An address that no function has is looked for in types: that walk comes later. */
static void test_what_was_found_stays_when_a_second_walk_has_no_steps(void **state)
{
	const uint64_t addrs[] = {DB_CODE, DB_CODE + 0x1000};
	struct dw_options o = {.max_steps = 10000};
	struct db b = {0};
	struct dw_stats s;
	uint64_t type;

	(void)state;
	db_init(&b);
	db_unit(&b, 0, 0);
	UNIT(&b);
	function(&b, "a", DB_CODE, 8);
	type = db_die(&b, DW_TAG_structure_type, true,
	              DB_ATTRS({DW_AT_sibling, DW_FORM_ref4, 0, NULL}));
	db_die(&b, DW_TAG_variable, false, DB_ATTRS());
	for (int i = 0; i < 20000; i++)
		db_uleb(&b.secs[DW_SEC_INFO], b.codes);
	db_up(&b);
	db_patch(&b, DW_SEC_INFO, type + 1, b.secs[DW_SEC_INFO].len, 4); /* the unit is the first */
	db_die(&b, DW_TAG_variable, false, DB_ATTRS());
	db_up(&b);
	db_unit_end(&b);
	check_with(&b, &o, addrs, 2, "a:0:0\n", &s);
	assert_int_equal(s.over_steps, 1);
	db_done(&b);
}

static void test_the_budget_of_memory_holds(void **state)
{
	const uint64_t addrs[] = {DB_CODE, DB_CODE + 0x20000};
	struct dw_options o = {.max_bytes = 1 << 20};
	_cleanup_(img_file_freep) struct img_file *f = NULL;
	_cleanup_(dw_freep) struct dw_file *d = NULL;
	_cleanup_free_ char *block = calloc(1, 2 << 20);
	struct got g = {0};
	struct db b = {0};

	(void)state;
	assert_non_null(block);
	db_init(&b);
	db_unit(&b, 0, 0);
	UNIT(&b);
	function(&b, "a", DB_CODE, 8);
	db_die(&b, DW_TAG_variable, false, DB_ATTRS({0x3fff, DW_FORM_block4, 2 << 20, block}));
	db_up(&b);
	db_unit_end(&b);
	db_unit(&b, 0, 0);
	db_die(&b, DW_TAG_compile_unit, true, DB_ATTRS(LOW(DB_CODE + 0x20000), SIZE(16)));
	function(&b, "b", DB_CODE + 0x20000, 8);
	db_up(&b);
	db_unit_end(&b);
	f = db_file(&b);
	assert_int_equal(dw_open(f, &o, &d), 0);
	sbuf_init(&g.text, 1 << 20);
	assert_int_equal(dw_resolve(d, addrs, 2, on_frame, &g), 0);
	assert_string_equal(g.text.p, "b:0:0\n"); /* the other unit is too large */
	assert_int_equal(dw_stats(d)->over_limit, 1);
	assert_true(dw_bytes(d) <= o.max_bytes);
	sbuf_done(&g.text);
	d = dw_free(d);
	f = img_file_free(f);
	db_done(&b);
}

/* Elf64_Chdr: zlib, of a size that cannot be. */
static void test_a_packed_section_whose_size_lies_costs_itself(void **state)
{
	const uint64_t chdr[3] = {1, 1ull << 40, 1};
	struct es_sec sec = {
	        .name = ".debug_info", .bytes = chdr, .len = sizeof(chdr), .flags = SHF_COMPRESSED};
	_cleanup_(img_file_freep) struct img_file *f = NULL;
	_cleanup_(dw_freep) struct dw_file *d = NULL;
	_cleanup_(sbuf_done) struct sbuf b;
	struct dw_options o = {0};

	(void)state;
	es_build(false, &sec, 1, &b, NULL);
	assert_int_equal(img_file_open_mem(b.p, b.len, &f, NULL), 0);
	assert_int_equal(dw_open(f, &o, &d), 0);
	assert_int_equal(dw_stats(d)->bad, 1);
	assert_true(dw_stats(d)->bytes_peak < 1 << 20);
}

static void test_a_packed_section_without_room_for_windows_is_refused(void **state)
{
	struct es_sec sec = {.name = ".debug_info", .flags = SHF_COMPRESSED};
	uint8_t bytes[24 + 1024] = {IMG_COMPRESSED_ZLIB};
	_cleanup_(img_file_freep) struct img_file *f = NULL;
	_cleanup_(dw_freep) struct dw_file *d = NULL;
	_cleanup_free_ uint8_t *plain = calloc(1, 1 << 16);
	_cleanup_(sbuf_done) struct sbuf b;
	struct dw_options o = {.max_bytes = 64 << 10};
	const uint64_t claim = 1 << 16;
	uLongf n = 1024;

	(void)state;
	assert_non_null(plain);
	memcpy(bytes + 8, &claim, sizeof(claim));
	assert_int_equal(compress(bytes + 24, &n, plain, 1 << 16), Z_OK);
	sec.bytes = bytes;
	sec.len = 24 + n;
	es_build(false, &sec, 1, &b, NULL);
	assert_int_equal(img_file_open_mem(b.p, b.len, &f, NULL), 0);
	assert_int_equal(dw_open(f, &o, &d), -E2BIG);
	assert_null(d);
}

static void test_a_file_without_debug_information_has_none(void **state)
{
	struct es_sec sec = {.name = ".debug_str", .bytes = "", .len = 1};
	_cleanup_(img_file_freep) struct img_file *f = NULL;
	_cleanup_(dw_freep) struct dw_file *d = NULL;
	_cleanup_(sbuf_done) struct sbuf b;
	struct dw_options o = {0};

	(void)state;
	es_build(false, &sec, 1, &b, NULL);
	assert_int_equal(img_file_open_mem(b.p, b.len, &f, NULL), 0);
	assert_int_equal(dw_open(f, &o, &d), -ENOENT);
	assert_null(dw_free(NULL));
}

static void test_what_the_callback_returns_ends_the_call(void **state)
{
	const uint64_t addrs[] = {DB_CODE, DB_CODE + 1, DB_CODE + 2};
	_cleanup_(img_file_freep) struct img_file *f = NULL;
	_cleanup_(dw_freep) struct dw_file *d = NULL;
	struct dw_options o = {0};
	struct got g = {.fail_at = 2};
	struct db b = {0};

	(void)state;
	sbuf_init(&g.text, 1 << 20);
	db_init(&b);
	db_unit(&b, 0, 0);
	UNIT(&b);
	function(&b, "a", DB_CODE, 8);
	db_up(&b);
	db_unit_end(&b);
	f = db_file(&b);
	assert_int_equal(dw_open(f, &o, &d), 0);
	assert_int_equal(dw_resolve(d, addrs, 3, on_frame, &g), -ECANCELED);
	assert_string_equal(g.text.p, "a:0:0\n");
	assert_int_equal(dw_resolve(d, addrs, 0, on_frame, &g), 0);
	sbuf_done(&g.text);
	d = dw_free(d);
	f = img_file_free(f);
	db_done(&b);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	        cmocka_unit_test(test_a_bad_unit_does_not_cost_the_others),
	        cmocka_unit_test(test_a_unit_is_good_up_to_where_it_is_damaged),
	        cmocka_unit_test(test_a_sibling_that_leads_backward_or_out_ends_the_unit),
	        cmocka_unit_test(test_what_is_nested_too_deep_is_passed_over),
	        cmocka_unit_test(test_the_outermost_of_too_many_frames_are_cut),
	        cmocka_unit_test(test_a_call_ends_when_its_steps_are_used_up),
	        cmocka_unit_test(test_what_was_found_stays_when_a_second_walk_has_no_steps),
	        cmocka_unit_test(test_the_budget_of_memory_holds),
	        cmocka_unit_test(test_a_packed_section_whose_size_lies_costs_itself),
	        cmocka_unit_test(test_a_packed_section_without_room_for_windows_is_refused),
	        cmocka_unit_test(test_a_file_without_debug_information_has_none),
	        cmocka_unit_test(test_what_the_callback_returns_ends_the_call),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
