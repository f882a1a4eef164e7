// SPDX-License-Identifier: Apache-2.0
/*
 * Processes, their incarnations, and the events that change them.
 *
 * Events come in order of time, but /proc is read at a time of its own: an event that is older than
 * the last reading of a process may be in that reading already. Such a mapping is only added where
 * it is still unknown, as history; such an exec makes the process unsure, and it is read once more.
 */
#include "track/track_priv.h"

/* ---- the table ------------------------------------------------------------------------------ */

struct trk_pid *trk_pid_find(const struct trk *t, uint32_t pid)
{
	struct trk_pid *p;

	HASH_FIND(hh, t->pids, &pid, sizeof(pid), p);
	return p;
}

static void pid_free(struct trk *t, struct trk_pid *p)
{
	trk_pub_drop(t, p);
	trk_pub_abandon(p);
	trk_set_sure(t, p);
	HASH_DEL(t->pids, p);
	free(p);
}

static void inc_free(struct trk *t, struct trk_inc *i)
{
	struct trk_pid *p = i->p;
	struct trk_inc **pp = &p->newest;

	while (*pp != i)
		pp = &(*pp)->older;
	*pp = i->older;
	if (i->past)
		DL_DELETE(t->past, i);
	t->n_incs--;
	trk_pub_list_unref(i->list);
	free(i);
	if (!p->newest && !p->pinned)
		pid_free(t, p);
}

static void forget_oldest(struct trk *t)
{
	t->stats.dropped_procs++;
	inc_free(t, t->past);
}

void trk_forget_all(struct trk *t)
{
	struct trk_pid *p, *next;

	for (p = t->pids; p; p = next) {
		next = p->hh.next;
		while (p->newest->older)
			inc_free(t, p->newest->older);
		inc_free(t, p->newest);
	}
}

void trk_make_room(struct trk *t, size_t k)
{
	while (t->quota.n + k > t->quota.max && t->past)
		forget_oldest(t);
}

static void make_past(struct trk *t, struct trk_inc *i)
{
	if (i->past)
		return;
	i->past = true;
	DL_APPEND(t->past, i);
}

void trk_inc_revive(struct trk *t, struct trk_inc *i)
{
	if (!i->past)
		return;
	i->past = false;
	DL_DELETE(t->past, i);
	trk_pub_dirty(t, i->p);
}

void trk_inc_end(struct trk *t, struct trk_inc *i)
{
	make_past(t, i);
	if (i->p->newest != i)
		return;
	trk_pub_drop(t, i->p);
	if (t->o.loader)
		load_proc_ended(t->o.loader, i->p->pid);
}

void trk_set_unsure(struct trk *t, struct trk_pid *p, uint64_t until_ns)
{
	p->unsure_until_ns = MAX_OF(p->unsure_until_ns, until_ns);
	if (p->unsure)
		return;
	p->unsure = true;
	DL_APPEND2(t->unsure, p, u_prev, u_next);
}

void trk_set_sure(struct trk *t, struct trk_pid *p)
{
	if (!p->unsure)
		return;
	p->unsure = false;
	p->unsure_until_ns = 0;
	DL_DELETE2(t->unsure, p, u_prev, u_next);
}

struct trk_inc *trk_inc_push(struct trk *t, struct trk_pid *p)
{
	struct trk_inc *i;

	p->pinned = true; /* the last incarnation of p may be the one that has to go */
	while (t->n_incs >= t->o.max_procs && t->past)
		forget_oldest(t);
	p->pinned = false;
	i = t->n_incs < t->o.max_procs ? calloc(1, sizeof(*i)) : NULL;
	if (!i) {
		t->stats.dropped_procs++;
		if (!p->newest)
			pid_free(t, p);
		return NULL;
	}
	i->p = p;
	i->older = p->newest;
	i->threads = 1;
	p->newest = i;
	t->n_incs++;
	if (i->older)
		make_past(t, i->older);
	trk_pub_dirty(t, p);
	return i;
}

struct trk_inc *trk_inc_first(struct trk *t, uint32_t pid)
{
	struct trk_pid *p = trk_pid_find(t, pid);
	struct trk_inc *i;

	if (p)
		return p->newest;
	p = calloc(1, sizeof(*p));
	if (!p)
		goto fail;
	p->pid = pid;
	HASH_ADD(hh, t->pids, pid, sizeof(p->pid), p);
	if (!p->hh.tbl) {
		free(p);
		goto fail;
	}
	i = trk_inc_push(t, p);
	if (i)
		t->stats.procs++;
	return i;
fail:
	t->stats.dropped_procs++;
	return NULL;
}

struct trk_inc *trk_inc_exec(struct trk *t, struct trk_inc *i)
{
	struct trk_inc *n = trk_inc_push(t, i->p);

