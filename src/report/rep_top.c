/* SPDX-License-Identifier: Apache-2.0 */
/* The table of functions. */
#include "report/rep_priv.h"

static const struct rep_column columns[] = {
        {"self", "self", REP_VALUE},        {"self_pct", "self %", REP_SHARE},
        {"cum", "cum", REP_VALUE},          {"cum_pct", "cum %", REP_SHARE},
        {"function", "function", REP_NAME}, {"module", "module", REP_PATH},
        {"self_samples", NULL, REP_COUNT},  {"cum_samples", NULL, REP_COUNT},
};

double rep_share(int64_t part, int64_t whole)
{
	return whole ? 100 * (double)part / (double)whole : 0;
}

void rep_section_add(struct rep_view *v, const struct prof_sample *s)
{
	v->section->total = prof_sat_add(v->section->total, s->value[v->type_idx]);
	v->section->whole = prof_sat_add(v->section->whole, rep_size(s->value[v->type_idx]));
	if (v->count_idx < v->m->n_types)
		v->section->samples = prof_sat_add(v->section->samples, s->value[v->count_idx]);
}

const char *rep_fn_name(struct rep_doc *d, const struct prof_model *m, uint32_t name, uint32_t path)
{
	if (name)
		return prof_model_str(m, name);
	if (!path)
		return "[unknown]";
	return rep_doc_text(d, "[%s]", str_base_name(prof_model_str(m, path)));
}

static int add_row(struct rep_view *v, struct rep_table *t, const struct rep_fn *fn, int64_t total)
{
	const char *name = rep_fn_name(v->doc, v->m, fn->name, fn->path);
	const struct rep_cell cells[] = {
	        {.num = fn->self},
	        {.real = rep_share(fn->self, total)},
	        {.num = fn->cum},
	        {.real = rep_share(fn->cum, total)},
	        {.text = name},
	        {.text = fn->several ? "[several]" : prof_model_str(v->m, fn->path)},
	        {.num = fn->self_cnt},
	        {.num = fn->cum_cnt},
	};

	_Static_assert(ARRAY_SIZE(cells) == ARRAY_SIZE(columns), "a cell a column");
	return name ? rep_table_row(t, cells) : -ENOMEM;
}

int rep_top_table(struct rep_view *v, const struct rep_fns *all, size_t rows)
{
	const struct rep_options *o = v->doc->o;
	const size_t shown = o->max_rows ? MIN_OF(rows, o->max_rows) : rows;
	struct rep_table *t =
	        rep_doc_table(v->section, "functions", NULL, columns, ARRAY_SIZE(columns));
	_cleanup_(sbuf_done) struct sbuf b;
	int64_t rest = 0;
	int r = t ? 0 : -ENOMEM;

	for (size_t i = 0; i < shown && r == 0; i++)
		r = add_row(v, t, &all->p[i], all->whole);
	for (size_t i = shown; i < rows; i++)
		rest = prof_sat_add(rest, all->p[i].self);
	sbuf_init(&b, 1024);
	if (rows > shown)
		(void)sbuf_addf(&b, "and %zu more function%s", rows - shown,
		                rows - shown == 1 ? "" : "s");
	if (rows > shown && !o->by_cum) {
		(void)sbuf_str(&b, " with ");
		rep_put_pct(&b, rep_share(rest, all->whole), all->samples);
		(void)sbuf_str(&b, " %");
	}
	if (all->by_site)
		(void)sbuf_addf(&b, "%s" REP_SITE_LINE, rows > shown ? "\n" : "");
	if (r == 0 && (b.len || b.err)) {
		t->rest = b.err ? NULL : rep_doc_text(v->doc, "%s", b.p);
		r = t->rest ? 0 : -ENOMEM;
	}
	return r;
}

int rep_view_top(struct rep_view *v)
{
	const bool by_cum = v->doc->o->by_cum;
	_cleanup_(rep_fns_done) struct rep_fns all = {0};
	size_t rows;
	int r = rep_view_functions(v, by_cum, &all);

	if (r < 0)
		return r;
	/* Functions that only call others say nothing in a table by self value. */
	for (rows = 0; rows < all.n && (by_cum || all.p[rows].self); rows++)
		;
	return rep_top_table(v, &all, rows);
}
