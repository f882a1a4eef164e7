/* SPDX-License-Identifier: Apache-2.0 */
/* test-symbolizer - requests, batches in a pool, answers; kernel addresses; the end in time. */
#include "symbolizer/symbolizer_priv.h"

#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>

#include <cmocka.h>

static struct tally tally;
static bool no_memory;
static size_t no_memory_for; /* 0, or reallocations of this size fail */
static int file_fd;          /* of every image; -EBADF: none can be read */
static uint32_t child_pid, opened;

/* ---- what is made up ------------------------------------------------------------------------- */

int __wrap_ksyms_load_cached(const struct ksyms_options *o, struct ksyms **ret,
                             enum ksyms_cache *ret_cache, struct err *err);
void *__real_realloc(void *p, size_t size);
void *__wrap_realloc(void *p, size_t size);

/* /proc/kallsyms is hidden. */
int __wrap_ksyms_load_cached(const struct ksyms_options *o, struct ksyms **ret,
                             enum ksyms_cache *ret_cache, struct err *err)
{
	(void)o;
	(void)ret;
	(void)err;
	*ret_cache = KSYMS_CACHE_OFF;
	return -EPERM;
}

void *__wrap_realloc(void *p, size_t size)
{
	return no_memory || (no_memory_for && size == no_memory_for) ? NULL
	                                                             : __real_realloc(p, size);
}

static void open_image(void *arg, uint32_t image, struct trk_open *ret)
{
	(void)arg;
	(void)image;
	opened++;
	*ret = (struct trk_open){.fd = file_fd,
	                         .root_fd = -EBADF,
	                         .path = "",
	                         .reason = file_fd < 0 ? EV_REASON_NO_FILE : EV_REASON_NAMED};
}

static void on_process(void *arg, uint32_t pid)
{
	(void)arg;
	child_pid = pid;
}

static int setup(void **state)
{
	(void)state;
	tally_reset(&tally);
	no_memory = false;
	no_memory_for = 0;
	file_fd = -EBADF;
	child_pid = opened = 0;
	return 0;
}

struct fixture {
	struct symbolizer *s;
	struct pool *pool;
};

/* @threads: 0: jobs are run by the test. */
static struct fixture begin(uint32_t threads, size_t max_jobs, bool in_process)
{
	const struct symbolizer_options o = {.tally = &tally,
	                                     .open = open_image,
	                                     .process = on_process,
	                                     .max_jobs = max_jobs,
	                                     .in_process = in_process};
	const struct pool_options po = {.name = "b", .n_threads = threads, .max_jobs = 64};
	struct fixture f = {0};

	assert_int_equal(symbolizer_new(&o, &f.s, NULL), 0);
	assert_int_equal(pool_new(&po, &f.pool), 0);
	symbolizer_use(f.s, f.pool);
	return f;
}

static void end(struct fixture *f)
{
	pool_free(f->pool);
	assert_null(symbolizer_free(f->s));
}

static size_t run_jobs(struct fixture *f)
{
	struct pool_job job;
	size_t n = 0;

	for (; pool_pop(f->pool, &job, 0) == 0; n++)
		job.run(job.owner, job.item);
	return n;
}

static uint64_t in_a_minute(void)
{
	return now_ns() + 60 * NSEC_PER_SEC;
}

/* ---- requests -------------------------------------------------------------------------------- */

static void test_an_address_is_requested_once(void **state)
{
	struct fixture f = begin(0, 4, true);

	(void)state;
	for (int i = 0; i < 3; i++) {
		symbolizer_request(f.s, 1, 10);
		symbolizer_request(f.s, 2, 10);
		symbolizer_request(f.s, 1, 20);
	}
	assert_int_equal(symbolizer_requested(f.s), 3);
	assert_true(symbolizer_send(f.s, UINT64_MAX, true));
	assert_int_equal(opened, 2);
	assert_int_equal(tally_get(&tally, TALLY_SYMBOL_JOBS), 2);
	run_jobs(&f);
	assert_int_equal(tally_get(&tally, TALLY_SYMBOL_ADDRS), 3);
	symbolizer_request(f.s, 1, 10); /* nor once it was answered */
	assert_true(symbolizer_send(f.s, UINT64_MAX, true));
	assert_int_equal(tally_get(&tally, TALLY_SYMBOL_JOBS), 2);
	end(&f);
}

