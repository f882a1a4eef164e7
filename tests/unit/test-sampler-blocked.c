/* SPDX-License-Identifier: Apache-2.0 */
/* test-sampler-blocked - threads that waited when a capture began; without a kernel side */
#include "sampler/sampler_priv.h"

#include <setjmp.h>
#include <stdarg.h>
#include <unistd.h>

#include <cmocka.h>

/* ---- a kernel side that is made up ----------------------------------------------------------- */

static struct abi_offcpu_blocked blocked; /* the one thread that waits */
static bool still_waits;

static bool streams;

struct load_oncpu *__wrap_smp_walker_loader(struct smp_walker *w);
bool __wrap_smp_walker_streams(const struct smp_walker *w);
int __wrap_load_offcpu_open(struct load_oncpu *base, const struct load_offcpu_options *o,
                            struct load_offcpu **ret, struct err *err);
struct load_offcpu *__wrap_load_offcpu_free(struct load_offcpu *l);
void __wrap_load_offcpu_follow(struct load_offcpu *l);
uint64_t __wrap_load_offcpu_begin(struct load_offcpu *l);
int __wrap_load_offcpu_end(struct load_offcpu *l, uint64_t end_ns);
void __wrap_load_offcpu_detach(struct load_offcpu *l);
int __wrap_load_offcpu_drain_final(struct load_offcpu *l, load_offcpu_fn fn, void *arg);
int __wrap_load_offcpu_threads(struct load_offcpu *l, load_offcpu_thread_fn fn, void *arg);
int __wrap_load_offcpu_blocked(struct load_offcpu *l, load_blocked_fn fn, void *arg);
bool __wrap_load_offcpu_is_open(const struct load_offcpu *l, uint32_t kernel_tid, uint64_t ustack);

struct load_oncpu *__wrap_smp_walker_loader(struct smp_walker *w)
{
	(void)w;
	return NULL;
}

bool __wrap_smp_walker_streams(const struct smp_walker *w)
{
	(void)w;
	return streams;
}

int __wrap_load_offcpu_open(struct load_oncpu *base, const struct load_offcpu_options *o,
                            struct load_offcpu **ret, struct err *err)
{
	(void)base;
	(void)o;
	(void)err;
	*ret = NULL;
	return 0;
}

struct load_offcpu *__wrap_load_offcpu_free(struct load_offcpu *l)
{
	(void)l;
	return NULL;
}

/* Calls in this order: every thread is known before waits count. */
static unsigned int followed, looked, begun;
static uint64_t begin_ns;
static struct abi_offcpu_thread thread;

void __wrap_load_offcpu_follow(struct load_offcpu *l)
{
	(void)l;
	assert_int_equal(looked + begun, 0);
	followed++;
}

uint64_t __wrap_load_offcpu_begin(struct load_offcpu *l)
{
	(void)l;
	assert_int_equal(followed, 1);
	assert_int_equal(looked, 1);
	begun++;
	return begin_ns;
}

static uint64_t looked_up_to_ns, detached_after_ns;

void __wrap_load_offcpu_detach(struct load_offcpu *l)
{
	(void)l;
	detached_after_ns = looked_up_to_ns;
}

int __wrap_load_offcpu_end(struct load_offcpu *l, uint64_t end_ns)
{
	(void)l;
	looked_up_to_ns = end_ns;
	return 0;
}

int __wrap_load_offcpu_drain_final(struct load_offcpu *l, load_offcpu_fn fn, void *arg)
{
	(void)l;
	(void)fn;
	(void)arg;
	return 0;
}

int __wrap_load_offcpu_threads(struct load_offcpu *l, load_offcpu_thread_fn fn, void *arg)
{
	(void)l;
	fn(arg, 7, &thread);
	return 1;
}

int __wrap_load_offcpu_blocked(struct load_offcpu *l, load_blocked_fn fn, void *arg)
{
	(void)l;
	looked++;
	fn(arg, &blocked);
	return 0;
}

