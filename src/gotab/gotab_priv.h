/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gotab, private. Files:
 *
 *   gotab.c         bytes of the table, functions, values by pc, code
 *   gotab_open.c    finds the table, its header, and the start of the text
 *   gotab_module.c  moduledata, without symbols
 *   gotab_lines.c   frames of an address
 */
#ifndef PA_GOTAB_PRIV_H
#define PA_GOTAB_PRIV_H

#include <elf.h>

#include "gotab/gotab.h"

/* Steps for the addresses of a table, whatever it contains; a compiler's largest functions have
 * 10^5. */
#define GOTAB_STEPS_MAX (64ULL << 20)

enum gotab_version {
	GOTAB_12 = 12,
	GOTAB_116 = 116,
	GOTAB_118 = 118,
	GOTAB_120 = 120,
};

/* Bytes of the file, read on demand. Windows overlap: an item that begins in one and is no longer
 * than GOTAB_OVERLAP is in it as a whole. */
#define GOTAB_WINDOW       16384
#define GOTAB_OVERLAP      4096
#define GOTAB_WINDOW_STEPS 1000 /* reading a window takes as long as decoding so many steps */
struct gotab_window {
	uint64_t i; /* index: the window begins at i * GOTAB_WINDOW in the file */
	uint8_t *p; /* p[len]; owned; NULL: empty */
	size_t len;
};

/* Tables "value by pc" that symbolization reads. */
enum gotab_kind {
	GOTAB_FILES,
	GOTAB_LINES,
	GOTAB_CALLS,
	GOTAB_KINDS,
};

struct gotab {
	struct img_file *f; /* borrowed */
	uint8_t *data;      /* data[len], the whole table; owned; NULL: read through windows */
	struct gotab_window *windows;
	size_t n_windows, window_bytes; /* window_bytes: memory of all windows */

	uint64_t off, len; /* offset in the file, bytes of the table */
	uint64_t vaddr;    /* address of the table; 0: unknown */
	bool arm64;
	uint8_t quantum; /* unit of pcs, in bytes */
	enum gotab_version version;
	uint64_t n; /* number of functions */
	/* Offsets in the table, at most len. cutab and filetab: from 1.16 on. */
	uint64_t names, cutab, filetab, pctab, funcs;
	uint64_t text;   /* address of entry 0 of functab; 0 before 1.18 */
	uint64_t gofunc; /* address that offsets of trees count from; 0: unknown, or before 1.18 */

	uint8_t *code; /* the last window of code: code[code_len]; owned; NULL: none yet */
	uint64_t code_at;
	size_t code_len;

	/* For symbolization. */
	struct sbuf name, file, print;
	uint64_t file_at; /* offset of the name in file; 0: none */
	/* Position of the last look-up in each kind of table: the next one is often after it. */
	struct gotab_values ended[GOTAB_KINDS];
	uint32_t ended_at[GOTAB_KINDS]; /* offset of the table in pctab; 0: none */
	uint64_t steps_left; /* left of the budget: steps of values, or work that takes as long */
};

/* A function's record. */
struct gotab_record {
	uint64_t start, end;
	uint32_t name, pcsp, pcfile, pcln, npcdata, cu, start_line;
	uint8_t func_id, flag, nfuncdata;
	uint64_t pcdata; /* offset of pcdata[npcdata] in the table; funcdata follows */
};

/* ---- gotab.c --------------------------------------------------------------------------------- */

/* Charges the budget. Returns false if it is used up. */
bool gotab_spend(struct gotab *t, uint64_t steps);
/* Returns bytes of the table from @off on: all, or with windows at least GOTAB_OVERLAP of them.
 * Empty past its end, or if they cannot be read. Valid until the next call. */
struct cursor gotab_at(struct gotab *t, uint64_t off);
/* Returns bytes at an address of a segment, in the same way. */
struct cursor gotab_at_vaddr(struct gotab *t, uint64_t vaddr);
/* Reads @len bytes of the file: false if they are not there. */
bool gotab_read_off(struct gotab *t, uint64_t off, void *buf, size_t len);
/* Reads the entry of function @i, or the end of the last one for @i == n, as it is in the table. 0,
 * -EINVAL. */
int gotab_entry(struct gotab *t, uint64_t i, uint64_t *ret_entry, uint64_t *ret_record);
int gotab_record_read(struct gotab *t, uint64_t i, struct gotab_record *ret);

/* ---- gotab_module.c -------------------------------------------------------------------------- */

/* Sets t->text and t->gofunc, if moduledata is found. 1.18 on. */
bool gotab_module_find(struct gotab *t);

#endif
