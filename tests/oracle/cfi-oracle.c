/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cfi-oracle - rows of our reader of call-frame information against those of libdw
 *
 *   cfi-oracle [-v] PATH…   files, and folders with everything below them
 *   cfi-oracle --default    some libraries and programs that a Debian machine has
 *
 * Of every ELF file of this machine's processor, every row of every function is compared twice. It
 * is not how rules are written that is compared but what comes out of them, over registers and
 * memory of random content.
 *   rules   what our reader makes of each function: the CFA, the return address and every general
 *           register must be found in the same place.
 *   steps   what the kernel walks by: the file's table as uw_table_build makes it of all sources,
 *           packed into words, looked up there, and the code that is found there done by uw_step.
 *           The caller's pc, stack pointer and registers must have the same values.
 * Not every step may be that of libdw's row, and those that differ are counted by the reason, see
 * enum laid_over.
 * Prints a line for each file with a difference (-v: for each file), then totals.
 * What libdw refuses is counted apart: it finds no CFA where a register follows an expression
 * (libgcrypt has such functions), and ends .debug_frame at a length of 0 (some Go programs have
 * one in the middle).
 * Exit status: 0, 1 there are differences (with --default also: refusals, or bytes that are not
 * understood), 2 usage or no file.
 */
#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <sys/stat.h>
#include <time.h>

#include "cfi_ours.h"

#ifdef ABI_ARM64
#define MACHINE EM_AARCH64
#else
#define MACHINE EM_X86_64
#endif
#define SHOWN_MAX 10 /* differences of one file that are printed */
#define PC_SEEDS  16 /* PLT entries are distinguished by the low bits of the pc */

/* ---- one file -------------------------------------------------------------------------------- */

/* Reasons for which the table has other rows than this source on purpose. They are known from what
 * the
 * sources cover; a step there may differ, and is counted if it does. */
enum laid_over {
	/* Go functions that change stacks: their rows say nothing of the other stack, or call the
	 * return from a signal an ordinary frame. */
	OVER_GO_SPECIAL,
	/* .debug_frame of code that .eh_frame covers, which the table is made of then. */
	OVER_EH_FRAME,
	/* Go's outermost functions: .gopclntab marks them, .debug_frame has a return address. */
	OVER_GO_ROOT,
	OVER_CNT
};
static const char *const over_names[OVER_CNT] = {"Go functions that change stacks",
                                                 ".debug_frame below .eh_frame", "Go's roots"};

struct totals {
	uint64_t files, rows, columns, mismatches, refused, unsupported, bad, functions;
	uint64_t steps, step_values, roots, outside, over[OVER_CNT], go_fp, no_address;
	uint64_t inlines, frames, wides; /* steps by the form of their code */
	bool verbose;
};

struct job {
	const char *path;
	struct packed *packed;
	struct totals *t;
	struct reading rd;
	Dwarf_CFI *cfi;
	bool debug_frame;
	uint64_t rows, columns, mismatches, refused, steps;
};

__attribute__((format(printf, 3, 4))) static void differ(struct job *j, uint64_t at,
                                                         const char *fmt, ...)
{
	va_list ap;

	if (j->mismatches++ >= SHOWN_MAX)
		return;
	printf("%s: %#lx: ", j->path, at);
	va_start(ap, fmt);
	vprintf(fmt, ap);
	va_end(ap);
	printf("\n");
}

/* ---- rules ----------------------------------------------------------------------------------- */

