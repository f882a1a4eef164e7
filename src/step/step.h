/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/*
 * step - one frame of a user stack: registers, a code and a way to read memory -> the caller's
 * registers, or why the walk ends. No helpers, no maps. The same text is compiled for BPF and for the
 * host: unit tests, property tests, fuzzers and the walk of deferred samples use it.
 *
 * A register that a rule saves is not read: the state keeps its address, and it is read when a later
 * rule asks for it. A register that no rule names keeps its value.
 *
 * Before including, define
 *   UW_MEM                       the type behind which memory is reached
 *   UW_READ(mem, ret_u64, addr)  reads 8 bytes at addr into *ret_u64: 0, or non-zero on a fault
 *   UW_READ_CODE(mem, ret_u64, addr)  the same, of code
 *   UW_IS_CODE(mem, addr, sure)  non-zero if addr can be a return address: it is in executable memory,
 *                                and as far as can be seen after a call. sure: a frame record or a
 *                                register says so, which is enough in JIT code (interpreters return to
 *                                code that is not after a call)
 *   UW_RULE(mem, i), UW_WIDE(mem, i), UW_OP(mem, i)
 *                                const struct abi_rule *, abi_wide *, abi_op *, or NULL
 *
 * and, where functions must be verified one by one (BPF), UW_SPLIT with the following, which call back
 * uw_step_frame, uw_step_wide, uw_wide_column, uw_expr and uw_expr_op
 *   UW_DO_FRAME(u, mem, id)
 *   UW_DO_WIDE(u, mem, i)
 *   UW_DO_COLUMN(u, mem, i, col)
 *   UW_DO_EXPR(u, mem, i)
 *   UW_DO_OP(u, mem)
 */
#ifndef PA_STEP_H
#define PA_STEP_H

#include "bpf/abi/abi.h"

#define UW_INLINE static __attribute__((always_inline)) inline

/* Highest user address + 1 of every page-table layout we meet (57 bits, x86-64 LA57; arm64 has 52).
 */
#define UW_USER_END (1ULL << 56)
/* Nothing is mapped below: mmap_min_addr. */
#define UW_USER_MIN 4096ULL
/* Words above the stack pointer where code without rules and frame pointer may keep its return
 * address: leaves of hand-written assembly push few registers. */
#define UW_SCAN_WORDS 4

/* Of one walk. All of it is set by uw_begin but pc and reg, which are the leaf's. */
struct uw_state {
	__u64 pc;            /* of the frame: the instruction (exact) or the return address */
	__u64 reg[ABI_REGS]; /* value, or the address where it was saved (lazy) */
	__u32 lazy, lost;    /* bit by register: saved at that address; not known any more */
	__u32 used;          /* bit by register: its value at the leaf may have been asked for */
	__u32 exact; /* 1: pc is the instruction itself: leaf, or above a signal frame; 0 also in a
	              * system call, whose instruction ends before pc */
	__u32 leaf;  /* 1: no step has been made yet */
	__u32 guessed;   /* frames found without a rule */
	__u32 by_record; /* 1: the last step read a frame record, so that fp is a frame pointer */
	/* A wide step: the caller's registers while those of this frame are still needed. */
	__u64 cfa, ra;
	__u64 next[ABI_REGS];
	__u32 next_lazy, next_lost;
	/* An expression. */
	__u64 stack[ABI_EXPR_DEPTH];
	__u32 depth, ip;
};

/* Starts a walk at the leaf, whose pc and registers stand in @u. */
UW_INLINE void uw_begin(struct uw_state *u)
{
	u->lazy = u->lost = u->used = 0;
	u->exact = u->leaf = 1;
	u->guessed = 0;
	u->by_record = 0;
}

/* Where pc is looked up: a return address belongs to the call before it, which may end a function.
 */
UW_INLINE __u64 uw_lookup_pc(const struct uw_state *u)
{
	return u->exact ? u->pc : u->pc - 1;
}

