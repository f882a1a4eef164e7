/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/*
 * On-CPU time of target threads between switch events: the reference that totals of samples are
 * measured against and scaled to. sum_exec_runtime is none: for a server beside a hog it was twice
 * the time between the switches.
 *
 * Map cpu_times: one entry for each thread that ran or was sampled, with its time and the weight of
 * its samples. cpu_clock, per CPU: when the running interval began, and the sums of threads without
 * an entry: those that ended with few samples, and those that found the table full.
 * Written by sched_switch (interrupts off) and by the ticks of the same CPU, read at the end.
 */
#ifndef PA_BPF_CPU_TIME_H
#define PA_BPF_CPU_TIME_H

#include "bpf/lib/sample.h"
#include "bpf/lib/state_of.h"

/* The kernel's number of a thread -> its times. Full: cpu_clock.rest. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct abi_cpu_time);
} cpu_times SEC(".maps");

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

/* A new entry for the current thread: NULL where there is no place, or for a thread of the agent,
 * whose time counts nowhere (*agent is 1 then). */
static __noinline struct abi_cpu_time *new_time(struct task_struct *task, __u32 tgid, __u32 tid,
                                                __u32 *agent)
{
	struct abi_cpu_time made = {};
	struct abi_count_key key = {};

	*agent = task_key(&key, task, tgid, tid);
	if (*agent)
		return 0;
	made.task_start_ns = TASK_GET(task, start_boottime);
	made.start_ns = key.start_ns;
	made.tgid = key.tgid;
	made.tid = key.tid;
	made.flags = key.flags;
	/* One of another thread that had this number stays there for the report. */
	if (bpf_map_update_elem(&cpu_times, &tid, &made, BPF_NOEXIST))
		return 0;
	return bpf_map_lookup_elem(&cpu_times, &tid);
}

/* The entry of the current thread, made if there is none; else as new_time. */
static __always_inline struct abi_cpu_time *time_of(struct task_struct *task, __u32 tgid, __u32 tid,
                                                    __u32 *agent)
{
	struct abi_cpu_time *t = bpf_map_lookup_elem(&cpu_times, &tid);

	*agent = 0;
	if (t && t->task_start_ns == TASK_GET(task, start_boottime))
		return t;
	return new_time(task, tgid, tid, agent);
}

/* The interval of the current task ends now, if it is a target's. */
static __always_inline void end_interval(struct abi_cpu_clock *clock, struct task_struct *task,
                                         __u32 tgid, __u32 tid, __u64 now)
{
	__u64 exec_ns, ran_ns = now - clock->since_ns;
	struct abi_cpu_time *t;
	__u32 agent;

	if (tid == 0 || !is_target(task, tgid) || (cfg.filters && !passes_filters(tid)))
		return;
	t = time_of(task, tgid, tid, &agent);
	if (agent)
		return;
	exec_ns = TASK_GET(task, se.sum_exec_runtime);
	if (clock->tid != tid) {
		/* Its switch-in was missed: the interval on this CPU is somebody else's, or began
		 * long before. The scheduler's account is what is left. */
		clock->missed++;
		ran_ns = t && t->exec_ns ? exec_ns - t->exec_ns : 0;
	}
	if (!t) {
		clock->rest.ran_ns += ran_ns;
		return;
	}
	/* The thread runs on one CPU at a time: no other writer. */
	t->sums.ran_ns += ran_ns;
	t->exec_ns = exec_ns;
}

/* A thread that ends with few samples gives its entry back: thousands of them are as good together,
 * and their ratio is not that of chance. */
static __always_inline void fold_time(struct abi_cpu_clock *clock, __u32 tid)
{
	struct abi_cpu_time *t = bpf_map_lookup_elem(&cpu_times, &tid);

	if (!t || t->sums.seen >= cfg.few_weight)
		return;
	clock->rest.ran_ns += t->sums.ran_ns;
	clock->rest.seen += t->sums.seen;
	(void)bpf_map_delete_elem(&cpu_times, &tid);
}

/* Which runs are timed: by bits of the clock above its finest steps. */
#define CPU_TIME_COST_EVERY 64
#define CPU_TIME_COST_SHIFT 5

SEC("tp_btf/sched_switch")
int cpu_time_switch(__u64 *ctx)
{
	struct task_struct *prev = (struct task_struct *)ctx[1],
	                   *next = (struct task_struct *)ctx[2];
	struct abi_cpu_clock *clock;
	__u64 now;

	if (cfg.target == ABI_TARGET_PID && !cfg.nested_ns && prev->tgid != (int)cfg.target_tgid &&
	    next->tgid != (int)cfg.target_tgid)
		return 0;
	clock = this_clock();
	if (!clock || !clock->since_ns)
		return 0; /* not begun, or ended */
	now = bpf_ktime_get_ns();
	end_interval(clock, prev, (__u32)prev->tgid, (__u32)prev->pid, now);
	clock->since_ns = now;
	clock->tid = next->pid;
	if (task_state(prev) & TASK_DEAD)
		fold_time(clock, prev->pid);
	if ((now >> CPU_TIME_COST_SHIFT & (CPU_TIME_COST_EVERY - 1)) == 0)
		clock->prog_ns += CPU_TIME_COST_EVERY * (bpf_ktime_get_ns() - now);
	return 0;
}

/* Run by user space on each CPU, whose current task it interrupts: when sampling begins (argument
 * 1) and when it has ended (0). */
SEC("raw_tp/sched_switch")
int cpu_time_mark(struct bpf_raw_tracepoint_args *ctx)
{
	struct abi_cpu_clock *clock = this_clock();
	__u64 now = bpf_ktime_get_ns(), id = bpf_get_current_pid_tgid();

	if (!clock)
		return 0; /* verifier: cannot happen */
	if (ctx->args[0]) {
		clock->since_ns = now;
		clock->tid = (__u32)id;
		return 0;
	}
	if (clock->since_ns)
		end_interval(clock, current_task(), id >> 32, (__u32)id, now);
	clock->since_ns = 0;
	return 0;
}

/* A tick hit a target; whether its sample is kept or dropped. */
static __always_inline void note_seen(struct task_struct *task, __u32 tgid, __u32 tid, __u64 weight)
{
	struct abi_cpu_clock *clock = this_clock();
	struct abi_cpu_time *t;
	__u32 agent;

	if (!clock || !clock->since_ns)
		return;
	t = time_of(task, tgid, tid, &agent);
	if (t)
		t->sums.seen += weight;
	else if (!agent)
		clock->rest.seen += weight;
}

#endif