static void compare_rule(struct job *j, Dwarf_Frame *frame, const struct uw_rule *r, uint64_t at,
                         int ra_reg, const struct machine *m)
{
	const struct uw_rules *rules = j->packed->rules;
	uint64_t cfa = 0;
	struct found theirs;
	Dwarf_Op *ops;
	size_t n = 0;

	if (!our_cfa(rules, r, m, &cfa)) {
		differ(j, at, "CFA cannot be evaluated");
		return;
	}
	if (dwarf_frame_cfa(frame, &ops, &n) != 0 || n == 0) {
		j->refused++;
		return;
	}
	theirs = their_expr(ops, n, m, 0);
	if (theirs.place == PLACE_ERROR || theirs.v != cfa) {
		differ(j, at, "CFA %#lx, not %#lx (registers are random)", cfa, theirs.v);
		return;
	}
	for (size_t i = 0; i <= ABI_REGS; i++) {
		struct found ours = our_col(rules, r, i, m, cfa);

#ifdef ABI_ARM64
		if (i == ABI_REG_LR && !r->signal)
			continue; /* no rule has it: the step sets it to the return address */
#endif
		theirs = their_col(frame, i == ABI_COL_RA ? ra_reg : (int)i, m, cfa);
		if (i == ABI_COL_RA && ra_reg < ABI_REGS && theirs.place == PLACE_SAME)
			theirs = (struct found){PLACE_VALUE, m->reg[ra_reg]};
		/* libdw shows a register that nothing was said of as undefined, unless its ABI
		 * defaults name it. */
		if (ours.place == PLACE_SAME && theirs.place == PLACE_UNDEF && i != ABI_COL_RA)
			theirs.place = PLACE_SAME;
		j->columns++;
		if (ours.place != theirs.place || ours.v != theirs.v)
			differ(j, at, "column %zu: %s %#lx, not %s %#lx", i,
			       place_names[ours.place], ours.v - cfa, place_names[theirs.place],
			       theirs.v - cfa);
	}
}

static void compare_frame(struct job *j, Dwarf_Frame *frame, uint16_t code, uint64_t at)
{
	Dwarf_Addr start, end;
	bool signal = false;
	struct machine m;
	struct uw_rule r;
	int ra_reg = dwarf_frame_info(frame, &start, &end, &signal);
	size_t seeds = 1;

	j->rows++;
	machine_init(&m, at, false);
	if (code == ABI_CODE_ROOT) {
		struct found ra = their_col(frame, ra_reg, &m, 0);

		if (ra.place != PLACE_UNDEF && ra.place != PLACE_SAME)
			differ(j, at, "root, but there is a return address");
		return;
	}
	if (uw_rules_expand(j->packed->rules, code, &r) < 0 || r.kind != ABI_RULE_FRAME) {
		differ(j, at, "no rule");
		return;
	}
	if (r.signal != signal)
		differ(j, at, "signal frame %d, not %d", r.signal, signal);
	if (r.cfa_kind == ABI_CFA_PLT || r.cfa_kind == ABI_CFA_EXPR)
		seeds = PC_SEEDS;
	for (size_t i = 0; i < seeds; i++) {
		machine_init(&m, at * PC_SEEDS + i, false);
		compare_rule(j, frame, &r, at, ra_reg, &m);
	}
}

/* ---- steps ----------------------------------------------------------------------------------- */

/* A step that differs, and how: what is NULL if it does not. */
struct wrong {
	const char *what;
	uint64_t ours, theirs;
	uint32_t reg;
};

static struct wrong wrong(const char *what, uint64_t ours, uint64_t theirs, uint32_t reg)
{
	return (struct wrong){what, ours, theirs, reg};
}

/* The value after a place; @same: that of the register in this frame. */
static uint64_t value_of(const struct machine *m, const struct found *f, uint64_t same)
{
	return f->place == PLACE_SAME ? same : f->place == PLACE_MEMORY ? memory(m, f->v) : f->v;
}

/* The caller's value of register @i after our step. */
static struct wrong compare_value(struct job *j, Dwarf_Frame *frame, const struct machine *m,
                                  uint64_t cfa, struct uw_state *u, uint32_t i, bool by_go)
{
	const struct step_mem mem = {uw_rules_mem(j->packed->rules), m};
	const struct found theirs = their_col(frame, (int)i, m, cfa);
	uint64_t want = value_of(m, &theirs, m->reg[i]);
	__u64 got = 0;
	int r = uw_value(u, &mem, i, &got);

	j->t->step_values++;
#ifdef ABI_ARM64
	if (i == ABI_REG_LR && u->exact == 0)
		want = u->pc; /* where the call left it */
#endif
	if (i == ABI_REG_SP && theirs.place == PLACE_SAME)
		want = cfa;
	if (theirs.place == PLACE_ERROR)
		return wrong("libdw's rule cannot be evaluated", 0, 0, i);
	if (theirs.place == PLACE_UNDEF) {
		/* Lost; or nothing was said of it, which libdw does not tell apart. */
		if (r == ABI_WALK_BAD_RULE || (r == 0 && got == m->reg[i]))
			return (struct wrong){0};
		return wrong("undefined register", got, (uint64_t)(int64_t)r, i);
	}
	if (r == 0 && got == want)
		return (struct wrong){0};
	/* Go's .debug_frame never tells where the caller's frame pointer is. */
	if (by_go && i == ABI_REG_FP && r == 0 && theirs.place == PLACE_SAME) {
		j->t->go_fp++;
		return (struct wrong){0};
	}
	return wrong(r ? "no register" : "register", got, want, i);
}

