/* SPDX-License-Identifier: Apache-2.0 */
/* The object with the shared maps and the sampling program: load, attach, detach. */
#include "loader/load_priv.h"

#include <linux/perf_event.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <sys/mman.h>

#include "bpf/oncpu_skel.h"

/* Processes with dirty ranges at a time, where the kernel wants tables preallocated: each element
 * takes memory from the start. */
#define DIRTY_PREALLOCATED 1024U

/* How the object is loaded. */
struct how {
	bool preallocate; /* hash maps */
	bool hook;        /* with the program that reports mappings */
};

static int size_maps(struct oncpu_bpf *skel, const struct load_sizes *z, struct how how)
{
	const uint32_t n_cgroups = skel->rodata->cfg.n_cgroups;
	const uint32_t n_name_sets = skel->rodata->cfg.n_name_sets;
	uint32_t cpu_times = skel->rodata->cfg.cpu_time ? z->thread_entries : 1;
	uint32_t dirty = how.hook ? z->proc_entries : 1;

	const struct load_sized maps[] = {
	        {skel->maps.stack_ring, z->ring_bytes, false},
	        {skel->maps.counts_a, z->count_entries, true},
	        {skel->maps.counts_b, z->count_entries, true},
	        {skel->maps.threads, z->thread_entries, true},
	        {skel->maps.cpu_times, cpu_times, true},
	        {skel->maps.procs, z->proc_entries, true},
	        {skel->maps.dirty_ranges,
	         how.preallocate ? MIN_OF(dirty, DIRTY_PREALLOCATED) : dirty, true},
	        {skel->maps.followed, z->followed_entries, true},
	        {skel->maps.tids, MAX_OF(z->tid_entries, 1U), false},
	        {skel->maps.comms, MAX_OF(z->comm_entries, 1U), false},
	        {skel->maps.name_sets, MAX_OF(n_name_sets, 1U), false},
	        {skel->maps.cgroups, MAX_OF(n_cgroups, 1U), false},
	        {skel->maps.cgroup_ids, MAX_OF(n_cgroups, 1U), false},
	        {skel->maps.ranges, z->range_entries, false},
	        {skel->maps.shipped, z->shipped_entries, false},
	        {skel->maps.images, MAX_OF(z->image_entries, 1U), false},
	        {skel->maps.deferred_ring,
	         MAX_OF(z->deferred_ring_bytes, (uint32_t)sysconf(_SC_PAGESIZE)), false},
	};
	struct bpf_map *tables[] = {skel->maps.rules, skel->maps.wides, skel->maps.ops,
	                            skel->maps.pc_cache, skel->maps.quotas};
	int r = load_size_maps(how.preallocate, maps, ARRAY_SIZE(maps));

	/* Frame pointers need none of them. */
	for (size_t i = 0; i < ARRAY_SIZE(tables) && !z->image_entries && r == 0; i++)
		r = bpf_map__set_max_entries(tables[i], 1);
	return r;
}

static int open_and_load(const struct abi_config *cfg, const struct load_sizes *z, struct how how,
                         struct oncpu_bpf **ret, struct err *err)
{
	struct bpf_object_open_opts opts;
	struct oncpu_bpf *skel = NULL;
	struct load_object o;
	int r = load_object_begin(&o, &opts);

	if (r == 0) {
		skel = oncpu_bpf__open_opts(&opts);
		r = skel ? load_object_resolve(&o, skel->obj) : -errno;
	}
	if (r < 0) {
		r = load_explain(&o.log, r, "bpf object open", err);
		oncpu_bpf__destroy(skel);
		goto out;
	}
	assert(skel);
	memcpy(&skel->rodata->cfg, cfg, sizeof(*cfg));
	skel->rodata->cfg.page_shift =
	        (uint32_t)__builtin_ctzl((unsigned long)sysconf(_SC_PAGESIZE));
	skel->rodata->cfg.shipped_mask = z->shipped_entries - 1;
	skel->rodata->cfg.ring_wake_bytes = z->ring_bytes / 2;
	skel->rodata->cfg.deferred_wake_bytes = z->deferred_ring_bytes / 4 * 3;
	if (!cfg->follow) {
		bpf_program__set_autoload(skel->progs.follow_fork, false);
		bpf_program__set_autoload(skel->progs.follow_free, false);
	}
	bpf_program__set_autoload(skel->progs.cpu_time_switch, cfg->cpu_time);
	bpf_program__set_autoload(skel->progs.cpu_time_mark, cfg->cpu_time);
	bpf_program__set_autoload(skel->progs.record_mapping, how.hook);
	bpf_program__set_autoload(skel->progs.oncpu_sample, !z->no_sample);
	r = size_maps(skel, z, how);
	if (r == 0)
		r = oncpu_bpf__load(skel);
	if (r < 0) {
		char what[128];

		(void)snprintf(what, sizeof(what), "bpf(BPF_PROG_LOAD) of the %s",
		               z->programs ? z->programs : "sampling program");
		r = load_explain(&o.log, r, what, err);
		oncpu_bpf__destroy(skel);
		goto out;
	}
	*ret = skel;
out:
	load_object_end(&o);
	return r;
}

static int load_either_way(struct load_oncpu *l, const struct abi_config *cfg, bool hook,
                           struct err *err)
{
	struct how how = {.hook = hook};
	struct err first = {0};
	int r = open_and_load(cfg, &l->sizes, how, &l->skel, &first);

