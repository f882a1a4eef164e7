// SPDX-License-Identifier: Apache-2.0
/*
 * Side-band events, which change processes and their mappings.
 *
 * Events come in order of time, but /proc is read at a time of its own: an event that is older than
 * the last reading of a process may be in that reading already. Such a mapping is only added where
 * it is still unknown, as history; such an exec makes the process unsure, and it is read once more.
 */
#include "track/track_priv.h"

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
			cut = true; /* the mapping before it is gone in any case */
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
		trk_list_add_old(i->list, &m);
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
		return; /* the reading of /proc has it already */
	pp = trk_pid_find(t, ev->ppid);
	if (!pp || pp->unsure || !pp->newest->exec_known || ev->time_ns < pp->newest->maps_end_ns) {
		/* The program of the parent at the fork is not known: read the child. */
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
		/* Ended, or not readable: assume the mappings of the parent. Adopting may have
		 * added or dropped processes, so find the parent again. */
		pp = trk_pid_find(t, ev->ppid);
		if (pp && !i->list) {
			inherit(i, pp->newest);
			i->exec_known = false; /* until the iterator shows it: not published */
		}
		return;
	}
	if (p) {
		/* The exit event was missed: the pid belongs to another process now. */
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

/* Whether the event belongs to a target, a followed child, or a process added by trk_learn(). */
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
			t->blur_begin_ns = t->watermark_ns;
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
