/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Files that are damaged, that shrink while they are read, and that claim to be huge: what is given
 * all the same is right, and what it costs is bounded.
 */
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

static void note_size(size_t n)
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

static void watch(void)
{
	bytes_read = preads = 0;
	largest = 0;
	cut_at = UINT64_MAX;
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
static void make_file(struct file *t, bool is32)
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

static const char *name_of(const struct sym_batch *b, size_t i)
{
	return b->names[i].n ? sym_batch_frames(b, i)->name : "";
}

/* What the whole file gives, to compare with. */
static void make(struct file *t, bool is32)
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

/* How much of a damaged file's names can be told. */
enum trust {
	ANY,    /* other bytes may be symbols or their names now */
	SUBSET, /* names are names of the file, and may be missing, or others' */
	EXACT,  /* nothing that names depend on was changed */
};

static void expect_names(const struct file *t, const struct sym_batch *b, enum trust trust)
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

static void ignore_symbol(void *arg, const struct img_symbol *s)
{
	(void)arg, (void)s;
}

static bool is_answer(int r)
{
	return r == 0 || r == -ENOENT || r == -EINVAL || r == -E2BIG;
}

/* All that is read of a file; whatever it gives, it ends. */
static void read_all(const struct file *t, struct img_file *f, enum trust trust)
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
#define SIZE_OF(name_) (t->is32 ? sizeof(Elf32_##name_) : sizeof(Elf64_##name_))

static enum trust ehdr_trust(const struct file *t, size_t at)
{
	if (at == EI_CLASS || FIELD(Ehdr, e_phoff, at) || FIELD(Ehdr, e_phnum, at) ||
	    FIELD(Ehdr, e_shoff, at))
		return ANY;
	if (FIELD(Ehdr, e_shentsize, at) || FIELD(Ehdr, e_shnum, at))
		return SUBSET;
	return EXACT;
}

/* The first is that of the text, the second that of the note. */
static enum trust phdr_trust(const struct file *t, size_t i, size_t at)
{
	if (i > 0 || FIELD(Phdr, p_paddr, at) || FIELD(Phdr, p_align, at))
		return EXACT;
	return SUBSET;
}

static enum trust shdr_trust(const struct file *t, size_t i, size_t at)
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

static enum trust trust_of(const struct file *t, size_t at)
{
	if (at < SIZE_OF(Ehdr))
		return ehdr_trust(t, at);
	if (at < t->m.phoff + t->m.phnum * SIZE_OF(Phdr))
		return phdr_trust(t, (at - t->m.phoff) / SIZE_OF(Phdr),
		                  (at - t->m.phoff) % SIZE_OF(Phdr));
	return shdr_trust(t, (at - t->m.shoff) / SIZE_OF(Shdr), (at - t->m.shoff) % SIZE_OF(Shdr));
}

/* Returns the bits of the sections that a byte of one's header may change: all, unless it belongs
 * to one section and is no part of the name, by which others could be missed. */
static uint32_t may_change(const struct file *t, size_t at)
{
	size_t i;

	if (at < t->m.shoff)
		return UINT32_MAX;
	i = (at - t->m.shoff) / SIZE_OF(Shdr);
	if (i < TEXT + 1 || i > N_SECS || FIELD(Shdr, sh_name, (at - t->m.shoff) % SIZE_OF(Shdr)))
		return UINT32_MAX;
	return 1U << (i - 1);
}

/* What the sections besides the symbol table hold is read as before, but for those of @changed. */
static void expect_sections(struct img_file *f, uint32_t changed)
{
	static struct img_altlink alt;
	uint8_t *inner = NULL;
	struct img_debuglink link;
	struct img_area a;
	char info[12] = "";
	size_t len = 0;

	if (!(changed & 1U << LINK)) {
		assert_int_equal(img_debuglink(f, &link), 0);
		assert_string_equal(link.name, LINK_NAME);
	}
	if (!(changed & 1U << ALT)) {
		assert_int_equal(img_altlink(f, &alt), 0);
		assert_string_equal(alt.path, ALT_PATH);
	}
	if (!(changed & 1U << INFO)) {
		assert_int_equal(img_section_find(f, ".debug_info", &a), 0);
		assert_int_equal(img_area_read(f, &a, 0, info, INFO_BYTES), 0);
		assert_string_equal(info, INFO_TEXT);
	}
	if (!(changed & 1U << DATA)) {
		assert_int_equal(img_minidebug(f, 4 * MIB, &inner, &len), 0);
		assert_int_equal(len, INNER_BYTES);
		assert_memory_equal(inner, INNER_TEXT, INNER_BYTES);
		free(inner);
	}
}

static size_t mutate(struct file *t, size_t from, size_t to)
{
	size_t exact = 0;

	for (size_t at = from; at < to; at++) {
		const uint8_t was = (uint8_t)t->b.p[at];
		const uint8_t values[] = {0,
		                          1,
		                          SHT_SYMTAB,
		                          SHT_STRTAB,
		                          SHT_NOBITS,
		                          SHT_DYNSYM,
		                          0x7f,
		                          0x80,
		                          0xff,
		                          was ^ 1,
		                          was ^ 0x80,
		                          (uint8_t)(was + 1),
		                          (uint8_t)(was - 1)};

		for (size_t i = 0; i < ARRAY_SIZE(values); i++) {
			enum trust trust = trust_of(t, at);
			struct img_file *f = NULL;
			int r;

			t->b.p[at] = (char)values[i];
			r = img_file_open_mem(t->b.p, t->b.len, &f, NULL);
			assert_true(r == 0 || r == -ENOEXEC || r == -EINVAL);
			if (r < 0)
				continue;
			read_all(t, f, trust);
			if (may_change(t, at) != UINT32_MAX)
				expect_sections(f, may_change(t, at));
			exact += trust == EXACT;
			img_file_free(f);
		}
		t->b.p[at] = (char)was;
	}
	return exact;
}

static void test_a_byte_of_the_headers_changed_costs_what_it_belongs_to(void **state)
{
	struct file t;
	size_t exact;

	(void)state;
	make(&t, false);
	exact = mutate(&t, 0, t.m.phoff + t.m.phnum * sizeof(Elf64_Phdr));
	exact += mutate(&t, t.m.shoff, t.b.len);
	assert_true(exact > 5000); /* most of it has nothing to do with names */
	sbuf_done(&t.b);
}

static void test_a_byte_of_32_bit_headers_changed_costs_what_it_belongs_to(void **state)
{
	struct file t;
	size_t exact;

	(void)state;
	make(&t, true);
	exact = mutate(&t, 0, t.m.phoff + t.m.phnum * sizeof(Elf32_Phdr));
	exact += mutate(&t, t.m.shoff, t.b.len);
	assert_true(exact > 3000);
	sbuf_done(&t.b);
}

static void test_a_file_cut_off_anywhere_gives_right_names_or_none(void **state)
{
	struct file t;

	(void)state;
	make(&t, false);
	for (size_t len = 0; len < t.b.len; len++) {
		struct img_file *f = NULL;
		int r = img_file_open_mem(t.b.p, len, &f, NULL);

		assert_true(r == 0 || r == -ENOEXEC || r == -EINVAL);
		if (r == 0)
			read_all(&t, f, SUBSET);
		img_file_free(f);
	}
	sbuf_done(&t.b);
}

/* ---- a file that shrinks ---- */

static int memory_file(const void *p, size_t len)
{
	int fd = memfd_create("t", MFD_CLOEXEC);

	assert_true(fd >= 0);
	assert_int_equal(file_write_full(fd, p, len), 0);
	return fd;
}

static void test_a_file_that_shrinks_between_any_two_reads_does_no_harm(void **state)
{
	struct file t;
	uint64_t cuts[8], whole;

	(void)state;
	make(&t, false);
	for (size_t i = 0; i < ARRAY_SIZE(cuts); i++)
		cuts[i] = i < 4 ? i * 100 : t.b.len * (i - 3) / 5;
	cuts[4] = t.m.offs[SYMTAB] + 100; /* inside the table, and inside its names */
	cuts[5] = t.m.offs[STRTAB] + 30;
	watch();
	for (uint64_t k = 0;; k++) {
		for (size_t i = 0; i < ARRAY_SIZE(cuts); i++) {
			int fd = memory_file(t.b.p, t.b.len), r;
			struct img_file *f = NULL;

			watch();
			cut_at = k;
			cut_to = cuts[i];
			r = img_file_open(fd, &f, NULL);
			assert_true(r == 0 || r == -ENOEXEC || r == -EINVAL);
			if (r == 0)
				read_all(&t, f, SUBSET);
			img_file_free(f);
			close(fd);
		}
		whole = preads;
		if (k > whole) /* it was read to the end before that */
			break;
	}
	assert_true(whole > 10);
	watch();
	sbuf_done(&t.b);
}

struct shrink {
	int fd;
	uint64_t to;
	size_t seen;
};

static void shrink_at_first(void *arg, const struct img_symbol *s)
{
	struct shrink *w = arg;

	(void)s;
	if (w->seen++ == 0)
		assert_int_equal(ftruncate(w->fd, (off_t)w->to), 0);
}

/* A table of several chunks: what was read counts, the rest is one damaged item. */
static void test_a_symbol_table_that_shrinks_while_it_is_read_counts_once(void **state)
{
	enum { N = 10000 };
	_cleanup_free_ struct eb_sym *s = calloc(N, sizeof(*s));
	struct es_sec secs[3] = {
	        {.name = ".text", .len = TEXT_BYTES, .flags = SHF_ALLOC | SHF_EXECINSTR}};
	struct sbuf syms, strs, b;
	struct shrink w = {0};
	struct img_file *f = NULL;
	struct sym_batch batch;
	struct es_map m;
	uint64_t off;

	(void)state;
	assert_non_null(s);
	sbuf_init(&syms, MIB);
	sbuf_init(&strs, MIB);
	for (size_t i = 0; i < N; i++)
		s[i] = (struct eb_sym){.name = "same",
		                       .value = 1,
		                       .bind = STB_GLOBAL,
		                       .type = STT_FUNC,
		                       .shndx = 1};
	eb_table(&syms, false, s, N, &strs);
	secs[1] = (struct es_sec){.name = ".symtab",
	                          .bytes = syms.p,
	                          .len = syms.len,
	                          .type = SHT_SYMTAB,
	                          .link = 3,
	                          .entsize = sizeof(Elf64_Sym)};
	secs[2] = (struct es_sec){
	        .name = ".strtab", .bytes = strs.p, .len = strs.len, .type = SHT_STRTAB};
	es_build(false, secs, 3, &b, &m);
	w.fd = memory_file(b.p, b.len);
	w.to = m.offs[1] + 100 * sizeof(Elf64_Sym);
	assert_int_equal(img_file_open(w.fd, &f, NULL), 0);
	assert_int_equal(img_symbols(f, shrink_at_first, &w), 64 * 1024 / sizeof(Elf64_Sym) - 1);
	assert_int_equal(img_bad_items(f), 1);
	/* And once more, when even its first chunk is not whole: no symbol is sound. */
	off = m.offs[0];
	assert_int_equal(sym_elf_resolve(f, &off, 1, &batch), 0);
	assert_int_equal(img_bad_items(f), 2);
	assert_int_equal(batch.names[0].reason, EV_REASON_BAD_ELF);
	sym_batch_done(&batch);
	img_file_free(f);
	close(w.fd);
	sbuf_done(&b);
	sbuf_done(&syms);
	sbuf_done(&strs);
}

/* ---- a file that claims to be huge ---- */

/* A sparse file, of which one section has 4 GiB and lies where there are only zeros. */
static int huge_file(const struct file *t, size_t sec, uint64_t size)
{
	int fd = memory_file(t->b.p, t->b.len);
	Elf64_Shdr h;
	size_t at = t->m.shoff + (sec + 1) * sizeof(h);

	memcpy(&h, t->b.p + at, sizeof(h));
	h.sh_offset = MIB;
	h.sh_size = size;
	assert_int_equal(pwrite(fd, &h, sizeof(h), (off_t)at), sizeof(h));
	assert_int_equal(ftruncate(fd, (off_t)(MIB + (4ULL << 30))), 0);
	return fd;
}

static void test_a_symbol_table_of_4_gib_costs_what_the_cap_allows(void **state)
{
	const uint64_t cap = 16ULL * MIB * sizeof(Elf64_Sym);
	struct img_file *f = NULL;
	struct sym_batch b;
	struct file t;
	int fd;

	(void)state;
	make(&t, false);
	fd = huge_file(&t, SYMTAB, 4ULL << 30);
	watch();
	assert_int_equal(img_file_open(fd, &f, NULL), 0);
	assert_int_equal(img_symbols(f, ignore_symbol, NULL), 0);
	assert_int_equal(img_bad_items(f), 1);
	assert_true(bytes_read <= cap + MIB);
	bytes_read = 0;
	assert_int_equal(sym_elf_resolve(f, t.offs, t.n, &b), 0);
	for (size_t i = 0; i < t.n; i++)
		assert_int_equal(b.names[i].reason, EV_REASON_NO_SYMBOL);
	assert_true(bytes_read <= cap + MIB);
	assert_true(largest <= MIB);
	assert_int_equal(img_bad_items(f), 1);
	sym_batch_done(&b);
	img_file_free(f);
	close(fd);
	/* More than the file has: cut at its end, and at the cap. */
	fd = huge_file(&t, SYMTAB, UINT64_MAX / 2);
	f = NULL;
	watch();
	assert_int_equal(img_file_open(fd, &f, NULL), 0);
	assert_int_equal(img_bad_items(f), 2);
	assert_int_equal(img_symbols(f, ignore_symbol, NULL), 0);
	assert_true(bytes_read <= cap + MIB && largest <= MIB);
	img_file_free(f);
	close(fd);
	sbuf_done(&t.b);
}

static void test_other_sections_of_4_gib_cost_little(void **state)
{
	static const size_t secs[] = {STRTAB, NOTE, LINK, ALT, DATA, INFO, N_SECS /* names */};
	struct file t;

	(void)state;
	make(&t, false);
	for (size_t i = 0; i < ARRAY_SIZE(secs); i++) {
		int fd = huge_file(&t, secs[i], 4ULL << 30);
		struct img_file *f = NULL;
		uint8_t id[IMG_BUILD_ID_MAX];
		size_t len;

		watch();
		assert_int_equal(img_file_open(fd, &f, NULL), 0);
		/* Names of the symbols are empty now where their table is what moved. */
		read_all(&t, f, secs[i] == STRTAB ? ANY : EXACT);
		(void)img_build_id(f, id, &len); /* the program header still tells it */
		assert_true(bytes_read < 4 * MIB);
		assert_true(largest <= 2 * MIB);
		img_file_free(f);
		close(fd);
	}
	sbuf_done(&t.b);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	        cmocka_unit_test(test_a_byte_of_the_headers_changed_costs_what_it_belongs_to),
	        cmocka_unit_test(test_a_byte_of_32_bit_headers_changed_costs_what_it_belongs_to),
	        cmocka_unit_test(test_a_file_cut_off_anywhere_gives_right_names_or_none),
	        cmocka_unit_test(test_a_file_that_shrinks_between_any_two_reads_does_no_harm),
	        cmocka_unit_test(test_a_symbol_table_that_shrinks_while_it_is_read_counts_once),
	        cmocka_unit_test(test_a_symbol_table_of_4_gib_costs_what_the_cap_allows),
	        cmocka_unit_test(test_other_sections_of_4_gib_cost_little),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests_name("elf-damage", tests, NULL, NULL);
}
