/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "decode/decode.h"
#include "encode/encode.h"

static int decode(const void *data, size_t len, struct dec_profile *p, struct err *err)
{
	*p = (struct dec_profile){0};
	*err = (struct err){0};
	return dec_profile(data, len, "x", NULL, p, err);
}

/* ---- a profile with all fields --------------------------------------------------------------- */

static uint32_t str(struct prof_model *m, const char *s)
{
	uint32_t id;

	assert_int_equal(prof_model_string(m, s, &id), 0);
	return id;
}

static uint32_t location(struct prof_model *m, uint32_t map, uint64_t addr, enum ev_reason reason,
                         const char *name, const char *system)
{
	const struct prof_function fn = {.name = str(m, name),
	                                 .system_name = str(m, system),
	                                 .file = str(m, "/src/a.c"),
	                                 .start_line = 7};
	struct prof_line line[2] = {{.line = 9, .column = 3}, {.line = -1}};
	uint32_t id;

	assert_int_equal(prof_model_function(m, &fn, &line[0].function), 0);
	line[1].function = line[0].function;
	assert_int_equal(prof_model_location(m, map, addr, (uint8_t)reason, line, 2, &id), 0);
	return id;
}

static struct prof_model *rich_model(void)
{
	struct prof_model *m;
	struct prof_mapping map = {.start = 0x1000, .limit = 0x9000, .offset = 0x200};
	struct prof_label labels[3] = {{0}};
	uint32_t id[2], loc[4];
	int64_t v[4] = {1, -2, INT64_MAX, INT64_MIN};

	assert_int_equal(prof_model_new(&m), 0);
	m->n_types = 4;
	for (uint32_t i = 0; i < 4; i++)
		m->sample_type[i] = (struct prof_type){str(m, "type"), str(m, "unit")};
	map.path = str(m, "/bin/a");
	map.build_id = str(m, "00ff");
	assert_int_equal(prof_model_mapping(m, &map, &id[0]), 0);
	map = (struct prof_mapping){.path = str(m, "[kernel]")};
	assert_int_equal(prof_model_mapping(m, &map, &id[1]), 0);
	loc[0] = location(m, id[0], 0x1001, EV_REASON_NAMED, "f(int)", "_Z1fi");
	loc[1] = location(m, id[0], 0x1002, EV_REASON_NO_SYMTAB, "0x202 [a]",
	                  "unresolved: no symbol table");
	loc[2] = location(m, id[1], UINT64_MAX, EV_REASON_NAMED, "sys\xc3\xa9", "");
	assert_int_equal(prof_model_location(m, 0, 5, EV_REASON_NO_MAPPING, NULL, 0, &loc[3]), 0);
	labels[0] = (struct prof_label){.key = str(m, "pid"), .num = -4};
	labels[1] = (struct prof_label){.key = str(m, "comm"), .str = str(m, "sh")};
	labels[2] =
	        (struct prof_label){.key = str(m, "bytes"), .num = 9, .unit = str(m, "kilobytes")};
	assert_int_equal(prof_model_sample(m, loc, 4, labels, 3, v), 0);
	assert_int_equal(prof_model_sample(m, loc + 2, 1, labels, 1, v), 0);
	assert_int_equal(prof_model_sample(m, NULL, 0, NULL, 0, v), 0);
	assert_int_equal(prof_model_comment(m, "samples_seen: 3"), 0);
	assert_int_equal(prof_model_comment(m, "note: x"), 0);
	m->default_type = str(m, "type");
	m->period_type = (struct prof_type){str(m, "cpu"), str(m, "nanoseconds")};
	m->period = 10101010;
	m->time_realtime_ns = 1700000000000000001;
	m->duration_ns = 5000000000;
	m->drop_frames = str(m, "malloc|free");
	m->keep_frames = str(m, "mallocgc");
	m->doc_url = str(m, "https://example.org/");
	return m;
}

static void encoded(const struct prof_model *m, bool gzip, struct sbuf *out)
{
	sbuf_init(out, SIZE_MAX / 2);
	assert_int_equal(gzip ? enc_pprof(m, out) : enc_pprof_raw(m, out), 0);
}

