// SPDX-License-Identifier: Apache-2.0
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <cmocka.h>

#include "event/event.h"
#include "unwind/unwind.h"

/* Memory of a pretended target: words[] at base; anything else faults. */
struct fake_memory {
	uint64_t base;
	uint64_t words[4096];
	unsigned int reads;
};

static int read_fake(void *arg, uint64_t *ret, uint64_t addr)
{
	struct fake_memory *m = arg;

	m->reads++;
	if (addr < m->base || addr - m->base > sizeof(m->words) - 8)
		return -1;
	memcpy(ret, (const uint8_t *)m->words + (addr - m->base), 8);
	return 0;
}

/* A chain of @n frame records; the last one's saved frame pointer is @end. */
static struct fake_memory *chain(size_t n, uint64_t end)
{
	struct fake_memory *m = calloc(1, sizeof(*m));

	assert_non_null(m);
	m->base = 0x7ffc00001000;
	for (size_t i = 0; i < n; i++) {
		m->words[4 * i] = i + 1 < n ? m->base + 32 * (i + 1) : end;
		m->words[4 * i + 1] = 0x400000 + 16 * i;
	}
	return m;
}

/* The step over what a test calls memory; frame pointers need no rules. */
struct step_mem {
	int (*read)(void *arg, uint64_t *ret, uint64_t addr);
	void *arg;
};

static int step_read(const struct step_mem *m, __u64 *ret, uint64_t addr)
{
	uint64_t v;
	int r = m->read(m->arg, &v, addr);

	if (r == 0)
		*ret = v;
	return r;
}

#define UW_MEM                       const struct step_mem
#define UW_READ(mem, ret, addr)      step_read(mem, ret, addr)
#define UW_READ_CODE(mem, ret, addr) step_read(mem, ret, addr)
#define NOT_CODE                     0x66666660
#define UW_IS_CODE(mem, addr, sure)  ((addr) != NOT_CODE)
#define UW_RULE(mem, i)              ((void)(i), (const struct abi_rule *)NULL)
#define UW_WIDE(mem, i)              ((void)(i), (const struct abi_wide *)NULL)
#define UW_OP(mem, i)                ((void)(i), (const struct abi_op *)NULL)
#include "step/step_compat.h"

/* The leaf's pc, then return addresses; DEPTH when @max was reached. */
static size_t walk_fp(const struct step_mem *mem, uint64_t pc, uint64_t sp, uint64_t fp,
                      uint64_t *pcs, size_t max, int *ret_walk)
{
	struct uw_state u = {.pc = pc};
	size_t n = 0;

	u.reg[ABI_REG_SP] = sp;
	u.reg[ABI_REG_FP] = fp;
	uw_begin(&u);
	*ret_walk = 0;
	while (n < max && *ret_walk == 0) {
		pcs[n++] = u.pc;
		*ret_walk = uw_step_fp(&u, mem);
	}
	if (*ret_walk == 0)
		*ret_walk = ABI_WALK_DEPTH;
	return n;
}

static size_t walk(struct fake_memory *m, uint64_t sp, uint64_t fp, uint64_t *pcs, size_t max,
                   int *ret_walk)
{
	return walk_fp(&(struct step_mem){read_fake, m}, 0x3fffff, sp, fp, pcs, max, ret_walk);
}

static void test_chain_is_walked_to_its_root(void **state)
{
	struct fake_memory *m = chain(25, 0);
	uint64_t pcs[512];
	int stop = -1;
	size_t n = walk(m, m->base, m->base, pcs, 512, &stop);

	(void)state;
	assert_int_equal(n, 26);
	assert_int_equal(stop, ABI_WALK_ROOT);
	assert_int_equal(pcs[0], 0x3fffff);
	for (size_t i = 0; i < 25; i++)
		assert_int_equal(pcs[i + 1], 0x400000 + 16 * i);
	free(m);
}

