// SPDX-License-Identifier: Apache-2.0
/*
 * Scans of processes by the task iterator and /proc: at the start, after losses, and for single
 * processes whose events and readings crossed.
 */
#include "track/track_priv.h"

#include <stdio.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

/* ---- one process ---------------------------------------------------------------------------- */

struct reading {
	struct trk *t;
	uint32_t pid;
	struct ev_file_id exe; /* ino 0: not known */
	uint32_t main_image, first_image;
	uint64_t bad;
};

static int take_map(void *arg, const struct ev_mapping *ev)
{
	struct reading *rd = arg;
	struct trk *t = rd->t;
	struct trk_map m = {.start = ev->start, .end = ev->end};

	if (m.end <= m.start || (t->tmp.n > 0 && m.start < t->tmp.p[t->tmp.n - 1].end)) {
		rd->bad++;
		return 0;
	}
	if (ev->kind != EV_MAP_ANON) {
		m.image = trk_img_get(t, rd->pid, ev, now_ns());
		if (m.image == 0) {
			t->stats.dropped_mappings++;
			return 0;
		}
		m.base = m.start;
	}
	if (ev->kind == EV_MAP_FILE) {
		m.base -= ev->pgoff;
		if (rd->first_image == 0)
			rd->first_image = m.image;
		/* Device numbers of stat and maps may differ (btrfs, overlayfs). */
		if (rd->main_image == 0 && rd->exe.ino != 0 && rd->exe.ino == ev->file.ino &&
		    ((rd->exe.dev_major == ev->file.dev_major &&
		      rd->exe.dev_minor == ev->file.dev_minor) ||
		     (rd->exe.dev_major == 0 && ev->file.dev_major == 0)))
			rd->main_image = m.image;
	}
	if (vec_push(&t->tmp, m) < 0)
		t->stats.dropped_mappings++;
	return 0;
}

static bool same_content(const struct trk_list *l, const struct trk_map *m, size_t n)
{
	struct imap_pos p = {0};

	if (!l || l->maps.n != n)
		return n == 0 && (!l || l->maps.n == 0);
	for (size_t k = 0; k < n; k++, p = imap_next(&l->maps, p)) {
		const struct trk_map *o = imap_at(&l->maps, p);

		if (o->start != m[k].start || o->end != m[k].end || !trk_map_agree(o, &m[k]))
			return false;
	}
	return true;
}

/* Adds the histories of @was to @l, and the mappings of @was that @l no longer has. */
static void carry_history(struct trk *t, struct trk_list *l, const struct trk_list *was,
                          uint64_t time_ns)
{
	struct imap_pos p = {0};
	const struct trk_map *o;

	trk_make_room(t, was->old.n + was->gone.n);
	vec_each (m, &was->old)
		trk_list_add_old(l, m);
	l->forgot_ns = was->forgot_ns;
	vec_each (g, &was->gone)
		trk_list_note_gone(l, &g->m, g->until_ns);
	for (; (o = imap_at(&was->maps, p)); p = imap_next(&was->maps, p)) {
		if (trk_list_covers(l, o))
			continue;
		trk_make_room(t, 2);
		trk_list_add_old(l, o);
		trk_list_note_gone(l, o, time_ns);
	}
}

/* Makes t->tmp the list of @i; mappings that it no longer has go to the histories. */
static void replace_list(struct trk *t, struct trk_inc *i)
{
	struct trk_list *l = trk_list_new(&t->quota);

	if (!l) {
		t->stats.dropped_mappings += t->tmp.n;
		return;
	}
	trk_make_room(t, t->tmp.n);
	vec_each (m, &t->tmp) {
		trk_list_add(l, m);
		trk_img_note(t, m);
		if (!trk_list_covers(i->list, m))
			t->stats.mappings++;
	}
	if (i->list)
		carry_history(t, l, i->list, i->maps_begin_ns);
	trk_pub_list_unref(i->list);
	i->list = l;
}

/* /proc/PID/task has two links of its own and one for each thread. */
static uint32_t count_threads(uint32_t pid)
{
	char path[32];
	struct stat st;

	(void)snprintf(path, sizeof(path), "/proc/%u/task", pid); /* fits any number */
	return stat(path, &st) < 0 || st.st_nlink < 3 ? 1 : (uint32_t)(st.st_nlink - 2);
}