static void test_own_profiles_come_back_byte_by_byte(void **state)
{
	struct prof_model *m = rich_model();
	(void)state;

	for (int gzip = 0; gzip < 2; gzip++) {
		struct sbuf first, second;
		struct dec_profile p;
		struct err err;

		encoded(m, gzip, &first);
		assert_int_equal(decode(first.p, first.len, &p, &err), 0);
		assert_true(p.format == DEC_PPROF && p.gzip == gzip && p.n_notes == 0);
		assert_int_equal(p.n_models, 1);
		encoded(p.models[0], gzip, &second);
		assert_int_equal(second.len, first.len);
		assert_memory_equal(second.p, first.p, first.len);
		/* Not in the bytes but for their names: */
		assert_int_equal(p.models[0]->locations.n, 4);
		for (size_t i = 0; i < 4; i++)
			assert_int_equal(p.models[0]->locations.p[i].reason,
			                 m->locations.p[i].reason);
		dec_profile_done(&p);
		sbuf_done(&first);
		sbuf_done(&second);
	}
	prof_model_free(m);
}

/* Returns the end of the field at @at. */
static size_t field_end(const struct sbuf *b, size_t at)
{
	struct cursor c = cursor_of(b->p + at, b->len - at);
	uint64_t tag, v;

	assert_int_equal(cursor_uleb(&c, &tag), 0);
	assert_int_equal(cursor_uleb(&c, &v), 0);
	if ((tag & 7) == 2)
		assert_int_equal(cursor_skip(&c, v), 0);
	return (size_t)((const char *)c.p - b->p);
}

/* A prefix that ends between two messages can be a profile; others cannot, and none crashes. */
static void test_truncated_profiles(void **state)
{
	struct prof_model *m = rich_model();
	struct sbuf b;
	size_t end = 0;
	uint32_t good = 0;
	(void)state;

	encoded(m, false, &b);
	for (size_t n = 0; n < b.len; n++) {
		/* Its own memory: a sanitizer sees a read beyond it. */
		_cleanup_free_ char *copy = malloc(n ? n : 1);
		struct dec_profile p;
		struct err err;
		int r;

		memcpy(copy, b.p, n);
		r = decode(copy, n, &p, &err);
		assert_true(r == 0 || (r == -EINVAL && str_starts(err.msg, "x: ")));
		if (n > end)
			end = field_end(&b, end);
		assert_true(r < 0 || n == end);
		good += r == 0;
		dec_profile_done(&p);
	}
	assert_true(good > 0);
	sbuf_done(&b);
	prof_model_free(m);
}

static void test_damaged_profiles_do_not_crash(void **state)
{
	struct prof_model *m = rich_model();
	struct sbuf b;
	(void)state;

	encoded(m, false, &b);
	for (size_t i = 0; i < b.len; i++) {
		const char was = b.p[i];

		for (int bit = 0; bit < 8; bit++) {
			struct dec_profile p;
			struct err err;
			int r;

			b.p[i] = (char)(was ^ 1 << bit);
			r = decode(b.p, b.len, &p, &err);
			assert_true(r == 0 || r == -EINVAL);
			dec_profile_done(&p);
		}
		b.p[i] = was;
	}
	sbuf_done(&b);
	prof_model_free(m);
}

/* ---- other writers --------------------------------------------------------------------------- */

/* Strings "" and "a"; the type a/a. */
#define STRINGS  "\x32\0\x32\1a"
#define TYPE_A   "\x0a\4\x08\1\x10\1"
#define BYTES(s) s, sizeof(s) - 1

