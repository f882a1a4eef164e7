/* SPDX-License-Identifier: Apache-2.0 */
/* Callers and callees of functions, as `go tool pprof -peek` has them. */
#include "report/rep_priv.h"

#define FUNCTIONS_SHOWN 10
#define EDGES_MAX       16777216U
#define EDGE_BYTES_MAX  ((size_t)1 << 30)

static const struct rep_column columns[] = {
        {"value", "value", REP_VALUE},
        {"value_pct", "share", REP_SHARE},
        {"function", "function", REP_NAME},
        {"module", "module", REP_PATH},
};

/* A call from one function to another; its key has no padding. */
struct edge_key {
	uint32_t caller, callee; /* nodes */
};

struct edge {
	struct edge_key key;
	uint32_t path_caller, path_callee; /* strings: of the first call */
	int64_t value;
	size_t seen; /* number + 1 of the last sample that had it */
};

struct calls {
	struct rep_view *v;
	uint8_t *subject;       /* by node: it is asked for */
	struct intern *keys;    /* struct edge_key */
	VEC(struct edge) edges; /* by id of keys */
	struct rep_frames frames;
};

static void calls_done(struct calls *c)
{
	freep(&c->subject);
	c->keys = intern_free(c->keys);
	vec_done(&c->edges);
	rep_frames_done(&c->frames);
}

static int add_edge(struct calls *c, const struct rep_frame *caller, const struct rep_frame *callee,
                    size_t sample, int64_t value)
{
	struct edge e = {.key = {.caller = caller->node, .callee = callee->node},
	                 .path_caller = caller->path,
	                 .path_callee = callee->path};
	uint32_t id;
	bool is_new;
	int r = intern_add(c->keys, &e.key, sizeof(e.key), &id, &is_new);

	if (r == 0 && is_new)
		r = vec_push(&c->edges, e);
	if (r < 0)
		return r;
	if (c->edges.p[id].seen != sample + 1) /* a sample counts once */
		c->edges.p[id].value = prof_sat_add(c->edges.p[id].value, value);
	c->edges.p[id].seen = sample + 1;
	return 0;
}

static int visit_sample(struct calls *c, size_t sample)
{
	const struct prof_model *m = c->v->m;
	const struct prof_sample *s = &m->samples.p[sample];
	const struct rep_frame *f;
	int r = rep_frames_of(m, s, &c->frames);

	f = c->frames.v.p;
	for (size_t i = 0; i + 1 < c->frames.v.n && r == 0; i++) {
		/* A function that calls itself is one function. */
		if ((c->subject[f[i].node] || c->subject[f[i + 1].node]) &&
		    f[i].node != f[i + 1].node)
			r = add_edge(c, &f[i + 1], &f[i], sample, s->value[c->v->type_idx]);
	}
	return r;
}

static int compare(const void *a, const void *b)
{
	const struct edge *x = *(const struct edge *const *)a, *y = *(const struct edge *const *)b;

	if (x->value != y->value)
		return (x->value < y->value) - (x->value > y->value);
	return memcmp(&x->key, &y->key, sizeof(x->key));
}

/* Adds the table of callers, or callees, of the function with this node. */
static int add_table(struct calls *c, const struct rep_fn *fn, uint32_t node, bool callers)
{
	struct rep_doc *d = c->v->doc;
	_cleanup_free_ const struct edge **list = calloc(c->edges.n + 1, sizeof(*list));
	const char *name = rep_node_name(d, c->v->m, node);
	struct rep_table *t =
	        rep_doc_table(c->v->section, callers ? "callers" : "callees",
	                      callers ? "callers of" : "callees of", columns, ARRAY_SIZE(columns));
	size_t n = 0;
	int r = 0;

	if (!list || !t || !name)
		return -ENOMEM;
	t->subject = name;
	for (size_t i = 0; i < c->edges.n; i++)
		if ((callers ? c->edges.p[i].key.callee : c->edges.p[i].key.caller) == node)
			list[n++] = &c->edges.p[i];
	qsort(list, n, sizeof(*list), compare);
	for (size_t i = 0; i < n && (!d->o->max_rows || i < d->o->max_rows) && r == 0; i++) {
		const struct edge *e = list[i];
		const struct rep_cell cells[] = {
		        {.num = e->value},
		        {.real = rep_share(e->value, fn->cum)},
		        {.text = rep_node_name(d, c->v->m,
		                               callers ? e->key.caller : e->key.callee)},
		        {.text = prof_model_str(c->v->m,
		                                callers ? e->path_caller : e->path_callee)},
		};

		_Static_assert(ARRAY_SIZE(cells) == ARRAY_SIZE(columns), "a cell a column");
		r = cells[2].text ? rep_table_row(t, cells) : -ENOMEM;
	}
	if (r == 0 && d->o->max_rows && n > d->o->max_rows) {
		t->rest = rep_doc_text(d, "and %zu more", n - d->o->max_rows);
		r = t->rest ? 0 : -ENOMEM;
	}
	return r;
}

int rep_view_peek(struct rep_view *v, struct err *err)
{
	_cleanup_(calls_done) struct calls c = {.v = v, .edges.max = EDGES_MAX};
	_cleanup_(rep_fns_done) struct rep_fns all = {0};
	size_t n = 0;
	int r = rep_view_functions(v, true, &all);

	if (r < 0)
		return r;
	c.subject = calloc(2 * (size_t)intern_count(v->m->strings), 1);
	r = c.subject ? intern_new(EDGES_MAX, EDGE_BYTES_MAX, &c.keys) : -ENOMEM;
	if (r == 0)
		r = rep_select(v, &all, &n, err);
	for (size_t i = 0; i < n; i++)
		c.subject[rep_fn_node(v->m, &all.p[i])] = 1;
	for (size_t i = 0; i < v->m->samples.n && r == 0; i++)
		r = visit_sample(&c, i);
	if (r < 0)
		return r;
	all.n = n;
	r = rep_top_table(v, &all, n);
	for (size_t i = 0; i < MIN_OF(n, (size_t)FUNCTIONS_SHOWN) && r == 0; i++) {
		r = add_table(&c, &all.p[i], rep_fn_node(v->m, &all.p[i]), true);
		if (r == 0)
			r = add_table(&c, &all.p[i], rep_fn_node(v->m, &all.p[i]), false);
	}
	return r;
}
