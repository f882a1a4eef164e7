// SPDX-License-Identifier: Apache-2.0
/*
 * track against /proc of processes of its own, and their files.
 */
#include "track_files.h"

/* ---- /proc ---------------------------------------------------------------------------------- */

static bool map_more(int step, void *arg)
{
	const struct files *f = arg;

	return step == 0 || map_file(f->path);
}

static void test_lost_events_are_read_again(void **state)
{
	struct load_oncpu *l = fake_new(4096);
	struct files f;
	struct child c, calm, gone;
	struct trk *t;
	struct ev_proc_id id;
	struct trk_location pl;
	uint64_t addr;
	unsigned int calls;

	(void)state;
	files_make(&f);
	c = child_start(map_more, &f);
	calm = child_start(idle, NULL);
	gone = child_start(idle, NULL);
	id = id_of((uint32_t)c.pid, 1, 2);
	fake_task(l, (uint32_t)gone.pid, 1, 2);
	fake_task(l, (uint32_t)calm.pid, 1, 2);
	fake_task(l, id.pid, 1, 2);
	t = make_scanned(l);
	assert_true(fake_slot(l, (uint32_t)gone.pid)->there);
	child_step(&c);
	child_end(&gone);
	for (size_t i = 0; i < l->n_tasks; i++)
		if (l->task[i].tgid == (uint32_t)gone.pid)
			l->task[i] = l->task[--l->n_tasks];
	addr = address_of(c.pid, f.path);
	assert_int_not_equal(addr, 0);
	assert_int_equal(trk_resolve(t, &id, addr, &pl), -ENOENT);
	ev_lost(t);
	trk_flush(t);
	assert_int_equal(trk_resolve(t, &id, addr + 5, &pl), 0);
	assert_string_equal(pl.image->path, f.path);
	assert_int_equal(pl.off, 5);
	assert_int_equal(pl.image->reason, EV_REASON_NAMED);
	assert_true(pl.image->fd >= 0);
	assert_false(fake_slot(l, (uint32_t)gone.pid)->there);
	assert_int_equal(fake_slot(l, id.pid)->sets, 2);
	/* A process that did not change is not written again. */
	assert_int_equal(fake_slot(l, (uint32_t)calm.pid)->sets, 1);
	/* Not again at once. */
	calls = l->tasks_calls;
	ev_lost(t);
	trk_flush(t);
	assert_int_equal(l->tasks_calls, calls);
	trk_free(t);
	fake_free(l);
	child_end(&calm);
	child_end(&c);
	files_remove(&f);
}

static void test_exec_that_crossed_with_the_scan(void **state)
{
	struct load_oncpu *l = fake_new(4096);
	struct child c = child_start(idle, NULL);
	uint64_t before = now_ns();
	struct ev_proc_id id = id_of((uint32_t)c.pid, 6, 2);
	struct trk_location pl;
	struct trk *t;
	unsigned int calls;

	(void)state;
	fake_task(l, id.pid, 5, 2);
	t = make_scanned(l);
	calls = l->tasks_calls;
	fake_task(l, id.pid, 6, 2);
	ev_exec_at(t, id.pid, before);
	wait_ms(11);
	trk_flush(t);
	assert_int_equal(l->tasks_calls, calls + 1);
	assert_int_equal(trk_resolve(t, &id, (uintptr_t)idle, &pl), 0);
	assert_int_equal(fake_slot(l, id.pid)->v.exec_id, 6);
	id.exec_id = 5;
	assert_int_equal(trk_resolve(t, &id, (uintptr_t)idle, &pl), 0);
	/* The same once more, with an exec that both had seen: no third program. */
	ev_exec_at(t, id.pid, before + 1);
	wait_ms(11);
	trk_flush(t);
	assert_int_equal(fake_slot(l, id.pid)->v.exec_id, 6);
	id.exec_id = 7;
	assert_int_equal(trk_resolve(t, &id, (uintptr_t)idle, &pl), -ENOENT);
	trk_free(t);
	fake_free(l);
	child_end(&c);
}

