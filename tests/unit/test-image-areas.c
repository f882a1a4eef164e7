/* SPDX-License-Identifier: Apache-2.0 */
/* Parts of ELF files that unwinding needs: where they lie, and their bytes. */
#include "image_areas.h"

static void expect_none(const struct opts *o, enum img_area_kind kind, int err, uint64_t bad)
{
	struct img_area a = {.off = 77};
	struct sbuf b;
	struct img_file *f = build(o, &b);

	assert_int_equal(img_area_find(f, kind, &a), err);
	assert_int_equal(a.off, 77);
	assert_int_equal(img_bad_items(f), bad);
	img_file_free(f);
	sbuf_done(&b);
}

static void test_sections_by_name(void **state)
{
	static const struct {
		const char *name;
		enum img_area_kind kind;
		uint64_t flags;
	} cases[] = {
	        {".eh_frame", IMG_AREA_EH_FRAME, SHF_ALLOC},
	        {".eh_frame_hdr", IMG_AREA_EH_FRAME_HDR, SHF_ALLOC},
	        {".debug_frame", IMG_AREA_DEBUG_FRAME, 0},
	        {".gopclntab", IMG_AREA_GOPCLNTAB, SHF_ALLOC},
	        {".data.rel.ro.gopclntab", IMG_AREA_GOPCLNTAB, SHF_ALLOC},
	        {".plt", IMG_AREA_PLT, SHF_ALLOC},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		for (int is32 = 0; is32 < 2; is32++) {
			const struct opts o = {.is32 = is32,
			                       .name = cases[i].name,
			                       .bytes = "some bytes",
			                       .len = 10,
			                       .flags = cases[i].flags};

			expect_area(&o, cases[i].kind, PART_OFF,
			            cases[i].flags ? BIAS + PART_OFF : 0, "some bytes", 10);
		}
	}
}

static void test_other_names_are_not_it(void **state)
{
	static const char *const names[] = {
	        ".eh_fram", ".eh_frame1", "eh_frame",
	        ".plt.sec", "",           ".eh_frame_but_with_a_name_that_is_quite_long"};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		const struct opts o = {
		        .name = names[i], .bytes = "x", .len = 1, .flags = SHF_ALLOC};

		expect_none(&o, IMG_AREA_EH_FRAME, -ENOENT, 0);
		expect_none(&o, IMG_AREA_PLT, -ENOENT, 0);
		expect_none(&o, IMG_AREA_DEBUG_FRAME, -ENOENT, 0);
	}
}

static void test_section_without_bytes(void **state)
{
	/* A file of debug information; the program header would lead into other bytes. */
	const struct opts o = {.name = ".eh_frame",
	                       .bytes = "\x01\x1b\x03\x3b\x04\x00\x00\x00",
	                       .len = 8,
	                       .type = SHT_NOBITS,
	                       .flags = SHF_ALLOC,
	                       .hdr_off = PART_OFF,
	                       .hdr_size = 8};
	/* The linker leaves such a one at the end of a segment. */
	const struct opts empty = {.name = ".eh_frame", .bytes = "", .len = 0, .flags = SHF_ALLOC};

	(void)state;
	expect_none(&o, IMG_AREA_EH_FRAME, -ENOENT, 0);
	expect_area(&empty, IMG_AREA_EH_FRAME, PART_OFF, BIAS + PART_OFF, "", 0);
}

/* ---- by program header ----------------------------------------------------------------------- */

static void test_by_program_header(void **state)
{
	static const struct {
		const char *name;
		uint8_t hdr[16]; /* the frame follows at + 16 */
	} cases[] = {
	        {"pcrel sdata4", {1, 0x1b, 3, 0x3b, 12}},
	        {"datarel udata4", {1, 0x33, 3, 0x3b, 16}},
	        {"datarel sdata2", {1, 0x3a, 3, 0x3b, 16}},
	        {"datarel udata2", {1, 0x32, 3, 0x3b, 16}},
	        {"pcrel sdata8", {1, 0x1c, 3, 0x3b, 12}},
	        {"udata4", {1, 0x03, 3, 0x3b, 0x10, 0x20, 0x40}},
	        {"absptr", {1, 0x00, 3, 0x3b, 0x10, 0x20, 0x40}},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		for (int is32 = 0; is32 < 2; is32++) {
			uint8_t bytes[24];
			const struct opts o = {.is32 = is32,
			                       .bytes = bytes,
			                       .len = sizeof(bytes),
			                       .hdr_off = PART_OFF,
			                       .hdr_size = 16};

			memcpy(bytes, cases[i].hdr, 16);
			memcpy(bytes + 16, "a frame.", 8);
			/* To the end of the segment. */
			expect_area(&o, IMG_AREA_EH_FRAME, PART_OFF + 16, BIAS + PART_OFF + 16,
			            "a frame.", 8);
			expect_area(&o, IMG_AREA_EH_FRAME_HDR, PART_OFF, BIAS + PART_OFF, bytes,
			            16);
		}
	}
}