/* One step by this code and one by libdw's row, from the same made-up frame. */
static struct wrong compare_step(struct job *j, Dwarf_Frame *frame, uint16_t code, uint64_t seed,
                                 bool by_go)
{
	struct step_mem mem = {.rules = uw_rules_mem(j->packed->rules)};
	struct found theirs, ra, sp;
	struct machine m;
	struct uw_state u;
	struct wrong w = {0};
	Dwarf_Addr start, end;
	bool signal = false;
	int ra_reg = dwarf_frame_info(frame, &start, &end, &signal), r;
	uint64_t pc, cfa;
	Dwarf_Op *ops;
	size_t n = 0;

	machine_init(&m, seed, true);
	mem.m = &m;
	memset(&u, 0xa5, sizeof(u)); /* nothing but what uw_begin guarantees */
	u.pc = m.reg[ABI_REGS];
	memcpy(u.reg, m.reg, sizeof(u.reg));
	uw_begin(&u);
	/* In every other frame no register was read yet. */
	if (mix(seed / PC_SEEDS) & 1) {
		memcpy(u.reg, m.slot, sizeof(u.reg));
		u.reg[ABI_REG_SP] = m.reg[ABI_REG_SP];
		u.lazy = (__u32)((UINT64_C(1) << ABI_REGS) - 1) & ~(1u << ABI_REG_SP);
	}
	r = code == ABI_CODE_NONE || code == ABI_CODE_BAD ? -1 : uw_step(&u, &mem, code);
	ra = their_col(frame, ra_reg, &m, 0);
	if (ra.place == PLACE_UNDEF || (ra.place == PLACE_SAME && ra_reg >= ABI_REGS)) {
		j->t->roots++;
		return r == ABI_WALK_ROOT ? w : wrong("no root", (uint64_t)(int64_t)r, 0, 0);
	}
	if (dwarf_frame_cfa(frame, &ops, &n) != 0 || n == 0)
		return w; /* counted where rules are compared */
	theirs = their_expr(ops, n, &m, 0);
	cfa = theirs.v;
	ra = their_col(frame, ra_reg, &m, cfa);
	sp = their_col(frame, ABI_REG_SP, &m, cfa);
	if (theirs.place == PLACE_ERROR || ra.place == PLACE_ERROR || sp.place == PLACE_ERROR)
		return wrong("libdw's rule cannot be evaluated", 0, 0, 0);
	pc = value_of(&m, &ra, ra_reg < ABI_REGS ? m.reg[ra_reg] : 0);
	cfa = value_of(&m, &sp, cfa);
	if (pc < UW_USER_MIN || pc >= UW_USER_END || cfa < UW_USER_MIN || cfa >= UW_USER_END) {
		/* Arithmetic that made no address of what it was given. */
		j->t->no_address++;
		return r == ABI_WALK_BAD_PC || r == ABI_WALK_IMPLAUSIBLE
		               ? w
		               : wrong("no address, but a step", (uint64_t)(int64_t)r, 0, 0);
	}
	if (r)
		return wrong("no step", (uint64_t)(int64_t)r, 0, 0);
	if (u.pc != pc)
		return wrong("pc", u.pc, pc, 0);
	if (u.exact != signal)
		return wrong("signal frame", u.exact, signal, 0);
	for (uint32_t i = 0; i < ABI_REGS && !w.what; i++)
		w = compare_value(j, frame, &m, theirs.v, &u, i, by_go);
	return w;
}

