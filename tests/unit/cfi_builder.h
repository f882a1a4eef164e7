/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cfi-builder - .eh_frame and .debug_frame byte by byte, and rows as text
 * Functions lie in the text of elf_builder.h's files, 0x401000 … 0x402000.
 */
#ifndef PA_TEST_CFI_BUILDER_H
#define PA_TEST_CFI_BUILDER_H

#include "elf_builder.h"
#include "fake_rules.h"

#define CB_VADDR 0x500000 /* of the area */
#define CB_TEXT  EB_TEXT_VADDR
#ifdef ABI_ARM64
#define CB_RA   30
#define CB_CALL "\x0c\x1f\x00" /* DW_CFA_def_cfa: sp + 0 */
#else
#define CB_RA 16
#define CB_CALL                                                                                    \
	"\x0c\x07\x08\x90\x01" /* DW_CFA_def_cfa: rsp + 8; offset: return address at CFA - 8 */
#endif
/* A literal with the bytes of zero inside, and its length. */
#define CB(s) (const uint8_t *)(s), sizeof(s) - 1

struct cb_cie {
	const char *aug;         /* NULL: "zR" */
	const uint8_t *aug_data; /* NULL: the encoding */
	size_t aug_len;
	uint8_t version; /* 0: 1 in .eh_frame, 4 in .debug_frame */
	uint8_t enc;     /* of FDEs */
	uint64_t code_align;
	int64_t data_align;  /* 0: 1 and -8 */
	uint64_t ra;         /* 0: CB_RA */
	uint8_t addr_size;   /* 0: 8 */
	const uint8_t *insn; /* NULL: CB_CALL */
	size_t insn_len;
};

struct cb {
	struct sbuf b;
	bool debug_frame, is64;
};

static inline void cb_init(struct cb *c, bool debug_frame, bool is64)
{
	*c = (struct cb){.debug_frame = debug_frame, .is64 = is64};
	sbuf_init(&c->b, 16 << 20);
}

static inline void cb_num(struct cb *c, uint64_t v, size_t n)
{
	(void)sbuf_add(&c->b, &v, n); /* .err is looked at in cb_area */
}

static inline void cb_uleb(struct cb *c, uint64_t v)
{
	do {
		(void)sbuf_char(&c->b, (char)((v & 0x7f) | (v > 0x7f ? 0x80 : 0)));
		v >>= 7;
	} while (v);
}

static inline void cb_sleb(struct cb *c, int64_t v)
{
	bool more = true;

	while (more) {
		uint8_t byte = v & 0x7f;

		v >>= 7;
		more = !((v == 0 && !(byte & 0x40)) || (v == -1 && (byte & 0x40)));
		(void)sbuf_char(&c->b, (char)(byte | (more ? 0x80 : 0)));
	}
}

/* Begins an entry; its id; the offset of its length. */
static inline size_t cb_begin(struct cb *c, uint64_t id)
{
	size_t at;

	if (c->is64)
		cb_num(c, UINT32_MAX, 4);
	at = c->b.len;
	cb_num(c, 0, c->is64 ? 8 : 4);
	cb_num(c, id, c->is64 && c->debug_frame ? 8 : 4);
	return at;
}

static inline void cb_end(struct cb *c, size_t at)
{
	const size_t size = c->is64 ? 8 : 4;
	uint64_t len;

	while (c->b.len & 7)
		cb_num(c, 0, 1); /* DW_CFA_nop */
	len = c->b.len - at - size;
	memcpy(c->b.p + at, &len, size);
}

/* Returns its offset. */
static inline size_t cb_cie(struct cb *c, const struct cb_cie *o)
{
	const size_t off = c->b.len;
	const char *aug = o->aug ? o->aug : c->debug_frame ? "" : "zR";
	uint8_t version = o->version ? o->version : c->debug_frame ? 4 : 1;
	size_t at = cb_begin(c, c->debug_frame ? UINT64_MAX : 0);

	cb_num(c, version, 1);
	(void)sbuf_add(&c->b, aug, strlen(aug) + 1);
	if (strcmp(aug, "eh") == 0)
		cb_num(c, 0, 8);
	if (version == 4) {
		cb_num(c, o->addr_size ? o->addr_size : 8, 1);
		cb_num(c, 0, 1);
	}
	cb_uleb(c, o->code_align ? o->code_align : 1);
	cb_sleb(c, o->data_align ? o->data_align : -8);
	cb_uleb(c, o->ra ? o->ra : CB_RA);
	if (*aug == 'z') {
		cb_uleb(c, o->aug_data ? o->aug_len : 1);
		if (o->aug_data)
			(void)sbuf_add(&c->b, o->aug_data, o->aug_len);
		else
			cb_num(c, o->enc, 1);
	}
	if (o->insn)
		(void)sbuf_add(&c->b, o->insn, o->insn_len);
	else
		(void)sbuf_add(&c->b, CB_CALL, sizeof(CB_CALL) - 1);
	cb_end(c, at);
	return off;
}

