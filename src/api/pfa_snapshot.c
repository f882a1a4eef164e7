/* SPDX-License-Identifier: Apache-2.0 */
/* Snapshots of a running capture, and questions about them. */
#include "api/api_priv.h"

#include "perfagent/perfagent_snapshot.h"
#include "profile/profile.h"
#include "report/report.h"

#define LIST_MAX 1000000 /* entries of a list */

struct pfa_profile {
	struct ses_profile p;
};

int pfa_snapshot(struct pfa_session *s, uint32_t kind, uint32_t flags, struct pfa_profile **ret,
                 struct pfa_error *error)
{
	_cleanup_free_ struct pfa_profile *p = NULL;
	struct err err = {0};
	int r;

	if (!ret)
		return api_give_error(error, &err,
		                      err_set(&err, -EINVAL, "pfa_snapshot: ret is NULL"));
	if (s->stopping)
		return api_give_error(error, &err,
		                      err_set(&err, -EBUSY, "snapshot: in a call-back"));
	p = calloc(1, sizeof(*p));
	if (!p)
		return api_give_error(error, &err, err_set(&err, -ENOMEM, "out of memory"));
	s->stopping = true; /* for call-backs */
	r = ses_snapshot(s->ses, (enum pfa_kind)kind, flags, &p->p, &err);
	s->stopping = false;
	if (r < 0)
		return api_give_error(error, &err, r);
	*ret = TAKE_PTR(p);
	return 0;
}

void pfa_profile_free(struct pfa_profile *p)
{
	if (p)
		ses_profile_done(&p->p);
	free(p);
}

int pfa_profile_totals(const struct pfa_profile *p, struct pfa_profile_totals *ret)
{
	const struct pfa_profile_totals full = {.size = sizeof(full),
	                                        .kind = p->p.of,
	                                        .samples = p->p.result.kept,
	                                        .weight = p->p.result.weight,
	                                        .begin_realtime_ns = p->p.kind.begin_realtime_ns,
	                                        .duration_ns = p->p.kind.duration_ns,
	                                        .dropped = p->p.dropped,
	                                        .stacks_lost = p->p.result.lost_stacks,
	                                        .unnamed = p->p.unnamed};
	const size_t size = ret->size;

	if (size < sizeof(ret->size))
		return -EINVAL;
	memset(ret, 0, size); /* members of a newer caller are 0 */
	memcpy(ret, &full, MIN_OF(size, sizeof(full)));
	ret->size = MIN_OF(size, sizeof(full));
	return 0;
}

/* ---- lists ----------------------------------------------------------------------------------- */

static int give_functions(const struct prof_model *m, const struct prof_top *top, size_t n,
                          struct pfa_function *ret)
{
	for (size_t i = 0; i < n; i++)
		ret[i] = (struct pfa_function){.name = prof_model_str(m, top[i].name),
		                               .module = prof_top_module(m, &top[i]),
		                               .self = (uint64_t)top[i].self,
		                               .cum = (uint64_t)top[i].cum};
	return (int)n;
}

static int by_cum(const void *a, const void *b)
{
	const struct prof_top *x = a, *y = b;

	if (x->cum != y->cum)
		return (x->cum < y->cum) - (x->cum > y->cum);
	if (x->self != y->self)
		return (x->self < y->self) - (x->self > y->self);
	return (x->name > y->name) - (x->name < y->name);
}

int pfa_profile_top(const struct pfa_profile *p, uint32_t order, struct pfa_function *ret,
                    size_t max)
{
	const struct prof_model *m = p->p.result.model;
	_cleanup_free_ struct prof_top *top = NULL;
	size_t n = 0;
	int r;

	if (max == 0 || max > LIST_MAX || order > PFA_BY_CUM)
		return -EINVAL;
	r = prof_model_top_beyond(m, 1, p->p.kind.skip, SIZE_MAX, &top, &n);
	if (r < 0)
		return r;
	if (order == PFA_BY_CUM)
		qsort(top, n, sizeof(*top), by_cum);
	return give_functions(m, top, MIN_OF(n, max), ret);
}

int pfa_profile_callers(const struct pfa_profile *p, const char *const *path,
                        struct pfa_function *ret, size_t max)
{
	const struct prof_model *m = p->p.result.model;
	_cleanup_free_ struct prof_top *top = NULL;
	uint32_t ids[64];
	size_t n_path = 0, n = 0;
	int r;

