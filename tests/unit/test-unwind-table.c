// SPDX-License-Identifier: Apache-2.0
/* Tables: built from what the readers give (pretended here), and packed at any base. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <cmocka.h>

#include <elf.h>

#include "fake_words.h"
#include "unwind/unwind_priv.h"

#if defined(__aarch64__)
#define OUR_MACHINE   EM_AARCH64
#define OTHER_MACHINE EM_X86_64
#else
#define OUR_MACHINE   EM_X86_64
#define OTHER_MACHINE EM_AARCH64
#endif

static uint64_t rnd_state = 88172645463325252ULL;

static uint64_t rnd(void)
{
	rnd_state ^= rnd_state << 13;
	rnd_state ^= rnd_state >> 7;
	rnd_state ^= rnd_state << 17;
	return rnd_state * 0x2545f4914f6cdd1dULL >> 8;
}

static uint32_t below(uint32_t n)
{
	return (uint32_t)(rnd() % n);
}

/* ---- a pretended file ------------------------------------------------------------------------ */

struct fake_row {
	uint64_t at;
	uint16_t code;
};
struct fake_fn {
	uint64_t start, end;
	struct fake_row rows[6];
	size_t n_rows;
};
/* By priority. */
enum { SRC_SPECIAL, SRC_EH, SRC_GO, SRC_DEBUG, SRC_CNT };
struct fake_source {
	bool there;
	int find, load, read; /* failures */
	const struct fake_fn *fns;
	size_t n_fns;
};
struct img_file {
	bool is32;
	uint16_t machine;
	uint64_t entry;
	bool other; /* what stands at the entry point is no _start */
	struct img_segment segs[4];
	size_t n_segs;
	struct fake_source src[SRC_CNT];
};

bool __wrap_img_is_64(const struct img_file *f);
uint16_t __wrap_img_machine(const struct img_file *f);
uint64_t __wrap_img_entry(const struct img_file *f);
size_t __wrap_img_segments(const struct img_file *f, const struct img_segment **ret);
int __wrap_img_read_vaddr(const struct img_file *f, uint64_t vaddr, void *buf, size_t len);
int __wrap_img_area_find(struct img_file *f, enum img_area_kind kind, struct img_area *ret);
int __wrap_img_area_load(const struct img_file *f, const struct img_area *a, size_t max,
                         uint8_t **ret, size_t *ret_len);
int __wrap_uw_cfi_read(struct img_file *f, const struct uw_area *a, struct uw_sink *sink);
int __wrap_uw_go_read(struct img_file *f, struct uw_sink *sink, const struct uw_build_limits *lim);
int __wrap_uw_go_special_read(struct img_file *f, struct uw_sink *sink,
                              const struct uw_build_limits *lim);

bool __wrap_img_is_64(const struct img_file *f)
{
	return !f->is32;
}

uint16_t __wrap_img_machine(const struct img_file *f)
{
	return f->machine;
}

uint64_t __wrap_img_entry(const struct img_file *f)
{
	return f->entry;
}

int __wrap_img_read_vaddr(const struct img_file *f, uint64_t vaddr, void *buf, size_t len)
{
#ifdef ABI_ARM64
	static const uint8_t start[] = {0x1d, 0x00, 0x80, 0xd2, 0x1e, 0x00, 0x80, 0xd2};
#else
	static const uint8_t start[] = {0xf3, 0x0f, 0x1e, 0xfa, 0x31, 0xed};
#endif

	(void)vaddr;
	memset(buf, 0x90, len);
	if (!f->other)
		memcpy(buf, start, MIN_OF(len, sizeof(start)));
	return 0;
}

size_t __wrap_img_segments(const struct img_file *f, const struct img_segment **ret)
{
	*ret = f->segs;
	return f->n_segs;
}

int __wrap_img_area_find(struct img_file *f, enum img_area_kind kind, struct img_area *ret)
{
	const struct fake_source *s = &f->src[kind == IMG_AREA_DEBUG_FRAME ? SRC_DEBUG : SRC_EH];

	assert_true(kind == IMG_AREA_DEBUG_FRAME || kind == IMG_AREA_EH_FRAME);
	if (!s->there)
		return -ENOENT;
	if (s->find < 0)
		return s->find;
	*ret = (struct img_area){.vaddr = kind == IMG_AREA_EH_FRAME ? 0x9000 : 0, .size = 16};
	return 0;
}

