/* SPDX-License-Identifier: Apache-2.0 */
/* test-session-build - from counts and stacks to the model, what W and B hand on, and what is said
 * of losses; no kernel side, and a track that is made up */
#include "deferred/deferred_priv.h"
#include "session/session_priv.h"

#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>

#include <cmocka.h>

/* ---- a track that is made up ----------------------------------------------------------------- */

/* Image i is mapped a page at a time at i << 32, and none of its pages lies next to another. */
#define PAGE       4096ULL
#define NO_CODE    0x7f0000000000ULL
#define AT(i, off) (((uint64_t)(i) << 32) + 2 * ((off) / PAGE) * PAGE + (off) % PAGE)

static struct trk_image images[64];
static uint32_t n_images;
static uint64_t place_calls, flush_calls;
static struct trk_stats track_stats;
static int code_fd; /* of all images */
static enum ev_reason proc_reason;

/* Failures that the model and the allocator are made to return. */
static int sample_fails_in, sample_error;

int __wrap_trk_resolve_any(const struct trk *t, const struct ev_proc_id *id, uint64_t addr,
                           struct trk_location *ret);
int __wrap_trk_resolve_image(const struct trk *t, const struct ev_proc_id *id, uint32_t image,
                             uint64_t off, struct trk_location *ret);
size_t __wrap_trk_image_cnt(const struct trk *t);
const struct trk_image *__wrap_trk_image(const struct trk *t, uint32_t id);
uint32_t __wrap_trk_main_image(const struct trk *t, const struct ev_proc_id *id);
enum ev_reason __wrap_trk_proc_reason(const struct trk *t, const struct ev_proc_id *id);
const struct trk_stats *__wrap_trk_stats(const struct trk *t);
void __wrap_trk_flush(struct trk *t);
int __wrap_trk_image_fd(const struct trk *t, uint32_t id, bool *ret_close);
int __wrap_uw_store_code(const struct uw_store *s, uint32_t image, uint64_t off, uint16_t *ret);
int __real_prof_model_sample(struct prof_model *m, const uint32_t *locs, uint32_t n_locs,
                             const struct prof_label *labels, uint32_t n_labels,
                             const int64_t *values);
int __wrap_prof_model_sample(struct prof_model *m, const uint32_t *locs, uint32_t n_locs,
                             const struct prof_label *labels, uint32_t n_labels,
                             const int64_t *values);

int __wrap_trk_resolve_image(const struct trk *t, const struct ev_proc_id *id, uint32_t image,
                             uint64_t off, struct trk_location *ret)
{
	(void)t;
	(void)id;
	if (off == TRK_OFF_ANY)
		off = 0;
	*ret = (struct trk_location){.image = &images[image - 1],
	                             .off = off,
	                             .map_start = AT(image, off / PAGE * PAGE),
	                             .map_end = AT(image, off / PAGE * PAGE) + PAGE,
	                             .map_pgoff = off / PAGE * PAGE};
	return 0;
}

int __wrap_trk_resolve_any(const struct trk *t, const struct ev_proc_id *id, uint64_t addr,
                           struct trk_location *ret)
{
	uint32_t image = (uint32_t)(addr >> 32);
	uint64_t low = (uint32_t)addr;

	place_calls++;
	if (image == 0 || image > n_images)
		return -ENOENT;
	return __wrap_trk_resolve_image(t, id, image, low / PAGE / 2 * PAGE + low % PAGE, ret);
}

size_t __wrap_trk_image_cnt(const struct trk *t)
{
	(void)t;
	return n_images;
}

const struct trk_image *__wrap_trk_image(const struct trk *t, uint32_t id)
{
	(void)t;
	return id >= 1 && id <= n_images ? &images[id - 1] : NULL;
}

uint32_t __wrap_trk_main_image(const struct trk *t, const struct ev_proc_id *id)
{
	(void)t;
	(void)id;
	return 1;
}

enum ev_reason __wrap_trk_proc_reason(const struct trk *t, const struct ev_proc_id *id)
{
	(void)t;
	(void)id;
	return proc_reason;
}

const struct trk_stats *__wrap_trk_stats(const struct trk *t)
{
	(void)t;
	return &track_stats;
}

void __wrap_trk_flush(struct trk *t)
{
	(void)t;
	flush_calls++;
}

int __wrap_prof_model_sample(struct prof_model *m, const uint32_t *locs, uint32_t n_locs,
                             const struct prof_label *labels, uint32_t n_labels,
                             const int64_t *values)
{
	if (sample_fails_in >= 0 && sample_fails_in-- == 0)
		return sample_error;
	return __real_prof_model_sample(m, locs, n_locs, labels, n_labels, values);
}

