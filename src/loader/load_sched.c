/* SPDX-License-Identifier: Apache-2.0 */
/* The programs of scheduler statistics, over the shared maps. */
#include "loader/load_priv.h"

#include <string.h>
#include <sys/mman.h>

#include "bpf/oncpu_skel.h"
#include "bpf/sched_skel.h"

/* Switches after which buckets are folded: each adds at most one to a bucket of each kind. */
#define FOLD_SWITCHES (1ULL << 31)

/* Threads that are found without a hash, 1.5 MiB. A power of two. */
#define FAST_MAX 8192U

/* The 64-bit sums of a process's 32-bit buckets. */
struct folded {
	uint32_t last[ABI_HIST_CNT][ABI_HIST_BUCKETS]; /* when they were read last */
	uint64_t sum[ABI_HIST_CNT][ABI_HIST_BUCKETS];
};

struct load_sched {
	struct load_oncpu *base;
	struct sched_bpf *skel;
	struct load_sched_options o;
	uint32_t n_slots, n_fast;
	struct load_links links;
	int iter_link_fd;
	bool running;
	uint64_t end_ns;
	bool scanned; /* the final scan of all threads succeeded */
	struct load_batch batch;
	struct load_mapped procs;     /* struct abi_sched_proc[n_slots] */
	struct load_mapped fast;      /* struct abi_sched_fast[n_fast] */
	struct folded **folded;       /* folded[n_slots], each NULL until it is needed */
	uint64_t folded_at;           /* switches */
	struct abi_cpu_sums *per_cpu; /* per_cpu[base->n_cpus] */
	struct load_sched_proc proc;  /* handed on to the sink */
};

static struct load_own own_maps(const struct sched_bpf *skel)
{
	return (struct load_own){
	        .maps = {skel->maps.rodata, skel->maps.data_sched, skel->maps.cpu_hists,
	                 skel->maps.cpu_sums, skel->maps.sched_procs, skel->maps.sched_slots,
	                 skel->maps.sched_taken, skel->maps.sched_events, skel->maps.sched_threads,
	                 skel->maps.sched_fast, skel->maps.sched_claims},
	        .n = 11};
}

static int size_own(const struct load_sched *l, struct sched_bpf *skel)
{
	uint32_t events = MAX_OF(l->o.n_counters, 1U) * (uint32_t)l->base->n_cpus;
	const struct load_sized own[] = {{skel->maps.sched_procs, l->n_slots, false},
	                                 {skel->maps.sched_slots, 2 * l->n_slots, true},
	                                 {skel->maps.sched_taken, l->n_slots, true},
	                                 {skel->maps.sched_events, events, false},
	                                 {skel->maps.sched_fast, l->n_fast, false},
	                                 {skel->maps.sched_claims, l->n_fast, true},
	                                 {skel->maps.sched_threads, l->o.thread_entries, true}};

	return load_size_maps(l->base->preallocated, own, ARRAY_SIZE(own));
}

static int try_load(const struct load_sched *l, bool prev_state, struct sched_bpf **ret,
                    struct err *err)
{
	struct bpf_object_open_opts opts;
	struct sched_bpf *skel = NULL;
	struct load_own own;
	struct load_object o;
	int r = load_object_begin(&o, &opts);

	if (r == 0) {
		skel = sched_bpf__open_opts(&opts);
		r = skel ? load_object_resolve(&o, skel->obj) : -errno;
	}
	if (r < 0) {
		r = load_explain(&o.log, r, "bpf object open", err);
		sched_bpf__destroy(skel);
		goto out;
	}
	assert(skel);
	skel->rodata->cfg = l->base->skel->rodata->cfg;
	skel->rodata->cfg.prev_state = prev_state;
	skel->rodata->per_process = l->o.per_process;
	skel->rodata->n_counters = l->o.n_counters;
	skel->rodata->timed = l->o.counter_times;
	skel->rodata->n_cpus = (uint32_t)l->base->n_cpus;
	skel->rodata->n_slots = l->n_slots;
	skel->rodata->fast_mask = l->n_fast - 1;
	own = own_maps(skel);
	r = load_share_maps(l->base, skel->obj, skel->maps.bss, &own);
	if (r == 0)
		r = size_own(l, skel);
	if (r == 0)
		r = sched_bpf__load(skel);
	if (r < 0) {
		r = load_explain(&o.log, r, "bpf(BPF_PROG_LOAD) of the scheduler programs", err);
		sched_bpf__destroy(skel);
		goto out;
	}
	*ret = skel;
out:
	load_object_end(&o);
	return r;
}

