/* SPDX-License-Identifier: Apache-2.0 */
#include "base_allocator.h"

/* ---- vector --------------------------------------------------------------------------------- */

struct pair {
	uint32_t a;
	uint64_t b;
};

static void test_vec_keeps_what_is_pushed(void **state)
{
	VEC(struct pair) v = VEC_INIT(100000);
	uint64_t sum = 0;

	(void)state;
	for (uint32_t i = 0; i < 100000; i++)
		assert_int_equal(vec_push(&v, (struct pair){.a = i, .b = 2 * (uint64_t)i}), 0);
	assert_int_equal(v.n, 100000);
	assert_int_equal(v.cap, 100000); /* doubling stops at the cap */
	vec_each (it, &v) {
		assert_int_equal(it->b, 2 * (uint64_t)it->a);
		sum += it->a;
	}
	assert_int_equal(sum, UINT64_C(100000) * 99999 / 2);
	assert_int_equal(vec_push(&v, (struct pair){0}), -E2BIG);
	assert_int_equal(v.n, 100000);
	vec_done(&v);
	assert_null(v.p);
	assert_int_equal(v.n + v.cap, 0);
	vec_each (it, &v)
		fail();
}

static void test_vec_reserve_is_bounded(void **state)
{
	VEC(uint32_t) v = VEC_INIT(10);
	VEC(struct pair) huge = VEC_INIT(SIZE_MAX);

	(void)state;
	assert_int_equal(vec_reserve(&v, 0), 0);
	assert_int_equal(vec_reserve(&v, 11), -E2BIG);
	assert_int_equal(vec_reserve(&v, SIZE_MAX), -E2BIG);
	assert_int_equal(vec_reserve(&v, 10), 0);
	assert_int_equal(v.cap, 10);
	assert_int_equal(v.n, 0);
	fail_alloc_at = 1;
	for (uint32_t i = 0; i < 10; i++)
		assert_int_equal(vec_push(&v, i), 0); /* room is there: no allocation */
	assert_int_equal(fail_alloc_at, 1);
	assert_int_equal(vec_reserve(&v, 1), -E2BIG);
	assert_int_equal(vec_reserve(&v, SIZE_MAX - 5), -E2BIG);
	vec_done(&v);
	/* The product of items and their size must not wrap. */
	assert_int_equal(vec_reserve(&huge, SIZE_MAX / sizeof(struct pair) + 1), -ENOMEM);
	assert_null(huge.p);
}

static void test_vec_without_memory_stays_whole(void **state)
{
	VEC(int) v = VEC_INIT(1000);
	int pushed = 0;

	(void)state;
	fail_alloc_at = 1;
	assert_int_equal(vec_push(&v, 0), -ENOMEM);
	assert_int_equal(v.n, 0);
	fail_alloc_at = 2;
	while (vec_push(&v, pushed) == 0)
		pushed++;
	assert_in_range(pushed, 1, 999);
	assert_int_equal(v.n, pushed);
	assert_int_equal(vec_push(&v, pushed), 0);
	for (int i = 0; i <= pushed; i++)
		assert_int_equal(v.p[i], i);
	vec_done(&v);
}

/* ---- arena ---------------------------------------------------------------------------------- */

