/* SPDX-License-Identifier: Apache-2.0 */
/* Metrics as JSON. Keep docs/metrics.schema.json in step. */
#include <inttypes.h>

#include "encode/encode_priv.h"

#define SCHEMA "perf-agent.pmu/1"

/* Writes a value with the comma and newline before it. Objects on one line (.flat) have no
 * newlines. Failures stick in the buffer. */
struct json {
	struct sbuf *b;
	uint32_t depth;
	uint32_t flat; /* depth from which on all is on one line; 0: none */
	bool first;    /* nothing in the innermost object or array yet */
};

/* ---- pieces --------------------------------------------------------------------------------- */

static void put_line(struct json *j)
{
	if (j->flat)
		return;
	(void)sbuf_char(j->b, '\n');
	for (uint32_t i = 0; i < j->depth; i++)
		(void)sbuf_char(j->b, ' ');
}

/* Writes the separator and the key of a value. @key: NULL in arrays. */
static void put_key(struct json *j, const char *key)
{
	if (!j->first)
		(void)sbuf_str(j->b, j->flat ? ", " : ",");
	if (j->depth > 0)
		put_line(j);
	j->first = false;
	if (key) {
		enc_put_json_string(j->b, key, strlen(key));
		(void)sbuf_str(j->b, ": ");
	}
}

static void open_with(struct json *j, const char *key, char bracket)
{
	put_key(j, key);
	(void)sbuf_char(j->b, bracket);
	j->depth++;
	j->first = true;
}

static void open_flat(struct json *j, const char *key, char bracket)
{
	open_with(j, key, bracket);
	if (!j->flat)
		j->flat = j->depth;
}

static void close_with(struct json *j, char bracket)
{
	bool empty = j->first;

	j->depth--;
	if (!empty)
		put_line(j);
	(void)sbuf_char(j->b, bracket);
	if (j->flat > j->depth)
		j->flat = 0;
	j->first = false;
}

static void put_u64(struct json *j, const char *key, uint64_t v)
{
	put_key(j, key);
	(void)sbuf_addf(j->b, "%" PRIu64, v);
}

static void put_null(struct json *j, const char *key)
{
	put_key(j, key);
	(void)sbuf_str(j->b, "null");
}

static void put_bool(struct json *j, const char *key, bool v)
{
	put_key(j, key);
	(void)sbuf_str(j->b, v ? "true" : "false");
}

static void put_text(struct json *j, const char *key, const char *s)
{
	put_key(j, key);
	enc_put_json_string(j->b, s, strlen(s));
}

static void put_comm(struct json *j, const char comm[static MET_COMM_LEN])
{
	put_key(j, "comm");
	enc_put_json_string(j->b, comm, strnlen(comm, MET_COMM_LEN));
}

/* ---- entries -------------------------------------------------------------------------------- */

static void put_time(struct json *j, const char *key, uint64_t sum_ns, const struct met_summary *t)
{
	const struct {
		const char *key;
		uint64_t ns;
	} values[] = {
	        {"min_ns", t->min_ns},   {"max_ns", t->max_ns}, {"mean_ns", t->mean_ns},
	        {"p50_ns", t->p50_ns},   {"p95_ns", t->p95_ns}, {"p99_ns", t->p99_ns},
	        {"p999_ns", t->p999_ns},
	};

	open_flat(j, key, '{');
	put_u64(j, "sum_ns", sum_ns);
	put_u64(j, "count", t->count);
	put_u64(j, "total_ns", t->total_ns);
	for (size_t i = 0; i < ARRAY_SIZE(values); i++) {
		if (t->count > 0)
			put_u64(j, values[i].key, values[i].ns);
		else
			put_null(j, values[i].key); /* no percentiles of no values */
	}
	close_with(j, '}');
}

static void put_reasons(struct json *j, const uint64_t reason[static MET_REASON_CNT])
{
	open_flat(j, "reasons", '{');
	for (int i = 0; i < MET_REASON_CNT; i++)
		put_u64(j, met_reason_name((enum met_reason)i), reason[i]);
	close_with(j, '}');
}

static const char *core_type_name(const struct met_snapshot *s, uint32_t core_type)
{
	return core_type < s->core_types.n ? s->core_types.p[core_type] : "";
}

static void put_counter(struct json *j, const struct met_snapshot *s, const struct met_counter *c)
{
	open_flat(j, NULL, '{');
	put_text(j, "name", met_counter_name(c->id));
	put_bool(j, "hardware", met_counter_is_hardware(c->id));
	put_text(j, "core_type",
	         met_counter_is_hardware(c->id) ? core_type_name(s, c->core_type) : "");
	/* null and not 0: it was not counted. */
	if (met_counter_counted(c)) {
		put_u64(j, "value", c->value);
		put_u64(j, "raw", c->raw);
	} else {
		put_null(j, "value");
		put_null(j, "raw");
	}
	put_u64(j, "enabled_ns", c->enabled_ns);
	put_u64(j, "running_ns", c->running_ns);
	if (c->error)
		put_text(j, "error", err_symbol(c->error));
	else
		put_null(j, "error");
	close_with(j, '}');
}

