/* SPDX-License-Identifier: Apache-2.0 */
/* Folded stacks, or whatever the bytes are taken for. */
#include "decode_any.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	decode_any(data, size);
	return 0;
}
