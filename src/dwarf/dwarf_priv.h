/* SPDX-License-Identifier: Apache-2.0 */
/*
 * dwarf, private: sections, units, abbreviations, attribute values, ranges and split units.
 *
 * Errors inside the module: -EINVAL, -ENODATA, -ERANGE (damaged), -ENOTSUP (not known), -E2BIG
 * (over a limit) and -ETIME (no step is left) skip the item that is being read; dw_note counts
 * them. Others (-ENOMEM, errno of pread) end the call.
 */
#ifndef PA_DWARF_PRIV_H
#define PA_DWARF_PRIV_H

#include <dwarf.h> /* the constants of libdw, not its functions */

#include "dwarf/dwarf.h"

/* ---- limits --------------------------------------------------------------------------------- */

#define DW_PAGE_BYTES 4096
#define DW_PAGES_MAX  512       /* pages of the cache: 2 MiB, or an eighth of the budget */
#define DW_STRING_MAX (1 << 16) /* bytes of one name; a longer one is damaged */
/* abbreviation tables that are kept; an eighth of the budget at most */
#define DW_TABLES_BYTES   (6 << 20)
#define DW_TABLE_IN_BYTES (8 << 20) /* one abbreviation table in the file */
/* names that are kept during a call; an eighth of the budget at most */
#define DW_NAMES_BYTES (8 << 20)
#define DW_CUS         32 /* units that are kept for references into them */
#define DW_DWOS        4  /* files of split units that are open at a time */
/* so many bytes read cost a step: a file may refer to them again and again */
#define DW_STEP_BYTES 32
/* so many bytes compressed or decompressed cost a step: 2 GiB cost them all */
#define DW_STEP_UNPACKED 8
#define DW_DWO_STEPS     (1 << 16) /* cost of opening a split unit's file */
#define DW_DIE_BYTES     (1 << 20) /* bytes of one entry outside of the current unit */

/* ---- sections: dw_sec.c --------------------------------------------------------------------- */

enum dw_sec_kind {
	DW_SEC_INFO,
	DW_SEC_ABBREV,
	DW_SEC_STR,
	DW_SEC_LINE,
	DW_SEC_LINE_STR,
	DW_SEC_RANGES,
	DW_SEC_RNGLISTS,
	DW_SEC_ADDR,
	DW_SEC_STR_OFFSETS,
	DW_SEC_ARANGES,
	DW_SEC_CU_INDEX,
	DW_SEC_CNT,
};

/* A section; an absent one has no bytes. A compressed one is decompressed when it is first read: as
 * a whole if it is small, else through windows, which are cheap to read in file order only. */
struct dw_sec {
	struct img_file *img; /* borrowed */
	struct img_area area;
	uint64_t size;
	uint8_t *mem; /* mem[size] once decompressed */
	struct img_windows *windows;
	size_t windows_bytes; /* memory of windows, charged to the budget */
	bool whole;           /* to be decompressed as a whole */
	uint32_t id;          /* unique among all sections of this dw_file, for the page cache */
	int failed;           /* error of decompressing it */
};

/* A part of a section: all of it, or the part that belongs to one unit of a package. */
struct dw_span {
	struct dw_sec *sec;
	uint64_t off, size; /* inside sec->size */
};

/* A file with sections: the opened one, dwz's common file, a split unit's file, a package. */
struct dw_src {
	struct img_file *img; /* borrowed; the dw_src's if fd is */
	int fd;               /* the dw_src's, or -EBADF */
	bool ready;           /* sections were searched for */
	bool units_ready;
	int units_failed;
	struct dw_sec secs[DW_SEC_CNT];
	VEC(uint64_t) units; /* offsets of unit headers in .debug_info, ascending */
};

struct dw_page {
	uint32_t sec_id; /* 0: empty */
	uint32_t len;
	uint64_t no;
};

