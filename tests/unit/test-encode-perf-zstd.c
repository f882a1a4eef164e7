/* SPDX-License-Identifier: Apache-2.0 */
#include <zstd.h>

#include "perf_stream.h"

#define MANY       20000
#define COMPRESSED 81
#define UNPACKED   (128 << 10) /* what the header says that a piece unpacks to at most */

/* Unpacks the records as perf does: a piece with one call, into room for UNPACKED bytes. */
static void unpack(const struct sbuf *b, struct sbuf *ret, size_t *ret_pieces)
{
	const uint64_t at = u64_at(b, 40), end = at + u64_at(b, 48);
	ZSTD_DStream *z = ZSTD_createDStream();
	static uint8_t room[UNPACKED];

	assert_non_null(z);
	*ret_pieces = 0;
	for (uint64_t pos = at; pos < end;) {
		struct perf_event_header h;

		memcpy(&h, b->p + pos, sizeof(h));
		assert_true(h.size > sizeof(h) || h.type == 68);
		if (h.type == COMPRESSED) {
			ZSTD_inBuffer in = {b->p + pos + sizeof(h), h.size - sizeof(h), 0};
			ZSTD_outBuffer out = {room, sizeof(room), 0};

			assert_false(ZSTD_isError(ZSTD_decompressStream(z, &out, &in)));
			assert_int_equal(in.pos, in.size);
			assert_int_equal(sbuf_add(ret, room, out.pos), 0);
			++*ret_pieces;
		} else {
			assert_int_equal(sbuf_add(ret, b->p + pos, h.size), 0);
		}
		pos += h.size;
		assert_true(pos <= end);
	}
	ZSTD_freeDStream(z);
}

static void assert_same_records(struct stream *st, bool compressible)
{
	struct enc_perf_data d = data_of(st);
	struct sbuf records;
	struct sink plain, packed;
	size_t pieces;

	d.kernel = (struct enc_perf_kernel){.start = 0xffffffff81000000,
	                                    .end = 0xffffffff82000000,
	                                    .ref = 0xffffffff81000000,
	                                    .ref_name = "_text"};
	encode(&d, &plain);
	d.zstd_level = 1;
	st->passes = 0;
	encode(&d, &packed);
	sbuf_init(&records, 64 << 20);
	unpack(&packed.b, &records, &pieces);
	assert_int_equal(records.len, u64_at(&plain.b, 48));
	assert_memory_equal(records.p, plain.b.p + u64_at(&plain.b, 40), records.len);
	assert_true(pieces > records.len / (100 << 10));
	if (compressible)
		assert_true(packed.b.len < plain.b.len / 4);
	sbuf_done(&records);
	sbuf_done(&plain.b);
	sbuf_done(&packed.b);
}

static void test_unpacked_records_are_the_classic_ones(void **state)
{
	struct enc_perf_record *x = calloc(MANY, sizeof(*x));
	struct stream st = {.p = x, .n = MANY};

	(void)state;
	assert_non_null(x);
	for (size_t i = 0; i < MANY; i++)
		x[i] = sample(i / 3, i % 2);
	assert_same_records(&st, true);
	free(x);
}

/* Pieces of what does not become smaller are cut at 64 KiB. */
static void test_what_cannot_be_compressed(void **state)
{
	static uint64_t noise[ENC_PERF_CHAIN_MAX];
	struct enc_perf_record x[100];
	struct stream st = {.p = x, .n = ARRAY_SIZE(x)};
	uint64_t v = 88172645463325252ULL;

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(noise); i++) {
		v ^= v << 13;
		v ^= v >> 7;
		v ^= v << 17;
		noise[i] = v;
	}
	for (size_t i = 0; i < ARRAY_SIZE(x); i++) {
		x[i] = sample(i, 0);
		x[i].sample.user = noise + i;
		x[i].sample.n_user = (uint32_t)(ARRAY_SIZE(noise) - i);
	}
	assert_same_records(&st, false);
}

static void test_header_says_that_records_are_compressed(void **state)
{
	const struct enc_perf_record x = sample(1, 0);
	struct stream st = {.p = &x, .n = 1};
	struct enc_perf_data d = data_of(&st);
	uint64_t table, at;
	struct sink s;

	(void)state;
	d.zstd_level = 3;
	encode(&d, &s);
	assert_int_equal(u64_at(&s.b, 72), 1 << 12 | 1 << 21 | 1 << 23 | 1 << 27);
	table = u64_at(&s.b, 40) + u64_at(&s.b, 48);
	at = u64_at(&s.b, table + 3 * 16);
	assert_int_equal(u64_at(&s.b, table + 3 * 16 + 8), 5 * 4);
	assert_int_equal(u64_at(&s.b, at), 1 | 1ULL << 32); /* version, zstd */
	assert_int_equal(u64_at(&s.b, at + 8) & UINT32_MAX, 3);
	assert_int_equal(u64_at(&s.b, at + 12) >> 32, UNPACKED);
	sbuf_done(&s.b);
}

static void test_bad_levels(void **state)
{
	struct stream st = {0};
	struct enc_perf_data d = data_of(&st);
	struct sink s = {0};
	struct err err = {0};

	(void)state;
	sbuf_init(&s.b, 1 << 20);
	for (d.zstd_level = -1; d.zstd_level <= 23; d.zstd_level += 24) {
		assert_int_equal(enc_perf_data(&d, sink_write, &s, &err), -EINVAL);
		assert_non_null(strstr(err.msg, "not 1 to 22"));
	}
	assert_int_equal(s.parts, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	        cmocka_unit_test(test_unpacked_records_are_the_classic_ones),
	        cmocka_unit_test(test_what_cannot_be_compressed),
	        cmocka_unit_test(test_header_says_that_records_are_compressed),
	        cmocka_unit_test(test_bad_levels),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
