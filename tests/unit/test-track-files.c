/* SPDX-License-Identifier: Apache-2.0 */
/* Files that tracked processes map: deleted, replaced, rewritten. */
#include "track_files.h"

static bool map_and_unlink(int step, void *arg)
{
	const struct files *f = arg;

	(void)step;
	return map_file(f->path) && unlink(f->path) == 0;
}

static void test_deleted_file(void **state)
{
	struct load_oncpu *l = fake_new(4096);
	struct files f;
	struct child c;
	struct trk *t;
	struct ev_proc_id id;
	struct trk_location pl;
	char magic[4];

	(void)state;
	files_make(&f);
	c = child_start(map_and_unlink, &f);
	id = id_of((uint32_t)c.pid, 1, 2);
	fake_task(l, id.pid, 1, 2);
	t = make_scanned(l);
	assert_int_equal(trk_resolve(t, &id, address_of(c.pid, f.path), &pl), 0);
	assert_string_equal(pl.image->path, f.path); /* without " (deleted)" */
	if (cap_effective(CAP_SYS_ADMIN) || cap_effective(CAP_CHECKPOINT_RESTORE)) {
		assert_int_equal(pl.image->reason, EV_REASON_NAMED);
		assert_int_equal(pread(pl.image->fd, magic, 4, 0), 4);
		assert_memory_equal(magic, "\177ELF", 4);
	} else {
		assert_int_equal(pl.image->fd, -EBADF);
		assert_int_not_equal(pl.image->reason, EV_REASON_NAMED);
		assert_int_equal(trk_stats(t)->images_failed, 1);
	}
	trk_free(t);
	fake_free(l);
	child_end(&c);
	files_remove(&f);
}

/* Over the last one, or after it. */
static void write_last_byte(const char *path, char b, bool after)
{
	_cleanup_close_ int fd = open(path, O_WRONLY | O_CLOEXEC);
	off_t off = lseek(fd, after ? 0 : -1, SEEK_END);

	assert_true(off > 0);
	assert_int_equal(pwrite(fd, &b, 1, off), 1);
}

static char last_byte(int fd)
{
	struct stat st;
	char b;

	assert_int_equal(fstat(fd, &st), 0);
	assert_int_equal(pread(fd, &b, 1, st.st_size - 1), 1);
	return b;
}

static bool map_step(int step, void *arg)
{
	const struct files *f = arg;

	(void)step;
	return map_file(f->path);
}

static void test_replaced_file_keeps_its_old_content(void **state)
{
	struct load_oncpu *l = fake_new(4096);
	struct files f;
	struct child a, b;
	struct trk *t;
	struct ev_proc_id ida, idb;
	struct trk_location pl;
	const struct trk_image *old;

	(void)state;
	files_make(&f);
	write_last_byte(f.path, '1', true);
	write_last_byte(f.other, '2', true);
	a = child_start(map_step, &f);
	ida = id_of((uint32_t)a.pid, 1, 2);
	fake_task(l, ida.pid, 1, 2);
	t = make_scanned(l);
	assert_int_equal(trk_resolve(t, &ida, address_of(a.pid, f.path), &pl), 0);
	old = pl.image;
	assert_int_equal(rename(f.other, f.path), 0);
	b = child_start(map_step, &f);
	idb = id_of((uint32_t)b.pid, 1, 2);
	fake_task(l, idb.pid, 1, 2);
	ev_lost(t);
	trk_flush(t);
	assert_int_equal(trk_resolve(t, &idb, address_of(b.pid, f.path), &pl), 0);
	assert_int_not_equal(pl.image->id, old->id);
	assert_string_equal(pl.image->path, old->path);
	assert_int_equal(last_byte(old->fd), '1');
	assert_int_equal(last_byte(pl.image->fd), '2');
	assert_int_equal(trk_resolve(t, &ida, address_of(a.pid, f.path), &pl), 0);
	assert_int_equal(pl.image->id, old->id);
	trk_free(t);
	fake_free(l);
	child_end(&b); /* holds a copy of what ends a */
	child_end(&a);
	files_remove(&f);
}