	if (!n)
		return NULL;
	n->start_ns = i->start_ns;
	n->start_coarse = i->start_coarse;
	n->born_ns = i->born_ns;
	memcpy(n->comm, i->comm, sizeof(n->comm));
	return n;
}

bool trk_inc_own(struct trk *t, struct trk_inc *i)
{
	struct trk_list *c;

	if (!i->list) {
		i->list = trk_list_new(&t->quota);
		if (!i->list)
			t->stats.dropped_mappings++;
		return i->list;
	}
	if (i->list->ref == 1) {
		trk_pub_forget_list(i->list);
		return true;
	}
	trk_make_room(t, trk_list_held(i->list));
	c = trk_list_copy(i->list);
	if (!c) {
		t->stats.dropped_mappings++;
		return false;
	}
	trk_pub_list_unref(i->list);
	i->list = c;
	return true;
}

/* ---- matching ------------------------------------------------------------------------------- */

int trk_start_fits(const struct trk_inc *i, uint64_t start_ns)
{
	if (i->start_ns == 0 || start_ns == 0)
		return 1;
	if (i->start_coarse)
		return start_ns >= i->start_ns && start_ns - i->start_ns < 10 * NSEC_PER_MSEC ? 2
		                                                                              : 0;
	return i->start_ns == start_ns ? 2 : 0;
}

struct trk_inc *trk_match(const struct trk *t, const struct ev_proc_id *id)
{
	const struct trk_pid *p = trk_pid_find(t, id->pid);
	struct trk_inc *best = NULL, *only = NULL;
	int best_score = 0;
	size_t n = 0;

	if (!p)
		return NULL;
	for (struct trk_inc *i = p->newest; i; i = i->older) {
		int start = trk_start_fits(i, id->start_ns), exec = 1, score;

		n++;
		if (start == 0)
			continue;
		only = i;
		if (i->exec_known && id->exec_id != 0)
			exec = i->exec_id == id->exec_id ? 2 : 0;
		if (exec == 0)
			continue;
		/* The start says more than the exec id: it is of this very process. */
		score = start * 4 + exec;
		/* Newest first. Of processes known by their forks alone it is the one that was
		 * forked next after the start. */
		if (score > best_score ||
		    (score == best_score && start == 1 && id->start_ns != 0 &&
		     i->born_ns >= id->start_ns && i->born_ns < best->born_ns)) {
			best = i;
			best_score = score;
		}
	}
	return best ? best : n == 1 ? only : NULL;
}

/* ---- events --------------------------------------------------------------------------------- */

static uint64_t boottime_of(uint64_t mono_ns)
{
	uint64_t boot = now_boottime_ns(), mono = now_ns();

	return boot > mono ? mono_ns + (boot - mono) : mono_ns;
}

/* Newest incarnation of the event's process, alive. */
static struct trk_inc *live(struct trk *t, const struct ev_proc *ev)
{
	struct trk_pid *p = trk_pid_find(t, ev->pid);

	if (!p)
		return trk_adopt(t, ev->pid, ev->time_ns);
	trk_inc_revive(t, p->newest);
	return p->newest;
}

static void mmap_event(struct trk *t, const struct ev_proc *ev)
{
	struct trk_inc *i;
	struct trk_map m = {.start = ev->map.start, .end = ev->map.end};
	bool cut = !ev->map.exec;

	if (m.end <= m.start)
		return;
	i = live(t, ev);
	if (!i)
		return;
	if (!cut && ev->map.kind != EV_MAP_ANON) {
		m.image = trk_img_get(t, ev->pid, &ev->map, ev->time_ns);
		if (m.image == 0) {
			t->stats.dropped_mappings++;
			cut = true; /* what was there before is gone all the same */
		}
		m.base = m.image ? m.start : 0;
	}
	if (m.image && ev->map.kind == EV_MAP_FILE) {
		m.base -= ev->map.pgoff;
		if (i->by_exec && i->main_image == 0)
			i->main_image = m.image;
	}
	if (!cut && trk_list_covers(i->list, &m))
		return;
	if (cut && (!i->list || ev->time_ns < i->maps_end_ns))
		return;
	if (!trk_inc_own(t, i))
		return;
	if (ev->time_ns < i->maps_begin_ns) {
		/* It had gone again when /proc was read. */
		trk_make_room(t, 1);
		trk_list_remember(i->list, &m);
	} else {
		trk_make_room(t, trk_list_put_needs(i->list, &m));
		trk_list_put(i->list, &m, cut, ev->time_ns);
		trk_pub_dirty(t, i->p);
	}
	if (!cut) {
		t->stats.mappings++;
		trk_img_note(t, &m);
	}
}

