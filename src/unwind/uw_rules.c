/* SPDX-License-Identifier: Apache-2.0 */
#include "unwind/unwind_priv.h"

/*
 * What one file may add: a quarter of each table, so that three hostile files at once leave room
 * for the others. 4,110 rules cover the 27.9 M rows of a whole Debian machine, inline ones
 * included; libLLVM's 949,985 rows need 385 besides the inline ones, libcrypto's 226.
 */
#define QUOTA_RULES (ABI_RULES_MAX / 4)
#define QUOTA_WIDES (ABI_WIDES_MAX / 4)
#define QUOTA_OPS   (ABI_OPS_MAX / 4)

/* ABI_COL_AT_REG: register in the low 8 bits, offset above. */
#define AT_REG_MASK 255

/* Thread: any. `lock` guards the interners and all growing; an entry is written before its number
 * is handed out, so whoever has a number reads the entry without it. A leaf. */
struct uw_rules {
	pthread_mutex_t lock;
	struct uw_rules_mem mem;
	bool own; /* mem is ours */
	struct intern *rules,
	        *wides;        /* by their bytes; wides and rules by id, rules from FIRST on */
	struct intern *exprs;  /* by the bytes of their operations */
	VEC(uint32_t) expr_at; /* by expression: index of its first operation */
	uint32_t n_rules, n_wides, n_ops; /* atomic; n_rules with the fixed codes */
	uint64_t refused;                 /* atomic */
};

/* Slots of abi_rule.save, as UW_SAVE_REG of step.h. */
static const uint8_t save_regs[ABI_SAVES] = {
#ifdef ABI_ARM64
        19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30,
#else
        3, 6, 12, 13, 14, 15,
#endif
};

/* ---- making and freeing ---------------------------------------------------------------------- */

static bool size_ok(const void *p, uint32_t n, uint32_t min, uint32_t max)
{
	return p && n >= min && n <= max;
}

int uw_rules_new(const struct uw_rules_mem *mem, struct uw_rules **ret)
{
	_cleanup_(uw_rules_freep) struct uw_rules *r = NULL;
	int e;

	if (mem && (!size_ok(mem->rules, mem->n_rules, ABI_CODE_FIRST + 1, ABI_RULES_MAX) ||
	            !size_ok(mem->wides, mem->n_wides, 1, ABI_WIDES_MAX) ||
	            !size_ok(mem->ops, mem->n_ops, 1, ABI_OPS_MAX)))
		return -EINVAL;
	r = calloc(1, sizeof(*r));
	if (!r)
		return -ENOMEM;
	if (pthread_mutex_init(&r->lock, NULL)) {
		free(TAKE_PTR(r));
		return -ENOMEM;
	}
	r->n_rules = ABI_CODE_FIRST;
	if (mem) {
		r->mem = *mem;
	} else {
		r->own = true;
		r->mem.n_rules = ABI_RULES_MAX;
		r->mem.n_wides = ABI_WIDES_MAX;
		r->mem.n_ops = ABI_OPS_MAX;
		r->mem.rules = calloc(ABI_RULES_MAX, sizeof(*r->mem.rules));
		r->mem.wides = calloc(ABI_WIDES_MAX, sizeof(*r->mem.wides));
		r->mem.ops = calloc(ABI_OPS_MAX, sizeof(*r->mem.ops));
		if (!r->mem.rules || !r->mem.wides || !r->mem.ops)
			return -ENOMEM;
	}
	r->expr_at.max = r->mem.n_ops;
	/* The caps are those of the tables, checked before each addition. */
	e = intern_new(r->mem.n_rules, SIZE_MAX / 2, &r->rules);
	if (e == 0)
		e = intern_new(r->mem.n_wides, SIZE_MAX / 2, &r->wides);
	if (e == 0)
		e = intern_new(r->mem.n_ops, SIZE_MAX / 2, &r->exprs);
	if (e < 0)
		return e;
	*ret = TAKE_PTR(r);
	return 0;
}

