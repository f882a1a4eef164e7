/* SPDX-License-Identifier: Apache-2.0 */
/* cli_report.c - what stands on standard error at the end of a capture */
#include "cli_priv.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
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
	QUALITY_LINE_MAX = 1024,
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
	const char *module = *r->f.module ? cli_base_name(r->f.module) : "unknown";
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
	char name[CLI_NAME_BYTES_MAX], module[CLI_NAME_BYTES_MAX], self[32], cum[32];

	if (width > WIDTH_MAX)
		width = WIDTH_MAX;
	for (size_t i = 0; i < n; i++) {
		module_width = max_columns(module_width, cli_base_name(rows[i].f.module));
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

		cli_fit(f->name, name_width, name);
		cli_fit(cli_base_name(f->module), module_width, module);
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

/* The functions of the profile with most weight: how many rows were printed, or a negative errno.
 */
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

/* Each reason for which samples, or waits, were lost. */
static void print_losses(const struct pfa_session *s, const char *prefix, const char *unit)
{
	struct pfa_counter c;

	for (size_t i = 0; pfa_counter(s, i, &c) == 0; i++) {
		if (c.value && !strncmp(c.name, prefix, strlen(prefix)) && !strcmp(c.unit, unit) &&
		    strcmp(c.name, own_counter) != 0)
			cli_say("dropped %" PRIu64 " %.*s%s: %s", c.value, (int)strlen(unit) - 1,
			        unit, cli_plural(c.value), c.help);
	}
}

static bool is_filtered(const struct cli_options *o)
{
	return o->comms[0] || o->cgroups[0] || o->tids.n;
}

/* The value of @key among the quality figures, or NULL. */
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

/* Why nothing was there to sample, as far as it is known. */
static void say_nothing_seen(const struct pfa_session *s, const struct cli_options *o,
                             uint64_t elapsed_ns)
{
	const char *cpu_time_ms = quality_value(s, PFA_KIND_ONCPU, "cpu_time_ms");
	uint64_t period_ns = 1000000000 / o->sample_rate_hz;
	char elapsed[32], period[32];

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
	} else if (is_filtered(o)) {
		cli_say("no samples: nothing that --tid, --comm and --cgroup let through used the "
		        "CPU in that time");
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
	bool own = false;
	int n;

	for (size_t k = 0; k < o->pids.n; k++)
		own |= o->pids.v[k] == getpid();
	if (pfa_stats(s, &st) < 0)
		return; /* the quality line says so */
	n = report_top(s, st.weight, unit ? unit : "");
	if (n < 0)
		cli_say("no table of functions: %s", strerrorname_np(-n));
	else if (n == 0 && (own || (st.seen && cli_own_samples(s) == st.seen)))
		cli_say("no samples: only perf-agent itself was there to sample, and it leaves "
		        "itself out");
	else if (n == 0 && !st.seen)
		say_nothing_seen(s, o, st.elapsed_ns);
	else if (n == 0)
		cli_say("no samples: all %" PRIu64 " were dropped", st.seen);
	print_losses(s, "dropped_", "samples");
}

void cli_report_waits(const struct pfa_session *s, const struct cli_options *o)
{
	struct pfa_stats st = {.size = sizeof(st)};
	int n;

	if (pfa_stats(s, &st) < 0)
		return; /* the quality line says so */
	n = cli_report_wait_table(s, st.offcpu_ns);
	if (n < 0)
		cli_say("no table of wait functions: %s", strerrorname_np(-n));
	else if (n == 0 && !st.offcpu_seen && is_filtered(o))
		cli_say("no waits: nothing that --tid, --comm and --cgroup let through waited, in "
		        "the states and for the times that are asked for");
	else if (n == 0 && !st.offcpu_seen)
		cli_say("no waits were seen in the states and for the times that are asked for");
	else if (n == 0)
		cli_say("no waits: all %" PRIu64 " were dropped", st.offcpu_seen);
	print_losses(s, "offcpu_dropped_", "intervals");
}

/* The files of a key of which there are several lines: "NAME SHARE" each. False: none. */
static bool files_of(const struct pfa_session *s, uint32_t kind, const char *key, char *text,
                     size_t size)
{
	const char *line;
	size_t n = 0;

	text[0] = '\0';
	for (size_t i = 0; (line = pfa_quality_of(s, kind, i)) && n < size; i++) {
		const char *name = line + strlen(key), *share = strrchr(line, ' ');

		if (strncmp(line, key, strlen(key)) != 0 || !share || share <= name ||
		    strcmp(share, " 0.00") == 0)
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
static bool reasons_of(const struct pfa_session *s, uint32_t kind, char *text, size_t size)
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
			if (*p == '_') /* "32-bit task" is the one name with a hyphen */
				*p = strncmp(p, "_bit_", 5) == 0 ? '-' : ' ';
	}
	return n > 0;
}

/* Shares are of all user stacks, as that of the complete ones is. */
static void print_incomplete(const struct pfa_session *s, uint32_t kind)
{
	char reasons[512], files[1024];
	bool why = reasons_of(s, kind, reasons, sizeof(reasons));
	bool where = files_of(s, kind, "incomplete_in: ", files, sizeof(files));

	if (why && where)
		cli_say("incomplete stacks, of all user stacks: %s; they end in: %s", reasons,
		        files);
	else if (why)
		cli_say("incomplete stacks, of all user stacks: %s", reasons);
	else if (where)
		cli_say("incomplete stacks end in: %s", files);
}

static void print_guessed(const struct pfa_session *s, uint32_t kind)
{
	char files[1024];

	if (files_of(s, kind, "heuristic_in: ", files, sizeof(files)))
		cli_say("callers were guessed in: %s", files);
}

/* Appends to a quality line: 1 KiB holds all figures with their longest values. */
static void __attribute__((format(printf, 2, 3)))
append(char line[QUALITY_LINE_MAX], const char *format, ...)
{
	size_t len = strlen(line);
	va_list ap;

	va_start(ap, format);
	(void)vsnprintf(line + len, QUALITY_LINE_MAX - len, format, ap);
	va_end(ap);
}

struct figure {
	const char *key, *after;
};

/* Those of the figures that there are, in percent. */
static void append_shares(char line[QUALITY_LINE_MAX], const struct pfa_session *s, uint32_t kind,
                          const struct figure *figures, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		const char *v = quality_value(s, kind, figures[i].key);

		if (v)
			append(line, ", %.24s%s %s", v, strchr(v, '%') ? "" : " %",
			       figures[i].after);
	}
}

