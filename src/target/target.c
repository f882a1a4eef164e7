/* SPDX-License-Identifier: Apache-2.0 */
/* The processes, threads and filters of a capture. */
#include "target/target.h"

#include <dirent.h>
#include <limits.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>

#include "proc/proc.h"

#define NUMBERS_SHOWN 16 /* of a list */

/* ---- sets of numbers ------------------------------------------------------------------------- */

static int cmp_u32(const void *a, const void *b)
{
	uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

	return (x > y) - (x < y);
}

/* Sorts v[n] and drops duplicates. Returns how many are left. */
static uint32_t sort_unique(uint32_t *v, uint32_t n)
{
	uint32_t out = 0;

	if (n)
		qsort(v, n, sizeof(*v), cmp_u32);
	for (uint32_t i = 0; i < n; i++)
		if (i == 0 || v[i] != v[i - 1])
			v[out++] = v[i];
	return out;
}

static size_t numbers_cnt(const int32_t *v)
{
	size_t n = 0;

	while (v && v[n])
		n++;
	return n;
}

static size_t strings_cnt(const char *const *v)
{
	size_t n = 0;

	while (v && v[n])
		n++;
	return n;
}

/* Makes a set of @first, unless it is 0, and of the numbers of @v, which a 0 ends. Returns 0,
 * -ENOMEM. */
static int make_set(int64_t first, const int32_t *v, uint32_t **ret, uint32_t *ret_n)
{
	size_t n = numbers_cnt(v), k = 0;
	uint32_t *set = calloc(n + 1, sizeof(*set));

	if (!set)
		return -ENOMEM;
	if (first)
		set[k++] = (uint32_t)first;
	for (size_t i = 0; i < n; i++)
		set[k++] = (uint32_t)v[i];
	*ret = set;
	*ret_n = sort_unique(set, (uint32_t)k);
	return 0;
}

bool tgt_has(const struct target *t, uint32_t pid)
{
	return t->n && bsearch(&pid, t->pids, t->n, sizeof(pid), cmp_u32);
}

static bool has_tid(const struct target *t, uint32_t tid)
{
	return t->n_tids && bsearch(&tid, t->tids, t->n_tids, sizeof(tid), cmp_u32);
}

/* ---- options --------------------------------------------------------------------------------- */

static int check_numbers(const char *name, const int32_t *v, struct err *err)
{
	uint32_t *set = NULL, n = 0;

	for (size_t i = 0; v && v[i]; i++)
		if (v[i] < 0)
			return err_set(err, -EINVAL, "%s: %d is not a valid number", name, v[i]);
	if (make_set(0, v, &set, &n) < 0)
		return err_set(err, -ENOMEM, "out of memory");
	free(set);
	if (n > PFA_PIDS_MAX)
		return err_set(err, -EINVAL, "%s: %u given, at most %d allowed", name, n,
		               PFA_PIDS_MAX);
	return 0;
}

static int check_strings(const char *name, const char *const *v, struct err *err)
{
	for (size_t i = 0; v && v[i]; i++) {
		if (i == PFA_FILTERS_MAX)
			return err_set(err, -EINVAL, "%ss: more than %d", name, PFA_FILTERS_MAX);
		if (!v[i][0])
			return err_set(err, -EINVAL, "%s: an entry is empty", name);
		if (strlen(v[i]) >= PATH_MAX)
			return err_set(err, -EINVAL, "%s: '%.40s...' is longer than %d bytes", name,
			               v[i], PATH_MAX - 1);
	}
	return 0;
}

/* Whether each name that is a pattern can match one. */
static int check_names(const char *const *v, struct err *err)
{
	for (size_t i = 0; v && v[i]; i++) {
		int r = load_name_pattern(v[i]);

		if (r == -E2BIG)
			return err_set(err, -EINVAL,
			               "comm: '%.40s' matches no name: the kernel keeps %d bytes "
			               "of a name",
			               v[i], ABI_COMM_LEN - 1);
		if (r < 0)
			return err_set(err, -EINVAL,
			               "comm: '%.40s': write [0-9] and the like for [:digit:]",
			               v[i]);
	}
	return 0;
}