/* Returns whether an error skips only the item that is being read. */
static inline bool dw_is_local(int r)
{
	return r == -EINVAL || r == -ENODATA || r == -ERANGE || r == -ENOTSUP || r == -E2BIG ||
	       r == -ENOENT || r == -ETIME;
}
/* Counts such an error and returns 0; returns others. */
int dw_note(struct dw_file *d, int r);
/* Charges memory to the budget: 0, -E2BIG. */
int dw_charge(struct dw_file *d, size_t n);
void dw_release(struct dw_file *d, size_t n);
/* calloc and free within the budget: 0, -E2BIG, -ENOMEM. @n must be the same for both. */
int dw_alloc(struct dw_file *d, size_t n, void *ret_p);
void dw_dealloc(struct dw_file *d, void *p, size_t n);
/* Reserves room for one more element of a vector, within the budget, or frees it: 0, -E2BIG,
 * -ENOMEM. */
int dw_grow_(struct dw_file *d, void *pp, size_t *cap, size_t n, size_t max, size_t item_size);
#define dw_vec_reserve(d, v) dw_grow_((d), &(v)->p, &(v)->cap, (v)->n, (v)->max, sizeof(*(v)->p))
#define dw_vec_done(d, v)                                                                          \
	do {                                                                                       \
		dw_release((d), (v)->cap * sizeof(*(v)->p));                                       \
		vec_done(v);                                                                       \
	} while (0)

/* Finds the sections of src->img: 0, -ENOMEM, errno of pread. */
int dw_src_open(struct dw_file *d, struct dw_src *src, bool dwo);
void dw_src_done(struct dw_file *d, struct dw_src *src);
/* Frees page cache and windows: between calls a file holds its index only. */
void dw_pages_drop(struct dw_file *d);
/* Reads bytes of a section, through the page cache: 0, -ENODATA, or the error of decompressing or
 * pread. */
int dw_sec_read(struct dw_file *d, struct dw_sec *s, uint64_t off, void *buf, size_t len);
/* The same for at most @max bytes, and fewer at the end of the section. */
int dw_sec_read_some(struct dw_file *d, struct dw_sec *s, uint64_t off, void *buf, size_t max,
                     size_t *ret_len);
/* Appends the string at @off: 0, -EINVAL (outside, or without end), -ENOMEM, -E2BIG, errno. */
int dw_sec_str(struct dw_file *d, struct dw_sec *s, uint64_t off, struct sbuf *b);
/* Reads a little-endian number of @size bytes, 1 to 8, at @off of a span: 0, -ENODATA, errno. */
int dw_span_num(struct dw_file *d, const struct dw_span *s, uint64_t off, size_t size,
                uint64_t *ret);
struct dw_span dw_span_all(struct dw_sec *s);
/* Returns whether a section is slow to read except in file order. */
static inline bool dw_is_slow(const struct dw_sec *s)
{
	return s->area.compression && !s->whole;
}
/* Returns whether a section has bytes. */
static inline bool dw_has(const struct dw_src *src, enum dw_sec_kind k)
{
	return src->secs[k].size > 0;
}

/* ---- abbreviations: dw_abbrev.c ------------------------------------------------------------- */

/* Attributes that are used. DW_V_NONE: skipped. */
enum dw_slot {
	DW_V_NONE,
	DW_V_SIBLING,
	DW_V_NAME,
	DW_V_LINKAGE,
	DW_V_LOW,
	DW_V_HIGH,
	DW_V_RANGES,
	DW_V_ORIGIN,
	DW_V_SPEC,
	DW_V_DECL_LINE,
	DW_V_CALL_FILE,
	DW_V_CALL_LINE,
	DW_V_CALL_COLUMN,
	/* of a unit's own entry */
	DW_V_STMT_LIST,
	DW_V_COMP_DIR,
	DW_V_DWO_NAME,
	DW_V_DWO_ID,
	DW_V_ADDR_BASE,
	DW_V_STR_BASE,
	DW_V_RNG_BASE,
	DW_V_GNU_RANGES_BASE,
	DW_V_CNT,
};
#define DW_BIT(slot) (1u << (slot))

