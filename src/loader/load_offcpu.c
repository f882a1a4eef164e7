/* SPDX-License-Identifier: Apache-2.0 */
/* The off-CPU programs, over the shared maps. */
#include "loader/load_priv.h"

#include <bpf/btf.h>
#include <time.h>

#include "bpf/offcpu_skel.h"
#include "bpf/oncpu_skel.h"

#define BEGIN_LEAD_NS 1000000U

struct load_offcpu {
	struct load_oncpu *base;
	struct offcpu_bpf *skel;
	struct load_links links;
	struct load_batch batch;
	struct load_batch threads;
	uint64_t begin_ns;
};

/* Sampling programs interrupt these: each object has its own working memory and counters. */
static struct load_own own_maps(const struct offcpu_bpf *skel)
{
	return (struct load_own){.maps = {skel->maps.rodata, skel->maps.scratch,
	                                  skel->maps.counters, skel->maps.kstack_cache,
	                                  skel->maps.offcpu_counts_a, skel->maps.offcpu_counts_b,
	                                  skel->maps.offcpu_threads, skel->maps.offcpu_scan_buf,
	                                  skel->maps.offcpu_new, skel->maps.ustack_cache},
	                         .n = 10};
}

static int size_own(const struct load_oncpu *base, const struct load_offcpu_options *o,
                    struct offcpu_bpf *skel)
{
	const struct load_sized own[] = {{skel->maps.offcpu_counts_a, o->count_entries, true},
	                                 {skel->maps.offcpu_counts_b, o->count_entries, true},
	                                 {skel->maps.offcpu_threads, o->thread_entries, true}};

	return load_size_maps(base->preallocated, own, ARRAY_SIZE(own));
}

/* The features of this kernel that the programs read. */
struct how {
	bool prev_state; /* the fourth argument of sched_switch: from 5.18 on */
	bool irq_count;  /* the interrupt count of a CPU */
};

/* The variable with that count. On other processors than x86 programs find it through the task. */
struct irq_variable {
	uint32_t where; /* ABI_IRQ_COUNT_* */
	int id;         /* in the kernel's BTF */
};

static const struct {
	const char *name;
	uint32_t where;
} irq_variables[] = {{"__preempt_count", ABI_IRQ_COUNT_PLAIN}, {"pcpu_hot", ABI_IRQ_COUNT_HOT}};

static struct irq_variable irq_variable(const struct load_object *o)
{
	for (size_t i = 0; i < ARRAY_SIZE(irq_variables); i++) {
		uint32_t id = load_object_id(o, irq_variables[i].name);

		if (id)
			return (struct irq_variable){irq_variables[i].where, (int)id};
	}
	return (struct irq_variable){0};
}

/* Resolves the variable as libbpf does for a __ksym, without searching modules. */
static int put_irq_variable(struct bpf_program *p, const struct irq_variable *var)
{
	size_t n = bpf_program__insn_cnt(p), found = 0;
	_cleanup_free_ struct bpf_insn *v = calloc(n, sizeof(*v));

	if (!v)
		return -ENOMEM;
	memcpy(v, bpf_program__insns(p), n * sizeof(*v));
	for (size_t i = 0; i + 1 < n; i++) {
		if (v[i].code != (BPF_LD | BPF_IMM | BPF_DW) || v[i].src_reg != 0 ||
		    v[i].imm != (int32_t)ABI_IRQ_VARIABLE ||
		    v[i + 1].imm != (int32_t)(ABI_IRQ_VARIABLE >> 32))
			continue;
		v[i].src_reg = BPF_PSEUDO_BTF_ID;
		v[i].imm = var->id;
		v[i + 1].imm = 0;
		found++;
	}
	return found ? bpf_program__set_insns(p, v, n) : -ENOENT;
}

static int try_load(struct load_oncpu *base, const struct load_offcpu_options *o, struct how how,
                    struct offcpu_bpf **ret, struct err *err)
{
	struct bpf_object_open_opts opts;
	struct irq_variable irq;
	struct offcpu_bpf *skel = NULL;
	struct load_own own;
	struct load_object lo;
	int r = load_object_begin(&lo, &opts);

