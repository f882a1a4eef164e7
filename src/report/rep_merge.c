/* SPDX-License-Identifier: Apache-2.0 */
/* Several profiles of one kind as one. */
#include <math.h>

#include "report/rep_priv.h"

static bool same_text(const struct prof_model *a, uint32_t x, const struct prof_model *b,
                      uint32_t y)
{
	return strcmp(prof_model_str(a, x), prof_model_str(b, y)) == 0;
}

bool rep_same_types(const struct prof_model *a, const struct prof_model *b)
{
	if (a->n_types != b->n_types)
		return false;
	for (uint32_t i = 0; i < a->n_types; i++)
		if (!same_text(a, a->sample_type[i].type, b, b->sample_type[i].type) ||
		    !same_text(a, a->sample_type[i].unit, b, b->sample_type[i].unit))
			return false;
	return true;
}

/* Comments of the merged profile are those of all, each once. */
static int add_comments(struct prof_model *to, const struct prof_model *from)
{
	int r = 0;

	for (size_t i = 0; i < from->comments.n && r == 0; i++) {
		const char *text = prof_model_str(from, from->comments.p[i]);
		bool known = false;

		for (size_t k = 0; k < to->comments.n && !known; k++)
			known = !strcmp(prof_model_str(to, to->comments.p[k]), text);
		if (!known)
			r = prof_model_comment(to, "%s", text);
	}
	return r;
}

static int add_samples(struct prof_model *to, const struct prof_model *from, struct rep_places *p)
{
	_cleanup_(rep_copy_done) struct rep_copy c = {.places = p};
	_cleanup_free_ uint32_t *locs = calloc(PROF_SAMPLE_LOCS_MAX, sizeof(*locs));
	int r = locs ? rep_copy_begin(&c, from, to) : -ENOMEM;

	if (r == 0 && to->n_types == 0) {
		r = rep_copy_head(&c);
	} else if (r == 0) {
		r = add_comments(to, from);
		to->duration_ns = prof_sat_add(to->duration_ns, from->duration_ns);
		if (from->time_realtime_ns &&
		    (!to->time_realtime_ns || from->time_realtime_ns < to->time_realtime_ns))
			to->time_realtime_ns = from->time_realtime_ns;
	}
	for (size_t i = 0; i < from->samples.n && r == 0; i++) {
		const struct prof_sample *s = &from->samples.p[i];

		for (uint32_t k = 0; k < s->loc_cnt && r == 0; k++)
			r = rep_copy_location(&c, from->loc_ids.p[s->loc_first + k], NULL,
			                      &locs[k]);
		if (r == 0)
			r = rep_copy_sample(&c, s, locs, s->loc_cnt);
	}
	return r;
}

static void places_done(struct rep_places *p)
{
	p->keys = intern_free(p->keys);
	vec_done(&p->ids);
}

/* Returns the mean period of all samples; 0: not known. */
static int64_t mean_period(const struct prof_model *const *models, size_t n)
{
	double sum = 0, weight = 0;
	bool same = true, ignored;

	for (size_t i = 0; i < n; i++) {
		const uint32_t idx = rep_count_idx(models[i], &ignored);
		double samples = 0;

		for (size_t k = 0; k < models[i]->samples.n && idx != UINT32_MAX; k++)
			samples += (double)models[i]->samples.p[k].value[idx];
		if (models[i]->period <= 0)
			return 0;
		same &= models[i]->period == models[0]->period;
		sum += samples;
		weight += samples * (double)models[i]->period;
	}
	if (same)
		return models[0]->period;
	return sum > 0 && weight > 0 ? llround(MIN_OF(weight / sum, 9e18)) : 0;
}

int rep_merge(const struct prof_model *const *models, size_t n, struct prof_model **ret)
{
	_cleanup_(prof_model_freep) struct prof_model *m = NULL;
	_cleanup_(places_done) struct rep_places places = {.ids.max = PROF_MAPPINGS_MAX};
	int r = prof_model_new(&m);

	if (r == 0)
		r = intern_new(PROF_MAPPINGS_MAX, PROF_KEY_BYTES_MAX, &places.keys);
	for (size_t i = 0; i < n && r == 0; i++)
		r = rep_same_types(models[0], models[i]) ? add_samples(m, models[i], &places)
		                                         : -EINVAL;
	if (r < 0)
		return r;
	m->period = mean_period(models, n);
	*ret = TAKE_PTR(m);
	return 0;
}
