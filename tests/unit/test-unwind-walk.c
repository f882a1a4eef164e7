// SPDX-License-Identifier: Apache-2.0
/* Walks of user space by rules: what is recorded, and how they end. Compiled for this machine, and
 * for arm64 with ABI_TEST_ARM64. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <cmocka.h>

#include "fake_target.h"

static void test_a_chain_is_walked_by_rules_to_its_root(void **state)
{
	struct fake *f = *state;
	struct uw_row row = {.code = framed(f, ABI_REG_SP, 24, 0)};
	const struct uw_table other = {.lo = 0x800, .n_chunks = 4, .n_rows = 1, .rows = &row};

	usual(f);
	assert_int_equal(uw_store_install(f->store, 2, &other), 0);
	f->pc = TEXT + LEAF + 0x17;
	f->stack[1] = OTHER + 0x123; /* CFA: word 2 */
	f->stack[4] = TEXT + MID + 5;
	f->stack[8] = TEXT + ROOT + 9;
	walk(f, false);
	EXPECT(f, ABI_WALK_ROOT, 0, 0, EXACT(IN(LEAF + 0x17)), IMAGE(2, OTHER_OFF + 0x123),
	       IN(MID + 5), IN(ROOT + 9));
	assert_false(f->w.unresolved);
	assert_int_equal(f->w.image, 0);
}

static void test_a_return_address_belongs_to_the_call_before_it(void **state)
{
	struct fake *f = *state;

	govern(f, LEAF, framed(f, ABI_REG_SP, 16, 0));
	govern(f, MID, ABI_CODE_ROOT);
	govern(f, CODE_BYTES - 0x100, framed(f, ABI_REG_SP, 32, 0));
	publish(f);
	f->stack[1] = TEXT + MID;        /* the call is LEAF's last instruction */
	f->stack[3] = TEXT + CODE_BYTES; /* the last one of the mapping */
	f->stack[7] = TEXT + MID + 1;
	walk(f, false);
	EXPECT(f, ABI_WALK_ROOT, 0, 0, EXACT(IN(LEAF)), IN(MID), IN(CODE_BYTES), IN(MID + 1));
}

static void test_above_a_signal_frame_the_pc_is_exact(void **state)
{
	struct fake *f = *state;
	struct uw_rule sig = rule(ABI_REG_SP, 32), wide = rule(ABI_REG_SP, 32);

	sig.signal = true;
	wide.signal = true;
	wide.col[KEPT] = (struct uw_col){.kind = ABI_COL_CFA};
	govern(f, LEAF, framed(f, ABI_REG_SP, 16, 0));
	govern(f, 0x180, code_of(f, &sig));
	govern(f, 0x1c0, code_of(f, &wide));
	/* A byte before MID the walk would end. */
	govern(f, MID - 1, ABI_CODE_ROOT);
	govern(f, MID, framed(f, ABI_REG_SP, 16, 0));
	govern(f, ROOT, ABI_CODE_ROOT);
	publish(f);
	for (uint32_t at = 0x190; at < MID; at += 0x40) {
		f->stack[1] = TEXT + at;
		f->stack[5] = TEXT + MID;
		f->stack[7] = TEXT + ROOT + 1;
		walk(f, false);
		EXPECT(f, ABI_WALK_ROOT, 0, 0, EXACT(IN(LEAF)), IN(at), EXACT(IN(MID)),
		       IN(ROOT + 1));
	}
}

static void test_in_a_system_call_the_leaf_is_not_exact(void **state)
{
	struct fake *f = *state;

	usual(f);
	f->pc = TEXT + ROOT; /* after the instruction, which is MID's last */
	f->stack[3] = TEXT + ROOT + 1;
	f->t.in_syscall = true;
	walk(f, false);
	EXPECT(f, ABI_WALK_ROOT, 0, 0, IN(ROOT), IN(ROOT + 1));
	f->t.in_syscall = false;
	walk(f, false);
	EXPECT(f, ABI_WALK_ROOT, 0, 0, EXACT(IN(ROOT)));
}