/* The process has gone before its mapping is heard of: only the path is left. */
static void test_file_of_a_process_that_has_gone(void **state)
{
	struct load_oncpu *l = fake_new(4096);
	struct trk *t = make_scanned(l);
	struct ev_proc ev = {.type = EV_PROC_MMAP, .pid = PID_BASE, .tid = PID_BASE};
	struct ev_proc_id id = id_of(PID_BASE, 0, 0);
	struct trk_location pl;
	struct stat st;
	struct files f;

	(void)state;
	files_make(&f);
	assert_int_equal(stat(f.path, &st), 0);
	ev_fork(t, id.pid, self());
	ev_exec(t, id.pid);
	ev.map = (struct ev_mapping){.start = 0x10000,
	                             .end = 0x11000,
	                             .kind = EV_MAP_FILE,
	                             .exec = 1,
	                             .path = f.path,
	                             .file = {.dev_major = (uint32_t)(st.st_dev >> 8 & 0xfff),
	                                      .dev_minor = (uint32_t)(st.st_dev & 0xff),
	                                      .ino = st.st_ino}};
	ev.time_ns = tick();
	trk_event(t, &ev);
	assert_int_equal(trk_resolve(t, &id, 0x10000, &pl), 0);
	assert_int_equal(pl.image->reason, EV_REASON_NAMED);
	assert_true(pl.image->fd >= 0);
	/* Another file is there by now. */
	ev.map.start += 0x10000;
	ev.map.end += 0x10000;
	ev.map.file.ino += 1000000000;
	ev.time_ns = tick();
	trk_event(t, &ev);
	assert_int_equal(trk_resolve(t, &id, 0x20000, &pl), 0);
	assert_int_equal(pl.image->reason, EV_REASON_FILE_REPLACED);
	assert_int_equal(trk_stats(t)->images_failed, 1);
	/* And later none. */
	ev.map.start += 0x10000;
	ev.map.end += 0x10000;
	ev.map.file.ino += 1;
	ev.map.path = "/nowhere/at/all";
	ev.time_ns = tick();
	trk_event(t, &ev);
	assert_int_equal(trk_resolve(t, &id, 0x30000, &pl), 0);
	assert_int_equal(pl.image->reason, EV_REASON_NO_FILE);
	trk_free(t);

	/* The second process that maps it can show it. */
	t = make_scanned(l);
	ev_fork(t, id.pid, self());
	ev_exec(t, id.pid);
	ev.map.file.ino = st.st_ino;
	ev.time_ns = tick();
	trk_event(t, &ev);
	assert_int_equal(trk_resolve(t, &id, 0x30000, &pl), 0);
	assert_int_equal(pl.image->reason, EV_REASON_NO_FILE);
	ev.map.path = f.path;
	ev.map.start += 0x10000;
	ev.map.end += 0x10000;
	ev.time_ns = tick();
	trk_event(t, &ev);
	assert_int_equal(trk_resolve(t, &id, 0x30000, &pl), 0);
	assert_int_equal(pl.image->reason, EV_REASON_NAMED);
	assert_true(pl.image->fd >= 0 && pl.image->build_id_len > 0);
	assert_int_equal(trk_stats(t)->images_failed, 1);
	trk_free(t);
	fake_free(l);
	files_remove(&f);
}

/* Maps the file in a process, at another address at each call. */
static const struct trk_image *map_as(struct trk *t, const struct ev_proc_id *id, const char *file,
                                      const char *path, uint64_t time_ns)
{
	static uint64_t at = 0x100000;
	struct ev_proc ev = {.type = EV_PROC_MMAP, .pid = id->pid, .tid = id->pid};
	struct trk_location pl;
	struct stat st;

	at += 0x10000;
	assert_int_equal(stat(file, &st), 0);
	ev.map = (struct ev_mapping){.start = at,
	                             .end = at + 0x1000,
	                             .kind = EV_MAP_FILE,
	                             .exec = 1,
	                             .path = path,
	                             .file = {.dev_major = major(st.st_dev),
	                                      .dev_minor = minor(st.st_dev),
	                                      .ino = st.st_ino}};
	ev.time_ns = time_ns;
	trk_event(t, &ev);
	assert_int_equal(trk_resolve(t, id, at, &pl), 0);
	return pl.image;
}

