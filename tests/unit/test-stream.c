// SPDX-License-Identifier: Apache-2.0
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "stream/stream.h"

static struct stream *fresh(size_t max_samples, size_t max_events)
{
	const struct stream_limits lim = {.max_samples = max_samples, .max_events = max_events};
	struct stream *s;

	assert_int_equal(stream_new(&lim, &s), 0);
	return s;
}

static void add(struct stream *s, uint32_t count, uint64_t time_ns, uint64_t weight)
{
	const struct ev_count c = {.samples = 1, .time_ns = time_ns, .weight = weight, .cpu = 1};

	stream_add(s, count, &c);
}

static void test_samples_are_sorted_by_time(void **state)
{
	static const uint64_t times[] = {30, 10, 20, 10};
	struct stream *s = fresh(0, 0);
	const struct stream_sample *v;
	size_t n;

	(void)state;
	for (uint32_t i = 0; i < ARRAY_SIZE(times); i++)
		add(s, 3 - i, times[i], i);
	add(s, 9, 0, 7); /* a sum of several: no time */
	stream_sort(s);
	v = stream_samples(s, &n);
	assert_int_equal(n, 4);
	assert_int_equal(v[0].time_ns, 10);
	assert_int_equal(v[0].count, 0); /* equal times: by count */
	assert_int_equal(v[1].time_ns, 10);
	assert_int_equal(v[1].count, 2);
	assert_int_equal(v[2].time_ns, 20);
	assert_int_equal(v[3].time_ns, 30);
	assert_int_equal(v[3].cpu, 1);
	stream_free(s);
}

static void test_a_full_stream_counts_what_it_drops(void **state)
{
	const struct ev_proc fork = {.type = EV_PROC_FORK, .pid = 1, .time_ns = 5};
	struct stream *s = fresh(3, 2);
	size_t n;

	(void)state;
	for (uint32_t i = 0; i < 10; i++) {
		add(s, i, i + 1, 1);
		stream_add_event(s, &fork);
	}
	(void)stream_samples(s, &n);
	assert_int_equal(n, 3);
	(void)stream_events(s, &n);
	assert_int_equal(n, 2);
	assert_int_equal(stream_stats(s)->samples_dropped, 7);
	assert_int_equal(stream_stats(s)->events_dropped, 8);
	stream_free(s);
}

static void test_events_keep_what_they_say(void **state)
{
	struct ev_proc comm = {
	        .type = EV_PROC_COMM, .pid = 7, .tid = 8, .time_ns = 20, .exec = true, .comm = "x"};
	const struct ev_proc lost = {.type = EV_PROC_LOST, .lost = 4, .time_ns = 10};
	const struct ev_proc map = {.type = EV_PROC_MMAP, .time_ns = 1, .map = {.path = ""}};
	const struct ev_proc ksym = {.type = EV_PROC_KSYMBOL,
	                             .time_ns = 20,
	                             .ksym = {.start = 99, .len = 3, .bpf = true, .name = "bpf_x"}};
	struct stream *s = fresh(0, 0);
	const struct stream_event *v;
	size_t n;

	(void)state;
	stream_add_event(s, &comm);
	stream_add_event(s, &map);
	stream_add_event(s, &ksym);
	stream_add_event(s, &lost);
	comm.comm[0] = 'y'; /* it was copied */
	stream_sort(s);
	v = stream_events(s, &n);
	assert_int_equal(n, 3);
	assert_int_equal(v[0].type, EV_PROC_LOST);
	assert_int_equal(v[0].lost, 4);
	assert_int_equal(v[1].type, EV_PROC_COMM); /* equal times keep their order */
	assert_string_equal(v[1].name, "x");
	assert_true(v[1].exec);
	assert_int_equal(v[1].tid, 8);
	assert_int_equal(v[2].start, 99);
	assert_int_equal(v[2].len, 3);
	assert_true(v[2].bpf && !v[2].gone);
	assert_string_equal(v[2].name, "bpf_x");
	stream_free(s);
}

static void test_scaled_weights_add_up_exactly(void **state)
{
	/* Count 0: complete; count 1: one of two samples is not in the stream; count 2: grows. */
	static const uint64_t total[] = {1000003, 100, UINT64_MAX / 2}, raw[] = {700, 20, 6};
	uint64_t sum[3] = {0};
	struct stream *s = fresh(0, 0);
	const struct stream_sample *v;
	size_t n;

	(void)state;
	for (uint32_t i = 0; i < 7; i++)
		add(s, 0, i + 1, 100);
	add(s, 1, 3, 10);
	add(s, 2, 4, 1);
	add(s, 2, 5, 2);
	add(s, 2, 6, 3);
	stream_sort(s);
	assert_int_equal(stream_scale(s, total, raw, 3), 0);
	v = stream_samples(s, &n);
	assert_int_equal(n, 11);
	for (size_t i = 0; i < n; i++) {
		sum[v[i].count] += v[i].weight;
		if (v[i].count == 0) /* shares differ by one at most */
			assert_in_range(v[i].weight, 142857, 142858);
	}
	assert_true(sum[0] == total[0]);
	assert_true(sum[1] == 50);
	assert_true(sum[2] == total[2]);
	stream_free(s);
}

static void test_taken_samples_get_their_new_index(void **state)
{
	static const uint32_t index[] = {5, UINT32_MAX, 4};
	struct stream *a = fresh(0, 0), *b = fresh(2, 0);
	const struct stream_sample *v;
	size_t n;

	(void)state;
	add(b, 0, 3, 1);
	add(b, 1, 1, 1);
	add(b, 2, 2, 1); /* it had no room there */
	stream_take(a, b, index);
	v = stream_samples(a, &n);
	assert_int_equal(n, 1);
	assert_int_equal(v[0].count, 5);
	assert_int_equal(stream_stats(a)->samples_dropped, 2);
	(void)stream_samples(b, &n);
	assert_int_equal(n, 0);
	add(b, 0, 3, 1);
	stream_take(a, b, NULL);
	assert_int_equal(stream_stats(a)->samples_dropped, 3);
	stream_free(a);
	stream_free(b);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	        cmocka_unit_test(test_samples_are_sorted_by_time),
	        cmocka_unit_test(test_a_full_stream_counts_what_it_drops),
	        cmocka_unit_test(test_events_keep_what_they_say),
	        cmocka_unit_test(test_scaled_weights_add_up_exactly),
	        cmocka_unit_test(test_taken_samples_get_their_new_index),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
