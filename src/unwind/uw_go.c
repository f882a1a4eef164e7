/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rows of Go functions from .gopclntab, the only source in a stripped Go program. It has more than
 * the program's .debug_frame, which lacks the caller's frame pointer.
 */
#include "unwind/uw_go_rows.h"

/* Cache of the codes of common depths. */
#define DEPTHS 256

struct reader {
	struct uw_sink *sink;
	uint16_t code[2][DEPTHS]; /* by saved and depth / 8; 0: not looked up yet */
};

static int code_of(struct reader *rd, const struct uw_go_row *row, uint16_t *ret)
{
	const bool cached = row->depth >= 0 && row->depth / 8 < DEPTHS;
	struct uw_rule rule;
	int r;

	if (row->depth == UW_GO_DAMAGED) {
		*ret = ABI_CODE_BAD;
		return 0;
	}
	if (cached && rd->code[row->saved][row->depth / 8]) {
		*ret = rd->code[row->saved][row->depth / 8];
		return 0;
	}
	uw_go_rule(row, false, &rule);
	r = uw_rules_code(rd->sink->rules, rd->sink->quota, &rule, ret);
	if (r == -E2BIG) { /* counted there; the rows stay, with the code BAD */
		*ret = ABI_CODE_BAD;
		r = 0;
	}
	if (r == 0 && cached)
		rd->code[row->saved][row->depth / 8] = *ret;
	return r;
}

static int give_function(struct reader *rd, const struct gotab_func *fn,
                         const struct uw_go_rows *rows)
{
	struct uw_sink *s = rd->sink;
	uint16_t code;
	int r;

	if (fn->top) {
		r = s->function(s->arg, fn->start, fn->end);
		return r < 0 ? r : s->row(s->arg, fn->start, ABI_CODE_ROOT);
	}
	r = s->function(s->arg, fn->start, rows->end);
	for (size_t i = 0; i < rows->n && r >= 0; i++) {
		r = code_of(rd, &rows->p[i], &code);
		if (r >= 0)
			r = s->row(s->arg, rows->p[i].at, code);
	}
	return r;
}

int uw_go_read(struct img_file *f, struct uw_sink *sink, const struct uw_build_limits *lim)
{
	_cleanup_(uw_go_tab_done) struct uw_go_tab t = {0};
	struct reader rd = {.sink = sink};
	struct uw_go_rows rows = {0};
	struct gotab_func fn;
	int r;

	r = uw_go_tab_open(f, lim, &t);
	if (r == -EINVAL || r == -ENODATA) {
		sink->stats->bad_entries++;
		return -ENOENT;
	}
	if (r < 0)
		return r;
	for (uint64_t i = 0; i < gotab_count(t.tab); i++) {
		sink->stats->entries++;
		r = gotab_func(t.tab, i, &fn);
		if (r == 0 && !fn.top)
			r = uw_go_tab_rows(&t, &fn, &rows);
		if (r == -EINVAL || r == -ENOENT) {
			/* One damaged function costs that one; some have no table. */
			sink->stats->bad_entries += r == -EINVAL;
			r = 0;
			continue;
		}
		if (r == 0)
			r = give_function(&rd, &fn, &rows);
		if (r < 0)
			break;
	}
	free(rows.p);
	return r < 0 ? r : 0;
}
