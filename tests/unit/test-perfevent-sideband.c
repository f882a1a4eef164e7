/* SPDX-License-Identifier: Apache-2.0 */
#include "fake_perf.h"

#include <time.h>

static const uint32_t cpus[4] = {0, 1, 2, 3};
static const size_t page_bytes = 4096;

/* ---- the kernel's side of a ring ------------------------------------------------------------ */

/* Writes a record of @body_len bytes between header and trailer; false: the ring is full. */
static bool ring_put(uint32_t cpu, uint32_t type, const void *body, size_t body_len,
                     uint64_t time_ns)
{
	struct perf_event_header h = {.type = type};
	struct pev_trailer t = {.pid = 1, .tid = 1, .time_ns = time_ns};
	static uint8_t rec[UINT16_MAX + 1];
	uint8_t *data = (uint8_t *)fake.page[cpu] + page_bytes;
	uint64_t head = fake.page[cpu]->data_head;

	h.size = (uint16_t)(sizeof(h) + body_len + sizeof(t));
	if (fake.size[cpu] - (head - fake.page[cpu]->data_tail) < h.size)
		return false;
	memcpy(rec, &h, sizeof(h));
	memcpy(rec + sizeof(h), body, body_len);
	memcpy(rec + h.size - sizeof(t), &t, sizeof(t));
	for (size_t i = 0; i < h.size; i++)
		data[(head + i) % fake.size[cpu]] = rec[i];
	__atomic_store_n(&fake.page[cpu]->data_head, head + h.size, __ATOMIC_RELEASE);
	return true;
}

static bool put_fork(uint32_t cpu, uint32_t pid, uint64_t time_ns)
{
	const struct {
		uint32_t pid, ppid, tid, ptid;
		uint64_t time;
	} b = {pid, 1, pid, 1, time_ns};

	return ring_put(cpu, PERF_RECORD_FORK, &b, sizeof(b), time_ns);
}

/* A process name of @len bytes, a multiple of 8: longer than real ones, to make records of any
 * size. */
static bool put_comm(uint32_t cpu, uint32_t pid, size_t len, uint64_t time_ns)
{
	static uint8_t b[8 + UINT16_MAX];

	memset(b, 0, 8 + len);
	memset(b + 8, 'c', len - 1);
	memcpy(b, &pid, sizeof(pid));
	memcpy(b + 4, &pid, sizeof(pid));
	return ring_put(cpu, PERF_RECORD_COMM, b, 8 + len, time_ns);
}

/* ---- the reader's side ---------------------------------------------------------------------- */

struct seen {
	size_t n, max;
	struct {
		enum ev_proc_type type;
		uint32_t pid;
		uint64_t time_ns, lost;
	} * e;
};

static void on_record(void *arg, const struct ev_proc *ev)
{
	struct seen *s = arg;

	assert_true(s->n < s->max);
	assert_non_null(ev->map.path);
	s->e[s->n].type = ev->type;
	s->e[s->n].pid = ev->pid;
	s->e[s->n].time_ns = ev->time_ns;
	s->e[s->n++].lost = ev->lost;
}

static struct seen seen_new(size_t max)
{
	struct seen s = {.max = max, .e = malloc(max * sizeof(*s.e))};

	assert_non_null(s.e);
	return s;
}

static struct pev_sideband *open_rings(uint32_t n, uint32_t pages)
{
	struct pev_sideband *s = NULL;

	assert_int_equal(pev_sideband_open(cpus, n, pages, &s, NULL), 0);
	return s;
}

