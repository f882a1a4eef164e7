/* SPDX-License-Identifier: Apache-2.0 */
/* Areas whose sections are packed, and addresses. */
#include "image_areas.h"

/* ---- packed ---------------------------------------------------------------------------------- */

#define PLAIN_BYTES 300000 /* several blocks, packed and plain */

static uint8_t *plain_new(void)
{
	uint8_t *p = malloc(PLAIN_BYTES);
	uint32_t x = 1;

	assert_non_null(p);
	for (size_t i = 0; i < PLAIN_BYTES; i++) {
		x = x * 1664525 + 1013904223;
		p[i] = (uint8_t)(x >> 24) & (i % 1000 < 700 ? 0x0f : 0xff);
	}
	return p;
}

enum compression { PACK_ZLIB, PACK_ZSTD, PACK_ZDEBUG, PACK_ZLIB_STREAMS, PACK_CNT };

/* A section's bytes with the header that claims @claim. */
static void pack(struct sbuf *b, enum compression how, bool is32, const uint8_t *p, uint64_t claim)
{
	static uint8_t buf[2 * PLAIN_BYTES];
	const Elf64_Chdr c64 = {.ch_type = how == PACK_ZSTD ? 2 : 1, .ch_size = claim};
	const Elf32_Chdr c32 = {.ch_type = c64.ch_type, .ch_size = (Elf32_Word)claim};
	size_t n_parts = how == PACK_ZLIB_STREAMS ? 3 : 1, z;

	sbuf_init(b, 1 << 22);
	if (how == PACK_ZDEBUG) {
		sbuf_add(b, "ZLIB", 4);
		for (int i = 56; i >= 0; i -= 8)
			sbuf_char(b, (char)(claim >> i));
	} else if (is32) {
		sbuf_add(b, &c32, sizeof(c32));
	} else {
		sbuf_add(b, &c64, sizeof(c64));
	}
	for (size_t i = 0; i < n_parts; i++) {
		size_t from = PLAIN_BYTES * i / n_parts, to = PLAIN_BYTES * (i + 1) / n_parts;
		uLongf n = sizeof(buf);

		if (how == PACK_ZSTD) {
			z = ZSTD_compress(buf, sizeof(buf), p + from, to - from, 3);
			assert_false(ZSTD_isError(z));
			n = z;
		} else {
			assert_int_equal(compress(buf, &n, p + from, to - from), Z_OK);
		}
		sbuf_add(b, buf, n);
	}
}

static struct opts packed_opts(enum compression how, bool is32, const struct sbuf *b)
{
	return (struct opts){
	        .is32 = is32,
	        .name = how == PACK_ZDEBUG ? ".zdebug_frame" : ".debug_frame",
	        .bytes = b->p,
	        .len = b->len,
	        .flags = how == PACK_ZDEBUG ? 0 : SHF_COMPRESSED,
	};
}

static void test_packed_areas(void **state)
{
	uint8_t *plain = plain_new();

	(void)state;
	for (int i = 0; i < 2 * PACK_CNT; i++) {
		struct opts o;
		struct sbuf b;

		pack(&b, (enum compression)(i / 2), i & 1, plain, PLAIN_BYTES);
		o = packed_opts((enum compression)(i / 2), i & 1, &b);
		expect_area(&o, IMG_AREA_DEBUG_FRAME, PART_OFF, 0, plain, PLAIN_BYTES);
		sbuf_done(&b);
	}
	free(plain);
}

/* Loads the packed bytes of @b. Returns the result. */
static int load_packed(enum compression how, const struct sbuf *b, size_t max)
{
	const struct opts o = packed_opts(how, false, b);
	struct img_area a = {0};
	struct sbuf elf;
	struct img_file *f = build(&o, &elf);
	uint8_t *p = NULL;
	size_t len = 0;
	int r = img_area_find(f, IMG_AREA_DEBUG_FRAME, &a);

	if (r == 0)
		r = img_area_load(f, &a, max, &p, &len);
	free(p);
	img_file_free(f);
	sbuf_done(&elf);
	return r;
}

static void test_claimed_sizes_are_not_believed(void **state)
{
	uint8_t *plain = plain_new();

	(void)state;
	for (int how = 0; how < PACK_CNT; how++) {
		struct sbuf b;

		pack(&b, (enum compression)how, false, plain, PLAIN_BYTES + 1);
		assert_int_equal(load_packed((enum compression)how, &b, 1 << 30), -ENODATA);
		sbuf_done(&b);
		/* A terabyte would not even be had. */
		pack(&b, (enum compression)how, false, plain, UINT64_C(1) << 40);
		assert_int_equal(load_packed((enum compression)how, &b, (size_t)1 << 41), -ENODATA);
		assert_int_equal(load_packed((enum compression)how, &b, 1 << 30), -E2BIG);
		sbuf_done(&b);
		/* The header announces fewer bytes than there are. */
		pack(&b, (enum compression)how, false, plain, 10);
		assert_int_equal(load_packed((enum compression)how, &b, 1 << 30), 0);
		sbuf_done(&b);
	}
	free(plain);
}