static void test_limit_is_told_from_the_root(void **state)
{
	struct fake_memory *m = chain(512, 0);
	uint64_t pcs[512];
	int stop = -1;

	(void)state;
	/* 513 frames with the leaf: one too many. */
	assert_int_equal(walk(m, m->base, m->base, pcs, 512, &stop), 512);
	assert_int_equal(stop, ABI_WALK_DEPTH);
	free(m);
	m = chain(511, 0);
	assert_int_equal(walk(m, m->base, m->base, pcs, 512, &stop), 512);
	assert_int_equal(stop, ABI_WALK_ROOT);
	free(m);
}

static void test_every_way_to_end(void **state)
{
	static const struct {
		const char *what;
		uint64_t fp_off; /* from base; ~0: the value in fp itself */
		uint64_t fp, sp_off, next, ra;
		int want;
	} cases[] = {
	        {"no frame pointer", ~0ULL, 0, 0, 0, 0, ABI_WALK_ROOT},
	        {"misaligned", ~0ULL, 0x7ffc00001004, 0, 0, 0, ABI_WALK_IMPLAUSIBLE},
	        {"below the stack pointer", 0, 0, 64, 0, 0x400000, ABI_WALK_IMPLAUSIBLE},
	        {"kernel half", ~0ULL, 0xffff888000000000, 0, 0, 0, ABI_WALK_IMPLAUSIBLE},
	        {"not mapped", ~0ULL, 0x7ffd00000000, 0, 0, 0, ABI_WALK_FAULT},
	        {"no return address", 0, 0, 0, 0x7ffc00001040, 0, ABI_WALK_ROOT},
	        {"return address in page zero", 0, 0, 0, 0x7ffc00001040, 4095, ABI_WALK_BAD_PC},
	        {"return address in the kernel", 0, 0, 0, 0x7ffc00001040, 0xffffffff81000000,
	         ABI_WALK_BAD_PC},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct fake_memory *m = chain(0, 0);
		uint64_t pcs[8];
		int stop = -1;

		m->words[0] = cases[i].next;
		m->words[1] = cases[i].ra;
		if (walk(m, m->base + cases[i].sp_off,
		         cases[i].fp_off == ~0ULL ? cases[i].fp : m->base + cases[i].fp_off, pcs, 8,
		         &stop) != 1 ||
		    stop != cases[i].want)
			fail_msg("%s: ended with %d, not %d", cases[i].what, stop, cases[i].want);
		free(m);
	}
}

static void test_a_loop_in_the_chain_ends(void **state)
{
	struct fake_memory *m = chain(4, 0);
	uint64_t pcs[512];
	int stop = -1;

	(void)state;
	m->words[4 * 3] = m->base; /* back to the first record */
	assert_int_equal(walk(m, m->base, m->base, pcs, 512, &stop), 5);
	assert_int_equal(stop, ABI_WALK_IMPLAUSIBLE);
	free(m);
}

static void test_random_memory_is_bounded(void **state)
{
	uint64_t x = 88172645463325252ULL;

	(void)state;
	for (int round = 0; round < 2000; round++) {
		struct fake_memory *m = chain(0, 0);
		uint64_t pcs[512];
		int stop = -1;
		size_t n;

		for (size_t i = 0; i < ARRAY_SIZE(m->words); i++) {
			x ^= x << 13;
			x ^= x >> 7;
			x ^= x << 17;
			/* Three of four words point into the stack, else walks end at once. */
			m->words[i] = x & 3 ? m->base + (x >> 8) % sizeof(m->words) : x;
		}
		n = walk(m, m->base, m->base + 8 * (x % 4096), pcs, 512, &stop);
		assert_in_range(n, 1, 512);
		assert_in_range(stop, ABI_WALK_ROOT, ABI_WALK_BAD_PC);
		assert_true(m->reads <= 2 * n);
		free(m);
	}
}

