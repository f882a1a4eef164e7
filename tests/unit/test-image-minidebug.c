/* SPDX-License-Identifier: Apache-2.0 */
/* Checksums, and the file inside .gnu_debugdata. */
#include "linked_file.h"

#define MIB (1024 * 1024)

/* ---- checksum ---- */

static void test_the_checksum_is_that_of_zlib_over_all_blocks(void **state)
{
	static const size_t sizes[] = {0, 1, 256 * 1024 - 1, 256 * 1024, 256 * 1024 + 1, 600000};
	_cleanup_free_ uint8_t *p = malloc(600000);
	uint32_t crc;

	(void)state;
	assert_non_null(p);
	for (size_t i = 0; i < 600000; i++)
		p[i] = (uint8_t)(i * 2654435761U >> 13);
	for (size_t i = 0; i < ARRAY_SIZE(sizes); i++) {
		int fd = memory_file(p, sizes[i]);

		crc = 1;
		assert_int_equal(img_file_crc(fd, &crc), 0);
		assert_int_equal(crc, crc32(0, p, (uInt)sizes[i]));
		close(fd);
	}
}

static void test_a_file_too_large_for_its_checksum_is_not_read(void **state)
{
	int fd = memory_file("x", 1);
	uint64_t before = preads;
	uint32_t crc = 5;

	(void)state;
	assert_int_equal(ftruncate(fd, (8LL << 30) + 1), 0);
	assert_int_equal(img_file_crc(fd, &crc), -E2BIG);
	assert_int_equal(preads, before);
	assert_int_equal(ftruncate(fd, 1), 0);
	pread_fails = -EIO;
	assert_int_equal(img_file_crc(fd, &crc), -EIO);
	pread_fails = 0;
	assert_int_equal(crc, 5);
	assert_int_equal(img_file_crc(-EBADF, &crc), -EBADF);
	close(fd);
}

/* ---- .gnu_debugdata ---- */

static size_t pack(const void *p, size_t len, uint32_t preset, uint8_t *out, size_t cap)
{
	size_t n = 0;

	assert_int_equal(lzma_easy_buffer_encode(preset, LZMA_CHECK_CRC64, NULL, p, len, out, &n,
	                                         cap),
	                 LZMA_OK);
	return n;
}

static void test_the_file_inside_debugdata_is_unpacked(void **state)
{
	_cleanup_free_ uint8_t *packed = malloc(MIB);
	const struct es_sec s = {.name = ".symtab-or-so", .len = 300000};
	struct img_file *inner = NULL;
	struct sbuf in;
	uint8_t *p = NULL;
	size_t n, len = 0;
	struct made t;

	(void)state;
	assert_non_null(packed);
	es_build(false, &s, 1, &in, NULL);
	n = pack(in.p, in.len, 6, packed, MIB);
	memcpy(packed + n, "after", 6); /* is not looked at */
	for (size_t more = 0; more <= 6; more += 6) {
		make_one(&t, ".gnu_debugdata", packed, n + more);
		assert_int_equal(img_minidebug(t.f, 32 * MIB, &p, &len), 0);
		assert_int_equal(len, in.len);
		assert_memory_equal(p, in.p, len);
		assert_int_equal(img_file_open_mem(p, len, &inner, NULL), 0);
		inner = img_file_free(inner);
		free(p);
		unmake(&t);
	}
	sbuf_done(&in);
}

static void test_data_without_section_or_stream_is_no_debugdata(void **state)
{
	_cleanup_free_ uint8_t *packed = malloc(MIB);
	uint8_t *p = NULL;
	size_t n, len = 0;
	struct made t;

	(void)state;
	assert_non_null(packed);
	make_one(&t, ".other", "x", 1);
	assert_int_equal(img_minidebug(t.f, MIB, &p, &len), -ENOENT);
	assert_int_equal(img_bad_items(t.f), 0);
	unmake(&t);
	make_one(&t, ".gnu_debugdata", "", 0);
	assert_int_equal(img_minidebug(t.f, MIB, &p, &len), -EINVAL);
	assert_int_equal(img_bad_items(t.f), 1);
	unmake(&t);
	make_one(&t, ".gnu_debugdata", "not a stream", 12);
	assert_int_equal(img_minidebug(t.f, MIB, &p, &len), -EINVAL);
	assert_int_equal(img_bad_items(t.f), 1);
	unmake(&t);
	n = pack("", 0, 6, packed, MIB); /* a stream of nothing */
	make_one(&t, ".gnu_debugdata", packed, n);
	assert_int_equal(img_minidebug(t.f, 32 * MIB, &p, &len), -EINVAL);
	unmake(&t);
	assert_null(p);
}

