/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Two profiles compared, function by function. The earlier one is scaled to the duration of the
 * later one, numbers of samples also to its rate; without durations, to its total.
 */
#include <math.h>

#include "report/rep_priv.h"

static const struct rep_column columns[] = {
        {"before", "before", REP_VALUE},
        {"after", "after", REP_VALUE},
        {"change", "change", REP_CHANGE},
        {"change_pct", "of total", REP_SHARE_CHANGE},
        {"z", NULL, REP_REAL},
        {"verdict", "", REP_WORD},
        {"function", "function", REP_NAME},
        {"module", "module", REP_PATH},
};

struct entry {
	const struct rep_fn *before, *after; /* NULL: it is not there */
	int64_t scaled, change;              /* of before; after - scaled */
	double z;                            /* NAN: not known */
};

/* The factor of the earlier profile's values. */
struct scale {
	double factor;
	const char *to;    /* what it brings them to */
	bool rate_unknown; /* they are numbers of samples, and a profile does not say its period */
};

static double ratio(int64_t a, int64_t b)
{
	return a > 0 && b > 0 ? (double)a / (double)b : 1;
}

static bool is_count(const struct prof_model *m, uint32_t i)
{
	return i < m->n_types && strcmp(prof_model_str(m, m->sample_type[i].unit), "count") == 0;
}

static struct scale scale_of(const struct rep_view *before, const struct rep_fns *b,
                             const struct rep_view *after, const struct rep_fns *a)
{
	const int64_t from = before->m->period, to = after->m->period;
	struct scale s = {.factor = ratio(a->whole, b->whole), .to = "to the total of after"};

	if (before->m->duration_ns <= 0 || after->m->duration_ns <= 0)
		return s;
	s.factor = ratio(after->m->duration_ns, before->m->duration_ns);
	s.to = "to the duration of after";
	/* Values that are numbers of samples; cycles are not. */
	if (!is_count(after->m, after->type_idx) || after->type_idx != after->count_idx)
		return s;
	s.rate_unknown = from <= 0 || to <= 0;
	s.factor *= ratio(from, to);
	if (s.rate_unknown)
		s.to = "to the duration of after; the sampling rates are not known";
	else if (from != to)
		s.to = "to the duration and the sampling rate of after";
	return s;
}

static int64_t value_of(const struct rep_fn *fn, bool by_cum)
{
	return !fn ? 0 : by_cum ? fn->cum : fn->self;
}

/* The variance of a value: samples come by chance, and each is worth the same here. */
static double variance(const struct rep_fn *fn, int64_t value, bool by_cum)
{
	const int64_t samples = !fn ? 0 : rep_size(by_cum ? fn->cum_cnt : fn->self_cnt);

	return (double)value * (double)value / (double)MAX_OF(samples, (int64_t)1);
}

/* Returns the change in standard deviations. */
static double significance(const struct entry *e, bool by_cum)
{
	const double sum = variance(e->before, e->scaled, by_cum) +
	                   variance(e->after, value_of(e->after, by_cum), by_cum);

	return sum > 0 ? (double)e->change / sqrt(sum) : 0;
}

/* Never INT64_MIN, whose negation does not fit. */
static int64_t scaled(int64_t v, double by)
{
	const double d = (double)v * by;

	return d >= 9.2e18 ? INT64_MAX : d <= -9.2e18 ? -INT64_MAX : llround(d);
}

static int compare(const void *a, const void *b)
{
	const struct entry *x = a, *y = b;
	const int64_t one = rep_size(x->change), two = rep_size(y->change);

	if (one != two)
		return (one < two) - (one > two);
	return (x->scaled < y->scaled) - (x->scaled > y->scaled);
}

/* ---- the same function in both --------------------------------------------------------------- */

/* Ids of functions by name; without one by the path of the file. */
static int key_of(const struct prof_model *m, const struct rep_fn *fn, struct intern *names,
                  struct sbuf *text, uint32_t *ret)
{
	sbuf_reset(text);
	(void)sbuf_char(text, fn->name ? 'n' : 'p'); /* failures stick in .err */
	(void)sbuf_str(text, prof_model_str(m, fn->name ? fn->name : fn->path));
	return text->err ? text->err : intern_add(names, text->p, text->len, ret, NULL);
}

struct diff {
	const struct rep_view *before, *after;
	struct rep_fns b, a;
	struct intern *names;
	struct entry *entries;
	size_t n;
	struct sbuf text;
};

static void diff_done(struct diff *d)
{
	rep_fns_done(&d->b);
	rep_fns_done(&d->a);
	d->names = intern_free(d->names);
	freep(&d->entries);
	sbuf_done(&d->text);
}

