/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cfi-eval - what the rows of libdw come to, over made-up registers and memory.
 * Only for oracles: asks nothing of what it is tested against but the numbers of registers.
 */
#ifndef PA_TEST_CFI_EVAL_H
#define PA_TEST_CFI_EVAL_H

#include <dwarf.h>
#include <elfutils/libdw.h>

#include "base/base.h"
#include "bpf/abi/abi.h"

#define STACK_MAX 64

/* ---- the machine ----------------------------------------------------------------------------- */

static uint64_t mix(uint64_t x)
{
	x = (x ^ (x >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
	x = (x ^ (x >> 27)) * UINT64_C(0x94d049bb133111eb);
	return x ^ (x >> 31);
}

/* A frame's registers; the pc is at index ABI_REGS. */
struct machine {
	uint64_t reg[ABI_REGS + 1];
	uint64_t slot[ABI_REGS]; /* addresses where memory holds the same values */
	bool user;               /* all values are addresses of user space, as a walk asks for */
};

/* 8 bytes of memory. Every address has some, also two that overlap. */
static uint64_t memory(const struct machine *m, uint64_t addr)
{
	const uint64_t v = mix(addr + 0x1234567), top = UINT64_C(1) << 46;

	return m->user ? (v & (top - 1)) | top : v;
}

/* @seed: its low 4 bits are those of the pc */
static void machine_init(struct machine *m, uint64_t seed, bool user)
{
	m->user = user;
	for (size_t i = 0; i < ABI_REGS; i++) {
		m->slot[i] = mix(seed * 64 + i);
		m->reg[i] = memory(m, m->slot[i]);
	}
	m->reg[ABI_REGS] = (memory(m, mix(seed)) & ~UINT64_C(15)) | (seed & 15);
}

/* Location of a column, by either side. */
enum place { PLACE_SAME, PLACE_UNDEF, PLACE_MEMORY, PLACE_VALUE, PLACE_ERROR };
struct found {
	enum place place;
	uint64_t v; /* address, or value */
};

static const char *const place_names[] = {"same", "undefined", "memory", "value", "error"};
/* ---- expressions: DWARF 5 §2.5, for what frames may use ----------------------------------------
 */

struct dw {
	const struct machine *m;
	uint64_t cfa, s[STACK_MAX];
	size_t n;
	bool failed;
};

static void dw_push(struct dw *d, uint64_t v)
{
	if (d->n == STACK_MAX)
		d->failed = true;
	else
		d->s[d->n++] = v;
}

static uint64_t dw_pop(struct dw *d)
{
	if (d->n == 0) {
		d->failed = true;
		return 0;
	}
	return d->s[--d->n];
}

static uint64_t dw_reg(struct dw *d, uint64_t n)
{
	if (n > ABI_REGS)
		d->failed = true;
	return n > ABI_REGS ? 0 : d->m->reg[n];
}

static bool dw_binary(struct dw *d, unsigned int atom)
{
	uint64_t b, a;
	int64_t sa, sb;

	if (!((atom >= DW_OP_and && atom <= DW_OP_xor && atom != DW_OP_neg && atom != DW_OP_not &&
	       atom != DW_OP_plus_uconst) ||
	      (atom >= DW_OP_eq && atom <= DW_OP_ne)))
		return false;
	b = dw_pop(d);
	a = dw_pop(d);
	sa = (int64_t)a;
	sb = (int64_t)b;
	switch (atom) {
	case DW_OP_and:
		dw_push(d, a & b);
		break;
	case DW_OP_minus:
		dw_push(d, a - b);
		break;
	case DW_OP_mul:
		dw_push(d, a * b);
		break;
	case DW_OP_or:
		dw_push(d, a | b);
		break;
	case DW_OP_plus:
		dw_push(d, a + b);
		break;
	case DW_OP_shl:
		dw_push(d, b < 64 ? a << b : 0);
		break;
	case DW_OP_shr:
		dw_push(d, b < 64 ? a >> b : 0);
		break;
	case DW_OP_shra:
		dw_push(d, (uint64_t)(sa >> (b < 64 ? b : 63)));
		break;
	case DW_OP_xor:
		dw_push(d, a ^ b);
		break;
	case DW_OP_eq:
		dw_push(d, a == b);
		break;
	case DW_OP_ne:
		dw_push(d, a != b);
		break;
	case DW_OP_lt:
		dw_push(d, sa < sb);
		break;
	case DW_OP_le:
		dw_push(d, sa <= sb);
		break;
	case DW_OP_gt:
		dw_push(d, sa > sb);
		break;
	case DW_OP_ge:
		dw_push(d, sa >= sb);
		break;
	default:
		d->failed = true;
		break;
	}
	return true;
}

static void dw_stack_op(struct dw *d, const Dwarf_Op *o)
{
	uint64_t a, b, c;

	switch (o->atom) {
	case DW_OP_dup:
		a = dw_pop(d);
		dw_push(d, a);
		dw_push(d, a);
		break;
	case DW_OP_drop:
		(void)dw_pop(d); /* that is what it is for */
		break;
	case DW_OP_over:
	case DW_OP_pick:
		a = o->atom == DW_OP_over ? 1 : o->number;
		if (a < d->n)
			dw_push(d, d->s[d->n - 1 - a]);
		else
			d->failed = true;
		break;
	case DW_OP_swap:
		a = dw_pop(d);
		b = dw_pop(d);
		dw_push(d, a);
		dw_push(d, b);
		break;
	case DW_OP_rot:
		a = dw_pop(d);
		b = dw_pop(d);
		c = dw_pop(d);
		dw_push(d, a);
		dw_push(d, c);
		dw_push(d, b);
		break;
	case DW_OP_abs:
		a = dw_pop(d);
		dw_push(d, (int64_t)a < 0 ? 0 - a : a);
		break;
	case DW_OP_neg:
		dw_push(d, 0 - dw_pop(d));
		break;
	case DW_OP_not:
		dw_push(d, ~dw_pop(d));
		break;
	case DW_OP_deref:
		dw_push(d, memory(d->m, dw_pop(d)));
		break;
	case DW_OP_deref_size:
		a = memory(d->m, dw_pop(d));
		dw_push(d, o->number >= 8 ? a : a & ((UINT64_C(1) << (8 * o->number)) - 1));
		break;
	case DW_OP_nop:
		break;
	default:
		d->failed = true;
		break;
	}
}

/* One operation; index of the next one. */
static size_t dw_op(struct dw *d, const Dwarf_Op *ops, size_t n, size_t i, struct found *f)
{
	const Dwarf_Op *o = &ops[i];
	const unsigned int atom = o->atom;

	if (atom >= DW_OP_lit0 && atom <= DW_OP_lit31) {
		dw_push(d, atom - DW_OP_lit0);
	} else if (atom >= DW_OP_const1u && atom <= DW_OP_consts) {
		dw_push(d, o->number);
	} else if (atom >= DW_OP_breg0 && atom <= DW_OP_breg31) {
		dw_push(d, dw_reg(d, atom - DW_OP_breg0) + o->number);
	} else if (atom == DW_OP_bregx) {
		dw_push(d, dw_reg(d, o->number) + o->number2);
	} else if (atom >= DW_OP_reg0 && atom <= DW_OP_reg31) {
		*f = (struct found){PLACE_VALUE, dw_reg(d, atom - DW_OP_reg0)};
	} else if (atom == DW_OP_regx) {
		*f = (struct found){PLACE_VALUE, dw_reg(d, o->number)};
	} else if (atom == DW_OP_call_frame_cfa) {
		dw_push(d, d->cfa);
	} else if (atom == DW_OP_plus_uconst) {
		dw_push(d, dw_pop(d) + o->number);
	} else if (atom == DW_OP_stack_value) {
		*f = (struct found){PLACE_VALUE, dw_pop(d)};
	} else if (atom == DW_OP_skip || (atom == DW_OP_bra && dw_pop(d))) {
		Dwarf_Off to = o->offset + 3 + o->number;

		for (i = 0; i < n && ops[i].offset != to; i++)
			;
		return i;
	} else if (atom != DW_OP_bra && !dw_binary(d, atom)) {
		dw_stack_op(d, o);
	}
	return i + 1;
}

static struct found their_expr(const Dwarf_Op *ops, size_t n, const struct machine *m, uint64_t cfa)
{
	struct dw d = {.m = m, .cfa = cfa};
	struct found f = {PLACE_ERROR, 0};
	size_t steps = 0;

	for (size_t i = 0; i < n && !d.failed && steps < 1000; steps++)
		i = dw_op(&d, ops, n, i, &f);
	if (f.place == PLACE_ERROR && !d.failed && d.n > 0)
		f = (struct found){PLACE_MEMORY, d.s[d.n - 1]};
	if (d.failed)
		f.place = PLACE_ERROR;
	return f;
}

/* Returns the location of the caller's value of a column. */
static struct found their_col(Dwarf_Frame *frame, int reg, const struct machine *m, uint64_t cfa)
{
	Dwarf_Op mem[3], *ops = NULL;
	size_t n = 0;

	if (dwarf_frame_register(frame, reg, mem, &ops, &n) != 0)
		return (struct found){PLACE_ERROR, 0};
	if (n == 0)
		return (struct found){ops == mem ? PLACE_UNDEF : PLACE_SAME, 0};
	return their_expr(ops, n, m, cfa);
}

#endif
