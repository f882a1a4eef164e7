/* SPDX-License-Identifier: Apache-2.0 */
/* How far a profile can be trusted: by the comments that perf-agent writes, and by the number of
 * samples. docs/output.md explains the comments. */
#include <math.h>

#include "report/rep_priv.h"

#define LINE_BYTES_MAX ((size_t)4 << 20)
#define NOTES_SHOWN    5
#define ITEMS_MAX      1048576

static int read_lines(struct rep_quality *q, const char *comment)
{
	struct prof_items it;
	const char *item;
	int r = 0;

	prof_items_init(&it, comment);
	while (r == 0 && (item = prof_items_next(&it))) {
		char *copy = strdup(item);

		r = copy ? vec_push(&q->lines, copy) : -ENOMEM;
		if (r < 0)
			free(copy);
	}
	r = r == 0 ? it.item.err : r;
	prof_items_done(&it);
	return r;
}

void rep_quality_done(struct rep_quality *q)
{
	vec_each (line, &q->lines)
		free(*line);
	vec_done(&q->lines);
	rep_judgement_done(&q->judgement);
}

static struct rep_items items_of(const struct rep_quality *q)
{
	return (struct rep_items){.p = (const char *const *)q->lines.p, .n = q->lines.n};
}

/* Returns a value that perf-agent has written; negative if there is none. */
static double number_of(const struct rep_quality *q, const char *key)
{
	const struct rep_items it = items_of(q);

	return q->tool ? rep_item_number(&it, key, -1) : -1;
}

static const char *type_name(const struct prof_model *m, uint32_t i)
{
	return prof_model_str(m, m->sample_type[i].type);
}

static bool counts(const struct prof_model *m, uint32_t i)
{
	return strcmp(prof_model_str(m, m->sample_type[i].unit), "count") == 0;
}

bool rep_has_type(const struct prof_model *m, const char *type)
{
	for (uint32_t i = 0; i < m->n_types; i++)
		if (!strcmp(type, type_name(m, i)))
			return true;
	return false;
}

uint32_t rep_count_idx(const struct prof_model *m, bool *ret_sampled)
{
	const bool intervals = rep_has_type(m, "offcpu"); /* a perf.data of them counts "samples" */

	*ret_sampled = false;
	for (uint32_t i = 0; i < m->n_types; i++) {
		const bool sampled =
		        !strcmp(type_name(m, i), "samples") || !strcmp(type_name(m, i), "sample");

		if (counts(m, i) && (sampled || !strcmp(type_name(m, i), "contentions"))) {
			*ret_sampled = sampled && !intervals;
			return i;
		}
	}
	return UINT32_MAX;
}

static int64_t count(const struct prof_model *m, const struct rep_quality *q)
{
	int64_t n = 0;

	for (size_t i = 0; i < m->samples.n && q->count_idx != UINT32_MAX; i++)
		n = prof_sat_add(n, m->samples.p[i].value[q->count_idx]);
	return n;
}

/* Samples of the capture that are not in the file. */
static int64_t lost(const struct rep_quality *q)
{
	const double all = number_of(q, "dropped"), own = number_of(q, "dropped_agent");

	return all > 0 ? (int64_t)(all - MAX_OF(own, 0.0)) : 0;
}

/* Judges the file as the capture did, by the samples that are shown. */
static int judge(const struct prof_model *m, struct rep_quality *q)
{
	struct rep_evidence e = {.lines = (const char *const *)q->lines.p,
	                         .n_lines = q->lines.n,
	                         .offcpu = !q->sampled,
	                         .samples = q->left >= 0 ? q->left : q->samples,
	                         .lost = lost(q)};
	int r = rep_runtimes_of(m, &e.runtimes);

	if (r == 0)
		r = rep_judge(&e, &q->judgement);
	if (r == 0)
		q->verdict = rep_level_name(q->judgement.level);
	return r;
}

int rep_quality_of(const struct prof_model *m, const struct prof_model *left,
                   struct rep_quality *ret)
{
	_cleanup_(rep_quality_done) struct rep_quality q = {
	        .verdict = "not known", .left = -1, .error_pct = -1, .lines.max = ITEMS_MAX};
	struct rep_items it;
	int64_t shown;
	int r = 0;

