/* SPDX-License-Identifier: Apache-2.0 */
/* Finds and reads source files. */
#include <limits.h>
#include <sys/stat.h>

#include "listing/lst_priv.h"
#include "proc/proc.h"

#define SOURCE_BYTES_MAX ((size_t)64 << 20)

/* Reads the file .source_path. Returns 0 or a negative errno. */
static int read_source(struct lst *l, struct ev_source *ret)
{
	_cleanup_close_ int fd = proc_open_regular(l->source_path.p);
	struct stat st;
	int r;

	if (fd < 0)
		return fd;
	if (fstat(fd, &st) < 0)
		return -errno;
	if ((uint64_t)st.st_size > SOURCE_BYTES_MAX)
		return -EFBIG;
	sbuf_done(&l->source);
	sbuf_init(&l->source, SOURCE_BYTES_MAX);
	r = file_read_fd(fd, &l->source);
	if (r < 0)
		return r == -E2BIG ? -EFBIG : r;
	*ret = (struct ev_source){.path = l->source_path.p,
	                          .text = l->source.p ? l->source.p : "",
	                          .len = l->source.len,
	                          .changed_realtime_ns =
	                                  (int64_t)st.st_mtim.tv_sec * (int64_t)NSEC_PER_SEC +
	                                  st.st_mtim.tv_nsec};
	return 0;
}

/* Returns whether a relative path leaves the folder that it begins in. */
static bool has_dotdot(const char *path)
{
	for (const char *p = path; (p = strstr(p, "..")); p += 2)
		if ((p == path || p[-1] == '/') && (p[2] == 0 || p[2] == '/'))
			return true;
	return false;
}

static int try_path(struct lst *l, const char *dir, const char *path, struct ev_source *ret)
{
	int r;

	sbuf_reset(&l->source_path);
	(void)sbuf_str(&l->source_path, dir ? dir : "");
	(void)sbuf_str(&l->source_path, dir ? "/" : "");
	r = sbuf_str(&l->source_path, path);
	if (r < 0)
		return r == -E2BIG ? -ENAMETOOLONG : r;
	return read_source(l, ret);
}

/* Tries a path in a source directory, without ever more of its first folders. */
static int try_dir(struct lst *l, const char *dir, const char *path, struct ev_source *ret)
{
	const size_t len = strlen(path);
	const char *p = len < PATH_MAX ? path : path + len - PATH_MAX;
	int r = -ENOENT;

	for (const char *next; p && r < 0 && r != -ENOMEM; p = next) {
		while (*p == '/')
			p++;
		next = strchr(p, '/');
		if (*p && !has_dotdot(p))
			r = try_path(l, dir, p, ret);
	}
	return r;
}

static int refuse(const char *path, int r, bool searched, struct err *err)
{
	if (r == -EINVAL)
		return err_set(err, r, "%.300s is not a regular file, or is empty", path);
	if (r == -EFBIG)
		return err_set(err, r, "%.300s is larger than 64 MiB", path);
	return err_set(err, r,
	               "cannot read %.300s: %s; give %sfolder that has it: --source-dir DIR", path,
	               err_name(r), searched ? "another " : "the ");
}

int lst_source(struct lst *l, const char *path, struct ev_source *ret, struct err *err)
{
	int r = -ENOENT;

	for (size_t i = 0; i < l->o.n_source_dirs && r < 0 && r != -ENOMEM; i++)
		r = try_dir(l, l->o.source_dirs[i], path, ret);
	if (r < 0 && r != -ENOMEM)
		r = try_path(l, NULL, path, ret);
	if (r < 0 && r != -ENOMEM)
		return refuse(path, r, l->o.n_source_dirs > 0, err);
	return r;
}
