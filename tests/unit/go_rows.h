/* SPDX-License-Identifier: Apache-2.0 */
/*
 * go-rows - rows that are read from a Go program that is built
 */
#ifndef PA_TEST_GO_ROWS_H
#define PA_TEST_GO_ROWS_H

#include <setjmp.h>
#include <stdio.h>
#include <cmocka.h>
#include "go_builder.h"
#include "unwind/unwind_priv.h"

#ifndef ABI_ARM64 /* the code in it is x86-64 */

#define NO_LIMIT 0

/* ---- what a reader gives --------------------------------------------------------------------- */

struct got {
	struct uw_rules *rules;
	struct uw_quota quota;
	struct uw_build_stats stats;
	struct {
		uint64_t start, end;
	} fn[64];
	struct {
		uint64_t at;
		uint16_t code;
	} row[256];
	size_t n_fn, n_row;
	bool first_row; /* of the function that is open */
	int fail;       /* what row() returns */
};

static inline int on_function(void *arg, uint64_t start, uint64_t end)
{
	struct got *g = arg;

	assert_true(start < end);
	assert_true(g->n_fn < ARRAY_SIZE(g->fn));
	g->fn[g->n_fn].start = start;
	g->fn[g->n_fn++].end = end;
	g->first_row = true;
	return 0;
}

static inline int on_row(void *arg, uint64_t at, uint16_t code)
{
	struct got *g = arg;

	assert_true(g->n_fn > 0 && g->n_row < ARRAY_SIZE(g->row));
	if (g->first_row)
		assert_int_equal(at, g->fn[g->n_fn - 1].start);
	else
		assert_true(at > g->row[g->n_row - 1].at);
	assert_true(at < g->fn[g->n_fn - 1].end);
	g->first_row = false;
	g->row[g->n_row].at = at;
	g->row[g->n_row++].code = code;
	return g->fail;
}

typedef int (*reader)(struct img_file *, struct uw_sink *, const struct uw_build_limits *);

static inline void done(struct got *g)
{
	g->rules = uw_rules_free(g->rules);
}

static inline int read_bytes(reader fn, const struct sbuf *b, uint64_t rows, struct got *g)
{
	_cleanup_(img_file_freep) struct img_file *f = NULL;
	const struct uw_build_limits lim = {.rows = rows};
	struct uw_sink sink = {.quota = &g->quota,
	                       .stats = &g->stats,
	                       .function = on_function,
	                       .row = on_row,
	                       .arg = g};
	struct uw_rules *rules = g->rules;
	const int fail = g->fail;

	if (img_file_open_mem(b->p, b->len, &f, NULL) < 0)
		return -ENOEXEC;
	*g = (struct got){.rules = rules, .fail = fail};
	if (!g->rules)
		assert_int_equal(uw_rules_new(NULL, &g->rules), 0);
	sink.rules = g->rules;
	return fn(f, &sink, &lim);
}

static inline struct uw_rule rule_at(const struct got *g, uint64_t at)
{
	struct uw_rule rule = {0};

	for (size_t i = 0; i < g->n_fn; i++) {
		if (at < g->fn[i].start || at >= g->fn[i].end)
			continue;
		for (size_t k = g->n_row; k-- > 0;) {
			if (g->row[k].at > at || g->row[k].at < g->fn[i].start)
				continue;
			assert_int_equal(uw_rules_expand(g->rules, g->row[k].code, &rule), 0);
			return rule;
		}
	}
	return rule;
}

