/* SPDX-License-Identifier: Apache-2.0 */
/* For the tests of unwind tables and deferred samples: track, builder, store and walk are made up,
 * and
 * B is the test's thread. */
#ifndef PA_TESTS_FAKE_TABLES_H
#define PA_TESTS_FAKE_TABLES_H

#include "deferred/deferred_priv.h"

#include "fake_track.h"

/* ---- what is made up ------------------------------------------------------------------------- */

#define IMAGES 64

static struct trk_image images[IMAGES];
static uint32_t n_images;
static struct abi_image kernel_images[IMAGES];
static struct abi_control control;
static enum ev_reason proc_reason;
static int file_fd;

/* By image: what building and installing give, and how often they were called. */
static int build_gives[IMAGES], install_gives[IMAGES];
static uint32_t builds[IMAGES], installs[IMAGES], none_installs[IMAGES];
static _Thread_local uint32_t building; /* the image of B's job */

/* The walk needs these images in turn, then gives two frames. */
static uint32_t walk_needs[4];
static uint32_t walks, final_walks;
static bool never_there;
static int walk_gives;
static void (*walk_looks)(const struct uw_target *t);

int __wrap_trk_resolve_at(const struct trk *t, const struct ev_proc_id *id, uint64_t addr,
                          uint64_t time_ns, struct trk_location *ret);
size_t __wrap_trk_image_cnt(const struct trk *t);
const struct trk_image *__wrap_trk_image(const struct trk *t, uint32_t id);
int __wrap_trk_image_fd(const struct trk *t, uint32_t id, bool *ret_close);
enum ev_reason __wrap_trk_proc_reason(const struct trk *t, const struct ev_proc_id *id);
int __wrap_img_file_open(int fd, struct img_file **ret, struct err *err);
int __wrap_uw_rules_new(const struct uw_rules_mem *mem, struct uw_rules **ret);
struct uw_rules *__wrap_uw_rules_free(struct uw_rules *r);
void __wrap_uw_rules_stats(const struct uw_rules *r, struct uw_rules_stats *ret);
int __wrap_uw_store_new(const struct uw_backing *b, uint64_t budget, struct uw_store **ret);
struct uw_store *__wrap_uw_store_free(struct uw_store *s);
int __wrap_uw_store_install(struct uw_store *s, uint32_t image, const struct uw_table *t);
void __wrap_uw_store_stats(const struct uw_store *s, struct uw_store_stats *ret);
int __wrap_uw_table_build(struct img_file *f, struct uw_rules *rules,
                          const struct uw_build_limits *lim, struct uw_table **ret,
                          struct uw_build_stats *stats, struct err *err);
struct uw_table *__wrap_uw_table_free(struct uw_table *t);
void __wrap_uw_table_freep(struct uw_table **t);
void __wrap_uw_walk(const struct uw_store *store, const struct uw_rules *rules,
                    const struct uw_target *t, uint64_t pc, const uint64_t *reg, bool final,
                    struct uw_walk *ret);
/* Image i at i << 32; JIT code at 0x7000…; nothing else. */
int __wrap_trk_resolve_at(const struct trk *t, const struct ev_proc_id *id, uint64_t addr,
                          uint64_t time_ns, struct trk_location *ret)
{
	(void)t;
	(void)id;
	assert_true(time_ns <= watermark_ns);
	*ret = (struct trk_location){.off = addr};
	if (addr >> 44 == 7) {
		ret->anon = true;
		return 0;
	}
	if (addr >> 32 == 0 || addr >> 32 > n_images)
		return -ENOENT;
	ret->image = &images[addr >> 32];
	ret->off = (uint32_t)addr;
	return 0;
}

size_t __wrap_trk_image_cnt(const struct trk *t)
{
	(void)t;
	return n_images;
}

const struct trk_image *__wrap_trk_image(const struct trk *t, uint32_t id)
{
	(void)t;
	return id >= 1 && id <= n_images ? &images[id] : NULL;
}

int __wrap_trk_image_fd(const struct trk *t, uint32_t id, bool *ret_close)
{
	(void)t;
	(void)id;
	*ret_close = false;
	return file_fd;
}

enum ev_reason __wrap_trk_proc_reason(const struct trk *t, const struct ev_proc_id *id)
{
	(void)t;
	(void)id;
	return proc_reason;
}

int __wrap_img_file_open(int fd, struct img_file **ret, struct err *err)
{
	(void)err;
	assert_int_equal(fd, file_fd);
	*ret = NULL;
	return 0;
}

int __wrap_uw_rules_new(const struct uw_rules_mem *mem, struct uw_rules **ret)
{
	(void)mem;
	*ret = NULL;
	return 0;
}

