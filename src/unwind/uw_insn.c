/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The instructions of call-frame information: rows of one function.
 * Source: DWARF 5 §6.4.2, §7.24; LSB 5.0 "DWARF Extensions"; DWARF for the Arm 64-bit Architecture.
 */
#include "unwind/uw_cfi_priv.h"

enum cfa_op {
	CFA_ADVANCE_LOC = 0x40, /* the low 6 bits of these three are the operand */
	CFA_OFFSET = 0x80,
	CFA_RESTORE = 0xc0,
	CFA_NOP = 0x00,
	CFA_SET_LOC = 0x01,
	CFA_ADVANCE_LOC1 = 0x02,
	CFA_ADVANCE_LOC2 = 0x03,
	CFA_ADVANCE_LOC4 = 0x04,
	CFA_OFFSET_EXTENDED = 0x05,
	CFA_RESTORE_EXTENDED = 0x06,
	CFA_UNDEFINED = 0x07,
	CFA_SAME_VALUE = 0x08,
	CFA_REGISTER = 0x09,
	CFA_REMEMBER_STATE = 0x0a,
	CFA_RESTORE_STATE = 0x0b,
	CFA_DEF_CFA = 0x0c,
	CFA_DEF_CFA_REGISTER = 0x0d,
	CFA_DEF_CFA_OFFSET = 0x0e,
	CFA_DEF_CFA_EXPRESSION = 0x0f,
	CFA_EXPRESSION = 0x10,
	CFA_OFFSET_EXTENDED_SF = 0x11,
	CFA_DEF_CFA_SF = 0x12,
	CFA_DEF_CFA_OFFSET_SF = 0x13,
	CFA_VAL_OFFSET = 0x14,
	CFA_VAL_OFFSET_SF = 0x15,
	CFA_VAL_EXPRESSION = 0x16,
	CFA_MIPS_ADVANCE_LOC8 = 0x1d,
	CFA_AARCH64_NEGATE_RA_STATE_WITH_PC = 0x2c,
	CFA_GNU_WINDOW_SAVE = 0x2d, /* arm64: AARCH64_negate_ra_state */
	CFA_GNU_ARGS_SIZE = 0x2e,
	CFA_GNU_NEGATIVE_OFFSET_EXTENDED = 0x2f,
};

/* The CFA is not known yet: no enum abi_cfa_kind. */
#define CFA_UNSET UINT8_MAX
/* Columns that the walk has no use for: vector registers, pseudo registers. */
#define COL_NONE SIZE_MAX

/* One run. */
struct run {
	struct cfi_machine *m;
	const struct cfi_cie *cie;
	const struct cfi_state *initial; /* what restore goes back to; NULL in a CIE */
	struct cursor c;
	uint64_t loc, end;
	bool done; /* loc has reached the end */
};

static void rule_begin(struct uw_rule *r, bool signal)
{
	/* With its padding: rules are compared and hashed as bytes. */
	memset(r, 0, sizeof(*r));
	r->kind = ABI_RULE_FRAME;
	r->cfa_kind = CFA_UNSET;
	r->signal = signal;
}

/* ---- rows ------------------------------------------------------------------------------------ */

static uint64_t rule_hash(const struct uw_rule *r)
{
	uint64_t h = 0, w;

	_Static_assert(sizeof(*r) % 4 == 0, "hashed by words");
	/* Sums of products do not wait for each other. */
	for (size_t i = 0; i + 8 <= sizeof(*r); i += 8) {
		memcpy(&w, (const char *)r + i, 8);
		h += (w ^ (w >> 32)) * (UINT64_C(0x9e3779b97f4a7c15) * (2 * i + 1));
	}
	w = 0;
	memcpy(&w, (const char *)r + (sizeof(*r) & ~(size_t)7), sizeof(*r) & 7);
	h += w * UINT64_C(0xc2b2ae3d27d4eb4f);
	return h ^ (h >> 29);
}

