/* SPDX-License-Identifier: Apache-2.0 */
/* State of a running capture for the control thread: a copy of the drain thread's counts, made by that thread
 * between two of its rounds, and the tracker's turn, which the tracker gives away between two of its own. */
#include "session/session_priv.h"

#include <unistd.h>

int ses_live_init(struct ses_handover *h)
{
	pthread_mutex_init(&h->lock, NULL);
	return -pthread_cond_init(&h->changed, NULL);
}

void ses_live_done(struct ses_handover *h)
{
	pthread_cond_destroy(&h->changed);
	pthread_mutex_destroy(&h->lock);
}

/* ---- the tracker ----------------------------------------------------------------------------- */

void ses_live_offer(struct ses_handover *h)
{
	pthread_mutex_lock(&h->lock);
	if (h->wanted) {
		h->wanted = false;
		h->given = true;
		(void)pthread_cond_broadcast(&h->changed);
	}
	while (h->given)
		(void)pthread_cond_wait(&h->changed, &h->lock);
	pthread_mutex_unlock(&h->lock);
}

void ses_live_take(struct ses *s)
{
	const struct ses_item wake = {.type = SES_ITEM_WAKE};
	struct ses_handover *h = &s->handover;

	if (!s->tracker.made)
		return; /* a test without threads */
	pthread_mutex_lock(&h->lock);
	h->wanted = true;
	pthread_mutex_unlock(&h->lock);
	if (queue_len(s->walk.queue) == 0)
		(void)queue_push(s->walk.queue, &wake); /* else it has work, and ends a round */
	pthread_mutex_lock(&h->lock);
	while (!h->given)
		(void)pthread_cond_wait(&h->changed, &h->lock);
	pthread_mutex_unlock(&h->lock);
}

void ses_live_give(struct ses *s)
{
	struct ses_handover *h = &s->handover;

	if (!s->tracker.made)
		return;
	pthread_mutex_lock(&h->lock);
	h->given = false;
	(void)pthread_cond_broadcast(&h->changed);
	pthread_mutex_unlock(&h->lock);
}

/* ---- the drain thread ------------------------------------------------------------------------ */

static void copy_counts(struct ses *s)
{
	const struct prof_agg_stats *as = prof_agg_stats(s->walk.agg);
	struct ses_copy *c = s->copy;

	c->moment_ns = now_ns();
	c->error = prof_agg_copy_changes(s->walk.agg, &c->seen, c->all, c->since);
	c->dropped[PFA_KIND_ONCPU] = as->counts_dropped_samples;
	c->dropped[PFA_KIND_OFFCPU] = as->intervals_dropped;
}

static void keep_open(void *arg, const struct ev_count *c)
{
	struct ses *s = arg;
	struct ev_count count = *c;

	jit_stamp(s->walk.jit, &count);        /* as when it ends */
	(void)vec_push(&s->copy->open, count); /* without memory it is missing until it ends */
}

bool ses_live_asked(struct ses *s)
{
	uint64_t n;
	bool asked;

	pthread_mutex_lock(&s->handover.lock);
	asked = s->handover.asked;
	pthread_mutex_unlock(&s->handover.lock);
	if (asked && read(s->stop_fd, &n, sizeof(n)) < 0)
		return false; /* cannot fail: it is readable */
	return asked;
}

void ses_live_answer(struct ses *s, const struct smp_sink *sink)
{
	struct ses_handover *h = &s->handover;
	struct smp_sink open = *sink;
	struct ses_copy *c = s->copy;

	open.count = keep_open;
	if (!c->same)
		c->open.n = 0;
	/* Counts before the rings, which have their stacks. */
	ses_each_source (s, i, src)
		if (!c->same && src_all[i]->drain_all)
			src_all[i]->drain_all(src, sink, c->with_open ? &open : NULL, &c->now);
	if (!c->same) {
		(void)smp_walker_drain(s->walker, sink); /* counted: read_errors */
		(void)smp_walker_drain_threads(s->walker, sink);
		copy_counts(s);
	}
	pthread_mutex_lock(&h->lock);
	h->asked = false;
	(void)pthread_cond_broadcast(&h->changed);
	pthread_mutex_unlock(&h->lock);
}

/* Makes room for the next reading; the last one stays if a profile ended with it. */
static void turn_over_reading(struct ses_copy *c)
{
	if (c->is_before) {
		result_cpu_reading_done(&c->before);
		c->before = c->now;
		c->now = (struct result_cpu_reading){0};
	} else {
		result_cpu_reading_done(&c->now);
	}
	c->is_before = false;
}

int ses_live_copy(struct ses *s, bool same)
{
	struct ses_handover *h = &s->handover;
	const uint64_t one = 1;

	s->copy->same = same;
	if (!same)
		turn_over_reading(s->copy);
	if (!s->drain.made) { /* a test without threads */
		if (!same)
			copy_counts(s);
		return s->copy->error;
	}
	pthread_mutex_lock(&h->lock);
	h->asked = true;
	(void)file_write_full(s->stop_fd, &one, sizeof(one)); /* an eventfd at 0 takes a 1 */
	while (h->asked)
		(void)pthread_cond_wait(&h->changed, &h->lock);
	pthread_mutex_unlock(&h->lock);
	return s->copy->error;
}

struct ses_copy *ses_copy_free(struct ses_copy *c)
{
	if (c) {
		for (size_t i = 0; i < ARRAY_SIZE(c->since); i++)
			prof_agg_free(c->since[i]);
		prof_agg_free(c->all);
		prof_seen_done(&c->seen);
		deferred_seen_done(&c->walked);
		vec_done(&c->open);
		vec_done(&c->open_before);
		vec_done(&c->open_left);
		result_cpu_reading_done(&c->now);
		result_cpu_reading_done(&c->before);
		free(c);
	}
	return NULL;
}
