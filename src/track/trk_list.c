// SPDX-License-Identifier: Apache-2.0
/*
 * Mappings of one incarnation: a sorted sequence in chunks, so that one more mapping moves 4 KiB at
 * most however many there are (a hostile process has 65,530 and maps them in any order).
 */
#include "track/track_priv.h"

struct trk_list *trk_list_new(void)
{
	struct trk_list *l = calloc(1, sizeof(*l));

	if (l)
		l->ref = 1;
	return l;
}

void trk_list_unref(struct trk *t, struct trk_list *l)
{
	if (!l || --l->ref > 0)
		return;
	trk_pub_forget_list(l);
	t->n_maps -= l->n + l->n_old + l->n_gone;
	for (uint32_t i = 0; i < l->n_chunks; i++)
		free(l->chunk[i]);
	free(l->chunk);
	free(l->old);
	free(l->gone);
	free(l);
}

struct trk_list *trk_list_copy(struct trk *t, const struct trk_list *l)
{
	struct trk_list *c;

	if (!trk_hold_maps(t, l->n + l->n_old + l->n_gone))
		return NULL;
	c = trk_list_new();
	if (!c)
		return NULL;
	c->chunk = calloc(MAX_OF(l->n_chunks, 1U), sizeof(*c->chunk));
	c->old = calloc(MAX_OF(l->n_old, (size_t)1), sizeof(*c->old));
	c->gone = calloc(MAX_OF(l->n_gone, 1U), sizeof(*c->gone));
	if (!c->chunk || !c->old || !c->gone)
		goto fail;
	c->cap_gone = MAX_OF(l->n_gone, 1U);
	c->cap_chunks = MAX_OF(l->n_chunks, 1U);
	c->cap_old = MAX_OF(l->n_old, (size_t)1);
	for (; c->n_chunks < l->n_chunks; c->n_chunks++) {
		const struct trk_chunk *from = l->chunk[c->n_chunks];
		size_t len = sizeof(*from) + from->cap * sizeof(from->m[0]);
		struct trk_chunk *to = malloc(len);

		if (!to)
			goto fail;
		memcpy(to, from, sizeof(*from) + from->n * sizeof(from->m[0]));
		c->chunk[c->n_chunks] = to;
	}
	if (l->n_old)
		memcpy(c->old, l->old, l->n_old * sizeof(*l->old));
	if (l->n_gone)
		memcpy(c->gone, l->gone, l->n_gone * sizeof(*l->gone));
	c->forgot_ns = l->forgot_ns;
	c->n = l->n;
	c->n_old = l->n_old;
	c->n_gone = l->n_gone;
	t->n_maps += c->n + c->n_old + c->n_gone;
	return c;
fail:
	trk_list_unref(t, c); /* c->n is still 0: nothing was held */
	return NULL;
}

/* ---- looking -------------------------------------------------------------------------------- */

struct trk_pos trk_list_lower(const struct trk_list *l, uint64_t addr)
{
	struct trk_pos p = {0, 0};
	const struct trk_chunk *c;

	p.chunk = (uint32_t)bisect_first(k, 0, l->n_chunks,
	                                 l->chunk[k]->m[l->chunk[k]->n - 1].end > addr);
	if (p.chunk == l->n_chunks)
		return p;
	c = l->chunk[p.chunk];
	p.i = (uint32_t)bisect_first(k, 0, c->n, c->m[k].end > addr);
	return p;
}

struct trk_map *trk_list_at(const struct trk_list *l, struct trk_pos p)
{
	return p.chunk < l->n_chunks ? &l->chunk[p.chunk]->m[p.i] : NULL;
}

struct trk_pos trk_list_next(const struct trk_list *l, struct trk_pos p)
{
	if (++p.i >= l->chunk[p.chunk]->n)
		p = (struct trk_pos){p.chunk + 1, 0};
	return p;
}

const struct trk_map *trk_list_find(const struct trk_list *l, uint64_t addr)
{
	const struct trk_map *m;

	if (!l)
		return NULL;
	m = trk_list_at(l, trk_list_lower(l, addr));
	return m && m->start <= addr ? m : NULL;
}

const struct trk_map *trk_list_find_old(const struct trk_list *l, uint64_t addr)
{
	for (size_t i = l ? l->n_old : 0; i-- > 0;)
		if (l->old[i].start <= addr && addr < l->old[i].end)
			return &l->old[i];
	return NULL;
}

