/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "encode/enc_flame_priv.h"

#define HOSTILE "</script><b>\"a\" & 'c';\n\x1b[2J\xff\xef\xbf\xbf"

/* ---- memory ---------------------------------------------------------------------------------- */

static int64_t allocations = -1; /* how many are left until one fails; below 0: none fails */

void *__real_malloc(size_t size);
void *__real_calloc(size_t n, size_t size);
void *__real_realloc(void *p, size_t size);
void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t n, size_t size);
void *__wrap_realloc(void *p, size_t size);

static bool fails(void)
{
	return allocations >= 0 && allocations-- == 0;
}

void *__wrap_malloc(size_t size)
{
	return fails() ? NULL : __real_malloc(size);
}

void *__wrap_calloc(size_t n, size_t size)
{
	return fails() ? NULL : __real_calloc(n, size);
}

void *__wrap_realloc(void *p, size_t size)
{
	return fails() ? NULL : __real_realloc(p, size);
}

/* ---- models ---------------------------------------------------------------------------------- */

static uint32_t str(struct prof_model *m, const char *s)
{
	uint32_t id;

	assert_int_equal(prof_model_string(m, s, &id), 0);
	return id;
}

static struct prof_model *new_model(bool offcpu)
{
	struct prof_model *m;

	assert_int_equal(prof_model_new(&m), 0);
	m->n_types = 2;
	m->sample_type[0] =
	        (struct prof_type){str(m, offcpu ? "contentions" : "samples"), str(m, "count")};
	m->sample_type[1] =
	        (struct prof_type){str(m, offcpu ? "offcpu" : "cpu"), str(m, "nanoseconds")};
	m->default_type = m->sample_type[1].type;
	return m;
}

static uint32_t mapping(struct prof_model *m, const char *path)
{
	const struct prof_mapping map = {.path = str(m, path)};
	uint32_t id = 0;

	if (*path)
		assert_int_equal(prof_model_mapping(m, &map, &id), 0);
	return id;
}

struct fn {
	const char *name, *linkage, *file;
};

/* @fns: innermost first, up to one without a name. */
static uint32_t location(struct prof_model *m, const char *path, uint64_t addr, uint8_t reason,
                         const struct fn *fns)
{
	struct prof_line lines[8] = {0};
	uint32_t n = 0, id;

	for (; fns && fns[n].name; n++) {
		const struct prof_function f = {
		        .name = str(m, fns[n].name),
		        .system_name = str(m, fns[n].linkage ? fns[n].linkage : ""),
		        .file = str(m, fns[n].file ? fns[n].file : "")};

		assert_int_equal(prof_model_function(m, &f, &lines[n].function), 0);
	}
	assert_int_equal(prof_model_location(m, mapping(m, path), addr, reason, lines, n, &id), 0);
	return id;
}

static uint32_t named(struct prof_model *m, const char *name)
{
	static uint64_t addr = 1;

	return location(m, "/bin/x", ++addr, EV_REASON_NAMED,
	                (const struct fn[]){{.name = name}, {0}});
}

static void sample(struct prof_model *m, const uint32_t *locs, uint32_t n, int64_t count,
                   int64_t ns)
{
	const struct prof_label labels[] = {{.key = str(m, "pid"), .num = 7},
	                                    {.key = str(m, "comm"), .str = str(m, HOSTILE)}};
	const int64_t values[] = {count, ns};

	assert_int_equal(prof_model_sample(m, locs, n, labels, 2, values), 0);
}

static struct prof_model *hostile_model(void)
{
	struct prof_model *m = new_model(false);
	const uint32_t locs[] = {named(m, HOSTILE),
	                         location(m, "/bin/" HOSTILE, 9, EV_REASON_NAMED,
	                                  (const struct fn[]){{.name = "main"}, {0}})};

	sample(m, locs, 2, 3, 3000000);
	assert_int_equal(prof_model_comment(m, "# perf-agent: 1; target: " HOSTILE), 0);
	return m;
}

static char *page_of(const struct prof_model *const *models, size_t n, size_t *len)
{
	struct sbuf b;

	struct enc_flame_profile profiles[2] = {0};

	for (size_t i = 0; i < n; i++)
		profiles[i].model = models[i];
	sbuf_init(&b, 1 << 24);
	assert_int_equal(sbuf_str(&b, "before"), 0);
	assert_int_equal(enc_flame_html(profiles, n, &b), 0);
	assert_memory_equal(b.p, "before", 6);
	*len = b.len;
	return sbuf_take(&b);
}