int __wrap_img_area_load(const struct img_file *f, const struct img_area *a, size_t max,
                         uint8_t **ret, size_t *ret_len)
{
	const struct fake_source *s = &f->src[a->vaddr ? SRC_EH : SRC_DEBUG];

	if (s->load < 0)
		return s->load;
	if (a->size > max)
		return -E2BIG;
	*ret = calloc(1, a->size);
	assert_non_null(*ret);
	*ret_len = a->size;
	return 0;
}

static int give(const struct fake_source *s, struct uw_sink *sink)
{
	int r = 0;

	for (size_t i = 0; i < s->n_fns && r == 0; i++) {
		sink->stats->entries++;
		r = sink->function(sink->arg, s->fns[i].start, s->fns[i].end);
		for (size_t k = 0; k < s->fns[i].n_rows && r == 0; k++)
			r = sink->row(sink->arg, s->fns[i].rows[k].at, s->fns[i].rows[k].code);
	}
	return r < 0 ? r : s->read;
}

int __wrap_uw_cfi_read(struct img_file *f, const struct uw_area *a, struct uw_sink *sink)
{
	assert_int_equal(a->len, 16);
	assert_int_equal(a->vaddr, a->debug_frame ? 0 : 0x9000);
	return give(&f->src[a->debug_frame ? SRC_DEBUG : SRC_EH], sink);
}

int __wrap_uw_go_read(struct img_file *f, struct uw_sink *sink, const struct uw_build_limits *lim)
{
	(void)lim;
	return f->src[SRC_GO].there ? give(&f->src[SRC_GO], sink) : -ENOENT;
}

int __wrap_uw_go_special_read(struct img_file *f, struct uw_sink *sink,
                              const struct uw_build_limits *lim)
{
	(void)lim;
	return f->src[SRC_SPECIAL].there ? give(&f->src[SRC_SPECIAL], sink) : -ENOENT;
}

/* Text at 0x401000 … 0x411000, 0x1000 in the file; data behind it. */
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

/* ---- packed ---------------------------------------------------------------------------------- */

/* @gap: rows are at most so far apart; 1: a row at each byte. */
static struct uw_table *random_table(uint32_t n_chunks, uint32_t gap, uint32_t holes)
{
	struct uw_table *t = calloc(1, sizeof(*t));
	uint64_t bytes = (uint64_t)n_chunks << ABI_CHUNK_SHIFT, rel = 0;

	assert_non_null(t);
	t->lo = (uint64_t)below(1000) << ABI_CHUNK_SHIFT;
	t->n_chunks = n_chunks;
	t->rows = malloc((bytes + 1) * sizeof(*t->rows));
	assert_non_null(t->rows);
	while (rel < bytes) {
		uint16_t code = (uint16_t)rnd();

		if (t->n_rows && code == t->rows[t->n_rows - 1].code)
			code ^= 1;
		t->rows[t->n_rows++] = (struct uw_row){.rel = (uint32_t)rel, .code = code};
		rel += 1 + below(gap);
		if (holes && below(holes) == 0)
			rel += below(5 * ABI_CHUNK_BYTES);
	}
	return t;
}

static uint16_t code_at(const struct uw_store *s, uint32_t image, uint64_t off)
{
	uint16_t code = 0x1234;

	assert_int_equal(uw_store_code(s, image, off, &code), 0);
	return code;
}

static void check_packed(const struct uw_store *s, uint32_t image, const struct uw_table *t,
                         uint32_t step)
{
	uint64_t bytes = (uint64_t)t->n_chunks << ABI_CHUNK_SHIFT;

	for (uint64_t o = 0; o < bytes; o += 1 + below(step))
		if (code_at(s, image, t->lo + o) != uw_table_find(t, t->lo + o))
			fail_msg("image %u offset %#jx of %#jx", image, (uintmax_t)o,
			         (uintmax_t)bytes);
	for (uint32_t i = 0; i < t->n_rows; i += 1 + below(step)) {
		uint64_t o = t->lo + t->rows[i].rel;

		assert_int_equal(code_at(s, image, o), t->rows[i].code);
		if (i > 0)
			assert_int_equal(code_at(s, image, o - 1), t->rows[i - 1].code);
	}
	if (t->lo)
		assert_int_equal(code_at(s, image, t->lo - 1), ABI_CODE_NONE);
	assert_int_equal(code_at(s, image, t->lo + bytes), ABI_CODE_NONE);
	assert_int_equal(code_at(s, image, UINT64_MAX), ABI_CODE_NONE);
}

