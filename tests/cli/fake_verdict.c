/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fake_verdict.c - parts of the scripted library that are the real ones: short names, and the verdict, of
 * the lines, counters and functions that the script has
 */
#include <perfagent/perfagent_report.h>

#include "report/report.h"

#include <stdio.h>

enum {
	LINES_MAX = 128,
	ADDED_MAX = 4,
	FUNCTIONS_MAX = 64,
};

static struct {
	char line[ADDED_MAX][64];
	size_t n;
} added;

int pfa_add_statistic(struct pfa_session *s, const char *key, const char *value,
                      struct pfa_error *err)
{
	(void)s;
	(void)err;
	if (added.n == ADDED_MAX)
		return -E2BIG;
	(void)snprintf(added.line[added.n++], sizeof(added.line[0]), "%s: %s", key, value);
	return 0;
}

size_t pfa_short_name(const char *name, uint32_t columns, char *ret, size_t size)
{
	struct sbuf b;
	int n;

	sbuf_init(&b, 1 << 20);
	(void)rep_put_name(&b, name, columns, true);
	n = snprintf(ret, size, "%s", b.p ? b.p : "");
	sbuf_done(&b);
	return (size_t)n < size ? (size_t)n : size - 1;
}

/* Adds the reasons for losses, as the statistics of a profile have them. */
static void add_losses(const struct pfa_session *s, bool off, struct rep_evidence *e,
                       const char **line)
{
	static char losses[8][128];
	struct pfa_counter c;

	for (size_t i = 0; pfa_counter(s, i, &c) == 0; i++) {
		const bool is_off = str_starts(c.name, "offcpu_");
		const char *name = c.name + (is_off ? strlen("offcpu_") : 0);

		if (is_off != off || !str_starts(name, "dropped_"))
			continue;
		(void)snprintf(losses[i], sizeof(losses[i]), "%s: %llu", name,
		               (unsigned long long)c.value);
		line[e->n_lines++] = losses[i];
		if (strcmp(name, "dropped_agent") != 0)
			e->lost += (int64_t)c.value;
	}
}

static void add_runtimes(const struct pfa_session *s, uint32_t kind, uint64_t whole,
                         struct rep_runtimes *r)
{
	struct pfa_function f[FUNCTIONS_MAX];
	int n = pfa_top_of(s, kind, f, FUNCTIONS_MAX);

	for (int i = 0; i < n; i++)
		rep_runtimes_add(r, f[i].module, f[i].name,
		                 100.0 * (double)f[i].cum / (double)(whole ? whole : 1));
}

int pfa_verdict(const struct pfa_session *s, uint32_t kind, pfa_defect_fn fn, void *arg)
{
	const bool off = kind == PFA_KIND_OFFCPU;
	struct pfa_stats st = {.size = sizeof(st)};
	struct rep_evidence e = {.offcpu = off};
	struct rep_judgement j = {0};
	const char *line[LINES_MAX], *text;
	int rc = pfa_stats(s, &st);

	if (rc < 0)
		return rc;
	e.samples = (int64_t)(off ? st.offcpu_kept : st.kept);
	for (size_t i = 0; (text = pfa_quality_of(s, kind, i)); i++)
		line[e.n_lines++] = text;
	for (size_t i = 0; i < added.n; i++)
		line[e.n_lines++] = added.line[i];
	add_losses(s, off, &e, line);
	e.lines = line;
	add_runtimes(s, kind, off ? st.offcpu_ns : st.weight, &e.runtimes);
	rc = rep_judge(&e, &j);
	for (size_t i = 0; rc == 0 && fn && i < j.defects.n; i++) {
		const struct rep_defect *d = &j.defects.p[i];
		const struct pfa_defect out = {d->id, (uint32_t)d->level, d->text, d->remedy};

		fn(arg, &out);
	}
	rc = rc < 0 ? rc : (int)j.level;
	rep_judgement_done(&j);
	return rc;
}
