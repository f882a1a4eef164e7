/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The forms of a rule: canonical, inline code, abi_rule, abi_wide, and back. No tables, no state.
 */
#include "unwind/unwind_priv.h"

/* ABI_COL_AT_REG: register in the low 8 bits, offset above. */
#define AT_REG_MASK 255

/* Slots of abi_rule.save, as UW_SAVE_REG of step.h. */
static const uint8_t save_regs[ABI_SAVES] = {
#ifdef ABI_ARM64
        19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30,
#else
        3, 6, 12, 13, 14, 15,
#endif
};

/* ---- canonical form -------------------------------------------------------------------------- */

static struct uw_col canonical_col(const struct uw_col *c, uint32_t col, uint32_t n_ops)
{
	const struct uw_col lost = {.kind = ABI_COL_UNDEF};
	int32_t reg = c->val;

	switch ((enum abi_col_kind)c->kind) {
	case ABI_COL_SAME:
	case ABI_COL_UNDEF:
		return (struct uw_col){.kind = c->kind};
	case ABI_COL_AT_CFA:
		return *c;
	case ABI_COL_CFA:
		/* The default of the caller's stack pointer. */
		if (col == ABI_REG_SP && c->val == 0)
			return (struct uw_col){.kind = ABI_COL_SAME};
		return *c;
	case ABI_COL_REG:
		if (col < ABI_REGS && col != ABI_REG_SP && reg == (int32_t)col)
			return (struct uw_col){.kind = ABI_COL_SAME};
		return reg >= 0 && reg < ABI_REGS ? *c : lost;
	case ABI_COL_AT_REG:
		return (reg & AT_REG_MASK) < ABI_REGS ? *c : lost;
	case ABI_COL_AT_EXPR:
	case ABI_COL_EXPR:
		return c->val >= 0 && (uint32_t)c->val < n_ops ? *c : lost;
	}
	return lost;
}

void uw_rule_canonical(const struct uw_rule *in, uint32_t n_ops, struct uw_rule *ret)
{
	const struct uw_col *ra = &in->col[ABI_COL_RA];
	struct uw_rule out;

	memset(&out, 0, sizeof(out)); /* padding too: some of it is compared as bytes */
	out.kind = in->kind;
	if (in->kind != ABI_RULE_FRAME) {
		if (in->kind != ABI_RULE_NONE && in->kind != ABI_RULE_ROOT)
			out.kind = ABI_RULE_BAD;
		*ret = out;
		return;
	}
	if (ra->kind == ABI_COL_SAME || ra->kind == ABI_COL_UNDEF) {
		out.kind = ABI_RULE_ROOT;
		*ret = out;
		return;
	}
	out.cfa_kind = in->cfa_kind;
	out.cfa_off = in->cfa_off;
	out.signal = in->signal;
	if (in->cfa_kind == ABI_CFA_EXPR) {
		if (in->cfa_off < 0 || (uint32_t)in->cfa_off >= n_ops)
			out.kind = ABI_RULE_BAD;
	} else {
		out.cfa_reg = in->cfa_reg;
		if (in->cfa_reg >= ABI_REGS || in->cfa_kind > ABI_CFA_PLT)
			out.kind = ABI_RULE_BAD;
		if (in->cfa_kind != ABI_CFA_REG)
			out.cfa_off2 = in->cfa_off2;
	}
	for (uint32_t i = 0; i <= ABI_COL_RA; i++)
		if (in->col[i].kind)
			out.col[i] = canonical_col(&in->col[i], i, n_ops);
#ifdef ABI_ARM64
	/* The step sets it to the return address. */
	if (!in->signal)
		out.col[ABI_REG_LR] = (struct uw_col){.kind = ABI_COL_SAME};
#endif
	if (out.col[ABI_COL_RA].kind == ABI_COL_UNDEF)
		out.kind = ABI_RULE_BAD; /* it was none that exists */
	if (out.kind == ABI_RULE_BAD) {
		memset(&out, 0, sizeof(out));
		out.kind = ABI_RULE_BAD;
	}
	*ret = out;
}

/* ---- the three forms ------------------------------------------------------------------------- */

