/* SPDX-License-Identifier: Apache-2.0 */
/* Counts to samples of the model, and the quality of their stacks. */
#include "result/result_priv.h"

/* ---- samples --------------------------------------------------------------------------------- */

/* Frames of a stack, and those of them with a name. */
struct named {
	uint32_t n, named;
};

static struct named count_named(const struct build *b, size_t first, uint8_t walk)
{
	/* The last is not a frame but "[truncated]". */
	struct named ret = {.n = (uint32_t)(b->locs.n - first) - (walk == EV_WALK_DEPTH)};

	for (uint32_t i = 0; i < ret.n; i++) {
		uint32_t loc = b->locs.p[first + i];

		ret.named += b->m->locations.p[loc - 1].reason == EV_REASON_NAMED;
	}
	return ret;
}

static void add_uncovered(struct build *b, const struct result_outcome *user, uint64_t weight)
{
	b->ret->quality.heuristic += weight;
	if (user->n_uncovered == 0)
		b->ret->quality.heuristic_early += weight;
	for (uint32_t i = 0; i < user->n_uncovered; i++) {
		const struct result_uncovered *uncovered = &b->uncovered.p[user->uncovered + i];
		uint32_t image = uncovered->image <= b->n_images ? uncovered->image : 0;

		b->ret->quality.heuristic_in[2 * (size_t)image + (image && uncovered->bare)] +=
		        weight;
	}
}

/* Adds the outcome of a sample none of whose stacks was lost. */
static void add_outcome(struct build *b, const struct result_outcome *user, bool kernel_cut,
                        uint64_t weight)
{
	/* A truncated kernel stack makes the sample incomplete, but is not a user-walk outcome. */
	if (kernel_cut)
		b->ret->quality.kernel_cut += weight;
	if (!kernel_cut || !result_has_user_stack(user->walk))
		b->ret->quality.walk[user->walk] += weight;
	if (user->flags & EV_STACK_HEURISTIC)
		add_uncovered(b, user, weight);
	if (user->flags & EV_STACK_JIT)
		b->ret->quality.jit += weight;
	if (user->walk == EV_WALK_ROOT || !result_has_user_stack(user->walk))
		return;
	if (user->space == EV_SPACE_IMAGE && user->image <= b->n_images)
		b->ret->quality.incomplete[user->image] += weight;
	else if (user->space == EV_SPACE_ANON)
		b->ret->quality.incomplete[0] += weight;
	else
		b->ret->quality.incomplete_unknown += weight;
}

/* Adds the weight to the location of the innermost user frame, if it has no name. Without memory the
 * statistics lack it, the profile does not. */
static void add_unnamed(struct build *b, uint32_t loc, uint64_t weight)
{
	struct result_quality *q = &b->ret->quality;

	if (b->m->locations.p[loc - 1].reason == EV_REASON_NAMED)
		return;
	if (loc > q->n_unnamed) {
		size_t n = MAX_OF((size_t)loc, 2 * q->n_unnamed);
		uint64_t *p = reallocarray(q->unnamed, n, sizeof(*p));

		if (!p)
			return;
		memset(p + q->n_unnamed, 0, (n - q->n_unnamed) * sizeof(*p));
		q->unnamed = p;
		q->n_unnamed = n;
	}
	q->unnamed[loc - 1] += weight;
}

/* Labels of a sample under construction. */
struct labels {
	struct prof_label v[8 + PFA_LABELS_MAX]; /* ours, and enrichers' */
	uint32_t n;
};

static int add_text(struct build *b, struct labels *l, uint32_t key, const char *text)
{
	uint32_t id;
	int r = prof_model_text(b->m, text, &id);

	if (r == 0)
		l->v[l->n++] = (struct prof_label){.key = key, .str = id};
	return r;
}

static void add_number(struct labels *l, uint32_t key, uint64_t num, uint32_t unit)
{
	l->v[l->n++] = (struct prof_label){
	        .key = key, .num = (int64_t)MIN_OF(num, (uint64_t)INT64_MAX), .unit = unit};
}

/* Adds the waker: its stack, and a label. */
static int add_waker(struct build *b, const struct ev_count *c, struct labels *l)
{
	const char *name;
	int r = result_append_waker(b, c, &name);

	return r < 0 ? r : add_text(b, l, b->key.waker, name);
}

