/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/*
 * bpf/abi, unwind tables: rows, rules and images as the walk in the kernel reads them. User space
 * (unwind/) writes them; the programs and the walks of user space read them. The programs write
 * only `wanted` and `used` of an image.
 *
 *   image id  -> struct abi_image      where its table lies in the word space
 *   word space: u32 words, in values of 64 KiB, four of them a segment (one inner map)
 *   table     =  index, then rows
 *     index     two words for each ABI_CHUNK_BYTES of the file from `lo` on:
 *               [0] word of its first row, counted from the table's base; [1] number of rows.
 *               No rows: [0] is the code itself, which governs the whole chunk.
 *     row       low 16 bits: offset from `lo`, its low 16 bits; high 16 bits: code.
 *               Governs until the next row. The first row of a chunk is at its very start, so a
 *               look-up stays in its chunk; the rows of a chunk are in one value.
 *     code      0: no rule. < ABI_CODE_INLINE: index in the rule table. Else the rule itself.
 */
#ifndef PA_ABI_UNWIND_H
#define PA_ABI_UNWIND_H

#include <linux/types.h>

#if defined(__TARGET_ARCH_arm64) || defined(__aarch64__) || defined(ABI_TEST_ARM64)
#define ABI_ARM64 1
#endif

/* ---- registers, by DWARF number -------------------------------------------------------------- */
#ifdef ABI_ARM64
/* x0 … x30, sp */
#define ABI_REGS   32
#define ABI_REG_FP 29
#define ABI_REG_LR 30
#define ABI_REG_SP 31
/* Slots of abi_rule.save: x19 … x30. */
#define ABI_SAVES 12
#else
/* rax rdx rcx rbx rsi rdi rbp rsp r8 … r15 */
#define ABI_REGS   16
#define ABI_REG_FP 6
#define ABI_REG_SP 7
/* Slots of abi_rule.save: rbx rbp r12 r13 r14 r15. */
#define ABI_SAVES  6
#endif
/* Column of the return address in abi_wide, after the registers. */
#define ABI_COL_RA ABI_REGS

/* ---- words ----------------------------------------------------------------------------------- */
#define ABI_VALUE_WORDS   16384u /* 64 KiB: an array rounds each element up to 8 bytes */
#define ABI_VALUE_SHIFT   14
#define ABI_SEGMENT_WORDS 65536u /* 4 values, 256 KiB: one inner map */
#define ABI_SEGMENT_SHIFT 16
#define ABI_SEGMENTS_MAX  4096u /* 1 GiB */
#define ABI_CHUNK_SHIFT   11
#define ABI_CHUNK_BYTES   (1u << ABI_CHUNK_SHIFT)
/* Steps of a bisection: at most 2^11 rows, one at each byte, and one step to end. */
#define ABI_CHUNK_STEPS 12

/* ---- codes ----------------------------------------------------------------------------------- */
#define ABI_CODE_NONE      0u      /* no rule: padding, code without call-frame information */
#define ABI_CODE_ROOT      1u      /* the outermost frame */
#define ABI_CODE_BAD       2u      /* its call-frame information is damaged or not understood */
#define ABI_CODE_HEURISTIC 3u      /* in caches only: no rule, unwind heuristically */
#define ABI_CODE_FIRST     4u      /* first interned rule */
#define ABI_CODE_INLINE    0x8000u /* and above: the rule itself */
#define ABI_RULES_MAX      8192u   /* 4,110 cover the 27.9 M rows of a Debian machine */
#define ABI_WIDES_MAX      1024u
#define ABI_OPS_MAX        4096u /* of all expressions together */
#define ABI_EXPR_OPS       64u   /* operations done for one expression at most */
#define ABI_EXPR_DEPTH     16u   /* power of two */

/*
 * Inline codes, x86-64. Return address at CFA - 8.
 *   15  | 14          | 13          | 12 11 10  9   8   7   | 6 … 0
 *   1   | CFA from fp | rbp first   | r15 r14 r13 r12 rbp rbx | CFA offset / 8
 * The set registers lie from CFA - 16 downwards in the order r15 r14 r13 r12 rbp rbx (gcc), or with
 * bit 13 rbp r15 r14 r13 r12 rbx (clang).
 */
