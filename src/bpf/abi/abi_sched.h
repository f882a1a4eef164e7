/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/*
 * bpf/abi - the wire of the scheduler statistics: histograms, reasons, sums, counters. The programs
 * add them up; no event is sent.
 */
#ifndef PA_ABI_SCHED_H
#define PA_ABI_SCHED_H

#include <linux/types.h>

/* ---- histograms ------------------------------------------------------------------------------ */
/*
 * Log-linear: below 64 ns a bucket for each value, above that 64 for each power of two. A bucket is
 * at most 1/64 of its values wide, so its middle is within 0.8 % of each. The last one begins at
 * 2^42 - 2^35 ns (73 minutes) and takes all that is longer.
 */
#define ABI_HIST_SUB_BITS 6
#define ABI_HIST_OCTAVES  42 /* values below 2^42 have buckets of their own */
#define ABI_HIST_BUCKETS  ((ABI_HIST_OCTAVES - ABI_HIST_SUB_BITS + 1) << ABI_HIST_SUB_BITS)

static __attribute__((always_inline)) inline __u32 abi_hist_bucket(__u64 ns)
{
	__u64 v = ns;
	__u32 octave = 0;

	if (ns >> ABI_HIST_OCTAVES)
		return ABI_HIST_BUCKETS - 1;
	if (ns < (1U << ABI_HIST_SUB_BITS))
		return (__u32)ns;
	/* floor(log2), without an instruction for it */
	octave += (v >> 32 != 0) << 5;
	v >>= (v >> 32 != 0) << 5;
	octave += (v >> 16 != 0) << 4;
	v >>= (v >> 16 != 0) << 4;
	octave += (v >> 8 != 0) << 3;
	v >>= (v >> 8 != 0) << 3;
	octave += (v >> 4 != 0) << 2;
	v >>= (v >> 4 != 0) << 2;
	octave += (v >> 2 != 0) << 1;
	v >>= (v >> 2 != 0) << 1;
	octave += (v >> 1 != 0);
	return ((octave - ABI_HIST_SUB_BITS + 1) << ABI_HIST_SUB_BITS) +
	       ((__u32)(ns >> (octave - ABI_HIST_SUB_BITS)) & ((1U << ABI_HIST_SUB_BITS) - 1));
}

enum abi_hist {
	ABI_HIST_SLICE = 0,   /* on a CPU, from one switch to the next */
	ABI_HIST_RUNQ = 1,    /* runnable and waiting for a CPU */
	ABI_HIST_BLOCKED = 2, /* blocked: from the switch to the wake-up */
	ABI_HIST_CNT = 3,
};

/* Why a thread left its CPU. */
enum abi_reason {
	ABI_REASON_PREEMPTED = 0,
	ABI_REASON_YIELDED = 1,
	ABI_REASON_SLEEP = 2,           /* interruptible, and idle kernel threads */
	ABI_REASON_IOWAIT = 3,          /* what the kernel calls I/O wait */
	ABI_REASON_UNINTERRUPTIBLE = 4, /* other than for I/O */
	ABI_REASON_STOPPED = 5,         /* stopped, traced, parked, frozen */
	ABI_REASON_EXITED = 6,
	ABI_REASON_CNT = 7,
};

/* Sums of a thread, a process or a CPU. */
struct abi_sched_sums {
	__u64 ns[ABI_HIST_CNT];       /* on the CPU, waiting for one, blocked */
	__u64 reason[ABI_REASON_CNT]; /* switches */
	__u64 faults, migrations;     /* differences of the kernel's own counts */
};
_Static_assert(sizeof(struct abi_sched_sums) == 96, "shared layout");

/* Counters that are read at switches, in the order that user space opened them in. */
#define ABI_COUNTERS_MAX   12
#define ABI_CORE_TYPES_MAX 4
struct abi_counted {
	__u64 value, enabled_ns, running_ns; /* differences, added up */
};

/* ---- aggregate, per CPU ---------------------------------------------------------------------- */
/* Map cpu_hists: per-CPU array, key enum abi_hist. */
struct abi_cpu_hist {
	__u64 bucket[ABI_HIST_BUCKETS];
	__u64 total_ns; /* of the values that are in buckets */
};
/* Map cpu_sums: per-CPU array, key 0. */
struct abi_cpu_sums {
	/* With the slices of threads for which the table was full, without their blocked and
	 * run-queue time. Faults and migrations are 0: threads and processes have them. */
	struct abi_sched_sums sums;
	struct abi_counted counted[ABI_COUNTERS_MAX];
	/* State of the programs. */
	__u64 since_ns;  /* switch-in of the target thread that runs here; 0: none */
	__u64 lost;      /* switches and wake-ups of threads for which the table was full */
	__u64 missed;    /* missed switch events: their intervals are in no histogram */
	__u32 switched;  /* 1: a switch from or to a thread of the target was seen here */
	__u32 tid;       /* the kernel's tid of the target thread switched in here last; 0: none */
	__u32 core_type; /* of this CPU; user space writes it before the capture */
	__u32 armed;     /* 1: last[] was read at the switch-in of the thread that runs here */
	__u64 prog_ns;   /* run time of the programs, estimated from 1 run in 64 */
	struct abi_counted last[ABI_COUNTERS_MAX];
};

