/* SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>

#include "unwind/unwind_priv.h"

static const char *const reg_names[ABI_REGS] = {
#ifdef ABI_ARM64
        "x0",  "x1",  "x2",  "x3",  "x4",  "x5",  "x6",  "x7",  "x8",  "x9",  "x10",
        "x11", "x12", "x13", "x14", "x15", "x16", "x17", "x18", "x19", "x20", "x21",
        "x22", "x23", "x24", "x25", "x26", "x27", "x28", "x29", "x30", "sp",
#else
        "rax", "rdx", "rcx", "rbx", "rsi", "rdi", "rbp", "rsp",
        "r8",  "r9",  "r10", "r11", "r12", "r13", "r14", "r15",
#endif
};

/* Operations without an argument, as words of a stack machine. */
static const char *const op_names[ABI_OP_CNT] = {
        [ABI_OP_DEREF] = "deref", [ABI_OP_PLUS] = "+",  [ABI_OP_MINUS] = "-",
        [ABI_OP_MUL] = "*",       [ABI_OP_AND] = "&",   [ABI_OP_OR] = "|",
        [ABI_OP_XOR] = "^",       [ABI_OP_SHL] = "<<",  [ABI_OP_SHR] = ">>",
        [ABI_OP_SHRA] = ">>>",    [ABI_OP_NEG] = "neg", [ABI_OP_NOT] = "not",
        [ABI_OP_ABS] = "abs",     [ABI_OP_EQ] = "==",   [ABI_OP_NE] = "!=",
        [ABI_OP_LT] = "<",        [ABI_OP_LE] = "<=",   [ABI_OP_GT] = ">",
        [ABI_OP_GE] = ">=",       [ABI_OP_DUP] = "dup", [ABI_OP_DROP] = "drop",
        [ABI_OP_SWAP] = "swap",   [ABI_OP_ROT] = "rot",
};

static const char *reg_name(uint32_t reg)
{
	return reg < ABI_REGS ? reg_names[reg] : "?";
}

/* "rsp+16", "CFA-8", "rax". sbuf keeps the first failure; the caller checks it at the end. */
static void add_sum(struct sbuf *b, const char *what, int64_t off)
{
	(void)sbuf_str(b, what);
	if (off)
		(void)sbuf_addf(b, "%+" PRId64, off);
}

static void add_op(struct sbuf *b, const struct abi_op *op)
{
	if (op->op >= ABI_OP_CNT) {
		(void)sbuf_str(b, "?");
		return;
	}
	switch (op->op) {
	case ABI_OP_CONST:
		(void)sbuf_addf(b, "%d", op->arg);
		break;
	case ABI_OP_CONST_HI:
		(void)sbuf_addf(b, "high(%d)", op->arg);
		break;
	case ABI_OP_REG:
		add_sum(b, reg_name(op->reg), op->arg);
		break;
	case ABI_OP_PC:
		add_sum(b, "pc", op->arg);
		break;
	case ABI_OP_DEREF_N:
		(void)sbuf_addf(b, "deref%d", op->arg);
		break;
	case ABI_OP_PLUS_CONST:
		(void)sbuf_addf(b, "%+d", op->arg);
		break;
	case ABI_OP_PICK:
		(void)sbuf_addf(b, "pick(%d)", op->arg);
		break;
	case ABI_OP_SKIP:
		(void)sbuf_addf(b, "skip(%d)", op->arg);
		break;
	case ABI_OP_BRA:
		(void)sbuf_addf(b, "bra(%d)", op->arg);
		break;
	default:
		(void)sbuf_str(b, op_names[op->op] ? op_names[op->op] : "?");
		break;
	}
}

