/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/*
 * bpf/abi - the wire between the BPF programs and user space: sizes, layouts, limits.
 * Included by both; only __uN types, explicit padding, every size asserted. Little-endian.
 */
#ifndef PA_ABI_H
#define PA_ABI_H

#include <linux/types.h>

#include "bpf/abi/abi_unwind.h"

/* 512: deepest user stack walked; the verifier needs a constant bound. */
#define ABI_MAX_USER_FRAMES 512
/* 127: kernel.perf_event_max_stack's default. With a lower sysctl bpf_get_stack cuts earlier
 * and reports nothing. */
#define ABI_MAX_KERNEL_FRAMES 127
#define ABI_COMM_LEN          16
/* 24 steps of bisection: 16 M mappings in one process. */
#define ABI_BISECT_STEPS 24
/* Agent threads that are excluded if the rest of their process is not; compared one by one. */
#define ABI_AGENT_TIDS 8

/* ---- frames: one u64 each ------------------------------------------------------------------- */
/*
 *  63 62 | 61    | 60 … 40  | 39 … 0
 *  space | exact | image id | file offset            space = IMAGE
 *  space | exact | address (61 bits)                 space = RAW, ANON
 * A kernel stack is of another kind: its frames are kernel addresses.
 */
#define ABI_FRAME_SPACE_SHIFT 62
#define ABI_FRAME_EXACT       (1ULL << 61)
#define ABI_FRAME_IMAGE_SHIFT 40
#define ABI_IMAGE_MAX         ((1U << 21) - 1)
#define ABI_FRAME_OFF_MASK    ((1ULL << 40) - 1)
#define ABI_FRAME_ADDR_MASK   ((1ULL << 61) - 1)
#define ABI_SPACE_RAW         0ULL
#define ABI_SPACE_ANON        1ULL
#define ABI_SPACE_IMAGE       2ULL

/* ---- why a walk ended (values of enum ev_walk in event/event.h) ------------------------------ */
enum abi_walk {
	ABI_WALK_NONE = 0,
	ABI_WALK_ROOT = 1,
	ABI_WALK_DEPTH = 2,
	ABI_WALK_FAULT = 3,
	ABI_WALK_IMPLAUSIBLE = 4,
	ABI_WALK_NO_REGS = 5,
	ABI_WALK_COMPAT = 6,
	ABI_WALK_BAD_PC = 7,
	ABI_WALK_NO_TABLE = 8,
	ABI_WALK_UNCOVERED = 9,
	ABI_WALK_BAD_RULE = 10,
	ABI_WALK_GONE = 11,
	ABI_WALK_JIT = 12,
	ABI_WALK_LEFT = 13, /* mm released */
};

/* ---- configuration, read-only for the programs, written before load -------------------------- */
#define ABI_TARGET_PID 1 /* per-CPU events, one process */
#define ABI_TARGET_ALL 2 /* per-CPU events, everything but idle */
/* Per-CPU events, processes in the followed map: several, or with their children. */
#define ABI_TARGET_TREE 3

/* Filters of the target's tasks; a task passes if it passes each filter that is set. */
#define ABI_FILTER_TID     1u /* threads in the map tids */
#define ABI_FILTER_COMM    2u /* names in the map comms, patterns in name_sets */
#define ABI_FILTER_CGROUP  4u /* below one of the cgroups of the map cgroups */
#define ABI_FILTER_CGROUPS 64 /* at most; compared one by one */

/* How user stacks are walked. */
#define ABI_UNWIND_FP     0 /* frame pointers only */
#define ABI_UNWIND_TABLES 1
/* For tests and benchmarks: shortcuts that are off, and work that is added. */
#define ABI_WALK_NO_CACHE     1  /* without the shared cache of codes */
#define ABI_WALK_NO_WINDOW    2  /* each word read by itself */
#define ABI_WALK_NO_CPU_CACHE 32 /* without the codes of the previous walk */
#define ABI_WALK_TWICE        4  /* walk once more without shortcuts, and count differences */
#define ABI_WALK_NO_DEFER     8  /* unwind heuristically instead of deferring samples */
#define ABI_WALK_DEFER_ALL    16 /* send every walked sample as a deferred one too, with its hash */

/* x86: where each CPU counts the interrupts that it serves. */
#define ABI_IRQ_COUNT_NONE  0 /* not known */
#define ABI_IRQ_COUNT_PLAIN 1 /* the variable __preempt_count */
#define ABI_IRQ_COUNT_HOT   2 /* its member of the variable pcpu_hot: 6.2 to 6.14 */
/* Placeholder in the programs' code; the loader replaces it by the variable's BTF id. */
#define ABI_IRQ_VARIABLE 0x6972715f76617200LL

