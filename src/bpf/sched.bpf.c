// SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0
/*
 * Scheduler statistics: on-CPU, run-queue and blocked time of threads, why they leave their CPU,
 * and hardware counters. The programs add them up; no event is sent.
 *
 * A thread is in one phase at a time. Its entry has one writer at a time: the scheduler switches it
 * out under the lock of its run queue, wakes it after that, and switches it in after that. The
 * programs run with interrupts off, so the sums of a CPU have one writer as well. The sums of a
 * process are added to atomically.
 */
#include "bpf/lib/reason.h"
#include "bpf/lib/task_state.h"
#include "bpf/lib/filter.h"
#include "bpf/lib/sched_thread.h"
#include "bpf/lib/sched_time.h"
#include "bpf/lib/sched_counters.h"

char LICENSE[] SEC("license") = "GPL";

/* ---- switches -------------------------------------------------------------------------------- */

/* Returns 1 if the task belongs to the target. Filters and the agent are tested elsewhere. */
static __always_inline int is_target_task(struct task_struct *task)
{
	if (!task->pid)
		return 0;
	if (cfg.target == ABI_TARGET_TREE) {
		struct abi_sched_fast *f = fast_at(task->pid);

		/* A thread with an entry belongs to the target: saves a hash look-up. */
		if (f && f->key == (__u32)task->pid)
			return 1;
	}
	return is_target(task, task->tgid);
}

/* Returns its argument, of which the verifier forgets what it knew: paths that differ in it alone
 * are one from here on. */
__noinline int any_number(__u32 v)
{
	__asm__ volatile("" : "+r"(v));
	return (int)v;
}

/* Counts the time slice of a thread that is switched out; @t: NULL if the table was full. */
static __always_inline void end_slice(struct abi_cpu_sums *cpu, struct abi_sched_thread *t,
                                      struct task_struct *task, __u64 now)
{
	__u32 phase = t ? t->phase : ABI_PHASE_NONE;

	if (phase == ABI_PHASE_ON) {
		count_time(cpu, t, ABI_HIST_SLICE, since(now, t->since_ns), t->baseline);
	} else if (phase != ABI_PHASE_NONE) {
		/* Its switch-in event was missed. */
		account_missed(cpu, t, ran_since(t, task), kind_of(phase), now);
	} else if (cpu->since_ns) {
		count_time(cpu, t, ABI_HIST_SLICE, since(now, cpu->since_ns), 0);
	} else if (!cpu->switched) {
		/* It has been running since before the capture. */
		count_time(cpu, t, ABI_HIST_SLICE, since(now, capture_begin(now)), 1);
	} else {
		cpu->missed++;
	}
}

static __always_inline void count_end(struct abi_sched_thread *t)
{
	struct abi_sched_proc *p = proc_at(per_process ? t->slot : 0);

	if (p)
		__sync_fetch_and_add(&p->ended, 1);
}

/* Ends the slice of a thread and begins its next phase. @woken: it was woken already. */
static __always_inline void switch_out(struct abi_cpu_sums *cpu, struct abi_sched_thread *t,
                                       struct task_struct *task, __u32 reason, int woken, __u64 now)
{
	end_slice(cpu, t, task, now);
	cpu->sums.reason[reason]++;
	if (!t)
		return;
	t->sums.reason[reason]++;
	t->phase = reason <= ABI_REASON_YIELDED || woken ? ABI_PHASE_RUNQ : ABI_PHASE_BLOCKED;
	t->since_ns = now;
	t->exec0_ns = task->se.sum_exec_runtime;
	t->baseline = 0;
}

/* Ends the phase of a thread that is switched in. */
static __always_inline void switch_in(struct abi_cpu_sums *cpu, struct abi_sched_thread *t,
                                      struct task_struct *task, __u64 now)
{
	__u64 ran = ran_since(t, task);
	__u32 phase = t->phase;

	if (phase == ABI_PHASE_RUNQ && !ran) {
		count_time(cpu, t, ABI_HIST_RUNQ, since(now, t->since_ns), t->baseline);
	} else if (phase != ABI_PHASE_NONE) {
		/* Its wake-up was missed, or a whole run. */
		account_missed(cpu, t, ran, kind_of(phase), now);
	}
	t->phase = ABI_PHASE_ON;
	t->since_ns = now;
	t->exec0_ns = task->se.sum_exec_runtime;
	t->baseline = 0;
}

/* Accounts for a missed switch-out: the thread switched in here last is not the one that leaves
 * now. Some kernels hide the switches of some threads from programs. */
