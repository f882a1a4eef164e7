/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/*
 * Per-CPU cache of off-CPU kernel stacks. The kernel's own walk takes longer than the rest of a
 * switch, and threads block at the same places again and again.
 *
 * Key: the call site (see REGS_CALL_SITE), or the thread if it is a kernel thread. An entry is made
 * when a stack came twice. It has the offsets of the return addresses above the tracepoint's
 * context, which is on the same stack. The outermost return address is found from the user
 * registers instead: between them, a system call begins at a random offset.
 *
 * The entry is a hit if all these words are the same. A return address determines the function that
 * was called and so the size of its frame. The next return address is then at the same offset, or
 * has another value. A word that equals a return address may be a left-over of an earlier call. All
 * equal words are recorded, so the return address is among them. Words that differ when the same
 * stack is walked again were left-overs, and are dropped.
 *
 * A false hit takes an indirect call of another function whose frame still has all words of an
 * earlier stack at their offsets. On arm64 nothing is cached: some frames are above the random
 * offset, and return addresses are signed with keys of the thread.
 *
 * ABI_WALK_TWICE also walks on a hit, and counts differences (KSTACK_CACHE_DIFFER, for tests).
 */
#ifndef PA_BPF_KSTACK_CACHE_H
#define PA_BPF_KSTACK_CACHE_H

#include "bpf/lib/stack.h"

#define KCACHE_ENTRIES 512  /* of each CPU, in sets of two */
#define KCACHE_FRAMES  64   /* of a cached stack, and words recorded of it */
#define KCACHE_BYTES   2048 /* of the stack that are searched */
#define KCACHE_SKIP    4    /* innermost frames, of the tracepoint: equal in all stacks */

/* verifier: 5.10 bounds only the register that was compared, so the comparison comes after all
 * arithmetic and is not merged with another. */
#define BOUND(v, max, leave)                                                                       \
	do {                                                                                       \
		__asm__ volatile("" : "+r"(v));                                                    \
		if ((v) > (max))                                                                   \
			leave;                                                                     \
	} while (0)

/* First member of the entries of both stack caches. A set has two entries. */
struct cache_entry {
	__u64 key, hash;
	__u64 check; /* hash of the words at their offsets; 0: the stack came once */
	__u32 next;  /* in the first entry of a set: the entry that is replaced next */
	__u32 pad;
};

struct kcache_entry {
	struct cache_entry k;
	__u32 n;     /* words */
	__u32 len;   /* bytes from the context to the end of the last word */
	__u32 entry; /* 1: the outermost return address is below the user registers */
	__u32 pad;
	__u16 at[KCACHE_FRAMES]; /* KCACHE_AT above the context, ascending */
};
/*
 * Writers and readers: the off-CPU programs, each on its own CPU.
 * Size: KCACHE_ENTRIES for each CPU. Full: the older entry of a set is replaced.
 */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, KCACHE_ENTRIES);
	__type(key, __u32);
	__type(value, struct kcache_entry);
} kstack_cache SEC(".maps");

/* Returns the address of the user registers, at the top of the kernel stack. */
static __always_inline __u64 stack_top(struct scratch *s, struct task_struct *task)
{
	if (HAS_HELPER(task_pt_regs)) {
		s->kcache.top = (__u64)bpf_task_pt_regs(task);
		return *(volatile __u64 *)&s->kcache.top; /* verifier: a number from here on */
	}
	return (__u64)TASK_GET(task, stack) + REGS_STACK_SIZE - REGS_STACK_PAD -
	       sizeof(user_regs_t);
}

/* Returns the frames of the stack just walked that have this return address, as bits. */
static __always_inline __u64 kcache_frames_at(const struct scratch *s, __u64 word)
{
	__u64 found = 0;
	__u32 i;

	for (i = KCACHE_SKIP; i < KCACHE_FRAMES && i < s->kcache.frames; i++) {
		__u64 d = s->kernel.frames[i] ^ word, minus = -d;

		/* Without a branch: the verifier would follow each way through all of them. */
		__asm__ volatile("" : "+r"(minus));
		found |= (((d | minus) >> 63) ^ 1) << i;
	}
	return found;
}

