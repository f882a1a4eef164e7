/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/*
 * Dirty ranges: mappings reported by the kernel whose side-band record user space has not processed
 * yet. Such records stay in their rings for up to a drain interval. Until then the ranges map has
 * the previous mapping of the address, so the walk treats a dirty range as unknown. A dirty range
 * has a time. It ends when user space publishes a later watermark (abi_control.watermark_ns): the
 * ranges then have all mappings made up to that time.
 *
 * At each address, either the ranges are right or a dirty range covers it. A mapping that repeats
 * the ranges (mprotect of JIT and library code makes many a second) adds no dirty range. It renews
 * the dirty ranges that it overlaps, since the records between may differ from it. When a process
 * has too many dirty ranges they are joined: then more is unknown than necessary.
 *
 * With ABI_TARGET_ALL a process that user space does not know has no dirty ranges: for some
 * milliseconds, its first ranges may show mappings that were replaced while they were written.
 */
#ifndef PA_BPF_DIRTY_H
#define PA_BPF_DIRTY_H

#include "bpf/lib/scratch.h"
#include "bpf/lib/vma.h"

/* Returns the index + 1 of the entry in ranges[first … first + cnt) that covers @addr, or 0. */
__noinline int range_at(__u32 first, __u32 cnt, __u64 addr)
{
	__u32 lo = first, hi = first + cnt, mid, i;
	struct abi_range *r;

	for (i = 0; i < ABI_BISECT_STEPS && lo < hi; i++) {
		mid = lo + (hi - lo) / 2;
		r = bpf_map_lookup_elem(&ranges, &mid);
		if (!r)
			return 0;
		if (r->start <= addr)
			lo = mid + 1;
		else
			hi = mid;
	}
	if (lo == first)
		return 0;
	lo--;
	r = bpf_map_lookup_elem(&ranges, &lo);
	return r && addr < r->end ? (int)lo + 1 : 0;
}

/* Returns 1 and the range in @ret if the range that covers @addr equals @m there. */
static __always_inline int range_matches(const struct mapping *m, const struct abi_proc *p,
                                         __u64 addr, struct abi_range *ret)
{
	__u32 i = range_at(p->first, p->cnt, addr);
	struct abi_range *r;

	if (!i)
		return 0;
	i--;
	r = bpf_map_lookup_elem(&ranges, &i);
	if (!r)
		return 0;
	*ret = *r;
	return is_same_mapping(m, ret);
}

/* Ranges compared at each end of a mapping: the kernel joins neighbours, and reports the whole. */
#define TRIM_STEPS 4

/* Removes from both ends of @m what the ranges have already. */
static __always_inline void trim_matching(struct mapping *m, const struct abi_proc *p)
{
	struct abi_range r;
	__u32 i;

	for (i = 0; i < TRIM_STEPS && m->start < m->end && range_matches(m, p, m->start, &r); i++)
		m->start = r.end;
	for (i = 0; i < TRIM_STEPS && m->start < m->end && range_matches(m, p, m->end - 1, &r); i++)
		m->end = r.start;
}

/* Renews the dirty ranges that @m overlaps. Returns how many. */
static __always_inline __u32 renew_dirty(struct abi_dirty_ranges *k, const struct mapping *m,
                                         __u64 watermark_ns, __u64 now)
{
	__u32 i, n = 0;

	for (i = 0; i < ABI_DIRTY_RANGES; i++) {
		if (k->m[i].time_ns <= watermark_ns || k->m[i].start >= m->end ||
		    k->m[i].end <= m->start)
			continue;
		k->m[i].time_ns = now;
		n++;
	}
	return n;
}

/* Joins @m to a dirty range that it touches, else uses a free entry, else joins it to the nearest.
 * A walk that reads meanwhile may see too little of it, but no thread runs in @m yet. */
