/* SPDX-License-Identifier: Apache-2.0 */
/* listing, private - what the files of the module share. */
#ifndef PA_LST_PRIV_H
#define PA_LST_PRIV_H

#include "image/image.h"
#include "listing/listing.h"

struct lst {
	struct lst_options o;
	/* the last source file */
	struct sbuf source, source_path;
	/* the last program or library */
	int fd;
	struct arena symbols;
	/* its last disassembly; texts are in .output */
	struct sbuf output;
	VEC(struct ev_instruction) instructions;
};

/**
 * lst_find_symbols - find the symbols of sites that have none yet
 * @sites: sites[n]; .addr is set, 0: none
 * @mem:   gets the names
 * Returns: 0, -ENOMEM. A file without symbols is no error. Cost: O(symbols * log n) and a bounded
 * number of comparisons for symbols that overlap.
 */
int lst_find_symbols(struct img_file *f, struct ev_site *sites, size_t n, struct arena *mem);

/**
 * lst_objdump - run objdump on a range of addresses of a file
 * @fd:  a regular file
 * @out: gets what it prints
 * Returns: as lst_instructions, but any output is accepted.
 */
int lst_objdump(int fd, uint64_t start, uint64_t end, struct sbuf *out, struct err *err);

#endif