static int pair_functions(struct diff *d)
{
	int r = intern_new(UINT32_MAX - 1, (size_t)1 << 30, &d->names);

	sbuf_init(&d->text, (size_t)1 << 24);
	d->entries = calloc(d->b.n + d->a.n + 1, sizeof(*d->entries));
	if (r == 0 && !d->entries)
		r = -ENOMEM;
	for (size_t i = 0; i < d->b.n + d->a.n && r == 0; i++) {
		const bool later = i >= d->b.n;
		const struct rep_fn *fn = later ? &d->a.p[i - d->b.n] : &d->b.p[i];
		uint32_t id = 0;

		r = key_of(later ? d->after->m : d->before->m, fn, d->names, &d->text, &id);
		if (r < 0)
			break;
		*(later ? &d->entries[id].after : &d->entries[id].before) = fn;
	}
	d->n = r == 0 ? intern_count(d->names) : 0;
	return r;
}

static void fill(struct diff *d, const struct scale *s, bool by_cum)
{
	const bool counted = d->b.samples > 0 && d->a.samples > 0 && !s->rate_unknown;

	for (size_t i = 0; i < d->n; i++) {
		struct entry *e = &d->entries[i];

		e->scaled = scaled(value_of(e->before, by_cum), s->factor);
		e->change = prof_sat_add(value_of(e->after, by_cum), -e->scaled);
		e->z = counted ? significance(e, by_cum) : (double)NAN;
	}
	qsort(d->entries, d->n, sizeof(*d->entries), compare);
}

/* ---- the table ------------------------------------------------------------------------------- */

static const char *verdict_of(const struct entry *e, bool by_cum)
{
	const int64_t after = value_of(e->after, by_cum);

	if (!isnan(e->z) && fabs(e->z) < 2)
		return "within noise";
	if (e->scaled == 0 && after)
		return "new";
	return after == 0 ? "gone" : "";
}

static int add_row(struct diff *d, struct rep_table *t, const struct entry *e, int64_t whole)
{
	struct rep_doc *doc = d->after->doc;
	const bool by_cum = doc->o->by_cum;
	const struct rep_fn *fn = e->after ? e->after : e->before;
	const struct prof_model *m = e->after ? d->after->m : d->before->m;
	const struct rep_cell cells[] = {
	        {.num = e->scaled},
	        {.num = value_of(e->after, by_cum)},
	        {.num = e->change},
	        {.real = rep_share(e->change, whole)},
	        {.real = e->z},
	        {.text = verdict_of(e, by_cum)},
	        {.text = rep_fn_name(doc, m, fn->name, fn->path)},
	        {.text = fn->several ? "[several]" : prof_model_str(m, fn->path)},
	};

	_Static_assert(ARRAY_SIZE(cells) == ARRAY_SIZE(columns), "a cell a column");
	return cells[6].text ? rep_table_row(t, cells) : -ENOMEM;
}

static int add_table(struct diff *d, const struct scale *s)
{
	struct rep_doc *doc = d->after->doc;
	const struct rep_options *o = doc->o;
	const int64_t before = scaled(d->b.total, s->factor);
	const int64_t whole = MAX_OF(scaled(d->b.whole, s->factor), d->a.whole);
	struct rep_table *t =
	        rep_doc_table(d->after->section, "diff", NULL, columns, ARRAY_SIZE(columns));
	_cleanup_(sbuf_done) struct sbuf b;
	size_t shown = 0, changed = 0;
	int r = t ? 0 : -ENOMEM;

	sbuf_init(&b, 1024);
	for (size_t i = 0; i < d->n && r == 0; i++) {
		if (!d->entries[i].change)
			break; /* the rest has not changed */
		changed++;
		if (o->max_rows && shown >= o->max_rows)
			continue;
		shown++;
		r = add_row(d, t, &d->entries[i], whole);
	}
	if (r < 0)
		return r;
	(void)sbuf_str(&b, "total: ");
	rep_put_value(&b, before, d->after->section->unit);
	(void)sbuf_str(&b, " -> ");
	rep_put_value(&b, d->a.total, d->after->section->unit);
	(void)sbuf_str(&b, "; before is multiplied by ");
	rep_put_fixed(&b, s->factor, s->factor == nearbyint(s->factor) ? 0 : 3);
	(void)sbuf_str(&b, ", ");
	(void)sbuf_str(&b, s->to);
	if (changed > shown)
		(void)sbuf_addf(&b, "; %zu more functions changed", changed - shown);
	if (d->a.by_site)
		(void)sbuf_str(&b, "\n" REP_SITE_LINE);
	t->rest = b.err ? NULL : rep_doc_text(doc, "%s", b.p);
	return t->rest ? 0 : -ENOMEM;
}

int rep_view_diff(struct rep_view *before, struct rep_view *after)
{
	_cleanup_(diff_done) struct diff d = {.before = before, .after = after};
	struct scale s;
	int r = rep_functions(before->m, before->type_idx, before->count_idx, &d.b);

	if (r == 0)
		r = rep_functions(after->m, after->type_idx, after->count_idx, &d.a);
	if (r == 0)
		r = pair_functions(&d);
	if (r < 0)
		return r;
	after->section->total = d.a.total;
	after->section->whole = d.a.whole;
	after->section->samples = d.a.samples;
	s = scale_of(before, &d.b, after, &d.a);
	fill(&d, &s, after->doc->o->by_cum);
	return add_table(&d, &s);
}
