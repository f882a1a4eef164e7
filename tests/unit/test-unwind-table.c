// SPDX-License-Identifier: Apache-2.0
/* Tables: built from what the readers give (pretended here), and packed at any base. */
#include "pretended_file.h"

#if defined(__aarch64__)
#define OUR_MACHINE   EM_AARCH64
#define OTHER_MACHINE EM_X86_64
#else
#define OUR_MACHINE   EM_X86_64
#define OTHER_MACHINE EM_AARCH64
#endif

/* Text at 0x401000 … 0x411000, 0x1000 in the file; data after it. */
static struct img_file a_file(void)
{
	return (struct img_file){
	        .machine = OUR_MACHINE,
	        .segs = {{.off = 0, .vaddr = 0x400000, .file_size = 0x1000},
	                 {.off = 0x1000, .vaddr = 0x401000, .file_size = 0x10000, .exec = true},
	                 {.off = 0x11000, .vaddr = 0x422000, .file_size = 0x1000}},
	        .n_segs = 3,
	};
}

static void set_source(struct img_file *f, int src, const struct fake_fn *fns, size_t n)
{
	f->src[src] = (struct fake_source){.there = true, .fns = fns, .n_fns = n};
}

struct want {
	uint64_t off;
	uint16_t code;
};

/* The rows, each by its offset in the file. */
static void check_rows(const struct uw_table *t, const struct want *want, size_t n)
{
	for (size_t i = 0; i < n && i < t->n_rows; i++)
		if (t->lo + t->rows[i].rel != want[i].off || t->rows[i].code != want[i].code)
			fail_msg("row %zu: %#jx %#x, not %#jx %#x", i,
			         (uintmax_t)(t->lo + t->rows[i].rel), t->rows[i].code,
			         (uintmax_t)want[i].off, want[i].code);
	assert_int_equal(t->n_rows, n);
}

#define ROW1(start, end, code)                                                                     \
	{                                                                                          \
		start, end, {{start, code}}, 1                                                     \
	}

static void test_gaps_have_no_rule_and_equal_neighbours_are_one(void **state)
{
	static const struct fake_fn fns[] = {
	        {0x401810, 0x401820, {{0x401810, 10}, {0x401811, 11}, {0x401814, 11}}, 3},
	        ROW1(0x401820, 0x401830, 11),
	        ROW1(0x401840, 0x401850, 12),
	};
	static const struct want want[] = {
	        {0x1800, 0}, {0x1810, 10}, {0x1811, 11}, {0x1830, 0}, {0x1840, 12}, {0x1850, 0},
	};
	struct img_file f = a_file();
	_cleanup_(uw_table_freep) struct uw_table *t = NULL;
	struct uw_build_stats st;
	struct err err = {0};

	(void)state;
	set_source(&f, SRC_EH, fns, 3);
	assert_int_equal(uw_table_build(&f, NULL, NULL, &t, &st, &err), 0);
	assert_int_equal(t->lo, 0x1800);
	assert_int_equal(t->n_chunks, 1);
	check_rows(t, want, ARRAY_SIZE(want));
	assert_int_equal(st.entries, 3);
	assert_int_equal(st.rows, 6);
	assert_int_equal(st.overlaps, 0);
	assert_int_equal(st.bad_entries, 0);
	assert_true(st.eh_frame && !st.debug_frame && !st.gopclntab && !st.go);
	assert_int_equal(uw_table_find(t, 0x1813), 11);
	assert_int_equal(uw_table_find(t, 0x17ff), 0);
	assert_int_equal(uw_table_find(t, 0x2000), 0);
	assert_int_equal(uw_table_find(t, UINT64_MAX), 0);
}

static void test_functions_may_come_in_any_order(void **state)
{
	static const struct fake_fn fns[] = {
	        ROW1(0x402000, 0x402800, 12),
	        ROW1(0x401000, 0x401800, 10),
	        ROW1(0x401800, 0x402000, 11),
	};
	static const struct want want[] = {{0x1000, 10}, {0x1800, 11}, {0x2000, 12}};
	struct img_file f = a_file();
	_cleanup_(uw_table_freep) struct uw_table *t = NULL;

	(void)state;
	set_source(&f, SRC_EH, fns, 3);
	assert_int_equal(uw_table_build(&f, NULL, NULL, &t, NULL, NULL), 0);
	/* It ends at the end of a chunk: no row says that nothing follows. */
	assert_int_equal(t->n_chunks, 3);
	check_rows(t, want, ARRAY_SIZE(want));
}

