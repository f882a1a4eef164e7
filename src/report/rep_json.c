/* SPDX-License-Identifier: Apache-2.0 */
/* Reports as JSON. Keep docs/report.schema.json in step. */
#include <inttypes.h>
#include <math.h>

#include "report/rep_priv.h"

#define SCHEMA "perf-agent.report/1"

static void put_string(struct sbuf *b, const char *key, const char *text)
{
	(void)sbuf_addf(b, "\"%s\": ", key); /* failures stick in .err */
	if (text)
		enc_put_json_string(b, text, strlen(text));
	else
		(void)sbuf_str(b, "null");
}

static void put_fixed(struct sbuf *b, const char *before, const char *key, double v,
                      uint32_t decimals)
{
	(void)sbuf_addf(b, "%s\"%s\": ", before, key);
	rep_put_fixed(b, v, decimals);
}

/* A percentage; null if it is not known. */
static void put_pct(struct sbuf *b, const char *key, double v)
{
	if (v < 0)
		(void)sbuf_addf(b, ", \"%s\": null", key);
	else
		put_fixed(b, ", ", key, v, 2);
}

static int put_line(void *arg, const char *text)
{
	struct sbuf *b = arg;

	(void)sbuf_str(b, b->len && b->p[b->len - 1] == '[' ? "" : ", ");
	enc_put_json_string(b, text, strlen(text));
	return b->err;
}

static void put_defects(const struct rep_judgement *j, struct sbuf *b)
{
	(void)sbuf_str(b, ",\n   \"defects\": [");
	for (size_t i = 0; i < j->defects.n; i++) {
		const struct rep_defect *d = &j->defects.p[i];

		(void)sbuf_str(b, i ? ", {" : "{");
		put_string(b, "id", d->id);
		(void)sbuf_str(b, ", ");
		put_string(b, "level", rep_level_name(d->level));
		(void)sbuf_str(b, ", ");
		put_string(b, "text", d->text);
		(void)sbuf_str(b, ", ");
		put_string(b, "remedy", d->remedy);
		(void)sbuf_char(b, '}');
	}
	(void)sbuf_char(b, ']');
}

static int put_source(const struct rep_source *s, struct sbuf *b)
{
	const struct rep_quality *q = &s->quality;
	int r;

	(void)sbuf_str(b, "\n  {");
	put_string(b, "file", s->in->name);
	(void)sbuf_str(b, ", ");
	put_string(b, "format", s->in->format);
	(void)sbuf_str(b, ", ");
	put_string(b, "perf_agent", q->tool);
	put_fixed(b, ",\n   ", "duration_s", q->duration_s, 3);
	(void)sbuf_addf(b, ", \"samples\": %" PRId64 ", ", q->samples);
	put_string(b, "quality", q->verdict);
	(void)sbuf_str(b, ", \"samples_left\": ");
	if (q->left >= 0)
		(void)sbuf_addf(b, "%" PRId64, q->left);
	else
		(void)sbuf_str(b, "null");
	put_pct(b, "share_error_pct", q->error_pct);
	put_pct(b, "complete_stacks_pct", q->complete_pct);
	put_pct(b, "lost_stacks_pct", q->lost_pct);
	put_pct(b, "heuristic_stacks_pct", q->heuristic_pct);
	put_pct(b, "named_user_pct", q->named_user_pct);
	put_pct(b, "named_kernel_pct", q->named_kernel_pct);
	put_defects(&q->judgement, b);
	(void)sbuf_str(b, ",\n   \"lines\": [");
	r = rep_quality_lines(s->in, q, put_line, b);
	(void)sbuf_str(b, "]}");
	return r;
}

