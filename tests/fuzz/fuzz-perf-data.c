/* SPDX-License-Identifier: Apache-2.0 */
/* A perf.data. Names would come from files of this machine. */
#include "decode_any.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	decode_any(data, size);
	return 0;
}
