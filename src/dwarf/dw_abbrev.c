/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Abbreviation tables, prepared for skipping entries. Most entries of a unit are types, variables
 * and calls that are not needed, and skipping them takes most of the time.
 */
#include "dwarf/dwarf_priv.h"

#define IN_BYTES       (16 * 1024) /* compilers' tables have some 2 to 20 KiB */
#define DECLS_MAX      (1 << 16)   /* tables of dwz and LTO have thousands */
#define ATTRS_MAX      (1 << 19)
#define DECL_ATTRS_MAX 4096

static const struct {
	uint16_t at;
	uint8_t slot;
} slots[] = {
        {DW_AT_sibling, DW_V_SIBLING},
        {DW_AT_name, DW_V_NAME},
        {DW_AT_stmt_list, DW_V_STMT_LIST},
        {DW_AT_low_pc, DW_V_LOW},
        {DW_AT_high_pc, DW_V_HIGH},
        {DW_AT_comp_dir, DW_V_COMP_DIR},
        {DW_AT_abstract_origin, DW_V_ORIGIN},
        {DW_AT_decl_line, DW_V_DECL_LINE},
        {DW_AT_specification, DW_V_SPEC},
        {DW_AT_ranges, DW_V_RANGES},
        {DW_AT_call_column, DW_V_CALL_COLUMN},
        {DW_AT_call_file, DW_V_CALL_FILE},
        {DW_AT_call_line, DW_V_CALL_LINE},
        {DW_AT_linkage_name, DW_V_LINKAGE},
        {DW_AT_MIPS_linkage_name, DW_V_LINKAGE},
        {DW_AT_str_offsets_base, DW_V_STR_BASE},
        {DW_AT_addr_base, DW_V_ADDR_BASE},
        {DW_AT_GNU_addr_base, DW_V_ADDR_BASE},
        {DW_AT_rnglists_base, DW_V_RNG_BASE},
        {DW_AT_dwo_name, DW_V_DWO_NAME},
        {DW_AT_GNU_dwo_name, DW_V_DWO_NAME},
        {DW_AT_GNU_dwo_id, DW_V_DWO_ID},
        {DW_AT_GNU_ranges_base, DW_V_GNU_RANGES_BASE},
};

static uint8_t slot_of(uint64_t at)
{
	for (size_t i = 0; i < ARRAY_SIZE(slots); i++) {
		if (slots[i].at == at)
			return slots[i].slot;
	}
	return DW_V_NONE;
}

static uint8_t class_of(uint64_t tag)
{
	switch (tag) {
	case DW_TAG_subprogram:
		return DW_CLASS_FUNCTION;
	case DW_TAG_inlined_subroutine:
		return DW_CLASS_INLINED;
	case DW_TAG_lexical_block:
		return DW_CLASS_BLOCK;
	case DW_TAG_class_type:
	case DW_TAG_structure_type:
	case DW_TAG_union_type:
	case DW_TAG_interface_type:
		return DW_CLASS_TYPE;
	case DW_TAG_array_type:
	case DW_TAG_enumeration_type:
	case DW_TAG_formal_parameter:
	case DW_TAG_member:
	case DW_TAG_pointer_type:
	case DW_TAG_subroutine_type:
	case DW_TAG_typedef:
	case DW_TAG_base_type:
	case DW_TAG_variable:
	case DW_TAG_call_site:
	case DW_TAG_GNU_call_site:
		return DW_CLASS_LEAF;
	default:
		return DW_CLASS_OPEN;
	}
}

/* Adds how to skip a value of @size (of dw_form_size) after the others of @decl. */
static int add_skip(struct dw_abbrevs *a, struct dw_decl *decl, int size)
{
	uint16_t *last = decl->n_skips && a->skips.p ? &a->skips.p[a->skips.n - 1] : NULL;
	uint16_t op = size < 0 ? (uint16_t)-size : (uint16_t)size;

	if (size == 0)
		return 0;
	if (size > 0 && last && *last < DW_SKIP_FIXED_MAX - size) {
		*last = (uint16_t)(*last + size);
		return 0;
	}
	if (decl->n_skips == UINT16_MAX)
		return -E2BIG;
	decl->n_skips++;
	return vec_push(&a->skips, op);
}

