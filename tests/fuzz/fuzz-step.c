// SPDX-License-Identifier: Apache-2.0
/* Hostile registers, stacks, rules and expressions: each step ends, reads only what is declared and
 * no more often than it may, and leaves the frame as it was where it fails. */
#include "event/event.h"
#include "unwind/unwind.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define RULES 4
#define WIDES 2
#define OPS   64
#define CODES 8

/* The first bytes of the stack are these as well: a target writes both. */
struct hostile {
	uint8_t exact, jit;
	uint16_t codes[CODES]; /* one frame after the other, again and again */
	uint32_t regs[ABI_REGS];
	struct abi_rule rules[RULES];
	struct abi_wide wides[WIDES];
	struct abi_op ops[OPS];
};

struct stack {
	const uint8_t *p;
	size_t len;
	uint64_t base;
	size_t reads;
	const struct hostile *h;
};

static int read_stack(void *arg, uint64_t *ret, uint64_t addr)
{
	struct stack *s = arg;

	s->reads++;
	if (addr < s->base || addr - s->base > s->len || s->len - (addr - s->base) < 8)
		return -1;
	memcpy(ret, s->p + (addr - s->base), 8);
	return 0;
}

static int step_read(struct stack *s, __u64 *ret, __u64 addr)
{
	uint64_t v;

	if (read_stack(s, &v, addr))
		return -1; /* and *ret as it was */
	*ret = v;
	return 0;
}

/* The leaf. */
struct start {
	uint64_t pc, sp, fp;
};

/* Now and then the end of a signal handler. */
static int step_read_code(struct stack *s, __u64 *ret, __u64 addr);

#define UW_MEM                       struct stack
#define UW_READ(mem, ret, addr)      step_read(mem, ret, addr)
#define UW_READ_CODE(mem, ret, addr) step_read_code(mem, ret, addr)
#define UW_IS_CODE(mem, addr, sure)  ((void)(mem), (sure) || ((addr)&3) != 0)
#define UW_RULE(m, i)                ((i)-ABI_CODE_FIRST < RULES ? &(m)->h->rules[(i)-ABI_CODE_FIRST] : NULL)
#define UW_WIDE(m, i)                ((i) < WIDES ? &(m)->h->wides[i] : NULL)
#define UW_OP(m, i)                  ((i) < OPS ? &(m)->h->ops[i] : NULL)
#include "step/step_compat.h"

static int step_read_code(struct stack *s, __u64 *ret, __u64 addr)
{
	s->reads++;
	if (addr % 16 == 5) {
		*ret = UW_SIGRETURN;
		return 0;
	}
	return -1;
}

/* Every expression of a wide rule, each operation with a register and a word of memory; the
 * registers; CFA and return address. */
#define READS_MAX ((ABI_REGS + 2) * (2 * ABI_EXPR_OPS + 2) + 2 * ABI_REGS + 8)

/* Kinds and numbers near those that exist: any other ends in one comparison. */
static void tame(struct hostile *h)
{
	for (size_t i = 0; i < RULES; i++) {
		h->rules[i].kind %= ABI_RULE_BAD + 2;
		if (h->rules[i].kind == ABI_RULE_WIDE)
			h->rules[i].cfa_off &= 3;
	}
	for (size_t i = 0; i < WIDES; i++) {
		h->wides[i].cfa_kind %= ABI_CFA_PLT + 2;
		if (h->wides[i].cfa_kind == ABI_CFA_EXPR)
			h->wides[i].cfa_off %= OPS + 1;
		for (size_t k = 0; k <= ABI_COL_RA; k++) {
			h->wides[i].kind[k] %= ABI_COL_EXPR + 2;
			if (h->wides[i].kind[k] >= ABI_COL_AT_EXPR)
				h->wides[i].val[k] %= OPS + 1;
		}
	}
	for (size_t i = 0; i < OPS; i++) {
		h->ops[i].op %= ABI_OP_CNT + 1;
		if (h->ops[i].op == ABI_OP_SKIP || h->ops[i].op == ABI_OP_BRA)
			h->ops[i].arg %= OPS;
	}
}

