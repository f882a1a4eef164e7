/* SPDX-License-Identifier: Apache-2.0 */
/* The maps that all modes share, and the records of their rings. */
#include "sampler/sampler_priv.h"

struct smp_walker {
	struct load_oncpu *loader;
	struct load_sizes sizes;
	bool streams;
	struct smp_walker_stats stats;
	struct abi_counters counters; /* of the last drain */
	uint64_t threads_drained;     /* names added when their table was last drained */
	const struct smp_sink *sink;  /* during a drain */
	struct ev_frame frames[ABI_MAX_USER_FRAMES];
};

int smp_walker_open(const struct abi_config *cfg, const struct load_sizes *sizes,
                    struct smp_walker **ret, struct err *err)
{
	_cleanup_(smp_walker_freep) struct smp_walker *w = calloc(1, sizeof(*w));
	int r;

	if (!w)
		return err_set(err, -ENOMEM, "out of memory");
	w->sizes = *sizes;
	w->streams = cfg->stream != 0;
	r = load_oncpu_open(cfg, sizes, &w->loader, err);
	if (r < 0)
		return r;
	*ret = TAKE_PTR(w);
	return 0;
}

struct smp_walker *smp_walker_free(struct smp_walker *w)
{
	if (w) {
		w->loader = load_oncpu_free(w->loader);
		free(w);
	}
	return NULL;
}

void smp_walker_freep(struct smp_walker **w)
{
	*w = smp_walker_free(*w);
}

static void on_record(void *arg, const void *rec, size_t len)
{
	struct smp_walker *w = arg;
	struct ev_count count;
	struct ev_stack st;
	struct ev_waker waker;
	int r = smp_record_parse(rec, len, w->frames, &st, &count, &waker);

	if (r < 0) {
		w->stats.bad_records++;
		return;
	}
	if (r == 2) {
		if (w->sink->waker)
			w->sink->waker(w->sink->arg, &waker);
		return;
	}
	if (r == 3) {
		*(count.offcpu ? &w->stats.ring_intervals : &w->stats.ring_samples) += 1;
		w->sink->count(w->sink->arg, &count);
		return;
	}
	w->sink->stack(w->sink->arg, &st);
	if (r == 1) {
		w->stats.ring_samples += count.samples;
		w->sink->count(w->sink->arg, &count);
	}
}

static void on_deferred(void *arg, const void *rec, size_t len)
{
	struct smp_walker *w = arg;
	struct ev_deferred c;

	if (smp_deferred_parse(rec, len, &c) < 0) {
		w->stats.bad_records++;
		return;
	}
	if (c.count.ustack == 0 && !c.placeholder)
		w->stats.deferred_samples += c.count.samples;
	if (w->sink->deferred)
		w->sink->deferred(w->sink->arg, &c);
}

static void on_thread(void *arg, const struct abi_thread_key *k, const struct abi_thread *v)
{
	struct smp_walker *w = arg;
	struct ev_thread t = {
	        .proc = {.pid = k->tgid, .exec_id = k->exec_id, .start_ns = k->start_ns},
	        .tid = k->tid,
	        .foreign_ns = (k->flags & ABI_KEY_FOREIGN_NS) != 0,
	        .kthread = (k->flags & ABI_KEY_KTHREAD) != 0,
	};

	memcpy(t.comm, v->comm, sizeof(t.comm));
	t.comm[sizeof(t.comm) - 1] = 0;
	w->sink->thread(w->sink->arg, &t);
}

static int keep_first(struct smp_walker *w, int first, int r)
{
	if (r >= 0)
		return first;
	w->stats.read_errors++;
	return first ? first : r;
}

int smp_walker_drain_threads(struct smp_walker *w, const struct smp_sink *sink)
{
	w->sink = sink;
	return keep_first(w, 0, load_threads_read(w->loader, true, on_thread, w));
}

int smp_walker_drain(struct smp_walker *w, const struct smp_sink *sink)
{
	int r = 0;

	w->sink = sink;
	r = keep_first(w, r, load_ring_drain(w->loader, on_record, on_deferred, w));
	r = keep_first(w, r, load_counters_drain(w->loader, &w->counters));
	if (r < 0 ||
	    w->counters.v[ABI_CNT_THREADS_NEW] - w->threads_drained <= w->sizes.thread_entries / 2)
		return r;
	w->threads_drained = w->counters.v[ABI_CNT_THREADS_NEW];
	return smp_walker_drain_threads(w, sink);
}

void smp_walker_detach(struct smp_walker *w)
{
	load_oncpu_detach(w->loader);
}

int smp_walker_finish(struct smp_walker *w, const struct smp_sink *sink)
{
	int r, next;

	w->sink = sink;
	r = keep_first(w, 0, load_ring_drain(w->loader, on_record, on_deferred, w));
	next = smp_walker_drain_threads(w, sink);
	return r ? r : next;
}

const struct abi_counters *smp_walker_counters(const struct smp_walker *w)
{
	return &w->counters;
}

const struct load_sizes *smp_walker_sizes(const struct smp_walker *w)
{
	return &w->sizes;
}

bool smp_walker_streams(const struct smp_walker *w)
{
	return w->streams;
}

struct load_oncpu *smp_walker_loader(struct smp_walker *w)
{
	return w->loader;
}

int smp_walker_poll_fd(const struct smp_walker *w)
{
	return load_ring_fd(w->loader);
}

const struct smp_walker_stats *smp_walker_stats(const struct smp_walker *w)
{
	return &w->stats;
}
