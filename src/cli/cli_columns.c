/* SPDX-License-Identifier: Apache-2.0 */
/* cli_columns.c - tables that fit the terminal, and names that fit their columns */
#include "cli_priv.h"

#include <perfagent/perfagent_report.h>

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum {
	GAP = 2, /* columns before each column */
	WIDTH_MAX = 512,
};

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
	if (column == 0 && t->n < CLI_TABLE_ROWS)
		t->n++;
	if (t->n)
		(void)pfa_short_name(text, 0, t->cells[t->n - 1][column], sizeof(t->cells[0][0]));
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

	(void)pfa_short_name(text, (uint32_t)width, cut, sizeof(cut));
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
