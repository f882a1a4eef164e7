/* SPDX-License-Identifier: Apache-2.0 */
/* The profiles of a capture: resolves, symbolizes, builds, writes. Thread: control, after the drain
 * and tracker threads have ended. */
#include "session/session_priv.h"

#define SYMBOLIZE_MS 30000 /* symbolization after the end of sampling */

/* ---- raw frames ------------------------------------------------------------------------------ */

struct raw_key {
	struct ev_proc_id proc;
	struct ev_frame frame;
};
_Static_assert(sizeof(struct raw_key) == 32, "hashed as bytes");

void ses_meaning_init(struct ses *s, bool live, struct ses_meaning *ret)
{
	*ret = (struct ses_meaning){.s = s, .live = live};
	ret->frames.max = UINT32_MAX;
	(void)intern_new(UINT32_MAX - 1, SIZE_MAX / 2, &ret->keys); /* NULL: resolved each time */
}

void ses_meaning_done(struct ses_meaning *k)
{
	k->keys = intern_free(k->keys);
	vec_done(&k->frames);
}

/* The tracker is held up for this long at a time. */
#define HELD_NS (10 * NSEC_PER_MSEC)

static void let_tracker_run(struct ses_meaning *k)
{
	if (!k->live || now_ns() - k->held_ns < HELD_NS)
		return;
	ses_live_give(k->s);
	ses_live_take(k->s);
	k->held_ns = now_ns();
}

static void find_mapping(struct ses *s, const struct ev_proc_id *proc, const struct ev_frame *f,
                         struct ev_frame *ret)
{
	struct trk_location pl;
	int r;

	*ret = *f;
	r = trk_resolve_any(s->walk.trk, proc, f->exact ? f->addr : f->addr - 1, &pl);
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

/* Resolves a raw frame to its mapping; it stays RAW if there is none. Results are cached: threads
 * and samples share addresses. */
static void resolve_raw(struct ses_meaning *p, const struct ev_proc_id *proc,
                        const struct ev_frame *f, struct ev_frame *ret)
{
	const struct raw_key key = {.proc = *proc, .frame = *f};
	uint32_t id = p->keys ? intern_find(p->keys, &key, sizeof(key)) : INTERN_NONE;

	if (id != INTERN_NONE) {
		*ret = p->frames.p[id];
		return;
	}
	find_mapping(p->s, proc, f, ret);
	/* Without memory it is resolved again. */
	if (p->keys && vec_reserve(&p->frames, 1) == 0 &&
	    intern_add(p->keys, &key, sizeof(key), &id, NULL) == 0)
		(void)vec_push(&p->frames, *ret); /* there is room */
}

/* ---- symbolization --------------------------------------------------------------------------- */

/* Requests the frames of a user stack whose meaning depends on the process. */
static void request_stack(struct ses_meaning *p, const struct prof_agg *agg,
                          const struct ev_count *c)
{
	const struct ev_stack *st = c->ustack ? prof_agg_stack(agg, c->ustack) : NULL;
	struct ses *s = p->s;

	for (uint32_t k = 0; st && k < st->n; k++) {
		const struct ev_frame *f = &st->frames[k];
		struct ev_frame at;

		if (jit_maybe(s->walk.jit, f))
			jit_want(s->walk.jit, c);
		if (f->space != EV_SPACE_RAW)
			continue;
		resolve_raw(p, &c->proc, f, &at);
		if (jit_maybe(s->walk.jit, &at))
			jit_want(s->walk.jit, c);
		if (at.space == EV_SPACE_IMAGE)
			symbolizer_request(s->walk.symbolizer, at.image,
			                   at.exact ? at.addr : at.addr - 1);
	}
}

void ses_meaning_request(struct ses_meaning *k, const struct prof_agg *counts,
                         const struct prof_agg *stacks, size_t first)
{
	struct symbolizer *to = k->s->walk.symbolizer;

	for (size_t i = first; i < prof_agg_stack_cnt(stacks); i++) {
		const struct ev_stack *st = prof_agg_stack_at(stacks, i);

		for (uint32_t n = 0; n < st->n; n++) {
			const struct ev_frame *f = &st->frames[n];
			uint64_t addr = f->exact ? f->addr : f->addr - 1;

			if (f->space == EV_SPACE_KERNEL)
				symbolizer_request(to, SYMBOLIZER_KERNEL, addr);
			else if (f->space == EV_SPACE_IMAGE)
				symbolizer_request(to, f->image, addr);
		}
	}
	for (size_t i = 0; i < prof_agg_count_cnt(counts); i++) {
		struct ev_count c = *prof_agg_count_at(counts, i);
		const struct ev_waker *w = c.waker ? prof_agg_waker(counts, c.waker) : NULL;

		let_tracker_run(k);
		request_stack(k, counts, &c);
		if (w) {
			c.proc = w->proc;
			c.ustack = w->ustack;
			request_stack(k, counts, &c);
		}
	}
}

/* ---- call-backs of the result ---------------------------------------------------------------- */

static const struct trk_image *image(void *arg, uint32_t id)
{
	let_tracker_run(arg);
	return trk_image(((const struct ses_meaning *)arg)->s->walk.trk, id);
}

static void resolve(void *arg, const struct ev_proc_id *proc, const struct ev_frame *raw,
                    struct ev_frame *ret)
{
	let_tracker_run(arg);
	resolve_raw(arg, proc, raw, ret);
}

static int mapping(void *arg, const struct ev_proc_id *proc, uint32_t id, uint64_t off,
                   struct trk_location *ret)
{
	return trk_resolve_image(((const struct ses_meaning *)arg)->s->walk.trk, proc, id, off,
	                         ret);
}

static uint32_t main_image(void *arg, uint32_t pid)
{
	const struct ev_proc_id id = {.pid = pid};

	return trk_main_image(((const struct ses_meaning *)arg)->s->walk.trk, &id);
}

static const char *comm_of(void *arg, const struct ev_proc_id *proc)
{
	return trk_comm(((const struct ses_meaning *)arg)->s->walk.trk, proc);
}

static enum ev_reason proc_reason(void *arg, const struct ev_proc_id *proc)
{
	return trk_proc_reason(((const struct ses_meaning *)arg)->s->walk.trk, proc);
}

static struct sym_named name(void *arg, uint32_t id, uint64_t addr)
{
	struct ses_meaning *k = arg;
	struct sym_named n;

