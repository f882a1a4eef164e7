/* SPDX-License-Identifier: Apache-2.0 */
/* cli_report.c - the report on standard error at the end of a capture */
#include "cli_priv.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
	TOP_MAX = 10,
	FUNCTIONS_MAX = 10000, /* considered for the table; colder ones do not reach it */
	FOLDED_NAME_MAX = 128,
	/* "100.00   100.00  123.45 ms  " */
	NUMBERS_WIDTH = 8 + 1 + 8 + 1 + 10 + 2,
	MODULE_WIDTH_MAX = 24,
	WIDTH_MAX = 512,
	QUALITY_LINE_MAX = 1024,
	FILTERS_MAX = 256, /* as far as they are shown */
};

static double percent(uint64_t part, uint64_t whole)
{
	return whole ? 100.0 * (double)part / (double)whole : 0.0;
}

static size_t max_columns(size_t a, const char *s)
{
	size_t b = cli_columns_printed(s);

	return a > b ? a : b;
}

struct row {
	struct pfa_function f; /* .self is the sum of all folded addresses */
	size_t n_unnamed;      /* addresses without a name */
	size_t rank;           /* in the order of the library */
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
	const char *module = *r->f.module ? cli_base_name(r->f.module) : "unknown";
	bool bracketed = *module == '[';

	(void)snprintf(r->folded, sizeof(r->folded), "%s%.64s%s (%zu unnamed addresses)",
	               bracketed ? "" : "[", module, bracketed ? "" : "]", r->n_unnamed);
	r->f.name = r->folded;
}

/* Makes one row of all unnamed addresses of a module. As many small rows they would hide a hot
 * spot. */
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

static void print_table(const struct row *rows, size_t n, uint64_t total, uint64_t samples,
                        const char *unit)
{
	size_t width = cli_terminal_width();
	size_t module_width = strlen("module"), name_width = strlen("function"), room;
	char name[CLI_NAME_BYTES_MAX], module[CLI_NAME_BYTES_MAX], weight[32];
	char self[CLI_PCT_MAX], cum[CLI_PCT_MAX];

	if (width > WIDTH_MAX)
		width = WIDTH_MAX;
	for (size_t i = 0; i < n; i++) {
		module_width = max_columns(module_width, cli_base_name(rows[i].f.module));
		name_width = max_columns(name_width, rows[i].f.name);
	}
	if (module_width > MODULE_WIDTH_MAX)
		module_width = MODULE_WIDTH_MAX;
	/* At 40 columns, the minimum of cli_terminal_width, 9 are left for names. */
	room = width > NUMBERS_WIDTH + 2 + module_width + 8
	               ? width - NUMBERS_WIDTH - 2 - module_width
	               : 8;
	if (name_width > room)
		name_width = room;

	cli_say_plain("%8s %8s %10s  %-*s  module", "self %", "cum %", "self", (int)name_width,
	              "function");
	for (size_t i = 0; i < n; i++) {
		const struct pfa_function *f = &rows[i].f;

		cli_fit(f->name, name_width, name);
		cli_fit(cli_base_name(f->module), module_width, module);
		cli_format_weight(f->self, unit, weight, sizeof(weight));
		cli_format_pct(percent(f->self, total), samples, self);
		/* Several of them may be on one stack: their cumulative weights have no sum. */
		(void)snprintf(cum, sizeof(cum), "-");
		if (rows[i].n_unnamed < 2)
			cli_format_pct(percent(f->cum, total), samples, cum);
		/* printf's width counts bytes; columns are filled by hand. */
		cli_say_plain("%8s %8s %10s  %s%*s  %s", self, cum, weight, name,
		              (int)(name_width - cli_columns(name)), "", module);
	}
}

/* Prints the hottest functions. Returns the number of rows, or a negative errno. */
static int report_top(const struct pfa_session *s, const struct pfa_stats *st, const char *unit)
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
		print_table(rows, (size_t)n, st->weight, st->kept, unit);
	}
	free(rows);
	free(f);
	return n;
}

