/* SPDX-License-Identifier: Apache-2.0 */
/* Packed sections read in pieces: the same bytes as those of the section that was packed. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <zlib.h>
#include <zstd.h>

#include "elf_sections.h"
#include "image/image.h"

#define PLAIN_BYTES  ((size_t)1 << 20)
#define ENOUGH       ((uint64_t)1 << 40)
#define LARGE_BYTES  ((size_t)16 << 20)
#define HEADER_BYTES 24

/* Bytes like those of compilers: repeated, but never the same for long. */
static uint8_t *make_plain(size_t n)
{
	uint8_t *p = malloc(n);
	uint64_t x = 88172645463325252ULL;

	assert_non_null(p);
	for (size_t i = 0; i < n; i++) {
		x ^= x << 13;
		x ^= x >> 7;
		x ^= x << 17;
		if (i < 64 || (x & 63) == 0)
			p[i] = (uint8_t)(x >> 32);
		else
			p[i] = p[i - 1 - (x >> 8) % MIN_OF(i, (size_t)30000) % 64];
	}
	return p;
}

/* An ELF file of one packed section. */
struct packed {
	struct sbuf bytes, elf;
	struct img_file *f;
	struct img_area a;
};

static void pack_begin(struct packed *p, bool zstd, uint64_t claim)
{
	const uint32_t type[2] = {zstd ? 2 : 1, 0};
	const uint64_t size[2] = {claim, 1};

	memset(p, 0, sizeof(*p));
	sbuf_init(&p->bytes, 64 << 20);
	assert_int_equal(sbuf_add(&p->bytes, (const char *)type, sizeof(type)), 0);
	assert_int_equal(sbuf_add(&p->bytes, (const char *)size, sizeof(size)), 0);
}

static void pack_zlib(struct packed *p, const uint8_t *plain, size_t n, int level, int strategy)
{
	z_stream z = {0};
	size_t cap = compressBound(n) + (64 << 10);
	uint8_t *out = malloc(cap);

	assert_non_null(out);
	assert_int_equal(deflateInit2(&z, level, Z_DEFLATED, MAX_WBITS, 8, strategy), Z_OK);
	z.next_in = (Bytef *)(uintptr_t)plain;
	z.avail_in = (uInt)n;
	z.next_out = out;
	z.avail_out = (uInt)cap;
	assert_int_equal(deflate(&z, Z_FINISH), Z_STREAM_END);
	assert_int_equal(sbuf_add(&p->bytes, (const char *)out, z.total_out), 0);
	assert_int_equal(deflateEnd(&z), Z_OK);
	free(out);
}

static void pack_zstd(struct packed *p, const uint8_t *plain, size_t n, int level)
{
	size_t cap = ZSTD_compressBound(n), len;
	uint8_t *out = malloc(cap);

	assert_non_null(out);
	len = ZSTD_compress(out, cap, plain, n, level);
	assert_false(ZSTD_isError(len));
	assert_int_equal(sbuf_add(&p->bytes, (const char *)out, len), 0);
	free(out);
}

static void pack_end(struct packed *p)
{
	const struct es_sec sec = {.name = ".debug_info",
	                           .bytes = p->bytes.p,
	                           .len = p->bytes.len,
	                           .flags = SHF_COMPRESSED};
	struct es_map map;

	es_build(false, &sec, 1, &p->elf, &map);
	assert_int_equal(img_file_open_mem(p->elf.p, p->elf.len, &p->f, NULL), 0);
	assert_int_equal(img_section_find(p->f, ".debug_info", &p->a), 0);
	assert_true(p->a.compression > 0);
}

static void pack_done(struct packed *p)
{
	img_file_free(p->f);
	sbuf_done(&p->elf);
	sbuf_done(&p->bytes);
}

static struct img_windows *windows_of(const struct packed *p, size_t max, size_t window,
                                      uint64_t spacing)
{
	const struct img_windows_options o = {
	        .max_bytes = max, .window_bytes = window, .spacing_bytes = spacing};
	struct img_windows *w = NULL;

	assert_int_equal(img_windows_new(p->f, &p->a, &o, &w), 0);
	return w;
}

static void same(struct img_windows *w, const uint8_t *plain, uint64_t off, size_t len, size_t max)
{
	uint64_t work = ENOUGH;
	uint8_t *buf = malloc(len + 1);

	assert_non_null(buf);
	assert_int_equal(img_windows_read(w, off, buf, len, &work), 0);
	assert_memory_equal(buf, plain + off, len);
	assert_true(img_windows_bytes(w) <= max);
	free(buf);
}

