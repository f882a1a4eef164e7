/* SPDX-License-Identifier: Apache-2.0 */
/* cli_process.c - processes of /proc: those that have a name, and the descendants of one */
#include "cli_priv.h"

#include <dirent.h>
#include <errno.h>
#include <fnmatch.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

enum {
	COMM_BYTES = 15, /* of a process's name in the kernel, without its NUL */
	PIDS_SAID = 8,   /* of those that a name has found */
	STAT_MAX = 1024, /* bytes */
	/* Fields of /proc/PID/stat, proc(5). */
	STAT_PARENT = 4,
	STAT_FLAGS = 9,
	STAT_UTIME = 14,
	STAT_CUTIME = 16, /* of children that ended and were waited for */
	STAT_START = 22,
};

/* Bit of the flags: of a kernel thread. */
#define FLAG_KTHREAD 0x200000u

uint64_t cli_next_number(const char **p)
{
	uint64_t v = 0;
	const char *s = *p + strspn(*p, " ");

	for (; *s >= '0' && *s <= '9'; s++)
		v = v * 10 + (uint64_t)(*s - '0');
	*p = s + strcspn(s, " ");
	return v;
}

int cli_process_read(int32_t pid, struct cli_process *ret)
{
	struct cli_process p = {.pid = pid};
	uint64_t field[STAT_START + 1] = {0};
	char path[64], text[STAT_MAX], *open, *close;
	const char *rest;
	size_t n = 0;
	FILE *f;

	(void)snprintf(path, sizeof(path), "/proc/%d/stat", pid);
	f = fopen(path, "re");
	if (f) {
		n = fread(text, 1, sizeof(text) - 1, f);
		fclose(f);
	}
	text[n] = '\0';
	/* "1 (name) S 0 …"; the name may have any character. */
	open = strchr(text, '(');
	close = strrchr(text, ')');
	if (!open || !close || close < open || close[1] != ' ' || !close[2] || close[3] != ' ')
		return -ENOENT;
	*close = '\0';
	(void)snprintf(p.comm, sizeof(p.comm), "%s", open + 1); /* fits */
	p.state = close[2];
	rest = close + 3;
	for (int i = STAT_PARENT; i <= STAT_START; i++)
		field[i] = cli_next_number(&rest);
	p.parent = (int32_t)field[STAT_PARENT];
	p.kthread = field[STAT_FLAGS] & FLAG_KTHREAD;
	p.start = field[STAT_START];
	p.ticks = field[STAT_UTIME] + field[STAT_UTIME + 1];
	p.ended = field[STAT_CUTIME] + field[STAT_CUTIME + 1];
	*ret = p;
	return 0;
}

/* Returns the number of a directory of /proc that is a process; 0: it is none. */
static int32_t read_pid(const char *name)
{
	uint64_t n;

	return cli_parse_u64(name, &n) < 0 || n > CLI_PID_MAX ? 0 : (int32_t)n;
}

int cli_numbers_add(struct cli_numbers *list, int32_t number)
{
	int32_t *v;

	for (size_t i = 0; i < list->n; i++)
		if (list->v[i] == number)
			return 0;
	if (list->n == PFA_PIDS_MAX)
		return -E2BIG;
	v = reallocarray(list->v, list->n + 2, sizeof(*v));
	if (!v)
		return -ENOMEM;
	v[list->n++] = number;
	v[list->n] = 0;
	list->v = v;
	return 0;
}

/* The kernel keeps the first bytes of a name: what is cut there is not compared. */
static bool has_name(const struct cli_process *p, const char *name)
{
	if (p->state == 'Z' || p->kthread || p->pid == (int32_t)getpid())
		return false;
	return !fnmatch(name, p->comm, 0) ||
	       (strlen(p->comm) == COMM_BYTES && !strncmp(name, p->comm, COMM_BYTES));
}

