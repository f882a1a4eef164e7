/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fake-rules - rule tables that keep each rule as it came, for tests of what makes rules; and a
 * sink that records. Linked instead of uw_rules.c.
 */
#ifndef PA_TEST_FAKE_RULES_H
#define PA_TEST_FAKE_RULES_H

#include "unwind/unwind_priv.h"

struct uw_rules {
	struct intern *in; /* struct uw_rule -> code - ABI_CODE_FIRST */
	VEC(struct abi_op) ops;
	int fail_code; /* uw_rules_code fails with this, if not 0 */
	uint64_t calls;
};

int uw_rules_code(struct uw_rules *r, struct uw_quota *q, const struct uw_rule *rule, uint16_t *ret)
{
	uint32_t id = 0;
	int e;

	(void)q;
	r->calls++;
	if (r->fail_code)
		return r->fail_code;
	e = intern_add(r->in, rule, sizeof(*rule), &id, NULL);
	if (e < 0)
		return e;
	*ret = (uint16_t)(id + ABI_CODE_FIRST);
	return 0;
}

int uw_rules_ops(struct uw_rules *r, struct uw_quota *q, const struct abi_op *ops, size_t n,
                 int32_t *ret)
{
	size_t first = r->ops.n;

	(void)q;
	assert(n > 0 && ops[n - 1].op == ABI_OP_END);
	for (size_t i = 0; i + n <= r->ops.n; i++) {
		if (memcmp(r->ops.p + i, ops, n * sizeof(*ops)) == 0) {
			*ret = (int32_t)i;
			return 0;
		}
	}
	for (size_t i = 0; i < n; i++)
		if (vec_push(&r->ops, ops[i]) < 0)
			return -E2BIG;
	*ret = (int32_t)first;
	return 0;
}

/* Functions and rows, in the order in which they came. */
struct rec_func {
	uint64_t start, end;
	size_t first, n; /* of rows */
};
struct rec_row {
	uint64_t at;
	uint16_t code;
};
struct recorder {
	struct uw_rules rules;
	struct uw_quota quota;
	struct uw_build_stats stats;
	struct uw_sink sink;
	VEC(struct rec_func) funcs;
	VEC(struct rec_row) rows;
	int fail; /* function() fails with this, if not 0 */
};

static inline int rec_function(void *arg, uint64_t start, uint64_t end)
{
	struct recorder *rec = arg;

	assert(start < end);
	if (rec->fail)
		return rec->fail;
	return vec_push(&rec->funcs, (struct rec_func){start, end, rec->rows.n, 0});
}

static inline int rec_row(void *arg, uint64_t at, uint16_t code)
{
	struct recorder *rec = arg;
	struct rec_func *f = &rec->funcs.p[rec->funcs.n - 1];

	/* Guarantees of the reader to its sink. */
	assert(rec->funcs.n > 0 && at < f->end && code != ABI_CODE_NONE);
	assert(f->n ? at > rec->rows.p[rec->rows.n - 1].at : at == f->start);
	assert(f->n == 0 || rec->rows.p[rec->rows.n - 1].code != code);
	f->n++;
	return vec_push(&rec->rows, (struct rec_row){at, code});
}

static inline void rec_init(struct recorder *rec)
{
	*rec = (struct recorder){0};
	rec->rules.ops.max = 1 << 20;
	rec->funcs.max = rec->rows.max = (size_t)1 << 26;
	rec->sink = (struct uw_sink){
	        .rules = &rec->rules,
	        .quota = &rec->quota,
	        .stats = &rec->stats,
	        .function = rec_function,
	        .row = rec_row,
	        .arg = rec,
	};
	if (intern_new(UINT16_MAX - ABI_CODE_FIRST, (size_t)1 << 28, &rec->rules.in) < 0)
		abort();
}

static inline void rec_done(struct recorder *rec)
{
	intern_free(rec->rules.in);
	vec_done(&rec->rules.ops);
	vec_done(&rec->funcs);
	vec_done(&rec->rows);
}

/* The rule of a code; NULL for ROOT and BAD. */
static inline const struct uw_rule *rec_rule(const struct recorder *rec, uint16_t code)
{
	if (code < ABI_CODE_FIRST)
		return NULL;
	return (const struct uw_rule *)intern_get(rec->rules.in, code - ABI_CODE_FIRST, NULL);
}

#endif