/* How the walk treats an entry. */
enum dw_class {
	DW_CLASS_OPEN,  /* namespaces and unknown tags: its children are read */
	DW_CLASS_TYPE,  /* types, which hold functions in rare languages: skipped at first */
	DW_CLASS_LEAF,  /* no code below it */
	DW_CLASS_BLOCK, /* lexical block */
	DW_CLASS_INLINED,
	DW_CLASS_FUNCTION,
};

struct dw_attr {
	uint16_t form;
	uint8_t slot;
	int64_t value; /* value of DW_FORM_implicit_const */
};

/* How the bytes of an entry are skipped: a number of fixed bytes, or one of these. */
enum dw_skip {
	DW_SKIP_FIXED_MAX = 0xff00,
	DW_SKIP_LEB,
	DW_SKIP_STRING,
	DW_SKIP_BLOCK1,
	DW_SKIP_BLOCK2,
	DW_SKIP_BLOCK4,
	DW_SKIP_BLOCK,
	DW_SKIP_INDIRECT,
	DW_SKIP_UNKNOWN,
};

#define DW_NO_SIBLING 0xff
struct dw_decl {
	uint64_t code;
	uint32_t attrs, skips; /* index of its first one in the table */
	uint16_t n_attrs, n_skips;
	uint16_t tag;
	uint8_t class; /* enum dw_class */
	bool children;
	/* offset of DW_AT_sibling, if only fixed bytes precede it; DW_NO_SIBLING */
	uint8_t sibling_at;
	uint8_t sibling_size; /* of its DW_FORM_ref1 … ref8 */
	uint32_t slots;       /* DW_BIT of its attributes */
};

/* Sizes of forms that depend on the unit. */
struct dw_sizes {
	uint8_t address, offset, ref_addr;
};

struct dw_abbrevs {
	const struct dw_sec *sec;
	uint64_t off;
	struct dw_sizes sizes;
	uint32_t refs;
	uint64_t used; /* time of the last use */
	size_t bytes;
	bool dense; /* decls[i].code == i + 1 */
	VEC(struct dw_decl) decls;
	VEC(struct dw_attr) attrs;
	VEC(uint16_t) skips;
};

/* Gets the table at @off of a span: 0, -EINVAL, -ENODATA, -E2BIG, -ENOMEM, errno. It is kept while
 * it is referred to, and after that while there is room. */
int dw_abbrevs_get(struct dw_file *d, const struct dw_span *span, uint64_t off,
                   struct dw_sizes sizes, struct dw_abbrevs **ret);
/* Reads a single declaration, which is not kept. */
int dw_abbrevs_one(struct dw_file *d, const struct dw_span *span, uint64_t off,
                   struct dw_sizes sizes, uint64_t code, struct dw_abbrevs **ret);
void dw_abbrevs_put(struct dw_file *d, struct dw_abbrevs *a);
void dw_abbrevs_drop_all(struct dw_file *d);
/* Drops the tables of a section that is being closed; nothing may refer to them. */
void dw_abbrevs_drop_sec(struct dw_file *d, const struct dw_sec *sec);
const struct dw_decl *dw_abbrevs_search(const struct dw_abbrevs *a, uint64_t code);

static inline const struct dw_decl *dw_abbrevs_find(const struct dw_abbrevs *a, uint64_t code)
{
	if (a->dense)
		return code - 1 < a->decls.n ? &a->decls.p[code - 1] : NULL;
	return dw_abbrevs_search(a, code);
}

