/* SPDX-License-Identifier: Apache-2.0 */
/* test-session-places - to which function of a program the waits of an off-CPU profile belong */
#include "result/result.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

enum {
	ROWS = 16,
};

/* A model of an off-CPU profile, with what a sample is made of. */
struct fixture {
	struct prof_model *m;
	uint32_t state, longest; /* keys */
	uint64_t next;           /* address of the next location */
};

static struct fixture new_model(void)
{
	struct fixture f = {.next = 4096};

	assert_int_equal(prof_model_new(&f.m), 0);
	f.m->n_types = 2;
	assert_int_equal(prof_model_string(f.m, "state", &f.state), 0);
	assert_int_equal(prof_model_string(f.m, "longest", &f.longest), 0);
	return f;
}

/* A frame; @path: "": in no mapping. */
static uint32_t frame(struct fixture *f, const char *path, const char *name, enum ev_reason reason)
{
	struct prof_mapping map = {0};
	struct prof_function fn = {0};
	struct prof_line line = {0};
	uint32_t mapping = 0, ret;

	if (*path) {
		assert_int_equal(prof_model_string(f->m, path, &map.path), 0);
		assert_int_equal(prof_model_mapping(f->m, &map, &mapping), 0);
	}
	assert_int_equal(prof_model_string(f->m, name, &fn.name), 0);
	assert_int_equal(prof_model_function(f->m, &fn, &line.function), 0);
	assert_int_equal(
	        prof_model_location(f->m, mapping, f->next++, (uint8_t)reason, &line, 1, &ret), 0);
	return ret;
}

static uint32_t named(struct fixture *f, const char *path, const char *name)
{
	return frame(f, path, name, EV_REASON_NAMED);
}

static uint32_t kernel(struct fixture *f, const char *name)
{
	return named(f, "[kernel]", name);
}

/* A synthetic frame: in no file, at no address. */
static uint32_t mark(struct fixture *f, const char *name)
{
	struct prof_function fn = {0};
	struct prof_line line = {0};
	uint32_t ret;

	assert_int_equal(prof_model_string(f->m, name, &fn.name), 0);
	assert_int_equal(prof_model_function(f->m, &fn, &line.function), 0);
	assert_int_equal(prof_model_location(f->m, 0, 0, EV_REASON_NAMED, &line, 1, &ret), 0);
	return ret;
}

/* Waits with the stack locs[], leaf first, up to a 0. */
static void wait_at(struct fixture *f, const char *state, int64_t waits, int64_t ns,
                    int64_t longest_ns, const uint32_t *locs)
{
	struct prof_label labels[2] = {{.key = f->state}, {.key = f->longest, .num = longest_ns}};
	const int64_t values[2] = {waits, ns};
	uint32_t n = 0;

	while (locs[n])
		n++;
	assert_int_equal(prof_model_string(f->m, state, &labels[0].str), 0);
	assert_int_equal(prof_model_sample(f->m, locs, n, labels, 2, values), 0);
}
#define STACK(...) ((const uint32_t[]){__VA_ARGS__, 0})

static void assert_row(const struct pfa_offcpu_site *w, const char *name, const char *module,
                       const char *where)
{
	assert_string_equal(w->name, name);
	assert_string_equal(w->module, module);
	assert_string_equal(w->where, where);
}

static void test_waits_belong_to_the_innermost_function_of_no_system_library(void **state)
{
	static const char *const system[] = {
	        "/usr/lib/x86_64-linux-gnu/libc.so.6",
	        "/lib/x86_64-linux-gnu/libc-2.31.so",
	        "/lib/ld-musl-x86_64.so.1",
	        "/lib64/ld-linux-x86-64.so.2",
	        "/lib/aarch64-linux-gnu/libpthread.so.0",
	        "/usr/lib/x86_64-linux-gnu/libstdc++.so.6.0.30",
	        "[vdso]",
	};
	static const char *const own[] = {
	        "/usr/bin/app", "/usr/lib/libcurl.so.4", "/opt/libc/app", "/usr/lib/libc-client.so",
	        "[jit]",
	};
	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(system); i++) {
		for (size_t k = 0; k < ARRAY_SIZE(own); k++) {
			struct fixture f = new_model();
			uint32_t locs[] = {
			        kernel(&f, "__schedule"),      kernel(&f, "schedule"),
			        kernel(&f, "futex_wait"),      kernel(&f, "do_syscall_64"),
			        named(&f, system[i], "in_it"), named(&f, system[i], "caller"),
			        named(&f, own[k], "my_wait"),  named(&f, own[k], "main"),
			        named(&f, system[i], "start"), 0,
			};
			struct pfa_offcpu_site w[ROWS];

			wait_at(&f, "interruptible", 3, 500, 200, locs);
			assert_int_equal(result_sites(f.m, w, ROWS), 1);
			assert_row(&w[0], "my_wait", own[k], "futex_wait");
			assert_int_equal(w[0].where_cnt, 1);
			assert_int_equal(w[0].unnamed_cnt, 0);
			assert_int_equal(w[0].intervals, 3);
			assert_int_equal(w[0].offcpu_ns, 500);
			assert_int_equal(w[0].longest_ns, 200);
			prof_model_free(f.m);
		}
	}
}

