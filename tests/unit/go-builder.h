/* SPDX-License-Identifier: Apache-2.0 */
/*
 * go-builder - small ELF files in memory with code and a .gopclntab of any version, for tests
 * Layout: header, one program header, text at 0x1000, the table, section names, section headers.
 * The text stands at GB_TEXT_VADDR; functions one behind the other, each with its padding.
 */
#ifndef PA_TEST_GO_BUILDER_H
#define PA_TEST_GO_BUILDER_H

#include <elf.h>

#include "base/base.h"

#define GB_TEXT_OFF   0x1000
#define GB_TEXT_VADDR 0x401000ULL
#define GB_STEPS      8
#define GB_FNS        16

struct gb_fn {
	const char *name;
	uint8_t flag;
	bool no_pcsp;
	size_t pad;          /* bytes between its code and the next function */
	const uint8_t *code; /* NULL: no-ops */
	size_t len;          /* of its code */
	struct {
		int32_t depth;
		uint32_t bytes;
	} step[GB_STEPS]; /* until one of 0 bytes */
};
struct gb_opts {
	int version; /* 12, 116, 118, 120 */
	bool no_text_start;
	uint8_t quantum;     /* 0: 1 */
	uint32_t magic;      /* 0: of the version */
	const char *section; /* NULL: .gopclntab */
	bool in_data;        /* no section of its own, in a data segment */
	size_t lead;         /* text before the first function: what a C compiler put there */
};
struct gb_map {
	size_t table, table_len, text_len;
	uint64_t at[GB_FNS + 1]; /* virtual address of each function, then the end */
};

static inline void gb_int(struct sbuf *b, uint64_t v, size_t bytes)
{
	(void)sbuf_add(b, &v, bytes); /* .err sticks; gb_build asserts at the end */
}

static inline void gb_pad(struct sbuf *b, size_t to, char with)
{
	while (b->len < to)
		(void)sbuf_char(b, with);
}

static inline void gb_uleb(struct sbuf *b, uint32_t v)
{
	do {
		(void)sbuf_char(b, (char)((v & 0x7f) | (v > 0x7f ? 0x80 : 0)));
		v >>= 7;
	} while (v);
}

static inline void gb_pcsp(struct sbuf *b, const struct gb_fn *fn)
{
	int32_t depth = -1;

	for (size_t i = 0; i < GB_STEPS && fn->step[i].bytes; i++) {
		int32_t d = fn->step[i].depth - depth;

		gb_uleb(b, ((uint32_t)d << 1) ^ (uint32_t)(d >> 31));
		gb_uleb(b, fn->step[i].bytes);
		depth = fn->step[i].depth;
	}
	(void)sbuf_char(b, 0);
}

/* The record of a function. */
static inline void gb_record(struct sbuf *b, const struct gb_opts *o, uint64_t entry, uint64_t name,
                             uint64_t pcsp, uint8_t flag)
{
	gb_int(b, entry, o->version >= 118 ? 4 : 8);
	gb_int(b, name, 4);
	gb_int(b, 0, 8); /* args, deferreturn */
	gb_int(b, pcsp, 4);
	gb_pad(b, b->len + 12, 0); /* pcfile, pcln, npcdata */
	if (o->version >= 116)
		gb_int(b, 0, 4); /* cuOffset */
	if (o->version >= 120)
		gb_int(b, 0, 4); /* startLine */
	gb_int(b, 0, 1);         /* funcID */
	gb_int(b, flag, 1);
	gb_int(b, 0, 2);
}

static inline void gb_table(struct sbuf *b, const struct gb_opts *o, const struct gb_fn *fn,
                            size_t n, const struct gb_map *m)
{
	_cleanup_(sbuf_done) struct sbuf names, pctab, recs;
	const uint32_t magic = o->version == 12    ? 0xfffffffb
	                       : o->version == 116 ? 0xfffffffa
	                       : o->version == 118 ? 0xfffffff0
	                                           : 0xfffffff1;
	const bool narrow = o->version >= 118;
	const uint64_t base = narrow ? m->at[0] : 0;
	const size_t words = o->version == 12 ? 1 : narrow ? 8 : 7;
	const size_t functab = (2 * n + 1) * (narrow ? 4 : 8) + 8;
	/* Places of the parts, from the header on; of records from the functab, but in 1.2. */
	size_t names_at, pctab_at, functab_at, recs_at;
	size_t rec_of[GB_FNS];

	sbuf_init(&names, 1 << 16);
	sbuf_init(&pctab, 1 << 16);
	sbuf_init(&recs, 1 << 16);
	functab_at = 8 + words * 8;
	recs_at = functab_at + functab;
	for (int pass = 0; pass < 2; pass++) { /* the places are known after the first */
		names_at = recs_at + recs.len;
		pctab_at = names_at + names.len;
		sbuf_reset(&names);
		sbuf_reset(&pctab);
		sbuf_reset(&recs);
		(void)sbuf_char(&names, 0);
		(void)sbuf_char(&pctab, 0);
		for (size_t i = 0; i < n; i++) {
			rec_of[i] = recs.len;
			gb_record(&recs, o, m->at[i] - base,
			          names.len + (o->version == 12 ? names_at : 0),
			          fn[i].no_pcsp ? 0 : pctab.len + (o->version == 12 ? pctab_at : 0),
			          fn[i].flag);
			(void)sbuf_add(&names, fn[i].name, strlen(fn[i].name) + 1);
			gb_pcsp(&pctab, &fn[i]);
		}
	}
	gb_int(b, o->magic ? o->magic : magic, 4);
	gb_int(b, 0, 2);
	gb_int(b, o->quantum ? o->quantum : 1, 1);
	gb_int(b, 8, 1);
	gb_int(b, n, 8);
	if (o->version > 12)
		gb_int(b, 0, 8); /* files */
	if (narrow)
		gb_int(b, o->no_text_start ? 0 : base, 8);
	if (o->version > 12) {
		gb_int(b, names_at, 8);
		gb_pad(b, b->len + 16, 0); /* cutab, filetab */
		gb_int(b, pctab_at, 8);
		gb_int(b, functab_at, 8);
	}
	for (size_t i = 0; i <= n; i++) {
		gb_int(b, m->at[i] - base, narrow ? 4 : 8);
		if (i < n)
			gb_int(b, recs_at + rec_of[i] - (o->version == 12 ? 0 : functab_at),
			       narrow ? 4 : 8);
	}
	gb_pad(b, b->len + 8, 0);
	(void)sbuf_add(b, recs.p, recs.len);
	(void)sbuf_add(b, names.p, names.len);
	(void)sbuf_add(b, pctab.p, pctab.len);
}

