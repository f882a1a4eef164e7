/* SPDX-License-Identifier: Apache-2.0 */
#include <dirent.h>
#include <fcntl.h>
#include <grp.h>
#include <limits.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <cmocka.h>

#include "encode/encode.h"

#define NOBODY 65534

/* ---- helpers ----------------------------------------------------------------------- */

static char tmp[PATH_MAX]; /* a directory for each test */

static int setup(void **state)
{
	const char *base = getenv("TMPDIR");

	(void)state;
	(void)snprintf(tmp, sizeof(tmp), "%s/test-encode.XXXXXX", base ? base : "/tmp");
	return mkdtemp(tmp) && chmod(tmp, 0755) == 0 ? 0 : -1;
}

static int teardown(void **state)
{
	char cmd[PATH_MAX + 16];

	(void)state;
	(void)snprintf(cmd, sizeof(cmd), "rm -rf '%s'", tmp);
	return system(cmd);
}

/* A path in tmp; several may be in use. */
static const char *at(const char *name)
{
	static char bufs[4][PATH_MAX * 2];
	static unsigned int next;
	char *buf = bufs[next++ % ARRAY_SIZE(bufs)];

	(void)snprintf(buf, sizeof(bufs[0]), "%s/%s", tmp, name);
	return buf;
}

static size_t entries(const char *dir)
{
	DIR *d = opendir(dir);
	size_t n = 0;

	assert_non_null(d);
	for (struct dirent *e = readdir(d); e; e = readdir(d))
		n += strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0;
	closedir(d);
	return n;
}

static void assert_file(const char *path, const char *want)
{
	struct sbuf b;

	sbuf_init(&b, 1 << 20);
	assert_int_equal(file_read_all(AT_FDCWD, path, &b, NULL), 0);
	assert_int_equal(b.len, strlen(want));
	if (b.len)
		assert_memory_equal(b.p, want, b.len);
	sbuf_done(&b);
}

static void make_file(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);

	assert_true(fd >= 0);
	assert_int_equal(file_write_full(fd, text, strlen(text)), 0);
	close(fd);
}

static int open_path(const char *path, struct enc_output **ret, struct err *err)
{
	return enc_output_open(&(struct pfa_output){.path = path}, ret, err);
}

/* Opening fails with @code and says @text, and leaves nothing. */
static void assert_refused(const char *path, int code, const char *text)
{
	struct enc_output *o = NULL;
	struct err err = {0};
	size_t n = entries(tmp);

	assert_int_equal(open_path(path, &o, &err), code);
	assert_null(o);
	assert_int_equal(err.code, code);
	assert_int_equal(err.cause, ERR_OUTPUT);
	assert_memory_equal(err.object, path, MIN_OF(strlen(path) + 1, sizeof(err.object) - 1));
	if (!strstr(err.msg, text))
		fail_msg("'%s' not in '%s'", text, err.msg);
	assert_int_equal(entries(tmp), n);
}

/* Runs @fn in a child and gives its return value; a signal is an error. */
static int in_child(int (*fn)(void))
{
	pid_t pid;
	int st;

	fflush(NULL);
	pid = fork();
	assert_true(pid >= 0);
	if (pid == 0)
		_exit(fn());
	assert_int_equal(waitpid(pid, &st, 0), pid);
	if (!WIFEXITED(st))
		fail_msg("child ended by signal %d", WTERMSIG(st));
	return WEXITSTATUS(st);
}

