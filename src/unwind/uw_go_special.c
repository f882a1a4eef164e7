/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Go functions whose caller is not where the depth of the stack says.
 *
 * Most of those that change stacks keep their frame pointer: it was set up before the change, the
 * code that they call saves and restores it (Go's conventions and C's alike), so it leads back
 * across the change. Where a frame lies on another stack that may have moved meanwhile, or where
 * the change is final, the instructions are searched for what the rule needs; a function that does
 * not look as expected keeps its ordinary rules.
 *
 * Source: Go's runtime/asm_amd64.s, runtime/sys_linux_amd64.s, runtime/preempt_amd64.s.
 */
#include "unwind/uw_go_tab.h"

#ifdef ABI_ARM64

int uw_go_special_read(struct img_file *f, struct uw_sink *sink, const struct uw_build_limits *lim)
{
	(void)f;
	(void)sink;
	(void)lim;
	return -ENOENT;
}

#else

#define REG_RBX 3
#define REG_R14 14

#define CODE_MAX 512 /* bytes of such a function; the longest, runtime.cgocallback, has 300 */

enum kind {
	/* The frame pointer leads to the caller from where it is set up until it is restored. */
	BY_FP,
	/* The same; while C runs, a slot tells the depth of the goroutine's stack, which may move.
	 */
	ASMCGOCALL,
	/* By the frame pointer, or by what the runtime keeps of the goroutine. */
	SYSTEMSTACK,
	/* Does not come back to the caller once it is on the other stack. */
	LEAVES,
	/* Nor does this, but the goroutine goes on where it was, and says where that is. */
	MORESTACK,
	/* What morestack calls: it may hand the thread to another goroutine, and never comes back.
	 */
	NEWSTACK,
	/* Jumps to what a buffer says. */
	GOGO,
	/* Ordinary, though marked as outermost: it returns to a signal's frame. */
	PLAIN,
	/* Where a signal handler made it look like a call: the caller's pc is exact. */
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
        /* Called on the thread's stack, goes on on that of the goroutine: back to C. */
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
        /* The scheduler's work is no goroutine's; the one that called sleeps or runs elsewhere. */
        {"runtime.mcall", LEAVES},
        {"runtime.morestack", MORESTACK},
        {"runtime.newstack", NEWSTACK},
        {"gogo", GOGO},
        {"runtime.gogo", GOGO},
        {"runtime.sigtramp", PLAIN},
        {"runtime.sigreturn", SIGRETURN},
        {"runtime.sigreturn__sigaction", SIGRETURN},
        {"runtime.asyncPreempt", INJECTED},
        {"runtime.sigpanic", INJECTED},
        {"runtime.sigpanic0", INJECTED},
};

/* Ways out of newstack into the scheduler; compilers may inline the first into newstack, which then
 * calls the second. */
enum way {
	WAY_PREEMPT,
	WAY_GOSCHED,
	WAY_PARK,
	WAYS,
};

/* How stacks grow in this program. */
struct growth {
	uint64_t way[WAYS]; /* where they begin; 0: there is none */
	/* Offsets in the runtime's structures: of the thread in a goroutine, of the goroutine in a
	 * thread, of what is saved in a goroutine. */
	uint8_t m, pc, sp, fp;
	int32_t curg;
	bool curg_known, saved_known, ways_known;
};

/* One function in work. */
struct special {
	struct uw_go_tab *t;
	struct uw_sink *sink;
	struct uw_go_func fn;
	struct uw_go_rows rows;
	uint8_t code[CODE_MAX]; /* code[len], from fn.start */
	size_t len;
	bool emitted;
	struct growth growth;
};

/* ---- giving rows ----------------------------------------------------------------------------- */

static int give_code(struct special *sp, uint64_t at, const struct uw_rule *rule)
{
	uint16_t code;
	int r = uw_rules_code(sp->sink->rules, sp->sink->quota, rule, &code);

	if (r == -E2BIG)
		code = ABI_CODE_BAD;
	else if (r < 0)
		return r;
	return sp->sink->row(sp->sink->arg, at, code);
}

static int give_row(struct special *sp, uint64_t at, size_t i, bool signal)
{
	struct uw_rule rule;

	uw_go_rule(&(struct uw_go_row){at, sp->rows.p[i].depth, sp->rows.p[i].saved}, signal,
	           &rule);
	return give_code(sp, at, &rule);
}

