/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads a compressed area in pieces. It is decompressed from its beginning once. On the way,
 * restart points are kept: for zlib the last 32 KiB and the position in bits; for zstd ends of
 * frames, which are all that its public functions allow. Decompressed bytes are in a few windows;
 * the least recently used one is replaced.
 *
 * A hostile file can make each read start at its beginning, so callers bound the work of a read.
 */
#include <zlib.h>
#include <zstd.h>
#include <zstd_errors.h>

#include "image/image_priv.h"

#define HISTORY_BYTES     (32 * 1024) /* deflate refers back so far */
#define WINDOW_BYTES_MIN  4096
#define WINDOW_BYTES_MAX  (64 * 1024)
#define WINDOWS_MAX       32
#define SPACING_BYTES_MIN (256 * 1024)
#define POINTS_MIN        4
#define IN_BYTES          (16 * 1024)
#define ZLIB_BYTES        (48 * 1024)  /* zlib's state: 7 KiB, and the history */
#define ZSTD_BYTES        (640 * 1024) /* zstd's state without the frame's window */
#define ZSTD_LOG_MIN      10
#define ZSTD_LOG_MAX      25
/* An empty block of deflate costs a new set of tables: more than its few bytes suggest. */
#define CALL_WORK 512

/* A restart point. */
struct point {
	uint64_t out, in;     /* offset in the decompressed, in the compressed data */
	uint8_t bits, before; /* bits of the byte before @in that are not used yet; that byte */
	uint8_t *history;     /* history[history_len]; NULL: a stream or frame begins here */
	size_t history_len;
};

struct window {
	uint64_t no, used;
	uint8_t *p; /* p[len], window_bytes allocated */
	size_t len;
};

struct img_windows {
	const struct img_file *f;
	struct img_area a;
	size_t max_bytes, bytes;
	size_t window_bytes, n_windows_max, n_points_max;
	uint64_t spacing;
	VEC(struct point) points; /* by .out */
	struct window windows[WINDOWS_MAX];
	size_t n_windows;
	uint64_t clock;
	struct img_in in;
	uint8_t *cur; /* being decompressed: cur[window_bytes] */
	/* the decoder; pos: bytes that it has returned */
	bool live, raw; /* raw: from a point, deflate without zlib's header */
	uint64_t pos;
	size_t trailer_left; /* of zlib's checksum, still to be skipped */
	z_stream z;
	bool z_open;
	ZSTD_DCtx *zstd;
	ZSTD_inBuffer src;
	size_t zstd_bytes;
	/* the data is damaged from here on */
	uint64_t bad_at;
	int bad;
	struct img_windows_stats stats;
};

/* ---- memory --------------------------------------------------------------------------------- */

static void *charge_alloc(struct img_windows *w, size_t n)
{
	void *p;

	if (n > w->max_bytes || w->bytes > w->max_bytes - n)
		return NULL;
	p = malloc(n);
	if (p)
		w->bytes += n;
	return p;
}

static void free_charged(struct img_windows *w, void *p, size_t n)
{
	if (!p)
		return;
	free(p);
	w->bytes -= n;
}

static void decoder_close(struct img_windows *w)
{
	if (w->z_open) {
		(void)inflateEnd(&w->z); /* no result matters */
		w->bytes -= ZLIB_BYTES;
	}
	w->z_open = false;
	(void)ZSTD_freeDCtx(w->zstd); /* NULL is accepted */
	w->zstd = NULL;
	w->bytes -= w->zstd_bytes;
	w->zstd_bytes = 0;
	w->live = false;
}

void img_windows_trim(struct img_windows *w)
{
	decoder_close(w);
	for (size_t i = 0; i < w->n_windows; i++)
		free_charged(w, w->windows[i].p, w->window_bytes);
	w->n_windows = 0;
	free_charged(w, w->cur, w->window_bytes);
	w->cur = NULL;
	free_charged(w, w->in.block, IN_BYTES);
	w->in.block = NULL;
}