struct uw_rules *uw_rules_free(struct uw_rules *r)
{
	if (r) {
		if (r->own) {
			free(r->mem.rules);
			free(r->mem.wides);
			free(r->mem.ops);
		}
		vec_done(&r->expr_at);
		intern_freep(&r->rules);
		intern_freep(&r->wides);
		intern_freep(&r->exprs);
		(void)pthread_mutex_destroy(&r->lock); /* fails only when it is held */
		free(r);
	}
	return NULL;
}

void uw_rules_freep(struct uw_rules **r)
{
	*r = uw_rules_free(*r);
}

const struct uw_rules_mem *uw_rules_mem(const struct uw_rules *r)
{
	return &r->mem;
}

static uint32_t in_use(const uint32_t *n)
{
	return __atomic_load_n(n, __ATOMIC_ACQUIRE);
}

void uw_rules_stats(const struct uw_rules *r, struct uw_rules_stats *ret)
{
	ret->rules = in_use(&r->n_rules) - ABI_CODE_FIRST;
	ret->wides = in_use(&r->n_wides);
	ret->ops = in_use(&r->n_ops);
	ret->refused = __atomic_load_n(&r->refused, __ATOMIC_RELAXED);
}

/* ---- one form for rules that mean the same --------------------------------------------------- */

static struct uw_col canonical_col(const struct uw_col *c, uint32_t col, uint32_t n_ops)
{
	const struct uw_col lost = {.kind = ABI_COL_UNDEF};
	int32_t reg = c->val;

	switch ((enum abi_col_kind)c->kind) {
	case ABI_COL_SAME:
	case ABI_COL_UNDEF:
		return (struct uw_col){.kind = c->kind};
	case ABI_COL_AT_CFA:
		return *c;
	case ABI_COL_CFA:
		/* What the caller's stack pointer is unless a rule says otherwise. */
		if (col == ABI_REG_SP && c->val == 0)
			return (struct uw_col){.kind = ABI_COL_SAME};
		return *c;
	case ABI_COL_REG:
		if (col < ABI_REGS && col != ABI_REG_SP && reg == (int32_t)col)
			return (struct uw_col){.kind = ABI_COL_SAME};
		return reg >= 0 && reg < ABI_REGS ? *c : lost;
	case ABI_COL_AT_REG:
		return (reg & AT_REG_MASK) < ABI_REGS ? *c : lost;
	case ABI_COL_AT_EXPR:
	case ABI_COL_EXPR:
		return c->val >= 0 && (uint32_t)c->val < n_ops ? *c : lost;
	}
	return lost;
}

/* Sets all that a rule's kinds do not use to 0, and what cannot be said to BAD or lost. */
static void canonical(const struct uw_rules *r, const struct uw_rule *in, struct uw_rule *ret)
{
	uint32_t n_ops = in_use(&r->n_ops);
	const struct uw_col *ra = &in->col[ABI_COL_RA];
	struct uw_rule out;

	memset(&out, 0, sizeof(out)); /* padding too: some of it is compared as bytes */
	out.kind = in->kind;
	if (in->kind != ABI_RULE_FRAME) {
		if (in->kind != ABI_RULE_NONE && in->kind != ABI_RULE_ROOT)
			out.kind = ABI_RULE_BAD;
		*ret = out;
		return;
	}
	if (ra->kind == ABI_COL_SAME || ra->kind == ABI_COL_UNDEF) {
		out.kind = ABI_RULE_ROOT;
		*ret = out;
		return;
	}
	out.cfa_kind = in->cfa_kind;
	out.cfa_off = in->cfa_off;
	out.signal = in->signal;
	if (in->cfa_kind == ABI_CFA_EXPR) {
		if (in->cfa_off < 0 || (uint32_t)in->cfa_off >= n_ops)
			out.kind = ABI_RULE_BAD;
	} else {
		out.cfa_reg = in->cfa_reg;
		if (in->cfa_reg >= ABI_REGS || in->cfa_kind > ABI_CFA_PLT)
			out.kind = ABI_RULE_BAD;
		if (in->cfa_kind != ABI_CFA_REG)
			out.cfa_off2 = in->cfa_off2;
	}
	for (uint32_t i = 0; i <= ABI_COL_RA; i++)
		if (in->col[i].kind)
			out.col[i] = canonical_col(&in->col[i], i, n_ops);
#ifdef ABI_ARM64
	/* The step sets it to the return address. */
	if (!in->signal)
		out.col[ABI_REG_LR] = (struct uw_col){.kind = ABI_COL_SAME};
#endif
	if (out.col[ABI_COL_RA].kind == ABI_COL_UNDEF)
		out.kind = ABI_RULE_BAD; /* it was none that exists */
	if (out.kind == ABI_RULE_BAD) {
		memset(&out, 0, sizeof(out));
		out.kind = ABI_RULE_BAD;
	}
	*ret = out;
}

