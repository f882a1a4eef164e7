/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Deferred samples: the drain adds them, the tracker unwinds them once their tables exist, control
 * merges them. Each one that the drain received is counted, whatever its walk gives.
 */
#include "deferred/deferred_priv.h"

/* Deferred samples held. 64 MiB of 16 KiB each are 4,096, but most snapshots are shorter. */
#define PENDING_MAX       8192
#define PENDING_BYTES_MAX ((uint64_t)64 << 20)
/* One part in so many is kept free of threads that were off-CPU at the start: those can be read
 * later. */
#define PENDING_SPARE 4
/* Side-band events have rings of their own: a process may be reported after its samples. */
#define UNKNOWN_NS       NSEC_PER_SEC
#define UNKNOWN_AGAIN_NS (50 * NSEC_PER_MSEC)
/* Walks of one sample that each reached another image without a table; after them it is unwound
 * heuristically. */
#define TRIES_MAX 32

struct deferred_sample {
	struct deferred_sample *next;
	struct ev_deferred c; /* c.bytes: bytes below */
	uint64_t received_ns;
	uint64_t due_ns; /* need 0: not retried before */
	uint32_t need;   /* image without a table; 0: the process is not known yet */
	uint32_t tries;
	bool met;      /* walked once */
	uint8_t *more; /* a larger snapshot, read later; NULL: none */
	uint8_t bytes[];
};

/* ---- drain ----------------------------------------------------------------------------------- */

/* Adds a count, and its sample to the stream. */
static void add_count(struct prof_agg *agg, struct stream *stream, const struct ev_count *c)
{
	uint32_t id;

	/* A failure is counted by the aggregation. */
	if (prof_agg_add_count_id(agg, c, &id) == 0 && stream)
		stream_add(stream, id, c);
}

/* No room: counts the sample without its stack. */
static void count_without_stack(struct deferred *d, const struct ev_deferred *c)
{
	const struct ev_stack st = {
	        .hash = uw_stack_hash(d->o.hash_seed, NULL, 0, ABI_WALK_NO_TABLE, 0),
	        .walk = EV_WALK_NO_TABLE,
	};
	struct ev_count count = c->count;

	if (c->placeholder) {
		/* Counts that refer to it keep their weight. */
		struct ev_stack kept = st;

		kept.hash = c->placeholder;
		(void)prof_agg_add_stack(d->o.agg, &kept, NULL);
		tally_count(d->o.tally, TALLY_OFFCPU_STACKS_LOST, 1);
		return;
	}
	count.ustack = st.hash;
	(void)prof_agg_add_stack(d->o.agg, &st, NULL); /* counted by the aggregation */
	add_count(d->o.agg, d->o.stream, &count);
	tally_count(d->o.tally, TALLY_DEFERRED_LOST, c->count.samples);
}

static uint64_t bytes_of(const struct deferred_sample *c)
{
	return sizeof(*c) + c->c.len;
}

size_t deferred_room(const struct deferred *d)
{
	uint64_t max_bytes = PENDING_BYTES_MAX / PENDING_SPARE * (PENDING_SPARE - 1), bytes;
	size_t max = PENDING_MAX / PENDING_SPARE * (PENDING_SPARE - 1), room;

	if (!d->has_tables)
		return SIZE_MAX; /* no sample is deferred */
	room = atomic_load(&d->pending);
	room = room < max ? max - room : 0;
	bytes = atomic_load(&d->pending_bytes);
	bytes = bytes < max_bytes ? max_bytes - bytes : 0;
	return (size_t)MIN_OF((uint64_t)room, bytes / SMP_STACK_BYTES);
}

static struct deferred_sample *keep(struct deferred *d, const struct ev_deferred *c)
{
	struct deferred_sample *k;

	/* Only the drain adds, and the tracker reads snapshots again: at most one is over the
	 * limit. */
	if (atomic_load(&d->pending) >= PENDING_MAX ||
	    atomic_load(&d->pending_bytes) + sizeof(*k) + c->len > PENDING_BYTES_MAX)
		return NULL;
	k = malloc(sizeof(*k) + c->len);
	if (!k)
		return NULL;
	*k = (struct deferred_sample){.c = *c, .received_ns = now_ns()};
	if (c->len)
		memcpy(k->bytes, c->bytes, c->len);
	k->c.bytes = k->bytes;
	atomic_fetch_add(&d->pending, 1);
	atomic_fetch_add(&d->pending_bytes, bytes_of(k));
	return k;
}

static void drop(struct deferred *d, struct deferred_sample *k)
{
	atomic_fetch_sub(&d->pending, 1);
	atomic_fetch_sub(&d->pending_bytes, bytes_of(k));
	deferred_sample_free(k);
}