/* The offset of a word, and its low 8 bits. */
#define KCACHE_AT(at, word) ((__u16)((at) / 8 | ((word)&0xff) << 8))
#define KCACHE_OFFSET(at)   (((at)&0xff) * 8)

/* Records the word of s->window at offset @at if it equals a return address. Returns 1 if there are
 * too many. __noinline: verified once. */
__noinline int kcache_word(__u32 slot, __u32 at)
{
	struct scratch *s = get_scratch();
	struct kcache_entry *m = bpf_map_lookup_elem(&kstack_cache, &slot);
	__u64 word, found;
	__u32 i;

	if (!s || !m)
		return 1; /* verifier: cannot happen */
	word = *(__u64 *)(s->window + (at & (KCACHE_BYTES - 8)));
	found = kcache_frames_at(s, word);
	if (!found)
		return 0;
	i = s->kcache.next;
	if (i >= KCACHE_FRAMES)
		return 1;
	m->at[i] = KCACHE_AT(at & (KCACHE_BYTES - 8), word);
	m->len = at + 8;
	s->kcache.next = i + 1;
	s->kcache.found |= found;
	return 0;
}

/* Keeps the recorded word @from if it still equals a return address. __noinline: verified once. */
__noinline int kcache_keep(__u32 slot, __u32 from)
{
	struct scratch *s = get_scratch();
	struct kcache_entry *m = bpf_map_lookup_elem(&kstack_cache, &slot);
	__u64 word, found;
	__u32 i, at;

	if (!s || !m || from >= KCACHE_FRAMES)
		return 0; /* verifier: cannot happen */
	at = m->at[from];
	word = *(__u64 *)(s->window + KCACHE_OFFSET(at));
	found = kcache_frames_at(s, word);
	i = s->kcache.next;
	if (!found || (word & 0xff) != at >> 8 || i >= KCACHE_FRAMES)
		return 0;
	m->at[i] = (__u16)at;
	m->len = KCACHE_OFFSET(at) + 8;
	s->kcache.next = i + 1;
	s->kcache.found |= found;
	return 0;
}

static __always_inline __u64 kcache_hash(struct scratch *s, const struct kcache_entry *m,
                                         __u64 entry)
{
	__u64 h = uw_hash_mix(m->k.key, entry, cfg.hash_seed);
	__u32 i;

	for (i = 0; i < KCACHE_FRAMES; i++) {
		if (i >= m->n)
			break;
		h = uw_hash_mix(h, *(__u64 *)(s->window + KCACHE_OFFSET(m->at[i])), cfg.hash_seed);
	}
	return h ? h : 1;
}

/* Completes the entry and returns 1 if a word was recorded for each frame. */
static __always_inline int kcache_done(struct scratch *s, struct kcache_entry *m, __u64 entry)
{
	if (s->kcache.found != ~0ULL >> ((KCACHE_FRAMES - s->kcache.frames) & (KCACHE_FRAMES - 1)))
		return 0; /* one was not found, or is above the window */
	m->n = s->kcache.next;
	m->k.check = kcache_hash(s, m, entry);
	return 1;
}

static __always_inline void kcache_begin(struct scratch *s)
{
	s->kcache.next = 0;
	s->kcache.found = (1ULL << KCACHE_SKIP) - 1;
}

/* Records the words of the stack just walked. Returns 1 if the entry is valid. If the entry has
 * words already, those that differ now were left-overs: only the others are kept, which is cheap.
 * __noinline: verified once. */
