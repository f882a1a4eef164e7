/* SPDX-License-Identifier: Apache-2.0 */
/*
 * .gnu_debugdata: a whole ELF file inside a section, compressed as one xz stream. It holds the
 * stripped symbols, at the addresses of the image.
 */
#include <lzma.h>

#include "image/image_priv.h"

static int code_of(lzma_ret lr)
{
	switch ((int)lr) { /* other versions of the library may have more */
	case LZMA_OK:
	case LZMA_BUF_ERROR: /* no progress without more input; the caller sees that */
		return 0;
	case LZMA_STREAM_END:
		return 1;
	case LZMA_MEM_ERROR:
		return -ENOMEM;
	case LZMA_MEMLIMIT_ERROR:
		return -E2BIG;
	default:
		return -EINVAL;
	}
}

/* Decompresses the stream to its end. Bytes after it are not read. */
static int unpack_xz(lzma_stream *z, struct img_in *in, struct img_out *o)
{
	const size_t max = o->max;
	uint64_t held;
	size_t n;
	int r;

	for (;;) {
		if (z->avail_in == 0 && in->left > 0) {
			r = img_in_next(in, &n);
			if (r < 0)
				return r == -ENODATA ? -EINVAL : r;
			z->next_in = in->block;
			z->avail_in = n;
		}
		/* The decoder's memory is part of the bound. It is known once the header was
		 * read. */
		held = lzma_memusage(z);
		if (held > max)
			return -E2BIG;
		o->max = max - (size_t)held;
		r = img_out_grow(o);
		if (r < 0)
			return r;
		n = o->cap - o->len;
		z->next_out = o->p + o->len;
		z->avail_out = n;
		r = code_of(lzma_code(z, in->left > 0 ? LZMA_RUN : LZMA_FINISH));
		o->len += n - z->avail_out;
		if (r != 0)
			return r < 0 ? r : 0;
		if (z->avail_in == 0 && in->left == 0 && z->avail_out == n)
			return -EINVAL; /* cut off */
	}
}

int img_minidebug(struct img_file *f, size_t max, uint8_t **ret, size_t *ret_len)
{
	_cleanup_free_ uint8_t *block = NULL;
	lzma_stream z = LZMA_STREAM_INIT;
	struct img_out o = {.max = max};
	struct img_in in = {.f = f};
	struct img_area a;
	int r;

	r = img_section_find(f, ".gnu_debugdata", &a);
	if (r < 0)
		return r;
	if (a.compression) { /* compressed twice */
		f->bad++;
		return -EINVAL;
	}
	if (a.file_size > max) /* empty blocks would be read for nothing */
		return -E2BIG;
	in.off = a.off;
	in.left = a.file_size;
	in.block = block = malloc(IMG_BLOCK_BYTES);
	if (!block)
		return -ENOMEM;
	r = code_of(lzma_stream_decoder(&z, max, 0));
	if (r == 0)
		r = unpack_xz(&z, &in, &o);
	lzma_end(&z);
	if (r == 0 && o.len == 0)
		r = -EINVAL; /* not an ELF file */
	if (r == -EINVAL)
		f->bad++;
	if (r < 0) {
		free(o.p);
		return r;
	}
	*ret = o.p;
	*ret_len = o.len;
	return 0;
}