void deferred_add(struct deferred *d, const struct ev_deferred *c)
{
	struct deferred_sample *k;

	if (c->count.ustack && !c->placeholder) {
		/* The kernel side has counted it; this one is for comparison. */
		if (d->o.compare)
			d->o.compare(d->o.compare_arg, c);
		return;
	}
	k = d->has_tables ? keep(d, c) : NULL;
	if (k && !d->o.push(d->o.arg, k)) {
		drop(d, k);
		k = NULL;
	}
	if (!k)
		count_without_stack(d, c);
}

/* ---- tracker: the target's memory ------------------------------------------------------------ */

struct subject {
	struct deferred *d;
	const struct ev_deferred *c;
};

static int place(void *arg, uint64_t addr, uint32_t *ret_image, uint64_t *ret_off)
{
	const struct subject *s = arg;
	struct trk_location pl;

	if (trk_resolve_at(s->d->o.trk, &s->c->count.proc, addr, s->c->time_ns, &pl) < 0 ||
	    (!pl.image && !pl.anon))
		return -ENOENT;
	*ret_image = pl.image ? pl.image->id : 0;
	*ret_off = pl.off;
	return 0;
}

static int read_data(void *arg, uint64_t *ret, uint64_t addr)
{
	return ev_deferred_word(((const struct subject *)arg)->c, addr, ret);
}

size_t deferred_image_read(const struct deferred *d, const struct trk_image *img, uint64_t off,
                           void *buf, size_t len)
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
		fd = trk_image_fd(d->o.trk, img->id, &close_fd);
		if (fd >= 0)
			n = file_pread_full(fd, buf, len, off);
		if (fd >= 0 && close_fd)
			close(fd); /* only read from */
	}
	return n > 0 ? (size_t)n : 0;
}

static void fill_window(const struct deferred *d, const struct trk_image *img, uint64_t off,
                        struct deferred_window *w)
{
	w->image = img->id;
	w->off = off;
	w->len = (uint32_t)deferred_image_read(d, img, off, w->bytes, sizeof(w->bytes));
}

/* Reads code from the file: changes in memory are not seen. */
static int read_code(void *arg, uint64_t *ret, uint64_t addr)
{
	const struct subject *s = arg;
	struct deferred *d = s->d;
	struct deferred_window *w = NULL;
	struct trk_location pl;
	uint64_t off;

	if (trk_resolve_at(s->d->o.trk, &s->c->count.proc, addr, s->c->time_ns, &pl) < 0 ||
	    !pl.image)
		return -EFAULT;
	off = pl.off & ~(uint64_t)(DEFERRED_WINDOW_BYTES - 1);
	for (size_t i = 0; i < DEFERRED_WINDOWS; i++)
		if (d->window[i].image == pl.image->id && d->window[i].off == off)
			w = &d->window[i];
	if (!w) {
		w = &d->window[d->next_window++ % DEFERRED_WINDOWS];
		fill_window(s->d, pl.image, off, w);
	}
	off = pl.off - off;
	if (w->len < sizeof(*ret) || off > w->len - sizeof(*ret))
		return -EFAULT;
	memcpy(ret, w->bytes + off, sizeof(*ret));
	return 0;
}

/* ---- tracker: walking ------------------------------------------------------------------------ */

/* Adds a sample with its stack, hashed as the kernel side does. */
static void add(struct deferred *d, const struct deferred_sample *k, const uint64_t *frames,
                uint32_t n, int walk, uint8_t flags)
{
	struct ev_count count = k->c.count;
	struct ev_stack st = {
	        .hash = uw_stack_hash(d->o.hash_seed, frames, n, walk, flags),
	        .walk = (uint8_t)walk,
	        .flags = flags,
	        .n = n,
	        .frames = d->frames,
	};
	bool is_new = false;

	for (uint32_t i = 0; i < n; i++)
		(void)smp_frame_decode(frames[i], &d->frames[i]); /* made by our own walk */
	if (k->c.placeholder)
		st.hash = k->c.placeholder;
	count.ustack = st.hash;
	d->o.walked(d->o.arg, &count, &st);
	if (prof_agg_add_stack(d->walked, &st, &is_new) == 0 && is_new)
		for (uint32_t i = 0; i < n; i++)
			if (d->frames[i].space == EV_SPACE_IMAGE)
				d->o.symbolize(d->o.arg, d->frames[i].image,
				               d->frames[i].exact ? d->frames[i].addr
				                                  : d->frames[i].addr - 1);
	if (k->c.placeholder)
		tally_count(d->o.tally, TALLY_OFFCPU_DEFERRED, 1);
	else
		tally_count(d->o.tally, TALLY_DEFERRED_UNWOUND, count.samples);
	/* Its heuristic stack is complete only after the drain has ended. */
	if (walk == ABI_WALK_FAULT && k->c.heuristic &&
	    vec_push(&d->cut, ((struct deferred_cut){.count = count,
	                                             .heuristic = k->c.heuristic,
	                                             .is_placeholder = k->c.placeholder != 0})) ==
	            0)
		return;
	if (k->c.placeholder)
		return;
	if (walk != ABI_WALK_ROOT)
		tally_count(d->o.tally, TALLY_DEFERRED_INCOMPLETE, count.samples);
	add_count(d->walked, d->stream, &count);
}

