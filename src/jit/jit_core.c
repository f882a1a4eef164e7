/* SPDX-License-Identifier: Apache-2.0 */
#include "jit/jit_priv.h"

#include <sys/resource.h>

#define PAIRS_MAX  262144 /* reported (process, stack) pairs */
#define STACKS_MAX 1048576
/* Processes checked in a drain interval, besides those that re-use addresses. */
#define READS_PER_INTERVAL 32
/* An epoch has counts of its own, so it lasts at least 1/1024 of the capture so far. */
#define EPOCH_SHARE 1024
#define PARENTS     4
#define ROUND_NS    (30 * NSEC_PER_MSEC)
#define FINISH_NS   (2 * NSEC_PER_SEC) /* for the last reading of all files */
/* The share of RLIMIT_NOFILE, 1/8, for jitdumps and /tmp directories, one for each container. The
 * tracker has a half. */
#define DIRS_SHARE  8
#define DUMPS_SHARE 16

struct pair {
	struct ev_proc_id proc;
	uint64_t ustack;
};
_Static_assert(sizeof(struct pair) == 24, "hashed as bytes");

bool jit_is_memfd(const char *path)
{
	return str_starts(path, "/memfd:");
}

int jit_new(const struct jit_options *o, struct jit **ret)
{
	struct jit *j = calloc(1, sizeof(*j));
	struct rlimit lim;
	int r;

	if (!j)
		return -ENOMEM;
	j->o = *o;
	j->procs.max = JIT_PROCS_ALL;
	if (getrlimit(RLIMIT_NOFILE, &lim) < 0)
		lim.rlim_cur = 1024; /* cannot fail for a valid resource */
	j->dirs.max = MIN_OF(lim.rlim_cur / DIRS_SHARE, (rlim_t)JIT_PROCS_MAX);
	j->max_dumps = (uint32_t)MIN_OF(lim.rlim_cur / DUMPS_SHARE, (rlim_t)JIT_PROCS_MAX);
	j->found.max = j->epoch_ns.max = UINT32_MAX;
	r = intern_new(STACKS_MAX, SIZE_MAX / 2, &j->stacks);
	if (r == 0)
		r = intern_new(PAIRS_MAX, SIZE_MAX / 2, &j->pairs);
	if (r == 0)
		r = intern_new(2 * JIT_PROCS_ALL, SIZE_MAX / 2, &j->ids);
	if (r == 0)
		r = vec_push(&j->epoch_ns, 0);
	if (r < 0) {
		(void)jit_free(j); /* NULL */
		return r;
	}
	*ret = j;
	return 0;
}

struct jit *jit_free(struct jit *j)
{
	if (!j)
		return NULL;
	vec_each (p, &j->procs)
		jit_proc_done(p);
	vec_each (d, &j->dirs)
		closep(&d->fd);
	vec_done(&j->procs);
	vec_done(&j->dirs);
	vec_done(&j->found);
	vec_done(&j->epoch_ns);
	intern_free(j->stacks);
	intern_free(j->pairs);
	intern_free(j->ids);
	free(j);
	return NULL;
}

void jit_begin(struct jit *j, uint64_t start_ns)
{
	j->epoch_ns.p[0] = start_ns;
}

/* ---- drain ---- */

void jit_add_stack(struct jit *j, const struct ev_stack *st)
{
	uint32_t id;

	for (uint32_t i = 0; i < st->n; i++) {
		if (st->frames[i].space != EV_SPACE_ANON)
			continue;
		/* Over the limit its frames get the names of the first epoch. */
		(void)intern_add(j->stacks, &st->hash, sizeof(st->hash), &id, NULL);
		return;
	}
}

/* Reports the addresses where a process was sampled. False: no room. */
static bool report(struct jit *j, const struct ev_proc_id *id, const struct ev_stack *st)
{
	uint64_t addrs[JIT_ADDRS];
	uint32_t n = 0;

	for (uint32_t i = 0; i < st->n; i++) {
		const struct ev_frame *f = &st->frames[i];

		if (f->space != EV_SPACE_ANON)
			continue;
		addrs[n++] = f->exact ? f->addr : f->addr - 1;
		if (n < JIT_ADDRS)
			continue;
		if (!j->o.sampled(j->o.arg, id, addrs, n))
			return false;
		n = 0;
	}
	return !n || j->o.sampled(j->o.arg, id, addrs, n);
}

