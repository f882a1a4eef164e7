/* SPDX-License-Identifier: Apache-2.0 */
/* DWARF expressions: what they become, and which need no expression. Built again for arm64. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "cfi_builder.h"
#include "unwind/uw_cfi_priv.h"

#ifdef ABI_ARM64
#define BREG_PC "\x92\x20" /* bregx 32 */
#else
#define BREG_PC "\x80" /* breg16 */
#endif

/* "reg 7 8, const 15, and": registers and arguments that are not 0. */
static char *text_of(const struct uw_ops *ops)
{
	static const char *const names[ABI_OP_CNT] = {
	        "end",   "const", "hi",   "reg", "pc",   "deref", "deref_n", "plus_const", "plus",
	        "minus", "mul",   "and",  "or",  "xor",  "shl",   "shr",     "shra",       "neg",
	        "not",   "abs",   "eq",   "ne",  "lt",   "le",    "gt",      "ge",         "dup",
	        "drop",  "pick",  "swap", "rot", "skip", "bra"};
	struct sbuf b;

	sbuf_init(&b, 4096);
	for (uint32_t i = 0; i + 1 < ops->n; i++) {
		const struct abi_op *o = &ops->op[i];

		(void)sbuf_addf(&b, "%s%s", i ? ", " : "", names[o->op]);
		if (o->reg)
			(void)sbuf_addf(&b, " r%u", o->reg);
		if (o->arg)
			(void)sbuf_addf(&b, " %d", o->arg);
	}
	assert_int_equal(ops->op[ops->n - 1].op, ABI_OP_END);
	return sbuf_take(&b);
}

struct expr_case {
	const uint8_t *p;
	size_t len;
	const char *want; /* NULL: @err */
	int err;
	uint64_t bad;
};

static const struct expr_case cases[] = {
        /* constants */
        {CB("\x30"), "const", 0, 0},
        {CB("\x4f"), "const 31", 0, 0},
        {CB("\x08\xff"), "const 255", 0, 0},
        {CB("\x09\xff"), "const -1", 0, 0},
        {CB("\x0a\xff\xff"), "const 65535", 0, 0},
        {CB("\x0b\xfe\xff"), "const -2", 0, 0},
        {CB("\x0c\xff\xff\xff\x7f"), "const 2147483647", 0, 0},
        {CB("\x0c\xff\xff\xff\xff"), "const -1, hi", 0, 0},
        {CB("\x0d\xff\xff\xff\xff"), "const -1", 0, 0},
        {CB("\x0e\x01\x00\x00\x00\x02\x00\x00\x00"), "const 1, hi 2", 0, 0},
        {CB("\x0f\xff\xff\xff\xff\xff\xff\xff\xff"), "const -1", 0, 0},
        {CB("\x10\x80\x01"), "const 128", 0, 0},
        {CB("\x11\x7f"), "const -1", 0, 0},
        /* registers */
        {CB("\x73\x10"), "reg r3 16", 0, 0},
        {CB("\x92\x03\x70"), "reg r3 -16", 0, 0},
        {CB(BREG_PC "\x04"), "pc 4", 0, 0},
        {CB("\x77\x80\x80\x80\x80\x08"), NULL, -ENOTSUP, 6},
        {CB("\x92\x40\x00"), NULL, -ENOTSUP, 3},
        /* stack */
        {CB("\x70\x00\x12\x13\x14\x15\x03\x16\x17"), "reg, dup, drop, pick 1, pick 3, swap, rot", 0,
         0},
        {CB("\x30\x15\x10"), NULL, -EINVAL, 0},
        /* arithmetic */
        {CB("\x70\x00\x71\x00\x1a\x1c\x1e\x21\x22\x24\x25\x26\x27"),
         "reg, reg r1, and, minus, mul, or, plus, shl, shr, shra, xor", 0, 0},
        {CB("\x70\x00\x19\x1f\x20"), "reg, abs, neg, not", 0, 0},
        {CB("\x70\x00\x71\x00\x29\x2a\x2b\x2c\x2d\x2e"), "reg, reg r1, eq, ge, gt, le, lt, ne", 0,
         0},
        {CB("\x70\x00\x71\x00\x1b"), NULL, -ENOTSUP, 1}, /* div */
        {CB("\x70\x00\x71\x00\x1d"), NULL, -ENOTSUP, 1}, /* mod */
        /* memory */
        {CB("\x70\x00\x06"), "reg, deref", 0, 0},
        {CB("\x70\x00\x94\x01\x94\x02\x94\x04\x94\x08"),
         "reg, deref_n 1, deref_n 2, deref_n 4, deref", 0, 0},
        {CB("\x70\x00\x94\x03"), NULL, -ENOTSUP, 2},
        /* constants that are added */
        {CB("\x70\x08\x23\x10"), "reg 24", 0, 0},
        {CB("\x70\x08\x33\x22"), "reg 11", 0, 0},
        {CB("\x70\x08\x33\x1c"), "reg 5", 0, 0},
        {CB("\x70\x00\x06\x23\x10\x11\x78\x22"), "reg, deref, plus_const 8", 0, 0},
        {CB("\x70\x00\x23\x80\x80\x80\x80\x08"), "reg, const -2147483648, hi, plus", 0, 0},
        {CB("\x70\x08\x23\xff\xff\xff\xff\x07"), "reg 8, plus_const 2147483647", 0, 0},
        {CB("\x70\x08\x33\x26\x22"), "reg 8, const 3, shra, plus", 0, 0},
        /* jumps: the byte counts become counts of operations, nothing is folded */
        {CB("\x70\x00\x28\x03\x00\x31\x23\x02\x12"), "reg, bra 2, const 1, plus_const 2, dup", 0,
         0},
        {CB("\x2f\x02\x00\x23\x02\x70\x00"), "skip 1, plus_const 2, reg", 0, 0},
        {CB("\x30\x2f\x00\x00"), "const, skip", 0, 0},
        {CB("\x30\x2f\x01\x00\x31"), "const, skip 1, const 1", 0, 0},
        {CB("\x30\x2f\xfd\xff"), NULL, -EINVAL, 0},         /* backwards */
        {CB("\x30\x2f\x01\x00"), NULL, -EINVAL, 0},         /* after the end */
        {CB("\x2f\x01\x00\x23\x02\x30"), NULL, -EINVAL, 0}, /* into an operand */
        /* others */
        {CB("\x96\x30\x96"), "const", 0, 0},
        {CB(""), "", 0, 0},
        {CB("\x03\x00\x00\x00\x00\x00\x00\x00\x00"), NULL, -ENOTSUP, 9},
        {CB("\x30\xe0\x01\x02"), NULL, -ENOTSUP, 3},
        /* cut off */
        {CB("\x08"), NULL, -EINVAL, 0},
        {CB("\x0e\x01\x02\x03"), NULL, -EINVAL, 0},
        {CB("\x77"), NULL, -EINVAL, 0},
        {CB("\x77\x80"), NULL, -EINVAL, 0},
        {CB("\x92\x03"), NULL, -EINVAL, 0},
        {CB("\x23\x80"), NULL, -EINVAL, 0},
        {CB("\x30\x28\x01"), NULL, -EINVAL, 0},
        {CB("\x94"), NULL, -EINVAL, 0},
        {CB("\x15"), NULL, -EINVAL, 0},
};