/* "{CFA +8 deref}": the initial stack, then the operations. */
static void add_expr(struct sbuf *b, const struct uw_rules_mem *mem, int32_t at, bool cfa_pushed)
{
	uint32_t i = (uint32_t)at, n;
	const char *gap = cfa_pushed ? " " : "";

	(void)sbuf_str(b, cfa_pushed ? "{CFA" : "{");
	for (n = 0; n < ABI_EXPR_OPS; n++, i++) {
		if (!mem || i >= mem->n_ops || mem->ops[i].op == ABI_OP_END)
			break;
		(void)sbuf_str(b, gap);
		add_op(b, &mem->ops[i]);
		gap = " ";
	}
	(void)sbuf_str(b, "}");
}

static void add_cfa(struct sbuf *b, const struct uw_rules_mem *mem, const struct uw_rule *rule)
{
	(void)sbuf_str(b, "CFA=");
	switch ((enum abi_cfa_kind)rule->cfa_kind) {
	case ABI_CFA_REG:
		add_sum(b, reg_name(rule->cfa_reg), rule->cfa_off);
		return;
	case ABI_CFA_DEREF:
		(void)sbuf_str(b, "[");
		add_sum(b, reg_name(rule->cfa_reg), rule->cfa_off);
		add_sum(b, "]", rule->cfa_off2);
		return;
	case ABI_CFA_EXPR:
		add_expr(b, mem, rule->cfa_off, false);
		return;
	case ABI_CFA_PLT:
		add_sum(b, reg_name(rule->cfa_reg), rule->cfa_off);
		(void)sbuf_addf(b, "+8*(pc%%16>=%d)", rule->cfa_off2);
		return;
	}
	(void)sbuf_str(b, "?");
}

static void add_col(struct sbuf *b, const struct uw_rules_mem *mem, const struct uw_col *c)
{
	switch ((enum abi_col_kind)c->kind) {
	case ABI_COL_SAME:
		(void)sbuf_str(b, "same");
		return;
	case ABI_COL_UNDEF:
		(void)sbuf_str(b, "undefined");
		return;
	case ABI_COL_AT_CFA:
		(void)sbuf_str(b, "[");
		add_sum(b, "CFA", c->val);
		(void)sbuf_str(b, "]");
		return;
	case ABI_COL_CFA:
		add_sum(b, "CFA", c->val);
		return;
	case ABI_COL_REG:
		(void)sbuf_str(b, reg_name((uint32_t)c->val));
		return;
	case ABI_COL_AT_REG:
		(void)sbuf_str(b, "[");
		add_sum(b, reg_name((uint32_t)c->val & 255), c->val >> 8);
		(void)sbuf_str(b, "]");
		return;
	case ABI_COL_AT_EXPR:
		(void)sbuf_str(b, "[");
		add_expr(b, mem, c->val, true);
		(void)sbuf_str(b, "]");
		return;
	case ABI_COL_EXPR:
		add_expr(b, mem, c->val, true);
		return;
	}
	(void)sbuf_str(b, "?");
}

int uw_rule_print(const struct uw_rules *rules, const struct uw_rule *rule, struct sbuf *b)
{
	const struct uw_rules_mem *mem = rules ? uw_rules_mem(rules) : NULL;

	switch ((enum abi_rule_kind)rule->kind) {
	case ABI_RULE_NONE:
		return sbuf_str(b, "none");
	case ABI_RULE_ROOT:
		return sbuf_str(b, "root");
	case ABI_RULE_BAD:
	case ABI_RULE_WIDE: /* rules have no such kind */
		return sbuf_str(b, "bad");
	case ABI_RULE_FRAME:
		break;
	}
	add_cfa(b, mem, rule);
	for (uint32_t i = 0; i <= ABI_COL_RA; i++) {
		if (rule->col[i].kind == ABI_COL_SAME && i != ABI_COL_RA)
			continue;
		(void)sbuf_addf(b, " %s=", i == ABI_COL_RA ? "RA" : reg_names[i]);
		add_col(b, mem, &rule->col[i]);
	}
	if (rule->signal)
		(void)sbuf_str(b, " signal");
	return b->err;
}
