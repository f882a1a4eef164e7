/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "encode/encode.h"

static uint32_t str(struct prof_model *m, const char *s)
{
	uint32_t id;

	assert_int_equal(prof_model_string(m, s, &id), 0);
	return id;
}

static struct prof_model *model(void)
{
	struct prof_model *m;

	assert_int_equal(prof_model_new(&m), 0);
	m->n_types = 2;
	m->sample_type[0] = (struct prof_type){str(m, "samples"), str(m, "count")};
	m->sample_type[1] = (struct prof_type){str(m, "cpu"), str(m, "nanoseconds")};
	return m;
}

static struct prof_line line(struct prof_model *m, const char *name)
{
	const struct prof_function fn = {.name = str(m, name)};
	struct prof_line l = {0};

	assert_int_equal(prof_model_function(m, &fn, &l.function), 0);
	return l;
}

/* @names: innermost inlined function first, up to a NULL. */
static uint32_t location(struct prof_model *m, uint32_t mapping, uint64_t addr,
                         const char *const *names)
{
	struct prof_line lines[8];
	uint32_t n = 0, id;

	for (; names && names[n]; n++)
		lines[n] = line(m, names[n]);
	assert_int_equal(prof_model_location(m, mapping, addr, EV_REASON_NAMED, lines, n, &id), 0);
	return id;
}

static uint32_t mapping(struct prof_model *m, const char *path, uint64_t start, uint64_t offset)
{
	const struct prof_mapping map = {
	        .start = start, .limit = start + 0x10000, .offset = offset, .path = str(m, path)};
	uint32_t id;

	assert_int_equal(prof_model_mapping(m, &map, &id), 0);
	return id;
}

static void sample(struct prof_model *m, const uint32_t *locs, uint32_t n, int64_t pid, int64_t tid,
                   const char *comm, int64_t ns)
{
	const struct prof_label labels[] = {{.key = str(m, "pid"), .num = pid},
	                                    {.key = str(m, "tid"), .num = tid},
	                                    {.key = str(m, "comm"), .str = str(m, comm)}};
	const int64_t values[] = {1, ns};

	assert_int_equal(prof_model_sample(m, locs, n, labels, 3, values), 0);
}

static void expect(const struct prof_model *m, struct enc_folded_options o, const char *want)
{
	struct sbuf b;

	sbuf_init(&b, 1 << 20);
	assert_int_equal(sbuf_str(&b, "before\n"), 0);
	assert_int_equal(enc_folded(m, &o, &b), 0);
	assert_memory_equal(b.p, "before\n", 7);
	assert_string_equal(b.p + 7, want);
	sbuf_done(&b);
}

static void test_lines_are_root_first_and_merged(void **state)
{
	struct prof_model *m = model();
	uint32_t bin = mapping(m, "/usr/bin/serve", 0x400000, 0x1000);
	uint32_t kernel = mapping(m, "[kernel]", 0xffff800000000000, 0);
	uint32_t leaf =
	        location(m, bin, 0x400010, (const char *const[]){"inner", "middle", "outer", NULL});
	uint32_t other =
	        location(m, bin, 0x400020, (const char *const[]){"inner", "middle", "outer", NULL});
	uint32_t root = location(m, bin, 0x400030, (const char *const[]){"main", NULL});
	uint32_t nameless = location(m, bin, 0x400040, NULL);
	uint32_t nowhere = location(m, 0, 0x77, NULL);
	uint32_t read = location(m, kernel, 0xffff800000000100,
	                         (const char *const[]){"vfs_read", "ksys_read", NULL});
	uint32_t deep = location(m, kernel, 0xffff800000000200, NULL);

	(void)state;
	sample(m, (const uint32_t[]){leaf, root}, 2, 7, 7, "serve", 1500);
	sample(m, (const uint32_t[]){other, root}, 2, 7, 8, "worker", 2000);
	sample(m, (const uint32_t[]){deep, read, nameless, root}, 4, 7, 8, "worker", 10);
	sample(m, (const uint32_t[]){nowhere}, 1, 9, 9, "x", 1000);
	sample(m, NULL, 0, 9, 9, "x", 3000);
	expect(m, (struct enc_folded_options){0},
	       "0x77 1\n[no stack] 1\nmain;outer;middle;inner 2\n"
	       "main;serve+0x1040;ksys_read_[k];vfs_read_[k];0xffff800000000200_[k] 1\n");
	/* 3,500 ns are one line of 4 us, not 2 and 2; 10 ns do not vanish. */
	expect(m, (struct enc_folded_options){.type_idx = 1, .divisor = 1000},
	       "0x77 1\n[no stack] 3\nmain;outer;middle;inner 4\n"
	       "main;serve+0x1040;ksys_read_[k];vfs_read_[k];0xffff800000000200_[k] 1\n");
	expect(m, (struct enc_folded_options){.root = ENC_FOLDED_THREAD},
	       "serve-7/7;main;outer;middle;inner 1\n"
	       "worker-7/8;main;outer;middle;inner 1\n"
	       "worker-7/8;main;serve+0x1040;ksys_read_[k];vfs_read_[k];"
	       "0xffff800000000200_[k] 1\n"
	       "x-9/9 1\nx-9/9;0x77 1\n");
	prof_model_free(m);
}

