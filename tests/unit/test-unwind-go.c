/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdio.h>

#include <cmocka.h>

#include "go_builder.h"
#include "unwind/unwind_priv.h"

#ifdef ABI_ARM64

int main(void)
{
	puts("1..0 # SKIP the code in this test is x86-64");
	return 0;
}

#else

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

static int on_function(void *arg, uint64_t start, uint64_t end)
{
	struct got *g = arg;

	assert_true(start < end);
	assert_true(g->n_fn < ARRAY_SIZE(g->fn));
	g->fn[g->n_fn].start = start;
	g->fn[g->n_fn++].end = end;
	g->first_row = true;
	return 0;
}

static int on_row(void *arg, uint64_t at, uint16_t code)
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

static void done(struct got *g)
{
	g->rules = uw_rules_free(g->rules);
}

static int read_bytes(reader fn, const struct sbuf *b, uint64_t rows, struct got *g)
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

static struct uw_rule rule_at(const struct got *g, uint64_t at)
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
static const char *text_at(const struct got *g, uint64_t at)
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

static void check_fns(const struct got *g, const struct gb_map *m)
{
	static const struct {
		size_t fn, off;
		const char *want;
	} cases[] = {
	        {0, 0, "r7+8"},      {0, 1, "r7+16 fp"},  {0, 7, "r7+16 fp"}, {0, 8, "r7+48 fp"},
	        {0, 19, "r7+48 fp"}, {0, 20, "r7+16 fp"}, {0, 21, "r7+8"},    {0, 22, "r7+48 fp"},
	        {0, 23, "none"},     {1, 0, "r7+8"},      {1, 4, "r7+48"},    {1, 8, "r7+48"},
	        {1, 9, "r7+48 fp"},  {1, 22, "r7+48 fp"}, {1, 23, "r7+8"},    {1, 24, "none"},
	        {2, 3, "r7+8"},      {2, 4, "r7+16"},     {2, 11, "r7+16"},   {2, 12, "r7+8"},
	        {3, 6, "r7+8"},      {3, 7, "r7+520"},    {3, 14, "r7+520"},  {3, 15, "r7+520 fp"},
	        {4, 0, "root"},      {4, 15, "root"},     {5, 0, "r7+8"},     {5, 4, "bad"},
	        {5, 8, "r7+24"},     {6, 0, "none"},      {7, 3, "r7+8"},     {7, 4, "r7+0"},
	        {7, 8, "r7+8"},
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		const char *text = text_at(g, m->at[cases[i].fn] + cases[i].off);

		if (strcmp(text, cases[i].want) != 0)
			print_error("function %zu + %zu\n", cases[i].fn, cases[i].off);
		assert_string_equal(text, cases[i].want);
	}
}

static void test_every_version_gives_the_same_rows(void **state)
{
	static const int versions[] = {12, 116, 118, 120};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(versions); i++) {
		const struct gb_opts o = {.version = versions[i]};
		_cleanup_(done) struct got g = {0};
		_cleanup_(sbuf_done) struct sbuf b;
		struct gb_map m;

		gb_build(&o, fns, ARRAY_SIZE(fns), &b, &m);
		assert_int_equal(read_bytes(uw_go_read, &b, NO_LIMIT, &g), 0);
		check_fns(&g, &m);
		assert_int_equal(g.stats.entries, ARRAY_SIZE(fns));
		assert_int_equal(g.stats.bad_entries, 0);
	}
}

static void test_table_without_a_section_is_found_in_the_data(void **state)
{
	const struct gb_opts o = {.version = 120, .in_data = true};
	_cleanup_(done) struct got g = {0};
	_cleanup_(sbuf_done) struct sbuf b;
	struct gb_map m;

	(void)state;
	gb_build(&o, fns, ARRAY_SIZE(fns), &b, &m);
	assert_int_equal(read_bytes(uw_go_read, &b, NO_LIMIT, &g), 0);
	check_fns(&g, &m);
}

static void test_start_of_text_is_found_in_the_code(void **state)
{
	/* no-op; call runtime.goexit1, 25 bytes on; no-op: of two with that name, it is the second
	 */
	static const uint8_t goexit[] = {0x90, 0xe8, 26, 0, 0, 0, 0x90, 0xcc};
	const struct gb_fn with[] = {
	        STORE,
	        {.name = "runtime.goexit",
	         .flag = 1,
	         .code = goexit,
	         .len = sizeof(goexit),
	         .step = {{0, 8}}},
	        {.name = "runtime.goexit1", .len = 24, .step = {{0, 24}}},
	        {.name = "runtime.goexit1", .len = 16, .step = {{0, 16}}},
	};
	struct gb_opts o = {.version = 120, .no_text_start = true, .lead = 48};

	(void)state;
	for (size_t n = 2; n <= ARRAY_SIZE(with); n++) {
		_cleanup_(done) struct got g = {0};
		_cleanup_(sbuf_done) struct sbuf b;
		struct gb_map m;

		gb_build(&o, with, n, &b, &m);
		if (n < ARRAY_SIZE(with)) {
			assert_int_equal(read_bytes(uw_go_read, &b, NO_LIMIT, &g), -ENOENT);
			continue;
		}
		assert_int_equal(read_bytes(uw_go_read, &b, NO_LIMIT, &g), 0);
		assert_string_equal(text_at(&g, m.at[0] + 9), "r7+48 fp");
		assert_string_equal(text_at(&g, m.at[1]), "root");
		assert_string_equal(text_at(&g, m.at[0] - 1), "none");
	}
}

