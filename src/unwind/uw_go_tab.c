/* SPDX-License-Identifier: Apache-2.0 */
/*
 * .gopclntab: its header, its functions, and how deep the stack is at each pc of them.
 *
 * The table tells the depth of the stack only. That the caller's frame pointer is kept right below
 * the return address is a property of the code, so the first instructions that open a frame are
 * read.
 */
#include <elf.h>

#include "unwind/uw_go_tab.h"

#define MAGIC_12  0xfffffffbu
#define MAGIC_116 0xfffffffau
#define MAGIC_118 0xfffffff0u
#define MAGIC_120 0xfffffff1u

/* Of a data segment: searched for a table. */
#define DATA_SEARCH_BYTES (64ULL << 20)

#define HEADER_BYTES 8 /* magic, two zeros, quantum, size of a pointer; words follow */

#ifdef ABI_ARM64
#define GO_MACHINE EM_AARCH64
#define GO_QUANTUM 4
#else
#define GO_MACHINE EM_X86_64
#define GO_QUANTUM 1
#endif

/* Of a function's name: only short ones are looked for. Any number of functions, 8 bytes each, may
 * point at the same long one. */
#define NAME_BYTES_MAX 256

/* Deepest frame that a rule can tell; runtime.call1073741824 has one of 1 GiB. */
#define DEPTH_MAX (INT32_MAX - 16)
/* syscall.rawVforkSyscall pops its return address, which stays below the stack pointer meanwhile.
 */
#ifdef ABI_ARM64
#define DEPTH_MIN 0
#else
#define DEPTH_MIN (-8)
#endif

static struct cursor tab_at(const struct uw_go_tab *t, uint64_t off)
{
	struct cursor c = cursor_of(t->data, t->len);

	if (off > t->len || cursor_skip(&c, (size_t)off) < 0)
		c.p = c.end;
	return c;
}

/* Word @i behind the header's first 8 bytes. */
static int header_word(const struct uw_go_tab *t, unsigned int i, uint64_t *ret)
{
	struct cursor c = tab_at(t, HEADER_BYTES + 8 * (uint64_t)i);

	return cursor_u64(&c, ret);
}

static int header_place(const struct uw_go_tab *t, unsigned int i, size_t *ret)
{
	uint64_t v;

	if (header_word(t, i, &v) < 0 || v > t->len)
		return -ENOENT;
	*ret = (size_t)v;
	return 0;
}

static int read_header(struct uw_go_tab *t)
{
	struct cursor c = tab_at(t, 0);
	uint32_t magic;
	uint8_t b[4];
	size_t entry_bytes;

	if (cursor_u32(&c, &magic) < 0 || cursor_bytes(&c, b, sizeof(b)) < 0 || b[0] || b[1] ||
	    b[2] != GO_QUANTUM || b[3] != 8 || header_word(t, 0, &t->n) < 0)
		return -ENOENT;
	switch (magic) {
	case MAGIC_12:
		t->version = UW_GO_12;
		t->funcs = HEADER_BYTES + 8;
		break;
	case MAGIC_116:
		t->version = UW_GO_116;
		if (header_place(t, 2, &t->names) < 0 || header_place(t, 5, &t->pctab) < 0 ||
		    header_place(t, 6, &t->funcs) < 0)
			return -ENOENT;
		break;
	case MAGIC_118:
	case MAGIC_120:
		t->version = magic == MAGIC_118 ? UW_GO_118 : UW_GO_120;
		if (header_word(t, 2, &t->text) < 0 || header_place(t, 3, &t->names) < 0 ||
		    header_place(t, 6, &t->pctab) < 0 || header_place(t, 7, &t->funcs) < 0)
			return -ENOENT;
		break;
	default:
		return -ENOENT;
	}
	entry_bytes = t->version >= UW_GO_118 ? 8 : 16;
	if (t->n > (t->len - t->funcs) / entry_bytes)
		return -ENOENT;
	return 0;
}

