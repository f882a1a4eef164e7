/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rows of one Go function that changes stacks, and searches in its instructions. x86-64 only.
 */
#include "unwind/uw_go_special.h"

#ifndef ABI_ARM64

/* ---- giving rows ----------------------------------------------------------------------------- */

int uw_special_code(struct uw_special *sp, uint64_t at, const struct uw_rule *rule)
{
	uint16_t code;
	int r;

	/* The instructions go on after the rows: one of the two is wrong. */
	if (at >= sp->rows.end)
		return 0;
	r = uw_rules_code(sp->sink->rules, sp->sink->quota, rule, &code);
	if (r == -E2BIG)
		code = ABI_CODE_BAD;
	else if (r < 0)
		return r;
	return sp->sink->row(sp->sink->arg, at, code);
}

int uw_special_row(struct uw_special *sp, uint64_t at, size_t i, bool signal)
{
	struct uw_rule rule;

	uw_go_rule(&(struct uw_go_row){at, sp->rows.p[i].depth, sp->rows.p[i].saved}, signal,
	           &rule);
	return uw_special_code(sp, at, &rule);
}

/* The ordinary rows that govern [from, to). */
int uw_special_plain(struct uw_special *sp, uint64_t from, uint64_t to, bool signal)
{
	int r = 0;

	for (size_t i = 0; i < sp->rows.n && r >= 0; i++) {
		const uint64_t end = i + 1 < sp->rows.n ? sp->rows.p[i + 1].at : sp->rows.end;

		if (end > from && sp->rows.p[i].at < to)
			r = uw_special_row(sp, MAX_OF(sp->rows.p[i].at, from), i, signal);
	}
	return r;
}

int uw_special_begin(struct uw_special *sp, uint64_t start)
{
	sp->emitted = true;
	return sp->sink->function(sp->sink->arg, start, sp->rows.end);
}

int uw_special_leaves(struct uw_special *sp)
{
	const size_t off = uw_special_after_load(sp);
	const struct uw_rule root = {.kind = ABI_RULE_ROOT};
	int r;

	if (off == 0)
		return 0;
	r = uw_special_begin(sp, sp->fn.start);
	if (r >= 0)
		r = uw_special_plain(sp, sp->fn.start, sp->fn.start + off, false);
	return r < 0 ? r : uw_special_code(sp, sp->fn.start + off, &root);
}

/* ---- reading code ---------------------------------------------------------------------------- */

/* Offset of these bytes at or after @from; SIZE_MAX if they are not there. @mask: 0 bytes match
 * all; NULL: none does. */
size_t uw_special_find(const struct uw_special *sp, size_t from, const uint8_t *want,
                       const uint8_t *mask, size_t n)
{
	for (size_t i = from; n <= sp->len && i <= sp->len - n; i++) {
		size_t k = 0;

		while (k < n && (sp->code[i + k] == want[k] || (mask && !mask[k])))
			k++;
		if (k == n)
			return i;
	}
	return SIZE_MAX;
}

/* Returns the offset after the first mov disp(%reg), %rsp; 0 if there is none. */
size_t uw_special_after_load(const struct uw_special *sp)
{
	for (size_t i = 0; i + 4 <= sp->len; i++) {
		const uint8_t *p = sp->code + i;

		if ((p[0] != 0x48 && p[0] != 0x49) || p[1] != 0x8b || (p[2] & 0x38) != 0x20 ||
		    (p[2] & 7) == 4)
			continue;
		if (p[2] >> 6 == 1)
			return i + 4;
		if (p[2] >> 6 == 2 && i + 7 <= sp->len)
			return i + 7;
	}
	return 0;
}

#endif
