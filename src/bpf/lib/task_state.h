/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/* Why a task leaves its CPU: what sched_switch tells, and what stands in the task. */
#ifndef PA_BPF_TASK_STATE_H
#define PA_BPF_TASK_STATE_H

#include "bpf/lib/task.h"

/* The state with which it was switched out. Where the tracepoint does not tell it, it is read: a
 * wake-up on another CPU may just have changed it. */
static __always_inline __u32 task_state(struct task_struct *task)
{
	if (bpf_core_field_exists(task->__state))
		return task->__state;
	return (__u32)((struct task_struct___5_10 *)task)->state;
}

/* Has a task that blocks, as sched_switch says, been woken already? Since 6.12 the scheduler lets
 * go of its lock between the two: sched_wakeup is told before sched_switch then, and not again. */
static __always_inline int woken_before(struct task_struct *task, __u32 preempt, __u32 state)
{
	return !preempt && state && !(state & TASK_DEAD) && task_state(task) == 0;
}

static __always_inline __u32 is_iowait(struct task_struct *task)
{
	return BPF_CORE_READ_BITFIELD(task, in_iowait);
}

/* enum abi_offcpu_state; NONE: it ends. */
static __always_inline __u32 offcpu_state(struct task_struct *task, __u32 preempt, __u32 state)
{
	if (preempt)
		return ABI_OFFCPU_PREEMPTED;
	if (state & TASK_DEAD)
		return ABI_OFFCPU_NONE;
	if (state & TASK_INTERRUPTIBLE)
		return ABI_OFFCPU_INTERRUPTIBLE;
	if (state & (TASK_STOPPED | TASK_TRACED | TASK_PARKED | TASK_FROZEN))
		return ABI_OFFCPU_STOPPED;
	if (is_iowait(task))
		return ABI_OFFCPU_IOWAIT;
	if (state & TASK_UNINTERRUPTIBLE && state & TASK_NOLOAD)
		return ABI_OFFCPU_IDLE;
	if (state & (TASK_UNINTERRUPTIBLE | TASK_RTLOCK_WAIT))
		return ABI_OFFCPU_UNINTERRUPTIBLE;
	return ABI_OFFCPU_PREEMPTED;
}

#endif