/* Prints each reason for which samples, or off-CPU intervals, were dropped. The help of a counter
 * is "samples dropped because …"; the line has the number instead. */
static void print_losses(const struct pfa_session *s, const char *prefix, const char *unit)
{
	static const char dropped[] = " dropped because ";
	struct pfa_counter c;

	for (size_t i = 0; pfa_counter(s, i, &c) == 0; i++) {
		const char *why = strstr(c.help, dropped);

		if (!c.value || strncmp(c.name, prefix, strlen(prefix)) != 0 ||
		    strcmp(c.unit, unit) != 0 || !strcmp(c.name, "dropped_agent"))
			continue;
		cli_say("dropped %" PRIu64 " %.*s%s%s%s", c.value, (int)strlen(unit) - 1, unit,
		        cli_plural(c.value), why ? " because " : ": ",
		        why ? why + strlen(dropped) : c.help);
	}
}

/* The filters as they were given, "--comm foo, --cgroup x"; "": none. */
static void filters_of(const struct cli_options *o, char *text, size_t size)
{
	size_t n = 0;

	text[0] = '\0';
	for (size_t i = 0; i < o->tids.n && n < size; i++)
		n += (size_t)snprintf(text + n, size - n, "%s%d", i ? "," : "--tid ", o->tids.v[i]);
	for (size_t i = 0; o->comms[i] && n < size; i++)
		n += (size_t)snprintf(text + n, size - n, "%s--comm %s", n ? ", " : "",
		                      o->comms[i]);
	for (size_t i = 0; o->cgroups[i] && n < size; i++)
		n += (size_t)snprintf(text + n, size - n, "%s--cgroup %s", n ? ", " : "",
		                      o->cgroups[i]);
}

/* Returns the value of @key in the statistics of a profile, or NULL. */
static const char *quality_value(const struct pfa_session *s, uint32_t kind, const char *key)
{
	size_t len = strlen(key);
	const char *line;

	for (size_t i = 0; (line = pfa_quality_of(s, kind, i)); i++) {
		if (!strncmp(line, key, len) && line[len] == ':')
			return line + len + 1 + strspn(line + len + 1, " ");
	}
	return NULL;
}

/* Prints why there are no samples, as far as it is known. */
static void say_nothing_seen(const struct pfa_session *s, const struct cli_options *o,
                             uint64_t elapsed_ns)
{
	const char *cpu_time_ms = quality_value(s, PFA_KIND_ONCPU, "cpu_time_ms");
	uint64_t period_ns = 1000000000 / o->sample_rate_hz;
	char elapsed[32], period[32], filters[FILTERS_MAX];

	filters_of(o, filters, sizeof(filters));

	if (elapsed_ns < 2 * period_ns) {
		cli_format_duration(elapsed_ns, elapsed, sizeof(elapsed));
		cli_format_duration(period_ns, period, sizeof(period));
		cli_say("no samples: the capture was shorter than two sampling periods (it took "
		        "%s, a period is %s)",
		        elapsed, period);
	} else if (cpu_time_ms && strcmp(cpu_time_ms, "0.000") != 0) {
		cli_say("no samples: the target used only %.24s ms of CPU time, and no tick hit "
		        "it; "
		        "capture for longer, or raise --sample-rate",
		        cpu_time_ms);
	} else if (filters[0]) {
		cli_say("no samples: no matching thread used the CPU (filter: %s)", filters);
	} else if (o->all) {
		cli_say("no samples: the machine was idle");
	} else {
		cli_say("no samples: the target used no CPU (it was blocked, or ended at once)");
	}
}

void cli_report_functions(const struct pfa_session *s, const struct cli_options *o)
{
	struct pfa_stats st = {.size = sizeof(st)};
	const char *unit = pfa_weight_unit(s);
	bool own = false;
	int n;

	for (size_t k = 0; k < o->pids.n; k++)
		own |= o->pids.v[k] == getpid();
	if (pfa_stats(s, &st) < 0)
		return; /* the quality line says so */
	n = report_top(s, &st, unit ? unit : "");
	if (n < 0)
		cli_say("cannot list functions: %s", cli_error(-n));
	else if (n == 0 && (own || (st.seen && cli_own_samples(s) == st.seen)))
		cli_say("no samples: the only target is perf-agent itself, which it does not "
		        "sample");
	else if (n == 0 && !st.seen)
		say_nothing_seen(s, o, st.elapsed_ns);
	else if (n == 0)
		cli_say("no samples: all %" PRIu64 " were dropped", st.seen);
	print_losses(s, "dropped_", "samples");
}

