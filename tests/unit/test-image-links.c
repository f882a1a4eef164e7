/* SPDX-License-Identifier: Apache-2.0 */
/* Sections by name, and what they say about debug files: links, checksum, .gnu_debugdata. */
#include "linked_file.h"

/* ---- sections ---- */

static void test_a_section_is_found_by_its_name_and_read_in_parts(void **state)
{
	const struct es_sec secs[] = {
	        {.name = ".debug_line", .bytes = "lines", .len = 5},
	        {.name = ".debug_info", .bytes = "information", .len = 11},
	};
	struct img_area a = {0};
	struct made t;
	char buf[16] = "";

	(void)state;
	for (int is32 = 0; is32 < 2; is32++) {
		make_of(&t, is32, secs, 2);
		assert_int_equal(img_section_find(t.f, ".debug_info", &a), 0);
		assert_int_equal(a.off, t.m.offs[1]);
		assert_int_equal(a.file_size, 11);
		assert_int_equal(a.size, 11);
		assert_int_equal(a.compression, 0);
		assert_int_equal(img_area_read(t.f, &a, 2, buf, 4), 0);
		assert_memory_equal(buf, "form", 4);
		assert_int_equal(img_area_read(t.f, &a, 11, buf, 0), 0);
		assert_int_equal(img_section_find(t.f, ".debug_inf", &a), -ENOENT);
		assert_int_equal(img_section_find(t.f, ".debug_info2", &a), -ENOENT);
		assert_int_equal(img_section_find(t.f, "", &a), -ENOENT);
		assert_int_equal(img_bad_items(t.f), 0);
		unmake(&t);
	}
}

static void test_reading_past_the_end_of_an_area_is_refused(void **state)
{
	struct img_area a = {0};
	struct made t;
	char buf[16] = "as it was";

	(void)state;
	make_one(&t, ".debug_line", "lines", 5);
	assert_int_equal(img_section_find(t.f, ".debug_line", &a), 0);
	assert_int_equal(img_area_read(t.f, &a, 2, buf, 4), -ENODATA);
	assert_int_equal(img_area_read(t.f, &a, 6, buf, 0), -ENODATA);
	assert_int_equal(img_area_read(t.f, &a, UINT64_MAX, buf, 1), -ENODATA);
	assert_string_equal(buf, "as it was");
	a.compression = 1;
	assert_int_equal(img_area_read(t.f, &a, 0, buf, 1), -EINVAL);
	unmake(&t);
}

static void test_the_old_name_of_a_packed_section_is_found_too(void **state)
{
	uint8_t packed[256] = "ZLIB\0\0\0\0\0\0\0\x0b";
	uLongf len = sizeof(packed) - 12;
	struct img_area a = {0};
	uint8_t *p = NULL;
	size_t n = 0;
	struct made t;

	(void)state;
	assert_int_equal(compress(packed + 12, &len, (const Bytef *)"information", 11), Z_OK);
	make_one(&t, ".zdebug_info", packed, 12 + len);
	assert_int_equal(img_section_find(t.f, ".debug_info", &a), 0);
	assert_int_equal(a.compression, 1);
	assert_int_equal(img_area_load(t.f, &a, 64, &p, &n), 0);
	assert_int_equal(n, 11);
	assert_memory_equal(p, "information", 11);
	free(p);
	unmake(&t);
}

static void test_a_section_without_bytes_is_not_found(void **state)
{
	const struct es_sec secs[] = {
	        {.name = ".text", .len = 4096, .type = SHT_NOBITS, .flags = SHF_ALLOC},
	        {.name = ".comment", .bytes = "x", .len = 1},
	};
	struct img_area a = {.off = 77};
	struct made t;

	(void)state;
	make_of(&t, false, secs, 2);
	assert_int_equal(img_section_find(t.f, ".text", &a), -ENOENT);
	assert_int_equal(a.off, 77);
	assert_int_equal(img_bad_items(t.f), 0);
	unmake(&t);
}

