/* SPDX-License-Identifier: Apache-2.0 */
/*
 * linked-file - a file with sections and links
 */
#ifndef PA_TEST_LINKED_FILE_H
#define PA_TEST_LINKED_FILE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <fcntl.h>
#include <lzma.h>
#include <stdio.h>
#include <sys/mman.h>
#include <zlib.h>
#include "elf_sections.h"
#include "image/image.h"

/* A file on disk counts how often it is read; in memory nothing is. */
ssize_t __real_file_pread_full(int fd, void *buf, size_t len, uint64_t off);
ssize_t __wrap_file_pread_full(int fd, void *buf, size_t len, uint64_t off);
static uint64_t preads;
static int pread_fails;

ssize_t __wrap_file_pread_full(int fd, void *buf, size_t len, uint64_t off)
{
	preads++;
	return pread_fails ? pread_fails : __real_file_pread_full(fd, buf, len, off);
}

/* An image in memory of one or more sections. */
struct made {
	struct sbuf b;
	struct es_map m;
	struct img_file *f;
};

static inline void make_of(struct made *t, bool is32, const struct es_sec *secs, size_t n)
{
	*t = (struct made){0};
	es_build(is32, secs, n, &t->b, &t->m);
	assert_int_equal(img_file_open_mem(t->b.p, t->b.len, &t->f, NULL), 0);
}

static inline void make_one(struct made *t, const char *name, const void *bytes, size_t len)
{
	const struct es_sec s = {.name = name, .bytes = bytes, .len = len};

	make_of(t, false, &s, 1);
}

static inline void unmake(struct made *t)
{
	img_file_free(t->f);
	sbuf_done(&t->b);
}

static inline int memory_file(const void *p, size_t len)
{
	int fd = memfd_create("t", MFD_CLOEXEC);

	assert_true(fd >= 0);
	assert_int_equal(file_write_full(fd, p, len), 0);
	return fd;
}

#endif
