/* SPDX-License-Identifier: Apache-2.0 */
/*
 * stream - the samples of a capture one by one, with the time of each, and the events of its
 * processes: for outputs that need an order. Bounded: what does not fit is counted.
 * No system calls. Thread: an object belongs to one thread at a time.
 */
#ifndef PA_STREAM_H
#define PA_STREAM_H

#include "event/event.h"

struct stream;

/* A sample, or an off-CPU interval. Process, thread and stacks are those of its count. */
struct stream_sample {
	uint64_t time_ns; /* CLOCK_MONOTONIC; of an interval: when the thread ran again */
	uint64_t weight;  /* as ev_count.weight; of an interval: blocked time, ns */
	uint64_t runq_ns; /* of an interval: from its wake-up until it ran */
	uint32_t count;   /* index of its entry in the aggregation */
	uint32_t cpu;
};
_Static_assert(sizeof(struct stream_sample) == 32, "the cap of bytes counts on it");

/* A process event; of which type: as in ev_proc. */
struct stream_event {
	uint64_t time_ns;
	uint32_t pid, tid, ppid, ptid;
	uint8_t type; /* enum ev_proc_type, without MMAP: the tracker knows the mappings */
	bool exec, bpf, gone;
	uint32_t len;     /* KSYMBOL */
	uint32_t arrival; /* orders events of one time */
	union {
		uint64_t lost;
		uint64_t start; /* KSYMBOL */
	};
	const char *name; /* COMM and KSYMBOL; the stream's */
};

struct stream_limits {
	size_t max_samples; /* 0: 8 M, 256 MiB */
	size_t max_events;  /* 0: 1 M, 56 MiB without their names */
};

struct stream_stats {
	uint64_t samples_dropped; /* over the limit, or without memory */
	uint64_t events_dropped;
};

/**
 * stream_new, stream_free - an empty stream
 * @lim: copied; NULL: the defaults
 * NULL is accepted; free returns NULL.
 * Returns: 0, -ENOMEM.
 */
int stream_new(const struct stream_limits *lim, struct stream **ret);
struct stream *stream_free(struct stream *s);
void stream_freep(struct stream **s);
/**
 * stream_add - add the sample of a count
 * @count: index of its entry in the aggregation
 * @c: with a time; else it is ignored: a sum of several
 */
void stream_add(struct stream *s, uint32_t count, const struct ev_count *c);
/**
 * stream_add_event - add a process event; mappings are ignored
 * @ev: copied with its name
 */
void stream_add_event(struct stream *s, const struct ev_proc *ev);
/**
 * stream_take - move all samples of another stream
 * @index: index[of.count]: the index of their entries here; UINT32_MAX: dropped there.
 *         NULL: all are
 */
void stream_take(struct stream *s, struct stream *from, const uint32_t *index);
/**
 * stream_sort - order samples and events by time
 * Equal times: by index of the count, then by CPU and weight, so that the order depends on nothing
 * else. Events keep theirs. Cost: O(n log n).
 */
void stream_sort(struct stream *s);
/**
 * stream_scale - scale the weights of samples to those of their counts
 * @total: total[n]: the weight that the samples of each count share, by index of the count
 * @raw:   raw[n]: the weight of all its samples before, also of those that are not in the stream
 * The remainder is distributed in the order of the samples: those of a count without losses add up
 * to its total exactly. To be called after stream_sort. Returns: 0, -ENOMEM.
 */
int stream_scale(struct stream *s, const uint64_t *total, const uint64_t *raw, size_t n);
/**
 * stream_samples, stream_events - all of them; borrowed until the next call that adds or sorts
 */
const struct stream_sample *stream_samples(const struct stream *s, size_t *ret_n);
const struct stream_event *stream_events(const struct stream *s, size_t *ret_n);
const struct stream_stats *stream_stats(const struct stream *s);

#endif
