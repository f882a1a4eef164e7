// SPDX-License-Identifier: Apache-2.0
/* Walks of user space through code without rules: heuristic frames, and where they stop. Compiled
 * for this machine, and for arm64 with ABI_TEST_ARM64. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <cmocka.h>

#include "fake_target.h"

/* ---- signals and threads, by their code ------------------------------------------------------ */

#ifdef ABI_TEST_ARM64
#define TRAMPOLINE "\x68\x11\x80\xd2\x01\x00\x00\xd4"
static const char *const exit_forms[] = {"\xa8\x0b\x80\xd2\x01\x00\x00\xd4"};
#else
#define TRAMPOLINE "\x48\xc7\xc0\x0f\x00\x00\x00\x0f\x05"
static const char *const exit_forms[] = {
        "\x48\x89\xc7\xb8\x3c\x00\x00\x00", /* glibc, two forms */
        "\x89\xc7\xb8\x3c\x00\x00\x00\x0f", "\x89\xc7\x31\xc0\xb0\x3c\x0f\x05", /* musl */
};
#endif
#define TRAMPOLINE_LEN (sizeof(TRAMPOLINE) - 1)

/* The kernel's frame at @word: register r holds the address of word 400 + r, pc is @pc. */
static void signal_frame(struct fake *f, size_t word, uint64_t pc)
{
#ifdef ABI_TEST_ARM64
	uint64_t *regs = f->stack + word + (128 + 176 + 8) / 8;

	for (size_t r = 0; r < 32; r++)
		regs[r] = AT(400 + r);
	regs[32] = pc;
#else
	static const uint8_t order[] = {8, 9, 10, 11, 12, 13, 14, 15, 5, 4, 6, 3, 1, 0, 2, 7};
	uint64_t *regs = f->stack + word + 5;

	for (size_t i = 0; i < 16; i++)
		regs[i] = AT(400 + order[i]);
	regs[16] = pc;
#endif
}

static void test_a_signal_trampoline_without_rules_restores_all_registers(void **state)
{
	struct fake *f = *state;
	const uint32_t end = BARE + 0x10 + TRAMPOLINE_LEN;

	govern(f, LEAF, framed(f, ABI_REG_SP, 16, 0));
	for (uint32_t r = 0; r < ABI_REGS; r++)
		govern(f, MID + 4 * r, framed(f, (uint8_t)r, 8, 0));
	govern(f, ROOT, ABI_CODE_ROOT);
	govern(f, BARE, ABI_CODE_NONE);
	publish(f);
	memcpy(f->text + BARE + 0x10, TRAMPOLINE, TRAMPOLINE_LEN);
	f->stack[1] = TEXT + BARE + 0x10;
	for (uint32_t r = 0; r < ABI_REGS; r++) {
		/* The interrupted code's first instruction, and a caller by each register. */
		signal_frame(f, 2, TEXT + MID + 4 * r);
		f->stack[400 + r] = TEXT + ROOT + 1 + r;
		walk(f, false);
		EXPECT(f, ABI_WALK_ROOT, 0, 0, EXACT(IN(LEAF)), IN(BARE + 0x10),
		       EXACT(IN(MID + 4 * r)), IN(ROOT + 1 + r));
	}
	/* At its start, and in its system call. */
	f->pc = TEXT + BARE + 0x10;
	f->reg[ABI_REG_SP] = AT(2);
	walk(f, false);
	EXPECT(f, ABI_WALK_ROOT, 0, 0, EXACT(IN(BARE + 0x10)), EXACT(IN(MID + 4 * (ABI_REGS - 1))),
	       IN(ROOT + ABI_REGS));
	f->pc = TEXT + end;
	f->t.in_syscall = true;
	walk(f, false);
	EXPECT(f, ABI_WALK_ROOT, 0, 0, IN(end), EXACT(IN(MID + 4 * (ABI_REGS - 1))),
	       IN(ROOT + ABI_REGS));
	/* Another function follows it. */
	f->t.in_syscall = false;
	walk(f, false);
	EXPECT(f, ABI_WALK_UNCOVERED, 0, 0, EXACT(IN(end)));
}

