/* SPDX-License-Identifier: Apache-2.0 */
/* Unwind tables on demand: which images need one, and building them in the pool. */
#include "deferred/deferred_priv.h"

#include <poll.h>
#include <time.h>

/* Shortest time until an evicted table is built again: with too small a budget, images would evict
 * each other all the time. */
#define REBUILD_NS NSEC_PER_SEC
/* The words of an evicted table are not reused for 100 ms. */
#define NO_ROOM_NS (120 * NSEC_PER_MSEC)
/* Longest wait for the tables of a target before it is sampled. The rest is built while it is
 * sampled. A browser's 300 files take 10 s on one core. */
#define PREPARE_NS (60 * NSEC_PER_SEC)
#define WAIT_NS    (50 * NSEC_PER_MSEC)
/* Tables that are built at a time: two for each thread of the pool, of so many at most. */
#define ASKED_THREADS 4
/* Call-frame information of one file, at most: that of the largest browsers has 30 MB. */
#define AREA_BYTES (256ULL << 20)

int deferred_tables_new(struct deferred *d)
{
	const struct uw_backing *b = d->o.backing;
	int r;

	d->images = b->images;
	d->n_images = b->n_images;
	d->image = calloc(b->n_images, sizeof(*d->image));
	if (!d->image)
		return -ENOMEM;
	r = uw_rules_new(d->o.rules, &d->rules);
	return r < 0 ? r : uw_store_new(b, d->o.budget_bytes, &d->store);
}

/* ---- wanted tables -------------------------------------------------------------------------- */

bool deferred_absent(const struct deferred *d, uint32_t image)
{
	return image < d->n_images &&
	       __atomic_load_n(&d->images[image].state, __ATOMIC_ACQUIRE) == ABI_TABLE_ABSENT;
}

void deferred_ask(struct deferred *d, uint32_t image)
{
	if (image < d->n_images)
		d->image[image].asked++;
}

/* Returns how much the table of an image is wanted; 0: not at all, or it cannot be built now. */
static uint64_t wanted(const struct deferred *d, uint32_t id, uint64_t now)
{
	const struct deferred_table *k = &d->image[id];
	enum deferred_table_state state = atomic_load(&k->state);
	uint32_t met;
	uint64_t w;

	if (state == DEFERRED_TABLE_QUEUED || !deferred_absent(d, id))
		return 0;
	if (d->finishing) /* only for deferred samples, and an evicted table once more */
		return (state == DEFERRED_TABLE_DONE && k->last) ||
		                       (state == DEFERRED_TABLE_LATER && now < k->due_ns)
		               ? 0
		               : k->asked;
	if (state != DEFERRED_TABLE_NEW && now < k->due_ns)
		return 0;
	met = __atomic_load_n(&d->images[id].wanted, __ATOMIC_RELAXED);
	w = (met >= k->seen ? met - k->seen : met) + (uint64_t)k->asked;
	if (w == 0 && (state == DEFERRED_TABLE_LATER ||
	               (atomic_load(&d->all) && state == DEFERRED_TABLE_NEW)))
		w = 1;
	return w;
}

static void table_job_done(struct deferred_job *job)
{
	trk_open_done(&job->from);
	free(job);
}

static void run_job(void *owner, void *item);

/* Hands an image to the pool. False: the queue is full. */
static bool queue_table(struct deferred *d, uint32_t id)
{
	struct deferred_table *k = &d->image[id];
	enum deferred_table_state before = atomic_load(&k->state);
	struct deferred_job *job = malloc(sizeof(*job));

	if (!job)
		return false;
	*job = (struct deferred_job){.image = id};
	trk_image_open(d->o.trk, id, false, &job->from);
	/* Before the push: the pool sets the next state. */
	atomic_store(&k->state, DEFERRED_TABLE_QUEUED);
	pthread_mutex_lock(&d->lock);
	d->outstanding++;
	pthread_mutex_unlock(&d->lock);
	if (pool_push(d->pool, &(struct pool_job){.run = run_job, .owner = d, .item = job}) < 0) {
		table_job_done(job);
		atomic_store(&k->state, before);
		pthread_mutex_lock(&d->lock);
		d->outstanding--;
		pthread_mutex_unlock(&d->lock);
		return false;
	}
	k->seen = __atomic_load_n(&d->images[id].wanted, __ATOMIC_RELAXED);
	k->asked = 0;
	k->last = d->finishing;
	return true;
}