int __wrap_trk_image_fd(const struct trk *t, uint32_t id, bool *ret_close)
{
	(void)t;
	(void)id;
	*ret_close = false;
	return code_fd;
}

/* Pages of each image in turn: a rule, none, a damaged one, a root. Image 3 has no table, image 4
 * none any more. */
int __wrap_uw_store_code(const struct uw_store *s, uint32_t image, uint64_t off, uint16_t *ret)
{
	static const uint16_t codes[] = {ABI_CODE_FIRST, ABI_CODE_NONE, ABI_CODE_BAD,
	                                 ABI_CODE_ROOT};

	(void)s;
	if (image >= 3)
		return image == 3 ? -ENOENT : -EAGAIN;
	*ret = codes[off / PAGE % ARRAY_SIZE(codes)];
	return 0;
}

struct load_oncpu *__wrap_smp_walker_loader(struct smp_walker *s);
struct abi_control *__wrap_load_control(struct load_oncpu *l);

struct load_oncpu *__wrap_smp_walker_loader(struct smp_walker *s)
{
	(void)s;
	return NULL;
}

struct abi_control *__wrap_load_control(struct load_oncpu *l)
{
	static struct abi_control control;

	(void)l;
	return &control;
}

/* ---- a capture that has ended ---------------------------------------------------------------- */

static int setup(void **state)
{
	(void)state;
	for (uint32_t i = 0; i < ARRAY_SIZE(images); i++)
		images[i] = (struct trk_image){.id = i + 1,
		                               .path = "/lib/made-up.so",
		                               .fd = -EBADF,
		                               .reason = EV_REASON_NO_FILE};
	n_images = 1;
	place_calls = flush_calls = 0;
	proc_reason = EV_REASON_NAMED;
	sample_fails_in = -1;
	code_fd = -EBADF;
	return 0;
}

/* Every image can be read. */
static void open_any(void *arg, uint32_t image, struct trk_open *ret)
{
	(void)arg;
	(void)image;
	*ret = (struct trk_open){
	        .fd = -EBADF, .root_fd = -EBADF, .path = "", .mem = "", .mem_len = 1};
}

static struct ses *new_capture(void)
{
	struct symbolizer_options so = {.open = open_any, .in_process = true};
	const struct pfa_options o = {.target = PFA_TARGET_PID, .pid = 77};
	struct ses *s = NULL;

	assert_int_equal(ses_new(&o, &s, NULL), 0);
	s->target.pid = 77;
	assert_int_equal(src_oncpu.open(&s->env, &s->src[0], NULL), 0);
	assert_int_equal(ses_walk_new(s), 0);
	s->env.agg = s->walk.agg;
	assert_int_equal(ses_deferred_new(s, NULL, NULL, NULL, NULL), 0);
	so.tally = &s->tally;
	assert_int_equal(symbolizer_new(&so, &s->walk.symbolizer, NULL), 0);
	assert_int_equal(
	        pool_new(&(struct pool_options){.name = "b", .n_threads = 1, .max_jobs = 64},
	                 &s->walk.pool),
	        0);
	symbolizer_use(s->walk.symbolizer, s->walk.pool);
	return s;
}

/* One count of a stack of raw addresses. */
static void count_stack(struct ses *s, uint32_t tid, uint64_t hash, const uint64_t *addrs,
                        uint32_t n, uint64_t samples)
{
	struct ev_frame frames[8] = {{0}};
	const struct ev_stack st = {.hash = hash, .walk = EV_WALK_ROOT, .n = n, .frames = frames};
	const struct ev_count c = {.proc = {.pid = 77, .start_ns = 5},
	                           .tid = tid,
	                           .ustack = hash,
	                           .samples = samples,
	                           .weight = 10 * samples};

	for (uint32_t i = 0; i < n; i++)
		frames[i] = (struct ev_frame){.addr = addrs[i], .space = EV_SPACE_RAW, .exact = 1};
	assert_int_equal(prof_agg_add_stack(s->walk.agg, &st, NULL), 0);
	assert_int_equal(prof_agg_add_count(s->walk.agg, &c), 0);
}

