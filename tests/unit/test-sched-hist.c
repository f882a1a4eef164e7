/* SPDX-License-Identifier: Apache-2.0 */
/* The buckets of the scheduler statistics, which programs compute without an instruction for a
 * logarithm. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "base/base.h"
#include "bpf/abi/abi_sched.h"

#define SUB (1U << ABI_HIST_SUB_BITS)

/* By floor(log2). */
static uint32_t plain(uint64_t v)
{
	uint32_t octave;

	if (v < SUB)
		return (uint32_t)v;
	octave = 63 - (uint32_t)__builtin_clzll(v);
	if (octave >= ABI_HIST_OCTAVES)
		return ABI_HIST_BUCKETS - 1;
	return (octave - ABI_HIST_SUB_BITS + 1) * SUB +
	       (uint32_t)(v >> (octave - ABI_HIST_SUB_BITS)) % SUB;
}

static void test_buckets_are_those_of_floor_log2(void **state)
{
	uint64_t x = 88172645463325252ULL;

	(void)state;
	for (uint64_t v = 0; v < 1 << 20; v++)
		assert_int_equal(abi_hist_bucket(v), plain(v));
	for (int shift = 0; shift < 64; shift++) {
		uint64_t edge = 1ULL << shift;

		for (uint64_t d = 0; d < 300; d++) {
			assert_int_equal(abi_hist_bucket(edge + d), plain(edge + d));
			assert_int_equal(abi_hist_bucket(edge - d), plain(edge - d));
		}
	}
	for (int i = 0; i < 1000000; i++) {
		x ^= x << 13;
		x ^= x >> 7;
		x ^= x << 17;
		assert_int_equal(abi_hist_bucket(x >> (i & 63)), plain(x >> (i & 63)));
	}
	assert_int_equal(abi_hist_bucket(UINT64_MAX), ABI_HIST_BUCKETS - 1);
}

static void test_buckets_ascend_without_gaps(void **state)
{
	uint64_t low = 0;

	(void)state;
	/* Each bucket begins where the one before ends, and is at most 1/64 of its values wide. */
	for (uint32_t b = 0; b + 1 < ABI_HIST_BUCKETS; b++) {
		uint64_t width = b < 2 * SUB ? 1 : 1ULL << (b / SUB - 1);

		assert_int_equal(abi_hist_bucket(low), b);
		assert_int_equal(abi_hist_bucket(low + width - 1), b);
		assert_true(width == 1 || width <= low / SUB);
		low += width;
	}
	assert_int_equal(abi_hist_bucket(low), ABI_HIST_BUCKETS - 1);
	assert_int_equal(low, (1ULL << ABI_HIST_OCTAVES) - (1ULL << (ABI_HIST_OCTAVES - 7)));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	        cmocka_unit_test(test_buckets_are_those_of_floor_log2),
	        cmocka_unit_test(test_buckets_ascend_without_gaps),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
