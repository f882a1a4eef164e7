/* SPDX-License-Identifier: Apache-2.0 */
/*
 * perf.data. Its records are listed first, since those of different CPUs are not in the order of
 * time; then they are applied in that order, so that each sample meets the mappings of its time.
 */
#include "decode/dec_perf_priv.h"

#include <inttypes.h>

#define FRAMES_MAX  PROF_LOCATIONS_MAX
#define STACKS_MAX  PROF_SAMPLES_MAX
#define KEY_BYTES   PROF_KEY_BYTES_MAX
#define THREADS_MAX 4194304
#define FILES_MAX   DEC_PERF_FILES_MAX

static void perf_done(struct dec_perf *p)
{
	vec_done(&p->attrs);
	p->ids = intern_free(p->ids);
	vec_done(&p->id_attrs);
	sbuf_done(&p->unpacked);
	vec_done(&p->refs);
	p->texts = intern_free(p->texts);
	p->build_id_paths = intern_free(p->build_id_paths);
	vec_done(&p->build_ids);
	p->image_keys = intern_free(p->image_keys);
	vec_done(&p->images);
	p->range_keys = intern_free(p->range_keys);
	vec_done(&p->ranges);
	dec_perf_proc_done(p);
	p->pids = intern_free(p->pids);
	p->tids = intern_free(p->tids);
	vec_done(&p->comms);
	p->frames = intern_free(p->frames);
	vec_done(&p->frame_models);
	p->stacks = intern_free(p->stacks);
	p->keys = intern_free(p->keys);
	vec_done(&p->sums);
	vec_done(&p->stack);
}

static int perf_init(struct dec_perf *p, struct dec_input *in)
{
	uint32_t id;
	int r;

	p->in = in;
	sbuf_init(&p->unpacked,
	          in->o->max_unpacked_bytes ? in->o->max_unpacked_bytes : DEC_UNPACKED_BYTES_MAX);
	p->frame_models.max = FRAMES_MAX;
	p->sums.max = STACKS_MAX;
	p->stack.max = PROF_SAMPLE_LOCS_MAX;
	r = intern_new(FILES_MAX, KEY_BYTES, &p->texts);
	if (r == 0)
		r = intern_add(p->texts, "", 0, &id, NULL);
	if (r == 0)
		r = intern_new(FILES_MAX, KEY_BYTES, &p->build_id_paths);
	if (r == 0)
		r = intern_new(FILES_MAX, KEY_BYTES, &p->image_keys);
	if (r == 0)
		r = intern_new(FILES_MAX, KEY_BYTES, &p->range_keys);
	if (r == 0)
		r = intern_new(THREADS_MAX, KEY_BYTES, &p->pids);
	if (r == 0)
		r = intern_new(THREADS_MAX, KEY_BYTES, &p->tids);
	if (r == 0)
		r = intern_new(FRAMES_MAX, KEY_BYTES, &p->frames);
	if (r == 0)
		r = intern_new(STACKS_MAX, KEY_BYTES, &p->stacks);
	if (r == 0)
		r = intern_new(STACKS_MAX, KEY_BYTES, &p->keys);
	return r < 0 ? dec_model_err(in, r, DEC_NO_BYTE) : 0;
}

/* ---- samples --------------------------------------------------------------------------------- */

static int add_frame(struct dec_perf *p, const struct dec_perf_sample *s, struct dec_perf_frame f)
{
	uint32_t id = 0;
	bool is_new = false;
	int r = vec_reserve(&p->frame_models, 1);

	if (r == 0)
		r = intern_add(p->frames, &f, sizeof(f), &id, &is_new);
	if (r == 0 && is_new)
		r = vec_push(&p->frame_models, 0);
	if (r < 0)
		return r;
	p->frame_models.p[id] |= 1U << p->attrs.p[s->attr].model;
	return vec_push(&p->stack, id);
}

