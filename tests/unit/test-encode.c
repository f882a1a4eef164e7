/* SPDX-License-Identifier: Apache-2.0 */
#include <libdeflate.h>
#include <setjmp.h>
#include <stdio.h>
#include <cmocka.h>

#include "encode/encode.h"

static uint32_t str(struct prof_model *m, const char *s)
{
	uint32_t id;

	assert_int_equal(prof_model_string(m, s, &id), 0);
	return id;
}

static struct prof_model *model(void)
{
	struct prof_model *m;

	assert_int_equal(prof_model_new(&m), 0);
	m->n_types = 2;
	m->sample_type[0] = (struct prof_type){str(m, "a"), str(m, "b")};
	m->sample_type[1] = (struct prof_type){str(m, "c"), str(m, "d")};
	return m;
}

static void assert_raw(const struct prof_model *m, const void *want, size_t len)
{
	struct sbuf out;

	sbuf_init(&out, SIZE_MAX / 2);
	assert_int_equal(enc_pprof_raw(m, &out), 0);
	assert_int_equal(out.len, len);
	assert_memory_equal(out.p, want, len);
	sbuf_done(&out);
}

static void test_bytes_of_an_empty_profile(void **state)
{
	static const uint8_t want[] = {
	        0x0a, 4, 0x08, 1,    0x10, 2, /* sample_type a b */
	        0x0a, 4, 0x08, 3,    0x10, 4, /* c d */
	        0x32, 0,                      /* string_table "" */
	        0x32, 1, 'a',  0x32, 1,    'b', 0x32, 1, 'c', 0x32, 1, 'd',
	};
	struct prof_model *m = model();

	(void)state;
	assert_raw(m, want, sizeof(want));
	prof_model_free(m);
}

static void test_bytes_of_every_message(void **state)
{
	static const uint8_t want[] = {
	        0x0a, 4, 0x08, 1, 0x10, 2, /* sample_type */
	        0x0a, 4, 0x08, 3, 0x10, 4,
	        /* sample: location ids 2, 1; values 0, -1; labels pid = -2, comm = "a" */
	        0x12, 38, 0x0a, 2, 2, 1, 0x12, 11, 0, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff,
	        0xff, 0xff, 0x01, 0x1a, 13, 0x08, 5, 0x18, 0xfe, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff,
	        0xff, 0xff, 0x01, 0x1a, 4, 0x08, 6, 0x10, 1,
	        /* mapping 1: 0x1000 to 2^64 - 1 at offset 128, path, build-id, four flags */
	        0x1a, 31, 0x08, 1, 0x10, 0x80, 0x20, 0x18, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff,
	        0xff, 0xff, 0x01, 0x20, 0x80, 0x01, 0x28, 7, 0x30, 8, 0x38, 1, 0x40, 1, 0x48, 1,
	        0x50, 1,
	        /* location 1: mapping 1, 0x1001, two lines of function 1; location 2: nothing */
	        0x22, 17, 0x08, 1, 0x10, 1, 0x18, 0x81, 0x20, 0x22, 4, 0x08, 1, 0x10, 127, 0x22, 2,
	        0x08, 1, 0x22, 2, 0x08, 2,
	        /* function 1 */
	        0x2a, 11, 0x08, 1, 0x10, 1, 0x18, 2, 0x20, 3, 0x28, 0xac, 0x02,
	        /* string_table */
	        0x32, 0, 0x32, 1, 'a', 0x32, 1, 'b', 0x32, 1, 'c', 0x32, 1, 'd', 0x32, 1, 'p', 0x32,
	        1, 'm', 0x32, 1, '/', 0x32, 1, '0', 0x32, 1, '#',
	        /* time 1, duration 2, period type b a, period 3, comment, default type c */
	        0x48, 1, 0x50, 2, 0x5a, 4, 0x08, 2, 0x10, 1, 0x60, 3, 0x6a, 1, 9, 0x70, 3};
	struct prof_model *m = model();
	struct prof_label labels[] = {{.key = str(m, "p"), .num = -2},
	                              {.key = str(m, "m"), .str = str(m, "a")}};
	struct prof_mapping map = {.start = 0x1000,
	                           .limit = UINT64_MAX,
	                           .offset = 128,
	                           .path = str(m, "/"),
	                           .build_id = str(m, "0")};
	struct prof_function fn = {.name = 1, .system_name = 2, .file = 3, .start_line = 300};
	struct prof_line lines[2] = {{.line = 127}, {.line = 0}};
	int64_t values[] = {0, -1};
	uint32_t map_id, locs[2];

	(void)state;
	assert_int_equal(prof_model_mapping(m, &map, &map_id), 0);
	assert_int_equal(prof_model_function(m, &fn, &lines[0].function), 0);
	lines[1].function = lines[0].function;
	assert_int_equal(
	        prof_model_location(m, map_id, 0x1001, EV_REASON_NAMED, lines, 2, &locs[1]), 0);
	assert_int_equal(prof_model_location(m, 0, 0, EV_REASON_JIT, NULL, 0, &locs[0]), 0);
	assert_int_equal(prof_model_sample(m, locs, 2, labels, 2, values), 0);
	m->time_realtime_ns = 1;
	m->duration_ns = 2;
	m->period_type = (struct prof_type){2, 1};
	m->period = 3;
	assert_int_equal(prof_model_comment(m, "#"), 0);
	m->default_type = 3;
	assert_raw(m, want, sizeof(want));
	prof_model_free(m);
}

