/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/*
 * step, by a rule: wide rules, inline codes and interned rules. uw_step chooses by the code.
 */
#ifndef PA_STEP_RULE_H
#define PA_STEP_RULE_H

#include "step/step_expr.h"

/* ---- wide rules ------------------------------------------------------------------------------ */

/* Puts the caller's value of column @col (a register, or ABI_COL_RA) into next[] or ra: 0 or
 * ABI_WALK_*. A register without a value is lost; that ends the walk only if a later rule needs
 * it. */
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
		/* As in the other forms: only a leaf has its return address in lr. */
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
	/* A register that was read meanwhile still has its address in next[], which is
	 * equivalent. */
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
			/* Only a leaf, or an interrupted function, has its return address there. */
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

	(void)u, (void)mem; /* a split function looks them up by itself */
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
 * @code: answer of uw_lookup_pc; not NONE, BAD or HEURISTIC, see uw_step_heuristic
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

#endif
