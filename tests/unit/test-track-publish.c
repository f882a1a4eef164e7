// SPDX-License-Identifier: Apache-2.0
/*
 * track: what the kernel side is reported, and limits.
 */
#include "fake_loader.h"

/* ---- publishing ----------------------------------------------------------------------------- */

static void test_full_array_of_ranges(void **state)
{
	struct load_oncpu *l = fake_new(512);
	struct trk *t = make_scanned(l);
	struct abi_range r;
	uint32_t a = PID_BASE, b = PID_BASE + 1;

	(void)state;
	for (uint32_t kid = a; kid <= b; kid++) {
		ev_fork(t, kid, self());
		ev_exec(t, kid);
		for (uint64_t k = 0; k < 300; k++)
			ev_mmap(t, kid, (1 + 2 * k) << 12, (2 + 2 * k) << 12, 0, 1);
	}
	trk_flush(t);
	assert_int_equal(kernel_find(l, a, EXEC_ID + 1, 0x1000, &r), 1);
	assert_false(fake_slot(l, b)->there);
	assert_int_equal(trk_stats(t)->ranges_full, 1);
	assert_file_at(t, b, EXEC_ID + 1, 0x1000, 1, 0);
	trk_flush(t);
	assert_int_equal(trk_stats(t)->ranges_full, 1); /* one process, once */
	/* Its list changes and finds no room: the old one must not stay. */
	ev_mmap(t, a, 0x10000000, 0x10001000, 0, 2);
	trk_flush(t);
	assert_false(fake_slot(l, a)->there);
	assert_int_equal(trk_stats(t)->ranges_full, 2);
	ev_exit(t, a, a);
	wait_ms(101);
	trk_flush(t);
	assert_int_equal(kernel_find(l, b, EXEC_ID + 1, 0x1000, &r), 1);
	trk_free(t);
	fake_free(l);
}

static void test_lingering_leaders_make_room(void **state)
{
	struct load_oncpu *l = fake_new(512);
	struct trk *t = make_scanned(l);
	uint32_t a = PID_BASE, b = PID_BASE + 1;

	(void)state;
	for (uint32_t kid = a; kid <= b; kid++) {
		ev_fork(t, kid, self());
		ev_exec(t, kid);
		for (uint64_t k = 0; k < 300; k++)
			ev_mmap(t, kid, (1 + 2 * k) << 12, (2 + 2 * k) << 12, 0, 1);
		ev_thread(t, kid, kid + 10);
		if (kid == a) {
			trk_flush(t);
			ev_exit(t, a, a); /* its thread is not seen to end */
		}
	}
	trk_flush(t);
	assert_false(fake_slot(l, a)->there);
	wait_ms(101);
	trk_flush(t);
	assert_true(fake_slot(l, b)->there);
	trk_free(t);
	fake_free(l);
}

static void test_refused_update_withdraws(void **state)
{
	struct load_oncpu *l = fake_new(4096);
	struct trk *t = make_scanned(l);

	(void)state;
	ev_mmap(t, self(), 0x10000, 0x11000, 0, 1);
	l->set_err = -E2BIG;
	trk_flush(t);
	assert_false(fake_slot(l, self())->there);
	assert_int_equal(trk_stats(t)->ranges_full, 1);
	l->set_err = 0;
	wait_ms(101); /* the place that was written in vain comes free: reason to try again */
	trk_flush(t);
	assert_true(fake_slot(l, self())->there);
	trk_free(t);
	fake_free(l);
}

