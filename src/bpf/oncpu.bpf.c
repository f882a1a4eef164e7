// SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0
/*
 * On-CPU sampling: one program, run by each tick of a perf event.
 *
 * Order of work: filter, identify, walk, ship a stack that user space does not have yet, count.
 * Every way out is a tick of the idle task, of a foreign process, or a sample that is either kept
 * or dropped with a counted reason.
 */
#include <linux/bpf.h>
#include <linux/bpf_perf_event.h>
#include <linux/errno.h>
#include <linux/ptrace.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>

#include "bpf/abi/abi.h"
#include "bpf/lib/kernel_types.h"
#include "bpf/lib/regs.h"
#include "bpf/lib/state.h"
#include "bpf/lib/walk.h"
#include "bpf/lib/copy.h"

char LICENSE[] SEC("license") = "GPL";

#define HAS_HELPER(name) bpf_core_enum_value_exists(enum bpf_func_id, BPF_FUNC_##name)
/* Reads a field of a task: directly where it is a typed pointer (5.11), else by a probe read. */
#define TASK_GET(task, field)                                                                      \
	(HAS_HELPER(get_current_task_btf) ? (task)->field : BPF_CORE_READ(task, field))

static __always_inline struct task_struct *current_task(void)
{
	if (HAS_HELPER(get_current_task_btf))
		return (struct task_struct *)bpf_get_current_task_btf();
	return (struct task_struct *)bpf_get_current_task();
}

/* Number of a task in our pid namespace, 0 if it has none there. Walks the namespaces it is in. */
static __noinline __u32 ns_number(struct task_struct *task)
{
	struct pid *p = BPF_CORE_READ(task, thread_pid);
	__u32 level, i;

	if (!p)
		return 0;
	level = BPF_CORE_READ(p, level);
	/* 32: MAX_PID_NS_LEVEL */
	for (i = 0; i <= 32 && i <= level; i++) {
		struct pid_namespace *ns = 0;
		const char *at = (const char *)p + bpf_core_field_offset(struct pid, numbers) +
		                 i * bpf_core_type_size(struct upid);
		int nr = 0;

		if (bpf_probe_read_kernel(&ns, sizeof(ns),
		                          at + bpf_core_field_offset(struct upid, ns)))
			return 0;
		if (!ns || BPF_CORE_READ(ns, ns.inum) != cfg.pidns_ino)
			continue;
		if (bpf_probe_read_kernel(&nr, sizeof(nr),
		                          at + bpf_core_field_offset(struct upid, nr)))
			return 0;
		return nr;
	}
	return 0;
}

/* ---- stacks ------------------------------------------------------------------------------------
 */

static __always_inline void walk_kernel(struct bpf_perf_event_data *ctx, struct scratch *s,
                                        struct abi_counters *c)
{
	long len = bpf_get_stack(ctx, s->kframes, ABI_MAX_KERNEL_FRAMES * 8, 0);
	__u64 h = ~cfg.hash_seed;
	__u32 n, i, walk;

	/* A stack without frames says so: the sample must not pass for one of user code. */
	if (len <= 0) {
		CNT_ADD(c, KERNEL_STACK_FAILED, 1);
		len = 0;
	}
	n = (__u32)len / 8;
	walk = !n ? ABI_WALK_FAULT : n >= cfg.max_kframes ? ABI_WALK_DEPTH : ABI_WALK_ROOT;
	for (i = 0; i < ABI_MAX_KERNEL_FRAMES; i++) {
		if (i >= n)
			break;
		h = uw_hash_mix(h, s->kframes[i], cfg.hash_seed);
	}
	s->kstack.kind = ABI_STACK_KERNEL;
	s->kstack.walk = walk;
	s->kstack.flags = 0;
	s->kstack.n = n;
	s->kstack.hash = uw_hash_finish(h, n, walk, 0, cfg.hash_seed);
}

