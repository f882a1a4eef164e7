/* SPDX-License-Identifier: Apache-2.0 */
#include "perf_stream.h"

static void test_sample_has_its_fields_in_order(void **state)
{
	const struct enc_perf_record x = sample(1234, 1);
	struct stream st = {.p = &x, .n = 1};
	const struct enc_perf_data d = data_of(&st);
	struct sink s;
	struct rec r[2];

	(void)state;
	encode(&d, &s);
	assert_int_equal(read_records(&s.b, r, 2), 2);
	assert_int_equal(r[0].type, PERF_RECORD_SAMPLE);
	assert_int_equal(r[0].misc, PERF_RECORD_MISC_KERNEL);
	assert_int_equal(r[0].size, 8 + 7 * 8 + (2 + 5) * 8);
	assert_int_equal(u64_at(&s.b, r[0].at), 2); /* id of the second event */
	assert_int_equal(u64_at(&s.b, r[0].at + 8), kernel[0]);
	assert_int_equal(u32_at(&s.b, r[0].at + 16), 10);
	assert_int_equal(u32_at(&s.b, r[0].at + 20), 11);
	assert_int_equal(u64_at(&s.b, r[0].at + 24), 1234);
	assert_int_equal(u64_at(&s.b, r[0].at + 32), 3);
	assert_int_equal(u64_at(&s.b, r[0].at + 40), 77);
	assert_int_equal(u64_at(&s.b, r[0].at + 48), 7);
	assert_int_equal(u64_at(&s.b, r[0].at + 56), (uint64_t)PERF_CONTEXT_KERNEL);
	assert_memory_equal(s.b.p + r[0].at + 64, kernel, sizeof(kernel));
	assert_int_equal(u64_at(&s.b, r[0].at + 88), (uint64_t)PERF_CONTEXT_USER);
	assert_memory_equal(s.b.p + r[0].at + 96, user, sizeof(user));
	sbuf_done(&s.b);
}

static void test_mode_of_a_sample_is_that_of_its_leaf(void **state)
{
	static const struct {
		uint32_t n_kernel, n_user;
		bool in_kernel;
		uint16_t misc;
		uint64_t ip, chain;
	} cases[] = {
	        {3, 2, false, PERF_RECORD_MISC_KERNEL, 0xffffffff81001000, 7},
	        {3, 0, false, PERF_RECORD_MISC_KERNEL, 0xffffffff81001000, 4},
	        {0, 2, false, PERF_RECORD_MISC_USER, 0x401000, 3},
	        {0, 2, true, PERF_RECORD_MISC_USER, 0x401000, 3},
	        {0, 0, true, PERF_RECORD_MISC_KERNEL, 0, 0},
	        {0, 0, false, PERF_RECORD_MISC_USER, 0, 0},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct enc_perf_record x = sample(1, 0);
		struct stream st = {.p = &x, .n = 1};
		const struct enc_perf_data d = data_of(&st);
		struct sink s;
		struct rec r[2];

		x.sample.n_kernel = cases[i].n_kernel;
		x.sample.n_user = cases[i].n_user;
		x.sample.in_kernel = cases[i].in_kernel;
		encode(&d, &s);
		assert_int_equal(read_records(&s.b, r, 2), 2);
		assert_int_equal(r[0].misc, cases[i].misc);
		assert_int_equal(u64_at(&s.b, r[0].at + 8), cases[i].ip);
		assert_int_equal(u64_at(&s.b, r[0].at + 48), cases[i].chain);
		sbuf_done(&s.b);
	}
}

static void test_long_chain_loses_its_root(void **state)
{
	static uint64_t deep[3 * ENC_PERF_CHAIN_MAX];
	struct enc_perf_record x = sample(1, 0);
	struct stream st = {.p = &x, .n = 1};
	const struct enc_perf_data d = data_of(&st);
	struct sink s;
	struct rec r[2];

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(deep); i++)
		deep[i] = 0x1000 + i;
	x.sample.user = deep;
	x.sample.n_user = ARRAY_SIZE(deep);
	encode(&d, &s);
	assert_int_equal(read_records(&s.b, r, 2), 2);
	assert_int_equal(u64_at(&s.b, r[0].at + 48), ENC_PERF_CHAIN_MAX + 2);
	assert_memory_equal(s.b.p + r[0].at + 96, deep, (ENC_PERF_CHAIN_MAX - 3) * 8);
	sbuf_done(&s.b);
	x.sample.kernel = deep;
	x.sample.n_kernel = ARRAY_SIZE(deep);
	encode(&d, &s);
	assert_int_equal(read_records(&s.b, r, 2), 2);
	assert_int_equal(u64_at(&s.b, r[0].at + 48), ENC_PERF_CHAIN_MAX + 1);
	sbuf_done(&s.b);
}