/* Cursor readers for the loop over all entries, in which calls would cost more than the work. */
static inline int dw_next_u8(struct cursor *c, uint8_t *ret)
{
	if (c->p == c->end)
		return -ENODATA;
	*ret = *c->p++;
	return 0;
}
static inline int dw_next_uleb(struct cursor *c, uint64_t *ret)
{
	if (c->p != c->end && *c->p < 0x80) {
		*ret = *c->p++;
		return 0;
	}
	return cursor_uleb(c, ret);
}
static inline int dw_next_skip(struct cursor *c, uint64_t n)
{
	if ((uint64_t)(c->end - c->p) < n)
		return -ENODATA;
	c->p += n;
	return 0;
}
/* Reads a little-endian number of @n bytes, 1 to 8. */
static inline int dw_next_num(struct cursor *c, size_t n, uint64_t *ret)
{
	uint64_t v = 0;
	int r = cursor_bytes(c, &v, n);

	if (r == 0)
		*ret = v;
	return r;
}
/* Skips the attributes of an entry. */
int dw_skip_attrs(const struct dw_abbrevs *a, const struct dw_decl *decl, struct cursor *c);

/* ---- entries and attribute values: dw_form.c, dw_value.c ------------------------------------- */

struct dw_val {
	uint16_t form;
	uint64_t u;
	struct cursor data; /* of blocks, and of strings without their NUL */
};

/* An entry with the attributes that were asked for. */
struct dw_die {
	const struct dw_decl *decl;
	uint32_t has; /* DW_BIT of v[] */
	struct dw_val v[DW_V_CNT];
};

/* Offsets and addresses that a unit's values are relative to. */
struct dw_bases {
	uint64_t addr, str, rnglist; /* first element of its table in the section */
	uint64_t ranges;             /* DW_AT_ranges of a split unit of version 4 */
	uint64_t split_ranges;       /* in a skeleton: ranges of its split unit */
	uint64_t low_pc;             /* entries of its range lists */
};

/* A unit: its position in the file, and what its values refer to. */
struct dw_cu {
	struct dw_src *src;
	uint64_t off, end, die_off; /* in .debug_info: header, end, first entry */
	uint16_t version;
	uint8_t unit_type; /* DW_UT_*; before version 5 DW_UT_compile */
	struct dw_sizes sizes;
	uint64_t abbrev_off;
	uint64_t dwo_id; /* 0: none */
	struct dw_abbrevs *abbrevs;
	uint8_t *bytes; /* the whole unit from .off on: bytes[end - off]; NULL: read by pages */
	/* The package's parts for this unit, or whole sections. */
	struct dw_span abbrev_span, str_offsets, rnglists, line;
	struct dw_span ranges, addrs; /* of a split unit: its skeleton's */
	struct dw_bases base;
	/* of its own entry */
	uint16_t tag;
	bool has_stmt_list;
	uint64_t stmt_list;
	struct dw_val ranges_val, low_val, high_val;
	uint32_t has;
	char *name, *comp_dir, *dwo_name; /* the unit's; NULL: none */
};

/* Returns the number of bytes of a form, or -(enum dw_skip). */
int dw_form_size(struct dw_sizes sizes, uint16_t form);
int dw_form_read(struct dw_sizes sizes, struct cursor *c, uint16_t form, int64_t implicit,
                 struct dw_val *ret);
/* Reads the attributes in @want of the entry whose attributes begin at @c, and leaves @c after the
 * last attribute. 0, -EINVAL, -ENODATA, -ENOTSUP. */
int dw_die_read(const struct dw_cu *cu, struct cursor *c, const struct dw_decl *decl, uint32_t want,
                struct dw_die *ret);
/* Reads the entry at @off of .debug_info, inside @cu. Its strings live until the next call. */
int dw_die_at(struct dw_file *d, const struct dw_cu *cu, uint64_t off, uint32_t want,
              struct dw_die *ret);
/* Convert values: 0, -EINVAL (of another class, or outside), -ENODATA, -ENOTSUP, errno. */
int dw_val_addr(struct dw_file *d, const struct dw_cu *cu, const struct dw_val *v, uint64_t *ret);
int dw_val_str(struct dw_file *d, const struct dw_cu *cu, const struct dw_val *v, struct sbuf *b);
/* Finds a string that is not in the entry itself: 0, -ENOENT (it is in the entry, or its file is
 * missing), else as above. */
