// SPDX-License-Identifier: Apache-2.0
/* Rules and their codes. Compiled for this machine, and for arm64 with ABI_TEST_ARM64. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <cmocka.h>

#include "unwind/unwind_priv.h"

/* ---- a pretended target ---------------------------------------------------------------------- */

#define STACK_BASE  0x7ffc00000000ULL
#define STACK_WORDS 1024
#define CODE_BASE   0x400000ULL
#define CODE_BYTES  0x10000ULL

struct fake {
	uint64_t words[STACK_WORDS];
	const struct uw_rules_mem *mem;
};

static int fake_read(const struct fake *f, __u64 *ret, uint64_t addr)
{
	if (addr < STACK_BASE || addr - STACK_BASE > sizeof(f->words) - 8)
		return -1;
	memcpy(ret, (const uint8_t *)f->words + (addr - STACK_BASE), 8);
	return 0;
}

#define UW_MEM                       const struct fake
#define UW_READ(mem, ret, addr)      fake_read(mem, ret, addr)
#define UW_READ_CODE(mem, ret, addr) ((void)(mem), (void)(ret), (void)(addr), -1)
#define UW_IS_CODE(mem, addr, sure)  ((void)(mem), (void)(sure), (addr)-CODE_BASE < CODE_BYTES)
#define UW_RULE(m, i)                ((i) < (m)->mem->n_rules ? &(m)->mem->rules[i] : NULL)
#define UW_WIDE(m, i)                ((i) < (m)->mem->n_wides ? &(m)->mem->wides[i] : NULL)
#define UW_OP(m, i)                  ((i) < (m)->mem->n_ops ? &(m)->mem->ops[i] : NULL)
#include "step/step.h"

/* ---- random rules ---------------------------------------------------------------------------- */

static uint64_t rnd_state = 88172645463325252ULL;

static uint64_t rnd(void)
{
	rnd_state ^= rnd_state << 13;
	rnd_state ^= rnd_state >> 7;
	rnd_state ^= rnd_state << 17;
	return rnd_state * 0x2545f4914f6cdd1dULL >> 8;
}

static uint32_t below(uint32_t n)
{
	return (uint32_t)(rnd() % n);
}

static int32_t exprs[8];

static void make_exprs(struct uw_rules *r)
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

static struct uw_col at_cfa(int32_t off)
{
	return (struct uw_col){.kind = ABI_COL_AT_CFA, .val = off};
}

/* In the shape of compilers: callee-saved registers below the CFA. */
static void random_common(struct uw_rule *r)
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

static struct uw_col random_col(uint32_t col)
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
static struct uw_rule random_rule(void)
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

static bool same_rule(const struct uw_rule *a, const struct uw_rule *b)
{
	if (a->kind != b->kind || a->cfa_kind != b->cfa_kind || a->cfa_reg != b->cfa_reg ||
	    a->signal != b->signal || a->cfa_off != b->cfa_off || a->cfa_off2 != b->cfa_off2)
		return false;
	for (size_t i = 0; i <= ABI_COL_RA; i++)
		if (a->col[i].kind != b->col[i].kind || a->col[i].val != b->col[i].val)
			return false;
	return true;
}

static void fail_rule(const char *what, const struct uw_rules *rules, const struct uw_rule *a,
                      const struct uw_rule *b)
{
	struct sbuf s;

	sbuf_init(&s, 4096);
	(void)uw_rule_print(rules, a, &s);
	(void)sbuf_str(&s, " | ");
	if (b)
		(void)uw_rule_print(rules, b, &s);
	fail_msg("%s: %s", what, s.p);
}

/* ---- codes ----------------------------------------------------------------------------------- */