/* The ordinary rows that govern [from, to). */
static int give_plain(struct special *sp, uint64_t from, uint64_t to, bool signal)
{
	int r = 0;

	for (size_t i = 0; i < sp->rows.n && r >= 0; i++) {
		const uint64_t end = i + 1 < sp->rows.n ? sp->rows.p[i + 1].at : sp->rows.end;

		if (end > from && sp->rows.p[i].at < to)
			r = give_row(sp, MAX_OF(sp->rows.p[i].at, from), i, signal);
	}
	return r;
}

static int begin(struct special *sp, uint64_t start)
{
	sp->emitted = true;
	return sp->sink->function(sp->sink->arg, start, sp->rows.end);
}

/* ---- reading code ---------------------------------------------------------------------------- */

/* Offset of these bytes at or after @from; SIZE_MAX if they are not there. @mask: 0 bytes match
 * all; NULL: none does. */
static size_t find(const struct special *sp, size_t from, const uint8_t *want, const uint8_t *mask,
                   size_t n)
{
	for (size_t i = from; n <= sp->len && i <= sp->len - n; i++) {
		size_t k = 0;

		while (k < n && (sp->code[i + k] == want[k] || (mask && !mask[k])))
			k++;
		if (k == n)
			return i;
	}
	return SIZE_MAX;
}

/* Behind the first mov disp(%reg), %rsp: 0 if there is none. */
static size_t after_load_of_sp(const struct special *sp)
{
	for (size_t i = 0; i + 4 <= sp->len; i++) {
		const uint8_t *p = sp->code + i;

		if ((p[0] != 0x48 && p[0] != 0x49) || p[1] != 0x8b || (p[2] & 0x38) != 0x20 ||
		    (p[2] & 7) == 4)
			continue;
		if (p[2] >> 6 == 1)
			return i + 4;
		if (p[2] >> 6 == 2 && i + 7 <= sp->len)
			return i + 7;
	}
	return 0;
}

/* From which offset on the frame pointer is this frame's; 0 if it never is. */
static size_t fp_set_after(const struct special *sp)
{
	for (size_t i = 0; i < sp->rows.n; i++) {
		const uint64_t off = sp->rows.p[i].at - sp->fn.start;
		const uint8_t *p = sp->code + off;

		if (!sp->rows.p[i].saved)
			continue;
		if (off + 8 > sp->len || p[0] != 0x48)
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

/* Behind the next mov depth - 8(%rsp), %rbp in [from, to): where compilers before 1.21 restore it
 * while the stack pointer is still down. SIZE_MAX if there is none. */
static size_t fp_restored_after(const struct special *sp, size_t from, size_t to, int32_t depth)
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

/* Rows of [from, to) of a function that keeps its frame pointer. */
static int give_by_fp(struct special *sp, uint64_t from, uint64_t to, size_t set)
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
			r = give_row(sp, at, i, false);
			continue;
		}
		if (at < fp_from) {
			r = give_row(sp, at, i, false);
			at = fp_from;
		}
		if (r >= 0)
			r = give_code(sp, at, &by_fp);
		off = fp_restored_after(sp, (size_t)(at - sp->fn.start),
		                        (size_t)(end - sp->fn.start), row->depth);
		restored = sp->fn.start + off;
		if (off != SIZE_MAX && restored < end && r >= 0)
			r = give_row(sp, restored, i, false);
	}
	return r;
}

static int do_by_fp(struct special *sp)
{
	const size_t set = fp_set_after(sp);
	int r;

	if (set == 0)
		return 0;
	r = begin(sp, sp->fn.start);
	return r < 0 ? r : give_by_fp(sp, sp->fn.start, sp->rows.end, set);
}

/* The ordinary rows, but by the frame pointer where there is one (@set: fp_set_after). */
static int give_kept(struct special *sp, uint64_t from, uint64_t to, size_t set)
{
	return set ? give_by_fp(sp, from, to, set) : give_plain(sp, from, to, false);
}

/* How far the stack pointer is below the entry in the body. */
static int32_t frame_depth(const struct special *sp)
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

static int give_switched(struct special *sp, const struct switched *w)
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
	rule.col[REG_R14] = w->r14;
	r = begin(sp, start);
	if (r >= 0)
		r = give_kept(sp, start, start + w->from, w->set);
	if (r >= 0)
		r = give_code(sp, start + w->from, &rule);
	return r < 0 ? r : give_kept(sp, start + w->to, sp->rows.end, w->set);
}

