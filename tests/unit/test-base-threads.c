/* SPDX-License-Identifier: Apache-2.0 */
/* test-base-threads - threads that tell their CPU time, and pools of them. */
#include "base/base.h"

#include <setjmp.h>
#include <signal.h>

#include <cmocka.h>

#define MS NSEC_PER_MSEC

static void burn(uint64_t ns)
{
	uint64_t begin = thread_own_cpu_ns();

	while (thread_own_cpu_ns() - begin < ns)
		;
}

static void burn_20_ms(void *arg)
{
	burn(20 * MS);
	atomic_store((_Atomic bool *)arg, true);
}

static void test_cpu_time_of_a_joined_thread_is_its_whole(void **state)
{
	_Atomic bool ended = false;
	struct thread t = {0};

	(void)state;
	assert_int_equal(thread_cpu_ns(&t), 0);
	assert_int_equal(thread_start(&t, burn_20_ms, &ended, "burn"), 0);
	assert_int_equal(thread_start(&t, burn_20_ms, &ended, "burn"), -EBUSY);
	thread_join(&t);
	assert_true(ended);
	assert_true(thread_cpu_ns(&t) >= 20 * MS && thread_cpu_ns(&t) < 1000 * MS);
	thread_join(&t); /* nothing */
	thread_done(&t);
}

static void test_cpu_time_grows_while_it_runs(void **state)
{
	_Atomic bool ended = false;
	struct thread t = {0};
	uint64_t seen = 0;

	(void)state;
	assert_int_equal(thread_start(&t, burn_20_ms, &ended, "burn"), 0);
	while (!ended) {
		uint64_t now = thread_cpu_ns(&t);

		assert_true(now >= seen);
		seen = now;
	}
	assert_true(seen > 0);
	thread_join(&t);
	assert_true(thread_cpu_ns(&t) >= seen);
	thread_done(&t);
}

static void read_mask(void *arg)
{
	pthread_sigmask(SIG_SETMASK, NULL, arg);
}

static void test_signals_are_blocked_in_it_and_not_in_the_caller(void **state)
{
	struct thread t = {0};
	sigset_t of, mine;

	(void)state;
	assert_int_equal(thread_start(&t, read_mask, &of, "mask"), 0);
	thread_join(&t);
	thread_done(&t);
	pthread_sigmask(SIG_SETMASK, NULL, &mine);
	assert_true(sigismember(&of, SIGTERM) && sigismember(&of, SIGPROF));
	assert_false(sigismember(&mine, SIGTERM) || sigismember(&mine, SIGPROF));
}

/* ---- pools ----------------------------------------------------------------------------------- */

struct order {
	pthread_mutex_t lock;
	size_t seen[64], n;
	_Atomic uint32_t begun;
	_Atomic bool hold;
};

static void on_begin(void *arg, uint32_t i)
{
	struct order *o = arg;

	atomic_fetch_or(&o->begun, 1U << i);
}

static void run_one(void *owner, void *item)
{
	struct order *o = owner;

	while (atomic_load(&o->hold))
		;
	pthread_mutex_lock(&o->lock);
	o->seen[o->n++] = (size_t)(uintptr_t)item;
	pthread_mutex_unlock(&o->lock);
}

static void *number(size_t i)
{
	return (void *)(uintptr_t)i;
}

static void test_jobs_of_one_thread_run_in_order(void **state)
{
	struct order o = {.lock = PTHREAD_MUTEX_INITIALIZER};
	const struct pool_options po = {
	        .name = "one", .n_threads = 1, .max_jobs = 64, .begin = on_begin, .arg = &o};
	struct pool *p = NULL;

	(void)state;
	assert_int_equal(pool_new(&po, &p), 0);
	for (size_t i = 0; i < 64; i++)
		assert_int_equal(pool_push(p, &(struct pool_job){run_one, &o, number(i)}), 0);
	assert_null(pool_free(p)); /* all that were pushed run */
	assert_int_equal(o.n, 64);
	for (size_t i = 0; i < 64; i++)
		assert_int_equal(o.seen[i], i);
	assert_int_equal(o.begun, 1);
}