/* B: names everything "f". */
void __wrap_sym_files_resolve_all(struct sym_files *c, struct sym_request *v, size_t n);
void __wrap_sym_files_resolve_all(struct sym_files *c, struct sym_request *v, size_t n)
{
	(void)c;
	for (size_t i = 0; i < n; i++) {
		v[i].result = sym_none_resolve(EV_REASON_NO_SYMBOL, NULL, v[i].n, &v[i].batch);
		assert_int_equal(v[i].result, 0);
		assert_int_equal(vec_push(&v[i].batch.frames,
		                          ((struct sym_frame){.name = "f", .linkage = "f"})),
		                 0);
		for (size_t k = 0; k < v[i].n; k++)
			v[i].batch.names[k] = (struct sym_name){.n = 1};
	}
}

static int build(struct ses *s, struct err *err)
{
	return ses_profile_build(s, err);
}

static uint64_t counter(const struct ses *s, enum tally_id id)
{
	return tally_get(&s->tally, id);
}

/* ---- W and B --------------------------------------------------------------------------------- */

static void test_w_looks_up_from_a_full_queue(void **state)
{
	struct ses *s = new_capture();
	struct ses_item item = {.type = SES_ITEM_FRAMES_, .n = 1};
	const size_t n = 2 * SES_ROUND_ITEMS + 10;

	(void)state;
	for (size_t i = 0; i < n; i++) {
		item.addrs[0].addr = i;
		assert_int_equal(queue_push(s->walk.queue, &item), 0);
	}
	queue_close(s->walk.queue);
	assert_int_equal(ses_tracker_round(s), 0);
	/* Fewer where 50 ms are over first. */
	assert_true(queue_len(s->walk.queue) >= n - SES_ROUND_ITEMS &&
	            queue_len(s->walk.queue) < n);
	assert_int_equal(flush_calls, 1);
	while (ses_tracker_round(s) == 0)
		;
	assert_int_equal(queue_len(s->walk.queue), 0);
	assert_true(flush_calls >= 3);
	assert_int_equal(symbolizer_requested(s->walk.symbolizer), n);
	ses_free(s);
}

static void test_deferred_samples_leave_half_of_the_queue(void **state)
{
	struct ses *s = new_capture();
	const struct ses_item item = {.type = SES_ITEM_FRAMES_};

	(void)state;
	assert_true(ses_deferred_room(s) == SIZE_MAX); /* without tables none comes */
	s->walk.deferred->has_tables = true;
	assert_in_range(ses_deferred_room(s), 100, SES_QUEUE_ITEMS / 2);
	for (int i = 0; i < SES_QUEUE_ITEMS / 2 - 10; i++)
		assert_int_equal(queue_push(s->walk.queue, &item), 0);
	assert_int_equal(ses_deferred_room(s), 10);
	for (int i = 0; i < 20; i++)
		assert_int_equal(queue_push(s->walk.queue, &item), 0);
	assert_int_equal(ses_deferred_room(s), 0);
	ses_free(s);
}

/* ---- the model ------------------------------------------------------------------------------- */

static void test_frames_past_the_stretches_of_an_image(void **state)
{
	struct ses *s = new_capture();
	struct err err = {0};
	size_t bare = 0;

	(void)state;
	for (uint32_t i = 0; i < 1500; i++) {
		const uint64_t addr = AT(1, i * PAGE + 16);

		count_stack(s, 1, i + 1, &addr, 1, 2);
	}
	if (build(s, &err) < 0)
		fail_msg("%s", err.msg);
	assert_int_equal(s->final.kept, 3000);
	assert_int_equal(s->final.weight, 30000);
	assert_int_equal(s->final.dropped, 0);
	assert_int_equal(s->product[0].result.model->mappings.n, 1024);
	assert_int_equal(s->product[0].result.model->locations.n, 1500);
	for (size_t i = 0; i < s->product[0].result.model->locations.n; i++)
		bare += s->product[0].result.model->locations.p[i].mapping == 0;
	assert_int_equal(bare, 1500 - 1024);
	ses_free(s);
}

static void test_what_the_model_refuses_is_dropped(void **state)
{
	static const int errors[] = {-E2BIG, -EINVAL};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(errors); i++) {
		struct ses *s = new_capture();
		const uint64_t addr = AT(1, 16);
		struct err err = {0};

		for (uint32_t tid = 1; tid <= 5; tid++)
			count_stack(s, tid, 9, &addr, 1, tid);
		sample_fails_in = 2;
		sample_error = errors[i];
		assert_int_equal(build(s, &err), 0);
		assert_int_equal(counter(s, TALLY_DROP_MODEL_FULL), 3);
		assert_int_equal(s->final.kept, 12);
		assert_int_equal(s->final.weight, 120);
		assert_int_equal(s->final.dropped, 3);
		ses_free(s);
	}
}

