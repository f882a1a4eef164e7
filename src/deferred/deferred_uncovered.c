/* SPDX-License-Identifier: Apache-2.0 */
/* Finds the files of uncovered frames. A walk flags a whole stack as heuristic. The tables tell
 * afterwards which frames: those whose code has no rule.
 * Thread: control, after the drain and the tracker; once for each stack, not for each sample. */
#include "deferred/deferred_priv.h"

struct code_at {
	const struct deferred *d;
	const struct ev_frame *f;
};

static int place(void *arg, uint64_t addr, uint32_t *ret_image, uint64_t *ret_off)
{
	*ret_image = ((const struct code_at *)arg)->f->image;
	*ret_off = addr; /* file offsets serve as addresses */
	return 0;
}

static int no_data(void *arg, uint64_t *ret, uint64_t addr)
{
	(void)arg;
	(void)ret;
	(void)addr;
	return -EFAULT;
}

static int read_code(void *arg, uint64_t *ret, uint64_t off)
{
	const struct code_at *at = arg;
	const struct trk_image *img = trk_image(at->d->o.trk, at->f->image);
	uint64_t word;

	if (!img || deferred_image_read(at->d, img, off, &word, sizeof(word)) != sizeof(word))
		return -EFAULT;
	*ret = word;
	return 0;
}

/* Whether a walk recognizes this frame as the root of a thread by its instructions. */
static bool is_known_end(struct deferred *d, const struct ev_frame *f)
{
	struct code_at at = {.d = d, .f = f};
	const struct uw_target target = {.resolve = place,
	                                 .read = no_data,
	                                 .read_code = read_code,
	                                 .arg = &at,
	                                 .in_syscall = !f->exact};
	const uint64_t reg[ABI_REGS] = {0};

	uw_walk(d->store, d->rules, &target, f->addr, reg, true, &d->walk);
	return d->walk.walk == ABI_WALK_ROOT && d->walk.heuristic == 0;
}

/* Whether the frame has no rule now; then *ret is its file. */
static bool is_uncovered(const struct deferred *d, const struct ev_frame *f,
                         struct deferred_uncovered *ret)
{
	uint64_t look = f->exact ? f->addr : f->addr - 1;
	uint16_t code = ABI_CODE_NONE;
	int r;

	*ret = (struct deferred_uncovered){0};
	if (f->space == EV_SPACE_RAW || f->space == EV_SPACE_MOVED)
		return true;
	if (f->space != EV_SPACE_IMAGE || f->image == 0) /* JIT code has frame pointers */
		return false;
	ret->image = f->image;
	r = uw_store_code(d->store, f->image, look, &code);
	if (r < 0) {
		ret->bare = true;
		return true;
	}
	/* As in the walks: a return address to the very start of a root was written by hand. */
	if (code == ABI_CODE_NONE && !f->exact &&
	    uw_store_code(d->store, f->image, f->addr, &code) == 0 && code != ABI_CODE_ROOT)
		code = ABI_CODE_NONE;
	return code == ABI_CODE_NONE || code == ABI_CODE_BAD;
}

bool deferred_uncovered_at(struct deferred *d, const struct ev_stack *st, uint32_t i,
                           const struct ev_frame *resolved, bool any,
                           struct deferred_uncovered *ret)
{
	bool last = i + 1 == st->n;

	if (!d->has_tables)
		return false;
	/* The frame before an exact pc is a signal trampoline: not heuristic. */
	if (!last && st->frames[i + 1].exact)
		return false;
	/* The caller of the last frame is not in the stack: the walk may have found the root, or a
	 * dropped frame, heuristically. Counted only if no other frame explains the flag. */
	if (last && st->walk != EV_WALK_DEPTH && any)
		return false;
	if (!is_uncovered(d, resolved, ret))
		return false;
	return !(last && st->walk == EV_WALK_ROOT && resolved->space == EV_SPACE_IMAGE &&
	         is_known_end(d, resolved));
}
