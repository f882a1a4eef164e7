/* SPDX-License-Identifier: Apache-2.0 */
/* The profiles of a report: those whose values have the same types are merged, then filtered. */
#include "report/rep_priv.h"

#define GROUPS_MAX      65536
#define TYPES_BYTES_MAX 1024

void rep_groups_done(struct rep_groups *g)
{
	vec_each (m, &g->models)
		prof_model_free(*m);
	vec_done(&g->models);
	vec_done(&g->v);
}

static int type_error(const struct rep_input *in, const char *value, struct err *err)
{
	_cleanup_(sbuf_done) struct sbuf b;

	sbuf_init(&b, TYPES_BYTES_MAX);
	for (uint32_t i = 0; i < in->model->n_types; i++)
		(void)sbuf_addf(&b, "%s%s", i ? ", " : "", /* a longer list loses its end */
		                prof_model_str(in->model, in->model->sample_type[i].type));
	return err_set(err, -EINVAL, "%s has no values of the type '%s'; its types: %s", in->name,
	               value, b.p ? b.p : "none");
}

/* The values that are shown: as asked for, the profile's default, or the last, as pprof. */
static int choose_type(const struct rep_options *o, const struct rep_input *in, uint32_t *ret,
                       struct err *err)
{
	const struct prof_model *m = in->model;
	const char *want = o->value && *o->value ? o->value : prof_model_str(m, m->default_type);

	if (m->n_types == 0)
		return err_set(err, -EINVAL, "%s: a profile without values", in->name);
	for (uint32_t i = 0; i < m->n_types; i++) {
		if (!strcmp(want, prof_model_str(m, m->sample_type[i].type))) {
			*ret = i;
			return 0;
		}
	}
	if (o->value && *o->value)
		return type_error(in, o->value, err);
	*ret = m->n_types - 1;
	return 0;
}

/* Moves a model to the groups. */
static int own_model(struct rep_groups *g, struct prof_model *m, const struct prof_model **ret)
{
	int r = vec_push(&g->models, m);

	if (r < 0)
		prof_model_free(m);
	else
		*ret = m;
	return r;
}

/* Whether a profile has no values of the type that is asked for, and another one has. */
static bool is_left_out(const struct rep_options *o, const struct rep_input *in, size_t n, size_t i)
{
	if (!o->value || !*o->value || rep_has_type(in[i].model, o->value))
		return false;
	for (size_t k = 0; k < n; k++)
		if (rep_has_type(in[k].model, o->value))
			return true;
	return false;
}

static int add_group(struct rep_groups *g, const struct rep_options *o,
                     const struct rep_input *first, const struct prof_model *const *models,
                     size_t n, struct err *err)
{
	struct rep_group one = {.first = first, .n_members = n, .m = models[0]};
	struct prof_model *m;
	int r = choose_type(o, first, &one.type_idx, err);

	if (r == 0 && n > 1) {
		r = rep_merge(models, n, &m);
		if (r == 0)
			r = own_model(g, m, &one.m);
	}
	if (r == 0 && rep_filter_any(&o->filter)) {
		r = rep_filter(one.m, &o->filter, &m, err);
		if (r == 0)
			r = own_model(g, m, &one.m);
	}
	return r == 0 ? vec_push(&g->v, one) : r;
}

int rep_groups_of(const struct rep_options *o, const struct rep_input *in, size_t n,
                  struct rep_groups *ret, struct err *err)
{
	_cleanup_(rep_groups_done) struct rep_groups g = {.v.max = GROUPS_MAX,
	                                                  .models.max = 2 * GROUPS_MAX};
	_cleanup_free_ const struct prof_model **members = calloc(n, sizeof(*members));
	_cleanup_free_ bool *done = calloc(n, sizeof(*done));
	int r = members && done ? 0 : -ENOMEM;

	for (size_t i = 0; i < n && r == 0; i++) {
		size_t n_members = 0;

		for (size_t k = i; k < n && !done[i]; k++) {
			if (k != i && (done[k] || !rep_same_types(in[i].model, in[k].model)))
				continue;
			members[n_members++] = in[k].model;
			done[k] = k != i;
		}
		done[i] = true;
		if (n_members && !is_left_out(o, in, n, i))
			r = add_group(&g, o, &in[i], members, n_members, err);
	}
	if (r < 0)
		return r;
	*ret = g;
	memset(&g, 0, sizeof(g)); /* moved */
	return 0;
}

const struct rep_group *rep_group_like(const struct rep_groups *g, const struct rep_group *like)
{
	for (size_t i = 0; i < g->v.n; i++)
		if (rep_same_types(g->v.p[i].m, like->m))
			return &g->v.p[i];
	return NULL;
}

/* Whether the values that are shown are of the same type. */
static bool same_shown(const struct rep_group *a, const struct rep_group *b)
{
	const struct prof_type *x = &a->m->sample_type[a->type_idx],
	                       *y = &b->m->sample_type[b->type_idx];

	return !strcmp(prof_model_str(a->m, x->type), prof_model_str(b->m, y->type)) &&
	       !strcmp(prof_model_str(a->m, x->unit), prof_model_str(b->m, y->unit));
}

const struct rep_group *rep_group_shown_like(const struct rep_groups *g,
                                             const struct rep_group *like)
{
	const struct rep_group *ret = rep_group_like(g, like);

	for (size_t i = 0; i < g->v.n && !ret; i++)
		if (same_shown(&g->v.p[i], like))
			ret = &g->v.p[i];
	return ret;
}