/* Reads a stack that is larger than its snapshot again, once. It does not change while its thread
 * is blocked. Returns whether it was read. */
static bool read_more(struct deferred *d, struct deferred_sample *k)
{
	struct ev_deferred c = k->c;

	if (!k->c.placeholder || k->more || !d->o.reread ||
	    atomic_load(&d->pending_bytes) + SMP_STACK_BYTES > PENDING_BYTES_MAX ||
	    !d->o.reread(d->o.arg, &c, d->stack))
		return false;
	k->more = malloc(c.len);
	if (!k->more)
		return false;
	memcpy(k->more, c.bytes, c.len);
	atomic_fetch_sub(&d->pending_bytes, bytes_of(k));
	k->c = c;
	k->c.bytes = k->more;
	atomic_fetch_add(&d->pending_bytes, bytes_of(k));
	tally_count(d->o.tally, TALLY_OFFCPU_REREAD, 1);
	return true;
}

/* Walks a sample. Returns whether it was counted. @final: count it in any case. */
static bool walk(struct deferred *d, struct deferred_sample *k, uint64_t now, bool final)
{
	struct subject subject = {.d = d, .c = &k->c};
	const struct uw_target target = {.resolve = place,
	                                 .read = read_data,
	                                 .read_code = read_code,
	                                 .arg = &subject,
	                                 .in_syscall = k->c.in_syscall};
	enum ev_reason known = trk_proc_reason(d->o.trk, &k->c.count.proc);
	/* No more events will arrive. */
	const bool no_more_events = final || d->finishing;

	k->met = true;
	/* Wait for the side-band events up to its time, however late they are: older mappings could
	 * give its frames the names of another file. */
	if (!no_more_events && trk_watermark_ns(d->o.trk) < k->c.time_ns) {
		k->need = 0;
		k->due_ns = now;
		return false;
	}
	if (known == EV_REASON_NO_MAPPING && !no_more_events && now - k->received_ns < UNKNOWN_NS) {
		k->need = 0;
		k->due_ns = now + UNKNOWN_AGAIN_NS;
		return false;
	}
	if (known != EV_REASON_NAMED) {
		const uint64_t leaf = ABI_FRAME_EXACT | (k->c.pc & ABI_FRAME_ADDR_MASK);

		add(d, k, &leaf, 1,
		    known == EV_REASON_NOT_PERMITTED ? (int)EV_WALK_DENIED : (int)ABI_WALK_GONE, 0);
		return true;
	}
	final = final || k->tries >= TRIES_MAX;
	uw_walk(d->store, d->rules, &target, k->c.pc, k->c.reg, final, &d->walk);
	if (d->walk.walk == ABI_WALK_FAULT && read_more(d, k))
		uw_walk(d->store, d->rules, &target, k->c.pc, k->c.reg, final, &d->walk);
	if (d->walk.walk == ABI_WALK_NO_TABLE && !final) {
		k->tries++;
		k->need = d->walk.image;
		deferred_ask(d, k->need);
		return false;
	}
	/* The event of a recent mapping may not have arrived. */
	if (d->walk.unresolved && !no_more_events && now - k->received_ns < UNKNOWN_NS) {
		k->need = 0;
		k->due_ns = now + UNKNOWN_AGAIN_NS;
		return false;
	}
	add(d, k, d->walk.frames, MIN_OF(d->walk.n, (uint32_t)ABI_MAX_USER_FRAMES), d->walk.walk,
	    d->walk.flags);
	return true;
}

void deferred_receive(struct deferred *d, struct deferred_sample *k)
{

	k->next = d->waiting;
	d->waiting = k;
	d->hurry = true; /* this round walks it */
}

/* Whether the cause that stopped the walk is gone. Requests a table that was evicted unused again.
 */
static bool is_due(struct deferred *d, const struct deferred_sample *k, uint64_t now)
{
	if (!k->met)
		return true;
	if (k->need == 0)
		return now >= k->due_ns || d->finishing;
	if (!deferred_absent(d, k->need))
		return true;
	if (atomic_load(&d->image[k->need].state) != DEFERRED_TABLE_QUEUED &&
	    d->image[k->need].asked == 0)
		deferred_ask(d, k->need);
	return false;
}