/* The value of a register: 0, or ABI_WALK_*. */
UW_INLINE int uw_value(struct uw_state *u, UW_MEM *mem, __u32 r, __u64 *ret)
{
	__u64 v;

	r &= ABI_REGS - 1;
	if ((u->lazy | u->lost) & (1u << r)) {
		if (u->lost & (1u << r))
			return ABI_WALK_BAD_RULE;
		if (UW_READ(mem, &v, u->reg[r]))
			return ABI_WALK_FAULT;
		u->reg[r] = v;
		u->lazy &= ~(1u << r);
	} else {
		u->used |= 1u << r;
	}
	*ret = u->reg[r];
	return 0;
}

UW_INLINE void uw_saved_at(struct uw_state *u, __u32 r, __u64 addr)
{
	u->reg[r & (ABI_REGS - 1)] = addr;
	u->lazy |= 1u << (r & (ABI_REGS - 1));
	u->lost &= ~(1u << (r & (ABI_REGS - 1)));
}

UW_INLINE void uw_set(struct uw_state *u, __u32 r, __u64 value)
{
	u->reg[r & (ABI_REGS - 1)] = value;
	u->lazy &= ~(1u << (r & (ABI_REGS - 1)));
	u->lost &= ~(1u << (r & (ABI_REGS - 1)));
}

/* A return address as it is executed: pointer authentication of arm64 signs the bits above a
 * virtual address of 48 bits. */
UW_INLINE __u64 uw_unsigned(__u64 ra)
{
#ifdef ABI_ARM64
	ra &= (1ULL << 48) - 1;
#endif
	return ra;
}

/* Goes over to the caller: 0, or ABI_WALK_* with the frame unchanged. */
UW_INLINE int uw_finish(struct uw_state *u, __u64 cfa, __u64 ra, __u32 signal)
{
	ra = uw_unsigned(ra);
	if (ra == 0)
		return ABI_WALK_ROOT;
	if (ra < UW_USER_MIN || ra >= UW_USER_END)
		return ABI_WALK_BAD_PC;
	if (cfa < UW_USER_MIN || cfa >= UW_USER_END || (ra == u->pc && cfa == u->reg[ABI_REG_SP]))
		return ABI_WALK_IMPLAUSIBLE;
	u->pc = ra;
	u->exact = signal != 0;
	u->leaf = 0;
	u->by_record = 0;
	uw_set(u, ABI_REG_SP, cfa);
#ifdef ABI_ARM64
	if (!signal)
		uw_set(u, ABI_REG_LR, ra);
#endif
	return 0;
}

/* ---- frame pointer --------------------------------------------------------------------------- */

/* [fp] holds the caller's fp and [fp + 8] the return address (x86-64 ABI; AAPCS64 frame records
 * have the same shape). */
UW_INLINE int uw_step_fp(struct uw_state *u, UW_MEM *mem)
{
	__u64 fp, next_fp, ra;
	int r = uw_value(u, mem, ABI_REG_FP, &fp);

	if (r)
		return r;
	if (fp == 0)
		return ABI_WALK_ROOT;
	/* The record lies at or above the stack pointer and is aligned: else rbp is no frame
	 * pointer here. */
	if ((fp & 7) || fp < u->reg[ABI_REG_SP] || fp >= UW_USER_END)
		return ABI_WALK_IMPLAUSIBLE;
	if (UW_READ(mem, &next_fp, fp) || UW_READ(mem, &ra, fp + 8))
		return ABI_WALK_FAULT;
	r = uw_finish(u, fp + 16, ra, 0);
	if (r)
		return r;
	uw_set(u, ABI_REG_FP, next_fp);
	u->by_record = 1;
	return 0;
}

/* ---- expressions ----------------------------------------------------------------------------- */

#ifndef UW_SPLIT
#define UW_DO_OP(u, mem)             uw_expr_op(u, mem)
#define UW_DO_EXPR(u, mem, i)        uw_expr(u, mem, i)
#define UW_DO_COLUMN(u, mem, i, col) uw_wide_column(u, mem, i, col)
#define UW_DO_WIDE(u, mem, i)        uw_step_wide(u, mem, i)
#define UW_DO_FRAME(u, mem, id)      uw_step_frame(u, mem, id)
#endif

#define UW_TOP(u, n) ((u)->stack[((u)->depth - 1 - (n)) & (ABI_EXPR_DEPTH - 1)])

