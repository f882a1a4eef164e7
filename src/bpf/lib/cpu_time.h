/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/*
 * On-CPU time of target threads between switch events. Totals of samples are compared with it and
 * scaled to it. sum_exec_runtime is no such reference: for a server next to a busy process it was
 * twice the time between the switches.
 *
 * Map cpu_times: one entry for each thread that ran or was sampled, with its time and the weight of
 * its samples. cpu_clock, per CPU: when the running interval began, and the sums of threads without
 * an entry: those that ended with few samples, and those that found the table full.
 * Written by sched_switch (interrupts off) and by the ticks of the same CPU, read at the end.
 */
#ifndef PA_BPF_CPU_TIME_H
#define PA_BPF_CPU_TIME_H

#include "bpf/lib/sample.h"
#include "bpf/lib/task_state.h"

/*
 * The kernel's number of a thread -> its time and weight.
 * Writers: sched_switch and ticks, on the CPU of the thread. Reader: user space, at the end.
 * Size: load_sizes.thread_entries. Full: the thread is added to cpu_clock.rest, and counted.
 */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct abi_cpu_time);
} cpu_times SEC(".maps");

/* Writers: as cpu_times. Reader: user space, at the end. Size: 1 for each CPU. */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct abi_cpu_clock);
} cpu_clock SEC(".maps");

static __always_inline struct abi_cpu_clock *this_clock(void)
{
	__u32 zero = 0;

	return bpf_map_lookup_elem(&cpu_clock, &zero);
}

/* Returns a new entry for the current thread, or NULL if the table is full. */
static __noinline struct abi_cpu_time *new_time(struct abi_cpu_clock *clock,
                                                struct task_struct *task, __u32 tgid, __u32 tid)
{
	struct abi_cpu_time made = {};
	struct abi_count_key key = {};

	/* The agent's threads were filtered out before: it fills in the key. */
	(void)task_key(&key, task, tgid, tid);
	made.task_start_ns = TASK_GET(task, start_boottime);
	made.start_ns = key.start_ns;
	made.tgid = key.tgid;
	made.tid = key.tid;
	made.flags = key.flags;
	/* The entry of an earlier thread of that number stays there for the report. */
	if (bpf_map_update_elem(&cpu_times, &tid, &made, BPF_NOEXIST)) {
		clock->full++;
		return 0;
	}
	return bpf_map_lookup_elem(&cpu_times, &tid);
}

/* Returns the entry of the current thread, made if there is none, or NULL if the table is full. */
static __always_inline struct abi_cpu_time *time_of(struct abi_cpu_clock *clock,
                                                    struct task_struct *task, __u32 tgid, __u32 tid)
{
	struct abi_cpu_time *t = bpf_map_lookup_elem(&cpu_times, &tid);

	if (t && t->task_start_ns == TASK_GET(task, start_boottime))
		return t;
	return new_time(clock, task, tgid, tid);
}

/* Returns 1 for a thread of the agent, whose time is not counted. */
static __noinline int runs_agent(struct task_struct *task, __u32 tgid, __u32 tid)
{
	if (cfg.nested_ns) {
		tgid = ns_number(TASK_GET(task, group_leader));
		tid = ns_number(task);
	}
	return tgid && is_agent(tgid, tid);
}

static __always_inline int is_counted(struct task_struct *task, __u32 tgid, __u32 tid)
{
	return tid && is_target(task, tgid) && (!cfg.filters || passes_filters(tid)) &&
	       !runs_agent(task, tgid, tid);
}

/* Closes the interval of the current task. @out: it is being switched out. */
static __always_inline void end_interval(struct abi_cpu_clock *clock, struct task_struct *task,
                                         __u32 tgid, __u32 tid, __u64 now, __u32 out)
{
	__u64 address = (__u64)task, ran_ns = now - clock->since_ns, exec_ns;
	struct abi_cpu_time *t;

	if (!is_counted(task, tgid, tid))
		return;
	t = time_of(clock, task, tgid, tid);
	exec_ns = TASK_GET(task, se.sum_exec_runtime);
	if (clock->task != address || (t && t->missed)) {
		/* The switch-in, or the previous switch-out, was missed. Only sum_exec_runtime has
		 * the time since its last switch-out. That is unusable if a filter may have
		 * excluded a part of it. Parts that a split has counted already are left out. */
		clock->missed++;
		if (t && t->task == address && exec_ns > t->exec_ns + t->split_ns &&
		    !(cfg.filters & FILTERS_MUTABLE))
			ran_ns = exec_ns - t->exec_ns - t->split_ns;
		else if (clock->task != address)
			ran_ns = 0;
	}
	if (!t) {
		clock->rest.ran_ns += ran_ns;
		return;
	}
	/* The thread runs on one CPU at a time: no other writer. */
	t->sums.ran_ns += ran_ns;
	t->missed = 0;
	t->split_ns += ran_ns;
	if (out) {
		t->task = address;
		t->exec_ns = exec_ns;
		t->split_ns = 0;
	}
}

