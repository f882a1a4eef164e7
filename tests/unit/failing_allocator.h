/* SPDX-License-Identifier: Apache-2.0 */
/*
 * failing-allocator - allocations that fail on demand
 */
#ifndef PA_TEST_FAILING_ALLOCATOR_H
#define PA_TEST_FAILING_ALLOCATOR_H

#include "fake_loader.h"

/* ---- without memory ------------------------------------------------------------------------- */

/* 0: never; n: the n-th from now and every third after it. */
static long fail_at;

void *__real_malloc(size_t n);
void *__real_calloc(size_t n, size_t k);
void *__real_realloc(void *p, size_t n);
void *__wrap_malloc(size_t n);
void *__wrap_calloc(size_t n, size_t k);
void *__wrap_realloc(void *p, size_t n);

static inline bool fails(void)
{
	if (fail_at == 0)
		return false;
	if (--fail_at > 0)
		return false;
	fail_at = 3;
	return true;
}

void *__wrap_malloc(size_t n)
{
	return fails() ? NULL : __real_malloc(n);
}

void *__wrap_calloc(size_t n, size_t k)
{
	return fails() ? NULL : __real_calloc(n, k);
}

void *__wrap_realloc(void *p, size_t n)
{
	return fails() ? NULL : __real_realloc(p, n);
}

#endif