void cli_report_sites(const struct pfa_session *s, const struct cli_options *o)
{
	struct pfa_stats st = {.size = sizeof(st)};
	char filters[FILTERS_MAX];
	int n;

	if (pfa_stats(s, &st) < 0)
		return; /* the quality line says so */
	filters_of(o, filters, sizeof(filters));
	n = cli_report_site_table(s, o, &st);
	if (n < 0)
		cli_say("cannot list off-CPU functions: %s", cli_error(-n));
	else if (n == 0 && !st.offcpu_seen && filters[0])
		cli_say("no off-CPU intervals: no matching thread was off-CPU in the selected "
		        "states and lengths (filter: %s)",
		        filters);
	else if (n == 0 && !st.offcpu_seen)
		cli_say("no off-CPU intervals in the selected states and lengths");
	else if (n == 0)
		cli_say("no off-CPU intervals: all %" PRIu64 " were dropped", st.offcpu_seen);
	print_losses(s, "offcpu_dropped_", "intervals");
}

/* Lists the files of a key that has several lines, "NAME SHARE" each. Returns false if there are
 * none. */
static bool files_of(const struct pfa_session *s, uint32_t kind, const char *key, uint64_t samples,
                     char *text, size_t size)
{
	const char *line;
	size_t n = 0;

	text[0] = '\0';
	for (size_t i = 0; (line = pfa_quality_of(s, kind, i)) && n < size; i++) {
		const char *name = line + strlen(key), *share = strrchr(line, ' ');
		char pct[CLI_PCT_MAX];

		if (strncmp(line, key, strlen(key)) != 0 || !share || share <= name ||
		    !(strtod(share, NULL) > 0))
			continue;
		cli_format_pct(strtod(share, NULL), samples, pct);
		n += (size_t)snprintf(text + n, size - n, "%s%.*s %s %%", n ? ", " : "",
		                      (int)(share - name), name, pct);
	}
	return n;
}

/* ---- why stacks are incomplete ----------------------------------------------------------------
 */

#define REASONS_MAX 32

/* The line "walk_read_fault_pct: 3.10" gives "read_fault" and 3.1. */
struct reason {
	const char *name;
	int name_len;
	double pct;
};

static int cmp_reason(const void *a, const void *b)
{
	const struct reason *x = a, *y = b;

	if (x->pct != y->pct)
		return x->pct < y->pct ? 1 : -1;
	return x->name < y->name ? -1 : 1; /* in the order of the library */
}

static bool is_reason(const char *name, size_t len)
{
	/* A complete stack, and two outcomes without a user stack. */
	static const char *const others[] = {"root_reached", "no_walk", "mm_released"};

	for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++)
		if (strlen(others[i]) == len && !strncmp(others[i], name, len))
			return false;
	return true;
}

/* Lists why walks of user stacks ended before the root, the most frequent reason first. Returns
 * false if there are none. */
