/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/* User registers of a sample, by architecture. Types are those of <linux/ptrace.h> (UAPI). */
#ifndef PA_BPF_REGS_H
#define PA_BPF_REGS_H

#if defined(__TARGET_ARCH_x86)
typedef struct pt_regs user_regs_t;
#define REGS_PC(r)      ((r)->rip)
#define REGS_SP(r)      ((r)->rsp)
#define REGS_FP(r)      ((r)->rbp)
#define REGS_IS_USER(r) (((r)->cs & 3) == 3)
/* Field by field: accesses to the program's context are rewritten, its address is not that of
 * registers. */
#define REGS_COPY(to, from)                                                                        \
	do {                                                                                       \
		(to)->rip = (from)->rip;                                                           \
		(to)->rsp = (from)->rsp;                                                           \
		(to)->rbp = (from)->rbp;                                                           \
		(to)->cs = (from)->cs;                                                             \
	} while (0)
/* __USER32_CS: arch/x86/include/asm/segment.h, entry 4, RPL 3 */
#define REGS_IS_COMPAT(r) ((r)->cs == 0x23)
/* Where a task's user registers lie below the top of its kernel stack, for kernels before
 * bpf_task_pt_regs (5.15); THREAD_SIZE is 16 KiB there and nothing pads the top. */
#define REGS_STACK_SIZE 16384
#define REGS_STACK_PAD  0
#elif defined(__TARGET_ARCH_arm64)
typedef struct user_pt_regs user_regs_t;
#define REGS_PC(r)        ((r)->pc)
#define REGS_SP(r)        ((r)->sp)
#define REGS_FP(r)        ((r)->regs[29])
#define REGS_IS_USER(r)   (((r)->pstate & 0xf) == 0)
#define REGS_IS_COMPAT(r) (((r)->pstate & 0x10) != 0)
#define REGS_COPY(to, from)                                                                        \
	do {                                                                                       \
		(to)->pc = (from)->pc;                                                             \
		(to)->sp = (from)->sp;                                                             \
		(to)->regs[29] = (from)->regs[29];                                                 \
		(to)->pstate = (from)->pstate;                                                     \
	} while (0)
#define REGS_STACK_SIZE 16384
/* struct pt_regs is longer than its UAPI part, which stands first: 336 bytes since 5.10. */
#define REGS_STACK_PAD  (336 - sizeof(struct user_pt_regs))
#else
#error "perf-agent knows x86-64 and arm64"
#endif

#endif