struct asked {
	uint32_t calls;
	uint32_t pid;
	uint64_t start_ns;
};

static void say_team(void *arg, const struct pfa_process *p, struct pfa_label_sink *to)
{
	struct asked *a = arg;

	a->calls++;
	a->pid = p->pid;
	a->start_ns = p->start_ns;
	assert_int_equal(label_add(to, "team", p->pid == 77 ? "red" : "blue"), 0);
	assert_int_equal(label_add(to, "zone", "north"), 0);
}

static void test_labels_of_enrichers_are_on_all_samples(void **state)
{
	struct ses *s = new_capture();
	const uint64_t addr = AT(1, 16);
	const struct prof_model *m;
	struct asked asked = {0};
	struct err err = {0};

	(void)state;
	assert_int_equal(ses_add_enricher(s, say_team, &asked, &err), 0);
	for (uint32_t tid = 1; tid <= 5; tid++)
		count_stack(s, tid, 9, &addr, 1, tid);
	assert_int_equal(build(s, &err), 0);
	assert_int_equal(asked.calls, 1);
	assert_int_equal(asked.pid, 77);
	assert_int_equal(asked.start_ns, 5);
	m = s->product[0].result.model;
	assert_int_equal(m->samples.n, 5);
	vec_each (sample, &m->samples) {
		const struct prof_label *l =
		        &m->labels.p[sample->label_first + sample->label_cnt - 2];

		assert_int_equal(sample->label_cnt, 4); /* pid, tid */
		assert_string_equal(prof_model_str(m, l[0].key), "team");
		assert_string_equal(prof_model_str(m, l[0].str), "red");
		assert_string_equal(prof_model_str(m, l[1].key), "zone");
		assert_string_equal(prof_model_str(m, l[1].str), "north");
	}
	ses_free(s);
}

static void test_statistics_stand_when_the_build_fails(void **state)
{
	struct ses *s = new_capture();
	const uint64_t addr = AT(1, 16);
	struct err err = {0};

	(void)state;
	for (uint32_t tid = 1; tid <= 5; tid++)
		count_stack(s, tid, 9, &addr, 1, tid);
	sample_fails_in = 2;
	sample_error = -ENOMEM;
	assert_int_equal(build(s, &err), -ENOMEM);
	assert_non_null(strstr(err.msg, "building the profile"));
	assert_int_equal(s->final.kept, 1 + 2);
	assert_int_equal(s->final.weight, 30);
	assert_int_equal(s->final.dropped, 3 + 4 + 5);
	assert_int_equal(s->final.stacks, 1);
	ses_free(s);
}

static const char *statistic(const struct ses *s, const char *key)
{
	size_t len = strlen(key);

	for (size_t i = 0; i < s->product[0].quality.v.n; i++)
		if (strncmp(s->product[0].quality.v.p[i], key, len) == 0 &&
		    s->product[0].quality.v.p[i][len] == ':')
			return s->product[0].quality.v.p[i] + len + 2;
	return "none";
}

static void test_share_of_named_is_of_all_frames(void **state)
{
	struct ses *s = new_capture();
	/* The last two are no code: frames without a name where it is not known better. */
	const uint64_t one[] = {AT(1, 16), AT(1, 32), NO_CODE}, two[] = {AT(1, 16), NO_CODE + 1};
	struct err err = {0};

	(void)state;
	proc_reason = EV_REASON_NOT_PERMITTED;
	count_stack(s, 1, 1, one, 3, 30);
	count_stack(s, 2, 2, two, 2, 10);
	count_stack(s, 3, 2, two, 2, 50); /* refused: in no statistic */
	sample_fails_in = 2;
	sample_error = -E2BIG;
	assert_int_equal(build(s, &err), 0);
	/* (2 * 30 + 10) / (3 * 30 + 2 * 10) */
	assert_string_equal(statistic(s, "named_user_pct"), "63.64");
	assert_string_equal(statistic(s, "unnamed_frames_process_not_readable"), "2");
	assert_string_equal(statistic(s, "complete_stacks_pct"), "100.00");
	ses_free(s);
}

static void test_an_address_is_placed_once(void **state)
{
	struct ses *s = new_capture();
	const uint64_t addrs[] = {AT(1, 16), AT(1, PAGE + 4), AT(1, 32)};
	struct err err = {0};

	(void)state;
	for (uint32_t tid = 1; tid <= 10; tid++)
		count_stack(s, tid, 1, addrs, 3, 1);
	count_stack(s, 1, 2, addrs, 2, 1);
	assert_int_equal(build(s, &err), 0);
	assert_int_equal(place_calls, 3);
	assert_int_equal(s->product[0].result.model->locations.n, 3);
	assert_string_equal(statistic(s, "named_user_pct"), "100.00");
	ses_free(s);
}

