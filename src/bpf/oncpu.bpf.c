// SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0
/*
 * On-CPU sampling: one program, run by each tick of a perf event.
 *
 * The program filters, identifies, walks, sends a stack that is new, and counts. Each run counts as
 * a tick of the idle task, of a foreign process, or as a sample. A sample is kept, or dropped with
 * a counted reason.
 */
#include "bpf/lib/cpu_time.h"
#include "bpf/lib/sample.h"
#include "bpf/lib/filter.h"
#include "bpf/lib/stream_send.h"

char LICENSE[] SEC("license") = "GPL";

/*
 * (thread, stacks, cgroup) -> samples and weight. Programs write one table, chosen by ctl.active.
 * Writer: oncpu_sample. Reader: the drain thread, which empties the other table.
 * Size: load_sizes.count_entries. Full: dropped_counts_full.
 */
struct count_map {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, 1);
	__type(key, struct abi_count_key);
	__type(value, struct abi_count);
};
struct count_map counts_a SEC(".maps");
struct count_map counts_b SEC(".maps");

static __always_inline void count_in(void *map, struct scratch *s, struct abi_counters *c)
{
	struct abi_count *v = bpf_map_lookup_elem(map, &s->key);
	long err;

	if (v) {
		/* The thread is in the key and runs on one CPU at a time: no other writer. */
		v->samples += s->count.samples;
		v->weight += s->count.weight;
		CNT_ADD(c, KEPT, 1);
		return;
	}
	err = bpf_map_update_elem(map, &s->key, &s->count, BPF_NOEXIST);
	if (err == 0) {
		CNT_ADD(c, KEPT, 1);
		CNT_ADD(c, COUNTS_NEW, 1);
	} else if (err == -E2BIG) {
		CNT_ADD(c, DROP_COUNTS_FULL, 1);
	} else {
		CNT_ADD(c, DROP_COUNTS_BUSY, 1);
	}
}

static __always_inline void sample(struct bpf_perf_event_data *ctx, struct abi_counters *c,
                                   struct task_struct *task, __u32 tgid, __u32 tid, __u64 now)
{
	struct scratch *s = get_scratch();
	__u32 in_user = REGS_IS_USER(&ctx->regs), done = USER_COUNT;

	CNT_ADD(c, SEEN, 1);
	if (!s) {
		/* verifier: cannot happen, the one element always exists */
		CNT_ADD(c, DROP_COUNTS_BUSY, 1);
		return;
	}
	if (read_key(s, task, tgid, tid)) {
		CNT_ADD(c, DROP_AGENT, 1);
		return;
	}
	s->count.samples = 1;
	s->count.weight = ctx->sample_period;
	if (cfg.cpu_time)
		count_weight(task, tgid, tid, ctx->sample_period);

	if (!in_user && cfg.kernel_stacks) {
		walk_kernel(ctx, s, c);
		ship(&s->kernel.head, ABI_MAX_KERNEL_FRAMES, c);
		s->key.kstack = s->kernel.head.hash;
	}
	if (!(s->key.flags & ABI_KEY_KTHREAD))
		done = sample_user(ctx, s, c, task, in_user);
	report_thread(s, c);
	if (done == USER_DEFERRED)
		CNT_ADD(c, DEFERRED, 1);
	if (done != USER_COUNT) {
		CNT_ADD(c, KEPT, 1);
		return;
	}
	if (cfg.stream && stream_send(&s->key, now, s->count.weight, 0, 0, c))
		return;
	if (ctl.active & 1)
		count_in(&counts_b, s, c);
	else
		count_in(&counts_a, s, c);
}

/* record_mapping is loaded first: if the kernel refuses it, no other program was verified in
 * vain. */
#include "bpf/lib/dirty.h"