static int map_array(const struct bpf_map *m, size_t bytes, struct load_mapped *ret)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE);
	void *p;

	bytes = (bytes + page - 1) & ~(page - 1);
	p = mmap(NULL, bytes, PROT_READ, MAP_SHARED, bpf_map__fd(m), 0);
	if (p == MAP_FAILED)
		return -errno;
	*ret = (struct load_mapped){p, bytes};
	return 0;
}

int load_sched_open(struct load_oncpu *base, const struct load_sched_options *o,
                    struct load_sched **ret, struct err *err)
{
	_cleanup_(load_sched_freep) struct load_sched *l = calloc(1, sizeof(*l));
	struct err first = {0};
	int r;

	if (!l)
		return err_set(err, -ENOMEM, "out of memory");
	l->base = base;
	l->o = *o;
	l->links.v.max = 16;
	l->iter_link_fd = -EBADF;
	if (o->n_counters > ABI_COUNTERS_MAX || o->n_procs > ABI_SCHED_PROCS || !o->thread_entries)
		return err_set(err, -EINVAL, "scheduler statistics: sizes out of range");
	l->n_slots = o->per_process ? o->n_procs + 1 : 1;
	l->n_fast = FAST_MAX;
	while (l->n_fast > o->thread_entries)
		l->n_fast /= 2;
	/* Before 5.18 the tracepoint has no fourth argument, and reading it is refused at once. */
	r = try_load(l, true, &l->skel, &first);
	if (r < 0)
		r = try_load(l, false, &l->skel, NULL);
	if (r < 0)
		return err_copy(err, &first);
	assert(l->skel);
	r = map_array(l->skel->maps.sched_procs, l->n_slots * sizeof(struct abi_sched_proc),
	              &l->procs);
	if (r == 0)
		r = map_array(l->skel->maps.sched_fast, l->n_fast * sizeof(struct abi_sched_fast),
		              &l->fast);
	if (r < 0)
		return err_set(err, r, "mmap of the scheduler statistics: %s", err_name(r));
	l->folded = calloc(l->n_slots, sizeof(struct folded *));
	l->per_cpu = calloc((size_t)base->n_cpus, sizeof(*l->per_cpu));
	if (load_batch_init(&l->batch, sizeof(uint32_t), sizeof(struct abi_sched_thread)) < 0 ||
	    !l->folded || !l->per_cpu)
		return err_set(err, -ENOMEM, "out of memory");
	*ret = TAKE_PTR(l);
	return 0;
}

struct load_sched *load_sched_free(struct load_sched *l)
{
	if (!l)
		return NULL;
	load_close_links(&l->links, 0);
	vec_done(&l->links.v);
	closep(&l->iter_link_fd);
	if (l->fast.p)
		(void)munmap(l->fast.p, l->fast.bytes);
	if (l->procs.p)
		(void)munmap(l->procs.p, l->procs.bytes);
	sched_bpf__destroy(l->skel);
	for (uint32_t i = 0; l->folded && i < l->n_slots; i++)
		free(l->folded[i]);
	free(l->folded);
	free(l->per_cpu);
	load_batch_done(&l->batch);
	free(l);
	return NULL;
}

void load_sched_freep(struct load_sched **l)
{
	*l = load_sched_free(*l);
}

/* ---- counters -------------------------------------------------------------------------------- */