/* For children, where cmocka's do not work. */
#define CHECK(cond)                                                                                \
	do {                                                                                       \
		if (!(cond)) {                                                                     \
			fprintf(stderr, "line %d: %s\n", __LINE__, #cond);                         \
			return 1;                                                                  \
		}                                                                                  \
	} while (0)
#define CANNOT 77

static bool drop_root(void)
{
	return geteuid() != 0 ||
	       (setgroups(0, NULL) == 0 && setresgid(NOBODY, NOBODY, NOBODY) == 0 &&
	        setresuid(NOBODY, NOBODY, NOBODY) == 0);
}

/* ---- paths ------------------------------------------------------------------------- */

static bool no_unnamed_files; /* as on file systems without O_TMPFILE */

int __real_openat64(int dirfd, const char *path, int flags, ...);
int __wrap_openat64(int dirfd, const char *path, int flags, ...);
int __wrap_openat64(int dirfd, const char *path, int flags, ...)
{
	va_list ap;
	mode_t mode;

	if ((flags & O_TMPFILE) == O_TMPFILE && no_unnamed_files) {
		errno = EOPNOTSUPP;
		return -1;
	}
	va_start(ap, flags);
	mode = va_arg(ap, mode_t);
	va_end(ap);
	return __real_openat64(dirfd, path, flags, mode);
}

static void file_appears_at_commit_only(unsigned int temporary_ones)
{
	const char *path = at("out");
	mode_t mask = umask(027);
	struct enc_output *o;
	struct stat st;

	assert_int_equal(open_path(path, &o, NULL), 0);
	assert_int_equal(access(path, F_OK), -1);
	assert_int_equal(entries(tmp), temporary_ones);
	assert_int_equal(enc_output_commit(o, "data", 4, NULL), 0);
	umask(mask);
	assert_file(path, "data");
	assert_int_equal(stat(path, &st), 0);
	assert_int_equal(st.st_mode & 07777, 0640);
	assert_int_equal(entries(tmp), 1);
	assert_int_equal(enc_output_commit(o, "more", 4, NULL), -EINVAL);
	assert_null(enc_output_free(o));
	assert_null(enc_output_free(NULL));
	assert_file(path, "data");

	/* And over what is there, also with nothing at all. */
	assert_int_equal(open_path(path, &o, NULL), 0);
	assert_file(path, "data");
	assert_int_equal(enc_output_commit(o, NULL, 0, NULL), 0);
	enc_output_free(o);
	assert_file(path, "");
	assert_int_equal(entries(tmp), 1);
}

static void test_file_appears_at_commit_only(void **state)
{
	(void)state;
	file_appears_at_commit_only(0);
}

static void test_file_appears_at_commit_only_without_unnamed_files(void **state)
{
	(void)state;
	no_unnamed_files = true;
	file_appears_at_commit_only(1);
	no_unnamed_files = false;
}

/* Mode, owner and group of what is written over a file that has them. */
static void replace_file(mode_t mode, uid_t uid, gid_t gid, struct stat *ret)
{
	struct enc_output *o;

	(void)unlink(at("old")); /* not there the first time */
	make_file(at("old"), "old");
	assert_int_equal(chown(at("old"), uid, gid), 0);
	assert_int_equal(chmod(at("old"), mode), 0);
	assert_int_equal(open_path(at("old"), &o, NULL), 0);
	assert_int_equal(enc_output_commit(o, "new", 3, NULL), 0);
	enc_output_free(o);
	assert_int_equal(entries(tmp), 1);
	assert_int_equal(stat(at("old"), ret), 0);
	assert_int_equal(ret->st_size, 3);
}

static void test_replaced_file_hands_its_access_on(void **state)
{
	static const mode_t modes[] = {0600, 0444, 0777, 0640};
	struct stat st;

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(modes) * 2; i++) {
		no_unnamed_files = i % 2;
		replace_file(modes[i / 2], geteuid(), getegid(), &st);
		assert_int_equal(st.st_mode & 07777, modes[i / 2]);
		if (geteuid() == 0) {
			replace_file(modes[i / 2], NOBODY, NOBODY - 1, &st);
			assert_int_equal(st.st_mode & 07777, modes[i / 2]);
			assert_int_equal(st.st_uid, NOBODY);
			assert_int_equal(st.st_gid, NOBODY - 1);
		}
	}
	no_unnamed_files = false;
	replace_file(04755, geteuid(), getegid(), &st);
	assert_int_equal(st.st_mode & 07777, 0755);
}

/* In a child: writes over root's file, without the right to give files away. */
static int replace_stranger(void)
{
	struct enc_output *o = NULL;
	struct stat st;

	if (geteuid() != 0)
		return CANNOT;
	make_file(at("old"), "old");
	CHECK(chmod(at("old"), 0664) == 0 && chown(tmp, NOBODY, NOBODY) == 0 && drop_root());
	CHECK(open_path(at("old"), &o, NULL) == 0);
	CHECK(enc_output_commit(o, "new", 3, NULL) == 0);
	enc_output_free(o);
	CHECK(stat(at("old"), &st) == 0 && st.st_uid == NOBODY && st.st_gid == NOBODY);
	/* Root's group could write; ours gets no more than everybody had. */
	CHECK((st.st_mode & 07777) == 0644);
	return 0;
}