/* Entry of function @i, the end of the last one for @i == n; as it stands in the table. */
static int entry_of(const struct uw_go_tab *t, uint64_t i, uint64_t *ret_entry, uint64_t *ret_rec)
{
	const bool narrow = t->version >= UW_GO_118;
	struct cursor c = tab_at(t, t->funcs + i * (narrow ? 8 : 16));
	uint32_t e32, r32 = 0;

	*ret_rec = 0;
	if (!narrow) {
		if (cursor_u64(&c, ret_entry) < 0)
			return -EINVAL;
		return i < t->n && cursor_u64(&c, ret_rec) < 0 ? -EINVAL : 0;
	}
	if (cursor_u32(&c, &e32) < 0 || (i < t->n && cursor_u32(&c, &r32) < 0))
		return -EINVAL;
	*ret_entry = e32;
	*ret_rec = r32;
	return 0;
}

/* Functions that end a stack, for versions that do not say it. */
static bool is_top(const char *name)
{
	return strcmp(name, "runtime.goexit") == 0 || strcmp(name, "runtime.mstart") == 0 ||
	       strcmp(name, "runtime.rt0_go") == 0;
}

/* Where the kernel starts the program; the start of a library is called and returns. */
static bool is_start(const char *name)
{
	return str_starts(name, "_rt0_") && !strstr(name, "_lib");
}

int uw_go_tab_func(const struct uw_go_tab *t, uint64_t i, struct uw_go_func *ret)
{
	/* The version's record: where its fields are. */
	const size_t entry_bytes = t->version >= UW_GO_118 ? 4 : 8;
	const size_t flag_at = t->version == UW_GO_118 ? 37 : 41;
	uint64_t start, end, rec, unused, base;
	struct uw_go_func fn = {.name = ""};
	uint32_t name_at;
	struct cursor c, name;
	uint8_t flag = 0;

	if (i >= t->n || entry_of(t, i, &start, &rec) < 0 || entry_of(t, i + 1, &end, &unused) < 0)
		return -EINVAL;
	base = t->version == UW_GO_12 ? 0 : t->funcs;
	if (start >= end || t->text > UINT64_MAX - end || rec > t->len - base)
		return -EINVAL;
	fn.start = t->text + start;
	fn.end = t->text + end;

	c = tab_at(t, base + rec + entry_bytes);
	if (cursor_u32(&c, &name_at) < 0 || cursor_skip(&c, 8) < 0 || cursor_u32(&c, &fn.pcsp) < 0)
		return -EINVAL;
	c = tab_at(t, t->names + (uint64_t)name_at);
	if (cursor_sub(&c, MIN_OF(cursor_left(&c), (size_t)NAME_BYTES_MAX), &name) < 0 ||
	    cursor_str(&name, &fn.name) < 0)
		fn.name = "";
	if (t->version != UW_GO_12) {
		c = tab_at(t, base + rec + flag_at);
		if (cursor_u8(&c, &flag) < 0)
			return -EINVAL;
	}
	fn.top = (flag & 1) || is_start(fn.name) || (t->version < UW_GO_118 && is_top(fn.name));
	*ret = fn;
	return 0;
}

size_t uw_go_tab_code(struct uw_go_tab *t, uint64_t vaddr, uint8_t *buf, size_t len)
{
	const struct img_segment *segs;
	size_t n;

	if (!t->code_len || vaddr < t->code_at || vaddr - t->code_at >= t->code_len ||
	    t->code_len - (vaddr - t->code_at) < len) {
		size_t got = 0;

		n = img_segments(t->f, &segs);
		for (size_t i = 0; i < n && got == 0; i++)
			if (segs[i].exec && vaddr >= segs[i].vaddr &&
			    vaddr - segs[i].vaddr < segs[i].file_size)
				got = (size_t)MIN_OF(segs[i].file_size - (vaddr - segs[i].vaddr),
				                     (uint64_t)UW_GO_CODE_BYTES);
		t->code_len = 0;
		if (got == 0 || img_read_vaddr(t->f, vaddr, t->code, got) < 0)
			return 0;
		t->code_at = vaddr;
		t->code_len = got;
	}
	len = MIN_OF(len, t->code_len - (size_t)(vaddr - t->code_at));
	memcpy(buf, t->code + (vaddr - t->code_at), len);
	return len;
}

/* ---- start of the text ----------------------------------------------------------------------- */

/* runtime.goexit begins with a no-op and a call of runtime.goexit1, whose distance functab tells.
 */
#define GOEXIT_BYTES 8
struct goexit {
	uint64_t entry;
	size_t len;
	uint8_t code[GOEXIT_BYTES];
};

