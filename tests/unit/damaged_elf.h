/* SPDX-License-Identifier: Apache-2.0 */
/*
 * damaged-elf - a file with each kind of section, and what of it a reader may lose
 */
#ifndef PA_TEST_DAMAGED_ELF_H
#define PA_TEST_DAMAGED_ELF_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <fcntl.h>
#include <lzma.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include "elf_sections.h"
#include "symbolize/symbolize.h"

#define TEXT_BYTES 0x400
#define N_SYMS     16
#define OFFS_MAX   64
#define MIB        (1024 * 1024)
/* Contents of sections. */
#define LINK_NAME   "x.debug"
#define ALT_PATH    "../y.debug"
#define INNER_TEXT  "inner file"
#define INNER_BYTES (sizeof(INNER_TEXT) - 1)
#define INFO_TEXT   "information"
#define INFO_BYTES  (sizeof(INFO_TEXT) - 1)

/* ---- libc and others, replaced ---- */

ssize_t __real_file_pread_full(int fd, void *buf, size_t len, uint64_t off);
ssize_t __wrap_file_pread_full(int fd, void *buf, size_t len, uint64_t off);
void *__real_malloc(size_t n);
void *__wrap_malloc(size_t n);
void *__real_calloc(size_t n, size_t m);
void *__wrap_calloc(size_t n, size_t m);
void *__real_realloc(void *p, size_t n);
void *__wrap_realloc(void *p, size_t n);

static uint64_t bytes_read, preads;
static uint64_t cut_at = UINT64_MAX; /* before this read, counted from 0, the file shrinks */
static uint64_t cut_to;              /* bytes */
static size_t largest;               /* of all allocations */

ssize_t __wrap_file_pread_full(int fd, void *buf, size_t len, uint64_t off)
{
	if (preads++ == cut_at)
		assert_int_equal(ftruncate(fd, (off_t)cut_to), 0);
	bytes_read += len;
	return __real_file_pread_full(fd, buf, len, off);
}

static inline void note_size(size_t n)
{
	if (n > largest)
		largest = n;
}

void *__wrap_malloc(size_t n)
{
	note_size(n);
	return __real_malloc(n);
}

void *__wrap_calloc(size_t n, size_t m)
{
	note_size(n * m);
	return __real_calloc(n, m);
}

void *__wrap_realloc(void *p, size_t n)
{
	note_size(n);
	return __real_realloc(p, n);
}

/* ---- a file with a bit of everything ---- */

/* Sections by their place in the list; the index is one more. */
enum { TEXT, SYMTAB, STRTAB, NOTE, LINK, ALT, DATA, INFO, N_SECS };

struct file {
	bool is32;
	struct sbuf b;
	struct es_map m;
	uint64_t offs[OFFS_MAX]; /* of addresses that are looked up: n */
	size_t n;
	char names[OFFS_MAX][32]; /* theirs, "" if none */
	uint64_t starts[OFFS_MAX];
	char all[N_SYMS][32]; /* names of the symbol table */
};

/* Functions of 0x20 bytes with gaps of 0x10 between; the last ones are labels without a size. */
static inline void make_file(struct file *t, bool is32)
{
	static const uint8_t id[20] = {1, 2, 3, 4};
	struct sbuf syms, strs, note, link, data;
	struct es_sec secs[N_SECS] = {0};
	struct eb_sym s[N_SYMS] = {0};
	uint8_t packed[4096];
	size_t packed_len = 0;

	*t = (struct file){.is32 = is32};
	sbuf_init(&syms, MIB);
	sbuf_init(&strs, MIB);
	for (size_t i = 0; i < N_SYMS; i++) {
		snprintf(t->all[i], sizeof(t->all[i]), "function_%zu", i);
		s[i] = (struct eb_sym){.name = t->all[i],
		                       .size = i < N_SYMS - 2 ? 0x20 : 0,
		                       .bind = STB_GLOBAL,
		                       .type = i < N_SYMS - 2 ? STT_FUNC : STT_NOTYPE,
		                       .shndx = TEXT + 1};
	}
	/* The text's address is known once it is laid out: twice, then. */
	for (int round = 0; round < 2; round++) {
		for (size_t i = 0; i < N_SYMS && round; i++)
			s[i].value = ES_BIAS + t->m.offs[TEXT] + 0x10 + i * 0x30;
		sbuf_reset(&syms);
		sbuf_reset(&strs);
		eb_table(&syms, is32, s, N_SYMS, &strs);
		es_note(&note, id, sizeof(id));
		es_debuglink(&link, LINK_NAME, 0x12345678);
		sbuf_init(&data, MIB);
		sbuf_add(&data, ALT_PATH, sizeof(ALT_PATH));
		sbuf_add(&data, id, sizeof(id));
		packed_len = 0;
		assert_int_equal(lzma_easy_buffer_encode(0, LZMA_CHECK_NONE, NULL,
		                                         (const uint8_t *)INNER_TEXT, INNER_BYTES,
		                                         packed, &packed_len, sizeof(packed)),
		                 LZMA_OK);
		secs[TEXT] = (struct es_sec){
		        .name = ".text", .len = TEXT_BYTES, .flags = SHF_ALLOC | SHF_EXECINSTR};
		secs[SYMTAB] =
		        (struct es_sec){.name = ".symtab",
		                        .bytes = syms.p,
		                        .len = syms.len,
		                        .type = SHT_SYMTAB,
		                        .link = STRTAB + 1,
		                        .entsize = is32 ? sizeof(Elf32_Sym) : sizeof(Elf64_Sym)};
		secs[STRTAB] = (struct es_sec){
		        .name = ".strtab", .bytes = strs.p, .len = strs.len, .type = SHT_STRTAB};
		secs[NOTE] = (struct es_sec){.name = ".note.gnu.build-id",
		                             .bytes = note.p,
		                             .len = note.len,
		                             .type = SHT_NOTE};
		secs[LINK] =
		        (struct es_sec){.name = ".gnu_debuglink", .bytes = link.p, .len = link.len};
		secs[ALT] = (struct es_sec){
		        .name = ".gnu_debugaltlink", .bytes = data.p, .len = data.len};
		secs[DATA] = (struct es_sec){
		        .name = ".gnu_debugdata", .bytes = packed, .len = packed_len};
		secs[INFO] = (struct es_sec){
		        .name = ".debug_info", .bytes = INFO_TEXT, .len = INFO_BYTES};
		sbuf_done(&t->b);
		es_build(is32, secs, N_SECS, &t->b, &t->m);
		sbuf_done(&note);
		sbuf_done(&link);
		sbuf_done(&data);
	}
	sbuf_done(&syms);
	sbuf_done(&strs);
	for (uint64_t off = 0; off < TEXT_BYTES; off += 0x18)
		t->offs[t->n++] = t->m.offs[TEXT] + off;
	assert_true(t->n <= OFFS_MAX);
}

