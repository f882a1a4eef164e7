/* SPDX-License-Identifier: Apache-2.0 */
/* Off-CPU intervals: from the tables of the off-CPU programs, and of threads that are blocked at
 * the beginning and at the end. */
#include "sampler/sampler_priv.h"

#include <stdatomic.h>
#include <sys/uio.h>

#define FP_FRAMES_MAX ABI_MAX_USER_FRAMES

struct smp_offcpu {
	struct smp_walker *base;
	struct load_offcpu *loader;
	struct load_offcpu_options options;
	struct smp_offcpu_stats stats;
	uint64_t counts_drained;     /* entries added when the table was last drained */
	uint64_t threads_drained;    /* thread names; likewise */
	const struct smp_sink *sink; /* during a call */
	uint64_t moment_ns;          /* likewise; of smp_offcpu_open_intervals */
	bool tables;
	_Atomic bool ending, ended;
	int end_error;       /* of load_offcpu_end */
	VEC(uint32_t) tgids; /* of threads with an entry at the end; with duplicates */
	VEC(struct abi_offcpu_blocked) blocked; /* when the capture began */
	size_t next;                            /* of blocked: the first that was not handed on */
	struct ev_frame frames[FP_FRAMES_MAX];
	uint8_t bytes[SMP_STACK_BYTES];
};

int smp_offcpu_open(struct smp_walker *base, const struct load_offcpu_options *o,
                    struct smp_offcpu **ret, struct err *err)
{
	_cleanup_(smp_offcpu_freep) struct smp_offcpu *s = calloc(1, sizeof(*s));
	int r;

	if (!s)
		return err_set(err, -ENOMEM, "out of memory");
	s->base = base;
	s->blocked.max = s->tgids.max = 1U << 22; /* PID_MAX_LIMIT */
	s->options = *o;
	r = load_offcpu_open(smp_walker_loader(base), o, &s->loader, err);
	if (r < 0)
		return r;
	*ret = TAKE_PTR(s);
	return 0;
}

struct smp_offcpu *smp_offcpu_free(struct smp_offcpu *o)
{
	if (o) {
		o->loader = load_offcpu_free(o->loader);
		vec_done(&o->blocked);
		vec_done(&o->tgids);
		free(o);
	}
	return NULL;
}

void smp_offcpu_freep(struct smp_offcpu **o)
{
	*o = smp_offcpu_free(*o);
}

int smp_offcpu_start(struct smp_offcpu *o, struct err *err)
{
	return load_offcpu_attach(o->loader, err);
}

static void keep_blocked(void *arg, const struct abi_offcpu_blocked *b)
{
	struct smp_offcpu *o = arg;

	if (vec_push(&o->blocked, *b) < 0)
		o->stats.read_errors++; /* its interval counts, its stack is lost */
}

int smp_offcpu_begin(struct smp_offcpu *o, bool scan)
{
	int r = 0;

	/* Every thread has an entry before the first interval counts. No interval is missing then,
	 * however long the scan takes on a loaded machine. */
	load_offcpu_follow(o->loader);
	if (scan)
		r = load_offcpu_blocked(o->loader, keep_blocked, o);
	if (r < 0)
		o->stats.read_errors++;
	o->stats.begin_ns = load_offcpu_begin(o->loader);
	return r;
}

/* ---- counts ---------------------------------------------------------------------------------- */

static struct ev_count interval_of(const struct abi_count_key *k, uint64_t waker,
                                   const struct abi_offcpu_count *v)
{
	const struct abi_count n = {.samples = v->intervals, .weight = v->ns};
	struct ev_count c = smp_count_of(k, &n);

	c.offcpu = (k->flags & ABI_KEY_STATE_MASK) >> ABI_KEY_STATE_SHIFT;
	c.epoch = (uint16_t)(k->flags >> ABI_KEY_EPOCH_SHIFT);
	c.waker = waker;
	c.longest_ns = v->longest_ns;
	c.runq_ns = v->runq_ns;
	return c;
}

static void on_interval(void *arg, const struct abi_offcpu_key *k, const struct abi_offcpu_count *v)
{
	struct smp_offcpu *o = arg;
	struct ev_count c = interval_of(&k->k, k->waker, v);

	o->stats.read_intervals += v->intervals;
	o->sink->count(o->sink->arg, &c);
}

static int keep_first(struct smp_offcpu *o, int first, int r)
{
	if (r >= 0)
		return first;
	o->stats.read_errors++;
	return first ? first : r;
}

