/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/* State of a task that leaves its CPU, from sched_switch and the task. */
#ifndef PA_BPF_TASK_STATE_H
#define PA_BPF_TASK_STATE_H

#include "bpf/lib/task.h"

/* Returns the state in the task. A wake-up on another CPU may have changed it since the switch:
 * where sched_switch reports the state (5.18), use that. */
static __always_inline __u32 task_state(struct task_struct *task)
{
	if (bpf_core_field_exists(task->__state))
		return task->__state;
	return (__u32)((struct task_struct___5_10 *)task)->state;
}

/* Returns 1 if a task that sched_switch reports as blocked was woken already. Since 6.12 the
 * scheduler drops its lock in between: sched_wakeup then comes before sched_switch, and not
 * again. */
static __always_inline int woken_before(struct task_struct *task, __u32 preempt, __u32 state)
{
	return !preempt && state && !(state & TASK_DEAD) && task_state(task) == 0;
}

static __always_inline __u32 is_iowait(struct task_struct *task)
{
	return BPF_CORE_READ_BITFIELD(task, in_iowait);
}

/* Returns enum abi_offcpu_state; NONE: the task ends. */
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
