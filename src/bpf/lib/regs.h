/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/* User registers of a sample, by architecture. Types are those of <linux/ptrace.h> (UAPI). */
#ifndef PA_BPF_REGS_H
#define PA_BPF_REGS_H

#if defined(__TARGET_ARCH_x86)
typedef struct pt_regs user_regs_t;
#define REGS_IS_USER(r) (((r)->cs & 3) == 3)
/* __USER32_CS: arch/x86/include/asm/segment.h, entry 4, RPL 3 */
#define REGS_IS_COMPAT(r) ((r)->cs == 0x23)
/* orig_rax is the number of the system call, and -1 in exceptions and interrupts. It is also set
 * when pc is no longer after the instruction, as when a signal is delivered on the way out. */
#define REGS_IN_SYSCALL(r) ((__s64)(r)->orig_rax >= 0)
/* syscall, int $0x80, sysenter: the two bytes before pc */
#define IS_SYSCALL_INSN(v) ((v) == 0x050f || (v) == 0x80cd || (v) == 0x340f)
/* execve, execveat */
#define REGS_IN_EXEC(r) ((r)->orig_rax == 59 || (r)->orig_rax == 322)
/* Key of a kernel stack: pc and number of the system call, and its descriptor. */
#define REGS_CALL_SITE(r) ((r)->rip ^ (r)->orig_rax << 48 ^ ((r)->rdi < 65536 ? (r)->rdi << 32 : 0))
#define REGS_SP(r)        ((r)->rsp)
#define REGS_PC(r)        ((r)->rip)
#define REGS_FP(r)        ((r)->rbp)
#define REGS_LR(r)        0
/* In DWARF order, field by field: the kernel rewrites accesses to the program's context, whose
 * address is not that of registers. */
#define REGS_COPY(ret_pc, ret_reg, r)                                                              \
	do {                                                                                       \
		(ret_reg)[0] = (r)->rax;                                                           \
		(ret_reg)[1] = (r)->rdx;                                                           \
		(ret_reg)[2] = (r)->rcx;                                                           \
		(ret_reg)[3] = (r)->rbx;                                                           \
		(ret_reg)[4] = (r)->rsi;                                                           \
		(ret_reg)[5] = (r)->rdi;                                                           \
		(ret_reg)[6] = (r)->rbp;                                                           \
		(ret_reg)[7] = (r)->rsp;                                                           \
		(ret_reg)[8] = (r)->r8;                                                            \
		(ret_reg)[9] = (r)->r9;                                                            \
		(ret_reg)[10] = (r)->r10;                                                          \
		(ret_reg)[11] = (r)->r11;                                                          \
		(ret_reg)[12] = (r)->r12;                                                          \
		(ret_reg)[13] = (r)->r13;                                                          \
		(ret_reg)[14] = (r)->r14;                                                          \
		(ret_reg)[15] = (r)->r15;                                                          \
		*(ret_pc) = (r)->rip;                                                              \
	} while (0)
/* The registers that a walk by frame pointers needs. */
#define REGS_COPY_FP(ret_pc, ret_reg, r)                                                           \
	do {                                                                                       \
		(ret_reg)[6] = (r)->rbp;                                                           \
		(ret_reg)[7] = (r)->rsp;                                                           \
		*(ret_pc) = (r)->rip;                                                              \
	} while (0)
/* User registers are at the top of a task's kernel stack, for kernels before bpf_task_pt_regs
 * (5.15). THREAD_SIZE is 16 KiB, and the top has no padding. */
#define REGS_STACK_SIZE 16384
#define REGS_STACK_PAD  0
#elif defined(__TARGET_ARCH_arm64)
typedef struct user_pt_regs user_regs_t;
#define REGS_IS_USER(r)    (((r)->pstate & 0xf) == 0)
#define REGS_IS_COMPAT(r)  (((r)->pstate & 0x10) != 0)
/* The UAPI part does not say it. The walk looks up the instruction after svc, which has the same
 * row except at the end of a function. */
#define REGS_IN_SYSCALL(r) 0
#define IS_SYSCALL_INSN(v) 0
/* execve 221, execveat 281 */
#define REGS_IN_EXEC(r)    ((r)->regs[8] == 221 || (r)->regs[8] == 281)
#define REGS_CALL_SITE(r)                                                                          \
	((r)->pc ^ (r)->regs[8] << 48 ^ ((r)->regs[0] < 65536 ? (r)->regs[0] << 32 : 0))
#define REGS_SP(r) ((r)->sp)
#define REGS_PC(r) ((r)->pc)
#define REGS_FP(r) ((r)->regs[29])
#define REGS_LR(r) ((r)->regs[30])
#define REGS_COPY(ret_pc, ret_reg, r)                                                              \
	do {                                                                                       \
		_Pragma("unroll") for (int i_ = 0; i_ < 31; i_++)(ret_reg)[i_] = (r)->regs[i_];    \
		(ret_reg)[31] = (r)->sp;                                                           \
		*(ret_pc) = (r)->pc;                                                               \
	} while (0)
#define REGS_COPY_FP(ret_pc, ret_reg, r)                                                           \
	do {                                                                                       \
		(ret_reg)[29] = (r)->regs[29];                                                     \
		(ret_reg)[31] = (r)->sp;                                                           \
		*(ret_pc) = (r)->pc;                                                               \
	} while (0)
#define REGS_STACK_SIZE 16384
/* struct pt_regs begins with its UAPI part and has 336 bytes since 5.10. */
#define REGS_STACK_PAD  (336 - sizeof(struct user_pt_regs))
#else
#error "perf-agent knows x86-64 and arm64"
#endif

#endif
