/* SPDX-License-Identifier: Apache-2.0 */
/* Units: headers, their own entries, and a cache of those that references lead into. */
#include "dwarf/dwarf_priv.h"

#define HEADER_MAX 40 /* longest header: of a type unit of the 64-bit format */
#define ROOT_SLOTS                                                                                 \
	(DW_BIT(DW_V_NAME) | DW_BIT(DW_V_LOW) | DW_BIT(DW_V_HIGH) | DW_BIT(DW_V_RANGES) |          \
	 DW_BIT(DW_V_STMT_LIST) | DW_BIT(DW_V_COMP_DIR) | DW_BIT(DW_V_DWO_NAME) |                  \
	 DW_BIT(DW_V_DWO_ID) | DW_BIT(DW_V_ADDR_BASE) | DW_BIT(DW_V_STR_BASE) |                    \
	 DW_BIT(DW_V_RNG_BASE) | DW_BIT(DW_V_GNU_RANGES_BASE))

int dw_read_length(struct dw_file *d, struct dw_sec *s, uint64_t off, uint64_t *ret_end,
                   uint8_t *ret_offset_size)
{
	struct dw_span all = dw_span_all(s);
	uint64_t len = 0, skip = 4;
	int r = dw_span_num(d, &all, off, 4, &len);

	if (r == 0 && len == DWARF3_LENGTH_64_BIT) {
		r = dw_span_num(d, &all, off + 4, 8, &len);
		skip = 12;
	} else if (r == 0 && len >= DWARF3_LENGTH_MIN_ESCAPE_CODE) {
		r = -EINVAL;
	}
	if (r < 0)
		return r;
	if (len > s->size - off - skip)
		return -ENODATA;
	*ret_end = off + skip + len;
	*ret_offset_size = skip == 12 ? 8 : 4;
	return 0;
}

int dw_units_walk(struct dw_file *d, struct dw_src *src, int (*fn)(void *arg, uint32_t unit),
                  void *arg)
{
	struct dw_sec *s = &src->secs[DW_SEC_INFO];
	uint64_t off = 0, end = 0;
	uint8_t offset_size;
	int r = 0;

	if (src->units_ready)
		return src->units_failed;
	src->units_ready = true;
	src->units.max = UINT32_MAX - 1;
	while (off < s->size) {
		r = dw_step(d);
		r = r < 0 ? r : dw_read_length(d, s, off, &end, &offset_size);
		if (r < 0)
			break;
		r = dw_vec_reserve(d, &src->units);
		if (r < 0) {
			src->units_failed = r;
			return r;
		}
		src->units.p[src->units.n++] = off;
		if (fn) {
			r = fn(arg, (uint32_t)(src->units.n - 1));
			if (r < 0)
				return r;
		}
		off = end;
	}
	if (r == -ETIME && !fn) { /* the next call has steps again */
		src->units.n = 0;
		src->units_ready = false;
	}
	return r == -ETIME && fn ? r : dw_note(d, r); /* the units before it are kept */
}

int dw_units_read(struct dw_file *d, struct dw_src *src)
{
	return dw_units_walk(d, src, NULL, NULL);
}

uint32_t dw_units_find(const struct dw_src *src, uint64_t off)
{
	const size_t n = bisect_first(i, 0, src->units.n, src->units.p[i] > off);

	return n ? (uint32_t)(n - 1) : DW_NO_UNIT;
}

void dw_cu_init(struct dw_cu *cu, struct dw_src *src)
{
	*cu = (struct dw_cu){.src = src};
	cu->abbrev_span = dw_span_all(&src->secs[DW_SEC_ABBREV]);
	cu->str_offsets = dw_span_all(&src->secs[DW_SEC_STR_OFFSETS]);
	cu->rnglists = dw_span_all(&src->secs[DW_SEC_RNGLISTS]);
	cu->line = dw_span_all(&src->secs[DW_SEC_LINE]);
	cu->ranges = dw_span_all(&src->secs[DW_SEC_RANGES]);
	cu->addrs = dw_span_all(&src->secs[DW_SEC_ADDR]);
}

void dw_cu_done(struct dw_file *d, struct dw_cu *cu)
{
	dw_abbrevs_put(d, cu->abbrevs);
	dw_dealloc(d, cu->bytes, (size_t)(cu->end - cu->off));
	free(cu->name);
	free(cu->comp_dir);
	free(cu->dwo_name);
	*cu = (struct dw_cu){0};
}

