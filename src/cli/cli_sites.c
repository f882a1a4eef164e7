/* SPDX-License-Identifier: Apache-2.0 */
/* cli_sites.c - the tables of functions that block */
#include "cli_priv.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum {
	ROWS_MAX = 10,
	IDLE_MAX = 5,
	IDLE_PCT = 90, /* of the capture is a mean interval of threads that are idle */
	WORD_MAX = CLI_NAME_BYTES_MAX + 32,
};

/* Sites that belong together. */
enum group {
	GROUP_ACTIVE = 0, /* threads that run in between */
	GROUP_IDLE = 1,   /* threads that are blocked throughout */
	GROUP_KERNEL = 2, /* kernel threads */
	GROUP_CNT,
};

static enum group group_of(const struct pfa_offcpu_site *w, const struct cli_options *o,
                           const struct pfa_stats *st)
{
	if (!strcmp(w->module, "[kernel]") && !o->show.kernel_threads)
		return GROUP_KERNEL;
	if (w->intervals && st->elapsed_ns &&
	    w->offcpu_ns / w->intervals >= st->elapsed_ns / 100 * IDLE_PCT)
		return GROUP_IDLE;
	return GROUP_ACTIVE;
}

static const char *name_of(const struct pfa_offcpu_site *w, char text[WORD_MAX])
{
	if (w->unnamed_cnt < 2)
		return w->name;
	(void)snprintf(text, WORD_MAX, "(%" PRIu32 " unnamed)", w->unnamed_cnt);
	return text;
}

/* "futex_do_wait +2": the number of further functions. */
static const char *where_of(const struct pfa_offcpu_site *w, char text[WORD_MAX])
{
	if (w->where_cnt < 2)
		return w->where;
	(void)snprintf(text, WORD_MAX, "%s +%" PRIu32, w->where, w->where_cnt - 1);
	return text;
}

/* @whole: time of all sites of this group */
static void add_row(struct cli_table *t, const struct pfa_offcpu_site *w, uint64_t whole,
                    const struct pfa_stats *st)
{
	char text[WORD_MAX];

	cli_format_pct(whole ? 100.0 * (double)w->offcpu_ns / (double)whole : 0.0, st->offcpu_kept,
	               text);
	cli_table_add(t, 0, text);
	cli_format_weight(w->offcpu_ns, "nanoseconds", text, sizeof(text));
	cli_table_add(t, 1, text);
	(void)snprintf(text, sizeof(text), "%" PRIu64, w->intervals);
	cli_table_add(t, 2, text);
	cli_format_weight(w->longest_ns, "nanoseconds", text, sizeof(text));
	cli_table_add(t, 3, text);
	cli_table_add(t, 4, name_of(w, text));
	cli_table_add(t, 5, where_of(w, text));
	cli_table_add(t, 6, cli_base_name(w->module));
}

/* Prints what the column "time %" is a share of. @more: there are other groups */
static void say_base(enum group group, uint64_t whole, bool more)
{
	char time[32];

	cli_format_weight(whole, "nanoseconds", time, sizeof(time));
	cli_say_plain("  100 %% is %s off-CPU%s", time,
	              group == GROUP_IDLE ? " of threads that are blocked throughout"
	              : more ? ", without threads blocked throughout and kernel threads"
	                     : "");
}

/* @whole: time of this group; @more: other groups have rows */
static int print_group(enum group group, const struct pfa_offcpu_site *w, size_t n,
                       const struct cli_options *o, const struct pfa_stats *st, uint64_t whole,
                       bool more)
{
	static const struct cli_column columns[2][7] = {
	        {{"time %", .right = true},
	         {"off-CPU", .right = true, .drop = 4},
	         {"count", .right = true, .drop = 2},
	         {"longest", .right = true, .drop = 1},
	         {"function", .min = 12},
	         {"blocked in", .min = 10, .max = 24, .drop = 5},
	         {"module", .min = 8, .max = 24, .drop = 3}},
	        {{"time %", .right = true, .drop = 5},
	         {"off-CPU", .right = true, .drop = 2},
	         {"count", .right = true, .drop = 4},
	         {"longest", .right = true, .drop = 1},
	         {"blocked throughout", .min = 12},
	         {"blocked in", .min = 10, .max = 24, .drop = 6},
	         {"module", .min = 8, .max = 24, .drop = 3}},
	};
	const size_t max = group == GROUP_IDLE ? IDLE_MAX : ROWS_MAX;
	struct cli_table *t;
	int rc = cli_table_new(columns[group], 7, &t);

	if (rc < 0)
		return rc;
	for (size_t i = 0; i < n && t->n < max; i++)
		if (group_of(&w[i], o, st) == group && w[i].offcpu_ns)
			add_row(t, &w[i], whole, st);
	cli_table_print(t);
	if (t->n)
		say_base(group, whole, more);
	free(t);
	return 0;
}

static int print_groups(const struct pfa_offcpu_site *w, size_t n, const struct cli_options *o,
                        const struct pfa_stats *st)
{
	uint64_t ns[GROUP_CNT] = {0}, cnt[GROUP_CNT] = {0};
	char time[32];
	int rc;

	for (size_t i = 0; i < n; i++) {
		ns[group_of(&w[i], o, st)] += w[i].offcpu_ns;
		cnt[group_of(&w[i], o, st)]++;
	}
	rc = print_group(GROUP_ACTIVE, w, n, o, st, ns[GROUP_ACTIVE], cnt[GROUP_ACTIVE] < n);
	if (rc == 0)
		rc = print_group(GROUP_IDLE, w, n, o, st, ns[GROUP_IDLE], cnt[GROUP_IDLE] < n);
	if (rc < 0 || !cnt[GROUP_KERNEL])
		return rc;
	cli_format_weight(ns[GROUP_KERNEL], "nanoseconds", time, sizeof(time));
	cli_say_plain("kernel threads: %s in %" PRIu64 " function%s; --kernel-threads lists them",
	              time, cnt[GROUP_KERNEL], cli_plural(cnt[GROUP_KERNEL]));
	return 0;
}

int cli_report_site_table(const struct pfa_session *s, const struct cli_options *o,
                          const struct pfa_stats *st)
{
	struct pfa_offcpu_site *w = calloc(CLI_FUNCTIONS_MAX, sizeof(*w));
	int n = w ? pfa_top_offcpu_sites(s, w, CLI_FUNCTIONS_MAX) : -ENOMEM, rc = 0;

	if (n > 0)
		rc = print_groups(w, (size_t)n, o, st);
	free(w);
	return rc < 0 ? rc : n;
}