/* The thread of the running interval is not the one that is switched out now: its own switch-out
 * was missed. */
static __noinline void mark_missed(struct abi_cpu_clock *clock)
{
	__u32 tid = clock->tid;
	struct abi_cpu_time *t = bpf_map_lookup_elem(&cpu_times, &tid);

	if (t && t->task == clock->task)
		t->missed = 1;
}

/* Removes the entry of a thread that ends with few samples, and adds it to the rest. The ratio of
 * few samples is chance; that of thousands of such threads together is not. */
static __always_inline void fold_time(struct abi_cpu_clock *clock, __u32 tid)
{
	struct abi_cpu_time *t = bpf_map_lookup_elem(&cpu_times, &tid);

	if (!t || t->sums.seen >= cfg.few_weight)
		return;
	clock->rest.ran_ns += t->sums.ran_ns;
	clock->rest.seen += t->sums.seen;
	(void)bpf_map_delete_elem(&cpu_times, &tid);
}

/* One run in 64 is timed, chosen by bits of the clock above its finest steps. */
#define CPU_TIME_COST_EVERY 64
#define CPU_TIME_COST_SHIFT 5

PA_SEC("tp_btf/sched_switch")
int cpu_time_switch(__u64 *ctx)
{
	struct task_struct *prev = (struct task_struct *)ctx[1],
	                   *next = (struct task_struct *)ctx[2];
	const __u32 one = cfg.target == ABI_TARGET_PID && !cfg.nested_ns;
	struct abi_cpu_clock *clock;
	__u64 now;

	if (one && prev->tgid != (int)cfg.target_tgid && next->tgid != (int)cfg.target_tgid)
		return 0;
	clock = this_clock();
	if (!clock || !clock->since_ns)
		return 0; /* not begun, or ended */
	now = bpf_ktime_get_ns();
	if (clock->task && clock->task != (__u64)prev)
		mark_missed(clock);
	end_interval(clock, prev, (__u32)prev->tgid, (__u32)prev->pid, now, 1);
	clock->since_ns = now;
	clock->task = one && next->tgid != (int)cfg.target_tgid ? 0 : (__u64)next;
	clock->tid = next->pid;
	if (task_state(prev) & TASK_DEAD)
		fold_time(clock, prev->pid);
	if ((now >> CPU_TIME_COST_SHIFT & (CPU_TIME_COST_EVERY - 1)) == 0)
		clock->prog_ns += CPU_TIME_COST_EVERY * (bpf_ktime_get_ns() - now);
	return 0;
}

/* Closes the interval of the current task and begins another one. */
static __always_inline void split_interval(struct abi_cpu_clock *clock)
{
	__u64 now = bpf_ktime_get_ns(), id = bpf_get_current_pid_tgid();

	end_interval(clock, current_task(), id >> 32, (__u32)id, now, 0);
	clock->since_ns = now;
	clock->task = (__u64)current_task();
	clock->tid = (__u32)id;
}

/* User space runs it on each CPU, whose current task it interrupts, when sampling begins, when it
 * has ended, and for a snapshot: ABI_CPU_TIME_BEGIN, _END, _SPLIT. */
SEC("raw_tp/sched_switch")
int cpu_time_mark(struct bpf_raw_tracepoint_args *ctx)
{
	struct abi_cpu_clock *clock = this_clock();

	if (!clock)
		return 0; /* verifier: cannot happen */
	if (ctx->args[0] == ABI_CPU_TIME_BEGIN) {
		clock->since_ns = bpf_ktime_get_ns();
		clock->task = (__u64)current_task();
		clock->tid = (__u32)bpf_get_current_pid_tgid();
		return 0;
	}
	if (clock->since_ns)
		split_interval(clock);
	if (ctx->args[0] == ABI_CPU_TIME_END)
		clock->since_ns = 0;
	return 0;
}

/* Splits the running interval at a tick, whatever the task. Names and cgroups change while a thread
 * runs, and each tick compares them: the time is then wrong by one period at most. */
static __always_inline void split_at_tick(void)
{
	struct abi_cpu_clock *clock;

	if (!cfg.cpu_time || !(cfg.filters & FILTERS_MUTABLE))
		return;
	clock = this_clock();
	if (clock && clock->since_ns)
		split_interval(clock);
}

/* Adds the weight of a sample of a target, kept or dropped. */
static __always_inline void count_weight(struct task_struct *task, __u32 tgid, __u32 tid,
                                         __u64 weight)
{
	struct abi_cpu_clock *clock = this_clock();
	struct abi_cpu_time *t;

	if (!clock || !clock->since_ns)
		return;
	t = time_of(clock, task, tgid, tid);
	if (t)
		t->sums.seen += weight;
	else
		clock->rest.seen += weight;
}

#endif