static void test_arena_memory_is_zeroed_aligned_and_apart(void **state)
{
	_cleanup_(arena_done) struct arena a;
	static const size_t lens[] = {0, 1, 7, 8, 9, 100, 3000, 4096, 65536, 100000, 5};
	uint8_t *p[ARRAY_SIZE(lens) * 50];
	size_t n = 0, total = 0;

	(void)state;
	arena_init(&a, SIZE_MAX);
	for (int round = 0; round < 50; round++) {
		for (size_t i = 0; i < ARRAY_SIZE(lens); i++, n++) {
			p[n] = arena_alloc(&a, lens[i]);
			assert_non_null(p[n]);
			assert_int_equal((uintptr_t)p[n] % 8, 0);
			for (size_t k = 0; k < lens[i]; k++)
				assert_int_equal(p[n][k], 0);
			memset(p[n], (int)(n % 255) + 1, lens[i]);
			total += lens[i];
		}
	}
	for (size_t i = 0; i < n; i++) {
		size_t len = lens[i % ARRAY_SIZE(lens)];

		for (size_t k = 0; k < len; k++)
			assert_int_equal(p[i][k], i % 255 + 1);
	}
	assert_ptr_not_equal(p[0], p[1]); /* also 0 bytes have an address of their own */
	assert_true(a.used_bytes >= total);
	assert_true(a.used_bytes < total + total / 4);
	arena_done(&a);
	assert_int_equal(a.used_bytes, 0);
}

static void test_arena_cap_bounds_memory_held(void **state)
{
	static const size_t caps[] = {0, 1, 31, 32, 33, 100, 4095, 4096, 5000, 70000, 200001};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(caps); i++) {
		_cleanup_(arena_done) struct arena a;
		size_t got = 0;

		arena_init(&a, caps[i]);
		while (arena_alloc(&a, 8))
			got += 8;
		assert_true(a.used_bytes <= caps[i]);
		assert_true(got <= a.used_bytes);
		/* Nearly all of the cap is of use: 24 bytes of header in each chunk, of 4 to 64
		 * KiB. */
		if (caps[i] >= 32)
			assert_true(got + 32 + caps[i] / 64 >= caps[i]);
		assert_null(arena_alloc(&a, SIZE_MAX));
		assert_null(arena_alloc(&a, SIZE_MAX - 7));
		assert_null(arena_alloc(&a, SIZE_MAX - 40));
	}
}

static void test_arena_large_object_leaves_the_room_of_the_chunk(void **state)
{
	_cleanup_(arena_done) struct arena a;
	uint8_t *first, *next;

	(void)state;
	arena_init(&a, SIZE_MAX);
	first = arena_alloc(&a, 8);
	assert_non_null(arena_alloc(&a, 1000000));
	next = arena_alloc(&a, 8);
	assert_ptr_equal(next, first + 8);
}

static void test_arena_without_memory(void **state)
{
	_cleanup_(arena_done) struct arena a;

	(void)state;
	arena_init(&a, SIZE_MAX);
	fail_alloc_at = 1;
	assert_null(arena_alloc(&a, 8));
	assert_int_equal(a.used_bytes, 0);
	assert_non_null(arena_alloc(&a, 8));
}

static void test_arena_strndup(void **state)
{
	_cleanup_(arena_done) struct arena a;
	char *p;

	(void)state;
	arena_init(&a, 5000);
	p = arena_strndup(&a, "abcdef", 3);
	assert_string_equal(p, "abc");
	assert_string_equal(arena_strndup(&a, "abc", 100), "abc");
	assert_string_equal(arena_strndup(&a, "ab\0cd", 5), "ab");
	assert_string_equal(arena_strndup(&a, "", 0), "");
	assert_string_equal(p, "abc");
	while (arena_strndup(&a, "0123456789", 10))
		;
	assert_true(a.used_bytes <= 5000);
}

/* ---- interner ------------------------------------------------------------------------------- */

static void test_sorted_numbers(void **state)
{
	uint64_t v[] = {UINT64_MAX, 3, 0, 3, 1ULL << 63};
	const size_t n = ARRAY_SIZE(v);

	(void)state;
	qsort(v, n, sizeof(v[0]), u64_cmp);
	for (size_t i = 1; i < n; i++)
		assert_true(v[i - 1] <= v[i]);
}