static const struct trk_image *map_again(struct trk *t, const struct ev_proc_id *id,
                                         const char *path, uint64_t time_ns)
{
	return map_as(t, id, path, path, time_ns);
}

/* The same inode, other content: cp onto a program that does not run. */
static void test_rewritten_file_is_another_image(void **state)
{
	struct load_oncpu *l = fake_new(4096);
	struct trk *t = make_scanned(l);
	struct ev_proc_id id = id_of(PID_BASE, 0, 0);
	const struct trk_image *a, *b, *c;
	struct stat st;
	struct timespec was[2];
	struct files f;
	uint64_t before;
	bool shut;
	int fd;

	(void)state;
	files_make(&f);
	wait_ms(11); /* time stamps of files are that coarse, and rounded down */
	ev_fork(t, id.pid, self());
	ev_exec(t, id.pid);
	a = map_again(t, &id, f.path, tick());
	fd = a->fd;
	assert_int_equal(a->reason, EV_REASON_NAMED);
	assert_ptr_equal(map_again(t, &id, f.path, tick()), a);
	/* Another mode is no other content. */
	assert_int_equal(chmod(f.path, 0700), 0);
	wait_ms(2);
	assert_ptr_equal(map_again(t, &id, f.path, tick()), a);
	assert_int_equal(trk_image_fd(t, a->id, &shut), fd);

	before = tick();
	wait_ms(11);
	write_last_byte(f.path, 'x', false);
	assert_int_equal(trk_image_fd(t, a->id, &shut), -ESTALE); /* before any event tells */
	/* Heard of late: it was mapped before that. */
	wait_ms(11);
	assert_ptr_equal(map_again(t, &id, f.path, before), a);
	assert_int_equal(a->reason, EV_REASON_FILE_REPLACED);
	b = map_again(t, &id, f.path, tick());
	assert_int_not_equal(b->id, a->id);
	assert_int_equal(b->reason, EV_REASON_NAMED);
	assert_int_equal(b->fd, fd); /* no reader of the old one may find another file there */
	assert_int_equal(a->reason, EV_REASON_FILE_REPLACED);
	assert_int_equal(trk_image_fd(t, a->id, &shut), -ESTALE);
	assert_int_equal(trk_image_fd(t, b->id, &shut), fd);
	assert_ptr_equal(map_again(t, &id, f.path, tick()), b);

	/* Longer, its time set back. */
	assert_int_equal(stat(f.path, &st), 0);
	was[0] = was[1] = st.st_mtim;
	write_last_byte(f.path, 'y', true);
	assert_int_equal(utimensat(AT_FDCWD, f.path, was, 0), 0);
	wait_ms(2);
	c = map_again(t, &id, f.path, tick());
	assert_int_not_equal(c->id, b->id);
	assert_int_equal(c->reason, EV_REASON_NAMED);
	assert_int_equal(b->reason, EV_REASON_FILE_REPLACED);

	/* Overwritten before it is heard of for the first time: its content cannot be known, that
	 * of the next process can. */
	before = tick();
	wait_ms(11);
	write_last_byte(f.other, 'x', false);
	wait_ms(11);
	a = map_again(t, &id, f.other, before);
	assert_int_equal(a->reason, EV_REASON_FILE_REPLACED);
	b = map_again(t, &id, f.other, tick());
	assert_int_not_equal(b->id, a->id);
	assert_int_equal(b->reason, EV_REASON_NAMED);
	assert_ptr_equal(map_again(t, &id, f.other, before), b); /* reported too late to be known */
	trk_free(t);
	fake_free(l);
	files_remove(&f);
}