static void count_form(struct job *j, uint16_t code)
{
	const struct uw_rules_mem *mem = uw_rules_mem(j->packed->rules);

	j->t->inlines += code >= ABI_CODE_INLINE;
	if (code >= ABI_CODE_FIRST && code < ABI_CODE_INLINE) {
		j->t->frames += mem->rules[code].kind == ABI_RULE_FRAME;
		j->t->wides += mem->rules[code].kind == ABI_RULE_WIDE;
	}
}

/* One row of the table below one of libdw's. */
static void compare_packed_row(struct job *j, Dwarf_Frame *frame, uint16_t code, uint64_t at)
{
	const struct packed *p = j->packed;
	const bool by_go = j->debug_frame && in_spans(&p->go, at);
	struct wrong w = {0};
	size_t seeds = 1, n = 0;
	Dwarf_Op *ops;

	if (dwarf_frame_cfa(frame, &ops, &n) == 0 && n > 1)
		seeds = PC_SEEDS; /* an expression */
	for (size_t i = 0; i < seeds && !w.what; i++)
		w = compare_step(j, frame, code, at * PC_SEEDS + i, by_go);
	if (!w.what) {
		j->steps++;
		count_form(j, code);
	} else if (in_spans(&p->special, at)) {
		j->t->over[OVER_GO_SPECIAL]++;
	} else if (j->debug_frame && in_spans(&p->eh, at)) {
		j->t->over[OVER_EH_FRAME]++;
	} else if (by_go && code == ABI_CODE_ROOT) {
		j->t->over[OVER_GO_ROOT]++;
	} else {
		differ(j, at, "step by code %#x: %s %u: %#lx, not %#lx", code, w.what, w.reg,
		       w.ours, w.theirs);
	}
}

/* All rows of the table below a row of libdw, which governs [at, end). */
static void compare_packed(struct job *j, Dwarf_Frame *frame, uint64_t at, uint64_t end)
{
	const struct packed *p = j->packed;
	uint64_t off, next;
	uint16_t code, last;

	for (; at < end; at = next) {
		if (!p->table || img_vaddr_to_off(p->f, at, &off) < 0) {
			differ(j, at, "no table");
			return;
		}
		next = at + MIN_OF(end - at, row_left(p->table, off));
		if (!packed_code(p, off, &code) || !packed_code(p, off + (next - 1 - at), &last) ||
		    code != last) {
			differ(j, at, "look-ups differ");
			continue;
		}
		compare_packed_row(j, frame, code, at);
	}
}

/* ---- functions ------------------------------------------------------------------------------- */

static bool in_text(const struct job *j, const struct func *f)
{
	const struct img_segment *segs;
	size_t n = img_segments(j->packed->f, &segs);

	for (size_t i = 0; i < n; i++)
		if (segs[i].exec && f->start >= segs[i].vaddr &&
		    f->end - segs[i].vaddr <= segs[i].file_size)
			return true;
	return false;
}

static void compare_function(struct job *j, const struct func *f)
{
	const struct row *row = &j->rd.rows.p[f->first], *last = row + f->n - 1;
	const bool text = in_text(j, f);
	uint64_t at = f->start;

	j->t->outside += !text;
	while (at < f->end) {
		Dwarf_Addr start = at, end = at + 1;
		Dwarf_Frame *frame = NULL;
		bool signal;

		while (row < last && row[1].at <= at)
			row++;
		if (dwarf_cfi_addrframe(j->cfi, at, &frame) != 0) {
			if (row->code != ABI_CODE_BAD)
				j->refused++;
			return;
		}
		(void)dwarf_frame_info(frame, &start, &end, &signal); /* a register number */
		compare_frame(j, frame, row->code, at);
		if (text && end > at)
			compare_packed(j, frame, at, MIN_OF(end, f->end));
		free(frame);
		if (row < last && row[1].at < end && row[1].at > at)
			differ(j, row[1].at, "a row begins here, the other's goes on to %#lx", end);
		if (end <= at)
			return;
		at = end;
	}
}

static uint64_t cpu_ns(void)
{
	struct timespec t = {0};

	(void)clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t); /* every Linux has it */
	return (uint64_t)t.tv_sec * NSEC_PER_SEC + (uint64_t)t.tv_nsec;
}

