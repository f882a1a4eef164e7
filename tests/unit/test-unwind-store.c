// SPDX-License-Identifier: Apache-2.0
/* The word space: who gets a place, who has to go, and when words may be written again. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <cmocka.h>

#include "fake_words.h"
#include "unwind/unwind_priv.h"

#define REST_NS       (100 * NSEC_PER_MSEC)
#define SEGMENT_BYTES (4ULL * ABI_SEGMENT_WORDS)

static uint64_t now = 1000 * NSEC_PER_SEC;

uint64_t __wrap_now_ns(void);
uint64_t __wrap_now_ns(void)
{
	return now;
}

static uint64_t rnd_state = 88172645463325252ULL;

static uint32_t below(uint32_t n)
{
	rnd_state ^= rnd_state << 13;
	rnd_state ^= rnd_state >> 7;
	rnd_state ^= rnd_state << 17;
	return (uint32_t)((rnd_state * 0x2545f4914f6cdd1dULL >> 8) % n);
}

/* @n_chunks of one code each: 2 * n_chunks words. */
static struct uw_table *plain_table(uint32_t n_chunks, uint16_t code)
{
	struct uw_table *t = calloc(1, sizeof(*t));

	assert_non_null(t);
	t->n_chunks = n_chunks;
	t->rows = calloc(1, sizeof(*t->rows));
	assert_non_null(t->rows);
	t->rows[0].code = code;
	t->n_rows = 1;
	return t;
}

/* Installs such a table. */
static int put(struct uw_store *s, uint32_t image, uint64_t bytes)
{
	struct uw_table *t = plain_table((uint32_t)(bytes / 8), (uint16_t)(image + 100));
	int r = uw_store_install(s, image, t);

	uw_table_freep(&t);
	return r;
}

static int code_of(const struct uw_store *s, uint32_t image)
{
	uint16_t code;
	int r = uw_store_code(s, image, 5, &code);

	return r < 0 ? r : code;
}

struct fixture {
	struct fake_words *w;
	struct uw_store *s;
};

static struct fixture setup(uint32_t segments, uint64_t budget)
{
	struct fixture f = {.w = fw_new()};
	struct uw_backing b = fw_backing(f.w, segments);

	assert_int_equal(uw_store_new(&b, budget, &f.s), 0);
	return f;
}

static void teardown(struct fixture *f)
{
	uw_store_freep(&f->s);
	fw_free(f->w);
}

static void test_a_table_is_installed_once(void **state)
{
	struct fixture f = setup(4, 0);
	struct abi_image *im = f.w->images;
	struct uw_store_stats st;

	(void)state;
	assert_int_equal(code_of(f.s, 3), -EAGAIN);
	assert_int_equal(put(f.s, 3, 800), 0);
	assert_int_equal(code_of(f.s, 3), 103);
	assert_int_equal(put(f.s, 3, 800), -EEXIST);
	assert_int_equal(uw_store_install(f.s, 3, NULL), -EEXIST);
	assert_int_equal(code_of(f.s, 3), 103);
	assert_int_equal(put(f.s, 4, 800), 0);
	assert_int_equal(im[3].state, ABI_TABLE_READY);
	assert_int_equal(im[3].serial, 1);
	assert_int_equal(im[4].serial, 2);
	assert_int_equal(im[3].n_chunks, 100);
	assert_int_equal(im[4].base, 200);
	assert_int_equal(put(f.s, FW_IMAGES, 800), -ENOENT);
	assert_int_equal(code_of(f.s, FW_IMAGES), -ENOENT);
	uw_store_stats(f.s, &st);
	assert_int_equal(st.installed, 2);
	assert_int_equal(st.bytes, 1600);
	assert_int_equal(st.segments, 1);
	assert_int_equal(st.rows, 2);
	assert_int_equal(st.refused + st.evicted, 0);
	teardown(&f);
	assert_null(uw_store_free(NULL));
}

static void test_none_is_distinguished_from_not_yet(void **state)
{
	struct fixture f = setup(4, 0);
	struct uw_table empty = {0};

	(void)state;
	assert_int_equal(uw_store_install(f.s, 5, NULL), 0);
	assert_int_equal(f.w->images[5].state, ABI_TABLE_NONE);
	assert_int_equal(code_of(f.s, 5), -ENOENT);
	assert_int_equal(uw_store_install(f.s, 5, NULL), 0);
	assert_int_equal(uw_store_install(f.s, 6, &empty), 0);
	assert_int_equal(f.w->images[6].state, ABI_TABLE_NONE);
	assert_int_equal(f.w->made, 0);
	/* There may be one later. */
	assert_int_equal(put(f.s, 5, 800), 0);
	assert_int_equal(code_of(f.s, 5), 105);
	teardown(&f);
}