void jit_stamp(struct jit *j, struct ev_count *c)
{
	struct pair pair = {.proc = c->proc, .ustack = c->ustack};
	const struct ev_stack *st;
	uint32_t id;

	if (!c->ustack || intern_count(j->stacks) == 0 ||
	    intern_find(j->stacks, &c->ustack, sizeof(c->ustack)) == INTERN_NONE) {
		/* An off-CPU interval keeps its epoch while its stack has not arrived. */
		if (!c->offcpu || !c->ustack || prof_agg_stack(j->o.agg, c->ustack))
			c->epoch = 0;
		return;
	}
	if (!c->offcpu)
		c->epoch = j->epoch;
	if (c->foreign_ns || intern_find(j->pairs, &pair, sizeof(pair)) != INTERN_NONE)
		return;
	if (intern_count(j->pairs) == PAIRS_MAX)
		return; /* later samples are not watched */
	st = prof_agg_stack(j->o.agg, c->ustack);
	if (st && report(j, &c->proc, st))
		(void)intern_add(j->pairs, &pair, sizeof(pair), &id,
		                 NULL); /* else reported again */
}

void jit_stamp_deferred(struct jit *j, struct ev_count *c)
{
	c->epoch = j->epoch; /* its frames are not known yet */
}

void jit_drained(struct jit *j, void *drain)
{
	const uint64_t start = j->epoch_ns.p[0], last = j->epoch_ns.p[j->epoch];
	uint64_t now;

	if (!atomic_load_explicit(&j->end_epoch, memory_order_relaxed))
		return;
	now = now_ns();
	if (now - last < (now - start) / EPOCH_SHARE)
		return; /* later */
	atomic_store(&j->end_epoch, false);
	if (j->epoch == UINT16_MAX || vec_reserve(&j->epoch_ns, 1) < 0)
		return; /* the last epoch lasts until the end */
	j->o.end_epoch(j->o.arg, drain, (uint16_t)(j->epoch + 1));
	(void)vec_push(&j->epoch_ns, now); /* has its room */
	j->epoch++;
	tally_count(j->o.tally, TALLY_JIT_EPOCHS, 1);
}

/* ---- tracker ---- */

void jit_watch(struct jit *j, const struct ev_proc_id *id, const uint64_t *addrs, uint32_t n)
{
	struct jit_proc *p = jit_get_proc(j, id);

	for (uint32_t i = 0; p && !p->complete && i < n; i++) {
		uint32_t k;
		bool is_new;

		if (vec_reserve(&p->codes, 1) == 0 &&
		    intern_add(p->addrs, &addrs[i], sizeof(*addrs), &k, &is_new) == 0 && is_new)
			(void)vec_push(&p->codes,
			               jitcode_version(p->code, addrs[i])); /* has room */
	}
}

void jit_walked(struct jit *j, struct ev_count *count, const struct ev_stack *st)
{
	uint64_t addrs[JIT_ADDRS];
	uint32_t n = 0;

	if (!j)
		return;
	for (uint32_t i = 0; i < st->n && n < JIT_ADDRS; i++)
		if (st->frames[i].space == EV_SPACE_ANON)
			addrs[n++] = st->frames[i].addr - !st->frames[i].exact;
	if (n == 0)
		count->epoch = 0;
	else if (!count->foreign_ns)
		jit_watch(j, &count->proc, addrs, n);
}

void jit_event(struct jit *j, const struct ev_proc *ev)
{
	const struct ev_proc_id id = {.pid = ev->pid};
	bool dump, known = false;

	if (ev->type != EV_PROC_MMAP)
		return;
	dump = jit_is_dump(ev->map.path);
	if ((!dump && !jit_is_memfd(ev->map.path)) || !j->o.is_tracked(j->o.arg, ev->pid))
		return;
	vec_each (p, &j->procs) {
		if (p->complete || p->id.pid != ev->pid)
			continue;
		p->dump_due |= dump;
		known = true;
	}
	if (!known)
		(void)jit_add_proc(j, &id, false); /* NULL: it has ended, or was counted */
}

static bool has_proc(struct jit *j, uint32_t pid)
{
	vec_each (p, &j->procs) {
		if (!p->complete && p->id.pid == pid)
			return true;
	}
	return false;
}