/* Whatever the first processes could not show: it is tried again, but not each time. */
static void test_file_is_tried_again_after_a_while(void **state)
{
	struct load_oncpu *l = fake_new(4096);
	struct trk *t = make_scanned(l);
	struct ev_proc_id id = id_of(PID_BASE, 0, 0);
	const struct trk_image *i = NULL;
	char hidden[96];
	struct files f;

	(void)state;
	files_make(&f);
	(void)snprintf(hidden, sizeof(hidden), "%s.hidden", f.path);
	wait_ms(11);
	ev_fork(t, id.pid, self());
	ev_exec(t, id.pid);
	for (int k = 0; k < 20; k++) {
		assert_int_equal(rename(f.path, hidden), 0);
		i = map_as(t, &id, hidden, f.path, tick());
		assert_int_equal(i->reason, EV_REASON_NO_FILE);
		assert_int_equal(rename(hidden, f.path), 0);
	}
	i = map_again(t, &id, f.path, tick());
	assert_int_equal(i->reason, EV_REASON_NO_FILE); /* not yet */
	wait_ms(101);
	i = map_again(t, &id, f.path, tick());
	assert_int_equal(i->reason, EV_REASON_NAMED);
	assert_int_equal(trk_stats(t)->images_failed, 1);
	trk_free(t);
	fake_free(l);
	files_remove(&f);
}

static void test_more_files_than_descriptors(void **state)
{
	enum { N = 12 };
	struct load_oncpu *l = fake_new(4096);
	struct files f;
	struct rlimit was, now;
	char path[N][80];
	void *p[N];
	struct trk *t;
	struct ev_proc_id id = id_of(self(), EXEC_ID, START_NS);
	struct trk_location pl;
	unsigned int kept = 0, again = 0;
	bool shut;
	int fd;

	(void)state;
	files_make(&f);
	for (int k = 0; k < N; k++) {
		(void)snprintf(path[k], sizeof(path[k]), "%s.%d", f.path, k);
		copy_elf(path[k]);
		p[k] = map_file(path[k]);
		assert_non_null(p[k]);
	}
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &was), 0);
	now = was;
	now.rlim_cur = 20; /* 10 for us */
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &now), 0);
	t = make_scanned(l);
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &was), 0);
	for (int k = 0; k < N; k++) {
		assert_int_equal(trk_resolve(t, &id, (uintptr_t)p[k], &pl), 0);
		assert_int_equal(pl.image->reason, EV_REASON_NAMED);
		fd = trk_image_fd(t, pl.image->id, &shut);
		assert_true(fd >= 0);
		assert_int_equal(shut, pl.image->fd < 0);
		assert_int_equal(last_byte(fd), last_byte(fd));
		if (shut) {
			close(fd);
			again++;
		} else {
			kept++;
		}
	}
	assert_true(again >= 2);
	assert_true(kept <= 10);
	/* Those that were closed are written to, made longer, and go. */
	wait_ms(11); /* time stamps of files are that coarse */
	for (int k = 0; k < N; k++) {
		assert_int_equal(trk_resolve(t, &id, (uintptr_t)p[k], &pl), 0);
		if (pl.image->fd >= 0)
			continue;
		write_last_byte(path[k], 'x', again++ % 2);
		assert_int_equal(trk_image_fd(t, pl.image->id, &shut), -ESTALE);
		assert_int_equal(unlink(path[k]), 0);
		assert_int_equal(trk_image_fd(t, pl.image->id, &shut), -ENOENT);
	}
	assert_int_equal(trk_image_fd(t, 0, &shut), -EINVAL);
	trk_free(t);
	fake_free(l);
	for (int k = 0; k < N; k++) {
		munmap(p[k], 4096);
		(void)unlink(path[k]); /* some are gone already */
	}
	files_remove(&f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	        cmocka_unit_test(test_deleted_file),
	        cmocka_unit_test(test_replaced_file_keeps_its_old_content),
	        cmocka_unit_test(test_file_of_a_process_that_has_gone),
	        cmocka_unit_test(test_rewritten_file_is_another_image),
	        cmocka_unit_test(test_file_is_tried_again_after_a_while),
	        cmocka_unit_test(test_more_files_than_descriptors),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