#ifdef ABI_ARM64
bool uw_rule_inline(const struct uw_rule *c, uint16_t *ret)
{
	int32_t n = c->cfa_off;
	const struct uw_col *ra = &c->col[ABI_COL_RA];
	uint32_t code = ABI_CODE_INLINE, k = 0;

	if (c->cfa_kind != ABI_CFA_REG || c->signal || n < 0 || n % ABI_IN_A64_OFF_FACTOR ||
	    n / ABI_IN_A64_OFF_FACTOR > (int32_t)ABI_IN_A64_OFF_MASK)
		return false;
	if (c->cfa_reg == ABI_REG_FP)
		code |= ABI_IN_FP;
	else if (c->cfa_reg != ABI_REG_SP)
		return false;
	code |= (uint32_t)n / ABI_IN_A64_OFF_FACTOR;
	if (ra->kind == ABI_COL_AT_CFA) {
		if (ra->val != 8 - n || c->col[ABI_REG_FP].kind != ABI_COL_AT_CFA ||
		    c->col[ABI_REG_FP].val != -n)
			return false;
		while (k < 10 && c->col[19 + k].kind == ABI_COL_AT_CFA &&
		       c->col[19 + k].val == 16 + 8 * (int32_t)k - n)
			k++;
		code |= ABI_IN_A64_SAVED | k << ABI_IN_A64_K_SHIFT;
	} else if (ra->kind != ABI_COL_REG || ra->val != ABI_REG_LR) {
		return false;
	}
	for (uint32_t i = 0; i < ABI_REGS; i++) {
		bool said = code & ABI_IN_A64_SAVED && (i == ABI_REG_FP || (i >= 19 && i < 19 + k));

		if (!said && c->col[i].kind != ABI_COL_SAME)
			return false;
	}
	*ret = (uint16_t)code;
	return true;
}

void uw_rule_expand_inline(uint32_t code, struct uw_rule *ret)
{
	int32_t n = (int32_t)(code & ABI_IN_A64_OFF_MASK) * ABI_IN_A64_OFF_FACTOR;
	uint32_t k = MIN_OF(code >> ABI_IN_A64_K_SHIFT & 15, 10u);

	ret->kind = ABI_RULE_FRAME;
	ret->cfa_reg = code & ABI_IN_FP ? ABI_REG_FP : ABI_REG_SP;
	ret->cfa_off = n;
	if (!(code & ABI_IN_A64_SAVED)) {
		ret->col[ABI_COL_RA] = (struct uw_col){.kind = ABI_COL_REG, .val = ABI_REG_LR};
		return;
	}
	ret->col[ABI_COL_RA] = (struct uw_col){.kind = ABI_COL_AT_CFA, .val = 8 - n};
	ret->col[ABI_REG_FP] = (struct uw_col){.kind = ABI_COL_AT_CFA, .val = -n};
	for (uint32_t i = 0; i < k; i++)
		ret->col[19 + i] =
		        (struct uw_col){.kind = ABI_COL_AT_CFA, .val = 16 + 8 * (int32_t)i - n};
}
#else
/* Pushed registers, from CFA - 16 downwards. */
struct push {
	uint8_t reg;
	uint16_t bit;
};
static const struct push pushes[2][6] = {
        {{15, ABI_IN_R15},
         {14, ABI_IN_R14},
         {13, ABI_IN_R13},
         {12, ABI_IN_R12},
         {6, ABI_IN_RBP},
         {3, ABI_IN_RBX}},
        {{6, ABI_IN_RBP},
         {15, ABI_IN_R15},
         {14, ABI_IN_R14},
         {13, ABI_IN_R13},
         {12, ABI_IN_R12},
         {3, ABI_IN_RBX}},
};

/* The bits of the saved registers if they lie in this order: > 0, 0 if none is saved, or -1. */
static int inline_saves(const struct uw_rule *c, uint32_t saved, const struct push *order)
{
	int32_t at = -16;
	int bits = 0;

	for (size_t i = 0; i < 6; i++) {
		if (!(saved & 1u << order[i].reg))
			continue;
		if (c->col[order[i].reg].val != at)
			return -1;
		bits |= order[i].bit;
		at -= 8;
	}
	return bits;
}

bool uw_rule_inline(const struct uw_rule *c, uint16_t *ret)
{
	const uint32_t can = 1u << 3 | 1u << 6 | 0xfu << 12;
	uint32_t code = ABI_CODE_INLINE, saved = 0;
	int bits;

	if (c->cfa_kind != ABI_CFA_REG || c->signal || c->cfa_off < 0 ||
	    c->cfa_off % ABI_IN_OFF_FACTOR ||
	    c->cfa_off / ABI_IN_OFF_FACTOR > (int32_t)ABI_IN_OFF_MASK ||
	    c->col[ABI_COL_RA].kind != ABI_COL_AT_CFA || c->col[ABI_COL_RA].val != -8)
		return false;
	if (c->cfa_reg == ABI_REG_FP)
		code |= ABI_IN_FP;
	else if (c->cfa_reg != ABI_REG_SP)
		return false;
	code |= (uint32_t)c->cfa_off / ABI_IN_OFF_FACTOR;
	for (uint32_t i = 0; i < ABI_REGS; i++) {
		if (c->col[i].kind == ABI_COL_SAME)
			continue;
		if (c->col[i].kind != ABI_COL_AT_CFA || !(can & 1u << i))
			return false;
		saved |= 1u << i;
	}
	/* If both orders fit, the first: equal rules have equal codes. */
	bits = inline_saves(c, saved, pushes[0]);
	if (bits < 0) {
		bits = inline_saves(c, saved, pushes[1]);
		if (bits < 0)
			return false;
		code |= ABI_IN_RBP_FIRST;
	}
	*ret = (uint16_t)(code | (uint32_t)bits);
	return true;
}

