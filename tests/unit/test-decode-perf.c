/* SPDX-License-Identifier: Apache-2.0 */
#include "perf_file.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>
#include <zstd.h>

#include "decode/decode.h"

/* Without names: those of this machine would come into it. */
static const struct dec_options options = {.no_names = true, .max_unpacked_bytes = 1 << 20};

static int decode(const struct sbuf *b, struct dec_profile *p, struct err *err)
{
	*p = (struct dec_profile){0};
	*err = (struct err){0};
	return dec_profile(b->p, b->len, "x", &options, p, err);
}

static int decode_file(const struct pf *f, struct dec_profile *p, struct err *err)
{
	struct sbuf b;
	int r;

	pf_write(f, &b);
	r = decode(&b, p, err);
	sbuf_done(&b);
	return r;
}

static struct perf_event_attr cpu_clock(void)
{
	return (struct perf_event_attr){.type = PERF_TYPE_SOFTWARE,
	                                .size = sizeof(struct perf_event_attr),
	                                .config = PERF_COUNT_SW_CPU_CLOCK,
	                                .sample_period = 1000000,
	                                .sample_type = PF_TYPE,
	                                .sample_id_all = 1};
}

static const char *str(const struct prof_model *m, uint32_t id)
{
	return prof_model_str(m, id);
}

/* Samples as text: "comm pid/tid frame;frame samples period", leaf first, a line each. */
static const char *show(const struct prof_model *m)
{
	static char text[8192];
	size_t n = 0;

	text[0] = 0;
	vec_each (s, &m->samples) {
		const struct prof_label *l = &m->labels.p[s->label_first];

		n += (size_t)snprintf(text + n, sizeof(text) - n, "%s %lld/%lld ",
		                      s->label_cnt > 2 ? str(m, l[2].str) : "-",
		                      (long long)l[0].num, (long long)l[1].num);
		for (uint32_t i = 0; i < s->loc_cnt; i++) {
			const struct prof_location *loc =
			        &m->locations.p[m->loc_ids.p[s->loc_first + i] - 1];
			uint32_t fn = m->lines.p[loc->line_first].function;

			n += (size_t)snprintf(text + n, sizeof(text) - n, "%s%s", i ? ";" : "",
			                      str(m, m->functions.p[fn - 1].name));
		}
		n += (size_t)snprintf(text + n, sizeof(text) - n, " %lld %lld\n",
		                      (long long)s->value[0], (long long)s->value[1]);
		assert_true(n < sizeof(text));
	}
	return text;
}

static const uint64_t user_stack[] = {PERF_CONTEXT_USER, PF_TEXT + 0x10, PF_TEXT + 0x21, 0x99};
static const uint64_t both_stacks[] = {PERF_CONTEXT_KERNEL, 0xffffffff81000010, 0xffffffff81000021,
                                       PERF_CONTEXT_USER, PF_TEXT + 0x10};

/* Two processes, kernel and user stacks, memory without a file, records out of order. */
static void fill(struct pf *f)
{
	const struct perf_event_attr a = cpu_clock();
	const uint64_t jit[] = {PERF_CONTEXT_USER, 0x700010};

	pf_init(f);
	pf_attr(f, &a);
	pf_sample(f, PERF_RECORD_MISC_USER, 10, 11, 500, 0, 7, user_stack, 4);
	pf_comm(f, 10, 10, "main", true, 100);
	pf_mmap2(f, 10, PF_TEXT, 0x1000, 0x2000, "/nowhere/a", 110);
	pf_mmap2(f, 10, 0x700000, 0x1000, 0, "//anon", 120);
	pf_fork(f, 10, 10, 11, 10, 130);
	pf_sample(f, PERF_RECORD_MISC_USER, 10, 11, 510, 0, 8, user_stack, 4);
	pf_comm(f, 10, 11, "worker\033", false, 505);
	pf_sample(f, PERF_RECORD_MISC_KERNEL, 10, 10, 520, 0, 9, both_stacks, 5);
	pf_sample(f, PERF_RECORD_MISC_USER, 10, 10, 530, 0, 1, jit, 2);
	pf_fork(f, 20, 10, 20, 10, 540);
	pf_sample(f, PERF_RECORD_MISC_USER, 20, 20, 550, 0, 1, user_stack, 3);
	pf_comm(f, 20, 20, "child", true, 560);
	pf_sample(f, PERF_RECORD_MISC_USER, 20, 20, 570, 0, 1, user_stack, 3);
	pf_sample(f, PERF_RECORD_MISC_USER, 20, 20, 580, 0, 2, user_stack, 3);
	pf_feature_str(f, 3, "box");
	pf_feature_str(f, 4, "6.1.0");
}

