/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Ranges of addresses: low_pc and high_pc, .debug_ranges, .debug_rnglists.
 * Source: DWARF 4 §2.17.3, DWARF 5 §2.17.3 and 7.25.
 */
#include "dwarf/dwarf_priv.h"

/* Longest entry of a list: a kind and two numbers. LEB128 that is padded longer is bad. */
#define ENTRY_MAX 32

static uint64_t address_max(const struct dw_cu *cu)
{
	return cu->sizes.address == 4 ? UINT32_MAX : UINT64_MAX;
}

/* Linkers leave 0, 1 (in lists, where two zeros would be an end), -1 or -2 for discarded code. */
static bool is_alive(const struct dw_cu *cu, uint64_t lo, uint64_t hi)
{
	return lo < hi && lo > 1 && lo < address_max(cu) - 1;
}

static int one_range(struct dw_file *d, const struct dw_cu *cu, const struct dw_die *die,
                     struct dw_ranges *ret)
{
	const struct dw_val *high = &die->v[DW_V_HIGH];
	uint64_t n = 0;
	int r = dw_val_addr(d, cu, &die->v[DW_V_LOW], &ret->lo);

	if (r < 0)
		return r;
	if (dw_val_num(high, &n) == 0) {
		if (__builtin_add_overflow(ret->lo, n, &ret->hi))
			ret->hi = ret->lo; /* the length of a tombstone */
	} else {
		r = dw_val_addr(d, cu, high, &ret->hi);
	}
	ret->kind = DW_RANGES_ONE;
	return r;
}

/* Looks up DW_FORM_rnglistx in the table of offsets after the header. */
static int list_offset(struct dw_file *d, const struct dw_cu *cu, uint64_t index, uint64_t *ret)
{
	uint64_t off, v = 0;
	int r;

	if (__builtin_mul_overflow(index, (uint64_t)cu->sizes.offset, &off) ||
	    __builtin_add_overflow(off, cu->base.rnglist, &off))
		return -EINVAL;
	r = dw_span_num(d, &cu->rnglists, off, cu->sizes.offset, &v);
	if (r < 0)
		return r;
	return __builtin_add_overflow(v, cu->base.rnglist, ret) ? -EINVAL : 0;
}

int dw_ranges_of(struct dw_file *d, const struct dw_cu *cu, const struct dw_die *die,
                 struct dw_ranges *ret)
{
	const struct dw_val *v = &die->v[DW_V_RANGES];
	int r = 0;

	ret->cu = cu;
	ret->kind = DW_RANGES_NONE;
	ret->pos = ret->len = 0;
	if ((die->has & DW_BIT(DW_V_LOW)) && (die->has & DW_BIT(DW_V_HIGH)))
		return one_range(d, cu, die, ret);
	if (!(die->has & DW_BIT(DW_V_RANGES)))
		return -ENOENT;
	ret->base = cu->base.low_pc;
	ret->kind = cu->version >= 5 ? DW_RANGES_NEW : DW_RANGES_OLD;
	ret->span = cu->version >= 5 ? cu->rnglists : cu->ranges;
	if (v->form == DW_FORM_rnglistx)
		r = list_offset(d, cu, v->u, &ret->at);
	else
		r = dw_val_num(v, &ret->at);
	if (r == 0 && ret->kind == DW_RANGES_OLD &&
	    __builtin_add_overflow(ret->at, cu->base.ranges, &ret->at))
		r = -EINVAL;
	if (r == 0 && (!ret->span.sec || ret->at >= ret->span.size))
		r = -EINVAL;
	return r;
}

/* Returns the rest of the buffer, after more of the section was read if the rest may be less than
 * an entry. */
static int list_cursor(struct dw_file *d, struct dw_ranges *l, struct cursor *ret)
{
	int r;

	if (l->len - l->pos < ENTRY_MAX && l->at < l->span.size) {
		l->at -= l->len - l->pos;
		l->pos = l->len = 0;
		l->len = (size_t)MIN_OF(l->span.size - l->at, (uint64_t)sizeof(l->buf));
		r = dw_sec_read(d, l->span.sec, l->span.off + l->at, l->buf, l->len);
		if (r < 0)
			return r;
		l->at += l->len;
	}
	*ret = cursor_of(l->buf + l->pos, l->len - l->pos);
	return 0;
}

