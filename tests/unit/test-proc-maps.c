/* SPDX-License-Identifier: Apache-2.0 */
#include "proc/proc_priv.h"

#include <setjmp.h>
#include <stdarg.h>
#include <cmocka.h>

#include <fcntl.h>
#include <linux/capability.h>
#include <linux/magic.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>

static char tmp_dir[] = "/tmp/test-proc-maps-XXXXXX";

static const char *tmp_path(const char *name)
{
	static char path[256];

	snprintf(path, sizeof(path), "%s/%s", tmp_dir, name);
	return path;
}

/* A pid that is certainly free: a child that was waited for. */
static uint32_t gone_pid(void)
{
	pid_t pid = fork();

	if (pid == 0)
		_exit(0);
	assert_true(pid > 0);
	assert_int_equal(waitpid(pid, NULL, 0), pid);
	return (uint32_t)pid;
}

/* ---- lines of maps -------------------------------------------------------------------------- */

static void test_maps_line_table(void **state)
{
	static const struct {
		const char *line;
		struct ev_mapping m;
	} ok[] = {
	        {"557f5a4c8000-557f5a4cd000 r-xp 00002000 fe:00 247026                     "
	         "/usr/bin/cat",
	         {0x557f5a4c8000,
	          0x557f5a4cd000,
	          0x2000,
	          {0xfe, 0, 247026},
	          EV_MAP_FILE,
	          1,
	          0,
	          "/usr/bin/cat"}},
	        {"7fdd619ab000-7fdd619cd000 rw-p 00000000 00:00 0 ",
	         {0x7fdd619ab000, 0x7fdd619cd000, 0, {0, 0, 0}, EV_MAP_ANON, 0, 0, ""}},
	        {"7fdd619ab000-7fdd619cd000 rwxp 00000000 00:00 0",
	         {0x7fdd619ab000, 0x7fdd619cd000, 0, {0, 0, 0}, EV_MAP_ANON, 1, 0, ""}},
	        {"ffffffffff600000-ffffffffff601000 --xp 00000000 00:00 0                  "
	         "[vsyscall]",
	         {0xffffffffff600000,
	          0xffffffffff601000,
	          0,
	          {0, 0, 0},
	          EV_MAP_OTHER,
	          1,
	          0,
	          "[vsyscall]"}},
	        {"7f00-7f01 r-xp 00000000 00:00 0 [vdso]",
	         {0x7f00, 0x7f01, 0, {0, 0, 0}, EV_MAP_VDSO, 1, 0, "[vdso]"}},
	        {"1000-2000 r-xs 00001000 103:2f 18446744073709551615 /a b/c  d ",
	         {0x1000,
	          0x2000,
	          0x1000,
	          {0x103, 0x2f, UINT64_MAX},
	          EV_MAP_FILE,
	          1,
	          0,
	          "/a b/c  d "}},
	        {"1000-2000 r-xp 00000000 00:2c 7 /x.so (deleted)",
	         {0x1000, 0x2000, 0, {0, 0x2c, 7}, EV_MAP_FILE, 1, 1, "/x.so"}},
	        {"1000-2000 r-xp 00000000 00:2c 7 /x (deleted) (deleted)",
	         {0x1000, 0x2000, 0, {0, 0x2c, 7}, EV_MAP_FILE, 1, 1, "/x (deleted)"}},
	        {"1000-2000 r-xp 00000000 00:01 7 /memfd:jit (deleted)",
	         {0x1000, 0x2000, 0, {0, 1, 7}, EV_MAP_FILE, 1, 1, "/memfd:jit"}},
	        {"1000-2000 rwxs 00000000 00:01 9 /dev/zero (deleted)",
	         {0x1000, 0x2000, 0, {0, 1, 9}, EV_MAP_ANON, 1, 1, "/dev/zero"}},
	        {"1000-2000 rwxp 00000000 00:00 0 [anon:v8 (deleted)]",
	         {0x1000, 0x2000, 0, {0, 0, 0}, EV_MAP_ANON, 1, 0, "[anon:v8 (deleted)]"}},
	        {"1000-2000 r-xp 00000000 fe:00 7 /new\\012line",
	         {0x1000, 0x2000, 0, {0xfe, 0, 7}, EV_MAP_FILE, 1, 0, "/new\nline"}},
	        /* Only the newline is escaped: other backslashes are the name's own. */
	        {"1000-2000 r-xp 00000000 fe:00 7 /a\\040b\\x2d\\01",
	         {0x1000, 0x2000, 0, {0xfe, 0, 7}, EV_MAP_FILE, 1, 0, "/a\\040b\\x2d\\01"}},
	};
	char path[64];

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(ok); i++) {
		struct ev_mapping m;

		if (proc_maps_parse_line(ok[i].line, strlen(ok[i].line), path, sizeof(path), &m) <
		    0)
			fail_msg("refused: %s", ok[i].line);
		assert_int_equal(m.start, ok[i].m.start);
		assert_int_equal(m.end, ok[i].m.end);
		assert_int_equal(m.pgoff, ok[i].m.pgoff);
		assert_int_equal(m.file.dev_major, ok[i].m.file.dev_major);
		assert_int_equal(m.file.dev_minor, ok[i].m.file.dev_minor);
		assert_int_equal(m.file.ino, ok[i].m.file.ino);
		assert_int_equal(m.kind, ok[i].m.kind);
		assert_int_equal(m.exec, ok[i].m.exec);
		assert_int_equal(m.deleted, ok[i].m.deleted);
		assert_string_equal(m.path, ok[i].m.path);
		assert_ptr_equal(m.path, path);
	}
}

