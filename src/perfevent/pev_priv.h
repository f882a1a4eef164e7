/* SPDX-License-Identifier: Apache-2.0 */
/* pev_priv - what the files of perfevent share. */
#ifndef PA_PEV_PRIV_H
#define PA_PEV_PRIV_H

#include <linux/perf_event.h>

#include "perfevent/perfevent.h"

/* ---- opening -------------------------------------------------------------------------------- */

struct perf_event_attr pev_attr_of(const struct pev_spec *s);
/* perf_event_open(2) without group, close-on-exec: descriptor or negative errno. */
int pev_open(const struct perf_event_attr *attr, uint32_t cpu);
/* Describes the failure @code of an open, with its remedy. Returns @code. */
int pev_open_failed(struct err *err, int code, const struct perf_event_attr *attr, uint32_t cpu);
/* Whether the error means that the CPU went offline. */
bool pev_is_offline(int code);

/* ---- records -------------------------------------------------------------------------------- */

/* sample_type of every side-band event, and thereby the trailer of each record (sample_id_all). */
#define PEV_SAMPLE_TYPE (PERF_SAMPLE_TID | PERF_SAMPLE_TIME)
struct pev_trailer {
	uint32_t pid, tid;
	uint64_t time_ns;
};
_Static_assert(sizeof(struct pev_trailer) == 16, "u32 pid, tid; u64 time: perf_event_open(2)");

/* ---- sorting -------------------------------------------------------------------------------- */

/* A heap of copied records, the oldest first; among equal times, the first added first. */
struct pev_sort {
	struct pev_sorted {
		uint64_t time_ns, seq;
		size_t off; /* in bytes, a multiple of 8 */
		uint32_t len, ring;
	} * heap;
	size_t n, cap;
	uint64_t seq;
	/* Records, one after the other; compaction moves the rest to the other buffer. */
	uint8_t *bytes, *other;
	size_t bytes_len, bytes_cap;
	size_t max_bytes; /* cap of each buffer and of the heap */
};

void pev_sort_init(struct pev_sort *q, size_t max_bytes);
void pev_sort_done(struct pev_sort *q);
/**
 * pev_sort_add - room for one more record
 * @len: a multiple of 8
 * @ret: the memory for its bytes; valid until the next call
 * Returns: 0, -E2BIG (at the cap), -ENOMEM.
 */
int pev_sort_add(struct pev_sort *q, uint64_t time_ns, uint32_t ring, uint32_t len, uint8_t **ret);
/* The oldest record if it is not younger than @until_ns; valid until pev_sort_add or
 * pev_sort_compact. */
bool pev_sort_pop(struct pev_sort *q, uint64_t until_ns, struct pev_sorted *ret, uint8_t **ret_rec);
/* Frees the room of popped records. */
void pev_sort_compact(struct pev_sort *q);

#endif