static void test_what_leads_into_exit_is_a_root(void **state)
{
	struct fake *f = *state;

	usual(f);
	f->stack[1] = TEXT + BARE + 0x40;
	for (size_t i = 0; i < ARRAY_SIZE(exit_forms); i++) {
		memcpy(f->text + BARE + 0x40, exit_forms[i], 8);
		walk(f, false);
		EXPECT(f, ABI_WALK_ROOT, 0, 0, EXACT(IN(LEAF)), IN(BARE + 0x40));
		/* Another system call. */
		for (size_t k = 0; k < 8; k++)
			f->text[BARE + 0x40 + k] ^=
			        exit_forms[i][k] == 0x3c || exit_forms[i][k] == 0x0b;
		walk(f, false);
		EXPECT(f, ABI_WALK_UNCOVERED, 0, 0, EXACT(IN(LEAF)), IN(BARE + 0x40));
	}
	/* A thread that is about to exit itself has callers. */
	memcpy(f->text + BARE + 0x40, exit_forms[0], 8);
	f->pc = TEXT + BARE + 0x40;
	f->stack[0] = called(f, TEXT + ROOT + 8);
	walk(f, false);
	EXPECT(f, ABI_WALK_ROOT, 1, 0, EXACT(IN(BARE + 0x40)), IN(ROOT + 8));
}

#ifndef ABI_ARM64
static void test_where_a_coroutine_ends_is_a_root(void **state)
{
	/* mov %rbx, %rsp; mov (%rsp), %rdi; then the first byte of what follows */
	static const uint8_t co_end[] = {0x48, 0x89, 0xdc, 0x48, 0x8b, 0x3c, 0x24};
	struct fake *f = *state;

	usual(f);
	f->stack[1] = TEXT + BARE + 0x40;
	/* It would be a heuristic caller. */
	f->stack[2] = called(f, TEXT + ROOT + 8);
	memcpy(f->text + BARE + 0x40, co_end, sizeof(co_end));
	for (unsigned int next = 0; next < 256; next += 51) {
		f->text[BARE + 0x40 + sizeof(co_end)] = (uint8_t)next;
		walk(f, false);
		EXPECT(f, ABI_WALK_ROOT, 0, 0, EXACT(IN(LEAF)), IN(BARE + 0x40));
	}
	/* Code that is only like it. */
	for (size_t k = 0; k < sizeof(co_end); k++) {
		f->text[BARE + 0x40 + k] ^= 1;
		walk(f, false);
		EXPECT(f, ABI_WALK_ROOT, 1, 0, EXACT(IN(LEAF)), IN(BARE + 0x40), IN(ROOT + 8));
		f->text[BARE + 0x40 + k] ^= 1;
	}
	/* One that is there itself has callers. */
	f->pc = TEXT + BARE + 0x40;
	f->stack[0] = f->stack[2];
	walk(f, false);
	EXPECT(f, ABI_WALK_ROOT, 1, 0, EXACT(IN(BARE + 0x40)), IN(ROOT + 8));
}
#endif

/* ---- by heuristics --------------------------------------------------------------------------- */

static void test_an_uncovered_leaf_has_its_return_address_at_hand(void **state)
{
	struct fake *f = *state;

	usual(f);
	f->pc = TEXT + BARE + 0x20;
	/* A frame pointer that leads elsewhere: it is the caller's. */
	f->reg[ABI_REG_FP] = AT(50);
	f->stack[51] = called(f, TEXT + ROOT + 0x20);
#ifdef ABI_TEST_ARM64
	f->reg[ABI_REG_LR] = called(f, TEXT + MID + 0x10);
	f->stack[3] = TEXT + ROOT + 1;
#else
	f->stack[0] = called(f, TEXT + MID + 0x10);
	f->stack[4] = TEXT + ROOT + 1;
#endif
	walk(f, false);
	EXPECT(f, ABI_WALK_ROOT, 1, 0, EXACT(IN(BARE + 0x20)), IN(MID + 0x10), IN(ROOT + 1));
}

