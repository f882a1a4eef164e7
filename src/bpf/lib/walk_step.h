/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/*
 * The parts of the step as global functions, which the verifier checks once each. They take
 * numbers, and look up the state by themselves.
 */
#ifndef PA_BPF_WALK_STEP_H
#define PA_BPF_WALK_STEP_H

#include "bpf/lib/walk_code.h"

__noinline int walk_op(__u32 ip)
{
	struct scratch *s = get_scratch();

	if (!s)
		return -ABI_WALK_BAD_RULE;
	s->u.ip = ip;
	return uw_expr_op(&s->u, s);
}

__noinline int walk_expr(__u32 i)
{
	struct scratch *s = get_scratch();

	return s ? uw_expr(&s->u, s, i) : ABI_WALK_BAD_RULE;
}

__noinline int walk_column(__u32 i, __u32 col)
{
	struct scratch *s = get_scratch();

	return s ? uw_wide_column(&s->u, s, i, col) : ABI_WALK_BAD_RULE;
}

__noinline int walk_rule(__u32 id)
{
	struct scratch *s = get_scratch();

	return s ? uw_step_frame(&s->u, s, id) : ABI_WALK_BAD_RULE;
}

__noinline int walk_wide(__u32 i)
{
	struct scratch *s = get_scratch();

	return s ? uw_step_wide(&s->u, s, i) : ABI_WALK_BAD_RULE;
}

__noinline int walk_heuristic(__u32 code, __u32 jit)
{
	struct scratch *s = get_scratch();
	enum uw_special special = UW_ORDINARY;

	if (!s)
		return ABI_WALK_BAD_RULE;
	reads_other(s);
	if (code != ABI_CODE_HEURISTIC)
		special = uw_special(&s->u, s);
	/* Cache that an address has no rule: it is a return address, its code was read in this
	 * process and is ordinary, and at_root has refused it. Elsewhere the page may be absent.
	 * With a missing table at_root was not asked. */
	if (code == ABI_CODE_NONE && !s->u.exact && s->find.key && !s->defer.missing) {
		if (special == UW_ORDINARY) {
			cache_heuristic(s);
		} else if (special == UW_UNREAD && s->find.at_start) {
			/* No call returns to a page that is absent: code wrote the address of a
			 * function there, as the end of a coroutine. */
			s->u.heuristic++;
			return ABI_WALK_ROOT;
		}
	}
	return uw_step_heuristic(&s->u, s, special, code, jit);
}

__noinline int table_code(__u32 base, __u32 rel)
{
	return uw_table_code(0, base, rel);
}

#endif
