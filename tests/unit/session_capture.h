/* SPDX-License-Identifier: Apache-2.0 */
/*
 * session-capture - a capture that has ended, of a tracker that is made up
 */
#ifndef PA_TEST_SESSION_CAPTURE_H
#define PA_TEST_SESSION_CAPTURE_H

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
const char *__wrap_trk_comm(const struct trk *t, const struct ev_proc_id *id);
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

const char *__wrap_trk_comm(const struct trk *t, const struct ev_proc_id *id)
{
	(void)t;
	(void)id;
	return "";
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

static inline int setup(void **state)
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
static inline void open_any(void *arg, uint32_t image, struct trk_open *ret)
{
	(void)arg;
	(void)image;
	*ret = (struct trk_open){
	        .fd = -EBADF, .root_fd = -EBADF, .path = "", .mem = "", .mem_len = 1};
}

static inline struct ses *new_capture(void)
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

static inline int build(struct ses *s, struct err *err)
{
	return ses_profile_build(s, err);
}

static inline const char *statistic(const struct ses *s, const char *key)
{
	size_t len = strlen(key);

	for (size_t i = 0; i < s->product[0].quality.v.n; i++)
		if (strncmp(s->product[0].quality.v.p[i], key, len) == 0 &&
		    s->product[0].quality.v.p[i][len] == ':')
			return s->product[0].quality.v.p[i] + len + 2;
	return "none";
}

#endif
