/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Unwind tables of a capture: which images need one, and building them.
 *
 * The programs count in abi_image.wanted how often they met an image without a table, and first
 * samples ask for more (ses_copies.c). W looks at both and hands the most wanted images to B, a few
 * at a time; B reads the file, builds, installs, and wakes W.
 */
#include "session/session_priv.h"

#include <poll.h>
#include <time.h>

/* Tables are counted as used by this clock: eviction needs no finer one. */
#define EPOCH_NS (100 * NSEC_PER_MSEC)
/* Images are looked through at most this often: events can come by the thousand. */
#define SCAN_NS (10 * NSEC_PER_MSEC)
/* An image whose table was evicted is read again after this at the soonest: with a budget that is
 * too small, images would else push each other out all the time. */
#define REBUILD_NS NSEC_PER_SEC
/* The words of an evicted table rest for 100 ms. */
#define NO_ROOM_NS (120 * NSEC_PER_MSEC)
/* Longest wait for the tables of a target before it is sampled: what is not there by then is built
 * while it is sampled. A browser's 300 files take 10 s on one core. */
#define PREPARE_NS (60 * NSEC_PER_SEC)
#define WAIT_NS    (50 * NSEC_PER_MSEC)
/* First samples larger than their copies that wait for D's stacks; more are counted as they are. */
#define CUT_MAX 65536
/* Of call-frame information in one file: that of the largest browsers has 30 MB. */
#define AREA_BYTES (256ULL << 20)

/* ---- life ------------------------------------------------------------------------------------ */

static int init_locks(struct ses_tables *t)
{
	pthread_condattr_t attr;
	int r = pthread_condattr_init(&attr);

	if (r)
		return -r;
	r = pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	if (r == 0)
		r = pthread_cond_init(&t->changed, &attr);
	(void)pthread_condattr_destroy(&attr); /* cannot fail after its init */
	if (r)
		return -r;
	r = pthread_mutex_init(&t->lock, NULL);
	if (r)
		(void)pthread_cond_destroy(&t->changed); /* nobody waits */
	return -r;
}

int ses_tables_new(struct ses *s, const struct uw_rules_mem *rules,
                   const struct uw_backing *backing, struct abi_control *control, struct err *err)
{
	struct ses_tables *t = calloc(1, sizeof(*t));
	int r;

	if (!t)
		return err_set(err, -ENOMEM, "out of memory");
	r = init_locks(t);
	if (r < 0) {
		free(t);
		return err_set(err, r, "pthread: %s", err_name(r));
	}
	s->tables = t; /* freed by ses_tables_free from here on */
	t->images = backing->images;
	t->n_images = backing->n_images;
	t->control = control;
	t->cut.max = CUT_MAX;
	atomic_store(&t->all, s->o.unwind == SES_UNWIND_DWARF);
	t->image = calloc(backing->n_images, sizeof(*t->image));
	if (!t->image)
		return err_set(err, -ENOMEM, "out of memory");
	r = uw_rules_new(rules, &t->rules);
	if (r == 0)
		r = uw_store_new(backing, s->o.table_budget_bytes, &t->store);
	if (r == 0)
		r = prof_agg_new(NULL, &t->walked);
	return r < 0 ? err_set(err, r, "unwind tables: %s", err_name(r)) : 0;
}

void ses_tables_free(struct ses *s)
{
	struct ses_tables *t = TAKE_PTR(s->tables);

	if (!t)
		return;
	ses_copies_free(t);
	t->walked = prof_agg_free(t->walked);
	t->store = uw_store_free(t->store);
	t->rules = uw_rules_free(t->rules);
	free(t->image);
	(void)pthread_cond_destroy(&t->changed); /* its threads have ended */
	(void)pthread_mutex_destroy(&t->lock);
	free(t);
}

/* ---- what is wanted -------------------------------------------------------------------------- */

bool ses_table_absent(const struct ses_tables *t, uint32_t image)
{
	return image < t->n_images &&
	       __atomic_load_n(&t->images[image].state, __ATOMIC_ACQUIRE) == ABI_TABLE_ABSENT;
}

