/* SPDX-License-Identifier: Apache-2.0 */
/* Finds separate debug files: tries names of candidates, the most likely first. */
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>

#include "symbolize/sym_find_priv.h"

#define DEBUG_DIR "/usr/lib/debug"

/* ---- where candidates are ------------------------------------------------------------------- */

/* Directories that an image may be in: as its path has it, and with /usr added or removed, as /bin
 * and /lib may be links to /usr/bin and /usr/lib. */
struct dirs {
	char *p[2]; /* absolute, without a final '/': "" is the root */
	size_t n;
	const char *base; /* file name, in the path that was split */
};

static bool has_dotdot(const char *path)
{
	for (const char *p = path; (p = strstr(p, "..")); p += 2) {
		if ((p == path || p[-1] == '/') && (p[2] == 0 || p[2] == '/'))
			return true;
	}
	return false;
}

static bool is_merged_name(const char *p)
{
	static const char *const names[] = {"/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32"};

	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		size_t len = strlen(names[i]);

		if (strncmp(p, names[i], len) == 0 && (p[len] == 0 || p[len] == '/'))
			return true;
	}
	return false;
}

static void dirs_done(struct dirs *d)
{
	free(d->p[0]);
	free(d->p[1]);
}

/* Lists no directory if the path is not one of a file: relative, or with "..", which the kernel
 * never shows. 0, -ENOMEM. */
static int split_path(const char *path, struct dirs *d)
{
	_cleanup_(sbuf_done) struct sbuf b;
	const char *slash = strrchr(path, '/');

	sbuf_init(&b, PATH_MAX + 8);
	*d = (struct dirs){.base = slash ? slash + 1 : path};
	if (path[0] != '/' || strlen(path) >= PATH_MAX || has_dotdot(path))
		return 0;
	d->p[0] = strndup(path, (size_t)(slash - path));
	if (!d->p[0])
		return -ENOMEM;
	d->n = 1;
	if (str_starts(d->p[0], "/usr/") && is_merged_name(d->p[0] + 4)) {
		(void)sbuf_str(&b, d->p[0] + 4); /* sbuf_take returns .err */
	} else if (is_merged_name(d->p[0])) {
		(void)sbuf_str(&b, "/usr");
		(void)sbuf_str(&b, d->p[0]);
	} else {
		return 0;
	}
	d->p[1] = sbuf_take(&b);
	if (!d->p[1])
		return -ENOMEM;
	d->n = 2;
	return 0;
}

/* Returns whether the file is in the root itself, so that the root is searched once. */
static bool at_top(const struct dirs *d)
{
	return d->n && d->p[0][0] == 0;
}

/* Calls @fn for each of @o->dirs until one returns non-zero. */
typedef int (*root_fn)(struct sym_search *s, const struct sym_root *root, const void *arg);

static int each_dir(struct sym_search *s, root_fn fn, const void *arg)
{
	int r = 0;

	for (size_t i = 0; s->o && i < s->o->n_dirs && r == 0; i++) {
		_cleanup_close_ int fd =
		        open(s->o->dirs[i], O_PATH | O_DIRECTORY | O_CLOEXEC | O_NONBLOCK);
		const struct sym_root root = {.fd = fd, .dir = s->o->dirs[i]};

		if (fd >= 0) /* a missing directory was reported when the options were checked */
			r = fn(s, &root, arg);
	}
	return r;
}

/* Calls @fn for @root_fd, then for the agent's root if that is another one. */
static int each_root(struct sym_search *s, int root_fd, root_fn fn, const void *arg)
{
	const struct sym_root theirs = {.fd = root_fd, .jail = true, .dir = ""};
	const struct sym_root ours = {.fd = -EBADF, .dir = ""};
	struct stat a, b;
	int r = 0;

	if (root_fd >= 0) {
		r = fn(s, &theirs, arg);
		if (r != 0 || (fstat(root_fd, &a) == 0 && stat("/", &b) == 0 &&
		               a.st_dev == b.st_dev && a.st_ino == b.st_ino))
			return r;
	}
	return fn(s, &ours, arg);
}

