/* SPDX-License-Identifier: Apache-2.0 */
#define XXH_INLINE_ALL
#include <xxhash.h>

#include "base/base.h"

/* ---- vector --------------------------------------------------------------------------------- */

int vec_grow_(void *pp, size_t *cap, size_t n, size_t more, size_t max, size_t item_size)
{
	size_t need, new_cap, bytes;
	void *p;

	if (!size_add(n, more, &need) || need > max)
		return -E2BIG;
	if (need <= *cap)
		return 0;
	if (!size_mul(*cap, 2, &new_cap))
		new_cap = max;
	new_cap = MAX_OF(new_cap, (size_t)8);
	new_cap = MIN_OF(new_cap, max);
	new_cap = MAX_OF(new_cap, need);
	if (!size_mul(new_cap, item_size, &bytes))
		return -ENOMEM;
	memcpy(&p, pp, sizeof(p));
	p = realloc(p, bytes);
	if (!p)
		return -ENOMEM;
	memcpy(pp, &p, sizeof(p));
	*cap = new_cap;
	return 0;
}

/* ---- arena ---------------------------------------------------------------------------------- */

#define ARENA_ALIGN     8
#define ARENA_CHUNK_MIN 4096  /* first chunk: small arenas stay small */
#define ARENA_CHUNK_MAX 65536 /* chunks double up to this, so that large arenas waste < 64 KiB */

struct arena_chunk {
	struct arena_chunk *next;
	size_t size, used; /* bytes of data[] */
	_Alignas(ARENA_ALIGN) uint8_t data[];
};

void arena_init(struct arena *a, size_t max_bytes)
{
	*a = (struct arena){.max_bytes = max_bytes};
}

void arena_done(struct arena *a)
{
	while (a->head) {
		struct arena_chunk *c = a->head;

		a->head = c->next;
		free(c);
	}
	a->used_bytes = 0;
}

static int chunk_new(struct arena *a, size_t len, struct arena_chunk **ret)
{
	size_t left = a->max_bytes - a->used_bytes;
	size_t bytes, want;
	struct arena_chunk *c;

	if (!size_add(len, sizeof(*c), &bytes) || bytes > left)
		return -E2BIG;
	want = a->head ? a->head->size + sizeof(*c) : ARENA_CHUNK_MIN / 2;
	want = MIN_OF(MAX_OF(want * 2, (size_t)ARENA_CHUNK_MIN), (size_t)ARENA_CHUNK_MAX);
	bytes = MAX_OF(bytes, MIN_OF(want, left & ~(size_t)(ARENA_ALIGN - 1)));
	c = calloc(1, bytes);
	if (!c)
		return -ENOMEM;
	c->size = bytes - sizeof(*c);
	a->used_bytes += bytes;
	*ret = c;
	return 0;
}

static int arena_get(struct arena *a, size_t len, void **ret)
{
	struct arena_chunk *c = a->head;
	int r;

	/* No object has 0 bytes, so that no two share an address. */
	if (!size_add(MAX_OF(len, (size_t)1), ARENA_ALIGN - 1, &len))
		return -E2BIG;
	len &= ~(size_t)(ARENA_ALIGN - 1);
	if (!c || c->size - c->used < len) {
		r = chunk_new(a, len, &c);
		if (r < 0)
			return r;
		if (a->head && a->head->size - a->head->used > c->size - len) {
			/* More room is left in the head: it stays the head. */
			c->next = a->head->next;
			a->head->next = c;
		} else {
			c->next = a->head;
			a->head = c;
		}
	}
	*ret = c->data + c->used;
	c->used += len;
	return 0;
}

void *arena_alloc(struct arena *a, size_t len)
{
	void *p;

	return arena_get(a, len, &p) < 0 ? NULL : p;
}

char *arena_strndup(struct arena *a, const char *s, size_t len)
{
	char *p;

	len = strnlen(s, len);
	if (len == SIZE_MAX)
		return NULL;
	p = arena_alloc(a, len + 1);
	if (p)
		memcpy(p, s, len);
	return p;
}

/* ---- interner ------------------------------------------------------------------------------- */

#define INTERN_ITEMS_MIN 16

struct intern_key {
	const void *p; /* in .keys */
	uint32_t len;
};

/* The hash next to the id keeps a miss within one cache line and makes growing cheap. */
struct intern_slot {
	uint32_t hash;
	uint32_t id1; /* id + 1, 0 = free */
};

/* Thread: any, one at a time; intern_find and intern_get may run in several while none adds. */
struct intern {
	struct intern_key *items;  /* items[count], by id */
	struct intern_slot *slots; /* slots[n_slots], a power of two, at most 3/4 in use */
	size_t n_slots;
	uint32_t count, cap, max_items;
	size_t max_bytes;
	struct arena keys; /* its cap is the rest of max_bytes */
};

static size_t tables_bytes(size_t cap, size_t n_slots)
{
	return cap * sizeof(struct intern_key) + n_slots * sizeof(struct intern_slot);
}

/* Gives the arena the rest of the cap after tables of this size. */
static int budget_tables(struct intern *in, size_t cap, size_t n_slots)
{
	size_t tables = tables_bytes(cap, n_slots);

	if (tables > in->max_bytes || in->max_bytes - tables < in->keys.used_bytes)
		return -E2BIG;
	in->keys.max_bytes = in->max_bytes - tables;
	return 0;
}