static void test_orders_packing_and_unknown_fields(void **state)
{
	/* The sample first, its numbers one by one; ids far apart; fixed and unknown fields. */
	static const char data[] = "\x12\x0a\x08\x05\x08\xff\xff\xff\xff\x0f\x10\x07"
	                           "\x22\x02\x08\x05"
	                           "\x22\x08\x08\xff\xff\xff\xff\x0f\x18\x09"
	                           "\xfd\x01\1\2\3\4"         /* 31: fixed32 */
	                           "\xf9\x01\1\2\3\4\5\6\7\2" /* 31: fixed64 */
	                           "\xfa\x01\1\2"             /* 31: bytes */
	        TYPE_A STRINGS;
	struct dec_profile p;
	struct err err;
	const struct prof_model *m;
	(void)state;

	assert_int_equal(decode(BYTES(data), &p, &err), 0);
	m = p.models[0];
	assert_int_equal(m->n_types, 1);
	assert_string_equal(prof_model_str(m, m->sample_type[0].type), "a");
	assert_int_equal(m->samples.n, 1);
	assert_int_equal(m->samples.p[0].value[0], 7);
	assert_int_equal(m->samples.p[0].loc_cnt, 2);
	assert_int_equal(m->locations.p[m->loc_ids.p[0] - 1].address, 0);
	assert_int_equal(m->locations.p[m->loc_ids.p[1] - 1].address, 9);
	assert_int_equal(m->locations.p[0].reason, EV_REASON_NO_MAPPING);
	dec_profile_done(&p);
}

static void test_addresses_outside_of_their_mapping(void **state)
{
	/* Mapping 1 from 16 to 32, path a; location 1 with address 0, location 2 with mapping 9. */
	static const char data[] = TYPE_A "\x1a\x08\x08\1\x10\x10\x18\x20\x28\1"
	                                  "\x22\x04\x08\1\x10\1"
	                                  "\x22\x04\x08\2\x10\x09" STRINGS;
	struct dec_profile p;
	struct err err;
	const struct prof_model *m;
	(void)state;

	assert_int_equal(decode(BYTES(data), &p, &err), 0);
	m = p.models[0];
	assert_int_equal(m->mappings.n, 2);
	assert_int_equal(m->locations.p[0].mapping, 2);
	assert_string_equal(prof_model_str(m, m->mappings.p[1].path), "a");
	assert_int_equal(m->mappings.p[1].limit, 0);
	assert_int_equal(m->locations.p[1].mapping, 0);
	assert_int_equal(p.n_notes, 2);
	assert_string_equal(p.notes[0], "1 locations have a mapping that the file lacks");
	assert_string_equal(p.notes[1], "1 locations have an address outside of their mapping");
	dec_profile_done(&p);
}

static void test_control_bytes_of_names_become_question_marks(void **state)
{
	static const char data[] = TYPE_A STRINGS "\x32\x05\x1b[1m\n\x6a\1\2";
	struct dec_profile p;
	struct err err;
	(void)state;

	assert_int_equal(decode(BYTES(data), &p, &err), 0);
	assert_string_equal(prof_model_str(p.models[0], p.models[0]->comments.p[0]), "?[1m?");
	dec_profile_done(&p);
}

static void test_types_over_the_limit_are_left_out(void **state)
{
	struct dec_profile p;
	struct sbuf b;
	struct err err;
	(void)state;

	sbuf_init(&b, 65536);
	for (int i = 0; i < PROF_TYPE_MAX + 2; i++)
		(void)sbuf_add(&b, TYPE_A, 6);
	(void)sbuf_add(&b, STRINGS, 5);
	(void)sbuf_add(&b, "\x12\x14\x12\x12", 4);
	for (char i = 1; i <= PROF_TYPE_MAX + 2; i++)
		(void)sbuf_char(&b, i);
	assert_int_equal(b.err, 0);
	assert_int_equal(decode(b.p, b.len, &p, &err), 0);
	sbuf_done(&b);
	assert_int_equal(p.models[0]->n_types, PROF_TYPE_MAX);
	assert_int_equal(p.models[0]->samples.p[0].value[PROF_TYPE_MAX - 1], PROF_TYPE_MAX);
	assert_string_equal(p.notes[0], "2 sample types over 16 were left out");
	dec_profile_done(&p);
}