bool __wrap_load_offcpu_is_open(const struct load_offcpu *l, uint32_t kernel_tid, uint64_t ustack)
{
	(void)l;
	assert_int_equal(kernel_tid, blocked.kernel_tid);
	assert_int_equal(ustack, blocked.key.ustack);
	return still_waits;
}

/* ---- what is handed on ----------------------------------------------------------------------- */

static struct ev_stack stack;
static unsigned int n_stacks, n_copies;

static void on_stack(void *arg, const struct ev_stack *s)
{
	(void)arg;
	stack = *s;
	n_stacks++;
}

static void on_thread(void *arg, const struct ev_thread *t)
{
	(void)arg;
	(void)t;
}

static void on_deferred(void *arg, const struct ev_deferred *c)
{
	(void)arg;
	assert_int_equal(c->placeholder, blocked.key.ustack);
	n_copies++;
}

/* Starts with a thread whose stack pointer is in this very frame. */
static void look(uint32_t flags, bool waits)
{
	const struct smp_sink sink = {
	        .stack = on_stack, .thread = on_thread, .deferred = on_deferred};
	const struct load_offcpu_options o = {.thread_entries = 1};
	_cleanup_(smp_offcpu_freep) struct smp_offcpu *off = NULL;
	struct err err = {0};

	blocked = (struct abi_offcpu_blocked){.key = {.ustack = 99,
	                                              .tgid = (uint32_t)getpid(),
	                                              .tid = (uint32_t)getpid(),
	                                              .flags = flags},
	                                      .kernel_tid = 7,
	                                      .regs = 1};
	blocked.reg[ABI_REG_SP] = (uint64_t)(uintptr_t)__builtin_frame_address(0);
	still_waits = waits;
	followed = looked = begun = 0;
	n_stacks = n_copies = 0;
	stack = (struct ev_stack){0};
	assert_int_equal(smp_offcpu_open(NULL, &o, &off, &err), 0);
	assert_int_equal(smp_offcpu_begin(off, true), 0);
	assert_int_equal(smp_offcpu_blocked(off, true, 10, &sink), 0);
}

static void test_stack_of_a_thread_that_waits_on_is_handed_on(void **state)
{
	(void)state;
	look(0, true);
	assert_int_equal(n_copies, 1);
	assert_int_equal(n_stacks, 0);
}

/* It lives: that its stack is lost has another reason than that of processes that ended. */
static void test_thread_that_ran_in_between_is_reported(void **state)
{
	(void)state;
	look(0, false);
	assert_int_equal(n_copies, 0);
	assert_int_equal(n_stacks, 1);
	assert_int_equal(stack.hash, 99);
	assert_int_equal(stack.n, 0);
	assert_int_equal(stack.walk, EV_WALK_RESUMED);
}

static void test_thread_of_another_pid_namespace_cannot_be_read(void **state)
{
	(void)state;
	look(ABI_KEY_FOREIGN_NS, true);
	assert_int_equal(n_copies, 0);
	assert_int_equal(n_stacks, 1);
	assert_int_equal(stack.walk, EV_WALK_FOREIGN);
}

static struct ev_count last;
static unsigned int n_counts;

static void on_count(void *arg, const struct ev_count *c)
{
	(void)arg;
	last = *c;
	n_counts++;
}

static uint32_t thread_flags;

/* Count of a wait that has not ended, which began so many ns after the beginning (before:
 * negative),
 * and whose thread was woken so many after it (INT64_MAX: not), and went on as many after it missed
 * (0: not). Returns how long the capture was. */
