/* SPDX-License-Identifier: Apache-2.0 */
/* From what was added up, where it lay and what it is called to the model that is encoded. Thread:
 * C, after D and W. */
#include "session/session_priv.h"

#include <stdio.h>

/* A stretch of an image in the profile: one mapping stands for all processes that map it. */
struct stretch {
	uint32_t mapping; /* model id */
	uint64_t pgoff, len, start;
};

#define STRETCHES_MAX                                                                              \
	1024 /* of one image: they are looked through; frames past them have no mapping */

struct image_maps {
	VEC(struct stretch) v;
};

/* How the walk of a stack ended. */
struct outcome {
	uint8_t walk;  /* enum ev_walk */
	uint8_t flags; /* EV_STACK_* */
	uint8_t space; /* enum ev_space of the last frame; RAW where there is none */
	bool shared;   /* its frames do not depend on the process */
	uint32_t image;
	uint32_t gap, n_gaps; /* gaps[gap], …: where callers were guessed */
};

/* Locations of a stack whose frames do not depend on the process. */
struct stack_locs {
	uint32_t first, n;
	struct outcome o;
};

/* What the location of a frame depends on. */
struct frame_key {
	struct ev_frame frame;
	uint32_t jit, epoch; /* process (jit_find_proc) and time, for code that has no file */
};
_Static_assert(sizeof(struct frame_key) == 24, "hashed as bytes");

/* Frames that were met lately: most frames of a stack were in others before, and the table of all
 * is several times as large as a cache. */
#define MEMO_FRAMES 8192

struct memo {
	struct ev_frame frame;
	uint32_t loc; /* 0: free */
};

struct build {
	struct ses *s;
	enum ses_kind kind;
	struct memo
	        *memo; /* memo[MEMO_FRAMES]; only of frames that are no JIT code in any process */
	struct prof_model *m;
	struct ses_places *places;
	struct image_maps *images; /* images[n_images + 1], by id */
	uint32_t n_images;
	uint32_t kernel_mapping, jit_mapping; /* model ids, 0 until needed */
	uint32_t epoch;                       /* of the sample in work */
	struct intern *frame_keys;            /* struct frame_key -> index of frame_locs */
	VEC(uint32_t) frame_locs;
	struct intern *stack_keys; /* hash -> index of stacks */
	VEC(struct stack_locs) stacks;
	VEC(uint32_t) stack_locs;
	VEC(uint32_t) locs;        /* of the sample in work */
	uint64_t *incomplete;      /* incomplete[n_images + 1], see ses_quality_sums */
	uint64_t *guessed_in;      /* guessed_in[2 * (n_images + 1)], as well */
	struct deferred_gaps gaps; /* of all shared stacks, then those of the sample in work */
	struct ses_quality_sums q;
	/* Strings. */
	uint32_t key_pid, key_tid, key_comm, key_state, key_longest, key_runq, key_waker,
	        nanoseconds;
};

static void build_done(struct build *b)
{
	free(b->memo);
	for (uint32_t i = 0; b->images && i <= b->n_images; i++)
		vec_done(&b->images[i].v);
	free(b->images);
	free(b->incomplete);
	free(b->guessed_in);
	vec_done(&b->gaps.v);
	b->frame_keys = intern_free(b->frame_keys);
	vec_done(&b->frame_locs);
	b->stack_keys = intern_free(b->stack_keys);
	vec_done(&b->stacks);
	vec_done(&b->stack_locs);
	vec_done(&b->locs);
}

/* ---- mappings -------------------------------------------------------------------------------- */

static int add_mapping(struct build *b, const char *path, const uint8_t *build_id,
                       size_t build_id_len, uint64_t start, uint64_t limit, uint64_t offset,
                       uint32_t *ret)
{
	struct prof_mapping map = {.start = start, .limit = limit, .offset = offset};
	char hex[2 * EV_BUILD_ID_MAX + 1] = "";
	int r;

	for (size_t i = 0; i < build_id_len; i++)
		(void)snprintf(hex + 2 * i, 3, "%02x", build_id[i]);
	r = prof_model_string(b->m, path, &map.path);
	if (r == 0)
		r = prof_model_string(b->m, hex, &map.build_id);
	return r < 0 ? r : prof_model_mapping(b->m, &map, ret);
}