static int read_header(struct dw_file *d, struct dw_cu *cu)
{
	uint8_t buf[HEADER_MAX] = {0};
	struct dw_sec *s = &cu->src->secs[DW_SEC_INFO];
	struct cursor c;
	uint64_t skip = 0;
	size_t n = 0;
	int r = dw_read_length(d, s, cu->off, &cu->end, &cu->sizes.offset);

	r = r < 0 ? r : dw_sec_read_some(d, s, cu->off, buf, sizeof(buf), &n);
	if (r < 0)
		return r;
	c = cursor_of(buf, (size_t)MIN_OF((uint64_t)n, cu->end - cu->off));
	r = cursor_skip(&c, cu->sizes.offset == 8 ? 12 : 4);
	r = r < 0 ? r : cursor_u16(&c, &cu->version);
	if (r < 0)
		return r;
	if (cu->version < 2 || cu->version > 5)
		return -ENOTSUP;
	cu->unit_type = DW_UT_compile;
	if (cu->version >= 5) {
		r = cursor_u8(&c, &cu->unit_type);
		r = r < 0 ? r : cursor_u8(&c, &cu->sizes.address);
		r = r < 0 ? r : dw_next_num(&c, cu->sizes.offset, &cu->abbrev_off);
		if (cu->unit_type == DW_UT_skeleton || cu->unit_type == DW_UT_split_compile)
			r = r < 0 ? r : cursor_u64(&c, &cu->dwo_id);
		else if (cu->unit_type == DW_UT_type || cu->unit_type == DW_UT_split_type)
			r = r < 0 ? r : cursor_skip(&c, 8 + cu->sizes.offset);
	} else {
		r = dw_next_num(&c, cu->sizes.offset, &cu->abbrev_off);
		r = r < 0 ? r : cursor_u8(&c, &cu->sizes.address);
	}
	if (r < 0)
		return r;
	if (cu->sizes.address != 4 && cu->sizes.address != 8)
		return -ENOTSUP;
	cu->sizes.ref_addr = cu->version == 2 ? cu->sizes.address : cu->sizes.offset;
	skip = (uint64_t)(n - cursor_left(&c));
	if (cu->end - cu->off < n) /* the cursor ended with the unit */
		skip = (cu->end - cu->off) - cursor_left(&c);
	cu->die_off = cu->off + skip;
	return 0;
}

static void root_num(const struct dw_die *die, enum dw_slot slot, uint64_t *ret)
{
	if (die->has & DW_BIT(slot))
		(void)dw_val_num(&die->v[slot], ret); /* of another class: as if absent */
}

static int root_str(struct dw_file *d, const struct dw_cu *cu, const struct dw_die *die,
                    enum dw_slot slot, char **ret)
{
	struct sbuf b;
	int r;

	if (!(die->has & DW_BIT(slot)))
		return 0;
	sbuf_init(&b, DW_STRING_MAX);
	r = dw_val_str(d, cu, &die->v[slot], &b);
	if (r == 0) {
		*ret = sbuf_take(&b);
		r = *ret ? 0 : -ENOMEM;
	}
	sbuf_done(&b);
	return dw_note(d, r);
}