static void test_a_stream_that_is_cut_or_changed_anywhere_is_refused(void **state)
{
	char text[2000];
	uint8_t packed[4096], *p = NULL;
	size_t n, len = 0;
	struct made t;

	(void)state;
	for (size_t i = 0; i < sizeof(text); i++)
		text[i] = (char)('a' + i * i % 23);
	n = pack(text, sizeof(text), 0, packed, sizeof(packed));
	for (size_t cut = 0; cut < n; cut++) {
		make_one(&t, ".gnu_debugdata", packed, cut);
		assert_int_equal(img_minidebug(t.f, 8 * MIB, &p, &len), -EINVAL);
		assert_int_equal(img_bad_items(t.f), 1);
		unmake(&t);
	}
	for (size_t i = 0; i < n; i++) {
		int r;

		packed[i] ^= 0x10;
		make_one(&t, ".gnu_debugdata", packed, n);
		r = img_minidebug(t.f, 8 * MIB, &p, &len);
		assert_true(r == -EINVAL ||
		            r == -E2BIG); /* a larger dictionary is over the bound */
		unmake(&t);
		packed[i] ^= 0x10;
	}
	assert_null(p);
}

/* 256 MiB of zeros in 40 KB. */
static void test_a_bomb_ends_at_the_bound(void **state)
{
	_cleanup_free_ uint8_t *packed = malloc(MIB);
	_cleanup_free_ uint8_t *zeros = calloc(1, MIB);
	lzma_stream z = LZMA_STREAM_INIT;
	uint8_t *p = NULL;
	size_t len = 0;
	struct made t;

	(void)state;
	assert_true(packed && zeros);
	assert_int_equal(lzma_easy_encoder(&z, 0, LZMA_CHECK_NONE), LZMA_OK);
	z.next_out = packed;
	z.avail_out = MIB;
	for (size_t i = 0; i < 256; i++) {
		z.next_in = zeros;
		z.avail_in = MIB;
		assert_int_equal(lzma_code(&z, LZMA_RUN), LZMA_OK);
	}
	assert_int_equal(lzma_code(&z, LZMA_FINISH), LZMA_STREAM_END);
	make_one(&t, ".gnu_debugdata", packed, MIB - z.avail_out);
	lzma_end(&z);
	assert_int_equal(img_minidebug(t.f, 16 * MIB, &p, &len), -E2BIG);
	assert_null(p);
	unmake(&t);
}

/* The decoder of the highest preset wants 64 MiB for a stream of a few bytes. */
static void test_memory_of_the_decoder_is_inside_the_bound(void **state)
{
	uint8_t packed[256], *p = NULL;
	size_t n, len = 0;
	struct made t;

	(void)state;
	n = pack("a few bytes", 11, 9, packed, sizeof(packed));
	make_one(&t, ".gnu_debugdata", packed, n);
	assert_int_equal(img_minidebug(t.f, 16 * MIB, &p, &len), -E2BIG);
	assert_int_equal(img_minidebug(t.f, n - 1, &p, &len), -E2BIG);
	assert_int_equal(img_minidebug(t.f, 128 * MIB, &p, &len), 0);
	assert_int_equal(len, 11);
	free(p);
	unmake(&t);
}

static void test_the_bound_holds_for_what_goes_in_comes_out_and_is_between(void **state)
{
	_cleanup_free_ uint8_t *zeros = calloc(1, MIB);
	uint8_t packed[4096], *p = NULL;
	size_t n, len = 0;
	struct made t;

	(void)state;
	assert_non_null(zeros);
	make_one(&t, ".gnu_debugdata", "not a stream", 12);
	assert_int_equal(img_minidebug(t.f, 11, &p, &len), -E2BIG);
	unmake(&t);
	n = pack(zeros, MIB, 0, packed, sizeof(packed)); /* its decoder has some 300 KiB */
	make_one(&t, ".gnu_debugdata", packed, n);
	assert_int_equal(img_minidebug(t.f, MIB + 64 * 1024, &p, &len), -E2BIG);
	assert_null(p);
	assert_int_equal(img_minidebug(t.f, 2 * MIB, &p, &len), 0);
	assert_int_equal(len, MIB);
	free(p);
	unmake(&t);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	        cmocka_unit_test(test_the_checksum_is_that_of_zlib_over_all_blocks),
	        cmocka_unit_test(test_a_file_too_large_for_its_checksum_is_not_read),
	        cmocka_unit_test(test_the_file_inside_debugdata_is_unpacked),
	        cmocka_unit_test(test_data_without_section_or_stream_is_no_debugdata),
	        cmocka_unit_test(test_a_stream_that_is_cut_or_changed_anywhere_is_refused),
	        cmocka_unit_test(test_a_bomb_ends_at_the_bound),
	        cmocka_unit_test(test_memory_of_the_decoder_is_inside_the_bound),
	        cmocka_unit_test(test_the_bound_holds_for_what_goes_in_comes_out_and_is_between),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests_name("image-minidebug", tests, NULL, NULL);
}
