/* SPDX-License-Identifier: Apache-2.0 */
/*
 * golines-driver - frames of addresses by .gopclntab
 *   golines-driver [-o] [-q] [-m BYTES] FILE
 * Standard input: lines of hex virtual addresses, with -o file offsets. Output: one line a frame,
 * innermost first: address as given, name, file, line, line of the function; none for an address
 * in no Go function. -m: memory for windows. -q: only {"addresses", "frames", "cpu_ms", "bytes"}.
 */
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <time.h>

#include "gotab/gotab.h"

struct out {
	uint64_t given, frames;
	bool quiet;
};

static int on_frame(void *arg, const struct gotab_frame *f, bool last)
{
	struct out *o = arg;

	assert(f->inlined == !last && f->name);
	o->frames++;
	if (!o->quiet)
		printf("%" PRIx64 "\t%s\t%s\t%" PRIu32 "\t%" PRIu32 "\n", o->given, f->name,
		       f->file ? f->file : "", f->line, f->start_line);
	return 0;
}

static double cpu_ms(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &ts);
	return (double)ts.tv_sec * 1e3 + (double)ts.tv_nsec / 1e6;
}

static int fail(const char *what, int code)
{
	fprintf(stderr, "golines-driver: %s: %s\n", what, err_name(code));
	return 1;
}

int main(int argc, char **argv)
{
	_cleanup_(img_file_freep) struct img_file *f = NULL;
	_cleanup_(gotab_freep) struct gotab *t = NULL;
	_cleanup_(sbuf_done) struct sbuf in;
	VEC(uint64_t) addrs = VEC_INIT(1 << 24);
	_cleanup_close_ int fd = -EBADF;
	struct out out = {0};
	uint64_t max = 8 << 20, v;
	bool offs = false;
	struct cursor c;
	const char *line;
	size_t len;
	double begin;
	int opt, r;

	while ((opt = getopt(argc, argv, "oqm:")) != -1) {
		if (opt == 'o')
			offs = true;
		else if (opt == 'q')
			out.quiet = true;
		else if (opt != 'm' || parse_u64(optarg, 10, &max) < 0)
			return 2;
	}
	sbuf_init(&in, 1 << 28);
	if (optind + 1 != argc)
		return 2;
	r = file_read_fd(STDIN_FILENO, &in);
	if (r < 0)
		return fail("input", r);
	c = cursor_of(in.p, in.len);
	while (cursor_line(&c, &line, &len) == 0) {
		char buf[32];

		if (len >= sizeof(buf))
			return fail("input", -EINVAL);
		memcpy(buf, line, len);
		buf[len] = 0;
		if (parse_u64(buf, 16, &v) < 0 || vec_push(&addrs, v) < 0)
			return fail("input", -EINVAL);
	}
	begin = cpu_ms();
	fd = open(argv[optind], O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return fail(argv[optind], -errno);
	r = img_file_open(fd, &f, NULL);
	if (r == 0)
		r = gotab_open(f, max, &t);
	if (r < 0)
		return fail(argv[optind], r);
	for (size_t i = 0; i < addrs.n; i++) {
		out.given = v = addrs.p[i];
		if (offs && img_off_to_vaddr(f, addrs.p[i], &v) < 0)
			continue;
		r = gotab_resolve(t, v, on_frame, &out);
		if (r < 0 && r != -ENOENT)
			return fail(argv[optind], r);
	}
	if (out.quiet)
		printf("{\"addresses\": %zu, \"frames\": %" PRIu64
		       ", \"cpu_ms\": %.1f, \"bytes\": %zu}\n",
		       addrs.n, out.frames, cpu_ms() - begin, gotab_bytes(t));
	vec_done(&addrs);
	return 0;
}
