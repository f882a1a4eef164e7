/* SPDX-License-Identifier: Apache-2.0 */
/* Where raw addresses lay, and which name belongs to which. Thread: C, after D and W. */
#include "session/session_priv.h"

/* ---- places ---------------------------------------------------------------------------------- */

struct place_key {
	struct ev_proc_id proc;
	struct ev_frame frame;
};
_Static_assert(sizeof(struct place_key) == 32, "hashed as bytes");

void ses_places_init(struct ses_places *p)
{
	p->frames.max = UINT32_MAX;
	(void)intern_new(UINT32_MAX - 1, SIZE_MAX / 2, &p->keys); /* NULL: looked up each time */
}

void ses_places_done(struct ses_places *p)
{
	p->keys = intern_free(p->keys);
	vec_done(&p->frames);
}

static void find_place(struct ses *s, const struct ev_proc_id *proc, const struct ev_frame *f,
                       struct ev_frame *ret)
{
	struct trk_place pl;
	int r;

	*ret = *f;
	r = trk_place_any(s->trk, proc, f->exact ? f->addr : f->addr - 1, &pl);
	if (r == -ENOTUNIQ) {
		ret->space = EV_SPACE_MOVED;
	} else if (r < 0) {
		return;
	} else if (pl.image) {
		ret->space = EV_SPACE_IMAGE;
		ret->image = pl.image->id;
		ret->addr = pl.off + (f->exact ? 0 : 1);
	} else if (pl.anon) {
		ret->space = EV_SPACE_ANON;
	}
}

void ses_place_raw(struct ses *s, struct ses_places *p, const struct ev_proc_id *proc,
                   const struct ev_frame *f, struct ev_frame *ret)
{
	const struct place_key key = {.proc = *proc, .frame = *f};
	uint32_t id = p->keys ? intern_find(p->keys, &key, sizeof(key)) : INTERN_NONE;

	if (id != INTERN_NONE) {
		*ret = p->frames.p[id];
		return;
	}
	find_place(s, proc, f, ret);
	/* Without memory it is looked up again. */
	if (p->keys && vec_reserve(&p->frames, 1) == 0 &&
	    intern_add(p->keys, &key, sizeof(key), &id, NULL) == 0)
		(void)vec_push(&p->frames, *ret); /* has its room */
}

/* ---- names ----------------------------------------------------------------------------------- */

/* The frames of a user stack that belong to its process. */
static void request_stack(struct ses *s, struct ses_places *p, const struct ev_count *c)
{
	const struct ev_stack *st = c->ustack ? prof_agg_stack(s->agg, c->ustack) : NULL;

	for (uint32_t k = 0; st && k < st->n; k++) {
		const struct ev_frame *f = &st->frames[k];
		struct ev_frame at;

		if (jit_maybe(s->jit, f))
			jit_want(s->jit, c);
		if (f->space != EV_SPACE_RAW)
			continue;
		ses_place_raw(s, p, &c->proc, f, &at);
		if (jit_maybe(s->jit, &at))
			jit_want(s->jit, c);
		if (at.space == EV_SPACE_IMAGE)
			symbolizer_request(s->symbolizer, at.image,
			                   at.exact ? at.addr : at.addr - 1);
	}
}

void ses_request_rest(struct ses *s, struct ses_places *p)
{
	bool all = queue_drops(s->q_w) > 0;

	for (size_t i = 0; all && i < prof_agg_stack_cnt(s->agg); i++) {
		const struct ev_stack *st = prof_agg_stack_at(s->agg, i);

		for (uint32_t k = 0; k < st->n; k++) {
			const struct ev_frame *f = &st->frames[k];
			uint64_t addr = f->exact ? f->addr : f->addr - 1;

			if (f->space == EV_SPACE_KERNEL)
				symbolizer_request(s->symbolizer, SYMBOLIZER_KERNEL, addr);
			else if (f->space == EV_SPACE_IMAGE)
				symbolizer_request(s->symbolizer, f->image, addr);
		}
	}
	for (size_t i = 0; i < prof_agg_count_cnt(s->agg); i++) {
		struct ev_count c = *prof_agg_count_at(s->agg, i);
		const struct ev_waker *w = c.waker ? prof_agg_waker(s->agg, c.waker) : NULL;

		request_stack(s, p, &c);
		if (w) {
			c.proc = w->proc;
			c.ustack = w->ustack;
			request_stack(s, p, &c);
		}
	}
}
