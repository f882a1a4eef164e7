/* SPDX-License-Identifier: Apache-2.0 */
/*
 * perf_stream - streams of samples for the perf.data writer, and a reader of what it writes
 */
#ifndef PA_TEST_PERF_STREAM_H
#define PA_TEST_PERF_STREAM_H

#include <setjmp.h>
#include <stdio.h>
#include <sys/mman.h>
#include <cmocka.h>
#include <linux/perf_event.h>

#include "encode/encode.h"

#define HEADER_BYTES  104
#define ATTR_BYTES    112
#define TRAILER_BYTES 32

static const struct enc_perf_event two_events[] = {
        {.name = "cpu-clock", .type = PERF_TYPE_SOFTWARE, .sample_freq = 99},
        {.name = "offcpu-time", .type = PERF_TYPE_SOFTWARE, .config = 10, .sample_period = 1},
};
static const uint64_t user[] = {0x401000, 0x402000};
static const uint64_t kernel[] = {0xffffffff81001000, 0xffffffff81002000, 0xffffffff81003000};

/* ---- a stream -------------------------------------------------------------------------------- */

struct stream {
	const struct enc_perf_record *p;
	size_t n, at;
	unsigned int passes;
	size_t fails_at; /* 1-based; 0: never */
	size_t shorter;  /* of the second pass */
};

static inline void stream_rewind(void *arg)
{
	struct stream *s = arg;

	s->at = 0;
	s->n -= s->passes++ == 1 ? s->shorter : 0;
}

static inline int stream_next(void *arg, struct enc_perf_record *ret)
{
	struct stream *s = arg;

	if (s->fails_at && s->at + 1 == s->fails_at)
		return -EIO;
	if (s->at == s->n)
		return 0;
	*ret = s->p[s->at++];
	return 1;
}

struct sink {
	struct sbuf b;
	size_t parts, largest;
	int fails; /* errno of the first part */
};

static inline int sink_write(void *arg, const void *data, size_t len)
{
	struct sink *s = arg;

	s->parts++;
	s->largest = MAX_OF(s->largest, len);
	return s->fails ? s->fails : sbuf_add(&s->b, data, len);
}

static inline struct enc_perf_data data_of(struct stream *s)
{
	return (struct enc_perf_data){.events = two_events,
	                              .n_events = ARRAY_SIZE(two_events),
	                              .next = stream_next,
	                              .rewind = stream_rewind,
	                              .arg = s};
}

static inline void encode(const struct enc_perf_data *d, struct sink *ret)
{
	struct err err = {0};

	*ret = (struct sink){0};
	sbuf_init(&ret->b, 64 << 20);
	assert_int_equal(enc_perf_data(d, sink_write, ret, &err), 0);
}

/* ---- reading --------------------------------------------------------------------------------- */

static inline uint64_t u64_at(const struct sbuf *b, size_t at)
{
	uint64_t v;

	assert_true(at + sizeof(v) <= b->len);
	memcpy(&v, b->p + at, sizeof(v));
	return v;
}

static inline uint32_t u32_at(const struct sbuf *b, size_t at)
{
	return (uint32_t)u64_at(b, at);
}

struct rec {
	uint32_t type;
	uint16_t misc, size;
	size_t at; /* of its body */
};

/* Reads the records, which must fill their section exactly. Returns their number. */
static inline size_t read_records(const struct sbuf *b, struct rec *ret, size_t max)
{
	const uint64_t at = u64_at(b, 40), end = at + u64_at(b, 48);
	uint64_t pos = at;
	size_t n = 0;

	while (pos < end) {
		struct perf_event_header h;

		memcpy(&h, b->p + pos, sizeof(h));
		assert_true(n < max);
		assert_true(h.size >= sizeof(h));
		assert_int_equal(h.size % 8, 0);
		ret[n++] = (struct rec){h.type, h.misc, h.size, pos + sizeof(h)};
		pos += h.size;
	}
	assert_int_equal(pos, end);
	return n;
}

/* A file of one record of side[], which is ret[0]. */
static inline void one_record(const struct enc_perf_record *x, struct sink *s, struct rec *ret)
{
	struct enc_perf_data d = {.events = two_events, .n_events = 2, .side = x, .n_side = 1};
	struct rec recs[2];

	encode(&d, s);
	assert_int_equal(read_records(&s->b, recs, 2), 2);
	assert_int_equal(recs[1].type, 68); /* the mark at the end */
	*ret = recs[0];
}

static inline void assert_trailer(const struct sbuf *b, const struct rec *r, uint32_t pid,
                                  uint32_t tid, uint64_t time_ns)
{
	const size_t at = r->at - sizeof(struct perf_event_header) + r->size - TRAILER_BYTES;

	assert_int_equal(u32_at(b, at), pid);
	assert_int_equal(u32_at(b, at + 4), tid);
	assert_int_equal(u64_at(b, at + 8), time_ns);
	assert_int_equal(u64_at(b, at + 16), 0);
	assert_int_equal(u64_at(b, at + 24), 1); /* the id of the first event */
}

static inline struct enc_perf_record sample(uint64_t time_ns, uint32_t event)
{
	return (struct enc_perf_record){.type = ENC_PERF_SAMPLE,
	                                .pid = 10,
	                                .tid = 11,
	                                .time_ns = time_ns,
	                                .sample = {.event = event,
	                                           .cpu = 3,
	                                           .period = 77,
	                                           .kernel = kernel,
	                                           .n_kernel = 3,
	                                           .user = user,
	                                           .n_user = 2}};
}

static inline struct enc_perf_record mapping(const char *path)
{
	return (struct enc_perf_record){.type = ENC_PERF_MMAP,
	                                .pid = 5,
	                                .tid = 6,
	                                .time_ns = 7,
	                                .map = {.start = 0x400000,
	                                        .len = 0x3000,
	                                        .pgoff = 0x1000,
	                                        .dev_major = 8,
	                                        .dev_minor = 9,
	                                        .ino = 1ULL << 40,
	                                        .ino_generation = 3,
	                                        .prot = PROT_READ | PROT_EXEC,
	                                        .flags = MAP_PRIVATE,
	                                        .path = path}};
}

#endif
