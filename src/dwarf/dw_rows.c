/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rows of addresses: a line program is run once for all of them. Each row is compared with the next
 * wanted address, and not kept. Source: DWARF 5 §6.2.2 and §6.2.5.
 */
#include "dwarf/dw_line_priv.h"

struct regs {
	uint64_t addr, file;
	uint32_t line, column;
};

/* Result for an address so far. */
struct place {
	struct dw_row row; /* in the current sequence, which may still be refused */
	uint64_t end;      /* of the sequence that ret[] is from */
};

struct run {
	struct dw_line *l;
	const uint64_t *addrs;
	size_t n;
	struct dw_row *ret;
	struct place *places; /* places[n] */
	struct regs now, last;
	bool open;    /* this sequence has a row */
	uint64_t low; /* address of its first row */
	/* index of the first address at or after low; the same for last.addr */
	size_t first, next;
	uint64_t wanted;       /* addrs[next]; UINT64_MAX at the end */
	uint16_t advance[256]; /* of special opcodes: bytes, lines */
	int16_t lines[256];
};

static void seek(struct run *s, uint64_t addr)
{
	s->next = bisect_first(i, 0, s->n, s->addrs[i] >= addr);
	s->wanted = s->next < s->n ? s->addrs[s->next] : UINT64_MAX;
}

static void begin_sequence(struct run *s)
{
	s->open = true;
	s->low = s->now.addr;
	seek(s, s->low);
	s->first = s->next;
}

/* Assigns the last row to the addresses before the current one. */
static int settle(struct run *s)
{
	const struct dw_row row = {.file = s->last.file,
	                           .line = s->last.line,
	                           .column = s->last.column,
	                           .found = true};

	if (s->now.addr < s->last.addr) { /* not allowed, harmless */
		seek(s, s->now.addr);
		return 0;
	}
	for (; s->next < s->n && s->addrs[s->next] < s->now.addr; s->next++) {
		if (!step(s->l))
			return -E2BIG;
		s->places[s->next].row = row;
	}
	s->wanted = s->next < s->n ? s->addrs[s->next] : UINT64_MAX;
	return 0;
}

static inline int add_row(struct run *s)
{
	if (!s->open)
		begin_sequence(s);
	else if (s->wanted < s->now.addr || s->now.addr < s->last.addr) {
		int r = settle(s);

		if (r < 0)
			return r;
	}
	s->last = s->now;
	return 0;
}

/* Linkers leave the sequences of discarded code at one of these addresses. */
static bool is_discarded(const struct run *s)
{
	const uint64_t top = s->l->address_size == 4 ? UINT32_MAX : UINT64_MAX;

	return s->low == 0 || s->low == top || s->low == top - 1;
}

static int end_sequence(struct run *s)
{
	const uint64_t end = s->now.addr;
	int r = add_row(s);

	if (r < 0)
		return r;
	/* Each address from low to end was assigned a row of this sequence, even if rows went back
	 * and forth. Of overlapping sequences the one that ends first wins. */
	for (size_t i = s->first; !is_discarded(s) && i < s->n && s->addrs[i] < end; i++) {
		if (!s->ret[i].found || end < s->places[i].end) {
			s->ret[i] = s->places[i].row;
			s->places[i].end = end;
		}
	}
	s->open = false;
	s->now = (struct regs){.file = 1, .line = 1};
	return 0;
}

static int define_file(struct dw_line *l, struct cursor c)
{
	const uint8_t *p = c.p;
	struct entry e;
	int r = dw_line_old_file(&c, &e);

	if (r == 0)
		r = dw_line_note(l, &l->files, p);
	else
		l->env.stats->bad++;
	return r == -ENOMEM ? r : 0; /* without this file, the rest is still good */
}

static int run_extended(struct run *s, struct cursor *c)
{
	struct cursor op;
	uint64_t len = 0;
	uint8_t code;
	int r = cursor_uleb(c, &len);

	if (r < 0 || len == 0)
		return r;
	if (len > cursor_left(c))
		return -ENODATA;
	(void)cursor_sub(c, (size_t)len, &op);
	(void)cursor_u8(&op, &code);
	switch (code) {
	case DW_LNE_end_sequence:
		return end_sequence(s);
	case DW_LNE_set_address:
		len = cursor_left(&op);
		if (len != 1 && len != 2 && len != 4 && len != 8) {
			s->l->env.stats->bad++;
			return 0;
		}
		return dw_next_num(&op, (size_t)len, &s->now.addr);
	case DW_LNE_define_file:
		return define_file(s->l, op);
	default: /* discriminators, and vendors' opcodes */
		return 0;
	}
}