struct img_windows *img_windows_free(struct img_windows *w)
{
	if (!w)
		return NULL;
	img_windows_trim(w);
	for (size_t i = 0; i < w->points.n; i++)
		free(w->points.p[i].history);
	vec_done(&w->points);
	free(w);
	return NULL;
}

void img_windows_freep(struct img_windows **w)
{
	*w = img_windows_free(*w);
}

int img_windows_new(const struct img_file *f, const struct img_area *a,
                    const struct img_windows_options *o, struct img_windows **ret)
{
	_cleanup_(img_windows_freep) struct img_windows *w = NULL;
	size_t points;

	if ((a->compression != IMG_COMPRESSED_ZLIB && a->compression != IMG_COMPRESSED_ZSTD) ||
	    a->header > a->file_size)
		return -EINVAL;
	w = calloc(1, sizeof(*w));
	if (!w)
		return -ENOMEM;
	w->f = f;
	w->a = *a;
	w->max_bytes = o->max_bytes;
	w->bytes = sizeof(*w);
	w->window_bytes = o->window_bytes;
	for (size_t n = WINDOW_BYTES_MAX; w->window_bytes == 0; n /= 2) {
		if (n <= WINDOW_BYTES_MIN || n <= o->max_bytes / 32)
			w->window_bytes = n;
	}
	w->n_windows_max =
	        MIN_OF(MAX_OF(o->max_bytes / 4 / w->window_bytes, (size_t)1), (size_t)WINDOWS_MAX);
	points = o->max_bytes / 2 / (HISTORY_BYTES + sizeof(struct point));
	w->n_points_max = MAX_OF(points, (size_t)POINTS_MIN);
	w->points.max = w->n_points_max;
	w->spacing = MAX_OF(a->size / w->n_points_max, (uint64_t)SPACING_BYTES_MIN);
	if (o->spacing_bytes)
		w->spacing = o->spacing_bytes;
	w->bad_at = UINT64_MAX;
	*ret = TAKE_PTR(w);
	return 0;
}

void img_windows_limit(struct img_windows *w, size_t max_bytes)
{
	w->max_bytes = max_bytes;
}

size_t img_windows_bytes(const struct img_windows *w)
{
	return w->bytes;
}

const struct img_windows_stats *img_windows_stats(const struct img_windows *w)
{
	return &w->stats;
}

/* ---- points --------------------------------------------------------------------------------- */

/* Returns the last point at or before @out; NULL: the beginning. */
static const struct point *point_before(const struct img_windows *w, uint64_t out)
{
	const size_t n = bisect_first(i, 0, w->points.n, w->points.p[i].out > out);

	return n ? &w->points.p[n - 1] : NULL;
}

static bool wants_point(const struct img_windows *w)
{
	uint64_t last = w->points.n ? w->points.p[w->points.n - 1].out : 0;

	return w->points.n < w->n_points_max && w->pos > last && w->pos - last >= w->spacing;
}

/* Adds a point. Without room for it the previous one serves. */
static int add_point(struct img_windows *w, struct point p)
{
	size_t before = w->points.cap;
	int r;

	if (w->points.n == before &&
	    w->max_bytes < w->bytes + MAX_OF(2 * before, (size_t)8) * sizeof(p))
		return -E2BIG;
	r = vec_reserve(&w->points, 1);
	w->bytes += (w->points.cap - before) * sizeof(p);
	if (r < 0)
		return r;
	w->points.p[w->points.n++] = p;
	return 0;
}

static uint64_t in_pos(const struct img_windows *w, size_t unread)
{
	return w->a.file_size - w->a.header - w->in.left - unread;
}

