/* SPDX-License-Identifier: Apache-2.0 */
/*
 * encode-files - folders, users and limits for tests of outputs
 */
#ifndef PA_TEST_ENCODE_FILES_H
#define PA_TEST_ENCODE_FILES_H

#include <dirent.h>
#include <fcntl.h>
#include <grp.h>
#include <limits.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <cmocka.h>
#include "encode/encode.h"

/* ---- helpers ----------------------------------------------------------------------- */

static char tmp[PATH_MAX]; /* a directory for each test */

static inline int setup(void **state)
{
	const char *base = getenv("TMPDIR");

	(void)state;
	(void)snprintf(tmp, sizeof(tmp), "%s/test-encode.XXXXXX", base ? base : "/tmp");
	return mkdtemp(tmp) && chmod(tmp, 0755) == 0 ? 0 : -1;
}

static inline int teardown(void **state)
{
	char cmd[PATH_MAX + 16];

	(void)state;
	(void)snprintf(cmd, sizeof(cmd), "rm -rf '%s'", tmp);
	return system(cmd);
}

/* A path in tmp; several may be in use. */
static inline const char *at(const char *name)
{
	static char bufs[4][PATH_MAX * 2];
	static unsigned int next;
	char *buf = bufs[next++ % ARRAY_SIZE(bufs)];

	(void)snprintf(buf, sizeof(bufs[0]), "%s/%s", tmp, name);
	return buf;
}

static inline size_t entries(const char *dir)
{
	DIR *d = opendir(dir);
	size_t n = 0;

	assert_non_null(d);
	for (struct dirent *e = readdir(d); e; e = readdir(d))
		n += strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0;
	closedir(d);
	return n;
}

static inline int open_path(const char *path, struct enc_output **ret, struct err *err)
{
	return enc_output_open(&(struct pfa_output){.path = path}, ret, err);
}

/* Opening fails with @code and says @text, and leaves nothing. */
static inline void assert_refused(const char *path, int code, const char *text)
{
	struct enc_output *o = NULL;
	struct err err = {0};
	size_t n = entries(tmp);

	assert_int_equal(open_path(path, &o, &err), code);
	assert_null(o);
	assert_int_equal(err.code, code);
	assert_int_equal(err.cause, ERR_OUTPUT);
	assert_memory_equal(err.object, path, MIN_OF(strlen(path) + 1, sizeof(err.object) - 1));
	if (!strstr(err.msg, text))
		fail_msg("'%s' not in '%s'", text, err.msg);
	assert_int_equal(entries(tmp), n);
}

/* Runs @fn in a child and gives its return value; a signal is an error. */
static inline int in_child(int (*fn)(void))
{
	pid_t pid;
	int st;

	fflush(NULL);
	pid = fork();
	assert_true(pid >= 0);
	if (pid == 0)
		_exit(fn());
	assert_int_equal(waitpid(pid, &st, 0), pid);
	if (!WIFEXITED(st))
		fail_msg("child ended by signal %d", WTERMSIG(st));
	return WEXITSTATUS(st);
}

/* For children, where cmocka's do not work. */
#define CHECK(cond)                                                                                \
	do {                                                                                       \
		if (!(cond)) {                                                                     \
			fprintf(stderr, "line %d: %s\n", __LINE__, #cond);                         \
			return 1;                                                                  \
		}                                                                                  \
	} while (0)

/* ---- paths ------------------------------------------------------------------------- */

static bool no_unnamed_files; /* as on file systems without O_TMPFILE */

int __real_openat64(int dirfd, const char *path, int flags, ...);
int __wrap_openat64(int dirfd, const char *path, int flags, ...);
int __wrap_openat64(int dirfd, const char *path, int flags, ...)
{
	va_list ap;
	mode_t mode;

	if ((flags & O_TMPFILE) == O_TMPFILE && no_unnamed_files) {
		errno = EOPNOTSUPP;
		return -1;
	}
	va_start(ap, flags);
	mode = va_arg(ap, mode_t);
	va_end(ap);
	return __real_openat64(dirfd, path, flags, mode);
}

#define IN_DIR(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

#endif