static void test_old_mmap_does_not_undo_the_scan(void **state)
{
	struct load_oncpu *l = fake_new(4096);
	uint64_t before = now_ns(), page = (uintptr_t)idle & ~0xfffULL;
	struct trk *t = make_scanned(l);
	struct ev_proc_id id = id_of(self(), EXEC_ID, START_NS);
	struct trk_location pl;
	char path[32];
	struct ev_proc ev;

	(void)state;
	ev = mmap_event(self(), page, page + 4096, 0, 9, path);
	ev.time_ns = before;
	trk_event(t, &ev);
	ev = mmap_event(self(), 0x1000, 0x2000, 0, 9, path);
	ev.time_ns = before;
	trk_event(t, &ev);
	trk_flush(t);
	assert_int_equal(trk_resolve(t, &id, (uintptr_t)idle, &pl), 0);
	assert_int_not_equal(pl.image->file.ino, 9);
	assert_int_equal(trk_resolve(t, &id, 0x1000, &pl), 0); /* kept */
	assert_int_equal(pl.image->file.ino, 9);
	{
		struct abi_range r;

		assert_int_equal(kernel_find(l, self(), EXEC_ID, 0x1000, &r), -1);
	}
	trk_free(t);
	fake_free(l);
}

static void test_unknown_process_is_read(void **state)
{
	struct load_oncpu *l = fake_new(4096);
	struct trk *t = make_scanned(l);
	struct child c = child_start(idle, NULL);
	struct ev_proc_id id = id_of((uint32_t)c.pid, 9, 77);
	struct trk_location pl;

	(void)state;
	/* Its fork was missed, and so was that of its parent. */
	ev_mmap(t, id.pid, 0x10000, 0x11000, 0, 1);
	trk_flush(t);
	assert_false(fake_slot(l, id.pid)->there); /* the exec id is not known yet */
	fake_task(l, id.pid, 9, 77);
	wait_ms(11);
	trk_flush(t);
	assert_int_equal(fake_slot(l, id.pid)->v.exec_id, 9);
	assert_int_equal(fake_slot(l, id.pid)->v.start_ns, 77);
	assert_int_equal(trk_resolve(t, &id, (uintptr_t)idle, &pl), 0);
	/* A child without a tracked parent, which has ended when its fork is read. */
	ev_fork(t, PID_BASE + 5, PID_BASE + 4);
	wait_ms(11);
	trk_flush(t);
	assert_false(fake_slot(l, PID_BASE + 5)->there);
	trk_free(t);
	fake_free(l);
	child_end(&c);
}

static void test_fork_older_than_the_reading(void **state)
{
	struct load_oncpu *l = fake_new(4096);
	struct child c = child_start(idle, NULL);
	struct ev_proc ev = {.type = EV_PROC_FORK, .ppid = self(), .ptid = self(), .time_ns = 1};
	struct trk_location pl;
	struct ev_proc_id id;
	struct trk *t;

	(void)state;
	fake_task(l, (uint32_t)c.pid, 3, 4);
	t = make_scanned(l);
	/* A process that the scan has shown: nothing new. */
	ev.pid = ev.tid = (uint32_t)c.pid;
	trk_event(t, &ev);
	trk_flush(t);
	assert_int_equal(trk_stats(t)->procs, 2);
	assert_int_equal(fake_slot(l, ev.pid)->v.exec_id, 3);
	/* One that is gone: its parent's program at the time is not known for sure. */
	ev.pid = ev.tid = PID_BASE;
	trk_event(t, &ev);
	trk_flush(t);
	assert_int_equal(fake_slot(l, PID_BASE)->sets, 0);
	id = id_of(PID_BASE, 0, 0);
	assert_int_equal(trk_resolve(t, &id, (uintptr_t)idle, &pl), 0);
	/* The same while the parent is unsure. */
	ev_exec_at(t, (uint32_t)c.pid, 2);
	ev_fork(t, PID_BASE + 1, (uint32_t)c.pid);
	trk_flush(t);
	assert_int_equal(fake_slot(l, PID_BASE + 1)->sets, 0);
	trk_free(t);
	fake_free(l);
	child_end(&c);
}