static void test_old_places_rest(void **state)
{
	struct load_oncpu *l = fake_new(64);
	struct trk *t = make(l);
	uint32_t kid = PID_BASE, first[8], reused = 0;
	uint64_t freed_ns, deadline;
	struct abi_range old;

	(void)state;
	fake_task(l, self(), EXEC_ID, START_NS);
	assert_int_equal(trk_scan(t, NULL), 0);
	ev_fork(t, kid, self());
	ev_exec(t, kid);
	for (uint32_t k = 0; k < 4; k++) {
		freed_ns = now_ns();
		ev_mmap(t, kid, (1 + 2 * k) << 12, (2 + 2 * k) << 12, 0, 1);
		trk_flush(t);
		assert_true(fake_slot(l, kid)->there);
		first[k] = fake_slot(l, kid)->v.first;
		for (uint32_t i = 0; i < k; i++)
			assert_int_not_equal(first[i], first[k]);
	}
	l->watch = first[0];
	old = l->r[first[0]];
	/* First fit would take the first place again as soon as it may. */
	deadline = now_ns() + 10 * NSEC_PER_SEC;
	for (uint32_t k = 4; !reused && now_ns() < deadline; k++) {
		wait_ms(20);
		ev_mmap(t, kid, (1 + 2 * (k % 8)) << 12, (2 + 2 * (k % 8)) << 12, k << 12, 1);
		trk_flush(t);
		if (fake_slot(l, kid)->there && fake_slot(l, kid)->v.first == first[0])
			reused = 1;
		else
			freed_ns = MIN_OF(freed_ns, now_ns());
	}
	assert_true(reused);
	assert_true(now_ns() - freed_ns >= 100 * NSEC_PER_MSEC);
	/* Programs that cache an entry were reported to read it anew before anything else was in
	 * that place. */
	assert_true(l->changes > 0);
	assert_memory_equal(&l->watched, &old, sizeof(old));
	assert_memory_not_equal(&l->r[first[0]], &old, sizeof(old));
	trk_free(t);
	fake_free(l);
}

static void test_big_lists_are_written_rarely(void **state)
{
	struct load_oncpu *l = fake_new(65536);
	struct trk *t = make_scanned(l);
	uint32_t kid = PID_BASE;
	unsigned int sets;

	(void)state;
	ev_fork(t, kid, self());
	ev_exec(t, kid);
	for (uint64_t k = 0; k < 5000; k++)
		ev_mmap(t, kid, (1 + 2 * k) << 12, (2 + 2 * k) << 12, 0, 1);
	trk_flush(t);
	sets = l->sets;
	for (uint64_t k = 5000; k < 5020; k++) {
		ev_mmap(t, kid, (1 + 2 * k) << 12, (2 + 2 * k) << 12, 0, 1);
		trk_flush(t);
	}
	assert_true(l->sets - sets < 20);
	wait_ms(101);
	trk_flush(t);
	assert_int_equal(fake_slot(l, kid)->v.cnt, 5020);
	trk_free(t);
	fake_free(l);
}

static void test_5000_processes(void **state)
{
	enum { N = 5000, MAPS = 12 };
	struct load_oncpu *l = fake_new(N * 16 + 512);
	struct trk *t = make_scanned(l);
	struct abi_range r;
	unsigned int before = l->there;
	uint32_t big = PID_BASE + N;

	(void)state;
	for (uint32_t kid = PID_BASE; kid < PID_BASE + N; kid++) {
		ev_fork(t, kid, self());
		ev_exec(t, kid);
		for (uint32_t k = 0; k < MAPS; k++)
			ev_mmap(t, kid, (kid + 1000 * k) * 0x100000ULL,
			        (kid + 1000 * k) * 0x100000ULL + 0x1000, 0, 1 + k);
		if (kid % 50 == 0)
			trk_flush(t);
	}
	trk_flush(t);
	assert_int_equal(l->there, before + N);
	assert_int_equal(trk_stats(t)->ranges_full, 0);
	for (uint32_t kid = PID_BASE; kid < PID_BASE + N; kid++)
		for (uint32_t k = 0; k < MAPS; k++) {
			uint64_t addr = (kid + 1000 * k) * 0x100000ULL;

			assert_int_equal(kernel_find(l, kid, EXEC_ID + 1, addr, &r), 1);
			assert_file_at(t, kid, EXEC_ID + 1, addr, 1 + k, 0);
		}
	/* In an order that leaves holes to be joined; 7919 is prime to N. */
	for (uint32_t k = 0; k < N; k++)
		ev_exit(t, PID_BASE + k * 7919 % N, PID_BASE + k * 7919 % N);
	trk_flush(t);
	assert_int_equal(l->there, before);
	wait_ms(101);
	/* All places have become one again. */
	ev_fork(t, big, self());
	ev_exec(t, big);
	for (uint64_t k = 0; k < N * 16; k++)
		ev_mmap(t, big, (1 + 2 * k) << 12, (2 + 2 * k) << 12, 0, 1);
	trk_flush(t);
	assert_int_equal(fake_slot(l, big)->v.cnt, N * 16);
	trk_free(t);
	fake_free(l);
}