static void test_names_of_threads(void **state)
{
	static const struct {
		const char *name, *shown;
		uint16_t size;
	} cases[] = {
	        {"", "", 8},
	        {"1234567", "1234567", 8},
	        {"12345678", "12345678", 16},
	        {"123456789012345", "123456789012345", 16},
	        {"1234567890123456", "123456789012345", 16},
	        {"12345678901234\xc3\xa9", "12345678901234", 16},
	        {"\xc3\xa9 \xc3", "\xc3\xa9 ?", 8},
	        {"a\nb\x1b[m", "a?b?[m", 8},
	        {"a\u202ebc", "a?bc", 8},
	        {"\xc2\x9b", "?", 8},
	        {NULL, "", 8},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		const struct enc_perf_record x = {.type = ENC_PERF_COMM,
		                                  .pid = 5,
		                                  .tid = 6,
		                                  .time_ns = 7,
		                                  .comm = {cases[i].name, i % 2 == 1}};
		struct sink s;
		struct rec r;

		one_record(&x, &s, &r);
		assert_int_equal(r.type, PERF_RECORD_COMM);
		assert_int_equal(r.misc, i % 2 ? PERF_RECORD_MISC_COMM_EXEC : 0);
		assert_int_equal(r.size, 16 + cases[i].size + TRAILER_BYTES);
		assert_int_equal(u32_at(&s.b, r.at), 5);
		assert_int_equal(u32_at(&s.b, r.at + 4), 6);
		assert_string_equal(s.b.p + r.at + 8, cases[i].shown);
		assert_trailer(&s.b, &r, 5, 6, 7);
		sbuf_done(&s.b);
	}
}

static void test_mapping_with_inode(void **state)
{
	const struct enc_perf_record x = mapping("/bin/x");
	struct sink s;
	struct rec r;

	(void)state;
	one_record(&x, &s, &r);
	assert_int_equal(r.type, PERF_RECORD_MMAP2);
	assert_int_equal(r.misc, PERF_RECORD_MISC_USER);
	assert_int_equal(r.size, 8 + 8 + 24 + 24 + 8 + 8 + TRAILER_BYTES);
	assert_int_equal(u64_at(&s.b, r.at + 8), 0x400000);
	assert_int_equal(u64_at(&s.b, r.at + 16), 0x3000);
	assert_int_equal(u64_at(&s.b, r.at + 24), 0x1000);
	assert_int_equal(u32_at(&s.b, r.at + 32), 8);
	assert_int_equal(u32_at(&s.b, r.at + 36), 9);
	assert_int_equal(u64_at(&s.b, r.at + 40), 1ULL << 40);
	assert_int_equal(u64_at(&s.b, r.at + 48), 3);
	assert_int_equal(u32_at(&s.b, r.at + 56), PROT_READ | PROT_EXEC);
	assert_int_equal(u32_at(&s.b, r.at + 60), MAP_PRIVATE);
	assert_string_equal(s.b.p + r.at + 64, "/bin/x");
	assert_trailer(&s.b, &r, 5, 6, 7);
	sbuf_done(&s.b);
}

static void test_mapping_with_build_id(void **state)
{
	struct enc_perf_record x = mapping("/bin/x");
	struct sink s;
	struct rec r;

	(void)state;
	x.map.build_id_len = 16;
	memset(x.map.build_id, 0xab, sizeof(x.map.build_id));
	one_record(&x, &s, &r);
	assert_int_equal(r.misc, PERF_RECORD_MISC_USER | PERF_RECORD_MISC_MMAP_BUILD_ID);
	assert_int_equal(u32_at(&s.b, r.at + 32), 16);
	assert_int_equal(u64_at(&s.b, r.at + 36), 0xabababababababab);
	assert_int_equal(u64_at(&s.b, r.at + 44), 0xabababababababab);
	assert_int_equal(u32_at(&s.b, r.at + 52), 0); /* past its length */
	assert_int_equal(u32_at(&s.b, r.at + 56), PROT_READ | PROT_EXEC);
	sbuf_done(&s.b);
}

