/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by the two files of line programs: dw_line.c reads headers, dw_rows.c runs programs. */
#ifndef PA_DW_LINE_PRIV_H
#define PA_DW_LINE_PRIV_H

#include "dwarf/dw_line.h"
#include "dwarf/dwarf_priv.h"

/* Storage of a string: in the unit itself, in a string section, or at an index of one. */
enum text_kind { TEXT_NONE = 0, TEXT_HERE, TEXT_STR, TEXT_LINE_STR, TEXT_STRX };
struct text {
	enum text_kind kind;
	const char *s; /* TEXT_HERE; borrowed from the unit */
	uint64_t v;    /* offset or index */
};

/* One entry of a table. */
struct entry {
	struct text path;
	uint64_t dir;
};

typedef VEC(uint32_t) offset_vec;

struct format {
	uint8_t n;
	struct {
		uint16_t content, form; /* UINT16_MAX: unknown */
	} item[UINT8_MAX];
};

struct dw_line {
	struct dw_line_env env;
	struct cursor unit; /* the whole unit; offsets below count from its first byte */
	struct cursor program;
	uint16_t version;
	bool is64; /* format: offsets have 8 bytes */
	uint8_t address_size;
	uint8_t min_insn_bytes;
	int8_t line_base;
	uint8_t line_range, opcode_base;
	const uint8_t *operands; /* operands[opcode_base - 1] of standard opcodes 1 and up */
	struct format dir_format, file_format; /* version 5 */
	offset_vec dirs, files;                /* offsets of entries in the unit */
	/* entries of the header; those after it are defined by the program */
	size_t header_files;
};

/* Returns false if no step is left. */
static inline bool step(struct dw_line *l)
{
	if (*l->env.steps == 0)
		return false;
	--*l->env.steps;
	return true;
}

/**
 * dw_line_old_file - read a file of versions 2 to 4, or of DW_LNE_define_file
 * Returns: 0, -ENODATA, -ERANGE.
 */
int dw_line_old_file(struct cursor *c, struct entry *ret);
/**
 * dw_line_note - keep the position of a table's entry
 * @p: inside the unit, which is below 4 GiB
 * Returns: 0, -E2BIG (counted), -ENOMEM.
 */
int dw_line_note(struct dw_line *l, offset_vec *v, const uint8_t *p);

#endif