static void test_larger_than_the_budget_is_refused(void **state)
{
	struct fixture f = setup(8, 4 * SEGMENT_BYTES);
	struct uw_store_stats st;

	(void)state;
	assert_int_equal(put(f.s, 1, 800), 0);
	assert_int_equal(put(f.s, 2, 4 * SEGMENT_BYTES + 8), -ENOSPC);
	assert_int_equal(f.w->images[2].state, ABI_TABLE_NONE);
	/* No table was evicted for it. */
	assert_int_equal(code_of(f.s, 1), 101);
	uw_store_stats(f.s, &st);
	assert_int_equal(st.refused, 1);
	assert_int_equal(st.evicted, 0);
	teardown(&f);
	/* The space bounds the budget. */
	f = setup(2, 0);
	assert_int_equal(put(f.s, 2, 2 * SEGMENT_BYTES + 8), -ENOSPC);
	assert_int_equal(put(f.s, 3, 2 * SEGMENT_BYTES), 0);
	assert_int_equal(f.w->made, 2);
	teardown(&f);
}

static void test_the_longest_unused_goes_first(void **state)
{
	struct fixture f = setup(8, 400);
	struct abi_image *im = f.w->images;

	(void)state;
	for (uint32_t i = 1; i <= 4; i++)
		assert_int_equal(put(f.s, i, 96), 0);
	im[1].used = 9;
	im[2].used = 5;
	im[3].used = 7;
	im[4].used = 5; /* as old, installed later */
	assert_int_equal(put(f.s, 5, 96), -EAGAIN);
	assert_int_equal(im[2].state, ABI_TABLE_ABSENT);
	assert_int_equal(im[4].state, ABI_TABLE_READY);
	assert_int_equal(im[5].state, ABI_TABLE_ABSENT);
	/* Asking again evicts no other table: the room is there, and only rests. */
	now += REST_NS - 1;
	assert_int_equal(put(f.s, 5, 96), -EAGAIN);
	assert_int_equal(im[4].state, ABI_TABLE_READY);
	now += 1;
	assert_int_equal(put(f.s, 5, 96), 0);
	assert_int_equal(im[5].base, 24); /* where 2 was */
	assert_int_equal(im[5].serial, 5);
	assert_int_equal(code_of(f.s, 5), 105);
	assert_int_equal(code_of(f.s, 2), -EAGAIN);
	/* A new one counts as used just now: no program has met it, yet it is not the next to go.
	 */
	assert_int_equal(im[5].used, 9);
	assert_int_equal(put(f.s, 6, 96), -EAGAIN);
	assert_int_equal(im[4].state, ABI_TABLE_ABSENT);
	assert_int_equal(im[5].state, ABI_TABLE_READY);
	/* One that needs the room of two. */
	now += REST_NS;
	assert_int_equal(put(f.s, 7, 200), -EAGAIN);
	assert_int_equal(im[3].state, ABI_TABLE_ABSENT);
	assert_int_equal(im[1].state, ABI_TABLE_READY);
	now += REST_NS;
	assert_int_equal(put(f.s, 7, 200), 0);
	assert_int_equal(im[7].base, 48);
	teardown(&f);
}

static void test_an_image_rests_like_its_words(void **state)
{
	struct fixture f = setup(8, 400);

	(void)state;
	assert_int_equal(put(f.s, 1, 200), 0);
	assert_int_equal(put(f.s, 2, 160), 0);
	f.w->images[2].used = 1;
	assert_int_equal(put(f.s, 3, 200), -EAGAIN);
	assert_int_equal(f.w->images[1].state, ABI_TABLE_ABSENT);
	/* It would fit, but a program may hold half of its old fields. */
	assert_int_equal(put(f.s, 1, 8), -EAGAIN);
	assert_int_equal(put(f.s, 4, 8), 0);
	now += REST_NS;
	assert_int_equal(put(f.s, 1, 8), 0);
	teardown(&f);
}