	for (size_t i = 0; i < ARRAY_SIZE(irq_variables) && r == 0; i++)
		r = load_object_want(&lo, irq_variables[i].name, BTF_KIND_VAR);
	if (r == 0) {
		skel = offcpu_bpf__open_opts(&opts);
		r = skel ? load_object_resolve(&lo, skel->obj) : -errno;
	}
	if (r < 0) {
		r = load_explain(&lo.log, r, "bpf object open", err);
		offcpu_bpf__destroy(skel);
		goto out;
	}
	assert(skel);
	irq = irq_variable(&lo);
#if defined(__x86_64__)
	if (o->wakers && how.irq_count && irq.where == ABI_IRQ_COUNT_NONE) {
		offcpu_bpf__destroy(skel);
		r = -ENOENT; /* no failure to tell: the next way does without */
		goto out;
	}
#endif
	skel->rodata->cfg = base->skel->rodata->cfg;
	skel->rodata->cfg.offcpu_states = o->states;
	skel->rodata->cfg.offcpu_min_ns = o->min_ns;
	skel->rodata->cfg.offcpu_max_ns = o->max_ns;
	skel->rodata->cfg.prev_state = how.prev_state;
	skel->rodata->cfg.irq_count = irq.where;
	bpf_program__set_autoload(skel->progs.offcpu_waker, o->wakers && how.irq_count);
	bpf_program__set_autoload(skel->progs.offcpu_waker_sp, o->wakers && !how.irq_count);
	own = own_maps(skel);
	r = load_share_maps(base, skel->obj, skel->maps.bss, &own);
	if (r == 0)
		r = size_own(base, o, skel);
	if (r == 0 && o->wakers && irq.where)
		r = put_irq_variable(skel->progs.offcpu_waker, &irq);
	if (r == 0)
		r = offcpu_bpf__load(skel);
	if (r < 0) {
		r = load_explain(&lo.log, r, "bpf(BPF_PROG_LOAD) of the off-CPU programs", err);
		offcpu_bpf__destroy(skel);
		goto out;
	}
	*ret = skel;
out:
	load_object_end(&lo);
	return r;
}

int load_offcpu_open(struct load_oncpu *base, const struct load_offcpu_options *o,
                     struct load_offcpu **ret, struct err *err)
{
	static const struct how ways[] = {
	        {true, true}, {true, false}, {false, true}, {false, false}};
	_cleanup_(load_offcpu_freep) struct load_offcpu *l = calloc(1, sizeof(*l));
	struct err first = {0}, later;
	int r = -EINVAL;

	if (!l)
		return err_set(err, -ENOMEM, "out of memory");
	l->base = base;
	l->links.v.max = 16;
	/* The kernel refuses a missing feature at once. Only wakers need the interrupt count. */
	for (size_t i = 0; i < ARRAY_SIZE(ways) && r < 0; i++)
		if (ways[i].irq_count || o->wakers)
			r = try_load(base, o, ways[i], &l->skel, first.code ? &later : &first);
	if (r < 0)
		return err_copy(err, &first);
	if (load_batch_init(&l->batch, sizeof(struct abi_offcpu_key),
	                    sizeof(struct abi_offcpu_count)) < 0 ||
	    load_batch_init(&l->threads, sizeof(uint32_t), sizeof(struct abi_offcpu_thread)) < 0)
		return err_set(err, -ENOMEM, "out of memory");
	*ret = TAKE_PTR(l);
	return 0;
}

struct load_offcpu *load_offcpu_free(struct load_offcpu *l)
{
	if (!l)
		return NULL;
	load_offcpu_detach(l);
	vec_done(&l->links.v);
	offcpu_bpf__destroy(l->skel);
	load_batch_done(&l->batch);
	load_batch_done(&l->threads);
	free(l);
	return NULL;
}

void load_offcpu_freep(struct load_offcpu **l)
{
	*l = load_offcpu_free(*l);
}

int load_offcpu_attach(struct load_offcpu *l, struct err *err)
{
	struct bpf_program *p;
	int r = 0;

	bpf_object__for_each_program (p, l->skel->obj) {
		if (r == 0 && bpf_program__autoload(p) && p != l->skel->progs.offcpu_scan &&
		    p != l->skel->progs.offcpu_scan_end)
			r = load_attach_tracepoint(&l->links, p, err);
	}
	return r;
}

void load_offcpu_follow(struct load_offcpu *l)
{
	__atomic_store_n(&load_control(l->base)->begin_ns, ABI_BEGIN_LATER, __ATOMIC_RELEASE);
}

uint64_t load_offcpu_begin(struct load_offcpu *l)
{
	/* It lies a moment ahead: an interval that ends before the programs see it is not lost. */
	l->begin_ns = now_ns() + BEGIN_LEAD_NS;
	__atomic_store_n(&load_control(l->base)->begin_ns, l->begin_ns, __ATOMIC_RELEASE);
	while (now_ns() < l->begin_ns)
		(void)clock_nanosleep(
		        CLOCK_MONOTONIC, TIMER_ABSTIME,
		        &(struct timespec){.tv_sec = (time_t)(l->begin_ns / NSEC_PER_SEC),
		                           .tv_nsec = (long)(l->begin_ns % NSEC_PER_SEC)},
		        NULL);
	return l->begin_ns;
}

/* Runs before the programs are detached: until then more threads would run and block. */
static int final_scan(struct load_offcpu *l)
{
	_cleanup_close_ int link = -EBADF, fd = load_iterate(l->skel->progs.offcpu_scan_end, &link);

	return fd < 0 ? fd : load_iterate_through(fd);
}

