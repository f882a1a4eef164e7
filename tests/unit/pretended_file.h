/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pretended-file - a file whose sources of rules are made up
 */
#ifndef PA_TEST_PRETENDED_FILE_H
#define PA_TEST_PRETENDED_FILE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <cmocka.h>
#include <elf.h>
#include "fake_words.h"
#include "unwind/unwind_priv.h"

static uint64_t rnd_state = 88172645463325252ULL;

static inline uint64_t rnd(void)
{
	rnd_state ^= rnd_state << 13;
	rnd_state ^= rnd_state >> 7;
	rnd_state ^= rnd_state << 17;
	return rnd_state * 0x2545f4914f6cdd1dULL >> 8;
}

static inline uint32_t below(uint32_t n)
{
	return (uint32_t)(rnd() % n);
}

/* ---- a pretended file ------------------------------------------------------------------------ */

struct fake_row {
	uint64_t at;
	uint16_t code;
};
struct fake_fn {
	uint64_t start, end;
	struct fake_row rows[6];
	size_t n_rows;
};
/* By priority. */
enum { SRC_SPECIAL, SRC_EH, SRC_GO, SRC_DEBUG, SRC_CNT };
struct fake_source {
	bool there;
	int find, load, read; /* failures */
	const struct fake_fn *fns;
	size_t n_fns;
};
struct img_file {
	bool is32;
	uint16_t machine;
	uint64_t entry;
	bool other; /* the code at the entry point is not _start */
	struct img_segment segs[4];
	size_t n_segs;
	struct fake_source src[SRC_CNT];
};

bool __wrap_img_is_64(const struct img_file *f);
uint16_t __wrap_img_machine(const struct img_file *f);
uint64_t __wrap_img_entry(const struct img_file *f);
size_t __wrap_img_segments(const struct img_file *f, const struct img_segment **ret);
int __wrap_img_read_vaddr(const struct img_file *f, uint64_t vaddr, void *buf, size_t len);
int __wrap_img_area_find(struct img_file *f, enum img_area_kind kind, struct img_area *ret);
int __wrap_img_area_load(const struct img_file *f, const struct img_area *a, size_t max,
                         uint8_t **ret, size_t *ret_len);
int __wrap_uw_cfi_read(struct img_file *f, const struct uw_area *a, struct uw_sink *sink);
int __wrap_uw_go_read(struct img_file *f, struct uw_sink *sink, const struct uw_build_limits *lim);
int __wrap_uw_go_special_read(struct img_file *f, struct uw_sink *sink,
                              const struct uw_build_limits *lim);

bool __wrap_img_is_64(const struct img_file *f)
{
	return !f->is32;
}

uint16_t __wrap_img_machine(const struct img_file *f)
{
	return f->machine;
}

uint64_t __wrap_img_entry(const struct img_file *f)
{
	return f->entry;
}

int __wrap_img_read_vaddr(const struct img_file *f, uint64_t vaddr, void *buf, size_t len)
{
#ifdef ABI_ARM64
	static const uint8_t start[] = {0x1d, 0x00, 0x80, 0xd2, 0x1e, 0x00, 0x80, 0xd2};
#else
	static const uint8_t start[] = {0xf3, 0x0f, 0x1e, 0xfa, 0x31, 0xed};
#endif

	(void)vaddr;
	memset(buf, 0x90, len);
	if (!f->other)
		memcpy(buf, start, MIN_OF(len, sizeof(start)));
	return 0;
}

size_t __wrap_img_segments(const struct img_file *f, const struct img_segment **ret)
{
	*ret = f->segs;
	return f->n_segs;
}

int __wrap_img_area_find(struct img_file *f, enum img_area_kind kind, struct img_area *ret)
{
	const struct fake_source *s = &f->src[kind == IMG_AREA_DEBUG_FRAME ? SRC_DEBUG : SRC_EH];

	assert_true(kind == IMG_AREA_DEBUG_FRAME || kind == IMG_AREA_EH_FRAME);
	if (!s->there)
		return -ENOENT;
	if (s->find < 0)
		return s->find;
	*ret = (struct img_area){.vaddr = kind == IMG_AREA_EH_FRAME ? 0x9000 : 0, .size = 16};
	return 0;
}

int __wrap_img_area_load(const struct img_file *f, const struct img_area *a, size_t max,
                         uint8_t **ret, size_t *ret_len)
{
	const struct fake_source *s = &f->src[a->vaddr ? SRC_EH : SRC_DEBUG];

	if (s->load < 0)
		return s->load;
	if (a->size > max)
		return -E2BIG;
	*ret = calloc(1, a->size);
	assert_non_null(*ret);
	*ret_len = a->size;
	return 0;
}

static inline int give(const struct fake_source *s, struct uw_sink *sink)
{
	int r = 0;

	for (size_t i = 0; i < s->n_fns && r == 0; i++) {
		sink->stats->entries++;
		r = sink->function(sink->arg, s->fns[i].start, s->fns[i].end);
		for (size_t k = 0; k < s->fns[i].n_rows && r == 0; k++)
			r = sink->row(sink->arg, s->fns[i].rows[k].at, s->fns[i].rows[k].code);
	}
	return r < 0 ? r : s->read;
}

int __wrap_uw_cfi_read(struct img_file *f, const struct uw_area *a, struct uw_sink *sink)
{
	assert_int_equal(a->len, 16);
	assert_int_equal(a->vaddr, a->debug_frame ? 0 : 0x9000);
	return give(&f->src[a->debug_frame ? SRC_DEBUG : SRC_EH], sink);
}

int __wrap_uw_go_read(struct img_file *f, struct uw_sink *sink, const struct uw_build_limits *lim)
{
	(void)lim;
	return f->src[SRC_GO].there ? give(&f->src[SRC_GO], sink) : -ENOENT;
}

int __wrap_uw_go_special_read(struct img_file *f, struct uw_sink *sink,
                              const struct uw_build_limits *lim)
{
	(void)lim;
	return f->src[SRC_SPECIAL].there ? give(&f->src[SRC_SPECIAL], sink) : -ENOENT;
}

#endif
