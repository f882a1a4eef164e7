/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Hand-written functions and what their call-frame information says of them; see asm.c.
 *
 * Each is called as f(fn, arg) and calls fn(arg), or, if a leaf, counts arg down. The stack is a multiple of 16 before
 * each call. DWARF numbers: rbx 3, rsp 7, r11 11, r12 12, r13 13, return address 16.
 */
#if defined(__x86_64__)
	.text

.macro FUNCTION name
	.globl	\name
	.hidden	\name
	.type	\name, @function
	.p2align 4
\name:
.endm
.macro END name
	.size	\name, . - \name
.endm
.macro CALL_FN
	mov	%rdi, %rax
	mov	%rsi, %rdi
	call	*%rax
.endm

/* f(inner, fn, arg): its CFA is rbx + 16, so that it is found only if inner's rule for rbx is right. The stack pointer
 * is rbx when inner is called: inner's CFA is the value of rbx. */
FUNCTION asm_on_rbx
	.cfi_startproc
	push	%rbx
	.cfi_adjust_cfa_offset 8
	.cfi_offset %rbx, -16
	mov	%rsp, %rbx
	.cfi_def_cfa_register %rbx
	mov	%rdi, %rax
	mov	%rsi, %rdi
	mov	%rdx, %rsi
	call	*%rax
	mov	%rbx, %rsp
	.cfi_def_cfa_register %rsp
	pop	%rbx
	.cfi_adjust_cfa_offset -8
	.cfi_restore %rbx
	ret
	.cfi_endproc
END asm_on_rbx

/* A leaf that leaves rax and r11 alone, and its callers, whose CFA is there across the call. */
FUNCTION asm_keep
	.cfi_startproc
1:	dec	%rsi
	jnz	1b
	ret
	.cfi_endproc
END asm_keep

.macro CFA_IN name, reg
FUNCTION \name
	.cfi_startproc
	lea	8(%rsp), %\reg
	.cfi_def_cfa %\reg, 0
	sub	$168, %rsp
	and	$-64, %rsp
	call	asm_keep
	lea	-8(%\reg), %rsp
	.cfi_def_cfa %rsp, 8
	ret
	.cfi_endproc
END \name
.endm
	CFA_IN asm_cfa_rax, rax
	CFA_IN asm_cfa_r11, r11

/* Saved by mov, somewhere in the frame, in no order of pushes. */
FUNCTION asm_odd_saves
	.cfi_startproc
	sub	$104, %rsp
	.cfi_adjust_cfa_offset 104
	mov	%rbx, 40(%rsp)
	.cfi_rel_offset %rbx, 40
	mov	%r12, 8(%rsp)
	.cfi_rel_offset %r12, 8
	mov	%rbp, 88(%rsp)
	.cfi_rel_offset %rbp, 88
	xor	%ebx, %ebx
	xor	%ebp, %ebp
	not	%r12
	CALL_FN
	mov	40(%rsp), %rbx
	.cfi_restore %rbx
	mov	8(%rsp), %r12
	.cfi_restore %r12
	mov	88(%rsp), %rbp
	.cfi_restore %rbp
	add	$104, %rsp
	.cfi_adjust_cfa_offset -104
	ret
	.cfi_endproc
END asm_odd_saves

/* rbx is nowhere saved: it is the CFA (DW_CFA_val_offset rbx, 0), given asm_on_rbx as caller. */
FUNCTION asm_val_offset
	.cfi_startproc
	sub	$8, %rsp
	.cfi_adjust_cfa_offset 8
	xor	%ebx, %ebx
	.cfi_escape 0x14, 3, 0
	CALL_FN
	lea	16(%rsp), %rbx
	.cfi_restore %rbx
	add	$8, %rsp
	.cfi_adjust_cfa_offset -8
	ret
	.cfi_endproc
END asm_val_offset

/* The same by DW_CFA_val_expression: CFA + 32 - 32. */
FUNCTION asm_val_expr
	.cfi_startproc
	sub	$8, %rsp
	.cfi_adjust_cfa_offset 8
	xor	%ebx, %ebx
	.cfi_escape 0x16, 3, 5, 0x23, 32, 0x08, 32, 0x1c
	CALL_FN
	lea	16(%rsp), %rbx
	.cfi_restore %rbx
	add	$8, %rsp
	.cfi_adjust_cfa_offset -8
	ret
	.cfi_endproc
END asm_val_expr

/* CFA = *(rsp + 8) + 8 */
FUNCTION asm_cfa_deref
	.cfi_startproc
	mov	%rsp, %rax
	.cfi_def_cfa %rax, 8
	sub	$300, %rsp
	and	$-64, %rsp
	mov	%rax, 8(%rsp)
	.cfi_escape 0x0f, 5, 0x77, 8, 0x06, 0x23, 8
	CALL_FN
	mov	8(%rsp), %rsp
	.cfi_def_cfa %rsp, 8
	ret
	.cfi_endproc
END asm_cfa_deref