/* Reads the unit's own entry. */
static int read_root(struct dw_file *d, struct dw_cu *cu, enum dw_cu_use use)
{
	const bool dwo = cu->src != &d->main && cu->src != &d->alt;
	struct dw_die die;
	struct cursor c;
	uint8_t code_bytes[16];
	uint64_t code = 0;
	size_t n = 0;
	int r;

	r = dw_sec_read_some(d, &cu->src->secs[DW_SEC_INFO], cu->die_off, code_bytes,
	                     (size_t)MIN_OF(sizeof(code_bytes), cu->end - cu->die_off), &n);
	if (r < 0)
		return r;
	c = cursor_of(code_bytes, n);
	r = cursor_uleb(&c, &code);
	if (r < 0 || code == 0)
		return -EINVAL;
	if (use != DW_CU_RANGES)
		r = dw_abbrevs_get(d, &cu->abbrev_span, cu->abbrev_off, cu->sizes, &cu->abbrevs);
	else
		r = dw_abbrevs_one(d, &cu->abbrev_span, cu->abbrev_off, cu->sizes, code,
		                   &cu->abbrevs);
	r = r < 0 ? r : dw_die_at(d, cu, cu->die_off, ROOT_SLOTS, &die);
	if (r < 0)
		return r;
	cu->tag = die.decl->tag;
	cu->has = die.has;
	cu->ranges_val = die.v[DW_V_RANGES];
	cu->low_val = die.v[DW_V_LOW];
	cu->high_val = die.v[DW_V_HIGH];
	if (cu->version >= 5) {
		/* Default bases: after the header of a table of its own. */
		cu->base.rnglist = cu->sizes.offset == 8 ? 20 : 12;
		cu->base.str = dwo ? (cu->sizes.offset == 8 ? 16 : 8) : 0;
	}
	if (!dwo)
		root_num(&die, DW_V_ADDR_BASE, &cu->base.addr);
	root_num(&die, DW_V_STR_BASE, &cu->base.str);
	root_num(&die, DW_V_RNG_BASE, &cu->base.rnglist);
	root_num(&die, DW_V_GNU_RANGES_BASE, &cu->base.split_ranges);
	root_num(&die, DW_V_DWO_ID, &cu->dwo_id);
	if (die.has & DW_BIT(DW_V_LOW)) {
		r = dw_val_addr(d, cu, &die.v[DW_V_LOW], &cu->base.low_pc);
		if (r < 0 && dw_note(d, r) < 0)
			return r;
	}
	if (die.has & DW_BIT(DW_V_STMT_LIST))
		cu->has_stmt_list = dw_val_num(&die.v[DW_V_STMT_LIST], &cu->stmt_list) == 0;
	if (use != DW_CU_WORK)
		return 0;
	r = root_str(d, cu, &die, DW_V_NAME, &cu->name);
	r = r < 0 ? r : root_str(d, cu, &die, DW_V_COMP_DIR, &cu->comp_dir);
	return r < 0 ? r : root_str(d, cu, &die, DW_V_DWO_NAME, &cu->dwo_name);
}

int dw_cu_open(struct dw_file *d, struct dw_cu *cu, uint64_t off, enum dw_cu_use use)
{
	int r;

	cu->off = off;
	r = read_header(d, cu);
	if (r == 0 && cu->die_off >= cu->end)
		r = -EINVAL;
	return r < 0 ? r : read_root(d, cu, use);
}

int dw_cu_load(struct dw_file *d, struct dw_cu *cu)
{
	uint64_t len = cu->end - cu->off;
	uint8_t *p = NULL;
	int r;

	if (len > d->max_bytes - d->bytes) {
		d->stats.units_refused++;
		return -E2BIG;
	}
	r = dw_charge(d, (size_t)len);
	if (r < 0)
		return r;
	p = malloc((size_t)len);
	r = p ? dw_sec_read(d, &cu->src->secs[DW_SEC_INFO], cu->off, p, (size_t)len) : -ENOMEM;
	if (r < 0) {
		free(p);
		dw_release(d, (size_t)len);
		return r;
	}
	cu->bytes = p;
	return 0;
}

int dw_cu_at(struct dw_file *d, struct dw_src *src, uint64_t off, struct dw_cu **ret)
{
	struct dw_cu *cu;
	uint32_t unit;
	int r = dw_units_read(d, src);

	if (r < 0)
		return r;
	unit = dw_units_find(src, off);
	if (unit == DW_NO_UNIT)
		return -EINVAL;
	if (!d->cus) {
		r = dw_alloc(d, DW_CUS * sizeof(*d->cus), &d->cus);
		if (r < 0)
			return r;
	}
	cu = &d->cus[(unit + src->secs[DW_SEC_INFO].id * 7) % DW_CUS];
	if (cu->src != src || cu->off != src->units.p[unit] || !cu->abbrevs) {
		dw_cu_done(d, cu);
		dw_cu_init(cu, src);
		r = dw_cu_open(d, cu, src->units.p[unit], DW_CU_REFS);
		if (r < 0) {
			dw_cu_done(d, cu);
			return r;
		}
	}
	*ret = cu;
	return 0;
}

void dw_cus_drop(struct dw_file *d)
{
	if (!d->cus)
		return;
	for (size_t i = 0; i < DW_CUS; i++)
		dw_cu_done(d, &d->cus[i]);
}
