/* SPDX-License-Identifier: Apache-2.0 */
/* cli_functions.c - the tables of functions */
#include "cli_priv.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum {
	TOP_MAX = 10,
	OWN_MAX = 5,
	FOLDED_NAME_MAX = 128,
	CALLS_PCT = 10,      /* of its time a function is in what it calls */
	EVERYTHING_PCT = 99, /* main and the like */
	COMPLETE_PCT = 95,   /* of the complete stacks of its process: the same */
};

static double percent(uint64_t part, uint64_t whole)
{
	return whole ? 100.0 * (double)part / (double)whole : 0.0;
}

struct row {
	struct pfa_hot_function f; /* .self is the sum of all folded addresses */
	size_t n_unnamed;          /* addresses without a name */
	size_t rank;               /* in the order of the library */
	bool shown;                /* by print_self */
	char folded[FOLDED_NAME_MAX];
};

static bool is_unnamed(const struct pfa_hot_function *f)
{
	return !*f->name || !strncmp(f->name, "0x", 2);
}

static int compare_self(const void *a, const void *b)
{
	const struct row *x = a, *y = b;

	if (x->f.self != y->f.self)
		return (x->f.self < y->f.self) - (x->f.self > y->f.self);
	return (x->rank > y->rank) - (x->rank < y->rank);
}

static int compare_cum(const void *a, const void *b)
{
	const struct row *x = a, *y = b;

	if (x->f.cum != y->f.cum)
		return (x->f.cum < y->f.cum) - (x->f.cum > y->f.cum);
	return (x->rank > y->rank) - (x->rank < y->rank);
}

static struct row *find_unnamed(struct row *rows, size_t n, const struct pfa_hot_function *f)
{
	for (size_t i = 0; i < n; i++) {
		if (rows[i].n_unnamed && !strcmp(rows[i].f.module, f->module) &&
		    !strcmp(rows[i].f.process, f->process))
			return &rows[i];
	}
	return NULL;
}

static void name_folded(struct row *r)
{
	const char *module = *r->f.module ? cli_base_name(r->f.module) : "unknown";
	bool bracketed = *module == '[';

	(void)snprintf(r->folded, sizeof(r->folded), "%s%.64s%s (%zu unnamed)",
	               bracketed ? "" : "[", module, bracketed ? "" : "]", r->n_unnamed);
}

/* Makes one row of all unnamed addresses of a module. As many small rows they would hide a hot
 * spot. Returns the number of rows. */
static size_t fold(const struct pfa_hot_function *f, size_t n_functions, struct row *ret)
{
	size_t n = 0;

	for (size_t i = 0; i < n_functions; i++) {
		struct row *r = is_unnamed(&f[i]) ? find_unnamed(ret, n, &f[i]) : NULL;

		if (r) {
			r->f.self += f[i].self;
			r->n_unnamed++;
			continue;
		}
		ret[n] = (struct row){.f = f[i], .n_unnamed = is_unnamed(&f[i]), .rank = n};
		n++;
	}
	for (size_t i = 0; i < n; i++)
		if (ret[i].n_unnamed > 1 || !*ret[i].f.name)
			name_folded(&ret[i]);
	return n;
}

/* Prints the functions in which the time is. */
static int print_self(struct row *rows, size_t n, const struct pfa_stats *st, const char *unit)
{
	static const struct cli_column columns[] = {
	        {"self %", .right = true},
	        {"cum %", .right = true, .drop = 3},
	        {"self", .right = true, .drop = 1},
	        {"function", .min = 16},
	        {"process", .min = 8, .max = 15, .drop = 4},
	        {"module", .min = 8, .max = 24, .drop = 2},
	};
	struct cli_table *t;
	int rc = cli_table_new(columns, sizeof(columns) / sizeof(columns[0]), &t);

	if (rc < 0)
		return rc;
	qsort(rows, n, sizeof(*rows), compare_self);
	for (size_t i = 0; i < n && i < TOP_MAX && rows[i].f.self; i++) {
		const struct pfa_hot_function *f = &rows[i].f;
		char text[CLI_PCT_MAX], weight[32];

		rows[i].shown = true;
		cli_format_pct(percent(f->self, st->weight), st->kept, text);
		cli_table_add(t, 0, text);
		cli_format_pct(percent(f->cum, st->weight), st->kept, text);
		/* Several of them may be on one stack: their cumulative weights have no sum. */
		cli_table_add(t, 1, rows[i].n_unnamed > 1 ? "-" : text);
		cli_format_weight(f->self, unit, weight, sizeof(weight));
		cli_table_add(t, 2, weight);
		cli_table_add(t, 3, *rows[i].folded ? rows[i].folded : f->name);
		cli_table_add(t, 4, f->process);
		cli_table_add(t, 5, cli_base_name(f->module));
	}
	cli_table_print(t);
	free(t);
	return 0;
}

