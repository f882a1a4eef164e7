/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/*
 * The walk of a user stack, for every program that samples: process map, tables, and the step of
 * step.h. The global functions are verified once each; they take numbers and find the state
 * themselves. Deepest calls: walk_user > walk_frame > walk_wide > walk_column > walk_expr >
 * walk_op > read_far, which is as deep as the verifier allows.
 */
#ifndef PA_BPF_WALK_H
#define PA_BPF_WALK_H

#include "bpf/lib/scratch.h"
#include "bpf/lib/vma.h"

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

/* ---- memory of the target -------------------------------------------------------------------- */

/* What the walk depends on: for programs that know stacks again (ustack_cache.h). */
static __always_inline void reads_begin(struct scratch *s)
{
#ifdef WALK_RECORDS_READS
	s->reads.sp = s->u.reg[ABI_REG_SP];
	s->reads.sum = s->reads.odd = 0;
	s->reads.near = s->reads.far = s->reads.len = 0;
	s->reads.other = s->task.compat | s->task.mm_released;
#else
	(void)s;
#endif
}

/* A word and its place, in a sum in which no other words at other places may stand for them. */
static __always_inline __u64 read_hash(__u64 at, __u64 word)
{
	return uw_hash_mix(at * (cfg.hash_seed | 1), word, cfg.hash_seed);
}

static __always_inline void record_read(struct scratch *s, __u64 addr, __u64 word)
{
#ifdef WALK_RECORDS_READS
	__u64 at = addr - s->reads.sp, page = at / WINDOW_SIZE, minus = -page;
	__u32 near = s->reads.near, far = s->reads.far, is_far;

	/* Without a branch: the verifier would follow each way. */
	__asm__ volatile("" : "+r"(minus));
	is_far = (page | minus) >> 63;
	s->reads.at[(near + is_far * (UCACHE_WORDS - 1 - far - near)) & (UCACHE_WORDS - 1)] =
	        (__u16)(at / 8);
	s->reads.near = near + 1 - is_far;
	s->reads.far = far + is_far;
	s->reads.odd |= at >> 19 | (at & 7);
	if (!is_far && at >= s->reads.len)
		s->reads.len = (__u32)at + 8;
	s->reads.sum += read_hash(at, word);
#else
	(void)s;
	(void)addr;
	(void)word;
#endif
}

/* What comes next depends on code besides. */
static __always_inline void reads_other(struct scratch *s)
{
#ifdef WALK_RECORDS_READS
	s->reads.other = 1;
#else
	(void)s;
#endif
}

/* The word at @addr into s->word, if the window holds it: 1. */
static __always_inline int in_window(struct scratch *s, __u64 addr)
{
	__u64 off = addr - s->win.base;

	if (off >= s->win.len || (off & 7) != 0)
		return 0;
	/* verifier: aligned and below 4096, both true already */
	s->word = *(__u64 *)(s->window + (off & (WINDOW_SIZE - 8)));
	return 1;
}

/* The word at @addr into s->word, and a new window with it: 0, or 1. One copy up to the end of the
 * page serves the frames that follow. It begins with the whole line: a saved frame pointer lies
 * below the return address that was read first. */
static __always_inline int new_window(struct scratch *s, __u64 addr)
{
	__u64 base = addr & ~(__u64)(LINE_SIZE - 1);
	__u32 len;

	if ((addr & 7) == 0 && !(s->plain & PLAIN_WINDOW)) {
		len = WINDOW_SIZE - (base & (WINDOW_SIZE - 1));
		/* verifier: 1 … 4096 */
		if (len > WINDOW_SIZE)
			return 1;
		s->win.len = 0;
		if (bpf_probe_read_user(s->window, len, (const void *)base) == 0) {
			s->win.base = base;
			s->win.len = len;
			return !in_window(s, addr);
		}
	}
	return bpf_probe_read_user(&s->word, sizeof(s->word), (const void *)addr) != 0;
}

