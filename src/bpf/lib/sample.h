/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/* Parts of a sample: its key, the ranges of its process, the walk of its user stack. */
#ifndef PA_BPF_SAMPLE_H
#define PA_BPF_SAMPLE_H

#include "bpf/lib/defer.h"
#include "bpf/lib/stack.h"
#include "bpf/lib/filter.h"

static __always_inline int same_name(const struct abi_thread *a, const struct abi_thread *b)
{
	return *(const __u64 *)a->comm == *(const __u64 *)b->comm &&
	       *(const __u64 *)(a->comm + 8) == *(const __u64 *)(b->comm + 8);
}

static __always_inline void report_thread(struct scratch *s, struct abi_counters *c)
{
	struct abi_thread *known;
	__u32 names = *(volatile __u32 *)&ctl.names;

	s->name.key.start_ns = s->key.start_ns;
	s->name.key.tgid = s->key.tgid;
	s->name.key.tid = s->key.tid;
	s->name.key.exec_id = s->key.exec_id;
	s->name.key.flags = s->key.flags;
	bpf_get_current_comm(s->name.thread.comm, sizeof(s->name.thread.comm));
	if (s->last.names_version == names && same_name(&s->last.thread, &s->name.thread) &&
	    s->last.name_key.start_ns == s->name.key.start_ns &&
	    s->last.name_key.tgid == s->name.key.tgid && s->last.name_key.tid == s->name.key.tid &&
	    s->last.name_key.exec_id == s->name.key.exec_id &&
	    s->last.name_key.flags == s->name.key.flags)
		return;
	known = bpf_map_lookup_elem(&threads, &s->name.key);
	/* A new name replaces the whole element: user space may be emptying the table meanwhile. */
	if (!known || !same_name(known, &s->name.thread)) {
		if (bpf_map_update_elem(&threads, &s->name.key, &s->name.thread, BPF_ANY)) {
			CNT_ADD(c, THREADS_FULL, 1);
			return;
		}
		CNT_ADD(c, THREADS_NEW, 1);
		/* Invalidates names that other CPUs have cached. */
		__sync_fetch_and_add(&ctl.names, 1);
	}
	s->last.name_key = s->name.key;
	s->last.thread = s->name.thread;
	s->last.names_version = names;
}

/* Copies the registers of s->regs. __noinline: else the compiler merges the reads with those of the
 * program's context, through a pointer that the verifier refuses. */
__noinline int copy_saved_regs(__u32 for_deferred)
{
	struct scratch *s = get_scratch();

	if (!s)
		return 1;
	if (for_deferred)
		REGS_COPY(&s->deferred.pc, s->deferred.reg, &s->regs);
	else
		REGS_COPY(&s->u.pc, s->u.reg, &s->regs);
	return 0;
}

/* Sets the registers of the walk to the sample's user registers. */
static __always_inline void read_walk_regs(struct bpf_perf_event_data *ctx, struct scratch *s,
                                           __u32 in_user)
{
	if (!in_user)
		(void)copy_saved_regs(0); /* verifier: it cannot fail */
	else if (cfg.unwind)
		REGS_COPY(&s->u.pc, s->u.reg, &ctx->regs);
	else
		REGS_COPY_FP(&s->u.pc, s->u.reg, &ctx->regs);
}

/* Sets the registers of the deferred sample. */
static __always_inline void read_deferred_regs(struct bpf_perf_event_data *ctx, struct scratch *s,
                                               __u32 in_user)
{
	if (in_user)
		REGS_COPY(&s->deferred.pc, s->deferred.reg, &ctx->regs);
	else
		(void)copy_saved_regs(1); /* verifier: it cannot fail */
}

/* Reads the saved user registers of a task that is in the kernel: 0, or non-zero. */
static __always_inline long saved_regs(user_regs_t *ret, struct task_struct *task)
{
	const char *top;

	if (HAS_HELPER(task_pt_regs))
		return bpf_probe_read_kernel(ret, sizeof(*ret), (void *)bpf_task_pt_regs(task));
	top = (const char *)TASK_GET(task, stack) + REGS_STACK_SIZE - REGS_STACK_PAD - sizeof(*ret);
	return bpf_probe_read_kernel(ret, sizeof(*ret), top);
}

/* Returns 1 if pc is after a system call instruction; 2 if it is so by the registers and the code
 * cannot be read. */
static __always_inline __u32 in_syscall(struct scratch *s)
{
	__u16 insn;

	if (!REGS_IN_SYSCALL(&s->regs))
		return 0;
	if (bpf_probe_read_user(&insn, sizeof(insn), (const void *)(REGS_PC(&s->regs) - 2)))
		return 2;
	return IS_SYSCALL_INSN(insn) ? 1 : 0;
}

/* Returns 1 if the task has no user memory any more: exiting, or in execve before the registers are
 * those of the new program. */
