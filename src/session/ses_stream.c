/* SPDX-License-Identifier: Apache-2.0 */
/* The stream of samples, for outputs that need the time of each. Thread: control. */
#include "session/session_priv.h"

bool ses_streams(const struct ses *s)
{
	const struct pfa_extra_output *x = s->o.extra_outputs;

	for (; x && x->format != PFA_PROFILE_END; x++)
		if (x->format == PFA_PROFILE_PERF_DATA)
			return true;
	return s->o.flags & PFA_TIMELINE || s->hooks.stream;
}

uint64_t ses_stream_lost(const struct ses *s)
{
	return s->tally.kernel.v[ABI_CNT_STREAM_FULL] + tally_get(&s->tally, TALLY_STREAM_LIMIT);
}

/* Returns the weight of a count as the profile has it. */
static uint64_t profile_weight(const struct ses *s, const struct ev_count *c)
{
	const struct result_cpu_time *t =
	        s->src[SRC_ONCPU] ? src_oncpu.cpu_time(s->src[SRC_ONCPU]) : NULL;

	return c->offcpu || !t ? c->weight : result_cpu_time_weight(t, c);
}

int ses_stream_finish(struct ses *s)
{
	const size_t n = prof_agg_count_cnt(s->walk.agg);
	_cleanup_free_ uint64_t *total = calloc(n + 1, sizeof(*total)),
	                        *raw = calloc(n + 1, sizeof(*raw));
	const struct stream_stats *st = stream_stats(s->walk.stream);

	if (!total || !raw)
		return -ENOMEM;
	for (size_t i = 0; i < n; i++) {
		const struct ev_count *c = prof_agg_count_at(s->walk.agg, i);

		raw[i] = c->weight;
		total[i] = profile_weight(s, c);
	}
	stream_sort(s->walk.stream);
	tally_count(&s->tally, TALLY_STREAM_LIMIT, st->samples_dropped);
	tally_count(&s->tally, TALLY_STREAM_EVENTS_LIMIT, st->events_dropped);
	return stream_scale(s->walk.stream, total, raw, n);
}

int ses_stream_times(const struct ses *s, size_t source, struct enc_time_sample **ret,
                     size_t *ret_n)
{
	const struct result *of = &s->product[source].result;
	const bool offcpu = s->product[source].kind.offcpu;
	size_t n, kept = 0;
	const struct stream_sample *v = stream_samples(s->walk.stream, &n);
	struct enc_time_sample *times = malloc((n + 1) * sizeof(*times));

	if (!times)
		return -ENOMEM;
	for (size_t i = 0; i < n; i++) {
		const uint32_t id =
		        v[i].count < of->n_samples_of ? of->samples_of[v[i].count] : UINT32_MAX;
		/* Off-CPU weights are blocked time, which is not scaled. */
		const uint64_t begin_ns =
		        v[i].time_ns -
		        (offcpu ? MIN_OF(v[i].time_ns, v[i].runq_ns + v[i].weight) : 0);

		if (id == UINT32_MAX)
			continue;
		times[kept++] = (struct enc_time_sample){
		        .start_ns = begin_ns - MIN_OF(begin_ns, s->env.start_ns),
		        .duration_ns = offcpu ? v[i].weight : 0,
		        .sample = id};
	}
	*ret = times;
	*ret_n = kept;
	return 0;
}
