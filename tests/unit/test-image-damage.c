/* SPDX-License-Identifier: Apache-2.0 */
/* ELF files that are damaged, truncated or over a limit. */
#include "image_symbols.h"

static Elf64_Shdr *shdr_of(struct sbuf *b, const struct eb_map *m, size_t i)
{
	return (Elf64_Shdr *)(void *)(b->p + m->shoff + i * sizeof(Elf64_Shdr));
}

static Elf64_Phdr *phdr_of(struct sbuf *b, const struct eb_map *m, size_t i)
{
	return (Elf64_Phdr *)(void *)(b->p + m->phoff + i * sizeof(Elf64_Phdr));
}

static Elf64_Sym *sym_of(struct sbuf *b, const struct eb_map *m, size_t i)
{
	return (Elf64_Sym *)(void *)(b->p + m->symtab + (i + 1) * sizeof(Elf64_Sym));
}

/* Opens what was damaged, counts symbols and damages. */
static ssize_t count_damaged(const struct sbuf *b, uint64_t *ret_bad, size_t *ret_unnamed)
{
	struct img_file *f = NULL;
	struct listing l;
	ssize_t n;

	assert_int_equal(img_file_open_mem(b->p, b->len, &f, NULL), 0);
	n = list(f, &l);
	*ret_bad = img_bad_items(f);
	*ret_unnamed = l.unnamed;
	sbuf_done(&l.b);
	img_file_free(f);
	return n;
}

static void test_bad_items_cost_themselves_only(void **state)
{
	static const struct {
		const char *what;
		size_t sec; /* whose header is damaged, 0: none */
		Elf64_Shdr sec_xor;
		size_t sym; /* 1 + which symbol */
		Elf64_Sym sym_xor;
		ssize_t n;
		uint64_t bad;
		size_t unnamed;
	} cases[] = {
	        {.what = "nothing", .n = 5},
	        {"name outside", 0, {0}, 1, {.st_name = 0x40000000}, 4, 1, 0},
	        {"size that wraps", 0, {0}, 2, {.st_size = ~0ULL ^ 0x1f}, 4, 1, 0},
	        {"entry size", EB_SEC_SYMTAB, {.sh_entsize = 1}, 0, {0}, 1, 1, 0},
	        {"table past the end", EB_SEC_SYMTAB, {.sh_offset = 1ULL << 40}, 0, {0}, 1, 1, 0},
	        {"string section", EB_SEC_SYMTAB, {.sh_link = 0xff00}, 0, {0}, 1, 1, 0},
	        {"no strings", EB_SEC_STRTAB, {.sh_type = 7}, 0, {0}, 1, 1, 0},
	        {"strings far", EB_SEC_STRTAB, {.sh_offset = 1ULL << 50}, 0, {0}, 1, 1, 0},
	        /* clipped to the file: names are there, and what follows the table is no code */
	        {"strings too long", EB_SEC_STRTAB, {.sh_size = 1ULL << 62}, 0, {0}, 5, 1, 0},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct eb_map m;
		struct sbuf b;
		uint64_t bad;
		size_t unnamed;
		ssize_t n;

		eb_build(&basic, &b, &m);
		if (cases[i].sec) {
			uint8_t *p = (uint8_t *)shdr_of(&b, &m, cases[i].sec);
			const uint8_t *x = (const uint8_t *)&cases[i].sec_xor;

			for (size_t k = 0; k < sizeof(Elf64_Shdr); k++)
				p[k] ^= x[k];
		}
		if (cases[i].sym) {
			uint8_t *p = (uint8_t *)sym_of(&b, &m, cases[i].sym - 1);
			const uint8_t *x = (const uint8_t *)&cases[i].sym_xor;

			for (size_t k = 0; k < sizeof(Elf64_Sym); k++)
				p[k] ^= x[k];
		}
		n = count_damaged(&b, &bad, &unnamed);
		if (n != cases[i].n || bad != cases[i].bad || unnamed != cases[i].unnamed)
			fail_msg("%s: %zd symbols, %lu bad, %zu unnamed", cases[i].what, n, bad,
			         unnamed);
		sbuf_done(&b);
	}
}