size_t deferred_retry(struct deferred *d, uint64_t now, bool final)
{
	size_t left = 0;

	for (struct deferred_sample **at = &d->waiting, *k; (k = *at);) {
		if ((final || is_due(d, k, now)) && walk(d, k, now, final)) {
			*at = k->next;
			drop(d, k);
		} else {
			at = &k->next;
			left++;
		}
	}
	return left;
}

void deferred_sample_free(struct deferred_sample *k)
{
	if (k)
		free(k->more);
	free(k);
}

void deferred_samples_done(struct deferred *d)
{
	vec_done(&d->cut);
	while (d->waiting) {
		struct deferred_sample *k = d->waiting;

		d->waiting = k->next;
		deferred_sample_free(k);
	}
}

/* ---- control --------------------------------------------------------------------------------- */

/* Whether the heuristic stack agrees with the snapshot as far as that goes; then it is used. */
static bool agrees(const struct ev_stack *heuristic, const struct ev_stack *cut)
{
	return heuristic && cut && heuristic->n > cut->n &&
	       memcmp(heuristic->frames, cut->frames, cut->n * sizeof(*cut->frames)) == 0;
}

static void merge_cut(struct deferred *d, struct deferred_cut *k)
{
	const struct ev_stack *heuristic = prof_agg_stack(d->o.agg, k->heuristic);
	const bool agree = agrees(heuristic, prof_agg_stack(d->walked, k->count.ustack));

	if (k->is_placeholder) {
		/* Before the cut stack: of two stacks with one hash the first is kept. */
		if (agree) {
			struct ev_stack st = *heuristic;

			st.hash = k->count.ustack;
			(void)prof_agg_add_stack(d->o.agg, &st, NULL); /* counted there */
		}
		return;
	}
	if (agree) {
		tally_count(d->o.tally, TALLY_DEFERRED_HEURISTIC, k->count.samples);
		k->count.ustack = k->heuristic;
	} else {
		tally_count(d->o.tally, TALLY_DEFERRED_INCOMPLETE, k->count.samples);
	}
	add_count(d->o.agg, d->o.stream, &k->count);
}

static void merge_counts(struct deferred *d)
{
	const struct prof_agg *w = d->walked;
	const size_t n = prof_agg_count_cnt(w);
	_cleanup_free_ uint32_t *index = d->stream ? calloc(n + 1, sizeof(*index)) : NULL;

	for (size_t i = 0; i < n; i++) {
		uint32_t id = UINT32_MAX;

		/* A failure is counted there. */
		(void)prof_agg_add_count_id(d->o.agg, prof_agg_count_at(w, i), &id);
		if (index)
			index[i] = id;
	}
	if (d->stream)
		stream_take(d->o.stream, d->stream, index);
}

void deferred_merge(struct deferred *d)
{
	const struct prof_agg *w = d->walked;

	vec_each (k, &d->cut)
		merge_cut(d, k);
	for (size_t i = 0; i < prof_agg_stack_cnt(w); i++)
		(void)prof_agg_add_stack(d->o.agg, prof_agg_stack_at(w, i),
		                         NULL); /* counted there */
	merge_counts(d);
	/* Refused by the tracker's aggregation. */
	tally_count(d->o.tally, TALLY_DROP_AGG_FULL, prof_agg_stats(w)->counts_dropped_samples);
	tally_count(d->o.tally, TALLY_STACKS_OVER_LIMIT, prof_agg_stats(w)->stacks_dropped);
}

/* As merge_cut, into a copy of the aggregation. Its heuristic stack may come later. */
static void copy_cut(const struct deferred *d, const struct deferred_cut *k, struct prof_agg *to,
                     struct prof_agg *const since[2])
{
	const struct ev_stack *heuristic = prof_agg_stack(to, k->heuristic);
	const bool agree = agrees(heuristic, prof_agg_stack(d->walked, k->count.ustack));
	struct ev_count count = k->count;

	if (k->is_placeholder) {
		struct ev_stack st = agree ? *heuristic : (struct ev_stack){0};

		st.hash = count.ustack;
		if (agree)
			(void)prof_agg_add_stack(to, &st, NULL); /* counted there */
		return;
	}
	if (agree)
		count.ustack = k->heuristic;
	(void)prof_agg_add_count(to, &count); /* counted there */
	if (since[count.offcpu != EV_OFFCPU_NONE])
		(void)prof_agg_add_count(since[count.offcpu != EV_OFFCPU_NONE], &count);
}

int deferred_copy_changes(struct deferred *d, struct deferred_seen *seen, struct prof_agg *to,
                          struct prof_agg *const since[2])
{
	for (; seen->cut < d->cut.n; seen->cut++)
		copy_cut(d, &d->cut.p[seen->cut], to, since);
	return prof_agg_copy_changes(d->walked, &seen->walked, to, since);
}

void deferred_seen_done(struct deferred_seen *seen)
{
	prof_seen_done(&seen->walked);
	seen->cut = 0;
}