static bool map_then_unmap(int step, void *arg)
{
	static void *p;
	const struct files *f = arg;

	if (step == 1)
		return munmap(p, 4096) == 0;
	/* Below the program itself. */
	{
		_cleanup_close_ int fd = open(f->path, O_RDONLY | O_CLOEXEC);

		p = mmap((void *)0x10000000, 4096, PROT_READ | PROT_EXEC,
		         MAP_PRIVATE | MAP_FIXED_NOREPLACE, fd, 0);
	}
	return p != MAP_FAILED;
}

static void test_what_was_unmapped_is_kept(void **state)
{
	struct load_oncpu *l = fake_new(4096);
	struct files f;
	struct child c;
	struct ev_proc_id id;
	struct trk_location pl;
	struct abi_range r;
	struct stat st;
	struct trk *t;

	(void)state;
	files_make(&f);
	c = child_start(map_then_unmap, &f);
	id = id_of((uint32_t)c.pid, 1, 2);
	fake_task(l, id.pid, 1, 2);
	t = make_scanned(l);
	assert_int_equal(kernel_find(l, id.pid, 1, 0x10000000, &r), 1);
	/* The lowest file is not the program. */
	assert_int_equal(stat("/proc/self/exe", &st), 0);
	assert_int_equal(trk_image(t, trk_main_image(t, &id))->file.ino, st.st_ino);
	child_step(&c);
	ev_exec_at(t, id.pid, 1); /* makes it be read again; it was no exec */
	trk_flush(t);
	assert_int_equal(kernel_find(l, id.pid, 1, 0x10000000, &r), -1);
	assert_int_equal(trk_resolve(t, &id, 0x10000010, &pl), 0);
	assert_string_equal(pl.image->path, f.path);
	trk_free(t);
	fake_free(l);
	child_end(&c);
	files_remove(&f);
}

static void test_vdso(void **state)
{
	struct load_oncpu *l = fake_new(4096);
	struct trk *t = make_scanned(l);
	struct ev_proc_id id = id_of(self(), EXEC_ID, START_NS), other = id_of(PID_BASE, 0, 0);
	uint64_t vdso = getauxval(AT_SYSINFO_EHDR);
	struct ev_proc ev = {.type = EV_PROC_MMAP, .pid = PID_BASE, .tid = PID_BASE};
	struct trk_location pl;
	uint32_t image;

	(void)state;
	if (vdso == 0) { /* vdso=0 on the kernel's command line: nothing to see */
		trk_free(t);
		fake_free(l);
		return;
	}
	assert_int_equal(trk_resolve(t, &id, vdso + 0x123, &pl), 0);
	assert_int_equal(pl.image->kind, EV_MAP_VDSO);
	assert_int_equal(pl.off, 0x123);
	assert_int_equal(pl.image->mem_len, pl.map_end - pl.map_start);
	assert_memory_equal(pl.image->mem, (const void *)(uintptr_t)vdso, pl.image->mem_len);
	assert_true(pl.image->build_id_len > 0);
	assert_int_equal(pl.image->reason, EV_REASON_NAMED);
	assert_int_equal(pl.image->fd, -EBADF);
	image = pl.image->id;
	ev_fork(t, PID_BASE, self());
	ev_exec(t, PID_BASE);
	ev.map = (struct ev_mapping){.start = 0x700000000000,
	                             .end = 0x700000000000 + pl.image->mem_len,
	                             .pgoff = 0x700000,
	                             .kind = EV_MAP_VDSO,
	                             .exec = 1,
	                             .path = "[vdso]"};
	ev.time_ns = tick();
	trk_event(t, &ev);
	assert_int_equal(trk_resolve(t, &other, 0x700000000010, &pl), 0);
	assert_int_equal(pl.image->id, image);
	assert_int_equal(pl.off, 0x10);
	/* A 32-bit process, of the same size, which cannot be read. */
	ev.map.start = 0x800000;
	ev.map.end = 0x800000 + pl.image->mem_len;
	ev.time_ns = tick();
	trk_event(t, &ev);
	assert_int_equal(trk_resolve(t, &other, 0x800010, &pl), 0);
	assert_int_not_equal(pl.image->id, image);
	assert_null(pl.image->mem);
	assert_int_not_equal(pl.image->reason, EV_REASON_NAMED);
	trk_free(t);
	fake_free(l);
}