static void test_errors_have_the_byte(void **state)
{
	static const struct {
		const char *data;
		size_t len;
		const char *msg;
	} cases[] = {
	        {BYTES(STRINGS "\x48\1"), "no profile, or a pprof without sample types"},
	        {BYTES(TYPE_A "\x32\1a"), "byte 9: pprof: string 0 before it is not empty"},
	        {BYTES(TYPE_A "\x32\0"), "byte 4: pprof: string 1 of 1 before it"},
	        {BYTES(TYPE_A STRINGS "\x12\1"), "byte 11: pprof: truncated"},
	        {BYTES(TYPE_A STRINGS "\x13\1"), "byte 11: pprof: no protobuf field"},
	        {BYTES(TYPE_A STRINGS "\x02\1"), "byte 11: pprof: a number is over 64 bits"},
	        {BYTES(TYPE_A STRINGS "\x10\1"),
	         "byte 13: pprof: field 2 before it has wire type 0 instead of 2"},
	        {BYTES(TYPE_A STRINGS "\x12\x02\x10\x01\x12\x04\x10\x01\x10\x02"),
	         "byte 17: pprof: a sample with 2 values, but there are 1 sample types"},
	        {BYTES(TYPE_A STRINGS "\x12\x04\x08\x05\x10\x01"),
	         "byte 15: pprof: no location with the id 5 before it"},
	        {BYTES(TYPE_A STRINGS "\x22\x06\x08\x05\x22\x02\x08\x03"),
	         "byte 19: pprof: no function with the id 3 before it"},
	        {BYTES(TYPE_A STRINGS "\x22\x02\x08\x05\x22\x02\x08\x05"),
	         "byte 17: pprof: a second location with id 5"},
	        {BYTES(TYPE_A STRINGS "\x2a\x02\x10\x01"), "byte 13: pprof: a function with id 0"},
	        {BYTES(TYPE_A STRINGS "\x1a\x02\x28\x02"),
	         "byte 15: pprof: string 2 of 2 before it"},
	        {BYTES(TYPE_A STRINGS "\x1a\x04\x0a\x02\x28\x02"),
	         "byte 17: pprof: field 1 before it has wire type 2 instead of 0"},
	};
	(void)state;

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct dec_profile p;
		struct err err;

		assert_int_equal(decode(cases[i].data, cases[i].len, &p, &err), -EINVAL);
		assert_true(str_starts(err.msg, "x: "));
		assert_string_equal(err.msg + 3, cases[i].msg);
		dec_profile_done(&p);
	}
}

static void test_a_limit_is_named_with_the_byte(void **state)
{
	static const char head[] = TYPE_A STRINGS;
	const size_t len = sizeof(head) - 1, n = PROF_COMMENTS_MAX + 1;
	_cleanup_free_ char *data = malloc(len + 2 * n);
	struct dec_profile p;
	struct err err;
	(void)state;

	assert_non_null(data);
	memcpy(data, head, len);
	for (size_t i = 0; i < n; i++)
		memcpy(data + len + 2 * i, "\x68\1", 2);
	assert_int_equal(decode(data, len + 2 * (n - 1), &p, &err), 0);
	dec_profile_done(&p);
	assert_int_equal(decode(data, len + 2 * n, &p, &err), -E2BIG);
	assert_string_equal(err.msg, "x: byte 131085: too large: more than 65536 comments");
	dec_profile_done(&p);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	        cmocka_unit_test(test_own_profiles_come_back_byte_by_byte),
	        cmocka_unit_test(test_truncated_profiles),
	        cmocka_unit_test(test_damaged_profiles_do_not_crash),
	        cmocka_unit_test(test_orders_packing_and_unknown_fields),
	        cmocka_unit_test(test_addresses_outside_of_their_mapping),
	        cmocka_unit_test(test_control_bytes_of_names_become_question_marks),
	        cmocka_unit_test(test_types_over_the_limit_are_left_out),
	        cmocka_unit_test(test_errors_have_the_byte),
	        cmocka_unit_test(test_a_limit_is_named_with_the_byte),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