static void test_attributes(void **state)
{
	struct perf_event_attr want = {0};
	unsigned int before = open_fds();
	struct pev_sideband *s = open_rings(4, 8);

	(void)state;
	want.type = PERF_TYPE_SOFTWARE;
	want.config = PERF_COUNT_SW_DUMMY;
	want.size = sizeof(want);
	want.sample_type = PERF_SAMPLE_TID | PERF_SAMPLE_TIME;
	want.read_format = PERF_FORMAT_TOTAL_TIME_ENABLED | PERF_FORMAT_LOST;
	want.disabled = 1;
	want.mmap = 1;
	want.mmap2 = 1;
	want.comm = 1;
	want.comm_exec = 1;
	want.task = 1;
	want.ksymbol = 1;
	want.sample_id_all = 1;
	want.use_clockid = 1;
	want.clockid = CLOCK_MONOTONIC;
	want.watermark = 1;
	want.wakeup_watermark = (uint32_t)(2 * page_bytes); /* a quarter of the ring */
	assert_memory_equal(&fake.attr, &want, sizeof(want));
	assert_int_equal(fake.pid, -1);
	assert_int_equal(fake.open_flags, PERF_FLAG_FD_CLOEXEC);
	assert_int_equal(fake.enabled, 4);
	assert_int_equal(fake.size[3], 8 * page_bytes);
	assert_int_equal(fake.polled, 4);
	assert_int_equal(open_fds(), before + 4 + 1); /* and that which polls them */
	assert_true(pev_sideband_poll_fd(s) >= 0);
	assert_null(pev_sideband_free(s));
	assert_int_equal(open_fds(), before);
	assert_null(pev_sideband_free(NULL));
	s = open_rings(1, 64);
	assert_int_equal(fake.attr.wakeup_watermark, 16 * 1024);
	pev_sideband_free(s);
}

static void test_records_come_in_order_of_time(void **state)
{
	uint64_t t = now_ns() - NSEC_PER_SEC;
	struct pev_sideband *s = open_rings(3, 1);
	struct seen seen = seen_new(16);

	(void)state;
	assert_true(put_fork(0, 10, t + 5) && put_fork(0, 11, t + 30) && put_fork(0, 12, t + 30));
	assert_true(put_fork(1, 20, t + 1) && put_fork(1, 21, t + 31));
	assert_true(put_fork(2, 30, t + 30) && put_fork(2, 31, t + 2)); /* an interrupt's record */
	assert_int_equal(pev_sideband_read(s, false, on_record, &seen), 7);
	{
		static const uint32_t order[] = {20, 31, 10, 11, 12, 30, 21};

		for (size_t i = 0; i < ARRAY_SIZE(order); i++)
			assert_int_equal(seen.e[i].pid, order[i]);
	}
	assert_int_equal(pev_sideband_stats(s)->records, 7);
	for (uint32_t i = 0; i < 3; i++)
		assert_int_equal(fake.page[i]->data_tail, fake.page[i]->data_head);
	assert_int_equal(pev_sideband_read(s, true, on_record, &seen), 0);
	free(seen.e);
	pev_sideband_free(s);
}

static void test_young_records_wait(void **state)
{
	uint64_t t = now_ns(), future = t + 3600 * NSEC_PER_SEC;
	struct pev_sideband *s = open_rings(2, 1);
	struct seen seen = seen_new(16);

	(void)state;
	assert_true(put_fork(0, 1, t - NSEC_PER_SEC) && put_fork(0, 3, future + 3));
	assert_int_equal(pev_sideband_read(s, false, on_record, &seen), 1);
	assert_int_equal(fake.page[0]->data_tail, fake.page[0]->data_head); /* its place is free */
	assert_true(put_fork(1, 2, future + 2) && put_fork(1, 4, future + 4));
	assert_int_equal(pev_sideband_read(s, false, on_record, &seen), 0);
	assert_int_equal(pev_sideband_read(s, true, on_record, &seen), 3);
	for (uint32_t i = 0; i < 4; i++)
		assert_int_equal(seen.e[i].pid, i + 1);
	assert_int_equal(pev_sideband_stats(s)->early, 0);
	free(seen.e);
	pev_sideband_free(s);
}