static int skip_operands(const struct dw_line *l, uint8_t op, struct cursor *c)
{
	uint64_t unused;
	int r = 0;

	for (uint8_t n = l->operands[op - 1]; r == 0 && n > 0; n--)
		r = cursor_uleb(c, &unused);
	return r;
}

static inline int run_standard(struct run *s, uint8_t op, struct cursor *c)
{
	uint64_t v = 0;
	uint16_t v16 = 0;
	int64_t d = 0;
	int r;

	switch (op) {
	case DW_LNS_copy:
		return add_row(s);
	case DW_LNS_advance_pc:
		r = dw_next_uleb(c, &v);
		s->now.addr += v * s->l->min_insn_bytes;
		return r;
	case DW_LNS_advance_line:
		r = cursor_sleb(c, &d);
		s->now.line += (uint32_t)d;
		return r;
	case DW_LNS_set_file:
		return dw_next_uleb(c, &s->now.file);
	case DW_LNS_set_column:
		r = dw_next_uleb(c, &v);
		s->now.column = (uint32_t)MIN_OF(v, UINT32_MAX);
		return r;
	case DW_LNS_const_add_pc:
		s->now.addr += s->advance[255];
		return 0;
	case DW_LNS_fixed_advance_pc:
		r = cursor_u16(c, &v16);
		s->now.addr += v16;
		return r;
	case DW_LNS_negate_stmt:
	case DW_LNS_set_basic_block:
	case DW_LNS_set_prologue_end:
	case DW_LNS_set_epilogue_begin:
		return 0;
	case DW_LNS_set_isa:
		return dw_next_uleb(c, &v);
	default:
		return skip_operands(s->l, op, c);
	}
}

static int run_program(struct run *s)
{
	const uint8_t base = s->l->opcode_base;
	struct cursor c = s->l->program;
	uint8_t op;
	int r = 0;

	while (r == 0 && dw_next_u8(&c, &op) == 0) {
		if (!step(s->l))
			return -E2BIG;
		if (op == 0) {
			r = run_extended(s, &c);
		} else if (op < base) {
			r = run_standard(s, op, &c);
		} else {
			s->now.addr += s->advance[op];
			s->now.line += (uint32_t)s->lines[op];
			r = add_row(s);
		}
	}
	return r;
}

/* Computes each special opcode once: a division for each row would cost more than the rest. */
static void prepare(struct run *s)
{
	const struct dw_line *l = s->l;

	if (l->line_range == 0) /* without a divisor they advance nothing */
		return;
	for (unsigned int op = l->opcode_base; op < 256; op++) {
		unsigned int v = op - l->opcode_base;

		s->advance[op] = (uint16_t)(v / l->line_range * l->min_insn_bytes);
		s->lines[op] = (int16_t)(l->line_base + (int)(v % l->line_range));
	}
}

int dw_line_find(struct dw_line *l, const uint64_t *addrs, size_t n, struct dw_row *ret)
{
	_cleanup_free_ struct place *places = calloc(n ? n : 1, sizeof(*places));
	struct run s = {.l = l,
	                .addrs = addrs,
	                .n = n,
	                .ret = ret,
	                .places = places,
	                .now = {.file = 1, .line = 1}};
	int r;

	if (!places)
		return -ENOMEM;
	for (size_t i = 0; i < n; i++)
		ret[i] = (struct dw_row){0};
	l->files.n = l->header_files; /* the program defines the others again */
	prepare(&s);
	r = run_program(&s);
	if (r == -ENOMEM)
		return r;
	/* Rows before the damage are kept. An open sequence has no end, so none of its rows
	 * counts. */
	if ((r < 0 && r != -E2BIG) || (r == 0 && s.open))
		l->env.stats->bad++;
	return 0;
}
