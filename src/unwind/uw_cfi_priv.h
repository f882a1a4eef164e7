/* SPDX-License-Identifier: Apache-2.0 */
/*
 * unwind, private to the reading of call-frame information: what the uw_cfi*.c, uw_insn.c and
 * uw_expr.c share.
 */
#ifndef PA_UNWIND_CFI_PRIV_H
#define PA_UNWIND_CFI_PRIV_H

#include <dwarf.h>

#include "unwind/unwind_priv.h"

/* Nested DW_CFA_remember_state; compilers nest one or two. */
#define CFI_REMEMBER_MAX 16
/* Rows of one function; the largest of a Debian machine has some 20,000. */
#define CFI_ROWS_MAX (1u << 20)
/* Bytes of a CIE that are read: linked ones have at most some 60. FDEs of 13 bytes each may make us
 * read a CIE again and again. */
#define CFI_CIE_MAX 1024
/* Bytes of CIEs' instructions that are run for an area. Linked files have a few CIEs of some 10
 * bytes, which stay in the cache. */
#define CFI_CIE_RERUNS      4
#define CFI_CIE_RERUN_BYTES (1U << 20)
#define CFI_CIES            64   /* cached, power of two */
#define CFI_CODES           1024 /* rules cached with their codes, power of two */

/* Value of cfa_kind while no CFA is known: no enum abi_cfa_kind. */
#define CFI_CFA_UNSET UINT8_MAX

/* Parts of a pointer encoding (DW_EH_PE_*): how the number is stored, and what it is relative to.
 * Source: LSB 5.0, "DWARF Exception Header Encoding". */
#define CFI_PE_FORMAT 0x0f
#define CFI_PE_BASE   0x70

/* The state that instructions change. */
struct cfi_state {
	struct uw_rule rule;
	/* The last offset of a CFA by register and offset. An instruction after an expression may
	 * set the register alone, and means with this offset. */
	int32_t reg_off;
};

/* One CIE. */
struct cfi_cie {
	uint64_t off;      /* in the area; UINT64_MAX: the entry is empty */
	int err;           /* 0, or why it cannot be used; then its FDEs have no range */
	int insn_err;      /* 0, or why its instructions cannot be used; its FDEs have a range */
	uint64_t insn_bad; /* bytes of unknown instructions */
	uint64_t code_align;
	int64_t data_align;
	uint64_t ra_col;
	uint8_t fde_enc;   /* DW_EH_PE_* */
	uint8_t addr_size; /* 4 or 8 */
	bool sized;        /* augmentation data of FDEs begins with its length */
	bool signal;
	struct cfi_state initial; /* after its instructions */
};

/* Rows of one function, before they go to the sink. */
struct cfi_row {
	uint64_t at;
	uint16_t code;
};

struct cfi_code {
	bool used;
	uint16_t code;
	struct uw_rule rule;
};

/* The interpreter of one area. */
struct cfi_machine {
	struct img_file *f;
	const struct uw_area *area;
	struct uw_sink *sink;
	struct cfi_state cur;
	struct cfi_state saved[CFI_REMEMBER_MAX];
	size_t n_saved;
	uint64_t bad_bytes; /* of unknown instructions and expressions */
	bool refused;       /* the rule tables were full for a rule of this function */
	VEC(struct cfi_row) rows;
	struct cfi_code codes[CFI_CODES];
};

/* cursor_uleb with a fast path for one byte, which nearly all of them have. */
static inline int cfi_uleb(struct cursor *c, uint64_t *ret)
{
	if (c->p < c->end && !(*c->p & 0x80)) {
		*ret = *c->p++;
		return 0;
	}
	return cursor_uleb(c, ret);
}

/* Reads a number in the format of @enc, without its base: 0, -ENODATA, -ERANGE, -EINVAL. */
int cfi_number(struct cursor *c, uint8_t enc, uint8_t addr_size, uint64_t *ret);
/* Reads a pointer by its encoding: 0, -ENODATA, -EINVAL (no such encoding, or DW_EH_PE_omit). An
 * indirect one is read through @f unless that is NULL. */
int cfi_pointer(struct img_file *f, const struct uw_area *a, struct cursor *c, uint8_t enc,
                uint8_t addr_size, uint64_t *ret);

/* Sets a rule to that of a function without any instruction. */
void cfi_rule_begin(struct uw_rule *r, bool signal);
/* Returns in *ret the code of m->cur: 0, -EINVAL (it has no CFA), -ENOMEM. If the rule tables are
 * full, the code is ABI_CODE_BAD and m->refused is set. */
int cfi_state_code(struct cfi_machine *m, const struct cfi_cie *cie, uint16_t *ret);

/* Runs a CIE's instructions into cie->initial: 0, or an error as cfi_run_fde. */
int cfi_run_cie(struct cfi_machine *m, struct cfi_cie *cie, struct cursor c);
/* Runs an FDE's instructions into m->rows. m->bad_bytes are counted by the caller.
 * Returns: 0; -EINVAL, -ENODATA, -ERANGE (damaged), -ENOTSUP (not understood), -E2BIG (too many
 * rows or expressions); -ENOMEM. */
int cfi_run_fde(struct cfi_machine *m, const struct cfi_cie *cie, struct cursor c, uint64_t start,
                uint64_t end);

/* The shapes that need no expression, 0; else -ENOENT. The CFA is on the stack for columns. */
int uw_expr_cfa_shape(const struct uw_ops *ops, struct uw_rule *ret);
int uw_expr_col_shape(const struct uw_ops *ops, bool is_value, struct uw_col *ret);

#endif