static void test_records_apply_in_the_order_of_time(void **state)
{
	struct dec_profile p;
	struct err err;
	struct pf f;
	(void)state;

	fill(&f);
	assert_int_equal(decode_file(&f, &p, &err), 0);
	assert_int_equal(p.format, DEC_PERF_DATA);
	assert_int_equal(p.n_models, 1);
	assert_string_equal(show(p.models[0]),
	                    "main 10/11 0x2010 [a];0x2020 [a];0x98 1 7\n"
	                    "worker? 10/11 0x2010 [a];0x2020 [a];0x98 1 8\n"
	                    "main 10/10 0xffffffff81000010;0xffffffff81000020;0x2010 [a] 1 9\n"
	                    "main 10/10 0x700010 [jit] 1 1\n"
	                    "main 20/20 0x2010 [a];0x2020 [a] 1 1\n"
	                    "child 20/20 0x400010;0x400020 2 3\n");
	assert_string_equal(str(p.models[0], p.models[0]->sample_type[1].type), "cpu");
	assert_string_equal(str(p.models[0], p.models[0]->sample_type[1].unit), "nanoseconds");
	assert_int_equal(p.models[0]->duration_ns, 80);
	assert_int_equal(p.models[0]->period, 1000000);
	dec_profile_done(&p);
	pf_done(&f);
}

static void test_addresses_are_inside_of_their_mappings(void **state)
{
	struct dec_profile p;
	struct err err;
	struct pf f;
	(void)state;

	fill(&f);
	assert_int_equal(decode_file(&f, &p, &err), 0);
	vec_each (l, &p.models[0]->locations) {
		const struct prof_mapping *m =
		        l->mapping ? &p.models[0]->mappings.p[l->mapping - 1] : NULL;

		if (m && strcmp(str(p.models[0], m->path), "/nowhere/a") == 0) {
			assert_int_equal(m->start, PF_TEXT);
			assert_int_equal(m->offset, 0x2000);
			assert_true(l->address >= m->start && l->address < m->limit);
		}
		assert_int_not_equal(l->reason, EV_REASON_NAMED);
	}
	dec_profile_done(&p);
	pf_done(&f);
}

/* More processes than there is room for at first: each has the mappings of the one before. */
static void test_forks_pass_mappings_on(void **state)
{
	const struct perf_event_attr a = cpu_clock();
	char want[8192];
	struct dec_profile p;
	size_t n = 0;
	struct err err;
	struct pf f;
	(void)state;

	pf_init(&f);
	pf_attr(&f, &a);
	pf_comm(&f, 10, 10, "first", true, 100);
	pf_mmap2(&f, 10, PF_TEXT, 0x1000, 0x2000, "/nowhere/a", 110);
	for (uint32_t i = 10; i < 80; i++)
		pf_fork(&f, i + 1, i, i + 1, i, 110 + i);
	for (uint32_t i = 10; i <= 80; i++) {
		pf_sample(&f, PERF_RECORD_MISC_USER, i, i, 200 + i, 0, 1, user_stack, 2);
		n += (size_t)snprintf(want + n, sizeof(want) - n, "first %u/%u 0x2010 [a] 1 1\n", i,
		                      i);
		assert_true(n < sizeof(want));
	}
	assert_int_equal(decode_file(&f, &p, &err), 0);
	assert_string_equal(show(p.models[0]), want);
	dec_profile_done(&p);
	pf_done(&f);
}

