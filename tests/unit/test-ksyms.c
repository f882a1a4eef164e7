/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/mman.h>

#include "ksyms/ksyms.h"

static const char kallsyms[] = "0000000000000000 A fixed_percpu_data\n"
                               "ffffffff81000000 T _stext\n"
                               "ffffffff81000000 t local_alias\n"
                               "ffffffff81000000 T _text\n"
                               "ffffffff81000100 t __pfx_do_it\n"
                               "ffffffff81000110 t do_it\n"
                               "ffffffff81000120 D not_code\n"
                               "ffffffff81000200 W weak_one\n"
                               "ffffffff81400000 T far_one\n"
                               "ffffffffc0200000 t mod_fn\t[ext4]\n"
                               "ffffffffc0200040 t _RNvC4rust3run\t[rust_mod]\n"
                               "ffffffffc0100000 t bpf_prog_12_x\t[bpf]\n"
                               "ffffffffc0300000 T last";

static struct ksyms *parse_ok(const char *text, size_t len)
{
	struct ksyms *k = NULL;

	assert_int_equal(ksyms_parse(text, len, &k), 0);
	return k;
}

static void check_kernel(struct ksyms *k)
{
	static const struct {
		uint64_t addr, start;
		const char *name, *linkage;
	} want[] = {
	        {0xffff, 0, NULL, NULL},
	        {0xffffffff80ffffff, 0, NULL, NULL},
	        {0xffffffff81000000, 0xffffffff81000000, "_stext", "_stext"},
	        {0xffffffff810000ff, 0xffffffff81000000, "_stext", "_stext"},
	        {0xffffffff81000100, 0xffffffff81000100, "__pfx_do_it", "__pfx_do_it"},
	        {0xffffffff81000110, 0xffffffff81000110, "do_it", "do_it"},
	        {0xffffffff8100011f, 0xffffffff81000110, "do_it", "do_it"},
	        {0xffffffff81000121, 0, NULL, NULL}, /* data */
	        {0xffffffff811001ff, 0xffffffff81000200, "weak_one", "weak_one"},
	        {0xffffffff81100200, 0, NULL, NULL}, /* more than 1 MiB after it */
	        {0xffffffff81400fff, 0xffffffff81400000, "far_one", "far_one"},
	        {0xffffffff81401000, 0, NULL, NULL}, /* modules are next, on pages of their own */
	        {0xffffffffc0100000, 0xffffffffc0100000, "bpf_prog_12_x [bpf]", "bpf_prog_12_x"},
	        {0xffffffffc01fffff, 0xffffffffc0100000, "bpf_prog_12_x [bpf]", "bpf_prog_12_x"},
	        {0xffffffffc0200001, 0xffffffffc0200000, "mod_fn [ext4]", "mod_fn"},
	        {0xffffffffc0200041, 0xffffffffc0200040, "rust::run [rust_mod]", "_RNvC4rust3run"},
	        {0xffffffffc0200fff, 0xffffffffc0200040, "rust::run [rust_mod]", "_RNvC4rust3run"},
	        {0xffffffffc0201000, 0, NULL, NULL}, /* between modules */
	        {0xffffffffc0300000, 0xffffffffc0300000, "last", "last"},
	        {0xffffffffc0301000, 0, NULL, NULL},
	};
	uint64_t addrs[ARRAY_SIZE(want)], start, end;
	struct sym_batch batch;

	assert_int_equal(ksyms_cnt(k), 9);
	assert_int_equal(ksyms_bad_lines(k), 0);
	for (size_t i = 0; i < ARRAY_SIZE(want); i++)
		addrs[i] = want[i].addr;
	assert_int_equal(ksyms_resolve(k, addrs, ARRAY_SIZE(want), &batch), 0);
	for (size_t i = 0; i < ARRAY_SIZE(want); i++) {
		const struct sym_frame *s = sym_batch_frames(&batch, i);

		if (!want[i].name) {
			assert_int_equal(batch.names[i].reason, EV_REASON_NO_SYMBOL);
			assert_null(s);
			continue;
		}
		assert_int_equal(batch.names[i].reason, EV_REASON_NAMED);
		assert_string_equal(s->name, want[i].name);
		assert_string_equal(s->linkage, want[i].linkage);
		assert_int_equal(batch.names[i].start, want[i].start);
	}
	sym_batch_done(&batch);
	assert_int_equal(ksyms_range(k, &start, &end), 0);
	assert_int_equal(start, 0xffffffff81000000);
	assert_int_equal(end, 0xffffffffc0301000);
}