static void test_batches_of_an_image_double_in_time(void **state)
{
	struct fixture f = begin(0, 4, true);
	const uint64_t begin_ns = now_ns();

	(void)state;
	symbolizer_request(f.s, 1, 10);
	assert_true(symbolizer_send(f.s, begin_ns, false));
	assert_int_equal(tally_get(&tally, TALLY_SYMBOL_JOBS), 0);
	assert_true(symbolizer_send(f.s, now_ns() + 200 * NSEC_PER_MSEC, false));
	assert_int_equal(tally_get(&tally, TALLY_SYMBOL_JOBS), 1);
	symbolizer_request(f.s, 1, 20);
	assert_true(symbolizer_send(f.s, begin_ns + 399 * NSEC_PER_MSEC, false));
	assert_int_equal(tally_get(&tally, TALLY_SYMBOL_JOBS), 1);
	assert_true(symbolizer_send(f.s, now_ns() + 400 * NSEC_PER_MSEC, false));
	assert_int_equal(tally_get(&tally, TALLY_SYMBOL_JOBS), 2);
	end(&f);
}

static void test_batches_wait_for_room(void **state)
{
	struct fixture f = begin(0, 2, true);

	(void)state;
	for (uint32_t i = 1; i <= 5; i++)
		symbolizer_request(f.s, i, 100 * i);
	assert_false(symbolizer_send(f.s, UINT64_MAX, true));
	assert_int_equal(tally_get(&tally, TALLY_SYMBOL_JOBS), 2);
	assert_int_equal(run_jobs(&f), 1); /* both in one turn */
	assert_false(symbolizer_send(f.s, UINT64_MAX, true));
	run_jobs(&f);
	assert_true(symbolizer_send(f.s, UINT64_MAX, true));
	run_jobs(&f);
	assert_int_equal(tally_get(&tally, TALLY_SYMBOL_JOBS), 5);
	assert_int_equal(symbolizer_finish(f.s, in_a_minute(), 0), 0);
	for (uint32_t i = 1; i <= 5; i++) {
		struct sym_named n = symbolizer_find(f.s, i, 100 * i);

		assert_int_equal(n.reason, EV_REASON_NO_FILE);
		assert_int_equal(n.start, 100 * i);
	}
	end(&f);
}

static void test_other_jobs_of_the_pool_run_between_turns(void **state)
{
	struct fixture f = begin(0, 256, true);
	struct pool_job job;

	(void)state;
	for (uint32_t i = 1; i <= 100; i++)
		symbolizer_request(f.s, i, i);
	assert_true(symbolizer_send(f.s, UINT64_MAX, true));
	assert_int_equal(pool_push(f.pool, &(struct pool_job){0}), 0);
	assert_int_equal(pool_pop(f.pool, &job, 0), 0);
	assert_non_null(job.run);
	job.run(job.owner, job.item);
	assert_true(tally_get(&tally, TALLY_SYMBOL_ADDRS) < 100);
	assert_int_equal(pool_pop(f.pool, &job, 0), 0);
	assert_null(job.run); /* the other one */
	run_jobs(&f);
	assert_int_equal(tally_get(&tally, TALLY_SYMBOL_ADDRS), 100);
	end(&f);
}

/* ---- answers --------------------------------------------------------------------------------- */

static void test_no_answer_is_lost_however_many(void **state)
{
	struct fixture f = begin(2, 16, true);
	const uint32_t n = 5000;

	(void)state;
	for (uint32_t i = 1; i <= n; i++) {
		symbolizer_request(f.s, i, 7ULL * i);
		if (i % 100 == 0)
			(void)symbolizer_send(f.s, UINT64_MAX, true); /* the rest by finish */
	}
	assert_int_equal(symbolizer_finish(f.s, in_a_minute(), 0), 0);
	for (uint32_t i = 1; i <= n; i++)
		assert_int_equal(symbolizer_find(f.s, i, 7ULL * i).reason, EV_REASON_NO_FILE);
	assert_int_equal(symbolizer_find(f.s, 1, 8).reason, EV_REASON_NO_MEMORY);
	assert_int_equal(tally_get(&tally, TALLY_NAMES_LOST), 0);
	assert_int_equal(tally_get(&tally, TALLY_SYMBOL_ADDRS), n);
	end(&f);
}

