/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/*
 * The step in pieces that the verifier looks at one by one. They take numbers and find the state
 * themselves.
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
	/* A return address in code whose table has no rule for it, which stands for nothing (read
	 * in this process: elsewhere the page may be absent), and is no root: it needs no look-up
	 * next time. Where a table is missing nobody has asked at_root. */
	if (code == ABI_CODE_NONE && !s->u.exact && s->find.key && !s->defer.missing) {
		if (special == UW_ORDINARY) {
			cache_heuristic(s);
		} else if (special == UW_UNREAD && s->find.at_start) {
			/* Nobody has called from a page that is not there: the address was put
			 * there by hand, to where a function begins, as the end of a coroutine. */
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
