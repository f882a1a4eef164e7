// SPDX-License-Identifier: Apache-2.0
/*
 * Life cycle and answers of track.
 */
#include "track/track_priv.h"

#include <stdlib.h>
#include <sys/resource.h>

#define TRK_PROCS_MAX    65536
#define TRK_IMAGES_MAX   65536
#define TRK_MAPPINGS_MAX (4U << 20) /* 128 MiB */

int trk_new(const struct trk_options *o, struct trk **ret, struct err *err)
{
	_cleanup_(trk_freep) struct trk *t = NULL;
	struct rlimit rl;
	int r;

	t = calloc(1, sizeof(*t));
	if (!t)
		return err_set(err, -ENOMEM, "track: out of memory");
	t->o = *o;
	t->o.target_pids = NULL;
	if (o->n_target_pids) {
		uint32_t *pids = calloc(o->n_target_pids, sizeof(*pids));

		t->o.target_pids = pids;
		t->target_seen = calloc(o->n_target_pids, sizeof(*t->target_seen));
		if (!pids || !t->target_seen)
			return err_set(err, -ENOMEM, "track: out of memory");
		memcpy(pids, o->target_pids, o->n_target_pids * sizeof(*pids));
	}
	if (t->o.max_procs == 0)
		t->o.max_procs = TRK_PROCS_MAX;
	if (t->o.max_images == 0)
		t->o.max_images = TRK_IMAGES_MAX;
	t->o.max_images = MIN_OF(t->o.max_images, ABI_IMAGE_MAX); /* bits in a frame */
	if (t->o.max_mappings == 0)
		t->o.max_mappings = TRK_MAPPINGS_MAX;
	t->quota = (struct trk_quota){.max = t->o.max_mappings, .stats = &t->stats};
	t->img.max = t->o.max_images;
	t->tmp.max = t->o.max_mappings;
	/* Half of what we may open; the rest is for events, maps and the program that we are part
	 * of. */
	if (getrlimit(RLIMIT_NOFILE, &rl) < 0)
		return err_set(err, -errno, "getrlimit NOFILE: %s", err_name(errno));
	t->fds_max = rl.rlim_cur / 2;
	r = trk_pub_init(t, err);
	if (r < 0)
		return r;
	*ret = TAKE_PTR(t);
	return 0;
}

struct trk *trk_free(struct trk *t)
{
	if (!t)
		return NULL;
	t->o.loader = NULL;
	trk_forget_all(t);
	trk_pub_done(t);
	trk_img_free_all(t);
	vec_done(&t->tmp);
	free((void *)(uintptr_t)t->o.target_pids);
	free(t->target_seen);
	free(t);
	return NULL;
}

void trk_freep(struct trk **t)
{
	*t = trk_free(*t);
}

static void fill(const struct trk *t, const struct trk_map *m, uint64_t addr,
                 struct trk_location *ret)
{
	ret->map_start = m->start;
	ret->map_end = m->end;
	ret->map_pgoff = trk_map_pgoff(m);
	ret->anon = m->image == 0;
	ret->image = trk_image(t, m->image);
	ret->off = addr - m->base;
}

int trk_resolve(const struct trk *t, const struct ev_proc_id *id, uint64_t addr,
                struct trk_location *ret)
{
	const struct trk_inc *i = trk_match(t, id);
	const struct trk_map *m = NULL;

	*ret = (struct trk_location){.off = addr};
	if (i)
		m = trk_list_find(i->list, addr);
	if (i && !m)
		m = trk_list_find_old(i->list, addr);
	if (!m)
		return -ENOENT;
	fill(t, m, addr, ret);
	return 0;
}

/* Whatever was mapped there in its life says the same. */
static const struct trk_map *find_sure(const struct trk_list *l, uint64_t addr, int *ret)
{
	const struct trk_map *m = trk_list_find(l, addr);

	for (size_t i = l ? l->old.n : 0; i-- > 0;) {
		const struct trk_map *o = &l->old.p[i];

		if (addr < o->start || addr >= o->end)
			continue;
		if (m && !trk_map_agree(m, o)) {
			*ret = -ENOTUNIQ;
			return NULL;
		}
		m = o;
	}
	*ret = m ? 0 : -ENOENT;
	return m;
}

