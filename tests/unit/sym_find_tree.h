/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sym-find-tree - a tree of debug files, and calls of libc that are counted
 */
#ifndef PA_TEST_SYM_FIND_TREE_H
#define PA_TEST_SYM_FIND_TREE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <dirent.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include "debug_tree.h"

/* ---- libc and others, replaced ---- */

int __real_img_file_crc(int fd, uint32_t *ret);
int __wrap_img_file_crc(int fd, uint32_t *ret);
long __real_syscall(long nr, long a, long b, long c, long d, long e, long f);
long __wrap_syscall(long nr, long a, long b, long c, long d, long e, long f);
int __real_open64(const char *path, int flags, ...);
int __wrap_open64(const char *path, int flags, ...);
void *__real_malloc(size_t n);
void *__wrap_malloc(size_t n);
void *__real_calloc(size_t n, size_t m);
void *__wrap_calloc(size_t n, size_t m);
void *__real_realloc(void *p, size_t n);
void *__wrap_realloc(void *p, size_t n);

static int crcs_read;     /* calls */
static int openat2_fails; /* errno, 0: it works */
static int openat2_times; /* how often; -1: always */
static int odd_opens;     /* of paths that names of others can lead to */
static int memory_left;   /* allocations until one fails; -1: none does */

int __wrap_img_file_crc(int fd, uint32_t *ret)
{
	crcs_read++;
	return __real_img_file_crc(fd, ret);
}

long __wrap_syscall(long nr, long a, long b, long c, long d, long e, long f)
{
	if (nr == SYS_openat2 && openat2_fails && openat2_times != 0) {
		openat2_times -= openat2_times > 0;
		errno = openat2_fails;
		return -1;
	}
	return __real_syscall(nr, a, b, c, d, e, f);
}

int __wrap_open64(const char *path, int flags, ...)
{
	if (!str_starts(path, "/proc/self/fd/") && !(flags & O_DIRECTORY))
		odd_opens++;
	return __real_open64(path, flags);
}

static inline bool memory_ends(void)
{
	return memory_left >= 0 && memory_left-- == 0;
}

void *__wrap_malloc(size_t n)
{
	return memory_ends() ? NULL : __real_malloc(n);
}

void *__wrap_calloc(size_t n, size_t m)
{
	return memory_ends() ? NULL : __real_calloc(n, m);
}

void *__wrap_realloc(void *p, size_t n)
{
	return memory_ends() ? NULL : __real_realloc(p, n);
}

static inline int setup(void **state)
{
	crcs_read = odd_opens = openat2_fails = 0;
	openat2_times = memory_left = -1;
	return tree_setup(state);
}

static inline void find(struct outcome *out, const struct sym_find_options *o,
                        const char *image_rel, const char *path)
{
	struct img_file *f = NULL;
	int fd = __real_open64(at(image_rel), O_RDONLY | O_CLOEXEC), found = -EBADF;
	char *found_path = NULL;

	memset(out, 0, sizeof(*out));
	assert_true(fd >= 0);
	assert_int_equal(img_file_open(fd, &f, NULL), 0);
	out->r = sym_find_debug(o, &out->stats, f, path, root_fd, &found, &found_path);
	if (out->r == SYM_FOUND_BUILD_ID || out->r == SYM_FOUND_DEBUGLINK) {
		assert_true(found >= 0);
		assert_true(fcntl(found, F_GETFD) & FD_CLOEXEC);
		assert_int_equal(fcntl(found, F_GETFL) & O_ACCMODE, O_RDONLY);
		assert_int_equal(fstat(found, &out->st), 0);
		snprintf(out->path, sizeof(out->path), "%s", found_path);
		free(found_path);
		close(found);
	} else {
		assert_int_equal(found, -EBADF);
		assert_null(found_path);
	}
	assert_int_equal(odd_opens, 0);
	img_file_free(f);
	close(fd);
}

#endif
