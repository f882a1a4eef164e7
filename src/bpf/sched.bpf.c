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

char LICENSE[] SEC("license") = "GPL";

/* Constants of the capture. */
const volatile __u32 per_process = 0;
const volatile __u32 n_counters = 0; /* 0 … ABI_COUNTERS_MAX */
const volatile __u32 timed = 0;      /* 1: with how long each counter was wanted, and counted */
const volatile __u32 n_cpus = 1;     /* possible ones */
const volatile __u32 n_slots = 1;    /* entries of sched_procs */
const volatile __u32 fast_mask = 0;  /* entries of sched_fast - 1 */

struct abi_sched_control sw SEC(".data.sched") = {};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, ABI_HIST_CNT);
	__type(key, __u32);
	__type(value, struct abi_cpu_hist);
} cpu_hists SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct abi_cpu_sums);
} cpu_sums SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct abi_sched_proc);
} sched_procs SEC(".maps");

/* The kernel's number of a process -> its slot. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u32);
} sched_slots SEC(".maps");

/* Slots that are taken. A set, since 5.10 has no atomic operation that returns something. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u32);
} sched_taken SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct abi_sched_thread);
} sched_threads SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct abi_sched_fast);
} sched_fast SEC(".maps");

/* Which of its entries are taken, and by which thread. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u32);
} sched_claims SEC(".maps");

/* [counter * n_cpus + CPU] */
struct {
	__uint(type, BPF_MAP_TYPE_PERF_EVENT_ARRAY);
	__uint(max_entries, 1);
	__uint(key_size, sizeof(__u32));
	__uint(value_size, sizeof(__u32));
} sched_events SEC(".maps");

static __always_inline struct abi_cpu_sums *this_cpu(void)
{
	__u32 zero = 0;

	return bpf_map_lookup_elem(&cpu_sums, &zero);
}

static __always_inline struct abi_sched_proc *proc_at(__u32 slot)
{
	return bpf_map_lookup_elem(&sched_procs, &slot);
}

/* ---- tasks ----------------------------------------------------------------------------------- */
/*
 * What goes over all levels of namespaces or cgroups is a function that the verifier looks at once,
 * and does not follow from each place. Such functions take numbers alone.
 */

static __always_inline __u64 address_of(struct task_struct *task)
{
	__u64 address = 0;

	/* The verifier takes what was read for a number. */
	bpf_probe_read_kernel(&address, sizeof(address), &task);
	return address;
}

__noinline int address_number(__u64 task)
{
	return (int)ns_number((struct task_struct *)task);
}

/* As ns_number. */
static __always_inline __u32 number_of(struct task_struct *task)
{
	return (__u32)address_number(address_of(task));
}

__noinline int address_passes(__u64 task)
{
	return passes_mutable_filters((struct task_struct *)task);
}

/* Does a thread pass the filters that look at what may change? Names and cgroups change while it
 * runs and while it waits: an interval is that of the name at its end. */
static __always_inline int passes(struct task_struct *task)
{
	return !(cfg.filters & FILTERS_MUTABLE) || address_passes(address_of(task));
}

/* Is it on a CPU, or has not quite left it? */
static __always_inline int runs(struct task_struct *task)
{
	return bpf_core_field_exists(task->on_cpu) && task->on_cpu;
}

/* ---- processes ------------------------------------------------------------------------------- */

#define SLOT_TRIES 8

static __always_inline void name_proc(struct abi_sched_proc *p, struct task_struct *leader)
{
	p->exec_id = (__u32)leader->self_exec_id;
	bpf_probe_read_kernel_str(p->comm, sizeof(p->comm), leader->comm);
}

/* A free slot for a process, 0: there is none. */
static __noinline __u32 claim_slot(struct task_struct *leader)
{
	__u32 i, slot = *(volatile __u32 *)&sw.next_slot, tgid = leader->tgid;
	struct abi_sched_proc *p;

	for (i = 0; i < SLOT_TRIES; i++) {
		slot++;
		if (slot == 0 || slot >= n_slots) {
			*(volatile __u32 *)&sw.next_slot = n_slots - 1;
			return 0;
		}
		if (bpf_map_update_elem(&sched_taken, &slot, &tgid, BPF_NOEXIST))
			continue;
		*(volatile __u32 *)&sw.next_slot = slot;
		p = proc_at(slot);
		if (!p)
			return 0; /* verifier: cannot happen */
		p->start_ns = leader->start_boottime;
		name_proc(p, leader);
		p->tgid = cfg.nested_ns ? number_of(leader) : tgid;
		return slot;
	}
	return 0;
}