static inline const char *name_of(const struct sym_batch *b, size_t i)
{
	return b->names[i].n ? sym_batch_frames(b, i)->name : "";
}

/* Makes a file, and keeps the names of the undamaged one to compare with. */
static inline void make(struct file *t, bool is32)
{
	struct img_file *f = NULL;
	struct sym_batch b;
	size_t named = 0;

	make_file(t, is32);
	assert_int_equal(img_file_open_mem(t->b.p, t->b.len, &f, NULL), 0);
	assert_int_equal(sym_elf_resolve(f, t->offs, t->n, &b), 0);
	for (size_t i = 0; i < t->n; i++) {
		snprintf(t->names[i], sizeof(t->names[i]), "%s", name_of(&b, i));
		t->starts[i] = b.names[i].start;
		named += t->names[i][0] != 0;
	}
	assert_true(named > t->n / 2 && named < t->n); /* there are gaps */
	assert_int_equal(img_bad_items(f), 0);
	sym_batch_done(&b);
	img_file_free(f);
}

/* How much of a damaged file's names can be reported. */
enum trust {
	ANY,    /* other bytes may be symbols or their names now */
	SUBSET, /* names are names of the file, and may be missing, or others' */
	EXACT,  /* nothing that names depend on was changed */
};

static inline void expect_names(const struct file *t, const struct sym_batch *b, enum trust trust)
{
	assert_int_equal(b->n, t->n);
	for (size_t i = 0; i < t->n; i++) {
		const char *name = name_of(b, i);
		bool known = *name == 0;

		assert_true((b->names[i].reason == EV_REASON_NAMED) == (b->names[i].n > 0));
		for (size_t k = 0; k < N_SYMS && !known; k++)
			known = strcmp(name, t->all[k]) == 0;
		assert_true(known || trust == ANY);
		assert_true(strnlen(name, 4096) < 4096);
		if (trust == EXACT) {
			assert_string_equal(name, t->names[i]);
			assert_int_equal(b->names[i].start, t->starts[i]);
		}
	}
}

static inline void ignore_symbol(void *arg, const struct img_symbol *s)
{
	(void)arg, (void)s;
}

static inline bool is_answer(int r)
{
	return r == 0 || r == -ENOENT || r == -EINVAL || r == -E2BIG;
}

/* All that is read of a file; whatever it gives, it ends. */
static inline void read_all(const struct file *t, struct img_file *f, enum trust trust)
{
	static struct img_altlink alt;
	struct img_debuglink link;
	struct sym_batch b;
	struct img_area a;
	uint8_t *p = NULL;
	size_t len = 0;
	ssize_t n;

	n = img_symbols(f, ignore_symbol, NULL);
	assert_true(n >= 0 || n == -ENOENT);
	assert_int_equal(sym_elf_resolve(f, t->offs, t->n, &b), 0);
	expect_names(t, &b, trust);
	sym_batch_done(&b);
	assert_true(is_answer(img_debuglink(f, &link)));
	assert_true(is_answer(img_altlink(f, &alt)));
	assert_true(is_answer(img_section_find(f, ".debug_info", &a)));
	assert_true(is_answer(img_minidebug(f, 4 * MIB, &p, &len)));
	free(p);
}

/* ---- one byte changed ---- */

#define IN_FIELD(type_, field_, at_)                                                               \
	((at_)-offsetof(type_, field_) < sizeof(((type_ *)NULL)->field_)) /* unsigned: wraps */
/* Elf32_Ehdr or Elf64_Ehdr, and so on. */
#define FIELD(name_, field_, at_)                                                                  \
	(t->is32 ? IN_FIELD(Elf32_##name_, field_, at_) : IN_FIELD(Elf64_##name_, field_, at_))

static inline enum trust shdr_trust(const struct file *t, size_t i, size_t at)
{
	bool off = FIELD(Shdr, sh_offset, at), size = FIELD(Shdr, sh_size, at);

	switch (i) {
	case TEXT + 1:
		return FIELD(Shdr, sh_addr, at) || size || FIELD(Shdr, sh_flags, at) ? SUBSET
		                                                                     : EXACT;
	case SYMTAB + 1:
		if (off || size || FIELD(Shdr, sh_link, at))
			return ANY;
		return FIELD(Shdr, sh_type, at) || FIELD(Shdr, sh_entsize, at) ? SUBSET : EXACT;
	case STRTAB + 1:
		if (off)
			return ANY;
		return size || FIELD(Shdr, sh_type, at) ? SUBSET : EXACT;
	default:
		return EXACT;
	}
}

#endif