struct uw_rules *__wrap_uw_rules_free(struct uw_rules *r)
{
	(void)r;
	return NULL;
}

void __wrap_uw_rules_stats(const struct uw_rules *r, struct uw_rules_stats *ret)
{
	(void)r;
	*ret = (struct uw_rules_stats){.rules = 40, .refused = 4};
}

int __wrap_uw_store_new(const struct uw_backing *b, uint64_t budget, struct uw_store **ret)
{
	(void)b;
	(void)budget;
	*ret = NULL;
	return 0;
}

struct uw_store *__wrap_uw_store_free(struct uw_store *s)
{
	(void)s;
	return NULL;
}

int __wrap_uw_store_install(struct uw_store *s, uint32_t image, const struct uw_table *t)
{
	int r = t ? install_gives[image] : 0;

	(void)s;
	installs[image] += t != NULL;
	none_installs[image] += t == NULL;
	if (r == 0)
		__atomic_store_n(&kernel_images[image].state, t ? ABI_TABLE_READY : ABI_TABLE_NONE,
		                 __ATOMIC_RELEASE);
	if (r == -ENOSPC)
		__atomic_store_n(&kernel_images[image].state, ABI_TABLE_NONE, __ATOMIC_RELEASE);
	return r;
}

void __wrap_uw_store_stats(const struct uw_store *s, struct uw_store_stats *ret)
{
	(void)s;
	*ret = (struct uw_store_stats){.evicted = 3, .bytes = 1000, .rows = 250};
}

int __wrap_uw_table_build(struct img_file *f, struct uw_rules *rules,
                          const struct uw_build_limits *lim, struct uw_table **ret,
                          struct uw_build_stats *stats, struct err *err)
{
	static struct uw_table table;
	uint32_t image = building;

	(void)f;
	(void)rules;
	(void)lim;
	(void)err;
	builds[image]++;
	stats->bad_entries = 2;
	stats->unsupported = 5;
	if (build_gives[image] == 0)
		*ret = &table;
	return build_gives[image];
}

struct uw_table *__wrap_uw_table_free(struct uw_table *t)
{
	(void)t;
	return NULL;
}

void __wrap_uw_table_freep(struct uw_table **t)
{
	*t = NULL;
}

#define FRAME(image, off)                                                                          \
	((ABI_SPACE_IMAGE << 62) | ((uint64_t)(image) << ABI_FRAME_IMAGE_SHIFT) | (off))

void __wrap_uw_walk(const struct uw_store *store, const struct uw_rules *rules,
                    const struct uw_target *t, uint64_t pc, const uint64_t *reg, bool final,
                    struct uw_walk *ret)
{
	(void)store;
	(void)rules;
	(void)reg;
	walks++;
	final_walks += final;
	*ret = (struct uw_walk){.walk = walk_gives, .n = 2};
	ret->frames[0] = FRAME(1, pc & 0xffff) | ABI_FRAME_EXACT;
	ret->frames[1] = FRAME(2, 0x20);
	if (walk_looks)
		walk_looks(t);
	for (size_t i = 0; i < ARRAY_SIZE(walk_needs) && walk_needs[i]; i++) {
		if (!never_there && kernel_images[walk_needs[i]].state != ABI_TABLE_ABSENT)
			continue;
		ret->flags = ABI_STACK_HEURISTIC;
		if (final)
			continue;
		ret->walk = ABI_WALK_NO_TABLE;
		ret->image = walk_needs[i];
		return;
	}
}

/* ---- a capture ------------------------------------------------------------------------------- */

static int setup(void **state)
{
	(void)state;
	memset(kernel_images, 0, sizeof(kernel_images));
	memset(&control, 0, sizeof(control));
	memset(build_gives, 0, sizeof(build_gives));
	memset(install_gives, 0, sizeof(install_gives));
	memset(builds, 0, sizeof(builds));
	memset(installs, 0, sizeof(installs));
	memset(none_installs, 0, sizeof(none_installs));
	memset(walk_needs, 0, sizeof(walk_needs));
	for (uint32_t i = 0; i < IMAGES; i++)
		images[i] = (struct trk_image){.id = i, .path = "/lib/made-up.so", .fd = -EBADF};
	n_images = 6;
	proc_reason = EV_REASON_NAMED;
	walks = final_walks = 0;
	never_there = false;
	walk_gives = ABI_WALK_ROOT;
	walk_looks = NULL;
	return 0;
}

/* A capture as far as samples are deferred in it: D and W are the test's thread. */
struct capture {
	struct tally tally;
	struct prof_agg *agg;
	struct pool *pool; /* without threads: do_job() */
	struct deferred *deferred;
	struct queue *q_w; /* struct deferred_sample *; NULL: wakes W */
	uint32_t symbolized;
	int check_gives;
	uint64_t prepare_ns;
};

