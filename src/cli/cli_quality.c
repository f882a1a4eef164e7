/* SPDX-License-Identifier: Apache-2.0 */
/* cli_quality.c - what a profile can be trusted for: a verdict, and each defect with its remedy */
#include "cli_priv.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

enum {
	FEW_SAMPLES = 100, /* shares are beyond ± 10 % */
	FEWEST_SAMPLES = 20,
	FILES_MAX = 1024,
	HEURISTIC_NAMED = 20, /* percent */
};

/* Shares, in percent, from which on a defect is named, lessens the verdict, and spoils it. */
struct limits {
	double named, fair, poor;
};
static const struct limits LOST = {0, 0.5, 5}, STACKS = {1, 5, 20}, NAMES = {2, 5, 20};

static double percent(uint64_t part, uint64_t whole)
{
	return whole ? 100.0 * (double)part / (double)whole : 0.0;
}

static enum cli_verdict level_of(double pct, struct limits l)
{
	return pct >= l.poor ? CLI_POOR : pct >= l.fair ? CLI_FAIR : CLI_GOOD;
}

/* Adds a defect. @remedy: what to do; "": nothing. */
static void __attribute__((format(printf, 5, 6)))
add(struct cli_quality *q, const char *id, enum cli_verdict level, const char *remedy,
    const char *format, ...)
{
	struct cli_defect *d = &q->defects[q->n];
	va_list ap;

	if (q->n == CLI_DEFECTS_MAX)
		return; /* there is room for each kind of defect, and for some losses */
	q->n++;
	*d = (struct cli_defect){.id = id, .level = level};
	(void)snprintf(d->remedy, sizeof(d->remedy), "%s", remedy);
	va_start(ap, format);
	(void)vsnprintf(d->text, sizeof(d->text), format, ap);
	va_end(ap);
	q->verdict = level > q->verdict ? level : q->verdict;
}

/* ---- losses ---------------------------------------------------------------------------------- */

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

/* Adds each reason for which samples, or off-CPU intervals, were dropped. The help of a counter is
 * "samples dropped because …"; the line has the number instead. */
static void add_losses(struct cli_quality *q, const struct pfa_session *s)
{
	static const char dropped[] = " dropped because ";
	const bool off = q->kind == PFA_KIND_OFFCPU;
	const char *prefix = off ? "offcpu_dropped_" : "dropped_",
	           *unit = off ? "interval" : "sample";
	struct pfa_counter c;

	for (size_t i = 0; pfa_counter(s, i, &c) == 0; i++) {
		const char *why = strstr(c.help, dropped);

		if (!c.value || strncmp(c.name, prefix, strlen(prefix)) != 0 ||
		    strncmp(c.unit, unit, strlen(unit)) != 0 || !strcmp(c.name, own_counter))
			continue;
		add(q, "dropped", level_of(percent(c.value, q->samples + q->lost), LOST), "",
		    "dropped %" PRIu64 " %s%s%s%s", c.value, unit, cli_plural(c.value),
		    why ? " because " : ": ", why ? why + strlen(dropped) : c.help);
	}
}

static void add_lost_stacks(struct cli_quality *q, const struct pfa_session *s)
{
	double pct = cli_statistic_number(s, q->kind, "lost_stacks_pct", 0);
	char text[CLI_PCT_MAX];

	if (!(pct > 0))
		return;
	cli_format_pct(pct, q->samples, text);
	add(q, "lost_stacks", level_of(pct, LOST),
	    q->kind == PFA_KIND_OFFCPU ? "give --offcpu-min 100us" : "lower --sample-rate",
	    "%s %% of the time lost its stack ([stack lost])", text);
}

static void add_few(struct cli_quality *q)
{
	uint64_t pct = 1;

	if (q->kind == PFA_KIND_OFFCPU || q->samples >= FEW_SAMPLES)
		return;
	/* The 95 % interval of a share of one half: 98 / √n, rounded. */
	while (pct < 50 && (2 * pct + 1) * (2 * pct + 1) * q->samples < 4ull * 98 * 98)
		pct++;
	add(q, "few_samples", q->samples < FEWEST_SAMPLES ? CLI_POOR : CLI_FAIR,
	    "capture for longer, or raise --sample-rate",
	    "%" PRIu64 " sample%s: shares are ± %" PRIu64 " %%", q->samples, cli_plural(q->samples),
	    pct);
}