static void test_bisection_finds_the_first_index_that_holds(void **state)
{
	static const uint64_t v[] = {0, 3, 3, 9, UINT64_MAX};
	const size_t n = ARRAY_SIZE(v);

	(void)state;
	assert_int_equal(bisect_first(i, 0, n, v[i] >= 1), 1);
	assert_int_equal(bisect_first(i, 0, n, v[i] >= 3), 1); /* the first of equal ones */
	assert_int_equal(bisect_first(i, 0, n, v[i] > 3), 3);
	assert_int_equal(bisect_first(i, 0, n, v[i] >= UINT64_MAX), 4);
	assert_int_equal(bisect_first(i, 0, 4, v[i] >= UINT64_MAX), 4); /* none */
	assert_int_equal(bisect_first(i, 2, n, v[i] >= 3), 2);
	assert_int_equal(bisect_first(i, 2, 2, v[i] >= 3), 2);
	assert_int_equal(bisect_first(i, 3, 2, v[i] >= 3), 3);
	/* Every length and every answer. */
	for (size_t len = 0; len < 40; len++)
		for (size_t first = 0; first <= len; first++)
			assert_int_equal(bisect_first(i, 0, len, i >= first), first);
}

static void test_intern_ids_are_dense_and_keys_stay(void **state)
{
	_cleanup_(intern_freep) struct intern *in = NULL;
	const uint32_t n = 1000000;
	const void *first;
	char key[32];

	(void)state;
	assert_int_equal(intern_new(n, SIZE_MAX, &in), 0);
	for (uint32_t i = 0; i < n; i++) {
		int len = snprintf(key, sizeof(key), "key-%u", i * 2654435761U);
		uint32_t id = INTERN_NONE;
		bool is_new = false;

		if (intern_add(in, key, (size_t)len, &id, &is_new) != 0 || id != i || !is_new)
			fail_msg("key %u: id %u", i, id);
		if (i == 0)
			first = intern_get(in, 0, NULL);
	}
	assert_int_equal(intern_count(in), n);
	assert_ptr_equal(intern_get(in, 0, NULL), first);
	for (uint32_t i = 0; i < n; i++) {
		int len = snprintf(key, sizeof(key), "key-%u", i * 2654435761U);
		const char *got;
		size_t got_len;
		uint32_t id = INTERN_NONE;
		bool is_new = true;

		if (intern_find(in, key, (size_t)len) != i ||
		    intern_add(in, key, (size_t)len, &id, &is_new) != 0 || id != i || is_new)
			fail_msg("key %u: id %u", i, id);
		got = intern_get(in, i, &got_len);
		if (got_len != (size_t)len || strcmp(got, key) != 0)
			fail_msg("key %u: %s", i, got);
	}
	assert_int_equal(intern_find(in, "key-", 4), INTERN_NONE);
	assert_int_equal(intern_count(in), n);
}

static void test_intern_keys_are_bytes(void **state)
{
	_cleanup_(intern_freep) struct intern *in = NULL;
	static const struct {
		const char *p;
		size_t len;
	} keys[] = {{"", 0}, {"\0", 1}, {"\0\0", 2}, {"a", 1}, {"a\0", 2}, {"a\0b", 3}};
	uint32_t id;
	size_t len;

	(void)state;
	assert_int_equal(intern_new(10, 10000, &in), 0);
	assert_int_equal(intern_find(in, "a", 1), INTERN_NONE);
	for (size_t i = 0; i < ARRAY_SIZE(keys); i++) {
		assert_int_equal(intern_add(in, keys[i].p, keys[i].len, &id, NULL), 0);
		assert_int_equal(id, i);
	}
	assert_int_equal(intern_add(in, NULL, 0, &id, NULL), 0);
	assert_int_equal(id, 0);
	for (size_t i = 0; i < ARRAY_SIZE(keys); i++) {
		const char *p = intern_get(in, (uint32_t)i, &len);

		assert_int_equal(len, keys[i].len);
		assert_memory_equal(p, keys[i].p, len + 1); /* with the NUL after */
		assert_int_equal((uintptr_t)p % 8, 0);
	}
}

