/* SPDX-License-Identifier: Apache-2.0 */
/*
 * unwind - call-frame information -> rows -> tables; and the walks that run in user space, with the
 * step that BPF runs (step.h).
 *
 *   file -> uw_table_build: rules are interned in uw_rules, rows point to them by 16-bit codes
 *        -> uw_store_install: packs the rows into the word space that the kernel reads
 *        -> uw_walk: the same look-up and step over a stack snapshot
 *
 * Layouts of codes, rules, words and images: bpf/abi/abi_unwind.h.
 */
#ifndef PA_UNWIND_H
#define PA_UNWIND_H

#include "base/base.h"
#include "bpf/abi/abi.h"
#include "image/image.h"

/* ---- rules ----------------------------------------------------------------------------------- */

/* How the caller's value of a column is found. */
struct uw_col {
	uint8_t kind;   /* enum abi_col_kind */
	uint8_t pad[3]; /* 0: rules are compared as bytes */
	int32_t val; /* as abi_wide.val; expressions: index of their first operation in uw_rules */
};
/* One rule, unpacked. Equal rules are equal as values of all fields that their kinds use. */
struct uw_rule {
	uint8_t kind;     /* enum abi_rule_kind: NONE, FRAME (the fields below), ROOT, BAD */
	uint8_t cfa_kind; /* enum abi_cfa_kind */
	uint8_t cfa_reg;
	bool signal; /* signal frame: the caller's pc is exact */
	int32_t cfa_off, cfa_off2;
	struct uw_col col[ABI_REGS + 1]; /* by DWARF number; ABI_COL_RA: the return address.
	                                  * A return address of kind SAME or UNDEF is the root. */
};

/* The rule tables of a capture: all images share them. Each has a cap; nothing is ever removed. */
struct uw_rules;
/* Memory of the rule tables: mapped from the kernel, or the caller's. All zero at first. */
struct uw_rules_mem {
	struct abi_rule *rules;
	struct abi_wide *wides;
	struct abi_op *ops;
	uint32_t n_rules, n_wides, n_ops; /* entries; at most ABI_RULES_MAX, … */
	bool no_inline; /* for benchmarks: all rules in the tables, none in the rows */
};
/* Rules that one file has added, bounded so that a hostile file cannot fill the tables of all.
 * Zeroed by the caller. */
struct uw_quota {
	uint32_t rules, wides, ops; /* used */
};
struct uw_rules_stats {
	uint32_t rules, wides, ops; /* in use */
	uint64_t refused;           /* rules refused because a table was full: their code is BAD */
};

/**
 * uw_rules_new - empty rule tables
 * @mem: copied; NULL: of its own, of the largest size
 * Returns: 0, -EINVAL (a table of no or of too many entries), -ENOMEM.
 */
int uw_rules_new(const struct uw_rules_mem *mem, struct uw_rules **ret);
/**
 * uw_rules_free, uw_rules_freep - NULL is accepted; free returns NULL; the caller's memory stays
 */
struct uw_rules *uw_rules_free(struct uw_rules *r);
void uw_rules_freep(struct uw_rules **r);
/**
 * uw_rules_code - the code of a rule, interned if it has no inline form
 * Returns: 0, -E2BIG (the tables or @q are full; counted), -ENOMEM.
 * Thread: any, a lock inside. Cost: a hash look-up.
 */
int uw_rules_code(struct uw_rules *r, struct uw_quota *q, const struct uw_rule *rule,
                  uint16_t *ret);
/**
 * uw_rules_ops - the index of an expression, interned
 * @ops: ops[n], the last one is ABI_OP_END
 * Returns: 0, -EINVAL (no END, longer than ABI_EXPR_OPS, or a jump back or out of it), -E2BIG
 * (counted as uw_rules_code does), -ENOMEM.
 */
int uw_rules_ops(struct uw_rules *r, struct uw_quota *q, const struct abi_op *ops, size_t n,
                 int32_t *ret);
/**
 * uw_rules_expand - the rule of a code
 * Returns: 0, -ENOENT (no such rule).
 */
int uw_rules_expand(const struct uw_rules *r, uint16_t code, struct uw_rule *ret);
/**
 * uw_rules_mem - the tables, for the walk; borrowed until uw_rules_free
 */