static void test_name_without_end(void **state)
{
	struct eb_map m;
	uint64_t bad;
	size_t unnamed;
	struct sbuf b;

	(void)state;
	eb_build(&basic, &b, &m);
	shdr_of(&b, &m, EB_SEC_STRTAB)->sh_size = 4; /* "\0mai" */
	assert_int_equal(count_damaged(&b, &bad, &unnamed), 2);
	assert_int_equal(unnamed, 1);
	assert_int_equal(bad, 3); /* the names of three lie outside now */
	sbuf_done(&b);
}

static void test_absurd_counts_are_bounded(void **state)
{
	struct img_file *f = NULL;
	struct eb_map m;
	uint64_t bad;
	size_t unnamed;
	struct sbuf b;
	Elf64_Ehdr *e;

	(void)state;
	eb_build(&basic, &b, &m);
	e = (Elf64_Ehdr *)(void *)b.p;
	e->e_shnum = 0xfeff;
	assert_int_equal(count_damaged(&b, &bad, &unnamed), 5);
	assert_int_equal(bad, 1);
	e->e_shnum = 0;
	shdr_of(&b, &m, 0)->sh_size = UINT64_MAX;
	assert_int_equal(count_damaged(&b, &bad, &unnamed), 5);
	assert_int_equal(bad, 1);
	e->e_shnum = EB_SEC_CNT;
	e->e_phnum = PN_XNUM; /* count in sh_info of section 0 */
	shdr_of(&b, &m, 0)->sh_info = UINT32_MAX;
	assert_int_equal(img_file_open_mem(b.p, b.len, &f, NULL), 0);
	assert_true(img_bad_items(f) >= 1);
	img_file_free(f);
	f = NULL;
	shdr_of(&b, &m, 0)->sh_info = 3;
	assert_int_equal(img_file_open_mem(b.p, b.len, &f, NULL), 0);
	check_basic(f);
	img_file_free(f);
	e->e_phnum = 3;
	e->e_shoff = UINT64_MAX - 8;
	assert_int_equal(count_damaged(&b, &bad, &unnamed), -ENOENT);
	assert_int_equal(bad, 1);
	sbuf_done(&b);
}

static void test_sections_over_the_cap(void **state)
{
	enum { SECTIONS_MAX = 16384 };
	const size_t cnt = SECTIONS_MAX + 10;

	(void)state;
	for (size_t at = SECTIONS_MAX - 1; at <= SECTIONS_MAX; at++) {
		struct eb_map m;
		uint64_t bad;
		size_t unnamed;
		struct sbuf b, big;
		Elf64_Shdr s;
		Elf64_Ehdr e;

		eb_build(&basic, &b, &m);
		sbuf_init(&big, 4 << 20);
		memcpy(&e, b.p, sizeof(e));
		e.e_shoff = b.len;
		e.e_shnum = (Elf64_Half)cnt;
		memcpy(b.p, &e, sizeof(e));
		sbuf_add(&big, b.p, b.len);
		for (size_t i = 0; i < cnt; i++) {
			memset(&s, 0, sizeof(s));
			if (i == EB_SEC_STRTAB || i == at)
				s = *shdr_of(&b, &m, i == at ? EB_SEC_SYMTAB : i);
			sbuf_add(&big, &s, sizeof(s));
		}
		assert_int_equal(big.err, 0);
		assert_int_equal(count_damaged(&big, &bad, &unnamed),
		                 at < SECTIONS_MAX ? 3 : -ENOENT);
		assert_int_equal(bad, 1);
		sbuf_done(&big);
		sbuf_done(&b);
	}
}

