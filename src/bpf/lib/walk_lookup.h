/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/*
 * The rule of a frame: its code, or that the table is missing.
 */
#ifndef PA_BPF_WALK_LOOKUP_H
#define PA_BPF_WALK_LOOKUP_H

#include "bpf/lib/walk_step.h"

/* Serial of the quota in dirty ranges: it is renewed every 4 epochs (0.4 s), since some programs
 * map code all the time. */
#define DIRTY_SERIAL(epoch) (1 + ((epoch) >> 2))

/* Charges a deferred sample to the quota of this process and image. Returns 0 if it is used up. */
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

/* Handles a missing table; image 0: missing mappings. Returns non-zero if the walk ends for a
 * deferred sample. @first: no walk has requested the table before. @serial: of the quota. */
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
	/* An early table saves deferred samples, so the first one wakes the reader. Others do not:
	 * a reader that runs right after each tick is never sampled, and its time would be charged
	 * to the target. */
	s->defer.wake = first;
	s->defer.missing = 2;
	s->defer.image = image;
	return 1;
}

/* Looks up the code of @lookup in the image of s->ranges.found. Returns non-zero to end the
 * walk. */
static __always_inline int find_code(struct scratch *s, __u64 lookup, __u32 *ret_code)
{
	struct abi_image *img = UW_LOOKUP(images, s->ranges.found.image);
	__u64 off = lookup - s->ranges.found.start + s->ranges.found.pgoff, k, *slot;
	__u32 base, rel, code, serial, state;
	__u64 key, sp = s->u.reg[ABI_REG_SP];

	*ret_code = ABI_CODE_NONE;
	if (!img)
		return 0;
	/* State first: user space writes it last. */
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

/* Returns 1 if pc is the first instruction of a root: code wrote this return address, without a
 * call. */
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

#endif