static void note_sibling(const struct dw_abbrevs *a, struct dw_decl *decl, uint16_t form)
{
	uint16_t before = decl->n_skips && a->skips.p ? a->skips.p[a->skips.n - 1] : 0;

	if (decl->n_skips > 1 || before >= DW_NO_SIBLING || form < DW_FORM_ref1 ||
	    form > DW_FORM_ref8)
		return;
	decl->sibling_at = (uint8_t)before;
	decl->sibling_size = (uint8_t)(1u << (form - DW_FORM_ref1));
}

static int read_attr(struct dw_abbrevs *a, struct dw_decl *decl, struct cursor *c, bool *ret_end)
{
	uint64_t at = 0, form = 0;
	struct dw_attr attr = {0};
	int r;

	r = cursor_uleb(c, &at);
	r = r < 0 ? r : cursor_uleb(c, &form);
	if (r == 0 && form == DW_FORM_implicit_const)
		r = cursor_sleb(c, &attr.value);
	if (r < 0)
		return r;
	*ret_end = at == 0 && form == 0;
	if (*ret_end)
		return 0;
	if (decl->n_attrs == DECL_ATTRS_MAX)
		return -E2BIG;
	attr.form = form > UINT16_MAX ? UINT16_MAX : (uint16_t)form;
	attr.slot = slot_of(at);
	if (attr.slot == DW_V_SIBLING)
		note_sibling(a, decl, attr.form);
	decl->slots |= DW_BIT(attr.slot);
	r = add_skip(a, decl, dw_form_size(a->sizes, attr.form));
	decl->n_attrs++;
	return r < 0 ? r : vec_push(&a->attrs, attr);
}

/* Reads all declarations, or only that of @only unless it is 0. Returns 1 (that was read), 0 (all
 * were). */
static int read_decls(struct dw_abbrevs *a, struct cursor c, uint64_t only)
{
	a->dense = true;
	for (;;) {
		struct dw_decl decl = {.sibling_at = DW_NO_SIBLING};
		size_t skips = a->skips.n, attrs = a->attrs.n;
		uint64_t tag = 0;
		uint8_t children = 0;
		bool end = false;
		int r;

		r = cursor_uleb(&c, &decl.code);
		if (r < 0 || decl.code == 0)
			return r;
		r = cursor_uleb(&c, &tag);
		r = r < 0 ? r : cursor_u8(&c, &children);
		if (r < 0)
			return r;
		decl.tag = tag > UINT16_MAX ? UINT16_MAX : (uint16_t)tag;
		decl.class = class_of(tag);
		decl.children = children != 0;
		decl.attrs = (uint32_t)attrs;
		decl.skips = (uint32_t)skips;
		while (r == 0 && !end)
			r = read_attr(a, &decl, &c, &end);
		if (r < 0)
			return r;
		if (only && decl.code != only) {
			a->skips.n = skips;
			a->attrs.n = attrs;
			continue;
		}
		a->dense &= decl.code == a->decls.n + 1;
		r = vec_push(&a->decls, decl);
		if (r < 0 || only)
			return r < 0 ? r : 1;
	}
}

static int by_code(const void *pa, const void *pb)
{
	const struct dw_decl *a = pa, *b = pb;

	if (a->code != b->code)
		return a->code < b->code ? -1 : 1;
	return (a->attrs > b->attrs) - (a->attrs < b->attrs);
}

const struct dw_decl *dw_abbrevs_search(const struct dw_abbrevs *a, uint64_t code)
{
	const size_t k = bisect_first(i, 0, a->decls.n, a->decls.p[i].code >= code);

	return k < a->decls.n && a->decls.p[k].code == code ? &a->decls.p[k] : NULL;
}

