/* SPDX-License-Identifier: Apache-2.0 */
/* The CPUs of the machine and their core types, from sysfs or a tree of the same shape. */
#include "proc/proc_priv.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>

#define CPU_DIR "devices/system/cpu"
#define PMU_DIR "bus/event_source/devices"
/* Entries read at most: a machine of eight sockets has about 1,500 PMUs outside of cores. */
#define PMU_ENTRIES_MAX 16384
#define PMU_PATH_SIZE   (NAME_MAX + sizeof("/cpumask"))
#define CANDIDATES_MAX  64 /* core PMUs; no machine has more than three */
#define NUMBER_MAX      32 /* bytes of a file with one number */
#define NOTES_MAX       32

/* A PMU that has a list of CPUs, or is "cpu". */
struct candidate {
	char name[PROC_PMU_NAME_SIZE];
	uint32_t perf_type;
	uint32_t first; /* lowest CPU; UINT32_MAX: "cpu", which takes what the others leave */
	uint64_t set[PROC_CPUS_MAX / 64];
};

struct reader {
	struct proc_cpus *c;
	uint32_t *list; /* list[PROC_CPUS_MAX], scratch */
	VEC(struct candidate) pmus;
};

static void reader_done(struct reader *r)
{
	free(r->list);
	vec_done(&r->pmus);
}

static bool has(const uint64_t *set, uint32_t cpu)
{
	return set[cpu / 64] >> cpu % 64 & 1;
}

static void add(uint64_t *set, uint32_t cpu)
{
	set[cpu / 64] |= 1ULL << cpu % 64;
}

/* Text that does not fit, or finds no memory, is lost: it is only a message. */
PRINTF_FMT(2, 3)
static void note(struct proc_cpus *c, const char *fmt, ...)
{
	char *text = NULL;
	va_list ap;
	int r;

	va_start(ap, fmt);
	r = vasprintf(&text, fmt, ap);
	va_end(ap);
	if (r < 0)
		return;
	if (vec_push(&c->notes, text) < 0)
		free(text);
}

/* ---- lists ---------------------------------------------------------------------------------- */

static int read_online(struct reader *r, int root, struct err *err)
{
	struct proc_cpus *c = r->c;
	int n = proc_cpu_list_read(root, CPU_DIR "/online", r->list, PROC_CPUS_MAX, PROC_CPUS_MAX,
	                           err);

	if (n < 0)
		return n;
	if (n == 0)
		return err_set(err, -EINVAL, CPU_DIR "/online: EINVAL: the list is empty");
	c->cpu = calloc((size_t)n, sizeof(*c->cpu));
	c->core_type = calloc((size_t)n, sizeof(*c->core_type));
	if (!c->cpu || !c->core_type)
		return err_set(err, -ENOMEM, CPU_DIR "/online: ENOMEM");
	memcpy(c->cpu, r->list, (size_t)n * sizeof(*c->cpu));
	c->n = (uint32_t)n;
	for (uint32_t i = 0; i < c->n; i++)
		c->core_type[i] = PROC_CORE_TYPE_NONE;
	return 0;
}

/* "present", not "possible": a virtual machine has room for CPUs that it does not have. */
static void count_offline(struct reader *r, int root)
{
	struct proc_cpus *c = r->c;
	struct err err = {0};
	int n = proc_cpu_list_read(root, CPU_DIR "/present", r->list, PROC_CPUS_MAX, PROC_CPUS_MAX,
	                           &err);

	if (n == -ENOENT)
		n = proc_cpu_list_read(root, CPU_DIR "/possible", r->list, PROC_CPUS_MAX,
		                       PROC_CPUS_MAX, &err);
	if (n < 0) {
		note(c, "%s: offline CPUs are not known", err.msg);
		return;
	}
	/* Both ascend. */
	for (uint32_t i = 0, k = 0; i < (uint32_t)n; i++) {
		while (k < c->n && c->cpu[k] < r->list[i])
			k++;
		c->offline_cnt += k == c->n || c->cpu[k] != r->list[i];
	}
}

/* ---- PMUs ----------------------------------------------------------------------------------- */

