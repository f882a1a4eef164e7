/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The header of a perf.data, and a list of its records. In a file a header has the places of events,
 * records and features; in a pipe all of them are records.
 */
#include "decode/dec_perf_priv.h"

#include <zstd.h>

#define PIPE_HEADER_SIZE 16
#define FILE_HEADER_SIZE 104
#define FEATURES_AT      72
#define FEATURES_CNT     256

/* Records that perf itself writes: enum in tools/lib/perf/include/perf/event.h. */
enum {
	RECORD_HEADER_ATTR = 64,
	RECORD_TRACING_DATA = 66,
	RECORD_BUILD_ID = 67,
	RECORD_AUXTRACE = 71,
	RECORD_HEADER_FEATURE = 80,
	RECORD_COMPRESSED = 81,
	RECORD_COMPRESSED2 = 83,
};

struct section {
	uint64_t at, len;
};

static uint64_t at_of(const struct dec_perf *p, const struct cursor *c)
{
	return (uint64_t)(c->p - p->in->data);
}

/* A cursor over a section of the file. */
static int section_bytes(struct dec_perf *p, const struct section *s, const char *what,
                         struct cursor *ret)
{
	if (s->at > p->in->len || s->len > p->in->len - s->at)
		return dec_bad(p->in, -EINVAL, s->at,
		               "perf.data: the %s (%llu bytes) reach beyond the end of the file",
		               what, (unsigned long long)s->len);
	*ret = cursor_of(p->in->data + s->at, s->len);
	return 0;
}

static int read_section(struct cursor *c, struct section *ret)
{
	int r = cursor_u64(c, &ret->at);

	return r < 0 ? r : cursor_u64(c, &ret->len);
}

/* ---- compressed records ---------------------------------------------------------------------- */

/* Appends what the bytes of a compressed record hold; a record may be cut by its end. */
static int unpack(struct dec_perf *p, struct cursor c, uint64_t at)
{
	ZSTD_inBuffer in = {.src = c.p, .size = cursor_left(&c)};
	struct sbuf *to = &p->unpacked;

	if (!p->zstd)
		p->zstd = ZSTD_createDStream();
	if (!p->zstd)
		return dec_model_err(p->in, -ENOMEM, at);
	for (;;) {
		const size_t room = MIN_OF(ZSTD_DStreamOutSize(), to->max - to->len);
		ZSTD_outBuffer out = {.size = room};
		size_t r;

		if (room == 0)
			return err_set(p->in->err, -E2BIG,
			               "%s: more than %zu MiB after decompression", p->in->name,
			               to->max >> 20);
		out.dst = sbuf_reserve(to, room);
		if (!out.dst)
			return dec_model_err(p->in, to->err, at);
		r = ZSTD_decompressStream(p->zstd, &out, &in);
		if (ZSTD_isError(r))
			return dec_bad(p->in, -EINVAL, at,
			               "perf.data: the compressed records are damaged");
		to->len += out.pos;
		to->p[to->len] = 0;
		/* A full buffer may not be all. */
		if (in.pos == in.size && out.pos < out.size)
			return 0;
	}
}

static int unpack_sized(struct dec_perf *p, struct cursor c, uint64_t at)
{
	struct cursor data = {0};
	uint64_t len = 0;
	int r = cursor_u64(&c, &len);

	if (r == 0)
		r = cursor_sub(&c, len, &data);
	return r < 0 ? dec_bad(p->in, -EINVAL, at, "perf.data: a compressed record is truncated")
	             : unpack(p, data, at);
}

/* ---- records --------------------------------------------------------------------------------- */

static int add_ref(struct dec_perf *p, const struct perf_event_header *h, struct cursor c,
                   uint64_t at)
{
	struct dec_perf_ref ref = {.at = at};
	int r;

	if (h->type == PERF_RECORD_SAMPLE) {
		ref.time = dec_perf_sample_time(p, c);
		p->attrs.p[dec_perf_sample_attr(p, c)].has_samples = true;
	} else {
		ref.time = dec_perf_record_time(p, c);
	}
	p->unordered |= p->refs.n > 0 && p->refs.p[p->refs.n - 1].time > ref.time;
	p->refs.max = SIZE_MAX / sizeof(ref);
	r = vec_push(&p->refs, ref);
	return r < 0 ? dec_perf_err(p, r, at & ~DEC_PERF_UNPACKED) : 0;
}

