/* SPDX-License-Identifier: Apache-2.0 */
/* cli_top_view.c - the live view as lines of text. Pure. */
#include "cli_top.h"

#include <inttypes.h>
#include <stdarg.h>
#include <string.h>

enum {
	TITLE_ROWS = 4, /* title, sums, heading of the page, heading of the columns */
	FOOT_ROWS = 1,
	MODULE_WIDTH = 20,
	WIDE = 60,   /* columns from which on modules are shown */
	MEDIUM = 50, /* and the columns since the start */
};

static const char *const help_lines[] = {
        "keys",
        "  up down, j k, PgUp PgDn   move; Home End: first, last",
        "  Enter, right              callers of the selected function, and theirs",
        "  Backspace, left, Esc      back",
        "  1 2 3 4                   functions, processes, threads, off-CPU waits",
        "  m                         on-CPU or off-CPU time",
        "  o                         off-CPU time with or without what has not ended",
        "  s c                       sort by self time, by cumulative time",
        "  t                         sort by the last seconds, or since the start",
        "  /                         search: rows that contain the text; empty: all",
        "  p, space                  pause; sampling goes on",
        "  w                         write the profile of what is shown to a file",
        "  ? h                       this help",
        "  q, Ctrl-C                 quit",
        "",
        "SELF: the function itself; CUM: with what it calls, in % of the time shown.",
        "Left of |: the last seconds; right of it: since the start.",
};

size_t cli_top_list_rows(const struct cli_top_screen *s)
{
	return s->rows > TITLE_ROWS + FOOT_ROWS ? s->rows - TITLE_ROWS - FOOT_ROWS : 0;
}

__attribute__((format(printf, 3, 4))) static void add(struct cli_top_screen *s,
                                                      enum cli_top_look look, const char *format,
                                                      ...)
{
	char text[CLI_TOP_LINE_MAX];
	va_list ap;

	if (s->n == s->rows)
		return;
	va_start(ap, format);
	(void)vsnprintf(text, sizeof(text), format,
	                ap); /* a cut line is cut to its columns anyway */
	va_end(ap);
	cli_fit(text, s->columns, s->line[s->n]);
	s->look[s->n++] = look;
}

static double pct(uint64_t part, uint64_t whole)
{
	return whole ? 100.0 * (double)part / (double)whole : 0.0;
}

static void add_title(const struct cli_top_view *v, struct cli_top_screen *s)
{
	char all[32], last[32], samples[CLI_COUNT_MAX], lost[CLI_COUNT_MAX], state[16] = "";

	if (v->paused || v->ended)
		(void)snprintf(state, sizeof(state), "[%s] ", v->ended ? "ended" : "paused");
	add(s, CLI_TOP_TITLE, "%sperf-agent top: %s, %.0f s, %s", state, v->target,
	    (double)v->sums.all_ns / 1e9, v->offcpu ? "off-CPU" : "on-CPU");
	cli_format_weight(v->sums.last_weight, v->unit, last, sizeof(last));
	cli_format_weight(v->sums.all_weight, v->unit, all, sizeof(all));
	cli_format_count(v->sums.samples, samples);
	cli_format_count(v->sums.lost, lost);
	add(s, CLI_TOP_PLAIN, "last %.0f s: %s | all: %s, %s %s, %s lost",
	    (double)v->sums.last_ns / 1e9, last, all, samples, v->offcpu ? "intervals" : "samples",
	    lost);
}

static void add_page(const struct cli_top_view *v, struct cli_top_screen *s)
{
	static const char *const pages[] = {[CLI_TOP_FUNCTIONS] = "functions",
	                                    [CLI_TOP_PROCESSES] = "processes",
	                                    [CLI_TOP_THREADS] = "threads",
	                                    [CLI_TOP_WAITS] = "off-CPU waits",
	                                    [CLI_TOP_CALLERS] = "callers of"};
	char path[CLI_TOP_LINE_MAX] = "", search[CLI_TOP_TEXT_MAX + 16] = "";
	size_t len = 0;

	for (size_t i = v->n_path; v->page == CLI_TOP_CALLERS && i > 0 && len < sizeof(path); i--)
		len += (size_t)snprintf(path + len, sizeof(path) - len, "%s%s",
		                        i == v->n_path ? " " : " > ", v->path[i - 1]);
	if (v->search[0])
		(void)snprintf(search, sizeof(search), ", with '%s'", v->search);
	add(s, CLI_TOP_PLAIN, "%s%s by %s, %s%s%s", pages[v->page], path,
	    v->page == CLI_TOP_CALLERS || v->page == CLI_TOP_PROCESSES ||
	                    v->page == CLI_TOP_THREADS || v->page == CLI_TOP_WAITS
	            ? "time"
	    : v->by_cum ? "cumulative time"
	                : "self time",
	    v->by_all ? "since start" : "last seconds",
	    v->offcpu && v->ended_only ? ", ended ones" : "", search);
}

/* Pages whose rows have one weight. */
static bool has_one(enum cli_top_page page)
{
	return page == CLI_TOP_PROCESSES || page == CLI_TOP_THREADS || page == CLI_TOP_CALLERS;
}

static const char *name_heading(enum cli_top_page page)
{
	return page == CLI_TOP_PROCESSES ? "PROCESS"
	       : page == CLI_TOP_THREADS ? "THREAD"
	       : page == CLI_TOP_CALLERS ? "CALLER"
	                                 : "FUNCTION";
}

