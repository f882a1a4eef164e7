/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/*
 * The walk of a user stack, frame by frame: process map, tables, and the step of step.h. Global
 * functions are verified once each. They take numbers, and look up the state by themselves. Deepest
 * calls: walk_user > walk_frame > walk_wide > walk_column > walk_expr > walk_op > read_far, which
 * is as deep as the verifier allows.
 */
#ifndef PA_BPF_WALK_H
#define PA_BPF_WALK_H

#include "bpf/lib/walk_lookup.h"

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
		/* The mappings are known and none covers pc. It is new or JIT code only if a call
		 * is before it; else a heap or stack pointer in rbp led here. */
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
	s->find.key = 0;                                   /* not set by each frame */
	s->uframes[i & (ABI_MAX_USER_FRAMES - 1)] = frame; /* verifier: i < 512 */
	s->ustack.n = i + 1;
	s->hash = uw_hash_mix(s->hash, frame, cfg.hash_seed);
	if (!cfg.unwind)
		return uw_step_fp(&s->u, s);
	/* The sample was not deferred. Heuristics in unknown code are wrong too often. */
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

/* As walk_frame, for 32-bit code, which has no tables. */
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

/* Walks from the registers in s->u. @plain: PLAIN_*. Returns 0. */
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
				/* Without frame pointers a walk of 32-bit code cannot go on. */
				stop = r == ABI_WALK_IMPLAUSIBLE ? ABI_WALK_COMPAT : r;
				break;
			}
		}
		if (!cfg.unwind)
			s->u.heuristic = 0; /* frame pointers were requested */
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
	s->ustack.flags =
	        (s->u.heuristic ? ABI_STACK_HEURISTIC : 0) | (s->n.jit ? ABI_STACK_JIT : 0);
	s->ustack.hash = uw_hash_finish(s->hash, s->ustack.n, stop, s->ustack.flags, cfg.hash_seed);
	return 0;
}

#endif
