/* SPDX-License-Identifier: Apache-2.0 */
/*
 * image - one ELF file and what is in it: segments, build-id, symbols.
 *
 * The bytes belong to others: they are read with pread into bounded memory, never mapped (a file
 * that shrinks under a mapping raises SIGBUS), every offset is checked, and one bad item costs
 * that item. Thread: an img_file belongs to one thread at a time. Read by hand, without libelf:
 * 32 and 64 bits, little-endian.
 */
#ifndef PA_IMAGE_H
#define PA_IMAGE_H

#include "base/base.h"

struct img_file;

#define IMG_BUILD_ID_MAX 20

/* A PT_LOAD program header. */
struct img_segment {
	uint64_t off, vaddr, file_size, mem_size; /* bytes, addresses */
	bool exec;
};

/* A symbol with code in it, as img_symbols hands it on. */
struct img_symbol {
	uint64_t value, size; /* virtual address (file's own), bytes (0: unknown extent) */
	uint64_t limit;       /* end of its section, else of its segment; value if in neither */
	uint32_t name_off;    /* in the string table of its symbol table */
	uint8_t bind;         /* STB_* */
	uint8_t type;         /* STT_* : FUNC, GNU_IFUNC or NOTYPE */
	uint8_t table;        /* 0 .symtab, 1 .dynsym: with name_off, names the string */
};

/**
 * img_file_open - read the headers of an ELF file
 * @fd:  regular file; stays the caller's and must stay open while @ret is used
 * @ret: new object
 * Returns: 0, -ENOEXEC (not an ELF file, or big-endian), -EINVAL (not a regular file, or headers
 * that contradict themselves), -ENOMEM, or errno of pread.
 */
int img_file_open(int fd, struct img_file **ret, struct err *err);
/* The same over bytes in memory (the vDSO, fuzzing); @p stays the caller's. */
int img_file_open_mem(const void *p, size_t len, struct img_file **ret, struct err *err);
struct img_file *img_file_free(struct img_file *f);
void img_file_freep(struct img_file **f);

/* GNU build-id: length 1 … 20 in *ret_len and bytes, -ENOENT if there is none that is well-formed.
 * Looks at PT_NOTE first, then at SHT_NOTE sections. */
int img_build_id(struct img_file *f, uint8_t ret[IMG_BUILD_ID_MAX], size_t *ret_len);
/* Borrowed until img_file_free. */
size_t img_segments(const struct img_file *f, const struct img_segment **ret);
/* File offset of code to virtual address through the executable segments (page-rounded as the
 * kernel maps them). 0, -ENOENT. */
int img_off_to_vaddr(const struct img_file *f, uint64_t off, uint64_t *ret);
bool img_is_64(const struct img_file *f);
/* Items that were found damaged and skipped (symbols, notes, tables). */
uint64_t img_bad_items(const struct img_file *f);

typedef void (*img_symbol_fn)(void *arg, const struct img_symbol *sym);
/**
 * img_symbols - hand on every defined code symbol of .symtab and .dynsym, in file order
 * Streams the tables in bounded chunks: memory does not grow with the file.
 * Left out: undefined, absolute and unnamed ones, labels outside executable sections, and the
 * mapping symbols ($x, $d) of ARM and RISC-V. At most 16 million symbols of a table are looked at.
 * Returns: number handed on (>= 0), -ENOENT (there is no symbol table), -ENOMEM, or errno of pread.
 */
ssize_t img_symbols(struct img_file *f, img_symbol_fn fn, void *arg);
/* The name of a symbol into @b (appended, at most 64 KiB): 0, -ENODATA if it lies outside its table
 * or has no end, -ENOMEM or -E2BIG of @b, or errno of pread. Cheapest in order of name_off. */
int img_symbol_name(struct img_file *f, const struct img_symbol *sym, struct sbuf *b);

#endif
