/* SPDX-License-Identifier: Apache-2.0 */
/* The pool's side: from batches to results. */
#include "symbolizer/symbolizer_priv.h"

/* Most batches that are sent to the symbolizer process at once, of those that wait. */
#define TURN_MAX 32

/* Batches of files of one turn. */
struct turn {
	size_t n;
	struct symbolizer_job jobs[TURN_MAX];
	struct sym_request requests[TURN_MAX];
};

void symbolizer_job_done(struct symbolizer_job *job)
{
	trk_open_done(&job->from);
}

void symbolizer_add_result(struct symbolizer *s, struct symbolizer_result *res)
{
	int r;

	pthread_mutex_lock(&s->lock);
	r = vec_push(&s->results, *res);
	pthread_mutex_unlock(&s->lock);
	if (r < 0) {
		/* Their frames have no name: NO_MEMORY. */
		tally_count(s->o.tally, TALLY_NAMES_LOST, res->batch.n);
		sym_batch_done(&res->batch);
		free(res->addrs);
	}
}

/* Ends a batch. @r: of resolving; @b is moved into the results if it is 0. */
static void end_batch(struct symbolizer *s, struct symbolizer_job *job, int r, struct sym_batch *b)
{
	struct symbolizer_result res = {.image = job->image, .addrs = job->addrs, .batch = *b};
	const size_t n = job->n;
	bool late = atomic_load(&s->late);

	tally_count(s->o.tally, TALLY_SYMBOL_ADDRS, n);
	tally_count(s->o.tally, TALLY_SYMBOL_JOBS_LATE, late);
	tally_count(s->o.tally, TALLY_SYMBOL_ADDRS_LATE, late ? n : 0);
	symbolizer_job_done(job);
	if (r == 0) {
		symbolizer_add_result(s, &res);
	} else { /* their frames have no name: NO_MEMORY */
		tally_count(s->o.tally, TALLY_NAMES_LOST, n);
		free(job->addrs);
	}
	pthread_mutex_lock(&s->lock);
	if (--s->outstanding == 0)
		(void)pthread_cond_broadcast(&s->changed); /* cannot fail */
	pthread_mutex_unlock(&s->lock);
}

static void resolve_files(struct symbolizer *s, struct turn *t)
{
	if (t->n == 0)
		return;
	sym_files_resolve_all(s->files, t->requests, t->n);
	if (s->o.process)
		s->o.process(s->o.arg, sym_files_pid(s->files)); /* it may have been replaced */
	for (size_t i = 0; i < t->n; i++)
		end_batch(s, &t->jobs[i], t->requests[i].result, &t->requests[i].batch);
	t->n = 0;
}

static struct sym_request request_of(const struct symbolizer_job *job)
{
	return (struct sym_request){.src = {.id = job->image,
	                                    .fd = job->from.fd,
	                                    .mem = job->from.mem,
	                                    .mem_len = job->from.mem_len,
	                                    .path = job->from.path,
	                                    .root_fd = job->from.root_fd},
	                            .offs = job->addrs,
	                            .n = job->n};
}

/* Resolves a batch, or adds it to those for the symbolizer process. */
static void handle(struct symbolizer *s, struct turn *t, struct symbolizer_job *job)
{
	struct sym_batch b = {0};
	int r;

	if (job->image == SYMBOLIZER_KERNEL) {
		r = kernel_names_resolve(s->kernel, job->addrs, job->n, &b);
		end_batch(s, job, r, &b);
	} else if (job->from.reason != EV_REASON_NAMED) {
		r = sym_none_resolve(job->from.reason, job->addrs, job->n, &b);
		end_batch(s, job, r, &b);
	} else {
		t->jobs[t->n] = *job;
		t->requests[t->n++] = request_of(job);
	}
}

/* Without memory for a turn, one batch gets that result. */
static void handle_alone(struct symbolizer *s)
{
	struct symbolizer_job job;
	struct sym_batch b = {0};

	if (queue_pop(s->jobs, &job, 0) == 0)
		end_batch(s, &job, -ENOMEM, &b);
}

/* Resolves up to TURN_MAX batches, in a thread of the pool. */
static void work(void *owner, void *item)
{
	struct symbolizer *s = owner;
	struct turn *t = calloc(1, sizeof(*t));
	struct symbolizer_job job;

	(void)item;
	if (!t)
		handle_alone(s);
	for (int i = 0; t && i < TURN_MAX && queue_pop(s->jobs, &job, 0) == 0; i++)
		handle(s, t, &job);
	if (t)
		resolve_files(s, t);
	free(t);
	pthread_mutex_lock(&s->lock);
	s->kicks--;
	pthread_mutex_unlock(&s->lock);
	/* Batches that came meanwhile are resolved after other modules' jobs. */
	if (queue_len(s->jobs) > 0)
		symbolizer_kick(s);
}

void symbolizer_kick(struct symbolizer *s)
{
	const struct pool_job job = {.run = work, .owner = s};
	bool has_room;

	pthread_mutex_lock(&s->lock);
	has_room = s->kicks < pool_size(s->pool);
	s->kicks += has_room;
	pthread_mutex_unlock(&s->lock);
	if (!has_room)
		return; /* each job in the pool checks the queue again at its end */
	if (pool_push(s->pool, &job) == 0)
		return;
	/* The pool is closed, or full of other modules' jobs: the batches are resolved in this
	 * thread. */
	work(s, NULL);
}