static void test_of_two_sections_with_a_name_the_first_is_found(void **state)
{
	const struct es_sec secs[] = {
	        {.name = ".x", .bytes = "1", .len = 1},
	        {.name = ".debug_line", .bytes = "22", .len = 2},
	        {.name = ".debug_line", .bytes = "333", .len = 3},
	};
	struct img_area a = {0};
	struct made t;

	(void)state;
	make_of(&t, false, secs, 3);
	assert_int_equal(img_section_find(t.f, ".debug_line", &a), 0);
	assert_int_equal(a.size, 2);
	unmake(&t);
}

static void test_a_section_that_reaches_past_the_file_is_damaged(void **state)
{
	const struct es_sec s = {
	        .name = ".debug_info", .bytes = "i", .len = 1, .claim = 4ULL << 30};
	struct img_area a = {0};
	struct made t;

	(void)state;
	make_of(&t, false, &s, 1);
	assert_int_equal(img_section_find(t.f, ".debug_info", &a), -EINVAL);
	assert_int_equal(img_bad_items(t.f), 1);
	unmake(&t);
}

static void test_a_name_that_does_not_end_or_is_outside_is_passed_over(void **state)
{
	const struct es_sec secs[] = {{.name = ".debug_line", .bytes = "1", .len = 1},
	                              {.name = ".debug_info", .bytes = "1", .len = 1}};
	struct img_area a = {0};
	struct made t;
	Elf64_Shdr h[4];

	(void)state;
	make_of(&t, false, secs, 2);
	memcpy(h, t.b.p + t.m.shoff, sizeof(h));
	h[1].sh_name = UINT32_MAX;
	h[3].sh_size = h[2].sh_name + 11; /* the NUL of ".debug_info" is cut off */
	memcpy(t.b.p + t.m.shoff, h, sizeof(h));
	assert_int_equal(img_section_find(t.f, ".debug_line", &a), -ENOENT);
	assert_int_equal(img_section_find(t.f, ".debug_info", &a), -ENOENT);
	unmake(&t);
	make_of(&t, false, secs, 2);
	memcpy(h, t.b.p + t.m.shoff, sizeof(h));
	h[3].sh_size = h[2].sh_name - 1; /* the whole of it */
	memcpy(t.b.p + t.m.shoff, h, sizeof(h));
	assert_int_equal(img_section_find(t.f, ".debug_info", &a), -ENOENT);
	unmake(&t);
}

/* As many sections as are looked at, each with a name of its own, far apart in the names. */
static void test_looking_up_names_among_many_sections_reads_the_file_once(void **state)
{
	enum { N = 16384 - 2 };
	static char names[N][24];
	_cleanup_free_ struct es_sec *secs = calloc(N, sizeof(*secs));
	static const char *const wanted[] = {
	        ".debug_info",    ".debug_abbrev",      ".debug_line",    ".debug_str",
	        ".debug_ranges",  ".debug_rnglists",    ".debug_addr",    ".debug_line_str",
	        ".debug_aranges", ".debug_str_offsets", ".gnu_debuglink", ".gnu_debugdata"};
	struct img_file *f = NULL;
	struct img_area a = {0};
	struct sbuf b;
	uint64_t before;
	int fd;

	(void)state;
	assert_non_null(secs);
	for (size_t i = 0; i < N; i++) {
		snprintf(names[i], sizeof(names[i]), ".text.%zu", i);
		secs[i] = (struct es_sec){.name = names[i]};
	}
	secs[N - 1] = (struct es_sec){.name = ".debug_str", .bytes = "s", .len = 1};
	es_build(false, secs, N, &b, NULL);
	fd = memory_file(b.p, b.len);
	sbuf_done(&b);
	assert_int_equal(img_file_open(fd, &f, NULL), 0);
	before = preads;
	for (size_t i = 0; i < ARRAY_SIZE(wanted); i++)
		assert_int_equal(img_section_find(f, wanted[i], &a), i == 3 ? 0 : -ENOENT);
	assert_int_equal(a.size, 1);
	assert_true(preads - before < 32); /* headers in chunks, the names, one header found */
	img_file_free(f);
	close(fd);
}

