/* SPDX-License-Identifier: Apache-2.0 */
/* Profiles in other formats. */
#include "report/rep_priv.h"

#define TYPES_BYTES_MAX 256

static const char *unit_of(const struct rep_group *g, uint32_t i)
{
	return prof_model_str(g->m, g->m->sample_type[i].unit);
}

/* As the folded stacks of a capture: numbers of samples if the profile counts them, else time in
 * microseconds. */
static int to_folded(const struct rep_options *o, const struct rep_group *g, struct sbuf *out)
{
	struct enc_folded_options folded = {.type_idx = g->type_idx};
	bool sampled;
	const uint32_t count_idx = rep_count_idx(g->m, &sampled);

	if ((!o->value || !*o->value) && sampled)
		folded.type_idx = count_idx;
	if (strcmp(unit_of(g, folded.type_idx), "nanoseconds") == 0)
		folded.divisor = 1000;
	return enc_folded(g->m, &folded, out);
}

static int to_html(const struct rep_groups *groups, struct sbuf *out)
{
	_cleanup_free_ struct enc_flame_profile *p = calloc(groups->v.n, sizeof(*p));

	if (!p)
		return -ENOMEM;
	for (size_t i = 0; i < groups->v.n; i++)
		p[i].model = groups->v.p[i].m;
	return enc_flame_html(p, groups->v.n, out);
}

/* Returns the last type of values that no other group has; NULL: none. */
static const char *own_type(const struct rep_groups *groups, size_t i)
{
	const struct prof_model *m = groups->v.p[i].m;

	for (uint32_t k = m->n_types; k-- > 0;) {
		const char *type = prof_model_str(m, m->sample_type[k].type);
		size_t has = 0;

		for (size_t j = 0; j < groups->v.n; j++)
			has += rep_has_type(groups->v.p[j].m, type);
		if (has == 1)
			return type;
	}
	return NULL;
}

/* Refuses several groups for a format that has one. A perf.data with both modes has two. */
static int refuse_groups(const struct rep_groups *groups, struct err *err)
{
	const struct rep_input *one = groups->v.p[0].first, *two = groups->v.p[1].first;
	const bool same = !strcmp(one->name, two->name);
	_cleanup_(sbuf_done) struct sbuf b;

	sbuf_init(&b, TYPES_BYTES_MAX); /* a longer list loses its end */
	for (size_t i = 0; i < groups->v.n; i++) {
		const char *type = own_type(groups, i);

		if (type)
			(void)sbuf_addf(&b, "%s%s", b.len ? " or " : "; give --value ", type);
	}
	return err_set(err, -EINVAL,
	               "%s%s%s %s values of different types, which this format cannot have in one "
	               "file%s",
	               one->name, same ? "" : " and ", same ? "" : two->name, same ? "has" : "have",
	               b.p ? b.p : "");
}

int rep_convert(const struct rep_options *o, const struct rep_groups *groups, struct sbuf *out,
                struct err *err)
{
	const struct rep_group *g = &groups->v.p[0];

	if (o->format == REP_HTML)
		return to_html(groups, out);
	if (groups->v.n > 1)
		return refuse_groups(groups, err);
	if (o->format == REP_FOLDED)
		return to_folded(o, g, out);
	return o->format == REP_SVG ? enc_flame_svg(g->m, g->type_idx, out) : enc_pprof(g->m, out);
}

int rep_convert_diff(const struct rep_options *o, const struct rep_groups *before,
                     const struct rep_groups *after, struct sbuf *out, struct err *err)
{
	const struct rep_group *g = &after->v.p[0], *base = rep_group_like(before, g);
	struct enc_flame_diff d = {.after = g->m, .after_name = g->first->name};

	if (!base)
		return err_set(err, -EINVAL, "%s and %s have values of different types",
		               before->v.p[0].first->name, g->first->name);
	d.before = base->m;
	d.before_name = base->first->name;
	if (o->format == REP_HTML)
		return enc_flame_diff_html(&d, out);
	if (o->format == REP_SVG)
		return enc_flame_diff_svg(&d, g->type_idx, out);
	return err_set(err, -EINVAL, "changes are no profile: this format cannot have them");
}
