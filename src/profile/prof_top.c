/* SPDX-License-Identifier: Apache-2.0 */
#include "profile/profile.h"

/*
 * One node for each name, as `go tool pprof -top` has it, then one for the unnamed code of each
 * mapping:
 *   index i < n_strings   function name i (0 unused)
 *   index n_strings + m   locations of mapping m (0: none) that have no function
 */
struct node {
	int64_t self, cum;
	uint32_t mapping;
	bool several;  /* not all in one file */
	uint32_t seen; /* number + 1 of the last sample that had it, 0 none */
};

struct report {
	const struct prof_model *m;
	struct node *nodes;
	size_t n_strings, n_nodes;
	prof_skip_fn skip; /* NULL: none */
};

static void visit(struct report *rep, const struct prof_location *loc, size_t at, uint32_t sample,
                  int64_t value, bool leaf)
{
	struct node *node = &rep->nodes[at];

	if (node->seen == 0)
		node->mapping = loc->mapping;
	else if (prof_mapping_path(rep->m, loc->mapping) !=
	         prof_mapping_path(rep->m, node->mapping))
		node->several = true;
	if (node->seen != sample + 1) /* recursion counts once */
		node->cum = prof_sat_add(node->cum, value);
	if (leaf)
		node->self = prof_sat_add(node->self, value);
	node->seen = sample + 1;
}

static uint32_t name_of(const struct prof_model *m, const struct prof_line *line)
{
	return line->function ? m->functions.p[line->function - 1].name : 0;
}

/* Returns the location that has the self value of a sample: the first that is not skipped. */
static uint32_t leaf_of(const struct report *rep, const struct prof_sample *s)
{
	const struct prof_model *m = rep->m;

	for (uint32_t i = 0; rep->skip && i < s->loc_cnt; i++) {
		const struct prof_location *loc =
		        &m->locations.p[m->loc_ids.p[s->loc_first + i] - 1];
		const char *path = "", *name = "";

		if (loc->mapping)
			path = prof_model_str(m, m->mappings.p[loc->mapping - 1].path);
		if (loc->line_cnt)
			name = prof_model_str(m, name_of(m, &m->lines.p[loc->line_first]));
		if (!rep->skip(path, name))
			return i;
	}
	return 0;
}

static void visit_sample(struct report *rep, uint32_t sample, uint32_t type_idx)
{
	const struct prof_model *m = rep->m;
	const struct prof_sample *s = &m->samples.p[sample];
	int64_t value = s->value[type_idx];
	uint32_t leaf = leaf_of(rep, s);

	for (uint32_t i = 0; i < s->loc_cnt; i++) {
		const struct prof_location *loc =
		        &m->locations.p[m->loc_ids.p[s->loc_first + i] - 1];
		size_t unnamed = rep->n_strings + loc->mapping;

		for (uint32_t k = 0; k < loc->line_cnt; k++) {
			uint32_t name = name_of(m, &m->lines.p[loc->line_first + k]);

			visit(rep, loc, name ? name : unnamed, sample, value, i == leaf && k == 0);
		}
		if (loc->line_cnt == 0)
			visit(rep, loc, unnamed, sample, value, i == leaf);
	}
}

static int cmp_top(const void *a, const void *b, void *arg)
{
	const struct prof_top *x = a, *y = b;
	const struct prof_model *m = arg;
	int r;

	if (x->self != y->self)
		return (x->self < y->self) - (x->self > y->self);
	if (x->cum != y->cum)
		return (x->cum < y->cum) - (x->cum > y->cum);
	r = strcmp(prof_model_str(m, x->name), prof_model_str(m, y->name));
	return r ? r : (x->mapping > y->mapping) - (x->mapping < y->mapping);
}

static int collect(const struct report *rep, size_t max, struct prof_top **ret, size_t *ret_n)
{
	_cleanup_free_ struct prof_top *top = NULL;
	size_t n = 0;

	for (size_t i = 0; i < rep->n_nodes; i++)
		n += rep->nodes[i].seen != 0;
	top = calloc(n ? n : 1, sizeof(*top));
	if (!top)
		return -ENOMEM;
	n = 0;
	for (size_t i = 0; i < rep->n_nodes; i++) {
		const struct node *node = &rep->nodes[i];

		if (node->seen == 0)
			continue;
		top[n++] = (struct prof_top){.name = i < rep->n_strings ? (uint32_t)i : 0,
		                             .mapping = node->mapping,
		                             .several = node->several,
		                             .self = node->self,
		                             .cum = node->cum};
	}
	/* The const goes into a call-back that takes it back as const. */
	qsort_r(top, n, sizeof(*top), cmp_top, (void *)(uintptr_t)rep->m);
	*ret_n = MIN_OF(n, max);
	*ret = TAKE_PTR(top);
	return 0;
}

const char *prof_top_module(const struct prof_model *m, const struct prof_top *t)
{
	return t->several ? "[several]" : prof_model_str(m, prof_mapping_path(m, t->mapping));
}

int prof_model_top(const struct prof_model *m, uint32_t type_idx, size_t max, struct prof_top **ret,
                   size_t *ret_n)
{
	return prof_model_top_beyond(m, type_idx, NULL, max, ret, ret_n);
}

int prof_model_top_beyond(const struct prof_model *m, uint32_t type_idx, prof_skip_fn skip,
                          size_t max, struct prof_top **ret, size_t *ret_n)
{
	_cleanup_free_ struct node *nodes = NULL;
	struct report rep = {.m = m, .n_strings = intern_count(m->strings), .skip = skip};

	if (type_idx >= m->n_types)
		return -EINVAL;
	rep.n_nodes = rep.n_strings + m->mappings.n + 1;
	rep.nodes = nodes = calloc(rep.n_nodes, sizeof(*nodes));
	if (!nodes)
		return -ENOMEM;
	for (size_t i = 0; i < m->samples.n; i++)
		visit_sample(&rep, (uint32_t)i, type_idx);
	return collect(&rep, max, ret, ret_n);
}