/* HEADER_ATTR: the event, whose struct has its own size, and its ids. */
static int read_attr_record(struct dec_perf *p, struct cursor c, uint64_t at)
{
	struct cursor attr = c;
	uint32_t type, size = 0;
	uint64_t id = 0;
	int r = cursor_u32(&attr, &type);

	if (r == 0)
		r = cursor_u32(&attr, &size);
	if (r == 0)
		r = cursor_sub(&c, size, &attr);
	if (r < 0)
		return dec_bad(p->in, -EINVAL, at, "perf.data: an event is truncated");
	r = dec_perf_add_attr(p, attr, at);
	while (r == 0 && cursor_u64(&c, &id) == 0)
		r = dec_perf_add_id(p, id, (uint32_t)p->attrs.n - 1);
	return r;
}

/* Bytes that follow a record without being part of it. */
static int skip_tail(struct dec_perf *p, const struct perf_event_header *h, struct cursor body,
                     struct cursor *all, uint64_t at)
{
	uint64_t len = 0;
	uint32_t len32 = 0;
	int r;

	if (h->type == RECORD_AUXTRACE) {
		r = cursor_u64(&body, &len);
		p->cnt.hardware_trace++;
	} else {
		r = cursor_u32(&body, &len32);
		len = r < 0 ? 0 : ((uint64_t)len32 + 7) & ~(uint64_t)7;
	}
	if (r == 0)
		r = cursor_skip(all, len);
	return r < 0 ? dec_bad(p->in, -EINVAL, at, "perf.data: the data of a record is truncated")
	             : 0;
}

/* A record at @at, as in struct dec_perf_ref; @all is after it. */
static int read_record(struct dec_perf *p, const struct perf_event_header *h, struct cursor body,
                       struct cursor *all, uint64_t at)
{
	uint64_t num = 0;
	int r;

	switch (h->type) {
	case PERF_RECORD_SAMPLE:
	case PERF_RECORD_MMAP:
	case PERF_RECORD_MMAP2:
	case PERF_RECORD_COMM:
	case PERF_RECORD_FORK:
	case PERF_RECORD_EXIT:
		if (p->attrs.n == 0)
			return dec_bad(p->in, -EINVAL, at, "perf.data: a record before its event");
		return add_ref(p, h, body, at);
	case PERF_RECORD_LOST:
		if (cursor_skip(&body, 8) == 0 && cursor_u64(&body, &num) == 0)
			p->cnt.lost += num;
		return 0;
	case PERF_RECORD_LOST_SAMPLES:
		if (cursor_u64(&body, &num) == 0)
			p->cnt.lost += num;
		return 0;
	case PERF_RECORD_THROTTLE:
		p->cnt.throttled++;
		return 0;
	case RECORD_HEADER_ATTR:
		return p->pipe ? read_attr_record(p, body, at) : 0;
	case RECORD_HEADER_FEATURE:
		if (!p->pipe || cursor_u64(&body, &num) < 0)
			return 0;
		return num > UINT32_MAX ? 0 : dec_perf_feature(p, (uint32_t)num, body, at);
	case RECORD_BUILD_ID:
		/* One without its end is left out. */
		r = dec_perf_add_build_id(p, body, h->misc);
		return r == 0 || r == -ENODATA ? 0 : dec_perf_err(p, r, at & ~DEC_PERF_UNPACKED);
	case RECORD_TRACING_DATA:
	case RECORD_AUXTRACE:
		return skip_tail(p, h, body, all, at);
	default:
		return 0;
	}
}

/* Reads all records; @from is the place of the first one, as in struct dec_perf_ref. */
static int read_records(struct dec_perf *p, struct cursor c, uint64_t from)
{
	const uint8_t *const first = c.p;

	while (cursor_left(&c) > 0) {
		const uint64_t at = from + (uint64_t)(c.p - first);
		const uint64_t shown = at & ~DEC_PERF_UNPACKED;
		struct perf_event_header h = {0};
		struct cursor body = {0};
		int r = cursor_bytes(&c, &h, sizeof(h));

		if (r == 0 && h.size < sizeof(h))
			return dec_bad(p->in, -EINVAL, shown, "perf.data: a record of %u bytes%s",
			               h.size, at != shown ? " among the compressed ones" : "");
		if (r == 0)
			r = cursor_sub(&c, h.size - sizeof(h), &body);
		if (r < 0)
			return dec_bad(p->in, -EINVAL, shown, "perf.data: a record is truncated%s",
			               at != shown ? " among the compressed ones" : "");
		if (h.type == RECORD_COMPRESSED && at == shown)
			r = unpack(p, body, at);
		else if (h.type == RECORD_COMPRESSED2 && at == shown)
			r = unpack_sized(p, body, at);
		else
			r = read_record(p, &h, body, &c, at);
		if (r < 0)
			return r;
	}
	return 0;
}

/* ---- the header ------------------------------------------------------------------------------ */

