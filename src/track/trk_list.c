// SPDX-License-Identifier: Apache-2.0
/*
 * The mappings of one incarnation: those of now in an interval map, and two histories.
 * A hostile process has 65,530 mappings and maps them in any order: one more moves 4 KiB at most.
 */
#include "track/track_priv.h"

struct trk_list *trk_list_new(struct trk_quota *q)
{
	struct trk_list *l = calloc(1, sizeof(*l));

	if (!l)
		return NULL;
	l->ref = 1;
	l->quota = q;
	imap_init(&l->maps, sizeof(struct trk_map), SIZE_MAX);
	l->old.max = TRK_HISTORY_MAX;
	l->gone.max = TRK_GONE_MAX;
	return l;
}

size_t trk_list_held(const struct trk_list *l)
{
	return l->maps.n + l->old.n + l->gone.n;
}

void trk_list_unref(struct trk_list *l)
{
	if (!l || --l->ref > 0)
		return;
	l->quota->n -= trk_list_held(l);
	imap_done(&l->maps);
	vec_done(&l->old);
	vec_done(&l->gone);
	free(l);
}

static bool has_room(const struct trk_quota *q, size_t k)
{
	return q->n <= q->max && q->max - q->n >= k;
}

struct trk_list *trk_list_copy(const struct trk_list *l)
{
	struct trk_list *c;

	if (!has_room(l->quota, trk_list_held(l)))
		return NULL;
	c = trk_list_new(l->quota);
	if (!c)
		return NULL;
	if (vec_reserve(&c->old, l->old.n) < 0 || vec_reserve(&c->gone, l->gone.n) < 0 ||
	    imap_copy(&l->maps, &c->maps) < 0) {
		trk_list_unref(c); /* holds nothing yet */
		return NULL;
	}
	vec_each (m, &l->old)
		c->old.p[c->old.n++] = *m;
	vec_each (g, &l->gone)
		c->gone.p[c->gone.n++] = *g;
	c->forgot_ns = l->forgot_ns;
	c->quota->n += trk_list_held(c);
	return c;
}

/* ---- look-up -------------------------------------------------------------------------------- */

const struct trk_map *trk_list_find(const struct trk_list *l, uint64_t addr)
{
	return l ? imap_find(&l->maps, addr) : NULL;
}

const struct trk_map *trk_list_find_old(const struct trk_list *l, uint64_t addr)
{
	for (size_t i = l ? l->old.n : 0; i-- > 0;)
		if (l->old.p[i].start <= addr && addr < l->old.p[i].end)
			return &l->old.p[i];
	return NULL;
}

const struct trk_map *trk_list_find_gone(const struct trk_list *l, uint64_t addr, uint64_t time_ns,
                                         bool *ret_known)
{
	size_t k;

	*ret_known = !l || time_ns >= l->forgot_ns;
	if (!l || !*ret_known)
		return NULL;
	/* Entries are in the order of their ends: skip those that had ended by then. */
	k = bisect_first(i, 0, l->gone.n, l->gone.p[i].until_ns > time_ns);
	for (; k < l->gone.n; k++)
		if (l->gone.p[k].m.start <= addr && addr < l->gone.p[k].m.end)
			return &l->gone.p[k].m;
	return NULL;
}

bool trk_map_agree(const struct trk_map *a, const struct trk_map *b)
{
	return a->image == b->image && a->base == b->base;
}

bool trk_list_covers(const struct trk_list *l, const struct trk_map *m)
{
	uint64_t upto = m->start;

	if (!l)
		return false;
	/* Neighbours together may cover it: the kernel joins and splits areas as it likes. */
	for (struct imap_pos p = imap_lower(&l->maps, m->start); upto < m->end;
	     p = imap_next(&l->maps, p)) {
		const struct trk_map *o = imap_at(&l->maps, p);

		if (!o || o->start > upto || !trk_map_agree(o, m))
			return false;
		upto = o->end;
	}
	return true;
}