static void test_what_has_no_such_function(void **state)
{
	struct fixture f = new_model();
	uint32_t sched = kernel(&f, "schedule"), sleeps = kernel(&f, "do_nanosleep"),
	         libc = named(&f, "/lib/libc.so.6", "nanosleep"),
	         start = named(&f, "/lib/libc.so.6", "start_thread"),
	         raw = frame(&f, "", "0x7f00", EV_REASON_NO_MAPPING);
	struct pfa_offcpu_site w[ROWS];

	(void)state;
	wait_at(&f, "interruptible", 1, 60, 60, STACK(sched, sleeps, libc, start));
	wait_at(&f, "interruptible", 1, 50, 50, STACK(sched, sleeps, raw));
	wait_at(&f, "uninterruptible", 1, 40, 40, STACK(sched, kernel(&f, "kswapd")));
	wait_at(&f, "idle", 1, 30, 30, STACK(sched)); /* nothing but the scheduler */
	wait_at(&f, "iowait", 1, 20, 20, STACK(mark(&f, "[kernel thread]")));
	/* Without kernel stacks. */
	wait_at(&f, "iowait", 1, 10, 10, STACK(libc, named(&f, "/bin/app", "reads")));
	/* It was interrupted at a random place. */
	wait_at(&f, "preempted", 1, 9, 9,
	        STACK(kernel(&f, "irqentry_exit"), named(&f, "/bin/app", "spins")));
	assert_int_equal(result_sites(f.m, w, ROWS), 7);
	assert_row(&w[6], "spins", "/bin/app", "preempted");
	assert_row(&w[0], "nanosleep", "/lib/libc.so.6", "do_nanosleep");
	assert_row(&w[1], "0x7f00", "", "do_nanosleep");
	assert_int_equal(w[1].unnamed_cnt, 1);
	assert_row(&w[2], "kswapd", "[kernel]", "uninterruptible");
	assert_row(&w[3], "schedule", "[kernel]", "idle");
	assert_row(&w[4], "[kernel thread]", "", "iowait");
	assert_row(&w[5], "reads", "/bin/app", "iowait");
	prof_model_free(f.m);
}

static void test_frames_of_a_waker_are_no_blocked_function(void **state)
{
	struct fixture f = new_model();
	struct pfa_offcpu_site w[ROWS];

	(void)state;
	wait_at(&f, "interruptible", 1, 10, 10,
	        STACK(kernel(&f, "futex_wait"), named(&f, "/lib/libc.so.6", "futex"),
	              mark(&f, "[woken by]"), kernel(&f, "futex_wake"),
	              named(&f, "/bin/app", "wakes")));
	wait_at(&f, "interruptible", 1, 5, 5,
	        STACK(kernel(&f, "kthreadd"), mark(&f, "[woken by]"), kernel(&f, "wakes_it")));
	assert_int_equal(result_sites(f.m, w, ROWS), 2);
	assert_row(&w[0], "futex", "/lib/libc.so.6", "futex_wait");
	assert_row(&w[1], "kthreadd", "[kernel]", "interruptible");
	prof_model_free(f.m);
}