/* Returns the number of patterns among names. */
static uint32_t patterns_cnt(const char *const *v)
{
	uint32_t n = 0;

	for (; v && *v; v++)
		n += load_name_pattern(*v) == 1;
	return n;
}

int tgt_check(const struct pfa_options *o, struct err *err)
{
	bool pids = numbers_cnt(o->pids) != 0, tids = numbers_cnt(o->tids) != 0;
	int r;

	if (o->target == PFA_TARGET_PID && (o->pid < 0 || (o->pid == 0 && !pids && !tids)))
		return err_set(err, -EINVAL, "pid: %lld is not a process number",
		               (long long)o->pid);
	if (o->target != PFA_TARGET_PID && (o->pid != 0 || pids))
		return err_set(err, -EINVAL, "%s: needs the target PID", o->pid ? "pid" : "pids");
	if (o->target != PFA_TARGET_PID && tids)
		return err_set(err, -EINVAL, "tids: needs the target PID");
	if ((o->flags & PFA_FOLLOW_CHILDREN) && o->target == PFA_TARGET_ALL)
		return err_set(err, -EINVAL,
		               "following children: ALL includes every process already");
	if ((o->flags & PFA_FOLLOW_CHILDREN) && tids)
		return err_set(err, -EINVAL, "following children: cannot be combined with tids");
	r = check_numbers("pids", o->pids, err);
	if (r == 0)
		r = check_numbers("tids", o->tids, err);
	if (r == 0)
		r = check_strings("comm", o->comms, err);
	if (r == 0)
		r = check_names(o->comms, err);
	if (r == 0)
		r = check_strings("cgroup", o->cgroups, err);
	return r;
}

/* ---- before the start ------------------------------------------------------------------------ */

/* Checks that a process exists and can be a target. Returns its pidfd, or negative errno. */
static int open_process(uint32_t pid, struct err *err)
{
	struct proc_status st;
	int fd, r = proc_status_read(pid, &st, err);

	if (r == -ESRCH || r == -ENOENT)
		return err_set(err, -ESRCH, "process %u does not exist", pid);
	if (r < 0)
		return r;
	if (st.tgid != pid)
		return err_set(err, -EINVAL,
		               "%u is a thread of process %u: give the number of the process", pid,
		               st.tgid);
	if (st.kthread)
		return err_set(err, -EINVAL,
		               "process %u (%s) is a kernel thread, which only a capture of the "
		               "whole machine includes: -a --comm NAME",
		               pid, st.name);
	fd = (int)syscall(SYS_pidfd_open, pid, 0);
	if (fd < 0)
		return err_set(err, -errno,
		               errno == ESRCH
		                       ? "process %u ended, or lies outside this pid namespace: %s"
		               : errno == EMFILE ? "pidfd_open of process %u: %s: RLIMIT_NOFILE is "
		                                   "reached: raise it with ulimit -n"
		                                 : "pidfd_open of process %u: %s",
		               pid, err_name(errno));
	if (poll(&(struct pollfd){.fd = fd, .events = POLLIN}, 1, 0) > 0) {
		(void)close(fd); /* a pidfd holds no data */
		return err_set(err, -ESRCH,
		               "process %u (%s) has ended and waits to be reaped (a zombie)", pid,
		               st.name);
	}
	return fd;
}

/* Returns the number of the process of a thread, or negative errno. */
static int64_t process_of(const struct target *t, uint32_t tid, struct err *err)
{
	struct proc_status st;
	int r = proc_status_read(tid, &st, err);

	if (r == -ESRCH || r == -ENOENT)
		return err_set(err, -ESRCH, "thread %u does not exist", tid);
	if (r < 0)
		return r;
	if (st.kthread)
		return err_set(err, -EINVAL,
		               "thread %u (%s) is a kernel thread, which only a capture of the "
		               "whole machine includes: -a --comm NAME",
		               tid, st.name);
	if (st.zombie)
		return err_set(err, -ESRCH, "thread %u (%s) of process %u has ended", tid, st.name,
		               st.tgid);
	if (t->n && !tgt_has(t, st.tgid))
		return err_set(err, -EINVAL,
		               "thread %u belongs to process %u, which is not among the given "
		               "ones: add it, or give no process",
		               tid, st.tgid);
	return st.tgid;
}