static void test_a_file_that_cannot_be_read_says_so_and_may_be_asked_again(void **state)
{
	const struct es_sec s = {.name = ".debug_info", .bytes = "i", .len = 1};
	struct img_file *f = NULL;
	struct img_area a = {0};
	struct sbuf b;
	int fd;

	(void)state;
	es_build(false, &s, 1, &b, NULL);
	fd = memory_file(b.p, b.len);
	sbuf_done(&b);
	assert_int_equal(img_file_open(fd, &f, NULL), 0);
	pread_fails = -EIO;
	assert_int_equal(img_section_find(f, ".debug_info", &a), -EIO);
	pread_fails = 0;
	assert_int_equal(img_section_find(f, ".debug_info", &a), 0);
	pread_fails = -EIO;
	assert_int_equal(img_section_find(f, ".debug_info", &a), -EIO);
	pread_fails = 0;
	assert_int_equal(ftruncate(fd, 100), 0);
	assert_int_equal(img_section_find(f, ".debug_info", &a), -ENOENT);
	img_file_free(f);
	close(fd);
}

/* ---- links ---- */

static void test_a_debuglink_has_a_name_and_a_checksum(void **state)
{
	static const char *const good[] = {"a", "ab", "abc", "abcd", "libc-2.36.so.debug"};
	struct img_debuglink l;
	struct sbuf s;
	struct made t;

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(good); i++) {
		es_debuglink(&s, good[i], 0x89abcdef);
		make_one(&t, ".gnu_debuglink", s.p, s.len);
		assert_int_equal(img_debuglink(t.f, &l), 0);
		assert_string_equal(l.name, good[i]);
		assert_int_equal(l.crc, 0x89abcdef);
		assert_int_equal(img_bad_items(t.f), 0);
		sbuf_done(&s);
		unmake(&t);
	}
}

static void test_debuglinks_that_are_damaged_or_lead_elsewhere_are_refused(void **state)
{
	static const char longest[] = "nnnnnnnnnnnnnnnn";
	char name[IMG_LINK_MAX + 1] = "";
	struct img_debuglink l = {.crc = 7};
	struct made t;
	struct sbuf s;
	static const struct {
		const char *bytes;
		size_t len;
	} bad[] = {
	        {"", 0},
	        {"\0\0\0\0cccc", 8},  /* empty */
	        {"a.debug", 7},       /* no end */
	        {"a.debug\0ccc", 11}, /* checksum cut off */
	        {"abcd\0\0\0", 7},    /* padding cut off */
	        {"/a\0\0cccc", 8},    /* a directory */
	        {"../etc/passwd\0\0\0cccc", 20},
	        {"a/\0\0cccc", 8},
	        {".\0\0\0cccc", 8},
	        {"..\0\0cccc", 8},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		make_one(&t, ".gnu_debuglink", bad[i].bytes, bad[i].len);
		assert_int_equal(img_debuglink(t.f, &l), -EINVAL);
		assert_int_equal(img_bad_items(t.f), 1);
		assert_int_equal(l.crc, 7);
		unmake(&t);
	}
	for (size_t i = 0; i < IMG_LINK_MAX; i++)
		name[i] = longest[i % (sizeof(longest) - 1)];
	es_debuglink(&s, name, 1);
	make_one(&t, ".gnu_debuglink", s.p, s.len);
	assert_int_equal(img_debuglink(t.f, &l), -EINVAL);
	unmake(&t);
	sbuf_done(&s);
	name[IMG_LINK_MAX - 1] = 0;
	es_debuglink(&s, name, 1);
	make_one(&t, ".gnu_debuglink", s.p, s.len);
	assert_int_equal(img_debuglink(t.f, &l), 0);
	assert_string_equal(l.name, name);
	unmake(&t);
	sbuf_done(&s);
	make_one(&t, ".other", "x", 1);
	assert_int_equal(img_debuglink(t.f, &l), -ENOENT);
	assert_int_equal(img_bad_items(t.f), 0);
	unmake(&t);
}