static void test_maps_line_refuses_junk(void **state)
{
	static const char *const bad[] = {
	        "",
	        " ",
	        "1000",
	        "1000-2000",
	        "1000-2000 r-xp",
	        "1000-2000 r-xp 00000000 fe:00",
	        "1000-2000 r-xp 00000000 fe:00 ",
	        "2000-1000 r-xp 00000000 fe:00 7 /x",
	        "1000-1000 r-xp 00000000 fe:00 7 /x",
	        "1000-2000 rx-p 00000000 fe:00 7 /x",
	        "1000-2000 r-xq 00000000 fe:00 7 /x",
	        "1000-2000 r-xpp 00000000 fe:00 7 /x",
	        "-1000-2000 r-xp 00000000 fe:00 7 /x",
	        "1g00-2000 r-xp 00000000 fe:00 7 /x",
	        "1000-20000000000000000 r-xp 00000000 fe:00 7 /x",
	        "1000-2000 r-xp 00000000 100000000:00 7 /x",
	        "1000-2000 r-xp 00000000 00:100000000 7 /x",
	        "1000-2000 r-xp 00000000 fe:00 7x /x",
	        "1000-2000 r-xp 00000000 fe:00 18446744073709551616 /x",
	        "1000-2000 r-xp 00000000 fe:00 7 /a-path-that-is-too-long",
	};
	struct ev_mapping m = {.start = 77};
	char path[16];

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		if (proc_maps_parse_line(bad[i], strlen(bad[i]), path, sizeof(path), &m) != -EINVAL)
			fail_msg("taken: %s", bad[i]);
		assert_int_equal(m.start, 77);
	}
	/* A NUL would end the path early for whoever opens it. */
	assert_int_equal(proc_maps_parse_line("1-2 r-xp 0 0:1 7 /a\0b", 20, path, sizeof(path), &m),
	                 -EINVAL);
	assert_int_equal(proc_maps_parse_line("1-2 r-xp 0 0:1 7 /a", 19, path, 0, &m), -EINVAL);
	/* A path that just fits. */
	assert_int_equal(proc_maps_parse_line("1-2 r-xp 0 0:1 7 /34567890123456", 32, path, 16, &m),
	                 0);
	assert_int_equal(proc_maps_parse_line("1-2 r-xp 0 0:1 7 /34567890123456", 32, path, 15, &m),
	                 -EINVAL);
}