/* ---- debug files ---------------------------------------------------------------------------- */

static int debug_in_dir(struct sym_search *s, const struct sym_root *root, const void *arg)
{
	const struct dirs *d = arg;
	int r = sym_try_build_id(s, root, "", SYM_WANT_BUILD_ID);

	for (size_t i = 0; s->have_link && i < d->n && r == 0; i++)
		r = SYM_TRY(s, root, SYM_WANT_LINK, d->p[i], "/", s->link.name);
	if (s->have_link && r == 0 && !at_top(d))
		r = SYM_TRY(s, root, SYM_WANT_LINK, "/", s->link.name);
	return r;
}

static int debug_in_root(struct sym_search *s, const struct sym_root *root, const void *arg)
{
	const struct dirs *d = arg;
	int r = sym_try_build_id(s, root, DEBUG_DIR, SYM_WANT_BUILD_ID);

	if (!s->have_link)
		return r;
	for (size_t i = 0; i < d->n && r == 0; i++) {
		r = SYM_TRY(s, root, SYM_WANT_LINK, d->p[i], "/", s->link.name);
		if (r == 0)
			r = SYM_TRY(s, root, SYM_WANT_LINK, d->p[i], "/.debug/", s->link.name);
		if (r == 0)
			r = SYM_TRY(s, root, SYM_WANT_LINK, DEBUG_DIR, d->p[i], "/", s->link.name);
	}
	if (r == 0 && !at_top(d))
		r = SYM_TRY(s, root, SYM_WANT_LINK, DEBUG_DIR "/", s->link.name);
	return r;
}

int sym_find_debug(const struct sym_find_options *o, struct sym_find_stats *stats,
                   struct img_file *f, const char *path, int root_fd, int *ret_fd, char **ret_path)
{
	_cleanup_(dirs_done) struct dirs d = {0};
	struct sym_search s;
	char *full;
	int r;

	sym_search_init(&s, o, stats, f);
	r = img_build_id(f, s.id, &s.id_len);
	if (r < 0)
		s.id_len = 0; /* an image that can no longer be read has none either */
	if (r != -ENOMEM) {
		r = img_debuglink(f, &s.link);
		s.have_link = r == 0;
	}
	if (r != -ENOMEM)
		r = split_path(path, &d);
	if (r == 0 && (s.id_len > 0 || s.have_link)) {
		r = each_dir(&s, debug_in_dir, &d);
		if (r == 0)
			r = each_root(&s, root_fd, debug_in_root, &d);
	}
	if (r == 1) {
		full = malloc(strlen(s.dir) + s.path.len + 1);
		if (full) {
			memcpy(full, s.dir, strlen(s.dir));
			memcpy(full + strlen(s.dir), s.path.p, s.path.len + 1);
			*ret_path = full;
			*ret_fd = TAKE_FD(s.fd);
			r = s.by_link ? SYM_FOUND_DEBUGLINK : SYM_FOUND_BUILD_ID;
		} else {
			r = -ENOMEM;
		}
	} else if (r == 0) {
		r = s.refused ? SYM_FOUND_REFUSED : SYM_FOUND_NONE;
	}
	sym_search_done(&s);
	return r;
}

/* ---- common files of dwz -------------------------------------------------------------------- */

struct alt_names {
	const struct img_altlink *link;
	const char *base;         /* split from its path */
	struct dirs path, really; /* of the debug file: as it was named, and with links followed */
};