static void test_calls_before_a_return_address(void **state)
{
	static const struct {
		uint8_t code[8];
		bool call;
	} cases[] = {
#ifndef ABI_ARM64
	        {{0x90, 0x90, 0x90, 0xe8, 1, 2, 3, 4}, true},             /* call rel32 */
	        {{0x90, 0x90, 0x90, 0x90, 0x90, 0x90, 0xff, 0xd0}, true}, /* call *%rax */
	        {{0x90, 0x90, 0x90, 0x90, 0x90, 0xff, 0x50, 0x08}, true}, /* call *8(%rax) */
	        {{0x90, 0x90, 0x90, 0x90, 0xff, 0x54, 0x24, 0x08}, true}, /* call *8(%rsp) */
	        {{0x90, 0x90, 0xff, 0x15, 1, 2, 3, 4}, true},             /* call *rip+disp32 */
	        {{0x90, 0xff, 0x94, 0x24, 1, 2, 3, 4}, true},             /* call *disp32(%rsp) */
	        {{0}, false},
	        {{0x00, 0x7f, 0x12, 0x34, 0x56, 0x78, 0x00, 0x00}, false}, /* a pointer in data */
	        {{0x90, 0x90, 0x90, 0xe9, 1, 2, 3, 4}, false},             /* jmp rel32 */
	        {{0x90, 0x90, 0x90, 0x90, 0x90, 0x90, 0xff, 0xe0}, false}, /* jmp *%rax */
#elif defined(__aarch64__)
	        {{0, 0, 0, 0, 0x01, 0x00, 0x00, 0x94}, true},  /* bl */
	        {{0, 0, 0, 0, 0x00, 0x00, 0x3f, 0xd6}, true},  /* blr x0 */
	        {{0, 0, 0, 0, 0x00, 0x00, 0x1f, 0xd6}, false}, /* br x0 */
	        {{0}, false},
#endif
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		__u64 before;

		memcpy(&before, cases[i].code, sizeof(before));
		if ((uw_after_call(before) != 0) != cases[i].call)
			fail_msg("case %zu", i);
	}
}

static void test_hash_tells_stacks_apart(void **state)
{
	uint64_t a[3] = {1, 2, 3}, b[3] = {1, 3, 2};

	(void)state;
	assert_int_equal(uw_stack_hash(7, a, 3, ABI_WALK_ROOT, 0),
	                 uw_stack_hash(7, a, 3, ABI_WALK_ROOT, 0));
	assert_int_not_equal(uw_stack_hash(7, a, 3, ABI_WALK_ROOT, 0),
	                     uw_stack_hash(8, a, 3, ABI_WALK_ROOT, 0));
	assert_int_not_equal(uw_stack_hash(7, a, 3, ABI_WALK_ROOT, 0),
	                     uw_stack_hash(7, b, 3, ABI_WALK_ROOT, 0));
	assert_int_not_equal(uw_stack_hash(7, a, 3, ABI_WALK_ROOT, 0),
	                     uw_stack_hash(7, a, 2, ABI_WALK_ROOT, 0));
	assert_int_not_equal(uw_stack_hash(7, a, 3, ABI_WALK_ROOT, 0),
	                     uw_stack_hash(7, a, 3, ABI_WALK_DEPTH, 0));
	assert_int_not_equal(uw_stack_hash(7, NULL, 0, ABI_WALK_NONE, 0), 0);
}

static void test_no_difference_cancels_whatever_the_seed(void **state)
{
	uint64_t x = 0x2545f4914f6cdd1dULL;
	unsigned int same = 0;

	(void)state;
	/* The highest bits pass a multiplication by an odd constant unchanged: a target could flip
	 * them in one frame and undo it in the next. */
	for (int round = 0; round < 1000; round++) {
		uint64_t a[3] = {0x4000000000001111, 0x7f0000002222, 0x7f0000003333}, b[3];

		x ^= x << 13;
		x ^= x >> 7;
		x ^= x << 17;
		memcpy(b, a, sizeof(b));
		b[0] ^= 1ULL << 63;
		b[1] ^= 1ULL << 63 | 1ULL << 31;
		same += uw_stack_hash(x, a, 3, ABI_WALK_ROOT, 0) ==
		        uw_stack_hash(x, b, 3, ABI_WALK_ROOT, 0);
		b[1] = a[1] ^ 1ULL << 63;
		same += uw_stack_hash(x, a, 3, ABI_WALK_ROOT, 0) ==
		        uw_stack_hash(x, b, 3, ABI_WALK_ROOT, 0);
	}
	assert_int_equal(same, 0);
}

