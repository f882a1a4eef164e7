/* SPDX-License-Identifier: Apache-2.0 */
/*
 * elf-builder - small ELF files in memory for tests
 * Layout: header, 3 program headers, note, [text at 0x1000 … 0x2000), symbol and string tables,
 * section headers. Text is at 0x401000, data (no bytes) at 0x403000.
 */
#ifndef PA_TEST_ELF_BUILDER_H
#define PA_TEST_ELF_BUILDER_H

#include <elf.h>

#include "base/base.h"

#define EB_TEXT_OFF   0x1000
#define EB_TEXT_VADDR 0x401000
#define EB_TEXT_SIZE  0x1000
#define EB_BIAS       (EB_TEXT_VADDR - EB_TEXT_OFF)
#define EB_SEC_TEXT   1
#define EB_SEC_DATA   2
#define EB_SEC_NOTE   3
#define EB_SEC_SYMTAB 4
#define EB_SEC_STRTAB 5
#define EB_SEC_DYNSYM 6
#define EB_SEC_DYNSTR 7
#define EB_SEC_TAIL   8 /* the last 0x100 bytes of text */
#define EB_SEC_CNT    9

struct eb_sym {
	const char *name;
	uint64_t value, size;
	uint8_t bind, type;
	uint16_t shndx;
};

struct eb_opts {
	bool is32;
	uint16_t machine; /* 0: x86-64 */
	const struct eb_sym *syms, *dynsyms;
	size_t n_syms, n_dynsyms;
	size_t id_len;  /* of the build-id; its bytes are 1, 2, 3 … */
	bool no_shdrs;  /* no section headers */
	bool ext_shnum; /* their number is in the first of them */
	bool swap;      /* text in two segments, the second half at the lower addresses */
};

/* Offsets of the parts, for tests that damage them. */
struct eb_map {
	size_t phoff, shoff, note, symtab, strtab, strtab_len;
};

static inline void eb_pad(struct sbuf *b, size_t to)
{
	while (b->len < to)
		(void)sbuf_char(b, 0); /* .err sticks; eb_build asserts at the end */
}

static inline void eb_align(struct sbuf *b)
{
	eb_pad(b, (b->len + 7) & ~(size_t)7);
}

static inline void eb_shdr(struct sbuf *b, bool is32, const Elf64_Shdr *s)
{
	Elf32_Shdr n = {s->sh_name,
	                s->sh_type,
	                (Elf32_Word)s->sh_flags,
	                (Elf32_Addr)s->sh_addr,
	                (Elf32_Off)s->sh_offset,
	                (Elf32_Word)s->sh_size,
	                s->sh_link,
	                s->sh_info,
	                (Elf32_Word)s->sh_addralign,
	                (Elf32_Word)s->sh_entsize};

	if (is32)
		(void)sbuf_add(b, &n, sizeof(n));
	else
		(void)sbuf_add(b, s, sizeof(*s));
}

static inline void eb_phdr(struct sbuf *b, bool is32, const Elf64_Phdr *p)
{
	Elf32_Phdr n = {p->p_type,
	                (Elf32_Off)p->p_offset,
	                (Elf32_Addr)p->p_vaddr,
	                (Elf32_Addr)p->p_paddr,
	                (Elf32_Word)p->p_filesz,
	                (Elf32_Word)p->p_memsz,
	                p->p_flags,
	                (Elf32_Word)p->p_align};

	if (is32)
		(void)sbuf_add(b, &n, sizeof(n));
	else
		(void)sbuf_add(b, p, sizeof(*p));
}

/* A symbol table with its null symbol, and its strings. */
static inline void eb_table(struct sbuf *b, bool is32, const struct eb_sym *syms, size_t n,
                            struct sbuf *str)
{
	for (size_t i = 0; i <= n; i++) {
		Elf64_Sym s = {0};
		Elf32_Sym s32;

		if (i == 0) {
			(void)sbuf_char(str, 0);
		} else {
			const struct eb_sym *e = &syms[i - 1];

			s.st_name = e->name ? (Elf64_Word)str->len : 0;
			s.st_info = (unsigned char)ELF64_ST_INFO(e->bind, e->type);
			s.st_shndx = e->shndx;
			s.st_value = e->value;
			s.st_size = e->size;
			if (e->name)
				(void)sbuf_add(str, e->name, strlen(e->name) + 1);
		}
		s32 = (Elf32_Sym){s.st_name,
		                  (Elf32_Addr)s.st_value,
		                  (Elf32_Word)s.st_size,
		                  s.st_info,
		                  s.st_other,
		                  s.st_shndx};
		if (is32)
			(void)sbuf_add(b, &s32, sizeof(s32));
		else
			(void)sbuf_add(b, &s, sizeof(s));
	}
}

