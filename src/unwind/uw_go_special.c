/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Go functions whose caller is not at the depth of the stack.
 *
 * Most of those that change stacks keep their frame pointer: it was set up before the change, the
 * code that they call saves and restores it (Go's conventions and C's alike), so it leads back
 * across the change. Where a frame lies on another stack that may have moved meanwhile, or where
 * the change is final, the instructions are searched for what the rule needs; a function that does
 * not look as expected keeps its ordinary rules.
 *
 * Source: Go's runtime/asm_amd64.s, runtime/sys_linux_amd64.s, runtime/preempt_amd64.s.
 */
#include "unwind/uw_go_special.h"

#ifdef ABI_ARM64

int uw_go_special_read(struct img_file *f, struct uw_sink *sink, const struct uw_build_limits *lim)
{
	(void)f;
	(void)sink;
	(void)lim;
	return -ENOENT;
}

#else

#define REG_RBX   3

enum kind {
	/* The frame pointer leads to the caller from where it is set up until it is restored. */
	BY_FP,
	/* The same. While C runs, a stack slot has the depth of the goroutine's stack, which may
	 * move. */
	ASMCGOCALL,
	/* By the frame pointer, or by the goroutine's saved registers. */
	SYSTEMSTACK,
	/* Does not return to the caller once it is on the other stack. */
	LEAVES,
	/* The same, but the goroutine resumes where it was, and has that address. */
	MORESTACK,
	/* Called by morestack: it may give the thread to another goroutine, and never returns. */
	NEWSTACK,
	/* Jumps to the pc in a buffer. */
	GOGO,
	/* Ordinary, though marked as outermost: it returns to a signal's frame. */
	PLAIN,
	/* A signal handler made it look like a call: the caller's pc is exact. */
	INJECTED,
	/* The return from a signal: the kernel's frame is on the stack. */
	SIGRETURN,
};

static const struct {
	const char *name;
	enum kind kind;
} specials[] = {
        {"runtime.systemstack", SYSTEMSTACK},
        {"runtime.asmcgocall", ASMCGOCALL},
        {"runtime.asmcgocall_no_g", BY_FP},
        /* Called on the thread's stack, continues on the goroutine's: its caller is C. */
        {"runtime.cgocallback", BY_FP},
        {"runtime.nanotime1", BY_FP},
        {"time.now", BY_FP},
        {"runtime.walltime", BY_FP},
        {"runtime.walltime1", BY_FP},
        {"runtime.vgetrandom1", BY_FP},
        {"runtime.sigfwd", BY_FP},
        {"runtime.callCgoSigaction", BY_FP},
        {"runtime.callCgoMmap", BY_FP},
        {"runtime.callCgoMunmap", BY_FP},
        /* The scheduler works for no goroutine; the caller sleeps or runs elsewhere. */
        {"runtime.mcall", LEAVES},
        /* The same at its calls of the scheduler; else it works for the caller. */
        {"runtime.newstack", NEWSTACK},
        {"runtime.morestack", MORESTACK},
        {"gogo", GOGO},
        {"runtime.gogo", GOGO},
        {"runtime.sigtramp", PLAIN},
        {"runtime.sigreturn", SIGRETURN},
        {"runtime.sigreturn__sigaction", SIGRETURN},
        {"runtime.asyncPreempt", INJECTED},
        {"runtime.sigpanic", INJECTED},
        {"runtime.sigpanic0", INJECTED},
};

