/* SPDX-License-Identifier: Apache-2.0 */
/* Reports as text: columns as wide as their cells; the names share the rest of the line. */
#include "report/rep_priv.h"

#define COLUMNS_MAX 16
#define CELL_MAX    ((size_t)1 << 20)
#define NAME_LEAST  20 /* columns of a name, however narrow the terminal */
#define PATH_MOST   32

/* Columns of a name: the rest of @width after its indent, before the times that it calls itself. */
static size_t room_of_name(const struct rep_cell *c, size_t width, size_t indent)
{
	size_t left = width - MIN_OF(width, indent), times = 0;

	for (uint32_t n = c->times > 1 ? c->times : 0; n; n /= 10)
		times++;
	times += times ? 2 : 0; /* " ×" */
	return width ? MAX_OF(left - MIN_OF(left, times), (size_t)1) : 0;
}

/* Appends a cell, of at most @width columns if that is not 0. Returns its columns. */
static size_t put_cell(const struct rep_doc *d, const struct rep_section *s, enum rep_kind kind,
                       const struct rep_cell *c, size_t width, struct sbuf *b)
{
	const size_t from = b->len;

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
	case REP_NAME: {
		size_t indent = c->depth;

		if (width && indent + NAME_LEAST > width)
			indent = width > NAME_LEAST ? width - NAME_LEAST : 0;
		for (size_t i = 0; i < indent; i++)
			(void)sbuf_char(b, ' ');
		(void)rep_put_name(b, c->text, room_of_name(c, width, indent), !d->o->full_names);
		rep_put_times(b, c);
		break;
	}
	case REP_PATH:
		(void)rep_put_name(b, str_base_name(c->text), width ? PATH_MOST : 0, false);
		break;
	case REP_WORD:
		(void)rep_put_name(b, c->text, 0, false);
		break;
	case REP_CODE:
		(void)rep_put_code(b, c->text, width);
		break;
	}
	return b->len > from ? columns_of(b->p + from, b->len - from) : 0;
}

static bool is_flexible(enum rep_kind kind)
{
	return kind == REP_NAME || kind == REP_CODE;
}

/* The width of each column; that of names is what is left of the line. */
static int measure(const struct rep_doc *d, const struct rep_section *s, const struct rep_table *t,
                   size_t widths[COLUMNS_MAX])
{
	_cleanup_(sbuf_done) struct sbuf b;
	size_t used = 0, longest = 0, names = COLUMNS_MAX;

	sbuf_init(&b, CELL_MAX);
	for (size_t i = 0; i < t->n_columns; i++) {
		widths[i] = t->columns[i].title
		                    ? columns_of(t->columns[i].title, strlen(t->columns[i].title))
		                    : 0;
		for (size_t k = i; t->columns[i].title && k < t->cells.n; k += t->n_columns) {
			size_t n;

			sbuf_reset(&b);
			n = put_cell(d, s, t->columns[i].kind, &t->cells.p[k],
			             is_flexible(t->columns[i].kind) ? 0 : d->o->width, &b);
			widths[i] = MAX_OF(widths[i], n);
		}
		if (is_flexible(t->columns[i].kind)) {
			names = i;
			longest = widths[i];
		} else if (t->columns[i].title) {
			used += widths[i] + 2;
		}
	}
	if (names < COLUMNS_MAX && d->o->width) {
		const size_t left =
		        d->o->width > used + NAME_LEAST ? d->o->width - used : NAME_LEAST;

		widths[names] = MIN_OF(longest, left);
	}
	return b.err;
}

static void put_spaces(struct sbuf *b, size_t n)
{
	while (n-- > 0)
		(void)sbuf_char(b, ' ');
}

/* Colours of the 16 that each terminal lets its user choose. */
#define BOLD  "\x1b[1m"
#define DIM   "\x1b[2m"
#define RED   "\x1b[31m"
#define GREEN "\x1b[32m"
#define PLAIN "\x1b[0m"

/* Returns the escape sequence before a cell, NULL for none. @cell: NULL: of the heading. */
static const char *colour_of(const struct rep_doc *d, enum rep_kind kind,
                             const struct rep_cell *cell)
{
	if (!d->o->colours)
		return NULL;
	if (!cell)
		return BOLD;
	if (kind == REP_WEIGHT)
		return cell->num ? BOLD : NULL;
	if (kind == REP_CHANGE)
		return cell->num > 0 ? RED : GREEN; /* more time is worse */
	return kind == REP_PATH ? DIM : NULL;
}

static void end_line(struct sbuf *b)
{
	while (b->len && b->p[b->len - 1] == ' ')
		b->p[--b->len] = 0;
	(void)sbuf_char(b, '\n');
}