/* ---- options and limits --------------------------------------------------------------------- */

static void test_target_only(void **state)
{
	struct load_oncpu *l = fake_new(4096);
	uint32_t target = self();
	struct trk_options o = {.loader = l, .target_pids = &target, .n_target_pids = 1};
	struct trk *t;
	struct err err;

	(void)state;
	fake_task(l, 1, 1, 1);
	fake_task(l, self(), EXEC_ID, START_NS);
	assert_int_equal(trk_new(&o, &t, NULL), 0);
	assert_int_equal(trk_scan(t, NULL), 0);
	ev_fork(t, PID_BASE, self());
	ev_mmap(t, PID_BASE, 0x10000, 0x11000, 0, 1);
	ev_mmap(t, self(), 0x10000, 0x11000, 0, 1);
	trk_flush(t);
	assert_int_equal(l->there, 1);
	assert_int_equal(trk_stats(t)->procs, 1);
	assert_no_file_at(t, PID_BASE, 0, 0x10000);
	assert_file_at(t, self(), EXEC_ID, 0x10000, 1, 0);
	trk_free(t);

	target = PID_BASE;
	assert_int_equal(trk_new(&o, &t, NULL), 0);
	assert_int_equal(trk_scan(t, &err), -ESRCH);
	assert_non_null(strstr(err.msg, "100000000"));
	trk_free(t);
	fake_free(l);
}

static void test_learnt_alongside_the_targets(void **state)
{
	struct child c = child_start(idle, NULL);
	uint32_t target = self(), pid = (uint32_t)c.pid;
	struct ev_proc_id id = id_of(pid, EXEC_ID, START_NS);
	struct load_oncpu *l = fake_new(4096);
	struct trk_options o = {.loader = l, .target_pids = &target, .n_target_pids = 1};
	struct trk *t;

	(void)state;
	fake_task(l, target, EXEC_ID, START_NS);
	fake_task(l, pid, EXEC_ID + 1, START_NS); /* it has executed since it was met */
	assert_int_equal(trk_new(&o, &t, NULL), 0);
	assert_int_equal(trk_scan(t, NULL), 0);
	assert_int_equal(trk_stats(t)->procs, 1);
	trk_learn(t, &id);
	trk_learn(t, &id);
	trk_flush(t);
	assert_int_equal(trk_stats(t)->procs, 2);
	assert_true(fake_slot(l, pid)->there);
	id.exec_id++;
	assert_true(trk_main_image(t, &id) > 0);
	/* Events of it are followed, its children are not. */
	ev_mmap(t, pid, 0x10000, 0x11000, 0, 1);
	ev_fork(t, PID_BASE, pid);
	trk_flush(t);
	assert_file_at(t, pid, EXEC_ID + 1, 0x10000, 1, 0);
	assert_int_equal(trk_stats(t)->procs, 2);
	child_end(&c);
	trk_learn(t, &(struct ev_proc_id){.pid = PID_BASE}); /* no such process */
	assert_int_equal(trk_stats(t)->procs, 2);
	trk_free(t);
	fake_free(l);
}