#define ABI_IN_FP         0x4000u
#define ABI_IN_RBP_FIRST  0x2000u
#define ABI_IN_R15        0x1000u
#define ABI_IN_R14        0x0800u
#define ABI_IN_R13        0x0400u
#define ABI_IN_R12        0x0200u
#define ABI_IN_RBP        0x0100u
#define ABI_IN_RBX        0x0080u
#define ABI_IN_OFF_MASK   0x007fu
#define ABI_IN_OFF_FACTOR 8
/*
 * Inline codes, arm64.
 *   15 | 14          | 13 … 12 | 11 … 8 | 7 … 0
 *   1  | CFA from fp | where   | k      | CFA offset N / 16
 *   where 0: return address in x30, nothing saved. 1: x29 at CFA - N, x30 at CFA - N + 8, and the
 *   first k of x19, x20 … from CFA - N + 16 upwards.
 */
#define ABI_IN_A64_SAVED      0x1000u
#define ABI_IN_A64_K_SHIFT    8
#define ABI_IN_A64_OFF_MASK   0x00ffu
#define ABI_IN_A64_OFF_FACTOR 16

/* ---- rules ----------------------------------------------------------------------------------- */
enum abi_rule_kind {
	ABI_RULE_NONE = 0,
	ABI_RULE_FRAME = 1, /* as the fields say */
	ABI_RULE_WIDE = 2,  /* wides[cfa_off] */
	ABI_RULE_ROOT = 3,
	ABI_RULE_BAD = 4,
};
#define ABI_RULE_RA_REG 1u /* ra_off is the register that holds the return address */
#define ABI_RULE_SIGNAL 2u /* signal frame: the caller's pc is exact */
#define ABI_RULE_DEREF  4u /* CFA = *(cfa_reg + cfa_off) + cfa_off2 */

struct abi_rule {
	__u8 kind;    /* enum abi_rule_kind */
	__u8 cfa_reg; /* DWARF number */
	__u8 flags;   /* ABI_RULE_* */
	__u8 pad;
	__s32 cfa_off;
	__s32 cfa_off2;
	__s32 ra_off;          /* return address at CFA + ra_off, or a register (RA_REG) */
	__s16 save[ABI_SAVES]; /* slot's register at CFA + 8 * save; 0: unchanged */
#ifndef ABI_ARM64
	__u32 pad2;
#endif
};
#ifdef ABI_ARM64
_Static_assert(sizeof(struct abi_rule) == 40, "shared layout");
#else
_Static_assert(sizeof(struct abi_rule) == 32, "shared layout");
#endif

enum abi_cfa_kind {
	ABI_CFA_REG = 0,   /* reg + off */
	ABI_CFA_DEREF = 1, /* *(reg + off) + off2 */
	ABI_CFA_EXPR = 2,  /* ops[off …] */
	ABI_CFA_PLT = 3,   /* reg + off + ((pc & 15) >= off2 ? 8 : 0) */
};
/* Location of the caller's value of a register. */
enum abi_col_kind {
	ABI_COL_SAME = 0,    /* in the register, unchanged; RA: undefined, the root */
	ABI_COL_UNDEF = 1,   /* lost */
	ABI_COL_AT_CFA = 2,  /* in memory at CFA + val */
	ABI_COL_CFA = 3,     /* CFA + val itself */
	ABI_COL_REG = 4,     /* in register val */
	ABI_COL_AT_REG = 5,  /* in memory at register (val & 255) + (val >> 8) */
	ABI_COL_AT_EXPR = 6, /* in memory at ops[val …], CFA pushed first */
	ABI_COL_EXPR = 7,    /* ops[val …], CFA pushed first */
};

