/* SPDX-License-Identifier: Apache-2.0 */
#include "unwind/unwind.h"

#define UW_MEM                  const struct uw_memory
#define UW_READ(mem, ret, addr) host_read(mem, ret, addr)

static int host_read(const struct uw_memory *mem, __u64 *ret, __u64 addr)
{
	uint64_t v = 0;
	int r = mem->read(mem->arg, &v, addr);

	if (r == 0)
		*ret = v;
	return r;
}

#include "unwind/unwind_step.h"

size_t uw_walk_fp(const struct uw_start *at, const struct uw_memory *mem, uint64_t *pcs, size_t max,
                  int *ret_walk)
{
	struct uw_regs r = {.pc = at->pc, .sp = at->sp, .fp = at->fp};
	size_t n = 0;
	int stop = ABI_WALK_DEPTH;

	while (n < max) {
		int s;

		pcs[n++] = r.pc;
		s = uw_step_fp(&r, mem);
		if (s) {
			stop = s;
			break;
		}
	}
	*ret_walk = stop;
	return n;
}

uint64_t uw_stack_hash(uint64_t seed, const uint64_t *frames, size_t n, int walk)
{
	uint64_t h = seed;

	for (size_t i = 0; i < n; i++)
		h = uw_hash_mix(h, frames[i], seed);
	return uw_hash_finish(h, (__u32)n, (__u32)walk, seed);
}

bool uw_call_precedes(const uint8_t before[8])
{
	uint64_t code;

	memcpy(&code, before, sizeof(code));
	return uw_after_call(code);
}