int smp_offcpu_drain(struct smp_offcpu *o, const struct smp_sink *sink)
{
	struct abi_counters c;
	int r = keep_first(o, 0, load_offcpu_counters(o->loader, &c));

	o->sink = sink;
	if (r == 0 && c.v[ABI_CNT_COUNTS_NEW] - o->counts_drained > o->options.count_entries / 2) {
		o->counts_drained = c.v[ABI_CNT_COUNTS_NEW];
		r = keep_first(o, r, load_offcpu_drain(o->loader, on_interval, o));
	}
	if (r == 0 && c.v[ABI_CNT_THREADS_NEW] - o->threads_drained >
	                      smp_walker_sizes(o->base)->thread_entries / 2) {
		o->threads_drained = c.v[ABI_CNT_THREADS_NEW];
		r = smp_walker_drain_threads(o->base, sink); /* counted there */
	}
	return r;
}

int smp_offcpu_drain_all(struct smp_offcpu *o, const struct smp_sink *sink)
{
	struct abi_counters c;

	/* Else the next drain comes early. */
	if (load_offcpu_counters(o->loader, &c) == 0)
		o->counts_drained = c.v[ABI_CNT_COUNTS_NEW];
	o->sink = sink;
	return keep_first(o, 0, load_offcpu_drain(o->loader, on_interval, o));
}

static void hand_on_pending(struct smp_offcpu *o, const struct abi_offcpu_thread *t)
{
	const struct ev_count c = interval_of(&t->pending_key.k, t->pending_key.waker, &t->pending);

	if (t->pending.intervals)
		o->sink->count(o->sink->arg, &c);
}

/* The open interval of a thread up to @end_ns. The blocked time of a thread that was woken and has not run
 * yet ends at its wake-up. Returns false if the options leave it out. */
static bool open_interval(const struct smp_offcpu *o, const struct abi_offcpu_thread *t,
                          uint64_t end_ns, struct ev_count *ret)
{
	struct abi_offcpu_count v = {.intervals = 1};
	const uint64_t begin_ns = o->stats.begin_ns;
	/* A preempted thread needs no wake-up. */
	const bool woken = (t->key.flags & ABI_KEY_STATE_MASK) >> ABI_KEY_STATE_SHIFT !=
	                           ABI_OFFCPU_PREEMPTED &&
	                   t->wake_ns >= t->out_ns && t->wake_ns <= end_ns;
	const uint64_t wake_ns = woken ? MAX_OF(t->wake_ns, begin_ns) : end_ns;

	if (end_ns <= begin_ns)
		return false;
	v.ns = wake_ns - MAX_OF(t->out_ns, begin_ns);
	v.longest_ns = v.ns;
	v.runq_ns = end_ns - wake_ns;
	if (v.ns < o->options.min_ns || v.ns > o->options.max_ns)
		return false;
	*ret = interval_of(&t->key, woken ? t->waker : 0, &v);
	return true;
}

/* Closes an open interval at the end of the capture. */
static void on_thread(void *arg, uint32_t kernel_tid, const struct abi_offcpu_thread *t)
{
	struct smp_offcpu *o = arg;
	struct ev_count c;
	/* ended_ns is of an earlier interval where a program was about to open this one. */
	const uint64_t end_ns =
	        t->ended_ns && t->ended_ns >= t->out_ns ? t->ended_ns : o->stats.end_ns;

	(void)kernel_tid;
	if (o->tgids.n == 0 || o->tgids.p[o->tgids.n - 1] != t->key.tgid)
		(void)vec_push(&o->tgids, t->key.tgid); /* a failure gives one note too many */
	hand_on_pending(o, t);
	if (!t->out_ns || t->out_ns >= o->stats.end_ns || !open_interval(o, t, end_ns, &c))
		return;
	if (smp_walker_streams(o->base)) {
		c.time_ns = end_ns;
		c.cpu = t->cpu;
	}
	if (end_ns == o->stats.end_ns)
		o->stats.open_intervals++;
	else
		o->stats.ended_intervals++;
	o->sink->count(o->sink->arg, &c);
}

/* The programs may change an entry while it is read, but not one that is open for SMP_OPEN_NS. */
static void on_open_thread(void *arg, uint32_t kernel_tid, const struct abi_offcpu_thread *t)
{
	struct smp_offcpu *o = arg;
	struct ev_count c;

	(void)kernel_tid;
	if (!t->out_ns || t->out_ns > o->moment_ns || o->moment_ns - t->out_ns < SMP_OPEN_NS)
		return;
	hand_on_pending(o, t);
	if (!open_interval(o, t, o->moment_ns, &c))
		return;
	/* Its blocked time can still exceed the maximum: then it would have to be taken back. */
	if (o->options.max_ns != UINT64_MAX && !c.runq_ns)
		return;
	o->sink->count(o->sink->arg, &c);
}

