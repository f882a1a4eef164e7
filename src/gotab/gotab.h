/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gotab - .gopclntab, the table of functions that every Go program has, stripped or not: functions,
 * names, files, lines, inlined calls, and the depth of the stack at each instruction.
 *
 *   header: magic, quantum, size of a pointer, number of functions, (1.18 on) start of the text,
 *           offsets of the parts below from the header (up to 1.15 all offsets count from there)
 *   functab: entry and offset of the record of each function, ascending; then the end of the last
 *   records: entry, name, …; offsets of tables "value by pc" in pctab: depth of the stack, file,
 *           line, index in the tree of inlined calls; flags
 *   tree of inlined calls: outside of the table; since 1.18 only "moduledata" leads to it
 *
 * Formats: Go's runtime/symtab.go, runtime/symtabinl.go and runtime/runtime2.go of 1.2, 1.12, 1.16,
 * 1.18, 1.20 and 1.26. Processors: x86-64 and arm64.
 *
 * The bytes are untrusted: they are read through cursors, and a damaged item is skipped.
 * Thread: a gotab belongs to one thread at a time, the one of its img_file.
 */
#ifndef PA_GOTAB_H
#define PA_GOTAB_H

#include "image/image.h"

struct gotab;

/**
 * gotab_load - read the whole table, to walk over it
 * @f:         Go program; open while @ret is used
 * @max_bytes: a larger table is refused
 * Returns: 0, -ENOENT (none, or of an unknown version or processor), -E2BIG, -EINVAL and -ENODATA
 * (damaged), -ENOMEM, errno of pread.
 * Cost: reads all of it, and code until runtime.goexit is found.
 */
int gotab_load(struct img_file *f, size_t max_bytes, struct gotab **ret);
/**
 * gotab_open - open the table for symbolization: it is read through windows
 * @max_bytes: limit of the windows; at least 80 KiB are used. The table may be larger, except a
 *             compressed one, which no linker makes: that is held as a whole.
 * Returns: as gotab_load. Cost: reads the header, and data segments until one has the table.
 */
int gotab_open(struct img_file *f, size_t max_bytes, struct gotab **ret);
/**
 * gotab_free, gotab_freep - NULL is accepted; free returns NULL
 */
struct gotab *gotab_free(struct gotab *t);
void gotab_freep(struct gotab **t);
/**
 * gotab_count, gotab_bytes - number of functions; memory held, in bytes
 */
uint64_t gotab_count(const struct gotab *t);
size_t gotab_bytes(const struct gotab *t);

/* ---- functions ------------------------------------------------------------------------------- */

struct gotab_func {
	uint64_t start, end; /* virtual addresses; end: entry of the next function */
	/* "" if it has none, or one of more than 255 bytes. Borrowed: with gotab_load until
	 * gotab_free, else until the next call. */
	const char *name;
	uint32_t pcsp; /* offset in pctab of the depth of the stack; 0: none */
	bool top;      /* the outermost frame of its stack */
};
/**
 * gotab_func - read function @i < gotab_count
 * Returns: 0, -EINVAL (damaged).
 */
int gotab_func(struct gotab *t, uint64_t i, struct gotab_func *ret);

/* A table "value by pc" of one function: for (gotab_values_begin(…); (r = gotab_values_next(…)) >
 * 0;) @value is valid from @from to @to. */
struct gotab_values {
	uint64_t from, to; /* virtual addresses */
	int32_t value;
	/* private */
	uint64_t start, end, at;
	struct cursor c;
};
/**
 * gotab_values_begin, gotab_values_next - read such a table
 * @pctab_at: its offset in pctab, not 0
 * @start, @end: of the function
 * Each step is at least one instruction long, so there are no more steps than bytes of code.
 * Returns: 1, 0 (its end, or that of the function), -EINVAL (damaged).
 */
void gotab_values_begin(struct gotab *t, uint32_t pctab_at, uint64_t start, uint64_t end,
                        struct gotab_values *ret);
int gotab_values_next(struct gotab *t, struct gotab_values *v);

#define GOTAB_CODE_BYTES 65536 /* of code in memory at a time */
/**
 * gotab_code - read code of the program
 * Returns: bytes read, 0 … @len, which is at most GOTAB_CODE_BYTES.
 */
size_t gotab_code(struct gotab *t, uint64_t vaddr, uint8_t *buf, size_t len);

/* ---- names of addresses ---------------------------------------------------------------------- */

/* One frame. Strings live during the call. */
struct gotab_frame {
	const char *name;    /* "main.(*T).run", as the program's own tracebacks print it */
	const char *file;    /* NULL: unknown */
	uint32_t line;       /* of the address; in outer frames, of the call; 0: unknown */
	uint32_t start_line; /* of the function; 0: unknown (before Go 1.20) */
	bool inlined;        /* false: the function itself, the last frame */
};
/* Receives a frame, innermost first. A negative result ends gotab_resolve. */
typedef int (*gotab_frame_fn)(void *arg, const struct gotab_frame *frame, bool last);
/**
 * gotab_resolve - find the function at an address, and the calls in it that were inlined
 * @vaddr: address in the file, ready for look-up
 * As in Go's own tracebacks, type arguments are printed as "[...]". A wrapper that the compiler
 * made is left out if the function that it calls was inlined into it; the last frame is that of the
 * function then.
 * Returns: 0, -ENOENT (no Go function there), -EINVAL (it is damaged), -ENOMEM, the result of @fn.
 * Cost: O(log functions), and the part of its function's tables before @vaddr, or since the
 * previous address if they ascend: 2 to 10 us. A hostile table runs into a budget of steps; its
 * frames then have no lines and no inlined calls.
 */
int gotab_resolve(struct gotab *t, uint64_t vaddr, gotab_frame_fn fn, void *arg);

#endif
