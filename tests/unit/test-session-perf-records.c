/* SPDX-License-Identifier: Apache-2.0 */
/* test-session-perf-records - samples as records of perf.data: tasks, names, mappings. */
#include "session/ses_perf_priv.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

/* ---- a capture that is made up ---------------------------------------------------------------- */

/* Page i of image 1 is mapped at BASE + 2 i pages, and none of its pages lies next to another; so
 * is anonymous memory at ANON. */
#define PAGE   4096ULL
#define BASE   0x100000000ULL
#define ANON   0x200000000ULL
#define AT(i)  (BASE + 2 * (i)*PAGE)
#define MAPS   1000ULL
#define FRAMES 20U

static const struct trk_image image = {.id = 1, .path = "/lib/made-up.so"};
static bool replaced; /* anonymous memory lies where the image was */
static struct stream_sample samples[2000];
static size_t n_samples;
static struct ses ses;

int __wrap_trk_resolve_any(const struct trk *t, const struct ev_proc_id *id, uint64_t addr,
                           struct trk_location *ret);
int __wrap_trk_resolve_image(const struct trk *t, const struct ev_proc_id *id, uint32_t img,
                             uint64_t off, struct trk_location *ret);
const struct trk_image *__wrap_trk_image(const struct trk *t, uint32_t id);
enum ev_reason __wrap_trk_proc_reason(const struct trk *t, const struct ev_proc_id *id);
const char *__wrap_trk_comm(const struct trk *t, const struct ev_proc_id *id);
const struct stream_sample *__wrap_stream_samples(const struct stream *s, size_t *ret_n);

int __wrap_trk_resolve_any(const struct trk *t, const struct ev_proc_id *id, uint64_t addr,
                           struct trk_location *ret)
{
	const uint64_t i = addr % BASE / PAGE / 2;

	(void)t;
	(void)id;
	*ret = (struct trk_location){.map_start = addr / PAGE * PAGE,
	                             .map_end = addr / PAGE * PAGE + PAGE};
	if (addr < ANON && !replaced) {
		ret->image = &image;
		ret->map_pgoff = i * PAGE;
	}
	return 0;
}

int __wrap_trk_resolve_image(const struct trk *t, const struct ev_proc_id *id, uint32_t img,
                             uint64_t off, struct trk_location *ret)
{
	assert_int_equal(img, 1);
	if (off / PAGE >= MAPS)
		return -ENOENT;
	return __wrap_trk_resolve_any(t, id, AT(off / PAGE) + off % PAGE, ret);
}

const struct trk_image *__wrap_trk_image(const struct trk *t, uint32_t id)
{
	(void)t;
	assert_int_equal(id, 1);
	return &image;
}

enum ev_reason __wrap_trk_proc_reason(const struct trk *t, const struct ev_proc_id *id)
{
	(void)t;
	(void)id;
	return EV_REASON_NAMED;
}

const char *__wrap_trk_comm(const struct trk *t, const struct ev_proc_id *id)
{
	(void)t;
	(void)id;
	return "made-up";
}

const struct stream_sample *__wrap_stream_samples(const struct stream *s, size_t *ret_n)
{
	(void)s;
	*ret_n = n_samples;
	return samples;
}

static int setup(void **state)
{
	(void)state;
	replaced = false;
	n_samples = 0;
	return prof_agg_new(NULL, &ses.walk.agg);
}

static int teardown(void **state)
{
	(void)state;
	ses.walk.agg = prof_agg_free(ses.walk.agg);
	return 0;
}

static struct ev_frame raw(uint64_t addr)
{
	return (struct ev_frame){.addr = addr, .space = EV_SPACE_RAW, .exact = 1};
}

static struct ev_frame in_image(uint64_t off)
{
	return (struct ev_frame){.addr = off, .image = 1, .space = EV_SPACE_IMAGE, .exact = 1};
}

/* Adds a sample of pid 77 with this stack. */
static void sample(bool foreign, uint64_t hash, const struct ev_frame *frames, uint32_t n)
{
	const struct ev_stack st = {.hash = hash, .n = n, .frames = frames};
	const struct ev_count c = {.proc = {.pid = 77, .start_ns = foreign ? 9 : 5},
	                           .tid = 78,
	                           .foreign_ns = foreign,
	                           .ustack = hash,
	                           .samples = 1,
	                           .weight = 10};

	assert_int_equal(prof_agg_add_stack(ses.walk.agg, &st, NULL), 0);
	assert_int_equal(prof_agg_add_count_id(ses.walk.agg, &c, &samples[n_samples].count), 0);
	samples[n_samples].time_ns = n_samples + 1;
	samples[n_samples++].weight = 10;
}

static struct ses_perf_records *begin(void)
{
	const uint32_t event[2] = {0, UINT32_MAX};
	struct ses_perf_records *p = NULL;

	assert_int_equal(ses_perf_records_new(&ses, event, &p), 0);
	return p;
}

