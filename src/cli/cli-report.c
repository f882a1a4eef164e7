/* SPDX-License-Identifier: Apache-2.0 */
/* cli-report.c - what stands on standard error at the end of a capture */
#include "cli_priv.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
	TOP_MAX = 10,
	FUNCTIONS_MAX = 10000, /* looked at for rows to fold: the colder ones are not missed */
	FOLDED_NAME_MAX = 128,
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

struct row {
	struct pfa_function f; /* .self is the sum of all that are folded into it */
	size_t n_unnamed;      /* addresses without a name */
	size_t rank;           /* as the library sorted them */
	char folded[FOLDED_NAME_MAX];
};

static bool is_unnamed(const struct pfa_function *f)
{
	return !strncmp(f->name, "0x", 2);
}

static int compare_rows(const void *a, const void *b)
{
	const struct row *x = a, *y = b;

	if (x->f.self != y->f.self)
		return (x->f.self < y->f.self) - (x->f.self > y->f.self);
	return (x->rank > y->rank) - (x->rank < y->rank);
}

static struct row *find_unnamed(struct row *rows, size_t n, const char *module)
{
	for (size_t i = 0; i < n; i++) {
		if (rows[i].n_unnamed && !strcmp(rows[i].f.module, module))
			return &rows[i];
	}
	return NULL;
}

static void name_folded(struct row *r)
{
	const char *module = *r->f.module ? base_name(r->f.module) : "unknown";
	bool bracketed = *module == '[';

	(void)snprintf(r->folded, sizeof(r->folded), "%s%.64s%s (%zu addresses without a name)",
	               bracketed ? "" : "[", module, bracketed ? "" : "]", r->n_unnamed);
	r->f.name = r->folded;
}

/* One row for all the addresses of a module that have no name: apart, they hide a hot spot. */
static size_t fold(const struct pfa_function *f, size_t n_functions, struct row *ret)
{
	size_t n = 0;

	for (size_t i = 0; i < n_functions; i++) {
		struct row *r = is_unnamed(&f[i]) ? find_unnamed(ret, n, f[i].module) : NULL;

		if (r) {
			r->f.self += f[i].self;
			r->n_unnamed++;
			continue;
		}
		ret[n] = (struct row){.f = f[i], .n_unnamed = is_unnamed(&f[i]), .rank = n};
		n++;
	}
	qsort(ret, n, sizeof(*ret), compare_rows);
	if (n > TOP_MAX)
		n = TOP_MAX;
	for (size_t i = 0; i < n; i++) {
		if (ret[i].n_unnamed > 1)
			name_folded(&ret[i]);
	}
	return n;
}

static void print_table(const struct row *rows, size_t n, uint64_t total, const char *unit)
{
	size_t width = cli_terminal_width();
	size_t module_width = strlen("module"), name_width = strlen("function"), room;
	char name[NAME_BYTES_MAX], module[NAME_BYTES_MAX], self[32], cum[32];

	if (width > WIDTH_MAX)
		width = WIDTH_MAX;
	for (size_t i = 0; i < n; i++) {
		module_width = max_columns(module_width, base_name(rows[i].f.module));
		name_width = max_columns(name_width, rows[i].f.name);
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
		const struct pfa_function *f = &rows[i].f;

		fit(f->name, name_width, name);
		fit(base_name(f->module), module_width, module);
		cli_format_weight(f->self, unit, self, sizeof(self));
		/* Several of them may stand on one stack: their cumulative weights have no sum. */
		(void)snprintf(cum, sizeof(cum), "-");
		if (rows[i].n_unnamed < 2)
			(void)snprintf(cum, sizeof(cum), "%.2f", percent(f->cum, total));
		/* printf's width counts bytes: the filling is made of columns. */
		cli_say_plain("%8.2f %8s %10s  %s%*s  %s", percent(f->self, total), cum, self, name,
		              (int)(name_width - cli_columns(name)), "", module);
	}
}

/* The hottest functions: how many rows were printed, or a negative errno. */
static int report_top(const struct pfa_session *s, uint64_t total, const char *unit)
{
	struct pfa_function *f = calloc(FUNCTIONS_MAX, sizeof(*f));
	struct row *rows = NULL;
	int n = -ENOMEM;

	if (f)
		n = pfa_top(s, f, FUNCTIONS_MAX);
	if (n > 0) {
		rows = calloc((size_t)n, sizeof(*rows));
		if (!rows)
			n = -ENOMEM;
	}
	if (n > 0) {
		n = (int)fold(f, (size_t)n, rows);
		print_table(rows, (size_t)n, total, unit);
	}
	free(rows);
	free(f);
	return n;
}

