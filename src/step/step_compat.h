/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/*
 * step_compat - the step for 32-bit code of x86 on a 64-bit kernel: by frame pointers, whose
 * records are two words of 4 bytes. Include after step.h, whose hooks it uses. There are no rules
 * for such code: a step is heuristic.
 */
#ifndef PA_STEP_COMPAT_H
#define PA_STEP_COMPAT_H

#include "step/step.h"

#define UW_COMPAT_END (1ULL << 32)
/* pop %ebp; pop %edx; pop %ecx; ret: the end of __kernel_vsyscall, after its system call. */
#define UW_COMPAT_VSYSCALL 0xc3595a5d

/* The place of the return address at an instruction. */
enum uw_compat_frame {
	UW_COMPAT_RECORD = 0, /* in the record that the frame pointer leads to */
	UW_COMPAT_TOP,        /* on top of the stack */
	UW_COMPAT_PUSHED,     /* above the frame pointer that was just pushed */
};

#ifndef ABI_ARM64
/* Returns where the return address is. @code: the byte before the instruction and its first 7. Only
 * known instructions mean that there is no frame: the top of the stack may hold a left-over of an
 * earlier call. */
UW_INLINE enum uw_compat_frame uw_compat_frame(__u64 code)
{
	__u64 at = code >> 8;

	/* push %ebp; mov %esp, %ebp (two encodings) */
	if ((at & 0xffffff) == 0xe58955 || (at & 0xffffff) == 0xec8b55)
		return UW_COMPAT_TOP;
	if ((code & 0xffffff) == 0xe58955 || (code & 0xffffff) == 0xec8b55)
		return UW_COMPAT_PUSHED;
	/* endbr32 · ret · ret imm16 · mov (%esp), REG; ret (position-independent code reads its pc
	 * so) */
	if ((at & 0xffffffff) == 0xfb1e0ff3 || (at & 0xff) == 0xc3 || (at & 0xff) == 0xc2 ||
	    (at & 0xffffc7ff) == 0xc324048b)
		return UW_COMPAT_TOP;
	return UW_COMPAT_RECORD;
}

UW_INLINE int uw_compat_ra(struct uw_state *u, UW_MEM *mem, __u64 ra, __u64 cfa)
{
	(void)mem; /* the hook may not need it */
	if (ra && !UW_IS_CODE(mem, ra, 1))
		return ABI_WALK_IMPLAUSIBLE;
	return uw_finish(u, cfa, ra, 0);
}
#endif

/**
 * uw_step_compat - the caller's frame of 32-bit code
 * Returns: 0 (*u is the caller's frame), or ABI_WALK_*: ROOT, IMPLAUSIBLE (the frame pointer is
 * none), FAULT, BAD_PC; COMPAT on arm64.
 */
UW_INLINE int uw_step_compat(struct uw_state *u, UW_MEM *mem)
{
#ifdef ABI_ARM64
	(void)u;
	(void)mem;
	return ABI_WALK_COMPAT;
#else
	__u64 fp = u->reg[ABI_REG_FP] & 0xffffffff, sp = u->reg[ABI_REG_SP] & 0xffffffff;
	enum uw_compat_frame frame = UW_COMPAT_RECORD;
	__u64 code, record;
	int r;

	u->reg[ABI_REG_SP] = sp;
	/* In a system call of the vDSO: its next instructions pop the registers that it pushed. */
	if (u->leaf && !u->exact && sp <= UW_COMPAT_END - 16 &&
	    UW_READ_CODE(mem, &code, u->pc) == 0 && (code & 0xffffffff) == UW_COMPAT_VSYSCALL) {
		if (UW_READ(mem, &record, sp) || UW_READ(mem, &code, sp + 8))
			return ABI_WALK_FAULT;
		r = uw_compat_ra(u, mem, code >> 32, sp + 16);
		if (r == 0)
			uw_set(u, ABI_REG_FP, record & 0xffffffff);
		return r;
	}
	/* Not in a system call, whose pc is after its instruction. */
	if (u->leaf && u->exact && UW_READ_CODE(mem, &code, u->pc - 1) == 0)
		frame = uw_compat_frame(code);
	if (sp > UW_COMPAT_END - 8)
		return ABI_WALK_IMPLAUSIBLE;
	if (frame == UW_COMPAT_TOP) {
		if (UW_READ(mem, &record, sp))
			return ABI_WALK_FAULT;
		r = uw_compat_ra(u, mem, record & 0xffffffff, sp + 4);
		if (r == 0)
			u->heuristic++;
		return r;
	}
	if (frame == UW_COMPAT_PUSHED)
		fp = sp;
	/* A zero in a record ends the chain. In a register it means nothing. */
	if (fp == 0)
		return u->by_record ? ABI_WALK_ROOT : ABI_WALK_IMPLAUSIBLE;
	if ((fp & 3) || fp < sp || fp > UW_COMPAT_END - 8)
		return ABI_WALK_IMPLAUSIBLE;
	if (UW_READ(mem, &record, fp))
		return ABI_WALK_FAULT;
	if (!(record >> 32) && !u->by_record)
		return ABI_WALK_IMPLAUSIBLE; /* the register is no frame pointer */
	r = uw_compat_ra(u, mem, record >> 32, fp + 8);
	if (r)
		return r;
	uw_set(u, ABI_REG_FP, record & 0xffffffff);
	u->by_record = 1;
	u->heuristic++;
	return 0;
#endif
}

#endif
