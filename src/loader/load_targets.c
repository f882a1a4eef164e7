/* SPDX-License-Identifier: Apache-2.0 */
/* Target and filters: numbers of our pid namespace to the keys that the kernel side compares. */
#include "loader/load_priv.h"

#include <signal.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "bpf/oncpu_skel.h"

/* Scans for children of children; each further one finds those that were forked during the one
 * before. */
#define CHILD_ROUNDS 16

static int cmp_u32(const void *a, const void *b)
{
	uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

	return (x > y) - (x < y);
}

/* Returns the index in v[n], ascending; -1: it is not there. */
static int64_t find_u32(const uint32_t *v, uint32_t n, uint32_t what)
{
	const uint32_t *p = n ? bsearch(&what, v, n, sizeof(*v), cmp_u32) : NULL;

	return p ? p - v : -1;
}

struct find_task {
	uint32_t tgid;
	bool found;
	struct abi_task task;
};

static void find_task(void *arg, const struct abi_task *t)
{
	struct find_task *f = arg;

	if (t->tgid == f->tgid) {
		f->task = *t;
		f->found = true;
	}
}

int load_target(struct load_oncpu *l, uint32_t tgid)
{
	struct find_task f = {.tgid = tgid};
	int r = load_tasks(l, find_task, &f);

	if (r < 0)
		return r;
	if (!f.found)
		return -ESRCH;
	load_control(l)->target_start_ns = f.task.start_ns;
	return 0;
}

/* ---- several processes, and what they fork --------------------------------------------------- */

struct task {
	uint32_t tgid, ppid; /* the kernel's numbers */
	enum {
		IS_UNKNOWN = 0,
		IS_ON_PATH, /* on the path to a root that is walked now */
		IS_FOLLOWED,
		IS_FOREIGN,
	} is;
	uint64_t start_ns;
};

/* The result of one scan of all processes. */
struct scan {
	const struct load_procs *p;
	VEC(struct task) v;
	uint8_t *found; /* found[p->n] */
	int error;
};

static void on_task(void *arg, const struct abi_task *t)
{
	struct scan *k = arg;
	int64_t at = find_u32(k->p->tgids, k->p->n, t->tgid);
	struct task new = {.tgid = t->kernel_tgid,
	                   .ppid = t->kernel_ppid,
	                   .start_ns = t->start_ns,
	                   .is = at < 0 ? IS_UNKNOWN : IS_FOLLOWED};
	int r;

	if (at < 0 && !k->p->existing)
		return;
	if (at >= 0)
		k->found[at] = 1;
	r = vec_push(&k->v, new);
	if (r < 0)
		k->error = r;
}

static int cmp_task(const void *a, const void *b)
{
	return cmp_u32(&((const struct task *)a)->tgid, &((const struct task *)b)->tgid);
}

static struct task *parent_of(const struct scan *k, const struct task *t)
{
	struct task key = {.tgid = t->ppid};

	return bsearch(&key, k->v.p, k->v.n, sizeof(key), cmp_task);
}

/* Follows those whose parent is followed. Each task is walked over twice, whatever their order. */
static void find_children(struct scan *k)
{
	if (k->v.n)
		qsort(k->v.p, k->v.n, sizeof(*k->v.p), cmp_task);
	vec_each (t, &k->v) {
		struct task *up = t, *next;

		while (up && up->is == IS_UNKNOWN) {
			up->is = IS_ON_PATH;
			up = parent_of(k, up);
		}
		/* Numbers that the kernel reused meanwhile may make a circle. */
		bool followed = up && up->is == IS_FOLLOWED;

		for (up = t; up && up->is == IS_ON_PATH; up = next) {
			next = parent_of(k, up);
			up->is = followed ? IS_FOLLOWED : IS_FOREIGN;
		}
	}
}