/* The slot that a process has, 0: none yet. */
static __always_inline __u32 known_slot(struct task_struct *leader)
{
	__u32 tgid = leader->tgid, *known = bpf_map_lookup_elem(&sched_slots, &tgid);
	struct abi_sched_proc *p;

	if (!known || !*known)
		return 0;
	p = proc_at(*known);
	return p && p->start_ns == leader->start_boottime ? *known : 0;
}

static __noinline __u32 slot_of(struct task_struct *task)
{
	struct task_struct *leader = task->group_leader;
	__u32 tgid = task->tgid, slot = known_slot(leader);
	struct abi_sched_proc *p;

	if (slot)
		return slot;
	if (cfg.nested_ns && !number_of(leader))
		return 0; /* outside of our pid namespace: one of the others */
	slot = claim_slot(leader);
	if (!slot)
		return known_slot(leader); /* another CPU may just have taken the last one */
	/* The number of one that has ended, whose slot stays as it is for the report; or of this
	 * one, on another CPU: the two stand side by side then, and user space adds them up. */
	if (bpf_map_update_elem(&sched_slots, &tgid, &slot, BPF_ANY)) {
		(void)bpf_map_delete_elem(&sched_taken, &slot);
		p = proc_at(slot);
		if (p)
			p->tgid = 0;
		return 0;
	}
	return slot;
}

/* Once for each thread, t may be NULL: with slots for all gone, a switch costs it no more than a
 * look. Where all tries were lost to other CPUs there is a next time. */
static __always_inline void seek_slot(struct abi_sched_thread *t, struct task_struct *task)
{
	if (!per_process || !t || t->slot_tried)
		return;
	t->slot = slot_of(task);
	if (!t->slot) {
		if (*(volatile __u32 *)&sw.next_slot + 1 < n_slots &&
		    !(cfg.nested_ns && !number_of(task->group_leader)))
			return;
		__sync_fetch_and_add(&sw.lost_procs, 1);
	}
	t->slot_tried = 1;
}

/* ---- threads --------------------------------------------------------------------------------- */

/* When the capture began. A CPU that is the first to see that it has may not see when yet. */
static __always_inline __u64 begin_of(__u64 now)
{
	__u64 begin = *(volatile __u64 *)&sw.begin_ns;

	return begin ? begin : now;
}

static __always_inline __u64 faults_of(struct task_struct *task)
{
	return task->min_flt + task->maj_flt;
}

static __always_inline struct abi_sched_fast *fast_at(__u32 tid)
{
	__u32 at = tid & fast_mask;

	return bpf_map_lookup_elem(&sched_fast, &at);
}

static __always_inline struct abi_sched_thread *find_thread(__u32 tid)
{
	struct abi_sched_fast *f = fast_at(tid);

	if (f && f->key == tid)
		return &f->t;
	return bpf_map_lookup_elem(&sched_threads, &tid);
}

static __always_inline struct abi_sched_thread *thread_of(struct task_struct *task)
{
	return find_thread(task->pid);
}

static __always_inline void forget_thread(__u32 tid)
{
	struct abi_sched_fast *f = fast_at(tid);
	__u32 at = tid & fast_mask;

	if (f && f->key == tid) {
		f->key = 0;
		(void)bpf_map_delete_elem(&sched_claims, &at);
		return;
	}
	(void)bpf_map_delete_elem(&sched_threads, &tid);
}

/* Finds a place for a new thread: 0; 1: there is none; 2: another CPU does it just now. */
static __noinline int place_thread(__u32 tid, const struct abi_sched_thread *t)
{
	struct abi_sched_fast *f = fast_at(tid);
	__u32 at = tid & fast_mask, *owner;

	if (f && bpf_map_update_elem(&sched_claims, &at, &tid, BPF_NOEXIST) == 0) {
		f->t = *t;
		/* Now others see it; a full barrier. */
		__sync_fetch_and_add(&f->key, tid);
		return 0;
	}
	owner = bpf_map_lookup_elem(&sched_claims, &at);
	if (owner && *owner == tid)
		return 2;
	if (bpf_map_update_elem(&sched_threads, &tid, t, BPF_NOEXIST))
		return 1;
	return 0;
}