	for (size_t i = 0; i < m->comments.n && r == 0; i++)
		r = read_lines(&q, prof_model_str(m, m->comments.p[i]));
	if (r < 0)
		return r;
	it = items_of(&q);
	q.count_idx = rep_count_idx(m, &q.sampled);
	shown = q.samples = count(m, &q);
	if (left && count(left, &q) != q.samples)
		shown = q.left = count(left, &q);
	/* A share of one half has the largest error: 1.96 * sqrt(0.5 * 0.5 / n). */
	if (q.sampled && shown > 0)
		q.error_pct = MIN_OF(98 / sqrt((double)shown), 50.0);
	q.duration_s = m->duration_ns > 0 ? (double)m->duration_ns / 1e9 : 0;
	q.tool = rep_item(&it, "perf-agent");
	q.complete_pct = number_of(&q, "complete_stacks_pct");
	q.lost_pct = number_of(&q, "lost_stacks_pct");
	q.heuristic_pct = number_of(&q, "heuristic_stacks_pct");
	q.named_user_pct = number_of(&q, "named_user_pct");
	q.named_kernel_pct = number_of(&q, "named_kernel_pct");
	if (q.complete_pct >= 0 && q.count_idx != UINT32_MAX)
		r = judge(m, &q);
	else if (q.count_idx != UINT32_MAX && q.samples == 0)
		q.verdict = rep_level_name(REP_NOTHING);
	if (r < 0)
		return r;
	*ret = q;
	memset(&q, 0, sizeof(q)); /* moved */
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
	const struct rep_items it = items_of(q);
	const char *target = q->tool ? rep_item(&it, "target") : NULL;

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
		(void)sbuf_addf(b, "; %s%s", in->format ? in->format : "profile",
		                in->tool_unknown ? "" : " of another tool");
	}
}

/* "quality: good; 1,912 samples: shares are about ± 3 %; 99.6 % of stacks complete, …" */
static void put_quality(struct sbuf *b, const struct rep_quality *q)
{
	if (q->count_idx != UINT32_MAX && q->samples == 0) {
		(void)sbuf_addf(b, "quality: no %ss", q->sampled ? "sample" : "interval");
		return; /* as the capture says it; shares of nothing mean nothing */
	}
	(void)sbuf_addf(b, "quality: %s", q->verdict);
	if (q->count_idx != UINT32_MAX) {
		(void)sbuf_str(b, "; ");
		if (q->left >= 0) {
			rep_put_count(b, q->left);
			(void)sbuf_str(b, " of ");
		}
		rep_put_count(b, q->samples);
		(void)sbuf_str(b, q->sampled ? " sample" : " interval");
		(void)sbuf_str(b, q->samples == 1 ? "" : "s");
		(void)sbuf_str(b, q->left >= 0 ? " pass the filters" : "");
	}
	if (q->error_pct >= 0) {
		(void)sbuf_str(b, ": shares are about \xc2\xb1 ");
		rep_put_fixed(b, q->error_pct, q->error_pct < 0.95 ? 1 : 0);
		(void)sbuf_str(b, " %");
	}
	put_part(b, q->complete_pct, q->left >= 0 ? "; of the whole file: " : "; ",
	         " % of stacks complete");
	if (q->lost_pct > 0)
		put_part(b, q->lost_pct, ", ", " % lost");
	put_part(b, q->named_user_pct, ", ", " % of user frames named");
}

/* The notes of the capture. */
static int put_notes(const struct rep_quality *q, struct sbuf *b, rep_line_fn line, void *arg)
{
	const struct rep_items it = items_of(q);
	const char *text;
	size_t at = 0;
	int r = 0;

	for (int shown = 0; shown < NOTES_SHOWN && r == 0; shown++) {
		text = rep_item_next(&it, "note", &at);
		if (!text)
			break;
		(void)sbuf_str(b, "  note: ");
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

	sbuf_init(&b, LINE_BYTES_MAX);
	put_source(&b, in, q);
	r = put_line(&b, line, arg);
	if (r == 0) {
		put_quality(&b, q);
		r = put_line(&b, line, arg);
	}
	if (r == 0 && q->lacks) {
		(void)sbuf_str(&b, "  left out: it has no values of the type ");
		(void)rep_put_name(&b, q->lacks, 0, false);
		r = put_line(&b, line, arg);
	}
	for (size_t i = 0; i < q->judgement.defects.n && r == 0; i++) {
		const struct rep_defect *d = &q->judgement.defects.p[i];

		(void)sbuf_str(&b, "  ");
		(void)rep_put_name(&b, d->text, 0, false);
		(void)sbuf_addf(&b, "%s%s", *d->remedy ? ": " : "", d->remedy);
		r = put_line(&b, line, arg);
	}
	if (r == 0 && q->tool)
		r = put_notes(q, &b, line, arg);
	for (size_t i = 0; i < in->n_notes && r == 0; i++) {
		(void)sbuf_str(&b, "  note: ");
		(void)rep_put_name(&b, in->notes[i], 0, false);
		r = put_line(&b, line, arg);
	}
	return r;
}
