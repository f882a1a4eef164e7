/* SPDX-License-Identifier: Apache-2.0 */
/*
 * deferred-fixture - deferred samples over a tracker, images and tables that are made up
 */
#ifndef PA_TEST_DEFERRED_FIXTURE_H
#define PA_TEST_DEFERRED_FIXTURE_H

#include "deferred/deferred_priv.h"
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/mman.h>
#include <cmocka.h>
#include "fake_tables.h"

static inline void want(uint32_t image, uint32_t times)
{
	kernel_images[image].wanted += times;
}

static inline void make_file(void)
{
	uint8_t bytes[5000];

	for (size_t i = 0; i < sizeof(bytes); i++)
		bytes[i] = (uint8_t)(i / 16);
	file_fd = memfd_create("image", MFD_CLOEXEC);
	if (file_fd < 0 || file_write_full(file_fd, bytes, sizeof(bytes)) < 0)
		abort();
}

#endif