/* Random sizes, times and CPUs, through rings that wrap many times: each record once, in order. */
static void test_nothing_is_lost_or_doubled(void **state)
{
	uint64_t t = now_ns() / 2; /* past, however short ago the machine booted */
	struct pev_sideband *s = open_rings(4, 1);
	struct seen seen = seen_new(20000);
	uint32_t rnd = 12345, pid = 0;
	size_t read_cnt = 0;

	(void)state;
	while (pid < 20000) {
		size_t batch = seen.n;
		uint32_t cpu;
		size_t len;

		for (int full = 0; full < 4 && pid < 20000;) {
			rnd = rnd * 1103515245 + 12345;
			cpu = rnd >> 30;
			len = 8 * (1 + (rnd >> 8) % 40);
			if (put_comm(cpu, pid, len, t + pid))
				pid++;
			else
				full++;
		}
		assert_true(pev_sideband_read(s, false, on_record, &seen) > 0);
		read_cnt++;
		assert_int_equal(seen.n, pid);
		for (size_t i = batch; i < seen.n; i++)
			assert_int_equal(seen.e[i].pid, i);
	}
	assert_true(read_cnt > 100);
	assert_true(fake.page[0]->data_head > 50 * page_bytes);
	assert_int_equal(pev_sideband_stats(s)->records, 20000);
	assert_int_equal(pev_sideband_stats(s)->malformed, 0);
	free(seen.e);
	pev_sideband_free(s);
}

static void test_heads_that_pass_the_end_of_numbers(void **state)
{
	struct pev_sideband *s = open_rings(1, 1);
	struct seen seen = seen_new(16);
	uint64_t t = now_ns() - NSEC_PER_SEC;

	(void)state;
	fake.page[0]->data_head = fake.page[0]->data_tail = 0 - 64ULL;
	for (uint32_t i = 0; i < 4; i++)
		assert_true(put_fork(0, i, t + i));
	assert_int_equal(pev_sideband_read(s, false, on_record, &seen), 4);
	assert_int_equal(seen.e[3].pid, 3);
	free(seen.e);
	pev_sideband_free(s);
}

static void test_losses_are_counted_and_reported(void **state)
{
	const uint64_t lost[2] = {1, 40}, samples[1] = {7};
	uint64_t t = now_ns() - NSEC_PER_SEC;
	struct pev_sideband *s = open_rings(2, 1);
	struct seen seen = seen_new(16);
	const struct pev_sideband_stats *st = pev_sideband_stats(s);

	(void)state;
	assert_true(put_fork(0, 1, t) && ring_put(0, PERF_RECORD_LOST, lost, sizeof(lost), t + 1) &&
	            put_fork(0, 2, t + 2));
	assert_true(ring_put(1, PERF_RECORD_LOST_SAMPLES, samples, sizeof(samples), t));
	assert_true(ring_put(1, PERF_RECORD_THROTTLE, "\0\0\0\0\0\0\0", 8, t));
	assert_true(ring_put(1, PERF_RECORD_UNTHROTTLE, "\0\0\0\0\0\0\0", 8, t));
	assert_true(ring_put(1, 4242, "\0\0\0\0\0\0\0", 8, t)); /* of a kernel to come */
	assert_true(ring_put(1, PERF_RECORD_LOST_SAMPLES, "", 0, t));
	assert_int_equal(pev_sideband_read(s, false, on_record, &seen), 3);
	assert_int_equal(seen.e[1].type, EV_PROC_LOST);
	assert_int_equal(seen.e[1].lost, 40);
	assert_int_equal(seen.e[1].time_ns, t + 1);
	assert_int_equal(st->records, 2);
	assert_int_equal(st->lost, 47);
	assert_int_equal(st->throttled, 2);
	assert_int_equal(st->malformed, 1);

	/* read(2) of a fake event gives the first words of its page: 40 reported before, 2 not
	 * yet. */
	fake.page[0]->offset = 42;
	assert_int_equal(pev_sideband_read(s, false, on_record, &seen), 0);
	assert_int_equal(pev_sideband_read(s, true, on_record, &seen), 1);
	assert_int_equal(seen.e[3].type, EV_PROC_LOST);
	assert_int_equal(seen.e[3].lost, 2);
	assert_int_equal(st->lost, 49);
	assert_int_equal(lseek(fake.fd[0], 0, SEEK_SET),
	                 0); /* the same answer again: all is reported */
	assert_int_equal(pev_sideband_read(s, true, on_record, &seen), 0);
	free(seen.e);
	pev_sideband_free(s);
}