static void test_the_first_source_stays(void **state)
{
	static const struct fake_fn special[] = {ROW1(0x401020, 0x401030, 9)};
	static const struct fake_fn eh[] = {
	        {0x401000,
	         0x401100,
	         {{0x401000, 10}, {0x401008, 11}, {0x401028, 12}, {0x401040, 13}},
	         4},
	};
	static const struct fake_fn go[] = {
	        ROW1(0x401000, 0x401100, 20), /* wholly covered */
	        ROW1(0x4010f0, 0x401110, 21), /* its end is not */
	};
	static const struct fake_fn debug[] = {ROW1(0x401000, 0x402000, 30)};
	static const struct want want[] = {
	        {0x1000, 10}, {0x1008, 11}, {0x1020, 9},  {0x1030, 12},
	        {0x1040, 13}, {0x1100, 21}, {0x1110, 30},
	};
	struct img_file f = a_file();
	_cleanup_(uw_table_freep) struct uw_table *t = NULL;
	struct uw_build_stats st;

	(void)state;
	set_source(&f, SRC_SPECIAL, special, 1);
	set_source(&f, SRC_EH, eh, 1);
	set_source(&f, SRC_DEBUG, debug, 1);
	set_source(&f, SRC_GO, go, 2);
	assert_int_equal(uw_table_build(&f, NULL, NULL, &t, &st, NULL), 0);
	check_rows(t, want, ARRAY_SIZE(want));
	assert_int_equal(st.overlaps, 4);
	assert_true(st.eh_frame && st.debug_frame && st.gopclntab && st.go);
}

static void test_functions_of_one_source_that_overlap_are_cut(void **state)
{
	static const struct fake_fn fns[] = {
	        ROW1(0x401000, 0x401100, 10),
	        ROW1(0x401010, 0x401020, 11), /* inside */
	        {0x4010f0, 0x401200, {{0x4010f0, 12}, {0x4010f8, 13}, {0x401110, 14}}, 3},
	        ROW1(0x401100, 0x401300, 15),
	        ROW1(0x401100, 0x401400, 16), /* the same start: the order of the file */
	};
	static const struct want want[] = {{0x1000, 10}, {0x1100, 13}, {0x1110, 14},
	                                   {0x1200, 15}, {0x1300, 16}, {0x1400, 0}};
	struct img_file f = a_file();
	_cleanup_(uw_table_freep) struct uw_table *t = NULL;
	struct uw_build_stats st;

	(void)state;
	set_source(&f, SRC_EH, fns, ARRAY_SIZE(fns));
	assert_int_equal(uw_table_build(&f, NULL, NULL, &t, &st, NULL), 0);
	check_rows(t, want, ARRAY_SIZE(want));
	assert_int_equal(st.overlaps, 4);
}

static void test_entry_point_without_information_is_the_root(void **state)
{
	static const struct fake_fn far[] = {ROW1(0x401000, 0x401100, 10)};
	static const struct fake_fn near[] = {ROW1(0x401000, 0x401100, 10),
	                                      ROW1(0x401220, 0x401300, 11)};
	static const struct want want_far[] = {
	        {0x1000, 10}, {0x1100, 0}, {0x1200, ABI_CODE_ROOT}, {0x1240, 0}};
	static const struct want want_near[] = {
	        {0x1000, 10}, {0x1100, 0}, {0x1200, ABI_CODE_ROOT}, {0x1220, 11}, {0x1300, 0}};
	static const struct want want_covered[] = {{0x1000, 10}, {0x1100, 0}};
	static const struct want want_end[] = {{0x1000, 10}, {0x1100, 0}, {0x10ff8, ABI_CODE_ROOT}};
	struct img_file f = a_file();
	_cleanup_(uw_table_freep) struct uw_table *t = NULL;
	struct uw_build_stats st;

	(void)state;
	f.entry = 0x401200;
	set_source(&f, SRC_EH, far, 1);
	assert_int_equal(uw_table_build(&f, NULL, NULL, &t, &st, NULL), 0);
	check_rows(t, want_far, ARRAY_SIZE(want_far));
	assert_int_equal(st.overlaps, 0);
	uw_table_freep(&t);
	set_source(&f, SRC_EH, near, 2);
	assert_int_equal(uw_table_build(&f, NULL, NULL, &t, &st, NULL), 0);
	check_rows(t, want_near, ARRAY_SIZE(want_near));
	assert_int_equal(st.overlaps, 0);
	uw_table_freep(&t);
	f.entry = 0x4010ff;
	set_source(&f, SRC_EH, far, 1);
	assert_int_equal(uw_table_build(&f, NULL, NULL, &t, &st, NULL), 0);
	check_rows(t, want_covered, ARRAY_SIZE(want_covered));
	uw_table_freep(&t);
	f.entry = 0x410ff8; /* 8 bytes before the end of the text */
	assert_int_equal(uw_table_build(&f, NULL, NULL, &t, &st, NULL), 0);
	check_rows(t, want_end, ARRAY_SIZE(want_end));
	uw_table_freep(&t);
	/* The start of the text, as older linkers give it to shared libraries: some function. */
	f.entry = 0x401200;
	f.other = true;
	assert_int_equal(uw_table_build(&f, NULL, NULL, &t, &st, NULL), 0);
	check_rows(t, want_covered, ARRAY_SIZE(want_covered));
	uw_table_freep(&t);
	f.other = false;
	f.entry = 0x422000; /* not code */
	assert_int_equal(uw_table_build(&f, NULL, NULL, &t, &st, NULL), 0);
	check_rows(t, want_covered, ARRAY_SIZE(want_covered));
	f.entry = UINT64_MAX;
	uw_table_freep(&t);
	assert_int_equal(uw_table_build(&f, NULL, NULL, &t, &st, NULL), 0);
	check_rows(t, want_covered, ARRAY_SIZE(want_covered));
}

