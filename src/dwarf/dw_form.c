/* SPDX-License-Identifier: Apache-2.0 */
/* Attribute values: what their forms say, and what they refer to. Source: DWARF 5 §7.5.5, 7.5.6. */
#include "dwarf/dwarf_priv.h"

#define FIRST_DIE_BYTES 512 /* of an entry outside of the unit at work; most have 20 */

int dw_form_size(struct dw_sizes sizes, uint16_t form)
{
	switch (form) {
	case DW_FORM_flag_present:
	case DW_FORM_implicit_const:
		return 0;
	case DW_FORM_data1:
	case DW_FORM_flag:
	case DW_FORM_ref1:
	case DW_FORM_strx1:
	case DW_FORM_addrx1:
		return 1;
	case DW_FORM_data2:
	case DW_FORM_ref2:
	case DW_FORM_strx2:
	case DW_FORM_addrx2:
		return 2;
	case DW_FORM_strx3:
	case DW_FORM_addrx3:
		return 3;
	case DW_FORM_data4:
	case DW_FORM_ref4:
	case DW_FORM_ref_sup4:
	case DW_FORM_strx4:
	case DW_FORM_addrx4:
		return 4;
	case DW_FORM_data8:
	case DW_FORM_ref8:
	case DW_FORM_ref_sig8:
	case DW_FORM_ref_sup8:
		return 8;
	case DW_FORM_data16:
		return 16;
	case DW_FORM_addr:
		return sizes.address;
	case DW_FORM_ref_addr:
		return sizes.ref_addr;
	case DW_FORM_strp:
	case DW_FORM_line_strp:
	case DW_FORM_strp_sup:
	case DW_FORM_sec_offset:
	case DW_FORM_GNU_ref_alt:
	case DW_FORM_GNU_strp_alt:
		return sizes.offset;
	case DW_FORM_sdata:
	case DW_FORM_udata:
	case DW_FORM_ref_udata:
	case DW_FORM_strx:
	case DW_FORM_addrx:
	case DW_FORM_loclistx:
	case DW_FORM_rnglistx:
	case DW_FORM_GNU_addr_index:
	case DW_FORM_GNU_str_index:
		return -(int)DW_SKIP_LEB;
	case DW_FORM_string:
		return -(int)DW_SKIP_STRING;
	case DW_FORM_block1:
		return -(int)DW_SKIP_BLOCK1;
	case DW_FORM_block2:
		return -(int)DW_SKIP_BLOCK2;
	case DW_FORM_block4:
		return -(int)DW_SKIP_BLOCK4;
	case DW_FORM_block:
	case DW_FORM_exprloc:
		return -(int)DW_SKIP_BLOCK;
	case DW_FORM_indirect:
		return -(int)DW_SKIP_INDIRECT;
	default:
		return -(int)DW_SKIP_UNKNOWN;
	}
}

static int read_block(struct cursor *c, uint64_t len, struct dw_val *ret)
{
	if (len > cursor_left(c))
		return -ENODATA;
	ret->u = len;
	return cursor_sub(c, (size_t)len, &ret->data);
}

/* A number of @n bytes; of more than 8 its bytes alone. */
static int read_fixed(struct cursor *c, size_t n, struct dw_val *ret)
{
	if (n > sizeof(ret->u))
		return cursor_sub(c, n, &ret->data);
	return cursor_bytes(c, &ret->u, n);
}

static int read_variable(struct dw_sizes sizes, struct cursor *c, enum dw_skip how,
                         struct dw_val *v)
{
	const char *s = NULL;
	int64_t sleb = 0;
	uint64_t u = 0;
	int r;

	switch ((int)how) {
	case DW_SKIP_LEB:
		if (v->form != DW_FORM_sdata)
			return cursor_uleb(c, &v->u);
		r = cursor_sleb(c, &sleb);
		v->u = (uint64_t)sleb;
		return r;
	case DW_SKIP_STRING:
		r = cursor_str(c, &s);
		if (r == 0)
			v->data = cursor_of(s, strlen(s));
		return r;
	case DW_SKIP_BLOCK1:
	case DW_SKIP_BLOCK2:
	case DW_SKIP_BLOCK4:
		r = cursor_bytes(c, &u, (size_t)1 << (how - DW_SKIP_BLOCK1));
		return r < 0 ? r : read_block(c, u, v);
	case DW_SKIP_BLOCK:
		r = cursor_uleb(c, &u);
		return r < 0 ? r : read_block(c, u, v);
	case DW_SKIP_INDIRECT:
		r = cursor_uleb(c, &u);
		if (r < 0)
			return r;
		if (u > UINT16_MAX || u == DW_FORM_indirect || u == DW_FORM_implicit_const)
			return -EINVAL;
		return dw_form_read(sizes, c, (uint16_t)u, 0, v);
	default:
		return -ENOTSUP;
	}
}