/* A program without frame pointers has any word there. The addresses after it are still return addresses. */
static void test_a_word_like_a_marker_among_user_addresses_is_none(void **state)
{
	const struct perf_event_attr a = cpu_clock();
	const uint64_t stack[] = {PERF_CONTEXT_USER,
	                          PF_TEXT + 0x10,
	                          (uint64_t)PERF_CONTEXT_KERNEL,
	                          PF_TEXT + 0x21,
	                          (uint64_t)PERF_CONTEXT_USER,
	                          PF_TEXT + 0x31};
	struct dec_profile p;
	struct err err;
	struct pf f;
	(void)state;

	pf_init(&f);
	pf_attr(&f, &a);
	pf_sample(&f, PERF_RECORD_MISC_USER, 1, 1, 1, 0, 1, stack, ARRAY_SIZE(stack));
	assert_int_equal(decode_file(&f, &p, &err), 0);
	assert_string_equal(show(p.models[0]), "- 1/1 0x400010;0x400020;0x400030 1 1\n");
	dec_profile_done(&p);
	pf_done(&f);
}

static void test_two_events_are_two_models(void **state)
{
	struct perf_event_attr a = cpu_clock();
	struct dec_profile p;
	struct err err;
	struct pf f;
	struct sbuf *desc;
	(void)state;

	pf_init(&f);
	pf_attr(&f, &a);
	a.config = PERF_COUNT_SW_DUMMY;
	pf_attr(&f, &a);
	a = (struct perf_event_attr){.type = PERF_TYPE_RAW, .sample_type = PF_TYPE};
	pf_attr(&f, &a);
	desc = &f.features[12];
	pf_u32(desc, 3);
	pf_u32(desc, sizeof(a));
	for (uint32_t i = 0; i < 3; i++) {
		static const char *const names[] = {"cpu-clock:u", "dummy", "l2_misses"};

		(void)sbuf_add(desc, &a, sizeof(a));
		pf_u32(desc, 1);
		pf_u32(desc, 16);
		(void)sbuf_add(desc, names[i], strlen(names[i]));
		for (size_t k = strlen(names[i]); k < 16; k++)
			(void)sbuf_char(desc, 0);
		pf_u64(desc, 1000 + i);
	}
	pf_sample(&f, PERF_RECORD_MISC_USER, 1, 1, 1, 1000, 5, user_stack, 2);
	pf_sample(&f, PERF_RECORD_MISC_USER, 1, 1, 2, 1002, 6, user_stack, 3);
	pf_sample(&f, PERF_RECORD_MISC_USER, 1, 1, 3, 1000, 5, user_stack, 2);
	assert_int_equal(decode_file(&f, &p, &err), 0);
	assert_int_equal(p.n_models, 2);
	assert_string_equal(show(p.models[0]), "- 1/1 0x400010 2 10\n");
	assert_string_equal(show(p.models[1]), "- 1/1 0x400010;0x400020 1 6\n");
	assert_string_equal(str(p.models[1], p.models[1]->sample_type[1].type), "l2_misses");
	/* A function that the other event alone has is not in it. */
	assert_int_equal(p.models[0]->functions.n, 1);
	dec_profile_done(&p);
	pf_done(&f);
}

static void test_a_pipe_has_its_events_among_the_records(void **state)
{
	const struct perf_event_attr a = cpu_clock();
	struct dec_profile p;
	struct sbuf out, body;
	struct err err;
	struct pf f;
	(void)state;

	fill(&f);
	sbuf_init(&out, SIZE_MAX / 2);
	sbuf_init(&body, SIZE_MAX / 2);
	(void)sbuf_str(&out, "PERFILE2");
	pf_u64(&out, 16);
	(void)sbuf_add(&body, &a, sizeof(a));
	pf_u64(&body, 4);
	pf_record(&out, 64, 0, &body);
	(void)sbuf_add(&out, f.records.p, f.records.len);
	assert_int_equal(decode(&out, &p, &err), 0);
	assert_int_equal(p.models[0]->samples.n, 6);
	dec_profile_done(&p);
	sbuf_done(&out);

	sbuf_init(&out, SIZE_MAX / 2);
	(void)sbuf_str(&out, "PERFILE2");
	pf_u64(&out, 16);
	(void)sbuf_add(&out, f.records.p, f.records.len);
	assert_int_equal(decode(&out, &p, &err), -EINVAL);
	assert_string_equal(err.msg, "x: byte 16: perf.data: a record before its event");
	dec_profile_done(&p);
	sbuf_done(&out);
	sbuf_done(&body);
	pf_done(&f);
}

