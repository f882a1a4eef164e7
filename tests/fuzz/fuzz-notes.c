/* SPDX-License-Identifier: Apache-2.0 */
/* ELF notes with absurd sizes and padding. */
#include "proc/proc.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	uint8_t id[EV_BUILD_ID_MAX];
	size_t len = SIZE_MAX;
	int r = proc_notes_build_id(data, size, id, &len);

	if (r == 0) {
		assert(len >= 1 && len <= sizeof(id));
		assert(memmem(data, size, id, len));
	} else {
		assert(len == SIZE_MAX && (r == -ENOENT || r == -EINVAL));
	}
	return 0;
}
