/* SPDX-License-Identifier: Apache-2.0 */
#include "loader/load_priv.h"

#include <fcntl.h>
#include <linux/membarrier.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <time.h>

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

void load_settled(struct load_oncpu *l, uint64_t until_ns)
{
	__atomic_store_n(&load_control(l)->watermark_ns, until_ns, __ATOMIC_RELEASE);
}

/* ---- ring ------------------------------------------------------------------------------------ */

int load_ring_drain(struct load_oncpu *l, load_ring_fn stack, load_ring_fn copy, void *arg)
{
	l->ring_fn = stack;
	l->copy_fn = copy;
	l->ring_arg = arg;
	return ring_buffer__consume(l->ring);
}

int load_ring_fd(const struct load_oncpu *l)
{
	return ring_buffer__epoll_fd(l->ring);
}

/* ---- counts ---------------------------------------------------------------------------------- */

void load_wait_for_programs(void)
{
	struct timespec ts = {.tv_sec = 0, .tv_nsec = 100 * 1000 * 1000};

	if (syscall(SYS_membarrier, MEMBARRIER_CMD_GLOBAL, 0, 0) == 0)
		return;
	/* Not there on kernels with nohz_full CPUs: a program runs for microseconds with interrupts
	 * off, 100 ms is longer than any of them. */
	(void)nanosleep(&ts, NULL);
}

int load_batch_init(struct load_batch *b, size_t key_size, size_t val_size)
{
	b->keys = calloc(LOAD_BATCH, key_size);
	b->vals = calloc(LOAD_BATCH, val_size);
	return b->keys && b->vals ? 0 : -ENOMEM;
}

void load_batch_done(struct load_batch *b)
{
	free(b->keys);
	free(b->vals);
	*b = (struct load_batch){0};
}

int load_batch_take(int fd, bool clear, struct load_batch *b, size_t key_size, size_t val_size,
                    load_entry_fn fn, void *arg)
{
	uint64_t in = 0, out = 0; /* opaque position; wide enough for hash maps' u32 */
	bool more = true, first = true;
	int total = 0;

	while (more) {
		uint32_t n = LOAD_BATCH;
		void *from = first ? NULL : &in;
		int r = clear ? bpf_map_lookup_and_delete_batch(fd, from, &out, b->keys, b->vals,
		                                                &n, NULL)
		              : bpf_map_lookup_batch(fd, from, &out, b->keys, b->vals, &n, NULL);

		if (r < 0 && r != -ENOENT)
			return r;
		more = r == 0; /* -ENOENT: the end, with n entries before it */
		for (uint32_t i = 0; i < n; i++)
			fn(arg, (const char *)b->keys + i * key_size,
			   (const char *)b->vals + i * val_size);
		total += (int)n;
		in = out;
		first = false;
	}
	return total;
}

struct counts_arg {
	load_count_fn fn;
	void *arg;
};

static void on_count(void *arg, const void *key, const void *val)
{
	const struct counts_arg *a = arg;

	a->fn(a->arg, key, val);
}

/* Hands on and deletes everything in one table that nobody writes. */
static int take_table(struct load_oncpu *l, int fd, load_count_fn fn, void *arg)
{
	struct counts_arg a = {.fn = fn, .arg = arg};

	return load_batch_take(fd, true, &l->batch, sizeof(struct abi_count_key),
	                       sizeof(struct abi_count), on_count, &a);
}

int load_counts_take(struct load_oncpu *l, load_count_fn fn, void *arg)
{
	volatile struct abi_control *ctl = load_control(l);
	uint32_t idle = ctl->active & 1; /* becomes idle */

	ctl->active = idle ^ 1;
	load_wait_for_programs();
	return take_table(l, bpf_map__fd(idle ? l->skel->maps.counts_b : l->skel->maps.counts_a),
	                  fn, arg);
}

int load_counts_take_final(struct load_oncpu *l, load_count_fn fn, void *arg)
{
	int a, b;

	load_wait_for_programs();
	a = take_table(l, bpf_map__fd(l->skel->maps.counts_a), fn, arg);
	b = take_table(l, bpf_map__fd(l->skel->maps.counts_b), fn, arg);
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

int load_threads_take(struct load_oncpu *l, bool clear, load_thread_fn fn, void *arg)
{
	struct threads_arg a = {.fn = fn, .arg = arg};

	return load_batch_take(bpf_map__fd(l->skel->maps.threads), clear, &l->batch,
	                       sizeof(struct abi_thread_key), sizeof(struct abi_thread), on_thread,
	                       &a);
}

/* ---- figures --------------------------------------------------------------------------------- */

int load_counters_sum(int fd, struct abi_counters *per_cpu, int n_cpus, struct abi_counters *ret)
{
	uint32_t zero = 0;
	int r = bpf_map_lookup_elem(fd, &zero, per_cpu);

	if (r < 0)
		return r;
	memset(ret, 0, sizeof(*ret));
	for (int cpu = 0; cpu < n_cpus; cpu++)
		for (int i = 0; i < ABI_CNT_MAX; i++)
			ret->v[i] += per_cpu[cpu].v[i];
	return 0;
}

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

uint64_t load_memlock_of(int fd)
{
	struct sbuf b;
	struct cursor c;
	char path[64];
	const char *line;
	size_t len;
	uint64_t v = 0;

	sbuf_init(&b, 4096);
	(void)snprintf(path, sizeof(path), "/proc/self/fdinfo/%d", fd);
	if (file_read_all(AT_FDCWD, path, &b, NULL) == 0) {
		c = cursor_of(b.p, b.len);
		while (cursor_line(&c, &line, &len) == 0) {
			char num[32];

			if (len <= 8 || memcmp(line, "memlock:", 8) != 0)
				continue;
			line += 8;
			len -= 8;
			while (len && (*line == '\t' || *line == ' ')) {
				line++;
				len--;
			}
			if (len < sizeof(num)) {
				memcpy(num, line, len);
				num[len] = 0;
				(void)parse_u64(num, 10, &v); /* stays 0: the figure is left out */
			}
		}
	}
	sbuf_done(&b);
	return v;
}

uint64_t load_locked_bytes(const struct load_oncpu *l)
{
	struct bpf_map *m;
	uint64_t sum = 0;

	bpf_object__for_each_map (m, l->skel->obj) {
		if (bpf_map__fd(m) >= 0)
			sum += load_memlock_of(bpf_map__fd(m));
	}
	/* Their descriptors are closed. */
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