static void test_uncovered_code_is_walked_by_frame_pointers(void **state)
{
	struct fake *f = *state;

	usual(f);
	f->stack[1] = TEXT + BARE + 1;
	f->reg[ABI_REG_FP] = AT(10);
	f->stack[10] = AT(20);
	f->stack[11] = called(f, TEXT + BARE + 0x40);
	f->stack[20] = AT(30);
	f->stack[21] = called(f, TEXT + ROOT + 8);
	walk(f, false);
	EXPECT(f, ABI_WALK_ROOT, 2, 0, EXACT(IN(LEAF)), IN(BARE + 1), IN(BARE + 0x40),
	       IN(ROOT + 8));
	/* No record below the stack pointer, and none that is not aligned. */
	f->reg[ABI_REG_FP] = AT(1);
	walk(f, false);
	EXPECT(f, ABI_WALK_UNCOVERED, 0, 0, EXACT(IN(LEAF)), IN(BARE + 1));
	f->reg[ABI_REG_FP] = AT(10) + 4;
	walk(f, false);
	EXPECT(f, ABI_WALK_UNCOVERED, 0, 0, EXACT(IN(LEAF)), IN(BARE + 1));
}

static void test_a_zero_is_a_root_only_after_a_frame_record(void **state)
{
	struct fake *f = *state;

	usual(f);
	f->stack[1] = TEXT + BARE + 1;
	walk(f, false);
	EXPECT(f, ABI_WALK_UNCOVERED, 0, 0, EXACT(IN(LEAF)), IN(BARE + 1));
	f->reg[ABI_REG_FP] = AT(10);
	f->stack[10] = 0;
	f->stack[11] = called(f, TEXT + BARE + 0x40);
	walk(f, false);
	EXPECT(f, ABI_WALK_ROOT, 2, 0, EXACT(IN(LEAF)), IN(BARE + 1), IN(BARE + 0x40));
	/* A rule between the record and the zero: a register again. */
	f->stack[11] = called(f, TEXT + MID + 0x40);
	f->stack[15] = TEXT + BARE + 0x40;
	walk(f, false);
	EXPECT(f, ABI_WALK_UNCOVERED, 1, 0, EXACT(IN(LEAF)), IN(BARE + 1), IN(MID + 0x40),
	       IN(BARE + 0x40));
}

static void test_four_words_are_searched_and_no_fifth(void **state)
{
	struct fake *f = *state;

	usual(f);
	f->stack[1] = TEXT + BARE + 1; /* stack pointer of this frame: word 2 */
	for (size_t i = 0; i < 5; i++) {
		f->stack[2 + i] = called(f, TEXT + MID + 0x40);
		f->stack[2 + i + 4] = TEXT + ROOT + 1; /* MID's */
		walk(f, false);
		if (i < 4)
			EXPECT(f, ABI_WALK_ROOT, 1, 0, EXACT(IN(LEAF)), IN(BARE + 1),
			       IN(MID + 0x40), IN(ROOT + 1));
		else
			EXPECT(f, ABI_WALK_UNCOVERED, 0, 0, EXACT(IN(LEAF)), IN(BARE + 1));
		f->stack[2 + i] = f->stack[2 + i + 4] = 0;
	}
}