static void test_answers_are_collected_again_after_a_want_of_memory(void **state)
{
	struct fixture f = begin(0, 4, true);
	uint64_t waiting;

	(void)state;
	symbolizer_request(f.s, 1, 10);
	assert_true(symbolizer_send(f.s, UINT64_MAX, true));
	run_jobs(&f);
	no_memory_for = 8 * sizeof(*f.s->names.p); /* the first room for names */
	assert_int_equal(symbolizer_collect(f.s, &waiting), -ENOMEM);
	no_memory_for = 0;
	assert_int_equal(symbolizer_collect(f.s, &waiting), 0);
	assert_int_equal(f.s->names.n, 1);
	assert_int_equal(symbolizer_find(f.s, 1, 10).reason, EV_REASON_NO_FILE);
	end(&f);
}

static void test_answers_lost_for_want_of_memory_are_counted(void **state)
{
	struct fixture f = begin(0, 4, true);
	struct symbolizer_result res = {.image = 1, .addrs = malloc(sizeof(uint64_t))};

	(void)state;
	assert_int_equal(sym_none_resolve(EV_REASON_NO_SYMBOL, NULL, 7, &res.batch), 0);
	no_memory = true;
	symbolizer_add_result(f.s, &res);
	no_memory = false;
	assert_int_equal(tally_get(&tally, TALLY_NAMES_LOST), 7);
	assert_int_equal(f.s->results.n, 0);
	end(&f);
}

/* The symbolizer process sleeps, and is still at its first batch when the time is over. */
static void test_naming_ends_in_time(void **state)
{
	struct fixture f = begin(1, 0, false);
	const uint32_t n = 60;

	(void)state;
	file_fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
	assert_true(file_fd >= 0);
	assert_int_not_equal(symbolizer_process(f.s), 0);
	assert_int_equal(child_pid, symbolizer_process(f.s));
	assert_int_equal(kill((pid_t)symbolizer_process(f.s), SIGSTOP), 0);
	for (uint32_t i = 1; i <= n; i++)
		symbolizer_request(f.s, i, 16);
	assert_int_equal(symbolizer_finish(f.s, now_ns() + NSEC_PER_MSEC, 1), 0);
	assert_int_equal(tally_get(&tally, TALLY_NAMES_LATE), n);
	assert_int_equal(tally_get(&tally, TALLY_NAMES_GIVEN_UP), 0);
	assert_int_equal(tally_get(&tally, TALLY_SYMBOLIZER_CRASHES), 0);
	for (uint32_t i = 1; i <= n; i++)
		assert_int_equal(symbolizer_find(f.s, i, 16).reason, EV_REASON_LATE);
	assert_string_equal(
	        tally.notes[0],
	        "60 addresses have no name: symbolization ended 0.001 s after sampling");
	end(&f);
	(void)close(file_fd);
}

static void test_late_batches_are_counted(void **state)
{
	struct fixture f = begin(1, 0, true);

	(void)state;
	symbolizer_request(f.s, 1, 1);
	symbolizer_late(f.s);
	assert_int_equal(symbolizer_finish(f.s, in_a_minute(), 0), 0);
	assert_int_equal(tally_get(&tally, TALLY_SYMBOL_JOBS_LATE), 1);
	assert_int_equal(tally_get(&tally, TALLY_SYMBOL_ADDRS_LATE), 1);
	end(&f);
}

static void test_what_was_never_finished_is_released(void **state)
{
	struct fixture f = begin(0, 4, true);

	(void)state;
	for (uint32_t i = 0; i <= 9; i++)
		symbolizer_request(f.s, i, i);
	assert_false(symbolizer_send(f.s, UINT64_MAX, true));
	symbolizer_cancel(f.s);
	end(&f); /* the sanitizer reports what is left */
}