size_t deferred_build_wanted(struct deferred *d, uint64_t now)
{
	struct {
		uint64_t w;
		uint32_t id;
	} best[2 * ASKED_THREADS];
	size_t room = 2 * (size_t)pool_size(d->pool), n = 0, more = 0,
	       cnt = trk_image_cnt(d->o.trk), busy;

	pthread_mutex_lock(&d->lock);
	busy = d->outstanding;
	pthread_mutex_unlock(&d->lock);
	room = MIN_OF(room, ARRAY_SIZE(best));
	room = busy < room ? room - busy : 0;
	if (d->n_images == 0)
		return 0;
	for (uint32_t id = 1; id <= MIN_OF(cnt, (size_t)d->n_images - 1); id++) {
		uint64_t w = wanted(d, id, now);
		size_t at;

		if (w == 0)
			continue;
		more++;
		/* The few best, in order; of equal ones the first that was discovered. */
		for (at = n; at > 0 && best[at - 1].w < w; at--)
			if (at < room)
				best[at] = best[at - 1];
		if (at < room) {
			best[at].w = w;
			best[at].id = id;
			n = MIN_OF(n + 1, room);
		}
	}
	for (size_t i = 0; i < n; i++)
		if (!queue_table(d, best[i].id)) {
			(void)poll(NULL, 0,
			           1); /* the caller must not spin; tried in a later round */
			break;
		}
	return busy + more;
}

/* ---- building: pool -----------------------------------------------------------------------------
 */

static void count_build(struct deferred *d, int r, const struct uw_build_stats *st)
{
	tally_count(d->o.tally, TALLY_TABLE_BAD_ENTRIES, st->bad_entries);
	tally_count(d->o.tally, TALLY_TABLE_UNSUPPORTED, st->unsupported);
	if (r == -ENOENT || r == -ENOTSUP)
		tally_count(d->o.tally, TALLY_TABLES_NONE, 1);
	else if (r < 0)
		tally_count(d->o.tally, TALLY_TABLES_FAILED, 1);
}

static int build(struct deferred *d, const struct deferred_job *job, struct uw_table **ret)
{
	_cleanup_(img_file_freep) struct img_file *f = NULL;
	struct uw_build_stats st = {0};
	/* Untrusted files: bounds the cost of one table. */
	const struct uw_build_limits lim = {.area_bytes = AREA_BYTES, .cancel = &d->cancel};
	int r;

	if (atomic_load(&d->cancel))
		return -ECANCELED;
	if (job->from.no_file)
		r = -ENOENT;
	else if (job->from.reason != EV_REASON_NAMED)
		r = -EIO; /* it could not be opened: counted in images_failed */
	else if (job->from.mem)
		r = img_file_open_mem(job->from.mem, job->from.mem_len, &f, NULL);
	else
		r = img_file_open(job->from.fd, &f, NULL);
	if (r == 0)
		r = uw_table_build(f, d->rules, &lim, ret, &st, NULL);
	else if (r == -ENOEXEC)
		r = -ENOENT; /* code that is no ELF file has no call-frame information */
	if (r != -ECANCELED)
		count_build(d, r, &st);
	return r;
}

/* Whether a table fits the budget only if others are evicted. The size is approximate. */
static bool is_full_for(const struct deferred *d, const struct uw_table *table)
{
	uint64_t budget = d->o.budget_bytes;
	uint64_t bytes = 4 * (uint64_t)table->n_rows + 12 * (uint64_t)table->n_chunks;
	struct uw_store_stats st;

	uw_store_stats(d->store, &st);
	return st.bytes + bytes > budget;
}

