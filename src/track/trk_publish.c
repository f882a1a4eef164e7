// SPDX-License-Identifier: Apache-2.0
/*
 * Blocks of the BPF ranges array. A published list is never changed: the new one is written to a
 * free block, one update of the process map switches over, and the old block stays in quarantine
 * until no program can still read it.
 */
#include "track/track_priv.h"

int trk_pub_init(struct trk *t, struct err *err)
{
	struct trk_ranges *g = &t->ranges;

	if (!t->o.loader)
		return 0;
	g->r = load_ranges(t->o.loader);
	g->cnt = load_range_cnt(t->o.loader);
	if (!g->r || g->cnt == 0)
		return err_set(err, -EINVAL, "the process map has no ranges");
	g->space.max = (size_t)g->cnt + 2;
	return vec_push(&g->space, (struct trk_extent){0, g->cnt});
}

/* ---- space ---------------------------------------------------------------------------------- */

static void space_add(struct trk_ranges *g, uint32_t first, uint32_t cnt)
{
	struct trk_extent *e = g->space.p;
	const size_t lo = bisect_first(i, 0, g->space.n, e[i].first >= first);
	bool before, after;

	before = lo > 0 && e[lo - 1].first + e[lo - 1].cnt == first;
	after = lo < g->space.n && first + cnt == e[lo].first;
	if (before && after) {
		e[lo - 1].cnt += cnt + e[lo].cnt;
		g->space.n--;
		memmove(e + lo, e + lo + 1, (g->space.n - lo) * sizeof(*e));
	} else if (before) {
		e[lo - 1].cnt += cnt;
	} else if (after) {
		e[lo].first = first;
		e[lo].cnt += cnt;
	} else {
		/* n free extents need n - 1 blocks between them, and block_new made room for each.
		 */
		assert(g->space.n < g->space.cap);
		memmove(e + lo + 1, e + lo, (g->space.n - lo) * sizeof(*e));
		e[lo] = (struct trk_extent){first, cnt};
		g->space.n++;
	}
}

static void block_free(struct trk_ranges *g, struct trk_block *b)
{
	space_add(g, b->first, b->cap);
	g->blocks--;
	g->freed = true;
	free(b);
}

static struct trk_block *block_new(struct trk_ranges *g, uint32_t cnt)
{
	uint32_t cap = cnt;
	struct trk_block *b;

	if (cnt <= UINT32_MAX - TRK_BLOCK_ROUND)
		cap = (cnt + TRK_BLOCK_ROUND - 1) / TRK_BLOCK_ROUND * TRK_BLOCK_ROUND;
	/* Room for this block's own extent, so that freeing never fails. */
	if (g->blocks + 2 > g->space.n && vec_reserve(&g->space, g->blocks + 2 - g->space.n) < 0)
		return NULL;
	for (size_t i = 0; i < g->space.n; i++) {
		struct trk_extent *e = &g->space.p[i];

		if (e->cnt < cap && (e->cnt < cnt || i + 1 < g->space.n))
			continue;
		b = calloc(1, sizeof(*b));
		if (!b)
			return NULL;
		b->first = e->first;
		b->cnt = cnt;
		b->cap = MIN_OF(cap, e->cnt);
		e->first += b->cap;
		e->cnt -= b->cap;
		if (e->cnt == 0) {
			g->space.n--;
			memmove(e, e + 1, (g->space.n - i) * sizeof(*e));
		}
		g->blocks++;
		return b;
	}
	return NULL;
}

static void block_unref(struct trk *t, struct trk_block *b)
{
	if (!b || --b->ref > 0)
		return;
	if (b->list)
		b->list->block = NULL;
	b->list = NULL;
	b->freed_ns = now_ns();
	DL_APPEND(t->ranges.quarantine, b);
}