int dw_val_str_at(struct dw_file *d, const struct dw_cu *cu, const struct dw_val *v,
                  struct dw_sec **ret_sec, uint64_t *ret_off);
int dw_val_num(const struct dw_val *v, uint64_t *ret);
/* Finds the target of a reference. -ENOENT: a type unit, or the file is missing. */
int dw_val_ref(struct dw_file *d, const struct dw_cu *cu, const struct dw_val *v,
               struct dw_src **ret_src, uint64_t *ret_off);
int dw_str_offset(struct dw_file *d, const struct dw_cu *cu, uint64_t index, uint64_t *ret);
int dw_addr_at(struct dw_file *d, const struct dw_cu *cu, uint64_t index, uint64_t *ret);

/* ---- ranges: dw_range.c --------------------------------------------------------------------- */

/* A list of ranges, or one range. */
struct dw_ranges {
	const struct dw_cu *cu;
	struct dw_span span;
	uint64_t at, base;
	enum { DW_RANGES_NONE, DW_RANGES_ONE, DW_RANGES_OLD, DW_RANGES_NEW } kind;
	uint64_t lo, hi; /* of DW_RANGES_ONE */
	size_t pos, len;
	uint8_t buf[128];
};
/* Opens the ranges of an entry with DW_V_LOW, DW_V_HIGH or DW_V_RANGES: 0, -ENOENT (it has none),
 * or as for values. */
int dw_ranges_of(struct dw_file *d, const struct dw_cu *cu, const struct dw_die *die,
                 struct dw_ranges *ret);
/* Returns the next range that is not empty and not of code that the linker discarded: 1, 0 (end),
 * -errno. */
int dw_ranges_next(struct dw_file *d, struct dw_ranges *r, uint64_t *ret_lo, uint64_t *ret_hi);

/* ---- units: dw_unit.c ----------------------------------------------------------------------- */

struct dw_arange {
	uint64_t lo, hi;
	uint32_t unit; /* index in src->units */
};
#define DW_NO_UNIT UINT32_MAX

/* Reads length and format of the unit at @off of a section: 0, -ENODATA (cut off), -EINVAL,
 * errno. */
int dw_read_length(struct dw_file *d, struct dw_sec *s, uint64_t off, uint64_t *ret_end,
                   uint8_t *ret_offset_size);
/* Reads the offsets of all units of @src, once. */
int dw_units_read(struct dw_file *d, struct dw_src *src);
/* The same, and calls @fn (which may be NULL) when a unit's header is read. A negative result of
 * @fn ends the walk, and is returned. */
int dw_units_walk(struct dw_file *d, struct dw_src *src, int (*fn)(void *arg, uint32_t unit),
                  void *arg);
/* Returns the index of the unit that holds @off of .debug_info, or DW_NO_UNIT. */
uint32_t dw_units_find(const struct dw_src *src, uint64_t off);
/* Opens the unit at @off: header, abbreviations, and its own entry. The caller has set @cu->src,
 * and the spans of a split unit. */
enum dw_cu_use {
	DW_CU_RANGES, /* for its own entry: no other abbreviations, no names */
	DW_CU_REFS,   /* for references into it: no names of its own */
	DW_CU_WORK,
};
int dw_cu_open(struct dw_file *d, struct dw_cu *cu, uint64_t off, enum dw_cu_use use);
void dw_cu_init(struct dw_cu *cu, struct dw_src *src);
void dw_cu_done(struct dw_file *d, struct dw_cu *cu);
/* Reads all bytes of a unit: 0, -E2BIG, -ENOMEM, errno. */
int dw_cu_load(struct dw_file *d, struct dw_cu *cu);
/* Gets the unit that holds @off of .debug_info of @src, for references; borrowed until the next
 * call. */
