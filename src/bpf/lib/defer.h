/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/* Deferred samples: registers and a stack snapshot, unwound in user space. */
#ifndef PA_BPF_DEFER_H
#define PA_BPF_DEFER_H

#include "bpf/lib/scratch.h"

/* Reads the stack from the stack pointer in s->deferred.reg on. Returns 1 if the snapshot is full,
 * so that the stack may go on above it. */
static __always_inline __u32 snapshot_stack(struct scratch *s)
{
	__u64 sp = s->deferred.reg[ABI_REG_SP], addr = sp - ABI_DEFERRED_BELOW, word;
	__u32 i, n = 0, holes = 0;

	/* The page below was never touched: begin at the stack pointer. */
	if (bpf_probe_read_user(&word, sizeof(word), (const void *)(addr & ~7ULL)))
		addr = sp;
	addr &= ~(__u64)(ABI_DEFERRED_STEP - 1);
	for (i = 0; i < ABI_DEFERRED_BYTES / ABI_DEFERRED_STEP; i++) {
		if (bpf_probe_read_user(s->snapshot + i * ABI_DEFERRED_STEP, ABI_DEFERRED_STEP,
		                        (const void *)(addr + i * ABI_DEFERRED_STEP)))
			holes |= 1u << i;
		else
			n = i + 1;
	}
	s->deferred.addr = addr;
	s->deferred.len = n * ABI_DEFERRED_STEP;
	s->deferred.holes = holes & ((1u << n) - 1);
	s->deferred.kernel_tid = (__u32)bpf_get_current_pid_tgid();
	return n == ABI_DEFERRED_BYTES / ABI_DEFERRED_STEP;
}

/* Sends s->deferred, whose registers and snapshot are set already, with the key and count of the
 * sample. Returns 1 if the ring is full. */
static __always_inline int ship_deferred(struct scratch *s, struct abi_counters *c)
{
	__u64 flags = BPF_RB_NO_WAKEUP, len;

	s->deferred.key = s->key;
	if (s->task.in_syscall)
		s->deferred.key.flags |= ABI_KEY_IN_SYSCALL;
	s->deferred.count = s->count;
	s->deferred.placeholder = s->placeholder;
	s->deferred.time_ns = bpf_ktime_get_ns();
	s->deferred.image = s->defer.image;
	s->deferred.cpu = cfg.stream ? bpf_get_smp_processor_id() + 1 : 0;
	len = sizeof(s->deferred) + (__u64)s->deferred.len;
	/* verifier: true already */
	if (len > sizeof(s->deferred) + ABI_DEFERRED_BYTES)
		len = sizeof(s->deferred) + ABI_DEFERRED_BYTES;
	if (s->defer.wake ||
	    bpf_ringbuf_query(&deferred_ring, BPF_RB_AVAIL_DATA) >= cfg.deferred_wake_bytes)
		flags = BPF_RB_FORCE_WAKEUP;
	if (bpf_ringbuf_output(&deferred_ring, &s->deferred, len, flags)) {
		CNT_ADD(c, DEFERRED_FULL, 1);
		return 1;
	}
	CNT_ADD(c, DEFERRED_BYTES, len + 8); /* 8: the ring's own header */
	return 0;
}

#endif