static void test_a_pointer_into_code_that_no_call_precedes_is_data(void **state)
{
	struct fake *f = *state;

	usual(f);
	f->stack[1] = TEXT + BARE + 1;
	f->stack[2] = TEXT + ROOT + 0x20; /* a pointer to a function */
	f->stack[4] = called(f, TEXT + ROOT + 0x40);
	f->reg[ABI_REG_FP] = AT(10); /* a register like any other here */
	f->stack[11] = TEXT + ROOT + 0x60;
	walk(f, false);
	EXPECT(f, ABI_WALK_ROOT, 1, 0, EXACT(IN(LEAF)), IN(BARE + 1), IN(ROOT + 0x40));
	/* A call may be a mapping's last instruction. */
	f->stack[2] = called(f, TEXT + CODE_BYTES);
	walk(f, false);
	EXPECT(f, ABI_WALK_ROOT, 2, 0, EXACT(IN(LEAF)), IN(BARE + 1), IN(CODE_BYTES),
	       IN(ROOT + 0x40));
	/* Code that cannot be read is believed. */
	f->blind = true;
	walk(f, false);
	EXPECT(f, ABI_WALK_ROOT, 1, 0, EXACT(IN(LEAF)), IN(BARE + 1), IN(ROOT + 0x60));
}

static void test_signed_return_addresses_are_code_where_processors_sign(void **state)
{
	const uint64_t sign = 0x5aULL << 48;
	struct fake *f = *state;
	const uint64_t ra = called(f, TEXT + ROOT + 0x20) | sign;
	bool arm64 = false;

#ifdef ABI_TEST_ARM64
	arm64 = true;
#endif
	usual(f);
	f->stack[1] = TEXT + BARE + 1;
	/* Found by the frame pointer, on top of the stack, in a leaf's register. */
	for (int i = 0; i < 3; i++) {
		f->reg[ABI_REG_FP] = i == 0 ? AT(10) : 0;
		f->stack[11] = i == 0 ? ra : 0;
		f->stack[2] = i == 1 ? ra : 0;
		if (i == 2) {
			f->pc = TEXT + BARE + 1;
			f->stack[1] = 0;
#ifdef ABI_TEST_ARM64
			f->reg[ABI_REG_LR] = ra;
#endif
		}
		walk(f, false);
		if (arm64 && i < 2)
			EXPECT(f, ABI_WALK_ROOT, 1, 0, EXACT(IN(LEAF)), IN(BARE + 1),
			       IN(ROOT + 0x20));
		else if (arm64)
			EXPECT(f, ABI_WALK_ROOT, 1, 0, EXACT(IN(BARE + 1)), IN(ROOT + 0x20));
		else
			assert_int_equal(f->w.walk, ABI_WALK_UNCOVERED);
	}
}

static void test_jit_code_is_walked_by_frame_pointers_alone(void **state)
{
	struct fake *f = *state;

	usual(f);
	f->pc = JIT + 0x20;
	f->stack[0] = called(f, TEXT + ROOT + 0x20); /* not asked for */
#ifdef ABI_TEST_ARM64
	f->reg[ABI_REG_LR] = f->stack[0];
#endif
	f->reg[ABI_REG_FP] = AT(10);
	f->stack[10] = AT(20);
	f->stack[11] = called(f, JIT + 0x80);
	f->stack[20] = AT(30);
	f->stack[21] = called(f, TEXT + ROOT + 8);
	walk(f, false);
	EXPECT(f, ABI_WALK_ROOT, 0, ABI_STACK_JIT, EXACT(IN_JIT(0x20)), IN_JIT(0x80), IN(ROOT + 8));
	f->stack[10] = 7;
	walk(f, false);
	EXPECT(f, ABI_WALK_JIT, 0, ABI_STACK_JIT, EXACT(IN_JIT(0x20)), IN_JIT(0x80));
	f->reg[ABI_REG_FP] = 0;
	walk(f, false);
	EXPECT(f, ABI_WALK_JIT, 0, ABI_STACK_JIT, EXACT(IN_JIT(0x20)));
}

static void test_code_with_damaged_rules_has_heuristic_frames(void **state)
{
	struct fake *f = *state;

	govern(f, LEAF, ABI_CODE_BAD);
	govern(f, ROOT, ABI_CODE_ROOT);
	publish(f);
	f->reg[ABI_REG_FP] = AT(10);
	f->stack[11] = called(f, TEXT + ROOT + 8);
	walk(f, false);
	EXPECT(f, ABI_WALK_ROOT, 1, 0, EXACT(IN(LEAF)), IN(ROOT + 8));
	f->reg[ABI_REG_FP] = 0;
	walk(f, false);
	EXPECT(f, ABI_WALK_BAD_RULE, 0, 0, EXACT(IN(LEAF)));
}

