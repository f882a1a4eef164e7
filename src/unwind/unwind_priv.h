/* SPDX-License-Identifier: Apache-2.0 */
/*
 * unwind, private: the files of the module.
 *
 *   uw_cfi.c         CIEs and FDEs of .eh_frame and .debug_frame
 *   uw_cfi_pointer.c their encoded pointers
 *   uw_cfi_code.c    the code of the rule that instructions have built up
 *   uw_insn.c        their instructions: rows of one function
 *   uw_expr.c        DWARF expressions -> operations, and the shapes that need none
 *   uw_go.c          functions of Go programs from .gopclntab
 *   uw_go_special.c  Go functions that change stacks
 *   uw_go_growth.c   those by which stacks grow
 *   uw_go_code.c     their rows and instructions
 *   uw_go_rows.c     rows of one Go function
 *   uw_rule.c        the forms of a rule
 *   uw_rules.c       interned rules and their codes
 *   uw_info.c        the table of one file, as text
 *   uw_build.c       from all sources to one sorted table
 *   uw_store.c       tables in the word space
 *   uw_print.c       rules as text
 *   uw_walk.c        the walks of user space
 */
#ifndef PA_UNWIND_PRIV_H
#define PA_UNWIND_PRIV_H

#include "unwind/unwind.h"

/* Receiver of rows. All addresses are virtual ones of the file. */
struct uw_sink {
	struct uw_rules *rules;
	struct uw_quota *quota;
	struct uw_build_stats *stats;
	/* One function: [start, end), then its rows in ascending order, the first at start; each
	 * governs until the next one. @code: ABI_CODE_*. A row outside of the function is ignored.
	 * -E2BIG or -ENOMEM end the reading. */
	int (*function)(void *arg, uint64_t start, uint64_t end);
	int (*row)(void *arg, uint64_t at, uint16_t code);
	void *arg;
};

/* An area in memory, with what its pointers are relative to. */
struct uw_area {
	const uint8_t *p;
	size_t len;
	uint64_t vaddr;   /* of p[0] */
	bool debug_frame; /* .debug_frame's shape, else .eh_frame's */
};

/* Reads all FDEs of an area, in file order: 0, or the error of the sink. Damaged entries are
 * counted. */
int uw_cfi_read(struct img_file *f, const struct uw_area *a, struct uw_sink *sink);
/* Reads all functions of .gopclntab: 0, -ENOENT (unknown version), or the error of the sink. */
int uw_go_read(struct img_file *f, struct uw_sink *sink, const struct uw_build_limits *lim);
/* Gives rules for Go functions that change stacks, by their names in .gopclntab; they override
 * those of other sources: 0, -ENOENT (no Go program, or nothing found). */
int uw_go_special_read(struct img_file *f, struct uw_sink *sink, const struct uw_build_limits *lim);

/* Expression bytes -> operations. */
struct uw_ops {
	struct abi_op op[ABI_EXPR_OPS];
	uint32_t n; /* with the END */
};
/* 0, -ENOTSUP (an unknown operation; *ret_bad: bytes), -EINVAL (cut off, too long,
 * or a jump that goes back). @cfa_pushed: the CFA is on the stack at its start. */
int uw_expr_decode(const uint8_t *p, size_t len, bool cfa_pushed, struct uw_ops *ret,
                   uint64_t *ret_bad);

/* Sets to 0 all fields that a rule's kinds do not use, so that equal rules are equal bytes. A rule
 * that has no form becomes BAD, a column that has none is lost. @n_ops: operations that exist. */
void uw_rule_canonical(const struct uw_rule *in, uint32_t n_ops, struct uw_rule *ret);
/* The forms of a canonical rule of kind FRAME: false if it does not fit. Every rule fits a wide
 * one. */
bool uw_rule_inline(const struct uw_rule *c, uint16_t *ret);
bool uw_rule_frame(const struct uw_rule *c, struct abi_rule *ret);
void uw_rule_wide(const struct uw_rule *c, struct abi_wide *ret);
/* The way back. @ret is all zero before. */
void uw_rule_expand_inline(uint32_t code, struct uw_rule *ret);
void uw_rule_expand_frame(const struct abi_rule *rule, struct uw_rule *ret);
void uw_rule_expand_wide(const struct abi_wide *w, struct uw_rule *ret);

#endif
