/* SPDX-License-Identifier: Apache-2.0 */
/* test-profile-changes - copies that follow an aggregation; tasks and callers of a model */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "profile/prof_priv.h"

static void count(struct prof_agg *a, uint32_t tid, uint64_t stack, uint8_t offcpu,
                  uint64_t samples, uint64_t longest_ns)
{
	const struct ev_stack st = {.hash = stack};
	const struct ev_count c = {.tid = tid,
	                           .ustack = stack,
	                           .offcpu = offcpu,
	                           .samples = samples,
	                           .weight = 10 * samples,
	                           .longest_ns = longest_ns};

	assert_int_equal(prof_agg_add_stack(a, &st, NULL), 0);
	assert_int_equal(prof_agg_add_count(a, &c), 0);
}

static void test_only_changes_are_copied(void **state)
{
	struct prof_agg *from, *all, *since[2] = {NULL, NULL};
	struct ev_thread t = {.tid = 1, .comm = "old"};
	const struct ev_waker w = {.hash = 4};
	struct prof_seen seen = {0};

	(void)state;
	assert_int_equal(prof_agg_new(NULL, &from), 0);
	assert_int_equal(prof_agg_new(NULL, &all), 0);
	count(from, 1, 1, EV_OFFCPU_NONE, 3, 0);
	assert_int_equal(prof_agg_add_thread(from, &t), 0);
	assert_int_equal(prof_agg_copy_changes(from, &seen, all, since), 0);
	assert_int_equal(prof_agg_stats(all)->samples, 3);
	assert_string_equal(prof_agg_comm(all, &t.proc, 1), "old");

	for (int i = 0; i < 2; i++) {
		assert_int_equal(prof_agg_new(NULL, &since[i]), 0);
		prof_agg_look_up_in(since[i], all);
	}
	memcpy(t.comm, "new", 4);
	assert_int_equal(prof_agg_add_thread(from, &t), 0);
	assert_int_equal(prof_agg_add_waker(from, &w), 0);
	count(from, 1, 1, EV_OFFCPU_NONE, 4, 0);
	count(from, 1, 2, EV_OFFCPU_IOWAIT, 2, 15);
	count(from, 2, 2, EV_OFFCPU_NONE, 1, 0);
	assert_int_equal(prof_agg_copy_changes(from, &seen, all, since), 0);
	assert_int_equal(prof_agg_stats(all)->samples, 8);
	assert_int_equal(prof_agg_stats(since[0])->samples, 5);
	assert_int_equal(prof_agg_count_cnt(since[0]), 2);
	assert_int_equal(prof_agg_stats(since[1])->intervals, 2);
	/* It looks up the rest elsewhere. */
	assert_int_equal(prof_agg_stack_cnt(since[0]), 0);
	assert_non_null(prof_agg_stack(since[0], 1));
	assert_null(prof_agg_stack(since[0], 7));
	assert_non_null(prof_agg_waker(since[1], 4));
	assert_string_equal(prof_agg_comm(since[0], &t.proc, 1), "new");

	/* A longest interval that did not grow is none of the new ones. */
	count(from, 1, 2, EV_OFFCPU_IOWAIT, 1, 10);
	since[1] = prof_agg_free(since[1]);
	assert_int_equal(prof_agg_new(NULL, &since[1]), 0);
	assert_int_equal(prof_agg_copy_changes(from, &seen, all, since), 0);
	assert_int_equal(prof_agg_count_at(since[1], 0)->longest_ns, 10);
	assert_int_equal(prof_agg_stats(since[0])->samples, 5);
	assert_int_equal(prof_agg_copy_changes(from, &seen, all, since), 0); /* nothing is new */
	assert_int_equal(prof_agg_stats(all)->samples, 8);
	assert_int_equal(prof_agg_stats(all)->intervals, 3);
	prof_seen_done(&seen);
	for (int i = 0; i < 2; i++)
		prof_agg_free(since[i]);
	prof_agg_free(all);
	prof_agg_free(from);
}