	let_tracker_run(k);
	n = symbolizer_find(k->s->walk.symbolizer, id, addr);
	if (k->live && n.reason == EV_REASON_NO_MEMORY) {
		n.reason = EV_REASON_LATE; /* a later snapshot has it */
		k->unnamed++;
	}
	return n;
}

static bool uncovered(void *arg, const struct ev_stack *st, uint32_t i,
                      const struct ev_frame *frame, bool any, struct result_uncovered *ret)
{
	const struct ses_meaning *k = arg;
	struct deferred_uncovered at;

	/* Snapshots have no lines about quality. */
	if (k->live || !deferred_uncovered_at(k->s->walk.deferred, st, i, frame, any, &at))
		return false;
	*ret = (struct result_uncovered){.image = at.image, .bare = at.bare};
	return true;
}

static int labels(void *arg, const struct ev_count *c, const char *comm,
                  const struct met_label **ret, uint32_t *ret_n)
{
	const struct ses *s = ((const struct ses_meaning *)arg)->s;
	struct label_list of;
	int r = labels_of(s->labels, s->walk.trk, &c->proc, c->foreign_ns, comm, &of);

	if (r < 0)
		return r;
	*ret = of.v;
	*ret_n = of.n;
	return 0;
}

struct result_source ses_meaning_source(struct ses_meaning *k)
{
	const struct ses *s = k->s;