static void test_files_without_a_known_table_are_left_out(void **state)
{
	static const struct gb_opts cases[] = {
	        {.version = 120, .section = ".text"},
	        {.version = 120, .magic = 0xfffffff2},
	        {.version = 120, .quantum = 4},
	        {.version = 120, .no_text_start = true}, /* and no code to find it by */
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		_cleanup_(done) struct got g = {0};
		_cleanup_(sbuf_done) struct sbuf b;
		struct gb_map m;

		gb_build(&cases[i], fns, ARRAY_SIZE(fns), &b, &m);
		assert_int_equal(read_bytes(uw_go_read, &b, NO_LIMIT, &g), -ENOENT);
		assert_int_equal(read_bytes(uw_go_special_read, &b, NO_LIMIT, &g), -ENOENT);
		assert_int_equal(g.n_fn, 0);
	}
}

static void test_start_of_the_program_is_outermost(void **state)
{
	const struct gb_fn start[] = {
	        {.name = "_rt0_amd64_linux", .len = 16, .step = {{0, 16}}},
	        {.name = "_rt0_amd64_linux_lib", .len = 16, .step = {{0, 16}}},
	};
	const struct gb_opts o = {.version = 120};
	_cleanup_(done) struct got g = {0};
	_cleanup_(sbuf_done) struct sbuf b;
	struct gb_map m;

	(void)state;
	gb_build(&o, start, ARRAY_SIZE(start), &b, &m);
	assert_int_equal(read_bytes(uw_go_read, &b, NO_LIMIT, &g), 0);
	assert_string_equal(text_at(&g, m.at[0]), "root");
	assert_string_equal(text_at(&g, m.at[1]), "r7+8");
}

static void test_damaged_function_costs_that_one(void **state)
{
	const struct gb_opts o = {.version = 120};
	_cleanup_(done) struct got g = {0};
	_cleanup_(sbuf_done) struct sbuf b;
	const uint32_t outside = 0x7fffffff;
	struct gb_map m;

	(void)state;
	gb_build(&o, fns, ARRAY_SIZE(fns), &b, &m);
	/* The place of the second function's record. */
	memcpy(b.p + m.table + 8 + 8 * 8 + 8 + 4, &outside, sizeof(outside));
	assert_int_equal(read_bytes(uw_go_read, &b, NO_LIMIT, &g), 0);
	assert_int_equal(g.stats.bad_entries, 1);
	assert_string_equal(text_at(&g, m.at[1] + 9), "none");
	assert_string_equal(text_at(&g, m.at[0] + 8), "r7+48 fp");
	assert_string_equal(text_at(&g, m.at[2] + 4), "r7+16");
}

static void test_limits_and_failures_end_the_reading(void **state)
{
	const struct gb_opts o = {.version = 120};
	_cleanup_(done) struct got g = {0};
	_cleanup_(sbuf_done) struct sbuf b;
	struct gb_map m;

	(void)state;
	gb_build(&o, fns, ARRAY_SIZE(fns), &b, &m);
	assert_int_equal(read_bytes(uw_go_read, &b, 8, &g), -E2BIG);
	assert_in_range(g.n_row, 1, 12);
	g.fail = -ENOMEM;
	assert_int_equal(read_bytes(uw_go_read, &b, NO_LIMIT, &g), -ENOMEM);
	assert_int_equal(g.n_row, 1);
}

/* ---- functions that change stacks ------------------------------------------------------------ */

/* push %rbp; mov %rsp, %rbp; call; mov 56(%rdx), %rsp; call *%rdi; mov 56(%rax), %rsp;
 * mov 96(%rax), %rbp; pop %rbp; ret; pop %rbp; jmp *%rdi */
static const uint8_t systemstack[] = {0x55, 0x48, 0x89, 0xe5, 0xe8, 0,    0,    0,    0,    0x48,
                                      0x8b, 0x62, 0x38, 0xff, 0xd7, 0x48, 0x8b, 0x60, 0x38, 0x48,
                                      0x8b, 0x68, 0x60, 0x5d, 0xc3, 0x5d, 0xff, 0xe7};
