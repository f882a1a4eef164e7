/* SPDX-License-Identifier: Apache-2.0 */
/* Records wait here until no other CPU can still bring an older one. */
#include "perfevent/pev_priv.h"

#define FIRST_BYTES   (64 * 1024)
#define FIRST_RECORDS 512

void pev_sort_init(struct pev_sort *q, size_t max_bytes)
{
	*q = (struct pev_sort){.max_bytes = max_bytes};
}

void pev_sort_done(struct pev_sort *q)
{
	free(q->heap);
	free(q->bytes);
	free(q->other);
	*q = (struct pev_sort){0};
}

static bool is_before(const struct pev_sorted *a, const struct pev_sorted *b)
{
	return a->time_ns != b->time_ns ? a->time_ns < b->time_ns : a->seq < b->seq;
}

static int grow_heap(struct pev_sort *q)
{
	size_t cap = q->cap ? 2 * q->cap : FIRST_RECORDS;
	struct pev_sorted *heap;
	size_t size;

	if (!size_mul(cap, sizeof(*heap), &size) || size > q->max_bytes)
		return -E2BIG;
	heap = realloc(q->heap, size);
	if (!heap)
		return -ENOMEM;
	q->heap = heap;
	q->cap = cap;
	return 0;
}

static int grow_bytes(struct pev_sort *q)
{
	size_t cap = q->bytes_cap ? 2 * q->bytes_cap : FIRST_BYTES;
	uint8_t *bytes, *other;

	if (cap > q->max_bytes)
		return -E2BIG;
	/* Both at once, so that compaction never needs memory; the other one is empty now. */
	other = realloc(q->other, cap);
	if (!other)
		return -ENOMEM;
	q->other = other;
	bytes = realloc(q->bytes, cap);
	if (!bytes)
		return -ENOMEM;
	q->bytes = bytes;
	q->bytes_cap = cap;
	return 0;
}

int pev_sort_add(struct pev_sort *q, uint64_t time_ns, uint32_t ring, uint32_t len, uint8_t **ret)
{
	struct pev_sorted e = {.time_ns = time_ns, .len = len, .ring = ring};
	size_t i;
	int r;

	assert(len % 8 == 0);
	if (q->n == q->cap) {
		r = grow_heap(q);
		if (r < 0)
			return r;
	}
	while (q->bytes_cap - q->bytes_len < len) {
		r = grow_bytes(q);
		if (r < 0)
			return r;
	}
	e.seq = q->seq++;
	e.off = q->bytes_len;
	q->bytes_len += len;
	for (i = q->n++; i > 0 && is_before(&e, &q->heap[(i - 1) / 2]); i = (i - 1) / 2)
		q->heap[i] = q->heap[(i - 1) / 2];
	q->heap[i] = e;
	*ret = q->bytes + e.off;
	return 0;
}

bool pev_sort_pop(struct pev_sort *q, uint64_t until_ns, struct pev_sorted *ret, uint8_t **ret_rec)
{
	struct pev_sorted last;
	size_t i = 0;

	if (q->n == 0 || q->heap[0].time_ns > until_ns)
		return false;
	*ret = q->heap[0];
	*ret_rec = q->bytes + ret->off;
	last = q->heap[--q->n];
	for (;;) {
		size_t child = 2 * i + 1;

		if (child + 1 < q->n && is_before(&q->heap[child + 1], &q->heap[child]))
			child++;
		if (child >= q->n || !is_before(&q->heap[child], &last))
			break;
		q->heap[i] = q->heap[child];
		i = child;
	}
	if (q->n > 0)
		q->heap[i] = last;
	return true;
}

void pev_sort_compact(struct pev_sort *q)
{
	uint8_t *old = q->bytes;
	size_t len = 0;

	for (size_t i = 0; i < q->n; i++) {
		memcpy(q->other + len, old + q->heap[i].off, q->heap[i].len);
		q->heap[i].off = len;
		len += q->heap[i].len;
	}
	q->bytes = q->other;
	q->other = old;
	q->bytes_len = len;
}
