/* SPDX-License-Identifier: Apache-2.0 */
/* On-CPU time of the targets between switch events (bpf/lib/cpu_time.h). */
#include "loader/load_priv.h"

#include "bpf/oncpu_skel.h"

/* Runs cpu_time_mark on a CPU, in an interrupt. @what: ABI_CPU_TIME_BEGIN, … */
static int mark(const struct load_oncpu *l, uint32_t cpu, uint64_t what)
{
	uint64_t args[1] = {what};
	struct bpf_test_run_opts o = {.sz = sizeof(o),
	                              .ctx_in = args,
	                              .ctx_size_in = sizeof(args),
	                              .flags = BPF_F_TEST_RUN_ON_CPU,
	                              .cpu = cpu};
	int r = bpf_prog_test_run_opts(bpf_program__fd(l->skel->progs.cpu_time_mark), &o);

	/* The CPU went offline: its last switch event was to the idle task. */
	return r == -ENXIO ? 0 : r;
}

int load_cpu_time_begin(struct load_oncpu *l, const uint32_t *cpus, uint32_t n, struct err *err)
{
	int r = load_attach_tracepoint(&l->links, l->skel->progs.cpu_time_switch, err);

	for (uint32_t i = 0; i < n && r == 0; i++) {
		r = mark(l, cpus[i], ABI_CPU_TIME_BEGIN);
		if (r < 0)
			r = err_set(err, r, "bpf(BPF_PROG_TEST_RUN) on cpu %u: %s", cpus[i],
			            err_name(r));
	}
	return r;
}

static int mark_all(const struct load_oncpu *l, const uint32_t *cpus, uint32_t n, uint64_t what)
{
	int first = 0;

	for (uint32_t i = 0; i < n; i++) {
		int r = mark(l, cpus[i], what);

		first = first ? first : r;
	}
	return first;
}

int load_cpu_time_split(struct load_oncpu *l, const uint32_t *cpus, uint32_t n)
{
	return mark_all(l, cpus, n, ABI_CPU_TIME_SPLIT);
}

int load_cpu_time_end(struct load_oncpu *l, const uint32_t *cpus, uint32_t n)
{
	return mark_all(l, cpus, n, ABI_CPU_TIME_END);
}

struct times_arg {
	load_cpu_time_fn fn;
	void *arg;
};

static void on_time(void *arg, const void *key, const void *val)
{
	const struct times_arg *a = arg;

	(void)key;
	a->fn(a->arg, val);
}

int load_cpu_times(struct load_oncpu *l, load_cpu_time_fn fn, void *arg, struct abi_cpu_clock *ret)
{
	_cleanup_free_ struct abi_cpu_clock *clocks = calloc((size_t)l->n_cpus, sizeof(*clocks));
	struct times_arg a = {fn, arg};
	struct abi_cpu_clock sum = {0};
	uint32_t zero = 0;
	int r;

	if (!clocks)
		return -ENOMEM;
	r = bpf_map_lookup_elem(bpf_map__fd(l->skel->maps.cpu_clock), &zero, clocks);
	if (r == 0)
		r = load_batch_read(bpf_map__fd(l->skel->maps.cpu_times), false, &l->batch,
		                    sizeof(uint32_t), sizeof(struct abi_cpu_time), on_time, &a);
	if (r < 0)
		return r;
	for (int i = 0; i < l->n_cpus; i++) {
		sum.rest.ran_ns += clocks[i].rest.ran_ns;
		sum.rest.seen += clocks[i].rest.seen;
		sum.prog_ns += clocks[i].prog_ns;
		sum.missed += clocks[i].missed;
		sum.full += clocks[i].full;
	}
	*ret = sum;
	return 0;
}
