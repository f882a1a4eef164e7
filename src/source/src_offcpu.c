/* SPDX-License-Identifier: Apache-2.0 */
/* Off-CPU intervals: options, programs, missed and hidden switches, quality lines. */
#include <stddef.h>

#include "source/source_priv.h"

#define STATES_DEFAULT                                                                             \
	(1U << EV_OFFCPU_INTERRUPTIBLE | 1U << EV_OFFCPU_UNINTERRUPTIBLE | 1U << EV_OFFCPU_IOWAIT)
#define STATES_ALL ((1U << EV_OFFCPU_CNT) - 2)

struct offcpu {
	const struct src_env *env;
	struct smp_offcpu *sampler;
};

static uint32_t states_of(const struct offcpu *s)
{
	const uint32_t states = s->env->o->offcpu_states;

	return states ? states : STATES_DEFAULT;
}

/* ---- before the start ------------------------------------------------------------------------ */

static int offcpu_check(const struct pfa_options *o, struct err *err)
{
	if (o->offcpu_states & ~STATES_ALL)
		return err_set(err, -EINVAL, "off-CPU states: unknown bits 0x%x",
		               o->offcpu_states & ~STATES_ALL);
	if (o->offcpu_max_ns && o->offcpu_min_ns > o->offcpu_max_ns)
		return err_set(
		        err, -EINVAL,
		        "off-CPU durations: the minimum, %llu ns, is above the maximum, %llu ns",
		        (unsigned long long)o->offcpu_min_ns, (unsigned long long)o->offcpu_max_ns);
	if (o->offcpu_threads > (1U << 20))
		return err_set(err, -EINVAL, "off-CPU threads: over the limit (1 M)");
	return 0;
}

static void *offcpu_free(void *src)
{
	struct offcpu *s = src;

	if (s) {
		s->sampler = smp_offcpu_free(s->sampler);
		free(s);
	}
	return NULL;
}

static int offcpu_open(const struct src_env *env, void **ret, struct err *err)
{
	struct offcpu *s = calloc(1, sizeof(*s));

	if (!s)
		return err_set(err, -ENOMEM, "out of memory");
	s->env = env;
	*ret = s;
	return 0;
}

/* The rate of intervals has no bound. There is room for 1,024 deferred samples of a process until a
 * table is built, and for 256 of all processes until the drain thread has been woken. More are
 * unwound heuristically. */
static void offcpu_config(const void *src, struct abi_config *cfg, struct load_sizes *sizes)
{
	(void)src;
	cfg->deferred_quota = 1024;
	if (sizes->image_entries)
		sizes->deferred_ring_bytes = 4U << 20;
}

static int offcpu_load(void *src, struct err *err)
{
	struct offcpu *s = src;
	const struct pfa_options *p = s->env->o;
	bool one = p->target == PFA_TARGET_PID && !tgt_tree(s->env->target);
	const struct load_offcpu_options o = {
	        .states = states_of(s),
	        .wakers = (p->flags & PFA_OFFCPU_WAKERS) != 0,
	        .min_ns = p->offcpu_min_ns,
	        .max_ns = p->offcpu_max_ns ? p->offcpu_max_ns : UINT64_MAX,
	        /* Entries take memory when they are added. One process can have as many threads
	         * as a machine. */
	        .thread_entries = p->offcpu_threads ? p->offcpu_threads : 32768,
	        .count_entries = p->count_entries ? p->count_entries
	                         : one            ? 8192
	                                          : 16384,
	};

	return smp_offcpu_open(s->env->walker, &o, &s->sampler, err);
}

/* ---- while it runs --------------------------------------------------------------------------- */

static int offcpu_start(void *src, struct err *err)
{
	return smp_offcpu_start(((struct offcpu *)src)->sampler, err);
}

static void offcpu_begin(void *src)
{
	struct offcpu *s = src;

	/* The process of a command is still blocked in our own code, before exec. */
	if (smp_offcpu_begin(s->sampler, s->env->o->target != PFA_TARGET_COMMAND) < 0)
		tally_count(s->env->tally, TALLY_OFFCPU_SCAN_FAILED, 1);
}

static size_t offcpu_backlog(void *src, bool tables, size_t room, const struct smp_sink *sink)
{
	return smp_offcpu_blocked(((struct offcpu *)src)->sampler, tables, room, sink);
}

static void offcpu_drain(void *src, const struct smp_sink *sink, uint64_t now)
{
	(void)now;
	(void)smp_offcpu_drain(((struct offcpu *)src)->sampler, sink); /* counted: read_errors */
}