/* Has user space this stack already? */
static __always_inline int is_shipped(__u64 hash)
{
	__u32 slot = (__u32)hash & cfg.shipped_mask & ~1U, other = slot | 1;
	__u64 *a = bpf_map_lookup_elem(&shipped, &slot), *b = bpf_map_lookup_elem(&shipped, &other);

	return !a || !b || *a == hash || *b == hash;
}

/* Sends @len bytes that end with a stack: 1 if the ring took them, only then it counts as sent. */
static __always_inline int send(void *data, __u64 len, __u64 hash, struct abi_counters *c)
{
	__u32 slot = (__u32)hash & cfg.shipped_mask & ~1U, other = slot | 1;
	__u64 *a = bpf_map_lookup_elem(&shipped, &slot), *b = bpf_map_lookup_elem(&shipped, &other);
	__u64 flags = BPF_RB_NO_WAKEUP;

	if (!a || !b)
		return 0; /* verifier: cannot happen */
	if (bpf_ringbuf_query(&ring, BPF_RB_AVAIL_DATA) >= cfg.ring_wake_bytes)
		flags = BPF_RB_FORCE_WAKEUP;
	if (bpf_ringbuf_output(&ring, data, len, flags)) {
		CNT_ADD(c, STACK_RING_FULL, 1);
		return 0;
	}
	CNT_ADD(c, STACK_SHIPPED, 1);
	CNT_ADD(c, STACK_BYTES, len + 8); /* 8: the ring's own header */
	*b = *a;
	*a = hash;
	return 1;
}

static __always_inline __u64 frames_len(const struct abi_stack *st, __u32 max_frames)
{
	__u32 n = st->n;

	/* verifier: true already */
	return (__u64)(n > max_frames ? max_frames : n) * 8;
}

static __always_inline void ship(struct abi_stack *st, __u32 max_frames, struct abi_counters *c)
{
	if (!is_shipped(st->hash))
		(void)send(st, sizeof(*st) + frames_len(st, max_frames), st->hash, c);
}

/* A user stack with its sample: 1 if that is counted with it. */
static __always_inline int ship_first(struct scratch *s, struct abi_counters *c)
{
	if (is_shipped(s->ustack.hash))
		return 0;
	s->first.key = s->key;
	s->first.count = s->count;
	return send(&s->first,
	            sizeof(s->first) + sizeof(s->ustack) +
	                    frames_len(&s->ustack, ABI_MAX_USER_FRAMES),
	            s->ustack.hash, c);
}

/* ---- counting -------------------------------------------------------------------------------- */

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

static __always_inline int same_name(const struct abi_thread *a, const struct abi_thread *b)
{
	return *(const __u64 *)a->comm == *(const __u64 *)b->comm &&
	       *(const __u64 *)(a->comm + 8) == *(const __u64 *)(b->comm + 8);
}

static __always_inline void note_thread(struct scratch *s, struct abi_counters *c)
{
	struct abi_thread *known;
	__u32 names = *(volatile __u32 *)&ctl.names;

	s->tkey.start_ns = s->key.start_ns;
	s->tkey.tgid = s->key.tgid;
	s->tkey.tid = s->key.tid;
	s->tkey.exec_id = s->key.exec_id;
	s->tkey.flags = s->key.flags;
	bpf_get_current_comm(s->thread.comm, sizeof(s->thread.comm));
	if (s->names_seen == names && same_name(&s->known, &s->thread) &&
	    s->known_tkey.start_ns == s->tkey.start_ns && s->known_tkey.tgid == s->tkey.tgid &&
	    s->known_tkey.tid == s->tkey.tid && s->known_tkey.exec_id == s->tkey.exec_id &&
	    s->known_tkey.flags == s->tkey.flags)
		return;
	known = bpf_map_lookup_elem(&threads, &s->tkey);
	/* A new name replaces the element as a whole: user space may be emptying the table
	 * meanwhile. */
	if (!known || !same_name(known, &s->thread)) {
		if (bpf_map_update_elem(&threads, &s->tkey, &s->thread, BPF_ANY)) {
			CNT_ADD(c, THREADS_FULL, 1);
			return;
		}
		CNT_ADD(c, THREADS_NEW, 1);
		/* Another CPU may remember an older name of this thread. */
		__sync_fetch_and_add(&ctl.names, 1);
	}
	s->known_tkey = s->tkey;
	s->known = s->thread;
	s->names_seen = names;
}

