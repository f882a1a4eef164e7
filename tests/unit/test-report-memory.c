/* SPDX-License-Identifier: Apache-2.0 */
/* Reports without memory: each allocation fails once; nothing leaks. Without regular expressions:
 * those of glibc 2.36 leak when memory is short. */
#include "profile_fixture.h"
#include "report_models.h"

#if OWN_ALLOCATOR
static const char *const LINES[] = {
        "comm=web pid=1 tid=1|main;serve;read@/lib/libc.so 10 1000",
        "comm=db pid=2 tid=3|main;query;query;parse^scan 20 2000",
        "comm=db pid=2 tid=4|main;?@/lib/libz.so 7 700",
        NULL,
};

static int read_source(void *arg, const char *path, struct ev_source *ret, struct err *err)
{
	static const char text[] = "1\n2\n3\n4\n5\n6\n7\n8\n9\n10\n11\n12\n13\n";

	(void)arg;
	(void)err;
	*ret = (struct ev_source){.path = path, .text = text, .len = sizeof(text) - 1};
	return 0;
}

static int read_sites(void *arg, const char *path, const char *build_id, const uint64_t *offs,
                      size_t n, struct ev_site *ret, struct err *err)
{
	(void)arg;
	(void)build_id;
	if (strcmp(path, "/bin/app") != 0)
		return err_set(err, -ENOENT, "no %s", path);
	for (size_t i = 0; i < n; i++)
		ret[i] = (struct ev_site){
		        .addr = offs[i] + 1, .start = 1, .end = UINT64_MAX, .symbol = "symbol"};
	return 0;
}

static int read_instructions(void *arg, uint64_t start, uint64_t end,
                             const struct ev_instruction **ret, size_t *ret_n, struct err *err)
{
	static const struct ev_instruction code[] = {{1, "nop"}, {2, "ret"}};

	(void)arg;
	(void)start;
	(void)end;
	(void)err;
	*ret = code;
	*ret_n = ARRAY_SIZE(code);
	return 0;
}

/* Returns the number of allocations that failed before it went well. */
static long fail_each(const struct rep_options *o, const struct rep_input *in, size_t n)
{
	for (long i = 0; i < 100000; i++) {
		const long before = alloc_live;
		struct err err = {0};
		struct sbuf out;
		int r;

		sbuf_init(&out, 1 << 24);
		alloc_left = i;
		r = rep_write(o, in, n, &out, &err);
		alloc_left = -1;
		sbuf_done(&out);
		if (alloc_live != before)
			fail_msg("view %d, allocation %ld: %ld are left", (int)o->view, i,
			         alloc_live - before);
		if (r == 0)
			return i;
		if (r != -ENOMEM)
			fail_msg("view %d, allocation %ld: %d %s", (int)o->view, i, r, err.msg);
	}
	return 0;
}

static void test_all_views_fail_as_a_whole(void **state)
{
	_cleanup_(prof_model_freep) struct prof_model *a = rm_model(LINES), *b = rm_model(LINES);
	struct rep_input in[] = {{.name = "a", .model = a}, {.name = "b", .model = b}};
	const struct rep_reader reader = {
	        .source = read_source, .sites = read_sites, .instructions = read_instructions};
	const struct rep_options views[] = {
	        {.view = REP_ANNOTATE, .subject = "query", .reader = &reader},
	        {.view = REP_ANNOTATE,
	         .subject = "read",
	         .reader = &reader,
	         .format = REP_MARKDOWN},
	        {.view = REP_TOP, .filter = {.tagfocus = "pid=1:2"}},
	        {.view = REP_PEEK, .subject = "query"},
	        {.view = REP_TREE, .format = REP_MARKDOWN},
	        {.view = REP_BY, .subject = "process", .format = REP_JSON},
	        {.view = REP_BY, .subject = "line"},
	        {.view = REP_DIFF, .base = in, .n_base = 1, .format = REP_JSON},
	        {.format = REP_FOLDED},
	};

	(void)state;
	assert_int_equal(prof_model_comment(a, "# perf-agent: 1; note: x"), 0);
	for (size_t i = 0; i < ARRAY_SIZE(views); i++)
		assert_true(fail_each(&views[i], in, 2) > 10);
}
#endif

int main(void)
{
#if OWN_ALLOCATOR
	const struct CMUnitTest tests[] = {
	        cmocka_unit_test(test_all_views_fail_as_a_whole),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
#else
	printf("1..0 # SKIP the sanitizer has its own allocator\n");
	return 0;
#endif
}