/* A stack of an image, JIT or raw frame each, and a count of it. */
static void count_walk(struct ses *s, uint64_t hash, enum ev_walk walk, uint8_t flags,
                       const struct ev_frame *last, uint64_t weight)
{
	const struct ev_frame frames[] = {{.addr = 16, .image = 1, .space = EV_SPACE_IMAGE}, *last};
	const struct ev_stack st = {
	        .hash = hash, .walk = (uint8_t)walk, .flags = flags, .n = 2, .frames = frames};
	const struct ev_count c = {.proc = {.pid = 77, .start_ns = 5},
	                           .tid = 1,
	                           .ustack = hash,
	                           .samples = 1,
	                           .weight = weight};

	assert_int_equal(prof_agg_add_stack(s->walk.agg, &st, NULL), 0);
	assert_int_equal(prof_agg_add_count(s->walk.agg, &c), 0);
}

static void test_incomplete_stacks_count_for_their_last_frame(void **state)
{
	const struct ev_frame one = {.addr = 32, .image = 1, .space = EV_SPACE_IMAGE},
	                      two = {.addr = 32, .image = 2, .space = EV_SPACE_IMAGE},
	                      jit = {.addr = 99, .space = EV_SPACE_ANON},
	                      raw = {.addr = AT(2, 64), .space = EV_SPACE_RAW, .exact = 1};
	struct ses *s = new_capture();
	struct err err = {0};
	size_t first = 0;

	(void)state;
	n_images = 2;
	images[1].path = "/lib/two.so";
	count_walk(s, 1, EV_WALK_ROOT, EV_STACK_HEURISTIC, &one, 40);
	count_walk(s, 2, EV_WALK_UNCOVERED, 0, &one, 10);
	count_walk(s, 3, EV_WALK_FAULT, EV_STACK_HEURISTIC | EV_STACK_JIT, &two, 5);
	count_walk(s, 4, EV_WALK_JIT, EV_STACK_JIT, &jit, 25);
	count_walk(s, 5, EV_WALK_FAULT, 0, &raw, 20); /* which lies in the second file */
	assert_int_equal(build(s, &err), 0);
	assert_string_equal(statistic(s, "complete_stacks_pct"), "40.00");
	assert_string_equal(statistic(s, "heuristic_stacks_pct"), "45.00");
	assert_string_equal(statistic(s, "jit_stacks_pct"), "30.00");
	while (strncmp(s->product[0].quality.v.p[first], "incomplete_in", 13) != 0)
		first++;
	assert_string_equal(s->product[0].quality.v.p[first], "incomplete_in: [jit] 25.00");
	assert_string_equal(s->product[0].quality.v.p[first + 1], "incomplete_in: two.so 25.00");
	assert_string_equal(s->product[0].quality.v.p[first + 2],
	                    "incomplete_in: made-up.so 10.00");
	assert_null(strstr(s->product[0].quality.v.p[first + 3], "incomplete_in"));
	ses_free(s);
}

/* Stacks of this sample: (0: none) a kernel stack that is cut at its limit, that failed,
 * that is whole or that never came; a user stack. */
enum { K_CUT = 31, K_FAILED, K_WHOLE, K_LOST, U_WHOLE, U_LEFT, U_LOST };
static void count_stacks(struct ses *s, uint32_t tid, bool kthread, uint64_t kernel, uint64_t user,
                         uint64_t weight)
{
	const struct ev_frame k = {.addr = 1ULL << 47, .space = EV_SPACE_KERNEL},
	                      u = {.addr = 16, .image = 1, .space = EV_SPACE_IMAGE, .exact = 1};
	const struct ev_stack stacks[] = {
	        {.hash = K_CUT, .kernel = true, .walk = EV_WALK_DEPTH, .n = 1, .frames = &k},
	        {.hash = K_FAILED, .kernel = true, .walk = EV_WALK_FAULT},
	        {.hash = K_WHOLE, .kernel = true, .walk = EV_WALK_ROOT, .n = 1, .frames = &k},
	        {.hash = U_WHOLE, .walk = EV_WALK_ROOT, .n = 1, .frames = &u},
	        {.hash = U_LEFT, .walk = EV_WALK_LEFT, .n = 1, .frames = &u},
	};
	const struct ev_count c = {.proc = {.pid = 77, .start_ns = 5},
	                           .tid = tid,
	                           .kthread = kthread,
	                           .kstack = kernel,
	                           .ustack = user,
	                           .samples = 1,
	                           .weight = weight};

	for (size_t i = 0; i < ARRAY_SIZE(stacks); i++)
		if (stacks[i].hash == kernel || stacks[i].hash == user)
			assert_int_equal(prof_agg_add_stack(s->walk.agg, &stacks[i], NULL), 0);
	assert_int_equal(prof_agg_add_count(s->walk.agg, &c), 0);
}