/* One operation, the one at u->ip: 0, 1 at the end, -ABI_WALK_*: FAULT, or BAD_RULE where it cannot
 * be done. */
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
		/* The top goes to the third place. */
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

/* Runs ops[@i …] on what is on the stack already: 0 with the result on top, or ABI_WALK_*. */
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

/* ---- wide rules ------------------------------------------------------------------------------ */

/* The caller's value of column @col (a register, or ABI_COL_RA) into next[] or ra: 0 or ABI_WALK_*.
 * A register that cannot be had is lost, which ends the walk only if a later rule asks for it. */
UW_INLINE int uw_wide_column(struct uw_state *u, UW_MEM *mem, __u32 i, __u32 col)
{
	const struct abi_wide *w = UW_WIDE(mem, i);
	__u32 kind, reg, bit, in_memory = 0;
	__u64 v = 0;
	__s32 val;
	int r = 0;

	if (!w || col > ABI_COL_RA)
		return ABI_WALK_BAD_RULE;
	kind = w->kind[col];
	val = w->val[col];
	reg = (__u32)val & (ABI_REGS - 1);
	switch (kind) {
	case ABI_COL_SAME:
		if (col == ABI_COL_RA)
			return ABI_WALK_ROOT;
		return 0;
	case ABI_COL_AT_CFA:
		v = u->cfa + (__u64)(__s64)val;
		in_memory = 1;
		break;
	case ABI_COL_CFA:
		v = u->cfa + (__u64)(__s64)val;
		break;
	case ABI_COL_REG:
#ifdef ABI_ARM64
		/* As in the other forms: only a leaf has its return address there. */
		if (col == ABI_COL_RA && reg == ABI_REG_LR && !u->exact) {
			r = ABI_WALK_BAD_RULE;
			break;
		}
#endif
		r = uw_value(u, mem, reg, &v);
		break;
	case ABI_COL_AT_REG:
		r = uw_value(u, mem, reg, &v);
		v += (__u64)(__s64)(val >> 8);
		in_memory = 1;
		break;
	case ABI_COL_AT_EXPR:
	case ABI_COL_EXPR:
		u->stack[0] = u->cfa;
		u->depth = 1;
		r = UW_DO_EXPR(u, mem, (__u32)val);
		v = UW_TOP(u, 0);
		in_memory = kind == ABI_COL_AT_EXPR;
		break;
	default:
		r = ABI_WALK_BAD_RULE;
		break;
	}
	if (col == ABI_COL_RA) {
		if (kind == ABI_COL_UNDEF)
			return ABI_WALK_ROOT;
		if (r == 0 && in_memory && UW_READ(mem, &v, v))
			return ABI_WALK_FAULT;
		u->ra = v;
		return r;
	}
	col &= ABI_REGS - 1; /* verifier: true already */
	bit = 1u << col;
	u->next[col] = v;
	if (r) {
		u->next_lost |= bit;
		u->next_lazy &= ~bit;
	} else {
		u->next_lost &= ~bit;
		u->next_lazy = in_memory ? u->next_lazy | bit : u->next_lazy & ~bit;
	}
	return 0;
}

