/* SPDX-License-Identifier: Apache-2.0 */
#include "base/base.h"

#define CHUNK_ITEMS       128
#define CHUNK_ITEMS_FIRST 8
#define ITEM_BYTES_MAX    64

struct imap_chunk {
	uint32_t n, cap; /* items: 1 <= n <= cap <= CHUNK_ITEMS */
	uint64_t items[];
};

/* An item begins with its interval; see base.h. */
static uint64_t *item_of(const struct imap *m, const struct imap_chunk *c, size_t i)
{
	return (uint64_t *)(uintptr_t)((const char *)c->items + i * m->item_bytes);
}

static uint64_t end_of(const struct imap *m, const struct imap_chunk *c, size_t i)
{
	return item_of(m, c, i)[1];
}

static size_t chunk_bytes(const struct imap *m, uint32_t cap)
{
	return sizeof(struct imap_chunk) + cap * m->item_bytes;
}

void imap_init(struct imap *m, size_t item_bytes, size_t max_items)
{
	assert(item_bytes >= 2 * sizeof(uint64_t) && item_bytes <= ITEM_BYTES_MAX &&
	       item_bytes % sizeof(uint64_t) == 0);
	*m = (struct imap){.item_bytes = item_bytes, .max = max_items};
}

static void chunk_free(struct imap *m, size_t k)
{
	m->bytes -= chunk_bytes(m, m->chunk[k]->cap);
	free(m->chunk[k]);
}

void imap_done(struct imap *m)
{
	for (size_t k = 0; k < m->n_chunks; k++)
		chunk_free(m, k);
	free(m->chunk);
	imap_init(m, m->item_bytes, m->max);
}

int imap_copy(const struct imap *m, struct imap *ret)
{
	_cleanup_(imap_done) struct imap c;

	imap_init(&c, m->item_bytes, m->max);
	c.chunk = calloc(MAX_OF(m->n_chunks, (size_t)1), sizeof(*c.chunk));
	if (!c.chunk)
		return -ENOMEM;
	c.cap_chunks = MAX_OF(m->n_chunks, (size_t)1);
	c.bytes = c.cap_chunks * sizeof(*c.chunk);
	for (; c.n_chunks < m->n_chunks; c.n_chunks++) {
		const struct imap_chunk *from = m->chunk[c.n_chunks];
		struct imap_chunk *to = malloc(chunk_bytes(m, from->n));

		if (!to)
			return -ENOMEM;
		memcpy(to, from, chunk_bytes(m, from->n));
		to->cap = from->n;
		c.chunk[c.n_chunks] = to;
		c.bytes += chunk_bytes(m, to->cap);
	}
	c.n = m->n;
	*ret = c;
	imap_init(&c, m->item_bytes, 0); /* moved */
	return 0;
}

/* ---- look-up --------------------------------------------------------------------------------- */

struct imap_pos imap_lower(const struct imap *m, uint64_t x)
{
	struct imap_pos p = {0};
	const struct imap_chunk *c;

	p.chunk = bisect_first(k, 0, m->n_chunks, end_of(m, m->chunk[k], m->chunk[k]->n - 1) > x);
	if (p.chunk == m->n_chunks)
		return p;
	c = m->chunk[p.chunk];
	p.i = bisect_first(k, 0, c->n, end_of(m, c, k) > x);
	return p;
}

void *imap_at(const struct imap *m, struct imap_pos p)
{
	return p.chunk < m->n_chunks ? item_of(m, m->chunk[p.chunk], p.i) : NULL;
}

struct imap_pos imap_next(const struct imap *m, struct imap_pos p)
{
	if (++p.i >= m->chunk[p.chunk]->n)
		p = (struct imap_pos){.chunk = p.chunk + 1};
	return p;
}

void *imap_find(const struct imap *m, uint64_t x)
{
	uint64_t *item = imap_at(m, imap_lower(m, x));

	return item && item[0] <= x ? item : NULL;
}

/* ---- change ---------------------------------------------------------------------------------- */

/* Inserts an empty chunk at index @k. */
static int chunk_add(struct imap *m, size_t k, uint32_t cap)
{
	struct imap_chunk *c;

	if (m->n_chunks == m->cap_chunks) {
		size_t cap_chunks = MAX_OF(m->cap_chunks * 2, (size_t)1);
		struct imap_chunk **grown = realloc(m->chunk, cap_chunks * sizeof(*grown));

		if (!grown)
			return -ENOMEM;
		m->bytes += (cap_chunks - m->cap_chunks) * sizeof(*grown);
		m->chunk = grown;
		m->cap_chunks = cap_chunks;
	}
	c = malloc(chunk_bytes(m, cap));
	if (!c)
		return -ENOMEM;
	c->n = 0;
	c->cap = cap;
	m->bytes += chunk_bytes(m, cap);
	memmove(&m->chunk[k + 1], &m->chunk[k], (m->n_chunks - k) * sizeof(*m->chunk));
	m->chunk[k] = c;
	m->n_chunks++;
	return 0;
}

