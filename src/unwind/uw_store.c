/* SPDX-License-Identifier: Apache-2.0 */
#include "unwind/unwind_priv.h"

struct uw_store;
#define UW_TABLES               const struct uw_store
#define UW_VALUE(tables, value) store_value(tables, value)
static const __u32 *store_value(const struct uw_store *s, __u32 value);
#include "step/step_lookup.h"

#define BUDGET_DEFAULT_BYTES (256ULL << 20)
/* A program reads an image, then its words: far less than 1 ms, even where an interrupt comes
 * between. */
#define REST_NS    (100 * NSEC_PER_MSEC)
#define SERIAL_END (1u << 30) /* uw_cache_mix has 30 bits for it */

/* Words that belong together; base and words are even. */
struct extent {
	uint32_t base, words;
};
struct live {
	struct extent at;
	uint32_t image, serial;
	uint64_t rows;
};
/* Words of an evicted table. They and the image's fields are not written before until_ns. */
struct resting {
	struct extent at;
	uint32_t image;
	uint64_t until_ns;
};

/* Thread: any. The lock guards all of it, and the fields of images[] that user space writes; held
 * while segment() is called. Free, live and resting extents do not overlap and cover all words. */
struct uw_store {
	pthread_mutex_t *lock; /* a pointer, since a look-up takes a const store */
	struct uw_backing b;
	uint32_t **segments;               /* [max_segments]; NULL: not made */
	uint64_t budget_words, used_words; /* used: live and resting */
	uint32_t serial;                   /* last one given */
	VEC(struct extent) free;           /* by base, no two touch */
	VEC(struct live) live;
	VEC(struct resting) resting; /* by until_ns */
	struct uw_store_stats stats;
};

static const __u32 *store_value(const struct uw_store *s, __u32 value)
{
	uint32_t segment = value >> (ABI_SEGMENT_SHIFT - ABI_VALUE_SHIFT);

	if (segment >= s->b.max_segments || !s->segments[segment])
		return NULL;
	return s->segments[segment] + ((value << ABI_VALUE_SHIFT) & (ABI_SEGMENT_WORDS - 1));
}

/* ---- making and freeing ---------------------------------------------------------------------- */

int uw_store_new(const struct uw_backing *b, uint64_t budget_bytes, struct uw_store **ret)
{
	_cleanup_(uw_store_freep) struct uw_store *s = NULL;
	uint64_t max = (uint64_t)b->max_segments * ABI_SEGMENT_WORDS;
	int r;

	if (!b->images || !b->segment || b->max_segments < 1 || b->max_segments > ABI_SEGMENTS_MAX)
		return -EINVAL;
	s = calloc(1, sizeof(*s));
	if (!s)
		return -ENOMEM;
	s->b = *b;
	s->budget_words = MIN_OF((budget_bytes ? budget_bytes : BUDGET_DEFAULT_BYTES) / 4, max);
	/* Live and resting tables are no more than images, and free extents one more than these.
	 * Room is reserved as if each resting table became an extent. */
	s->free.max = s->live.max = s->resting.max = 2 * (size_t)b->n_images + 2;
	s->segments = calloc(b->max_segments, sizeof(*s->segments));
	s->lock = malloc(sizeof(*s->lock));
	if (!s->segments || !s->lock)
		return -ENOMEM;
	if (pthread_mutex_init(s->lock, NULL)) {
		freep(&s->lock);
		return -ENOMEM;
	}
	r = vec_push(&s->free, (struct extent){.base = 0, .words = (uint32_t)max});
	if (r < 0)
		return r;
	*ret = TAKE_PTR(s);
	return 0;
}

struct uw_store *uw_store_free(struct uw_store *s)
{
	if (s) {
		if (s->lock)
			(void)pthread_mutex_destroy(s->lock); /* fails only when it is held */
		free(s->lock);
		free(s->segments); /* the words are the backing's */
		vec_done(&s->free);
		vec_done(&s->live);
		vec_done(&s->resting);
		free(s);
	}
	return NULL;
}

