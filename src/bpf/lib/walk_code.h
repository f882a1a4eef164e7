/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/*
 * Codes of addresses: from the previous walk on this CPU, the shared cache, or the unwind table.
 */
#ifndef PA_BPF_WALK_CODE_H
#define PA_BPF_WALK_CODE_H

#include "bpf/lib/walk_range.h"

static __always_inline const __u32 *word_value(__u32 value)
{
	void *segment = UW_LOOKUP(segments, value >> (ABI_SEGMENT_SHIFT - ABI_VALUE_SHIFT));
	__u32 i = value & (ABI_SEGMENT_WORDS / ABI_VALUE_WORDS - 1);
	struct words *v;

	if (!segment)
		return 0;
	v = bpf_map_lookup_elem(segment, &i);
	return v ? v->w : 0;
}

#define UW_TABLES               void
#define UW_VALUE(tables, value) word_value(value)
#include "step/step_lookup.h"
#include "step/step_compat.h"

/* ---- the walk before ------------------------------------------------------------------------- */

/* Swaps the halves: the codes of the previous walk become readable. */
static __always_inline void walk_cache_begin(struct walk_cache *m)
{
	m->now = (m->now + 1) & 1;
	m->n[m->now & 1] = 0;
	m->at = 0;
}

/* Returns the code of @key in the previous walk, for a frame at @sp, or 0. The caller adds the
 * frame to the new half in both cases. */
static __always_inline __u32 walk_cache_find(struct walk_cache *m, __u64 key, __u64 sp)
{
	struct walk_cache_frame *f = m->f[~m->now & 1];
	__u32 n = m->n[~m->now & 1], at = m->at, i;

	for (i = 0; i < WALK_CACHE_SKIP; i++) {
		__u32 k = at & (WALK_CACHE_FRAMES - 1); /* verifier: at < n <= WALK_CACHE_FRAMES */

		if (at >= n)
			return 0;
		if (f[k].sp_code >> 16 >= sp) {
			m->at = at;
			if (f[k].key != key || f[k].sp_code >> 16 != sp)
				return 0;
			m->at = at + 1;
			return f[k].sp_code & 0xffff;
		}
		at++;
	}
	m->at = at;
	return 0;
}

static __always_inline void walk_cache_add(struct walk_cache *m, __u64 key, __u64 sp, __u32 code)
{
	__u32 n = m->n[m->now & 1];
	struct walk_cache_frame *f = &m->f[m->now & 1][n & (WALK_CACHE_FRAMES - 1)];

	/* 48 bits of stack pointer: a program has more only if it requests addresses of five-level
	 * page tables. */
	if (n >= WALK_CACHE_FRAMES || sp >> 48)
		return;
	f->key = key;
	f->sp_code = sp << 16 | code;
	m->n[m->now & 1] = n + 1;
}

/* Caches ABI_CODE_HEURISTIC for the address of the last find_code. */
static __always_inline void cache_heuristic(struct scratch *s)
{
	__u64 key = s->find.key, k = uw_cache_mix(key >> 32, (__u32)key);
	__u64 *slot = UW_LOOKUP(pc_cache, UW_CACHE_SLOT(k));

	if (slot && !(s->plain & PLAIN_CACHE))
		*slot = UW_CACHE_TAG(k) | ABI_CODE_HEURISTIC;
	if (!(s->plain & PLAIN_WALK_CACHE))
		walk_cache_add(&s->walk_cache, key, s->u.reg[ABI_REG_SP], ABI_CODE_HEURISTIC);
}

#endif
