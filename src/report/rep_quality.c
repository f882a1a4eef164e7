/* SPDX-License-Identifier: Apache-2.0 */
/* How far a profile can be trusted: by the comments that perf-agent writes, and by the number of
 * samples. docs/output.md explains the comments. */
#include <math.h>

#include "report/rep_priv.h"

#define LINE_BYTES_MAX 8192
#define NOTES_SHOWN    5
#define ITEMS_MAX      1048576

static int read_items(struct rep_quality *q, const char *comment)
{
	struct prof_items it;
	const char *item;
	int r = 0;

	prof_items_init(&it, comment);
	while (r == 0 && (item = prof_items_next(&it))) {
		char *copy = strdup(item);

		r = copy ? vec_push(&q->items, copy) : -ENOMEM;
		if (r < 0)
			free(copy);
	}
	r = r == 0 ? it.item.err : r;
	prof_items_done(&it);
	return r;
}

void rep_quality_done(struct rep_quality *q)
{
	vec_each (item, &q->items)
		free(*item);
	vec_done(&q->items);
}

/* Returns the value of the item "key: value" after the first @from ones, NULL without one. */
static const char *item_after(const struct rep_quality *q, const char *key, size_t *from)
{
	const size_t len = strlen(key);

	while (*from < q->items.n) {
		const char *text = q->items.p[(*from)++];

		if (strncmp(text, key, len) == 0 && str_starts(text + len, ": "))
			return text + len + 2;
	}
	return NULL;
}

static const char *item_of(const struct rep_quality *q, const char *key)
{
	size_t from = 0;

	return item_after(q, key, &from);
}

/* Returns a number "12.34", negative if there is none. Not by strtod, which depends on the locale. */
static double number_of(const struct rep_quality *q, const char *key)
{
	const char *p = q->tool ? item_of(q, key) : NULL;
	double v = 0, part = 1;

	if (!p || *p < '0' || *p > '9')
		return -1;
	for (; *p >= '0' && *p <= '9'; p++)
		v = v * 10 + (*p - '0');
	if (*p == '.')
		for (p++; *p >= '0' && *p <= '9'; p++)
			v += (*p - '0') * (part /= 10);
	return *p || v > 1e9 ? -1 : v;
}

static const char *type_name(const struct prof_model *m, uint32_t i)
{
	return prof_model_str(m, m->sample_type[i].type);
}

static bool counts(const struct prof_model *m, uint32_t i)
{
	return strcmp(prof_model_str(m, m->sample_type[i].unit), "count") == 0;
}

/* On-CPU samples, or events such as off-CPU intervals, of which none is left out by chance. */
static void find_count(const struct prof_model *m, struct rep_quality *q)
{
	for (uint32_t i = 0; i < m->n_types; i++) {
		const bool sampled =
		        !strcmp(type_name(m, i), "samples") || !strcmp(type_name(m, i), "sample");

		if (counts(m, i) && (sampled || !strcmp(type_name(m, i), "contentions"))) {
			q->count_idx = i;
			q->sampled = sampled;
			return;
		}
	}
}

/* Whether a share that is known is at least, or at most, a limit. */
static bool from(double pct, double limit)
{
	return pct >= 0 && pct >= limit;
}

static bool up_to(double pct, double limit)
{
	return pct >= 0 && pct <= limit;
}

/* The limits of the verdict at the end of a capture (cli_quality.c). */
static const char *verdict_of(const struct rep_quality *q)
{
	const int64_t n = q->sampled ? q->samples : INT64_MAX;

	if (!q->tool || q->complete_pct < 0)
		return "not known";
	if (up_to(q->complete_pct, 80) || from(q->lost_pct, 5) || up_to(q->named_user_pct, 80) ||
	    n < 20)
		return "poor";
	if (up_to(q->complete_pct, 95) || from(q->lost_pct, 0.5) || up_to(q->named_user_pct, 95) ||
	    n < 100)
		return "fair";
	return "good";
}

int rep_quality_of(const struct prof_model *m, struct rep_quality *ret)
{
	_cleanup_(rep_quality_done) struct rep_quality q = {
	        .count_idx = UINT32_MAX, .error_pct = -1, .items.max = ITEMS_MAX};
	int r = 0;

	for (size_t i = 0; i < m->comments.n && r == 0; i++)
		r = read_items(&q, prof_model_str(m, m->comments.p[i]));
	if (r < 0)
		return r;
	find_count(m, &q);
	for (size_t i = 0; i < m->samples.n && q.count_idx != UINT32_MAX; i++)
		q.samples = prof_sat_add(q.samples, m->samples.p[i].value[q.count_idx]);
	/* A share of one half has the largest error: 1.96 * sqrt(0.5 * 0.5 / n). */
	if (q.sampled && q.samples > 0)
		q.error_pct = MIN_OF(98 / sqrt((double)q.samples), 100.0);
	q.duration_s = m->duration_ns > 0 ? (double)m->duration_ns / 1e9 : 0;
	q.tool = item_of(&q, "perf-agent");
	q.complete_pct = number_of(&q, "complete_stacks_pct");
	q.lost_pct = number_of(&q, "lost_stacks_pct");
	q.heuristic_pct = number_of(&q, "heuristic_stacks_pct");
	q.named_user_pct = number_of(&q, "named_user_pct");
	q.named_kernel_pct = number_of(&q, "named_kernel_pct");
	q.verdict = verdict_of(&q);
	*ret = q;
	q.items.p = NULL; /* moved */
	q.items.n = 0;
	return 0;
}