/* ---- stacks ---------------------------------------------------------------------------------- */

static void add_incomplete(struct cli_quality *q, const struct pfa_session *s,
                           const struct cli_options *o)
{
	double pct = 100 - cli_statistic_number(s, q->kind, "complete_stacks_pct", 100);
	char share[CLI_PCT_MAX], reasons[512], files[FILES_MAX];
	bool fp = o->unwind == PFA_UNWIND_FP, why, where;

	if (pct < STACKS.named)
		return;
	cli_format_pct(pct, q->samples, share);
	why = cli_statistic_reasons(s, q->kind, q->samples, reasons, sizeof(reasons));
	where = cli_statistic_files(s, q->kind, "incomplete_in", q->samples, files, sizeof(files));
	/* With frame pointers alone most stacks end below main. */
	add(q, "incomplete_stacks", fp ? CLI_FAIR : level_of(pct, STACKS),
	    fp ? "leave out --unwind fp" : "docs/troubleshooting.md#incomplete-stacks",
	    "%s %% of the user stacks are incomplete%s%s%s%s%s", share, why ? " (" : "",
	    why ? reasons : "", why ? ")" : "", where ? "; they end in " : "", where ? files : "");
}

static void add_stacks(struct cli_quality *q, const struct pfa_session *s)
{
	double cut = cli_statistic_number(s, q->kind, "cut_stacks_pct", 0),
	       heuristic = cli_statistic_number(s, q->kind, "heuristic_stacks_pct", 0),
	       foreign = cli_statistic_number(s, q->kind, "walk_other_pid_namespace_pct", 0);
	char share[CLI_PCT_MAX], files[FILES_MAX];

	if (foreign >= STACKS.named) {
		cli_format_pct(foreign, q->samples, share);
		add(q, "other_pid_namespace", level_of(foreign, STACKS),
		    "run the container with --pid host (Kubernetes: hostPID: true)",
		    "%s %% of the stacks are of processes outside this pid namespace", share);
	}
	if (cut >= STACKS.named) {
		cli_format_pct(cut, q->samples, share);
		add(q, "truncated_stacks", level_of(cut, STACKS), "",
		    "%s %% of the stacks are deeper than the limit: callers are missing, at "
		    "[truncated]",
		    share);
	}
	/* They are right as a rule. */
	if (heuristic >= HEURISTIC_NAMED) {
		cli_format_pct(heuristic, q->samples, share);
		(void)cli_statistic_files(s, q->kind, "heuristic_in", q->samples, files,
		                          sizeof(files));
		add(q, "heuristic_stacks", CLI_GOOD, "docs/unwinding.md",
		    "%s %% of the stacks have callers that were found heuristically%s%s", share,
		    *files ? ", in " : "", files);
	}
}

/* ---- names ----------------------------------------------------------------------------------- */

/* Run times whose code is among the functions of the profile. */
struct runtimes {
	bool java, node, dotnet;
	double evaluator_pct; /* time in Python's evaluator and below */
	bool python_named;    /* functions of Python have names */
};

static void read_runtimes(const struct pfa_session *s, uint32_t kind, struct runtimes *ret)
{
	struct pfa_function *f = calloc(CLI_FUNCTIONS_MAX, sizeof(*f));
	struct pfa_stats st = {.size = sizeof(st)};
	int n = f && pfa_stats(s, &st) == 0 ? pfa_top_of(s, kind, f, CLI_FUNCTIONS_MAX) : 0;
	uint64_t whole = kind == PFA_KIND_OFFCPU ? st.offcpu_ns : st.weight;

	for (int i = 0; i < n; i++) {
		const char *module = cli_base_name(f[i].module);

		ret->java |= !strcmp(module, "libjvm.so");
		ret->node |= !strcmp(module, "node") || !strncmp(module, "libnode.so", 10);
		ret->dotnet |= !strcmp(module, "libcoreclr.so");
		ret->python_named |= !strncmp(f[i].name, "py::", 4);
		if (!strcmp(f[i].name, "_PyEval_EvalFrameDefault"))
			ret->evaluator_pct = percent(f[i].cum, whole);
	}
	free(f);
}