/* Returns the offset from which on the frame pointer is this frame's; 0 if it never is. */
static size_t fp_set_after(const struct uw_special *sp)
{
	for (size_t i = 0; i < sp->rows.n; i++) {
		const uint64_t off = sp->rows.p[i].at - sp->fn.start;
		const uint8_t *p;

		if (!sp->rows.p[i].saved)
			continue;
		if (off > sp->len || sp->len - off < 8)
			return 0;
		p = sp->code + off;
		if (p[0] != 0x48)
			return 0;
		if (p[1] == 0x89 && p[2] == 0xe5) /* mov %rsp, %rbp */
			return off + 3;
		if (p[1] == 0x8d && p[2] == 0x2c && p[3] == 0x24) /* lea (%rsp), %rbp */
			return off + 4;
		if (p[1] == 0x8d && p[2] == 0x6c && p[3] == 0x24) /* lea disp(%rsp), %rbp */
			return off + 5;
		if (p[1] == 0x8d && p[2] == 0xac && p[3] == 0x24)
			return off + 8;
		return 0;
	}
	return 0;
}

/* Returns the offset after the next mov depth - 8(%rsp), %rbp in [from, to), SIZE_MAX if there is
 * none. Compilers before 1.21 restore the frame pointer so, before they raise the stack pointer. */
static size_t fp_restored_after(const struct uw_special *sp, size_t from, size_t to, int32_t depth)
{
	for (size_t i = from; i + 5 <= sp->len && i < to; i++) {
		const uint8_t *p = sp->code + i;

		if (p[0] != 0x48 || p[1] != 0x8b || p[3] != 0x24)
			continue;
		if (p[2] == 0x2c && depth == 8)
			return i + 4;
		if (p[2] == 0x6c && p[4] == depth - 8)
			return i + 5;
	}
	return SIZE_MAX;
}

/* ---- kinds ----------------------------------------------------------------------------------- */

static const struct uw_rule by_fp = {
        .kind = ABI_RULE_FRAME,
        .cfa_kind = ABI_CFA_REG,
        .cfa_reg = ABI_REG_FP,
        .cfa_off = 16,
        .col[ABI_REG_FP] = {.kind = ABI_COL_AT_CFA, .val = -16},
        .col[ABI_COL_RA] = {.kind = ABI_COL_AT_CFA, .val = -8},
};

/* Gives the rows of [from, to) of a function that keeps its frame pointer. */
static int give_by_fp(struct uw_special *sp, uint64_t from, uint64_t to, size_t set)
{
	const uint64_t fp_from = sp->fn.start + set;
	int r = 0;

	for (size_t i = 0; i < sp->rows.n && r >= 0; i++) {
		const struct uw_go_row *row = &sp->rows.p[i];
		const uint64_t end =
		        MIN_OF(i + 1 < sp->rows.n ? sp->rows.p[i + 1].at : sp->rows.end, to);
		uint64_t at = MAX_OF(row->at, from), restored;
		size_t off;

		if (end <= at)
			continue;
		if (!row->saved || end <= fp_from) {
			r = uw_special_row(sp, at, i, false);
			continue;
		}
		if (at < fp_from) {
			r = uw_special_row(sp, at, i, false);
			at = fp_from;
		}
		if (r >= 0)
			r = uw_special_code(sp, at, &by_fp);
		off = fp_restored_after(sp, (size_t)(at - sp->fn.start),
		                        (size_t)(end - sp->fn.start), row->depth);
		restored = sp->fn.start + off;
		if (off != SIZE_MAX && restored < end && r >= 0)
			r = uw_special_row(sp, restored, i, false);
	}
	return r;
}

static int do_by_fp(struct uw_special *sp)
{
	const size_t set = fp_set_after(sp);
	int r;

	if (set == 0)
		return 0;
	r = uw_special_begin(sp, sp->fn.start);
	return r < 0 ? r : give_by_fp(sp, sp->fn.start, sp->rows.end, set);
}

/* Gives the rows by the frame pointer if there is one (@set: fp_set_after), else the ordinary
 * ones. */
static int give_kept(struct uw_special *sp, uint64_t from, uint64_t to, size_t set)
{
	return set ? give_by_fp(sp, from, to, set) : uw_special_plain(sp, from, to, false);
}

/* Returns the depth of the stack in the body, from the entry. */
static int32_t frame_depth(const struct uw_special *sp)
{
	int32_t depth = 0;

	for (size_t i = 0; i < sp->rows.n; i++)
		depth = MAX_OF(depth, sp->rows.p[i].depth);
	return depth;
}