static uint64_t at_end(int64_t out, int64_t woken, int64_t ended)
{
	const struct smp_sink sink = {.stack = on_stack, .thread = on_thread, .count = on_count};
	const struct load_offcpu_options o = {.thread_entries = 1, .max_ns = UINT64_MAX};
	_cleanup_(smp_offcpu_freep) struct smp_offcpu *off = NULL;
	struct err err = {0};

	followed = looked = begun = n_counts = 0;
	begin_ns = now_ns() - NSEC_PER_SEC;
	blocked = (struct abi_offcpu_blocked){.kernel_tid = 7};
	thread = (struct abi_offcpu_thread){
	        .out_ns = begin_ns + (uint64_t)out,
	        .wake_ns = woken == INT64_MAX ? 0 : begin_ns + (uint64_t)woken,
	        .waker = 5,
	        .key.flags = thread_flags,
	        .ended_ns = ended ? begin_ns + (uint64_t)ended : 0,
	};
	assert_int_equal(smp_offcpu_open(NULL, &o, &off, &err), 0);
	assert_int_equal(smp_offcpu_begin(off, true), 0);
	assert_int_equal(smp_offcpu_finish(off, &sink), 0);
	assert_true(smp_offcpu_stats(off)->end_ns > begin_ns);
	assert_int_equal(looked_up_to_ns, smp_offcpu_stats(off)->end_ns);
	assert_int_equal(detached_after_ns, looked_up_to_ns);
	return smp_offcpu_stats(off)->end_ns - begin_ns;
}

static void test_waits_at_the_end_are_cut_at_both_ends_of_the_capture(void **state)
{
	static const struct {
		int64_t out, woken;
		uint64_t from, to; /* of the part that is blocked; to 0: the end of the capture */
	} cases[] = {
	        {-5000, INT64_MAX, 0, 0}, {3000, INT64_MAX, 3000, 0}, {-5000, 4000, 0, 4000},
	        {3000, 4000, 3000, 4000}, {-5000, -1000, 0, 1},       {3000, 3000, 3000, 3000},
	        {3000, -9000, 3000, 0}, /* woken from an earlier wait */
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		const bool late = cases[i].woken < 0 && cases[i].woken > cases[i].out;
		uint64_t elapsed = at_end(cases[i].out, cases[i].woken, 0), ran_to;

		ran_to = late ? 0 : cases[i].to ? cases[i].to : elapsed;
		assert_int_equal(n_counts, 1);
		assert_int_equal(last.samples, 1);
		assert_int_equal(last.weight, ran_to - cases[i].from);
		assert_int_equal(last.longest_ns, last.weight);
		assert_int_equal(last.runq_ns, elapsed - ran_to);
		assert_int_equal(last.waker, ran_to < elapsed ? 5 : 0);
	}
}

/* Counts of a thread that is switched out so many ns before now, and has a closed interval in its entry. @woken_ns:
 * before now; 0: it was not woken. */
static void open_for(uint64_t ns, uint64_t woken_ns, uint64_t max_ns)
{
	const struct smp_sink sink = {.stack = on_stack, .thread = on_thread, .count = on_count};
	const struct load_offcpu_options o = {.thread_entries = 1, .max_ns = max_ns};
	_cleanup_(smp_offcpu_freep) struct smp_offcpu *off = NULL;
	struct err err = {0};

	followed = looked = begun = n_counts = 0;
	begin_ns = now_ns() - 5 * NSEC_PER_SEC;
	blocked = (struct abi_offcpu_blocked){.kernel_tid = 7};
	thread = (struct abi_offcpu_thread){.out_ns = ns ? now_ns() - ns : 0,
	                                    .wake_ns = woken_ns ? now_ns() - woken_ns : 0,
	                                    .pending = {.intervals = 3, .ns = 30}};
	assert_int_equal(smp_offcpu_open(NULL, &o, &off, &err), 0);
	assert_int_equal(smp_offcpu_begin(off, true), 0);
	assert_int_equal(smp_offcpu_open_intervals(off, &sink), 0);
	assert_int_equal(smp_offcpu_stats(off)->open_intervals, 0); /* that is for the end */
}