static int add_address(struct dec_perf *p, const struct dec_perf_sample *s, uint16_t mode,
                       uint64_t addr, bool exact)
{
	struct dec_perf_frame f = {.addr = exact || addr == 0 ? addr : addr - 1};

	if (mode == PERF_RECORD_MISC_USER)
		f = dec_perf_user_frame(p, s->pid, addr, exact);
	else if (mode == PERF_RECORD_MISC_KERNEL)
		f.space = DEC_PERF_KERNEL;
	return add_frame(p, s, f);
}

/* The mode that a marker in a stack says that the addresses after it have. */
static uint16_t mode_of(uint64_t marker)
{
	switch ((int64_t)marker) {
	case PERF_CONTEXT_KERNEL:
		return PERF_RECORD_MISC_KERNEL;
	case PERF_CONTEXT_USER:
		return PERF_RECORD_MISC_USER;
	default:
		return PERF_RECORD_MISC_CPUMODE_UNKNOWN; /* of a guest or a hypervisor */
	}
}

static int read_stack(struct dec_perf *p, const struct dec_perf_sample *s)
{
	uint16_t mode = s->misc & PERF_RECORD_MISC_CPUMODE_MASK;
	const bool cut = p->attrs.p[s->attr].exclude_callchain_user;
	const uint64_t user_ip = s->user_ip                      ? s->user_ip
	                         : mode == PERF_RECORD_MISC_USER ? s->ip
	                                                         : 0;
	struct cursor chain = s->chain;
	bool exact = true, has_user = false;
	uint64_t addr;
	int r = 0;

	p->stack.n = 0;
	while (r == 0 && cursor_u64(&chain, &addr) == 0) {
		if (addr >= (uint64_t)PERF_CONTEXT_MAX) {
			/* The kernel writes user addresses last: what looks like a marker after them is a word that
			 * frame pointers led to. */
			if (!has_user) {
				mode = mode_of(addr);
				exact = true;
			}
			continue;
		}
		has_user |= mode == PERF_RECORD_MISC_USER;
		r = add_address(p, s, mode, addr, exact);
		exact = false;
	}
	if (r == 0 && cut && !has_user && user_ip) {
		p->cnt.user_cut++;
		return add_address(p, s, PERF_RECORD_MISC_USER, user_ip, true);
	}
	if (r == 0 && p->stack.n == 0 && s->ip)
		r = add_address(p, s, s->misc & PERF_RECORD_MISC_CPUMODE_MASK, s->ip, true);
	return r;
}

static void add_up(struct dec_perf_sum *sum, uint64_t period)
{
	sum->samples++;
	if (period > INT64_MAX ||
	    __builtin_add_overflow(sum->weight, (int64_t)period, &sum->weight))
		sum->weight = INT64_MAX;
}

static int add_sample(struct dec_perf *p, const struct dec_perf_sample *s)
{
	struct dec_perf_key key = {
	        .attr = s->attr, .pid = s->pid, .tid = s->tid, .comm = dec_perf_comm(p, s->tid)};
	uint32_t id = 0;
	bool is_new = false;
	int r = read_stack(p, s);

	if (r == 0)
		r = intern_add(p->stacks, p->stack.n ? (const void *)p->stack.p : "",
		               p->stack.n * sizeof(*p->stack.p), &key.stack, NULL);
	if (r == 0)
		r = vec_reserve(&p->sums, 1);
	if (r == 0)
		r = intern_add(p->keys, &key, sizeof(key), &id, &is_new);
	if (r == 0 && is_new)
		r = vec_push(&p->sums, (struct dec_perf_sum){0});
	if (r < 0)
		return r;
	add_up(&p->sums.p[id], s->period);
	add_up(&p->attrs.p[s->attr].sum, s->period);
	if (s->has_time && (p->facts.first_ns == 0 || s->time < p->facts.first_ns))
		p->facts.first_ns = s->time;
	if (s->has_time && s->time > p->facts.last_ns)
		p->facts.last_ns = s->time;
	return 0;
}