/* One mapping for the kernel and its modules: kallsyms does not tell where modules end. */
static int kernel_mapping(struct build *b, uint32_t *ret)
{
	uint8_t id[EV_BUILD_ID_MAX];
	size_t len = 0;
	int r = 0;

	if (!b->kernel_mapping) {
		if (proc_kernel_build_id(id, &len) < 0)
			len = 0; /* the mapping then has none */
		r = add_mapping(b, "[kernel]", id, len, 0xffff000000000000ULL, UINT64_MAX, 0,
		                &b->kernel_mapping);
	}
	*ret = b->kernel_mapping;
	return r;
}

static int jit_mapping(struct build *b, uint32_t *ret)
{
	int r = 0;

	if (!b->jit_mapping)
		r = add_mapping(b, "[jit]", NULL, 0, 4096, 1ULL << 56, 4096, &b->jit_mapping);
	*ret = b->jit_mapping;
	return r;
}

/* Where file offset @off of an image is shown: 0, -EINVAL (mapped nowhere), -E2BIG (the image has
 * too many stretches, or the profile too many mappings), -ENOMEM. */
static int image_address(struct build *b, const struct ev_proc_id *proc, uint32_t image,
                         uint64_t off, uint32_t *ret_map, uint64_t *ret_addr)
{
	const struct trk_image *img;
	struct stretch n;
	struct trk_place pl;
	int r;

	if (image == 0 || image > b->n_images)
		return -EINVAL;
	vec_each (st, &b->images[image].v) {
		if (off >= st->pgoff && off - st->pgoff < st->len) {
			*ret_map = st->mapping;
			*ret_addr = st->start + (off - st->pgoff);
			return 0;
		}
	}
	img = trk_image(b->s->trk, image);
	if (trk_place_image(b->s->trk, proc, image, off, &pl) < 0)
		return -EINVAL;
	n = (struct stretch){
	        .pgoff = pl.map_pgoff, .len = pl.map_end - pl.map_start, .start = pl.map_start};
	r = vec_reserve(&b->images[image].v, 1);
	if (r == 0)
		r = add_mapping(b, img->path, img->build_id, img->build_id_len, pl.map_start,
		                pl.map_end, pl.map_pgoff, &n.mapping);
	if (r == 0)
		r = vec_push(&b->images[image].v, n);
	if (r < 0)
		return r;
	*ret_map = n.mapping;
	*ret_addr = n.start + (off - n.pgoff);
	return 0;
}

/* ---- locations ------------------------------------------------------------------------------- */

static int synthetic(struct build *b, const char *name, uint32_t *ret)
{
	struct prof_function fn = {0};
	struct prof_line line = {0};
	int r = prof_model_string(b->m, name, &fn.name);

	if (r == 0)
		r = prof_model_function(b->m, &fn, &line.function);
	return r < 0 ? r : prof_model_location(b->m, 0, 0, EV_REASON_NAMED, &line, 1, ret);
}

static int frame_line(struct build *b, const struct sym_frame *f, struct prof_line *ret)
{
	struct prof_function fn = {.start_line = f->start_line};
	int r = prof_model_text(b->m, f->name, &fn.name);

	if (r == 0)
		r = prof_model_text(b->m, f->linkage, &fn.system_name);
	if (r == 0 && f->file)
		r = prof_model_text(b->m, f->file, &fn.file);
	*ret = (struct prof_line){.line = f->line, .column = f->column};
	return r < 0 ? r : prof_model_function(b->m, &fn, &ret->function);
}

/* @shown: the address by which people know an unnamed frame; @module: of it, or NULL. */
static int named_location(struct build *b, uint32_t mapping, uint64_t address,
                          const struct sym_named *n, uint64_t shown, const char *module,
                          uint32_t *ret)
{
	struct prof_line lines[SYM_FRAMES_MAX];
	struct prof_function fn = {0};
	char text[512];
	uint32_t n_lines = 0;
	int r = 0;

	for (uint32_t i = 0; i < n->n && n_lines < ARRAY_SIZE(lines) && r == 0; i++)
		r = frame_line(b, &n->frames[i], &lines[n_lines++]);
	if (n->n == 0) {
		if (module)
			(void)snprintf(text, sizeof(text), "0x%llx [%s]", (unsigned long long)shown,
			               module);
		else
			(void)snprintf(text, sizeof(text), "0x%llx", (unsigned long long)shown);
		r = prof_model_string(b->m, text, &fn.name);
		(void)snprintf(text, sizeof(text), "unresolved: %s", ev_reason_name(n->reason));
		if (r == 0)
			r = prof_model_string(b->m, text, &fn.system_name);
		lines[0] = (struct prof_line){0};
		if (r == 0)
			r = prof_model_function(b->m, &fn, &lines[0].function);
		n_lines = 1;
	}
	if (r == 0)
		r = prof_model_location(b->m, mapping, address, (uint8_t)n->reason, lines, n_lines,
		                        ret);
	/* Outside of what stands for it, as an address near the ends of the range can be: shown
	 * without. */
	if (r == -EINVAL)
		r = prof_model_location(b->m, 0, address, (uint8_t)n->reason, lines, n_lines, ret);
	return r;
}

