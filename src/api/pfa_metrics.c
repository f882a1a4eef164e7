/* SPDX-License-Identifier: Apache-2.0 */
/* Metrics of the public interface: the snapshot of a capture as public structs, exporters and
 * enrichers. The values of the public enums are those of the metrics module. */
#include "api/api_priv.h"

#include "encode/encode.h"

_Static_assert((int)PFA_TIME_ON_CPU == (int)MET_SLICE && (int)PFA_TIME_RUN_QUEUE == (int)MET_RUNQ &&
                       (int)PFA_TIME_OFF_CPU == (int)MET_OFF && (int)PFA_TIMES == (int)MET_TIME_CNT,
               "one numbering");
_Static_assert((int)PFA_REASON_PREEMPTED == (int)MET_REASON_PREEMPTED &&
                       (int)PFA_REASON_YIELDED == (int)MET_REASON_YIELDED &&
                       (int)PFA_REASON_SLEEP == (int)MET_REASON_SLEEP &&
                       (int)PFA_REASON_IOWAIT == (int)MET_REASON_IOWAIT &&
                       (int)PFA_REASON_UNINTERRUPTIBLE == (int)MET_REASON_UNINTERRUPTIBLE &&
                       (int)PFA_REASON_STOPPED == (int)MET_REASON_STOPPED &&
                       (int)PFA_REASON_EXITED == (int)MET_REASON_EXITED &&
                       (int)PFA_REASON_EXITED + 1 == (int)MET_REASON_CNT,
               "one numbering");
_Static_assert((int)PFA_SCOPE_PIDS == (int)MET_PIDS && (int)PFA_SCOPE_ALL == (int)MET_ALL &&
                       (int)PFA_SCOPE_PER_PID == (int)MET_PER_PID,
               "one numbering");
/* ---- the snapshot ---------------------------------------------------------------------------- */

/* The public metrics. Strings and arrays that need no copy belong to the snapshot. */
struct api_metrics {
	struct pfa_metrics m; /* its member library is the snapshot */
	struct arena mem;
	bool failed; /* out of memory */
};

static void *alloc_items(struct api_metrics *v, size_t n, size_t item_size)
{
	size_t bytes;
	void *p = NULL;

	if (!__builtin_mul_overflow(n, item_size, &bytes))
		p = arena_alloc(&v->mem, bytes);
	v->failed |= !p;
	return p;
}

static const char *copy_comm(struct api_metrics *v, const char comm[static MET_COMM_LEN])
{
	const char *copy = arena_strndup(&v->mem, comm, strnlen(comm, MET_COMM_LEN));

	v->failed |= !copy;
	return copy;
}

static const char *const *show_texts(struct api_metrics *v, char *const *texts, size_t n)
{
	const char **list = alloc_items(v, n, sizeof(*list));

	for (size_t i = 0; list && i < n; i++)
		list[i] = texts[i];
	return list;
}

static const struct pfa_label *show_labels(struct api_metrics *v, const struct met_label *l,
                                           size_t n)
{
	struct pfa_label *list = alloc_items(v, n, sizeof(*list));

	for (size_t i = 0; list && i < n; i++)
		list[i] = (struct pfa_label){.key = l[i].key, .value = l[i].value};
	return list;
}

static const struct pfa_summary *show_summary(struct api_metrics *v, const struct met_summary *t)
{
	struct pfa_summary *s = alloc_items(v, 1, sizeof(*s));

	if (s)
		*s = (struct pfa_summary){
		        .size = sizeof(*s),
		        .count = t->count,
		        .total_ns = t->total_ns,
		        .min_ns = t->min_ns,
		        .max_ns = t->max_ns,
		        .mean_ns = t->mean_ns,
		        .p50_ns = t->p50_ns,
		        .p95_ns = t->p95_ns,
		        .p99_ns = t->p99_ns,
		        .p999_ns = t->p999_ns,
		};
	return s;
}

static void show_counter(const struct met_snapshot *snap, const struct met_counter *c,
                         struct pfa_metrics_counter *ret)
{
	const bool hardware = met_counter_is_hardware(c->id), counted = met_counter_counted(c);

	*ret = (struct pfa_metrics_counter){
	        .size = sizeof(*ret),
	        .name = met_counter_name(c->id),
	        .core_type = hardware && c->core_type < snap->core_types.n
	                             ? snap->core_types.p[c->core_type]
	                             : "",
	        .hardware = hardware,
	        .counted = counted,
	        .error = c->error,
	        .value = counted ? c->value : 0,
	        .raw = counted ? c->raw : 0,
	        .enabled_ns = c->enabled_ns,
	        .running_ns = c->running_ns,
	};
}

