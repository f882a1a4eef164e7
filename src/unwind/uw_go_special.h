/* SPDX-License-Identifier: Apache-2.0 */
/*
 * unwind, private: Go functions that change stacks. x86-64 only. uw_go_special.c
 * finds them by name and has a rule for each kind; uw_go_growth.c has those by which stacks grow,
 * which depend on each other. Both give rows and search code through uw_go_code.c.
 */
#ifndef PA_UW_GO_SPECIAL_H
#define PA_UW_GO_SPECIAL_H

#include "unwind/uw_go_rows.h"

#define UW_REG_R14 14

/* Bytes of such a function that are read; the longest, runtime.cgocallback, has 300. */
#define UW_SPECIAL_CODE 512

/* Ways out of newstack into the scheduler; compilers may inline the first into newstack, which then
 * calls the second. */
enum uw_go_way {
	UW_WAY_PREEMPT,
	UW_WAY_GOSCHED,
	UW_WAY_PARK,
	UW_WAYS,
};

/* How stacks grow in this program. */
struct uw_go_growth {
	uint64_t way[UW_WAYS]; /* their addresses; 0: none */
	/* Offsets in the runtime's structures: of the thread in a goroutine, of the goroutine in a
	 * thread, of what is saved in a goroutine. */
	uint8_t m, pc, sp, fp;
	int32_t curg;
	bool curg_known, saved_known, ways_known;
};

/* One function in work. */
struct uw_special {
	struct uw_go_tab *t;
	struct uw_sink *sink;
	struct gotab_func fn;
	struct uw_go_rows rows;
	uint8_t code[UW_SPECIAL_CODE]; /* code[len], from fn.start */
	size_t len;
	bool emitted;
	struct uw_go_growth growth;
};

/* ---- giving rows: 0, or the error of the sink or the rule tables ----------------------------- */

/* Opens the function in work, from @start on. */
int uw_special_begin(struct uw_special *sp, uint64_t start);
/* Gives the ordinary row @i of sp->rows, from @at on. @signal: the caller's pc is exact. */
int uw_special_row(struct uw_special *sp, uint64_t at, size_t i, bool signal);
/* Gives a rule of its own, from @at on; nothing after the end of the function's rows. */
int uw_special_code(struct uw_special *sp, uint64_t at, const struct uw_rule *rule);
/* The ordinary rows that govern [from, to). */
int uw_special_plain(struct uw_special *sp, uint64_t from, uint64_t to, bool signal);
/* Ordinary rows, and the outermost frame from where the stack is changed. */
int uw_special_leaves(struct uw_special *sp);

/* ---- reading code ---------------------------------------------------------------------------- */

/* Offset of these bytes at or after @from; SIZE_MAX if they are not there. @mask: 0 bytes match
 * all; NULL: none does. */
size_t uw_special_find(const struct uw_special *sp, size_t from, const uint8_t *want,
                       const uint8_t *mask, size_t n);
/* Returns the offset after the first mov disp(%reg), %rsp; 0 if there is none. */
size_t uw_special_after_load(const struct uw_special *sp);

/* Instructions of systemstack that more than one rule is made from. mov %rdx, %r14: this is the
 * goroutine */
static const uint8_t uw_go_set_g[] = {0x49, 0x89, 0xd6};
/* mov m(%rax), %rbx; mov curg(%rbx), %rax */
static const uint8_t uw_go_curg[] = {0x48, 0x8b, 0x58, 0, 0x48, 0x8b, 0x83, 0, 0, 0, 0};
static const uint8_t uw_go_curg_mask[] = {1, 1, 1, 0, 1, 1, 1, 0, 0, 0, 0};

/* ---- growing stacks -------------------------------------------------------------------------- */

/* Read offsets from the function in work into sp->growth; all run before any rule is made. */
void uw_go_survey_systemstack(struct uw_special *sp);
void uw_go_survey_morestack(struct uw_special *sp);
void uw_go_survey_newstack(struct uw_special *sp);
/* Give rows of the function in work: 0, or the error of the sink or the rule tables. If sp->growth
 * is incomplete, morestack is the outermost frame and newstack keeps its ordinary rules. */
int uw_go_morestack(struct uw_special *sp);
int uw_go_newstack(struct uw_special *sp);

#endif