static void test_a_rule_comes_back_from_its_code(void **state)
{
	_cleanup_(uw_rules_freep) struct uw_rules *rules = NULL;
	uint32_t inlined = 0, refused = 0, interned = 0;

	(void)state;
	assert_int_equal(uw_rules_new(NULL, &rules), 0);
	make_exprs(rules);
	for (int i = 0; i < 100000; i++) {
		struct uw_rule r = random_rule(), back, noisy;
		uint16_t code = 0, again = 0;
		int e = uw_rules_code(rules, NULL, &r, &code);

		if (e == -E2BIG) {
			refused++;
			continue;
		}
		assert_int_equal(e, 0);
		assert_true(code >= ABI_CODE_FIRST);
		inlined += code >= ABI_CODE_INLINE;
		interned += code < ABI_CODE_INLINE;
		assert_int_equal(uw_rules_expand(rules, code, &back), 0);
		if (!same_rule(&r, &back))
			fail_rule("expanded", rules, &r, &back);
		/* Fields that say nothing do not make another rule. */
		noisy = r;
		if (r.cfa_kind == ABI_CFA_EXPR)
			noisy.cfa_reg = (uint8_t)rnd();
		if (r.cfa_kind == ABI_CFA_REG || r.cfa_kind == ABI_CFA_EXPR)
			noisy.cfa_off2 = (int32_t)rnd();
		for (size_t k = 0; k < ABI_REGS; k++)
			if (r.col[k].kind == ABI_COL_SAME || r.col[k].kind == ABI_COL_UNDEF)
				noisy.col[k].val = (int32_t)rnd();
		if (r.col[ABI_REG_SP].kind == ABI_COL_SAME && below(2))
			noisy.col[ABI_REG_SP] = (struct uw_col){.kind = ABI_COL_CFA};
#ifdef ABI_ARM64
		if (!r.signal)
			noisy.col[ABI_REG_LR] = at_cfa(-8);
#endif
		assert_int_equal(uw_rules_code(rules, NULL, &noisy, &again), 0);
		if (code != again)
			fail_rule("another code", rules, &r, &noisy);
	}
	/* The generator must reach all forms; the tables fill up on the way. */
	assert_true(inlined > 10000);
	assert_true(interned > 1000);
	assert_true(refused > 0);
}

static void test_every_inline_code_is_its_rule(void **state)
{
	_cleanup_(uw_rules_freep) struct uw_rules *rules = NULL;
	struct uw_rules_stats st;

	(void)state;
	assert_int_equal(uw_rules_new(NULL, &rules), 0);
	for (uint32_t code = ABI_CODE_INLINE; code <= 0xffff; code++) {
		struct uw_rule r, back;
		uint16_t again;

		assert_int_equal(uw_rules_expand(rules, (uint16_t)code, &r), 0);
		assert_int_equal(uw_rules_code(rules, NULL, &r, &again), 0);
		assert_true(again >= ABI_CODE_INLINE);
		assert_int_equal(uw_rules_expand(rules, again, &back), 0);
		assert_true(same_rule(&r, &back));
	}
	uw_rules_stats(rules, &st);
	assert_int_equal(st.rules, 0);
}

static void test_fixed_kinds_have_fixed_codes(void **state)
{
	static const struct {
		uint8_t kind;
		uint16_t code;
	} cases[] = {
	        {ABI_RULE_NONE, ABI_CODE_NONE},
	        {ABI_RULE_ROOT, ABI_CODE_ROOT},
	        {ABI_RULE_BAD, ABI_CODE_BAD},
	        {ABI_RULE_WIDE, ABI_CODE_BAD},
	        {77, ABI_CODE_BAD},
	};
	_cleanup_(uw_rules_freep) struct uw_rules *rules = NULL;
	struct uw_rule back;

	(void)state;
	assert_int_equal(uw_rules_new(NULL, &rules), 0);
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct uw_rule r;
		uint16_t code = 99;

		memset(&r, 0x5a, sizeof(r));
		r.kind = cases[i].kind;
		r.signal = false;
		assert_int_equal(uw_rules_code(rules, NULL, &r, &code), 0);
		assert_int_equal(code, cases[i].code);
		assert_int_equal(uw_rules_expand(rules, code, &back), 0);
		if (cases[i].kind <= ABI_RULE_BAD && cases[i].kind != ABI_RULE_WIDE)
			assert_int_equal(back.kind, cases[i].kind);
	}
	assert_int_equal(uw_rules_expand(rules, ABI_CODE_FIRST, &back), -ENOENT);
	assert_int_equal(uw_rules_expand(rules, 0x7fff, &back), -ENOENT);
}

