/* SPDX-License-Identifier: Apache-2.0 */
/* The tree of calls, from the outermost function down, without branches below a share. */
#include <math.h>

#include "report/rep_priv.h"

#define NODES_MAX      16777216U
#define NODE_BYTES_MAX ((size_t)1 << 30)
#define NONE           UINT32_MAX

static const struct rep_column columns[] = {
        {"cum", "cum", REP_VALUE},          {"cum_pct", "cum %", REP_SHARE},
        {"self", "self", REP_VALUE},        {"self_pct", "self %", REP_SHARE},
        {"function", "function", REP_NAME}, {"module", "module", REP_PATH},
};

struct node_key {
	uint32_t parent, function; /* NONE: a root; node of rep_node */
};

struct node {
	uint32_t function, path;
	uint32_t first, next; /* child, sibling: in the order of descending values; NONE */
	int64_t cum, self;
	int64_t size;   /* cum without the signs of values */
	uint32_t times; /* most calls of itself in a row */
};

struct tree {
	struct rep_view *v;
	struct intern *keys;
	VEC(struct node) nodes; /* by id of keys */
	uint32_t first;         /* root */
	double least;           /* size of a node that is shown */
	struct rep_frames frames;
	struct rep_table *table;
	size_t left_out; /* nodes over the number of rows */
};

static void tree_done(struct tree *t)
{
	t->keys = intern_free(t->keys);
	vec_done(&t->nodes);
	rep_frames_done(&t->frames);
}

static int add_sample(struct tree *t, const struct prof_sample *s)
{
	const int64_t value = s->value[t->v->type_idx];
	struct node_key key = {.parent = NONE};
	uint32_t times = 1;
	int r;

	t->frames.addresses = t->v->doc->o->addresses;
	r = rep_frames_of(t->v->m, s, &t->frames);

	for (size_t i = t->frames.v.n; i-- > 0 && r == 0;) {
		const struct rep_frame *f = &t->frames.v.p[i];
		struct node one = {
		        .function = f->node, .path = f->path, .first = NONE, .next = NONE};
		uint32_t id;
		bool is_new;

		/* A function that calls itself has one row. */
		if (key.parent != NONE && t->nodes.p[key.parent].function == f->node) {
			struct node *same = &t->nodes.p[key.parent];

			times++;
			same->times = MAX_OF(same->times, times);
			if (i == 0)
				same->self = prof_sat_add(same->self, value);
			continue;
		}
		times = 1;
		key.function = f->node;
		r = intern_add(t->keys, &key, sizeof(key), &id, &is_new);
		if (r == 0 && is_new)
			r = vec_push(&t->nodes, one);
		if (r < 0)
			break;
		t->nodes.p[id].cum = prof_sat_add(t->nodes.p[id].cum, value);
		t->nodes.p[id].size = prof_sat_add(t->nodes.p[id].size, rep_size(value));
		if (i == 0)
			t->nodes.p[id].self = prof_sat_add(t->nodes.p[id].self, value);
		key.parent = id;
	}
	return r;
}

static int compare(const void *a, const void *b, void *arg)
{
	const struct tree *t = arg;
	const struct node *x = &t->nodes.p[*(const uint32_t *)a],
	                  *y = &t->nodes.p[*(const uint32_t *)b];

	if (x->cum != y->cum)
		return rep_larger(x->cum, y->cum);
	return (x->function > y->function) - (x->function < y->function);
}

/* Links children to their parents, the largest first. */
static int link_nodes(struct tree *t)
{
	_cleanup_free_ uint32_t *order = calloc(t->nodes.n + 1, sizeof(*order));

	if (!order)
		return -ENOMEM;
	for (uint32_t i = 0; i < t->nodes.n; i++)
		order[i] = i;
	qsort_r(order, t->nodes.n, sizeof(*order), compare, t);
	t->first = NONE;
	for (size_t i = t->nodes.n; i-- > 0;) {
		const struct node_key *key = intern_get(t->keys, order[i], NULL);
		uint32_t *first = key->parent == NONE ? &t->first : &t->nodes.p[key->parent].first;

		t->nodes.p[order[i]].next = *first;
		*first = order[i];
	}
	return 0;
}

static int add_row(struct tree *t, const struct node *n, uint32_t depth)
{
	const int64_t total = t->v->section->whole;
	const struct rep_cell cells[] = {
	        {.num = n->cum},
	        {.real = rep_share(n->cum, total)},
	        {.num = n->self},
	        {.real = rep_share(n->self, total)},
	        {.text = rep_node_name(t->v->doc, t->v->m, n->function),
	         .depth = depth,
	         .times = n->times},
	        {.text = prof_model_str(t->v->m, n->path)},
	};

	_Static_assert(ARRAY_SIZE(cells) == ARRAY_SIZE(columns), "a cell a column");
	return cells[4].text ? rep_table_row(t->table, cells) : -ENOMEM;
}

/* Adds a row for each node, depth first. Without recursion: a stack may have 65,536 frames. */
static int walk(struct tree *t)
{
	struct step {
		uint32_t node, depth;
	};
	VEC(struct step) todo = VEC_INIT(NODES_MAX);
	const size_t max = t->v->doc->o->max_rows;
	int r = 0;

	if (t->first != NONE)
		r = vec_push(&todo, (struct step){.node = t->first});
	while (todo.n && r == 0) {
		const struct step at = todo.p[--todo.n];
		const struct node *n = &t->nodes.p[at.node];

		if (n->next != NONE)
			r = vec_push(&todo, (struct step){n->next, at.depth});
		if (r < 0 || (double)n->size < t->least || n->size == 0)
			continue;
		if (max && t->table->cells.n / t->table->n_columns >= max)
			t->left_out++;
		else
			r = add_row(t, n, at.depth);
		if (r == 0 && n->first != NONE)
			r = vec_push(&todo, (struct step){n->first, at.depth + 1});
	}
	vec_done(&todo);
	return r;
}

int rep_view_tree(struct rep_view *v)
{
	_cleanup_(tree_done) struct tree t = {.v = v, .nodes.max = NODES_MAX};
	int r = intern_new(NODES_MAX, NODE_BYTES_MAX, &t.keys);

	for (size_t i = 0; i < v->m->samples.n && r == 0; i++) {
		r = add_sample(&t, &v->m->samples.p[i]);
		rep_section_add(v, &v->m->samples.p[i]);
	}
	if (r == 0)
		r = link_nodes(&t);
	if (r < 0)
		return r;
	t.least = floor((double)v->section->whole * v->doc->o->min_share);
	t.table = rep_doc_table(v->section, "tree", NULL, columns, ARRAY_SIZE(columns));
	r = t.table ? walk(&t) : -ENOMEM;
	if (r == 0 && t.left_out) {
		t.table->rest = rep_doc_text(v->doc, "and %zu more", t.left_out);
		r = t.table->rest ? 0 : -ENOMEM;
	}
	return r;
}