static __always_inline __u32 is_mm_released(struct scratch *s, struct task_struct *task,
                                            __u32 in_user)
{
	__u64 word;

	if (in_user)
		return 0;
	if (!TASK_GET(task, mm))
		return 1;
	return REGS_IN_EXEC(&s->regs) && read_code(&word, REGS_SP(&s->regs));
}

/* Walks as configured; with ABI_WALK_TWICE it walks without shortcuts before, and compares. */
static __always_inline void walk(struct bpf_perf_event_data *ctx, struct scratch *s,
                                 struct abi_counters *c, __u32 in_user)
{
	__u32 plain = 0, may_defer = s->defer.allowed;
	__u64 hash = 0;

	if (cfg.walk_flags & ABI_WALK_TWICE) {
		s->defer.allowed = 0;
		read_walk_regs(ctx, s, in_user);
		walk_user(PLAIN_CACHE | PLAIN_WINDOW | PLAIN_WALK_CACHE);
		s->defer.allowed = may_defer;
		/* A table may be published between the two walks. */
		hash = s->defer.missing ? 0 : s->ustack.hash;
	}
	if (cfg.walk_flags & ABI_WALK_NO_CACHE)
		plain |= PLAIN_CACHE;
	if (cfg.walk_flags & ABI_WALK_NO_WINDOW)
		plain |= PLAIN_WINDOW;
	if (cfg.walk_flags & ABI_WALK_NO_CPU_CACHE)
		plain |= PLAIN_WALK_CACHE;
	read_walk_regs(ctx, s, in_user);
	walk_user(plain);
	if (hash && !s->defer.missing && s->ustack.hash != hash)
		CNT_ADD(c, WALKS_DIFFER, 1);
}

/* Counts the statistics of the walk in @s and sends its stack. Returns 1 if the sample was sent
 * with it. */
static __always_inline int send_walk(struct scratch *s, struct abi_counters *c)
{
	int sent;

	CNT_ADD(c, FRAMES, s->ustack.n);
	CNT_ADD(c, FRAMES_RAW, s->n.raw);
	CNT_ADD(c, FRAMES_HEURISTIC, s->u.heuristic);
	CNT_ADD(c, FRAMES_JIT, s->n.jit);
	CNT_ADD(c, CACHE_HIT, s->n.hit);
	CNT_ADD(c, CACHE_MISS, s->n.miss);
	CNT_ADD(c, WALK_CACHE_HIT, s->n.walk_cache);
	s->key.ustack = s->ustack.hash;
	/* An off-CPU interval or a waker: the stack needs its key, the count is 0 yet. */
	if (s->placeholder)
		s->count.samples = s->count.weight = 0;
	sent = ship_with_sample(s, c);
	return s->placeholder || cfg.stream ? 0 : sent;
}

/* Sends a deferred sample. Returns 1 if the ring took it. */
static __always_inline int defer_sample(struct bpf_perf_event_data *ctx, struct scratch *s,
                                        struct abi_counters *c, __u32 in_user)
{
	read_deferred_regs(ctx, s, in_user);
	s->deferred.heuristic = 0;
	s->defer.allowed = 0;
	if (snapshot_stack(s)) {
		/* The root may be above the snapshot: also send the heuristic stack, if it ends. */
		walk(ctx, s, c, in_user);
		if (s->ustack.walk == ABI_WALK_ROOT || s->ustack.walk == ABI_WALK_DEPTH) {
			s->deferred.heuristic = s->ustack.hash;
			ship(&s->ustack, ABI_MAX_USER_FRAMES, c);
		}
	}
	return ship_deferred(s, c) == 0;
}

#define USER_COUNT    0 /* the caller counts the sample */
#define USER_SENT     1 /* it was sent with its stack */
#define USER_DEFERRED 2 /* it was deferred: user space counts it */
/* Walks the user stack and sends it. Returns USER_*. */
static __always_inline int walk_and_send(struct bpf_perf_event_data *ctx, struct scratch *s,
                                         struct abi_counters *c, __u32 in_user)
{
	int sent;

	s->defer.allowed = !(cfg.walk_flags & ABI_WALK_NO_DEFER);
	walk(ctx, s, c, in_user);
	if (s->defer.missing)
		CNT_ADD(c, NO_TABLE, 1);
	if (s->in_dirty)
		CNT_ADD(c, DIRTY_SAMPLES, 1);
	if (s->defer.missing == 2) {
		if (defer_sample(ctx, s, c, in_user))
			return USER_DEFERRED;
		walk(ctx, s, c, in_user);
	}
	sent = send_walk(s, c);
	if (cfg.walk_flags & ABI_WALK_DEFER_ALL) {
		read_deferred_regs(ctx, s, in_user);
		s->defer.image = s->defer.wake = 0;
		s->deferred.heuristic = 0;
		(void)snapshot_stack(s);
		(void)ship_deferred(s, c); /* user space only compares it */
	}
	return sent ? USER_SENT : USER_COUNT;
}

