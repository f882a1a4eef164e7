/* SPDX-License-Identifier: Apache-2.0 */
/* Stacks of 32-bit code, and special frames. */
#include "unwind_stack.h"

/* ---- what code says about itself ------------------------------------------------------------- */

/* Classifies a frame at @pc, and in code that @m holds. */
static enum uw_special special(struct fake_memory *m, uint64_t pc, bool leaf, bool exact)
{
	const struct uw_state u = {.pc = pc, .leaf = leaf, .exact = exact};

	return uw_special(&u, &(struct step_mem){read_fake, m});
}

static void test_code_that_cannot_be_read_is_not_called_ordinary(void **state)
{
	struct fake_memory *m = chain(1, 0);
	const uint64_t end = m->base + sizeof(m->words);
	const uint64_t sigreturn = UW_SIGRETURN;

	(void)state;
	for (int kind = 0; kind < 4; kind++) {
		assert_int_equal(special(m, end, kind & 1, kind & 2), UW_UNREAD);
		assert_int_equal(special(m, m->base - 8, kind & 1, kind & 2), UW_UNREAD);
		assert_int_equal(special(m, end - 8, kind & 1, kind & 2), UW_ORDINARY);
	}
	/* A leaf in a system call: what is before it decides, and may be on another page. */
	assert_int_equal(special(m, m->base, true, false), UW_UNREAD);
	assert_int_equal(special(m, m->base + UW_SIGRETURN_LEN - 1, true, false), UW_UNREAD);
	assert_int_equal(special(m, m->base + UW_SIGRETURN_LEN, true, false), UW_ORDINARY);
	memcpy(m->words, &sigreturn, sizeof(sigreturn));
	assert_int_equal(special(m, m->base + UW_SIGRETURN_LEN, true, false), UW_TRAMPOLINE);
	/* The others do not ask for it. */
	m->words[0] = 0;
	assert_int_equal(special(m, m->base, true, true), UW_ORDINARY);
	assert_int_equal(special(m, m->base, false, false), UW_ORDINARY);
	assert_int_equal(special(m, m->base, false, true), UW_ORDINARY);
	free(m);
}

#ifndef ABI_ARM64
static void test_frame_that_is_popped_after_the_call(void **state)
{
	struct fake_memory *m = chain(1, 0);
	struct step_mem mem = {read_fake, m};
	struct uw_state u = {.pc = m->base + 8};

	(void)state;
	m->words[1] = 0x9090c308c48348; /* add $8, %rsp; ret */
	m->words[4] = 0x401234;
	u.reg[ABI_REG_SP] = m->base + 24;
	u.reg[ABI_REG_FP] = 77;
	assert_int_equal(special(m, m->base + 8, false, false), UW_FRAME_POPS);
	assert_int_equal(special(m, m->base + 8, false, true), UW_FRAME_POPS);
	assert_int_equal(uw_step_heuristic(&u, &mem, UW_FRAME_POPS, ABI_CODE_NONE, 1), 0);
	assert_int_equal(u.pc, 0x401234);
	assert_int_equal(u.reg[ABI_REG_SP], m->base + 40);
	assert_int_equal(u.heuristic, 0);
	m->words[1] = 0x90909090909090c3; /* at ret, not after a call */
	assert_int_equal(special(m, m->base + 8, false, true), UW_FRAME_POPS);
	assert_int_equal(special(m, m->base + 8, false, false), UW_ORDINARY);
	u = (struct uw_state){.pc = m->base + 8, .exact = 1};
	u.reg[ABI_REG_SP] = m->base + 32;
	assert_int_equal(uw_step_heuristic(&u, &mem, UW_FRAME_POPS, ABI_CODE_NONE, 1), 0);
	assert_int_equal(u.pc, 0x401234);
	assert_int_equal(u.reg[ABI_REG_SP], m->base + 40);
	m->words[1] = 0x90c308c48348d1ff; /* at call *%rcx */
	assert_int_equal(special(m, m->base + 8, false, true), UW_FRAME_POPS);
	m->words[1] = 0x8348d1ff08ec8348; /* at sub $8, %rsp before it */
	assert_int_equal(special(m, m->base + 8, false, true), UW_FRAME_POPS);
	m->words[1] = 0x9090c300c48348; /* by nothing, by half a word, upwards */
	assert_int_equal(special(m, m->base + 8, false, false), UW_ORDINARY);
	m->words[1] = 0x9090c304c48348;
	assert_int_equal(special(m, m->base + 8, false, false), UW_ORDINARY);
	m->words[1] = 0x9090c3f8c48348;
	assert_int_equal(special(m, m->base + 8, false, false), UW_ORDINARY);
	m->words[1] = 0x90909008c48348; /* no return */
	assert_int_equal(special(m, m->base + 8, false, false), UW_ORDINARY);
	free(m);
}
#endif

/* ---- 32-bit code ----------------------------------------------------------------------------- */

#ifndef ABI_ARM64
#define LOW 0xfff00000u

/* Memory below 4 GiB, of words of 4 bytes; the leaf's code lies at its end. */
static struct fake_memory *low_memory(void)
{
	struct fake_memory *m = calloc(1, sizeof(*m));