const struct uw_rules_mem *uw_rules_mem(const struct uw_rules *r);
void uw_rules_stats(const struct uw_rules *r, struct uw_rules_stats *ret);

/* ---- tables ---------------------------------------------------------------------------------- */

struct uw_row {
	uint32_t rel;  /* offset from the table's lo, bytes; governs until the next row */
	uint16_t code; /* ABI_CODE_* or a rule */
	uint16_t pad;
};
/* Rows of one file; sorted by rel, the first row at 0, no two neighbours equal. */
struct uw_table {
	uint64_t lo;       /* file offset, a multiple of ABI_CHUNK_BYTES */
	uint32_t n_chunks; /* its length in ABI_CHUNK_BYTES */
	uint32_t n_rows;
	struct uw_row *rows;
};
struct uw_build_stats {
	uint64_t entries;                      /* functions (FDEs, Go functions) read */
	uint64_t bad_entries;                  /* damaged or over a limit: their code is BAD */
	uint64_t unsupported;                  /* bytes of unknown instructions and expressions */
	uint64_t overlaps;                     /* entries that cover code of another one */
	uint64_t rows, rules;                  /* rows; rules that this file added */
	bool eh_frame, debug_frame, gopclntab; /* what it was built from */
	bool go;                               /* a Go program */
};
/* Bounds of one build; 0: the default. */
struct uw_build_limits {
	uint64_t area_bytes;        /* of one area, decompressed; 1 GiB */
	uint64_t rows;              /* 64 M */
	const _Atomic bool *cancel; /* may be NULL; once true, the build ends with -ECANCELED */
};

/**
 * uw_table_build - rows of one file
 * @f: a file of this machine's processor
 * Reads .eh_frame (by section, else by PT_GNU_EH_FRAME), for Go programs .gopclntab, and
 * .debug_frame. Code that several sources cover has the rules of the first. Code at the entry point
 * without rules is the outermost frame.
 * @stats: may be NULL; filled also on failure
 * Returns: 0, -ENOENT (it has none of them), -ENOTSUP (another processor, or 32 bits), -E2BIG,
 * -ENOMEM, -ECANCELED, errno of pread. A damaged entry is skipped and counted.
 * Thread: any.
 */
int uw_table_build(struct img_file *f, struct uw_rules *rules, const struct uw_build_limits *lim,
                   struct uw_table **ret, struct uw_build_stats *stats, struct err *err);
struct uw_table *uw_table_free(struct uw_table *t);
void uw_table_freep(struct uw_table **t);
/**
 * uw_table_find - the code that governs a file offset; ABI_CODE_NONE outside
 * Cost: O(log rows).
 */
uint16_t uw_table_find(const struct uw_table *t, uint64_t off);
/**
 * uw_rule_print - a rule as text, one line without newline: "CFA=rsp+16 rbp=[CFA-16] RA=[CFA-8]"
 */
int uw_rule_print(const struct uw_rules *rules, const struct uw_rule *rule, struct sbuf *b);

/* ---- store: tables in the word space --------------------------------------------------------- */

struct uw_store;
/* Memory of the word space: the kernel's maps, or the caller's (tests). */
struct uw_backing {
	struct abi_image *images; /* images[n_images], by image id; zero at first */
	uint32_t n_images;
	uint32_t max_segments; /* at most ABI_SEGMENTS_MAX */
	/* Words of segment @i, made on its first use: 0 and *ret (ABI_SEGMENT_WORDS words, borrowed
	 * as long as the store lives), or a negative errno. Called with the store's lock held. */
	int (*segment)(void *arg, uint32_t i, uint32_t **ret);
	/* Waits until all programs that are running now have ended and every CPU has passed a
	 * barrier; may be NULL (tests). Called with the lock held, before words are reused, and on
	 * arm64 before an image is published. */
	void (*wait_for_programs)(void *arg);
	void *arg;
};
struct uw_store_stats {
	uint64_t installed, evicted; /* tables, ever */
	uint64_t refused;            /* tables that no eviction could make room for */
	uint64_t bytes;              /* of tables in the word space, with evicted ones that rest */
	uint64_t segments;           /* made */
	uint64_t rows;
};

/**
 * uw_store_new - an empty word space
 * @b:            copied
 * @budget_bytes: limit of the tables; 0: 256 MiB. When a table does not fit, the least recently
 *                used ones are evicted.
 */