static void test_packed_tables_say_the_same_at_any_base(void **state)
{
	(void)state;
	for (int round = 0; round < 12; round++) {
		struct fake_words *w = fw_new();
		struct uw_backing b = fw_backing(w, FW_SEGMENTS);
		_cleanup_(uw_store_freep) struct uw_store *s = NULL;
		struct uw_table *t[40];

		assert_int_equal(uw_store_new(&b, 0, &s), 0);
		for (uint32_t i = 0; i < ARRAY_SIZE(t); i++) {
			t[i] = random_table(1 + below(40), 1 + below(below(2) ? 4 : 300),
			                    below(3) * 20);
			assert_int_equal(uw_store_install(s, i, t[i]), 0);
		}
		for (uint32_t i = 0; i < ARRAY_SIZE(t); i++) {
			check_packed(s, i, t[i], 7);
			uw_table_freep(&t[i]);
		}
		uw_store_freep(&s);
		fw_free(w);
	}
}

static void test_a_row_at_each_byte(void **state)
{
	struct fake_words *w = fw_new();
	struct uw_backing b = fw_backing(w, FW_SEGMENTS);
	_cleanup_(uw_store_freep) struct uw_store *s = NULL;
	/* 100 chunks of 2,048 rows: each value holds 8 of them at most, most chunks meet the end of
	 * one. */
	_cleanup_(uw_table_freep) struct uw_table *odd = random_table(1, 100, 0);
	_cleanup_(uw_table_freep) struct uw_table *t = random_table(100, 1, 0);
	_cleanup_(uw_table_freep) struct uw_table *one = random_table(3, 1, 0);

	(void)state;
	assert_int_equal(t->n_rows, 100 * ABI_CHUNK_BYTES);
	one->n_rows = 1;
	assert_int_equal(uw_store_new(&b, 0, &s), 0);
	assert_int_equal(uw_store_install(s, 0, odd), 0);
	assert_int_equal(uw_store_install(s, 1, t), 0);
	assert_int_equal(uw_store_install(s, 2, one), 0);
	check_packed(s, 1, t, 1);
	check_packed(s, 0, odd, 1);
	check_packed(s, 2, one, 1);
	/* A chunk that one code governs costs its two words of index only. */
	assert_int_equal(w->images[2].base % 2, 0);
	assert_int_equal(w->segments[w->images[2].base >> ABI_SEGMENT_SHIFT]
	                            [(w->images[2].base & (ABI_SEGMENT_WORDS - 1)) + 1],
	                 0);
	uw_store_freep(&s);
	fw_free(w);
}

static void test_a_table_as_large_as_llvms(void **state)
{
	struct fake_words *w = fw_new();
	struct uw_backing b = fw_backing(w, FW_SEGMENTS);
	_cleanup_(uw_store_freep) struct uw_store *s = NULL;
	_cleanup_(uw_table_freep) struct uw_table *t = random_table(30000, 128, 0);
	struct uw_store_stats st;

	(void)state;
	assert_true(t->n_rows > 900000);
	assert_int_equal(uw_store_new(&b, 0, &s), 0);
	assert_int_equal(uw_store_install(s, 7, t), 0);
	check_packed(s, 7, t, 300);
	uw_store_stats(s, &st);
	assert_int_equal(st.rows, t->n_rows);
	assert_in_range(st.bytes, 4ULL * t->n_rows, 4ULL * t->n_rows + 4 * 4ULL * t->n_chunks);
	uw_store_freep(&s);
	fw_free(w);
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
	        cmocka_unit_test(test_packed_tables_say_the_same_at_any_base),
	        cmocka_unit_test(test_a_row_at_each_byte),
	        cmocka_unit_test(test_a_table_as_large_as_llvms),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