/* ---- the three forms ------------------------------------------------------------------------- */

#ifdef ABI_ARM64
bool uw_rule_inline(const struct uw_rule *c, uint16_t *ret)
{
	int32_t n = c->cfa_off;
	const struct uw_col *ra = &c->col[ABI_COL_RA];
	uint32_t code = ABI_CODE_INLINE, k = 0;

	if (c->cfa_kind != ABI_CFA_REG || c->signal || n < 0 || n % ABI_IN_A64_OFF_FACTOR ||
	    n / ABI_IN_A64_OFF_FACTOR > (int32_t)ABI_IN_A64_OFF_MASK)
		return false;
	if (c->cfa_reg == ABI_REG_FP)
		code |= ABI_IN_FP;
	else if (c->cfa_reg != ABI_REG_SP)
		return false;
	code |= (uint32_t)n / ABI_IN_A64_OFF_FACTOR;
	if (ra->kind == ABI_COL_AT_CFA) {
		if (ra->val != 8 - n || c->col[ABI_REG_FP].kind != ABI_COL_AT_CFA ||
		    c->col[ABI_REG_FP].val != -n)
			return false;
		while (k < 10 && c->col[19 + k].kind == ABI_COL_AT_CFA &&
		       c->col[19 + k].val == 16 + 8 * (int32_t)k - n)
			k++;
		code |= ABI_IN_A64_SAVED | k << ABI_IN_A64_K_SHIFT;
	} else if (ra->kind != ABI_COL_REG || ra->val != ABI_REG_LR) {
		return false;
	}
	for (uint32_t i = 0; i < ABI_REGS; i++) {
		bool said = code & ABI_IN_A64_SAVED && (i == ABI_REG_FP || (i >= 19 && i < 19 + k));

		if (!said && c->col[i].kind != ABI_COL_SAME)
			return false;
	}
	*ret = (uint16_t)code;
	return true;
}