static void reclaim(struct trk *t, uint64_t now)
{
	struct trk_ranges *g = &t->ranges;
	struct trk_block *b = g->quarantine;

	if (b && now >= b->freed_ns + TRK_QUARANTINE_NS)
		load_ranges_reclaimed(t->o.loader);
	while ((b = g->quarantine) && now >= b->freed_ns + TRK_QUARANTINE_NS) {
		DL_DELETE(g->quarantine, b);
		block_free(g, b);
	}
}

void trk_pub_forget_list(struct trk_list *l)
{
	if (!l->block)
		return;
	l->block->list = NULL;
	l->block = NULL;
}

void trk_pub_list_unref(struct trk_list *l)
{
	if (l && l->ref == 1)
		trk_pub_forget_list(l);
	trk_list_unref(l);
}

/* ---- queues --------------------------------------------------------------------------------- */

static void dequeue(struct trk *t, struct trk_pid *p)
{
	if (p->q == TRK_Q_DIRTY)
		DL_DELETE2(t->ranges.dirty, p, q_prev, q_next);
	else if (p->q == TRK_Q_WAIT)
		DL_DELETE2(t->ranges.wait, p, q_prev, q_next);
	p->q = TRK_Q_NONE;
}

static void enqueue_dirty(struct trk *t, struct trk_pid *p)
{
	DL_APPEND2(t->ranges.dirty, p, q_prev, q_next);
	p->q = TRK_Q_DIRTY;
}

static void enqueue_wait(struct trk *t, struct trk_pid *p)
{
	DL_APPEND2(t->ranges.wait, p, q_prev, q_next);
	p->q = TRK_Q_WAIT;
}

void trk_pub_dirty(struct trk *t, struct trk_pid *p)
{
	if (!t->ranges.r || p->q == TRK_Q_DIRTY)
		return;
	dequeue(t, p);
	enqueue_dirty(t, p);
}

static void withdraw(struct trk *t, struct trk_pid *p)
{
	int r;

	if (!p->block)
		return;
	/* No loader: in trk_free, the programs have ended. */
	r = t->o.loader ? load_proc_del(t->o.loader, p->pid) : 0;
	/* -ENOENT: removed already. Else the map may still point there: the block stays in use. */
	if (r < 0 && r != -ENOENT)
		return;
	block_unref(t, TAKE_PTR(p->block));
}

void trk_pub_drop(struct trk *t, struct trk_pid *p)
{
	dequeue(t, p);
	withdraw(t, p);
}

void trk_pub_abandon(struct trk_pid *p)
{
	struct trk_block *b = TAKE_PTR(p->block);

	if (!b || --b->ref > 0)
		return;
	if (b->list)
		trk_pub_forget_list(b->list);
	free(b);
}

/* ---- writing -------------------------------------------------------------------------------- */

/* Writes the ranges of @l to @to (NULL: only counts them). Adjacent mappings that continue each
 * other become one range. Returns the number of ranges. */
static uint32_t write_ranges(const struct trk *t, const struct trk_list *l, struct abi_range *to)
{
	struct abi_range cur = {0};
	struct imap_pos p = {0};
	const struct trk_map *m;
	uint32_t n = 0;

	for (; (m = imap_at(&l->maps, p)); p = imap_next(&l->maps, p)) {
		const uint64_t pgoff = trk_map_pgoff(m);

		/* A frame has 40 bits of offset: the few bigger ones stay raw addresses. */
		if (m->image &&
		    (pgoff > ABI_FRAME_OFF_MASK || m->end - m->start > ABI_FRAME_OFF_MASK - pgoff))
			continue;
		if (n > 0 && cur.end == m->start && cur.image == m->image &&
		    (m->image == 0 || cur.pgoff + (cur.end - cur.start) == pgoff)) {
			cur.end = m->end;
			if (to)
				to[n - 1].end = cur.end;
			continue;
		}
		cur = (struct abi_range){.start = m->start,
		                         .end = m->end,
		                         .pgoff = pgoff,
		                         .image = m->image,
		                         .content = trk_img_content(t, m->image)};
		if (to)
			to[n] = cur;
		n++;
	}
	return n;
}

