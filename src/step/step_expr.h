/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/*
 * step, expressions: the stack machine of struct abi_op, for rules that need more than an offset.
 */
#ifndef PA_STEP_EXPR_H
#define PA_STEP_EXPR_H

#include "step/step_state.h"

#define UW_TOP(u, n) ((u)->stack[((u)->depth - 1 - (n)) & (ABI_EXPR_DEPTH - 1)])

/* Runs the operation at u->ip: 0; 1 at the end; -ABI_WALK_*: FAULT, or BAD_RULE if it is
 * impossible. */
UW_INLINE int uw_expr_op(struct uw_state *u, UW_MEM *mem)
{
	const struct abi_op *op = UW_OP(mem, u->ip);
	__u32 pops = 0, pushes = 0;
	__u64 a, b, v = 0;
	__s64 arg;
	int r;

	if (!op)
		return -ABI_WALK_BAD_RULE;
	u->ip++;
	arg = op->arg;
	switch (op->op) {
	case ABI_OP_END:
		return 1;
	case ABI_OP_CONST:
	case ABI_OP_REG:
	case ABI_OP_PC:
		pushes = 1;
		break;
	case ABI_OP_DUP:
	case ABI_OP_PICK:
		pops = op->op == ABI_OP_DUP ? 1 : (__u32)(arg & (ABI_EXPR_DEPTH - 1)) + 1;
		break;
	case ABI_OP_CONST_HI:
	case ABI_OP_DEREF:
	case ABI_OP_DEREF_N:
	case ABI_OP_PLUS_CONST:
	case ABI_OP_NEG:
	case ABI_OP_NOT:
	case ABI_OP_ABS:
	case ABI_OP_DROP:
	case ABI_OP_BRA:
		pops = 1;
		break;
	case ABI_OP_SKIP:
		break;
	case ABI_OP_ROT:
		pops = 3;
		break;
	default:
		pops = 2;
		break;
	}
	if (u->depth < pops || u->depth + pushes > ABI_EXPR_DEPTH || u->depth > ABI_EXPR_DEPTH)
		return -ABI_WALK_BAD_RULE;
	a = UW_TOP(u, 0);
	b = UW_TOP(u, 1);
	switch (op->op) {
	case ABI_OP_CONST:
		v = (__u64)arg;
		goto push;
	case ABI_OP_CONST_HI:
		v = ((__u64)arg << 32) | (a & 0xffffffffULL);
		goto unary;
	case ABI_OP_REG:
		r = uw_value(u, mem, op->reg, &v);
		if (r)
			return -r;
		v += (__u64)arg;
		goto push;
	case ABI_OP_PC:
		v = u->pc + (__u64)arg;
		goto push;
	case ABI_OP_DUP:
		v = a;
		goto push_checked;
	case ABI_OP_PICK:
		v = UW_TOP(u, (__u32)arg & (ABI_EXPR_DEPTH - 1));
		goto push_checked;
	case ABI_OP_DEREF:
		if (UW_READ(mem, &v, a))
			return -ABI_WALK_FAULT;
		goto unary;
	case ABI_OP_DEREF_N:
		if (UW_READ(mem, &v, a))
			return -ABI_WALK_FAULT;
		v &= arg >= 4 ? 0xffffffffULL : arg >= 2 ? 0xffffULL : 0xffULL;
		goto unary;
	case ABI_OP_PLUS_CONST:
		v = a + (__u64)arg;
		goto unary;
	case ABI_OP_NEG:
		v = 0 - a;
		goto unary;
	case ABI_OP_NOT:
		v = ~a;
		goto unary;
	case ABI_OP_ABS:
		v = (__s64)a < 0 ? 0 - a : a;
		goto unary;
	case ABI_OP_DROP:
		u->depth--;
		return 0;
	case ABI_OP_BRA:
		u->depth--;
		if (a && arg > 0)
			u->ip += (__u32)arg;
		return 0;
	case ABI_OP_SKIP:
		if (arg > 0)
			u->ip += (__u32)arg;
		return 0;
	case ABI_OP_SWAP:
		UW_TOP(u, 0) = b;
		UW_TOP(u, 1) = a;
		return 0;
	case ABI_OP_ROT:
		/* The top becomes the third. */
		v = UW_TOP(u, 2);
		UW_TOP(u, 0) = b;
		UW_TOP(u, 1) = v;
		UW_TOP(u, 2) = a;
		return 0;
	case ABI_OP_PLUS:
		v = b + a;
		break;
	case ABI_OP_MINUS:
		v = b - a;
		break;
	case ABI_OP_MUL:
		v = b * a;
		break;
	case ABI_OP_AND:
		v = b & a;
		break;
	case ABI_OP_OR:
		v = b | a;
		break;
	case ABI_OP_XOR:
		v = b ^ a;
		break;
	case ABI_OP_SHL:
		v = a < 64 ? b << (a & 63) : 0;
		break;
	case ABI_OP_SHR:
		v = a < 64 ? b >> (a & 63) : 0;
		break;
	case ABI_OP_SHRA:
		v = (__u64)((__s64)b >> (a < 64 ? a & 63 : 63));
		break;
	case ABI_OP_EQ:
		v = b == a;
		break;
	case ABI_OP_NE:
		v = b != a;
		break;
	case ABI_OP_LT:
		v = (__s64)b < (__s64)a;
		break;
	case ABI_OP_LE:
		v = (__s64)b <= (__s64)a;
		break;
	case ABI_OP_GT:
		v = (__s64)b > (__s64)a;
		break;
	case ABI_OP_GE:
		v = (__s64)b >= (__s64)a;
		break;
	default:
		return -ABI_WALK_BAD_RULE;
	}
	u->depth--;
unary:
	UW_TOP(u, 0) = v;
	return 0;
push_checked:
	if (u->depth + 1 > ABI_EXPR_DEPTH)
		return -ABI_WALK_BAD_RULE;
push:
	u->depth++;
	UW_TOP(u, 0) = v;
	return 0;
}

/* Runs ops[@i …] on the stack in @u: 0 with the result on top, or ABI_WALK_*. */
UW_INLINE int uw_expr(struct uw_state *u, UW_MEM *mem, __u32 i)
{
	__u32 n;
	int r;

	u->ip = i;
	for (n = 0; n < ABI_EXPR_OPS; n++) {
		r = UW_DO_OP(u, mem);
		if (r < 0)
			return -r;
		if (r > 0)
			return u->depth ? 0 : ABI_WALK_BAD_RULE;
	}
	(void)mem;
	return ABI_WALK_BAD_RULE;
}

#endif
