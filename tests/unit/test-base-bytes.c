/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include "base/base.h"

static void test_cursor_numbers_are_little_endian(void **state)
{
	static const uint8_t bytes[] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
	struct cursor c = cursor_of(bytes, sizeof(bytes));
	uint8_t u8;
	uint16_t u16;
	uint32_t u32;
	uint64_t u64;

	(void)state;
	assert_int_equal(cursor_u8(&c, &u8), 0);
	assert_int_equal(u8, 1);
	assert_int_equal(cursor_u16(&c, &u16), 0);
	assert_int_equal(u16, 0x0302);
	assert_int_equal(cursor_u32(&c, &u32), 0);
	assert_int_equal(u32, 0x07060504);
	assert_int_equal(cursor_u64(&c, &u64), 0);
	assert_int_equal(u64, 0x0f0e0d0c0b0a0908);
	assert_int_equal(cursor_left(&c), 0);
}

static void test_cursor_past_the_end_changes_nothing(void **state)
{
	static const uint8_t bytes[7] = {0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff};
	struct cursor sub = {.p = bytes, .end = bytes};
	const char *str = NULL;
	uint8_t u8 = 1, dst[8] = {1};
	uint16_t u16 = 1;
	uint32_t u32 = 1;
	uint64_t u64 = 1;
	int64_t i64 = 1;

	(void)state;
	for (size_t len = 0; len <= sizeof(bytes); len++) {
		struct cursor c = cursor_of(bytes, len);

		if (len < 1)
			assert_int_equal(cursor_u8(&c, &u8), -ENODATA);
		if (len < 2)
			assert_int_equal(cursor_u16(&c, &u16), -ENODATA);
		if (len < 4)
			assert_int_equal(cursor_u32(&c, &u32), -ENODATA);
		assert_int_equal(cursor_u64(&c, &u64), -ENODATA);
		assert_int_equal(cursor_uleb(&c, &u64), -ENODATA);
		assert_int_equal(cursor_sleb(&c, &i64), -ENODATA);
		assert_int_equal(cursor_str(&c, &str), -ENODATA);
		assert_int_equal(cursor_skip(&c, len + 1), -ENODATA);
		assert_int_equal(cursor_skip(&c, SIZE_MAX), -ENODATA);
		assert_int_equal(cursor_bytes(&c, dst, len + 1), -ENODATA);
		assert_int_equal(cursor_sub(&c, len + 1, &sub), -ENODATA);
		assert_ptr_equal(c.p, bytes);
		assert_int_equal(cursor_left(&c), len);
	}
	assert_int_equal(u8 + u16 + u32 + u64 + (uint64_t)i64 + dst[0], 6);
	assert_null(str);
	assert_ptr_equal(sub.end, bytes);
}

static void test_cursor_of_nothing(void **state)
{
	struct cursor c = cursor_of(NULL, 0);
	const char *s = NULL;
	size_t len = 1;

	(void)state;
	assert_int_equal(cursor_left(&c), 0);
	assert_int_equal(cursor_bytes(&c, NULL, 0), 0);
	assert_int_equal(cursor_str(&c, &s), -ENODATA);
	assert_int_equal(cursor_line(&c, &s, &len), -ENODATA);
	assert_null(s);
	assert_int_equal(len, 1);
}

static void test_uleb(void **state)
{
	static const struct {
		const char *bytes;
		size_t len;
		int r;
		uint64_t val;
	} cases[] = {
#define LEB(s) (s), sizeof(s) - 1
	        {LEB("\x00"), 0, 0},
	        {LEB("\x7f"), 0, 127},
	        {LEB("\x80\x01"), 0, 128},
	        {LEB("\xe5\x8e\x26"), 0, 624485},
	        {LEB("\x81\x80\x80\x00"), 0, 1},
	        {LEB("\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"), 0, UINT64_MAX},
	        {LEB("\xff\xff\xff\xff\xff\xff\xff\xff\xff\x81\x80\x00"), 0, UINT64_MAX},
	        {LEB("\x80\x80\x80\x80\x80\x80\x80\x80\x80\x01"), 0, UINT64_C(1) << 63},
	        {LEB("\x80\x80\x80\x80\x80\x80\x80\x80\x80\x02"), -ERANGE, 0},
	        {LEB("\xff\xff\xff\xff\xff\xff\xff\xff\xff\x03"), -ERANGE, 0},
	        {LEB("\x80\x80\x80\x80\x80\x80\x80\x80\x80\x80\x01"), -ERANGE, 0},
	        {LEB("\x80\x80\x80\x80\x80\x80\x80\x80\x80\x80\x80\x80\x80\x01"), -ERANGE, 0},
	        {LEB(""), -ENODATA, 0},
	        {LEB("\x80"), -ENODATA, 0},
	        {LEB("\xff\xff\xff\xff\xff\xff\xff\xff\xff"), -ENODATA, 0},
	        {LEB("\xff\xff\xff\xff\xff\xff\xff\xff\xff\x81"), -ENODATA, 0},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct cursor c = cursor_of(cases[i].bytes, cases[i].len);
		uint64_t val = 0x5a5a;

		assert_int_equal(cursor_uleb(&c, &val), cases[i].r);
		assert_int_equal(cursor_left(&c), cases[i].r == 0 ? 0 : cases[i].len);
		assert_int_equal(val, cases[i].r == 0 ? cases[i].val : 0x5a5a);
	}
}