/* Checks the images added since the last call. */
static void scan_images(struct jit *j, uint32_t n)
{
	bool any = false;

	for (uint32_t i = j->n_images + 1; i <= n; i++) {
		const char *path = j->o.image_path(j->o.arg, i);

		any |= path && (jit_is_memfd(path) || jit_is_dump(path));
	}
	j->n_images = n;
	/* Mappings that a target made before the capture have no event. Any other process is found
	 * when it is sampled, or at the end. */
	for (uint32_t i = 0; any && i < j->o.n_targets; i++) {
		const struct ev_proc_id target = {.pid = j->o.targets[i]};

		if (!has_proc(j, target.pid))
			(void)jit_add_proc(j, &target,
			                   false); /* NULL: it has ended, or was counted */
	}
}

bool jit_maybe(const struct jit *j, const struct ev_frame *f)
{
	const char *path;

	if (f->space != EV_SPACE_IMAGE)
		return f->space == EV_SPACE_ANON;
	path = j ? j->o.image_path(j->o.arg, f->image) : NULL;
	return path && jit_is_memfd(path);
}

void jit_round(struct jit *j, uint64_t now, uint32_t n_images)
{
	uint64_t interval = j->o.interval_ns, slow;

	scan_images(j, n_images);
	slow = interval * (1 + (j->procs.n - j->n_complete) / READS_PER_INTERVAL);
	/* The tracker thread has other work: the next round begins with the rest. */
	for (size_t i = 0; i < j->procs.n; i++) {
		struct jit_proc *p = &j->procs.p[j->next++ % j->procs.n];

		if (p->complete || p->due_ns > now)
			continue;
		jit_read_proc(j, p, now, false);
		jit_complete_gone(j, p, now);
		p->due_ns = now + (p->reused ? interval : slow);
		if (now_ns() - now > ROUND_NS)
			break;
	}
}

/* ---- control ---- */

void jit_want(struct jit *j, const struct ev_count *c)
{
	if (j && !c->foreign_ns)
		(void)jit_get_proc(j, &c->proc); /* NULL: it has ended, its frames have no names */
}

/* Returns index + 1 of the parent of a process that has not called exec since its fork; 0: none. */
static uint32_t parent_of(const struct jit *j, const struct jit_proc *child)
{
	for (size_t i = 0; child->exact && i < j->procs.n; i++) {
		const struct jit_proc *p = &j->procs.p[i];

		if (p->exact && p->id.pid == child->ppid && p->id.exec_id == child->id.exec_id &&
		    p->id.start_ns <= child->id.start_ns && p != child)
			return (uint32_t)i + 1;
	}
	return 0;
}

void jit_finish(struct jit *j)
{
	uint64_t end_ns = now_ns() + FINISH_NS;

	if (!j)
		return;
	vec_each (p, &j->procs) {
		const struct jitcode_stats *st = jitcode_stats(p->code);

		if (p->complete)
			; /* was read to its end */
		else if (now_ns() < end_ns)
			jit_read_proc(j, p, now_ns(), true);
		else
			tally_count(j->o.tally, TALLY_JIT_PROCS_OVER, 1);
		p->parent = parent_of(j, p);
		tally_count(j->o.tally, TALLY_JIT_BAD, st->bad);
		tally_count(j->o.tally, TALLY_JIT_OVER, st->over_limit + jitcode_more(p->code));
	}
	if (j->refusal[0])
		tally_note(j->o.tally, "JIT code has no names: %s", j->refusal);
}

uint32_t jit_find_proc(const struct jit *j, const struct ev_proc_id *id)
{
	uint32_t i = j ? intern_find(j->ids, id, sizeof(*id)) : INTERN_NONE;

	return i == INTERN_NONE ? 0 : j->found.p[i];
}

bool jit_any(const struct jit *j)
{
	return j && j->procs.n > 0;
}

bool jit_name(struct jit *j, uint32_t proc, uint16_t epoch, uint64_t addr, struct sym_named *ret)
{
	uint64_t time_ns = j->epoch_ns.p[MIN_OF(epoch, j->epoch)];
	bool found = false;

	/* A fork has the code of its parent, and writes a file of its own for what is new. */
	for (int i = 0; i < PARENTS && !found && proc; i++) {
		const struct jit_proc *p = &j->procs.p[proc - 1];

		found = jitcode_find(p->code, addr, time_ns, &j->frame) == 0;
		proc = p->parent;
	}
	if (!found)
		return false;
	*ret = (struct sym_named){.frames = &j->frame, .n = 1, .reason = EV_REASON_NAMED};
	return true;
}