static void test_intern_max_items(void **state)
{
	(void)state;
	for (uint32_t max = 0; max <= 40; max++) {
		_cleanup_(intern_freep) struct intern *in = NULL;
		uint32_t id = 77;
		bool is_new = true;

		assert_int_equal(intern_new(max, SIZE_MAX, &in), 0);
		for (uint32_t i = 0; i < max; i++)
			assert_int_equal(intern_add(in, &i, sizeof(i), &id, NULL), 0);
		id = 77;
		assert_int_equal(intern_add(in, &max, sizeof(max), &id, &is_new), -E2BIG);
		assert_int_equal(id, 77);
		assert_true(is_new);
		assert_int_equal(intern_count(in), max);
		for (uint32_t i = 0; i < max; i++) {
			assert_int_equal(intern_add(in, &i, sizeof(i), &id, &is_new), 0);
			assert_int_equal(id, i);
			assert_false(is_new);
			is_new = true;
		}
	}
}

static void test_intern_max_bytes_bounds_memory_held(void **state)
{
	static const size_t caps[] = {0, 500, 1000, 5000, 20000, 100000, 1000000};
	struct intern *empty = NULL;
	size_t handle;
	char big[3000] = {0};

	(void)state;
	assert_int_equal(intern_new(10, 10, &empty), 0);
	handle = intern_bytes(empty);
	assert_null(intern_free(empty));
	for (size_t i = 0; i < ARRAY_SIZE(caps); i++) {
		_cleanup_(intern_freep) struct intern *in = NULL;
		uint32_t n = 0, id;
		int r;

		assert_int_equal(intern_new(UINT32_MAX, caps[i], &in), 0);
		while ((r = intern_add(in, &n, sizeof(n), &id, NULL)) == 0)
			n++;
		assert_int_equal(r, -E2BIG);
		assert_int_equal(intern_count(in), n);
		assert_true(intern_bytes(in) <= caps[i] + handle);
		if (caps[i] >= 20000) /* below, the first chunk of keys takes nearly all */
			assert_true(n >= caps[i] / 100);
		assert_int_equal(intern_add(in, big, sizeof(big), &id, NULL), -E2BIG);
		for (uint32_t k = 0; k < n; k++)
			assert_int_equal(intern_find(in, &k, sizeof(k)), k);
		assert_int_equal(intern_find(in, &n, sizeof(n)), INTERN_NONE);
	}
}

/* Each allocation of a growing interner fails once: nothing is lost and the next try succeeds. */
static void test_intern_without_memory_stays_whole(void **state)
{
	int failures = 0;

	(void)state;
	for (int at = 1;; at++) {
		_cleanup_(intern_freep) struct intern *in = NULL;
		bool failed = false;
		uint32_t id;

		fail_alloc_at = at + 1; /* the first is the handle */
		assert_int_equal(intern_new(100, SIZE_MAX, &in), 0);
		for (uint32_t i = 0; i < 60; i++) {
			int r = intern_add(in, &i, sizeof(i), &id, NULL);

			if (r < 0) {
				assert_int_equal(r, -ENOMEM);
				assert_false(failed);
				failed = true;
				assert_int_equal(intern_find(in, &i, sizeof(i)), INTERN_NONE);
				assert_int_equal(intern_add(in, &i, sizeof(i), &id, NULL), 0);
			}
			assert_int_equal(id, i);
		}
		for (uint32_t i = 0; i < 60; i++)
			assert_int_equal(intern_find(in, &i, sizeof(i)), i);
		if (!failed)
			break;
		failures++;
	}
	assert_in_range(failures, 5, 20); /* 3 of items, 3 of slots, 1 of keys */
	fail_alloc_at = 1;
	assert_int_equal(intern_new(1, 1, &(struct intern *){NULL}), -ENOMEM);
}

/* ---- interval map --------------------------------------------------------------------------- */

#define IMAP_SPACE 6000

struct imap_item {
	uint64_t start, end, value;
};

/* The naive model: the value at each number, 0 for none. */
static uint64_t imap_model[IMAP_SPACE];

