/* SPDX-License-Identifier: Apache-2.0 */
#include <fcntl.h>
#include <limits.h>
#include <linux/capability.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <sys/random.h>
#include <sys/stat.h>

#include "encode/encode.h"

#define TEMP_TRIES                                                                                 \
	16 /* 64 random bits: a second one is never needed but for a broken getrandom              \
	    */
#define TEMP_NAME_MAX                                                                              \
	200 /* bytes of the name that the temporary one repeats, so that it fits NAME_MAX */

#define FD_PATH_MAX 32 /* "/proc/self/fd/" and a number */

enum output_kind {
	OUTPUT_RENAME, /* fd: temporary file in .dir_fd, .temp or without a name, to become .name */
	OUTPUT_DIRECT, /* fd: opened by us */
	OUTPUT_FD,     /* fd: the caller's */
	OUTPUT_WRITE,  /* the call-back */
};

struct enc_output {
	enum output_kind kind;
	bool used;
	bool appended;
	int failed; /* the first failure of a part */
	int fd, dir_fd;
	bool replaces; /* a regular file, whose owner is: */
	uid_t old_owner;
	pfa_write_fn write;
	void *arg;
	char *label;             /* for messages: the path as given, or "descriptor 3" */
	char *name;              /* in dir_fd */
	char temp[NAME_MAX + 1]; /* in dir_fd; "" if there is none */
};

/* ---- names ---------------------------------------------------------------------------------- */

static void fd_path(int fd, char *ret, size_t size)
{
	(void)snprintf(ret, size, "/proc/self/fd/%d", fd);
}

/* Splits @path into directory ("." if it has none) and name. */
static int split_path(const char *path, char **ret_dir, char **ret_name)
{
	const char *slash = strrchr(path, '/');
	_cleanup_free_ char *name = strdup(slash ? slash + 1 : path);
	char *dir;

	if (!slash)
		dir = strdup(".");
	else
		dir = strndup(path, slash == path ? 1 : (size_t)(slash - path));
	if (!name || !dir) {
		free(dir);
		return -ENOMEM;
	}
	*ret_dir = dir;
	*ret_name = TAKE_PTR(name);
	return 0;
}

/*
 * Finds the file that a symbolic link names, so that the link stays. The file is opened through the
 * link first: the kernel then applies fs.protected_symlinks, which forbids links of other users in
 * /tmp.
 */
