/* SPDX-License-Identifier: Apache-2.0 */
/* Clocks and the queue between threads. */
#include "base_allocator.h"

/* ---- time ----------------------------------------------------------------------------------- */

static void test_clocks_are_the_named_ones(void **state)
{
	static const struct {
		uint64_t (*now)(void);
		clockid_t id;
	} cases[] = {
	        {now_ns, CLOCK_MONOTONIC},
	        {now_realtime_ns, CLOCK_REALTIME},
	        {now_boottime_ns, CLOCK_BOOTTIME},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct timespec ts;
		uint64_t want, got = cases[i].now();

		assert_int_equal(clock_gettime(cases[i].id, &ts), 0);
		want = (uint64_t)ts.tv_sec * NSEC_PER_SEC + (uint64_t)ts.tv_nsec;
		assert_true(want >= got);
		assert_true(want - got < 60 * NSEC_PER_SEC); /* far less than the clocks differ */
	}
}

/* ---- queue ---------------------------------------------------------------------------------- */

static void test_queue_is_first_in_first_out(void **state)
{
	_cleanup_(queue_freep) struct queue *q = NULL;
	uint32_t pushed = 0, popped = 0, val;

	(void)state;
	assert_int_equal(queue_new(sizeof(val), 5, &q), 0);
	/* Rounds of 3 on 5 places: the ring's end falls everywhere. */
	for (int round = 0; round < 20; round++) {
		for (int i = 0; i < 3; i++, pushed++)
			assert_int_equal(queue_push(q, &pushed), 0);
		assert_int_equal(queue_len(q), 3);
		for (int i = 0; i < 3; i++, popped++) {
			assert_int_equal(queue_pop(q, &val, 0), 0);
			assert_int_equal(val, popped);
		}
	}
	assert_int_equal(queue_drops(q), 0);
}

static void test_queue_full_drops_and_counts(void **state)
{
	_cleanup_(queue_freep) struct queue *q = NULL;
	uint64_t val;

	(void)state;
	assert_int_equal(queue_new(sizeof(val), 3, &q), 0);
	for (val = 0; val < 10; val++)
		assert_int_equal(queue_push(q, &val), val < 3 ? 0 : -EAGAIN);
	assert_int_equal(queue_drops(q), 7);
	assert_int_equal(queue_len(q), 3);
	assert_int_equal(queue_pop(q, &val, 0), 0);
	assert_int_equal(val, 0);
	val = 33;
	assert_int_equal(queue_push(q, &val), 0);
	assert_int_equal(queue_push(q, &val), -EAGAIN);
	assert_int_equal(queue_drops(q), 8);
}

static void test_queue_close_lets_the_rest_out(void **state)
{
	_cleanup_(queue_freep) struct queue *q = NULL;
	uint8_t val = 1;

	(void)state;
	assert_int_equal(queue_new(sizeof(val), 1, &q), 0);
	assert_int_equal(queue_push(q, &val), 0);
	queue_close(q);
	queue_close(q);
	assert_int_equal(queue_push(q, &val), -EPIPE); /* also when full: no drop */
	assert_int_equal(queue_drops(q), 0);
	val = 9;
	assert_int_equal(queue_pop(q, &val, UINT64_MAX), 0);
	assert_int_equal(val, 1);
	val = 9;
	assert_int_equal(queue_pop(q, &val, UINT64_MAX), -EPIPE);
	assert_int_equal(queue_pop(q, &val, 0), -EPIPE);
	assert_int_equal(val, 9);
}

static void test_queue_pop_times_out(void **state)
{
	static const uint64_t waits_ns[] = {0, 1, 5 * NSEC_PER_MSEC, 30 * NSEC_PER_MSEC};
	_cleanup_(queue_freep) struct queue *q = NULL;
	uint32_t val = 5;

	(void)state;
	assert_int_equal(queue_new(sizeof(val), 1, &q), 0);
	for (size_t i = 0; i < ARRAY_SIZE(waits_ns); i++) {
		uint64_t start = now_ns();

		assert_int_equal(queue_pop(q, &val, waits_ns[i]), -ETIMEDOUT);
		assert_true(now_ns() - start >= waits_ns[i]);
		assert_true(now_ns() - start < 30 * NSEC_PER_SEC);
		assert_int_equal(val, 5);
	}
}

static void test_queue_new_fails_clean(void **state)
{
	struct queue *q = NULL;

	(void)state;
	assert_int_equal(queue_new(0, 1, &q), -EINVAL);
	assert_int_equal(queue_new(1, 0, &q), -EINVAL);
	assert_int_equal(queue_new(SIZE_MAX / 2, 3, &q), -ENOMEM);
	for (int at = 1; at <= 2; at++) {
		fail_alloc_at = at;
		assert_int_equal(queue_new(8, 8, &q), -ENOMEM);
		assert_int_equal(fail_alloc_at, 0);
		fail_init_at = at;
		assert_int_equal(queue_new(8, 8, &q), -EAGAIN);
		fail_init_at = 0;
	}
	assert_null(q);
	assert_null(queue_free(NULL));
}

