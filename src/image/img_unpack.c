/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Decompresses the bytes of an area. A size that a file claims allocates nothing: memory grows as
 * data comes.
 */
#include <zlib.h>
#include <zstd.h>

#include "image/image_priv.h"

#define ZSTD_LOG_MAX                                                                               \
	25 /* window of 32 MiB: linkers' defaults have 2 MiB, the levels to 19 have 8 */

int img_out_grow(struct img_out *o)
{
	size_t cap;
	uint8_t *p;

	if (o->len < o->cap)
		return 0;
	if (o->len >= o->max)
		return -E2BIG;
	cap = o->cap ? o->cap : IMG_BLOCK_BYTES / 2;
	cap = cap > o->max / 2 ? o->max : cap * 2;
	p = realloc(o->p, cap);
	if (!p)
		return -ENOMEM;
	o->p = p;
	o->cap = cap;
	return 0;
}

int img_in_next(struct img_in *in, size_t *ret_len)
{
	size_t n = (size_t)MIN_OF(in->left, (uint64_t)IMG_BLOCK_BYTES);
	int r;

	r = img_read(in->f, in->off, in->block, n);
	if (r < 0)
		return r;
	in->off += n;
	in->left -= n;
	*ret_len = n;
	return 0;
}

static int copy_plain(struct img_in *in, struct img_out *o)
{
	int r = 0;

	while (r == 0 && in->left > 0) {
		size_t n;

		r = img_out_grow(o);
		if (r < 0)
			break;
		n = (size_t)MIN_OF(in->left, (uint64_t)(o->cap - o->len));
		r = img_read(in->f, in->off, o->p + o->len, n);
		if (r < 0)
			break;
		in->off += n;
		in->left -= n;
		o->len += n;
	}
	return r;
}

/* Decompresses until the output is full, to the claimed size, or the input ends. */
static int inflate_all(z_stream *z, struct img_in *in, struct img_out *o)
{
	int r = 0, zr;

	while (o->len < o->max) {
		size_t n = 0;

		if (z->avail_in == 0 && in->left > 0) {
			r = img_in_next(in, &n);
			if (r < 0)
				return r;
			z->next_in = in->block;
			z->avail_in = (uInt)n;
		}
		r = img_out_grow(o);
		if (r < 0)
			return r;
		n = MIN_OF(o->cap - o->len, (size_t)1 << 30);
		z->next_out = o->p + o->len;
		z->avail_out = (uInt)n;
		zr = inflate(z, Z_NO_FLUSH);
		o->len += n - z->avail_out;
		/* Some linkers write one stream for each input. */
		if (zr == Z_STREAM_END)
			zr = inflateReset(z);
		if (zr == Z_MEM_ERROR)
			return -ENOMEM;
		if (zr != Z_OK && zr != Z_BUF_ERROR)
			return -EINVAL;
		/* Without input it returns what it holds, and then nothing. */
		if (z->avail_in == 0 && in->left == 0 && z->avail_out == n)
			return -ENODATA;
	}
	return 0;
}

static int unpack_zlib(struct img_in *in, struct img_out *o)
{
	z_stream z = {0};
	int r;

	if (inflateInit(&z) != Z_OK)
		return -ENOMEM;
	r = inflate_all(&z, in, o);
	(void)inflateEnd(&z); /* no result matters now */
	return r;
}

static int unpack_zstd(struct img_in *in, struct img_out *o)
{
	ZSTD_DCtx *d = ZSTD_createDCtx();
	ZSTD_inBuffer src = {in->block, 0, 0};
	size_t z;
	int r = d ? 0 : -ENOMEM;

	if (r == 0 && ZSTD_isError(ZSTD_DCtx_setParameter(d, ZSTD_d_windowLogMax, ZSTD_LOG_MAX)))
		r = -EINVAL;
	while (r == 0 && o->len < o->max) {
		ZSTD_outBuffer dst;

		if (src.pos == src.size && in->left > 0) {
			src.pos = 0;
			r = img_in_next(in, &src.size);
		}
		if (r == 0)
			r = img_out_grow(o);
		if (r < 0)
			break;
		dst = (ZSTD_outBuffer){o->p + o->len, o->cap - o->len, 0};
		z = ZSTD_decompressStream(d, &dst, &src);
		if (ZSTD_isError(z))
			r = -EINVAL;
		else if (dst.pos == 0 && src.pos == src.size && in->left == 0)
			r = -ENODATA;
		o->len += dst.pos;
	}
	(void)ZSTD_freeDCtx(d); /* NULL is accepted */
	return r;
}

int img_area_load(const struct img_file *f, const struct img_area *a, size_t max, uint8_t **ret,
                  size_t *ret_len)
{
	_cleanup_free_ uint8_t *block = NULL;
	struct img_in in = {.f = f, .off = a->off, .left = a->file_size};
	struct img_out o = {.max = (size_t)a->size};
	int r = 0;

	if (a->size > max)
		return -E2BIG;
	if (a->header > a->file_size)
		return -EINVAL;
	if (a->compression) {
		in.off += a->header;
		in.left -= a->header;
		in.block = block = malloc(IMG_BLOCK_BYTES);
		if (!block)
			return -ENOMEM;
	}
	switch (a->compression) {
	case 0:
		r = copy_plain(&in, &o);
		break;
	case IMG_COMPRESSED_ZLIB:
		r = unpack_zlib(&in, &o);
		break;
	case IMG_COMPRESSED_ZSTD:
		r = unpack_zstd(&in, &o);
		break;
	default:
		r = -EINVAL;
		break;
	}
	if (r == 0 && !o.p) {
		o.p = malloc(1); /* an empty area also has memory */
		r = o.p ? 0 : -ENOMEM;
	}
	if (r < 0) {
		free(o.p);
		return r;
	}
	*ret = o.p;
	*ret_len = o.len;
	return 0;
}

int img_area_read(const struct img_file *f, const struct img_area *a, uint64_t off, void *buf,
                  size_t len)
{
	if (a->compression)
		return -EINVAL;
	if (off > a->file_size || a->file_size - off < len || a->off > UINT64_MAX - off)
		return -ENODATA;
	return img_read(f, a->off + off, buf, len);
}