static void test_several_targets(void **state)
{
	struct child a = child_start(idle, NULL), b = child_start(idle, NULL),
	             c = child_start(idle, NULL);
	uint32_t targets[3] = {(uint32_t)a.pid, (uint32_t)b.pid, PID_BASE};
	struct load_oncpu *l = fake_new(4096);
	struct trk_options o = {.loader = l, .target_pids = targets, .n_target_pids = 3};
	struct trk *t;

	(void)state;
	if (targets[0] > targets[1]) { /* numbers began anew */
		targets[0] = (uint32_t)b.pid;
		targets[1] = (uint32_t)a.pid;
	}
	/* The iterator shows one of two, and one that is no target; a third has ended. */
	fake_task(l, (uint32_t)a.pid, EXEC_ID, START_NS);
	fake_task(l, (uint32_t)c.pid, EXEC_ID, START_NS);
	assert_int_equal(trk_new(&o, &t, NULL), 0);
	memset(targets, 0xff, sizeof(targets)); /* copied */
	assert_int_equal(trk_scan(t, NULL), 0);
	assert_int_equal(trk_stats(t)->procs, 2);
	ev_mmap(t, (uint32_t)a.pid, 0x10000, 0x11000, 0, 1);
	ev_mmap(t, (uint32_t)b.pid, 0x10000, 0x11000, 0, 2);
	ev_mmap(t, (uint32_t)c.pid, 0x10000, 0x11000, 0, 3);
	ev_fork(t, PID_BASE + 1, (uint32_t)a.pid);
	trk_flush(t);
	assert_file_at(t, (uint32_t)a.pid, EXEC_ID, 0x10000, 1, 0);
	assert_file_at(t, (uint32_t)b.pid, 0, 0x10000, 2, 0);
	assert_no_file_at(t, (uint32_t)c.pid, 0, 0x10000);
	assert_no_file_at(t, PID_BASE + 1, 0, 0x10000);
	assert_int_equal(trk_stats(t)->procs, 2);
	trk_free(t);
	fake_free(l);
	child_end(&a);
	child_end(&b);
	child_end(&c);
}

static bool with_child(int step, void *arg)
{
	static struct child c;

	(void)arg;
	if (step == 0)
		c = child_start(idle, NULL);
	else
		child_end(&c);
	return true;
}

static uint32_t child_of(pid_t pid)
{
	char path[64];
	uint32_t kid;
	FILE *f;

	(void)snprintf(path, sizeof(path), "/proc/%d/task/%d/children", pid, pid);
	f = fopen(path, "re");
	assert_non_null(f);
	assert_int_equal(fscanf(f, "%u", &kid), 1);
	fclose(f);
	return kid;
}

static void test_children_are_followed(void **state)
{
	struct load_oncpu *l = fake_new(4096);
	struct child c = child_start(with_child, NULL), other = child_start(idle, NULL);
	struct child orphan = child_start(idle, NULL);
	const uint32_t target = (uint32_t)c.pid;
	struct trk_options o = {
	        .loader = l, .target_pids = &target, .n_target_pids = 1, .follow_children = true};
	uint32_t kid = child_of(c.pid);
	struct trk *t;

	(void)state;
	/* The child before its parent, so that one pass does not find it. */
	fake_task(l, kid, 1, 1);
	fake_task(l, (uint32_t)other.pid, 1, 1);
	fake_task(l, (uint32_t)orphan.pid, 1, 1);
	fake_task(l, (uint32_t)c.pid, 1, 1);
	assert_int_equal(trk_new(&o, &t, NULL), 0);
	assert_int_equal(trk_scan(t, NULL), 0);
	assert_true(fake_slot(l, (uint32_t)c.pid)->there);
	assert_true(fake_slot(l, kid)->there);
	assert_int_equal(trk_stats(t)->procs, 2);
	ev_fork(t, PID_BASE, kid);
	ev_fork(t, PID_BASE + 1, PID_BASE);
	ev_fork(t, PID_BASE + 2, (uint32_t)other.pid);
	/* One that lost its parent: /proc says that it is ours. */
	ev_fork(t, (uint32_t)orphan.pid, kid);
	trk_flush(t);
	assert_true(fake_slot(l, PID_BASE + 1)->there);
	assert_int_equal(l->there, 5);
	/* Reading all again neither loses the living nor takes in others. */
	ev_lost(t);
	trk_flush(t);
	assert_int_equal(l->there, 3);
	assert_true(fake_slot(l, kid)->there);
	assert_true(fake_slot(l, (uint32_t)orphan.pid)->there);
	trk_free(t);
	fake_free(l);
	child_end(&orphan);
	child_end(&other);
	child_step(&c);
	child_end(&c);
}