static void test_operations(void **state)
{
	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct uw_ops ops = {.n = 0};
		uint64_t bad = 0;
		int r = uw_expr_decode(cases[i].p, cases[i].len, false, &ops, &bad);

		if (r != cases[i].err || bad != cases[i].bad)
			print_error("case %zu: %d, %lu bytes\n", i, r, bad);
		assert_int_equal(r, cases[i].err);
		assert_int_equal(bad, cases[i].bad);
		if (r == 0) {
			char *got = text_of(&ops);

			assert_string_equal(got ? got : "", cases[i].want);
			free(got);
		}
	}
}

static void test_call_frame_cfa_is_what_was_pushed(void **state)
{
	struct uw_ops ops;
	uint64_t bad = 0;
	char *got;

	(void)state;
	assert_int_equal(uw_expr_decode(CB("\x9c\x38\x1c"), true, &ops, &bad), 0);
	got = text_of(&ops);
	assert_string_equal(got, "dup, plus_const -8");
	free(got);
	assert_int_equal(uw_expr_decode(CB("\x9c"), false, &ops, &bad), -ENOTSUP);
	assert_int_equal(uw_expr_decode(CB("\x30\x9c"), true, &ops, &bad), -ENOTSUP);
}

static void test_length_is_bounded(void **state)
{
	uint8_t p[2000];
	struct uw_ops ops;
	uint64_t bad = 0;

	(void)state;
	memset(p, 0x30, sizeof(p)); /* lit0 */
	assert_int_equal(uw_expr_decode(p, ABI_EXPR_OPS - 1, false, &ops, &bad), 0);
	assert_int_equal(ops.n, ABI_EXPR_OPS);
	assert_int_equal(uw_expr_decode(p, ABI_EXPR_OPS, false, &ops, &bad), -EINVAL);
	memset(p, 0x96, sizeof(p)); /* nop */
	assert_int_equal(uw_expr_decode(p, 1024, false, &ops, &bad), 0);
	assert_int_equal(uw_expr_decode(p, 1025, false, &ops, &bad), -EINVAL);
	assert_int_equal(bad, 0);
}

