/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Opens files whose names come from untrusted files, below a root that they cannot leave. O_PATH
 * comes first, since it has no effect on a device or FIFO. The handle is checked, and then that
 * very file is opened, since the name may change its file in between.
 */
#include <fcntl.h>
#include <linux/openat2.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/syscall.h>

#include "symbolize/sym_find_priv.h"

/* openat2 returns EAGAIN when directories are renamed while it follows "..". */
#define RACES_MAX 16

static int open_handle(const struct sym_root *root, const char *path)
{
	struct open_how how = {
	        .flags = O_PATH | O_CLOEXEC,
	        .resolve = RESOLVE_NO_MAGICLINKS | (root->jail ? RESOLVE_IN_ROOT : 0),
	};
	long fd = -1;

	/* A name below a directory of the agent's must be relative, or it would leave that
	 * directory. */
	while (root->fd >= 0 && *path == '/')
		path++;
	for (int i = 0; i < RACES_MAX && fd < 0; i++) {
		fd = syscall(SYS_openat2, root->fd >= 0 ? root->fd : AT_FDCWD, path, &how,
		             sizeof(how));
		if (fd < 0 && errno != EAGAIN && errno != EINTR)
			break;
	}
	/* Errors of sandboxes that forbid the call. Without it links could leave a root, so this
	 * works only without one. */
	if (fd < 0 && !root->jail && (errno == ENOSYS || errno == EPERM))
		fd = openat(root->fd >= 0 ? root->fd : AT_FDCWD, path, O_PATH | O_CLOEXEC);
	return fd < 0 ? -errno : (int)fd;
}

int sym_open_regular(const struct sym_root *root, const char *path, struct sym_find_stats *stats,
                     int *ret_fd, struct stat *ret_st)
{
	_cleanup_close_ int handle = -EBADF;
	char self[sizeof("/proc/self/fd/") + 12];
	struct stat st;
	int fd;

	handle = open_handle(root, path);
	if (handle == -ENOENT || handle == -ENOTDIR || handle == -ENAMETOOLONG)
		return -ENOENT;
	if (handle < 0 || fstat(handle, &st) < 0) {
		sym_count(stats->unreadable);
		return -EACCES;
	}
	if (!S_ISREG(st.st_mode)) {
		sym_count(stats->not_regular);
		return -EINVAL;
	}
	(void)snprintf(self, sizeof(self), "/proc/self/fd/%d", handle); /* it fits */
	fd = open(self, O_RDONLY | O_NONBLOCK | O_CLOEXEC | O_NOCTTY);
	if (fd < 0) {
		sym_count(stats->unreadable);
		return -EACCES;
	}
	*ret_fd = fd;
	*ret_st = st;
	return 0;
}