static void test_an_altlink_has_a_path_and_a_build_id(void **state)
{
	_cleanup_free_ struct img_altlink *l = calloc(1, sizeof(*l));
	char long_path[4096 + 21];
	struct made t;

	(void)state;
	assert_non_null(l);
	make_one(&t, ".gnu_debugaltlink", "../.dwz/x.debug\0\1\2\3\4", 20);
	assert_int_equal(img_altlink(t.f, l), 0);
	assert_string_equal(l->path, "../.dwz/x.debug");
	assert_int_equal(l->build_id_len, 4);
	assert_memory_equal(l->build_id, "\1\2\3\4", 4);
	unmake(&t);
	memset(long_path, 'p', sizeof(long_path));
	long_path[4095] = 0;
	make_one(&t, ".gnu_debugaltlink", long_path, 4096 + 20);
	assert_int_equal(img_altlink(t.f, l), 0);
	assert_int_equal(strlen(l->path), 4095);
	assert_int_equal(l->build_id_len, 20);
	unmake(&t);
}

static void test_damaged_altlinks_are_refused(void **state)
{
	_cleanup_free_ struct img_altlink *l = calloc(1, sizeof(*l));
	char long_path[4096 + 21];
	struct made t;
	static const struct {
		const char *bytes;
		size_t len;
	} bad[] = {
	        {"", 0},
	        {"\0\1\2\3\4", 5},
	        {"path", 4},
	        {"path\0", 5},
	        {"p\0aaaaaaaaaaaaaaaaaaaaa", 2 + 21},
	};

	(void)state;
	assert_non_null(l);
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		make_one(&t, ".gnu_debugaltlink", bad[i].bytes, bad[i].len);
		assert_int_equal(img_altlink(t.f, l), -EINVAL);
		assert_int_equal(img_bad_items(t.f), 1);
		assert_int_equal(l->build_id_len, 0);
		unmake(&t);
	}
	memset(long_path, 'p', sizeof(long_path));
	long_path[4096] = 0;
	make_one(&t, ".gnu_debugaltlink", long_path, sizeof(long_path));
	assert_int_equal(img_altlink(t.f, l), -EINVAL);
	unmake(&t);
	make_one(&t, ".other", "x", 1);
	assert_int_equal(img_altlink(t.f, l), -ENOENT);
	unmake(&t);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	        cmocka_unit_test(test_a_section_is_found_by_its_name_and_read_in_parts),
	        cmocka_unit_test(test_reading_past_the_end_of_an_area_is_refused),
	        cmocka_unit_test(test_the_old_name_of_a_packed_section_is_found_too),
	        cmocka_unit_test(test_a_section_without_bytes_is_not_found),
	        cmocka_unit_test(test_of_two_sections_with_a_name_the_first_is_found),
	        cmocka_unit_test(test_a_section_that_reaches_past_the_file_is_damaged),
	        cmocka_unit_test(test_a_name_that_does_not_end_or_is_outside_is_passed_over),
	        cmocka_unit_test(test_looking_up_names_among_many_sections_reads_the_file_once),
	        cmocka_unit_test(test_a_file_that_cannot_be_read_says_so_and_may_be_asked_again),
	        cmocka_unit_test(test_a_debuglink_has_a_name_and_a_checksum),
	        cmocka_unit_test(test_debuglinks_that_are_damaged_or_lead_elsewhere_are_refused),
	        cmocka_unit_test(test_an_altlink_has_a_path_and_a_build_id),
	        cmocka_unit_test(test_damaged_altlinks_are_refused),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests_name("image-links", tests, NULL, NULL);
}
