/* SPDX-License-Identifier: Apache-2.0 */
/*
 * First samples: registers and a copy of the stack of a thread that was met in code whose table was
 * not there yet. D takes them, W walks them once the tables are there, C adds them to the profile.
 * Each one that D got is counted, whatever becomes of its walk.
 */
#include "session/session_priv.h"

/* What waits for tables: 64 MiB of 16 KiB each are 4,096, but most stacks are shorter than that. */
#define PENDING_MAX       8192
#define PENDING_BYTES_MAX ((uint64_t)64 << 20)
/* Of that, and of the queue, not for threads that waited already: those can wait a little longer.
 */
#define PENDING_SPARE 4
/* Side-band events lie in rings of their own: a process may be heard of after its first sample. */
#define UNKNOWN_NS       NSEC_PER_SEC
#define UNKNOWN_AGAIN_NS (50 * NSEC_PER_MSEC)
/* Walks of one sample, each of which met another image without a table: then it is guessed. */
#define TRIES_MAX 32

struct ses_copy {
	struct ses_copy *next;
	struct ev_copy c; /* c.bytes: bytes below */
	uint64_t taken_ns;
	uint64_t due_ns; /* need 0: when to look again */
	uint32_t need;   /* image without a table; 0: the process is not known yet */
	uint32_t tries;
	bool met;      /* looked at once */
	uint8_t *more; /* more of the stack, which was read later; NULL: was not */
	uint8_t bytes[];
};

/* ---- D --------------------------------------------------------------------------------------- */

/* No place for it: the sample stays, without its stack. */
static void count_without_stack(struct ses *s, const struct ev_copy *c)
{
	const struct ev_stack st = {
	        .hash = uw_stack_hash(s->hash_seed, NULL, 0, ABI_WALK_NO_TABLE, 0),
	        .walk = EV_WALK_NO_TABLE,
	};
	struct ev_count count = c->count;

	if (c->promise) {
		/* What refers to it keeps its weight. */
		struct ev_stack kept = st;

		kept.hash = c->promise;
		(void)prof_agg_add_stack(s->agg, &kept, NULL);
		tally_count(&s->tally, TALLY_OFF_COPIES_LOST, 1);
		return;
	}
	count.ustack = st.hash;
	(void)prof_agg_add_stack(s->agg, &st, NULL); /* counted by the aggregation */
	(void)prof_agg_add_count(s->agg, &count);
	tally_count(&s->tally, TALLY_COPIES_LOST, c->count.samples);
}

static uint64_t bytes_of(const struct ses_copy *c)
{
	return sizeof(*c) + c->c.len;
}

size_t ses_copy_room(const struct ses *s)
{
	struct ses_tables *t = s->tables;
	uint64_t max_bytes = PENDING_BYTES_MAX / PENDING_SPARE * (PENDING_SPARE - 1), bytes;
	size_t max = PENDING_MAX / PENDING_SPARE * (PENDING_SPARE - 1), room;
	size_t queued = queue_len(s->q_w);

	if (!t)
		return SIZE_MAX; /* none is made */
	room = atomic_load(&t->pending);
	room = room < max ? max - room : 0;
	max = SES_QUEUE_W / 2;
	room = MIN_OF(room, queued < max ? max - queued : 0);
	bytes = atomic_load(&t->pending_bytes);
	bytes = bytes < max_bytes ? max_bytes - bytes : 0;
	return (size_t)MIN_OF((uint64_t)room, bytes / SMP_STACK_BYTES);
}

static struct ses_copy *keep(struct ses_tables *t, const struct ev_copy *c)
{
	struct ses_copy *k;

	/* D alone adds, but for what W reads again: one stack over the limit at most. */
	if (atomic_load(&t->pending) >= PENDING_MAX ||
	    atomic_load(&t->pending_bytes) + sizeof(*k) + c->len > PENDING_BYTES_MAX)
		return NULL;
	k = malloc(sizeof(*k) + c->len);
	if (!k)
		return NULL;
	*k = (struct ses_copy){.c = *c, .taken_ns = now_ns()};
	if (c->len)
		memcpy(k->bytes, c->bytes, c->len);
	k->c.bytes = k->bytes;
	atomic_fetch_add(&t->pending, 1);
	atomic_fetch_add(&t->pending_bytes, bytes_of(k));
	return k;
}