static void test_holes_are_joined_by_evicting_on(void **state)
{
	struct fixture f = setup(1, 0);
	struct abi_image *im = f.w->images;
	const uint64_t eighth = SEGMENT_BYTES / 8;

	(void)state;
	for (uint32_t i = 0; i < 8; i++)
		assert_int_equal(put(f.s, i, eighth), 0);
	/* Two and four are unused for longest; three lies between them. */
	for (uint32_t i = 0; i < 8; i++)
		im[i].used = i == 2 ? 1 : i == 4 ? 2 : i == 3 ? 3 : 10;
	assert_int_equal(put(f.s, 8, 2 * eighth), -EAGAIN);
	assert_int_equal(im[2].state, ABI_TABLE_ABSENT);
	assert_int_equal(im[4].state, ABI_TABLE_ABSENT);
	assert_int_equal(im[3].state, ABI_TABLE_ABSENT);
	assert_int_equal(im[5].state, ABI_TABLE_READY);
	now += REST_NS;
	assert_int_equal(put(f.s, 8, 2 * eighth), 0);
	assert_int_equal(im[8].base, 2 * ABI_SEGMENT_WORDS / 8);
	teardown(&f);
}

static void test_a_segment_that_fails_leaves_all_as_it_was(void **state)
{
	struct fixture f = setup(8, 0);
	struct uw_store_stats st;
	struct abi_image before;

	(void)state;
	assert_int_equal(put(f.s, 1, SEGMENT_BYTES - 8), 0);
	f.w->fail = -ENOMEM;
	before = f.w->images[2];
	assert_int_equal(put(f.s, 2, 16), -ENOMEM);
	assert_memory_equal(&before, &f.w->images[2], sizeof(before));
	f.w->fail = -ENOSPC; /* the kernel's, not that of the budget */
	assert_int_equal(put(f.s, 2, 16), -ENOSPC);
	assert_int_equal(f.w->images[2].state, ABI_TABLE_ABSENT);
	assert_int_equal(put(f.s, 3, 8), 0); /* what is left of the first one */
	uw_store_stats(f.s, &st);
	assert_int_equal(st.bytes, SEGMENT_BYTES);
	assert_int_equal(st.refused, 0);
	f.w->fail = 0;
	assert_int_equal(put(f.s, 2, 3 * SEGMENT_BYTES), 0);
	assert_int_equal(f.w->made, 4);
	assert_int_equal(f.w->images[2].serial, 3);
	teardown(&f);
}

static void test_stores_of_no_or_too_many_segments_are_refused(void **state)
{
	struct fake_words *w = fw_new();
	struct uw_backing b = fw_backing(w, 0);
	struct uw_store *s = NULL;

	(void)state;
	assert_int_equal(uw_store_new(&b, 0, &s), -EINVAL);
	b.max_segments = ABI_SEGMENTS_MAX + 1;
	assert_int_equal(uw_store_new(&b, 0, &s), -EINVAL);
	b.max_segments = 1;
	b.images = NULL;
	assert_int_equal(uw_store_new(&b, 0, &s), -EINVAL);
	assert_null(s);
	fw_free(w);
}

/* ---- at random ------------------------------------------------------------------------------- */

#define R_IMAGES   200
#define R_SEGMENTS 6

struct model {
	bool live;
	uint32_t base, words, seen; /* as published; when it was evicted, see below */
	uint64_t gone_ns;
};

static struct uw_table *rough_table(uint32_t n_chunks)
{
	struct uw_table *t = plain_table(n_chunks, 7);
	uint64_t bytes = (uint64_t)n_chunks << ABI_CHUNK_SHIFT;
	uint32_t gap = n_chunks > 40 ? 400 : 1 + below(below(2) ? 3000 : 30);

	t->rows = realloc(t->rows, (bytes + 1) * sizeof(*t->rows));
	assert_non_null(t->rows);
	for (uint64_t rel = 1 + below(gap); rel < bytes; rel += 1 + below(gap)) {
		t->rows[t->n_rows] =
		        (struct uw_row){.rel = (uint32_t)rel,
		                        .code = (uint16_t)(t->rows[t->n_rows - 1].code + 1)};
		t->n_rows++;
	}
	return t;
}

/* Words that a table uses, read as the kernel side would. */
static uint32_t words_of(const struct fake_words *w, const struct abi_image *im)
{
	uint32_t end = 2 * im->n_chunks;

	for (uint32_t c = 0; c < im->n_chunks; c++) {
		uint32_t at = im->base + 2 * c;
		const uint32_t *index =
		        w->segments[at >> ABI_SEGMENT_SHIFT] + (at & (ABI_SEGMENT_WORDS - 1));

		if (index[1] == 0)
			continue;
		at = im->base + index[0];
		assert_int_equal(at >> ABI_VALUE_SHIFT, (at + index[1] - 1) >> ABI_VALUE_SHIFT);
		assert_true(index[0] >= end);
		end = index[0] + index[1];
	}
	return (end + 1) & ~1u;
}

