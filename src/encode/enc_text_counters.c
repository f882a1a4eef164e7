/* SPDX-License-Identifier: Apache-2.0 */
/* enc_text - parts of text lines; lines of counters */
#include <inttypes.h>
#include <stdio.h>

#include "encode/enc_text_priv.h"

#define TITLE_WIDTH 32

static const char *const counter_titles[MET_COUNTER_CNT] = {
        [MET_COUNTER_CYCLES] = "Total Cycles",
        [MET_COUNTER_INSTRUCTIONS] = "Total Instructions",
        [MET_COUNTER_CACHE_REFERENCES] = "Total Cache References",
        [MET_COUNTER_CACHE_MISSES] = "Total Cache Misses",
        [MET_COUNTER_BRANCHES] = "Total Branches",
        [MET_COUNTER_BRANCH_MISSES] = "Total Branch Misses",
        [MET_COUNTER_PAGE_FAULTS] = "Page Faults",
        [MET_COUNTER_MIGRATIONS] = "CPU Migrations",
        [MET_COUNTER_SWITCHES] = "Context Switches",
};

/* ---- pieces --------------------------------------------------------------------------------- */

void enc_put_spaces(struct sbuf *b, size_t have, size_t width)
{
	for (; have < width; have++)
		(void)sbuf_char(b, ' ');
}

void enc_put_title(struct sbuf *b, size_t indent, const char *title)
{
	enc_put_spaces(b, 0, indent);
	indent += enc_put_name(b, title, strlen(title));
	(void)sbuf_char(b, ':');
	enc_put_spaces(b, indent, TITLE_WIDTH - 1);
	(void)sbuf_char(b, ' ');
}

const char *enc_pct_of(uint64_t part, uint64_t all, double round, char ret[static ENC_DECIMAL_MAX])
{
	uint64_t tenths = (uint64_t)((double)MIN_OF(part, all) / (double)all * 1000 + round);

	(void)snprintf(ret, ENC_DECIMAL_MAX, "%" PRIu64 ".%u", tenths / 10,
	               (unsigned int)(tenths % 10));
	return ret;
}

uint64_t enc_add_sat(uint64_t a, uint64_t b)
{
	return a > UINT64_MAX - b ? UINT64_MAX : a + b;
}

/* ---- counters ------------------------------------------------------------------------------- */

/* A counter over all core types, or on one. */
struct view {
	bool listed, counted;
	bool partly; /* some core types did not count it */
	int error;   /* of the first core type that did not */
	bool wanted; /* threads ran on cores that did not count it */
	uint64_t value, enabled_ns, running_ns;
};

static void view_add(struct view *v, const struct met_counter *c)
{
	v->listed = true;
	if (!met_counter_counted(c)) {
		/* Cores on which no thread ran do not make the sum incomplete. */
		v->wanted = v->wanted || c->enabled_ns > 0;
		v->partly = v->partly || c->error != 0 || c->enabled_ns > 0;
		if (v->error == 0)
			v->error = c->error;
		return;
	}
	v->counted = true;
	v->value = enc_add_sat(v->value, c->value);
	v->enabled_ns = enc_add_sat(v->enabled_ns, c->enabled_ns);
	v->running_ns = enc_add_sat(v->running_ns, c->running_ns);
}

static struct view view_of(const struct met_entry *e, enum met_counter_id id)
{
	struct view v = {0};

	vec_each (c, &e->counters) {
		if (c->id == id)
			view_add(&v, c);
	}
	return v;
}

static const char *why_unavailable(int error)
{
	switch (-error) {
	case ENOENT:
		return "this machine, or its hypervisor, does not have this counter";
	case ENODEV:
	case ENXIO:
		return "this machine does not have this counter";
	case EOPNOTSUPP:
		return "this machine cannot count this";
	case EACCES:
	case EPERM:
		return "no permission, needs CAP_PERFMON or a lower kernel.perf_event_paranoid";
	case EBUSY:
		return "another program has reserved the counters";
	case EINVAL:
		return "the kernel rejects this event";
	case EMFILE:
	case ENFILE:
		return "too many open files";
	case ENOSPC:
		return "all counters are in use";
	case ENOSYS:
		return "this kernel has no perf events";
	default:
		return NULL;
	}
}

static void put_unavailable(struct sbuf *b, const struct view *v)
{
	const char *why = v->error ? why_unavailable(v->error) : NULL;

	if (why)
		(void)sbuf_addf(b, "not available: %s\n", why);
	else if (v->error)
		(void)sbuf_addf(b, "not available: %s\n", err_name(v->error));
	else if (v->wanted)
		(void)sbuf_str(b, "not counted: other events used the counters all the time\n");
	else
		(void)sbuf_str(b, "not counted: no thread ran on these CPUs\n");
}

