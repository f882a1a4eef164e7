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
 * ABI_WALK_TWICE walks besides and counts differences (KMEMO_DIFFER, for tests).
 */
#ifndef PA_BPF_KMEMO_H
#define PA_BPF_KMEMO_H

#include "bpf/lib/stack.h"

#define KMEMO_ENTRIES 512  /* of each CPU; in twos: each key has two places */
#define KMEMO_FRAMES  64   /* of a stack that is remembered, and places of them */
#define KMEMO_BYTES   2048 /* of the stack that is looked at */
#define KMEMO_SKIP    4    /* innermost frames: of the tracepoint, the same for all */

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
struct known {
	__u64 key, hash;
	__u64 check; /* of the words at their places; 0: it came once */
	__u32 next;  /* of the first of two: which of them has to go next */
	__u32 pad;
};

struct kmemo {
	struct known k;
	__u32 n;     /* places */
	__u32 len;   /* bytes from the context to behind the last of them */
	__u32 entry; /* 1: there is one more, below the user registers */
	__u32 pad;
	__u16 at[KMEMO_FRAMES]; /* KMEMO_AT above the context, ascending */
};
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, KMEMO_ENTRIES);
	__type(key, __u32);
	__type(value, struct kmemo);
} kmemos SEC(".maps");

/* Where the user registers lie, at the top of the stack. */
static __always_inline __u64 stack_top(struct scratch *s, struct task_struct *task)
{
	if (HAS_HELPER(task_pt_regs)) {
		s->kmemo_top = (__u64)bpf_task_pt_regs(task);
		return *(volatile __u64 *)&s->kmemo_top; /* verifier: a number from here on */
	}
	return (__u64)TASK_GET(task, stack) + REGS_STACK_SIZE - REGS_STACK_PAD -
	       sizeof(user_regs_t);
}

/* Which frames of the stack that was just walked have this return address, as bits. */
static __always_inline __u64 kmemo_frames_at(const struct scratch *s, __u64 word)
{
	__u64 found = 0;
	__u32 i;

	for (i = KMEMO_SKIP; i < KMEMO_FRAMES && i < s->kmemo_frames; i++) {
		__u64 d = s->kframes[i] ^ word, minus = -d;

		/* Without a branch: the verifier would follow each way through all of them. */
		__asm__ volatile("" : "+r"(minus));
		found |= (((d | minus) >> 63) ^ 1) << i;
	}
	return found;
}

/* The place of a word, and some of its bits. */
#define KMEMO_AT(at, word) ((__u16)((at) / 8 | ((word)&0xff) << 8))
#define KMEMO_OFFSET(at)   (((at)&0xff) * 8)

/* One word of s->window, upwards: if it is one of the return addresses its place is noted. 1: there
 * are too many. A function of its own, which the verifier looks at once. */
__noinline int kmemo_word(__u32 slot, __u32 at)
{
	struct scratch *s = get_scratch();
	struct kmemo *m = bpf_map_lookup_elem(&kmemos, &slot);
	__u64 word, found;
	__u32 i;

	if (!s || !m)
		return 1; /* verifier: cannot happen */
	word = *(__u64 *)(s->window + (at & (KMEMO_BYTES - 8)));
	found = kmemo_frames_at(s, word);
	if (!found)
		return 0;
	i = s->kmemo_next;
	if (i >= KMEMO_FRAMES)
		return 1;
	m->at[i] = KMEMO_AT(at & (KMEMO_BYTES - 8), word);
	m->len = at + 8;
	s->kmemo_next = i + 1;
	s->kmemo_found |= found;
	return 0;
}

/* One of the places that are noted: is what was there still there? A function of its own, as
 * kmemo_word. */
__noinline int kmemo_keep(__u32 slot, __u32 from)
{
	struct scratch *s = get_scratch();
	struct kmemo *m = bpf_map_lookup_elem(&kmemos, &slot);
	__u64 word, found;
	__u32 i, at;

	if (!s || !m || from >= KMEMO_FRAMES)
		return 0; /* verifier: cannot happen */
	at = m->at[from];
	word = *(__u64 *)(s->window + KMEMO_OFFSET(at));
	found = kmemo_frames_at(s, word);
	i = s->kmemo_next;
	if (!found || (word & 0xff) != at >> 8 || i >= KMEMO_FRAMES)
		return 0;
	m->at[i] = (__u16)at;
	m->len = KMEMO_OFFSET(at) + 8;
	s->kmemo_next = i + 1;
	s->kmemo_found |= found;
	return 0;
}

static __always_inline __u64 kmemo_hash(struct scratch *s, const struct kmemo *m, __u64 entry)
{
	__u64 h = uw_hash_mix(m->k.key, entry, cfg.hash_seed);
	__u32 i;

	for (i = 0; i < KMEMO_FRAMES; i++) {
		if (i >= m->n)
			break;
		h = uw_hash_mix(h, *(__u64 *)(s->window + KMEMO_OFFSET(m->at[i])), cfg.hash_seed);
	}
	return h ? h : 1;
}