static void test_kernel_threads_are_in_no_share_of_user_stacks(void **state)
{
	struct ses *s = new_capture();
	struct err err = {0};

	(void)state;
	count_stacks(s, 1, true, K_CUT, 0, 10);
	count_stacks(s, 2, true, K_FAILED, 0, 20);
	count_stacks(s, 3, true, K_WHOLE, 0, 30);
	count_stacks(s, 4, true, K_LOST, 0, 40);
	count_stacks(s, 5, true, 0, 0, 50);
	count_stacks(s, 6, false, K_CUT, U_LEFT, 50);
	count_stacks(s, 7, false, K_WHOLE, U_WHOLE, 150);
	assert_int_equal(build(s, &err), 0);
	assert_string_equal(statistic(s, "complete_stacks_pct"), "100.00");
	assert_string_equal(statistic(s, "incomplete_in"), "none");
	assert_string_equal(statistic(s, "cut_stacks_pct"), "17.14");  /* 60 of 350 */
	assert_string_equal(statistic(s, "lost_stacks_pct"), "11.43"); /* 40 */
	ses_free(s);
}

static void test_cut_and_lost_stacks_are_not_complete(void **state)
{
	struct ses *s = new_capture();
	struct err err = {0};

	(void)state;
	count_stacks(s, 1, false, K_CUT, U_WHOLE, 10);
	count_stacks(s, 2, false, 0, U_LOST, 20);
	count_stacks(s, 3, false, K_LOST, U_WHOLE, 30);
	count_stacks(s, 4, false, 0, U_WHOLE, 40);
	count_stacks(s, 5, true, K_CUT, 0, 900);
	assert_int_equal(build(s, &err), 0);
	assert_string_equal(statistic(s, "complete_stacks_pct"), "40.00");
	assert_string_equal(statistic(s, "incomplete_in"), "none");
	ses_free(s);
}

/* A process without a number here cannot be looked up: if it was not found, it has not ended. */
static void test_stacks_of_other_pid_namespaces_say_so(void **state)
{
	static const struct {
		enum ev_walk walk;
		const char *here, *there; /* statistics of it */
	} cases[] = {
	        {EV_WALK_GONE, "walk_process_gone_pct", "walk_other_pid_namespace_pct"},
	        {EV_WALK_NO_TABLE, "walk_no_table_yet_pct", "walk_other_pid_namespace_pct"},
	        {EV_WALK_NO_REGS, "walk_no_registers_pct", "walk_other_pid_namespace_pct"},
	        {EV_WALK_ROOT, "walk_root_reached_pct", "walk_root_reached_pct"},
	        {EV_WALK_FAULT, "walk_read_fault_pct", "walk_read_fault_pct"},
	};
	const struct ev_frame raw = {.addr = 77, .space = EV_SPACE_RAW, .exact = 1};

	(void)state;
	for (size_t i = 0; i < 2 * ARRAY_SIZE(cases); i++) {
		const bool foreign = i % 2;
		struct ses *s = new_capture();
		const struct ev_stack st = {
		        .hash = 9, .walk = (uint8_t)cases[i / 2].walk, .n = 1, .frames = &raw};
		struct ev_count c = {.proc = {.pid = 77, .start_ns = 5},
		                     .tid = 1,
		                     .foreign_ns = foreign,
		                     .ustack = 9,
		                     .samples = 1,
		                     .weight = 10};
		struct err err = {0};

		assert_int_equal(prof_agg_add_stack(s->walk.agg, &st, NULL), 0);
		assert_int_equal(prof_agg_add_count(s->walk.agg, &c), 0);
		c.tid = 2; /* from the cache of stacks */
		assert_int_equal(prof_agg_add_count(s->walk.agg, &c), 0);
		assert_int_equal(build(s, &err), 0);
		assert_string_equal(statistic(s, foreign ? cases[i / 2].there : cases[i / 2].here),
		                    "100.00");
		ses_free(s);
	}
}