static void test_what_lies_outside_is_counted_and_left_out(void **state)
{
	static const struct fake_fn fns[] = {
	        ROW1(0x400000, 0x400100, 10),      /* not executable */
	        ROW1(0x410ff0, 0x411001, 11),      /* over the end */
	        ROW1(0x401100, 0x401100, 12),      /* empty */
	        ROW1(0x401200, 0x401100, 13),      /* backwards */
	        ROW1(0x401300, UINT64_MAX, 14),    /* no end */
	        {0x401400, 0x401500, {{0, 0}}, 0}, /* without rows */
	        {0x401600,
	         0x401700,
	         {{0x4015ff, 15}, {0x401610, 16}, {0x401608, 17}, {0x401610, 18}, {0x401700, 19}},
	         5},
	        ROW1(UINT64_MAX - 4, UINT64_MAX, 20),
	};
	static const struct want want[] = {{0x1000, 0}, {0x1610, 18}, {0x1700, 0}};
	struct img_file f = a_file();
	_cleanup_(uw_table_freep) struct uw_table *t = NULL;
	struct uw_build_stats st;

	(void)state;
	set_source(&f, SRC_EH, fns, ARRAY_SIZE(fns));
	assert_int_equal(uw_table_build(&f, NULL, NULL, &t, &st, NULL), 0);
	check_rows(t, want, ARRAY_SIZE(want));
	assert_int_equal(st.bad_entries, 6);
}

static void test_every_way_to_fail(void **state)
{
	static const struct fake_fn fns[] = {ROW1(0x401000, 0x401100, 10)};
	static const struct fake_fn many[] = {
	        {0x401000, 0x401100, {{0x401000, 10}, {0x401001, 11}, {0x401002, 12}}, 3}};
	const struct uw_build_limits small = {.rows = 2}, tiny = {.area_bytes = 15};
	struct img_file f = a_file(), g;
	_cleanup_(uw_table_freep) struct uw_table *t = NULL;
	struct uw_build_stats st;
	struct err err = {.code = -1};

	(void)state;
	assert_int_equal(uw_table_build(&f, NULL, NULL, &t, &st, &err), -ENOENT);
	assert_int_equal(err.code, -ENOENT);
	set_source(&f, SRC_EH, fns, 1);
	g = f;
	g.is32 = true;
	assert_int_equal(uw_table_build(&g, NULL, NULL, &t, &st, &err), -ENOTSUP);
	g = f;
	g.machine = OTHER_MACHINE;
	assert_int_equal(uw_table_build(&g, NULL, NULL, &t, &st, &err), -ENOTSUP);
	g = f;
	g.n_segs = 1;
	assert_int_equal(uw_table_build(&g, NULL, NULL, &t, &st, &err), -ENOENT);
	g = f;
	g.segs[1].file_size = 1ULL << 31;
	assert_int_equal(uw_table_build(&g, NULL, NULL, &t, &st, &err), -E2BIG);
	g = f;
	g.src[SRC_EH].read = -ENOMEM;
	assert_int_equal(uw_table_build(&g, NULL, NULL, &t, &st, &err), -ENOMEM);
	assert_int_equal(st.entries, 1);
	g = f;
	g.src[SRC_EH].load = -EIO;
	assert_int_equal(uw_table_build(&g, NULL, NULL, &t, &st, &err), -EIO);
	assert_int_equal(err.code, -EIO);
	assert_int_equal(uw_table_build(&f, NULL, &tiny, &t, &st, &err), -E2BIG);
	g = f;
	set_source(&g, SRC_EH, many, 1);
	assert_int_equal(uw_table_build(&g, NULL, &small, &t, &st, &err), -E2BIG);
	/* A damaged area costs that area. */
	g = f;
	set_source(&g, SRC_DEBUG, fns, 1);
	g.src[SRC_EH].find = -EINVAL;
	assert_int_equal(uw_table_build(&g, NULL, NULL, &t, &st, &err), 0);
	assert_int_equal(st.bad_entries, 1);
	assert_true(!st.eh_frame && st.debug_frame);
	uw_table_freep(&t);
	g.src[SRC_EH].find = 0;
	g.src[SRC_EH].load = -ENODATA;
	g.src[SRC_DEBUG].load = -EINVAL;
	assert_int_equal(uw_table_build(&g, NULL, NULL, &t, &st, &err), -ENOENT);
	assert_int_equal(st.bad_entries, 2);
	assert_null(t);
	assert_null(uw_table_free(NULL));
}

