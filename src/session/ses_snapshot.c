/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Profiles of a running capture. Thread: control.
 *
 * The drain thread copies what it has counted, between two rounds; the tracker gives away its state
 * for moments, between two of its own. So sampling goes on while a profile is built.
 */
#include "session/session_priv.h"

#include <poll.h>

#define NAMES_MS 100        /* longest wait for names */
#define OPEN_MAX (1U << 21) /* intervals that have not ended: twice the most threads */
#define LEFT_MAX                                                                                   \
	(1U << 16) /* intervals that were counted while open and have not been found since */
#define POLL_MS 5 /* between looks at names and at an interrupt, which comes from signal handlers */

static bool interrupted(struct ses *s)
{
	return atomic_exchange(&s->interrupted, false);
}

/* The source of a profile; SRC_CNT: the capture has none of this kind. */
static size_t source_of(const struct ses *s, enum pfa_kind kind)
{
	size_t i = 0;

	while (i < SRC_CNT &&
	       (!s->src[i] || !src_all[i]->kind || src_all[i]->profile_kind != (uint32_t)kind))
		i++;
	return i;
}

static int check(const struct ses *s, enum pfa_kind kind, uint32_t flags, struct err *err)
{
	if (s->state != SES_RUNNING)
		return err_set(err, -EINVAL, "snapshot: the session is not running");
	if (flags & ~(PFA_SNAPSHOT_SINCE_LAST | PFA_SNAPSHOT_SAME_MOMENT | PFA_SNAPSHOT_OPEN))
		return err_set(err, -EINVAL, "snapshot: unknown flags 0x%x", flags);
	if (source_of(s, kind) == SRC_CNT)
		return err_set(err, -EINVAL, "snapshot: the capture has no %s profile",
		               kind == PFA_KIND_ONCPU    ? "on-CPU"
		               : kind == PFA_KIND_OFFCPU ? "off-CPU"
		                                         : "such");
	return 0;
}

static int new_copy(struct ses *s)
{
	struct ses_copy *c = calloc(1, sizeof(*c));

	if (!c || prof_agg_new(NULL, &c->all) < 0) {
		free(c);
		return -ENOMEM;
	}
	for (size_t i = 0; i < ARRAY_SIZE(c->since_ns); i++)
		c->since_ns[i] = s->env.start_ns;
	c->open.max = OPEN_MAX;
	c->open_before.max = c->open_left.max = OPEN_MAX + LEFT_MAX;
	s->copy = c;
	return 0;
}

/* Waits a moment for the names that were requested. Returns 0, -EINTR, -ENOMEM. */
static int await_names(struct ses *s)
{
	const uint64_t until_ns = now_ns() + NAMES_MS * NSEC_PER_MSEC;
	uint64_t waiting;
	int r;

	for (;;) {
		r = symbolizer_collect(s->walk.symbolizer, &waiting);
		if (r < 0 || waiting == 0 || now_ns() >= until_ns)
			return r;
		if (interrupted(s))
			return -EINTR;
		(void)poll(NULL, 0, POLL_MS); /* a signal ends it early, which does no harm */
	}
}

/* The tracker's part of the copy, and requests of names. Owns the tracker's state. */
static int copy_walked(struct ses *s, struct ses_meaning *k, const struct prof_agg *counts)
{
	struct ses_copy *c = s->copy;
	int r = c->same ? 0 : deferred_copy_changes(s->walk.deferred, &c->walked, c->all, c->since);

	ses_meaning_request(k, counts, c->all, c->requested);
	c->requested = prof_agg_stack_cnt(c->all);
	(void)symbolizer_send(s->walk.symbolizer, now_ns(), true); /* the rest in a later round */
	return r;
}

static uint64_t dropped_now(struct ses *s, enum pfa_kind kind)
{
	const struct prof_agg_stats *as = prof_agg_stats(s->copy->all);
	struct pfa_stats st = {0};

	if (ses_stats(s, &st) < 0)
		return 0; /* counters that cannot be read */
	return s->copy->dropped[kind] + (kind == PFA_KIND_ONCPU
	                                         ? st.dropped + as->counts_dropped_samples
	                                         : st.offcpu_dropped + as->intervals_dropped);
}