/* A pointer as @enc says; sizes: @base 0. */
static inline void cb_ptr(struct cb *c, uint8_t enc, uint64_t v, bool is_size)
{
	if (!is_size && (enc & 0x70) == 0x10)
		v -= CB_VADDR + c->b.len;
	switch (enc & 0x0f) {
	case 0x01:
		cb_uleb(c, v);
		break;
	case 0x09:
		cb_sleb(c, (int64_t)v);
		break;
	case 0x02:
	case 0x0a:
		cb_num(c, v, 2);
		break;
	case 0x03:
	case 0x0b:
		cb_num(c, v, 4);
		break;
	default:
		cb_num(c, v, 8);
		break;
	}
}

/* An FDE of the CIE at @cie; where its instructions begin. */
static inline size_t cb_fde(struct cb *c, size_t cie, uint8_t enc, uint64_t start, uint64_t size,
                            const uint8_t *insn, size_t len)
{
	size_t id_at = c->b.len + (c->is64 ? 12 : 4), insn_at;
	size_t at = cb_begin(c, c->debug_frame ? cie : id_at - cie);

	cb_ptr(c, enc, start, false);
	cb_ptr(c, enc, size, true);
	if (!c->debug_frame)
		cb_uleb(c, 0); /* no augmentation data */
	insn_at = c->b.len;
	(void)sbuf_add(&c->b, insn, len);
	cb_end(c, at);
	return insn_at;
}

/* The area that was built; read into @rec. */
static inline int cb_read(const struct cb *c, struct img_file *f, struct recorder *rec)
{
	struct uw_area a = {
	        .p = (const uint8_t *)c->b.p,
	        .len = c->b.len,
	        .vaddr = CB_VADDR,
	        .debug_frame = c->debug_frame,
	};

	assert(!c->b.err);
	return uw_cfi_read(f, &a, &rec->sink);
}

/* ---- text ------------------------------------------------------------------------------------ */

static inline void cb_print_col(const struct uw_col *c, struct sbuf *b)
{
	switch ((enum abi_col_kind)c->kind) {
	case ABI_COL_SAME:
		(void)sbuf_str(b, "same");
		break;
	case ABI_COL_UNDEF:
		(void)sbuf_str(b, "lost");
		break;
	case ABI_COL_AT_CFA:
		(void)sbuf_addf(b, "[c%+d]", c->val);
		break;
	case ABI_COL_CFA:
		(void)sbuf_addf(b, "c%+d", c->val);
		break;
	case ABI_COL_REG:
		(void)sbuf_addf(b, "r%d", c->val);
		break;
	case ABI_COL_AT_REG:
		(void)sbuf_addf(b, "[r%d%+d]", c->val & 255, c->val >> 8);
		break;
	case ABI_COL_AT_EXPR:
		(void)sbuf_str(b, "[expr]");
		break;
	case ABI_COL_EXPR:
		(void)sbuf_str(b, "expr");
		break;
	}
}

/* "r7+8 ra=[c-8] r3=[c-16]" */
static inline void cb_print_rule(const struct uw_rule *r, struct sbuf *b)
{
	switch ((enum abi_cfa_kind)r->cfa_kind) {
	case ABI_CFA_REG:
		(void)sbuf_addf(b, "r%d%+d", r->cfa_reg, r->cfa_off);
		break;
	case ABI_CFA_DEREF:
		(void)sbuf_addf(b, "[r%d%+d]%+d", r->cfa_reg, r->cfa_off, r->cfa_off2);
		break;
	case ABI_CFA_PLT:
		(void)sbuf_addf(b, "r%d%+d/%d", r->cfa_reg, r->cfa_off, r->cfa_off2);
		break;
	case ABI_CFA_EXPR:
		(void)sbuf_str(b, "expr");
		break;
	}
	if (r->signal)
		(void)sbuf_str(b, " signal");
	(void)sbuf_str(b, " ra=");
	cb_print_col(&r->col[ABI_COL_RA], b);
	for (int i = 0; i < ABI_REGS; i++) {
		if (r->col[i].kind == ABI_COL_SAME)
			continue;
		(void)sbuf_addf(b, " r%d=", i);
		cb_print_col(&r->col[i], b);
	}
}

/* All functions: "100-140: 0 r7+8 ra=[c-8]; 1 r7+16 ra=[c-8]\n", offsets from the start of text. */
static inline char *cb_text(const struct recorder *rec)
{
	struct sbuf b;

	sbuf_init(&b, 16 << 20);
	for (size_t i = 0; i < rec->funcs.n; i++) {
		const struct rec_func *f = &rec->funcs.p[i];

		(void)sbuf_addf(&b, "%lx-%lx:", f->start - CB_TEXT, f->end - CB_TEXT);
		for (size_t k = f->first; k < f->first + f->n; k++) {
			const struct rec_row *row = &rec->rows.p[k];
			const struct uw_rule *r = rec_rule(rec, row->code);

			(void)sbuf_addf(&b, "%s %lx ", k == f->first ? "" : ";",
			                row->at - f->start);
			if (r)
				cb_print_rule(r, &b);
			else
				(void)sbuf_str(&b, row->code == ABI_CODE_ROOT ? "root" : "bad");
		}
		(void)sbuf_char(&b, '\n');
	}
	return sbuf_take(&b);
}

#endif