/* Opens the threads of the options. Without --pid their processes are the target. */
static int open_threads(struct target *t, struct err *err)
{
	_cleanup_free_ uint32_t *procs = NULL;
	int r = make_set(0, t->o->tids, &t->tids, &t->n_tids);

	if (r < 0)
		return err_set(err, r, "out of memory");
	if (!t->n_tids)
		return 0;
	procs = calloc(t->n_tids, sizeof(*procs));
	if (!procs)
		return err_set(err, -ENOMEM, "out of memory");
	for (uint32_t i = 0; i < t->n_tids; i++) {
		int64_t pid = process_of(t, t->tids[i], err);

		if (pid < 0)
			return (int)pid;
		procs[i] = (uint32_t)pid;
		if (!t->pid && t->tids[i] == (uint32_t)t->o->tids[0])
			t->pid = (uint32_t)pid;
	}
	if (!t->n) {
		t->n = sort_unique(procs, t->n_tids);
		free(t->pids);
		t->pids = TAKE_PTR(procs);
	}
	return 0;
}

static int open_cgroups(struct target *t, struct err *err)
{
	t->cgroups.max = PFA_FILTERS_MAX;
	for (const char *const *p = t->o->cgroups; p && *p; p++) {
		int fd = proc_cgroup_open(*p, err), r;

		if (fd < 0)
			return fd;
		r = vec_push(&t->cgroups, fd);
		if (r < 0) {
			(void)close(fd); /* a folder */
			return err_set(err, r, "cgroups: %s", err_name(r));
		}
	}
	return 0;
}

int tgt_open(struct target *t, struct err *err)
{
	const struct pfa_options *o = t->o;
	int r;

	tgt_done(t);
	r = open_cgroups(t, err);
	if (r < 0 || o->target != PFA_TARGET_PID)
		return r;
	r = make_set(o->pid, o->pids, &t->pids, &t->n);
	if (r < 0)
		return err_set(err, r, "out of memory");
	t->pid = o->pid ? (uint32_t)o->pid : t->n ? (uint32_t)o->pids[0] : 0;
	r = open_threads(t, err);
	if (r < 0)
		return r;
	t->fds = calloc((size_t)t->n + 1, sizeof(*t->fds));
	if (!t->fds)
		return err_set(err, -ENOMEM, "out of memory");
	for (uint32_t i = 0; i < t->n; i++)
		t->fds[i] = -EBADF;
	for (uint32_t i = 0; i < t->n; i++) {
		t->fds[i] = open_process(t->pids[i], err);
		if (t->fds[i] < 0)
			return t->fds[i];
	}
	t->left = t->n;
	if (proc_comm(t->pid, t->pid, t->comm) < 0)
		t->comm[0] = 0;
	if (t->n == 1)
		t->ended_fd = TAKE_FD(t->fds[0]);
	return 0;
}

int tgt_command(struct target *t, uint32_t pid, struct err *err)
{
	int fd = (int)syscall(SYS_pidfd_open, pid, 0);

	if (fd < 0)
		return err_set(err, -errno, "pidfd_open: %s", err_name(errno));
	t->pid = pid;
	t->ended_fd = fd;
	return 0;
}

void tgt_init(struct target *t, const struct pfa_options *o)
{
	*t = (struct target){.o = o, .epoll_fd = -EBADF, .ended_fd = -EBADF};
}

void tgt_done(struct target *t)
{
	for (uint32_t i = 0; i < t->n && t->fds; i++)
		closep(&t->fds[i]);
	vec_each (fd, &t->cgroups)
		closep(fd);
	vec_done(&t->cgroups);
	closep(&t->epoll_fd);
	closep(&t->ended_fd);
	free(t->pids);
	free(t->tids);
	free(t->fds);
	tgt_init(t, t->o);
}

