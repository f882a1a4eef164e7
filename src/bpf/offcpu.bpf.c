// SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0
/*
 * Off-CPU time: where threads block, for how long, and who wakes them.
 *
 * A switch-out reads the stacks of a thread and opens an interval. The switch-in closes it and
 * counts it in a table that user space reads periodically. Only new stacks are sent. The process
 * map, the unwind tables and the rings are those of oncpu.bpf.c.
 *
 * These programs run with interrupts off. A tick that interrupts them has a scratch of its own.
 */
#define WALK_RECORDS_READS

#include "bpf/lib/kstack_cache.h"
#include "bpf/lib/task_state.h"
#include "bpf/lib/ustack_cache.h"
#include "bpf/lib/offcpu_interval.h"
#include "bpf/lib/waker.h"

char LICENSE[] SEC("license") = "GPL";

/* ---- switching out --------------------------------------------------------------------------- */

/* Reads the stacks of the task that is being switched out, which is still the current one. */
static __always_inline void read_stacks(void *ctx, struct scratch *s, struct abi_counters *c,
                                        struct task_struct *task)
{
	__u32 kthread = s->key.flags & ABI_KEY_KTHREAD;
	long bad = kthread ? 0 : saved_regs(&s->regs, task);

	if (cfg.kernel_stacks)
		switched_kernel(ctx, s, c, task,
		                kthread ? 1ULL << 63 | s->key.tid
		                : bad   ? 0
		                        : REGS_CALL_SITE(&s->regs));
	if (!kthread)
		switched_user(s, c, task, bad);
}

/* Reports the name of the thread, unless it was reported since names changed last. */
static __always_inline void report_name(struct scratch *s, struct abi_counters *c,
                                        struct abi_offcpu_thread *t)
{
	__u32 names = *(volatile __u32 *)&ctl.names;

	bpf_get_current_comm(s->name.thread.comm, sizeof(s->name.thread.comm));
	if (t->names == names + 1 &&
	    *(const __u64 *)t->comm == *(const __u64 *)s->name.thread.comm &&
	    *(const __u64 *)(t->comm + 8) == *(const __u64 *)(s->name.thread.comm + 8))
		return;
	report_thread(s, c);
	__builtin_memcpy(t->comm, s->name.thread.comm, sizeof(t->comm));
	t->names = names + 1; /* never 0 */
}

#define COST_EVERY 64
#define COST_SHIFT 5

/* Opens an interval of the task that is being switched out. @woken_ns: its wake-up if it was woken
 * already, else 0; @ran_ns: its sum_exec_runtime. */
static __always_inline void begin_interval(void *ctx, struct task_struct *task, __u32 state,
                                           __u64 now, __u64 woken_ns, __u64 ran_ns)
{
	__u32 zero = 0, tid = task->pid;
	struct abi_counters *c = bpf_map_lookup_elem(&counters, &zero);
	struct scratch *s = get_scratch();
	struct abi_offcpu_thread *t, *fresh = bpf_map_lookup_elem(&offcpu_new, &zero);

	if (!c || !s || !fresh)
		return; /* verifier: cannot happen */
	t = bpf_map_lookup_elem(&offcpu_threads, &tid);
	if (!t) {
		/* The first interval of a thread; the agent has none. */
		if (read_key(s, task, task->tgid, tid))
			return;
		if (bpf_map_update_elem(&offcpu_threads, &tid, fresh, BPF_NOEXIST) == 0)
			t = bpf_map_lookup_elem(&offcpu_threads, &tid);
		if (!t) {
			if (is_counting()) {
				CNT_ADD(c, SEEN, 1);
				CNT_ADD(c, DROP_COUNTS_FULL, 1);
			}
			return;
		}
	} else if (read_key(s, task, task->tgid, tid)) {
		return;
	}
	if (t->out_ns) {
		(void)account_missed_switch_in(tid, ran_ns);
		if (t->out_ns)
			return; /* the capture has just ended */
	}
	read_stacks(ctx, s, c, task);
	report_name(s, c, t);
	t->key = s->key;
	t->key.flags |= state << ABI_KEY_STATE_SHIFT | ctl.jit_epoch << ABI_KEY_EPOCH_SHIFT;
	t->wake_ns = woken_ns;
	t->exec_ns = ran_ns;
	if (cfg.stream)
		t->cpu = bpf_get_smp_processor_id();
	t->out_ns = now;
	/* One run in 64 is timed, chosen by bits of the clock. */
	if ((now >> COST_SHIFT & (COST_EVERY - 1)) == 0)
		CNT_ADD(c, PROG_NS, COST_EVERY * (bpf_ktime_get_ns() - now));
}