int trk_resolve_any(const struct trk *t, const struct ev_proc_id *id, uint64_t addr,
                    struct trk_location *ret)
{
	const struct trk_inc *i = trk_match(t, id);
	const struct trk_map *m;
	int r = -ENOENT;

	*ret = (struct trk_location){.off = addr};
	m = i ? find_sure(i->list, addr, &r) : NULL;
	if (m)
		fill(t, m, addr, ret);
	return r;
}

int trk_resolve_at(const struct trk *t, const struct ev_proc_id *id, uint64_t addr,
                   uint64_t time_ns, struct trk_location *ret)
{
	const struct trk_inc *i = trk_match(t, id);
	const struct trk_map *m;
	bool known;

	if (!i || time_ns > t->watermark_ns ||
	    (time_ns > t->blur_begin_ns && time_ns < t->blur_end_ns))
		return trk_resolve_any(t, id, addr, ret);
	m = trk_list_find_gone(i->list, addr, time_ns, &known);
	if (!known)
		return trk_resolve_any(t, id, addr, ret);
	if (!m)
		return trk_resolve(t, id, addr, ret);
	fill(t, m, addr, ret);
	return 0;
}

void trk_set_watermark(struct trk *t, uint64_t until_ns)
{
	if (!t->resync && until_ns > t->watermark_ns)
		t->watermark_ns = until_ns;
}

uint64_t trk_watermark_ns(const struct trk *t)
{
	return t->watermark_ns;
}

static bool holds(const struct trk_map *m, uint32_t image, uint64_t off)
{
	const uint64_t pgoff = trk_map_pgoff(m);

	return m->image == image &&
	       (off == TRK_OFF_ANY || (off >= pgoff && off - pgoff < m->end - m->start));
}

static const struct trk_map *map_of(const struct trk_inc *i, uint32_t image, uint64_t off)
{
	const struct trk_list *l = i->list;
	struct imap_pos p = {0};
	const struct trk_map *m;

	if (!l)
		return NULL;
	for (; (m = imap_at(&l->maps, p)); p = imap_next(&l->maps, p))
		if (holds(m, image, off))
			return m;
	for (size_t k = l->old.n; k-- > 0;)
		if (holds(&l->old.p[k], image, off))
			return &l->old.p[k];
	return NULL;
}

static const struct trk_map *map_anywhere(const struct trk *t, uint32_t image, uint64_t off)
{
	const struct trk_img *g = t->img.p[image - 1];
	const struct trk_map *m;

	for (uint32_t k = 0; k < g->n_seg; k++)
		if (holds(&g->seg[k], image, off))
			return &g->seg[k];
	if (!g->segs_full)
		return NULL;
	for (const struct trk_pid *p = t->pids; p; p = p->hh.next)
		for (const struct trk_inc *i = p->newest; i; i = i->older) {
			m = map_of(i, image, off);
			if (m)
				return m;
		}
	return NULL;
}

int trk_resolve_image(const struct trk *t, const struct ev_proc_id *id, uint32_t image,
                      uint64_t off, struct trk_location *ret)
{
	const struct trk_inc *i;
	const struct trk_map *m;

	*ret = (struct trk_location){.off = off, .image = trk_image(t, image)};
	if (!ret->image)
		return -ENOENT;
	i = trk_match(t, id);
	m = i ? map_of(i, image, off) : NULL;
	if (!m)
		m = map_anywhere(t, image, off);
	if (!m)
		return -ENOENT;
	fill(t, m, off == TRK_OFF_ANY ? m->start : m->base + off, ret);
	return 0;
}

uint32_t trk_main_image(const struct trk *t, const struct ev_proc_id *id)
{
	const struct trk_inc *i = trk_match(t, id);

	return i ? i->main_image : 0;
}

const char *trk_comm(const struct trk *t, const struct ev_proc_id *id)
{
	const struct trk_inc *i = trk_match(t, id);

	return i ? i->comm : "";
}

enum ev_reason trk_proc_reason(const struct trk *t, const struct ev_proc_id *id)
{
	const struct trk_inc *i = trk_match(t, id);

	if (!i)
		return EV_REASON_NO_MAPPING;
	return i->denied && !i->by_exec ? EV_REASON_NOT_PERMITTED : EV_REASON_NAMED;
}

const struct trk_stats *trk_stats(const struct trk *t)
{
	return &t->stats;
}
