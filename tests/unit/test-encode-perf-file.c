/* SPDX-License-Identifier: Apache-2.0 */
#include "perf_stream.h"

/* ---- the file -------------------------------------------------------------------------------- */

static void test_header_and_attributes(void **state)
{
	struct stream st = {0};
	struct enc_perf_data d = data_of(&st);
	struct perf_event_attr attr;
	struct sink s;

	(void)state;
	encode(&d, &s);
	assert_memory_equal(s.b.p, "PERFILE2", 8);
	assert_int_equal(u64_at(&s.b, 8), HEADER_BYTES);
	assert_int_equal(u64_at(&s.b, 16), ATTR_BYTES + 16);
	assert_int_equal(u64_at(&s.b, 24), HEADER_BYTES + 2 * 8);
	assert_int_equal(u64_at(&s.b, 32), 2 * (ATTR_BYTES + 16));
	assert_int_equal(u64_at(&s.b, 40), HEADER_BYTES + 2 * 8 + 2 * (ATTR_BYTES + 16));
	assert_int_equal(u64_at(&s.b, HEADER_BYTES), 1);
	assert_int_equal(u64_at(&s.b, HEADER_BYTES + 8), 2);
	memcpy(&attr, s.b.p + HEADER_BYTES + 16, ATTR_BYTES);
	assert_int_equal(attr.size, ATTR_BYTES);
	assert_int_equal(attr.sample_id_all, 1);
	assert_int_equal(attr.freq, 1);
	assert_int_equal(attr.sample_freq, 99);
	assert_int_equal(attr.mmap2, 1);
	assert_int_equal(u64_at(&s.b, HEADER_BYTES + 16 + ATTR_BYTES), HEADER_BYTES);
	memcpy(&attr, s.b.p + HEADER_BYTES + 16 + ATTR_BYTES + 16, ATTR_BYTES);
	assert_int_equal(attr.config, 10);
	assert_int_equal(attr.freq, 0);
	assert_int_equal(attr.sample_period, 1);
	assert_int_equal(attr.mmap2, 0);
	sbuf_done(&s.b);
}

/* The sections fill the rest of the file, in the order of their numbers. */
static void test_feature_sections(void **state)
{
	static const char *const cmdline[] = {"a", "b c"};
	const struct enc_perf_build_id id = {.pid = UINT32_MAX, .len = 20, .path = "/bin/x"};
	struct stream st = {0};
	struct enc_perf_data d = data_of(&st);
	uint64_t table, end;
	unsigned int n;
	struct sink s;

	(void)state;
	d.build_ids = &id;
	d.n_build_ids = 1;
	d.facts = (struct enc_perf_facts){.hostname = "h",
	                                  .os_release = "6",
	                                  .arch = "x",
	                                  .version = "v",
	                                  .cpu_desc = "c",
	                                  .cpu_id = "i",
	                                  .cpus_avail = 4,
	                                  .cpus_online = 3,
	                                  .total_mem_kib = 5,
	                                  .cmdline = cmdline,
	                                  .n_cmdline = 2,
	                                  .has_clock = true,
	                                  .realtime_ns = 6,
	                                  .monotonic_ns = 7};
	encode(&d, &s);
	n = (unsigned int)__builtin_popcountll(u64_at(&s.b, 72));
	assert_int_equal(n, 14);
	assert_int_equal(u64_at(&s.b, 72), 0x1ffcULL | 1 << 21 | 1 << 23 | 1 << 29);
	table = u64_at(&s.b, 40) + u64_at(&s.b, 48);
	end = table + n * 16;
	for (unsigned int i = 0; i < n; i++) {
		assert_int_equal(u64_at(&s.b, table + i * 16), end);
		end += u64_at(&s.b, table + i * 16 + 8);
	}
	assert_int_equal(end, s.b.len);
	/* A string: its padded length first. */
	assert_int_equal(u32_at(&s.b, u64_at(&s.b, table + 16)), 64);
	assert_string_equal(s.b.p + u64_at(&s.b, table + 16) + 4, "h");
	/* CPUs: those there are, then those online. */
	assert_int_equal(u64_at(&s.b, u64_at(&s.b, table + 5 * 16)), 4 | 3ULL << 32);
	/* A build-id says how long it is. */
	assert_int_equal(u64_at(&s.b, table + 8), 8 + 4 + 24 + 64);
	assert_int_equal(u32_at(&s.b, u64_at(&s.b, table) + 4),
	                 (0x8000U | PERF_RECORD_MISC_USER) | 100U << 16);
	sbuf_done(&s.b);
	d.facts = (struct enc_perf_facts){0};
	d.n_build_ids = 0;
	encode(&d, &s);
	assert_int_equal(u64_at(&s.b, 72), 1 << 12 | 1 << 21 | 1 << 23);
	sbuf_done(&s.b);
}

