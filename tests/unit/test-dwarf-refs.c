/* SPDX-License-Identifier: Apache-2.0 */
/* References between entries, packed sections and split units. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdio.h>
#include <fcntl.h>
#include <sys/mman.h>
#include "dwarf_check.h"
#include "line_builder.h"

/* ---- references ----------------------------------------------------------------------------- */

static void test_a_name_is_looked_for_after_origin_and_specification(void **state)
{
	const uint64_t addrs[] = {DB_CODE};
	struct db b = {0};
	uint64_t decl, abstract;

	(void)state;
	db_init(&b);
	db_unit(&b, 0, 0);
	UNIT(&b);
	decl = db_die(&b, DW_TAG_subprogram, false,
	              DB_ATTRS(NAME("f"), {DW_AT_MIPS_linkage_name, DW_FORM_string, 0, "_Z1f"},
	                       {DW_AT_decl_line, DW_FORM_data1, 3, 0}));
	db_up(&b);
	db_unit_end(&b);
	db_unit(&b, 0, 0); /* another unit */
	db_die(&b, DW_TAG_compile_unit, true, DB_ATTRS(LOW(DB_CODE), SIZE(8)));
	abstract = db_die(&b, DW_TAG_subprogram, false,
	                  DB_ATTRS({DW_AT_specification, DW_FORM_ref_addr, decl, 0},
	                           {DW_AT_decl_line, DW_FORM_data1, 9, 0}));
	db_die(&b, DW_TAG_subprogram, false, DB_ATTRS(ORIGIN(abstract), LOW(DB_CODE), SIZE(8)));
	db_up(&b);
	db_unit_end(&b);
	/* The first unit must not have the address. */
	db_patch(&b, DW_SEC_INFO, 12, DB_CODE + 0x100, 8);
	assert_clean(check(&b, addrs, 1, "f=_Z1f:0:0+9\n"));
}

static void test_a_loop_of_references_ends_and_is_counted(void **state)
{
	const uint64_t addrs[] = {DB_CODE, DB_CODE + 0x10};
	struct db b = {0};
	struct dw_stats s;
	uint64_t x, y;

	(void)state;
	db_init(&b);
	db_unit(&b, 0, 0);
	UNIT(&b);
	x = db_die(&b, DW_TAG_subprogram, false, DB_ATTRS(ORIGIN(0)));
	y = db_die(&b, DW_TAG_subprogram, false, DB_ATTRS(ORIGIN(x)));
	db_patch(&b, DW_SEC_INFO, x + 1, y, 4);
	db_die(&b, DW_TAG_subprogram, false, DB_ATTRS(NAME("f"), ORIGIN(y), LOW(DB_CODE), SIZE(8)));
	function(&b, "g", DB_CODE + 0x10, 8);
	db_up(&b);
	db_unit_end(&b);
	s = check(&b, addrs, 2, "f:0:0\ng:0:0\n");
	assert_int_equal(s.over_limit, 1);
	assert_int_equal(s.bad, 0);
}

static void test_references_to_nowhere_cost_the_name_alone(void **state)
{
	/* Outside of the section, into a header, into the middle of another entry. */
	const uint64_t to[] = {UINT32_MAX, 0x10000, 0, 5, 15};
	const uint64_t addrs[] = {DB_CODE, DB_CODE + 0x10};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(to); i++) {
		struct db b = {0};

		db_init(&b);
		db_unit(&b, 0, 0);
		UNIT(&b);
		db_die(&b, DW_TAG_subprogram, false,
		       DB_ATTRS(ORIGIN(to[i]), LOW(DB_CODE), SIZE(8)));
		function(&b, "g", DB_CODE + 0x10, 8);
		db_up(&b);
		db_unit_end(&b);
		assert_int_equal(check(&b, addrs, 2, "?:0:0\ng:0:0\n").bad, 1);
	}
}