/* Adds the followed tasks to the table. Returns how many it did not have, or negative errno. */
static int put_tasks(struct load_oncpu *l, struct scan *k)
{
	int fd = bpf_map__fd(l->skel->maps.followed), added = 0;

	vec_each (t, &k->v) {
		int r;

		if (t->is != IS_FOLLOWED)
			continue;
		r = bpf_map_update_elem(fd, &t->tgid, &t->start_ns, BPF_NOEXIST);
		if (r < 0 && r != -EEXIST)
			return r;
		added += r == 0;
	}
	return added;
}

/* Adds processes that exist but that the iterator does not show: seen on a virtual machine, of its
 * pid 1. They are sampled by number alone. Returns how many of all exist, or -ENOMEM. */
static int add_hidden(const struct load_oncpu *l, struct scan *k)
{
	int there = 0, r;

	for (uint32_t i = 0; i < k->p->n; i++) {
		struct task t = {.tgid = k->p->tgids[i], .is = IS_FOLLOWED};

		there += k->found[i];
		if (k->found[i] || l->skel->rodata->cfg.nested_ns ||
		    (kill((pid_t)t.tgid, 0) < 0 && errno != EPERM))
			continue;
		r = vec_push(&k->v, t);
		if (r < 0)
			return r;
		there++;
	}
	return there;
}

/* Scans all tasks and adds the followed ones. @roots: the processes themselves only, else also
 * their descendants. Returns how many are new, or negative errno. */
static int scan_and_put(struct load_oncpu *l, const struct load_procs *p, bool roots)
{
	struct load_procs only = *p;
	struct scan k = {.p = &only, .v = {.max = UINT32_MAX}};
	int r;

	only.existing = !roots;
	k.found = calloc(MAX_OF(p->n, 1U), 1);
	if (!k.found)
		return -ENOMEM;
	r = load_tasks(l, on_task, &k);
	if (r == 0)
		r = k.error;
	if (r == 0)
		r = add_hidden(l, &k);
	if (r == 0 && roots)
		r = -ESRCH;
	if (r >= 0 && !roots)
		find_children(&k);
	if (r >= 0)
		r = put_tasks(l, &k);
	vec_done(&k.v);
	free(k.found);
	return r;
}

static int attach_fork(struct load_oncpu *l, struct err *err)
{
	struct bpf_program *progs[] = {l->skel->progs.follow_fork, l->skel->progs.follow_free};

	int r = 0;

	for (size_t i = 0; i < ARRAY_SIZE(progs) && r == 0; i++)
		r = load_attach_tracepoint(&l->links, progs[i], err);
	return r;
}

int load_follow(struct load_oncpu *l, const struct load_procs *p, struct err *err)
{
	size_t before = l->links.v.n;
	int r = 0;

	if (l->skel->rodata->cfg.follow)
		r = attach_fork(l, err);
	if (r == 0) {
		r = scan_and_put(l, p, true);
		for (int i = 0; i < CHILD_ROUNDS && r >= 0 && p->existing; i++) {
			r = scan_and_put(l, p, false);
			if (r == 0)
				break;
		}
		if (r < 0)
			r = err_set(err, r, "cannot add process %u%s to the BPF map of targets: %s",
			            p->n ? p->tgids[0] : 0, p->n > 1 ? " and others" : "",
			            err_name(r));
	}
	/* On 5.10 and 6.1 a program that is attached cannot be attached once more: EEXIST. */
	if (r < 0)
		load_close_links(&l->links, before);
	return MIN_OF(r, 0);
}

/* ---- filters --------------------------------------------------------------------------------- */

struct threads {
	struct load_oncpu *l;
	const uint32_t *tids;
	uint32_t n;
	uint8_t *found; /* found[n] */
	int error;
};

static void on_thread(void *arg, const struct abi_task *t)
{
	struct threads *k = arg;
	int64_t at = find_u32(k->tids, k->n, t->tid);
	int r;

	if (at < 0)
		return;
	k->found[at] = 1;
	r = bpf_map_update_elem(bpf_map__fd(k->l->skel->maps.tids), &t->kernel_tid, &t->start_ns,
	                        BPF_ANY);
	if (r < 0)
		k->error = r;
}