static void test_only_changes_are_looked_at(void **state)
{
	struct prof_agg *from, *all, *since[2] = {NULL, NULL};
	struct ev_thread t = {.tid = 7, .comm = "same"};
	struct prof_seen seen = {0}, other = {0};
	struct prof_followed *f;

	(void)state;
	assert_int_equal(prof_agg_new(NULL, &from), 0);
	assert_int_equal(prof_agg_new(NULL, &all), 0);
	f = prof_agg_followed(from);
	for (uint32_t i = 1; i <= 1000; i++)
		count(from, i, i, EV_OFFCPU_NONE, 1, 0);
	assert_int_equal(prof_agg_add_thread(from, &t), 0);
	assert_int_equal(f->counts.ids.n, 0); /* no copy was made yet */
	assert_int_equal(prof_agg_copy_changes(from, &seen, all, since), 0);
	for (int i = 0; i < 3; i++)
		count(from, 5, 5, EV_OFFCPU_NONE, 1, 0);
	count(from, 1001, 5, EV_OFFCPU_NONE, 1, 0);
	assert_int_equal(prof_agg_add_thread(from, &t), 0);
	assert_int_equal(f->counts.ids.n, 2);
	assert_int_equal(f->threads.ids.n, 0);
	t.tid = 8;
	assert_int_equal(prof_agg_add_thread(from, &t), 0);
	assert_int_equal(f->threads.ids.n, 1);
	assert_int_equal(prof_agg_copy_changes(from, &seen, all, since), 0);
	assert_int_equal(prof_agg_stats(all)->samples, 1004);
	assert_string_equal(prof_agg_comm(all, &t.proc, 8), "same");
	assert_int_equal(f->counts.ids.n, 0);

	/* One that comes later gets all, and the first one misses nothing. */
	count(from, 5, 5, EV_OFFCPU_NONE, 1, 0);
	all = prof_agg_free(all);
	assert_int_equal(prof_agg_new(NULL, &all), 0);
	assert_int_equal(prof_agg_copy_changes(from, &other, all, since), 0);
	assert_int_equal(prof_agg_stats(all)->samples, 1005);
	assert_string_equal(prof_agg_comm(all, &t.proc, 8), "same");
	all = prof_agg_free(all);
	assert_int_equal(prof_agg_new(NULL, &all), 0);
	assert_int_equal(prof_agg_copy_changes(from, &seen, all, since), 0);
	assert_int_equal(prof_agg_stats(all)->samples, 1);

	/* Without memory for the list, all are looked at. */
	f->counts.lost = f->threads.lost = true;
	count(from, 9, 9, EV_OFFCPU_NONE, 2, 0);
	assert_int_equal(f->counts.ids.n, 0);
	assert_int_equal(prof_agg_copy_changes(from, &seen, all, since), 0);
	assert_int_equal(prof_agg_stats(all)->samples, 3);
	assert_false(f->counts.lost);
	prof_seen_done(&seen);
	prof_seen_done(&other);
	prof_agg_free(all);
	prof_agg_free(from);
}

/* ---- a model --------------------------------------------------------------------------------- */

static uint32_t string(struct prof_model *m, const char *s)
{
	uint32_t id;

	assert_int_equal(prof_model_string(m, s, &id), 0);
	return id;
}

/* Adds a stack "leaf caller …"; an item "a+b" is a with b inlined into it: the innermost first. */
static void add(struct prof_model *m, const char *text, int64_t pid, int64_t tid, const char *comm,
                int64_t value)
{
	const struct prof_label labels[] = {
	        {.key = string(m, "pid"), .num = pid},
	        {.key = string(m, "tid"), .num = tid},
	        {.key = string(m, "comm"), .str = string(m, comm)},
	};
	const int64_t values[] = {1, value};
	uint32_t locs[16], n = 0;
	char buf[256], *rest = buf, *item;

	assert_true(str_copy(buf, sizeof(buf), text) >= 0);
	while ((item = strsep(&rest, " "))) {
		struct prof_line lines[4];
		uint32_t k = 0;
		char *name;

		while ((name = strsep(&item, "+"))) {
			const struct prof_function fn = {.name = string(m, name)};

			lines[k] = (struct prof_line){0};
			assert_int_equal(prof_model_function(m, &fn, &lines[k].function), 0);
			k++;
		}
		assert_int_equal(
		        prof_model_location(m, 0, 100 + n, EV_REASON_NAMED, lines, k, &locs[n]), 0);
		n++;
	}
	assert_int_equal(prof_model_sample(m, locs, n, labels, 3, values), 0);
}

static struct prof_model *model(void)
{
	struct prof_model *m = NULL;

	assert_int_equal(prof_model_new(&m), 0);
	m->n_types = 2;
	return m;
}

static void test_tasks_of_a_model(void **state)
{
	struct prof_model *m = model();
	struct prof_task *v = NULL;
	size_t n = 0;

	(void)state;
	assert_int_equal(prof_model_tasks(m, false, &v, &n), 0);
	assert_int_equal(n, 0);
	free(v);
	add(m, "f main", 5, 6, "worker", 10);
	add(m, "g main", 5, 5, "server", 20);
	add(m, "h main", 5, 6, "worker", 30);
	add(m, "h main", 9, 9, "other", 50);
	assert_int_equal(prof_model_tasks(m, false, &v, &n), 0);
	assert_int_equal(n, 2);
	assert_int_equal(v[0].pid, 5);
	assert_int_equal(v[0].tid, 0);
	assert_int_equal(v[0].value[0], 3);
	assert_int_equal(v[0].value[1], 60);
	assert_string_equal(prof_model_str(m, v[0].comm), "server");
	free(v);
	assert_int_equal(prof_model_tasks(m, true, &v, &n), 0);
	assert_int_equal(n, 3);
	assert_int_equal(v[0].pid, 9);
	assert_int_equal(v[1].tid, 6);
	assert_int_equal(v[1].value[1], 40);
	assert_string_equal(prof_model_str(m, v[1].comm), "worker");
	free(v);
	prof_model_free(m);
}