/* Adds a point at the end of a block of deflate. */
static int add_zlib_point(struct img_windows *w)
{
	struct point p = {.out = w->pos, .in = in_pos(w, w->z.avail_in)};
	uInt len = HISTORY_BYTES;
	int r;

	p.bits = (uint8_t)(w->z.data_type & 7);
	/* inflate returns whole bytes: the one with unused bits is the last that it read. */
	if (p.bits && w->z.next_in == w->in.block)
		return 0;
	p.before = p.bits ? w->z.next_in[-1] : 0;
	p.history = charge_alloc(w, HISTORY_BYTES);
	if (!p.history)
		return 0;
	if (inflateGetDictionary(&w->z, p.history, &len) != Z_OK || len == 0) {
		free_charged(w, p.history, HISTORY_BYTES);
		return 0;
	}
	p.history_len = len;
	r = add_point(w, p);
	if (r < 0)
		free_charged(w, p.history, HISTORY_BYTES);
	return r == -ENOMEM ? r : 0;
}

/* Adds a point at the beginning of a stream or frame. */
static int add_plain_point(struct img_windows *w, size_t unread)
{
	int r = add_point(w, (struct point){.out = w->pos, .in = in_pos(w, unread)});

	return r == -ENOMEM ? r : 0;
}

/* ---- decoders ------------------------------------------------------------------------------- */

static int spend(uint64_t *work, uint64_t n)
{
	if (*work < n) {
		*work = 0;
		return -ETIME;
	}
	*work -= n;
	return 0;
}

static int next_block(struct img_windows *w, uint64_t *work, size_t *ret_len)
{
	size_t n = (size_t)MIN_OF(w->in.left, (uint64_t)IN_BYTES);
	int r = spend(work, n);

	r = r < 0 ? r : img_read(w->f, w->in.off, w->in.block, n);
	if (r < 0)
		return r;
	w->in.off += n;
	w->in.left -= n;
	*ret_len = n;
	return 0;
}

static int zlib_start(struct img_windows *w, const struct point *p)
{
	const int bits = p && p->history ? -MAX_WBITS : MAX_WBITS;

	if (!w->z_open) {
		if (w->max_bytes < w->bytes + ZLIB_BYTES)
			return -E2BIG;
		w->z = (z_stream){0};
		if (inflateInit2(&w->z, bits) != Z_OK)
			return -ENOMEM;
		w->z_open = true;
		w->bytes += ZLIB_BYTES;
	} else if (inflateReset2(&w->z, bits) != Z_OK) {
		return -EINVAL;
	}
	w->z.avail_in = 0;
	w->raw = bits < 0;
	w->trailer_left = 0;
	if (!w->raw)
		return 0;
	if (p->bits && inflatePrime(&w->z, p->bits, p->before >> (8 - p->bits)) != Z_OK)
		return -EINVAL;
	return inflateSetDictionary(&w->z, p->history, (uInt)p->history_len) == Z_OK ? 0 : -EINVAL;
}

/* A stream has ended: some linkers write one for each input. */
static int zlib_next_stream(struct img_windows *w)
{
	if (w->raw)
		w->trailer_left = 4;
	w->raw = false;
	if (inflateReset2(&w->z, MAX_WBITS) != Z_OK)
		return -EINVAL;
	return !w->trailer_left && wants_point(w) ? add_plain_point(w, w->z.avail_in) : 0;
}

/* Decompresses at most @n bytes into @out. */
static int zlib_step(struct img_windows *w, uint8_t *out, size_t n, uint64_t *work, size_t *ret_n)
{
	size_t len = 0;
	int r, zr;

	if (w->z.avail_in == 0 && w->in.left > 0) {
		r = next_block(w, work, &len);
		if (r < 0)
			return r;
		w->z.next_in = w->in.block;
		w->z.avail_in = (uInt)len;
	}
	if (w->trailer_left) {
		len = MIN_OF(w->trailer_left, (size_t)w->z.avail_in);
		w->z.next_in += len;
		w->z.avail_in -= (uInt)len;
		w->trailer_left -= len;
		*ret_n = 0;
		return len ? 0 : -ENODATA;
	}
	w->z.next_out = out;
	w->z.avail_out = (uInt)n;
	zr = inflate(&w->z, Z_BLOCK);
	*ret_n = n - w->z.avail_out;
	w->pos += *ret_n;
	if (zr == Z_MEM_ERROR)
		return -ENOMEM;
	if (zr == Z_STREAM_END)
		return zlib_next_stream(w);
	if (zr != Z_OK && zr != Z_BUF_ERROR)
		return -EINVAL;
	if (w->z.avail_in == 0 && w->in.left == 0 && *ret_n == 0)
		return -ENODATA;
	/* 128: after a block, 64: the last block of a stream */
	if ((w->z.data_type & (128 | 64)) == 128 && wants_point(w))
		return add_zlib_point(w);
	return 0;
}