static void test_processes_have_the_name_of_their_main_thread(void **state)
{
	struct prof_model *m = model();
	uint32_t a = location(m, 0, 1, (const char *const[]){"a", NULL});

	(void)state;
	sample(m, &a, 1, 7, 8, "worker", 1);
	sample(m, &a, 1, 7, 7, "serve", 1);
	sample(m, &a, 1, 7, 9, "later", 1);
	sample(m, &a, 1, 5, 6, "only", 1);
	expect(m, (struct enc_folded_options){.root = ENC_FOLDED_PROCESS},
	       "only-5;a 1\nserve-7;a 3\n");
	prof_model_free(m);
}

static void test_names_cannot_break_a_line(void **state)
{
	struct prof_model *m = model();
	const uint32_t locs[] = {
	        location(m, 0, 1,
	                 (const char *const[]){"a;b\nc\x1b[2J\xc2\x9b\xe2\x80\xae d", NULL}),
	        location(m, 0, 2, (const char *const[]){"\xff\xc3\xa9<script>\"", NULL})};

	(void)state;
	sample(m, locs, 2, 1, 1, "x;y", 1);
	expect(m, (struct enc_folded_options){.root = ENC_FOLDED_PROCESS},
	       "x:y-1;?\xc3\xa9<script>\";a:b?c?[2J?? d 1\n");
	prof_model_free(m);
}

static void test_functions_without_a_name_have_that_of_their_file(void **state)
{
	static const char *const empty[] = {"", NULL}, *const blank[] = {"  ", NULL},
	                         *const outer[] = {"leaf", "", NULL};
	struct prof_model *m = model();
	uint32_t lib = mapping(m, "/lib/a;b.so", 0x400000, 0),
	         kernel = mapping(m, "[kernel]", 0, 0);
	const uint32_t root[] = {location(m, lib, 0x400010, outer), location(m, 0, 0, empty)};
	const uint32_t leaf[] = {location(m, kernel, 0x30, empty),
	                         location(m, lib, 0x400020, blank)};

	(void)state;
	sample(m, root, 2, 1, 1, "x", 1);
	sample(m, leaf, 2, 1, 1, "x", 1);
	expect(m, (struct enc_folded_options){0},
	       "[a:b.so];[kernel]_[k] 1\n"
	       "[unknown];[a:b.so];leaf 1\n");
	prof_model_free(m);
}

static void test_the_cap_of_the_output_is_kept(void **state)
{
	const struct enc_folded_options o = {0};
	struct prof_model *m = model();
	uint32_t a = location(m, 0, 1, (const char *const[]){"function", NULL});
	struct sbuf b;

	(void)state;
	sample(m, &a, 1, 1, 1, "x", 1);
	sbuf_init(&b, 8);
	assert_int_equal(sbuf_str(&b, "abc"), 0);
	assert_int_equal(enc_folded(m, &o, &b), -E2BIG);
	assert_int_equal(b.len, 3);
	assert_string_equal(b.p, "abc");
	assert_int_equal(enc_folded(m, &o, &b), -E2BIG);
	sbuf_done(&b);
	prof_model_free(m);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	        cmocka_unit_test(test_lines_are_root_first_and_merged),
	        cmocka_unit_test(test_processes_have_the_name_of_their_main_thread),
	        cmocka_unit_test(test_names_cannot_break_a_line),
	        cmocka_unit_test(test_functions_without_a_name_have_that_of_their_file),
	        cmocka_unit_test(test_the_cap_of_the_output_is_kept),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
