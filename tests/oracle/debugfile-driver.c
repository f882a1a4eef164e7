/* SPDX-License-Identifier: Apache-2.0 */
/*
 * debugfile-driver - which debug files are found, for tests that make them as distributions do
 *   debugfile-driver debug PATH ROOT [DIR…]     image ROOT/PATH; ROOT "": ours
 *     → "debug KIND FILE", "alt FILE", "dwp FILE", "-" for what is not there; "mini NAME" for each
 *     symbol inside .gnu_debugdata; "refused REASON N" for each reason
 *   debugfile-driver dwo DIR NAME ROOT [DIR…]   → "dwo FILE"
 * FILE is what the descriptor really is.
 */
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>

#include "symbolize/symbolize.h"

#define MINI_MAX ((size_t)64 << 20)

static int fail(const char *what, int code)
{
	fprintf(stderr, "debugfile-driver: %s: %s\n", what, err_name(code));
	return 1;
}

static void print_fd(const char *what, int fd)
{
	char self[64], path[PATH_MAX] = "-";
	ssize_t n;

	snprintf(self, sizeof(self), "/proc/self/fd/%d", fd);
	n = fd >= 0 ? readlink(self, path, sizeof(path) - 1) : 1;
	path[n > 0 ? n : 0] = 0;
	printf("%s %s\n", what, path);
}

static void print_stats(const struct sym_find_stats *s)
{
	const struct {
		const char *name;
		uint64_t n;
	} all[] = {
	        {"wrong_crc", s->wrong_crc},
	        {"wrong_build_id", s->wrong_build_id},
	        {"not_regular", s->not_regular},
	        {"unreadable", s->unreadable},
	        {"bad", s->bad},
	        {"itself", s->itself},
	};

	for (size_t i = 0; i < ARRAY_SIZE(all); i++) {
		if (all[i].n)
			printf("refused %s %lu\n", all[i].name, all[i].n);
	}
}

struct mini {
	struct img_file *f;
	struct sbuf name;
};

static void mini_symbol(void *arg, const struct img_symbol *s)
{
	struct mini *m = arg;

	sbuf_reset(&m->name);
	if (img_symbol_name(m->f, s, &m->name) == 0)
		printf("mini %s\n", m->name.p);
}

static int mini(struct img_file *f)
{
	struct mini m = {0};
	uint8_t *p = NULL;
	size_t len = 0;
	int r = img_minidebug(f, MINI_MAX, &p, &len);

	if (r == -ENOENT)
		return 0;
	if (r == 0)
		r = img_file_open_mem(p, len, &m.f, NULL);
	if (r == 0) {
		sbuf_init(&m.name, 1 << 17);
		r = img_symbols(m.f, mini_symbol, &m) < 0 ? -EINVAL : 0;
		sbuf_done(&m.name);
	}
	img_file_free(m.f);
	free(p);
	return r;
}

static int debug(const struct sym_find_options *o, const char *path, const char *root, int root_fd)
{
	static const char *const kinds[] = {"none", "build-id", "debuglink", "refused"};
	_cleanup_(img_file_freep) struct img_file *f = NULL, *d = NULL;
	_cleanup_close_ int fd = -EBADF, debug_fd = -EBADF, alt_fd = -EBADF, dwp_fd = -EBADF;
	_cleanup_free_ char *debug_path = NULL;
	struct sym_find_stats stats = {0};
	char full[PATH_MAX];
	int r, kind;

	snprintf(full, sizeof(full), "%s%s", root, path);
	fd = open(full, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return fail(full, -errno);
	r = img_file_open(fd, &f, NULL);
	if (r < 0)
		return fail(full, r);
	kind = sym_find_debug(o, &stats, f, path, root_fd, &debug_fd, &debug_path);
	if (kind < 0)
		return fail(full, kind);
	printf("debug %s", kinds[kind]);
	print_fd("", debug_fd);
	if (debug_fd >= 0) {
		r = img_file_open(debug_fd, &d, NULL);
		if (r == 0)
			r = sym_find_alt(o, &stats, d, debug_path, root_fd, &alt_fd);
		if (r < 0)
			return fail(debug_path, r);
	}
	print_fd("alt", alt_fd);
	r = sym_find_dwp(o, &stats, path, root_fd, &dwp_fd);
	if (r == 0 && debug_path)
		r = sym_find_dwp(o, &stats, debug_path, root_fd, &dwp_fd);
	if (r < 0)
		return fail(path, r);
	print_fd("dwp", dwp_fd);
	print_stats(&stats);
	r = mini(f);
	return r < 0 ? fail("mini", r) : 0;
}

int main(int argc, char **argv)
{
	bool is_dwo = argc > 1 && strcmp(argv[1], "dwo") == 0;
	_cleanup_close_ int root_fd = -EBADF, fd = -EBADF;
	int first = is_dwo ? 5 : 4;
	struct sym_find_options o = {0};
	struct sym_find_stats stats = {0};
	const char *root;

	if (argc < first) {
		fprintf(stderr, "usage: debugfile-driver debug PATH ROOT [DIR…] | "
		                "dwo DIR NAME ROOT [DIR…]\n");
		return 2;
	}
	root = argv[first - 1];
	o.dirs = (const char *const *)&argv[first];
	o.n_dirs = (size_t)(argc - first);
	if (*root) {
		root_fd = open(root, O_PATH | O_DIRECTORY | O_CLOEXEC);
		if (root_fd < 0)
			return fail(root, -errno);
	}
	if (!is_dwo)
		return debug(&o, argv[2], root, root_fd);
	if (sym_find_dwo(&o, &stats, argv[2], argv[3], root_fd, &fd) < 0)
		return fail(argv[3], -ENOMEM);
	print_fd("dwo", fd);
	print_stats(&stats);
	return 0;
}