static void test_names_and_origins_come_from_the_common_file_of_dwz(void **state)
{
	const uint64_t addrs[] = {DB_CODE, DB_CODE + 0x10};
	_cleanup_(img_file_freep) struct img_file *alt = NULL;
	struct dw_options o = {0};
	struct db b = {0}, c = {0};
	struct dw_stats s;
	uint64_t str, die;

	(void)state;
	db_init(&c);
	db_str(&c, DW_SEC_STR, "x");
	str = db_str(&c, DW_SEC_STR, "common");
	db_unit(&c, 0, 0);
	db_die(&c, DW_TAG_partial_unit, true, DB_ATTRS());
	die = db_die(&c, DW_TAG_subprogram, false, DB_ATTRS({DW_AT_name, DW_FORM_strp, str, NULL}));
	db_up(&c);
	db_unit_end(&c);
	alt = db_file(&c);
	o.alt = alt;

	for (int i = 0; i < 2; i++) {
		b = (struct db){0};
		db_init(&b);
		db_unit(&b, 0, 0);
		UNIT(&b);
		db_die(&b, DW_TAG_subprogram, false,
		       DB_ATTRS({DW_AT_name, DW_FORM_GNU_strp_alt, str, NULL}, LOW(DB_CODE),
		                SIZE(8)));
		db_die(&b, DW_TAG_subprogram, false,
		       DB_ATTRS({DW_AT_abstract_origin, DW_FORM_GNU_ref_alt, die, NULL},
		                LOW(DB_CODE + 0x10), SIZE(8)));
		db_up(&b);
		db_unit_end(&b);
		check_with(&b, &o, addrs, 2, i ? "?:0:0\n?:0:0\n" : "common:0:0\ncommon:0:0\n", &s);
		assert_clean(s);
		db_done(&b);
		o.alt = NULL; /* and without it */
	}
	alt = img_file_free(alt);
	db_done(&c);
}

/* ---- packed sections ------------------------------------------------------------------------ */

#define PACKED_UNITS 40
#define PACKED_BLOCK 60000

/* Units with names and inlined functions in their own, in one before, and in the common file; so
 * large that 2 MiB of memory has windows of it only. */
static void build_packed(struct db *b, struct db *c, uint64_t addrs[2 * PACKED_UNITS],
                         struct sbuf *want)
{
	_cleanup_free_ char *block = malloc(PACKED_BLOCK);
	uint64_t shared[PACKED_UNITS], common[PACKED_UNITS], x = 1;

	assert_non_null(block);
	for (size_t i = 0; i < PACKED_BLOCK; i++) {
		x = x * 6364136223846793005ULL + 1442695040888963407ULL;
		block[i] = (char)(x >> 60);
	}
	db_init(b);
	db_init(c);
	db_unit(c, 0, 0);
	db_die(c, DW_TAG_partial_unit, true, DB_ATTRS());
	db_unit(b, 0, 0);
	db_die(b, DW_TAG_partial_unit, true, DB_ATTRS());
	for (size_t i = 0; i < PACKED_UNITS; i++) {
		char name[32];
		uint64_t str;

		(void)snprintf(name, sizeof(name), "shared%zu", i);
		(void)sbuf_add(&b->secs[DW_SEC_STR], block, PACKED_BLOCK);
		str = db_str(b, DW_SEC_STR, name);
		shared[i] = db_die(b, DW_TAG_subprogram, false,
		                   DB_ATTRS({DW_AT_name, DW_FORM_strp, str, NULL},
		                            {0x3fff, DW_FORM_block4, PACKED_BLOCK, block}));
		(void)snprintf(name, sizeof(name), "common%zu", i);
		(void)sbuf_add(&c->secs[DW_SEC_STR], block, PACKED_BLOCK);
		str = db_str(c, DW_SEC_STR, name);
		common[i] = db_die(c, DW_TAG_subprogram, false,
		                   DB_ATTRS({DW_AT_name, DW_FORM_strp, str, NULL},
		                            {0x3fff, DW_FORM_block4, PACKED_BLOCK, block}));
	}
	db_up(b);
	db_unit_end(b);
	db_up(c);
	db_unit_end(c);
	for (size_t i = 0; i < PACKED_UNITS; i++) {
		const uint64_t at = DB_CODE + i * 0x100;
		const size_t other = (i * 7 + 3) % PACKED_UNITS;
		char name[32];
		uint64_t str;

		(void)snprintf(name, sizeof(name), "own%zu", i);
		(void)sbuf_add(&b->secs[DW_SEC_STR], block, PACKED_BLOCK / 8);
		str = db_str(b, DW_SEC_STR, name);
		db_unit(b, 0, 0);
		db_die(b, DW_TAG_compile_unit, true, DB_ATTRS(LOW(at), SIZE(0x100)));
		db_die(b, DW_TAG_subprogram, true,
		       DB_ATTRS({DW_AT_name, DW_FORM_strp, str, NULL}, LOW(at), SIZE(0x10)));
		db_die(b, DW_TAG_inlined_subroutine, false,
		       DB_ATTRS(ORIGIN(shared[other]), LOW(at), SIZE(8), CALL(i + 1, 2)));
		db_up(b);
		db_die(b, DW_TAG_subprogram, true,
		       DB_ATTRS({DW_AT_abstract_origin, DW_FORM_GNU_ref_alt, common[other], NULL},
		                {DW_AT_linkage_name, DW_FORM_strp, str, NULL}, LOW(at + 0x10),
		                SIZE(0x10)));
		db_up(b);
		db_up(b);
		db_unit_end(b);
		addrs[2 * i] = at + 4;
		addrs[2 * i + 1] = at + 0x14;
		sbuf_addf(want, "shared%zu:0:0! own%zu:%zu:2\ncommon%zu=own%zu:0:0\n", other, i,
		          i + 1, other, i);
	}
}

