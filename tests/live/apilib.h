/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by tests of the library against the running kernel: state before and after, work,
 * and a capture of the test itself. */
#ifndef PA_TESTS_APILIB_H
#define PA_TESTS_APILIB_H

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <poll.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "perfagent/perfagent.h"

static char folder[64]; /* empty but for what a test writes */

#define ok(call)                                                                                   \
	do {                                                                                       \
		int r_ = (call);                                                                   \
		if (r_ < 0)                                                                        \
			fail_msg("%s: %d: %s", #call, r_, err.message);                            \
	} while (0)

/* ---- what is there, before and after --------------------------------------------------------- */

static inline int entries(const char *path)
{
	DIR *d = opendir(path);
	int n = 0;

	assert_non_null(d);
	while (readdir(d))
		n++;
	closedir(d);
	return n - 2;
}

struct traces {
	int fds, threads, files, children;
	sigset_t mask;
};

static inline int children_cnt(void)
{
	char path[64], text[4096];
	FILE *f;
	size_t n;
	int count = 0;

	snprintf(path, sizeof(path), "/proc/self/task/%d/children", (int)getpid());
	f = fopen(path, "re");
	if (!f)
		return 0; /* a kernel without CONFIG_PROC_CHILDREN */
	n = fread(text, 1, sizeof(text) - 1, f);
	fclose(f);
	for (size_t i = 0; i < n; i++)
		count += text[i] == ' ';
	return count;
}

static inline struct traces look(void)
{
	struct traces t;

	memset(&t, 0, sizeof(t));
	t.fds = entries("/proc/self/fd");
	t.threads = entries("/proc/self/task");
	t.files = entries(folder);
	t.children = children_cnt();
	pthread_sigmask(SIG_SETMASK, NULL, &t.mask);
	return t;
}

static inline void assert_no_traces(const struct traces *before)
{
	struct traces now = look();

	/* A joined thread leaves /proc a moment after pthread_join; one of an earlier test may have
	 * been in before. */
	for (int i = 0; i < 100 && now.threads > before->threads; i++) {
		const struct timespec ts = {.tv_nsec = 10 * 1000 * 1000};

		nanosleep(&ts, NULL);
		now = look();
	}
	assert_int_equal(now.fds, before->fds);
	assert_true(now.threads <= before->threads);
	assert_int_equal(now.files, before->files);
	assert_int_equal(now.children, before->children);
	assert_memory_equal(&now.mask, &before->mask, sizeof(now.mask));
}

/* ---- work ------------------------------------------------------------------------------------ */

static inline void burn_ms(unsigned int ms)
{
	struct timespec t;
	uint64_t until = 0, now;

	do {
		for (volatile int i = 0; i < 10000; i++)
			continue;
		clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
		now = (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
		if (!until)
			until = now + (uint64_t)ms * 1000000;
	} while (now < until);
}

struct sink {
	size_t calls, bytes;
	bool gzip;
	int answer;
};

static inline int take(void *arg, const void *data, size_t len)
{
	struct sink *s = arg;
	const uint8_t *p = data;

	s->calls++;
	s->bytes = len;
	s->gzip = len > 18 && p[0] == 0x1f && p[1] == 0x8b;
	return s->answer;
}

static inline struct pfa_options own_process(struct sink *sink)
{
	struct pfa_options o = PFA_OPTIONS_INIT;

	o.target = PFA_TARGET_PID;
	o.pid = (int32_t)getpid();
	o.sample_rate_hz = 999;
	o.profile.write = sink ? take : NULL;
	o.profile.write_arg = sink;
	return o;
}

static inline struct pfa_stats stats_of(const struct pfa_session *s)
{
	struct pfa_stats st = {.size = sizeof(st)};

	assert_int_equal(pfa_stats(s, &st), 0);
	return st;
}

static inline bool has_cap(unsigned int cap)
{
	struct __user_cap_header_struct head = {.version = _LINUX_CAPABILITY_VERSION_3};
	struct __user_cap_data_struct data[_LINUX_CAPABILITY_U32S_3] = {{0}};

	return syscall(SYS_capget, &head, data) == 0 &&
	       (data[CAP_TO_INDEX(cap)].effective & CAP_TO_MASK(cap));
}

/* The exit status of a program of @n tests. */
static inline int run_api_tests(const struct CMUnitTest *tests, size_t n)
{
	const char *tmp = getenv("TMPDIR");
	struct pfa_options o = PFA_OPTIONS_INIT;
	struct pfa_session *s = NULL;
	struct pfa_error err;
	int failed;

	/* The cache that an earlier capture left is no part of a test. */
	(void)setenv("XDG_CACHE_HOME", "/nonexistent", 0);
	if (!has_cap(CAP_BPF) || !has_cap(CAP_PERFMON)) {
		printf("1..0 # SKIP needs CAP_BPF and CAP_PERFMON\n");
		return 0;
	}
	if (access("/sys/kernel/btf/vmlinux", R_OK) < 0) {
		printf("1..0 # SKIP a kernel without BTF\n");
		return 0;
	}
	snprintf(folder, sizeof(folder), "%.30s/perf-agent-api-XXXXXX", tmp ? tmp : "/tmp");
	if (!mkdtemp(folder)) {
		perror(folder);
		return 1;
	}
	/* Makes everything that a process makes once (libelf, sanitizers' threads). */
	o.target = PFA_TARGET_PID;
	o.pid = (int32_t)getpid();
	if (pfa_new(&o, &s, &err) < 0 || pfa_start(s, &err) < 0 || pfa_stop(s, &err) < 0) {
		fprintf(stderr, "%s\n", err.message);
		return 1;
	}
	pfa_free(s);
	cmocka_set_message_output(CM_OUTPUT_TAP);
	failed = _cmocka_run_group_tests("tests", tests, n, NULL, NULL);
	(void)rmdir(folder);
	return failed;
}

#endif
