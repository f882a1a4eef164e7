/* SPDX-License-Identifier: Apache-2.0 */
/* test-api-metrics - snapshots as public structs, exporters, and what may be registered when;
 * without a kernel */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "api/api_priv.h"
#include "session/session_priv.h"
#include "metrics_samples.h"

static int fail_in = -1; /* so many allocations succeed, then one fails; -1: none fails */

void *__real_calloc(size_t n, size_t size);
char *__real_strdup(const char *s);
void *__wrap_calloc(size_t n, size_t size);
char *__wrap_strdup(const char *s);

static bool fails_now(void)
{
	return fail_in >= 0 && fail_in-- == 0;
}

void *__wrap_calloc(size_t n, size_t size)
{
	return fails_now() ? NULL : __real_calloc(n, size);
}

char *__wrap_strdup(const char *s)
{
	return fails_now() ? NULL : __real_strdup(s);
}

static struct pfa_session *new_session(void)
{
	struct pfa_options o = PFA_OPTIONS_INIT;
	struct pfa_session *s = NULL;

	o.target = PFA_TARGET_ALL;
	o.modes = PFA_MODE_PMU;
	assert_int_equal(pfa_new(&o, &s, NULL), 0);
	return s;
}

/* As if a capture had ended with this; borrowed by the session. */
static struct met_snapshot *stop_with(struct pfa_session *s, size_t sample)
{
	s->ses->state = SES_STOPPED;
	s->ses->product[1].metrics = metrics_sample(&metrics_samples[sample]);
	assert_ptr_equal(src_all[1], &src_sched);
	return s->ses->product[1].metrics;
}

static int keep(void *arg, const void *data, size_t len)
{
	struct sbuf *b = arg;

	return sbuf_add(b, data, len);
}

/* ---- the structs ----------------------------------------------------------------------------- */

static void assert_entry(const struct pfa_metrics_entry *p, const struct met_entry *e,
                         const struct met_snapshot *snap)
{
	assert_int_equal(p->size, sizeof(*p));
	assert_int_equal(p->pid, e->pid);
	assert_int_equal(strlen(p->comm), strnlen(e->comm, MET_COMM_LEN));
	assert_memory_equal(p->comm, e->comm, strlen(p->comm));
	for (int i = 0; i < PFA_TIMES; i++) {
		assert_int_equal(p->times[i]->size, sizeof(*p->times[i]));
		assert_memory_equal(&p->times[i]->count, &e->time[i], sizeof(e->time[i]));
		assert_int_equal(p->sum_ns[i], e->ns[i]);
	}
	assert_int_equal(p->switches, e->switches);
	assert_int_equal(p->n_reasons, MET_REASON_CNT);
	assert_memory_equal(p->reasons, e->reason, sizeof(e->reason));
	assert_int_equal(p->ended_threads, e->ended_threads);
	assert_int_equal(p->n_counters, e->counters.n);
	for (size_t i = 0; i < p->n_counters; i++) {
		const struct pfa_metrics_counter *c = p->counters[i];
		const struct met_counter *from = &e->counters.p[i];

		assert_int_equal(c->size, sizeof(*c));
		assert_string_equal(c->name, met_counter_name(from->id));
		assert_int_equal(c->hardware, met_counter_is_hardware(from->id));
		assert_int_equal(c->error, from->error);
		assert_int_equal(c->counted, met_counter_counted(from));
		assert_int_equal(c->value, c->counted ? from->value : 0);
		assert_int_equal(c->raw, c->counted ? from->raw : 0);
		assert_int_equal(c->enabled_ns, from->enabled_ns);
		assert_int_equal(c->running_ns, from->running_ns);
		if (c->hardware && from->core_type < snap->core_types.n)
			assert_string_equal(c->core_type, snap->core_types.p[from->core_type]);
		else
			assert_string_equal(c->core_type, "");
	}
	assert_int_equal(p->n_threads, e->threads.n);
	for (size_t i = 0; i < p->n_threads; i++) {
		const struct pfa_metrics_thread *t = p->threads[i];

		assert_int_equal(t->size, sizeof(*t));
		assert_int_equal(t->tid, e->threads.p[i].tid);
		assert_memory_equal(t->comm, e->threads.p[i].comm, strlen(t->comm));
		assert_memory_equal(t->sum_ns, e->threads.p[i].ns, sizeof(t->sum_ns));
		assert_int_equal(t->n_reasons, MET_REASON_CNT);
		assert_memory_equal(t->reasons, e->threads.p[i].reason,
		                    sizeof(e->threads.p[i].reason));
	}
	assert_int_equal(p->n_labels, e->labels.n);
	for (size_t i = 0; i < p->n_labels; i++) {
		assert_string_equal(p->labels[i].key, e->labels.p[i].key);
		assert_string_equal(p->labels[i].value, e->labels.p[i].value);
	}
}

