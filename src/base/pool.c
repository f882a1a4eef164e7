/* SPDX-License-Identifier: Apache-2.0 */
#include "base/base.h"

struct worker {
	struct thread thread;
	struct pool *pool;
	uint32_t i;
};

struct pool {
	struct queue *jobs;
	uint32_t n; /* of workers that were started */
	void (*begin)(void *arg, uint32_t i);
	void *arg;
	struct worker workers[POOL_THREADS_MAX];
};

static void work(void *arg)
{
	const struct worker *w = arg;
	struct pool_job job;

	if (w->pool->begin)
		w->pool->begin(w->pool->arg, w->i);
	while (pool_pop(w->pool, &job, UINT64_MAX) == 0)
		job.run(job.owner, job.item);
}

int pool_new(const struct pool_options *o, struct pool **ret)
{
	struct pool *p;
	int r;

	if (o->n_threads > POOL_THREADS_MAX)
		return -EINVAL;
	p = calloc(1, sizeof(*p));
	if (!p)
		return -ENOMEM;
	p->begin = o->begin;
	p->arg = o->arg;
	r = queue_new(sizeof(struct pool_job), o->max_jobs, &p->jobs);
	while (r == 0 && p->n < o->n_threads) {
		struct worker *w = &p->workers[p->n];

		w->pool = p;
		w->i = p->n;
		r = thread_start(&w->thread, work, w, o->name);
		p->n += r == 0;
	}
	if (r < 0) {
		pool_free(p);
		return r;
	}
	*ret = p;
	return 0;
}

int pool_push(struct pool *p, const struct pool_job *job)
{
	return queue_push(p->jobs, job);
}

int pool_pop(struct pool *p, struct pool_job *ret, uint64_t timeout_ns)
{
	return queue_pop(p->jobs, ret, timeout_ns);
}

void pool_close(struct pool *p)
{
	if (p->jobs)
		queue_close(p->jobs);
}

struct pool *pool_free(struct pool *p)
{
	struct pool_job job;

	if (!p)
		return NULL;
	pool_close(p);
	for (uint32_t i = 0; i < p->n; i++)
		thread_join(&p->workers[i].thread);
	for (uint32_t i = 0; i < POOL_THREADS_MAX; i++)
		thread_done(&p->workers[i].thread);
	while (p->jobs && pool_pop(p, &job, 0) == 0) /* there were no threads */
		job.run(job.owner, job.item);
	p->jobs = queue_free(p->jobs);
	free(p);
	return NULL;
}

uint64_t pool_cpu_ns(struct pool *p)
{
	uint64_t sum = 0;

	for (uint32_t i = 0; i < p->n; i++)
		sum += thread_cpu_ns(&p->workers[i].thread);
	return sum;
}

uint32_t pool_size(const struct pool *p)
{
	return MAX_OF(p->n, 1U);
}