/*
 * While C runs on the thread's stack, depth(%rsp) holds how far the caller's stack pointer was
 * below the end of the goroutine's stack, slot(%rsp) the goroutine, whose stack ends at hi in it.
 * r14 is the goroutine in Go code, and lost by C.
 */
static int do_asmcgocall(struct special *sp)
{
	/* mov slot(%rsp), %rdi; mov hi(%rdi), %rsi; sub depth(%rsp), %rsi */
	static const uint8_t read[] = {0x48, 0x8b, 0x7c, 0x24, 0, 0x48, 0x8b, 0x77, 0, 0x48, 0x2b};
	static const uint8_t read_mask[] = {1, 1, 1, 1, 0, 1, 1, 1, 0, 1, 1};
	/* mov %rdi, depth(%rsp) */
	uint8_t write[] = {0x48, 0x89, 0x3c, 0x24, 0};
	/* mov %rsi, %rsp */
	static const uint8_t back[] = {0x48, 0x89, 0xf4};
	const size_t use = find(sp, 0, read, read_mask, sizeof(read));
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
	w.from = find(sp, w.set, write, NULL, write_len);
	w.to = find(sp, use, back, NULL, sizeof(back));
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

/* mov %rdx, %r14: this is the goroutine */
static const uint8_t set_g[] = {0x49, 0x89, 0xd6};
/* mov m(%rax), %rbx; mov curg(%rbx), %rax */
static const uint8_t curg[] = {0x48, 0x8b, 0x58, 0, 0x48, 0x8b, 0x83, 0, 0, 0, 0};
static const uint8_t curg_mask[] = {1, 1, 1, 0, 1, 1, 1, 0, 0, 0, 0};
/* mov sp(%rax), %rsp */
static const uint8_t to_g[] = {0x48, 0x8b, 0x60, 0};
static const uint8_t to_g_mask[] = {1, 1, 1, 0};

/*
 * Compilers before 1.21 make no frame for it: the goroutine's stack pointer is where the code
 * behind the call reads it from, g.m.curg.sched.sp, and g is r14.
 */
static int do_systemstack(struct special *sp)
{
	/* mov %rbx, %rsp */
	static const uint8_t leave[] = {0x48, 0x89, 0xdc};
	struct switched w = {.set = fp_set_after(sp)};
	size_t at, use;
	int32_t disp;

	if (w.set)
		return do_by_fp(sp);
	at = find(sp, 0, set_g, NULL, sizeof(set_g));
	w.from = at == SIZE_MAX ? at : find(sp, at, leave, NULL, sizeof(leave));
	use = w.from == SIZE_MAX ? w.from : find(sp, w.from, curg, curg_mask, sizeof(curg));
	w.to = use == SIZE_MAX ? use : find(sp, use + sizeof(curg), to_g, to_g_mask, sizeof(to_g));
	if (w.to == SIZE_MAX)
		return 0;
	memcpy(&disp, sp->code + use + 7, sizeof(disp));
	w.ops[w.n_ops++] =
	        (struct abi_op){.op = ABI_OP_REG, .reg = REG_R14, .arg = sp->code[use + 3]};
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

static int do_leaves(struct special *sp)
{
	const size_t off = after_load_of_sp(sp);
	const struct uw_rule root = {.kind = ABI_RULE_ROOT};
	int r;

	if (off == 0)
		return 0;
	r = begin(sp, sp->fn.start);
	if (r >= 0)
		r = give_plain(sp, sp->fn.start, sp->fn.start + off, false);
	return r < 0 ? r : give_code(sp, sp->fn.start + off, &root);
}

/* ---- growing stacks -------------------------------------------------------------------------- */

/*
 * A function without enough stack calls morestack at its very start. That saves where it was in
 * g.sched, goes over to the thread's stack and calls newstack, which copies the stack and goes on
 * at g.sched. What holds where:
 *
 *   morestack, up to the load of rsp    the caller's pc is at (%rsp): the ordinary rule. So it is
 *                                       in the calls of badmorestackg0 and badmorestackgsignal
 *   morestack, behind it                the caller is at g.sched. r14 is still the goroutine
 *   newstack's wrapper, before and      r14 is the goroutine, then g0, read from the thread's
 *   behind its load of r14              storage
 *   newstack and what it calls          r14 is g0: all Go code keeps it, C code too. Assembly may
 *                                       not; then the rule leads nowhere
 *   newstack, at calls of the scheduler the thread's next goroutine is not the one that called, but
 *                                       g.m.curg soon says so: the outermost frame
 *   gogo, up to the load of rsp         r14 is g0, then the goroutine; ordinary rule
 *   gogo, behind it                     in rbx; see do_gogo
 *   mcall, up to the load of rsp        ordinary rules
 *   mcall, behind it                    the outermost frame: what it calls is the scheduler
 *   systemstack, up to the load of rsp  by rbp (before 1.21: ordinary)
 *   systemstack, between the loads      by rbp (before 1.21: g.m.curg.sched.sp)
 *   systemstack, behind the second one  by rbp (before 1.21: ordinary)
 *
 * So both what r14 may be have the same m, and m.curg is who called as long as the scheduler was
 * not asked. That m.curg.m is m again says that it was a goroutine's register indeed.
 *
 * The pc saved is a return address, and the stack pointer the one behind the return. While the
 * stack is copied both copies can be read, and g.sched leads to either.
 */

/* systemstack says how to get from a goroutine to the one that runs on its thread. */
static void survey_systemstack(struct special *sp)
{
	const size_t at = find(sp, 0, set_g, NULL, sizeof(set_g));
	size_t use;

	use = at == SIZE_MAX ? at : find(sp, at, curg, curg_mask, sizeof(curg));
	if (use == SIZE_MAX)
		return; /* before 1.17 r14 is nothing */
	sp->growth.m = sp->code[use + 3];
	memcpy(&sp->growth.curg, sp->code + use + 7, sizeof(sp->growth.curg));
	sp->growth.curg_known = sp->growth.m < 0x80 && sp->growth.curg > 0;
}

/* morestack says where it saves. */
static void survey_morestack(struct special *sp)
{
	/* mov (%rsp), %rax; mov %rax, pc(%rdi); lea 8(%rsp), %rax; mov %rax, sp(%rdi). Or %rsi. */
	static const uint8_t save[] = {0x48, 0x8b, 0x04, 0x24, 0x48, 0x89, 0x46, 0, 0x48,
	                               0x8d, 0x44, 0x24, 0x08, 0x48, 0x89, 0x46, 0};
	static const uint8_t save_mask[] = {1, 1, 1, 1, 1, 1, 0, 0, 1, 1, 1, 1, 1, 1, 1, 0, 0};
	const size_t load = after_load_of_sp(sp);
	const size_t at = find(sp, 0, save, save_mask, sizeof(save));
	const uint8_t *p = sp->code + at, *fp = p + sizeof(save);

	/* mov %rbp, fp(the same) is next, and sp(%rbx) is where the thread's rsp is read. */
	if (at == SIZE_MAX || load < at + sizeof(save) + 4 || (p[6] & 0xfe) != 0x46 ||
	    p[15] != p[6] || fp[0] != 0x48 || fp[1] != 0x89 || fp[2] != (p[6] | 0x28) ||
	    sp->code[load - 2] != 0x63 || sp->code[load - 1] != p[16])
		return;
	sp->growth.pc = p[7];
	sp->growth.sp = p[16];
	sp->growth.fp = fp[3];
	sp->growth.saved_known = (p[7] | p[16] | fp[3]) < 0x80;
}

#define NEWSTACK_BYTES 16384 /* looked at; it has 3 to 4 thousand */
#define NEWSTACK_CALLS 16    /* of the scheduler; it has 2 */

/* First call of a way into the scheduler from @from on: its address, 0 if there is none. */
static uint64_t find_way(struct special *sp, uint64_t from, enum way *ret)
{
	const uint64_t to = MIN_OF(sp->rows.end, sp->fn.start + NEWSTACK_BYTES);
	int32_t rel;

	while (from + 5 <= to) {
		const size_t len = uw_go_tab_code(sp->t, from, sp->code,
		                                  (size_t)MIN_OF(to - from, (uint64_t)CODE_MAX));

		for (size_t i = 0; i + 5 <= len; i++) {
			if (sp->code[i] != 0xe8)
				continue;
			memcpy(&rel, sp->code + i + 1, sizeof(rel));
			for (size_t k = 0; k < WAYS; k++)
				if (sp->growth.way[k] &&
				    from + i + 5 + (uint64_t)(int64_t)rel == sp->growth.way[k]) {
					*ret = (enum way)k;
					return from + i;
				}
		}
		if (len < 5)
			break;
		from += len - 4;
	}
	return 0;
}

/* Both ways must be seen: of one that is not, the next goroutine would be taken for the caller. Of
 * the two functions of this name one is a wrapper, which has no such calls. */
static void survey_newstack(struct special *sp)
{
	bool seen[WAYS] = {false};
	uint64_t at = sp->fn.start;
	size_t calls = 0;
	enum way way;

	for (; calls <= NEWSTACK_CALLS && (at = find_way(sp, at, &way)) != 0; calls++) {
		seen[way] = true;
		at += 5;
	}
	if (calls <= NEWSTACK_CALLS && (seen[WAY_PREEMPT] || seen[WAY_GOSCHED]) && seen[WAY_PARK])
		sp->growth.ways_known = true;
}

static bool growth_known(const struct special *sp)
{
	return sp->growth.curg_known && sp->growth.saved_known && sp->growth.ways_known;
}

/* Its ordinary rows, and where it waits for the scheduler the end. A call is looked up at its last
 * byte; who has not begun it is still there. */
static int do_newstack(struct special *sp)
{
	const struct uw_rule root = {.kind = ABI_RULE_ROOT};
	uint64_t at = sp->fn.start, call;
	enum way way;
	int r;

	call = growth_known(sp) ? find_way(sp, at, &way) : 0;
	if (!call)
		return 0;
	r = begin(sp, at);
	for (size_t i = 0; i < NEWSTACK_CALLS && call && r >= 0; i++) {
		r = give_plain(sp, at, call + 1, false);
		if (r >= 0)
			r = give_code(sp, call + 1, &root);
		at = call + 5;
		call = find_way(sp, at, &way);
	}
	return r < 0 ? r : give_plain(sp, at, sp->rows.end, false);
}

#define OP(...)   ((struct abi_op){__VA_ARGS__})

/* Value at @off in the structure whose address is the CFA; 0 if that is 0. */
static int saved_value(struct special *sp, uint8_t off, struct uw_col *ret)
{
	const struct abi_op ops[] = {
	        OP(.op = ABI_OP_DUP),
	        OP(.op = ABI_OP_BRA, .arg = 1),
	        OP(.op = ABI_OP_SKIP, .arg = 2), /* to the end */
	        OP(.op = ABI_OP_PLUS_CONST, .arg = off),
	        OP(.op = ABI_OP_DEREF),
	        OP(.op = ABI_OP_END),
	};

	ret->kind = ABI_COL_EXPR;
	return uw_rules_ops(sp->sink->rules, sp->sink->quota, ops, ARRAY_SIZE(ops), &ret->val);
}

/* The CFA is the goroutine, of which the registers are read; 0, the end, if no goroutine runs on
 * this thread any more. */
static int growth_rule(struct special *sp, struct uw_rule *rule)
{
	const struct growth *w = &sp->growth;
	const struct abi_op ops[] = {
	        OP(.op = ABI_OP_REG, .reg = REG_R14, .arg = w->m),
	        OP(.op = ABI_OP_DEREF),
	        OP(.op = ABI_OP_DUP),
	        OP(.op = ABI_OP_PLUS_CONST, .arg = w->curg),
	        OP(.op = ABI_OP_DEREF),
	        OP(.op = ABI_OP_DUP),
	        OP(.op = ABI_OP_BRA, .arg = 1),
	        OP(.op = ABI_OP_SKIP, .arg = 7), /* to the end */
	        OP(.op = ABI_OP_DUP),            /* m, curg, curg */
	        OP(.op = ABI_OP_PLUS_CONST, .arg = w->m),
	        OP(.op = ABI_OP_DEREF),
	        OP(.op = ABI_OP_PICK, .arg = 2), /* m, curg, curg.m, m */
	        OP(.op = ABI_OP_EQ),
	        OP(.op = ABI_OP_BRA, .arg = 1),
	        OP(.op = ABI_OP_CONST, .arg = 0),
	        OP(.op = ABI_OP_END),
	};
	int r;

	*rule = (struct uw_rule){.kind = ABI_RULE_FRAME, .cfa_kind = ABI_CFA_EXPR};
	r = uw_rules_ops(sp->sink->rules, sp->sink->quota, ops, ARRAY_SIZE(ops), &rule->cfa_off);
	for (size_t i = 0; i < ABI_REGS; i++)
		rule->col[i] = (struct uw_col){.kind = ABI_COL_UNDEF, .val = 0};
	if (r >= 0)
		r = saved_value(sp, w->pc, &rule->col[ABI_COL_RA]);
	if (r >= 0)
		r = saved_value(sp, w->sp, &rule->col[ABI_REG_SP]);
	rule->col[ABI_REG_FP] = (struct uw_col){.kind = ABI_COL_AT_CFA, .val = w->fp};
	rule->col[REG_R14] = (struct uw_col){.kind = ABI_COL_CFA, .val = 0};
	return r;
}

static int do_morestack(struct special *sp)
{
	const size_t off = after_load_of_sp(sp);
	struct uw_rule rule;
	int r = -E2BIG;

	if (off && growth_known(sp))
		r = growth_rule(sp, &rule);
	if (r == -E2BIG)
		return do_leaves(sp);
	if (r >= 0)
		r = begin(sp, sp->fn.start);
	if (r >= 0)
		r = give_plain(sp, sp->fn.start, sp->fn.start + off, false);
	return r < 0 ? r : give_code(sp, sp->fn.start + off, &rule);
}

static int do_gogo(struct special *sp)
{
	/* mov (%rbx), %rsp … mov bp(%rbx), %rbp … mov pc(%rbx), %rbx; jmp *%rbx */
	static const uint8_t load_sp[] = {0x48, 0x8b, 0x23};
	static const uint8_t load_fp[] = {0x48, 0x8b, 0x6b, 0};
	static const uint8_t load_fp_mask[] = {1, 1, 1, 0};
	static const uint8_t load_pc[] = {0x48, 0x8b, 0x5b, 0, 0xff, 0xe3};
	static const uint8_t load_pc_mask[] = {1, 1, 1, 0, 1, 1};
	const uint64_t start = sp->fn.start;
	const size_t a = find(sp, 0, load_sp, NULL, sizeof(load_sp));
	size_t b = SIZE_MAX, c = SIZE_MAX;
	/* The goroutine goes on exactly there. */
	struct uw_rule rule = {.kind = ABI_RULE_FRAME, .cfa_reg = ABI_REG_SP, .signal = true};
	int r;

	if (a != SIZE_MAX)
		b = find(sp, a, load_fp, load_fp_mask, sizeof(load_fp));
	if (b != SIZE_MAX)
		c = find(sp, b, load_pc, load_pc_mask, sizeof(load_pc));
	if (c == SIZE_MAX)
		return 0;
	r = begin(sp, start);
	if (r >= 0)
		r = give_plain(sp, start, start + a + sizeof(load_sp), false);
	rule.col[ABI_COL_RA] = (struct uw_col){.kind = ABI_COL_AT_REG,
	                                       .val = REG_RBX | (int32_t)sp->code[c + 3] << 8};
	rule.col[ABI_REG_FP] = (struct uw_col){.kind = ABI_COL_AT_REG,
	                                       .val = REG_RBX | (int32_t)sp->code[b + 3] << 8};
	if (r >= 0)
		r = give_code(sp, start + a + sizeof(load_sp), &rule);
	rule.col[ABI_REG_FP] = (struct uw_col){.kind = ABI_COL_SAME, .val = 0};
	if (r >= 0)
		r = give_code(sp, start + b + sizeof(load_fp), &rule);
	rule.col[ABI_COL_RA] = (struct uw_col){.kind = ABI_COL_REG, .val = REG_RBX};
	return r < 0 ? r : give_code(sp, start + c + 4, &rule);
}

/* Of a signal's frame: where its saved registers are, from the stack pointer on. ucontext: flags,
 * link, stack; then r8 … r15, rdi, rsi, rbp, rbx, rdx, rax, rcx, rsp, rip (the kernel's
 * arch/x86/include/uapi/asm/sigcontext.h). */
#define SIG_REGS  40
static const uint8_t sig_order[] = {8, 9, 10, 11, 12, 13, 14, 15, 5, 4, 6, 3, 1, 0, 2, 7};

static int do_sigreturn(struct special *sp)
{
	/* mov $15, %rax; syscall */
	static const uint8_t code[] = {0x48, 0xc7, 0xc0, 0x0f, 0, 0, 0, 0x0f, 0x05};
	struct uw_rule rule = {.kind = ABI_RULE_FRAME,
	                       .cfa_kind = ABI_CFA_DEREF,
	                       .cfa_reg = ABI_REG_SP,
	                       .cfa_off = SIG_REGS + 15 * 8,
	                       .signal = true};
	int r;

	if (find(sp, 0, code, NULL, sizeof(code)) != 0)
		return 0;
	for (int32_t i = 0; i < 17; i++) {
		const size_t col = i == 16 ? ABI_COL_RA : sig_order[i];

		if (col != ABI_REG_SP)
			rule.col[col] =
			        (struct uw_col){.kind = ABI_COL_AT_REG,
			                        .val = ABI_REG_SP | (SIG_REGS + i * 8) << 8};
	}
	/* The handler's return address is its very start, and is looked up one before. */
	r = begin(sp, sp->fn.start - 1);
	return r < 0 ? r : give_code(sp, sp->fn.start - 1, &rule);
}

/* Code of the function in work. */
static void load_code(struct special *sp)
{
	sp->len = uw_go_tab_code(sp->t, sp->fn.start, sp->code,
	                         (size_t)MIN_OF(sp->rows.end - sp->fn.start,
	                                        (uint64_t)sizeof(sp->code)));
}

static int do_special(struct special *sp, enum kind kind)
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
		return do_leaves(sp);
	case MORESTACK:
		return do_morestack(sp);
	case NEWSTACK:
		return do_newstack(sp);
	case GOGO:
		return do_gogo(sp);
	case PLAIN:
	case INJECTED:
		r = begin(sp, sp->fn.start);
		return r < 0 ? r : give_plain(sp, sp->fn.start, sp->rows.end, kind == INJECTED);
	case SIGRETURN:
		return do_sigreturn(sp);
	}
	return 0;
}

