/* SPDX-License-Identifier: Apache-2.0 */
/* Bytes of sections: by pages, decompressed as a whole or through windows. And the budget of
 * memory. */
#include "dwarf/dwarf_priv.h"

#define NAME_BYTES 32
/* Shares of max_bytes for compressed sections that are decompressed as a whole: one, and all. */
#define WHOLE_SHARE     8
#define WHOLE_ALL_SHARE 4
/* Share of the windows of one section. Four may be large: information, strings, lines, ranges. zstd
 * needs the window that its data was compressed with: 2 MiB, or 8 MiB with the highest levels. */
#define ZLIB_SHARE     16
#define ZLIB_BYTES_MIN ((size_t)128 << 10)
#define ZSTD_SHARE     4
#define ZSTD_BYTES_MIN ((size_t)3 << 20)

static const char *const sec_names[DW_SEC_CNT] = {
        [DW_SEC_INFO] = ".debug_info",
        [DW_SEC_ABBREV] = ".debug_abbrev",
        [DW_SEC_STR] = ".debug_str",
        [DW_SEC_LINE] = ".debug_line",
        [DW_SEC_LINE_STR] = ".debug_line_str",
        [DW_SEC_RANGES] = ".debug_ranges",
        [DW_SEC_RNGLISTS] = ".debug_rnglists",
        [DW_SEC_ADDR] = ".debug_addr",
        [DW_SEC_STR_OFFSETS] = ".debug_str_offsets",
        [DW_SEC_ARANGES] = ".debug_aranges",
        [DW_SEC_CU_INDEX] = ".debug_cu_index",
};

int dw_note(struct dw_file *d, int r)
{
	switch (r) {
	case -EINVAL:
	case -ENODATA:
	case -ERANGE:
		d->stats.bad++;
		return 0;
	case -ENOTSUP:
		d->stats.unsupported++;
		return 0;
	case -E2BIG:
		d->stats.over_limit++;
		return 0;
	case -ENOENT:
	case -ETIME: /* counted once a call */
		return 0;
	default:
		return MIN_OF(r, 0);
	}
}

int dw_charge(struct dw_file *d, size_t n)
{
	if (n > d->max_bytes - d->bytes)
		return -E2BIG;
	d->bytes += n;
	if (d->bytes > d->stats.bytes_peak)
		d->stats.bytes_peak = d->bytes;
	return 0;
}

void dw_release(struct dw_file *d, size_t n)
{
	d->bytes -= n;
}

int dw_alloc(struct dw_file *d, size_t n, void *ret_p)
{
	void *p;

	if (dw_charge(d, n) < 0)
		return -E2BIG;
	p = calloc(1, n ? n : 1);
	if (!p) {
		dw_release(d, n);
		return -ENOMEM;
	}
	memcpy(ret_p, &p, sizeof(p));
	return 0;
}

void dw_dealloc(struct dw_file *d, void *p, size_t n)
{
	if (!p)
		return;
	free(p);
	dw_release(d, n);
}

int dw_grow_(struct dw_file *d, void *pp, size_t *cap, size_t n, size_t max, size_t item_size)
{
	/* As vec_grow_ grows. */
	size_t before = *cap, after = MAX_OF(2 * before, (size_t)8);
	int r;

	if (n < before)
		return 0;
	r = dw_charge(d, (after - before) * item_size);
	if (r < 0)
		return r;
	r = vec_grow_(pp, cap, n, 1, max, item_size);
	dw_release(d, (after - *cap) * item_size);
	return r;
}

/* Chooses small sections, and first those with scattered reads. */
static void choose_whole(struct dw_file *d, struct dw_src *src)
{
	static const uint8_t order[] = {DW_SEC_ABBREV,   DW_SEC_STR_OFFSETS, DW_SEC_ADDR,
	                                DW_SEC_LINE_STR, DW_SEC_RNGLISTS,    DW_SEC_RANGES,
	                                DW_SEC_CU_INDEX, DW_SEC_STR,         DW_SEC_INFO,
	                                DW_SEC_LINE,     DW_SEC_ARANGES};
	const size_t one = d->max_bytes / WHOLE_SHARE, all = d->max_bytes / WHOLE_ALL_SHARE;

	_Static_assert(sizeof(order) == DW_SEC_CNT, "each has its place");
	for (size_t i = 0; i < DW_SEC_CNT; i++) {
		struct dw_sec *s = &src->secs[order[i]];

		if (!s->area.compression)
			continue;
		s->whole = s->size <= one && s->size <= all - MIN_OF(d->whole_bytes, all);
		if (s->whole)
			d->whole_bytes += (size_t)s->size;
	}
}