/* As make_location; -ENOENT: nothing is known of it. */
static int jit_location(struct build *b, const struct ev_proc_id *proc, const struct frame_key *key,
                        uint32_t *ret)
{
	uint64_t look = key->frame.addr - !key->frame.exact;
	struct sym_named n = {0};
	struct trk_place pl;
	uint32_t map;
	int r;

	if (key->frame.space == EV_SPACE_IMAGE) {
		if (trk_place_image(b->s->trk, proc, key->frame.image, look, &pl) < 0)
			return -ENOENT;
		look = pl.map_start + (look - pl.map_pgoff);
	}
	if (!jit_name(b->s->jit, key->jit, (uint16_t)key->epoch, look, &n))
		return -ENOENT;
	r = jit_mapping(b, &map);
	return r < 0 ? r : named_location(b, map, look, &n, look, NULL, ret);
}

static int make_location(struct build *b, const struct ev_proc_id *proc, const struct ev_frame *f,
                         uint32_t *ret)
{
	uint64_t look = f->exact ? f->addr : f->addr - 1, address;
	struct sym_named n = {0};
	uint32_t map = 0;
	int r;

	switch ((enum ev_space)f->space) {
	case EV_SPACE_KERNEL:
		n = symbolizer_find(b->s->symbolizer, SYMBOLIZER_KERNEL, look);
		r = kernel_mapping(b, &map);
		return r < 0 ? r : named_location(b, map, look, &n, look, NULL, ret);
	case EV_SPACE_IMAGE:
		n = symbolizer_find(b->s->symbolizer, f->image, look);
		r = image_address(b, proc, f->image, look, &map, &address);
		if (r == -ENOMEM)
			return r;
		if (r < 0)
			address = look; /* and map is 0: its name says the file */
		return named_location(b, map, address, &n, n.start,
		                      f->image <= b->n_images
		                              ? str_base_name(trk_image(b->s->trk, f->image)->path)
		                              : NULL,
		                      ret);
	case EV_SPACE_ANON:
		n.reason = EV_REASON_JIT;
		r = jit_mapping(b, &map);
		return r < 0 ? r : named_location(b, map, look, &n, look, "jit", ret);
	case EV_SPACE_RAW:
		n.reason = trk_proc_reason(b->s->trk, proc);
		if (n.reason == EV_REASON_NAMED)
			n.reason = EV_REASON_NO_MAPPING;
		return named_location(b, 0, look, &n, look, NULL, ret);
	case EV_SPACE_MOVED:
		n.reason = EV_REASON_MOVED;
		return named_location(b, 0, look, &n, look, NULL, ret);
	}
	return -EINVAL;
}

static struct memo *memo_of(struct build *b, const struct ev_frame *f)
{
	/* Bits in the middle of the product depend on all bits of both. */
	uint64_t mixed = (f->addr ^ (uint64_t)f->image << 40) * 0x9e3779b97f4a7c15ULL;

	return &b->memo[(mixed >> 32) % MEMO_FRAMES];
}

/* Location of a frame whose meaning does not depend on the process, unless it is JIT code. */
static int frame_location(struct build *b, const struct ev_proc_id *proc, const struct ev_frame *f,
                          uint32_t *ret)
{
	struct frame_key key = {.frame = *f};
	struct memo *memo = memo_of(b, f);
	bool maybe_jit;
	uint32_t id, loc;
	int r = -ENOENT;

	if (memo->loc && memcmp(&memo->frame, f, sizeof(*f)) == 0) {
		*ret = memo->loc;
		return 0;
	}
	maybe_jit = jit_maybe(b->s->jit, f);
	if (maybe_jit) {
		key.jit = jit_find_proc(b->s->jit, proc);
		key.epoch = key.jit ? b->epoch : 0;
	}
	id = intern_find(b->frame_keys, &key, sizeof(key));

	if (id != INTERN_NONE) {
		*ret = b->frame_locs.p[id];
		if (!maybe_jit)
			*memo = (struct memo){*f, *ret};
		return 0;
	}
	/* Key and location are added together or not at all: a frame that failed is met again. */
	if (key.jit)
		r = jit_location(b, proc, &key, &loc);
	if (r == -ENOENT)
		r = make_location(b, proc, f, &loc);
	if (r == 0)
		r = vec_reserve(&b->frame_locs, 1);
	if (r == 0)
		r = intern_add(b->frame_keys, &key, sizeof(key), &id, NULL);
	if (r == 0)
		r = vec_push(&b->frame_locs, loc);
	if (r == 0 && !maybe_jit)
		*memo = (struct memo){*f, loc};
	if (r == 0)
		*ret = loc;
	return r;
}