static void test_shapes_of_a_cfa(void **state)
{
	static const struct {
		const uint8_t *p;
		size_t len;
		const char *want; /* NULL: none */
	} shapes[] = {
	        {CB("\x77\x10"), "r7+16 ra=same"},
	        {CB("\x77\x10\x23\x08"), "r7+24 ra=same"},
	        {CB("\x76\x78\x06"), "[r6-8]+0 ra=same"},
	        {CB("\x76\x78\x06\x23\x10"), "[r6-8]+16 ra=same"},
	        {CB("\x76\x78\x06\x40\x22"), "[r6-8]+16 ra=same"},
	        {CB("\x76\x78\x06\x40\x1c"), "[r6-8]-16 ra=same"},
	        {CB("\x76\x78\x06\x11\x70\x22"), "[r6-8]-16 ra=same"},
	        {CB("\x77\x08" BREG_PC "\x00\x3f\x1a\x3b\x2a\x33\x24\x22"), "r7+8/11 ra=same"},
	        {CB("\x77\x08" BREG_PC "\x00\x3f\x1a\x3a\x2a\x33\x24\x22"), "r7+8/10 ra=same"},
	        {CB("\x77\x08" BREG_PC "\x00\x3f\x1a\x36\x2a\x33\x24\x22"), "r7+8/6 ra=same"},
	        /* near to PLT */
	        {CB("\x77\x08" BREG_PC "\x01\x3f\x1a\x3b\x2a\x33\x24\x22"), NULL},
	        {CB("\x77\x08" BREG_PC "\x00\x3e\x1a\x3b\x2a\x33\x24\x22"), NULL},
	        {CB("\x77\x08" BREG_PC "\x00\x3f\x1a\x3b\x2a\x34\x24\x22"), NULL},
	        {CB("\x77\x08" BREG_PC "\x00\x3f\x1a\x3b\x2b\x33\x24\x22"), NULL},
	        {CB("\x76\x78\x06\x06"), NULL},
	        {CB("\x76\x78\x94\x04"), NULL},
	        {CB("\x30"), NULL},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(shapes); i++) {
		struct uw_rule rule = {.kind = ABI_RULE_FRAME};
		struct uw_ops ops;
		uint64_t bad = 0;
		struct sbuf b;
		int r;

		assert_int_equal(uw_expr_decode(shapes[i].p, shapes[i].len, false, &ops, &bad), 0);
		r = uw_expr_cfa_shape(&ops, &rule);
		assert_int_equal(r, shapes[i].want ? 0 : -ENOENT);
		if (r < 0)
			continue;
		sbuf_init(&b, 256);
		cb_print_rule(&rule, &b);
		assert_string_equal(b.p, shapes[i].want);
		sbuf_done(&b);
	}
}

static void test_shapes_of_a_register(void **state)
{
	static const struct {
		const uint8_t *p;
		size_t len;
		const char *at, *value; /* as address and as value; NULL: none */
	} shapes[] = {
	        {CB("\x77\x10"), "[r7+16]", NULL},
	        {CB("\x77\x70"), "[r7-16]", NULL},
	        {CB("\x77\x00"), "[r7+0]", "r7"},
	        {CB("\x77\xff\xff\xff\x03"), "[r7+8388607]", NULL},
	        {CB("\x77\x80\x80\x80\x04"), NULL, NULL},
	        {CB("\x77\x80\x80\x80\x7c"), "[r7-8388608]", NULL},
	        {CB("\x77\xff\xff\xff\x7b"), NULL, NULL},
	        {CB("\x23\x10"), "[c+16]", "c+16"},
	        {CB("\x38\x1c"), "[c-8]", "c-8"},
	        {CB("\x77\x10\x06"), NULL, NULL},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(shapes); i++) {
		for (int is_value = 0; is_value < 2; is_value++) {
			const char *want = is_value ? shapes[i].value : shapes[i].at;
			struct uw_col c = {0};
			struct uw_ops ops;
			uint64_t bad = 0;
			struct sbuf b;
			int r;

			assert_int_equal(
			        uw_expr_decode(shapes[i].p, shapes[i].len, true, &ops, &bad), 0);
			r = uw_expr_col_shape(&ops, is_value, &c);
			assert_int_equal(r, want ? 0 : -ENOENT);
			if (r < 0)
				continue;
			sbuf_init(&b, 256);
			cb_print_col(&c, &b);
			assert_string_equal(b.p, want);
			sbuf_done(&b);
		}
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	        cmocka_unit_test(test_operations),
	        cmocka_unit_test(test_call_frame_cfa_is_what_was_pushed),
	        cmocka_unit_test(test_length_is_bounded),
	        cmocka_unit_test(test_shapes_of_a_cfa),
	        cmocka_unit_test(test_shapes_of_a_register),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests_name("unwind-expr", tests, NULL, NULL);
}