static int read_ref(struct dec_perf *p, const struct dec_perf_ref *ref)
{
	const bool unpacked = ref->at & DEC_PERF_UNPACKED;
	const uint64_t at = ref->at & ~DEC_PERF_UNPACKED;
	/* The list was made of whole records. */
	struct cursor c = unpacked ? cursor_of(p->unpacked.p + at, p->unpacked.len - at)
	                           : cursor_of(p->in->data + at, p->in->len - at),
	              body = {0};
	struct perf_event_header h = {0};
	struct dec_perf_sample s;
	int r = cursor_bytes(&c, &h, sizeof(h));

	assert(r == 0 && h.size >= sizeof(h));
	r = cursor_sub(&c, h.size - sizeof(h), &body);
	assert(r == 0);
	if (h.type == PERF_RECORD_SAMPLE) {
		r = dec_perf_sample(p, h.misc, body, &s);
		if (r == 0)
			r = add_sample(p, &s);
	} else {
		r = dec_perf_apply(p, &h, body);
	}
	if (r == -ENODATA)
		return dec_bad(p->in, -EINVAL, at,
		               "perf.data: a record of type %u is shorter than its content%s",
		               h.type, unpacked ? ", among the compressed ones" : "");
	return r < 0 ? dec_perf_err(p, r, at) : 0;
}

/* Models are in the order of events. An event without samples has none, unless there is no other. */
static int number_models(struct dec_perf *p)
{
	uint32_t n = 0;

	vec_each (a, &p->attrs) {
		if (!a->has_samples)
			continue;
		if (n == DEC_MODELS_MAX)
			return err_set(p->in->err, -E2BIG, "%s: samples of more than %d events",
			               p->in->name, DEC_MODELS_MAX);
		a->model = n++;
	}
	if (n == 0 && p->attrs.n > 0)
		p->attrs.p[0].has_samples = true;
	if (p->attrs.n == 0)
		return err_set(p->in->err, -EINVAL, "%s: perf.data: it has no events", p->in->name);
	return 0;
}

static void add_notes(struct dec_perf *p)
{
	if (p->sums.n == 0)
		dec_note(p->in, "perf recorded no samples");
	if (p->cnt.lost)
		dec_note(p->in,
		         "%" PRIu64 " samples or other records were lost while perf recorded",
		         p->cnt.lost);
	if (p->cnt.throttled)
		dec_note(p->in, "the kernel throttled sampling %" PRIu64 " times",
		         p->cnt.throttled);
	if (p->cnt.user_cut)
		dec_note(p->in,
		         "%" PRIu64 " samples of --call-graph dwarf have the innermost user frame "
		         "alone: copies of stacks are not unwound; perf-agent --profile or "
		         "perf record -g gives whole stacks",
		         p->cnt.user_cut);
	if (p->cnt.hardware_trace)
		dec_note(p->in, "hardware traces (AUX area) were left out");
	if (p->cnt.no_maps)
		dec_note(p->in,
		         "%" PRIu64 " processes have no mappings: too many were copied by forks",
		         p->cnt.no_maps);
}

int dec_perf(struct dec_input *in)
{
	_cleanup_free_ struct dec_perf *p = calloc(1, sizeof(*p));
	int r;

	if (!p)
		return dec_model_err(in, -ENOMEM, DEC_NO_BYTE);
	r = perf_init(p, in);
	if (r == 0)
		r = dec_perf_scan(p);
	if (r == 0)
		r = number_models(p);
	for (size_t i = 0; i < p->refs.n && r == 0; i++)
		r = read_ref(p, &p->refs.p[i]);
	vec_done(&p->refs);
	if (r == 0) {
		add_notes(p);
		r = dec_perf_models(p);
	}
	perf_done(p);
	return r;
}