/* The same as compilers before 1.21 open and close a frame: sub $8, %rsp; mov %rbp, (%rsp);
 * lea (%rsp), %rbp; mov 56(%rdx), %rsp; call *%rdi; mov 56(%rax), %rsp; mov (%rsp), %rbp;
 * add $8, %rsp; ret */
static const uint8_t systemstack_old[] = {0x48, 0x83, 0xec, 0x08, 0x48, 0x89, 0x2c, 0x24,
                                          0x48, 0x8d, 0x2c, 0x24, 0x48, 0x8b, 0x62, 0x38,
                                          0xff, 0xd7, 0x48, 0x8b, 0x60, 0x38, 0x48, 0x8b,
                                          0x2c, 0x24, 0x48, 0x83, 0xc4, 0x08, 0xc3};
/* push %rbp; mov %rsp, %rbp; mov %rdi, 8(%rsp); mov %rdi, (%rsp); call; mov 8(%rsp), %rdi;
 * mov 8(%rdi), %rsi; sub (%rsp), %rsi; mov %rsi, %rsp; pop %rbp; ret */
static const uint8_t asmcgocall[] = {0x55, 0x48, 0x89, 0xe5, 0x48, 0x89, 0x7c, 0x24, 0x08,
                                     0x48, 0x89, 0x3c, 0x24, 0xe8, 0,    0,    0,    0,
                                     0x48, 0x8b, 0x7c, 0x24, 0x08, 0x48, 0x8b, 0x77, 0x10,
                                     0x48, 0x2b, 0x34, 0x24, 0x48, 0x89, 0xf4, 0x5d, 0xc3};
/* push %rbp; mov 56(%r14), %rsp; push %rax; call *%r12; pop %rax */
static const uint8_t mcall[] = {0x55, 0x49, 0x8b, 0x66, 0x38, 0x50, 0x41, 0xff, 0xd4, 0x58};
/* no-op; mov (%rbx), %rsp; mov 40(%rbx), %rbp; mov 8(%rbx), %rbx; jmp *%rbx */
static const uint8_t gogo[] = {0x90, 0x48, 0x8b, 0x23, 0x48, 0x8b, 0x6b,
                               0x28, 0x48, 0x8b, 0x5b, 0x08, 0xff, 0xe3};
/* mov $15, %rax; syscall */
static const uint8_t sigreturn[] = {0x48, 0xc7, 0xc0, 0x0f, 0, 0, 0, 0x0f, 0x05};

/* Without a frame: mov %rdi, 48(%rsp); mov %rdi, 40(%rsp); call *%rax; mov 48(%rsp), %rdi;
 * mov 8(%rdi), %rsi; sub 40(%rsp), %rsi; mov %rsi, %rsp; ret */
static const uint8_t asmcgocall_old[] = {0x48, 0x89, 0x7c, 0x24, 0x30, 0x48, 0x89, 0x7c,
                                         0x24, 0x28, 0xff, 0xd0, 0x48, 0x8b, 0x7c, 0x24,
                                         0x30, 0x48, 0x8b, 0x77, 0x08, 0x48, 0x2b, 0x74,
                                         0x24, 0x28, 0x48, 0x89, 0xf4, 0xc3};
/* Without a frame: mov %rdx, %r14; mov 56(%rdx), %rbx; mov %rbx, %rsp; call *%rdi;
 * mov 48(%rax), %rbx; mov 192(%rbx), %rax; mov 56(%rax), %rsp; ret */
static const uint8_t systemstack_bare[] = {0x49, 0x89, 0xd6, 0x48, 0x8b, 0x5a, 0x38,
                                           0x48, 0x89, 0xdc, 0xff, 0xd7, 0x48, 0x8b,
                                           0x58, 0x30, 0x48, 0x8b, 0x83, 0xc0, 0,
                                           0,    0,    0x48, 0x8b, 0x60, 0x38, 0xc3};

#define FN(fn_name, bytes, ...)                                                                    \
	{                                                                                          \
		.name = (fn_name), .code = (bytes), .len = sizeof(bytes), .pad = 4, .step = {      \
			__VA_ARGS__                                                                \
		}                                                                                  \
	}
static const struct gb_fn specials[] = {
        FN("runtime.systemstack", systemstack, {0, 1}, {8, 23}, {0, 1}, {8, 1}, {0, 2}),
        FN("runtime.nanotime1", systemstack_old, {0, 4}, {8, 26}, {0, 1}),
        FN("runtime.asmcgocall", asmcgocall, {0, 1}, {8, 34}, {0, 1}),
        FN("runtime.mcall", mcall, {0, 1}, {8, 9}),
        FN("gogo", gogo, {0, 14}),
        FN("runtime.sigreturn__sigaction", sigreturn, {0, 9}),
        FN("runtime.asyncPreempt", code_push, {0, 1}, {8, 7}, {40, 15}),
        {.name = "runtime.sigtramp",
         .flag = 1,
         .code = code_bare,
         .len = sizeof(code_bare),
         .step = {{0, 4}, {8, 9}}},
};

