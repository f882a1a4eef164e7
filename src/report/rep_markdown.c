/* SPDX-License-Identifier: Apache-2.0 */
/* Reports as markdown. Names are code: nothing in them is markup. */
#include "report/rep_priv.h"

#define NAME_BYTES_MAX    ((size_t)1 << 20)
#define HEADING_BYTES_MAX ((size_t)1 << 20)
#define LISTING_BYTES_MAX ((size_t)1 << 30)

/* Returns how many backticks the text has in a row. */
static size_t longest_run(const struct sbuf *text)
{
	size_t run = 0, longest = 0;

	for (size_t i = 0; i < text->len; i++) {
		run = text->p[i] == '`' ? run + 1 : 0;
		longest = MAX_OF(longest, run);
	}
	return longest;
}

/* A code span: between more backticks than the name has in a row. In a cell, a bar would end it. */
static void put_code(struct sbuf *b, const char *text, bool fold, bool in_cell)
{
	_cleanup_(sbuf_done) struct sbuf name;
	size_t longest;

	sbuf_init(&name, NAME_BYTES_MAX);
	(void)rep_put_name(&name, text, 0, fold); /* failures stick in .err */
	longest = longest_run(&name);
	for (size_t i = 0; i <= longest; i++)
		(void)sbuf_char(b, '`');
	(void)sbuf_str(b, longest || !name.len ? " " : "");
	for (size_t i = 0; i < name.len; i++) {
		if (in_cell && name.p[i] == '|')
			(void)sbuf_char(b, '\\');
		(void)sbuf_char(b, name.p[i]);
	}
	(void)sbuf_str(b, longest ? " " : "");
	for (size_t i = 0; i <= longest; i++)
		(void)sbuf_char(b, '`');
	if (name.err && !b->err)
		b->err = name.err;
}

static void put_cell(const struct rep_doc *d, const struct rep_section *s, enum rep_kind kind,
                     const struct rep_cell *c, struct sbuf *b)
{
	switch (kind) {
	case REP_VALUE:
	case REP_CHANGE:
	case REP_WEIGHT:
	case REP_COUNT:
	case REP_LINE:
	case REP_ADDRESS:
	case REP_SHARE:
	case REP_SHARE_CHANGE:
	case REP_REAL:
		rep_put_number(s, kind, c, b);
		break;
	case REP_NAME:
		for (uint32_t i = 0; i < c->depth; i++)
			(void)sbuf_str(b, "&nbsp;");
		put_code(b, c->text, !d->o->full_names, true);
		rep_put_times(b, c);
		break;
	case REP_PATH:
		if (*c->text)
			put_code(b, str_base_name(c->text), false, true);
		break;
	case REP_WORD:
	case REP_CODE:
		if (*c->text)
			put_code(b, c->text, false, true);
		break;
	}
}

/* The title of a column may be the key of a label. */
static void put_heading(struct sbuf *b, const char *title)
{
	_cleanup_(sbuf_done) struct sbuf clean;

	sbuf_init(&clean, HEADING_BYTES_MAX);
	(void)sbuf_char(b, ' ');
	(void)rep_put_name(&clean, title, 0, false);
	for (size_t i = 0; i < clean.len; i++) {
		if (strchr("|\\`*_<>[]&", clean.p[i]))
			(void)sbuf_char(b, '\\');
		(void)sbuf_char(b, clean.p[i]);
	}
	(void)sbuf_str(b, " |");
}