#define PER_PRODUCER 50000

struct work {
	struct queue *q;
	uint64_t id; /* of the producer */
	uint64_t sent, sum, refused, r_end;
	uint64_t timeout_ns;
	uint64_t last[2]; /* consumer: last number seen of each producer */
	bool disorder;
};

static void *produce(void *arg)
{
	struct work *w = arg;

	for (uint64_t i = 1; i <= PER_PRODUCER; i++) {
		uint64_t val = w->id << 32 | i;

		if (queue_push(w->q, &val) == 0) {
			w->sent++;
			w->sum += val;
		} else {
			w->refused++;
		}
	}
	return NULL;
}

static void *consume(void *arg)
{
	struct work *w = arg;
	uint64_t val;
	int r;

	while ((r = queue_pop(w->q, &val, w->timeout_ns)) == 0 || r == -ETIMEDOUT) {
		uint64_t num = val & UINT32_MAX, id = val >> 32;

		if (r == -ETIMEDOUT)
			continue;
		if (id > 1 || num <= w->last[id])
			w->disorder = true;
		else
			w->last[id] = num;
		w->sent++;
		w->sum += val;
	}
	w->r_end = (uint64_t)-r;
	return NULL;
}

static void test_queue_conserves_items_between_threads(void **state)
{
	static const struct {
		size_t places;
		uint64_t timeout_ns;
	} cases[] = {{7, UINT64_MAX}, {1, 50000}, {2 * PER_PRODUCER, UINT64_MAX - 1}};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		_cleanup_(queue_freep) struct queue *q = NULL;
		struct work prod[2], cons[2];
		pthread_t thr[4];

		assert_int_equal(queue_new(sizeof(uint64_t), cases[i].places, &q), 0);
		for (uint64_t k = 0; k < 2; k++) {
			prod[k] = (struct work){.q = q, .id = k};
			cons[k] = (struct work){.q = q, .timeout_ns = cases[i].timeout_ns};
			assert_int_equal(pthread_create(&thr[2 + k], NULL, consume, &cons[k]), 0);
			assert_int_equal(pthread_create(&thr[k], NULL, produce, &prod[k]), 0);
		}
		for (int k = 0; k < 2; k++)
			assert_int_equal(pthread_join(thr[k], NULL), 0);
		queue_close(q);
		for (int k = 2; k < 4; k++)
			assert_int_equal(pthread_join(thr[k], NULL), 0);

		assert_int_equal(prod[0].sent + prod[0].refused, PER_PRODUCER);
		assert_int_equal(prod[1].sent + prod[1].refused, PER_PRODUCER);
		assert_int_equal(prod[0].sent + prod[1].sent, cons[0].sent + cons[1].sent);
		assert_int_equal(prod[0].sum + prod[1].sum, cons[0].sum + cons[1].sum);
		assert_int_equal(prod[0].refused + prod[1].refused, queue_drops(q));
		assert_false(cons[0].disorder);
		assert_false(cons[1].disorder);
		assert_int_equal(cons[0].r_end, EPIPE);
		assert_int_equal(cons[1].r_end, EPIPE);
		assert_int_equal(queue_len(q), 0);
		if (cases[i].places == 2 * PER_PRODUCER)
			assert_int_equal(queue_drops(q), 0);
	}
}

/* Consumers that wait for ever are woken by an item and by the close. */
static void test_queue_wakes_waiters(void **state)
{
	_cleanup_(queue_freep) struct queue *q = NULL;
	struct work cons[2];
	pthread_t thr[2];

	(void)state;
	assert_int_equal(queue_new(sizeof(uint64_t), 8, &q), 0);
	for (int k = 0; k < 2; k++) {
		cons[k] = (struct work){.q = q, .timeout_ns = UINT64_MAX};
		assert_int_equal(pthread_create(&thr[k], NULL, consume, &cons[k]), 0);
	}
	for (uint64_t i = 1; i <= 100; i++) {
		assert_int_equal(queue_push(q, &i), 0);
		while (queue_len(q) > 0)
			sched_yield();
	}
	queue_close(q);
	for (int k = 0; k < 2; k++)
		assert_int_equal(pthread_join(thr[k], NULL), 0);
	assert_int_equal(cons[0].sent + cons[1].sent, 100);
	assert_int_equal(cons[0].sum + cons[1].sum, 5050);
	assert_int_equal(queue_drops(q), 0);
}

int main(void)
{
#define T(fn) cmocka_unit_test_teardown(fn, no_failures)
	const struct CMUnitTest tests[] = {
	        T(test_clocks_are_the_named_ones),
	        T(test_queue_is_first_in_first_out),
	        T(test_queue_full_drops_and_counts),
	        T(test_queue_close_lets_the_rest_out),
	        T(test_queue_pop_times_out),
	        T(test_queue_new_fails_clean),
	        T(test_queue_conserves_items_between_threads),
	        T(test_queue_wakes_waiters),
	};
#undef T

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests_name("base-queue", tests, NULL, NULL);
}
