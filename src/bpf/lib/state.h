/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/* What programs that walk stacks share: working memory of a sample, maps. */
#ifndef PA_BPF_STATE_H
#define PA_BPF_STATE_H

#include "bpf/lib/config.h"

/* Memory of the step, before its text is included. */
struct scratch;
static __attribute__((always_inline)) inline int read_word(struct scratch *s, __u64 *ret,
                                                           __u64 addr);
static __attribute__((always_inline)) inline int read_code(__u64 *ret, __u64 addr);
int read_far(__u64 addr);
int is_code(__u64 addr, __u32 sure);
int walk_rule(__u32 id);
int walk_wide(__u32 i);
int walk_column(__u32 i, __u32 col);
int walk_expr(__u32 i);
int walk_op(__u32 ip);

/* Sizes of the maps with one entry are set before load. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct abi_range);
} ranges SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct abi_image);
} images SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, ABI_RULES_MAX);
	__type(key, __u32);
	__type(value, struct abi_rule);
} rules SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, ABI_WIDES_MAX);
	__type(key, __u32);
	__type(value, struct abi_wide);
} wides SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, ABI_OPS_MAX);
	__type(key, __u32);
	__type(value, struct abi_op);
} ops SEC(".maps");

struct words {
	__u32 w[ABI_VALUE_WORDS];
};
/* The word space. User space fills it with segments of this shape. */
struct segment {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, ABI_SEGMENT_WORDS / ABI_VALUE_WORDS);
	__uint(key_size, sizeof(__u32));
	__uint(value_size, sizeof(struct words)); /* a type here stays a declaration in BTF */
};
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY_OF_MAPS);
	__uint(max_entries, ABI_SEGMENTS_MAX);
	__type(key, __u32);
	__array(values, struct segment);
} segments SEC(".maps");

/* (table, offset) -> code, shared by all processes; see abi_unwind.h. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, ABI_CACHE_ENTRIES);
	__type(key, __u32);
	__type(value, __u64);
} pc_cache SEC(".maps");

/* Copies made for a process and an image: upper half the tag, lower half the number. A collision
 * gives both new ones. */
#define QUOTA_ENTRIES 4096
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, QUOTA_ENTRIES);
	__type(key, __u32);
	__type(value, __u64);
} quotas SEC(".maps");

/* Not preallocated: a preallocated element is handed to another process while a reader still looks
 * at it. Kernels before 6.1 refuse that for perf_event programs; the loader then clears the flag,
 * and the walk copies and compares what it reads. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct abi_proc);
} procs SEC(".maps");

/* What was mapped since the ranges of a process were written. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct abi_marks);
} marks SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, 1);
	__type(key, struct abi_thread_key);
	__type(value, struct abi_thread);
} threads SEC(".maps");

/* Hashes of stacks that the ring took, direct-mapped in pairs. A collision only ships a stack
 * again. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u64);
} shipped SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 4096);
} ring SEC(".maps");

/* First samples: registers and stacks. */
struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 4096);
} copies SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct abi_counters);
} counters SEC(".maps");

#define CNT_ADD(c, id, n) ((c)->v[ABI_CNT_##id] += (n))

#define UW_MEM                       struct scratch
#define UW_READ(mem, ret, addr)      read_word(mem, ret, addr)
#define UW_READ_CODE(mem, ret, addr) read_code(ret, addr)
#define UW_IS_CODE(mem, addr, sure)  is_code(addr, sure)
#define UW_LOOKUP(map, i)                                                                          \
	({                                                                                         \
		__u32 key_ = (i);                                                                  \
		bpf_map_lookup_elem(&(map), &key_);                                                \
	})
#define UW_RULE(mem, i) ((const struct abi_rule *)UW_LOOKUP(rules, i))
#define UW_WIDE(mem, i) ((const struct abi_wide *)UW_LOOKUP(wides, i))
#define UW_OP(mem, i)   ((const struct abi_op *)UW_LOOKUP(ops, i))
/* Functions that the verifier looks at once; each finds its state by itself. */
#define UW_SPLIT
#define UW_DO_FRAME(u, mem, id)      walk_rule(id)
#define UW_DO_WIDE(u, mem, i)        walk_wide(i)
#define UW_DO_COLUMN(u, mem, i, col) walk_column(i, col)
#define UW_DO_EXPR(u, mem, i)        walk_expr(i)
#define UW_DO_OP(u, mem)             walk_op((u)->ip)
#include "unwind/unwind_step.h"

/* A page: a read never crosses one, since one absent page fails it whole. */
#define WINDOW_SIZE 4096

#define LINE_SIZE 64

/* A mapping, in the terms of the ranges. */
struct mapped {
	__u64 start, end;
	__u64 base;    /* address of file offset 0 */
	__u32 content; /* 0: anonymous */
	__u32 pad;
};

#define PLAIN_CACHE  1 /* without the shared cache */
#define PLAIN_WINDOW 2 /* each word read by itself */
#define PLAIN_MEMO   4 /* without the memo */

/* The memo: codes of the walk before, on this CPU. Most frames of a thread's next sample are the
 * same and stand in the same order, so that a few neighbouring lines take the place of one line of
 * the shared cache a frame. An entry says for itself what it is about (serial and offset are those
 * of the cache), so that a memo of another thread is only of no use. Deeper frames are not in it.
 */
