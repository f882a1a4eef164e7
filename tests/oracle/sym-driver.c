/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sym-driver - our symbolizer on standard input, for tests that compare it with others
 *   sym-driver elf FILE      lines of hex virtual addresses, ascending → "linkage\tname\tstart"
 *   sym-driver kernel [FILE] lines of hex addresses, ascending → the same, from kallsyms
 *   sym-driver demangle      lines of names → as they would be shown
 * What has no name gives "-\t<reason>". The address of ELF is a virtual one: it goes through file
 * offsets, as samples do; start is a file offset.
 */
#include <fcntl.h>
#include <stdio.h>

#include "jitcode/jitcode.h"
#include "ksyms/ksyms.h"
#include "symbolize/symbolize.h"

static int fail(const char *what, int code)
{
	fprintf(stderr, "sym-driver: %s: %s\n", what, err_name(code));
	return 1;
}

static void print(const struct sym_batch *b, size_t i)
{
	const struct sym_frame *f = sym_batch_frames(b, i);

	if (f)
		printf("%s\t%s\t%lx\n", f->linkage, f->name, b->names[i].start);
	else
		printf("-\t%s\n", ev_reason_name(b->names[i].reason));
}

typedef VEC(uint64_t) addr_vec;

static int read_addrs(const struct sbuf *in, addr_vec *ret)
{
	struct cursor c = cursor_of(in->p, in->len);
	const char *line;
	size_t len;
	uint64_t v;
	char buf[32];
	int r = 0;

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

static int vaddr_to_off(const struct img_file *f, uint64_t vaddr, uint64_t *ret)
{
	const struct img_segment *segs;
	size_t n = img_segments(f, &segs);

	for (size_t i = 0; i < n; i++) {
		if (segs[i].exec && vaddr >= segs[i].vaddr &&
		    vaddr - segs[i].vaddr < segs[i].file_size) {
			*ret = segs[i].off + (vaddr - segs[i].vaddr);
			return 0;
		}
	}
	return -ENOENT;
}

static int elf(const char *path, const addr_vec *vaddrs)
{
	_cleanup_(img_file_freep) struct img_file *f = NULL;
	_cleanup_(sym_batch_done) struct sym_batch b = {0};
	_cleanup_free_ uint64_t *offs = NULL;
	_cleanup_close_ int fd = -EBADF;
	struct err err = {0};
	int r;

	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return fail(path, -errno);
	r = img_file_open(fd, &f, &err);
	if (r < 0)
		return fail(err.msg, r);
	offs = calloc(vaddrs->n + 1, sizeof(*offs));
	if (!offs)
		return fail(path, -ENOMEM);
	for (size_t i = 0; i < vaddrs->n; i++) {
		if (vaddr_to_off(f, vaddrs->p[i], &offs[i]) < 0)
			return fail("address outside executable segments", -ERANGE);
	}
	r = sym_elf_resolve(f, offs, vaddrs->n, &b);
	if (r < 0)
		return fail(path, r);
	for (size_t i = 0; i < b.n; i++)
		print(&b, i);
	return 0;
}

static int kernel(const char *path, const addr_vec *addrs)
{
	_cleanup_(ksyms_freep) struct ksyms *k = NULL;
	_cleanup_(sym_batch_done) struct sym_batch b = {0};
	struct err err = {0};
	int r;

	r = ksyms_load(path, &k, &err);
	if (r == -EPERM)
		return 77; /* hidden addresses: the caller skips */
	if (r < 0)
		return fail(err.msg, r);
	r = ksyms_resolve(k, addrs->p, addrs->n, &b);
	if (r < 0)
		return fail(path, r);
	for (size_t i = 0; i < b.n; i++)
		print(&b, i);
	return 0;
}

static int demangle(struct sbuf *in)
{
	_cleanup_(sbuf_done) struct sbuf name, out;
	struct cursor c = cursor_of(in->p, in->len);
	const char *line;
	size_t len;

	sbuf_init(&name, 1 << 20);
	sbuf_init(&out, 1 << 20);
	while (cursor_line(&c, &line, &len) == 0) {
		sbuf_reset(&name);
		sbuf_reset(&out);
		if (sbuf_add(&name, line, len) < 0)
			return fail("line too long", name.err);
		puts(len == 0 ? "" : sym_demangle(name.p, &out) == 0 ? out.p : name.p);
	}
	return 0;
}

int main(int argc, char **argv)
{
	_cleanup_(sbuf_done) struct sbuf in;
	addr_vec addrs = VEC_INIT(1 << 24);
	int r;

	sbuf_init(&in, 256 << 20);
	if (argc < 2 || (strcmp(argv[1], "elf") == 0 && argc < 3)) {
		fprintf(stderr, "usage: sym-driver elf FILE|kernel [FILE]|demangle\n");
		return 2;
	}
	r = file_read_fd(STDIN_FILENO, &in);
	if (r < 0)
		return fail("standard input", r);
	if (strcmp(argv[1], "demangle") == 0)
		return demangle(&in);
	r = read_addrs(&in, &addrs);
	if (r < 0)
		r = fail("standard input", r);
	else if (strcmp(argv[1], "elf") == 0)
		r = elf(argv[2], &addrs);
	else
		r = kernel(argc > 2 ? argv[2] : NULL, &addrs);
	vec_done(&addrs);
	return r;
}