/* The word at @addr into s->word: 0, or 1. */
__noinline int read_far(__u64 addr)
{
	struct scratch *s = get_scratch();

	if (!s)
		return 1;
#ifdef WALK_RECORDS_READS
	if (!in_window(s, addr) && new_window(s, addr))
		return 1;
	record_read(s, addr, s->word);
	return 0;
#else
	return new_window(s, addr);
#endif
}

/* Reads 8 bytes through the window. */
static __always_inline int read_word(struct scratch *s, __u64 *ret, __u64 addr)
{
#ifndef WALK_RECORDS_READS
	__u64 off = addr - s->win.base;

	if (off < s->win.len && (off & 7) == 0) {
		/* verifier: aligned and below 4096, both true already */
		*ret = *(__u64 *)(s->window + (off & (WINDOW_SIZE - 8)));
		return 0;
	}
#endif
	if (read_far(addr))
		return -1;
	*ret = s->word;
	return 0;
}

/* Code is read beside the window, which is for the stack. */
static __always_inline int read_code(__u64 *ret, __u64 addr)
{
	return bpf_probe_read_user(ret, sizeof(*ret), (const void *)addr) ? -1 : 0;
}

/* ---- process map ----------------------------------------------------------------------------- */

#define RANGE_NONE  1 /* no mapping is known there */
#define RANGE_DIRTY 2 /* what was mapped there is not known yet */

/* Is there a mark at @pc? *lo and *hi come so near that there is none between them. */
static __always_inline int is_dirty(const struct scratch *s, __u64 pc, __u64 watermark_ns,
                                    __u64 *lo, __u64 *hi)
{
	__u32 i;

	for (i = 0; i < ABI_DIRTY_RANGES; i++) {
		const struct abi_dirty_range *m = &s->last.dirty[i];

		if (m->time_ns <= watermark_ns)
			continue;
		if (pc >= m->start && pc < m->end)
			return 1;
		if (m->end <= pc && m->end > *lo)
			*lo = m->end;
		if (m->start > pc && m->start < *hi)
			*hi = m->start;
	}
	return 0;
}

/* Puts the range that holds @pc, or what of it holds no mark, into s->ranges.found: 0, or RANGE_*. */
__noinline int find_range(__u64 pc)
{
	struct scratch *s = get_scratch();
	__u32 lo, hi, mid, i;
	struct abi_range *r;
	__u64 watermark_ns, from = 0, upto = ~0ULL;

	if (!s)
		return RANGE_NONE;
	if (s->last.dirty_ns) {
		watermark_ns = *(volatile __u64 *)&ctl.watermark_ns;
		if (s->last.dirty_ns <= watermark_ns)
			s->last.dirty_ns = 0;
		else if (is_dirty(s, pc, watermark_ns, &from, &upto))
			return RANGE_DIRTY;
	}
	lo = s->ranges.first;
	hi = lo + s->ranges.cnt;
	/* Last range with start <= pc. */
	for (i = 0; i < ABI_BISECT_STEPS && lo < hi; i++) {
		mid = lo + (hi - lo) / 2;
		r = bpf_map_lookup_elem(&ranges, &mid);
		if (!r)
			return RANGE_NONE;
		if (r->start <= pc)
			lo = mid + 1;
		else
			hi = mid;
	}
	if (lo == s->ranges.first)
		return RANGE_NONE;
	lo--;
	r = bpf_map_lookup_elem(&ranges, &lo);
	if (!r || pc < r->start || pc >= r->end)
		return RANGE_NONE;
	s->ranges.found = *r;
	if (s->verify.on) {
		if (find_vma(pc))
			return RANGE_NONE;
		/* What cannot be compared is believed. */
		if (!is_same_mapping(&s->verify.vma, &s->ranges.found) &&
		    (s->ranges.found.content || !s->ranges.found.image)) {
			s->ranges.found.start = s->ranges.found.end = 0;
			return RANGE_DIRTY;
		}
		if (from < s->verify.vma.start)
			from = s->verify.vma.start;
		if (upto > s->verify.vma.end)
			upto = s->verify.vma.end;
	}
	if (from > s->ranges.found.start) {
		s->ranges.found.pgoff += from - s->ranges.found.start;
		s->ranges.found.start = from;
	}
	if (upto < s->ranges.found.end)
		s->ranges.found.end = upto;
	return 0;
}