static void test_packed_sections_are_read_by_windows(void **state)
{
	(void)state;
	for (uint8_t compression = 0; compression <= IMG_COMPRESSED_ZSTD; compression++) {
		const size_t max = compression == IMG_COMPRESSED_ZSTD ? 16 << 20 : 2 << 20;
		struct dw_options o = {.max_bytes = max};
		uint64_t addrs[2 * PACKED_UNITS];
		struct db b = {.compression = compression}, c = {.compression = compression};
		_cleanup_(img_file_freep) struct img_file *alt = NULL;
		_cleanup_(sbuf_done) struct sbuf want;
		struct dw_stats s;

		sbuf_init(&want, 1 << 20);
		build_packed(&b, &c, addrs, &want);
		alt = db_file(&c);
		o.alt = alt;
		assert_true(b.secs[DW_SEC_INFO].len > max / 8 && b.secs[DW_SEC_STR].len > max / 8);
		check_with(&b, &o, addrs, ARRAY_SIZE(addrs), want.p, &s);
		assert_clean(s);
		assert_int_equal(s.sections_refused, 0);
		assert_true(s.bytes_peak <= max);
		db_done(&b);
		alt = img_file_free(alt);
		db_done(&c);
	}
}

/* A file that makes each name cost a whole section ends at the steps, with what it has by then. */
static void test_going_back_in_packed_sections_costs_steps(void **state)
{
	struct dw_options o = {.max_bytes = 12 << 20, .max_steps = 100000};
	uint64_t addrs[2 * PACKED_UNITS];
	struct db b = {.compression = IMG_COMPRESSED_ZSTD},
	          c = {.compression = IMG_COMPRESSED_ZSTD};
	_cleanup_(img_file_freep) struct img_file *f = NULL;
	_cleanup_(sbuf_done) struct sbuf want;
	_cleanup_(dw_freep) struct dw_file *d = NULL;
	struct got g = {0};

	(void)state;
	sbuf_init(&want, 1 << 20);
	sbuf_init(&g.text, 1 << 20);
	build_packed(&b, &c, addrs, &want);
	f = db_file(&b);
	assert_int_equal(dw_open(f, &o, &d), 0);
	assert_int_equal(dw_resolve(d, addrs, ARRAY_SIZE(addrs), on_frame, &g), 0);
	assert_true(dw_stats(d)->over_steps > 0);
	sbuf_done(&g.text);
	d = dw_free(d);
	f = img_file_free(f);
	db_done(&b);
	db_done(&c);
}

/* ---- split units ---------------------------------------------------------------------------- */

#define DWO_ID 0x1122334455667788

static struct db *dwo_file;
static size_t dwo_opened;

static int open_dwo(void *arg, const char *dir, const char *name, int *ret_fd)
{
	int fd;

	(void)arg;
	assert_string_equal(dir, "/dir");
	assert_string_equal(name, "x.dwo");
	dwo_opened++;
	if (!dwo_file)
		return -ENOENT;
	fd = memfd_create("dwo", MFD_CLOEXEC);
	assert_true(fd >= 0);
	assert_int_equal(file_write_full(fd, dwo_file->file.p, dwo_file->file.len), 0);
	*ret_fd = fd;
	return 0;
}