static void goexit_code(struct goexit *g, uint64_t callee)
{
#ifdef ABI_ARM64
	const uint32_t insn[2] = {
	        0xaa0003e0u, 0x94000000u | (uint32_t)(((callee - g->entry - 4) >> 2) & 0x3ffffff)};

	memcpy(g->code, insn, sizeof(insn));
	g->len = sizeof(insn);
#else
	const uint32_t rel = (uint32_t)(callee - g->entry - 6);

	g->code[0] = 0x90;
	g->code[1] = 0xe8;
	memcpy(g->code + 2, &rel, sizeof(rel));
	g->code[6] = 0x90;
	g->len = 7;
#endif
}

/* Where these bytes are in the executable segments, and the whole text fits around them. */
static bool find_code(struct uw_go_tab *t, const struct goexit *g, uint64_t text_end,
                      uint64_t *ret_text)
{
	const struct img_segment *segs;
	const size_t n = img_segments(t->f, &segs);

	for (size_t i = 0; i < n; i++) {
		const uint64_t size = MIN_OF(segs[i].file_size, segs[i].mem_size);

		if (!segs[i].exec)
			continue;
		for (uint64_t at = 0; at < size;) {
			const size_t len = (size_t)MIN_OF(size - at, (uint64_t)UW_GO_CODE_BYTES);
			const uint8_t *p = t->code, *hit;

			t->code_len = 0;
			if (img_read_vaddr(t->f, segs[i].vaddr + at, t->code, len) < 0)
				break;
			while ((hit = memmem(p, len - (size_t)(p - t->code), g->code, g->len))) {
				uint64_t off = at + (uint64_t)(hit - t->code);

				if (off >= g->entry && size - (off - g->entry) >= text_end) {
					*ret_text = segs[i].vaddr + off - g->entry;
					return true;
				}
				p = hit + 1;
			}
			if (len < UW_GO_CODE_BYTES)
				break;
			at += len - GOEXIT_BYTES;
		}
	}
	return false;
}

/*
 * The header has told the start until 1.25, but 0 or an address before relocation in files that
 * move; 1.26 writes 0. So it is looked for in the code: runtime.goexit is in every program, and
 * its bytes are known but for where they lie.
 */
static int find_text(struct uw_go_tab *t)
{
	const uint64_t told = t->text;
	struct uw_go_func fn;
	struct goexit g = {0};
	uint64_t text_end, unused, found;
	unsigned int callees = 2; /* one for each of Go's calling conventions */
	bool seen = false;
	uint8_t code[GOEXIT_BYTES];

	if (t->version < UW_GO_118)
		return 0;
	if (entry_of(t, t->n, &text_end, &unused) < 0)
		return -ENOENT;
	t->text = 0;
	for (uint64_t i = 0; i < t->n && !seen; i++) {
		seen = uw_go_tab_func(t, i, &fn) == 0 && strcmp(fn.name, "runtime.goexit") == 0;
		if (seen)
			g.entry = fn.start;
	}
	for (uint64_t i = 0; i < t->n && seen && callees; i++) {
		if (uw_go_tab_func(t, i, &fn) < 0 || strcmp(fn.name, "runtime.goexit1") != 0)
			continue;
		callees--;
		goexit_code(&g, fn.start);
		if (told && told <= UINT64_MAX - g.entry &&
		    uw_go_tab_code(t, told + g.entry, code, g.len) == g.len &&
		    memcmp(code, g.code, g.len) == 0) {
			t->text = told;
			return 0;
		}
		if (find_code(t, &g, text_end, &found)) {
			t->text = found;
			return 0;
		}
	}
	t->text = told;
	return told ? 0 : -ENOENT;
}

/* ---- opening --------------------------------------------------------------------------------- */

/* Whether a header could begin here: 8 bytes. */
static bool like_header(const uint8_t *p)
{
	uint32_t magic;

	memcpy(&magic, p, sizeof(magic));
	return (magic == MAGIC_12 || magic == MAGIC_116 || magic == MAGIC_118 ||
	        magic == MAGIC_120) &&
	       p[4] == 0 && p[5] == 0 && p[6] == GO_QUANTUM && p[7] == 8;
}

/*
 * A table without a section of its own: before 1.26 the linker of C programs merges it into
 * .data.rel.ro of programs that move. That is in the last writable segment, or with lld in one of
 * its own before it; both are small in other files.
 */
