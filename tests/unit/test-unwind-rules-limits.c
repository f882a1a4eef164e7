/* SPDX-License-Identifier: Apache-2.0 */
/* Limits of the tables of rules, and rules as text. */
#include "random_rules.h"

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
	/* A known rule costs nothing, and another file has its own share. */
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
