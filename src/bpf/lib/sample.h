/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/* What a sample is made of: whose it is, by which ranges its stack is walked, and the walk. */
#ifndef PA_BPF_SAMPLE_H
#define PA_BPF_SAMPLE_H

#include "bpf/lib/copy.h"
#include "bpf/lib/stack.h"
#include "bpf/lib/filter.h"

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

/* The saved user registers of a task that is in the kernel: 0, or non-zero. */
static __always_inline long saved_regs(user_regs_t *ret, struct task_struct *task)
{
	const char *top;

	if (HAS_HELPER(task_pt_regs))
		return bpf_probe_read_kernel(ret, sizeof(*ret), (void *)bpf_task_pt_regs(task));
	top = (const char *)TASK_GET(task, stack) + REGS_STACK_SIZE - REGS_STACK_PAD - sizeof(*ret);
	return bpf_probe_read_kernel(ret, sizeof(*ret), top);
}

/* Does pc stand behind the instruction of a system call? 2: it does by the registers, and its code
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
		/* A table may come in between. */
		hash = s->missing ? 0 : s->ustack.hash;
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
	int sent;

	CNT_ADD(c, FRAMES, s->ustack.n);
	CNT_ADD(c, FRAMES_RAW, s->n_raw);
	CNT_ADD(c, FRAMES_GUESSED, s->u.guessed);
	CNT_ADD(c, FRAMES_JIT, s->n_jit);
	CNT_ADD(c, CACHE_HIT, s->n_hit);
	CNT_ADD(c, CACHE_MISS, s->n_miss);
	CNT_ADD(c, MEMO_HIT, s->n_memo);
	s->key.ustack = s->ustack.hash;
	/* A wait, or a waker: nothing is counted yet, but whose stack it is is told. */
	if (s->promise)
		s->count.samples = s->count.weight = 0;
	sent = ship_first(s, c);
	return s->promise ? 0 : sent;
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
	if (s->in_marked)
		CNT_ADD(c, MARKED, 1);
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

/* What was mapped in the sample's process since its ranges were written. */
static __always_inline void take_marks(struct scratch *s)
{
	struct abi_marks *k = bpf_map_lookup_elem(&marks, &s->key.tgid);
	__u32 i;

	s->marked_ns = 0;
	if (!k || k->exec_id != s->key.exec_id || k->start_ns != s->key.start_ns)
		return;
	for (i = 0; i < ABI_MARKS; i++) {
		s->marks[i] = k->m[i];
		if (s->marks[i].time_ns > s->marked_ns)
			s->marked_ns = s->marks[i].time_ns;
	}
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
		take_marks(s);
		s->proc_tgid = s->key.tgid;
		s->proc_seen = version;
	}
	/* Which program was mapped when: a map of an earlier exec is not used. */
	if (s->proc.cnt && s->proc.exec_id == s->key.exec_id &&
	    (s->proc.start_ns == 0 || s->proc.start_ns == s->key.start_ns)) {
		s->range_first = s->proc.first;
		s->range_cnt = s->proc.cnt;
		s->verify = (s->proc.flags & ABI_PROC_VERIFY) &&
		            bpf_core_field_exists(((struct mm_struct *)0)->mm_mt);
	}
}

/* Whose sample it is, without stacks and cgroup: 0; 1: the agent's own. */
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

/* The same of the current task, into s->key. */
static __always_inline int take_key(struct scratch *s, struct task_struct *task, __u32 tgid,
                                    __u32 tid)
{
	s->key.cgroup_id = bpf_get_current_cgroup_id();
	return task_key(&s->key, task, tgid, tid);
}

/* A user stack without frames, which says why. */
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

/* Of the task that s->key tells: by which ranges its stack is walked. */
static __always_inline void begin_user(struct scratch *s, struct abi_counters *c)
{
	s->range_cnt = 0;
	if (!(s->key.flags & ABI_KEY_FOREIGN_NS))
		take_ranges(s);
	if (!s->range_cnt)
		CNT_ADD(c, RANGE_STALE, 1);
}

/* The user stack of the task that s->key tells, which runs on this CPU: USER_*. */
static __always_inline int take_user(struct bpf_perf_event_data *ctx, struct scratch *s,
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
	s->in_syscall = !in_user && in_syscall(s);
	if (in_user)
		s->compat = REGS_IS_COMPAT(&ctx->regs);
	else
		s->compat = REGS_IS_COMPAT(&s->regs);
	s->gone = gave_memory_back(s, task, in_user);
	return user_stack(ctx, s, c, in_user);
}

#endif