/* Between two offsets of the code the CFA is an expression. */
struct switched {
	size_t from, to;
	size_t set; /* fp_set_after */
	struct abi_op ops[12];
	size_t n_ops;
	struct uw_col r14; /* the goroutine, in Go code */
};

static int give_switched(struct uw_special *sp, const struct switched *w)
{
	const uint64_t start = sp->fn.start;
	struct uw_rule rule = by_fp;
	int r = uw_rules_ops(sp->sink->rules, sp->sink->quota, w->ops, w->n_ops, &rule.cfa_off);

	if (r == -E2BIG)
		return w->set ? do_by_fp(sp) : 0;
	if (r < 0)
		return r;
	rule.cfa_kind = ABI_CFA_EXPR;
	rule.cfa_reg = 0;
	if (!w->set) /* compilers before 1.21 make no frame here: it is the caller's still */
		rule.col[ABI_REG_FP] = (struct uw_col){.kind = ABI_COL_SAME, .val = 0};
	rule.col[UW_REG_R14] = w->r14;
	r = uw_special_begin(sp, start);
	if (r >= 0)
		r = give_kept(sp, start, start + w->from, w->set);
	if (r >= 0)
		r = uw_special_code(sp, start + w->from, &rule);
	return r < 0 ? r : give_kept(sp, start + w->to, sp->rows.end, w->set);
}

/*
 * While C runs on the thread's stack, depth(%rsp) holds how far the caller's stack pointer was
 * below the end of the goroutine's stack, slot(%rsp) the goroutine, whose stack ends at hi in it.
 * r14 is the goroutine in Go code, and lost by C.
 */
static int do_asmcgocall(struct uw_special *sp)
{
	/* mov slot(%rsp), %rdi; mov hi(%rdi), %rsi; sub depth(%rsp), %rsi */
	static const uint8_t read[] = {0x48, 0x8b, 0x7c, 0x24, 0, 0x48, 0x8b, 0x77, 0, 0x48, 0x2b};
	static const uint8_t read_mask[] = {1, 1, 1, 1, 0, 1, 1, 1, 0, 1, 1};
	/* mov %rdi, depth(%rsp) */
	uint8_t write[] = {0x48, 0x89, 0x3c, 0x24, 0};
	/* mov %rsi, %rsp */
	static const uint8_t back[] = {0x48, 0x89, 0xf4};
	const size_t use = uw_special_find(sp, 0, read, read_mask, sizeof(read));
	struct switched w = {.set = fp_set_after(sp)};
	size_t write_len = 4;
	uint8_t slot, hi;

	if (use == SIZE_MAX || use + sizeof(read) + 3 > sp->len)
		return do_by_fp(sp);
	slot = sp->code[use + 4];
	hi = sp->code[use + 8];
	if (sp->code[use + 11] == 0x74 && sp->code[use + 12] == 0x24) {
		write[2] = 0x7c;
		write[4] = sp->code[use + 13];
		write_len = 5;
	} else if (sp->code[use + 11] != 0x34 || sp->code[use + 12] != 0x24) {
		return do_by_fp(sp);
	}
	w.from = uw_special_find(sp, w.set, write, NULL, write_len);
	w.to = uw_special_find(sp, use, back, NULL, sizeof(back));
	if (w.from == SIZE_MAX || w.from > use || w.to == SIZE_MAX)
		return do_by_fp(sp);
	w.from += write_len;
	w.to += sizeof(back);
	w.ops[w.n_ops++] = (struct abi_op){.op = ABI_OP_REG, .reg = ABI_REG_SP, .arg = slot};
	w.ops[w.n_ops++] = (struct abi_op){.op = ABI_OP_DEREF};
	w.ops[w.n_ops++] = (struct abi_op){.op = ABI_OP_PLUS_CONST, .arg = hi};
	w.ops[w.n_ops++] = (struct abi_op){.op = ABI_OP_DEREF};
	w.ops[w.n_ops++] = (struct abi_op){.op = ABI_OP_REG, .reg = ABI_REG_SP, .arg = write[4]};
	w.ops[w.n_ops++] = (struct abi_op){.op = ABI_OP_DEREF};
	w.ops[w.n_ops++] = (struct abi_op){.op = ABI_OP_MINUS};
	w.ops[w.n_ops++] = (struct abi_op){.op = ABI_OP_PLUS_CONST, .arg = frame_depth(sp) + 8};
	w.ops[w.n_ops++] = (struct abi_op){.op = ABI_OP_END};
	w.r14 = (struct uw_col){.kind = ABI_COL_AT_REG, .val = ABI_REG_SP | (int32_t)slot << 8};
	return give_switched(sp, &w);
}