static void test_undefined_return_address_is_the_root(void **state)
{
	_cleanup_(uw_rules_freep) struct uw_rules *rules = NULL;
	struct uw_rule r = {.kind = ABI_RULE_FRAME, .cfa_reg = ABI_REG_SP, .cfa_off = 16};
	uint16_t code = 99;

	(void)state;
	assert_int_equal(uw_rules_new(NULL, &rules), 0);
	r.col[ABI_COL_RA].kind = ABI_COL_UNDEF;
	assert_int_equal(uw_rules_code(rules, NULL, &r, &code), 0);
	assert_int_equal(code, ABI_CODE_ROOT);
	r.col[ABI_COL_RA].kind = ABI_COL_SAME;
	assert_int_equal(uw_rules_code(rules, NULL, &r, &code), 0);
	assert_int_equal(code, ABI_CODE_ROOT);
}

static void test_what_cannot_be_said_is_bad_or_lost(void **state)
{
	_cleanup_(uw_rules_freep) struct uw_rules *rules = NULL;
	struct uw_rule good = {.kind = ABI_RULE_FRAME, .cfa_reg = ABI_REG_SP, .cfa_off = 16};
	struct uw_rule r, back;
	uint16_t code;

	(void)state;
	assert_int_equal(uw_rules_new(NULL, &rules), 0);
	good.col[ABI_COL_RA] = at_cfa(-8);
	r = good;
	r.cfa_reg = ABI_REGS;
	assert_int_equal(uw_rules_code(rules, NULL, &r, &code), 0);
	assert_int_equal(code, ABI_CODE_BAD);
	r = good;
	r.cfa_kind = 4;
	assert_int_equal(uw_rules_code(rules, NULL, &r, &code), 0);
	assert_int_equal(code, ABI_CODE_BAD);
	r = good;
	r.cfa_kind = ABI_CFA_EXPR; /* there is no operation 16 */
	assert_int_equal(uw_rules_code(rules, NULL, &r, &code), 0);
	assert_int_equal(code, ABI_CODE_BAD);
	r = good;
	r.col[ABI_COL_RA] = (struct uw_col){.kind = ABI_COL_REG, .val = ABI_REGS};
	assert_int_equal(uw_rules_code(rules, NULL, &r, &code), 0);
	assert_int_equal(code, ABI_CODE_BAD);
	r = good;
	r.col[3] = (struct uw_col){.kind = ABI_COL_REG, .val = -1};
	assert_int_equal(uw_rules_code(rules, NULL, &r, &code), 0);
	assert_int_equal(uw_rules_expand(rules, code, &back), 0);
	assert_int_equal(back.col[3].kind, ABI_COL_UNDEF);
	assert_int_equal(back.col[3].val, 0);
}

static void test_saves_at_the_cfa_itself_are_wide(void **state)
{
	_cleanup_(uw_rules_freep) struct uw_rules *rules = NULL;
	struct uw_rule r = {.kind = ABI_RULE_FRAME, .cfa_reg = ABI_REG_SP, .cfa_off = 4096};
	struct uw_rules_stats st;
	uint32_t wides = 0;
	uint16_t code;
	static const struct {
		int32_t off;
		bool wide;
	} cases[] = {
	        {0, true},       {8, false},     {-8, false},      {4, true},
	        {262136, false}, {262144, true}, {-262144, false}, {-262152, true},
	};

	(void)state;
	assert_int_equal(uw_rules_new(NULL, &rules), 0);
	r.col[ABI_COL_RA] = at_cfa(-64);
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
#ifdef ABI_ARM64
		r.col[19] = at_cfa(cases[i].off);
#else
		r.col[12] = at_cfa(cases[i].off);
#endif
		assert_int_equal(uw_rules_code(rules, NULL, &r, &code), 0);
		uw_rules_stats(rules, &st);
		wides += cases[i].wide;
		assert_int_equal(st.wides, wides);
		assert_int_equal(st.rules, i + 1);
	}
}