static void test_functions_that_change_stacks_have_their_own_rules(void **state)
{
	static const struct {
		size_t fn;
		int off;
		const char *want;
	} cases[] = {
	        {0, 0, "r7+8"},       {0, 1, "r7+16 fp"},   {0, 4, "r6+16 fp"},
	        {0, 13, "r6+16 fp"},  {0, 22, "r6+16 fp"},  {0, 23, "r6+16 fp"},
	        {0, 24, "r7+8"},      {0, 25, "r6+16 fp"},  {0, 26, "r7+8"},
	        {1, 4, "r7+16"},      {1, 8, "r7+16 fp"},   {1, 12, "r6+16 fp"},
	        {1, 22, "r6+16 fp"},  {1, 26, "r7+16 fp"},  {1, 30, "r7+8"},
	        {2, 4, "r6+16 fp"},   {2, 12, "r6+16 fp"},  {2, 13, "cfa 2"},
	        {2, 33, "cfa 2"},     {2, 34, "r6+16 fp"},  {2, 35, "r7+8"},
	        {3, 1, "r7+16 fp"},   {3, 4, "r7+16 fp"},   {3, 5, "root"},
	        {3, 9, "root"},       {4, 3, "r7+8"},       {4, 4, "r7+0 S ra"},
	        {4, 8, "r7+0 S ra"},  {4, 12, "r7+0 S ra"}, {5, -2, "none"},
	        {5, -1, "cfa 1"},     {5, 8, "cfa 1"},      {6, 0, "r7+8 S"},
	        {6, 8, "r7+48 S fp"}, {7, 0, "r7+8"},       {7, 4, "r7+16"},
	};
	const struct gb_opts o = {.version = 120};
	_cleanup_(done) struct got g = {0};
	_cleanup_(sbuf_done) struct sbuf b;
	struct uw_rule r;
	struct gb_map m;

	(void)state;
	gb_build(&o, specials, ARRAY_SIZE(specials), &b, &m);
	assert_int_equal(read_bytes(uw_go_special_read, &b, NO_LIMIT, &g), 0);
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		const char *text = text_at(&g, m.at[cases[i].fn] + (uint64_t)(int64_t)cases[i].off);

		if (strcmp(text, cases[i].want) != 0)
			print_error("%s + %d\n", specials[cases[i].fn].name, cases[i].off);
		assert_string_equal(text, cases[i].want);
	}
	r = rule_at(&g, m.at[4] + 4);
	assert_int_equal(r.col[ABI_COL_RA].kind, ABI_COL_AT_REG);
	assert_int_equal(r.col[ABI_COL_RA].val, 3 | 8 << 8);
	assert_int_equal(r.col[ABI_REG_FP].kind, ABI_COL_AT_REG);
	assert_int_equal(r.col[ABI_REG_FP].val, 3 | 40 << 8);
	r = rule_at(&g, m.at[4] + 8);
	assert_int_equal(r.col[ABI_REG_FP].kind, ABI_COL_SAME);
	r = rule_at(&g, m.at[4] + 12);
	assert_int_equal(r.col[ABI_COL_RA].kind, ABI_COL_REG);
	assert_int_equal(r.col[ABI_COL_RA].val, 3);
	r = rule_at(&g, m.at[5]);
	assert_true(r.signal);
	assert_int_equal(r.cfa_off, 160);
	assert_int_equal(r.col[ABI_COL_RA].val, ABI_REG_SP | 168 << 8);
	assert_int_equal(r.col[ABI_REG_FP].val, ABI_REG_SP | 120 << 8);
}

static void test_depth_slot_is_an_expression(void **state)
{
	static const struct abi_op want[] = {
	        {.op = ABI_OP_REG, .reg = ABI_REG_SP, .arg = 8},
	        {.op = ABI_OP_DEREF},
	        {.op = ABI_OP_PLUS_CONST, .arg = 16},
	        {.op = ABI_OP_DEREF},
	        {.op = ABI_OP_REG, .reg = ABI_REG_SP},
	        {.op = ABI_OP_DEREF},
	        {.op = ABI_OP_MINUS},
	        {.op = ABI_OP_PLUS_CONST, .arg = 16},
	        {.op = ABI_OP_END},
	};
	const struct gb_opts o = {.version = 120};
	_cleanup_(done) struct got g = {0};
	_cleanup_(sbuf_done) struct sbuf b;
	struct uw_rule r;
	struct gb_map m;

	(void)state;
	gb_build(&o, specials, ARRAY_SIZE(specials), &b, &m);
	assert_int_equal(read_bytes(uw_go_special_read, &b, NO_LIMIT, &g), 0);
	r = rule_at(&g, m.at[2] + 17);
	assert_int_equal(r.cfa_kind, ABI_CFA_EXPR);
	assert_memory_equal(uw_rules_mem(g.rules)->ops + r.cfa_off, want, sizeof(want));
	assert_int_equal(r.col[14].kind, ABI_COL_AT_REG);
	assert_int_equal(r.col[14].val, ABI_REG_SP | 8 << 8);
}

