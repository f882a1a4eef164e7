/* SPDX-License-Identifier: Apache-2.0 */
/*
 * dw-line-check - a line table that is built, and its rows and files
 */
#ifndef PA_TEST_DW_LINE_CHECK_H
#define PA_TEST_DW_LINE_CHECK_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <cmocka.h>
#include "line_builder.h"

/* Strings that the callbacks read. */
#define STRS      "\0one\0two.c\0/three\0"
#define LINE_STRS "\0four\0five.c\0"

struct fix {
	struct lb lb;
	struct dw_stats stats;
	uint64_t steps;
	struct dw_line_env env;
	struct dw_line *l;
	int io; /* what str returns */
};

static inline int get_str(void *arg, enum dw_line_str where, uint64_t off, struct sbuf *b)
{
	const struct fix *f = arg;
	const char *s = where == DW_LINE_STR ? STRS : LINE_STRS;
	size_t len = where == DW_LINE_STR ? sizeof(STRS) - 1 : sizeof(LINE_STRS) - 1;

	if (f->io)
		return f->io;
	return off < len ? sbuf_str(b, s + off) : -EINVAL;
}

/* Index 0 is "one", 1 "two.c", others are outside. */
static inline int get_strx(void *arg, uint64_t index, uint64_t *ret_off)
{
	(void)arg;
	if (index > 1)
		return -EINVAL;
	*ret_off = index ? 5 : 1;
	return 0;
}

static inline void fix_init(struct fix *f, uint16_t version)
{
	*f = (struct fix){.lb.version = version, .steps = 1 << 20};
	f->env = (struct dw_line_env){.address_size = 8,
	                              .comp_dir = "/comp",
	                              .name = "main.c",
	                              .str = get_str,
	                              .strx = get_strx,
	                              .arg = f,
	                              .steps = &f->steps,
	                              .stats = &f->stats};
}

static inline void fix_done(struct fix *f)
{
	dw_line_freep(&f->l);
	sbuf_done(&f->lb.b);
}

static inline void fix_open(struct fix *f)
{
	struct cursor c = lb_end(&f->lb);

	assert_int_equal(dw_line_open(c, &f->env, &f->l), 0);
}

/* One address: "file:line:column", or "-". */
static inline const char *row_at(struct fix *f, uint64_t addr)
{
	static char text[64];
	struct dw_row row;

	assert_int_equal(dw_line_find(f->l, &addr, 1, &row), 0);
	if (!row.found)
		return "-";
	snprintf(text, sizeof(text), "%lu:%u:%u", row.file, row.line, row.column);
	return text;
}

static inline const char *file_at(struct fix *f, uint64_t index)
{
	static char text[128];
	_cleanup_(sbuf_done) struct sbuf b;
	int r;

	sbuf_init(&b, sizeof(text));
	assert_int_equal(sbuf_str(&b, "<"), 0);
	r = dw_line_file(f->l, index, &b);
	if (r < 0) {
		assert_string_equal(b.p, "<");
		return r == -ENOENT ? "-" : err_symbol(r);
	}
	assert_int_equal(str_copy(text, sizeof(text), b.p + 1), 0);
	return text;
}

static inline void add_sequence(struct lb *l, uint64_t start, uint64_t len, int64_t line,
                                size_t size)
{
	lb_set_address(l, start, size);
	lb_row(l, 0, line - 1);
	lb_end_sequence(l, len);
}

#endif
