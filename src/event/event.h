/* SPDX-License-Identifier: Apache-2.0 */
/*
 * event - plain value types that cross modules, with the names of their values.
 */
#ifndef PA_EVENT_H
#define PA_EVENT_H

#include "base/base.h"

#define EV_COMM_LEN     16 /* TASK_COMM_LEN of the kernel, with its NUL */
#define EV_BUILD_ID_MAX 20

/* ---- frames --------------------------------------------------------------------------------- */

/* Address space of a frame. */
enum ev_space {
	EV_SPACE_RAW = 0,    /* user address in its process; the kernel side knew no mapping */
	EV_SPACE_ANON = 1,   /* user address in an anonymous executable mapping: JIT code */
	EV_SPACE_IMAGE = 2,  /* file offset in an image */
	EV_SPACE_KERNEL = 3, /* kernel address */
	EV_SPACE_MOVED = 4,  /* user address at which several contents were mapped in turn: the one
	                     * of the sample is not known. Never from the kernel side */
};

/* One frame. Leaf first in every array of frames. */
struct ev_frame {
	uint64_t addr;  /* file offset (IMAGE) or address (others) */
	uint32_t image; /* image id (IMAGE), else 0 */
	uint8_t space;  /* enum ev_space */
	uint8_t exact;  /* 1: addr is the instruction itself (leaf, above a signal frame);
	                 * 0: a return address, to be looked up at addr - 1 */
	uint16_t pad;   /* 0: frames are hashed as bytes */
};
_Static_assert(sizeof(struct ev_frame) == 16, "frames are hashed as bytes");

/* Why a walk ended. Values are those of ABI_WALK_* (bpf/abi); append only. */
#define EV_WALKS(X)                                                                                \
	X(NONE, 0, "no walk", "no user stack was asked for or there is none (kernel thread)")      \
	X(ROOT, 1, "root reached", "the outermost frame was reached")                              \
	X(DEPTH, 2, "depth limit",                                                                 \
	  "more frames than the limit: the stack is cut at its root side")                         \
	X(FAULT, 3, "read fault", "the next frame could not be read from the stack")               \
	X(IMPLAUSIBLE, 4, "implausible frame",                                                     \
	  "the frame pointer did not point up the stack, as in code built without frame pointers") \
	X(NO_REGS, 5, "no registers", "the task's user registers could not be read")               \
	X(COMPAT, 6, "32-bit task",                                                                \
	  "32-bit code is walked by frame pointers alone, and here they led nowhere")              \
	X(BAD_PC, 7, "bad return address", "the return address is not a user address")             \
	X(NO_TABLE, 8, "no table yet", "the unwind table of a file was not there yet")             \
	X(UNCOVERED, 9, "no rule", "no call-frame information, and no heuristic frame fitted")     \
	X(BAD_RULE, 10, "bad rule", "call-frame information that is damaged or not understood")    \
	X(GONE, 11, "process gone",                                                                \
	  "the process had ended, or executed another program, before its deferred stack was "     \
	  "unwound")                                                                               \
	X(JIT, 12, "JIT code", "JIT code without frame pointers")                                  \
	X(LEFT, 13, "mm released",                                                                 \
	  "the task was exiting or executing another program and had no user stack any more")
/* Outcomes that only user space gives; not in the ABI. */
#define EV_WALKS_USER(X)                                                                           \
	X(FOREIGN, 14, "other pid namespace",                                                      \
	  "the process is outside of our pid namespace: its mappings cannot be read")              \
	X(RESUMED, 15, "interval ended",                                                           \
	  "the interval ended while the stack of the thread was read")                             \
	X(DENIED, 16, "process not readable", "the mappings of the process may not be read")
enum ev_walk {
#define X(id, val, name, help) EV_WALK_##id = (val),
	EV_WALKS(X) EV_WALK_KERNEL_CNT, /* below it: what the kernel side may say */
	EV_WALKS_USER(X)
#undef X
	        EV_WALK_CNT
};
/**
 * ev_walk_name - short text of an outcome, "depth limit"; "unknown" for numbers without one
 */
const char *ev_walk_name(enum ev_walk w);

/* Why a frame has no name. EV_NAMED first; append only (its text is in profiles). */
#define EV_REASONS(X)                                                                              \
	X(NAMED, "named")                                                                          \
	X(NO_MAPPING, "no mapping")                                                                \
	X(NO_FILE, "file not readable")                                                            \
	X(FILE_REPLACED, "file replaced on disk")                                                  \
	X(NOT_ELF, "not an ELF file")                                                              \
	X(BAD_ELF, "damaged ELF file")                                                             \
	X(NO_SYMTAB, "no symbol table")                                                            \
	X(NO_SYMBOL, "no symbol covers the address")                                               \
	X(JIT, "JIT code without names")                                                           \
	X(KALLSYMS_HIDDEN, "kernel addresses hidden")                                              \
	X(NO_KALLSYMS, "no kernel symbols")                                                        \
	X(NO_MEMORY, "out of memory or over a limit")                                              \
	X(NOT_PERMITTED, "process not readable")                                                   \
	X(GIVEN_UP, "reading the file was given up")                                               \
	X(MOVED, "mapping replaced meanwhile")                                                     \
	X(LATE, "not symbolized in time")