static void test_sleb(void **state)
{
	static const struct {
		const char *bytes;
		size_t len;
		int r;
		int64_t val;
	} cases[] = {
	        {LEB("\x00"), 0, 0},
	        {LEB("\x3f"), 0, 63},
	        {LEB("\x40"), 0, -64},
	        {LEB("\x7f"), 0, -1},
	        {LEB("\xc0\x00"), 0, 64},
	        {LEB("\x80\x7f"), 0, -128},
	        {LEB("\xc0\xbb\x78"), 0, -123456},
	        {LEB("\xff\xff\xff\x7f"), 0, -1},
	        {LEB("\xff\xff\xff\xff\xff\xff\xff\xff\xff\x00"), 0, INT64_MAX},
	        {LEB("\x80\x80\x80\x80\x80\x80\x80\x80\x80\x7f"), 0, INT64_MIN},
	        {LEB("\xff\xff\xff\xff\xff\xff\xff\xff\xff\x7f"), 0, -1},
	        {LEB("\x80\x80\x80\x80\x80\x80\x80\x80\x80\xff\xff\x7f"), 0, INT64_MIN},
	        {LEB("\x81\x80\x80\x80\x80\x80\x80\x80\x80\x80\x80\x00"), 0, 1},
	        {LEB("\x80\x80\x80\x80\x80\x80\x80\x80\x40"), 0, -(INT64_C(1) << 62)},
	        {LEB("\x80\x80\x80\x80\x80\x80\x80\x80\x80\x01"), -ERANGE, 0},
	        {LEB("\x80\x80\x80\x80\x80\x80\x80\x80\x80\x7e"), -ERANGE, 0},
	        {LEB("\x80\x80\x80\x80\x80\x80\x80\x80\x80\x40"), -ERANGE, 0},
	        {LEB("\x80\x80\x80\x80\x80\x80\x80\x80\x80\x80\x7f"), -ERANGE, 0},
	        {LEB("\x80\x80\x80\x80\x80\x80\x80\x80\x80\xff\x00"), -ERANGE, 0},
	        {LEB(""), -ENODATA, 0},
	        {LEB("\xff"), -ENODATA, 0},
	        {LEB("\x80\x80\x80\x80\x80\x80\x80\x80\x80\xff"), -ENODATA, 0},
#undef LEB
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct cursor c = cursor_of(cases[i].bytes, cases[i].len);
		int64_t val = 0x5a5a;

		if (cursor_sleb(&c, &val) != cases[i].r)
			fail_msg("case %zu", i);
		assert_int_equal(cursor_left(&c), cases[i].r == 0 ? 0 : cases[i].len);
		assert_int_equal(val, cases[i].r == 0 ? cases[i].val : 0x5a5a);
	}
}

/* Every number of a sweep over all magnitudes comes back from its shortest encoding. */
static void test_leb_round_trip(void **state)
{
	(void)state;
	for (unsigned int bit = 0; bit < 64; bit++) {
		for (int delta = -1; delta <= 1; delta++) {
			uint64_t want = (UINT64_C(1) << bit) + (uint64_t)(int64_t)delta, val = want;
			int64_t swant = (int64_t)want, sval = swant;
			uint8_t buf[16];
			struct cursor c;
			size_t n = 0;
			bool more;

			do {
				buf[n++] = (uint8_t)((val & 0x7f) | (val > 0x7f ? 0x80 : 0));
				val >>= 7;
			} while (val);
			c = cursor_of(buf, n);
			assert_int_equal(cursor_uleb(&c, &val), 0);
			assert_int_equal(val, want);
			n = 0;
			do {
				uint8_t low = sval & 0x7f;

				sval >>= 7;
				more = sval != ((low & 0x40) ? -1 : 0);
				buf[n++] = (uint8_t)(low | (more ? 0x80 : 0));
			} while (more);
			c = cursor_of(buf, n);
			assert_int_equal(cursor_sleb(&c, &sval), 0);
			assert_int_equal(sval, swant);
			assert_int_equal(cursor_left(&c), 0);
		}
	}
}