/* Where the return address is, as a rule of its own. False: nowhere, this is the root. */
static bool settle_ra(struct uw_rule *r, const struct cfi_cie *cie)
{
	struct uw_col *ra = &r->col[ABI_COL_RA];

	if (cie->ra_col < ABI_REGS) {
		*ra = r->col[cie->ra_col];
		if (ra->kind == ABI_COL_SAME) {
			ra->kind = ABI_COL_REG;
			ra->val = (int32_t)cie->ra_col;
		}
	}
	return ra->kind != ABI_COL_SAME && ra->kind != ABI_COL_UNDEF;
}

/* The code of the state: 0, -EINVAL (it has no CFA), -ENOMEM. */
static int state_code(struct run *x, uint16_t *ret)
{
	struct cfi_machine *m = x->m;
	struct uw_rule *rule = &m->cur.rule;
	struct cfi_code *slot;
	int r;

	if (!settle_ra(rule, x->cie)) {
		*ret = ABI_CODE_ROOT;
		return 0;
	}
	if (rule->cfa_kind == CFA_UNSET)
		return -EINVAL;
	slot = &m->codes[(rule_hash(rule) >> 20) & (CFI_CODES - 1)];
	if (!slot->used || memcmp(&slot->rule, rule, sizeof(*rule)) != 0) {
		slot->used = false;
		r = uw_rules_code(m->sink->rules, m->sink->quota, rule, &slot->code);
		if (r == -E2BIG) {
			m->refused = true;
			*ret = ABI_CODE_BAD;
			return 0;
		}
		if (r < 0)
			return r;
		slot->rule = *rule;
		slot->used = true;
	}
	*ret = slot->code;
	return 0;
}

/* The row that ends before @to, where the next one begins. */
static int advance(struct run *x, uint64_t to)
{
	struct cfi_machine *m = x->m;
	uint16_t code = 0;
	int r;

	if (!x->initial || to < x->loc)
		return -EINVAL;
	if (to == x->loc)
		return 0;
	r = state_code(x, &code);
	if (r < 0)
		return r;
	if (m->rows.n == 0 || m->rows.p[m->rows.n - 1].code != code) {
		r = vec_push(&m->rows, (struct cfi_row){x->loc, code});
		if (r < 0)
			return r;
	}
	/* What would come behind the function governs nothing. */
	x->done = to >= x->end;
	x->loc = to;
	return 0;
}

static int advance_by(struct run *x, uint64_t delta)
{
	uint64_t bytes;

	if (__builtin_mul_overflow(delta, x->cie->code_align, &bytes) ||
	    bytes > UINT64_MAX - x->loc)
		return -EINVAL;
	return advance(x, x->loc + bytes);
}

/* ---- operands -------------------------------------------------------------------------------- */

static size_t column(const struct run *x, uint64_t reg)
{
	if (reg < ABI_REGS)
		return reg;
	return reg == x->cie->ra_col ? ABI_COL_RA : COL_NONE;
}

static void set_col(struct run *x, size_t col, uint8_t kind, int64_t val)
{
	struct uw_col *c;

	if (col == COL_NONE)
		return;
	/* The two names that the same thing can have. */
	if ((kind == ABI_COL_CFA && val == 0 && col == ABI_REG_SP) ||
	    (kind == ABI_COL_REG && (size_t)val == col)) {
		kind = ABI_COL_SAME;
		val = 0;
	}
	c = &x->m->cur.rule.col[col];
	c->kind = kind;
	c->val = (int32_t)val;
}

/* @n times the alignment factor, if it fits a rule. */
static int factored(const struct run *x, int64_t n, int64_t *ret)
{
	if (__builtin_mul_overflow(n, x->cie->data_align, ret) || *ret < INT32_MIN ||
	    *ret > INT32_MAX)
		return -ERANGE;
	return 0;
}

static int take_uleb_factored(struct run *x, int sign, int64_t *ret)
{
	uint64_t u;
	int r = cfi_uleb(&x->c, &u);

	if (r < 0)
		return r;
	return u > INT64_MAX ? -ERANGE : factored(x, sign * (int64_t)u, ret);
}

static int take_sleb_factored(struct run *x, int64_t *ret)
{
	int64_t s;
	int r = cursor_sleb(&x->c, &s);

	return r < 0 ? r : factored(x, s, ret);
}

static int take_block(struct run *x, struct cursor *ret)
{
	uint64_t len;
	int r = cfi_uleb(&x->c, &len);

	if (r < 0)
		return r;
	return len > cursor_left(&x->c) ? -ENODATA : cursor_sub(&x->c, len, ret);
}