static void put_view(struct sbuf *b, const struct view *v)
{
	char pct[ENC_DECIMAL_MAX];

	if (!v->counted) {
		put_unavailable(b, v);
		return;
	}
	(void)sbuf_addf(b, "%*" PRIu64, ENC_NUMBER_WIDTH, v->value);
	if (v->running_ns < v->enabled_ns) {
		/* Rounded down: 100.0 % would hide the scaling. */
		(void)enc_pct_of(v->running_ns, v->enabled_ns, 0, pct);
		(void)sbuf_addf(b, "  (scaled: counted %s %% of the time)",
		                strcmp(pct, "0.0") == 0 ? "less than 0.1" : pct);
	}
	if (v->partly)
		(void)sbuf_str(b, "  (not of all core types)");
	(void)sbuf_char(b, '\n');
}

static void put_core_types(struct sbuf *b, const struct met_snapshot *s, const struct met_entry *e,
                           enum met_counter_id id)
{
	if (s->core_types.n < 2)
		return;
	vec_each (c, &e->counters) {
		struct view v = {0};

		if (c->id != id || c->core_type >= s->core_types.n)
			continue;
		view_add(&v, c);
		v.partly = false;
		enc_put_title(b, 4, s->core_types.p[c->core_type]);
		put_view(b, &v);
	}
}

/* Software counters count exactly: 0 says that nothing happened. */
static bool is_zero(const struct view *v, enum met_counter_id id)
{
	return v->counted && v->value == 0 && !met_counter_is_hardware(id);
}

static void put_counter(struct sbuf *b, const struct met_snapshot *s, const struct met_entry *e,
                        enum met_counter_id id)
{
	struct view v = view_of(e, id);

	if (!v.listed || is_zero(&v, id))
		return;
	enc_put_title(b, 2, counter_titles[id]);
	put_view(b, &v);
	if (v.counted && met_counter_is_hardware(id))
		put_core_types(b, s, e, id);
}

static void put_ratio(struct sbuf *b, const struct enc_derived *d, double ratio)
{
	char text[ENC_DECIMAL_MAX];

	enc_decimal(ratio * d->factor, text);
	(void)sbuf_addf(b, "%*s%s\n", ENC_NUMBER_WIDTH, text, d->unit);
}

static void put_derived(struct sbuf *b, const struct met_snapshot *s, const struct met_entry *e,
                        const struct enc_derived *d)
{
	double ratio;

	if (!view_of(e, d->num).listed || !view_of(e, d->den).listed)
		return;
	enc_put_title(b, 2, d->title);
	if (met_ratio(e, d->num, d->den, &ratio) < 0) {
		(void)sbuf_addf(b, "not available: needs %s and %s\n", met_counter_name(d->num),
		                met_counter_name(d->den));
		return;
	}
	put_ratio(b, d, ratio);
	for (uint32_t i = 0; s->core_types.n > 1 && i < s->core_types.n; i++) {
		if (met_ratio_on(e, i, d->num, d->den, &ratio) < 0)
			continue;
		enc_put_title(b, 4, s->core_types.p[i]);
		put_ratio(b, d, ratio);
	}
}

/* Returns true if no hardware counter counted, all for the same reason, which is in @ret. */
static bool all_unavailable(const struct met_entry *e, struct view *ret)
{
	struct view v = {0};
	int error = 0;

	vec_each (c, &e->counters) {
		if (!met_counter_is_hardware(c->id))
			continue;
		if (v.listed && c->error != error)
			return false;
		error = c->error;
		view_add(&v, c);
	}
	*ret = v;
	return v.listed && !v.counted;
}

void enc_put_counters(struct sbuf *b, const struct met_snapshot *s, const struct met_entry *e)
{
	struct view none;
	bool listed = false;
	size_t before;

	(void)sbuf_str(b, "\nHardware Counters:\n");
	if (all_unavailable(e, &none)) {
		(void)sbuf_str(b, "  ");
		put_unavailable(b, &none);
	} else {
		before = b->len;
		for (int id = 0; id < MET_COUNTER_CNT; id++) {
			if (met_counter_is_hardware((enum met_counter_id)id))
				put_counter(b, s, e, (enum met_counter_id)id);
		}
		for (int i = 0; i < ENC_DERIVED_CNT; i++)
			put_derived(b, s, e, &enc_derived_ratios[i]);
		if (b->len == before)
			(void)sbuf_str(b, "  not available: no counter was opened\n");
	}
	(void)sbuf_str(b, "\nSoftware Counters:\n");
	before = b->len;
	for (int id = 0; id < MET_COUNTER_CNT; id++) {
		if (met_counter_is_hardware((enum met_counter_id)id))
			continue;
		put_counter(b, s, e, (enum met_counter_id)id);
		listed |= view_of(e, (enum met_counter_id)id).listed;
	}
	if (b->len == before)
		(void)sbuf_str(b, listed ? "  none of them happened\n"
		                         : "  not available: no counter was opened\n");
}
