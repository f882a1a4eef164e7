/* SPDX-License-Identifier: Apache-2.0 */
/*
 * metrics.c - scheduler statistics and counters of one's own process with libperfagent
 *
 *     cc metrics.c $(pkg-config --cflags --libs perfagent) -o metrics && sudo ./metrics
 *
 * Runs and sleeps in turn for a second. An enricher adds a label to the process. An exporter gets
 * the metrics at the end and prints some of them, or all as JSON if there is an argument. Exit
 * status 0 if there were metrics.
 */
#include <perfagent/perfagent.h>

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { ROUNDS = 50 };

/* Argument of the exporter. */
struct report {
	int as_json;
	int processes;
};

static void work(void)
{
	const struct timespec pause = {.tv_nsec = 10000000};

	for (int i = 0; i < ROUNDS; i++) {
		for (volatile int k = 0; k < 5000000; k++)
			continue;
		(void)nanosleep(&pause, NULL);
	}
}

/* The kernel knows nothing of services. */
static void say_service(void *arg, const struct pfa_process *p, struct pfa_label_sink *sink)
{
	(void)p;
	(void)pfa_label_add(sink, "service", arg); /* on failure there is no label */
}

static int write_out(void *arg, const void *data, size_t len)
{
	return fwrite(data, 1, len, arg) == len ? 0 : -EIO;
}

static void print_process(const struct pfa_metrics_entry *p)
{
	const struct pfa_summary *slice = p->times[PFA_TIME_ON_CPU];

	printf("%s (%u):\n", p->comm, p->pid);
	for (size_t i = 0; i < p->n_labels; i++)
		printf("  %s=%s\n", p->labels[i].key, p->labels[i].value);
	printf("  on CPU %.1f ms, run queue %.1f ms, off CPU %.1f ms\n",
	       (double)p->sum_ns[PFA_TIME_ON_CPU] / 1e6,
	       (double)p->sum_ns[PFA_TIME_RUN_QUEUE] / 1e6,
	       (double)p->sum_ns[PFA_TIME_OFF_CPU] / 1e6);
	printf("  %llu switches, slices: median %.3f ms, longest %.3f ms\n",
	       (unsigned long long)p->switches, (double)slice->p50_ns / 1e6,
	       (double)slice->max_ns / 1e6);
	for (size_t i = 0; i < p->n_counters; i++) {
		const struct pfa_metrics_counter *c = p->counters[i];

		if (c->counted)
			printf("  %s: %llu\n", c->name, (unsigned long long)c->value);
		else
			printf("  %s: %s\n", c->name,
			       c->error ? strerror(-c->error) : "not counted");
	}
}

static int report(void *arg, const struct pfa_metrics *m, struct pfa_error *err)
{
	struct report *r = arg;
	int rc = 0;

	for (size_t i = 0; i < m->n_procs; i++) {
		if (m->procs[i]->pid) {
			print_process(m->procs[i]);
			r->processes++;
		}
	}
	if (r->as_json)
		rc = pfa_export_json(m, write_out, stdout);
	if (rc < 0)
		(void)snprintf(err->message, sizeof(err->message), "standard output: %s",
		               strerror(-rc)); /* pfa_stop passes it on */
	return rc;
}

static int fail(const char *what, const struct pfa_error *err)
{
	fprintf(stderr, "metrics: %s: %s (%d)\n", what, err->message, err->code);
	return -1;
}

static int measure(struct pfa_session *s, struct report *to)
{
	static char service[] = "example";
	struct pfa_exporter e = PFA_EXPORTER_INIT;
	struct pfa_error err = {0};

	e.name = "report";
	e.export_metrics = report;
	e.arg = to;
	if (pfa_add_exporter(s, &e, &err) < 0 ||
	    pfa_add_enricher(s, say_service, service, &err) < 0)
		return fail("set-up", &err);
	if (pfa_start(s, &err) < 0)
		return fail("start", &err);
	work();
	if (pfa_stop(s, &err) < 0)
		return fail("stop", &err);
	return to->processes ? 0 : -1;
}

int main(int argc, char **argv)
{
	struct pfa_options o = PFA_OPTIONS_INIT;
	struct report to = {.as_json = argc > 1};
	struct pfa_error err = {0};
	struct pfa_session *s;
	int rc;

	(void)argv;
	o.target = PFA_TARGET_PID;
	o.pid = getpid();
	o.modes = PFA_MODE_PMU;
	if (pfa_new(&o, &s, &err) < 0)
		return fail("options", &err) < 0;
	rc = measure(s, &to);
	pfa_free(s);
	return rc < 0 ? 1 : 0;
}