/* Brings s->ranges.found to @addr: 0, or RANGE_*. */
static __always_inline int to_range(struct scratch *s, __u64 addr)
{
	if (addr >= s->ranges.found.start && addr < s->ranges.found.end)
		return 0;
	return s->ranges.cnt ? find_range(addr) : RANGE_NONE;
}

/* Does a call end before @addr? */
static __always_inline int after_call(struct scratch *s, __u64 addr)
{
	__u64 code;

	reads_other(s);
	return read_code(&code, addr - 8) == 0 && uw_after_call(code);
}

/* Can @addr be a return address? In a process whose mappings are not known the bytes before it have
 * to do. */
__noinline int is_code(__u64 addr, __u32 sure)
{
	struct scratch *s = get_scratch();

	if (!s || addr < UW_USER_MIN || addr >= UW_USER_END)
		return 0;
	if (s->ranges.cnt) {
		int r = to_range(s, addr - 1);

		if (r == RANGE_NONE)
			return 0;
		if (r == 0 && sure && s->ranges.found.image == 0)
			return 1;
	}
	return after_call(s, addr);
}

/* *ret_range: 0, or RANGE_* */
static __always_inline __u64 encode_frame(struct scratch *s, __u64 pc, __u64 lookup, int *ret_range)
{
	*ret_range = to_range(s, lookup);
	if (*ret_range)
		return pc & ABI_FRAME_ADDR_MASK;
	if (s->ranges.found.image == 0)
		return (ABI_SPACE_ANON << ABI_FRAME_SPACE_SHIFT) | (pc & ABI_FRAME_ADDR_MASK);
	return (ABI_SPACE_IMAGE << ABI_FRAME_SPACE_SHIFT) |
	       ((__u64)(s->ranges.found.image & ABI_IMAGE_MAX) << ABI_FRAME_IMAGE_SHIFT) |
	       ((pc - s->ranges.found.start + s->ranges.found.pgoff) & ABI_FRAME_OFF_MASK);
}

/* ---- the walk before ------------------------------------------------------------------------- */

/* What was written becomes what is read. */
static __always_inline void walk_cache_begin(struct walk_cache *m)
{
	m->now = (m->now + 1) & 1;
	m->n[m->now & 1] = 0;
	m->at = 0;
}

/* The code at @key in the walk before, for a frame at @sp: 0 if it is not there. Either way, the
 * place in the new one is the caller's to fill. */
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

	/* 48 bits of stack pointer: with the fifth level of page tables programs have more only if
	 * they ask for it. */
	if (n >= WALK_CACHE_FRAMES || sp >> 48)
		return;
	f->key = key;
	f->sp_code = sp << 16 | code;
	m->n[m->now & 1] = n + 1;
}

/* Puts ABI_CODE_GUESS where find_code found nothing. */
static __always_inline void cache_heuristic(struct scratch *s)
{
	__u64 key = s->find.key, k = uw_cache_mix(key >> 32, (__u32)key);
	__u64 *slot = UW_LOOKUP(pc_cache, UW_CACHE_SLOT(k));

	if (slot && !(s->plain & PLAIN_CACHE))
		*slot = UW_CACHE_TAG(k) | ABI_CODE_GUESS;
	if (!(s->plain & PLAIN_WALK_CACHE))
		walk_cache_add(&s->walk_cache, key, s->u.reg[ABI_REG_SP], ABI_CODE_GUESS);
}

/* ---- pieces of the step ---------------------------------------------------------------------- */

__noinline int walk_op(__u32 ip)
{
	struct scratch *s = get_scratch();

	if (!s)
		return -ABI_WALK_BAD_RULE;
	s->u.ip = ip;
	return uw_expr_op(&s->u, s);
}

__noinline int walk_expr(__u32 i)
{
	struct scratch *s = get_scratch();

	return s ? uw_expr(&s->u, s, i) : ABI_WALK_BAD_RULE;
}

__noinline int walk_column(__u32 i, __u32 col)
{
	struct scratch *s = get_scratch();

	return s ? uw_wide_column(&s->u, s, i, col) : ABI_WALK_BAD_RULE;
}

