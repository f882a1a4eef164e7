/* SPDX-License-Identifier: Apache-2.0 */
/* The figures that a profile carries about itself: one "key: value" a line. docs/output.md explains
 * each key. */
#include "session/session_priv.h"

#include <stdio.h>

static int add(struct ses *s, const char *fmt, ...) PRINTF_FMT(2, 3);
static int add(struct ses *s, const char *fmt, ...)
{
	_cleanup_free_ char *line = NULL;
	va_list ap;
	int n, r;

	va_start(ap, fmt);
	n = vasprintf(&line, fmt, ap);
	va_end(ap);
	if (n < 0) {
		line = NULL;
		return -ENOMEM;
	}
	r = vec_push(&s->now->quality, line);
	if (r < 0)
		return r;
	line = NULL; /* owned by the vector */
	return prof_model_comment(s->now->result.model, "%s",
	                          s->now->quality.p[s->now->quality.n - 1]);
}

static double pct(uint64_t part, uint64_t whole)
{
	return whole ? 100.0 * (double)part / (double)whole : 0.0;
}

/* "depth limit" -> "depth_limit" */
static void key_of(const char *name, char *ret, size_t size)
{
	(void)str_copy(ret, size, name); /* names are short; a cut key would still be a key */
	for (char *p = ret; *p; p++)
		if (!((*p >= 'a' && *p <= 'z') || (*p >= '0' && *p <= '9')))
			*p = *p >= 'A' && *p <= 'Z' ? (char)(*p - 'A' + 'a') : '_';
}

uint64_t ses_threads_cpu_ns(struct ses *s)
{
	uint64_t sum = thread_cpu_ns(&s->d) + thread_cpu_ns(&s->w);

	if (s->pool)
		sum += pool_cpu_ns(s->pool);
	return sum + (s->symbolizer ? symbolizer_process_cpu_ns(s->symbolizer) : 0);
}

uint64_t ses_agent_cpu_ns(struct ses *s, const struct abi_counters *c)
{
	uint64_t sum = s->end_ns ? s->capture_cpu_ns : ses_threads_cpu_ns(s);
	uint64_t ticks = c->v[ABI_CNT_TICK_FOREIGN] + c->v[ABI_CNT_TICK_IDLE];

	sum -= MIN_OF(sum, s->before_cpu_ns);
	sum += c->v[ABI_CNT_PROG_NS];
	/* Of ticks that hit none of ours some were timed: with --pid one in 64, else all. */
	if (c->v[ABI_CNT_FOREIGN_TIMED])
		sum += (uint64_t)((double)c->v[ABI_CNT_FOREIGN_NS] * (double)ticks /
		                  (double)c->v[ABI_CNT_FOREIGN_TIMED]);
	return sum;
}

static int add_pids(struct ses *s)
{
	_cleanup_(sbuf_done) struct sbuf b;
	int r;

	sbuf_init(&b, 4096);
	r = ses_targets_text(s, &b);
	if (r == 0)
		r = add(s, "target: %s", b.p);
	if (r == 0 && s->o.follow_children)
		r = add(s, "follow_children: true");
	return r;
}

static int add_filter(void *arg, const char *key, const char *value)
{
	return add(arg, "%s: %s", key, value);
}

static int add_target(struct ses *s)
{
	switch (s->o.target) {
	case SES_TARGET_PID:
		return add_pids(s);
	case SES_TARGET_ALL:
		return add(s, "target: all processes");
	case SES_TARGET_COMMAND:
		return add(s, "target: command %s (pid %d)", s->o.argv[0], (int)s->cmd.pid);
	}
	return 0;
}

static int add_counter(void *arg, const char *name, uint64_t value)
{
	return add(arg, "%s: %llu", name, (unsigned long long)value);
}

/* ---- where stacks end too early, or are guessed -----------------------------------------------
 */

#define PLACE_LINES 5
#define PLACE_NAME  128 /* bytes of a name: file names have up to 255 */

struct place {
	const char *name;
	bool bare; /* without a table */
	uint64_t weight;
};

static int cmp_name(const void *a, const void *b)
{
	const struct place *x = a, *y = b;
	int r = strcmp(x->name, y->name);

	return r ? r : x->bare - y->bare;
}

static int cmp_weight(const void *a, const void *b)
{
	const struct place *x = a, *y = b;

	if (x->weight != y->weight)
		return (x->weight < y->weight) - (x->weight > y->weight);
	return cmp_name(a, b);
}