static void test_access_that_cannot_be_handed_on(void **state)
{
	int r = in_child(replace_stranger);

	(void)state;
	if (r != CANNOT)
		assert_int_equal(r, 0);
}

static void test_free_without_commit_leaves_nothing(void **state)
{
	_cleanup_(enc_output_freep) struct enc_output *o = NULL;

	(void)state;
	make_file(at("old"), "old");
	assert_int_equal(open_path(at("new"), &o, NULL), 0);
	o = enc_output_free(o);
	assert_int_equal(open_path(at("old"), &o, NULL), 0);
	o = enc_output_free(o);
	assert_int_equal(entries(tmp), 1);
	assert_file(at("old"), "old");
}

static void test_relative_path_survives_chdir(void **state)
{
	char cwd[PATH_MAX];
	struct enc_output *o;

	(void)state;
	assert_non_null(getcwd(cwd, sizeof(cwd)));
	assert_int_equal(chdir(tmp), 0);
	assert_int_equal(open_path("rel", &o, NULL), 0);
	assert_int_equal(chdir("/"), 0);
	assert_int_equal(enc_output_commit(o, "x", 1, NULL), 0);
	enc_output_free(o);
	assert_int_equal(chdir(cwd), 0);
	assert_file(at("rel"), "x");
}

static void test_symbolic_link_stays(void **state)
{
	struct enc_output *o;
	struct stat st;

	(void)state;
	assert_int_equal(mkdir(at("d"), 0755), 0);
	make_file(at("d/real"), "old");
	assert_int_equal(symlink("d/real", at("link")), 0);
	assert_int_equal(symlink("link", at("link2")), 0);
	assert_int_equal(open_path(at("link2"), &o, NULL), 0);
	assert_int_equal(enc_output_commit(o, "new", 3, NULL), 0);
	enc_output_free(o);
	assert_int_equal(lstat(at("link"), &st), 0);
	assert_true(S_ISLNK(st.st_mode));
	assert_file(at("d/real"), "new");
	assert_int_equal(entries(tmp), 3);
	assert_int_equal(entries(at("d")), 1);

	assert_int_equal(symlink("nowhere", at("dangling")), 0);
	assert_refused(at("dangling"), -ENOENT, "symbolic link");
	assert_int_equal(symlink("loop", at("loop")), 0);
	assert_refused(at("loop"), -ELOOP, "ELOOP");
}

static void test_link_of_a_stranger_in_a_sticky_directory(void **state)
{
	struct sbuf b;

	(void)state;
	sbuf_init(&b, 16);
	assert_int_equal(file_read_all(AT_FDCWD, "/proc/sys/fs/protected_symlinks", &b, NULL), 0);
	if (geteuid() != 0 || b.p[0] != '1') {
		print_message("# not tested: needs root and fs.protected_symlinks=1\n");
		sbuf_done(&b);
		return;
	}
	sbuf_done(&b);
	make_file(at("precious"), "old");
	assert_int_equal(symlink("precious", at("trap")), 0);
	assert_int_equal(lchown(at("trap"), NOBODY, NOBODY), 0);
	assert_int_equal(chmod(tmp, 01777), 0);
	assert_refused(at("trap"), -EACCES, "symbolic link");
	assert_file(at("precious"), "old");
}

static void test_bad_paths_are_refused_before_the_capture(void **state)
{
	char name[NAME_MAX + 2], want[PATH_MAX + 32];
	struct enc_output *o;

	(void)state;
	make_file(at("file"), "");
	assert_refused("", -EINVAL, "empty");
	assert_refused(tmp, -EISDIR, "directory");
	assert_refused(at("."), -EISDIR, "directory");
	assert_refused(at("new/"), -EISDIR, "directory");
	(void)snprintf(want, sizeof(want), "mkdir -p %s/no/such", tmp);
	assert_refused(at("no/such/file"), -ENOENT, want);
	assert_refused(at("file/x"), -ENOTDIR, "ENOTDIR");

	memset(name, 'n', sizeof(name));
	name[NAME_MAX + 1] = '\0';
	assert_refused(at(name), -ENAMETOOLONG, "ENAMETOOLONG");
	name[NAME_MAX] = '\0';
	assert_int_equal(open_path(at(name), &o, NULL), 0);
	assert_int_equal(enc_output_commit(o, "y", 1, NULL), 0);
	enc_output_free(o);
	assert_file(at(name), "y");
}