static void stat_exe(uint32_t pid, struct ev_file_id *ret)
{
	char path[32];
	struct stat st;

	(void)snprintf(path, sizeof(path), "/proc/%u/exe", pid); /* fits any number */
	if (stat(path, &st) < 0)
		return; /* kernel thread, zombie, not ours to see: the first file is taken instead
		         */
	ret->dev_major = major(st.st_dev);
	ret->dev_minor = minor(st.st_dev);
	ret->ino = st.st_ino;
}

/* Reads the mappings through the directory of one thread; /proc has one for each thread. */
static int read_by_thread(void *arg, uint32_t tid)
{
	struct reading *rd = arg;
	uint64_t bad = 0;

	rd->pid = tid;
	stat_exe(tid, &rd->exe);
	(void)proc_maps_read(tid, take_map, rd, &bad, NULL); /* a thread that went: the next */
	rd->bad += bad;
	return rd->t->tmp.n > 0;
}

int trk_maps_read(struct trk *t, struct trk_inc *i)
{
	struct reading rd = {.t = t, .pid = i->p->pid};
	uint64_t begin = now_ns(), bad = 0;
	uint32_t threads = count_threads(rd.pid);
	int r;

	stat_exe(rd.pid, &rd.exe);
	t->tmp.n = 0;
	r = proc_maps_read(rd.pid, take_map, &rd, &bad, NULL);
	/* A leader that has ended shows no mappings; its threads, if any, do. */
	if (r == 0 && t->tmp.n == 0 && threads > 1)
		(void)proc_each_thread(i->p->pid, read_by_thread, &rd);
	t->stats.bad_map_lines += bad + rd.bad;
	if (r == -EACCES || r == -EPERM) {
		if (!i->denied)
			t->stats.procs_denied++;
		i->denied = true;
		return -EACCES;
	}
	if (r < 0)
		return r;
	i->denied = false;
	i->threads = threads;
	i->maps_begin_ns = begin;
	i->maps_end_ns = now_ns();
	if (rd.main_image != 0)
		i->main_image = rd.main_image;
	else if (i->main_image == 0)
		i->main_image = rd.first_image;
	if (!same_content(i->list, t->tmp.p, t->tmp.n)) {
		replace_list(t, i);
		trk_pub_dirty(t, i->p);
	}
	return 0;
}

struct trk_inc *trk_adopt(struct trk *t, uint32_t pid, uint64_t ev_ns)
{
	struct trk_inc *i = trk_inc_first(t, pid);

	if (!i)
		return NULL;
	trk_set_unsure(t, i->p, ev_ns + TRK_EXEC_SETTLE_NS);
	/* If it has ended, only the events describe it; a refusal is noted in i. */
	(void)trk_maps_read(t, i);
	return i;
}

/* ---- tasks ---------------------------------------------------------------------------------- */

struct task {
	struct abi_task a;
	uint32_t ppid; /* only where children are followed */
	bool by_proc;  /* from /proc: start rounded down, exec id not known */
	bool done;
};

struct tasks {
	struct trk *t;
	VEC(struct task) v;
	bool only_unsure;
	uint64_t now;
	bool incomplete;
};

static bool is_due(const struct trk_pid *p, uint64_t now)
{
	return p && p->unsure && p->unsure_until_ns <= now;
}

static bool is_wanted(const struct tasks *ts, uint32_t pid)
{
	if (pid == 0 || pid == UINT32_MAX)
		return false;
	if (ts->t->o.n_target_pids && !ts->t->o.follow_children && trk_target(ts->t, pid) < 0 &&
	    !trk_pid_find(ts->t, pid))
		return false;
	return !ts->only_unsure || is_due(trk_pid_find(ts->t, pid), ts->now);
}

static void take_task(void *arg, const struct abi_task *a)
{
	struct tasks *ts = arg;
	int64_t target = trk_target(ts->t, a->tgid);

	if (target >= 0)
		ts->t->target_seen[target] = true;
	if (!is_wanted(ts, a->tgid))
		return;
	if (vec_push(&ts->v, (struct task){.a = *a}) < 0) {
		ts->incomplete = true;
		ts->t->stats.dropped_procs++;
	}
}

