/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Functions by name, as `go tool pprof -top` has them:
 *   node i < n_strings    function name i (0 unused)
 *   node n_strings + p    code without names of the file with path p (0: of no file)
 */
#include "report/rep_priv.h"

struct node {
	struct rep_fn fn;
	size_t seen; /* number + 1 of the last sample that had it, 0 none */
};

struct functions {
	const struct prof_model *m;
	uint32_t type_idx, count_idx;
	struct node *nodes;
	size_t n_strings;
	bool by_site;
};

static int64_t count_of(const struct functions *f, const struct prof_sample *s)
{
	return f->count_idx < f->m->n_types ? s->value[f->count_idx] : 0;
}

uint32_t rep_location_path(const struct prof_model *m, const struct prof_location *loc)
{
	return prof_mapping_path(m, loc->mapping);
}

uint32_t rep_line_name(const struct prof_model *m, const struct prof_line *l)
{
	const struct prof_function *fn;

	if (!l->function)
		return 0;
	fn = &m->functions.p[l->function - 1];
	/* "0x401136 [serve]", which perf-agent writes for code without a name: docs/output.md. */
	if (fn->system_name && str_starts(prof_model_str(m, fn->system_name), "unresolved: "))
		return 0;
	return fn->name;
}

static void visit(struct functions *f, const struct prof_location *loc, uint32_t name,
                  size_t sample, bool leaf)
{
	const struct prof_sample *s = &f->m->samples.p[sample];
	const uint32_t path = rep_location_path(f->m, loc);
	struct node *node = &f->nodes[name ? name : f->n_strings + path];
	struct rep_fn *fn = &node->fn;

	if (!node->seen) {
		fn->name = name;
		fn->path = path;
		fn->mapping = loc->mapping;
	} else if (fn->path != path) {
		fn->several = true;
	}
	if (node->seen != sample + 1) { /* recursion counts once */
		fn->cum = prof_sat_add(fn->cum, s->value[f->type_idx]);
		fn->cum_cnt = prof_sat_add(fn->cum_cnt, count_of(f, s));
	}
	if (leaf) {
		fn->self = prof_sat_add(fn->self, s->value[f->type_idx]);
		fn->self_cnt = prof_sat_add(fn->self_cnt, count_of(f, s));
	}
	node->seen = sample + 1;
}

bool rep_by_site(const struct prof_model *m)
{
	for (uint32_t i = 0; i < m->n_types; i++)
		if (!strcmp(prof_model_str(m, m->sample_type[i].type), "offcpu"))
			return true;
	return false;
}

uint32_t rep_leaf(const struct prof_model *m, const struct prof_sample *s, bool by_site)
{
	const struct prof_site f = by_site ? prof_site_of(m, s) : (struct prof_site){0};
	const struct prof_location *loc = prof_site_location(&f);

	for (uint32_t i = 0; i < s->loc_cnt && loc; i++)
		if (&m->locations.p[m->loc_ids.p[s->loc_first + i] - 1] == loc)
			return i;
	return 0;
}

static void visit_sample(struct functions *f, size_t sample)
{
	const struct prof_model *m = f->m;
	const struct prof_sample *s = &m->samples.p[sample];
	const uint32_t leaf = rep_leaf(m, s, f->by_site);

	for (uint32_t i = 0; i < s->loc_cnt; i++) {
		const struct prof_location *loc =
		        &m->locations.p[m->loc_ids.p[s->loc_first + i] - 1];

		for (uint32_t k = 0; k < loc->line_cnt; k++)
			visit(f, loc, rep_line_name(m, &m->lines.p[loc->line_first + k]), sample,
			      i == leaf && k == 0);
		if (loc->line_cnt == 0)
			visit(f, loc, 0, sample, i == leaf);
	}
}

int rep_functions(const struct prof_model *m, uint32_t type_idx, uint32_t count_idx,
                  struct rep_fns *ret)
{
	_cleanup_free_ struct node *nodes = NULL;
	struct functions f = {.m = m,
	                      .type_idx = type_idx,
	                      .count_idx = count_idx,
	                      .n_strings = intern_count(m->strings),
	                      .by_site = rep_by_site(m)};
	struct rep_fns all = {.by_site = f.by_site};
	size_t n = 0;

	assert(type_idx < m->n_types);
	f.nodes = nodes = calloc(2 * f.n_strings, sizeof(*nodes));
	if (!nodes)
		return -ENOMEM;
	for (size_t i = 0; i < m->samples.n; i++) {
		visit_sample(&f, i);
		all.total = prof_sat_add(all.total, m->samples.p[i].value[type_idx]);
		all.whole = prof_sat_add(all.whole, rep_size(m->samples.p[i].value[type_idx]));
		all.samples = prof_sat_add(all.samples, count_of(&f, &m->samples.p[i]));
	}
	for (size_t i = 0; i < 2 * f.n_strings; i++)
		n += nodes[i].seen != 0;
	all.p = calloc(n + 1, sizeof(*all.p));
	if (!all.p)
		return -ENOMEM;
	for (size_t i = 0; i < 2 * f.n_strings; i++)
		if (nodes[i].seen)
			all.p[all.n++] = nodes[i].fn;
	*ret = all;
	return 0;
}

void rep_fns_done(struct rep_fns *f)
{
	freep(&f->p);
	f->n = 0;
}

struct order {
	const struct prof_model *m;
	bool by_cum;
};

static int compare(const void *a, const void *b, void *arg)
{
	const struct rep_fn *x = a, *y = b;
	const struct order *o = arg;
	const int64_t first_x = o->by_cum ? x->cum : x->self,
	              first_y = o->by_cum ? y->cum : y->self;
	const int64_t then_x = o->by_cum ? x->self : x->cum, then_y = o->by_cum ? y->self : y->cum;
	int r;

	if (first_x != first_y)
		return rep_larger(first_x, first_y);
	if (then_x != then_y)
		return rep_larger(then_x, then_y);
	r = strcmp(prof_model_str(o->m, x->name), prof_model_str(o->m, y->name));
	return r ? r : strcmp(prof_model_str(o->m, x->path), prof_model_str(o->m, y->path));
}

void rep_functions_sort(const struct prof_model *m, struct rep_fns *f, bool by_cum)
{
	struct order o = {.m = m, .by_cum = by_cum};

	qsort_r(f->p, f->n, sizeof(*f->p), compare, &o);
}

int rep_view_functions(struct rep_view *v, bool by_cum, struct rep_fns *ret)
{
	int r = rep_functions(v->m, v->type_idx, v->count_idx, ret);

	if (r < 0)
		return r;
	v->section->total = ret->total;
	v->section->whole = ret->whole;
	v->section->samples = ret->samples;
	rep_functions_sort(v->m, ret, by_cum);
	return 0;
}
