/* SPDX-License-Identifier: Apache-2.0 */
/* cli-report.c - what stands on standard error at the end of a capture */
#include "cli_priv.h"

#include <inttypes.h>
#include <string.h>

enum {
	TOP_MAX = 10,
	/* "100.00   100.00  123.45 ms  " */
	NUMBERS_WIDTH = 8 + 1 + 8 + 1 + 10 + 2,
	MODULE_WIDTH_MAX = 24,
	WIDTH_MAX = 512,
	NAME_BYTES_MAX = 1024,
};

static double percent(uint64_t part, uint64_t whole)
{
	return whole ? 100.0 * (double)part / (double)whole : 0.0;
}

/* "/usr/lib/libc.so.6" -> "libc.so.6"; "[kernel]" and "//anon" style names stay readable. */
static const char *base_name(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash && slash[1] ? slash + 1 : path;
}

/* @s made printable and cut to @columns. */
static void fit(const char *s, size_t columns, char ret[NAME_BYTES_MAX])
{
	(void)snprintf(ret, NAME_BYTES_MAX, "%s", s); /* C++ names can be longer than any line */
	cli_make_printable(ret);
	cli_shorten(ret, columns, false);
}

static size_t max_columns(size_t a, const char *s)
{
	size_t b = cli_columns(s);

	return a > b ? a : b;
}

static void print_table(const struct pfa_function *f, size_t n, uint64_t total, const char *unit)
{
	size_t width = cli_terminal_width();
	size_t module_width = strlen("module"), name_width = strlen("function"), room;
	char name[NAME_BYTES_MAX], module[NAME_BYTES_MAX], self[32];

	if (width > WIDTH_MAX)
		width = WIDTH_MAX;
	for (size_t i = 0; i < n; i++) {
		module_width = max_columns(module_width, base_name(f[i].module));
		name_width = max_columns(name_width, f[i].name);
	}
	if (module_width > MODULE_WIDTH_MAX)
		module_width = MODULE_WIDTH_MAX;
	/* A terminal of 40 columns, the narrowest believed, has 9 left for names. */
	room = width > NUMBERS_WIDTH + 2 + module_width + 8
	               ? width - NUMBERS_WIDTH - 2 - module_width
	               : 8;
	if (name_width > room)
		name_width = room;

	cli_say_plain("%8s %8s %10s  %-*s  module", "self %", "cum %", "self", (int)name_width,
	              "function");
	for (size_t i = 0; i < n; i++) {
		fit(f[i].name, name_width, name);
		fit(base_name(f[i].module), module_width, module);
		cli_format_weight(f[i].self, unit, self, sizeof(self));
		/* printf's width counts bytes: the filling is made of columns. */
		cli_say_plain("%8.2f %8.2f %10s  %s%*s  %s", percent(f[i].self, total),
		              percent(f[i].cum, total), self, name,
		              (int)(name_width - cli_columns(name)), "", module);
	}
}

/* Each reason for which samples were dropped. */
static void print_losses(const struct pfa_session *s)
{
	static const char prefix[] = "dropped_";
	struct pfa_counter c;

	for (size_t i = 0; pfa_counter(s, i, &c) == 0; i++) {
		if (c.value && !strncmp(c.name, prefix, strlen(prefix)) &&
		    !strcmp(c.unit, "samples"))
			cli_say("dropped %" PRIu64 " samples: %s", c.value, c.help);
	}
}

void cli_report_functions(const struct pfa_session *s)
{
	struct pfa_stats st = {.size = sizeof(st)};
	const char *unit = pfa_weight_unit(s);
	struct pfa_function f[TOP_MAX];
	int n;

	if (pfa_stats(s, &st) < 0)
		return; /* the quality line says so */
	n = pfa_top(s, f, TOP_MAX);
	if (n > 0)
		print_table(f, (size_t)n, st.weight, unit ? unit : "");
	else if (n < 0)
		cli_say("no table of functions: %s", strerrorname_np(-n));
	else if (!st.seen)
		cli_say("no samples: the target used no CPU in that time (it slept, or ended at "
		        "once)");
	else
		cli_say("no samples: all %" PRIu64 " were dropped", st.seen);
	print_losses(s);
}

/* The value of @key among the quality figures, or NULL. */
static const char *quality_value(const struct pfa_session *s, const char *key)
{
	size_t len = strlen(key);
	const char *line;

	for (size_t i = 0; (line = pfa_quality(s, i)); i++) {
		if (!strncmp(line, key, len) && line[len] == ':')
			return line + len + 1 + strspn(line + len + 1, " ");
	}
	return NULL;
}

void cli_report_quality(const struct pfa_session *s)
{
	static const struct {
		const char *key, *before, *after;
	} figures[] = {
	        {"complete_stacks_pct", "", "complete stacks"},
	        {"cut_stacks_pct", "", "cut stacks"},
	        {"named_user_pct", "", "of user frames named"},
	        {"named_kernel_pct", "", "of kernel frames named"},
	        {"idle_pct", "", "idle"},
	        {"agent_cpu_pct", "agent ", "CPU"},
	        {"lost_stacks_pct", "", "lost stacks"},
	        {"missed_ticks_pct", "", "missed ticks"},
	};
	struct pfa_stats st = {.size = sizeof(st)};
	char line[1024];
	const char *v;
	int n, rc;

	rc = pfa_stats(s, &st);
	if (rc < 0) {
		cli_say_plain("quality: unknown: %s", strerrorname_np(-rc));
		return;
	}
	n = snprintf(line, sizeof(line),
	             "quality: %" PRIu64 " samples (%" PRIu64 " kept, %" PRIu64 " dropped)",
	             st.seen, st.kept, st.dropped);
	for (size_t i = 0; i < sizeof(figures) / sizeof(figures[0]); i++) {
		v = quality_value(s, figures[i].key);
		if (!v)
			continue;
		n += snprintf(line + n, sizeof(line) - (size_t)n, ", %s%.24s%s %s",
		              figures[i].before, v, strchr(v, '%') ? "" : " %", figures[i].after);
	}
	if (!quality_value(s, "agent_cpu_pct"))
		(void)snprintf(line + n, sizeof(line) - (size_t)n, ", agent %.1f %% CPU",
		               percent(st.agent_cpu_ns, st.elapsed_ns));
	cli_say_plain("%s", line);
}
