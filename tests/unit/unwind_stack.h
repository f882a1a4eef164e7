/* SPDX-License-Identifier: Apache-2.0 */
/*
 * unwind-stack - a stack in memory, walked by frame pointers
 */
#ifndef PA_TEST_UNWIND_STACK_H
#define PA_TEST_UNWIND_STACK_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <cmocka.h>
#include "event/event.h"
#include "unwind/unwind.h"

/* Memory of a pretended target: words[] at base; anything else faults. */
struct fake_memory {
	uint64_t base;
	uint64_t words[4096];
	unsigned int reads;
};

static inline int read_fake(void *arg, uint64_t *ret, uint64_t addr)
{
	struct fake_memory *m = arg;

	m->reads++;
	if (addr < m->base || addr - m->base > sizeof(m->words) - 8)
		return -1;
	memcpy(ret, (const uint8_t *)m->words + (addr - m->base), 8);
	return 0;
}

/* A chain of @n frame records; the last one's saved frame pointer is @end. */
static inline struct fake_memory *chain(size_t n, uint64_t end)
{
	struct fake_memory *m = calloc(1, sizeof(*m));

	assert_non_null(m);
	m->base = 0x7ffc00001000;
	for (size_t i = 0; i < n; i++) {
		m->words[4 * i] = i + 1 < n ? m->base + 32 * (i + 1) : end;
		m->words[4 * i + 1] = 0x400000 + 16 * i;
	}
	return m;
}

/* The step over what a test calls memory; frame pointers need no rules. */
struct step_mem {
	int (*read)(void *arg, uint64_t *ret, uint64_t addr);
	void *arg;
};

static inline int step_read(const struct step_mem *m, __u64 *ret, uint64_t addr)
{
	uint64_t v;
	int r = m->read(m->arg, &v, addr);

	if (r == 0)
		*ret = v;
	return r;
}

#define NOT_CODE 0x66666660

#define UW_MEM                       const struct step_mem
#define UW_READ(mem, ret, addr)      step_read(mem, ret, addr)
#define UW_READ_CODE(mem, ret, addr) step_read(mem, ret, addr)
#define UW_IS_CODE(mem, addr, sure)  ((addr) != NOT_CODE)
#define UW_RULE(mem, i)              ((void)(i), (const struct abi_rule *)NULL)
#define UW_WIDE(mem, i)              ((void)(i), (const struct abi_wide *)NULL)
#define UW_OP(mem, i)                ((void)(i), (const struct abi_op *)NULL)
#include "step/step_compat.h"
/* The leaf's pc, then return addresses; DEPTH when @max was reached. */
static inline size_t walk_fp(const struct step_mem *mem, uint64_t pc, uint64_t sp, uint64_t fp,
                             uint64_t *pcs, size_t max, int *ret_walk)
{
	struct uw_state u = {.pc = pc};
	size_t n = 0;

	u.reg[ABI_REG_SP] = sp;
	u.reg[ABI_REG_FP] = fp;
	uw_begin(&u);
	*ret_walk = 0;
	while (n < max && *ret_walk == 0) {
		pcs[n++] = u.pc;
		*ret_walk = uw_step_fp(&u, mem);
	}
	if (*ret_walk == 0)
		*ret_walk = ABI_WALK_DEPTH;
	return n;
}
static inline size_t walk(struct fake_memory *m, uint64_t sp, uint64_t fp, uint64_t *pcs,
                          size_t max, int *ret_walk)
{
	return walk_fp(&(struct step_mem){read_fake, m}, 0x3fffff, sp, fp, pcs, max, ret_walk);
}

#endif
