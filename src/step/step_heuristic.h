/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/*
 * step, without a rule: by the instructions at pc, by frame pointers, or by the words above the
 * stack pointer.
 */
#ifndef PA_STEP_HEURISTIC_H
#define PA_STEP_HEURISTIC_H

#include "step/step_state.h"

#ifdef ABI_ARM64
/* mov x8, #139; svc 0 */
#define UW_SIGRETURN     0xd4000001d2801168ULL
#define UW_SIGRETURN_LEN 8
/* mov x8, #93 */
#define UW_IS_END(insn)      (((insn)&0xffffffff) == 0xd2800ba8)
#define UW_POPS(insn, exact) 0
#else
/* mov $15, %rax; syscall: the first 8 of its 9 bytes */
#define UW_SIGRETURN     0x0f0000000fc0c748ULL
#define UW_SIGRETURN_LEN 9
/* mov %rax, %rdi; mov $60, %eax (glibc) · mov %eax, %edi; mov $60, %eax; … ·
 * mov %eax, %edi; xor %eax, %eax; mov $60, %al; syscall (musl) ·
 * mov %rbx, %rsp; mov (%rsp), %rdi; … (glibc, where makecontext's function returns to) */
#define UW_IS_END(insn)                                                                            \
	((insn) == 0x0000003cb8c78948ULL ||                                                        \
	 ((insn)&0x00ffffffffffffffULL) == 0x0000003cb8c789ULL ||                                  \
	 (insn) == 0x050f3cb0c031c789ULL || ((insn)&0x00ffffffffffffffULL) == 0x243c8b48dc8948ULL)
/* add $n, %rsp; ret, with n of 8 to 120: n + 8; else 0 */
#define UW_POPS_AFTER(insn)                                                                        \
	(((insn)&0xff87ffffffULL) == 0xc300c48348ULL && ((insn)&0x78000000ULL)                     \
	         ? ((__u32)((insn) >> 24) & 0x78) + 8                                              \
	         : 0)
/* Bytes from the stack pointer to the caller's frame at: ret · call *%rcx before one of the above ·
 * sub $n, %rsp; call *%rcx */
#define UW_POPS_AT(insn)                                                                           \
	(((insn)&0xff) == 0xc3 || ((insn)&0xffff87ffffffULL) == 0xd1ff00ec8348ULL ? 8              \
	 : ((insn)&0xffff) == 0xd1ff ? UW_POPS_AFTER((insn) >> 16)                                 \
	                             : 0)
#define UW_POPS(insn, exact)                                                                       \
	(UW_POPS_AFTER(insn) ? UW_POPS_AFTER(insn) : (exact) ? UW_POPS_AT(insn) : 0)
#endif

enum uw_special {
	UW_ORDINARY = 0,
	/* Return of a signal handler, before or in its system call. */
	UW_TRAMPOLINE = 1,
	/* Goes straight to exit: below the first frame of a thread, or the end of a coroutine. C
	 * libraries have no rules for that code, or none before its first byte. A function that
	 * returns there has no caller. */
	UW_THREAD_END = 2,
	/* The code could not be read: treated as ordinary, and not cached. */
	UW_UNREAD = 3,
	/* Pops its frame and returns, perhaps after a call that comes next; it has saved no
	 * register. CPython's perf trampolines; any return. */
	UW_FRAME_POPS = 4,
};

/* Returns how the code at pc, which has no rule, gets to its caller. */
UW_INLINE enum uw_special uw_special(const struct uw_state *u, UW_MEM *mem)
{
	__u64 insn;

	(void)mem; /* the hook may not need it */
	if (UW_READ_CODE(mem, &insn, u->pc))
		return UW_UNREAD;
	if (insn == UW_SIGRETURN)
		return UW_TRAMPOLINE;
	if (!u->exact && UW_IS_END(insn))
		return UW_THREAD_END;
	if (UW_POPS(insn, u->exact))
		return UW_FRAME_POPS;
	if (!u->leaf || u->exact)
		return UW_ORDINARY;
	if (UW_READ_CODE(mem, &insn, u->pc - UW_SIGRETURN_LEN))
		return UW_UNREAD;
	return insn == UW_SIGRETURN ? UW_TRAMPOLINE : UW_ORDINARY;
}