/* ---- limits ---------------------------------------------------------------------------------- */

static void test_one_file_cannot_fill_the_tables(void **state)
{
	_cleanup_(uw_rules_freep) struct uw_rules *rules = NULL;
	struct uw_quota q = {0}, q2 = {0};
	struct uw_rule r = {.kind = ABI_RULE_FRAME, .cfa_reg = 3};
	struct uw_rules_stats st;
	uint32_t n = 0, wides = 0, ops = 0;
	uint16_t code, first = 0;
	int32_t at;

	(void)state;
	assert_int_equal(uw_rules_new(NULL, &rules), 0);
	r.col[ABI_COL_RA] = at_cfa(-8);
	for (int32_t i = 0; i < (int32_t)ABI_RULES_MAX; i++) {
		int e;

		r.cfa_off = i;
		e = uw_rules_code(rules, &q, &r, &code);
		if (i == 0)
			first = code;
		if (e == 0)
			n++;
		else
			assert_int_equal(e, -E2BIG);
	}
	assert_int_equal(n, 2048);
	assert_int_equal(q.rules, 2048);
	uw_rules_stats(rules, &st);
	assert_int_equal(st.rules, 2048);
	assert_int_equal(st.refused, ABI_RULES_MAX - 2048);
	/* What is known costs nothing, and another file has its own share. */
	r.cfa_off = 0;
	assert_int_equal(uw_rules_code(rules, &q, &r, &code), 0);
	assert_int_equal(code, first);
	r.col[0].kind = ABI_COL_UNDEF;
	for (int32_t i = 0; i < 1024; i++) {
		r.cfa_off = i;
		wides += uw_rules_code(rules, &q2, &r, &code) == 0;
	}
	assert_int_equal(wides, 256);
	assert_int_equal(q2.wides, 256);
	assert_int_equal(q2.rules, 256);
	for (int32_t i = 0; i < 4096; i++) {
		struct abi_op e[2] = {{.op = ABI_OP_CONST, .arg = i}, {.op = ABI_OP_END}};

		ops += uw_rules_ops(rules, &q2, e, 2, &at) == 0;
	}
	assert_int_equal(ops, 512);
	assert_int_equal(q2.ops, 1024);
}