static void test_hash_tells_flags_apart(void **state)
{
	static const uint8_t flags[] = {0, ABI_STACK_HEURISTIC, ABI_STACK_JIT,
	                                ABI_STACK_HEURISTIC | ABI_STACK_JIT};
	const uint64_t a[2] = {1, 2};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(flags); i++)
		for (size_t k = 0; k < i; k++)
			assert_int_not_equal(uw_stack_hash(7, a, 2, ABI_WALK_ROOT, flags[i]),
			                     uw_stack_hash(7, a, 2, ABI_WALK_ROOT, flags[k]));
}

/* ---- this very stack ------------------------------------------------------------------------- */

static int read_own(void *arg, uint64_t *ret, uint64_t addr)
{
	(void)arg;
	memcpy(ret, (const void *)(uintptr_t)addr, 8);
	return 0;
}

static uint64_t own_pcs[64];
static size_t own_n;
static void *expected[4];

static __attribute__((noinline)) void innermost(void)
{
	const uint64_t fp = (uintptr_t)__builtin_frame_address(0);
	int stop;

	expected[0] = __builtin_return_address(0);
	/* 4: no further than the test's own functions, whose caller may be built without frame
	 * pointers */
	own_n = walk_fp(&(struct step_mem){.read = read_own}, (uintptr_t)&innermost, fp - 16, fp,
	                own_pcs, 4, &stop);
}

static __attribute__((noinline)) void middle(void)
{
	expected[1] = __builtin_return_address(0);
	innermost();
	__asm__ volatile("");
}

static __attribute__((noinline)) void outer(void)
{
	expected[2] = __builtin_return_address(0);
	middle();
	__asm__ volatile("");
}

static void test_own_stack_against_the_compiler(void **state)
{
	(void)state;
	outer();
	__asm__ volatile("");
	assert_int_equal(own_n, 4);
	for (size_t i = 0; i < 3; i++)
		assert_ptr_equal((void *)(uintptr_t)own_pcs[i + 1], expected[i]);
}

/* ---- what code says about itself ------------------------------------------------------------- */

/* Of a frame at @pc, and in code that @m holds. */
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
	/* A leaf in a system call: what stands before it decides, and may be on another page. */
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
static void test_frame_that_is_popped_behind_the_call(void **state)
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
	m->words[1] = 0x90909090909090c3; /* at ret, not behind a call */
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
	/* What stands in the upper halves of registers means nothing. */
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
	/* In a system call pc is behind its instruction: what follows was not begun. */
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
	        cmocka_unit_test(test_chain_is_walked_to_its_root),
	        cmocka_unit_test(test_limit_is_told_from_the_root),
	        cmocka_unit_test(test_every_way_to_end),
	        cmocka_unit_test(test_a_loop_in_the_chain_ends),
	        cmocka_unit_test(test_random_memory_is_bounded),
	        cmocka_unit_test(test_calls_before_a_return_address),
	        cmocka_unit_test(test_hash_tells_stacks_apart),
	        cmocka_unit_test(test_no_difference_cancels_whatever_the_seed),
	        cmocka_unit_test(test_hash_tells_flags_apart),
	        cmocka_unit_test(test_own_stack_against_the_compiler),
	        cmocka_unit_test(test_code_that_cannot_be_read_is_not_called_ordinary),
#ifndef ABI_ARM64
	        cmocka_unit_test(test_frame_that_is_popped_behind_the_call),
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