/* Makes room for one more item at @p, which moves if the chunk is split. */
static int make_room(struct imap *m, struct imap_pos *p)
{
	struct imap_chunk *c = m->chunk[p->chunk], *next;
	uint32_t cap;
	int r;

	if (c->n < c->cap)
		return 0;
	if (c->cap < CHUNK_ITEMS) {
		cap = MIN_OF(2 * c->cap, (uint32_t)CHUNK_ITEMS);
		c = realloc(c, chunk_bytes(m, cap));
		if (!c)
			return -ENOMEM;
		m->bytes += chunk_bytes(m, cap) - chunk_bytes(m, c->cap);
		c->cap = cap;
		m->chunk[p->chunk] = c;
		return 0;
	}
	r = chunk_add(m, p->chunk + 1, CHUNK_ITEMS);
	if (r < 0)
		return r;
	next = m->chunk[p->chunk + 1];
	/* An insertion at the end leaves the chunk full: items that come in order fill chunks. */
	if (p->i < c->n) {
		next->n = c->n / 2;
		c->n -= next->n;
		memcpy(next->items, item_of(m, c, c->n), next->n * m->item_bytes);
	}
	if (p->i >= c->n)
		*p = (struct imap_pos){.chunk = p->chunk + 1, .i = p->i - c->n};
	return 0;
}

int imap_insert(struct imap *m, const void *item)
{
	const uint64_t *interval = item;
	struct imap_pos p = imap_lower(m, interval[0]);
	struct imap_chunk *c;
	int r;

	if (m->n >= m->max)
		return -E2BIG;
	/* Rather after the last item of a chunk than before the first of the next: in order. */
	if (p.i == 0 && p.chunk > 0) {
		p.chunk--;
		p.i = m->chunk[p.chunk]->n;
	}
	r = m->n_chunks ? make_room(m, &p) : chunk_add(m, 0, CHUNK_ITEMS_FIRST);
	if (r < 0)
		return r;
	c = m->chunk[p.chunk];
	memmove(item_of(m, c, p.i + 1), item_of(m, c, p.i), (c->n - p.i) * m->item_bytes);
	memcpy(item_of(m, c, p.i), item, m->item_bytes);
	c->n++;
	m->n++;
	return 0;
}

/* Removes the first @k items of a chunk that has more. */
static void drop_head(struct imap *m, struct imap_chunk *c, size_t k)
{
	memmove(c->items, item_of(m, c, k), (c->n - k) * m->item_bytes);
	c->n -= (uint32_t)k;
	m->n -= k;
}

/* Removes the items [@a, @b); @b is the end or an item. */
static void drop(struct imap *m, struct imap_pos a, struct imap_pos b)
{
	size_t first = a.chunk;

	if (a.chunk == b.chunk) {
		struct imap_chunk *c = a.i < b.i ? m->chunk[a.chunk] : NULL;

		if (!c)
			return;
		memmove(item_of(m, c, a.i), item_of(m, c, b.i), (c->n - b.i) * m->item_bytes);
		c->n -= (uint32_t)(b.i - a.i);
		m->n -= b.i - a.i;
		return;
	}
	if (b.i)
		drop_head(m, m->chunk[b.chunk], b.i);
	if (a.i) {
		m->n -= m->chunk[first]->n - a.i;
		m->chunk[first++]->n = (uint32_t)a.i;
	}
	for (size_t k = first; k < b.chunk; k++) {
		m->n -= m->chunk[k]->n;
		chunk_free(m, k);
	}
	memmove(&m->chunk[first], &m->chunk[b.chunk], (m->n_chunks - b.chunk) * sizeof(*m->chunk));
	m->n_chunks -= b.chunk - first;
}

int imap_cut(struct imap *m, uint64_t start, uint64_t end)
{
	uint64_t tail[ITEM_BYTES_MAX / sizeof(uint64_t)];
	struct imap_pos a = imap_lower(m, start), b;
	uint64_t *item = imap_at(m, a);

	if (!item || item[0] >= end)
		return 0;
	if (item[0] < start && item[1] > end) {
		memcpy(tail, item, m->item_bytes);
		item[1] = start;
		tail[0] = end;
		return imap_insert(m, tail);
	}
	if (item[0] < start) {
		item[1] = start;
		a = imap_next(m, a);
	}
	b = imap_lower(m, end);
	item = imap_at(m, b);
	if (item && item[0] < end)
		item[0] = end;
	drop(m, a, b);
	return 0;
}
