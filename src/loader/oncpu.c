/* SPDX-License-Identifier: Apache-2.0 */
#include "loader/load_priv.h"

#include <linux/perf_event.h>
#include <sys/ioctl.h>
#include <sys/mman.h>

#include "bpf/oncpu_skel.h"

static int set_entries(struct bpf_map *m, uint32_t n)
{
	return bpf_map__set_max_entries(m, n);
}

static int size_maps(struct oncpu_bpf *skel, const struct load_sizes *z, bool preallocate)
{
	struct {
		struct bpf_map *map;
		uint32_t n;
		bool hash;
	} maps[] = {
	        {skel->maps.ring, z->ring_bytes, false},
	        {skel->maps.counts_a, z->count_entries, true},
	        {skel->maps.counts_b, z->count_entries, true},
	        {skel->maps.threads, z->thread_entries, true},
	        {skel->maps.procs, z->proc_entries, true},
	        {skel->maps.followed, z->followed_entries, true},
	        {skel->maps.ranges, z->range_entries, false},
	        {skel->maps.shipped, z->shipped_entries, false},
	        {skel->maps.images, MAX_OF(z->image_entries, 1U), false},
	        {skel->maps.copies, MAX_OF(z->copy_ring_bytes, (uint32_t)sysconf(_SC_PAGESIZE)),
	         false},
	};
	struct bpf_map *tables[] = {skel->maps.rules, skel->maps.wides, skel->maps.ops,
	                            skel->maps.pc_cache, skel->maps.quotas};

	for (size_t i = 0; i < ARRAY_SIZE(maps); i++) {
		int r = set_entries(maps[i].map, maps[i].n);

		if (r == 0 && maps[i].hash && preallocate)
			r = bpf_map__set_map_flags(maps[i].map, 0);
		if (r < 0)
			return r;
	}
	/* Frame pointers need none of them. */
	for (size_t i = 0; i < ARRAY_SIZE(tables) && !z->image_entries; i++) {
		int r = set_entries(tables[i], 1);

		if (r < 0)
			return r;
	}
	return 0;
}

static int open_and_load(const struct abi_config *cfg, const struct load_sizes *z, bool preallocate,
                         struct oncpu_bpf **ret, struct err *err)
{
	struct oncpu_bpf *skel;
	struct load_log log;
	int r;

	load_log_begin(&log);
	skel = oncpu_bpf__open();
	if (!skel) {
		r = load_explain(&log, -errno, "bpf object open", err);
		goto out;
	}
	memcpy(&skel->rodata->cfg, cfg, sizeof(*cfg));
	skel->rodata->cfg.shipped_mask = z->shipped_entries - 1;
	skel->rodata->cfg.ring_wake_bytes = z->ring_bytes / 2;
	skel->rodata->cfg.copy_wake_bytes = z->copy_ring_bytes / 4 * 3;
	if (cfg->target != ABI_TARGET_TREE) {
		bpf_program__set_autoload(skel->progs.follow_fork, false);
		bpf_program__set_autoload(skel->progs.follow_free, false);
	}
	r = size_maps(skel, z, preallocate);
	if (r == 0)
		r = oncpu_bpf__load(skel);
	if (r < 0) {
		r = load_explain(&log, r, "bpf(BPF_PROG_LOAD) of the sampling program", err);
		oncpu_bpf__destroy(skel);
		goto out;
	}
	*ret = skel;
out:
	load_log_end(&log);
	return r;
}

static int map_ranges(struct load_oncpu *l, struct err *err)
{
	size_t bytes = (size_t)l->sizes.range_entries * sizeof(struct abi_range);
	size_t page = (size_t)sysconf(_SC_PAGESIZE);
	void *p;

	bytes = (bytes + page - 1) & ~(page - 1);
	p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, bpf_map__fd(l->skel->maps.ranges),
	         0);
	if (p == MAP_FAILED)
		return err_set(err, -errno, "mmap of the BPF process map: %s", err_name(errno));
	l->ranges = p;
	l->ranges_bytes = bytes;
	return 0;
}

static int on_ring(void *arg, void *data, size_t len)
{
	struct load_oncpu *l = arg;

	l->ring_fn(l->ring_arg, data, len);
	return 0;
}

static int on_copy(void *arg, void *data, size_t len)
{
	struct load_oncpu *l = arg;

	l->copy_fn(l->ring_arg, data, len);
	return 0;
}

int load_oncpu_open(const struct abi_config *cfg, const struct load_sizes *sizes,
                    struct load_oncpu **ret, struct err *err)
{
	_cleanup_(load_oncpu_freep) struct load_oncpu *l = NULL;
	struct err first = {0};
	int r;

	l = calloc(1, sizeof(*l));
	if (!l)
		return err_set(err, -ENOMEM, "out of memory");
	l->iter_link_fd = -EBADF;
	l->links.max = 65536;
	l->sizes = *sizes;

	r = open_and_load(cfg, sizes, false, &l->skel, &first);
	/* Before 6.1 a perf_event program may use preallocated hash maps only: -EINVAL. */
	if (r == -EINVAL)
		r = open_and_load(cfg, sizes, true, &l->skel, NULL);
	if (r < 0)
		return err_set(err, first.code, "%s", first.msg);
	assert(l->skel);