/* A rule that does not fit struct abi_rule. */
struct abi_wide {
	__u8 cfa_kind; /* enum abi_cfa_kind */
	__u8 cfa_reg;
	__u8 flags; /* ABI_RULE_SIGNAL */
	__u8 pad;
	__s32 cfa_off, cfa_off2;
	__u32 pad2;
	__s32 val[ABI_REGS + 1];
	__u8 kind[ABI_REGS + 1]; /* enum abi_col_kind; the last one is the return address */
	__u8 pad3[3];
};
_Static_assert(sizeof(struct abi_wide) % 8 == 0, "shared layout");

/* One operation of an expression, decoded; ABI_OP_END ends the expression. Operations work on a
 * stack of 64-bit values. */
enum abi_op_code {
	ABI_OP_END = 0,
	ABI_OP_CONST = 1,    /* push arg (sign-extended) */
	ABI_OP_CONST_HI = 2, /* top = (arg << 32) | low 32 bits of top */
	ABI_OP_REG = 3,      /* push register reg + arg */
	ABI_OP_PC = 4,       /* push pc (of this frame) + arg */
	ABI_OP_DEREF = 5,    /* top = 8 bytes at top */
	ABI_OP_DEREF_N = 6,  /* top = arg bytes (1, 2, 4) at top, zero-extended */
	ABI_OP_PLUS_CONST = 7,
	ABI_OP_PLUS = 8,
	ABI_OP_MINUS = 9,
	ABI_OP_MUL = 10,
	ABI_OP_AND = 11,
	ABI_OP_OR = 12,
	ABI_OP_XOR = 13,
	ABI_OP_SHL = 14,
	ABI_OP_SHR = 15,
	ABI_OP_SHRA = 16,
	ABI_OP_NEG = 17,
	ABI_OP_NOT = 18,
	ABI_OP_ABS = 19,
	ABI_OP_EQ = 20, /* comparisons are signed and push 0 or 1 */
	ABI_OP_NE = 21,
	ABI_OP_LT = 22,
	ABI_OP_LE = 23,
	ABI_OP_GT = 24,
	ABI_OP_GE = 25,
	ABI_OP_DUP = 26,
	ABI_OP_DROP = 27,
	ABI_OP_PICK = 28, /* push the arg-th from the top, 0 = top */
	ABI_OP_SWAP = 29,
	ABI_OP_ROT = 30,
	ABI_OP_SKIP = 31, /* jump over the next arg operations (arg > 0) */
	ABI_OP_BRA = 32,  /* the same if the popped top is not 0 */
	ABI_OP_CNT
};
struct abi_op {
	__u8 op; /* enum abi_op_code */
	__u8 reg;
	__u16 pad;
	__s32 arg;
};
_Static_assert(sizeof(struct abi_op) == 8, "shared layout");

/* ---- images ---------------------------------------------------------------------------------- */
enum abi_table_state {
	ABI_TABLE_ABSENT = 0, /* not requested yet: the walk requests it by `wanted` */
	ABI_TABLE_READY = 1,
	ABI_TABLE_NONE = 2, /* none: damaged, unreadable, no room; unwind heuristically */
};
/* Value of the images map; index: image id. User space changes the fields, the last two excepted,
 * only while state is ABSENT and no program can still have seen READY. */
struct abi_image {
	__u32 state;  /* enum abi_table_state; written last */
	__u32 serial; /* 1 …, of this table in this capture: never used twice */
	__u32 base;   /* word of the table */
	__u32 n_chunks;
	__u64 lo;     /* file offset of the first chunk, a multiple of ABI_CHUNK_BYTES */
	__u32 wanted; /* walks that met it while ABSENT (written by programs) */
	__u32 used;   /* abi_control.epoch at its last use (written by programs) */
};
_Static_assert(sizeof(struct abi_image) == 32, "shared layout");

/* ---- shared cache: (table, offset) -> code --------------------------------------------------- */
/* One word an entry: upper 48 bits the tag, lower 16 the code; 0: empty. Direct-mapped. */
#define ABI_CACHE_SHIFT   14
#define ABI_CACHE_ENTRIES (1u << ABI_CACHE_SHIFT)

#endif