static void test_intervals_are_open_for_snapshots_after_a_second(void **state)
{
	(void)state;
	open_for(2 * NSEC_PER_SEC, 0, UINT64_MAX);
	assert_int_equal(n_counts, 2);
	assert_int_equal(last.samples, 1);
	assert_in_range(last.weight, 2 * NSEC_PER_SEC, 3 * NSEC_PER_SEC);
	open_for(9 * NSEC_PER_SEC, 0, UINT64_MAX); /* since the begin of the capture */
	assert_int_equal(n_counts, 2);
	assert_in_range(last.weight, 5 * NSEC_PER_SEC, 6 * NSEC_PER_SEC);
	open_for(2 * NSEC_PER_SEC, 0, NSEC_PER_SEC); /* over the maximum: the closed ones alone */
	assert_int_equal(n_counts, 1);
	assert_int_equal(last.weight, 30);
	open_for(NSEC_PER_MSEC, 0, UINT64_MAX);
	assert_int_equal(n_counts, 0);
	open_for(0, 0, UINT64_MAX);
	assert_int_equal(n_counts, 0);
}

/* An interval that counts must not be taken back later. */
static void test_intervals_with_a_maximum_are_open_for_snapshots_once_woken(void **state)
{
	(void)state;
	open_for(2 * NSEC_PER_SEC, 0, 60 * NSEC_PER_SEC);
	assert_int_equal(n_counts, 1); /* the closed ones */
	open_for(3 * NSEC_PER_SEC, NSEC_PER_SEC, 60 * NSEC_PER_SEC);
	assert_int_equal(n_counts, 2);
	assert_in_range(last.weight, 2 * NSEC_PER_SEC - NSEC_PER_MSEC,
	                2 * NSEC_PER_SEC + NSEC_PER_MSEC);
	assert_in_range(last.runq_ns, NSEC_PER_SEC, 2 * NSEC_PER_SEC);
	open_for(4 * NSEC_PER_SEC, NSEC_PER_SEC, 2 * NSEC_PER_SEC);
	assert_int_equal(n_counts, 1);
}

static void test_waits_at_the_end_have_a_time_with_a_stream_only(void **state)
{
	uint64_t before;

	(void)state;
	(void)at_end(3000, 4000, 0);
	assert_true(last.time_ns == 0);
	streams = true;
	before = now_ns();
	(void)at_end(3000, 4000, 0);
	streams = false;
	assert_in_range(last.time_ns, before, now_ns());
}

static void test_waits_whose_end_was_missed_end_at_the_final_scan(void **state)
{
	(void)state;
	(void)at_end(3000, INT64_MAX, 7000);
	assert_int_equal(n_counts, 1);
	assert_int_equal(last.weight, 4000);
	assert_int_equal(last.runq_ns, 0);
	assert_int_equal(last.waker, 0);
	(void)at_end(3000, 5000, 7000);
	assert_int_equal(n_counts, 1);
	assert_int_equal(last.weight, 2000);
	assert_int_equal(last.runq_ns, 2000);
	assert_int_equal(last.waker, 5);
	(void)at_end(-9000, INT64_MAX, 6000);
	assert_int_equal(n_counts, 1);
	assert_int_equal(last.weight, 6000);
	thread_flags = (uint32_t)ABI_OFFCPU_PREEMPTED
	               << ABI_KEY_STATE_SHIFT; /* no thread wakes it */
	(void)at_end(3000, 5000, 7000);
	thread_flags = 0;
	assert_int_equal(n_counts, 1);
	assert_int_equal(last.weight, 4000);
	assert_int_equal(last.waker, 0);
	(void)at_end(-9000, -8000, -7000); /* all of it before the beginning */
	assert_int_equal(n_counts, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	        cmocka_unit_test(test_waits_at_the_end_are_cut_at_both_ends_of_the_capture),
	        cmocka_unit_test(test_intervals_are_open_for_snapshots_after_a_second),
	        cmocka_unit_test(test_intervals_with_a_maximum_are_open_for_snapshots_once_woken),
	        cmocka_unit_test(test_waits_at_the_end_have_a_time_with_a_stream_only),
	        cmocka_unit_test(test_waits_whose_end_was_missed_end_at_the_final_scan),
	        cmocka_unit_test(test_stack_of_a_thread_that_waits_on_is_handed_on),
	        cmocka_unit_test(test_thread_that_ran_in_between_is_reported),
	        cmocka_unit_test(test_thread_of_another_pid_namespace_cannot_be_read),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