#define RULE 16
#define NONE (PAGE + 16)
#define BAD  (2 * PAGE + 16)

static struct ev_frame in(uint32_t image, uint64_t off)
{
	return (struct ev_frame){.addr = off, .image = image, .space = EV_SPACE_IMAGE};
}

/* A guessed stack of these frames, and two counts of it. */
static void count_guessed(struct ses *s, uint64_t hash, enum ev_walk walk,
                          const struct ev_frame *frames, uint32_t n, uint64_t weight)
{
	const struct ev_stack st = {.hash = hash,
	                            .walk = (uint8_t)walk,
	                            .flags = EV_STACK_HEURISTIC,
	                            .n = n,
	                            .frames = frames};

	assert_int_equal(prof_agg_add_stack(s->walk.agg, &st, NULL), 0);
	for (uint32_t tid = 1; tid <= 2; tid++) {
		const struct ev_count c = {.proc = {.pid = 77, .start_ns = 5},
		                           .tid = tid,
		                           .ustack = hash,
		                           .samples = 1,
		                           .weight = weight / 2};

		assert_int_equal(prof_agg_add_count(s->walk.agg, &c), 0);
	}
}

/* A capture with four images that have tables as __wrap_uw_store_code says. */
static struct ses *new_tables(void)
{
	struct ses *s = new_capture();
	static const char *const paths[] = {"/a/one.so", "/a/two.so", "/a/none.so", "/a/gone.so"};

	s->walk.deferred->has_tables = true;
	assert_int_equal(uw_rules_new(NULL, &s->walk.deferred->rules), 0);
	n_images = ARRAY_SIZE(paths);
	for (uint32_t i = 0; i < n_images; i++)
		images[i].path = paths[i];
	return s;
}

/* The values of a key, in their order, each with a line feed. */
static const char *lines(const struct ses *s, const char *key)
{
	static char text[1024];
	size_t len = strlen(key), n = 0;

	text[0] = '\0';
	for (size_t i = 0; i < s->product[0].quality.v.n; i++)
		if (strncmp(s->product[0].quality.v.p[i], key, len) == 0 &&
		    s->product[0].quality.v.p[i][len] == ':')
			n += (size_t)snprintf(text + n, sizeof(text) - n, "%s\n",
			                      s->product[0].quality.v.p[i] + len + 2);
	return text;
}

static void test_guesses_are_made_where_code_has_no_rule(void **state)
{
	const struct ev_frame none[] = {in(1, RULE), in(1, NONE), in(2, RULE), in(1, RULE)},
	                      both[] = {in(2, BAD), in(1, NONE), in(2, NONE), in(1, RULE)},
	                      /* a call that ends a page belongs to that page */
	        edge[] = {in(1, RULE), in(2, 3 * PAGE), in(2, PAGE), in(1, RULE)},
	                      bare[] = {in(1, RULE), in(3, RULE), in(4, NONE), in(1, RULE)},
	                      early[] = {in(1, RULE), in(2, RULE)};
	struct ses *s = new_tables();
	struct err err = {0};

	(void)state;
	count_guessed(s, 1, EV_WALK_ROOT, none, 4, 10);
	count_guessed(s, 2, EV_WALK_ROOT, both, 4, 20);
	count_guessed(s, 3, EV_WALK_ROOT, edge, 4, 40);
	count_guessed(s, 4, EV_WALK_FAULT, bare, 4, 14);
	count_guessed(s, 5, EV_WALK_ROOT, early, 2, 16);
	assert_int_equal(build(s, &err), 0);
	assert_string_equal(statistic(s, "heuristic_stacks_pct"), "100.00");
	assert_string_equal(lines(s, "heuristic_in"), "two.so 60.00\n"
	                                              "one.so 30.00\n"
	                                              "[before its table] 16.00\n"
	                                              "gone.so (without table) 14.00\n"
	                                              "none.so (without table) 14.00\n");
	ses_free(s);
}