static int compare_area(struct packed *packed, enum img_area_kind kind, const char *path,
                        Dwarf_CFI *cfi, struct totals *t)
{
	struct job j = {.path = path, .packed = packed, .t = t, .cfi = cfi};
	struct img_file *f = packed->f;
	_cleanup_free_ uint8_t *p = NULL;
	struct img_area area = {0};
	struct uw_area a = {0};
	uint64_t begin_ns = cpu_ns(), took_ns;
	int r = img_area_find(f, kind, &area);

	if (r == -ENOENT)
		return 0;
	if (r == 0)
		r = img_area_load(f, &area, (size_t)1 << 30, &p, &a.len);
	if (r == 0 && a.len == 0)
		return 0;
	if (r < 0 || !cfi) {
		printf("%s: %s\n", path, r < 0 ? err_name(r) : "libdw finds no such section");
		return r;
	}
	a.p = p;
	a.vaddr = area.vaddr;
	a.debug_frame = kind == IMG_AREA_DEBUG_FRAME;
	j.debug_frame = a.debug_frame;
	reading_init(&j.rd, packed->rules);
	r = uw_cfi_read(f, &a, &j.rd.sink);
	took_ns = cpu_ns() - begin_ns;
	if (r < 0)
		printf("%s: %s\n", path, err_name(r));
	vec_each (fn, &j.rd.funcs)
		compare_function(&j, fn);
	if (r == 0 && !a.debug_frame)
		r = spans_of(&j.rd, &packed->eh);
	t->steps += j.steps;
	t->rows += j.rows;
	t->columns += j.columns;
	t->mismatches += j.mismatches;
	t->refused += j.refused;
	t->functions += j.rd.funcs.n;
	t->unsupported += j.rd.stats.unsupported;
	t->bad += j.rd.stats.bad_entries;
	if (t->verbose || j.mismatches || j.refused || j.rd.stats.unsupported ||
	    j.rd.stats.bad_entries)
		printf("%s: %s: %zu functions, %zu rows of ours in %lu us of CPU, %lu rows "
		       "compared, %lu "
		       "mismatches, %lu refused by libdw, %lu unsupported bytes, %lu bad entries\n",
		       path, a.debug_frame ? ".debug_frame" : ".eh_frame", j.rd.funcs.n,
		       j.rd.rows.n, took_ns / 1000, j.rows, j.mismatches, j.refused,
		       j.rd.stats.unsupported, j.rd.stats.bad_entries);
	reading_done(&j.rd);
	return r;
}

/* Whether it is linked, and of this machine's processor. */
static bool is_ours(int fd)
{
	Elf64_Ehdr e;

	return file_pread_full(fd, &e, sizeof(e), 0) == sizeof(e) &&
	       memcmp(e.e_ident, ELFMAG, SELFMAG) == 0 && e.e_ident[EI_CLASS] == ELFCLASS64 &&
	       e.e_ident[EI_DATA] == ELFDATA2LSB && e.e_machine == MACHINE &&
	       (e.e_type == ET_EXEC || e.e_type == ET_DYN);
}

/* Those of all files, as in a capture. Half-full ones are left before a file finds no room. */
static struct uw_rules *rules;

static int renew_rules(void)
{
	struct uw_rules_stats st;

	if (rules) {
		uw_rules_stats(rules, &st);
		if (st.rules < ABI_RULES_MAX / 2 && st.wides < ABI_WIDES_MAX / 2 &&
		    st.ops < ABI_OPS_MAX / 2)
			return 0;
	}
	uw_rules_freep(&rules);
	return uw_rules_new(NULL, &rules);
}

static int compare_file(const char *path, struct totals *t)
{
	struct packed packed = {0};
	_cleanup_(img_file_freep) struct img_file *f = NULL;
	_cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	struct err err = {0};
	Dwarf_CFI *eh;
	Dwarf *dw;
	Elf *elf;
	int r, r2;

	if (fd < 0 || !is_ours(fd))
		return 0;
	if (renew_rules() < 0)
		return -ENOMEM;
	if (img_file_open(fd, &f, &err) < 0) {
		printf("%s: %s\n", path, err.msg);
		return 0; /* libdw could not either; rows are compared here */
	}
	elf = elf_begin(fd, ELF_C_READ_MMAP, NULL);
	dw = dwarf_begin_elf(elf, DWARF_C_READ, NULL);
	t->files++;
	eh = dwarf_getcfi_elf(elf); /* ours to end; that of dwarf_getcfi is not */
	r = packed_init(&packed, f, rules);
	if (r < 0)
		printf("%s: its table: %s\n", path, err_name(r));
	if (r == 0)
		r = compare_area(&packed, IMG_AREA_EH_FRAME, path, eh, t);
	r2 = compare_area(&packed, IMG_AREA_DEBUG_FRAME, path, dw ? dwarf_getcfi(dw) : NULL, t);
	packed_done(&packed);
	(void)dwarf_cfi_end(eh);
	(void)dwarf_end(dw); /* nothing was written */
	(void)elf_end(elf);
	return r < 0 ? r : r2;
}

