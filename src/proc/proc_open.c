/* SPDX-License-Identifier: Apache-2.0 */
/* Opens the files of mappings. They are untrusted: only regular files are opened, since opening a
 * device or a FIFO has effects, and the opened file is compared with the mapped one. */
#include "proc/proc_priv.h"

#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <linux/capability.h>
#include <linux/magic.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/vfs.h>

bool proc_same_file(const struct stat *st, uint64_t fs_type, bool by_process,
                    const struct ev_file_id *file)
{
	if (st->st_ino != file->ino)
		return false;
	if (major(st->st_dev) == file->dev_major && minor(st->st_dev) == file->dev_minor)
		return true;
	if (major(st->st_dev) != 0)
		return false;
	if (fs_type == OVERLAYFS_SUPER_MAGIC)
		return true;
	return file->dev_major == 0 && (by_process || fs_type == BTRFS_SUPER_MAGIC);
}

/* "/proc/PID/root<path><suffix>" */
static int root_path(struct sbuf *b, uint32_t pid, const char *path, const char *suffix)
{
	return sbuf_addf(b, "/proc/%u/root%s%s", pid, path, suffix);
}

bool proc_deleted_is_name(uint32_t pid, const char *path, const struct ev_file_id *file)
{
	_cleanup_(sbuf_done) struct sbuf b;
	struct statfs fs;
	struct stat st;

	sbuf_init(&b, 2 * PATH_MAX);
	return root_path(&b, pid, path, PROC_DELETED) == 0 && stat(b.p, &st) == 0 &&
	       statfs(b.p, &fs) == 0 && proc_same_file(&st, (uint64_t)fs.f_type, true, file);
}

/* Opens the file of a handle. */
static int open_handle(int handle)
{
	char self[PROC_PATH_SIZE];
	int fd, n;

	n = snprintf(self, sizeof(self), "/proc/self/fd/%d", handle);
	assert(n > 0 && (size_t)n < sizeof(self));
	fd = open(self, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	return fd < 0 ? -errno : fd;
}

static int open_same(const char *path, bool by_process, const struct ev_file_id *file)
{
	struct statfs fs;
	_cleanup_close_ int handle = -EBADF;
	struct stat st;

	handle = open(path, O_PATH | O_CLOEXEC);
	if (handle < 0)
		return -errno;
	if (fstat(handle, &st) < 0)
		return -errno;
	if (fstatfs(handle, &fs) < 0)
		return -errno;
	if (!proc_same_file(&st, (uint64_t)fs.f_type, by_process, file))
		return -ESTALE;
	return S_ISREG(st.st_mode) ? open_handle(handle) : -EINVAL;
}

int proc_open_regular(const char *path)
{
	_cleanup_close_ int handle = open(path, O_PATH | O_CLOEXEC);
	struct stat st;

	if (handle < 0 || fstat(handle, &st) < 0)
		return -errno;
	return S_ISREG(st.st_mode) && st.st_size > 0 ? open_handle(handle) : -EINVAL;
}

int proc_open_path(const char *path, const struct ev_file_id *file)
{
	return open_same(path, false, file);
}

/* Whether another way to open it would fail for the same reason. */
static bool is_out_of_something(int r)
{
	return r == -EMFILE || r == -ENFILE || r == -ENOMEM;
}

int proc_open_mapped(uint32_t pid, const struct ev_mapping *m, struct err *err)
{
	_cleanup_(sbuf_done) struct sbuf b;
	char name[PROC_PATH_SIZE];
	const char *remedy = "";
	int fd, first, n;

	sbuf_init(&b, 2 * PATH_MAX);
	if (m->kind != EV_MAP_FILE)
		return err_set(err, -EINVAL,
		               "open \"%s\" of process %u: EINVAL: no file is mapped there",
		               m->path, pid);
	n = snprintf(name, sizeof(name), "/proc/%u/map_files/%" PRIx64 "-%" PRIx64, pid, m->start,
	             m->end);
	assert(n > 0 && (size_t)n < sizeof(name));
	first = open_same(name, true, &m->file);
	if (first >= 0)
		return first;

	fd = first;
	if (!is_out_of_something(fd) && m->path[0] == '/') {
		if (root_path(&b, pid, m->path, "") < 0)
			return err_set(err, b.err, "open %s of process %u: %s", m->path, pid,
			               err_name(b.err));
		fd = open_same(b.p, true, &m->file);
		/* The path of a side-band record may end like this by itself. */
		if (m->deleted && (fd == -ENOENT || fd == -ESTALE)) {
			int second;

			sbuf_reset(&b);
			second = root_path(&b, pid, m->path, PROC_DELETED) < 0
			                 ? b.err
			                 : open_same(b.p, true, &m->file);
			if (second >= 0 || is_out_of_something(second))
				fd = second;
		}
	}
	if (fd >= 0)
		return fd;
	if ((first == -EPERM || first == -EACCES) && (fd == -ENOENT || fd == -ESTALE))
		remedy = "; the mapped file itself can be opened with CAP_CHECKPOINT_RESTORE or "
		         "CAP_SYS_ADMIN";
	else if (fd == -EACCES || fd == -EPERM)
		remedy = cap_effective(CAP_SYS_PTRACE) ? "" : ": needs CAP_SYS_PTRACE";
	return err_set(err, fd, "open %s of process %u: %s%s%s", m->path, pid, err_name(fd),
	               fd == -ESTALE ? ": another file is there now" : "", remedy);
}

int proc_other_root(uint32_t pid)
{
	_cleanup_close_ int fd = -EBADF;
	char path[64], theirs[64], ours[64];
	struct stat st, root;
	ssize_t n, n_ours;

	(void)snprintf(path, sizeof(path), "/proc/%u/root", pid);
	fd = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0 || fstat(fd, &st) < 0 || stat("/", &root) < 0)
		return -EBADF;
	(void)snprintf(path, sizeof(path), "/proc/%u/ns/mnt", pid);
	n = readlink(path, theirs, sizeof(theirs));
	n_ours = readlink("/proc/self/ns/mnt", ours, sizeof(ours));
	if (n > 0 && n == n_ours && memcmp(theirs, ours, (size_t)n) == 0 &&
	    st.st_dev == root.st_dev && st.st_ino == root.st_ino)
		return -EBADF;
	return TAKE_FD(fd);
}

const char *proc_path_inside(uint32_t pid, const char *path)
{
	char link[64], root[PATH_MAX];
	ssize_t n;

	(void)snprintf(link, sizeof(link), "/proc/%u/root", pid);
	n = readlink(link, root, sizeof(root));
	if (n <= 1 || (size_t)n >= sizeof(root) || strncmp(path, root, (size_t)n) != 0 ||
	    path[n] != '/')
		return path;
	return path + n;
}
