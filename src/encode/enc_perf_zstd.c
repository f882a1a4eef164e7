/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Compressed records of perf.data: one zstd frame over all of them, cut where perf's reader can
 * unpack a piece. Source: tools/perf/util/zstd.c, PERF_RECORD_COMPRESSED.
 */
#include "encode/enc_perf_priv.h"

#include <string.h>
#include <zstd.h>
#include <zstd_errors.h>

#define RECORD_COMPRESSED 81
/* Records of so many bytes are packed together; one more, of 64 KiB at most, may be with them. */
#define RAW_BYTES   ((size_t)32 << 10)
#define RAW_MAX     (RAW_BYTES + PERF_RECORD_MAX)
#define PIECE_BYTES ((size_t)65528 - sizeof(struct perf_event_header))

struct perf_zstd {
	ZSTD_CCtx *z;
	size_t n_raw, max_packed;
	uint8_t raw[RAW_MAX];
	uint8_t packed[];
};
_Static_assert(RAW_MAX <= PERF_ZSTD_UNPACKED, "perf's reader has room for so much");

int perf_zstd_new(int level, struct perf_zstd **ret)
{
	const size_t max_packed = ZSTD_compressBound(RAW_MAX) + 64; /* 64: an end of a block */
	struct perf_zstd *p = calloc(1, sizeof(*p) + max_packed);

	if (!p)
		return -ENOMEM;
	p->max_packed = max_packed;
	p->z = ZSTD_createCCtx();
	if (!p->z) {
		free(p);
		return -ENOMEM;
	}
	if (ZSTD_isError(ZSTD_CCtx_setParameter(p->z, ZSTD_c_compressionLevel, level))) {
		perf_zstd_free(p);
		return -EINVAL;
	}
	*ret = p;
	return 0;
}

struct perf_zstd *perf_zstd_free(struct perf_zstd *p)
{
	if (p) {
		(void)ZSTD_freeCCtx(p->z); /* always 0 */
		free(p);
	}
	return NULL;
}

void perf_zstd_begin(struct perf_zstd *p)
{
	p->n_raw = 0;
	(void)ZSTD_CCtx_reset(p->z, ZSTD_reset_session_only); /* cannot fail without a dictionary */
}

bool perf_zstd_add(struct perf_zstd *p, const struct perf_rec *r)
{
	assert(p->n_raw < RAW_BYTES);
	memcpy(p->raw + p->n_raw, r->p, r->len);
	p->n_raw += r->len;
	return p->n_raw >= RAW_BYTES;
}

int perf_zstd_pack(struct perf_zstd *p, struct perf_rec *tmp,
                   int (*emit)(void *arg, const struct perf_rec *r), void *arg)
{
	ZSTD_inBuffer in = {p->raw, p->n_raw, 0};
	ZSTD_outBuffer out = {p->packed, p->max_packed, 0};
	size_t left = p->n_raw;
	int r = 0;

	while (left) {
		left = ZSTD_compressStream2(p->z, &out, &in, ZSTD_e_flush);
		if (ZSTD_isError(left))
			return ZSTD_getErrorCode(left) == ZSTD_error_memory_allocation ? -ENOMEM
			                                                               : -EIO;
		assert(!left || out.pos < out.size); /* the bound is for all of it */
	}
	p->n_raw = 0;
	for (size_t at = 0; at < out.pos && r == 0;) {
		const size_t n = MIN_OF(out.pos - at, PIECE_BYTES);

		perf_rec_header(tmp, RECORD_COMPRESSED, 0);
		memcpy(tmp->p + tmp->len, p->packed + at, n);
		tmp->len += n;
		perf_rec_end(tmp);
		at += n;
		r = emit(arg, tmp);
	}
	return r;
}
