/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Split units. A skeleton stays in the file. Its unit is in a package (.dwp, looked up in the hash
 * table of .debug_cu_index) or in a file of its own (.dwo), by its id. Source: DWARF 5 §7.3, and
 * the GNU extension of DWARF 4.
 */
#include "dwarf/dwarf_priv.h"

#define COLUMNS_MAX 16 /* version 5 has 8 kinds of sections */

/* .debug_cu_index of a package. */
struct package {
	struct dw_span s;
	uint64_t version, n_columns, n_units, n_slots;
};

static int read_u32(struct dw_file *d, const struct package *p, uint64_t index, uint64_t *ret)
{
	if (index > UINT64_MAX / 8)
		return -EINVAL;
	return dw_span_num(d, &p->s, index * 4, 4, ret);
}

static int open_package(struct dw_file *d, struct package *p)
{
	int r;

	p->s = dw_span_all(&d->dwp.secs[DW_SEC_CU_INDEX]);
	/* Version 5 has 16 bits for it, and 16 of padding. */
	r = dw_span_num(d, &p->s, 0, 2, &p->version);
	r = r < 0 ? r : read_u32(d, p, 1, &p->n_columns);
	r = r < 0 ? r : read_u32(d, p, 2, &p->n_units);
	r = r < 0 ? r : read_u32(d, p, 3, &p->n_slots);
	if (r < 0)
		return r;
	if (p->version != 2 && p->version != 5)
		return -ENOTSUP;
	if (p->n_columns == 0 || p->n_columns > COLUMNS_MAX || (p->n_slots & (p->n_slots - 1)))
		return -EINVAL;
	return 0;
}

/* Finds the row of a unit, from 1: -ENOENT. */
static int find_row(struct dw_file *d, const struct package *p, uint64_t id, uint64_t *ret)
{
	uint64_t mask = p->n_slots - 1, slot = id & mask, step = ((id >> 32) & mask) | 1;

	for (uint64_t i = 0; i < p->n_slots; i++) {
		uint64_t found = 0, row = 0;
		int r = dw_step(d);

		r = r < 0 ? r : dw_span_num(d, &p->s, 16 + 8 * slot, 8, &found);
		r = r < 0 ? r : read_u32(d, p, 4 + 2 * p->n_slots + slot, &row);
		if (r < 0)
			return r;
		if (row == 0)
			return -ENOENT;
		if (found == id) {
			if (row > p->n_units)
				return -EINVAL;
			*ret = row;
			return 0;
		}
		slot = (slot + step) & mask;
	}
	return -ENOENT;
}

static struct dw_span *span_of(struct dw_cu *cu, const struct package *p, uint64_t column,
                               struct dw_span *info)
{
	switch (column) {
	case DW_SECT_INFO:
		return info;
	case DW_SECT_ABBREV:
		return &cu->abbrev_span;
	case DW_SECT_LINE:
		return &cu->line;
	case DW_SECT_STR_OFFSETS:
		return &cu->str_offsets;
	case DW_SECT_RNGLISTS:
		return p->version == 5 ? &cu->rnglists : NULL;
	default:
		return NULL;
	}
}

/* Sets the spans of @cu to the package's parts for a unit: 0 with its offset, -ENOENT. */
static int find_in_package(struct dw_file *d, struct dw_cu *cu, uint64_t id, uint64_t *ret_off)
{
	struct dw_span info = dw_span_all(&d->dwp.secs[DW_SEC_INFO]);
	struct package p;
	uint64_t row = 0, tables;
	bool has_info = false;
	int r = open_package(d, &p);

	r = r < 0 ? r : find_row(d, &p, id, &row);
	if (r < 0)
		return r;
	tables = 4 + 3 * p.n_slots;
	for (uint64_t i = 0; i < p.n_columns; i++) {
		uint64_t column = 0, off = 0, size = 0;
		struct dw_span *s;

		r = read_u32(d, &p, tables + i, &column);
		r = r < 0 ? r : read_u32(d, &p, tables + row * p.n_columns + i, &off);
		r = r < 0 ? r
		          : read_u32(d, &p, tables + (p.n_units + row) * p.n_columns + i, &size);
		if (r < 0)
			return r;
		s = span_of(cu, &p, column, &info);
		if (!s)
			continue;
		if (off > s->size || size > s->size - off)
			return -EINVAL;
		s->off += off;
		s->size = size;
		has_info |= s == &info;
	}
	*ret_off = info.off;
	return has_info ? 0 : -EINVAL;
}

static void drop_dwo(struct dw_file *d, size_t i)
{
	struct dw_src *src = d->dwos[i];

	if (!src)
		return;
	dw_cus_drop(d);
	dw_abbrevs_drop_sec(d, &src->secs[DW_SEC_ABBREV]);
	dw_src_done(d, src);
	dw_dealloc(d, src, sizeof(*src));
	free(d->dwo_paths[i]);
	d->dwos[i] = NULL;
	d->dwo_paths[i] = NULL;
}

void dw_split_done(struct dw_file *d)
{
	for (size_t i = 0; i < DW_DWOS; i++)
		drop_dwo(d, i);
}