/* Whether a share of @n samples is at least two standard errors above zero: p >= 2 √(p (1 - p) / n). Below,
 * the row is there by chance: one sample of a start-up function. */
static bool is_significant(double pct, uint64_t n)
{
	const double p = pct / 100;

	return p * (double)n >= 4 * (1 - p);
}

/* Whether a row says more than those of print_self: a function that calls others, and not the one
 * below which everything is. */
static bool is_informative(const struct row *r, const struct pfa_stats *st)
{
	const double pct = percent(r->f.cum, st->weight);

	return r->f.own && !r->n_unnamed && percent(r->f.cum - r->f.self, r->f.cum) >= CALLS_PCT &&
	       pct < EVERYTHING_PCT && r->f.complete_pct < COMPLETE_PCT &&
	       is_significant(pct, st->kept);
}

/* Prints the functions of the program's own code, with what they call. */
static int print_own(struct row *rows, size_t n, const struct pfa_stats *st, const char *unit)
{
	static const struct cli_column columns[] = {
	        {"cum %", .right = true},
	        {"cum", .right = true, .drop = 1},
	        {"own code with what it calls", .min = 16},
	        {"process", .min = 8, .max = 15, .drop = 3},
	        {"module", .min = 8, .max = 24, .drop = 2},
	};
	struct cli_table *t;
	bool more = false;
	int rc = cli_table_new(columns, sizeof(columns) / sizeof(columns[0]), &t);

	if (rc < 0)
		return rc;
	qsort(rows, n, sizeof(*rows), compare_cum);
	for (size_t i = 0; i < n && t->n < OWN_MAX; i++) {
		const struct pfa_hot_function *f = &rows[i].f;
		char text[CLI_PCT_MAX], weight[32];

		if (!is_informative(&rows[i], st))
			continue;
		more |= !rows[i].shown;
		cli_format_pct(percent(f->cum, st->weight), st->kept, text);
		cli_table_add(t, 0, text);
		cli_format_weight(f->cum, unit, weight, sizeof(weight));
		cli_table_add(t, 1, weight);
		cli_table_add(t, 2, f->name);
		cli_table_add(t, 3, f->process);
		cli_table_add(t, 4, cli_base_name(f->module));
	}
	/* One row that the first table has too, with its cumulative share, says nothing more. */
	if (t->n > 1 || more)
		cli_table_print(t);
	free(t);
	return 0;
}

int cli_report_function_table(const struct pfa_session *s, const struct cli_options *o,
                              const struct pfa_stats *st)
{
	const char *unit = pfa_weight_unit(s);
	struct pfa_hot_function *f = calloc(CLI_FUNCTIONS_MAX, sizeof(*f));
	struct row *rows = NULL;
	int n = -ENOMEM, rc = 0;

	if (f)
		n = pfa_hot_functions(s, PFA_KIND_ONCPU, o->all ? PFA_HOT_BY_PROCESS : 0, f,
		                      CLI_FUNCTIONS_MAX);
	if (n > 0) {
		rows = calloc((size_t)n, sizeof(*rows));
		if (!rows)
			n = -ENOMEM;
	}
	if (n > 0) {
		n = (int)fold(f, (size_t)n, rows);
		rc = print_self(rows, (size_t)n, st, unit ? unit : "");
		if (rc == 0)
			rc = print_own(rows, (size_t)n, st, unit ? unit : "");
	}
	free(rows);
	free(f);
	return rc < 0 ? rc : n;
}