static void test_full_tables_refuse_and_keep_what_they_have(void **state)
{
	_cleanup_(uw_rules_freep) struct uw_rules *rules = NULL;
	struct abi_rule r4[ABI_CODE_FIRST + 4] = {{0}};
	struct abi_wide w2[2] = {{0}};
	struct abi_op o3[3] = {{0}};
	struct uw_rules_mem mem = {r4, w2, o3, ARRAY_SIZE(r4), 2, 3, false};
	const struct abi_op expr[2] = {{.op = ABI_OP_PC}, {.op = ABI_OP_END}};
	const struct abi_op other[2] = {{.op = ABI_OP_PC, .arg = 1}, {.op = ABI_OP_END}};
	struct uw_rule r = {.kind = ABI_RULE_FRAME, .cfa_reg = 3};
	struct uw_rules_stats st;
	uint16_t code = 0;
	int32_t at = -1;

	(void)state;
	assert_int_equal(uw_rules_new(&mem, &rules), 0);
	assert_int_equal(uw_rules_ops(rules, NULL, expr, 2, &at), 0);
	assert_int_equal(at, 0);
	assert_int_equal(uw_rules_ops(rules, NULL, other, 2, &at), -E2BIG);
	assert_int_equal(uw_rules_ops(rules, NULL, expr, 2, &at), 0);
	assert_int_equal(at, 0);
	r.col[ABI_COL_RA] = at_cfa(-8);
	r.col[0].kind = ABI_COL_UNDEF;
	for (int32_t i = 0; i < 3; i++) {
		r.cfa_off = i;
		assert_int_equal(uw_rules_code(rules, NULL, &r, &code), i < 2 ? 0 : -E2BIG);
	}
	assert_int_equal(code, ABI_CODE_FIRST + 1);
	r.col[0].kind = ABI_COL_SAME;
	for (int32_t i = 0; i < 3; i++) {
		r.cfa_off = i;
		assert_int_equal(uw_rules_code(rules, NULL, &r, &code), i < 2 ? 0 : -E2BIG);
	}
	assert_int_equal(code, ABI_CODE_FIRST + 3);
	uw_rules_stats(rules, &st);
	assert_int_equal(st.rules, 4);
	assert_int_equal(st.wides, 2);
	assert_int_equal(st.ops, 2);
	assert_int_equal(st.refused, 3);
	assert_int_equal(r4[ABI_CODE_FIRST + 3].cfa_off, 1);
	assert_int_equal(r4[ABI_CODE_FIRST].kind, ABI_RULE_WIDE);
	assert_int_equal(w2[1].cfa_off, 1);
}

static void test_tables_of_no_or_too_many_entries_are_refused(void **state)
{
	struct abi_rule r = {0};
	struct abi_wide w = {0};
	struct abi_op o = {0};
	const struct uw_rules_mem bad[] = {
	        {&r, &w, &o, ABI_CODE_FIRST, 1, 1, false},
	        {&r, &w, &o, ABI_RULES_MAX + 1, 1, 1, false},
	        {&r, &w, &o, 8, 0, 1, false},
	        {&r, &w, &o, 8, ABI_WIDES_MAX + 1, 1, false},
	        {&r, &w, &o, 8, 1, 0, false},
	        {&r, &w, &o, 8, 1, ABI_OPS_MAX + 1, false},
	        {NULL, &w, &o, 8, 1, 1, false},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		struct uw_rules *rules = NULL;

		assert_int_equal(uw_rules_new(&bad[i], &rules), -EINVAL);
		assert_null(rules);
	}
	assert_null(uw_rules_free(NULL));
}

static void test_expressions_must_end_and_stay_inside(void **state)
{
	_cleanup_(uw_rules_freep) struct uw_rules *rules = NULL;
	struct abi_op ops[ABI_EXPR_OPS + 1];
	struct abi_op skip[3] = {
	        {.op = ABI_OP_SKIP, .arg = 1}, {.op = ABI_OP_PC}, {.op = ABI_OP_END}};
	int32_t at = -1, again = -1;

	(void)state;
	assert_int_equal(uw_rules_new(NULL, &rules), 0);
	memset(ops, 0, sizeof(ops));
	for (size_t i = 0; i < ABI_EXPR_OPS; i++)
		ops[i].op = ABI_OP_PC;
	assert_int_equal(uw_rules_ops(rules, NULL, ops, 0, &at), -EINVAL);
	assert_int_equal(uw_rules_ops(rules, NULL, ops, 3, &at), -EINVAL);
	assert_int_equal(uw_rules_ops(rules, NULL, ops, ABI_EXPR_OPS + 1, &at), -EINVAL);
	ops[ABI_EXPR_OPS - 1].op = ABI_OP_END;
	assert_int_equal(uw_rules_ops(rules, NULL, ops, ABI_EXPR_OPS, &at), 0);
	ops[2].op = ABI_OP_CNT;
	assert_int_equal(uw_rules_ops(rules, NULL, ops, ABI_EXPR_OPS, &at), -EINVAL);
	assert_int_equal(uw_rules_ops(rules, NULL, skip, 3, &at), 0);
	skip[0].pad = 7; /* says nothing */
	assert_int_equal(uw_rules_ops(rules, NULL, skip, 3, &again), 0);
	assert_int_equal(at, again);
	skip[0].arg = 2;
	assert_int_equal(uw_rules_ops(rules, NULL, skip, 3, &at), -EINVAL);
	skip[0].arg = -1;
	assert_int_equal(uw_rules_ops(rules, NULL, skip, 3, &at), -EINVAL);
}

