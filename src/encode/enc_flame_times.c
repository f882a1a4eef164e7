/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The time line of a page: events by sample and time, in columns. An event of an on-CPU sample is worth
 * as much as the others of it, an interval as much as its duration.
 */
#include "encode/enc_flame_priv.h"

#define COLUMNS_MAX 120
#define COLUMNS_FEW 30
#define UNITS       50 /* of a column: its cells */

struct timeline {
	const struct enc_flame_profile *p;
	uint64_t unit;          /* ns */
	const uint32_t *number; /* by sample of the model: its number on the page */
};

/* For qsort_r: by sample, then by time as it is written. And by all else, so that equal sets of events
 * give equal bytes. */
static int cmp_event(const void *a, const void *b, void *arg)
{
	const struct timeline *l = arg;
	const struct enc_time_sample *x = &l->p->times[*(const size_t *)a],
	                             *y = &l->p->times[*(const size_t *)b];
	uint64_t at_x = x->start_ns / l->unit, at_y = y->start_ns / l->unit;

	if (x->sample != y->sample)
		return (l->number[x->sample] > l->number[y->sample]) -
		       (l->number[x->sample] < l->number[y->sample]);
	if (at_x != at_y)
		return (at_x > at_y) - (at_x < at_y);
	return (x->duration_ns > y->duration_ns) - (x->duration_ns < y->duration_ns);
}

/* Columns are seconds, unless that makes too many or too few. */
static uint64_t column_ns(uint64_t whole_ns)
{
	static const uint32_t ms[] = {10,      20,      50,       100,     200,     500,
	                              1000,    2000,    5000,     10000,   20000,   30000,
	                              60000,   120000,  300000,   600000,  1200000, 1800000,
	                              3600000, 7200000, 14400000, 43200000};
	const uint64_t second = 1000000000;

	if (whole_ns >= 10 * second && whole_ns <= COLUMNS_MAX * second)
		return second;
	for (size_t i = 0; i < ARRAY_SIZE(ms); i++) {
		uint64_t ns = (uint64_t)ms[i] * 1000000;

		if (whole_ns / ns < (ns > second ? COLUMNS_MAX : COLUMNS_FEW))
			return ns;
	}
	return 86400 * second * (1 + whole_ns / (86400 * second * COLUMNS_MAX));
}

static uint64_t end_of(const struct enc_flame_profile *p)
{
	uint64_t end = (uint64_t)MAX_OF(p->model->duration_ns, 0);

	for (size_t i = 0; i < p->n_times; i++) {
		const struct enc_time_sample *e = &p->times[i];
		uint64_t left = UINT64_MAX - e->start_ns;

		end = MAX_OF(end, e->start_ns + MIN_OF(e->duration_ns, left));
	}
	return end;
}

/*
 * By sample, so that a time needs the bits of the distance to the next of its sample alone. @events: by
 * sample of the model; most have as many as they count.
 */
static void put_columns(const struct timeline *l, const size_t *by_sample, const uint32_t *events,
                        const uint32_t *order, struct sbuf *to)
{
	const struct prof_model *m = l->p->model;
	const struct enc_time_sample *times = l->p->times, *before = NULL;
	_cleanup_(flame_column_done) struct flame_column c;

	flame_column_init(&c);
	for (size_t i = 0; i < m->samples.n; i++)
		flame_column_add(&c,
		                 flame_zigzag((int64_t)(events[order[i]] -
		                                        flame_value(&m->samples.p[order[i]], 0))));
	flame_column_put(&c, to);
	for (size_t i = 0; i < l->p->n_times; i++) {
		const struct enc_time_sample *e = &times[by_sample[i]];

		flame_column_add(&c, e->start_ns / l->unit - (before && before->sample == e->sample
		                                                      ? before->start_ns / l->unit
		                                                      : 0));
		before = e;
	}
	flame_column_put(&c, to);
	for (size_t i = 0; i < l->p->n_times; i++)
		flame_column_add(&c, times[by_sample[i]].duration_ns);
	flame_column_put(&c, to);
}

int flame_put_times(const struct enc_flame_profile *p, const uint32_t *order, struct sbuf *to)
{
	const size_t n = p->n_times, n_samples = p->model->samples.n;
	_cleanup_free_ size_t *by_sample = NULL;
	_cleanup_free_ uint32_t *number = NULL, *events = NULL;
	struct timeline l;
	uint64_t column;

	enc_put_varint(to, n);
	enc_put_varint(to, p->times_lost);
	if (n == 0)
		return to->err;
	if (n > FLAME_BYTES_MAX / sizeof(*by_sample))
		return -E2BIG;
	by_sample = malloc(n * sizeof(*by_sample));
	number = calloc(n_samples + 1, sizeof(*number));
	events = calloc(n_samples + 1, sizeof(*events));
	if (!by_sample || !number || !events)
		return -ENOMEM;
	for (size_t i = 0; i < n; i++) {
		if (p->times[i].sample >= n_samples)
			return -EINVAL;
		by_sample[i] = i;
		events[p->times[i].sample]++;
	}
	for (size_t i = 0; i < n_samples; i++)
		number[order[i]] = (uint32_t)i;
	column = column_ns(end_of(p));
	enc_put_varint(to, column);
	l = (struct timeline){.p = p, .unit = column / UNITS, .number = number};
	qsort_r(by_sample, n, sizeof(*by_sample), cmp_event, &l);
	put_columns(&l, by_sample, events, order, to);
	return to->err;
}
