/* SPDX-License-Identifier: Apache-2.0 */
/*
 * profile-fixture - an allocator that fails on demand, stacks and locations
 */
#ifndef PA_TEST_PROFILE_FIXTURE_H
#define PA_TEST_PROFILE_FIXTURE_H

#include <setjmp.h>
#include <stdio.h>
#include <cmocka.h>
#include "profile/profile.h"

/* ---- an allocator that fails when reported ------------------------------------------------------ */

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define OWN_ALLOCATOR 0
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define OWN_ALLOCATOR 0
#endif
#endif
#ifndef OWN_ALLOCATOR
#define OWN_ALLOCATOR 1
#endif

#if OWN_ALLOCATOR
#define EXPORT __attribute__((visibility("default"))) /* also for calls from libc */

static long alloc_left = -1; /* allocations until one fails, -1: never */
static long alloc_live;      /* allocated and not freed */

void *__libc_malloc(size_t n);
void *__libc_calloc(size_t n, size_t size);
void *__libc_realloc(void *p, size_t n);
void __libc_free(void *p);

static inline bool alloc_fails(void)
{
	if (alloc_left < 0)
		return false;
	if (alloc_left == 0)
		return true; /* and goes on failing */
	alloc_left--;
	return false;
}

EXPORT void *malloc(size_t n)
{
	void *p = alloc_fails() ? NULL : __libc_malloc(n);

	alloc_live += p != NULL;
	return p;
}

EXPORT void *calloc(size_t n, size_t size)
{
	void *p = alloc_fails() ? NULL : __libc_calloc(n, size);

	alloc_live += p != NULL;
	return p;
}

EXPORT void *realloc(void *old, size_t n)
{
	void *p = alloc_fails() ? NULL : __libc_realloc(old, n);

	alloc_live += p != NULL && !old;
	return p;
}

EXPORT void free(void *p)
{
	alloc_live -= p != NULL;
	__libc_free(p);
}
#endif

/* ---- without memory ------------------------------------------------------------------------- */

#if OWN_ALLOCATOR
/* Adds things until one fails. Returns that failure, 0 if all went well. */
static inline int fill_agg(struct prof_agg *a, uint64_t n)
{
	struct ev_frame frames[3] = {{.addr = 1}};
	int r = 0;

	for (uint64_t i = 1; i <= n && r == 0; i++) {
		struct ev_stack s = {.hash = i, .n = 3, .frames = frames};
		struct ev_count c = {.ustack = i, .samples = 1, .weight = 10};
		struct ev_thread t = {.tid = (uint32_t)i};

		r = prof_agg_add_stack(a, &s, NULL);
		if (r == 0)
			r = prof_agg_add_count(a, &c);
		if (r == 0)
			r = prof_agg_add_thread(a, &t);
	}
	return r;
}

#endif

#endif