/* Files of one name are one: the same library of many containers. */
static size_t merge_names(struct place *p, size_t n)
{
	size_t to = 0;

	qsort(p, n, sizeof(*p), cmp_name);
	for (size_t i = 0; i < n; i++) {
		if (to > 0 && cmp_name(&p[to - 1], &p[i]) == 0)
			p[to - 1].weight += p[i].weight;
		else
			p[to++] = p[i];
	}
	qsort(p, to, sizeof(*p), cmp_weight);
	return to;
}

/* A line for each of those with most weight. */
static int add_places(struct ses *s, const char *key, struct place *p, size_t n, uint64_t whole)
{
	uint64_t rest = 0;
	int r = 0;

	n = merge_names(p, n);
	for (size_t i = 0; i < n && r == 0; i++) {
		if (i < PLACE_LINES)
			r = add(s, "%s: %.*s%s %.2f", key, PLACE_NAME, p[i].name,
			        p[i].bare ? " (without table)" : "", pct(p[i].weight, whole));
		else
			rest += p[i].weight;
	}
	if (r == 0 && rest)
		r = add(s, "%s: [others] %.2f", key, pct(rest, whole));
	return r;
}

static int add_incomplete(struct ses *s, const struct result_quality *q, uint64_t whole)
{
	_cleanup_free_ struct place *p = calloc((size_t)q->n_incomplete + 1, sizeof(*p));
	size_t n = 0;

	if (!p)
		return -ENOMEM;
	for (uint32_t i = 0; i < q->n_incomplete; i++) {
		if (!q->incomplete[i])
			continue;
		p[n].name = i == 0 ? "[jit]" : str_base_name(trk_image(s->trk, i)->path);
		p[n++].weight = q->incomplete[i];
	}
	if (q->incomplete_unknown)
		p[n++] = (struct place){.name = "[unknown]", .weight = q->incomplete_unknown};
	return add_places(s, "incomplete_in", p, n, whole);
}

static int add_guessed(struct ses *s, const struct result_quality *q, uint64_t whole)
{
	_cleanup_free_ struct place *p = calloc(2 * (size_t)q->n_incomplete + 1, sizeof(*p));
	size_t n = 0;

	if (!p)
		return -ENOMEM;
	for (uint32_t i = 0; q->guessed_in && i < 2 * q->n_incomplete; i++) {
		if (!q->guessed_in[i])
			continue;
		p[n].name = i < 2 ? "[unknown]" : str_base_name(trk_image(s->trk, i / 2)->path);
		p[n].bare = i % 2;
		p[n++].weight = q->guessed_in[i];
	}
	if (q->guessed_early)
		p[n++] = (struct place){.name = "[before its table]", .weight = q->guessed_early};
	return add_places(s, "guessed_in", p, n, whole);
}

/* How the walks of user stacks ended. */
static int add_walks(struct ses *s, const struct result_quality *q)
{
	uint64_t whole = q->user_weight;
	char key[64];
	int r = add(s, "complete_stacks_pct: %.2f",
	            whole ? pct(q->walk[EV_WALK_ROOT], whole) : 100.0);

	for (int i = 0; i < EV_WALK_CNT && r == 0; i++) {
		if (!q->walk[i])
			continue;
		key_of(ev_walk_name((enum ev_walk)i), key, sizeof(key));
		r = add(s, "walk_%s_pct: %.2f", key,
		        pct(q->walk[i],
		            result_has_user_stack((enum ev_walk)i) ? whole : q->weight));
	}
	if (r == 0)
		r = add(s, "guessed_stacks_pct: %.2f", pct(q->guessed, whole));
	if (r == 0)
		r = add(s, "jit_stacks_pct: %.2f", pct(q->jit, whole));
	if (r == 0)
		r = add_incomplete(s, q, whole);
	if (r == 0)
		r = add_guessed(s, q, whole);
	return r;
}

static const char *unwind_name(enum ses_unwind u)
{
	switch (u) {
	case SES_UNWIND_AUTO:
		return "auto";
	case SES_UNWIND_FP:
		return "fp";
	case SES_UNWIND_DWARF:
		return "dwarf";
	}
	return "unknown";
}

