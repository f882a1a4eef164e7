/* SPDX-License-Identifier: Apache-2.0 */
/* dwarf, private: line programs, of version 2 to 5. */
#ifndef PA_DW_LINE_H
#define PA_DW_LINE_H

#include "dwarf/dwarf.h"

enum dw_line_str { DW_LINE_STR = 1, DW_LINE_LINE_STR = 2 }; /* .debug_str, .debug_line_str */

/* Input of a line program from its unit. */
struct dw_line_env {
	uint8_t address_size; /* of the unit, 4 or 8; a header of version 5 has its own */
	const char *comp_dir; /* borrowed while the program is open; "" if none */
	const char *name;     /* DW_AT_name of the unit; "" if none */
	/* Appends a string of such a section: 0, -EINVAL (outside), -ENOMEM, -E2BIG, errno. */
	int (*str)(void *arg, enum dw_line_str where, uint64_t off, struct sbuf *b);
	/* Looks up an index of .debug_str_offsets (DW_FORM_strx, split units). May be NULL. */
	int (*strx)(void *arg, uint64_t index, uint64_t *ret_off);
	void *arg;
	uint64_t *steps; /* dw_options.max_steps, counted down; the program ends at 0 */
	struct dw_stats *stats;
};

struct dw_line;

/* The row that governs an address. */
struct dw_row {
	uint64_t file; /* index for dw_line_file */
	uint32_t line, column;
	bool found;
};

/* Reads the header. @unit: bytes of .debug_line from the unit's length to the end of the section;
 * borrowed while the program is open. 0, -EINVAL (damaged; counted), -ENOTSUP (version; counted),
 * -ENOMEM. */
int dw_line_open(struct cursor unit, const struct dw_line_env *env, struct dw_line **ret);
struct dw_line *dw_line_free(struct dw_line *l);
void dw_line_freep(struct dw_line **l);
/* Finds the rows of addrs[n], ascending: the last row at or before the address in the sequence that
 * holds it. Overlapping sequences are treated as by llvm-symbolizer. 0, -ENOMEM. */
int dw_line_find(struct dw_line *l, const uint64_t *addrs, size_t n, struct dw_row *ret);
/* Appends the whole path of a file, by its number in rows, DW_AT_call_file and DW_AT_decl_file: 0,
 * -ENOENT (no such file), -ENOMEM, -E2BIG. */
int dw_line_file(struct dw_line *l, uint64_t index, struct sbuf *b);

#endif
