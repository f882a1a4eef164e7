/* SPDX-License-Identifier: Apache-2.0 */
#include <signal.h>
#include <time.h>

#include "base/base.h"

static uint64_t clock_cpu_ns(clockid_t clock)
{
	struct timespec ts;

	if (clock_gettime(clock, &ts) < 0)
		return 0;
	return (uint64_t)ts.tv_sec * NSEC_PER_SEC + (uint64_t)ts.tv_nsec;
}

uint64_t thread_own_cpu_ns(void)
{
	return clock_cpu_ns(CLOCK_THREAD_CPUTIME_ID);
}

/* Keeps the largest value. A thread runs on after it has read its own clock, and a
 * value that a reader got may not fall. Returns it. */
static uint64_t keep_cpu_ns(struct thread *t, uint64_t ns)
{
	uint64_t kept = atomic_load(&t->cpu_ns);

	while (kept < ns && !atomic_compare_exchange_weak(&t->cpu_ns, &kept, ns))
		;
	return MAX_OF(kept, ns);
}

static void *run(void *arg)
{
	struct thread *t = arg;

	t->fn(t->arg);
	(void)keep_cpu_ns(t, thread_own_cpu_ns());
	return NULL;
}

int thread_start(struct thread *t, void (*fn)(void *arg), void *arg, const char *name)
{
	sigset_t all, before;
	int r;

	if (t->made)
		return -EBUSY;
	if (!t->has_lock) {
		r = pthread_mutex_init(&t->lock, NULL);
		if (r)
			return -r;
		t->has_lock = true;
	}
	t->fn = fn;
	t->arg = arg;
	atomic_store(&t->cpu_ns, 0);
	/* Signals belong to the embedding program's threads. */
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	pthread_mutex_lock(&t->lock);
	r = pthread_create(&t->id, NULL, run, t);
	t->made = r == 0;
	pthread_mutex_unlock(&t->lock);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	if (r)
		return -r;
	(void)pthread_setname_np(t->id, name); /* for people only */
	return 0;
}

/* With the lock. */
static uint64_t running_cpu_ns(const struct thread *t)
{
	clockid_t clock;

	return pthread_getcpuclockid(t->id, &clock) == 0 ? clock_cpu_ns(clock) : 0;
}

uint64_t thread_cpu_ns(struct thread *t)
{
	uint64_t ns;

	if (!t->has_lock)
		return atomic_load(&t->cpu_ns);
	pthread_mutex_lock(&t->lock);
	ns = keep_cpu_ns(t, t->made ? running_cpu_ns(t) : 0);
	pthread_mutex_unlock(&t->lock);
	return ns;
}

void thread_join(struct thread *t)
{
	if (!t->made)
		return;
	/* A joined thread has no clock. Other threads read its time up to now until it has written
	 * its own sum. */
	pthread_mutex_lock(&t->lock);
	(void)keep_cpu_ns(t, running_cpu_ns(t));
	t->made = false;
	pthread_mutex_unlock(&t->lock);
	(void)pthread_join(t->id, NULL);
}

void thread_done(struct thread *t)
{
	if (t->has_lock)
		(void)pthread_mutex_destroy(&t->lock); /* fails on misuse only */
	t->has_lock = false;
}