#define MEMO_FRAMES 128
#define MEMO_SKIP   16 /* frames of the walk before that are passed over at one frame */
struct memo_frame {
	__u64 key;     /* serial << 32 | offset */
	__u64 sp_code; /* stack pointer << 16 | code */
};
struct memo {
	struct memo_frame f[2][MEMO_FRAMES];
	__u32 n[2];
	__u32 now; /* the half that is written */
	__u32 at;  /* in the other half: what comes next */
};

#ifdef WALK_NOTES_READS
/* The words that a walk read: the near ones from the front, those a page and more above the stack
 * pointer from the back. */
#define UMEMO_WORDS 64
struct reads {
	__u64 sp;              /* of the leaf */
	__u64 sum;             /* of hashes of the words and their places */
	__u64 odd;             /* non-zero: some have no place in at: below sp, or 512 KiB above */
	__u32 near, far;       /* more than UMEMO_WORDS together: not all of them are there */
	__u32 len;             /* bytes from sp to behind the last of the near ones */
	__u32 unsure;          /* 1: the walk depended on something else besides */
	__u16 at[UMEMO_WORDS]; /* in words from sp */
};
#endif

/* Working memory of one sample. A map value, since it is far beyond the 512 bytes of a BPF stack.
 */
struct scratch {
	struct abi_count_key key;
	struct abi_thread_key tkey;
	struct abi_thread thread;
	struct abi_count count;
	__u64 kmemo_top;  /* an address, where it becomes a number */
	__u32 kmemo_next; /* places so far */
	__u32 kmemo_frames;
	__u64 kmemo_found; /* bit by frame: it has a place */
	__u64 promise; /* off-CPU: name of the stack if it is copied; its stacks carry no sample */

	/* Remembered from the sample before on this CPU, while ctl.procs and ctl.names say so. */
	struct abi_proc proc; /* cnt 0: there was none */
	__u32 proc_tgid, proc_seen;
	struct abi_mark marks[ABI_MARKS]; /* of it */
	__u64 marked_ns;                  /* the last of them; 0: there are none */
	struct abi_thread_key known_tkey;
	struct abi_thread known;
	__u32 names_seen;

	/* The walk. */
	__u64 hash;
	__u32 n_raw, n_jit, n_hit, n_miss, n_memo;
	__u32 plain;    /* PLAIN_* */
	__u32 may_copy; /* 1: a missing table ends the walk, if a copy may be made */
	__u32 missing;  /* 1: a table was missing; 2: and the walk ended for a copy */
	__u32 missing_image;
	__u32 copy_wake; /* 1: the reader is woken for this copy */
	__u32 in_marked; /* 1: a frame lies where something was just mapped */
	__u32 compat, in_syscall, gone;
	__u32 range_first, range_cnt; /* of this process; cnt 0: not known */
	struct abi_range range;       /* the one that was found last */
	__u64 word;                   /* of read_far */
	__u32 verify;                 /* 1: ranges are compared with what is mapped */
	struct mapped area;           /* of find_area */
	__u64 pivots[MAPLE_RANGE_SLOTS - 1];
	__u32 at_start; /* at_root: 1: a rule begins at pc */
	__u64 find_key; /* of the memo: what was looked for; 0: nothing */
#ifdef WALK_NOTES_READS
	struct reads reads;
	struct {
		__u64 place, ranges; /* of the stack in work */
		__u64 hit;           /* 0: it is not known */
		__u32 slot, ready;   /* ready 0: it is not to be known */
	} umemo;
#endif
	__u64 window_base; /* address of window[0], a multiple of LINE_SIZE */
	__u32 window_len;  /* valid bytes */
	struct uw_state u;

	/* What is shipped: the sample, header and frames stand together. */
	struct abi_first first;
	struct abi_stack ustack;
	__u64 uframes[ABI_MAX_USER_FRAMES];

	__u8 window[WINDOW_SIZE];
	struct memo memo;

	user_regs_t regs;
	struct abi_stack kstack;
	__u64 kframes[ABI_MAX_KERNEL_FRAMES + 1];

	/* A first sample: header and bytes stand together. */
	struct abi_copy copy;
	__u8 copy_bytes[ABI_COPY_BYTES];
};
_Static_assert(
        __builtin_offsetof(struct scratch, ustack) ==
                        __builtin_offsetof(struct scratch, first) + sizeof(struct abi_first) &&
                __builtin_offsetof(struct scratch, uframes) ==
                        __builtin_offsetof(struct scratch, ustack) + sizeof(struct abi_stack) &&
                __builtin_offsetof(struct scratch, kframes) ==
                        __builtin_offsetof(struct scratch, kstack) + sizeof(struct abi_stack),
        "what is shipped stands together");
_Static_assert(sizeof(struct scratch) <= 32768, "a per-CPU array value is at most 32 KiB");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct scratch);
} scratch SEC(".maps");

static __always_inline struct scratch *get_scratch(void)
{
	__u32 zero = 0;

	return bpf_map_lookup_elem(&scratch, &zero);
}

#endif