static void test_metrics_are_those_of_the_snapshot(void **state)
{
	(void)state;
	for (size_t k = 0; k < ARRAY_SIZE(metrics_samples); k++) {
		struct pfa_session *s = new_session();
		const struct met_snapshot *snap = stop_with(s, k);
		const struct pfa_metrics *m = pfa_metrics(s);

		assert_non_null(m);
		assert_ptr_equal(pfa_metrics(s), m); /* the same until the next start */
		assert_int_equal(m->size, sizeof(*m));
		assert_int_equal(m->scope, snap->scope);
		assert_int_equal(m->cpus, snap->cpus);
		assert_int_equal(m->cpus_offline, snap->cpus_offline);
		assert_int_equal(m->time_realtime_ns, snap->time_realtime_ns);
		assert_int_equal(m->duration_ns, snap->duration_ns);
		assert_int_equal(m->other_threads, snap->other_threads);
		assert_int_equal(m->missed_events, snap->missed_events);
		assert_int_equal(m->dropped_events, snap->dropped_events);
		assert_int_equal(m->n_core_types, snap->core_types.n);
		for (size_t i = 0; i < m->n_core_types; i++)
			assert_string_equal(m->core_types[i], snap->core_types.p[i]);
		assert_int_equal(m->n_notes, snap->notes.n);
		for (size_t i = 0; i < m->n_notes; i++)
			assert_string_equal(m->notes[i], snap->notes.p[i]);
		assert_int_equal(m->n_labels, snap->labels.n);
		for (size_t i = 0; i < m->n_labels; i++) {
			assert_string_equal(m->labels[i].key, snap->labels.p[i].key);
			assert_string_equal(m->labels[i].value, snap->labels.p[i].value);
		}
		assert_entry(m->all, &snap->all, snap);
		assert_int_equal(m->n_procs, snap->procs.n);
		for (size_t i = 0; i < m->n_procs; i++)
			assert_entry(m->procs[i], &snap->procs.p[i], snap);
		pfa_free(s);
	}
}

static void test_metrics_are_there_when_stopped(void **state)
{
	struct pfa_session *s = new_session();

	(void)state;
	assert_null(pfa_metrics(s));
	s->ses->state = SES_STOPPED;
	assert_null(pfa_metrics(s)); /* a capture without */
	(void)stop_with(s, 0);
	fail_in = 0;
	assert_null(pfa_metrics(s));
	fail_in = -1;
	assert_non_null(pfa_metrics(s));
	pfa_free(s);
}

/* ---- exporters ------------------------------------------------------------------------------- */

static void test_built_in_exporters_write_what_the_encoders_do(void **state)
{
	(void)state;
	for (size_t k = 0; k < ARRAY_SIZE(metrics_samples); k++) {
		struct pfa_session *s = new_session();
		const struct met_snapshot *snap = stop_with(s, k);
		const struct pfa_metrics *m = pfa_metrics(s);
		struct sbuf got, want;

		for (int json = 0; json < 2; json++) {
			sbuf_init(&got, SIZE_MAX / 2);
			sbuf_init(&want, SIZE_MAX / 2);
			assert_int_equal((json ? pfa_export_json : pfa_export_text)(m, keep, &got),
			                 0);
			assert_int_equal((json ? enc_metrics_json : enc_metrics_text)(snap, &want),
			                 0);
			assert_int_equal(got.len, want.len);
			assert_memory_equal(got.p, want.p, want.len);
			sbuf_done(&got);
			sbuf_done(&want);
		}
		pfa_free(s);
	}
}

static int refuse(void *arg, const void *data, size_t len)
{
	(void)data;
	(void)len;
	++*(int *)arg;
	return -EDQUOT;
}

