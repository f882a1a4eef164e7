/* SPDX-License-Identifier: Apache-2.0 */
/* The cost of the library itself: CPU time and memory. Thread: any with stats_lock, or control. */
#include "session/session_priv.h"

uint64_t ses_threads_cpu_ns(struct ses *s)
{
	uint64_t sum = thread_cpu_ns(&s->drain) + thread_cpu_ns(&s->tracker);

	if (s->walk.pool)
		sum += pool_cpu_ns(s->walk.pool);
	return sum + (s->walk.symbolizer ? symbolizer_process_cpu_ns(s->walk.symbolizer) : 0);
}

uint64_t ses_agent_cpu_ns(struct ses *s, const struct abi_counters *c)
{
	uint64_t sum = s->env.end_ns ? s->cost.capture_ns : ses_threads_cpu_ns(s);
	uint64_t ticks = c->v[ABI_CNT_TICK_FOREIGN] + c->v[ABI_CNT_TICK_IDLE];

	sum -= MIN_OF(sum, s->cost.before_ns);
	sum += c->v[ABI_CNT_PROG_NS];
	/* Ticks that hit no target were timed in part: with --pid one in 64, else all. */
	if (c->v[ABI_CNT_FOREIGN_TIMED])
		sum += (uint64_t)((double)c->v[ABI_CNT_FOREIGN_NS] * (double)ticks /
		                  (double)c->v[ABI_CNT_FOREIGN_TIMED]);
	return sum;
}

uint64_t ses_locked_bytes(const struct ses *s)
{
	uint64_t sum = load_locked_bytes(smp_walker_loader(s->walker));

	ses_each_source (s, i, src)
		if (src_all[i]->locked_bytes)
			sum += src_all[i]->locked_bytes(src);
	return sum;
}