	assert_non_null(m);
	m->base = LOW;
	return m;
}

static uint32_t *word32(struct fake_memory *m, uint32_t addr)
{
	return (uint32_t *)(void *)((uint8_t *)m->words + (addr - LOW));
}

static void record32(struct fake_memory *m, uint32_t at, uint32_t fp, uint32_t ra)
{
	*word32(m, at) = fp;
	*word32(m, at + 4) = ra;
}

#define CODE_AT (LOW + 0x7000)

/* Walks with the leaf at CODE_AT, whose bytes are @code with the one before it first. */
static size_t walk32(struct fake_memory *m, const char *code, size_t len, uint64_t sp, uint64_t fp,
                     bool exact, uint64_t *pcs, size_t max, int *ret_walk)
{
	const struct step_mem mem = {read_fake, m};
	struct uw_state u = {.pc = CODE_AT};
	size_t n = 0;

	memset((uint8_t *)m->words + 0x6fff, 0x90, 16);
	memcpy((uint8_t *)m->words + 0x6fff, code, len);
	u.reg[ABI_REG_SP] = sp;
	u.reg[ABI_REG_FP] = fp;
	uw_begin(&u);
	u.exact = exact;
	*ret_walk = 0;
	while (n < max && *ret_walk == 0) {
		pcs[n++] = u.pc;
		*ret_walk = uw_step_compat(&u, &mem);
	}
	assert_int_equal(u.heuristic, n - (*ret_walk != 0));
	return n;
}

static void test_records_of_32_bit_code(void **state)
{
	struct fake_memory *m = low_memory();
	uint64_t pcs[16];
	int stop;

	(void)state;
	record32(m, LOW + 0x10, LOW + 0x20, 0x8048001);
	record32(m, LOW + 0x20, LOW + 0x3c, 0x8048002); /* 4-byte aligned is enough */
	record32(m, LOW + 0x3c, 0, 0x8048003);
	/* The upper halves of registers mean nothing. */
	for (int upper = 0; upper < 2; upper++) {
		uint64_t high = upper ? 0xdeadbeef00000000 : 0;

		assert_int_equal(
		        walk32(m, "", 0, high | LOW, high | (LOW + 0x10), true, pcs, 16, &stop), 4);
		assert_int_equal(stop, ABI_WALK_ROOT);
		assert_int_equal(pcs[0], CODE_AT);
		assert_int_equal(pcs[1], 0x8048001);
		assert_int_equal(pcs[2], 0x8048002);
		assert_int_equal(pcs[3], 0x8048003);
	}
	record32(m, LOW + 0x3c, LOW + 0x50, 0); /* a return address of 0 is the end as well */
	assert_int_equal(walk32(m, "", 0, LOW, LOW + 0x10, true, pcs, 16, &stop), 3);
	assert_int_equal(stop, ABI_WALK_ROOT);
	free(m);
}

static void test_32_bit_leaves_without_a_frame(void **state)
{
#define CODE(s) s, sizeof(s) - 1
	/* The first byte is the one before pc. */
	static const struct {
		const char *code;
		size_t len;
		uint32_t first; /* the caller that is found: 1 top, 2 pushed, 3 record */
	} cases[] = {
	        {CODE("\xc3\x55\x89\xe5"), 1},     {CODE("\xc3\x55\x8b\xec"), 1},
	        {CODE("\x55\x89\xe5\x90"), 2},     {CODE("\x55\x8b\xec\x90"), 2},
	        {CODE("\x90\xf3\x0f\x1e\xfb"), 1}, {CODE("\xc9\xc3"), 1},
	        {CODE("\xc9\xc2\x08\x00"), 1},     {CODE("\x90\x8b\x04\x24\xc3"), 1},
	        {CODE("\x90\x8b\x1c\x24\xc3"), 1}, {CODE("\x90\x8b\x04\x24\x90"), 3},
	        {CODE("\x90\x55\x90\x90"), 3},     {CODE("\xe5\x90\x90\x90"), 3},
	        {CODE("\xc3\x90\x90\x90"), 3},
	};
	struct fake_memory *m = low_memory();
	uint64_t pcs[16];
	int stop;

	(void)state;
	*word32(m, LOW) = 0x8048001;            /* on top, or a pushed frame pointer */
	record32(m, LOW + 0x100, 0, 0x8048003); /* the caller's */
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		bool pushed = cases[i].first == 2;

		*word32(m, LOW) = pushed ? LOW + 0x100 : 0x8048001;
		*word32(m, LOW + 4) = pushed ? 0x8048002 : 0x1111;
		walk32(m, cases[i].code, cases[i].len, LOW, LOW + 0x100, true, pcs, 16, &stop);
		assert_int_equal(stop, ABI_WALK_ROOT);
		if (pcs[1] != 0x8048000 + cases[i].first)
			fail_msg("case %zu: %llx", i, (unsigned long long)pcs[1]);
		if (cases[i].first != 3)
			assert_int_equal(pcs[2], 0x8048003);
	}
	/* In a system call pc is after its instruction: what follows was not begun. */
	walk32(m, "\x80\xc3", 2, LOW, LOW + 0x100, false, pcs, 16, &stop);
	assert_int_equal(pcs[1], 0x8048003);
	free(m);
