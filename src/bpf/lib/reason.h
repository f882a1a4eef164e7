/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/* The reason why a task leaves its CPU: enum abi_reason. */
#ifndef PA_BPF_REASON_H
#define PA_BPF_REASON_H

#include "bpf/lib/regs.h"
#include "bpf/lib/task_state.h"

#if defined(__TARGET_ARCH_arm64)
#define SYS_SCHED_YIELD        124
#define SYS_SCHED_YIELD_COMPAT 158

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)
/* The kernel's structure, which is longer than its UAPI part. */
struct pt_regs {
	__s32 syscallno; /* -1: an interrupt */
};
#pragma clang attribute pop
#endif

/* Returns 1 if the current task, of a user, is in sched_yield. */
static __always_inline int in_yield(struct task_struct *task)
{
	const char *at;

	if (HAS_HELPER(task_pt_regs))
		at = (const char *)bpf_task_pt_regs(task);
	else
		at = (const char *)task->stack + REGS_STACK_SIZE - REGS_STACK_PAD -
		     sizeof(user_regs_t);
#if defined(__TARGET_ARCH_x86)
	struct {
		__u64 orig_rax, rip, cs;
	} regs;

	/* sched_yield is 24 for 64-bit code, 158 for 32-bit code. */
	if (bpf_probe_read_kernel(&regs, sizeof(regs),
	                          at + __builtin_offsetof(struct pt_regs, orig_rax)))
		return 0;
	return regs.orig_rax == (REGS_IS_COMPAT(&regs) ? 158 : 24);
#else
	/* Not all registers: with their 272 bytes two functions exceed the stack limit. */
	struct {
		__u64 pstate;
	} regs;
	__s32 nr;

	if (bpf_probe_read_kernel(&nr, sizeof(nr),
	                          at + bpf_core_field_offset(struct pt_regs, syscallno)) ||
	    bpf_probe_read_kernel(&regs, sizeof(regs),
	                          at + __builtin_offsetof(user_regs_t, pstate)))
		return 0;
	return nr == (REGS_IS_COMPAT(&regs) ? SYS_SCHED_YIELD_COMPAT : SYS_SCHED_YIELD);
#endif
}

static __always_inline __u32 reason_of(struct task_struct *prev, __u32 preempt, __u32 state)
{
	switch (offcpu_state(prev, preempt, state)) {
	case ABI_OFFCPU_NONE:
		return ABI_REASON_EXITED;
	case ABI_OFFCPU_INTERRUPTIBLE:
	case ABI_OFFCPU_IDLE:
		return ABI_REASON_SLEEP;
	case ABI_OFFCPU_IOWAIT:
		return ABI_REASON_IOWAIT;
	case ABI_OFFCPU_UNINTERRUPTIBLE:
		return ABI_REASON_UNINTERRUPTIBLE;
	case ABI_OFFCPU_STOPPED:
		return ABI_REASON_STOPPED;
	default:
		break;
	}
	if (preempt)
		return ABI_REASON_PREEMPTED;
	/* On the exit to user mode a preempted task has no preempt flag. */
	if (prev->flags & PF_KTHREAD)
		return ABI_REASON_YIELDED;
	return in_yield(prev) ? ABI_REASON_YIELDED : ABI_REASON_PREEMPTED;
}

#endif
