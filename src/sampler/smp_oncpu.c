/* SPDX-License-Identifier: Apache-2.0 */
/* On-CPU samples: an event a CPU, the program on them, its counts, and the time of the threads. */
#include "sampler/sampler_priv.h"

#include <stdatomic.h>

struct smp_oncpu {
	struct smp_walker *walker;
	struct smp_oncpu_options o;
	struct pev_set events;
	uint32_t *cpus; /* cpus[n_cpus]: where on-CPU time is measured */
	uint32_t n_cpus;
	_Atomic bool ended; /* by smp_oncpu_end */
	struct smp_oncpu_stats stats;
	uint64_t counts_drained;     /* entries added when the table was last drained */
	const struct smp_sink *sink; /* during a drain */
};

int smp_oncpu_open(struct smp_walker *walker, const struct smp_oncpu_options *o,
                   struct smp_oncpu **ret)
{
	struct smp_oncpu *s = calloc(1, sizeof(*s));

	if (!s)
		return -ENOMEM;
	s->walker = walker;
	s->o = *o;
	*ret = s;
	return 0;
}

struct smp_oncpu *smp_oncpu_free(struct smp_oncpu *s)
{
	if (!s)
		return NULL;
	/* Links before events: an event must not run a program that is being freed. */
	smp_walker_detach(s->walker);
	(void)pev_set_close(&s->events); /* nothing is lost by a failed close of an event */
	free(s->cpus);
	free(s);
	return NULL;
}

static void begin_cpu_time(struct smp_oncpu *s)
{
	s->cpus = calloc(s->events.n, sizeof(*s->cpus));
	if (!s->cpus) {
		s->stats.cpu_time_error = -ENOMEM;
		return;
	}
	for (uint32_t i = 0; i < s->events.n; i++)
		s->cpus[s->n_cpus++] = s->events.e[i].cpu;
	s->stats.cpu_time_error =
	        load_cpu_time_begin(smp_walker_loader(s->walker), s->cpus, s->n_cpus, NULL);
}

int smp_oncpu_start(struct smp_oncpu *s, const uint32_t *cpus, uint32_t n_cpus, struct err *err)
{
	struct load_oncpu *l = smp_walker_loader(s->walker);
	int r = pev_open_cpus(&s->o.spec, cpus, n_cpus, &s->events, err);

	if (r < 0)
		return r;
	for (uint32_t i = 0; i < s->events.n && r == 0; i++)
		r = load_oncpu_attach(l, s->events.e[i].fd, err);
	if (r == 0 && s->o.cpu_time && s->events.n)
		begin_cpu_time(s);
	if (r == 0)
		r = pev_set_enable(&s->events, err);
	if (r < 0) {
		load_oncpu_detach(l);
		(void)pev_set_close(&s->events); /* the first failure is the one to report */
	}
	return r;
}

static void on_count(void *arg, const struct abi_count_key *k, const struct abi_count *v)
{
	struct smp_oncpu *s = arg;
	struct ev_count c = smp_count_of(k, v);

	s->stats.read_samples += v->samples;
	s->sink->count(s->sink->arg, &c);
}

static int keep_first(struct smp_oncpu *s, int first, int r)
{
	if (r >= 0)
		return first;
	s->stats.read_errors++;
	return first ? first : r;
}

static int drain_counts(struct smp_oncpu *s, const struct smp_sink *sink)
{
	s->sink = sink;
	return keep_first(s, 0, load_counts_drain(smp_walker_loader(s->walker), on_count, s));
}

int smp_oncpu_drain(struct smp_oncpu *s, const struct smp_sink *sink)
{
	const uint64_t new = smp_walker_counters(s->walker)->v[ABI_CNT_COUNTS_NEW];

	if (new - s->counts_drained <= smp_walker_sizes(s->walker)->count_entries / 2)
		return 0;
	s->counts_drained = new;
	return drain_counts(s, sink);
}

int smp_oncpu_drain_all(struct smp_oncpu *s, const struct smp_sink *sink)
{
	struct abi_counters c;

	if (load_counters_drain(smp_walker_loader(s->walker), &c) == 0)
		s->counts_drained = c.v[ABI_CNT_COUNTS_NEW]; /* else the next drain comes early */
	return drain_counts(s, sink);
}

int smp_oncpu_end(struct smp_oncpu *s)
{
	int r;

	if (s->ended)
		return 0;
	r = pev_set_disable(&s->events);
	if (s->n_cpus && s->stats.cpu_time_error == 0)
		s->stats.cpu_time_error =
		        load_cpu_time_end(smp_walker_loader(s->walker), s->cpus, s->n_cpus);
	/* Last: a thread that reads true may close the events. */
	s->ended = true;
	return r;
}

int smp_oncpu_finish(struct smp_oncpu *s, const struct smp_sink *sink)
{
	int r;

	s->sink = sink;
	r = keep_first(s, 0, smp_oncpu_end(s));
	smp_walker_detach(s->walker);
	(void)pev_set_close(&s->events); /* a failed close loses nothing */
	return keep_first(s, r, load_counts_drain_final(smp_walker_loader(s->walker), on_count, s));
}

struct cpu_time_arg {
	smp_cpu_time_fn fn;
	void *arg;
};

static void on_cpu_time(void *arg, const struct abi_cpu_time *t)
{
	const struct cpu_time_arg *a = arg;
	struct smp_cpu_time v = {
	        .proc = {.pid = t->tgid, .start_ns = t->start_ns},
	        .tid = t->tid,
	        .foreign_ns = (t->flags & ABI_KEY_FOREIGN_NS) != 0,
	        .ran_ns = t->sums.ran_ns,
	        .seen = t->sums.seen,
	};

	a->fn(a->arg, &v);
}

int smp_oncpu_times(struct smp_oncpu *s, smp_cpu_time_fn fn, void *arg, struct smp_cpu_time *ret,
                    struct smp_cpu_time_cost *ret_cost)
{
	struct cpu_time_arg a = {fn, arg};
	struct abi_cpu_clock sum;
	int r;

	if (!s->n_cpus)
		return -ENODATA;
	if (s->stats.cpu_time_error < 0)
		return s->stats.cpu_time_error;
	r = load_cpu_times(smp_walker_loader(s->walker), on_cpu_time, &a, &sum);
	if (r < 0)
		return r;
	*ret = (struct smp_cpu_time){.ran_ns = sum.rest.ran_ns, .seen = sum.rest.seen};
	*ret_cost = (struct smp_cpu_time_cost){
	        .prog_ns = sum.prog_ns, .missed = sum.missed, .full = sum.full};
	return 0;
}

int smp_oncpu_split_times(struct smp_oncpu *s, smp_cpu_time_fn fn, void *arg,
                          struct smp_cpu_time *ret, struct smp_cpu_time_cost *ret_cost)
{
	/* A CPU that fails has its time in a later reading. */
	if (s->n_cpus && s->stats.cpu_time_error == 0)
		(void)load_cpu_time_split(smp_walker_loader(s->walker), s->cpus, s->n_cpus);
	return smp_oncpu_times(s, fn, arg, ret, ret_cost);
}

const struct smp_oncpu_stats *smp_oncpu_stats(const struct smp_oncpu *s)
{
	return &s->stats;
}

uint32_t smp_oncpu_skipped_cpus(const struct smp_oncpu *s)
{
	return s->events.skipped_cpus;
}
