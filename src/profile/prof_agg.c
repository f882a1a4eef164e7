/* SPDX-License-Identifier: Apache-2.0 */
#include "profile/prof_priv.h"

#define AGG_STACKS_DEFAULT 1048576U
#define AGG_COUNTS_DEFAULT 4194304U
#define AGG_BYTES_DEFAULT  ((size_t)256 << 20)
#define AGG_THREADS_MAX    1048576U /* a quarter of what pid_max allows, 48 MiB */

/* Key of a count. Hashed as bytes: no padding. */
struct count_key {
	uint64_t start_ns;
	uint32_t pid, exec_id, tid;
	uint8_t foreign_ns : 1, kthread : 1, zero : 6;
	uint8_t offcpu;
	uint16_t epoch;
	uint64_t ustack, kstack, cgroup_id, waker;
};
_Static_assert(sizeof(struct count_key) == 56, "hashed as bytes");

struct thread_key {
	uint64_t start_ns;
	uint32_t pid, exec_id, tid, zero;
};
_Static_assert(sizeof(struct thread_key) == 24, "hashed as bytes");

struct comm {
	char s[EV_COMM_LEN];
};

/* The interners' ids are the indices of the vectors; their keys have one size, so that max_items
 * bounds them. */
struct prof_agg {
	struct prof_agg_stats stats;
	size_t max_bytes, frame_bytes;
	struct intern *stack_ids, *count_ids, *thread_ids, *waker_ids;
	VEC(struct ev_stack) stacks; /* .frames in .frames */
	VEC(struct ev_count) counts;
	VEC(struct comm) comms;
	VEC(struct ev_waker) wakers;
	struct arena frames;
	const struct prof_agg *base; /* has stacks, wakers and names that are not here; or NULL */
	struct prof_followed followed;
};

int prof_agg_new(const struct prof_agg_limits *lim, struct prof_agg **ret)
{
	_cleanup_(prof_agg_freep) struct prof_agg *a = calloc(1, sizeof(*a));
	uint32_t max_stacks = lim && lim->max_stacks ? lim->max_stacks : AGG_STACKS_DEFAULT;
	uint32_t max_counts = lim && lim->max_counts ? lim->max_counts : AGG_COUNTS_DEFAULT;
	int r;

	if (!a)
		return -ENOMEM;
	a->max_bytes = lim && lim->max_bytes ? lim->max_bytes : AGG_BYTES_DEFAULT;
	a->stacks.max = max_stacks;
	a->counts.max = max_counts;
	a->comms.max = a->wakers.max = AGG_THREADS_MAX;
	a->followed.counts.ids.max = a->followed.counts.marks.max = max_counts;
	a->followed.threads.ids.max = a->followed.threads.marks.max = AGG_THREADS_MAX;
	arena_init(&a->frames,
	           SIZE_MAX); /* frame_bytes is limited instead, without the chunks' slack */
	r = intern_new(max_stacks, SIZE_MAX, &a->stack_ids);
	if (r == 0)
		r = intern_new(max_counts, SIZE_MAX, &a->count_ids);
	if (r == 0)
		r = intern_new(AGG_THREADS_MAX, SIZE_MAX, &a->thread_ids);
	if (r == 0)
		r = intern_new(AGG_THREADS_MAX, SIZE_MAX, &a->waker_ids);
	if (r < 0)
		return r;
	*ret = TAKE_PTR(a);
	return 0;
}

struct prof_agg *prof_agg_free(struct prof_agg *a)
{
	if (a) {
		intern_free(a->stack_ids);
		intern_free(a->count_ids);
		intern_free(a->thread_ids);
		intern_free(a->waker_ids);
		vec_done(&a->stacks);
		vec_done(&a->counts);
		vec_done(&a->comms);
		vec_done(&a->wakers);
		arena_done(&a->frames);
		vec_done(&a->followed.counts.ids);
		vec_done(&a->followed.counts.marks);
		vec_done(&a->followed.threads.ids);
		vec_done(&a->followed.threads.marks);
		free(a);
	}
	return NULL;
}

void prof_agg_freep(struct prof_agg **a)
{
	*a = prof_agg_free(*a);
}

struct prof_followed *prof_agg_followed(struct prof_agg *a)
{
	return &a->followed;
}

static int mark(struct prof_changed *c, uint32_t id)
{
	int r = 0;

	while (c->marks.n <= id && r == 0)
		r = vec_push(&c->marks, 0);
	if (r < 0 || c->marks.p[id])
		return r;
	r = vec_push(&c->ids, id);
	c->marks.p[id] = r == 0;
	return r;
}