PA_SEC("tp_btf/sched_switch")
int offcpu_switch(__u64 *ctx)
{
	struct task_struct *prev = (struct task_struct *)ctx[1],
	                   *next = (struct task_struct *)ctx[2];
	__u32 left, state, tid, zero = 0;
	struct abi_offcpu_thread *t;
	struct abi_counters *c;
	__u64 now = 0, ran_ns;

	if (ctl.begin_ns == ABI_BEGIN_NEVER)
		return 0;
	if (prev->pid && is_target(prev, prev->tgid)) {
		tid = prev->pid;
		ran_ns = TASK_GET(prev, se.sum_exec_runtime);
		left = cfg.prev_state ? (__u32)ctx[3] : task_state(prev);
		state = offcpu_state(prev, (__u32)ctx[0] & 1, left);
		if (state == ABI_OFFCPU_NONE) {
			t = bpf_map_lookup_elem(&offcpu_threads, &tid);
			c = bpf_map_lookup_elem(&counters, &zero);
			if (t && t->out_ns)
				(void)account_missed_switch_in(tid, ran_ns);
			if (t && c)
				flush_pending(t, c);
			(void)bpf_map_delete_elem(&offcpu_threads, &tid);
		} else {
			state = (__u32)filter_state(state, tid, ran_ns);
			if (state) {
				/* Before the walk, which the scheduler too counts as off-CPU. */
				now = bpf_ktime_get_ns();
				begin_interval(ctx, prev, state, now,
				               woken_before(prev, (__u32)ctx[0] & 1, left) ? now
				                                                           : 0,
				               ran_ns);
			}
		}
	}
	if (!next->pid || (cfg.target == ABI_TARGET_PID && !cfg.nested_ns &&
	                   (__u32)next->tgid != cfg.target_tgid))
		return 0;
	(void)switched_in(next->pid, now, TASK_GET(next, se.sum_exec_runtime));
	return 0;
}

/* A thread that executes a program gets the tid of its leader: removes the entry of its old tid. */
PA_SEC("tp_btf/sched_process_exec")
int offcpu_exec(__u64 *ctx)
{
	struct task_struct *task = (struct task_struct *)ctx[0];
	__u32 zero = 0, old_tid = (__u32)ctx[1];
	struct abi_counters *c = bpf_map_lookup_elem(&counters, &zero);
	struct abi_offcpu_thread *t;

	if (ctl.begin_ns == ABI_BEGIN_NEVER || !c || old_tid == (__u32)task->pid ||
	    !is_target(task, task->tgid))
		return 0;
	t = bpf_map_lookup_elem(&offcpu_threads, &old_tid);
	if (!t)
		return 0;
	flush_pending(t, c);
	(void)bpf_map_delete_elem(&offcpu_threads, &old_tid);
	return 0;
}

/* ---- waking ---------------------------------------------------------------------------------- */

PA_SEC("tp_btf/sched_wakeup")
int offcpu_wakeup(__u64 *ctx)
{
	struct task_struct *task = (struct task_struct *)ctx[0];
	struct abi_offcpu_thread *t;
	struct abi_counters *c;
	__u32 tid, zero = 0;

	if (cfg.target == ABI_TARGET_PID && !cfg.nested_ns && (__u32)task->tgid != cfg.target_tgid)
		return 0;
	tid = task->pid;
	t = bpf_map_lookup_elem(&offcpu_threads, &tid);
	if (!t)
		return 0;
	if (t->out_ns) {
		if (TASK_GET(task, se.sum_exec_runtime) == t->exec_ns)
			t->wake_ns = bpf_ktime_get_ns();
		else if (*(volatile __u64 *)&ctl.begin_ns != ABI_BEGIN_NEVER &&
		         bpf_core_field_exists(task->on_cpu) && !task->on_cpu)
			(void)account_missed_run(tid, 1);
	} else if (is_counting() && !t->untracked && bpf_core_field_exists(task->on_cpu) &&
	           !task->on_cpu) {
		/* Its switch-out event was missed. */
		t->untracked = 1;
		c = bpf_map_lookup_elem(&counters, &zero);
		if (c)
			CNT_ADD(c, OFFCPU_OUT_MISSED, 1);
	}
	return 0;
}

