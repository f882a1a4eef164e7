/* SPDX-License-Identifier: Apache-2.0 */
/* cli_columns.c - tables that fit the terminal, and names that fit their columns */
#include "cli_priv.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum {
	GAP = 2, /* columns before each column */
	WIDTH_MAX = 512,
	ARGUMENTS_SHOWN = 3, /* "<int>" stays */
};

/* ---- names ----------------------------------------------------------------------------------- */

/* Returns the '>' that ends the '<' at @s; NULL: none. */
static const char *bracket_end(const char *s)
{
	size_t depth = 0;

	for (const char *p = s; *p; p++) {
		if (*p == '<')
			depth++;
		else if (*p == '>' && p > s && p[-1] != '-' && --depth == 0)
			return p;
	}
	return NULL;
}

/* Whether the brackets that follow are an operator's name: "operator<", "operator<<". */
static bool after_operator(const char *name, const char *at)
{
	static const char word[] = "operator";

	while (at > name && strchr("<>=-", at[-1]))
		at--;
	return (size_t)(at - name) >= strlen(word) &&
	       !strncmp(at - strlen(word), word, strlen(word));
}

static bool is_word(char c)
{
	return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
	       c == '_' || (unsigned char)c >= 0x80;
}

/* Whether the brackets at @p are a name of their own, as Python and Java have them. */
static bool is_bracketed_name(const char *name, const char *p)
{
	static const char *const names[] = {"<module>",   "<lambda>",   "<genexpr>",
	                                    "<listcomp>", "<dictcomp>", "<setcomp>",
	                                    "<locals>",   "<init>",     "<clinit>"};

	if (p == name + 4 && !strncmp(name, "py::", 4))
		return true;
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		if (!strncmp(p, names[i], strlen(names[i])))
			return true;
	return false;
}

/* Whether the '<' at @p opens arguments: "map<", "Vec::<", "operator< <". Elsewhere it is part of
 * the name: "<T as Trait>::call", "py::<module>". */
static bool opens_arguments(const char *name, const char *p)
{
	if (p == name || after_operator(name, p) || is_bracketed_name(name, p))
		return false;
	if (p[-1] == ' ')
		return strchr("<>=-", p - name > 1 ? p[-2] : ' ') && after_operator(name, p - 1);
	return is_word(p[-1]) || (p[-1] == ':' && p - name > 1 && p[-2] == ':');
}

void cli_fold_arguments(const char *name, char *ret, size_t size)
{
	bool all_end = true; /* one search to the end is enough */
	size_t n = 0;

	for (const char *p = name; *p && n + 8 < size; p++) {
		const bool opens = all_end && *p == '<' && opens_arguments(name, p);
		const char *end = opens ? bracket_end(p) : NULL;

		all_end = all_end && (!opens || end);
		if (end && end - p - 1 > ARGUMENTS_SHOWN) {
			n += (size_t)snprintf(ret + n, size - n, "<…>");
			p = end;
		} else {
			ret[n++] = *p;
		}
	}
	ret[n] = '\0';
}

/* Cuts @s in its middle. @columns: at least 1 */
static void shorten(const char *s, size_t columns, char *ret, size_t size)
{
	size_t have = cli_columns(s), head = columns / 2, tail = columns - 1 - head, column = 0,
	       n = 0;
	bool cut = false;

	for (; *s && n + 4 < size; s++) {
		/* Continuation bytes belong to the column before. */
		column += ((unsigned char)*s & 0xc0) != 0x80;
		if (have <= columns || column <= head || column > have - tail) {
			ret[n++] = *s;
		} else if (!cut) {
			n += (size_t)snprintf(ret + n, size - n, "…");
			cut = true;
		}
	}
	ret[n] = '\0';
}

/* ---- tables ---------------------------------------------------------------------------------- */

int cli_table_new(const struct cli_column *columns, size_t n_columns, struct cli_table **ret)
{
	struct cli_table *t = calloc(1, sizeof(*t));

	if (!t)
		return -ENOMEM;
	t->columns = columns;
	t->n_columns = n_columns;
	*ret = t;
	return 0;
}