static const char *jit_remedy(const struct runtimes *r, const struct cli_options *o, char *text,
                              size_t size)
{
	if (r->java && o->pids.n == 1)
		(void)snprintf(text, size,
		               "run jcmd %d Compiler.perfmap during the capture (docs/jit.md)",
		               (int)o->pids.v[0]);
	else if (r->java)
		(void)snprintf(text, size,
		               "run jcmd PID Compiler.perfmap during the capture "
		               "(docs/jit.md)");
	else
		(void)snprintf(text, size, "%s",
		               r->node     ? "start node with --perf-basic-prof (docs/jit.md)"
		               : r->dotnet ? "set DOTNET_PerfMapEnabled=1 (docs/jit.md)"
		                           : "have the run time write a perf map (docs/jit.md)");
	return text;
}

/* Sums up code without names: JIT code; files without symbols, which are listed; the rest. */
struct unnamed {
	double jit, symbols, other;
	char files[FILES_MAX], others[FILES_MAX];
};

static void list(char files[FILES_MAX], const struct cli_share *f, uint64_t samples)
{
	size_t n = strlen(files);
	char pct[CLI_PCT_MAX];

	if (n && f->pct < CLI_SHARE_SHOWN)
		return;
	cli_format_pct(f->pct, samples, pct);
	(void)snprintf(files + n, FILES_MAX - n, "%s%.*s %s %%", n ? ", " : "", f->len, f->name,
	               pct);
}

static void read_unnamed(const struct cli_quality *q, const struct pfa_session *s,
                         struct unnamed *ret)
{
	static const char *const reasons[] = {" (no symbol table)",
	                                      " (no symbol covers the address)"};
	struct cli_share f;

	for (size_t at = 0; cli_statistic_next(s, q->kind, "unnamed_in", &at, &f);) {
		bool symbols = false;

		if (!strncmp(f.name, "[jit] ", 6)) {
			ret->jit += f.pct;
			continue;
		}
		for (size_t i = 0; i < sizeof(reasons) / sizeof(reasons[0]) && !symbols; i++) {
			int len = (int)strlen(reasons[i]);

			symbols = f.len > len &&
			          !strncmp(f.name + f.len - len, reasons[i], (size_t)len);
			f.len -= symbols ? len : 0;
		}
		*(symbols ? &ret->symbols : &ret->other) += f.pct;
		list(symbols ? ret->files : ret->others, &f, q->samples);
	}
}

static void add_unnamed(struct cli_quality *q, const struct pfa_session *s,
                        const struct cli_options *o, const struct runtimes *r)
{
	struct unnamed *u = calloc(1, sizeof(*u));
	char share[CLI_PCT_MAX], remedy[sizeof(q->defects[0].remedy)];

	if (!u)
		return; /* the verdict lacks it */
	read_unnamed(q, s, u);
	cli_format_pct(u->jit, q->samples, share);
	if (u->jit >= NAMES.named)
		add(q, "jit_without_names", level_of(u->jit, NAMES),
		    jit_remedy(r, o, remedy, sizeof(remedy)),
		    "%s %% of the time is JIT code without names", share);
	cli_format_pct(u->symbols, q->samples, share);
	if (u->symbols >= NAMES.named)
		add(q, "no_symbols", level_of(u->symbols, NAMES),
		    "install their debug symbols (Debian: packages named -dbgsym), or give "
		    "--debug-dir",
		    "%s %% of the time is code of files without symbols (%s)", share, u->files);
	cli_format_pct(u->other, q->samples, share);
	if (u->other >= NAMES.named)
		add(q, "no_names", level_of(u->other, NAMES),
		    "docs/troubleshooting.md#frames-without-a-name",
		    "%s %% of the time is code without names: %s", share, u->others);
	free(u);
}

