/* SPDX-License-Identifier: Apache-2.0 */
/*
 * go-builder - small ELF files in memory with code and a .gopclntab of any version, for tests
 * Layout: header, one program header, text at 0x1000, the table, section names, section headers.
 * The text is at GB_TEXT_VADDR; functions one after the other, each with its padding.
 */
#ifndef PA_TEST_GO_BUILDER_H
#define PA_TEST_GO_BUILDER_H

#include <elf.h>

#include "base/base.h"

#define GB_TEXT_OFF   0x1000
#define GB_TEXT_VADDR 0x401000ULL
#define GB_STEPS      8
#define GB_FNS        16
#define GB_CALLS      4
#define GB_FILES      4
#define GB_DATA_VADDR 0x800000ULL /* of the file's first byte, in data segments */

/* A value of a table "value by pc", and how far it goes. */
struct gb_step {
	int32_t value;
	uint32_t bytes; /* 0: the end */
};
/* An inlined call: an entry of a function's tree. */
struct gb_call {
	const char *name; /* NULL: the end */
	uint32_t parent_pc, start_line;
	uint8_t func_id;
};
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
	/* File: an index into gb_opts.files. In: an index into calls. */
	struct gb_step file[GB_STEPS], line[GB_STEPS], in[GB_STEPS];
	struct gb_call calls[GB_CALLS];
	uint32_t start_line;
	uint8_t func_id;
};
enum gb_module {
	GB_NO_MODULE,
	GB_MODULE,           /* pointers are in the file */
	GB_RELOCATED_MODULE, /* they are in relocations, with the dynamic section alongside it */
};
struct gb_opts {
	int version; /* 12, 116, 118, 120 */
	bool no_text_start;
	uint8_t quantum;     /* 0: 1 */
	uint32_t magic;      /* 0: of the version */
	const char *section; /* NULL: .gopclntab */
	bool in_data;        /* no section of its own, in a data segment */
	size_t lead;         /* text before the first function: what a C compiler put there */
	const char *files[GB_FILES];
	bool go112;            /* places of inlined calls in records as 1.12 has them, not 1.14 */
	enum gb_module module; /* with in_data: moduledata after the table */
};
struct gb_map {
	size_t table, table_len, text_len;
	size_t module;           /* place in the file; 0: none */
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

/* A table "value by pc". */
static inline void gb_values(struct sbuf *b, const struct gb_step *step)
{
	int32_t value = -1;

	for (size_t i = 0; i < GB_STEPS && step[i].bytes; i++) {
		int32_t d = step[i].value - value;

		gb_uleb(b, ((uint32_t)d << 1) ^ (uint32_t)(d >> 31));
		gb_uleb(b, step[i].bytes);
		value = step[i].value;
	}
	(void)sbuf_char(b, 0);
}

/* Fields of a record alongside its entry; places as they are in it. */
struct gb_places {
	uint64_t name, pcsp, pcfile, pcln, in;
	uint64_t tree; /* an address before 1.18, else its distance from the first */
	bool has_tree;
};

/* The record of a function, at @at in the table. */
static inline void gb_full_record(struct sbuf *b, const struct gb_opts *o, uint64_t entry,
                                  const struct gb_places *p, const struct gb_fn *fn, size_t at)
{
	const size_t npcdata = !p->has_tree ? 0
	                       : o->go112   ? 2
	                                    : 3,
	             nfuncdata = !p->has_tree       ? 0
	                         : o->go112         ? 3
	                         : o->version == 12 ? 5
	                                            : 4;
	const size_t begin = b->len;

	gb_int(b, entry, o->version >= 118 ? 4 : 8);
	gb_int(b, p->name, 4);
	gb_int(b, 0, 8); /* args, deferreturn */
	gb_int(b, p->pcsp, 4);
	gb_int(b, p->pcfile, 4);
	gb_int(b, p->pcln, 4);
	gb_int(b, npcdata, 4);
	if (o->version >= 116)
		gb_int(b, 0, 4); /* cuOffset */
	if (o->version >= 120)
		gb_int(b, fn->start_line, 4);
	gb_int(b, fn->func_id, 1);
	gb_int(b, fn->flag, 1);
	gb_int(b, 0, 1);
	gb_int(b, nfuncdata, 1);
	if (!p->has_tree)
		return;
	gb_pad(b, b->len + 4 * (npcdata - 1), 0);
	gb_int(b, p->in, 4);
	if (o->version >= 118) {
		gb_pad(b, b->len + 4 * (nfuncdata - 1), (char)0xff);
		gb_int(b, p->tree, 4);
	} else {
		gb_pad(b, b->len + (0 - (at + b->len - begin)) % 8, 0);
		gb_pad(b, b->len + 8 * (nfuncdata - 1), 0);
		gb_int(b, p->tree, 8);
	}
}

static inline void gb_record(struct sbuf *b, const struct gb_opts *o, uint64_t entry, uint64_t name,
                             uint64_t pcsp, uint8_t flag)
{
	const struct gb_fn fn = {.flag = flag};
	const struct gb_places p = {.name = name, .pcsp = pcsp};

	gb_full_record(b, o, entry, &p, &fn, 0);
}

static inline void gb_string(struct sbuf *b, const char *s)
{
	(void)sbuf_add(b, s, strlen(s) + 1);
}

/* The tree of a function; names of calls go to @names, which begins at @names_base for it. */
static inline void gb_tree(struct sbuf *tree, const struct gb_opts *o, const struct gb_fn *fn,
                           struct sbuf *names, uint64_t names_base)
{
	for (size_t k = 0; k < GB_CALLS && fn->calls[k].name; k++) {
		const struct gb_call *c = &fn->calls[k];

		gb_int(tree, 0, o->version >= 120 ? 0 : 2);
		gb_int(tree, c->func_id, 1);
		gb_pad(tree, tree->len + (o->version >= 120 ? 3 : 9), 0);
		gb_int(tree, names->len + names_base, 4);
		gb_int(tree, c->parent_pc, 4);
		if (o->version >= 120)
			gb_int(tree, c->start_line, 4);
		gb_string(names, c->name);
	}
}

static inline uint64_t gb_values_of(struct sbuf *pctab, const struct gb_step *step, uint64_t base)
{
	const uint64_t at = pctab->len + base;

	if (!step[0].bytes)
		return 0;
	gb_values(pctab, step);
	return at;
}

/* Offsets of the parts of a table, from its header on. */
struct gb_parts {
	size_t names, cutab, filetab, pctab, functab, tree;
};

/* moduledata of 1.18 on: pointers into the table, where the text is, where trees are. */
static inline void gb_moduledata(struct sbuf *b, const struct gb_opts *o, const struct gb_map *m,
                                 size_t n, const struct gb_parts *at, uint64_t table)
{
	uint64_t w[41] = {[0] = table,
	                  [1] = table + at->names,
	                  [4] = table + at->cutab,
	                  [7] = table + at->filetab,
	                  [10] = table + at->pctab,
	                  [13] = table + at->functab,
	                  [20] = m->at[0],
	                  [21] = m->at[n],
	                  [22] = m->at[0]};
	size_t module, rela;

	w[o->version >= 120 ? 40 : 38] = table + at->tree;
	gb_pad(b, (b->len + 7) & ~(size_t)7, 0);
	module = b->len;
	if (o->module == GB_MODULE) {
		(void)sbuf_add(b, w, sizeof(w));
		return;
	}
	gb_pad(b, b->len + sizeof(w), 0);
	/* dynamic section, 3 entries; then relocations */
	rela = b->len + 6 * 8;
	gb_int(b, DT_RELA, 8);
	gb_int(b, table + rela, 8);
	gb_int(b, DT_RELASZ, 8);
	gb_int(b, 10 * sizeof(Elf64_Rela), 8);
	gb_int(b, DT_NULL, 8);
	gb_int(b, 0, 8);
	for (size_t i = 0; i < ARRAY_SIZE(w); i++) {
		if (w[i]) {
			gb_int(b, table + module + 8 * i, 8);
			gb_int(b, R_X86_64_RELATIVE, 8);
			gb_int(b, w[i], 8);
		}
	}
}

/* Address of a table in a data segment, as gb_wrap puts it there. */
static inline uint64_t gb_table_vaddr(size_t text_len)
{
	return GB_DATA_VADDR + ((GB_TEXT_OFF + text_len + 31) & ~(size_t)31);
}

static inline void gb_table(struct sbuf *b, const struct gb_opts *o, const struct gb_fn *fn,
                            size_t n, struct gb_map *m)
{
	_cleanup_(sbuf_done) struct sbuf names, pctab, recs, tree, files;
	const uint32_t magic = o->version == 12    ? 0xfffffffb
	                       : o->version == 116 ? 0xfffffffa
	                       : o->version == 118 ? 0xfffffff0
	                                           : 0xfffffff1;
	const bool narrow = o->version >= 118;
	const uint64_t base = narrow ? m->at[0] : 0, table = gb_table_vaddr(m->text_len);
	const size_t words = o->version == 12 ? 1 : narrow ? 8 : 7;
	const size_t functab = (2 * n + 1) * (narrow ? 4 : 8) + 8;
	/* Places of the parts, from the header on; of records from the functab, but in 1.2. */
	struct gb_parts at = {.functab = 8 + words * 8};
	const size_t recs_at = at.functab + functab;
	size_t rec_of[GB_FNS];

	sbuf_init(&names, 1 << 17);
	sbuf_init(&pctab, 1 << 16);
	sbuf_init(&recs, 1 << 16);
	sbuf_init(&tree, 1 << 16);
	sbuf_init(&files, 1 << 16);
	for (int pass = 0; pass < 2; pass++) { /* the places are known after the first */
		const uint64_t names_base = o->version == 12 ? recs_at + recs.len : 0,
		               pctab_base = names_base ? names_base + names.len : 0;

		at.names = recs_at + recs.len;
		at.pctab = at.names + names.len;
		at.tree = at.pctab + pctab.len;
		at.cutab = (at.tree + tree.len + 3) & ~(size_t)3;
		at.filetab = at.cutab + 4 * GB_FILES;
		sbuf_reset(&names);
		sbuf_reset(&pctab);
		sbuf_reset(&recs);
		sbuf_reset(&tree);
		(void)sbuf_char(&names, 0);
		(void)sbuf_char(&pctab, 0);
		for (size_t i = 0; i < n; i++) {
			struct gb_places p = {.name = names.len + names_base,
			                      .has_tree = fn[i].calls[0].name};

			gb_string(&names, fn[i].name);
			p.pcsp = fn[i].no_pcsp ? 0 : pctab.len + pctab_base;
			gb_pcsp(&pctab, &fn[i]);
			p.pcfile = gb_values_of(&pctab, fn[i].file, pctab_base);
			p.pcln = gb_values_of(&pctab, fn[i].line, pctab_base);
			p.in = gb_values_of(&pctab, fn[i].in, pctab_base);
			p.tree = tree.len + (narrow ? 0 : table + at.tree);
			gb_tree(&tree, o, &fn[i], &names, names_base);
			rec_of[i] = recs.len;
			gb_full_record(&recs, o, m->at[i] - base, &p, &fn[i], recs_at + recs.len);
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
		gb_int(b, at.names, 8);
		gb_int(b, at.cutab, 8);
		gb_int(b, at.filetab, 8);
		gb_int(b, at.pctab, 8);
		gb_int(b, at.functab, 8);
	}
	for (size_t i = 0; i <= n; i++) {
		gb_int(b, m->at[i] - base, narrow ? 4 : 8);
		if (i < n)
			gb_int(b, recs_at + rec_of[i] - (o->version == 12 ? 0 : at.functab),
			       narrow ? 4 : 8);
	}
	gb_int(b, o->version == 12 ? at.cutab : 0, 4); /* 1.2: of files */
	gb_pad(b, recs_at, 0);
	(void)sbuf_add(b, recs.p, recs.len);
	(void)sbuf_add(b, names.p, names.len);
	(void)sbuf_add(b, pctab.p, pctab.len);
	(void)sbuf_add(b, tree.p, tree.len);
	gb_pad(b, at.cutab, 0);
	/* 1.2: how many, then places of names from the table on. 1.16: places in filetab. */
	for (size_t i = 0; i < GB_FILES; i++) {
		const size_t unknown = o->version == 12 ? 0 : UINT32_MAX;

		if (o->version == 12 && i == 0)
			gb_int(b, GB_FILES, 4);
		else
			gb_int(b,
			       o->files[i] ? files.len + (o->version == 12 ? at.filetab : 0)
			                   : unknown,
			       4);
		if (o->files[i] && (o->version > 12 || i > 0))
			gb_string(&files, o->files[i]);
	}
	(void)sbuf_add(b, files.p, files.len);
	if (o->module && narrow) {
		gb_pad(b, (b->len + 7) & ~(size_t)7, 0);
		m->module = (size_t)(table - GB_DATA_VADDR) + b->len;
		gb_moduledata(b, o, m, n, &at, table);
	}
	assert(!names.err && !pctab.err && !recs.err && !tree.err && !files.err);
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
	                    .p_vaddr = GB_DATA_VADDR + table,
	                    .p_filesz = tab_len,
	                    .p_memsz = tab_len,
	                    .p_align = 0x1000};
	memcpy(b->p + sizeof(e) + sizeof(p), &data, sizeof(data));
	*ret_table = table;
}

/* A third program header: the dynamic section at @off. */
static inline void gb_dynamic(struct sbuf *b, size_t off)
{
	const Elf64_Phdr p = {.p_type = PT_DYNAMIC,
	                      .p_flags = PF_R | PF_W,
	                      .p_offset = off,
	                      .p_vaddr = GB_DATA_VADDR + off,
	                      .p_filesz = 48,
	                      .p_memsz = 48,
	                      .p_align = 8};
	Elf64_Ehdr e;

	memcpy(&e, b->p, sizeof(e));
	memcpy(b->p + sizeof(e) + e.e_phnum * sizeof(p), &p, sizeof(p));
	e.e_phnum++;
	memcpy(b->p, &e, sizeof(e));
}

static inline void gb_build(const struct gb_opts *o, const struct gb_fn *fn, size_t n,
                            struct sbuf *b, struct gb_map *ret)
{
	_cleanup_(sbuf_done) struct sbuf text, tab;
	struct gb_map m = {0};

	assert(n <= GB_FNS);
	sbuf_init(&text, 1 << 16);
	sbuf_init(&tab, 1 << 18);
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
	if (m.module && o->module == GB_RELOCATED_MODULE)
		gb_dynamic(b, m.module + 41 * 8);
	*ret = m;
}

#endif