static int take_pid(void *arg, uint32_t pid)
{
	struct tasks *ts = arg;
	struct task k = {.a = {.tgid = pid}, .by_proc = true};
	struct proc_status st;
	uint64_t start_ns;

	if (!is_wanted(ts, pid))
		return 0;
	if (proc_start_ns(pid, &start_ns) < 0 || proc_status_read(pid, &st, NULL) < 0 ||
	    st.tgid != pid)
		return 0; /* gone meanwhile, or a thread's number */
	k.a.start_ns = start_ns;
	if (st.kthread)
		k.a.flags = ABI_KEY_KTHREAD;
	(void)str_copy(k.a.comm, sizeof(k.a.comm), st.name); /* kernel threads' names are cut */
	if (vec_push(&ts->v, k) < 0) {
		ts->incomplete = true;
		ts->t->stats.dropped_procs++;
	}
	return 0;
}

/* Adds the targets one by one. @hidden: only those that the iterator did not show. */
static void take_targets(struct tasks *ts, bool hidden)
{
	struct trk *t = ts->t;

	for (uint32_t i = 0; i < t->o.n_target_pids; i++)
		if (!hidden || !t->target_seen[i])
			(void)take_pid(ts, t->o.target_pids[i]); /* never stops */
}

/* Lists tasks by the iterator, or without it from /proc. That has no exec ids: nothing is
 * published. */
static int tasks_read(struct tasks *ts, struct err *err)
{
	struct trk *t = ts->t;
	int r = -ENOSYS;

	ts->v.max = t->o.max_procs;
	if (t->target_seen)
		memset(t->target_seen, 0, t->o.n_target_pids * sizeof(*t->target_seen));
	if (t->o.loader) {
		r = load_tasks(t->o.loader, take_task, ts);
		t->stats.tasks_errno = r < 0 ? -r : 0;
	}
	if (r >= 0) {
		/* Seen on a virtual machine: the iterator leaves out its pid 1, which is there in
		 * /proc. */
		take_targets(ts, true);
		return 0;
	}
	ts->v.n = 0;
	ts->incomplete = false;
	if (t->o.n_target_pids && !t->o.follow_children) {
		take_targets(ts, false);
		return 0;
	}
	return proc_each(take_pid, ts, err);
}

static bool same_process(const struct trk_inc *i, const struct task *k)
{
	int fits;

	if (k->by_proc && !i->start_coarse && i->start_ns != 0)
		/* The other way round: what is known is exact. */
		return i->start_ns >= k->a.start_ns &&
		       i->start_ns - k->a.start_ns < 10 * NSEC_PER_MSEC;
	if (k->by_proc && i->start_coarse)
		return i->start_ns == k->a.start_ns;
	fits = trk_start_fits(i, k->a.start_ns);
	if (fits == 1 && i->born_ns != 0)
		return k->a.start_ns <= i->born_ns + 10 * NSEC_PER_MSEC;
	return fits != 0;
}

static void scan_task(struct trk *t, const struct task *k)
{
	struct trk_pid *p = trk_pid_find(t, k->a.tgid);
	struct trk_inc *i = p ? p->newest : NULL;

	if (i && !same_process(i, k)) {
		trk_inc_end(t, i);
		i = trk_inc_push(t, p);
		if (!i)
			return;
		t->stats.procs++;
	} else if (i && i->past) {
		/* It was assumed to have ended. */
		trk_inc_revive(t, i);
	}
	if (i && !k->by_proc && i->exec_known && i->exec_id != k->a.exec_id)
		i = trk_inc_exec(t, i);
	else if (!i)
		i = trk_inc_first(t, k->a.tgid);
	if (!i)
		return;
	if (!k->by_proc && (!i->exec_known || i->start_ns == 0 || i->start_coarse))
		trk_pub_dirty(t, i->p);
	if (!k->by_proc) {
		i->exec_known = true;
		i->exec_id = k->a.exec_id;
	}
	if (!k->by_proc || i->start_ns == 0) {
		i->start_ns = k->a.start_ns;
		i->start_coarse = k->by_proc;
	}
	i->kthread = k->a.flags & ABI_KEY_KTHREAD;
	memcpy(i->comm, k->a.comm, sizeof(i->comm));
	i->comm[sizeof(i->comm) - 1] = '\0';
	i->p->round = t->round;
	if (i->kthread)
		return;
	if (trk_maps_read(t, i) == -ESRCH)
		trk_inc_end(t, i);
}