static void put_part(struct sbuf *b, double pct, const char *before, const char *after)
{
	if (pct < 0)
		return;
	(void)sbuf_str(b, before); /* failures stick in .err */
	rep_put_pct(b, pct, pct >= 100 ? 1 : 1000);
	(void)sbuf_str(b, after);
}

static int put_line(struct sbuf *b, rep_line_fn line, void *arg)
{
	const int r = b->err ? b->err : line(arg, b->p ? b->p : "");

	sbuf_reset(b);
	return r;
}

/* "app.pb.gz: 10.0 s, 1,912 samples; perf-agent 0.1.0" */
static void put_source(struct sbuf *b, const struct rep_input *in, const struct rep_quality *q)
{
	const struct prof_model *m = in->model;
	const char *target = q->tool ? item_of(q, "target") : NULL;

	(void)enc_put_name(b, in->name, strlen(in->name));
	(void)sbuf_str(b, ": ");
	for (uint32_t i = 0; i < m->n_types; i++) {
		(void)sbuf_str(b, i ? ", " : "");
		(void)enc_put_name(b, type_name(m, i), strlen(type_name(m, i)));
	}
	if (target) {
		(void)sbuf_str(b, " of ");
		(void)rep_put_name(b, target, 60, false);
	}
	if (q->duration_s > 0) {
		(void)sbuf_str(b, " over ");
		rep_put_value(b, m->duration_ns, "nanoseconds");
	}
	if (q->tool) {
		(void)sbuf_str(b, "; perf-agent ");
		(void)rep_put_name(b, q->tool, 20, false);
	} else {
		(void)sbuf_addf(b, "; %s of another tool", in->format ? in->format : "profile");
	}
}

/* "quality: good: 1,912 samples, shares are ± 3 %; 99.6 % of stacks complete, …" */
static void put_quality(struct sbuf *b, const struct rep_quality *q)
{
	(void)sbuf_addf(b, "quality: %s", q->verdict);
	if (q->count_idx != UINT32_MAX) {
		(void)sbuf_str(b, "; ");
		rep_put_count(b, q->samples);
		(void)sbuf_str(b, q->sampled ? " sample" : " interval");
		(void)sbuf_str(b, q->samples == 1 ? "" : "s");
	}
	if (q->error_pct >= 0) {
		(void)sbuf_str(b, ": shares are \xc2\xb1 ");
		rep_put_fixed(b, q->error_pct, q->error_pct < 0.95 ? 1 : 0);
		(void)sbuf_str(b, " %");
	}
	put_part(b, q->complete_pct, "; ", " % of stacks complete");
	if (q->lost_pct > 0)
		put_part(b, q->lost_pct, ", ", " % lost");
	put_part(b, q->named_user_pct, ", ", " % of user frames named");
}

/* Lines of a key that repeats: "incomplete_in: libx.so 3.20". */
static int put_repeated(const struct rep_quality *q, const char *key, const char *title,
                        struct sbuf *b, rep_line_fn line, void *arg)
{
	const char *text;
	size_t from = 0;
	int r = 0;

	for (int shown = 0; shown < NOTES_SHOWN && r == 0; shown++) {
		text = item_after(q, key, &from);
		if (!text)
			break;
		(void)sbuf_addf(b, "%s: ", title);
		(void)rep_put_name(b, text, 0, false);
		r = put_line(b, line, arg);
	}
	return r;
}

int rep_quality_lines(const struct rep_input *in, const struct rep_quality *q, rep_line_fn line,
                      void *arg)
{
	_cleanup_(sbuf_done) struct sbuf b;
	int r;

	sbuf_init(&b, (size_t)LINE_BYTES_MAX * 8);
	put_source(&b, in, q);
	r = put_line(&b, line, arg);
	if (r == 0) {
		put_quality(&b, q);
		r = put_line(&b, line, arg);
	}
	if (r == 0 && q->tool && q->complete_pct >= 0 && q->complete_pct < 95)
		r = put_repeated(q, "incomplete_in", "  incomplete stacks in, %", &b, line, arg);
	if (r == 0 && q->tool)
		r = put_repeated(q, "note", "  note", &b, line, arg);
	for (size_t i = 0; i < in->n_notes && r == 0; i++) {
		(void)sbuf_str(&b, "  note: ");
		(void)rep_put_name(&b, in->notes[i], 0, false);
		r = put_line(&b, line, arg);
	}
	return r;
}
