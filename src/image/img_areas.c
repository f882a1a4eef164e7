/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds the parts that unwinding needs: by section names, else by PT_GNU_EH_FRAME, since section
 * headers may be stripped. Segments define what is loaded, so a section that contradicts them is
 * refused.
 */
#include <dwarf.h> /* the constants of libdw, not its functions */

#include "image/image_priv.h"

#define CHDR64_BYTES  24
#define CHDR32_BYTES  12
#define ZDEBUG_BYTES  12 /* "ZLIB", then the size, big-endian */
#define ZDEBUG_MAGIC  "ZLIB"
#define COMPRESS_ZLIB 1 /* ELFCOMPRESS_*: glibc 2.36 lacks that of zstd */
#define COMPRESS_ZSTD 2
#define HDR_BYTES     12 /* of .eh_frame_hdr: version, three encodings, a pointer of up to 8 bytes */
#define HDR_VERSION   1
/* Parts of a pointer encoding. */
#define PE_FORMAT 0x0f
#define PE_BASE   0xf0

static const char *const names[][2] = {
        [IMG_AREA_EH_FRAME_HDR] = {".eh_frame_hdr", NULL},
        [IMG_AREA_EH_FRAME] = {".eh_frame", NULL},
        [IMG_AREA_DEBUG_FRAME] = {".debug_frame", ".zdebug_frame"},
        [IMG_AREA_GOPCLNTAB] = {".gopclntab", ".data.rel.ro.gopclntab"},
        [IMG_AREA_PLT] = {".plt", NULL},
};

/* Returns whether the segments map an allocated section at its address. */
static bool agrees_with_segments(const struct img_file *f, const struct img_shdr *s)
{
	if (!(s->flags & SHF_ALLOC) || s->size == 0 || f->n_segs == 0)
		return true;
	for (size_t i = 0; i < f->n_segs; i++) {
		const struct img_segment *g = &f->segs[i];

		if (s->addr >= g->vaddr && s->addr - g->vaddr < g->file_size &&
		    s->off == g->off + (s->addr - g->vaddr))
			return true;
	}
	return false;
}

/* Reads the compression of a section whose bytes are in the file: 0, -EINVAL, errno of pread. */
static int read_packing(const struct img_file *f, bool flagged, struct img_area *a)
{
	uint8_t head[CHDR64_BYTES] = {0};
	struct cursor c = cursor_of(head, sizeof(head));
	uint32_t type, size32 = 0, skip;
	int r;

	a->header = flagged ? (f->is64 ? CHDR64_BYTES : CHDR32_BYTES) : ZDEBUG_BYTES;
	if (a->file_size < a->header)
		return -EINVAL;
	r = img_read(f, a->off, head, a->header);
	if (r < 0)
		return r == -ENODATA ? -EINVAL : r;
	if (!flagged) {
		if (memcmp(head, ZDEBUG_MAGIC, 4) != 0)
			return -EINVAL;
		a->size = 0;
		for (size_t i = 4; i < ZDEBUG_BYTES; i++)
			a->size = a->size << 8 | head[i];
		a->compression = IMG_COMPRESSED_ZLIB;
		return 0;
	}
	r = cursor_u32(&c, &type);
	if (r == 0 && f->is64) {
		r = cursor_u32(&c, &skip);
		r = r < 0 ? r : cursor_u64(&c, &a->size);
	} else if (r == 0) {
		r = cursor_u32(&c, &size32);
		a->size = size32;
	}
	if (r < 0 || (type != COMPRESS_ZLIB && type != COMPRESS_ZSTD))
		return -EINVAL;
	a->compression = type == COMPRESS_ZLIB ? IMG_COMPRESSED_ZLIB : IMG_COMPRESSED_ZSTD;
	return 0;
}

/* Finds the first section of two names (the second may be NULL): 0, -ENOENT, -ENXIO (it has no
 * bytes here), -EINVAL, -ENOMEM, errno of pread. */
static int area_of_section(struct img_file *f, const char *const wanted[2], struct img_area *ret)
{
	struct img_area a = {0};
	struct img_shdr s = {0};
	const char *name = NULL;
	int r = img_section_lookup(f, wanted, wanted[1] ? 2 : 1, &s, &name);

	if (r < 0)
		return r;
	if (s.type == SHT_NOBITS)
		return -ENXIO; /* a file of debug information: the bytes are in the image */
	if (s.off > f->size || s.size > f->size - s.off || s.addr > UINT64_MAX - s.size ||
	    !agrees_with_segments(f, &s))
		return -EINVAL;
	a.off = s.off;
	a.file_size = a.size = s.size;
	a.vaddr = s.flags & SHF_ALLOC ? s.addr : 0;
	if ((s.flags & SHF_COMPRESSED) || str_starts(name, ".z")) {
		r = read_packing(f, s.flags & SHF_COMPRESSED, &a);
		if (r < 0)
			return r;
	}
	*ret = a;
	return 0;
}

/* Sets the area from a virtual address to the end of its segment's bytes in the file. */
static int area_at(const struct img_file *f, uint64_t vaddr, struct img_area *ret)
{
	for (size_t i = 0; i < f->n_segs; i++) {
		const struct img_segment *g = &f->segs[i];
		uint64_t skip = vaddr - g->vaddr;

		if (vaddr < g->vaddr || skip >= g->file_size)
			continue;
		if (g->off > f->size || skip >= f->size - g->off)
			return -EINVAL; /* cut off */
		*ret = (struct img_area){.off = g->off + skip, .vaddr = vaddr};
		ret->file_size = MIN_OF(g->file_size - skip, f->size - ret->off);
		ret->size = ret->file_size;
		return 0;
	}
	return -EINVAL;
}