/* Ends processes that the iterator no longer shows. */
static void end_missing(struct trk *t, bool only_unsure, uint64_t now)
{
	for (struct trk_pid *p = t->pids; p; p = p->hh.next)
		if (!p->newest->past && p->round != t->round && (!only_unsure || is_due(p, now)))
			trk_inc_end(t, p->newest);
}

/* Whether a task is tracked: any without targets; else targets, known processes, and children of
 * known ones, whose fork events may have been lost. */
static bool is_followed(const struct trk *t, struct task *k)
{
	struct proc_status st;

	if (!t->o.n_target_pids || trk_target(t, k->a.tgid) >= 0 || trk_pid_find(t, k->a.tgid))
		return true;
	if (k->ppid == 0 && proc_status_read(k->a.tgid, &st, NULL) == 0)
		k->ppid = st.ppid;
	return k->ppid != 0 && trk_pid_find(t, k->ppid);
}

static int scan(struct trk *t, bool only_unsure, struct err *err)
{
	struct tasks ts = {.t = t, .only_unsure = only_unsure, .now = now_ns()};
	struct trk_pid *p, *next;
	bool more = true;
	int r;

	t->round++;
	r = tasks_read(&ts, err);
	/* A process that is added may be the parent of others: one pass for each generation. */
	while (r == 0 && more) {
		more = false;
		vec_each (k, &ts.v) {
			if (k->done || !is_followed(t, k))
				continue;
			k->done = true;
			more = t->o.n_target_pids != 0;
			scan_task(t, k);
		}
	}
	if (r == 0 && !ts.incomplete)
		end_missing(t, only_unsure, ts.now);
	for (p = t->unsure; r == 0 && p; p = next) {
		next = p->u_next;
		if (is_due(p, ts.now))
			trk_set_sure(t, p);
	}
	vec_done(&ts.v);
	return r;
}

void trk_learn(struct trk *t, const struct ev_proc_id *id)
{
	struct task k = {.a = {.tgid = id->pid, .exec_id = id->exec_id, .start_ns = id->start_ns}};
	struct trk_pid *p = trk_pid_find(t, id->pid);
	struct proc_status st;

	if (!t->o.n_target_pids || trk_target(t, id->pid) >= 0 || (p && !p->newest->past))
		return;
	if (proc_status_read(id->pid, &st, NULL) < 0 || st.tgid != id->pid || st.kthread)
		return;
	(void)str_copy(k.a.comm, sizeof(k.a.comm), st.name);
	scan_task(t, &k);
	/* It may have called exec, or another process may have its pid. */
	p = trk_pid_find(t, id->pid);
	if (p)
		trk_set_unsure(t, p, now_ns());
}

int trk_scan(struct trk *t, struct err *err)
{
	int r = scan(t, false, err);
	bool there = false;

	if (r < 0)
		return r;
	for (uint32_t i = 0; i < t->o.n_target_pids && !there; i++) {
		const struct trk_pid *p = trk_pid_find(t, t->o.target_pids[i]);

		there = p && !p->newest->past;
	}
	if (t->o.n_target_pids && !there)
		return err_set(err, -ESRCH, "there is no process %u", t->o.target_pids[0]);
	trk_flush(t);
	return 0;
}

void trk_rescan(struct trk *t, uint64_t now)
{
	bool all = t->resync && now >= t->resync_due_ns, due = false;
	uint64_t begin;
	int r;

	for (const struct trk_pid *p = t->unsure; p && !due; p = p->u_next)
		due = is_due(p, now);
	if (!all && !due)
		return;
	if (all) {
		t->resync = false;
		t->stats.resyncs++;
	}
	begin = now_ns();
	r = scan(t, !all, NULL);
	if (all)
		t->blur_end_ns = now_ns();
	if (all)
		t->resync_due_ns = now_ns() + trk_resync_rest_ns(now_ns() - begin);
	/* Out of descriptors or memory: keep the state; a later flush tries again. */
	if (r < 0 && all)
		t->resync = true;
}

void trk_flush(struct trk *t)
{
	trk_rescan(t, now_ns());
	trk_pub_flush(t, now_ns());
}