static void table_free(struct dw_abbrevs *a)
{
	vec_done(&a->decls);
	vec_done(&a->attrs);
	vec_done(&a->skips);
	free(a);
}

static struct dw_abbrevs *table_new(const struct dw_sec *sec, uint64_t off, struct dw_sizes sizes)
{
	struct dw_abbrevs *a = calloc(1, sizeof(*a));

	if (!a)
		return NULL;
	a->sec = sec;
	a->off = off;
	a->sizes = sizes;
	a->decls.max = DECLS_MAX;
	a->attrs.max = ATTRS_MAX;
	a->skips.max = ATTRS_MAX;
	a->refs = 1;
	return a;
}

/* Reads a table of unknown length: more of the section at each try. */
static int table_read(struct dw_file *d, const struct dw_span *span, uint64_t off, uint64_t only,
                      struct dw_abbrevs *a)
{
	size_t max = only ? DW_PAGE_BYTES : IN_BYTES;
	int r = -ENODATA;

	if (!span->sec || off >= span->size)
		return -EINVAL;
	for (; max <= DW_TABLE_IN_BYTES; max *= 8) {
		_cleanup_free_ uint8_t *buf = NULL;
		size_t n = (size_t)MIN_OF(span->size - off, (uint64_t)max);

		if (n > d->max_bytes - d->bytes)
			return -E2BIG;
		buf = malloc(n);
		if (!buf)
			return -ENOMEM;
		r = dw_sec_read(d, span->sec, span->off + off, buf, n);
		if (r < 0)
			return r;
		a->decls.n = a->attrs.n = a->skips.n = 0;
		r = read_decls(a, cursor_of(buf, n), only);
		if (dw_steps(d, a->attrs.n + a->decls.n) < 0)
			return -ETIME;
		if (r != -ENODATA)
			return r;
		if (n < max) /* the section ends here: declarations read so far are good */
			return a->decls.n > 0 && !only ? 0 : -EINVAL;
	}
	return -E2BIG;
}

static void drop(struct dw_file *d, size_t i)
{
	struct dw_abbrevs *a = d->tables.p[i];

	d->tables_bytes -= a->bytes;
	dw_release(d, a->bytes);
	table_free(a);
	d->tables.p[i] = d->tables.p[--d->tables.n];
}

/* Drops the least recently used table. Returns false if all are in use. */
static bool drop_oldest(struct dw_file *d)
{
	size_t found = d->tables.n;

	for (size_t i = 0; i < d->tables.n; i++) {
		if (d->tables.p[i]->refs == 0 &&
		    (found == d->tables.n || d->tables.p[i]->used < d->tables.p[found]->used))
			found = i;
	}
	if (found == d->tables.n)
		return false;
	drop(d, found);
	return true;
}

int dw_abbrevs_get(struct dw_file *d, const struct dw_span *span, uint64_t off,
                   struct dw_sizes sizes, struct dw_abbrevs **ret)
{
	struct dw_abbrevs *a;
	uint64_t at = span->off + off;
	int r;

	for (size_t i = 0; i < d->tables.n; i++) {
		a = d->tables.p[i];
		if (a->off == at && a->sec == span->sec &&
		    memcmp(&a->sizes, &sizes, sizeof(sizes)) == 0) {
			a->refs++;
			a->used = ++d->clock;
			*ret = a;
			return 0;
		}
	}
	a = table_new(span->sec, at, sizes);
	if (!a)
		return -ENOMEM;
	r = table_read(d, span, off, 0, a);
	if (r == 0 && !a->dense && a->decls.n > 0)
		qsort(a->decls.p, a->decls.n, sizeof(*a->decls.p), by_code);
	a->bytes = sizeof(*a) + a->decls.cap * sizeof(*a->decls.p) +
	           a->attrs.cap * sizeof(*a->attrs.p) + a->skips.cap * sizeof(*a->skips.p);
	while (r == 0 &&
	       (d->tables_bytes + a->bytes > d->tables_max || d->tables.n >= 2 * DW_CUS) &&
	       drop_oldest(d))
		continue;
	d->tables.max = SIZE_MAX / sizeof(a);
	r = r < 0 ? r : vec_reserve(&d->tables, 1);
	r = r < 0 ? r : dw_charge(d, a->bytes);
	if (r < 0) {
		table_free(a);
		return r;
	}
	a->used = ++d->clock;
	d->tables_bytes += a->bytes;
	d->tables.p[d->tables.n++] = a;
	*ret = a;
	return 0;
}