void cli_table_add(struct cli_table *t, size_t column, const char *text)
{
	char name[CLI_NAME_BYTES_MAX];

	if (column == 0 && t->n < CLI_TABLE_ROWS)
		t->n++;
	if (t->n == 0)
		return;
	(void)snprintf(name, sizeof(name), "%s", text); /* C++ names can be longer than any line */
	cli_make_printable(name);
	cli_fold_arguments(name, t->cells[t->n - 1][column], sizeof(t->cells[0][0]));
}

/* Columns of all kept columns together. */
static size_t total(const struct cli_table *t, const size_t *width)
{
	size_t sum = 0;

	for (size_t c = 0; c < t->n_columns; c++)
		sum += width[c] ? GAP + width[c] : 0;
	return sum;
}

/* The widths that the cells would like. Columns without text are left out: 0. */
static void measure(const struct cli_table *t, size_t *width)
{
	for (size_t c = 0; c < t->n_columns; c++) {
		const struct cli_column *column = &t->columns[c];
		size_t widest = 0;

		for (size_t i = 0; i < t->n; i++) {
			size_t have = cli_columns(t->cells[i][c]);

			widest = have > widest ? have : widest;
		}
		if (widest && cli_columns(column->title) > widest)
			widest = cli_columns(column->title);
		width[c] = column->max && widest > column->max ? column->max : widest;
	}
}

/* Takes columns from the widest column that can be cut, until the table fits or none can. */
static void shrink(const struct cli_table *t, size_t room, size_t *width)
{
	while (total(t, width) > room) {
		size_t most = 0, at = t->n_columns;

		for (size_t c = 0; c < t->n_columns; c++) {
			if (t->columns[c].min && width[c] > t->columns[c].min && width[c] > most) {
				most = width[c];
				at = c;
			}
		}
		if (at == t->n_columns)
			return;
		width[at]--;
	}
}

/* Leaves out the column that is needed least; false: all are needed. */
static bool drop(const struct cli_table *t, uint32_t *dropped)
{
	size_t at = t->n_columns;

	for (size_t c = 0; c < t->n_columns; c++)
		if (t->columns[c].drop && !(*dropped >> c & 1) &&
		    (at == t->n_columns || t->columns[c].drop < t->columns[at].drop))
			at = c;
	if (at == t->n_columns)
		return false;
	*dropped |= 1u << at;
	return true;
}

static void fit(const struct cli_table *t, size_t *width)
{
	size_t room = cli_terminal_width();
	uint32_t dropped = 0;

	room = room < WIDTH_MAX ? room : WIDTH_MAX;
	do {
		measure(t, width);
		for (size_t c = 0; c < t->n_columns; c++)
			width[c] = dropped >> c & 1 ? 0 : width[c];
		shrink(t, room, width);
	} while (total(t, width) > room && drop(t, &dropped));
}

/* Appends a cell. The last column has no blanks after it. */
static void put(char *line, size_t size, const struct cli_column *column, size_t width,
                const char *text, bool last)
{
	char cut[CLI_NAME_BYTES_MAX];
	size_t n = strlen(line), have;

	shorten(text, width, cut, sizeof(cut));
	have = cli_columns(cut);
	(void)snprintf(line + n, size - n, "%*s%s%*s",
	               (int)(GAP + (column->right ? width - have : 0)), "", cut,
	               column->right || last ? 0 : (int)(width - have), "");
}

static void print_row(const struct cli_table *t, const size_t *width, size_t row)
{
	char line[4 * WIDTH_MAX] = "";
	size_t last = 0;

	for (size_t c = 0; c < t->n_columns; c++)
		last = width[c] ? c : last;
	for (size_t c = 0; c < t->n_columns; c++)
		if (width[c])
			put(line, sizeof(line), &t->columns[c], width[c],
			    row ? t->cells[row - 1][c] : t->columns[c].title, c == last);
	cli_say_plain("%s", line);
}

void cli_table_print(const struct cli_table *t)
{
	size_t width[CLI_TABLE_COLUMNS] = {0};

	fit(t, width);
	for (size_t i = 0; t->n && i <= t->n; i++)
		print_row(t, width, i);
}