int uw_store_new(const struct uw_backing *b, uint64_t budget_bytes, struct uw_store **ret);
struct uw_store *uw_store_free(struct uw_store *s);
void uw_store_freep(struct uw_store **s);
/**
 * uw_store_install - pack a table and publish it as that of an image
 * @t: NULL: the image has no table (ABI_TABLE_NONE)
 * The words of an evicted table rest for 100 ms, until no program can still read them. Until then a
 * new table may not fit.
 * Returns: 0; -ENOENT (no such image in the kernel side's array), -EEXIST (it has one), -ENOSPC
 * (larger than the budget, or nothing to evict: the image is ABI_TABLE_NONE now), -EAGAIN (there
 * will be room once words have rested: the image is unchanged), the error of segment().
 * Thread: any, a lock inside.
 */
int uw_store_install(struct uw_store *s, uint32_t image, const struct uw_table *t);
/**
 * uw_store_code - code at a file offset of an image, as the programs look it up
 * Returns: 0; -EAGAIN (ABSENT), -ENOENT (ABI_TABLE_NONE, or no such image).
 * Thread: any.
 */
int uw_store_code(const struct uw_store *s, uint32_t image, uint64_t off, uint16_t *ret);
void uw_store_stats(const struct uw_store *s, struct uw_store_stats *ret);

/* ---- walks in user space --------------------------------------------------------------------- */

/* Mappings and memory of the target. Borrowed for the walk. */
struct uw_target {
	/* Resolves an address in executable memory to its image and file offset: 0; image 0: JIT
	 * code. -ENOENT: no known executable mapping covers it. */
	int (*resolve)(void *arg, uint64_t addr, uint32_t *ret_image, uint64_t *ret_off);
	/* 8 bytes of data, of code: 0, or non-zero on a fault. */
	int (*read)(void *arg, uint64_t *ret, uint64_t addr);
	int (*read_code)(void *arg, uint64_t *ret, uint64_t addr);
	void *arg;
	bool in_syscall; /* the leaf's pc is after a system call instruction */
};
struct uw_walk {
	int walk;           /* enum abi_walk */
	uint8_t flags;      /* ABI_STACK_* */
	uint32_t n;         /* frames */
	uint32_t heuristic; /* of them without a rule */
	uint32_t image;     /* NO_TABLE: the image without a table */
	bool unresolved;    /* it ended at an address that no known executable mapping covers */
	uint64_t frames[ABI_MAX_USER_FRAMES]; /* as in the ring's record */
};

/**
 * uw_walk - walk a user stack with tables
 * @pc, @reg: reg[ABI_REGS], the leaf's
 * @final:    code of an image without a table is walked heuristically; else the walk ends with
 * NO_TABLE
 * @ret:      filled always
 * Cost: as in the kernel, a look-up and a read or two a frame. Allocates: no. Thread: any.
 */
void uw_walk(const struct uw_store *store, const struct uw_rules *rules, const struct uw_target *t,
             uint64_t pc, const uint64_t *reg, bool final, struct uw_walk *ret);

/**
 * uw_stack_hash - the hash that the programs give to this user stack; never 0
 * @seed:   abi_config's hash_seed
 * @frames: frames[n], as in the ring's record
 * @walk:   enum abi_walk
 * @flags:  ABI_STACK_*
 */
uint64_t uw_stack_hash(uint64_t seed, const uint64_t *frames, size_t n, int walk, uint8_t flags);

/* ---- description of one file's table --------------------------------------------------------- */

/* One line without newline; borrowed until it returns. */
typedef void (*uw_line_fn)(void *arg, const char *text);
/**
 * uw_info - describe the unwind table of a file, one "key: value" a line
 * @pc: NULL: sources, functions, rows, rules and bytes; else the rule at this virtual address
 * Returns: 0; errno of open; -EINVAL (not a regular file, or damaged headers), -ENOEXEC (no ELF
 * file), -ENOTSUP (32 bits, or another processor), -ENOENT (no call-frame information, or @pc is no
 * code), -E2BIG, -ENOMEM, errno of pread. @err says what to do.
 * Thread: any.
 */
int uw_info(const char *path, const uint64_t *pc, uw_line_fn line, void *arg, struct err *err);

#endif