/* ---- all of them ----------------------------------------------------------------------------- */

/* A function that is known by name, and its place in the table. */
struct found {
	uint64_t i;
	enum kind kind;
};
#define FOUND_MAX 64 /* a name can stand for a function and its wrappers */

struct all {
	struct found p[FOUND_MAX];
	size_t n;
};

static void look_at(struct special *sp, uint64_t i, struct all *all)
{
	static const char *const ways[] = {
	        [WAY_PREEMPT] = "runtime.gopreempt_m",
	        [WAY_GOSCHED] = "runtime.goschedImpl",
	        [WAY_PARK] = "runtime.preemptPark",
	};

	for (size_t k = 0; k < WAYS; k++)
		if (strcmp(sp->fn.name, ways[k]) == 0)
			sp->growth.way[k] = sp->fn.start;
	for (size_t k = 0; k < ARRAY_SIZE(specials); k++)
		if (strcmp(sp->fn.name, specials[k].name) == 0 && all->n < FOUND_MAX)
			all->p[all->n++] = (struct found){i, specials[k].kind};
}

/* What the functions say about each other: 0. */
static int survey(struct special *sp, enum kind kind)
{
	load_code(sp);
	if (kind == SYSTEMSTACK)
		survey_systemstack(sp);
	else if (kind == MORESTACK)
		survey_morestack(sp);
	else if (kind == NEWSTACK)
		survey_newstack(sp);
	return 0;
}