static void test_cursor_parts(void **state)
{
	static const char text[] = "abc\0de\0f";
	struct cursor c = cursor_of(text, sizeof(text) - 1), sub, rest;
	const char *s;
	char buf[4] = {0};

	(void)state;
	assert_int_equal(cursor_str(&c, &s), 0);
	assert_ptr_equal(s, text);
	assert_int_equal(cursor_skip(&c, 0), 0);
	assert_int_equal(cursor_sub(&c, 4, &sub), 0);
	assert_int_equal(cursor_left(&sub), 4);
	assert_int_equal(cursor_left(&c), 0);
	assert_int_equal(cursor_str(&sub, &s), 0);
	assert_string_equal(s, "de");
	assert_int_equal(cursor_str(&sub, &s), -ENODATA); /* the NUL after is not ours */
	assert_int_equal(cursor_bytes(&sub, buf, 1), 0);
	assert_string_equal(buf, "f");
	assert_int_equal(cursor_sub(&sub, 0, &rest), 0);
	assert_int_equal(cursor_left(&rest), 0);
}

static void test_cursor_lines(void **state)
{
	static const char text[] = "one\n\ntwo\0x\nlast";
	static const size_t lens[] = {3, 0, 5, 4};
	struct cursor c = cursor_of(text, sizeof(text) - 1);
	const char *line;
	size_t len;

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(lens); i++) {
		assert_int_equal(cursor_line(&c, &line, &len), 0);
		assert_int_equal(len, lens[i]);
	}
	assert_memory_equal(line, "last", 4);
	assert_int_equal(cursor_line(&c, &line, &len), -ENODATA);
	c = cursor_of("x\n", 2);
	assert_int_equal(cursor_line(&c, &line, &len), 0);
	assert_int_equal(len, 1);
	assert_int_equal(cursor_line(&c, &line, &len),
	                 -ENODATA); /* no empty line after the last \n */
}

/* ---- characters ------------------------------------------------------------------------------ */

static void test_characters_that_a_terminal_obeys(void **state)
{
	static const struct {
		const char *s;
		size_t len;
		bool control;
	} cases[] = {
	        {"a", 1, false},        {"\x1b", 1, true},        {"\x1f", 1, true},
	        {" ", 1, false},        {"~", 1, false},          {"\x7f", 1, true},
	        {"\x9b", 0, false},     {"\xc2\x80", 2, true},    {"\xc2\x9f", 2, true},
	        {"\xc2\xa0", 2, false}, {"\u061b", 2, false},     {"\u061c", 2, true},
	        {"\u061d", 2, false},   {"\u200d", 3, false}, /* joins emoji */
	        {"\u200e", 3, true},    {"\u200f", 3, true},      {"\u2010", 3, false},
	        {"\u2029", 3, false},   {"\u202a", 3, true},      {"\u202e", 3, true},
	        {"\u202f", 3, false},   {"\u2065", 3, false},     {"\u2066", 3, true},
	        {"\u2069", 3, true},    {"\u206a", 3, false},     {"\u20ae", 3, false},
	        {"\u302e", 3, false},   {"\U0001f427", 4, false}, {"\xed\xa0\x80", 0, false},
	        {"\xe2\x80", 0, false},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		const uint8_t *s = (const uint8_t *)cases[i].s;
		const size_t n = utf8_len(s, strlen(cases[i].s));

		if (n != cases[i].len || utf8_is_control(s, n) != cases[i].control)
			fail_msg("case %zu: %zu bytes", i, n);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	        cmocka_unit_test(test_cursor_numbers_are_little_endian),
	        cmocka_unit_test(test_cursor_past_the_end_changes_nothing),
	        cmocka_unit_test(test_cursor_of_nothing),
	        cmocka_unit_test(test_uleb),
	        cmocka_unit_test(test_sleb),
	        cmocka_unit_test(test_leb_round_trip),
	        cmocka_unit_test(test_cursor_parts),
	        cmocka_unit_test(test_cursor_lines),
	        cmocka_unit_test(test_characters_that_a_terminal_obeys),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests_name("base-bytes", tests, NULL, NULL);
}