static void test_proc_takes_no_files(void **state)
{
	struct enc_output *o = NULL;
	struct err err = {0};

	(void)state;
	assert_true(open_path("/proc/cpu.pb.gz", &o, &err) < 0); /* ENOENT or EACCES by kernel */
	assert_null(o);
	assert_non_null(strstr(err.msg, "create a file in /proc: "));
	assert_non_null(strstr(err.msg, " (E"));
}

static int unwritable_directory(void)
{
	struct enc_output *o = NULL;
	struct err err = {0};

	if (!drop_root())
		return CANNOT;
	CHECK(open_path(at("closed/x"), &o, &err) == -EACCES);
	CHECK(strstr(err.msg, "closed: permission denied (EACCES)"));
	CHECK(open_path(at("secret/x"), &o, &err) == -EACCES);
	CHECK(!o);
	return 0;
}

static void test_directory_without_permission(void **state)
{
	(void)state;
	assert_int_equal(mkdir(at("closed"), 0555), 0);
	assert_int_equal(mkdir(at("secret"), 0), 0);
	assert_int_equal(in_child(unwritable_directory), 0);
	assert_int_equal(chmod(at("secret"), 0755), 0);
	assert_int_equal(entries(at("closed")), 0);
}

static int others_file_in_sticky(void)
{
	struct enc_output *o = NULL;
	struct err err = {0};

	if (geteuid() != 0 || !drop_root())
		return CANNOT;
	CHECK(open_path(at("sticky/roots"), &o, &err) == -EPERM);
	CHECK(strstr(err.msg, "sticky"));
	CHECK(open_path(at("sticky/mine"), &o, &err) == 0);
	CHECK(enc_output_commit(o, "1", 1, NULL) == 0);
	enc_output_free(o);
	CHECK(open_path(at("sticky/mine"), &o, &err) == 0);
	CHECK(enc_output_commit(o, "2", 1, NULL) == 0);
	enc_output_free(o);
	return 0;
}

static void test_file_of_another_user_in_a_sticky_directory(void **state)
{
	struct enc_output *o;
	int r;

	(void)state;
	assert_int_equal(mkdir(at("sticky"), 0755), 0);
	assert_int_equal(chmod(at("sticky"), 01777), 0);
	make_file(at("sticky/roots"), "old");
	r = in_child(others_file_in_sticky);
	if (r == CANNOT) {
		print_message("# not tested: needs root\n");
		return;
	}
	assert_int_equal(r, 0);
	assert_int_equal(entries(at("sticky")), 2);
	/* Root may, though neither the file nor the directory is its own. */
	assert_int_equal(chown(at("sticky"), 1, 1), 0);
	assert_int_equal(open_path(at("sticky/mine"), &o, NULL), 0);
	assert_int_equal(enc_output_commit(o, "3", 1, NULL), 0);
	enc_output_free(o);
	assert_file(at("sticky/mine"), "3");
}

static int odd_file_systems(void)
{
	static char big[100000];
	struct enc_output *o = NULL;
	struct err err = {0};

	if (unshare(CLONE_NEWNS) < 0)
		return CANNOT;
	if (mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0 ||
	    mount("none", at("mnt"), "tmpfs", 0, "size=16k") < 0)
		return CANNOT;
	CHECK(open_path(at("mnt/x"), &o, &err) == 0);
	CHECK(enc_output_commit(o, big, sizeof(big), &err) == -ENOSPC);
	CHECK(strstr(err.msg, "mnt/x: no space left on device (ENOSPC)"));
	enc_output_free(o);
	CHECK(entries(at("mnt")) == 0);
	CHECK(mount("none", at("mnt"), "tmpfs", MS_REMOUNT | MS_RDONLY, NULL) == 0);
	CHECK(open_path(at("mnt/x"), &o, &err) == -EROFS);
	CHECK(strstr(err.msg, "read-only file system"));
	return 0;
}