struct abi_config {
	__u32 target;          /* ABI_TARGET_* */
	__u32 target_tgid;     /* PID: number in our pid namespace */
	__u32 agent_tgid;      /* our own process, number in our pid namespace */
	__u32 agent_whole;     /* 1: exclude all threads of agent_tgid, 0: those in agent_tids */
	__u32 kernel_stacks;   /* 0, 1 */
	__u32 nested_ns;       /* 1: our pid namespace is not the first; translate numbers */
	__u32 pidns_ino;       /* inode of our pid namespace */
	__u32 ring_wake_bytes; /* wake the reader when this much is in stack_ring */
	__u32 shipped_mask;    /* entries of the cache of shipped stacks - 1 */
	__u32 max_kframes; /* most kernel frames that bpf_get_stack returns: such a stack is cut */
	__u64 hash_seed;   /* random key of the stack hash */
	__u32 unwind;      /* ABI_UNWIND_* */
	__u32 walk_flags;  /* ABI_WALK_NO_CACHE … */
	__u32 deferred_quota;      /* deferred samples for each process and image without a table */
	__u32 deferred_wake_bytes; /* wake the reader when this much is in deferred_ring */
	__u32 follow;              /* TREE: 1: forked children are followed */
	__u32 filters;             /* ABI_FILTER_* */
	__u32 n_cgroups;           /* entries of the map cgroups, 0 … ABI_FILTER_CGROUPS */
	__u32 page_shift;          /* of the page size: 12 for 4 KiB */
	/* Off-CPU (abi_offcpu.h). */
	__u32 offcpu_states; /* bit 1 << state: which are counted */
	__u32 irq_count;     /* ABI_IRQ_COUNT_* */
	__u32 prev_state;    /* 1: sched_switch has the state as its fourth argument (5.18) */
	__u32 cpu_time;      /* 1: on-CPU time of the targets is measured (abi_cpu_time.h) */
	__u64 offcpu_min_ns, offcpu_max_ns; /* blocked time of one interval, inclusive */
	__u64 few_weight; /* threads whose samples weigh less are added to the rest when they end */
	__u32 stream;     /* 1: samples and intervals are sent one by one (struct abi_stream) */
	__u32 n_name_sets; /* entries of the map name_sets, 0 … ABI_NAME_SETS */
};
_Static_assert(sizeof(struct abi_config) == 128, "shared layout");

/* Values of begin_ns. NEVER: the programs do nothing, before the start or after the end. LATER:
 * they follow threads, but count nothing yet. */
#define ABI_BEGIN_NEVER 0
#define ABI_BEGIN_LATER (~0ULL)

/* Written by user space while the programs run (mapped .bss). */
struct abi_control {
	__u64 target_start_ns; /* PID: the target's start, CLOCK_BOOTTIME; 0: not compared */
	__u32 active;          /* 0, 1: which table of counts is written */
	__u32 resolved_tgid;   /* PID, nested: the kernel's number of the target once it was seen */
	__u32 agent_tids[ABI_AGENT_TIDS]; /* numbers in our pid namespace, 0 = none */
	__u32 epoch;   /* stamped on tables that are used; counts up while the capture runs */
	__u32 procs;   /* incremented after each change of the procs and dirty_ranges maps */
	__u32 names;   /* incremented after each change of the threads map (by programs) */
	__u32 threads; /* 1: the task iterator shows every thread, 0: processes */
	__u32 symbolizer_tgid; /* the symbolizer process, in our pid namespace; 0: none */
	__u32 reclaimed;       /* incremented before entries of ranges are reused */
	__u64 watermark_ns;    /* ranges have all mappings made up to this time: CLOCK_MONOTONIC */
	__u64 begin_ns;      /* off-CPU time counts from here on, CLOCK_MONOTONIC; or ABI_BEGIN_* */
	__u32 offcpu_active; /* as active, for the off-CPU count tables */
	__u32 jit_epoch;     /* 0 … 65535: of intervals that begin (abi_offcpu.h) */
	__u64 end_ns;        /* of off-CPU time, CLOCK_MONOTONIC; set before the final task scan */
};
_Static_assert(sizeof(struct abi_control) == 104, "shared layout");

/* ---- process map ----------------------------------------------------------------------------- */

/* One executable mapping; those of one process are adjacent, ascending by start. */
struct abi_range {
	__u64 start, end; /* addresses, end exclusive */
	__u64 pgoff;      /* file offset of start */
	__u32 image;      /* id, 0: anonymous */
	__u32 content;    /* abi_content() of the file, 0: anonymous, or not known */
};
_Static_assert(sizeof(struct abi_range) == 32, "shared layout");