int load_sched_counter(struct load_sched *l, uint32_t counter, uint32_t cpu, int perf_fd)
{
	uint32_t key = counter * (uint32_t)l->base->n_cpus + cpu;
	int r;

	if (counter >= l->o.n_counters || cpu >= (uint32_t)l->base->n_cpus)
		return -ERANGE;
	r = bpf_map_update_elem(bpf_map__fd(l->skel->maps.sched_events), &key, &perf_fd, BPF_ANY);
	return r < 0 ? r : 0;
}

static int read_cpus(const struct load_sched *l)
{
	const uint32_t zero = 0;

	return bpf_map_lookup_elem(bpf_map__fd(l->skel->maps.cpu_sums), &zero, l->per_cpu);
}

int load_sched_core_types(struct load_sched *l, const uint32_t *types)
{
	const uint32_t zero = 0;
	int r;

	if (l->running)
		return -EBUSY;
	r = read_cpus(l);
	if (r < 0)
		return r;
	for (int cpu = 0; cpu < l->base->n_cpus; cpu++) {
		if (types[cpu] >= ABI_CORE_TYPES_MAX)
			return -ERANGE;
		l->per_cpu[cpu].core_type = types[cpu];
	}
	r = bpf_map_update_elem(bpf_map__fd(l->skel->maps.cpu_sums), &zero, l->per_cpu, BPF_ANY);
	return r < 0 ? r : 0;
}

/* ---- beginning and end ----------------------------------------------------------------------- */

/* Runs sched_cpu_step on a CPU: ABI_CPU_STEP_*. */
static int step_cpu(struct load_sched *l, uint32_t what, uint32_t cpu)
{
	struct bpf_test_run_opts o = {.sz = sizeof(o), .flags = BPF_F_TEST_RUN_ON_CPU, .cpu = cpu};
	uint64_t arg = 0;

	o.ctx_in = &arg;
	o.ctx_size_in = sizeof(arg);
	*(volatile uint32_t *)&l->skel->data_sched->sw.cpu_step = what;
	return bpf_prog_test_run_opts(bpf_program__fd(l->skel->progs.sched_cpu_step), &o);
}

/* Runs it on every CPU; one that is offline counts nothing. */
static void step_counters(struct load_sched *l, uint32_t what)
{
	for (int cpu = 0; cpu < l->base->n_cpus && l->o.n_counters; cpu++)
		(void)step_cpu(l, what, (uint32_t)cpu);
}

/* Runs the iterator over all tasks. */
static int scan_tasks(struct load_sched *l)
{
	_cleanup_close_ int fd = load_iterate(l->skel->progs.sched_tasks, &l->iter_link_fd);

	return fd < 0 ? fd : load_iterate_through(fd);
}

static int attach(struct load_sched *l, struct err *err)
{
	struct bpf_program *const progs[] = {l->skel->progs.sched_switched,
	                                     l->skel->progs.sched_woken,
	                                     l->skel->progs.sched_woken_new,
	                                     l->skel->progs.sched_execed};

	int r = 0;

	for (size_t i = 0; i < ARRAY_SIZE(progs) && r == 0; i++)
		r = load_attach_tracepoint(&l->links, progs[i], err);
	return r;
}

int load_sched_attach(struct load_sched *l, struct err *err)
{
	volatile struct abi_sched_control *sw = &l->skel->data_sched->sw;
	struct bpf_test_run_opts here = {.sz = sizeof(here)};
	int r = attach(l, err);

	if (r < 0)
		goto fail;
	/* All CPUs begin at one instant, which the CPU of this thread sets. */
	sw->cpu_step = ABI_CPU_STEP_BEGIN;
	r = bpf_prog_test_run_opts(bpf_program__fd(l->skel->progs.sched_cpu_step), &here);
	if (r < 0) {
		(void)err_set(err, r, "bpf(BPF_PROG_TEST_RUN): %s", err_name(r));
		goto fail;
	}
	l->running = true;
	step_counters(l, ABI_CPU_STEP_ARM);
	r = scan_tasks(l);
	if (r < 0) {
		(void)err_set(err, r, "BPF iterator of tasks: %s", err_name(r));
		goto fail;
	}
	sw->ready = 1;
	return 0;
fail:
	load_sched_detach(l);
	return r;
}

