/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cfi-ours - what an oracle compares: rules and functions as our reader gives them, the step over
 * made-up registers and memory, and a file's table in words.
 */
#ifndef PA_TEST_CFI_OURS_H
#define PA_TEST_CFI_OURS_H

#include "cfi_eval.h"
#include "unwind/unwind_priv.h"

/* ---- our step -------------------------------------------------------------------------------- */

struct step_mem {
	const struct uw_rules_mem *rules;
	const struct machine *m;
};

static int step_read(const struct step_mem *mem, __u64 *ret, uint64_t addr)
{
	*ret = memory(mem->m, addr);
	return 0;
}

#define UW_MEM                       const struct step_mem
#define UW_READ(mem, ret, addr)      step_read(mem, ret, addr)
#define UW_READ_CODE(mem, ret, addr) step_read(mem, ret, addr)
#define UW_IS_CODE(mem, addr, sure)  1
#define UW_RULE(mem, i)              ((i) < (mem)->rules->n_rules ? &(mem)->rules->rules[i] : NULL)
#define UW_WIDE(mem, i)              ((i) < (mem)->rules->n_wides ? &(mem)->rules->wides[i] : NULL)
#define UW_OP(mem, i)                ((i) < (mem)->rules->n_ops ? &(mem)->rules->ops[i] : NULL)
#include "step/step.h"

/* ---- our rules ------------------------------------------------------------------------------- */

static bool our_expr(const struct uw_rules *rules, const struct machine *m, uint32_t ip,
                     const uint64_t *cfa, uint64_t *ret)
{
	const struct step_mem mem = {uw_rules_mem(rules), m};
	struct uw_state u = {0};

	memcpy(u.reg, m->reg, sizeof(u.reg));
	u.pc = m->reg[ABI_REGS];
	uw_begin(&u);
	if (cfa) {
		u.stack[0] = *cfa;
		u.depth = 1;
	}
	if (uw_expr(&u, &mem, ip))
		return false;
	*ret = u.stack[(u.depth - 1) & (ABI_EXPR_DEPTH - 1)];
	return true;
}

static bool our_cfa(const struct uw_rules *rules, const struct uw_rule *r, const struct machine *m,
                    uint64_t *ret)
{
	uint64_t v = m->reg[r->cfa_reg] + (uint64_t)(int64_t)r->cfa_off;

	switch ((enum abi_cfa_kind)r->cfa_kind) {
	case ABI_CFA_REG:
		*ret = v;
		return true;
	case ABI_CFA_DEREF:
		*ret = memory(m, v) + (uint64_t)(int64_t)r->cfa_off2;
		return true;
	case ABI_CFA_PLT:
		*ret = v + ((int32_t)(m->reg[ABI_REGS] & 15) >= r->cfa_off2 ? 8 : 0);
		return true;
	case ABI_CFA_EXPR:
		return our_expr(rules, m, (uint32_t)r->cfa_off, NULL, ret);
	}
	return false;
}

static struct found our_col(const struct uw_rules *rules, const struct uw_rule *r, size_t i,
                            const struct machine *m, uint64_t cfa)
{
	const struct uw_col *c = &r->col[i];
	const uint64_t off = (uint64_t)(int64_t)c->val;
	struct found f = {PLACE_ERROR, 0};

	switch ((enum abi_col_kind)c->kind) {
	case ABI_COL_SAME:
		f.place = PLACE_SAME;
		if (i == ABI_REG_SP)
			f = (struct found){PLACE_VALUE, cfa};
		break;
	case ABI_COL_UNDEF:
		f.place = PLACE_UNDEF;
		break;
	case ABI_COL_AT_CFA:
		f = (struct found){PLACE_MEMORY, cfa + off};
		break;
	case ABI_COL_CFA:
		f = (struct found){PLACE_VALUE, cfa + off};
		break;
	case ABI_COL_REG:
		f = (struct found){PLACE_VALUE, m->reg[c->val]};
		break;
	case ABI_COL_AT_REG:
		f = (struct found){PLACE_MEMORY,
		                   m->reg[c->val & 255] + (uint64_t)(int64_t)(c->val >> 8)};
		break;
	case ABI_COL_AT_EXPR:
	case ABI_COL_EXPR:
		if (our_expr(rules, m, (uint32_t)c->val, &cfa, &f.v))
			f.place = c->kind == ABI_COL_EXPR ? PLACE_VALUE : PLACE_MEMORY;
		break;
	}
	return f;
}

/* ---- functions and rows as a reader gives them -------------------------------------------------
 */

struct func {
	uint64_t start, end;
	size_t first, n; /* of rows */
};
struct row {
	uint64_t at;
	uint16_t code;
};
struct reading {
	struct uw_quota quota;
	struct uw_build_stats stats;
	struct uw_sink sink;
	VEC(struct func) funcs;
	VEC(struct row) rows;
};

static int on_function(void *arg, uint64_t start, uint64_t end)
{
	struct reading *rd = arg;

	assert(start < end);
	return vec_push(&rd->funcs, ((struct func){start, end, rd->rows.n, 0}));
}

static int on_row(void *arg, uint64_t at, uint16_t code)
{
	struct reading *rd = arg;

	assert(rd->funcs.n > 0);
	rd->funcs.p[rd->funcs.n - 1].n++;
	return vec_push(&rd->rows, ((struct row){at, code}));
}

