/* SPDX-License-Identifier: Apache-2.0 */
/*
 * perf-file - builds a perf.data: events, records, features
 */
#ifndef PA_TEST_PERF_FILE_H
#define PA_TEST_PERF_FILE_H

#include <linux/perf_event.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "base/base.h"

#define PF_TYPE                                                                                    \
	(PERF_SAMPLE_IP | PERF_SAMPLE_TID | PERF_SAMPLE_TIME | PERF_SAMPLE_ID |                    \
	 PERF_SAMPLE_PERIOD | PERF_SAMPLE_CALLCHAIN)
#define PF_TEXT 0x400000 /* a mapping of 0x1000 bytes at offset 0x2000 of /nowhere/a */

struct pf {
	struct sbuf attrs, records, features[32]; /* by number; empty: none */
};

static inline void pf_u16(struct sbuf *b, uint16_t v)
{
	(void)sbuf_add(b, &v, sizeof(v));
}

static inline void pf_u32(struct sbuf *b, uint32_t v)
{
	(void)sbuf_add(b, &v, sizeof(v));
}

static inline void pf_u64(struct sbuf *b, uint64_t v)
{
	(void)sbuf_add(b, &v, sizeof(v));
}

/* A string, padded with zeroes to a multiple of 8 bytes. */
static inline void pf_str(struct sbuf *b, const char *s)
{
	size_t len = strlen(s);

	(void)sbuf_add(b, s, len);
	do {
		(void)sbuf_add(b, "", 1);
	} while (++len % 8);
}

static inline void pf_feature_str(struct pf *f, uint32_t num, const char *s)
{
	pf_u32(&f->features[num], (uint32_t)((strlen(s) / 8 + 1) * 8));
	pf_str(&f->features[num], s);
}

static inline void pf_init(struct pf *f)
{
	sbuf_init(&f->attrs, SIZE_MAX / 2);
	sbuf_init(&f->records, SIZE_MAX / 2);
	for (size_t i = 0; i < ARRAY_SIZE(f->features); i++)
		sbuf_init(&f->features[i], SIZE_MAX / 2);
}

static inline void pf_done(struct pf *f)
{
	sbuf_done(&f->attrs);
	sbuf_done(&f->records);
	for (size_t i = 0; i < ARRAY_SIZE(f->features); i++)
		sbuf_done(&f->features[i]);
}

/* An event; its ids are elsewhere. */
static inline void pf_attr(struct pf *f, const struct perf_event_attr *a)
{
	(void)sbuf_add(&f->attrs, a, sizeof(*a));
	pf_u64(&f->attrs, 0);
	pf_u64(&f->attrs, 0);
}

static inline void pf_record(struct sbuf *to, uint32_t type, uint16_t misc, const struct sbuf *body)
{
	pf_u32(to, type);
	pf_u16(to, misc);
	pf_u16(to, (uint16_t)(8 + body->len));
	(void)sbuf_add(to, body->p, body->len);
}

/* Adds a record with its trailer of PF_TYPE, and frees @body. */
static inline void pf_add(struct pf *f, uint32_t type, uint16_t misc, struct sbuf *body,
                          uint64_t time)
{
	pf_u32(body, 0);
	pf_u32(body, 0);
	pf_u64(body, time);
	pf_u64(body, 0); /* id */
	pf_record(&f->records, type, misc, body);
	sbuf_done(body);
}

static inline void pf_comm(struct pf *f, uint32_t pid, uint32_t tid, const char *comm, bool exec,
                           uint64_t time)
{
	struct sbuf b;

	sbuf_init(&b, 65536);
	pf_u32(&b, pid);
	pf_u32(&b, tid);
	pf_str(&b, comm);
	pf_add(f, PERF_RECORD_COMM, exec ? PERF_RECORD_MISC_COMM_EXEC : 0, &b, time);
}

static inline void pf_fork(struct pf *f, uint32_t pid, uint32_t ppid, uint32_t tid, uint32_t ptid,
                           uint64_t time)
{
	struct sbuf b;

	sbuf_init(&b, 65536);
	pf_u32(&b, pid);
	pf_u32(&b, ppid);
	pf_u32(&b, tid);
	pf_u32(&b, ptid);
	pf_u64(&b, time);
	pf_add(f, PERF_RECORD_FORK, 0, &b, time);
}

static inline void pf_mmap2(struct pf *f, uint32_t pid, uint64_t addr, uint64_t len, uint64_t pgoff,
                            const char *path, uint64_t time)
{
	struct sbuf b;

	sbuf_init(&b, 65536);
	pf_u32(&b, pid);
	pf_u32(&b, pid);
	pf_u64(&b, addr);
	pf_u64(&b, len);
	pf_u64(&b, pgoff);
	pf_u32(&b, 8);
	pf_u32(&b, 1);
	pf_u64(&b, 77);
	pf_u64(&b, 0);
	pf_u32(&b, 5);
	pf_u32(&b, 2);
	pf_str(&b, path);
	pf_add(f, PERF_RECORD_MMAP2, PERF_RECORD_MISC_USER, &b, time);
}

/* A sample of PF_TYPE. @misc: the mode; @chain: chain[n] */
static inline void pf_sample(struct pf *f, uint16_t misc, uint32_t pid, uint32_t tid, uint64_t time,
                             uint64_t id, uint64_t period, const uint64_t *chain, size_t n)
{
	struct sbuf b;

	sbuf_init(&b, 65536);
	pf_u64(&b, n > 1 ? chain[1] : 0);
	pf_u32(&b, pid);
	pf_u32(&b, tid);
	pf_u64(&b, time);
	pf_u64(&b, id);
	pf_u64(&b, period);
	pf_u64(&b, n);
	(void)sbuf_add(&b, chain, n * sizeof(*chain));
	pf_record(&f->records, PERF_RECORD_SAMPLE, misc, &b);
	sbuf_done(&b);
}

/* The file: header, events, records, table of features, features. */
static inline void pf_write(const struct pf *f, struct sbuf *out)
{
	const uint64_t attrs_at = 104, data_at = attrs_at + f->attrs.len;
	uint64_t bits = 0, at = data_at + f->records.len, n = 0;

	sbuf_init(out, SIZE_MAX / 2);
	(void)sbuf_str(out, "PERFILE2");
	pf_u64(out, 104);
	pf_u64(out, sizeof(struct perf_event_attr) + 16);
	pf_u64(out, attrs_at);
	pf_u64(out, f->attrs.len);
	pf_u64(out, data_at);
	pf_u64(out, f->records.len);
	pf_u64(out, 0);
	pf_u64(out, 0);
	for (uint32_t i = 0; i < ARRAY_SIZE(f->features); i++) {
		bits |= (uint64_t)(f->features[i].len > 0) << i;
		n += f->features[i].len > 0;
	}
	pf_u64(out, bits);
	for (int i = 0; i < 3; i++)
		pf_u64(out, 0);
	(void)sbuf_add(out, f->attrs.p, f->attrs.len);
	(void)sbuf_add(out, f->records.p, f->records.len);
	at += 16 * n;
	for (uint32_t i = 0; i < ARRAY_SIZE(f->features); i++) {
		if (f->features[i].len) {
			pf_u64(out, at);
			pf_u64(out, f->features[i].len);
			at += f->features[i].len;
		}
	}
	for (uint32_t i = 0; i < ARRAY_SIZE(f->features); i++)
		(void)sbuf_add(out, f->features[i].p, f->features[i].len);
	assert_int_equal(out->err, 0);
}

#endif
