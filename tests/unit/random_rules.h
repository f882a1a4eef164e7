/* SPDX-License-Identifier: Apache-2.0 */
/*
 * random-rules - random rules over a target that is made up
 */
#ifndef PA_TEST_RANDOM_RULES_H
#define PA_TEST_RANDOM_RULES_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <cmocka.h>
#include "unwind/unwind_priv.h"

/* ---- random rules ---------------------------------------------------------------------------- */

static uint64_t rnd_state = 88172645463325252ULL;
static inline uint64_t rnd(void)
{
	rnd_state ^= rnd_state << 13;
	rnd_state ^= rnd_state >> 7;
	rnd_state ^= rnd_state << 17;
	return rnd_state * 0x2545f4914f6cdd1dULL >> 8;
}
static inline uint32_t below(uint32_t n)
{
	return (uint32_t)(rnd() % n);
}
static int32_t exprs[8];
static inline void make_exprs(struct uw_rules *r)
{
	for (size_t i = 0; i < ARRAY_SIZE(exprs); i++) {
		struct abi_op ops[8];
		size_t n = 0;

		memset(ops, 0, sizeof(ops));
		ops[n++] = (struct abi_op){
		        .op = ABI_OP_REG, .reg = (uint8_t)below(ABI_REGS), .arg = (int32_t)i};
		if (i & 1)
			ops[n++] = (struct abi_op){.op = ABI_OP_DEREF};
		if (i & 2) {
			ops[n++] = (struct abi_op){.op = ABI_OP_CONST, .arg = 8};
			ops[n++] = (struct abi_op){.op = ABI_OP_PLUS};
		}
		ops[n++] = (struct abi_op){.op = ABI_OP_END};
		assert_int_equal(uw_rules_ops(r, NULL, ops, n, &exprs[i]), 0);
	}
}
static inline struct uw_col at_cfa(int32_t off)
{
	return (struct uw_col){.kind = ABI_COL_AT_CFA, .val = off};
}

/* In the shape of compilers: callee-saved registers below the CFA. */
static inline void random_common(struct uw_rule *r)
{
#ifdef ABI_ARM64
	int32_t n = 16 * (int32_t)below(270);

	r->cfa_reg = below(2) ? ABI_REG_SP : ABI_REG_FP;
	r->cfa_off = n;
	if (below(4) == 0) {
		r->col[ABI_COL_RA] = (struct uw_col){.kind = ABI_COL_REG, .val = ABI_REG_LR};
	} else {
		r->col[ABI_REG_FP] = at_cfa(-n);
		r->col[ABI_COL_RA] = at_cfa(8 - n);
		for (uint32_t i = 0, k = below(12); i < k; i++)
			r->col[19 + i] = (struct uw_col){.kind = i < 11 && 19 + i != ABI_REG_FP
			                                                 ? ABI_COL_AT_CFA
			                                                 : ABI_COL_SAME};
		for (uint32_t i = 0; i < 10; i++)
			if (r->col[19 + i].kind)
				r->col[19 + i].val = 16 + 8 * (int32_t)i - n;
		r->col[ABI_REG_FP] = at_cfa(-n);
	}
#else
	static const uint8_t order[2][6] = {{15, 14, 13, 12, 6, 3}, {6, 15, 14, 13, 12, 3}};
	const uint8_t *o = order[below(2)];
	int32_t at = -16;

	r->cfa_reg = below(2) ? ABI_REG_SP : ABI_REG_FP;
	r->cfa_off = 8 * (int32_t)below(140);
	r->col[ABI_COL_RA] = at_cfa(-8);
	for (size_t i = 0; i < 6; i++) {
		if (below(2)) {
			r->col[o[i]] = at_cfa(at);
			at -= 8;
		}
	}
#endif
	/* One thing that does not fit, now and then. */
	switch (below(12)) {
	case 0:
		r->signal = true;
		break;
	case 1:
		r->cfa_off += (int32_t)below(8);
		break;
	case 2:
		r->cfa_reg = (uint8_t)below(ABI_REGS);
		break;
	case 3:
		r->col[ABI_COL_RA] = at_cfa(-8 * (int32_t)below(4));
		break;
	case 4:
		r->col[12] = at_cfa(-8 * (int32_t)below(40000));
		break;
	case 5:
		r->cfa_off = -r->cfa_off;
		break;
	default:
		break;
	}
}

static inline struct uw_col random_col(uint32_t col)
{
	static const int32_t offs[] = {0, 8, -8, 16, -16, 4, -24, -262144, 262136, 262144, -262152};
	struct uw_col c = {.kind = (uint8_t)(1 + below(7))};

	switch (c.kind) {
	case ABI_COL_AT_CFA:
	case ABI_COL_CFA:
		c.val = offs[below(ARRAY_SIZE(offs))];
		if (c.kind == ABI_COL_CFA && col == ABI_REG_SP && c.val == 0)
			c.val = 8;
		break;
	case ABI_COL_REG:
		c.val = (int32_t)((col + 1 + below(ABI_REGS - 1)) % ABI_REGS);
		break;
	case ABI_COL_AT_REG:
		c.val = (int32_t)(below(ABI_REGS) | below(64) << 8);
		if (below(2))
			c.val -= 64 << 8;
		break;
	case ABI_COL_AT_EXPR:
	case ABI_COL_EXPR:
		c.val = exprs[below(ARRAY_SIZE(exprs))];
		break;
	default:
		break;
	}
	return c;
}

/* Canonical: what its kinds do not use is 0. */
static inline struct uw_rule random_rule(void)
{
	struct uw_rule r;

	memset(&r, 0, sizeof(r));
	r.kind = ABI_RULE_FRAME;
	if (below(2)) {
		random_common(&r);
	} else {
		r.cfa_kind = (uint8_t)below(4);
		r.cfa_reg = r.cfa_kind == ABI_CFA_EXPR ? 0 : (uint8_t)below(ABI_REGS);
		r.cfa_off = r.cfa_kind == ABI_CFA_EXPR ? exprs[below(ARRAY_SIZE(exprs))]
		                                       : (int32_t)below(400) - 40;
		r.signal = below(4) == 0;
		if (r.cfa_kind == ABI_CFA_DEREF || r.cfa_kind == ABI_CFA_PLT)
			r.cfa_off2 = (int32_t)below(32) - 8;
		for (uint32_t i = 0; i < ABI_REGS; i++)
			if (below(6) == 0)
				r.col[i] = below(2) ? random_col(i) : at_cfa(8 * (int32_t)below(9));
		do {
			r.col[ABI_COL_RA] = below(2) ? at_cfa(-8) : random_col(ABI_COL_RA);
		} while (r.col[ABI_COL_RA].kind == ABI_COL_UNDEF);
	}
#ifdef ABI_ARM64
	if (!r.signal)
		r.col[ABI_REG_LR] = (struct uw_col){0};
#endif
	return r;
}

static inline void fail_rule(const char *what, const struct uw_rules *rules,
                             const struct uw_rule *a, const struct uw_rule *b)
{
	struct sbuf s;

	sbuf_init(&s, 4096);
	(void)uw_rule_print(rules, a, &s);
	(void)sbuf_str(&s, " | ");
	if (b)
		(void)uw_rule_print(rules, b, &s);
	fail_msg("%s: %s", what, s.p);
}

#endif