static const char *kernel_name(const struct build *b, const struct ev_frame *f)
{
	struct sym_named n = symbolizer_find(b->s->symbolizer, SYMBOLIZER_KERNEL,
	                                     f->exact ? f->addr : f->addr - 1);

	return n.n ? n.frames[0].name : "";
}

/* What a kernel stack of a switch or a wake-up begins with: our program, and how it was called. */
#define TRACED_MAX 12
static uint32_t skip_traced(const struct build *b, const struct ev_stack *st)
{
	static const char *const names[] = {"bpf_trace_run", "__bpf_trace_sched_",
	                                    "__traceiter_sched_"};
	uint32_t skip = 0;

	for (uint32_t i = 0; i < st->n && i < TRACED_MAX; i++) {
		const char *name = kernel_name(b, &st->frames[i]);
		bool traced = strcmp(name, "__schedule") == 0;

		for (size_t k = 0; k < ARRAY_SIZE(names) && !traced; k++)
			traced = str_starts(name, names[k]);
		if (traced)
			skip = i + 1;
	}
	return skip < st->n ? skip : 0;
}

/* Frames of a waker's kernel stack up to where an interrupt came in, 0: none did. The rest is what
 * was interrupted, and has nothing to do with it. */
static uint32_t interrupt_depth(const struct build *b, const struct ev_stack *st)
{
	static const char *const names[] = {"asm_sysvec_", "asm_common_interrupt",
	                                    "el1h_64_irq", "el0t_64_irq",
	                                    "el1_irq",     "el0_irq",
	                                    "asm_exc_nmi"};

	for (uint32_t i = 0; i < st->n; i++) {
		const char *name = kernel_name(b, &st->frames[i]);

		for (size_t k = 0; k < ARRAY_SIZE(names); k++)
			if (str_starts(name, names[k]))
				return i + 1;
	}
	return 0;
}

/* Appends the locations of a stack to b->locs; *ret: how it ended, as far as is known now. */
static int append_frames(struct build *b, const struct ev_proc_id *proc, const struct ev_stack *st,
                         struct outcome *ret)
{
	uint32_t loc;
	int r = 0;

	*ret = (struct outcome){.walk = st->walk,
	                        .flags = st->flags,
	                        .space = EV_SPACE_RAW,
	                        .shared = true,
	                        .gap = (uint32_t)b->gaps.v.n};
	if (st->kernel && st->n == 0) {
		/* The sample was in the kernel: without this frame it would pass for user code. */
		r = synthetic(b, "[kernel stack failed]", &loc);
		return r < 0 ? r : vec_push(&b->locs, loc);
	}
	for (uint32_t i = st->kernel && b->kind == SES_KIND_OFFCPU ? skip_traced(b, st) : 0;
	     i < st->n && r == 0; i++) {
		struct ev_frame f = st->frames[i];

		if (f.space == EV_SPACE_RAW) {
			ret->shared = false;
			ses_place_raw(b->s, b->places, proc, &st->frames[i], &f);
			if (f.space == EV_SPACE_RAW && i > 0 &&
			    trk_proc_reason(b->s->trk, proc) == EV_REASON_NAMED) {
				/* Not code of a process whose mappings are known: the frame pointer
				 * led astray. */
				ret->walk = EV_WALK_IMPLAUSIBLE;
				return 0;
			}
		}
		if (jit_any(b->s->jit) && jit_maybe(b->s->jit, &f))
			ret->shared = false;
		ret->space = f.space;
		ret->image = f.image;
		if (f.space == EV_SPACE_RAW)
			r = make_location(b, proc, &f, &loc);
		else
			r = frame_location(b, proc, &f, &loc);
		if (r == 0)
			r = vec_push(&b->locs, loc);
		if (r == 0)
			r = deferred_gap_add(b->s->deferred, st, i, &f, &b->gaps, ret->gap);
		ret->n_gaps = (uint32_t)b->gaps.v.n - ret->gap;
	}
	if (r == 0 && st->walk == EV_WALK_DEPTH) {
		r = synthetic(b, st->kernel ? "[truncated kernel stack]" : "[truncated]", &loc);
		if (r == 0)
			r = vec_push(&b->locs, loc);
	}
	return r;
}

