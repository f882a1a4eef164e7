/* SPDX-License-Identifier: Apache-2.0 */
/* dwarf-check - entries that many tests have, and frames as text */
#ifndef PA_TEST_DWARF_CHECK_H
#define PA_TEST_DWARF_CHECK_H

#include "dwarf_builder.h"

#define NAME(n)                                                                                    \
	{                                                                                          \
		DW_AT_name, DW_FORM_string, 0, n                                                   \
	}
#define LINKAGE(n)                                                                                 \
	{                                                                                          \
		DW_AT_linkage_name, DW_FORM_string, 0, n                                           \
	}
#define LOW(a)                                                                                     \
	{                                                                                          \
		DW_AT_low_pc, DW_FORM_addr, a, NULL                                                \
	}
#define SIZE(n)                                                                                    \
	{                                                                                          \
		DW_AT_high_pc, DW_FORM_data4, n, NULL                                              \
	}
#define ORIGIN(o)                                                                                  \
	{                                                                                          \
		DW_AT_abstract_origin, DW_FORM_ref_addr, o, NULL                                   \
	}
#define CALL(l, c)                                                                                 \
	{DW_AT_call_line, DW_FORM_data2, l, NULL},                                                 \
	{                                                                                          \
		DW_AT_call_column, DW_FORM_data1, c, NULL                                          \
	}
#define RANGES(o)                                                                                  \
	{                                                                                          \
		DW_AT_ranges, DW_FORM_sec_offset, o, NULL                                          \
	}

/* A unit's own entry over the first 64 KiB of code. */
#define UNIT(b) db_die(b, DW_TAG_compile_unit, true, DB_ATTRS(LOW(DB_CODE), SIZE(0x10000)))

struct got {
	struct sbuf text;
	size_t fail_at, frames;
};

/* "name:line:column+start", with '!' for an inlined call and '=' before a linkage name. */
static inline int on_frame(void *arg, size_t i, const struct dw_frame *f, bool last)
{
	struct got *g = arg;

	if (g->fail_at && ++g->frames == g->fail_at)
		return -ECANCELED;
	(void)i;
	sbuf_addf(&g->text, "%s", f->name ? f->name : "?");
	if (f->linkage)
		sbuf_addf(&g->text, "=%s", f->linkage);
	if (f->file)
		sbuf_addf(&g->text, "@%s", f->file);
	sbuf_addf(&g->text, ":%u:%u", f->line, f->column);
	if (f->start_line)
		sbuf_addf(&g->text, "+%u", f->start_line);
	sbuf_addf(&g->text, "%s%s", f->inlined ? "!" : "", last ? "\n" : " ");
	return 0;
}

/* Frames of addrs[n] as text, and the statistics. */
static inline void check_with(struct db *b, const struct dw_options *o, const uint64_t *addrs,
                              size_t n, const char *want, struct dw_stats *ret)
{
	_cleanup_(img_file_freep) struct img_file *f = db_file(b);
	_cleanup_(dw_freep) struct dw_file *d = NULL;
	struct got g = {0};

	sbuf_init(&g.text, 1 << 20);
	assert_int_equal(dw_open(f, o, &d), 0);
	assert_int_equal(dw_resolve(d, addrs, n, on_frame, &g), 0);
	assert_string_equal(g.text.p ? g.text.p : "", want);
	*ret = *dw_stats(d);
	/* The same again, from what was kept. */
	sbuf_reset(&g.text);
	assert_int_equal(dw_resolve(d, addrs, n, on_frame, &g), 0);
	assert_string_equal(g.text.p ? g.text.p : "", want);
	sbuf_done(&g.text);
}

static inline struct dw_stats check(struct db *b, const uint64_t *addrs, size_t n, const char *want)
{
	struct dw_options o = {0};
	struct dw_stats s;

	check_with(b, &o, addrs, n, want, &s);
	db_done(b);
	return s;
}

static inline void assert_clean(struct dw_stats s)
{
	assert_int_equal(s.bad, 0);
	assert_int_equal(s.unsupported, 0);
	assert_int_equal(s.over_limit, 0);
	assert_int_equal(s.over_steps, 0);
	assert_int_equal(s.dwo_missing, 0);
}

/* A function with a name. */
static inline void function(struct db *b, const char *name, uint64_t at, uint64_t size)
{
	db_die(b, DW_TAG_subprogram, false, DB_ATTRS(NAME(name), LOW(at), SIZE(size)));
}

#endif