void load_sched_detach(struct load_sched *l)
{
	if (l->running) {
		step_counters(l, ABI_CPU_STEP_FLUSH);
		*(volatile uint32_t *)&l->skel->data_sched->sw.active = 0;
		l->end_ns = now_ns();
		l->skel->data_sched->sw.end_ns = l->end_ns;
	}
	load_close_links(&l->links, 0);
	if (!l->running)
		return;
	l->running = false;
	load_wait_for_programs();
	/* If it fails, faults and migrations are those of the beginning. */
	l->scanned = scan_tasks(l) == 0;
}

/* ---- reading --------------------------------------------------------------------------------- */

static const struct abi_sched_proc *proc_at(const struct load_sched *l, uint32_t slot)
{
	return (const struct abi_sched_proc *)l->procs.p + slot;
}

/* Adds the increase of a process's buckets since they were read last. */
static void fold_proc(const struct abi_sched_proc *p, struct folded *f)
{
	for (int h = 0; h < ABI_HIST_CNT; h++) {
		for (int b = 0; b < ABI_HIST_BUCKETS; b++) {
			uint32_t v = *(const volatile uint32_t *)&p->bucket[h][b];

			f->sum[h][b] += v - f->last[h][b];
			f->last[h][b] = v;
		}
	}
}

static uint64_t switches_of(const struct load_sched *l)
{
	uint64_t sum = 0;

	for (int cpu = 0; cpu < l->base->n_cpus; cpu++)
		for (int i = 0; i < ABI_REASON_CNT; i++)
			sum += l->per_cpu[cpu].sums.reason[i];
	return sum;
}

int load_sched_fold(struct load_sched *l)
{
	uint64_t n;
	int r;

	if (!l->o.per_process)
		return 0;
	r = read_cpus(l);
	if (r < 0)
		return r;
	n = switches_of(l);
	if (n - l->folded_at < FOLD_SWITCHES)
		return 0;
	for (uint32_t slot = 0; slot < l->n_slots; slot++) {
		if (slot && !proc_at(l, slot)->tgid)
			continue;
		if (!l->folded[slot])
			l->folded[slot] = calloc(1, sizeof(struct folded));
		if (!l->folded[slot])
			return -ENOMEM;
		fold_proc(proc_at(l, slot), l->folded[slot]);
	}
	l->folded_at = n;
	return 0;
}

static void hand_on_proc(struct load_sched *l, uint32_t slot, const struct load_sched_sink *sink)
{
	const struct abi_sched_proc *p = proc_at(l, slot);
	struct load_sched_proc *out = &l->proc;

	if (slot && !*(const volatile uint32_t *)&p->tgid)
		return;
	out->slot = slot;
	out->tgid = p->tgid;
	out->exec_id = p->exec_id;
	out->start_ns = p->start_ns;
	memcpy(out->comm, p->comm, sizeof(out->comm));
	out->comm[sizeof(out->comm) - 1] = 0;
	out->ended = p->ended;
	out->sums = p->sums;
	memcpy(out->total_ns, p->total_ns, sizeof(out->total_ns));
	memcpy(out->counted, p->counted, sizeof(out->counted));
	if (l->folded[slot]) {
		fold_proc(p, l->folded[slot]);
		memcpy(out->bucket, l->folded[slot]->sum, sizeof(out->bucket));
	} else {
		for (int h = 0; h < ABI_HIST_CNT; h++)
			for (int b = 0; b < ABI_HIST_BUCKETS; b++)
				out->bucket[h][b] = p->bucket[h][b];
	}
	sink->proc(sink->arg, out);
}

static void on_thread(void *arg, const void *key, const void *val)
{
	const struct load_sched_sink *sink = arg;

	sink->thread(sink->arg, *(const uint32_t *)key, val);
}