static void test_kallsyms(void **state)
{
	struct ksyms *k = parse_ok(kallsyms, sizeof(kallsyms) - 1);

	(void)state;
	check_kernel(k);
	/* __pfx_do_it and do_it share their bytes */
	assert_true(ksyms_bytes(k) < sizeof(kallsyms) + 10 * 12);
	ksyms_free(k);
}

/* Data in any order, names of ends, and one address for two things. */
static void test_code_ends_where_something_else_begins(void **state)
{
	static const char text[] = "ffffffff82000000 R data_between\n"
	                           "ffffffff80000000 D before_all_code\n"
	                           "ffffffff81fff000 t last_fn\n"
	                           "ffffffff81fff800 T _etext\n"
	                           "ffffffff83000000 t init_fn\n"
	                           "ffffffff83000900 T _einittext\n"
	                           "ffffffff83000900 t code_after_all\n"
	                           "ffffffff83000a00 T _end\n"
	                           "ffffffff83000b00 d after\n"
	                           "ffffffffc0001ff0 t m1_last\t[m1]\n"
	                           "ffffffffc0010000 t m2_first\t[m2]\n"
	                           "ffffffffc0010080 d m2_data\t[m2]\n"
	                           "ffffffffc0010090 a not_an_address\n"
	                           "0000000000012345 A percpu_thing\n";
	static const struct {
		uint64_t addr;
		const char *name;
	} want[] = {
	        {0xffffffff80000000, NULL},           {0xffffffff81fff7ff, "last_fn"},
	        {0xffffffff81fff800, NULL},           {0xffffffff82000000, NULL},
	        {0xffffffff830008ff, "init_fn"},      {0xffffffff83000900, "code_after_all"},
	        {0xffffffff83000a00, NULL},           {0xffffffff83000b01, NULL},
	        {0xffffffffc0001fff, "m1_last [m1]"}, {0xffffffffc0002000, NULL},
	        {0xffffffffc000ffff, NULL},           {0xffffffffc001007f, "m2_first [m2]"},
	        {0xffffffffc0010080, NULL},
	};
	struct ksyms *k = parse_ok(text, sizeof(text) - 1);
	uint64_t addrs[ARRAY_SIZE(want)], start, end;
	struct sym_batch batch;

	(void)state;
	assert_int_equal(ksyms_cnt(k), 5);
	for (size_t i = 0; i < ARRAY_SIZE(want); i++)
		addrs[i] = want[i].addr;
	assert_int_equal(ksyms_resolve(k, addrs, ARRAY_SIZE(want), &batch), 0);
	for (size_t i = 0; i < ARRAY_SIZE(want); i++) {
		const struct sym_frame *s = sym_batch_frames(&batch, i);

		if (!want[i].name != !s || (s && strcmp(s->name, want[i].name) != 0))
			fail_msg("%llx: %s", (unsigned long long)addrs[i], s ? s->name : "none");
	}
	sym_batch_done(&batch);
	assert_int_equal(ksyms_range(k, &start, &end), 0);
	assert_int_equal(start, 0xffffffff81fff000);
	assert_int_equal(end, 0xffffffffc0010080);
	ksyms_free(k);
	assert_int_equal(ksyms_parse("ffffffff81000000 D only_data", 28, &k), -ENODATA);
}

static int load_text(const char *text, size_t len, struct ksyms **ret, struct err *err)
{
	int fd = memfd_create("kallsyms", MFD_CLOEXEC), r;
	struct sbuf path;

	assert_int_equal(file_write_full(fd, text, len), 0);
	sbuf_init(&path, 64);
	sbuf_addf(&path, "/proc/self/fd/%d", fd);
	r = ksyms_load(path.p, ret, err);
	sbuf_done(&path);
	close(fd);
	return r;
}

