/* SPDX-License-Identifier: Apache-2.0 */
/* test-label - who is asked about processes, how often, and which labels are taken */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/base.h"
#include "label/label.h"
#include "proc/proc.h"

/* ---- instead of the real ones ---------------------------------------------------------------- */

static int fail_in = -1; /* so many allocations succeed, then one fails; -1: none fails */
static const char *tracked = "";

void *__real_calloc(size_t n, size_t size);
void *__real_realloc(void *p, size_t size);
char *__real_strdup(const char *s);
void *__wrap_calloc(size_t n, size_t size);
void *__wrap_realloc(void *p, size_t size);
char *__wrap_strdup(const char *s);
const char *__wrap_trk_comm(const struct trk *t, const struct ev_proc_id *id);

static bool fails_now(void)
{
	return fail_in >= 0 && fail_in-- == 0;
}

void *__wrap_calloc(size_t n, size_t size)
{
	return fails_now() ? NULL : __real_calloc(n, size);
}

void *__wrap_realloc(void *p, size_t size)
{
	return fails_now() ? NULL : __real_realloc(p, size);
}

char *__wrap_strdup(const char *s)
{
	return fails_now() ? NULL : __real_strdup(s);
}

const char *__wrap_trk_comm(const struct trk *t, const struct ev_proc_id *id)
{
	(void)t;
	assert_int_equal(id->exec_id, 0); /* the newest name */
	return tracked;
}

/* ---- an enricher ----------------------------------------------------------------------------- */

struct asked {
	uint32_t calls;
	struct pfa_process last;
	char comm[32], cgroup[4096];
	bool has_cgroup;
	void (*say)(struct pfa_label_sink *to);
};

static void ask(void *arg, const struct pfa_process *p, struct pfa_label_sink *to)
{
	struct asked *a = arg;

	a->calls++;
	a->last = *p;
	(void)str_copy(a->comm, sizeof(a->comm), p->comm);
	a->has_cgroup = p->cgroup != NULL;
	(void)str_copy(a->cgroup, sizeof(a->cgroup), p->cgroup ? p->cgroup : "");
	if (a->say)
		a->say(to);
}

static void say_one(struct pfa_label_sink *to)
{
	(void)label_add(to, "one", "1"); /* out of memory is a case */
}

static void say_two(struct pfa_label_sink *to)
{
	(void)label_add(to, "two", "2");
}

static const struct trk *tracker; /* of each call */

static struct labels *new_labels(void)
{
	struct labels *l = NULL;

	assert_int_equal(labels_new(&l), 0);
	return l;
}

/* Asks for the labels of a process. */
static struct label_list of(struct labels *l, uint32_t pid, uint64_t start_ns, uint32_t exec_id,
                            bool foreign)
{
	const struct ev_proc_id id = {.pid = pid, .start_ns = start_ns, .exec_id = exec_id};
	struct label_list ret = {.n = 99};

	assert_int_equal(labels_of(l, tracker, &id, foreign, "given", &ret), 0);
	return ret;
}

/* ---- tests ----------------------------------------------------------------------------------- */

static void say_all_kinds(struct pfa_label_sink *to)
{
	char long_key[PFA_LABEL_KEY_BYTES + 2] = "", long_value[PFA_LABEL_VALUE_BYTES + 2] = "";
	const struct {
		const char *key, *value;
		int result;
	} cases[] = {
	        {"pod", "shop-1", 0},
	        {"b=c \"d\"", "\xc3\xa9\xff", 0}, /* encoders know how to write these */
	        {NULL, "x", -EINVAL},
	        {"x", NULL, -EINVAL},
	        {"", "x", -EINVAL},
	        {"x", "", -EINVAL},
	        {"a\nb", "x", -EINVAL},
	        {"x", "a\x7f", -EINVAL},
	        {"x", "a\xc2\x9b", -EINVAL},
	        {"x", "a\x1b[1m", -EINVAL},
	        {"pod", "again", -EEXIST},
	        {"pid", "1", -EEXIST},
	        {"waker", "x", -EEXIST},
	        {long_key, "x", -E2BIG},
	        {"x", long_value, -E2BIG},
	        {long_key + 1, long_value + 1, 0},
	};

	memset(long_key, 'k', sizeof(long_key) - 1);
	memset(long_value, 'v', sizeof(long_value) - 1);
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		int r = label_add(to, cases[i].key, cases[i].value);

		if (r != cases[i].result)
			fail_msg("case %zu: %d", i, r);
	}
}