void uw_store_freep(struct uw_store **s)
{
	*s = uw_store_free(*s);
}

/* ---- free extents ---------------------------------------------------------------------------- */

/* Returns the index of the first free extent after @base. */
static size_t free_after(const struct uw_store *s, uint32_t base)
{
	return bisect_first(i, 0, s->free.n, s->free.p[i].base >= base);
}

/* Inserts a free extent; room was reserved. */
static void free_insert(struct uw_store *s, size_t at, struct extent e)
{
	assert(s->free.p && s->free.n < s->free.cap);
	if (at < s->free.n)
		memmove(&s->free.p[at + 1], &s->free.p[at], (s->free.n - at) * sizeof(e));
	s->free.p[at] = e;
	s->free.n++;
}

static void free_remove(struct uw_store *s, size_t at)
{
	s->free.n--;
	memmove(&s->free.p[at], &s->free.p[at + 1], (s->free.n - at) * sizeof(*s->free.p));
}

static void give_back(struct uw_store *s, struct extent e)
{
	size_t at = free_after(s, e.base);
	struct extent *prev = at > 0 ? &s->free.p[at - 1] : NULL;
	struct extent *next = at < s->free.n ? &s->free.p[at] : NULL;

	if (prev && prev->base + prev->words == e.base) {
		prev->words += e.words;
		if (next && prev->base + prev->words == next->base) {
			prev->words += next->words;
			free_remove(s, at);
		}
	} else if (next && e.base + e.words == next->base) {
		next->base = e.base;
		next->words += e.words;
	} else {
		free_insert(s, at, e);
	}
}

/* Uses the first words of a free extent. */
static void use_words(struct uw_store *s, size_t at, uint32_t words)
{
	struct extent *e = &s->free.p[at];

	e->base += words;
	e->words -= words;
	if (e->words == 0)
		free_remove(s, at);
}

/* ---- layout ---------------------------------------------------------------------------------- */

/* One table being installed. */
struct packing {
	const struct uw_table *t;
	uint16_t *counts;   /* [n_chunks] rows of each chunk; 0: one code governs it all */
	uint64_t min_words; /* without padding */
};

/* Counts the rows of each chunk: those that begin in it, and the one that governs its start. */
static int packing_of(const struct uw_table *t, struct packing *ret)
{
	struct packing p = {.t = t, .min_words = 2 * (uint64_t)t->n_chunks};
	uint32_t row = 0;

	p.counts = calloc(t->n_chunks, sizeof(*p.counts));
	if (!p.counts)
		return -ENOMEM;
	for (uint32_t c = 0; c < t->n_chunks; c++) {
		uint64_t start = (uint64_t)c << ABI_CHUNK_SHIFT;
		uint32_t first = row, n;
		bool at_start = row < t->n_rows && t->rows[row].rel == start;

		while (row < t->n_rows && t->rows[row].rel < start + ABI_CHUNK_BYTES)
			row++;
		n = row - first + !at_start;
		p.counts[c] = n > 1 ? (uint16_t)n : 0;
		p.min_words += p.counts[c];
	}
	*ret = p;
	return 0;
}

/* Returns the first word at or after @at at which @n rows lie in one value. */
static uint64_t row_start(uint64_t at, uint32_t n)
{
	uint64_t left = ABI_VALUE_WORDS - (at & (ABI_VALUE_WORDS - 1));

	return n <= left ? at : at + left;
}

/* Returns the words of the table at this base, rounded up to even: the next base must be even. */
static uint64_t words_at(const struct packing *p, uint32_t base)
{
	uint64_t at = base + 2 * (uint64_t)p->t->n_chunks;

	for (uint32_t c = 0; c < p->t->n_chunks; c++)
		if (p->counts[c])
			at = row_start(at, p->counts[c]) + p->counts[c];
	return (at - base + 1) & ~1ULL;
}

