/* SPDX-License-Identifier: Apache-2.0 */
/*
 * label - labels that the caller's enrichers give to processes. Each enricher is called once a
 * process, when an output first contains the process. Thread: control, in pfa_stop.
 */
#ifndef PA_LABEL_H
#define PA_LABEL_H

#include "event/event.h"
#include "metrics/metrics.h"
#include "perfagent/perfagent.h"
#include "track/track.h"

struct labels;
/* Labels of one process, borrowed until labels_forget. */
struct label_list {
	struct met_label *v; /* v[n] */
	uint32_t n;          /* at most PFA_LABELS_MAX */
};

/**
 * labels_new, labels_free - make one without enrichers; NULL is accepted, free returns NULL
 * Returns: 0, -ENOMEM.
 */
int labels_new(struct labels **ret);
struct labels *labels_free(struct labels *l);
/**
 * labels_add_enricher - add an enricher, to be called after those that were added before
 * Returns: 0, -EINVAL (no function), -E2BIG (PFA_ENRICHERS_MAX).
 */
int labels_add_enricher(struct labels *l, pfa_enrich_fn fn, void *arg, struct err *err);
bool labels_any(const struct labels *l); /* is there an enricher? */
/**
 * labels_of - labels of a process; calls the enrichers when the process is new
 * @trk: has its name; may be NULL
 * @foreign_ns: its number is that of the initial pid namespace, not of ours
 * @comm: its name if @trk does not have it; may be NULL
 * Returns: 0 (no labels without enrichers, and past a million processes), -ENOMEM.
 */
int labels_of(struct labels *l, const struct trk *trk, const struct ev_proc_id *proc,
              bool foreign_ns, const char *comm, struct label_list *ret);
/**
 * labels_of_metrics - add its labels to each process of a snapshot
 * Returns: 0, -ENOMEM, -E2BIG.
 */
int labels_of_metrics(struct labels *l, const struct trk *trk, struct met_snapshot *m);
/**
 * labels_forget - free the labels of a capture; the enrichers stay
 */
void labels_forget(struct labels *l);
/**
 * label_add - implements pfa_label_add
 */
int label_add(struct pfa_label_sink *sink, const char *key, const char *value);

#endif
