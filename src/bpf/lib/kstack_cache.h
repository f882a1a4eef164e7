/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/*
 * Kernel stacks of threads that are switched out, without walking most of them. The kernel's own
 * walk takes longer than all the rest; but threads wait at the same places again and again.
 *
 * A stack that came twice is remembered with the places of its return addresses above the
 * tracepoint's context, which lies on the same stack (and the outermost one below the user
 * registers: in between, a system call begins at a random place). Where each of these words stands
 * there once more, it is the same stack: from one return address on, one knows which function was
 * called and how large its frame is, so that the next one stands where it stood, or has another
 * value. Which of several equal words is the return address, and which a left-over, is not known:
 * all of them are looked at, so that the right one is among them; those that hold something else
 * when the same stack is walked again were left-overs. What could deceive it is a call
 * through a pointer to another function whose frame still holds all the words of an earlier stack,
 * at their places. On arm64 all is walked: some frames lie above the random place, and return
 * addresses are signed by keys of the thread.
 * ABI_WALK_TWICE walks besides and counts differences (KCACHE_DIFFER, for tests).
 */
#ifndef PA_BPF_KSTACK_CACHE_H
#define PA_BPF_KSTACK_CACHE_H

#include "bpf/lib/stack.h"

#define KCACHE_ENTRIES 512  /* of each CPU; in twos: each key has two places */
#define KCACHE_FRAMES  64   /* of a stack that is remembered, and places of them */
#define KCACHE_BYTES   2048 /* of the stack that is looked at */
#define KCACHE_SKIP    4    /* innermost frames: of the tracepoint, the same for all */

/* verifier: 5.10 knows only the register that was compared, so that one comparison must stand alone
 * and behind all arithmetic. */
#define BOUND(v, max, leave)                                                                       \
	do {                                                                                       \
		__asm__ volatile("" : "+r"(v));                                                    \
		if ((v) > (max))                                                                   \
			leave;                                                                     \
	} while (0)

/* What entries of this memory, and of that of user stacks, begin with. They stand in twos: each key
 * has two places. */
struct cache_entry {
	__u64 key, hash;
	__u64 check; /* of the words at their places; 0: it came once */
	__u32 next;  /* of the first of two: which of them has to go next */
	__u32 pad;
};

struct kcache_entry {
	struct cache_entry k;
	__u32 n;     /* places */
	__u32 len;   /* bytes from the context to behind the last of them */
	__u32 entry; /* 1: there is one more, below the user registers */
	__u32 pad;
	__u16 at[KCACHE_FRAMES]; /* KCACHE_AT above the context, ascending */
};
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, KCACHE_ENTRIES);
	__type(key, __u32);
	__type(value, struct kcache_entry);
} kstack_cache SEC(".maps");

/* Where the user registers lie, at the top of the stack. */
static __always_inline __u64 stack_top(struct scratch *s, struct task_struct *task)
{
	if (HAS_HELPER(task_pt_regs)) {
		s->kcache.top = (__u64)bpf_task_pt_regs(task);
		return *(volatile __u64 *)&s->kcache.top; /* verifier: a number from here on */
	}
	return (__u64)TASK_GET(task, stack) + REGS_STACK_SIZE - REGS_STACK_PAD -
	       sizeof(user_regs_t);
}

/* Which frames of the stack that was just walked have this return address, as bits. */
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

/* The place of a word, and some of its bits. */
#define KCACHE_AT(at, word) ((__u16)((at) / 8 | ((word)&0xff) << 8))
#define KCACHE_OFFSET(at)   (((at)&0xff) * 8)

/* One word of s->window, upwards: if it is one of the return addresses its place is noted. 1: there
 * are too many. A function of its own, which the verifier looks at once. */
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

/* One of the places that are noted: is what was there still there? A function of its own, as
 * kcache_word. */
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

/* Do all frames have a place? Then it is noted what stands there. */
static __always_inline int kcache_done(struct scratch *s, struct kcache_entry *m, __u64 entry)
{
	if (s->kcache.found != ~0ULL >> ((KCACHE_FRAMES - s->kcache.frames) & (KCACHE_FRAMES - 1)))
		return 0; /* one stands nowhere, or the window is too small */
	m->n = s->kcache.next;
	m->k.check = kcache_hash(s, m, entry);
	return 1;
}

static __always_inline void kcache_begin(struct scratch *s)
{
	s->kcache.next = 0;
	s->kcache.found = (1ULL << KCACHE_SKIP) - 1;
}

/* Notes the places of a stack that was just walked: 1. Where it has places already, of which some
 * hold something else now, those were left-overs: the others are kept, which is soon done, and
 * what left-overs are there does not matter the next time. A function of its own, as kcache_word. */
__noinline int kcache_store(__u32 slot, __u64 base, __u64 top)
{
	struct scratch *s = get_scratch();
	struct kcache_entry *m = bpf_map_lookup_elem(&kstack_cache, &slot);
	__u64 len = top - base, entry = 0;
	__u32 i, n, places;

	if (!s || !m)
		return 0; /* verifier: cannot happen */
	n = s->kernel.head.n;
	if (n <= KCACHE_SKIP + 1 || n > KCACHE_FRAMES || s->kernel.head.walk != ABI_WALK_ROOT)
		return 0;
	places = m->k.check && base + m->len <= top ? m->n : 0;
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
		if (i >= places)
			break;
		(void)kcache_keep(slot, i);
	}
	if (places && kcache_done(s, m, entry))
		return 1;
	kcache_begin(s);
	for (i = 0; i < KCACHE_BYTES / 8; i++) {
		if (i * 8 >= top - base) /* len itself would have to be kept: see BOUND */
			break;
		if (kcache_word(slot, i * 8))
			return 0;
	}
	return kcache_done(s, m, entry);
}

/* Is it the stack that is remembered? */
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

/* Where @key is remembered, or is to be, in a map of @entries that begin with struct cache_entry, at the
 * slots of @at: the second place is for what would else drive out by turns what stands in the first
 * one, so that neither is ever known again. */
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

/* The kernel stack of the current task, which is being switched out, into s->key. @key: what its
 * stack is likely to depend on. */
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