/* Do all frames have a place? Then it is noted what stands there. */
static __always_inline int kmemo_done(struct scratch *s, struct kmemo *m, __u64 entry)
{
	if (s->kmemo_found != ~0ULL >> ((KMEMO_FRAMES - s->kmemo_frames) & (KMEMO_FRAMES - 1)))
		return 0; /* one stands nowhere, or the window is too small */
	m->n = s->kmemo_next;
	m->k.check = kmemo_hash(s, m, entry);
	return 1;
}

static __always_inline void kmemo_begin(struct scratch *s)
{
	s->kmemo_next = 0;
	s->kmemo_found = (1ULL << KMEMO_SKIP) - 1;
}

/* Notes the places of a stack that was just walked: 1. Where it has places already, of which some
 * hold something else now, those were left-overs: the others are kept, which is soon done, and
 * what left-overs are there does not matter the next time. A function of its own, as kmemo_word. */
__noinline int kmemo_learn(__u32 slot, __u64 base, __u64 top)
{
	struct scratch *s = get_scratch();
	struct kmemo *m = bpf_map_lookup_elem(&kmemos, &slot);
	__u64 len = top - base, entry = 0;
	__u32 i, n, places;

	if (!s || !m)
		return 0; /* verifier: cannot happen */
	n = s->kstack.n;
	if (n <= KMEMO_SKIP + 1 || n > KMEMO_FRAMES || s->kstack.walk != ABI_WALK_ROOT)
		return 0;
	places = m->k.check && base + m->len <= top ? m->n : 0;
	m->k.check = 0;
	BOUND(len, KMEMO_BYTES, return 0);
	if (bpf_probe_read_kernel(s->window, len, (const void *)base) ||
	    bpf_probe_read_kernel(&entry, sizeof(entry), (const void *)(top - 8)))
		return 0;
	m->entry = entry == s->kframes[(n - 1) & (KMEMO_FRAMES - 1)];
	if (!m->entry)
		entry = 0;
	s->kmemo_frames = n - m->entry;
	kmemo_begin(s);
	for (i = 0; i < KMEMO_FRAMES; i++) {
		if (i >= places)
			break;
		(void)kmemo_keep(slot, i);
	}
	if (places && kmemo_done(s, m, entry))
		return 1;
	kmemo_begin(s);
	for (i = 0; i < KMEMO_BYTES / 8; i++) {
		if (i * 8 >= top - base) /* len itself would have to be kept: see BOUND */
			break;
		if (kmemo_word(slot, i * 8))
			return 0;
	}
	return kmemo_done(s, m, entry);
}

/* Is it the stack that is remembered? */
static __always_inline int kmemo_hit(struct scratch *s, const struct kmemo *m, __u64 base,
                                     __u64 top)
{
	__u64 entry = 0, len = m->len;

	if (!m->k.check || base + len > top)
		return 0;
	BOUND(len, KMEMO_BYTES, return 0);
	if (bpf_probe_read_kernel(s->window, len, (const void *)base))
		return 0;
	if (m->entry && bpf_probe_read_kernel(&entry, sizeof(entry), (const void *)(top - 8)))
		return 0;
	return kmemo_hash(s, m, entry) == m->k.check;
}

/* Where @key is remembered, or is to be, in a map of @entries that begin with struct known, at the
 * slots of @at: the second place is for what would else drive out by turns what stands in the first
 * one, so that neither is ever known again. */
static __always_inline void *known_of(void *map, __u32 entries, __u64 key, __u64 at, __u32 *slot)
{
	struct known *a, *b;

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
	struct kmemo *m = 0;
#else
	struct kmemo *m =
	        known_of(&kmemos, KMEMO_ENTRIES, key, uw_hash_mix(0, key, cfg.hash_seed), &slot);
#endif

	s->kmemo_top = (__u64)ctx;
	base = *(volatile __u64 *)&s->kmemo_top;
	if (m && m->k.key == key && !(cfg.walk_flags & ABI_WALK_NO_MEMO) &&
	    kmemo_hit(s, m, base, top)) {
		CNT_ADD(c, KMEMO_HIT, 1);
		s->key.kstack = m->k.hash;
		if (!(cfg.walk_flags & ABI_WALK_TWICE) && is_shipped(m->k.hash))
			return;
		hit = m->k.hash;
	}
	walk_kernel(ctx, s, c);
	ship(&s->kstack, ABI_MAX_KERNEL_FRAMES, c);
	s->key.kstack = s->kstack.hash;
	if (hit && hit != s->kstack.hash)
		CNT_ADD(c, KMEMO_DIFFER, 1);
	if (!m || hit)
		return;
	if (m->k.key == key && m->k.hash == s->kstack.hash) {
		(void)kmemo_learn(slot, base, top);
	} else {
		m->k.key = key;
		m->k.hash = s->kstack.hash;
		m->k.check = 0;
	}
}

#endif