/* Copies the dirty ranges of the sample's process. */
static __always_inline void read_dirty(struct scratch *s)
{
	struct abi_dirty_ranges *k = bpf_map_lookup_elem(&dirty_ranges, &s->key.tgid);
	__u32 i;

	s->last.dirty_ns = 0;
	if (!k || k->exec_id != s->key.exec_id || k->start_ns != s->key.start_ns)
		return;
	for (i = 0; i < ABI_DIRTY_RANGES; i++) {
		s->last.dirty[i] = k->m[i];
		if (s->last.dirty[i].time_ns > s->last.dirty_ns)
			s->last.dirty_ns = s->last.dirty[i].time_ns;
	}
}

/* Sets s->ranges to the ranges of the sample's process, if they are known. */
static __always_inline void find_ranges(struct scratch *s)
{
	__u32 version = *(volatile __u32 *)&ctl.procs;
	struct abi_proc *p;

	if (s->last.tgid != s->key.tgid || s->last.procs_version != version) {
		p = bpf_map_lookup_elem(&procs, &s->key.tgid);
		if (p)
			s->last.proc = *p;
		else
			s->last.proc.cnt = 0;
		read_dirty(s);
		s->last.tgid = s->key.tgid;
		s->last.procs_version = version;
	}
	/* Ranges of the program before an execve are not used. */
	if (s->last.proc.cnt && s->last.proc.exec_id == s->key.exec_id &&
	    (s->last.proc.start_ns == 0 || s->last.proc.start_ns == s->key.start_ns)) {
		s->ranges.first = s->last.proc.first;
		s->ranges.cnt = s->last.proc.cnt;
		s->verify.on = (s->last.proc.flags & ABI_PROC_VERIFY) &&
		               bpf_core_field_exists(((struct mm_struct *)0)->mm_mt);
	}
}

/* Fills a key, without stacks and cgroup: 0; 1: the task is the agent's. */
static __always_inline int task_key(struct abi_count_key *key, struct task_struct *task, __u32 tgid,
                                    __u32 tid)
{
	struct task_struct *leader = TASK_GET(task, group_leader);
	__u32 flags = 0;

	if (cfg.nested_ns) {
		__u32 ns_tgid = ns_number(leader), ns_tid = ns_number(task);

		if (ns_tgid && ns_tid) {
			tgid = ns_tgid;
			tid = ns_tid;
		} else {
			flags |= ABI_KEY_FOREIGN_NS;
		}
	}
	if (!(flags & ABI_KEY_FOREIGN_NS) && is_agent(tgid, tid))
		return 1;
	if (TASK_GET(task, flags) & PF_KTHREAD)
		flags |= ABI_KEY_KTHREAD;

	key->tgid = tgid;
	key->tid = tid;
	key->flags = flags;
	key->exec_id = (__u32)TASK_GET(leader, self_exec_id);
	key->start_ns = TASK_GET(leader, start_boottime);
	key->ustack = 0;
	key->kstack = 0;
	return 0;
}

/* Fills s->key for the current task, as task_key, with its cgroup. */
static __always_inline int read_key(struct scratch *s, struct task_struct *task, __u32 tgid,
                                    __u32 tid)
{
	s->key.cgroup_id = bpf_get_current_cgroup_id();
	return task_key(&s->key, task, tgid, tid);
}

/* Sends a user stack without frames; its outcome says why. */
static __always_inline void no_user_stack(struct scratch *s, struct abi_counters *c, __u32 walk)
{
	s->ustack.kind = ABI_STACK_USER;
	s->ustack.walk = walk;
	s->ustack.flags = 0;
	s->ustack.n = 0;
	s->ustack.hash = uw_hash_finish(cfg.hash_seed, 0, walk, 0, cfg.hash_seed);
	ship(&s->ustack, ABI_MAX_USER_FRAMES, c);
	s->key.ustack = s->ustack.hash;
}

/* Finds the ranges for the user stack of s->key's task. */
static __always_inline void begin_user(struct scratch *s, struct abi_counters *c)
{
	s->ranges.cnt = 0;
	if (!(s->key.flags & ABI_KEY_FOREIGN_NS))
		find_ranges(s);
	if (!s->ranges.cnt)
		CNT_ADD(c, RANGE_STALE, 1);
}

/* Walks the user stack of s->key's task, the current one. Returns USER_*. */
static __always_inline int sample_user(struct bpf_perf_event_data *ctx, struct scratch *s,
                                       struct abi_counters *c, struct task_struct *task,
                                       __u32 in_user)
{
	long bad = 0;

	begin_user(s, c);
	if (!in_user)
		bad = saved_regs(&s->regs, task) || !REGS_IS_USER(&s->regs);
	if (bad) {
		no_user_stack(s, c, ABI_WALK_NO_REGS);
		return USER_COUNT;
	}
	s->task.in_syscall = !in_user && in_syscall(s);
	if (in_user)
		s->task.compat = REGS_IS_COMPAT(&ctx->regs);
	else
		s->task.compat = REGS_IS_COMPAT(&s->regs);
	s->task.mm_released = is_mm_released(s, task, in_user);
	return walk_and_send(ctx, s, c, in_user);
}

#endif
