/* SPDX-License-Identifier: Apache-2.0 */
/* The output perf.data: events, build-ids and process events of the capture, and its samples by
 * ses_perf_records.c. Thread: control. */
#include <linux/perf_event.h>

#include "session/ses_perf_priv.h"

struct perf_data {
	struct ses_perf_facts facts;
	struct enc_perf_event events[2];
	uint32_t n_events;
	VEC(struct enc_perf_build_id) build_ids;
	struct intern *pids; /* uint32_t: processes with samples */
	struct ses_perf_records *records;
	bool classic; /* record types that every reader knows */
};

static void perf_data_done(struct perf_data *p)
{
	p->records = ses_perf_records_free(p->records);
	p->pids = intern_free(p->pids);
	vec_done(&p->build_ids);
	vec_done(&p->facts.side);
	arena_done(&p->facts.strings);
}

/* ---- events ---------------------------------------------------------------------------------- */

static uint32_t add_event(struct perf_data *p, const struct ses *s, size_t source)
{
	const struct result_kind *k = &s->product[source].kind;
	struct enc_perf_event e = {.name = k->cycles ? "cycles" : "cpu-clock",
	                           .type = PERF_TYPE_SOFTWARE,
	                           .config = PERF_COUNT_SW_CPU_CLOCK,
	                           .sample_period = k->period,
	                           .exclude_kernel = (s->o.flags & PFA_NO_KERNEL_STACKS) != 0};

	if (k->offcpu) {
		/* As perf record --off-cpu names and types it. */
		e.name = "offcpu-time";
		e.config = PERF_COUNT_SW_BPF_OUTPUT;
		e.sample_period = 1;
	} else if (k->cycles) {
		e.type = PERF_TYPE_HARDWARE;
		e.config = PERF_COUNT_HW_CPU_CYCLES;
	}
	if (k->freq && !k->offcpu) {
		e.sample_freq = k->rate_hz;
		e.sample_period = 0;
	}
	p->events[p->n_events] = e;
	return p->n_events++;
}

/* ---- build-ids ------------------------------------------------------------------------------- */

/* Returns which images stacks are in, by id; the caller's to free. NULL: no memory. */
static bool *used_images(const struct ses *s)
{
	const size_t n = trk_image_cnt(s->walk.trk);
	bool *used = calloc(n + 1, sizeof(*used));

	for (size_t i = 0; used && i < prof_agg_stack_cnt(s->walk.agg); i++) {
		const struct ev_stack *st = prof_agg_stack_at(s->walk.agg, i);

		for (uint32_t k = 0; k < st->n; k++)
			if (st->frames[k].space == EV_SPACE_IMAGE && st->frames[k].image <= n)
				used[st->frames[k].image] = true;
	}
	return used;
}

static int add_build_ids(struct perf_data *p, const struct ses *s)
{
	_cleanup_free_ bool *used = used_images(s);
	struct enc_perf_build_id b = {
	        .kernel = true, .pid = UINT32_MAX, .path = "[kernel.kallsyms]"};
	size_t len = 0;
	int r = used ? 0 : -ENOMEM;

	p->build_ids.max = UINT32_MAX;
	if (r == 0 && proc_kernel_build_id(b.id, &len) == 0) {
		b.len = (uint8_t)len;
		r = vec_push(&p->build_ids, b);
	}
	for (uint32_t i = 1; i <= trk_image_cnt(s->walk.trk) && r == 0; i++) {
		const struct trk_image *img = trk_image(s->walk.trk, i);

		b = (struct enc_perf_build_id){.pid = UINT32_MAX, .path = img->path};
		b.len = MIN_OF(img->build_id_len, (uint8_t)sizeof(b.id));
		memcpy(b.id, img->build_id, b.len);
		if (b.len && used[i])
			r = vec_push(&p->build_ids, b);
	}
	return r;
}

/* ---- process events -------------------------------------------------------------------------- */

/* Makes the set of processes with samples. */
static int add_pids(struct perf_data *p, const struct ses *s)
{
	int r = intern_new(UINT32_MAX - 1, SIZE_MAX / 2, &p->pids);
	uint32_t id;

	for (size_t i = 0; i < prof_agg_count_cnt(s->walk.agg) && r == 0; i++) {
		const struct ev_count *c = prof_agg_count_at(s->walk.agg, i);

		if (!c->foreign_ns)
			r = intern_add(p->pids, &c->proc.pid, sizeof(c->proc.pid), &id, NULL);
	}
	return r;
}

