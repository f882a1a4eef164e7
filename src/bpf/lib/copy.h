/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/* First samples: registers and a piece of the stack, for user space to unwind. */
#ifndef PA_BPF_COPY_H
#define PA_BPF_COPY_H

#include "bpf/lib/state.h"

/* Copies the stack from s->copy.reg's stack pointer on: 1 if there is more of it than fits. */
static __always_inline __u32 copy_stack(struct scratch *s)
{
	__u64 sp = s->copy.reg[ABI_REG_SP], addr = sp - ABI_COPY_BELOW, word;
	__u32 i, n = 0, holes = 0;

	/* Where the page below was never touched: what there is. */
	if (bpf_probe_read_user(&word, sizeof(word), (const void *)(addr & ~7ULL)))
		addr = sp;
	addr &= ~(__u64)(ABI_COPY_STEP - 1);
	for (i = 0; i < ABI_COPY_BYTES / ABI_COPY_STEP; i++) {
		if (bpf_probe_read_user(s->copy_bytes + i * ABI_COPY_STEP, ABI_COPY_STEP,
		                        (const void *)(addr + i * ABI_COPY_STEP)))
			holes |= 1u << i;
		else
			n = i + 1;
	}
	s->copy.addr = addr;
	s->copy.len = n * ABI_COPY_STEP;
	s->copy.holes = holes & ((1u << n) - 1);
	s->copy.kernel_tid = (__u32)bpf_get_current_pid_tgid();
	return n == ABI_COPY_BYTES / ABI_COPY_STEP;
}

/* Ships s->copy, whose registers and bytes stand there already, with key and count of the sample:
 * 0, or 1 if the ring is full. */
static __always_inline int ship_copy(struct scratch *s, struct abi_counters *c)
{
	__u64 flags = BPF_RB_NO_WAKEUP, len;

	s->copy.key = s->key;
	if (s->in_syscall)
		s->copy.key.flags |= ABI_KEY_IN_SYSCALL;
	s->copy.count = s->count;
	s->copy.promise = s->promise;
	s->copy.time_ns = bpf_ktime_get_ns();
	s->copy.image = s->missing_image;
	len = sizeof(s->copy) + (__u64)s->copy.len;
	/* verifier: true already */
	if (len > sizeof(s->copy) + ABI_COPY_BYTES)
		len = sizeof(s->copy) + ABI_COPY_BYTES;
	if (s->copy_wake || bpf_ringbuf_query(&copies, BPF_RB_AVAIL_DATA) >= cfg.copy_wake_bytes)
		flags = BPF_RB_FORCE_WAKEUP;
	if (bpf_ringbuf_output(&copies, &s->copy, len, flags)) {
		CNT_ADD(c, COPY_FULL, 1);
		return 1;
	}
	CNT_ADD(c, COPY_BYTES, len + 8); /* 8: the ring's own header */
	return 0;
}

#endif
