// SPDX-License-Identifier: Apache-2.0
#include "stack_capture.h"

#include <poll.h>
#include <stdio.h>
#include <sys/random.h>
#include <unistd.h>

#define IMAGES_MAX 4096

static void on_stack(void *arg, const struct ev_stack *s)
{
	struct cap *c = arg;
	struct cap_stack k = {.hash = s->hash, .walk = s->walk, .flags = s->flags, .n = s->n};

	if (s->kernel)
		return;
	k.frames = calloc(s->n ? s->n : 1, sizeof(*k.frames));
	if (!k.frames)
		return;
	memcpy(k.frames, s->frames, s->n * sizeof(*k.frames));
	if (vec_push(&c->stacks, k) < 0)
		free(k.frames);
}

static void on_deferred(void *arg, const struct ev_deferred *e)
{
	struct cap *c = arg;
	struct cap_copy k = {.hash = e->count.ustack,
	                     .tid = e->count.tid,
	                     .pc = e->pc,
	                     .in_syscall = e->in_syscall,
	                     .addr = e->addr,
	                     .len = e->len};

	if (c->copies.n >= c->o.max_copies)
		return;
	/* Up to the first hole. */
	if (e->holes)
		k.len = MIN_OF(k.len, (uint32_t)__builtin_ctz(e->holes) * EV_DEFERRED_STEP);
	memcpy(k.reg, e->reg, sizeof(k.reg));
	k.bytes = malloc(k.len ? k.len : 1);
	if (!k.bytes)
		return;
	memcpy(k.bytes, e->bytes, k.len);
	if (vec_push(&c->copies, k) < 0)
		free(k.bytes);
}

static void on_count(void *arg, const struct ev_count *e)
{
	(void)arg;
	(void)e;
}

static void on_thread(void *arg, const struct ev_thread *e)
{
	(void)arg;
	(void)e;
}

static void on_proc(void *arg, const struct ev_proc *ev)
{
	struct cap *c = arg;

	if (ev->pid == c->o.pid || ev->type == EV_PROC_LOST)
		trk_event(c->trk, ev);
}

static struct smp_sink sink_of(struct cap *c)
{
	return (struct smp_sink){.stack = on_stack,
	                         .count = on_count,
	                         .thread = on_thread,
	                         .deferred = on_deferred,
	                         .arg = c};
}

/* The table of one image, or that there is none. */
static void install(struct cap *c, uint32_t id)
{
	const struct trk_image *img = trk_image(c->trk, id);
	_cleanup_(uw_table_freep) struct uw_table *t = NULL;
	_cleanup_(img_file_freep) struct img_file *f = NULL;
	bool own = false;
	int fd = -EBADF;

	if (img->mem) {
		(void)img_file_open_mem(img->mem, img->mem_len, &f, NULL);
	} else {
		fd = trk_image_fd(c->trk, id, &own);
		if (fd >= 0)
			(void)img_file_open(fd, &f, NULL);
	}
	if (f)
		(void)uw_table_build(f, c->rules, NULL, &t, NULL, NULL);
	/* Without a table the walk uses heuristics, as in the product. */
	if (uw_store_install(c->store, id, t) < 0 || !t)
		c->no_table++;
	f = img_file_free(f);
	if (own)
		close(fd);
}

static void install_new(struct cap *c)
{
	while (c->tables < trk_image_cnt(c->trk))
		install(c, ++c->tables);
}

static int open_sampler(struct cap *c, struct err *err)
{
	struct smp_oncpu_options o = {.spec = pev_spec_cpu_clock(c->o.rate_hz)};
	struct abi_config cfg;
	struct load_sizes sizes;
	uint64_t dev, ino;
	bool initial = true;
	int r = proc_self_pidns(&dev, &ino, &initial);

	if (r < 0)
		return err_set(err, r, "/proc/self/ns/pid: %s", err_name(r));
	cfg = (struct abi_config){
	        .target = ABI_TARGET_PID,
	        .target_tgid = c->o.pid,
	        .nested_ns = !initial,
	        .pidns_ino = (uint32_t)ino,
	        .max_kframes = ABI_MAX_KERNEL_FRAMES,
	        .unwind = c->o.frame_pointers ? ABI_UNWIND_FP : ABI_UNWIND_TABLES,
	        .walk_flags = c->o.walk_flags,
	        .deferred_quota = 32,
	};
	if (getrandom(&cfg.hash_seed, sizeof(cfg.hash_seed), 0) != sizeof(cfg.hash_seed))
		return err_set(err, -EIO, "getrandom: %s", err_name(errno));
	sizes = (struct load_sizes){
	        .ring_bytes = 1 << 20,
	        .count_entries = 16384,
	        .thread_entries = 1024,
	        .range_entries = 16384,
	        .proc_entries = 64,
	        .shipped_entries = 16384,
	        .followed_entries = 1,
	        .image_entries = IMAGES_MAX,
	        .deferred_ring_bytes = 4 << 20,
	};
	r = smp_walker_open(&cfg, &sizes, &c->walker, err);
	if (r < 0)
		return r;
	r = smp_oncpu_open(c->walker, &o, &c->oncpu);
	if (r < 0)
		return err_set(err, r, "out of memory");
	(void)load_target(smp_walker_loader(c->walker),
	                  c->o.pid); /* else its number alone has to do */
	return 0;
}

