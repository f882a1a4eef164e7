/* SPDX-License-Identifier: Apache-2.0 */
/*
 * unwind, private: rows of Go functions, from the depths of their stacks in .gopclntab
 */
#ifndef PA_UW_GO_ROWS_H
#define PA_UW_GO_ROWS_H

#include "gotab/gotab.h"
#include "unwind/unwind_priv.h"

struct uw_go_tab {
	struct gotab *tab;   /* owned */
	uint64_t steps_left; /* rows that may still be decoded */
};

#define UW_GO_DAMAGED INT32_MIN

/* From @at on the stack pointer is @depth below where it was at the entry. */
struct uw_go_row {
	uint64_t at;
	int32_t depth; /* bytes, or UW_GO_DAMAGED */
	bool saved; /* the caller's frame pointer is in the frame, right below the return address */
};
struct uw_go_rows {
	struct uw_go_row *p; /* p[n], owned; the first at the function's start */
	size_t n, cap, max;
	uint64_t end; /* of the code, without the padding after it */
};

/* Reads the table of a Go program of this processor: 0, what gotab_load gives. */
int uw_go_tab_open(struct img_file *f, const struct uw_build_limits *lim, struct uw_go_tab *ret);
void uw_go_tab_done(struct uw_go_tab *t);
/* Rows of a function, into @rows, which are emptied first: 0, -ENOENT (it has none), -EINVAL
 * (damaged), -E2BIG (over the limit of rows), -ENOMEM. */
int uw_go_tab_rows(struct uw_go_tab *t, const struct gotab_func *fn, struct uw_go_rows *rows);
/* The rule of a row; @signal: the caller's pc is exact. */
void uw_go_rule(const struct uw_go_row *row, bool signal, struct uw_rule *ret);

#endif