static uint32_t *word(struct uw_store *s, uint64_t at)
{
	return s->segments[at >> ABI_SEGMENT_SHIFT] + (at & (ABI_SEGMENT_WORDS - 1));
}

static void pack(struct uw_store *s, const struct packing *p, uint32_t base)
{
	const struct uw_table *t = p->t;
	uint64_t at = base + 2 * (uint64_t)t->n_chunks;
	uint32_t row = 0;
	uint16_t code = ABI_CODE_NONE;

	for (uint32_t c = 0; c < t->n_chunks; c++) {
		uint64_t start = (uint64_t)c << ABI_CHUNK_SHIFT;
		uint32_t *index = word(s, base + 2 * (uint64_t)c), *w;
		uint32_t n = p->counts[c];

		if (row < t->n_rows && t->rows[row].rel == start)
			code = t->rows[row++].code;
		index[1] = n;
		if (n == 0) {
			index[0] = code;
			continue;
		}
		at = row_start(at, n);
		index[0] = (uint32_t)(at - base);
		w = word(s, at);
		*w++ = (uint32_t)(start & 0xffff) | (uint32_t)code << 16;
		for (uint32_t i = 1; i < n; i++, row++) {
			code = t->rows[row].code;
			*w++ = (t->rows[row].rel & 0xffff) | (uint32_t)code << 16;
		}
		at += n;
	}
}

/* ---- making room ----------------------------------------------------------------------------- */

static void end_rests(struct uw_store *s, uint64_t now)
{
	size_t n = 0;

	while (n < s->resting.n && s->resting.p[n].until_ns <= now) {
		s->used_words -= s->resting.p[n].at.words;
		give_back(s, s->resting.p[n].at);
		n++;
	}
	if (n == 0)
		return;
	/* A virtual CPU can be stopped in the middle of a program for longer than the rest. */
	if (s->b.wait_for_programs)
		s->b.wait_for_programs(s->b.arg);
	s->resting.n -= n;
	memmove(s->resting.p, s->resting.p + n, s->resting.n * sizeof(*s->resting.p));
}

static bool fits(const struct packing *p, struct extent e, uint64_t *ret_words)
{
	if (e.words < p->min_words)
		return false;
	*ret_words = words_at(p, e.base);
	return *ret_words <= e.words;
}

/* Finds the first free extent that holds the table. */
static bool find_place(const struct uw_store *s, const struct packing *p, size_t *ret_at,
                       uint64_t *ret_words)
{
	for (size_t i = 0; i < s->free.n; i++) {
		if (fits(p, s->free.p[i], ret_words) &&
		    *ret_words <= s->budget_words - s->used_words) {
			*ret_at = i;
			return true;
		}
	}
	return false;
}

static int by_base(const void *a, const void *b)
{
	const struct extent *x = a, *y = b;

	return (x->base > y->base) - (x->base < y->base);
}

/* Returns true if the table fits once all resting words are free. @tmp: room for both lists. */
static bool place_after_rest(const struct uw_store *s, const struct packing *p, struct extent *tmp)
{
	uint64_t resting = 0, words;
	size_t n = 0;

	for (size_t i = 0; i < s->free.n; i++)
		tmp[n++] = s->free.p[i];
	for (size_t i = 0; i < s->resting.n; i++) {
		tmp[n++] = s->resting.p[i].at;
		resting += s->resting.p[i].at.words;
	}
	qsort(tmp, n, sizeof(*tmp), by_base);
	for (size_t i = 0; i < n;) {
		struct extent e = tmp[i++];

		while (i < n && tmp[i].base == e.base + e.words)
			e.words += tmp[i++].words;
		if (fits(p, e, &words) && words <= s->budget_words - (s->used_words - resting))
			return true;
	}
	return false;
}

