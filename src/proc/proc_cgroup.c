/* SPDX-License-Identifier: Apache-2.0 */
/* The mount point of cgroups, and cgroups of paths and processes. */
#include "proc/proc_priv.h"

#include <fcntl.h>
#include <limits.h>
#include <linux/magic.h>
#include <sys/stat.h>
#include <sys/vfs.h>

/* Machines with many containers have thousands of mounts of 200 bytes. */
#define MOUNTS_MAX_BYTES (16 * 1024 * 1024)

/* Length of the field that begins at @p. */
static size_t field_len(const char *p, const char *end)
{
	const char *blank = memchr(p, ' ', (size_t)(end - p));

	return (size_t)((blank ? blank : end) - p);
}

static bool is_octal(const char *p, size_t len)
{
	return len >= 4 && p[0] == '\\' && p[1] >= '0' && p[1] <= '3' && p[2] >= '0' &&
	       p[2] <= '7' && p[3] >= '0' && p[3] <= '7';
}

/* Blanks, newlines and backslashes of paths are \ooo there. */
static int add_unescaped(struct sbuf *b, const char *p, size_t len)
{
	int r = 0;

	while (len && r == 0) {
		size_t n = is_octal(p, len) ? 4 : 1;

		r = sbuf_char(b,
		              n == 4 ? (char)((p[1] - '0') << 6 | (p[2] - '0') << 3 | (p[3] - '0'))
		                     : *p);
		p += n;
		len -= n;
	}
	return r;
}

int proc_cgroup2_mount_parse(const char *text, size_t len, struct sbuf *b)
{
	static const char type[] = "cgroup2";
	struct cursor c = cursor_of(text, len);
	const char *line;
	size_t line_len;

	/* source path type options 0 0 */
	while (cursor_line(&c, &line, &line_len) == 0) {
		const char *end = line + line_len, *path, *fs;
		size_t path_len;

		path = line + field_len(line, end);
		path += path < end;
		path_len = field_len(path, end);
		fs = path + path_len;
		fs += fs < end;
		if (path_len && field_len(fs, end) == sizeof(type) - 1 &&
		    memcmp(fs, type, sizeof(type) - 1) == 0)
			return add_unescaped(b, path, path_len);
	}
	return -ENOENT;
}

int proc_cgroup2_mount(struct sbuf *b)
{
	_cleanup_(sbuf_done) struct sbuf text;
	int r;

	sbuf_init(&text, MOUNTS_MAX_BYTES);
	r = file_read_all(AT_FDCWD, "/proc/self/mounts", &text, NULL);
	return r < 0 ? r : proc_cgroup2_mount_parse(text.p ? text.p : "", text.len, b);
}

/* Reports the file that was opened instead of a cgroup. */
static int refuse(const char *path, uint64_t type, const char *mount, struct err *err)
{
	const char *what =
	        type == CGROUP_SUPER_MAGIC ? "is of the old hierarchy (cgroup v1)" : "is no cgroup";

	if (!mount)
		return err_set(err, -EINVAL,
		               "cgroup %.200s %s: a cgroup v2 is needed, and none are mounted "
		               "here: mount -t cgroup2 none DIR",
		               path, what);
	return err_set(err, -EINVAL, "cgroup %.200s %s: a cgroup v2 is needed, they lie below %s",
	               path, what, mount);
}

int proc_cgroup_open(const char *path, struct err *err)
{
	_cleanup_(sbuf_done) struct sbuf mount, whole;
	_cleanup_close_ int fd = -EBADF;
	const char *below = NULL;
	struct statfs fs;
	int r;

	sbuf_init(&mount, PATH_MAX);
	sbuf_init(&whole, (size_t)2 * PATH_MAX);
	if (proc_cgroup2_mount(&mount) == 0)
		below = mount.p;
	if (path[0] != '/' && !below)
		return err_set(err, -ENOENT,
		               "cgroup %.200s: no cgroup v2 file system is mounted here: mount -t "
		               "cgroup2 none DIR",
		               path);
	r = path[0] == '/' ? sbuf_str(&whole, path) : sbuf_addf(&whole, "%s/%s", below, path);
	if (r < 0)
		return err_set(err, r, "cgroup %.200s: %s", path, err_name(r));
	fd = open(whole.p, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	if (fd < 0 && errno == ENOENT && below)
		return err_set(
		        err, -ENOENT,
		        "cgroup %.200s does not exist: give its directory, or its path below "
		        "%.200s",
		        path, below);
	if (fd < 0 && errno == ENOENT)
		return err_set(err, -ENOENT,
		               "cgroup %.200s does not exist, and no cgroup v2 file system is "
		               "mounted here",
		               path);
	if (fd < 0 && errno == ENOTDIR)
		return err_set(err, -ENOTDIR,
		               "cgroup %.200s is a file: name the folder, which is the cgroup",
		               path);
	if (fd < 0)
		return err_set(err, -errno, "cgroup %.200s: open: %s", path, err_name(errno));
	if (fstatfs(fd, &fs) < 0)
		return err_set(err, -errno, "cgroup %.200s: fstatfs: %s", path, err_name(errno));
	if (fs.f_type != CGROUP2_SUPER_MAGIC)
		return refuse(path, (uint64_t)fs.f_type, below, err);
	return TAKE_FD(fd);
}

/* ---- of processes ---------------------------------------------------------------------------- */

/* A line for each old hierarchy, of a path at most. */
#define CGROUP_MAX_BYTES (64 * 1024)

int proc_cgroup_path_parse(const char *text, size_t len, struct sbuf *b)
{
	struct cursor c = cursor_of(text, len);
	const char *line;
	size_t line_len;

	/* hierarchy:controllers:path */
	while (cursor_line(&c, &line, &line_len) == 0)
		if (line_len > 3 && memcmp(line, "0::/", 4) == 0)
			return sbuf_add(b, line + 3, line_len - 3);
	return -ENOENT;
}

int proc_cgroup_path(uint32_t pid, struct sbuf *b)
{
	_cleanup_(sbuf_done) struct sbuf text;
	char path[PROC_PATH_SIZE];
	int r;

	sbuf_init(&text, CGROUP_MAX_BYTES);
	proc_path(path, pid, "cgroup");
	r = proc_read_task_file(path, &text, NULL);
	return r < 0 ? r : proc_cgroup_path_parse(text.p ? text.p : "", text.len, b);
}