static void test_code_that_is_not_as_expected_keeps_ordinary_rules(void **state)
{
	static const struct gb_fn other[] = {
	        FN("runtime.systemstack", code_bare, {0, 4}, {8, 9}),
	        FN("runtime.asmcgocall", code_bare, {0, 4}, {8, 9}),
	        FN("runtime.mcall", code_bare, {0, 4}, {8, 9}),
	        FN("gogo", code_bare, {0, 4}, {8, 9}),
	        FN("runtime.sigreturn", code_bare, {0, 4}, {8, 9}),
	        FN("main.systemstack", systemstack, {0, 1}, {8, 27}),
	};
	const struct gb_opts o = {.version = 120};
	_cleanup_(done) struct got g = {0};
	_cleanup_(sbuf_done) struct sbuf b;
	struct gb_map m;

	(void)state;
	gb_build(&o, other, ARRAY_SIZE(other), &b, &m);
	assert_int_equal(read_bytes(uw_go_special_read, &b, NO_LIMIT, &g), -ENOENT);
	assert_int_equal(g.n_fn, 0);
}

static void test_functions_without_frames_are_followed_by_expressions(void **state)
{
	static const struct gb_fn old[] = {
	        FN("runtime.asmcgocall", asmcgocall_old, {0, 30}),
	        FN("runtime.systemstack", systemstack_bare, {0, 28}),
	};
	static const struct abi_op want[] = {
	        {.op = ABI_OP_REG, .reg = 14, .arg = 48}, {.op = ABI_OP_DEREF},
	        {.op = ABI_OP_PLUS_CONST, .arg = 192},    {.op = ABI_OP_DEREF},
	        {.op = ABI_OP_PLUS_CONST, .arg = 56},     {.op = ABI_OP_DEREF},
	        {.op = ABI_OP_PLUS_CONST, .arg = 8},      {.op = ABI_OP_END},
	};
	const struct gb_opts o = {.version = 118};
	_cleanup_(done) struct got g = {0};
	_cleanup_(sbuf_done) struct sbuf b;
	const struct abi_op *ops;
	struct uw_rule r;
	struct gb_map m;

	(void)state;
	gb_build(&o, old, ARRAY_SIZE(old), &b, &m);
	assert_int_equal(read_bytes(uw_go_special_read, &b, NO_LIMIT, &g), 0);
	assert_string_equal(text_at(&g, m.at[0] + 9), "r7+8");
	assert_string_equal(text_at(&g, m.at[0] + 10), "cfa 2");
	assert_string_equal(text_at(&g, m.at[0] + 28), "cfa 2");
	assert_string_equal(text_at(&g, m.at[0] + 29), "r7+8");
	r = rule_at(&g, m.at[0] + 11);
	assert_int_equal(r.col[ABI_REG_FP].kind, ABI_COL_SAME);
	assert_int_equal(r.col[14].val, ABI_REG_SP | 48 << 8);
	ops = uw_rules_mem(g.rules)->ops + r.cfa_off;
	assert_int_equal(ops[4].arg, 40);
	assert_int_equal(ops[7].arg, 8);
	assert_string_equal(text_at(&g, m.at[1] + 9), "r7+8");
	assert_string_equal(text_at(&g, m.at[1] + 10), "cfa 2");
	assert_string_equal(text_at(&g, m.at[1] + 26), "cfa 2");
	assert_string_equal(text_at(&g, m.at[1] + 27), "r7+8");
	r = rule_at(&g, m.at[1] + 11);
	assert_int_equal(r.col[ABI_REG_FP].kind, ABI_COL_SAME);
	assert_memory_equal(uw_rules_mem(g.rules)->ops + r.cfa_off, want, sizeof(want));
}

/* ---- growing stacks -------------------------------------------------------------------------- */

/* mov (%rsp), %rax; mov %rax, 64(%rdi); lea 8(%rsp), %rax; mov %rax, 56(%rdi); mov %rbp, 96(%rdi);
 * mov (%rbx), %rbx; mov 56(%rbx), %rsp; call; ret */
static const uint8_t morestack[] = {0x48, 0x8b, 0x04, 0x24, 0x48, 0x89, 0x47, 0x40, 0x48,
                                    0x8d, 0x44, 0x24, 0x08, 0x48, 0x89, 0x47, 0x38, 0x48,
                                    0x89, 0x6f, 0x60, 0x48, 0x8b, 0x1b, 0x48, 0x8b, 0x63,
                                    0x38, 0xe8, 0,    0,    0,    0,    0xc3};