static void test_old_kernels_cannot_tell_what_was_lost(void **state)
{
	struct pev_sideband *s;
	struct seen seen = seen_new(4);

	(void)state;
	fake.refuse_read_format = true;
	s = open_rings(2, 1);
	assert_int_equal(fake.attr.read_format, PERF_FORMAT_TOTAL_TIME_ENABLED);
	fake.page[0]->offset = 42;
	assert_int_equal(pev_sideband_read(s, true, on_record, &seen), 0);
	free(seen.e);
	pev_sideband_free(s);
}

/* The event of a CPU that went offline keeps the time that it was enabled until then. */
static void test_events_that_stand_still_are_counted(void **state)
{
	static const bool old[] = {false, true};
	struct seen seen = seen_new(4);

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(old); i++) {
		uint64_t begin_ns = now_ns();
		struct pev_sideband *s;

		fake.refuse_read_format = old[i];
		s = open_rings(3, 1);
		while (now_ns() - begin_ns < 20 * NSEC_PER_MSEC)
			; /* it is late by more than a clock may differ */
		fake.page[0]->index = fake.page[2]->index = 1; /* 4.3 s */
		fake.page[1]->lock = 1000;
		assert_int_equal(pev_sideband_read(s, false, on_record, &seen), 0);
		assert_int_equal(pev_sideband_stats(s)->stopped_cpus, 0);
		assert_int_equal(pev_sideband_read(s, true, on_record, &seen), 0);
		assert_int_equal(pev_sideband_stats(s)->stopped_cpus, 1);
		pev_sideband_free(s);
	}
	free(seen.e);
}

static void test_damaged_records(void **state)
{
	static const uint16_t sizes[] = {0, 7, 9, 20, 4096, 65528, 65535};
	uint64_t t = now_ns() - NSEC_PER_SEC;
	struct pev_sideband *s = open_rings(1, 1);
	struct seen seen = seen_new(64);
	uint64_t malformed = 0;

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(sizes); i++) {
		struct perf_event_header h = {.type = PERF_RECORD_FORK, .size = sizes[i]};
		uint8_t *data = (uint8_t *)fake.page[0] + page_bytes;

		/* A good record, one whose size is wrong, one that is after it and out of reach.
		 */
		fake.page[0]->data_head = fake.page[0]->data_tail = 0;
		assert_true(put_fork(0, 1, t) && put_fork(0, 2, t) && put_fork(0, 3, t));
		memcpy(data + 48, &h, sizeof(h));
		seen.n = 0;
		assert_int_equal(pev_sideband_read(s, false, on_record, &seen), 2);
		assert_int_equal(seen.e[0].pid, 1);
		assert_int_equal(seen.e[1].type, EV_PROC_LOST);
		assert_int_equal(pev_sideband_stats(s)->malformed, ++malformed);
		assert_int_equal(fake.page[0]->data_tail, fake.page[0]->data_head);
	}
	/* More in the ring than fits, half a header, too short for a trailer, contents that are
	 * wrong. */
	fake.page[0]->data_head = fake.page[0]->data_tail + page_bytes + 8;
	assert_int_equal(pev_sideband_read(s, false, on_record, &seen), 1);
	fake.page[0]->data_head = fake.page[0]->data_tail + 4;
	assert_int_equal(pev_sideband_read(s, false, on_record, &seen), 1);
	fake.page[0]->data_head = fake.page[0]->data_tail = 0;
	assert_true(ring_put(0, PERF_RECORD_FORK, "", 0, t));
	((struct perf_event_header *)((uint8_t *)fake.page[0] + page_bytes))->size = 16;
	fake.page[0]->data_head = 16;
	assert_int_equal(pev_sideband_read(s, false, on_record, &seen), 0);
	assert_true(ring_put(0, PERF_RECORD_FORK, "12345678", 8, t));
	assert_int_equal(pev_sideband_read(s, false, on_record, &seen), 0);
	assert_int_equal(pev_sideband_stats(s)->malformed, malformed + 4);
	free(seen.e);
	pev_sideband_free(s);
}