const struct trk_map *trk_list_find_gone(const struct trk_list *l, uint64_t addr, uint64_t time_ns,
                                         bool *ret_known)
{
	size_t k;

	*ret_known = !l || time_ns >= l->forgot_ns;
	if (!l || !*ret_known)
		return NULL;
	/* The first one that was there longer than that. */
	k = bisect_first(i, 0, l->n_gone, l->gone[i].until_ns > time_ns);
	for (; k < l->n_gone; k++)
		if (l->gone[k].m.start <= addr && addr < l->gone[k].m.end)
			return &l->gone[k].m;
	return NULL;
}

bool trk_map_agree(const struct trk_map *a, const struct trk_map *b)
{
	return a->image == b->image &&
	       (a->image == 0 || a->start - a->pgoff == b->start - b->pgoff);
}

bool trk_list_covers(const struct trk_list *l, const struct trk_map *m)
{
	uint64_t upto = m->start;

	if (!l)
		return false;
	/* Neighbours together may cover it: the kernel joins and splits areas as it likes. */
	for (struct trk_pos p = trk_list_lower(l, m->start); upto < m->end;
	     p = trk_list_next(l, p)) {
		const struct trk_map *o = trk_list_at(l, p);

		if (!o || o->start > upto || !trk_map_agree(o, m))
			return false;
		upto = o->end;
	}
	return true;
}

/* ---- changing ------------------------------------------------------------------------------- */

static struct trk_map clip(const struct trk_map *m, uint64_t start, uint64_t end)
{
	struct trk_map r = *m;

	if (start > r.start) {
		if (r.image)
			r.pgoff += start - r.start;
		r.start = start;
	}
	r.end = MIN_OF(r.end, end);
	return r;
}

static bool add_chunk(struct trk_list *l, uint32_t at, uint32_t cap)
{
	struct trk_chunk *c;

	if (l->n_chunks == l->cap_chunks) {
		uint32_t cap_chunks = MAX_OF(l->cap_chunks * 2, 1U);
		struct trk_chunk **d = realloc(l->chunk, cap_chunks * sizeof(*d));

		if (!d)
			return false;
		l->chunk = d;
		l->cap_chunks = cap_chunks;
	}
	c = malloc(sizeof(*c) + cap * sizeof(c->m[0]));
	if (!c)
		return false;
	c->n = 0;
	c->cap = cap;
	memmove(l->chunk + at + 1, l->chunk + at, (l->n_chunks - at) * sizeof(*l->chunk));
	l->chunk[at] = c;
	l->n_chunks++;
	return true;
}

/* Makes room for one more in chunk p->chunk, moving *p along. */
static bool make_room(struct trk_list *l, struct trk_pos *p)
{
	struct trk_chunk *c = l->chunk[p->chunk], *d;
	uint32_t cap;

	if (c->n < c->cap)
		return true;
	if (c->cap < TRK_CHUNK_MAPS) {
		cap = MIN_OF(c->cap * 2, (uint32_t)TRK_CHUNK_MAPS);
		c = realloc(c, sizeof(*c) + cap * sizeof(c->m[0]));
		if (!c)
			return false;
		c->cap = cap;
		l->chunk[p->chunk] = c;
		return true;
	}
	if (!add_chunk(l, p->chunk + 1, TRK_CHUNK_MAPS))
		return false;
	d = l->chunk[p->chunk + 1];
	/* Filled in order the chunks stay full; else each half gets room. */
	if (p->i < c->n) {
		d->n = c->n / 2;
		c->n -= d->n;
		memcpy(d->m, c->m + c->n, d->n * sizeof(d->m[0]));
	}
	if (p->i >= c->n) {
		p->i -= c->n;
		p->chunk++;
	}
	return true;
}

static void insert(struct trk *t, struct trk_list *l, struct trk_pos p, const struct trk_map *m)
{
	struct trk_chunk *c;

	if (!trk_hold_maps(t, 1))
		goto fail;
	if (p.chunk == l->n_chunks) {
		/* 8: most processes have more executable mappings than 4. */
		if (l->n_chunks == 0 && !add_chunk(l, 0, 8))
			goto fail;
		p.chunk = l->n_chunks - 1;
		p.i = l->chunk[p.chunk]->n;
	}
	if (!make_room(l, &p))
		goto fail;
	c = l->chunk[p.chunk];
	memmove(c->m + p.i + 1, c->m + p.i, (c->n - p.i) * sizeof(c->m[0]));
	c->m[p.i] = *m;
	c->n++;
	l->n++;
	t->n_maps++;
	return;
fail:
	t->stats.dropped_mappings++;
}

/* Returns the position of the one behind it. */
static struct trk_pos erase(struct trk *t, struct trk_list *l, struct trk_pos p)
{
	struct trk_chunk *c = l->chunk[p.chunk];

