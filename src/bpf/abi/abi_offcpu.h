/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/* bpf/abi - the wire of off-CPU profiles: intervals by thread, stacks, state and waker. */
#ifndef PA_ABI_OFFCPU_H
#define PA_ABI_OFFCPU_H

#include "bpf/abi/abi.h"

/* Why a thread is off its CPU; bit 1 << state in abi_config.offcpu_states. */
enum abi_offcpu_state {
	ABI_OFFCPU_NONE = 0,
	ABI_OFFCPU_INTERRUPTIBLE = 1,
	ABI_OFFCPU_UNINTERRUPTIBLE = 2,
	ABI_OFFCPU_IOWAIT = 3,    /* what the kernel calls I/O wait */
	ABI_OFFCPU_STOPPED = 4,   /* stopped, traced, parked, frozen */
	ABI_OFFCPU_PREEMPTED = 5, /* it could run; also after sched_yield */
	ABI_OFFCPU_IDLE = 6,      /* kernel threads that wait for work */
	ABI_OFFCPU_CNT = 7,
};
/* In the flags of a key. The epoch tells which JIT code was at the addresses of a stack. */
#define ABI_KEY_STATE_SHIFT 8
#define ABI_KEY_STATE_MASK  0xf00u
#define ABI_KEY_EPOCH_SHIFT 16

struct abi_offcpu_key {
	struct abi_count_key k; /* with a state and an epoch in its flags */
	__u64 waker;            /* hash of a struct abi_waker; 0: not requested, or unknown */
};
_Static_assert(sizeof(struct abi_offcpu_key) == 56, "shared layout");

struct abi_offcpu_count {
	__u64 intervals, ns; /* blocked: until the wake-up; PREEMPTED: until it ran */
	__u64 longest_ns;
	__u64 runq_ns; /* from the wake-up until it ran */
};
_Static_assert(sizeof(struct abi_offcpu_count) == 32, "shared layout");

/* Value of the offcpu_threads map: a thread and its open interval. Key: __u32, the kernel's tid. */
struct abi_offcpu_thread {
	__u64 out_ns;   /* switch-out, CLOCK_MONOTONIC; 0: no open interval */
	__u64 wake_ns;  /* last wake-up since then; 0: none */
	__u64 waker;    /* hash of its last waker */
	__u64 exec_ns;  /* sum_exec_runtime at the switch-out */
	__u64 ended_ns; /* set by the final task scan: end of an interval whose switch-in event was
	                   * missed; 0: none */
	struct abi_count_key key; /* stacks, state and epoch */
	/* Intervals that ended and are in no count table yet: a thread often blocks where it
	 * blocked before. */
	struct abi_offcpu_key pending_key;
	struct abi_offcpu_count pending; /* .intervals 0: none */
	char comm[ABI_COMM_LEN];         /* as in the threads map, while .names is valid */
	__u32 names;      /* abi_control.names + 1 when comm was reported; 0: never */
	__u32 untracked;  /* 1: off its CPU in a state not selected, or its switch-out was missed */
	__u64 flushed_ns; /* when pending was added to the table last */
	__u32 cpu; /* with abi_config.stream: of the switch-out; 0 if that was before the capture */
	__u32 pad;
};
_Static_assert(sizeof(struct abi_offcpu_thread) == 216, "shared layout");

/* The waker of a thread. It is sent as a struct abi_stack of kind ABI_STACK_WAKER, whose "frames"
 * are these words. */
struct abi_waker {
	__u64 ustack, kstack; /* hashes; 0: none */
	__u64 start_ns;       /* of the leader */
	__u32 tgid, tid;      /* 0: an interrupt on an idle CPU */
	__u32 exec_id;
	__u32 flags; /* ABI_KEY_*, ABI_WAKER_IRQ */
	char comm[ABI_COMM_LEN];
};
_Static_assert(sizeof(struct abi_waker) == 56, "shared layout");
#define ABI_WAKER_IRQ   16u /* an interrupt; the task that it interrupted is not reported */
#define ABI_WAKER_WORDS (sizeof(struct abi_waker) / 8)

/* A thread that was off its CPU when the capture began, as the task iterator reports it. */
struct abi_offcpu_blocked {
	struct abi_count_key key; /* .ustack is a placeholder: user space unwinds the stack */
	__u64 pc;
	__u64 reg[ABI_REGS];
	__u32 kernel_tid;
	__u32 regs; /* 0: there are none */
	char comm[ABI_COMM_LEN];
};

#endif
