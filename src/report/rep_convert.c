/* SPDX-License-Identifier: Apache-2.0 */
/* Profiles in other formats. */
#include "report/rep_priv.h"

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

int rep_convert(const struct rep_options *o, const struct rep_groups *groups, struct sbuf *out,
                struct err *err)
{
	const struct rep_group *g = &groups->v.p[0];

	if (o->format == REP_HTML)
		return to_html(groups, out);
	if (groups->v.n > 1)
		return err_set(err, -EINVAL,
		               "%s and %s have values of different types, which this format cannot "
		               "have in one file",
		               g->first->name, groups->v.p[1].first->name);
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