	/* Before 6.1 a perf_event program may use preallocated hash maps only: -EINVAL. */
	if (r == -EINVAL) {
		how.preallocate = true;
		if (open_and_load(cfg, &l->sizes, how, &l->skel, NULL) == 0)
			r = 0; /* else the first refusal is the reason */
	}
	l->preallocated = how.preallocate;
	if (r < 0 && err)
		*err = first;
	return r;
}

/* Returns false where the kernel refuses programs at kernel functions, or has no trampolines. The
 * probe is a program that is wrong otherwise: finding the right BTF id for it takes 15 ms. */
static bool may_hook(void)
{
	const struct bpf_insn empty[] = {
	        {.code = BPF_ALU64 | BPF_MOV | BPF_K, .dst_reg = BPF_REG_0},
	        {.code = BPF_JMP | BPF_EXIT},
	};
	struct bpf_prog_load_opts o = {
	        .sz = sizeof(o),
	        .expected_attach_type = BPF_TRACE_FEXIT,
	        .attach_btf_id = 1, /* a type that is no function */
	};
	int fd = bpf_prog_load(BPF_PROG_TYPE_TRACING, "probe", "GPL", empty, ARRAY_SIZE(empty), &o);

	if (fd >= 0)
		(void)close(fd); /* cannot happen */
	return fd != -EPERM;
}

/* From here on the kernel side adds dirty ranges. Without it records alone report mappings: on a
 * kernel without trampolines (arm64 before 6.4), without ftrace, or that refuses. */
static void attach_hook(struct load_oncpu *l)
{
	int link = bpf_raw_tracepoint_open(NULL, bpf_program__fd(l->skel->progs.record_mapping));

	if (link >= 0)
		l->hook_link_fd = link;
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

static int on_stack(void *arg, void *data, size_t len)
{
	struct load_oncpu *l = arg;

	l->stack_fn(l->ring_arg, data, len);
	return 0;
}

static int on_deferred(void *arg, void *data, size_t len)
{
	struct load_oncpu *l = arg;

	l->deferred_fn(l->ring_arg, data, len);
	return 0;
}

int load_oncpu_open(const struct abi_config *cfg, const struct load_sizes *sizes,
                    struct load_oncpu **ret, struct err *err)
{
	_cleanup_(load_oncpu_freep) struct load_oncpu *l = NULL;
	struct err first = {0};
	bool hook = !sizes->no_walk && may_hook();
	int r;

	l = calloc(1, sizeof(*l));
	if (!l)
		return err_set(err, -ENOMEM, "out of memory");
	l->iter_link_fd = l->hook_link_fd = -EBADF;
	l->links.v.max = 65536;
	l->sizes = *sizes;

	r = load_either_way(l, cfg, hook, &first);
	if (r < 0 && hook) {
		hook = false;
		r = load_either_way(l, cfg, hook, &first);
	}
	if (r < 0)
		return err_copy(err, &first);
	assert(l->skel);

	r = map_ranges(l, err);
	if (r == 0)
		r = load_tables_map(l, err);
	if (r < 0)
		return r;
	l->ring = ring_buffer__new(bpf_map__fd(l->skel->maps.stack_ring), on_stack, l, NULL);
	if (!l->ring)
		return err_set(err, -errno, "mmap of the BPF ring: %s", err_name(errno));
	r = ring_buffer__add(l->ring, bpf_map__fd(l->skel->maps.deferred_ring), on_deferred, l);
	if (r < 0)
		return err_set(err, r, "mmap of the BPF ring of deferred samples: %s", err_name(r));
	l->n_cpus = libbpf_num_possible_cpus();
	if (l->n_cpus < 0)
		return err_set(err, l->n_cpus, "/sys/devices/system/cpu/possible: %s",
		               err_name(l->n_cpus));
	l->per_cpu = calloc((size_t)l->n_cpus, sizeof(*l->per_cpu));
	if (load_batch_init(&l->batch, LOAD_KEY_MAX, LOAD_VAL_MAX) < 0 || !l->per_cpu)
		return err_set(err, -ENOMEM, "out of memory");

	if (hook)
		attach_hook(l);
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
	load_batch_done(&l->batch);
	free(l->per_cpu);
	vec_done(&l->links.v);
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

	r = vec_reserve(&l->links.v, 1);
	if (r < 0)
		return err_set(err, r, "attach: %s", err_name(r));
	link = bpf_link_create(prog, perf_fd, BPF_PERF_EVENT, NULL);
	if (link >= 0)
		return vec_push(&l->links.v, link);
	/* Links to perf events came with 5.15; before that the kernel knows no such attach type. */
	if (link == -EINVAL && ioctl(perf_fd, PERF_EVENT_IOC_SET_BPF, prog) == 0)
		return 0;
	return err_set(err, link, "bpf(BPF_LINK_CREATE) to a perf event: %s", err_name(link));
}

void load_oncpu_detach(struct load_oncpu *l)
{
	load_close_links(&l->links, 0);
	closep(&l->hook_link_fd);
}

bool load_hooked(const struct load_oncpu *l)
{
	return l->hook_link_fd >= 0;
}

struct abi_control *load_control(struct load_oncpu *l)
{
	return &l->skel->bss->ctl;
}
