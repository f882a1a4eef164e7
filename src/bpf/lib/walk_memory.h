/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/*
 * Memory of the target: words of its stack through a window, and a record of the words that a walk
 * depended on.
 */
#ifndef PA_BPF_WALK_MEMORY_H
#define PA_BPF_WALK_MEMORY_H

#include "bpf/lib/scratch.h"

/* Starts the record of what a walk depends on, for ustack_cache.h. */
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

/* Hash of a word and its offset. Sums of such hashes are equal only if words and offsets are. */
static __always_inline __u64 read_hash(__u64 at, __u64 word)
{
	return uw_hash_mix(at * (cfg.hash_seed | 1), word, cfg.hash_seed);
}

static __always_inline void record_read(struct scratch *s, __u64 addr, __u64 word)
{
#ifdef WALK_RECORDS_READS
	__u64 at = addr - s->reads.sp, page = at / WINDOW_SIZE, minus = -page;
	__u32 near = s->reads.near, far = s->reads.far, is_far;

	/* No branch: the verifier would follow both sides. */
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

/* Records that the walk also depends on code. */
static __always_inline void reads_other(struct scratch *s)
{
#ifdef WALK_RECORDS_READS
	s->reads.other = 1;
#else
	(void)s;
#endif
}

/* Returns 1 and the word at @addr in s->word if the window holds it. */
static __always_inline int in_window(struct scratch *s, __u64 addr)
{
	__u64 off = addr - s->win.base;

	if (off >= s->win.len || (off & 7) != 0)
		return 0;
	/* verifier: aligned and below 4096, both true already */
	s->word = *(__u64 *)(s->window + (off & (WINDOW_SIZE - 8)));
	return 1;
}

/* Reads the word at @addr into s->word, with a new window: 0, or 1. The window extends to the end
 * of the page, for the next frames. It begins with the whole cache line: a saved frame pointer is
 * below the return address that is read first. */
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

/* Reads the word at @addr into s->word: 0, or 1. */
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

/* Reads 8 bytes of code; the window is for the stack. */
static __always_inline int read_code(__u64 *ret, __u64 addr)
{
	return bpf_probe_read_user(ret, sizeof(*ret), (const void *)addr) ? -1 : 0;
}

#endif