static __noinline void account_replaced(struct abi_cpu_sums *cpu)
{
	struct abi_sched_thread *t = thread_find(cpu->tid);

	/* Otherwise it is on another CPU now. */
	if (t && t->phase == ABI_PHASE_ON && t->since_ns == cpu->since_ns)
		t->phase = ABI_PHASE_LOST;
	cpu->since_ns = 0;
	cpu->tid = 0;
}

static __always_inline int switched(__u64 *ctx, struct abi_cpu_sums **ret_cpu, __u64 *ret_now)
{
	struct task_struct *prev = (struct task_struct *)ctx[1],
	                   *next = (struct task_struct *)ctx[2];
	__u32 out, in, state, pass, lost = 0, reason = 0, counted = 0;
	struct abi_sched_thread *t = 0, *n;
	struct abi_cpu_sums *cpu;
	__u64 now;

	if (!*(volatile __u32 *)&sw.active)
		return 0;
	out = is_target_task(prev);
	in = is_target_task(next);
	if (!out && !in)
		return 0;
	cpu = this_cpu();
	if (!cpu)
		return 0; /* verifier: cannot happen */
	*ret_now = now = bpf_ktime_get_ns();
	*ret_cpu = cpu;
	if (cpu->tid && cpu->tid != (__u32)prev->pid)
		account_replaced(cpu);
	if (out) {
		t = thread_of(prev);
		pass = passes(prev);
		if (pass && !t)
			t = thread_add(prev, ABI_PHASE_ON << ADD_PHASE_SHIFT, &lost);
		if (pass)
			assign_slot(t, prev);
		if (t || lost) {
			state = cfg.prev_state ? (__u32)ctx[3] : task_state(prev);
			reason = (__u32)any_number(reason_of(prev, (__u32)ctx[0] & 1, state));
			if (reason >= ABI_REASON_CNT)
				return 0; /* verifier: cannot happen */
			if (pass) {
				switch_out(cpu, t, prev, reason,
				           any_number(woken_before(prev, (__u32)ctx[0] & 1, state)),
				           now);
				cpu->lost += lost;
				counted = 1;
			} else if (t) {
				set_filtered(t, 0);
				skip_faults(t, prev);
			}
		}
	}
	cpu->switched = 1;
	if (n_counters) {
		counted &= cpu->armed;
		if (counted || in)
			read_counters(t ? t->slot : 0, counted);
		cpu->armed = in;
	}
	if (t && reason == ABI_REASON_EXITED) {
		if (!is_filtered(t))
			update_faults(t, prev);
		count_end(t);
		fold_into_process(t, prev->pid == prev->tgid && pass ? prev : 0);
		thread_remove(prev->pid);
	}
	cpu->since_ns = in ? now : 0;
	cpu->tid = in ? next->pid : 0;
	if (!in)
		return 0;
	n = thread_of(next);
	if (cfg.filters & FILTERS_MUTABLE) {
		/* Faults of a slice are counted if the slice is. */
		if (n && is_filtered(n))
			skip_faults(n, next);
		else if (n)
			update_faults(n, next);
		if (!passes(next)) {
			if (n)
				set_filtered(n, now);
			return 0;
		}
	}
	if (!n) {
		n = thread_add(next, ABI_PHASE_RUNQ << ADD_PHASE_SHIFT, &lost);
		if (!n) {
			cpu->lost += lost;
			return 0;
		}
	}
	assign_slot(n, next);
	switch_in(cpu, n, next, now);
	return 0;
}

/* One run in 64 is timed, chosen by bits of the clock. */
#define COST_EVERY 64
#define COST_SHIFT 5

PA_SEC("tp_btf/sched_switch")
int sched_switched(__u64 *ctx)
{
	struct abi_cpu_sums *cpu = 0;
	__u64 now = 0;

	(void)switched(ctx, &cpu, &now);
	if (cpu && (now >> COST_SHIFT & (COST_EVERY - 1)) == 0)
		cpu->prog_ns += COST_EVERY * (bpf_ktime_get_ns() - now);
	return 0;
}

/* ---- waking ---------------------------------------------------------------------------------- */

/* Returns 1 if the thread may be running. A kernel without SMP has no on_cpu. */
static __always_inline int may_run(const struct abi_sched_thread *t, struct task_struct *task)
{
	return bpf_core_field_exists(task->on_cpu) ? runs(task) : t->phase == ABI_PHASE_ON;
}

