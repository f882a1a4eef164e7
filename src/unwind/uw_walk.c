/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The walks of user space: the look-up and step of the programs, over the caller's memory.
 */
#include "unwind/unwind_priv.h"

/* The object of the hooks of step and look-up. */
struct walk_mem {
	const struct uw_target *target;
	const struct uw_rules_mem *rules;
};

static int walk_is_code(const struct walk_mem *m, __u64 addr, __u32 sure);

static int walk_read(const struct walk_mem *m, __u64 *ret, __u64 addr)
{
	uint64_t v = 0;
	int r = m->target->read(m->target->arg, &v, addr);

	if (r == 0)
		*ret = v;
	return r;
}

static int walk_read_code(const struct walk_mem *m, __u64 *ret, __u64 addr)
{
	uint64_t v = 0;
	int r = m->target->read_code(m->target->arg, &v, addr);

	if (r == 0)
		*ret = v;
	return r;
}

#define UW_MEM                       const struct walk_mem
#define UW_READ(mem, ret, addr)      walk_read(mem, ret, addr)
#define UW_READ_CODE(mem, ret, addr) walk_read_code(mem, ret, addr)
#define UW_IS_CODE(mem, addr, sure)  walk_is_code(mem, addr, sure)
#define UW_RULE(mem, i)              ((i) < (mem)->rules->n_rules ? &(mem)->rules->rules[i] : NULL)
#define UW_WIDE(mem, i)              ((i) < (mem)->rules->n_wides ? &(mem)->rules->wides[i] : NULL)
#define UW_OP(mem, i)                ((i) < (mem)->rules->n_ops ? &(mem)->rules->ops[i] : NULL)
#include "step/step.h"

/* Returns 1 if the address is in executable memory and, if the bytes before it can be read, after a
 * call. */
static int walk_is_code(const struct walk_mem *m, __u64 addr, __u32 sure)
{
	const struct uw_target *t = m->target;
	uint32_t image;
	uint64_t off, before;

	if (addr < UW_USER_MIN || addr >= UW_USER_END ||
	    t->resolve(t->arg, addr - 1, &image, &off) < 0)
		return 0;
	if ((sure && image == 0) || t->read_code(t->arg, &before, addr - 8))
		return 1;
	return uw_after_call(before);
}

/* Encodes and records the frame at @u: *ret_image (0: JIT code, or unknown) and *ret_off. Negative
 * if no known executable mapping covers it. */
static int walk_place(const struct uw_target *t, const struct uw_state *u, struct uw_walk *ret,
                      uint32_t *ret_image, uint64_t *ret_off)
{
	uint64_t frame;
	uint32_t image = 0;
	uint64_t off = 0;
	int r = t->resolve(t->arg, uw_lookup_pc(u), &image, &off);

	if (r < 0)
		frame = u->pc & ABI_FRAME_ADDR_MASK;
	else if (image == 0)
		frame = (ABI_SPACE_ANON << ABI_FRAME_SPACE_SHIFT) | (u->pc & ABI_FRAME_ADDR_MASK);
	else
		frame = (ABI_SPACE_IMAGE << ABI_FRAME_SPACE_SHIFT) |
		        ((uint64_t)(image & ABI_IMAGE_MAX) << ABI_FRAME_IMAGE_SHIFT) |
		        ((off + (u->pc - uw_lookup_pc(u))) & ABI_FRAME_OFF_MASK);
	if (u->exact)
		frame |= ABI_FRAME_EXACT;
	ret->frames[ret->n++] = frame;
	*ret_image = image;
	*ret_off = off;
	return r;
}

void uw_walk(const struct uw_store *store, const struct uw_rules *rules, const struct uw_target *t,
             uint64_t pc, const uint64_t *reg, bool final, struct uw_walk *ret)
{
	const struct walk_mem mem = {.target = t, .rules = uw_rules_mem(rules)};
	struct uw_state u = {.pc = pc};

	for (uint32_t i = 0; i < ABI_REGS; i++)
		u.reg[i] = reg[i];
	uw_begin(&u);
	u.exact = !t->in_syscall;
	ret->n = 0;
	ret->flags = 0;
	ret->image = 0;
	ret->walk = 0;
	ret->unresolved = false;
	while (ret->n < ABI_MAX_USER_FRAMES && ret->walk == 0) {
		uint32_t image;
		uint64_t off;
		uint16_t code = ABI_CODE_NONE;
		int r = walk_place(t, &u, ret, &image, &off);
		bool jit = r == 0 && image == 0;

		ret->unresolved = r < 0;
		/* Not code: the last step found no caller. */
		if (r < 0 && ret->n > 1 && !u.exact && !walk_is_code(&mem, u.pc, 0)) {
			ret->n--;
			ret->walk = ABI_WALK_IMPLAUSIBLE;
			break;
		}
		if (image) {
			r = uw_store_code(store, image, off, &code);
			if (r == -EAGAIN)
				ret->image = image;
			if (r == -EAGAIN && !final) {
				ret->walk = ABI_WALK_NO_TABLE;
				break;
			}
			if (r < 0)
				code = ABI_CODE_NONE;
			/* Code wrote this return address, the start of a root, without a call. */
			if (code == ABI_CODE_NONE && !u.exact &&
			    uw_store_code(store, image, off + 1, &code) == 0 &&
			    code != ABI_CODE_ROOT)
				code = ABI_CODE_NONE;
		}
		if (jit)
			ret->flags |= ABI_STACK_JIT;
		if (code == ABI_CODE_NONE || code == ABI_CODE_BAD)
			ret->walk = uw_step_heuristic(&u, &mem, uw_special(&u, &mem), code, jit);
		else
			ret->walk = uw_step(&u, &mem, code);
	}
	if (ret->walk == 0)
		ret->walk = ABI_WALK_DEPTH;
	if (ret->walk == ABI_WALK_UNCOVERED && ret->image)
		ret->walk = ABI_WALK_NO_TABLE;
	ret->unresolved = ret->unresolved && ret->walk != ABI_WALK_ROOT;
	ret->heuristic = u.heuristic;
	if (u.heuristic)
		ret->flags |= ABI_STACK_HEURISTIC;
}

uint64_t uw_stack_hash(uint64_t seed, const uint64_t *frames, size_t n, int walk, uint8_t flags)
{
	uint64_t h = seed;

	for (size_t i = 0; i < n; i++)
		h = uw_hash_mix(h, frames[i], seed);
	return uw_hash_finish(h, (__u32)n, (__u32)walk, flags, seed);
}