int load_offcpu_end(struct load_offcpu *l, uint64_t end_ns)
{
	struct abi_control *ctl = load_control(l->base);

	__atomic_store_n(&ctl->begin_ns, ABI_BEGIN_NEVER, __ATOMIC_RELEASE);
	ctl->end_ns = end_ns;
	return final_scan(l);
}

void load_offcpu_detach(struct load_offcpu *l)
{
	__atomic_store_n(&load_control(l->base)->begin_ns, ABI_BEGIN_NEVER, __ATOMIC_RELEASE);
	load_close_links(&l->links, 0);
}

/* ---- reading --------------------------------------------------------------------------------- */

struct offcpu_arg {
	load_offcpu_fn fn;
	load_offcpu_thread_fn thread;
	void *arg;
};

static void on_interval(void *arg, const void *key, const void *val)
{
	const struct offcpu_arg *a = arg;

	a->fn(a->arg, key, val);
}

static int drain_table(struct load_offcpu *l, const struct bpf_map *m, load_offcpu_fn fn, void *arg)
{
	struct offcpu_arg a = {.fn = fn, .arg = arg};

	return load_batch_read(bpf_map__fd(m), true, &l->batch, sizeof(struct abi_offcpu_key),
	                       sizeof(struct abi_offcpu_count), on_interval, &a);
}

int load_offcpu_drain(struct load_offcpu *l, load_offcpu_fn fn, void *arg)
{
	volatile struct abi_control *ctl = load_control(l->base);
	uint32_t idle = ctl->offcpu_active & 1; /* becomes idle */

	ctl->offcpu_active = idle ^ 1;
	load_wait_for_programs();
	return drain_table(l, idle ? l->skel->maps.offcpu_counts_b : l->skel->maps.offcpu_counts_a,
	                   fn, arg);
}

int load_offcpu_drain_final(struct load_offcpu *l, load_offcpu_fn fn, void *arg)
{
	int a, b;

	load_wait_for_programs();
	a = drain_table(l, l->skel->maps.offcpu_counts_a, fn, arg);
	b = drain_table(l, l->skel->maps.offcpu_counts_b, fn, arg);
	if (a < 0)
		return a;
	return b < 0 ? b : a + b;
}

static void on_thread(void *arg, const void *key, const void *val)
{
	const struct offcpu_arg *a = arg;

	a->thread(a->arg, *(const uint32_t *)key, val);
}

int load_offcpu_threads(struct load_offcpu *l, load_offcpu_thread_fn fn, void *arg)
{
	struct offcpu_arg a = {.thread = fn, .arg = arg};

	return load_batch_read(bpf_map__fd(l->skel->maps.offcpu_threads), false, &l->threads,
	                       sizeof(uint32_t), sizeof(struct abi_offcpu_thread), on_thread, &a);
}

int load_offcpu_blocked(struct load_offcpu *l, load_blocked_fn fn, void *arg)
{
	_cleanup_close_ int link = -EBADF, fd = -EBADF;
	struct abi_offcpu_blocked b;
	size_t have = 0;

	fd = load_iterate(l->skel->progs.offcpu_scan, &link);
	if (fd < 0)
		return fd;
	for (;;) {
		ssize_t n = read(fd, (char *)&b + have, sizeof(b) - have);

		if (n < 0 && (errno == EINTR || errno == EAGAIN))
			continue;
		if (n <= 0)
			return n < 0 ? -errno : 0;
		have += (size_t)n;
		if (have < sizeof(b))
			continue;
		fn(arg, &b);
		have = 0;
	}
}

bool load_offcpu_is_open(const struct load_offcpu *l, uint32_t kernel_tid, uint64_t ustack)
{
	struct abi_offcpu_thread t;

	return bpf_map_lookup_elem(bpf_map__fd(l->skel->maps.offcpu_threads), &kernel_tid, &t) ==
	               0 &&
	       t.out_ns && t.key.ustack == ustack &&
	       /* Read after the entry: the programs still kept entries then. */
	       __atomic_load_n(&load_control(l->base)->begin_ns, __ATOMIC_ACQUIRE) !=
	               ABI_BEGIN_NEVER;
}

int load_offcpu_counters(const struct load_offcpu *l, struct abi_counters *ret)
{
	_cleanup_free_ struct abi_counters *per_cpu =
	        calloc((size_t)l->base->n_cpus, sizeof(*per_cpu));

	return per_cpu ? load_counters_sum(bpf_map__fd(l->skel->maps.counters), per_cpu,
	                                   l->base->n_cpus, ret)
	               : -ENOMEM;
}

uint64_t load_offcpu_locked_bytes(const struct load_offcpu *l)
{
	const struct load_own own = own_maps(l->skel);

	return load_own_bytes(&own);
}