/* xorps %xmm15, %xmm15; jmp */
static const uint8_t wrapper[] = {0x45, 0x0f, 0x57, 0xff, 0xe9, 0, 0, 0, 0};
/* push %rbp; mov %rsp, %rbp; three calls, two of them of the scheduler; pop %rbp; ret */
#define NEWSTACK                                                                                   \
	{                                                                                          \
		0x55, 0x48, 0x89, 0xe5, 0xe8, 0, 0, 0, 0, 0xe8, 0, 0, 0, 0, 0xe8, 0, 0, 0, 0,      \
		        0x5d, 0xc3                                                                 \
	}
#define NEWSTACK_BYTES 21

enum { G_SYSTEMSTACK, G_NEWSTACK, G_WRAPPER, G_MORESTACK, G_PREEMPT, G_PARK, G_FNS };

/* A program whose newstack calls @preempt and @park, places in @fn. */
static void grow_build(struct gb_fn *fn, uint8_t *code, size_t preempt, size_t park, struct sbuf *b,
                       struct gb_map *m)
{
	static const uint8_t newstack[] = NEWSTACK;
	const struct gb_opts o = {.version = 120};
	const size_t callee[] = {G_WRAPPER, preempt, park};

	memcpy(code, newstack, sizeof(newstack));
	gb_build(&o, fn, G_FNS, b, m); /* the places are known after the first */
	for (size_t i = 0; i < ARRAY_SIZE(callee); i++) {
		const int32_t rel =
		        (int32_t)(m->at[callee[i]] - (m->at[G_NEWSTACK] + 4 + 5 * i + 5));

		memcpy(code + 4 + 5 * i + 1, &rel, sizeof(rel));
	}
	sbuf_done(b);
	gb_build(&o, fn, G_FNS, b, m);
}

#define GROWERS(code)                                                                              \
	{                                                                                          \
		[G_SYSTEMSTACK] = FN("runtime.systemstack", systemstack_bare, {0, 28}),            \
		[G_NEWSTACK] = {.name = "runtime.newstack",                                        \
		                .code = (code),                                                    \
		                .len = NEWSTACK_BYTES,                                             \
		                .pad = 4,                                                          \
		                .step = {{0, 1}, {8, 19}, {0, 1}}},                                \
		[G_WRAPPER] = FN("runtime.newstack", wrapper, {0, 9}),                             \
		[G_MORESTACK] = FN("runtime.morestack", morestack, {0, 34}),                       \
		[G_PREEMPT] = FN("runtime.gopreempt_m", code_bare, {0, 4}, {8, 9}),                \
		[G_PARK] = FN("runtime.preemptPark", code_bare, {0, 4}, {8, 9}),                   \
	}

/* A thread, its g0 and a goroutine as those offsets say. */
struct memory {
	const struct uw_rules_mem *rules;
	uint64_t thread[32], g0[16], g[16];
};

static int memory_read(const struct memory *mem, uint64_t *ret, uint64_t addr)
{
	const uint64_t off = addr - (uint64_t)(uintptr_t)mem;

	if (off < offsetof(struct memory, thread) || off > sizeof(*mem) - 8)
		return -1;
	memcpy(ret, (const char *)mem + off, 8);
	return 0;
}

#define UW_MEM                       const struct memory
#define UW_READ(mem, ret, addr)      memory_read(mem, (uint64_t *)(ret), addr)
#define UW_READ_CODE(mem, ret, addr) ((void)(mem), (void)(ret), (void)(addr), -1)
#define UW_IS_CODE(mem, addr, sure)  ((void)(mem), (void)(sure), (void)(addr), 0)
#define UW_RULE(m, i)                ((i) < (m)->rules->n_rules ? &(m)->rules->rules[i] : NULL)
#define UW_WIDE(m, i)                ((i) < (m)->rules->n_wides ? &(m)->rules->wides[i] : NULL)
#define UW_OP(m, i)                  ((i) < (m)->rules->n_ops ? &(m)->rules->ops[i] : NULL)
#include "step/step.h"

static uint64_t addr_of(const void *p)
{
	return (uint64_t)(uintptr_t)p;
}

static void memory_fill(struct memory *mem)
{
	mem->g0[48 / 8] = mem->g[48 / 8] = addr_of(mem->thread);
	mem->thread[192 / 8] = addr_of(mem->g);
	mem->g[64 / 8] = 0x401234;
	mem->g[56 / 8] = 0xc000001000;
	mem->g[96 / 8] = 0xc000001080;
}

/* The step from morestack's call of newstack on. */
static int grow_step(const struct got *g, const struct memory *mem, const struct gb_map *m,
                     uint64_t r14, struct uw_state *u)
{
	const struct uw_rule rule = rule_at(g, m->at[G_MORESTACK] + 32);
	struct uw_quota quota = {0};
	uint16_t code;

	assert_int_equal(uw_rules_code(g->rules, &quota, &rule, &code), 0);
	memset(u, 0, sizeof(*u));
	u->pc = m->at[G_MORESTACK] + 33;
	u->reg[ABI_REG_SP] = 0x7000;
	u->reg[14] = r14;
	uw_begin(u);
	u->exact = 0;
	return uw_step(u, mem, code);
}

