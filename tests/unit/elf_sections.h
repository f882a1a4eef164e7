/* SPDX-License-Identifier: Apache-2.0 */
/*
 * elf-sections - ELF files made of named sections, in memory, for tests
 * Layout: header, program headers (one for each section that is allocated with bytes, and one for
 * each note), the sections' bytes in their order, names, section headers. Section i of the list has
 * the index i + 1; the names come last. Addresses are offsets + ES_BIAS.
 */
#ifndef PA_TEST_ELF_SECTIONS_H
#define PA_TEST_ELF_SECTIONS_H

#include "elf_builder.h"

#define ES_BIAS 0x400000

struct es_sec {
	const char *name;
	const void *bytes; /* NULL: zeros */
	size_t len;
	uint32_t type; /* 0: SHT_PROGBITS */
	uint64_t flags;
	uint32_t link;
	uint64_t entsize;
	uint64_t claim; /* not 0: the header's size, whatever is there */
};

struct es_map {
	size_t phoff, phnum, shoff, shnum;
	size_t offs[32]; /* of the first sections */
};

static inline void es_build(bool is32, const struct es_sec *secs, size_t n, struct sbuf *b,
                            struct es_map *ret)
{
	const size_t ehdr = is32 ? sizeof(Elf32_Ehdr) : sizeof(Elf64_Ehdr);
	const size_t phdr = is32 ? sizeof(Elf32_Phdr) : sizeof(Elf64_Phdr);
	const size_t shdr = is32 ? sizeof(Elf32_Shdr) : sizeof(Elf64_Shdr);
	struct es_map m = {.phoff = ehdr};
	_cleanup_(sbuf_done) struct sbuf names, ph;
	_cleanup_free_ Elf64_Shdr *h = calloc(n + 2, sizeof(*h));
	Elf64_Ehdr e = {0};
	Elf32_Ehdr e32 = {0};

	assert(h);
	sbuf_init(b, 64 << 20);
	sbuf_init(&names, 64 << 20);
	sbuf_init(&ph, 1 << 20);
	(void)sbuf_char(&names, 0); /* .err sticks and is looked at below */
	for (size_t i = 0; i < n; i++)
		m.phnum += ((secs[i].flags & SHF_ALLOC) && secs[i].type != SHT_NOBITS) +
		           (secs[i].type == SHT_NOTE);
	eb_pad(b, ehdr + m.phnum * phdr);
	for (size_t i = 0; i < n; i++) {
		const struct es_sec *s = &secs[i];
		bool nobits = s->type == SHT_NOBITS;
		Elf64_Phdr p = {.p_align = 4};

		eb_align(b);
		if (i < ARRAY_SIZE(m.offs))
			m.offs[i] = b->len;
		h[i + 1] = (Elf64_Shdr){
		        .sh_name = (Elf64_Word)names.len,
		        .sh_type = s->type ? s->type : SHT_PROGBITS,
		        .sh_flags = s->flags,
		        .sh_addr = s->flags & SHF_ALLOC ? ES_BIAS + b->len : 0,
		        .sh_offset = b->len,
		        .sh_size = s->claim ? s->claim : s->len,
		        .sh_link = s->link,
		        .sh_addralign = 4,
		        .sh_entsize = s->entsize,
		};
		(void)sbuf_add(&names, s->name, strlen(s->name) + 1);
		p.p_flags = s->flags & SHF_EXECINSTR ? PF_R | PF_X : PF_R;
		p.p_offset = h[i + 1].sh_offset;
		p.p_vaddr = h[i + 1].sh_addr;
		p.p_filesz = p.p_memsz = s->len;
		p.p_type = PT_LOAD;
		if ((s->flags & SHF_ALLOC) && !nobits)
			eb_phdr(&ph, is32, &p);
		p.p_type = PT_NOTE;
		if (s->type == SHT_NOTE)
			eb_phdr(&ph, is32, &p);
		if (s->bytes && !nobits)
			(void)sbuf_add(b, s->bytes, s->len);
		else if (!nobits)
			eb_pad(b, b->len + s->len);
	}
	eb_align(b);
	h[n + 1] = (Elf64_Shdr){.sh_name = (Elf64_Word)names.len,
	                        .sh_type = SHT_STRTAB,
	                        .sh_offset = b->len,
	                        .sh_size = names.len + sizeof(".shstrtab")};
	(void)sbuf_add(&names, ".shstrtab", sizeof(".shstrtab"));
	(void)sbuf_add(b, names.p, names.len);
	eb_align(b);
	m.shoff = b->len;
	m.shnum = n + 2;
	for (size_t i = 0; i < m.shnum; i++)
		eb_shdr(b, is32, &h[i]);

	memcpy(e.e_ident, ELFMAG, SELFMAG);
	e.e_ident[EI_CLASS] = is32 ? ELFCLASS32 : ELFCLASS64;
	e.e_ident[EI_DATA] = ELFDATA2LSB;
	e.e_ident[EI_VERSION] = EV_CURRENT;
	memcpy(e32.e_ident, e.e_ident, EI_NIDENT);
	e.e_type = e32.e_type = ET_DYN;
	e.e_machine = e32.e_machine = EM_X86_64;
	e.e_phoff = e32.e_phoff = (Elf32_Off)m.phoff;
	e.e_phentsize = e32.e_phentsize = (Elf64_Half)phdr;
	e.e_phnum = e32.e_phnum = (Elf64_Half)m.phnum;
	e.e_shoff = m.shoff;
	e32.e_shoff = (Elf32_Off)m.shoff;
	e.e_shentsize = e32.e_shentsize = (Elf64_Half)shdr;
	e.e_shnum = e32.e_shnum = (Elf64_Half)m.shnum;
	e.e_shstrndx = e32.e_shstrndx = (Elf64_Half)(n + 1);
	assert(!b->err && !names.err && !ph.err && m.phnum * phdr == ph.len);
	if (ph.len)
		memcpy(b->p + m.phoff, ph.p, ph.len);
	if (is32)
		memcpy(b->p, &e32, sizeof(e32));
	else
		memcpy(b->p, &e, sizeof(e));
	if (ret)
		*ret = m;
}

/* The bytes of a note section with a build-id. */
static inline void es_note(struct sbuf *b, const uint8_t *id, size_t len)
{
	const uint32_t head[3] = {sizeof(ELF_NOTE_GNU), (uint32_t)len, NT_GNU_BUILD_ID};

	sbuf_init(b, 4096);
	(void)sbuf_add(b, head, sizeof(head));
	(void)sbuf_add(b, ELF_NOTE_GNU, sizeof(ELF_NOTE_GNU));
	(void)sbuf_add(b, id, len);
	eb_pad(b, (b->len + 3) & ~(size_t)3);
	assert(!b->err);
}

/* The bytes of .gnu_debuglink. */
static inline void es_debuglink(struct sbuf *b, const char *name, uint32_t crc)
{
	sbuf_init(b, 4096);
	(void)sbuf_add(b, name, strlen(name) + 1);
	eb_pad(b, (b->len + 3) & ~(size_t)3);
	(void)sbuf_add(b, &crc, sizeof(crc));
	assert(!b->err);
}

#endif
