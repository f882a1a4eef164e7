/* SPDX-License-Identifier: Apache-2.0 */
/*
 * On-CPU time between two moments of a capture. The kernel side has sums since the start: of each
 * thread, and of the rest, to which it adds the sums of a thread when it removes its entry.
 * Thread: the owner of the readings.
 */
#include "result/result.h"

struct key {
	uint64_t start_ns;
	uint32_t pid, tid, foreign_ns;
	uint32_t pad; /* 0: keys are compared as bytes */
};

int result_cpu_reading_add(struct result_cpu_reading *r, const struct smp_cpu_time *v)
{
	r->threads.max = SIZE_MAX;
	return vec_push(&r->threads, *v);
}

void result_cpu_reading_done(struct result_cpu_reading *r)
{
	vec_done(&r->threads);
	*r = (struct result_cpu_reading){0};
}

static struct result_cpu_time_total total_of(const struct result_cpu_reading *r)
{
	struct result_cpu_time_total t = r->rest;

	vec_each (v, &r->threads) {
		t.ran_ns += v->ran_ns;
		t.seen += v->seen;
	}
	return t;
}

static struct key key_of(const struct smp_cpu_time *v)
{
	return (struct key){.start_ns = v->proc.start_ns,
	                    .pid = v->proc.pid,
	                    .tid = v->tid,
	                    .foreign_ns = v->foreign_ns};
}

/* Threads of the earlier reading by key. */
struct index {
	struct intern *keys;
	VEC(struct result_cpu_time_total) sums;
};

static int index_new(const struct result_cpu_reading *r, struct index *ret)
{
	int e = intern_new(UINT32_MAX - 1, SIZE_MAX / 2, &ret->keys);

	ret->sums.max = UINT32_MAX;
	if (e < 0)
		return e;
	vec_each (v, &r->threads) {
		struct key k = key_of(v);
		uint32_t id;
		bool is_new;

		e = intern_add(ret->keys, &k, sizeof(k), &id, &is_new);
		if (e == 0 && is_new)
			e = vec_push(&ret->sums, (struct result_cpu_time_total){0});
		if (e < 0)
			return e;
		ret->sums.p[id].ran_ns += v->ran_ns;
		ret->sums.p[id].seen += v->seen;
	}
	return 0;
}

static void index_done(struct index *x)
{
	x->keys = intern_free(x->keys);
	vec_done(&x->sums);
}

/* Takes what @had has from @from; the rest of @had stays. */
static uint64_t subtract(uint64_t from, uint64_t *had)
{
	uint64_t n = MIN_OF(from, *had);

	*had -= n;
	return from - n;
}

int result_cpu_time_between(const struct result_cpu_reading *before,
                            struct result_cpu_reading *after, struct result_cpu_time **ret)
{
	static const struct result_cpu_reading none;
	const struct result_cpu_time_total had = total_of(before ? before : &none);
	struct result_cpu_time_total has = total_of(after), rest;
	_cleanup_(index_done) struct index x = {0};
	struct result_cpu_time *t = NULL;
	int r = index_new(before ? before : &none, &x);

	if (r == 0)
		r = result_cpu_time_new(after->few, &t);
	if (r < 0)
		return r;
	after->rest.ran_ns += had.ran_ns > has.ran_ns ? had.ran_ns - has.ran_ns : 0;
	after->rest.seen += had.seen > has.seen ? had.seen - has.seen : 0;
	has = total_of(after);
	rest = (struct result_cpu_time_total){.ran_ns = has.ran_ns - had.ran_ns,
	                                      .seen = has.seen - had.seen};
	vec_each (v, &after->threads) {
		struct key k = key_of(v);
		uint32_t id = intern_find(x.keys, &k, sizeof(k));
		struct smp_cpu_time d = *v;

		if (id != INTERN_NONE) {
			d.ran_ns = subtract(d.ran_ns, &x.sums.p[id].ran_ns);
			d.seen = subtract(d.seen, &x.sums.p[id].seen);
		}
		if (r < 0 || d.seen < after->few || d.ran_ns > rest.ran_ns || d.seen > rest.seen)
			continue; /* it is a part of the rest */
		r = result_cpu_time_add(t, &d);
		rest.ran_ns -= d.ran_ns;
		rest.seen -= d.seen;
	}
	if (r < 0) {
		(void)result_cpu_time_free(t); /* NULL */
		return r;
	}
	result_cpu_time_add_rest(t, rest.ran_ns, rest.seen);
	*ret = t;
	return 0;
}
