/* SPDX-License-Identifier: Apache-2.0 */
/*
 * dwarf-builder - .debug_info and what belongs to it, entry by entry
 * db_init; db_unit; entries by db_die, the children of one until db_up; db_unit_end; db_file. Each
 * entry has an abbreviation of its own; all units share one table.
 */
#ifndef PA_TEST_DWARF_BUILDER_H
#define PA_TEST_DWARF_BUILDER_H

#include <zlib.h>
#include <zstd.h>

#include "dwarf/dwarf_priv.h"
#include "elf_sections.h"

#define DB_CODE 0x401000 /* address of the functions of the tests */

struct db_attr {
	uint16_t at, form;
	uint64_t u;    /* value; length of @s where it is a block */
	const char *s; /* bytes of a block, or a string */
};
#define DB_ATTRS(...)                                                                              \
	((const struct db_attr[]){__VA_ARGS__}),                                                   \
	        sizeof((const struct db_attr[]){__VA_ARGS__}) / sizeof(struct db_attr)

struct db {
	uint16_t version; /* 0: 4 */
	bool is64;
	uint8_t address_size; /* 0: 8 */
	bool dwo;             /* names of sections end in .dwo */
	uint8_t compression;  /* IMG_COMPRESSED_* of all sections */
	struct sbuf secs[DW_SEC_CNT];
	uint64_t codes;
	size_t unit; /* offset of the unit's length */
	struct sbuf file;
};

static inline struct sbuf *db_sec(struct db *b, enum dw_sec_kind k)
{
	return &b->secs[k];
}

static inline void db_num(struct sbuf *s, uint64_t v, size_t n)
{
	const uint64_t wide[2] = {v, 0};

	(void)sbuf_add(s, wide, n); /* .err is looked at in db_file */
}

static inline void db_uleb(struct sbuf *s, uint64_t v)
{
	do {
		db_num(s, (v & 0x7f) | (v > 0x7f ? 0x80 : 0), 1);
		v >>= 7;
	} while (v);
}

static inline void db_sleb(struct sbuf *s, int64_t v)
{
	bool more = true;

	while (more) {
		uint8_t byte = v & 0x7f;

		v >>= 7;
		more = !((v == 0 && !(byte & 0x40)) || (v == -1 && (byte & 0x40)));
		db_num(s, (uint64_t)(byte | (more ? 0x80 : 0)), 1);
	}
}

static inline void db_init(struct db *b)
{
	b->version = b->version ? b->version : 4;
	b->address_size = b->address_size ? b->address_size : 8;
	for (size_t i = 0; i < DW_SEC_CNT; i++)
		sbuf_init(&b->secs[i], 1 << 24);
	sbuf_init(&b->file, 1 << 26);
}

static inline void db_done(struct db *b)
{
	for (size_t i = 0; i < DW_SEC_CNT; i++)
		sbuf_done(&b->secs[i]);
	sbuf_done(&b->file);
}

static inline struct dw_sizes db_sizes(const struct db *b)
{
	uint8_t off = b->is64 ? 8 : 4;

	return (struct dw_sizes){b->address_size, off, b->version == 2 ? b->address_size : off};
}

/* A string of .debug_str; its offset. */
static inline uint64_t db_str(struct db *b, enum dw_sec_kind k, const char *s)
{
	uint64_t off = b->secs[k].len;

	(void)sbuf_add(&b->secs[k], s, strlen(s) + 1);
	return off;
}

static inline uint64_t db_unit(struct db *b, uint8_t type, uint64_t dwo_id)
{
	struct sbuf *s = &b->secs[DW_SEC_INFO];
	uint64_t off = s->len;

	if (b->is64)
		db_num(s, UINT32_MAX, 4);
	b->unit = s->len;
	db_num(s, 0, b->is64 ? 8 : 4);
	db_num(s, b->version, 2);
	if (b->version >= 5) {
		db_num(s, type, 1);
		db_num(s, b->address_size, 1);
	}
	db_num(s, 0, b->is64 ? 8 : 4); /* abbreviations */
	if (b->version < 5)
		db_num(s, b->address_size, 1);
	else if (type == DW_UT_skeleton || type == DW_UT_split_compile)
		db_num(s, dwo_id, 8);
	return off;
}

static inline void db_value(struct db *b, const struct db_attr *a)
{
	struct sbuf *s = &b->secs[DW_SEC_INFO];
	int size = dw_form_size(db_sizes(b), a->form);
	struct db_attr inner = *a;

	if (size >= 0) {
		db_num(s, a->u, (size_t)size);
		return;
	}
	switch ((int)-size) {
	case DW_SKIP_LEB:
		if (a->form == DW_FORM_sdata)
			db_sleb(s, (int64_t)a->u);
		else
			db_uleb(s, a->u);
		break;
	case DW_SKIP_STRING:
		(void)sbuf_add(s, a->s, strlen(a->s) + 1);
		break;
	case DW_SKIP_BLOCK1:
	case DW_SKIP_BLOCK2:
	case DW_SKIP_BLOCK4:
		db_num(s, a->u, (size_t)1 << (-size - DW_SKIP_BLOCK1));
		(void)sbuf_add(s, a->s, a->u);
		break;
	case DW_SKIP_BLOCK:
		db_uleb(s, a->u);
		(void)sbuf_add(s, a->s, a->u);
		break;
	case DW_SKIP_INDIRECT: /* of data2 */
		db_uleb(s, DW_FORM_data2);
		inner.form = DW_FORM_data2;
		db_value(b, &inner);
		break;
	default: /* a form that is not known has no bytes */
		break;
	}
}