/* Adds the state of an interval, and values that do not add up from sample to sample. */
static int add_wait_labels(struct build *b, const struct ev_count *c, struct labels *l)
{
	int r = add_text(b, l, b->key.state, ev_offcpu_name((enum ev_offcpu)c->offcpu));

	add_number(l, b->key.longest, c->longest_ns, b->key.nanoseconds);
	add_number(l, b->key.runqueue, c->runq_ns, b->key.nanoseconds);
	return r;
}

/* Adds the labels that enrichers gave to the process. */
static int add_process_labels(struct build *b, const struct ev_count *c, struct labels *l)
{
	const struct met_label *v;
	uint32_t n, key;
	int r = b->src->labels(b->src->arg, c, prof_agg_comm(b->agg, &c->proc, c->proc.pid), &v,
	                       &n);

	for (uint32_t i = 0; r == 0 && i < MIN_OF(n, (uint32_t)PFA_LABELS_MAX); i++) {
		r = prof_model_string(b->m, v[i].key, &key);
		if (r == 0)
			r = add_text(b, l, key, v[i].value);
	}
	return r;
}

/* Corrects the outcome of a process without a number in our pid namespace: nothing but its stack is
 * readable, so a failed look-up does not mean that it ended or has no table yet. */
static void name_foreign(struct result_outcome *user)
{
	if (user->walk == EV_WALK_GONE || user->walk == EV_WALK_NO_TABLE ||
	    user->walk == EV_WALK_NO_REGS)
		user->walk = EV_WALK_FOREIGN;
}

static int name_process(struct build *b, const struct ev_proc_id *proc)
{
	const char *comm = prof_agg_comm(b->agg, proc, proc->pid);

	if ((!comm || !comm[0]) && b->src->comm)
		comm = b->src->comm(b->src->arg, proc);
	return comm && comm[0] ? result_name_process(b->ret, proc->pid, comm) : 0;
}

static int add_sample(struct build *b, const struct ev_count *c, uint64_t weight)
{
	struct labels labels = {0};
	uint32_t loc;
	const char *comm;
	int64_t values[2] = {(int64_t)c->samples, (int64_t)weight};
	struct result_outcome user_end = {.walk = EV_WALK_NONE, .shared = true},
	                      kernel_end = user_end;
	struct named kernel = {0}, user = {0};
	bool lost = false, klost = false;
	uint32_t innermost = 0; /* location of the innermost user frame; 0: none */
	int r = 0;

	b->locs.n = 0;
	b->epoch = c->epoch;
	if (c->kstack) {
		r = result_append_stack(b, &c->proc, c->kstack, &kernel_end, &klost);
		if (r == 0 && !klost && b->locs.n)
			kernel = count_named(b, 0, kernel_end.walk);
	}
	if (r == 0 && c->ustack) {
		size_t first = b->locs.n;

		r = result_append_stack(b, &c->proc, c->ustack, &user_end, &lost);
		if (r == 0 && !lost && b->locs.n > first) {
			user = count_named(b, first, user_end.walk);
			innermost = b->locs.p[first];
		}
		if (c->foreign_ns)
			name_foreign(&user_end);
	}
	if (r == 0 && b->locs.n == 0) {
		r = result_synthetic(b, c->kthread ? "[kernel thread]" : "[no stack]", &loc);
		if (r == 0)
			r = vec_push(&b->locs, loc);
	}
	if (r < 0)
		return r;
	if (!c->foreign_ns) {
		add_number(&labels, b->key.pid, c->proc.pid, 0);
		add_number(&labels, b->key.tid, c->tid, 0);
	}
	comm = prof_agg_comm(b->agg, &c->proc, c->tid);
	if (comm && comm[0])
		r = add_text(b, &labels, b->key.comm, comm);
	if (r == 0 && !c->foreign_ns)
		r = name_process(b, &c->proc);
	if (r == 0 && c->offcpu)
		r = add_wait_labels(b, c, &labels);
	if (r == 0 && c->waker)
		r = add_waker(b, c, &labels);
	if (r == 0 && b->src->labels)
		r = add_process_labels(b, c, &labels);
	if (r == 0)
		r = prof_model_sample(b->m, b->locs.p, (uint32_t)b->locs.n, labels.v, labels.n,
		                      values);
	if (r < 0)
		return r;
	b->sample = prof_model_sample_at(b->m, b->locs.p, (uint32_t)b->locs.n, labels.v, labels.n);
	if (innermost)
		add_unnamed(b, innermost, weight);

	b->ret->quality.weight += weight;
	b->ret->quality.kernel_frames += (double)kernel.n * (double)weight;
	b->ret->quality.kernel_named += (double)kernel.named * (double)weight;
	b->ret->quality.user_frames += (double)user.n * (double)weight;
	b->ret->quality.user_named += (double)user.named * (double)weight;
	if (lost || result_has_user_stack(user_end.walk))
		b->ret->quality.user_weight += weight;
	if (lost || klost) {
		b->ret->quality.stack_lost += weight;
		if (!c->offcpu)
			b->ret->lost_stacks += c->samples;
	} else {
		add_outcome(b, &user_end, kernel_end.walk == EV_WALK_DEPTH, weight);
	}
	if (!user_end.shared)
		b->uncovered.n = user_end.uncovered; /* the outcome is not used any more */
	return 0;
}

