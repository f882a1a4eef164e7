/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/*
 * Off-CPU intervals: the entries of threads, and where an interval that has ended is counted.
 */
#ifndef PA_BPF_OFFCPU_INTERVAL_H
#define PA_BPF_OFFCPU_INTERVAL_H

#include "bpf/lib/filter.h"
#include "bpf/lib/maps.h"

struct offcpu_count_map {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, 1);
	__type(key, struct abi_offcpu_key);
	__type(value, struct abi_offcpu_count);
};
struct offcpu_count_map offcpu_counts_a SEC(".maps");
struct offcpu_count_map offcpu_counts_b SEC(".maps");

/* Threads of the target, from their first wait until they end. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct abi_offcpu_thread);
} offcpu_threads SEC(".maps");

/* What an entry begins as; never written. On the stack it would be too much for 5.10. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct abi_offcpu_thread);
} offcpu_new SEC(".maps");

/* ---- counting -------------------------------------------------------------------------------- */

static __always_inline void count_interval(void *map, const struct abi_offcpu_key *key,
                                           const struct abi_offcpu_count *val,
                                           struct abi_counters *c)
{
	struct abi_offcpu_count *v = bpf_map_lookup_elem(map, key);
	long err;

	if (v) {
		/* The thread is in the key and runs on one CPU at a time: no other writer. */
		v->intervals += val->intervals;
		v->ns += val->ns;
		v->runq_ns += val->runq_ns;
		if (v->longest_ns < val->longest_ns)
			v->longest_ns = val->longest_ns;
		CNT_ADD(c, KEPT, val->intervals);
		return;
	}
	err = bpf_map_update_elem(map, key, val, BPF_NOEXIST);
	if (err == 0) {
		CNT_ADD(c, KEPT, val->intervals);
		CNT_ADD(c, COUNTS_NEW, 1);
		return;
	}
	if (err == -E2BIG)
		CNT_ADD(c, DROP_COUNTS_FULL, val->intervals);
	else
		CNT_ADD(c, DROP_COUNTS_BUSY, val->intervals);
	CNT_ADD(c, OFFCPU_DROPPED_NS, val->ns + val->runq_ns);
}

/* What a thread has waited goes to the table. */
static __always_inline void flush_pending(struct abi_offcpu_thread *t, struct abi_counters *c)
{
	if (!t->pending.intervals)
		return;
	if (ctl.offcpu_active & 1)
		count_interval(&offcpu_counts_b, &t->pending_key, &t->pending, c);
	else
		count_interval(&offcpu_counts_a, &t->pending_key, &t->pending, c);
	t->pending.intervals = 0;
}

static __always_inline int same_key(const struct abi_offcpu_key *a, const struct abi_offcpu_key *b)
{
	return a->k.ustack == b->k.ustack && a->k.kstack == b->k.kstack &&
	       a->k.cgroup_id == b->k.cgroup_id && a->k.start_ns == b->k.start_ns &&
	       a->k.tgid == b->k.tgid && a->k.tid == b->k.tid && a->k.exec_id == b->k.exec_id &&
	       a->k.flags == b->k.flags && a->waker == b->waker;
}

/* Do waits count already, and still? */
static __always_inline int is_counting(void)
{
	__u64 begin_ns = *(volatile __u64 *)&ctl.begin_ns;

	return begin_ns != ABI_BEGIN_NEVER && begin_ns != ABI_BEGIN_LATER;
}

/* The thread runs again. What lies before the capture does not count. */
static __always_inline void end_interval(struct abi_offcpu_thread *t, __u64 now,
                                         struct abi_counters *c)
{
	struct abi_offcpu_count val = {.intervals = 1};
	struct abi_offcpu_key key;
	__u64 out = t->out_ns, woken = t->wake_ns, begin_ns = *(volatile __u64 *)&ctl.begin_ns;
	__u64 waker = t->waker;
	__u32 preempted =
	        (t->key.flags & ABI_KEY_STATE_MASK) >> ABI_KEY_STATE_SHIFT == ABI_OFFCPU_PREEMPTED;
	__u32 wakeup_missed = 0;

