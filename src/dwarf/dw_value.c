/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads entries with the wanted attributes, and converts their values: addresses, strings,
 * references. Source: DWARF 5 §7.5.5, 7.5.6.
 */
#include "dwarf/dwarf_priv.h"

/* first read of an entry outside of the current unit; most have 20 bytes */
#define FIRST_DIE_BYTES 512

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
		/* The first of two equal attributes counts. */
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
	    __builtin_add_overflow(off, cu->base.addr, &off))
		return -EINVAL;
	return dw_span_num(d, &cu->addrs, off, cu->sizes.address, ret);
}

int dw_str_offset(struct dw_file *d, const struct dw_cu *cu, uint64_t index, uint64_t *ret)
{
	uint64_t off;

	if (__builtin_mul_overflow(index, (uint64_t)cu->sizes.offset, &off) ||
	    __builtin_add_overflow(off, cu->base.str, &off))
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
	case DW_FORM_ref_sig8: /* a type: no function's name depends on it */
		return -ENOENT;
	default:
		return -EINVAL;
	}
}