UW_INLINE int uw_step_wide(struct uw_state *u, UW_MEM *mem, __u32 i)
{
	const struct abi_wide *w = UW_WIDE(mem, i);
	__u64 cfa = 0;
	__u32 signal, col;
	int r = 0;

	if (!w)
		return ABI_WALK_BAD_RULE;
	signal = w->flags & ABI_RULE_SIGNAL;
	if (w->cfa_kind == ABI_CFA_EXPR) {
		u->depth = 0;
		r = UW_DO_EXPR(u, mem, (__u32)w->cfa_off);
		cfa = UW_TOP(u, 0);
	} else {
		r = uw_value(u, mem, w->cfa_reg, &cfa);
		cfa += (__u64)(__s64)w->cfa_off;
		if (r == 0 && w->cfa_kind == ABI_CFA_DEREF) {
			if (UW_READ(mem, &cfa, cfa))
				r = ABI_WALK_FAULT;
			cfa += (__u64)(__s64)w->cfa_off2;
		} else if (w->cfa_kind == ABI_CFA_PLT) {
			if ((__s32)(u->pc & 15) >= w->cfa_off2)
				cfa += 8;
		}
	}
	if (r)
		return r;
	u->cfa = cfa;
	for (col = 0; col < ABI_REGS; col++)
		u->next[col] = u->reg[col];
	u->next_lazy = u->lazy;
	u->next_lost = u->lost;
	r = UW_DO_COLUMN(u, mem, i, ABI_COL_RA);
	if (r)
		return r;
	for (col = 0; col < ABI_REGS; col++) {
		/* sp is the CFA unless a rule says otherwise. */
		r = UW_DO_COLUMN(u, mem, i, col);
		if (r)
			return r;
	}
	/* A register that was read meanwhile still has its old address in next[], which is as good.
	 */
	w = UW_WIDE(mem, i);
	if (!w)
		return ABI_WALK_BAD_RULE;
	if (w->kind[ABI_REG_SP] != ABI_COL_SAME) {
		if (u->next_lost & (1u << ABI_REG_SP))
			return ABI_WALK_BAD_RULE;
		cfa = u->next[ABI_REG_SP];
		if (u->next_lazy & (1u << ABI_REG_SP) && UW_READ(mem, &cfa, cfa))
			return ABI_WALK_FAULT;
	}
	r = uw_finish(u, cfa, u->ra, signal);
	if (r)
		return r;
	for (col = 0; col < ABI_REGS; col++)
		if (col != ABI_REG_SP)
			u->reg[col] = u->next[col];
	u->lazy = u->next_lazy & ~(1u << ABI_REG_SP);
	u->lost = u->next_lost & ~(1u << ABI_REG_SP);
#ifdef ABI_ARM64
	if (!signal)
		uw_set(u, ABI_REG_LR, u->pc);
#endif
	return 0;
}

/* ---- rules ----------------------------------------------------------------------------------- */

#ifdef ABI_ARM64
#define UW_SAVE_REG(i) (19u + (i))
#else
/* rbx, rbp, r12 … r15 */
#define UW_SAVE_REG(i) ((i) == 0 ? 3u : (i) == 1 ? 6u : 10u + (i))
#endif

UW_INLINE int uw_step_inline(struct uw_state *u, UW_MEM *mem, __u32 code)
{
	__u64 cfa, ra;
	int r = uw_value(u, mem, code & ABI_IN_FP ? ABI_REG_FP : ABI_REG_SP, &cfa);

	if (r)
		return r;
#ifdef ABI_ARM64
	{
		__u64 n = (__u64)(code & ABI_IN_A64_OFF_MASK) * ABI_IN_A64_OFF_FACTOR;
		__u32 k = (code >> ABI_IN_A64_K_SHIFT) & 15, i;

		cfa += n;
		if (!(code & ABI_IN_A64_SAVED)) {
			/* Only a leaf, or what was interrupted, has its return address there. */
			if (!u->exact)
				return ABI_WALK_BAD_RULE;
			r = uw_value(u, mem, ABI_REG_LR, &ra);
			return r ? r : uw_finish(u, cfa, ra, 0);
		}
		if (UW_READ(mem, &ra, cfa - n + 8))
			return ABI_WALK_FAULT;
		r = uw_finish(u, cfa, ra, 0);
		if (r)
			return r;
		uw_saved_at(u, ABI_REG_FP, cfa - n);
		for (i = 0; i < 10; i++)
			if (i < k)
				uw_saved_at(u, 19 + i, cfa - n + 16 + 8 * (__u64)i);
		return 0;
	}
#else
	cfa += (__u64)(code & ABI_IN_OFF_MASK) * ABI_IN_OFF_FACTOR;
	if (UW_READ(mem, &ra, cfa - 8))
		return ABI_WALK_FAULT;
	r = uw_finish(u, cfa, ra, 0);
	if (r)
		return r;
	cfa -= 16;
#define UW_POPPED(flag, reg)                                                                       \
	if (code & (flag)) {                                                                       \
		uw_saved_at(u, reg, cfa);                                                          \
		cfa -= 8;                                                                          \
	}
	if ((code & (ABI_IN_RBP_FIRST | ABI_IN_RBP)) == (ABI_IN_RBP_FIRST | ABI_IN_RBP)) {
		UW_POPPED(ABI_IN_RBP, 6)
		code &= ~ABI_IN_RBP;
	}
	UW_POPPED(ABI_IN_R15, 15)
	UW_POPPED(ABI_IN_R14, 14)
	UW_POPPED(ABI_IN_R13, 13)
	UW_POPPED(ABI_IN_R12, 12)
	UW_POPPED(ABI_IN_RBP, 6)
	UW_POPPED(ABI_IN_RBX, 3)
#undef UW_POPPED
	return 0;
#endif
}

