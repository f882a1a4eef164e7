/* SPDX-License-Identifier: Apache-2.0 */
/* Files that shrink while they are read, and that claim to be huge. */
#include "damaged_elf.h"

static void watch(void)
{
	bytes_read = preads = 0;
	largest = 0;
	cut_at = UINT64_MAX;
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
	        cmocka_unit_test(test_a_file_that_shrinks_between_any_two_reads_does_no_harm),
	        cmocka_unit_test(test_a_symbol_table_that_shrinks_while_it_is_read_counts_once),
	        cmocka_unit_test(test_a_symbol_table_of_4_gib_costs_what_the_cap_allows),
	        cmocka_unit_test(test_other_sections_of_4_gib_cost_little),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests_name("elf-shrink", tests, NULL, NULL);
}