static void test_strings_become_utf8(void **state)
{
	static const struct {
		const char *in, *out;
	} cases[] = {
	        {"", ""},
	        {"ascii\x7f", "ascii\x7f"},
	        {"\xc2\x80 \xdf\xbf", "\xc2\x80 \xdf\xbf"},
	        {"\xe0\xa0\x80\xed\x9f\xbf\xee\x80\x80\xef\xbf\xbf",
	         "\xe0\xa0\x80\xed\x9f\xbf\xee\x80\x80\xef\xbf\xbf"},
	        {"\xf0\x90\x80\x80\xf4\x8f\xbf\xbf", "\xf0\x90\x80\x80\xf4\x8f\xbf\xbf"},
	        {"\x80", "\\x80"},
	        {"a\xffz", "a\\xffz"},
	        {"\xc0\xaf", "\\xc0\\xaf"},                   /* overlong */
	        {"\xc1\xbf", "\\xc1\\xbf"},                   /* overlong */
	        {"\xe0\x9f\xbf", "\\xe0\\x9f\\xbf"},          /* overlong */
	        {"\xf0\x8f\xbf\xbf", "\\xf0\\x8f\\xbf\\xbf"}, /* overlong */
	        {"\xed\xa0\x80", "\\xed\\xa0\\x80"},          /* surrogate */
	        {"\xf4\x90\x80\x80", "\\xf4\\x90\\x80\\x80"}, /* past U+10FFFF */
	        {"\xf5\x80\x80\x80", "\\xf5\\x80\\x80\\x80"},
	        {"\xc3", "\\xc3"}, /* cut */
	        {"x\xe2\x82", "x\\xe2\\x82"},
	        {"\xf0\x9f\x98", "\\xf0\\x9f\\x98"},
	        {"\xe2\x82g\xc3\xa9", "\\xe2\\x82g\xc3\xa9"},
	        {"\xf0\x9f\x98\x28", "\\xf0\\x9f\\x98("},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct prof_model *m;
		struct sbuf want;

		sbuf_init(&want, 1000);
		assert_int_equal(prof_model_new(&m), 0);
		(void)str(m, cases[i].in);
		assert_int_equal(sbuf_add(&want, "\x32", 2), 0); /* "" */
		if (cases[i].in[0]) {
			assert_int_equal(sbuf_char(&want, 0x32), 0);
			assert_int_equal(sbuf_char(&want, (char)strlen(cases[i].out)), 0);
			assert_int_equal(sbuf_str(&want, cases[i].out), 0);
		}
		assert_raw(m, want.p, want.len);
		sbuf_done(&want);
		prof_model_free(m);
	}
}

/* A model of some size: 300 samples. */
static struct prof_model *some_model(void)
{
	struct prof_model *m = model();

	for (uint32_t i = 0; i < 300; i++) {
		struct prof_label label = {.key = 1, .num = i};
		int64_t v[] = {i, i * 1000};
		uint32_t id;

		assert_int_equal(prof_model_location(m, 0, i * 77, EV_REASON_JIT, NULL, 0, &id), 0);
		assert_int_equal(prof_model_sample(m, &id, 1, &label, 1, v), 0);
	}
	return m;
}

static void test_gzip_unpacks_to_the_raw_bytes(void **state)
{
	struct libdeflate_decompressor *d = libdeflate_alloc_decompressor();
	struct prof_model *m = some_model();
	struct sbuf raw, gz;
	size_t used, len;
	char *back;

	(void)state;
	assert_non_null(d);
	sbuf_init(&raw, 1 << 20);
	sbuf_init(&gz, 1 << 20);
	assert_int_equal(sbuf_str(&gz, "head"), 0);
	assert_int_equal(enc_pprof_raw(m, &raw), 0);
	assert_int_equal(enc_pprof(m, &gz), 0);
	assert_memory_equal(gz.p, "head\x1f\x8b", 6);
	assert_true(gz.len < raw.len);
	assert_int_equal(gz.p[gz.len], 0);
	back = malloc(raw.len);
	assert_non_null(back);
	assert_int_equal(libdeflate_gzip_decompress_ex(d, gz.p + 4, gz.len - 4, back, raw.len,
	                                               &used, &len),
	                 LIBDEFLATE_SUCCESS);
	assert_int_equal(used, gz.len - 4);
	assert_int_equal(len, raw.len);
	assert_memory_equal(back, raw.p, len);
	free(back);
	libdeflate_free_decompressor(d);
	sbuf_done(&raw);
	sbuf_done(&gz);
	prof_model_free(m);
}

static void test_caps_are_exact(void **state)
{
	int (*const encoders[])(const struct prof_model *, struct sbuf *) = {enc_pprof_raw,
	                                                                     enc_pprof};
	struct prof_model *m = some_model();

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(encoders); i++) {
		struct sbuf b;
		size_t len;

		sbuf_init(&b, 1 << 20);
		assert_int_equal(encoders[i](m, &b), 0);
		len = b.len;
		sbuf_done(&b);
		/* libdeflate may want some bytes more than it writes. */
		sbuf_init(&b, i == 0 ? len : len + 16);
		assert_int_equal(encoders[i](m, &b), 0);
		assert_int_equal(b.len, len);
		sbuf_done(&b);
		sbuf_init(&b, len - 1);
		assert_int_equal(encoders[i](m, &b), -E2BIG);
		assert_int_equal(b.err, -E2BIG);
		assert_int_equal(b.len, 0);
		assert_int_equal(encoders[i](m, &b), -E2BIG); /* it sticks */
		sbuf_done(&b);
	}
	prof_model_free(m);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	        cmocka_unit_test(test_bytes_of_an_empty_profile),
	        cmocka_unit_test(test_bytes_of_every_message),
	        cmocka_unit_test(test_strings_become_utf8),
	        cmocka_unit_test(test_gzip_unpacks_to_the_raw_bytes),
	        cmocka_unit_test(test_caps_are_exact),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
