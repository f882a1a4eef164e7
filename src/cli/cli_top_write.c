/* SPDX-License-Identifier: Apache-2.0 */
/* cli_top_write.c - the live view's profile in a file */
#include "cli_top.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* The format of a file by its name; UINT32_MAX: none. */
static uint32_t format_of(const char *name)
{
	return cli_suffix_is(name, ".html")     ? PFA_PROFILE_FLAME_HTML
	       : cli_suffix_is(name, ".svg")    ? PFA_PROFILE_FLAME_SVG
	       : cli_suffix_is(name, ".folded") ? PFA_PROFILE_FOLDED
	       : cli_suffix_is(name, ".pb.gz")  ? PFA_PROFILE_PPROF
	                                        : UINT32_MAX;
}

/* Returns a regular expression for a text itself, owned; NULL: out of memory. @whole: nothing before and after
 * it, and its case matters. */
static char *pattern_of(const char *text, bool whole)
{
	static const char special[] = "\\.+*?()|[]{}^$";
	const char *begin = whole ? "^" : "(?i)";
	const size_t size = strlen(begin) + 2 * strlen(text) + sizeof("$");
	char *p = malloc(size);
	size_t n;

	if (!p)
		return NULL;
	n = (size_t)snprintf(p, size, "%s", begin);
	for (; *text; text++) {
		if (strchr(special, *text))
			p[n++] = '\\';
		p[n++] = *text;
	}
	if (whole)
		p[n++] = '$';
	p[n] = '\0';
	return p;
}

/* Searches in the pages of tasks are for their names, not for functions. */
static bool is_searched(const struct cli_top_view *v)
{
	return v->search[0] && v->page != CLI_TOP_PROCESSES && v->page != CLI_TOP_THREADS;
}

/* Writes the samples that have the functions of the path and the text of the search. Returns 0 or a negative
 * errno. */
static int write_filtered(const struct cli_top_data *d, const struct cli_top_view *v,
                          uint32_t format, struct pfa_error *err)
{
	const struct pfa_profile *p[CLI_TOP_WINDOWS];
	const size_t n = cli_top_data_profiles(d, v, p);
	const struct pfa_output to = {.path = v->typed};
	char *focus[CLI_TOP_PATH_MAX + 2] = {NULL};
	size_t n_focus = 0;
	bool all = true;
	int rc = -ENOMEM;

	for (size_t i = 0; i < v->n_path && all; i++)
		all = (focus[n_focus++] = pattern_of(v->path[i], true));
	if (all && is_searched(v))
		all = (focus[n_focus++] = pattern_of(v->search, false));
	if (all)
		rc = pfa_profiles_write(p, n, (const char *const *)focus, format, &to, err);
	for (size_t i = 0; i < n_focus; i++)
		free(focus[i]);
	return rc;
}

/* Says which samples the file has: "on-CPU, last 5 s, with f, with 'text'". */
static void describe(const struct cli_top_view *v, char *ret, size_t size)
{
	char span[32], functions[128] = "", search[64] = "";

	if (v->by_all)
		(void)snprintf(span, sizeof(span), "since the start");
	else
		(void)snprintf(span, sizeof(span), "last %.0f s", (double)v->sums.last_ns / 1e9);
	if (v->n_path == 1)
		(void)snprintf(functions, sizeof(functions), ", with %.60s", v->path[0]);
	else if (v->n_path)
		(void)snprintf(functions, sizeof(functions), ", with %.60s and %zu caller%s",
		               v->path[0], v->n_path - 1, v->n_path == 2 ? "" : "s");
	if (is_searched(v))
		(void)snprintf(search, sizeof(search), ", with '%.40s'", v->search);
	(void)snprintf(ret, size, "%s, %s%s%s", v->offcpu ? "off-CPU" : "on-CPU", span, functions,
	               search);
}

void cli_top_write(const struct cli_top_data *d, struct cli_top_view *v)
{
	const struct pfa_profile *p[CLI_TOP_WINDOWS];
	const uint32_t format = format_of(v->typed);
	char what[CLI_TOP_TEXT_MAX];
	struct pfa_error err = {0};
	int rc;

	if (cli_top_data_profiles(d, v, p) == 0) {
		(void)snprintf(v->message, sizeof(v->message), "there is no profile yet");
	} else if (format == UINT32_MAX) {
		(void)snprintf(v->message, sizeof(v->message),
		               "not written: the name must end in .pb.gz, .html, .svg or .folded");
	} else if (access(v->typed, F_OK) == 0) {
		(void)snprintf(v->message, sizeof(v->message), "not written: %.150s exists",
		               v->typed);
	} else {
		rc = write_filtered(d, v, format, &err);
		describe(v, what, sizeof(what));
		if (rc < 0)
			(void)snprintf(v->message, sizeof(v->message), "not written: %.220s",
			               err.message[0] ? err.message : cli_error(-rc));
		else
			(void)snprintf(v->message, sizeof(v->message), "written: %.60s (%.180s)",
			               v->typed, what);
	}
}
