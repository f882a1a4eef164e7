/* SPDX-License-Identifier: Apache-2.0 */
/*
 * bench-libdw here|confined|scopes FILE [--print] <ADDRESSES - lines and inlined calls by libdw
 *
 * The peer of bench-lines: the same addresses, the same output. libdw opens the file once, addresses
 * are sorted, and each unit is decoded once: its line table by dwarf_getsrc_die, its functions and
 * inlined calls by one walk over its entries for all of its addresses. "confined" does that in a
 * process that is confined as perf-agent's symbolizer process is. "scopes" asks dwarf_getscopes and
 * dwarf_getscopes_die for each address instead, as eu-addr2line does: they walk the unit each time.
 *
 * Not done here, but by bench-lines: names of symbol tables, and demangling.
 */
#include <dwarf.h>
#include <elfutils/libdw.h>
#include <elfutils/libdwfl.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>

#include "symbolize/sym_wire.h"

#define DEPTH_MAX    256
#define BUDGET_BYTES ((size_t)1280 << 20) /* bench-lines' budget, with the base of its process */

typedef VEC(uint64_t) addr_vec;

/* A function or an inlined call with a wanted address. */
struct node {
	Dwarf_Die die;
	int parent; /* index of what it was inlined into; -1: a function */
};

struct bench {
	Dwfl *dwfl;
	Dwfl_Module *mod;
	Dwarf_Addr bias; /* of the addresses of mod */
	bool scopes, print;
	addr_vec addrs; /* ascending, unique */
	/* of the current unit */
	const uint64_t *unit_addrs; /* unit_addrs[n] */
	size_t n;
	int *leaf; /* leaf[n]: innermost node, or -1 */
	VEC(struct node) nodes;
};

/* Results of the decoding process. */
struct report {
	uint64_t addresses, named, lines, frames;
	double cpu_s;
};

static double cpu_s(void)
{
	struct timespec ts;

	if (clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &ts) < 0)
		return 0;
	return (double)ts.tv_sec + (double)ts.tv_nsec / 1e9;
}

/* A line of /proc/PID/status in KiB: VmHWM (most memory that was resident), RssAnon. */
static uint64_t status_kb(pid_t pid, const char *key)
{
	_cleanup_(sbuf_done) struct sbuf b;
	char path[64];
	const char *p;

	sbuf_init(&b, 64 * 1024);
	(void)snprintf(path, sizeof(path), "/proc/%d/status", (int)pid);
	if (file_read_all(AT_FDCWD, path, &b, NULL) < 0)
		return 0;
	p = strstr(b.p, key);
	return p ? strtoull(p + strlen(key), NULL, 10) : 0;
}

struct memory {
	uint64_t peak_kb; /* with the pages of the file that were touched */
	uint64_t anon_kb; /* at the end: what libdw decoded and holds */
};

static struct memory memory_of(pid_t pid)
{
	return (struct memory){.peak_kb = status_kb(pid, "VmHWM:"),
	                       .anon_kb = status_kb(pid, "RssAnon:")};
}