static void test_a_saved_register_is_read_when_a_rule_asks_for_it(void **state)
{
	struct fake *f = *state;
	struct uw_rule far = rule(ABI_REG_SP, 16);

	far.col[KEPT] = (struct uw_col){.kind = ABI_COL_AT_CFA, .val = -16};
	far.col[BUSY] = (struct uw_col){.kind = ABI_COL_AT_CFA, .val = -64}; /* not there */
	govern(f, LEAF, code_of(f, &far));
	govern(f, MID, framed(f, ABI_REG_SP, 16, 0));
	govern(f, MID + 0x40, framed(f, KEPT, 16, 0));
	govern(f, MID + 0x80, framed(f, BUSY, 16, 0));
	govern(f, ROOT, ABI_CODE_ROOT);
	publish(f);
	f->stack[0] = AT(100); /* KEPT, two frames before it is asked for */
	f->stack[1] = TEXT + MID + 1;
	f->stack[3] = TEXT + MID + 0x41;
	f->stack[101] = TEXT + ROOT + 1;
	f->reg[KEPT] = f->reg[BUSY] = AT(200); /* what the leaf has there */
	walk(f, false);
	EXPECT(f, ABI_WALK_ROOT, 0, 0, EXACT(IN(LEAF)), IN(MID + 1), IN(MID + 0x41), IN(ROOT + 1));
	f->stack[3] = TEXT + MID + 0x81;
	walk(f, false);
	EXPECT(f, ABI_WALK_FAULT, 0, 0, EXACT(IN(LEAF)), IN(MID + 1), IN(MID + 0x81));
}

static void test_wide_rules(void **state)
{
	struct fake *f = *state;
	struct abi_op cfa[] = {{.op = ABI_OP_REG, .reg = ABI_REG_SP, .arg = 16},
	                       {.op = ABI_OP_DEREF},
	                       {.op = ABI_OP_END}};
	struct abi_op kept[] = {{.op = ABI_OP_CONST, .arg = 320}, /* from the CFA on */
	                        {.op = ABI_OP_PLUS},
	                        {.op = ABI_OP_END}};
	struct uw_rule expr = rule(0, 0), deref = rule(ABI_REG_SP, 16), plt = rule(ABI_REG_SP, 8);

	expr.cfa_kind = ABI_CFA_EXPR;
	assert_int_equal(uw_rules_ops(f->rules, NULL, cfa, 3, &expr.cfa_off), 0);
	expr.col[KEPT].kind = ABI_COL_EXPR;
	assert_int_equal(uw_rules_ops(f->rules, NULL, kept, 3, &expr.col[KEPT].val), 0);
	expr.col[BUSY].kind = ABI_COL_UNDEF;
	deref.cfa_kind = ABI_CFA_DEREF;
	deref.cfa_off2 = 80;
	deref.col[KEPT].kind = ABI_COL_CFA;
	deref.col[KEPT].val = 240;
	plt.cfa_kind = ABI_CFA_PLT;
	plt.cfa_off2 = 11;
	govern(f, LEAF, code_of(f, &expr));
	govern(f, LEAF + 0x40, code_of(f, &deref));
	govern(f, LEAF + 0x80, code_of(f, &plt));
	govern(f, MID, framed(f, KEPT, 16, 0));
	govern(f, MID + 0x40, framed(f, BUSY, 16, 0));
	govern(f, ROOT, ABI_CODE_ROOT);
	publish(f);
	f->stack[2] = AT(30);
	/* CFA = [sp + 16], KEPT = CFA + 320 */
	f->stack[29] = TEXT + MID + 1;
	f->stack[71] = TEXT + ROOT + 1;
	walk(f, false);
	EXPECT(f, ABI_WALK_ROOT, 0, 0, EXACT(IN(LEAF)), IN(MID + 1), IN(ROOT + 1));
	/* BUSY is lost, and now asked for */
	f->reg[BUSY] = STACK;
	f->stack[29] = TEXT + MID + 0x41;
	walk(f, false);
	EXPECT(f, ABI_WALK_BAD_RULE, 0, 0, EXACT(IN(LEAF)), IN(MID + 0x41));
	/* CFA = [sp + 16] + 80, KEPT = CFA + 240 */
	f->pc = TEXT + LEAF + 0x41;
	f->stack[39] = TEXT + MID + 1;
	f->stack[71] = TEXT + ROOT + 2;
	walk(f, false);
	EXPECT(f, ABI_WALK_ROOT, 0, 0, EXACT(IN(LEAF + 0x41)), IN(MID + 1), IN(ROOT + 2));
	/* One slot of a PLT: from its 11th byte on there is a word more. */
	f->stack[0] = TEXT + ROOT + 3;
	f->stack[1] = TEXT + ROOT + 4;
	f->pc = TEXT + LEAF + 0x9a;
	walk(f, false);
	EXPECT(f, ABI_WALK_ROOT, 0, 0, EXACT(IN(LEAF + 0x9a)), IN(ROOT + 3));
	f->pc = TEXT + LEAF + 0x9b;
	walk(f, false);
	EXPECT(f, ABI_WALK_ROOT, 0, 0, EXACT(IN(LEAF + 0x9b)), IN(ROOT + 4));
}

