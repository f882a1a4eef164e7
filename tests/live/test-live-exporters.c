/* SPDX-License-Identifier: Apache-2.0 */
/* test-live-exporters - the library against the running kernel: what of all modes is handed on, and
 * reported while a capture runs */
#include <libdeflate.h>

#include "apilib.h"

struct kept {
	size_t calls, len;
	char *data; /* with a NUL */
};

static int keep(void *arg, const void *data, size_t len)
{
	struct kept *k = arg;

	k->calls++;
	k->len = len;
	free(k->data);
	k->data = malloc(len + 1);
	assert_non_null(k->data);
	memcpy(k->data, data, len);
	k->data[len] = '\0';
	return 0;
}

/* Whether a string is in a gzipped pprof. */
static bool pprof_has(const struct kept *k, const char *string)
{
	struct libdeflate_decompressor *d = libdeflate_alloc_decompressor();
	size_t max = (size_t)16 << 20, n = 0;
	char *raw = malloc(max);
	bool has;

	assert_true(d && raw && k->calls == 1);
	assert_int_equal(libdeflate_gzip_decompress(d, k->data, k->len, raw, max, &n), 0);
	has = memmem(raw, n, string, strlen(string)) != NULL;
	libdeflate_free_decompressor(d);
	free(raw);
	return has;
}

/* Runs, and waits, in the process itself. */
static void work(void)
{
	struct pollfd none = {.fd = -1};

	for (int i = 0; i < 5; i++) {
		burn_ms(20);
		poll(&none, 1, 5);
	}
}

struct reported {
	int calls;
	uint32_t pid;
	char comm[32], cgroup[512];
};

static void tell(void *arg, const struct pfa_process *p, struct pfa_label_sink *sink)
{
	struct reported *t = arg;

	t->calls++;
	t->pid = p->pid;
	snprintf(t->comm, sizeof(t->comm), "%s", p->comm);
	snprintf(t->cgroup, sizeof(t->cgroup), "%s", p->cgroup ? p->cgroup : "");
	assert_int_equal(pfa_label_add(sink, "pod", "live-shop"), 0);
	assert_int_equal(pfa_label_add(sink, "comm", "mine"), -EEXIST);
}

/* The cgroup of version 2 of ourselves, "" if there is none. */
static void own_cgroup(char *ret, size_t size)
{
	FILE *f = fopen("/proc/self/cgroup", "re");
	char line[512];

	*ret = '\0';
	assert_non_null(f);
	while (fgets(line, sizeof(line), f))
		if (strncmp(line, "0::", 3) == 0) {
			line[strcspn(line, "\n")] = '\0';
			snprintf(ret, size, "%s", line + 3);
		}
	fclose(f);
}

static void test_labels_of_enrichers_are_in_all_outputs(void **state)
{
	static const char json_labels[] =
	        "\"labels\": [{\"key\": \"pod\", \"value\": \"live-shop\"}]";
	struct traces before = look();
	struct kept on = {0}, off = {0}, pmu = {0};
	struct pfa_options o = own_process(NULL);
	const struct pfa_metrics *m;
	struct pfa_session *s = NULL;
	struct pfa_error err = {0};
	struct reported reported = {0};
	char cgroup[512];

	(void)state;
	o.modes = PFA_MODE_PROFILE | PFA_MODE_OFFCPU | PFA_MODE_PMU;
	o.profile.write = o.offcpu.write = o.pmu.write = keep;
	o.profile.write_arg = &on;
	o.offcpu.write_arg = &off;
	o.pmu.write_arg = &pmu;
	o.pmu_format = PFA_FORMAT_JSON;
	ok(pfa_new(&o, &s, &err));
	ok(pfa_add_enricher(s, tell, &reported, &err));
	ok(pfa_start(s, &err));
	assert_int_equal(pfa_add_enricher(s, tell, &reported, NULL), -EBUSY);
	work();
	assert_int_equal(reported.calls, 0);
	ok(pfa_stop(s, &err));
	assert_int_equal(reported.calls, 1);
	assert_int_equal(reported.pid, getpid());
	assert_true(strncmp(reported.comm, "test-live-expo", 14) == 0);
	own_cgroup(cgroup, sizeof(cgroup));
	assert_string_equal(reported.cgroup, cgroup);
	assert_true(pprof_has(&on, "live-shop") && pprof_has(&on, "pod"));
	assert_true(pprof_has(&off, "live-shop") && pprof_has(&off, "pod"));
	assert_non_null(strstr(pmu.data, json_labels));
	m = pfa_metrics(s);
	assert_non_null(m);
	assert_true(m->n_procs >= 1);
	assert_int_equal(m->procs[0]->pid, getpid());
	assert_int_equal(m->procs[0]->n_labels, 1);
	assert_string_equal(m->procs[0]->labels[0].value, "live-shop");
	pfa_free(s);
	free(on.data);
	free(off.data);
	free(pmu.data);
	assert_no_traces(&before);
}