int dw_form_read(struct dw_sizes sizes, struct cursor *c, uint16_t form, int64_t implicit,
                 struct dw_val *ret)
{
	struct dw_val v = {.form = form};
	int size = dw_form_size(sizes, form);
	int r = 0;

	if (form == DW_FORM_implicit_const)
		v.u = (uint64_t)implicit;
	else if (form == DW_FORM_flag_present)
		v.u = 1;
	else if (size >= 0)
		r = read_fixed(c, (size_t)size, &v);
	else
		r = read_variable(sizes, c, (enum dw_skip) - size, &v);
	if (r == 0)
		*ret = v;
	return r;
}

int dw_die_read(const struct dw_cu *cu, struct cursor *c, const struct dw_decl *decl, uint32_t want,
                struct dw_die *ret)
{
	const struct dw_attr *attr = decl->n_attrs ? &cu->abbrevs->attrs.p[decl->attrs] : NULL;

	ret->decl = decl;
	ret->has = 0;
	for (size_t i = 0; i < decl->n_attrs; i++) {
		struct dw_val v = {0};
		uint32_t bit = DW_BIT(attr[i].slot);
		int r = dw_form_read(cu->sizes, c, attr[i].form, attr[i].value, &v);

		if (r < 0)
			return r;
		/* Of one that stands twice the first counts. */
		if (attr[i].slot == DW_V_NONE || !(want & bit) || (ret->has & bit))
			continue;
		ret->v[attr[i].slot] = v;
		ret->has |= bit;
	}
	return 0;
}

static int die_in(const struct dw_cu *cu, struct cursor c, uint32_t want, struct dw_die *ret)
{
	const struct dw_decl *decl;
	uint64_t code = 0;
	int r = cursor_uleb(&c, &code);

	if (r < 0)
		return r;
	decl = code ? dw_abbrevs_find(cu->abbrevs, code) : NULL;
	return decl ? dw_die_read(cu, &c, decl, want, ret) : -EINVAL;
}

int dw_die_at(struct dw_file *d, const struct dw_cu *cu, uint64_t off, uint32_t want,
              struct dw_die *ret)
{
	size_t max = FIRST_DIE_BYTES;

	if (off < cu->die_off || off >= cu->end)
		return -EINVAL;
	if (cu->bytes)
		return die_in(cu, cursor_of(cu->bytes + (off - cu->off), (size_t)(cu->end - off)),
		              want, ret);
	for (;; max *= 8) {
		size_t n = (size_t)MIN_OF(cu->end - off, (uint64_t)max);
		int r;

		if (n > d->die_cap) {
			dw_dealloc(d, d->die_buf, d->die_cap);
			d->die_buf = NULL;
			d->die_cap = 0;
			r = dw_alloc(d, max, &d->die_buf);
			if (r < 0)
				return r;
			d->die_cap = max;
		}
		r = dw_sec_read(d, &cu->src->secs[DW_SEC_INFO], off, d->die_buf, n);
		if (r < 0)
			return r;
		r = die_in(cu, cursor_of(d->die_buf, n), want, ret);
		if (r != -ENODATA || n < max)
			return r;
		if (max >= DW_DIE_BYTES)
			return -E2BIG;
	}
}

int dw_addr_at(struct dw_file *d, const struct dw_cu *cu, uint64_t index, uint64_t *ret)
{
	uint64_t off;

	if (__builtin_mul_overflow(index, (uint64_t)cu->sizes.address, &off) ||
	    __builtin_add_overflow(off, cu->addr_base, &off))
		return -EINVAL;
	return dw_span_num(d, &cu->addrs, off, cu->sizes.address, ret);
}