static void test_how_a_walk_by_rules_ends(void **state)
{
	struct fake *f = *state;

	usual(f);
	f->stack[1] = 0;
	walk(f, false);
	EXPECT(f, ABI_WALK_ROOT, 0, 0, EXACT(IN(LEAF)));
	f->stack[1] = 4095;
	walk(f, false);
	EXPECT(f, ABI_WALK_BAD_PC, 0, 0, EXACT(IN(LEAF)));
#ifndef ABI_TEST_ARM64 /* which cuts off the upper bits */
	f->stack[1] = 0xffffffff81000000;
	walk(f, false);
	EXPECT(f, ABI_WALK_BAD_PC, 0, 0, EXACT(IN(LEAF)));
#endif
	f->reg[ABI_REG_SP] = AT(STACK_WORDS - 1); /* its return address is the next one */
	walk(f, false);
	EXPECT(f, ABI_WALK_FAULT, 0, 0, EXACT(IN(LEAF)));
	assert_false(f->w.unresolved);
}

static void test_a_caller_outside_of_code_is_not_kept(void **state)
{
	struct fake *f = *state;

	usual(f);
	f->stack[1] = TEXT + MID + 1;
	f->stack[5] = NOWHERE;
	walk(f, false);
	EXPECT(f, ABI_WALK_IMPLAUSIBLE, 0, 0, EXACT(IN(LEAF)), IN(MID + 1));
	assert_true(f->w.unresolved);
}

static void test_the_deepest_stack_is_distinguished_from_a_cut_one(void **state)
{
	struct fake *f = *state;

	govern(f, LEAF, framed(f, ABI_REG_SP, 8, 0));
	govern(f, ROOT, ABI_CODE_ROOT);
	publish(f);
	for (size_t i = 0; i < STACK_WORDS; i++)
		f->stack[i] = TEXT + LEAF + 1 + i % 64;
	walk(f, false);
	assert_int_equal(f->w.walk, ABI_WALK_DEPTH);
	assert_int_equal(f->w.n, 512);
	assert_int_equal(f->w.frames[511], IN(LEAF + 1 + 510 % 64));
	f->stack[510] = TEXT + ROOT + 1;
	walk(f, false);
	assert_int_equal(f->w.walk, ABI_WALK_ROOT);
	assert_int_equal(f->w.n, 512);
	f->stack[510] = TEXT + LEAF + 1;
	f->stack[511] = TEXT + ROOT + 1;
	walk(f, false);
	assert_int_equal(f->w.walk, ABI_WALK_DEPTH);
	assert_int_equal(f->w.n, 512);
}

static void test_a_rule_that_does_not_move_ends(void **state)
{
	struct fake *f = *state;

	govern(f, LEAF, framed(f, ABI_REG_SP, 0, 0));
	publish(f);
	f->reg[ABI_REG_SP] = AT(1);
	f->stack[0] = TEXT + LEAF + 7;
	walk(f, false);
	EXPECT(f, ABI_WALK_IMPLAUSIBLE, 0, 0, EXACT(IN(LEAF)), IN(LEAF + 7));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	        WALK_TEST(test_a_chain_is_walked_by_rules_to_its_root),
	        WALK_TEST(test_a_return_address_belongs_to_the_call_before_it),
	        WALK_TEST(test_above_a_signal_frame_the_pc_is_exact),
	        WALK_TEST(test_in_a_system_call_the_leaf_is_not_exact),
	        WALK_TEST(test_a_saved_register_is_read_when_a_rule_asks_for_it),
	        WALK_TEST(test_wide_rules),
	        WALK_TEST(test_how_a_walk_by_rules_ends),
	        WALK_TEST(test_a_caller_outside_of_code_is_not_kept),
	        WALK_TEST(test_the_deepest_stack_is_distinguished_from_a_cut_one),
	        WALK_TEST(test_a_rule_that_does_not_move_ends),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
