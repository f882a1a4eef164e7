/* SPDX-License-Identifier: Apache-2.0 */
/*
 * line-builder - a line program byte by byte
 * lb_begin; tables (version 2 to 4: lb_dir …, lb_end_table, lb_file …, lb_end_table; version 5:
 * numbers and strings one by one); lb_end_header; operations; lb_end.
 */
#ifndef PA_TEST_LINE_BUILDER_H
#define PA_TEST_LINE_BUILDER_H

#include "dwarf/dw_line.h"

struct lb {
	struct sbuf b;
	uint16_t version;
	bool is64;
	uint8_t address_size; /* 0: 8 */
	uint8_t min_insn;     /* 0: 1 */
	uint8_t opcode_base;  /* 0: 13 */
	int8_t line_base;     /* of the header; with line_range 0: -5 and 14 */
	uint8_t line_range;
	bool no_range; /* line_range is 0 in the header */
	size_t len_at, header_at;
};

static inline void lb_num(struct lb *l, uint64_t v, size_t n)
{
	(void)sbuf_add(&l->b, &v, n); /* .err is looked at in lb_end */
}

static inline void lb_uleb(struct lb *l, uint64_t v)
{
	do {
		lb_num(l, (v & 0x7f) | (v > 0x7f ? 0x80 : 0), 1);
		v >>= 7;
	} while (v);
}

static inline void lb_sleb(struct lb *l, int64_t v)
{
	bool more = true;

	while (more) {
		uint8_t byte = v & 0x7f;

		v >>= 7;
		more = !((v == 0 && !(byte & 0x40)) || (v == -1 && (byte & 0x40)));
		lb_num(l, (uint64_t)(byte | (more ? 0x80 : 0)), 1);
	}
}

static inline void lb_str(struct lb *l, const char *s)
{
	(void)sbuf_add(&l->b, s, strlen(s) + 1);
}

/* An offset in the unit's format. */
static inline void lb_off(struct lb *l, uint64_t v)
{
	lb_num(l, v, l->is64 ? 8 : 4);
}

static inline void lb_begin(struct lb *l)
{
	static const uint8_t operands[] = {0, 1, 1, 1, 1, 0, 0, 0, 1, 0, 0, 1, 2, 0};

	sbuf_init(&l->b, 1 << 24);
	if (l->is64)
		lb_num(l, UINT32_MAX, 4);
	l->len_at = l->b.len;
	lb_off(l, 0);
	lb_num(l, l->version, 2);
	if (l->version >= 5) {
		lb_num(l, l->address_size ? l->address_size : 8, 1);
		lb_num(l, 0, 1);
	}
	l->header_at = l->b.len;
	lb_off(l, 0);
	lb_num(l, l->min_insn ? l->min_insn : 1, 1);
	if (l->version >= 4)
		lb_num(l, 1, 1);
	lb_num(l, 1, 1);
	if (l->line_range == 0) {
		l->line_base = -5;
		l->line_range = 14;
	}
	lb_num(l, (uint8_t)l->line_base, 1);
	lb_num(l, l->no_range ? 0 : l->line_range, 1);
	if (l->opcode_base == 0)
		l->opcode_base = 13;
	lb_num(l, l->opcode_base, 1);
	for (size_t i = 0; i + 1 < l->opcode_base; i++)
		lb_num(l, i < sizeof(operands) ? operands[i] : 0, 1);
}

static inline void lb_file(struct lb *l, const char *name, uint64_t dir)
{
	lb_str(l, name);
	lb_uleb(l, dir);
	lb_uleb(l, 0);
	lb_uleb(l, 0);
}

static inline void lb_end_table(struct lb *l)
{
	lb_num(l, 0, 1);
}

static inline void lb_patch(struct lb *l, size_t at)
{
	const size_t size = l->is64 ? 8 : 4;
	uint64_t len = l->b.len - at - size;

	memcpy(l->b.p + at, &len, size);
}

static inline void lb_end_header(struct lb *l)
{
	lb_patch(l, l->header_at);
}

/* Directories "/inc", "rel"; files a.c (of the unit's directory), b.h (/inc), c.h (rel), /abs.c. In
 * version 5 the unit's own directory /comp and its file 0, main.c, come before them. */
static inline void lb_usual_header(struct lb *l)
{
	static const struct {
		const char *name;
		uint64_t dir;
	} files[] = {{"main.c", 0}, {"a.c", 0}, {"b.h", 1}, {"c.h", 2}, {"/abs.c", 1}};

	lb_begin(l);
	if (l->version >= 5) {
		lb_num(l, 1, 1);
		lb_uleb(l, 1);    /* DW_LNCT_path */
		lb_uleb(l, 0x08); /* DW_FORM_string */
		lb_uleb(l, 3);
		lb_str(l, "/comp");
		lb_str(l, "/inc");
		lb_str(l, "rel");
		lb_num(l, 2, 1);
		lb_uleb(l, 1);
		lb_uleb(l, 0x08);
		lb_uleb(l, 2);    /* DW_LNCT_directory_index */
		lb_uleb(l, 0x0f); /* DW_FORM_udata */
		lb_uleb(l, ARRAY_SIZE(files));
		for (size_t i = 0; i < ARRAY_SIZE(files); i++) {
			lb_str(l, files[i].name);
			lb_uleb(l, files[i].dir);
		}
	} else {
		lb_str(l, "/inc");
		lb_str(l, "rel");
		lb_end_table(l);
		for (size_t i = 1; i < ARRAY_SIZE(files); i++)
			lb_file(l, files[i].name, files[i].dir);
		lb_end_table(l);
	}
	lb_end_header(l);
}

static inline struct cursor lb_end(struct lb *l)
{
	lb_patch(l, l->len_at);
	assert(!l->b.err);
	return cursor_of(l->b.p, l->b.len);
}

/* ---- operations ------------------------------------------------------------------------------ */

static inline void lb_set_address(struct lb *l, uint64_t addr, size_t size)
{
	lb_num(l, 0, 1);
	lb_uleb(l, 1 + size);
	lb_num(l, 2, 1);
	lb_num(l, addr, size);
}

/* Row @bytes and @lines on: a special operation where there is one. */
static inline void lb_row(struct lb *l, uint64_t bytes, int64_t lines)
{
	const int64_t d = lines - l->line_base;
	const uint64_t min_insn = l->min_insn ? l->min_insn : 1;

	assert(bytes % min_insn == 0);
	bytes /= min_insn;
	if (d >= 0 && d < l->line_range &&
	    bytes <= (255u - l->opcode_base - (uint64_t)d) / l->line_range) {
		lb_num(l, l->opcode_base + (uint64_t)d + bytes * l->line_range, 1);
		return;
	}
	lb_num(l, 2, 1);
	lb_uleb(l, bytes);
	lb_num(l, 3, 1);
	lb_sleb(l, lines);
	lb_num(l, 1, 1);
}

static inline void lb_end_sequence(struct lb *l, uint64_t bytes)
{
	lb_num(l, 2, 1);
	lb_uleb(l, bytes / (l->min_insn ? l->min_insn : 1));
	lb_num(l, 0, 1);
	lb_uleb(l, 1);
	lb_num(l, 1, 1);
}

#endif
