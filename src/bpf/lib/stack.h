/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/* Stacks for user space: hashed, and each sent once. */
#ifndef PA_BPF_STACK_H
#define PA_BPF_STACK_H

#include "bpf/lib/task.h"
#include "bpf/lib/walk.h"

/* Fills the header of a kernel stack. @len: bytes of @frames, or the helper's error. */
static __always_inline void finish_kernel(struct abi_stack *st, const __u64 *frames, long len,
                                          struct abi_counters *c)
{
	__u64 h = ~cfg.hash_seed;
	__u32 n, i, walk;

	/* A stack without frames has an outcome, so the sample does not look like one of user
	 * code. */
	if (len <= 0) {
		CNT_ADD(c, KERNEL_STACK_FAILED, 1);
		len = 0;
	}
	n = (__u32)len / 8;
	walk = !n ? ABI_WALK_FAULT : n >= cfg.max_kframes ? ABI_WALK_DEPTH : ABI_WALK_ROOT;
	for (i = 0; i < ABI_MAX_KERNEL_FRAMES; i++) {
		if (i >= n)
			break;
		h = uw_hash_mix(h, frames[i], cfg.hash_seed);
	}
	st->kind = ABI_STACK_KERNEL;
	st->walk = walk;
	st->flags = 0;
	st->n = n;
	st->hash = uw_hash_finish(h, n, walk, 0, cfg.hash_seed);
}

static __always_inline void walk_kernel(void *ctx, struct scratch *s, struct abi_counters *c)
{
	finish_kernel(&s->kernel.head, s->kernel.frames,
	              bpf_get_stack(ctx, s->kernel.frames, ABI_MAX_KERNEL_FRAMES * 8, 0), c);
}

/* Returns 1 if the stack was sent already. */
static __always_inline int is_shipped(__u64 hash)
{
	__u32 slot = (__u32)hash & cfg.shipped_mask & ~1U, other = slot | 1;
	__u64 *a = bpf_map_lookup_elem(&shipped, &slot), *b = bpf_map_lookup_elem(&shipped, &other);

	return !a || !b || *a == hash || *b == hash;
}

/* Sends @len bytes that end with a stack. Returns 1, and records the stack as sent, if the ring
 * took them. */
static __always_inline int send(void *data, __u64 len, __u64 hash, struct abi_counters *c)
{
	__u32 slot = (__u32)hash & cfg.shipped_mask & ~1U, other = slot | 1;
	__u64 *a = bpf_map_lookup_elem(&shipped, &slot), *b = bpf_map_lookup_elem(&shipped, &other);
	__u64 flags = BPF_RB_NO_WAKEUP;

	if (!a || !b)
		return 0; /* verifier: cannot happen */
	if (bpf_ringbuf_query(&stack_ring, BPF_RB_AVAIL_DATA) >= cfg.ring_wake_bytes)
		flags = BPF_RB_FORCE_WAKEUP;
	if (bpf_ringbuf_output(&stack_ring, data, len, flags)) {
		CNT_ADD(c, STACK_RING_FULL, 1);
		return 0;
	}
	CNT_ADD(c, STACK_SHIPPED, 1);
	CNT_ADD(c, STACK_BYTES, len + 8); /* 8: the ring's own header */
	*b = *a;
	*a = hash;
	return 1;
}

static __always_inline __u64 frames_len(const struct abi_stack *st, __u32 max_frames)
{
	__u32 n = st->n;

	/* verifier: true already */
	return (__u64)(n > max_frames ? max_frames : n) * 8;
}

static __always_inline void ship(struct abi_stack *st, __u32 max_frames, struct abi_counters *c)
{
	if (!is_shipped(st->hash))
		(void)send(st, sizeof(*st) + frames_len(st, max_frames), st->hash, c);
}

/* Sends a new user stack with its sample. Returns 1 if the sample was sent. */
static __always_inline int ship_with_sample(struct scratch *s, struct abi_counters *c)
{
	if (is_shipped(s->ustack.hash))
		return 0;
	s->sample.key = s->key;
	s->sample.count = s->count;
	/* The sample follows in a record of its own. */
	if (cfg.stream)
		s->sample.count.samples = s->sample.count.weight = 0;
	return send(&s->sample,
	            sizeof(s->sample) + sizeof(s->ustack) +
	                    frames_len(&s->ustack, ABI_MAX_USER_FRAMES),
	            s->ustack.hash, c);
}

#endif