static int area_of_hdr(const struct img_file *f, struct img_area *ret)
{
	if (!f->eh_hdr.present || f->eh_hdr.size == 0)
		return -ENOENT;
	if (f->eh_hdr.off > f->size || f->eh_hdr.size > f->size - f->eh_hdr.off)
		return -EINVAL;
	*ret = (struct img_area){
	        .off = f->eh_hdr.off,
	        .vaddr = f->eh_hdr.vaddr,
	        .file_size = f->eh_hdr.size,
	        .size = f->eh_hdr.size,
	};
	return 0;
}

/* Reads the pointer to .eh_frame in its header. Source: LSB 5.0 "Exception Frames",
 * .eh_frame_hdr. */
static int eh_frame_pointer(const struct img_file *f, const struct img_area *hdr, uint64_t *ret)
{
	uint8_t head[HDR_BYTES] = {0}, enc;
	size_t len = (size_t)MIN_OF(hdr->file_size, (uint64_t)sizeof(head));
	struct cursor c = cursor_of(head, len);
	const uint64_t at = hdr->vaddr + 4;
	uint64_t u64 = 0;
	uint32_t u32 = 0;
	uint16_t u16 = 0;
	uint64_t v;
	int r = img_read(f, hdr->off, head, len);

	if (r < 0)
		return r == -ENODATA ? -EINVAL : r;
	if (len < 4 || head[0] != HDR_VERSION || cursor_skip(&c, 4) < 0)
		return -EINVAL;
	enc = head[1];
	switch (enc & PE_FORMAT) {
	case DW_EH_PE_absptr:
		r = f->is64 ? cursor_u64(&c, &u64) : cursor_u32(&c, &u32);
		v = f->is64 ? u64 : u32;
		break;
	case DW_EH_PE_udata2:
	case DW_EH_PE_sdata2:
		r = cursor_u16(&c, &u16);
		v = enc & DW_EH_PE_signed ? (uint64_t)(int64_t)(int16_t)u16 : u16;
		break;
	case DW_EH_PE_udata4:
	case DW_EH_PE_sdata4:
		r = cursor_u32(&c, &u32);
		v = enc & DW_EH_PE_signed ? (uint64_t)(int64_t)(int32_t)u32 : u32;
		break;
	case DW_EH_PE_udata8:
	case DW_EH_PE_sdata8:
		r = cursor_u64(&c, &u64);
		v = u64;
		break;
	default:
		return -EINVAL;
	}
	if (r < 0)
		return -EINVAL;
	switch (enc & PE_BASE) {
	case DW_EH_PE_absptr:
		break;
	case DW_EH_PE_pcrel:
		v += at;
		break;
	case DW_EH_PE_datarel: /* relative to the header */
		v += hdr->vaddr;
		break;
	default:
		return -EINVAL;
	}
	*ret = f->is64 ? v : (uint32_t)v;
	return 0;
}

static int eh_frame_by_hdr(const struct img_file *f, struct img_area *ret)
{
	struct img_area hdr;
	uint64_t vaddr = 0;
	int r = area_of_hdr(f, &hdr);

	if (r == 0)
		r = eh_frame_pointer(f, &hdr, &vaddr);
	return r < 0 ? r : area_at(f, vaddr, ret);
}

int img_area_find(struct img_file *f, enum img_area_kind kind, struct img_area *ret)
{
	int first, r = -ENOENT;

	switch (kind) {
	case IMG_AREA_EH_FRAME_HDR:
		first = area_of_hdr(f, ret);
		if (first < 0)
			r = area_of_section(f, names[kind], ret);
		if (r == -ENXIO)
			r = -ENOENT;
		break;
	case IMG_AREA_EH_FRAME:
		first = area_of_section(f, names[kind], ret);
		/* Without bytes in this file, the program header would lead into other sections. */
		if (first < 0 && first != -ENXIO)
			r = eh_frame_by_hdr(f, ret);
		break;
	case IMG_AREA_DEBUG_FRAME:
	case IMG_AREA_GOPCLNTAB:
	case IMG_AREA_PLT:
		first = area_of_section(f, names[kind], ret);
		break;
	default:
		return -ENOENT;
	}
	if (first == -EINVAL)
		f->bad++;
	if (first == 0 || r == 0)
		return 0;
	if (r == -EINVAL)
		f->bad++;
	if (r != -ENOENT)
		return r;
	return first == -ENXIO ? -ENOENT : first;
}

int img_section_find(struct img_file *f, const char *name, struct img_area *ret)
{
	char zname[IMG_SEC_NAME_MAX] = ".z";
	const char *wanted[2] = {name, NULL};
	int r;

	if (str_starts(name, ".debug_") && str_copy(zname + 2, sizeof(zname) - 2, name + 1) == 0)
		wanted[1] = zname;
	r = area_of_section(f, wanted, ret);
	if (r == -EINVAL)
		f->bad++;
	return r == -ENXIO ? -ENOENT : r;
}
