/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PA_IMAGE_PRIV_H
#define PA_IMAGE_PRIV_H

#include <elf.h>

#include "image/image.h"

#define IMG_CHUNK_BYTES (64 * 1024) /* of a symbol or string table in memory at a time */
/* Program headers; linked files have 10 to 15. Few, because each symbol is searched in them. */
#define IMG_SEGMENTS_MAX 128
/* Linked files have some 40 sections; with -ffunction-sections and no merging, thousands. */
#define IMG_SECTIONS_MAX 16384
#define IMG_NOTES_MAX    128                /* note areas; linked files have 2 to 4 */
#define IMG_NOTE_BYTES   (64 * 1024)        /* bytes of one note area that are read */
#define IMG_SYMBOLS_MAX  (16 * 1024 * 1024) /* of one table; large browsers have 2 million */
#define IMG_NAME_MAX     (64 * 1024)
#define IMG_SEC_NAME_MAX 32 /* more than the longest section name that is searched for */
/* Section names in memory while they are indexed; names after them are read one by one. */
#define IMG_SEC_NAMES_BYTES (1024 * 1024)
#define IMG_BLOCK_BYTES     (64 * 1024) /* compressed data in memory at a time */

struct img_note_area {
	uint64_t off, size; /* in the file */
	uint32_t align;     /* of names and descriptors: 4 or 8 */
};

/* A section header widened to 64 bits. */
struct img_shdr {
	uint32_t name, type, link, info;
	uint64_t flags, addr, off, size, align, entsize;
};

/* PT_GNU_EH_FRAME */
struct img_eh_hdr {
	bool present;
	uint64_t off, vaddr, size;
};

struct img_section {
	uint64_t addr, end;
	bool exec;
};

/* A section, by the hash of its name. */
struct img_sec_name {
	uint64_t hash;
	uint32_t idx;
};

/* One symbol table and its strings. Both were inside the file when it was opened. */
struct img_table {
	bool present;
	uint64_t sym_off, sym_cnt;
	uint64_t str_off, str_size;
};

/* The last piece of a string table that was read. Names in order of their offset cost one pread per
 * 64 KiB. */
struct img_window {
	char *buf;    /* buf[len], IMG_CHUNK_BYTES allocated; NULL until the first name */
	uint64_t off; /* in the file */
	size_t len;
};

struct img_file {
	int fd;             /* borrowed; -EBADF in memory */
	const uint8_t *mem; /* borrowed; NULL for a file */
	uint64_t size;
	bool is64;
	uint16_t machine; /* EM_* */
	uint16_t type;    /* ET_* */
	uint64_t entry;
	struct img_eh_hdr eh_hdr;
	struct img_segment *segs;
	size_t n_segs;
	struct img_section *sections; /* by index; NULL if the file has no section headers */
	size_t n_sections;
	uint64_t shoff;    /* file offset of the section headers */
	uint32_t shstrndx; /* file offset of the section names; may be outside */
	/* Sections with a name that may be searched for, by hash, then index; made at the first
	 * search. */
	struct img_sec_name *sec_names;
	size_t n_sec_names;
	bool indexed;
	struct img_note_area notes[IMG_NOTES_MAX];
	size_t n_notes;
	struct img_table tables[2]; /* .symtab, .dynsym */
	struct img_window windows[2];
	uint64_t bad;
};

/* Reads exactly @len bytes at @off: 0, -ENODATA (past the end), errno of pread. */
int img_read(const struct img_file *f, uint64_t off, void *buf, size_t len);
/* Reads the section header at @off of the file: 0, -ENODATA, errno of pread. */
int img_read_shdr(const struct img_file *f, uint64_t off, struct img_shdr *ret);
/* Returns the executable segment that holds the virtual address @vaddr, or NULL. */
const struct img_segment *img_exec_segment(const struct img_file *f, uint64_t vaddr);
/* Finds the first section that has one of these names: wanted[0 … n). 0, -ENOENT, -ENOMEM, errno of
 * pread. Cost: O(sections) once for a file, then O(log sections). */
int img_section_lookup(struct img_file *f, const char *const *wanted, size_t n,
                       struct img_shdr *ret, const char **ret_name);

/* Output of a decoder: memory that grows as data comes, p[len]. */
struct img_out {
	uint8_t *p;
	size_t len, cap, max;
};
/* Makes room after o->len, at least a byte: 0, -E2BIG (over o->max), -ENOMEM. */
int img_out_grow(struct img_out *o);

/* Input of a decoder: compressed bytes of a file, block by block. */
struct img_in {
	const struct img_file *f;
	uint64_t off, left;
	uint8_t *block; /* block[IMG_BLOCK_BYTES], the caller's */
};
/* Reads the next block, of which there is one: 0 with *ret_len > 0, -ENODATA (cut off), errno of
 * pread. */
int img_in_next(struct img_in *in, size_t *ret_len);

#endif