static void test_packed_data_that_is_damaged(void **state)
{
	uint8_t *plain = plain_new();

	(void)state;
	for (int how = 0; how < PACK_CNT; how++) {
		const size_t head = how == PACK_ZDEBUG ? 12 : 24;
		struct sbuf b;
		size_t len;
		int r;

		pack(&b, (enum compression)how, false, plain, PLAIN_BYTES);
		len = b.len;
		for (size_t i = 0; i < 40; i++) {
			b.len = i;
			r = load_packed((enum compression)how, &b, 1 << 30);
			assert_true(r == -EINVAL || r == -ENODATA);
		}
		b.len = len / 2;
		assert_int_equal(load_packed((enum compression)how, &b, 1 << 30), -ENODATA);
		b.len = len;
		b.p[head] ^= 0x55;
		assert_int_equal(load_packed((enum compression)how, &b, 1 << 30), -EINVAL);
		b.p[head] ^= 0x55;
		/* No such compression. */
		b.p[0] = 7;
		assert_int_equal(load_packed((enum compression)how, &b, 1 << 30), -EINVAL);
		sbuf_done(&b);
	}
	free(plain);
}

static void test_large_plain_area_from_a_descriptor_that_shrinks(void **state)
{
	uint8_t *plain = plain_new(), *p = NULL;
	const struct opts o = {.name = ".debug_frame", .bytes = plain, .len = PLAIN_BYTES};
	struct img_file *f = NULL;
	struct img_area a = {0};
	struct sbuf b;
	size_t len = 0;
	int fd = memfd_create("test-image-areas", MFD_CLOEXEC);

	(void)state;
	assert_true(fd >= 0);
	img_file_free(build(&o, &b));
	assert_int_equal(file_write_full(fd, b.p, b.len), 0);
	assert_int_equal(img_file_open(fd, &f, NULL), 0);
	assert_int_equal(img_area_find(f, IMG_AREA_DEBUG_FRAME, &a), 0);
	assert_int_equal(img_area_load(f, &a, PLAIN_BYTES, &p, &len), 0);
	assert_int_equal(len, PLAIN_BYTES);
	assert_memory_equal(p, plain, len);
	free(p);
	assert_int_equal(ftruncate(fd, PART_OFF + 100), 0);
	assert_int_equal(img_area_load(f, &a, PLAIN_BYTES, &p, &len), -ENODATA);
	/* The section headers are gone, too. */
	assert_int_equal(img_area_find(f, IMG_AREA_DEBUG_FRAME, &a), -ENOENT);
	img_file_free(f);
	close(fd);
	free(plain);
	sbuf_done(&b);
}

static void test_vdso_from_memory(void **state)
{
	const uint8_t *p = (const uint8_t *)getauxval(AT_SYSINFO_EHDR);
	struct img_file *f = NULL;
	struct img_area a = {0};
	uint8_t *bytes = NULL;
	size_t len = 0;
	Elf64_Ehdr e;

	(void)state;
	if (!p) /* a kernel without one */
		return;
	/* Its section headers are the last in it. */
	memcpy(&e, p, sizeof(e));
	assert_int_equal(
	        img_file_open_mem(p, e.e_shoff + (size_t)e.e_shnum * e.e_shentsize, &f, NULL), 0);
	assert_int_equal(img_area_find(f, IMG_AREA_EH_FRAME, &a), 0);
	assert_true(a.file_size > 0 && a.vaddr > 0);
	assert_int_equal(img_area_load(f, &a, 1 << 20, &bytes, &len), 0);
	assert_memory_equal(bytes, p + a.off, len);
	free(bytes);
	img_file_free(f);
}

/* ---- addresses ------------------------------------------------------------------------------- */

static void test_addresses(void **state)
{
	const struct opts o = {
	        .bytes = "0123456789abcdef", .len = 16, .entry = BIAS + TEXT_OFF + 4};
	struct sbuf b;
	struct img_file *f = build(&o, &b);
	uint64_t off = 77;
	char buf[16];

	(void)state;
	assert_int_equal(img_machine(f), EM_X86_64);
	assert_int_equal(img_entry(f), BIAS + TEXT_OFF + 4);
	assert_int_equal(img_vaddr_to_off(f, BIAS + TEXT_OFF, &off), 0);
	assert_int_equal(off, TEXT_OFF);
	assert_int_equal(img_vaddr_to_off(f, BIAS + TEXT_OFF + 0xfff, &off), 0);
	assert_int_equal(off, TEXT_OFF + 0xfff);
	/* No bytes in the file; before it; not code. */
	assert_int_equal(img_vaddr_to_off(f, BIAS + TEXT_OFF + 0x1000 + 0x10, &off), -ENOENT);
	assert_int_equal(img_vaddr_to_off(f, BIAS + TEXT_OFF - 1, &off), -ENOENT);
	assert_int_equal(img_vaddr_to_off(f, BIAS + PART_OFF, &off), -ENOENT);
	assert_int_equal(off, TEXT_OFF + 0xfff);
	assert_int_equal(img_read_vaddr(f, BIAS + PART_OFF + 4, buf, 8), 0);
	assert_memory_equal(buf, "456789ab", 8);
	assert_int_equal(img_read_vaddr(f, BIAS + PART_OFF + 8, buf, 8), 0);
	assert_int_equal(img_read_vaddr(f, BIAS + PART_OFF + 9, buf, 8), -ENODATA);
	assert_int_equal(img_read_vaddr(f, UINT64_MAX, buf, 8), -ENODATA);
	assert_int_equal(img_read_vaddr(f, 0, buf, 0), -ENODATA);
	img_file_free(f);
	sbuf_done(&b);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	        cmocka_unit_test(test_packed_areas),
	        cmocka_unit_test(test_claimed_sizes_are_not_believed),
	        cmocka_unit_test(test_packed_data_that_is_damaged),
	        cmocka_unit_test(test_large_plain_area_from_a_descriptor_that_shrinks),
	        cmocka_unit_test(test_vdso_from_memory),
	        cmocka_unit_test(test_addresses),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests_name("image-packed", tests, NULL, NULL);
}
