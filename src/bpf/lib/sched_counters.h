/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/*
 * Scheduler statistics: hardware and software counters, read where the thread of a CPU changes.
 */
#ifndef PA_BPF_SCHED_COUNTERS_H
#define PA_BPF_SCHED_COUNTERS_H

#include "bpf/lib/sched_maps.h"

/* Reads one counter of this CPU: 0, or non-zero. Its times need two clock reads, which cost as much
 * as the rest. */
static __always_inline int read_counter(__u32 at, struct bpf_perf_event_value *ret)
{
	__s64 v;

	if (timed)
		return bpf_perf_event_read_value(&sched_events, at, ret, sizeof(*ret)) != 0;
	v = (__s64)bpf_perf_event_read(&sched_events, at);
	ret->counter = (__u64)v;
	ret->enabled = ret->running = 0;
	return v < 0 && v >= -4095; /* errors are returned as values */
}

/* Reads the counters of this CPU. @count: add the differences since the last read to the CPU and to
 * the process in @slot. __noinline: verified once. */
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
		/* A smaller value is of a new event: the CPU was offline in between. */
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

#endif
