/* SPDX-License-Identifier: Apache-2.0 */
/* Forms of attribute values: their sizes, and how they are read. Source: DWARF 5 §7.5.5, 7.5.6. */
#include "dwarf/dwarf_priv.h"

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

/* Reads a number of @n bytes; of more than 8, only the bytes. */
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