#define ADMIT_NEW         1 /* it was never there before, and begins now */
#define ADMIT_PHASE_SHIFT 8 /* what it has been doing since the beginning */

/* Makes the entry of a thread of a target that passes(): NULL where there is none to be. @lost: it
 * is to be counted, but there is no place. The entry is whole when others see it, but for its slot:
 * at the beginning there may be more processes that sleep than slots. */
static __noinline struct abi_sched_thread *admit(struct task_struct *task, __u32 how, __u32 *lost)
{
	struct abi_sched_thread t = {};
	__u32 tid = task->pid, ns_tid = tid, ns_tgid = task->tgid;
	int placed;

	*lost = 0;
	if (!passes_tid(task))
		return 0;
	if (cfg.nested_ns) {
		ns_tid = number_of(task);
		ns_tgid = number_of(task->group_leader);
	}
	if (ns_tid && is_agent(ns_tgid, ns_tid))
		return 0;
	t.tid = ns_tid ? ns_tid : tid;
	t.faults0 = faults_of(task);
	t.migrations0 = task->se.nr_migrations;
	t.exec0_ns = task->se.sum_exec_runtime;
	bpf_probe_read_kernel_str(t.comm, sizeof(t.comm), task->comm);
	if (how & ADMIT_NEW || sw.ready) {
		/* Nothing is known of its past. */
		t.since_ns = bpf_ktime_get_ns();
	} else {
		t.since_ns = begin_of(bpf_ktime_get_ns());
		t.phase = how >> ADMIT_PHASE_SHIFT;
		t.baseline = 1;
	}
	if (how & ADMIT_NEW) {
		t.phase = ABI_PHASE_RUNQ;
		forget_thread(tid);
	}
	placed = place_thread(tid, &t);
	if (placed == 1) {
		*lost = 1;
		return 0;
	}
	return find_thread(tid); /* placed by another CPU: if it is there by now */
}

/* What a thread did that the kernel counts by itself. */
static __always_inline void refresh(struct abi_sched_thread *t, struct task_struct *task)
{
	t->sums.faults = faults_of(task) - t->faults0;
	t->sums.migrations = task->se.nr_migrations - t->migrations0;
}

/* What it has done since then is not counted. */
static __always_inline void skip(struct abi_sched_thread *t, struct task_struct *task)
{
	t->faults0 = faults_of(task) - t->sums.faults;
	t->migrations0 = task->se.nr_migrations - t->sums.migrations;
}

/* It passes the filters no more: the interval that ends now is not counted, nor what follows until
 * it passes again. @since_ns: when it was switched in, 0: it was not. */
static __always_inline void leave_out(struct abi_sched_thread *t, __u64 since_ns)
{
	t->phase = ABI_PHASE_NONE;
	t->since_ns = since_ns;
}

static __always_inline int left_out(const struct abi_sched_thread *t)
{
	return cfg.filters & FILTERS_MUTABLE && t->phase == ABI_PHASE_NONE;
}

/* What a thread did that is no more is its process's. @leader: it gave the process its name. */
static __noinline void fold(struct abi_sched_thread *t, struct task_struct *leader)
{
	struct abi_sched_proc *p = proc_at(per_process ? t->slot : 0);
	__u32 i;

	if (p) {
		if (leader && p->tgid)
			name_proc(p, leader);
		for (i = 0; i < ABI_HIST_CNT; i++)
			__sync_fetch_and_add(&p->sums.ns[i], t->sums.ns[i]);
		for (i = 0; i < ABI_REASON_CNT; i++)
			__sync_fetch_and_add(&p->sums.reason[i], t->sums.reason[i]);
		__sync_fetch_and_add(&p->sums.faults, t->sums.faults);
		__sync_fetch_and_add(&p->sums.migrations, t->sums.migrations);
	}
}

/* ---- time ------------------------------------------------------------------------------------ */

/* A function of its own, which the verifier looks at once: it has many ways through. */
__noinline int bucket_of(__u64 ns)
{
	return (int)abi_hist_bucket(ns);
}