/* Runs in the context of the waker, unlike sched_wakeup. Loaded only if wakers are requested. */
static __always_inline int waking(__u64 *ctx, __u32 plain)
{
	struct task_struct *task = (struct task_struct *)ctx[0];
	struct abi_counters *c;
	struct abi_offcpu_thread *t;
	struct scratch *s;
	__u32 tid, zero = 0;

	if (cfg.target == ABI_TARGET_PID && !cfg.nested_ns && (__u32)task->tgid != cfg.target_tgid)
		return 0;
	tid = task->pid;
	t = bpf_map_lookup_elem(&offcpu_threads, &tid);
	c = bpf_map_lookup_elem(&counters, &zero);
	s = get_scratch();
	if (!t || !c || !s || ctl.begin_ns == ABI_BEGIN_NEVER)
		return 0;
	/* It has run since its switch-out, so this waker does not end the open interval. */
	if (t->out_ns && TASK_GET(task, se.sum_exec_runtime) != t->exec_ns)
		return 0;
	/* It may still be on its CPU: sched_switch comes next, and keeps the waker. The last one
	 * before it runs counts. */
	t->waker = read_waker(ctx, s, c, plain);
	return 0;
}

PA_SEC("tp_btf/sched_waking")
int offcpu_waker(__u64 *ctx)
{
	return waking(ctx, 0);
}

/* For kernels whose preempt count programs cannot read. */
PA_SEC("tp_btf/sched_waking")
int offcpu_waker_sp(__u64 *ctx)
{
	return waking(ctx, 1);
}

/* ---- task scans at the start and at the end -------------------------------------------------- */

/* Working memory of the task iterators, which may be switched out. Size: 1. */
struct scan_buf {
	struct abi_stack head;
	__u64 frames[ABI_MAX_KERNEL_FRAMES + 1];
	user_regs_t regs;
	struct abi_offcpu_blocked out;
};
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct scan_buf);
} offcpu_scan_buf SEC(".maps");

static __always_inline __u32 blocked_state(struct task_struct *task)
{
	__u32 state = task_state(task);

	if (!state)
		return bpf_core_field_exists(task->on_cpu) && !task->on_cpu ? ABI_OFFCPU_PREEMPTED
		                                                            : ABI_OFFCPU_NONE;
	return offcpu_state(task, 0, state);
}

/* Initial task scan, while the other programs follow threads and count nothing yet: opens intervals
 * of the threads that are off their CPU, and reports these with their registers. */
