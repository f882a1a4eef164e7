/* SPDX-License-Identifier: Apache-2.0 */
/* Hand-written assembly (asm_x86.S), one shape for each way in which it keeps its CFA, its
 * registers and its return address; and assembly without call-frame information. */
#include "shape.h"

typedef uint64_t (*asm_fn)(uint64_t arg);
typedef uint64_t (*asm_inner)(asm_fn fn, uint64_t arg);

uint64_t asm_on_rbx(asm_inner inner, asm_fn fn, uint64_t arg);
uint64_t asm_keep(asm_fn fn, uint64_t arg);

/* Iterations of a leaf's own loop: some milliseconds. */
#define ASM_COUNT 3000000

/* A function of asm_x86.S under asm_on_rbx. */
#define ASM_INNER(name, arg)                                                                       \
	uint64_t asm_##name(asm_fn fn, uint64_t n);                                                \
	static void name##_work(void)                                                              \
	{                                                                                          \
		wl_sink += asm_on_rbx(asm_##name, shape_spin, arg);                                \
	}
/* One that its C function calls. */
#define ASM_PLAIN(name, arg)                                                                       \
	uint64_t asm_##name(asm_fn fn, uint64_t n);                                                \
	static void name##_work(void)                                                              \
	{                                                                                          \
		wl_sink += asm_##name(shape_spin, arg);                                            \
	}
#define ASM_SHAPE(shape, fn, first, last)                                                          \
	{                                                                                          \
		.name = "asm-" shape, .work = fn##_work, .chains = (const char *const[])           \
		{                                                                                  \
			first "asm_" #fn last " " #fn "_work", NULL                                \
		}                                                                                  \
	}

ASM_PLAIN(cfa_rax, ASM_COUNT)
ASM_PLAIN(cfa_r11, ASM_COUNT)
ASM_INNER(odd_saves, SHAPE_BATCHES)
ASM_INNER(val_offset, SHAPE_BATCHES)
ASM_INNER(val_expr, SHAPE_BATCHES)
ASM_INNER(cfa_deref, SHAPE_BATCHES)
ASM_INNER(cfa_expr, SHAPE_BATCHES)
ASM_INNER(reg_expr, SHAPE_BATCHES)
ASM_INNER(reg_reg, SHAPE_BATCHES)
ASM_INNER(ra_reg, ASM_COUNT)
ASM_INNER(ra_moved, SHAPE_BATCHES)
ASM_PLAIN(bare_leaf, ASM_COUNT)
ASM_PLAIN(bare_call, SHAPE_BATCHES)
ASM_PLAIN(fp_leaf, ASM_COUNT)
ASM_PLAIN(fp_call, SHAPE_BATCHES)

const struct shape shapes_asm[] = {
        ASM_SHAPE("cfa-rax", cfa_rax, "asm_keep ", ""),
        ASM_SHAPE("cfa-r11", cfa_r11, "asm_keep ", ""),
        ASM_SHAPE("odd-saves", odd_saves, "shape_spin ", " asm_on_rbx"),
        ASM_SHAPE("val-offset", val_offset, "shape_spin ", " asm_on_rbx"),
        ASM_SHAPE("val-expr", val_expr, "shape_spin ", " asm_on_rbx"),
        ASM_SHAPE("cfa-deref", cfa_deref, "shape_spin ", " asm_on_rbx"),
        ASM_SHAPE("cfa-expr", cfa_expr, "shape_spin ", " asm_on_rbx"),
        ASM_SHAPE("reg-expr", reg_expr, "shape_spin ", " asm_on_rbx"),
        ASM_SHAPE("reg-reg", reg_reg, "shape_spin ", " asm_on_rbx"),
        ASM_SHAPE("ra-reg", ra_reg, "", " asm_on_rbx"),
        ASM_SHAPE("ra-moved", ra_moved, "shape_spin ", " asm_on_rbx"),
        ASM_SHAPE("bare-leaf", bare_leaf, "", ""),
        ASM_SHAPE("bare-call", bare_call, "shape_spin ", ""),
        ASM_SHAPE("fp-leaf", fp_leaf, "", ""),
        ASM_SHAPE("fp-call", fp_call, "shape_spin ", ""),
        {.name = NULL},
};
