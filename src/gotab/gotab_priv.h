/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gotab, private: the pieces behind gotab.h.
 *
 *   gotab.c         bytes of the table, functions, values by pc, code
 *   gotab_open.c    where the table is, its header, where the text starts
 *   gotab_module.c  moduledata, without symbols
 *   gotab_lines.c   frames of an address
 */
#ifndef PA_GOTAB_PRIV_H
#define PA_GOTAB_PRIV_H

#include <elf.h>

#include "gotab/gotab.h"

/* Of naming a table's addresses, whatever it holds; a compiler's largest functions have 10^5. */
#define GOTAB_STEPS_MAX (64ULL << 20)

enum gotab_version {
	GOTAB_12 = 12,
	GOTAB_116 = 116,
	GOTAB_118 = 118,
	GOTAB_120 = 120,
};

/* Bytes of the file, read when they are needed. Windows overlap, so that what begins in one and is
 * no longer than GOTAB_OVERLAP lies in it whole. */
#define GOTAB_WINDOW       16384
#define GOTAB_OVERLAP      4096
#define GOTAB_WINDOW_STEPS 1000 /* reading one takes as long as decoding so many steps */
struct gotab_window {
	uint64_t i; /* which: begins at i * GOTAB_WINDOW in the file */
	uint8_t *p; /* p[len]; owned; NULL: empty */
	size_t len;
};

/* Tables "value by pc" that naming reads. */
enum gotab_kind {
	GOTAB_FILES,
	GOTAB_LINES,
	GOTAB_CALLS,
	GOTAB_KINDS,
};

struct gotab {
	struct img_file *f; /* borrowed */
	uint8_t *data;      /* data[len], the whole table; owned; NULL: read by windows */
	struct gotab_window *windows;
	size_t n_windows, window_bytes; /* window_bytes: held by all of them */

	uint64_t off, len; /* of the table: in the file, bytes */
	uint64_t vaddr;    /* of the table; 0: unknown */
	bool arm64;
	uint8_t quantum; /* bytes: pcs count in it */
	enum gotab_version version;
	uint64_t n; /* functions */
	/* Places in the table, at most len. cutab and filetab: from 1.16 on. */
	uint64_t names, cutab, filetab, pctab, funcs;
	uint64_t text;   /* address of entry 0 of functab; 0 before 1.18 */
	uint64_t gofunc; /* address that places of trees count from; 0: unknown, or before 1.18 */

	uint8_t *code; /* the window of code read last: code[code_len]; owned; NULL: none yet */
	uint64_t code_at;
	size_t code_len;

	/* Naming. */
	struct sbuf name, file, print;
	uint64_t file_at; /* what file holds; 0: nothing */
	/* Where the last look-up in each kind of table ended: the next is often behind it. */
	struct gotab_values ended[GOTAB_KINDS];
	uint32_t ended_at[GOTAB_KINDS]; /* place of the table in pctab; 0: none */
	uint64_t steps_left; /* what naming may still do: steps of values, or what takes as long */
};

/* A function's record. */
struct gotab_record {
	uint64_t start, end;
	uint32_t name, pcsp, pcfile, pcln, npcdata, cu, start_line;
	uint8_t func_id, flag, nfuncdata;
	uint64_t pcdata; /* place of pcdata[npcdata] in the table; funcdata follows */
};

/* ---- gotab.c --------------------------------------------------------------------------------- */

/* Takes from the budget: false where it is used up. */
bool gotab_spend(struct gotab *t, uint64_t steps);
/* Bytes of the table from @off on: all, or with windows at least GOTAB_OVERLAP of them; empty past
 * its end or where they cannot be read. Until the next call. */
struct cursor gotab_at(struct gotab *t, uint64_t off);
/* Bytes at an address of a segment, in the same way. */
struct cursor gotab_at_vaddr(struct gotab *t, uint64_t vaddr);
/* @len bytes of the file: false where they are not there. */
bool gotab_read_off(struct gotab *t, uint64_t off, void *buf, size_t len);
/* Entry of function @i, the end of the last one for @i == n; as it stands in the table. 0, -EINVAL.
 */
int gotab_entry(struct gotab *t, uint64_t i, uint64_t *ret_entry, uint64_t *ret_record);
int gotab_record_read(struct gotab *t, uint64_t i, struct gotab_record *ret);

/* ---- gotab_module.c -------------------------------------------------------------------------- */

/* t->text and t->gofunc, where moduledata is found. 1.18 on. */
bool gotab_module_find(struct gotab *t);

#endif