static int alt_in_dir(struct sym_search *s, const struct sym_root *root, const void *arg)
{
	const struct alt_names *a = arg;
	int r = sym_try_build_id(s, root, "", SYM_WANT_ALT);

	if (r == 0 && str_starts(a->link->path, DEBUG_DIR "/") && !has_dotdot(a->link->path))
		r = SYM_TRY(s, root, SYM_WANT_ALT, a->link->path + strlen(DEBUG_DIR));
	return r == 0 ? SYM_TRY(s, root, SYM_WANT_ALT, "/.dwz/", a->base) : r;
}

static int alt_in_root(struct sym_search *s, const struct sym_root *root, const void *arg)
{
	const struct alt_names *a = arg;
	int r = 0;

	if (a->link->path[0] == '/')
		r = SYM_TRY(s, root, SYM_WANT_ALT, a->link->path);
	else if (a->path.n)
		r = SYM_TRY(s, root, SYM_WANT_ALT, a->path.p[0], "/", a->link->path);
	if (r == 0 && a->link->path[0] != '/' && a->really.n)
		r = SYM_TRY(s, root, SYM_WANT_ALT, a->really.p[0], "/", a->link->path);
	if (r == 0)
		r = sym_try_build_id(s, root, DEBUG_DIR, SYM_WANT_ALT);
	return r == 0 ? SYM_TRY(s, root, SYM_WANT_ALT, DEBUG_DIR "/.dwz/", a->base) : r;
}

/* Real path of a debug file. It is often found by a link in .build-id, and names the common file
 * relative to its real directory. "" if the path is unknown. */
static void real_path(const struct img_file *f, char *buf, size_t cap)
{
	char self[sizeof("/proc/self/fd/") + 12];
	ssize_t n;

	(void)snprintf(self, sizeof(self), "/proc/self/fd/%d", img_file_fd(f)); /* it fits */
	n = readlink(self, buf, cap - 1);
	buf[n > 0 ? n : 0] = 0;
}

int sym_find_alt(const struct sym_find_options *o, struct sym_find_stats *stats,
                 struct img_file *debug, const char *path, int root_fd, int *ret_fd)
{
	_cleanup_free_ struct img_altlink *link = malloc(sizeof(*link));
	_cleanup_free_ char *real = malloc(PATH_MAX);
	struct alt_names a = {.link = link};
	struct sym_search s;
	int r;

	if (!link || !real)
		return -ENOMEM;
	r = img_altlink(debug, link);
	if (r < 0)
		return r == -ENOMEM ? r : 0;
	sym_search_init(&s, o, stats, debug);
	memcpy(s.id, link->build_id, link->build_id_len);
	s.id_len = link->build_id_len;
	a.base = strrchr(link->path, '/');
	a.base = a.base ? a.base + 1 : link->path;
	real_path(debug, real, PATH_MAX);
	r = split_path(path, &a.path);
	if (r == 0)
		r = split_path(real, &a.really);
	if (r == 0)
		r = each_dir(&s, alt_in_dir, &a);
	if (r == 0)
		r = each_root(&s, root_fd, alt_in_root, &a);
	if (r == 1)
		*ret_fd = TAKE_FD(s.fd);
	dirs_done(&a.path);
	dirs_done(&a.really);
	sym_search_done(&s);
	return r;
}

/* ---- split units ---------------------------------------------------------------------------- */

/* The package of x is x.dwp, that of x.debug is x.debug.dwp or x.dwp. */
struct dwp_names {
	struct dirs dirs;
	char *base;    /* without a final ".debug" */
	bool stripped; /* the path had that */
};

static int dwp_in(struct sym_search *s, const struct sym_root *root, const char *prefix,
                  const char *dir, const struct dwp_names *w)
{
	int r = 0;

	if (w->stripped)
		r = SYM_TRY(s, root, SYM_WANT_DWP, prefix, dir, "/", w->base, ".debug.dwp");
	if (r == 0)
		r = SYM_TRY(s, root, SYM_WANT_DWP, prefix, dir, "/", w->base, ".dwp");
	if (r == 0 && !w->stripped)
		r = SYM_TRY(s, root, SYM_WANT_DWP, prefix, dir, "/", w->base, ".debug.dwp");
	return r;
}