static void expand_inline(uint32_t code, struct uw_rule *ret)
{
	int32_t n = (int32_t)(code & ABI_IN_A64_OFF_MASK) * ABI_IN_A64_OFF_FACTOR;
	uint32_t k = MIN_OF(code >> ABI_IN_A64_K_SHIFT & 15, 10u);

	ret->kind = ABI_RULE_FRAME;
	ret->cfa_reg = code & ABI_IN_FP ? ABI_REG_FP : ABI_REG_SP;
	ret->cfa_off = n;
	if (!(code & ABI_IN_A64_SAVED)) {
		ret->col[ABI_COL_RA] = (struct uw_col){.kind = ABI_COL_REG, .val = ABI_REG_LR};
		return;
	}
	ret->col[ABI_COL_RA] = (struct uw_col){.kind = ABI_COL_AT_CFA, .val = 8 - n};
	ret->col[ABI_REG_FP] = (struct uw_col){.kind = ABI_COL_AT_CFA, .val = -n};
	for (uint32_t i = 0; i < k; i++)
		ret->col[19 + i] =
		        (struct uw_col){.kind = ABI_COL_AT_CFA, .val = 16 + 8 * (int32_t)i - n};
}
#else
/* Pushed registers, from CFA - 16 downwards. */
struct push {
	uint8_t reg;
	uint16_t bit;
};
static const struct push pushes[2][6] = {
        {{15, ABI_IN_R15},
         {14, ABI_IN_R14},
         {13, ABI_IN_R13},
         {12, ABI_IN_R12},
         {6, ABI_IN_RBP},
         {3, ABI_IN_RBX}},
        {{6, ABI_IN_RBP},
         {15, ABI_IN_R15},
         {14, ABI_IN_R14},
         {13, ABI_IN_R13},
         {12, ABI_IN_R12},
         {3, ABI_IN_RBX}},
};

/* The bits of the saved registers if they lie in this order: > 0, 0 if none is saved, or -1. */
static int inline_saves(const struct uw_rule *c, uint32_t saved, const struct push *order)
{
	int32_t at = -16;
	int bits = 0;

	for (size_t i = 0; i < 6; i++) {
		if (!(saved & 1u << order[i].reg))
			continue;
		if (c->col[order[i].reg].val != at)
			return -1;
		bits |= order[i].bit;
		at -= 8;
	}
	return bits;
}

bool uw_rule_inline(const struct uw_rule *c, uint16_t *ret)
{
	const uint32_t can = 1u << 3 | 1u << 6 | 0xfu << 12;
	uint32_t code = ABI_CODE_INLINE, saved = 0;
	int bits;

	if (c->cfa_kind != ABI_CFA_REG || c->signal || c->cfa_off < 0 ||
	    c->cfa_off % ABI_IN_OFF_FACTOR ||
	    c->cfa_off / ABI_IN_OFF_FACTOR > (int32_t)ABI_IN_OFF_MASK ||
	    c->col[ABI_COL_RA].kind != ABI_COL_AT_CFA || c->col[ABI_COL_RA].val != -8)
		return false;
	if (c->cfa_reg == ABI_REG_FP)
		code |= ABI_IN_FP;
	else if (c->cfa_reg != ABI_REG_SP)
		return false;
	code |= (uint32_t)c->cfa_off / ABI_IN_OFF_FACTOR;
	for (uint32_t i = 0; i < ABI_REGS; i++) {
		if (c->col[i].kind == ABI_COL_SAME)
			continue;
		if (c->col[i].kind != ABI_COL_AT_CFA || !(can & 1u << i))
			return false;
		saved |= 1u << i;
	}
	/* Where both orders say the same, the first: equal rules have equal codes. */
	bits = inline_saves(c, saved, pushes[0]);
	if (bits < 0) {
		bits = inline_saves(c, saved, pushes[1]);
		if (bits < 0)
			return false;
		code |= ABI_IN_RBP_FIRST;
	}
	*ret = (uint16_t)(code | (uint32_t)bits);
	return true;
}

static void expand_inline(uint32_t code, struct uw_rule *ret)
{
	const struct push *order = pushes[code & ABI_IN_RBP_FIRST ? 1 : 0];
	int32_t at = -16;

	ret->kind = ABI_RULE_FRAME;
	ret->cfa_reg = code & ABI_IN_FP ? ABI_REG_FP : ABI_REG_SP;
	ret->cfa_off = (int32_t)(code & ABI_IN_OFF_MASK) * ABI_IN_OFF_FACTOR;
	ret->col[ABI_COL_RA] = (struct uw_col){.kind = ABI_COL_AT_CFA, .val = -8};
	for (size_t i = 0; i < 6; i++) {
		if (!(code & order[i].bit))
			continue;
		ret->col[order[i].reg] = (struct uw_col){.kind = ABI_COL_AT_CFA, .val = at};
		at -= 8;
	}
}
#endif