static uint32_t last_used(const struct uw_store *s, const struct live *l)
{
	return __atomic_load_n(&s->b.images[l->image].used, __ATOMIC_RELAXED);
}

/* Returns the least recently used table; of several the oldest. */
static size_t victim(const struct uw_store *s)
{
	size_t best = 0;

	for (size_t i = 1; i < s->live.n; i++) {
		const struct live *a = &s->live.p[i], *b = &s->live.p[best];
		uint32_t used = last_used(s, a), least = last_used(s, b);

		if (used < least || (used == least && a->serial < b->serial))
			best = i;
	}
	return best;
}

/* Evicts table @i; room in `resting` was reserved. */
static void evict(struct uw_store *s, size_t i, uint64_t now)
{
	struct live l = s->live.p[i];

	__atomic_store_n(&s->b.images[l.image].state, ABI_TABLE_ABSENT, __ATOMIC_RELEASE);
	s->resting.p[s->resting.n++] = (struct resting){
	        .at = l.at,
	        .image = l.image,
	        .until_ns = now + REST_NS,
	};
	s->live.p[i] = s->live.p[--s->live.n];
	s->stats.evicted++;
	s->stats.rows -= l.rows;
}

/* Evicts until the table will fit: -EAGAIN, or -ENOSPC if it never will. */
static int make_room(struct uw_store *s, const struct packing *p, uint64_t now)
{
	_cleanup_free_ struct extent *tmp = NULL;
	size_t n = s->free.n + s->resting.n + s->live.n;
	struct extent all = {.words = s->b.max_segments * ABI_SEGMENT_WORDS};
	uint64_t words;

	/* Nothing is evicted for a table that would not fit into the empty space. */
	if (!fits(p, all, &words) || words > s->budget_words)
		return -ENOSPC;
	tmp = malloc((n ? n : 1) * sizeof(*tmp));
	if (!tmp)
		return -ENOMEM;
	while (!place_after_rest(s, p, tmp)) {
		if (s->live.n == 0)
			return -ENOSPC;
		evict(s, victim(s), now);
	}
	return -EAGAIN;
}

/* ---- installing ------------------------------------------------------------------------------ */

static int make_segments(struct uw_store *s, struct extent e)
{
	uint32_t last = (e.base + e.words - 1) >> ABI_SEGMENT_SHIFT;

	for (uint32_t i = e.base >> ABI_SEGMENT_SHIFT; i <= last; i++) {
		uint32_t *w;
		int r;

		if (s->segments[i])
			continue;
		r = s->b.segment(s->b.arg, i, &w);
		if (r < 0)
			return r;
		s->segments[i] = w;
		s->stats.segments++;
	}
	return 0;
}

/* Writes the image's fields, its state last. */
static void publish(struct uw_store *s, uint32_t image, const struct uw_table *t, struct extent e)
{
	struct abi_image *im = &s->b.images[image];
	uint32_t newest = 0;

	/* As recent as the newest: else it would be evicted before any program uses it. */
	for (size_t i = 0; i < s->live.n; i++)
		newest = MAX_OF(newest, last_used(s, &s->live.p[i]));
	if (last_used(s, &(struct live){.image = image}) < newest)
		__atomic_store_n(&im->used, newest, __ATOMIC_RELAXED);
	im->serial = s->serial;
	im->base = e.base;
	im->n_chunks = t->n_chunks;
	im->lo = t->lo;
#ifdef ABI_ARM64
	/* A program reads an image's state and then its fields, and has no instruction that keeps
	 * that order. */
	if (s->b.wait_for_programs)
		s->b.wait_for_programs(s->b.arg);
#endif
	__atomic_store_n(&im->state, ABI_TABLE_READY, __ATOMIC_RELEASE);
}

