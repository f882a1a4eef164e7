/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The instructions of call-frame information: rows of one function.
 * Source: DWARF 5 §6.4.2, §7.24; LSB 5.0 "DWARF Extensions"; DWARF for the Arm 64-bit Architecture.
 */
#include "unwind/uw_cfi_priv.h"

/* arm64; elfutils 0.188 does not have it. */
#define CFA_AARCH64_NEGATE_RA_STATE_WITH_PC 0x2c
/* Three instructions have the operand in the low bits of their opcode. */
#define CFA_PRIMARY 0xc0
#define CFA_OPERAND 0x3f

/* A column that the walk does not use: vector registers, pseudo registers. */
#define COL_NONE SIZE_MAX

/* One run. */
struct run {
	struct cfi_machine *m;
	const struct cfi_cie *cie;
	const struct cfi_state *initial; /* for DW_CFA_restore; NULL in a CIE */
	struct cursor c;
	uint64_t loc, end;
	bool done; /* loc has reached the end */
};

/* ---- rows ------------------------------------------------------------------------------------ */

/* Adds the row that ends before @to. */
static int advance(struct run *x, uint64_t to)
{
	struct cfi_machine *m = x->m;
	uint16_t code = 0;
	int r;

	if (!x->initial || to < x->loc)
		return -EINVAL;
	if (to == x->loc)
		return 0;
	r = cfi_state_code(m, x->cie, &code);
	if (r < 0)
		return r;
	if (m->rows.n == 0 || m->rows.p[m->rows.n - 1].code != code) {
		r = vec_push(&m->rows, (struct cfi_row){x->loc, code});
		if (r < 0)
			return r;
	}
	/* Rows after the function's end govern nothing. */
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

/* Multiplies @n by the alignment factor: 0, -ERANGE (it does not fit a rule). */
static int factored(const struct run *x, int64_t n, int64_t *ret)
{
	if (__builtin_mul_overflow(n, x->cie->data_align, ret) || *ret < INT32_MIN ||
	    *ret > INT32_MAX)
		return -ERANGE;
	return 0;
}

static int read_uleb_factored(struct run *x, int sign, int64_t *ret)
{
	uint64_t u;
	int r = cfi_uleb(&x->c, &u);

	if (r < 0)
		return r;
	return u > INT64_MAX ? -ERANGE : factored(x, sign * (int64_t)u, ret);
}

static int read_sleb_factored(struct run *x, int64_t *ret)
{
	int64_t s;
	int r = cursor_sleb(&x->c, &s);

	return r < 0 ? r : factored(x, s, ret);
}

static int read_block(struct run *x, struct cursor *ret)
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

static int read_cfa_off(struct run *x, bool is_signed)
{
	int64_t off = 0;
	uint64_t u;
	int r;

	if (is_signed) {
		r = read_sleb_factored(x, &off);
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
	return read_cfa_off(x, is_signed);
}

static int do_def_cfa_register(struct run *x)
{
	struct cfi_state *cur = &x->m->cur;
	uint64_t reg;
	int r = cfi_uleb(&x->c, &reg);

	if (r < 0)
		return r;
	if (cur->rule.cfa_kind == CFI_CFA_UNSET)
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
	return x->m->cur.rule.cfa_kind == CFI_CFA_UNSET ? -EINVAL : read_cfa_off(x, is_signed);
}

/* ---- expressions ----------------------------------------------------------------------------- */

static int read_expr(struct run *x, bool cfa_pushed, struct uw_ops *ret)
{
	struct cursor block;
	uint64_t bad = 0;
	int r = read_block(x, &block);

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
	int r = read_expr(x, false, &ops);

	if (r < 0)
		return r;
	if (ops.n < 2)
		return -EINVAL;
	/* Known shapes name a register, or the program counter (PLT forms). */
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

		return read_block(x, &block);
	}
	r = read_expr(x, true, &ops);
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
		r = read_sleb_factored(x, &off);
	else
		r = read_uleb_factored(x, form == OFF_NEGATIVE ? -1 : 1, &off);
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
		return -EINVAL; /* a CIE has no initial state */
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
	/* In a vector register, which a walk does not have. Only a return address is needed. */
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

static int do_remember_state(struct run *x)
{
	struct cfi_machine *m = x->m;

	if (m->n_saved == CFI_REMEMBER_MAX)
		return -E2BIG;
	m->saved[m->n_saved++] = m->cur;
	return 0;
}

static int do_restore_state(struct run *x)
{
	struct cfi_machine *m = x->m;

	if (m->n_saved == 0)
		return -EINVAL;
	/* The CFA too: DWARF does not say so, all producers mean it. */
	m->cur = m->saved[--m->n_saved];
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
	switch (op & CFA_PRIMARY) {
	case DW_CFA_advance_loc:
		return advance_by(x, op & CFA_OPERAND);
	case DW_CFA_offset:
		return do_offset(x, op & CFA_OPERAND, OFF_U, ABI_COL_AT_CFA);
	case DW_CFA_restore:
		return do_restore(x, op & CFA_OPERAND);
	default:
		break;
	}
	switch (op) {
	case DW_CFA_nop:
		return 0;
	case DW_CFA_set_loc:
		return do_set_loc(x);
	case DW_CFA_advance_loc1:
		return do_advance(x, 1);
	case DW_CFA_advance_loc2:
		return do_advance(x, 2);
	case DW_CFA_advance_loc4:
		return do_advance(x, 4);
	case DW_CFA_MIPS_advance_loc8:
		return do_advance(x, 8);
	case DW_CFA_offset_extended:
		return do_offset_ext(x, OFF_U, ABI_COL_AT_CFA);
	case DW_CFA_offset_extended_sf:
		return do_offset_ext(x, OFF_S, ABI_COL_AT_CFA);
	case DW_CFA_GNU_negative_offset_extended:
		return do_offset_ext(x, OFF_NEGATIVE, ABI_COL_AT_CFA);
	case DW_CFA_val_offset:
		return do_offset_ext(x, OFF_U, ABI_COL_CFA);
	case DW_CFA_val_offset_sf:
		return do_offset_ext(x, OFF_S, ABI_COL_CFA);
	case DW_CFA_restore_extended:
		return do_restore_ext(x);
	case DW_CFA_undefined:
		return do_simple(x, ABI_COL_UNDEF);
	case DW_CFA_same_value:
		return do_simple(x, ABI_COL_SAME);
	case DW_CFA_register:
		return do_register(x);
	case DW_CFA_remember_state:
		return do_remember_state(x);
	case DW_CFA_restore_state:
		return do_restore_state(x);
	case DW_CFA_def_cfa:
		return do_def_cfa(x, false);
	case DW_CFA_def_cfa_sf:
		return do_def_cfa(x, true);
	case DW_CFA_def_cfa_register:
		return do_def_cfa_register(x);
	case DW_CFA_def_cfa_offset:
		return do_def_cfa_offset(x, false);
	case DW_CFA_def_cfa_offset_sf:
		return do_def_cfa_offset(x, true);
	case DW_CFA_def_cfa_expression:
		return do_def_cfa_expression(x);
	case DW_CFA_expression:
		return do_expression(x, false);
	case DW_CFA_val_expression:
		return do_expression(x, true);
	case DW_CFA_GNU_args_size:
		return cfi_uleb(&x->c, &skipped);
#ifdef ABI_ARM64
	case DW_CFA_AARCH64_negate_ra_state:
	case CFA_AARCH64_NEGATE_RA_STATE_WITH_PC:
		/* Whether the return address is signed: the walk takes the signature off always. */
		return 0;
#endif
	default:
		/* Its length is unknown. */
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

	cfi_rule_begin(&m->cur.rule, cie->signal);
	m->cur.reg_off = 0;
	m->n_saved = 0;
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
	m->n_saved = 0;
	m->rows.n = 0;
	m->rows.max = CFI_ROWS_MAX;
	m->refused = false;
	r = run_all(&x);
	return r < 0 || x.done ? r : advance(&x, end);
}
