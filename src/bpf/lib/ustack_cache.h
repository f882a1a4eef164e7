/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/*
 * Per-CPU cache of off-CPU user stacks. Key: process, pc, sp. An entry is valid while the registers
 * and stack words that its walk read are unchanged.
 *
 * A walk depends on pc, the stack pointer, registers that a rule names, the stack words that it
 * reads, the ranges of its process, and the tables. An entry is made when a stack came twice on a
 * CPU, and has all of that. With the same registers, words and ranges a walk finds the same stack;
 * nothing is inferred, unlike in kstack_cache.h.
 *
 * A walk that also depended on code (heuristics, JIT code by rules) is not cached, nor an
 * incomplete one. Walks by frame pointers are cached unless they met a fault or unknown code.
 * Tables are added and evicted, but never change, and a complete walk met none that was missing.
 * Each stack is still walked once in each epoch, which keeps its tables in use.
 *
 * The includer defines WALK_RECORDS_READS before the first #include. ABI_WALK_TWICE also walks on a
 * hit, and counts differences (USTACK_CACHE_DIFFER, for tests).
 */
#ifndef PA_BPF_USTACK_CACHE_H
#define PA_BPF_USTACK_CACHE_H

#include "bpf/lib/kstack_cache.h"
#include "bpf/lib/sample.h"

#define UCACHE_ENTRIES 256 /* of each CPU, in sets of two */
#define UCACHE_FAR     16  /* far words, which are read one by one */

struct ucache_entry {
	struct cache_entry k; /* key: ucache_key; check: of the registers, too */
	__u64 ranges;         /* ucache_ranges of the walk */
	__u32 near, far;      /* words */
	__u32 len;            /* bytes from the stack pointer to the end of the last near word */
	__u32 frames;
	__u32 used; /* registers besides the stack pointer, USED_* */
	__u32 pad;
	__u16 at[UCACHE_WORDS]; /* as in struct reads */
};
#define USED_FP 1
#define USED_LR 2
/*
 * Writers and readers: the off-CPU programs, each on its own CPU.
 * Size: UCACHE_ENTRIES for each CPU. Full: the older entry of a set is replaced.
 */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, UCACHE_ENTRIES);
	__type(key, __u32);
	__type(value, struct ucache_entry);
} ustack_cache SEC(".maps");

/* Returns the key: process, pc, sp, and whether it is in a system call. */
static __always_inline __u64 ucache_key(const struct scratch *s)
{
	__u64 h = uw_hash_mix(cfg.hash_seed, s->key.start_ns, cfg.hash_seed);

	h = uw_hash_mix(h, (__u64)s->key.tgid << 32 | s->key.exec_id, cfg.hash_seed);
	h = uw_hash_mix(h, REGS_PC(&s->regs), cfg.hash_seed);
	return uw_hash_mix(h, REGS_SP(&s->regs) ^ (REGS_IN_SYSCALL(&s->regs) ? 1 : 0),
	                   cfg.hash_seed);
}

/* Returns a number for the process's ranges, and the epoch; entries of ranges are reused. */
static __always_inline __u64 ucache_ranges(const struct scratch *s)
{
	__u64 h = uw_hash_mix(cfg.hash_seed, (__u64)s->ranges.first << 32 | s->ranges.cnt,
	                      cfg.hash_seed);

	return uw_hash_mix(h, (__u64)ctl.epoch << 32 | ctl.reclaimed, cfg.hash_seed);
}

static __always_inline __u64 ucache_check(__u64 sum, __u32 used, const struct scratch *s)
{
	if (used & USED_FP)
		sum = uw_hash_mix(sum, REGS_FP(&s->regs), cfg.hash_seed);
	if (used & USED_LR)
		sum = uw_hash_mix(sum, REGS_LR(&s->regs), cfg.hash_seed);
	return sum ? sum : 1;
}

/* Returns the part of a far word in the sum, 0 if it cannot be read. */
static __always_inline __u64 ucache_far(const struct scratch *s, __u64 at)
{
	__u64 word = 0;

	if (bpf_probe_read_user(&word, sizeof(word), (const void *)(REGS_SP(&s->regs) + at)))
		return 0;
	return read_hash(at, word);
}

/* Returns 1 if the stack of s->regs is the cached one. */
static __always_inline int ucache_hit(struct scratch *s, const struct ucache_entry *m)
{
	__u64 len = m->len, sum = 0;
	__u32 i, near = m->near, far = m->far;

	if (!m->k.check)
		return 0;
	BOUND(len, WINDOW_SIZE, return 0);
	if (bpf_probe_read_user(s->window, len, (const void *)REGS_SP(&s->regs)))
		return 0;
	for (i = 0; i < UCACHE_WORDS; i++) {
		__u64 at = m->at[i] * 8ULL & (WINDOW_SIZE - 8);

		if (i >= near)
			break;
		sum += read_hash(at, *(__u64 *)(s->window + at));
	}
	for (i = 0; i < UCACHE_FAR; i++) {
		if (i >= far)
			break;
		sum += ucache_far(s, m->at[UCACHE_WORDS - 1 - i] * 8ULL);
	}
	return ucache_check(sum, m->used, s) == m->k.check;
}