static char *picture_of(const struct prof_model *m, uint32_t type)
{
	struct sbuf b;

	sbuf_init(&b, 1 << 24);
	assert_int_equal(enc_flame_svg(m, type, &b), 0);
	return sbuf_take(&b);
}

/* ---- the tree -------------------------------------------------------------------------------- */

static const char *node_name(const struct flame_tree *t, uint32_t i)
{
	return intern_get(t->strings, t->frames.p[t->nodes.p[i].frame].name, NULL);
}

static void test_nodes_are_in_preorder_and_siblings_in_order_of_names(void **state)
{
	static const struct {
		uint32_t parent;
		const char *name;
	} want[] = {{0, "main"}, {1, "a"}, {1, "b"}, {3, "a"}, {3, "c"}};
	struct prof_model *m = new_model(false);
	uint32_t root = named(m, "main"), c = named(m, "c"), b = named(m, "b"), a = named(m, "a");
	struct intern *strings;
	struct flame_tree *t;

	(void)state;
	sample(m, (const uint32_t[]){c, b, root}, 3, 1, 10);
	sample(m, (const uint32_t[]){a, root}, 2, 2, 20);
	sample(m, (const uint32_t[]){a, b, root}, 3, 4, 40);
	sample(m, (const uint32_t[]){b, root}, 2, 8, 80);
	sample(m, NULL, 0, 16, 160);
	assert_int_equal(intern_new(100, 1 << 20, &strings), 0);
	assert_int_equal(flame_tree_new(m, strings, &t), 0);
	assert_int_equal(t->nodes.n, ARRAY_SIZE(want) + 1);
	for (uint32_t i = 0; i < ARRAY_SIZE(want); i++) {
		assert_int_equal(t->nodes.p[i + 1].parent, want[i].parent);
		assert_string_equal(node_name(t, i + 1), want[i].name);
	}
	assert_memory_equal(t->sample_node.p, ((const uint32_t[]){5, 2, 4, 3, FLAME_ROOT}),
	                    5 * sizeof(uint32_t));
	flame_tree_free(t);
	intern_free(strings);
	prof_model_free(m);
}

static void test_kinds_of_frames(void **state)
{
	static const struct {
		const char *path;
		uint8_t reason;
		struct fn fns[3];
		enum flame_kind want[2]; /* outermost first */
	} cases[] = {
	        {"/bin/x", EV_REASON_NAMED, {{"f", "f", "f.c"}}, {FLAME_NATIVE}},
	        {"/bin/x", EV_REASON_NAMED, {{"f()", "_Z1fv", "f.cc"}}, {FLAME_CPP}},
	        {"/bin/x",
	         EV_REASON_NAMED,
	         {{"a::f", "_ZN1a1f17h0123456789abcdefE", "f.rs"}},
	         {FLAME_RUST}},
	        {"/bin/x", EV_REASON_NAMED, {{"a::f", "_RNvC1a1f", "f.rs"}}, {FLAME_RUST}},
	        {"/bin/x", EV_REASON_NAMED, {{"main.f", "main.f", "f.go"}}, {FLAME_GO}},
	        {"[jit]", EV_REASON_NAMED, {{"py::f", "", ""}}, {FLAME_JIT}},
	        {"[jit]", EV_REASON_JIT, {{"0x10 [jit]", "", ""}}, {FLAME_UNNAMED}},
	        {"[kernel]", EV_REASON_NAMED, {{"vfs_read", "", ""}}, {FLAME_KERNEL}},
	        {"[kernel]", EV_REASON_NO_SYMBOL, {{0}}, {FLAME_KERNEL}},
	        {"/bin/x",
	         EV_REASON_NAMED,
	         {{"in", "_Z2inv", "f.cc"}, {"f()", "_Z1fv", "f.cc"}},
	         {FLAME_CPP, FLAME_INLINED}},
	        {"/bin/x", EV_REASON_NO_SYMTAB, {{"0x10 [x]", "", ""}}, {FLAME_UNNAMED}},
	        {"", EV_REASON_NAMED, {{"[truncated]", "", ""}}, {FLAME_MARK}},
	        {"/bin/x", EV_REASON_NO_SYMTAB, {{0}}, {FLAME_HEURISTIC}},
	        {"/bin/x",
	         EV_REASON_NAMED,
	         {{"in", "_Z2inv", "f.cc"}, {"f()", "_Z1fv", "f.cc"}},
	         {FLAME_HEURISTIC, FLAME_INLINED}},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct prof_model *m = new_model(false);
		uint32_t loc = location(m, cases[i].path, *cases[i].path ? 0x10 : 0,
		                        cases[i].reason, cases[i].fns);
		struct intern *strings;
		struct flame_tree *t;

		if (cases[i].want[0] == FLAME_HEURISTIC)
			prof_model_uncovered(m, loc);
		sample(m, &loc, 1, 1, 1);
		assert_int_equal(intern_new(100, 1 << 20, &strings), 0);
		assert_int_equal(flame_tree_new(m, strings, &t), 0);
		for (uint32_t k = 1; k < t->nodes.n; k++)
			assert_int_equal(t->frames.p[t->nodes.p[k].frame].kind,
			                 cases[i].want[k - 1]);
		flame_tree_free(t);
		intern_free(strings);
		prof_model_free(m);
	}
}