/* ---- the step gives the same by every form --------------------------------------------------- */

static uint64_t random_word(void)
{
	switch (below(8)) {
	case 0:
		return rnd();
	case 1:
		return 0;
	case 2:
	case 3:
	case 4:
		return CODE_BASE + rnd() % CODE_BYTES;
	default:
		return STACK_BASE + 8 * (rnd() % STACK_WORDS) + (below(16) ? 0 : below(8));
	}
}

static struct uw_state random_state(void)
{
	struct uw_state u;

	memset(&u, 0xa5, sizeof(u));
	u.pc = CODE_BASE + rnd() % CODE_BYTES;
	for (uint32_t i = 0; i < ABI_REGS; i++)
		u.reg[i] = below(8) ? STACK_BASE + 2048 + 8 * (rnd() % 512) : random_word();
	uw_begin(&u);
	u.exact = below(2);
	u.lazy = (uint32_t)(rnd() & rnd());
	u.lost = (uint32_t)(rnd() & rnd() & rnd()) & ~u.lazy;
	u.lazy &= ~(1u << ABI_REG_SP);
	u.lost &= ~(1u << ABI_REG_SP);
	if (ABI_REGS < 32) {
		u.lazy &= (1u << (ABI_REGS & 31)) - 1;
		u.lost &= (1u << (ABI_REGS & 31)) - 1;
	}
	return u;
}

/* Registers as a later rule would see them. */
static bool same_frame(const struct uw_state *x, const struct uw_state *y, const struct fake *f)
{
	struct uw_state a = *x, b = *y;

	if (a.pc != b.pc || a.exact != b.exact)
		return false;
	for (uint32_t i = 0; i < ABI_REGS; i++) {
		__u64 va = 0, vb = 0;
		int ra = uw_value(&a, f, i, &va), rb = uw_value(&b, f, i, &vb);

		if ((ra != 0) != (rb != 0) || va != vb)
			return false;
	}
	return true;
}

static void test_inline_rule_and_wide_step_alike(void **state)
{
	_cleanup_(uw_rules_freep) struct uw_rules *rules = NULL;
	struct abi_rule forms[6];
	struct abi_wide wide;
	struct uw_rules_mem mem;
	struct fake f;
	uint32_t stepped = 0, inlined = 0, framed = 0;

	(void)state;
	assert_int_equal(uw_rules_new(NULL, &rules), 0);
	make_exprs(rules);
	mem = *uw_rules_mem(rules);
	mem.rules = forms;
	mem.wides = &wide;
	mem.n_rules = 6;
	mem.n_wides = 1;
	f.mem = &mem;
	for (int i = 0; i < 200000; i++) {
		struct uw_rule r = random_rule();
		struct uw_state start = random_state(), want = start, got;
		uint16_t code;
		int e, e2;

		if (i % 64 == 0)
			for (size_t k = 0; k < STACK_WORDS; k++)
				f.words[k] = random_word();
		memset(forms, 0, sizeof(forms));
		forms[5].kind = ABI_RULE_WIDE;
		uw_rule_wide(&r, &wide);
		e = uw_step(&want, &f, 5);
		stepped += e == 0;
		if (e != 0 && !same_frame(&want, &start, &f))
			fail_rule("failed step moved", rules, &r, NULL);
		if (uw_rule_frame(&r, &forms[4])) {
			framed++;
			got = start;
			e2 = uw_step(&got, &f, 4);
			if (e != e2 || !same_frame(&want, &got, &f))
				fail_rule("rule and wide", rules, &r, NULL);
		}
		if (uw_rule_inline(&r, &code)) {
			inlined++;
			got = start;
			e2 = uw_step(&got, &f, code);
			if (e != e2 || !same_frame(&want, &got, &f))
				fail_rule("inline and wide", rules, &r, NULL);
		}
	}
	assert_true(stepped > 10000);
	assert_true(inlined > 10000);
	assert_true(framed > inlined);
}