/* The agent's own samples: all of its process or only its threads. */
static __always_inline int is_agent(__u32 tgid, __u32 tid)
{
	__u32 i;

	if (tgid != cfg.agent_tgid)
		return 0;
	if (cfg.agent_whole)
		return 1;
	for (i = 0; i < ABI_AGENT_TIDS; i++)
		if (ctl.agent_tids[i] && ctl.agent_tids[i] == tid)
			return 1;
	return 0;
}

/* Registers out of s->regs. A function of its own: otherwise the compiler merges its reads with
 * those of the program's context, through a pointer that the verifier refuses. */
__noinline int take_saved(__u32 for_copy)
{
	struct scratch *s = get_scratch();

	if (!s)
		return 1;
	if (for_copy)
		REGS_TAKE(&s->copy.pc, s->copy.reg, &s->regs);
	else
		REGS_TAKE(&s->u.pc, s->u.reg, &s->regs);
	return 0;
}

/* The user registers of the sample for the walk. */
static __always_inline void take_regs(struct bpf_perf_event_data *ctx, struct scratch *s,
                                      __u32 in_user)
{
	if (!in_user)
		(void)take_saved(0); /* verifier: it cannot fail */
	else if (cfg.unwind)
		REGS_TAKE(&s->u.pc, s->u.reg, &ctx->regs);
	else
		REGS_TAKE_FP(&s->u.pc, s->u.reg, &ctx->regs);
}

/* And for a copy. */
static __always_inline void take_copy_regs(struct bpf_perf_event_data *ctx, struct scratch *s,
                                           __u32 in_user)
{
	if (in_user)
		REGS_TAKE(&s->copy.pc, s->copy.reg, &ctx->regs);
	else
		(void)take_saved(1); /* verifier: it cannot fail */
}

/* The saved user registers of a task that is in the kernel, into s->regs: 0, or non-zero. */
static __always_inline long saved_regs(struct scratch *s, struct task_struct *task)
{
	const char *top;

	if (HAS_HELPER(task_pt_regs))
		return bpf_probe_read_kernel(&s->regs, sizeof(s->regs),
		                             (void *)bpf_task_pt_regs(task));
	top = (const char *)TASK_GET(task, stack) + REGS_STACK_SIZE - REGS_STACK_PAD -
	      sizeof(s->regs);
	return bpf_probe_read_kernel(&s->regs, sizeof(s->regs), top);
}

/* Does pc stand behind the instruction of a system call? */
static __always_inline __u32 in_syscall(struct scratch *s)
{
	__u16 insn;

	return REGS_IN_SYSCALL(&s->regs) &&
	       (bpf_probe_read_user(&insn, sizeof(insn), (const void *)(REGS_PC(&s->regs) - 2)) ||
	        IS_SYSCALL_INSN(insn));
}

/* Is there nothing left of the stack? A task that ends gives its memory back long before it is
 * gone, one that executes another program before its registers are those of the new one. */
static __always_inline __u32 gave_memory_back(struct scratch *s, struct task_struct *task,
                                              __u32 in_user)
{
	__u64 word;

	if (in_user)
		return 0;
	if (!TASK_GET(task, mm))
		return 1;
	return REGS_IN_EXEC(&s->regs) && read_code(&word, REGS_SP(&s->regs));
}

/* Walks as configured; for tests also without what makes it fast, before. */
static __always_inline void walk(struct bpf_perf_event_data *ctx, struct scratch *s,
                                 struct abi_counters *c, __u32 in_user)
{
	__u32 plain = 0, may_copy = s->may_copy;
	__u64 hash = 0;