static void test_full_buffer_hands_on_early(void **state)
{
	struct pev_sideband *s = open_rings(2, 4096);
	uint64_t future = now_ns() + 3600 * NSEC_PER_SEC;
	struct seen seen = seen_new(100000);
	uint32_t pid = 0;
	size_t early;

	(void)state;
	for (uint32_t cpu = 0; cpu < 2; cpu++) {
		while (put_comm(cpu, pid, 2000, future + pid))
			pid++;
	}
	/* 32 MiB that are not due through a buffer of 16. */
	early = (size_t)pev_sideband_read(s, false, on_record, &seen);
	assert_true(early > pid / 3 && early < pid);
	assert_int_equal(pev_sideband_stats(s)->early, early);
	assert_int_equal(pev_sideband_read(s, true, on_record, &seen), pid - early);
	for (size_t i = 0; i < seen.n; i++)
		assert_int_equal(seen.e[i].pid, i);
	assert_int_equal(pev_sideband_stats(s)->lost, 0);
	free(seen.e);
	pev_sideband_free(s);
}

static void test_memory(void **state)
{
	uint64_t t = now_ns() - NSEC_PER_SEC;
	struct pev_sideband *s = open_rings(2, 1);
	struct seen seen = seen_new(1000);
	uint32_t n = 0;

	(void)state;
	/* None at all: what cannot be kept is counted, and reported. */
	fake.no_memory = true;
	assert_true(put_fork(0, 1, t) && put_fork(1, 2, t));
	assert_int_equal(pev_sideband_read(s, false, on_record, &seen), 1);
	assert_int_equal(seen.e[0].type, EV_PROC_LOST);
	assert_int_equal(seen.e[0].lost, 2);
	assert_int_equal(pev_sideband_stats(s)->lost, 2);
	fake.no_memory = false;
	seen.n = 0;
	while (put_fork(0, n, t + n))
		n++;
	assert_int_equal(pev_sideband_read(s, false, on_record, &seen), n);
	/* None more after warm-up. */
	fake.allocs = 0;
	for (uint32_t round = 0; round < 20; round++) {
		seen.n = 0;
		n = 0;
		while (put_fork(round % 2, n, t + n))
			n++;
		assert_int_equal(pev_sideband_read(s, false, on_record, &seen), n);
	}
	assert_int_equal(fake.allocs, 0);
	free(seen.e);
	pev_sideband_free(s);
}

/* ---- failures to open ----------------------------------------------------------------------- */

static void test_locked_memory_limit_halves_the_rings(void **state)
{
	struct pev_sideband *s;

	(void)state;
	fake.map_max = 5 * page_bytes;
	s = open_rings(4, 64);
	for (uint32_t i = 0; i < 4; i++)
		assert_int_equal(fake.size[i], 4 * page_bytes);
	assert_int_equal(fake.maps, 5 + 3); /* 64, 32, 16, 8, 4, and then 4 at once */
	assert_int_equal(fake.attr.wakeup_watermark, page_bytes); /* of what was possible */
	pev_sideband_free(s);
}