/* What perf-agent itself took. */
static void append_cost(char line[QUALITY_LINE_MAX], const struct pfa_session *s, uint32_t kind,
                        const struct pfa_stats *st)
{
	const char *v = quality_value(s, kind, "agent_cpu_pct");

	if (v)
		append(line, ", agent %.24s%s CPU", v, strchr(v, '%') ? "" : " %");
	else
		append(line, ", agent %.1f %% CPU", percent(st->agent_cpu_ns, st->elapsed_ns));
	v = quality_value(s, kind, "agent_setup_cpu_ms");
	if (v)
		append(line, " (+ %.24s ms to start)", v);
}

#define STACK_FIGURES                                                                              \
	{"complete_stacks_pct", "complete stacks"}, {"heuristic_stacks_pct", "guessed stacks"},    \
	        {"cut_stacks_pct", "cut stacks"}, {"named_user_pct", "of user frames named"},      \
	{                                                                                          \
		"named_kernel_pct", "of kernel frames named"                                       \
	}

#define COVERED_SAMPLES_MIN 50

void cli_report_quality(const struct pfa_session *s)
{
	static const struct figure figures[] = {
	        STACK_FIGURES, {"idle_pct", "idle"}, {"lost_stacks_pct", "lost stacks"}};
	static const struct figure covered = {"cpu_time_covered_pct", "of CPU time covered"};
	struct pfa_stats st = {.size = sizeof(st)};
	char line[QUALITY_LINE_MAX] = "";
	uint64_t own = cli_own_samples(s);
	int rc;

	rc = pfa_stats(s, &st);
	if (rc < 0) {
		cli_say_plain("quality: unknown: %s", strerrorname_np(-rc));
		return;
	}
	if (own > st.dropped)
		own = st.dropped; /* the two were read at different times */
	print_incomplete(s, PFA_KIND_ONCPU);
	print_guessed(s, PFA_KIND_ONCPU);
	append(line, "quality: %" PRIu64 " sample%s (%" PRIu64 " kept, %" PRIu64 " dropped",
	       st.seen, cli_plural(st.seen), st.kept, st.dropped - own);
	if (own)
		append(line, ", %" PRIu64 " of perf-agent itself", own);
	append(line, ")");
	append_shares(line, s, PFA_KIND_ONCPU, figures, sizeof(figures) / sizeof(figures[0]));
	/* Of few samples it is chance, and a note says where it is more. */
	if (st.seen >= COVERED_SAMPLES_MIN)
		append_shares(line, s, PFA_KIND_ONCPU, &covered, 1);
	append_cost(line, s, PFA_KIND_ONCPU, &st);
	cli_say_plain("%s", line);
}

void cli_report_wait_quality(const struct pfa_session *s, bool cost)
{
	static const struct figure figures[] = {STACK_FIGURES, {"lost_stacks_pct", "lost stacks"}};
	static const struct figure numbers[] = {{"threads_blocked_at_start",
	                                         "of threads that waited at the start"},
	                                        {"intervals_open_at_end", "not over at the end"}};
	struct pfa_stats st = {.size = sizeof(st)};
	char line[QUALITY_LINE_MAX] = "", time[32];
	int rc;

	rc = pfa_stats(s, &st);
	if (rc < 0) {
		cli_say_plain("off-CPU quality: unknown: %s", strerrorname_np(-rc));
		return;
	}
	print_incomplete(s, PFA_KIND_OFFCPU);
	print_guessed(s, PFA_KIND_OFFCPU);
	cli_format_duration(st.offcpu_ns, time, sizeof(time));
	append(line,
	       "off-CPU quality: %" PRIu64 " wait%s (%" PRIu64 " kept, %" PRIu64 " dropped), %s",
	       st.offcpu_seen, cli_plural(st.offcpu_seen), st.offcpu_kept, st.offcpu_dropped, time);
	for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++) {
		const char *v = quality_value(s, PFA_KIND_OFFCPU, numbers[i].key);

		if (v && strcmp(v, "0") != 0)
			append(line, ", %.24s %s", v, numbers[i].after);
	}
	append_shares(line, s, PFA_KIND_OFFCPU, figures, sizeof(figures) / sizeof(figures[0]));
	if (cost)
		append_cost(line, s, PFA_KIND_OFFCPU, &st);
	cli_say_plain("%s", line);
}