static int load_dwo(struct dw_file *d, const char *dir, const char *name, struct dw_src **ret)
{
	_cleanup_close_ int fd = -EBADF;
	struct dw_src *src = NULL;
	int r;

	if (!d->o.open_dwo)
		return -ENOENT;
	r = d->o.open_dwo(d->o.arg, dir, name, &fd);
	if (r < 0)
		return r == -ENOMEM ? r : -ENOENT;
	r = dw_alloc(d, sizeof(*src), &src);
	if (r < 0)
		return r;
	src->fd = -EBADF;
	r = img_file_open(fd, &src->img, NULL);
	if (r == 0) {
		src->fd = TAKE_FD(fd);
		r = dw_src_open(d, src, true);
	}
	if (r < 0) {
		dw_src_done(d, src);
		dw_dealloc(d, src, sizeof(*src));
		return r == -ENOEXEC ? -EINVAL : r;
	}
	*ret = src;
	return 0;
}

/* Gets the file of a split unit, and opens it if it is not open. */
static int get_dwo(struct dw_file *d, const char *dir, const char *name, struct dw_src **ret)
{
	struct dw_src *src = NULL;
	size_t oldest = 0;
	char *path = NULL;
	struct sbuf b;
	int r;

	sbuf_init(&b, 2 * DW_STRING_MAX);
	(void)sbuf_addf(&b, "%s\n%s", dir, name); /* sbuf_take returns .err */
	path = sbuf_take(&b);
	sbuf_done(&b);
	if (!path)
		return -ENOMEM;
	for (size_t i = 0; i < DW_DWOS; i++) {
		if (d->dwo_paths[i] && strcmp(d->dwo_paths[i], path) == 0) {
			free(path);
			d->dwo_used[i] = ++d->clock;
			*ret = d->dwos[i];
			return 0;
		}
		if (d->dwo_used[i] < d->dwo_used[oldest])
			oldest = i;
	}
	drop_dwo(d, oldest);
	r = dw_steps(d, DW_DWO_STEPS);
	r = r < 0 ? r : load_dwo(d, dir, name, &src);
	if (r < 0) {
		free(path);
		return r;
	}
	d->dwos[oldest] = src;
	d->dwo_paths[oldest] = path;
	d->dwo_used[oldest] = ++d->clock;
	*ret = src;
	return 0;
}

/* Copies what a split unit has from its skeleton. */
static void inherit(struct dw_cu *cu, const struct dw_cu *skeleton)
{
	cu->addrs = skeleton->addrs;
	cu->base.addr = skeleton->base.addr;
	cu->ranges = skeleton->ranges;
	cu->base.ranges = skeleton->base.split_ranges;
}

static int open_unit(struct dw_file *d, const struct dw_cu *skeleton, struct dw_cu *cu,
                     uint64_t off)
{
	int r;

	inherit(cu, skeleton);
	r = dw_cu_open(d, cu, off, DW_CU_WORK);
	if (r < 0)
		return r;
	cu->base.low_pc = skeleton->base.low_pc;
	return cu->dwo_id == skeleton->dwo_id ? 0 : -ENOENT;
}

/* Finds the unit with the skeleton's id in a .dwo, which has one unit that is not of types. */
static int find_in_dwo(struct dw_file *d, const struct dw_cu *skeleton, struct dw_src *src,
                       struct dw_cu *cu)
{
	int r = dw_units_read(d, src);

	for (size_t i = 0; r == 0 && i < src->units.n; i++) {
		dw_cu_init(cu, src);
		r = dw_step(d);
		r = r < 0 ? r : open_unit(d, skeleton, cu, src->units.p[i]);
		if (r == 0 && cu->tag == DW_TAG_compile_unit)
			return 0;
		dw_cu_done(d, cu);
		if (r == -ENOENT || r == -ENOTSUP || r == -EINVAL)
			r = 0;
	}
	return r < 0 ? r : -ENOENT;
}

int dw_split_open(struct dw_file *d, const struct dw_cu *skeleton, struct dw_cu *ret)
{
	struct dw_src *src = NULL;
	uint64_t off = 0;
	int r = -ENOENT;

	if (!skeleton->dwo_name)
		return -ENOENT;
	if (dw_has(&d->dwp, DW_SEC_CU_INDEX)) {
		dw_cu_init(ret, &d->dwp);
		r = find_in_package(d, ret, skeleton->dwo_id, &off);
		r = r < 0 ? r : open_unit(d, skeleton, ret, off);
		if (r < 0)
			dw_cu_done(d, ret);
	}
	if (r < 0 && dw_note(d, r) < 0)
		return r;
	if (r < 0) {
		r = get_dwo(d, skeleton->comp_dir ? skeleton->comp_dir : "", skeleton->dwo_name,
		            &src);
		r = r < 0 ? r : find_in_dwo(d, skeleton, src, ret);
	}
	if (r < 0 && dw_is_local(r)) {
		r = dw_note(d, r);
		d->stats.dwo_missing++;
		return r < 0 ? r : -ENOENT;
	}
	return r;
}
