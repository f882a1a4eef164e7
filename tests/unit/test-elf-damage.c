/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Files that are damaged, that shrink while they are read, and that claim to be huge: what is given
 * all the same is right, and what it costs is bounded.
 */
#include "damaged_elf.h"

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

/* Reads each section other than the symbol table as before, but for those of @changed. */
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

int main(void)
{
	const struct CMUnitTest tests[] = {
	        cmocka_unit_test(test_a_byte_of_the_headers_changed_costs_what_it_belongs_to),
	        cmocka_unit_test(test_a_byte_of_32_bit_headers_changed_costs_what_it_belongs_to),
	        cmocka_unit_test(test_a_file_cut_off_anywhere_gives_right_names_or_none),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests_name("elf-damage", tests, NULL, NULL);
}
