/* SPDX-License-Identifier: Apache-2.0 */
/* cli_command.c - the end of the command, and its exit status */
#include "cli_priv.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
	SAME_SIGNAL_MS = 1000, /* for a command that got the signal that ended the capture */
	TERM_MS = 5000,        /* between SIGTERM and SIGKILL */
	KILL_MS = 5000,        /* for the kernel to end what got SIGKILL */
	TREE_MAX = 4096,       /* processes of the command that are ended */
	SIGNAL_STATUS = 128,   /* as shells have it */
};

static int64_t now_ms(void)
{
	struct timespec t;

	(void)clock_gettime(CLOCK_MONOTONIC, &t); /* cannot fail with this clock */
	return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

/* Waits until all processes have ended, at most so long. A signal ends the wait. */
static void await_all(const int *pidfds, size_t n, int ms)
{
	const int64_t deadline = now_ms() + ms;

	for (size_t i = 0; i < n; i++) {
		struct pollfd p = {.fd = pidfds[i], .events = POLLIN};
		int64_t left = deadline - now_ms();

		if (poll(&p, 1, left > 0 ? (int)left : 0) < 0)
			return;
	}
}

/* Ctrl-C and the signals of timeout(1) reach the command too, so it may be about to end. */
static void await_command(const struct pfa_session *s)
{
	int fd, pid = pfa_command_pid(s);

	fd = pid > 0 ? (int)syscall(SYS_pidfd_open, pid, 0) : -1;
	if (fd < 0)
		return; /* its present status is reported */
	await_all(&fd, 1, SAME_SIGNAL_MS);
	close(fd);
}

static void send_all(const int *fds, size_t n, int number)
{
	for (size_t i = 0; i < n; i++)
		(void)syscall(SYS_pidfd_send_signal, fds[i], number, NULL,
		              0); /* fails if it has ended */
}

/* Ends the command and what it has started. The first descriptor is the command's. */
static void end_command(const struct pfa_session *s)
{
	int pid = pfa_command_pid(s), *fds;
	size_t n;

	fds = calloc(TREE_MAX, sizeof(*fds));
	n = fds && pid > 0 ? cli_process_tree(pid, fds, TREE_MAX) : 0;
	send_all(fds, n, SIGTERM);
	await_all(fds, n, TERM_MS);
	/* Children started since then too. The number is the command's: it has not been reaped. */
	if (n)
		n += cli_process_tree(pid, fds + n, TREE_MAX - n);
	send_all(fds, n, SIGKILL);
	await_all(fds, n, KILL_MS);
	for (size_t i = 0; i < n; i++)
		close(fds[i]);
	free(fds);
}

static void say_signal(const char *comm, int number, bool by_us)
{
	const char *name = sigabbrev_np(number);

	cli_say("command %s was ended by signal %d (SIG%s)%s", comm, number, name ? name : "RT",
	        by_us ? " at the end of --duration" : "");
}

static void say_end(const char *comm, int status, bool by_us)
{
	if (WIFSIGNALED(status))
		say_signal(comm, WTERMSIG(status), by_us);
	else
		cli_say("command %s ended with exit status %d%s", comm, WEXITSTATUS(status),
		        by_us ? " after SIGTERM at the end of --duration" : "");
}

int cli_command_finish(struct pfa_session *s, const char *comm, enum cli_command_end how,
                       bool quiet)
{
	bool by_us = false;
	int rc, status;

	rc = pfa_command_status(s, &status);
	if (rc == 0 && how != CLI_COMMAND_STAYS) {
		by_us = how == CLI_COMMAND_ENDS;
		if (by_us)
			end_command(s);
		else
			await_command(s);
		rc = pfa_command_status(s, &status);
	}
	if (rc < 0)
		cli_say("cannot read the exit status of command %s: %s", comm, cli_error(-rc));
	else if (rc == 0 && !quiet)
		cli_say("command %s (pid %d) has not ended; it is left running", comm,
		        pfa_command_pid(s));
	else if (rc > 0 && !quiet)
		say_end(comm, status, by_us);
	if (rc <= 0 || by_us)
		return CLI_DONE;
	return WIFSIGNALED(status) ? SIGNAL_STATUS + WTERMSIG(status) : WEXITSTATUS(status);
}