static bool is_sampled(const struct perf_data *p, uint32_t pid)
{
	return intern_find(p->pids, &pid, sizeof(pid)) != INTERN_NONE;
}

static int add_side(struct perf_data *p, const struct stream_event *ev)
{
	struct enc_perf_record rec = {.pid = ev->pid, .tid = ev->tid, .time_ns = ev->time_ns};

	switch ((enum ev_proc_type)ev->type) {
	case EV_PROC_FORK:
	case EV_PROC_EXIT:
		rec.type = ev->type == EV_PROC_FORK ? ENC_PERF_FORK : ENC_PERF_EXIT;
		rec.parent = (struct enc_perf_parent){.ppid = ev->ppid, .ptid = ev->ptid};
		if (!is_sampled(p, ev->pid))
			return 0;
		break;
	case EV_PROC_LOST:
		rec = (struct enc_perf_record){
		        .type = ENC_PERF_LOST, .time_ns = ev->time_ns, .lost = ev->lost};
		break;
	case EV_PROC_KSYMBOL:
		/* AutoFDO 0.19 ends reading at the first one, and writes an empty profile. */
		if (p->classic)
			return 0;
		rec = (struct enc_perf_record){.type = ENC_PERF_KSYMBOL, .time_ns = ev->time_ns};
		rec.ksymbol = (struct enc_perf_ksymbol){.start = ev->start,
		                                        .len = ev->len,
		                                        .bpf = ev->bpf,
		                                        .gone = ev->gone,
		                                        .name = ev->name};
		break;
	case EV_PROC_COMM: /* names are written as samples need them */
	case EV_PROC_MMAP:
		return 0;
	}
	return vec_push(&p->facts.side, rec);
}

/* Adds what happened to processes, and at the end how many samples the stream lacks. */
static int add_events(struct perf_data *p, const struct ses *s)
{
	size_t n, n_samples;
	const struct stream_event *ev = stream_events(s->walk.stream, &n);
	const struct stream_sample *v = stream_samples(s->walk.stream, &n_samples);
	struct enc_perf_record rec = {.type = ENC_PERF_LOST_SAMPLES, .lost = ses_stream_lost(s)};
	int r = 0;

	for (size_t i = 0; i < n && r == 0; i++)
		r = add_side(p, &ev[i]);
	if (r < 0 || !rec.lost)
		return r;
	rec.time_ns = MAX_OF(n ? ev[n - 1].time_ns : 0, n_samples ? v[n_samples - 1].time_ns : 0);
	return vec_push(&p->facts.side, rec);
}

/* ---- the file -------------------------------------------------------------------------------- */

struct destination {
	struct enc_output *to;
	struct err *err;
};

static int append(void *arg, const void *data, size_t len)
{
	const struct destination *d = arg;

	return enc_output_append(d->to, data, len, d->err);
}

int ses_perf_data_write(struct ses *s, uint32_t modes, uint32_t compress, struct enc_output *to,
                        struct err *err)
{
	_cleanup_(perf_data_done) struct perf_data p = {.classic = !compress};
	uint32_t event[2] = {UINT32_MAX, UINT32_MAX}; /* by whether it is of off-CPU intervals */
	struct destination dest = {.to = to, .err = err};
	struct enc_perf_data d;
	int r;

	arena_init(&p.facts.strings, (size_t)64 << 20);
	p.facts.side.max = UINT32_MAX;
	for (size_t i = 0; i < SRC_CNT; i++)
		if (modes & src_all[i]->mode && s->product[i].result.model)
			event[s->product[i].kind.offcpu] = add_event(&p, s, i);
	r = ses_perf_facts_read(s, &p.facts);
	if (r == 0)
		r = add_pids(&p, s);
	if (r == 0)
		r = add_events(&p, s);
	if (r == 0)
		r = add_build_ids(&p, s);
	if (r == 0)
		r = ses_perf_records_new(s, event, &p.records);
	if (r < 0)
		return err_set(err, r, "%s", err_name(r));
	d = (struct enc_perf_data){.events = p.events,
	                           .n_events = p.n_events,
	                           .build_ids = p.build_ids.p,
	                           .n_build_ids = p.build_ids.n,
	                           .facts = p.facts.facts,
	                           .kernel = p.facts.kernel,
	                           .side = p.facts.side.p,
	                           .n_side = p.facts.side.n,
	                           .next = ses_perf_records_next,
	                           .rewind = ses_perf_records_rewind,
	                           .arg = p.records,
	                           .zstd_level = (int)compress};
	r = enc_perf_data(&d, append, &dest, err);
	return r < 0 ? r : enc_output_commit(to, NULL, 0, err);
}