static void test_a_full_pool_refuses_and_a_closed_one_too(void **state)
{
	struct order o = {.lock = PTHREAD_MUTEX_INITIALIZER, .hold = true};
	const struct pool_options po = {
	        .name = "full", .n_threads = 2, .max_jobs = 3, .begin = on_begin, .arg = &o};
	struct pool *p = NULL;
	size_t pushed = 0;
	int r;

	(void)state;
	assert_int_equal(pool_new(&po, &p), 0);
	assert_int_equal(pool_size(p), 2);
	/* Two run, three wait; how fast the two are taken is not known. */
	for (int i = 0; i < 64 && pushed < 5; i++) {
		r = pool_push(p, &(struct pool_job){run_one, &o, number(pushed)});
		assert_true(r == 0 || r == -EAGAIN);
		pushed += r == 0;
		if (r < 0)
			burn(MS);
	}
	assert_int_equal(pushed, 5);
	assert_int_equal(pool_push(p, &(struct pool_job){run_one, &o, NULL}), -EAGAIN);
	pool_close(p);
	assert_int_equal(pool_push(p, &(struct pool_job){run_one, &o, NULL}), -EPIPE);
	atomic_store(&o.hold, false);
	assert_true(pool_cpu_ns(p) > 0);
	pool_free(p);
	assert_int_equal(o.n, 5);
	assert_int_equal(o.begun, 3);
}

static void test_jobs_of_a_pool_without_threads_are_run_by_the_caller(void **state)
{
	struct order o = {.lock = PTHREAD_MUTEX_INITIALIZER};
	const struct pool_options po = {.name = "none", .max_jobs = 2};
	struct pool_job job;
	struct pool *p = NULL;

	(void)state;
	assert_int_equal(pool_new(&po, &p), 0);
	assert_int_equal(pool_size(p), 1);
	for (size_t i = 0; i < 2; i++)
		assert_int_equal(pool_push(p, &(struct pool_job){run_one, &o, number(i)}), 0);
	assert_int_equal(o.n, 0);
	for (size_t i = 0; i < 2; i++) {
		assert_int_equal(pool_pop(p, &job, 0), 0);
		job.run(job.owner, job.item);
		assert_int_equal(o.seen[i], i);
	}
	assert_int_equal(pool_pop(p, &job, 0), -ETIMEDOUT);
	assert_int_equal(pool_cpu_ns(p), 0);
	assert_int_equal(pool_push(p, &(struct pool_job){run_one, &o, number(2)}), 0);
	pool_free(p); /* runs what is left */
	assert_int_equal(o.n, 3);
}

static void test_bad_pools_are_refused(void **state)
{
	struct pool *p = NULL;

	(void)state;
	assert_int_equal(pool_new(&(struct pool_options){.name = "x",
	                                                 .n_threads = POOL_THREADS_MAX + 1,
	                                                 .max_jobs = 1},
	                          &p),
	                 -EINVAL);
	assert_int_equal(pool_new(&(struct pool_options){.name = "x", .n_threads = 1}, &p),
	                 -EINVAL);
	assert_null(p);
	assert_null(pool_free(NULL));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	        cmocka_unit_test(test_cpu_time_of_a_joined_thread_is_its_whole),
	        cmocka_unit_test(test_cpu_time_grows_while_it_runs),
	        cmocka_unit_test(test_signals_are_blocked_in_it_and_not_in_the_caller),
	        cmocka_unit_test(test_jobs_of_one_thread_run_in_order),
	        cmocka_unit_test(test_a_full_pool_refuses_and_a_closed_one_too),
	        cmocka_unit_test(test_jobs_of_a_pool_without_threads_are_run_by_the_caller),
	        cmocka_unit_test(test_bad_pools_are_refused),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