/* ---- profile --------------------------------------------------------------------------------- */

static int set_header(struct build *b)
{
	const struct result_kind *kind = b->kind;
	struct prof_model *m = b->m;
	const bool offcpu = kind->offcpu, cycles = kind->cycles && !offcpu;
	const struct {
		const char *text;
		uint32_t *id;
	} strings[] = {
	        {offcpu ? "contentions" : "samples", &m->sample_type[0].type},
	        {"count", &m->sample_type[0].unit},
	        {offcpu   ? "offcpu"
	         : cycles ? "cycles"
	                  : "cpu",
	         &m->sample_type[1].type},
	        {cycles ? "count" : "nanoseconds", &m->sample_type[1].unit},
	        {"nanoseconds", &b->key.nanoseconds},
	        {"state", &b->key.state},
	        {"longest", &b->key.longest},
	        {"runqueue", &b->key.runqueue},
	        {"waker", &b->key.waker},
	        {"pid", &b->key.pid},
	        {"tid", &b->key.tid},
	        {"comm", &b->key.comm},
	};

	for (size_t i = 0; i < ARRAY_SIZE(strings); i++) {
		int r = prof_model_string(m, strings[i].text, strings[i].id);

		if (r < 0)
			return r;
	}
	m->n_types = 2;
	m->default_type = m->sample_type[1].type;
	m->period_type = m->sample_type[1];
	m->period = offcpu ? 1 : (int64_t)kind->period;
	m->time_realtime_ns = (int64_t)kind->begin_realtime_ns;
	m->duration_ns = (int64_t)kind->duration_ns;
	return 0;
}

/* Makes the mapping of the target's executable the first: pprof takes it for the main binary. */
static int main_mapping(struct build *b)
{
	const struct ev_proc_id id = {.pid = b->kind->target_pid};
	struct trk_location pl;
	uint32_t image, map = 0;
	uint64_t addr;
	int r = 0;

	if (b->kind->all) {
		r = result_kernel_mapping(b, &map);
	} else {
		image = b->src->main_image(b->src->arg, id.pid);
		if (image && image <= b->n_images && b->images[image].v.n)
			map = b->images[image].v.p[0].mapping;
		else if (image && b->src->mapping(b->src->arg, &id, image, TRK_OFF_ANY, &pl) == 0)
			/* It was not sampled, but must be the first mapping. */
			(void)result_image_address(b, &id, image, pl.map_pgoff, &map, &addr);
	}
	if (r == 0 && map)
		prof_model_main_mapping(b->m, map);
	return r;
}

/* Stretches of one image: the search is linear. Frames in further ones have no mapping. */
#define STRETCHES_MAX 1024