static int comment(const struct ses *s, const struct ses_profile *p, bool last)
{
	struct prof_model *m = p->result.model;
	int r = prof_model_comment(m, "snapshot: since %s", last ? "the last one" : "the start");

	for (const char *const *t = s->o.tags; t && *t && r == 0; t++)
		r = prof_model_comment(m, "%s", *t);
	if (r == 0)
		r = prof_model_comment(m, "event: %s", p->kind.event);
	if (r == 0 && p->kind.rate_hz)
		r = prof_model_comment(m, "sample_rate_hz: %u", p->kind.rate_hz);
	return r == 0 ? prof_model_comment(m, "dropped: %llu", (unsigned long long)p->dropped) : r;
}

/* The off-CPU counts of an aggregation with what intervals have that have not ended (@open), less what such
 * intervals had in the profile before (@last; open_left has them, and keeps what is not there). */
static int with_open(struct ses_copy *c, const struct prof_agg *of, bool open, bool last,
                     struct prof_agg **ret)
{
	_cleanup_(prof_agg_freep) struct prof_agg *sum = NULL;
	int r = prof_agg_new(NULL, &sum);

	if (r < 0)
		return r;
	prof_agg_look_up_in(sum, c->all);
	for (size_t i = 0; i < prof_agg_count_cnt(of) && r == 0; i++)
		if (prof_agg_count_at(of, i)->offcpu)
			r = prof_agg_add_count(sum, prof_agg_count_at(of, i));
	for (size_t i = 0; open && i < c->open.n && r == 0; i++)
		r = prof_agg_add_count(sum, &c->open.p[i]);
	if (r == 0 && last)
		r = prof_agg_subtract_intervals(sum, c->open_left.p, c->open_left.n);
	if (r == 0)
		*ret = TAKE_PTR(sum);
	return r;
}

/* Builds the profile of source @i. Owns the tracker's state. */
static int build(struct ses *s, size_t i, uint32_t flags, struct ses_meaning *k,
                 struct ses_profile *p)
{
	_cleanup_(prof_agg_freep) struct prof_agg *sum = NULL;
	const bool last = flags & PFA_SNAPSHOT_SINCE_LAST, open = flags & PFA_SNAPSHOT_OPEN;
	struct ses_copy *c = s->copy;
	const struct source *source = src_all[i];
	const uint32_t kind = source->profile_kind;
	const uint64_t since_ns = last ? c->since_ns[kind] : s->env.start_ns;
	const struct prof_agg *agg = last && c->since[kind] ? c->since[kind] : c->all;
	const struct result_source src = ses_meaning_source(k);
	struct result_cpu_time *time = NULL;
	int r = 0;

	p->of = kind;
	p->kind = (struct result_kind){.all = tgt_all(&s->target),
	                               .target_pid = s->target.pid,
	                               .begin_realtime_ns = s->env.start_realtime_ns};
	source->kind(s->src[i], &p->kind);
	p->kind.begin_realtime_ns = s->env.start_realtime_ns + (since_ns - s->env.start_ns);
	p->kind.duration_ns = c->moment_ns - since_ns;
	/* A reading without this was not possible. */
	if (!p->kind.offcpu && c->now.few)
		r = result_cpu_time_between(!last           ? NULL
		                            : c->is_before  ? &c->now
		                            : c->before.few ? &c->before
		                                            : NULL,
		                            &c->now, &time);
	if (r == 0 && p->kind.offcpu && (open || (last && c->open_before.n)))
		r = with_open(c, agg, open, last, &sum);
	if (r == 0)
		r = result_build(sum ? sum : agg, &p->kind, &src, time, 0, &p->result);
	(void)result_cpu_time_free(time); /* NULL */
	p->dropped = dropped_now(s, (enum pfa_kind)kind);
	if (last)
		p->dropped -= MIN_OF(p->dropped, c->dropped_before[kind]);
	p->dropped += p->result.dropped;
	p->unnamed = k->unnamed;
	return r < 0 ? r : comment(s, p, last);
}

/* Makes what the next profile since the last one needs, so that turn_over() cannot fail. Changes nothing of this
 * profile. Returns 0, -ENOMEM, -E2BIG. */
static int prepare_next(struct ses_copy *c, enum pfa_kind kind, struct prof_agg **ret)
{
	int r = prof_agg_new(NULL, ret);

	if (r < 0 || kind != PFA_KIND_OFFCPU)
		return r;
	r = vec_reserve(&c->open_before, c->open.n);
	c->open_left.n = 0;
	if (r == 0)
		r = vec_reserve(&c->open_left, c->open_before.n);
	for (size_t i = 0; i < c->open_before.n && r == 0; i++)
		c->open_left.p[c->open_left.n++] = c->open_before.p[i];
	return r;
}