/* Forward, backward and here and there. */
static void same_in_all_orders(struct img_windows *w, const uint8_t *plain, size_t n, size_t max)
{
	uint64_t x = 1;

	for (uint64_t off = 0; off < n; off += 10007)
		same(w, plain, off, (size_t)MIN_OF((uint64_t)11000, n - off), max);
	for (uint64_t off = n; off >= 50021; off -= 50021)
		same(w, plain, off - 3000, 3000, max);
	for (size_t i = 0; i < 100; i++) {
		uint64_t off, len;

		x = x * 6364136223846793005ULL + 1442695040888963407ULL;
		off = (x >> 33) % n;
		len = MIN_OF((x >> 20) % 20000, n - off);
		same(w, plain, off, (size_t)len, max);
	}
	img_windows_trim(w);
	same(w, plain, n / 2, 100, max);
	same(w, plain, 0, n, MAX_OF(max, n));
}

static void test_zlib_is_read_in_any_order(void **state)
{
	static const struct {
		int level, strategy;
		size_t window;
		uint64_t spacing;
		size_t n_streams;
	} cases[] = {
	        {6, Z_DEFAULT_STRATEGY, 4096, 8192, 1},   {6, Z_DEFAULT_STRATEGY, 0, 0, 1},
	        {1, Z_DEFAULT_STRATEGY, 4096, 100000, 1}, {9, Z_DEFAULT_STRATEGY, 8192, 65536, 1},
	        {0, Z_DEFAULT_STRATEGY, 4096, 8192, 1}, /* stored: blocks end at whole bytes */
	        {6, Z_HUFFMAN_ONLY, 4096, 8192, 1},       {6, Z_FIXED, 4096, 8192, 1},
	        {6, Z_DEFAULT_STRATEGY, 4096, 8192, 100}, /* of one linker: a stream for each input
	                                                   */
	        {6, Z_DEFAULT_STRATEGY, 4096, 1, 3},
	};
	uint8_t *plain = make_plain(PLAIN_BYTES);

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		const size_t max = (size_t)8 << 20, piece = PLAIN_BYTES / cases[i].n_streams;
		struct img_windows *w;
		struct packed p;

		pack_begin(&p, false, piece * cases[i].n_streams);
		for (size_t k = 0; k < cases[i].n_streams; k++)
			pack_zlib(&p, plain + k * piece, piece, cases[i].level, cases[i].strategy);
		pack_end(&p);
		w = windows_of(&p, max, cases[i].window, cases[i].spacing);
		same_in_all_orders(w, plain, piece * cases[i].n_streams, max);
		img_windows_free(w);
		pack_done(&p);
	}
	free(plain);
}

static void test_zstd_is_read_in_any_order(void **state)
{
	static const size_t frames[] = {1, 7, 200};
	uint8_t *plain = make_plain(PLAIN_BYTES);

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(frames); i++) {
		const size_t max = (size_t)8 << 20, piece = PLAIN_BYTES / frames[i];
		struct img_windows *w;
		struct packed p;

		pack_begin(&p, true, piece * frames[i]);
		for (size_t k = 0; k < frames[i]; k++)
			pack_zstd(&p, plain + k * piece, piece, 3);
		pack_end(&p);
		w = windows_of(&p, max, 4096, 1);
		same_in_all_orders(w, plain, piece * frames[i], max);
		img_windows_free(w);
		pack_done(&p);
	}
	free(plain);
}

/* Going back costs the distance from a point, not that from the beginning. */
static void test_points_spare_what_is_before_them(void **state)
{
	uint8_t *plain = make_plain(LARGE_BYTES), buf[16];
	const size_t max = (size_t)4 << 20;
	struct img_windows *w;
	struct packed p;
	uint64_t first, back;

	(void)state;
	pack_begin(&p, false, LARGE_BYTES);
	pack_zlib(&p, plain, LARGE_BYTES, 1, Z_DEFAULT_STRATEGY);
	pack_end(&p);
	w = windows_of(&p, max, 0, 0);
	same(w, plain, LARGE_BYTES - 10, 10, max);
	first = img_windows_stats(w)->unpacked_bytes;
	assert_int_equal(first, LARGE_BYTES);
	for (size_t i = 1; i <= 64; i++) {
		uint64_t work = ENOUGH;
		uint64_t off = LARGE_BYTES / 65 * (65 - i);

		assert_int_equal(img_windows_read(w, off, buf, sizeof(buf), &work), 0);
		assert_memory_equal(buf, plain + off, sizeof(buf));
	}
	back = img_windows_stats(w)->unpacked_bytes - first;
	/* 16 MiB have some 60 points; without any it were 32 times the section. */
	assert_true(back < 2 * LARGE_BYTES);
	assert_true(img_windows_bytes(w) <= max);
	img_windows_trim(w);
	assert_true(img_windows_bytes(w) <= max * 5 / 8);
	img_windows_free(w);
	pack_done(&p);
	free(plain);
}