static void hand_on_fast(const struct load_sched *l, const struct load_sched_sink *sink)
{
	const struct abi_sched_fast *f = l->fast.p;

	for (uint32_t i = 0; i < l->n_fast; i++) {
		uint32_t tid = *(const volatile uint32_t *)&f[i].key;

		if (tid)
			sink->thread(sink->arg, tid, &f[i].t);
	}
}

static void add_sums(struct abi_sched_sums *to, const struct abi_sched_sums *from)
{
	for (int i = 0; i < ABI_HIST_CNT; i++)
		to->ns[i] += from->ns[i];
	for (int i = 0; i < ABI_REASON_CNT; i++)
		to->reason[i] += from->reason[i];
}

static void add_cpu(const struct load_sched *l, const struct abi_cpu_sums *cpu,
                    struct load_sched_total *ret)
{
	uint32_t type = MIN_OF(cpu->core_type, ABI_CORE_TYPES_MAX - 1U);

	add_sums(&ret->sums, &cpu->sums);
	ret->lost += cpu->lost;
	ret->missed += cpu->missed;
	ret->prog_ns += cpu->prog_ns;
	for (uint32_t i = 0; i < l->o.n_counters; i++) {
		ret->counted[type][i].value += cpu->counted[i].value;
		ret->counted[type][i].enabled_ns += cpu->counted[i].enabled_ns;
		ret->counted[type][i].running_ns += cpu->counted[i].running_ns;
	}
}

static int read_hists(const struct load_sched *l, struct load_sched_total *ret)
{
	_cleanup_free_ struct abi_cpu_hist *all =
	        calloc((size_t)l->base->n_cpus, sizeof(struct abi_cpu_hist));

	if (!all)
		return -ENOMEM;
	for (uint32_t h = 0; h < ABI_HIST_CNT; h++) {
		int r = bpf_map_lookup_elem(bpf_map__fd(l->skel->maps.cpu_hists), &h, all);

		if (r < 0)
			return r;
		for (int cpu = 0; cpu < l->base->n_cpus; cpu++)
			ret->hist[h].total_ns += all[cpu].total_ns;
		for (int cpu = 0; cpu < l->base->n_cpus; cpu++)
			for (int b = 0; b < ABI_HIST_BUCKETS; b++)
				ret->hist[h].bucket[b] += all[cpu].bucket[b];
	}
	return 0;
}

int load_sched_read(struct load_sched *l, const struct load_sched_sink *sink,
                    struct load_sched_total *ret)
{
	const volatile struct abi_sched_control *sw = &l->skel->data_sched->sw;
	int r;

	memset(ret, 0, sizeof(*ret));
	ret->begin_ns = sw->begin_ns;
	ret->end_ns = l->running ? now_ns() : l->end_ns;
	ret->lost_procs = sw->lost_procs;
	ret->scanned = l->scanned;
	r = read_cpus(l);
	if (r < 0)
		return r;
	for (int cpu = 0; cpu < l->base->n_cpus; cpu++)
		add_cpu(l, &l->per_cpu[cpu], ret);
	for (uint32_t slot = 0; slot < l->n_slots; slot++) {
		const struct abi_sched_proc *p = proc_at(l, slot);

		ret->sums.faults += p->sums.faults;
		ret->sums.migrations += p->sums.migrations;
	}
	r = read_hists(l, ret);
	if (r < 0 || !sink)
		return r;
	for (uint32_t slot = 0; slot < l->n_slots; slot++)
		hand_on_proc(l, slot, sink);
	hand_on_fast(l, sink);
	r = load_batch_read(bpf_map__fd(l->skel->maps.sched_threads), false, &l->batch,
	                    sizeof(uint32_t), sizeof(struct abi_sched_thread), on_thread,
	                    (void *)(uintptr_t)sink);
	return r < 0 ? r : 0;
}

uint64_t load_sched_locked_bytes(const struct load_sched *l)
{
	const struct load_own own = own_maps(l->skel);

	return load_own_bytes(&own);
}