static void test_full_and_read_only_file_systems(void **state)
{
	int r;

	(void)state;
	assert_int_equal(mkdir(at("mnt"), 0755), 0);
	r = in_child(odd_file_systems);
	if (r == CANNOT)
		print_message("# not tested: a mount namespace of its own is refused\n");
	else
		assert_int_equal(r, 0);
}

static int limited_file_size(void)
{
	static char big[10000];
	struct rlimit lim = {4096, 4096};
	struct enc_output *o = NULL;
	struct err err = {0};

	/* SIGXFSZ keeps its default: the child would die of it. */
	CHECK(open_path(at("x"), &o, &err) == 0);
	CHECK(setrlimit(RLIMIT_FSIZE, &lim) == 0);
	CHECK(enc_output_commit(o, big, sizeof(big), &err) == -EFBIG);
	CHECK(strstr(err.msg, "EFBIG"));
	CHECK(entries(tmp) == 0); /* gone before free */
	enc_output_free(o);
	return 0;
}

static void test_short_write_leaves_no_file(void **state)
{
	(void)state;
	assert_int_equal(in_child(limited_file_size), 0);
	assert_int_equal(entries(tmp), 0);
}

static void test_name_taken_by_a_directory_meanwhile(void **state)
{
	struct enc_output *o;
	struct err err = {0};

	(void)state;
	assert_int_equal(open_path(at("x"), &o, NULL), 0);
	assert_int_equal(mkdir(at("x"), 0755), 0);
	assert_int_equal(enc_output_commit(o, "x", 1, &err), -EISDIR);
	assert_non_null(strstr(err.msg, "rename"));
	assert_int_equal(entries(tmp), 1);
	enc_output_free(o);
}

/* ---- devices, FIFOs ---------------------------------------------------------------- */

static void test_devices(void **state)
{
	struct enc_output *o;
	struct err err = {0};
	struct stat st;

	(void)state;
	assert_int_equal(open_path("/dev/null", &o, NULL), 0);
	assert_int_equal(enc_output_commit(o, "x", 1, NULL), 0);
	enc_output_free(o);
	assert_int_equal(open_path("/dev/full", &o, NULL), 0);
	assert_int_equal(enc_output_commit(o, "x", 1, &err), -ENOSPC);
	assert_non_null(strstr(err.msg, "/dev/full: no space left on device (ENOSPC)"));
	enc_output_free(o);
	assert_int_equal(stat("/dev/full", &st), 0);
	assert_true(S_ISCHR(st.st_mode));
	if (mknod(at("disk"), S_IFBLK | 0600, makedev(7, 250)) == 0)
		assert_refused(at("disk"), -EINVAL, "block device");
	else
		print_message("# block device not tested: mknod: %s\n", err_name(errno));
}

static void test_fifo(void **state)
{
	struct enc_output *o;
	char buf[8];
	int fd;

	(void)state;
	assert_int_equal(mkfifo(at("fifo"), 0600), 0);
	assert_refused(at("fifo"), -ENXIO, "no process reads");
	fd = open(at("fifo"), O_RDONLY | O_NONBLOCK | O_CLOEXEC);
	assert_true(fd >= 0);
	assert_int_equal(open_path(at("fifo"), &o, NULL), 0);
	assert_int_equal(enc_output_commit(o, "fifo", 4, NULL), 0);
	enc_output_free(o);
	assert_int_equal(read(fd, buf, sizeof(buf)), 4);
	assert_memory_equal(buf, "fifo", 4);
	assert_int_equal(read(fd, buf, sizeof(buf)), 0); /* closed */
	close(fd);
	assert_int_equal(entries(tmp), 1);
}

static void test_socket_is_refused(void **state)
{
	struct sockaddr_un sa = {.sun_family = AF_UNIX};
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	(void)state;
	assert_true(fd >= 0);
	assert_int_equal(str_copy(sa.sun_path, sizeof(sa.sun_path), at("sock")), 0);
	assert_int_equal(bind(fd, (struct sockaddr *)&sa, sizeof(sa)), 0);
	assert_refused(at("sock"), -ENXIO, "ENXIO");
	close(fd);
}

/* ---- descriptors and call-backs ---------------------------------------------------- */

struct sink {
	int fd;
	size_t len;
	bool same;
};

static uint8_t pattern(size_t i)
{
	return (uint8_t)(i * 7 + i / 251);
}