static bool push_sample(void *arg, struct deferred_sample *k)
{
	return queue_push(((struct capture *)arg)->q_w, &k) == 0;
}

static void wake_w(void *arg)
{
	struct deferred_sample *none = NULL;
	struct capture *s = arg;

	if (queue_len(s->q_w) == 0)
		(void)queue_push(s->q_w, &none);
}

static void count_symbol(void *arg, uint32_t image, uint64_t addr)
{
	(void)image;
	(void)addr;
	((struct capture *)arg)->symbolized++;
}

static void ignore_walk(void *arg, struct ev_count *count, const struct ev_stack *st)
{
	(void)arg;
	(void)count;
	(void)st;
}

static struct capture *new_capture(bool all, size_t q_w, size_t q_jobs)
{
	static const struct uw_backing backing = {.images = kernel_images, .n_images = IMAGES};
	static const struct uw_rules_mem rules;
	struct capture *s = calloc(1, sizeof(*s));
	struct deferred_options o = {.tally = &s->tally,
	                             .rules = &rules,
	                             .backing = &backing,
	                             .control = &control,
	                             .budget_bytes = 1 << 20,
	                             .all = all,
	                             .hash_seed = 12345,
	                             .push = push_sample,
	                             .wake = wake_w,
	                             .symbolize = count_symbol,
	                             .walked = ignore_walk,
	                             .arg = s};

	assert_non_null(s);
	assert_int_equal(prof_agg_new(NULL, &s->agg), 0);
	o.agg = s->agg;
	assert_int_equal(queue_new(sizeof(struct deferred_sample *), q_w, &s->q_w), 0);
	assert_int_equal(
	        pool_new(&(struct pool_options){.name = "b", .max_jobs = q_jobs}, &s->pool), 0);
	assert_int_equal(deferred_new(&o, &s->deferred, NULL), 0);
	deferred_use(s->deferred, s->pool);
	return s;
}

static void capture_free(struct capture *s)
{
	struct deferred_sample *k;

	deferred_cancel(s->deferred, false);
	pool_free(s->pool);
	while (queue_pop(s->q_w, &k, 0) == 0)
		deferred_sample_free(k);
	assert_null(deferred_free(s->deferred));
	queue_free(s->q_w);
	prof_agg_free(s->agg);
	tally_reset(&s->tally);
	free(s);
}

/* A round of the tracker thread: all that waits, then deferred_round. -EPIPE when the queue is
 * closed and empty. */
static int w_round(struct capture *s)
{
	struct deferred_sample *k;
	int r = queue_pop(s->q_w, &k, 100 * NSEC_PER_MSEC), first = r;

	for (; r == 0; r = queue_pop(s->q_w, &k, 0)) {
		if (k)
			deferred_receive(s->deferred, k);
		else
			deferred_hurry(s->deferred, true);
	}
	deferred_round(s->deferred, now_ns());
	return first;
}

/* The next job, whose image is returned; 0: there is none. */
static uint32_t next_job(struct capture *s, struct pool_job *ret, uint64_t timeout_ns)
{
	if (pool_pop(s->pool, ret, timeout_ns) < 0)
		return 0;
	return ((const struct deferred_job *)ret->item)->image;
}

/* B does the next job. */
static inline uint32_t do_job(struct capture *s)
{
	struct pool_job job;
	uint32_t image = next_job(s, &job, 0);

	if (image) {
		building = image;
		job.run(job.owner, job.item);
	}
	return image;
}

static void one_round(struct capture *s)
{
	assert_int_not_equal(w_round(s), -EPIPE);
}

static uint64_t counter(struct capture *s, enum tally_id id)
{
	return tally_get(&s->tally, id);
}

static struct ev_deferred a_copy(uint64_t pc)
{
	static const uint8_t bytes[64] = {1, 2, 3, 4, 5, 6, 7, 8, 9};

	return (struct ev_deferred){
	        .count = {.proc = {.pid = 77, .start_ns = 5},
	                  .tid = 78,
	                  .samples = 1,
	                  .weight = 10},
	        .pc = pc,
	        .addr = 0x1000,
	        .len = sizeof(bytes),
	        .image = 1,
	        .bytes = bytes,
	};
}

static void take(struct capture *s, uint64_t pc)
{
	const struct ev_deferred c = a_copy(pc);

	deferred_add(s->deferred, &c);
}

static uint64_t samples_in(const struct prof_agg *a)
{
	return prof_agg_stats(a)->samples;
}

#endif