static void skeleton(struct db *b)
{
	struct db_attr v5[] = {
	        LOW(DB_CODE),
	        SIZE(0x100),
	        {DW_AT_comp_dir, DW_FORM_string, 0, "/dir"},
	        {DW_AT_dwo_name, DW_FORM_string, 0, "x.dwo"},
	        {DW_AT_addr_base, DW_FORM_sec_offset, 8, NULL},
	};
	struct db_attr v4[] = {
	        LOW(DB_CODE),
	        SIZE(0x100),
	        {DW_AT_comp_dir, DW_FORM_string, 0, "/dir"},
	        {DW_AT_GNU_dwo_name, DW_FORM_string, 0, "x.dwo"},
	        {DW_AT_GNU_addr_base, DW_FORM_sec_offset, 8, NULL},
	        {DW_AT_GNU_dwo_id, DW_FORM_data8, DWO_ID, NULL},
	        {DW_AT_GNU_ranges_base, DW_FORM_sec_offset, 16, NULL},
	};

	db_init(b);
	db_num(&b->secs[DW_SEC_ADDR], 0, 8);
	db_num(&b->secs[DW_SEC_ADDR], DB_CODE, 8);
	db_num(&b->secs[DW_SEC_RANGES], 0, 16);
	db_num(&b->secs[DW_SEC_RANGES], 0x40, 8);
	db_num(&b->secs[DW_SEC_RANGES], 0x50, 8);
	db_num(&b->secs[DW_SEC_RANGES], 0, 16);
	db_unit(b, DW_UT_skeleton, DWO_ID);
	if (b->version >= 5)
		db_die(b, DW_TAG_skeleton_unit, false, v5, ARRAY_SIZE(v5));
	else
		db_die(b, DW_TAG_compile_unit, false, v4, ARRAY_SIZE(v4));
	db_unit_end(b);
}

/* "f" by an index, "g" by ranges; in a package after @pad bytes of other units. */
static void split(struct db *b, uint64_t id, size_t pad)
{
	struct sbuf *s;
	bool v5;

	b->dwo = true;
	db_init(b);
	v5 = b->version >= 5;
	s = &b->secs[DW_SEC_STR_OFFSETS];
	for (size_t i = 0; i < pad; i++) {
		db_num(s, 0xee, 1);
		db_num(&b->secs[DW_SEC_RNGLISTS], 0xee, 1);
	}
	db_num(s, 0, v5 ? 8 : 0);
	db_num(s, db_str(b, DW_SEC_STR, "f"), 4);
	db_num(s, db_str(b, DW_SEC_STR, "g"), 4);
	s = &b->secs[DW_SEC_RNGLISTS];
	db_num(s, 0, 12);
	db_num(s, 4, 4);
	db_num(s, 4, 1);
	db_uleb(s, 0x40);
	db_uleb(s, 0x50);
	db_num(s, 0, 1);
	db_unit(b, DW_UT_split_compile, id);
	db_die(b, DW_TAG_compile_unit, true, DB_ATTRS({DW_AT_GNU_dwo_id, DW_FORM_data8, id, NULL}));
	db_die(b, DW_TAG_subprogram, false,
	       DB_ATTRS({DW_AT_name, v5 ? DW_FORM_strx1 : DW_FORM_GNU_str_index, 0, NULL},
	                {DW_AT_low_pc, v5 ? DW_FORM_addrx : DW_FORM_GNU_addr_index, 0, NULL},
	                SIZE(8)));
	db_die(b, DW_TAG_subprogram, false,
	       DB_ATTRS({DW_AT_name, v5 ? DW_FORM_strx1 : DW_FORM_GNU_str_index, 1, NULL},
	                {DW_AT_ranges, v5 ? DW_FORM_rnglistx : DW_FORM_sec_offset, 0, NULL}));
	db_up(b);
	db_unit_end(b);
}

static void check_split(uint16_t version, uint64_t id, const char *want, uint64_t missing)
{
	const uint64_t addrs[] = {DB_CODE, DB_CODE + 0x48};
	struct db b = {.version = version}, c = {.version = version};
	_cleanup_(img_file_freep) struct img_file *f = NULL;
	struct dw_options o = {.open_dwo = open_dwo};
	struct dw_stats s;

	skeleton(&b);
	split(&c, id, 0);
	f = db_file(&c);
	dwo_file = &c;
	dwo_opened = 0;
	check_with(&b, &o, addrs, 2, want, &s);
	assert_int_equal(s.dwo_missing, missing);
	assert_int_equal(s.bad, 0);
	assert_int_equal(dwo_opened, 1); /* and kept for the second time */
	f = img_file_free(f);
	db_done(&b);
	db_done(&c);
}