/* An interned rule that needs no wide form. */
UW_INLINE int uw_step_frame(struct uw_state *u, UW_MEM *mem, __u32 id)
{
	const struct abi_rule *rule = UW_RULE(mem, id);
	__u64 cfa, ra;
	__u32 i;
	int r;

	if (!rule)
		return ABI_WALK_BAD_RULE;
	r = uw_value(u, mem, rule->cfa_reg, &cfa);
	if (r)
		return r;
	cfa += (__u64)(__s64)rule->cfa_off;
	if (rule->flags & ABI_RULE_DEREF) {
		if (UW_READ(mem, &cfa, cfa))
			return ABI_WALK_FAULT;
		cfa += (__u64)(__s64)rule->cfa_off2;
	}
	if (rule->flags & ABI_RULE_RA_REG) {
#ifdef ABI_ARM64
		if (!u->exact && rule->ra_off == ABI_REG_LR)
			return ABI_WALK_BAD_RULE;
#endif
		r = uw_value(u, mem, (__u32)rule->ra_off, &ra);
		if (r)
			return r;
	} else if (UW_READ(mem, &ra, cfa + (__u64)(__s64)rule->ra_off)) {
		return ABI_WALK_FAULT;
	}
	r = uw_finish(u, cfa, ra, rule->flags & ABI_RULE_SIGNAL);
	if (r)
		return r;
	for (i = 0; i < ABI_SAVES; i++)
		if (rule->save[i])
			uw_saved_at(u, UW_SAVE_REG(i), cfa + 8 * (__u64)(__s64)rule->save[i]);
	return 0;
}

UW_INLINE int uw_step_rule(struct uw_state *u, UW_MEM *mem, __u32 id)
{
	const struct abi_rule *rule = UW_RULE(mem, id);

	(void)u, (void)mem; /* a split function finds them by itself */
	if (!rule)
		return ABI_WALK_BAD_RULE;
	switch (rule->kind) {
	case ABI_RULE_FRAME:
		return UW_DO_FRAME(u, mem, id);
	case ABI_RULE_WIDE:
		return UW_DO_WIDE(u, mem, (__u32)rule->cfa_off);
	case ABI_RULE_ROOT:
		return ABI_WALK_ROOT;
	default:
		return ABI_WALK_BAD_RULE;
	}
}

/**
 * uw_step - the caller's frame by a code
 * @code: of uw_lookup_pc; not NONE, BAD or GUESS, for which there is uw_step_guess
 * Returns: 0 (*u is the caller's frame), or ABI_WALK_* (ROOT: this was the last frame).
 */
UW_INLINE int uw_step(struct uw_state *u, UW_MEM *mem, __u32 code)
{
	if (code & ABI_CODE_INLINE)
		return uw_step_inline(u, mem, code);
	if (code == ABI_CODE_ROOT)
		return ABI_WALK_ROOT;
	return uw_step_rule(u, mem, code);
}

/* ---- without a rule -------------------------------------------------------------------------- */