/* A table that claims to be longer than its file is read up to the end of the file. */
static void test_table_longer_than_the_file(void **state)
{
	struct eb_map m;
	uint64_t bad;
	size_t unnamed;
	struct sbuf b;

	(void)state;
	eb_build(&basic, &b, &m);
	shdr_of(&b, &m, EB_SEC_SYMTAB)->sh_size = 1ULL << 40;
	assert_true(count_damaged(&b, &bad, &unnamed) >= 5);
	assert_true(bad >= 1);
	sbuf_done(&b);
}

static void test_build_id_notes(void **state)
{
	uint8_t id[IMG_BUILD_ID_MAX];
	struct eb_opts o = basic;
	struct img_file *f;
	struct eb_map m;
	struct sbuf b;
	size_t len = 77;
	uint32_t *note;

	(void)state;
	o.id_len = 21;
	f = open_built(&o, &b, &m);
	assert_int_equal(img_build_id(f, id, &len), -ENOENT); /* too long, in both places */
	assert_int_equal(img_bad_items(f), 2);
	assert_int_equal(len, 77);
	img_file_free(f);
	sbuf_done(&b);

	o.id_len = 0;
	f = open_built(&o, &b, &m);
	assert_int_equal(img_build_id(f, id, &len), -ENOENT);
	assert_int_equal(img_bad_items(f), 0);
	img_file_free(f);
	sbuf_done(&b);

	/* a program header that points to nonsense: the section is taken */
	o.id_len = 1;
	eb_build(&o, &b, &m);
	phdr_of(&b, &m, 1)->p_offset = EB_TEXT_OFF;
	memset(b.p + EB_TEXT_OFF, 0xff, 64);
	assert_int_equal(img_file_open_mem(b.p, b.len, &f, NULL), 0);
	assert_int_equal(img_build_id(f, id, &len), 0);
	assert_int_equal(len, 1);
	assert_int_equal(id[0], 1);
	assert_int_equal(img_bad_items(f), 1);
	img_file_free(f);
	/* an area of absurd size is looked at from its start */
	phdr_of(&b, &m, 1)->p_offset = m.note;
	phdr_of(&b, &m, 1)->p_filesz = 1ULL << 60;
	assert_int_equal(img_file_open_mem(b.p, b.len, &f, NULL), 0);
	assert_int_equal(img_build_id(f, id, &len), 0);
	assert_int_equal(img_bad_items(f), 0);
	img_file_free(f);
	/* another type before it; a note of absurd length ends its area */
	note = (uint32_t *)(void *)(b.p + m.note);
	note[2] = 1;
	assert_int_equal(img_file_open_mem(b.p, b.len, &f, NULL), 0);
	assert_int_equal(img_build_id(f, id, &len), -ENOENT);
	img_file_free(f);
	note[1] = 0xfffffff0;
	assert_int_equal(img_file_open_mem(b.p, b.len, &f, NULL), 0);
	assert_int_equal(img_build_id(f, id, &len), -ENOENT);
	assert_int_equal(img_bad_items(f), 2);
	img_file_free(f);
	sbuf_done(&b);
}

static void test_mapping_symbols_are_left_out(void **state)
{
	static const struct eb_sym syms[] = {
	        {"$x", 0x401000, 0, STB_LOCAL, STT_NOTYPE, EB_SEC_TEXT},
	        {"$d.12", 0x401010, 0, STB_LOCAL, STT_NOTYPE, EB_SEC_TEXT},
	        {"label", 0x401020, 0, STB_LOCAL, STT_NOTYPE, EB_SEC_TEXT},
	};
	struct eb_opts o = {.syms = syms, .n_syms = 3, .machine = EM_AARCH64};
	struct eb_map m;
	uint64_t bad;
	size_t unnamed;
	struct sbuf b;

	(void)state;
	eb_build(&o, &b, &m);
	assert_int_equal(count_damaged(&b, &bad, &unnamed), 1);
	sbuf_done(&b);
	o.machine = EM_X86_64;
	eb_build(&o, &b, &m);
	assert_int_equal(count_damaged(&b, &bad, &unnamed), 3);
	sbuf_done(&b);
}