static int search_segment(struct uw_go_tab *t, const struct img_segment *s, uint64_t size,
                          uint64_t max)
{
	t->code_len = 0;
	for (uint64_t at = 0; at < size; at += UW_GO_CODE_BYTES) {
		const size_t len = (size_t)MIN_OF(size - at, (uint64_t)UW_GO_CODE_BYTES);

		if (img_read_vaddr(t->f, s->vaddr + at, t->code, len) < 0)
			return -ENOENT;
		for (size_t i = (size_t)((0 - s->vaddr) & 7); i + 8 <= len; i += 8) {
			if (!like_header(t->code + i))
				continue;
			t->len = (size_t)MIN_OF(s->file_size - at - i, max);
			t->data = malloc(t->len);
			if (!t->data)
				return -ENOMEM;
			return img_read_vaddr(t->f, s->vaddr + at + i, t->data, t->len);
		}
	}
	return -ENOENT;
}

static int load_from_data(struct uw_go_tab *t, uint64_t max)
{
	const struct img_segment *segs;
	const size_t n = img_segments(t->f, &segs);
	uint64_t left = DATA_SEARCH_BYTES, size;
	int r = -ENOENT;

	for (size_t i = 0; i < n && r == -ENOENT; i++) {
		if (!segs[i].write || segs[i].exec)
			continue;
		size = MIN_OF(MIN_OF(segs[i].file_size, segs[i].mem_size), left);
		left -= size;
		r = search_segment(t, &segs[i], size, max);
	}
	return r;
}

int uw_go_tab_open(struct img_file *f, const struct uw_build_limits *lim, struct uw_go_tab *ret)
{
	const uint64_t max = lim && lim->area_bytes ? lim->area_bytes : 1ULL << 30;
	const uint64_t rows = lim && lim->rows ? lim->rows : 64ULL << 20;
	struct uw_go_tab t = {.f = f, .steps_left = rows};
	struct img_area a = {0};
	int r;

	if (img_machine(f) != GO_MACHINE || !img_is_64(f))
		return -ENOENT;
	r = img_area_find(f, IMG_AREA_GOPCLNTAB, &a);
	if (r < 0 && r != -ENOENT)
		return r;
	t.code = malloc(UW_GO_CODE_BYTES);
	if (!t.code)
		return -ENOMEM;
	if (r == 0)
		r = img_area_load(f, &a, (size_t)MIN_OF(max, (uint64_t)SIZE_MAX), &t.data, &t.len);
	else
		r = load_from_data(&t, max);
	if (r == 0)
		r = read_header(&t);
	if (r == 0)
		r = find_text(&t);
	if (r < 0) {
		uw_go_tab_done(&t);
		return r;
	}
	*ret = t;
	return 0;
}

void uw_go_tab_done(struct uw_go_tab *t)
{
	freep(&t->data);
	freep(&t->code);
	t->len = t->code_len = 0;
}

/* ---- depth of the stack ---------------------------------------------------------------------- */

/* Numbers of pctab: 7 bits a byte, as LEB128, modulo 2^32. */
static int pc_number(struct cursor *c, uint32_t *ret)
{
	uint64_t v;

	if (cursor_uleb(c, &v) < 0 || v > UINT32_MAX)
		return -EINVAL;
	*ret = (uint32_t)v;
	return 0;
}

/* Bytes from a frame's opening on after which the caller's frame pointer is in the frame; -1 if it
 * is not kept there. @at: where the stack pointer has just moved, from 0 to @depth below the entry.
 */
static int saved_after(struct uw_go_tab *t, const struct uw_go_func *fn, uint64_t at, int32_t depth)
{
#ifdef ABI_ARM64
	/* str x29, [sp, #-8] is the next instruction, or stp before sp moved. */
	static const uint8_t str_fp[4] = {0xfd, 0x83, 0x1f, 0xf8};
	uint8_t b[4];

	(void)fn;
	(void)depth;
	if (uw_go_tab_code(t, at, b, 4) == 4 && memcmp(b, str_fp, 4) == 0)
		return 4;
	return 0;
#else
	uint8_t b[8];
	int32_t disp;

	/* push %rbp */
	if (depth == 8 && at > fn->start && uw_go_tab_code(t, at - 1, b, 1) == 1 && b[0] == 0x55)
		return 0;
	/* mov %rbp, depth - 8(%rsp), in the shortest form */
	if (uw_go_tab_code(t, at, b, 5) == 5 && b[0] == 0x48 && b[1] == 0x89 && b[3] == 0x24) {
		if (b[2] == 0x2c && depth == 8)
			return 4;
		if (b[2] == 0x6c && b[4] == depth - 8)
			return 5;
		if (b[2] == 0xac && uw_go_tab_code(t, at, b, 8) == 8) {
			memcpy(&disp, b + 4, sizeof(disp));
			if (disp == depth - 8)
				return 8;
		}
	}
	return -1;
#endif
}