/* Returns 1 (a range), 2 (no range in this entry), 0 (the end). */
static int old_entry(struct dw_ranges *l, struct cursor *c, uint64_t *lo, uint64_t *hi)
{
	int r = dw_next_num(c, l->cu->sizes.address, lo);

	r = r < 0 ? r : dw_next_num(c, l->cu->sizes.address, hi);
	if (r < 0)
		return r;
	if (*lo == 0 && *hi == 0)
		return 0;
	if (*lo == address_max(l->cu)) {
		l->base = *hi;
		return 2;
	}
	/* A tombstone replaces the offset. */
	if (*lo >= *hi || *lo == address_max(l->cu) - 1)
		return 2;
	*lo = (*lo + l->base) & address_max(l->cu);
	*hi = (*hi + l->base) & address_max(l->cu);
	return 1;
}

static int next_addrx(struct dw_file *d, const struct dw_ranges *l, struct cursor *c, uint64_t *ret)
{
	uint64_t index = 0;
	int r = cursor_uleb(c, &index);

	return r < 0 ? r : dw_addr_at(d, l->cu, index, ret);
}

static int new_entry(struct dw_file *d, struct dw_ranges *l, struct cursor *c, uint64_t *lo,
                     uint64_t *hi)
{
	uint64_t n = 0;
	uint8_t kind;
	bool length = false;
	int r = cursor_u8(c, &kind);

	if (r < 0)
		return r;
	switch (kind) {
	case DW_RLE_end_of_list:
		return 0;
	case DW_RLE_base_addressx:
		r = next_addrx(d, l, c, &l->base);
		return r < 0 ? r : 2;
	case DW_RLE_base_address:
		r = dw_next_num(c, l->cu->sizes.address, &l->base);
		return r < 0 ? r : 2;
	case DW_RLE_startx_endx:
		r = next_addrx(d, l, c, lo);
		r = r < 0 ? r : next_addrx(d, l, c, hi);
		break;
	case DW_RLE_startx_length:
		r = next_addrx(d, l, c, lo);
		r = r < 0 ? r : cursor_uleb(c, &n);
		length = true;
		break;
	case DW_RLE_offset_pair:
		r = cursor_uleb(c, lo);
		r = r < 0 ? r : cursor_uleb(c, hi);
		if (l->base >= address_max(l->cu) - 1)
			return r < 0 ? r : 2;
		*lo = (*lo + l->base) & address_max(l->cu);
		*hi = (*hi + l->base) & address_max(l->cu);
		break;
	case DW_RLE_start_end:
		r = dw_next_num(c, l->cu->sizes.address, lo);
		r = r < 0 ? r : dw_next_num(c, l->cu->sizes.address, hi);
		break;
	case DW_RLE_start_length:
		r = dw_next_num(c, l->cu->sizes.address, lo);
		r = r < 0 ? r : cursor_uleb(c, &n);
		length = true;
		break;
	default:
		return -ENOTSUP;
	}
	if (r < 0)
		return r;
	if (length && __builtin_add_overflow(*lo, n, hi))
		*hi = *lo;
	return 1;
}

int dw_ranges_next(struct dw_file *d, struct dw_ranges *l, uint64_t *ret_lo, uint64_t *ret_hi)
{
	for (;;) {
		uint64_t lo = 0, hi = 0;
		struct cursor c;
		int r;

		if (l->kind == DW_RANGES_NONE)
			return 0;
		if (l->kind == DW_RANGES_ONE) {
			l->kind = DW_RANGES_NONE;
			lo = l->lo;
			hi = l->hi;
			r = 1;
		} else {
			r = dw_step(d);
			r = r < 0 ? r : list_cursor(d, l, &c);
			if (r < 0)
				return r;
			if (l->kind == DW_RANGES_OLD)
				r = old_entry(l, &c, &lo, &hi);
			else
				r = new_entry(d, l, &c, &lo, &hi);
			l->pos = l->len - cursor_left(&c);
		}
		if (r <= 0)
			return r;
		if (r == 1 && is_alive(l->cu, lo, hi)) {
			*ret_lo = lo;
			*ret_hi = hi;
			return 1;
		}
	}
}