static void test_offsets_to_addresses(void **state)
{
	struct eb_map m;
	struct sbuf b;
	struct img_file *f;
	uint64_t v = 0;

	(void)state;
	eb_build(&basic, &b, &m);
	phdr_of(&b, &m, 0)->p_offset = 0x1040;
	phdr_of(&b, &m, 0)->p_vaddr = 0x401040;
	phdr_of(&b, &m, 0)->p_filesz = 0x500;
	assert_int_equal(img_file_open_mem(b.p, b.len, &f, NULL), 0);
	assert_int_equal(img_off_to_vaddr(f, 0x1040, &v), 0);
	assert_int_equal(v, 0x401040);
	assert_int_equal(img_off_to_vaddr(f, 0x153f, &v), 0);
	assert_int_equal(v, 0x40153f);
	assert_int_equal(img_off_to_vaddr(f, 0x1000, &v), 0); /* the page's first byte */
	assert_int_equal(v, 0x401000);
	assert_int_equal(img_off_to_vaddr(f, 0x1fff, &v), 0); /* its last */
	assert_int_equal(v, 0x401fff);
	v = 9;
	assert_int_equal(img_off_to_vaddr(f, 0xfff, &v), -ENOENT);
	assert_int_equal(img_off_to_vaddr(f, 0x2000, &v), -ENOENT); /* data */
	assert_int_equal(v, 9);
	img_file_free(f);
	sbuf_done(&b);
}

/* Every cut of a file either opens, with what is left of it, or is refused. */
static void test_every_truncation(void **state)
{
	struct eb_map m;
	struct sbuf b;

	(void)state;
	eb_build(&basic, &b, &m);
	for (size_t len = 0; len < b.len; len += len >= 0x500 && len < 0x1ff0 ? 61 : 1) {
		_cleanup_free_ uint8_t *copy = malloc(len + 1); /* for the sanitizer */
		struct img_file *f = NULL;
		uint8_t id[IMG_BUILD_ID_MAX];
		struct listing l;
		size_t id_len;
		int r;

		assert_non_null(copy);
		memcpy(copy, b.p, len);
		r = img_file_open_mem(copy, len, &f, NULL);
		if (len < sizeof(Elf64_Ehdr)) {
			assert_int_equal(r, len < EI_NIDENT ? -ENOEXEC : -EINVAL);
			continue;
		}
		assert_int_equal(r, 0);
		assert_true(img_bad_items(f) > 0);
		r = img_build_id(f, id, &id_len);
		assert_int_equal(r, len >= m.note + 36 ? 0 : -ENOENT);
		assert_true(list(f, &l) <= 5);
		sbuf_done(&l.b);
		img_file_free(f);
	}
	sbuf_done(&b);
}

static void test_file_that_shrinks(void **state)
{
	struct img_file *f = NULL;
	struct listing l;
	struct eb_map m;
	struct sbuf b;
	int fd;

	(void)state;
	eb_build(&basic, &b, &m);
	fd = memfd_of(b.p, b.len);
	assert_int_equal(img_file_open(fd, &f, NULL), 0);
	assert_int_equal(ftruncate(fd, (off_t)m.strtab), 0);
	assert_int_equal(list(f, &l), 4);
	assert_int_equal(l.unnamed, 4);
	assert_int_equal(img_bad_items(f), 1); /* .dynsym is gone */
	sbuf_done(&l.b);
	img_file_free(f);
	close(fd);
	sbuf_done(&b);
}

