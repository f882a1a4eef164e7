/* SPDX-License-Identifier: Apache-2.0 */
/* Parts of ELF files that unwinding needs: where they lie, and their bytes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <fcntl.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <zlib.h>
#include <zstd.h>

#include "elf_builder.h"
#include "image/image.h"

/* Layout: header, program headers (text, data, PT_GNU_EH_FRAME), then at 0x1000 text, at 0x2000 the
 * section's bytes, then names, then section headers. Addresses are offsets + 0x400000. */
#define TEXT_OFF 0x1000
#define PART_OFF 0x2000
#define BIAS     0x400000
#define N_SECS   4 /* null, text, the part, names */

struct opts {
	bool is32;
	const char *name; /* of the section; NULL: no section headers */
	const void *bytes;
	size_t len;
	uint32_t type;              /* 0: SHT_PROGBITS */
	uint64_t flags;             /* SHF_ALLOC: it has an address */
	uint64_t hdr_off, hdr_size; /* PT_GNU_EH_FRAME; size 0: none */
	uint64_t entry;
};

static struct img_file *build(const struct opts *o, struct sbuf *b)
{
	const size_t ehdr = o->is32 ? sizeof(Elf32_Ehdr) : sizeof(Elf64_Ehdr);
	const size_t shdr = o->is32 ? sizeof(Elf32_Shdr) : sizeof(Elf64_Shdr);
	const size_t phdr = o->is32 ? sizeof(Elf32_Phdr) : sizeof(Elf64_Phdr);
	size_t names, shoff, part_end;
	struct img_file *f = NULL;
	Elf64_Ehdr e = {0};
	Elf32_Ehdr e32 = {0};

	sbuf_init(b, 64 << 20);
	eb_pad(b, ehdr + 3 * phdr);
	eb_pad(b, PART_OFF);
	sbuf_add(b, o->bytes, o->len);
	eb_align(b);
	part_end = b->len;
	names = b->len;
	sbuf_char(b, 0);
	if (o->name)
		sbuf_add(b, o->name, strlen(o->name) + 1);
	eb_align(b);
	shoff = b->len;
	if (o->name) {
		const Elf64_Shdr secs[N_SECS] = {
		        [1] = {.sh_type = SHT_PROGBITS,
		               .sh_flags = SHF_ALLOC | SHF_EXECINSTR,
		               .sh_addr = BIAS + TEXT_OFF,
		               .sh_offset = TEXT_OFF,
		               .sh_size = 0x1000},
		        [2] = {.sh_name = 1,
		               .sh_type = o->type ? o->type : SHT_PROGBITS,
		               .sh_flags = o->flags,
		               .sh_addr = o->flags & SHF_ALLOC ? BIAS + PART_OFF : 0,
		               .sh_offset = PART_OFF,
		               .sh_size = o->len},
		        [3] = {.sh_type = SHT_STRTAB,
		               .sh_offset = names,
		               .sh_size = strlen(o->name) + 2},
		};

		for (size_t i = 0; i < N_SECS; i++)
			eb_shdr(b, o->is32, &secs[i]);
	}
	memcpy(e.e_ident, ELFMAG, SELFMAG);
	e.e_ident[EI_CLASS] = o->is32 ? ELFCLASS32 : ELFCLASS64;
	e.e_ident[EI_DATA] = ELFDATA2LSB;
	e.e_machine = EM_X86_64;
	e.e_entry = o->entry;
	e.e_phoff = ehdr;
	e.e_phentsize = (Elf64_Half)phdr;
	e.e_phnum = 3;
	e.e_shoff = o->name ? shoff : 0;
	e.e_shentsize = (Elf64_Half)shdr;
	e.e_shnum = o->name ? N_SECS : 0;
	e.e_shstrndx = o->name ? 3 : 0;
	memcpy(e32.e_ident, e.e_ident, EI_NIDENT);
	e32.e_machine = e.e_machine;
	e32.e_entry = (Elf32_Addr)e.e_entry;
	e32.e_phoff = (Elf32_Off)e.e_phoff;
	e32.e_phentsize = e.e_phentsize;
	e32.e_phnum = 3;
	e32.e_shoff = (Elf32_Off)e.e_shoff;
	e32.e_shentsize = e.e_shentsize;
	e32.e_shnum = e.e_shnum;
	e32.e_shstrndx = e.e_shstrndx;
	assert_int_equal(b->err, 0);
	if (o->is32)
		memcpy(b->p, &e32, sizeof(e32));
	else
		memcpy(b->p, &e, sizeof(e));
	{
		const Elf64_Phdr segs[3] = {
		        {.p_type = PT_LOAD,
		         .p_flags = PF_R | PF_X,
		         .p_offset = TEXT_OFF,
		         .p_vaddr = BIAS + TEXT_OFF,
		         .p_filesz = 0x1000,
		         .p_memsz = 0x1800},
		        {.p_type = PT_LOAD,
		         .p_flags = PF_R,
		         .p_offset = PART_OFF,
		         .p_vaddr = BIAS + PART_OFF,
		         .p_filesz = part_end - PART_OFF,
		         .p_memsz = part_end - PART_OFF},
		        {.p_type = o->hdr_size ? PT_GNU_EH_FRAME : PT_NULL,
		         .p_offset = o->hdr_off,
		         .p_vaddr = BIAS + o->hdr_off,
		         .p_filesz = o->hdr_size,
		         .p_memsz = o->hdr_size},
		};
		struct sbuf ph;

		sbuf_init(&ph, 4096);
		for (size_t i = 0; i < 3; i++)
			eb_phdr(&ph, o->is32, &segs[i]);
		memcpy(b->p + ehdr, ph.p, ph.len);
		sbuf_done(&ph);
	}
	assert_int_equal(img_file_open_mem(b->p, b->len, &f, NULL), 0);
	return f;
}

