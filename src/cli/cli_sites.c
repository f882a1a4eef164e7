/* SPDX-License-Identifier: Apache-2.0 */
/* cli_sites.c - the table of functions that block */
#include "cli_priv.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum {
	ROWS_MAX = 10,
	/* "  100.00  123.45 ms    12345  123.45 ms  " */
	NUMBERS_WIDTH = 8 + 1 + 10 + 1 + 8 + 1 + 10 + 2,
	WHERE_WIDTH_MAX = 24,
	MODULE_WIDTH_MAX = 24,
	NAME_WIDTH_MIN = 8, /* as in the table of functions */
	WIDTH_MAX = 512,
	WORD_MAX = CLI_NAME_BYTES_MAX + 32,
};

/* Widths of the columns after the numbers. */
struct widths {
	size_t name, where, module;
};

static const char *name_of(const struct pfa_offcpu_site *w, char text[WORD_MAX])
{
	if (w->unnamed_cnt < 2)
		return w->name;
	(void)snprintf(text, WORD_MAX, "(%" PRIu32 " unnamed addresses)", w->unnamed_cnt);
	return text;
}

/* "futex_do_wait +2": the number of further functions is never cut. */
static void fit_where(const struct pfa_offcpu_site *w, size_t columns, char ret[CLI_NAME_BYTES_MAX])
{
	char others[16] = "";
	size_t len;

	if (w->where_cnt > 1)
		(void)snprintf(others, sizeof(others), " +%" PRIu32, w->where_cnt - 1);
	len = strlen(others);
	cli_fit(w->where, columns > len ? columns - len : 0, ret);
	len = strlen(ret);
	(void)snprintf(ret + len, CLI_NAME_BYTES_MAX - len, "%s", others);
}

static size_t smaller(size_t a, size_t b)
{
	return a < b ? a : b;
}

static struct widths measure(const struct pfa_offcpu_site *w, size_t n)
{
	struct widths ret = {.name = strlen("function"),
	                     .where = strlen("blocked in"),
	                     .module = strlen("module")};
	size_t width = smaller(cli_terminal_width(), WIDTH_MAX), room, others;
	char text[CLI_NAME_BYTES_MAX], name[WORD_MAX];

	for (size_t i = 0; i < n; i++) {
		size_t columns[3];

		fit_where(&w[i], WHERE_WIDTH_MAX, text);
		columns[0] = cli_columns_printed(name_of(&w[i], name));
		columns[1] = cli_columns(text);
		columns[2] = cli_columns_printed(cli_base_name(w[i].module));
		ret.name = columns[0] > ret.name ? columns[0] : ret.name;
		ret.where = columns[1] > ret.where ? columns[1] : ret.where;
		ret.module = columns[2] > ret.module ? columns[2] : ret.module;
	}
	/* On a narrow terminal each column gets a share; the function gets the rest. */
	room = width > NUMBERS_WIDTH + 4 ? width - NUMBERS_WIDTH - 4 : 0;
	ret.where = smaller(ret.where, smaller(WHERE_WIDTH_MAX, room * 2 / 5));
	ret.where = ret.where < strlen("blocked in") ? strlen("blocked in") : ret.where;
	ret.module = smaller(ret.module, smaller(MODULE_WIDTH_MAX, room * 3 / 10));
	ret.module = ret.module < strlen("module") ? strlen("module") : ret.module;
	others = ret.where + ret.module;
	ret.name =
	        smaller(ret.name, room > others + NAME_WIDTH_MIN ? room - others : NAME_WIDTH_MIN);
	return ret;
}

/* Returns the number of blanks after a word. printf's width counts bytes. */
static int rest(size_t width, const char *word)
{
	size_t columns = cli_columns(word);

	return columns < width ? (int)(width - columns) : 0;
}

static void print_table(const struct pfa_offcpu_site *w, size_t n, const struct pfa_stats *st)
{
	const struct widths widths = measure(w, n);
	char name[CLI_NAME_BYTES_MAX], where[CLI_NAME_BYTES_MAX], module[CLI_NAME_BYTES_MAX];
	char text[WORD_MAX], time[32], longest[32], pct[CLI_PCT_MAX];

	cli_say_plain("%8s %10s %8s %10s  %-*s  %-*s  module", "time %", "off-CPU", "count",
	              "longest", (int)widths.name, "function", (int)widths.where, "blocked in");
	for (size_t i = 0; i < n; i++) {
		cli_fit(name_of(&w[i], text), widths.name, name);
		fit_where(&w[i], widths.where, where);
		cli_fit(cli_base_name(w[i].module), widths.module, module);
		cli_format_weight(w[i].offcpu_ns, "nanoseconds", time, sizeof(time));
		cli_format_weight(w[i].longest_ns, "nanoseconds", longest, sizeof(longest));
		cli_format_pct(st->offcpu_ns
		                       ? 100.0 * (double)w[i].offcpu_ns / (double)st->offcpu_ns
		                       : 0.0,
		               st->offcpu_kept, pct);
		cli_say_plain("%8s %10s %8" PRIu64 " %10s  %s%*s  %s%*s  %s", pct, time,
		              w[i].intervals, longest, name, rest(widths.name, name), "", where,
		              rest(widths.where, where), "", module);
	}
}

int cli_report_site_table(const struct pfa_session *s, const struct pfa_stats *st)
{
	struct pfa_offcpu_site w[ROWS_MAX];
	int n = pfa_top_offcpu_sites(s, w, ROWS_MAX);

	if (n > 0)
		print_table(w, (size_t)n, st);
	return n;
}