/* An interval of a thread that ended now; t: NULL for one that found no place. */
static __always_inline void count_time(struct abi_cpu_sums *cpu, struct abi_sched_thread *t,
                                       __u32 kind, __u64 ns, __u32 baseline)
{
	__u32 b, key = kind;
	struct abi_cpu_hist *h;
	struct abi_sched_proc *p;

	cpu->sums.ns[kind] += ns;
	if (t)
		t->sums.ns[kind] += ns;
	if (baseline)
		return;
	b = (__u32)bucket_of(ns);
	if (b >= ABI_HIST_BUCKETS)
		return; /* verifier: cannot happen */
	h = bpf_map_lookup_elem(&cpu_hists, &key);
	if (h) {
		h->bucket[b]++;
		h->total_ns += ns;
	}
	if (!per_process)
		return;
	p = proc_at(t ? t->slot : 0);
	if (!p)
		return; /* verifier: cannot happen */
	__sync_fetch_and_add(&p->bucket[kind][b], 1);
	__sync_fetch_and_add(&p->total_ns[kind], ns);
}

/* As what the time in a phase counts. */
static __always_inline __u32 kind_of(__u32 phase)
{
	return phase == ABI_PHASE_BLOCKED ? ABI_HIST_BLOCKED
	       : phase == ABI_PHASE_RUNQ  ? ABI_HIST_RUNQ
	                                  : ABI_HIST_SLICE;
}

static __always_inline __u64 since(__u64 now, __u64 then)
{
	return now > then ? now - then : 0;
}

/* What a thread did from since_ns on, as the scheduler's own account has it: for what no program
 * was told. When it came and went is not in it, so that no histogram gets it. @ran: on a CPU;
 * @rest: ABI_HIST_* of the time that it did not run; a slice: it waited for a CPU. */
static __noinline void settle(struct abi_cpu_sums *cpu, struct abi_sched_thread *t, __u64 ran,
                              __u32 rest, __u64 now)
{
	__u64 ns = since(now, t->since_ns);

	if (ran > ns)
		ran = ns;
	cpu->missed++;
	count_time(cpu, t, ABI_HIST_SLICE, ran, 1);
	count_time(cpu, t, rest == ABI_HIST_BLOCKED ? ABI_HIST_BLOCKED : ABI_HIST_RUNQ, ns - ran,
	           1);
}

/* What it ran since it was last seen to leave its CPU. A thread that waits has run nothing since
 * then: the scheduler brings its account up to date before it tells of the switch. */
static __always_inline __u64 ran_since(const struct abi_sched_thread *t, struct task_struct *task)
{
	return task->se.sum_exec_runtime - t->exec0_ns;
}

/* ---- counters -------------------------------------------------------------------------------- */

/* One counter of this CPU: 0, or non-zero. Its times cost as much as all else: two looks at a
 * clock. */
static __always_inline int read_counter(__u32 at, struct bpf_perf_event_value *ret)
{
	__s64 v;

	if (timed)
		return bpf_perf_event_read_value(&sched_events, at, ret, sizeof(*ret)) != 0;
	v = (__s64)bpf_perf_event_read(&sched_events, at);
	ret->counter = (__u64)v;
	ret->enabled = ret->running = 0;
	return v < 0 && v >= -4095; /* errors and values come the same way */
}

/* Reads the counters of this CPU. @count: what they counted since they were read is that of a
 * thread of the process in the slot. The verifier looks at it once. */