/* Compresses the records into two, the first of which ends within one. */
static void compress(struct pf *f)
{
	static char z[65536];
	size_t n = ZSTD_compress(z, sizeof(z), f->records.p, f->records.len, 1);
	struct sbuf half;

	assert_false(ZSTD_isError(n));
	f->records.len = 0;
	for (int i = 0; i < 2; i++) {
		sbuf_init(&half, 65536);
		(void)sbuf_add(&half, i ? z + n / 2 : z, i ? n - n / 2 : n / 2);
		pf_record(&f->records, 81, 0, &half);
		sbuf_done(&half);
	}
}

static void test_compressed_records(void **state)
{
	struct dec_profile p;
	struct err err;
	struct pf f;
	(void)state;

	fill(&f);
	compress(&f);
	assert_int_equal(decode_file(&f, &p, &err), 0);
	assert_int_equal(p.models[0]->samples.n, 6);
	dec_profile_done(&p);

	memset(f.records.p + 8, 0x55, 8); /* the magic number of zstd */
	assert_int_equal(decode_file(&f, &p, &err), -EINVAL);
	assert_true(strstr(err.msg, "compressed"));
	dec_profile_done(&p);
	pf_done(&f);
}

static void test_a_compressed_bomb_is_stopped(void **state)
{
	struct dec_profile p;
	struct err err;
	struct pf f;
	(void)state;

	pf_init(&f);
	pf_attr(&f, &(struct perf_event_attr){.sample_type = PF_TYPE});
	for (int i = 0; i < 2 << 17; i++) {
		/* Records of type 68, which say nothing. */
		pf_u32(&f.records, 68);
		pf_u32(&f.records, 8U << 16);
	}
	compress(&f);
	assert_int_equal(decode_file(&f, &p, &err), -E2BIG);
	assert_string_equal(err.msg, "x: more than 1 MiB after decompression");
	dec_profile_done(&p);
	pf_done(&f);
}

static void test_stacks_that_were_copied_have_the_innermost_frame(void **state)
{
	struct perf_event_attr a = cpu_clock();
	struct dec_profile p;
	struct err err;
	struct pf f;
	struct sbuf b;
	(void)state;

	pf_init(&f);
	a.sample_type |= PERF_SAMPLE_REGS_USER | PERF_SAMPLE_STACK_USER;
	a.exclude_callchain_user = 1;
	a.sample_regs_user = ~0ULL >> 24; /* all that both machines have */
	pf_attr(&f, &a);
	sbuf_init(&b, 65536);
	pf_u64(&b, 0xffffffff81000010);
	pf_u32(&b, 3);
	pf_u32(&b, 4);
	pf_u64(&b, 9);
	pf_u64(&b, 0);
	pf_u64(&b, 5);
	pf_u64(&b, 2);
	pf_u64(&b, PERF_CONTEXT_KERNEL);
	pf_u64(&b, 0xffffffff81000010);
	pf_u64(&b, PERF_SAMPLE_REGS_ABI_64);
	for (uint64_t i = 0; i < 40; i++)
		pf_u64(&b, 0x400000 + i);
	pf_u64(&b, 0);
	pf_record(&f.records, PERF_RECORD_SAMPLE, PERF_RECORD_MISC_KERNEL, &b);
	sbuf_done(&b);
	assert_int_equal(decode_file(&f, &p, &err), 0);
#ifdef __x86_64__
	assert_string_equal(show(p.models[0]), "- 3/4 0xffffffff81000010;0x400008 1 5\n");
#else
	assert_string_equal(show(p.models[0]), "- 3/4 0xffffffff81000010;0x400020 1 5\n");
#endif
	assert_true(str_starts(p.notes[0], "1 samples of --call-graph dwarf"));
	dec_profile_done(&p);
	pf_done(&f);
}

