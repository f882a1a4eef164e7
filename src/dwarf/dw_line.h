/* SPDX-License-Identifier: Apache-2.0 */
/* dwarf, private: line programs, of version 2 to 5. */
#ifndef PA_DW_LINE_H
#define PA_DW_LINE_H

#include "dwarf/dwarf.h"

enum dw_line_str { DW_LINE_STR = 1, DW_LINE_LINE_STR = 2 }; /* .debug_str, .debug_line_str */

/* What a line program needs to know of its unit. */
struct dw_line_env {
	uint8_t address_size; /* of the unit, 4 or 8; version 5 has its own */
	const char *comp_dir; /* borrowed while the program is open; "" if none */
	const char *name;     /* DW_AT_name of the unit; "" if none */
	/* Appends a string of such a section: 0, -EINVAL (outside), -ENOMEM, -E2BIG, errno. */
	int (*str)(void *arg, enum dw_line_str where, uint64_t off, struct sbuf *b);
	/* An index of .debug_str_offsets (DW_FORM_strx, split units) to its offset; may be NULL. */
	int (*strx)(void *arg, uint64_t index, uint64_t *ret_off);
	void *arg;
	uint64_t *steps; /* of dw_options.max_steps, counted down; at 0 the program ends */
	struct dw_stats *stats;
};

struct dw_line;

/* The row that governs an address. */
struct dw_row {
	uint64_t file; /* index for dw_line_file */
	uint32_t line, column;
	bool found;
};

/* Reads the header. @unit: bytes of .debug_line from the unit's length on, up to the end of the
 * section; borrowed while it is open. 0, -EINVAL (damaged; counted), -ENOTSUP (version; counted),
 * -ENOMEM. */
int dw_line_open(struct cursor unit, const struct dw_line_env *env, struct dw_line **ret);
struct dw_line *dw_line_free(struct dw_line *l);
void dw_line_freep(struct dw_line **l);
/* Rows of addrs[n], ascending, into ret[n]: the last row at or before the address in the sequence
 * that holds it, as llvm-symbolizer chooses it where sequences overlap. 0, -ENOMEM. */
int dw_line_find(struct dw_line *l, const uint64_t *addrs, size_t n, struct dw_row *ret);
/* Whole path of a file as DW_AT_call_file, DW_AT_decl_file and rows number it: 0 (appended),
 * -ENOENT (no such file), -ENOMEM, -E2BIG. */
int dw_line_file(struct dw_line *l, uint64_t index, struct sbuf *b);

#endif