static void test_bad_frame_header(void **state)
{
	static const uint8_t cases[][8] = {
	        {2, 0x1b, 3, 0x3b, 12},                     /* version */
	        {1, 0xff, 3, 0x3b, 12},                     /* omitted */
	        {1, 0x5b, 3, 0x3b, 12},                     /* aligned */
	        {1, 0x9b, 3, 0x3b, 12},                     /* indirect */
	        {1, 0x11, 3, 0x3b, 12},                     /* LEB128 */
	        {1, 0x1b, 3, 0x3b, 0xff, 0xff, 0xff, 0x7f}, /* outside */
	        {1, 0x1b, 3, 0x3b, 0, 0, 0, 0x80},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		const struct opts o = {
		        .bytes = cases[i], .len = 8, .hdr_off = PART_OFF, .hdr_size = 8};

		expect_none(&o, IMG_AREA_EH_FRAME, -EINVAL, 1);
	}
	for (uint64_t size = 1; size < 8; size++) {
		const struct opts o = {.bytes = "\x01\x1b\x03\x3b\x04\x00\x00\x00",
		                       .len = 8,
		                       .hdr_off = PART_OFF,
		                       .hdr_size = size};

		expect_none(&o, IMG_AREA_EH_FRAME, -EINVAL, 1);
	}
	for (int i = 0; i < 2; i++) {
		const struct opts o = {.bytes = "",
		                       .len = 0,
		                       .hdr_off = i ? UINT64_MAX - 4 : 0x100000,
		                       .hdr_size = 8};

		expect_none(&o, IMG_AREA_EH_FRAME, -EINVAL, 1);
		expect_none(&o, IMG_AREA_EH_FRAME_HDR, -EINVAL, 1);
	}
}

/* The section header of the part, in a 64-bit file. */
static Elf64_Shdr *part_shdr(struct sbuf *b)
{
	Elf64_Ehdr e;

	memcpy(&e, b->p, sizeof(e));
	return (Elf64_Shdr *)(void *)(b->p + e.e_shoff) + 2;
}

static void test_section_that_lies_loses_to_the_program_header(void **state)
{
	const struct opts o = {.name = ".eh_frame",
	                       .bytes = "\x01\x1b\x03\x3b\x04\x00\x00\x00"
	                                "a frame.",
	                       .len = 16,
	                       .flags = SHF_ALLOC,
	                       .hdr_off = PART_OFF,
	                       .hdr_size = 8};

	(void)state;
	for (int i = 0; i < 4; i++) {
		struct img_area a = {0};
		struct img_file *f;
		struct sbuf b;

		img_file_free(build(&o, &b));
		switch (i) {
		case 0:
			part_shdr(&b)->sh_offset = 1 << 30;
			break;
		case 1:
			part_shdr(&b)->sh_size = UINT64_MAX;
			break;
		case 2:
			part_shdr(&b)->sh_addr += 0x1000;
			break;
		default:
			part_shdr(&b)->sh_addr = UINT64_MAX - 1;
			break;
		}
		assert_int_equal(img_file_open_mem(b.p, b.len, &f, NULL), 0);
		assert_int_equal(img_area_find(f, IMG_AREA_EH_FRAME, &a), 0);
		assert_int_equal(a.off, PART_OFF + 8);
		assert_int_equal(a.file_size, 8);
		assert_true(img_bad_items(f) >= 1);
		img_file_free(f);
		sbuf_done(&b);
	}
}

static void test_names_outside(void **state)
{
	const struct opts o = {.name = ".eh_frame", .bytes = "x", .len = 1, .flags = SHF_ALLOC};

	(void)state;
	for (int i = 0; i < 4; i++) {
		struct img_area a = {0};
		struct img_file *f;
		Elf64_Ehdr e;
		struct sbuf b;

		img_file_free(build(&o, &b));
		memcpy(&e, b.p, sizeof(e));
		if (i == 0)
			e.e_shstrndx = 9;
		else if (i == 1)
			part_shdr(&b)->sh_name = 0x7fffffff;
		else if (i == 2)
			part_shdr(&b)[1].sh_offset = UINT64_MAX;
		else
			part_shdr(&b)[1].sh_size = 0;
		memcpy(b.p, &e, sizeof(e));
		assert_int_equal(img_file_open_mem(b.p, b.len, &f, NULL), 0);
		assert_int_equal(img_area_find(f, IMG_AREA_EH_FRAME, &a), -ENOENT);
		img_file_free(f);
		sbuf_done(&b);
	}
}

static void test_name_index_in_first_header(void **state)
{
	const struct opts o = {.name = ".eh_frame", .bytes = "x", .len = 1, .flags = SHF_ALLOC};
	struct img_area a = {0};
	struct img_file *f;
	Elf64_Ehdr e;
	struct sbuf b;

	(void)state;
	img_file_free(build(&o, &b));
	memcpy(&e, b.p, sizeof(e));
	e.e_shstrndx = SHN_XINDEX;
	memcpy(b.p, &e, sizeof(e));
	part_shdr(&b)[-2].sh_link = 3;
	assert_int_equal(img_file_open_mem(b.p, b.len, &f, NULL), 0);
	assert_int_equal(img_area_find(f, IMG_AREA_EH_FRAME, &a), 0);
	img_file_free(f);
	sbuf_done(&b);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	        cmocka_unit_test(test_sections_by_name),
	        cmocka_unit_test(test_other_names_are_not_it),
	        cmocka_unit_test(test_section_without_bytes),
	        cmocka_unit_test(test_by_program_header),
	        cmocka_unit_test(test_bad_frame_header),
	        cmocka_unit_test(test_section_that_lies_loses_to_the_program_header),
	        cmocka_unit_test(test_names_outside),
	        cmocka_unit_test(test_name_index_in_first_header),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests_name("image-areas", tests, NULL, NULL);
}