/* Makes the tables that all samples need. */
static int prepare(struct build *b)
{
	struct result_quality *q = &b->ret->quality;
	int r;

	b->frame_locs.max = b->stacks.max = b->stack_locs.max = b->locs.max = b->uncovered.max =
	        UINT32_MAX;
	r = prof_model_new(&b->ret->model);
	if (r < 0)
		return r;
	b->m = b->ret->model;
	b->n_images = b->src->n_images;
	b->images = calloc((size_t)b->n_images + 1, sizeof(*b->images));
	b->cache = calloc(RESULT_CACHE_FRAMES, sizeof(*b->cache));
	q->incomplete = calloc((size_t)b->n_images + 1, sizeof(*q->incomplete));
	q->heuristic_in = calloc((size_t)b->n_images + 1, 2 * sizeof(*q->heuristic_in));
	if (!b->cache || !b->images || !q->incomplete || !q->heuristic_in)
		return -ENOMEM;
	q->n_incomplete = b->n_images + 1;
	for (uint32_t i = 0; i <= b->n_images; i++)
		b->images[i].v.max = STRETCHES_MAX;
	r = intern_new(UINT32_MAX - 1, SIZE_MAX / 2, &b->frame_keys);
	if (r == 0)
		r = intern_new(UINT32_MAX - 1, SIZE_MAX / 2, &b->stack_keys);
	return r == 0 ? set_header(b) : r;
}

/* Adds all samples. A sample that cannot be added is dropped and counted; after -ENOMEM (also of
 * @r) so are all that follow. */
static int add_samples(struct build *b, int r)
{
	const size_t n = prof_agg_count_cnt(b->agg);

	if (r == 0 && n) {
		b->ret->samples_of = malloc(n * sizeof(*b->ret->samples_of));
		r = b->ret->samples_of ? 0 : -ENOMEM;
		b->ret->n_samples_of = b->ret->samples_of ? n : 0;
	}
	for (size_t i = 0; i < b->ret->n_samples_of; i++)
		b->ret->samples_of[i] = UINT32_MAX;
	for (size_t i = 0; i < prof_agg_count_cnt(b->agg); i++) {
		const struct ev_count *c = prof_agg_count_at(b->agg, i);
		const bool offcpu = b->kind->offcpu;
		uint64_t weight =
		        offcpu || !b->cpu_time ? c->weight : result_cpu_time_weight(b->cpu_time, c);
		int failed;

		if ((c->offcpu != EV_OFFCPU_NONE) != offcpu)
			continue;
		failed = r < 0 ? r : add_sample(b, c, weight);
		if (failed == -ENOMEM)
			r = failed;
		if (failed < 0) {
			b->ret->dropped += c->samples;
			continue;
		}
		b->ret->samples_of[i] = b->sample;
		b->ret->kept += c->samples;
		b->ret->weight += weight;
	}
	return r;
}

static void build_done(struct build *b)
{
	free(b->cache);
	for (uint32_t i = 0; b->images && i <= b->n_images; i++)
		vec_done(&b->images[i].v);
	free(b->images);
	vec_done(&b->uncovered);
	b->frame_keys = intern_free(b->frame_keys);
	vec_done(&b->frame_locs);
	b->stack_keys = intern_free(b->stack_keys);
	vec_done(&b->stacks);
	vec_done(&b->stack_locs);
	vec_done(&b->locs);
}

int result_build(const struct prof_agg *agg, const struct result_kind *kind,
                 const struct result_source *src, const struct result_cpu_time *cpu_time,
                 int before, struct result *ret)
{
	_cleanup_(build_done) struct build b = {
	        .agg = agg, .kind = kind, .src = src, .cpu_time = cpu_time, .ret = ret};
	int r = add_samples(&b, before < 0 ? before : prepare(&b));

	if (r == 0 && !kind->offcpu && kind->freq && ret->kept)
		b.m->period = (int64_t)(ret->weight / ret->kept);
	if (r == 0)
		r = main_mapping(&b);
	if (r < 0)
		return r;
	vec_each (loc, &b.m->locations)
		ret->quality.reason_frames[loc->reason]++;
	return 0;
}

void result_done(struct result *r)
{
	free(r->quality.incomplete);
	free(r->quality.heuristic_in);
	free(r->quality.unnamed);
	r->pids = intern_free(r->pids);
	vec_done(&r->comms);
	free(r->samples_of);
	r->model = prof_model_free(r->model);
	memset(r, 0, sizeof(*r));
}