/* Publishes the list of a process. Returns: 0, -ENOSPC (no block is free), errno of the map. */
static int publish(struct trk *t, struct trk_pid *p, uint64_t now)
{
	struct trk_ranges *g = &t->ranges;
	const struct trk_inc *i = p->newest;
	struct trk_list *l = i->list;
	struct trk_block *b;
	struct abi_proc v = {.exec_id = i->exec_id};
	uint32_t cnt;
	int r;

	/* The kernel side identifies the program by its exec id. */
	if (i->past || i->kthread || !i->exec_known || !l || l->maps.n == 0) {
		withdraw(t, p);
		return 0;
	}
	b = l->block;
	if (!b) {
		cnt = write_ranges(t, l, NULL);
		if (cnt == 0) {
			withdraw(t, p);
			return 0;
		}
		b = block_new(g, cnt);
		if (!b)
			return -ENOSPC;
		(void)write_ranges(t, l, g->r + b->first);
		b->list = l;
		l->block = b;
	}
	b->ref++;
	v.first = b->first;
	v.cnt = b->cnt;
	v.start_ns = i->start_coarse ? 0 : i->start_ns;
	if (l->gone.n && !load_hooked(t->o.loader))
		v.flags = ABI_PROC_VERIFY;
	r = load_proc_set(t->o.loader, p->pid, &v);
	if (r < 0) {
		block_unref(t, b);
		return r;
	}
	block_unref(t, p->block);
	p->block = b;
	p->published_ns = now;
	return 0;
}

/* Withdraws processes whose leader has exited: exit events of other threads may have been missed.
 */
static void drop_lingering(struct trk *t)
{
	for (struct trk_pid *p = t->pids; p; p = p->hh.next)
		if (p->block && p->newest->leader_gone)
			withdraw(t, p);
}

static void try_publish(struct trk *t, struct trk_pid *p, uint64_t now, bool *full)
{
	if (publish(t, p, now) == 0) {
		p->counted_full = false;
		return;
	}
	/* The map has an older list or program: raw addresses are better. */
	withdraw(t, p);
	if (!p->counted_full)
		t->stats.ranges_full++;
	p->counted_full = true;
	if (!*full)
		drop_lingering(t);
	*full = true;
	enqueue_wait(t, p);
}

void trk_pub_flush(struct trk *t, uint64_t now)
{
	struct trk_ranges *g = &t->ranges;
	struct trk_pid *p, *next, *todo = g->dirty;
	bool full = false;

	if (!g->r)
		return;
	reclaim(t, now);
	g->dirty = NULL;
	for (p = todo; p; p = next) {
		next = p->q_next;
		p->q = TRK_Q_NONE;
		if (p->block && p->block->cnt >= TRK_BIG_LIST && p->newest->list &&
		    p->newest->list->maps.n >= TRK_BIG_LIST &&
		    now - p->published_ns < TRK_QUARANTINE_NS)
			enqueue_dirty(t, p);
		else
			try_publish(t, p, now, &full);
	}
	/* Unless some list is still an older one. */
	if (!g->dirty && t->watermark_ns > g->watermark_ns) {
		g->watermark_ns = t->watermark_ns;
		load_watermark(t->o.loader, g->watermark_ns);
	}
	if (!g->freed || full)
		return;
	g->freed = false;
	for (int i = 0; i < TRK_WAIT_RETRIES && !full && (p = g->wait); i++) {
		dequeue(t, p);
		try_publish(t, p, now, &full);
	}
	g->freed = g->wait && !full; /* the rest in the next flush */
}

void trk_pub_done(struct trk *t)
{
	struct trk_ranges *g = &t->ranges;
	struct trk_block *b, *next;

	DL_FOREACH_SAFE(g->quarantine, b, next)
	free(b);
	vec_done(&g->space);
}
