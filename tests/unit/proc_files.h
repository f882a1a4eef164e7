/* SPDX-License-Identifier: Apache-2.0 */
/*
 * proc-files - files and children for tests of proc
 */
#ifndef PA_TEST_PROC_FILES_H
#define PA_TEST_PROC_FILES_H

#include "proc/proc.h"
#include <setjmp.h>
#include <stdarg.h>
#include <cmocka.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/capability.h>
#include <spawn.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>

static char tmp_dir[] = "/tmp/test-proc-XXXXXX";

/* A pid that is certainly free: a child that was waited for. */
static inline uint32_t gone_pid(void)
{
	pid_t pid = fork();

	if (pid == 0)
		_exit(0);
	assert_true(pid > 0);
	assert_int_equal(waitpid(pid, NULL, 0), pid);
	return (uint32_t)pid;
}

#endif
