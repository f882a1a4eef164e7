/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PA_IMAGE_PRIV_H
#define PA_IMAGE_PRIV_H

#include <elf.h>

#include "image/image.h"

#define IMG_CHUNK_BYTES (64 * 1024) /* of a symbol or string table in memory at a time */
/* Of program headers; linked files have 10 to 15. Small, for symbols search the segments. */
#define IMG_SEGMENTS_MAX 128
/* Linked files have some 40 sections; with -ffunction-sections and no merging, thousands. */
#define IMG_SECTIONS_MAX 16384
#define IMG_NOTES_MAX    128                /* note areas; linked files have 2 to 4 */
#define IMG_NOTE_BYTES   (64 * 1024)        /* of one note area that are looked at */
#define IMG_SYMBOLS_MAX  (16 * 1024 * 1024) /* of one table; large browsers have 2 million */
#define IMG_NAME_MAX     (64 * 1024)
#define IMG_SEC_NAME_MAX 32 /* more than the longest section name that is looked for */
/* Of the section names in memory while they are indexed; those past it are read one by one. */
#define IMG_SEC_NAMES_BYTES (1024 * 1024)
#define IMG_BLOCK_BYTES     (64 * 1024) /* of packed data in memory at a time */

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

/* A section by what its name hashes to. */
struct img_sec_name {
	uint64_t hash;
	uint32_t idx;
};

/* One symbol table and its strings. Both lie inside the file as it was at opening. */
struct img_table {
	bool present;
	uint64_t sym_off, sym_cnt;
	uint64_t str_off, str_size;
};

/* The piece of a string table that was read last: hits that are asked for in order of their
 * offset cost one pread per 64 KiB. */
struct img_window {
	char *buf;    /* buf[len], IMG_CHUNK_BYTES allocated; NULL until the first name */
	uint64_t off; /* in the file */
	size_t len;
};

struct img_file {
	int fd;             /* borrowed; -EBADF when in memory */
	const uint8_t *mem; /* borrowed; NULL when a file */
	uint64_t size;
	bool is64;
	uint16_t machine; /* EM_* */
	uint16_t type;    /* ET_* */
	uint64_t entry;
	struct img_eh_hdr eh_hdr;
	struct img_segment *segs;
	size_t n_segs;
	struct img_section *sections; /* by index; NULL when the file has no section headers */
	size_t n_sections;
	uint64_t shoff;    /* of the headers of those */
	uint32_t shstrndx; /* of their names; may be outside */
	/* Sections with a name that may be looked for, by hash, then index; made when the first is
	 * looked for. */
	struct img_sec_name *sec_names;
	size_t n_sec_names;
	bool indexed;
	struct img_note_area notes[IMG_NOTES_MAX];
	size_t n_notes;
	struct img_table tables[2]; /* .symtab, .dynsym */
	struct img_window windows[2];
	uint64_t bad;
};

/* Exactly @len bytes at @off: 0, -ENODATA (past the end), errno of pread. */
int img_read(const struct img_file *f, uint64_t off, void *buf, size_t len);
/* The section header at @off of the file: 0, -ENODATA, errno of pread. */
int img_read_shdr(const struct img_file *f, uint64_t off, struct img_shdr *ret);
/* The executable segment that holds the virtual address @vaddr, NULL if none. */
const struct img_segment *img_exec_segment(const struct img_file *f, uint64_t vaddr);
/* The first section that has one of these names: wanted[0 … n). 0, -ENOENT, -ENOMEM, errno of
 * pread. Cost: O(sections) once for a file, then O(log sections). */
int img_section_lookup(struct img_file *f, const char *const *wanted, size_t n,
                       struct img_shdr *ret, const char **ret_name);

/* What comes out of a decoder: memory that grows as data really comes, p[len]. */
struct img_out {
	uint8_t *p;
	size_t len, cap, max;
};
/* Room behind o->len, at least a byte: 0, -E2BIG (more than there may be), -ENOMEM. */
int img_out_grow(struct img_out *o);

/* What goes into one: packed bytes of a file, block by block. */
struct img_in {
	const struct img_file *f;
	uint64_t off, left;
	uint8_t *block; /* block[IMG_BLOCK_BYTES], the caller's */
};
/* The next block, of which there is one: 0 with *ret_len > 0, -ENODATA (cut off), errno of pread.
 */
int img_in_next(struct img_in *in, size_t *ret_len);

#endif