int dw_src_open(struct dw_file *d, struct dw_src *src, bool dwo)
{
	src->ready = true;
	src->units.max = SIZE_MAX / sizeof(*src->units.p);
	for (size_t i = 0; i < DW_SEC_CNT; i++) {
		struct dw_sec *s = &src->secs[i];
		char name[NAME_BYTES];
		size_t len = strlen(sec_names[i]);
		int r;

		*s = (struct dw_sec){.img = src->img, .id = ++d->next_sec_id};
		memcpy(name, sec_names[i], len + 1);
		/* A package has the plain name for sections that are not split by unit. */
		if (dwo && i != DW_SEC_CU_INDEX)
			memcpy(name + len, ".dwo", 5);
		r = img_section_find(src->img, name, &s->area);
		if (r == -EINVAL)
			d->stats.bad++;
		else if (r < 0 && r != -ENOENT)
			return r;
		if (r < 0)
			continue;
		s->size = s->area.size;
	}
	choose_whole(d, src);
	return 0;
}

void dw_src_done(struct dw_file *d, struct dw_src *src)
{
	for (size_t i = 0; i < DW_SEC_CNT; i++) {
		struct dw_sec *s = &src->secs[i];

		if (s->whole)
			d->whole_bytes -= (size_t)s->area.size;
		if (s->mem)
			dw_dealloc(d, s->mem, (size_t)s->size);
		s->mem = NULL;
		s->windows = img_windows_free(s->windows);
		dw_release(d, s->windows_bytes);
		s->windows_bytes = 0;
		s->whole = false;
		s->size = 0;
	}
	dw_vec_done(d, &src->units);
	if (src->fd >= 0) {
		src->img = img_file_free(src->img);
		closep(&src->fd);
	}
}

/* Decompresses a section: 0, -E2BIG, -EINVAL, -ENODATA, -ETIME, -ENOMEM, errno. */
static int unpack(struct dw_file *d, struct dw_sec *s)
{
	size_t len = 0;
	int r;

	r = dw_steps(d, s->size / DW_STEP_UNPACKED);
	r = r < 0 ? r : dw_charge(d, (size_t)s->size);
	if (r < 0)
		return r;
	r = img_area_load(s->img, &s->area, (size_t)s->size, &s->mem, &len);
	if (r < 0) {
		dw_release(d, (size_t)s->size);
		s->failed = r;
	}
	return r;
}

/* Charges the memory that the windows hold now: 0, -E2BIG. */
static int account_windows(struct dw_file *d, struct dw_sec *s)
{
	size_t now = img_windows_bytes(s->windows);

	dw_release(d, s->windows_bytes);
	s->windows_bytes = 0;
	if (dw_charge(d, now) < 0) {
		s->windows = img_windows_free(s->windows);
		return -E2BIG;
	}
	s->windows_bytes = now;
	return 0;
}

static int read_windows(struct dw_file *d, struct dw_sec *s, uint64_t off, void *buf, size_t len)
{
	const struct img_windows_options o = {
	        .max_bytes = s->area.compression == IMG_COMPRESSED_ZLIB
	                             ? MAX_OF(d->max_bytes / ZLIB_SHARE, ZLIB_BYTES_MIN)
	                             : MAX_OF(d->max_bytes / ZSTD_SHARE, ZSTD_BYTES_MIN)};
	uint64_t work = 0, before;
	int r, counted;

	if (!s->windows) {
		r = img_windows_new(s->img, &s->area, &o, &s->windows);
		r = r < 0 ? r : account_windows(d, s);
		if (r < 0)
			return r;
	}
	img_windows_limit(s->windows,
	                  MIN_OF(o.max_bytes, s->windows_bytes + d->max_bytes - d->bytes));
	if (__builtin_mul_overflow(d->steps, (uint64_t)DW_STEP_UNPACKED, &work))
		work = UINT64_MAX;
	before = work;
	r = img_windows_read(s->windows, off, buf, len, &work);
	counted = dw_steps(d, (before - work + DW_STEP_UNPACKED - 1) / DW_STEP_UNPACKED);
	counted = counted < 0 ? counted : account_windows(d, s);
	return r < 0 ? r : counted;
}

static void drop_windows(struct dw_file *d, struct dw_src *src)
{
	for (size_t i = 0; i < DW_SEC_CNT; i++) {
		struct dw_sec *s = &src->secs[i];

		if (!s->windows)
			continue;
		img_windows_trim(s->windows);
		(void)account_windows(d, s); /* less than before always fits */
	}
}

static void drop_all_windows(struct dw_file *d)
{
	drop_windows(d, &d->main);
	drop_windows(d, &d->alt);
	drop_windows(d, &d->dwp);
	for (size_t i = 0; i < DW_DWOS; i++) {
		if (d->dwos[i])
			drop_windows(d, d->dwos[i]);
	}
}

/* Reads a compressed section. */
static int read_packed(struct dw_file *d, struct dw_sec *s, uint64_t off, void *buf, size_t len)
{
	int r = s->failed;

	if (r == 0 && !s->mem && s->whole) {
		r = unpack(d, s);
		if (r == -E2BIG) { /* other sections hold the memory */
			s->whole = false;
			d->whole_bytes -= (size_t)s->area.size;
			r = 0;
		}
	}
	if (r == 0 && !s->whole) {
		r = read_windows(d, s, off, buf, len);
		if (r == -E2BIG) { /* windows of other sections can be made again */
			drop_all_windows(d);
			r = read_windows(d, s, off, buf, len);
		}
		if (r == -E2BIG) {
			d->stats.sections_refused++;
			s->failed = r;
		}
		return r;
	}
	if (r == 0 && len > 0 && s->mem)
		memcpy(buf, s->mem + off, len);
	return r;
}