	return (struct result_source){.n_images = (uint32_t)trk_image_cnt(s->walk.trk),
	                              .image = image,
	                              .resolve = resolve,
	                              .mapping = mapping,
	                              .main_image = main_image,
	                              .comm = comm_of,
	                              .proc_reason = proc_reason,
	                              .name = name,
	                              .uncovered = uncovered,
	                              .labels = labels_any(s->labels) ? labels : NULL,
	                              .jit = s->walk.jit,
	                              .arg = k};
}

/* ---- the profiles ---------------------------------------------------------------------------- */

void ses_kind(struct ses *s, size_t i)
{
	struct result_kind *k = &s->product[i].kind;

	*k = (struct result_kind){.all = tgt_all(&s->target),
	                          .target_pid = s->target.pid,
	                          .begin_realtime_ns = s->env.start_realtime_ns,
	                          .duration_ns = s->env.end_ns - s->env.start_ns};
	src_all[i]->kind(s->src[i], k);
}

/* Builds the profile of source @i. @r: an earlier failure: then no sample fits. */
static int build_product(struct ses *s, size_t i, const struct result_source *src, int r)
{
	const struct source *source = src_all[i];
	struct src_product *p = &s->product[i];

	ses_kind(s, i);
	r = result_build(s->walk.agg, &p->kind, src,
	                 source->cpu_time ? source->cpu_time(s->src[i]) : NULL, r, &p->result);
	source->built(s->src[i], p, &s->final);
	return r < 0 ? r : ses_quality_add(s, i);
}

int ses_profile_build(struct ses *s, struct err *err)
{
	_cleanup_(ses_meaning_done) struct ses_meaning meaning;
	struct result_source src;
	const struct prof_agg_stats *as = prof_agg_stats(s->walk.agg);
	const uint64_t limit_ms =
	        s->hooks.symbolize_limit_ms ? s->hooks.symbolize_limit_ms : SYMBOLIZE_MS;
	const uint64_t until_ns = now_ns() + limit_ms * NSEC_PER_MSEC;
	int r;

	ses_meaning_init(s, false, &meaning);
	/* The tracker has requested all frames, unless its queue was full. */
	ses_meaning_request(&meaning, s->walk.agg, s->walk.agg,
	                    queue_drops(s->walk.queue) > 0 ? 0 : prof_agg_stack_cnt(s->walk.agg));
	jit_finish(s->walk.jit);
	r = symbolizer_finish(s->walk.symbolizer, until_ns, limit_ms);
	ses_check_privileges(s, symbolizer_kernel_error(s->walk.symbolizer));
	tally_count(&s->tally, TALLY_STACKS_OVER_LIMIT, as->stacks_dropped);
	if (s->walk.stream)
		r = ses_first(r, ses_stream_finish(s));
	s->final.stacks = as->stacks;
	src = ses_meaning_source(&meaning);
	for (size_t i = 0; i < SRC_CNT; i++)
		if (s->src[i] && src_all[i]->kind)
			r = build_product(s, i, &src, r);
	if (s->hooks.stream)
		s->hooks.stream(s->hooks.arg, s->walk.stream, s->walk.agg);
	return r < 0 ? err_set(err, r, "building the profile: %s", err_name(r)) : 0;
}

/* ---- outputs --------------------------------------------------------------------------------- */

static int write_output(struct ses *s, size_t i, struct err *err)
{
	struct sbuf b;
	int r;

	sbuf_init(&b, SIZE_MAX / 2);
	r = src_all[i]->encode(&s->product[i], &s->o, &b);
	if (r < 0)
		r = err_set(err, r, "encoding the %s: %s", src_all[i]->title, err_name(r));
	else
		r = enc_output_commit(s->out[i], b.p, b.len, err);
	sbuf_done(&b);
	return r;
}

int ses_write_outputs(struct ses *s, struct err *err)
{
	int r = 0;

	for (size_t i = 0; i < SRC_CNT; i++) {
		int one;

		if (!s->out[i] || (!s->product[i].result.model && !s->product[i].metrics))
			continue;
		one = write_output(s, i, r == 0 ? err : NULL);
		s->written |= one < 0 ? 0 : src_all[i]->mode;
		r = ses_first(r, one);
	}
	return ses_first(r, ses_extra_write(s, r == 0 ? err : NULL));
}
