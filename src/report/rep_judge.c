/* SPDX-License-Identifier: Apache-2.0 */
/* The verdict of a profile: defects, each with its level and its remedy. docs/output.md has the
 * limits. */
#include <inttypes.h>
#include <stdio.h>

#include "report/rep_priv.h"
#include "tally/tally.h"

#define TEXT_BYTES_MAX  ((size_t)1 << 20)
#define DEFECTS_MAX     64
#define FEW_SAMPLES     100 /* shares are beyond ± 10 % */
#define FEWEST_SAMPLES  20
#define HEURISTIC_NAMED 20.0 /* percent */

/* Shares, in percent, from which on a defect is named, lessens the verdict, and spoils it. */
struct limits {
	double named, fair, poor;
};
static const struct limits LOST = {0, 0.5, 5}, STACKS = {1, 5, 20}, NAMES = {2, 5, 20};

static enum rep_level level_of(double pct, struct limits l)
{
	return pct >= l.poor ? REP_POOR : pct >= l.fair ? REP_FAIR : REP_GOOD;
}

const char *rep_level_name(enum rep_level level)
{
	static const char *const names[] = {[REP_GOOD] = "good",
	                                    [REP_FAIR] = "fair",
	                                    [REP_POOR] = "poor",
	                                    [REP_NOTHING] = "none"};

	return names[level];
}

void rep_judgement_done(struct rep_judgement *j)
{
	vec_each (d, &j->defects) {
		free(d->text);
		free(d->remedy);
	}
	vec_done(&j->defects);
}

struct judge {
	const struct rep_evidence *e;
	struct rep_items items;
	struct rep_judgement ret;
	struct sbuf text; /* of the next defect */
	int error;
};

/* Adds the defect whose text is in j->text. @remedy: what to do; "": nothing. */
static void add(struct judge *j, const char *id, enum rep_level level, const char *remedy)
{
	struct rep_defect d = {.id = id, .level = level};
	const bool fits = j->text.err != -E2BIG && j->ret.defects.n < DEFECTS_MAX;

	if (level > j->ret.level)
		j->ret.level = level;
	/* Only the lines of untrusted files are so many, or so long: their defects are left out. */
	d.text = fits ? sbuf_take(&j->text) : NULL;
	d.remedy = fits ? strdup(remedy) : NULL;
	if (fits && !j->error)
		j->error = d.text && d.remedy ? vec_push(&j->ret.defects, d) : -ENOMEM;
	if (!fits || j->error) {
		free(d.text);
		free(d.remedy);
	}
	sbuf_reset(&j->text);
}

static void put_pct(struct judge *j, double pct, const char *after)
{
	rep_put_pct(&j->text, pct, j->e->samples);
	(void)sbuf_str(&j->text, after); /* failures stick in .err */
}

/* ---- losses ---------------------------------------------------------------------------------- */

/* Adds a reason for which samples, or off-CPU intervals, were dropped. The help of a counter is
 * "samples dropped because …"; the line has the number instead. @line: "dropped_counts_full: 4" */
static void add_loss(struct judge *j, const char *line)
{
	static const char dropped[] = " dropped because ";
	const char *colon = strchr(line, ':'), *help, *why;
	char name[64];
	uint64_t n;

	if (!colon || colon[1] != ' ' || parse_u64(colon + 2, 10, &n) < 0 || n == 0)
		return;
	(void)snprintf(name, sizeof(name), "%s%.*s", j->e->offcpu ? "offcpu_" : "",
	               (int)(colon - line), line);
	if (!strcmp(name, "dropped_agent"))
		return;
	help = tally_help(name);
	why = help ? strstr(help, dropped) : NULL;
	(void)sbuf_addf(&j->text, "dropped %" PRIu64 " %s%s%s%s", n,
	                j->e->offcpu ? "interval" : "sample", n == 1 ? "" : "s",
	                why ? " because " : ": ", why ? why + strlen(dropped) : name);
	add(j, "dropped",
	    level_of(100.0 * (double)n / ((double)j->e->samples + (double)j->e->lost), LOST), "");
}