static void put_cell(const char *table_key, const struct rep_column *c, const struct rep_cell *cell,
                     struct sbuf *b)
{
	switch (c->kind) {
	case REP_VALUE:
	case REP_CHANGE:
	case REP_WEIGHT:
	case REP_COUNT:
	case REP_LINE:
		(void)sbuf_addf(b, "\"%s\": %" PRId64, c->key, cell->num);
		break;
	case REP_ADDRESS: /* a number would lose bits in most readers */
		(void)sbuf_addf(b, "\"%s\": \"0x%" PRIx64 "\"", c->key, (uint64_t)cell->num);
		break;
	case REP_SHARE:
	case REP_SHARE_CHANGE:
		put_fixed(b, "", c->key, cell->real, 4);
		break;
	case REP_REAL:
		if (isnan(cell->real))
			(void)sbuf_addf(b, "\"%s\": null", c->key);
		else
			put_fixed(b, "", c->key, cell->real, 3);
		break;
	case REP_NAME: {
		const bool tree = strcmp(table_key, "tree") == 0;

		if (tree)
			(void)sbuf_addf(b, "\"depth\": %u, ", cell->depth);
		put_string(b, c->key, cell->text);
		if (tree)
			(void)sbuf_addf(b, ", \"recursion\": %u", MAX_OF(cell->times, 1U));
		break;
	}
	case REP_PATH:
	case REP_WORD:
	case REP_CODE:
		put_string(b, c->key, cell->text);
		break;
	}
}

static void put_table(const struct rep_table *t, struct sbuf *b)
{
	(void)sbuf_addf(b, "\n    {\"table\": \"%s\", ", t->key);
	if (t->subject) {
		put_string(b, "of", t->subject);
		(void)sbuf_str(b, ", ");
	}
	if (t->file) {
		put_string(b, "file", t->file);
		(void)sbuf_str(b, ", ");
		put_string(b, "read", t->read);
		(void)sbuf_str(b, ", ");
		put_string(b, "symbol", t->symbol);
		(void)sbuf_str(b, ", ");
		put_string(b, "note", t->note);
		(void)sbuf_str(b, ", ");
	}
	(void)sbuf_str(b, "\"rows\": [");
	for (size_t k = 0; k < t->cells.n; k += t->n_columns) {
		(void)sbuf_str(b, k ? ",\n     {" : "\n     {");
		for (size_t i = 0; i < t->n_columns; i++) {
			(void)sbuf_str(b, i ? ", " : "");
			put_cell(t->key, &t->columns[i], &t->cells.p[k + i], b);
		}
		(void)sbuf_char(b, '}');
	}
	(void)sbuf_str(b, "]}");
}

static void put_section(const struct rep_section *s, struct sbuf *b)
{
	(void)sbuf_str(b, "\n  {");
	put_string(b, "type", s->type);
	(void)sbuf_str(b, ", ");
	put_string(b, "unit", s->unit);
	(void)sbuf_addf(b, ", \"total\": %" PRId64 ", \"samples\": %" PRId64 ", \"tables\": [",
	                s->total, s->samples);
	for (size_t i = 0; i < s->tables.n; i++) {
		(void)sbuf_str(b, i ? "," : "");
		put_table(&s->tables.p[i], b);
	}
	(void)sbuf_str(b, "]}");
}

int rep_doc_write_json(const struct rep_doc *d, struct sbuf *out)
{
	int r = 0;

	(void)sbuf_addf(out, "{\"schema\": \"%s\", \"view\": \"%s\",\n \"sources\": [", SCHEMA,
	                d->view);
	for (size_t i = 0; i < d->sources.n && r == 0; i++) {
		(void)sbuf_str(out, i ? "," : "");
		r = put_source(&d->sources.p[i], out);
	}
	if (r < 0)
		return r;
	(void)sbuf_str(out, "],\n \"sections\": [");
	for (size_t i = 0; i < d->sections.n; i++) {
		(void)sbuf_str(out, i ? "," : "");
		put_section(&d->sections.p[i], out);
	}
	(void)sbuf_str(out, "]}\n");
	return out->err;
}