static int zstd_start(struct img_windows *w)
{
	size_t left = w->max_bytes - MIN_OF(w->bytes, w->max_bytes);
	int log = ZSTD_LOG_MIN;

	if (!w->zstd) {
		if (left < ZSTD_BYTES + (1u << ZSTD_LOG_MIN))
			return -E2BIG;
		while (log < ZSTD_LOG_MAX && (size_t)2 << log <= left - ZSTD_BYTES)
			log++;
		w->zstd = ZSTD_createDCtx();
		if (!w->zstd)
			return -ENOMEM;
		if (ZSTD_isError(ZSTD_DCtx_setParameter(w->zstd, ZSTD_d_windowLogMax, log)))
			return -EINVAL;
	}
	/* resetting a session cannot fail */
	(void)ZSTD_DCtx_reset(w->zstd, ZSTD_reset_session_only);
	w->src = (ZSTD_inBuffer){w->in.block, 0, 0};
	return 0;
}

static int zstd_step(struct img_windows *w, uint8_t *out, size_t n, uint64_t *work, size_t *ret_n)
{
	ZSTD_outBuffer dst = {out, n, 0};
	size_t z;
	int r;

	if (w->src.pos == w->src.size && w->in.left > 0) {
		w->src.pos = w->src.size = 0;
		r = next_block(w, work, &w->src.size);
		if (r < 0)
			return r;
	}
	z = ZSTD_decompressStream(w->zstd, &dst, &w->src);
	*ret_n = dst.pos;
	w->pos += dst.pos;
	w->bytes -= w->zstd_bytes;
	w->zstd_bytes = ZSTD_sizeof_DCtx(w->zstd);
	w->bytes += w->zstd_bytes;
	if (ZSTD_isError(z)) {
		ZSTD_ErrorCode code = ZSTD_getErrorCode(z);

		return code == ZSTD_error_frameParameter_windowTooLarge ? -E2BIG
		       : code == ZSTD_error_memory_allocation           ? -ENOMEM
		                                                        : -EINVAL;
	}
	if (dst.pos == 0 && w->src.pos == w->src.size && w->in.left == 0)
		return -ENODATA;
	return z == 0 && wants_point(w) ? add_plain_point(w, w->src.size - w->src.pos) : 0;
}

/* ---- reading -------------------------------------------------------------------------------- */

static int start_at(struct img_windows *w, const struct point *p)
{
	uint64_t skip = w->a.header + (p ? p->in : 0);

	w->live = false;
	if (!w->in.block)
		w->in.block = charge_alloc(w, IN_BYTES);
	if (!w->cur)
		w->cur = charge_alloc(w, w->window_bytes);
	if (!w->in.block || !w->cur)
		return -E2BIG;
	w->in.off = w->a.off + skip;
	w->in.left = w->a.file_size - skip;
	w->pos = p ? p->out : 0;
	w->stats.starts++;
	return w->a.compression == IMG_COMPRESSED_ZLIB ? zlib_start(w, p) : zstd_start(w);
}