static int append_stack(struct build *b, const struct ev_count *c, uint64_t hash,
                        struct outcome *ret, bool *ret_lost)
{
	uint32_t id = intern_find(b->stack_keys, &hash, sizeof(hash)), first = (uint32_t)b->locs.n,
	         loc;
	const struct ev_stack *st;
	int r;

	*ret_lost = false;
	if (id != INTERN_NONE) {
		const struct stack_locs *k = &b->stacks.p[id];

		r = vec_reserve(&b->locs, k->n);
		if (r < 0)
			return r;
		if (k->n)
			memcpy(b->locs.p + b->locs.n, b->stack_locs.p + k->first,
			       k->n * sizeof(uint32_t));
		b->locs.n += k->n;
		*ret = k->o;
		return 0;
	}
	st = prof_agg_stack(b->s->agg, hash);
	if (!st) {
		*ret_lost = true;
		*ret = (struct outcome){.walk = EV_WALK_NONE, .shared = true};
		r = synthetic(b, "[stack lost]", &loc);
		return r < 0 ? r : vec_push(&b->locs, loc);
	}
	r = append_frames(b, &c->proc, st, ret);
	if (r == 0 && ret->shared) {
		struct stack_locs k = {.first = (uint32_t)b->stack_locs.n,
		                       .n = (uint32_t)b->locs.n - first,
		                       .o = *ret};

		r = vec_reserve(&b->stack_locs, k.n);
		if (r == 0)
			r = vec_reserve(&b->stacks, 1);
		if (r == 0)
			r = intern_add(b->stack_keys, &hash, sizeof(hash), &id, NULL);
		if (r == 0 && k.n)
			memcpy(b->stack_locs.p + b->stack_locs.n, b->locs.p + first,
			       k.n * sizeof(uint32_t));
		if (r == 0) {
			b->stack_locs.n += k.n;
			r = vec_push(&b->stacks, k);
		}
	}
	return r;
}

/* ---- samples --------------------------------------------------------------------------------- */

/* Frames of a stack, and those of them with a name. */
struct named {
	uint32_t n, named;
};

static struct named count_named(const struct build *b, size_t first, uint8_t walk)
{
	/* The last is no frame but a mark: [truncated]. */
	struct named ret = {.n = (uint32_t)(b->locs.n - first) - (walk == EV_WALK_DEPTH)};

	for (uint32_t i = 0; i < ret.n; i++) {
		uint32_t loc = b->locs.p[first + i];

		ret.named += b->m->locations.p[loc - 1].reason == EV_REASON_NAMED;
	}
	return ret;
}

static void add_gaps(struct build *b, const struct outcome *user, uint64_t weight)
{
	b->q.guessed += weight;
	if (user->n_gaps == 0)
		b->q.guessed_early += weight;
	for (uint32_t i = 0; i < user->n_gaps; i++) {
		const struct deferred_gap *gap = &b->gaps.v.p[user->gap + i];
		uint32_t image = gap->image <= b->n_images ? gap->image : 0;

		b->guessed_in[2 * (size_t)image + (image && gap->bare)] += weight;
	}
}

/* The figures of a sample none of whose stacks was lost. */
static void add_outcome(struct build *b, const struct outcome *user, bool kernel_cut,
                        uint64_t weight)
{
	/* What is incomplete for its kernel stack alone is of no outcome; where there is no user
	 * stack nothing of it is missing. */
	if (kernel_cut)
		b->q.kernel_cut += weight;
	if (!kernel_cut || !ses_has_user_stack(user->walk))
		b->q.walk[user->walk] += weight;
	if (user->flags & EV_STACK_GUESSED)
		add_gaps(b, user, weight);
	if (user->flags & EV_STACK_JIT)
		b->q.jit += weight;
	if (user->walk == EV_WALK_ROOT || !ses_has_user_stack(user->walk))
		return;
	if (user->space == EV_SPACE_IMAGE && user->image <= b->n_images)
		b->incomplete[user->image] += weight;
	else if (user->space == EV_SPACE_ANON)
		b->incomplete[0] += weight;
	else
		b->q.incomplete_unknown += weight;
}