static void note(const struct prof_agg *a, struct prof_changed *c, uint32_t id)
{
	if (a->followed.by && !c->lost)
		c->lost = mark(c, id) < 0;
}

static int stack_insert(struct prof_agg *a, const struct ev_stack *s)
{
	struct ev_frame *frames = NULL;
	size_t bytes;
	uint32_t id;
	int r;

	/* All that can fail comes before the interner, whose ids must match the vector. */
	if (!size_mul(s->n, sizeof(*frames), &bytes) || bytes > a->max_bytes - a->frame_bytes)
		return -E2BIG;
	r = vec_reserve(&a->stacks, 1);
	if (r < 0)
		return r;
	if (bytes > 0) {
		frames = arena_alloc(&a->frames, bytes);
		if (!frames)
			return -ENOMEM;
		memcpy(frames, s->frames, bytes);
	}
	r = intern_add(a->stack_ids, &s->hash, sizeof(s->hash), &id, NULL);
	if (r < 0)
		return r; /* the frames stay in the arena: no memory is left anyway */
	assert(id == a->stacks.n);
	a->stacks.p[a->stacks.n++] = (struct ev_stack){.hash = s->hash,
	                                               .kernel = s->kernel,
	                                               .walk = s->walk,
	                                               .flags = s->flags,
	                                               .n = s->n,
	                                               .frames = frames};
	a->frame_bytes += bytes;
	a->stats.stacks++;
	return 0;
}

int prof_agg_add_stack(struct prof_agg *a, const struct ev_stack *s, bool *ret_new)
{
	bool is_new = intern_find(a->stack_ids, &s->hash, sizeof(s->hash)) == INTERN_NONE;
	int r;

	if (s->hash == 0)
		return -EINVAL; /* 0 says "no stack" in a count */
	if (is_new) {
		r = stack_insert(a, s);
		if (r < 0) {
			a->stats.stacks_dropped++;
			return r;
		}
	}
	if (ret_new)
		*ret_new = is_new;
	return 0;
}

static int count_insert(struct prof_agg *a, const struct count_key *key, const struct ev_count *c,
                        uint32_t *ret_id)
{
	uint32_t id;
	int r;

	r = vec_reserve(&a->counts, 1);
	if (r < 0)
		return r;
	r = intern_add(a->count_ids, key, sizeof(*key), &id, NULL);
	if (r < 0)
		return r;
	assert(id == a->counts.n);
	a->counts.p[id] = *c;
	a->counts.p[id].time_ns = a->counts.p[id].cpu = 0; /* of this one only */
	a->counts.n++;
	a->stats.counts++;
	*ret_id = id;
	return 0;
}

int prof_agg_add_count(struct prof_agg *a, const struct ev_count *c)
{
	uint32_t id;

	return prof_agg_add_count_id(a, c, &id);
}

static struct count_key count_key_of(const struct ev_count *c)
{
	return (struct count_key){
	        .start_ns = c->proc.start_ns,
	        .pid = c->proc.pid,
	        .exec_id = c->proc.exec_id,
	        .tid = c->tid,
	        .foreign_ns = c->foreign_ns != 0,
	        .kthread = c->kthread != 0,
	        .offcpu = c->offcpu,
	        .epoch = c->epoch,
	        .ustack = c->ustack,
	        .kstack = c->kstack,
	        .cgroup_id = c->cgroup_id,
	        .waker = c->waker,
	};
}

/* ---- subtraction ----------------------------------------------------------------------------- */

/* Entries by the key of an interval, chained by their indices; a chain ends with NO_LINK. */
#define NO_LINK UINT32_MAX
struct link {
	uint32_t count, next;
};
struct interval_index {
	struct intern *keys;
	VEC(uint32_t) first; /* by id of keys: index of links */
	VEC(struct link) links;
};

static void index_done(struct interval_index *x)
{
	intern_free(x->keys);
	vec_done(&x->first);
	vec_done(&x->links);
}

/* The key of an interval that may still be open: its waker comes with the wake-up, and its epoch can change
 * when its stack arrives. */
static struct count_key interval_key_of(const struct ev_count *c)
{
	struct count_key key = count_key_of(c);

	key.waker = 0;
	key.epoch = 0;
	return key;
}