__noinline int walk_rule(__u32 id)
{
	struct scratch *s = get_scratch();

	return s ? uw_step_frame(&s->u, s, id) : ABI_WALK_BAD_RULE;
}

__noinline int walk_wide(__u32 i)
{
	struct scratch *s = get_scratch();

	return s ? uw_step_wide(&s->u, s, i) : ABI_WALK_BAD_RULE;
}

__noinline int walk_heuristic(__u32 code, __u32 jit)
{
	struct scratch *s = get_scratch();
	enum uw_special special = UW_ORDINARY;

	if (!s)
		return ABI_WALK_BAD_RULE;
	reads_other(s);
	if (code != ABI_CODE_GUESS)
		special = uw_special(&s->u, s);
	/* A return address in code whose table has no rule for it, which stands for nothing (read
	 * in this process: elsewhere the page may be absent), and is no root: it needs no look-up
	 * next time. Where a table is missing nobody has asked at_root. */
	if (code == ABI_CODE_NONE && !s->u.exact && s->find.key && !s->defer.missing) {
		if (special == UW_ORDINARY) {
			cache_heuristic(s);
		} else if (special == UW_UNREAD && s->find.at_start) {
			/* Nobody has called from a page that is not there: the address was put
			 * there by hand, to where a function begins, as the end of a coroutine. */
			s->u.guessed++;
			return ABI_WALK_ROOT;
		}
	}
	return uw_step_guess(&s->u, s, special, code, jit);
}

__noinline int table_code(__u32 base, __u32 rel)
{
	return uw_table_code(0, base, rel);
}

/* ---- codes ----------------------------------------------------------------------------------- */

/* In code that was just mapped there may be so many copies every 0.4 s (epochs of 100 ms): a
 * program that loads again and again goes on doing so. */
#define DIRTY_SERIAL(epoch) (1 + ((epoch) >> 2))

/* May one more copy be made for this process and image? */
static __always_inline int charge_quota(struct scratch *s, __u32 image, __u32 serial)
{
	__u64 k = uw_hash_mix(cfg.hash_seed, ((__u64)s->key.tgid << 32) ^ image,
	                      s->key.start_ns ^ ((__u64)s->key.exec_id << 32) ^ serial),
	      n;
	__u64 *q = UW_LOOKUP(quotas, (__u32)k & (QUOTA_ENTRIES - 1));

	if (!q)
		return 0;
	n = *q >> 32 == k >> 32 ? *q & 0xffffffff : 0;
	if (n >= cfg.deferred_quota)
		return 0;
	*q = (k >> 32 << 32) | (n + 1);
	return 1;
}

/* A table is missing (@first: nobody has asked for it before), or with image 0 the process's
 * mappings (@serial != 0: but for one that was mapped a moment ago): non-zero to end the walk for a
 * copy. */
__noinline int table_missing(__u32 image, __u32 serial, __u32 first)
{
	struct scratch *s = get_scratch();
	__u32 zero = 0;
	struct abi_counters *c = bpf_map_lookup_elem(&counters, &zero);

	if (!s || !c)
		return 0;
	s->defer.missing = 1;
	if (!s->defer.allowed)
		return 0;
	s->defer.allowed = 0;
	if (!charge_quota(s, image, serial)) {
		CNT_ADD(c, DEFERRED_QUOTA, 1);
		return 0;
	}
	/* The sooner a table is there, the fewer copies follow. Nothing else wakes the reader,
	 * which would run right after a tick and be gone at the next: its time would be the
	 * target's. */
	s->defer.wake = first;
	s->defer.missing = 2;
	s->defer.image = image;
	return 1;
}

