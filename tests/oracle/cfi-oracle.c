/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cfi-oracle - rows of our reader of call-frame information against those of libdw
 *
 *   cfi-oracle [-v] PATH…   files, and folders with everything below them
 *   cfi-oracle --default    some libraries and programs that a Debian machine has
 *
 * Of every ELF file of this machine's processor, for every row of every function: the CFA, the
 * return address and every general register must be found in the same place. What is compared is
 * not how rules are written but what comes out of them: both are evaluated over registers and
 * memory of random content.
 * Prints a line for each file with a difference (-v: for each file), then totals.
 * What libdw refuses is counted apart: it finds no CFA where a register follows an expression
 * (libgcrypt has such functions), and ends .debug_frame at a length of 0 (some Go programs have
 * one in the middle).
 * Exit status: 0, 1 there are differences (with --default also: refusals, or bytes that are not
 * understood), 2 usage or no file.
 */
#include <dwarf.h>
#include <elfutils/libdw.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <sys/stat.h>
#include <time.h>

#include "../unit/fake-rules.h"

#ifdef ABI_ARM64
#define MACHINE EM_AARCH64
#else
#define MACHINE EM_X86_64
#endif
#define SHOWN_MAX 10 /* differences of one file that are printed */
#define PC_SEEDS  16 /* PLT entries are told apart by the low bits of the pc */
#define STACK_MAX 64

/* ---- the machine that both sides are evaluated on -------------------------------------------- */