static void test_without_loader_or_iterator(void **state)
{
	struct child c = child_start(idle, NULL);
	struct ev_proc_id id = id_of((uint32_t)c.pid, 12, 0);
	uint32_t target = id.pid;
	struct trk_options o = {.target_pids = &target, .n_target_pids = 1};
	struct load_oncpu *l = fake_new(64);
	struct trk_location pl;
	struct trk *t;

	(void)state;
	assert_int_equal(proc_start_ns(id.pid, &id.start_ns), 0);
	for (int k = 0; k < 2; k++) {
		assert_int_equal(trk_new(&o, &t, NULL), 0);
		assert_int_equal(trk_scan(t, NULL), 0);
		assert_int_equal(trk_resolve(t, &id, (uintptr_t)idle, &pl), 0);
		id.start_ns += 9999999; /* /proc rounds down to 10 ms */
		assert_int_equal(trk_resolve(t, &id, (uintptr_t)idle, &pl), 0);
		id.start_ns += 1;
		assert_int_equal(trk_resolve(t, &id, (uintptr_t)idle, &pl), -ENOENT);
		id.start_ns -= 10000000;
		/* Again: the same process. */
		ev_lost(t);
		trk_flush(t);
		assert_int_equal(trk_stats(t)->procs, 1);
		assert_int_equal(trk_stats(t)->tasks_errno, k == 0 ? 0 : ENOSYS);
		trk_free(t);
		o.loader = l;
		l->tasks_err = -ENOSYS;
	}
	assert_int_equal(l->sets, 0); /* exec ids unknown */
	target = PID_BASE;
	assert_int_equal(trk_new(&o, &t, NULL), 0);
	assert_int_equal(trk_scan(t, NULL), -ESRCH);
	trk_free(t);
	fake_free(l);
	child_end(&c);
}

static void test_limits_are_counted(void **state)
{
	struct load_oncpu *l = fake_new(65536);
	struct trk_options o = {
	        .loader = l, .max_procs = 10, .max_images = 64, .max_mappings = 400};
	struct trk *t;

	(void)state;
	fake_task(l, self(), EXEC_ID, START_NS);
	assert_int_equal(trk_new(&o, &t, NULL), 0);
	assert_int_equal(trk_scan(t, NULL), 0);
	/* Those that have ended make room for new ones. */
	for (uint32_t k = 0; k < 100; k++) {
		ev_fork(t, PID_BASE + k, self());
		ev_exec(t, PID_BASE + k);
		ev_mmap(t, PID_BASE + k, 0x10000, 0x11000, 0, 1);
		ev_exit(t, PID_BASE + k, PID_BASE + k);
		trk_flush(t);
	}
	assert_file_at(t, PID_BASE + 99, EXEC_ID + 1, 0x10000, 1, 0);
	assert_no_file_at(t, PID_BASE, EXEC_ID + 1, 0x10000);
	assert_true(trk_stats(t)->dropped_procs >= 90 && trk_stats(t)->dropped_procs <= 200);
	/* Living ones do not. */
	for (uint32_t k = 200; k < 300; k++)
		ev_fork(t, PID_BASE + k, self());
	trk_flush(t);
	assert_true(l->there <= 10);
	assert_int_equal(trk_stats(t)->dropped_images, 0);
	for (uint32_t k = 0; k < 1000; k++)
		ev_mmap(t, self(), 0x100000 + 0x2000ULL * k, 0x101000 + 0x2000ULL * k, 0, 10 + k);
	trk_flush(t);
	assert_true(trk_stats(t)->dropped_images > 900);
	assert_int_equal(trk_image_cnt(t), 64);
	assert_int_equal(trk_stats(t)->dropped_mappings, trk_stats(t)->dropped_images);
	/* No image, but what was there before is not there any more. */
	ev_mmap(t, self(), 0x100000, 0x101000, 0, 5000);
	{
		struct abi_range r;

		trk_flush(t);
		assert_int_equal(kernel_find(l, self(), EXEC_ID, 0x100000, &r), -1);
	}
	for (uint32_t k = 0; k < 1000; k++)
		ev_mmap(t, self(), 0x10000000 + 0x2000ULL * k, 0x10001000 + 0x2000ULL * k, 0, 10);
	trk_flush(t);
	assert_true(trk_stats(t)->dropped_mappings > trk_stats(t)->dropped_images + 500);
	trk_free(t);
	fake_free(l);
}

