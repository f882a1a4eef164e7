// SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0
/*
 * Scheduler statistics: how long threads run, wait for a CPU and are blocked, why they leave their
 * CPU, and what counters counted meanwhile. Everything is added up here; nothing is sent.
 *
 * A thread is in one phase at a time. Its entry has no two writers: it is switched out under the
 * lock of its run queue, woken when that is done, and switched in after that. The programs run with
 * interrupts off, so what belongs to a CPU has one writer as well; what belongs to a process is
 * added to atomically.
 */
#include "bpf/lib/reason.h"
#include "bpf/lib/task_state.h"
#include "bpf/lib/filter.h"
#include "bpf/lib/sched_thread.h"
#include "bpf/lib/sched_time.h"
#include "bpf/lib/sched_counters.h"

char LICENSE[] SEC("license") = "GPL";

/* ---- switches -------------------------------------------------------------------------------- */

/* Is it of a target? Whether filters let it pass is another question, and whether it is the
 * agent's. */
static __always_inline int is_target_task(struct task_struct *task)
{
	if (!task->pid)
		return 0;
	if (cfg.target == ABI_TARGET_TREE) {
		struct abi_sched_fast *f = fast_at(task->pid);

		/* One that has an entry is of a target: a look-up in a hash less. */
		if (f && f->key == (__u32)task->pid)
			return 1;
	}
	return is_target(task, task->tgid);
}

/* Its time on the CPU; t: NULL for one that found no place. */
static __always_inline void end_slice(struct abi_cpu_sums *cpu, struct abi_sched_thread *t,
                                      struct task_struct *task, __u64 now)
{
	__u32 phase = t ? t->phase : ABI_PHASE_NONE;

	if (phase == ABI_PHASE_ON) {
		count_time(cpu, t, ABI_HIST_SLICE, since(now, t->since_ns), t->baseline);
	} else if (phase != ABI_PHASE_NONE) {
		/* Nobody saw it come. */
		account_missed(cpu, t, ran_since(t, task), kind_of(phase), now);
	} else if (cpu->since_ns) {
		count_time(cpu, t, ABI_HIST_SLICE, since(now, cpu->since_ns), 0);
	} else if (!cpu->switched) {
		/* It runs since before the capture. */
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

/* The thread leaves the CPU; @woken: it need not be woken any more. */
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

/* It runs: what it was before has ended. */
static __always_inline void switch_in(struct abi_cpu_sums *cpu, struct abi_sched_thread *t,
                                      struct task_struct *task, __u64 now)
{
	__u64 ran = ran_since(t, task);
	__u32 phase = t->phase;

	if (phase == ABI_PHASE_RUNQ && !ran) {
		count_time(cpu, t, ABI_HIST_RUNQ, since(now, t->since_ns), t->baseline);
	} else if (phase != ABI_PHASE_NONE) {
		/* Nobody saw it wake up, or it came and went unseen. */
		account_missed(cpu, t, ran, kind_of(phase), now);
	}
	t->phase = ABI_PHASE_ON;
	t->since_ns = now;
	t->exec0_ns = task->se.sum_exec_runtime;
	t->baseline = 0;
}

/* A kernel that shows some threads to nobody does not tell when one of them takes over, or leaves:
 * who was switched in here last does not run here any more. */
static __noinline void account_replaced(struct abi_cpu_sums *cpu)
{
	struct abi_sched_thread *t = thread_find(cpu->tid);

	/* Else it is on another CPU now. */
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
			reason = reason_of(prev, (__u32)ctx[0] & 1, state);
			if (pass) {
				switch_out(cpu, t, prev, reason,
				           woken_before(prev, (__u32)ctx[0] & 1, state), now);
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
		/* Faults of the slice are counted if it is. */
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

/* What a switch costs is looked at now and then, by a digit of the time. */
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

/* A kernel for one CPU does not say whether a thread runs. */
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
		return 0; /* it was woken before it had left its CPU */
	} else if (t->phase != ABI_PHASE_NONE) {
		/* Nobody saw it go. */
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

/* A thread that executes another program gets the number of its process's leader. */
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
		/* The leader's last switch came first, under the thread's number, and ended that:
		 * the thread goes on in the leader's place. */
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
	/* Under a name that is not counted it is not shown. */
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
		/* The leader's, whose last switch comes under the other number. */
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

/* Run by user space on each CPU: what runs there may not leave it for as long as the capture. */
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

/* What a clock that stands still while interrupts are served may lack of another one. */
#define ACCOUNT_SHIFT 5
#define ACCOUNT_NS    1000000

/* What no program was told of up to the end, at which no program is called any more. Since then it
 * may have run for as long as it took to come here, or have left its CPU. */
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

/* At the end: no program is called any more. */
static __always_inline void final_update(struct abi_sched_thread *t, struct task_struct *task,
                                         __u32 pass)
{
	/* Faults of what is counted are; afterwards its phase does not tell any more. */
	int counted = pass && (!is_filtered(t) || t->since_ns);

	t->scanned = 1;
	if (!pass)
		t->phase = ABI_PHASE_NONE;
	else if (is_filtered(t) && t->since_ns)
		t->phase = ABI_PHASE_ON; /* its last slice is that of its name now */
	else if (t->phase != ABI_PHASE_NONE)
		account_missed_at_end(t, task);
	if (counted)
		update_faults(t, task);
	if (pass)
		bpf_probe_read_kernel_str(t->comm, sizeof(t->comm), task->comm);
	assign_slot(t, task);
}

/* Threads that are there: at the beginning makes their entries, from then on brings up to date what
 * no program sees. */
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
	/* Where a program was faster it knows better. */
	t = thread_add(task, phase << ADD_PHASE_SHIFT, &lost);
	/* A program that was called meanwhile did not find the entry: it would stay in its phase to
	 * the end. */
	now = phase_of(task);
	if (t && now != phase && t->baseline && t->phase == phase)
		t->phase = now;
	if (now != ABI_PHASE_BLOCKED)
		assign_slot(t, task);
	/* It may have ended before it was there. */
	if (t && task_state(task) & TASK_DEAD)
		thread_remove(tid);
	return 0;
}
