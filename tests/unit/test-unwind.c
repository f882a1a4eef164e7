// SPDX-License-Identifier: Apache-2.0
#include "unwind_stack.h"

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

static void test_limit_is_distinguished_from_the_root(void **state)
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

int main(void)
{
	const struct CMUnitTest tests[] = {
	        cmocka_unit_test(test_chain_is_walked_to_its_root),
	        cmocka_unit_test(test_limit_is_distinguished_from_the_root),
	        cmocka_unit_test(test_every_way_to_end),
	        cmocka_unit_test(test_a_loop_in_the_chain_ends),
	        cmocka_unit_test(test_random_memory_is_bounded),
	        cmocka_unit_test(test_calls_before_a_return_address),
	        cmocka_unit_test(test_hash_tells_stacks_apart),
	        cmocka_unit_test(test_no_difference_cancels_whatever_the_seed),
	        cmocka_unit_test(test_hash_tells_flags_apart),
	        cmocka_unit_test(test_own_stack_against_the_compiler),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