/* The numbers of a row, or (NULL) their heading. */
static void format_numbers(const struct cli_top_view *v, const struct cli_top_row *r, bool wide,
                           char *ret, size_t size)
{
	const struct cli_top_sums *t = &v->sums;
	char last[32], all[32];

	if (v->page == CLI_TOP_WAITS && !r) {
		(void)snprintf(ret, size, wide ? "%10s %10s %8s" : "%10s", "LAST", "ALL", "COUNT");
	} else if (v->page == CLI_TOP_WAITS) {
		cli_format_duration(r->last[0], last, sizeof(last));
		cli_format_duration(r->all[0], all, sizeof(all));
		(void)snprintf(ret, size, wide ? "%10s %10s %8" PRIu64 : "%10s", last, all,
		               r->all[1]);
	} else if (has_one(v->page) && !r) {
		(void)snprintf(ret, size, wide ? "%6s %6s" : "%6s", "LAST%", "ALL%");
	} else if (has_one(v->page)) {
		(void)snprintf(ret, size, wide ? "%6.1f %6.1f" : "%6.1f",
		               pct(r->last[0], t->last_weight), pct(r->all[0], t->all_weight));
	} else if (!r) {
		(void)snprintf(ret, size, wide ? "%6s %6s | %6s %6s" : "%6s %6s", "SELF%", "CUM%",
		               "SELF%", "CUM%");
	} else {
		(void)snprintf(ret, size, wide ? "%6.1f %6.1f | %6.1f %6.1f" : "%6.1f %6.1f",
		               pct(r->last[0], t->last_weight), pct(r->last[1], t->last_weight),
		               pct(r->all[0], t->all_weight), pct(r->all[1], t->all_weight));
	}
}

static void name_row(const struct cli_top_view *v, const struct cli_top_row *r, char *ret,
                     size_t size)
{
	if (v->page == CLI_TOP_PROCESSES)
		(void)snprintf(ret, size, "%" PRIu32 " %s", r->pid, r->name);
	else if (v->page == CLI_TOP_THREADS)
		(void)snprintf(ret, size, "%" PRIu32 "/%" PRIu32 " %s", r->pid, r->tid, r->name);
	else
		(void)snprintf(ret, size, "%s", *r->name ? r->name : "[no caller]");
}

/* One line: mark, numbers, name, module. @r: NULL: the heading. */
static void add_row(const struct cli_top_view *v, const struct cli_top_row *r, bool selected,
                    struct cli_top_screen *s)
{
	const bool modules =
	        s->columns >= WIDE && !(has_one(v->page) && v->page != CLI_TOP_CALLERS);
	char numbers[64], name[CLI_NAME_BYTES_MAX], shown[CLI_NAME_BYTES_MAX],
	        module[CLI_NAME_BYTES_MAX] = "";
	size_t used, width;

	format_numbers(v, r, s->columns >= MEDIUM, numbers, sizeof(numbers));
	used = 1 + strlen(numbers) + 2 + (modules ? 1 + MODULE_WIDTH : 0);
	width = s->columns > used ? s->columns - used : 1;
	if (r)
		name_row(v, r, name, sizeof(name));
	else
		(void)snprintf(name, sizeof(name), "%s", name_heading(v->page));
	cli_fit(name, width, shown);
	if (modules && r)
		cli_fit(v->page == CLI_TOP_WAITS ? r->module : cli_base_name(r->module),
		        MODULE_WIDTH, module);
	else if (modules)
		(void)snprintf(module, sizeof(module), "%s",
		               v->page == CLI_TOP_WAITS ? "WHERE" : "MODULE");
	width -= cli_columns(shown);
	add(s,
	    !r         ? CLI_TOP_HEADING
	    : selected ? CLI_TOP_SELECTED
	               : CLI_TOP_PLAIN,
	    "%s%s  %s%*s%s%s", selected ? ">" : " ", numbers, shown, modules ? (int)width : 0, "",
	    modules ? " " : "", module);
}

static void add_list(struct cli_top_view *v, struct cli_top_screen *s)
{
	const size_t fit = cli_top_list_rows(s);

	if (v->selected >= v->n)
		v->selected = v->n ? v->n - 1 : 0;
	if (v->selected < v->first)
		v->first = v->selected;
	if (fit && v->selected >= v->first + fit)
		v->first = v->selected - fit + 1;
	if (v->first && v->first + fit > v->n)
		v->first = v->n > fit ? v->n - fit : 0;
	for (size_t i = 0; i < fit; i++) {
		if (v->first + i < v->n)
			add_row(v, &v->rows[v->first + i], v->first + i == v->selected, s);
		else if (i == 0)
			add(s, CLI_TOP_PLAIN, "%s",
			    v->search[0] ? " no row contains the text of the search"
			                 : " nothing was sampled");
		else
			add(s, CLI_TOP_PLAIN, "%s", "");
	}
}

static void add_foot(const struct cli_top_view *v, struct cli_top_screen *s)
{
	if (v->prompt)
		add(s, CLI_TOP_PLAIN, "%s%s_",
		    v->prompt == CLI_TOP_SEARCH ? "search: " : "write to: ", v->typed);
	else if (v->message[0])
		add(s, CLI_TOP_PLAIN, "%s", v->message);
	else
		add(s, CLI_TOP_PLAIN, "%s",
		    "q quit  ? help  / search  s c t sort  1-4 page  m mode  p pause  w write");
}

void cli_top_draw(struct cli_top_view *v, struct cli_top_screen *s)
{
	s->n = 0;
	add_title(v, s);
	if (v->help) {
		for (size_t i = 0; i < sizeof(help_lines) / sizeof(help_lines[0]); i++)
			add(s, CLI_TOP_PLAIN, "%s", help_lines[i]);
		return;
	}
	add_page(v, s);
	add_row(v, NULL, false, s);
	add_list(v, s);
	add_foot(v, s);
}