static int open_tables(struct cap *c, struct err *err)
{
	struct uw_rules_mem mem;
	struct uw_backing backing;
	int r = load_tables(smp_walker_loader(c->walker), &mem, &backing);

	mem.no_inline = c->o.no_inline;
	if (r == 0)
		r = uw_rules_new(&mem, &c->rules);
	if (r == 0)
		r = uw_store_new(&backing, 0, &c->store);
	return r < 0 ? err_set(err, r, "tables: %s", err_name(r)) : 0;
}

static int start(struct cap *c, struct err *err)
{
	uint32_t cpus[PEV_CPUS_MAX / 4];
	struct trk_options to = {.target_pids = &c->o.pid, .n_target_pids = c->o.pid != 0};
	int n, r = open_sampler(c, err);

	if (r == 0)
		r = open_tables(c, err);
	if (r < 0)
		return r;
	n = proc_online_cpus(cpus, ARRAY_SIZE(cpus), err);
	if (n < 0)
		return n;
	r = pev_sideband_open(cpus, (uint32_t)n, 32, &c->sideband, err);
	if (r < 0)
		return r;
	to.loader = smp_walker_loader(c->walker);
	r = trk_new(&to, &c->trk, err);
	if (r == 0)
		r = trk_scan(c->trk, err);
	if (r < 0)
		return r;
	trk_flush(c->trk);
	install_new(c);
	return smp_oncpu_start(c->oncpu, cpus, (uint32_t)n, err);
}

int cap_start(const struct cap_options *o, struct cap **ret, struct err *err)
{
	struct cap *c = calloc(1, sizeof(*c));
	int r;

	if (!c)
		return err_set(err, -ENOMEM, "out of memory");
	c->o = *o;
	c->stacks.max = c->copies.max = 1 << 20;
	r = start(c, err);
	if (r < 0) {
		cap_free(c);
		return r;
	}
	*ret = c;
	return 0;
}

static void side(struct cap *c, bool final)
{
	(void)pev_sideband_read(c->sideband, final, on_proc, c);
	trk_flush(c->trk);
	install_new(c);
}

int cap_run(struct cap *c, uint32_t ms)
{
	const struct smp_sink sink = sink_of(c);
	uint64_t end = now_ns() + ms * 1000000ULL;

	while (now_ns() < end) {
		struct pollfd p = {.fd = smp_walker_poll_fd(c->walker), .events = POLLIN};
		int r;

		(void)poll(&p, 1, 20);
		side(c, false);
		r = smp_walker_drain(c->walker, &sink);
		if (r == 0)
			r = smp_oncpu_drain(c->oncpu, &sink);
		if (r < 0)
			return r;
		if (c->o.max_copies && c->copies.n >= c->o.max_copies)
			break;
	}
	return 0;
}

int cap_finish(struct cap *c)
{
	const struct smp_sink sink = sink_of(c);
	int r = smp_oncpu_finish(c->oncpu, &sink);

	if (r == 0)
		r = smp_walker_finish(c->walker, &sink);

	side(c, true);
	return r;
}

const struct cap_stack *cap_stack(const struct cap *c, uint64_t hash)
{
	for (size_t i = 0; i < c->stacks.n; i++)
		if (c->stacks.p[i].hash == hash)
			return &c->stacks.p[i];
	return NULL;
}

uint64_t cap_counter(const struct cap *c, enum abi_counter id)
{
	struct abi_counters v;

	if (load_counters(smp_walker_loader(c->walker), &v) < 0) {
		fprintf(stderr, "stack_capture: counters cannot be read\n");
		exit(1);
	}
	return v.v[id];
}

struct cap *cap_free(struct cap *c)
{
	if (!c)
		return NULL;
	vec_each (s, &c->stacks)
		free(s->frames);
	vec_each (k, &c->copies)
		free(k->bytes);
	vec_done(&c->stacks);
	vec_done(&c->copies);
	c->trk = trk_free(c->trk);
	c->sideband = pev_sideband_free(c->sideband);
	c->store = uw_store_free(c->store);
	c->rules = uw_rules_free(c->rules);
	c->oncpu = smp_oncpu_free(c->oncpu);
	c->walker = smp_walker_free(c->walker);
	free(c);
	return NULL;
}