/* Finds the entries of the intervals v[n]. Returns 0, -ENOMEM, -E2BIG. */
static int index_intervals(const struct prof_agg *a, const struct ev_count *v, size_t n,
                           struct interval_index *ret)
{
	uint32_t id;
	bool is_new;
	int r = intern_new((uint32_t)n, SIZE_MAX, &ret->keys);

	ret->first.max = n;
	ret->links.max = a->counts.n;
	for (size_t i = 0; i < n && r == 0; i++) {
		const struct count_key key = interval_key_of(&v[i]);

		r = intern_add(ret->keys, &key, sizeof(key), &id, &is_new);
		if (r == 0 && is_new)
			r = vec_push(&ret->first, NO_LINK);
	}
	for (size_t i = 0; i < a->counts.n && r == 0; i++) {
		const struct count_key key = interval_key_of(&a->counts.p[i]);
		struct link link = {.count = (uint32_t)i};

		id = intern_find(ret->keys, &key, sizeof(key));
		if (id == INTERN_NONE)
			continue;
		link.next = ret->first.p[id];
		ret->first.p[id] = (uint32_t)ret->links.n;
		r = vec_push(&ret->links, link);
	}
	return r;
}

/* Returns the entry from which to take @c first, NULL if none has any of it: that with its waker and epoch if
 * an interval of this length is in it, else the one with the longest interval. */
static struct ev_count *entry_of(struct prof_agg *a, const struct interval_index *x,
                                 const struct ev_count *c)
{
	const struct count_key key = interval_key_of(c);
	struct ev_count *longest = NULL;

	for (uint32_t i = x->first.p[intern_find(x->keys, &key, sizeof(key))]; i != NO_LINK;
	     i = x->links.p[i].next) {
		struct ev_count *e = &a->counts.p[x->links.p[i].count];

		if (!MIN_OF(c->samples, e->samples) && !MIN_OF(c->weight, e->weight) &&
		    !MIN_OF(c->runq_ns, e->runq_ns))
			continue;
		if (e->waker == c->waker && e->epoch == c->epoch && e->longest_ns >= c->longest_ns)
			return e;
		if (!longest || e->longest_ns > longest->longest_ns)
			longest = e;
	}
	return longest;
}

static void subtract(uint64_t *from, uint64_t *what)
{
	const uint64_t both = MIN_OF(*from, *what);

	*from -= both;
	*what -= both;
}

int prof_agg_subtract_intervals(struct prof_agg *a, struct ev_count *v, size_t n)
{
	_cleanup_(index_done) struct interval_index x = {0};
	struct ev_count *from;
	int r = n ? index_intervals(a, v, n, &x) : 0;

	for (size_t i = 0; i < n && r == 0; i++) {
		while ((from = entry_of(a, &x, &v[i]))) {
			a->stats.intervals -= MIN_OF(v[i].samples, from->samples);
			subtract(&from->samples, &v[i].samples);
			subtract(&from->weight, &v[i].weight);
			subtract(&from->runq_ns, &v[i].runq_ns);
		}
	}
	return r;
}

/* ---- addition -------------------------------------------------------------------------------- */

int prof_agg_add_count_id(struct prof_agg *a, const struct ev_count *c, uint32_t *ret_id)
{
	const struct count_key key = count_key_of(c);
	uint32_t id = intern_find(a->count_ids, &key, sizeof(key));
	int r;

	if (id != INTERN_NONE) {
		struct ev_count *to = &a->counts.p[id];

		to->samples += c->samples;
		to->weight += c->weight;
		to->runq_ns += c->runq_ns;
		to->longest_ns = MAX_OF(to->longest_ns, c->longest_ns);
	} else {
		r = count_insert(a, &key, c, &id);
		if (r < 0 && c->offcpu) {
			a->stats.intervals_dropped += c->samples;
			return r;
		}
		if (r < 0) {
			a->stats.counts_dropped_samples += c->samples;
			a->stats.counts_dropped_weight += c->weight;
			return r;
		}
	}
	*ret_id = id;
	note(a, &a->followed.counts, id);
	if (c->offcpu) {
		a->stats.intervals += c->samples;
		return 0;
	}
	a->stats.samples += c->samples;
	a->stats.weight += c->weight;
	return 0;
}

static struct thread_key thread_key_of(const struct ev_proc_id *proc, uint32_t tid)
{
	return (struct thread_key){
	        .start_ns = proc->start_ns, .pid = proc->pid, .exec_id = proc->exec_id, .tid = tid};
}