/* ---- the CFA --------------------------------------------------------------------------------- */

static int cfa_reg(struct run *x, uint64_t reg)
{
	if (reg >= ABI_REGS)
		return -ERANGE;
	x->m->cur.rule.cfa_reg = (uint8_t)reg;
	return 0;
}

static int cfa_off(struct run *x, int64_t off)
{
	if (off < INT32_MIN || off > INT32_MAX)
		return -ERANGE;
	x->m->cur.reg_off = (int32_t)off;
	if (x->m->cur.rule.cfa_kind == ABI_CFA_REG)
		x->m->cur.rule.cfa_off = (int32_t)off;
	return 0;
}

static int take_cfa_off(struct run *x, bool is_signed)
{
	int64_t off = 0;
	uint64_t u;
	int r;

	if (is_signed) {
		r = take_sleb_factored(x, &off);
	} else {
		r = cfi_uleb(&x->c, &u);
		if (r == 0)
			off = u > INT64_MAX ? INT64_MAX : (int64_t)u;
	}
	return r < 0 ? r : cfa_off(x, off);
}

static int do_def_cfa(struct run *x, bool is_signed)
{
	uint64_t reg;
	int r = cfi_uleb(&x->c, &reg);

	if (r < 0 || (r = cfa_reg(x, reg)) < 0)
		return r;
	x->m->cur.rule.cfa_kind = ABI_CFA_REG;
	x->m->cur.rule.cfa_off2 = 0;
	return take_cfa_off(x, is_signed);
}

static int do_def_cfa_register(struct run *x)
{
	struct cfi_state *cur = &x->m->cur;
	uint64_t reg;
	int r = cfi_uleb(&x->c, &reg);

	if (r < 0)
		return r;
	if (cur->rule.cfa_kind == CFA_UNSET)
		return -EINVAL;
	/* DWARF wants a register and offset there before. OpenSSL and libgcrypt go back to that
	 * from an expression, and mean the offset that held before it, as libgcc does. */
	cur->rule.cfa_kind = ABI_CFA_REG;
	cur->rule.cfa_off = cur->reg_off;
	cur->rule.cfa_off2 = 0;
	return cfa_reg(x, reg);
}

static int do_def_cfa_offset(struct run *x, bool is_signed)
{
	return x->m->cur.rule.cfa_kind == CFA_UNSET ? -EINVAL : take_cfa_off(x, is_signed);
}

/* ---- expressions ----------------------------------------------------------------------------- */

static int take_expr(struct run *x, bool cfa_pushed, struct uw_ops *ret)
{
	struct cursor block;
	uint64_t bad = 0;
	int r = take_block(x, &block);

	if (r < 0)
		return r;
	r = uw_expr_decode(block.p, cursor_left(&block), cfa_pushed, ret, &bad);
	x->m->bad_bytes += bad;
	return r;
}

static int intern_ops(struct run *x, const struct uw_ops *ops, int32_t *ret)
{
	return uw_rules_ops(x->m->sink->rules, x->m->sink->quota, ops->op, ops->n, ret);
}

static int do_def_cfa_expression(struct run *x)
{
	struct uw_rule *cur = &x->m->cur.rule;
	struct uw_ops ops;
	int32_t at = 0;
	int r = take_expr(x, false, &ops);

	if (r < 0)
		return r;
	if (ops.n < 2)
		return -EINVAL;
	/* The shapes name a register; the program counter of PLT forms is one of them. */
	if (uw_expr_cfa_shape(&ops, cur) == 0)
		return 0;
	r = intern_ops(x, &ops, &at);
	if (r < 0)
		return r;
	cur->cfa_kind = ABI_CFA_EXPR;
	cur->cfa_reg = 0;
	cur->cfa_off = at;
	cur->cfa_off2 = 0;
	return 0;
}