static void *drain(void *arg)
{
	struct sink *s = arg;
	uint8_t buf[5000];

	for (;;) {
		ssize_t n = read(s->fd, buf, sizeof(buf));

		if (n <= 0)
			return NULL;
		for (ssize_t i = 0; i < n; i++, s->len++)
			s->same = s->same && buf[i] == pattern(s->len);
	}
}

static void test_pipe_that_does_not_block_gets_all(void **state)
{
	size_t len = 1000000; /* many times what a pipe holds */
	uint8_t *data = malloc(len);
	struct sink sink = {.same = true};
	struct enc_output *o;
	pthread_t thread;
	int fds[2];

	(void)state;
	assert_non_null(data);
	for (size_t i = 0; i < len; i++)
		data[i] = pattern(i);
	assert_int_equal(pipe2(fds, O_CLOEXEC), 0);
	assert_int_equal(fcntl(fds[1], F_SETFL, O_NONBLOCK), 0);
	sink.fd = fds[0];
	assert_int_equal(pthread_create(&thread, NULL, drain, &sink), 0);
	assert_int_equal(enc_output_open(&(struct pfa_output){.fd = fds[1]}, &o, NULL), 0);
	assert_int_equal(enc_output_commit(o, data, len, NULL), 0);
	enc_output_free(o);
	assert_true(fcntl(fds[1], F_GETFD) >= 0); /* still the caller's */
	close(fds[1]);
	assert_int_equal(pthread_join(thread, NULL), 0);
	assert_int_equal(sink.len, len);
	assert_true(sink.same);
	close(fds[0]);
	free(data);
}

static int commit_to_closed_pipe(struct err *err)
{
	struct enc_output *o;
	int fds[2], r;

	assert_int_equal(pipe2(fds, O_CLOEXEC), 0);
	assert_int_equal(enc_output_open(&(struct pfa_output){.fd = fds[1]}, &o, NULL), 0);
	close(fds[0]);
	r = enc_output_commit(o, "x", 1, err);
	enc_output_free(o);
	close(fds[1]);
	return r;
}

/* The default of SIGPIPE would end the child. */
static int closed_pipe(void)
{
	static const struct timespec no_wait = {0};
	struct sigaction sa;
	sigset_t set, mask;
	struct err err = {0};

	sa = (struct sigaction){.sa_handler = SIG_DFL};
	CHECK(sigaction(SIGPIPE, &sa, NULL) == 0);
	CHECK(commit_to_closed_pipe(&err) == -EPIPE);
	CHECK(strstr(err.msg, "reader has closed it (EPIPE)"));
	CHECK(sigaction(SIGPIPE, NULL, &sa) == 0 && sa.sa_handler == SIG_DFL);
	CHECK(pthread_sigmask(SIG_SETMASK, NULL, &mask) == 0);
	CHECK(sigismember(&mask, SIGPIPE) == 0 && sigismember(&mask, SIGXFSZ) == 0);
	CHECK(sigpending(&set) == 0 && sigismember(&set, SIGPIPE) == 0);

	/* One that was pending before is not ours to take, and a blocked one stays blocked. */
	sigemptyset(&set);
	sigaddset(&set, SIGPIPE);
	CHECK(pthread_sigmask(SIG_BLOCK, &set, NULL) == 0);
	CHECK(commit_to_closed_pipe(&err) == -EPIPE);
	CHECK(sigtimedwait(&set, NULL, &no_wait) < 0);
	CHECK(raise(SIGPIPE) == 0);
	CHECK(commit_to_closed_pipe(&err) == -EPIPE);
	CHECK(sigtimedwait(&set, NULL, &no_wait) == SIGPIPE);
	return 0;
}

static void test_closed_pipe_raises_no_signal(void **state)
{
	(void)state;
	assert_int_equal(in_child(closed_pipe), 0);
}