#ifdef __x86_64__
/* A process has this at these addresses: here our own, copies of the vDSO that we have. */
static void test_vdso_of_a_32_bit_process_is_read_from_it(void **state)
{
	uint64_t vdso = getauxval(AT_SYSINFO_EHDR), image[2];
	struct load_oncpu *l = fake_new(4096);
	struct trk *t = make_scanned(l);
	struct ev_proc ev = {.type = EV_PROC_MMAP};
	struct ev_mapping own = {0};
	const size_t len = 4096;
	struct trk_location pl;
	uint8_t *low;

	(void)state;
	low = mmap(NULL, 4 * len, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_32BIT,
	           -1, 0);
	if (vdso == 0 || low == MAP_FAILED) {
		trk_free(t);
		fake_free(l);
		return;
	}
	/* Two that differ by a byte, and what is no ELF file. */
	memcpy(low, (const void *)(uintptr_t)vdso, len);
	memcpy(low + len, low, len);
	low[2 * len - 1] ^= 1;
	memset(low + 2 * len, 'x', len);
	own = (struct ev_mapping){.kind = EV_MAP_VDSO, .exec = 1, .path = "[vdso]"};
	for (size_t i = 0; i < 4; i++) {
		uint64_t at = (uint64_t)(uintptr_t)low + (i == 3 ? 0 : i * len);
		struct ev_proc_id id = id_of(self(), EXEC_ID, START_NS);

		ev.map = own;
		ev.pid = ev.tid = self();
		ev.map.start = at;
		ev.map.end = at + len;
		ev.time_ns = tick();
		trk_event(t, &ev);
		assert_int_equal(trk_resolve(t, &id, at + 0x10, &pl), 0);
		assert_int_equal(pl.image->kind, EV_MAP_VDSO);
		if (i == 2) {
			assert_null(pl.image->mem);
			assert_int_equal(pl.image->reason, EV_REASON_NO_FILE);
			continue;
		}
		assert_int_equal(pl.image->reason, EV_REASON_NAMED);
		assert_int_equal(pl.image->mem_len, len);
		assert_memory_equal(pl.image->mem, (const void *)(uintptr_t)at, len);
		if (i < 2)
			image[i] = pl.image->id;
		else
			assert_int_equal(pl.image->id, image[0]); /* once for all who have it */
	}
	assert_int_not_equal(image[0], image[1]);
	trk_free(t);
	fake_free(l);
	munmap(low, 4 * len);
}
#endif

static void test_special_names_are_images_without_file(void **state)
{
	struct load_oncpu *l = fake_new(4096);
	struct trk *t = make_scanned(l);
	struct ev_proc_id id = id_of(PID_BASE, 0, 0);
	struct ev_proc ev = {.type = EV_PROC_MMAP, .pid = PID_BASE, .tid = PID_BASE};
	struct trk_location pl;
	size_t cnt;

	(void)state;
	ev_fork(t, id.pid, self());
	ev_exec(t, id.pid);
	for (int k = 1; k <= 2; k++) {
		ev.map = (struct ev_mapping){.start = 0x10000ULL * (unsigned int)k,
		                             .end = 0x10000ULL * (unsigned int)k + 0x1000,
		                             .kind = EV_MAP_OTHER,
		                             .exec = 1,
		                             .path = "[uprobes]"};
		ev.time_ns = tick();
		trk_event(t, &ev);
	}
	cnt = trk_image_cnt(t);
	assert_int_equal(trk_resolve(t, &id, 0x20010, &pl), 0);
	assert_int_equal(pl.image->id, cnt); /* one for both */
	assert_string_equal(pl.image->path, "[uprobes]");
	assert_int_equal(pl.image->fd, -EBADF);
	assert_int_equal(pl.off, 0x10);
	assert_null(trk_image(t, 0));
	assert_null(trk_image(t, (uint32_t)cnt + 1));
	trk_free(t);
	fake_free(l);
}