/* An interval has the epoch of its beginning: the end of one does not matter. */
static void offcpu_drain_all(void *src, const struct smp_sink *sink, const struct smp_sink *open,
                             struct result_cpu_reading *ret)
{
	struct offcpu *s = src;

	/* Errors are counted: read_errors. */
	if (ret)
		(void)smp_offcpu_drain_all(s->sampler, sink);
	if (open)
		(void)smp_offcpu_open_intervals(s->sampler, open);
}

static bool offcpu_reread(const void *src, struct ev_deferred *c, uint8_t *buf)
{
	return smp_offcpu_reread(((const struct offcpu *)src)->sampler, c, buf);
}

static void offcpu_end(void *src)
{
	smp_offcpu_end(((struct offcpu *)src)->sampler);
}

static void offcpu_finish(void *src, const struct smp_sink *sink)
{
	(void)smp_offcpu_finish(((struct offcpu *)src)->sampler, sink); /* counted: read_errors */
}

int src_offcpu_counters(const void *src, struct abi_counters *ret)
{
	return load_offcpu_counters(smp_offcpu_loader(((const struct offcpu *)src)->sampler), ret);
}

static int offcpu_running(const void *src, struct abi_counters *all, struct pfa_stats *ret)
{
	struct abi_counters c;
	int r = src_offcpu_counters(src, &c);

	if (r < 0)
		return r;
	tally_add_offcpu(all, &c);
	ret->offcpu_seen = c.v[ABI_CNT_SEEN];
	ret->offcpu_dropped = c.v[ABI_CNT_DROP_COUNTS_FULL] + c.v[ABI_CNT_DROP_COUNTS_BUSY];
	ret->offcpu_kept = ret->offcpu_seen - MIN_OF(ret->offcpu_seen, ret->offcpu_dropped);
	return 0;
}

static uint64_t offcpu_locked_bytes(const void *src)
{
	return load_offcpu_locked_bytes(smp_offcpu_loader(((const struct offcpu *)src)->sampler));
}

/* ---- after it -------------------------------------------------------------------------------- */

static void count(const struct offcpu *s)
{
	const struct prof_agg_stats *as = prof_agg_stats(s->env->agg);
	const struct smp_offcpu_stats *st = smp_offcpu_stats(s->sampler);
	const uint64_t read = st->read_intervals + smp_walker_stats(s->env->walker)->ring_intervals;
	struct tally *tally = s->env->tally;
	struct abi_counters *c = &tally->offcpu;

	if (src_offcpu_counters(s, c) < 0) {
		tally_count(tally, TALLY_READ_ERRORS, 1);
		c->v[ABI_CNT_SEEN] = c->v[ABI_CNT_KEPT] = read;
	}
	tally_count(tally, TALLY_OFFCPU_SEEN,
	            c->v[ABI_CNT_SEEN] + st->open_intervals + st->ended_intervals);
	tally_count(tally, TALLY_OFFCPU_DROP_FULL, c->v[ABI_CNT_DROP_COUNTS_FULL]);
	tally_count(tally, TALLY_OFFCPU_DROP_BUSY, c->v[ABI_CNT_DROP_COUNTS_BUSY]);
	if (c->v[ABI_CNT_KEPT] > read)
		tally_count(tally, TALLY_OFFCPU_DROP_UNREAD, c->v[ABI_CNT_KEPT] - read);
	tally_count(tally, TALLY_OFFCPU_DROP_FULL_AGG, as->intervals_dropped);
	tally_count(tally, TALLY_OFFCPU_KSTACKS_CACHED, c->v[ABI_CNT_KSTACK_CACHE_HIT]);
	tally_count(tally, TALLY_OFFCPU_USTACKS_CACHED, c->v[ABI_CNT_USTACK_CACHE_HIT]);
	tally_count(tally, TALLY_OFFCPU_WALKS_DIFFER,
	            c->v[ABI_CNT_WALKS_DIFFER] + c->v[ABI_CNT_KSTACK_CACHE_DIFFER] +
	                    c->v[ABI_CNT_USTACK_CACHE_DIFFER]);
	tally_count(tally, TALLY_OFFCPU_OPEN, st->open_intervals);
	tally_count(tally, TALLY_OFFCPU_BLOCKED, st->blocked);
	tally_count(tally, TALLY_OFFCPU_STACKS_LOST, st->blocked_lost);
	tally_count(tally, TALLY_OFFCPU_WAKERS_DROPPED, as->wakers_dropped);
	tally_count(tally, TALLY_READ_ERRORS, st->read_errors);
	tally_add_offcpu(&tally->kernel, c);
}

