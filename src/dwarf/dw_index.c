/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds the unit of an address: ranges of all units, sorted and disjoint. As in llvm-symbolizer,
 * .debug_aranges decides for the units that it lists, and the units' own entries for the others.
 * Units overlap if a linker places all copies of a template's function at the one that it kept.
 * Then the first unit has the address, and a range continues as long as its unit does.
 */
#include "dwarf/dwarf_priv.h"

/* Begin or end of a unit's range. */
struct edge {
	uint64_t at;
	uint32_t unit;
	bool start;
};

struct build {
	struct dw_file *d;
	VEC(struct edge) edges;
	uint8_t *known; /* known[units.n]: listed in .debug_aranges */
};

/* vec_push within the budget. */
static int push_edge(struct build *b, uint64_t at, uint32_t unit, bool start)
{
	int r = dw_vec_reserve(b->d, &b->edges);

	if (r < 0)
		return r;
	b->edges.p[b->edges.n++] = (struct edge){.at = at, .unit = unit, .start = start};
	return 0;
}

static int add_range(struct build *b, uint32_t unit, uint64_t lo, uint64_t hi)
{
	int r = push_edge(b, lo, unit, true);

	return r < 0 ? r : push_edge(b, hi, unit, false);
}

/* Reads one set of .debug_aranges, after its length. Source: DWARF 5 §6.1.2. */
static int read_set(struct build *b, uint64_t start, uint64_t off, uint64_t end, size_t offset_size)
{
	struct dw_span s = dw_span_all(&b->d->main.secs[DW_SEC_ARANGES]);
	uint64_t version = 0, info = 0, sizes = 0;
	uint8_t tuple[16];
	size_t size;
	uint32_t unit;
	int r = dw_span_num(b->d, &s, off, 2, &version);

	r = r < 0 ? r : dw_span_num(b->d, &s, off + 2, offset_size, &info);
	r = r < 0 ? r : dw_span_num(b->d, &s, off + 2 + offset_size, 2, &sizes);
	if (r < 0)
		return r;
	size = (size_t)(sizes & 0xff);
	if (version != 2 || (size != 4 && size != 8) || sizes >> 8 != 0)
		return -ENOTSUP;
	unit = dw_units_find(&b->d->main, info);
	if (unit == DW_NO_UNIT || b->d->main.units.p[unit] != info)
		return -EINVAL;
	off += 4 + offset_size;
	off = start + (off - start + 2 * size - 1) / (2 * size) * (2 * size);
	for (; off <= end && end - off >= 2 * size; off += 2 * size) {
		uint64_t lo = 0, len = 0, hi;

		r = dw_step(b->d);
		r = r < 0 ? r : dw_sec_read(b->d, s.sec, off, tuple, 2 * size);
		if (r < 0)
			return r;
		memcpy(&lo, tuple, size);
		memcpy(&len, tuple + size, size);
		/* Compilers end the list so; some also list functions that were discarded. */
		if (lo == 0 && len == 0)
			break;
		if (lo <= 1 || len == 0 || __builtin_add_overflow(lo, len, &hi))
			continue;
		r = add_range(b, unit, lo, hi);
		if (r < 0)
			return r;
	}
	b->known[unit] = 1;
	return 0;
}

static int read_aranges(struct build *b)
{
	struct dw_span s = dw_span_all(&b->d->main.secs[DW_SEC_ARANGES]);
	uint64_t off = 0;

	while (off < s.size) {
		uint64_t start = off, len = 0;
		size_t offset_size = 4;
		int r = dw_step(b->d);

		r = r < 0 ? r : dw_span_num(b->d, &s, off, 4, &len);
		off += 4;
		if (r == 0 && len == DWARF3_LENGTH_64_BIT) {
			r = dw_span_num(b->d, &s, off, 8, &len);
			off += 8;
			offset_size = 8;
		}
		if (r == 0 && len > s.size - off)
			r = -EINVAL;
		if (r < 0)
			return dw_note(b->d, r); /* the offset of the next set is unknown */
		r = read_set(b, start, off, off + len, offset_size);
		if (r == -E2BIG)
			return r;
		if (r < 0 && dw_note(b->d, r) < 0)
			return r;
		off += len;
	}
	return 0;
}

/* Adds the ranges of the unit's own entry. */
static int read_unit(struct build *b, uint32_t unit)
{
	struct dw_ranges l;
	struct dw_die die = {0};
	struct dw_cu cu;
	uint64_t lo, hi;
	int r;

	dw_cu_init(&cu, &b->d->main);
	r = dw_cu_open(b->d, &cu, b->d->main.units.p[unit], DW_CU_RANGES);
	if (r == 0 && cu.tag != DW_TAG_partial_unit && cu.tag != DW_TAG_type_unit) {
		die.has = cu.has;
		die.v[DW_V_LOW] = cu.low_val;
		die.v[DW_V_HIGH] = cu.high_val;
		die.v[DW_V_RANGES] = cu.ranges_val;
		r = dw_ranges_of(b->d, &cu, &die, &l);
		if (r == 0) {
			while ((r = dw_ranges_next(b->d, &l, &lo, &hi)) > 0) {
				r = add_range(b, unit, lo, hi);
				if (r < 0)
					break;
			}
		}
	}
	dw_cu_done(b->d, &cu);
	return r;
}

static int by_address(const void *pa, const void *pb)
{
	const struct edge *a = pa, *b = pb;

	return (a->at > b->at) - (a->at < b->at);
}

/* Units with a range that is open at an address: a heap, lowest first. Closed ones stay in it until
 * they are on top. */