bool uw_rule_frame(const struct uw_rule *c, struct abi_rule *ret)
{
	const struct uw_col *ra = &c->col[ABI_COL_RA];
	struct abi_rule out;
	uint32_t slots = 0, cols = 0;

	memset(&out, 0, sizeof(out));
	out.kind = ABI_RULE_FRAME;
	out.cfa_reg = c->cfa_reg;
	out.cfa_off = c->cfa_off;
	if (c->cfa_kind == ABI_CFA_DEREF) {
		out.flags |= ABI_RULE_DEREF;
		out.cfa_off2 = c->cfa_off2;
	} else if (c->cfa_kind != ABI_CFA_REG) {
		return false;
	}
	if (ra->kind == ABI_COL_REG)
		out.flags |= ABI_RULE_RA_REG;
	else if (ra->kind != ABI_COL_AT_CFA)
		return false;
	out.ra_off = ra->val;
	if (c->signal)
		out.flags |= ABI_RULE_SIGNAL;
	for (uint32_t i = 0; i < ABI_SAVES; i++) {
		const struct uw_col *col = &c->col[save_regs[i]];

		if (col->kind == ABI_COL_SAME)
			continue;
		/* 0 means unchanged: at the CFA itself it cannot be said. */
		if (col->kind != ABI_COL_AT_CFA || col->val % 8 || col->val == 0 ||
		    col->val / 8 < INT16_MIN || col->val / 8 > INT16_MAX)
			return false;
		out.save[i] = (int16_t)(col->val / 8);
		slots++;
	}
	for (uint32_t i = 0; i < ABI_REGS; i++)
		cols += c->col[i].kind != ABI_COL_SAME;
	if (cols != slots)
		return false; /* a register that has no slot */
	*ret = out;
	return true;
}

static void expand_frame(const struct abi_rule *rule, struct uw_rule *ret)
{
	ret->kind = ABI_RULE_FRAME;
	ret->cfa_kind = rule->flags & ABI_RULE_DEREF ? ABI_CFA_DEREF : ABI_CFA_REG;
	ret->cfa_reg = rule->cfa_reg;
	ret->cfa_off = rule->cfa_off;
	ret->cfa_off2 = rule->cfa_off2;
	ret->signal = rule->flags & ABI_RULE_SIGNAL;
	ret->col[ABI_COL_RA] = (struct uw_col){
	        .kind = rule->flags & ABI_RULE_RA_REG ? ABI_COL_REG : ABI_COL_AT_CFA,
	        .val = rule->ra_off,
	};
	for (uint32_t i = 0; i < ABI_SAVES; i++)
		if (rule->save[i])
			ret->col[save_regs[i]] =
			        (struct uw_col){.kind = ABI_COL_AT_CFA, .val = 8 * rule->save[i]};
}

void uw_rule_wide(const struct uw_rule *c, struct abi_wide *ret)
{
	memset(ret, 0, sizeof(*ret));
	ret->cfa_kind = c->cfa_kind;
	ret->cfa_reg = c->cfa_reg;
	ret->flags = c->signal ? ABI_RULE_SIGNAL : 0;
	ret->cfa_off = c->cfa_off;
	ret->cfa_off2 = c->cfa_off2;
	for (uint32_t i = 0; i <= ABI_COL_RA; i++) {
		ret->kind[i] = c->col[i].kind;
		ret->val[i] = c->col[i].val;
	}
}

static void expand_wide(const struct abi_wide *w, struct uw_rule *ret)
{
	ret->kind = ABI_RULE_FRAME;
	ret->cfa_kind = w->cfa_kind;
	ret->cfa_reg = w->cfa_reg;
	ret->cfa_off = w->cfa_off;
	ret->cfa_off2 = w->cfa_off2;
	ret->signal = w->flags & ABI_RULE_SIGNAL;
	for (uint32_t i = 0; i <= ABI_COL_RA; i++)
		ret->col[i] = (struct uw_col){.kind = w->kind[i], .val = w->val[i]};
}