#undef CODE
}

/* The frame pointer in the registers is none: it may hold an argument. */
static void test_system_call_of_the_32_bit_vdso(void **state)
{
	static const char code[] = "\x05\x5d\x5a\x59\xc3";
	struct fake_memory *m = low_memory();
	const struct step_mem mem = {read_fake, m};

	(void)state;
	memset((uint8_t *)m->words + 0x6fff, 0x90, 16);
	memcpy((uint8_t *)m->words + 0x6fff, code, sizeof(code) - 1);
	record32(m, LOW + 0x10, LOW + 0x100, 0x1111); /* %ebp, %edx */
	record32(m, LOW + 0x18, 0x2222, 0x8048001);   /* %ecx, the caller */
	record32(m, LOW + 0x100, LOW + 0x120, 0x8048002);
	record32(m, LOW + 0x120, 0, 0x8048003);
	for (int in_call = 0; in_call < 2; in_call++) {
		struct uw_state u = {.pc = CODE_AT};
		uint32_t found = 0;

		u.reg[ABI_REG_SP] = LOW + 0x10;
		u.reg[ABI_REG_FP] = 7;
		uw_begin(&u);
		u.exact = !in_call;
		while (uw_step_compat(&u, &mem) == 0)
			assert_int_equal(u.pc, 0x8048001 + found++);
		assert_int_equal(found, in_call ? 3 : 0);
		assert_int_equal(u.heuristic, in_call ? 2 : 0);
	}
	free(m);
}

static void test_every_way_to_end_of_32_bit_code(void **state)
{
	struct fake_memory *m = low_memory();
	const uint32_t end = LOW + sizeof(m->words);
	const struct {
		uint32_t sp, fp, next, ra;
		int walk;
		size_t n;
	} cases[] = {
	        {LOW, 0, 0, 0, ABI_WALK_IMPLAUSIBLE, 1}, /* it may be anything in a register */
	        {LOW, LOW + 0x102, 0, 1, ABI_WALK_IMPLAUSIBLE, 1},
	        {LOW + 0x104, LOW + 0x100, 0, 0x8048001, ABI_WALK_IMPLAUSIBLE, 1},
	        {LOW, end - 4, 0, 0, ABI_WALK_FAULT, 1},
	        {LOW, end, 0, 0, ABI_WALK_FAULT, 1},
	        {LOW, LOW + 0x100, LOW + 0x200, NOT_CODE, ABI_WALK_IMPLAUSIBLE, 1},
	        {LOW, LOW + 0x100, LOW + 0x200, 4095, ABI_WALK_BAD_PC, 1},
	        {LOW, LOW + 0x100, LOW + 0x100, 0x8048001, ABI_WALK_IMPLAUSIBLE, 2}, /* a loop */
	        {LOW, LOW + 0x100, LOW, 0x8048001, ABI_WALK_IMPLAUSIBLE, 2},         /* down */
	        {LOW, LOW + 0x100, LOW + 0x104, 0x8048001, ABI_WALK_IMPLAUSIBLE, 2}, /* overlaps */
	        {LOW, 0xfffffffc, 0, 0, ABI_WALK_IMPLAUSIBLE, 1}, /* past the end of addresses */
	        {0xfffffffc, LOW, 0, 0, ABI_WALK_IMPLAUSIBLE, 1},
	        {LOW, LOW + 0x100, 0, 0, ABI_WALK_IMPLAUSIBLE, 1}, /* no record, but zeros */
	};
	uint64_t pcs[16];
	int stop;

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		size_t n;

		record32(m, LOW + 0x100, cases[i].next, cases[i].ra);
		n = walk32(m, "", 0, cases[i].sp, cases[i].fp, true, pcs, 16, &stop);
		if (n != cases[i].n || stop != cases[i].walk)
			fail_msg("case %zu: %zu frames, %s", i, n, ev_walk_name(stop));
	}
	/* At the limit. */
	for (uint32_t i = 0; i < 20; i++)
		record32(m, LOW + 0x100 + 8 * i, LOW + 0x108 + 8 * i, 0x8048001);
	assert_int_equal(walk32(m, "", 0, LOW, LOW + 0x100, true, pcs, 16, &stop), 16);
	assert_int_equal(stop, 0);
	free(m);
}
#endif

int main(void)
{
	const struct CMUnitTest tests[] = {
	        cmocka_unit_test(test_code_that_cannot_be_read_is_not_called_ordinary),
#ifndef ABI_ARM64
	        cmocka_unit_test(test_frame_that_is_popped_after_the_call),
#endif
#ifndef ABI_ARM64
	        cmocka_unit_test(test_records_of_32_bit_code),
	        cmocka_unit_test(test_32_bit_leaves_without_a_frame),
	        cmocka_unit_test(test_every_way_to_end_of_32_bit_code),
	        cmocka_unit_test(test_system_call_of_the_32_bit_vdso),
#endif
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
