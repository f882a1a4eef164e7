/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/* The stream: samples and intervals one by one, for outputs that need the time of each. */
#ifndef PA_BPF_STREAM_SEND_H
#define PA_BPF_STREAM_SEND_H

#include "bpf/lib/maps.h"

/* Sends a sample or an interval that has ended. Returns 1 if the ring took it; else the caller
 * counts it in its table, so that only its time is lost. */
static __always_inline int stream_send(const struct abi_count_key *key, __u64 time_ns, __u64 weight,
                                       __u64 runq_ns, __u64 waker, struct abi_counters *c)
{
	__u64 flags = BPF_RB_NO_WAKEUP;
	struct abi_stream *r;

	if (bpf_ringbuf_query(&stack_ring, BPF_RB_AVAIL_DATA) >= cfg.ring_wake_bytes)
		flags = BPF_RB_FORCE_WAKEUP;
	r = bpf_ringbuf_reserve(&stack_ring, sizeof(*r), 0);
	if (!r) {
		CNT_ADD(c, STREAM_FULL, 1);
		return 0;
	}
	r->head.hash = 1;
	r->head.kind = ABI_STACK_STREAM;
	r->head.walk = 0;
	r->head.flags = 0;
	r->head.n = ABI_STREAM_WORDS;
	r->key = *key;
	r->time_ns = time_ns;
	r->weight = weight;
	r->runq_ns = runq_ns;
	r->waker = waker;
	r->cpu = bpf_get_smp_processor_id();
	r->pad = 0;
	bpf_ringbuf_submit(r, flags);
	CNT_ADD(c, STREAMED, 1);
	CNT_ADD(c, KEPT, 1);
	return 1;
}

#endif