static int read_addresses(addr_vec *ret)
{
	char line[64];
	size_t k = 0;

	ret->max = 1U << 24;
	while (fgets(line, sizeof(line), stdin)) {
		if (vec_push(ret, strtoull(line, NULL, 16)) < 0)
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

/* ---- functions of a unit ---------------------------------------------------------------------- */

/* Makes @node the innermost one of the addresses in the ranges of @die: how many there are. */
static size_t cover(struct bench *b, Dwarf_Die *die, int node)
{
	Dwarf_Addr base, lo, hi;
	ptrdiff_t off = 0;
	size_t n = 0;

	while ((off = dwarf_ranges(die, off, &base, &lo, &hi)) > 0) {
		for (size_t i = bisect_first(k, 0, b->n, b->unit_addrs[k] >= lo);
		     i < b->n && b->unit_addrs[i] < hi; i++, n++)
			if (node >= 0)
				b->leaf[i] = node;
	}
	return n;
}

/* Walks the children of @parent, and below those that have wanted addresses. */
static int walk(struct bench *b, Dwarf_Die *parent, int node, size_t depth)
{
	Dwarf_Die die;
	int r;

	if (depth == DEPTH_MAX || dwarf_child(parent, &die) != 0)
		return 0;
	do {
		const int tag = dwarf_tag(&die);
		int child = node;

		switch (tag) {
		case DW_TAG_subprogram:
		case DW_TAG_inlined_subroutine:
			if (cover(b, &die, -1) == 0)
				continue;
			r = vec_push(&b->nodes, (struct node){.die = die, .parent = node});
			if (r < 0)
				return r;
			child = (int)b->nodes.n - 1;
			if (tag == DW_TAG_subprogram)
				b->nodes.p[child].parent = -1;
			(void)cover(b, &die, child); /* counted above */
			break;
		case DW_TAG_lexical_block:
			if (cover(b, &die, -1) == 0)
				continue;
			break;
		case DW_TAG_namespace:
			break;
		default: /* types, variables, declarations */
			continue;
		}
		r = walk(b, &die, child, depth + 1);
		if (r < 0)
			return r;
	} while (dwarf_siblingof(&die, &die) == 0);
	return 0;
}

/* The same for one address by libdw's own look-ups: the innermost scope, then those around it. */
static int find_scopes(struct bench *b, Dwarf_Die *cu, size_t i)
{
	Dwarf_Die *innermost = NULL, *scopes = NULL;
	int n = dwarf_getscopes(cu, b->unit_addrs[i], &innermost);
	int parent = -1, r = 0;

	if (n > 0)
		n = dwarf_getscopes_die(innermost, &scopes);
	for (int k = n - 1; k >= 0 && r == 0; k--) {
		const int tag = dwarf_tag(&scopes[k]);

		if (tag != DW_TAG_subprogram && tag != DW_TAG_inlined_subroutine)
			continue;
		r = vec_push(&b->nodes,
		             (struct node){.die = scopes[k],
		                           .parent = tag == DW_TAG_subprogram ? -1 : parent});
		parent = (int)b->nodes.n - 1;
	}
	b->leaf[i] = parent;
	free(innermost);
	free(scopes);
	return r;
}

/* ---- frames ----------------------------------------------------------------------------------- */

static const char *name_of(Dwarf_Die *die)
{
	static const unsigned int attrs[] = {DW_AT_linkage_name, DW_AT_MIPS_linkage_name,
	                                     DW_AT_name};
	Dwarf_Attribute attr;
	const char *s;

	for (size_t i = 0; i < ARRAY_SIZE(attrs); i++) {
		s = dwarf_formstring(dwarf_attr_integrate(die, attrs[i], &attr));
		if (s)
			return s;
	}
	return NULL;
}

static uint64_t number_of(Dwarf_Die *die, unsigned int what)
{
	Dwarf_Attribute attr;
	Dwarf_Word v = 0;

	return dwarf_formudata(dwarf_attr(die, what, &attr), &v) == 0 ? v : 0;
}

static void add_frame(const struct bench *b, struct report *ret, const char *name, const char *file,
                      uint64_t line)
{
	ret->frames++;
	if (b->print)
		printf("%s\t%s:%llu\n", name ? name : "??", file ? file : "??",
		       (unsigned long long)line);
}

static void frames_of(struct bench *b, Dwarf_Die *cu, size_t i, struct report *ret)
{
	Dwarf_Line *row = dwarf_getsrc_die(cu, b->unit_addrs[i]);
	const char *file = row ? dwarf_linesrc(row, NULL, NULL) : NULL;
	Dwarf_Files *files = NULL;
	size_t n_files;
	int line = 0;

	if (row)
		(void)dwarf_lineno(row, &line);        /* 0 if it has none */
	(void)dwarf_getsrcfiles(cu, &files, &n_files); /* NULL if there are none */
	ret->lines += line > 0;
	ret->named += b->leaf[i] >= 0;
	if (b->print)
		printf("%llx\n", (unsigned long long)b->unit_addrs[i]);
	for (int id = b->leaf[i]; id >= 0; id = b->nodes.p[id].parent) {
		Dwarf_Die *die = &b->nodes.p[id].die;

		add_frame(b, ret, name_of(die), file, (uint64_t)line);
		if (b->nodes.p[id].parent < 0)
			break;
		file = files ? dwarf_filesrc(files, number_of(die, DW_AT_call_file), NULL, NULL)
		             : NULL;
		line = (int)number_of(die, DW_AT_call_line);
	}
	if (b->print)
		printf("\n");
}

static int resolve_unit(struct bench *b, Dwarf_Die *cu, struct report *ret)
{
	int r = 0;

	b->nodes.n = 0;
	b->nodes.max = 1U << 24;
	b->leaf = reallocarray(b->leaf, b->n, sizeof(*b->leaf));
	if (!b->leaf)
		return -ENOMEM;
	for (size_t i = 0; i < b->n; i++)
		b->leaf[i] = -1;
	if (!b->scopes)
		r = walk(b, cu, -1, 0);
	for (size_t i = 0; i < b->n && r == 0; i++) {
		if (b->scopes)
			r = find_scopes(b, cu, i);
		if (r == 0)
			frames_of(b, cu, i, ret);
	}
	return r;
}

/* ---- the file --------------------------------------------------------------------------------- */

static int no_debug_file(Dwfl_Module *mod, void **user, const char *name, Dwarf_Addr base,
                         const char *path, const char *link, GElf_Word crc, char **ret)
{
	(void)mod, (void)user, (void)name, (void)base, (void)path, (void)link, (void)crc, (void)ret;
	return -1; /* the file has its debug information itself */
}

/* @fd becomes libdw's. */
static int open_file(struct bench *b, const char *path, int fd)
{
	static const Dwfl_Callbacks callbacks = {
	        .find_debuginfo = no_debug_file,
	        .section_address = dwfl_offline_section_address,
	};

	b->dwfl = dwfl_begin(&callbacks);
	if (!b->dwfl)
		return -ENOMEM;
	b->mod = dwfl_report_offline(b->dwfl, path, path, fd);
	(void)dwfl_report_end(b->dwfl, NULL, NULL); /* there was no module before */
	return b->mod && dwfl_module_getdwarf(b->mod, &b->bias) ? 0 : -ENOEXEC;
}

struct place {
	Dwarf_Off unit; /* of the unit's entry; 0: none */
	uint64_t addr;
};

static int by_unit(const void *pa, const void *pb)
{
	const struct place *a = pa, *b = pb;

	if (a->unit != b->unit)
		return a->unit < b->unit ? -1 : 1;
	return (a->addr > b->addr) - (a->addr < b->addr);
}

static int resolve(struct bench *b, const char *path, int fd, struct report *ret)
{
	const double t0 = cpu_s();
	_cleanup_free_ struct place *places = calloc(b->addrs.n + 1, sizeof(*places));
	_cleanup_free_ uint64_t *sorted = calloc(b->addrs.n + 1, sizeof(*sorted));
	Dwarf_Addr bias;
	size_t end;
	int r = places && sorted ? open_file(b, path, fd) : -ENOMEM;

	for (size_t i = 0; i < b->addrs.n && r == 0; i++) {
		Dwarf_Die *cu = dwfl_module_addrdie(b->mod, b->addrs.p[i] + b->bias, &bias);

		places[i] =
		        (struct place){.unit = cu ? dwarf_dieoffset(cu) : 0, .addr = b->addrs.p[i]};
	}
	if (r == 0)
		qsort(places, b->addrs.n, sizeof(*places), by_unit);
	for (size_t i = 0; i < b->addrs.n; i++)
		sorted[i] = places[i].addr;
	for (size_t i = 0; i < b->addrs.n && r == 0; i = end) {
		Dwarf_Die cu;

		for (end = i; end < b->addrs.n && places[end].unit == places[i].unit;)
			end++;
		b->unit_addrs = sorted + i;
		b->n = end - i;
		if (places[i].unit &&
		    dwarf_offdie(dwfl_module_getdwarf(b->mod, &bias), places[i].unit, &cu))
			r = resolve_unit(b, &cu, ret);
	}
	ret->addresses = b->addrs.n;
	ret->cpu_s = cpu_s() - t0;
	return r;
}

static void bench_done(struct bench *b)
{
	if (b->dwfl)
		dwfl_end(b->dwfl);
	vec_done(&b->addrs);
	vec_done(&b->nodes);
	free(b->leaf);
}

/* ---- the confined process --------------------------------------------------------------------- */

static _Noreturn void serve(struct bench *b, const char *path, int sock)
{
	struct sym_wire_head h = {0};
	struct report rep = {0};
	int fds[SYM_WIRE_FDS];
	char go;
	int r = sym_confine(sock, BUDGET_BYTES);

	if (r == 0)
		r = sym_wire_recv_head(0, &h, fds);
	if (r == 0)
		r = resolve(b, path, fds[0], &rep);
	if (r == 0 && send(0, &rep, sizeof(rep), 0) == sizeof(rep))
		(void)!recv(0, &go, 1, 0); /* until the parent has read this process's memory */
	_exit(r == 0 ? 0 : 1);
}

static int resolve_confined(struct bench *b, const char *path, int fd, struct report *ret,
                            struct memory *ret_mem)
{
	const double t0 = cpu_s();
	struct sym_wire_head h = {.type = SYM_WIRE_OPENED};
	int pair[2], r;
	pid_t pid;

	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) < 0)
		return -errno;
	pid = fork();
	if (pid == 0)
		serve(b, path, pair[1]);
	(void)close(pair[1]); /* the child's */
	if (pid < 0)
		return -EAGAIN;
	r = sym_wire_send_head(pair[0], &h, (const int[SYM_WIRE_FDS]){fd, -EBADF, -EBADF});
	if (r == 0)
		r = sym_wire_recv(pair[0], ret, sizeof(*ret));
	*ret_mem = memory_of(pid);
	ret->cpu_s += cpu_s() - t0;
	(void)close(pair[0]);
	(void)close(fd);
	(void)waitpid(pid, NULL, 0); /* it has no other parent */
	return r;
}

