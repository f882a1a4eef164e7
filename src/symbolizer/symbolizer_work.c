/* SPDX-License-Identifier: Apache-2.0 */
/* The pool's side: batches to answers. */
#include "symbolizer/symbolizer_priv.h"

/* Batches that go to the symbolizer process at once: those that wait already. */
#define ASKED_MAX 32

/* Files' batches of one turn. */
struct turn {
	size_t n;
	struct symbolizer_job jobs[ASKED_MAX];
	struct sym_request asks[ASKED_MAX];
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

/* @r: of resolving; @b is moved into the results where it is 0. */
static void answered(struct symbolizer *s, struct symbolizer_job *job, int r, struct sym_batch *b)
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
	sym_files_resolve_all(s->files, t->asks, t->n);
	if (s->o.child)
		s->o.child(s->o.arg, sym_files_pid(s->files)); /* it may be another one now */
	for (size_t i = 0; i < t->n; i++)
		answered(s, &t->jobs[i], t->asks[i].result, &t->asks[i].batch);
	t->n = 0;
}

static struct sym_request ask_of(const struct symbolizer_job *job)
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

/* Answers a batch, or adds it to those for the symbolizer process. */
static void handle(struct symbolizer *s, struct turn *t, struct symbolizer_job *job)
{
	struct sym_batch b = {0};
	int r;

	if (job->image == SYMBOLIZER_KERNEL) {
		r = kernel_names_resolve(s->kernel, job->addrs, job->n, &b);
		answered(s, job, r, &b);
	} else if (job->from.reason != EV_REASON_NAMED) {
		r = sym_none_resolve(job->from.reason, job->addrs, job->n, &b);
		answered(s, job, r, &b);
	} else {
		t->jobs[t->n] = *job;
		t->asks[t->n++] = ask_of(job);
	}
}

/* Without memory for a turn: one batch alone. */
static void handle_alone(struct symbolizer *s)
{
	struct symbolizer_job job;
	struct sym_batch b = {0};

	if (queue_pop(s->jobs, &job, 0) == 0)
		answered(s, &job, -ENOMEM, &b);
}

/* Up to ASKED_MAX batches, in a thread of the pool. */
static void work(void *owner, void *item)
{
	struct symbolizer *s = owner;
	struct turn *t = calloc(1, sizeof(*t));
	struct symbolizer_job job;

	(void)item;
	if (!t)
		handle_alone(s);
	for (int i = 0; t && i < ASKED_MAX && queue_pop(s->jobs, &job, 0) == 0; i++)
		handle(s, t, &job);
	if (t)
		resolve_files(s, t);
	free(t);
	pthread_mutex_lock(&s->lock);
	s->kicks--;
	pthread_mutex_unlock(&s->lock);
	/* Whatever came meanwhile, after others' jobs. */
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
		return; /* each of those in the pool looks at the queue again in its end */
	if (pool_push(s->pool, &job) == 0)
		return;
	/* The pool is closed, or full of others' jobs: done here rather than never. */
	work(s, NULL);
}
