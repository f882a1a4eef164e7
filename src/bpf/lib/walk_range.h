/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/*
 * The process map: the mapping that holds an address, dirty ranges, and frames as (image, offset).
 */
#ifndef PA_BPF_WALK_RANGE_H
#define PA_BPF_WALK_RANGE_H

#include "bpf/lib/vma.h"
#include "bpf/lib/walk_memory.h"

#define RANGE_NONE  1 /* no known mapping covers the address */
#define RANGE_DIRTY 2 /* a dirty range covers it */

/* Returns 1 if a dirty range covers @pc. Narrows *lo and *hi to the gap between dirty ranges. */
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

/* Puts the range that covers @pc, without its dirty parts, into s->ranges.found: 0, or RANGE_*. */
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
		/* A range without content cannot be compared, and is used. */
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

/* Makes s->ranges.found cover @addr: 0, or RANGE_*. */
static __always_inline int to_range(struct scratch *s, __u64 addr)
{
	if (addr >= s->ranges.found.start && addr < s->ranges.found.end)
		return 0;
	return s->ranges.cnt ? find_range(addr) : RANGE_NONE;
}

/* Returns 1 if the instruction before @addr is a call. */
static __always_inline int after_call(struct scratch *s, __u64 addr)
{
	__u64 code;

	reads_other(s);
	return read_code(&code, addr - 8) == 0 && uw_after_call(code);
}

/* Returns 1 if @addr can be a return address. If the mappings are unknown, only the bytes before it
 * decide. */
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

/* Returns the frame of @pc as (image, offset), or as an address. *ret_range: 0, or RANGE_*. */
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

#endif
