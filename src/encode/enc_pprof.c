/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Source: github.com/google/pprof/proto/profile.proto; protobuf encoding,
 * protobuf.dev/programming-guides/encoding. As in proto3, fields of value 0 are left out; repeated
 * ones are not, and numbers among them are packed.
 */
#include <libdeflate.h>

#include "encode/encode_priv.h"

#define RAW_MAX_BYTES ((size_t)1 << 30) /* readers load it whole; protobuf itself ends at 2 GiB */
/* On 30 MB level 6 makes 34 % of them at 77 MB/s, level 1 reaches 155 MB/s. Large profiles take
 * level 2, which is 5 % larger in half the time: who stops a capture waits for the file. */
#define GZIP_LEVEL       6
#define GZIP_LEVEL_LARGE 2
#define GZIP_LARGE_BYTES ((size_t)1 << 20)

enum wire_type {
	WIRE_VARINT = 0,
	WIRE_BYTES = 2,
};

/* Field numbers. */
enum {
	PROFILE_SAMPLE_TYPE = 1,
	PROFILE_SAMPLE = 2,
	PROFILE_MAPPING = 3,
	PROFILE_LOCATION = 4,
	PROFILE_FUNCTION = 5,
	PROFILE_STRING_TABLE = 6,
	PROFILE_DROP_FRAMES = 7,
	PROFILE_KEEP_FRAMES = 8,
	PROFILE_TIME_NANOS = 9,
	PROFILE_DURATION_NANOS = 10,
	PROFILE_PERIOD_TYPE = 11,
	PROFILE_PERIOD = 12,
	PROFILE_COMMENT = 13,
	PROFILE_DEFAULT_SAMPLE_TYPE = 14,
	PROFILE_DOC_URL = 15,

	VALUE_TYPE_TYPE = 1,
	VALUE_TYPE_UNIT = 2,

	SAMPLE_LOCATION_ID = 1,
	SAMPLE_VALUE = 2,
	SAMPLE_LABEL = 3,

	LABEL_KEY = 1,
	LABEL_STR = 2,
	LABEL_NUM = 3,
	LABEL_NUM_UNIT = 4,

	MAPPING_ID = 1,
	MAPPING_START = 2,
	MAPPING_LIMIT = 3,
	MAPPING_OFFSET = 4,
	MAPPING_FILENAME = 5,
	MAPPING_BUILD_ID = 6,
	MAPPING_HAS_FUNCTIONS = 7,
	MAPPING_HAS_FILENAMES = 8,
	MAPPING_HAS_LINE_NUMBERS = 9,
	MAPPING_HAS_INLINE_FRAMES = 10,

	LOCATION_ID = 1,
	LOCATION_MAPPING_ID = 2,
	LOCATION_ADDRESS = 3,
	LOCATION_LINE = 4,

	LINE_FUNCTION_ID = 1,
	LINE_LINE = 2,
	LINE_COLUMN = 3,

	FUNCTION_ID = 1,
	FUNCTION_NAME = 2,
	FUNCTION_SYSTEM_NAME = 3,
	FUNCTION_FILENAME = 4,
	FUNCTION_START_LINE = 5,
};

/* The length of a message precedes it, so each level has a buffer. Failures stick in the
 * buffers. */
struct pb {
	struct sbuf *out; /* the profile */
	struct sbuf msg;  /* one of its messages */
	struct sbuf sub;  /* one message or packed list in that */
};

/* ---- wire format ---------------------------------------------------------------------------- */

static void put_tag(struct sbuf *b, uint32_t field, enum wire_type wire)
{
	enc_put_varint(b, field << 3 | wire);
}

static void put_u64(struct sbuf *b, uint32_t field, uint64_t v)
{
	if (v) {
		put_tag(b, field, WIRE_VARINT);
		enc_put_varint(b, v);
	}
}

/* int64 is not zigzag: negative numbers take 10 bytes. */
static void put_i64(struct sbuf *b, uint32_t field, int64_t v)
{
	put_u64(b, field, (uint64_t)v);
}

static void put_bytes(struct sbuf *b, uint32_t field, const void *p, size_t len)
{
	put_tag(b, field, WIRE_BYTES);
	enc_put_varint(b, len);
	(void)sbuf_add(b, p, len);
}

/* Adds what @msg holds to @to as field @field and empties it. */
static void put_message(struct sbuf *to, uint32_t field, struct sbuf *msg)
{
	if (msg->err && !to->err)
		to->err = msg->err;
	put_bytes(to, field, msg->p, msg->len);
	msg->len = 0;
}