static void test_what_is_known_without_a_rule_is_no_guess(void **state)
{
	struct ev_frame trampoline[] = {in(2, NONE), in(1, NONE), in(2, RULE), in(2, RULE)},
	                jit[] = {{.addr = 99, .space = EV_SPACE_ANON}, in(2, NONE), in(2, RULE)},
	                by_hand[] = {in(2, NONE), in(2, RULE), in(1, 3 * PAGE)},
	                failed[] = {in(2, NONE), in(1, NONE)}, only[] = {in(2, RULE), in(1, NONE)};
	struct ses *s = new_tables();
	struct err err = {0};

	(void)state;
	trampoline[2].exact = 1; /* what the signal interrupted */
	count_guessed(s, 1, EV_WALK_ROOT, trampoline, 4, 20);
	count_guessed(s, 2, EV_WALK_ROOT, jit, 3, 20);
	count_guessed(s, 3, EV_WALK_ROOT, by_hand, 3, 20);
	/* The end of a walk is reported elsewhere; but if nothing else explains the heuristic
	 * frame, its
	 * end was one. */
	count_guessed(s, 4, EV_WALK_UNCOVERED, failed, 2, 20);
	count_guessed(s, 5, EV_WALK_ROOT, only, 2, 20);
	assert_int_equal(build(s, &err), 0);
	assert_string_equal(lines(s, "heuristic_in"), "two.so 80.00\none.so 20.00\n");
	assert_string_equal(lines(s, "incomplete_in"), "one.so 20.00\n");
	ses_free(s);
}

#if defined(__x86_64__)
static void test_the_end_of_a_thread_is_no_guess(void **state)
{
	/* mov %eax, %edi; mov $60, %eax */
	static const uint8_t code[] = {0x89, 0xc7, 0xb8, 60, 0, 0, 0, 0};
	const struct ev_frame end[] = {in(2, RULE), in(1, NONE)}, no[] = {in(2, RULE), in(1, BAD)};
	struct ses *s = new_tables();
	FILE *f = tmpfile();
	struct err err = {0};

	(void)state;
	assert_non_null(f);
	code_fd = fileno(f);
	assert_int_equal(pwrite(code_fd, code, sizeof(code), NONE), sizeof(code));
	assert_int_equal(ftruncate(code_fd, 4 * PAGE), 0);
	count_guessed(s, 1, EV_WALK_ROOT, end, 2, 60);
	count_guessed(s, 2, EV_WALK_ROOT, no, 2, 40);
	assert_int_equal(build(s, &err), 0);
	assert_string_equal(lines(s, "heuristic_in"), "[before its table] 60.00\none.so 40.00\n");
	ses_free(s);
	(void)fclose(f);
}
#endif

static void test_raw_frames_are_guessed_where_they_lie(void **state)
{
	const struct ev_frame raw[] = {in(1, RULE),
	                               {.addr = AT(2, NONE), .space = EV_SPACE_RAW},
	                               in(1, RULE)},
	                      nowhere[] = {{.addr = NO_CODE, .space = EV_SPACE_RAW, .exact = 1},
	                                   in(1, RULE)};
	struct ses *s = new_tables();
	struct err err = {0};

	(void)state;
	count_guessed(s, 1, EV_WALK_ROOT, raw, 3, 60);
	count_guessed(s, 2, EV_WALK_ROOT, nowhere, 2, 40);
	assert_int_equal(build(s, &err), 0);
	assert_string_equal(lines(s, "heuristic_in"), "two.so 60.00\n[unknown] 40.00\n");
	ses_free(s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(test_w_looks_up_from_a_full_queue, setup),
		cmocka_unit_test_setup(test_deferred_samples_leave_half_of_the_queue, setup),
		cmocka_unit_test_setup(test_frames_past_the_stretches_of_an_image, setup),
		cmocka_unit_test_setup(test_what_the_model_refuses_is_dropped, setup),
		cmocka_unit_test_setup(test_labels_of_enrichers_are_on_all_samples, setup),
		cmocka_unit_test_setup(test_statistics_stand_when_the_build_fails, setup),
		cmocka_unit_test_setup(test_share_of_named_is_of_all_frames, setup),
		cmocka_unit_test_setup(test_an_address_is_placed_once, setup),
		cmocka_unit_test_setup(test_incomplete_stacks_count_for_their_last_frame, setup),
		cmocka_unit_test_setup(test_guesses_are_made_where_code_has_no_rule, setup),
		cmocka_unit_test_setup(test_what_is_known_without_a_rule_is_no_guess, setup),
#if defined(__x86_64__)
		cmocka_unit_test_setup(test_the_end_of_a_thread_is_no_guess, setup),
#endif
		cmocka_unit_test_setup(test_raw_frames_are_guessed_where_they_lie, setup),
		cmocka_unit_test_setup(test_kernel_threads_are_in_no_share_of_user_stacks, setup),
		cmocka_unit_test_setup(test_cut_and_lost_stacks_are_not_complete, setup),
		cmocka_unit_test_setup(test_stacks_of_other_pid_namespaces_say_so, setup),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