PA_SEC("iter/task")
int offcpu_scan(struct bpf_iter__task *ctx)
{
	struct task_struct *task = ctx->task;
	struct abi_offcpu_thread fresh = {};
	struct abi_offcpu_thread *t;
	struct scan_buf *b;
	struct abi_counters *c;
	__u64 now = bpf_ktime_get_ns();
	__u32 zero = 0, tid, state;
	long len;

	if (!task || !task->pid)
		return 0;
	tid = task->pid;
	b = bpf_map_lookup_elem(&offcpu_scan_buf, &zero);
	c = bpf_map_lookup_elem(&counters, &zero);
	if (!b || !c || !is_target(task, task->tgid) || !task_passes_filters(task))
		return 0;
	state = blocked_state(task);
	if (state == ABI_OFFCPU_NONE || !(cfg.offcpu_states >> state & 1))
		return 0;
	__builtin_memset(&b->out, 0, sizeof(b->out));
	if (task_key(&b->out.key, task, task->tgid, tid))
		return 0;
	b->out.key.cgroup_id = task->cgroups->dfl_cgrp->kn->id;
	b->out.key.flags |= state << ABI_KEY_STATE_SHIFT;
	if (cfg.kernel_stacks) {
		len = bpf_get_task_stack(task, b->frames, ABI_MAX_KERNEL_FRAMES * 8, 0);
		finish_kernel(&b->head, b->frames, len, c);
		ship(&b->head, ABI_MAX_KERNEL_FRAMES, c);
		b->out.key.kstack = b->head.hash;
	}
	if (!(b->out.key.flags & ABI_KEY_KTHREAD)) {
		/* The id of the stack, which user space unwinds later. */
		b->out.key.ustack = uw_hash_finish(~now, tid, ABI_STACK_WAKER, 1, cfg.hash_seed);
		if (saved_regs(&b->regs, task) == 0 && REGS_IS_USER(&b->regs)) {
			b->out.regs = REGS_IN_SYSCALL(&b->regs) ? 2 : 1;
			REGS_COPY(&b->out.pc, b->out.reg, &b->regs);
			if (REGS_IS_COMPAT(&b->regs))
				b->out.regs = 0;
		}
	}
	b->out.kernel_tid = tid;
	bpf_probe_read_kernel_str(b->out.comm, sizeof(b->out.comm), task->comm);
	fresh.out_ns = now;
	fresh.exec_ns = task->se.sum_exec_runtime;
	fresh.key = b->out.key;
	len = bpf_map_update_elem(&offcpu_threads, &tid, &fresh, BPF_NOEXIST);
	if (len == -EEXIST)
		return 0; /* it was switched out meanwhile */
	if (len) {
		CNT_ADD(c, SEEN, 1);
		CNT_ADD(c, DROP_COUNTS_FULL, 1);
		return 0;
	}
	/* It ran before its entry was there: the next event opens an interval. */
	if (blocked_state(task) != state) {
		t = bpf_map_lookup_elem(&offcpu_threads, &tid);
		if (t && t->out_ns == fresh.out_ns) {
			t->out_ns = 0;
			t->untracked = 1; /* its switch-out had no entry */
		}
		return 0;
	}
	bpf_seq_write(ctx->meta->seq, &b->out, sizeof(b->out));
	return 0;
}

/* Most by which sum_exec_runtime and the clock differ. */
#define ACCOUNT_NS 1000000

/* Final task scan, after the other programs stopped to count. A thread that has run since its
 * switch-out is not blocked any more, although no event was seen: estimates when its interval
 * ended. If it ran only after the end of the capture, the interval stays open. */
PA_SEC("iter/task")
int offcpu_scan_end(struct bpf_iter__task *ctx)
{
	struct task_struct *task = ctx->task;
	__u64 late = bpf_ktime_get_ns() - ctl.end_ns, ran;
	struct abi_offcpu_thread *t;
	struct abi_counters *c;
	__u32 zero = 0, tid, state;

	if (!task)
		return 0;
	tid = task->pid;
	t = bpf_map_lookup_elem(&offcpu_threads, &tid);
	c = bpf_map_lookup_elem(&counters, &zero);
	if (!t || !c || !t->out_ns || t->out_ns >= ctl.end_ns)
		return 0;
	ran = task->se.sum_exec_runtime - t->exec_ns;
	if ((__s64)ran <= (__s64)(late + ACCOUNT_NS))
		return 0;
	CNT_ADD(c, OFFCPU_IN_MISSED, 1);
	state = task_state(task);
	if (state) {
		/* It is blocked again, or ended: as in account_missed_run. */
		if (!(state & TASK_DEAD))
			CNT_ADD(c, OFFCPU_OUT_MISSED, 1);
		t->ended_ns = t->wake_ns;
		if (t->wake_ns < t->out_ns || t->wake_ns > ctl.end_ns)
			t->out_ns = 0;
		return 0;
	}
	if ((t->wake_ns < t->out_ns || t->wake_ns > ctl.end_ns) &&
	    (t->key.flags & ABI_KEY_STATE_MASK) >> ABI_KEY_STATE_SHIFT != ABI_OFFCPU_PREEMPTED)
		CNT_ADD(c, OFFCPU_WAKEUP_MISSED, 1);
	t->ended_ns = ctl.end_ns - (ran - late);
	if (t->ended_ns < t->wake_ns && t->wake_ns <= ctl.end_ns)
		t->ended_ns = t->wake_ns;
	if ((__s64)(t->ended_ns - t->out_ns) < 0)
		t->ended_ns = t->out_ns;
	return 0;
}