static void test_a_split_unit_is_read_from_its_file(void **state)
{
	(void)state;
	check_split(4, DWO_ID, "f:0:0\ng:0:0\n", 0);
	check_split(5, DWO_ID, "f:0:0\ng:0:0\n", 0);
}

static void test_a_split_unit_of_another_number_is_not_believed(void **state)
{
	(void)state;
	check_split(4, DWO_ID + 1, "", 1);
	check_split(5, DWO_ID + 1, "", 1);
}

static void test_a_split_unit_that_is_not_there_is_counted(void **state)
{
	const uint64_t addrs[] = {DB_CODE};
	struct dw_options o = {.open_dwo = open_dwo};
	struct db b = {.version = 5};
	struct dw_stats s;

	(void)state;
	dwo_file = NULL;
	skeleton(&b);
	check_with(&b, &o, addrs, 1, "", &s);
	assert_int_equal(s.dwo_missing, 1);
	db_done(&b);
}

/* An index of one unit, in the slot that its hash does not lead to at once. */
static void package_index(struct db *c, uint16_t version, size_t pad)
{
	struct sbuf *s = &c->secs[DW_SEC_CU_INDEX];
	const uint64_t hash = DWO_ID & 3, step = ((DWO_ID >> 32) & 3) | 1;
	const uint32_t columns[] = {1, 3, 6, version == 5 ? 8 : 5};
	const size_t lens[] = {c->secs[DW_SEC_INFO].len, c->secs[DW_SEC_ABBREV].len + 1,
	                       c->secs[DW_SEC_STR_OFFSETS].len - pad,
	                       c->secs[DW_SEC_RNGLISTS].len - pad};

	db_num(s, version, 4);
	db_num(s, 4, 4);
	db_num(s, 1, 4);
	db_num(s, 4, 4);
	for (uint64_t i = 0; i < 4; i++)
		db_num(s, i == ((hash + step) & 3) ? DWO_ID : i == hash ? DWO_ID - 4 : 0, 8);
	for (uint64_t i = 0; i < 4; i++)
		db_num(s, i == ((hash + step) & 3) || i == hash, 4);
	for (size_t i = 0; i < 4; i++)
		db_num(s, columns[i], 4);
	for (size_t i = 0; i < 4; i++)
		db_num(s, i >= 2 ? pad : 0, 4);
	for (size_t i = 0; i < 4; i++)
		db_num(s, lens[i], 4);
}

static void check_package(uint16_t version)
{
	const uint64_t addrs[] = {DB_CODE, DB_CODE + 0x48};
	struct db b = {.version = version}, c = {.version = version};
	_cleanup_(img_file_freep) struct img_file *f = NULL;
	struct dw_options o = {0};
	struct dw_stats s;

	skeleton(&b);
	split(&c, DWO_ID, 24);
	package_index(&c, version == 5 ? 5 : 2, 24);
	f = db_file(&c);
	o.dwp = f;
	check_with(&b, &o, addrs, 2, "f:0:0\ng:0:0\n", &s);
	assert_clean(s);
	f = img_file_free(f);
	db_done(&b);
	db_done(&c);
}

static void test_a_split_unit_is_found_in_a_package(void **state)
{
	(void)state;
	check_package(4);
	check_package(5);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	        cmocka_unit_test(test_a_name_is_looked_for_after_origin_and_specification),
	        cmocka_unit_test(test_a_loop_of_references_ends_and_is_counted),
	        cmocka_unit_test(test_references_to_nowhere_cost_the_name_alone),
	        cmocka_unit_test(test_names_and_origins_come_from_the_common_file_of_dwz),
	        cmocka_unit_test(test_packed_sections_are_read_by_windows),
	        cmocka_unit_test(test_going_back_in_packed_sections_costs_steps),
	        cmocka_unit_test(test_a_split_unit_is_read_from_its_file),
	        cmocka_unit_test(test_a_split_unit_of_another_number_is_not_believed),
	        cmocka_unit_test(test_a_split_unit_that_is_not_there_is_counted),
	        cmocka_unit_test(test_a_split_unit_is_found_in_a_package),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
