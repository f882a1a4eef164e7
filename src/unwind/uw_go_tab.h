/* SPDX-License-Identifier: Apache-2.0 */
/*
 * unwind, private: .gopclntab, the table of functions that every Go program carries, stripped or
 * not
 *
 *   header: magic, quantum, size of a pointer, number of functions, (1.18 on) start of the text,
 *           places of the parts below, counted from the header (up to 1.15: all of them from it)
 *   functab: entry and place of the record of each function, ascending; then the end of the last
 * one records: entry, name, …, pcsp: place of a table "stack depth by pc" in pctab; flags
 *
 * Shapes: Go's runtime/symtab.go and runtime/runtime2.go of 1.2, 1.16, 1.18, 1.20 and 1.26.
 */
#ifndef PA_UW_GO_TAB_H
#define PA_UW_GO_TAB_H

#include "unwind/unwind_priv.h"

enum uw_go_version {
	UW_GO_12 = 12,
	UW_GO_116 = 116,
	UW_GO_118 = 118,
	UW_GO_120 = 120,
};

#define UW_GO_CODE_BYTES 65536 /* of code in memory at a time */

struct uw_go_tab {
	struct img_file *f; /* borrowed */
	uint8_t *data;      /* data[len]; owned */
	size_t len;
	enum uw_go_version version;
	uint64_t n;                 /* functions */
	uint64_t text;              /* address of entry 0 of functab; 0 before 1.18 */
	uint64_t steps_left;        /* rows that may still be decoded */
	size_t names, pctab, funcs; /* places in data, at most len */
	uint8_t *code;              /* the window of code read last: code[code_len]; owned */
	uint64_t code_at;
	size_t code_len;
};

struct uw_go_func {
	uint64_t start, end; /* virtual addresses; end: of the next function */
	const char *name;    /* borrowed from the table; "" if it has none */
	uint32_t pcsp;       /* place in pctab; 0: none */
	bool top;            /* the outermost frame of its stack */
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
	uint64_t end; /* of the code, without the padding behind it */
};

/* Reads the table of a Go program: 0, -ENOENT (none, or no version and processor that is known),
 * what img_area_load gives. */
int uw_go_tab_open(struct img_file *f, const struct uw_build_limits *lim, struct uw_go_tab *ret);
void uw_go_tab_done(struct uw_go_tab *t);
/* Function @i < n: 0, -EINVAL (damaged). */
int uw_go_tab_func(const struct uw_go_tab *t, uint64_t i, struct uw_go_func *ret);
/* Its rows, into @rows, which are emptied first: 0, -ENOENT (it has none), -EINVAL (damaged),
 * -E2BIG (over the limit of rows), -ENOMEM. */
int uw_go_tab_rows(struct uw_go_tab *t, const struct uw_go_func *fn, struct uw_go_rows *rows);
/* Code of the program: bytes got, 0 … @len. */
size_t uw_go_tab_code(struct uw_go_tab *t, uint64_t vaddr, uint8_t *buf, size_t len);
/* The rule of a row; @signal: the caller's pc is exact. */
void uw_go_rule(const struct uw_go_row *row, bool signal, struct uw_rule *ret);

#endif