int main(int argc, char **argv)
{
	_cleanup_(bench_done) struct bench b = {0};
	struct report rep = {0};
	struct memory mem = {0};
	bool confined;
	int fd, r;

	if (argc < 3) {
		fprintf(stderr,
		        "usage: bench-libdw here|confined|scopes FILE [--print] <ADDRESSES\n");
		return 2;
	}
	confined = strcmp(argv[1], "confined") == 0;
	b.scopes = strcmp(argv[1], "scopes") == 0;
	b.print = argc > 3 && strcmp(argv[3], "--print") == 0 && !confined;
	fd = open(argv[2], O_RDONLY | O_CLOEXEC);
	r = fd < 0 ? -errno : read_addresses(&b.addrs);
	if (r == 0)
		r = confined ? resolve_confined(&b, argv[2], fd, &rep, &mem)
		             : resolve(&b, argv[2], fd, &rep);
	if (r < 0) {
		fprintf(stderr, "bench-libdw: %s: %s\n", argv[2], err_name(-r));
		return 1;
	}
	if (!confined)
		mem = memory_of(getpid());
	if (!b.print)
		printf("{\"mode\":\"%s\",\"addresses\":%llu,\"named\":%llu,\"lines\":%llu,"
		       "\"frames\":%llu,\"cpu_s\":%.4f,\"peak_kb\":%llu,\"anon_kb\":%llu}\n",
		       argv[1], (unsigned long long)rep.addresses, (unsigned long long)rep.named,
		       (unsigned long long)rep.lines, (unsigned long long)rep.frames, rep.cpu_s,
		       (unsigned long long)mem.peak_kb, (unsigned long long)mem.anon_kb);
	return 0;
}
