/* SPDX-License-Identifier: Apache-2.0 */
/* cli_quality.c - what a profile can be trusted for: the verdict of the library, and the numbers in its
 * line */
#include "cli_priv.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

uint64_t cli_own_samples(const struct pfa_session *s)
{
	struct pfa_counter c;

	for (size_t i = 0; pfa_counter(s, i, &c) == 0; i++) {
		if (!strcmp(c.name, "dropped_agent"))
			return c.value;
	}
	return 0;
}

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
	q->overhead_pct = cli_statistic_number(
	        s, q->kind, "agent_cpu_pct",
	        st.elapsed_ns ? 100.0 * (double)st.agent_cpu_ns / (double)st.elapsed_ns : 0.0);
	return 0;
}

/* There is room for each kind of defect, and for some losses. */
static void add(void *arg, const struct pfa_defect *defect)
{
	struct cli_quality *q = arg;
	struct cli_defect *d = &q->defects[q->n];

	if (q->n == CLI_DEFECTS_MAX)
		return;
	q->n++;
	d->level = (enum cli_verdict)defect->level;
	(void)snprintf(d->id, sizeof(d->id), "%s", defect->id);
	(void)snprintf(d->text, sizeof(d->text), "%s", defect->text);
	(void)snprintf(d->remedy, sizeof(d->remedy), "%s", defect->remedy);
}

int cli_quality_new(const struct pfa_session *s, uint32_t kind, struct cli_quality **ret)
{
	struct cli_quality *q = calloc(1, sizeof(*q));
	int rc;

	if (!q)
		return -ENOMEM;
	q->kind = kind;
	rc = read_numbers(q, s);
	if (rc == 0)
		rc = pfa_verdict(s, kind, add, q);
	if (rc < 0) {
		free(q);
		return rc;
	}
	q->verdict = (enum cli_verdict)rc;
	*ret = q;
	return 0;
}