static void test_failures_release_everything(void **state)
{
	unsigned int before = open_fds();
	struct pev_sideband *s = NULL;
	struct err err = {0};

	(void)state;
	fake.map_max = page_bytes; /* not even one page of data */
	assert_int_equal(pev_sideband_open(cpus, 4, 8, &s, &err), -EPERM);
	assert_non_null(strstr(err.msg, "perf_event_mlock_kb"));
	assert_non_null(strstr(err.msg, "CAP_IPC_LOCK"));
	assert_int_equal(open_fds(), before);
	fake.map_max = SIZE_MAX;
	fake.map_errno = ENOMEM;
	assert_int_equal(pev_sideband_open(cpus, 4, 8, &s, &err), -ENOMEM);
	assert_int_equal(open_fds(), before);
	fake.map_errno = 0;
	fake.open_errno[2] = EACCES;
	assert_int_equal(pev_sideband_open(cpus, 4, 8, &s, &err), -EACCES);
	assert_non_null(strstr(err.msg, "cpu 2: permission denied (EACCES)"));
	assert_int_equal(open_fds(), before);
	fake.open_errno[2] = EINVAL; /* refused with and without read_format */
	assert_int_equal(pev_sideband_open(cpus, 4, 8, &s, &err), -EINVAL);
	assert_int_equal(open_fds(), before);
	fake.open_errno[2] = 0;
	fake.enabled = 0;
	fake.enable_fail_at = 3;
	assert_int_equal(pev_sideband_open(cpus, 4, 8, &s, &err), -EIO);
	assert_non_null(strstr(err.msg, "cpu 2"));
	assert_int_equal(open_fds(), before);
	fake.enable_fail_at = 0;
	fake.epoll_errno = ENOSPC; /* fs.epoll.max_user_watches */
	assert_int_equal(pev_sideband_open(cpus, 4, 8, &s, &err), -ENOSPC);
	assert_non_null(strstr(err.msg, "ENOSPC"));
	assert_int_equal(open_fds(), before);
	fake.no_memory = true;
	assert_int_equal(pev_sideband_open(cpus, 4, 8, &s, &err), -ENOMEM);
	fake.no_memory = false;
	assert_int_equal(pev_sideband_open(cpus, 4, 0, &s, &err), -EINVAL);
	assert_int_equal(pev_sideband_open(cpus, 4, 3, &s, &err), -EINVAL);
	assert_int_equal(pev_sideband_open(cpus, 4, 8192, &s, &err), -EINVAL);
	assert_int_equal(pev_sideband_open(cpus, 0, 8, &s, &err), -EINVAL);
	assert_null(s);
}

static void test_offline_cpus(void **state)
{
	unsigned int before = open_fds();
	struct pev_sideband *s = NULL;
	struct seen seen = seen_new(4);
	struct err err = {0};

	(void)state;
	fake.open_errno[0] = ENODEV;
	fake.open_errno[2] = ESRCH;
	s = open_rings(4, 1);
	assert_int_equal(open_fds(), before + 2 + 1);
	assert_true(put_fork(3, 33, now_ns() - NSEC_PER_SEC));
	assert_int_equal(pev_sideband_read(s, false, on_record, &seen), 1);
	assert_int_equal(seen.e[0].pid, 33);
	s = pev_sideband_free(s);
	fake.open_errno[1] = fake.open_errno[3] = ENODEV;
	assert_int_equal(pev_sideband_open(cpus, 4, 1, &s, &err), -ENODEV);
	assert_int_equal(err.code, -ENODEV);
	assert_int_equal(open_fds(), before);
	free(seen.e);
}

#define FAKED(t) cmocka_unit_test_setup_teardown(t, fake_setup, fake_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
	        FAKED(test_attributes),
	        FAKED(test_records_come_in_order_of_time),
	        FAKED(test_young_records_wait),
	        FAKED(test_nothing_is_lost_or_doubled),
	        FAKED(test_heads_that_pass_the_end_of_numbers),
	        FAKED(test_losses_are_counted_and_reported),
	        FAKED(test_old_kernels_cannot_tell_what_was_lost),
	        FAKED(test_events_that_stand_still_are_counted),
	        FAKED(test_damaged_records),
	        FAKED(test_full_buffer_hands_on_early),
	        FAKED(test_memory),
	        FAKED(test_locked_memory_limit_halves_the_rings),
	        FAKED(test_failures_release_everything),
	        FAKED(test_offline_cpus),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