static void add_losses(struct judge *j)
{
	for (size_t i = 0; i < j->items.n; i++)
		if (str_starts(j->items.p[i], "dropped_"))
			add_loss(j, j->items.p[i]);
}

static void add_lost_stacks(struct judge *j)
{
	const double pct = rep_item_number(&j->items, "lost_stacks_pct", 0);

	if (!(pct > 0))
		return;
	put_pct(j, pct, " % of the time lost its stack ([stack lost])");
	add(j, "lost_stacks", level_of(pct, LOST),
	    j->e->offcpu ? "give --offcpu-min 100us" : "lower --sample-rate");
}

static void add_few(struct judge *j)
{
	const int64_t n = j->e->samples;
	int64_t pct = 1;

	if (j->e->offcpu || n >= FEW_SAMPLES)
		return;
	/* The 95 % interval of a share of one half: 98 / √n, rounded. */
	while (pct < 50 && (2 * pct + 1) * (2 * pct + 1) * n < 4 * 98 * 98)
		pct++;
	(void)sbuf_addf(&j->text, "%" PRId64 " sample%s: shares are about \xc2\xb1 %" PRId64 " %%",
	                n, n == 1 ? "" : "s", pct);
	add(j, "few_samples", n < FEWEST_SAMPLES ? REP_POOR : REP_FAIR,
	    "capture for longer, or raise --sample-rate");
}

/* Children of the target that used the CPU and were not profiled. */
static void add_children(struct judge *j)
{
	const double busy = rep_item_number(&j->items, "busy_children", 0),
	             ended = rep_item_number(&j->items, "ended_children_cpu_pct", 0);

	if (busy > 0)
		(void)sbuf_addf(&j->text, "%.0f busy %s not profiled", busy,
		                busy < 2 ? "child is" : "children are");
	if (busy > 0 && ended > 0)
		(void)sbuf_addf(&j->text, ", nor those that have ended (%.0f %% of a CPU)", ended);
	else if (ended > 0)
		(void)sbuf_addf(&j->text,
		                "children that have ended used %.0f %% of a CPU and are not "
		                "profiled",
		                ended);
	if (busy > 0 || ended > 0)
		add(j, "busy_children", REP_FAIR, "add --follow-children");
}

/* ---- stacks ---------------------------------------------------------------------------------- */

static void add_incomplete(struct judge *j)
{
	const double pct = 100 - rep_item_number(&j->items, "complete_stacks_pct", 100);
	const char *unwind = rep_item(&j->items, "unwind");
	const bool fp = unwind && !strcmp(unwind, "fp");
	_cleanup_(sbuf_done) struct sbuf reasons, files;

	sbuf_init(&reasons, TEXT_BYTES_MAX);
	sbuf_init(&files, TEXT_BYTES_MAX);
	if (pct < STACKS.named)
		return;
	rep_put_reasons(&reasons, &j->items, j->e->samples);
	rep_put_files(&files, &j->items, "incomplete_in", j->e->samples);
	put_pct(j, pct, " % of the user stacks are incomplete");
	if (reasons.len)
		(void)sbuf_addf(&j->text, " (%s)", reasons.p);
	if (files.len)
		(void)sbuf_addf(&j->text, "; they end in %s", files.p);
	/* With frame pointers alone most stacks end below main. */
	add(j, "incomplete_stacks", fp ? REP_FAIR : level_of(pct, STACKS),
	    fp ? "leave out --unwind fp" : "docs/troubleshooting.md#incomplete-stacks");
}

