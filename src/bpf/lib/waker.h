/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/*
 * The waker of a thread: a task with its stacks, or an interrupt.
 */
#ifndef PA_BPF_WAKER_H
#define PA_BPF_WAKER_H

#include "bpf/lib/kstack_cache.h"
#include "bpf/lib/ustack_cache.h"

/* Bits of the preempt count for interrupts. The task that an interrupt hit is no waker. */
#define IRQ_MASK 0xff0100 /* serving a softirq, hard interrupts, NMI */

#if defined(__TARGET_ARCH_x86)
/* Address of the per-CPU variable with the preempt count; the loader inserts its BTF id. A __ksym
 * that vmlinux's BTF lacks would make libbpf list the BTF of modules, which needs CAP_SYS_ADMIN,
 * even if no program uses it. */
static __always_inline const void *irq_variable(void)
{
	const void *p;

	asm("%0 = %1 ll" : "=r"(p) : "i"(ABI_IRQ_VARIABLE));
	return p;
}
#endif

/* Returns non-zero if the CPU serves an interrupt. @plain: the preempt count cannot be read. */
static __always_inline __u32 in_interrupt(void *ctx, struct task_struct *current, __u32 plain)
{
	__u32 count = 0;

#if defined(__TARGET_ARCH_x86)
	if (plain) {
		struct scratch *s = get_scratch();
		__u64 at;

		if (!s)
			return 0; /* verifier: cannot happen */
		/* An interrupt of kernel code runs on a stack of its own, one of user code on the
		 * task's. */
		s->kcache.top = (__u64)ctx;
		at = *(volatile __u64 *)&s->kcache.top;
		if (at - (__u64)TASK_GET(current, stack) >= REGS_STACK_SIZE)
			return 1;
		return !(TASK_GET(current, flags) & PF_KTHREAD) &&
		       saved_regs(&s->regs, current) == 0 && !REGS_IN_SYSCALL(&s->regs);
	}
	if (cfg.irq_count == ABI_IRQ_COUNT_PLAIN)
		count = *(const __u32 *)bpf_this_cpu_ptr(irq_variable());
	else if (cfg.irq_count == ABI_IRQ_COUNT_HOT &&
	         bpf_core_field_exists(((struct pcpu_hot *)0)->preempt_count))
		count = ((const struct pcpu_hot *)bpf_this_cpu_ptr(irq_variable()))->preempt_count;
#else
	(void)ctx;
	(void)plain;
	count = TASK_GET(current, thread_info.preempt.count);
#endif
	return count & IRQ_MASK;
}

/* A waker as it is sent: the header of a stack, and words. */
struct waker_record {
	struct abi_stack head;
	struct abi_waker w;
};

/* Sends the waker with both stacks and returns its hash. Overwrites s->key with the waker's. */
static __always_inline __u64 read_waker(void *ctx, struct scratch *s, struct abi_counters *c,
                                        __u32 plain)
{
	struct task_struct *current = current_task();
	struct waker_record rec = {};
	__u64 id = bpf_get_current_pid_tgid(), h = ~cfg.hash_seed;
	__u32 irq = in_interrupt(ctx, current, plain), i;

	if (read_key(s, current, id >> 32, (__u32)id) && !irq) {
		/* The agent: its name alone. */
		rec.w.tgid = id >> 32;
		rec.w.tid = (__u32)id;
		rec.w.flags = ABI_KEY_FOREIGN_NS; /* no other record has this process */
		bpf_get_current_comm(rec.w.comm, sizeof(rec.w.comm));
		goto out;
	}
	if (cfg.kernel_stacks) {
		walk_kernel(ctx, s, c);
		ship(&s->kernel.head, ABI_MAX_KERNEL_FRAMES, c);
		rec.w.kstack = s->kernel.head.hash;
	}
	if (irq || !id) {
		rec.w.flags = ABI_WAKER_IRQ;
	} else {
		if (!(s->key.flags & ABI_KEY_KTHREAD)) {
			switched_user(s, c, current, saved_regs(&s->regs, current));
			rec.w.ustack = s->key.ustack;
		}
		rec.w.start_ns = s->key.start_ns;
		rec.w.tgid = s->key.tgid;
		rec.w.tid = s->key.tid;
		rec.w.exec_id = s->key.exec_id;
		rec.w.flags = s->key.flags;
		bpf_get_current_comm(rec.w.comm, sizeof(rec.w.comm));
	}
out:
	for (i = 0; i < ABI_WAKER_WORDS; i++)
		h = uw_hash_mix(h, ((const __u64 *)&rec.w)[i], cfg.hash_seed);
	rec.head.kind = ABI_STACK_WAKER;
	rec.head.n = ABI_WAKER_WORDS;
	rec.head.hash = uw_hash_finish(h, ABI_WAKER_WORDS, ABI_STACK_WAKER, 0, cfg.hash_seed);
	if (!is_shipped(rec.head.hash))
		(void)send(&rec, sizeof(rec), rec.head.hash, c);
	return rec.head.hash;
}

#endif