static bool many_maps(int step, void *arg)
{
	(void)step;
	(void)arg;
	for (int k = 0; k < 200; k++)
		if (mmap(NULL, 4096U * (1U + (unsigned int)k % 3),
		         PROT_READ | (k & 1 ? PROT_EXEC : 0), MAP_PRIVATE | MAP_ANONYMOUS, -1,
		         0) == MAP_FAILED)
			return false;
	return true;
}

static void test_every_page_against_proc_maps(void **state)
{
	struct load_oncpu *l = fake_new(4096);
	struct child c = child_start(many_maps, NULL);
	struct ev_proc_id id = id_of((uint32_t)c.pid, 1, 2);
	struct trk_location pl;
	struct abi_range r;
	char name[32], line[512], perms[5];
	uint64_t pages = 0, files = 0;
	struct trk *t;
	FILE *f;

	(void)state;
	fake_task(l, id.pid, 1, 2);
	t = make_scanned(l);
	(void)snprintf(name, sizeof(name), "/proc/%d/maps", c.pid);
	f = fopen(name, "re");
	assert_non_null(f);
	while (fgets(line, sizeof(line), f)) {
		unsigned long start, end, pgoff, ino;

		/* Our own parser is what is being tested here, so not that one. */
		assert_int_equal(sscanf(line, "%lx-%lx %4s %lx %*x:%*x %lu", &start, &end, perms,
		                        &pgoff, &ino),
		                 5);
		for (uint64_t a = start; a < end; a += 4096, pages++) {
			int found = kernel_find(l, id.pid, 1, a, &r);

			if (perms[2] != 'x') {
				if (a > start + (16 << 12)) /* a sanitizer's terabytes */
					break;
				assert_int_equal(trk_resolve(t, &id, a, &pl), -ENOENT);
				assert_int_equal(found, -1);
				continue;
			}
			assert_int_equal(trk_resolve(t, &id, a, &pl), 0);
			assert_int_equal(found, 1);
			assert_int_equal(pl.map_start, start);
			assert_int_equal(pl.map_end, end);
			if (ino != 0) {
				assert_int_equal(pl.image->file.ino, ino);
				assert_int_equal(pl.off, a - start + pgoff);
				assert_int_equal(r.image, pl.image->id);
				assert_int_equal(a - r.start + r.pgoff, pl.off);
				assert_int_equal(pl.image->reason, EV_REASON_NAMED);
				files++;
			} else if (!strchr(line, '[')) {
				assert_true(pl.anon);
				assert_int_equal(r.image, 0);
			}
		}
	}
	fclose(f);
	assert_true(pages > 100 && files > 10);
	{
		struct stat st;

		assert_int_equal(stat("/proc/self/exe", &st), 0);
		assert_int_equal(trk_image(t, trk_main_image(t, &id))->file.ino, st.st_ino);
	}
	trk_free(t);
	fake_free(l);
	child_end(&c);
}