static void test_an_image_without_a_table_is_reported_or_has_heuristic_frames(void **state)
{
	struct fake *f = *state;

	usual(f);
	f->stack[1] = OTHER + 0x10;
	f->reg[ABI_REG_FP] = AT(10);
	f->stack[11] = called(f, TEXT + ROOT + 8);
	walk(f, false);
	EXPECT(f, ABI_WALK_NO_TABLE, 0, 0, EXACT(IN(LEAF)), IMAGE(2, OTHER_OFF + 0x10));
	assert_int_equal(f->w.image, 2);
	walk(f, true);
	EXPECT(f, ABI_WALK_ROOT, 1, 0, EXACT(IN(LEAF)), IMAGE(2, OTHER_OFF + 0x10), IN(ROOT + 8));
	f->reg[ABI_REG_FP] = 0;
	walk(f, true);
	EXPECT(f, ABI_WALK_NO_TABLE, 0, 0, EXACT(IN(LEAF)), IMAGE(2, OTHER_OFF + 0x10));
	assert_int_equal(f->w.image, 2);
	/* There is none to be had: not worth waiting for. */
	assert_int_equal(uw_store_install(f->store, 2, NULL), 0);
	walk(f, false);
	EXPECT(f, ABI_WALK_UNCOVERED, 0, 0, EXACT(IN(LEAF)), IMAGE(2, OTHER_OFF + 0x10));
	assert_int_equal(f->w.image, 0);
}

static void test_a_leaf_outside_of_known_code_is_kept_and_reported(void **state)
{
	struct fake *f = *state;

	usual(f);
	f->pc = NOWHERE + 3;
	walk(f, false);
	EXPECT(f, ABI_WALK_UNCOVERED, 0, 0, EXACT(NOWHERE + 3));
	assert_true(f->w.unresolved);
	f->reg[ABI_REG_FP] = AT(10);
	f->stack[11] = called(f, TEXT + ROOT + 8);
	walk(f, false);
	EXPECT(f, ABI_WALK_ROOT, 1, 0, EXACT(NOWHERE + 3), IN(ROOT + 8));
	assert_false(f->w.unresolved);
	/* Nor where it ends in known code. */
	f->stack[11] = called(f, TEXT + MID + 8);
	f->stack[15] = 1;
	walk(f, false);
	EXPECT(f, ABI_WALK_BAD_PC, 1, 0, EXACT(NOWHERE + 3), IN(MID + 8));
	assert_false(f->w.unresolved);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	        WALK_TEST(test_a_signal_trampoline_without_rules_restores_all_registers),
	        WALK_TEST(test_what_leads_into_exit_is_a_root),
#ifndef ABI_ARM64
	        WALK_TEST(test_where_a_coroutine_ends_is_a_root),
#endif
	        WALK_TEST(test_an_uncovered_leaf_has_its_return_address_at_hand),
	        WALK_TEST(test_uncovered_code_is_walked_by_frame_pointers),
	        WALK_TEST(test_a_zero_is_a_root_only_after_a_frame_record),
	        WALK_TEST(test_four_words_are_searched_and_no_fifth),
	        WALK_TEST(test_a_pointer_into_code_that_no_call_precedes_is_data),
	        WALK_TEST(test_signed_return_addresses_are_code_where_processors_sign),
	        WALK_TEST(test_jit_code_is_walked_by_frame_pointers_alone),
	        WALK_TEST(test_code_with_damaged_rules_has_heuristic_frames),
	        WALK_TEST(test_an_image_without_a_table_is_reported_or_has_heuristic_frames),
	        WALK_TEST(test_a_leaf_outside_of_known_code_is_kept_and_reported),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
