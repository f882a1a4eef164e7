/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Values of two profiles, so that captures of other lengths and rates can be compared, and the
 * words for their change. src/encode/flame/flame_diff.js does the same on the page.
 */
#include <stdio.h>

#include "encode/enc_flame_priv.h"

#define SIGMAS 2

bool flame_same_types(const struct prof_model *a, const struct prof_model *b)
{
	if (a->n_types != b->n_types)
		return false;
	for (uint32_t i = 0; i < a->n_types; i++) {
		const struct prof_type *x = &a->sample_type[i], *y = &b->sample_type[i];

		if (strcmp(prof_model_str(a, x->type), prof_model_str(b, y->type)) != 0 ||
		    strcmp(prof_model_str(a, x->unit), prof_model_str(b, y->unit)) != 0)
			return false;
	}
	return true;
}

static double sum_of(const struct prof_model *m, uint32_t type)
{
	double ret = 0;

	vec_each (s, &m->samples)
		ret += (double)flame_value(s, type);
	return ret;
}

/* Whether values are numbers of on-CPU samples. */
static bool is_samples(const struct prof_model *m, uint32_t type)
{
	return type == 0 && strcmp(prof_model_str(m, m->sample_type[0].type), "samples") == 0;
}

/* Whether values can be compared per second of capture; otherwise as shares of their profile. */
static bool has_rates(const struct enc_flame_diff *d, uint32_t type)
{
	if (d->before->duration_ns <= 0 || d->after->duration_ns <= 0)
		return false;
	return !is_samples(d->after, type) || (d->before->period > 0 && d->after->period > 0);
}

/* Returns the factor of values. Numbers of on-CPU samples are brought to the rate of @after. */
static double scale_of(const struct prof_model *m, const struct prof_model *after, uint32_t type,
                       bool shares)
{
	const double whole = shares ? sum_of(m, type) : 0;
	double rate = 1;

	if (shares)
		return whole > 0 ? 100 / whole : 0;
	if (is_samples(m, type))
		rate = (double)m->period / (double)after->period;
	return rate * 1e9 / (double)m->duration_ns;
}

int flame_changes_new(const struct enc_flame_diff *d, const struct flame_tree *merged,
                      uint32_t type_idx, struct flame_changes *ret)
{
	const struct prof_model *const sides[2] = {d->before, d->after};
	const bool sampled = is_samples(d->after, 0); /* else no value is by chance */
	const size_t n = merged->nodes.n;
	size_t at = 0;

	*ret = (struct flame_changes){
	        .node = calloc(n, sizeof(*ret->node)), .n = n, .shares = !has_rates(d, type_idx)};
	if (!ret->node)
		return -ENOMEM;
	for (int side = 0; side < 2; side++) {
		double scale = scale_of(sides[side], d->after, type_idx, ret->shares);

		vec_each (s, &sides[side]->samples) {
			struct flame_change *c = &ret->node[merged->sample_node.p[at++]];
			double v = (double)flame_value(s, type_idx) * scale;

			c->value[side] += v;
			if (sampled)
				c->variance +=
				        v * v / (double)MAX_OF(flame_value(s, 0), (uint64_t)1);
		}
	}
	for (size_t i = n; i-- > 1;) {
		struct flame_change *c = &ret->node[i],
		                    *parent = &ret->node[merged->nodes.p[i].parent];

		parent->value[0] += c->value[0];
		parent->value[1] += c->value[1];
		parent->variance += c->variance;
	}
	for (size_t i = 1; i < n; i++)
		if (ret->node[i].value[1] <= 0 && ret->node[merged->nodes.p[i].parent].value[1] > 0)
			ret->vanished += ret->node[i].value[0];
	return 0;
}

void flame_changes_done(struct flame_changes *c)
{
	free(c->node);
	*c = (struct flame_changes){0};
}

int flame_change_step(const struct flame_change *c)
{
	static const double steps[FLAME_STEPS] = {0.1, 0.3, 0.6};
	const double delta = c->value[1] - c->value[0], size = delta < 0 ? -delta : delta;
	const double larger = MAX_OF(c->value[0], c->value[1]);
	int n = 0;

	if (size * size < SIGMAS * SIGMAS * c->variance)
		return 0;
	while (n < FLAME_STEPS && larger > 0 && size >= steps[n] * larger)
		n++;
	return delta < 0 ? -n : n;
}

const char *flame_change_text(const struct flame_change *c, char ret[static FLAME_CHANGE_MAX])
{
	const double before = c->value[0], after = c->value[1];
	const double pct = before > 0 ? 100 * (after - before) / before : 0;
	const char *sign = pct >= 0.5 ? "+" : pct <= -0.5 ? "-" : "";

	if (before <= 0 || after <= 0)
		(void)snprintf(ret, FLAME_CHANGE_MAX, "%s",
		               before > 0  ? "gone"
		               : after > 0 ? "new"
		                           : "0 %");
	else if (pct >= 1000)
		(void)snprintf(ret, FLAME_CHANGE_MAX, "x %.0f", after / before);
	else
		(void)snprintf(ret, FLAME_CHANGE_MAX, "%s%.0f %%", sign, pct < 0 ? -pct : pct);
	return ret;
}