	if (begin_ns == ABI_BEGIN_NEVER)
		return; /* the capture has just ended: it goes on, for whoever reads it */
	t->out_ns = 0;
	t->waker = 0; /* of this wait alone */
	if (now <= begin_ns)
		return;
	if (preempted || woken < out || woken > now) {
		woken = now; /* nobody wakes what is preempted */
		waker = 0;
		wakeup_missed = !preempted;
	}
	if (out < begin_ns)
		out = begin_ns;
	if (woken < begin_ns)
		woken = begin_ns;
	val.ns = woken - out;
	if (val.ns < cfg.offcpu_min_ns || val.ns > cfg.offcpu_max_ns)
		return;
	val.longest_ns = val.ns;
	val.runq_ns = now - woken;
	key.k = t->key;
	key.waker = waker;
	CNT_ADD(c, SEEN, 1);
	if (wakeup_missed)
		CNT_ADD(c, OFFCPU_WAKEUP_MISSED, 1);
	if (t->pending.intervals && same_key(&t->pending_key, &key)) {
		t->pending.intervals++;
		t->pending.ns += val.ns;
		t->pending.runq_ns += val.runq_ns;
		if (t->pending.longest_ns < val.longest_ns)
			t->pending.longest_ns = val.longest_ns;
		return;
	}
	flush_pending(t, c);
	t->pending_key = key;
	t->pending = val;
}

/* It is off its CPU and has run since its wait began: nobody told of its coming, nor of its going.
 * That wait ended behind its wake-up, and where that was not seen, nothing is known of it. @slept:
 * 1: it is woken, so that another wait is missing; else it was preempted. A function of its own, as
 * those that follow: the verifier looks at each once. */
__noinline int account_missed_run(__u32 tid, __u32 slept)
{
	struct abi_offcpu_thread *t = bpf_map_lookup_elem(&offcpu_threads, &tid);
	__u32 zero = 0;
	struct abi_counters *c = bpf_map_lookup_elem(&counters, &zero);

	if (!t || !c || *(volatile __u64 *)&ctl.begin_ns == ABI_BEGIN_NEVER)
		return 0; /* the look at the end says more */
	if (is_counting()) {
		CNT_ADD(c, OFFCPU_IN_MISSED, 1);
		CNT_ADD(c, OFFCPU_OUT_MISSED, slept & 1);
	}
	if (t->wake_ns >= t->out_ns)
		end_interval(t, t->wake_ns, c);
	t->out_ns = 0;
	t->untracked = 1;
	return 0;
}

/* The two ways in which a wait ends. @now: 0: not asked for yet. @ran_ns: how long it had run when
 * it came, which is as long as when it went. */
__noinline int switched_in(__u32 tid, __u64 now, __u64 ran_ns)
{
	struct abi_offcpu_thread *t = bpf_map_lookup_elem(&offcpu_threads, &tid);
	__u32 zero = 0;
	struct abi_counters *c;

	if (!t)
		return 0;
	if (t->out_ns && ran_ns != t->exec_ns)
		(void)account_missed_run(tid, 0);
	t->untracked = 0;
	if (!t->out_ns)
		return 0;
	c = bpf_map_lookup_elem(&counters, &zero);
	if (c)
		end_interval(t, now ? now : bpf_ktime_get_ns(), c);
	return 0;
}

/* It was switched in, and nobody told: that was as long ago as it has run since then.
 * @ran_ns: how long it has run by now, where it leaves its CPU. */
__noinline int account_missed_switch_in(__u32 tid, __u64 ran_ns)
{
	struct abi_offcpu_thread *t = bpf_map_lookup_elem(&offcpu_threads, &tid);
	__u64 now = bpf_ktime_get_ns();
	__u32 zero = 0;
	struct abi_counters *c = bpf_map_lookup_elem(&counters, &zero);

	if (!t || !c)
		return 0;
	if (is_counting())
		CNT_ADD(c, OFFCPU_IN_MISSED, 1);
	if (ran_ns < t->exec_ns) {
		t->out_ns = 0; /* another thread, of the same number */
		return 0;
	}
	now -= ran_ns - t->exec_ns;
	if (now < t->wake_ns)
		now = t->wake_ns;
	if (now < t->out_ns)
		now = t->out_ns;
	end_interval(t, now, c);
	return 0;
}

/* The state of a wait that begins; ABI_OFFCPU_NONE: it leaves its CPU, and that is none that is asked
 * for. The verifier looks at it once, and at what follows once for all states. */
__noinline int filter_state(__u32 state, __u32 tid, __u64 ran_ns)
{
	struct abi_offcpu_thread *t;

	if (cfg.offcpu_states >> (state & 31) & 1 && (!cfg.filters || passes_filters(tid)))
		return (int)state;
	t = bpf_map_lookup_elem(&offcpu_threads, &tid);
	if (t) {
		if (t->out_ns)
			(void)account_missed_switch_in(tid, ran_ns);
		t->untracked = 1;
	}
	return ABI_OFFCPU_NONE;
}

#endif
