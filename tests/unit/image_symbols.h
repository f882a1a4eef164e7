/* SPDX-License-Identifier: Apache-2.0 */
/*
 * image-symbols - the symbols of a file as text
 */
#ifndef PA_TEST_IMAGE_SYMBOLS_H
#define PA_TEST_IMAGE_SYMBOLS_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <fcntl.h>
#include <sys/mman.h>
#include "elf_builder.h"
#include "image/image.h"

static const struct eb_sym basic_syms[] = {
        {"main", 0x401100, 0x20, STB_GLOBAL, STT_FUNC, EB_SEC_TEXT},
        {"helper", 0x401200, 0x10, STB_LOCAL, STT_FUNC, EB_SEC_TEXT},
        {"label", 0x401300, 0, STB_LOCAL, STT_NOTYPE, EB_SEC_TEXT},
        {"pick", 0x401400, 8, STB_WEAK, STT_GNU_IFUNC, EB_SEC_TEXT},
        /* none of these is code that is here */
        {"outside", 0, 0, STB_GLOBAL, STT_FUNC, SHN_UNDEF},
        {"variable", 0x403000, 8, STB_GLOBAL, STT_OBJECT, EB_SEC_DATA},
        {"data_label", 0x403000, 0, STB_GLOBAL, STT_NOTYPE, EB_SEC_DATA},
        {"constant", 0x401000, 0, STB_GLOBAL, STT_NOTYPE, SHN_ABS},
        {"file.c", 0, 0, STB_LOCAL, STT_FILE, SHN_ABS},
        {NULL, 0x401000, 0, STB_LOCAL, STT_SECTION, EB_SEC_TEXT},
        {NULL, 0x401000, 4, STB_LOCAL, STT_FUNC, EB_SEC_TEXT},
};
static const struct eb_sym basic_dynsyms[] = {
        {"exported", 0x401f80, 0, STB_GLOBAL, STT_FUNC, EB_SEC_TAIL},
};
static const struct eb_opts basic = {
        .syms = basic_syms,
        .n_syms = ARRAY_SIZE(basic_syms),
        .dynsyms = basic_dynsyms,
        .n_dynsyms = 1,
        .id_len = 20,
};

/* All symbols as text: "name value size bind type table limit\n". */
struct listing {
	struct img_file *f;
	struct sbuf b;
	size_t unnamed;
};

static inline void list_one(void *arg, const struct img_symbol *s)
{
	struct listing *l = arg;

	if (img_symbol_name(l->f, s, &l->b) < 0)
		l->unnamed++;
	sbuf_addf(&l->b, " %lx %lx %u %u %u %lx\n", s->value, s->size, s->bind, s->type, s->table,
	          s->limit);
}

static inline ssize_t list(struct img_file *f, struct listing *l)
{
	*l = (struct listing){.f = f};
	sbuf_init(&l->b, 64 << 20);
	return img_symbols(f, list_one, l);
}

static inline struct img_file *open_built(const struct eb_opts *o, struct sbuf *b, struct eb_map *m)
{
	struct img_file *f = NULL;

	eb_build(o, b, m);
	assert_int_equal(img_file_open_mem(b->p, b->len, &f, NULL), 0);
	return f;
}

static inline void check_basic(struct img_file *f)
{
	static const char *want = "main 401100 20 1 2 0 401f00\n"
	                          "helper 401200 10 0 2 0 401f00\n"
	                          "label 401300 0 0 0 0 401f00\n"
	                          "pick 401400 8 2 10 0 401f00\n"
	                          "exported 401f80 0 1 2 1 402000\n";
	const struct img_segment *segs;
	uint8_t id[IMG_BUILD_ID_MAX];
	struct listing l;
	size_t len = 0;

	assert_int_equal(list(f, &l), 5);
	assert_string_equal(l.b.p, want);
	assert_int_equal(l.unnamed, 0);
	sbuf_done(&l.b);
	assert_int_equal(img_segments(f, &segs), 2);
	assert_true(segs[0].exec && !segs[1].exec);
	assert_int_equal(segs[0].off, EB_TEXT_OFF);
	assert_int_equal(segs[0].vaddr, EB_TEXT_VADDR);
	assert_int_equal(segs[0].file_size, EB_TEXT_SIZE);
	assert_int_equal(segs[1].mem_size, 0x100);
	assert_int_equal(img_build_id(f, id, &len), 0);
	assert_int_equal(len, 20);
	for (size_t i = 0; i < len; i++)
		assert_int_equal(id[i], i + 1);
	assert_int_equal(img_bad_items(f), 0);
}

static inline int memfd_of(const void *p, size_t len)
{
	int fd = memfd_create("test-image", MFD_CLOEXEC);

	assert_true(fd >= 0);
	assert_int_equal(file_write_full(fd, p, len), 0);
	return fd;
}

#endif