void ses_table_ask(struct ses_tables *t, uint32_t image)
{
	if (image < t->n_images)
		t->image[image].asked++;
}

/* How much an image's table is wanted now; 0: not at all, or it cannot be built now. */
static uint64_t wanted(const struct ses_tables *t, uint32_t id, uint64_t now)
{
	const struct ses_table *k = &t->image[id];
	enum ses_table_state state = atomic_load(&k->state);
	uint32_t met;
	uint64_t w;

	if (state == SES_TABLE_QUEUED || !ses_table_absent(t, id))
		return 0;
	if (t->finishing) /* for first samples alone, and what was evicted once more */
		return (state == SES_TABLE_DONE && k->last) ||
		                       (state == SES_TABLE_LATER && now < k->due_ns)
		               ? 0
		               : k->asked;
	if (state != SES_TABLE_NEW && now < k->due_ns)
		return 0;
	met = __atomic_load_n(&t->images[id].wanted, __ATOMIC_RELAXED);
	w = (met >= k->seen ? met - k->seen : met) + (uint64_t)k->asked;
	if (w == 0 &&
	    (state == SES_TABLE_LATER || (atomic_load(&t->all) && state == SES_TABLE_NEW)))
		w = 1;
	return w;
}

static void table_job_done(struct ses_table_job *job)
{
	trk_open_done(&job->from);
	free(job);
}

static void run_job(void *owner, void *item);

/* Hands an image to B: false if the queue has no room. */
static bool queue_table(struct ses *s, uint32_t id)
{
	struct ses_tables *t = s->tables;
	struct ses_table *k = &t->image[id];
	enum ses_table_state before = atomic_load(&k->state);
	struct ses_table_job *job = malloc(sizeof(*job));

	if (!job)
		return false;
	*job = (struct ses_table_job){.s = s, .image = id};
	trk_image_open(s->trk, id, false, &job->from);
	/* Before B can have it: it sets the state that follows. */
	atomic_store(&k->state, SES_TABLE_QUEUED);
	pthread_mutex_lock(&t->lock);
	t->outstanding++;
	pthread_mutex_unlock(&t->lock);
	if (pool_push(s->pool, &(struct pool_job){.run = run_job, .owner = s, .item = job}) < 0) {
		table_job_done(job);
		atomic_store(&k->state, before);
		pthread_mutex_lock(&t->lock);
		t->outstanding--;
		pthread_mutex_unlock(&t->lock);
		return false;
	}
	k->seen = __atomic_load_n(&t->images[id].wanted, __ATOMIC_RELAXED);
	k->asked = 0;
	k->last = t->finishing;
	return true;
}

/* Asks B for the most wanted tables, as many as there is room for. Returns: how many are being
 * built, and how many more are wanted. */
