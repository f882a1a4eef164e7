/* SPDX-License-Identifier: Apache-2.0 */
#include "metrics/metrics.h"

#define SUB         (1U << MET_SUB_BITS) /* buckets of a power of two */
#define LAST        (MET_BUCKETS - 1)
#define PER_MILLE   1000
#define PERCENTILES 4

/* Width of a bucket as power of two. */
static uint32_t width_log2(uint32_t bucket)
{
	return bucket < 2 * SUB ? 0 : bucket / SUB - 1;
}

uint64_t met_hist_low(uint32_t bucket)
{
	assert(bucket < MET_BUCKETS);
	/* A bucket's place in its power of two follows the bit that makes the power. */
	return bucket < SUB ? bucket : (uint64_t)(SUB + bucket % SUB) << width_log2(bucket);
}

uint64_t met_hist_high(uint32_t bucket)
{
	assert(bucket < MET_BUCKETS);
	return bucket == LAST ? UINT64_MAX : met_hist_low(bucket + 1);
}

void met_hist_add(struct met_hist *to, const struct met_hist *from)
{
	for (uint32_t i = 0; i < MET_BUCKETS; i++)
		to->bucket[i] += from->bucket[i];
}

static uint64_t middle(uint32_t bucket)
{
	uint64_t low = met_hist_low(bucket);

	return low + ((1ULL << width_log2(bucket)) - 1) / 2;
}

static uint64_t clamp(uint64_t v, uint64_t low, uint64_t high)
{
	return v > high ? high : v < low ? low : v;
}

/* Mean of the values in the last bucket, which has no middle: what the others leave of the sum. */
static uint64_t tail_value(const struct met_hist *h, uint64_t total_ns)
{
	uint64_t rest = total_ns, part;

	for (uint32_t i = 0; i < LAST; i++) {
		if (__builtin_mul_overflow(middle(i), h->bucket[i], &part) || part > rest)
			return met_hist_low(LAST);
		rest -= part;
	}
	return MAX_OF(rest / h->bucket[LAST], met_hist_low(LAST));
}

/* Rank of a percentile, from 1: @per_mille of @count, rounded up. The product may not fit. */
static uint64_t nearest_rank(uint64_t count, uint64_t per_mille)
{
	return count / PER_MILLE * per_mille +
	       (count % PER_MILLE * per_mille + PER_MILLE - 1) / PER_MILLE;
}

void met_hist_summary(const struct met_hist *h, uint64_t total_ns, uint64_t limit_ns,
                      struct met_summary *ret)
{
	static const uint64_t per_mille[PERCENTILES] = {500, 950, 990, 999};
	struct met_summary s = {.total_ns = total_ns};
	uint64_t *const percentile[PERCENTILES] = {&s.p50_ns, &s.p95_ns, &s.p99_ns, &s.p999_ns};
	uint32_t first = 0, last = 0, next = 0;
	uint64_t value = 0, seen = 0;

	for (uint32_t i = 0; i < MET_BUCKETS; i++) {
		if (h->bucket[i] == 0)
			continue;
		if (s.count == 0)
			first = i;
		last = i;
		s.count += h->bucket[i];
	}
	if (s.count == 0) {
		*ret = (struct met_summary){0};
		return;
	}
	for (uint32_t i = first; i <= last; i++) {
		if (h->bucket[i] == 0)
			continue;
		value = MIN_OF(i == LAST ? tail_value(h, total_ns) : middle(i), limit_ns);
		if (i == first)
			s.min_ns = value;
		seen += h->bucket[i];
		while (next < PERCENTILES && seen >= nearest_rank(s.count, per_mille[next]))
			*percentile[next++] = value;
	}
	s.max_ns = value;
	/* A correct sum has a mean between these bounds anyway. */
	s.mean_ns = clamp(total_ns / s.count, MIN_OF(met_hist_low(first), limit_ns),
	                  MIN_OF(met_hist_high(last), limit_ns));
	if (s.count == 1) {
		s.min_ns = s.max_ns = s.mean_ns;
		s.p50_ns = s.p95_ns = s.p99_ns = s.p999_ns = s.mean_ns;
	}
	/* The exact mean is a bound of both extremes, better than a middle on its wrong side. */
	s.min_ns = MIN_OF(s.min_ns, s.mean_ns);
	s.max_ns = MAX_OF(s.max_ns, s.mean_ns);
	/* Percentiles of few values are the extremes themselves. */
	for (uint32_t i = 0; i < PERCENTILES; i++) {
		if (nearest_rank(s.count, per_mille[i]) == s.count)
			*percentile[i] = s.max_ns;
		else if (nearest_rank(s.count, per_mille[i]) == 1)
			*percentile[i] = s.min_ns;
	}
	*ret = s;
}