int dw_str_offset(struct dw_file *d, const struct dw_cu *cu, uint64_t index, uint64_t *ret)
{
	uint64_t off;

	if (__builtin_mul_overflow(index, (uint64_t)cu->sizes.offset, &off) ||
	    __builtin_add_overflow(off, cu->str_base, &off))
		return -EINVAL;
	return dw_span_num(d, &cu->str_offsets, off, cu->sizes.offset, ret);
}

int dw_val_addr(struct dw_file *d, const struct dw_cu *cu, const struct dw_val *v, uint64_t *ret)
{
	switch (v->form) {
	case DW_FORM_addr:
		*ret = v->u;
		return 0;
	case DW_FORM_addrx:
	case DW_FORM_addrx1:
	case DW_FORM_addrx2:
	case DW_FORM_addrx3:
	case DW_FORM_addrx4:
	case DW_FORM_GNU_addr_index:
		return dw_addr_at(d, cu, v->u, ret);
	default:
		return -EINVAL;
	}
}

int dw_val_num(const struct dw_val *v, uint64_t *ret)
{
	switch (v->form) {
	case DW_FORM_data1:
	case DW_FORM_data2:
	case DW_FORM_data4:
	case DW_FORM_data8:
	case DW_FORM_sdata:
	case DW_FORM_udata:
	case DW_FORM_flag:
	case DW_FORM_flag_present:
	case DW_FORM_implicit_const:
	case DW_FORM_sec_offset:
		*ret = v->u;
		return 0;
	default:
		return -EINVAL;
	}
}

int dw_val_str_at(struct dw_file *d, const struct dw_cu *cu, const struct dw_val *v,
                  struct dw_sec **ret_sec, uint64_t *ret_off)
{
	struct dw_src *src = cu->src;
	enum dw_sec_kind kind = DW_SEC_STR;
	uint64_t off = v->u;
	int r = 0;

	switch (v->form) {
	case DW_FORM_string:
		return -ENOENT;
	case DW_FORM_strp:
		break;
	case DW_FORM_line_strp:
		kind = DW_SEC_LINE_STR;
		break;
	case DW_FORM_GNU_strp_alt:
	case DW_FORM_strp_sup:
		src = &d->alt;
		break;
	case DW_FORM_strx:
	case DW_FORM_strx1:
	case DW_FORM_strx2:
	case DW_FORM_strx3:
	case DW_FORM_strx4:
	case DW_FORM_GNU_str_index:
		r = dw_str_offset(d, cu, v->u, &off);
		break;
	default:
		return -EINVAL;
	}
	if (r < 0)
		return r;
	if (!src->ready)
		return -ENOENT;
	*ret_sec = &src->secs[kind];
	*ret_off = off;
	return 0;
}

int dw_val_str(struct dw_file *d, const struct dw_cu *cu, const struct dw_val *v, struct sbuf *b)
{
	struct dw_sec *sec = NULL;
	uint64_t off = 0;
	int r;

	if (v->form == DW_FORM_string) {
		if (cursor_left(&v->data) >= DW_STRING_MAX)
			return -EINVAL;
		return sbuf_add(b, v->data.p, cursor_left(&v->data));
	}
	r = dw_val_str_at(d, cu, v, &sec, &off);
	return r < 0 ? r : dw_sec_str(d, sec, off, b);
}

int dw_val_ref(struct dw_file *d, const struct dw_cu *cu, const struct dw_val *v,
               struct dw_src **ret_src, uint64_t *ret_off)
{
	switch (v->form) {
	case DW_FORM_ref1:
	case DW_FORM_ref2:
	case DW_FORM_ref4:
	case DW_FORM_ref8:
	case DW_FORM_ref_udata:
		if (v->u >= cu->end - cu->off)
			return -EINVAL;
		*ret_src = cu->src;
		*ret_off = cu->off + v->u;
		return 0;
	case DW_FORM_ref_addr:
		*ret_src = cu->src;
		*ret_off = v->u;
		return 0;
	case DW_FORM_GNU_ref_alt:
	case DW_FORM_ref_sup4:
	case DW_FORM_ref_sup8:
		if (!d->alt.ready)
			return -ENOENT;
		*ret_src = &d->alt;
		*ret_off = v->u;
		return 0;
	case DW_FORM_ref_sig8: /* of types: no name of a function hangs on them */
		return -ENOENT;
	default:
		return -EINVAL;
	}
}
