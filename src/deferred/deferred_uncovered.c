/* SPDX-License-Identifier: Apache-2.0 */
/* In which files callers were guessed. The walks say of a whole stack that a caller in it was; in
 * which frame, the tables tell afterwards: where code has no rule there was nothing but a guess.
 * Thread: C, after D and W; once for each stack, not for each sample. */
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

/* Is this the end of a thread, which is known by its instructions? The walk itself decides. */
static bool is_known_end(struct deferred *d, const struct ev_frame *f)
{
	struct code_at at = {.d = d, .f = f};
	const struct uw_target target = {.place = place,
	                                 .read = no_data,
	                                 .read_code = read_code,
	                                 .arg = &at,
	                                 .in_syscall = !f->exact};
	const uint64_t reg[ABI_REGS] = {0};

	uw_walk(d->store, d->rules, &target, f->addr, reg, true, &d->walk);
	return d->walk.walk == ABI_WALK_ROOT && d->walk.guessed == 0;
}

/* Has this frame no rule now? Then *ret says where. */
static bool is_gap(const struct deferred *d, const struct ev_frame *f,
                   struct deferred_uncovered *ret)
{
	uint64_t look = f->exact ? f->addr : f->addr - 1;
	uint16_t code = ABI_CODE_NONE;
	int r;

	*ret = (struct deferred_uncovered){0};
	if (f->space == EV_SPACE_RAW || f->space == EV_SPACE_MOVED)
		return true;
	if (f->space != EV_SPACE_IMAGE || f->image == 0) /* JIT code is not called guessed */
		return false;
	ret->image = f->image;
	r = uw_store_code(d->store, f->image, look, &code);
	if (r < 0) {
		ret->bare = true;
		return true;
	}
	/* A return address that was put there by hand, to the very start of a root: as the walks
	 * do. */
	if (code == ABI_CODE_NONE && !f->exact &&
	    uw_store_code(d->store, f->image, f->addr, &code) == 0 && code != ABI_CODE_ROOT)
		code = ABI_CODE_NONE;
	return code == ABI_CODE_NONE || code == ABI_CODE_BAD;
}

bool deferred_uncovered_at(struct deferred *d, const struct ev_stack *st, uint32_t i,
                           const struct ev_frame *placed, bool any, struct deferred_uncovered *ret)
{
	bool last = i + 1 == st->n;

	if (!d->has_tables)
		return false;
	/* Below an exact pc was a signal's trampoline: known, not guessed. */
	if (!last && st->frames[i + 1].exact)
		return false;
	/* The last frame gave no caller that is there to be seen. The walk may have guessed its
	 * end, or what it threw away: believed only where no other frame explains the flag. */
	if (last && st->walk != EV_WALK_DEPTH && any)
		return false;
	if (!is_gap(d, placed, ret))
		return false;
	return !(last && st->walk == EV_WALK_ROOT && placed->space == EV_SPACE_IMAGE &&
	         is_known_end(d, placed));
}