	if (cfg.walk_flags & ABI_WALK_TWICE) {
		s->may_copy = 0;
		take_regs(ctx, s, in_user);
		walk_user(PLAIN_CACHE | PLAIN_WINDOW | PLAIN_MEMO);
		s->may_copy = may_copy;
		hash = s->ustack.hash;
	}
	if (cfg.walk_flags & ABI_WALK_NO_CACHE)
		plain |= PLAIN_CACHE;
	if (cfg.walk_flags & ABI_WALK_NO_WINDOW)
		plain |= PLAIN_WINDOW;
	if (cfg.walk_flags & ABI_WALK_NO_MEMO)
		plain |= PLAIN_MEMO;
	take_regs(ctx, s, in_user);
	walk_user(plain);
	if (hash && !s->missing && s->ustack.hash != hash)
		CNT_ADD(c, WALKS_DIFFER, 1);
}

/* Figures of the walk that stands in s, and its stack on its way: 1 if its sample went with it. */
static __always_inline int keep_walk(struct scratch *s, struct abi_counters *c)
{
	CNT_ADD(c, FRAMES, s->ustack.n);
	CNT_ADD(c, FRAMES_RAW, s->n_raw);
	CNT_ADD(c, FRAMES_GUESSED, s->u.guessed);
	CNT_ADD(c, FRAMES_JIT, s->n_jit);
	CNT_ADD(c, CACHE_HIT, s->n_hit);
	CNT_ADD(c, CACHE_MISS, s->n_miss);
	CNT_ADD(c, MEMO_HIT, s->n_memo);
	s->key.ustack = s->ustack.hash;
	return ship_first(s, c);
}

/* A first sample: 1 if a copy of it is on its way. */
static __always_inline int first_sample(struct bpf_perf_event_data *ctx, struct scratch *s,
                                        struct abi_counters *c, __u32 in_user)
{
	take_copy_regs(ctx, s, in_user);
	s->copy.guess = 0;
	s->may_copy = 0;
	if (copy_stack(s)) {
		/* Its root may lie beyond: what guesses make of it, where they come to an end. */
		walk(ctx, s, c, in_user);
		if (s->ustack.walk == ABI_WALK_ROOT || s->ustack.walk == ABI_WALK_DEPTH) {
			s->copy.guess = s->ustack.hash;
			ship(&s->ustack, ABI_MAX_USER_FRAMES, c);
		}
	}
	return ship_copy(s, c) == 0;
}

/* Walks the user stack and ships it. */
#define USER_COUNT  0 /* the sample is still to be counted */
#define USER_SENT   1 /* it went with the stack */
#define USER_COPIED 2 /* a copy was made instead, which is counted in user space */
static __always_inline int user_stack(struct bpf_perf_event_data *ctx, struct scratch *s,
                                      struct abi_counters *c, __u32 in_user)
{
	int sent;

	s->may_copy = !(cfg.walk_flags & ABI_WALK_NO_COPY);
	walk(ctx, s, c, in_user);
	if (s->missing)
		CNT_ADD(c, NO_TABLE, 1);
	if (s->missing == 2) {
		if (first_sample(ctx, s, c, in_user))
			return USER_COPIED;
		walk(ctx, s, c, in_user);
	}
	sent = keep_walk(s, c);
	if (cfg.walk_flags & ABI_WALK_COPY_ALL) {
		take_copy_regs(ctx, s, in_user);
		s->missing_image = s->copy_wake = 0;
		s->copy.guess = 0;
		(void)copy_stack(s);
		(void)ship_copy(s, c); /* counted there; only compared with */
	}
	return sent ? USER_SENT : USER_COUNT;
}

