/* SPDX-License-Identifier: Apache-2.0 */
/* A program that we start: forked and held before its exec until the events on it are open. */
#include "session/session_priv.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>

static _Noreturn void child(int go, int error, const char *const *argv)
{
	char c;
	ssize_t n;
	int e;

	do
		n = read(go, &c, 1);
	while (n < 0 && errno == EINTR);
	if (n != 1)
		_exit(127); /* perf-agent gave up or died */
	/* exec wants pointers to non-const by history, it does not write through them. */
	union {
		const char *const *in;
		char *const *out;
	} a = {.in = argv};

	execvp(argv[0], a.out);
	e = errno;
	(void)!write(error, &e, sizeof(e)); /* the parent sees the end of the pipe instead */
	_exit(127);
}

void ses_command_init(struct ses_command *c)
{
	*c = (struct ses_command){.go_fd = -EBADF, .error_fd = -EBADF};
}

int ses_command_spawn(const char *const *argv, struct ses_command *ret, struct err *err)
{
	_cleanup_close_ int go_r = -EBADF, go_w = -EBADF, error_r = -EBADF, error_w = -EBADF;
	int p[2];
	pid_t pid;

	/* Not a pipe: a write to one whose reader has died raises SIGPIPE in a program that is not
	 * ours. */
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, p) < 0)
		return err_set(err, -errno, "socketpair: %s", err_name(errno));
	go_r = p[0];
	go_w = p[1];
	if (pipe2(p, O_CLOEXEC) < 0)
		return err_set(err, -errno, "pipe: %s", err_name(errno));
	error_r = p[0];
	error_w = p[1];
	pid = fork();
	if (pid < 0)
		return err_set(err, -errno, "fork: %s", err_name(errno));
	if (pid == 0) {
		(void)close(go_w); /* else its own descriptor keeps the socket open when we die */
		child(go_r, error_w, argv);
	}
	ret->pid = pid;
	ret->go_fd = TAKE_FD(go_w);
	ret->error_fd = TAKE_FD(error_r);
	ret->status = 0;
	ret->ended = ret->lost = false;
	return 0;
}

/* Waits until the command has ended. */
static void reap(struct ses_command *c)
{
	pid_t r;

	do
		r = waitpid(c->pid, &c->status, 0);
	while (r < 0 && errno == EINTR);
	c->ended = true;
	c->lost = r < 0;
}

/* Says why a program could not be executed. */
static int refuse(const char *name, int e, struct err *err)
{
	if (e == ENOENT && !strchr(name, '/'))
		return err_set(err, -e, "cannot start %s: not found in PATH (ENOENT)", name);
	if (e == ENOENT && access(name, F_OK) == 0)
		return err_set(err, -e,
		               "cannot start %s: the interpreter or dynamic linker that it names "
		               "does not exist (ENOENT)",
		               name);
	return err_set(err, -e, "cannot start %s: %s", name, err_name(e));
}

int ses_command_go(struct ses_command *c, const char *name, struct err *err)
{
	char go = 1;
	int e = 0;
	ssize_t n;

	do
		n = send(c->go_fd, &go, 1, MSG_NOSIGNAL);
	while (n < 0 && errno == EINTR);
	if (n != 1)
		return err_set(err, -ECHILD, "%s: the process ended before it could be started",
		               name);
	closep(&c->go_fd);
	do
		n = read(c->error_fd, &e, sizeof(e));
	while (n < 0 && errno == EINTR);
	closep(&c->error_fd);
	if (n == (ssize_t)sizeof(e)) {
		reap(c); /* it is about to exit */
		return refuse(name, e, err);
	}
	return 0;
}

int ses_command_poll(struct ses_command *c)
{
	pid_t r;

	if (c->pid == 0)
		return -EINVAL;
	if (c->ended)
		return c->lost ? -ECHILD : 1;
	do
		r = waitpid(c->pid, &c->status, WNOHANG);
	while (r < 0 && errno == EINTR);
	if (r == 0)
		return 0;
	c->ended = true;
	c->lost =
	        r <
	        0; /* by the embedding program itself, or by the kernel where SIGCHLD is ignored */
	return c->lost ? -ECHILD : 1;
}

void ses_command_done(struct ses_command *c)
{
	if (c->pid && c->go_fd >= 0 && !c->ended) {
		(void)kill(c->pid, SIGKILL); /* still held before its exec: no program of others */
		reap(c);
	}
	closep(&c->go_fd);
	closep(&c->error_fd);
}