static inline void eb_build(const struct eb_opts *o, struct sbuf *b, struct eb_map *ret)
{
	const size_t ehdr_size = o->is32 ? sizeof(Elf32_Ehdr) : sizeof(Elf64_Ehdr);
	const size_t sym_size = o->is32 ? sizeof(Elf32_Sym) : sizeof(Elf64_Sym);
	const uint32_t id_len = (uint32_t)o->id_len;
	const uint32_t note[3] = {sizeof(ELF_NOTE_GNU), id_len, NT_GNU_BUILD_ID};
	_cleanup_(sbuf_done) struct sbuf str, dynstr;
	Elf64_Shdr sec[EB_SEC_CNT] = {0};
	struct eb_map m = {.phoff = ehdr_size, .note = 0x400};
	size_t note_len, dynsym, dynstr_off;
	Elf64_Ehdr e = {0};
	Elf32_Ehdr e32;

	sbuf_init(b, 1 << 20);
	sbuf_init(&str, 1 << 20);
	sbuf_init(&dynstr, 1 << 20);
	eb_pad(b, ehdr_size);
	note_len = o->id_len ? sizeof(note) + 4 + ((o->id_len + 3) & ~(size_t)3) : 0;
	eb_phdr(b, o->is32,
	        &(Elf64_Phdr){.p_type = PT_LOAD,
	                      .p_flags = PF_R | PF_X,
	                      .p_offset = EB_TEXT_OFF,
	                      .p_vaddr = o->swap ? EB_TEXT_VADDR + 0x800 : EB_TEXT_VADDR,
	                      .p_filesz = o->swap ? 0x800 : EB_TEXT_SIZE,
	                      .p_memsz = o->swap ? 0x800 : EB_TEXT_SIZE,
	                      .p_align = 0x1000});
	eb_phdr(b, o->is32,
	        &(Elf64_Phdr){.p_type = PT_NOTE,
	                      .p_flags = PF_R,
	                      .p_offset = m.note,
	                      .p_filesz = note_len,
	                      .p_align = 4});
	eb_phdr(b, o->is32,
	        &(Elf64_Phdr){.p_type = PT_LOAD,
	                      .p_flags = o->swap ? PF_R | PF_X : PF_R | PF_W,
	                      .p_offset = o->swap ? EB_TEXT_OFF + 0x800 : 0x2000,
	                      .p_vaddr = o->swap ? EB_TEXT_VADDR : 0x403000,
	                      .p_filesz = o->swap ? 0x800 : 0,
	                      .p_memsz = o->swap ? 0x800 : 0x100,
	                      .p_align = 0x1000});
	eb_pad(b, m.note);
	if (o->id_len) {
		(void)sbuf_add(b, note, sizeof(note));
		(void)sbuf_add(b, ELF_NOTE_GNU, sizeof(ELF_NOTE_GNU));
		for (size_t i = 0; i < o->id_len; i++)
			(void)sbuf_char(b, (char)(i + 1));
	}
	eb_pad(b, EB_TEXT_OFF + EB_TEXT_SIZE);
	m.symtab = b->len;
	eb_table(b, o->is32, o->syms, o->n_syms, &str);
	m.strtab = b->len;
	m.strtab_len = str.len;
	(void)sbuf_add(b, str.p, str.len);
	eb_align(b);
	dynsym = b->len;
	eb_table(b, o->is32, o->dynsyms, o->n_dynsyms, &dynstr);
	dynstr_off = b->len;
	(void)sbuf_add(b, dynstr.p, dynstr.len);
	eb_align(b);
	m.shoff = b->len;

	if (o->ext_shnum)
		sec[0].sh_size = EB_SEC_CNT;
	sec[EB_SEC_TEXT] = (Elf64_Shdr){.sh_type = SHT_PROGBITS,
	                                .sh_flags = SHF_ALLOC | SHF_EXECINSTR,
	                                .sh_addr = EB_TEXT_VADDR,
	                                .sh_offset = EB_TEXT_OFF,
	                                .sh_size = EB_TEXT_SIZE - 0x100};
	sec[EB_SEC_TAIL] = (Elf64_Shdr){.sh_type = SHT_PROGBITS,
	                                .sh_flags = SHF_ALLOC | SHF_EXECINSTR,
	                                .sh_addr = EB_TEXT_VADDR + EB_TEXT_SIZE - 0x100,
	                                .sh_offset = EB_TEXT_OFF + EB_TEXT_SIZE - 0x100,
	                                .sh_size = 0x100};
	sec[EB_SEC_DATA] = (Elf64_Shdr){.sh_type = SHT_NOBITS,
	                                .sh_flags = SHF_ALLOC | SHF_WRITE,
	                                .sh_addr = 0x403000,
	                                .sh_offset = 0x2000,
	                                .sh_size = 0x100};
	sec[EB_SEC_NOTE] = (Elf64_Shdr){
	        .sh_type = SHT_NOTE, .sh_offset = m.note, .sh_size = note_len, .sh_addralign = 4};
	sec[EB_SEC_SYMTAB] = (Elf64_Shdr){.sh_type = o->n_syms ? SHT_SYMTAB : SHT_NULL,
	                                  .sh_offset = m.symtab,
	                                  .sh_size = (o->n_syms + 1) * sym_size,
	                                  .sh_link = EB_SEC_STRTAB,
	                                  .sh_entsize = sym_size};
	sec[EB_SEC_STRTAB] =
	        (Elf64_Shdr){.sh_type = SHT_STRTAB, .sh_offset = m.strtab, .sh_size = str.len};
	sec[EB_SEC_DYNSYM] = (Elf64_Shdr){.sh_type = o->n_dynsyms ? SHT_DYNSYM : SHT_NULL,
	                                  .sh_offset = dynsym,
	                                  .sh_size = (o->n_dynsyms + 1) * sym_size,
	                                  .sh_link = EB_SEC_DYNSTR,
	                                  .sh_entsize = sym_size};
	sec[EB_SEC_DYNSTR] =
	        (Elf64_Shdr){.sh_type = SHT_STRTAB, .sh_offset = dynstr_off, .sh_size = dynstr.len};
	for (size_t i = 0; i < EB_SEC_CNT && !o->no_shdrs; i++)
		eb_shdr(b, o->is32, &sec[i]);

	memcpy(e.e_ident, ELFMAG, SELFMAG);
	e.e_ident[EI_CLASS] = o->is32 ? ELFCLASS32 : ELFCLASS64;
	e.e_ident[EI_DATA] = ELFDATA2LSB;
	e.e_ident[EI_VERSION] = EV_CURRENT;
	e.e_type = ET_EXEC;
	e.e_machine = o->machine ? o->machine : EM_X86_64;
	e.e_version = EV_CURRENT;
	e.e_phoff = m.phoff;
	e.e_shoff = o->no_shdrs ? 0 : m.shoff;
	e.e_ehsize = (Elf64_Half)ehdr_size;
	e.e_phentsize = o->is32 ? sizeof(Elf32_Phdr) : sizeof(Elf64_Phdr);
	e.e_phnum = 3;
	e.e_shentsize = o->is32 ? sizeof(Elf32_Shdr) : sizeof(Elf64_Shdr);
	e.e_shnum = o->no_shdrs || o->ext_shnum ? 0 : EB_SEC_CNT;
	assert(!b->err);
	if (o->is32) {
		memcpy(&e32, &e, EI_NIDENT);
		e32.e_type = e.e_type;
		e32.e_machine = e.e_machine;
		e32.e_version = e.e_version;
		e32.e_entry = 0;
		e32.e_phoff = (Elf32_Off)e.e_phoff;
		e32.e_shoff = (Elf32_Off)e.e_shoff;
		e32.e_flags = 0;
		e32.e_ehsize = e.e_ehsize;
		e32.e_phentsize = e.e_phentsize;
		e32.e_phnum = e.e_phnum;
		e32.e_shentsize = e.e_shentsize;
		e32.e_shnum = e.e_shnum;
		e32.e_shstrndx = 0;
		memcpy(b->p, &e32, sizeof(e32));
	} else {
		memcpy(b->p, &e, sizeof(e));
	}
	*ret = m;
}

#endif
