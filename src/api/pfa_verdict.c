/* SPDX-License-Identifier: Apache-2.0 */
/* The verdict of a profile in the public interface: collects what is known, the module report judges. */
#include "api/api_priv.h"

#include "report/report.h"

#define LINES_MAX 65536

int pfa_add_statistic(struct pfa_session *s, const char *key, const char *value,
                      struct pfa_error *error)
{
	struct err err = {0};
	int r = key && value ? ses_add_statistic(s->ses, key, value, &err)
	                     : err_set(&err, -EINVAL, "statistic: key or value is NULL");

	return api_give_error(error, &err, r);
}

static uint64_t counter_of(const struct pfa_session *s, const char *name)
{
	struct pfa_counter c;

	for (size_t i = 0; pfa_counter(s, i, &c) == 0; i++)
		if (strcmp(c.name, name) == 0)
			return c.value;
	return 0;
}

/* Fills in the number of samples, or of intervals. */
static int read_counts(const struct pfa_session *s, struct rep_evidence *e)
{
	const uint64_t own = counter_of(s, "dropped_agent");
	struct pfa_stats st = {.size = sizeof(st)};
	int r = pfa_stats(s, &st);

	if (r < 0)
		return r;
	e->samples = (int64_t)(e->offcpu ? st.offcpu_kept : st.kept);
	e->lost = (int64_t)(e->offcpu          ? st.offcpu_dropped
	                    : st.dropped > own ? st.dropped - own
	                                       : 0);
	return 0;
}

int pfa_verdict(const struct pfa_session *s, uint32_t kind, pfa_defect_fn fn, void *arg)
{
	const struct prof_model *m = ses_model(s->ses, (enum pfa_kind)kind);
	_cleanup_(rep_judgement_done) struct rep_judgement j = {0};
	struct rep_evidence e = {.offcpu = kind == PFA_KIND_OFFCPU};
	VEC(const char *) lines = VEC_INIT(LINES_MAX);
	const char *line;
	int r = m ? read_counts(s, &e) : -EINVAL;

	if (r == 0)
		r = rep_runtimes_of(m, &e.runtimes);
	for (size_t i = 0; r == 0 && (line = pfa_quality_of(s, kind, i)); i++)
		r = vec_push(&lines, line);
	e.lines = lines.p;
	e.n_lines = lines.n;
	if (r == 0)
		r = rep_judge(&e, &j);
	vec_done(&lines);
	if (r < 0)
		return r;
	for (size_t i = 0; fn && i < j.defects.n; i++) {
		const struct rep_defect *d = &j.defects.p[i];
		const struct pfa_defect out = {d->id, (uint32_t)d->level, d->text, d->remedy};

		fn(arg, &out);
	}
	return (int)j.level;
}