/* ---- change --------------------------------------------------------------------------------- */

void trk_list_add_old(struct trk_list *l, const struct trk_map *m)
{
	size_t from = l->old.n > TRK_HISTORY_LOOKBACK ? l->old.n - TRK_HISTORY_LOOKBACK : 0;
	struct trk_map *old = l->old.p;

	for (size_t i = l->old.n; i-- > from;) {
		struct trk_map again = old[i];

		if (again.start != m->start || again.end != m->end || !trk_map_agree(&again, m))
			continue;
		memmove(old + i, old + i + 1, (l->old.n - i - 1) * sizeof(*old));
		old[l->old.n - 1] = again;
		return;
	}
	if (l->old.n == TRK_HISTORY_MAX) {
		const size_t half = TRK_HISTORY_MAX / 2;

		memmove(old, old + half, (l->old.n - half) * sizeof(*old));
		l->old.n -= half;
		l->quota->n -= half;
		l->quota->stats->dropped_mappings += half;
	}
	if (has_room(l->quota, 1) && vec_push(&l->old, *m) == 0)
		l->quota->n++;
	else
		l->quota->stats->dropped_mappings++;
}

/* Removes the oldest @k, which are known no more. */
static void forget_gone(struct trk_list *l, size_t k)
{
	l->forgot_ns = l->gone.p[k - 1].until_ns;
	l->gone.n -= k;
	memmove(l->gone.p, l->gone.p + k, l->gone.n * sizeof(*l->gone.p));
	l->quota->n -= k;
}

void trk_list_note_gone(struct trk_list *l, const struct trk_map *m, uint64_t until_ns)
{
	if (l->gone.n)
		until_ns = MAX_OF(until_ns, l->gone.p[l->gone.n - 1].until_ns);
	if (l->gone.n == TRK_GONE_MAX)
		forget_gone(l, TRK_GONE_MAX / 2);
	if (has_room(l->quota, 1) &&
	    vec_push(&l->gone, (struct trk_gone){.m = *m, .until_ns = until_ns}) == 0)
		l->quota->n++;
	else
		l->forgot_ns = until_ns;
}

/* Changes the map by imap_cut or imap_insert, within the quota. */
static void change(struct trk_list *l, const struct trk_map *m, bool cut)
{
	struct trk_quota *q = l->quota;
	size_t before = l->maps.n;
	int r;

	l->maps.max = before + (has_room(q, 0) ? q->max - q->n : 0);
	r = cut ? imap_cut(&l->maps, m->start, m->end) : imap_insert(&l->maps, m);
	q->n += l->maps.n - before;
	if (r < 0)
		q->stats->dropped_mappings++;
}

void trk_list_add(struct trk_list *l, const struct trk_map *m)
{
	change(l, m, false);
}

size_t trk_list_put_needs(const struct trk_list *l, const struct trk_map *m)
{
	const struct trk_map *o;
	size_t n = 2; /* itself, and the second part of a mapping that is split */

	for (struct imap_pos p = imap_lower(&l->maps, m->start);
	     (o = imap_at(&l->maps, p)) && o->start < m->end; p = imap_next(&l->maps, p))
		n += 2; /* one entry of each history */
	return n;
}

void trk_list_put(struct trk_list *l, const struct trk_map *m, bool unmap, uint64_t time_ns)
{
	const struct trk_map *o;

	for (struct imap_pos p = imap_lower(&l->maps, m->start);
	     (o = imap_at(&l->maps, p)) && o->start < m->end; p = imap_next(&l->maps, p)) {
		struct trk_map gone = *o;

		if (!unmap && trk_map_agree(o, m))
			continue;
		gone.start = MAX_OF(o->start, m->start);
		gone.end = MIN_OF(o->end, m->end);
		trk_list_add_old(l, &gone);
		trk_list_note_gone(l, &gone, time_ns);
		l->quota->stats->replaced++;
	}
	change(l, m, true);
	if (!unmap)
		change(l, m, false);
}