static bool reasons_of(const struct pfa_session *s, uint32_t kind, uint64_t samples, char *text,
                       size_t size)
{
	static const char before[] = "walk_", after[] = "_pct: ";
	struct reason all[REASONS_MAX] = {0};
	size_t n = 0, len = 0;
	const char *line;

	for (size_t i = 0; (line = pfa_quality_of(s, kind, i)) && n < REASONS_MAX; i++) {
		const char *name = line + strlen(before), *end;

		if (strncmp(line, before, strlen(before)) != 0)
			continue;
		end = strstr(name, after);
		if (!end)
			continue;
		all[n] = (struct reason){.name = name,
		                         .name_len = (int)(end - name),
		                         .pct = strtod(end + strlen(after), NULL)};
		if (all[n].pct > 0 && is_reason(name, (size_t)all[n].name_len))
			n++;
	}
	qsort(all, n, sizeof(all[0]), cmp_reason);
	text[0] = '\0';
	for (size_t i = 0; i < n && len < size; i++) {
		size_t from = len;
		char pct[CLI_PCT_MAX];

		cli_format_pct(all[i].pct, samples, pct);
		len += (size_t)snprintf(text + len, size - len, "%s%s %% %.*s", i ? ", " : "", pct,
		                        all[i].name_len, all[i].name);
		for (char *p = text + from; *p; p++)
			if (*p == '_') /* "32-bit task" is the only name with a hyphen */
				*p = strncmp(p, "_bit_", 5) == 0 ? '-' : ' ';
		if (strncmp(text + len - strlen("jit code"), "jit code", 8) == 0)
			memcpy(text + len - strlen("jit code"), "JIT", 3);
	}
	return n > 0;
}

/* Shares are of all user stacks, like the share of complete stacks. */
static void print_incomplete(const struct pfa_session *s, uint32_t kind, uint64_t samples)
{
	char reasons[512], files[1024];
	bool why = reasons_of(s, kind, samples, reasons, sizeof(reasons));
	bool where = files_of(s, kind, "incomplete_in: ", samples, files, sizeof(files));

	if (why && where)
		cli_say("incomplete stacks: %s (of all user stacks); they end in: %s", reasons,
		        files);
	else if (why)
		cli_say("incomplete stacks: %s (of all user stacks)", reasons);
	else if (where)
		cli_say("incomplete stacks end in: %s", files);
}

static void print_heuristic(const struct pfa_session *s, uint32_t kind, uint64_t samples)
{
	char files[1024];

	if (files_of(s, kind, "heuristic_in: ", samples, files, sizeof(files)))
		cli_say("heuristic frames in: %s", files);
}

/* Appends to a quality line. 1 KiB holds all values at their longest. */
static void __attribute__((format(printf, 2, 3)))
append(char line[QUALITY_LINE_MAX], const char *format, ...)
{
	size_t len = strlen(line);
	va_list ap;

	va_start(ap, format);
	(void)vsnprintf(line + len, QUALITY_LINE_MAX - len, format, ap);
	va_end(ap);
}

struct share {
	const char *key, *after;
	bool zero; /* said when it is zero, too: that is the worst */
};

/* Appends the shares that the library has, in percent of @samples; zeros only where @zero says
 * so. */
static void append_shares(char line[QUALITY_LINE_MAX], const struct pfa_session *s, uint32_t kind,
                          const struct share *shares, size_t n, uint64_t samples)
{
	for (size_t i = 0; i < n; i++) {
		const char *v = quality_value(s, kind, shares[i].key);
		double pct = v ? strtod(v, NULL) : 0;
		char text[CLI_PCT_MAX];

		if (!v || (!(pct > 0) && !shares[i].zero))
			continue;
		cli_format_pct(pct, samples, text);
		append(line, ", %s %% %s", text, shares[i].after);
	}
}

/* CPU time of perf-agent itself. It is measured, not sampled. */
static void append_cost(char line[QUALITY_LINE_MAX], const struct pfa_session *s, uint32_t kind,
                        const struct pfa_stats *st)
{
	const char *v = quality_value(s, kind, "agent_cpu_pct");
	double pct = v ? strtod(v, NULL) : percent(st->agent_cpu_ns, st->elapsed_ns);
	double setup_ms;

	if (pct > 0)
		append(line, pct < 0.05 ? ", agent <0.1 %% CPU" : ", agent %.1f %% CPU", pct);
	v = quality_value(s, kind, "agent_setup_cpu_ms");
	setup_ms = v ? strtod(v, NULL) : 0;
	if (setup_ms >= 0.5)
		append(line, " (+ %.0f ms to start)", setup_ms);
}

