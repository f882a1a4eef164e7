/* SPDX-License-Identifier: Apache-2.0 */
/* test-result-functions - whose code a function is; functions by process, and interpreted ones */
#include "result/result.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

enum {
	ROWS = 16,
};

static void test_owners_by_file_and_name(void **state)
{
	static const struct {
		const char *path, *name;
		enum prof_owner owner;
	} t[] = {
	        {"[kernel]", "do_syscall_64", PROF_KERNEL},
	        {"", "[stack lost]", PROF_SYSTEM},
	        {"/usr/lib/x86_64-linux-gnu/libc.so.6", "qsort", PROF_SYSTEM},
	        {"[vdso]", "__vdso_clock_gettime", PROF_SYSTEM},
	        {"/usr/lib/libstdc++.so.6", "std::condition_variable::wait", PROF_SYSTEM},
	        {"/bin/shop", "main", PROF_OWN},
	        {"/bin/shop", "", PROF_OWN},
	        {"/bin/shop", "shop::wait_for_order()", PROF_OWN},
	        {"/bin/shop", "std::this_thread::sleep_for<long, std::ratio<1l, 1000l> >",
	         PROF_RUNTIME},
	        {"/bin/shop", "void std::sort<int*>(int*, int*)", PROF_RUNTIME},
	        {"/bin/shop", "__gthread_cond_wait", PROF_RUNTIME},
	        {"/bin/shop", "pthread_cond_wait", PROF_RUNTIME},
	        {"/bin/shop", "stdout_flush", PROF_OWN},
	        {"/bin/go", "runtime.gopark", PROF_RUNTIME},
	        {"/bin/go", "sync.(*Mutex).Lock", PROF_RUNTIME},
	        {"/bin/go", "main.work", PROF_OWN},
	        {"/bin/rust", "<alloc::vec::Vec<T> as core::ops::Drop>::drop", PROF_RUNTIME},
	        {"/usr/bin/python3.11", "PyThread_acquire_lock_timed", PROF_RUNTIME},
	        {"/usr/lib/libpython3.11.so.1.0", "list_sort", PROF_RUNTIME},
	        {"/usr/bin/node", "uv__io_poll", PROF_RUNTIME},
	        {"/usr/lib/jvm/libjvm.so", "os::sleep", PROF_RUNTIME},
	        {"/usr/bin/perl", "Perl_pp_add", PROF_RUNTIME},
	        {"/opt/perlin", "noise", PROF_OWN},
	        {"/opt/nodejs-addon.node", "work", PROF_OWN},
	        {"[jit]", "py::fib", PROF_OWN},
	        {"/bin/shop", "_start", PROF_RUNTIME},
	        {"/bin/shop", "_start_sale", PROF_OWN},
	        {"/bin/shop", "__libc_start_call_main", PROF_RUNTIME},
	        {"/bin/shop", "clone3", PROF_RUNTIME},
	        {"/bin/shop", "start_thread", PROF_RUNTIME},
	        {"/bin/shop", "start_threads", PROF_OWN},
	        {"/bin/shop", "JavaMain", PROF_RUNTIME},
	        {"/usr/lib/jvm/lib/libjli.so", "CallJavaMainInNewThread", PROF_RUNTIME},
	        {"[jit]", "Interpreter", PROF_RUNTIME},
	        {"[jit]", "StubRoutines (1)", PROF_RUNTIME},
	        {"[jit]", "call_stub", PROF_RUNTIME},
	        {"[jit]", "Interpreter.run", PROF_OWN},
	        {"/bin/shop", "Interpreter", PROF_OWN},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(t); i++)
		if (prof_owner(t[i].path, t[i].name) != t[i].owner)
			fail_msg("%s in %s: %d", t[i].name, t[i].path,
			         prof_owner(t[i].path, t[i].name));
}

static uint32_t str(struct prof_model *m, const char *s)
{
	uint32_t id;

	assert_int_equal(prof_model_string(m, s, &id), 0);
	return id;
}

