// SPDX-License-Identifier: Apache-2.0
/* Hostile registers and stacks: the walk ends, reads only what is declared, two words a frame at
 * the most. */
#include "event/event.h"
#include "unwind/unwind.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct stack {
	const uint8_t *p;
	size_t len;
	uint64_t base;
	size_t reads;
};

static int read_stack(void *arg, uint64_t *ret, uint64_t addr)
{
	struct stack *s = arg;

	s->reads++;
	if (addr < s->base || addr - s->base > s->len || s->len - (addr - s->base) < 8)
		return -1;
	memcpy(ret, s->p + (addr - s->base), 8);
	return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct cursor c = cursor_of(data, size);
	struct uw_start at;
	struct stack s = {0};
	const struct uw_memory mem = {.read = read_stack, .arg = &s};
	uint64_t pcs[ABI_MAX_USER_FRAMES];
	int stop = -1;
	size_t n;

	if (cursor_u64(&c, &at.pc) < 0 || cursor_u64(&c, &at.sp) < 0 || cursor_u64(&c, &at.fp) < 0)
		return 0;
	s.p = c.p;
	s.len = cursor_left(&c);
	s.base = at.sp;
	n = uw_walk_fp(&at, &mem, pcs, ABI_MAX_USER_FRAMES, &stop);
	if (n < 1 || n > ABI_MAX_USER_FRAMES || s.reads > 2 * n || stop < ABI_WALK_ROOT ||
	    stop > ABI_WALK_BAD_PC)
		abort();
	return 0;
}