void uw_rule_expand_inline(uint32_t code, struct uw_rule *ret)
{
	const struct push *order = pushes[code & ABI_IN_RBP_FIRST ? 1 : 0];
	int32_t at = -16;

	ret->kind = ABI_RULE_FRAME;
	ret->cfa_reg = code & ABI_IN_FP ? ABI_REG_FP : ABI_REG_SP;
	ret->cfa_off = (int32_t)(code & ABI_IN_OFF_MASK) * ABI_IN_OFF_FACTOR;
	ret->col[ABI_COL_RA] = (struct uw_col){.kind = ABI_COL_AT_CFA, .val = -8};
	for (size_t i = 0; i < 6; i++) {
		if (!(code & order[i].bit))
			continue;
		ret->col[order[i].reg] = (struct uw_col){.kind = ABI_COL_AT_CFA, .val = at};
		at -= 8;
	}
}
#endif

bool uw_rule_frame(const struct uw_rule *c, struct abi_rule *ret)
{
	const struct uw_col *ra = &c->col[ABI_COL_RA];
	struct abi_rule out;
	uint32_t slots = 0, cols = 0;

	memset(&out, 0, sizeof(out));
	out.kind = ABI_RULE_FRAME;
	out.cfa_reg = c->cfa_reg;
	out.cfa_off = c->cfa_off;
	if (c->cfa_kind == ABI_CFA_DEREF) {
		out.flags |= ABI_RULE_DEREF;
		out.cfa_off2 = c->cfa_off2;
	} else if (c->cfa_kind != ABI_CFA_REG) {
		return false;
	}
	if (ra->kind == ABI_COL_REG)
		out.flags |= ABI_RULE_RA_REG;
	else if (ra->kind != ABI_COL_AT_CFA)
		return false;
	out.ra_off = ra->val;
	if (c->signal)
		out.flags |= ABI_RULE_SIGNAL;
	for (uint32_t i = 0; i < ABI_SAVES; i++) {
		const struct uw_col *col = &c->col[save_regs[i]];

		if (col->kind == ABI_COL_SAME)
			continue;
		/* 0 means unchanged, so a register saved at the CFA itself does not fit. */
		if (col->kind != ABI_COL_AT_CFA || col->val % 8 || col->val == 0 ||
		    col->val / 8 < INT16_MIN || col->val / 8 > INT16_MAX)
			return false;
		out.save[i] = (int16_t)(col->val / 8);
		slots++;
	}
	for (uint32_t i = 0; i < ABI_REGS; i++)
		cols += c->col[i].kind != ABI_COL_SAME;
	if (cols != slots)
		return false; /* a register that has no slot */
	*ret = out;
	return true;
}

void uw_rule_expand_frame(const struct abi_rule *rule, struct uw_rule *ret)
{
	ret->kind = ABI_RULE_FRAME;
	ret->cfa_kind = rule->flags & ABI_RULE_DEREF ? ABI_CFA_DEREF : ABI_CFA_REG;
	ret->cfa_reg = rule->cfa_reg;
	ret->cfa_off = rule->cfa_off;
	ret->cfa_off2 = rule->cfa_off2;
	ret->signal = rule->flags & ABI_RULE_SIGNAL;
	ret->col[ABI_COL_RA] = (struct uw_col){
	        .kind = rule->flags & ABI_RULE_RA_REG ? ABI_COL_REG : ABI_COL_AT_CFA,
	        .val = rule->ra_off,
	};
	for (uint32_t i = 0; i < ABI_SAVES; i++)
		if (rule->save[i])
			ret->col[save_regs[i]] =
			        (struct uw_col){.kind = ABI_COL_AT_CFA, .val = 8 * rule->save[i]};
}

void uw_rule_wide(const struct uw_rule *c, struct abi_wide *ret)
{
	memset(ret, 0, sizeof(*ret));
	ret->cfa_kind = c->cfa_kind;
	ret->cfa_reg = c->cfa_reg;
	ret->flags = c->signal ? ABI_RULE_SIGNAL : 0;
	ret->cfa_off = c->cfa_off;
	ret->cfa_off2 = c->cfa_off2;
	for (uint32_t i = 0; i <= ABI_COL_RA; i++) {
		ret->kind[i] = c->col[i].kind;
		ret->val[i] = c->col[i].val;
	}
}

void uw_rule_expand_wide(const struct abi_wide *w, struct uw_rule *ret)
{
	ret->kind = ABI_RULE_FRAME;
	ret->cfa_kind = w->cfa_kind;
	ret->cfa_reg = w->cfa_reg;
	ret->cfa_off = w->cfa_off;
	ret->cfa_off2 = w->cfa_off2;
	ret->signal = w->flags & ABI_RULE_SIGNAL;
	for (uint32_t i = 0; i <= ABI_COL_RA; i++)
		ret->col[i] = (struct uw_col){.kind = w->kind[i], .val = w->val[i]};
}