__noinline int kcache_store(__u32 slot, __u64 base, __u64 top)
{
	struct scratch *s = get_scratch();
	struct kcache_entry *m = bpf_map_lookup_elem(&kstack_cache, &slot);
	__u64 len = top - base, entry = 0;
	__u32 i, n, words;

	if (!s || !m)
		return 0; /* verifier: cannot happen */
	n = s->kernel.head.n;
	if (n <= KCACHE_SKIP + 1 || n > KCACHE_FRAMES || s->kernel.head.walk != ABI_WALK_ROOT)
		return 0;
	words = m->k.check && base + m->len <= top ? m->n : 0;
	m->k.check = 0;
	BOUND(len, KCACHE_BYTES, return 0);
	if (bpf_probe_read_kernel(s->window, len, (const void *)base) ||
	    bpf_probe_read_kernel(&entry, sizeof(entry), (const void *)(top - 8)))
		return 0;
	m->entry = entry == s->kernel.frames[(n - 1) & (KCACHE_FRAMES - 1)];
	if (!m->entry)
		entry = 0;
	s->kcache.frames = n - m->entry;
	kcache_begin(s);
	for (i = 0; i < KCACHE_FRAMES; i++) {
		if (i >= words)
			break;
		(void)kcache_keep(slot, i);
	}
	if (words && kcache_done(s, m, entry))
		return 1;
	kcache_begin(s);
	for (i = 0; i < KCACHE_BYTES / 8; i++) {
		if (i * 8 >= top - base) /* not len: see BOUND */
			break;
		if (kcache_word(slot, i * 8))
			return 0;
	}
	return kcache_done(s, m, entry);
}

/* Returns 1 if the stack from @base on is the cached one. */
static __always_inline int kcache_hit(struct scratch *s, const struct kcache_entry *m, __u64 base,
                                      __u64 top)
{
	__u64 entry = 0, len = m->len;

	if (!m->k.check || base + len > top)
		return 0;
	BOUND(len, KCACHE_BYTES, return 0);
	if (bpf_probe_read_kernel(s->window, len, (const void *)base))
		return 0;
	if (m->entry && bpf_probe_read_kernel(&entry, sizeof(entry), (const void *)(top - 8)))
		return 0;
	return kcache_hash(s, m, entry) == m->k.check;
}

/* Returns the entry of @key, or the one to replace, and its slot. @at: hash that chooses the set. A
 * set has two entries, so that two stacks of one set do not replace each other at each switch. */
static __always_inline void *cache_find(void *map, __u32 entries, __u64 key, __u64 at, __u32 *slot)
{
	struct cache_entry *a, *b;

	*slot = (__u32)(at >> 32) & (entries - 2);
	a = bpf_map_lookup_elem(map, slot);
	if (!a || a->key == key)
		return a;
	*slot |= 1;
	b = bpf_map_lookup_elem(map, slot);
	if (!b || b->key == key)
		return b;
	a->next ^= 1;
	if (!a->next)
		return b;
	*slot ^= 1;
	return a;
}

/* Puts the id of the current task's kernel stack into s->key; the task is being switched out. @key:
 * key of the cache. */
static __always_inline void switched_kernel(void *ctx, struct scratch *s, struct abi_counters *c,
                                            struct task_struct *task, __u64 key)
{
	__u64 top = stack_top(s, task), base, hit = 0;
	__u32 slot = 0;
#if defined(__TARGET_ARCH_arm64)
	struct kcache_entry *m = 0;
#else
	struct kcache_entry *m = cache_find(&kstack_cache, KCACHE_ENTRIES, key,
	                                    uw_hash_mix(0, key, cfg.hash_seed), &slot);
#endif

	s->kcache.top = (__u64)ctx;
	base = *(volatile __u64 *)&s->kcache.top;
	if (m && m->k.key == key && !(cfg.walk_flags & ABI_WALK_NO_CPU_CACHE) &&
	    kcache_hit(s, m, base, top)) {
		CNT_ADD(c, KSTACK_CACHE_HIT, 1);
		s->key.kstack = m->k.hash;
		if (!(cfg.walk_flags & ABI_WALK_TWICE) && is_shipped(m->k.hash))
			return;
		hit = m->k.hash;
	}
	walk_kernel(ctx, s, c);
	ship(&s->kernel.head, ABI_MAX_KERNEL_FRAMES, c);
	s->key.kstack = s->kernel.head.hash;
	if (hit && hit != s->kernel.head.hash)
		CNT_ADD(c, KSTACK_CACHE_DIFFER, 1);
	if (!m || hit)
		return;
	if (m->k.key == key && m->k.hash == s->kernel.head.hash) {
		(void)kcache_store(slot, base, top);
	} else {
		m->k.key = key;
		m->k.hash = s->kernel.head.hash;
		m->k.check = 0;
	}
}

#endif