static int each(struct special *sp, const struct all *all,
                int (*doit)(struct special *sp, enum kind kind))
{
	int r = 0;

	for (size_t k = 0; k < all->n && r >= 0; k++) {
		if (uw_go_tab_func(sp->t, all->p[k].i, &sp->fn) < 0)
			continue;
		r = uw_go_tab_rows(sp->t, &sp->fn, &sp->rows);
		if (r == 0)
			r = doit(sp, all->p[k].kind);
		else if (r == -EINVAL || r == -ENOENT)
			r = 0; /* keeps what the other sources say */
	}
	return r;
}

int uw_go_special_read(struct img_file *f, struct uw_sink *sink, const struct uw_build_limits *lim)
{
	_cleanup_(uw_go_tab_done) struct uw_go_tab t = {0};
	struct special sp = {.t = &t, .sink = sink};
	struct all all = {.n = 0};
	int r;

	r = uw_go_tab_open(f, lim, &t);
	if (r < 0)
		return r == -EINVAL || r == -ENODATA ? -ENOENT : r; /* uw_go_read counts it */
	for (uint64_t i = 0; i < t.n; i++)
		if (uw_go_tab_func(&t, i, &sp.fn) == 0)
			look_at(&sp, i, &all);
	r = each(&sp, &all, survey);
	if (r >= 0)
		r = each(&sp, &all, do_special);
	free(sp.rows.p);
	return r < 0 ? r : sp.emitted ? 0 : -ENOENT;
}

#endif