static void test_files_without_samples_and_unfinished_ones(void **state)
{
	const struct perf_event_attr a = cpu_clock();
	struct dec_profile p;
	struct sbuf out;
	struct err err;
	struct pf f;
	(void)state;

	pf_init(&f);
	pf_attr(&f, &a);
	pf_comm(&f, 1, 1, "a", false, 1);
	assert_int_equal(decode_file(&f, &p, &err), 0);
	assert_int_equal(p.n_models, 1);
	assert_int_equal(p.models[0]->samples.n, 0);
	assert_string_equal(p.notes[0], "perf recorded no samples");
	dec_profile_done(&p);
	pf_done(&f);

	fill(&f);
	pf_write(&f, &out);
	memset(out.p + 48, 0, 8); /* the length of the records */
	out.len = 104 + f.attrs.len + f.records.len;
	assert_int_equal(decode(&out, &p, &err), 0);
	assert_int_equal(p.models[0]->samples.n, 6);
	assert_true(str_starts(p.notes[0], "perf record was killed"));
	dec_profile_done(&p);
	sbuf_done(&out);
	pf_done(&f);
}

/* The reason of the one frame, in a file of this machine that was recorded with a device and inode. */
static enum ev_reason reason_in(const char *path, uint32_t major, uint32_t minor, uint64_t ino)
{
	static const struct dec_options names = {.max_unpacked_bytes = 1 << 20};
	const struct perf_event_attr a = cpu_clock();
	struct dec_profile p = {0};
	enum ev_reason reason;
	struct err err = {0};
	struct sbuf b;
	struct pf f;

	pf_init(&f);
	pf_attr(&f, &a);
	sbuf_init(&b, 65536);
	pf_u32(&b, 10);
	pf_u32(&b, 10);
	pf_u64(&b, PF_TEXT);
	pf_u64(&b, 0x1000);
	pf_u64(&b, 0);
	pf_u32(&b, major);
	pf_u32(&b, minor);
	pf_u64(&b, ino);
	pf_u64(&b, 0);
	pf_u64(&b, 0);
	pf_str(&b, path);
	pf_add(&f, PERF_RECORD_MMAP2, PERF_RECORD_MISC_USER, &b, 100);
	pf_sample(&f, PERF_RECORD_MISC_USER, 10, 10, 200, 0, 1, user_stack, 2);
	pf_write(&f, &b);
	assert_int_equal(dec_profile(b.p, b.len, "x", &names, &p, &err), 0);
	assert_int_equal(p.models[0]->locations.n, 1);
	reason = (enum ev_reason)p.models[0]->locations.p[0].reason;
	dec_profile_done(&p);
	sbuf_done(&b);
	pf_done(&f);
	return reason;
}

static void test_files_are_the_recorded_ones(void **state)
{
	char path[4096];
	const ssize_t n = readlink("/proc/self/exe", path, sizeof(path) - 1);
	uint32_t major_, minor_;
	struct stat st;
	(void)state;

	assert_true(n > 0);
	path[n] = 0;
	assert_int_equal(stat(path, &st), 0);
	major_ = major(st.st_dev);
	minor_ = minor(st.st_dev);
	assert_int_not_equal(reason_in(path, major_, minor_, st.st_ino), EV_REASON_FILE_REPLACED);
	assert_int_not_equal(reason_in(path, major_, minor_, st.st_ino), EV_REASON_NO_FILE);
	assert_int_equal(reason_in(path, major_, minor_, st.st_ino + 1), EV_REASON_FILE_REPLACED);
	assert_int_equal(reason_in(path, 0, 0, 0), EV_REASON_FILE_REPLACED);
	/* Without a block device of its own a file system may show another one. */
	if (major_ != 0)
		assert_int_equal(reason_in(path, major_ + 1, minor_, st.st_ino),
		                 EV_REASON_FILE_REPLACED);
	assert_int_equal(stat("/dev/null", &st), 0);
	assert_int_equal(reason_in("/dev/null", major(st.st_dev), minor(st.st_dev), st.st_ino),
	                 EV_REASON_NO_FILE);
}