PA_SEC("tp_btf/sched_wakeup")
int sched_woken(__u64 *ctx)
{
	struct task_struct *task = (struct task_struct *)ctx[0];
	struct abi_cpu_sums *cpu;
	struct abi_sched_thread *t;
	__u32 lost;
	__u64 now, ran;

	if (!*(volatile __u32 *)&sw.active || !is_target_task(task))
		return 0;
	cpu = this_cpu();
	if (!cpu)
		return 0; /* verifier: cannot happen */
	now = bpf_ktime_get_ns();
	t = thread_of(task);
	if (!passes(task)) {
		if (t)
			set_filtered(t, 0);
		return 0;
	}
	if (!t) {
		t = thread_add(task, ABI_PHASE_BLOCKED << ADD_PHASE_SHIFT, &lost);
		if (!t) {
			cpu->lost += lost;
			return 0;
		}
	}
	assign_slot(t, task);
	ran = ran_since(t, task);
	if (t->phase == ABI_PHASE_BLOCKED && !ran) {
		count_time(cpu, t, ABI_HIST_BLOCKED, since(now, t->since_ns), t->baseline);
	} else if (may_run(t, task) || (t->phase == ABI_PHASE_RUNQ && !ran)) {
		return 0; /* it was woken before it left its CPU */
	} else if (t->phase != ABI_PHASE_NONE) {
		/* Its switch-out event was missed. */
		account_missed(cpu, t, ran, ABI_HIST_BLOCKED, now);
	}
	t->baseline = 0;
	t->phase = ABI_PHASE_RUNQ;
	t->since_ns = now;
	t->exec0_ns = task->se.sum_exec_runtime;
	return 0;
}

PA_SEC("tp_btf/sched_wakeup_new")
int sched_woken_new(__u64 *ctx)
{
	struct task_struct *task = (struct task_struct *)ctx[0];
	struct abi_cpu_sums *cpu;
	struct abi_sched_thread *t;
	__u32 lost;

	if (!*(volatile __u32 *)&sw.active || !is_target_task(task) || !passes(task))
		return 0;
	t = thread_add(task, ADD_NEW, &lost);
	assign_slot(t, task);
	cpu = this_cpu();
	if (cpu)
		cpu->lost += lost;
	return 0;
}

/* A thread that executes a program gets the tid of its leader. */
PA_SEC("tp_btf/sched_process_exec")
int sched_execed(__u64 *ctx)
{
	struct task_struct *task = (struct task_struct *)ctx[0];
	__u32 old_tid = (__u32)ctx[1], tid = task->pid;
	struct abi_sched_thread *t, moved;
	struct abi_sched_proc *p;
	struct abi_cpu_sums *cpu;
	__u64 now;

	if (!*(volatile __u32 *)&sw.active || !is_target_task(task))
		return 0;
	t = thread_find(old_tid);
	if (!t && old_tid != tid) {
		/* The leader's last switch came first, under the thread's tid, and removed that
		 * entry: the thread continues in the leader's entry. */
		old_tid = tid;
		t = thread_find(tid);
		cpu = this_cpu();
		if (t && cpu && passes(task)) {
			now = bpf_ktime_get_ns();
			if (t->phase != ABI_PHASE_NONE)
				count_time(cpu, t, kind_of(t->phase), since(now, t->since_ns), 1);
			skip_faults(t, task);
			t->phase = ABI_PHASE_ON;
			t->since_ns = now;
			t->exec0_ns = task->se.sum_exec_runtime;
		}
	}
	if (!t)
		return 0;
	/* A process does not get a name that is filtered out. */
	if (per_process && t->slot && passes(task)) {
		p = proc_at(t->slot);
		if (p)
			name_proc(p, task);
	}
	if (old_tid == tid)
		return 0;
	moved = *t;
	moved.tid = cfg.nested_ns ? number_of(task) : tid;
	thread_remove(old_tid);
	t = thread_find(tid);
	if (t) {
		/* The leader's entry; its last switch comes under the old tid of the thread. */
		fold_into_process(t, 0);
		*t = moved;
	} else if (thread_insert(tid, &moved)) {
		cpu = this_cpu();
		if (cpu)
			cpu->lost++;
	}
	return 0;
}

/* ---- beginning and end ----------------------------------------------------------------------- */

/* User space runs it on each CPU: the thread there may run without a switch for the whole
 * capture. */