static void note_refused(const struct offcpu *s)
{
	uint64_t n = smp_offcpu_stats(s->sampler)->refused;

	if (n)
		tally_note(s->env->tally,
		           "cannot read the stacks of %llu thread%s off-CPU when the capture "
		           "began; these stacks are incomplete: needs CAP_SYS_PTRACE",
		           (unsigned long long)n, n == 1 ? "" : "s");
}

/* Up to this many missed events need no note. */
#define MISSED_FEW     10
#define MISSED_PER_100 1

void src_offcpu_note_missed(const struct src_env *env)
{
	const struct pfa_options *o = env->o;
	const struct abi_counters *c = &env->tally->offcpu;
	const uint64_t begin = c->v[ABI_CNT_OFFCPU_OUT_MISSED],
	               all = tally_get(env->tally, TALLY_OFFCPU_SEEN) + begin,
	               n = c->v[ABI_CNT_OFFCPU_IN_MISSED] + begin;

	/* The duration of a missed interval is not known, nor whether the filter passes it. */
	if (o->offcpu_min_ns || o->offcpu_max_ns)
		return;
	if (n > MISSED_FEW && n * 100 > all * MISSED_PER_100)
		tally_note(env->tally,
		           "%llu off-CPU intervals: %llu sched_switch or sched_wakeup events were "
		           "missed; the times of these intervals are estimated, or they are "
		           "missing (offcpu_switch_in_missed, offcpu_switch_out_missed)",
		           (unsigned long long)all, (unsigned long long)n);
}

/* Returns true if the options select all intervals, so that a process without one needs a note. */
static bool all_wanted(const struct src_env *env)
{
	const uint32_t sleeps = 1U << EV_OFFCPU_INTERRUPTIBLE | 1U << EV_OFFCPU_UNINTERRUPTIBLE;
	const struct pfa_options *o = env->o;
	const uint32_t states = o->offcpu_states ? o->offcpu_states : STATES_DEFAULT;

	return o->target == PFA_TARGET_PID && !tally_get(env->tally, TALLY_OFFCPU_DROP_FULL) &&
	       !o->offcpu_min_ns && !o->offcpu_max_ns && (states & sleeps) == sleeps &&
	       !(o->comms && o->comms[0]) && !(o->cgroups && o->cgroups[0]);
}

void src_offcpu_note_hidden(const struct src_env *env, const struct smp_offcpu *off)
{
	const uint64_t seen = tally_get(env->tally, TALLY_OFFCPU_SEEN);
	const struct target *t = env->target;
	uint64_t n = 0;
	uint32_t of = 0;

	if (!all_wanted(env) || (seen && t->n == 1))
		return;
	for (uint32_t i = 0; i < t->n; i++) {
		uint64_t asleep = off && smp_offcpu_knows(off, t->pids[i])
		                          ? 0
		                          : tgt_asleep_cnt(t, t->pids[i]);

		n += asleep;
		of += asleep > 0;
	}
	if (n && seen)
		tally_note(env->tally,
		           "no off-CPU intervals of %u of the %u processes, although %llu of their "
		           "threads are blocked: BPF programs on this machine do not get their "
		           "sched_switch events (unless they blocked just now)",
		           of, t->n, (unsigned long long)n);
	else if (n)
		tally_note(env->tally,
		           "no off-CPU intervals, although %llu thread%s of the target %s blocked: "
		           "BPF programs on this machine do not get the sched_switch events "
		           "(unless blocked just now)",
		           (unsigned long long)n, n == 1 ? "" : "s", n == 1 ? "is" : "are");
}

static void offcpu_collect(void *src)
{
	const struct offcpu *s = src;

	count(s);
	note_refused(s);
	src_offcpu_note_missed(s->env);
	src_offcpu_note_hidden(s->env, s->sampler);
}

static void offcpu_kind(const void *src, struct result_kind *ret)
{
	const struct offcpu *s = src;
	const struct smp_offcpu_stats *st = smp_offcpu_stats(s->sampler);

	ret->offcpu = true;
	ret->event = "off-cpu";
	ret->skip = prof_is_switch;
	ret->begin_realtime_ns += st->begin_ns - s->env->start_ns;
	ret->duration_ns = st->end_ns - st->begin_ns;
}