static void add_runtimes(struct cli_quality *q, const struct pfa_session *s,
                         const struct runtimes *r)
{
	char share[CLI_PCT_MAX];
	struct cli_share f;

	for (size_t at = 0; r->java && cli_statistic_next(s, q->kind, "incomplete_in", &at, &f);) {
		if (strncmp(f.name, "[jit]", 5) != 0 || f.pct < STACKS.named)
			continue;
		cli_format_pct(f.pct, q->samples, share);
		add(q, "jit_without_frame_pointers", level_of(f.pct, STACKS),
		    "start java with -XX:+PreserveFramePointer (docs/jit.md)",
		    "%s %% of the stacks end in JIT code", share);
	}
	if (r->evaluator_pct >= NAMES.fair && !r->python_named) {
		cli_format_pct(r->evaluator_pct, q->samples, share);
		add(q, "python_without_names", level_of(r->evaluator_pct, NAMES),
		    "start python3 with -X perf (3.12 and later; docs/jit.md)",
		    "%s %% of the time is Python code without names", share);
	}
}

/* ---- all of it ------------------------------------------------------------------------------- */

/* Reads the numbers of the verdict. Returns 0 or a negative errno. */
static int read_numbers(struct cli_quality *q, const struct pfa_session *s)
{
	struct pfa_stats st = {.size = sizeof(st)};
	uint64_t own = cli_own_samples(s);
	int rc = pfa_stats(s, &st);

	if (rc < 0)
		return rc;
	if (q->kind == PFA_KIND_OFFCPU) {
		q->samples = st.offcpu_kept;
		q->lost = st.offcpu_dropped;
		q->offcpu_ns = st.offcpu_ns;
	} else {
		q->samples = st.kept;
		/* The two were read at different times. */
		q->lost = st.dropped > own ? st.dropped - own : 0;
		q->idle_pct = cli_statistic_number(s, q->kind, "idle_pct", 0);
	}
	q->overhead_pct = cli_statistic_number(s, q->kind, "agent_cpu_pct",
	                                       percent(st.agent_cpu_ns, st.elapsed_ns));
	return 0;
}

static void add_children(struct cli_quality *q, const struct cli_facts *facts)
{
	char ended[96] = "";

	if (facts->ended_children_pct)
		(void)snprintf(ended, sizeof(ended),
		               facts->busy_children
		                       ? ", nor those that have ended (%u %% of a CPU)"
		                       : "children that have ended used %u %% of a CPU "
		                         "and are not profiled",
		               facts->ended_children_pct);
	if (facts->busy_children)
		add(q, "busy_children", CLI_FAIR, "add --follow-children",
		    "%u busy %s not profiled%s", facts->busy_children,
		    facts->busy_children == 1 ? "child is" : "children are", ended);
	else if (*ended)
		add(q, "busy_children", CLI_FAIR, "add --follow-children", "%s", ended);
}

int cli_quality_new(const struct pfa_session *s, const struct cli_options *o, uint32_t kind,
                    const struct cli_facts *facts, struct cli_quality **ret)
{
	struct cli_quality *q = calloc(1, sizeof(*q));
	struct runtimes runtimes = {0};
	int rc;

	if (!q)
		return -ENOMEM;
	q->kind = kind;
	rc = read_numbers(q, s);
	if (rc < 0) {
		free(q);
		return rc;
	}
	*ret = q;
	add_losses(q, s);
	if (kind == PFA_KIND_ONCPU)
		add_children(q, facts);
	if (!q->samples) {
		q->verdict = q->lost ? CLI_POOR : CLI_NOTHING;
		return 0;
	}
	read_runtimes(s, kind, &runtimes);
	add_few(q);
	add_lost_stacks(q, s);
	add_unnamed(q, s, o, &runtimes);
	add_runtimes(q, s, &runtimes);
	add_incomplete(q, s, o);
	add_stacks(q, s);
	return 0;
}