static void put_row(const struct rep_doc *d, const struct rep_section *s, const struct rep_table *t,
                    const struct rep_cell *row, const size_t *widths, struct sbuf *out)
{
	_cleanup_(sbuf_done) struct sbuf cell;
	bool first = true;

	sbuf_init(&cell, CELL_MAX);
	for (size_t i = 0; i < t->n_columns; i++) {
		const struct rep_column *c = &t->columns[i];
		const char *colour;
		size_t n;

		if (!c->title)
			continue;
		sbuf_reset(&cell);
		if (row)
			n = put_cell(d, s, c->kind, &row[i], d->o->width ? widths[i] : 0, &cell);
		else
			n = rep_put_name(&cell, c->title, 0, false);
		(void)sbuf_str(out, first ? "" : "  ");
		first = false;
		if (rep_is_number(c->kind))
			put_spaces(out, widths[i] > n ? widths[i] - n : 0);
		colour = colour_of(d, c->kind, row ? &row[i] : NULL);
		(void)sbuf_str(out, colour ? colour : "");
		(void)sbuf_add(out, cell.p, cell.len);
		(void)sbuf_str(out, colour ? PLAIN : "");
		if (!rep_is_number(c->kind))
			put_spaces(out, widths[i] > n ? widths[i] - n : 0);
		if (cell.err && !out->err)
			out->err = cell.err;
	}
	end_line(out);
}

int rep_table_write_text(const struct rep_doc *d, const struct rep_section *s,
                         const struct rep_table *t, struct sbuf *out)
{
	size_t widths[COLUMNS_MAX];
	int r;

	assert(t->n_columns <= COLUMNS_MAX);
	r = measure(d, s, t, widths);
	if (r < 0)
		return r;
	put_row(d, s, t, NULL, widths, out);
	for (size_t k = 0; k < t->cells.n; k += t->n_columns)
		put_row(d, s, t, &t->cells.p[k], widths, out);
	return out->err;
}

/* The lines before a listing: its files and its note. */
static void put_place(const struct rep_table *t, struct sbuf *out)
{
	if (t->symbol) {
		(void)rep_put_name(out, t->symbol, 0, false);
		(void)sbuf_str(out, " of ");
	}
	(void)rep_put_name(out, t->file, 0, false);
	if (t->read && strcmp(t->read, t->file) != 0) {
		(void)sbuf_str(out, ", read from ");
		(void)rep_put_name(out, t->read, 0, false);
	}
	if (*t->file || t->symbol)
		(void)sbuf_char(out, '\n');
	if (t->note) {
		(void)sbuf_str(out, "note: ");
		(void)rep_put_name(out, t->note, 0, false);
		(void)sbuf_char(out, '\n');
	}
}

static int put_table(const struct rep_doc *d, const struct rep_section *s,
                     const struct rep_table *t, struct sbuf *out)
{
	int r = 0;

	(void)sbuf_char(out, '\n');
	if (t->title) {
		(void)sbuf_str(out, t->title);
		if (t->subject) {
			(void)sbuf_char(out, ' ');
			(void)rep_put_name(out, t->subject, d->o->width, !d->o->full_names);
		}
		(void)sbuf_char(out, '\n');
	}
	if (t->file)
		put_place(t, out);
	if (!t->file || t->cells.n)
		r = rep_table_write_text(d, s, t, out);
	if (t->rest) {
		(void)sbuf_str(out, t->rest);
		(void)sbuf_char(out, '\n');
	}
	return r < 0 ? r : out->err;
}

struct lines {
	const struct rep_doc *d;
	struct sbuf *out;
};

/* The verdict is the line that one should not miss. */
static int put_line(void *arg, const char *text)
{
	const struct lines *l = arg;
	const bool bold = l->d->o->colours && str_starts(text, "quality: ");

	(void)sbuf_str(l->out, bold ? BOLD : "");
	(void)sbuf_str(l->out, text);
	(void)sbuf_str(l->out, bold ? PLAIN : "");
	return sbuf_char(l->out, '\n');
}

int rep_doc_write_text(const struct rep_doc *d, struct sbuf *out)
{
	struct lines l = {.d = d, .out = out};
	int r = 0;

	for (size_t i = 0; i < d->sources.n && r == 0; i++)
		r = rep_quality_lines(d->sources.p[i].in, &d->sources.p[i].quality, put_line, &l);
	for (size_t i = 0; i < d->sections.n && r == 0; i++) {
		if (d->sections.n > 1) {
			(void)sbuf_char(out, '\n');
			rep_put_section(&d->sections.p[i], out);
			(void)sbuf_char(out, '\n');
		}
		for (size_t k = 0; k < d->sections.p[i].tables.n && r == 0; k++)
			r = put_table(d, &d->sections.p[i], &d->sections.p[i].tables.p[k], out);
	}
	return r < 0 ? r : out->err;
}