static void test_waits_of_one_function_add_up(void **state)
{
	struct fixture f = new_model();
	uint32_t loop = named(&f, "/bin/app", "loop"), main_ = named(&f, "/bin/app", "main"),
	         polls = kernel(&f, "do_epoll_wait"), locks = kernel(&f, "futex_wait"),
	         resumes = kernel(&f, "irqentry_exit");
	struct pfa_offcpu_site w[ROWS];

	(void)state;
	wait_at(&f, "interruptible", 10, 100, 90, STACK(locks, loop, main_));
	wait_at(&f, "interruptible", 1, 80, 80, STACK(polls, loop));
	wait_at(&f, "interruptible", 2, 70, 95, STACK(polls, loop, main_));
	wait_at(&f, "preempted", 1, 9, 9, STACK(resumes, loop, main_));
	wait_at(&f, "interruptible", 4, 110, 40, STACK(locks, main_));
	/* Another function of that name. */
	wait_at(&f, "interruptible", 1, 300, 300, STACK(locks, named(&f, "/bin/other", "main")));
	assert_int_equal(result_sites(f.m, w, ROWS), 3);
	assert_row(&w[0], "main", "/bin/other", "futex_wait");
	assert_row(&w[1], "loop", "/bin/app", "do_epoll_wait"); /* 150 of 259 */
	assert_int_equal(w[1].where_cnt, 3);
	assert_int_equal(w[1].offcpu_ns, 259);
	assert_int_equal(w[1].intervals, 14);
	assert_int_equal(w[1].longest_ns, 95);
	assert_row(&w[2], "main", "/bin/app", "futex_wait");
	assert_int_equal(w[2].offcpu_ns, 110);
	/* The first of them alone. */
	assert_int_equal(result_sites(f.m, w, 1), 1);
	assert_row(&w[0], "main", "/bin/other", "futex_wait");
	wait_at(&f, "interruptible", 1, INT64_MAX, 1, STACK(polls, main_, main_));
	assert_int_equal(result_sites(f.m, w, ROWS), 3);
	assert_true(w[0].offcpu_ns == INT64_MAX); /* sums stop at their end */
	prof_model_free(f.m);
	f = new_model();
	assert_int_equal(result_sites(f.m, w, ROWS), 0);
	prof_model_free(f.m);
}

static void test_addresses_without_a_name_are_one_row_for_what_they_wait_in(void **state)
{
	struct fixture f = new_model();
	uint32_t a = frame(&f, "/bin/app", "0x10 [app]", EV_REASON_NO_SYMBOL),
	         b = frame(&f, "/bin/app", "0x20 [app]", EV_REASON_NO_SYMBOL),
	         c = frame(&f, "/bin/other", "0x20 [other]", EV_REASON_NO_SYMBOL),
	         sleeps = kernel(&f, "do_nanosleep"), reads = kernel(&f, "pipe_read");
	struct pfa_offcpu_site w[ROWS];

	(void)state;
	wait_at(&f, "interruptible", 1, 100, 100, STACK(sleeps, a));
	wait_at(&f, "interruptible", 1, 100, 100, STACK(sleeps, a, a));
	wait_at(&f, "interruptible", 1, 50, 50, STACK(sleeps, b, a));
	wait_at(&f, "interruptible", 1, 40, 40, STACK(reads, a));
	wait_at(&f, "interruptible", 1, 30, 30, STACK(sleeps, c));
	assert_int_equal(result_sites(f.m, w, ROWS), 3);
	assert_string_equal(w[0].module, "/bin/app");
	assert_string_equal(w[0].where, "do_nanosleep");
	assert_int_equal(w[0].unnamed_cnt, 2);
	assert_int_equal(w[0].where_cnt, 1);
	assert_int_equal(w[0].offcpu_ns, 250);
	assert_row(&w[1], "0x10 [app]", "/bin/app", "pipe_read");
	assert_row(&w[2], "0x20 [other]", "/bin/other", "do_nanosleep");
	assert_int_equal(w[2].unnamed_cnt, 1);
	prof_model_free(f.m);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	        cmocka_unit_test(test_waits_belong_to_the_innermost_function_of_no_system_library),
	        cmocka_unit_test(test_what_has_no_such_function),
	        cmocka_unit_test(test_frames_of_a_waker_are_no_blocked_function),
	        cmocka_unit_test(test_waits_of_one_function_add_up),
	        cmocka_unit_test(test_addresses_without_a_name_are_one_row_for_what_they_wait_in),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