/* Gets page @no of a section: 0, -ENODATA, errno. */
static int page_get(struct dw_file *d, struct dw_sec *s, uint64_t no, const uint8_t **ret,
                    size_t *ret_len)
{
	size_t i = (size_t)(no + (uint64_t)s->id * 61) % d->n_pages;
	size_t len;
	struct dw_page *p;
	int r;

	if (!d->pages) {
		r = dw_alloc(d, d->n_pages * sizeof(*d->pages), &d->pages);
		if (r < 0)
			return r;
	}
	if (!d->page_bytes) {
		r = dw_alloc(d, d->n_pages * DW_PAGE_BYTES, &d->page_bytes);
		if (r < 0)
			return r;
	}
	p = &d->pages[i];
	if (p->sec_id != s->id || p->no != no) {
		len = (size_t)MIN_OF(s->size - no * DW_PAGE_BYTES, (uint64_t)DW_PAGE_BYTES);
		p->sec_id = 0;
		r = dw_steps(d, DW_PAGE_BYTES / DW_STEP_BYTES);
		if (r < 0)
			return r;
		r = img_area_read(s->img, &s->area, no * DW_PAGE_BYTES,
		                  d->page_bytes + i * DW_PAGE_BYTES, len);
		if (r < 0)
			return r;
		*p = (struct dw_page){.sec_id = s->id, .len = (uint32_t)len, .no = no};
	}
	*ret = d->page_bytes + i * DW_PAGE_BYTES;
	*ret_len = p->len;
	return 0;
}

void dw_pages_drop(struct dw_file *d)
{
	drop_all_windows(d);
	dw_dealloc(d, d->page_bytes, d->n_pages * DW_PAGE_BYTES);
	dw_dealloc(d, d->pages, d->n_pages * sizeof(*d->pages));
	d->page_bytes = NULL;
	d->pages = NULL;
}

int dw_sec_read(struct dw_file *d, struct dw_sec *s, uint64_t off, void *buf, size_t len)
{
	uint8_t *out = buf;
	int r;

	if (off > s->size || len > s->size - off)
		return -ENODATA;
	if (s->area.compression || len > DW_PAGE_BYTES) {
		r = dw_steps(d, len / DW_STEP_BYTES);
		if (r < 0)
			return r;
	}
	if (s->area.compression)
		return read_packed(d, s, off, buf, len);
	if (len > DW_PAGE_BYTES)
		return img_area_read(s->img, &s->area, off, buf, len);
	while (len > 0) {
		const uint8_t *page = NULL;
		size_t skip = (size_t)(off % DW_PAGE_BYTES), n = 0;

		r = page_get(d, s, off / DW_PAGE_BYTES, &page, &n);
		if (r < 0)
			return r;
		if (n <= skip)
			return -ENODATA;
		n = MIN_OF(n - skip, len);
		memcpy(out, page + skip, n);
		out += n;
		off += n;
		len -= n;
	}
	return 0;
}

int dw_sec_read_some(struct dw_file *d, struct dw_sec *s, uint64_t off, void *buf, size_t max,
                     size_t *ret_len)
{
	size_t len;
	int r;

	if (off >= s->size)
		return -ENODATA;
	len = (size_t)MIN_OF(s->size - off, (uint64_t)max);
	r = dw_sec_read(d, s, off, buf, len);
	if (r == 0)
		*ret_len = len;
	return r;
}

int dw_sec_str(struct dw_file *d, struct dw_sec *s, uint64_t off, struct sbuf *b)
{
	size_t start = b->len;
	int r = 0;

	/* Up to the end of a page at a time, since pages are cached. */
	while (r == 0 && b->len - start < DW_STRING_MAX) {
		char buf[512];
		size_t n = 0, max = DW_PAGE_BYTES - (size_t)(off % DW_PAGE_BYTES);
		const char *nul;

		r = dw_sec_read_some(d, s, off, buf, MIN_OF(max, sizeof(buf)), &n);
		if (r < 0)
			break;
		nul = memchr(buf, 0, n);
		r = sbuf_add(b, buf, nul ? (size_t)(nul - buf) : n);
		if (r == 0 && nul)
			return 0;
		off += n;
	}
	if (b->p && b->len > start) {
		b->len = start;
		b->p[start] = 0;
	}
	return r == 0 || r == -ENODATA ? -EINVAL : r;
}

int dw_span_num(struct dw_file *d, const struct dw_span *s, uint64_t off, size_t size,
                uint64_t *ret)
{
	uint64_t v = 0;
	int r;

	if (!s->sec || off > s->size || size > s->size - off || size > sizeof(v))
		return -ENODATA;
	r = dw_sec_read(d, s->sec, s->off + off, &v, size);
	if (r == 0)
		*ret = v;
	return r;
}

struct dw_span dw_span_all(struct dw_sec *s)
{
	return (struct dw_span){.sec = s, .size = s->size};
}