static int put_threads(struct load_oncpu *l, struct threads *k, struct err *err)
{
	const uint64_t not_known = 0;
	int r;

	load_control(l)->threads = 1;
	r = load_tasks(l, on_thread, k);
	load_control(l)->threads = 0;
	if (r == 0)
		r = k->error;
	for (uint32_t i = 0; i < k->n && r == 0; i++) {
		if (k->found[i])
			continue;
		if (l->skel->rodata->cfg.nested_ns ||
		    (kill((pid_t)k->tids[i], 0) < 0 && errno != EPERM))
			return err_set(err, -ESRCH,
			               "thread %u ended while the capture was being started",
			               k->tids[i]);
		r = bpf_map_update_elem(bpf_map__fd(l->skel->maps.tids), &k->tids[i], &not_known,
		                        BPF_ANY);
	}
	return r < 0 ? err_set(err, r, "cannot fill the BPF map of threads: %s", err_name(r)) : 0;
}

int load_filter_tids(struct load_oncpu *l, const uint32_t *tids, uint32_t n, struct err *err)
{
	struct threads k = {.l = l, .tids = tids, .n = n, .found = calloc(MAX_OF(n, 1U), 1)};
	int r;

	if (!k.found)
		return err_set(err, -ENOMEM, "out of memory");
	r = put_threads(l, &k, err);
	free(k.found);
	return r;
}

static int put_names(struct load_oncpu *l, const struct abi_name_set *sets, uint32_t n)
{
	int r = 0;

	for (uint32_t i = 0; i < n && r == 0; i++)
		r = bpf_map_update_elem(bpf_map__fd(l->skel->maps.name_sets), &i, &sets[i],
		                        BPF_ANY);
	return r;
}

int load_filter_comms(struct load_oncpu *l, const char *const *comms, uint32_t n, struct err *err)
{
	_cleanup_free_ struct abi_name_set *sets = NULL;
	const uint32_t one = 1;
	uint32_t patterns = 0;
	int r = 0;

	sets = calloc(n / ABI_NAME_PATTERNS + 1, sizeof(*sets));
	if (!sets)
		return err_set(err, -ENOMEM, "out of memory");
	for (uint32_t i = 0; i < n && r == 0; i++) {
		struct abi_thread key = {{0}};

		if (load_name_pattern(comms[i]) == 1) {
			load_name_add(sets, patterns++, comms[i]);
			continue;
		}
		/* The kernel cuts the name of a program at the byte, in the middle of a character
		 * too. */
		memcpy(key.comm, comms[i], strnlen(comms[i], sizeof(key.comm) - 1));
		r = bpf_map_update_elem(bpf_map__fd(l->skel->maps.comms), &key, &one, BPF_ANY);
	}
	if (r == 0)
		r = put_names(l, sets, (patterns + ABI_NAME_PATTERNS - 1) / ABI_NAME_PATTERNS);
	return r < 0 ? err_set(err, r, "cannot fill the BPF map of thread names: %s", err_name(r))
	             : 0;
}

int load_filter_cgroups(struct load_oncpu *l, const int *fds, uint32_t n, struct err *err)
{
	for (uint32_t i = 0; i < n; i++) {
		struct stat st;
		uint64_t id;
		int r = fstat(fds[i], &st) < 0 ? -errno : 0;

		id = r < 0 ? 0 : st.st_ino; /* a cgroup's id is the inode of its folder */
		if (r == 0)
			r = bpf_map_update_elem(bpf_map__fd(l->skel->maps.cgroups), &i, &fds[i],
			                        BPF_ANY);
		if (r == 0)
			r = bpf_map_update_elem(bpf_map__fd(l->skel->maps.cgroup_ids), &id, &i,
			                        BPF_ANY);
		if (r < 0)
			return err_set(err, r, "cannot add cgroup %u to the BPF map of cgroups: %s",
			               i, err_name(r));
	}
	return 0;
}
