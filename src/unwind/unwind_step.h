/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/*
 * unwind_step - one frame of a user stack: registers and a way to read memory -> the caller's
 * registers, or why the walk ends. No helpers, no maps: the same text is compiled for BPF and for
 * the host, where unit tests, property tests and the fuzzer drive it.
 *
 * Until call-frame rules are read, the one rule is the frame pointer: [fp] holds the caller's fp
 * and [fp + 8] the return address (x86-64 ABI; AAPCS64 frame records have the same shape).
 *
 * Before including, define
 *   UW_MEM                       the type behind which memory is reached
 *   UW_READ(mem, ret_u64, addr)  reads 8 bytes at addr into *ret_u64: 0, or non-zero on a fault
 */
#ifndef PA_UNWIND_STEP_H
#define PA_UNWIND_STEP_H

#include "bpf/abi/abi.h"

/* Highest user address + 1 of every page-table layout we meet (57 bits, x86-64 LA57; arm64 has 52).
 */
#define UW_USER_END (1ULL << 56)
/* Nothing is mapped below: mmap_min_addr. */
#define UW_USER_MIN 4096ULL

struct uw_regs {
	__u64 pc; /* of the frame: the instruction (leaf) or the return address */
	__u64 sp; /* a lower bound of where the caller's frame begins */
	__u64 fp;
};

/* 0: *r is the caller's frame. Else the ABI_WALK_* outcome, *r unchanged. */
static __attribute__((always_inline)) inline int uw_step_fp(struct uw_regs *r, UW_MEM *mem)
{
	__u64 fp = r->fp, next_fp, ra;

	if (fp == 0)
		return ABI_WALK_ROOT;
	/* The record lies at or above the stack pointer and is aligned: else rbp is no frame
	 * pointer here. */
	if ((fp & 7) || fp < r->sp || fp >= UW_USER_END)
		return ABI_WALK_IMPLAUSIBLE;
	if (UW_READ(mem, &next_fp, fp) || UW_READ(mem, &ra, fp + 8))
		return ABI_WALK_FAULT;
	if (ra == 0)
		return ABI_WALK_ROOT;
	if (ra < UW_USER_MIN || ra >= UW_USER_END)
		return ABI_WALK_BAD_PC;
	r->pc = ra;
	r->sp = fp + 16;
	r->fp = next_fp;
	return 0;
}

/**
 * uw_after_call - could the instruction that ends before a return address be a call?
 * @code: the 8 bytes before the return address, as a little-endian number (last byte highest)
 * A guess that costs one read, for return addresses that lie in no known mapping: heap and stack
 * pointers that merely look like code fail it.
 */
static __attribute__((always_inline)) inline int uw_after_call(__u64 code)
{
#if defined(__aarch64__) || defined(__TARGET_ARCH_arm64)
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

/*
 * Hash of a stack, folded frame by frame, keyed by a number that targets do not know. Two
 * multiplications, the second by the key: a difference in the highest bits passes the first one
 * unchanged, and would cancel against one in the next frame whatever the starting value is. 64
 * bits: two different stacks among a million collide once in 37 million captures.
 */
static __attribute__((always_inline)) inline __u64 uw_hash_mix(__u64 h, __u64 v, __u64 key)
{
	h = (h ^ v) * 0x9e3779b97f4a7c15ULL;
	h = (h ^ (h >> 32)) * (key | 1);
	return h ^ (h >> 29);
}

/* Closes the hash over the number of frames and the outcome; never 0. */
static __attribute__((always_inline)) inline __u64 uw_hash_finish(__u64 h, __u32 n, __u32 walk,
                                                                  __u64 key)
{
	h = uw_hash_mix(h, ((__u64)walk << 32) | n, key);
	return h ? h : 1;
}

#endif