static void test_export_hands_on_what_the_writer_says(void **state)
{
	struct pfa_session *s = new_session();
	const struct pfa_metrics *m;
	int calls = 0;

	(void)state;
	(void)stop_with(s, 0);
	m = pfa_metrics(s);
	assert_int_equal(pfa_export_json(m, refuse, &calls), -EDQUOT);
	assert_int_equal(pfa_export_text(m, refuse, &calls), -EDQUOT);
	assert_int_equal(calls, 2);
	assert_int_equal(pfa_export_json(NULL, refuse, &calls), -EINVAL);
	assert_int_equal(pfa_export_json(m, NULL, &calls), -EINVAL);
	pfa_free(s);
}

struct exported {
	struct pfa_session *s;
	int calls, answer;
	const char *message;
	const struct pfa_metrics *m;
};

static int export(void *arg, const struct pfa_metrics *m, struct pfa_error *err)
{
	struct exported *e = arg;

	e->calls++;
	e->m = m;
	if (e->message)
		(void)str_copy(err->message, sizeof(err->message), e->message);
	return e->answer;
}

static void add(struct pfa_session *s, const char *name, struct exported *to)
{
	struct pfa_exporter e = PFA_EXPORTER_INIT;

	e.name = name;
	e.export_metrics = export;
	e.arg = to;
	assert_int_equal(pfa_add_exporter(s, &e, NULL), 0);
}

static void test_all_exporters_are_called_and_the_first_failure_stands(void **state)
{
	struct exported e[3] = {{.answer = 1}, {.answer = -EIO}, {.answer = -EPIPE}};
	struct pfa_session *s = new_session();
	struct err err = {0};
	char name[] = "first";

	(void)state;
	add(s, name, &e[0]);
	memset(name, 'x', 5); /* it was copied */
	add(s, "second", &e[1]);
	add(s, "third", &e[2]);
	s->ses->state = SES_STOPPED;
	assert_int_equal(api_export(s, 0, &err), 0); /* nothing to export */
	assert_int_equal(e[0].calls, 0);
	(void)stop_with(s, 0);
	assert_int_equal(api_export(s, 0, &err), -EIO);
	assert_string_equal(err.msg, "exporter second: input/output error (EIO)");
	e[1].message = "no route to the collector";
	assert_int_equal(api_export(s, 0, &err), -EIO);
	assert_string_equal(err.msg, "exporter second: no route to the collector");
	(void)str_copy(err.msg, sizeof(err.msg), "before");
	assert_int_equal(api_export(s, -ENOSPC, &err), -ENOSPC);
	assert_string_equal(err.msg, "before");
	for (int i = 0; i < 3; i++) {
		assert_int_equal(e[i].calls, 3);
		assert_ptr_equal(e[i].m, pfa_metrics(s));
	}
	e[0].answer = -EACCES;
	assert_int_equal(api_export(s, 0, &err), -EACCES);
	assert_string_equal(err.msg, "exporter first: permission denied (EACCES)");
	pfa_free(s);
}

static void test_exporters_that_are_refused(void **state)
{
	static const struct {
		size_t size;
		const char *name;
		bool fn;
		int result;
	} cases[] = {
	        {sizeof(struct pfa_exporter), "x", true, 0},
	        {0, "x", true, -EINVAL},
	        {sizeof(struct pfa_exporter) - 1, "x", true, -EINVAL},
	        {sizeof(struct pfa_exporter), NULL, true, -EINVAL},
	        {sizeof(struct pfa_exporter), "", true, -EINVAL},
	        {sizeof(struct pfa_exporter), "x", false, -EINVAL},
	};
	struct {
		struct pfa_exporter known;
		uint64_t more;
	} newer = {.known = {.size = sizeof(newer), .name = "x", .export_metrics = export}};
	struct pfa_session *s = new_session();
	struct pfa_error err;

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct pfa_exporter e = {.size = cases[i].size,
		                         .name = cases[i].name,
		                         .export_metrics = cases[i].fn ? export : NULL};

		err = (struct pfa_error){0};
		assert_int_equal(pfa_add_exporter(s, &e, &err), cases[i].result);
		assert_int_equal(err.code, cases[i].result);
		assert_true(cases[i].result == 0 || strstr(err.message, "exporter"));
	}
	assert_int_equal(pfa_add_exporter(s, NULL, &err), -EINVAL);
	newer.more = 1;
	assert_int_equal(pfa_add_exporter(s, &newer.known, &err), -E2BIG);
	newer.more = 0;
	fail_in = 0;
	assert_int_equal(pfa_add_exporter(s, &newer.known, &err), -ENOMEM);
	fail_in = -1;
	for (int i = 1; i < PFA_EXPORTERS_MAX; i++)
		assert_int_equal(pfa_add_exporter(s, &newer.known, &err), 0);
	assert_int_equal(pfa_add_exporter(s, &newer.known, &err), -E2BIG);
	pfa_free(s);
}

