// SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0
/*
 * Off-CPU time: where threads wait, for how long, and who wakes them.
 *
 * A thread's stacks are taken when it is switched out, its wait is counted when it runs again, in
 * tables that user space reads now and then. Nothing is sent for a switch but stacks that user
 * space does not have. The tables of walks and processes, and the rings, are those of oncpu.bpf.c.
 *
 * These programs run with interrupts off; what may interrupt them has a scratch of its own.
 */
#define WALK_RECORDS_READS

#include "bpf/lib/kstack_cache.h"
#include "bpf/lib/task_state.h"
#include "bpf/lib/ustack_cache.h"

char LICENSE[] SEC("license") = "GPL";

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

static __always_inline void count_wait(void *map, const struct abi_offcpu_key *key,
                                       const struct abi_offcpu_count *val, struct abi_counters *c)
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
static __always_inline void flush_done(struct abi_offcpu_thread *t, struct abi_counters *c)
{
	if (!t->pending.intervals)
		return;
	if (ctl.offcpu_active & 1)
		count_wait(&offcpu_counts_b, &t->pending_key, &t->pending, c);
	else
		count_wait(&offcpu_counts_a, &t->pending_key, &t->pending, c);
	t->pending.intervals = 0;
}

static __always_inline int same_wait(const struct abi_offcpu_key *a, const struct abi_offcpu_key *b)
{
	return a->k.ustack == b->k.ustack && a->k.kstack == b->k.kstack &&
	       a->k.cgroup_id == b->k.cgroup_id && a->k.start_ns == b->k.start_ns &&
	       a->k.tgid == b->k.tgid && a->k.tid == b->k.tid && a->k.exec_id == b->k.exec_id &&
	       a->k.flags == b->k.flags && a->waker == b->waker;
}

/* Do waits count already, and still? */
static __always_inline int begun(void)
{
	__u64 begin_ns = *(volatile __u64 *)&ctl.begin_ns;

	return begin_ns != ABI_BEGIN_NEVER && begin_ns != ABI_BEGIN_LATER;
}

/* The thread runs again. What lies before the capture does not count. */
static __always_inline void end_wait(struct abi_offcpu_thread *t, __u64 now, struct abi_counters *c)
{
	struct abi_offcpu_count val = {.intervals = 1};
	struct abi_offcpu_key key;
	__u64 out = t->out_ns, woken = t->wake_ns, begin_ns = *(volatile __u64 *)&ctl.begin_ns;
	__u64 waker = t->waker;
	__u32 preempted =
	        (t->key.flags & ABI_KEY_STATE_MASK) >> ABI_KEY_STATE_SHIFT == ABI_OFFCPU_PREEMPTED;
	__u32 unseen = 0;

	if (begin_ns == ABI_BEGIN_NEVER)
		return; /* the capture has just ended: it goes on, for whoever reads it */
	t->out_ns = 0;
	t->waker = 0; /* of this wait alone */
	if (now <= begin_ns)
		return;
	if (preempted || woken < out || woken > now) {
		woken = now; /* nobody wakes what is preempted */
		waker = 0;
		unseen = !preempted;
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
	if (unseen)
		CNT_ADD(c, OFFCPU_WAKEUP_MISSED, 1);
	if (t->pending.intervals && same_wait(&t->pending_key, &key)) {
		t->pending.intervals++;
		t->pending.ns += val.ns;
		t->pending.runq_ns += val.runq_ns;
		if (t->pending.longest_ns < val.longest_ns)
			t->pending.longest_ns = val.longest_ns;
		return;
	}
	flush_done(t, c);
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
	if (begun()) {
		CNT_ADD(c, OFFCPU_IN_MISSED, 1);
		CNT_ADD(c, OFFCPU_OUT_MISSED, slept & 1);
	}
	if (t->wake_ns >= t->out_ns)
		end_wait(t, t->wake_ns, c);
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
		end_wait(t, now ? now : bpf_ktime_get_ns(), c);
	return 0;
}

/* It was switched in, and nobody told: that was as long ago as it has run since then.
 * @ran_ns: how long it has run by now, where it leaves its CPU. */
__noinline int ended_unseen(__u32 tid, __u64 ran_ns)
{
	struct abi_offcpu_thread *t = bpf_map_lookup_elem(&offcpu_threads, &tid);
	__u64 now = bpf_ktime_get_ns();
	__u32 zero = 0;
	struct abi_counters *c = bpf_map_lookup_elem(&counters, &zero);

	if (!t || !c)
		return 0;
	if (begun())
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
	end_wait(t, now, c);
	return 0;
}

/* The state of a wait that begins; ABI_OFFCPU_NONE: it leaves its CPU, and that is none that is asked
 * for. The verifier looks at it once, and at what follows once for all states. */
__noinline int wanted(__u32 state, __u32 tid, __u64 ran_ns)
{
	struct abi_offcpu_thread *t;

	if (cfg.offcpu_states >> (state & 31) & 1 && (!cfg.filters || passes_filters(tid)))
		return (int)state;
	t = bpf_map_lookup_elem(&offcpu_threads, &tid);
	if (t) {
		if (t->out_ns)
			(void)ended_unseen(tid, ran_ns);
		t->untracked = 1;
	}
	return ABI_OFFCPU_NONE;
}

/* ---- switching out --------------------------------------------------------------------------- */

/* Stacks of the task that is being switched out, which is still the current one. */
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

/* The name of the thread, unless it was told since names changed last. */
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
	t->names = names + 1; /* 0 is never right */
}