/* Value of the procs map; key: __u32 pid in our pid namespace. */
struct abi_proc {
	__u32 first, cnt; /* ranges[first … first + cnt) */
	__u32 exec_id;    /* low 32 bits of the leader's self_exec_id */
	__u32 flags;      /* ABI_PROC_* */
	__u64 start_ns;   /* leader's start, CLOCK_BOOTTIME; 0: not compared */
};
/* A mapping of this process was replaced, and no program can report dirty ranges: the walk compares
 * each range with the kernel's mapping. */
#define ABI_PROC_VERIFY 1u
_Static_assert(sizeof(struct abi_proc) == 24, "shared layout");

/* Identity of a file's content in 32 bits; another file, or a rewritten one, has another.
 * Never 0. */
static __attribute__((always_inline)) inline __u32 abi_content(__u64 ino, __u64 mtime_s,
                                                               __u64 mtime_ns)
{
	__u64 h = ino * 0x9e3779b97f4a7c15ULL;

	h = ((h ^ (h >> 32)) + mtime_s) * 0xbf58476d1ce4e5b9ULL;
	h = ((h ^ (h >> 29)) + mtime_ns) * 0x94d049bb133111ebULL;
	return (__u32)(h >> 32) | 1;
}

/* Dirty ranges: mappings reported by the kernel whose side-band record user space has not processed
 * yet. */
#define ABI_DIRTY_RANGES 8
struct abi_dirty_range {
	__u64 start, end; /* addresses, end exclusive */
	__u64 time_ns;    /* CLOCK_MONOTONIC, after its record; the range is dirty while this is
	                   * later than abi_control.watermark_ns, and never if 0 */
};
/* Value of the dirty_ranges map; key: that of the procs map. The programs write it, user space
 * deletes it. */
struct abi_dirty_ranges {
	__u64 start_ns; /* leader's start, CLOCK_BOOTTIME */
	__u32 exec_id;  /* low 32 bits of the leader's self_exec_id */
	__u32 pad;
	struct abi_dirty_range m[ABI_DIRTY_RANGES];
};
_Static_assert(sizeof(struct abi_dirty_ranges) == 16 + 24 * ABI_DIRTY_RANGES, "shared layout");

/* ---- counts ---------------------------------------------------------------------------------- */
/* FOREIGN_NS: the numbers are the kernel's, the task is outside our pid namespace. */
#define ABI_KEY_FOREIGN_NS 1u
#define ABI_KEY_KTHREAD    2u
/* Deferred samples only: the registers are those of a system call, whose instruction ends before
 * pc. */
#define ABI_KEY_IN_SYSCALL 4u

struct abi_count_key {
	__u64 ustack, kstack; /* hashes, 0 = none */
	__u64 cgroup_id;
	__u64 start_ns; /* leader's start, CLOCK_BOOTTIME */
	__u32 tgid, tid;
	__u32 exec_id;
	__u32 flags; /* ABI_KEY_* */
};
_Static_assert(sizeof(struct abi_count_key) == 48, "shared layout");

struct abi_count {
	__u64 samples, weight;
};
_Static_assert(sizeof(struct abi_count) == 16, "shared layout");

struct abi_thread_key {
	__u64 start_ns;
	__u32 tgid, tid;
	__u32 exec_id;
	__u32 flags; /* ABI_KEY_* */
};
_Static_assert(sizeof(struct abi_thread_key) == 24, "shared layout");

struct abi_thread {
	char comm[ABI_COMM_LEN];
};
_Static_assert(sizeof(struct abi_thread) == 16, "shared layout");

/* ---- ring: stacks ---------------------------------------------------------------------------- */
#define ABI_STACK_USER   1
#define ABI_STACK_KERNEL 2
#define ABI_STACK_WAKER  3 /* no stack: the waker of a thread, see abi_offcpu.h */
#define ABI_STACK_STREAM 4 /* no stack: struct abi_stream */

/* Followed by n frames of 8 bytes. */
struct abi_stack {
	__u64 hash; /* != 0 */
	__u16 kind; /* ABI_STACK_* */
	__u8 walk;  /* enum abi_walk */
	__u8 flags; /* ABI_STACK_HEURISTIC, ABI_STACK_JIT */
	__u32 n;
};
_Static_assert(sizeof(struct abi_stack) == 16, "shared layout");

