/* SPDX-License-Identifier: Apache-2.0 */
/* Off-CPU profiles: what is asked for, and what they say of themselves. Thread: C. */
#include "session/session_priv.h"

#define OFF_STATES_DEFAULT                                                                         \
	(1U << EV_OFF_INTERRUPTIBLE | 1U << EV_OFF_UNINTERRUPTIBLE | 1U << EV_OFF_IOWAIT)
#define OFF_STATES_ALL ((1U << EV_OFF_CNT) - 2)

int ses_off_options(const struct ses_options *o, struct err *err)
{
	if (o->off_states & ~OFF_STATES_ALL)
		return err_set(err, -EINVAL, "off-CPU states: unknown bits 0x%x",
		               o->off_states & ~OFF_STATES_ALL);
	if (o->off_max_ns && o->off_min_ns > o->off_max_ns)
		return err_set(err, -EINVAL,
		               "off-CPU durations: the least, %llu ns, is above the most, %llu ns",
		               (unsigned long long)o->off_min_ns,
		               (unsigned long long)o->off_max_ns);
	if (o->off_threads > (1U << 20))
		return err_set(err, -EINVAL, "off-CPU threads: over the limit (1 M)");
	return 0;
}

uint32_t ses_off_states(const struct ses *s)
{
	return s->o.off_states ? s->o.off_states : OFF_STATES_DEFAULT;
}

int ses_off_open(struct ses *s, struct err *err)
{
	bool one = s->o.target == SES_TARGET_PID && !ses_targets_tree(s);
	const struct load_off_options o = {
	        .states = ses_off_states(s),
	        .wakers = s->o.off_wakers,
	        .min_ns = s->o.off_min_ns,
	        .max_ns = s->o.off_max_ns ? s->o.off_max_ns : UINT64_MAX,
	        /* Memory is taken for those that there are. One process can have as many threads
	         * as a machine. */
	        .thread_entries = s->o.off_threads ? s->o.off_threads : 32768,
	        .count_entries = s->o.count_entries ? s->o.count_entries
	                         : one              ? 8192
	                                            : 16384,
	};
	int r = smp_off_open(s->smp, &o, &s->off, err);

	return r < 0 ? ses_explain(r, err) : 0;
}

int ses_off_counters_now(const struct ses *s, struct abi_counters *ret, struct abi_counters *all)
{
	int r = load_off_counters(smp_off_loader(s->off), ret);

	if (r == 0)
		tally_add_offcpu(all, ret);
	return r;
}

void ses_off_figures(struct ses *s)
{
	const struct prof_agg_stats *as = prof_agg_stats(s->agg);
	const struct smp_off_stats *st;
	struct abi_counters *c = &s->tally.offcpu;

	if (!s->off)
		return;
	st = smp_off_stats(s->off);
	if (load_off_counters(smp_off_loader(s->off), c) < 0) {
		tally_count(&s->tally, TALLY_READ_ERRORS, 1);
		c->v[ABI_CNT_SEEN] = c->v[ABI_CNT_KEPT] = st->taken_waits;
	}
	tally_count(&s->tally, TALLY_OFF_SEEN,
	            c->v[ABI_CNT_SEEN] + st->open_waits + st->ended_waits);
	tally_count(&s->tally, TALLY_OFF_DROP_FULL, c->v[ABI_CNT_DROP_COUNTS_FULL]);
	tally_count(&s->tally, TALLY_OFF_DROP_BUSY, c->v[ABI_CNT_DROP_COUNTS_BUSY]);
	if (c->v[ABI_CNT_KEPT] > st->taken_waits)
		tally_count(&s->tally, TALLY_OFF_DROP_UNREAD, c->v[ABI_CNT_KEPT] - st->taken_waits);
	tally_count(&s->tally, TALLY_OFF_DROP_FULL_AGG, as->waits_dropped);
	tally_count(&s->tally, TALLY_OFF_KSTACKS_KNOWN, c->v[ABI_CNT_KMEMO_HIT]);
	tally_count(&s->tally, TALLY_OFF_USTACKS_KNOWN, c->v[ABI_CNT_UMEMO_HIT]);
	tally_count(&s->tally, TALLY_OFF_WALKS_DIFFER,
	            c->v[ABI_CNT_WALKS_DIFFER] + c->v[ABI_CNT_KMEMO_DIFFER] +
	                    c->v[ABI_CNT_UMEMO_DIFFER]);
	tally_count(&s->tally, TALLY_OFF_OPEN, st->open_waits);
	tally_count(&s->tally, TALLY_OFF_BLOCKED, st->blocked);
	tally_count(&s->tally, TALLY_OFF_COPIES_LOST, st->blocked_lost);
	tally_count(&s->tally, TALLY_OFF_WAKERS_DROPPED, as->wakers_dropped);
	tally_count(&s->tally, TALLY_READ_ERRORS, st->read_errors);
	tally_add_offcpu(&s->tally.kernel, c);
}

void ses_off_kept(struct ses *s)
{
	const struct ses_product *p = &s->product[SES_KIND_OFFCPU];

	tally_count(&s->tally, TALLY_OFF_KEPT, p->result.kept);
	s->final.waits = p->result.kept;
	s->final.wait_ns = p->result.weight;
	s->final.waits_seen = tally_get(&s->tally, TALLY_OFF_SEEN);
	s->final.waits_dropped = tally_get(&s->tally, TALLY_OFF_DROP_FULL) +
	                         tally_get(&s->tally, TALLY_OFF_DROP_BUSY) +
	                         tally_get(&s->tally, TALLY_OFF_DROP_UNREAD) +
	                         tally_get(&s->tally, TALLY_OFF_DROP_FULL_AGG);
}