static __always_inline void add_dirty(struct abi_dirty_ranges *k, const struct mapping *m,
                                      __u64 watermark_ns, __u64 now)
{
	__u64 best = ~0ULL, start = m->start, end = m->end;
	__u32 at = 0, i;

	for (i = 0; i < ABI_DIRTY_RANGES; i++) {
		const struct abi_dirty_range *o = &k->m[i];
		__u64 cost;

		if (o->time_ns <= watermark_ns)
			cost = 1;
		else if (o->start > end)
			cost = 1 + o->start - end;
		else if (o->end < start)
			cost = 1 + start - o->end;
		else
			cost = 0;
		if (cost < best) {
			best = cost;
			at = i;
		}
	}
	for (i = 0; i < ABI_DIRTY_RANGES; i++) {
		struct abi_dirty_range *o = &k->m[i];

		if (i != at)
			continue;
		if (o->time_ns <= watermark_ns) {
			o->start = start;
			o->end = end;
		}
		if (o->start > start)
			o->start = start;
		if (o->end < end)
			o->end = end;
		o->time_ns = now;
	}
}

/*
 * Runs after the record of each new or changed mapping, under the process's mmap lock. So one CPU
 * at a time changes the dirty ranges, no thread has run in the mapping yet, and the record in the
 * ring is older than the dirty range.
 */
PA_SEC("fexit/perf_event_mmap")
int record_mapping(__u64 *ctx)
{
	struct vm_area_struct *vma = (struct vm_area_struct *)ctx[0];
	__u32 tgid = bpf_get_current_pid_tgid() >> 32, zero = 0;
	struct task_struct *task, *leader;
	struct abi_dirty_ranges *k, fresh = {};
	struct abi_counters *c;
	struct abi_proc *p;
	struct mapping m;
	__u64 now, watermark_ns;
	__u32 changed = 0;

	if (!(vma->vm_flags & VM_EXEC))
		return 0;
	if (cfg.target == ABI_TARGET_PID && !cfg.nested_ns && tgid != cfg.target_tgid)
		return 0;
	task = current_task();
	if (cfg.target != ABI_TARGET_ALL && !is_target(task, tgid))
		return 0;
	leader = TASK_GET(task, group_leader);
	if (cfg.nested_ns)
		tgid = ns_number(leader);
	if (!tgid)
		return 0;
	p = bpf_map_lookup_elem(&procs, &tgid);
	if (!p && cfg.target == ABI_TARGET_ALL)
		return 0;
	now = bpf_ktime_get_ns();
	watermark_ns = *(volatile __u64 *)&ctl.watermark_ns;
	fresh.exec_id = (__u32)TASK_GET(leader, self_exec_id);
	fresh.start_ns = TASK_GET(leader, start_boottime);
	mapping_of(vma, &m);
	k = bpf_map_lookup_elem(&dirty_ranges, &tgid);
	if (k && (k->exec_id != fresh.exec_id || k->start_ns != fresh.start_ns)) {
		*k = fresh; /* of the program before its execve */
		changed = 1;
	} else if (k) {
		changed = renew_dirty(k, &m, watermark_ns, now);
	}
	if (p && p->cnt && p->exec_id == fresh.exec_id &&
	    (p->start_ns == 0 || p->start_ns == fresh.start_ns))
		trim_matching(&m, p);
	if (m.start < m.end) {
		changed = 1;
		c = bpf_map_lookup_elem(&counters, &zero);
		if (c)
			CNT_ADD(c, DIRTY_RANGES, 1);
		if (k) {
			add_dirty(k, &m, watermark_ns, now);
		} else {
			fresh.m[0].start = m.start;
			fresh.m[0].end = m.end;
			fresh.m[0].time_ns = now;
			if (bpf_map_update_elem(&dirty_ranges, &tgid, &fresh, BPF_ANY) && c)
				CNT_ADD(c, DIRTY_FULL, 1);
		}
	}
	if (changed)
		__sync_fetch_and_add(&ctl.procs, 1);
	return 0;
}

#endif
