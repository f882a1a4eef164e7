/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/* On-CPU time of target threads between switch events: see bpf/lib/cpu_time.h. */
#ifndef PA_ABI_CPU_TIME_H
#define PA_ABI_CPU_TIME_H

#include <linux/types.h>

/* Samples of a thread with which its own ratio of time to weight is used: 50 of them scatter by 14
 * %. Those of other threads share one. */
#define ABI_CPU_TIME_SAMPLES 50

struct abi_cpu_sum {
	__u64 ran_ns; /* on a CPU, between switch events */
	__u64 seen;   /* weight of samples, kept or dropped */
};

/* Value of the cpu_times map; key: the kernel's number of the thread. */
struct abi_cpu_time {
	__u64 task_start_ns; /* the thread's own start, CLOCK_BOOTTIME */
	__u64 start_ns;      /* and as in struct abi_count_key: the leader's start, … */
	__u32 tgid, tid;
	__u32 flags;  /* ABI_KEY_* */
	__u32 missed; /* 1: its last switch-out was missed */
	struct abi_cpu_sum sums;
	__u64 task;     /* address of its task: another one after another thread has executed */
	__u64 exec_ns;  /* sum_exec_runtime of that task when it was last switched out */
	__u64 split_ns; /* part of sums.ran_ns since then: of intervals that were split */
};
_Static_assert(sizeof(struct abi_cpu_time) == 72, "shared layout");

/* Argument of cpu_time_mark. */
#define ABI_CPU_TIME_END   0
#define ABI_CPU_TIME_BEGIN 1
#define ABI_CPU_TIME_SPLIT 2 /* count the running intervals up to now, and go on */

/* Per CPU. */
struct abi_cpu_clock {
	__u64 since_ns;          /* begin of the running interval; 0: not begun, or ended */
	struct abi_cpu_sum rest; /* of threads without an entry */
	__u64 prog_ns;           /* time of the program at switches, by one run in 64 */
	__u64 task;              /* address of the task of the running interval; 0: no target */
	__u64 missed;            /* intervals of targets of which a switch event was missed */
	__u64 full;              /* intervals of threads that could not get an entry */
	__u32 tid;               /* the kernel's number of that task */
	__u32 pad;
};
_Static_assert(sizeof(struct abi_cpu_clock) == 64, "shared layout");

#endif