/* mov sp(%rax), %rsp */
static const uint8_t to_g[] = {0x48, 0x8b, 0x60, 0};
static const uint8_t to_g_mask[] = {1, 1, 1, 0};

/*
 * Compilers before 1.21 make no frame for it: the goroutine's stack pointer is where the code
 * after the call reads it from, g.m.curg.sched.sp, and g is r14.
 */
static int do_systemstack(struct uw_special *sp)
{
	/* mov %rbx, %rsp */
	static const uint8_t leave[] = {0x48, 0x89, 0xdc};
	struct switched w = {.set = fp_set_after(sp)};
	size_t at, use;
	int32_t disp;

	if (w.set)
		return do_by_fp(sp);
	at = uw_special_find(sp, 0, uw_go_set_g, NULL, sizeof(uw_go_set_g));
	w.from = at == SIZE_MAX ? at : uw_special_find(sp, at, leave, NULL, sizeof(leave));
	use = w.from == SIZE_MAX ? w.from
	                         : uw_special_find(sp, w.from, uw_go_curg, uw_go_curg_mask,
	                                           sizeof(uw_go_curg));
	w.to = use == SIZE_MAX ? use
	                       : uw_special_find(sp, use + sizeof(uw_go_curg), to_g, to_g_mask,
	                                         sizeof(to_g));
	if (w.to == SIZE_MAX)
		return 0;
	memcpy(&disp, sp->code + use + 7, sizeof(disp));
	w.ops[w.n_ops++] =
	        (struct abi_op){.op = ABI_OP_REG, .reg = UW_REG_R14, .arg = sp->code[use + 3]};
	w.ops[w.n_ops++] = (struct abi_op){.op = ABI_OP_DEREF};
	w.ops[w.n_ops++] = (struct abi_op){.op = ABI_OP_PLUS_CONST, .arg = disp};
	w.ops[w.n_ops++] = (struct abi_op){.op = ABI_OP_DEREF};
	w.ops[w.n_ops++] = (struct abi_op){.op = ABI_OP_PLUS_CONST, .arg = sp->code[w.to + 3]};
	w.ops[w.n_ops++] = (struct abi_op){.op = ABI_OP_DEREF};
	w.ops[w.n_ops++] = (struct abi_op){.op = ABI_OP_PLUS_CONST, .arg = frame_depth(sp) + 8};
	w.ops[w.n_ops++] = (struct abi_op){.op = ABI_OP_END};
	w.from += sizeof(leave);
	w.to += sizeof(to_g);
	return give_switched(sp, &w);
}