static void test_labels_are_checked(void **state)
{
	struct asked a = {.say = say_all_kinds};
	struct labels *l = new_labels();
	struct label_list of_it;

	(void)state;
	assert_int_equal(labels_add_enricher(l, ask, &a, NULL), 0);
	of_it = of(l, 1, 1, 0, false);
	assert_int_equal(a.calls, 1);
	assert_int_equal(of_it.n, 3);
	assert_string_equal(of_it.v[0].key, "pod");
	assert_string_equal(of_it.v[0].value, "shop-1");
	assert_string_equal(of_it.v[1].value, "\xc3\xa9\xff");
	assert_int_equal(strlen(of_it.v[2].key), PFA_LABEL_KEY_BYTES);
	assert_int_equal(strlen(of_it.v[2].value), PFA_LABEL_VALUE_BYTES);
	labels_free(l);
}

static void say_many(struct pfa_label_sink *to)
{
	char key[8];

	for (int i = 0; i <= PFA_LABELS_MAX; i++) {
		(void)snprintf(key, sizeof(key), "k%d", i);
		assert_int_equal(label_add(to, key, "v"), i < PFA_LABELS_MAX ? 0 : -E2BIG);
	}
}

static void test_a_process_has_so_many_labels_at_most(void **state)
{
	struct asked many = {.say = say_many}, one = {.say = say_one};
	struct labels *l = new_labels();

	(void)state;
	assert_int_equal(labels_add_enricher(l, ask, &many, NULL), 0);
	assert_int_equal(labels_add_enricher(l, ask, &one, NULL), 0);
	assert_int_equal(of(l, 1, 1, 0, false).n, PFA_LABELS_MAX);
	labels_free(l);
}

static void test_each_process_is_asked_about_once(void **state)
{
	struct asked one = {.say = say_one}, two = {.say = say_two};
	struct labels *l = new_labels();
	struct label_list of_it;

	(void)state;
	assert_int_equal(labels_add_enricher(l, ask, &one, NULL), 0);
	assert_int_equal(labels_add_enricher(l, ask, &two, NULL), 0);
	for (uint32_t exec_id = 0; exec_id < 3; exec_id++) { /* a new program is no new process */
		of_it = of(l, 7, 100, exec_id, false);
		assert_int_equal(of_it.n, 2);
		assert_string_equal(of_it.v[0].key, "one");
		assert_string_equal(of_it.v[1].key, "two");
		assert_int_equal(one.calls, 1);
		assert_int_equal(two.calls, 1);
	}
	assert_int_equal(one.last.pid, 7);
	assert_int_equal(one.last.start_ns, 100);
	assert_string_equal(one.comm, "given");
	(void)of(l, 7, 200, 0, false); /* the number in use again */
	(void)of(l, 8, 100, 0, false);
	assert_int_equal(one.calls, 3);
	(void)of(l, 7, 100, 0, true); /* in another pid namespace */
	assert_int_equal(one.calls, 4);
	assert_int_equal(one.last.pid, 0);
	(void)of(l, 7, 100, 0, false);
	assert_int_equal(two.calls, 4);
	labels_forget(l); /* and the next capture */
	(void)of(l, 7, 100, 0, false);
	assert_int_equal(one.calls, 5);
	labels_free(l);
}

static void test_the_newest_name_is_reported(void **state)
{
	struct asked a = {.say = say_one};
	struct labels *l = new_labels();

	(void)state;
	assert_int_equal(labels_add_enricher(l, ask, &a, NULL), 0);
	tracker = (struct trk *)&a; /* not looked into */
	(void)of(l, 1, 1, 3, false);
	assert_string_equal(a.comm, "given");
	tracked = "now";
	(void)of(l, 2, 1, 3, false);
	assert_string_equal(a.comm, "now");
	(void)of(l, 2, 1, 3, true); /* its number means another process here */
	assert_string_equal(a.comm, "given");
	tracked = "";
	tracker = NULL;
	labels_free(l);
}

static void test_cgroup_is_that_of_the_very_process(void **state)
{
	uint32_t pid = (uint32_t)getpid();
	struct asked a = {.calls = 0};
	struct labels *l = new_labels();
	uint64_t start_ns;
	struct sbuf b;

	(void)state;
	sbuf_init(&b, 4096);
	assert_int_equal(proc_start_ns(pid, &start_ns), 0);
	assert_int_equal(labels_add_enricher(l, ask, &a, NULL), 0);
	(void)of(l, pid, start_ns + 5, 0, false);
	if (proc_cgroup_path(pid, &b) == 0) { /* not where there are old hierarchies alone */
		assert_true(a.has_cgroup);
		assert_string_equal(a.cgroup, b.p);
	}
	(void)of(l, pid, start_ns + 10 * NSEC_PER_MSEC, 0, false);
	assert_false(a.has_cgroup);
	(void)of(l, pid, start_ns - 1, 0, false);
	assert_false(a.has_cgroup);
	(void)of(l, pid, 0, 0, false);
	assert_false(a.has_cgroup);
	(void)of(l, pid, start_ns + 5, 0, true);
	assert_false(a.has_cgroup);
	assert_int_equal(a.calls, 5);
	sbuf_done(&b);
	labels_free(l);
}