static uint32_t frame(struct prof_model *m, const char *path, const char *name)
{
	struct prof_mapping map = {.path = str(m, path)};
	struct prof_function fn = {.name = str(m, name)};
	struct prof_line line = {0};
	uint32_t mapping, ret;

	assert_int_equal(prof_model_mapping(m, &map, &mapping), 0);
	assert_int_equal(prof_model_function(m, &fn, &line.function), 0);
	assert_int_equal(prof_model_location(m, mapping, 4096 + line.function, EV_REASON_NAMED,
	                                     &line, 1, &ret),
	                 0);
	return ret;
}

static void sample(struct prof_model *m, const uint32_t *locs, uint32_t n, int64_t pid, int64_t tid,
                   const char *comm, int64_t value)
{
	const struct prof_label labels[] = {{.key = str(m, "pid"), .num = pid},
	                                    {.key = str(m, "tid"), .num = tid},
	                                    {.key = str(m, "comm"), .str = str(m, comm)}};
	const int64_t values[] = {1, value};
	uint32_t first = pid ? 0 : 2;

	assert_int_equal(prof_model_sample(m, locs, n, labels + first, 3 - first, values), 0);
}

static struct prof_model *new_model(void)
{
	struct prof_model *m;

	assert_int_equal(prof_model_new(&m), 0);
	m->n_types = 2;
	return m;
}

static void assert_row(const struct pfa_hot_function *f, const char *name, const char *process,
                       uint64_t self, uint64_t cum)
{
	assert_string_equal(f->name, name);
	assert_string_equal(f->process, process);
	assert_int_equal(f->self, self);
	assert_int_equal(f->cum, cum);
}

static void test_functions_by_process(void **state)
{
	struct prof_model *m = new_model();
	const uint32_t work = frame(m, "/bin/shop", "work"),
	               main_fn = frame(m, "/bin/shop", "main");
	const uint32_t stack[] = {work, main_fn, main_fn};
	struct pfa_hot_function f[ROWS];
	struct result res = {.model = m};

	(void)state;
	sample(m, stack, 3, 7, 8, "worker", 10);
	sample(m, stack, 3, 7, 7, "shop", 20);
	sample(m, stack, 3, 9, 9, "shop", 30); /* another process of this name */
	sample(m, stack, 3, 5, 6, "lone", 40); /* the process has no name */
	sample(m, stack, 3, 0, 0, "far", 50);  /* outside the pid namespace */
	assert_int_equal(result_name_process(&res, 7, "shop"), 0);
	assert_int_equal(result_name_process(&res, 7, "other"), 0); /* has one */
	assert_int_equal(result_name_process(&res, 9, "shop"), 0);
	assert_int_equal(result_functions(&res, NULL, false, f, ROWS), 2);
	assert_row(&f[0], "work", "", 150, 150);
	assert_row(&f[1], "main", "", 0, 150); /* recursion counts once */
	assert_int_equal(f[0].own, 1);
	assert_int_equal(result_functions(&res, NULL, true, f, ROWS), 6);
	assert_row(&f[0], "work", "shop", 60, 60);
	assert_row(&f[1], "work", "far", 50, 50);
	assert_row(&f[2], "work", "lone", 40, 40);
	assert_row(&f[3], "main", "shop", 0, 60);
	assert_int_equal(result_functions(&res, NULL, true, f, 1), 1);
	result_done(&res);
}

