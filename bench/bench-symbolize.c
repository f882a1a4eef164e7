/* SPDX-License-Identifier: Apache-2.0 */
/*
 * bench-symbolize ELF [ADDRESSES]: prints one JSON line with the cost of symbolizing addresses of
 * one image. The addresses are the middles of symbols, spread evenly over the tables.
 *
 * bench-symbolize kernel: the cost of reading /proc/kallsyms, of the kernel's part of it (reading
 * without parsing), and of perf-agent's cache of it, in a temporary folder.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "ksyms/ksyms.h"
#include "symbolize/symbolize.h"

static double cpu_s(void)
{
	struct timespec ts;

	if (clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &ts) < 0)
		return 0;
	return (double)ts.tv_sec + (double)ts.tv_nsec / 1e9;
}

static long peak_kb(void)
{
	struct rusage ru;

	return getrusage(RUSAGE_SELF, &ru) < 0 ? 0 : ru.ru_maxrss;
}

static int bench_kernel(void)
{
	_cleanup_(ksyms_freep) struct ksyms *k = NULL;
	_cleanup_close_ int fd = -EBADF;
	static char buf[64 * 1024];
	char home[] = "/tmp/bench-kallsyms-XXXXXX", path[64];
	struct ksyms_options o = {.cache_home = home, .uid = geteuid()};
	struct ksyms *cached = NULL;
	enum ksyms_cache wrote, used;
	struct err err = {0};
	double t0, t1, t2, t3, t4;
	long kb;

	fd = open("/proc/kallsyms", O_RDONLY | O_CLOEXEC);
	t0 = cpu_s();
	while (fd >= 0 && read(fd, buf, sizeof(buf)) > 0)
		;
	t1 = cpu_s();
	kb = peak_kb();
	if (ksyms_load(NULL, &k, &err) < 0) {
		fprintf(stderr, "bench-symbolize: %s\n", err.msg);
		return 1;
	}
	t2 = cpu_s();
	kb = peak_kb() - kb;
	if (!mkdtemp(home) || ksyms_load_cached(&o, &cached, &wrote, &err) < 0)
		return 1;
	cached = ksyms_free(cached);
	t3 = cpu_s();
	if (ksyms_load_cached(&o, &cached, &used, &err) < 0)
		return 1;
	t4 = cpu_s();
	(void)snprintf(path, sizeof(path), "%s/perf-agent/kallsyms.cache", home);
	(void)unlink(path); /* a leftover would be in /tmp */
	(void)snprintf(path, sizeof(path), "%s/perf-agent", home);
	(void)rmdir(path);
	(void)rmdir(home);
	printf("{\"bench\":\"kallsyms\",\"symbols\":%zu,\"read_cpu_s\":%.4f,\"load_cpu_s\":%.4f,"
	       "\"load_and_write_cpu_s\":%.4f,\"cached\":%s,\"cached_cpu_s\":%.4f,"
	       "\"held_kb\":%zu,\"peak_kb\":%ld}\n",
	       ksyms_cnt(k), t1 - t0, t2 - t1, t3 - t2,
	       wrote == KSYMS_CACHE_WRITTEN && used == KSYMS_CACHE_USED ? "true" : "false", t4 - t3,
	       ksyms_bytes(k) / 1024, kb);
	(void)ksyms_free(cached);
	return 0;
}

struct spread {
	const struct img_segment *segs;
	size_t n_segs;
	uint64_t *offs;
	uint64_t n, max, seen, total;
};

static void take(void *arg, const struct img_symbol *sym)
{
	struct spread *s = arg;
	uint64_t vaddr = sym->value + sym->size / 2;

	if (s->seen++ * s->max / s->total < s->n || s->n == s->max)
		return;
	for (size_t i = 0; i < s->n_segs; i++) {
		const struct img_segment *g = &s->segs[i];

		if (g->exec && vaddr >= g->vaddr && vaddr - g->vaddr < g->file_size) {
			s->offs[s->n++] = vaddr - g->vaddr + g->off;
			return;
		}
	}
}

static void count_only(void *arg, const struct img_symbol *sym)
{
	(void)arg;
	(void)sym;
}

/* Fills offs with the middles of up to n symbols, spread over the tables; returns their number. */
static size_t spread(struct img_file *f, uint64_t *offs, size_t n)
{
	struct spread s = {.offs = offs, .max = n};
	ssize_t total = img_symbols(f, count_only, NULL);
	size_t k = 0;

	if (total <= 0)
		return 0;
	s.total = (uint64_t)total;
	s.n_segs = img_segments(f, &s.segs);
	(void)img_symbols(f, take, &s); /* the same call has just succeeded */
	qsort(offs, s.n, sizeof(*offs), u64_cmp);
	for (size_t i = 0; i < s.n; i++) {
		if (k == 0 || offs[k - 1] != offs[i])
			offs[k++] = offs[i];
	}
	return k;
}

int main(int argc, char **argv)
{
	_cleanup_(img_file_freep) struct img_file *f = NULL;
	_cleanup_(sym_batch_done) struct sym_batch b = {0};
	_cleanup_free_ uint64_t *offs = NULL;
	_cleanup_close_ int fd = -EBADF;
	uint64_t n = 20000;
	struct err err = {0};
	size_t named = 0;
	double t0, t1;
	long kb;

	if (argc < 2 || (argc > 2 && parse_u64(argv[2], 10, &n) < 0) || n == 0) {
		fprintf(stderr, "usage: bench-symbolize ELF|kernel [ADDRESSES]\n");
		return 2;
	}
	if (strcmp(argv[1], "kernel") == 0)
		return bench_kernel();
	fd = open(argv[1], O_RDONLY | O_CLOEXEC);
	offs = calloc(n, sizeof(*offs));
	if (fd < 0 || !offs) {
		fprintf(stderr, "bench-symbolize: %s: %s\n", argv[1], err_name(errno));
		return 1;
	}
	if (img_file_open(fd, &f, &err) < 0) {
		fprintf(stderr, "bench-symbolize: %s: %s\n", argv[1], err.msg);
		return 1;
	}
	n = spread(f, offs, n);
	f = img_file_free(f);
	kb = peak_kb();
	t0 = cpu_s();
	if (img_file_open(fd, &f, &err) < 0) /* again: opening is part of the cost */
		return 1;
	if (sym_elf_resolve(f, offs, n, &b) < 0)
		return 1;
	t1 = cpu_s();
	for (size_t i = 0; i < b.n; i++)
		named += b.names[i].reason == EV_REASON_NAMED;
	printf("{\"bench\":\"symbolize\",\"addresses\":%zu,\"named\":%zu,\"cpu_s\":%.4f,"
	       "\"strings_kb\":%zu,\"peak_kb\":%ld}\n",
	       b.n, named, t1 - t0, b.strings.used_bytes / 1024, peak_kb() - kb);
	return 0;
}