static void test_text_is_utf8_without_control_bytes(void **state)
{
	struct intern *strings;
	uint32_t id;

	(void)state;
	assert_int_equal(intern_new(100, 1 << 20, &strings), 0);
	assert_int_equal(
	        flame_string(strings, "a\xff\n\x7f\xc2\x9b\xe2\x81\xa6\xc3\xa9\xe2\x82", &id), 0);
	assert_string_equal(intern_get(strings, id, NULL), "a\\xff????\xc3\xa9\\xe2\\x82");
	intern_free(strings);
}

/* ---- the page -------------------------------------------------------------------------------- */

static void test_page_is_whole_and_needs_no_network(void **state)
{
	static const char begin[] = "<script type=\"text/plain\" id=\"data\">";
	struct prof_model *m = hostile_model();
	const struct prof_model *models[] = {m, m};
	size_t len;
	char *page = page_of(models, 2, &len), *data;

	(void)state;
	assert_int_equal(strlen(page), len);
	assert_memory_equal(page + 6, "<!DOCTYPE html>\n", 16);
	assert_string_equal(page + len - 8, "</html>\n");
	assert_null(strstr(page, "http:"));
	assert_null(strstr(page, "https:"));
	assert_null(strstr(page, "innerHTML"));
	data = strstr(page, begin);
	assert_non_null(data);
	data += strlen(begin);
	assert_null(strstr(data, begin));
	len = strcspn(data, "<");
	assert_true(len > 100);
	for (size_t i = 0; i < len; i++)
		assert_true(data[i] >= '#' && data[i] <= 'y' && data[i] != '\\');
	data += len;
	assert_memory_equal(data, "</script>\n", 10);
	free(page);
	prof_model_free(m);
}

static void test_equal_models_give_equal_bytes(void **state)
{
	struct prof_model *m = hostile_model(), *n = new_model(false);
	const struct prof_model *one = m, *two = n;
	size_t len, other;
	char *page, *again;

	(void)state;
	page = page_of(&one, 1, &len);
	again = page_of(&one, 1, &other);
	assert_int_equal(len, other);
	assert_memory_equal(page, again, len);
	free(again);
	again = page_of(&two, 1, &other);
	assert_true(len != other || memcmp(page, again, len) != 0);
	free(again);
	free(page);
	prof_model_free(m);
	prof_model_free(n);
}

static void test_failures_leave_the_buffer_as_it_was(void **state)
{
	struct prof_model *m = hostile_model();
	const struct enc_flame_profile one = {.model = m};

	(void)state;
	for (size_t room = 6; room < 400; room += 131) {
		struct sbuf b;

		sbuf_init(&b, room);
		assert_int_equal(sbuf_str(&b, "before"), 0);
		assert_int_equal(enc_flame_html(&one, 1, &b), -E2BIG);
		assert_int_equal(b.err, -E2BIG);
		assert_string_equal(b.p, "before");
		assert_int_equal(enc_flame_html(&one, 1, &b), -E2BIG); /* it sticks */
		sbuf_done(&b);

		sbuf_init(&b, room);
		assert_int_equal(sbuf_str(&b, "before"), 0);
		assert_int_equal(enc_flame_svg(m, 1, &b), -E2BIG);
		assert_string_equal(b.p, "before");
		sbuf_done(&b);
	}
	prof_model_free(m);
}