/* The code at s->ranges.found's image and @lookup: *ret_code, or non-zero to end the walk. */
static __always_inline int find_code(struct scratch *s, __u64 lookup, __u32 *ret_code)
{
	struct abi_image *img = UW_LOOKUP(images, s->ranges.found.image);
	__u64 off = lookup - s->ranges.found.start + s->ranges.found.pgoff, k, *slot;
	__u32 base, rel, code, serial, state;
	__u64 key, sp = s->u.reg[ABI_REG_SP];

	*ret_code = ABI_CODE_NONE;
	if (!img)
		return 0;
	/* In this order: what is published is whole. */
	state = *(volatile __u32 *)&img->state;
	barrier();
	serial = img->serial;
	if (state != ABI_TABLE_READY) {
		if (state == ABI_TABLE_NONE)
			return 0;
		state = img->wanted == 0;
		__sync_fetch_and_add(&img->wanted, 1);
		return table_missing(s->ranges.found.image, serial, state);
	}
	if (img->used != ctl.epoch)
		img->used = ctl.epoch;
	if (off < img->lo || off - img->lo >= (__u64)img->n_chunks << ABI_CHUNK_SHIFT)
		return 0;
	rel = off - img->lo;
	base = img->base;
	key = (__u64)serial << 32 | rel;
	s->find.key = key;
	if (!(s->plain & PLAIN_WALK_CACHE)) {
		code = walk_cache_find(&s->walk_cache, key, sp);
		if (code) {
			s->n.walk_cache++;
			goto found;
		}
	}
	k = uw_cache_mix(serial, rel);
	slot = UW_LOOKUP(pc_cache, UW_CACHE_SLOT(k));
	if (!slot)
		return 0;
	if (!(s->plain & PLAIN_CACHE)) {
		__u64 word = *(volatile __u64 *)slot;

		if (((word ^ UW_CACHE_TAG(k)) >> 16) == 0 && (word & 0xffff)) {
			s->n.hit++;
			code = word & 0xffff;
			goto found;
		}
	}
	code = table_code(base, rel) & 0xffff;
	s->n.miss++;
	if (!code)
		return 0;
	if (!(s->plain & PLAIN_CACHE))
		*slot = UW_CACHE_TAG(k) | code;
found:
	if (!(s->plain & PLAIN_WALK_CACHE))
		walk_cache_add(&s->walk_cache, key, sp, code);
	*ret_code = code;
	return 0;
}

/* A return address that was put there by hand, to the very start of a root. */
__noinline int at_root(void)
{
	struct scratch *s = get_scratch();
	__u32 code, found;
	__u64 key;

	if (!s)
		return 0;
	key = s->find.key;
	found = find_code(s, s->u.pc, &code) == 0 && code == ABI_CODE_ROOT;
	s->find.at_start = code >= ABI_CODE_FIRST;
	s->find.key = key;
	return found;
}

/* ---- frame by frame -------------------------------------------------------------------------- */

/* Records frame @i and steps to its caller: 0 to go on, else ABI_WALK_*. */
__noinline int walk_frame(__u32 i)
{
	struct scratch *s = get_scratch();
	__u32 code = ABI_CODE_NONE, jit = 0;
	__u64 frame, lookup;
	int unknown, stop;

	if (!s)
		return ABI_WALK_NO_REGS;
	/* A return address belongs to the call before it, which may end a mapping. */
	lookup = uw_lookup_pc(&s->u);
	frame = encode_frame(s, s->u.pc, lookup, &unknown);
	if (unknown) {
		/* In a process whose mappings are known, what is no code of them is code only if a
		 * call stands before it (new or generated code): else a heap or stack pointer in
		 * rbp led here. */
		if (i && !s->u.exact && s->ranges.cnt && !after_call(s, s->u.pc))
			return ABI_WALK_IMPLAUSIBLE;
		s->n.raw++;
		if (unknown == RANGE_DIRTY)
			s->in_dirty = 1;
		if (cfg.unwind &&
		    table_missing(0, unknown == RANGE_DIRTY ? DIRTY_SERIAL(ctl.epoch) : 0, 0))
			return ABI_WALK_NO_TABLE;
	}
	if (s->u.exact)
		frame |= ABI_FRAME_EXACT;
	s->find.key = 0;                                   /* not all frames are looked up */
	s->uframes[i & (ABI_MAX_USER_FRAMES - 1)] = frame; /* verifier: i < 512 */
	s->ustack.n = i + 1;
	s->hash = uw_hash_mix(s->hash, frame, cfg.hash_seed);
	if (!cfg.unwind)
		return uw_step_fp(&s->u, s);
	/* No copy can be made: what guesses make of code that nobody knows is too often wrong. */
	if (unknown == RANGE_DIRTY)
		return ABI_WALK_NO_TABLE;
	if (!unknown && s->ranges.found.image) {
		if (find_code(s, lookup, &code))
			return ABI_WALK_NO_TABLE;
		if (code == ABI_CODE_NONE && !s->u.exact && !s->defer.missing && at_root())
			return ABI_WALK_ROOT;
	} else if (!unknown) {
		jit = 1;
		s->n.jit++;
	}
	if (code >= ABI_CODE_FIRST || code == ABI_CODE_ROOT)
		return uw_step(&s->u, s, code);
	stop = walk_heuristic(code, jit);
	return stop == ABI_WALK_UNCOVERED && s->defer.missing ? ABI_WALK_NO_TABLE : stop;
}

