/* SPDX-License-Identifier: Apache-2.0 */
#include "unwind/unwind_priv.h"

/*
 * Quota of one file: a quarter of each table, so that three hostile files leave room for the
 * others. 4,110 rules cover the 27.9 M rows of a whole Debian machine, inline ones included.
 * Without inline ones, the 949,985 rows of libLLVM need 385, those of libcrypto 226.
 */
#define QUOTA_RULES (ABI_RULES_MAX / 4)
#define QUOTA_WIDES (ABI_WIDES_MAX / 4)
#define QUOTA_OPS   (ABI_OPS_MAX / 4)

/* Thread: any. `lock` guards the interners and all growing; an entry is written before its number
 * is handed out, so whoever has a number reads the entry without it. A leaf. */
struct uw_rules {
	pthread_mutex_t lock;
	struct uw_rules_mem mem;
	bool own; /* mem is ours */
	/* By their bytes. The ids are indexes of mem.wides, and of mem.rules from FIRST on. */
	struct intern *rules, *wides;
	struct intern *exprs;             /* by the bytes of their operations */
	VEC(uint32_t) expr_at;            /* by expression: index of its first operation */
	uint32_t n_rules, n_wides, n_ops; /* atomic; n_rules with the fixed codes */
	uint64_t refused;                 /* atomic */
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

/* ---- interning ------------------------------------------------------------------------------- */

/* Returns true if the table and the file's quota have room for @more. */
static bool room(uint32_t used, uint32_t more, uint32_t max, const uint32_t *quota_used,
                 uint32_t quota)
{
	return more <= max - used &&
	       (!quota_used || (*quota_used <= quota && more <= quota - *quota_used));
}

/* Publishes entries: a thread that sees the number sees them. The row with the code comes later. */
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
		/* A wide rule needs an entry in both tables, so neither is used if the other is
		 * full. */
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

	uw_rule_canonical(rule, in_use(&r->n_ops), &c);
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

/* Returns true if its only END is the last one and no jump leaves it: the next operations belong to
 * another expression. */
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
		uw_rule_expand_inline(code, &out);
	} else if (code < ABI_CODE_FIRST) {
		out.kind = fixed[code];
	} else {
		if (code >= in_use(&r->n_rules))
			return -ENOENT;
		rule = &r->mem.rules[code];
		if (rule->kind == ABI_RULE_WIDE)
			uw_rule_expand_wide(&r->mem.wides[rule->cfa_off], &out);
		else
			uw_rule_expand_frame(rule, &out);
	}
	*ret = out;
	return 0;
}
