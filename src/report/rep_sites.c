/* SPDX-License-Identifier: Apache-2.0 */
/* Values of one function by source line and by address. */
#include "report/rep_priv.h"

#define SITES_MAX       16777216U
#define SITES_BYTES_MAX ((size_t)1 << 30)

/* Keys have no padding. */
struct line_key {
	int64_t line;
	uint64_t file;
};
struct address_key {
	uint64_t off;
	uint32_t path, build_id;
};

struct fold {
	const struct prof_model *m;
	uint32_t type_idx, name;
	struct rep_sites sites;
	struct intern *line_keys, *address_keys; /* ids are indexes of .sites */
};

static void fold_done(struct fold *f)
{
	rep_sites_done(&f->sites);
	intern_freep(&f->line_keys);
	intern_freep(&f->address_keys);
}

/* Adds the value of a sample, once to @cum. */
static void add_value(const struct fold *f, size_t sample, bool leaf, int64_t *self, int64_t *cum,
                      size_t *seen)
{
	const int64_t value = f->m->samples.p[sample].value[f->type_idx];

	if (leaf)
		*self = prof_sat_add(*self, value);
	if (*seen != sample + 1)
		*cum = prof_sat_add(*cum, value);
	*seen = sample + 1;
}

static int add_line(struct fold *f, const struct prof_line *l, size_t sample, bool leaf)
{
	const struct line_key key = {.line = MAX_OF(l->line, (int64_t)0),
	                             .file = f->m->functions.p[l->function - 1].file};
	const struct rep_line_sum none = {.file = (uint32_t)key.file, .line = key.line};
	struct rep_line_sum *sum;
	uint32_t id;
	bool is_new;
	int r = intern_add(f->line_keys, &key, sizeof(key), &id, &is_new);

	if (r == 0 && is_new)
		r = vec_push(&f->sites.lines, none);
	if (r < 0)
		return r;
	sum = &f->sites.lines.p[id];
	add_value(f, sample, leaf, &sum->self, &sum->cum, &sum->seen);
	return 0;
}

static int add_address(struct fold *f, const struct prof_location *loc, int64_t line, size_t sample,
                       bool leaf)
{
	const struct prof_mapping *map = loc->mapping ? &f->m->mappings.p[loc->mapping - 1] : NULL;
	/* Without a range nothing says where in the file an address is. */
	const bool known = map && map->limit && loc->address;
	const struct address_key key = {.off = known ? loc->address - map->start + map->offset
	                                             : loc->address,
	                                .path = known ? map->path : 0,
	                                .build_id = known ? map->build_id : 0};
	const struct rep_address_sum none = {
	        .path = key.path, .build_id = key.build_id, .off = key.off, .line = line};
	struct rep_address_sum *sum;
	uint32_t id;
	bool is_new;
	int r = intern_add(f->address_keys, &key, sizeof(key), &id, &is_new);

	if (r == 0 && is_new)
		r = vec_push(&f->sites.addresses, none);
	if (r < 0)
		return r;
	sum = &f->sites.addresses.p[id];
	add_value(f, sample, leaf, &sum->self, &sum->cum, &sum->seen);
	return 0;
}

/* The innermost line of a leaf has the self value, as in rep_functions. */
static int add_location(struct fold *f, const struct prof_location *loc, size_t sample, bool leaf)
{
	bool inside = false;
	int64_t line = 0;
	int r = 0;

	for (uint32_t k = 0; k < loc->line_cnt && r == 0; k++) {
		const struct prof_line *l = &f->m->lines.p[loc->line_first + k];

		if (rep_line_name(f->m, l) != f->name)
			continue;
		line = inside ? line : MAX_OF(l->line, (int64_t)0);
		inside = true;
		r = add_line(f, l, sample, leaf && k == 0);
	}
	if (!inside || r < 0)
		return r;
	return add_address(f, loc, line, sample,
	                   leaf && rep_line_name(f->m, &f->m->lines.p[loc->line_first]) == f->name);
}

static int compare_lines(const void *a, const void *b)
{
	const struct rep_line_sum *x = a, *y = b;

	if (x->file != y->file)
		return x->file < y->file ? -1 : 1;
	return (x->line > y->line) - (x->line < y->line);
}

static int compare_addresses(const void *a, const void *b)
{
	const struct rep_address_sum *x = a, *y = b;

	if (x->path != y->path)
		return x->path < y->path ? -1 : 1;
	if (x->build_id != y->build_id)
		return x->build_id < y->build_id ? -1 : 1;
	return (x->off > y->off) - (x->off < y->off);
}

int rep_sites_of(const struct prof_model *m, uint32_t type_idx, uint32_t name,
                 struct rep_sites *ret)
{
	_cleanup_(fold_done) struct fold f = {.m = m,
	                                      .type_idx = type_idx,
	                                      .name = name,
	                                      .sites.lines.max = SITES_MAX,
	                                      .sites.addresses.max = SITES_MAX};
	const bool by_site = rep_by_site(m);
	int r = intern_new(SITES_MAX, SITES_BYTES_MAX, &f.line_keys);

	assert(type_idx < m->n_types && name);
	if (r == 0)
		r = intern_new(SITES_MAX, SITES_BYTES_MAX, &f.address_keys);
	for (size_t i = 0; i < m->samples.n && r == 0; i++) {
		const struct prof_sample *s = &m->samples.p[i];
		const uint32_t leaf = rep_leaf(m, s, by_site);

		for (uint32_t k = 0; k < s->loc_cnt && r == 0; k++)
			r = add_location(&f, &m->locations.p[m->loc_ids.p[s->loc_first + k] - 1], i,
			                 k == leaf);
	}
	if (r < 0)
		return r;
	if (f.sites.lines.n)
		qsort(f.sites.lines.p, f.sites.lines.n, sizeof(*f.sites.lines.p), compare_lines);
	if (f.sites.addresses.n)
		qsort(f.sites.addresses.p, f.sites.addresses.n, sizeof(*f.sites.addresses.p),
		      compare_addresses);
	*ret = f.sites;
	f.sites = (struct rep_sites){0};
	return 0;
}

void rep_sites_done(struct rep_sites *s)
{
	vec_done(&s->lines);
	vec_done(&s->addresses);
}