static void say_found(const char *name, const struct cli_numbers *found)
{
	char text[CLI_MESSAGE_MAX] = "";
	size_t shown = found->n > PIDS_SAID ? PIDS_SAID : found->n;

	for (size_t i = 0; i < shown; i++) {
		size_t len = strlen(text);

		(void)snprintf(text + len, sizeof(text) - len, "%s%d", i ? ", " : "",
		               found->v[i]); /* fits */
	}
	if (found->n > shown) {
		size_t len = strlen(text);

		(void)snprintf(text + len, sizeof(text) - len, " and %zu more", found->n - shown);
	}
	cli_say("--pid %s: %s %s", name, found->n == 1 ? "process" : "processes", text);
}

/* Finds the processes with one name. Returns 0 or a negative errno, of cli_numbers_add or of /proc. */
static int find_named(const char *name, struct cli_numbers *found)
{
	struct cli_process p;
	struct dirent *entry;
	int32_t pid;
	int rc = 0;
	DIR *dir;

	dir = opendir("/proc");
	if (!dir)
		return -errno;
	while (rc == 0 && (entry = readdir(dir))) {
		pid = read_pid(entry->d_name);
		if (pid && cli_process_read(pid, &p) == 0 && has_name(&p, name))
			rc = cli_numbers_add(found, pid);
	}
	closedir(dir);
	return rc;
}

int cli_pids_find(struct cli_options *o)
{
	for (size_t i = 0; i < o->pid_names.n; i++) {
		const char *name = o->pid_names.v[i];
		struct cli_numbers found = {NULL, 0};
		int rc = find_named(name, &found);

		if (rc == 0 && found.n)
			say_found(name, &found);
		for (size_t k = 0; k < found.n && rc == 0; k++)
			rc = cli_numbers_add(&o->pids, found.v[k]);
		free(found.v);
		if (rc == -E2BIG)
			cli_say("--pid %s: more than %d processes; use -a --comm '%s'", name,
			        PFA_PIDS_MAX, name);
		else if (rc < 0)
			cli_say("--pid %s: cannot search /proc: %s", name, cli_error(-rc));
		else if (!found.n)
			cli_say("--pid %s: no process has this name; ps -e -o pid,comm lists names",
			        name);
		if (rc < 0 || !found.n)
			return CLI_FAILED;
	}
	return CLI_DONE;
}

/* Whether one of the first @n processes of @tree is the parent. */
static bool is_in(const int32_t *tree, size_t n, int32_t parent)
{
	for (size_t i = 0; i < n; i++)
		if (tree[i] == parent)
			return true;
	return false;
}

/* Adds the children of the processes in @tree. Returns the new number of processes. */
static size_t add_children(int32_t *tree, size_t n, size_t max)
{
	struct cli_process p;
	struct dirent *entry;
	DIR *dir;

	dir = opendir("/proc");
	while (dir && n < max && (entry = readdir(dir))) {
		int32_t pid = read_pid(entry->d_name);

		if (pid && cli_process_read(pid, &p) == 0 && is_in(tree, n, p.parent) &&
		    !is_in(tree, n, pid))
			tree[n++] = pid;
	}
	if (dir)
		closedir(dir);
	return n;
}

size_t cli_process_tree(int32_t pid, int *ret, size_t max)
{
	size_t n = 1, before = 0, opened = 0;
	struct cli_process p;
	int32_t *tree;

	tree = max ? calloc(max, sizeof(*tree)) : NULL;
	if (!tree)
		return 0;
	tree[0] = pid;
	/* Numbers of children are not always above those of their parents: until nothing is new. */
	for (; n > before && n < max;) {
		before = n;
		n = add_children(tree, n, max);
	}
	for (size_t i = 0; i < n; i++) {
		int fd = (int)syscall(SYS_pidfd_open, tree[i], 0);

		/* The number may have been reused before it was opened. */
		if (fd >= 0 &&
		    (i == 0 || (cli_process_read(tree[i], &p) == 0 && is_in(tree, n, p.parent))))
			ret[opened++] = fd;
		else if (fd >= 0)
			close(fd);
	}
	free(tree);
	return opened;
}
