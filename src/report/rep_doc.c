/* SPDX-License-Identifier: Apache-2.0 */
/* A report as data: sources, sections, tables. */
#include <inttypes.h>
#include <stdio.h>

#include "report/rep_priv.h"

#define DOC_BYTES_MAX ((size_t)1 << 30)
#define TABLES_MAX    4096
#define CELLS_MAX     ((size_t)1 << 26)

void rep_doc_init(struct rep_doc *d, const struct rep_options *o)
{
	*d = (struct rep_doc){.o = o, .sources.max = TABLES_MAX, .sections.max = TABLES_MAX};
	arena_init(&d->mem, DOC_BYTES_MAX);
}

void rep_put_section(const struct rep_section *s, struct sbuf *b)
{
	(void)rep_put_name(b, s->type, 0, false); /* failures stick in .err */
	(void)sbuf_str(b, ": ");
	rep_put_value(b, s->total, s->unit);
	if (s->samples > 0) {
		(void)sbuf_str(b, ", ");
		rep_put_count(b, s->samples);
		(void)sbuf_str(b, " samples or intervals");
	}
}

void rep_doc_done(struct rep_doc *d)
{
	vec_each (s, &d->sections) {
		vec_each (t, &s->tables)
			vec_done(&t->cells);
		vec_done(&s->tables);
	}
	vec_done(&d->sections);
	vec_each (s, &d->sources)
		rep_quality_done(&s->quality);
	vec_done(&d->sources);
	arena_done(&d->mem);
}

struct rep_table *rep_doc_table(struct rep_section *s, const char *key, const char *title,
                                const struct rep_column *columns, size_t n)
{
	struct rep_table t = {.key = key,
	                      .title = title,
	                      .columns = columns,
	                      .n_columns = n,
	                      .cells.max = CELLS_MAX};

	s->tables.max = TABLES_MAX;
	return vec_push(&s->tables, t) < 0 ? NULL : &s->tables.p[s->tables.n - 1];
}

int rep_table_row(struct rep_table *t, const struct rep_cell *cells)
{
	int r = vec_reserve(&t->cells, t->n_columns);

	for (size_t i = 0; i < t->n_columns && r == 0; i++)
		t->cells.p[t->cells.n++] = cells[i];
	return r;
}

void rep_put_number(const struct rep_section *s, enum rep_kind kind, const struct rep_cell *c,
                    struct sbuf *b)
{
	const bool plus = kind == REP_CHANGE ? c->num > 0 : kind == REP_SHARE_CHANGE && c->real > 0;

	(void)sbuf_str(b, plus ? "+" : ""); /* failures stick in .err */
	if (kind == REP_WEIGHT && c->num == 0)
		(void)sbuf_char(b, '.');
	else if (kind == REP_VALUE || kind == REP_CHANGE || kind == REP_WEIGHT)
		rep_put_value(b, c->num, s->unit);
	else if (kind == REP_COUNT)
		rep_put_count(b, c->num);
	else if (kind == REP_LINE && c->num)
		(void)sbuf_addf(b, "%" PRId64, c->num);
	else if (kind == REP_ADDRESS && c->num)
		(void)sbuf_addf(b, "0x%" PRIx64, (uint64_t)c->num);
	else if (kind == REP_REAL)
		rep_put_fixed(b, c->real, 1);
	if (kind == REP_SHARE || kind == REP_SHARE_CHANGE) {
		rep_put_pct(b, c->real, s->samples);
		(void)sbuf_str(b, " %");
	}
}

const char *rep_doc_text(struct rep_doc *d, const char *format, ...)
{
	_cleanup_free_ char *s = NULL;
	va_list ap;
	int n;

	va_start(ap, format);
	n = vasprintf(&s, format, ap);
	va_end(ap);
	if (n < 0) {
		s = NULL; /* unspecified after a failure */
		return NULL;
	}
	return arena_strndup(&d->mem, s, (size_t)n);
}