#ifdef ABI_ARM64
/* mov x8, #139; svc 0 */
#define UW_SIGRETURN     0xd4000001d2801168ULL
#define UW_SIGRETURN_LEN 8
/* mov x8, #93 */
#define UW_IS_END(insn)      (((insn)&0xffffffff) == 0xd2800ba8)
#define UW_POPS(insn, exact) 0
#else
/* mov $15, %rax; syscall: the first 8 of its 9 bytes */
#define UW_SIGRETURN     0x0f0000000fc0c748ULL
#define UW_SIGRETURN_LEN 9
/* mov %rax, %rdi; mov $60, %eax (glibc) · mov %eax, %edi; mov $60, %eax; … ·
 * mov %eax, %edi; xor %eax, %eax; mov $60, %al; syscall (musl) ·
 * mov %rbx, %rsp; mov (%rsp), %rdi; … (glibc, where makecontext's function returns to) */
#define UW_IS_END(insn)                                                                            \
	((insn) == 0x0000003cb8c78948ULL ||                                                        \
	 ((insn)&0x00ffffffffffffffULL) == 0x0000003cb8c789ULL ||                                  \
	 (insn) == 0x050f3cb0c031c789ULL || ((insn)&0x00ffffffffffffffULL) == 0x243c8b48dc8948ULL)
/* add $n, %rsp; ret, with n of 8 to 120: n + 8; else 0 */
#define UW_POPS_BEHIND(insn)                                                                       \
	(((insn)&0xff87ffffffULL) == 0xc300c48348ULL && ((insn)&0x78000000ULL)                     \
	         ? ((__u32)((insn) >> 24) & 0x78) + 8                                              \
	         : 0)
/* How far above the stack pointer the caller's frame is at: ret · call *%rcx, and what is above ·
 * sub $n, %rsp; call *%rcx */
#define UW_POPS_AT(insn)                                                                           \
	(((insn)&0xff) == 0xc3 || ((insn)&0xffff87ffffffULL) == 0xd1ff00ec8348ULL ? 8              \
	 : ((insn)&0xffff) == 0xd1ff ? UW_POPS_BEHIND((insn) >> 16)                                \
	                             : 0)
#define UW_POPS(insn, exact)                                                                       \
	(UW_POPS_BEHIND(insn) ? UW_POPS_BEHIND(insn) : (exact) ? UW_POPS_AT(insn) : 0)
#endif

enum uw_special {
	UW_ORDINARY = 0,
	UW_TRAMPOLINE = 1, /* a signal's return, before or inside its system call */
	UW_THREAD_END = 2, /* straight into exit, as below the first frame of a thread, or where a
	                    * coroutine ends: C libraries leave that code without rules, or without
	                    * one before its first byte; what returns there has no caller */
	UW_UNREAD = 3,     /* taken for ordinary, but another process may know better */
	UW_FRAME_POPS = 4, /* it pops its frame and returns, or is about to call and then does: it
	                    * has saved no register. CPython's perf trampolines; any return */
};

/* What code without a rule says about itself. */
UW_INLINE enum uw_special uw_special(const struct uw_state *u, UW_MEM *mem)
{
	__u64 insn;

	(void)mem; /* the hook may not need it */
	if (UW_READ_CODE(mem, &insn, u->pc))
		return UW_UNREAD;
	if (insn == UW_SIGRETURN)
		return UW_TRAMPOLINE;
	if (!u->exact && UW_IS_END(insn))
		return UW_THREAD_END;
	if (UW_POPS(insn, u->exact))
		return UW_FRAME_POPS;
	if (!u->leaf || u->exact)
		return UW_ORDINARY;
	if (UW_READ_CODE(mem, &insn, u->pc - UW_SIGRETURN_LEN))
		return UW_UNREAD;
	return insn == UW_SIGRETURN ? UW_TRAMPOLINE : UW_ORDINARY;
}

/* At a signal's return trampoline the stack pointer is at the kernel's frame, whose shape is part
 * of its interface: arch/x86/include/uapi/asm/sigcontext.h,
 * arch/arm64/include/uapi/asm/sigcontext.h. */