static void test_long_and_hostile_paths(void **state)
{
	static char deep[6000];
	struct enc_perf_record x = mapping(deep);
	struct sink s;
	struct rec r;

	(void)state;
	memset(deep, 'd', sizeof(deep) - 1);
	one_record(&x, &s, &r);
	assert_int_equal(strlen(s.b.p + r.at + 64), 4095);
	assert_int_equal(r.size, 72 + 4096 + TRAILER_BYTES);
	assert_trailer(&s.b, &r, 5, 6, 7);
	sbuf_done(&s.b);
	/* perf opens the file: all bytes stay. */
	x.map.path = "/tmp/\xe9t\xe9\n\x1b[2J";
	one_record(&x, &s, &r);
	assert_string_equal(s.b.p + r.at + 64, "/tmp/\xe9t\xe9\n\x1b[2J");
	sbuf_done(&s.b);
}

static void test_module_of_the_kernel(void **state)
{
	struct enc_perf_record x = mapping("[ext4]");
	struct sink s;
	struct rec r;

	(void)state;
	x.map.kernel = true;
	one_record(&x, &s, &r);
	assert_int_equal(r.type, PERF_RECORD_MMAP);
	assert_int_equal(r.misc, PERF_RECORD_MISC_KERNEL);
	assert_int_equal(u32_at(&s.b, r.at), UINT32_MAX);
	assert_int_equal(u64_at(&s.b, r.at + 8), 0x400000);
	assert_string_equal(s.b.p + r.at + 32, "[ext4]");
	sbuf_done(&s.b);
}

static void test_fork_exit_lost_and_ksymbol(void **state)
{
	struct enc_perf_record x = {.type = ENC_PERF_FORK,
	                            .pid = 5,
	                            .tid = 6,
	                            .time_ns = 7,
	                            .parent = {.ppid = 3, .ptid = 4}};
	struct sink s;
	struct rec r;

	(void)state;
	for (int i = 0; i < 2; i++) {
		x.type = i ? ENC_PERF_EXIT : ENC_PERF_FORK;
		one_record(&x, &s, &r);
		assert_int_equal(r.type, i ? PERF_RECORD_EXIT : PERF_RECORD_FORK);
		assert_int_equal(u32_at(&s.b, r.at), 5);
		assert_int_equal(u32_at(&s.b, r.at + 4), 3);
		assert_int_equal(u32_at(&s.b, r.at + 8), 6);
		assert_int_equal(u32_at(&s.b, r.at + 12), 4);
		assert_int_equal(u64_at(&s.b, r.at + 16), 7);
		assert_trailer(&s.b, &r, 5, 6, 7);
		sbuf_done(&s.b);
	}
	x = (struct enc_perf_record){.type = ENC_PERF_LOST, .time_ns = 9, .lost = 42};
	one_record(&x, &s, &r);
	assert_int_equal(r.type, PERF_RECORD_LOST);
	assert_int_equal(u64_at(&s.b, r.at), 1);
	assert_int_equal(u64_at(&s.b, r.at + 8), 42);
	sbuf_done(&s.b);
	x.type = ENC_PERF_LOST_SAMPLES;
	one_record(&x, &s, &r);
	assert_int_equal(r.type, PERF_RECORD_LOST_SAMPLES);
	assert_int_equal(u64_at(&s.b, r.at), 42);
	sbuf_done(&s.b);
	x = (struct enc_perf_record){.type = ENC_PERF_KSYMBOL,
	                             .time_ns = 9,
	                             .ksymbol = {.start = 0xffffffffc0001000,
	                                         .len = 64,
	                                         .bpf = true,
	                                         .gone = true,
	                                         .name = "p"}};
	one_record(&x, &s, &r);
	assert_int_equal(r.type, PERF_RECORD_KSYMBOL);
	assert_int_equal(u64_at(&s.b, r.at), 0xffffffffc0001000);
	assert_int_equal(u32_at(&s.b, r.at + 8), 64);
	assert_int_equal(u32_at(&s.b, r.at + 12), 1 | 1 << 16);
	assert_string_equal(s.b.p + r.at + 16, "p");
	sbuf_done(&s.b);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	        cmocka_unit_test(test_sample_has_its_fields_in_order),
	        cmocka_unit_test(test_mode_of_a_sample_is_that_of_its_leaf),
	        cmocka_unit_test(test_long_chain_loses_its_root),
	        cmocka_unit_test(test_names_of_threads),
	        cmocka_unit_test(test_mapping_with_inode),
	        cmocka_unit_test(test_mapping_with_build_id),
	        cmocka_unit_test(test_long_and_hostile_paths),
	        cmocka_unit_test(test_module_of_the_kernel),
	        cmocka_unit_test(test_fork_exit_lost_and_ksymbol),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