static int read_attrs(struct dec_perf *p, const struct section *s, uint64_t attr_size)
{
	struct section ids = {0};
	struct cursor c = {0}, one = {0}, list = {0};
	uint64_t id = 0;
	int r = section_bytes(p, s, "events", &c);

	if (r < 0)
		return r;
	if (attr_size <= sizeof(ids) || attr_size > 65536)
		return dec_bad(p->in, -EINVAL, 16, "perf.data: events of %llu bytes",
		               (unsigned long long)attr_size);
	while (r == 0 && cursor_left(&c) > 0) {
		const uint64_t at = at_of(p, &c);

		if (cursor_sub(&c, attr_size - sizeof(ids), &one) < 0 || read_section(&c, &ids) < 0)
			return dec_bad(p->in, -EINVAL, at, "perf.data: an event is truncated");
		r = dec_perf_add_attr(p, one, at);
		if (r == 0)
			r = section_bytes(p, &ids, "ids of an event", &list);
		while (r == 0 && cursor_u64(&list, &id) == 0)
			r = dec_perf_add_id(p, id, (uint32_t)p->attrs.n - 1);
	}
	return r;
}

/* The table of the sections of features follows the records. */
static int read_features(struct dec_perf *p, const uint8_t *bits, uint64_t table_at)
{
	struct cursor table = {0}, c = {0};
	struct section s = {.at = table_at};
	int r = section_bytes(p, &s, "features", &table);

	if (r == 0)
		table = cursor_of(p->in->data + table_at, p->in->len - table_at);
	for (uint32_t i = 0; i < FEATURES_CNT && r == 0; i++) {
		const uint64_t at = at_of(p, &table);

		if (!(bits[i / 8] >> i % 8 & 1))
			continue;
		if (read_section(&table, &s) < 0)
			return dec_bad(p->in, -EINVAL, at,
			               "perf.data: the table of features is truncated");
		r = section_bytes(p, &s, "bytes of a feature", &c);
		if (r == 0)
			r = dec_perf_feature(p, i, c, s.at);
	}
	return r;
}

static int read_file(struct dec_perf *p, struct cursor c)
{
	const uint8_t *bits = p->in->data + FEATURES_AT;
	struct section attrs = {0}, data = {0}, types = {0};
	struct cursor records = {0};
	uint64_t attr_size = 0;
	bool unfinished;
	int r = cursor_u64(&c, &attr_size);

	if (r == 0)
		r = read_section(&c, &attrs);
	if (r == 0)
		r = read_section(&c, &data);
	if (r == 0)
		r = read_section(&c, &types);
	if (r < 0 || p->in->len < FILE_HEADER_SIZE)
		return dec_bad(p->in, -EINVAL, p->in->len, "perf.data: the header is truncated");
	/* perf writes size and features at its end. */
	unfinished = data.len == 0 && data.at < p->in->len;
	if (unfinished) {
		data.len = p->in->len - data.at;
		dec_note(p->in,
		         "perf record was killed before it had written the file: features and "
		         "the last records are missing");
	}
	r = read_attrs(p, &attrs, attr_size);
	if (r == 0 && p->attrs.n == 0)
		r = dec_bad(p->in, -EINVAL, attrs.at, "perf.data: it has no events");
	if (r == 0)
		r = section_bytes(p, &data, "records", &records);
	if (r == 0 && !unfinished)
		r = read_features(p, bits, data.at + data.len);
	return r < 0 ? r : read_records(p, records, data.at);
}

static int cmp_ref(const void *a, const void *b)
{
	const struct dec_perf_ref *x = a, *y = b;

	if (x->time != y->time)
		return x->time < y->time ? -1 : 1;
	return (x->at > y->at) - (x->at < y->at);
}

int dec_perf_scan(struct dec_perf *p)
{
	struct cursor c = cursor_of(p->in->data, p->in->len);
	uint64_t magic, size = 0;
	int r = cursor_u64(&c, &magic);

	if (r == 0)
		r = cursor_u64(&c, &size);
	if (r < 0)
		return dec_bad(p->in, -EINVAL, p->in->len, "perf.data: the header is truncated");
	p->pipe = size == PIPE_HEADER_SIZE;
	if (!p->pipe && size < FILE_HEADER_SIZE)
		return dec_bad(p->in, -EINVAL, 8, "perf.data: a header of %llu bytes",
		               (unsigned long long)size);
	r = p->pipe ? read_records(p, c, PIPE_HEADER_SIZE) : read_file(p, c);
	if (r == 0 && p->unpacked.len > 0)
		r = read_records(p, cursor_of(p->unpacked.p, p->unpacked.len), DEC_PERF_UNPACKED);
	ZSTD_freeDStream(p->zstd);
	p->zstd = NULL;
	if (r == 0 && p->unordered)
		qsort(p->refs.p, p->refs.n, sizeof(*p->refs.p), cmp_ref);
	return r;
}
