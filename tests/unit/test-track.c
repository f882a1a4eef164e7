// SPDX-License-Identifier: Apache-2.0
/*
 * track: incarnations of processes, their mappings, and both without memory; from synthetic events.
 */
#include "failing_allocator.h"

/* ---- incarnations --------------------------------------------------------------------------- */

static void test_fork_shares_until_a_change(void **state)
{
	struct load_oncpu *l = fake_new(4096);
	struct trk *t = make_scanned(l);
	uint32_t kid = PID_BASE, kid2 = PID_BASE + 1;
	struct abi_range r;

	(void)state;
	ev_mmap(t, self(), 0x10000, 0x14000, 0x2000, 1);
	ev_fork(t, kid, self());
	ev_fork(t, kid2, kid);
	trk_flush(t);
	assert_int_equal(fake_slot(l, kid)->v.first, fake_slot(l, self())->v.first);
	assert_int_equal(fake_slot(l, kid2)->v.first, fake_slot(l, self())->v.first);
	assert_int_equal(fake_slot(l, kid)->v.exec_id, EXEC_ID);
	assert_int_equal(fake_slot(l, kid)->v.start_ns, 0);
	assert_int_equal(fake_slot(l, self())->v.start_ns, START_NS);
	assert_file_at(t, kid, EXEC_ID, 0x11000, 1, 0x3000);

	ev_mmap(t, kid, 0x20000, 0x21000, 0, 2);
	trk_flush(t);
	assert_int_not_equal(fake_slot(l, kid)->v.first, fake_slot(l, self())->v.first);
	assert_int_equal(fake_slot(l, kid2)->v.first, fake_slot(l, self())->v.first);
	assert_int_equal(kernel_find(l, kid, EXEC_ID, 0x20fff, &r), 1);
	assert_int_equal(kernel_find(l, kid, EXEC_ID, 0x13fff, &r), 1);
	assert_int_equal(r.pgoff, 0x2000);
	assert_int_equal(kernel_find(l, self(), EXEC_ID, 0x20000, &r), -1);
	assert_file_at(t, kid, EXEC_ID, 0x20000, 2, 0);
	assert_no_file_at(t, kid2, EXEC_ID, 0x20000);
	assert_no_file_at(t, self(), EXEC_ID, 0x20000);

	/* The parent changes: the children keep what they had. */
	ev_mmap(t, self(), 0x10000, 0x14000, 0, 3);
	trk_flush(t);
	assert_file_at(t, self(), EXEC_ID, 0x10000, 3, 0);
	assert_file_at(t, kid, EXEC_ID, 0x10000, 1, 0x2000);
	assert_file_at(t, kid2, EXEC_ID, 0x10000, 1, 0x2000);
	trk_free(t);
	fake_free(l);
}

static void test_exec_begins_a_new_program(void **state)
{
	struct load_oncpu *l = fake_new(4096);
	struct trk *t = make_scanned(l);
	uint32_t kid = PID_BASE;
	struct ev_proc_id id = id_of(kid, EXEC_ID + 1, 0);
	struct abi_range r;

	(void)state;
	ev_fork(t, kid, self());
	ev_mmap(t, kid, 0x10000, 0x14000, 0, 1);
	trk_flush(t);
	ev_exec(t, kid);
	trk_flush(t);
	assert_false(fake_slot(l, kid)->there); /* nothing mapped yet */
	ev_mmap(t, kid, 0x10000, 0x12000, 0x1000, 2);
	ev_mmap(t, kid, 0x30000, 0x32000, 0, 3);
	trk_flush(t);
	assert_int_equal(kernel_find(l, kid, EXEC_ID, 0x10000, &r), 0);
	assert_int_equal(kernel_find(l, kid, EXEC_ID + 1, 0x10000, &r), 1);
	assert_int_equal(r.pgoff, 0x1000);
	assert_int_equal(kernel_find(l, kid, EXEC_ID + 1, 0x13000, &r), -1);
	assert_file_at(t, kid, EXEC_ID, 0x13000, 1, 0x3000);
	assert_file_at(t, kid, EXEC_ID + 1, 0x11000, 2, 0x2000);
	assert_no_file_at(t, kid, EXEC_ID + 1, 0x13000);
	assert_no_file_at(t, kid, EXEC_ID + 2, 0x10000); /* two programs, neither is it */
	assert_int_equal(trk_image(t, trk_main_image(t, &id))->file.ino, 2);
	id.exec_id = 0; /* the newest */
	assert_int_equal(trk_image(t, trk_main_image(t, &id))->file.ino, 2);
	assert_string_equal(trk_comm(t, &id), "prog");
	trk_free(t);
	fake_free(l);
}