	c->n--;
	memmove(c->m + p.i, c->m + p.i + 1, (c->n - p.i) * sizeof(c->m[0]));
	l->n--;
	t->n_maps--;
	if (c->n == 0) {
		free(c);
		l->n_chunks--;
		memmove(l->chunk + p.chunk, l->chunk + p.chunk + 1,
		        (l->n_chunks - p.chunk) * sizeof(*l->chunk));
		p.i = 0;
	} else if (p.i == c->n) {
		p = (struct trk_pos){p.chunk + 1, 0};
	}
	return p;
}

void trk_list_remember(struct trk *t, struct trk_list *l, const struct trk_map *m)
{
	size_t from = l->n_old > TRK_HISTORY_LOOKBACK ? l->n_old - TRK_HISTORY_LOOKBACK : 0;

	for (size_t i = l->n_old; i-- > from;) {
		const struct trk_map *o = &l->old[i];

		if (o->start == m->start && o->end == m->end && trk_map_agree(o, m)) {
			struct trk_map again = *o;

			memmove(l->old + i, l->old + i + 1, (l->n_old - i - 1) * sizeof(*o));
			l->old[l->n_old - 1] = again;
			return;
		}
	}
	if (l->n_old == TRK_HISTORY_MAX) {
		size_t half = TRK_HISTORY_MAX / 2;

		memmove(l->old, l->old + half, (l->n_old - half) * sizeof(*l->old));
		l->n_old -= half;
		t->n_maps -= half;
		t->stats.dropped_mappings += half;
	}
	if (!trk_hold_maps(t, 1))
		goto fail;
	if (l->n_old == l->cap_old) {
		size_t cap = MAX_OF(l->cap_old * 2, (size_t)4);
		struct trk_map *old = realloc(l->old, cap * sizeof(*old));

		if (!old)
			goto fail;
		l->old = old;
		l->cap_old = cap;
	}
	l->old[l->n_old++] = *m;
	t->n_maps++;
	return;
fail:
	t->stats.dropped_mappings++;
}

/* @k: how many of the oldest. */
static void forget_gone(struct trk *t, struct trk_list *l, uint32_t k)
{
	l->forgot_ns = l->gone[k - 1].until_ns;
	memmove(l->gone, l->gone + k, (l->n_gone - k) * sizeof(*l->gone));
	l->n_gone -= k;
	t->n_maps -= k;
}

void trk_list_note_gone(struct trk *t, struct trk_list *l, const struct trk_map *m,
                        uint64_t until_ns)
{
	if (l->n_gone)
		until_ns = MAX_OF(until_ns, l->gone[l->n_gone - 1].until_ns);
	if (l->n_gone == TRK_GONE_MAX)
		forget_gone(t, l, TRK_GONE_MAX / 2);
	if (l->n_gone == l->cap_gone) {
		uint32_t cap = MAX_OF(l->cap_gone * 2, 4U);
		struct trk_gone *gone = realloc(l->gone, cap * sizeof(*gone));

		if (!gone)
			goto fail;
		l->gone = gone;
		l->cap_gone = cap;
	}
	if (!trk_hold_maps(t, 1))
		goto fail;
	l->gone[l->n_gone++] = (struct trk_gone){.m = *m, .until_ns = until_ns};
	t->n_maps++;
	return;
fail:
	l->forgot_ns = until_ns;
}

void trk_list_append(struct trk *t, struct trk_list *l, const struct trk_map *m)
{
	insert(t, l, (struct trk_pos){l->n_chunks, 0}, m);
}

void trk_list_put(struct trk *t, struct trk_list *l, const struct trk_map *m, bool cut,
                  uint64_t time_ns)
{
	struct trk_pos p = trk_list_lower(l, m->start);
	struct trk_map *o;

	while ((o = trk_list_at(l, p)) && o->start < m->end) {
		struct trk_map was = *o, gone = clip(o, m->start, m->end);

		if (was.start < m->start && was.end > m->end) {
			struct trk_map tail = clip(&was, m->end, was.end);

			o->end = m->start;
			insert(t, l, trk_list_next(l, p), &tail);
		} else if (was.start < m->start) {
			o->end = m->start;
		} else if (was.end > m->end) {
			*o = clip(&was, m->end, was.end);
		} else {
			p = erase(t, l, p);
		}
		if (cut || !trk_map_agree(&was, m)) {
			trk_list_remember(t, l, &gone);
			trk_list_note_gone(t, l, &gone, time_ns);
			t->stats.replaced++;
		}
		if (was.end > m->end)
			break;
		if (was.start < m->start)
			p = trk_list_next(l, p);
	}
	if (!cut)
		insert(t, l, trk_list_lower(l, m->start), m);
}