static const char own_counter[] = "dropped_agent";

uint64_t cli_own_samples(const struct pfa_session *s)
{
	struct pfa_counter c;

	for (size_t i = 0; pfa_counter(s, i, &c) == 0; i++) {
		if (!strcmp(c.name, own_counter))
			return c.value;
	}
	return 0;
}

const char *cli_plural(uint64_t n)
{
	return n == 1 ? "" : "s";
}

/* Each reason for which samples were lost. */
static void print_losses(const struct pfa_session *s)
{
	static const char prefix[] = "dropped_";
	struct pfa_counter c;

	for (size_t i = 0; pfa_counter(s, i, &c) == 0; i++) {
		if (c.value && !strncmp(c.name, prefix, strlen(prefix)) &&
		    !strcmp(c.unit, "samples") && strcmp(c.name, own_counter) != 0)
			cli_say("dropped %" PRIu64 " sample%s: %s", c.value, cli_plural(c.value),
			        c.help);
	}
}

/* Why nothing was there to sample, as far as it is known. */
static void say_nothing_seen(const struct cli_options *o, uint64_t elapsed_ns)
{
	uint64_t period_ns = 1000000000 / o->sample_rate_hz;
	char elapsed[32], period[32];

	if (elapsed_ns < 2 * period_ns) {
		cli_format_duration(elapsed_ns, elapsed, sizeof(elapsed));
		cli_format_duration(period_ns, period, sizeof(period));
		cli_say("no samples: the capture was shorter than two sampling periods (it took "
		        "%s, a period is %s)",
		        elapsed, period);
	} else if (o->all) {
		cli_say("no samples: the machine was idle");
	} else {
		cli_say("no samples: the target used no CPU in that time (it slept, or ended at "
		        "once)");
	}
}

void cli_report_functions(const struct pfa_session *s, const struct cli_options *o)
{
	struct pfa_stats st = {.size = sizeof(st)};
	const char *unit = pfa_weight_unit(s);
	bool own = o->pid == getpid();
	int n;

	if (pfa_stats(s, &st) < 0)
		return; /* the quality line says so */
	n = report_top(s, st.weight, unit ? unit : "");
	if (n < 0)
		cli_say("no table of functions: %s", strerrorname_np(-n));
	else if (n == 0 && (own || (st.seen && cli_own_samples(s) == st.seen)))
		cli_say("no samples: only perf-agent itself was there to sample, and it leaves "
		        "itself out");
	else if (n == 0 && !st.seen)
		say_nothing_seen(o, st.elapsed_ns);
	else if (n == 0)
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

/* The files of a key of which there are several lines: "NAME SHARE" each. False: none. */
static bool files_of(const struct pfa_session *s, const char *key, char *text, size_t size)
{
	const char *line;
	size_t n = 0;

	text[0] = '\0';
	for (size_t i = 0; (line = pfa_quality(s, i)) && n < size; i++) {
		const char *name = line + strlen(key), *share = strrchr(line, ' ');

		if (strncmp(line, key, strlen(key)) != 0 || !share || share <= name)
			continue;
		n += (size_t)snprintf(text + n, size - n, "%s%.*s%s %%", n ? ", " : "",
		                      (int)(share - name), name, share);
	}
	return n;
}

/* ---- why stacks are incomplete ----------------------------------------------------------------
 */

#define REASONS_MAX 32

struct reason {
	const char *name,
	        *share; /* "read_fault", "3.10": in the line "walk_read_fault_pct: 3.10" */
	int name_len;
	double pct;
};

static int cmp_reason(const void *a, const void *b)
{
	const struct reason *x = a, *y = b;

	if (x->pct != y->pct)
		return x->pct < y->pct ? 1 : -1;
	return x->share < y->share ? -1 : 1; /* as the library names them */
}

static bool is_reason(const char *name, size_t len)
{
	/* A complete stack, and two for which there is no stack. */
	static const char *const others[] = {"root_reached", "no_walk", "memory_given_back"};

	for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++)
		if (strlen(others[i]) == len && !strncmp(others[i], name, len))
			return false;
	return true;
}