static uint64_t mix(uint64_t x)
{
	x = (x ^ (x >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
	x = (x ^ (x >> 27)) * UINT64_C(0x94d049bb133111eb);
	return x ^ (x >> 31);
}

/* 8 bytes of memory. */
static uint64_t memory(uint64_t addr)
{
	return mix(addr + 0x1234567);
}

/* Registers of a frame; the pc is at index ABI_REGS. */
struct machine {
	uint64_t reg[ABI_REGS + 1];
};

static void machine_init(struct machine *m, uint64_t seed)
{
	for (size_t i = 0; i < ABI_REGS; i++)
		m->reg[i] = mix(seed * 64 + i);
	m->reg[ABI_REGS] = (mix(seed) & ~UINT64_C(15)) | (seed & 15);
}

/* Ours. */
struct step_mem {
	const struct uw_rules *rules;
};

static int step_read(const struct step_mem *mem, __u64 *ret, uint64_t addr)
{
	(void)mem;
	*ret = memory(addr);
	return 0;
}

static const struct abi_op *step_op(const struct step_mem *mem, uint32_t i)
{
	return i < mem->rules->ops.n ? &mem->rules->ops.p[i] : NULL;
}

/* Of rules only expressions go through the step here. */
static const void *step_none(const struct step_mem *mem, uint32_t i)
{
	(void)mem;
	(void)i;
	return NULL;
}

#define UW_MEM                       const struct step_mem
#define UW_READ(mem, ret, addr)      step_read(mem, ret, addr)
#define UW_READ_CODE(mem, ret, addr) step_read(mem, ret, addr)
#define UW_IS_CODE(mem, addr, sure)  1
#define UW_RULE(mem, i)              ((const struct abi_rule *)step_none(mem, i))
#define UW_WIDE(mem, i)              ((const struct abi_wide *)step_none(mem, i))
#define UW_OP(mem, i)                step_op(mem, i)
#include "unwind/unwind_step.h"

/* Where a column is: what both sides come to. */
enum place { PLACE_SAME, PLACE_UNDEF, PLACE_MEMORY, PLACE_VALUE, PLACE_ERROR };
struct found {
	enum place place;
	uint64_t v; /* address, or value */
};

static const char *const place_names[] = {"same", "undefined", "memory", "value", "error"};

static bool our_expr(const struct uw_rules *rules, const struct machine *m, uint32_t ip,
                     const uint64_t *cfa, uint64_t *ret)
{
	struct step_mem mem = {rules};
	struct uw_state u = {0};

	memcpy(u.reg, m->reg, sizeof(u.reg));
	u.pc = m->reg[ABI_REGS];
	uw_begin(&u);
	if (cfa) {
		u.stack[0] = *cfa;
		u.depth = 1;
	}
	if (uw_expr(&u, &mem, ip))
		return false;
	*ret = u.stack[(u.depth - 1) & (ABI_EXPR_DEPTH - 1)];
	return true;
}

static bool our_cfa(const struct uw_rules *rules, const struct uw_rule *r, const struct machine *m,
                    uint64_t *ret)
{
	uint64_t v = m->reg[r->cfa_reg] + (uint64_t)(int64_t)r->cfa_off;

	switch ((enum abi_cfa_kind)r->cfa_kind) {
	case ABI_CFA_REG:
		*ret = v;
		return true;
	case ABI_CFA_DEREF:
		*ret = memory(v) + (uint64_t)(int64_t)r->cfa_off2;
		return true;
	case ABI_CFA_PLT:
		*ret = v + ((int32_t)(m->reg[ABI_REGS] & 15) >= r->cfa_off2 ? 8 : 0);
		return true;
	case ABI_CFA_EXPR:
		return our_expr(rules, m, (uint32_t)r->cfa_off, NULL, ret);
	}
	return false;
}

static struct found our_col(const struct uw_rules *rules, const struct uw_rule *r, size_t i,
                            const struct machine *m, uint64_t cfa)
{
	const struct uw_col *c = &r->col[i];
	const uint64_t off = (uint64_t)(int64_t)c->val;
	struct found f = {PLACE_ERROR, 0};

	switch ((enum abi_col_kind)c->kind) {
	case ABI_COL_SAME:
		f.place = PLACE_SAME;
		if (i == ABI_REG_SP)
			f = (struct found){PLACE_VALUE, cfa};
		break;
	case ABI_COL_UNDEF:
		f.place = PLACE_UNDEF;
		break;
	case ABI_COL_AT_CFA:
		f = (struct found){PLACE_MEMORY, cfa + off};
		break;
	case ABI_COL_CFA:
		f = (struct found){PLACE_VALUE, cfa + off};
		break;
	case ABI_COL_REG:
		f = (struct found){PLACE_VALUE, m->reg[c->val]};
		break;
	case ABI_COL_AT_REG:
		f = (struct found){PLACE_MEMORY,
		                   m->reg[c->val & 255] + (uint64_t)(int64_t)(c->val >> 8)};
		break;
	case ABI_COL_AT_EXPR:
	case ABI_COL_EXPR:
		if (our_expr(rules, m, (uint32_t)c->val, &cfa, &f.v))
			f.place = c->kind == ABI_COL_EXPR ? PLACE_VALUE : PLACE_MEMORY;
		break;
	}
	return f;
}

/* Theirs: DWARF 5 §2.5, for what frames may use. */
struct dw {
	const struct machine *m;
	uint64_t cfa, s[STACK_MAX];
	size_t n;
	bool failed;
};

static void dw_push(struct dw *d, uint64_t v)
{
	if (d->n == STACK_MAX)
		d->failed = true;
	else
		d->s[d->n++] = v;
}

static uint64_t dw_pop(struct dw *d)
{
	if (d->n == 0) {
		d->failed = true;
		return 0;
	}
	return d->s[--d->n];
}

static uint64_t dw_reg(struct dw *d, uint64_t n)
{
	if (n > ABI_REGS)
		d->failed = true;
	return n > ABI_REGS ? 0 : d->m->reg[n];
}

static bool dw_binary(struct dw *d, unsigned int atom)
{
	uint64_t b, a;
	int64_t sa, sb;

	if (!((atom >= DW_OP_and && atom <= DW_OP_xor && atom != DW_OP_neg && atom != DW_OP_not &&
	       atom != DW_OP_plus_uconst) ||
	      (atom >= DW_OP_eq && atom <= DW_OP_ne)))
		return false;
	b = dw_pop(d);
	a = dw_pop(d);
	sa = (int64_t)a;
	sb = (int64_t)b;
	switch (atom) {
	case DW_OP_and:
		dw_push(d, a & b);
		break;
	case DW_OP_minus:
		dw_push(d, a - b);
		break;
	case DW_OP_mul:
		dw_push(d, a * b);
		break;
	case DW_OP_or:
		dw_push(d, a | b);
		break;
	case DW_OP_plus:
		dw_push(d, a + b);
		break;
	case DW_OP_shl:
		dw_push(d, b < 64 ? a << b : 0);
		break;
	case DW_OP_shr:
		dw_push(d, b < 64 ? a >> b : 0);
		break;
	case DW_OP_shra:
		dw_push(d, (uint64_t)(sa >> (b < 64 ? b : 63)));
		break;
	case DW_OP_xor:
		dw_push(d, a ^ b);
		break;
	case DW_OP_eq:
		dw_push(d, a == b);
		break;
	case DW_OP_ne:
		dw_push(d, a != b);
		break;
	case DW_OP_lt:
		dw_push(d, sa < sb);
		break;
	case DW_OP_le:
		dw_push(d, sa <= sb);
		break;
	case DW_OP_gt:
		dw_push(d, sa > sb);
		break;
	case DW_OP_ge:
		dw_push(d, sa >= sb);
		break;
	default:
		d->failed = true;
		break;
	}
	return true;
}

static void dw_stack_op(struct dw *d, const Dwarf_Op *o)
{
	uint64_t a, b, c;

	switch (o->atom) {
	case DW_OP_dup:
		a = dw_pop(d);
		dw_push(d, a);
		dw_push(d, a);
		break;
	case DW_OP_drop:
		(void)dw_pop(d); /* that is what it is for */
		break;
	case DW_OP_over:
	case DW_OP_pick:
		a = o->atom == DW_OP_over ? 1 : o->number;
		if (a < d->n)
			dw_push(d, d->s[d->n - 1 - a]);
		else
			d->failed = true;
		break;
	case DW_OP_swap:
		a = dw_pop(d);
		b = dw_pop(d);
		dw_push(d, a);
		dw_push(d, b);
		break;
	case DW_OP_rot:
		a = dw_pop(d);
		b = dw_pop(d);
		c = dw_pop(d);
		dw_push(d, a);
		dw_push(d, c);
		dw_push(d, b);
		break;
	case DW_OP_abs:
		a = dw_pop(d);
		dw_push(d, (int64_t)a < 0 ? 0 - a : a);
		break;
	case DW_OP_neg:
		dw_push(d, 0 - dw_pop(d));
		break;
	case DW_OP_not:
		dw_push(d, ~dw_pop(d));
		break;
	case DW_OP_deref:
		dw_push(d, memory(dw_pop(d)));
		break;
	case DW_OP_deref_size:
		a = memory(dw_pop(d));
		dw_push(d, o->number >= 8 ? a : a & ((UINT64_C(1) << (8 * o->number)) - 1));
		break;
	case DW_OP_nop:
		break;
	default:
		d->failed = true;
		break;
	}
}

/* One operation; index of the next one. */
static size_t dw_op(struct dw *d, const Dwarf_Op *ops, size_t n, size_t i, struct found *f)
{
	const Dwarf_Op *o = &ops[i];
	const unsigned int atom = o->atom;

	if (atom >= DW_OP_lit0 && atom <= DW_OP_lit31) {
		dw_push(d, atom - DW_OP_lit0);
	} else if (atom >= DW_OP_const1u && atom <= DW_OP_consts) {
		dw_push(d, o->number);
	} else if (atom >= DW_OP_breg0 && atom <= DW_OP_breg31) {
		dw_push(d, dw_reg(d, atom - DW_OP_breg0) + o->number);
	} else if (atom == DW_OP_bregx) {
		dw_push(d, dw_reg(d, o->number) + o->number2);
	} else if (atom >= DW_OP_reg0 && atom <= DW_OP_reg31) {
		*f = (struct found){PLACE_VALUE, dw_reg(d, atom - DW_OP_reg0)};
	} else if (atom == DW_OP_regx) {
		*f = (struct found){PLACE_VALUE, dw_reg(d, o->number)};
	} else if (atom == DW_OP_call_frame_cfa) {
		dw_push(d, d->cfa);
	} else if (atom == DW_OP_plus_uconst) {
		dw_push(d, dw_pop(d) + o->number);
	} else if (atom == DW_OP_stack_value) {
		*f = (struct found){PLACE_VALUE, dw_pop(d)};
	} else if (atom == DW_OP_skip || (atom == DW_OP_bra && dw_pop(d))) {
		Dwarf_Off to = o->offset + 3 + o->number;

		for (i = 0; i < n && ops[i].offset != to; i++)
			;
		return i;
	} else if (atom != DW_OP_bra && !dw_binary(d, atom)) {
		dw_stack_op(d, o);
	}
	return i + 1;
}

static struct found their_expr(const Dwarf_Op *ops, size_t n, const struct machine *m, uint64_t cfa)
{
	struct dw d = {.m = m, .cfa = cfa};
	struct found f = {PLACE_ERROR, 0};
	size_t steps = 0;

	for (size_t i = 0; i < n && !d.failed && steps < 1000; steps++)
		i = dw_op(&d, ops, n, i, &f);
	if (f.place == PLACE_ERROR && !d.failed && d.n > 0)
		f = (struct found){PLACE_MEMORY, d.s[d.n - 1]};
	if (d.failed)
		f.place = PLACE_ERROR;
	return f;
}

/* ---- one file -------------------------------------------------------------------------------- */

struct totals {
	uint64_t files, rows, columns, mismatches, refused, unsupported, bad, functions;
	bool verbose;
};

struct job {
	const char *path;
	struct recorder rec;
	Dwarf_CFI *cfi;
	uint64_t rows, columns, mismatches, refused;
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

static struct found their_col(Dwarf_Frame *frame, int reg, const struct machine *m, uint64_t cfa)
{
	Dwarf_Op mem[3], *ops = NULL;
	size_t n = 0;

	if (dwarf_frame_register(frame, reg, mem, &ops, &n) != 0)
		return (struct found){PLACE_ERROR, 0};
	if (n == 0)
		return (struct found){ops == mem ? PLACE_UNDEF : PLACE_SAME, 0};
	return their_expr(ops, n, m, cfa);
}

static void compare_rule(struct job *j, Dwarf_Frame *frame, const struct uw_rule *r, uint64_t at,
                         int ra_reg, const struct machine *m)
{
	const struct uw_rules *rules = &j->rec.rules;
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
	const struct uw_rule *r = rec_rule(&j->rec, code);
	Dwarf_Addr start, end;
	bool signal = false;
	struct machine m;
	int ra_reg = dwarf_frame_info(frame, &start, &end, &signal);
	size_t seeds = 1;

	j->rows++;
	machine_init(&m, at);
	if (code == ABI_CODE_ROOT) {
		struct found ra = their_col(frame, ra_reg, &m, 0);

		if (ra.place != PLACE_UNDEF && ra.place != PLACE_SAME)
			differ(j, at, "root, but there is a return address");
		return;
	}
	if (!r) {
		differ(j, at, "no rule");
		return;
	}
	if (r->signal != signal)
		differ(j, at, "signal frame %d, not %d", r->signal, signal);
	if (r->cfa_kind == ABI_CFA_PLT || r->cfa_kind == ABI_CFA_EXPR)
		seeds = PC_SEEDS;
	for (size_t i = 0; i < seeds; i++) {
		machine_init(&m, at * PC_SEEDS + i);
		compare_rule(j, frame, r, at, ra_reg, &m);
	}
}

static void compare_function(struct job *j, const struct rec_func *f)
{
	const struct rec_row *row = &j->rec.rows.p[f->first], *last = row + f->n - 1;
	uint64_t at = f->start;

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

static int compare_area(struct img_file *f, enum img_area_kind kind, const char *path,
                        Dwarf_CFI *cfi, struct totals *t)
{
	struct job j = {.path = path, .cfi = cfi};
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
	rec_init(&j.rec);
	r = uw_cfi_read(f, &a, &j.rec.sink);
	took_ns = cpu_ns() - begin_ns;
	if (r < 0)
		printf("%s: %s\n", path, err_name(r));
	vec_each (fn, &j.rec.funcs)
		compare_function(&j, fn);
	t->rows += j.rows;
	t->columns += j.columns;
	t->mismatches += j.mismatches;
	t->refused += j.refused;
	t->functions += j.rec.funcs.n;
	t->unsupported += j.rec.stats.unsupported;
	t->bad += j.rec.stats.bad_entries;
	if (t->verbose || j.mismatches || j.refused || j.rec.stats.unsupported ||
	    j.rec.stats.bad_entries)
		printf("%s: %s: %zu functions, %zu rows of ours in %lu us of CPU, %lu rows "
		       "compared, %lu "
		       "mismatches, %lu refused by libdw, %lu unsupported bytes, %lu bad entries\n",
		       path, a.debug_frame ? ".debug_frame" : ".eh_frame", j.rec.funcs.n,
		       j.rec.rows.n, took_ns / 1000, j.rows, j.mismatches, j.refused,
		       j.rec.stats.unsupported, j.rec.stats.bad_entries);
	rec_done(&j.rec);
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

static int compare_file(const char *path, struct totals *t)
{
	_cleanup_(img_file_freep) struct img_file *f = NULL;
	_cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	struct err err = {0};
	Dwarf_CFI *eh;
	Dwarf *dw;
	Elf *elf;
	int r, r2;

	if (fd < 0 || !is_ours(fd))
		return 0;
	if (img_file_open(fd, &f, &err) < 0) {
		printf("%s: %s\n", path, err.msg);
		return 0; /* libdw could not either; rows are compared here */
	}
	elf = elf_begin(fd, ELF_C_READ_MMAP, NULL);
	dw = dwarf_begin_elf(elf, DWARF_C_READ, NULL);
	t->files++;
	eh = dwarf_getcfi_elf(elf); /* ours to end; that of dwarf_getcfi is not */
	r = compare_area(f, IMG_AREA_EH_FRAME, path, eh, t);
	r2 = compare_area(f, IMG_AREA_DEBUG_FRAME, path, dw ? dwarf_getcfi(dw) : NULL, t);
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

int main(int argc, char **argv)
{
	bool defaults;
	int i = 1;

	(void)elf_version(EV_CURRENT); /* must be told; it knows this one */
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
	if (totals.files == 0)
		return 2;
	return totals.mismatches > 0 || failed ||
	       (defaults && (totals.refused > 0 || totals.unsupported > 0));
}