/* The same for 32-bit code, of which there are no tables. */
__noinline int walk_compat(__u32 i)
{
	struct scratch *s = get_scratch();
	__u64 frame;
	int unknown;

	if (!s)
		return ABI_WALK_NO_REGS;
	frame = encode_frame(s, s->u.pc, uw_lookup_pc(&s->u), &unknown);
	if (unknown)
		s->n.raw++;
	else if (!s->ranges.found.image)
		s->n.jit++;
	if (s->u.exact)
		frame |= ABI_FRAME_EXACT;
	s->uframes[i & (ABI_MAX_USER_FRAMES - 1)] = frame; /* verifier: i < 512 */
	s->ustack.n = i + 1;
	s->hash = uw_hash_mix(s->hash, frame, cfg.hash_seed);
	return uw_step_compat(&s->u, s);
}

/* Walks from the registers in the state's u. @plain: PLAIN_*. Always 0. */
__noinline int walk_user(__u32 plain)
{
	struct scratch *s = get_scratch();
	__u32 i, stop = ABI_WALK_DEPTH;

	if (!s)
		return 0;
	s->plain = plain;
	s->ustack.n = 0;
	s->n.raw = s->n.jit = 0;
	s->n.hit = s->n.miss = s->n.walk_cache = 0;
	if (!(plain & PLAIN_WALK_CACHE))
		walk_cache_begin(&s->walk_cache);
	s->defer.missing = s->in_dirty = 0;
	s->win.len = 0;
	s->win.base = 0;
	s->ranges.found.start = s->ranges.found.end = 0;
	s->hash = cfg.hash_seed;
	reads_begin(s);
	uw_begin(&s->u);
	if (s->task.in_syscall)
		s->u.exact = 0;
	if (s->task.compat && !s->task.mm_released) {
		for (i = 0; i < ABI_MAX_USER_FRAMES; i++) {
			int r = walk_compat(i);

			if (r) {
				/* Frame pointers are all there is: without them it is no fault of
				 * this frame's. */
				stop = r == ABI_WALK_IMPLAUSIBLE ? ABI_WALK_COMPAT : r;
				break;
			}
		}
		if (!cfg.unwind)
			s->u.guessed = 0; /* nothing else was asked for */
	} else if (s->task.mm_released) {
		int unknown;
		__u64 frame = encode_frame(s, s->u.pc, s->u.pc, &unknown) | ABI_FRAME_EXACT;

		s->uframes[0] = frame;
		s->ustack.n = 1;
		s->hash = uw_hash_mix(s->hash, frame, cfg.hash_seed);
		stop = ABI_WALK_LEFT;
	} else {
		for (i = 0; i < ABI_MAX_USER_FRAMES; i++) {
			int r = walk_frame(i);

			if (r) {
				stop = r;
				break;
			}
		}
	}
	s->ustack.kind = ABI_STACK_USER;
	s->ustack.walk = stop;
	s->ustack.flags = (s->u.guessed ? ABI_STACK_HEURISTIC : 0) | (s->n.jit ? ABI_STACK_JIT : 0);
	s->ustack.hash = uw_hash_finish(s->hash, s->ustack.n, stop, s->ustack.flags, cfg.hash_seed);
	return 0;
}

#endif