UW_INLINE int uw_step_sigframe(struct uw_state *u, UW_MEM *mem)
{
	__u64 sp = u->reg[ABI_REG_SP], cfa, ra;
	int r;
#ifdef ABI_ARM64
	/* siginfo 128; ucontext: flags, link, stack 40, mask 128, padding 8; fault address 8 */
	__u64 regs = sp + 128 + 176 + 8;
	__u32 i;

	if (UW_READ(mem, &cfa, regs + 31 * 8) || UW_READ(mem, &ra, regs + 32 * 8))
		return ABI_WALK_FAULT;
	r = uw_finish(u, cfa, ra, 1);
	if (r)
		return r;
	for (i = 0; i < 31; i++)
		uw_saved_at(u, i, regs + 8 * (__u64)i);
#else
	/* ucontext: flags, link, stack; then r8 … r15, rdi, rsi, rbp, rbx, rdx, rax, rcx, rsp, rip
	 */
	__u64 regs = sp + 40;
	__u32 i;

	if (UW_READ(mem, &cfa, regs + 15 * 8) || UW_READ(mem, &ra, regs + 16 * 8))
		return ABI_WALK_FAULT;
	r = uw_finish(u, cfa, ra, 1);
	if (r)
		return r;
	for (i = 0; i < 8; i++)
		uw_saved_at(u, 8 + i, regs + 8 * (__u64)i);
	uw_saved_at(u, 5, regs + 8 * 8);
	uw_saved_at(u, 4, regs + 9 * 8);
	uw_saved_at(u, 6, regs + 10 * 8);
	uw_saved_at(u, 3, regs + 11 * 8);
	uw_saved_at(u, 1, regs + 12 * 8);
	uw_saved_at(u, 0, regs + 13 * 8);
	uw_saved_at(u, 2, regs + 14 * 8);
#endif
	return 0;
}

/* By the frame pointer, if a return address stands beside it. */
UW_INLINE int uw_guess_fp(struct uw_state *u, UW_MEM *mem)
{
	__u64 fp, ra;
	int r = uw_value(u, mem, ABI_REG_FP, &fp);

	if (r)
		return r;
	if (fp && !(fp & 7) && fp >= u->reg[ABI_REG_SP] && fp < UW_USER_END) {
		if (UW_READ(mem, &ra, fp + 8))
			return ABI_WALK_FAULT;
		if (ra && !UW_IS_CODE(mem, uw_unsigned(ra), 1))
			return ABI_WALK_IMPLAUSIBLE;
	}
	return uw_step_fp(u, mem);
}

/* By the first of the words @from … @to - 1 above the stack pointer that can be a return address.
 */
UW_INLINE int uw_guess_scan(struct uw_state *u, UW_MEM *mem, __u32 from, __u32 to)
{
	__u64 sp = u->reg[ABI_REG_SP], ra;
	__u32 i;

	for (i = from; i < to; i++) {
		if (UW_READ(mem, &ra, sp + 8 * (__u64)i))
			return ABI_WALK_FAULT;
		if (UW_IS_CODE(mem, uw_unsigned(ra), 0))
			return uw_finish(u, sp + 8 * (__u64)i + 8, ra, 0);
	}
	return ABI_WALK_IMPLAUSIBLE;
}

/* The caller's frame of code that pops its own and returns. */
UW_INLINE int uw_step_pops(struct uw_state *u, UW_MEM *mem)
{
	__u64 insn, cfa = u->reg[ABI_REG_SP], ra;

	if (UW_READ_CODE(mem, &insn, u->pc))
		return ABI_WALK_FAULT;
	cfa += UW_POPS(insn, u->exact);
	if (UW_READ(mem, &ra, cfa - 8))
		return ABI_WALK_FAULT;
	return uw_finish(u, cfa, ra, 0);
}

/**
 * uw_step_guess - the caller's frame of code without a rule
 * @special: what uw_special says, or ORDINARY where that is known
 * @code: ABI_CODE_NONE, ABI_CODE_BAD, or ABI_CODE_GUESS
 * @jit:  non-zero in code that was generated at run time: such code has frame pointers
 * In this order: a signal's trampoline, the end of a thread, and a frame that is popped behind the
 * call (no guesses: their code says it); a
 * leaf that has pushed nothing (PLT stubs, small assembly), whose return address is on top; the
 * frame pointer; the words above the stack pointer. u->guessed counts what a guess found, but for
 * frame pointers of JIT code.
 * Returns: 0, or ABI_WALK_*: UNCOVERED, BAD_RULE and JIT where nothing fits.
 */
