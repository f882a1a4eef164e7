/* SPDX-License-Identifier: Apache-2.0 */
/* cli-output.c - where the profile goes */
#include "cli_priv.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
	/* Of one minute and one process name: more runs than one can start in it. */
	NAMES_MAX = 10000,
};

static bool name_is_free(const char *name)
{
	struct stat st;

	return lstat(name, &st) < 0 && errno == ENOENT;
}

/* Moves on to the next name that is free, beginning with number @from. */
static int next_name(struct cli_output *out, unsigned int from)
{
	for (unsigned int i = from; i < NAMES_MAX; i++) {
		int rc = cli_profile_name(out->comm, &out->when, i, out->name, sizeof(out->name));

		if (rc < 0)
			return rc;
		if (name_is_free(out->name)) {
			out->number = i;
			return 0;
		}
	}
	return -EEXIST;
}

/*
 * A made name must not replace a file, not even one of another perf-agent that began in the same
 * minute and saw the name free as we did. The library replaces what has the name that it is given:
 * it gets a hidden name of this run's own, and the file is moved to the free name when it is whole.
 */
static int make_name(struct cli_output *out, const char *comm)
{
	struct timespec t;
	int rc;

	if (faccessat(AT_FDCWD, ".", W_OK | X_OK, AT_EACCESS) < 0) {
		cli_say("cannot create a file in the current directory: %s; name one with "
		        "--profile-output",
		        strerrorname_np(errno));
		return CLI_FAILED;
	}
	if (clock_gettime(CLOCK_REALTIME, &t) < 0 || !localtime_r(&t.tv_sec, &out->when)) {
		cli_say("reading the clock: %s", strerrorname_np(errno));
		return CLI_FAILED;
	}
	out->made = true;
	out->comm = comm;
	rc = next_name(out, 1);
	if (rc < 0) {
		cli_say("no free name for the profile: %s; name one with --profile-output",
		        strerrorname_np(-rc));
		return CLI_FAILED;
	}
	(void)snprintf(
	        out->hidden, sizeof(out->hidden), ".perf-agent-%d-%" PRIx64 ".pb.gz", (int)getpid(),
	        (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec); /* 64 bytes are enough */
	return CLI_DONE;
}

int cli_output_publish(struct cli_output *out)
{
	int rc;

	while (out->made) {
		if (renameat2(AT_FDCWD, out->hidden, AT_FDCWD, out->name, RENAME_NOREPLACE) == 0)
			return 0;
		rc = -errno;
		/* File systems that cannot (NFS): what is left is to look, and to rename. */
		if (rc == -EINVAL && name_is_free(out->name))
			return rename(out->hidden, out->name) < 0 ? -errno : 0;
		if (rc != -EEXIST && rc != -EINVAL)
			return rc;
		rc = next_name(out, out->number + 1);
		if (rc < 0)
			return rc;
	}
	return 0;
}

/* Keeps standard output for the profile alone: what else would go there, a command's words too,
 * goes to stderr. */
static int take_stdout(struct cli_output *out)
{
	int flags;

	if (isatty(STDOUT_FILENO)) {
		cli_say("--profile-output: standard output is a terminal; redirect it");
		return CLI_USAGE;
	}
	flags = fcntl(STDOUT_FILENO, F_GETFL);
	if (flags < 0 || (flags & O_ACCMODE) == O_RDONLY) {
		cli_say("--profile-output: standard output is not open for writing");
		return CLI_FAILED;
	}
	out->fd = fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
	if (out->fd < 0 || dup2(STDERR_FILENO, STDOUT_FILENO) < 0) {
		cli_say("duplicate standard output: %s", strerrorname_np(errno));
		return CLI_FAILED;
	}
	return CLI_DONE;
}

int cli_output_open(struct cli_output *out, const char *path, const char *comm)
{
	*out = (struct cli_output){.fd = -EBADF, .path = path};
	if (!path)
		return make_name(out, comm);
	if (!strcmp(path, "-"))
		return take_stdout(out);
	return CLI_DONE;
}

const char *cli_output_path(const struct cli_output *out)
{
	return out->fd >= 0 ? "standard output" : out->made ? out->name : out->path;
}

void cli_output_words(const struct cli_output *out, const char *message, char *ret, size_t size)
{
	const char *word = out->hidden, *found = NULL;
	char number[32];

	if (out->fd >= 0) {
		(void)snprintf(number, sizeof(number), "descriptor %d", out->fd); /* fits */
		word = number;
	}
	if (*word)
		found = strstr(message, word);
	if (!found)
		(void)snprintf(ret, size, "%s", message);
	else
		(void)snprintf(ret, size, "%.*s%s%s", (int)(found - message), message,
		               cli_output_path(out), found + strlen(word));
}

void cli_output_done(struct cli_output *out)
{
	if (out->fd >= 0)
		close(out->fd);
	out->fd = -EBADF;
}