static void offcpu_built(void *src, const struct src_product *p, struct pfa_stats *final)
{
	static const enum tally_id drops[] = {TALLY_OFFCPU_DROP_FULL, TALLY_OFFCPU_DROP_BUSY,
	                                      TALLY_OFFCPU_DROP_UNREAD, TALLY_OFFCPU_DROP_FULL_AGG};
	const struct offcpu *s = src;
	struct tally *tally = s->env->tally;

	tally_count(tally, TALLY_OFFCPU_DROP_FULL_AGG, p->result.dropped);
	tally_count(tally, TALLY_OFFCPU_KEPT, p->result.kept);
	final->offcpu_kept = p->result.kept;
	final->offcpu_ns = p->result.weight;
	final->offcpu_seen = tally_get(tally, TALLY_OFFCPU_SEEN);
	for (size_t i = 0; i < ARRAY_SIZE(drops); i++)
		final->offcpu_dropped += tally_get(tally, drops[i]);
}

/* ---- quality lines --------------------------------------------------------------------------- */

static void add_states(const struct offcpu *s, struct result_lines *to)
{
	_cleanup_(sbuf_done) struct sbuf b;

	sbuf_init(&b, 4096);
	for (int i = EV_OFFCPU_NONE + 1; i < EV_OFFCPU_CNT; i++)
		if (states_of(s) >> i & 1) {
			(void)sbuf_str(&b, b.len ? "," : ""); /* a failure stays in it */
			(void)sbuf_str(&b, ev_offcpu_name((enum ev_offcpu)i));
		}
	if (b.err)
		to->error = b.err;
	else
		(void)result_line(to, "states: %.*s", (int)b.len, b.p);
}

static int offcpu_statistics(const void *src, const struct src_product *p,
                             const struct pfa_stats *final, struct result_lines *to)
{
	static const struct {
		const char *key;
		enum tally_id id;
		bool always;
	} lines[] = {
	        {"intervals_seen", TALLY_OFFCPU_SEEN, true},
	        {"intervals_in_profile", TALLY_OFFCPU_KEPT, true},
	        {"dropped_tables_full", TALLY_OFFCPU_DROP_FULL, false},
	        {"dropped_tables_busy", TALLY_OFFCPU_DROP_BUSY, false},
	        {"dropped_unread", TALLY_OFFCPU_DROP_UNREAD, false},
	        {"dropped_memory", TALLY_OFFCPU_DROP_FULL_AGG, false},
	        {"intervals_open_at_end", TALLY_OFFCPU_OPEN, true},
	        {"threads_blocked_at_start", TALLY_OFFCPU_BLOCKED, true},
	};
	const struct offcpu *s = src;
	const struct pfa_options *o = s->env->o;

	add_states(s, to);
	if (o->offcpu_min_ns)
		(void)result_line(to, "min_ns: %llu", (unsigned long long)o->offcpu_min_ns);
	if (o->offcpu_max_ns)
		(void)result_line(to, "max_ns: %llu", (unsigned long long)o->offcpu_max_ns);
	(void)result_line(to, "wakers: %s", o->flags & PFA_OFFCPU_WAKERS ? "true" : "false");
	for (size_t i = 0; i < ARRAY_SIZE(lines); i++) {
		uint64_t v = tally_get(s->env->tally, lines[i].id);

		if (v || lines[i].always)
			(void)result_line(to, "%s: %llu", lines[i].key, (unsigned long long)v);
	}
	(void)result_line(to, "dropped: %llu", (unsigned long long) final->offcpu_dropped);
	if (p->result.kept == 0)
		(void)result_line(to, "empty: no off-CPU intervals of the target");
	return to->error;
}

const struct source src_offcpu = {
        .mode = PFA_MODE_OFFCPU,
        .title = "off-CPU profile",
        .programs = "off-CPU",
        .walks = true,
        .output = offsetof(struct pfa_options, offcpu),
        .check = offcpu_check,
        .open = offcpu_open,
        .config = offcpu_config,
        .load = offcpu_load,
        .start = offcpu_start,
        .begin = offcpu_begin,
        .backlog = offcpu_backlog,
        .drain = offcpu_drain,
        .drain_all = offcpu_drain_all,
        .reread = offcpu_reread,
        .end = offcpu_end,
        .finish = offcpu_finish,
        .collect = offcpu_collect,
        .profile_kind = PFA_KIND_OFFCPU,
        .kind = offcpu_kind,
        .built = offcpu_built,
        .statistics = offcpu_statistics,
        .running = offcpu_running,
        .locked_bytes = offcpu_locked_bytes,
        .encode = src_encode_pprof,
        .free = offcpu_free,
};