static bool name_is_sane(const char *name)
{
	static const char known[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
	                            "0123456789_-.:";

	return strlen(name) < PROC_PMU_NAME_SIZE && name[strspn(name, known)] == '\0';
}

static int read_perf_type(int dir, const char *name, uint32_t *ret, struct err *err)
{
	_cleanup_(sbuf_done) struct sbuf b;
	char path[PMU_PATH_SIZE];
	uint64_t v;
	int r;

	sbuf_init(&b, NUMBER_MAX);
	(void)snprintf(path, sizeof(path), "%s/type", name); /* NAME_MAX fits */
	r = file_read_all(dir, path, &b, err);
	if (r < 0)
		return r;
	if (b.p)
		b.p[strcspn(b.p, "\n")] = '\0';
	/* The kernel's number is an int; 0 is PERF_TYPE_HARDWARE, which is no PMU. */
	if (parse_u64(b.p ? b.p : "", 10, &v) < 0 || v == 0 || v > INT32_MAX)
		return err_set(err, -EINVAL, "%s: EINVAL: no number of a PMU", path);
	*ret = (uint32_t)v;
	return 0;
}

/* Takes it if it is that of cores. -ENOMEM; other troubles are noted. */
static int look_at_pmu(struct reader *r, int dir, const char *name)
{
	struct candidate c = {.first = UINT32_MAX};
	char path[PMU_PATH_SIZE];
	struct err err = {0};
	int n;

	if (strlen(name) > NAME_MAX)
		return 0;
	(void)snprintf(path, sizeof(path), "%s/cpumask", name);
	if (faccessat(dir, path, F_OK, 0) == 0)
		return 0;
	(void)snprintf(path, sizeof(path), "%s/cpus", name);
	n = proc_cpu_list_read(dir, path, r->list, PROC_CPUS_MAX, PROC_CPUS_MAX, &err);
	if (n == -ENOENT && strcmp(name, "cpu") != 0)
		return 0;
	if (!name_is_sane(name)) {
		note(r->c, "a PMU with %zu characters, or odd ones, in its name is ignored",
		     strlen(name));
		return 0;
	}
	(void)str_copy(c.name, sizeof(c.name), name); /* fits */
	if ((n >= 0 || n == -ENOENT) && read_perf_type(dir, name, &c.perf_type, &err) < 0)
		n = err.code;
	else if (n == -ENOENT)
		n = 0;
	else if (n == 0)
		n = err_set(&err, -EINVAL, "%s: EINVAL: the list is empty", path);
	else if (n > 0)
		c.first = r->list[0];
	if (n == -ENOMEM)
		return n;
	if (n < 0) {
		note(r->c, "PMU %s is ignored: %s", name, err.msg);
		return 0;
	}
	for (int i = 0; i < n; i++)
		add(c.set, r->list[i]);
	n = vec_push(&r->pmus, c);
	if (n == -E2BIG) {
		note(r->c, "PMU %s is ignored: E2BIG: more than %d for CPUs", name, CANDIDATES_MAX);
		return 0;
	}
	return n;
}

static int read_pmus(struct reader *r, int root)
{
	struct dirent *e;
	DIR *d;
	int fd, code = 0;

	fd = openat(root, PMU_DIR, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	d = fd < 0 ? NULL : fdopendir(fd);
	if (!d) {
		note(r->c, "open " PMU_DIR ": %s: core types are not known", err_name(errno));
		closep(&fd);
		return 0;
	}
	for (unsigned int i = 0; code == 0 && (errno = 0, e = readdir(d)) != NULL; i++) {
		if (i == PMU_ENTRIES_MAX) {
			note(r->c, PMU_DIR ": E2BIG: more than %d entries: the rest is ignored",
			     PMU_ENTRIES_MAX);
			break;
		}
		if (e->d_name[0] != '.')
			code = look_at_pmu(r, dirfd(d), e->d_name);
	}
	if (!e && errno != 0)
		note(r->c, "read " PMU_DIR ": %s", err_name(errno));
	(void)closedir(d); /* only read from */
	return code;
}

/* ---- types ---------------------------------------------------------------------------------- */

/* The order of a directory is none. */
static int by_first_cpu(const void *a, const void *b)
{
	const struct candidate *x = a, *y = b;

	if (x->first != y->first)
		return (x->first > y->first) - (x->first < y->first);
	return strcmp(x->name, y->name);
}

static const char *owner_of_type(const struct proc_cpus *c, uint32_t perf_type)
{
	for (uint32_t t = 0; t < c->n_types; t++)
		if (c->types[t].perf_type == perf_type)
			return c->types[t].name;
	return NULL;
}

/* The CPUs that a PMU lists and no type has yet. */
static void make_type(struct proc_cpus *c, const struct candidate *p)
{
	bool rest = p->first == UINT32_MAX;
	const char *same = owner_of_type(c, p->perf_type);
	struct proc_core_type *t = &c->types[c->n_types];
	uint32_t twice = 0, free_cnt = 0;

	if (same) {
		note(c, "PMU %s is ignored: it has the number of %s", p->name, same);
		return;
	}
	for (uint32_t i = 0; i < c->n; i++) {
		if (!rest && !has(p->set, c->cpu[i]))
			continue;
		free_cnt += c->core_type[i] == PROC_CORE_TYPE_NONE;
		twice += c->core_type[i] != PROC_CORE_TYPE_NONE;
	}
	if (!rest && twice > 0)
		note(c, "PMU %s: %u of its CPUs belong to another PMU already", p->name, twice);
	if (free_cnt == 0) {
		note(c, "PMU %s is left out: none of its CPUs is online", p->name);
		return;
	}
	if (c->n_types == PROC_CORE_TYPES_MAX) {
		note(c, "PMU %s is ignored: more than %d core types: %u CPUs have no counters",
		     p->name, PROC_CORE_TYPES_MAX, free_cnt);
		return;
	}
	memcpy(t->name, p->name, sizeof(t->name));
	t->perf_type = p->perf_type;
	for (uint32_t i = 0; i < PROC_CPUS_MAX && !rest; i++) {
		bool taken = false;

		for (uint32_t k = 0; k < c->n_types; k++)
			taken |= has(c->types[k].set, i);
		if (has(p->set, i) && !taken)
			add(t->set, i);
	}
	for (uint32_t i = 0; i < c->n; i++) {
		if (c->core_type[i] != PROC_CORE_TYPE_NONE || (!rest && !has(p->set, c->cpu[i])))
			continue;
		c->core_type[i] = c->n_types;
		add(t->set, c->cpu[i]);
		t->online_cnt++;
	}
	c->n_types++;
}

static void make_types(struct reader *r)
{
	static const struct candidate none = {.perf_type = PROC_PMU_TYPE_NONE, .first = UINT32_MAX};
	struct proc_cpus *c = r->c;

	if (r->pmus.n > 0)
		qsort(r->pmus.p, r->pmus.n, sizeof(*r->pmus.p), by_first_cpu);
	vec_each (p, &r->pmus)
		make_type(c, p);
	if (c->n_types == 0)
		make_type(c, &none);
	for (uint32_t i = 0; i < c->n; i++)
		c->untyped_cnt += c->core_type[i] == PROC_CORE_TYPE_NONE;
	if (c->untyped_cnt > 0)
		note(c, "%u CPUs belong to no core type that is known", c->untyped_cnt);
}

int proc_cpus_read(const char *sysfs, struct proc_cpus **ret, struct err *err)
{
	_cleanup_(proc_cpus_freep) struct proc_cpus *c = calloc(1, sizeof(*c));
	_cleanup_(reader_done) struct reader r = {.pmus = VEC_INIT(CANDIDATES_MAX)};
	_cleanup_close_ int root = -EBADF;
	int code;

	r.c = c;
	r.list = calloc(PROC_CPUS_MAX, sizeof(*r.list));
	if (!c || !r.list)
		return err_set(err, -ENOMEM, "CPUs: ENOMEM");
	c->notes.max = NOTES_MAX;
	root = open(sysfs, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (root < 0) {
		code = -errno;
		return err_set(err, code, "open %s: %s", sysfs, err_name(code));
	}
	code = read_online(&r, root, err);
	if (code < 0)
		return code;
	count_offline(&r, root);
	code = read_pmus(&r, root);
	if (code < 0)
		return err_set(err, code, PMU_DIR ": %s", err_name(code));
	make_types(&r);
	*ret = TAKE_PTR(c);
	return 0;
}

struct proc_cpus *proc_cpus_free(struct proc_cpus *c)
{
	if (!c)
		return NULL;
	vec_each (n, &c->notes)
		free(*n);
	vec_done(&c->notes);
	free(c->cpu);
	free(c->core_type);
	free(c);
	return NULL;
}

void proc_cpus_freep(struct proc_cpus **c)
{
	*c = proc_cpus_free(*c);
}
