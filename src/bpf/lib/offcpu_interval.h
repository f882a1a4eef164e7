/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/*
 * Off-CPU intervals: the entries of threads, and where an interval that has ended is counted.
 */
#ifndef PA_BPF_OFFCPU_INTERVAL_H
#define PA_BPF_OFFCPU_INTERVAL_H

#include "bpf/lib/filter.h"
#include "bpf/lib/maps.h"
#include "bpf/lib/stream_send.h"

/*
 * (thread, stacks, state, waker) -> intervals. Programs write one table, chosen by
 * ctl.offcpu_active.
 * Writers: the off-CPU programs. Reader: the drain thread, which empties the other table.
 * Size: load_offcpu_options.count_entries. Full: dropped_counts_full and offcpu_dropped_ns.
 */
struct offcpu_count_map {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, 1);
	__type(key, struct abi_offcpu_key);
	__type(value, struct abi_offcpu_count);
};
struct offcpu_count_map offcpu_counts_a SEC(".maps");
struct offcpu_count_map offcpu_counts_b SEC(".maps");

/*
 * The kernel's tid -> its open interval. A thread of the target has an entry from its first
 * switch-out until its end.
 * Writers: the off-CPU programs; the initial task scan. Reader: user space, for snapshots and at the end.
 * Size: load_offcpu_options.thread_entries. Full: dropped_counts_full, for each interval.
 */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct abi_offcpu_thread);
} offcpu_threads SEC(".maps");

/* An empty entry of offcpu_threads; never written. On the stack it would exceed the limit of
 * 5.10. */
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

/* Moves the pending intervals of a thread to the count table. */
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

/* Returns 1 between the start and the end of counting. */
static __always_inline int is_counting(void)
{
	__u64 begin_ns = *(volatile __u64 *)&ctl.begin_ns;

	return begin_ns != ABI_BEGIN_NEVER && begin_ns != ABI_BEGIN_LATER;
}

/* Intervals with one key are added up in the entry of their thread for this long: the drain
 * interval. */
#define PENDING_NS 100000000ULL

/* Closes the open interval of a thread that was switched in at @now. Time before the capture does
 * not count. */
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
		return; /* the capture has ended: the interval stays open for the final task scan */
	t->out_ns = 0;
	t->waker = 0; /* of this interval only */
	if (now <= begin_ns)
		return;
	if (preempted || woken < out || woken > now) {
		woken = now; /* a preempted thread is not woken */
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
	if (cfg.stream && stream_send(&key.k, now, val.ns, val.runq_ns, waker, c))
		return;
	if (t->pending.intervals && same_key(&t->pending_key, &key)) {
		t->pending.intervals++;
		t->pending.ns += val.ns;
		t->pending.runq_ns += val.runq_ns;
		if (t->pending.longest_ns < val.longest_ns)
			t->pending.longest_ns = val.longest_ns;
	} else {
		flush_pending(t, c);
		t->pending_key = key;
		t->pending = val;
	}
	/* Else a snapshot of a running capture would never see a thread that always waits at one
	 * place. */
	if (now - t->flushed_ns >= PENDING_NS) {
		flush_pending(t, c);
		t->flushed_ns = now;
	}
}

/* Accounts for a missed run: the thread is off its CPU, and sum_exec_runtime advanced since its
 * switch-out. At least one switch-in and one switch-out were missed. The interval ended at its
 * wake-up; without a wake-up event its length is unknown, and it is dropped. @slept: 1: it is being
 * woken, so its second interval is missing; 0: it was preempted. __noinline, as those below:
 * verified once. */
__noinline int account_missed_run(__u32 tid, __u32 slept)
{
	struct abi_offcpu_thread *t = bpf_map_lookup_elem(&offcpu_threads, &tid);
	__u32 zero = 0;
	struct abi_counters *c = bpf_map_lookup_elem(&counters, &zero);

	if (!t || !c || *(volatile __u64 *)&ctl.begin_ns == ABI_BEGIN_NEVER)
		return 0; /* left to the final task scan */
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

/* Ends the open interval of a thread that is switched in. @now: 0: read the clock. @ran_ns: its
 * sum_exec_runtime, which is unchanged since the switch-out unless events were missed. */
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

/* Ends the open interval of a thread that is switched out: its switch-in event was missed. It was
 * switched in as long ago as it has run since then. @ran_ns: its sum_exec_runtime. */
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
		t->out_ns = 0; /* another thread with a reused tid */
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

/* Returns the state if the options select it, else ABI_OFFCPU_NONE. __noinline: the verifier looks
 * at the rest of the caller once for all states. */
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
