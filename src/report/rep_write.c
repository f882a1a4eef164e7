/* SPDX-License-Identifier: Apache-2.0 */
/* From profiles to the bytes of a report. */
#include "report/rep_priv.h"

/* Adds an empty section for a group; .count_idx of @v is set. */
static int begin_section(struct rep_doc *d, const struct rep_group *g, struct rep_view *v)
{
	const struct prof_type *t = &g->m->sample_type[g->type_idx];
	struct rep_section s = {.type = prof_model_str(g->m, t->type),
	                        .unit = prof_model_str(g->m, t->unit)};
	bool sampled;
	const uint32_t count_idx = rep_count_idx(g->m, &sampled);
	int r = vec_push(&d->sections, s);

	if (r < 0)
		return r;
	*v = (struct rep_view){.doc = d,
	                       .section = &d->sections.p[d->sections.n - 1],
	                       .group = g,
	                       .m = g->m,
	                       .type_idx = g->type_idx,
	                       .count_idx = sampled ? count_idx : UINT32_MAX,
	                       .event_idx = count_idx};
	return 0;
}

/* Adds the section of a group with the view that was asked for. */
static int add_section(struct rep_doc *d, const struct rep_group *g, struct err *err)
{
	struct rep_view v;
	int r = begin_section(d, g, &v);

	if (r < 0)
		return r;
	v.count_idx = v.event_idx;
	switch (d->o->view) {
	case REP_TOP:
		return rep_view_top(&v);
	case REP_PEEK:
		return rep_view_peek(&v, err);
	case REP_TREE:
		return rep_view_tree(&v);
	case REP_BY:
		return rep_view_by(&v, err);
	case REP_ANNOTATE:
		return rep_view_annotate(&v, err);
	case REP_DIFF:
		break; /* not of one group */
	}
	return -EINVAL;
}

/* Adds a section for each group whose values both have. */
static int add_changes(struct rep_doc *d, const struct rep_groups *before,
                       const struct rep_groups *after, struct err *err)
{
	int r = 0;

	for (size_t i = 0; i < after->v.n && r == 0; i++) {
		const struct rep_group *g = &after->v.p[i];
		const struct rep_group *base = rep_group_shown_like(before, g);
		struct rep_view one, two;

		if (!base)
			continue;
		r = begin_section(d, g, &two);
		if (r == 0)
			r = begin_section(d, base, &one);
		if (r < 0)
			return r;
		d->sections.n--; /* that of the earlier one has no tables */
		two.section = &d->sections.p[d->sections.n - 1];
		r = rep_view_diff(&one, &two);
	}
	if (r == 0 && !d->sections.n && before->v.n && after->v.n)
		return err_set(err, -EINVAL, "%s and %s have values of different types",
		               before->v.p[0].first->name, after->v.p[0].first->name);
	return r;
}

/* Adds the quality of an input, and how much of it the filters leave. */
static int read_quality(const struct rep_options *o, const struct rep_groups *g,
                        const struct rep_input *in, struct rep_quality *ret)
{
	_cleanup_(prof_model_freep) struct prof_model *left = NULL;
	const struct rep_group *own = NULL;
	struct err err = {0};
	int r = 0;

	for (size_t i = 0; i < g->v.n; i++)
		if (g->v.p[i].first == in && g->v.p[i].n_members == 1)
			own = &g->v.p[i];
	if (!rep_filter_any(&o->filter))
		return rep_quality_of(in->model, NULL, ret);
	if (own)
		return rep_quality_of(in->model, own->m, ret);
	r = rep_filter(in->model, &o->filter, &left, &err);
	if (r == -ENOENT) /* the filters leave samples of another file only */
		r = prof_model_new(&left);
	return r < 0 ? r : rep_quality_of(in->model, left, ret);
}

static int add_sources(struct rep_doc *d, const struct rep_groups *g, const struct rep_input *in,
                       size_t n)
{
	int r = 0;

	for (size_t i = 0; i < n && r == 0; i++) {
		struct rep_source s = {.in = &in[i]};

		r = read_quality(d->o, g, &in[i], &s.quality);
		if (d->o->value && *d->o->value && !rep_has_type(in[i].model, d->o->value))
			s.quality.lacks = d->o->value;
		if (r == 0)
			r = vec_push(&d->sources, s);
		if (r < 0)
			rep_quality_done(&s.quality);
	}
	return r;
}

static int write_document(const struct rep_options *o, const struct rep_input *in, size_t n,
                          const struct rep_groups *base, const struct rep_groups *g,
                          struct sbuf *out, struct err *err)
{
	static const char *const names[] = {"top", "peek", "tree", "by", "diff", "annotate"};
	_cleanup_(rep_doc_done) struct rep_doc d;
	struct rep_options shown = *o;
	int r;

	shown.colours = o->colours && o->format == REP_TEXT;
	shown.width = o->format == REP_TEXT ? o->width : 0;
	rep_doc_init(&d, &shown);
	d.view = names[o->view];
	r = add_sources(&d, base, o->base, o->n_base);
	if (r == 0)
		r = add_sources(&d, g, in, n);
	if (r == 0 && o->view == REP_DIFF)
		r = add_changes(&d, base, g, err);
	for (size_t i = 0; i < g->v.n && r == 0 && o->view != REP_DIFF; i++)
		r = add_section(&d, &g->v.p[i], err);
	if (r < 0)
		return r;
	if (o->format == REP_MARKDOWN)
		return rep_doc_write_markdown(&d, out);
	return o->format == REP_JSON ? rep_doc_write_json(&d, out) : rep_doc_write_text(&d, out);
}

int rep_write(const struct rep_options *o, const struct rep_input *in, size_t n, struct sbuf *out,
              struct err *err)
{
	_cleanup_(rep_groups_done) struct rep_groups g = {0}, base = {0};
	int r = o->view == REP_DIFF ? rep_groups_of(o, o->base, o->n_base, &base, err) : 0;

	if (r == 0)
		r = rep_groups_of(o, in, n, &g, err);
	if (r < 0)
		return r;
	if (o->format <= REP_JSON)
		return write_document(o, in, n, &base, &g, out, err);
	return o->view == REP_DIFF ? rep_convert_diff(o, &base, &g, out, err)
	                           : rep_convert(o, &g, out, err);
}
