/* SPDX-License-Identifier: Apache-2.0 */
/*
 * On-CPU time of the target between switch events, and the weight of its samples. Thread: control.
 *
 * Ticks show where a thread spends its time; switch events give the exact amount. Late ticks, ticks
 * in step with the workload, and chance make the sum of a thread's samples differ from its time. So
 * the weights of a thread's samples are scaled to it. The ratio of a few samples is mostly chance,
 * and threads without a sample have none: threads with less than ABI_CPU_TIME_SAMPLES share one
 * ratio. (In surveys: post-stratification with collapsed strata.)
 */
#include "result/result.h"

struct key {
	uint64_t start_ns;
	uint32_t pid, tid, foreign_ns;
	uint32_t pad; /* 0: keys are compared as bytes */
};

struct sums {
	uint64_t ran_ns, seen;
};

struct result_cpu_time {
	struct intern *keys; /* struct key -> index */
	VEC(struct sums) threads;
	struct sums rest; /* of threads that share a ratio */
	struct result_cpu_time_total total;
	uint64_t few; /* weight of samples from which on a thread has a ratio of its own */
};

static void add_sums(struct sums *to, uint64_t ran_ns, uint64_t seen)
{
	to->ran_ns += ran_ns;
	to->seen += seen;
}

int result_cpu_time_new(uint64_t few, struct result_cpu_time **ret)
{
	struct result_cpu_time *t = calloc(1, sizeof(*t));
	int r;

	if (!t)
		return -ENOMEM;
	t->threads.max = UINT32_MAX;
	t->few = few;
	r = intern_new(UINT32_MAX - 1, SIZE_MAX / 2, &t->keys);
	if (r < 0) {
		result_cpu_time_free(t);
		return r;
	}
	*ret = t;
	return 0;
}

struct result_cpu_time *result_cpu_time_free(struct result_cpu_time *t)
{
	if (!t)
		return NULL;
	t->keys = intern_free(t->keys);
	vec_done(&t->threads);
	free(t);
	return NULL;
}

static struct key key_of(const struct ev_proc_id *proc, uint32_t tid, bool foreign_ns)
{
	return (struct key){
	        .start_ns = proc->start_ns, .pid = proc->pid, .tid = tid, .foreign_ns = foreign_ns};
}

int result_cpu_time_add(struct result_cpu_time *t, const struct smp_cpu_time *v)
{
	struct key k = key_of(&v->proc, v->tid, v->foreign_ns);
	uint32_t id;
	bool added;
	int r;

	if (v->seen >= t->few) {
		r = intern_add(t->keys, &k, sizeof(k), &id, &added);
		if (r == 0 && added)
			r = vec_push(&t->threads, (struct sums){0});
		if (r < 0)
			return r;
		add_sums(&t->threads.p[id], v->ran_ns, v->seen);
		t->total.ran_ns += v->ran_ns;
		t->total.seen += v->seen;
	} else {
		result_cpu_time_add_rest(t, v->ran_ns, v->seen);
	}
	return 0;
}

void result_cpu_time_add_rest(struct result_cpu_time *t, uint64_t ran_ns, uint64_t seen)
{
	add_sums(&t->rest, ran_ns, seen);
	t->total.ran_ns += ran_ns;
	t->total.seen += seen;
}

const struct result_cpu_time_total *result_cpu_time_total(const struct result_cpu_time *t)
{
	return &t->total;
}

uint64_t result_cpu_time_weight(const struct result_cpu_time *t, const struct ev_count *c)
{
	struct key k = key_of(&c->proc, c->tid, c->foreign_ns);
	uint32_t id = intern_find(t->keys, &k, sizeof(k));
	const struct sums *of = id == INTERN_NONE ? &t->rest : &t->threads.p[id];

	/* Samples without a time are of a CPU that was not measured. */
	if (!of->seen || !of->ran_ns)
		return c->weight;
	return (uint64_t)((unsigned __int128)c->weight * of->ran_ns / of->seen);
}