/* ---- text ------------------------------------------------------------------------------------ */

static void test_rules_as_text(void **state)
{
	_cleanup_(uw_rules_freep) struct uw_rules *rules = NULL;
	const struct abi_op ops[3] = {
	        {.op = ABI_OP_PLUS_CONST, .arg = -8}, {.op = ABI_OP_DEREF}, {.op = ABI_OP_END}};
	struct uw_rule r = {.kind = ABI_RULE_FRAME, .cfa_reg = ABI_REG_SP, .cfa_off = 16};
	struct sbuf b;
	int32_t at;

	(void)state;
	assert_int_equal(uw_rules_new(NULL, &rules), 0);
	assert_int_equal(uw_rules_ops(rules, NULL, ops, 3, &at), 0);
	sbuf_init(&b, 4096);
	r.col[ABI_COL_RA] = at_cfa(-8);
	r.col[ABI_REG_FP] = at_cfa(-16);
	assert_int_equal(uw_rule_print(rules, &r, &b), 0);
#ifdef ABI_ARM64
	assert_string_equal(b.p, "CFA=sp+16 x29=[CFA-16] RA=[CFA-8]");
#else
	assert_string_equal(b.p, "CFA=rsp+16 rbp=[CFA-16] RA=[CFA-8]");
#endif
	sbuf_reset(&b);
	r.col[ABI_REG_FP] = (struct uw_col){.kind = ABI_COL_AT_EXPR, .val = at};
	r.col[0] = (struct uw_col){.kind = ABI_COL_AT_REG, .val = -8 * 256 + ABI_REG_FP};
	r.cfa_kind = ABI_CFA_DEREF;
	r.cfa_off2 = 8;
	r.signal = true;
	assert_int_equal(uw_rule_print(rules, &r, &b), 0);
#ifdef ABI_ARM64
	assert_string_equal(b.p, "CFA=[sp+16]+8 x0=[x29-8] x29=[{CFA -8 deref}] RA=[CFA-8] signal");
#else
	assert_string_equal(b.p,
	                    "CFA=[rsp+16]+8 rax=[rbp-8] rbp=[{CFA -8 deref}] RA=[CFA-8] signal");
#endif
	sbuf_done(&b);
	sbuf_init(&b, 4);
	assert_int_equal(uw_rule_print(rules, &r, &b), -E2BIG);
	sbuf_done(&b);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	        cmocka_unit_test(test_a_rule_comes_back_from_its_code),
	        cmocka_unit_test(test_every_inline_code_is_its_rule),
	        cmocka_unit_test(test_fixed_kinds_have_fixed_codes),
	        cmocka_unit_test(test_undefined_return_address_is_the_root),
	        cmocka_unit_test(test_what_cannot_be_said_is_bad_or_lost),
	        cmocka_unit_test(test_saves_at_the_cfa_itself_are_wide),
	        cmocka_unit_test(test_one_file_cannot_fill_the_tables),
	        cmocka_unit_test(test_full_tables_refuse_and_keep_what_they_have),
	        cmocka_unit_test(test_tables_of_no_or_too_many_entries_are_refused),
	        cmocka_unit_test(test_expressions_must_end_and_stay_inside),
	        cmocka_unit_test(test_inline_rule_and_wide_step_alike),
	        cmocka_unit_test(test_rules_as_text),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