static void test_endless_replacing_is_bounded(void **state)
{
	struct load_oncpu *l = fake_new(4096);
	struct trk_options o = {.loader = l, .max_mappings = 6000};
	struct trk *t;
	uint64_t k;

	(void)state;
	fake_task(l, self(), EXEC_ID, START_NS);
	assert_int_equal(trk_new(&o, &t, NULL), 0);
	assert_int_equal(trk_scan(t, NULL), 0);
	ev_fork(t, PID_BASE, self());
	ev_exec(t, PID_BASE);
	/* Two plugins in turn at one address: nothing new to cache. */
	for (k = 0; k < 20000; k++)
		ev_mmap(t, PID_BASE, 0x10000, 0x11000, 0, 1 + k % 2);
	assert_int_equal(trk_stats(t)->dropped_mappings, 0);
	/* Always another one: the oldest are forgotten. */
	for (k = 0; k < 20000; k++)
		ev_mmap(t, PID_BASE, 0x10000, 0x11000, k << 12, 1);
	assert_true(trk_stats(t)->dropped_mappings > 10000);
	assert_file_at(t, PID_BASE, EXEC_ID + 1, 0x10000, 1, (k - 1) << 12);
	trk_free(t);
	fake_free(l);
}

static void test_events_of_other_namespaces_are_ignored(void **state)
{
	struct load_oncpu *l = fake_new(4096);
	struct trk *t = make_scanned(l);

	(void)state;
	ev_mmap(t, 0, 0x10000, 0x11000, 0, 1);
	ev_mmap(t, UINT32_MAX, 0x10000, 0x11000, 0, 1);
	ev_exit(t, PID_BASE, PID_BASE);
	ev_thread(t, PID_BASE, PID_BASE + 1);
	ev_mmap(t, self(), 0x11000, 0x11000, 0, 1); /* empty */
	assert_int_equal(trk_stats(t)->procs, 1);
	assert_no_file_at(t, self(), EXEC_ID, 0x11000);
	trk_free(t);
	fake_free(l);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	        cmocka_unit_test(test_full_array_of_ranges),
	        cmocka_unit_test(test_lingering_leaders_make_room),
	        cmocka_unit_test(test_refused_update_withdraws),
	        cmocka_unit_test(test_old_places_rest),
	        cmocka_unit_test(test_big_lists_are_written_rarely),
	        cmocka_unit_test(test_5000_processes),
	        cmocka_unit_test(test_target_only),
	        cmocka_unit_test(test_learnt_alongside_the_targets),
	        cmocka_unit_test(test_several_targets),
	        cmocka_unit_test(test_children_are_followed),
	        cmocka_unit_test(test_without_loader_or_iterator),
	        cmocka_unit_test(test_limits_are_counted),
	        cmocka_unit_test(test_endless_replacing_is_bounded),
	        cmocka_unit_test(test_events_of_other_namespaces_are_ignored),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