	r = map_ranges(l, err);
	if (r == 0)
		r = load_tables_map(l, err);
	if (r < 0)
		return r;
	l->ring = ring_buffer__new(bpf_map__fd(l->skel->maps.ring), on_ring, l, NULL);
	if (!l->ring)
		return err_set(err, -errno, "mmap of the BPF ring: %s", err_name(errno));
	r = ring_buffer__add(l->ring, bpf_map__fd(l->skel->maps.copies), on_copy, l);
	if (r < 0)
		return err_set(err, r, "mmap of the BPF ring of copies: %s", err_name(r));
	l->n_cpus = libbpf_num_possible_cpus();
	if (l->n_cpus < 0)
		return err_set(err, l->n_cpus, "/sys/devices/system/cpu/possible: %s",
		               err_name(l->n_cpus));
	l->keys = calloc(LOAD_BATCH, sizeof(*l->keys));
	l->vals = calloc(LOAD_BATCH, sizeof(*l->vals));
	l->tkeys = calloc(LOAD_BATCH, sizeof(*l->tkeys));
	l->threads = calloc(LOAD_BATCH, sizeof(*l->threads));
	l->per_cpu = calloc((size_t)l->n_cpus, sizeof(*l->per_cpu));
	if (!l->keys || !l->vals || !l->tkeys || !l->threads || !l->per_cpu)
		return err_set(err, -ENOMEM, "out of memory");

	*ret = TAKE_PTR(l);
	return 0;
}

struct load_oncpu *load_oncpu_free(struct load_oncpu *l)
{
	if (!l)
		return NULL;
	load_oncpu_detach(l);
	closep(&l->iter_link_fd);
	if (l->ring)
		ring_buffer__free(l->ring);
	if (l->ranges)
		munmap(l->ranges, l->ranges_bytes);
	load_tables_unmap(l);
	oncpu_bpf__destroy(l->skel);
	free(l->keys);
	free(l->vals);
	free(l->tkeys);
	free(l->threads);
	free(l->per_cpu);
	vec_done(&l->links);
	free(l);
	return NULL;
}

void load_oncpu_freep(struct load_oncpu **l)
{
	*l = load_oncpu_free(*l);
}

int load_oncpu_attach(struct load_oncpu *l, int perf_fd, struct err *err)
{
	int prog = bpf_program__fd(l->skel->progs.oncpu_sample), link, r;

	r = vec_reserve(&l->links, 1);
	if (r < 0)
		return err_set(err, r, "attach: %s", err_name(r));
	link = bpf_link_create(prog, perf_fd, BPF_PERF_EVENT, NULL);
	if (link >= 0)
		return vec_push(&l->links, link);
	/* Links to perf events came with 5.15; before that the kernel knows no such attach type. */
	if (link == -EINVAL && ioctl(perf_fd, PERF_EVENT_IOC_SET_BPF, prog) == 0)
		return 0;
	return err_set(err, link, "bpf(BPF_LINK_CREATE) to a perf event: %s", err_name(link));
}

struct find_task {
	uint32_t tgid;
	bool found;
	struct abi_task task;
};

static void find_task(void *arg, const struct abi_task *t)
{
	struct find_task *f = arg;

	if (t->tgid == f->tgid) {
		f->task = *t;
		f->found = true;
	}
}

static void close_links_from(struct load_oncpu *l, size_t first)
{
	for (size_t i = first; i < l->links.n; i++)
		(void)close(l->links.p[i]); /* nothing is written through a link */
	l->links.n = first;
}

int load_target(struct load_oncpu *l, uint32_t tgid)
{
	struct find_task f = {.tgid = tgid};
	int r = load_tasks(l, find_task, &f);

	if (r < 0)
		return r;
	if (!f.found)
		return -ESRCH;
	load_control(l)->target_start_ns = f.task.start_ns;
	return 0;
}

int load_follow(struct load_oncpu *l, uint32_t tgid, struct err *err)
{
	struct bpf_program *progs[] = {l->skel->progs.follow_fork, l->skel->progs.follow_free};
	struct find_task f = {.tgid = tgid};
	size_t before = l->links.n;
	int r;

	for (size_t i = 0; i < ARRAY_SIZE(progs); i++) {
		int link = bpf_raw_tracepoint_open(NULL, bpf_program__fd(progs[i]));

		if (link < 0) {
			r = err_set(err, link, "bpf(BPF_RAW_TRACEPOINT_OPEN) of %s: %s",
			            bpf_program__name(progs[i]), err_name(link));
			goto out;
		}
		r = vec_push(&l->links, link);
		if (r < 0) {
			(void)close(link);
			r = err_set(err, r, "attach: %s", err_name(r));
			goto out;
		}
	}
	r = load_tasks(l, find_task, &f);
	if (r == 0)
		r = f.found ? bpf_map_update_elem(bpf_map__fd(l->skel->maps.followed),
		                                  &f.task.kernel_tgid, &f.task.start_ns, BPF_ANY)
		            : -ESRCH;
	if (r < 0)
		r = err_set(err, r, "process %u: %s", tgid, err_name(r));
out:
	/* On 5.10 and 6.1 a program that is attached cannot be attached once more: EEXIST. */
	if (r < 0)
		close_links_from(l, before);
	return r;
}

void load_oncpu_detach(struct load_oncpu *l)
{
	close_links_from(l, 0);
}

struct abi_control *load_control(struct load_oncpu *l)
{
	return &l->skel->bss->ctl;
}