/* ---- many files ------------------------------------------------------------------------------ */

static struct totals totals; /* nftw() hands nothing on */
static int failed;

static int visit(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
	(void)ftw;
	if (type == FTW_F && S_ISREG(st->st_mode) && st->st_size > 0 &&
	    compare_file(path, &totals) < 0)
		failed = 1;
	return 0;
}

/* With links followed for the names that are given. */
static void visit_name(const char *name)
{
	_cleanup_free_ char *path = realpath(name, NULL);

	if (path && nftw(path, visit, 64, FTW_PHYS) < 0)
		failed = 1;
}

static void visit_default(void)
{
	static const char *const dirs[] = {
	        "/lib64",   "/usr/lib64", "/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu",
	        "/usr/bin", "/usr/sbin"};
	static const char *const files[] = {"libc.so.6",
	                                    "ld-linux-x86-64.so.2",
	                                    "ld-linux-aarch64.so.1",
	                                    "libm.so.6",
	                                    "libgcc_s.so.1",
	                                    "libstdc++.so.6",
	                                    "libcrypto.so.3",
	                                    "libgfortran.so.5",
	                                    "libLLVM-14.so.1",
	                                    "python3",
	                                    "bash",
	                                    "git",
	                                    "openssl",
	                                    "gdb",
	                                    "ls",
	                                    "perl",
	                                    "ldconfig",
	                                    "sort"};

	for (size_t d = 0; d < ARRAY_SIZE(dirs); d++) {
		for (size_t i = 0; i < ARRAY_SIZE(files); i++) {
			struct sbuf b;

			sbuf_init(&b, 4096);
			if (sbuf_addf(&b, "%s/%s", dirs[d], files[i]) == 0)
				visit_name(b.p);
			sbuf_done(&b);
		}
	}
}

static void print_steps(void)
{
	const struct totals *t = &totals;

	printf("%lu steps agree, %lu values; %lu by inline codes, %lu by rules, %lu by wide ones, "
	       "%lu where the stack ends\n",
	       t->steps, t->step_values, t->inlines, t->frames, t->wides, t->roots);
	printf("laid over the rows, and other: ");
	for (size_t i = 0; i < OVER_CNT; i++)
		printf("%lu %s, ", t->over[i], over_names[i]);
	printf("%lu frame pointers that only Go's own table tells, %lu functions outside of text, "
	       "%lu that made no address\n",
	       t->go_fp, t->outside, t->no_address);
}

int main(int argc, char **argv)
{
	bool defaults;
	int i = 1;

	(void)elf_version(EV_CURRENT); /* must be reported; it knows this one */
	if (i < argc && strcmp(argv[i], "-v") == 0) {
		totals.verbose = true;
		i++;
	}
	defaults = i < argc && strcmp(argv[i], "--default") == 0;
	if (defaults)
		visit_default();
	else
		for (; i < argc; i++)
			visit_name(argv[i]);
	printf("%lu files, %lu functions, %lu rows compared, %lu columns, %lu mismatches, %lu "
	       "refused "
	       "by libdw, %lu unsupported bytes, %lu bad entries\n",
	       totals.files, totals.functions, totals.rows, totals.columns, totals.mismatches,
	       totals.refused, totals.unsupported, totals.bad);
	print_steps();
	uw_rules_freep(&rules);
	for (i = 0; i < (int)ABI_SEGMENTS_MAX; i++)
		free(segments[i]);
	if (totals.files == 0)
		return 2;
	return totals.mismatches > 0 || failed ||
	       (defaults && (totals.refused > 0 || totals.unsupported > 0));
}