static void test_entries_of_the_metrics_get_the_labels(void **state)
{
	struct asked a = {.say = say_one};
	struct labels *l = new_labels();
	struct met_snapshot *m = NULL;
	struct met_entry e;

	(void)state;
	assert_int_equal(met_snapshot_new(&m), 0);
	for (uint32_t pid = 0; pid < 3; pid++) {
		met_entry_init(&e);
		e.pid = pid;
		e.start_ns = 100;
		memset(e.comm, 'c', sizeof(e.comm)); /* no NUL */
		assert_int_equal(vec_push(&m->procs, e), 0);
	}
	assert_int_equal(labels_of_metrics(l, NULL, m), 0);
	assert_int_equal(m->procs.p[1].labels.n, 0); /* no enricher */
	assert_int_equal(labels_add_enricher(l, ask, &a, NULL), 0);
	(void)of(l, 1, 100, 9, false); /* was in a profile, too */
	assert_int_equal(labels_of_metrics(l, NULL, m), 0);
	assert_int_equal(a.calls, 2);
	assert_string_equal(a.comm, "cccccccccccccccc");
	assert_int_equal(m->procs.p[0].labels.n, 0); /* the others, which are no process */
	for (int i = 1; i < 3; i++) {
		assert_int_equal(m->procs.p[i].labels.n, 1);
		assert_string_equal(m->procs.p[i].labels.p[0].key, "one");
		assert_string_equal(m->procs.p[i].labels.p[0].value, "1");
	}
	met_snapshot_free(m);
	labels_free(l);
}

static void test_without_enrichers_nothing_is_allocated(void **state)
{
	struct labels *l = new_labels();

	(void)state;
	assert_false(labels_any(l));
	fail_in = 0;
	assert_int_equal(of(l, 1, 1, 0, false).n, 0);
	fail_in = -1;
	labels_free(l);
}

static void test_who_may_be_added(void **state)
{
	struct asked a = {.calls = 0};
	struct labels *l = new_labels();
	struct err err = {0};

	(void)state;
	assert_int_equal(labels_add_enricher(l, NULL, NULL, &err), -EINVAL);
	for (int i = 0; i < PFA_ENRICHERS_MAX; i++)
		assert_int_equal(labels_add_enricher(l, ask, &a, &err), 0);
	assert_int_equal(labels_add_enricher(l, ask, &a, &err), -E2BIG);
	(void)of(l, 1, 1, 0, false);
	assert_int_equal(a.calls, PFA_ENRICHERS_MAX);
	labels_free(l);
}

static void test_out_of_memory_at_each_allocation(void **state)
{
	const struct ev_proc_id id = {.pid = 1}; /* without a cgroup, which may be missing */
	int failures = 0;

	(void)state;
	for (;; failures++) {
		struct asked a = {.say = say_one};
		struct labels *l = new_labels();
		struct label_list of_it = {.n = 99};
		int r;

		assert_int_equal(labels_add_enricher(l, ask, &a, NULL), 0);
		fail_in = failures;
		r = labels_of(l, NULL, &id, false, "x", &of_it);
		fail_in = -1;
		if (r < 0) {
			assert_int_equal(r, -ENOMEM);
			assert_int_equal(of_it.n, 99);
			of_it = of(l, 1, 0, 0, false); /* asked again when there is memory */
		}
		assert_int_equal(of_it.n, 1);
		labels_free(l);
		if (r == 0)
			break;
	}
	assert_true(failures >= 7); /* the table's two, a label's two, the lists */
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	        cmocka_unit_test(test_labels_are_checked),
	        cmocka_unit_test(test_a_process_has_so_many_labels_at_most),
	        cmocka_unit_test(test_each_process_is_asked_about_once),
	        cmocka_unit_test(test_the_newest_name_is_reported),
	        cmocka_unit_test(test_cgroup_is_that_of_the_very_process),
	        cmocka_unit_test(test_entries_of_the_metrics_get_the_labels),
	        cmocka_unit_test(test_without_enrichers_nothing_is_allocated),
	        cmocka_unit_test(test_who_may_be_added),
	        cmocka_unit_test(test_out_of_memory_at_each_allocation),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