UW_INLINE int uw_step_guess(struct uw_state *u, UW_MEM *mem, enum uw_special special, __u32 code,
                            __u32 jit)
{
	int r = ABI_WALK_IMPLAUSIBLE;

	switch (special) {
	case UW_TRAMPOLINE:
		return uw_step_sigframe(u, mem);
	case UW_THREAD_END:
		return ABI_WALK_ROOT;
	case UW_FRAME_POPS:
		return uw_step_pops(u, mem);
	case UW_ORDINARY:
	case UW_UNREAD:
		break;
	}
#ifdef ABI_ARM64
	if (u->exact && !jit) {
		/* A leaf's return address is in lr, if that is one. */
		__u64 lr;

		r = uw_value(u, mem, ABI_REG_LR, &lr);
		if (r == 0)
			r = UW_IS_CODE(mem, uw_unsigned(lr), 1)
			            ? uw_finish(u, u->reg[ABI_REG_SP], lr, 0)
			            : ABI_WALK_IMPLAUSIBLE;
	}
#else
	if (u->exact && !jit)
		r = uw_guess_scan(u, mem, 0, 1);
#endif
	if (r)
		r = uw_guess_fp(u, mem);
	/* A zero ends a chain of frame records. In a register it may be anything: programs without
	 * frame pointers keep the one of their start for long. */
	if (r == ABI_WALK_ROOT && !u->by_record)
		r = ABI_WALK_IMPLAUSIBLE;
	if (!jit && r != 0 && r != ABI_WALK_ROOT)
		r = uw_guess_scan(u, mem, 0, UW_SCAN_WORDS);
	if (r == 0 || r == ABI_WALK_ROOT) {
		u->guessed += !jit;
		return r;
	}
	return jit ? ABI_WALK_JIT : code == ABI_CODE_BAD ? ABI_WALK_BAD_RULE : ABI_WALK_UNCOVERED;
}

/**
 * uw_after_call - could the instruction that ends before a return address be a call?
 * @code: the 8 bytes before the return address, as a little-endian number (last byte highest)
 * A guess that costs one read, for return addresses that lie in no known mapping: heap and stack
 * pointers that merely look like code fail it.
 */
UW_INLINE int uw_after_call(__u64 code)
{
#ifdef ABI_ARM64
	__u32 insn = (__u32)(code >> 32);

	/* bl imm26 · blr xn · blraa/blrab families */
	return (insn & 0xfc000000) == 0x94000000 || (insn & 0xfffffc1f) == 0xd63f0000 ||
	       (insn & 0xfefff800) == 0xd63f0800;
#else
	/* call rel32: e8 + 4 bytes */
	if (((code >> 24) & 0xff) == 0xe8)
		return 1;
/* call r/m64: ff /2, with 0, 1 or 4 bytes of displacement and an optional SIB byte */
#define UW_FF2(shift)                                                                              \
	((((code >> (shift)) & 0xff) == 0xff) && (((code >> ((shift) + 8)) & 0x38) == 0x10))
	return UW_FF2(48) || UW_FF2(40) || UW_FF2(32) || UW_FF2(16) || UW_FF2(8);
#undef UW_FF2
#endif
}

/*
 * Hash of a stack, folded frame by frame, keyed by a number that targets do not know. Two
 * multiplications, the second by the key: a difference in the highest bits passes the first one
 * unchanged, and would cancel against one in the next frame whatever the starting value is. 64
 * bits: two different stacks among a million collide once in 37 million captures.
 */
UW_INLINE __u64 uw_hash_mix(__u64 h, __u64 v, __u64 key)
{
	h = (h ^ v) * 0x9e3779b97f4a7c15ULL;
	h = (h ^ (h >> 32)) * (key | 1);
	return h ^ (h >> 29);
}

/* Closes the hash over the number of frames, the outcome and the flags; never 0. */
UW_INLINE __u64 uw_hash_finish(__u64 h, __u32 n, __u32 walk, __u32 flags, __u64 key)
{
	h = uw_hash_mix(h, ((__u64)(walk << 8 | flags) << 32) | n, key);
	return h ? h : 1;
}

#endif
