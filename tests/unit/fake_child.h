/* SPDX-License-Identifier: Apache-2.0 */
/* fake-child - a child process that sleeps, for tests that need another process */
#ifndef FAKE_CHILD_H
#define FAKE_CHILD_H

#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

/* It has one thread: after fork() ThreadSanitizer makes another one, which sleeps now and then. */
static inline pid_t child(void)
{
	pid_t pid = _Fork();

	assert_true(pid >= 0);
	if (pid == 0) {
		(void)prctl(PR_SET_PDEATHSIG, SIGKILL); /* a test that fails leaves it */
		for (;;)
			pause();
	}
	return pid;
}

static inline void end(pid_t pid)
{
	assert_int_equal(kill(pid, SIGKILL), 0);
	assert_int_equal(waitpid(pid, NULL, 0), pid);
}

#endif