#define STACK_SHARES                                                                               \
	{"complete_stacks_pct", "complete stacks", true},                                          \
	        {"heuristic_stacks_pct", "heuristic stacks", false},                               \
	        {"cut_stacks_pct", "truncated stacks", false},                                     \
	        {"named_user_pct", "of user frames named", true},                                  \
	{                                                                                          \
		"named_kernel_pct", "of kernel frames named", true                                 \
	}

#define COVERED_SAMPLES_MIN 50

void cli_report_quality(const struct pfa_session *s)
{
	static const struct share shares[] = {STACK_SHARES,
	                                      {"idle_pct", "idle", false},
	                                      {"lost_stacks_pct", "lost stacks", false}};
	static const struct share covered = {"cpu_time_covered_pct", "of CPU time covered", false};
	struct pfa_stats st = {.size = sizeof(st)};
	char line[QUALITY_LINE_MAX] = "";
	uint64_t own = cli_own_samples(s);
	int rc;

	rc = pfa_stats(s, &st);
	if (rc < 0) {
		cli_say_plain("quality: unknown: %s", cli_error(-rc));
		return;
	}
	if (own > st.dropped)
		own = st.dropped; /* the two were read at different times */
	print_incomplete(s, PFA_KIND_ONCPU, st.kept);
	print_heuristic(s, PFA_KIND_ONCPU, st.kept);
	append(line, "quality: %" PRIu64 " sample%s", st.seen, cli_plural(st.seen));
	if (st.dropped)
		append(line, " (%" PRIu64 " kept", st.kept);
	if (st.dropped > own)
		append(line, ", %" PRIu64 " dropped", st.dropped - own);
	if (own)
		append(line, ", %" PRIu64 " of perf-agent itself", own);
	if (st.dropped)
		append(line, ")");
	append_shares(line, s, PFA_KIND_ONCPU, shares, sizeof(shares) / sizeof(shares[0]), st.kept);
	/* With few samples it is chance; a note reports a difference that is not. */
	if (st.seen >= COVERED_SAMPLES_MIN)
		append_shares(line, s, PFA_KIND_ONCPU, &covered, 1, st.seen);
	append_cost(line, s, PFA_KIND_ONCPU, &st);
	cli_say_plain("%s", line);
}

void cli_report_site_quality(const struct pfa_session *s, bool cost)
{
	static const struct share shares[] = {STACK_SHARES,
	                                      {"lost_stacks_pct", "lost stacks", false}};
	static const struct share numbers[] = {{"threads_blocked_at_start",
	                                        "of threads that were off-CPU at the start", false},
	                                       {"intervals_open_at_end", "open at the end", false}};
	struct pfa_stats st = {.size = sizeof(st)};
	char line[QUALITY_LINE_MAX] = "", time[32];
	int rc;

	rc = pfa_stats(s, &st);
	if (rc < 0) {
		cli_say_plain("off-CPU quality: unknown: %s", cli_error(-rc));
		return;
	}
	print_incomplete(s, PFA_KIND_OFFCPU, st.offcpu_kept);
	print_heuristic(s, PFA_KIND_OFFCPU, st.offcpu_kept);
	cli_format_duration(st.offcpu_ns, time, sizeof(time));
	append(line, "off-CPU quality: %" PRIu64 " interval%s", st.offcpu_seen,
	       cli_plural(st.offcpu_seen));
	if (st.offcpu_dropped)
		append(line, " (%" PRIu64 " kept, %" PRIu64 " dropped)", st.offcpu_kept,
		       st.offcpu_dropped);
	if (st.offcpu_ns)
		append(line, ", %s", time);
	for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++) {
		const char *v = quality_value(s, PFA_KIND_OFFCPU, numbers[i].key);

		if (v && strcmp(v, "0") != 0)
			append(line, ", %.24s %s", v, numbers[i].after);
	}
	append_shares(line, s, PFA_KIND_OFFCPU, shares, sizeof(shares) / sizeof(shares[0]),
	              st.offcpu_kept);
	if (cost)
		append_cost(line, s, PFA_KIND_OFFCPU, &st);
	cli_say_plain("%s", line);
}