int dw_cu_at(struct dw_file *d, struct dw_src *src, uint64_t off, struct dw_cu **ret);
void dw_cus_drop(struct dw_file *d);
/* The ranges of all units, for look-up. */
int dw_index_build(struct dw_file *d);
uint32_t dw_index_find(const struct dw_file *d, uint64_t addr);

/* ---- functions of a unit: dw_tree.c --------------------------------------------------------- */

#define DW_NO_NODE UINT32_MAX

/* A function or an inlined call that has a wanted address. */
struct dw_node {
	uint64_t off;    /* of its entry in .debug_info */
	uint32_t parent; /* node that it was inlined into; DW_NO_NODE: a function */
	uint32_t call_line, call_column;
	uint32_t name; /* set by dw_names.c: 0, or 1 + index of its name */
	uint64_t call_file;
	bool inlined;
};

struct dw_scope;
struct dw_tree {
	struct dw_file *d;
	const struct dw_cu *cu;
	const uint64_t *addrs; /* addrs[n], ascending */
	size_t n;
	uint32_t *leaf;       /* leaf[n]: innermost node, DW_NO_NODE */
	uint32_t *first_leaf; /* leaf of the first walk, during the second */
	/* [n]: bounds of neighbouring functions, see dw_tree_read */
	uint64_t *prev_end, *next_start;
	struct dw_scope *scopes; /* scopes[DW_DEPTH_MAX + 1] */
	VEC(struct dw_node) nodes;
};

/* Allocates for at most @max addresses of a unit. */
int dw_tree_init(struct dw_tree *t, struct dw_file *d, size_t max);
void dw_tree_done(struct dw_tree *t, size_t max);
/* Finds the nodes of addrs[n] in a loaded unit: 0, -errno. Nodes found before the damage are
 * kept. */
int dw_tree_read(struct dw_tree *t, const struct dw_cu *cu, const uint64_t *addrs, size_t n);

/* ---- split units: dw_split.c ---------------------------------------------------------------- */

/* Opens the split unit of a skeleton: 0 (@ret is opened, for dw_cu_done), -ENOENT (it has none, or
 * it was not found: counted), errno. */
int dw_split_open(struct dw_file *d, const struct dw_cu *skeleton, struct dw_cu *ret);
/* Closes the files of split units. */
void dw_split_done(struct dw_file *d);

/* ---- the file ------------------------------------------------------------------------------- */

struct dw_file {
	struct dw_options o;
	size_t max_bytes, bytes, names_bytes;
	size_t whole_bytes; /* size of compressed sections that are to be decompressed as a whole */
	uint64_t steps;     /* left for this call */
	struct dw_stats stats;
	uint32_t next_sec_id;
	struct dw_src main, alt;
	/* split units */
	struct dw_src dwp;
	struct dw_src *dwos[DW_DWOS];
	char *dwo_paths[DW_DWOS]; /* directory, newline, name */
	uint64_t dwo_used[DW_DWOS];
	uint64_t clock;
	/* caches */
	struct dw_page *pages; /* pages[n_pages] */
	uint8_t *page_bytes;   /* page_bytes[n_pages * DW_PAGE_BYTES] */
	size_t n_pages;
	VEC(struct dw_abbrevs *) tables;
	size_t tables_bytes, tables_max;
	struct dw_cu *cus; /* cus[DW_CUS] */
	uint8_t *die_buf;  /* used by dw_die_at */
	size_t die_cap;
	/* ranges of main's units, ascending, disjoint */
	VEC(struct dw_arange) ranges;
};

/* Charges steps to the budget: 0, -ETIME. */
static inline int dw_steps(struct dw_file *d, uint64_t n)
{
	if (d->steps < n) {
		d->steps = 0;
		return -ETIME;
	}
	d->steps -= n;
	return 0;
}
static inline int dw_step(struct dw_file *d)
{
	if (d->steps == 0)
		return -ETIME;
	d->steps--;
	return 0;
}

#endif