int intern_new(uint32_t max_items, size_t max_bytes, struct intern **ret)
{
	struct intern *in = calloc(1, sizeof(*in));

	if (!in)
		return -ENOMEM;
	in->max_items = MIN_OF(max_items, INTERN_NONE - 1); /* id + 1 must fit, and not be NONE */
	in->max_bytes = max_bytes;
	arena_init(&in->keys, max_bytes);
	*ret = in;
	return 0;
}

struct intern *intern_free(struct intern *in)
{
	if (in) {
		arena_done(&in->keys);
		free(in->slots);
		free(in->items);
		free(in);
	}
	return NULL;
}

void intern_freep(struct intern **in)
{
	*in = intern_free(*in);
}

static int grow_items(struct intern *in)
{
	uint64_t cap = MIN_OF(MAX_OF((uint64_t)in->cap * 2, (uint64_t)INTERN_ITEMS_MIN),
	                      (uint64_t)in->max_items);
	struct intern_key *items;
	int r;

	if (in->count < in->cap)
		return 0;
	if (in->count >= in->max_items)
		return -E2BIG;
	r = budget_tables(in, cap, in->n_slots);
	if (r < 0)
		return r;
	items = realloc(in->items, cap * sizeof(*items));
	if (!items) {
		(void)budget_tables(in, in->cap, in->n_slots); /* as before, so it fits */
		return -ENOMEM;
	}
	in->items = items;
	in->cap = (uint32_t)cap;
	return 0;
}

static int grow_slots(struct intern *in)
{
	size_t n = in->n_slots ? in->n_slots * 2 : INTERN_ITEMS_MIN * 2;
	struct intern_slot *slots;
	int r;

	if (in->count < in->n_slots / 4 * 3)
		return 0;
	r = budget_tables(in, in->cap, n);
	if (r < 0)
		return r;
	slots = calloc(n, sizeof(*slots));
	if (!slots) {
		(void)budget_tables(in, in->cap, in->n_slots);
		return -ENOMEM;
	}
	for (size_t i = 0; i < in->n_slots; i++) {
		size_t at = in->slots[i].hash & (n - 1);

		if (!in->slots[i].id1)
			continue;
		while (slots[at].id1)
			at = (at + 1) & (n - 1);
		slots[at] = in->slots[i];
	}
	free(in->slots);
	in->slots = slots;
	in->n_slots = n;
	return 0;
}

/* Returns the slot of the key, or the free slot for it. n_slots > 0. */
static struct intern_slot *slot_of(const struct intern *in, const void *key, size_t len,
                                   uint32_t hash)
{
	size_t at = hash & (in->n_slots - 1);

	for (;; at = (at + 1) & (in->n_slots - 1)) {
		struct intern_slot *s = &in->slots[at];
		const struct intern_key *k;

		if (!s->id1)
			return s;
		if (s->hash != hash)
			continue;
		k = &in->items[s->id1 - 1];
		if (k->len == len && (len == 0 || memcmp(k->p, key, len) == 0))
			return s;
	}
}

uint64_t hash_bytes(const void *p, size_t len)
{
	return XXH3_64bits(p, len);
}

static uint32_t hash_of(const void *key, size_t len)
{
	return (uint32_t)XXH3_64bits(key, len);
}

int intern_add(struct intern *in, const void *key, size_t len, uint32_t *ret_id, bool *ret_new)
{
	uint32_t hash = hash_of(key, len);
	struct intern_slot *s = in->n_slots ? slot_of(in, key, len, hash) : NULL;
	void *copy;
	int r;

	if (s && s->id1) {
		*ret_id = s->id1 - 1;
		if (ret_new)
			*ret_new = false;
		return 0;
	}
	if (len >= UINT32_MAX)
		return -E2BIG;
	r = grow_items(in);
	if (r < 0)
		return r;
	r = grow_slots(in);
	if (r < 0)
		return r;
	r = arena_get(&in->keys, len + 1, &copy); /* zeroed: the NUL is there */
	if (r < 0)
		return r;
	if (len > 0)
		memcpy(copy, key, len);
	in->items[in->count] = (struct intern_key){.p = copy, .len = (uint32_t)len};
	s = slot_of(in, key, len, hash);
	*s = (struct intern_slot){.hash = hash, .id1 = in->count + 1};
	*ret_id = in->count++;
	if (ret_new)
		*ret_new = true;
	return 0;
}

uint32_t intern_find(const struct intern *in, const void *key, size_t len)
{
	return in->n_slots ? slot_of(in, key, len, hash_of(key, len))->id1 - 1 : INTERN_NONE;
}

const void *intern_get(const struct intern *in, uint32_t id, size_t *ret_len)
{
	assert(id < in->count);
	if (ret_len)
		*ret_len = in->items[id].len;
	return in->items[id].p;
}

uint32_t intern_count(const struct intern *in)
{
	return in->count;
}

size_t intern_bytes(const struct intern *in)
{
	return sizeof(*in) + tables_bytes(in->cap, in->n_slots) + in->keys.used_bytes;
}

/* ---- sorted arrays --------------------------------------------------------------------------- */

int u64_cmp(const void *a, const void *b)
{
	const uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return (x > y) - (x < y);
}