SEC("raw_tp")
int sched_cpu_step(void *ctx)
{
	__u32 tid = (__u32)bpf_get_current_pid_tgid();
	struct abi_cpu_sums *cpu = this_cpu();
	struct abi_sched_thread *t;

	(void)ctx;
	if (sw.cpu_step == ABI_CPU_STEP_BEGIN) {
		sw.begin_ns = bpf_ktime_get_ns();
		__sync_fetch_and_add(&sw.active, 1); /* a full barrier */
		return 0;
	}
	if (!cpu || !n_counters)
		return 0;
	if (sw.cpu_step == ABI_CPU_STEP_ARM && !cpu->armed) {
		read_counters(0, 0);
		cpu->armed = 1;
	} else if (sw.cpu_step == ABI_CPU_STEP_FLUSH && cpu->armed) {
		t = tid ? thread_find(tid) : 0;
		if (cfg.filters & FILTERS_MUTABLE && !address_passes(bpf_get_current_task()))
			t = 0;
		read_counters(t ? t->slot : 0, t != 0);
	}
	return 0;
}

static __always_inline __u32 phase_of(struct task_struct *task)
{
	if (runs(task))
		return ABI_PHASE_ON;
	return task_state(task) ? ABI_PHASE_BLOCKED : ABI_PHASE_RUNQ;
}

/* The largest difference between the clock and sum_exec_runtime, which may stop in interrupts: 1/32
 * of the time and 1 ms. */
#define ACCOUNT_SHIFT 5
#define ACCOUNT_NS    1000000

/* Accounts for events that were missed before the end; the other programs are detached. After the
 * end the thread may have run until now, or left its CPU. */
static __always_inline void account_missed_at_end(struct abi_sched_thread *t,
                                                  struct task_struct *task)
{
	__u64 end = sw.end_ns, ran = ran_since(t, task), late = since(bpf_ktime_get_ns(), end), ns;
	__u32 now = phase_of(task);
	struct abi_cpu_sums *cpu = this_cpu();

	if (!cpu || t->since_ns >= end)
		return;
	if (t->phase == ABI_PHASE_ON) {
		ns = end - t->since_ns;
		if (now == ABI_PHASE_ON || ran + (ns >> ACCOUNT_SHIFT) + ACCOUNT_NS >= ns)
			return;
	} else if (t->phase != ABI_PHASE_LOST) {
		if (ran <= late)
			return;
		ran -= late;
		now = t->phase;
	}
	account_missed(cpu, t, ran, kind_of(now), end);
	t->since_ns = end;
	t->phase = ABI_PHASE_NONE;
}

/* Final task scan: brings the entry of a thread up to date. */
static __always_inline void final_update(struct abi_sched_thread *t, struct task_struct *task,
                                         __u32 pass)
{
	/* Faults are counted if the interval is; decided before the phase changes. */
	int counted = pass && (!is_filtered(t) || t->since_ns);

	t->scanned = 1;
	if (!pass)
		t->phase = ABI_PHASE_NONE;
	else if (is_filtered(t) && t->since_ns)
		t->phase = ABI_PHASE_ON; /* its last slice belongs to its current name */
	else if (t->phase != ABI_PHASE_NONE)
		account_missed_at_end(t, task);
	if (counted)
		update_faults(t, task);
	if (pass)
		bpf_probe_read_kernel_str(t->comm, sizeof(t->comm), task->comm);
	assign_slot(t, task);
}

/* Task scans: the initial one adds the threads that exist; later ones bring entries up to date. */
PA_SEC("iter/task")
int sched_tasks(struct bpf_iter__task *ctx)
{
	struct task_struct *task = ctx->task;
	struct abi_sched_thread *t;
	__u32 tid, lost = 0, phase, now, pass;

	if (!task || !is_target_task(task))
		return 0;
	tid = task->pid;
	pass = passes(task);
	if (sw.ready) {
		t = thread_of(task);
		if (t)
			final_update(t, task, pass);
		return 0;
	}
	if (!pass || task_state(task) & TASK_DEAD)
		return 0;
	phase = phase_of(task);
	/* An entry that a program made meanwhile is kept. */
	t = thread_add(task, phase << ADD_PHASE_SHIFT, &lost);
	/* An event before the entry existed was ignored: the entry would keep the old phase. */
	now = phase_of(task);
	if (t && now != phase && t->baseline && t->phase == phase)
		t->phase = now;
	if (now != ABI_PHASE_BLOCKED)
		assign_slot(t, task);
	/* It may have ended before the entry existed. */
	if (t && task_state(task) & TASK_DEAD)
		thread_remove(tid);
	return 0;
}