/* Keeps the intervals that are subtracted from the next profile: the oldest first. prepare_next() made room. */
static void keep_open_before(struct ses_copy *c)
{
	size_t n = 0, skip;

	vec_each (left, &c->open_left)
		if (left->samples || left->weight || left->runq_ns)
			c->open_left.p[n++] = *left;
	skip = n - MIN_OF(n, LEFT_MAX);
	c->open_before.n = 0;
	for (size_t i = skip; i < n; i++)
		c->open_before.p[c->open_before.n++] = c->open_left.p[i];
	vec_each (open, &c->open)
		c->open_before.p[c->open_before.n++] = *open;
}

/* Begins the next profile since the last one, which is @p. @next: of prepare_next(); @open: @p has intervals
 * that have not ended. */
static void turn_over(struct ses *s, const struct ses_profile *p, struct prof_agg *next, bool open)
{
	struct ses_copy *c = s->copy;
	const uint32_t kind = p->of;

	if (kind == PFA_KIND_OFFCPU && open)
		keep_open_before(c);
	else if (kind == PFA_KIND_OFFCPU)
		c->open_before.n = 0;
	prof_agg_free(c->since[kind]);
	c->since[kind] = next;
	prof_agg_look_up_in(next, c->all);
	c->since_ns[kind] = c->moment_ns;
	c->dropped_before[kind] += p->dropped - p->result.dropped;
	if (kind == PFA_KIND_ONCPU)
		c->is_before = true;
}

static int take_profile(struct ses *s, enum pfa_kind kind, uint32_t flags, struct ses_profile *p)
{
	const bool last = flags & PFA_SNAPSHOT_SINCE_LAST;
	_cleanup_(ses_meaning_done) struct ses_meaning k;
	_cleanup_(prof_agg_freep) struct prof_agg *next = NULL;
	struct ses_copy *c = s->copy;
	int r = last ? prepare_next(c, kind, &next) : 0;

	ses_meaning_init(s, true, &k);
	if (r < 0)
		return r;
	ses_live_take(s);
	k.held_ns = now_ns();
	r = copy_walked(s, &k, last && c->since[kind] ? c->since[kind] : c->all);
	ses_live_give(s);
	if (r == 0)
		r = await_names(s);
	if (r < 0)
		return r;
	ses_live_take(s);
	k.held_ns = now_ns();
	r = build(s, source_of(s, kind), flags, &k, p);
	ses_live_give(s);
	if (r == 0 && last)
		turn_over(s, p, TAKE_PTR(next), flags & PFA_SNAPSHOT_OPEN);
	return r;
}

int ses_snapshot(struct ses *s, enum pfa_kind kind, uint32_t flags, struct ses_profile *ret,
                 struct err *err)
{
	struct ses_profile p = {0};
	bool same = flags & PFA_SNAPSHOT_SAME_MOMENT && s->copy;
	int r = check(s, kind, flags, err);

	if (r < 0)
		return r;
	if (interrupted(s))
		return err_set(err, -EINTR, "snapshot: interrupted");
	r = s->copy ? 0 : new_copy(s);
	if (r == 0) {
		/* From the copy on, so that the drain thread is not ending one. */
		atomic_store(&s->keep_epoch, true);
		s->copy->with_open = flags & PFA_SNAPSHOT_OPEN;
		r = ses_live_copy(s, same);
		if (r == 0)
			r = take_profile(s, kind, flags, &p);
		atomic_store(&s->keep_epoch, false);
	}
	if (r < 0) {
		ses_profile_done(&p);
		return err_set(err, r, "snapshot: %s", r == -EINTR ? "interrupted" : err_name(r));
	}
	*ret = p;
	return 0;
}

void ses_profile_done(struct ses_profile *p)
{
	result_done(&p->result);
	*p = (struct ses_profile){0};
}

int ses_profile_write(const struct ses_profile *p, uint32_t format, const struct pfa_output *to,
                      struct err *err)
{
	_cleanup_(enc_output_freep) struct enc_output *out = NULL;
	const struct enc_flame_profile of = {.model = p->result.model};
	_cleanup_(sbuf_done) struct sbuf b;
	int r;

	sbuf_init(&b, SIZE_MAX / 2);
	r = enc_output_open(to, &out, err);
	if (r < 0)
		return r;
	r = format == PFA_PROFILE_PPROF
	            ? enc_pprof(of.model, &b)
	            : ses_encode(format, PFA_ROOT_NONE, &of, 1, p->kind.offcpu, &b);
	if (r < 0)
		return err_set(err, r, "encoding the profile: %s", err_name(r));
	return enc_output_commit(out, b.p, b.len, err);
}
