/* SPDX-License-Identifier: Apache-2.0 */
/*
 * DWARF expressions -> operations of the walk, and the shapes that need no operations.
 * Source: DWARF 5 §2.5, §6.4.2.
 */
#include "unwind/uw_cfi_priv.h"

/* Bytes of one expression: more than 64 operations of the longest encoding need. */
#define EXPR_BYTES_MAX 1024
#define POS_NONE       UINT8_MAX

/* The column number of the program counter. */
#ifdef ABI_ARM64
#define EXPR_REG_PC 32
#else
#define EXPR_REG_PC 16
#endif

struct decoder {
	struct cursor c;
	const uint8_t *start;
	bool cfa_pushed, jumps;
	struct uw_ops ops;
	uint8_t at[EXPR_BYTES_MAX + 1]; /* first operation of the byte there, or POS_NONE */
	uint16_t target[ABI_EXPR_OPS];  /* of jumps: their target byte */
};

static int emit(struct decoder *d, uint8_t op, uint8_t reg, int64_t arg)
{
	/* The last entry is for the END. */
	if (d->ops.n >= ABI_EXPR_OPS - 1)
		return -EINVAL;
	d->ops.op[d->ops.n++] = (struct abi_op){.op = op, .reg = reg, .arg = (int32_t)arg};
	return 0;
}

static int emit_const(struct decoder *d, uint64_t v)
{
	int r = emit(d, ABI_OP_CONST, 0, (int32_t)(uint32_t)v);

	if (r == 0 && (uint64_t)(int64_t)(int32_t)(uint32_t)v != v)
		r = emit(d, ABI_OP_CONST_HI, 0, (int32_t)(uint32_t)(v >> 32));
	return r;
}

static int emit_reg(struct decoder *d, uint64_t reg, int64_t off)
{
	if (off < INT32_MIN || off > INT32_MAX)
		return -ENOTSUP;
	if (reg == EXPR_REG_PC)
		return emit(d, ABI_OP_PC, 0, off);
	if (reg >= ABI_REGS)
		return -ENOTSUP;
	return emit(d, ABI_OP_REG, (uint8_t)reg, off);
}

/* Reads @n bytes, sign-extended if @is_signed. */
static int read_fixed(struct cursor *c, unsigned int n, bool is_signed, uint64_t *ret)
{
	uint8_t bytes[8] = {0};
	uint64_t v;
	int r = cursor_bytes(c, bytes, n);

	if (r < 0)
		return r;
	memcpy(&v, bytes, sizeof(v)); /* little-endian hosts only */
	if (is_signed && n < 8 && (bytes[n - 1] & 0x80))
		v |= UINT64_MAX << (8 * n);
	*ret = v;
	return 0;
}

static int decode_jump(struct decoder *d, uint8_t op)
{
	uint64_t v;
	size_t here;
	int64_t to;
	int r = read_fixed(&d->c, 2, true, &v);

	if (r < 0)
		return r;
	here = (size_t)(d->c.p - d->start);
	to = (int64_t)here + (int64_t)v;
	/* A jump back could loop for ever. */
	if ((int64_t)v < 0 || (size_t)to > here + cursor_left(&d->c))
		return -EINVAL;
	r = emit(d, op, 0, 0);
	if (r == 0) {
		d->target[d->ops.n - 1] = (uint16_t)to;
		d->jumps = true;
	}
	return r;
}

static int decode_const(struct decoder *d, uint8_t op)
{
	/* In this order: const1u, const1s, const2u, const2s, const4u … const8s. */
	const unsigned int i = op - DW_OP_const1u;
	uint64_t v;
	int r = read_fixed(&d->c, 1u << (i / 2), i & 1, &v);

	return r < 0 ? r : emit_const(d, v);
}

static int decode_pick(struct decoder *d)
{
	uint8_t n;
	int r = cursor_u8(&d->c, &n);

	if (r < 0)
		return r;
	return n < ABI_EXPR_DEPTH ? emit(d, ABI_OP_PICK, 0, n) : -EINVAL;
}

static int decode_plus_uconst(struct decoder *d)
{
	uint64_t v;
	int r = cfi_uleb(&d->c, &v);

	if (r < 0)
		return r;
	if (v <= INT32_MAX)
		return emit(d, ABI_OP_PLUS_CONST, 0, (int64_t)v);
	r = emit_const(d, v);
	return r < 0 ? r : emit(d, ABI_OP_PLUS, 0, 0);
}

static int decode_deref_size(struct decoder *d)
{
	uint8_t n;
	int r = cursor_u8(&d->c, &n);

	if (r < 0)
		return r;
	if (n == 8)
		return emit(d, ABI_OP_DEREF, 0, 0);
	return n == 1 || n == 2 || n == 4 ? emit(d, ABI_OP_DEREF_N, 0, n) : -ENOTSUP;
}