static void test_random_installs_and_evictions_keep_extents_apart(void **state)
{
	struct fixture f = setup(R_SEGMENTS, 5 * SEGMENT_BYTES);
	static struct model m[R_IMAGES];
	static struct uw_table *t[R_IMAGES];
	struct uw_store_stats st;
	uint32_t installed = 0, again = 0, epoch = 1;

	(void)state;
	memset(m, 0, sizeof(m));
	memset(t, 0, sizeof(t));
	for (int step = 0; step < 1500; step++) {
		uint32_t i = below(R_IMAGES), serial = 0;
		uint64_t live_words = 0;
		int r;

		now += below(40) * NSEC_PER_MSEC;
		if (below(4) == 0)
			epoch++;
		f.w->images[below(R_IMAGES)].used = epoch;
		if (!t[i])
			t[i] = rough_table(1 + below(below(8) ? 40 : 1500));
		r = uw_store_install(f.s, i, t[i]);
		if (m[i].live) {
			assert_int_equal(r, -EEXIST);
		} else if (r == 0) {
			m[i].live = true;
			m[i].base = f.w->images[i].base;
			m[i].words = words_of(f.w, &f.w->images[i]);
			m[i].gone_ns = 0;
			installed++;
			assert_int_equal(f.w->images[i].serial, installed);
			for (uint32_t k = 0; k < R_IMAGES; k++) {
				bool rests = !m[k].live && m[k].gone_ns && m[k].words &&
				             now - m[k].gone_ns < REST_NS;

				/* Apart from all that live or rest. */
				if (k != i && (m[k].live || rests))
					assert_true(m[i].base + m[i].words <= m[k].base ||
					            m[k].base + m[k].words <= m[i].base);
			}
			/* The last byte, too, and one anywhere. */
			for (uint32_t k = 0; k < 20; k++) {
				uint32_t rel = below(t[i]->n_chunks << ABI_CHUNK_SHIFT);
				uint16_t code = 0;

				if (k == 0)
					rel = (t[i]->n_chunks << ABI_CHUNK_SHIFT) - 1;
				assert_int_equal(uw_store_code(f.s, i, rel, &code), 0);
				assert_int_equal(code, uw_table_find(t[i], rel));
			}
		} else {
			assert_int_equal(r, -EAGAIN);
			again++;
		}
		for (uint32_t k = 0; k < R_IMAGES; k++) {
			bool ready = f.w->images[k].state == ABI_TABLE_READY;

			if (m[k].live && !ready) {
				m[k].live = false;
				m[k].gone_ns = now;
			}
			assert_int_equal(m[k].live, ready);
			live_words += ready ? m[k].words : 0;
			serial = MAX_OF(serial, f.w->images[k].serial);
		}
		uw_store_stats(f.s, &st);
		assert_true(st.bytes <= 5 * SEGMENT_BYTES);
		assert_true(st.bytes >= 4 * live_words);
		assert_int_equal(st.installed, installed);
		assert_int_equal(serial, installed);
	}
	assert_true(installed > 200 && st.evicted > 100 && again > 50);
	/* Tables that are still there are as they were installed. */
	for (uint32_t k = 0; k < R_IMAGES; k++) {
		for (uint32_t n = 0; m[k].live && n < 200; n++) {
			uint32_t rel = below(t[k]->n_chunks << ABI_CHUNK_SHIFT);
			uint16_t code = 0;

			assert_int_equal(uw_store_code(f.s, k, rel, &code), 0);
			assert_int_equal(code, uw_table_find(t[k], rel));
		}
		uw_table_freep(&t[k]);
	}
	/* When all have gone and rested the whole space is one again. */
	now += REST_NS;
	assert_int_equal(put(f.s, R_IMAGES, 5 * SEGMENT_BYTES), -EAGAIN);
	now += REST_NS;
	assert_int_equal(put(f.s, R_IMAGES, 5 * SEGMENT_BYTES), 0);
	assert_int_equal(f.w->images[R_IMAGES].base, 0);
	teardown(&f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	        cmocka_unit_test(test_a_table_is_installed_once),
	        cmocka_unit_test(test_none_is_distinguished_from_not_yet),
	        cmocka_unit_test(test_larger_than_the_budget_is_refused),
	        cmocka_unit_test(test_the_longest_unused_goes_first),
	        cmocka_unit_test(test_an_image_rests_like_its_words),
	        cmocka_unit_test(test_holes_are_joined_by_evicting_on),
	        cmocka_unit_test(test_a_segment_that_fails_leaves_all_as_it_was),
	        cmocka_unit_test(test_stores_of_no_or_too_many_segments_are_refused),
	        cmocka_unit_test(test_random_installs_and_evictions_keep_extents_apart),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
