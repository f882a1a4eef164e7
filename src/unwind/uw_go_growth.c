/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How Go's stacks grow: the way back from newstack to the function that needed a larger one.
 *
 * A function without enough stack calls morestack at its very start. That saves where it was in
 * g.sched, changes to the thread's stack and calls newstack, which copies the stack and resumes
 * at g.sched. The caller, by the place of the pc:
 *
 *   morestack, up to the load of rsp    the caller's pc is at (%rsp): the ordinary rule. So it is
 *                                       in the calls of badmorestackg0 and badmorestackgsignal
 *   morestack, after it                 the caller is at g.sched. r14 is still the goroutine
 *   newstack's wrapper, before and      r14 is the goroutine, then g0, read from the thread's
 *   after its load of r14               storage
 *   newstack and what it calls          r14 is g0: all Go code keeps it, C code too. Assembly may
 *                                       not; then the rule leads nowhere
 *   newstack, at calls of the scheduler the thread's next goroutine is not the one that called, but
 *                                       g.m.curg soon says so: the outermost frame
 *   gogo, up to the load of rsp         r14 is g0, then the goroutine; ordinary rule
 *   gogo, after it                      in rbx; see do_gogo
 *   mcall, up to the load of rsp        ordinary rules
 *   mcall, after it                     the outermost frame: it calls the scheduler
 *   systemstack, up to the load of rsp  by rbp (before 1.21: ordinary)
 *   systemstack, between the loads      by rbp (before 1.21: g.m.curg.sched.sp)
 *   systemstack, after the second one   by rbp (before 1.21: ordinary)
 *
 * So r14 is the goroutine or g0, which have the same m, and m.curg is the caller unless the
 * scheduler ran. If m.curg.m is m again, r14 was indeed one of the two.
 *
 * The saved pc is a return address, the saved stack pointer that after the return. While the stack
 * is being copied both copies can be read, and g.sched leads to one of them.
 */
#include "unwind/uw_go_special.h"

#ifndef ABI_ARM64

/* systemstack has the offsets from a goroutine to the one that runs on its thread. */
void uw_go_survey_systemstack(struct uw_special *sp)
{
	const size_t at = uw_special_find(sp, 0, uw_go_set_g, NULL, sizeof(uw_go_set_g));
	size_t use;

	if (at == SIZE_MAX)
		return; /* before 1.17 r14 is an ordinary register */
	use = uw_special_find(sp, at, uw_go_curg, uw_go_curg_mask, sizeof(uw_go_curg));
	if (use == SIZE_MAX)
		return;
	sp->growth.m = sp->code[use + 3];
	memcpy(&sp->growth.curg, sp->code + use + 7, sizeof(sp->growth.curg));
	sp->growth.curg_known = sp->growth.m < 0x80 && sp->growth.curg > 0;
}

/* morestack has the offsets of the saved registers. */
void uw_go_survey_morestack(struct uw_special *sp)
{
	/* mov (%rsp), %rax; mov %rax, pc(%rdi); lea 8(%rsp), %rax; mov %rax, sp(%rdi). Or %rsi. */
	static const uint8_t save[] = {0x48, 0x8b, 0x04, 0x24, 0x48, 0x89, 0x46, 0, 0x48,
	                               0x8d, 0x44, 0x24, 0x08, 0x48, 0x89, 0x46, 0};
	static const uint8_t save_mask[] = {1, 1, 1, 1, 1, 1, 0, 0, 1, 1, 1, 1, 1, 1, 1, 0, 0};
	const size_t load = uw_special_after_load(sp);
	const size_t at = uw_special_find(sp, 0, save, save_mask, sizeof(save));
	const uint8_t *p, *fp;

	if (at == SIZE_MAX || load < at + sizeof(save) + 4)
		return;
	p = sp->code + at;
	fp = p + sizeof(save);
	/* mov %rbp, fp(the same) is next, and sp(%rbx) is where the thread's rsp is read. */
	if ((p[6] & 0xfe) != 0x46 || p[15] != p[6] || fp[0] != 0x48 || fp[1] != 0x89 ||
	    fp[2] != (p[6] | 0x28) || sp->code[load - 2] != 0x63 || sp->code[load - 1] != p[16])
		return;
	sp->growth.pc = p[7];
	sp->growth.sp = p[16];
	sp->growth.fp = fp[3];
	sp->growth.saved_known = (p[7] | p[16] | fp[3]) < 0x80;
}

#define NEWSTACK_BYTES 16384 /* searched; it has 3 to 4 thousand */
#define NEWSTACK_CALLS 16    /* of the scheduler; it has 2 */

/* Returns the address of the first call into the scheduler from @from on, 0 if there is none. */
static uint64_t find_way(struct uw_special *sp, uint64_t from, enum uw_go_way *ret)
{
	const uint64_t to = MIN_OF(sp->rows.end, sp->fn.start + NEWSTACK_BYTES);
	int32_t rel;

	while (from + 5 <= to) {
		const size_t len = gotab_code(sp->t->tab, from, sp->code,
		                              (size_t)MIN_OF(to - from, (uint64_t)UW_SPECIAL_CODE));

		for (size_t i = 0; i + 5 <= len; i++) {
			if (sp->code[i] != 0xe8)
				continue;
			memcpy(&rel, sp->code + i + 1, sizeof(rel));
			for (size_t k = 0; k < UW_WAYS; k++)
				if (sp->growth.way[k] &&
				    from + i + 5 + (uint64_t)(int64_t)rel == sp->growth.way[k]) {
					*ret = (enum uw_go_way)k;
					return from + i;
				}
		}
		if (len < 5)
			break;
		from += len - 4;
	}
	return 0;
}