static void test_truncated_and_damaged_files(void **state)
{
	struct sbuf b;
	struct pf f;
	(void)state;

	fill(&f);
	pf_write(&f, &b);
	for (size_t n = 0; n < b.len; n++) {
		/* Its own memory: a sanitizer sees a read beyond it. */
		_cleanup_free_ char *copy = malloc(n ? n : 1);
		struct dec_profile p = {0};
		struct err err = {0};

		memcpy(copy, b.p, n);
		assert_int_equal(dec_profile(copy, n, "x", &options, &p, &err), -EINVAL);
		assert_true(str_starts(err.msg, "x: "));
		dec_profile_done(&p);
	}
	for (size_t i = 0; i < b.len; i++) {
		for (int k = 0; k < 3; k++) {
			const char was = b.p[i];
			struct dec_profile p;
			struct err err;

			b.p[i] = (char)(k == 0 ? 0 : k == 1 ? 0xff : was ^ 0x10);
			(void)decode(&b, &p, &err); /* does not crash; most are still read */
			dec_profile_done(&p);
			b.p[i] = was;
		}
	}
	sbuf_done(&b);
	pf_done(&f);
}

static void test_errors_have_the_byte(void **state)
{
	struct dec_profile p;
	char want[128];
	struct err err;
	struct sbuf b;
	struct pf f;
	(void)state;

	fill(&f);
	pf_write(&f, &b);
	/* The first record, a sample: it claims to be longer than the stack says, then than the file. */
	b.p[104 + f.attrs.len + 8 + 40] = 9; /* addresses in its stack */
	assert_int_equal(decode(&b, &p, &err), -EINVAL);
	(void)snprintf(want, sizeof(want),
	               "x: byte %zu: perf.data: a record of type 9 is shorter than its content",
	               104 + f.attrs.len);
	assert_string_equal(err.msg, want);
	dec_profile_done(&p);
	b.p[104 + f.attrs.len + 6] = 4;
	assert_int_equal(decode(&b, &p, &err), -EINVAL);
	(void)snprintf(want, sizeof(want), "x: byte %zu: perf.data: a record of 4 bytes",
	               104 + f.attrs.len);
	assert_string_equal(err.msg, want);
	dec_profile_done(&p);
	memcpy(b.p, "2ELIFREP", 8);
	assert_int_equal(decode(&b, &p, &err), -EINVAL);
	assert_string_equal(err.msg, "x: no profile: it is a perf.data of a big-endian machine");
	dec_profile_done(&p);
	sbuf_done(&b);
	pf_done(&f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	        cmocka_unit_test(test_records_apply_in_the_order_of_time),
	        cmocka_unit_test(test_addresses_are_inside_of_their_mappings),
	        cmocka_unit_test(test_forks_pass_mappings_on),
	        cmocka_unit_test(test_a_word_like_a_marker_among_user_addresses_is_none),
	        cmocka_unit_test(test_two_events_are_two_models),
	        cmocka_unit_test(test_a_pipe_has_its_events_among_the_records),
	        cmocka_unit_test(test_compressed_records),
	        cmocka_unit_test(test_a_compressed_bomb_is_stopped),
	        cmocka_unit_test(test_stacks_that_were_copied_have_the_innermost_frame),
	        cmocka_unit_test(test_files_without_samples_and_unfinished_ones),
	        cmocka_unit_test(test_files_are_the_recorded_ones),
	        cmocka_unit_test(test_truncated_and_damaged_files),
	        cmocka_unit_test(test_errors_have_the_byte),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