static int thread_insert(struct prof_agg *a, const struct thread_key *key, uint32_t *ret_id)
{
	int r;

	r = vec_reserve(&a->comms, 1);
	if (r < 0)
		return r;
	r = intern_add(a->thread_ids, key, sizeof(*key), ret_id, NULL);
	if (r < 0)
		return r;
	assert(*ret_id == a->comms.n);
	a->comms.n++;
	a->stats.threads++;
	return 0;
}

int prof_agg_add_thread(struct prof_agg *a, const struct ev_thread *t)
{
	struct thread_key key = thread_key_of(&t->proc, t->tid);
	uint32_t id = intern_find(a->thread_ids, &key, sizeof(key));
	const bool is_new = id == INTERN_NONE;
	struct comm comm = {""};
	int r;

	if (is_new) {
		r = thread_insert(a, &key, &id);
		if (r < 0) {
			a->stats.threads_dropped++;
			return r;
		}
	}
	memcpy(comm.s, t->comm, strnlen(t->comm, sizeof(comm.s) - 1));
	if (is_new || memcmp(&a->comms.p[id], &comm, sizeof(comm)) != 0)
		note(a, &a->followed.threads, id);
	a->comms.p[id] = comm;
	return 0;
}

int prof_agg_add_waker(struct prof_agg *a, const struct ev_waker *w)
{
	uint32_t id;
	int r;

	if (intern_find(a->waker_ids, &w->hash, sizeof(w->hash)) != INTERN_NONE)
		return 0;
	r = vec_reserve(&a->wakers, 1);
	if (r == 0)
		r = intern_add(a->waker_ids, &w->hash, sizeof(w->hash), &id, NULL);
	if (r == 0) {
		assert(id == a->wakers.n);
		a->wakers.p[a->wakers.n++] = *w;
	} else {
		a->stats.wakers_dropped++;
	}
	return r;
}

const struct ev_waker *prof_agg_waker(const struct prof_agg *a, uint64_t hash)
{
	uint32_t id = intern_find(a->waker_ids, &hash, sizeof(hash));

	if (id == INTERN_NONE)
		return a->base ? prof_agg_waker(a->base, hash) : NULL;
	return &a->wakers.p[id];
}

const struct ev_stack *prof_agg_stack(const struct prof_agg *a, uint64_t hash)
{
	uint32_t id = intern_find(a->stack_ids, &hash, sizeof(hash));

	if (id == INTERN_NONE)
		return a->base ? prof_agg_stack(a->base, hash) : NULL;
	return &a->stacks.p[id];
}

const char *prof_agg_comm(const struct prof_agg *a, const struct ev_proc_id *proc, uint32_t tid)
{
	struct thread_key key = thread_key_of(proc, tid);
	uint32_t id = intern_find(a->thread_ids, &key, sizeof(key));

	if (id == INTERN_NONE)
		return a->base ? prof_agg_comm(a->base, proc, tid) : NULL;
	return a->comms.p[id].s;
}

size_t prof_agg_count_cnt(const struct prof_agg *a)
{
	return a->counts.n;
}

const struct ev_count *prof_agg_count_at(const struct prof_agg *a, size_t i)
{
	assert(i < a->counts.n);
	return &a->counts.p[i];
}

size_t prof_agg_stack_cnt(const struct prof_agg *a)
{
	return a->stacks.n;
}

const struct ev_stack *prof_agg_stack_at(const struct prof_agg *a, size_t i)
{
	assert(i < a->stacks.n);
	return &a->stacks.p[i];
}

size_t prof_agg_waker_cnt(const struct prof_agg *a)
{
	return a->wakers.n;
}

const struct ev_waker *prof_agg_waker_at(const struct prof_agg *a, size_t i)
{
	assert(i < a->wakers.n);
	return &a->wakers.p[i];
}

size_t prof_agg_thread_cnt(const struct prof_agg *a)
{
	return a->comms.n;
}

void prof_agg_thread_at(const struct prof_agg *a, size_t i, struct ev_thread *ret)
{
	size_t len;
	const struct thread_key *key = intern_get(a->thread_ids, (uint32_t)i, &len);

	*ret = (struct ev_thread){
	        .proc = {.start_ns = key->start_ns, .pid = key->pid, .exec_id = key->exec_id},
	        .tid = key->tid};
	memcpy(ret->comm, a->comms.p[i].s, sizeof(ret->comm));
}

void prof_agg_look_up_in(struct prof_agg *a, const struct prof_agg *base)
{
	a->base = base;
}

const struct prof_agg_stats *prof_agg_stats(const struct prof_agg *a)
{
	return &a->stats;
}