enum ev_reason {
#define X(id, name) EV_REASON_##id,
	EV_REASONS(X)
#undef X
	        EV_REASON_CNT
};
/**
 * ev_reason_name - text of a reason, "no mapping"; "unknown" for numbers without one
 */
const char *ev_reason_name(enum ev_reason r);

/* ---- images and mappings -------------------------------------------------------------------- */

/* A file: device and inode, as in /proc/PID/maps and MMAP2 records. */
struct ev_file_id {
	uint32_t dev_major, dev_minor;
	uint64_t ino;
};

enum ev_map_kind {
	EV_MAP_FILE = 1,
	EV_MAP_ANON = 2, /* memory without a file: JIT code, //anon, [heap], /dev/zero, SysV shm */
	EV_MAP_VDSO = 3,
	EV_MAP_OTHER = 4, /* [vsyscall], [uprobes] and other special names */
};

/* One executable mapping of one process. */
struct ev_mapping {
	uint64_t start, end; /* addresses, end exclusive */
	uint64_t pgoff;      /* file offset of start, bytes */
	struct ev_file_id file;
	uint8_t kind;     /* enum ev_map_kind */
	uint8_t exec;     /* 1: PROT_EXEC */
	uint8_t deleted;  /* 1: " (deleted)" followed the path (stripped from it) */
	const char *path; /* borrowed: valid during the call-back; may contain blanks; "" if none */
};

/**
 * ev_map_kind_of - kind of a mapping
 * @path: as /proc/PID/maps and MMAP2 records write it, with or without " (deleted)"; "" for none
 * @file: its device and inode there, zeroes where none are given
 * Returns: the kind; OTHER for unknown names that do not start with '/'. A memfd is a FILE: it has
 * an inode, and its content can be read back.
 */
enum ev_map_kind ev_map_kind_of(const char *path, const struct ev_file_id *file);

/* ---- process events (side-band) ------------------------------------------------------------- */

enum ev_proc_type {
	EV_PROC_MMAP = 1,
	EV_PROC_COMM,
	EV_PROC_FORK,
	EV_PROC_EXIT,
	EV_PROC_LOST,    /* records were lost: the state of processes may be stale */
	EV_PROC_KSYMBOL, /* kernel code was loaded or unloaded; belongs to no process */
};

/* Kernel code without a symbol of the kernel's image or a module: a BPF program, a trampoline, or a
 * page of probes. */
struct ev_ksymbol {
	uint64_t start;
	uint32_t len;     /* bytes, > 0 */
	bool bpf;         /* a program or trampoline of BPF; else "out of line": probes, ftrace */
	bool gone;        /* it was unloaded */
	const char *name; /* borrowed: valid during the call-back; NULL if none */
};

/* Numbers are those of our pid namespace; 0 or -1 (as u32) for tasks outside it. */
struct ev_proc {
	enum ev_proc_type type;
	uint32_t pid, tid;      /* process (thread group), thread */
	uint32_t ppid, ptid;    /* FORK: the parent's */
	uint64_t time_ns;       /* CLOCK_MONOTONIC */
	bool exec;              /* COMM: the name change of an exec */
	uint64_t lost;          /* LOST: number of records */
	struct ev_mapping map;  /* MMAP */
	char comm[EV_COMM_LEN]; /* COMM */
	struct ev_ksymbol ksym; /* KSYMBOL */
};

/* ---- samples -------------------------------------------------------------------------------- */

/* Identity of a process: a pid and the program that it ran at the time. */
struct ev_proc_id {
	uint32_t pid;      /* in our pid namespace, or the kernel's number when .foreign_ns */
	uint32_t exec_id;  /* number of its execs, the kernel's own count (low 32 bits) */
	uint64_t start_ns; /* CLOCK_BOOTTIME start of the thread group leader */
};

/* Why a thread was off-CPU. Values are those of ABI_OFFCPU_* (bpf/abi). */
#define EV_OFFCPUS(X)                                                                              \
	X(NONE, 0, "running")                                                                      \
	X(INTERRUPTIBLE, 1, "interruptible")                                                       \
	X(UNINTERRUPTIBLE, 2, "uninterruptible")                                                   \
	X(IOWAIT, 3, "iowait")                                                                     \
	X(STOPPED, 4, "stopped")                                                                   \
	X(PREEMPTED, 5, "preempted")                                                               \
	X(IDLE, 6, "idle")