int smp_offcpu_open_intervals(struct smp_offcpu *o, const struct smp_sink *sink)
{
	o->sink = sink;
	o->moment_ns = now_ns();
	return keep_first(o, 0, load_offcpu_threads(o->loader, on_open_thread, o));
}

void smp_offcpu_end(struct smp_offcpu *o)
{
	if (atomic_load(&o->ended))
		return;
	o->stats.end_ns = now_ns();
	atomic_store(&o->ending, true); /* before entries stop changing */
	/* If it fails, intervals whose switch-in event was missed last to the end. */
	o->end_error = load_offcpu_end(o->loader, o->stats.end_ns);
	atomic_store(&o->ended, true); /* the drain thread, which comes next, reads all of it */
}

/* ---- threads that are blocked already -------------------------------------------------------- */

/* Reads the steps of a stack that are readable; a page that was never touched is a hole. Returns
 * false if we may not read the process. */
static bool read_stack(struct ev_deferred *c, uint8_t *buf)
{
	uint64_t sp = c->reg[ABI_REG_SP];
	pid_t pid = (pid_t)c->count.proc.pid;
	uint64_t addr = (sp - ABI_DEFERRED_BELOW) & ~(uint64_t)(EV_DEFERRED_STEP - 1);
	uint32_t n = 0;

	/* One call reads up to the first hole; the rest is read step by step. */
	struct iovec to = {.iov_base = buf, .iov_len = SMP_STACK_BYTES};
	struct iovec from = {.iov_base = (void *)(uintptr_t)addr, .iov_len = SMP_STACK_BYTES};
	ssize_t got = process_vm_readv(pid, &to, 1, &from, 1, 0);
	const bool may = got >= 0 || errno != EPERM;

	n = got > 0 ? (uint32_t)got / EV_DEFERRED_STEP : 0;
	c->addr = addr;
	c->bytes = buf;
	c->holes = 0;
	for (uint32_t i = n; i < SMP_STACK_STEPS && i < n + 2; i++) {
		to.iov_base = buf + (size_t)i * EV_DEFERRED_STEP;
		to.iov_len = EV_DEFERRED_STEP;
		from.iov_base = (void *)(uintptr_t)(addr + (uint64_t)i * EV_DEFERRED_STEP);
		from.iov_len = EV_DEFERRED_STEP;
		if (process_vm_readv(pid, &to, 1, &from, 1, 0) == EV_DEFERRED_STEP)
			n = i + 1;
		else
			c->holes |= 1U << i;
	}
	c->len = n * EV_DEFERRED_STEP;
	if (n < SMP_STACK_STEPS)
		c->holes &= (1U << n) - 1;
	return may;
}

/* Walks by frame pointers. The frames are raw addresses, resolved to mappings later. */
static void walk_fp(struct smp_offcpu *o, const struct ev_deferred *c)
{
	struct ev_stack st = {
	        .hash = c->placeholder, .walk = EV_WALK_IMPLAUSIBLE, .frames = o->frames};
	uint64_t fp = c->reg[ABI_REG_FP], sp = c->reg[ABI_REG_SP], pc = c->pc, next;

	for (;;) {
		o->frames[st.n] = (struct ev_frame){
		        .addr = pc, .space = EV_SPACE_RAW, .exact = st.n == 0 && !c->in_syscall};
		if (++st.n == FP_FRAMES_MAX) {
			st.walk = EV_WALK_DEPTH;
			break;
		}
		if (fp == 0) {
			st.walk = EV_WALK_ROOT;
			break;
		}
		if (fp < sp || fp & 7)
			break;
		if (ev_deferred_word(c, fp, &next) < 0 || ev_deferred_word(c, fp + 8, &pc) < 0) {
			st.walk = EV_WALK_FAULT;
			break;
		}
		if (pc < 4096) {
			st.walk = pc == 0 ? EV_WALK_ROOT : EV_WALK_BAD_PC;
			break;
		}
		sp = fp + 16;
		fp = next;
	}
	o->sink->stack(o->sink->arg, &st);
}

/* Hands on a stack without frames: the thread ran while its stack was read, or it is not
 * readable. */
static void report_frameless(struct smp_offcpu *o, uint64_t placeholder, enum ev_walk walk)
{
	const struct ev_stack st = {
	        .hash = placeholder, .walk = (uint8_t)walk, .frames = o->frames};

	o->sink->stack(o->sink->arg, &st);
}