/* ---- strings -------------------------------------------------------------------------------- */

/* Paths and thread names are any bytes, but protobuf strings are UTF-8: other bytes become
 * "\xNN". */
static void put_string(struct pb *pb, const char *str, size_t len)
{
	const uint8_t *s = (const uint8_t *)str;
	size_t from = 0, at = 0;

	while (at < len) {
		size_t n = utf8_len(s + at, len - at);

		if (n == 0) {
			(void)sbuf_add(&pb->msg, s + from, at - from);
			(void)sbuf_addf(&pb->msg, "\\x%02x", s[at]);
			from = ++at;
		} else {
			at += n;
		}
	}
	(void)sbuf_add(&pb->msg, s + from, len - from);
	put_message(pb->out, PROFILE_STRING_TABLE, &pb->msg);
}

/* ---- messages ------------------------------------------------------------------------------- */

static void put_value_type(struct pb *pb, uint32_t field, const struct prof_type *t)
{
	put_u64(&pb->msg, VALUE_TYPE_TYPE, t->type);
	put_u64(&pb->msg, VALUE_TYPE_UNIT, t->unit);
	put_message(pb->out, field, &pb->msg);
}

static void put_sample(struct pb *pb, const struct prof_model *m, const struct prof_sample *s)
{
	if (s->loc_cnt > 0) {
		for (uint32_t i = 0; i < s->loc_cnt; i++)
			enc_put_varint(&pb->sub, m->loc_ids.p[s->loc_first + i]);
		put_message(&pb->msg, SAMPLE_LOCATION_ID, &pb->sub);
	}
	if (m->n_types > 0) {
		for (uint32_t i = 0; i < m->n_types; i++)
			enc_put_varint(&pb->sub, (uint64_t)s->value[i]);
		put_message(&pb->msg, SAMPLE_VALUE, &pb->sub);
	}
	for (uint32_t i = 0; i < s->label_cnt; i++) {
		const struct prof_label *label = &m->labels.p[s->label_first + i];

		put_u64(&pb->sub, LABEL_KEY, label->key);
		put_u64(&pb->sub, LABEL_STR, label->str);
		if (!label->str)
			put_i64(&pb->sub, LABEL_NUM, label->num);
		if (!label->str && label->unit)
			put_u64(&pb->sub, LABEL_NUM_UNIT, label->unit);
		put_message(&pb->msg, SAMPLE_LABEL, &pb->sub);
	}
	put_message(pb->out, PROFILE_SAMPLE, &pb->msg);
}

static void put_mapping(struct pb *pb, uint64_t id, const struct prof_mapping *map)
{
	put_u64(&pb->msg, MAPPING_ID, id);
	put_u64(&pb->msg, MAPPING_START, map->start);
	put_u64(&pb->msg, MAPPING_LIMIT, map->limit);
	put_u64(&pb->msg, MAPPING_OFFSET, map->offset);
	put_u64(&pb->msg, MAPPING_FILENAME, map->path);
	put_u64(&pb->msg, MAPPING_BUILD_ID, map->build_id);
	put_u64(&pb->msg, MAPPING_HAS_FUNCTIONS, map->has_functions);
	put_u64(&pb->msg, MAPPING_HAS_FILENAMES, map->has_filenames);
	put_u64(&pb->msg, MAPPING_HAS_LINE_NUMBERS, map->has_lines);
	put_u64(&pb->msg, MAPPING_HAS_INLINE_FRAMES, map->has_inlines);
	put_message(pb->out, PROFILE_MAPPING, &pb->msg);
}

static void put_location(struct pb *pb, const struct prof_model *m, uint64_t id,
                         const struct prof_location *loc)
{
	put_u64(&pb->msg, LOCATION_ID, id);
	put_u64(&pb->msg, LOCATION_MAPPING_ID, loc->mapping);
	put_u64(&pb->msg, LOCATION_ADDRESS, loc->address);
	for (uint32_t i = 0; i < loc->line_cnt; i++) {
		const struct prof_line *line = &m->lines.p[loc->line_first + i];

		put_u64(&pb->sub, LINE_FUNCTION_ID, line->function);
		put_i64(&pb->sub, LINE_LINE, line->line);
		put_u64(&pb->sub, LINE_COLUMN, line->column);
		put_message(&pb->msg, LOCATION_LINE, &pb->sub);
	}
	put_message(pb->out, PROFILE_LOCATION, &pb->msg);
}