static void imap_assert_is_model(const struct imap *m)
{
	struct imap_pos p = {0};
	const struct imap_item *item;
	uint64_t at = 0;
	size_t n = 0;

	for (; (item = imap_at(m, p)); p = imap_next(m, p), n++) {
		assert_true(item->start >= at && item->end > item->start);
		for (; at < item->start; at++)
			assert_int_equal(imap_model[at], 0);
		for (; at < item->end; at++)
			assert_int_equal(imap_model[at], item->value);
	}
	for (; at < IMAP_SPACE; at++)
		assert_int_equal(imap_model[at], 0);
	assert_int_equal(m->n, n);
}

static void imap_model_set(uint64_t start, uint64_t end, uint64_t value)
{
	for (uint64_t at = start; at < end; at++)
		imap_model[at] = value;
}

static uint64_t imap_random(void)
{
	static uint64_t x = 88172645463325252ULL;

	x ^= x << 13;
	x ^= x >> 7;
	x ^= x << 17;
	return x >> 11;
}

/* A random interval: mostly short, so that there are many items, and sometimes over many. */
static struct imap_item imap_random_item(uint64_t value)
{
	uint64_t start = imap_random() % (IMAP_SPACE - 1);
	bool wide = imap_random() % 1000 == 0;
	uint64_t len = 1 + imap_random() % (wide ? IMAP_SPACE / 2 : 6);

	return (struct imap_item){
	        .start = start, .end = MIN_OF(start + len, (uint64_t)IMAP_SPACE), .value = value};
}

static void test_interval_map_equals_a_plain_array(void **state)
{
	struct imap m, c;
	size_t most = 0;

	(void)state;
	memset(imap_model, 0, sizeof(imap_model));
	imap_init(&m, sizeof(struct imap_item), SIZE_MAX);
	assert_null(imap_find(&m, 0));
	for (uint64_t k = 1; k < 20000; k++) {
		const struct imap_item item = imap_random_item(k), *found;
		uint64_t x = imap_random() % IMAP_SPACE;

		assert_int_equal(imap_cut(&m, item.start, item.end), 0);
		imap_model_set(item.start, item.end, 0);
		if (imap_random() % 4) {
			assert_int_equal(imap_insert(&m, &item), 0);
			imap_model_set(item.start, item.end, k);
		}
		found = imap_find(&m, x);
		assert_int_equal(found ? found->value : 0, imap_model[x]);
		assert_true(!found || (found->start <= x && x < found->end));
		if (k % 100)
			continue;
		imap_assert_is_model(&m);
		assert_int_equal(imap_copy(&m, &c), 0);
		imap_assert_is_model(&c);
		assert_true(c.bytes <= m.bytes);
		assert_true(c.bytes <= c.n * sizeof(struct imap_item) +
		                               (c.n_chunks + 1) * (2 * sizeof(uint64_t)));
		imap_done(&c);
		most = MAX_OF(most, m.n);
	}
	assert_true(most > 1000); /* so that there were many chunks */
	assert_int_equal(imap_cut(&m, 0, IMAP_SPACE), 0);
	assert_int_equal(m.n, 0);
	assert_int_equal(m.n_chunks, 0);
	imap_done(&m);
	assert_int_equal(m.bytes, 0);
}

static void test_interval_map_in_order_fills_its_chunks(void **state)
{
	const uint64_t n = 100000;
	struct imap m;

	(void)state;
	imap_init(&m, sizeof(struct imap_item), SIZE_MAX);
	for (uint64_t i = 0; i < n; i++) {
		const struct imap_item item = {.start = 2 * i, .end = 2 * i + 1, .value = i};

		assert_int_equal(imap_insert(&m, &item), 0);
		if (i == 2)
			assert_true(m.bytes < 300); /* a small map takes little */
	}
	assert_int_equal(m.n_chunks, (n + 127) / 128);
	for (uint64_t i = 0; i < n; i++) {
		const struct imap_item *item = imap_find(&m, 2 * i);

		assert_true(item && item->value == i);
		assert_null(imap_find(&m, 2 * i + 1));
	}
	imap_done(&m);
}