static void drop(struct ses_tables *t, struct ses_copy *k)
{
	atomic_fetch_sub(&t->pending, 1);
	atomic_fetch_sub(&t->pending_bytes, bytes_of(k));
	ses_copy_free(k);
}

void ses_copy_take(struct ses *s, const struct ev_copy *c)
{
	struct ses_item item = {.type = SES_ITEM_COPY};

	if (c->count.ustack && !c->promise) {
		/* Counted by its walk in the kernel; this is for comparison. */
		if (s->o.copy_fn)
			s->o.copy_fn(s->o.copy_arg, c);
		return;
	}
	item.copy = s->tables ? keep(s->tables, c) : NULL;
	if (item.copy && queue_push(s->q_w, &item) < 0) {
		drop(s->tables, item.copy);
		item.copy = NULL;
	}
	if (!item.copy)
		count_without_stack(s, c);
}

/* ---- W: the target's memory ------------------------------------------------------------------ */

struct look {
	struct ses *s;
	const struct ev_copy *c;
};

static int place(void *arg, uint64_t addr, uint32_t *ret_image, uint64_t *ret_off)
{
	const struct look *l = arg;
	struct trk_place pl;

	if (trk_place_at(l->s->trk, &l->c->count.proc, addr, l->c->time_ns, &pl) < 0 ||
	    (!pl.image && !pl.anon))
		return -ENOENT;
	*ret_image = pl.image ? pl.image->id : 0;
	*ret_off = pl.off;
	return 0;
}

static int read_data(void *arg, uint64_t *ret, uint64_t addr)
{
	return ev_copy_word(((const struct look *)arg)->c, addr, ret);
}

size_t ses_image_read(const struct ses *s, const struct trk_image *img, uint64_t off, void *buf,
                      size_t len)
{
	bool close_fd = false;
	ssize_t n = 0;
	int fd;

	if (img->mem) {
		if (off < img->mem_len)
			n = (ssize_t)MIN_OF(img->mem_len - off, len);
		if (n > 0)
			memcpy(buf, (const uint8_t *)img->mem + off, (size_t)n);
	} else {
		fd = trk_image_fd(s->trk, img->id, &close_fd);
		if (fd >= 0)
			n = file_pread_full(fd, buf, len, off);
		if (fd >= 0 && close_fd)
			close(fd); /* only read from */
	}
	return n > 0 ? (size_t)n : 0;
}

static void fill_window(const struct ses *s, const struct trk_image *img, uint64_t off,
                        struct ses_window *w)
{
	w->image = img->id;
	w->off = off;
	w->len = (uint32_t)ses_image_read(s, img, off, w->bytes, sizeof(w->bytes));
}

/* From the file: code that was changed in memory is not seen. */
static int read_code(void *arg, uint64_t *ret, uint64_t addr)
{
	const struct look *l = arg;
	struct ses_tables *t = l->s->tables;
	struct ses_window *w = NULL;
	struct trk_place pl;
	uint64_t off;

	if (trk_place_at(l->s->trk, &l->c->count.proc, addr, l->c->time_ns, &pl) < 0 || !pl.image)
		return -EFAULT;
	off = pl.off & ~(uint64_t)(SES_WINDOW_BYTES - 1);
	for (size_t i = 0; i < SES_WINDOWS; i++)
		if (t->window[i].image == pl.image->id && t->window[i].off == off)
			w = &t->window[i];
	if (!w) {
		w = &t->window[t->next_window++ % SES_WINDOWS];
		fill_window(l->s, pl.image, off, w);
	}
	off = pl.off - off;
	if (w->len < sizeof(*ret) || off > w->len - sizeof(*ret))
		return -EFAULT;
	memcpy(ret, w->bytes + off, sizeof(*ret));
	return 0;
}

/* ---- W: walking ------------------------------------------------------------------------------ */