static void test_profiles_of_other_types_are_not_compared(void **state)
{
	struct prof_model *on = hostile_model(), *off = new_model(true), *again = hostile_model();
	struct enc_flame_diff d = {
	        .before = on, .after = off, .before_name = HOSTILE, .after_name = "b"};
	const struct enc_time_sample wrong = {.sample = 1};
	const struct enc_flame_profile p = {.model = on, .times = &wrong, .n_times = 1};
	struct sbuf b;

	(void)state;
	sbuf_init(&b, 1 << 24);
	assert_int_equal(sbuf_str(&b, "before"), 0);
	assert_int_equal(enc_flame_diff_html(&d, &b), -EINVAL);
	assert_string_equal(b.p, "before");
	d.after = again;
	assert_int_equal(enc_flame_diff_html(&d, &b), 0);
	assert_true(b.len > 1000);
	d.after = off;
	assert_int_equal(enc_flame_diff_svg(&d, 1, &b), -EINVAL);
	sbuf_reset(&b);
	assert_int_equal(enc_flame_html(&p, 1, &b), -EINVAL); /* it has one sample */
	assert_int_equal(b.len, 0);
	sbuf_done(&b);
	prof_model_free(on);
	prof_model_free(off);
	prof_model_free(again);
}

static void test_off_cpu_changes_are_not_by_chance(void **state)
{
	(void)state;
	for (int off = 0; off < 2; off++) {
		struct prof_model *m = new_model(off);
		const struct enc_flame_diff d = {
		        .before = m, .after = m, .before_name = "a", .after_name = "b"};
		const int64_t values[] = {1, 100};
		struct sbuf b;

		assert_int_equal(prof_model_sample(m, NULL, 0, NULL, 0, values), 0);
		sbuf_init(&b, 1 << 20);
		assert_int_equal(enc_flame_diff_svg(&d, 1, &b), 0);
		assert_int_equal(strstr(b.p, ": small, or may be chance") == NULL, off);
		sbuf_done(&b);
		prof_model_free(m);
	}
}

static int encode(const struct prof_model *m, int format, struct sbuf *b)
{
	const struct enc_time_sample times[] = {{.start_ns = 7}, {.duration_ns = 4}};
	const struct enc_flame_diff d = {
	        .before = m, .after = m, .before_name = "a", .after_name = HOSTILE};

	if (format == 0)
		return enc_flame_html(
		        &(struct enc_flame_profile){.model = m, .times = times, .n_times = 2}, 1,
		        b);
	if (format == 1)
		return enc_flame_diff_svg(&d, 1, b);
	return format == 2 ? enc_flame_svg(m, 1, b)
	                   : enc_folded(m, &(struct enc_folded_options){.root = 1}, b);
}

static void test_without_memory_the_buffer_stays_as_it_was(void **state)
{
	struct prof_model *m = hostile_model();

	(void)state;
	for (int format = 0; format < 4; format++) {
		int64_t left = 0;

		for (int r = -ENOMEM; r < 0; left++) {
			struct sbuf b;

			sbuf_init(&b, 1 << 24);
			assert_int_equal(sbuf_str(&b, "before"), 0);
			allocations = left;
			r = encode(m, format, &b);
			allocations = -1;
			assert_true(r == 0 || r == -ENOMEM);
			if (r < 0)
				assert_string_equal(b.p, "before");
			sbuf_done(&b);
		}
		assert_true(left > 5);
	}
	prof_model_free(m);
}

/* ---- the picture ----------------------------------------------------------------------------- */

static void test_picture_escapes_names(void **state)
{
	struct prof_model *m = hostile_model();
	char *svg = picture_of(m, 1);

	(void)state;
	assert_non_null(strstr(svg,
	                       "<title>&lt;/script&gt;&lt;b&gt;&quot;a&quot; &amp; 'c';??[2J\\xff? "
	                       "(3.00 ms, 100.0 %, 3 samples)\nnative /bin/x</title>"));
	assert_null(strstr(svg, "<b>"));
	assert_null(strstr(svg, "\x1b"));
	assert_non_null(strstr(svg, "all frames are drawn"));
	free(svg);
	prof_model_free(m);
}

