/* SPDX-License-Identifier: Apache-2.0 */
/* The parts that all BPF objects are loaded, attached and read with. Calls no other file here. */
#include "loader/load_priv.h"

#include <fcntl.h>
#include <linux/membarrier.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>

#include "bpf/oncpu_skel.h"

/* ---- maps ------------------------------------------------------------------------------------ */

int load_size_maps(bool preallocate, const struct load_sized *maps, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		int r = bpf_map__set_max_entries(maps[i].map, maps[i].n);

		if (r == 0 && maps[i].hash && preallocate)
			r = bpf_map__set_map_flags(maps[i].map, 0);
		if (r < 0)
			return r;
	}
	return 0;
}

static bool is_own(const struct bpf_map *m, const struct load_own *own)
{
	for (size_t i = 0; i < own->n; i++)
		if (m == own->maps[i])
			return true;
	return false;
}

int load_share_maps(const struct load_oncpu *base, struct bpf_object *obj,
                    const struct bpf_map *bss, const struct load_own *own)
{
	struct bpf_map *m, *of;
	int r = 0;

	bpf_object__for_each_map (m, obj) {
		if (is_own(m, own))
			continue;
		of = m == bss ? base->skel->maps.bss
		              : bpf_object__find_map_by_name(base->skel->obj, bpf_map__name(m));
		if (!of)
			return -ENOENT; /* a bug: test-live-load loads it */
		r = bpf_map__reuse_fd(m, bpf_map__fd(of));
		if (r < 0)
			return r;
	}
	return 0;
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
				(void)parse_u64(num, 10, &v); /* stays 0 if it is no number */
			}
		}
	}
	sbuf_done(&b);
	return v;
}

uint64_t load_own_bytes(const struct load_own *own)
{
	uint64_t sum = 0;

	for (size_t i = 0; i < own->n; i++)
		sum += load_memlock_of(bpf_map__fd(own->maps[i]));
	return sum;
}

/* ---- programs -------------------------------------------------------------------------------- */

int load_attach_tracepoint(struct load_links *links, const struct bpf_program *p, struct err *err)
{
	int link = bpf_raw_tracepoint_open(NULL, bpf_program__fd(p)), r;

	if (link < 0)
		return err_set(err, link, "bpf(BPF_RAW_TRACEPOINT_OPEN) of %s: %s",
		               bpf_program__section_name(p), err_name(link));
	r = vec_push(&links->v, link);
	if (r < 0) {
		(void)close(link);
		return err_set(err, r, "attach: %s", err_name(r));
	}
	return 0;
}

void load_close_links(struct load_links *links, size_t first)
{
	for (size_t i = first; i < links->v.n; i++)
		(void)close(links->v.p[i]); /* nothing is written through a link */
	links->v.n = first;
}

int load_iterate(const struct bpf_program *p, int *link_fd)
{
	if (*link_fd < 0) {
		int link = bpf_link_create(bpf_program__fd(p), 0, BPF_TRACE_ITER, NULL);

		if (link < 0)
			return link;
		*link_fd = link;
	}
	return bpf_iter_create(*link_fd);
}

int load_iterate_through(int fd)
{
	char buf[64];
	ssize_t n;

	do {
		n = read(fd, buf, sizeof(buf));
	} while (n > 0 || (n < 0 && (errno == EINTR || errno == EAGAIN)));
	return n < 0 ? -errno : 0;
}

void load_wait_for_programs(void)
{
	struct timespec ts = {.tv_sec = 0, .tv_nsec = 100 * 1000 * 1000};

	if (syscall(SYS_membarrier, MEMBARRIER_CMD_GLOBAL, 0, 0) == 0)
		return;
	/* Kernels with nohz_full CPUs refuse it: a program runs for microseconds with interrupts
	 * off, 100 ms is longer than any of them. */
	(void)nanosleep(&ts, NULL);
}

/* ---- reading maps ---------------------------------------------------------------------------- */

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

int load_batch_read(int fd, bool clear, struct load_batch *b, size_t key_size, size_t val_size,
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