static void add_stacks(struct judge *j)
{
	const double cut = rep_item_number(&j->items, "cut_stacks_pct", 0),
	             heuristic = rep_item_number(&j->items, "heuristic_stacks_pct", 0),
	             foreign = rep_item_number(&j->items, "walk_other_pid_namespace_pct", 0);
	_cleanup_(sbuf_done) struct sbuf files;

	sbuf_init(&files, TEXT_BYTES_MAX);
	if (foreign >= STACKS.named) {
		put_pct(j, foreign, " % of the stacks are of processes outside this pid namespace");
		add(j, "other_pid_namespace", level_of(foreign, STACKS),
		    "run the container with --pid host (Kubernetes: hostPID: true)");
	}
	if (cut >= STACKS.named) {
		put_pct(j, cut,
		        " % of the stacks are deeper than the limit: callers are missing, at "
		        "[truncated]");
		add(j, "truncated_stacks", level_of(cut, STACKS), "");
	}
	/* They are right as a rule. */
	if (heuristic < HEURISTIC_NAMED)
		return;
	rep_put_files(&files, &j->items, "heuristic_in", j->e->samples);
	put_pct(j, heuristic, " % of the stacks have callers that were found heuristically");
	if (files.len)
		(void)sbuf_addf(&j->text, ", in %s", files.p);
	add(j, "heuristic_stacks", REP_GOOD, "docs/unwinding.md");
}

/* ---- names ----------------------------------------------------------------------------------- */

#define PYTHON_PERF_MINOR 12 /* 3.12 is the first with -X perf */

/* Returns 11 of "python3.11" and "libpython3.11.so.1.0", 0 of other names. */
static uint32_t python_minor_of(const char *module)
{
	static const char word[] = "python3.";
	const char *p = strstr(module, word);
	uint32_t minor = 0;

	for (p = p ? p + strlen(word) : ""; *p >= '0' && *p <= '9' && minor < 100; p++)
		minor = 10 * minor + (uint32_t)(*p - '0');
	return minor;
}

void rep_runtimes_add(struct rep_runtimes *r, const char *path, const char *name, double cum_pct)
{
	const char *module = str_base_name(path);

	r->java |= !strcmp(module, "libjvm.so");
	r->node |= !strcmp(module, "node") || str_starts(module, "libnode.so");
	r->dotnet |= !strcmp(module, "libcoreclr.so");
	r->python_named |= str_starts(name, "py::");
	if (!strcmp(name, "_PyEval_EvalFrameDefault") && cum_pct > r->evaluator_pct) {
		r->evaluator_pct = cum_pct;
		r->python_minor = python_minor_of(module);
	}
}

int rep_runtimes_of(const struct prof_model *m, struct rep_runtimes *ret)
{
	_cleanup_(rep_fns_done) struct rep_fns all = {0};
	/* Samples or intervals, then the weight; a converted profile may have one of them. */
	int r = m->n_types ? rep_functions(m, m->n_types > 1, UINT32_MAX, &all) : 0;

	if (r < 0)
		return r;
	*ret = (struct rep_runtimes){0};
	for (size_t i = 0; i < all.n; i++)
		rep_runtimes_add(ret, prof_model_str(m, all.p[i].path),
		                 prof_model_str(m, all.p[i].name),
		                 all.whole ? 100 * (double)all.p[i].cum / (double)all.whole : 0);
	return 0;
}

/* @text: room for the remedy */
static const char *jit_remedy(const struct judge *j, char *text, size_t size)
{
	const struct rep_runtimes *r = &j->e->runtimes;
	const char *target = rep_item(&j->items, "target");

	if (!r->java)
		return r->node     ? "start node with --perf-basic-prof (docs/jit.md)"
		       : r->dotnet ? "set DOTNET_PerfMapEnabled=1 (docs/jit.md)"
		                   : "have the run time write a perf map (docs/jit.md)";
	/* "pid 7 (java)" */
	target = target && str_starts(target, "pid ") ? target + strlen("pid ") : "PID";
	(void)snprintf(text, size,
	               "run jcmd %.*s Compiler.perfmap during the capture (docs/jit.md)",
	               (int)strcspn(target, " "), target);
	return text;
}

/* @text: room for the remedy */
static const char *python_remedy(const struct rep_runtimes *r, char *text, size_t size)
{
	if (!r->python_minor || r->python_minor >= PYTHON_PERF_MINOR)
		return "start python3 with -X perf (3.12 and later; docs/jit.md)";
	(void)snprintf(text, size,
	               "Python 3.%" PRIu32
	               " has no -X perf: run the program with Python 3.12 or later "
	               "and -X perf (docs/jit.md)",
	               r->python_minor);
	return text;
}

/* Sums up code without names: JIT code; files without symbols, which are listed; the rest. */
struct unnamed {
	double jit, symbols, other;
	struct sbuf files, others;
};