static int do_expression(struct run *x, bool is_value)
{
	struct uw_col c = {0};
	struct uw_ops ops;
	uint64_t reg;
	size_t col;
	int r = cfi_uleb(&x->c, &reg);

	if (r < 0)
		return r;
	col = column(x, reg);
	if (col == COL_NONE) {
		struct cursor block;

		return take_block(x, &block);
	}
	r = take_expr(x, true, &ops);
	if (r < 0)
		return r;
	if (uw_expr_col_shape(&ops, is_value, &c) < 0) {
		r = intern_ops(x, &ops, &c.val);
		c.kind = is_value ? ABI_COL_EXPR : ABI_COL_AT_EXPR;
	}
	if (r == 0)
		set_col(x, col, c.kind, c.val);
	return r;
}

/* ---- registers ------------------------------------------------------------------------------- */

enum off_form { OFF_U, OFF_S, OFF_NEGATIVE };

static int do_offset(struct run *x, uint64_t reg, enum off_form form, uint8_t kind)
{
	int64_t off;
	int r;

	if (form == OFF_S)
		r = take_sleb_factored(x, &off);
	else
		r = take_uleb_factored(x, form == OFF_NEGATIVE ? -1 : 1, &off);
	if (column(x, reg) == COL_NONE && r == -ERANGE)
		return 0;
	if (r == 0)
		set_col(x, column(x, reg), kind, off);
	return r;
}

static int do_offset_ext(struct run *x, enum off_form form, uint8_t kind)
{
	uint64_t reg;
	int r = cfi_uleb(&x->c, &reg);

	return r < 0 ? r : do_offset(x, reg, form, kind);
}

static int do_restore(struct run *x, uint64_t reg)
{
	size_t col = column(x, reg);

	if (!x->initial)
		return -EINVAL; /* a CIE has nothing to go back to */
	if (col != COL_NONE)
		x->m->cur.rule.col[col] = x->initial->rule.col[col];
	return 0;
}

static int do_register(struct run *x)
{
	uint64_t reg, in;
	size_t col;
	int r;

	r = cfi_uleb(&x->c, &reg);
	if (r < 0 || (r = cfi_uleb(&x->c, &in)) < 0)
		return r;
	col = column(x, reg);
	if (col == COL_NONE || in < ABI_REGS) {
		set_col(x, col, ABI_COL_REG, (int64_t)in);
		return 0;
	}
	/* In a vector register: a walk cannot know it, nor need it but for a return address. */
	if (col == ABI_COL_RA || reg == x->cie->ra_col)
		return -ENOTSUP;
	set_col(x, col, ABI_COL_UNDEF, 0);
	return 0;
}

static int do_simple(struct run *x, uint8_t kind)
{
	uint64_t reg;
	int r = cfi_uleb(&x->c, &reg);

	if (r == 0)
		set_col(x, column(x, reg), kind, 0);
	return r;
}

static int do_restore_ext(struct run *x)
{
	uint64_t reg;
	int r = cfi_uleb(&x->c, &reg);

	return r < 0 ? r : do_restore(x, reg);
}

static int do_remember(struct run *x)
{
	struct cfi_machine *m = x->m;

	if (m->n_remembered == CFI_REMEMBER_MAX)
		return -E2BIG;
	m->remembered[m->n_remembered++] = m->cur;
	return 0;
}

static int do_restore_state(struct run *x)
{
	struct cfi_machine *m = x->m;

	if (m->n_remembered == 0)
		return -EINVAL;
	/* The CFA too: DWARF does not say so, all producers mean it. */
	m->cur = m->remembered[--m->n_remembered];
	return 0;
}

/* ---- the loop -------------------------------------------------------------------------------- */

static int do_set_loc(struct run *x)
{
	uint64_t to;
	int r = cfi_pointer(x->m->f, x->m->area, &x->c, x->cie->fde_enc, x->cie->addr_size, &to);

	return r < 0 ? r : advance(x, to);
}

static int do_advance(struct run *x, size_t bytes)
{
	uint64_t delta = 0;
	int r = cursor_bytes(&x->c, &delta, bytes); /* little-endian hosts only */

	return r < 0 ? r : advance_by(x, delta);
}

