/* SPDX-License-Identifier: Apache-2.0 */
/* The model of a profile, and reports of it. */
#include "profile_fixture.h"

static uint32_t str(struct prof_model *m, const char *s)
{
	uint32_t id;

	assert_int_equal(prof_model_string(m, s, &id), 0);
	return id;
}

static uint32_t fn(struct prof_model *m, const char *name, const char *file)
{
	struct prof_function f = {.name = str(m, name), .file = str(m, file)};
	uint32_t id;

	f.system_name = f.name;
	assert_int_equal(prof_model_function(m, &f, &id), 0);
	return id;
}

static uint32_t map(struct prof_model *m, uint64_t start, uint64_t limit, uint64_t off,
                    const char *path)
{
	struct prof_mapping pm = {.start = start, .limit = limit, .offset = off};
	uint32_t id;

	pm.path = str(m, path);
	assert_int_equal(prof_model_mapping(m, &pm, &id), 0);
	return id;
}

/* A location outside of any mapping with up to two lines; functions by name, inner first. */
static uint32_t loc(struct prof_model *m, uint64_t addr, const char *inner, const char *outer)
{
	struct prof_line lines[2];
	uint32_t n = 0, id;

	if (inner)
		lines[n++] = (struct prof_line){.function = fn(m, inner, "")};
	if (outer)
		lines[n++] = (struct prof_line){.function = fn(m, outer, "")};
	assert_int_equal(prof_model_location(m, 0, addr, EV_REASON_NAMED, lines, n, &id), 0);
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

/* ---- model ---------------------------------------------------------------------------------- */

static void test_strings_and_comments(void **state)
{
	struct prof_model *m = model();
	char *big = malloc(PROF_COMMENT_LEN_MAX + 2);
	size_t n;
	uint32_t id;

	(void)state;
	assert_int_equal(str(m, ""), 0);
	assert_string_equal(prof_model_str(m, 0), "");
	assert_int_equal(str(m, "a"), str(m, "a"));
	assert_int_not_equal(str(m, "a"), str(m, "b"));
	assert_int_equal(prof_model_text(m, "f\033[31m\x7f(é)\n", &id), 0);
	assert_string_equal(prof_model_str(m, id), "f?[31m?(é)?");
	assert_int_equal(prof_model_text(m, "f(é)", &id), 0);
	assert_string_equal(prof_model_str(m, id), "f(é)");
	assert_int_equal(prof_model_comment(m, "k: %d\n\tx\x7f\x01 é", 5), 0);
	assert_string_equal(prof_model_str(m, m->comments.p[0]), "k: 5  x   é");
	assert_non_null(big);
	memset(big, 'c', PROF_COMMENT_LEN_MAX + 1);
	big[PROF_COMMENT_LEN_MAX + 1] = '\0';
	n = m->comments.n;
	assert_int_equal(prof_model_comment(m, "%s", big), -E2BIG);
	assert_int_equal(m->comments.n, n);
	assert_int_equal(prof_model_comment(m, "%s", big + 1), 0);
	m->comments.max = m->comments.n;
	assert_int_equal(prof_model_comment(m, "one more"), -E2BIG);
	free(big);
	prof_model_free(m);
}

static void check_items(const char *comment, const char *const *want)
{
	struct prof_items it;
	const char *item;
	size_t n = 0;

	prof_items_init(&it, comment);
	for (; (item = prof_items_next(&it)); n++) {
		assert_non_null(want[n]);
		assert_string_equal(item, want[n]);
	}
	assert_int_equal(it.item.err, 0);
	assert_null(want[n]);
	prof_items_done(&it);
}

static void test_packed_comments_give_back_their_items(void **state)
{
	static const char *const items[] = {"perf-agent: 1.0",
	                                    "target: command a; b: c\\; (pid 1)",
	                                    ";",
	                                    "\\",
	                                    "",
	                                    "note: \\xff; \\\\ ;x ",
	                                    NULL};
	struct sbuf b;

	(void)state;
	sbuf_init(&b, 1024);
	for (size_t i = 0; items[i]; i++)
		prof_comment_pack(&b, items[i]);
	assert_int_equal(b.err, 0);
	assert_string_equal(b.p, "# perf-agent: 1.0; target: command a\\; b: c\\\\\\; (pid 1); "
	                         "\\;; \\\\; ; note: \\\\xff\\; \\\\\\\\ \\;x ");
	check_items(b.p, items);
	sbuf_done(&b);
}

static void test_comments_of_others_are_one_item(void **state)
{
	static const struct {
		const char *comment;
		const char *items[4];
	} t[] = {
	        {"k=v; w", {"k=v; w"}},
	        {"", {""}},
	        {"# other: 1; b", {"# other: 1; b"}},
	        {"perf-agent: 1; b", {"perf-agent: 1; b"}},
	        {"# perf-agent: 1", {"perf-agent: 1"}},
	        {"# perf-agent: 1; ", {"perf-agent: 1", ""}},
	        /* As others may write it: other escapes and a ';' without a blank are kept. */
	        {"# perf-agent: 1;a; \\xff\\", {"perf-agent: 1;a", "\\xff\\"}},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(t) / sizeof(t[0]); i++)
		check_items(t[i].comment, t[i].items);
}

static void test_equal_mappings_and_functions_share_an_id(void **state)
{
	struct prof_model *m = model();
	uint32_t a = map(m, 0x1000, 0x2000, 0, "/a"), b, f;
	struct prof_function fun = {.name = str(m, "f"), .start_line = 3};

	(void)state;
	assert_int_equal(a, 1);
	assert_int_equal(map(m, 0x1000, 0x2000, 0, "/a"), a);
	b = map(m, 0x1000, 0x2000, 0, "/b");
	assert_int_equal(b, 2);
	assert_int_equal(map(m, 0x1000, 0x3000, 0, "/a"), 3);
	assert_int_equal(map(m, 0x1000, 0x2000, 0x1000, "/a"), 4);
	assert_int_equal(map(m, 0x0, 0x2000, 0, "/a"), 5);
	assert_int_equal(m->mappings.n, 5);

	assert_int_equal(prof_model_function(m, &fun, &f), 0);
	assert_int_equal(f, 1);
	assert_int_equal(prof_model_function(m, &fun, &f), 0);
	assert_int_equal(f, 1);
	fun.start_line = -3;
	assert_int_equal(prof_model_function(m, &fun, &f), 0);
	assert_int_equal(f, 2);
	fun.file = fun.name;
	assert_int_equal(prof_model_function(m, &fun, &f), 0);
	assert_int_equal(f, 3);
	fun.system_name = fun.name;
	assert_int_equal(prof_model_function(m, &fun, &f), 0);
	assert_int_equal(f, 4);
	assert_int_equal(m->functions.n, 4);
	prof_model_free(m);
}

static void test_location_key(void **state)
{
	struct prof_model *m = model();
	uint32_t a = map(m, 0x1000, 0x2000, 0x500, "/a"), b = map(m, 0x5000, 0x6000, 0, "/b");
	struct prof_line lines[2] = {{.function = fn(m, "in", ""), .line = 3},
	                             {.function = fn(m, "out", ""), .line = 9}};
	uint32_t l1, l2;

	(void)state;
	assert_int_equal(prof_model_location(m, a, 0x1010, EV_REASON_NAMED, lines, 2, &l1), 0);
	assert_int_equal(prof_model_location(m, a, 0x1010, EV_REASON_NAMED, lines, 2, &l2), 0);
	assert_int_equal(l1, l2);
	assert_int_equal(m->locations.p[l1 - 1].address, 0x1010);
	assert_int_equal(m->locations.p[l1 - 1].line_cnt, 2);
	assert_int_equal(m->lines.p[m->locations.p[l1 - 1].line_first + 1].line, 9);
	/* Each field makes another one. */
	assert_int_equal(prof_model_location(m, a, 0x1011, EV_REASON_NAMED, lines, 2, &l2), 0);
	assert_int_equal(l2, l1 + 1);
	assert_int_equal(prof_model_location(m, b, 0x5010, EV_REASON_NAMED, lines, 2, &l2), 0);
	assert_int_equal(l2, l1 + 2);
	assert_int_equal(prof_model_location(m, a, 0x1010, EV_REASON_NO_SYMBOL, lines, 2, &l2), 0);
	assert_int_equal(l2, l1 + 3);
	assert_int_equal(prof_model_location(m, a, 0x1010, EV_REASON_NAMED, lines, 1, &l2), 0);
	assert_int_equal(l2, l1 + 4);
	lines[1].line = 10;
	assert_int_equal(prof_model_location(m, a, 0x1010, EV_REASON_NAMED, lines, 2, &l2), 0);
	assert_int_equal(l2, l1 + 5);
	assert_int_equal(prof_model_location(m, 0, 0x1010, EV_REASON_NAMED, lines, 2, &l2), 0);
	assert_int_equal(l2, l1 + 6);
	assert_int_equal(prof_model_location(m, 0, 0x1010, EV_REASON_NAMED, NULL, 0, &l2), 0);
	assert_int_equal(l2, l1 + 7);
	prof_model_free(m);
}

static void test_address_must_lie_in_its_mapping(void **state)
{
	struct prof_model *m = model();
	uint32_t a = map(m, 0x1000, 0x2000, 0, "/a"), open_end = map(m, 0, 0, 0, "[jit]"), id;

	(void)state;
	assert_int_equal(prof_model_location(m, a, 0xfff, EV_REASON_JIT, NULL, 0, &id), -EINVAL);
	assert_int_equal(prof_model_location(m, a, 0x2000, EV_REASON_JIT, NULL, 0, &id), -EINVAL);
	assert_int_equal(m->locations.n, 0);
	assert_int_equal(prof_model_location(m, a, 0x1000, EV_REASON_JIT, NULL, 0, &id), 0);
	assert_int_equal(prof_model_location(m, a, 0x1fff, EV_REASON_JIT, NULL, 0, &id), 0);
	assert_int_equal(prof_model_location(m, open_end, UINT64_MAX, EV_REASON_JIT, NULL, 0, &id),
	                 0);
	assert_int_equal(id, 3);
	prof_model_free(m);
}

static void test_mapping_flags_tell_the_truth(void **state)
{
	struct prof_model *m = model();
	struct prof_mapping liar = {.limit = 100, .has_functions = true, .has_lines = true};
	struct prof_line named = {.function = fn(m, "f", "")},
	                 line = {.function = fn(m, "g", "g.c")};
	struct prof_line inlined[2] = {named, named};
	uint32_t a, id;
	const struct prof_mapping *p;

	(void)state;
	line.line = 7;
	/* A reader cannot distinguish this file from another of its path: no symbolization. */
	liar.path = str(m, "/other");
	assert_int_equal(prof_model_mapping(m, &liar, &a), 0);
	assert_int_equal(prof_model_location(m, a, 1, EV_REASON_NO_SYMTAB, &named, 1, &id), 0);
	p = &m->mappings.p[a - 1];
	assert_true(p->has_functions);
	assert_false(p->has_filenames || p->has_lines || p->has_inlines);
	liar.path = str(m, "/x");
	liar.build_id = str(m, "abcd");
	assert_int_equal(prof_model_mapping(m, &liar, &a), 0);
	p = &m->mappings.p[a - 1];
	assert_int_equal(prof_model_location(m, a, 1, EV_REASON_NO_SYMTAB, &line, 1, &id), 0);
	assert_false(p->has_functions || p->has_filenames || p->has_lines || p->has_inlines);
	assert_int_equal(prof_model_location(m, a, 1, EV_REASON_NAMED, NULL, 0, &id), 0);
	assert_false(p->has_functions || p->has_filenames || p->has_lines || p->has_inlines);
	assert_int_equal(prof_model_location(m, a, 2, EV_REASON_NAMED, &named, 1, &id), 0);
	assert_true(p->has_functions);
	assert_false(p->has_filenames || p->has_lines || p->has_inlines);
	assert_int_equal(prof_model_location(m, a, 3, EV_REASON_NAMED, inlined, 2, &id), 0);
	assert_true(p->has_inlines);
	assert_false(p->has_filenames || p->has_lines);
	assert_int_equal(prof_model_location(m, a, 4, EV_REASON_NAMED, &line, 1, &id), 0);
	assert_true(p->has_filenames && p->has_lines);
	prof_model_free(m);
}

static void test_equal_samples_merge(void **state)
{
	struct prof_model *m = model();
	uint32_t stack[] = {loc(m, 1, "f", NULL), loc(m, 2, "g", NULL)};
	uint32_t rev[] = {stack[1], stack[0]};
	struct prof_label l[] = {{.key = str(m, "pid"), .num = 4},
	                         {.key = str(m, "comm"), .str = str(m, "sh")}};
	int64_t v[] = {1, 100};
	size_t loc_ids, labels;

	(void)state;
	assert_int_equal(prof_model_sample(m, stack, 2, l, 2, v), 0);
	l[1].num = 99; /* nothing alongside a string */
	assert_int_equal(prof_model_sample(m, stack, 2, l, 2, v), 0);
	assert_int_equal(m->samples.n, 1);
	assert_int_equal(m->samples.p[0].value[0], 2);
	assert_int_equal(m->samples.p[0].value[1], 200);
	loc_ids = m->loc_ids.n;
	labels = m->labels.n;
	l[0].num = 5;
	assert_int_equal(prof_model_sample(m, stack, 2, l, 2, v), 0);
	assert_int_equal(m->samples.n, 2);
	assert_int_equal(m->loc_ids.n, loc_ids); /* shared */
	l[0].num = 4;
	assert_int_equal(prof_model_sample(m, rev, 2, l, 2, v), 0);
	assert_int_equal(m->samples.n, 3);
	assert_int_equal(m->labels.n, labels + 2); /* those of pid 5; pid 4's are shared */
	assert_int_equal(prof_model_sample(m, rev, 1, l, 2, v), 0);
	assert_int_equal(prof_model_sample(m, rev, 1, NULL, 0, v), 0);
	assert_int_equal(prof_model_sample(m, NULL, 0, l, 1, v), 0);
	assert_int_equal(prof_model_sample(m, NULL, 0, NULL, 0, v), 0);
	assert_int_equal(prof_model_sample(m, NULL, 0, NULL, 0, v), 0);
	assert_int_equal(m->samples.n, 7);
	assert_int_equal(m->samples.p[6].value[0], 2);
	assert_int_equal(m->samples.p[6].loc_cnt, 0);
	for (size_t i = 0; i < 2; i++)
		assert_int_equal(m->loc_ids.p[m->samples.p[2].loc_first + i], rev[i]);
	assert_int_equal(m->labels.p[m->samples.p[1].label_first].num, 5);
	prof_model_free(m);
}

static void test_sums_stop_at_the_ends(void **state)
{
	struct prof_model *m = model();
	uint32_t a = loc(m, 1, "f", NULL), b = loc(m, 2, "f", NULL);
	int64_t v[] = {INT64_MAX - 1, INT64_MIN + 1}, w[] = {5, -5};
	struct prof_top *top;
	size_t n;

	(void)state;
	assert_int_equal(prof_model_sample(m, &a, 1, NULL, 0, v), 0);
	assert_int_equal(prof_model_sample(m, &a, 1, NULL, 0, w), 0);
	assert_true(m->samples.p[0].value[0] == INT64_MAX);
	assert_true(m->samples.p[0].value[1] == INT64_MIN);
	assert_int_equal(prof_model_sample(m, &b, 1, NULL, 0, w), 0);
	assert_int_equal(prof_model_top(m, 0, 10, &top, &n), 0);
	assert_int_equal(n, 1);
	assert_true(top[0].self == INT64_MAX && top[0].cum == INT64_MAX);
	free(top);
	prof_model_free(m);
}

static void test_caps_of_the_model(void **state)
{
	struct prof_model *m = model();
	static uint32_t locs[PROF_SAMPLE_LOCS_MAX + 1];
	static struct prof_label labels[PROF_SAMPLE_LABELS_MAX + 1];
	static struct prof_line lines[PROF_LOCATION_LINES_MAX + 1];
	struct prof_mapping pm = {.limit = 9};
	struct prof_function pf = {.start_line = 1};
	int64_t v[] = {1, 1};
	uint32_t id = 77;

	(void)state;
	assert_int_equal(prof_model_location(m, 0, 1, EV_REASON_JIT, lines,
	                                     PROF_LOCATION_LINES_MAX + 1, &id),
	                 -E2BIG);
	assert_int_equal(id, 77);
	assert_int_equal(prof_model_location(m, 0, 1, EV_REASON_JIT, lines, PROF_LOCATION_LINES_MAX,
	                                     &id),
	                 0);
	for (size_t i = 0; i < ARRAY_SIZE(locs); i++)
		locs[i] = id;
	assert_int_equal(prof_model_sample(m, locs, PROF_SAMPLE_LOCS_MAX + 1, NULL, 0, v), -E2BIG);
	assert_int_equal(prof_model_sample(m, locs, 1, labels, PROF_SAMPLE_LABELS_MAX + 1, v),
	                 -E2BIG);
	assert_int_equal(m->samples.n, 0);
	assert_int_equal(prof_model_sample(m, locs, PROF_SAMPLE_LOCS_MAX, labels,
	                                   PROF_SAMPLE_LABELS_MAX, v),
	                 0);

	/* The tables: lowered, since filling them takes long. Known items still work. */
	m->mappings.max = m->mappings.n;
	assert_int_equal(prof_model_mapping(m, &pm, &id), -E2BIG);
	m->functions.max = m->functions.n;
	assert_int_equal(prof_model_function(m, &pf, &id), -E2BIG);
	m->locations.max = m->locations.n;
	assert_int_equal(prof_model_location(m, 0, 2, EV_REASON_JIT, NULL, 0, &id), -E2BIG);
	assert_int_equal(prof_model_location(m, 0, 1, EV_REASON_JIT, lines, PROF_LOCATION_LINES_MAX,
	                                     &id),
	                 0);
	m->samples.max = m->samples.n;
	assert_int_equal(prof_model_sample(m, locs, 1, NULL, 0, v), -E2BIG);
	assert_int_equal(prof_model_sample(m, locs, PROF_SAMPLE_LOCS_MAX, labels,
	                                   PROF_SAMPLE_LABELS_MAX, v),
	                 0);
	assert_int_equal(m->samples.p[0].value[0], 2);
	m->samples.max = PROF_SAMPLES_MAX;
	m->loc_ids.max = m->loc_ids.n;
	assert_int_equal(prof_model_sample(m, locs, 2, NULL, 0, v), -E2BIG);
	m->labels.max = m->labels.n;
	assert_int_equal(prof_model_sample(m, NULL, 0, labels, 1, v), -E2BIG);
	/* The list of one location has been there since the sample that was refused above. */
	assert_int_equal(prof_model_sample(m, locs, 1, NULL, 0, v), 0);
	assert_int_equal(m->loc_ids.p[m->samples.p[1].loc_first], locs[0]);
	prof_model_free(m);
}

static void test_main_mapping_moves_to_the_front(void **state)
{
	struct prof_model *m = model();
	uint32_t ids[4], locs[5], again;
	const char *const names[] = {"/a", "/b", "/c", "/d"};
	/* by old id: the new one */
	const uint32_t moved[] = {0, 2, 3, 1, 4};

	(void)state;
	for (uint32_t i = 0; i < 4; i++) {
		ids[i] = map(m, 0x1000 * (i + 1), 0x1000 * (i + 2), 0, names[i]);
		assert_int_equal(prof_model_location(m, ids[i], 0x1000 * (i + 1), EV_REASON_JIT,
		                                     NULL, 0, &locs[i]),
		                 0);
	}
	locs[4] = loc(m, 1, "nowhere", NULL);
	prof_model_main_mapping(m, 0);
	prof_model_main_mapping(m, 1);
	for (size_t i = 0; i < 4; i++)
		assert_int_equal(m->locations.p[i].mapping, i + 1);
	prof_model_main_mapping(m, 3);
	for (uint32_t i = 0; i < 4; i++) {
		assert_int_equal(m->locations.p[locs[i] - 1].mapping, moved[ids[i]]);
		assert_string_equal(prof_model_str(m, m->mappings.p[moved[ids[i]] - 1].path),
		                    names[i]);
		/* A later mapping meets those that are there. */
		assert_int_equal(map(m, 0x1000 * (i + 1), 0x1000 * (i + 2), 0, names[i]),
		                 moved[ids[i]]);
		assert_int_equal(prof_model_location(m, moved[ids[i]], 0x1000 * (i + 1),
		                                     EV_REASON_JIT, NULL, 0, &again),
		                 0);
		assert_int_equal(again, locs[i]);
	}
	assert_int_equal(m->locations.p[locs[4] - 1].mapping, 0);
	assert_int_equal(map(m, 0x9000, 0xa000, 0, "/e"), 5);
	prof_model_main_mapping(m, 5);
	assert_string_equal(prof_model_str(m, m->mappings.p[0].path), "/e");
	assert_string_equal(prof_model_str(m, m->mappings.p[1].path), "/c");
	assert_int_equal(m->locations.p[locs[2] - 1].mapping, 2);
	prof_model_free(m);
}

/* ---- report --------------------------------------------------------------------------------- */

static void assert_top(const struct prof_model *m, const struct prof_top *t, const char *name,
                       int64_t self, int64_t cum)
{
	assert_string_equal(prof_model_str(m, t->name), name);
	assert_int_equal(t->self, self);
	assert_int_equal(t->cum, cum);
}

static void test_top_self_cum_recursion_inlines(void **state)
{
	struct prof_model *m = model();
	uint32_t main_ = loc(m, 1, "main", NULL), rec = loc(m, 2, "rec", NULL);
	uint32_t rec2 = loc(m, 3, "rec", NULL), inl = loc(m, 4, "inner", "outer");
	uint32_t s1[] = {rec, rec2, rec, main_}; /* recursion through two call sites */
	uint32_t s2[] = {inl, main_};            /* inner inlined into outer */
	uint32_t s3[] = {main_, inl};
	int64_t v1[] = {3, 30}, v2[] = {5, 50}, v3[] = {1, 7};
	struct prof_top *top = NULL;
	size_t n = 0;

	(void)state;
	assert_int_equal(prof_model_top(m, 0, 10, &top, &n), 0);
	assert_int_equal(n, 0);
	free(top);
	assert_int_equal(prof_model_sample(m, s1, 4, NULL, 0, v1), 0);
	assert_int_equal(prof_model_sample(m, s2, 2, NULL, 0, v2), 0);
	assert_int_equal(prof_model_sample(m, s3, 2, NULL, 0, v3), 0);
	assert_int_equal(prof_model_top(m, 0, 10, &top, &n), 0);
	assert_int_equal(n, 4);
	assert_top(m, &top[0], "inner", 5, 6);
	assert_top(m, &top[1], "rec", 3, 3);
	assert_top(m, &top[2], "main", 1, 9);
	assert_top(m, &top[3], "outer", 0, 6);
	free(top);
	assert_int_equal(prof_model_top(m, 1, 2, &top, &n), 0);
	assert_int_equal(n, 2);
	assert_top(m, &top[0], "inner", 50, 57);
	assert_top(m, &top[1], "rec", 30, 30);
	free(top);
	assert_int_equal(prof_model_top(m, 2, 2, &top, &n), -EINVAL);
	assert_int_equal(prof_model_top(m, 0, 0, &top, &n), 0);
	assert_int_equal(n, 0);
	free(top);
	prof_model_free(m);
}

static bool is_below(const char *path, const char *name)
{
	return !strcmp(path, "/kernel") && (!strcmp(name, "switch") || !strcmp(name, "sleep"));
}

static void test_top_self_beyond_what_is_passed_over(void **state)
{
	struct prof_model *m = model();
	uint32_t kernel = map(m, 0x1000, 0x2000, 0, "/kernel"), k1, k2, k3;
	uint32_t user = loc(m, 1, "sleep", NULL), main_ = loc(m, 2, "main", NULL);
	struct prof_line line = {.function = fn(m, "switch", "")};
	uint32_t s1[4], s2[2], s3[2], s4[2];
	int64_t v[] = {1, 0}, ten[] = {10, 0}, hundred[] = {100, 0}, thousand[] = {1000, 0};
	struct prof_top *top = NULL;
	size_t n = 0;

	(void)state;
	assert_int_equal(prof_model_location(m, kernel, 0x1001, EV_REASON_NAMED, &line, 1, &k1), 0);
	line.function = fn(m, "sleep", "");
	assert_int_equal(prof_model_location(m, kernel, 0x1002, EV_REASON_NAMED, &line, 1, &k2), 0);
	line.function = fn(m, "read", "");
	assert_int_equal(prof_model_location(m, kernel, 0x1003, EV_REASON_NAMED, &line, 1, &k3), 0);
	s1[0] = k1, s1[1] = k2, s1[2] = k3, s1[3] = main_;
	s2[0] = k1, s2[1] = user; /* the same name elsewhere */
	s3[0] = k2, s3[1] = k1;   /* nothing else is there */
	s4[0] = k3, s4[1] = k1;   /* not below what counts */
	assert_int_equal(prof_model_sample(m, s1, 4, NULL, 0, v), 0);
	assert_int_equal(prof_model_sample(m, s2, 2, NULL, 0, ten), 0);
	assert_int_equal(prof_model_sample(m, s3, 2, NULL, 0, hundred), 0);
	assert_int_equal(prof_model_sample(m, s4, 2, NULL, 0, thousand), 0);
	assert_int_equal(prof_model_top_beyond(m, 0, is_below, 10, &top, &n), 0);
	assert_int_equal(n, 4);
	assert_top(m, &top[0], "read", 1001, 1001);
	assert_top(m, &top[1], "sleep", 110, 111);
	assert_top(m, &top[2], "switch", 0, 1111);
	assert_top(m, &top[3], "main", 0, 1);
	free(top);
	assert_int_equal(prof_model_top(m, 0, 10, &top, &n), 0);
	assert_top(m, &top[0], "read", 1000, 1001);
	assert_top(m, &top[1], "sleep", 100, 111);
	assert_top(m, &top[2], "switch", 11, 1111);
	free(top);
	prof_model_free(m);
}

static void test_top_order_and_unnamed_code(void **state)
{
	struct prof_model *m = model();
	uint32_t ma = map(m, 0x1000, 0x2000, 0, "/a"), mb = map(m, 0x2000, 0x3000, 0, "/b");
	uint32_t c = loc(m, 1, "c", NULL), b = loc(m, 2, "b", NULL), a = loc(m, 3, "a", NULL);
	uint32_t ua1, ua2, ub, nowhere = loc(m, 4, NULL, NULL), in_b;
	struct prof_line line = {.function = fn(m, "a", "")};
	uint32_t s1[2], s2[2];
	int64_t two[] = {2, 0}, one[] = {1, 0}, four[] = {4, 0};
	struct prof_top *top;
	size_t n;

	(void)state;
	assert_int_equal(prof_model_location(m, ma, 0x1001, EV_REASON_NO_SYMTAB, NULL, 0, &ua1), 0);
	assert_int_equal(prof_model_location(m, ma, 0x1002, EV_REASON_NO_SYMTAB, NULL, 0, &ua2), 0);
	assert_int_equal(prof_model_location(m, mb, 0x2001, EV_REASON_NO_SYMTAB, NULL, 0, &ub), 0);
	assert_int_equal(prof_model_location(m, mb, 0x2002, EV_REASON_NAMED, &line, 1, &in_b), 0);
	s1[0] = c;
	s1[1] = in_b; /* "a" first seen in /b */
	s2[0] = ua1;
	s2[1] = ua2; /* one node, counted once */
	assert_int_equal(prof_model_sample(m, s1, 2, NULL, 0, two), 0);
	assert_int_equal(prof_model_sample(m, &b, 1, NULL, 0, two), 0);
	assert_int_equal(prof_model_sample(m, &a, 1, NULL, 0, two), 0);
	assert_int_equal(prof_model_sample(m, s2, 2, NULL, 0, four), 0);
	assert_int_equal(prof_model_sample(m, &ub, 1, NULL, 0, one), 0);
	assert_int_equal(prof_model_sample(m, &nowhere, 1, NULL, 0, one), 0);
	assert_int_equal(prof_model_top(m, 0, 100, &top, &n), 0);
	assert_int_equal(n, 6);
	assert_top(m, &top[0], "", 4, 4);
	assert_int_equal(top[0].mapping, ma);
	assert_top(m, &top[1], "a", 2, 4); /* more cum */
	assert_int_equal(top[1].mapping, mb);
	assert_top(m, &top[2], "b", 2, 2); /* then by name */
	assert_int_equal(top[2].mapping, 0);
	assert_top(m, &top[3], "c", 2, 2);
	assert_top(m, &top[4], "", 1, 1);
	assert_int_equal(top[4].mapping, 0);
	assert_top(m, &top[5], "", 1, 1);
	assert_int_equal(top[5].mapping, mb);
	free(top);
	prof_model_free(m);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	        cmocka_unit_test(test_strings_and_comments),
	        cmocka_unit_test(test_packed_comments_give_back_their_items),
	        cmocka_unit_test(test_comments_of_others_are_one_item),
	        cmocka_unit_test(test_equal_mappings_and_functions_share_an_id),
	        cmocka_unit_test(test_location_key),
	        cmocka_unit_test(test_address_must_lie_in_its_mapping),
	        cmocka_unit_test(test_mapping_flags_tell_the_truth),
	        cmocka_unit_test(test_equal_samples_merge),
	        cmocka_unit_test(test_sums_stop_at_the_ends),
	        cmocka_unit_test(test_caps_of_the_model),
	        cmocka_unit_test(test_main_mapping_moves_to_the_front),
	        cmocka_unit_test(test_top_self_cum_recursion_inlines),
	        cmocka_unit_test(test_top_self_beyond_what_is_passed_over),
	        cmocka_unit_test(test_top_order_and_unnamed_code),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