/* What was asked for. */
static int add_request(struct ses *s, enum ses_kind kind)
{
	int r = 0;

	for (const char *const *t = s->o.tags; t && *t && r == 0; t++)
		r = prof_model_comment(s->now->result.model, "%s", *t);
	if (r == 0)
		r = add(s, "perf-agent: " PERF_AGENT_VERSION);
	if (r == 0)
		r = add_target(s);
	if (r == 0)
		r = ses_targets_each_filter(s, add_filter, s);
	if (r == 0)
		r = add(s, "event: %s",
		        kind == SES_KIND_OFFCPU ? "off-cpu" : pev_spec_name(&s->spec));
	if (r == 0 && kind == SES_KIND_ONCPU)
		r = add(s, "sample_rate_hz: %u", s->o.rate_hz);
	if (r == 0)
		r = add(s, "unwind: %s", unwind_name(s->o.unwind));
	if (r == 0)
		r = add(s, "kernel_stacks: %s", s->o.kernel_stacks ? "true" : "false");
	if (r == 0)
		r = add(s, "duration_s: %.3f", (double)s->now->result.model->duration_ns / 1e9);
	return r;
}

static int add_samples(struct ses *s)
{
	int r = add(s, "samples_seen: %llu", (unsigned long long)s->final.seen);

	if (r == 0)
		r = add(s, "samples_in_profile: %llu", (unsigned long long)s->final.kept);
	if (r == 0)
		r = add(s, "dropped: %llu", (unsigned long long)s->final.dropped);
	if (r == 0)
		r = tally_each(&s->tally, TALLY_DROP, add_counter, s);
	if (r == 0 && s->final.kept == 0)
		r = add(s, "empty: no samples hit the target");
	return r;
}

static int add_waits(struct ses *s)
{
	static const struct {
		const char *key;
		enum tally_id id;
		bool always;
	} lines[] = {
	        {"waits_seen", TALLY_OFF_SEEN, true},
	        {"waits_in_profile", TALLY_OFF_KEPT, true},
	        {"dropped_tables_full", TALLY_OFF_DROP_FULL, false},
	        {"dropped_tables_busy", TALLY_OFF_DROP_BUSY, false},
	        {"dropped_unread", TALLY_OFF_DROP_UNREAD, false},
	        {"dropped_memory", TALLY_OFF_DROP_FULL_AGG, false},
	        {"waits_open_at_end", TALLY_OFF_OPEN, true},
	        {"threads_blocked_at_start", TALLY_OFF_BLOCKED, true},
	};
	_cleanup_(sbuf_done) struct sbuf b;
	int r = 0;

	sbuf_init(&b, 4096);
	for (int i = EV_OFF_NONE + 1; i < EV_OFF_CNT; i++)
		if (ses_off_states(s) >> i & 1) {
			(void)sbuf_str(&b, b.len ? "," : ""); /* a failure stays in it */
			(void)sbuf_str(&b, ev_off_name((enum ev_off)i));
		}
	r = b.err ? b.err : add(s, "states: %.*s", (int)b.len, b.p);
	if (r == 0 && s->o.off_min_ns)
		r = add(s, "min_ns: %llu", (unsigned long long)s->o.off_min_ns);
	if (r == 0 && s->o.off_max_ns)
		r = add(s, "max_ns: %llu", (unsigned long long)s->o.off_max_ns);
	if (r == 0)
		r = add(s, "wakers: %s", s->o.off_wakers ? "true" : "false");
	for (size_t i = 0; i < ARRAY_SIZE(lines) && r == 0; i++) {
		uint64_t v = tally_get(&s->tally, lines[i].id);

		if (v || lines[i].always)
			r = add(s, "%s: %llu", lines[i].key, (unsigned long long)v);
	}
	if (r == 0)
		r = add(s, "dropped: %llu", (unsigned long long)s->final.waits_dropped);
	if (r == 0 && s->now->result.kept == 0)
		r = add(s, "empty: no thread of the target waited");
	return r;
}

/* How good the stacks are, and their names. */
static int add_stacks(struct ses *s, const struct result_quality *q)
{
	char key[64];
	int r = 0;

	if (q->weight) {
		r = add_walks(s, q);
		if (r == 0)
			r = add(s, "cut_stacks_pct: %.2f",
			        pct(q->walk[EV_WALK_DEPTH] + q->kernel_cut, q->weight));
		if (r == 0)
			r = add(s, "lost_stacks_pct: %.2f", pct(q->stack_lost, q->weight));
		if (r == 0 && q->user_frames > 0)
			r = add(s, "named_user_pct: %.2f", 100 * q->user_named / q->user_frames);
		if (r == 0 && q->kernel_frames > 0)
			r = add(s, "named_kernel_pct: %.2f",
			        100 * q->kernel_named / q->kernel_frames);
	}
	for (int i = EV_REASON_NAMED + 1; i < EV_REASON_CNT && r == 0; i++) {
		if (!q->reason_frames[i])
			continue;
		key_of(ev_reason_name((enum ev_reason)i), key, sizeof(key));
		r = add(s, "unnamed_frames_%s: %llu", key, (unsigned long long)q->reason_frames[i]);
	}
	return r;
}