/* Steps over a signal frame. At a signal's return trampoline the stack pointer is at the kernel's
 * frame, whose layout is part of its ABI: arch/x86/include/uapi/asm/sigcontext.h,
 * arch/arm64/include/uapi/asm/sigcontext.h. */
UW_INLINE int uw_step_sigframe(struct uw_state *u, UW_MEM *mem)
{
	__u64 sp = u->reg[ABI_REG_SP], cfa, ra;
	int r;
#ifdef ABI_ARM64
	/* siginfo 128; ucontext: flags, link, stack 40, mask 128, padding 8; fault address 8 */
	__u64 regs = sp + 128 + 176 + 8;
	__u32 i;

	if (UW_READ(mem, &cfa, regs + 31 * 8) || UW_READ(mem, &ra, regs + 32 * 8))
		return ABI_WALK_FAULT;
	r = uw_finish(u, cfa, ra, 1);
	if (r)
		return r;
	for (i = 0; i < 31; i++)
		uw_saved_at(u, i, regs + 8 * (__u64)i);
#else
	/* ucontext: flags, link, stack; then r8 … r15, rdi, rsi, rbp, rbx, rdx, rax, rcx, rsp,
	 * rip. */
	__u64 regs = sp + 40;
	__u32 i;

	if (UW_READ(mem, &cfa, regs + 15 * 8) || UW_READ(mem, &ra, regs + 16 * 8))
		return ABI_WALK_FAULT;
	r = uw_finish(u, cfa, ra, 1);
	if (r)
		return r;
	for (i = 0; i < 8; i++)
		uw_saved_at(u, 8 + i, regs + 8 * (__u64)i);
	uw_saved_at(u, 5, regs + 8 * 8);
	uw_saved_at(u, 4, regs + 9 * 8);
	uw_saved_at(u, 6, regs + 10 * 8);
	uw_saved_at(u, 3, regs + 11 * 8);
	uw_saved_at(u, 1, regs + 12 * 8);
	uw_saved_at(u, 0, regs + 13 * 8);
	uw_saved_at(u, 2, regs + 14 * 8);
#endif
	return 0;
}

/* Steps by the frame pointer, if a return address is next to it. */
UW_INLINE int uw_heuristic_fp(struct uw_state *u, UW_MEM *mem)
{
	__u64 fp, ra;
	int r = uw_value(u, mem, ABI_REG_FP, &fp);

	if (r)
		return r;
	if (fp && !(fp & 7) && fp >= u->reg[ABI_REG_SP] && fp < UW_USER_END) {
		if (UW_READ(mem, &ra, fp + 8))
			return ABI_WALK_FAULT;
		if (ra && !UW_IS_CODE(mem, uw_unsigned(ra), 1))
			return ABI_WALK_IMPLAUSIBLE;
	}
	return uw_step_fp(u, mem);
}

/* Steps by the first of the words @from … @to - 1 above the stack pointer that can be a return
 * address. */
UW_INLINE int uw_heuristic_scan(struct uw_state *u, UW_MEM *mem, __u32 from, __u32 to)
{
	__u64 sp = u->reg[ABI_REG_SP], ra;
	__u32 i;

	for (i = from; i < to; i++) {
		if (UW_READ(mem, &ra, sp + 8 * (__u64)i))
			return ABI_WALK_FAULT;
		if (UW_IS_CODE(mem, uw_unsigned(ra), 0))
			return uw_finish(u, sp + 8 * (__u64)i + 8, ra, 0);
	}
	return ABI_WALK_IMPLAUSIBLE;
}

/* Steps out of code that pops its frame and returns. */
UW_INLINE int uw_step_pops(struct uw_state *u, UW_MEM *mem)
{
	__u64 insn, cfa = u->reg[ABI_REG_SP], ra;

	if (UW_READ_CODE(mem, &insn, u->pc))
		return ABI_WALK_FAULT;
	cfa += UW_POPS(insn, u->exact);
	if (UW_READ(mem, &ra, cfa - 8))
		return ABI_WALK_FAULT;
	return uw_finish(u, cfa, ra, 0);
}