static void no_labels(void *arg, const struct pfa_process *p, struct pfa_label_sink *sink)
{
	(void)arg;
	(void)p;
	(void)sink;
}

static void test_nothing_is_registered_or_started_while_it_runs(void **state)
{
	struct pfa_exporter e = PFA_EXPORTER_INIT;
	struct pfa_session *s = new_session();
	struct pfa_error err;

	(void)state;
	e.name = "x";
	e.export_metrics = export;
	s->ses->state = SES_RUNNING;
	assert_int_equal(pfa_add_exporter(s, &e, &err), -EBUSY);
	assert_int_equal(pfa_add_enricher(s, no_labels, NULL, &err), -EBUSY);
	s->ses->state = SES_STOPPED;
	s->stopping = true; /* a call-back asks */
	assert_int_equal(pfa_add_exporter(s, &e, &err), -EBUSY);
	assert_int_equal(pfa_add_enricher(s, no_labels, NULL, &err), -EBUSY);
	assert_int_equal(pfa_start(s, &err), -EBUSY);
	assert_int_equal(pfa_stop(s, &err), -EBUSY);
	s->stopping = false;
	assert_int_equal(pfa_add_enricher(s, NULL, NULL, &err), -EINVAL);
	for (int i = 0; i < PFA_ENRICHERS_MAX; i++)
		assert_int_equal(pfa_add_enricher(s, no_labels, NULL, &err), 0);
	assert_int_equal(pfa_add_enricher(s, no_labels, NULL, &err), -E2BIG);
	assert_int_equal(pfa_label_add(NULL, "a", "b"), -EINVAL);
	pfa_free(s);
}

struct reported {
	int calls;
	struct pfa_process p;
	char comm[32];
};

static void tell(void *arg, const struct pfa_process *p, struct pfa_label_sink *sink)
{
	struct reported *t = arg;

	t->calls++;
	t->p = *p;
	(void)str_copy(t->comm, sizeof(t->comm), p->comm);
	assert_int_equal(pfa_label_add(sink, "pid", "5"), -EEXIST);
	assert_int_equal(pfa_label_add(sink, "pod", "shop-1"), 0);
}

static void test_an_enricher_gets_the_process(void **state)
{
	const struct ev_proc_id id = {.pid = UINT32_MAX, .start_ns = 6};
	struct pfa_session *s = new_session();
	struct label_list of;
	struct reported reported = {0};

	(void)state;
	assert_int_equal(pfa_add_enricher(s, tell, &reported, NULL), 0);
	assert_int_equal(labels_of(s->ses->labels, NULL, &id, false, "shop", &of), 0);
	assert_int_equal(reported.calls, 1);
	assert_int_equal(reported.p.size, sizeof(reported.p));
	assert_int_equal(reported.p.pid, UINT32_MAX);
	assert_int_equal(reported.p.start_ns, 6);
	assert_null(reported.p.cgroup);
	assert_string_equal(reported.comm, "shop");
	assert_int_equal(of.n, 1);
	assert_string_equal(of.v[0].value, "shop-1");
	pfa_free(s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	        cmocka_unit_test(test_metrics_are_those_of_the_snapshot),
	        cmocka_unit_test(test_metrics_are_there_when_stopped),
	        cmocka_unit_test(test_built_in_exporters_write_what_the_encoders_do),
	        cmocka_unit_test(test_export_hands_on_what_the_writer_says),
	        cmocka_unit_test(test_all_exporters_are_called_and_the_first_failure_stands),
	        cmocka_unit_test(test_exporters_that_are_refused),
	        cmocka_unit_test(test_nothing_is_registered_or_started_while_it_runs),
	        cmocka_unit_test(test_an_enricher_gets_the_process),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
