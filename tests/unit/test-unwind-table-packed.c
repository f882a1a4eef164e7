/* SPDX-License-Identifier: Apache-2.0 */
/* Unwind tables as they are packed for the kernel side. */
#include "pretended_file.h"

/* ---- packed ---------------------------------------------------------------------------------- */

/* @gap: rows are at most so far apart; 1: a row at each byte. */
static struct uw_table *random_table(uint32_t n_chunks, uint32_t gap, uint32_t holes)
{
	struct uw_table *t = calloc(1, sizeof(*t));
	uint64_t bytes = (uint64_t)n_chunks << ABI_CHUNK_SHIFT, rel = 0;

	assert_non_null(t);
	t->lo = (uint64_t)below(1000) << ABI_CHUNK_SHIFT;
	t->n_chunks = n_chunks;
	t->rows = malloc((bytes + 1) * sizeof(*t->rows));
	assert_non_null(t->rows);
	while (rel < bytes) {
		uint16_t code = (uint16_t)rnd();

		if (t->n_rows && code == t->rows[t->n_rows - 1].code)
			code ^= 1;
		t->rows[t->n_rows++] = (struct uw_row){.rel = (uint32_t)rel, .code = code};
		rel += 1 + below(gap);
		if (holes && below(holes) == 0)
			rel += below(5 * ABI_CHUNK_BYTES);
	}
	return t;
}

static uint16_t code_at(const struct uw_store *s, uint32_t image, uint64_t off)
{
	uint16_t code = 0x1234;

	assert_int_equal(uw_store_code(s, image, off, &code), 0);
	return code;
}

static void check_packed(const struct uw_store *s, uint32_t image, const struct uw_table *t,
                         uint32_t step)
{
	uint64_t bytes = (uint64_t)t->n_chunks << ABI_CHUNK_SHIFT;

	for (uint64_t o = 0; o < bytes; o += 1 + below(step))
		if (code_at(s, image, t->lo + o) != uw_table_find(t, t->lo + o))
			fail_msg("image %u offset %#jx of %#jx", image, (uintmax_t)o,
			         (uintmax_t)bytes);
	for (uint32_t i = 0; i < t->n_rows; i += 1 + below(step)) {
		uint64_t o = t->lo + t->rows[i].rel;

		assert_int_equal(code_at(s, image, o), t->rows[i].code);
		if (i > 0)
			assert_int_equal(code_at(s, image, o - 1), t->rows[i - 1].code);
	}
	if (t->lo)
		assert_int_equal(code_at(s, image, t->lo - 1), ABI_CODE_NONE);
	assert_int_equal(code_at(s, image, t->lo + bytes), ABI_CODE_NONE);
	assert_int_equal(code_at(s, image, UINT64_MAX), ABI_CODE_NONE);
}

static void test_packed_tables_say_the_same_at_any_base(void **state)
{
	(void)state;
	for (int round = 0; round < 12; round++) {
		struct fake_words *w = fw_new();
		struct uw_backing b = fw_backing(w, FW_SEGMENTS);
		_cleanup_(uw_store_freep) struct uw_store *s = NULL;
		struct uw_table *t[40];

		assert_int_equal(uw_store_new(&b, 0, &s), 0);
		for (uint32_t i = 0; i < ARRAY_SIZE(t); i++) {
			t[i] = random_table(1 + below(40), 1 + below(below(2) ? 4 : 300),
			                    below(3) * 20);
			assert_int_equal(uw_store_install(s, i, t[i]), 0);
		}
		for (uint32_t i = 0; i < ARRAY_SIZE(t); i++) {
			check_packed(s, i, t[i], 7);
			uw_table_freep(&t[i]);
		}
		uw_store_freep(&s);
		fw_free(w);
	}
}

static void test_a_row_at_each_byte(void **state)
{
	struct fake_words *w = fw_new();
	struct uw_backing b = fw_backing(w, FW_SEGMENTS);
	_cleanup_(uw_store_freep) struct uw_store *s = NULL;
	/* 100 chunks of 2,048 rows: each value holds 8 of them at most, most chunks meet the end of
	 * one. */
	_cleanup_(uw_table_freep) struct uw_table *odd = random_table(1, 100, 0);
	_cleanup_(uw_table_freep) struct uw_table *t = random_table(100, 1, 0);
	_cleanup_(uw_table_freep) struct uw_table *one = random_table(3, 1, 0);

	(void)state;
	assert_int_equal(t->n_rows, 100 * ABI_CHUNK_BYTES);
	one->n_rows = 1;
	assert_int_equal(uw_store_new(&b, 0, &s), 0);
	assert_int_equal(uw_store_install(s, 0, odd), 0);
	assert_int_equal(uw_store_install(s, 1, t), 0);
	assert_int_equal(uw_store_install(s, 2, one), 0);
	check_packed(s, 1, t, 1);
	check_packed(s, 0, odd, 1);
	check_packed(s, 2, one, 1);
	/* A chunk that one code governs costs its two words of index only. */
	assert_int_equal(w->images[2].base % 2, 0);
	assert_int_equal(w->segments[w->images[2].base >> ABI_SEGMENT_SHIFT]
	                            [(w->images[2].base & (ABI_SEGMENT_WORDS - 1)) + 1],
	                 0);
	uw_store_freep(&s);
	fw_free(w);
}

static void test_a_table_as_large_as_llvms(void **state)
{
	struct fake_words *w = fw_new();
	struct uw_backing b = fw_backing(w, FW_SEGMENTS);
	_cleanup_(uw_store_freep) struct uw_store *s = NULL;
	_cleanup_(uw_table_freep) struct uw_table *t = random_table(30000, 128, 0);
	struct uw_store_stats st;

	(void)state;
	assert_true(t->n_rows > 900000);
	assert_int_equal(uw_store_new(&b, 0, &s), 0);
	assert_int_equal(uw_store_install(s, 7, t), 0);
	check_packed(s, 7, t, 300);
	uw_store_stats(s, &st);
	assert_int_equal(st.rows, t->n_rows);
	assert_in_range(st.bytes, 4ULL * t->n_rows, 4ULL * t->n_rows + 4 * 4ULL * t->n_chunks);
	uw_store_freep(&s);
	fw_free(w);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	        cmocka_unit_test(test_packed_tables_say_the_same_at_any_base),
	        cmocka_unit_test(test_a_row_at_each_byte),
	        cmocka_unit_test(test_a_table_as_large_as_llvms),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