static void reading_init(struct reading *rd, struct uw_rules *rules)
{
	*rd = (struct reading){0};
	rd->funcs.max = rd->rows.max = (size_t)1 << 26;
	rd->sink = (struct uw_sink){
	        .rules = rules,
	        .quota = &rd->quota,
	        .stats = &rd->stats,
	        .function = on_function,
	        .row = on_row,
	        .arg = rd,
	};
}

static void reading_done(struct reading *rd)
{
	vec_done(&rd->funcs);
	vec_done(&rd->rows);
}

/* Addresses that functions cover: sorted, no two touch. */
struct span {
	uint64_t start, end;
};
typedef VEC(struct span) spans_vec;

static int by_start(const void *a, const void *b)
{
	const struct span *x = a, *y = b;

	return (x->start > y->start) - (x->start < y->start);
}

static int spans_of(const struct reading *rd, spans_vec *ret)
{
	size_t n = 0;
	int r = 0;

	ret->max = rd->funcs.max;
	ret->n = 0;
	for (size_t i = 0; i < rd->funcs.n && r == 0; i++)
		r = vec_push(ret, ((struct span){rd->funcs.p[i].start, rd->funcs.p[i].end}));
	if (r < 0 || ret->n == 0)
		return r;
	qsort(ret->p, ret->n, sizeof(*ret->p), by_start);
	for (size_t i = 1; i < ret->n; i++) {
		if (ret->p[i].start <= ret->p[n].end)
			ret->p[n].end = MAX_OF(ret->p[n].end, ret->p[i].end);
		else
			ret->p[++n] = ret->p[i];
	}
	ret->n = n + 1;
	return 0;
}

static bool in_spans(const spans_vec *v, uint64_t at)
{
	size_t lo = 0, hi = v->n;

	while (lo < hi) {
		size_t mid = lo + (hi - lo) / 2;

		if (v->p[mid].end <= at)
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo < v->n && v->p[lo].start <= at;
}

/* ---- the file as the kernel sees it -----------------------------------------------------------
 */

/* Two images have the table, so that one of them does not begin at word 0. */
#define IMAGES 3
struct packed {
	struct img_file *f;
	struct uw_rules *rules;
	struct uw_table *table; /* NULL: there is nothing to build one from */
	struct uw_store *store;
	struct abi_image images[IMAGES];
	spans_vec special, go, eh; /* by whose rows code is walked; eh: once it was read */
};

/* Words of all files, one after the other: what the file before left there must not be found. */
static uint32_t *segments[ABI_SEGMENTS_MAX];

static int segment(void *arg, uint32_t i, uint32_t **ret)
{
	(void)arg;
	if (!segments[i])
		segments[i] = calloc(ABI_SEGMENT_WORDS, sizeof(uint32_t));
	*ret = segments[i];
	return segments[i] ? 0 : -ENOMEM;
}

static void packed_done(struct packed *p)
{
	uw_store_freep(&p->store);
	uw_table_freep(&p->table);
	vec_done(&p->special);
	vec_done(&p->go);
	vec_done(&p->eh);
}

/* Adds what Go's readers cover. */
static int read_go(struct packed *p)
{
	struct reading rd;
	int r;

	reading_init(&rd, p->rules);
	r = uw_go_special_read(p->f, &rd.sink, NULL);
	if (r == 0)
		r = spans_of(&rd, &p->special);
	reading_done(&rd);
	if (r < 0 && r != -ENOENT)
		return r;
	reading_init(&rd, p->rules);
	r = uw_go_read(p->f, &rd.sink, NULL);
	if (r == 0)
		r = spans_of(&rd, &p->go);
	reading_done(&rd);
	return r == -ENOENT ? 0 : r;
}

static int packed_init(struct packed *p, struct img_file *f, struct uw_rules *rules)
{
	const struct uw_backing backing = {
	        .images = p->images,
	        .n_images = IMAGES,
	        .max_segments = ABI_SEGMENTS_MAX,
	        .segment = segment,
	};
	int r = uw_table_build(f, rules, NULL, &p->table, NULL, NULL);

	p->f = f;
	p->rules = rules;
	if (r < 0)
		return r == -ENOENT ? 0 : r;
	r = uw_store_new(&backing, UINT64_C(1) << 30, &p->store);
	for (uint32_t i = 1; i < IMAGES && r == 0; i++)
		r = uw_store_install(p->store, i, p->table);
	return r < 0 ? r : read_go(p);
}

/* The code at a file offset as the kernel finds it, wherever in the words the table lies. */
static bool packed_code(const struct packed *p, uint64_t off, uint16_t *ret)
{
	uint16_t code[IMAGES] = {uw_table_find(p->table, off)};

	for (uint32_t i = 1; i < IMAGES; i++)
		if (uw_store_code(p->store, i, off, &code[i]) < 0 || code[i] != code[0])
			return false;
	*ret = code[0];
	return true;
}

/* Bytes from a file offset to the next row of the table. */
static uint64_t row_left(const struct uw_table *t, uint64_t off)
{
	uint32_t lo = 0, hi = t->n_rows;

	if (off < t->lo)
		return t->lo - off;
	while (lo < hi) {
		uint32_t mid = lo + (hi - lo) / 2;

		if (t->rows[mid].rel <= off - t->lo)
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo < t->n_rows ? t->lo + t->rows[lo].rel - off : UINT64_MAX;
}

#endif