static const struct pfa_metrics_counter *const *show_counters(struct api_metrics *v,
                                                              const struct met_snapshot *snap,
                                                              const struct met_entry *e)
{
	struct pfa_metrics_counter *c = alloc_items(v, e->counters.n, sizeof(*c));
	const struct pfa_metrics_counter **list = alloc_items(v, e->counters.n, sizeof(*list));

	for (size_t i = 0; c && list && i < e->counters.n; i++) {
		show_counter(snap, &e->counters.p[i], &c[i]);
		list[i] = &c[i];
	}
	return list;
}

static const struct pfa_metrics_thread *const *show_threads(struct api_metrics *v,
                                                            const struct met_entry *e)
{
	struct pfa_metrics_thread *t = alloc_items(v, e->threads.n, sizeof(*t));
	const struct pfa_metrics_thread **list = alloc_items(v, e->threads.n, sizeof(*list));

	for (size_t i = 0; t && list && i < e->threads.n; i++) {
		const struct met_thread *from = &e->threads.p[i];

		t[i].size = sizeof(t[i]);
		t[i].tid = from->tid;
		t[i].comm = copy_comm(v, from->comm);
		memcpy(t[i].sum_ns, from->ns, sizeof(t[i].sum_ns));
		t[i].n_reasons = MET_REASON_CNT;
		t[i].reasons = from->reason;
		list[i] = &t[i];
	}
	return list;
}

static void show_entry(struct api_metrics *v, const struct met_snapshot *snap,
                       const struct met_entry *e, struct pfa_metrics_entry *ret)
{
	ret->size = sizeof(*ret);
	ret->pid = e->pid;
	ret->comm = copy_comm(v, e->comm);
	for (int i = 0; i < MET_TIME_CNT; i++)
		ret->times[i] = show_summary(v, &e->time[i]);
	memcpy(ret->sum_ns, e->ns, sizeof(ret->sum_ns));
	ret->switches = e->switches;
	ret->n_reasons = MET_REASON_CNT;
	ret->reasons = e->reason;
	ret->n_counters = e->counters.n;
	ret->counters = show_counters(v, snap, e);
	ret->n_threads = e->threads.n;
	ret->threads = show_threads(v, e);
	ret->ended_threads = e->ended_threads;
	ret->n_labels = e->labels.n;
	ret->labels = show_labels(v, e->labels.p, e->labels.n);
}

static void show(struct api_metrics *v, const struct met_snapshot *snap)
{
	struct pfa_metrics_entry *all = alloc_items(v, 1, sizeof(*all));
	struct pfa_metrics_entry *procs = alloc_items(v, snap->procs.n, sizeof(*procs));
	const struct pfa_metrics_entry **list = alloc_items(v, snap->procs.n, sizeof(*list));
	struct pfa_metrics *m = &v->m;

	if (v->failed)
		return;
	show_entry(v, snap, &snap->all, all);
	for (size_t i = 0; i < snap->procs.n; i++) {
		show_entry(v, snap, &snap->procs.p[i], &procs[i]);
		list[i] = &procs[i];
	}
	m->size = sizeof(*m);
	m->library = snap;
	m->scope = (uint32_t)snap->scope;
	m->cpus = snap->cpus;
	m->cpus_offline = snap->cpus_offline;
	m->time_realtime_ns = snap->time_realtime_ns;
	m->duration_ns = snap->duration_ns;
	m->n_core_types = snap->core_types.n;
	m->core_types = show_texts(v, snap->core_types.p, snap->core_types.n);
	m->all = all;
	m->n_procs = snap->procs.n;
	m->procs = list;
	m->other_threads = snap->other_threads;
	m->missed_events = snap->missed_events;
	m->dropped_events = snap->dropped_events;
	m->n_notes = snap->notes.n;
	m->notes = show_texts(v, snap->notes.p, snap->notes.n);
	m->n_labels = snap->labels.n;
	m->labels = show_labels(v, snap->labels.p, snap->labels.n);
}