#ifdef ABI_ARM64
#define USED_KNOWN (1U << ABI_REG_SP | 1U << ABI_REG_FP | 1U << ABI_REG_LR)
#else
#define USED_KNOWN (1U << ABI_REG_SP | 1U << ABI_REG_FP)
#endif

/* Returns 1 if the entry can record all that the walk depended on. */
static __always_inline int ucache_may_store(const struct scratch *s)
{
	__u32 walk = s->ustack.walk;

	if (walk != ABI_WALK_ROOT &&
	    (cfg.unwind || (walk != ABI_WALK_IMPLAUSIBLE && walk != ABI_WALK_BAD_PC)))
		return 0;
	return !s->ustack.flags && !s->n.raw && !s->defer.missing && !s->reads.other &&
	       !s->reads.odd && s->reads.far <= UCACHE_FAR &&
	       s->reads.near + s->reads.far <= UCACHE_WORDS && !(s->u.used & ~USED_KNOWN);
}

/* Puts the id of the stack of s->regs into s->key and returns 1 if it is cached. __noinline, as
 * ucache_store: verified once. */
__noinline int ucache_get(void)
{
	struct scratch *s = get_scratch();
	__u32 zero = 0;
	struct abi_counters *c = bpf_map_lookup_elem(&counters, &zero);
	struct ucache_entry *m;

	if (!s || !c)
		return 0; /* verifier: cannot happen */
	s->ucache.ready = 0;
	s->ucache.hit = 0;
	if (!s->ranges.cnt || s->verify.on || s->last.dirty_ns || s->task.compat ||
	    s->task.mm_released || cfg.walk_flags & (ABI_WALK_NO_CPU_CACHE | ABI_WALK_DEFER_ALL))
		return 0;
	s->ucache.place = ucache_key(s);
	s->ucache.ranges = ucache_ranges(s);
	s->ucache.ready = 1;
	m = cache_find(&ustack_cache, UCACHE_ENTRIES, s->ucache.place, s->ucache.place,
	               &s->ucache.slot);
	if (!m || m->k.key != s->ucache.place || m->ranges != s->ucache.ranges || !ucache_hit(s, m))
		return 0;
	if (cfg.walk_flags & ABI_WALK_TWICE) {
		CNT_ADD(c, USTACK_CACHE_HIT, 1);
		s->ucache.hit = m->k.hash;
		return 0;
	}
	if (!is_shipped(m->k.hash))
		return 0;
	CNT_ADD(c, USTACK_CACHE_HIT, 1);
	CNT_ADD(c, FRAMES, m->frames);
	s->key.ustack = m->k.hash;
	return 1;
}

/* Caches the stack just walked, if it came before. */
__noinline int ucache_store(void)
{
	struct scratch *s = get_scratch();
	__u32 zero = 0, slot = s ? s->ucache.slot : 0;
	struct abi_counters *c = bpf_map_lookup_elem(&counters, &zero);
	struct ucache_entry *m = bpf_map_lookup_elem(&ustack_cache, &slot);

	if (!s || !c || !m)
		return 0; /* verifier: cannot happen */
	if (s->ucache.hit) {
		if (!s->defer.missing && s->ucache.hit != s->ustack.hash) {
			CNT_ADD(c, USTACK_CACHE_DIFFER, 1);
			m->k.check = 0;
		}
		return 0;
	}
	if (!ucache_may_store(s))
		return 0;
	if (m->k.key != s->ucache.place || m->k.hash != s->ustack.hash) {
		m->k.key = s->ucache.place;
		m->k.hash = s->ustack.hash;
		m->k.check = 0;
		return 0;
	}
	__builtin_memcpy(m->at, s->reads.at, sizeof(m->at));
	m->ranges = s->ucache.ranges;
	m->near = s->reads.near;
	m->far = s->reads.far;
	m->len = s->reads.len;
	m->used = s->u.used & 1U << ABI_REG_FP ? USED_FP : 0;
#ifdef ABI_ARM64
	m->used |= s->u.used & 1U << ABI_REG_LR ? USED_LR : 0;
#endif
	m->frames = s->ustack.n;
	m->k.check = ucache_check(s->reads.sum, m->used, s);
	return 0;
}

/* Puts the id of the user stack of s->key's task into s->key. Registers are in s->regs; @bad: there
 * are none. A deferred stack gets a placeholder id. */
static __always_inline void switched_user(struct scratch *s, struct abi_counters *c,
                                          struct task_struct *task, long bad)
{
	begin_user(s, c);
	if (bad || !REGS_IS_USER(&s->regs)) {
		no_user_stack(s, c, ABI_WALK_NO_REGS);
		return;
	}
	s->task.compat = REGS_IS_COMPAT(&s->regs);
	s->task.mm_released = is_mm_released(s, task, 0);
	if (ucache_get())
		return;
	s->task.in_syscall = in_syscall(s);
	/* ucache_key used the registers alone. */
	if (s->task.in_syscall != (REGS_IN_SYSCALL(&s->regs) ? 1 : 0))
		s->ucache.ready = 0;
	s->placeholder = uw_hash_finish(s->placeholder ^ (__u64)bpf_get_smp_processor_id() << 48,
	                                s->key.tid, ABI_STACK_WAKER, 0, cfg.hash_seed);
	if (walk_and_send(0, s, c, 0) == USER_DEFERRED)
		s->key.ustack = s->placeholder;
	else if (s->ucache.ready)
		(void)ucache_store();
}

#endif