static void test_process_that_may_not_be_read(void **state)
{
	struct load_oncpu *l = fake_new(4096);
	struct child c = child_start(idle, NULL);
	struct ev_proc_id id = id_of((uint32_t)c.pid, 1, 2);
	bool root = geteuid() == 0;
	struct trk_options o = {.loader = l};
	struct trk *t;

	(void)state;
	if (!root)
		id.pid = 1; /* not ours */
	fake_task(l, id.pid, 1, 2);
	o.target_pids = &id.pid;
	o.n_target_pids = 1;
	assert_int_equal(trk_new(&o, &t, NULL), 0);
	if (root)
		assert_int_equal(seteuid(65534), 0);
	assert_int_equal(trk_scan(t, NULL), 0);
	if (root)
		assert_int_equal(seteuid(0), 0);
	assert_int_equal(trk_proc_reason(t, &id), EV_REASON_NOT_PERMITTED);
	assert_int_equal(trk_stats(t)->procs_denied, 1);
	assert_false(fake_slot(l, id.pid)->there);
	/* Side-band tells all the same what comes. */
	ev_mmap(t, id.pid, 0x10000, 0x11000, 0, 1);
	trk_flush(t);
	assert_true(fake_slot(l, id.pid)->there);
	assert_int_equal(trk_main_image(t, &id), 0); /* that was a library */
	trk_free(t);
	fake_free(l);
	child_end(&c);
}

static void test_slow_reading_leaves_time_for_events(void **state)
{
	(void)state;
	assert_int_equal(trk_resync_rest_ns(0), NSEC_PER_SEC);
	assert_int_equal(trk_resync_rest_ns(250 * NSEC_PER_MSEC), NSEC_PER_SEC);
	assert_int_equal(trk_resync_rest_ns(NSEC_PER_SEC), 4 * NSEC_PER_SEC);
	/* Lost events are made up for, sooner or later. */
	assert_int_equal(trk_resync_rest_ns(30 * NSEC_PER_SEC), 5 * NSEC_PER_SEC);
	assert_int_equal(trk_resync_rest_ns(UINT64_MAX), 5 * NSEC_PER_SEC);
}

/* At once after the first loss, and not again within the second that follows. */
static void test_loss_in_a_row_is_read_once(void **state)
{
	struct load_oncpu *l = fake_new(64);
	const uint32_t own = (uint32_t)getpid();
	struct trk_options o = {.loader = l, .target_pids = &own, .n_target_pids = 1};
	const struct ev_proc lost = {.type = EV_PROC_LOST};
	uint64_t now = now_ns();
	struct trk *t;

	(void)state;
	assert_int_equal(trk_new(&o, &t, NULL), 0);
	trk_event(t, &lost);
	trk_rescan(t, now);
	assert_int_equal(trk_stats(t)->resyncs, 1);
	trk_event(t, &lost);
	trk_rescan(t, now + NSEC_PER_SEC / 2);
	assert_int_equal(trk_stats(t)->resyncs, 1);
	/* A second after the end of the reading, which is later than @now. */
	trk_rescan(t, now + NSEC_PER_SEC - 1);
	assert_int_equal(trk_stats(t)->resyncs, 1);
	trk_rescan(t, now + 60 * NSEC_PER_SEC);
	assert_int_equal(trk_stats(t)->resyncs, 2);
	trk_free(t);
	fake_free(l);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	        cmocka_unit_test(test_slow_reading_leaves_time_for_events),
	        cmocka_unit_test(test_loss_in_a_row_is_read_once),
	        cmocka_unit_test(test_lost_events_are_read_again),
	        cmocka_unit_test(test_exec_that_crossed_with_the_scan),
	        cmocka_unit_test(test_old_mmap_does_not_undo_the_scan),
	        cmocka_unit_test(test_unknown_process_is_read),
	        cmocka_unit_test(test_fork_older_than_the_reading),
	        cmocka_unit_test(test_what_was_unmapped_is_kept),
	        cmocka_unit_test(test_vdso),
#ifdef __x86_64__
	        cmocka_unit_test(test_vdso_of_a_32_bit_process_is_read_from_it),
#endif
	        cmocka_unit_test(test_special_names_are_images_without_file),
	        cmocka_unit_test(test_every_page_against_proc_maps),
	        cmocka_unit_test(test_process_that_may_not_be_read),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
