/* SPDX-License-Identifier: Apache-2.0 */
/*
 * jitcode-files - perf-maps and jitdumps that grow
 */
#ifndef PA_TEST_JITCODE_FILES_H
#define PA_TEST_JITCODE_FILES_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdio.h>
#include <sys/mman.h>
#include "jitcode/jitcode.h"

struct fixture {
	struct jitcode *j;
	int fd;
};

static inline int setup(void **state)
{
	struct fixture *f = calloc(1, sizeof(*f));

	assert_non_null(f);
	assert_int_equal(jitcode_new(0, &f->j), 0);
	f->fd = memfd_create("map", MFD_CLOEXEC);
	assert_true(f->fd >= 0);
	*state = f;
	return 0;
}

static inline int teardown(void **state)
{
	struct fixture *f = *state;

	jitcode_free(f->j);
	closep(&f->fd);
	free(f);
	return 0;
}

static inline void append(struct fixture *f, const void *data, size_t len)
{
	assert_int_equal(file_write_full(f->fd, data, len), 0);
}

/* The name at an address and time, "" if there is none. */
static inline const char *name_at(struct fixture *f, uint64_t addr, uint64_t time_ns)
{
	struct sym_frame fr;

	return jitcode_find(f->j, addr, time_ns, &fr) == 0 ? fr.name : "";
}

#endif