__noinline int read_counters(__u32 slot, __u32 count)
{
	__u32 i, core, me = bpf_get_smp_processor_id();
	struct abi_cpu_sums *cpu = this_cpu();
	struct abi_sched_proc *p = 0;

	if (!cpu)
		return 0; /* verifier: cannot happen */
	core = cpu->core_type;
	if (per_process && count)
		p = proc_at(slot);
	for (i = 0; i < n_counters && i < ABI_COUNTERS_MAX; i++) {
		struct abi_counted *last = &cpu->last[i], *sum = &cpu->counted[i];
		struct bpf_perf_event_value v;

		if (read_counter(i * n_cpus + me, &v))
			continue;
		/* Less than before: another event, since the CPU went and came back. */
		if (count && v.counter >= last->value && v.enabled >= last->enabled_ns &&
		    v.running >= last->running_ns) {
			__u64 value = v.counter - last->value,
			      enabled = v.enabled - last->enabled_ns,
			      running = v.running - last->running_ns;

			sum->value += value;
			if (timed) {
				sum->enabled_ns += enabled;
				sum->running_ns += running;
			}
			if (p && core < ABI_CORE_TYPES_MAX) {
				struct abi_counted *of = &p->counted[core][i];

				__sync_fetch_and_add(&of->value, value);
				if (timed) {
					__sync_fetch_and_add(&of->enabled_ns, enabled);
					__sync_fetch_and_add(&of->running_ns, running);
				}
			}
		}
		last->value = v.counter;
		last->enabled_ns = v.enabled;
		last->running_ns = v.running;
	}
	return 0;
}

/* ---- switches -------------------------------------------------------------------------------- */

/* Is it of a target? Whether filters let it pass is another question, and whether it is the
 * agent's. */
static __always_inline int may_count(struct task_struct *task)
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
		settle(cpu, t, ran_since(t, task), kind_of(phase), now);
	} else if (cpu->since_ns) {
		count_time(cpu, t, ABI_HIST_SLICE, since(now, cpu->since_ns), 0);
	} else if (!cpu->switched) {
		/* It runs since before the capture. */
		count_time(cpu, t, ABI_HIST_SLICE, since(now, begin_of(now)), 1);
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
		settle(cpu, t, ran, kind_of(phase), now);
	}
	t->phase = ABI_PHASE_ON;
	t->since_ns = now;
	t->exec0_ns = task->se.sum_exec_runtime;
	t->baseline = 0;
}

/* A kernel that shows some threads to nobody does not tell when one of them takes over, or leaves:
 * who was switched in here last does not run here any more. */