static void test_interpreted_functions_have_the_time_of_their_evaluator(void **state)
{
	struct prof_model *m = new_model();
	const uint32_t eval = frame(m, "/bin/python3", "_PyEval_EvalFrameDefault"),
	               fib = frame(m, "[jit]", "py::fib"),
	               alloc = frame(m, "/bin/python3", "alloc"),
	               call = frame(m, "/bin/python3", "call");
	const uint32_t named[] = {eval, fib, call}, unnamed[] = {eval, call},
	               callee[] = {alloc, eval, fib, call};
	struct pfa_hot_function f[ROWS];
	struct result res = {.model = m};

	(void)state;
	sample(m, named, 3, 7, 7, "python3", 10);
	sample(m, unnamed, 2, 7, 7, "python3", 3);
	sample(m, callee, 4, 7, 7, "python3", 5);
	assert_int_equal(result_functions(&res, NULL, false, f, ROWS), 4);
	assert_row(&f[0], "py::fib", "", 10, 15);
	assert_row(&f[1], "alloc", "", 5, 5);
	assert_row(&f[2], "_PyEval_EvalFrameDefault", "", 3, 18);
	assert_row(&f[3], "call", "", 0, 18);
	assert_int_equal(f[0].own, 1);
	assert_int_equal(f[1].own, 0);
	result_done(&res);
}

static bool skip_alloc(const char *path, const char *name)
{
	(void)path;
	return strcmp(name, "alloc") == 0;
}

static void test_skipped_leaves_and_no_samples(void **state)
{
	struct prof_model *m = new_model();
	const uint32_t alloc = frame(m, "/bin/a", "alloc"), f1 = frame(m, "/bin/a", "f");
	const uint32_t both[] = {alloc, f1};
	struct pfa_hot_function f[ROWS];
	struct result res = {.model = m};

	(void)state;
	assert_int_equal(result_functions(&res, NULL, true, f, ROWS), 0);
	sample(m, both, 2, 7, 7, "a", 10);
	sample(m, both, 1, 7, 7, "a", 5);
	assert_int_equal(result_functions(&res, skip_alloc, false, f, ROWS), 2);
	assert_row(&f[0], "f", "", 10, 10);
	assert_row(&f[1], "alloc", "", 5, 15); /* all of the second were skipped */
	result_done(&res);
}

static void test_shares_of_complete_stacks(void **state)
{
	struct prof_model *m = new_model();
	const uint32_t start = frame(m, "/bin/a", "_start"), main_fn = frame(m, "/bin/a", "main"),
	               f1 = frame(m, "/bin/a", "f"), cut = frame(m, "", "[truncated]"),
	               clone = frame(m, "/lib/libc.so.6", "clone3");
	const uint32_t whole[] = {f1, main_fn, start}, broken[] = {f1, main_fn}, lost[] = {f1, cut},
	               thread[] = {f1, clone}, kernel[] = {frame(m, "[kernel]", "idle")};
	struct pfa_hot_function f[ROWS];
	struct result res = {.model = m};

	(void)state;
	sample(m, whole, 3, 7, 7, "a", 30);
	sample(m, broken, 2, 7, 7, "a", 50);
	sample(m, lost, 2, 7, 7, "a", 60);
	sample(m, kernel, 1, 7, 7, "a", 5);
	sample(m, thread, 2, 9, 9, "b", 10);
	assert_int_equal(result_functions(&res, NULL, true, f, ROWS), 7);
	assert_row(&f[0], "f", "a", 140, 140);
	assert_int_equal(f[0].complete_pct, 100);
	assert_row(&f[1], "f", "b", 10, 10);
	assert_int_equal(f[1].complete_pct, 100);
	assert_row(&f[3], "main", "a", 0, 80);
	assert_int_equal(f[3].complete_pct, 100); /* in each of a's */
	assert_int_equal(result_functions(&res, NULL, false, f, ROWS), 6);
	assert_row(&f[2], "main", "", 0, 80);
	assert_int_equal(f[2].complete_pct, 75);
	result_done(&res);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	        cmocka_unit_test(test_owners_by_file_and_name),
	        cmocka_unit_test(test_functions_by_process),
	        cmocka_unit_test(test_interpreted_functions_have_the_time_of_their_evaluator),
	        cmocka_unit_test(test_skipped_leaves_and_no_samples),
	        cmocka_unit_test(test_shares_of_complete_stacks),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