static void test_picture_is_proportional(void **state)
{
	struct prof_model *m = new_model(true);
	uint32_t root = named(m, "main"), a = named(m, "aaaa"), b = named(m, "bbbb");
	char *svg;

	(void)state;
	sample(m, (const uint32_t[]){a, root}, 2, 1, 1000000000);
	sample(m, (const uint32_t[]){b, root}, 2, 1, 3000000000);
	svg = picture_of(m, 1);
	assert_non_null(strstr(svg, ">Off-CPU: 4.00 s, 2 intervals</text>"));
	assert_non_null(strstr(svg, "aaaa (1.00 s, 25.0 %, 1 interval)\nnative /bin/x</title><rect "
	                            "x=\"10.00\" y=\"58\" width=\"294.50\""));
	assert_non_null(strstr(svg, "bbbb (3.00 s, 75.0 %, 1 interval)\nnative /bin/x</title><rect "
	                            "x=\"305.00\" y=\"58\" width=\"884.50\""));
	free(svg);
	svg = picture_of(m, 0); /* by count */
	assert_non_null(strstr(svg, "aaaa (1 interval, 50.0 %)"));
	free(svg);
	prof_model_free(m);
}

static void test_picture_says_what_it_leaves_out(void **state)
{
	struct prof_model *m = new_model(false);
	uint32_t root = named(m, "main");
	char *svg;

	(void)state;
	sample(m, &root, 1, 1, 900000);
	for (int i = 0; i < 10; i++) {
		char name[16];
		uint32_t fn;

		(void)snprintf(name, sizeof(name), "small_%d", i);
		fn = named(m, name);
		sample(m, (const uint32_t[]){fn, fn, root}, 3, 1, 100);
	}
	svg = picture_of(m, 1);
	assert_null(strstr(svg, "small_"));
	assert_non_null(strstr(
	        svg, ">20 frames narrower than 0.25 pixels are not drawn; 0.1 % of the total "
	             "ends in them</text>"));
	free(svg);
	prof_model_free(m);
}

static void test_picture_ends_at_its_rows(void **state)
{
	struct prof_model *m = new_model(false);
	uint32_t fn = named(m, "again"), locs[2000];
	char *svg;

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(locs); i++)
		locs[i] = fn;
	sample(m, locs, ARRAY_SIZE(locs), 1, 1000);
	svg = picture_of(m, 1);
	assert_non_null(strstr(svg, " height=\"18520\" ")); /* 1,024 rows of 18 pixels */
	assert_non_null(strstr(svg,
	                       ">977 frames narrower than 0.25 pixels or deeper than 1024 rows are "
	                       "not drawn; 100.0 % of the total ends in them</text>"));
	free(svg);
	prof_model_free(m);
}

static void test_picture_cuts_names_between_characters(void **state)
{
	struct prof_model *m = new_model(false);
	uint32_t wide = named(m, "wide"),
	         narrow = named(m, "\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9");
	char *svg;

	(void)state;
	sample(m, &wide, 1, 1, 970);
	sample(m, &narrow, 1, 1, 30); /* 35 pixels: four characters */
	svg = picture_of(m, 1);
	assert_non_null(strstr(svg, ">\xc3\xa9\xc3\xa9..</text>"));
	free(svg);
	prof_model_free(m);
}

static void test_without_samples(void **state)
{
	struct prof_model *m = new_model(false);
	const struct prof_model *one = m;
	size_t len;
	char *text = picture_of(m, 1);

	(void)state;
	assert_non_null(strstr(text, ">no samples</text>"));
	free(text);
	text = page_of(&one, 1, &len);
	assert_string_equal(text + len - 8, "</html>\n");
	free(text);
	prof_model_free(m);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	        cmocka_unit_test(test_nodes_are_in_preorder_and_siblings_in_order_of_names),
	        cmocka_unit_test(test_kinds_of_frames),
	        cmocka_unit_test(test_text_is_utf8_without_control_bytes),
	        cmocka_unit_test(test_page_is_whole_and_needs_no_network),
	        cmocka_unit_test(test_equal_models_give_equal_bytes),
	        cmocka_unit_test(test_failures_leave_the_buffer_as_it_was),
	        cmocka_unit_test(test_profiles_of_other_types_are_not_compared),
	        cmocka_unit_test(test_off_cpu_changes_are_not_by_chance),
	        cmocka_unit_test(test_without_memory_the_buffer_stays_as_it_was),
	        cmocka_unit_test(test_picture_escapes_names),
	        cmocka_unit_test(test_picture_is_proportional),
	        cmocka_unit_test(test_picture_says_what_it_leaves_out),
	        cmocka_unit_test(test_picture_ends_at_its_rows),
	        cmocka_unit_test(test_picture_cuts_names_between_characters),
	        cmocka_unit_test(test_without_samples),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