/* ---- per process ----------------------------------------------------------------------------- */
/* Map sched_procs: array, ABI_SCHED_PROCS + 1 entries. Slot 0 is "other": processes for which no
 * slot was free. A process claims a slot at the first switch or wake-up of one of its threads.
 * Processes that slept all the time share the slots that are free at the end. */
#define ABI_SCHED_PROCS 512
struct abi_sched_proc {
	__u32 tgid;     /* in our pid namespace; 0: slot 0, or not in use */
	__u32 exec_id;  /* of the newest program */
	__u64 start_ns; /* leader's start, CLOCK_BOOTTIME */
	char comm[16];  /* the leader's newest name */
	__u64 ended;    /* threads that have ended; sums has only theirs */
	struct abi_sched_sums sums;
	struct abi_counted counted[ABI_CORE_TYPES_MAX][ABI_COUNTERS_MAX];
	/* All CPUs add to them atomically. They wrap; user space reads them often enough. */
	__u32 bucket[ABI_HIST_CNT][ABI_HIST_BUCKETS];
	__u64 total_ns[ABI_HIST_CNT]; /* of the values that are in buckets */
};

/* ---- per thread ------------------------------------------------------------------------------ */
enum abi_phase {
	/* Unknown, or filtered out. Filtered out: since_ns is its switch-in, or 0 if it does not run
	 * or that is unknown. */
	ABI_PHASE_NONE = 0,
	ABI_PHASE_ON = 1, /* on a CPU since since_ns */
	ABI_PHASE_RUNQ = 2,
	ABI_PHASE_BLOCKED = 3,
	ABI_PHASE_LOST = 4, /* on a CPU since since_ns, and its switch-out was missed */
};
/* Section .data.sched. Written by user space and programs. */
struct abi_sched_control {
	__u64 begin_ns;   /* CLOCK_MONOTONIC */
	__u64 end_ns;     /* set when the programs stop to count */
	__u32 ready;      /* 1: the initial task scan is done. A thread without an entry found the
	                   * table full; its past is unknown */
	__u32 next_slot;  /* the slot claimed last; the search for a free one begins after it */
	__u64 lost_procs; /* threads of processes for which no slot was free */
	__u32 cpu_step;   /* what sched_cpu_step does, ABI_CPU_STEP_* */
	__u32 active;     /* 1: programs count */
};
_Static_assert(sizeof(struct abi_sched_control) == 40, "shared layout");
#define ABI_CPU_STEP_BEGIN 0 /* the capture begins now */
#define ABI_CPU_STEP_ARM   1 /* counters of this CPU count from here on */
#define ABI_CPU_STEP_FLUSH 2 /* counters of this CPU count up to here */

/* Map sched_threads: hash, key __u32 kernel tid. */
struct abi_sched_thread {
	__u64 since_ns;  /* CLOCK_MONOTONIC: when the phase began, or the capture */
	__u32 phase;     /* enum abi_phase */
	__u32 slot;      /* of its process in sched_procs; 0: none, or none yet */
	__u32 tid;       /* in our pid namespace */
	__u16 baseline;  /* 1: the phase began before the capture: in sums, in no histogram */
	__u8 slot_tried; /* 1: a slot was searched for, at its first event or at the end */
	__u8 scanned;    /* 1: the final task scan has seen it */
	__u64 faults0, migrations0; /* the kernel's counts when the entry was made */
	__u64 exec0_ns;             /* sum_exec_runtime at its last switch-out event */
	char comm[16];
	struct abi_sched_sums sums;
};

/* Map sched_fast: array, mapped, key: the kernel's tid & mask. It saves a hash look-up, which is a
 * large part of the cost of a switch. Threads that collide are in sched_threads. */
struct abi_sched_fast {
	__u32 key; /* the kernel's tid, 0: free */
	__u32 pad;
	struct abi_sched_thread t;
	__u64 pad2[3]; /* threads of different CPUs share no cache line */
};
_Static_assert(sizeof(struct abi_sched_fast) == 192, "shared layout");

#endif