/**
 * uw_step_heuristic - the caller's frame of code without a rule
 * @special: answer of uw_special, or ORDINARY if that is cached
 * @code: ABI_CODE_NONE, ABI_CODE_BAD, or ABI_CODE_HEURISTIC
 * @jit:  non-zero in JIT code, which has frame pointers
 * Tries, in this order:
 *   a signal's trampoline, the end of a thread, a frame that is popped: certain, by their code
 *   a leaf that has pushed nothing (PLT stubs, small assembly): the return address is on top
 *   the frame pointer
 *   the words above the stack pointer
 * u->heuristic counts the frames found by the last three, frame pointers of JIT code excepted.
 * Returns: 0, or ABI_WALK_*: UNCOVERED, BAD_RULE and JIT where nothing fits.
 */
UW_INLINE int uw_step_heuristic(struct uw_state *u, UW_MEM *mem, enum uw_special special,
                                __u32 code, __u32 jit)
{
	int r = ABI_WALK_IMPLAUSIBLE;

	switch (special) {
	case UW_TRAMPOLINE:
		return uw_step_sigframe(u, mem);
	case UW_THREAD_END:
		return ABI_WALK_ROOT;
	case UW_FRAME_POPS:
		return uw_step_pops(u, mem);
	case UW_ORDINARY:
	case UW_UNREAD:
		break;
	}
#ifdef ABI_ARM64
	if (u->exact && !jit) {
		/* The return address of a leaf is in lr. */
		__u64 lr;

		r = uw_value(u, mem, ABI_REG_LR, &lr);
		if (r == 0)
			r = UW_IS_CODE(mem, uw_unsigned(lr), 1)
			            ? uw_finish(u, u->reg[ABI_REG_SP], lr, 0)
			            : ABI_WALK_IMPLAUSIBLE;
	}
#else
	if (u->exact && !jit)
		r = uw_heuristic_scan(u, mem, 0, 1);
#endif
	if (r)
		r = uw_heuristic_fp(u, mem);
	/* A zero in a frame record ends the chain. In a register it means nothing: programs without
	 * frame pointers may keep the zero of their start. */
	if (r == ABI_WALK_ROOT && !u->by_record)
		r = ABI_WALK_IMPLAUSIBLE;
	if (!jit && r != 0 && r != ABI_WALK_ROOT)
		r = uw_heuristic_scan(u, mem, 0, UW_SCAN_WORDS);
	if (r == 0 || r == ABI_WALK_ROOT) {
		u->heuristic += !jit;
		return r;
	}
	return jit ? ABI_WALK_JIT : code == ABI_CODE_BAD ? ABI_WALK_BAD_RULE : ABI_WALK_UNCOVERED;
}

/**
 * uw_after_call - can the instruction before a return address be a call?
 * @code: the 8 bytes before the return address, as a little-endian number (last byte highest)
 * A heuristic for return addresses in no known mapping, at the cost of one read: it refuses heap
 * and stack pointers that look like code.
 */
UW_INLINE int uw_after_call(__u64 code)
{
#ifdef ABI_ARM64
	__u32 insn = (__u32)(code >> 32);

	/* bl imm26 · blr xn · blraa/blrab families */
	return (insn & 0xfc000000) == 0x94000000 || (insn & 0xfffffc1f) == 0xd63f0000 ||
	       (insn & 0xfefff800) == 0xd63f0800;
#else
	/* call rel32: e8 + 4 bytes */
	if (((code >> 24) & 0xff) == 0xe8)
		return 1;
/* call r/m64: ff /2, with 0, 1 or 4 bytes of displacement and an optional SIB byte */
#define UW_FF2(shift)                                                                              \
	((((code >> (shift)) & 0xff) == 0xff) && (((code >> ((shift) + 8)) & 0x38) == 0x10))
	return UW_FF2(48) || UW_FF2(40) || UW_FF2(32) || UW_FF2(16) || UW_FF2(8);
#undef UW_FF2
#endif
}

#endif
