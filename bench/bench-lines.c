/* SPDX-License-Identifier: Apache-2.0 */
/*
 * bench-lines here|process|symbols|dwarf FILE [--print] <ADDRESSES: prints one JSON line with the
 * cost of names, lines and inlined calls.
 *
 * ADDRESSES: virtual addresses of FILE in hexadecimal, one a line. They are decoded in this process,
 * by the symbolizer process, from symbol tables alone, or from DWARF alone without demangling. With
 * --print it prints the frames instead, as "name<TAB>file:line", innermost first, with an empty line
 * after each address.
 */
#include <fcntl.h>
#include <stdio.h>
#include <sys/resource.h>
#include <time.h>

#include "dwarf/dwarf.h"
#include "symbolize/symbolize.h"

static double cpu_s(void)
{
	struct timespec ts;

	if (clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &ts) < 0)
		return 0;
	return (double)ts.tv_sec + (double)ts.tv_nsec / 1e9;
}

/* Returns the peak resident memory of a process, VmHWM. */
static uint64_t peak_kb(uint32_t pid)
{
	_cleanup_(sbuf_done) struct sbuf b;
	char path[64];
	const char *p;

	sbuf_init(&b, 64 * 1024);
	(void)snprintf(path, sizeof(path), pid ? "/proc/%u/status" : "/proc/self/status", pid);
	if (file_read_all(AT_FDCWD, path, &b, NULL) < 0)
		return 0;
	p = strstr(b.p, "VmHWM:");
	return p ? strtoull(p + 6, NULL, 10) : 0;
}

typedef VEC(uint64_t) addr_vec;

/* Reads the addresses as file offsets, ascending, without duplicates. */
static int read_addresses(struct img_file *f, addr_vec *ret)
{
	char line[64];
	size_t k = 0;

	ret->max = 1U << 24;
	while (fgets(line, sizeof(line), stdin)) {
		uint64_t off;

		if (img_vaddr_to_off(f, strtoull(line, NULL, 16), &off) < 0)
			continue;
		if (vec_push(ret, off) < 0)
			return -ENOMEM;
	}
	qsort(ret->p, ret->n, sizeof(*ret->p), u64_cmp);
	for (size_t i = 0; i < ret->n; i++) {
		if (k == 0 || ret->p[k - 1] != ret->p[i])
			ret->p[k++] = ret->p[i];
	}
	ret->n = k;
	return 0;
}

static void print(struct img_file *f, const addr_vec *offs, const struct sym_batch *b)
{
	for (size_t i = 0; i < b->n; i++) {
		const struct sym_frame *fr = sym_batch_frames(b, i);
		uint64_t vaddr = 0;

		(void)img_off_to_vaddr(f, offs->p[i],
		                       &vaddr); /* it was made from a virtual address */
		printf("%llx\n", (unsigned long long)vaddr);
		for (uint32_t k = 0; k < b->names[i].n; k++)
			printf("%s\t%s:%u\n", fr[k].linkage, fr[k].file ? fr[k].file : "??",
			       fr[k].line);
		printf("\n");
	}
}

struct counts {
	size_t named, lines, frames;
};

static int count_frame(void *arg, size_t i, const struct dw_frame *f, bool last)
{
	struct counts *c = arg;

	(void)i;
	c->named += last && f->name;
	c->lines += last && f->line;
	c->frames++;
	return 0;
}

/* The work of bench-libdw: DWARF alone. */
static int bench_dwarf(struct img_file *f, addr_vec *offs)
{
	const struct dw_options o = {.max_bytes = (size_t)1 << 30};
	_cleanup_(dw_freep) struct dw_file *d = NULL;
	struct counts c = {0};
	double t0;
	int r;

	for (size_t i = 0; i < offs->n; i++)
		(void)img_off_to_vaddr(f, offs->p[i], &offs->p[i]); /* it came from there */
	t0 = cpu_s();
	r = dw_open(f, &o, &d);
	r = r < 0 ? r : dw_resolve(d, offs->p, offs->n, count_frame, &c);
	if (r < 0)
		return 1;
	printf("{\"mode\":\"dwarf\",\"addresses\":%zu,\"named\":%zu,\"lines\":%zu,"
	       "\"frames\":%zu,\"cpu_s\":%.4f,\"peak_kb\":%llu,\"process_peak_kb\":0}\n",
	       offs->n, c.named, c.lines, c.frames, cpu_s() - t0, (unsigned long long)peak_kb(0));
	return 0;
}

int main(int argc, char **argv)
{
	struct sym_files_options o = {.budget_bytes = (size_t)1 << 30};
	_cleanup_(img_file_freep) struct img_file *f = NULL;
	_cleanup_(sym_batch_done) struct sym_batch b = {0};
	struct sym_source src = {.id = 1, .root_fd = -EBADF};
	struct sym_files *files = NULL;
	size_t named = 0, lines = 0;
	uint64_t here_kb, process_kb = 0;
	addr_vec offs = {0};
	double t0, t1;

	if (argc < 3) {
		fprintf(stderr, "usage: bench-lines here|process|symbols|dwarf FILE [--print] "
		                "<ADDRESSES\n");
		return 2;
	}
	o.in_process = strcmp(argv[1], "process") != 0;
	o.no_lines = strcmp(argv[1], "symbols") == 0;
	src.path = argv[2];
	src.fd = open(argv[2], O_RDONLY | O_CLOEXEC);
	if (src.fd < 0 || img_file_open(src.fd, &f, NULL) < 0 || read_addresses(f, &offs) < 0) {
		fprintf(stderr, "bench-lines: %s: %s\n", argv[2], err_name(errno));
		return 1;
	}
	if (strcmp(argv[1], "dwarf") == 0)
		return bench_dwarf(f, &offs);
	t0 = cpu_s();
	if (sym_files_new(&o, &files) < 0 || sym_files_resolve(files, &src, offs.p, offs.n, &b) < 0)
		return 1;
	t1 = cpu_s() + (double)sym_files_stats(files)->process_cpu_ns / 1e9;
	here_kb = peak_kb(0);
	if (sym_files_pid(files))
		process_kb = peak_kb(sym_files_pid(files));
	for (size_t i = 0; i < b.n; i++) {
		const struct sym_frame *fr = sym_batch_frames(&b, i);

		named += fr != NULL;
		lines += fr && fr->line;
	}
	if (argc > 3 && strcmp(argv[3], "--print") == 0)
		print(f, &offs, &b);
	else
		printf("{\"mode\":\"%s\",\"addresses\":%zu,\"named\":%zu,\"lines\":%zu,"
		       "\"frames\":%zu,\"cpu_s\":%.4f,\"peak_kb\":%llu,\"process_peak_kb\":%llu,"
		       "\"held_kb\":%llu,\"refused\":%llu}\n",
		       argv[1], b.n, named, lines, b.frames.n, t1 - t0, (unsigned long long)here_kb,
		       (unsigned long long)process_kb,
		       (unsigned long long)sym_files_stats(files)->engine.bytes_peak / 1024,
		       (unsigned long long)sym_files_stats(files)->engine.refused);
	sym_files_free(files);
	vec_done(&offs);
	(void)close(src.fd); /* read only */
	return 0;
}
