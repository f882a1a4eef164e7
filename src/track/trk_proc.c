// SPDX-License-Identifier: Apache-2.0
/*
 * Processes and their incarnations: the table, and which one an id means.
 */
#include "track/track_priv.h"

static int cmp_u32(const void *a, const void *b)
{
	uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

	return (x > y) - (x < y);
}

int64_t trk_target(const struct trk *t, uint32_t pid)
{
	const uint32_t *p = t->o.n_target_pids ? bsearch(&pid, t->o.target_pids, t->o.n_target_pids,
	                                                 sizeof(pid), cmp_u32)
	                                       : NULL;

	return p ? p - t->o.target_pids : -1;
}

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
		/* The start outweighs the exec id: it identifies the process. */
		score = start * 4 + exec;
		/* Newest first. Of processes known only by their fork, choose the first one forked
		 * after the start. */
		if (score > best_score ||
		    (score == best_score && start == 1 && id->start_ns != 0 &&
		     i->born_ns >= id->start_ns && i->born_ns < best->born_ns)) {
			best = i;
			best_score = score;
		}
	}
	return best ? best : n == 1 ? only : NULL;
}
