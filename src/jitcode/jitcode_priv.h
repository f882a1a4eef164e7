/* SPDX-License-Identifier: Apache-2.0 */
/*
 * JIT code of one process, private.
 *
 *   jitcode_core.c   the functions by address and time
 *   jitcode_map.c   lines of a perf map
 *   jitcode_dump.c  records of a jitdump
 *   jitcode_text.c  names as the run times write them
 */
#ifndef PA_JITCODE_PRIV_H
#define PA_JITCODE_PRIV_H

#include "jitcode/jitcode.h"

#include <sys/stat.h>

/* Larger than any address of a process, with five-level page tables too. */
#define JITCODE_ADDR_END (1ULL << 56)
/* V8 reserves 2 GiB for all of its code; one function larger than this is damage, and would hide
 * everything else. */
#define JITCODE_SIZE_MAX (1ULL << 31)
/* .NET writes generic types out in full: some KiB. */
#define JITCODE_NAME_MAX 16384
/* Bytes read in one call, so that the tracker thread can do other work between calls; and at the
 * end of the capture. */
#define JITCODE_READ_BYTES       (1U << 20)
#define JITCODE_READ_FINAL_BYTES (256U << 20)
#define JITCODE_WINDOW_BYTES     65536
#define JITCODE_DUMP_RECORDS     16384
/* Bytes read of a perf-map at most: it may be endless, or have a hole. */
#define JITCODE_FILE_BYTES_MAX (1ULL << 30)

/* State of a file between two readings. */
#define JITCODE_TAIL_BYTES 64
struct jitcode_file {
	dev_t dev;
	ino_t ino;
	bool known;
	uint64_t off;    /* all before it was read and understood */
	uint32_t n_tail; /* tail[n_tail]: the bytes before off. They detect a file that was written
	                  * anew and has grown past off. */
	uint8_t tail[JITCODE_TAIL_BYTES];
};

/* Machine code from one address of a function on. */
struct jitcode_row {
	uint32_t off; /* bytes from the start of the code */
	uint32_t line;
	uint32_t file; /* offset in names; JITCODE_NO_FILE */
};
#define JITCODE_NO_FILE UINT32_MAX

/* A function, or one version of it. */
struct jitcode_fn {
	uint32_t name; /* offset in names */
	uint32_t row, n_rows;
	uint32_t id; /* shared by entries of two sources, or two lines, about the same code */
	bool timed;  /* from a jitdump */
};

/* An address range that holds a function from a time on. An item of an interval map. */
struct jitcode_piece {
	uint64_t start, end; /* end exclusive */
	uint64_t origin;     /* first address of the code; other code may cover it up to start */
	uint64_t begin_ns;
	uint32_t code; /* index of codes */
	uint32_t pad;
};
struct jitcode_past {
	struct jitcode_piece p;
	uint64_t end_ns; /* > p.begin_ns */
};

/* Debug information whose code has not been read yet. */
#define JITCODE_PENDING 64
struct jitcode_pending {
	uint64_t addr;
	uint32_t row, n_rows; /* 0: free */
};

struct jitcode {
	struct jitcode_stats stats;
	size_t max_bytes;
	bool full;                /* max_bytes was reached */
	bool no_index;            /* no memory for the index of past pieces */
	bool more_map, more_dump; /* the last reading stopped at its bound, before the end */
	VEC(char) names;          /* NUL-terminated, one after the other */
	VEC(struct jitcode_fn) codes;
	VEC(struct jitcode_row) rows;
	struct imap pieces; /* struct jitcode_piece: the code that is there now */
	VEC(struct jitcode_past) past;

	/* Index of past pieces by address and time, built at the first look-up. It is a segment
	 * tree over the boundaries bounds[n_bounds] of the pieces. Node i holds the pieces
	 * items[first[i] … first[i + 1]), each of which covers the whole node, in order of time. */
	bool indexed;
	uint64_t *bounds;
	uint32_t n_bounds;
	uint32_t *first, *items;
	size_t index_bytes;

	struct jitcode_file map, dump;
	bool map_begun; /* its end was reached once: later lines are new code */
	bool map_skip;  /* in a line that is too long */
	bool dump_bad, arch_time;
	uint64_t dump_time_ns;
	struct jitcode_pending pending[JITCODE_PENDING];
	uint32_t next_pending;
	uint32_t last_file;     /* of names, of the row before */
	uint8_t *window;        /* window[JITCODE_WINDOW_BYTES] while a file is read */
	struct sbuf name, file; /* of the last jitcode_find */
};

/* ---- jitcode_core.c ---- */

/* Memory that one more function may need, besides its name and the pieces that it replaces. */
#define JITCODE_ENTRY_BYTES                                                                        \
	(sizeof(struct jitcode_fn) + 6 * sizeof(struct jitcode_piece) + sizeof(struct jitcode_past))

/* Whether @more bytes fit the limit; if not, the caller counts it. */
bool jitcode_has_room(const struct jitcode *j, size_t more);
/* Stores a name of @len bytes. Returns: 0, -E2BIG, -ENOMEM. */
int jitcode_name_add(struct jitcode *j, const char *name, size_t len, uint32_t *ret);
/* Adds code at [@start, @start + @size), a checked range, from @time_ns on. @code has no id yet.
 * Returns: 1 (it replaced other code), 0 (also: over the limit, which is counted), -ENOMEM. */
int jitcode_put(struct jitcode *j, uint64_t start, uint64_t size, uint64_t time_ns,
                const struct jitcode_fn *code);
/* Counts code over the limit, and removes the pieces that it replaces: no address may keep the name
 * of older code. */
void jitcode_lose(struct jitcode *j, uint64_t start, uint64_t size);
/* Returns the current piece that holds @addr, or NULL. Borrowed until the next jitcode_put. */
const struct jitcode_piece *jitcode_now(const struct jitcode *j, uint64_t addr);
bool jitcode_range_ok(uint64_t start, uint64_t size);
/* Compares @fd with the file that was read before, by inode, size and tail; another file is read
 * from its beginning. Returns: 0, errno of fstat or pread, -EINVAL (not a regular file). *ret_size:
 * bytes of the file. */
int jitcode_file_check(struct jitcode_file *f, int fd, uint64_t *ret_size, bool *ret_anew);
/* Records that everything before @off was read. @window holds the bytes from @window_off on. */
void jitcode_file_advance(struct jitcode_file *f, uint64_t off, const uint8_t *window,
                          uint64_t window_off);

/* ---- jitcode_text.c ---- */

/* Splits the text of a runtime into name and file (empty: none). Returns: 0, -ENOMEM. */
int jitcode_name_split(const char *text, struct sbuf *ret_name, struct sbuf *ret_file,
                       uint32_t *ret_line, uint32_t *ret_column);

#endif
