// SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0
/* Programs to compare perf-agent's with, on the same events at the same rate: some that do nothing,
 * and the kernel's own walk of user stacks. */
#include <linux/bpf.h>
#include <linux/bpf_perf_event.h>
#include <bpf/bpf_helpers.h>

char LICENSE[] SEC("license") = "GPL";

const volatile __u32 target_tgid = 0;

struct stack {
	__u64 pcs[127];
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct stack);
} stacks SEC(".maps");

SEC("perf_event")
int bench_empty(struct bpf_perf_event_data *ctx)
{
	(void)ctx;
	return 0;
}

SEC("perf_event")
int bench_get_stack(struct bpf_perf_event_data *ctx)
{
	__u32 zero = 0;
	struct stack *s;

	if (bpf_get_current_pid_tgid() >> 32 != target_tgid)
		return 0;
	s = bpf_map_lookup_elem(&stacks, &zero);
	if (s)
		bpf_get_stack(ctx, s, sizeof(*s), BPF_F_USER_STACK);
	return 0;
}

SEC("tp_btf/sched_switch")
int bench_switch(__u64 *ctx)
{
	(void)ctx;
	return 0;
}

SEC("tp_btf/sched_wakeup")
int bench_wakeup(__u64 *ctx)
{
	(void)ctx;
	return 0;
}