static void test_kallsyms_from_file(void **state)
{
	struct ksyms *k = NULL;
	struct err err = {0};
	struct sbuf b;

	(void)state;
	assert_int_equal(load_text(kallsyms, sizeof(kallsyms) - 1, &k, &err), 0);
	check_kernel(k);
	ksyms_free(k);
	k = NULL;

	/* lines of all lengths fall across the ends of chunks; one is longer than a chunk */
	sbuf_init(&b, 16 << 20);
	for (int i = 0; i < 40000; i++)
		sbuf_addf(&b, "%016x t f%.*s_%d\n", 0x1000 + i * 16, i % 61,
		          "abcdefghijklmnopqrstuvwxyzabcdefghijklmnopqrstuvwxyzabcdefghijkl", i);
	sbuf_str(&b, "fff0000000000000 t ");
	for (int i = 0; i < 200000; i++)
		sbuf_char(&b, 'x');
	sbuf_str(&b, "\nfff0000000000010 t after\n");
	assert_int_equal(load_text(b.p, b.len, &k, &err), 0);
	assert_int_equal(ksyms_cnt(k), 40001);
	assert_int_equal(ksyms_bad_lines(k), 1);
	for (int i = 0; i < 40000; i += 7) {
		uint64_t addr = 0x1000 + (uint64_t)i * 16 + 15;
		struct sym_batch batch;
		char want[96];

		snprintf(want, sizeof(want), "f%.*s_%d", i % 61,
		         "abcdefghijklmnopqrstuvwxyzabcdefghijklmnopqrstuvwxyzabcdefghijkl", i);
		assert_int_equal(ksyms_resolve(k, &addr, 1, &batch), 0);
		assert_string_equal(sym_batch_frames(&batch, 0)->name, want);
		sym_batch_done(&batch);
	}
	ksyms_free(k);
	k = NULL;
	sbuf_done(&b);

	assert_int_equal(ksyms_load("/proc/self/no-such-file", &k, &err), -ENOENT);
	assert_int_equal(err.code, -ENOENT);
	assert_int_equal(ksyms_load("/proc/self", &k, &err), -EISDIR);
	assert_null(k);
}

static void test_hidden_addresses(void **state)
{
	static const char hidden[] = "0000000000000000 A fixed\n"
	                             "0000000000000000 T _stext\n"
	                             "0000000000000000 t f\t[m]\n";
	static const char one[] = "0000000000000000 T _stext\nffffffff81000000 T f\n";
	struct ksyms *k = NULL;
	struct err err = {0};

	(void)state;
	assert_int_equal(ksyms_parse(hidden, sizeof(hidden) - 1, &k), -EPERM);
	assert_int_equal(load_text(hidden, sizeof(hidden) - 1, &k, &err), -EPERM);
	assert_non_null(strstr(err.msg, "CAP_SYSLOG"));
	assert_int_equal(ksyms_parse("", 0, &k), -ENODATA);
	assert_int_equal(load_text("", 0, &k, &err), -ENODATA);
	assert_null(k);
	k = parse_ok(one, sizeof(one) - 1);
	assert_int_equal(ksyms_cnt(k), 1);
	ksyms_free(k);
}

static void test_bad_lines_cost_themselves_only(void **state)
{
	static const char *bad[] = {
	        "",
	        "\n",
	        "x",
	        "ffffffff81000010",
	        "ffffffff81000010 t",
	        "ffffffff81000010 t ",
	        "ffffffff81000010  t f",
	        "ffffffff810000100 t f", /* 17 digits */
	        " ffffffff81000010 t f",
	        "0xffffffff81000010 t f",
	        "ffffffff81000010 tt f",
	        "ffffffff81000010 t f g",
	        "ffffffff81000010 t f\tm",
	        "ffffffff81000010 t f\t[]",
	        "ffffffff81000010 t f\t[m",
	        "ffffffff81000010 t \t[m]",
	        "ffffffff81000010 t f\r",
	        "ffffffff81000010\tt\tf",
	        "ffffffffffffffff t f", /* found by fuzzing: its end is not a number */
	};
	struct sbuf b;

	(void)state;
	sbuf_init(&b, 1 << 16);
	for (size_t i = 1; i < ARRAY_SIZE(bad); i++) {
		struct ksyms *k;

		sbuf_reset(&b);
		sbuf_addf(&b, "ffffffff81000000 t first\n%s\nffffffff81000020 t second\n",
		          i == 1 ? "" : bad[i]);
		k = parse_ok(b.p, b.len);
		assert_int_equal(ksyms_cnt(k), 2);
		if (ksyms_bad_lines(k) != 1)
			fail_msg("'%s' was not counted", bad[i]);
		ksyms_free(k);
	}
	/* a name that is too long */
	sbuf_reset(&b);
	sbuf_str(&b, "ffffffff81000000 t first\nffffffff81000010 t ");
	for (int i = 0; i < 1025; i++)
		sbuf_char(&b, 'x');
	{
		struct ksyms *k = parse_ok(b.p, b.len);

		assert_int_equal(ksyms_cnt(k), 1);
		assert_int_equal(ksyms_bad_lines(k), 1);
		ksyms_free(k);
		k = parse_ok(b.p, b.len - 1); /* one less */
		assert_int_equal(ksyms_cnt(k), 2);
		ksyms_free(k);
	}
	sbuf_done(&b);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	        cmocka_unit_test(test_kallsyms),
	        cmocka_unit_test(test_code_ends_where_something_else_begins),
	        cmocka_unit_test(test_kallsyms_from_file),
	        cmocka_unit_test(test_hidden_addresses),
	        cmocka_unit_test(test_bad_lines_cost_themselves_only),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
