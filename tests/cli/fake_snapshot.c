/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fake_snapshot.c - snapshots of the scripted library, fake_perfagent.c
 *
 *   FAKE_LIVE, FAKE_LIVE_OFF   functions of each snapshot, one a line: self cum module name…
 *   FAKE_LIVE_LAST             as FAKE_LIVE, of the snapshots since the last one; default: FAKE_LIVE
 *   FAKE_LIVE_OPEN             as FAKE_LIVE_OFF, with intervals that have not ended; default: FAKE_LIVE_OFF
 *                              WHERE of off-CPU sites is futex_wait, and one of several if the module is "several"
 *   FAKE_LIVE_TASKS            tasks, one a line: pid tid weight name…
 *   FAKE_LIVE_ABORT            "1": abort() in the first snapshot
 *   FAKE_SNAPSHOT              "<errno> <message>": pfa_snapshot fails so
 */
#include <perfagent/perfagent_snapshot.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
	LINES_MAX = 64,
};

struct pfa_profile {
	uint32_t kind;
	char *text[2]; /* functions, tasks: with a NUL after each line */
	const char *line[2][LINES_MAX];
	size_t n[2];
	char modules[LINES_MAX][64];
};

static int split(struct pfa_profile *p, size_t i, const char *name)
{
	const char *text = getenv(name);
	char *rest;

	p->text[i] = rest = strdup(text ? text : "");
	if (!rest)
		return -ENOMEM;
	for (char *line; (line = strsep(&rest, "\n")) && p->n[i] < LINES_MAX;)
		if (*line)
			p->line[i][p->n[i]++] = line;
	return 0;
}

int pfa_snapshot(struct pfa_session *s, uint32_t kind, uint32_t flags, struct pfa_profile **ret,
                 struct pfa_error *err)
{
	const char *script = getenv("FAKE_SNAPSHOT");
	struct pfa_profile *p;
	char *message;
	int code;

	(void)s;
	if (getenv("FAKE_LIVE_ABORT"))
		abort();
	if (script) {
		code = (int)strtol(script, &message, 10);
		(void)snprintf(err->message, sizeof(err->message), "%s",
		               *message ? message + 1 : "");
		return -code;
	}
	p = calloc(1, sizeof(*p));
	if (!p)
		return -ENOMEM;
	p->kind = kind;
	if (split(p, 0,
	          kind == PFA_KIND_ONCPU && flags & PFA_SNAPSHOT_SINCE_LAST &&
	                          getenv("FAKE_LIVE_LAST")
	                  ? "FAKE_LIVE_LAST"
	          : kind == PFA_KIND_ONCPU                                ? "FAKE_LIVE"
	          : flags & PFA_SNAPSHOT_OPEN && getenv("FAKE_LIVE_OPEN") ? "FAKE_LIVE_OPEN"
	                                                                  : "FAKE_LIVE_OFF") < 0 ||
	    split(p, 1, "FAKE_LIVE_TASKS") < 0) {
		pfa_profile_free(p);
		return -ENOMEM;
	}
	*ret = p;
	return 0;
}

void pfa_profile_free(struct pfa_profile *p)
{
	if (!p)
		return;
	free(p->text[0]);
	free(p->text[1]);
	free(p);
}

/* Parses a function. */
static void function_of(const struct pfa_profile *p, size_t i, struct pfa_function *ret)
{
	unsigned long long self = 0, cum = 0;
	int at = 0;

	(void)sscanf(p->line[0][i], "%llu %llu %63s %n", &self, &cum,
	             (char *)(uintptr_t)p->modules[i], &at);
	*ret = (struct pfa_function){
	        .name = p->line[0][i] + at, .module = p->modules[i], .self = self, .cum = cum};
}

int pfa_profile_totals(const struct pfa_profile *p, struct pfa_profile_totals *ret)
{
	struct pfa_function f;

	*ret = (struct pfa_profile_totals){
	        .size = sizeof(*ret), .kind = p->kind, .samples = 100, .duration_ns = 1000000000};
	for (size_t i = 0; i < p->n[0]; i++) {
		function_of(p, i, &f);
		ret->weight += f.self;
	}
	return 0;
}

int pfa_profile_top(const struct pfa_profile *p, uint32_t order, struct pfa_function *ret,
                    size_t max)
{
	size_t i;

	(void)order;
	for (i = 0; i < p->n[0] && i < max; i++)
		function_of(p, i, &ret[i]);
	return (int)i;
}

int pfa_profile_callers(const struct pfa_profile *p, const char *const *path,
                        struct pfa_function *ret, size_t max)
{
	(void)p;
	(void)max;
	ret[0] = (struct pfa_function){.name = "", .module = "", .self = 1, .cum = 1};
	if (!path[0])
		return -EINVAL;
	if (!path[1])
		ret[0] = (struct pfa_function){
		        .name = "a_caller", .module = "/bin/made-up", .self = 7, .cum = 7};
	return 1;
}

static int tasks(const struct pfa_profile *p, int threads, struct pfa_task *ret, size_t max)
{
	size_t i;

	for (i = 0; i < p->n[1] && i < max; i++) {
		unsigned long long weight = 0;
		unsigned int pid = 0, tid = 0;
		int at = 0;

		(void)sscanf(p->line[1][i], "%u %u %llu %n", &pid, &tid, &weight, &at);
		ret[i] = (struct pfa_task){.pid = pid,
		                           .tid = threads ? tid : 0,
		                           .comm = p->line[1][i] + at,
		                           .samples = 1,
		                           .weight = weight};
	}
	return (int)i;
}

int pfa_profile_processes(const struct pfa_profile *p, struct pfa_task *ret, size_t max)
{
	return tasks(p, 0, ret, max);
}

int pfa_profile_threads(const struct pfa_profile *p, struct pfa_task *ret, size_t max)
{
	return tasks(p, 1, ret, max);
}

int pfa_profile_offcpu_sites(const struct pfa_profile *p, struct pfa_offcpu_site *ret, size_t max)
{
	size_t i;

	if (p->kind != PFA_KIND_OFFCPU)
		return -EINVAL;
	for (i = 0; i < p->n[0] && i < max; i++) {
		struct pfa_function f;

		function_of(p, i, &f);
		ret[i] = (struct pfa_offcpu_site){.name = f.name,
		                                  .module = f.module,
		                                  .where = "futex_wait",
		                                  .where_cnt = strcmp(f.module, "several") ? 1 : 2,
		                                  .offcpu_ns = f.self,
		                                  .intervals = 3};
	}
	return (int)i;
}

/* The file: kind, number of profiles, format, then the filters, one a line. */
int pfa_profiles_write(const struct pfa_profile *const *p, size_t n, const char *const *focus,
                       uint32_t format, const struct pfa_output *to, struct pfa_error *err)
{
	FILE *f = fopen(to->path, "we");

	if (!f) {
		(void)snprintf(err->message, sizeof(err->message), "cannot write %s", to->path);
		return -errno;
	}
	(void)fprintf(f, "fake snapshot %u %zu %u\n", p[0]->kind, n, format);
	for (; *focus; focus++)
		(void)fprintf(f, "%s\n", *focus);
	(void)fclose(f);
	return 0;
}