static __noinline void left_unseen(struct abi_cpu_sums *cpu)
{
	struct abi_sched_thread *t = find_thread(cpu->tid);

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
	out = may_count(prev);
	in = may_count(next);
	if (!out && !in)
		return 0;
	cpu = this_cpu();
	if (!cpu)
		return 0; /* verifier: cannot happen */
	*ret_now = now = bpf_ktime_get_ns();
	*ret_cpu = cpu;
	if (cpu->tid && cpu->tid != (__u32)prev->pid)
		left_unseen(cpu);
	if (out) {
		t = thread_of(prev);
		pass = passes(prev);
		if (pass && !t)
			t = admit(prev, ABI_PHASE_ON << ADMIT_PHASE_SHIFT, &lost);
		if (pass)
			seek_slot(t, prev);
		if (t || lost) {
			state = cfg.prev_state ? (__u32)ctx[3] : task_state(prev);
			reason = reason_of(prev, (__u32)ctx[0] & 1, state);
			if (pass) {
				switch_out(cpu, t, prev, reason,
				           woken_before(prev, (__u32)ctx[0] & 1, state), now);
				cpu->lost += lost;
				counted = 1;
			} else if (t) {
				leave_out(t, 0);
				skip(t, prev);
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
		if (!left_out(t))
			refresh(t, prev);
		count_end(t);
		fold(t, prev->pid == prev->tgid && pass ? prev : 0);
		forget_thread(prev->pid);
	}
	cpu->since_ns = in ? now : 0;
	cpu->tid = in ? next->pid : 0;
	if (!in)
		return 0;
	n = thread_of(next);
	if (cfg.filters & FILTERS_MUTABLE) {
		/* Faults of the slice are counted if it is. */
		if (n && left_out(n))
			skip(n, next);
		else if (n)
			refresh(n, next);
		if (!passes(next)) {
			if (n)
				leave_out(n, now);
			return 0;
		}
	}
	if (!n) {
		n = admit(next, ABI_PHASE_RUNQ << ADMIT_PHASE_SHIFT, &lost);
		if (!n) {
			cpu->lost += lost;
			return 0;
		}
	}
	seek_slot(n, next);
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

	if (!*(volatile __u32 *)&sw.active || !may_count(task))
		return 0;
	cpu = this_cpu();
	if (!cpu)
		return 0; /* verifier: cannot happen */
	now = bpf_ktime_get_ns();
	t = thread_of(task);
	if (!passes(task)) {
		if (t)
			leave_out(t, 0);
		return 0;
	}
	if (!t) {
		t = admit(task, ABI_PHASE_BLOCKED << ADMIT_PHASE_SHIFT, &lost);
		if (!t) {
			cpu->lost += lost;
			return 0;
		}
	}
	seek_slot(t, task);
	ran = ran_since(t, task);
	if (t->phase == ABI_PHASE_BLOCKED && !ran) {
		count_time(cpu, t, ABI_HIST_BLOCKED, since(now, t->since_ns), t->baseline);
	} else if (may_run(t, task) || (t->phase == ABI_PHASE_RUNQ && !ran)) {
		return 0; /* it was woken before it had left its CPU */
	} else if (t->phase != ABI_PHASE_NONE) {
		/* Nobody saw it go. */
		settle(cpu, t, ran, ABI_HIST_BLOCKED, now);
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

	if (!*(volatile __u32 *)&sw.active || !may_count(task) || !passes(task))
		return 0;
	t = admit(task, ADMIT_NEW, &lost);
	seek_slot(t, task);
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

	if (!*(volatile __u32 *)&sw.active || !may_count(task))
		return 0;
	t = find_thread(old_tid);
	if (!t && old_tid != tid) {
		/* The leader's last switch came first, under the thread's number, and ended that:
		 * the thread goes on in the leader's place. */
		old_tid = tid;
		t = find_thread(tid);
		cpu = this_cpu();
		if (t && cpu && passes(task)) {
			now = bpf_ktime_get_ns();
			if (t->phase != ABI_PHASE_NONE)
				count_time(cpu, t, kind_of(t->phase), since(now, t->since_ns), 1);
			skip(t, task);
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
	forget_thread(old_tid);
	t = find_thread(tid);
	if (t) {
		/* The leader's, whose last switch comes under the other number. */
		fold(t, 0);
		*t = moved;
	} else if (place_thread(tid, &moved)) {
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
		t = tid ? find_thread(tid) : 0;
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
static __always_inline void end_unseen(struct abi_sched_thread *t, struct task_struct *task)
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
	settle(cpu, t, ran, kind_of(now), end);
	t->since_ns = end;
	t->phase = ABI_PHASE_NONE;
}

/* At the end: no program is called any more. */
static __always_inline void bring_up_to_date(struct abi_sched_thread *t, struct task_struct *task,
                                             __u32 pass)
{
	/* Faults of what is counted are; afterwards its phase does not tell any more. */
	int counted = pass && (!left_out(t) || t->since_ns);

	t->scanned = 1;
	if (!pass)
		t->phase = ABI_PHASE_NONE;
	else if (left_out(t) && t->since_ns)
		t->phase = ABI_PHASE_ON; /* its last slice is that of its name now */
	else if (t->phase != ABI_PHASE_NONE)
		end_unseen(t, task);
	if (counted)
		refresh(t, task);
	if (pass)
		bpf_probe_read_kernel_str(t->comm, sizeof(t->comm), task->comm);
	seek_slot(t, task);
}

/* Threads that are there: at the beginning makes their entries, from then on brings up to date what
 * no program sees. */
PA_SEC("iter/task")
int sched_tasks(struct bpf_iter__task *ctx)
{
	struct task_struct *task = ctx->task;
	struct abi_sched_thread *t;
	__u32 tid, lost = 0, phase, now, pass;

	if (!task || !may_count(task))
		return 0;
	tid = task->pid;
	pass = passes(task);
	if (sw.ready) {
		t = thread_of(task);
		if (t)
			bring_up_to_date(t, task, pass);
		return 0;
	}
	if (!pass || task_state(task) & TASK_DEAD)
		return 0;
	phase = phase_of(task);
	/* Where a program was faster it knows better. */
	t = admit(task, phase << ADMIT_PHASE_SHIFT, &lost);
	/* A program that was called meanwhile did not find the entry: it would stay in its phase to
	 * the end. */
	now = phase_of(task);
	if (t && now != phase && t->baseline && t->phase == phase)
		t->phase = now;
	if (now != ABI_PHASE_BLOCKED)
		seek_slot(t, task);
	/* It may have ended before it was there. */
	if (t && task_state(task) & TASK_DEAD)
		forget_thread(tid);
	return 0;
}