static int dwp_in_dir(struct sym_search *s, const struct sym_root *root, const void *arg)
{
	const struct dwp_names *w = arg;
	int r = 0;

	for (size_t i = 0; i < w->dirs.n && r == 0; i++)
		r = dwp_in(s, root, NULL, w->dirs.p[i], w);
	return r == 0 && !at_top(&w->dirs) ? dwp_in(s, root, NULL, NULL, w) : r;
}

static int dwp_in_root(struct sym_search *s, const struct sym_root *root, const void *arg)
{
	const struct dwp_names *w = arg;
	int r = 0;

	for (size_t i = 0; i < w->dirs.n && r == 0; i++) {
		r = dwp_in(s, root, NULL, w->dirs.p[i], w);
		if (r == 0)
			r = dwp_in(s, root, DEBUG_DIR, w->dirs.p[i], w);
	}
	return r;
}

int sym_find_dwp(const struct sym_find_options *o, struct sym_find_stats *stats, const char *path,
                 int root_fd, int *ret_fd)
{
	static const char suffix[] = ".debug";
	struct dwp_names w = {0};
	struct sym_search s;
	size_t len;
	int r;

	sym_search_init(&s, o, stats, NULL);
	r = split_path(path, &w.dirs);
	len = strlen(w.dirs.base);
	if (r == 0 && len > 0 && len <= NAME_MAX) {
		w.stripped = len >= sizeof(suffix) &&
		             strcmp(w.dirs.base + len - strlen(suffix), suffix) == 0;
		w.base = strndup(w.dirs.base, w.stripped ? len - strlen(suffix) : len);
		r = w.base ? each_dir(&s, dwp_in_dir, &w) : -ENOMEM;
		if (r == 0)
			r = each_root(&s, root_fd, dwp_in_root, &w);
	}
	if (r == 1)
		*ret_fd = TAKE_FD(s.fd);
	free(w.base);
	dirs_done(&w.dirs);
	sym_search_done(&s);
	return r;
}

struct dwo_names {
	const char *dir, *name, *base;
};

static int dwo_in_dir(struct sym_search *s, const struct sym_root *root, const void *arg)
{
	const struct dwo_names *w = arg;
	int r = 0;

	if (!has_dotdot(w->name)) {
		if (w->name[0] != '/' && w->dir[0] && !has_dotdot(w->dir))
			r = SYM_TRY(s, root, SYM_WANT_DWO, "/", w->dir, "/", w->name);
		if (r == 0)
			r = SYM_TRY(s, root, SYM_WANT_DWO, "/", w->name);
	}
	return r == 0 ? SYM_TRY(s, root, SYM_WANT_DWO, "/", w->base) : r;
}

static int dwo_in_root(struct sym_search *s, const struct sym_root *root, const void *arg)
{
	const struct dwo_names *w = arg;

	if (w->name[0] == '/')
		return SYM_TRY(s, root, SYM_WANT_DWO, w->name);
	if (w->dir[0] != '/') /* its base directory is unknown */
		return 0;
	return SYM_TRY(s, root, SYM_WANT_DWO, w->dir, "/", w->name);
}

int sym_find_dwo(const struct sym_find_options *o, struct sym_find_stats *stats, const char *dir,
                 const char *name, int root_fd, int *ret_fd)
{
	const char *slash = strrchr(name, '/');
	const struct dwo_names w = {dir, name, slash ? slash + 1 : name};
	struct sym_search s;
	int r = 0;

	sym_search_init(&s, o, stats, NULL);
	if (*w.base) {
		r = each_dir(&s, dwo_in_dir, &w);
		if (r == 0)
			r = each_root(&s, root_fd, dwo_in_root, &w);
	}
	if (r == 1)
		*ret_fd = TAKE_FD(s.fd);
	sym_search_done(&s);
	return r;
}
