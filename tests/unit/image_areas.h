/* SPDX-License-Identifier: Apache-2.0 */
/*
 * image-areas - a file whose areas have known bytes
 */
#ifndef PA_TEST_IMAGE_AREAS_H
#define PA_TEST_IMAGE_AREAS_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <fcntl.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <zlib.h>
#include <zstd.h>
#include "elf_builder.h"
#include "image/image.h"

/* Layout: header, program headers (text, data, PT_GNU_EH_FRAME), then at 0x1000 text, at 0x2000 the
 * section's bytes, then names, then section headers. Addresses are offsets + 0x400000. */
#define TEXT_OFF 0x1000
#define PART_OFF 0x2000
#define BIAS     0x400000
#define N_SECS   4 /* null, text, the part, names */

struct opts {
	bool is32;
	const char *name; /* of the section; NULL: no section headers */
	const void *bytes;
	size_t len;
	uint32_t type;              /* 0: SHT_PROGBITS */
	uint64_t flags;             /* SHF_ALLOC: it has an address */
	uint64_t hdr_off, hdr_size; /* PT_GNU_EH_FRAME; size 0: none */
	uint64_t entry;
};

static inline struct img_file *build(const struct opts *o, struct sbuf *b)
{
	const size_t ehdr = o->is32 ? sizeof(Elf32_Ehdr) : sizeof(Elf64_Ehdr);
	const size_t shdr = o->is32 ? sizeof(Elf32_Shdr) : sizeof(Elf64_Shdr);
	const size_t phdr = o->is32 ? sizeof(Elf32_Phdr) : sizeof(Elf64_Phdr);
	size_t names, shoff, part_end;
	struct img_file *f = NULL;
	Elf64_Ehdr e = {0};
	Elf32_Ehdr e32 = {0};

	sbuf_init(b, 64 << 20);
	eb_pad(b, ehdr + 3 * phdr);
	eb_pad(b, PART_OFF);
	sbuf_add(b, o->bytes, o->len);
	eb_align(b);
	part_end = b->len;
	names = b->len;
	sbuf_char(b, 0);
	if (o->name)
		sbuf_add(b, o->name, strlen(o->name) + 1);
	eb_align(b);
	shoff = b->len;
	if (o->name) {
		const Elf64_Shdr secs[N_SECS] = {
		        [1] = {.sh_type = SHT_PROGBITS,
		               .sh_flags = SHF_ALLOC | SHF_EXECINSTR,
		               .sh_addr = BIAS + TEXT_OFF,
		               .sh_offset = TEXT_OFF,
		               .sh_size = 0x1000},
		        [2] = {.sh_name = 1,
		               .sh_type = o->type ? o->type : SHT_PROGBITS,
		               .sh_flags = o->flags,
		               .sh_addr = o->flags & SHF_ALLOC ? BIAS + PART_OFF : 0,
		               .sh_offset = PART_OFF,
		               .sh_size = o->len},
		        [3] = {.sh_type = SHT_STRTAB,
		               .sh_offset = names,
		               .sh_size = strlen(o->name) + 2},
		};

		for (size_t i = 0; i < N_SECS; i++)
			eb_shdr(b, o->is32, &secs[i]);
	}
	memcpy(e.e_ident, ELFMAG, SELFMAG);
	e.e_ident[EI_CLASS] = o->is32 ? ELFCLASS32 : ELFCLASS64;
	e.e_ident[EI_DATA] = ELFDATA2LSB;
	e.e_machine = EM_X86_64;
	e.e_entry = o->entry;
	e.e_phoff = ehdr;
	e.e_phentsize = (Elf64_Half)phdr;
	e.e_phnum = 3;
	e.e_shoff = o->name ? shoff : 0;
	e.e_shentsize = (Elf64_Half)shdr;
	e.e_shnum = o->name ? N_SECS : 0;
	e.e_shstrndx = o->name ? 3 : 0;
	memcpy(e32.e_ident, e.e_ident, EI_NIDENT);
	e32.e_machine = e.e_machine;
	e32.e_entry = (Elf32_Addr)e.e_entry;
	e32.e_phoff = (Elf32_Off)e.e_phoff;
	e32.e_phentsize = e.e_phentsize;
	e32.e_phnum = 3;
	e32.e_shoff = (Elf32_Off)e.e_shoff;
	e32.e_shentsize = e.e_shentsize;
	e32.e_shnum = e.e_shnum;
	e32.e_shstrndx = e.e_shstrndx;
	assert_int_equal(b->err, 0);
	if (o->is32)
		memcpy(b->p, &e32, sizeof(e32));
	else
		memcpy(b->p, &e, sizeof(e));
	{
		const Elf64_Phdr segs[3] = {
		        {.p_type = PT_LOAD,
		         .p_flags = PF_R | PF_X,
		         .p_offset = TEXT_OFF,
		         .p_vaddr = BIAS + TEXT_OFF,
		         .p_filesz = 0x1000,
		         .p_memsz = 0x1800},
		        {.p_type = PT_LOAD,
		         .p_flags = PF_R,
		         .p_offset = PART_OFF,
		         .p_vaddr = BIAS + PART_OFF,
		         .p_filesz = part_end - PART_OFF,
		         .p_memsz = part_end - PART_OFF},
		        {.p_type = o->hdr_size ? PT_GNU_EH_FRAME : PT_NULL,
		         .p_offset = o->hdr_off,
		         .p_vaddr = BIAS + o->hdr_off,
		         .p_filesz = o->hdr_size,
		         .p_memsz = o->hdr_size},
		};
		struct sbuf ph;

		sbuf_init(&ph, 4096);
		for (size_t i = 0; i < 3; i++)
			eb_phdr(&ph, o->is32, &segs[i]);
		memcpy(b->p + ehdr, ph.p, ph.len);
		sbuf_done(&ph);
	}
	assert_int_equal(img_file_open_mem(b->p, b->len, &f, NULL), 0);
	return f;
}

/* The part @kind of a file that was built: found, at @off with @size, and of these bytes. */
static inline void expect_area(const struct opts *o, enum img_area_kind kind, uint64_t off,
                               uint64_t vaddr, const void *want, size_t want_len)
{
	struct img_area a = {0};
	struct sbuf b;
	struct img_file *f = build(o, &b);
	uint8_t *p = NULL;
	size_t len = 0;

	assert_int_equal(img_area_find(f, kind, &a), 0);
	assert_int_equal(a.off, off);
	assert_int_equal(a.vaddr, vaddr);
	assert_int_equal(a.size, want_len);
	assert_int_equal(img_area_load(f, &a, want_len, &p, &len), 0);
	assert_int_equal(len, want_len);
	assert_memory_equal(p, want, want_len);
	assert_int_equal(img_bad_items(f), 0);
	free(p);
	if (want_len > 0)
		assert_int_equal(img_area_load(f, &a, want_len - 1, &p, &len), -E2BIG);
	img_file_free(f);
	sbuf_done(&b);
}

#endif
