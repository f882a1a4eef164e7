/* SPDX-License-Identifier: Apache-2.0 */
#include "stream/stream.h"

#include <stdlib.h>

#define SAMPLES_DEFAULT ((size_t)8 << 20)
#define EVENTS_DEFAULT  ((size_t)1 << 20)
#define NAMES_MAX_BYTES ((size_t)64 << 20)

struct stream {
	VEC(struct stream_sample) samples;
	VEC(struct stream_event) events;
	struct arena names;
	struct stream_stats stats;
};

int stream_new(const struct stream_limits *lim, struct stream **ret)
{
	struct stream *s = calloc(1, sizeof(*s));

	if (!s)
		return -ENOMEM;
	s->samples.max = lim && lim->max_samples ? lim->max_samples : SAMPLES_DEFAULT;
	s->events.max = lim && lim->max_events ? lim->max_events : EVENTS_DEFAULT;
	arena_init(&s->names, NAMES_MAX_BYTES);
	*ret = s;
	return 0;
}

struct stream *stream_free(struct stream *s)
{
	if (s) {
		vec_done(&s->samples);
		vec_done(&s->events);
		arena_done(&s->names);
		free(s);
	}
	return NULL;
}

void stream_freep(struct stream **s)
{
	*s = stream_free(*s);
}

static void push(struct stream *s, const struct stream_sample *v)
{
	if (vec_push(&s->samples, *v) < 0)
		s->stats.samples_dropped++;
}

void stream_add(struct stream *s, uint32_t count, const struct ev_count *c)
{
	const struct stream_sample v = {.time_ns = c->time_ns,
	                                .weight = c->weight,
	                                .runq_ns = c->runq_ns,
	                                .count = count,
	                                .cpu = c->cpu};

	if (c->time_ns)
		push(s, &v);
}

/* Copies a name. NULL: no room. */
static const char *keep_name(struct stream *s, const char *name)
{
	size_t len = strlen(name) + 1;
	char *to = arena_alloc(&s->names, len);

	return to ? memcpy(to, name, len) : NULL;
}

void stream_add_event(struct stream *s, const struct ev_proc *ev)
{
	struct stream_event v = {.time_ns = ev->time_ns,
	                         .pid = ev->pid,
	                         .tid = ev->tid,
	                         .ppid = ev->ppid,
	                         .ptid = ev->ptid,
	                         .type = (uint8_t)ev->type,
	                         .exec = ev->exec,
	                         .arrival = (uint32_t)s->events.n,
	                         .name = ""};

	switch (ev->type) {
	case EV_PROC_MMAP:
		return;
	case EV_PROC_COMM:
		v.name = keep_name(s, ev->comm);
		break;
	case EV_PROC_LOST:
		v.lost = ev->lost;
		break;
	case EV_PROC_KSYMBOL:
		v.start = ev->ksym.start;
		v.len = ev->ksym.len;
		v.bpf = ev->ksym.bpf;
		v.gone = ev->ksym.gone;
		v.name = keep_name(s, ev->ksym.name ? ev->ksym.name : "");
		break;
	case EV_PROC_FORK:
	case EV_PROC_EXIT:
		break;
	}
	if (!v.name || vec_push(&s->events, v) < 0)
		s->stats.events_dropped++;
}

void stream_take(struct stream *s, struct stream *from, const uint32_t *index)
{
	vec_each (v, &from->samples) {
		struct stream_sample moved = *v;

		moved.count = index ? index[v->count] : UINT32_MAX;
		if (moved.count == UINT32_MAX)
			s->stats.samples_dropped++;
		else
			push(s, &moved);
	}
	s->stats.samples_dropped += from->stats.samples_dropped;
	from->stats.samples_dropped = 0;
	vec_done(&from->samples);
}

static int compare_u64(uint64_t a, uint64_t b)
{
	return (a > b) - (a < b);
}

static int compare_samples(const void *va, const void *vb)
{
	const struct stream_sample *a = va, *b = vb;
	int r = compare_u64(a->time_ns, b->time_ns);

	r = r ? r : compare_u64(a->count, b->count);
	r = r ? r : compare_u64(a->cpu, b->cpu);
	return r ? r : compare_u64(a->weight, b->weight);
}

static int compare_events(const void *va, const void *vb)
{
	const struct stream_event *a = va, *b = vb;
	int r = compare_u64(a->time_ns, b->time_ns);

	return r ? r : compare_u64(a->arrival, b->arrival);
}

void stream_sort(struct stream *s)
{
	if (s->samples.n)
		qsort(s->samples.p, s->samples.n, sizeof(*s->samples.p), compare_samples);
	if (s->events.n)
		qsort(s->events.p, s->events.n, sizeof(*s->events.p), compare_events);
}

int stream_scale(struct stream *s, const uint64_t *total, const uint64_t *raw, size_t n)
{
	/* Raw weight of the samples of each count so far. */
	uint64_t *sum = calloc(n ? n : 1, sizeof(*sum));

	if (!sum)
		return -ENOMEM;
	vec_each (v, &s->samples) {
		const uint32_t c = v->count;
		uint64_t before, after;

		assert(c < n);
		if (!raw[c])
			continue;
		before = (uint64_t)((unsigned __int128)total[c] * sum[c] / raw[c]);
		sum[c] += v->weight;
		after = (uint64_t)((unsigned __int128)total[c] * sum[c] / raw[c]);
		v->weight = after - before;
	}
	free(sum);
	return 0;
}

const struct stream_sample *stream_samples(const struct stream *s, size_t *ret_n)
{
	*ret_n = s->samples.n;
	return s->samples.p;
}

const struct stream_event *stream_events(const struct stream *s, size_t *ret_n)
{
	*ret_n = s->events.n;
	return s->events.p;
}

const struct stream_stats *stream_stats(const struct stream *s)
{
	return &s->stats;
}
