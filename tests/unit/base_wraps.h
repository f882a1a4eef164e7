/* SPDX-License-Identifier: Apache-2.0 */
/*
 * base-wraps - calls of libc that fail on demand
 */
#ifndef PA_TEST_BASE_WRAPS_H
#define PA_TEST_BASE_WRAPS_H

#include <fcntl.h>
#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <sys/stat.h>
#include <cmocka.h>
#include "base/base.h"

/* ---- failures on demand (-Wl,--wrap) -------------------------------------------------------- */

/* pread64: Meson compiles with 64-bit offsets, and that is the symbol then.
 * The call number @at from now on (1: the next one) fails once; 0: none does. */
static int fail_alloc_at, fail_read_at, fail_pread_at, fail_write_at;
static int fail_errno;
static size_t io_max = SIZE_MAX; /* the most bytes one call moves */
static int reads;

void *__real_realloc(void *p, size_t len);
void *__wrap_realloc(void *p, size_t len);
void *__real_calloc(size_t n, size_t len);
void *__wrap_calloc(size_t n, size_t len);
ssize_t __real_read(int fd, void *p, size_t len);
ssize_t __wrap_read(int fd, void *p, size_t len);
ssize_t __real_pread64(int fd, void *p, size_t len, off_t off);
ssize_t __wrap_pread64(int fd, void *p, size_t len, off_t off);
ssize_t __real_write(int fd, const void *p, size_t len);
ssize_t __wrap_write(int fd, const void *p, size_t len);

static inline bool fails(int *at)
{
	return *at > 0 && --*at == 0;
}

void *__wrap_realloc(void *p, size_t len)
{
	return fails(&fail_alloc_at) ? NULL : __real_realloc(p, len);
}

void *__wrap_calloc(size_t n, size_t len)
{
	return fails(&fail_alloc_at) ? NULL : __real_calloc(n, len);
}

ssize_t __wrap_read(int fd, void *p, size_t len)
{
	reads++;
	if (fails(&fail_read_at)) {
		errno = fail_errno;
		return -1;
	}
	return __real_read(fd, p, MIN_OF(len, io_max));
}

ssize_t __wrap_pread64(int fd, void *p, size_t len, off_t off)
{
	if (fails(&fail_pread_at)) {
		errno = fail_errno;
		return -1;
	}
	return __real_pread64(fd, p, MIN_OF(len, io_max), off);
}

ssize_t __wrap_write(int fd, const void *p, size_t len)
{
	if (fails(&fail_write_at)) {
		errno = fail_errno;
		return fail_errno ? -1 : 0;
	}
	return __real_write(fd, p, MIN_OF(len, io_max));
}

static inline int no_failures(void **state)
{
	(void)state;
	fail_alloc_at = fail_read_at = fail_pread_at = fail_write_at = 0;
	fail_errno = 0;
	io_max = SIZE_MAX;
	return 0;
}

#endif
