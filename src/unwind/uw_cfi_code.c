/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The code of the rule that call-frame instructions have built up, with a cache of the area's
 * rules.
 */
#include "unwind/uw_cfi_priv.h"

void cfi_rule_begin(struct uw_rule *r, bool signal)
{
	/* With its padding: rules are compared and hashed as bytes. */
	memset(r, 0, sizeof(*r));
	r->kind = ABI_RULE_FRAME;
	r->cfa_kind = CFI_CFA_UNSET;
	r->signal = signal;
}

static uint64_t rule_hash(const struct uw_rule *r)
{
	uint64_t h = 0, w;

	_Static_assert(sizeof(*r) % 4 == 0, "hashed by words");
	/* Sums of products do not wait for each other. */
	for (size_t i = 0; i + 8 <= sizeof(*r); i += 8) {
		memcpy(&w, (const char *)r + i, 8);
		h += (w ^ (w >> 32)) * (UINT64_C(0x9e3779b97f4a7c15) * (2 * i + 1));
	}
	w = 0;
	memcpy(&w, (const char *)r + (sizeof(*r) & ~(size_t)7), sizeof(*r) & 7);
	h += w * UINT64_C(0xc2b2ae3d27d4eb4f);
	return h ^ (h >> 29);
}

/* Sets the column of the return address. Returns false if there is none: the frame is the root. */
static bool find_ra(struct uw_rule *r, const struct cfi_cie *cie)
{
	struct uw_col *ra = &r->col[ABI_COL_RA];

	if (cie->ra_col < ABI_REGS) {
		*ra = r->col[cie->ra_col];
		if (ra->kind == ABI_COL_SAME) {
			ra->kind = ABI_COL_REG;
			ra->val = (int32_t)cie->ra_col;
		}
	}
	return ra->kind != ABI_COL_SAME && ra->kind != ABI_COL_UNDEF;
}

int cfi_state_code(struct cfi_machine *m, const struct cfi_cie *cie, uint16_t *ret)
{
	struct uw_rule *rule = &m->cur.rule;
	struct cfi_code *slot;
	int r;

	if (!find_ra(rule, cie)) {
		*ret = ABI_CODE_ROOT;
		return 0;
	}
	if (rule->cfa_kind == CFI_CFA_UNSET)
		return -EINVAL;
	slot = &m->codes[(rule_hash(rule) >> 20) & (CFI_CODES - 1)];
	if (!slot->used || memcmp(&slot->rule, rule, sizeof(*rule)) != 0) {
		slot->used = false;
		r = uw_rules_code(m->sink->rules, m->sink->quota, rule, &slot->code);
		if (r == -E2BIG) {
			m->refused = true;
			*ret = ABI_CODE_BAD;
			return 0;
		}
		if (r < 0)
			return r;
		slot->rule = *rule;
		slot->used = true;
	}
	*ret = slot->code;
	return 0;
}
