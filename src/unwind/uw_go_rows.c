/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rows of Go functions: the depth of the stack at each pc.
 *
 * .gopclntab has only the depth of the stack. Whether the caller's frame pointer is right below the
 * return address is a property of the code, so the instructions that open a frame are read.
 */
#include <elf.h>

#include "unwind/uw_go_rows.h"

#ifdef ABI_ARM64
#define GO_MACHINE EM_AARCH64
#else
#define GO_MACHINE EM_X86_64
#endif

/* Deepest frame that a rule can have; runtime.call1073741824 has one of 1 GiB. */
#define DEPTH_MAX (INT32_MAX - 16)
/* syscall.rawVforkSyscall pops its return address, which stays below the stack pointer meanwhile.
 */
#ifdef ABI_ARM64
#define DEPTH_MIN 0
#else
#define DEPTH_MIN (-8)
#endif

int uw_go_tab_open(struct img_file *f, const struct uw_build_limits *lim, struct uw_go_tab *ret)
{
	const uint64_t max = lim && lim->area_bytes ? lim->area_bytes : 1ULL << 30;
	const uint64_t rows = lim && lim->rows ? lim->rows : 64ULL << 20;
	struct uw_go_tab t = {.steps_left = rows};
	int r;

	if (img_machine(f) != GO_MACHINE)
		return -ENOENT;
	r = gotab_load(f, (size_t)MIN_OF(max, (uint64_t)SIZE_MAX), &t.tab);
	if (r < 0)
		return r;
	*ret = t;
	return 0;
}

void uw_go_tab_done(struct uw_go_tab *t)
{
	gotab_freep(&t->tab);
}

/* Returns the bytes from the opening of a frame to the instruction that has saved the caller's
 * frame pointer; -1 if it is not saved. @at: the stack pointer has just moved from 0 to @depth
 * below the entry. */
static int saved_after(struct gotab *t, const struct gotab_func *fn, uint64_t at, int32_t depth)
{
#ifdef ABI_ARM64
	/* str x29, [sp, #-8] is the next instruction, or stp before sp moved. */
	static const uint8_t str_fp[4] = {0xfd, 0x83, 0x1f, 0xf8};
	uint8_t b[4];

	(void)fn;
	(void)depth;
	if (gotab_code(t, at, b, 4) == 4 && memcmp(b, str_fp, 4) == 0)
		return 4;
	return 0;
#else
	uint8_t b[8];
	int32_t disp;

	/* push %rbp */
	if (depth == 8 && at > fn->start && gotab_code(t, at - 1, b, 1) == 1 && b[0] == 0x55)
		return 0;
	/* mov %rbp, depth - 8(%rsp), in the shortest form */
	if (gotab_code(t, at, b, 5) == 5 && b[0] == 0x48 && b[1] == 0x89 && b[3] == 0x24) {
		if (b[2] == 0x2c && depth == 8)
			return 4;
		if (b[2] == 0x6c && b[4] == depth - 8)
			return 5;
		if (b[2] == 0xac && gotab_code(t, at, b, 8) == 8) {
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

int uw_go_tab_rows(struct uw_go_tab *t, const struct gotab_func *fn, struct uw_go_rows *rows)
{
	int32_t opened = 0; /* depth from which on the frame pointer is kept */
	struct gotab_values v;
	int r, after;

	rows->n = 0;
	rows->max = SIZE_MAX / sizeof(*rows->p);
	rows->end = fn->start;
	if (fn->pcsp == 0)
		return -ENOENT;
	gotab_values_begin(t->tab, fn->pcsp, fn->start, fn->end, &v);
	while ((r = gotab_values_next(t->tab, &v)) > 0) {
		const int32_t depth = v.value;
		uint64_t at = v.from;

		if (t->steps_left-- == 0) {
			t->steps_left = 0;
			return -E2BIG;
		}
		if (depth < DEPTH_MIN || depth > DEPTH_MAX || depth % 8) {
			r = add_row(rows, at, UW_GO_DAMAGED, false);
			if (r < 0)
				return r;
			continue;
		}
		r = 0;
		if (depth > 0 && opened == 0) {
			after = saved_after(t->tab, fn, at, depth);
			opened = after < 0 ? -1 : depth;
			if (after > 0 && (uint64_t)after < v.to - at) {
				r = add_row(rows, at, depth, false);
				at += (uint64_t)after;
			}
		}
		if (r == 0)
			r = add_row(rows, at, depth, opened > 0 && depth >= opened);
		if (r < 0)
			return r;
	}
	if (r < 0)
		return r;
	rows->end = v.to;
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