static void read_unnamed(const struct judge *j, struct unnamed *u)
{
	static const char *const reasons[] = {" (no symbol table)",
	                                      " (no symbol covers the address)"};
	struct rep_part f;

	for (size_t at = 0; rep_item_part(&j->items, "unnamed_in", &at, &f);) {
		bool symbols = false;

		if (str_starts(f.name, "[jit] ")) {
			u->jit += f.pct;
			continue;
		}
		for (size_t i = 0; i < ARRAY_SIZE(reasons) && !symbols; i++) {
			const size_t len = strlen(reasons[i]);

			symbols = f.len > len && !strncmp(f.name + f.len - len, reasons[i], len);
			f.len -= symbols ? len : 0;
		}
		*(symbols ? &u->symbols : &u->other) += f.pct;
		rep_put_listed(symbols ? &u->files : &u->others, &f, j->e->samples);
	}
}

static void add_unnamed(struct judge *j)
{
	struct unnamed u = {0};
	char remedy[128];

	sbuf_init(&u.files, TEXT_BYTES_MAX / 2);
	sbuf_init(&u.others, TEXT_BYTES_MAX / 2);
	read_unnamed(j, &u);
	if (u.jit >= NAMES.named) {
		put_pct(j, u.jit, " % of the time is JIT code without names");
		add(j, "jit_without_names", level_of(u.jit, NAMES),
		    jit_remedy(j, remedy, sizeof(remedy)));
	}
	if (u.symbols >= NAMES.named) {
		put_pct(j, u.symbols, " % of the time is code of files without symbols");
		(void)sbuf_addf(&j->text, " (%s)", u.files.p ? u.files.p : "");
		add(j, "no_symbols", level_of(u.symbols, NAMES),
		    "install their debug symbols (Debian: packages named -dbgsym), or give "
		    "--debug-dir");
	}
	if (u.other >= NAMES.named) {
		put_pct(j, u.other, " % of the time is code without names");
		(void)sbuf_addf(&j->text, ": %s", u.others.p ? u.others.p : "");
		add(j, "no_names", level_of(u.other, NAMES),
		    "docs/troubleshooting.md#frames-without-a-name");
	}
	sbuf_done(&u.files);
	sbuf_done(&u.others);
}

static void add_runtimes(struct judge *j)
{
	const struct rep_runtimes *r = &j->e->runtimes;
	struct rep_part f;
	char remedy[128];

	for (size_t at = 0; r->java && rep_item_part(&j->items, "incomplete_in", &at, &f);) {
		if (!str_starts(f.name, "[jit]") || f.pct < STACKS.named)
			continue;
		put_pct(j, f.pct, " % of the stacks end in JIT code");
		add(j, "jit_without_frame_pointers", level_of(f.pct, STACKS),
		    "start java with -XX:+PreserveFramePointer (docs/jit.md)");
	}
	if (r->evaluator_pct >= NAMES.fair && !r->python_named) {
		put_pct(j, r->evaluator_pct, " % of the time is Python code without names");
		add(j, "python_without_names", level_of(r->evaluator_pct, NAMES),
		    python_remedy(r, remedy, sizeof(remedy)));
	}
}

/* ---- all of it ------------------------------------------------------------------------------- */

int rep_judge(const struct rep_evidence *e, struct rep_judgement *ret)
{
	struct judge j = {
	        .e = e, .items = {.p = e->lines, .n = e->n_lines}, .ret.defects.max = DEFECTS_MAX};

	sbuf_init(&j.text, TEXT_BYTES_MAX);
	add_losses(&j);
	if (!e->offcpu)
		add_children(&j);
	if (e->samples) {
		add_few(&j);
		add_lost_stacks(&j);
		add_unnamed(&j);
		add_runtimes(&j);
		add_incomplete(&j);
		add_stacks(&j);
	} else {
		j.ret.level = e->lost ? REP_POOR : REP_NOTHING;
	}
	sbuf_done(&j.text);
	if (j.error) {
		rep_judgement_done(&j.ret);
		return j.error;
	}
	*ret = j.ret;
	return 0;
}
