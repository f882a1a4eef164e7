/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/* Per-CPU working memory of one sample, and the hooks of step.h into it. */
#ifndef PA_BPF_SCRATCH_H
#define PA_BPF_SCRATCH_H

#include "bpf/lib/maps.h"

/* ---- hooks of step.h ------------------------------------------------------------------ */

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
/* Global functions, which the verifier checks once; each looks up the scratch by itself. */
#define UW_SPLIT
#define UW_DO_FRAME(u, mem, id)      walk_rule(id)
#define UW_DO_WIDE(u, mem, i)        walk_wide(i)
#define UW_DO_COLUMN(u, mem, i, col) walk_column(i, col)
#define UW_DO_EXPR(u, mem, i)        walk_expr(i)
#define UW_DO_OP(u, mem)             walk_op((u)->ip)
#include "step/step.h"

/* ---- parts ----------------------------------------------------------------------------------- */

/* A page: a read never crosses one, since one absent page fails it whole. */
#define WINDOW_SIZE 4096
#define LINE_SIZE   64

/* A mapping of the kernel, in the terms of struct abi_range. */
struct mapping {
	__u64 start, end;
	__u64 base;    /* address of file offset 0 */
	__u32 content; /* abi_content() of the file; 0: anonymous */
	__u32 pad;
};

/* Bits of scratch.plain: what a walk does without. */
#define PLAIN_CACHE      1 /* the shared cache of codes */
#define PLAIN_WINDOW     2 /* the window: each word is read by itself */
#define PLAIN_WALK_CACHE 4 /* the codes of the previous walk */

/*
 * Codes of the previous walk on this CPU. Most frames of a thread's next sample are the same, in
 * the same order: a few adjacent cache lines replace one line of the shared cache a frame. An entry
 * holds its whole key, so that entries of another thread never match. Deeper frames are not cached.
 */
#define WALK_CACHE_FRAMES 128
#define WALK_CACHE_SKIP   16 /* frames of the previous walk that are skipped for one frame */
struct walk_cache_frame {
	__u64 key;     /* table serial << 32 | offset */
	__u64 sp_code; /* stack pointer << 16 | code */
};
struct walk_cache {
	struct walk_cache_frame f[2][WALK_CACHE_FRAMES];
	__u32 n[2];
	__u32 now; /* half that is written; the other one is of the previous walk */
	__u32 at;  /* next frame in the other half */
};

/* Identity of a thread, and its name. */
struct name_work {
	struct abi_thread_key key;
	struct abi_thread thread;
};

/* kstack_cache.h: the entry in work. */
struct kcache_work {
	__u64 top;    /* an address, stored so that the verifier takes it for a number */
	__u32 next;   /* words recorded so far */
	__u32 frames; /* frames whose words are looked for */
	__u64 found;  /* bit by frame: its return address was found */
};

/* Map entries that the previous sample on this CPU looked up. */
struct last_lookups {
	struct abi_proc proc;      /* cnt 0: the process has no entry */
	__u32 tgid, procs_version; /* proc is valid while ctl.procs equals it */
	struct abi_dirty_range dirty[ABI_DIRTY_RANGES]; /* of that process */
	__u64 dirty_ns;                                 /* newest time in dirty; 0: none */
	struct abi_thread_key name_key;
	struct abi_thread thread;
	__u32 names_version; /* name_key and thread are valid while ctl.names equals it */
};

/* Statistics of a walk. */
struct walk_counts {
	__u32 raw, jit;              /* frames */
	__u32 hit, miss, walk_cache; /* look-ups of codes */
};

/* Whether the walk ends for a deferred sample. */
struct defer_work {
	__u32 allowed; /* 1: a missing table may end the walk */
	__u32 missing; /* 1: a table was missing; 2: and the walk ended for it */
	__u32 image;   /* the first one without a table */
	__u32 wake;    /* 1: the deferred sample wakes the drain thread */
};

/* The task whose user stack is walked. */
struct task_work {
	__u32 compat;      /* 1: 32-bit code */
	__u32 in_syscall;  /* 1: pc is after a system call instruction; 2: by the registers alone */
	__u32 mm_released; /* 1: its memory is released: exiting, or in execve */
};

/* The ranges of the process; cnt 0: unknown. */
struct range_work {
	__u32 first, cnt;
	struct abi_range found; /* by find_range, last */
};