#define COST_EVERY 64
#define COST_SHIFT 5

/* @woken_ns: when it was woken, if it was already, else 0; @ran_ns: how long it has run. */
static __always_inline void begin_wait(void *ctx, struct task_struct *task, __u32 state, __u64 now,
                                       __u64 woken_ns, __u64 ran_ns)
{
	__u32 zero = 0, tid = task->pid;
	struct abi_counters *c = bpf_map_lookup_elem(&counters, &zero);
	struct scratch *s = get_scratch();
	struct abi_offcpu_thread *t, *fresh = bpf_map_lookup_elem(&offcpu_new, &zero);

	if (!c || !s || !fresh)
		return; /* verifier: cannot happen */
	t = bpf_map_lookup_elem(&offcpu_threads, &tid);
	if (!t) {
		/* At its first wait only, and never for the agent. */
		if (read_key(s, task, task->tgid, tid))
			return;
		if (bpf_map_update_elem(&offcpu_threads, &tid, fresh, BPF_NOEXIST) == 0)
			t = bpf_map_lookup_elem(&offcpu_threads, &tid);
		if (!t) {
			if (begun()) {
				CNT_ADD(c, SEEN, 1);
				CNT_ADD(c, DROP_COUNTS_FULL, 1);
			}
			return;
		}
	} else if (read_key(s, task, task->tgid, tid)) {
		return;
	}
	if (t->out_ns) {
		(void)ended_unseen(tid, ran_ns);
		if (t->out_ns)
			return; /* the capture has just ended */
	}
	read_stacks(ctx, s, c, task);
	report_name(s, c, t);
	t->key = s->key;
	t->key.flags |= state << ABI_KEY_STATE_SHIFT | ctl.jit_epoch << ABI_KEY_EPOCH_SHIFT;
	t->wake_ns = woken_ns;
	t->exec_ns = ran_ns;
	t->out_ns = now;
	/* What this costs is looked at now and then, by a digit of the time. */
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
				(void)ended_unseen(tid, ran_ns);
			if (t && c)
				flush_done(t, c);
			(void)bpf_map_delete_elem(&offcpu_threads, &tid);
		} else {
			state = (__u32)wanted(state, tid, ran_ns);
			if (state) {
				/* Before the walk, which the scheduler too counts as time off the
				 * CPU. */
				now = bpf_ktime_get_ns();
				begin_wait(ctx, prev, state, now,
				           woken_before(prev, (__u32)ctx[0] & 1, left) ? now : 0,
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

/* A thread that executes another program gets the number of its process's leader: it has no entry
 * under its old one any more. */
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
	flush_done(t, c);
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
	} else if (begun() && !t->untracked && bpf_core_field_exists(task->on_cpu) &&
	           !task->on_cpu) {
		/* It went to sleep, and nobody told. */
		t->untracked = 1;
		c = bpf_map_lookup_elem(&counters, &zero);
		if (c)
			CNT_ADD(c, OFFCPU_OUT_MISSED, 1);
	}
	return 0;
}

/* Interrupts that the CPU serves, by its preempt count. The task that an interrupt hit is no waker. */
#define IRQ_MASK 0xff0100 /* serving a softirq, hard interrupts, NMI */

#if defined(__TARGET_ARCH_x86)
/* The kernel's variable of each CPU that has the count; the loader puts its BTF id in. A __ksym
 * that is in no BTF of the kernel proper would make libbpf list that of modules, which takes
 * CAP_SYS_ADMIN, whether a program uses it or not. */
static __always_inline const void *irq_variable(void)
{
	const void *p;

	asm("%0 = %1 ll" : "=r"(p) : "i"(ABI_IRQ_VARIABLE));
	return p;
}
#endif

static __always_inline __u32 in_interrupt(void *ctx, struct task_struct *current, __u32 plain)
{
	__u32 count = 0;

#if defined(__TARGET_ARCH_x86)
	if (plain) {
		struct scratch *s = get_scratch();
		__u64 at;

		if (!s)
			return 0; /* verifier: cannot happen */
		/* What interrupts kernel code runs on a stack of its own, what interrupts a program
		 * on the task's. */
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

/* What is sent of a waker: the header of a stack, and words. */
struct waker_record {
	struct abi_stack head;
	struct abi_waker w;
};

/* Who wakes, with both stacks; s->key is the waker's then. */
static __always_inline __u64 read_waker(void *ctx, struct scratch *s, struct abi_counters *c,
                                        __u32 plain)
{
	struct task_struct *current = current_task();
	struct waker_record rec = {};
	__u64 id = bpf_get_current_pid_tgid(), h = ~cfg.hash_seed;
	__u32 irq = in_interrupt(ctx, current, plain), i;

	if (read_key(s, current, id >> 32, (__u32)id) && !irq) {
		/* The agent: by its name alone. */
		rec.w.tgid = id >> 32;
		rec.w.tid = (__u32)id;
		rec.w.flags = ABI_KEY_FOREIGN_NS; /* no process that anything else is known of */
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

/* In the context of who wakes, unlike sched_wakeup; loaded only when wakers are asked for. */
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
	/* It has run since, and nobody told: who wakes it now does not end this wait. */
	if (t->out_ns && TASK_GET(task, se.sum_exec_runtime) != t->exec_ns)
		return 0;
	/* It may still be on its way out: sched_switch comes next, and leaves this alone. The last
	 * one before it runs is who woke it. */
	t->waker = read_waker(ctx, s, c, plain);
	return 0;
}

PA_SEC("tp_btf/sched_waking")
int offcpu_waker(__u64 *ctx)
{
	return waking(ctx, 0);
}

/* Where the kernel does not tell in_interrupt's count. */
PA_SEC("tp_btf/sched_waking")
int offcpu_waker_sp(__u64 *ctx)
{
	return waking(ctx, 1);
}

/* ---- what waits already ---------------------------------------------------------------------- */

/* For the iterator alone, which may be switched out. */
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

static __always_inline __u32 waits_now(struct task_struct *task)
{
	__u32 state = task_state(task);

	if (!state)
		return bpf_core_field_exists(task->on_cpu) && !task->on_cpu ? ABI_OFFCPU_PREEMPTED
		                                                            : ABI_OFFCPU_NONE;
	return offcpu_state(task, 0, state);
}

/* Once, while the other programs follow threads and nothing counts yet: enters the threads that
 * wait, and tells them with their registers. */
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
	state = waits_now(task);
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
		/* A name for the stack that user space has yet to find. */
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
		return 0; /* it has been switched out meanwhile */
	if (len) {
		CNT_ADD(c, SEEN, 1);
		CNT_ADD(c, DROP_COUNTS_FULL, 1);
		return 0;
	}
	/* It ran on before its entry was there: what it does next says more. */
	if (waits_now(task) != state) {
		t = bpf_map_lookup_elem(&offcpu_threads, &tid);
		if (t && t->out_ns == fresh.out_ns) {
			t->out_ns = 0;
			t->untracked = 1; /* nobody was to see it go */
		}
		return 0;
	}
	bpf_seq_write(ctx->meta->seq, &b->out, sizeof(b->out));
	return 0;
}

/* What the scheduler's account and the clock may differ by. */
#define ACCOUNT_NS 1000000

/* Once, at the end, when the other programs count no more, though one may be about to be done: what
 * has run since its wait began waits no longer, though nobody told; the wait goes on where that was
 * behind the end. */
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
		/* It has gone to sleep again, or ended: as in account_missed_run. */
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