static void test_records_are_merged_by_time(void **state)
{
	const struct enc_perf_record samples[] = {sample(10, 0), sample(20, 1), sample(20, 0)};
	const struct enc_perf_record side[] = {
	        {.type = ENC_PERF_COMM, .time_ns = 0, .comm = {"a", false}},
	        {.type = ENC_PERF_COMM, .time_ns = 20, .comm = {"b", false}},
	        {.type = ENC_PERF_EXIT, .time_ns = 30},
	};
	static const uint32_t want[] = {PERF_RECORD_MMAP,   PERF_RECORD_COMM,
	                                PERF_RECORD_SAMPLE, PERF_RECORD_COMM,
	                                PERF_RECORD_SAMPLE, PERF_RECORD_SAMPLE,
	                                PERF_RECORD_EXIT,   68};
	struct stream st = {.p = samples, .n = 3};
	struct enc_perf_data d = data_of(&st);
	struct rec r[16];
	struct sink s;

	(void)state;
	d.side = side;
	d.n_side = 3;
	d.kernel = (struct enc_perf_kernel){.start = 0xffffffff81000000,
	                                    .end = 0xffffffff82000000,
	                                    .ref = 5,
	                                    .ref_name = "_text"};
	encode(&d, &s);
	assert_int_equal(read_records(&s.b, r, ARRAY_SIZE(r)), ARRAY_SIZE(want));
	for (size_t i = 0; i < ARRAY_SIZE(want); i++)
		assert_int_equal(r[i].type, want[i]);
	assert_string_equal(s.b.p + r[0].at + 32, "[kernel.kallsyms]_text");
	assert_int_equal(u64_at(&s.b, r[0].at + 16), 0x1000000);
	assert_int_equal(u64_at(&s.b, r[0].at + 24), 5);
	/* The second and third samples keep their order. */
	assert_int_equal(u64_at(&s.b, r[4].at), 2);
	assert_int_equal(u64_at(&s.b, r[5].at), 1);
	sbuf_done(&s.b);
}

#define MANY 40000

static void test_many_samples_come_in_parts_with_marks(void **state)
{
	struct enc_perf_record *x = calloc(MANY, sizeof(*x));
	struct rec *r = calloc(MANY + 100, sizeof(*r));
	struct stream st = {.p = x, .n = MANY};
	const struct enc_perf_data d = data_of(&st);
	struct sink s, again;
	size_t n, marks = 0;

	(void)state;
	assert_true(x && r);
	for (size_t i = 0; i < MANY; i++)
		x[i] = sample(i / 3, i % 2);
	encode(&d, &s);
	n = read_records(&s.b, r, MANY + 100);
	for (size_t i = 0; i < n; i++)
		marks += r[i].type == 68;
	assert_int_equal(n - marks, MANY);
	assert_int_equal(marks, s.b.len / (1 << 20) + 1);
	assert_true(s.parts > 50);
	assert_true(s.largest < 128 << 10);
	st.passes = 0;
	encode(&d, &again);
	assert_int_equal(again.b.len, s.b.len);
	assert_memory_equal(again.b.p, s.b.p, s.b.len);
	sbuf_done(&s.b);
	sbuf_done(&again.b);
	free(x);
	free(r);
}

/* ---- failures -------------------------------------------------------------------------------- */

static void assert_fails(const struct enc_perf_data *d, int want, const char *message)
{
	struct sink s = {0};
	struct err err = {0};

	sbuf_init(&s.b, 64 << 20);
	assert_int_equal(enc_perf_data(d, sink_write, &s, &err), want);
	if (!strstr(err.msg, message))
		fail_msg("'%s' is not in '%s'", message, err.msg);
	sbuf_done(&s.b);
}

static void test_bad_arguments(void **state)
{
	const struct enc_perf_build_id long_id = {.len = 21, .path = "x"}, no_id = {.path = "x"};
	struct enc_perf_record bad[] = {sample(10, 0), sample(9, 0)};
	struct stream st = {.p = bad, .n = 2};
	struct enc_perf_data d = data_of(&st);

	(void)state;
	assert_fails(&d, -EINVAL, "9 ns follows one of 10 ns");
	bad[1] = sample(10, 2);
	assert_fails(&d, -EINVAL, "of type 1");
	bad[1] = mapping("x");
	bad[1].time_ns = 11;
	bad[1].map.build_id_len = 21;
	assert_fails(&d, -EINVAL, "of type 3");
	bad[1].type = 0;
	assert_fails(&d, -EINVAL, "of type 0");
	st.n = 1;
	d.n_build_ids = 1;
	d.build_ids = &long_id;
	assert_fails(&d, -EINVAL, "build-id of 21 bytes");
	d.build_ids = &no_id;
	assert_fails(&d, -EINVAL, "build-id of 0 bytes");
	d.n_build_ids = 0;
	d.kernel = (struct enc_perf_kernel){.start = 2, .end = 2, .ref_name = "_text"};
	assert_fails(&d, -EINVAL, "mapping is empty");
	d.kernel.end = 0;
	d.n_events = 0;
	assert_fails(&d, -EINVAL, "0 events");
	d.n_events = ENC_PERF_EVENTS_MAX + 1;
	assert_fails(&d, -EINVAL, "17 events");
}

static void test_failures_of_reader_and_writer(void **state)
{
	const struct enc_perf_record x[] = {sample(1, 0), sample(2, 0)};
	struct stream st = {.p = x, .n = 2, .fails_at = 2};
	const struct enc_perf_data d = data_of(&st);
	struct sink s = {.fails = -ENOSPC};

	(void)state;
	assert_fails(&d, -EIO, "reading the samples");
	st = (struct stream){.p = x, .n = 2, .shorter = 1};
	assert_fails(&d, -EINVAL, "not the same");
	st = (struct stream){.p = x, .n = 2};
	assert_int_equal(enc_perf_data(&d, sink_write, &s, NULL), -ENOSPC);
	assert_int_equal(s.parts, 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	        cmocka_unit_test(test_header_and_attributes),
	        cmocka_unit_test(test_feature_sections),
	        cmocka_unit_test(test_records_are_merged_by_time),
	        cmocka_unit_test(test_many_samples_come_in_parts_with_marks),
	        cmocka_unit_test(test_bad_arguments),
	        cmocka_unit_test(test_failures_of_reader_and_writer),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