static void assert_callers(const struct prof_model *m, const char *path, const char *want)
{
	uint32_t ids[8], n_ids = 0;
	struct prof_top *v = NULL;
	char buf[256], got[256] = "", *rest = buf, *item;
	size_t n = 0, len = 0;

	assert_true(str_copy(buf, sizeof(buf), path) >= 0);
	while ((item = strsep(&rest, " ")))
		ids[n_ids++] = intern_find(m->strings, item, strlen(item));
	assert_int_equal(prof_model_callers(m, 1, ids, n_ids, &v, &n), 0);
	for (size_t i = 0; i < n; i++)
		len += (size_t)snprintf(got + len, sizeof(got) - len, "%s=%lld ",
		                        prof_model_str(m, v[i].name), (long long)v[i].cum);
	free(v);
	assert_string_equal(got, want);
}

static void test_callers_of_a_chain(void **state)
{
	struct prof_model *m = model();

	(void)state;
	add(m, "f g main", 1, 1, "c", 10);
	add(m, "f h main", 1, 1, "c", 20);
	add(m, "x f h main", 1, 1, "c", 5);
	add(m, "f+g h main", 1, 1, "c", 2); /* f was inlined into g */
	add(m, "f f f main", 1, 1, "c", 1); /* recursion counts once */
	add(m, "f", 1, 1, "c", 100);
	assert_callers(m, "f", "=100 h=25 g=12 f=1 main=1 ");
	assert_callers(m, "f h", "main=25 ");
	assert_callers(m, "f g", "main=10 h=2 ");
	assert_callers(m, "main", "=38 ");
	assert_callers(m, "f nothing", "");
	assert_callers(m, "f g h main", "=2 ");
	prof_model_free(m);
}

/* A mapping of 100 bytes. */
static uint32_t file(struct prof_model *m, uint64_t start, const char *path)
{
	const struct prof_mapping map = {
	        .start = start, .limit = start + 100, .path = string(m, path)};
	uint32_t id;

	assert_int_equal(prof_model_mapping(m, &map, &id), 0);
	return id;
}

static uint32_t mapped(struct prof_model *m, uint32_t mapping, uint64_t addr, const char *name)
{
	const struct prof_function fn = {.name = string(m, name)};
	struct prof_line line = {0};
	uint32_t id;

	assert_int_equal(prof_model_function(m, &fn, &line.function), 0);
	assert_int_equal(prof_model_location(m, mapping, addr, EV_REASON_NAMED, &line, 1, &id), 0);
	return id;
}

static const char *module_of(const struct prof_model *m, const struct prof_top *top, size_t n,
                             const char *name)
{
	for (size_t i = 0; i < n; i++)
		if (strcmp(prof_model_str(m, top[i].name), name) == 0)
			return prof_top_module(m, &top[i]);
	return "not there";
}

static void test_a_name_of_several_files(void **state)
{
	struct prof_model *m = model();
	const uint32_t a = file(m, 0, "/a"), b = file(m, 100, "/b"),
	               a2 = file(m, 200, "/a"); /* the same file again */
	const uint32_t stacks[][3] = {
	        {mapped(m, a, 1, "leaf"), mapped(m, a, 2, "f"), mapped(m, a, 3, "g")},
	        {mapped(m, a, 1, "leaf"), mapped(m, b, 102, "f"), mapped(m, a2, 203, "g")},
	        {mapped(m, a, 1, "leaf"), mapped(m, b, 102, "f"), mapped(m, 0, 7, "none")},
	};
	const int64_t v[] = {1, 1};
	const uint32_t path[] = {string(m, "leaf"), string(m, "f")};
	struct prof_top *top;
	size_t n;

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(stacks); i++)
		assert_int_equal(prof_model_sample(m, stacks[i], 3, NULL, 0, v), 0);
	assert_int_equal(prof_model_top(m, 0, 10, &top, &n), 0);
	assert_string_equal(module_of(m, top, n, "leaf"), "/a");
	assert_string_equal(module_of(m, top, n, "f"), "[several]");
	assert_string_equal(module_of(m, top, n, "g"), "/a");
	assert_string_equal(module_of(m, top, n, "none"), "");
	free(top);
	assert_int_equal(prof_model_callers(m, 0, path, 1, &top, &n), 0);
	assert_string_equal(module_of(m, top, n, "f"), "[several]");
	free(top);
	assert_int_equal(prof_model_callers(m, 0, path, 2, &top, &n), 0);
	assert_string_equal(module_of(m, top, n, "g"), "/a");
	free(top);
	prof_model_free(m);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	        cmocka_unit_test(test_only_changes_are_copied),
	        cmocka_unit_test(test_only_changes_are_looked_at),
	        cmocka_unit_test(test_tasks_of_a_model),
	        cmocka_unit_test(test_callers_of_a_chain),
	        cmocka_unit_test(test_a_name_of_several_files),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