const struct pfa_metrics *pfa_metrics(struct pfa_session *s)
{
	const struct met_snapshot *snap = ses_metrics(s->ses);
	struct api_metrics *v;

	if (!snap || s->shown)
		return snap ? &s->shown->m : NULL;
	v = calloc(1, sizeof(*v));
	if (!v)
		return NULL;
	arena_init(&v->mem, SIZE_MAX / 2);
	s->shown = v;
	show(v, snap);
	if (v->failed)
		api_metrics_forget(s);
	return s->shown ? &s->shown->m : NULL;
}

void api_metrics_forget(struct pfa_session *s)
{
	if (s->shown)
		arena_done(&s->shown->mem);
	free(s->shown);
	s->shown = NULL;
}

void api_metrics_done(struct pfa_session *s)
{
	api_metrics_forget(s);
	while (s->n_exporters)
		free(s->exporters[--s->n_exporters].name);
}

/* ---- exporters ------------------------------------------------------------------------------- */

static int export_as(const struct pfa_metrics *m, bool json, pfa_write_fn write, void *arg)
{
	_cleanup_(sbuf_done) struct sbuf b;
	int r;

	sbuf_init(&b, SIZE_MAX / 2);
	if (!m || !m->library || !write)
		return -EINVAL;
	r = json ? enc_metrics_json(m->library, &b) : enc_metrics_text(m->library, &b);
	return r < 0 ? r : write(arg, b.p, b.len);
}

int pfa_export_text(const struct pfa_metrics *m, pfa_write_fn write, void *arg)
{
	return export_as(m, false, write, arg);
}

int pfa_export_json(const struct pfa_metrics *m, pfa_write_fn write, void *arg)
{
	return export_as(m, true, write, arg);
}

/* Returns -EBUSY if exporters and enrichers may not be added now. */
static int check_idle(const struct pfa_session *s, const char *what, struct err *err)
{
	if (s->stopping || ses_running(s->ses))
		return err_set(err, -EBUSY, "%s: the session is running", what);
	return 0;
}

int pfa_add_exporter(struct pfa_session *s, const struct pfa_exporter *e, struct pfa_error *error)
{
	struct pfa_exporter known;
	struct err err = {0};
	int r = api_take_struct(e, sizeof(known), &known, sizeof(known), "exporter",
	                        "PFA_EXPORTER_INIT", &err);
	uint32_t i = s->n_exporters;

	if (r == 0)
		r = check_idle(s, "exporter", &err);
	if (r < 0)
		return api_give_error(error, &err, r);
	if (!known.name || !known.name[0] || !known.export_metrics)
		return api_give_error(error, &err,
		                      err_set(&err, -EINVAL,
		                              "exporter: name or export_metrics is missing"));
	if (i == PFA_EXPORTERS_MAX)
		return api_give_error(error, &err,
		                      err_set(&err, -E2BIG, "exporters: more than %d",
		                              PFA_EXPORTERS_MAX));
	s->exporters[i].name = strdup(known.name);
	if (!s->exporters[i].name)
		return api_give_error(error, &err, err_set(&err, -ENOMEM, "out of memory"));
	s->exporters[i].export_metrics = known.export_metrics;
	s->exporters[i].arg = known.arg;
	s->n_exporters++;
	return 0;
}

int api_export(struct pfa_session *s, int r, struct err *err)
{
	const struct pfa_metrics *m = NULL;

	if (s->n_exporters == 0 || !ses_metrics(s->ses))
		return r;
	m = pfa_metrics(s);
	if (!m)
		return r < 0 ? r : err_set(err, -ENOMEM, "exporters: out of memory");
	for (uint32_t i = 0; i < s->n_exporters; i++) {
		struct pfa_error failed = {0};
		int e = s->exporters[i].export_metrics(s->exporters[i].arg, m, &failed);

		if (e >= 0 || r < 0)
			continue;
		failed.message[sizeof(failed.message) - 1] = '\0';
		r = err_set(err, e, "exporter %s: %s", s->exporters[i].name,
		            failed.message[0] ? failed.message : err_name(e));
	}
	return r;
}

/* ---- labels ---------------------------------------------------------------------------------- */

int pfa_label_add(struct pfa_label_sink *sink, const char *key, const char *value)
{
	return sink ? label_add(sink, key, value) : -EINVAL;
}

int pfa_add_enricher(struct pfa_session *s, pfa_enrich_fn fn, void *arg, struct pfa_error *error)
{
	struct err err = {0};
	int r = check_idle(s, "enricher", &err);

	if (r == 0)
		r = ses_add_enricher(s->ses, fn, arg, &err);
	return api_give_error(error, &err, r);
}