static int do_gogo(struct uw_special *sp)
{
	/* mov (%rbx), %rsp … mov bp(%rbx), %rbp … mov pc(%rbx), %rbx; jmp *%rbx */
	static const uint8_t load_sp[] = {0x48, 0x8b, 0x23};
	static const uint8_t load_fp[] = {0x48, 0x8b, 0x6b, 0};
	static const uint8_t load_fp_mask[] = {1, 1, 1, 0};
	static const uint8_t load_pc[] = {0x48, 0x8b, 0x5b, 0, 0xff, 0xe3};
	static const uint8_t load_pc_mask[] = {1, 1, 1, 0, 1, 1};
	const uint64_t start = sp->fn.start;
	const size_t a = uw_special_find(sp, 0, load_sp, NULL, sizeof(load_sp));
	size_t b = SIZE_MAX, c = SIZE_MAX;
	/* The goroutine resumes exactly there. */
	struct uw_rule rule = {.kind = ABI_RULE_FRAME, .cfa_reg = ABI_REG_SP, .signal = true};
	int r;

	if (a != SIZE_MAX)
		b = uw_special_find(sp, a, load_fp, load_fp_mask, sizeof(load_fp));
	if (b != SIZE_MAX)
		c = uw_special_find(sp, b, load_pc, load_pc_mask, sizeof(load_pc));
	if (c == SIZE_MAX)
		return 0;
	r = uw_special_begin(sp, start);
	if (r >= 0)
		r = uw_special_plain(sp, start, start + a + sizeof(load_sp), false);
	rule.col[ABI_COL_RA] = (struct uw_col){.kind = ABI_COL_AT_REG,
	                                       .val = REG_RBX | (int32_t)sp->code[c + 3] << 8};
	rule.col[ABI_REG_FP] = (struct uw_col){.kind = ABI_COL_AT_REG,
	                                       .val = REG_RBX | (int32_t)sp->code[b + 3] << 8};
	if (r >= 0)
		r = uw_special_code(sp, start + a + sizeof(load_sp), &rule);
	rule.col[ABI_REG_FP] = (struct uw_col){.kind = ABI_COL_SAME, .val = 0};
	if (r >= 0)
		r = uw_special_code(sp, start + b + sizeof(load_fp), &rule);
	rule.col[ABI_COL_RA] = (struct uw_col){.kind = ABI_COL_REG, .val = REG_RBX};
	return r < 0 ? r : uw_special_code(sp, start + c + 4, &rule);
}

/* Offset of the saved registers of a signal frame from the stack pointer, and their order.
 * ucontext: flags, link, stack; then r8 … r15, rdi, rsi, rbp, rbx, rdx, rax, rcx, rsp, rip (the
 * kernel's arch/x86/include/uapi/asm/sigcontext.h). */
#define SIG_REGS  40
static const uint8_t sig_order[] = {8, 9, 10, 11, 12, 13, 14, 15, 5, 4, 6, 3, 1, 0, 2, 7};

static int do_sigreturn(struct uw_special *sp)
{
	/* mov $15, %rax; syscall */
	static const uint8_t code[] = {0x48, 0xc7, 0xc0, 0x0f, 0, 0, 0, 0x0f, 0x05};
	struct uw_rule rule = {.kind = ABI_RULE_FRAME,
	                       .cfa_kind = ABI_CFA_DEREF,
	                       .cfa_reg = ABI_REG_SP,
	                       .cfa_off = SIG_REGS + 15 * 8,
	                       .signal = true};
	int r;

	if (uw_special_find(sp, 0, code, NULL, sizeof(code)) != 0)
		return 0;
	for (int32_t i = 0; i < 17; i++) {
		const size_t col = i == 16 ? ABI_COL_RA : sig_order[i];

		if (col != ABI_REG_SP)
			rule.col[col] =
			        (struct uw_col){.kind = ABI_COL_AT_REG,
			                        .val = ABI_REG_SP | (SIG_REGS + i * 8) << 8};
	}
	/* The handler's return address is its very start, and is looked up one before. */
	r = uw_special_begin(sp, sp->fn.start - 1);
	return r < 0 ? r : uw_special_code(sp, sp->fn.start - 1, &rule);
}

/* Reads the code of the function in work. */
static void load_code(struct uw_special *sp)
{
	sp->len =
	        gotab_code(sp->t->tab, sp->fn.start, sp->code,
	                   (size_t)MIN_OF(sp->rows.end - sp->fn.start, (uint64_t)sizeof(sp->code)));
}