static void test_interval_map_at_its_cap_loses_the_second_part(void **state)
{
	const struct imap_item item = {.start = 10, .end = 20, .value = 1};
	const struct imap_item *found;
	struct imap m;

	(void)state;
	imap_init(&m, sizeof(item), 1);
	assert_int_equal(imap_insert(&m, &item), 0);
	assert_int_equal(imap_insert(&m, &(struct imap_item){.start = 30, .end = 31}), -E2BIG);
	assert_int_equal(imap_cut(&m, 14, 16), -E2BIG);
	found = imap_find(&m, 13);
	assert_true(found && found->start == 10 && found->end == 14);
	assert_null(imap_find(&m, 17));
	m.max = 2;
	assert_int_equal(imap_cut(&m, 11, 12), 0);
	found = imap_find(&m, 12);
	assert_true(found && found->start == 12 && found->end == 14);
	assert_int_equal(m.n, 2);
	imap_done(&m);
}

/* Each allocation fails once: only the item or the part that needed it is missing. */
static void test_interval_map_without_memory_stays_whole(void **state)
{
	int failures = 0;
	bool failed = true;

	(void)state;
	for (int at = 1; failed; at++) {
		struct imap m, c = {0};

		failed = false;
		memset(imap_model, 0, sizeof(imap_model));
		imap_init(&m, sizeof(struct imap_item), SIZE_MAX);
		fail_alloc_at = at;
		for (uint64_t k = 1; k < 400; k++) {
			struct imap_item item = {.start = 8 * (k * 7 % 400), .value = k}, part;
			const struct imap_item *found;

			item.end = item.start + 8;
			if (imap_insert(&m, &item) == 0) {
				imap_model_set(item.start, item.end, k);
			} else {
				assert_false(failed);
				failed = true;
				continue;
			}
			found = imap_find(&m, item.start + 3);
			part = *found;
			if (imap_cut(&m, part.start + 2, part.start + 4) < 0) {
				assert_false(failed);
				failed = true;
				imap_model_set(part.start + 4, part.end, 0);
			}
			imap_model_set(part.start + 2, part.start + 4, 0);
		}
		imap_assert_is_model(&m);
		if (imap_copy(&m, &c) < 0) {
			assert_false(failed);
			failed = true;
		} else {
			imap_assert_is_model(&c);
			imap_done(&c);
		}
		fail_alloc_at = 0;
		imap_done(&m);
		failures += failed;
	}
	assert_in_range(failures, 20, 30); /* chunks, their growth, the pointers to them, a copy */
}

int main(void)
{
#define T(fn) cmocka_unit_test_teardown(fn, no_failures)
	const struct CMUnitTest tests[] = {
	        T(test_vec_keeps_what_is_pushed),
	        T(test_vec_reserve_is_bounded),
	        T(test_vec_without_memory_stays_whole),
	        T(test_arena_memory_is_zeroed_aligned_and_apart),
	        T(test_arena_cap_bounds_memory_held),
	        T(test_arena_large_object_leaves_the_room_of_the_chunk),
	        T(test_arena_without_memory),
	        T(test_arena_strndup),
	        T(test_sorted_numbers),
	        T(test_bisection_finds_the_first_index_that_holds),
	        T(test_interval_map_equals_a_plain_array),
	        T(test_interval_map_in_order_fills_its_chunks),
	        T(test_interval_map_at_its_cap_loses_the_second_part),
	        T(test_interval_map_without_memory_stays_whole),
	        T(test_intern_ids_are_dense_and_keys_stay),
	        T(test_intern_keys_are_bytes),
	        T(test_intern_max_items),
	        T(test_intern_max_bytes_bounds_memory_held),
	        T(test_intern_without_memory_stays_whole),
	};
#undef T

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests_name("base-containers", tests, NULL, NULL);
}
