// SPDX-License-Identifier: Apache-2.0
/* Rules and their codes. Compiled for this machine, and for arm64 with ABI_TEST_ARM64. */
#include "random_rules.h"

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

int main(void)
{
	const struct CMUnitTest tests[] = {
	        cmocka_unit_test(test_a_rule_comes_back_from_its_code),
	        cmocka_unit_test(test_every_inline_code_is_its_rule),
	        cmocka_unit_test(test_fixed_kinds_have_fixed_codes),
	        cmocka_unit_test(test_undefined_return_address_is_the_root),
	        cmocka_unit_test(test_what_cannot_be_said_is_bad_or_lost),
	        cmocka_unit_test(test_saves_at_the_cfa_itself_are_wide),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
