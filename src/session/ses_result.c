/* SPDX-License-Identifier: Apache-2.0 */
/* What the parts of a capture know, for its profiles. Thread: C, after D and W. */
#include "session/session_priv.h"

/* ---- places ---------------------------------------------------------------------------------- */

struct place_key {
	struct ev_proc_id proc;
	struct ev_frame frame;
};
_Static_assert(sizeof(struct place_key) == 32, "hashed as bytes");

/* Raw frames of processes, resolved to their mappings. */
struct places {
	struct intern *keys; /* struct place_key -> index; NULL without memory */
	VEC(struct ev_frame) frames;
};

static void places_init(struct places *p)
{
	p->frames.max = UINT32_MAX;
	(void)intern_new(UINT32_MAX - 1, SIZE_MAX / 2, &p->keys); /* NULL: looked up each time */
}

static void places_done(struct places *p)
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

/* Resolves a raw frame; RAW as it was, if it is no code there. Looked up once: threads and samples
 * share addresses. */
static void place_raw(struct ses *s, struct places *p, const struct ev_proc_id *proc,
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
static void request_stack(struct ses *s, struct places *p, const struct ev_count *c)
{
	const struct ev_stack *st = c->ustack ? prof_agg_stack(s->agg, c->ustack) : NULL;

	for (uint32_t k = 0; st && k < st->n; k++) {
		const struct ev_frame *f = &st->frames[k];
		struct ev_frame at;

		if (jit_maybe(s->jit, f))
			jit_want(s->jit, c);
		if (f->space != EV_SPACE_RAW)
			continue;
		place_raw(s, p, &c->proc, f, &at);
		if (jit_maybe(s->jit, &at))
			jit_want(s->jit, c);
		if (at.space == EV_SPACE_IMAGE)
			symbolizer_request(s->symbolizer, at.image,
			                   at.exact ? at.addr : at.addr - 1);
	}
}

/* Asks for what raw frames turn out to be, and for frames that W's queue had no room for. */
static void request_rest(struct ses *s, struct places *p)
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

/* ---- what addresses mean, for the result ----------------------------------------------------- */

struct knows {
	struct ses *s;
	struct places *places;
};

static const struct trk_image *image(void *arg, uint32_t id)
{
	return trk_image(((const struct knows *)arg)->s->trk, id);
}

static void resolve(void *arg, const struct ev_proc_id *proc, const struct ev_frame *raw,
                    struct ev_frame *ret)
{
	const struct knows *k = arg;

	place_raw(k->s, k->places, proc, raw, ret);
}

static int mapping(void *arg, const struct ev_proc_id *proc, uint32_t id, uint64_t off,
                   struct trk_place *ret)
{
	return trk_place_image(((const struct knows *)arg)->s->trk, proc, id, off, ret);
}

static uint32_t main_image(void *arg, uint32_t pid)
{
	const struct ev_proc_id id = {.pid = pid};

	return trk_main_image(((const struct knows *)arg)->s->trk, &id);
}

static enum ev_reason proc_reason(void *arg, const struct ev_proc_id *proc)
{
	return trk_proc_reason(((const struct knows *)arg)->s->trk, proc);
}

static struct sym_named name(void *arg, uint32_t id, uint64_t addr)
{
	return symbolizer_find(((const struct knows *)arg)->s->symbolizer, id, addr);
}

static bool gap(void *arg, const struct ev_stack *st, uint32_t i, const struct ev_frame *placed,
                bool any, struct result_gap *ret)
{
	struct deferred_gap at;

	if (!deferred_gap_at(((const struct knows *)arg)->s->deferred, st, i, placed, any, &at))
		return false;
	*ret = (struct result_gap){.image = at.image, .bare = at.bare};
	return true;
}

static int labels(void *arg, const struct ev_count *c, const char *comm,
                  const struct met_label **ret, uint32_t *ret_n)
{
	struct ses_proc_labels of;
	int r = ses_labels_of(((const struct knows *)arg)->s, &c->proc, c->foreign_ns, comm, &of);

	if (r < 0)
		return r;
	*ret = of.v;
	*ret_n = of.n;
	return 0;
}

/* ---- the profiles ---------------------------------------------------------------------------- */

static struct result_kind kind_of(const struct ses *s, enum ses_kind kind)
{
	struct result_kind k = {.offcpu = kind == SES_KIND_OFFCPU,
	                        .cycles = s->cycles,
	                        .all = s->o.target == SES_TARGET_ALL,
	                        .freq = s->spec.freq,
	                        .target_pid = s->target_pid,
	                        .period = s->spec.period,
	                        .begin_realtime_ns = s->start_realtime_ns,
	                        .duration_ns = s->final.elapsed_ns};

	if (k.offcpu) {
		const struct smp_off_stats *st = smp_off_stats(s->off);

		k.begin_realtime_ns += st->begin_ns - s->start_ns;
		k.duration_ns = st->end_ns - st->begin_ns;
	}
	return k;
}

/* @r: what went wrong before: then no sample fits. */
static int build_product(struct ses *s, enum ses_kind kind, const struct result_source *src, int r)
{
	const struct result_kind k = kind_of(s, kind);
	struct ses_product *p = &s->product[kind];
	const struct prof_agg_stats *as = prof_agg_stats(s->agg);

	r = result_build(s->agg, &k, src, s->cpu_time, r, &p->result);
	if (kind == SES_KIND_ONCPU) {
		tally_count(&s->tally, TALLY_STACK_LOST, p->result.lost_stacks);
		tally_count(&s->tally, TALLY_DROP_MODEL_FULL, p->result.dropped);
		tally_count(&s->tally, TALLY_DROP_AGG_FULL, as->counts_dropped_samples);
		s->final.kept = p->result.kept;
		s->final.weight = p->result.weight;
		s->final.dropped = tally_dropped(&s->tally, &s->tally.kernel);
	} else {
		tally_count(&s->tally, TALLY_OFF_DROP_FULL_AGG, p->result.dropped);
		ses_off_kept(s);
	}
	return r < 0 ? r : ses_quality_add(s, kind, &p->result.quality);
}

int ses_profile_build(struct ses *s, struct err *err)
{
	_cleanup_(places_done) struct places places = {0};
	struct knows knows = {.s = s, .places = &places};
	struct result_source src = {.image = image,
	                            .resolve = resolve,
	                            .mapping = mapping,
	                            .main_image = main_image,
	                            .proc_reason = proc_reason,
	                            .name = name,
	                            .gap = gap,
	                            .labels = s->n_enrichers ? labels : NULL,
	                            .jit = s->jit,
	                            .arg = &knows};
	const struct prof_agg_stats *as = prof_agg_stats(s->agg);
	const uint64_t limit_ms = s->o.naming_limit_ms ? s->o.naming_limit_ms : SES_NAMING_MS;
	const uint64_t until_ns = now_ns() + limit_ms * NSEC_PER_MSEC;
	int r;

	places_init(&places);
	request_rest(s, &places);
	jit_finish(s->jit);
	r = symbolizer_finish(s->symbolizer, until_ns, limit_ms);
	ses_check_privileges(s, symbolizer_kernel_error(s->symbolizer));
	tally_count(&s->tally, TALLY_STACKS_OVER_LIMIT, as->stacks_dropped);
	s->final.stacks = as->stacks;
	src.n_images = (uint32_t)trk_image_cnt(s->trk);
	for (int i = 0; i < SES_KIND_CNT; i++)
		if (ses_has(s, (enum ses_kind)i))
			r = build_product(s, (enum ses_kind)i, &src, r);
	return r < 0 ? err_set(err, r, "building the profile: %s", err_name(r)) : 0;
}