/* Where the ranges of the sample's process stand, if they are known. */
static __always_inline void take_ranges(struct scratch *s)
{
	__u32 version = *(volatile __u32 *)&ctl.procs;
	struct abi_proc *p;

	if (s->proc_tgid != s->key.tgid || s->proc_seen != version) {
		p = bpf_map_lookup_elem(&procs, &s->key.tgid);
		if (p)
			s->proc = *p;
		else
			s->proc.cnt = 0;
		s->proc_tgid = s->key.tgid;
		s->proc_seen = version;
	}
	/* Which program was mapped when: a map of an earlier exec is not used. */
	if (s->proc.cnt && s->proc.exec_id == s->key.exec_id &&
	    (s->proc.start_ns == 0 || s->proc.start_ns == s->key.start_ns)) {
		s->range_first = s->proc.first;
		s->range_cnt = s->proc.cnt;
	}
}

static __always_inline void sample(struct bpf_perf_event_data *ctx, struct abi_counters *c,
                                   struct task_struct *task, __u32 tgid, __u32 tid)
{
	struct scratch *s = get_scratch();
	struct task_struct *leader = TASK_GET(task, group_leader);
	__u32 in_user = REGS_IS_USER(&ctx->regs), kthread, flags = 0, done = USER_COUNT;

	CNT_ADD(c, SEEN, 1);
	if (!s) {
		/* verifier: cannot happen, the one element always exists */
		CNT_ADD(c, DROP_COUNTS_BUSY, 1);
		return;
	}
	if (cfg.nested_ns) {
		__u32 ns_tgid = ns_number(leader), ns_tid = ns_number(task);

		if (ns_tgid && ns_tid) {
			tgid = ns_tgid;
			tid = ns_tid;
		} else {
			flags |= ABI_KEY_FOREIGN_NS;
		}
	}
	if (!(flags & ABI_KEY_FOREIGN_NS) && is_agent(tgid, tid)) {
		CNT_ADD(c, DROP_AGENT, 1);
		return;
	}
	kthread = TASK_GET(task, flags) & PF_KTHREAD;
	if (kthread)
		flags |= ABI_KEY_KTHREAD;

	s->key.tgid = tgid;
	s->key.tid = tid;
	s->key.flags = flags;
	s->key.exec_id = (__u32)TASK_GET(leader, self_exec_id);
	s->key.start_ns = TASK_GET(leader, start_boottime);
	s->key.cgroup_id = bpf_get_current_cgroup_id();
	s->key.ustack = 0;
	s->key.kstack = 0;
	s->count.samples = 1;
	s->count.weight = ctx->sample_period;

	if (!in_user && cfg.kernel_stacks) {
		walk_kernel(ctx, s, c);
		ship(&s->kstack, ABI_MAX_KERNEL_FRAMES, c);
		s->key.kstack = s->kstack.hash;
	}
	if (!kthread) {
		long bad = 0;

		s->range_cnt = 0;
		if (!(flags & ABI_KEY_FOREIGN_NS))
			take_ranges(s);
		if (!s->range_cnt)
			CNT_ADD(c, RANGE_STALE, 1);

		if (!in_user)
			bad = saved_regs(s, task) || !REGS_IS_USER(&s->regs);
		if (bad) {
			s->ustack.kind = ABI_STACK_USER;
			s->ustack.walk = ABI_WALK_NO_REGS;
			s->ustack.flags = 0;
			s->ustack.n = 0;
			s->ustack.hash = uw_hash_finish(cfg.hash_seed, 0, ABI_WALK_NO_REGS, 0,
			                                cfg.hash_seed);
			ship(&s->ustack, ABI_MAX_USER_FRAMES, c);
			s->key.ustack = s->ustack.hash;
		} else {
			s->in_syscall = !in_user && in_syscall(s);
			if (in_user)
				s->compat = REGS_IS_COMPAT(&ctx->regs);
			else
				s->compat = REGS_IS_COMPAT(&s->regs);
			s->gone = gave_memory_back(s, task, in_user);
			done = user_stack(ctx, s, c, in_user);
		}
	}
	note_thread(s, c);
	if (done == USER_COPIED)
		CNT_ADD(c, COPIED, 1);
	if (done != USER_COUNT) {
		CNT_ADD(c, KEPT, 1);
		return;
	}
	if (ctl.active & 1)
		count_in(&counts_b, s, c);
	else
		count_in(&counts_a, s, c);
}

