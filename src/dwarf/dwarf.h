/* SPDX-License-Identifier: Apache-2.0 */
/*
 * dwarf - functions, inlined calls and lines of a set of addresses, from DWARF 2 to 5.
 *
 * The bytes are untrusted. Sections are read with pread into bounded memory, through cursors; large
 * compressed ones through windows. References between entries are followed to a bounded depth. A
 * damaged item is skipped and counted.
 *
 * Only what the addresses of a call need is decoded: units are looked up by their ranges, functions
 * without a wanted address are skipped, line programs are run once, in step with the sorted
 * addresses.
 *
 * Thread: a dw_file belongs to one thread at a time.
 */
#ifndef PA_DWARF_H
#define PA_DWARF_H

#include "image/image.h"

struct dw_file;

/* Nesting of entries, and references (abstract origin, specification) followed from one entry. What
 * compilers write stays far below. */
#define DW_DEPTH_MAX  256
#define DW_REFS_MAX   16
#define DW_FRAMES_MAX 128 /* frames of one address; the outermost ones are cut */

/* Further files of a debug file, and bounds for reading it. */
struct dw_options {
	struct img_file *alt; /* dwz's common file; borrowed, NULL: none */
	struct img_file *dwp; /* package of split units; borrowed, NULL: none */
	/* Opens a split unit's file: 0 and *ret_fd, which the dw_file then owns; -ENOENT. May be
	 * NULL. @dir: DW_AT_comp_dir, "" if none. */
	int (*open_dwo)(void *arg, const char *dir, const char *name, int *ret_fd);
	void *arg;
	size_t max_bytes;   /* of memory, held and in use; 0: 64 MiB */
	uint64_t max_steps; /* entries, attributes and rows of one dw_resolve; 0: 2^28 */
};

/* One frame. Strings live during the call. */
struct dw_frame {
	const char *name;    /* DW_AT_name, NULL: none */
	const char *linkage; /* DW_AT_linkage_name, NULL: none */
	const char *file;    /* whole path: compilation directory, directory, name; NULL: unknown */
	uint32_t line;       /* of the address; in outer frames, of the call; 0: unknown */
	uint32_t column;     /* 0: unknown */
	uint32_t start_line; /* DW_AT_decl_line of the function; 0: unknown */
	bool inlined;        /* an inlined call; false: the function itself, the last frame */
};

/* Receives a frame of addrs[@i], innermost first; @last: the outermost. Frames of one address are
 * consecutive, addresses come in any order. A negative result ends dw_resolve. */
typedef int (*dw_frame_fn)(void *arg, size_t i, const struct dw_frame *frame, bool last);

/* Items that were refused so far. */
struct dw_stats {
	uint64_t bad;         /* damaged units, entries, ranges, line programs: skipped */
	uint64_t unsupported; /* of unknown version or form */
	uint64_t over_limit;  /* units over max_bytes, references or nesting too deep */
	/* compressed ones without room for their windows: their contents are missing everywhere */
	uint64_t sections_refused;
	/* units and line programs larger than the free part of max_bytes, each time */
	uint64_t units_refused;
	uint64_t over_steps;  /* calls that ended at max_steps */
	uint64_t dwo_missing; /* split units without their file, each time that one is needed */
	uint64_t bytes_peak;  /* most memory held and in use */
};

/**
 * dw_open - find the sections, and the ranges of all units
 * @f: file with .debug_info, or .debug_line alone; borrowed until dw_free, as are the files of @o
 * Returns: 0, -ENOENT (no debug information), -E2BIG (its index is over max_bytes), -EINVAL
 * (damaged from the start), -ENOMEM, errno of pread. Cost: O(units), and decompressing .debug_info
 * and .debug_aranges once if they are compressed.
 */
int dw_open(struct img_file *f, const struct dw_options *o, struct dw_file **ret);
/**
 * dw_free, dw_freep - NULL is accepted; free returns NULL
 */
struct dw_file *dw_free(struct dw_file *d);
void dw_freep(struct dw_file **d);
/**
 * dw_resolve - find the frames of addresses
 * @addrs: addrs[n], virtual addresses of @f, ascending, unique; look-up addresses
 * An address without line and function gets no frame; one with a line alone gets one without names.
 * Returns: 0 (also if parts were refused: dw_stats), -ENOMEM, errno of pread, what @fn returned.
 * Cost: the units of the addresses are decoded once.
 */
int dw_resolve(struct dw_file *d, const uint64_t *addrs, size_t n, dw_frame_fn fn, void *arg);
/**
 * dw_limit - set another max_bytes, and begin bytes_peak anew. Held memory stays.
 */
void dw_limit(struct dw_file *d, size_t max_bytes);
/**
 * dw_bytes - memory that is held between calls
 */
size_t dw_bytes(const struct dw_file *d);
/**
 * dw_stats - counts so far; borrowed until dw_free
 */
const struct dw_stats *dw_stats(const struct dw_file *d);

#endif
