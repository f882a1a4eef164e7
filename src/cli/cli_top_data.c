/* SPDX-License-Identifier: Apache-2.0 */
/* cli_top_data.c - profiles of the live view, and rows made of them */
#include "cli_top.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

enum {
	KINDS = 2,
	/* Colder entries of one profile do not matter. */
	LIST_MAX = 5000,
	/* A profile since the start takes longer the longer the capture runs: at most one part in so
	 * many of the time. */
	ALL_SHARE = 5,
};

/* Instead of a module, or of a place where threads are off-CPU. As in reports of files. */
static const char several[] = "[several]";

struct cli_top_data {
	struct pfa_profile *window[KINDS][CLI_TOP_WINDOWS]; /* by enum pfa_kind; NULL: none yet */
	size_t next[KINDS];
	struct pfa_profile *all[KINDS];
	uint64_t all_due_ns[KINDS];
	struct cli_top_row *rows; /* rows[n] */
	size_t n, room;
};

static uint64_t now_ns(void)
{
	struct timespec t;

	(void)clock_gettime(CLOCK_MONOTONIC, &t); /* cannot fail with this clock */
	return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

struct cli_top_data *cli_top_data_new(void)
{
	return calloc(1, sizeof(struct cli_top_data));
}

void cli_top_data_free(struct cli_top_data *d)
{
	for (size_t k = 0; d && k < KINDS; k++) {
		for (size_t i = 0; i < CLI_TOP_WINDOWS; i++)
			pfa_profile_free(d->window[k][i]);
		pfa_profile_free(d->all[k]);
	}
	free(d ? d->rows : NULL);
	free(d);
}

size_t cli_top_data_profiles(const struct cli_top_data *d, const struct cli_top_view *v,
                             const struct pfa_profile *ret[CLI_TOP_WINDOWS])
{
	size_t n = 0;

	if (v->by_all && d->all[v->offcpu])
		ret[n++] = d->all[v->offcpu];
	for (size_t i = 0; i < CLI_TOP_WINDOWS && !v->by_all; i++) {
		const size_t oldest = (d->next[v->offcpu] + i) % CLI_TOP_WINDOWS;

		if (d->window[v->offcpu][oldest])
			ret[n++] = d->window[v->offcpu][oldest];
	}
	return n;
}

/* ---- profiles -------------------------------------------------------------------------------- */

static int take_window(struct cli_top_data *d, struct pfa_session *s, uint32_t kind, uint32_t more,
                       struct pfa_error *err)
{
	struct pfa_profile *p;
	size_t at = d->next[kind] % CLI_TOP_WINDOWS;
	int rc = pfa_snapshot(s, kind, PFA_SNAPSHOT_SINCE_LAST | more, &p, err);

	if (rc < 0)
		return rc;
	pfa_profile_free(d->window[kind][at]);
	d->window[kind][at] = p;
	d->next[kind]++;
	return 0;
}

static int take_all(struct cli_top_data *d, struct pfa_session *s, uint32_t kind, uint32_t more,
                    struct pfa_error *err)
{
	const uint64_t before = now_ns();
	struct pfa_profile *p;
	int rc;

	if (before < d->all_due_ns[kind])
		return 0;
	rc = pfa_snapshot(s, kind, PFA_SNAPSHOT_SAME_MOMENT | more, &p, err);
	if (rc < 0)
		return rc;
	pfa_profile_free(d->all[kind]);
	d->all[kind] = p;
	d->all_due_ns[kind] = before + ALL_SHARE * (now_ns() - before);
	return 0;
}

int cli_top_data_refresh(struct cli_top_data *d, struct pfa_session *s, uint32_t modes,
                         bool ended_only, struct pfa_error *err)
{
	static const uint32_t bits[KINDS] = {PFA_MODE_PROFILE, PFA_MODE_OFFCPU};
	const uint32_t open = ended_only ? 0 : PFA_SNAPSHOT_OPEN;
	uint32_t more = open; /* of the first one: a new moment */
	int rc = 0;

	for (uint32_t k = 0; k < KINDS && rc == 0; k++) {
		if (!(modes & bits[k]))
			continue;
		rc = take_window(d, s, k, more, err);
		more = open | PFA_SNAPSHOT_SAME_MOMENT;
	}
	for (uint32_t k = 0; k < KINDS && rc == 0; k++)
		if (modes & bits[k])
			rc = take_all(d, s, k, open, err);
	return rc;
}

/* ---- rows ------------------------------------------------------------------------------------ */

static struct cli_top_row *add_row(struct cli_top_data *d)
{
	if (d->n == d->room) {
		size_t room = d->room ? 2 * d->room : 1024;
		struct cli_top_row *rows = reallocarray(d->rows, room, sizeof(*rows));

		if (!rows)
			return NULL;
		d->rows = rows;
		d->room = room;
	}
	d->rows[d->n] = (struct cli_top_row){.name = "", .module = ""};
	return &d->rows[d->n++];
}

static int add(struct cli_top_data *d, const char *name, const char *module, bool all,
               uint64_t self, uint64_t cum)
{
	struct cli_top_row *r = add_row(d);
	uint64_t *to;

	if (!r)
		return -ENOMEM;
	r->name = name;
	r->module = module;
	to = all ? r->all : r->last;
	to[0] = self;
	to[1] = cum;
	return 0;
}

static int add_functions(struct cli_top_data *d, const struct cli_top_view *v,
                         const struct pfa_profile *p, bool all)
{
	struct pfa_function *f = calloc(LIST_MAX, sizeof(*f));
	int n, rc = 0;

	if (!f)
		return -ENOMEM;
	n = v->page == CLI_TOP_CALLERS
	            ? pfa_profile_callers(p, (const char *const *)v->path, f, LIST_MAX)
	            : pfa_profile_top(p, v->by_cum ? PFA_BY_CUM : PFA_BY_SELF, f, LIST_MAX);
	for (int i = 0; i < n && rc == 0; i++)
		rc = add(d, f[i].name, f[i].module, all, f[i].self, f[i].cum);
	free(f);
	return n < 0 ? n : rc;
}

static int add_tasks(struct cli_top_data *d, const struct cli_top_view *v,
                     const struct pfa_profile *p, bool all)
{
	struct pfa_task *t = calloc(LIST_MAX, sizeof(*t));
	int n, rc = 0;

	if (!t)
		return -ENOMEM;
	n = v->page == CLI_TOP_THREADS ? pfa_profile_threads(p, t, LIST_MAX)
	                               : pfa_profile_processes(p, t, LIST_MAX);
	for (int i = 0; i < n && rc == 0; i++) {
		rc = add(d, t[i].comm, "", all, t[i].weight, t[i].weight);
		if (rc == 0) {
			d->rows[d->n - 1].pid = t[i].pid;
			d->rows[d->n - 1].tid = t[i].tid;
		}
	}
	free(t);
	return n < 0 ? n : rc;
}

static int add_waits(struct cli_top_data *d, const struct pfa_profile *p, bool all)
{
	struct pfa_offcpu_site *w = calloc(LIST_MAX, sizeof(*w));
	int n, rc = 0;

	if (!w)
		return -ENOMEM;
	n = pfa_profile_offcpu_sites(p, w, LIST_MAX);
	for (int i = 0; i < n && rc == 0; i++)
		rc = add(d, w[i].name, w[i].where_cnt > 1 ? several : w[i].where, all,
		         w[i].offcpu_ns, w[i].intervals);
	free(w);
	return n < 0 ? n : rc;
}

static int add_profile(struct cli_top_data *d, struct cli_top_view *v, const struct pfa_profile *p,
                       bool all)
{
	struct pfa_profile_totals t = {.size = sizeof(t)};

	if (!p)
		return 0;
	(void)pfa_profile_totals(p, &t); /* cannot fail: the size is set */
	if (all) {
		v->sums.all_weight = t.weight;
		v->sums.all_ns = t.duration_ns;
		v->sums.samples = t.samples;
		v->sums.lost = t.dropped;
	} else {
		v->sums.last_weight += t.weight;
		v->sums.last_ns += t.duration_ns;
	}
	switch (v->page) {
	case CLI_TOP_FUNCTIONS:
	case CLI_TOP_CALLERS:
		return add_functions(d, v, p, all);
	case CLI_TOP_PROCESSES:
	case CLI_TOP_THREADS:
		return add_tasks(d, v, p, all);
	case CLI_TOP_WAITS:
		return add_waits(d, p, all);
	}
	return 0;
}

static int by_name(const void *a, const void *b)
{
	const struct cli_top_row *x = a, *y = b;

	if (x->pid != y->pid)
		return (x->pid > y->pid) - (x->pid < y->pid);
	if (x->tid != y->tid)
		return (x->tid > y->tid) - (x->tid < y->tid);
	return x->pid ? 0 : strcmp(x->name, y->name);
}

/* Makes one row of those of one name or task, which may be in several modules. */
static void merge(struct cli_top_data *d)
{
	size_t n = 0;

	if (d->n)
		qsort(d->rows, d->n, sizeof(*d->rows), by_name);
	for (size_t i = 0; i < d->n; i++) {
		struct cli_top_row *to = n ? &d->rows[n - 1] : NULL;
		const struct cli_top_row *r = &d->rows[i];

		if (!to || by_name(to, r)) {
			d->rows[n++] = *r;
			continue;
		}
		if (!*to->name)
			to->name = r->name;
		if (strcmp(to->module, r->module) != 0)
			to->module = several;
		for (size_t k = 0; k < 2; k++) {
			to->last[k] += r->last[k];
			to->all[k] += r->all[k];
		}
	}
	d->n = n;
}

static bool contains(const struct cli_top_row *r, const char *text)
{
	return !*text || strcasestr(r->name, text) || strcasestr(r->module, text);
}

static int by_weight(const void *a, const void *b, void *arg)
{
	const struct cli_top_row *x = a, *y = b;
	const struct cli_top_view *v = arg;
	const size_t first = v->by_cum && v->page != CLI_TOP_WAITS;

	for (size_t i = 0; i < 4; i++) {
		const bool all = v->by_all != (i >= 2);
		const size_t k = i % 2 ? !first : first;
		uint64_t p = all ? x->all[k] : x->last[k], q = all ? y->all[k] : y->last[k];

		if (p != q)
			return (p < q) - (p > q);
	}
	return by_name(a, b);
}

int cli_top_data_list(struct cli_top_data *d, struct cli_top_view *v)
{
	const size_t kind = v->offcpu;
	size_t n = 0;
	int rc;

	d->n = 0;
	v->rows = NULL;
	v->n = 0;
	v->sums = (struct cli_top_sums){0};
	rc = add_profile(d, v, d->all[kind], true);
	for (size_t i = 0; i < CLI_TOP_WINDOWS && rc == 0; i++)
		rc = add_profile(d, v, d->window[kind][i], false);
	if (rc < 0)
		return rc;
	merge(d);
	for (size_t i = 0; i < d->n; i++)
		if (contains(&d->rows[i], v->search))
			d->rows[n++] = d->rows[i];
	d->n = n;
	if (n)
		qsort_r(d->rows, n, sizeof(*d->rows), by_weight, v);
	v->rows = d->rows;
	v->n = n;
	return 0;
}
