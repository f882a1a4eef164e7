/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/*
 * step, the state of a walk: registers, how they are read and set, and the move to the caller.
 * Included by step.h, which says what the includer defines.
 */
#ifndef PA_STEP_STATE_H
#define PA_STEP_STATE_H

#include "bpf/abi/abi.h"

#define UW_INLINE static __attribute__((always_inline)) inline

/* Highest user address + 1 of all supported page-table layouts: 57 bits, x86-64 LA57; arm64 has
 * 52. */
#define UW_USER_END (1ULL << 56)
/* Nothing is mapped below: mmap_min_addr. */
#define UW_USER_MIN 4096ULL
/* Words above the stack pointer where code without rules and frame pointer may keep its return
 * address: leaves of hand-written assembly push few registers. */
#define UW_SCAN_WORDS 4

/* State of one walk. The caller sets pc and reg to those of the leaf, uw_begin the rest. */
struct uw_state {
	__u64 pc;            /* of the frame: the instruction (exact) or the return address */
	__u64 reg[ABI_REGS]; /* value, or the address where it was saved (lazy) */
	__u32 lazy, lost;    /* bit by register: saved at that address; unknown */
	__u32 used;          /* bit by register: its value at the leaf may have been read */
	__u32 exact; /* 1: pc is the instruction itself: leaf, or above a signal frame. 0 also in a
	              * system call, whose instruction ends before pc */
	__u32 leaf;  /* 1: no step has been made yet */
	__u32 heuristic; /* frames found without a rule */
	__u32 by_record; /* 1: the last step read a frame record, so that fp is a frame pointer */
	/* A wide step: the caller's registers while those of this frame are still needed. */
	__u64 cfa, ra;
	__u64 next[ABI_REGS];
	__u32 next_lazy, next_lost;
	/* An expression. */
	__u64 stack[ABI_EXPR_DEPTH];
	__u32 depth, ip;
};

/* Starts a walk at the leaf, whose pc and registers are in @u. */
UW_INLINE void uw_begin(struct uw_state *u)
{
	u->lazy = u->lost = u->used = 0;
	u->exact = u->leaf = 1;
	u->heuristic = 0;
	u->by_record = 0;
}

/* Returns the address to look up: a return address belongs to the call before it, which may end a
 * function. */
UW_INLINE __u64 uw_lookup_pc(const struct uw_state *u)
{
	return u->exact ? u->pc : u->pc - 1;
}

/* Reads the value of a register: 0, or ABI_WALK_*. */
UW_INLINE int uw_value(struct uw_state *u, UW_MEM *mem, __u32 r, __u64 *ret)
{
	__u64 v;

	r &= ABI_REGS - 1;
	if ((u->lazy | u->lost) & (1u << r)) {
		if (u->lost & (1u << r))
			return ABI_WALK_BAD_RULE;
		if (UW_READ(mem, &v, u->reg[r]))
			return ABI_WALK_FAULT;
		u->reg[r] = v;
		u->lazy &= ~(1u << r);
	} else {
		u->used |= 1u << r;
	}
	*ret = u->reg[r];
	return 0;
}

UW_INLINE void uw_saved_at(struct uw_state *u, __u32 r, __u64 addr)
{
	u->reg[r & (ABI_REGS - 1)] = addr;
	u->lazy |= 1u << (r & (ABI_REGS - 1));
	u->lost &= ~(1u << (r & (ABI_REGS - 1)));
}

UW_INLINE void uw_set(struct uw_state *u, __u32 r, __u64 value)
{
	u->reg[r & (ABI_REGS - 1)] = value;
	u->lazy &= ~(1u << (r & (ABI_REGS - 1)));
	u->lost &= ~(1u << (r & (ABI_REGS - 1)));
}

/* Returns a return address without its signature: pointer authentication of arm64 signs the bits
 * above a virtual address of 48 bits. */
UW_INLINE __u64 uw_unsigned(__u64 ra)
{
#ifdef ABI_ARM64
	ra &= (1ULL << 48) - 1;
#endif
	return ra;
}

/* Moves to the caller: 0, or ABI_WALK_* with the frame unchanged. */
UW_INLINE int uw_finish(struct uw_state *u, __u64 cfa, __u64 ra, __u32 signal)
{
	ra = uw_unsigned(ra);
	if (ra == 0)
		return ABI_WALK_ROOT;
	if (ra < UW_USER_MIN || ra >= UW_USER_END)
		return ABI_WALK_BAD_PC;
	if (cfa < UW_USER_MIN || cfa >= UW_USER_END || (ra == u->pc && cfa == u->reg[ABI_REG_SP]))
		return ABI_WALK_IMPLAUSIBLE;
	u->pc = ra;
	u->exact = signal != 0;
	u->leaf = 0;
	u->by_record = 0;
	uw_set(u, ABI_REG_SP, cfa);
#ifdef ABI_ARM64
	if (!signal)
		uw_set(u, ABI_REG_LR, ra);
#endif
	return 0;
}

/* ---- frame pointer --------------------------------------------------------------------------- */

/* [fp] holds the caller's fp and [fp + 8] the return address (x86-64 ABI; AAPCS64 frame records
 * have the same shape). */
UW_INLINE int uw_step_fp(struct uw_state *u, UW_MEM *mem)
{
	__u64 fp, next_fp, ra;
	int r = uw_value(u, mem, ABI_REG_FP, &fp);

	if (r)
		return r;
	if (fp == 0)
		return ABI_WALK_ROOT;
	/* A frame record is aligned, and not below the stack pointer; else rbp is no frame
	 * pointer. */
	if ((fp & 7) || fp < u->reg[ABI_REG_SP] || fp >= UW_USER_END)
		return ABI_WALK_IMPLAUSIBLE;
	if (UW_READ(mem, &next_fp, fp) || UW_READ(mem, &ra, fp + 8))
		return ABI_WALK_FAULT;
	r = uw_finish(u, fp + 16, ra, 0);
	if (r)
		return r;
	uw_set(u, ABI_REG_FP, next_fp);
	u->by_record = 1;
	return 0;
}

#endif