static void test_stack_that_grows_leads_to_the_function_that_needed_it(void **state)
{
	uint8_t code[NEWSTACK_BYTES];
	struct gb_fn fn[] = GROWERS(code);
	struct memory mem = {0};
	_cleanup_(done) struct got g = {0};
	_cleanup_(sbuf_done) struct sbuf b;
	struct uw_state u;
	struct gb_map m;
	__u64 fp;

	(void)state;
	grow_build(fn, code, G_PREEMPT, G_PARK, &b, &m);
	assert_int_equal(read_bytes(uw_go_special_read, &b, NO_LIMIT, &g), 0);
	assert_string_equal(text_at(&g, m.at[G_MORESTACK] + 27), "r7+8");
	assert_string_equal(text_at(&g, m.at[G_MORESTACK] + 28), "cfa 2");
	assert_string_equal(text_at(&g, m.at[G_MORESTACK] + 32), "cfa 2");
	assert_string_equal(text_at(&g, m.at[G_WRAPPER]), "none"); /* the ordinary rules stay */

	mem.rules = uw_rules_mem(g.rules);
	memory_fill(&mem);
	for (int i = 0; i < 2; i++) {
		assert_int_equal(grow_step(&g, &mem, &m, addr_of(i ? mem.g : mem.g0), &u), 0);
		assert_int_equal(u.pc, 0x401234);
		assert_int_equal(u.exact, 0);
		assert_int_equal(u.reg[ABI_REG_SP], 0xc000001000);
		assert_int_equal(uw_value(&u, &mem, ABI_REG_FP, &fp), 0);
		assert_int_equal(fp, 0xc000001080);
		assert_int_equal(uw_value(&u, &mem, 14, &fp), 0);
		assert_int_equal(fp, addr_of(mem.g));
		assert_int_not_equal(uw_value(&u, &mem, 3, &fp), 0);
	}
	/* No goroutine any more; one of another thread; no goroutine's register. */
	mem.thread[192 / 8] = 0;
	assert_int_equal(grow_step(&g, &mem, &m, addr_of(mem.g0), &u), ABI_WALK_ROOT);
	memory_fill(&mem);
	mem.g[48 / 8] = addr_of(mem.thread) + 8;
	assert_int_equal(grow_step(&g, &mem, &m, addr_of(mem.g0), &u), ABI_WALK_ROOT);
	assert_int_equal(grow_step(&g, &mem, &m, 0x1234, &u), ABI_WALK_FAULT);
}

static void test_scheduler_under_newstack_is_nobodys(void **state)
{
	uint8_t code[NEWSTACK_BYTES];
	struct gb_fn fn[] = GROWERS(code);
	_cleanup_(done) struct got g = {0};
	_cleanup_(sbuf_done) struct sbuf b;
	struct gb_map m;

	(void)state;
	/* Either name will do for the first way. */
	for (int i = 0; i < 2; i++) {
		grow_build(fn, code, G_PREEMPT, G_PARK, &b, &m);
		assert_int_equal(read_bytes(uw_go_special_read, &b, NO_LIMIT, &g), 0);
		assert_string_equal(text_at(&g, m.at[G_NEWSTACK]), "r7+8");
		/* The call of another function; not yet called; called; behind both. */
		assert_string_equal(text_at(&g, m.at[G_NEWSTACK] + 8), "r7+16 fp");
		assert_string_equal(text_at(&g, m.at[G_NEWSTACK] + 9), "r7+16 fp");
		assert_string_equal(text_at(&g, m.at[G_NEWSTACK] + 13), "root");
		assert_string_equal(text_at(&g, m.at[G_NEWSTACK] + 14), "r7+16 fp");
		assert_string_equal(text_at(&g, m.at[G_NEWSTACK] + 18), "root");
		assert_string_equal(text_at(&g, m.at[G_NEWSTACK] + 19), "r7+16 fp");
		assert_string_equal(text_at(&g, m.at[G_NEWSTACK] + 20), "r7+8");
		sbuf_done(&b);
		fn[G_PREEMPT].name = "runtime.goschedImpl";
	}
	sbuf_init(&b, 0);
}