static void test_map_kinds(void **state)
{
	static const struct ev_file_id none = {0}, file = {0xfe, 0, 7}, dev_only = {0, 3, 0};
	static const struct {
		const char *path;
		const struct ev_file_id *file;
		enum ev_map_kind kind;
	} cases[] = {
	        {"/lib/x.so", &file, EV_MAP_FILE},
	        {"/lib/x.so", &dev_only, EV_MAP_FILE},
	        {"/lib/x.so", &none, EV_MAP_OTHER},
	        {"//toolong", &file, EV_MAP_FILE},
	        {"/memfd:a (deleted)", &file, EV_MAP_FILE},
	        {"/memfd:a", &file, EV_MAP_FILE},
	        {"", &none, EV_MAP_ANON},
	        {"//anon", &none, EV_MAP_ANON},
	        {"[heap]", &none, EV_MAP_ANON},
	        {"[stack]", &none, EV_MAP_ANON},
	        {"[stack:12]", &none, EV_MAP_ANON},
	        {"[anon:jit]", &none, EV_MAP_ANON},
	        {"[anon_shmem:jit]", &file, EV_MAP_ANON},
	        {"/dev/zero", &file, EV_MAP_ANON},
	        {"/dev/zero (deleted)", &file, EV_MAP_ANON},
	        {"/dev/zeroes", &file, EV_MAP_FILE},
	        {"/anon_hugepage (deleted)", &file, EV_MAP_ANON},
	        {"/SYSV00000000 (deleted)", &file, EV_MAP_ANON},
	        {"/SYSV0012abcd", &file, EV_MAP_ANON},
	        {"/SYSV00000000.so", &file, EV_MAP_FILE},
	        {"/SYSV0012wxyz", &file, EV_MAP_FILE},
	        {"/SYSTEM", &file, EV_MAP_FILE},
	        {"anon_inode:[perf_event]", &file, EV_MAP_ANON},
	        {"[vdso]", &none, EV_MAP_VDSO},
	        {"[vvar]", &none, EV_MAP_OTHER},
	        {"[vsyscall]", &none, EV_MAP_OTHER},
	        {"[uprobes]", &none, EV_MAP_OTHER},
	        {"socket:[12]", &file, EV_MAP_OTHER},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		if (ev_map_kind_of(cases[i].path, cases[i].file) != cases[i].kind)
			fail_msg("%s: kind %d", cases[i].path,
			         ev_map_kind_of(cases[i].path, cases[i].file));
	}
}

/* ---- streams of maps ------------------------------------------------------------------------ */

struct seen {
	unsigned int n;
	uint64_t from, to; /* only mappings inside are counted; to 0: all */
	uint64_t last_end;
	const char *want_path; /* a copy of the mapping with this path goes to found */
	struct ev_mapping found;
	int stop_after, stop_value;
};

static int on_map(void *arg, const struct ev_mapping *m)
{
	struct seen *s = arg;

	assert_int_equal(m->exec, 1);
	assert_true(m->start >= s->last_end);
	s->last_end = m->end;
	if (s->to && (m->start < s->from || m->end > s->to))
		return 0;
	s->n++;
	if (s->want_path && strcmp(s->want_path, m->path) == 0) {
		s->found = *m;
		s->found.path = s->want_path;
	}
	return s->stop_after && (int)s->n == s->stop_after ? s->stop_value : 0;
}

static int maps_of(const struct sbuf *b, struct seen *s, uint64_t *bad)
{
	int fd = memfd_create("maps", MFD_CLOEXEC);
	int r;

	assert_true(fd >= 0);
	assert_int_equal(file_write_full(fd, b->p, b->len), 0);
	assert_int_equal(lseek(fd, 0, SEEK_SET), 0);
	r = proc_maps_read_fd(fd, (uint32_t)getpid(), on_map, s, bad, NULL);
	close(fd);
	return r;
}

static void test_lines_survive_the_ends_of_the_buffer(void **state)
{
	struct seen s = {0};
	struct sbuf b;
	uint64_t bad = 77;

	(void)state;
	sbuf_init(&b, 4 << 20);
	for (unsigned int i = 1; i <= 5000; i++)
		sbuf_addf(&b, "%x000-%x000 r-%cp 00000000 fe:00 %u   /lib/%0*u\n", i, i + 1,
		          i % 5 ? 'x' : '-', i, (int)(i % 97), i);
	sbuf_str(&b, "7000000-7001000 r-xp 00000000 fe:00 1 /last-without-newline");
	assert_int_equal(b.err, 0);
	s.want_path = "/last-without-newline";
	assert_int_equal(maps_of(&b, &s, &bad), 0);
	assert_int_equal(s.n, 4001);
	assert_int_equal(s.found.start, 0x7000000);
	assert_int_equal(bad, 0);
	sbuf_done(&b);
}