static int follow_link(const char *path, char **ret, struct err *err)
{
	_cleanup_close_ int fd = open(path, O_WRONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	_cleanup_free_ char *real = NULL;
	struct stat by_fd, by_name;
	char link[FD_PATH_MAX];
	int r;

	if (fd < 0) {
		r = -errno;
		return err_set(err, r,
		               "cannot write %s: open the file that the symbolic link names: %s",
		               path, err_name(r));
	}
	fd_path(fd, link, sizeof(link));
	real = realpath(link, NULL);
	if (!real || fstat(fd, &by_fd) < 0 || stat(real, &by_name) < 0) {
		r = -errno;
		return err_set(err, r,
		               "cannot write %s: find the file that the symbolic link names: %s",
		               path, err_name(r));
	}
	if (by_fd.st_dev != by_name.st_dev || by_fd.st_ino != by_name.st_ino)
		return err_set(
		        err, -EAGAIN,
		        "cannot write %s: the symbolic link changed while it was opened; try again",
		        path);
	*ret = TAKE_PTR(real);
	return 0;
}

/* ---- opening -------------------------------------------------------------------------------- */

static int open_dir(const char *dir, const char *path, int *ret_fd, struct err *err)
{
	int fd = open(dir, O_PATH | O_DIRECTORY | O_CLOEXEC);
	int r;

	if (fd >= 0) {
		*ret_fd = fd;
		return 0;
	}
	r = -errno;
	if (r == -ENOENT)
		return err_set(
		        err, r,
		        "cannot write %s: directory %s does not exist; create it with: mkdir -p %s",
		        path, dir, dir);
	return err_set(err, r, "cannot write %s: open directory %s: %s", path, dir, err_name(r));
}

/* In a sticky directory such as /tmp only its owner may replace a file. rename would report that
 * after the capture. */
static int check_sticky(const struct enc_output *o, const struct stat *file, struct err *err)
{
	struct stat dir;
	int r;

	if (fstat(o->dir_fd, &dir) < 0) {
		r = -errno;
		return err_set(err, r, "cannot write %s: stat its directory: %s", o->label,
		               err_name(r));
	}
	if (!(dir.st_mode & S_ISVTX) || file->st_uid == geteuid() || dir.st_uid == geteuid() ||
	    cap_effective(CAP_FOWNER))
		return 0;
	return err_set(
	        err, -EPERM,
	        "cannot write %s: it belongs to user %u and its directory is sticky; remove it "
	        "or choose another name",
	        o->label, file->st_uid);
}

static void temp_name(struct enc_output *o, int try)
{
	uint64_t rnd;

	if (getrandom(&rnd, sizeof(rnd), GRND_NONBLOCK) != (ssize_t)sizeof(rnd))
		rnd = now_ns() + (uint64_t)try; /* O_EXCL makes it safe, the number only quick */
	(void)snprintf(o->temp, sizeof(o->temp), ".%.*s.%016llx", TEMP_NAME_MAX, o->name,
	               (unsigned long long)rnd);
}

/* Creates a file without a name, of which nothing remains if the process dies. Returns -errno if
 * the file system has no such files, or if /proc, which gives it its name later, is not mounted. */
static int create_unnamed(struct enc_output *o)
{
	_cleanup_close_ int fd = openat(o->dir_fd, ".", O_WRONLY | O_TMPFILE | O_CLOEXEC, 0666);
	struct stat st, by_path;
	char path[FD_PATH_MAX];

	if (fd < 0)
		return -errno;
	fd_path(fd, path, sizeof(path));
	if (fstat(fd, &st) < 0 || stat(path, &by_path) < 0)
		return -errno;
	if (st.st_dev != by_path.st_dev || st.st_ino != by_path.st_ino)
		return -ENOENT; /* another process's /proc */
	o->fd = TAKE_FD(fd);
	return 0;
}

static int create_temp(struct enc_output *o, const char *dir, struct err *err)
{
	int r = create_unnamed(o);

	if (r == 0)
		return 0;
	r = -EEXIST;
	for (int i = 0; i < TEMP_TRIES && r == -EEXIST; i++) {
		temp_name(o, i);
		/* The kernel applies the umask. */
		o->fd = openat(o->dir_fd, o->temp,
		               O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666);
		if (o->fd >= 0)
			return 0;
		r = -errno;
	}
	o->temp[0] = '\0';
	if (r == -ENOENT) /* the directory is open: it is one of /proc or the like */
		return err_set(err, r,
		               "cannot write %s: the file system of %s takes no new files (ENOENT)",
		               o->label, dir);
	return err_set(err, r, "cannot write %s: cannot create a file in %s: %s", o->label, dir,
	               err_name(r));
}

/*
 * Gives the temporary file the access of the file that it replaces: group and mode now, the owner
 * at the end, after which we may no longer link or change it. Best effort: without CAP_CHOWN, and
 * on file systems without owners, owner and group stay. If the group cannot be changed, ours gets no
 * more than others.
 */
static void copy_access(struct enc_output *o, const struct stat *old)
{
	mode_t mode = old->st_mode & 0777, others = mode & 07;
	struct stat st;

	o->replaces = true;
	o->old_owner = old->st_uid;
	if (fstat(o->fd, &st) < 0)
		return; /* stays as it was created */
	if (st.st_gid != old->st_gid && fchown(o->fd, (uid_t)-1, old->st_gid) < 0)
		mode &= 0700 | others << 3 | others;
	(void)fchmod(o->fd, mode);
}

static void copy_owner(const struct enc_output *o)
{
	struct stat st;

	if (o->replaces && fstat(o->fd, &st) == 0 && st.st_uid != o->old_owner)
		(void)!fchown(o->fd, o->old_owner, (gid_t)-1); /* best effort, as above */
}

/* Opens a regular file or a free name. @old: the existing file, or NULL. */
static int open_rename(struct enc_output *o, const char *path, const struct stat *old,
                       struct err *err)
{
	_cleanup_free_ char *dir = NULL;
	int r;

	r = split_path(path, &dir, &o->name);
	if (r < 0)
		return err_set(err, r, "cannot write %s: %s", path, err_name(r));
	if (o->name[0] == '\0')
		return err_set(err, -EISDIR, "cannot write %s: it names a directory, not a file",
		               path);
	r = open_dir(dir, path, &o->dir_fd, err);
	if (r == 0 && old)
		r = check_sticky(o, old, err);
	if (r == 0)
		r = create_temp(o, dir, err);
	if (r == 0 && old)
		copy_access(o, old);
	return r;
}

/* Opens a device, FIFO or terminal. */
static int open_direct(struct enc_output *o, const char *path, const struct stat *st,
                       struct err *err)
{
	int flags, r;

	if (S_ISBLK(st->st_mode))
		return err_set(err, -EINVAL, "cannot write %s: it is a block device", path);
	/* O_NONBLOCK: a FIFO without a reader would wait here for ever. */
	o->kind = OUTPUT_DIRECT;
	o->fd = open(path, O_WRONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	if (o->fd < 0) {
		r = -errno;
		if (r == -ENXIO && S_ISFIFO(st->st_mode))
			return err_set(err, r,
			               "cannot write %s: no process reads from this FIFO (ENXIO); "
			               "start its reader first",
			               path);
		return err_set(err, r, "cannot write %s: open: %s", path, err_name(r));
	}
	flags = fcntl(o->fd, F_GETFL);
	if (flags < 0 || fcntl(o->fd, F_SETFL, flags & ~O_NONBLOCK) < 0) {
		r = -errno;
		return err_set(err, r, "cannot write %s: fcntl: %s", path, err_name(r));
	}
	return 0;
}

/* Refuses a path whose stat failed. A dangling link is one: a capture that fails must leave no empty file. */
static int refuse_stat(int r, const char *path, struct err *err)
{
	char target[PATH_MAX];
	const ssize_t n = r == -ENOENT ? readlink(path, target, sizeof(target)) : -1;

	if (n < 0)
		return err_set(err, r, "cannot write %s: %s", path, err_name(r));
	return err_set(err, r,
	               "cannot write %s: the symbolic link names %.*s, which does not exist "
	               "(ENOENT); create it with: touch %s",
	               path, (int)n, target, path);
}

static int open_path(struct enc_output *o, const char *path, struct err *err)
{
	_cleanup_free_ char *real = NULL;
	struct stat st, link;
	int r;

	o->kind = OUTPUT_RENAME;
	o->label = strdup(path);
	if (!o->label)
		return err_set(err, -ENOMEM, "cannot write %s: out of memory (ENOMEM)", path);
	if (path[0] == '\0')
		return err_set(err, -EINVAL, "output: the path is empty");
	if (lstat(path, &link) < 0) {
		r = -errno;
		/* A missing directory is ENOENT as well: open_rename tells them apart. */
		if (r == -ENOENT)
			return open_rename(o, path, NULL, err);
		return err_set(err, r, "cannot write %s: %s", path, err_name(r));
	}
	if (stat(path, &st) < 0)
		return refuse_stat(-errno, path, err);
	if (S_ISDIR(st.st_mode))
		return err_set(err, -EISDIR, "cannot write %s: it is a directory", path);
	if (!S_ISREG(st.st_mode))
		return open_direct(o, path, &st, err);
	if (S_ISLNK(link.st_mode)) {
		r = follow_link(path, &real, err);
		if (r < 0)
			return r;
	}
	return open_rename(o, real ? real : path, &st, err);
}

static int open_fd(struct enc_output *o, int fd, struct err *err)
{
	int flags = fcntl(fd, F_GETFL);
	int r = -errno;

	if (flags < 0)
		return err_set(err, r, "cannot write to descriptor %d: %s", fd, err_name(r));
	if ((flags & O_ACCMODE) == O_RDONLY) /* so is every O_PATH */
		return err_set(err, -EBADF,
		               "cannot write to descriptor %d: it is not open for writing", fd);
	o->kind = OUTPUT_FD;
	o->fd = fd;
	if (asprintf(&o->label, "descriptor %d", fd) < 0) {
		o->label = NULL; /* unspecified after a failure */
		return err_set(err, -ENOMEM,
		               "cannot write to descriptor %d: out of memory (ENOMEM)", fd);
	}
	return 0;
}

/* Names the output as the object of a failure that was described. Returns @r. */
static int blame(const struct enc_output *o, int r, struct err *err)
{
	if (r < 0 && err) {
		err->cause = ERR_OUTPUT;
		/* May return -E2BIG: a long path loses its end. */
		(void)str_copy(err->object, sizeof(err->object), o->label ? o->label : "");
	}
	return r;
}

int enc_output_open(const struct pfa_output *t, struct enc_output **ret, struct err *err)
{
	_cleanup_(enc_output_freep) struct enc_output *o = NULL;
	int r = 0;

	if ((t->path != NULL) + (t->fd > 0) + (t->write != NULL) != 1 || t->fd < 0)
		return err_set(err, -EINVAL,
		               "output: exactly one of a path, a descriptor above 0 and a "
		               "call-back is needed");
	o = calloc(1, sizeof(*o));
	if (!o)
		return err_set(err, -ENOMEM, "output: out of memory (ENOMEM)");
	o->fd = o->dir_fd = -EBADF;
	if (t->path) {
		r = open_path(o, t->path, err);
	} else if (t->write) {
		o->kind = OUTPUT_WRITE;
		o->write = t->write;
		o->arg = t->write_arg;
	} else {
		r = open_fd(o, t->fd, err);
	}
	if (r < 0)
		return blame(o, r, err);
	*ret = TAKE_PTR(o);
	return 0;
}

/* ---- writing -------------------------------------------------------------------------------- */

static int write_all(int fd, const uint8_t *p, size_t len)
{
	while (len > 0) {
		ssize_t n = write(fd, p, len);

		if (n > 0) {
			p += n;
			len -= (size_t)n;
		} else if (n == 0) {
			return -EIO; /* no progress and no reason: do not spin */
		} else if (errno == EAGAIN) {
			struct pollfd pfd = {.fd = fd, .events = POLLOUT};

			/* The caller made it non-blocking: wait here. */
			if (poll(&pfd, 1, -1) < 0 && errno != EINTR)
				return -errno;
		} else if (errno != EINTR) {
			return -errno;
		}
	}
	return 0;
}

/*
 * A closed pipe raises SIGPIPE, a size limit SIGXFSZ, both in the writing thread and fatal by
 * default. A library changes no handlers: it blocks them here and consumes them, unless they were
 * pending before.
 */
static int write_quietly(int fd, const void *data, size_t len)
{
	static const int nums[] = {SIGPIPE, SIGXFSZ};
	static const struct timespec no_wait = {0};
	sigset_t block, consume, old, pending;
	int r;

	(void)sigemptyset(&block); /* these cannot fail with valid signal numbers */
	for (size_t i = 0; i < ARRAY_SIZE(nums); i++)
		(void)sigaddset(&block, nums[i]);
	r = pthread_sigmask(SIG_BLOCK, &block, &old);
	if (r != 0)
		return -r;
	(void)sigpending(&pending);
	consume = block;
	for (size_t i = 0; i < ARRAY_SIZE(nums); i++) {
		if (sigismember(&pending, nums[i]) == 1)
			(void)sigdelset(&consume, nums[i]);
	}
	r = write_all(fd, data, len);
	if (r == -EPIPE || r == -EFBIG) {
		while (sigtimedwait(&consume, NULL, &no_wait) < 0 && errno == EINTR)
			; /* interrupted by another signal */
	}
	(void)pthread_sigmask(SIG_SETMASK, &old, NULL);
	return r;
}

static void remove_temp(struct enc_output *o)
{
	if (o->temp[0] != '\0')
		(void)unlinkat(o->dir_fd, o->temp, 0); /* it may be removed already */
	o->temp[0] = '\0';
}

/* Links the file to its name if that is free, else to a temporary name, which is then renamed. */
static int link_unnamed(struct enc_output *o, bool *ret_done, struct err *err)
{
	char path[FD_PATH_MAX];
	int r = -EEXIST;

	fd_path(o->fd, path, sizeof(path));
	*ret_done = linkat(AT_FDCWD, path, o->dir_fd, o->name, AT_SYMLINK_FOLLOW) == 0;
	if (*ret_done)
		return 0;
	r = -errno;
	for (int i = 0; i < TEMP_TRIES && r == -EEXIST; i++) {
		temp_name(o, i);
		if (linkat(AT_FDCWD, path, o->dir_fd, o->temp, AT_SYMLINK_FOLLOW) == 0)
			return 0;
		r = -errno;
	}
	o->temp[0] = '\0';
	return err_set(err, r, "cannot write %s: give the file its name: %s", o->label,
	               err_name(r));
}

static int commit_rename(struct enc_output *o, struct err *err)
{
	bool done = false;
	int r;

	if (o->temp[0] == '\0') {
		r = link_unnamed(o, &done, err);
		if (r < 0)
			return r;
	}
	copy_owner(o);
	/* Network file systems and quotas may report errors here. */
	if (close(TAKE_FD(o->fd)) < 0) {
		r = -errno;
		if (done)
			(void)unlinkat(o->dir_fd, o->name, 0); /* the failure is reported */
		return err_set(err, r, "cannot write %s: close: %s", o->label, err_name(r));
	}
	if (done)
		return 0;
	if (renameat(o->dir_fd, o->temp, o->dir_fd, o->name) < 0) {
		r = -errno;
		return err_set(err, r, "cannot write %s: rename the temporary file: %s", o->label,
		               err_name(r));
	}
	o->temp[0] = '\0';
	return 0;
}

static int put(const struct enc_output *o, const void *data, size_t len, struct err *err)
{
	int r;

	if (o->kind == OUTPUT_WRITE) {
		r = o->write(o->arg, data, len);
		if (r < 0)
			return err_set(err, r, "the call-back of the output failed: %s",
			               err_name(r));
		return 0;
	}
	r = write_quietly(o->fd, data, len);
	if (r == -EPIPE)
		return err_set(err, r, "cannot write %s: its reader has closed it (EPIPE)",
		               o->label);
	if (r < 0)
		return err_set(err, r, "cannot write %s: %s", o->label, err_name(r));
	return 0;
}

static int commit(struct enc_output *o, const void *data, size_t len, struct err *err)
{
	int r = o->failed;

	if (r < 0)
		return err_set(err, r, "cannot write %s: a part of it failed: %s",
		               o->label ? o->label : "the output", err_name(r));
	if (!o->appended || len > 0)
		r = put(o, data, len, err);
	if (r < 0)
		return r;
	if (o->kind == OUTPUT_RENAME)
		return commit_rename(o, err);
	if (o->kind == OUTPUT_DIRECT && close(TAKE_FD(o->fd)) < 0) {
		r = -errno;
		return err_set(err, r, "cannot write %s: close: %s", o->label, err_name(r));
	}
	return 0;
}

int enc_output_append(struct enc_output *o, const void *data, size_t len, struct err *err)
{
	if (o->used || o->failed < 0)
		return err_set(err, o->failed < 0 ? o->failed : -EINVAL,
		               "output: it was written already");
	o->appended = true;
	o->failed = blame(o, put(o, data, len, err), err);
	return o->failed;
}

int enc_output_commit(struct enc_output *o, const void *data, size_t len, struct err *err)
{
	int r;

	if (o->used)
		return err_set(err, -EINVAL, "output: it was written already");
	o->used = true;
	r = blame(o, commit(o, data, len, err), err);
	remove_temp(o);
	return r;
}

struct enc_output *enc_output_free(struct enc_output *o)
{
	if (o) {
		remove_temp(o);
		if (o->kind != OUTPUT_FD)
			closep(&o->fd);
		closep(&o->dir_fd);
		free(o->label);
		free(o->name);
		free(o);
	}
	return NULL;
}

void enc_output_freep(struct enc_output **o)
{
	*o = enc_output_free(*o);
}