static int decode_breg(struct decoder *d, uint8_t op)
{
	uint64_t reg = (uint64_t)(op - DW_OP_breg0);
	int64_t off = 0;
	int r = 0;

	if (op == DW_OP_bregx)
		r = cfi_uleb(&d->c, &reg);
	if (r == 0)
		r = cursor_sleb(&d->c, &off);
	return r < 0 ? r : emit_reg(d, reg, off);
}

/* Operations without operands, by DW_OP_*. ABI_OP_END: it has operands, or is not understood.
 * Division and remainder are not: signed division cannot be compiled for BPF. */
static const uint8_t simple[UINT8_MAX + 1] = {
        [DW_OP_dup] = ABI_OP_DUP,     [DW_OP_drop] = ABI_OP_DROP, [DW_OP_swap] = ABI_OP_SWAP,
        [DW_OP_rot] = ABI_OP_ROT,     [DW_OP_abs] = ABI_OP_ABS,   [DW_OP_and] = ABI_OP_AND,
        [DW_OP_minus] = ABI_OP_MINUS, [DW_OP_mul] = ABI_OP_MUL,   [DW_OP_neg] = ABI_OP_NEG,
        [DW_OP_not] = ABI_OP_NOT,     [DW_OP_or] = ABI_OP_OR,     [DW_OP_plus] = ABI_OP_PLUS,
        [DW_OP_shl] = ABI_OP_SHL,     [DW_OP_shr] = ABI_OP_SHR,   [DW_OP_shra] = ABI_OP_SHRA,
        [DW_OP_xor] = ABI_OP_XOR,     [DW_OP_eq] = ABI_OP_EQ,     [DW_OP_ge] = ABI_OP_GE,
        [DW_OP_gt] = ABI_OP_GT,       [DW_OP_le] = ABI_OP_LE,     [DW_OP_lt] = ABI_OP_LT,
        [DW_OP_ne] = ABI_OP_NE,
};

static int decode_one(struct decoder *d)
{
	uint64_t u;
	int64_t s;
	uint8_t op;
	int r = cursor_u8(&d->c, &op);

	if (r < 0)
		return r;
	if (op >= DW_OP_lit0 && op <= DW_OP_lit31)
		return emit_const(d, (uint64_t)(op - DW_OP_lit0));
	if ((op >= DW_OP_breg0 && op <= DW_OP_breg31) || op == DW_OP_bregx)
		return decode_breg(d, op);
	if (op >= DW_OP_const1u && op <= DW_OP_const8s)
		return decode_const(d, op);
	if (simple[op] != ABI_OP_END)
		return emit(d, simple[op], 0, 0);
	switch (op) {
	case DW_OP_deref:
		return emit(d, ABI_OP_DEREF, 0, 0);
	case DW_OP_constu:
		r = cfi_uleb(&d->c, &u);
		return r < 0 ? r : emit_const(d, u);
	case DW_OP_consts:
		r = cursor_sleb(&d->c, &s);
		return r < 0 ? r : emit_const(d, (uint64_t)s);
	case DW_OP_over:
		return emit(d, ABI_OP_PICK, 0, 1);
	case DW_OP_pick:
		return decode_pick(d);
	case DW_OP_plus_uconst:
		return decode_plus_uconst(d);
	case DW_OP_bra:
		return decode_jump(d, ABI_OP_BRA);
	case DW_OP_skip:
		return decode_jump(d, ABI_OP_SKIP);
	case DW_OP_deref_size:
		return decode_deref_size(d);
	case DW_OP_nop:
		return 0;
	case DW_OP_call_frame_cfa: /* it is the only thing on the stack at the start */
		return d->cfa_pushed && d->ops.n == 0 ? emit(d, ABI_OP_DUP, 0, 0) : -ENOTSUP;
	default:
		return -ENOTSUP;
	}
}

static int settle_jumps(struct decoder *d)
{
	for (uint32_t i = 0; i < d->ops.n; i++) {
		struct abi_op *o = &d->ops.op[i];

		if (o->op != ABI_OP_BRA && o->op != ABI_OP_SKIP)
			continue;
		if (d->at[d->target[i]] == POS_NONE)
			return -EINVAL; /* into the middle of an operation */
		o->arg = (int32_t)(d->at[d->target[i]] - (i + 1));
	}
	return 0;
}

static bool adds_to(int32_t *a, int64_t b)
{
	int64_t sum = (int64_t)*a + b;

	if (b < INT32_MIN || b > INT32_MAX || sum < INT32_MIN || sum > INT32_MAX)
		return false;
	*a = (int32_t)sum;
	return true;
}

/* Joins constants that are added. Only without jumps, whose targets would move. */
static void fold(struct uw_ops *ops)
{
	struct uw_ops o = {.n = 0};

	for (uint32_t i = 0; i < ops->n; i++) {
		struct abi_op x = ops->op[i];
		struct abi_op *last = o.n ? &o.op[o.n - 1] : NULL;
		bool sum = x.op == ABI_OP_PLUS || x.op == ABI_OP_MINUS;

		if (sum && last && last->op == ABI_OP_CONST && last->arg != INT32_MIN) {
			x = (struct abi_op){
			        .op = ABI_OP_PLUS_CONST,
			        .arg = x.op == ABI_OP_PLUS ? last->arg : -last->arg,
			};
			o.n--;
			last = o.n ? &o.op[o.n - 1] : NULL;
		}
		if (x.op == ABI_OP_PLUS_CONST && last &&
		    (last->op == ABI_OP_REG || last->op == ABI_OP_PC ||
		     last->op == ABI_OP_PLUS_CONST) &&
		    adds_to(&last->arg, x.arg))
			continue;
		o.op[o.n++] = x;
	}
	*ops = o;
}