/* Against the plainest way: each byte of text painted, the last source first. */
static void test_random_sources_against_painting(void **state)
{
	static struct fake_fn fns[SRC_CNT][12];
	static uint16_t paint[0x10000];

	(void)state;
	for (int round = 0; round < 400; round++) {
		struct img_file f = a_file();
		_cleanup_(uw_table_freep) struct uw_table *t = NULL;
		int r;

		for (int s = 0; s < SRC_CNT; s++) {
			uint64_t at = 0x401000;

			set_source(&f, s, fns[s], below(ARRAY_SIZE(fns[s]) + 1));
			for (size_t i = 0; i < f.src[s].n_fns; i++) {
				struct fake_fn *fn = &fns[s][i];

				/* Sorted and without overlaps in their source. */
				at += below(3) * below(900);
				fn->start = at;
				fn->n_rows = 1 + below(6);
				for (size_t k = 0; k < fn->n_rows; k++) {
					fn->rows[k] =
					        (struct fake_row){at, (uint16_t)(4 + below(6))};
					at += 1 + below(400);
				}
				fn->end = at;
			}
		}
		memset(paint, 0, sizeof(paint));
		for (int s = SRC_CNT - 1; s >= 0; s--)
			for (size_t i = 0; i < f.src[s].n_fns; i++)
				for (size_t k = 0; k < fns[s][i].n_rows; k++)
					for (uint64_t a = fns[s][i].rows[k].at; a < fns[s][i].end;
					     a++)
						paint[a - 0x401000] = fns[s][i].rows[k].code;
		/* Any order in the file, but for the order of the sources. */
		for (int s = 0; s < SRC_CNT; s++) {
			size_t n = f.src[s].n_fns;

			for (size_t i = 0; n > 1 && round % 2 && i < n; i++) {
				size_t j = below((uint32_t)n);
				struct fake_fn tmp = fns[s][i];

				fns[s][i] = fns[s][j];
				fns[s][j] = tmp;
			}
		}
		r = uw_table_build(&f, NULL, NULL, &t, NULL, NULL);
		if (r == -ENOENT)
			continue;
		assert_int_equal(r, 0);
		for (uint32_t i = 1; i < t->n_rows; i++) {
			assert_true(t->rows[i].rel > t->rows[i - 1].rel);
			assert_true(t->rows[i].code != t->rows[i - 1].code);
		}
		assert_int_equal(t->rows[0].rel, 0);
		for (uint64_t o = 0; o < sizeof(paint) / sizeof(*paint); o++)
			if (uw_table_find(t, 0x1000 + o) != paint[o])
				fail_msg("round %d offset %#jx: %u not %u", round, (uintmax_t)o,
				         uw_table_find(t, 0x1000 + o), paint[o]);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	        cmocka_unit_test(test_gaps_have_no_rule_and_equal_neighbours_are_one),
	        cmocka_unit_test(test_functions_may_come_in_any_order),
	        cmocka_unit_test(test_the_first_source_stays),
	        cmocka_unit_test(test_functions_of_one_source_that_overlap_are_cut),
	        cmocka_unit_test(test_entry_point_without_information_is_the_root),
	        cmocka_unit_test(test_what_lies_outside_is_counted_and_left_out),
	        cmocka_unit_test(test_every_way_to_fail),
	        cmocka_unit_test(test_random_sources_against_painting),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