static void test_work_ends_a_read_and_not_the_reader(void **state)
{
	uint8_t *plain = make_plain(PLAIN_BYTES), buf[100];

	(void)state;
	for (int zstd = 0; zstd < 2; zstd++) {
		const size_t max = (size_t)8 << 20;
		struct img_windows *w;
		struct packed p;
		uint64_t work = PLAIN_BYTES / 4;

		pack_begin(&p, zstd, PLAIN_BYTES);
		if (zstd)
			pack_zstd(&p, plain, PLAIN_BYTES, 3);
		else
			pack_zlib(&p, plain, PLAIN_BYTES, 6, Z_DEFAULT_STRATEGY);
		pack_end(&p);
		w = windows_of(&p, max, 4096, 65536);
		assert_int_equal(img_windows_read(w, PLAIN_BYTES - 100, buf, 100, &work), -ETIME);
		assert_int_equal(work, 0);
		assert_true(img_windows_stats(w)->unpacked_bytes <= PLAIN_BYTES / 4 + 4096);
		same_in_all_orders(w, plain, PLAIN_BYTES, max);
		img_windows_free(w);
		pack_done(&p);
	}
	free(plain);
}

/* Blocks of deflate without bytes, as many as there is room for. */
static void test_blocks_without_bytes_cost_work(void **state)
{
	static const uint8_t head[] = {0x78, 0x9c}, empty[] = {0, 0, 0, 0xff, 0xff};
	uint64_t work = 1 << 20;
	struct img_windows *w;
	struct packed p;
	uint8_t b;

	(void)state;
	pack_begin(&p, false, 1000);
	(void)sbuf_add(&p.bytes, (const char *)head, sizeof(head));
	for (size_t i = 0; i < 100000; i++)
		(void)sbuf_add(&p.bytes, (const char *)empty, sizeof(empty));
	pack_end(&p);
	w = windows_of(&p, 1 << 20, 4096, 1);
	assert_int_equal(img_windows_read(w, 0, &b, 1, &work), -ETIME);
	work = ENOUGH;
	assert_int_equal(img_windows_read(w, 0, &b, 1, &work), -ENODATA);
	img_windows_free(w);
	pack_done(&p);
}

static void test_a_size_that_lies_costs_what_is_not_there(void **state)
{
	static const uint64_t claims[] = {UINT64_MAX, (uint64_t)1 << 40, PLAIN_BYTES + 1, 1000};
	uint8_t *plain = make_plain(PLAIN_BYTES), buf[64];

	(void)state;
	for (size_t i = 0; i < 2 * ARRAY_SIZE(claims); i++) {
		const uint64_t claim = claims[i / 2], end = MIN_OF(claim, (uint64_t)PLAIN_BYTES);
		struct img_windows *w;
		uint64_t work = ENOUGH;
		struct packed p;

		pack_begin(&p, i % 2, claim);
		if (i % 2)
			pack_zstd(&p, plain, PLAIN_BYTES, 3);
		else
			pack_zlib(&p, plain, PLAIN_BYTES, 6, Z_DEFAULT_STRATEGY);
		pack_end(&p);
		w = windows_of(&p, 4 << 20, 4096, 65536);
		same(w, plain, end - 64, 64, 4 << 20);
		assert_int_equal(img_windows_read(w, end - 63, buf, 64, &work), -ENODATA);
		assert_int_equal(img_windows_read(w, claim - 1, buf, 2, &work), -ENODATA);
		if (claim > end)
			assert_int_equal(img_windows_read(w, claim - 1, buf, 1, &work), -ENODATA);
		/* Past the damage nothing is unpacked once more. */
		work = 0;
		if (claim > end + 8192)
			assert_int_equal(img_windows_read(w, end + 8192, buf, 1, &work), -ENODATA);
		same(w, plain, 5, 64, 4 << 20);
		same(w, plain, end - 64, 64, 4 << 20);
		img_windows_free(w);
		pack_done(&p);
	}
	free(plain);
}