static void report_name(struct smp_offcpu *o, const struct abi_offcpu_blocked *b)
{
	const struct abi_count none = {0};
	const struct ev_count c = smp_count_of(&b->key, &none);
	struct ev_thread t = {
	        .proc = c.proc, .tid = c.tid, .foreign_ns = c.foreign_ns, .kthread = c.kthread};

	memcpy(t.comm, b->comm, sizeof(t.comm));
	t.comm[sizeof(t.comm) - 1] = 0;
	o->sink->thread(o->sink->arg, &t);
}

/* Hands on the stack of a blocked thread. Returns 1 (as a deferred sample), 0 (otherwise), -EAGAIN
 * (the capture ends, its stack may have changed). */
static int on_blocked(struct smp_offcpu *o, const struct abi_offcpu_blocked *b)
{
	const struct abi_count none = {0};
	struct ev_deferred c = {
	        .placeholder = b->key.ustack, .pc = b->pc, .in_syscall = b->regs == 2};

	c.count = smp_count_of(&b->key, &none);
	if (!c.placeholder)
		return 0;
	c.time_ns = now_ns();
	memcpy(c.reg, b->reg, sizeof(b->reg));
	if (!b->regs || c.count.foreign_ns) {
		report_frameless(o, c.placeholder,
		                 c.count.foreign_ns ? EV_WALK_FOREIGN : EV_WALK_NO_REGS);
		return 0;
	}
	o->stats.refused += !read_stack(&c, o->bytes);
	if (!load_offcpu_is_open(o->loader, b->kernel_tid, c.placeholder)) {
		if (atomic_load(&o->ending))
			return -EAGAIN;
		report_frameless(o, c.placeholder, EV_WALK_RESUMED);
		return 0;
	}
	if (o->tables && o->sink->deferred) {
		o->sink->deferred(o->sink->arg, &c);
		return 1;
	}
	walk_fp(o, &c);
	return 0;
}

size_t smp_offcpu_blocked(struct smp_offcpu *o, bool tables, size_t room,
                          const struct smp_sink *sink)
{
	o->sink = sink;
	o->tables = tables;
	/* Names first: a thread may end before its stack is read. */
	if (o->stats.blocked == 0) {
		o->stats.blocked = o->blocked.n;
		vec_each (b, &o->blocked)
			report_name(o, b);
	}
	while (o->next < o->blocked.n && room > 0) {
		int r = on_blocked(o, &o->blocked.p[o->next]);

		if (r < 0)
			break;
		o->next++;
		room -= (size_t)r;
	}
	return o->blocked.n - o->next;
}

/* Hands on the threads whose stacks were not read: there was no room, or no time. */
static void drop_rest(struct smp_offcpu *o)
{
	for (; o->next < o->blocked.n; o->next++) {
		const struct abi_offcpu_blocked *b = &o->blocked.p[o->next];

		if (!b->key.ustack)
			continue;
		report_frameless(o, b->key.ustack, EV_WALK_NO_TABLE);
		o->stats.blocked_lost++;
	}
	vec_done(&o->blocked);
}

/* ---- stacks that are larger than their deferred samples -------------------------------------- */

bool smp_offcpu_reread(const struct smp_offcpu *o, struct ev_deferred *c, uint8_t *buf)
{
	struct ev_deferred again = *c;

	if (!c->kernel_tid || c->count.foreign_ns ||
	    !load_offcpu_is_open(o->loader, c->kernel_tid, c->placeholder))
		return false;
	(void)read_stack(&again, buf);
	/* The thread was blocked all the time, so the bytes are of this interval and process. */
	if (!again.len || !load_offcpu_is_open(o->loader, c->kernel_tid, c->placeholder))
		return false;
	*c = again;
	return true;
}

int smp_offcpu_finish(struct smp_offcpu *o, const struct smp_sink *sink)
{
	int r = 0;

	o->sink = sink;
	smp_offcpu_end(o);
	load_offcpu_detach(o->loader);
	r = keep_first(o, r, o->end_error);
	drop_rest(o);
	r = keep_first(o, r, load_offcpu_drain_final(o->loader, on_interval, o));
	return keep_first(o, r, load_offcpu_threads(o->loader, on_thread, o));
}

bool smp_offcpu_knows(const struct smp_offcpu *o, uint32_t tgid)
{
	vec_each (known, &o->tgids)
		if (*known == tgid)
			return true;
	return false;
}

const struct smp_offcpu_stats *smp_offcpu_stats(const struct smp_offcpu *o)
{
	return &o->stats;
}

struct load_offcpu *smp_offcpu_loader(struct smp_offcpu *o)
{
	return o->loader;
}