/* Each of them is as it was before: morestack ends the stack, newstack is like any function. */
static void test_stack_that_grows_in_an_unknown_way_ends_there(void **state)
{
	static const struct {
		size_t preempt, park, other; /* other: a function that is not as expected */
	} cases[] = {
	        {G_WRAPPER, G_PARK, G_FNS},
	        {G_PREEMPT, G_WRAPPER, G_FNS},
	        {G_PREEMPT, G_PARK, G_SYSTEMSTACK},
	        {G_PREEMPT, G_PARK, G_PARK},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(cases) + sizeof(morestack); i++) {
		const size_t k = MIN_OF(i, ARRAY_SIZE(cases) - 1), byte = i - ARRAY_SIZE(cases);
		uint8_t code[NEWSTACK_BYTES], more[sizeof(morestack)];
		struct gb_fn fn[] = GROWERS(code);
		_cleanup_(done) struct got g = {0};
		_cleanup_(sbuf_done) struct sbuf b;
		struct gb_map m;

		if (i < ARRAY_SIZE(cases) && cases[k].other < G_FNS)
			fn[cases[k].other].name = "main.other";
		memcpy(more, morestack, sizeof(more));
		fn[G_MORESTACK].code = more;
		if (i >= ARRAY_SIZE(cases)) {
			/* Of its instructions, up to the switch, each byte counts but the offsets
			 * of g0 and of what is saved. */
			if (byte >= 28 || byte == 7 || byte == 20 || byte == 21 || byte == 22 ||
			    byte == 23) {
				sbuf_init(&b, 0);
				continue;
			}
			more[byte] ^= 0x10;
		}
		grow_build(fn, code, cases[k].preempt, cases[k].park, &b, &m);
		(void)read_bytes(uw_go_special_read, &b, NO_LIMIT, &g);
		if (i >= ARRAY_SIZE(cases))
			assert_string_not_equal(text_at(&g, m.at[G_MORESTACK] + 32), "cfa 2");
		else
			assert_string_equal(text_at(&g, m.at[G_MORESTACK] + 32), "root");
		assert_string_equal(text_at(&g, m.at[G_NEWSTACK] + 13), "none");
	}
}

/* ---- damage ---------------------------------------------------------------------------------- */

static void mutate(const struct gb_opts *o, const struct gb_fn *fn, size_t n)
{
	static const uint8_t with[] = {0x01, 0x80, 0xff, 0x7f};
	_cleanup_(done) struct got g = {0};
	_cleanup_(sbuf_done) struct sbuf b;
	struct gb_map m;

	gb_build(o, fn, n, &b, &m);
	for (size_t i = GB_TEXT_OFF; i < b.len; i++) {
		if (i >= GB_TEXT_OFF + m.text_len && i < m.table)
			continue;
		for (size_t k = 0; k < ARRAY_SIZE(with); k++) {
			b.p[i] = (char)((uint8_t)b.p[i] ^ with[k]);
			/* The sink checks what comes; any result is good. */
			(void)read_bytes(uw_go_read, &b, NO_LIMIT, &g);
			(void)read_bytes(uw_go_special_read, &b, NO_LIMIT, &g);
			b.p[i] = (char)((uint8_t)b.p[i] ^ with[k]);
		}
	}
	/* Cut short, wherever. */
	for (size_t len = m.table; len < b.len; len++) {
		const struct sbuf cut = {.p = b.p, .len = len};

		(void)read_bytes(uw_go_read, &cut, NO_LIMIT, &g);
	}
}

static void test_damage_anywhere_is_survived(void **state)
{
	static const int versions[] = {12, 116, 118, 120};
	uint8_t code[NEWSTACK_BYTES];
	struct gb_fn growers[] = GROWERS(code);
	struct gb_map m;
	struct sbuf b;

	(void)state;
	grow_build(growers, code, G_PREEMPT, G_PARK, &b, &m); /* fills in the calls */
	sbuf_done(&b);
	for (size_t i = 0; i < ARRAY_SIZE(versions); i++) {
		const struct gb_opts o = {.version = versions[i]};

		mutate(&o, fns, ARRAY_SIZE(fns));
		mutate(&o, specials, ARRAY_SIZE(specials));
		mutate(&o, growers, G_FNS);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	        cmocka_unit_test(test_every_version_gives_the_same_rows),
	        cmocka_unit_test(test_table_without_a_section_is_found_in_the_data),
	        cmocka_unit_test(test_start_of_text_is_found_in_the_code),
	        cmocka_unit_test(test_files_without_a_known_table_are_left_out),
	        cmocka_unit_test(test_start_of_the_program_is_outermost),
	        cmocka_unit_test(test_damaged_function_costs_that_one),
	        cmocka_unit_test(test_limits_and_failures_end_the_reading),
	        cmocka_unit_test(test_functions_that_change_stacks_have_their_own_rules),
	        cmocka_unit_test(test_functions_without_frames_are_followed_by_expressions),
	        cmocka_unit_test(test_depth_slot_is_an_expression),
	        cmocka_unit_test(test_code_that_is_not_as_expected_keeps_ordinary_rules),
	        cmocka_unit_test(test_stack_that_grows_leads_to_the_function_that_needed_it),
	        cmocka_unit_test(test_scheduler_under_newstack_is_nobodys),
	        cmocka_unit_test(test_stack_that_grows_in_an_unknown_way_ends_there),
	        cmocka_unit_test(test_damage_anywhere_is_survived),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}

#endif