/* Requires both calls: after one that was not found, the next goroutine would pass for the caller.
 * One of the two functions of this name is a wrapper without such calls. */
void uw_go_survey_newstack(struct uw_special *sp)
{
	bool seen[UW_WAYS] = {false};
	uint64_t at = sp->fn.start;
	size_t calls = 0;
	enum uw_go_way way;

	for (; calls <= NEWSTACK_CALLS && (at = find_way(sp, at, &way)) != 0; calls++) {
		seen[way] = true;
		at += 5;
	}
	if (calls <= NEWSTACK_CALLS && (seen[UW_WAY_PREEMPT] || seen[UW_WAY_GOSCHED]) &&
	    seen[UW_WAY_PARK])
		sp->growth.ways_known = true;
}

static bool growth_known(const struct uw_special *sp)
{
	return sp->growth.curg_known && sp->growth.saved_known && sp->growth.ways_known;
}

/* Gives the ordinary rows, and the outermost frame at calls of the scheduler. A call is looked up
 * at its last byte; before the call the caller is still known. */
int uw_go_newstack(struct uw_special *sp)
{
	const struct uw_rule root = {.kind = ABI_RULE_ROOT};
	uint64_t at = sp->fn.start, call;
	enum uw_go_way way;
	int r;

	call = growth_known(sp) ? find_way(sp, at, &way) : 0;
	if (!call)
		return 0;
	r = uw_special_begin(sp, at);
	for (size_t i = 0; i < NEWSTACK_CALLS && call && r >= 0; i++) {
		r = uw_special_plain(sp, at, call + 1, false);
		if (r >= 0)
			r = uw_special_code(sp, call + 1, &root);
		at = call + 5;
		call = find_way(sp, at, &way);
	}
	return r < 0 ? r : uw_special_plain(sp, at, sp->rows.end, false);
}

#define OP(...) ((struct abi_op){__VA_ARGS__})

/* Makes the column of the value at @off in the structure at the CFA; 0 if the CFA is 0. */
static int saved_value(struct uw_special *sp, uint8_t off, struct uw_col *ret)
{
	const struct abi_op ops[] = {
	        OP(.op = ABI_OP_DUP),
	        OP(.op = ABI_OP_BRA, .arg = 1),
	        OP(.op = ABI_OP_SKIP, .arg = 2), /* to the end */
	        OP(.op = ABI_OP_PLUS_CONST, .arg = off),
	        OP(.op = ABI_OP_DEREF),
	        OP(.op = ABI_OP_END),
	};

	ret->kind = ABI_COL_EXPR;
	return uw_rules_ops(sp->sink->rules, sp->sink->quota, ops, ARRAY_SIZE(ops), &ret->val);
}

/* Makes the rule: the CFA is the goroutine, which has the saved registers. It is 0, the root, if no
 * goroutine runs on this thread any more. */
static int growth_rule(struct uw_special *sp, struct uw_rule *rule)
{
	const struct uw_go_growth *w = &sp->growth;
	const struct abi_op ops[] = {
	        OP(.op = ABI_OP_REG, .reg = UW_REG_R14, .arg = w->m),
	        OP(.op = ABI_OP_DEREF),
	        OP(.op = ABI_OP_DUP),
	        OP(.op = ABI_OP_PLUS_CONST, .arg = w->curg),
	        OP(.op = ABI_OP_DEREF),
	        OP(.op = ABI_OP_DUP),
	        OP(.op = ABI_OP_BRA, .arg = 1),
	        OP(.op = ABI_OP_SKIP, .arg = 7), /* to the end */
	        OP(.op = ABI_OP_DUP),            /* m, curg, curg */
	        OP(.op = ABI_OP_PLUS_CONST, .arg = w->m),
	        OP(.op = ABI_OP_DEREF),
	        OP(.op = ABI_OP_PICK, .arg = 2), /* m, curg, curg.m, m */
	        OP(.op = ABI_OP_EQ),
	        OP(.op = ABI_OP_BRA, .arg = 1),
	        OP(.op = ABI_OP_CONST, .arg = 0),
	        OP(.op = ABI_OP_END),
	};
	int r;

	*rule = (struct uw_rule){.kind = ABI_RULE_FRAME, .cfa_kind = ABI_CFA_EXPR};
	r = uw_rules_ops(sp->sink->rules, sp->sink->quota, ops, ARRAY_SIZE(ops), &rule->cfa_off);
	for (size_t i = 0; i < ABI_REGS; i++)
		rule->col[i] = (struct uw_col){.kind = ABI_COL_UNDEF, .val = 0};
	if (r >= 0)
		r = saved_value(sp, w->pc, &rule->col[ABI_COL_RA]);
	if (r >= 0)
		r = saved_value(sp, w->sp, &rule->col[ABI_REG_SP]);
	rule->col[ABI_REG_FP] = (struct uw_col){.kind = ABI_COL_AT_CFA, .val = w->fp};
	rule->col[UW_REG_R14] = (struct uw_col){.kind = ABI_COL_CFA, .val = 0};
	return r;
}

int uw_go_morestack(struct uw_special *sp)
{
	const size_t off = uw_special_after_load(sp);
	struct uw_rule rule;
	int r = -E2BIG;

	if (off && growth_known(sp))
		r = growth_rule(sp, &rule);
	if (r == -E2BIG)
		return uw_special_leaves(sp);
	if (r >= 0)
		r = uw_special_begin(sp, sp->fn.start);
	if (r >= 0)
		r = uw_special_plain(sp, sp->fn.start, sp->fn.start + off, false);
	return r < 0 ? r : uw_special_code(sp, sp->fn.start + off, &rule);
}

#endif