static int do_special(struct uw_special *sp, enum kind kind)
{
	int r;

	load_code(sp);
	switch (kind) {
	case BY_FP:
		return do_by_fp(sp);
	case SYSTEMSTACK:
		return do_systemstack(sp);
	case ASMCGOCALL:
		return do_asmcgocall(sp);
	case LEAVES:
		return uw_special_leaves(sp);
	case MORESTACK:
		return uw_go_morestack(sp);
	case NEWSTACK:
		return uw_go_newstack(sp);
	case GOGO:
		return do_gogo(sp);
	case PLAIN:
	case INJECTED:
		r = uw_special_begin(sp, sp->fn.start);
		return r < 0 ? r
		             : uw_special_plain(sp, sp->fn.start, sp->rows.end, kind == INJECTED);
	case SIGRETURN:
		return do_sigreturn(sp);
	}
	return 0;
}

/* ---- all of them ----------------------------------------------------------------------------- */

/* A special function, and its index in the table. */
struct found {
	uint64_t i;
	enum kind kind;
};
#define FOUND_MAX 64 /* a function and its wrappers have one name */

struct all {
	struct found p[FOUND_MAX];
	size_t n;
};

static void look_at(struct uw_special *sp, uint64_t i, struct all *all)
{
	static const char *const ways[] = {
	        [UW_WAY_PREEMPT] = "runtime.gopreempt_m",
	        [UW_WAY_GOSCHED] = "runtime.goschedImpl",
	        [UW_WAY_PARK] = "runtime.preemptPark",
	};

	for (size_t k = 0; k < UW_WAYS; k++)
		if (strcmp(sp->fn.name, ways[k]) == 0)
			sp->growth.way[k] = sp->fn.start;
	for (size_t k = 0; k < ARRAY_SIZE(specials); k++)
		if (strcmp(sp->fn.name, specials[k].name) == 0 && all->n < FOUND_MAX)
			all->p[all->n++] = (struct found){i, specials[k].kind};
}

/* Reads what rules of other functions need. Returns 0. */
static int survey(struct uw_special *sp, enum kind kind)
{
	load_code(sp);
	if (kind == SYSTEMSTACK)
		uw_go_survey_systemstack(sp);
	else if (kind == MORESTACK)
		uw_go_survey_morestack(sp);
	else if (kind == NEWSTACK)
		uw_go_survey_newstack(sp);
	return 0;
}

static int each(struct uw_special *sp, const struct all *all,
                int (*doit)(struct uw_special *sp, enum kind kind))
{
	int r = 0;

	for (size_t k = 0; k < all->n && r >= 0; k++) {
		if (gotab_func(sp->t->tab, all->p[k].i, &sp->fn) < 0)
			continue;
		r = uw_go_tab_rows(sp->t, &sp->fn, &sp->rows);
		if (r == 0)
			r = doit(sp, all->p[k].kind);
		else if (r == -EINVAL || r == -ENOENT)
			r = 0; /* keeps the rows of the other sources */
	}
	return r;
}

int uw_go_special_read(struct img_file *f, struct uw_sink *sink, const struct uw_build_limits *lim)
{
	_cleanup_(uw_go_tab_done) struct uw_go_tab t = {0};
	struct uw_special sp = {.t = &t, .sink = sink};
	struct all all = {.n = 0};
	int r;

	r = uw_go_tab_open(f, lim, &t);
	if (r < 0)
		return r == -EINVAL || r == -ENODATA ? -ENOENT : r; /* uw_go_read counts it */
	for (uint64_t i = 0; i < gotab_count(t.tab); i++)
		if (gotab_func(t.tab, i, &sp.fn) == 0)
			look_at(&sp, i, &all);
	r = each(&sp, &all, survey);
	if (r >= 0)
		r = each(&sp, &all, do_special);
	free(sp.rows.p);
	return r < 0 ? r : sp.emitted ? 0 : -ENOENT;
}

#endif