static void put_function(struct pb *pb, uint64_t id, const struct prof_function *fn)
{
	put_u64(&pb->msg, FUNCTION_ID, id);
	put_u64(&pb->msg, FUNCTION_NAME, fn->name);
	put_u64(&pb->msg, FUNCTION_SYSTEM_NAME, fn->system_name);
	put_u64(&pb->msg, FUNCTION_FILENAME, fn->file);
	put_i64(&pb->msg, FUNCTION_START_LINE, fn->start_line);
	put_message(pb->out, PROFILE_FUNCTION, &pb->msg);
}

static void put_profile(struct pb *pb, const struct prof_model *m)
{
	for (uint32_t i = 0; i < m->n_types; i++)
		put_value_type(pb, PROFILE_SAMPLE_TYPE, &m->sample_type[i]);
	/* A buffer that has failed ignores further data, so the loops need no checks. */
	for (size_t i = 0; i < m->samples.n; i++)
		put_sample(pb, m, &m->samples.p[i]);
	for (size_t i = 0; i < m->mappings.n; i++)
		put_mapping(pb, i + 1, &m->mappings.p[i]);
	for (size_t i = 0; i < m->locations.n; i++)
		put_location(pb, m, i + 1, &m->locations.p[i]);
	for (size_t i = 0; i < m->functions.n; i++)
		put_function(pb, i + 1, &m->functions.p[i]);
	for (uint32_t i = 0; i < intern_count(m->strings); i++) {
		size_t len;
		const char *s = intern_get(m->strings, i, &len);

		put_string(pb, s, len);
	}
	put_u64(pb->out, PROFILE_DROP_FRAMES, m->drop_frames);
	put_u64(pb->out, PROFILE_KEEP_FRAMES, m->keep_frames);
	put_i64(pb->out, PROFILE_TIME_NANOS, m->time_realtime_ns);
	put_i64(pb->out, PROFILE_DURATION_NANOS, m->duration_ns);
	if (m->period_type.type || m->period_type.unit)
		put_value_type(pb, PROFILE_PERIOD_TYPE, &m->period_type);
	put_i64(pb->out, PROFILE_PERIOD, m->period);
	if (m->comments.n > 0) {
		for (size_t i = 0; i < m->comments.n; i++)
			enc_put_varint(&pb->msg, m->comments.p[i]);
		put_message(pb->out, PROFILE_COMMENT, &pb->msg);
	}
	put_u64(pb->out, PROFILE_DEFAULT_SAMPLE_TYPE, m->default_type);
	put_u64(pb->out, PROFILE_DOC_URL, m->doc_url);
}

int enc_pprof_raw(const struct prof_model *m, struct sbuf *out)
{
	struct pb pb = {.out = out};
	size_t len = out->len;

	sbuf_init(&pb.msg, RAW_MAX_BYTES);
	sbuf_init(&pb.sub, RAW_MAX_BYTES);
	put_profile(&pb, m);
	sbuf_done(&pb.msg);
	sbuf_done(&pb.sub);
	if (out->err)
		out->len = len; /* no partial output */
	return out->err;
}

static int gzip(const struct sbuf *raw, struct sbuf *out)
{
	struct libdeflate_compressor *c = libdeflate_alloc_compressor(
	        raw->len < GZIP_LARGE_BYTES ? GZIP_LEVEL : GZIP_LEVEL_LARGE);
	size_t room, len;
	char *p;

	if (!c)
		return -ENOMEM;
	room = MIN_OF(libdeflate_gzip_compress_bound(c, raw->len), out->max - out->len);
	p = sbuf_reserve(out, room);
	len = p ? libdeflate_gzip_compress(c, raw->p, raw->len, p, room) : 0;
	libdeflate_free_compressor(c);
	if (!p)
		return out->err;
	p[len] = '\0';
	if (len == 0)
		return -E2BIG; /* does not fit: the cap of @out is below the bound */
	out->len += len;
	return 0;
}

int enc_pprof(const struct prof_model *m, struct sbuf *out)
{
	struct sbuf raw;
	int r;

	if (out->err)
		return out->err;
	sbuf_init(&raw, RAW_MAX_BYTES);
	r = enc_pprof_raw(m, &raw);
	if (r == 0)
		r = gzip(&raw, out);
	if (r < 0)
		out->err = r;
	sbuf_done(&raw);
	return r;
}
