/* SPDX-License-Identifier: Apache-2.0 */
/* enc_perf_priv - shared by the parts of the perf.data writer. */
#ifndef PA_ENC_PERF_PRIV_H
#define PA_ENC_PERF_PRIV_H

#include "encode/encode_priv.h"

#include <linux/perf_event.h>

#define PERF_NAME_MAX   4096 /* with its NUL: PATH_MAX of perf's own buffers */
#define PERF_RECORD_MAX 65536

/* Fields of a sample, in the order of their bits; all events have the same. IDENTIFIER is first in
 * samples and last in the trailer of other records, so perf finds the event of each. */
#define PERF_FIELDS                                                                                \
	(PERF_SAMPLE_IDENTIFIER | PERF_SAMPLE_IP | PERF_SAMPLE_TID | PERF_SAMPLE_TIME |            \
	 PERF_SAMPLE_CPU | PERF_SAMPLE_PERIOD | PERF_SAMPLE_CALLCHAIN)

/* One record while it is made. */
struct perf_rec {
	size_t len;
	uint8_t p[PERF_RECORD_MAX];
};
void perf_rec_u32(struct perf_rec *r, uint32_t v);
void perf_rec_u64(struct perf_rec *r, uint64_t v);
/**
 * perf_rec_header - begin a record; its size is set by perf_rec_end
 */
void perf_rec_header(struct perf_rec *r, uint32_t type, uint32_t misc);
/**
 * perf_rec_end - set the size
 */
void perf_rec_end(struct perf_rec *r);
/**
 * perf_rec_name, perf_rec_path - a string with NUL, in zeroes up to a multiple of @align bytes
 * @max: bytes with the NUL; what is over is cut, at the end of a character
 * perf_rec_name: what utf8_is_control has and what is not UTF-8 become '?'. perf_rec_path: all bytes stay.
 */
void perf_rec_name(struct perf_rec *r, const char *s, size_t max, size_t align);
void perf_rec_path(struct perf_rec *r, const char *s, size_t max, size_t align);

/**
 * perf_event_id - returns the id of an event: no other has it, and it is not 0
 */
static inline uint64_t perf_event_id(uint32_t event)
{
	return (uint64_t)event + 1;
}
/**
 * perf_record_make - a record of the stream
 * Returns: 0, -EINVAL (an argument out of its range).
 */
int perf_record_make(const struct enc_perf_data *d, const struct enc_perf_record *from,
                     struct perf_rec *r);
/**
 * perf_kernel_map_make - the record of the kernel's own mapping
 */
void perf_kernel_map_make(const struct enc_perf_kernel *k, struct perf_rec *r);

/* Records that are packed before they are written. */
struct perf_zstd;
#define PERF_ZSTD_UNPACKED (128 << 10) /* bytes that a piece may unpack to: said in the header */
/**
 * perf_zstd_new, perf_zstd_free - NULL is accepted; free returns NULL
 * @level: 1 to 22
 * Returns: 0, -ENOMEM, -EINVAL (@level).
 */
int perf_zstd_new(int level, struct perf_zstd **ret);
struct perf_zstd *perf_zstd_free(struct perf_zstd *p);
/**
 * perf_zstd_begin - forget all that was added
 */
void perf_zstd_begin(struct perf_zstd *p);
/**
 * perf_zstd_add - add a record
 * Returns: true when perf_zstd_pack must follow.
 */
bool perf_zstd_add(struct perf_zstd *p, const struct perf_rec *r);
/**
 * perf_zstd_pack - pass on all that was added, in records that are packed
 * @tmp: room for one of them
 * Returns: 0, -ENOMEM, -EIO, or what @emit returned.
 */
int perf_zstd_pack(struct perf_zstd *p, struct perf_rec *tmp,
                   int (*emit)(void *arg, const struct perf_rec *r), void *arg);

/* Results of the first pass, and sizes. */
struct perf_sizes {
	uint64_t data;                        /* bytes of all records */
	uint64_t unpacked;                    /* the same before they are packed */
	uint64_t samples;                     /* number */
	uint64_t first_time_ns, last_time_ns; /* of samples */
};
/**
 * perf_put_header - header, ids and attributes: what is before the records
 */
void perf_put_header(const struct enc_perf_data *d, const struct perf_sizes *s, struct sbuf *b);
/**
 * perf_put_features - the table of feature sections and the sections: what is after the records
 * @at:  offset of the table in the file
 * @tmp: room for a string
 */
void perf_put_features(const struct enc_perf_data *d, const struct perf_sizes *s, uint64_t at,
                       struct perf_rec *tmp, struct sbuf *b);

#endif