/* ---- to the kernel side ---------------------------------------------------------------------- */

bool tgt_all(const struct target *t)
{
	return t->o->target == PFA_TARGET_ALL;
}

bool tgt_follows(const struct target *t)
{
	return t->o->target == PFA_TARGET_COMMAND || (t->o->flags & PFA_FOLLOW_CHILDREN);
}

bool tgt_tree(const struct target *t)
{
	return t->n > 1 || tgt_follows(t);
}

struct load_procs tgt_procs(const struct target *t)
{
	const bool one = t->o->target == PFA_TARGET_COMMAND;

	return (struct load_procs){.tgids = one ? &t->pid : t->pids,
	                           .n = one ? 1 : t->n,
	                           .existing = (t->o->flags & PFA_FOLLOW_CHILDREN) != 0};
}

void tgt_config(const struct target *t, struct abi_config *cfg, struct load_sizes *sizes)
{
	uint32_t comms = (uint32_t)strings_cnt(t->o->comms);

	cfg->target = tgt_all(t) ? ABI_TARGET_ALL : tgt_tree(t) ? ABI_TARGET_TREE : ABI_TARGET_PID;
	cfg->target_tgid = cfg->target == ABI_TARGET_PID ? t->pid : 0;
	cfg->follow = tgt_follows(t);
	cfg->n_cgroups = (uint32_t)t->cgroups.n;
	cfg->n_name_sets = (patterns_cnt(t->o->comms) + ABI_NAME_PATTERNS - 1) / ABI_NAME_PATTERNS;
	cfg->filters = (t->n_tids ? ABI_FILTER_TID : 0) | (comms ? ABI_FILTER_COMM : 0) |
	               (cfg->n_cgroups ? ABI_FILTER_CGROUP : 0);
	sizes->tid_entries = t->n_tids;
	sizes->comm_entries = comms;
	sizes->followed_entries = cfg->follow ? 65536 : cfg->target == ABI_TARGET_TREE ? t->n : 1;
}

int tgt_load(struct target *t, struct load_oncpu *l, struct tally *tally, struct err *err)
{
	int r = 0;

	/* If the iterator does not show the target, its number alone is compared. */
	if (t->o->target == PFA_TARGET_PID && !tgt_tree(t))
		(void)load_target(l, t->pid);
	if (t->n_tids)
		r = load_filter_tids(l, t->tids, t->n_tids, err);
	for (const char *const *p = t->o->comms; p && *p; p++)
		if (strlen(*p) >= ABI_COMM_LEN && load_name_pattern(*p) == 0)
			tally_note(tally,
			           "name '%s': the kernel keeps %d bytes of a name, so threads "
			           "named '%.*s' match",
			           *p, ABI_COMM_LEN - 1, ABI_COMM_LEN - 1, *p);
	if (r == 0 && t->o->comms)
		r = load_filter_comms(l, t->o->comms, (uint32_t)strings_cnt(t->o->comms), err);
	if (r == 0 && t->cgroups.n)
		r = load_filter_cgroups(l, t->cgroups.p, (uint32_t)t->cgroups.n, err);
	vec_each (fd, &t->cgroups)
		closep(fd); /* the table holds the cgroup */
	vec_done(&t->cgroups);
	return r;
}

/* ---- end of the processes -------------------------------------------------------------------- */

bool tgt_ended(const struct target *t)
{
	struct pollfd p = {.fd = t->ended_fd, .events = POLLIN};

	return poll(&p, 1, 0) > 0;
}