/* "r7+16 fp" and the like: base of the CFA, S: signal, fp: the frame pointer is in the frame. */
static inline const char *text_at(const struct got *g, uint64_t at)
{
	static char text[80];
	const struct uw_rule r = rule_at(g, at);

	if (r.kind != ABI_RULE_FRAME) {
		snprintf(text, sizeof(text), "%s",
		         r.kind == ABI_RULE_ROOT  ? "root"
		         : r.kind == ABI_RULE_BAD ? "bad"
		                                  : "none");
		return text;
	}
	if (r.cfa_kind != ABI_CFA_REG) {
		snprintf(text, sizeof(text), "cfa %d", r.cfa_kind);
		return text;
	}
	snprintf(text, sizeof(text), "r%d+%d%s%s", r.cfa_reg, r.cfa_off, r.signal ? " S" : "",
	         r.col[ABI_REG_FP].kind == ABI_COL_AT_CFA && r.col[ABI_REG_FP].val == -16 ? " fp"
	                                                                                  : "");
	if (r.col[ABI_COL_RA].kind != ABI_COL_AT_CFA || r.col[ABI_COL_RA].val != -8)
		snprintf(text + strlen(text), sizeof(text) - strlen(text), " ra");
	return text;
}

/* ---- .gopclntab ------------------------------------------------------------------------------ */

/* push %rbp; mov %rsp, %rbp; sub $32, %rsp; 8 no-ops; add $32, %rsp; pop %rbp; ret; no-op */
static const uint8_t code_push[] = {0x55, 0x48, 0x89, 0xe5, 0x48, 0x83, 0xec, 0x20,
                                    0x90, 0x90, 0x90, 0x90, 0x90, 0x90, 0x90, 0x90,
                                    0x48, 0x83, 0xc4, 0x20, 0x5d, 0xc3, 0x90};
/* sub $40, %rsp; mov %rbp, 32(%rsp); lea 32(%rsp), %rbp; mov 32(%rsp), %rbp; add $40, %rsp; ret */
static const uint8_t code_store[] = {0x48, 0x83, 0xec, 0x28, 0x48, 0x89, 0x6c, 0x24,
                                     0x20, 0x48, 0x8d, 0x6c, 0x24, 0x20, 0x48, 0x8b,
                                     0x6c, 0x24, 0x20, 0x48, 0x83, 0xc4, 0x28, 0xc3};
/* sub $8, %rsp; no-ops; add $8, %rsp; ret: a frame without the frame pointer */
static const uint8_t code_bare[] = {0x48, 0x83, 0xec, 0x08, 0x90, 0x90, 0x90,
                                    0x90, 0x48, 0x83, 0xc4, 0x08, 0xc3};
/* sub $512, %rsp; mov %rbp, 504(%rsp) */
static const uint8_t code_large[] = {0x48, 0x81, 0xec, 0,    2,    0, 0, 0x48,
                                     0x89, 0xac, 0x24, 0xf8, 0x01, 0, 0, 0x90};

#define STORE                                                                                      \
	{                                                                                          \
		.name = "main.store", .code = code_store, .len = sizeof(code_store), .pad = 8,     \
		.step = {                                                                          \
			{0, 4},                                                                    \
			{40, 19},                                                                  \
			{0, 1}                                                                     \
		}                                                                                  \
	}

static const struct gb_fn fns[] = {
        {.name = "main.push",
         .code = code_push,
         .len = sizeof(code_push),
         .pad = 9,
         .step = {{0, 1}, {8, 7}, {40, 12}, {8, 1}, {0, 1}, {40, 1}}},
        STORE,
        {.name = "main.bare",
         .code = code_bare,
         .len = sizeof(code_bare),
         .pad = 3,
         .step = {{0, 4}, {8, 8}, {0, 1}}},
        {.name = "main.large",
         .code = code_large,
         .len = sizeof(code_large),
         .step = {{0, 7}, {512, 9}}},
        {.name = "runtime.goexit", .flag = 1, .len = 16, .step = {{0, 16}}},
        {.name = "main.odd", .len = 16, .step = {{0, 4}, {-16, 4}, {16, 8}}},
        {.name = "main.none", .len = 16, .no_pcsp = true},
        {.name = "main.popped", .len = 16, .step = {{0, 4}, {-8, 4}, {0, 8}}},
};

#endif

#endif