static void test_short_life_within_one_batch(void **state)
{
	struct load_oncpu *l = fake_new(4096);
	struct trk *t = make_scanned(l);
	uint32_t kid = PID_BASE;
	unsigned int sets = l->sets;

	(void)state;
	ev_fork(t, kid, self());
	ev_exec(t, kid);
	ev_mmap(t, kid, 0x10000, 0x12000, 0x1000, 2);
	ev_exit(t, kid, kid);
	trk_flush(t);
	assert_int_equal(l->sets, sets);
	assert_false(fake_slot(l, kid)->there);
	assert_file_at(t, kid, EXEC_ID + 1, 0x10000, 2, 0x1000);
	trk_free(t);
	fake_free(l);
}

static void test_pid_reuse_by_fork(void **state)
{
	struct load_oncpu *l = fake_new(4096);
	struct trk *t = make_scanned(l);
	struct ev_proc_id id = id_of(PID_BASE, EXEC_ID, 0);
	uint64_t before = now_boottime_ns(), between;
	struct trk_location pl;

	(void)state;
	ev_fork(t, id.pid, self());
	ev_mmap(t, id.pid, 0x10000, 0x12000, 0, 1);
	trk_flush(t);
	wait_ms(2); /* so that a time between both forks is distinguished by the clock offset too */
	between = now_boottime_ns();
	wait_ms(2);
	/* No EXIT was seen. */
	ev_fork(t, id.pid, self());
	ev_mmap(t, id.pid, 0x20000, 0x22000, 0, 2);
	trk_flush(t);
	assert_int_equal(trk_resolve(t, &id, 0x20000, &pl), 0); /* the newest */
	assert_int_equal(trk_resolve(t, &id, 0x10000, &pl), -ENOENT);
	id.start_ns = before;
	assert_int_equal(trk_resolve(t, &id, 0x10000, &pl), 0);
	assert_int_equal(trk_resolve(t, &id, 0x20000, &pl), -ENOENT);
	id.start_ns = between;
	assert_int_equal(trk_resolve(t, &id, 0x20000, &pl), 0);
	trk_free(t);
	fake_free(l);
}

static void test_pid_reuse_seen_by_the_iterator(void **state)
{
	struct load_oncpu *l = fake_new(4096);
	struct child c = child_start(idle, NULL);
	struct trk *t;
	struct ev_proc_id id = id_of((uint32_t)c.pid, 3, 1000);
	struct trk_location pl;

	(void)state;
	fake_task(l, id.pid, 3, 1000);
	t = make_scanned(l);
	ev_mmap(t, id.pid, 0x10000, 0x12000, 0, 1);
	fake_task(l, id.pid, 3, 2000);
	ev_lost(t);
	trk_flush(t);
	assert_int_equal(fake_slot(l, id.pid)->v.start_ns, 2000);
	assert_int_equal(trk_resolve(t, &id, 0x10000, &pl), 0);
	id.start_ns = 2000;
	assert_int_equal(trk_resolve(t, &id, 0x10000, &pl), -ENOENT);
	assert_int_equal(trk_resolve(t, &id, (uintptr_t)idle, &pl), 0);
	id.start_ns = 3000;
	assert_int_equal(trk_resolve(t, &id, (uintptr_t)idle, &pl), -ENOENT);
	assert_int_equal(trk_proc_reason(t, &id), EV_REASON_NO_MAPPING);
	trk_free(t);
	fake_free(l);
	child_end(&c);
}

static void test_start_is_learned(void **state)
{
	(void)state;
	for (int k = 0; k < 2; k++) {
		struct load_oncpu *l = fake_new(4096);
		struct trk *t = make_scanned(l);
		struct child c = child_start(idle, NULL);
		uint32_t kid = (uint32_t)c.pid;

		ev_fork(t, kid, self());
		trk_flush(t);
		assert_int_equal(fake_slot(l, kid)->v.start_ns, 0);
		fake_task(l, kid, EXEC_ID, START_NS + 5);
		l->tasks_err = k ? -ENOSYS : 0;
		ev_lost(t);
		trk_flush(t);
		ev_mmap(t, kid, 0x10000, 0x11000, 0, 1);
		trk_flush(t);
		/* /proc's is rounded: the kernel side must not compare it. */
		assert_true(fake_slot(l, kid)->there);
		assert_int_equal(fake_slot(l, kid)->v.start_ns, k ? 0 : START_NS + 5);
		trk_free(t);
		fake_free(l);
		child_end(&c);
	}
}

