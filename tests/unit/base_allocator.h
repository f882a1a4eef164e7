/* SPDX-License-Identifier: Apache-2.0 */
/*
 * base-allocator - allocations that fail on demand
 */
#ifndef PA_TEST_BASE_ALLOCATOR_H
#define PA_TEST_BASE_ALLOCATOR_H

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <time.h>
#include <cmocka.h>
#include "base/base.h"

/* ---- failures on demand (-Wl,--wrap) -------------------------------------------------------- */

/* The call number @at from now on (1: the next one) fails once; 0: none does. */
static int fail_alloc_at, fail_init_at;

void *__real_realloc(void *p, size_t len);
void *__wrap_realloc(void *p, size_t len);
void *__real_malloc(size_t len);
void *__wrap_malloc(size_t len);
void *__real_calloc(size_t n, size_t len);
void *__wrap_calloc(size_t n, size_t len);
int __real_pthread_mutex_init(pthread_mutex_t *m, const pthread_mutexattr_t *attr);
int __wrap_pthread_mutex_init(pthread_mutex_t *m, const pthread_mutexattr_t *attr);
int __real_pthread_cond_init(pthread_cond_t *c, const pthread_condattr_t *attr);
int __wrap_pthread_cond_init(pthread_cond_t *c, const pthread_condattr_t *attr);

static inline bool fails(int *at)
{
	return *at > 0 && --*at == 0;
}

void *__wrap_realloc(void *p, size_t len)
{
	return fails(&fail_alloc_at) ? NULL : __real_realloc(p, len);
}

void *__wrap_malloc(size_t len)
{
	return fails(&fail_alloc_at) ? NULL : __real_malloc(len);
}

void *__wrap_calloc(size_t n, size_t len)
{
	return fails(&fail_alloc_at) ? NULL : __real_calloc(n, len);
}

int __wrap_pthread_mutex_init(pthread_mutex_t *m, const pthread_mutexattr_t *attr)
{
	return fails(&fail_init_at) ? EAGAIN : __real_pthread_mutex_init(m, attr);
}

int __wrap_pthread_cond_init(pthread_cond_t *c, const pthread_condattr_t *attr)
{
	return fails(&fail_init_at) ? EAGAIN : __real_pthread_cond_init(c, attr);
}

static inline int no_failures(void **state)
{
	(void)state;
	fail_alloc_at = fail_init_at = 0;
	return 0;
}

#endif