/* An entry; its offset in .debug_info. */
static inline uint64_t db_die(struct db *b, uint16_t tag, bool children, const struct db_attr *a,
                              size_t n)
{
	struct sbuf *s = &b->secs[DW_SEC_ABBREV];
	uint64_t off = b->secs[DW_SEC_INFO].len;

	db_uleb(s, ++b->codes);
	db_uleb(s, tag);
	db_num(s, children, 1);
	for (size_t i = 0; i < n; i++) {
		db_uleb(s, a[i].at);
		db_uleb(s, a[i].form);
		if (a[i].form == DW_FORM_implicit_const)
			db_sleb(s, (int64_t)a[i].u);
	}
	db_num(s, 0, 2);
	db_uleb(&b->secs[DW_SEC_INFO], b->codes);
	for (size_t i = 0; i < n; i++)
		db_value(b, &a[i]);
	return off;
}

static inline void db_up(struct db *b)
{
	db_num(&b->secs[DW_SEC_INFO], 0, 1);
}

static inline void db_unit_end(struct db *b)
{
	struct sbuf *s = &b->secs[DW_SEC_INFO];
	size_t n = b->is64 ? 8 : 4;
	uint64_t len = s->len - b->unit - n;

	memcpy(s->p + b->unit, &len, n);
}

/* Overwrites @n bytes that were written before. */
static inline void db_patch(struct db *b, enum dw_sec_kind k, uint64_t at, uint64_t v, size_t n)
{
	assert(at + n <= b->secs[k].len);
	memcpy(b->secs[k].p + at, &v, n);
}

/* The bytes of a section as they are in a file. */
static inline void db_pack(const struct db *b, const struct sbuf *in, struct sbuf *out)
{
	const uint64_t chdr[3] = {b->compression, in->len, 1};
	uLongf n = compressBound(in->len);
	size_t z, cap = MAX_OF((size_t)n, ZSTD_compressBound(in->len));
	uint8_t *buf = malloc(cap);

	assert(buf);
	sbuf_init(out, 1 << 26);
	assert(sbuf_add(out, chdr, sizeof(chdr)) == 0);
	n = (uLongf)cap;
	if (b->compression == IMG_COMPRESSED_ZLIB) {
		assert(compress(buf, &n, (const Bytef *)in->p, in->len) == Z_OK);
		z = n;
	} else {
		z = ZSTD_compress(buf, cap, in->p, in->len, 3);
		assert(!ZSTD_isError(z));
	}
	assert(sbuf_add(out, buf, z) == 0);
	free(buf);
}

/* The ELF file, over memory that db_done frees. */
static inline struct img_file *db_file(struct db *b)
{
	static const char *const names[DW_SEC_CNT] = {
	        ".debug_info",        ".debug_abbrev",  ".debug_str",      ".debug_line",
	        ".debug_line_str",    ".debug_ranges",  ".debug_rnglists", ".debug_addr",
	        ".debug_str_offsets", ".debug_aranges", ".debug_cu_index"};
	struct es_sec secs[DW_SEC_CNT + 1] = {0};
	struct sbuf packed[DW_SEC_CNT] = {0};
	char full[DW_SEC_CNT][32];
	struct img_file *f = NULL;
	size_t n = 0;

	secs[n++] = (struct es_sec){.name = ".text", .len = 16, .flags = SHF_ALLOC | SHF_EXECINSTR};
	db_num(&b->secs[DW_SEC_ABBREV], 0, 1);
	for (size_t i = 0; i < DW_SEC_CNT; i++) {
		bool dwo = b->dwo && i != DW_SEC_CU_INDEX;

		assert(!b->secs[i].err);
		if (b->secs[i].len == 0 || (i == DW_SEC_ABBREV && b->secs[i].len == 1))
			continue;
		(void)str_copy(full[i], sizeof(full[i]) - 4, names[i]);
		if (dwo)
			memcpy(full[i] + strlen(full[i]), ".dwo", 5);
		secs[n++] = (struct es_sec){
		        .name = full[i], .bytes = b->secs[i].p, .len = b->secs[i].len};
		if (b->compression) {
			db_pack(b, &b->secs[i], &packed[i]);
			secs[n - 1].bytes = packed[i].p;
			secs[n - 1].len = packed[i].len;
			secs[n - 1].flags = SHF_COMPRESSED;
		}
	}
	es_build(false, secs, n, &b->file, NULL);
	for (size_t i = 0; b->compression && i < DW_SEC_CNT; i++)
		sbuf_done(&packed[i]);
	assert(img_file_open_mem(b->file.p, b->file.len, &f, NULL) == 0);
	return f;
}

#endif