static void test_bad_and_endless_lines_are_counted_and_skipped(void **state)
{
	struct seen s = {0};
	struct sbuf b;
	uint64_t bad = 77;

	(void)state;
	sbuf_init(&b, 4 << 20);
	sbuf_str(&b, "1000-2000 r-xp 00000000 fe:00 1 /a\nrubbish\n\n");
	sbuf_str(&b, "2000-3000 r-xp 00000000 fe:00 1 /");
	for (unsigned int i = 0; i < 200000; i++)
		sbuf_char(&b, 'y');
	sbuf_str(&b, "\n3000-4000 r-xp 00000000 fe:00 1 /b\n4000-5000 r-xp 00000000 fe:00 1 /");
	for (unsigned int i = 0; i < 30000; i++) /* fits the buffer, but is longer than paths */
		sbuf_char(&b, 'z');
	sbuf_str(&b, "\n");
	assert_int_equal(b.err, 0);
	assert_int_equal(maps_of(&b, &s, &bad), 0);
	assert_int_equal(s.n, 2);
	assert_int_equal(bad, 4);
	sbuf_done(&b);
}

static void test_callback_stops_the_pass(void **state)
{
	struct seen s = {.stop_after = 1, .stop_value = 42};
	struct seen neg = {.stop_after = 2, .stop_value = -E2BIG};

	(void)state;
	assert_int_equal(proc_maps_read((uint32_t)getpid(), on_map, &s, NULL, NULL), 42);
	assert_int_equal(s.n, 1);
	assert_int_equal(proc_maps_read((uint32_t)getpid(), on_map, &neg, NULL, NULL), -E2BIG);
	assert_int_equal(neg.n, 2);
}

static void test_many_mappings_of_ourselves(void **state)
{
	const size_t page = (size_t)sysconf(_SC_PAGESIZE), pairs = 1500;
	uint8_t *p = mmap(NULL, 2 * pairs * page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct seen s = {.from = (uintptr_t)p, .to = (uintptr_t)p + 2 * pairs * page};
	uint64_t bad = 77;

	(void)state;
	assert_ptr_not_equal(p, MAP_FAILED);
	for (size_t i = 0; i < pairs; i++)
		assert_int_equal(mprotect(p + 2 * i * page, page, PROT_READ | PROT_EXEC), 0);
	assert_int_equal(proc_maps_read((uint32_t)getpid(), on_map, &s, &bad, NULL), 0);
	assert_int_equal(s.n, pairs);
	assert_int_equal(bad, 0);
	munmap(p, 2 * pairs * page);
}

static void test_maps_of_a_process_that_is_gone(void **state)
{
	struct err err = {0};
	struct seen s = {0};

	(void)state;
	assert_int_equal(proc_maps_read(gone_pid(), on_map, &s, NULL, &err), -ESRCH);
	assert_int_equal(err.code, -ESRCH);
	assert_non_null(strstr(err.msg, "ESRCH"));
}

/* ---- opening mapped files ------------------------------------------------------------------- */

/* Maps one executable page of a new file. */
static void *map_file(const char *path, size_t len)
{
	int fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0700);
	void *p;

	assert_true(fd >= 0);
	assert_int_equal(ftruncate(fd, (off_t)len), 0);
	p = mmap(NULL, len, PROT_READ | PROT_EXEC, MAP_PRIVATE, fd, 0);
	assert_ptr_not_equal(p, MAP_FAILED);
	close(fd);
	return p;
}

static struct ev_mapping mapping_at(void *p, size_t len, const char *path)
{
	struct seen s = {.from = (uintptr_t)p, .to = (uintptr_t)p + len, .want_path = path};

	assert_int_equal(proc_maps_read((uint32_t)getpid(), on_map, &s, NULL, NULL), 0);
	assert_int_equal(s.n, 1);
	if (s.found.kind == 0)
		fail_msg("no mapping of %s", path);
	return s.found;
}

