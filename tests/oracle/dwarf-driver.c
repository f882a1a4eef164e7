/* SPDX-License-Identifier: Apache-2.0 */
/*
 * dwarf-driver - our reading of DWARF, for tests that compare it with others
 *   dwarf-driver FILE [alt=FILE] [dwp=FILE] [max_bytes=N] [max_steps=N]
 * Standard input: lines of hex virtual addresses, ascending. One line a frame, innermost first:
 *   index, f(unction) or i(nlined), linkage name, name, file, line, column, first line; tabs
 *   between them, "" for what is not known
 * and at the end "# " with what was refused.
 */
#include <fcntl.h>
#include <stdio.h>

#include "dwarf/dwarf.h"

static int fail(const char *what, int code)
{
	fprintf(stderr, "dwarf-driver: %s: %s\n", what, err_name(code));
	return 1;
}

static int print(void *arg, size_t i, const struct dw_frame *f, bool last)
{
	const uint64_t *addrs = arg;

	(void)last;
	printf("%lx\t%c\t%s\t%s\t%s\t%u\t%u\t%u\n", addrs[i], f->inlined ? 'i' : 'f',
	       f->linkage ? f->linkage : "", f->name ? f->name : "", f->file ? f->file : "",
	       f->line, f->column, f->start_line);
	return 0;
}

static int open_dwo(void *arg, const char *dir, const char *name, int *ret_fd)
{
	_cleanup_(sbuf_done) struct sbuf path;
	int fd;

	(void)arg;
	sbuf_init(&path, 4096);
	if (name[0] != '/') {
		(void)sbuf_str(&path, dir);
		(void)sbuf_char(&path, '/');
	}
	if (sbuf_str(&path, name) < 0)
		return path.err;
	fd = open(path.p, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return -ENOENT;
	*ret_fd = fd;
	return 0;
}

struct file {
	int fd;
	struct img_file *f;
};

static void file_done(struct file *f)
{
	img_file_freep(&f->f);
	closep(&f->fd);
}

static int file_open(struct file *f, const char *path)
{
	struct err err = {0};
	int r;

	f->fd = open(path, O_RDONLY | O_CLOEXEC);
	if (f->fd < 0)
		return fail(path, -errno);
	r = img_file_open(f->fd, &f->f, &err);
	return r < 0 ? fail(err.msg, r) : 0;
}

typedef VEC(uint64_t) addr_vec;

static int read_addrs(addr_vec *ret)
{
	_cleanup_(sbuf_done) struct sbuf in;
	struct cursor c;
	const char *line;
	size_t len;
	uint64_t v;
	char buf[32];
	int r;

	sbuf_init(&in, 64 << 20);
	r = file_read_fd(STDIN_FILENO, &in);
	c = cursor_of(in.p, in.len);
	while (r == 0 && cursor_line(&c, &line, &len) == 0) {
		if (len >= sizeof(buf))
			return -EINVAL;
		memcpy(buf, line, len);
		buf[len] = 0;
		r = parse_u64(buf, 16, &v);
		if (r == 0)
			r = vec_push(ret, v);
	}
	return r;
}

static int run(const char *path, struct dw_options *o, const addr_vec *addrs)
{
	_cleanup_(file_done) struct file f = {.fd = -EBADF};
	_cleanup_(dw_freep) struct dw_file *d = NULL;
	const struct dw_stats *s;
	int r = file_open(&f, path);

	if (r)
		return r;
	r = dw_open(f.f, o, &d);
	if (r < 0)
		return fail(path, r);
	r = dw_resolve(d, addrs->p, addrs->n, print, addrs->p);
	if (r < 0)
		return fail("dw_resolve", r);
	s = dw_stats(d);
	printf("# bad %lu unsupported %lu over_limit %lu over_steps %lu dwo_missing %lu bytes "
	       "%zu\n",
	       s->bad, s->unsupported, s->over_limit, s->over_steps, s->dwo_missing, dw_bytes(d));
	return 0;
}

int main(int argc, char **argv)
{
	_cleanup_(file_done) struct file alt = {.fd = -EBADF}, dwp = {.fd = -EBADF};
	struct dw_options o = {.open_dwo = open_dwo};
	addr_vec addrs = VEC_INIT(1 << 24);
	uint64_t v;
	int r = 0;

	if (argc < 2) {
		fprintf(stderr, "usage: dwarf-driver FILE [alt=FILE] [dwp=FILE] [max_bytes=N] "
		                "[max_steps=N]\n");
		return 2;
	}
	for (int i = 2; r == 0 && i < argc; i++) {
		const char *value = strchr(argv[i], '=');

		value = value ? value + 1 : "";
		if (str_starts(argv[i], "alt="))
			r = file_open(&alt, value);
		else if (str_starts(argv[i], "dwp="))
			r = file_open(&dwp, value);
		else if (parse_u64(value, 10, &v) < 0)
			r = fail(argv[i], -EINVAL);
		else if (str_starts(argv[i], "max_bytes="))
			o.max_bytes = (size_t)v;
		else
			o.max_steps = v;
	}
	if (r)
		return r;
	o.alt = alt.f;
	o.dwp = dwp.f;
	r = read_addrs(&addrs);
	r = r < 0 ? fail("standard input", r) : run(argv[1], &o, &addrs);
	vec_done(&addrs);
	return r;
}