int dw_abbrevs_one(struct dw_file *d, const struct dw_span *span, uint64_t off,
                   struct dw_sizes sizes, uint64_t code, struct dw_abbrevs **ret)
{
	struct dw_abbrevs *a = table_new(span->sec, span->off + off, sizes);
	int r;

	if (!a)
		return -ENOMEM;
	r = table_read(d, span, off, code, a);
	a->dense = false;
	if (r <= 0) {
		table_free(a);
		return r < 0 ? r : -EINVAL;
	}
	*ret = a;
	return 0;
}

void dw_abbrevs_put(struct dw_file *d, struct dw_abbrevs *a)
{
	if (!a)
		return;
	for (size_t i = 0; i < d->tables.n; i++) {
		if (d->tables.p[i] == a) {
			a->refs--;
			return;
		}
	}
	table_free(a); /* one of dw_abbrevs_one */
}

void dw_abbrevs_drop_sec(struct dw_file *d, const struct dw_sec *sec)
{
	for (size_t i = d->tables.n; i-- > 0;) {
		if (d->tables.p[i]->sec == sec)
			drop(d, i);
	}
}

void dw_abbrevs_drop_all(struct dw_file *d)
{
	while (d->tables.n > 0)
		drop(d, d->tables.n - 1);
	vec_done(&d->tables);
}

/* DW_FORM_indirect: the form precedes the value. */
static int skip_indirect(struct dw_sizes sizes, struct cursor *c)
{
	struct dw_val v;
	uint64_t form = 0;
	int r = cursor_uleb(c, &form);

	if (r < 0)
		return r;
	if (form > UINT16_MAX || form == DW_FORM_indirect || form == DW_FORM_implicit_const)
		return -EINVAL;
	return dw_form_read(sizes, c, (uint16_t)form, 0, &v);
}

static int skip_one(const struct dw_abbrevs *a, uint16_t op, struct cursor *c)
{
	uint64_t n = 0;
	uint32_t n4;
	uint16_t n2;
	uint8_t b;
	int r = 0;

	switch (op) {
	case DW_SKIP_LEB:
		do {
			r = dw_next_u8(c, &b);
		} while (r == 0 && b >= 0x80);
		return r;
	case DW_SKIP_STRING: {
		const char *s;

		return cursor_str(c, &s);
	}
	case DW_SKIP_BLOCK1:
		r = dw_next_u8(c, &b);
		return r < 0 ? r : dw_next_skip(c, b);
	case DW_SKIP_BLOCK2:
		r = cursor_u16(c, &n2);
		return r < 0 ? r : dw_next_skip(c, n2);
	case DW_SKIP_BLOCK4:
		r = cursor_u32(c, &n4);
		return r < 0 ? r : dw_next_skip(c, n4);
	case DW_SKIP_BLOCK:
		r = dw_next_uleb(c, &n);
		return r < 0 ? r : dw_next_skip(c, n);
	case DW_SKIP_INDIRECT:
		return skip_indirect(a->sizes, c);
	default:
		return -ENOTSUP;
	}
}

int dw_skip_attrs(const struct dw_abbrevs *a, const struct dw_decl *decl, struct cursor *c)
{
	const uint16_t *op = decl->n_skips ? &a->skips.p[decl->skips] : NULL;

	for (size_t i = 0; i < decl->n_skips; i++) {
		int r = op[i] < DW_SKIP_FIXED_MAX ? dw_next_skip(c, op[i]) : skip_one(a, op[i], c);

		if (r < 0)
			return r;
	}
	return 0;
}