static void test_descriptor_must_be_open_for_writing(void **state)
{
	struct enc_output *o = NULL;
	struct err err = {0};
	int fds[2], fd;

	(void)state;
	assert_int_equal(pipe2(fds, O_CLOEXEC), 0);
	assert_int_equal(enc_output_open(&(struct pfa_output){.fd = fds[0]}, &o, &err), -EBADF);
	assert_non_null(strstr(err.msg, "not open for writing"));
	close(fds[0]);
	close(fds[1]);
	assert_int_equal(enc_output_open(&(struct pfa_output){.fd = fds[1]}, &o, &err), -EBADF);
	fd = open("/dev/null", O_PATH | O_CLOEXEC);
	assert_true(fd >= 0);
	assert_int_equal(enc_output_open(&(struct pfa_output){.fd = fd}, &o, &err), -EBADF);
	close(fd);
	fd = open("/dev/full", O_RDWR | O_CLOEXEC);
	assert_int_equal(enc_output_open(&(struct pfa_output){.fd = fd}, &o, &err), 0);
	assert_int_equal(enc_output_commit(o, "x", 1, &err), -ENOSPC);
	assert_non_null(strstr(err.msg, "descriptor "));
	enc_output_free(o);
	close(fd);
}

struct call {
	int cnt, ret;
	char got[8];
	size_t len;
};

static int on_write(void *arg, const void *data, size_t len)
{
	struct call *c = arg;

	c->cnt++;
	c->len = len;
	memcpy(c->got, data, MIN_OF(len, sizeof(c->got)));
	return c->ret;
}

static void test_call_back_is_called_once(void **state)
{
	struct call call = {0};
	struct pfa_output t = {.write = on_write, .write_arg = &call};
	struct enc_output *o;
	struct err err = {0};

	(void)state;
	assert_int_equal(enc_output_open(&t, &o, NULL), 0);
	enc_output_free(o);
	assert_int_equal(call.cnt, 0);
	assert_int_equal(enc_output_open(&t, &o, NULL), 0);
	assert_int_equal(enc_output_commit(o, "bytes", 5, NULL), 0);
	assert_int_equal(enc_output_commit(o, "bytes", 5, NULL), -EINVAL);
	enc_output_free(o);
	assert_int_equal(call.cnt, 1);
	assert_int_equal(call.len, 5);
	assert_memory_equal(call.got, "bytes", 5);
	call.ret = -ENOBUFS;
	assert_int_equal(enc_output_open(&t, &o, NULL), 0);
	assert_int_equal(enc_output_commit(o, "x", 1, &err), -ENOBUFS);
	assert_non_null(strstr(
	        err.msg, "call-back of the output failed: no buffer space available (ENOBUFS)"));
	enc_output_free(o);
}

static void test_exactly_one_target(void **state)
{
	const struct pfa_output bad[] = {
	        {0},
	        {.fd = -1},
	        {.path = "/dev/null", .fd = 1},
	        {.path = "/dev/null", .fd = -1},
	        {.path = "/dev/null", .write = on_write},
	        {.fd = 1, .write = on_write},
	        {.path = "/dev/null", .fd = 1, .write = on_write},
	};
	struct enc_output *o = NULL;
	struct err err = {0};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		assert_int_equal(enc_output_open(&bad[i], &o, &err), -EINVAL);
		assert_null(o);
	}
}

#define IN_DIR(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
	        IN_DIR(test_file_appears_at_commit_only),
	        IN_DIR(test_file_appears_at_commit_only_without_unnamed_files),
	        IN_DIR(test_replaced_file_hands_its_access_on),
	        IN_DIR(test_access_that_cannot_be_handed_on),
	        IN_DIR(test_free_without_commit_leaves_nothing),
	        IN_DIR(test_relative_path_survives_chdir),
	        IN_DIR(test_symbolic_link_stays),
	        IN_DIR(test_link_of_a_stranger_in_a_sticky_directory),
	        IN_DIR(test_bad_paths_are_refused_before_the_capture),
	        cmocka_unit_test(test_proc_takes_no_files),
	        IN_DIR(test_directory_without_permission),
	        IN_DIR(test_file_of_another_user_in_a_sticky_directory),
	        IN_DIR(test_full_and_read_only_file_systems),
	        IN_DIR(test_short_write_leaves_no_file),
	        IN_DIR(test_name_taken_by_a_directory_meanwhile),
	        IN_DIR(test_devices),
	        IN_DIR(test_fifo),
	        IN_DIR(test_socket_is_refused),
	        cmocka_unit_test(test_pipe_that_does_not_block_gets_all),
	        cmocka_unit_test(test_closed_pipe_raises_no_signal),
	        cmocka_unit_test(test_descriptor_must_be_open_for_writing),
	        cmocka_unit_test(test_call_back_is_called_once),
	        cmocka_unit_test(test_exactly_one_target),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