/* An ELF file around text and table. */
static inline void gb_wrap(struct sbuf *b, const char *section, bool in_data, const void *text,
                           size_t text_len, const void *tab, size_t tab_len, size_t *ret_table)
{
	static const char names[] = "\0.text\0.gopclntab\0.shstrtab";
	Elf64_Ehdr e = {0};
	Elf64_Phdr p = {0}, data = {0};
	Elf64_Shdr s[4] = {{0}};
	size_t names_at, table;

	sbuf_init(b, 1 << 20);
	gb_pad(b, GB_TEXT_OFF, 0);
	(void)sbuf_add(b, text, text_len);
	table = (b->len + 31) & ~(size_t)31;
	gb_pad(b, table, 0);
	(void)sbuf_add(b, tab, tab_len);
	names_at = b->len;
	(void)sbuf_add(b, names, sizeof(names));
	gb_pad(b, (b->len + 7) & ~(size_t)7, 0);

	memcpy(e.e_ident, ELFMAG, SELFMAG);
	e.e_ident[EI_CLASS] = ELFCLASS64;
	e.e_ident[EI_DATA] = ELFDATA2LSB;
	e.e_ident[EI_VERSION] = EV_CURRENT;
	e.e_type = ET_EXEC;
	e.e_machine = EM_X86_64;
	e.e_version = EV_CURRENT;
	e.e_phoff = sizeof(e);
	e.e_shoff = b->len;
	e.e_ehsize = sizeof(e);
	e.e_phentsize = sizeof(p);
	e.e_phnum = in_data ? 2 : 1;
	e.e_shentsize = sizeof(s[0]);
	e.e_shnum = ARRAY_SIZE(s);
	e.e_shstrndx = 3;
	p = (Elf64_Phdr){.p_type = PT_LOAD,
	                 .p_flags = PF_R | PF_X,
	                 .p_offset = GB_TEXT_OFF,
	                 .p_vaddr = GB_TEXT_VADDR,
	                 .p_filesz = text_len,
	                 .p_memsz = text_len,
	                 .p_align = 0x1000};
	s[1] = (Elf64_Shdr){.sh_name = 1,
	                    .sh_type = SHT_PROGBITS,
	                    .sh_flags = SHF_ALLOC | SHF_EXECINSTR,
	                    .sh_addr = GB_TEXT_VADDR,
	                    .sh_offset = GB_TEXT_OFF,
	                    .sh_size = text_len};
	s[2] = (Elf64_Shdr){.sh_name = !section || strcmp(section, ".gopclntab") == 0 ? 7 : 1,
	                    .sh_type = SHT_PROGBITS,
	                    .sh_offset = table,
	                    .sh_size = tab_len};
	s[3] = (Elf64_Shdr){.sh_name = 18,
	                    .sh_type = SHT_STRTAB,
	                    .sh_offset = names_at,
	                    .sh_size = sizeof(names)};
	(void)sbuf_add(b, s, sizeof(s));
	assert(!b->err);
	memcpy(b->p, &e, sizeof(e));
	memcpy(b->p + sizeof(e), &p, sizeof(p));
	data = (Elf64_Phdr){.p_type = PT_LOAD,
	                    .p_flags = PF_R | PF_W,
	                    .p_offset = table,
	                    .p_vaddr = 0x800000 + table,
	                    .p_filesz = tab_len,
	                    .p_memsz = tab_len,
	                    .p_align = 0x1000};
	memcpy(b->p + sizeof(e) + sizeof(p), &data, sizeof(data));
	*ret_table = table;
}

static inline void gb_build(const struct gb_opts *o, const struct gb_fn *fn, size_t n,
                            struct sbuf *b, struct gb_map *ret)
{
	_cleanup_(sbuf_done) struct sbuf text, tab;
	struct gb_map m = {0};

	assert(n <= GB_FNS);
	sbuf_init(&text, 1 << 16);
	sbuf_init(&tab, 1 << 16);
	gb_pad(&text, o->lead, (char)0x90);
	for (size_t i = 0; i < n; i++) {
		m.at[i] = GB_TEXT_VADDR + text.len;
		if (fn[i].code)
			(void)sbuf_add(&text, fn[i].code, fn[i].len);
		else
			gb_pad(&text, text.len + fn[i].len, (char)0x90);
		gb_pad(&text, text.len + fn[i].pad, (char)0xcc);
	}
	m.at[n] = GB_TEXT_VADDR + text.len;
	m.text_len = text.len;
	gb_table(&tab, o, fn, n, &m);
	m.table_len = tab.len;
	assert(!text.err && !tab.err);
	gb_wrap(b, o->in_data ? ".text" : o->section, o->in_data, text.p, text.len, tab.p, tab.len,
	        &m.table);
	*ret = m;
}

#endif
