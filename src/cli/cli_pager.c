/* SPDX-License-Identifier: Apache-2.0 */
/* cli_pager.c - text on a terminal, through a pager if it is long */
#include "cli_priv.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

static int write_all(int fd, const char *p, size_t len)
{
	while (len) {
		ssize_t n = write(fd, p, len);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -errno;
		p += n;
		len -= (size_t)n;
	}
	return 0;
}

/* Starts the pager; *@ret_fd is its standard input. Returns 0 or a negative errno. */
static int start_pager(const char *command, pid_t *ret_pid, int *ret_fd)
{
	static char sh[] = "sh", flag[] = "-c", less[] = "less", keys[] = "-FRX";
	char *words = command ? strdup(command) : NULL;
	char *const by_shell[] = {sh, flag, words, NULL}, *const by_name[] = {less, keys, NULL};
	char *const *argv = command ? by_shell : by_name;
	posix_spawn_file_actions_t actions;
	int fds[2], r;

	if (command && !words)
		return -ENOMEM;
	if (pipe2(fds, O_CLOEXEC) < 0) {
		r = errno;
		free(words);
		return -r;
	}
	r = posix_spawn_file_actions_init(&actions);
	if (r == 0) {
		r = posix_spawn_file_actions_adddup2(&actions, fds[0], STDIN_FILENO);
		if (r == 0)
			r = posix_spawnp(ret_pid, argv[0], &actions, NULL, argv, environ);
		posix_spawn_file_actions_destroy(&actions);
	}
	free(words);
	close(fds[0]);
	if (r) {
		close(fds[1]);
		return -r;
	}
	*ret_fd = fds[1];
	return 0;
}

enum {
	SH_NOT_EXECUTABLE = 126, /* exit statuses of a shell that cannot start the command */
	SH_NOT_FOUND = 127,
};

/* Feeds a pager and waits for its end. One that ends early has shown all that was wanted. Returns
 * false if the shell could not start it. */
static bool feed_pager(pid_t pid, int fd, const void *text, size_t len)
{
	const struct sigaction ignore = {.sa_handler = SIG_IGN};
	struct sigaction pipe_before, int_before;
	int status = 0;

	/* Ctrl-C is for the pager. */
	(void)sigaction(SIGPIPE, &ignore, &pipe_before);
	(void)sigaction(SIGINT, &ignore, &int_before);
	(void)write_all(fd, text, len);
	close(fd);
	while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	(void)sigaction(SIGPIPE, &pipe_before, NULL);
	(void)sigaction(SIGINT, &int_before, NULL);
	return !WIFEXITED(status) ||
	       (WEXITSTATUS(status) != SH_NOT_EXECUTABLE && WEXITSTATUS(status) != SH_NOT_FOUND);
}

int cli_page(const void *text, size_t len)
{
	const char *command = getenv("PAGER");
	pid_t pid = 0;
	int fd = -1;

	if (command && (!*command || !strcmp(command, "cat")))
		return write_all(STDOUT_FILENO, text, len);
	(void)setenv("LESS", "FRX", 0); /* for $PAGER; its own settings go first */
	if (start_pager(command, &pid, &fd) < 0)
		return write_all(STDOUT_FILENO, text, len);
	return feed_pager(pid, fd, text, len) ? 0 : write_all(STDOUT_FILENO, text, len);
}