static void put_ratio(struct json *j, const struct enc_derived *d, int r, double ratio)
{
	char text[ENC_DECIMAL_MAX];

	if (r < 0) {
		put_null(j, d->key);
		return;
	}
	put_key(j, d->key);
	(void)sbuf_str(j->b, enc_decimal(ratio * d->factor, text));
}

static void put_derived(struct json *j, const struct met_snapshot *s, const struct met_entry *e)
{
	double ratio = 0;
	int r;

	open_flat(j, "derived", '{');
	for (int i = 0; i < ENC_DERIVED_CNT; i++) {
		const struct enc_derived *d = &enc_derived_ratios[i];

		r = met_ratio(e, d->num, d->den, &ratio);
		put_ratio(j, d, r, ratio);
	}
	close_with(j, '}');
	open_with(j, "derived_per_core_type", '[');
	for (uint32_t k = 0; s->core_types.n > 1 && k < s->core_types.n; k++) {
		open_flat(j, NULL, '{');
		put_text(j, "core_type", s->core_types.p[k]);
		for (int i = 0; i < ENC_DERIVED_CNT; i++) {
			const struct enc_derived *d = &enc_derived_ratios[i];

			r = met_ratio_on(e, k, d->num, d->den, &ratio);
			put_ratio(j, d, r, ratio);
		}
		close_with(j, '}');
	}
	close_with(j, ']');
}

static void put_thread(struct json *j, const struct met_thread *t)
{
	static const char *const keys[MET_TIME_CNT] = {
	        [MET_SLICE] = "on_cpu_ns",
	        [MET_RUNQ] = "run_queue_ns",
	        [MET_OFF] = "off_cpu_ns",
	};

	open_flat(j, NULL, '{');
	put_u64(j, "tid", t->tid);
	put_comm(j, t->comm);
	for (int i = 0; i < MET_TIME_CNT; i++)
		put_u64(j, keys[i], t->ns[i]);
	put_reasons(j, t->reason);
	close_with(j, '}');
}

static void put_label(struct json *j, const struct met_label *l)
{
	open_flat(j, NULL, '{');
	put_text(j, "key", l->key);
	put_text(j, "value", l->value);
	close_with(j, '}');
}

/* @all: not one process */
static void put_entry(struct json *j, const char *key, const struct met_snapshot *s,
                      const struct met_entry *e, bool all)
{
	static const char *const keys[MET_TIME_CNT] = {
	        [MET_SLICE] = "on_cpu",
	        [MET_RUNQ] = "run_queue",
	        [MET_OFF] = "off_cpu",
	};

	open_with(j, key, '{');
	if (all) {
		put_null(j, "pid");
		put_null(j, "comm");
	} else {
		put_u64(j, "pid", e->pid);
		put_comm(j, e->comm);
	}
	open_flat(j, "labels", '[');
	vec_each (l, &e->labels)
		put_label(j, l);
	close_with(j, ']');
	put_u64(j, "switches", e->switches);
	put_reasons(j, e->reason);
	for (int i = 0; i < MET_TIME_CNT; i++)
		put_time(j, keys[i], e->ns[i], &e->time[i]);
	open_with(j, "counters", '[');
	vec_each (c, &e->counters)
		put_counter(j, s, c);
	close_with(j, ']');
	put_derived(j, s, e);
	open_with(j, "threads", '[');
	vec_each (t, &e->threads)
		put_thread(j, t);
	close_with(j, ']');
	put_u64(j, "ended_threads", e->ended_threads);
	close_with(j, '}');
}

/* ---- the whole ------------------------------------------------------------------------------ */

static const char *scope_name(enum met_scope scope)
{
	switch (scope) {
	case MET_PIDS:
		return "pids";
	case MET_ALL:
		return "all";
	case MET_PER_PID:
		return "per_pid";
	}
	assert(!"unknown scope");
	return "";
}

int enc_metrics_json(const struct met_snapshot *s, struct sbuf *out)
{
	struct json j = {.b = out, .first = true};
	size_t len = out->len;

	open_with(&j, NULL, '{');
	put_text(&j, "schema", SCHEMA);
	put_text(&j, "scope", scope_name(s->scope));
	put_u64(&j, "time_realtime_ns", s->time_realtime_ns);
	put_u64(&j, "duration_ns", s->duration_ns);
	put_u64(&j, "cpus", s->cpus);
	put_u64(&j, "cpus_offline", s->cpus_offline);
	open_flat(&j, "core_types", '[');
	vec_each (name, &s->core_types)
		put_text(&j, NULL, *name);
	close_with(&j, ']');
	open_with(&j, "labels", '[');
	vec_each (l, &s->labels)
		put_label(&j, l);
	close_with(&j, ']');
	open_with(&j, "notes", '[');
	vec_each (note, &s->notes)
		put_text(&j, NULL, *note);
	close_with(&j, ']');
	put_entry(&j, "all", s, &s->all, true);
	open_with(&j, "processes", '[');
	vec_each (e, &s->procs)
		put_entry(&j, NULL, s, e, false);
	close_with(&j, ']');
	put_u64(&j, "other_threads", s->other_threads);
	put_u64(&j, "missed_events", s->missed_events);
	put_u64(&j, "dropped_events", s->dropped_events);
	close_with(&j, '}');
	(void)sbuf_char(out, '\n');
	if (out->err) {
		out->len = len;
		if (out->p)
			out->p[len] = '\0';
	}
	return out->err;
}
