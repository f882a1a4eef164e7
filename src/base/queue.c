/* SPDX-License-Identifier: Apache-2.0 */
#include <time.h>

#include "base/base.h"

struct queue {
	/* Guards everything below; a leaf: no other lock is taken under it. */
	pthread_mutex_t lock;
	pthread_cond_t filled; /* an item came, or closed became true; CLOCK_MONOTONIC */
	size_t item_size, max_items;
	size_t first, n; /* items [first, first + n) modulo max_items */
	uint64_t drops;
	bool closed;
	uint8_t *items;
};

static void queue_lock(struct queue *q)
{
	int r = pthread_mutex_lock(&q->lock);

	assert(r == 0); /* a plain mutex fails on misuse only */
	(void)r;
}

static void queue_unlock(struct queue *q)
{
	int r = pthread_mutex_unlock(&q->lock);

	assert(r == 0);
	(void)r;
}

int cond_init_monotonic(pthread_cond_t *cond)
{
	pthread_condattr_t attr;
	int r = pthread_condattr_init(&attr);

	if (r)
		return -r;
	r = pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	if (r == 0)
		r = pthread_cond_init(cond, &attr);
	(void)pthread_condattr_destroy(&attr); /* cannot fail after its init */
	return -r;
}

int queue_new(size_t item_size, size_t max_items, struct queue **ret)
{
	_cleanup_free_ struct queue *q = NULL;
	_cleanup_free_ uint8_t *items = NULL;
	size_t bytes;
	int r;

	if (item_size == 0 || max_items == 0)
		return -EINVAL;
	if (!size_mul(max_items, item_size, &bytes))
		return -ENOMEM;
	q = calloc(1, sizeof(*q));
	items = malloc(bytes);
	if (!q || !items)
		return -ENOMEM;
	r = -pthread_mutex_init(&q->lock, NULL);
	if (r < 0)
		return r;
	r = cond_init_monotonic(&q->filled);
	if (r < 0) {
		(void)pthread_mutex_destroy(&q->lock); /* no thread can hold it */
		return r;
	}
	q->item_size = item_size;
	q->max_items = max_items;
	q->items = TAKE_PTR(items);
	*ret = TAKE_PTR(q);
	return 0;
}

struct queue *queue_free(struct queue *q)
{
	if (q) {
		(void)pthread_cond_destroy(&q->filled); /* fail on use after free only */
		(void)pthread_mutex_destroy(&q->lock);
		free(q->items);
		free(q);
	}
	return NULL;
}

void queue_freep(struct queue **q)
{
	*q = queue_free(*q);
}

int queue_push(struct queue *q, const void *item)
{
	int r = 0;

	queue_lock(q);
	if (q->closed) {
		r = -EPIPE;
	} else if (q->n == q->max_items) {
		q->drops++;
		r = -EAGAIN;
	} else {
		size_t room = q->max_items - q->first;
		size_t at = q->n < room ? q->first + q->n : q->n - room;

		memcpy(q->items + at * q->item_size, item, q->item_size);
		q->n++;
		(void)pthread_cond_signal(&q->filled); /* never fails on Linux */
	}
	queue_unlock(q);
	return r;
}

int queue_pop(struct queue *q, void *ret_item, uint64_t timeout_ns)
{
	struct timespec until;
	uint64_t end_ns = UINT64_MAX;
	int r = 0;

	if (timeout_ns > 0 && __builtin_add_overflow(now_ns(), timeout_ns, &end_ns))
		end_ns = UINT64_MAX;
	until = (struct timespec){.tv_sec = (time_t)(end_ns / NSEC_PER_SEC),
	                          .tv_nsec = (long)(end_ns % NSEC_PER_SEC)};

	queue_lock(q);
	while (q->n == 0 && !q->closed && r == 0) {
		if (timeout_ns == 0)
			r = ETIMEDOUT;
		else if (end_ns == UINT64_MAX)
			r = pthread_cond_wait(&q->filled, &q->lock);
		else
			r = pthread_cond_timedwait(&q->filled, &q->lock, &until);
	}
	if (q->n > 0) { /* also one that came together with the time-out */
		memcpy(ret_item, q->items + q->first * q->item_size, q->item_size);
		q->first = q->first + 1 == q->max_items ? 0 : q->first + 1;
		q->n--;
		r = 0;
	} else if (q->closed) {
		r = EPIPE;
	}
	queue_unlock(q);
	return -r;
}

void queue_close(struct queue *q)
{
	queue_lock(q);
	q->closed = true;
	(void)pthread_cond_broadcast(&q->filled); /* never fails on Linux */
	queue_unlock(q);
}

uint64_t queue_drops(struct queue *q)
{
	uint64_t drops;

	queue_lock(q);
	drops = q->drops;
	queue_unlock(q);
	return drops;
}

size_t queue_len(struct queue *q)
{
	size_t n;

	queue_lock(q);
	n = q->n;
	queue_unlock(q);
	return n;
}
