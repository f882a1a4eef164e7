/* SPDX-License-Identifier: Apache-2.0 */
/* Go functions that change or grow stacks, and damaged tables. */
#include "go_rows.h"

#ifdef ABI_ARM64

int main(void)
{
	puts("1..0 # SKIP the code in this test is x86-64");
	return 0;
}

#else

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
		/* The call of another function; not yet called; called; after both. */
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
			/* Each byte of its instructions, up to the switch, counts but the offsets
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

/* Each function that was read is one of the whole file's. */
static void expect_functions(const struct got *g, const struct got *whole, bool all)
{
	size_t k = 0;

	for (size_t i = 0; i < g->n_fn; i++, k++) {
		while (k < whole->n_fn && whole->fn[k].start < g->fn[i].start)
			k++;
		assert_true(k < whole->n_fn);
		assert_int_equal(g->fn[i].start, whole->fn[k].start);
		assert_int_equal(g->fn[i].end, whole->fn[k].end);
	}
	if (all)
		assert_int_equal(g->n_fn, whole->n_fn);
}

static void mutate(const struct gb_opts *o, const struct gb_fn *fn, size_t n)
{
	static const uint8_t with[] = {0x01, 0x80, 0xff, 0x7f};
	_cleanup_(done) struct got g = {0}, whole = {0};
	_cleanup_(sbuf_done) struct sbuf b;
	struct gb_map m;
	int r;

	gb_build(o, fn, n, &b, &m);
	assert_int_equal(read_bytes(uw_go_read, &b, NO_LIMIT, &whole), 0);
	assert_true(whole.n_fn > 0);
	for (size_t i = GB_TEXT_OFF; i < b.len; i++) {
		if (i >= GB_TEXT_OFF + m.text_len && i < m.table)
			continue;
		for (size_t k = 0; k < ARRAY_SIZE(with); k++) {
			b.p[i] = (char)((uint8_t)b.p[i] ^ with[k]);
			/* The sink checks order and bounds. Code that is damaged moves no
			 * function. */
			r = read_bytes(uw_go_read, &b, NO_LIMIT, &g);
			assert_true(r == 0 || r == -ENOENT || r == -E2BIG);
			if (i < GB_TEXT_OFF + m.text_len)
				expect_functions(&g, &whole, true);
			(void)read_bytes(uw_go_special_read, &b, NO_LIMIT, &g);
			b.p[i] = (char)((uint8_t)b.p[i] ^ with[k]);
		}
	}
	/* Cut short, wherever. */
	for (size_t len = m.table; len < b.len; len++) {
		const struct sbuf cut = {.p = b.p, .len = len};

		r = read_bytes(uw_go_read, &cut, NO_LIMIT, &g);
		assert_true(r == 0 || r == -ENOENT);
		expect_functions(&g, &whole, false);
	}
}

static void test_damaged_code_moves_no_function_and_a_cut_table_invents_none(void **state)
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
	        cmocka_unit_test(test_functions_that_change_stacks_have_their_own_rules),
	        cmocka_unit_test(test_functions_without_frames_are_followed_by_expressions),
	        cmocka_unit_test(test_depth_slot_is_an_expression),
	        cmocka_unit_test(test_code_that_is_not_as_expected_keeps_ordinary_rules),
	        cmocka_unit_test(test_stack_that_grows_leads_to_the_function_that_needed_it),
	        cmocka_unit_test(test_scheduler_under_newstack_is_nobodys),
	        cmocka_unit_test(test_stack_that_grows_in_an_unknown_way_ends_there),
	        cmocka_unit_test(test_damaged_code_moves_no_function_and_a_cut_table_invents_none),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
#endif