/* Labels of a sample under construction. */
struct labels {
	struct prof_label v[8 + SES_LABELS_MAX]; /* ours, and enrichers' */
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

/* Who woke it, as callers of the whole: the leaf stays where it waits. */
static int append_waker(struct build *b, const struct ev_count *c, struct labels *l)
{
	const struct ev_waker *w = prof_agg_waker(b->s->agg, c->waker);
	const struct ev_stack *kernel =
	        w && w->kstack ? prof_agg_stack(b->s->agg, w->kstack) : NULL;
	uint32_t loc, irq = kernel ? interrupt_depth(b, kernel) : 0;
	struct ev_count as = *c;
	struct ev_stack cut;
	struct outcome end;
	bool lost;
	int r = synthetic(b, "[woken by]", &loc);

	if (r == 0)
		r = vec_push(&b->locs, loc);
	if (r < 0 || !w)
		return r < 0 ? r : add_text(b, l, b->key_waker, "[waker lost]");
	as.proc = w->proc;
	if (irq) {
		cut = *kernel;
		cut.n = irq;
		r = append_frames(b, &as.proc, &cut, &end);
	} else if (w->kstack) {
		r = append_stack(b, &as, w->kstack, &end, &lost);
	}
	if (r == 0 && w->ustack && !irq)
		r = append_stack(b, &as, w->ustack, &end, &lost);
	if (r == 0)
		r = add_text(b, l, b->key_waker, w->tid && !irq ? w->comm : "[interrupt]");
	return r;
}

/* What is said of waits: their state, and figures that do not add up from sample to sample. */
static int add_wait_labels(struct build *b, const struct ev_count *c, struct labels *l)
{
	int r = add_text(b, l, b->key_state, ev_off_name((enum ev_off)c->off));

	add_number(l, b->key_longest, c->longest_ns, b->nanoseconds);
	add_number(l, b->key_runq, c->runq_ns, b->nanoseconds);
	return r;
}

/* What enrichers say of the process. */
static int add_process_labels(struct build *b, const struct ev_count *c, struct labels *l)
{
	struct ses_proc_labels of;
	int r = ses_labels_of(b->s, &c->proc, c->foreign_ns,
	                      prof_agg_comm(b->s->agg, &c->proc, c->proc.pid), &of);

	for (uint32_t i = 0; r == 0 && i < of.n; i++) {
		uint32_t key;

		r = prof_model_string(b->m, of.v[i].key, &key);
		if (r == 0)
			r = add_text(b, l, key, of.v[i].value);
	}
	return r;
}

/* Of a process that has no number here nothing but its stack can be read. Who only looks at what
 * could not be found calls that ended, or not there yet. */
static void name_foreign(struct outcome *user)
{
	if (user->walk == EV_WALK_GONE || user->walk == EV_WALK_NO_TABLE ||
	    user->walk == EV_WALK_NO_REGS)
		user->walk = EV_WALK_FOREIGN;
}

static int add_sample(struct build *b, const struct ev_count *c, uint64_t weight)
{
	struct labels labels = {0};
	uint32_t loc;
	const char *comm;
	int64_t values[2] = {(int64_t)c->samples, (int64_t)weight};
	struct outcome user_end = {.walk = EV_WALK_NONE, .shared = true}, kernel_end = user_end;
	struct named kernel = {0}, user = {0};
	bool lost = false, klost = false;
	int r = 0;

	b->locs.n = 0;
	b->epoch = c->epoch;
	if (c->kstack) {
		r = append_stack(b, c, c->kstack, &kernel_end, &klost);
		if (r == 0 && !klost && b->locs.n)
			kernel = count_named(b, 0, kernel_end.walk);
	}
	if (r == 0 && c->ustack) {
		size_t first = b->locs.n;

		r = append_stack(b, c, c->ustack, &user_end, &lost);
		if (r == 0 && !lost && b->locs.n > first)
			user = count_named(b, first, user_end.walk);
		if (c->foreign_ns)
			name_foreign(&user_end);
	}
	if (r == 0 && b->locs.n == 0) {
		r = synthetic(b, c->kthread ? "[kernel thread]" : "[no stack]", &loc);
		if (r == 0)
			r = vec_push(&b->locs, loc);
	}
	if (r < 0)
		return r;
	if (!c->foreign_ns) {
		add_number(&labels, b->key_pid, c->proc.pid, 0);
		add_number(&labels, b->key_tid, c->tid, 0);
	}
	comm = prof_agg_comm(b->s->agg, &c->proc, c->tid);
	if (comm && comm[0])
		r = add_text(b, &labels, b->key_comm, comm);
	if (r == 0 && c->off)
		r = add_wait_labels(b, c, &labels);
	if (r == 0 && c->waker)
		r = append_waker(b, c, &labels);
	if (r == 0 && b->s->n_enrichers)
		r = add_process_labels(b, c, &labels);
	if (r == 0)
		r = prof_model_sample(b->m, b->locs.p, (uint32_t)b->locs.n, labels.v, labels.n,
		                      values);
	if (r < 0)
		return r;

	b->q.weight += weight;
	b->q.kernel_frames += (double)kernel.n * (double)weight;
	b->q.kernel_named += (double)kernel.named * (double)weight;
	b->q.user_frames += (double)user.n * (double)weight;
	b->q.user_named += (double)user.named * (double)weight;
	if (lost || ses_has_user_stack(user_end.walk))
		b->q.user_weight += weight;
	if (lost || klost) {
		b->q.stack_lost += weight;
		if (!c->off)
			tally_count(&b->s->tally, TALLY_STACK_LOST, c->samples);
	} else {
		add_outcome(b, &user_end, kernel_end.walk == EV_WALK_DEPTH, weight);
	}
	if (!user_end.shared)
		b->gaps.v.n = user_end.gap; /* nobody comes back to them */
	return 0;
}

/* ---- the whole ------------------------------------------------------------------------------- */

static int set_header(struct build *b)
{
	struct ses *s = b->s;
	struct prof_model *m = b->m;
	const bool off = b->kind == SES_KIND_OFFCPU, cycles = s->cycles && !off;
	const struct {
		const char *text;
		uint32_t *id;
	} strings[] = {
	        {off ? "contentions" : "samples", &m->sample_type[0].type},
	        {"count", &m->sample_type[0].unit},
	        {off      ? "offcpu"
	         : cycles ? "cycles"
	                  : "cpu",
	         &m->sample_type[1].type},
	        {cycles ? "count" : "nanoseconds", &m->sample_type[1].unit},
	        {"nanoseconds", &b->nanoseconds},
	        {"state", &b->key_state},
	        {"longest", &b->key_longest},
	        {"runqueue", &b->key_runq},
	        {"waker", &b->key_waker},
	        {"pid", &b->key_pid},
	        {"tid", &b->key_tid},
	        {"comm", &b->key_comm},
	};

	for (size_t i = 0; i < ARRAY_SIZE(strings); i++) {
		int r = prof_model_string(m, strings[i].text, strings[i].id);

		if (r < 0)
			return r;
	}
	m->n_types = 2;
	m->default_type = m->sample_type[1].type;
	m->period_type = m->sample_type[1];
	m->period = off ? 1 : (int64_t)s->spec.period;
	m->time_realtime_ns = (int64_t)(s->start_realtime_ns +
	                                (off ? smp_off_stats(s->off)->begin_ns - s->start_ns : 0));
	m->duration_ns =
	        (int64_t)(off ? smp_off_stats(s->off)->end_ns - smp_off_stats(s->off)->begin_ns
	                      : s->final.elapsed_ns);
	return 0;
}

/* The target's own executable comes first: pprof takes it for the main binary. */
static int main_mapping(struct build *b)
{
	struct ev_proc_id id = {.pid = b->s->target_pid};
	uint32_t image, map = 0;
	uint64_t addr;
	int r = 0;

	if (b->s->o.target == SES_TARGET_ALL) {
		r = kernel_mapping(b, &map);
	} else {
		image = trk_main_image(b->s->trk, &id);
		if (image && image <= b->n_images && b->images[image].v.n)
			map = b->images[image].v.p[0].mapping;
		else if (image) {
			/* Not sampled itself; its mapping still belongs there. */
			struct trk_place pl;

			if (trk_place_image(b->s->trk, &id, image, TRK_OFF_ANY, &pl) == 0)
				(void)image_address(b, &id, image, pl.map_pgoff, &map, &addr);
		}
	}
	if (r == 0 && map)
		prof_model_main_mapping(b->m, map);
	return r;
}

/* What all samples need. */
static int prepare(struct build *b)
{
	struct ses *s = b->s;
	int r;

	b->frame_locs.max = b->stacks.max = b->stack_locs.max = b->locs.max = b->gaps.v.max =
	        UINT32_MAX;
	r = prof_model_new(&s->now->model);
	if (r < 0)
		return r;
	b->m = s->now->model;
	b->n_images = (uint32_t)trk_image_cnt(s->trk);
	b->images = calloc((size_t)b->n_images + 1, sizeof(*b->images));
	b->incomplete = calloc((size_t)b->n_images + 1, sizeof(*b->incomplete));
	b->guessed_in = calloc((size_t)b->n_images + 1, 2 * sizeof(*b->guessed_in));
	b->memo = calloc(MEMO_FRAMES, sizeof(*b->memo));
	if (!b->memo || !b->images || !b->incomplete || !b->guessed_in)
		return -ENOMEM;
	b->q.incomplete = b->incomplete;
	b->q.guessed_in = b->guessed_in;
	b->q.n_incomplete = b->n_images + 1;
	for (uint32_t i = 0; i <= b->n_images; i++)
		b->images[i].v.max = STRETCHES_MAX;
	r = intern_new(UINT32_MAX - 1, SIZE_MAX / 2, &b->frame_keys);
	if (r == 0)
		r = intern_new(UINT32_MAX - 1, SIZE_MAX / 2, &b->stack_keys);
	return r == 0 ? set_header(b) : r;
}

/* Adds all samples; one that cannot be added is counted and left out, and without memory (@r too)
 * so are all that follow. */
static int add_samples(struct build *b, int r)
{
	struct ses *s = b->s;

	for (size_t i = 0; i < prof_agg_count_cnt(s->agg); i++) {
		const struct ev_count *c = prof_agg_count_at(s->agg, i);
		const bool off = b->kind == SES_KIND_OFFCPU;
		uint64_t weight =
		        off || !s->cpu_time ? c->weight : ses_cpu_time_weight(s->cpu_time, c);
		int failed;

		if ((c->off != EV_OFF_NONE) != off)
			continue;
		failed = r < 0 ? r : add_sample(b, c, weight);
		if (failed == -ENOMEM)
			r = failed;
		if (failed < 0) {
			tally_count(&s->tally,
			            off ? TALLY_OFF_DROP_FULL_AGG : TALLY_DROP_MODEL_FULL,
			            c->samples);
			continue;
		}
		s->now->kept += c->samples;
		s->now->weight += weight;
	}
	return r;
}

/* @r: what went wrong before. */
static int build_product(struct ses *s, enum ses_kind kind, struct ses_places *places, int r)
{
	_cleanup_(build_done) struct build b = {.s = s, .kind = kind, .places = places};
	const struct prof_agg_stats *as = prof_agg_stats(s->agg);

	s->now = &s->product[kind];
	r = add_samples(&b, r < 0 ? r : prepare(&b));
	if (kind == SES_KIND_ONCPU) {
		tally_count(&s->tally, TALLY_DROP_AGG_FULL, as->counts_dropped_samples);
		s->final.kept = s->now->kept;
		s->final.weight = s->now->weight;
		s->final.dropped = tally_dropped(&s->tally, &s->tally.kernel);
		if (r == 0 && s->spec.freq && s->final.kept) /* the kernel kept changing it: mean */
			b.m->period = (int64_t)(s->final.weight / s->final.kept);
	} else {
		ses_off_kept(s);
	}
	if (r == 0)
		r = main_mapping(&b);
	if (r < 0)
		return r;
	vec_each (loc, &b.m->locations)
		b.q.reason_frames[loc->reason]++;
	return ses_quality_add(s, kind, &b.q);
}

int ses_profile_build(struct ses *s, struct err *err)
{
	_cleanup_(ses_places_done) struct ses_places places = {0};
	const struct prof_agg_stats *as = prof_agg_stats(s->agg);
	const uint64_t limit_ms = s->o.naming_limit_ms ? s->o.naming_limit_ms : SES_NAMING_MS;
	const uint64_t until_ns = now_ns() + limit_ms * NSEC_PER_MSEC;
	int r;

	ses_places_init(&places);
	ses_request_rest(s, &places);
	jit_finish(s->jit);
	r = symbolizer_finish(s->symbolizer, until_ns, limit_ms);
	ses_check_privileges(s, symbolizer_kernel_error(s->symbolizer));
	tally_count(&s->tally, TALLY_STACKS_OVER_LIMIT, as->stacks_dropped);
	s->final.stacks = as->stacks;
	for (int i = 0; i < SES_KIND_CNT; i++)
		if (ses_has(s, (enum ses_kind)i))
			r = build_product(s, (enum ses_kind)i, &places, r);
	return r < 0 ? err_set(err, r, "building the profile: %s", err_name(r)) : 0;
}