/* The ticks cover this much more or less than all of the time before a note says so, besides three
 * standard deviations. */
#define COVERED_ROOM_PCT 5.0

/* The target's on-CPU time, and how much of it the samples cover. */
static int add_cpu_time(struct ses *s)
{
	const struct result_cpu_time_total *t;
	double covered, off;
	int r;

	if (!s->cpu_time)
		return 0;
	t = result_cpu_time_total(s->cpu_time);
	r = add(s, "cpu_time_ms: %.3f", (double)t->ran_ns / 1e6);
	if (r == 0)
		r = add(s, "cpu_time_clock: sched_switch");
	if (r < 0 || !t->ran_ns)
		return r;
	covered = pct(t->seen, t->ran_ns);
	off = (covered > 100 ? covered - 100 : 100 - covered) - COVERED_ROOM_PCT;
	/* The variance of a share, in percent, of as many samples as the time would give. */
	if (off > 0 && off * off > 9 * 1e4 * (double)s->spec.period / (double)t->ran_ns)
		tally_note(
		        &s->tally,
		        "samples cover %.0f %% of the CPU time of the target, as measured between "
		        "context switches%s; totals are scaled to the measured time, shares are "
		        "those of the samples",
		        covered,
		        covered < 100 ? ": ticks came late or not at all (it runs for "
		                        "microseconds at a time or in step with the ticks, a "
		                        "hypervisor delays interrupts, or the sample rate is too "
		                        "high for this machine)"
		                      : "");
	return add(s, "cpu_time_covered_pct: %.2f", covered);
}

/* /proc/stat counts idle time in steps of 10 ms a CPU: below this a share of it says nothing. */
#define IDLE_MIN_NS NSEC_PER_SEC

/* CPUs that idled, and first samples. */
static int add_ticks(struct ses *s)
{
	uint64_t all_ns = (uint64_t)s->n_cpus * s->final.elapsed_ns;
	int r = 0;

	/* Says something of the machine, not of one process on it. */
	if (s->o.target == SES_TARGET_ALL && s->idle_start_ns && s->final.elapsed_ns >= IDLE_MIN_NS)
		r = add(s, "idle_pct: %.2f", pct(MIN_OF(s->idle_ns, all_ns), all_ns));
	if (r == 0 && tally_get(&s->tally, TALLY_COPIES_WALKED)) {
		r = add(s, "first_samples: %llu",
		        (unsigned long long)tally_get(&s->tally, TALLY_COPIES_WALKED));
		if (r == 0)
			r = add(s, "first_samples_incomplete: %llu",
			        (unsigned long long)tally_get(&s->tally, TALLY_COPIES_INCOMPLETE));
	}
	return r;
}

static int add_cost(struct ses *s)
{
	uint64_t finish_ns =
	        thread_own_cpu_ns() - s->stop_cpu_ns + ses_threads_cpu_ns(s) - s->capture_cpu_ns;
	int r = add(s, "agent_setup_cpu_ms: %.1f", (double)s->setup_cpu_ns / 1e6);

	if (r == 0 && s->prepare_ns)
		r = add(s, "table_setup_ms: %.1f", (double)s->prepare_ns / 1e6);
	if (r == 0)
		r = add(s, "agent_finish_cpu_ms: %.1f", (double)finish_ns / 1e6);
	if (r == 0)
		r = add(s, "agent_cpu_ms: %.1f", (double)s->final.agent_cpu_ns / 1e6);
	if (r == 0)
		r = add(s, "agent_cpu_pct: %.2f", pct(s->final.agent_cpu_ns, s->final.elapsed_ns));
	return r;
}

int ses_quality_add(struct ses *s, enum ses_kind kind, const struct result_quality *q)
{
	int r;

	s->now = &s->product[kind];
	r = add_request(s, kind);
	if (r == 0)
		r = kind == SES_KIND_OFFCPU ? add_waits(s) : add_samples(s);
	if (r == 0)
		r = add_stacks(s, q);
	if (r == 0)
		r = tally_each(&s->tally, TALLY_LOSS, add_counter, s);
	if (r == 0 && kind == SES_KIND_ONCPU)
		r = add_cpu_time(s);
	if (r == 0 && kind == SES_KIND_ONCPU)
		r = add_ticks(s);
	if (r == 0)
		r = add_cost(s);
	for (size_t i = 0; i < s->tally.n_notes && r == 0; i++)
		r = prof_model_comment(s->now->result.model, "note: %s", s->tally.notes[i]);
	return r;
}