static int add_row(struct uw_go_rows *rows, uint64_t at, int32_t depth, bool saved)
{
	struct uw_go_row *last = rows->n ? &rows->p[rows->n - 1] : NULL;

	if (last && last->depth == depth && last->saved == saved)
		return 0;
	return vec_push(rows, ((struct uw_go_row){at, depth, saved}));
}

int uw_go_tab_rows(struct uw_go_tab *t, const struct uw_go_func *fn, struct uw_go_rows *rows)
{
	struct cursor c = tab_at(t, t->pctab + (uint64_t)fn->pcsp);
	uint64_t pc = fn->start, at;
	uint32_t depth_delta, pc_delta;
	int32_t depth = -1, opened = 0; /* opened: depth from which on the frame pointer is kept */
	int r = 0, after;

	rows->n = 0;
	rows->max = SIZE_MAX / sizeof(*rows->p);
	rows->end = fn->start;
	if (fn->pcsp == 0)
		return -ENOENT;
	while (pc < fn->end) {
		if (pc_number(&c, &depth_delta) < 0)
			return -EINVAL;
		if (depth_delta == 0 && pc != fn->start)
			break;
		if (pc_number(&c, &pc_delta) < 0 || pc_delta == 0)
			return -EINVAL;
		if (t->steps_left-- == 0) {
			t->steps_left = 0;
			return -E2BIG;
		}
		/* Zig-zag. */
		depth = (int32_t)((uint32_t)depth + ((depth_delta >> 1) ^ (0 - (depth_delta & 1))));
		at = pc;
		pc += MIN_OF((uint64_t)pc_delta * GO_QUANTUM, fn->end - pc);
		if (depth < DEPTH_MIN || depth > DEPTH_MAX || depth % 8) {
			r = add_row(rows, at, UW_GO_DAMAGED, false);
			if (r < 0)
				return r;
			continue;
		}
		if (depth > 0 && opened == 0) {
			after = saved_after(t, fn, at, depth);
			opened = after < 0 ? -1 : depth;
			if (after > 0 && (uint64_t)after < pc - at) {
				r = add_row(rows, at, depth, false);
				at += (uint64_t)after;
			}
		}
		if (r == 0)
			r = add_row(rows, at, depth, opened > 0 && depth >= opened);
		if (r < 0)
			return r;
	}
	rows->end = pc;
	return rows->n ? 0 : -EINVAL;
}

void uw_go_rule(const struct uw_go_row *row, bool signal, struct uw_rule *ret)
{
	struct uw_rule u = {.kind = ABI_RULE_FRAME, .cfa_kind = ABI_CFA_REG, .cfa_reg = ABI_REG_SP};

	u.signal = signal;
#ifdef ABI_ARM64
	/* The return address is at the low end of the frame, the caller's frame pointer below it.
	 */
	u.cfa_off = row->depth;
	if (row->depth == 0) {
		u.col[ABI_COL_RA] = (struct uw_col){.kind = ABI_COL_REG, .val = ABI_REG_LR};
	} else {
		u.col[ABI_COL_RA] = (struct uw_col){.kind = ABI_COL_AT_CFA, .val = -row->depth};
		if (row->saved)
			u.col[ABI_REG_FP] =
			        (struct uw_col){.kind = ABI_COL_AT_CFA, .val = -row->depth - 8};
	}
#else
	u.cfa_off = row->depth + 8;
	u.col[ABI_COL_RA] = (struct uw_col){.kind = ABI_COL_AT_CFA, .val = -8};
	if (row->saved)
		u.col[ABI_REG_FP] = (struct uw_col){.kind = ABI_COL_AT_CFA, .val = -16};
#endif
	if (row->depth == UW_GO_DAMAGED)
		u = (struct uw_rule){.kind = ABI_RULE_BAD};
	*ret = u;
}