/* ---- interning ------------------------------------------------------------------------------- */

/* Room for one more of a table, and in the file's share of it? */
static bool room(uint32_t used, uint32_t more, uint32_t max, const uint32_t *quota_used,
                 uint32_t quota)
{
	return more <= max - used &&
	       (!quota_used || (*quota_used <= quota && more <= quota - *quota_used));
}

/* What was written is seen by whoever sees the number: the row with the code is published later. */
static void publish(uint32_t *n, uint32_t value)
{
	__atomic_store_n(n, value, __ATOMIC_RELEASE);
}

/* The code of an entry of the rule table. Lock held. */
static int rule_code(struct uw_rules *r, struct uw_quota *q, const struct abi_rule *rule,
                     uint16_t *ret)
{
	uint32_t id = intern_find(r->rules, rule, sizeof(*rule));
	int e;

	if (id == INTERN_NONE) {
		if (!room(r->n_rules, 1, r->mem.n_rules, q ? &q->rules : NULL, QUOTA_RULES))
			return -E2BIG;
		e = intern_add(r->rules, rule, sizeof(*rule), &id, NULL);
		if (e < 0)
			return e;
		r->mem.rules[ABI_CODE_FIRST + id] = *rule;
		publish(&r->n_rules, ABI_CODE_FIRST + id + 1);
		if (q)
			q->rules++;
	}
	*ret = (uint16_t)(ABI_CODE_FIRST + id);
	return 0;
}

static int wide_code(struct uw_rules *r, struct uw_quota *q, const struct abi_wide *w,
                     uint16_t *ret)
{
	struct abi_rule rule;
	uint32_t id = intern_find(r->wides, w, sizeof(*w));
	int e;

	memset(&rule, 0, sizeof(rule));
	rule.kind = ABI_RULE_WIDE;
	if (id == INTERN_NONE) {
		/* A new one needs an entry in both tables: none is taken where the other is full.
		 */
		if (!room(r->n_wides, 1, r->mem.n_wides, q ? &q->wides : NULL, QUOTA_WIDES) ||
		    !room(r->n_rules, 1, r->mem.n_rules, q ? &q->rules : NULL, QUOTA_RULES))
			return -E2BIG;
		e = intern_add(r->wides, w, sizeof(*w), &id, NULL);
		if (e < 0)
			return e;
		r->mem.wides[id] = *w;
		publish(&r->n_wides, id + 1);
		if (q)
			q->wides++;
	}
	rule.cfa_off = (int32_t)id;
	return rule_code(r, q, &rule, ret);
}

int uw_rules_code(struct uw_rules *r, struct uw_quota *q, const struct uw_rule *rule, uint16_t *ret)
{
	struct uw_rule c;
	struct abi_rule frame;
	struct abi_wide wide;
	int e;

	canonical(r, rule, &c);
	switch ((enum abi_rule_kind)c.kind) {
	case ABI_RULE_NONE:
		*ret = ABI_CODE_NONE;
		return 0;
	case ABI_RULE_ROOT:
		*ret = ABI_CODE_ROOT;
		return 0;
	case ABI_RULE_FRAME:
		break;
	case ABI_RULE_BAD:
	case ABI_RULE_WIDE:
		*ret = ABI_CODE_BAD;
		return 0;
	}
	if (!r->mem.no_inline && uw_rule_inline(&c, ret))
		return 0;
	if (uw_rule_frame(&c, &frame)) {
		(void)pthread_mutex_lock(&r->lock); /* a plain mutex: cannot fail */
		e = rule_code(r, q, &frame, ret);
	} else {
		uw_rule_wide(&c, &wide);
		(void)pthread_mutex_lock(&r->lock);
		e = wide_code(r, q, &wide, ret);
	}
	(void)pthread_mutex_unlock(&r->lock);
	if (e == -E2BIG)
		__atomic_fetch_add(&r->refused, 1, __ATOMIC_RELAXED);
	return e;
}