/* Decompresses up to @end into cur, whose first byte is at @start. */
static int fill(struct img_windows *w, uint64_t start, uint64_t end, uint64_t *work)
{
	while (w->pos < end) {
		uint8_t *out = w->cur + (w->pos - start);
		size_t n = (size_t)(end - w->pos), given = 0;
		int r = spend(work, CALL_WORK);

		if (r == 0)
			r = w->a.compression == IMG_COMPRESSED_ZLIB
			            ? zlib_step(w, out, n, work, &given)
			            : zstd_step(w, out, n, work, &given);
		w->stats.unpacked_bytes += given;
		*work -= MIN_OF(*work, (uint64_t)given);
		if (r < 0)
			return r;
	}
	return 0;
}

/* Decompresses window @no into cur, with *ret_len bytes: fewer if the data after them is
 * damaged. */
static int unpack_window(struct img_windows *w, uint64_t no, uint64_t *work, size_t *ret_len)
{
	const uint64_t start = no * w->window_bytes;
	const struct point *p = point_before(w, start);
	uint64_t at = start, end = 0;
	int r = 0;

	if (start >= w->bad_at)
		return w->bad;
	if (!w->live || w->pos > start || (p && p->out > w->pos))
		r = start_at(w, p);
	w->live = r == 0;
	while (r == 0 && end < MIN_OF(start + w->window_bytes, w->a.size)) {
		at = w->pos / w->window_bytes * w->window_bytes;
		end = MIN_OF(at + w->window_bytes, w->a.size);
		r = fill(w, at, MIN_OF(end, w->bad_at), work);
		if (r == 0 && end > w->bad_at)
			break;
	}
	if (r == -ETIME)
		return r; /* the next call continues here */
	if (r == -EINVAL || r == -ENODATA) {
		w->bad = r;
		w->bad_at = w->pos;
	}
	if (r < 0)
		decoder_close(w);
	if (r < 0 && (w->bad != r || at != start || w->pos <= start))
		return r;
	*ret_len = (size_t)(w->pos - start);
	return 0;
}

/* Moves cur into the windows, and gives cur another buffer. */
static struct window *keep_window(struct img_windows *w, uint64_t no, size_t len)
{
	struct window *slot = NULL;
	uint8_t *p = NULL;

	if (w->n_windows < w->n_windows_max)
		p = charge_alloc(w, w->window_bytes);
	if (p) {
		slot = &w->windows[w->n_windows++];
	} else {
		for (size_t i = 0; i < w->n_windows; i++) {
			if (!slot || w->windows[i].used < slot->used)
				slot = &w->windows[i];
		}
		if (!slot)
			return NULL;
		p = slot->p;
	}
	*slot = (struct window){.no = no, .used = ++w->clock, .p = w->cur, .len = len};
	w->cur = p;
	return slot;
}

static struct window *find_window(struct img_windows *w, uint64_t no)
{
	for (size_t i = 0; i < w->n_windows; i++) {
		if (w->windows[i].no == no) {
			w->windows[i].used = ++w->clock;
			return &w->windows[i];
		}
	}
	return NULL;
}

int img_windows_read(struct img_windows *w, uint64_t off, void *buf, size_t len, uint64_t *work)
{
	uint8_t *out = buf;

	if (off > w->a.size || len > w->a.size - off)
		return -ENODATA;
	while (len > 0) {
		const uint64_t no = off / w->window_bytes;
		const size_t skip = (size_t)(off % w->window_bytes);
		struct window *win = find_window(w, no);
		const uint8_t *p = win ? win->p : NULL;
		size_t have = win ? win->len : 0, n;

		if (!win) {
			int r = unpack_window(w, no, work, &have);

			if (r < 0)
				return r;
			p = w->cur;
			/* A window that is read as a whole is not read in pieces later. */
			if (skip > 0 || len < have) {
				win = keep_window(w, no, have);
				if (!win)
					return -E2BIG;
				p = win->p;
			}
		}
		if (have <= skip)
			return w->bad ? w->bad : -ENODATA;
		n = MIN_OF(have - skip, len);
		memcpy(out, p + skip, n);
		out += n;
		off += n;
		len -= n;
	}
	return 0;
}