/* 1: the tick hit what is to be sampled. */
static __always_inline int is_target(struct task_struct *task, __u32 tgid)
{
	struct task_struct *leader = TASK_GET(task, group_leader);

	if (cfg.target == ABI_TARGET_TREE) {
		__u64 *start = bpf_map_lookup_elem(&followed, &tgid);

		return start && *start == TASK_GET(leader, start_boottime);
	}
	if (cfg.target != ABI_TARGET_PID)
		return 1;
	if (!cfg.nested_ns) {
		if (tgid != cfg.target_tgid)
			return 0;
	} else if (ctl.resolved_tgid) {
		if (tgid != ctl.resolved_tgid)
			return 0;
	} else {
		/* In a container the kernel's number is learnt from the first tick that hits the
		 * target. */
		if (ns_number(leader) != cfg.target_tgid)
			return 0;
		ctl.resolved_tgid = tgid;
	}
	/* Another process may have the number now. */
	return !ctl.target_start_ns || ctl.target_start_ns == TASK_GET(leader, start_boottime);
}

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
	if (tid == 0) {
		CNT_ADD(c, TICK_IDLE, 1);
		hit = 0;
	} else {
		struct task_struct *task = current_task();

		hit = is_target(task, tgid);
		if (hit)
			sample(ctx, c, task, tgid, tid);
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

/* ---- following a command --------------------------------------------------------------------- */
/*
 * Events that follow the command by inheritance would be exact for long-lived threads, but start a
 * full period with each new task: what lives shorter than a period is never seen (300 children of 5
 * ms: 0 of 1.5 s at 99 Hz). Ticks of the CPUs are unbiased, so forks are followed here.
 */

/* Raw context: BPF_PROG of libbpf 1.1 leaves an unused parameter, which -Werror refuses. */
SEC("tp_btf/sched_process_fork")
int follow_fork(__u64 *ctx)
{
	struct task_struct *parent = (struct task_struct *)ctx[0],
	                   *child = (struct task_struct *)ctx[1];
	__u32 from = parent->tgid, tgid = child->tgid, zero = 0;
	__u64 *start = bpf_map_lookup_elem(&followed, &from), born;
	struct abi_counters *c;

	if (!start || tgid == from || child->pid != child->tgid)
		return 0;
	/* The entry may be that of a process whose number was used again before it was freed. */
	if (*start != parent->group_leader->start_boottime)
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
SEC("tp_btf/sched_process_free")
int follow_free(__u64 *ctx)
{
	struct task_struct *task = (struct task_struct *)ctx[0];
	__u32 tgid = task->tgid;
	__u64 *start;

	if (task->pid != task->tgid)
		return 0;
	start = bpf_map_lookup_elem(&followed, &tgid);
	if (start && *start == task->start_boottime)
		bpf_map_delete_elem(&followed, &tgid);
	return 0;
}

/* ---- every process, for user space ----------------------------------------------------------- */

SEC("iter/task")
int tasks(struct bpf_iter__task *ctx)
{
	struct task_struct *task = ctx->task;
	struct abi_task t = {};

	if (!task || task->pid != task->tgid)
		return 0;
	t.kernel_tgid = task->tgid;
	t.tgid = cfg.nested_ns ? ns_number(task) : t.kernel_tgid;
	if (!t.tgid)
		return 0;
	t.exec_id = (__u32)task->self_exec_id;
	t.start_ns = task->start_boottime;
	t.flags = task->flags & PF_KTHREAD ? ABI_KEY_KTHREAD : 0;
	bpf_probe_read_kernel_str(t.comm, sizeof(t.comm), task->comm);
	bpf_seq_write(ctx->meta->seq, &t, sizeof(t));
	return 0;
}