/* Ends with its only END, and no jump leaves it: what is behind belongs to another expression. */
static bool ops_ok(const struct abi_op *ops, size_t n)
{
	if (n == 0 || n > ABI_EXPR_OPS || ops[n - 1].op != ABI_OP_END)
		return false;
	for (size_t i = 0; i < n - 1; i++) {
		if (ops[i].op == ABI_OP_END || ops[i].op >= ABI_OP_CNT)
			return false;
		if ((ops[i].op == ABI_OP_SKIP || ops[i].op == ABI_OP_BRA) &&
		    (ops[i].arg < 0 || (size_t)ops[i].arg > n - 2 - i))
			return false;
	}
	return true;
}

static int ops_at(struct uw_rules *r, struct uw_quota *q, const struct abi_op *ops, size_t n,
                  int32_t *ret)
{
	uint32_t id = intern_find(r->exprs, ops, n * sizeof(*ops)), at = r->n_ops;
	int e;

	if (id == INTERN_NONE) {
		if (!room(at, (uint32_t)n, r->mem.n_ops, q ? &q->ops : NULL, QUOTA_OPS))
			return -E2BIG;
		e = vec_reserve(&r->expr_at, 1);
		if (e < 0)
			return e;
		e = intern_add(r->exprs, ops, n * sizeof(*ops), &id, NULL);
		if (e < 0)
			return e;
		r->expr_at.p[r->expr_at.n++] = at;
		memcpy(&r->mem.ops[at], ops, n * sizeof(*ops));
		publish(&r->n_ops, at + (uint32_t)n);
		if (q)
			q->ops += (uint32_t)n;
	}
	*ret = (int32_t)r->expr_at.p[id];
	return 0;
}

int uw_rules_ops(struct uw_rules *r, struct uw_quota *q, const struct abi_op *ops, size_t n,
                 int32_t *ret)
{
	struct abi_op clean[ABI_EXPR_OPS];
	int e;

	if (!ops_ok(ops, n))
		return -EINVAL;
	memset(clean, 0, n * sizeof(*clean)); /* equal as bytes if equal as values */
	for (size_t i = 0; i < n; i++) {
		clean[i].op = ops[i].op;
		clean[i].reg = ops[i].reg;
		clean[i].arg = ops[i].arg;
	}
	(void)pthread_mutex_lock(&r->lock);
	e = ops_at(r, q, clean, n, ret);
	(void)pthread_mutex_unlock(&r->lock);
	if (e == -E2BIG)
		__atomic_fetch_add(&r->refused, 1, __ATOMIC_RELAXED);
	return e;
}

int uw_rules_expand(const struct uw_rules *r, uint16_t code, struct uw_rule *ret)
{
	static const uint8_t fixed[ABI_CODE_FIRST] = {
	        [ABI_CODE_NONE] = ABI_RULE_NONE,
	        [ABI_CODE_ROOT] = ABI_RULE_ROOT,
	        [ABI_CODE_BAD] = ABI_RULE_BAD,
	};
	const struct abi_rule *rule;
	struct uw_rule out;

	memset(&out, 0, sizeof(out));
	if (code & ABI_CODE_INLINE) {
		expand_inline(code, &out);
	} else if (code < ABI_CODE_FIRST) {
		out.kind = fixed[code];
	} else {
		if (code >= in_use(&r->n_rules))
			return -ENOENT;
		rule = &r->mem.rules[code];
		if (rule->kind == ABI_RULE_WIDE)
			expand_wide(&r->mem.wides[rule->cfa_off], &out);
		else
			expand_frame(rule, &out);
	}
	*ret = out;
	return 0;
}