/* Why walks of user stacks ended before the root, the most frequent reason first. False: none. */
static bool reasons_of(const struct pfa_session *s, char *text, size_t size)
{
	static const char before[] = "walk_", after[] = "_pct: ";
	struct reason all[REASONS_MAX] = {0};
	size_t n = 0, len = 0;
	const char *line;

	for (size_t i = 0; (line = pfa_quality(s, i)) && n < REASONS_MAX; i++) {
		const char *name = line + strlen(before), *end;

		if (strncmp(line, before, strlen(before)) != 0)
			continue;
		end = strstr(name, after);
		if (!end)
			continue;
		all[n] = (struct reason){
		        .name = name, .share = end + strlen(after), .name_len = (int)(end - name)};
		all[n].pct = strtod(all[n].share, NULL);
		if (all[n].pct > 0 && is_reason(name, (size_t)all[n].name_len))
			n++;
	}
	qsort(all, n, sizeof(all[0]), cmp_reason);
	text[0] = '\0';
	for (size_t i = 0; i < n && len < size; i++) {
		size_t from = len;

		len += (size_t)snprintf(text + len, size - len, "%s%.16s %% %.*s", i ? ", " : "",
		                        all[i].share, all[i].name_len, all[i].name);
		for (char *p = text + from; *p; p++)
			if (*p == '_')
				*p = ' ';
	}
	return n > 0;
}

/* Shares are of all user stacks, as that of the complete ones is. */
static void print_incomplete(const struct pfa_session *s)
{
	char reasons[512], files[1024];
	bool why = reasons_of(s, reasons, sizeof(reasons));
	bool where = files_of(s, "incomplete_in: ", files, sizeof(files));

	if (why && where)
		cli_say("incomplete stacks, of all user stacks: %s; they end in: %s", reasons,
		        files);
	else if (why)
		cli_say("incomplete stacks, of all user stacks: %s", reasons);
	else if (where)
		cli_say("incomplete stacks end in: %s", files);
}

static void print_guessed(const struct pfa_session *s)
{
	char files[1024];

	if (files_of(s, "guessed_in: ", files, sizeof(files)))
		cli_say("callers were guessed in: %s", files);
}

void cli_report_quality(const struct pfa_session *s)
{
	static const struct {
		const char *key, *after;
	} figures[] = {
	        {"complete_stacks_pct", "complete stacks"},
	        {"guessed_stacks_pct", "guessed stacks"},
	        {"cut_stacks_pct", "cut stacks"},
	        {"named_user_pct", "of user frames named"},
	        {"named_kernel_pct", "of kernel frames named"},
	        {"idle_pct", "idle"},
	        {"lost_stacks_pct", "lost stacks"},
	        {"missed_ticks_pct", "missed ticks"},
	};
	struct pfa_stats st = {.size = sizeof(st)};
	char line[1024], own_text[64] = "";
	uint64_t own = cli_own_samples(s);
	const char *v;
	int n, rc;

	rc = pfa_stats(s, &st);
	if (rc < 0) {
		cli_say_plain("quality: unknown: %s", strerrorname_np(-rc));
		return;
	}
	if (own > st.dropped)
		own = st.dropped; /* the two were read at different times */
	if (own)
		(void)snprintf(own_text, sizeof(own_text), ", %" PRIu64 " of perf-agent itself",
		               own); /* fits */
	print_incomplete(s);
	print_guessed(s);
	n = snprintf(line, sizeof(line),
	             "quality: %" PRIu64 " sample%s (%" PRIu64 " kept, %" PRIu64 " dropped%s)",
	             st.seen, cli_plural(st.seen), st.kept, st.dropped - own, own_text);
	for (size_t i = 0; i < sizeof(figures) / sizeof(figures[0]); i++) {
		v = quality_value(s, figures[i].key);
		if (!v)
			continue;
		n += snprintf(line + n, sizeof(line) - (size_t)n, ", %.24s%s %s", v,
		              strchr(v, '%') ? "" : " %", figures[i].after);
	}
	/* 1 KiB holds them all with their longest values. */
	v = quality_value(s, "agent_cpu_pct");
	if (v)
		n += snprintf(line + n, sizeof(line) - (size_t)n, ", agent %.24s%s CPU", v,
		              strchr(v, '%') ? "" : " %");
	else
		n += snprintf(line + n, sizeof(line) - (size_t)n, ", agent %.1f %% CPU",
		              percent(st.agent_cpu_ns, st.elapsed_ns));
	v = quality_value(s, "agent_setup_cpu_ms");
	if (v)
		(void)snprintf(line + n, sizeof(line) - (size_t)n, " (+ %.24s ms to start)", v);
	cli_say_plain("%s", line);
}
