/* SPDX-License-Identifier: Apache-2.0 */
/* Life cycle, and the rounds that bring tables and samples together. */
#include "deferred/deferred_priv.h"

/* Tables are counted as used by this clock: eviction needs no finer one. */
#define EPOCH_NS (100 * NSEC_PER_MSEC)
/* Images are scanned at most this often: there may be thousands of events. */
#define SCAN_NS (10 * NSEC_PER_MSEC)
/* Samples larger than their stack snapshot that are kept until the heuristic stacks of the drain
 * thread are complete. More are counted incomplete. */
#define CUT_MAX 65536
/* Longest wait at the end for tables that deferred samples need; after it they are unwound
 * heuristically. */
#define FINISH_NS (5 * NSEC_PER_SEC)

static int init_locks(struct deferred *d)
{
	int r = cond_init_monotonic(&d->changed);

	if (r < 0)
		return r;
	r = pthread_mutex_init(&d->lock, NULL);
	if (r)
		(void)pthread_cond_destroy(&d->changed); /* no thread waits */
	return -r;
}

int deferred_new(const struct deferred_options *o, struct deferred **ret, struct err *err)
{
	struct deferred *d = calloc(1, sizeof(*d));
	int r;

	if (!d)
		return err_set(err, -ENOMEM, "out of memory");
	r = init_locks(d);
	if (r < 0) {
		free(d);
		return err_set(err, r, "pthread: %s", err_name(r));
	}
	d->o = *o;
	d->has_tables = o->backing != NULL;
	d->cut.max = CUT_MAX;
	atomic_store(&d->all, d->has_tables && o->all);
	r = prof_agg_new(NULL, &d->walked);
	if (r == 0 && d->o.stream)
		r = stream_new(NULL, &d->stream);
	if (r == 0 && d->has_tables)
		r = deferred_tables_new(d);
	d->o.rules = NULL; /* borrowed for this call */
	d->o.backing = NULL;
	if (r < 0) {
		deferred_free(d);
		return err_set(err, r, "unwind tables: %s", err_name(r));
	}
	*ret = d;
	return 0;
}

void deferred_use(struct deferred *d, struct pool *pool)
{
	d->pool = pool;
}

struct deferred *deferred_free(struct deferred *d)
{
	if (!d)
		return NULL;
	deferred_samples_done(d);
	d->walked = prof_agg_free(d->walked);
	d->stream = stream_free(d->stream);
	d->store = uw_store_free(d->store);
	d->rules = uw_rules_free(d->rules);
	free(d->image);
	(void)pthread_cond_destroy(&d->changed); /* its threads have ended */
	(void)pthread_mutex_destroy(&d->lock);
	free(d);
	return NULL;
}

bool deferred_has_tables(const struct deferred *d)
{
	return d->has_tables;
}

void deferred_hurry(struct deferred *d, bool table)
{
	d->hurry |= table || d->waiting;
}

void deferred_abandon(struct deferred *d)
{
	atomic_store(&d->abandoned, true);
}

void deferred_cancel(struct deferred *d, bool if_abandoned)
{
	if (!if_abandoned || atomic_load(&d->abandoned))
		atomic_store(&d->cancel, true);
}

void deferred_round(struct deferred *d, uint64_t now)
{
	if (!d->has_tables)
		return;
	if (now - d->epoch_ns >= EPOCH_NS) {
		d->epoch_ns = now;
		(void)__atomic_add_fetch(&d->o.control->epoch, 1, __ATOMIC_RELAXED);
	}
	if (now - d->scan_ns < SCAN_NS && !d->hurry)
		return;
	d->scan_ns = now;
	d->hurry = false;
	(void)deferred_retry(d, now, false);
	(void)deferred_build_wanted(d, now);
}

void deferred_finish(struct deferred *d)
{
	uint64_t begin = now_ns();

	if (!d->has_tables)
		return;
	d->finishing = true;
	while (!atomic_load(&d->abandoned) && deferred_retry(d, now_ns(), false) > 0 &&
	       now_ns() - begin < FINISH_NS) {
		if (deferred_build_wanted(d, now_ns()) == 0)
			break; /* no table is being built any more */
		deferred_await_table(d);
	}
	if (!atomic_load(&d->abandoned))
		(void)deferred_retry(d, now_ns(), true);
}