enum ev_offcpu {
#define X(id, val, name) EV_OFFCPU_##id = (val),
	EV_OFFCPUS(X)
#undef X
	        EV_OFFCPU_CNT
};
/**
 * ev_offcpu_name - word of a state, as in labels and options; "unknown" for numbers without one
 */
const char *ev_offcpu_name(enum ev_offcpu o);

/* Samples, or off-CPU intervals, of one thread with one pair of stacks. */
struct ev_count {
	struct ev_proc_id proc;
	uint32_t tid;
	uint8_t foreign_ns;      /* 1: the task has no number in our pid namespace */
	uint8_t kthread;         /* 1: kernel thread */
	uint16_t epoch;          /* of JIT code; 0 if the stack has none */
	uint64_t ustack, kstack; /* stack hashes, 0 = none */
	uint64_t cgroup_id;      /* cgroup v2 id, 0 unknown */
	uint64_t samples;        /* count; 0: only reports whose stack it is */
	uint64_t weight;         /* ns (cpu-clock, off-CPU) or events (hardware) */
	/* Off-CPU intervals only, else 0. */
	uint8_t offcpu;      /* enum ev_offcpu */
	uint64_t waker;      /* hash of an ev_waker; 0: not known */
	uint64_t longest_ns; /* longest interval */
	uint64_t runq_ns;    /* run-queue time: from wake-up to running, summed */
	/* A single sample, or interval, whose time is known; else 0. */
	uint64_t time_ns; /* CLOCK_MONOTONIC; of an interval: when the thread ran again */
	uint32_t cpu;     /* of time_ns; of an interval that is still open: where it began */
};

/* The waker of a thread; delivered at least once, before or after its first count. */
struct ev_waker {
	uint64_t hash; /* != 0 */
	struct ev_proc_id proc;
	uint32_t tid; /* 0: no thread, an interrupt */
	uint8_t foreign_ns, kthread;
	uint64_t ustack, kstack; /* 0 = none */
	char comm[EV_COMM_LEN];
};

/* Flags of a user stack; values are those of ABI_STACK_* (bpf/abi). */
#define EV_STACK_HEURISTIC 1 /* has a heuristic frame: a step without a rule found its caller */
#define EV_STACK_JIT       2 /* has frames in JIT code, walked by frame pointer */

/* A stack, delivered at least once before or after its first count. */
struct ev_stack {
	uint64_t hash; /* != 0 */
	bool kernel;
	uint8_t walk;  /* enum ev_walk */
	uint8_t flags; /* EV_STACK_* */
	uint32_t n;
	const struct ev_frame *frames; /* frames[n], leaf first; borrowed during the call */
};

/* A deferred sample: registers and stack snapshot of a thread in code whose unwind table did not
 * exist yet. User space unwinds it, then counts it. */
#define EV_DEFERRED_REGS 32   /* room for the registers of every processor, by DWARF number */
#define EV_DEFERRED_STEP 2048 /* bytes that were read at once */
struct ev_deferred {
	/* ustack 0; else (tests) the hash of the kernel's walk at the same instant. */
	struct ev_count count;
	uint64_t time_ns; /* CLOCK_MONOTONIC */
	uint64_t pc, reg[EV_DEFERRED_REGS];
	uint64_t placeholder; /* not 0: only the stack is wanted, with this hash; counts nothing */
	uint64_t heuristic;   /* hash of a heuristic stack of the same instant; 0: none */
	uint64_t addr;        /* of bytes[0] in the thread's memory */
	uint32_t len;         /* bytes[len] */
	uint32_t holes;       /* bit i: piece i of EV_DEFERRED_STEP bytes was not read */
	uint32_t image;       /* the first image that had no table */
	uint32_t kernel_tid;  /* in the first pid namespace; 0: not known */
	bool in_syscall;      /* pc is after the instruction of a system call */
	const uint8_t *bytes; /* borrowed during the call */
};
/**
 * ev_deferred_word - read 8 bytes of a stack snapshot
 * Returns: 0, -EFAULT (outside of the snapshot, or in a hole).
 */
int ev_deferred_word(const struct ev_deferred *c, uint64_t addr, uint64_t *ret);

/* The name of a sampled thread. */
struct ev_thread {
	struct ev_proc_id proc;
	uint32_t tid;
	uint8_t foreign_ns, kthread;
	char comm[EV_COMM_LEN];
};

/* A source file as text. */
struct ev_source {
	const char *path; /* the file that was read */
	const char *text; /* text[len] */
	size_t len;
	int64_t changed_realtime_ns; /* last modification */
};

/* An address of code in an ELF file. */
struct ev_site {
	uint64_t addr;       /* virtual address, as the file has it */
	uint64_t start, end; /* of the symbol that contains it; end 0: none does */
	const char *symbol;  /* demangled; NULL: none */
};

/* One line of a disassembly. */
struct ev_instruction {
	uint64_t addr;
	const char *text;
};

#endif