static size_t ask(struct ses *s, uint64_t now)
{
	struct ses_tables *t = s->tables;
	struct {
		uint64_t w;
		uint32_t id;
	} best[2 * SES_B_MAX];
	size_t room = 2 * (size_t)pool_size(s->pool), n = 0, more = 0, cnt = trk_image_cnt(s->trk),
	       busy;

	pthread_mutex_lock(&t->lock);
	busy = t->outstanding;
	pthread_mutex_unlock(&t->lock);
	room = MIN_OF(room, ARRAY_SIZE(best));
	room = busy < room ? room - busy : 0;
	if (t->n_images == 0)
		return 0;
	for (uint32_t id = 1; id <= MIN_OF(cnt, (size_t)t->n_images - 1); id++) {
		uint64_t w = wanted(t, id, now);
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
		if (!queue_table(s, best[i].id)) {
			(void)poll(NULL, 0,
			           1); /* who waits for it must not spin; in a later round */
			break;
		}
	return busy + more;
}

void ses_tables_round(struct ses *s, uint64_t now)
{
	struct ses_tables *t = s->tables;

	if (!t)
		return;
	if (now - t->epoch_ns >= EPOCH_NS) {
		t->epoch_ns = now;
		(void)__atomic_add_fetch(&t->control->epoch, 1, __ATOMIC_RELAXED);
	}
	if (now - t->scan_ns < SCAN_NS && !t->hurry)
		return;
	t->scan_ns = now;
	t->hurry = false;
	(void)ses_copies_retry(s, now, false);
	(void)ask(s, now);
}

/* ---- building: B ----------------------------------------------------------------------------- */

static void count_build(struct ses *s, int r, const struct uw_build_stats *st)
{
	tally_count(&s->tally, TALLY_TABLE_BAD_ENTRIES, st->bad_entries);
	tally_count(&s->tally, TALLY_TABLE_UNSUPPORTED, st->unsupported);
	if (r == -ENOENT || r == -ENOTSUP)
		tally_count(&s->tally, TALLY_TABLES_NONE, 1);
	else if (r < 0)
		tally_count(&s->tally, TALLY_TABLES_FAILED, 1);
}

static int build(struct ses *s, const struct ses_table_job *job, struct uw_table **ret)
{
	_cleanup_(img_file_freep) struct img_file *f = NULL;
	struct uw_build_stats st = {0};
	/* Files of others: what one may cost on the way to its table. */
	const struct uw_build_limits lim = {.area_bytes = AREA_BYTES, .cancel = &s->tables->cancel};
	int r;

	if (atomic_load(&s->tables->cancel))
		return -ECANCELED;
	if (job->from.no_file)
		r = -ENOENT;
	else if (job->from.reason != EV_REASON_NAMED)
		r = -EIO; /* it could not be opened: images_failed has why */
	else if (job->from.mem)
		r = img_file_open_mem(job->from.mem, job->from.mem_len, &f, NULL);
	else
		r = img_file_open(job->from.fd, &f, NULL);
	if (r == 0)
		r = uw_table_build(f, s->tables->rules, &lim, ret, &st, NULL);
	else if (r == -ENOEXEC)
		r = -ENOENT; /* code that is no ELF file has no call-frame information */
	if (r != -ECANCELED)
		count_build(s, r, &st);
	return r;
}

/* Would others have to go for a table? Its words are those of its rows and chunks, about. */
static bool is_full_for(const struct ses *s, const struct uw_table *table)
{
	uint64_t budget = s->o.table_budget_bytes ? s->o.table_budget_bytes : SES_BUDGET_BYTES;
	uint64_t bytes = 4 * (uint64_t)table->n_rows + 12 * (uint64_t)table->n_chunks;
	struct uw_store_stats st;

	uw_store_stats(s->tables->store, &st);
	return st.bytes + bytes > budget;
}

/* Publishes a table or, where there is none, that. */
static enum ses_table_state install(struct ses *s, uint32_t image, const struct uw_table *table)
{
	struct ses_tables *t = s->tables;
	int r;

	/* What is built without need must not take the place of what is. */
	if (table && atomic_load(&t->all) && is_full_for(s, table)) {
		atomic_store(&t->all, false);
		return SES_TABLE_NEW;
	}
	r = uw_store_install(t->store, image, table);

	if (r == -EAGAIN) {
		/* The budget is full: from now on what is needed, not everything. */
		atomic_store(&t->all, false);
		return SES_TABLE_LATER;
	}
	if (r == 0 && table)
		tally_count(&s->tally, TALLY_TABLES_BUILT, 1);
	if (r == -ENOSPC)
		tally_count(&s->tally, TALLY_TABLES_REFUSED, 1);
	else if (r < 0 && r != -EEXIST && table) {
		/* Without memory for words: its walks must not ask again and again. */
		tally_count(&s->tally, TALLY_TABLES_REFUSED, 1);
		(void)uw_store_install(t->store, image, NULL); /* then it stays wanted */
	}
	return SES_TABLE_DONE;
}

static void run_job(void *owner, void *item)
{
	struct ses *s = owner;
	struct ses_table_job *job = item;
	_cleanup_(uw_table_freep) struct uw_table *table = NULL;
	const struct ses_item wake = {.type = SES_ITEM_WAKE};
	struct ses_tables *t = s->tables;
	struct ses_table *k = &t->image[job->image];
	const uint32_t image = job->image;
	uint64_t begin = now_ns();
	enum ses_table_state state;
	int r = build(s, job, &table);

	if (r < 0)
		table = uw_table_free(table);
	state = r == -ECANCELED ? SES_TABLE_DONE : install(s, image, table);
	table_job_done(job);
	tally_count(&s->tally, TALLY_TABLE_BUILD_NS, now_ns() - begin);
	k->due_ns = now_ns() + (state == SES_TABLE_LATER ? NO_ROOM_NS : REBUILD_NS);
	atomic_store(&k->state, state);
	pthread_mutex_lock(&t->lock);
	t->outstanding--;
	(void)pthread_cond_broadcast(&t->changed); /* cannot fail */
	pthread_mutex_unlock(&t->lock);
	/* W need not be woken while it has work. Closed: it waits for `changed`. */
	if (queue_len(s->q_w) == 0)
		(void)queue_push(s->q_w, &wake);
}

/* ---- waiting --------------------------------------------------------------------------------- */

/* Until a table comes, or a moment has passed; at once where none is being built. */
static void await_table(struct ses_tables *t)
{
	uint64_t until = now_ns() + WAIT_NS;
	struct timespec ts = {.tv_sec = (time_t)(until / NSEC_PER_SEC),
	                      .tv_nsec = (long)(until % NSEC_PER_SEC)};

	pthread_mutex_lock(&t->lock);
	if (t->outstanding > 0)
		(void)pthread_cond_timedwait(&t->changed, &t->lock, &ts); /* woken early: no harm */
	pthread_mutex_unlock(&t->lock);
}

int ses_tables_prepare(struct ses *s)
{
	uint64_t begin = now_ns();

	if (!s->tables || !atomic_load(&s->tables->all))
		return 0;
	while (ask(s, now_ns()) > 0) {
		struct pollfd p = {.fd = s->ended_fd, .events = POLLIN};

		await_table(s->tables);
		if (s->ended_fd >= 0 && poll(&p, 1, 0) > 0)
			return -ESRCH;
		if (atomic_load(&s->interrupted))
			return -EINTR;
		if (now_ns() - begin > PREPARE_NS) {
			tally_note(&s->tally,
			           "the unwind tables of all mapped files take longer than %llu s: "
			           "the rest is built while the target is sampled",
			           (unsigned long long)(PREPARE_NS / NSEC_PER_SEC));
			break;
		}
	}
	if (!atomic_load(&s->tables->all))
		tally_note(&s->tally,
		           "the unwind tables of all mapped files do not fit the table budget: the "
		           "rest is built as it is met (--table-budget)");
	s->prepare_ns = now_ns() - begin;
	return 0;
}

/* Longest wait at the end for tables that first samples need; then they are walked by guesses. */
#define FINISH_NS (5 * NSEC_PER_SEC)

void ses_tables_finish(struct ses *s)
{
	struct ses_tables *t = s->tables;
	uint64_t begin = now_ns();

	if (!t)
		return;
	t->finishing = true;
	while (!atomic_load(&t->abandoned) && ses_copies_retry(s, now_ns(), false) > 0 &&
	       now_ns() - begin < FINISH_NS) {
		if (ask(s, now_ns()) == 0)
			break; /* what is missing will not come */
		await_table(t);
	}
	if (!atomic_load(&t->abandoned))
		(void)ses_copies_retry(s, now_ns(), true);
}

void ses_tables_figures(struct ses *s)
{
	struct uw_store_stats st = {0};
	struct uw_rules_stats rules = {0};

	if (!s->tables)
		return;
	uw_store_stats(s->tables->store, &st);
	uw_rules_stats(s->tables->rules, &rules);
	tally_count(&s->tally, TALLY_TABLES_EVICTED, st.evicted);
	tally_count(&s->tally, TALLY_TABLE_ROWS, st.rows);
	tally_count(&s->tally, TALLY_TABLE_BYTES, st.bytes);
	tally_count(&s->tally, TALLY_TABLE_RULES, rules.rules);
	tally_count(&s->tally, TALLY_RULES_REFUSED, rules.refused);
}