static void walk_by_fp(struct stack *s, const struct start *at)
{
	struct uw_state u;
	int r = 0;

	memset(&u, 0, sizeof(u));
	u.pc = at->pc;
	u.reg[ABI_REG_SP] = at->sp;
	u.reg[ABI_REG_FP] = at->fp;
	uw_begin(&u);
	for (size_t n = 0; n < ABI_MAX_USER_FRAMES && r == 0; n++) {
		s->reads = 0;
		r = uw_step_fp(&u, s);
		if (s->reads > 2 || (r && (r < ABI_WALK_ROOT || r > ABI_WALK_BAD_PC)))
			abort();
	}
}

static void walk_32_bit(struct stack *s, const struct start *at)
{
	uint64_t base = s->base, limit;
	struct uw_state u;
	int r = 0;

	memset(&u, 0, sizeof(u));
	u.pc = at->pc & 0xffffffff;
	u.reg[ABI_REG_SP] = at->sp;
	u.reg[ABI_REG_FP] = at->fp;
	s->base = at->sp & 0xffffffff;
	limit = s->base;
	uw_begin(&u);
	for (size_t n = 0; n < ABI_MAX_USER_FRAMES && r == 0; n++) {
		s->reads = 0;
		r = uw_step_compat(&u, s);
		if (s->reads > 2 || (r && (r < ABI_WALK_ROOT || r > ABI_WALK_BAD_PC)))
			abort();
		if (r == 0 && u.reg[ABI_REG_SP] <= limit) /* always up: it ends */
			abort();
		if (r == 0 && (u.reg[ABI_REG_SP] > 1ULL << 32 || u.pc >> 32))
			abort();
		limit = u.reg[ABI_REG_SP];
	}
	s->base = base;
}

static void walk_by_rules(struct stack *s, const struct start *at)
{
	struct hostile h;
	struct uw_state u;

	memset(&h, 0, sizeof(h));
	memset(&u, 0, sizeof(u));
	if (s->len)
		memcpy(&h, s->p, MIN_OF(s->len, sizeof(h)));
	tame(&h);
	s->h = &h;
	u.pc = at->pc;
	/* Mostly in the stack or near it. */
	for (size_t i = 0; i < ABI_REGS; i++)
		u.reg[i] = h.regs[i] & 3 ? s->base + (h.regs[i] >> 8) % (s->len + 16) : h.regs[i];
	u.reg[ABI_REG_SP] = at->sp;
	u.reg[ABI_REG_FP] = at->fp;
	uw_begin(&u);
	u.exact = h.exact & 1;
	for (size_t n = 0; n < ABI_MAX_USER_FRAMES; n++) {
		uint32_t code = h.codes[n % CODES];
		uint64_t pc = u.pc, sp = u.reg[ABI_REG_SP];
		uint32_t heuristic = u.heuristic;
		int r;

		if (!(code & ABI_CODE_INLINE))
			code %= ABI_CODE_FIRST + RULES + 1;
		s->reads = 0;
		if (code == ABI_CODE_NONE || code == ABI_CODE_BAD)
			r = uw_step_heuristic(&u, s, uw_special(&u, s), code, h.jit & 1);
		else
			r = uw_step(&u, s, code);
		if (s->reads > READS_MAX)
			abort();
		if (r) {
			if (r < ABI_WALK_ROOT || r > ABI_WALK_JIT || u.pc != pc ||
			    u.reg[ABI_REG_SP] != sp)
				abort();
			break;
		}
		if (u.pc < UW_USER_MIN || u.pc >= UW_USER_END || u.reg[ABI_REG_SP] < UW_USER_MIN ||
		    u.reg[ABI_REG_SP] >= UW_USER_END || (u.lazy | u.lost) & 1u << ABI_REG_SP ||
		    u.exact > 1 || (u.pc == pc && u.reg[ABI_REG_SP] == sp) ||
		    u.heuristic - heuristic > 1)
			abort();
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct cursor c = cursor_of(data, size);
	struct start at;
	struct stack s = {0};

	if (cursor_u64(&c, &at.pc) < 0 || cursor_u64(&c, &at.sp) < 0 || cursor_u64(&c, &at.fp) < 0)
		return 0;
	s.p = c.p;
	s.len = cursor_left(&c);
	s.base = at.sp;
	walk_by_fp(&s, &at);
	walk_32_bit(&s, &at);
	walk_by_rules(&s, &at);
	return 0;
}