struct collector {
	struct pfa_session *s;
	int calls, answer;
	uint64_t on_cpu_ns;
	struct kept json;
};

static int collect(void *arg, const struct pfa_metrics *m, struct pfa_error *err)
{
	struct collector *c = arg;

	c->calls++;
	assert_int_equal(m->scope, PFA_SCOPE_PIDS);
	assert_true(m->n_procs >= 1);
	assert_int_equal(m->procs[0]->pid, getpid());
	c->on_cpu_ns = m->procs[0]->sum_ns[PFA_TIME_ON_CPU];
	assert_ptr_equal(pfa_metrics(c->s), m);
	assert_true(stats_of(c->s).elapsed_ns > 0);
	assert_int_equal(pfa_start(c->s, NULL), -EBUSY);
	assert_int_equal(pfa_stop(c->s, NULL), -EBUSY);
	if (c->answer < 0)
		snprintf(err->message, sizeof(err->message), "the collector does not answer");
	return c->answer < 0 ? c->answer : pfa_export_json(m, keep, &c->json);
}

static void test_exporters_get_what_is_written(void **state)
{
	struct traces before = look();
	struct kept pmu = {0};
	struct sink profile = {0};
	struct pfa_options o = own_process(&profile);
	struct pfa_exporter e = PFA_EXPORTER_INIT;
	struct collector c = {0};
	struct pfa_session *s = NULL;
	struct pfa_error err = {0};

	(void)state;
	o.modes = PFA_MODE_PROFILE | PFA_MODE_PMU;
	o.pmu.write = keep;
	o.pmu.write_arg = &pmu;
	o.pmu_format = PFA_FORMAT_JSON;
	ok(pfa_new(&o, &s, &err));
	c.s = s;
	e.name = "collector";
	e.export_metrics = collect;
	e.arg = &c;
	ok(pfa_add_exporter(s, &e, &err));
	ok(pfa_start(s, &err));
	assert_null(pfa_metrics(s));
	work();
	ok(pfa_stop(s, &err));
	assert_int_equal(pfa_stop(s, NULL), -EINVAL); /* and exports nothing */
	assert_int_equal(c.calls, 1);
	assert_true(c.on_cpu_ns > 50 * 1000000);
	assert_int_equal(pmu.calls, 1);
	assert_string_equal(c.json.data, pmu.data);

	/* One that fails comes after what the library writes. */
	c.answer = -EHOSTUNREACH;
	ok(pfa_start(s, &err));
	assert_null(pfa_metrics(s));
	work();
	assert_int_equal(pfa_stop(s, &err), -EHOSTUNREACH);
	assert_int_equal(err.code, -EHOSTUNREACH);
	assert_string_equal(err.message, "exporter collector: the collector does not answer");
	assert_int_equal(c.calls, 2);
	assert_int_equal(pmu.calls, 2);
	assert_int_equal(profile.calls, 2);
	assert_non_null(pfa_metrics(s));
	pfa_free(s);
	free(c.json.data);
	free(pmu.data);
	assert_no_traces(&before);
}

static void test_waits_are_counted_while_it_runs(void **state)
{
	struct kept off = {0};
	struct pfa_options o = own_process(NULL);
	struct pfa_stats now, last = {0};
	struct pfa_session *s = NULL;
	struct pfa_error err = {0};

	(void)state;
	o.modes = PFA_MODE_OFFCPU;
	o.offcpu.write = keep;
	o.offcpu.write_arg = &off;
	ok(pfa_new(&o, &s, &err));
	ok(pfa_start(s, &err));
	for (int i = 0; i < 20; i++) {
		poll(NULL, 0, 1);
		now = stats_of(s);
		assert_true(now.offcpu_seen > last.offcpu_seen);
		assert_int_equal(now.offcpu_seen, now.offcpu_kept + now.offcpu_dropped);
		last = now;
	}
	assert_true(last.stacks > 0);
	assert_int_equal(last.offcpu_ns, 0);
	ok(pfa_stop(s, &err));
	now = stats_of(s);
	assert_true(now.offcpu_seen >= last.offcpu_seen);
	assert_int_equal(now.offcpu_seen, now.offcpu_kept + now.offcpu_dropped);
	assert_true(now.offcpu_ns >= 20 * 1000000);
	assert_true(now.stacks >= last.stacks);
	pfa_free(s);
	free(off.data);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	        cmocka_unit_test(test_labels_of_enrichers_are_in_all_outputs),
	        cmocka_unit_test(test_exporters_get_what_is_written),
	        cmocka_unit_test(test_waits_are_counted_while_it_runs),
	};

	return run_api_tests(tests, sizeof(tests) / sizeof(tests[0]));
}