/* CFA = *(rsp + 16) ^ 0x5a5a5a5a */
FUNCTION asm_cfa_expr
	.cfi_startproc
	lea	8(%rsp), %rax
	.cfi_def_cfa %rax, 0
	sub	$300, %rsp
	and	$-64, %rsp
	mov	%rax, %rcx
	xor	$0x5a5a5a5a, %rcx
	mov	%rcx, 16(%rsp)
	.cfi_escape 0x0f, 9, 0x77, 16, 0x06, 0x0c, 0x5a, 0x5a, 0x5a, 0x5a, 0x27
	CALL_FN
	mov	16(%rsp), %rcx
	xor	$0x5a5a5a5a, %rcx
	.cfi_def_cfa %rcx, 0
	lea	-8(%rcx), %rsp
	.cfi_def_cfa %rsp, 8
	ret
	.cfi_endproc
END asm_cfa_expr

/* rbx is saved at r12 + 24 (DW_CFA_expression), r12 at a plain place. */
FUNCTION asm_reg_expr
	.cfi_startproc
	push	%r12
	.cfi_adjust_cfa_offset 8
	.cfi_rel_offset %r12, 0
	sub	$192, %rsp
	.cfi_adjust_cfa_offset 192
	lea	96(%rsp), %r12
	mov	%rbx, 24(%r12)
	.cfi_escape 0x10, 3, 2, 0x7c, 24
	xor	%ebx, %ebx
	CALL_FN
	mov	24(%r12), %rbx
	.cfi_restore %rbx
	add	$192, %rsp
	.cfi_adjust_cfa_offset -192
	pop	%r12
	.cfi_adjust_cfa_offset -8
	.cfi_restore %r12
	ret
	.cfi_endproc
END asm_reg_expr

/* rbx is in r13 (DW_CFA_register). */
FUNCTION asm_reg_reg
	.cfi_startproc
	push	%r13
	.cfi_adjust_cfa_offset 8
	.cfi_rel_offset %r13, 0
	mov	%rbx, %r13
	.cfi_register %rbx, %r13
	xor	%ebx, %ebx
	CALL_FN
	mov	%r13, %rbx
	.cfi_restore %rbx
	pop	%r13
	.cfi_adjust_cfa_offset -8
	.cfi_restore %r13
	ret
	.cfi_endproc
END asm_reg_reg

/* The return address is in rdx, and not on the stack. */
FUNCTION asm_ra_reg
	.cfi_startproc
	pop	%rdx
	.cfi_adjust_cfa_offset -8
	.cfi_register %rip, %rdx
1:	dec	%rsi
	jnz	1b
	push	%rdx
	.cfi_adjust_cfa_offset 8
	.cfi_offset %rip, -8
	ret
	.cfi_endproc
END asm_ra_reg

/* The return address is at CFA - 32, and no longer at CFA - 8. */
FUNCTION asm_ra_moved
	.cfi_startproc
	sub	$40, %rsp
	.cfi_adjust_cfa_offset 40
	mov	40(%rsp), %rax
	mov	%rax, 16(%rsp)
	.cfi_offset %rip, -32
	movq	$0, 40(%rsp)
	CALL_FN
	mov	16(%rsp), %rax
	mov	%rax, 40(%rsp)
	.cfi_offset %rip, -8
	add	$40, %rsp
	.cfi_adjust_cfa_offset -40
	ret
	.cfi_endproc
END asm_ra_moved

/* A leaf of system calls: getpid. */
FUNCTION asm_sys
	.cfi_startproc
1:	mov	$39, %eax
	syscall
	dec	%rsi
	jnz	1b
	ret
	.cfi_endproc
END asm_sys

/* f(sp, arg, leaf): runs a leaf further down on the stack, whose lowest word in use is then the one below sp. */
FUNCTION asm_low
	.cfi_startproc
	push	%rbp
	.cfi_adjust_cfa_offset 8
	.cfi_offset %rbp, -16
	mov	%rsp, %rbp
	.cfi_def_cfa_register %rbp
	mov	%rdi, %rsp
	call	*%rdx
	leave
	.cfi_def_cfa %rsp, 8
	ret
	.cfi_endproc
END asm_low

/* ---- without call-frame information ---------------------------------------------------------- */

FUNCTION asm_bare_leaf
1:	dec	%rsi
	jnz	1b
	ret
END asm_bare_leaf

FUNCTION asm_bare_call
	sub	$40, %rsp
	CALL_FN
	lea	40(%rsp), %rsp
	ret
END asm_bare_call

/* Its code after the call says where the return address is. */
FUNCTION asm_bare_pops
	sub	$40, %rsp
	CALL_FN
	add	$40, %rsp
	ret
END asm_bare_pops

/* Nothing in memory or registers tells who called it: the frame pointer is zero, as at a root, and no word that could
 * be a return address is near the stack pointer. */
FUNCTION asm_bare_zero
	push	%rbp
	xor	%ebp, %ebp
	sub	$64, %rsp
	movq	$0, (%rsp)
	movq	$0, 8(%rsp)
	movq	$0, 16(%rsp)
	movq	$0, 24(%rsp)
	movq	$0, 32(%rsp)
	CALL_FN
	add	$64, %rsp
	pop	%rbp
	ret
END asm_bare_zero

FUNCTION asm_fp_leaf
	push	%rbp
	mov	%rsp, %rbp
1:	dec	%rsi
	jnz	1b
	pop	%rbp
	ret
END asm_fp_leaf

FUNCTION asm_fp_call
	push	%rbp
	mov	%rsp, %rbp
	sub	$32, %rsp
	CALL_FN
	leave
	ret
END asm_fp_call
#endif
	.section .note.GNU-stack, "", @progbits