	if (max == 0 || max > LIST_MAX)
		return -EINVAL;
	for (; path && path[n_path]; n_path++) {
		if (n_path == ARRAY_SIZE(ids))
			return -EINVAL;
		ids[n_path] = intern_find(m->strings, path[n_path], strlen(path[n_path]));
	}
	r = prof_model_callers(m, 1, ids, n_path, &top, &n);
	return r < 0 ? r : give_functions(m, top, MIN_OF(n, max), ret);
}

static int tasks(const struct pfa_profile *p, bool threads, struct pfa_task *ret, size_t max)
{
	const struct prof_model *m = p->p.result.model;
	_cleanup_free_ struct prof_task *v = NULL;
	size_t n = 0;
	int r;

	if (max == 0 || max > LIST_MAX)
		return -EINVAL;
	r = prof_model_tasks(m, threads, &v, &n);
	if (r < 0)
		return r;
	n = MIN_OF(n, max);
	for (size_t i = 0; i < n; i++)
		ret[i] = (struct pfa_task){.pid = (uint32_t)v[i].pid,
		                           .tid = (uint32_t)v[i].tid,
		                           .comm = prof_model_str(m, v[i].comm),
		                           .samples = (uint64_t)v[i].value[0],
		                           .weight = (uint64_t)v[i].value[1]};
	return (int)n;
}

int pfa_profile_processes(const struct pfa_profile *p, struct pfa_task *ret, size_t max)
{
	return tasks(p, false, ret, max);
}

int pfa_profile_threads(const struct pfa_profile *p, struct pfa_task *ret, size_t max)
{
	return tasks(p, true, ret, max);
}

int pfa_profile_offcpu_sites(const struct pfa_profile *p, struct pfa_offcpu_site *ret, size_t max)
{
	if (max == 0 || max > LIST_MAX || p->p.of != PFA_KIND_OFFCPU)
		return -EINVAL;
	return result_sites(p->p.result.model, ret, max);
}

int pfa_profile_write(const struct pfa_profile *p, uint32_t format, const struct pfa_output *to,
                      struct pfa_error *error)
{
	struct err err = {0};

	if (!to)
		return api_give_error(error, &err,
		                      err_set(&err, -EINVAL, "pfa_profile_write: to is NULL"));
	return api_give_error(error, &err, ses_profile_write(&p->p, format, to, &err));
}

/* Adds up p[n] and keeps the samples that match. Returns 0, -EINVAL, -ENOENT, -E2BIG, -ENOMEM. */
static int sum_of(const struct pfa_profile *const *p, size_t n, const char *const *focus,
                  struct prof_model **ret, struct err *err)
{
	_cleanup_free_ const struct prof_model **models = calloc(n, sizeof(*models));
	_cleanup_(prof_model_freep) struct prof_model *sum = NULL;
	int r = models ? 0 : -ENOMEM;

	for (size_t i = 0; i < n && r == 0; i++) {
		models[i] = p[i]->p.result.model;
		if (p[i]->p.of != p[0]->p.of)
			r = err_set(err, -EINVAL,
			            "pfa_profiles_write: profiles of different kinds");
	}
	if (r == 0)
		r = rep_merge(models, n, &sum);
	for (size_t i = 0; r == 0 && focus && focus[i]; i++) {
		const struct rep_filter filter = {.focus = focus[i]};
		struct prof_model *kept;

		r = rep_filter(sum, &filter, &kept, err);
		if (r == 0) {
			prof_model_free(sum);
			sum = kept;
		}
	}
	if (r == 0)
		*ret = TAKE_PTR(sum);
	return r;
}

int pfa_profiles_write(const struct pfa_profile *const *p, size_t n, const char *const *focus,
                       uint32_t format, const struct pfa_output *to, struct pfa_error *error)
{
	_cleanup_(prof_model_freep) struct prof_model *sum = NULL;
	struct ses_profile all;
	struct err err = {0};
	int r;

	if (!p || n == 0 || !to)
		return api_give_error(error, &err,
		                      err_set(&err, -EINVAL,
		                              "pfa_profiles_write: no profile, or no output"));
	all = p[0]->p;
	if (n > 1 || (focus && focus[0])) {
		r = sum_of(p, n, focus, &sum, &err);
		if (r < 0)
			return api_give_error(error, &err, r);
		all.result.model = sum;
	}
	return api_give_error(error, &err, ses_profile_write(&all, format, to, &err));
}