static pthread_mutex_t gate = PTHREAD_MUTEX_INITIALIZER; /* the child's copy; holds its threads */

static void *wait_at_gate(void *arg)
{
	(void)arg;
	pthread_mutex_lock(&gate);
	pthread_mutex_unlock(&gate);
	return NULL;
}

static bool two_more_threads(int step, void *arg)
{
	static pthread_t th[2];

	(void)arg;
	if (step == 0)
		return pthread_mutex_lock(&gate) == 0 &&
		       pthread_create(&th[0], NULL, wait_at_gate, NULL) == 0 &&
		       pthread_create(&th[1], NULL, wait_at_gate, NULL) == 0;
	return pthread_mutex_unlock(&gate) == 0 && pthread_join(th[0], NULL) == 0 &&
	       pthread_join(th[1], NULL) == 0;
}

static void test_threads_are_counted_by_the_scan(void **state)
{
	struct load_oncpu *l = fake_new(4096);
	struct child c = child_start(two_more_threads, NULL);
	uint32_t pid = (uint32_t)c.pid;
	struct trk *t;

	(void)state;
	fake_task(l, pid, 1, 2);
	t = make_scanned(l);
	ev_exit(t, pid, pid);
	ev_exit(t, pid, pid + 1);
	trk_flush(t);
	assert_true(fake_slot(l, pid)->there);
	ev_exit(t, pid, pid + 2);
	trk_flush(t);
	assert_false(fake_slot(l, pid)->there);
	trk_free(t);
	fake_free(l);
	child_step(&c);
	child_end(&c);
}

static void test_threads_outlive_their_leader(void **state)
{
	struct load_oncpu *l = fake_new(4096);
	struct trk *t = make_scanned(l);
	uint32_t kid = PID_BASE;

	(void)state;
	ev_fork(t, kid, self());
	ev_thread(t, kid, kid + 1);
	trk_flush(t);
	ev_exit(t, kid, kid);
	trk_flush(t);
	assert_true(fake_slot(l, kid)->there);
	ev_exit(t, kid, kid + 1);
	trk_flush(t);
	assert_false(fake_slot(l, kid)->there);
	/* A sign of life after all. */
	ev_mmap(t, kid, 0x10000, 0x11000, 0, 1);
	trk_flush(t);
	assert_true(fake_slot(l, kid)->there);
	ev_exit(t, kid, kid + 2);
	trk_flush(t);
	assert_false(fake_slot(l, kid)->there);
	trk_free(t);
	fake_free(l);
}

static void test_kernel_threads_are_not_published(void **state)
{
	struct load_oncpu *l = fake_new(4096);
	struct abi_task *k = fake_task(l, PID_BASE, 0, 5);
	struct ev_proc_id id = id_of(PID_BASE, 0, 5);
	struct trk *t;

	(void)state;
	k->flags = ABI_KEY_KTHREAD;
	memcpy(k->comm, "kworker/0:1", 12);
	t = make_scanned(l);
	assert_false(fake_slot(l, PID_BASE)->there);
	assert_string_equal(trk_comm(t, &id), "kworker/0:1");
	ev_fork(t, PID_BASE + 1, PID_BASE);
	trk_flush(t);
	assert_false(fake_slot(l, PID_BASE + 1)->there);
	/* A helper that the kernel starts. */
	ev_exec(t, PID_BASE + 1);
	ev_mmap(t, PID_BASE + 1, 0x10000, 0x11000, 0, 1);
	trk_flush(t);
	assert_true(fake_slot(l, PID_BASE + 1)->there);
	trk_free(t);
	fake_free(l);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	        cmocka_unit_test(test_fork_shares_until_a_change),
	        cmocka_unit_test(test_exec_begins_a_new_program),
	        cmocka_unit_test(test_short_life_within_one_batch),
	        cmocka_unit_test(test_pid_reuse_by_fork),
	        cmocka_unit_test(test_pid_reuse_seen_by_the_iterator),
	        cmocka_unit_test(test_start_is_learned),
	        cmocka_unit_test(test_threads_are_counted_by_the_scan),
	        cmocka_unit_test(test_threads_outlive_their_leader),
	        cmocka_unit_test(test_kernel_threads_are_not_published),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