/* ---- the kernel ------------------------------------------------------------------------------ */

/* An address that was asked for before its record came is looked up once more at the end. */
static void test_kernel_code_recorded_later_has_its_name(void **state)
{
	static const uint64_t addrs[] = {0xffffffffc0100010, 0xffffffffc0200000};
	struct ev_proc ev = {.type = EV_PROC_KSYMBOL,
	                     .time_ns = 5,
	                     .ksym = {.start = 0xffffffffc0100000,
	                              .len = 64,
	                              .bpf = true,
	                              .gone = true,
	                              .name = "bpf_prog_12_x"}};
	struct fixture f = begin(0, 4, true);
	struct sym_named n;

	(void)state;
	assert_int_equal(symbolizer_kernel_error(f.s), 0); /* not asked for yet */
	symbolizer_request(f.s, SYMBOLIZER_KERNEL, addrs[0]);
	symbolizer_request(f.s, SYMBOLIZER_KERNEL, addrs[1]);
	assert_true(symbolizer_send(f.s, UINT64_MAX, true));
	run_jobs(&f);
	assert_int_equal(symbolizer_kernel_error(f.s), -EPERM);
	assert_int_equal(opened, 0);
	symbolizer_kernel_record(f.s, &ev);
	ev.ksym.len = 0; /* no code: counted */
	symbolizer_kernel_record(f.s, &ev);
	assert_int_equal(symbolizer_finish(f.s, in_a_minute(), 0), 0);
	n = symbolizer_find(f.s, SYMBOLIZER_KERNEL, addrs[0]);
	assert_int_equal(n.reason, EV_REASON_NAMED);
	assert_string_equal(n.frames[0].name, "bpf_prog_12_x [bpf]");
	assert_int_equal(n.start, 0xffffffffc0100000);
	n = symbolizer_find(f.s, SYMBOLIZER_KERNEL, addrs[1]);
	assert_int_equal(n.reason, EV_REASON_KALLSYMS_HIDDEN);
	assert_int_equal(n.n, 0);
	assert_int_equal(n.start, addrs[1]);
	assert_int_equal(tally_get(&tally, TALLY_KSYMBOLS), 2);
	assert_int_equal(tally_get(&tally, TALLY_KSYMBOLS_DROPPED), 1);
	end(&f);
}

/* ---- options --------------------------------------------------------------------------------- */

static void test_debug_directories_must_be_directories(void **state)
{
	static const char *const missing[] = {"/no/such/folder", NULL};
	static const char *const file[] = {"/proc/self/exe", NULL};
	struct symbolizer_options o = {.tally = &tally, .debug_dirs = missing, .in_process = true};
	struct symbolizer *s = NULL;
	struct err err = {0};

	(void)state;
	assert_int_equal(symbolizer_new(&o, &s, &err), -ENOENT);
	assert_non_null(strstr(err.msg, "/no/such/folder"));
	o.debug_dirs = file;
	assert_int_equal(symbolizer_new(&o, &s, &err), -ENOTDIR);
	assert_null(s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	        cmocka_unit_test_setup(test_an_address_is_requested_once, setup),
	        cmocka_unit_test_setup(test_batches_of_an_image_double_in_time, setup),
	        cmocka_unit_test_setup(test_batches_wait_for_room, setup),
	        cmocka_unit_test_setup(test_other_jobs_of_the_pool_run_between_turns, setup),
	        cmocka_unit_test_setup(test_no_answer_is_lost_however_many, setup),
	        cmocka_unit_test_setup(test_answers_are_collected_again_after_a_want_of_memory,
	                               setup),
	        cmocka_unit_test_setup(test_answers_lost_for_want_of_memory_are_counted, setup),
	        cmocka_unit_test_setup(test_naming_ends_in_time, setup),
	        cmocka_unit_test_setup(test_late_batches_are_counted, setup),
	        cmocka_unit_test_setup(test_what_was_never_finished_is_released, setup),
	        cmocka_unit_test_setup(test_kernel_code_recorded_later_has_its_name, setup),
	        cmocka_unit_test_setup(test_debug_directories_must_be_directories, setup),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