static ino_t ino_of(int fd)
{
	struct stat st;

	assert_int_equal(fstat(fd, &st), 0);
	return st.st_ino;
}

static void test_our_own_program_is_found_and_opened(void **state)
{
	const uintptr_t here = (uintptr_t)test_our_own_program_is_found_and_opened;
	_cleanup_(sbuf_done) struct sbuf exe;
	struct seen s = {0};
	struct stat st;
	int fd;

	(void)state;
	sbuf_init(&exe, 4096);
	assert_int_equal(proc_exe((uint32_t)getpid(), &exe), 0);
	s.want_path = exe.p;
	assert_int_equal(proc_maps_read((uint32_t)getpid(), on_map, &s, NULL, NULL), 0);
	assert_true(s.found.start <= here && here < s.found.end);
	assert_int_equal(s.found.kind, EV_MAP_FILE);
	fd = proc_open_mapped((uint32_t)getpid(), &s.found, NULL);
	assert_true(fd >= 0);
	assert_int_equal(stat("/proc/self/exe", &st), 0);
	assert_int_equal(ino_of(fd), st.st_ino);
	assert_true(fcntl(fd, F_GETFD) & FD_CLOEXEC);
	assert_int_equal(fcntl(fd, F_GETFL) & O_ACCMODE, O_RDONLY);
	close(fd);
}

static void test_name_that_ends_like_the_mark(void **state)
{
	const size_t page = (size_t)sysconf(_SC_PAGESIZE);
	const char *path = tmp_path("x (deleted)");
	void *p = map_file(path, page);
	bool may_follow = cap_effective(CAP_CHECKPOINT_RESTORE) || cap_effective(CAP_SYS_ADMIN);
	struct ev_mapping m;
	struct err err = {0};
	char cut[256];
	int fd;

	(void)state;
	m = mapping_at(p, page, path);
	assert_int_equal(m.deleted, 0);
	fd = proc_open_mapped((uint32_t)getpid(), &m, NULL);
	assert_true(fd >= 0);
	close(fd);

	/* As a side-band record tells it, which cannot look: the path without its end. */
	snprintf(cut, sizeof(cut), "%.*s", (int)(strlen(path) - strlen(PROC_DELETED)), path);
	m.path = cut;
	m.deleted = 1;
	m.start = 0x1000; /* nothing there: the way through map_files is closed */
	m.end = 0x2000;
	fd = proc_open_mapped((uint32_t)getpid(), &m, NULL);
	assert_true(fd >= 0);
	assert_int_equal(ino_of(fd), m.file.ino);
	close(fd);

	assert_int_equal(unlink(path), 0);
	m = mapping_at(p, page, path);
	assert_int_equal(m.deleted, 1);
	fd = proc_open_mapped((uint32_t)getpid(), &m, &err);
	if (fd < 0) {
		assert_false(may_follow);
		assert_int_equal(fd, -ENOENT);
		assert_non_null(strstr(err.msg, "CAP_CHECKPOINT_RESTORE"));
	} else {
		assert_int_equal(ino_of(fd), m.file.ino);
		close(fd);
	}
	munmap(p, page);
}

static void test_replaced_file_is_stale(void **state)
{
	const size_t page = (size_t)sysconf(_SC_PAGESIZE);
	const char *path = tmp_path("lib.so");
	void *p = map_file(path, page);
	struct ev_mapping m = mapping_at(p, page, path);
	struct err err = {0};
	void *q;

	(void)state;
	assert_int_equal(unlink(path), 0);
	q = map_file(path, page); /* p keeps the first inode in use, so this is another */
	m.start = 0x1000;
	m.end = 0x2000;
	assert_int_equal(proc_open_mapped((uint32_t)getpid(), &m, &err), -ESTALE);
	assert_non_null(strstr(err.msg, "another file"));
	munmap(p, page);
	munmap(q, page);
	assert_int_equal(unlink(path), 0);
	assert_int_equal(proc_open_mapped((uint32_t)getpid(), &m, &err), -ENOENT);
}