int uw_expr_decode(const uint8_t *p, size_t len, bool cfa_pushed, struct uw_ops *ret,
                   uint64_t *ret_bad)
{
	struct decoder d = {.c = cursor_of(p, len), .start = p, .cfa_pushed = cfa_pushed};
	size_t pos = 0;
	int r = 0;

	if (len > EXPR_BYTES_MAX)
		return -EINVAL;
	memset(d.at, POS_NONE, len + 1);
	while (cursor_left(&d.c) > 0) {
		pos = len - cursor_left(&d.c);
		d.at[pos] = (uint8_t)d.ops.n;
		r = decode_one(&d);
		if (r == -ENOTSUP && ret_bad)
			*ret_bad = len - pos;
		if (r == -ENOTSUP)
			return r;
		if (r < 0)
			return -EINVAL;
	}
	d.at[len] = (uint8_t)d.ops.n;
	d.ops.op[d.ops.n++] = (struct abi_op){.op = ABI_OP_END};
	r = settle_jumps(&d);
	if (r < 0)
		return r;
	if (!d.jumps)
		fold(&d.ops);
	*ret = d.ops;
	return 0;
}

static bool ops_are(const struct uw_ops *ops, const uint8_t *codes, uint32_t n)
{
	if (ops->n != n)
		return false;
	for (uint32_t i = 0; i < n; i++)
		if (ops->op[i].op != codes[i])
			return false;
	return true;
}

int uw_expr_cfa_shape(const struct uw_ops *ops, struct uw_rule *ret)
{
	static const uint8_t reg[] = {ABI_OP_REG, ABI_OP_END};
	static const uint8_t deref[] = {ABI_OP_REG, ABI_OP_DEREF, ABI_OP_END};
	static const uint8_t deref_plus[] = {ABI_OP_REG, ABI_OP_DEREF, ABI_OP_PLUS_CONST,
	                                     ABI_OP_END};
	/* The linker's own, for .plt entries: 16 bytes each, the first instructions of which push
	 * a word at the latest at @off2. */
	static const uint8_t plt[] = {ABI_OP_REG,   ABI_OP_PC, ABI_OP_CONST, ABI_OP_AND,
	                              ABI_OP_CONST, ABI_OP_GE, ABI_OP_CONST, ABI_OP_SHL,
	                              ABI_OP_PLUS,  ABI_OP_END};
	const struct abi_op *o = ops->op;

	if (ops_are(ops, reg, ARRAY_SIZE(reg))) {
		ret->cfa_kind = ABI_CFA_REG;
		ret->cfa_off2 = 0;
	} else if (ops_are(ops, deref, ARRAY_SIZE(deref))) {
		ret->cfa_kind = ABI_CFA_DEREF;
		ret->cfa_off2 = 0;
	} else if (ops_are(ops, deref_plus, ARRAY_SIZE(deref_plus))) {
		ret->cfa_kind = ABI_CFA_DEREF;
		ret->cfa_off2 = o[2].arg;
	} else if (ops_are(ops, plt, ARRAY_SIZE(plt)) && o[1].arg == 0 && o[2].arg == 15 &&
	           o[6].arg == 3) {
		ret->cfa_kind = ABI_CFA_PLT;
		ret->cfa_off2 = o[4].arg;
	} else {
		return -ENOENT;
	}
	ret->cfa_reg = o[0].reg;
	ret->cfa_off = o[0].arg;
	return 0;
}

int uw_expr_col_shape(const struct uw_ops *ops, bool is_value, struct uw_col *ret)
{
	static const uint8_t reg[] = {ABI_OP_REG, ABI_OP_END};
	static const uint8_t cfa[] = {ABI_OP_PLUS_CONST, ABI_OP_END};
	const struct abi_op *o = ops->op;

	if (ops_are(ops, reg, ARRAY_SIZE(reg))) {
		if (is_value && o[0].arg == 0) {
			ret->kind = ABI_COL_REG;
			ret->val = o[0].reg;
			return 0;
		}
		if (is_value || o[0].arg < -(1 << 23) || o[0].arg >= 1 << 23)
			return -ENOENT;
		ret->kind = ABI_COL_AT_REG;
		ret->val = (int32_t)((uint32_t)o[0].arg << 8 | o[0].reg);
		return 0;
	}
	if (ops_are(ops, cfa, ARRAY_SIZE(cfa))) {
		ret->kind = is_value ? ABI_COL_CFA : ABI_COL_AT_CFA;
		ret->val = o[0].arg;
		return 0;
	}
	return -ENOENT;
}
