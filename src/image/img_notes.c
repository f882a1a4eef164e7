/* SPDX-License-Identifier: Apache-2.0 */
/* The GNU build-id: a note whose owner is "GNU" and whose type is NT_GNU_BUILD_ID. */
#include "image/image_priv.h"

/* Skips the padding up to @align; the last item of an area may lack it. */
static void skip_padding(struct cursor *c, size_t area_len, uint32_t align)
{
	size_t pos = area_len - cursor_left(c);
	size_t pad = (align - pos % align) % align;

	(void)cursor_skip(c, MIN_OF(pad, cursor_left(c))); /* never more than is left */
}

/* Returns 0, -ENOENT (no such note), -ENODATA (a note is longer than the area). */
static int find_build_id(struct img_file *f, const void *p, size_t len, uint32_t align,
                         uint8_t ret[IMG_BUILD_ID_MAX], size_t *ret_len)
{
	struct cursor c = cursor_of(p, len);

	while (cursor_left(&c) > 0) {
		uint32_t name_len, desc_len, type;
		struct cursor name, desc;
		bool gnu;

		if (cursor_u32(&c, &name_len) < 0 || cursor_u32(&c, &desc_len) < 0 ||
		    cursor_u32(&c, &type) < 0 || cursor_sub(&c, name_len, &name) < 0)
			return -ENODATA;
		skip_padding(&c, len, align);
		if (cursor_sub(&c, desc_len, &desc) < 0)
			return -ENODATA;
		skip_padding(&c, len, align);

		gnu = name_len == sizeof(ELF_NOTE_GNU) &&
		      memcmp(name.p, ELF_NOTE_GNU, sizeof(ELF_NOTE_GNU)) == 0;
		if (!gnu || type != NT_GNU_BUILD_ID)
			continue;
		if (desc_len == 0 || desc_len > IMG_BUILD_ID_MAX) {
			f->bad++;
			continue;
		}
		*ret_len = desc_len;
		return cursor_bytes(&desc, ret, desc_len);
	}
	return -ENOENT;
}

int img_build_id(struct img_file *f, uint8_t ret[IMG_BUILD_ID_MAX], size_t *ret_len)
{
	for (size_t i = 0; i < f->n_notes; i++) {
		const struct img_note_area *a = &f->notes[i];
		size_t len = (size_t)MIN_OF(a->size, (uint64_t)IMG_NOTE_BYTES);
		_cleanup_free_ uint8_t *buf = NULL;
		int r;

		/* A truncated file may still hold the first notes of the area. */
		if (a->off > f->size) {
			f->bad++;
			continue;
		}
		len = (size_t)MIN_OF(len, f->size - a->off);
		buf = malloc(len + 1);
		if (!buf)
			return -ENOMEM;
		r = img_read(f, a->off, buf, len);
		if (r == 0)
			r = find_build_id(f, buf, len, a->align, ret, ret_len);
		if (r == 0)
			return 0;
		if (r == -ENODATA || (r == -ENOENT && len < a->size))
			f->bad++;
		else if (r != -ENOENT)
			return r;
	}
	return -ENOENT;
}