static void test_name_cap(void **state)
{
	static char name[64 * 1024 + 2];
	struct eb_sym sym = {name, 0x401000, 4, STB_GLOBAL, STT_FUNC, EB_SEC_TEXT};
	struct eb_opts o = {.syms = &sym, .n_syms = 1};

	(void)state;
	for (size_t extra = 0; extra <= 1; extra++) {
		for (int file = 0; file <= 1; file++) {
			struct img_file *f = NULL;
			struct listing l;
			struct eb_map m;
			struct sbuf b;
			int fd;

			memset(name, 'x', 64 * 1024 + extra);
			name[64 * 1024 + extra] = 0;
			eb_build(&o, &b, &m);
			fd = memfd_of(b.p, b.len);
			assert_int_equal(file ? img_file_open(fd, &f, NULL)
			                      : img_file_open_mem(b.p, b.len, &f, NULL),
			                 0);
			assert_int_equal(list(f, &l), 1);
			/* A longer name is cut, and counted. */
			assert_int_equal(l.unnamed, 0);
			assert_int_equal(strspn(l.b.p, "x"), 64 * 1024);
			assert_int_equal(img_bad_items(f), extra);
			sbuf_done(&l.b);
			img_file_free(f);
			close(fd);
			sbuf_done(&b);
		}
	}
}

extern const char __executable_start[];

struct own {
	struct img_file *f;
	uint64_t value;
	size_t found;
};

static void find_own(void *arg, const struct img_symbol *s)
{
	struct own *o = arg;
	struct sbuf b;

	sbuf_init(&b, 1 << 17);
	if (img_symbol_name(o->f, s, &b) == 0 && strcmp(b.p, "find_own") == 0) {
		o->value = s->value;
		o->found++;
	}
	sbuf_done(&b);
}

static void test_own_binary(void **state)
{
	const struct img_segment *segs;
	struct own o = {0};
	struct listing from_file, from_mem;
	struct img_file *mem = NULL;
	uint64_t vaddr = 0, base;
	struct sbuf all;
	int fd;

	(void)state;
	fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
	assert_int_equal(img_file_open(fd, &o.f, NULL), 0);
	assert_true(img_symbols(o.f, find_own, &o) > 20);
	assert_int_equal(o.found, 1);
	assert_true(img_segments(o.f, &segs) >= 2);
	base = (uint64_t)(uintptr_t)__executable_start - segs[0].vaddr;
	assert_int_equal((uint64_t)(uintptr_t)find_own - base, o.value);
	for (size_t i = 0; i < img_segments(o.f, &segs); i++) {
		if (segs[i].exec)
			assert_int_equal(img_off_to_vaddr(o.f,
			                                  o.value - segs[i].vaddr + segs[i].off,
			                                  &vaddr),
			                 0);
	}
	assert_int_equal(vaddr, o.value);

	/* descriptor and memory give the same */
	sbuf_init(&all, 64 << 20);
	assert_int_equal(file_read_fd(fd, &all), 0);
	assert_int_equal(img_file_open_mem(all.p, all.len, &mem, NULL), 0);
	assert_int_equal(list(o.f, &from_file), list(mem, &from_mem));
	assert_string_equal(from_file.b.p, from_mem.b.p);
	assert_int_equal(img_bad_items(o.f), 0);
	sbuf_done(&from_file.b);
	sbuf_done(&from_mem.b);
	img_file_free(mem);
	img_file_free(o.f);
	sbuf_done(&all);
	close(fd);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	        cmocka_unit_test(test_bad_items_cost_themselves_only),
	        cmocka_unit_test(test_name_without_end),
	        cmocka_unit_test(test_absurd_counts_are_bounded),
	        cmocka_unit_test(test_sections_over_the_cap),
	        cmocka_unit_test(test_table_longer_than_the_file),
	        cmocka_unit_test(test_build_id_notes),
	        cmocka_unit_test(test_mapping_symbols_are_left_out),
	        cmocka_unit_test(test_offsets_to_addresses),
	        cmocka_unit_test(test_every_truncation),
	        cmocka_unit_test(test_file_that_shrinks),
	        cmocka_unit_test(test_name_cap),
	        cmocka_unit_test(test_own_binary),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