struct open_units {
	uint32_t *heap; /* heap[n], at most one element for each start */
	size_t n;
	uint32_t *cnt; /* cnt[units.n]: ranges that are open */
};

static void heap_push(struct open_units *o, uint32_t unit)
{
	size_t i = o->n++;

	while (i > 0 && o->heap[(i - 1) / 2] > unit) {
		o->heap[i] = o->heap[(i - 1) / 2];
		i = (i - 1) / 2;
	}
	o->heap[i] = unit;
}

static void heap_pop(struct open_units *o)
{
	uint32_t last = o->heap[--o->n];
	size_t i = 0;

	for (;;) {
		size_t k = 2 * i + 1;

		if (k >= o->n)
			break;
		if (k + 1 < o->n && o->heap[k + 1] < o->heap[k])
			k++;
		if (o->heap[k] >= last)
			break;
		o->heap[i] = o->heap[k];
		i = k;
	}
	o->heap[i] = last;
}

/* Adds [prev, at): to the previous range's unit if it is still open, else to the lowest one. */
static int end_range(struct dw_file *d, struct open_units *o, uint64_t prev, uint64_t at)
{
	struct dw_arange *last = d->ranges.n ? &d->ranges.p[d->ranges.n - 1] : NULL;

	while (o->n > 0 && o->cnt[o->heap[0]] == 0)
		heap_pop(o);
	if (o->n == 0 || prev >= at)
		return 0;
	if (last && last->hi == prev && o->cnt[last->unit] > 0) {
		last->hi = at;
		return 0;
	}
	return vec_push(&d->ranges, (struct dw_arange){prev, at, o->heap[0]});
}

static int sweep(struct build *b)
{
	struct dw_file *d = b->d;
	struct open_units o = {0};
	size_t n_units = d->main.units.n, n = b->edges.n, held = 0;
	uint64_t prev = UINT64_MAX;
	struct dw_arange *p;
	int r;

	if (n == 0)
		return 0;
	qsort(b->edges.p, n, sizeof(*b->edges.p), by_address);
	/* Each pair of edges makes at most two ranges. */
	held = n * sizeof(*d->ranges.p);
	r = dw_alloc(d, n_units * sizeof(*o.cnt), &o.cnt);
	r = r < 0 ? r : dw_alloc(d, n * sizeof(*o.heap), &o.heap);
	r = r < 0 ? r : dw_charge(d, held);
	if (r < 0)
		goto out;
	d->ranges.max = n;
	for (size_t i = 0; i < n && r == 0; i++) {
		const struct edge *e = &b->edges.p[i];

		if (prev < e->at)
			r = end_range(d, &o, prev, e->at);
		if (!e->start) {
			/* An empty range's edges could come in any order, but no range is empty. */
			o.cnt[e->unit]--;
		} else if (o.cnt[e->unit]++ == 0) {
			heap_push(&o, e->unit);
		}
		prev = e->at;
	}
	if (r == 0 && d->ranges.n > 0) {
		p = realloc(d->ranges.p, d->ranges.n * sizeof(*p));
		if (p) {
			d->ranges.p = p;
			d->ranges.cap = d->ranges.n;
		}
	}
	dw_release(d, held);
	r = r < 0 ? r : dw_charge(d, d->ranges.cap * sizeof(*d->ranges.p));
	if (r < 0)
		vec_done(&d->ranges);
out:
	dw_dealloc(d, o.heap, n * sizeof(*o.heap));
	dw_dealloc(d, o.cnt, n_units * sizeof(*o.cnt));
	return r;
}

/* Returns an error that ends the index, or counts it and returns 0. */
static int note_unit(struct dw_file *d, int r)
{
	if (r < 0 && (r == -ETIME || r == -E2BIG || !dw_is_local(r)))
		return r;
	return dw_note(d, r);
}

static int index_unit(void *arg, uint32_t unit)
{
	struct build *b = arg;
	int r = dw_step(b->d);

	r = r < 0 ? r : read_unit(b, unit);
	return note_unit(b->d, r);
}

/* Reads the units that .debug_aranges does not list. All headers were read before. */
static int read_others(struct build *b)
{
	struct dw_file *d = b->d;
	int r = dw_alloc(d, d->main.units.n, &b->known);

	r = r < 0 ? r : read_aranges(b);
	for (uint32_t i = 0; r == 0 && i < d->main.units.n; i++) {
		if (!b->known[i])
			r = index_unit(b, i);
	}
	dw_dealloc(d, b->known, d->main.units.n);
	return r;
}

int dw_index_build(struct dw_file *d)
{
	struct build b = {.d = d, .edges.max = UINT32_MAX};
	const bool aranges = dw_has(&d->main, DW_SEC_ARANGES);
	int r;

	/* Without .debug_aranges each unit is read together with its header, so that a compressed
	 * .debug_info is passed once. */
	r = dw_units_walk(d, &d->main, aranges ? NULL : index_unit, &b);
	if (r == 0 && d->main.secs[DW_SEC_INFO].failed == -E2BIG)
		r = -E2BIG;
	if (r == 0 && aranges)
		r = read_others(&b);
	if (r == -ETIME) { /* the units read so far are indexed */
		d->stats.over_steps++;
		r = 0;
	}
	r = r < 0 ? r : sweep(&b);
	if (r == -E2BIG)
		d->stats.over_limit++;
	dw_vec_done(d, &b.edges);
	return r;
}

uint32_t dw_index_find(const struct dw_file *d, uint64_t addr)
{
	const size_t n = bisect_first(i, 0, d->ranges.n, d->ranges.p[i].lo > addr);

	return n && addr < d->ranges.p[n - 1].hi ? d->ranges.p[n - 1].unit : DW_NO_UNIT;
}