SEC("perf_event")
int oncpu_sample(struct bpf_perf_event_data *ctx)
{
	__u64 id = bpf_get_current_pid_tgid(), t0;
	__u32 tgid = id >> 32, tid = (__u32)id, zero = 0, timed, hit;
	struct abi_counters *c = bpf_map_lookup_elem(&counters, &zero);

	if (!c)
		return 0; /* verifier: cannot happen */
	if (cfg.target == ABI_TARGET_PID && !cfg.nested_ns) {
		hit = tgid == cfg.target_tgid;
		timed = hit || ((c->v[ABI_CNT_TICK_FOREIGN] + c->v[ABI_CNT_TICK_IDLE]) & 63) == 0;
		if (!timed) {
			if (tid)
				CNT_ADD(c, TICK_FOREIGN, 1);
			else
				CNT_ADD(c, TICK_IDLE, 1);
			return 0;
		}
	}
	t0 = bpf_ktime_get_ns();
	split_at_tick();
	if (tid == 0) {
		CNT_ADD(c, TICK_IDLE, 1);
		hit = 0;
	} else {
		struct task_struct *task = current_task();

		hit = is_target(task, tgid) && (!cfg.filters || passes_filters(tid));
		if (hit)
			sample(ctx, c, task, tgid, tid, t0);
		else
			CNT_ADD(c, TICK_FOREIGN, 1);
	}
	if (hit) {
		CNT_ADD(c, PROG_NS, bpf_ktime_get_ns() - t0);
	} else {
		CNT_ADD(c, FOREIGN_NS, bpf_ktime_get_ns() - t0);
		CNT_ADD(c, FOREIGN_TIMED, 1);
	}
	return 0;
}

/* ---- following forks ------------------------------------------------------------------------- */
/*
 * Inherited events would be exact for long-lived threads, but begin a full period with each new
 * task: a task that lives shorter than a period has no sample (300 children of 5 ms: 0 of 1.5 s at
 * 99 Hz). Ticks of the CPUs are unbiased, so these programs follow forks.
 */

/* Raw context: BPF_PROG of libbpf 1.1 leaves an unused parameter, which -Werror refuses. */
PA_SEC("tp_btf/sched_process_fork")
int follow_fork(__u64 *ctx)
{
	struct task_struct *parent = (struct task_struct *)ctx[0],
	                   *child = (struct task_struct *)ctx[1];
	__u32 from = parent->tgid, tgid = child->tgid, zero = 0;
	__u64 *start = bpf_map_lookup_elem(&followed, &from), born;
	struct abi_counters *c;

	if (!start || tgid == from || child->pid != child->tgid)
		return 0;
	/* The entry may be of an earlier process, whose number was reused before it was freed. */
	if (*start && *start != parent->group_leader->start_boottime)
		return 0;
	born = child->start_boottime;
	if (bpf_map_update_elem(&followed, &tgid, &born, BPF_ANY) == 0)
		return 0;
	c = bpf_map_lookup_elem(&counters, &zero);
	if (c)
		CNT_ADD(c, FOLLOW_FULL, 1);
	return 0;
}

/* A leader's task is freed after those of its threads. */
PA_SEC("tp_btf/sched_process_free")
int follow_free(__u64 *ctx)
{
	struct task_struct *task = (struct task_struct *)ctx[0];
	__u32 tgid = task->tgid;
	__u64 *start;

	if (task->pid != task->tgid)
		return 0;
	start = bpf_map_lookup_elem(&followed, &tgid);
	if (start && (!*start || *start == task->start_boottime))
		bpf_map_delete_elem(&followed, &tgid);
	return 0;
}

/* ---- list of processes for user space -------------------------------------------------------- */

PA_SEC("iter/task")
int tasks(struct bpf_iter__task *ctx)
{
	struct task_struct *task = ctx->task;
	struct abi_task t = {};

	if (!task || (task->pid != task->tgid && !ctl.threads))
		return 0;
	t.kernel_tgid = task->tgid;
	t.kernel_tid = task->pid;
	t.kernel_ppid = task->real_parent->tgid;
	t.tgid = cfg.nested_ns ? ns_number(task->group_leader) : t.kernel_tgid;
	t.tid = cfg.nested_ns ? ns_number(task) : t.kernel_tid;
	if (!t.tgid || !t.tid)
		return 0;
	t.exec_id = (__u32)task->self_exec_id;
	t.start_ns = task->start_boottime;
	t.flags = task->flags & PF_KTHREAD ? ABI_KEY_KTHREAD : 0;
	bpf_probe_read_kernel_str(t.comm, sizeof(t.comm), task->comm);
	bpf_seq_write(ctx->meta->seq, &t, sizeof(t));
	return 0;
}