/* vma.h: comparison of ranges with the kernel's mappings. */
struct verify_work {
	__u32 on;
	struct mapping vma; /* of find_vma */
	__u64 pivots[MAPLE_RANGE_SLOTS - 1];
};

/* The look-up of one code. */
struct find_work {
	__u32 at_start; /* set by at_root: 1: a rule begins at pc */
	__u64 key;      /* as in struct walk_cache_frame; 0: nothing was looked up */
};

/* Source of window[]. */
struct window_work {
	__u64 base; /* address of window[0], a multiple of LINE_SIZE */
	__u32 len;  /* valid bytes */
};

/* A kernel stack as it is sent. */
struct kernel_work {
	struct abi_stack head;
	__u64 frames[ABI_MAX_KERNEL_FRAMES + 1];
};

#ifdef WALK_RECORDS_READS
#define UCACHE_WORDS 64
/*
 * Words that a walk read, for ustack_cache.h. at[] holds near words from its front, and far words,
 * which are a page or more above the stack pointer, from its back.
 */
struct reads {
	__u64 sp;        /* of the leaf */
	__u64 sum;       /* of hashes of the words and their offsets */
	__u64 odd;       /* non-zero: an offset does not fit at[]: below sp, or 512 KiB above */
	__u32 near, far; /* more than UCACHE_WORDS together: at[] is incomplete */
	__u32 len;       /* bytes from sp to the end of the last near word */
	__u32 other;     /* 1: the walk also depended on code or on heuristics */
	__u16 at[UCACHE_WORDS]; /* offsets from sp in words */
};

/* ustack_cache.h: the entry in work. */
struct ucache_work {
	__u64 place, ranges; /* key of the stack, and of the ranges it is walked by */
	__u64 hit;           /* hash of the cached stack; 0: a miss */
	__u32 slot, ready;   /* ready 0: the stack cannot be cached */
};
#endif

/* ---- the whole ------------------------------------------------------------------------------- */

/* Working memory of one sample: a map value, since a BPF stack has 512 bytes. */
struct scratch {
	struct abi_count_key key;
	struct name_work name;
	struct abi_count count;
	struct kcache_work kcache;
	__u64 placeholder; /* off-CPU: stack id of a deferred stack; 0: on-CPU sample */
	struct last_lookups last;

	/* The walk. */
	__u64 hash;
	struct walk_counts n;
	__u32 plain; /* PLAIN_* */
	struct defer_work defer;
	__u32 in_dirty; /* 1: a frame is in a dirty range */
	struct task_work task;
	struct range_work ranges;
	__u64 word; /* result of read_far */
	struct verify_work verify;
	struct find_work find;
#ifdef WALK_RECORDS_READS
	struct reads reads;
	struct ucache_work ucache;
#endif
	struct window_work win;
	struct uw_state u;

	/* Sent as one record: sample, header and frames are adjacent. */
	struct abi_stack_sample sample;
	struct abi_stack ustack;
	__u64 uframes[ABI_MAX_USER_FRAMES];

	__u8 window[WINDOW_SIZE];
	struct walk_cache walk_cache;

	user_regs_t regs;
	struct kernel_work kernel;

	/* Sent as one record: a deferred sample and its stack snapshot are adjacent. */
	struct abi_deferred deferred;
	__u8 snapshot[ABI_DEFERRED_BYTES];
};
_Static_assert(
        __builtin_offsetof(struct scratch, ustack) == __builtin_offsetof(struct scratch, sample) +
                                                              sizeof(struct abi_stack_sample) &&
                __builtin_offsetof(struct scratch, uframes) ==
                        __builtin_offsetof(struct scratch, ustack) + sizeof(struct abi_stack) &&
                __builtin_offsetof(struct kernel_work, frames) == sizeof(struct abi_stack) &&
                __builtin_offsetof(struct scratch, snapshot) ==
                        __builtin_offsetof(struct scratch, deferred) + sizeof(struct abi_deferred),
        "parts of one record are adjacent");
_Static_assert(sizeof(struct scratch) <= 32768, "a per-CPU array value is at most 32 KiB");

/*
 * Writers and readers: programs that walk, each on its own CPU. The off-CPU object has its own map,
 * since a tick may interrupt its programs. Size: 1 for each CPU.
 */
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