static int do_one(struct run *x)
{
	const size_t left = cursor_left(&x->c);
	uint64_t skipped;
	uint8_t op = 0;
	int r = cursor_u8(&x->c, &op);

	if (r < 0)
		return r;
	switch (op & 0xc0) {
	case CFA_ADVANCE_LOC:
		return advance_by(x, op & 0x3f);
	case CFA_OFFSET:
		return do_offset(x, op & 0x3f, OFF_U, ABI_COL_AT_CFA);
	case CFA_RESTORE:
		return do_restore(x, op & 0x3f);
	default:
		break;
	}
	switch (op) {
	case CFA_NOP:
		return 0;
	case CFA_SET_LOC:
		return do_set_loc(x);
	case CFA_ADVANCE_LOC1:
		return do_advance(x, 1);
	case CFA_ADVANCE_LOC2:
		return do_advance(x, 2);
	case CFA_ADVANCE_LOC4:
		return do_advance(x, 4);
	case CFA_MIPS_ADVANCE_LOC8:
		return do_advance(x, 8);
	case CFA_OFFSET_EXTENDED:
		return do_offset_ext(x, OFF_U, ABI_COL_AT_CFA);
	case CFA_OFFSET_EXTENDED_SF:
		return do_offset_ext(x, OFF_S, ABI_COL_AT_CFA);
	case CFA_GNU_NEGATIVE_OFFSET_EXTENDED:
		return do_offset_ext(x, OFF_NEGATIVE, ABI_COL_AT_CFA);
	case CFA_VAL_OFFSET:
		return do_offset_ext(x, OFF_U, ABI_COL_CFA);
	case CFA_VAL_OFFSET_SF:
		return do_offset_ext(x, OFF_S, ABI_COL_CFA);
	case CFA_RESTORE_EXTENDED:
		return do_restore_ext(x);
	case CFA_UNDEFINED:
		return do_simple(x, ABI_COL_UNDEF);
	case CFA_SAME_VALUE:
		return do_simple(x, ABI_COL_SAME);
	case CFA_REGISTER:
		return do_register(x);
	case CFA_REMEMBER_STATE:
		return do_remember(x);
	case CFA_RESTORE_STATE:
		return do_restore_state(x);
	case CFA_DEF_CFA:
		return do_def_cfa(x, false);
	case CFA_DEF_CFA_SF:
		return do_def_cfa(x, true);
	case CFA_DEF_CFA_REGISTER:
		return do_def_cfa_register(x);
	case CFA_DEF_CFA_OFFSET:
		return do_def_cfa_offset(x, false);
	case CFA_DEF_CFA_OFFSET_SF:
		return do_def_cfa_offset(x, true);
	case CFA_DEF_CFA_EXPRESSION:
		return do_def_cfa_expression(x);
	case CFA_EXPRESSION:
		return do_expression(x, false);
	case CFA_VAL_EXPRESSION:
		return do_expression(x, true);
	case CFA_GNU_ARGS_SIZE:
		return cfi_uleb(&x->c, &skipped);
#ifdef ABI_ARM64
	case CFA_GNU_WINDOW_SAVE:
	case CFA_AARCH64_NEGATE_RA_STATE_WITH_PC:
		/* Whether the return address is signed: the walk takes the signature off always. */
		return 0;
#endif
	default:
		/* Its length is not known either. */
		x->m->bad_bytes += left;
		return -ENOTSUP;
	}
}

static int run_all(struct run *x)
{
	int r = 0;

	while (r == 0 && !x->done && cursor_left(&x->c) > 0)
		r = do_one(x);
	return r;
}

int cfi_run_cie(struct cfi_machine *m, struct cfi_cie *cie, struct cursor c)
{
	struct run x = {.m = m, .cie = cie, .c = c};
	int r;

	rule_begin(&m->cur.rule, cie->signal);
	m->cur.reg_off = 0;
	m->n_remembered = 0;
	r = run_all(&x);
	cie->initial = m->cur;
	return r;
}

int cfi_run_fde(struct cfi_machine *m, const struct cfi_cie *cie, struct cursor c, uint64_t start,
                uint64_t end)
{
	struct run x = {
	        .m = m, .cie = cie, .initial = &cie->initial, .c = c, .loc = start, .end = end};
	int r;

	m->cur = cie->initial;
	m->n_remembered = 0;
	m->rows.n = 0;
	m->rows.max = CFI_ROWS_MAX;
	m->refused = false;
	r = run_all(&x);
	return r < 0 || x.done ? r : advance(&x, end);
}