/* Each read is right, or refused. */
static void check_damaged(struct packed *p, const uint8_t *plain, size_t n, size_t good)
{
	struct img_windows *w = windows_of(p, 4 << 20, 4096, 8192);
	uint8_t *buf = malloc(4096);

	assert_non_null(buf);
	for (size_t pass = 0; pass < 2; pass++) {
		for (uint64_t off = 0; off + 4096 <= n; off += pass ? 15 * 4096 : 4096) {
			uint64_t at = pass ? n - 4096 - off : off, work = ENOUGH;
			int r = img_windows_read(w, at, buf, 4096, &work);

			assert_true(r == 0 || r == -EINVAL || r == -ENODATA);
			if (at + 4096 <= good) {
				assert_int_equal(r, 0);
				assert_memory_equal(buf, plain + at, 4096);
			}
		}
	}
	free(buf);
	img_windows_free(w);
}

static void test_damage_costs_what_is_after_it(void **state)
{
	const size_t n = 1 << 20;
	uint8_t *plain = make_plain(n);

	(void)state;
	for (size_t i = 0; i < 16; i++) {
		const bool zstd = i % 2, cut = i % 4 < 2;
		struct packed p;
		size_t len, at;

		pack_begin(&p, zstd, n);
		if (zstd)
			pack_zstd(&p, plain, n, 3);
		else
			pack_zlib(&p, plain, n, 6, Z_DEFAULT_STRATEGY);
		len = p.bytes.len - HEADER_BYTES;
		at = HEADER_BYTES + len * (i + 1) / 17;
		if (cut)
			p.bytes.len = at;
		else
			p.bytes.p[at] = (char)(p.bytes.p[at] ^ 0x55);
		pack_end(&p);
		/* Some 300 KB are in a block of zstd; what is flipped may decode to other bytes. */
		check_damaged(&p, plain, n, cut && at > 400000 ? (at - 400000) : 0);
		pack_done(&p);
	}
	free(plain);
}

static void test_without_memory_it_is_refused(void **state)
{
	static const size_t limits[] = {0, 4096, 65536, 128 << 10};
	uint8_t *plain = make_plain(PLAIN_BYTES), buf[10];

	(void)state;
	for (size_t i = 0; i < 2 * ARRAY_SIZE(limits); i++) {
		const size_t max = limits[i / 2];
		struct img_windows *w;
		uint64_t work = ENOUGH;
		struct packed p;
		int r;

		pack_begin(&p, i % 2, PLAIN_BYTES);
		if (i % 2)
			pack_zstd(&p, plain, PLAIN_BYTES, 3); /* with a window of 1 MiB */
		else
			pack_zlib(&p, plain, PLAIN_BYTES, 6, Z_DEFAULT_STRATEGY);
		pack_end(&p);
		w = windows_of(&p, max, 4096, 65536);
		r = img_windows_read(w, PLAIN_BYTES / 2, buf, sizeof(buf), &work);
		assert_true(r == -E2BIG || (r == 0 && img_windows_bytes(w) <= max));
		assert_int_equal(r, i == 6 ? 0 : -E2BIG);
		img_windows_limit(w, 16 << 20);
		same(w, plain, PLAIN_BYTES / 2, 100, 16 << 20);
		img_windows_free(w);
		pack_done(&p);
	}
	free(plain);
}

static void test_a_plain_area_has_no_windows(void **state)
{
	const struct es_sec sec = {.name = ".debug_info", .bytes = "information", .len = 11};
	const struct img_windows_options o = {.max_bytes = 1 << 20};
	struct img_windows *w = NULL;
	struct packed p = {0};
	struct es_map map;

	(void)state;
	es_build(false, &sec, 1, &p.elf, &map);
	assert_int_equal(img_file_open_mem(p.elf.p, p.elf.len, &p.f, NULL), 0);
	assert_int_equal(img_section_find(p.f, ".debug_info", &p.a), 0);
	assert_int_equal(img_windows_new(p.f, &p.a, &o, &w), -EINVAL);
	img_file_free(p.f);
	sbuf_done(&p.elf);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	        cmocka_unit_test(test_zlib_is_read_in_any_order),
	        cmocka_unit_test(test_zstd_is_read_in_any_order),
	        cmocka_unit_test(test_points_spare_what_is_before_them),
	        cmocka_unit_test(test_work_ends_a_read_and_not_the_reader),
	        cmocka_unit_test(test_blocks_without_bytes_cost_work),
	        cmocka_unit_test(test_a_size_that_lies_costs_what_is_not_there),
	        cmocka_unit_test(test_damage_costs_what_is_after_it),
	        cmocka_unit_test(test_without_memory_it_is_refused),
	        cmocka_unit_test(test_a_plain_area_has_no_windows),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
