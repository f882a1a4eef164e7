// SPDX-License-Identifier: Apache-2.0
#include "sampler/sampler.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct ev_frame frames[ABI_MAX_USER_FRAMES];
	struct ev_stack st;

	if (smp_record_parse(data, size, frames, &st) < 0)
		return 0;
	if (st.n > ABI_MAX_USER_FRAMES || st.hash == 0 || st.walk >= EV_WALK_CNT)
		abort();
	for (uint32_t i = 0; i < st.n; i++)
		if (st.frames[i].space > EV_SPACE_KERNEL || st.frames[i].pad != 0)
			abort();
	return 0;
}