int tgt_watch(struct target *t, struct err *err)
{
	if (t->n <= 1)
		return 0;
	t->ended_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (t->ended_fd < 0)
		return err_set(err, -errno, "eventfd: %s", err_name(errno));
	t->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	if (t->epoll_fd < 0)
		return err_set(err, -errno, "epoll_create1: %s", err_name(errno));
	for (uint32_t i = 0; i < t->n; i++) {
		struct epoll_event e = {.events = EPOLLIN, .data.u32 = i};

		if (epoll_ctl(t->epoll_fd, EPOLL_CTL_ADD, t->fds[i], &e) < 0)
			return err_set(err, -errno, "epoll_ctl of process %u: %s", t->pids[i],
			               err_name(errno));
	}
	tgt_reap(t); /* some may have ended meanwhile */
	return 0;
}

void tgt_reap(struct target *t)
{
	struct epoll_event e[16];
	uint64_t one = 1;
	int n;

	while (t->left && (n = epoll_wait(t->epoll_fd, e, ARRAY_SIZE(e), 0)) > 0)
		for (int i = 0; i < n; i++) {
			int *fd = &t->fds[e[i].data.u32];

			/* Closing alone does not remove it while a child process of ours has it,
			 * too. */
			(void)epoll_ctl(t->epoll_fd, EPOLL_CTL_DEL, *fd, NULL);
			closep(fd);
			if (--t->left == 0)
				/* Cannot fail: the counter is 0. */
				(void)!write(t->ended_fd, &one, sizeof(one));
		}
}

/* ---- for the profile ------------------------------------------------------------------------- */

int tgt_text(const struct target *t, struct sbuf *b)
{
	int r;

	if (t->n <= 1)
		return sbuf_addf(b, "pid %u (%s)", t->pid, t->comm);
	r = sbuf_addf(b, "pids ");
	if (r == 0)
		r = tgt_numbers_text(t->pids, t->n, b);
	return r;
}

int tgt_each_filter(const struct target *t,
                    int (*fn)(void *arg, const char *key, const char *value), void *arg)
{
	_cleanup_(sbuf_done) struct sbuf b;
	char comm[ABI_COMM_LEN];
	int r = 0;
	bool pattern;

	sbuf_init(&b, 4096);
	if (t->n_tids) {
		r = tgt_numbers_text(t->tids, t->n_tids, &b);
		if (r == 0)
			r = fn(arg, "filter_tid", b.p);
	}
	for (const char *const *p = t->o->comms; p && *p && r == 0; p++) {
		pattern = load_name_pattern(*p) == 1;
		(void)snprintf(comm, sizeof(comm), "%s", *p);
		r = fn(arg, "filter_comm", pattern ? *p : comm);
	}
	for (const char *const *p = t->o->cgroups; p && *p && r == 0; p++)
		r = fn(arg, "filter_cgroup", *p);
	return r;
}

bool tgt_filtered(const struct target *t)
{
	return t->n_tids || (t->o->comms && t->o->comms[0]) || (t->o->cgroups && t->o->cgroups[0]);
}

int tgt_numbers_text(const uint32_t *v, uint32_t n, struct sbuf *b)
{
	int r = 0;

	for (uint32_t i = 0; i < MIN_OF(n, (uint32_t)NUMBERS_SHOWN) && r == 0; i++)
		r = sbuf_addf(b, "%s%u", i ? ", " : "", v[i]);
	if (r == 0 && n > NUMBERS_SHOWN)
		r = sbuf_addf(b, " and %u more", n - NUMBERS_SHOWN);
	return r;
}

uint64_t tgt_asleep_cnt(const struct target *t, uint32_t pid)
{
	struct proc_status st;
	char path[64];
	uint64_t n = 0, tid;
	DIR *d;

	(void)snprintf(path, sizeof(path), "/proc/%u/task", pid);
	d = opendir(path);
	for (struct dirent *e; d && (e = readdir(d));)
		if (parse_u64(e->d_name, 10, &tid) == 0 && tid <= UINT32_MAX &&
		    (!t->n_tids || has_tid(t, (uint32_t)tid)) &&
		    proc_status_read((uint32_t)tid, &st, NULL) == 0 && st.tgid == pid)
			n += st.asleep;
	if (d)
		(void)closedir(d); /* only read from */
	return n;
}