static void test_only_regular_files_are_opened(void **state)
{
	const char *path = tmp_path("fifo");
	struct ev_mapping m = {.start = 0x1000, .end = 0x2000, .kind = EV_MAP_FILE, .path = path};
	struct stat st;
	int fd;

	(void)state;
	assert_int_equal(mkfifo(path, 0600), 0);
	assert_int_equal(stat(path, &st), 0);
	m.file = (struct ev_file_id){major(st.st_dev), minor(st.st_dev), st.st_ino};
	assert_int_equal(proc_open_mapped((uint32_t)getpid(), &m, NULL), -EINVAL);
	assert_int_equal(proc_open_regular(path), -EINVAL);
	assert_int_equal(unlink(path), 0);
	assert_int_equal(proc_open_regular(path), -ENOENT);
	assert_int_equal(proc_open_regular("/dev/null"), -EINVAL);
	assert_int_equal(proc_open_regular("/proc/self/maps"), -EINVAL);
	fd = proc_open_regular("/proc/self/exe");
	assert_true(fd >= 0);
	close(fd);
	m.kind = EV_MAP_ANON;
	assert_int_equal(proc_open_mapped((uint32_t)getpid(), &m, NULL), -EINVAL);
}

static void test_same_file(void **state)
{
	static const struct {
		uint32_t major, minor; /* of stat; inode 7 */
		uint64_t fs_type;
		struct ev_file_id file;
		bool by_path, by_process;
	} cases[] = {
	        {8, 1, EXT4_SUPER_MAGIC, {8, 1, 7}, true, true},
	        {8, 1, EXT4_SUPER_MAGIC, {8, 1, 8}, false, false},
	        {8, 1, EXT4_SUPER_MAGIC, {8, 2, 7}, false, false}, /* two partitions */
	        {8, 1, EXT4_SUPER_MAGIC, {9, 1, 7}, false, false},
	        {8, 1, EXT4_SUPER_MAGIC, {0, 44, 7}, false, false},
	        {0, 44, TMPFS_MAGIC, {0, 44, 7}, true, true},
	        {0, 44, TMPFS_MAGIC, {0, 43, 7}, false, true},
	        {0, 44, TMPFS_MAGIC, {8, 1, 7}, false, false},
	        {0, 44, BTRFS_SUPER_MAGIC, {0, 43, 7}, true, true}, /* a subvolume */
	        {0, 44, BTRFS_SUPER_MAGIC, {0, 43, 8}, false, false},
	        {0, 44, BTRFS_SUPER_MAGIC, {8, 1, 7}, false, false},
	        {0, 44, OVERLAYFS_SUPER_MAGIC, {0, 43, 7}, true, true},
	        {0, 44, OVERLAYFS_SUPER_MAGIC, {8, 1, 7}, true, true}, /* of the layer below */
	        {0, 44, OVERLAYFS_SUPER_MAGIC, {8, 1, 8}, false, false},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct stat st = {.st_ino = 7, .st_dev = makedev(cases[i].major, cases[i].minor)};

		assert_int_equal(proc_same_file(&st, cases[i].fs_type, false, &cases[i].file),
		                 cases[i].by_path);
		assert_int_equal(proc_same_file(&st, cases[i].fs_type, true, &cases[i].file),
		                 cases[i].by_process);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	        cmocka_unit_test(test_maps_line_table),
	        cmocka_unit_test(test_maps_line_refuses_junk),
	        cmocka_unit_test(test_map_kinds),
	        cmocka_unit_test(test_lines_survive_the_ends_of_the_buffer),
	        cmocka_unit_test(test_bad_and_endless_lines_are_counted_and_skipped),
	        cmocka_unit_test(test_callback_stops_the_pass),
	        cmocka_unit_test(test_many_mappings_of_ourselves),
	        cmocka_unit_test(test_maps_of_a_process_that_is_gone),
	        cmocka_unit_test(test_our_own_program_is_found_and_opened),
	        cmocka_unit_test(test_name_that_ends_like_the_mark),
	        cmocka_unit_test(test_replaced_file_is_stale),
	        cmocka_unit_test(test_only_regular_files_are_opened),
	        cmocka_unit_test(test_same_file),
	};
	int r;

	cmocka_set_message_output(CM_OUTPUT_TAP);
	if (!mkdtemp(tmp_dir))
		return 1;
	r = cmocka_run_group_tests(tests, NULL, NULL);
	(void)rmdir(tmp_dir);
	return r;
}