static struct enc_perf_record next(struct ses_perf_records *p, enum enc_perf_type type)
{
	struct enc_perf_record rec = {0};

	assert_int_equal(ses_perf_records_next(p, &rec), 1);
	assert_int_equal(rec.type, type);
	return rec;
}

static void end(struct ses_perf_records *p)
{
	struct enc_perf_record rec;

	assert_int_equal(ses_perf_records_next(p, &rec), 0);
	assert_null(ses_perf_records_free(p));
}

/* ---- tasks ------------------------------------------------------------------------------------ */

static void test_a_task_outside_of_the_namespace_has_no_number(void **state)
{
	const struct ev_frame frame = raw(AT(1) + 8);
	struct ses_perf_records *p;
	struct enc_perf_record rec;

	(void)state;
	sample(false, 1, &frame, 1);
	sample(true, 1, &frame, 1);
	sample(false, 1, &frame, 1);
	p = begin();
	rec = next(p, ENC_PERF_COMM);
	assert_int_equal(rec.pid, 77);
	assert_string_equal(rec.comm.name, "made-up");
	assert_int_equal(next(p, ENC_PERF_MMAP).pid, 77);
	rec = next(p, ENC_PERF_SAMPLE);
	assert_int_equal(rec.pid, 77);
	assert_int_equal(rec.tid, 78);
	rec = next(p, ENC_PERF_SAMPLE); /* without a name and a mapping */
	assert_int_equal(rec.pid, UINT32_MAX);
	assert_int_equal(rec.tid, UINT32_MAX);
	assert_int_equal(rec.sample.n_user, 1);
	rec = next(p, ENC_PERF_SAMPLE); /* ours is as it was */
	assert_int_equal(rec.pid, 77);
	end(p);
}

/* ---- mappings --------------------------------------------------------------------------------- */

static void test_a_mapping_is_written_once_however_many(void **state)
{
	const size_t n = ARRAY_SIZE(samples);
	struct ses_perf_records *p;
	struct enc_perf_record rec;
	size_t maps = 0, at = 0;

	(void)state;
	for (uint64_t i = 0; i < n; i++) {
		struct ev_frame f[FRAMES];

		for (uint64_t k = 0; k < FRAMES; k++) {
			const uint64_t page = (i * 31 + k * 377) % MAPS;

			f[k] = k % 2 ? in_image(page * PAGE + k) : raw(ANON + AT(page) - BASE + k);
		}
		sample(false, i + 1, f, FRAMES);
	}
	p = begin();
	(void)next(p, ENC_PERF_COMM);
	while (ses_perf_records_next(p, &rec) == 1) {
		maps += rec.type == ENC_PERF_MMAP;
		if (rec.type != ENC_PERF_SAMPLE)
			continue;
		assert_int_equal(rec.sample.n_user, FRAMES);
		for (uint64_t k = 0; k < FRAMES; k++) {
			const uint64_t page = (at * 31 + k * 377) % MAPS;

			assert_int_equal(rec.sample.user[k],
			                 (k % 2 ? AT(page) : ANON + AT(page) - BASE) + k);
		}
		at++;
	}
	assert_int_equal(at, n);
	assert_int_equal(maps, 2 * MAPS);
	end(p);
}

static void test_a_mapping_is_written_again_after_another_in_its_place(void **state)
{
	const struct ev_frame by_addr = raw(AT(3) + 8), by_file = in_image(3 * PAGE + 8),
	                      nowhere = in_image(MAPS * PAGE);
	struct ses_perf_records *p;

	(void)state;
	sample(false, 1, &by_file, 1);
	sample(false, 2, &by_addr, 1);
	sample(false, 1, &by_file, 1);
	sample(false, 3, &nowhere, 1);
	p = begin();
	(void)next(p, ENC_PERF_COMM);
	assert_string_equal(next(p, ENC_PERF_MMAP).map.path, image.path);
	assert_int_equal(next(p, ENC_PERF_SAMPLE).sample.user[0], AT(3) + 8);
	replaced = true;
	assert_string_equal(next(p, ENC_PERF_MMAP).map.path, "//anon");
	assert_int_equal(next(p, ENC_PERF_SAMPLE).sample.user[0], AT(3) + 8);
	assert_string_equal(next(p, ENC_PERF_MMAP).map.path, image.path);
	assert_int_equal(next(p, ENC_PERF_SAMPLE).sample.user[0], AT(3) + 8);
	assert_int_equal(next(p, ENC_PERF_SAMPLE).sample.user[0], MAPS * PAGE);
	end(p);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	        cmocka_unit_test_setup_teardown(test_a_task_outside_of_the_namespace_has_no_number,
	                                        setup, teardown),
	        cmocka_unit_test_setup_teardown(test_a_mapping_is_written_once_however_many, setup,
	                                        teardown),
	        cmocka_unit_test_setup_teardown(
	                test_a_mapping_is_written_again_after_another_in_its_place, setup,
	                teardown),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
