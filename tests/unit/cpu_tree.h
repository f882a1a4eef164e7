/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cpu-tree - a tree that looks like sysfs
 */
#ifndef PA_TEST_CPU_TREE_H
#define PA_TEST_CPU_TREE_H

#include "proc/proc_priv.h"
#include <setjmp.h>
#include <stdarg.h>
#include <cmocka.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <sys/stat.h>
#include "bpf/abi/abi_sched.h"

#define CPU  "devices/system/cpu/"
#define PMUS "bus/event_source/devices/"

static char tmp_dir[] = "/tmp/test-proc-cpu-XXXXXX";
static char tree[64]; /* of the test that runs */

/* ---- trees ----------------------------------------------------------------------------------- */

/* A file and the directories above it. */
static inline void file_n(const char *path, const char *text, size_t len)
{
	char full[512];
	int fd;

	assert_true(snprintf(full, sizeof(full), "%s/%s", tree, path) < (int)sizeof(full));
	for (char *p = full + strlen(tree) + 1; (p = strchr(p, '/')) != NULL; p++) {
		*p = '\0';
		assert_true(mkdir(full, 0700) == 0 || errno == EEXIST);
		*p = '/';
	}
	fd = open(full, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	assert_true(fd >= 0);
	assert_int_equal(file_write_full(fd, text, len), 0);
	assert_int_equal(close(fd), 0);
}

static inline void file(const char *path, const char *text)
{
	file_n(path, text, strlen(text));
}

static inline void cpu_lists(const char *possible, const char *present, const char *online)
{
	file(CPU "possible", possible);
	file(CPU "present", present);
	file(CPU "online", online);
}

/* @cpus, @type: NULL: there is no such file */
static inline void pmu(const char *name, const char *cpus, const char *type)
{
	char path[400];

	snprintf(path, sizeof(path), PMUS "%s/type", name);
	if (type)
		file(path, type);
	snprintf(path, sizeof(path), PMUS "%s/cpus", name);
	if (cpus)
		file(path, cpus);
}

static inline int remove_one(const char *path, const struct stat *st, int flag, struct FTW *ftw)
{
	(void)st;
	(void)flag;
	(void)ftw;
	return remove(path);
}

static inline int setup(void **state)
{
	static unsigned int nr;

	(void)state;
	snprintf(tree, sizeof(tree), "%s/%u", tmp_dir, nr++);
	return mkdir(tree, 0700);
}

static inline int teardown(void **state)
{
	(void)state;
	return nftw(tree, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

static inline struct proc_cpus *read_tree(void)
{
	struct proc_cpus *c = NULL;
	struct err err = {0};

	if (proc_cpus_read(tree, &c, &err) < 0)
		fail_msg("%s", err.msg);
	for (uint32_t i = 1; i < c->n; i++)
		assert_true(c->cpu[i - 1] < c->cpu[i]);
	return c;
}

static inline void assert_type(const struct proc_cpus *c, uint32_t t, const char *name,
                               uint32_t perf_type, uint32_t online_cnt)
{
	assert_true(t < c->n_types);
	assert_string_equal(c->types[t].name, name);
	assert_int_equal(c->types[t].perf_type, perf_type);
	assert_int_equal(c->types[t].online_cnt, online_cnt);
}

/* Type of a CPU that is online. */
static inline uint32_t type_of(const struct proc_cpus *c, uint32_t cpu)
{
	for (uint32_t i = 0; i < c->n; i++)
		if (c->cpu[i] == cpu)
			return c->core_type[i];
	fail_msg("CPU %u is not online", cpu);
	return 0;
}

static inline bool in_set(const struct proc_core_type *t, uint32_t cpu)
{
	return t->set[cpu / 64] >> cpu % 64 & 1;
}

static inline void assert_note(const struct proc_cpus *c, const char *words)
{
	for (size_t i = 0; i < c->notes.n; i++)
		if (strstr(c->notes.p[i], words))
			return;
	fail_msg("no note has \"%s\" (%zu notes, first: %s)", words, c->notes.n,
	         c->notes.n ? c->notes.p[0] : "");
}

#endif