/* Adds one sample with the stack that was found, hashed as the kernel side would have done. */
static void add(struct ses *s, const struct ses_copy *k, const uint64_t *frames, uint32_t n,
                int walk, uint8_t flags)
{
	struct ses_tables *t = s->tables;
	struct ev_count count = k->c.count;
	struct ev_stack st = {
	        .hash = uw_stack_hash(s->hash_seed, frames, n, walk, flags),
	        .walk = (uint8_t)walk,
	        .flags = flags,
	        .n = n,
	        .frames = t->frames,
	};
	bool is_new = false;

	for (uint32_t i = 0; i < n; i++)
		(void)smp_frame_decode(frames[i], &t->frames[i]); /* made by our own walk */
	if (k->c.promise)
		st.hash = k->c.promise;
	count.ustack = st.hash;
	jit_walked(s->jit, &count, &st);
	if (prof_agg_add_stack(t->walked, &st, &is_new) == 0 && is_new)
		for (uint32_t i = 0; i < n; i++)
			if (t->frames[i].space == EV_SPACE_IMAGE)
				symbolizer_request(s->symbolizer, t->frames[i].image,
				                   t->frames[i].exact ? t->frames[i].addr
				                                      : t->frames[i].addr - 1);
	if (k->c.promise)
		tally_count(&s->tally, TALLY_OFF_COPIES_WALKED, 1);
	else
		tally_count(&s->tally, TALLY_COPIES_WALKED, count.samples);
	/* What guesses made of it is only there once D has ended. */
	if (walk == ABI_WALK_FAULT && k->c.guess &&
	    vec_push(&t->cut, ((struct ses_cut){.count = count,
	                                        .guess = k->c.guess,
	                                        .is_promise = k->c.promise != 0})) == 0)
		return;
	if (k->c.promise)
		return;
	if (walk != ABI_WALK_ROOT)
		tally_count(&s->tally, TALLY_COPIES_INCOMPLETE, count.samples);
	(void)prof_agg_add_count(t->walked, &count); /* counted by the aggregation */
}

/* The stack is larger than its copy, and stands still as long as the wait goes on: true if more of
 * it was read now. Once for each. */
static bool read_more(struct ses *s, struct ses_copy *k)
{
	struct ses_tables *t = s->tables;
	struct ev_copy c = k->c;

	if (!k->c.promise || k->more || !s->off ||
	    atomic_load(&t->pending_bytes) + SMP_STACK_BYTES > PENDING_BYTES_MAX ||
	    !smp_off_reread(s->off, &c, t->stack))
		return false;
	k->more = malloc(c.len);
	if (!k->more)
		return false;
	memcpy(k->more, c.bytes, c.len);
	atomic_fetch_sub(&t->pending_bytes, bytes_of(k));
	k->c = c;
	k->c.bytes = k->more;
	atomic_fetch_add(&t->pending_bytes, bytes_of(k));
	tally_count(&s->tally, TALLY_OFF_COPIES_REREAD, 1);
	return true;
}

/* True: it was counted. @final: it must be. */
static bool walk(struct ses *s, struct ses_copy *k, uint64_t now, bool final)
{
	struct ses_tables *t = s->tables;
	struct look look = {.s = s, .c = &k->c};
	const struct uw_target target = {.place = place,
	                                 .read = read_data,
	                                 .read_code = read_code,
	                                 .arg = &look,
	                                 .in_syscall = k->c.in_syscall};
	enum ev_reason known = trk_proc_reason(s->trk, &k->c.count.proc);
	/* No more events are on their way. */
	const bool settled = final || t->finishing;

	k->met = true;
	/* What was mapped at its time is told by events that may still be on their way, however
	 * long that takes: on a machine that is short of time the list of before would give it the
	 * names of another. */
	if (!settled && trk_settled_ns(s->trk) < k->c.time_ns) {
		k->need = 0;
		k->due_ns = now;
		return false;
	}
	if (known == EV_REASON_NO_MAPPING && !settled && now - k->taken_ns < UNKNOWN_NS) {
		k->need = 0;
		k->due_ns = now + UNKNOWN_AGAIN_NS;
		return false;
	}
	if (known != EV_REASON_NAMED) {
		const uint64_t leaf = ABI_FRAME_EXACT | (k->c.pc & ABI_FRAME_ADDR_MASK);

		add(s, k, &leaf, 1,
		    known == EV_REASON_NOT_PERMITTED ? (int)EV_WALK_DENIED : (int)ABI_WALK_GONE, 0);
		return true;
	}
	final = final || k->tries >= TRIES_MAX;
	uw_walk(t->store, t->rules, &target, k->c.pc, k->c.reg, final, &t->walk);
	if (t->walk.walk == ABI_WALK_FAULT && read_more(s, k))
		uw_walk(t->store, t->rules, &target, k->c.pc, k->c.reg, final, &t->walk);
	if (t->walk.walk == ABI_WALK_NO_TABLE && !final) {
		k->tries++;
		k->need = t->walk.image;
		ses_table_ask(t, k->need);
		return false;
	}
	/* It may have been mapped just before: the event is still on its way. */
	if (t->walk.unplaced && !settled && now - k->taken_ns < UNKNOWN_NS) {
		k->need = 0;
		k->due_ns = now + UNKNOWN_AGAIN_NS;
		return false;
	}
	add(s, k, t->walk.frames, MIN_OF(t->walk.n, (uint32_t)ABI_MAX_USER_FRAMES), t->walk.walk,
	    t->walk.flags);
	return true;
}

