/* SPDX-License-Identifier: Apache-2.0 */
/* cli_children.c - CPU time of the children of the target, which only --follow-children profiles;
 * targets that are stopped */
#include "cli_priv.h"

#include <dirent.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
	CHILDREN_MAX = 4096, /* of all generations */
	BUSY_PCT = 5,        /* of a CPU, on average */
	CHILDREN_TEXT_MAX = 3072,
	STOPPED_SHOWN_MAX = 8,
};

struct cli_children {
	struct cli_process v[CHILDREN_MAX];
	size_t n;
	size_t n_targets; /* the first ones are the target itself */
};

/* Reads a file; what does not fit is left out. Returns false if it cannot be read. */
static bool read_text(const char *path, char *text, size_t size)
{
	FILE *f = fopen(path, "re");

	text[0] = '\0';
	if (!f)
		return false;
	text[fread(text, 1, size - 1, f)] = '\0';
	(void)fclose(f);
	return true;
}

static void add(struct cli_children *c, int32_t pid)
{
	for (size_t i = 0; i < c->n_targets; i++)
		if (c->v[i].pid == pid)
			return; /* it is profiled */
	if (c->n < CHILDREN_MAX && cli_process_read(pid, &c->v[c->n]) == 0)
		c->n++;
}

/* Adds the children of one thread. */
static void add_children(struct cli_children *c, int32_t pid, const char *tid)
{
	char path[NAME_MAX + 64], text[CHILDREN_TEXT_MAX];
	const char *p = text;
	uint64_t child;

	(void)snprintf(path, sizeof(path), "/proc/%" PRId32 "/task/%s/children", pid, tid);
	if (read_text(path, text, sizeof(text)))
		while ((child = cli_next_number(&p)) && child <= CLI_PID_MAX)
			add(c, (int32_t)child);
}

static void read_children(struct cli_children *c)
{
	for (size_t i = 0; i < c->n; i++) {
		char path[64];
		const struct dirent *e;
		DIR *dir;

		(void)snprintf(path, sizeof(path), "/proc/%" PRId32 "/task", c->v[i].pid);
		dir = opendir(path);
		while (dir && (e = readdir(dir)))
			if (e->d_name[0] != '.')
				add_children(c, c->v[i].pid, e->d_name);
		if (dir)
			(void)closedir(dir);
	}
}

struct cli_children *cli_children_new(const struct cli_options *o)
{
	struct cli_children *c;

	if (!o->pids.n || o->follow_children)
		return NULL;
	c = calloc(1, sizeof(*c));
	if (!c)
		return NULL; /* the report lacks a line then */
	for (size_t i = 0; i < o->pids.n; i++)
		add(c, o->pids.v[i]);
	c->n_targets = c->n;
	read_children(c);
	return c;
}

static const struct cli_process *find(const struct cli_children *c, const struct cli_process *child)
{
	for (size_t i = 0; i < c->n; i++)
		if (c->v[i].pid == child->pid && c->v[i].start == child->start)
			return &c->v[i];
	return NULL;
}

/* Returns the CPU time since @before of children that have ended. What a process used goes to its
 * parent as a whole when it ends, with what its own children had used. */
static uint64_t ended_ticks(const struct cli_children *before, const struct cli_children *now)
{
	uint64_t ticks = 0, earlier = 0;

	if (now->n_targets != before->n_targets)
		return 0; /* a target ended: its time may be in that of another one */
	for (size_t i = 0; i < now->n; i++)
		ticks += now->v[i].ended;
	for (size_t i = 0; i < before->n; i++) {
		earlier += before->v[i].ended;
		if (!find(now, &before->v[i]))
			earlier += before->v[i].ticks;
	}
	return ticks > earlier ? ticks - earlier : 0;
}

/* A statistic that cannot be added is missing from the verdict. */
static void add_statistic(struct pfa_session *s, const char *key, uint64_t value)
{
	char text[24];

	(void)snprintf(text, sizeof(text), "%" PRIu64, value);
	if (value)
		(void)pfa_add_statistic(s, key, text, NULL);
}

void cli_children_add(struct pfa_session *s, const struct cli_children *before,
                      const struct cli_options *o, uint64_t elapsed_ns)
{
	const uint64_t tick_ns = 1000000000 / (uint64_t)sysconf(_SC_CLK_TCK),
	               busy_ticks = elapsed_ns / 100 * BUSY_PCT / tick_ns + 1;
	struct cli_children *now = before ? cli_children_new(o) : NULL;
	uint64_t ticks, busy = 0;

	for (size_t i = now ? now->n_targets : 0; now && i < now->n; i++) {
		const struct cli_process *earlier = find(before, &now->v[i]);

		busy += now->v[i].ticks - (earlier ? earlier->ticks : 0) >= busy_ticks;
	}
	ticks = now ? ended_ticks(before, now) : 0;
	add_statistic(s, "busy_children", busy);
	if (ticks >= busy_ticks && elapsed_ns)
		add_statistic(s, "ended_children_cpu_pct",
		              (uint64_t)(100.0 * (double)(ticks * tick_ns) / (double)elapsed_ns));
	free(now);
}

/* ---- stopped targets ------------------------------------------------------------------------- */

size_t cli_stopped(const struct cli_options *o, char *ret, size_t size)
{
	const struct cli_numbers *list = o->pids.n ? &o->pids : &o->tids;
	size_t n = 0, len = 0;
	struct cli_process target;

	ret[0] = '\0';
	for (size_t i = 0; i < list->n; i++) {
		if (cli_process_read(list->v[i], &target) < 0 || target.state != 'T')
			continue;
		if (n++ < STOPPED_SHOWN_MAX && len < size)
			len += (size_t)snprintf(ret + len, size - len, "%s%" PRId32, len ? " " : "",
			                        list->v[i]);
	}
	if (n > STOPPED_SHOWN_MAX && len < size)
		(void)snprintf(ret + len, size - len, " ...");
	return n;
}