/* Publishes a table, or (NULL) that there is none. */
static enum deferred_table_state install(struct deferred *d, uint32_t image,
                                         const struct uw_table *table)
{
	int r;

	/* A table that no sample needs must not evict one. */
	if (table && atomic_load(&d->all) && is_full_for(d, table)) {
		atomic_store(&d->all, false);
		return DEFERRED_TABLE_NEW;
	}
	r = uw_store_install(d->store, image, table);

	if (r == -EAGAIN) {
		/* The budget is full: from now on only needed tables are built. */
		atomic_store(&d->all, false);
		return DEFERRED_TABLE_LATER;
	}
	if (r == 0 && table)
		tally_count(d->o.tally, TALLY_TABLES_BUILT, 1);
	if (r == -ENOSPC)
		tally_count(d->o.tally, TALLY_TABLES_REFUSED, 1);
	else if (r < 0 && r != -EEXIST && table) {
		/* No memory for its words: walks must not request it again and again. */
		tally_count(d->o.tally, TALLY_TABLES_REFUSED, 1);
		(void)uw_store_install(d->store, image, NULL); /* then it stays wanted */
	}
	return DEFERRED_TABLE_DONE;
}

static void run_job(void *owner, void *item)
{
	struct deferred *d = owner;
	struct deferred_job *job = item;
	_cleanup_(uw_table_freep) struct uw_table *table = NULL;
	struct deferred_table *k = &d->image[job->image];
	const uint32_t image = job->image;
	uint64_t begin = now_ns();
	enum deferred_table_state state;
	int r = build(d, job, &table);

	if (r < 0)
		table = uw_table_free(table);
	state = r == -ECANCELED ? DEFERRED_TABLE_DONE : install(d, image, table);
	table_job_done(job);
	tally_count(d->o.tally, TALLY_TABLE_BUILD_NS, now_ns() - begin);
	k->due_ns = now_ns() + (state == DEFERRED_TABLE_LATER ? NO_ROOM_NS : REBUILD_NS);
	atomic_store(&k->state, state);
	pthread_mutex_lock(&d->lock);
	d->outstanding--;
	(void)pthread_cond_broadcast(&d->changed); /* cannot fail */
	pthread_mutex_unlock(&d->lock);
	d->o.wake(d->o.arg);
}

/* ---- waiting --------------------------------------------------------------------------------- */

void deferred_await_table(struct deferred *d)
{
	uint64_t until = now_ns() + WAIT_NS;
	struct timespec ts = {.tv_sec = (time_t)(until / NSEC_PER_SEC),
	                      .tv_nsec = (long)(until % NSEC_PER_SEC)};

	pthread_mutex_lock(&d->lock);
	if (d->outstanding > 0)
		(void)pthread_cond_timedwait(&d->changed, &d->lock, &ts); /* woken early: no harm */
	pthread_mutex_unlock(&d->lock);
}

int deferred_prepare(struct deferred *d, int (*check)(void *arg), uint64_t *ret_ns)
{
	uint64_t begin = now_ns();
	int r;

	*ret_ns = 0;
	if (!atomic_load(&d->all))
		return 0;
	while (deferred_build_wanted(d, now_ns()) > 0) {
		deferred_await_table(d);
		r = check(d->o.arg);
		if (r < 0)
			return r;
		if (now_ns() - begin > PREPARE_NS) {
			tally_note(d->o.tally,
			           "building the unwind tables of all mapped files takes longer "
			           "than %llu s: the rest is built during the capture",
			           (unsigned long long)(PREPARE_NS / NSEC_PER_SEC));
			break;
		}
	}
	if (!atomic_load(&d->all))
		tally_note(d->o.tally,
		           "the unwind tables of all mapped files exceed the table budget: the "
		           "rest is built when it is sampled (--table-budget)");
	*ret_ns = now_ns() - begin;
	return 0;
}

void deferred_count(struct deferred *d)
{
	struct uw_store_stats st = {0};
	struct uw_rules_stats rules = {0};

	if (!d->has_tables)
		return;
	uw_store_stats(d->store, &st);
	uw_rules_stats(d->rules, &rules);
	tally_count(d->o.tally, TALLY_TABLES_EVICTED, st.evicted);
	tally_count(d->o.tally, TALLY_TABLE_ROWS, st.rows);
	tally_count(d->o.tally, TALLY_TABLE_BYTES, st.bytes);
	tally_count(d->o.tally, TALLY_TABLE_RULES, rules.rules);
	tally_count(d->o.tally, TALLY_RULES_REFUSED, rules.refused);
}