void ses_copy_handle(struct ses *s, struct ses_copy *k)
{
	struct ses_tables *t = s->tables;

	k->next = t->copies;
	t->copies = k;
	t->hurry = true; /* this round looks at it */
}

/* Has what stopped the walk changed? Asks again for a table that went before it was used. */
static bool is_due(struct ses_tables *t, const struct ses_copy *k, uint64_t now)
{
	if (!k->met)
		return true;
	if (k->need == 0)
		return now >= k->due_ns || t->finishing;
	if (!ses_table_absent(t, k->need))
		return true;
	if (atomic_load(&t->image[k->need].state) != SES_TABLE_QUEUED &&
	    t->image[k->need].asked == 0)
		ses_table_ask(t, k->need);
	return false;
}

size_t ses_copies_retry(struct ses *s, uint64_t now, bool final)
{
	struct ses_tables *t = s->tables;
	size_t left = 0;

	for (struct ses_copy **at = &t->copies, *k; (k = *at);) {
		if ((final || is_due(t, k, now)) && walk(s, k, now, final)) {
			*at = k->next;
			drop(t, k);
		} else {
			at = &k->next;
			left++;
		}
	}
	return left;
}

void ses_copy_free(struct ses_copy *k)
{
	if (k)
		free(k->more);
	free(k);
}

void ses_copies_free(struct ses_tables *t)
{
	vec_done(&t->cut);
	while (t->copies) {
		struct ses_copy *k = t->copies;

		t->copies = k->next;
		ses_copy_free(k);
	}
}

/* ---- C --------------------------------------------------------------------------------------- */

/* Does a stack by guesses say the same as far as the copy went? Then it is believed beyond. */
static bool agrees(const struct ev_stack *guess, const struct ev_stack *cut)
{
	return guess && cut && guess->n > cut->n &&
	       memcmp(guess->frames, cut->frames, cut->n * sizeof(*cut->frames)) == 0;
}

static void merge_cut(struct ses *s, struct ses_cut *k)
{
	const struct ev_stack *guess = prof_agg_stack(s->agg, k->guess);
	const bool agree = agrees(guess, prof_agg_stack(s->tables->walked, k->count.ustack));

	if (k->is_promise) {
		/* Before the one that was cut: of two with one name the first is kept. */
		if (agree) {
			struct ev_stack st = *guess;

			st.hash = k->count.ustack;
			(void)prof_agg_add_stack(s->agg, &st, NULL); /* counted there */
		}
		return;
	}
	if (agree) {
		tally_count(&s->tally, TALLY_COPIES_GUESSED, k->count.samples);
		k->count.ustack = k->guess;
	} else {
		tally_count(&s->tally, TALLY_COPIES_INCOMPLETE, k->count.samples);
	}
	(void)prof_agg_add_count(s->agg, &k->count); /* counted by the aggregation */
}

void ses_copies_merge(struct ses *s)
{
	const struct prof_agg *w = s->tables ? s->tables->walked : NULL;

	if (!w)
		return;
	vec_each (k, &s->tables->cut)
		merge_cut(s, k);
	for (size_t i = 0; i < prof_agg_stack_cnt(w); i++)
		(void)prof_agg_add_stack(s->agg, prof_agg_stack_at(w, i), NULL); /* counted there */
	for (size_t i = 0; i < prof_agg_count_cnt(w); i++)
		(void)prof_agg_add_count(s->agg, prof_agg_count_at(w, i));
	/* What W's own aggregation refused. */
	tally_count(&s->tally, TALLY_DROP_AGG_FULL, prof_agg_stats(w)->counts_dropped_samples);
	tally_count(&s->tally, TALLY_STACKS_OVER_LIMIT, prof_agg_stats(w)->stacks_dropped);
}