/* The part @kind of a file that was built: found, at @off with @size, and of these bytes. */
static void expect_area(const struct opts *o, enum img_area_kind kind, uint64_t off, uint64_t vaddr,
                        const void *want, size_t want_len)
{
	struct img_area a = {0};
	struct sbuf b;
	struct img_file *f = build(o, &b);
	uint8_t *p = NULL;
	size_t len = 0;

	assert_int_equal(img_area_find(f, kind, &a), 0);
	assert_int_equal(a.off, off);
	assert_int_equal(a.vaddr, vaddr);
	assert_int_equal(a.size, want_len);
	assert_int_equal(img_area_load(f, &a, want_len, &p, &len), 0);
	assert_int_equal(len, want_len);
	assert_memory_equal(p, want, want_len);
	assert_int_equal(img_bad_items(f), 0);
	free(p);
	if (want_len > 0)
		assert_int_equal(img_area_load(f, &a, want_len - 1, &p, &len), -E2BIG);
	img_file_free(f);
	sbuf_done(&b);
}

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
	/* Of a file of debug information; the program header would lead into other bytes. */
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

/* What loading gives for packed bytes as they are in @b. */
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
		/* Less than there is: what was promised. */
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
	        cmocka_unit_test(test_sections_by_name),
	        cmocka_unit_test(test_other_names_are_not_it),
	        cmocka_unit_test(test_section_without_bytes),
	        cmocka_unit_test(test_by_program_header),
	        cmocka_unit_test(test_bad_frame_header),
	        cmocka_unit_test(test_section_that_lies_loses_to_the_program_header),
	        cmocka_unit_test(test_names_outside),
	        cmocka_unit_test(test_name_index_in_first_header),
	        cmocka_unit_test(test_packed_areas),
	        cmocka_unit_test(test_claimed_sizes_are_not_believed),
	        cmocka_unit_test(test_packed_data_that_is_damaged),
	        cmocka_unit_test(test_large_plain_area_from_a_descriptor_that_shrinks),
	        cmocka_unit_test(test_vdso_from_memory),
	        cmocka_unit_test(test_addresses),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests_name("image-areas", tests, NULL, NULL);
}
