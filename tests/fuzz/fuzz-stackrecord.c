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
		const uint8_t *bytes = copy.bytes;

		if (copy.len > ABI_DEFERRED_BYTES || copy.image > ABI_IMAGE_MAX)
			abort();
		/* The stack's bytes are bytes of the record. */
		if (bytes < data || bytes > data + size || copy.len > (size_t)(data + size - bytes))
			abort();
	}
	r = smp_record_parse(data, size, frames, &st, &count, &waker);
	if (r < 0)
		return 0;
	if (r == 2) {
		if (waker.hash == 0 || waker.comm[EV_COMM_LEN - 1])
			abort();
		return 0;
	}
	if (r == 3) {
		if (count.samples != 1 || count.time_ns == 0 || count.offcpu >= EV_OFFCPU_CNT)
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
