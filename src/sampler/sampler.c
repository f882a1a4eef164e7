/* SPDX-License-Identifier: Apache-2.0 */
#include "sampler/sampler_priv.h"

#include <linux/perf_event.h>

#define X(id, val, name) _Static_assert((int)ABI_OFF_##id == (int)EV_OFF_##id, "one numbering");
EV_OFFS(X)
#undef X
#define X(id, val, name, help)                                                                     \
	_Static_assert((int)ABI_WALK_##id == (int)EV_WALK_##id, "one numbering");
EV_WALKS(X)
#undef X
_Static_assert(ABI_COMM_LEN == EV_COMM_LEN, "one length");
_Static_assert(ABI_STACK_GUESSED == EV_STACK_GUESSED && ABI_STACK_JIT == EV_STACK_JIT,
               "one numbering");
_Static_assert(ABI_REGS <= EV_COPY_REGS, "room for the registers");
_Static_assert(ABI_COPY_STEP == EV_COPY_STEP && ABI_COPY_BYTES / ABI_COPY_STEP <= 32, "holes");

struct smp {
	struct load_oncpu *loader;
	struct load_sizes sizes;
	struct pev_spec spec;
	struct pev_set events;
	uint32_t *cpus; /* cpus[n_cpus]: where on-CPU time is measured */
	uint32_t n_cpus;
	bool cpu_time;
	_Atomic bool ended; /* by smp_end */
	struct smp_stats stats;
	uint64_t counts_mark, threads_mark; /* entries made when the table was last emptied */
	const struct smp_sink *sink;        /* during a drain */
	struct ev_frame frames[ABI_MAX_USER_FRAMES];
};

int smp_open(const struct smp_options *o, struct smp **ret, struct err *err)
{
	_cleanup_(smp_freep) struct smp *s = NULL;
	int r;

	s = calloc(1, sizeof(*s));
	if (!s)
		return err_set(err, -ENOMEM, "out of memory");
	s->sizes = o->sizes;
	s->spec = o->spec;
	s->cpu_time = o->cfg.cpu_time;
	r = load_oncpu_open(&o->cfg, &o->sizes, &s->loader, err);
	if (r < 0)
		return r;
	*ret = TAKE_PTR(s);
	return 0;
}

struct smp *smp_free(struct smp *s)
{
	if (!s)
		return NULL;
	/* Links before events: an event must not run a program that is being freed. */
	s->loader = load_oncpu_free(s->loader);
	(void)pev_set_close(&s->events); /* nothing is lost by a failed close of an event */
	free(s->cpus);
	free(s);
	return NULL;
}

void smp_freep(struct smp **s)
{
	*s = smp_free(*s);
}

static void begin_cpu_time(struct smp *s)
{
	s->cpus = calloc(s->events.n, sizeof(*s->cpus));
	if (!s->cpus) {
		s->stats.cpu_time_error = -ENOMEM;
		return;
	}
	for (uint32_t i = 0; i < s->events.n; i++)
		s->cpus[s->n_cpus++] = s->events.e[i].cpu;
	s->stats.cpu_time_error = load_cpu_time_begin(s->loader, s->cpus, s->n_cpus, NULL);
}

int smp_start(struct smp *s, const uint32_t *cpus, uint32_t n_cpus, const struct load_procs *procs,
              struct err *err)
{
	/* Without CPUs nothing ticks: the maps are there for others. */
	int r = n_cpus ? pev_open_cpus(&s->spec, cpus, n_cpus, &s->events, err) : 0;

	if (r < 0)
		return r;
	for (uint32_t i = 0; i < s->events.n && r == 0; i++)
		r = load_oncpu_attach(s->loader, s->events.e[i].fd, err);
	if (r == 0 && procs)
		r = load_follow(s->loader, procs, err);
	if (r == 0 && s->cpu_time && s->events.n)
		begin_cpu_time(s);
	if (r == 0)
		r = pev_set_enable(&s->events, err);
	if (r < 0) {
		load_oncpu_detach(s->loader);
		(void)pev_set_close(&s->events); /* the first failure is the one to tell */
	}
	return r;
}

int smp_frame_decode(uint64_t v, struct ev_frame *ret)
{
	memset(ret, 0, sizeof(*ret));
	ret->exact = (v & ABI_FRAME_EXACT) != 0;
	switch (v >> ABI_FRAME_SPACE_SHIFT) {
	case ABI_SPACE_IMAGE:
		ret->space = EV_SPACE_IMAGE;
		ret->image = (uint32_t)(v >> ABI_FRAME_IMAGE_SHIFT) & ABI_IMAGE_MAX;
		ret->addr = v & ABI_FRAME_OFF_MASK;
		return 0;
	case ABI_SPACE_ANON:
		ret->space = EV_SPACE_ANON;
		ret->addr = v & ABI_FRAME_ADDR_MASK;
		return 0;
	case ABI_SPACE_RAW:
		ret->space = EV_SPACE_RAW;
		ret->addr = v & ABI_FRAME_ADDR_MASK;
		return 0;
	default:
		return -EINVAL;
	}
}

struct ev_count smp_count_of(const struct abi_count_key *k, const struct abi_count *v)
{
	return (struct ev_count){
	        .proc = {.pid = k->tgid, .exec_id = k->exec_id, .start_ns = k->start_ns},
	        .tid = k->tid,
	        .foreign_ns = (k->flags & ABI_KEY_FOREIGN_NS) != 0,
	        .kthread = (k->flags & ABI_KEY_KTHREAD) != 0,
	        .ustack = k->ustack,
	        .kstack = k->kstack,
	        .cgroup_id = k->cgroup_id,
	        .samples = v->samples,
	        .weight = v->weight,
	};
}

static int waker_parse(struct cursor *c, const struct abi_stack *h, struct ev_waker *ret)
{
	struct abi_waker w;

	if (h->hash == 0 || h->n != ABI_WAKER_WORDS || cursor_bytes(c, &w, sizeof(w)) < 0)
		return -EINVAL;
	*ret = (struct ev_waker){
	        .hash = h->hash,
	        .proc = {.pid = w.tgid, .exec_id = w.exec_id, .start_ns = w.start_ns},
	        .tid = w.flags & ABI_WAKER_IRQ ? 0 : w.tid,
	        .foreign_ns = (w.flags & ABI_KEY_FOREIGN_NS) != 0,
	        .kthread = (w.flags & ABI_KEY_KTHREAD) != 0,
	        .ustack = w.ustack,
	        .kstack = w.kstack,
	};
	memcpy(ret->comm, w.comm, sizeof(ret->comm));
	ret->comm[sizeof(ret->comm) - 1] = 0;
	return 2;
}

int smp_record_parse(const void *rec, size_t len, struct ev_frame *frames, struct ev_stack *ret,
                     struct ev_count *ret_count, struct ev_waker *ret_waker)
{
	struct cursor c = cursor_of(rec, len), peek = c;
	struct abi_first first = {0};
	struct abi_stack h;
	uint64_t hash;

	if (cursor_u64(&peek, &hash) < 0)
		return -EINVAL;
	if (hash == 0 && cursor_bytes(&c, &first, sizeof(first)) < 0)
		return -EINVAL;
	if (cursor_bytes(&c, &h, sizeof(h)) < 0)
		return -EINVAL;
	if (hash && h.kind == ABI_STACK_WAKER)
		return waker_parse(&c, &h, ret_waker);
	if (hash == 0 && (first.key.ustack != h.hash || h.kind != ABI_STACK_USER))
		return -EINVAL;
	if (h.hash == 0 || h.walk >= EV_WALK_KERNEL_CNT || cursor_left(&c) / 8 < h.n)
		return -EINVAL;
	if (h.flags & ~(ABI_STACK_GUESSED | ABI_STACK_JIT))
		return -EINVAL;
	if (h.kind == ABI_STACK_USER ? h.n > ABI_MAX_USER_FRAMES
	                             : h.kind != ABI_STACK_KERNEL || h.n > ABI_MAX_KERNEL_FRAMES)
		return -EINVAL;
	for (uint32_t i = 0; i < h.n; i++) {
		struct ev_frame *f = &frames[i];
		uint64_t v = 0;

		(void)cursor_u64(&c, &v); /* the length was checked above */
		if (h.kind == ABI_STACK_KERNEL) {
			memset(f, 0, sizeof(*f));
			f->space = EV_SPACE_KERNEL;
			f->exact = i == 0;
			f->addr = v;
			continue;
		}
		if (smp_frame_decode(v, f) < 0)
			return -EINVAL;
	}
	ret->hash = h.hash;
	ret->kernel = h.kind == ABI_STACK_KERNEL;
	ret->walk = h.walk;
	ret->flags = h.flags;
	ret->n = h.n;
	ret->frames = frames;
	if (hash)
		return 0;
	*ret_count = smp_count_of(&first.key, &first.count);
	return 1;
}

int smp_copy_parse(const void *rec, size_t len, struct ev_copy *ret)
{
	struct cursor c = cursor_of(rec, len);
	struct abi_copy h;

	if (cursor_bytes(&c, &h, sizeof(h)) < 0)
		return -EINVAL;
	if (h.len > ABI_COPY_BYTES || h.len > cursor_left(&c) || h.image > ABI_IMAGE_MAX)
		return -EINVAL;
	memset(ret, 0, sizeof(*ret));
	ret->count = smp_count_of(&h.key, &h.count);
	ret->in_syscall = (h.key.flags & ABI_KEY_IN_SYSCALL) != 0;
	ret->time_ns = h.time_ns;
	ret->pc = h.pc;
	memcpy(ret->reg, h.reg, sizeof(h.reg));
	ret->guess = h.guess;
	ret->promise = h.promise;
	ret->addr = h.addr;
	ret->len = h.len;
	ret->holes = h.holes;
	ret->image = h.image;
	ret->kernel_tid = h.kernel_tid;
	ret->bytes = c.p;
	return 0;
}

static void on_record(void *arg, const void *rec, size_t len)
{
	struct smp *s = arg;
	struct ev_count count;
	struct ev_stack st;
	struct ev_waker waker;
	int r = smp_record_parse(rec, len, s->frames, &st, &count, &waker);

	if (r < 0) {
		s->stats.bad_records++;
		return;
	}
	if (r == 2) {
		if (s->sink->waker)
			s->sink->waker(s->sink->arg, &waker);
		return;
	}
	s->sink->stack(s->sink->arg, &st);
	if (r == 1) {
		s->stats.taken_samples += count.samples;
		s->sink->count(s->sink->arg, &count);
	}
}

static void on_copy(void *arg, const void *rec, size_t len)
{
	struct smp *s = arg;
	struct ev_copy c;

	if (smp_copy_parse(rec, len, &c) < 0) {
		s->stats.bad_records++;
		return;
	}
	if (c.count.ustack == 0 && !c.promise)
		s->stats.copied_samples += c.count.samples;
	if (s->sink->copy)
		s->sink->copy(s->sink->arg, &c);
}

static void on_count(void *arg, const struct abi_count_key *k, const struct abi_count *v)
{
	struct smp *s = arg;
	struct ev_count c = smp_count_of(k, v);

	s->stats.taken_samples += v->samples;
	s->sink->count(s->sink->arg, &c);
}

static void on_thread(void *arg, const struct abi_thread_key *k, const struct abi_thread *v)
{
	struct smp *s = arg;
	struct ev_thread t = {
	        .proc = {.pid = k->tgid, .exec_id = k->exec_id, .start_ns = k->start_ns},
	        .tid = k->tid,
	        .foreign_ns = (k->flags & ABI_KEY_FOREIGN_NS) != 0,
	        .kthread = (k->flags & ABI_KEY_KTHREAD) != 0,
	};

	memcpy(t.comm, v->comm, sizeof(t.comm));
	t.comm[sizeof(t.comm) - 1] = 0;
	s->sink->thread(s->sink->arg, &t);
}

static int keep_first(struct smp *s, int first, int r)
{
	if (r >= 0)
		return first;
	s->stats.read_errors++;
	return first ? first : r;
}

int smp_drain(struct smp *s, const struct smp_sink *sink)
{
	struct abi_counters c;
	int r = 0;

	s->sink = sink;
	r = keep_first(s, r, load_ring_drain(s->loader, on_record, on_copy, s));
	r = keep_first(s, r, load_counters_drain(s->loader, &c));
	if (r < 0)
		return r;
	if (c.v[ABI_CNT_COUNTS_NEW] - s->counts_mark > s->sizes.count_entries / 2) {
		s->counts_mark = c.v[ABI_CNT_COUNTS_NEW];
		r = keep_first(s, r, load_counts_take(s->loader, on_count, s));
	}
	if (c.v[ABI_CNT_THREADS_NEW] - s->threads_mark > s->sizes.thread_entries / 2) {
		s->threads_mark = c.v[ABI_CNT_THREADS_NEW];
		r = keep_first(s, r, load_threads_take(s->loader, true, on_thread, s));
	}
	return r;
}

int smp_take(struct smp *s, const struct smp_sink *sink)
{
	struct abi_counters c;

	s->sink = sink;
	if (load_counters_drain(s->loader, &c) == 0)
		s->counts_mark = c.v[ABI_CNT_COUNTS_NEW]; /* else it is taken again early */
	return keep_first(s, 0, load_counts_take(s->loader, on_count, s));
}

uint32_t smp_thread_entries(const struct smp *s)
{
	return s->sizes.thread_entries;
}

int smp_take_threads(struct smp *s, const struct smp_sink *sink)
{
	s->sink = sink;
	return load_threads_take(s->loader, true, on_thread, s);
}

int smp_end(struct smp *s)
{
	int r;

	if (s->ended)
		return 0;
	r = pev_set_disable(&s->events);
	if (s->n_cpus && s->stats.cpu_time_error == 0)
		s->stats.cpu_time_error = load_cpu_time_end(s->loader, s->cpus, s->n_cpus);
	/* Last: who sees it, in another thread, may close the events. */
	s->ended = true;
	return r;
}

int smp_finish(struct smp *s, const struct smp_sink *sink)
{
	int r = 0;

	s->sink = sink;
	r = keep_first(s, r, smp_end(s));
	load_oncpu_detach(s->loader);
	(void)pev_set_close(&s->events); /* a failed close loses nothing */
	r = keep_first(s, r, load_counts_take_final(s->loader, on_count, s));
	r = keep_first(s, r, load_ring_drain(s->loader, on_record, on_copy, s));
	r = keep_first(s, r, load_threads_take(s->loader, true, on_thread, s));
	return r;
}

struct cpu_time_arg {
	smp_cpu_time_fn fn;
	void *arg;
};

static void on_cpu_time(void *arg, const struct abi_cpu_time *t)
{
	const struct cpu_time_arg *a = arg;
	struct smp_cpu_time v = {
	        .proc = {.pid = t->tgid, .start_ns = t->start_ns},
	        .tid = t->tid,
	        .foreign_ns = (t->flags & ABI_KEY_FOREIGN_NS) != 0,
	        .ran_ns = t->sums.ran_ns,
	        .seen = t->sums.seen,
	};

	a->fn(a->arg, &v);
}

int smp_cpu_times(struct smp *s, smp_cpu_time_fn fn, void *arg, struct smp_cpu_time *ret,
                  struct smp_cpu_time_cost *ret_cost)
{
	struct cpu_time_arg a = {fn, arg};
	struct abi_cpu_clock sum;
	int r;

	if (!s->n_cpus)
		return -ENODATA;
	if (s->stats.cpu_time_error < 0)
		return s->stats.cpu_time_error;
	r = load_cpu_times(s->loader, on_cpu_time, &a, &sum);
	if (r < 0)
		return r;
	*ret = (struct smp_cpu_time){.ran_ns = sum.rest.ran_ns, .seen = sum.rest.seen};
	*ret_cost = (struct smp_cpu_time_cost){
	        .prog_ns = sum.prog_ns, .missed = sum.missed, .full = sum.full};
	return 0;
}

struct load_oncpu *smp_loader(struct smp *s)
{
	return s->loader;
}

int smp_poll_fd(const struct smp *s)
{
	return load_ring_fd(s->loader);
}

const struct smp_stats *smp_stats(const struct smp *s)
{
	return &s->stats;
}

uint32_t smp_skipped_cpus(const struct smp *s)
{
	return s->events.skipped_cpus;
}
