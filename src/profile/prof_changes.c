/* SPDX-License-Identifier: Apache-2.0 */
/* Copies of an aggregation that follow it: what was added since the last copy. */
#include "profile/prof_priv.h"

/* Returns false if nothing was added to a count since then, else true and what was. */
static bool difference(const struct ev_count *now, const struct prof_seen_count *before,
                       struct ev_count *ret)
{
	if (now->samples == before->samples && now->weight == before->weight &&
	    now->runq_ns == before->runq_ns)
		return false;
	*ret = *now;
	ret->samples -= before->samples;
	ret->weight -= before->weight;
	ret->runq_ns -= before->runq_ns;
	if (now->longest_ns == before->longest_ns)
		ret->longest_ns = MIN_OF(now->longest_ns, ret->weight);
	return true;
}

static void copy_name(const struct prof_agg *from, size_t i, struct prof_agg *to)
{
	struct ev_thread t;

	prof_agg_thread_at(from, i, &t);
	(void)prof_agg_add_thread(to, &t); /* counted there */
}

static void copy_count(const struct prof_agg *from, size_t i, struct prof_seen *seen,
                       struct prof_agg *to, struct prof_agg *const since[2])
{
	const struct ev_count *c = prof_agg_count_at(from, i);
	struct prof_agg *window = since[c->offcpu != EV_OFFCPU_NONE];
	struct ev_count added;

	if (!difference(c, &seen->counts.p[i], &added))
		return;
	seen->counts.p[i] = (struct prof_seen_count){.samples = c->samples,
	                                             .weight = c->weight,
	                                             .runq_ns = c->runq_ns,
	                                             .longest_ns = c->longest_ns};
	(void)prof_agg_add_count(to, &added);
	if (window)
		(void)prof_agg_add_count(window, &added);
}

static void clear(struct prof_changed *c)
{
	vec_each (id, &c->ids)
		c->marks.p[*id] = 0;
	c->ids.n = 0;
	c->lost = false;
}

int prof_agg_copy_changes(struct prof_agg *from, struct prof_seen *seen, struct prof_agg *to,
                          struct prof_agg *const since[2])
{
	struct prof_followed *f = prof_agg_followed(from);
	const size_t n = prof_agg_count_cnt(from), n_threads = prof_agg_thread_cnt(from);
	const bool known = f->by == seen && seen->follows;
	int r;

	seen->counts.max = SIZE_MAX;
	r = vec_reserve(&seen->counts, n - seen->counts.n);
	if (r < 0)
		return -ENOMEM;
	for (; seen->stacks < prof_agg_stack_cnt(from); seen->stacks++)
		(void)prof_agg_add_stack(to, prof_agg_stack_at(from, seen->stacks), NULL);
	for (; seen->wakers < prof_agg_waker_cnt(from); seen->wakers++)
		(void)prof_agg_add_waker(to, prof_agg_waker_at(from, seen->wakers));
	while (seen->counts.n < n)
		(void)vec_push(&seen->counts, (struct prof_seen_count){0}); /* there is room */
	if (known && !f->threads.lost)
		vec_each (id, &f->threads.ids)
			copy_name(from, *id, to);
	else
		for (size_t i = 0; i < n_threads; i++)
			copy_name(from, i, to);
	if (known && !f->counts.lost)
		vec_each (id, &f->counts.ids)
			copy_count(from, *id, seen, to, since);
	else
		for (size_t i = 0; i < n; i++)
			copy_count(from, i, seen, to, since);
	clear(&f->threads);
	clear(&f->counts);
	f->by = seen;
	seen->follows = true;
	return 0;
}

void prof_seen_done(struct prof_seen *seen)
{
	vec_done(&seen->counts);
	*seen = (struct prof_seen){0};
}