/* A new user stack and the sample that met it. The sample is in no count table: many programs meet
 * most of their stacks once. The struct abi_stack follows. */
struct abi_stack_sample {
	__u64 zero; /* in the place of the hash of a struct abi_stack, which is never 0 */
	struct abi_count_key key;
	struct abi_count count;
};
_Static_assert(sizeof(struct abi_stack_sample) == 72, "shared layout");

/* One sample, or one off-CPU interval that has ended, with abi_config.stream. It is in no count
 * table. head.n: the words that follow the head. */
struct abi_stream {
	struct abi_stack head;    /* kind ABI_STACK_STREAM, hash 1 */
	struct abi_count_key key; /* of an interval: with a state and an epoch in its flags */
	__u64 time_ns;            /* CLOCK_MONOTONIC; of an interval: when the thread ran again */
	__u64 weight;             /* of an interval: blocked time */
	__u64 runq_ns, waker;     /* of an interval, as in abi_offcpu_count and abi_offcpu_key */
	__u32 cpu;                /* of an interval: where the thread ran again */
	__u32 pad;
};
_Static_assert(sizeof(struct abi_stream) == 104, "shared layout");
#define ABI_STREAM_WORDS ((sizeof(struct abi_stream) - sizeof(struct abi_stack)) / 8)

/* Flags of a user stack: it has a heuristic frame; it has a frame in JIT code, which is walked by
 * frame pointer and is no heuristic frame for that. */
#define ABI_STACK_HEURISTIC 1u
#define ABI_STACK_JIT       2u

/* ---- ring: deferred samples ------------------------------------------------------------------ */
/* The stack snapshot: 16 KiB. It begins with the step that holds the byte 256 below the stack
 * pointer: rules in an epilogue still name registers that it has popped. It is read in aligned
 * steps, since a read that touches an absent page fails as a whole. A page that was never touched,
 * as in the middle of a large array, is a hole. */
#define ABI_DEFERRED_BYTES 16384u
#define ABI_DEFERRED_STEP  2048u
#define ABI_DEFERRED_BELOW 256u

/* A sample whose walk met an image without a table: registers, then len bytes of stack. It is in no
 * count table; user space unwinds and counts it. With ABI_WALK_DEFER_ALL the kernel's walk is
 * counted, key.ustack is its hash, and user space only compares. */
struct abi_deferred {
	struct abi_count_key key; /* ustack 0 */
	struct abi_count count;
	__u64 time_ns; /* CLOCK_MONOTONIC */
	__u64 pc;
	__u64 reg[ABI_REGS];
	__u64 placeholder; /* 0, else the stack id under which it is counted (off-CPU) */
	__u64 heuristic;   /* hash of the heuristic stack of the same instant, which is sent as any
	                  * other; 0: it reached neither its root nor the limit */
	__u64 addr;        /* of the first byte of the snapshot, a multiple of ABI_DEFERRED_STEP */
	__u32 len;         /* bytes, a multiple of ABI_DEFERRED_STEP; 0: none could be read */
	__u32 image;       /* the first one without a table; 0 with ABI_WALK_DEFER_ALL */
	__u32 holes;       /* bit by step: it could not be read */
	__u32 kernel_tid;  /* of the thread, in the first pid namespace */
	__u32 cpu;         /* with abi_config.stream: number of the CPU + 1; else 0 */
	__u32 pad;
};
_Static_assert(sizeof(struct abi_deferred) == 128 + 8 * ABI_REGS, "shared layout");

/* ---- counters -------------------------------------------------------------------------------- */
enum abi_counter {
#define X(id, name, unit, kind, help) ABI_CNT_##id,
#include "counters.def"
#undef X
	ABI_CNT_MAX
};
struct abi_counters {
	__u64 v[ABI_CNT_MAX];
};

/* ---- task iterator: one per process (or thread), read as bytes ------------------------------- */
struct abi_task {
	__u32 tgid; /* in our pid namespace */
	__u32 exec_id;
	__u64 start_ns; /* CLOCK_BOOTTIME; a thread's own */
	__u32 flags;    /* ABI_KEY_KTHREAD */
	__u32 kernel_tgid;
	char comm[ABI_COMM_LEN];
	__u32 tid; /* in our pid namespace */
	__u32 kernel_tid;
	__u32 kernel_ppid; /* of its parent now */
	__u32 pad;
};
_Static_assert(sizeof(struct abi_task) == 56, "shared layout");

#include "bpf/abi/abi_cpu_time.h"
#include "bpf/abi/abi_names.h"
#include "bpf/abi/abi_offcpu.h"
#include "bpf/abi/abi_sched.h"

#endif
