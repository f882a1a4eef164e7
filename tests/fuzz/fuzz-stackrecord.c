// SPDX-License-Identifier: Apache-2.0
#include "sampler/sampler.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct ev_frame frames[ABI_MAX_USER_FRAMES];
	struct ev_stack st;
	struct ev_count count = {.ustack = 1};
	struct ev_waker waker;
	struct ev_deferred copy;
	int r;

	if (smp_deferred_parse(data, size, &copy) == 0) {
		uint8_t sum = 0;

		if (copy.len > ABI_DEFERRED_BYTES || copy.image > ABI_IMAGE_MAX)
			abort();
		for (uint32_t i = 0; i < copy.len; i++)
			sum = (uint8_t)(sum + ((const volatile uint8_t *)copy.bytes)[i]);
		(void)sum; /* read: they must all be there */
	}
	r = smp_record_parse(data, size, frames, &st, &count, &waker);
	if (r < 0)
		return 0;
	if (r == 2) {
		if (waker.hash == 0 || waker.comm[EV_COMM_LEN - 1])
			abort();
		return 0;
	}
	if (r == 1 && (count.ustack != st.hash || st.kernel))
		abort();
	if (st.n > ABI_MAX_USER_FRAMES || st.hash == 0 || st.walk >= EV_WALK_KERNEL_CNT ||
	    (st.flags & ~(EV_STACK_HEURISTIC | EV_STACK_JIT)))
		abort();
	for (uint32_t i = 0; i < st.n; i++)
		if (st.frames[i].space > EV_SPACE_KERNEL || st.frames[i].pad != 0)
			abort();
	return 0;
}