/* A listing is a block of code, between more backticks than it has in a row. */
static int put_listing(const struct rep_doc *d, const struct rep_section *s,
                       const struct rep_table *t, struct sbuf *b)
{
	_cleanup_(sbuf_done) struct sbuf text;
	size_t fence;
	int r;

	sbuf_init(&text, LISTING_BYTES_MAX);
	if (*t->file) {
		(void)sbuf_str(b, "\n");
		if (t->symbol) {
			put_code(b, t->symbol, false, false);
			(void)sbuf_str(b, " of ");
		}
		put_code(b, t->file, false, false);
		if (t->read && strcmp(t->read, t->file) != 0) {
			(void)sbuf_str(b, ", read from ");
			put_code(b, t->read, false, false);
		}
		(void)sbuf_str(b, "\n");
	}
	if (t->note) {
		(void)sbuf_str(b, "\nnote: ");
		put_code(b, t->note, false, false);
		(void)sbuf_str(b, "\n");
	}
	if (!t->cells.n)
		return b->err;
	r = rep_table_write_text(d, s, t, &text);
	if (r < 0)
		return r;
	fence = MAX_OF(longest_run(&text) + 1, (size_t)3);
	(void)sbuf_str(b, "\n");
	for (size_t i = 0; i < fence; i++)
		(void)sbuf_char(b, '`');
	(void)sbuf_str(b, "\n");
	(void)sbuf_add(b, text.p, text.len);
	for (size_t i = 0; i < fence; i++)
		(void)sbuf_char(b, '`');
	return sbuf_str(b, "\n");
}

static void put_rows(const struct rep_doc *d, const struct rep_section *s,
                     const struct rep_table *t, struct sbuf *b)
{
	(void)sbuf_str(b, "\n|");
	for (size_t i = 0; i < t->n_columns; i++)
		if (t->columns[i].title)
			put_heading(b, t->columns[i].title);
	(void)sbuf_str(b, "\n|");
	for (size_t i = 0; i < t->n_columns; i++)
		if (t->columns[i].title)
			(void)sbuf_str(b,
			               rep_is_number(t->columns[i].kind) ? " ---: |" : " :--- |");
	(void)sbuf_char(b, '\n');
	for (size_t k = 0; k < t->cells.n; k += t->n_columns) {
		(void)sbuf_char(b, '|');
		for (size_t i = 0; i < t->n_columns; i++) {
			if (!t->columns[i].title)
				continue;
			(void)sbuf_char(b, ' ');
			put_cell(d, s, t->columns[i].kind, &t->cells.p[k + i], b);
			(void)sbuf_str(b, " |");
		}
		(void)sbuf_char(b, '\n');
	}
}

static int put_table(const struct rep_doc *d, const struct rep_section *s,
                     const struct rep_table *t, struct sbuf *b)
{
	int r = 0;

	if (t->title) {
		(void)sbuf_addf(b, "\n## %s ", t->title);
		if (t->subject)
			put_code(b, t->subject, !d->o->full_names, false);
		(void)sbuf_char(b, '\n');
	}
	if (t->file)
		r = put_listing(d, s, t, b);
	else
		put_rows(d, s, t, b);
	if (t->rest)
		(void)sbuf_addf(b, "\n%s\n", t->rest);
	return r;
}

static int put_line(void *arg, const char *text)
{
	struct sbuf *b = arg;

	while (*text == ' ')
		text++;
	(void)sbuf_str(b, "- ");
	put_code(b, text, false, false);
	return sbuf_char(b, '\n');
}

int rep_doc_write_markdown(const struct rep_doc *d, struct sbuf *out)
{
	int r = 0;

	for (size_t i = 0; i < d->sources.n && r == 0; i++)
		r = rep_quality_lines(d->sources.p[i].in, &d->sources.p[i].quality, put_line, out);
	if (r < 0)
		return r;
	for (size_t i = 0; i < d->sections.n && r == 0; i++) {
		if (d->sections.n > 1) {
			(void)sbuf_str(out, "\n# ");
			rep_put_section(&d->sections.p[i], out);
			(void)sbuf_char(out, '\n');
		}
		for (size_t k = 0; k < d->sections.p[i].tables.n && r == 0; k++)
			r = put_table(d, &d->sections.p[i], &d->sections.p[i].tables.p[k], out);
	}
	return r < 0 ? r : out->err;
}