/* Installs under the lock. @ret_refused: set if the table will never fit. */
static int install(struct uw_store *s, uint32_t image, const struct packing *p, uint64_t now,
                   bool *ret_refused)
{
	uint64_t words = 0;
	struct extent e;
	size_t at;
	int r;

	/* Reserves the lists first, so that nothing fails half-way: each live table may have to
	 * rest, and each resting one may become free. */
	r = vec_reserve(&s->live, 1);
	if (r == 0)
		r = vec_reserve(&s->resting, s->live.n + 1);
	if (r == 0)
		r = vec_reserve(&s->free, s->resting.n + 1);
	if (r < 0)
		return r;
	end_rests(s, now);
	for (size_t i = 0; i < s->resting.n; i++)
		if (s->resting.p[i].image == image)
			return -EAGAIN; /* a program may still have read some old fields */
	if (s->serial + 1 >= SERIAL_END || !find_place(s, p, &at, &words)) {
		r = s->serial + 1 >= SERIAL_END ? -ENOSPC : make_room(s, p, now);
		*ret_refused = r == -ENOSPC;
		return r;
	}
	e = (struct extent){.base = s->free.p[at].base, .words = (uint32_t)words};
	r = make_segments(s, e);
	if (r < 0)
		return r;
	use_words(s, at, e.words);
	s->used_words += e.words;
	s->serial++;
	pack(s, p, e.base);
	publish(s, image, p->t, e);
	s->live.p[s->live.n++] = (struct live){
	        .at = e,
	        .image = image,
	        .serial = s->serial,
	        .rows = p->t->n_rows,
	};
	s->stats.installed++;
	s->stats.rows += p->t->n_rows;
	return 0;
}

static uint32_t state_of(const struct uw_store *s, uint32_t image)
{
	return __atomic_load_n(&s->b.images[image].state, __ATOMIC_ACQUIRE);
}

int uw_store_install(struct uw_store *s, uint32_t image, const struct uw_table *t)
{
	_cleanup_free_ uint16_t *counts = NULL;
	struct packing p = {0};
	bool none = false;
	int r = 0;

	if (image >= s->b.n_images)
		return -ENOENT;
	if (t && t->n_chunks > 0) { /* outside of the lock: its time grows with the table */
		r = packing_of(t, &p);
		if (r < 0)
			return r;
		counts = p.counts;
	}
	(void)pthread_mutex_lock(s->lock); /* a plain mutex: cannot fail */
	if (state_of(s, image) == ABI_TABLE_READY) {
		r = -EEXIST;
	} else if (counts) {
		r = install(s, image, &p, now_ns(), &none);
		s->stats.refused += none;
	} else {
		none = true;
	}
	if (none)
		__atomic_store_n(&s->b.images[image].state, ABI_TABLE_NONE, __ATOMIC_RELEASE);
	(void)pthread_mutex_unlock(s->lock);
	return r;
}

int uw_store_code(const struct uw_store *s, uint32_t image, uint64_t off, uint16_t *ret)
{
	const struct abi_image *im;
	int r = 0;

	if (image >= s->b.n_images)
		return -ENOENT;
	(void)pthread_mutex_lock(s->lock);
	im = &s->b.images[image];
	switch ((enum abi_table_state)state_of(s, image)) {
	case ABI_TABLE_ABSENT:
		r = -EAGAIN;
		break;
	case ABI_TABLE_NONE:
		r = -ENOENT;
		break;
	case ABI_TABLE_READY:
		/* No rule outside of the table. */
		if (off < im->lo || (off - im->lo) >> ABI_CHUNK_SHIFT >= im->n_chunks)
			*ret = ABI_CODE_NONE;
		else
			*ret = (uint16_t)uw_table_code(s, im->base, (uint32_t)(off - im->lo));
		break;
	}
	(void)pthread_mutex_unlock(s->lock);
	return r;
}

void uw_store_stats(const struct uw_store *s, struct uw_store_stats *ret)
{
	(void)pthread_mutex_lock(s->lock);
	*ret = s->stats;
	ret->bytes = 4 * s->used_words;
	(void)pthread_mutex_unlock(s->lock);
}
