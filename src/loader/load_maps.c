/* SPDX-License-Identifier: Apache-2.0 */
/* The shared maps while a capture runs: process map, rings, counts, names, counters, tasks. */
#include "loader/load_priv.h"

#include "bpf/oncpu_skel.h"

/* ---- process map ----------------------------------------------------------------------------- */

uint32_t load_range_cnt(const struct load_oncpu *l)
{
	return l->sizes.range_entries;
}

struct abi_range *load_ranges(struct load_oncpu *l)
{
	return l->ranges;
}

static void procs_changed(struct load_oncpu *l)
{
	(void)__atomic_add_fetch(&load_control(l)->procs, 1, __ATOMIC_RELEASE);
}

void load_ranges_reclaimed(struct load_oncpu *l)
{
	(void)__atomic_add_fetch(&load_control(l)->reclaimed, 1, __ATOMIC_RELEASE);
	procs_changed(l);
}

int load_proc_set(struct load_oncpu *l, uint32_t tgid, const struct abi_proc *p)
{
	int r = bpf_map_update_elem(bpf_map__fd(l->skel->maps.procs), &tgid, p, BPF_ANY);

	procs_changed(l);
	return r < 0 ? r : 0;
}

int load_proc_del(struct load_oncpu *l, uint32_t tgid)
{
	int r = bpf_map_delete_elem(bpf_map__fd(l->skel->maps.procs), &tgid);

	procs_changed(l);
	return r < 0 ? r : 0;
}

void load_proc_ended(struct load_oncpu *l, uint32_t tgid)
{
	if (load_hooked(l))
		(void)bpf_map_delete_elem(bpf_map__fd(l->skel->maps.dirty_ranges),
		                          &tgid); /* if any */
}

void load_watermark(struct load_oncpu *l, uint64_t until_ns)
{
	__atomic_store_n(&load_control(l)->watermark_ns, until_ns, __ATOMIC_RELEASE);
}

/* ---- ring ------------------------------------------------------------------------------------ */

int load_ring_drain(struct load_oncpu *l, load_ring_fn stack, load_ring_fn deferred, void *arg)
{
	l->stack_fn = stack;
	l->deferred_fn = deferred;
	l->ring_arg = arg;
	return ring_buffer__consume(l->ring);
}

int load_ring_fd(const struct load_oncpu *l)
{
	return ring_buffer__epoll_fd(l->ring);
}

/* ---- counts ---------------------------------------------------------------------------------- */

struct counts_arg {
	load_count_fn fn;
	void *arg;
};

static void on_count(void *arg, const void *key, const void *val)
{
	const struct counts_arg *a = arg;

	a->fn(a->arg, key, val);
}

/* Hands on and deletes all entries of a table that no program writes. */
static int drain_table(struct load_oncpu *l, int fd, load_count_fn fn, void *arg)
{
	struct counts_arg a = {.fn = fn, .arg = arg};

	return load_batch_read(fd, true, &l->batch, sizeof(struct abi_count_key),
	                       sizeof(struct abi_count), on_count, &a);
}

int load_counts_drain(struct load_oncpu *l, load_count_fn fn, void *arg)
{
	volatile struct abi_control *ctl = load_control(l);
	uint32_t idle = ctl->active & 1; /* becomes idle */

	ctl->active = idle ^ 1;
	load_wait_for_programs();
	return drain_table(l, bpf_map__fd(idle ? l->skel->maps.counts_b : l->skel->maps.counts_a),
	                   fn, arg);
}

int load_counts_drain_final(struct load_oncpu *l, load_count_fn fn, void *arg)
{
	int a, b;

	load_wait_for_programs();
	a = drain_table(l, bpf_map__fd(l->skel->maps.counts_a), fn, arg);
	b = drain_table(l, bpf_map__fd(l->skel->maps.counts_b), fn, arg);
	if (a < 0)
		return a;
	return b < 0 ? b : a + b;
}

struct threads_arg {
	load_thread_fn fn;
	void *arg;
};

static void on_thread(void *arg, const void *key, const void *val)
{
	const struct threads_arg *a = arg;

	a->fn(a->arg, key, val);
}

int load_threads_read(struct load_oncpu *l, bool clear, load_thread_fn fn, void *arg)
{
	struct threads_arg a = {.fn = fn, .arg = arg};

	return load_batch_read(bpf_map__fd(l->skel->maps.threads), clear, &l->batch,
	                       sizeof(struct abi_thread_key), sizeof(struct abi_thread), on_thread,
	                       &a);
}

/* ---- statistics ------------------------------------------------------------------------------ */

int load_counters(const struct load_oncpu *l, struct abi_counters *ret)
{
	_cleanup_free_ struct abi_counters *per_cpu = calloc((size_t)l->n_cpus, sizeof(*per_cpu));

	return per_cpu ? load_counters_sum(bpf_map__fd(l->skel->maps.counters), per_cpu, l->n_cpus,
	                                   ret)
	               : -ENOMEM;
}

int load_counters_drain(struct load_oncpu *l, struct abi_counters *ret)
{
	return load_counters_sum(bpf_map__fd(l->skel->maps.counters), l->per_cpu, l->n_cpus, ret);
}

uint64_t load_locked_bytes(const struct load_oncpu *l)
{
	struct bpf_map *m;
	uint64_t sum = 0;

	bpf_object__for_each_map (m, l->skel->obj) {
		if (bpf_map__fd(m) >= 0)
			sum += load_memlock_of(bpf_map__fd(m));
	}
	/* The descriptors of segments are closed. */
	sum += (uint64_t)l->n_segments * ABI_SEGMENT_WORDS * sizeof(uint32_t);
	return sum;
}

/* ---- tasks ----------------------------------------------------------------------------------- */

int load_tasks(struct load_oncpu *l, load_task_fn fn, void *arg)
{
	_cleanup_close_ int fd = -EBADF;
	struct abi_task buf[64];
	size_t have = 0;

	fd = load_iterate(l->skel->progs.tasks, &l->iter_link_fd);
	if (fd < 0)
		return fd;
	for (;;) {
		ssize_t n = read(fd, (char *)buf + have, sizeof(buf) - have);
		size_t whole;

		if (n < 0 && (errno == EINTR || errno == EAGAIN))
			continue;
		if (n < 0)
			return -errno;
		if (n == 0)
			return 0;
		have += (size_t)n;
		whole = have / sizeof(buf[0]);
		for (size_t i = 0; i < whole; i++)
			fn(arg, &buf[i]);
		have -= whole * sizeof(buf[0]);
		memmove(buf, &buf[whole], have);
	}
}