static void comm_event(struct trk *t, const struct ev_proc *ev)
{
	struct trk_inc *i = live(t, ev), *n;

	if (!i)
		return;
	if (!ev->exec) {
		if (ev->tid == ev->pid)
			memcpy(i->comm, ev->comm, sizeof(i->comm));
		return;
	}
	if (ev->time_ns < i->maps_end_ns) {
		trk_set_unsure(t, i->p, ev->time_ns + TRK_EXEC_SETTLE_NS);
		return;
	}
	n = trk_inc_exec(t, i);
	if (!n)
		return;
	n->by_exec = true;
	n->exec_known = i->exec_known;
	n->exec_id = i->exec_id + 1;
	memcpy(n->comm, ev->comm, sizeof(n->comm));
	if (!n->exec_known)
		trk_set_unsure(t, n->p, ev->time_ns + TRK_EXEC_SETTLE_NS);
}

static void inherit(struct trk_inc *i, const struct trk_inc *from)
{
	trk_pub_list_unref(i->list);
	i->list = from->list;
	if (i->list)
		i->list->ref++;
	i->exec_known = from->exec_known;
	i->exec_id = from->exec_id;
	i->main_image = from->main_image;
	i->kthread = from->kthread;
	i->denied = from->denied;
	memcpy(i->comm, from->comm, sizeof(i->comm));
}

static void fork_event(struct trk *t, const struct ev_proc *ev)
{
	struct trk_pid *p = trk_pid_find(t, ev->pid), *pp;
	struct trk_inc *i;

	if (ev->pid == ev->ppid) { /* a thread */
		if (p && !p->newest->past && ev->time_ns >= p->newest->maps_begin_ns)
			p->newest->threads++;
		return;
	}
	if (p && ev->time_ns < p->newest->maps_end_ns)
		return; /* /proc has told of it already */
	pp = trk_pid_find(t, ev->ppid);
	if (!pp || pp->unsure || !pp->newest->exec_known || ev->time_ns < pp->newest->maps_end_ns) {
		/* Which program the parent was at the time of the fork is not known: ask the child.
		 */
		if (p) {
			trk_inc_end(t, p->newest);
			if (!trk_inc_push(t, p))
				return;
			t->stats.procs++;
		}
		i = trk_adopt(t, ev->pid, ev->time_ns);
		if (!i)
			return;
		i->born_ns = boottime_of(ev->time_ns);
		/* Gone already, or not readable: the parent's mappings are the best guess. Adopting
		 * can have made or forgotten processes, so look again. */
		pp = trk_pid_find(t, ev->ppid);
		if (pp && !i->list) {
			inherit(i, pp->newest);
			i->exec_known = false; /* until the iterator shows it: not published */
		}
		return;
	}
	if (p) {
		/* Its end was not seen: the pid has been given to another process. */
		trk_inc_end(t, p->newest);
		i = trk_inc_push(t, p);
		if (i)
			t->stats.procs++;
	} else {
		i = trk_inc_first(t, ev->pid);
	}
	if (!i)
		return;
	/* Making room can have forgotten the parent. */
	pp = trk_pid_find(t, ev->ppid);
	if (pp)
		inherit(i, pp->newest);
	i->born_ns = boottime_of(ev->time_ns);
}

static void exit_event(struct trk *t, const struct ev_proc *ev)
{
	struct trk_pid *p = trk_pid_find(t, ev->pid);
	struct trk_inc *i = p ? p->newest : NULL;

	if (!i || i->past || ev->time_ns < i->maps_begin_ns)
		return;
	if (i->threads > 0)
		i->threads--;
	if (ev->tid == ev->pid)
		i->leader_gone = true;
	if (i->leader_gone && i->threads == 0)
		trk_inc_end(t, i);
}

/* Is this event of a target, of what it forked, or of what was learnt of? */
static bool is_followed(const struct trk *t, const struct ev_proc *ev)
{
	if (trk_target(t, ev->pid) >= 0 || trk_pid_find(t, ev->pid))
		return true;
	return t->o.follow_children && ev->type == EV_PROC_FORK && trk_pid_find(t, ev->ppid);
}

void trk_event(struct trk *t, const struct ev_proc *ev)
{
	if (ev->type == EV_PROC_LOST) {
		if (!t->resync)
			t->blur_begin_ns = t->settled_ns;
		t->resync = true;
		t->blur_end_ns = UINT64_MAX;
		return;
	}
	if (ev->pid == 0 || ev->pid == UINT32_MAX)
		return; /* outside our pid namespace */
	if (t->o.n_target_pids && !is_followed(t, ev))
		return;
	switch (ev->type) {
	case EV_PROC_MMAP:
		mmap_event(t, ev);
		break;
	case EV_PROC_COMM:
		comm_event(t, ev);
		break;
	case EV_PROC_FORK:
		fork_event(t, ev);
		break;
	case EV_PROC_EXIT:
		exit_event(t, ev);
		break;
	case EV_PROC_KSYMBOL: /* no process */
	case EV_PROC_LOST:
		break;
	}
}
