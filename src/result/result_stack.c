/* SPDX-License-Identifier: Apache-2.0 */
/* Stacks to lists of locations, which are cached for shared stacks. */
#include "result/result_priv.h"

static const char *kernel_name(const struct result_source *src, const struct ev_frame *f)
{
	struct sym_named n = src->name(src->arg, 0, f->exact ? f->addr : f->addr - 1);

	return n.n ? n.frames[0].name : "";
}

/* Frames at the top of a kernel stack of a switch or a wake-up: our program, and its callers in the
 * tracepoint. */
#define TRACED_MAX 12
uint32_t result_traced_frames(const struct result_source *src, const struct ev_stack *st)
{
	static const char *const names[] = {"bpf_trace_run", "__bpf_trace_sched_",
	                                    "__traceiter_sched_"};
	uint32_t skip = 0;

	for (uint32_t i = 0; i < st->n && i < TRACED_MAX; i++) {
		const char *name = kernel_name(src, &st->frames[i]);
		bool traced = strcmp(name, "__schedule") == 0;

		for (size_t k = 0; k < ARRAY_SIZE(names) && !traced; k++)
			traced = str_starts(name, names[k]);
		if (traced)
			skip = i + 1;
	}
	return skip < st->n ? skip : 0;
}

/* Returns the number of frames of a waker's kernel stack up to the entry of an interrupt, 0: none.
 * The rest is the interrupted code, which is not the waker. */
static uint32_t interrupt_depth(const struct build *b, const struct ev_stack *st)
{
	static const char *const names[] = {"asm_sysvec_", "asm_common_interrupt",
	                                    "el1h_64_irq", "el0t_64_irq",
	                                    "el1_irq",     "el0_irq",
	                                    "asm_exc_nmi"};

	for (uint32_t i = 0; i < st->n; i++) {
		const char *name = kernel_name(b->src, &st->frames[i]);

		for (size_t k = 0; k < ARRAY_SIZE(names); k++)
			if (str_starts(name, names[k]))
				return i + 1;
	}
	return 0;
}

/* Marks the location of frame @i and appends its file if it is uncovered, unless the files from
 * index @first on have it. */
static int append_uncovered(struct build *b, const struct ev_stack *st, uint32_t i,
                            const struct ev_frame *resolved, uint32_t loc, size_t first)
{
	struct result_uncovered uncovered;

	if (st->kernel || !(st->flags & EV_STACK_HEURISTIC) ||
	    !b->src->uncovered(b->src->arg, st, i, resolved, b->uncovered.n > first, &uncovered))
		return 0;
	prof_model_uncovered(b->m, loc);
	for (size_t k = first; k < b->uncovered.n; k++)
		if (b->uncovered.p[k].image == uncovered.image &&
		    b->uncovered.p[k].bare == uncovered.bare)
			return 0;
	return vec_push(&b->uncovered, uncovered);
}

int result_append_frames(struct build *b, const struct ev_proc_id *proc, const struct ev_stack *st,
                         struct result_outcome *ret)
{
	uint32_t loc;
	int r = 0;

	*ret = (struct result_outcome){.walk = st->walk,
	                               .flags = st->flags,
	                               .space = EV_SPACE_RAW,
	                               .shared = true,
	                               .uncovered = (uint32_t)b->uncovered.n};
	if (st->kernel && st->n == 0) {
		/* The sample was in the kernel: without this frame it would look like user code. */
		r = result_synthetic(b, "[kernel stack failed]", &loc);
		return r < 0 ? r : vec_push(&b->locs, loc);
	}
	for (uint32_t i = st->kernel && b->kind->offcpu ? result_traced_frames(b->src, st) : 0;
	     i < st->n && r == 0; i++) {
		struct ev_frame f = st->frames[i];

		if (f.space == EV_SPACE_RAW) {
			ret->shared = false;
			b->src->resolve(b->src->arg, proc, &st->frames[i], &f);
			if (f.space == EV_SPACE_RAW && i > 0 &&
			    b->src->proc_reason(b->src->arg, proc) == EV_REASON_NAMED) {
				/* No code of a process with known mappings: the frame pointer was a
				 * general register. */
				ret->walk = EV_WALK_IMPLAUSIBLE;
				return 0;
			}
		}
		if (jit_any(b->src->jit) && jit_maybe(b->src->jit, &f))
			ret->shared = false;
		ret->space = f.space;
		ret->image = f.image;
		if (f.space == EV_SPACE_RAW)
			r = result_make_location(b, proc, &f, &loc);
		else
			r = result_frame_location(b, proc, &f, &loc);
		if (r == 0)
			r = vec_push(&b->locs, loc);
		if (r == 0)
			r = append_uncovered(b, st, i, &f, loc, ret->uncovered);
		ret->n_uncovered = (uint32_t)b->uncovered.n - ret->uncovered;
	}
	if (r == 0 && st->walk == EV_WALK_DEPTH) {
		r = result_synthetic(b, st->kernel ? "[truncated kernel stack]" : "[truncated]",
		                     &loc);
		if (r == 0)
			r = vec_push(&b->locs, loc);
	}
	return r;
}

int result_append_stack(struct build *b, const struct ev_proc_id *proc, uint64_t hash,
                        struct result_outcome *ret, bool *ret_lost)
{
	uint32_t id = intern_find(b->stack_keys, &hash, sizeof(hash)), first = (uint32_t)b->locs.n,
	         loc;
	const struct ev_stack *st;
	int r;

	*ret_lost = false;
	if (id != INTERN_NONE) {
		const struct result_stack *k = &b->stacks.p[id];

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
	st = prof_agg_stack(b->agg, hash);
	if (!st) {
		*ret_lost = true;
		*ret = (struct result_outcome){.walk = EV_WALK_NONE, .shared = true};
		r = result_synthetic(b, "[stack lost]", &loc);
		return r < 0 ? r : vec_push(&b->locs, loc);
	}
	r = result_append_frames(b, proc, st, ret);
	if (r == 0 && ret->shared) {
		struct result_stack k = {.first = (uint32_t)b->stack_locs.n,
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

int result_append_waker(struct build *b, const struct ev_count *c, const char **ret)
{
	const struct ev_waker *w = prof_agg_waker(b->agg, c->waker);
	const struct ev_stack *kernel = w && w->kstack ? prof_agg_stack(b->agg, w->kstack) : NULL;
	uint32_t loc, irq = kernel ? interrupt_depth(b, kernel) : 0;
	struct ev_stack cut;
	struct result_outcome end;
	bool lost;
	int r = result_synthetic(b, "[woken by]", &loc);

	/* The leaf stays the function in which the thread is blocked. */
	if (r == 0)
		r = vec_push(&b->locs, loc);
	*ret = w ? (w->tid && !irq ? w->comm : "[interrupt]") : "[waker lost]";
	if (r < 0 || !w)
		return r;
	if (irq) {
		cut = *kernel;
		cut.n = irq;
		return result_append_frames(b, &w->proc, &cut, &end);
	}
	if (w->kstack)
		r = result_append_stack(b, &w->proc, w->kstack, &end, &lost);
	if (r == 0 && w->ustack)
		r = result_append_stack(b, &w->proc, w->ustack, &end, &lost);
	return r;
}
