/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A jitdump that grows. Input: a byte, after how many 16ths of the rest it is read for the first
 * time; the dump.
 */
#include "jitcode/jitcode.h"

#include <sys/mman.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	_cleanup_(jitcode_freep) struct jitcode *j = NULL;
	_cleanup_close_ int fd = memfd_create("dump", MFD_CLOEXEC);
	struct sym_frame f;
	size_t part;
	int r, again;

	if (fd < 0 || jitcode_new(1 << 20, &j) < 0)
		abort();
	if (size < 1)
		return 0;
	part = (size - 1) * (data[0] & 15) / 16;
	if (file_write_full(fd, data + 1, part) < 0)
		abort();
	r = jitcode_read_dump(j, fd, 100);
	assert(r >= 0 || r == -EINVAL);
	if (data[0] & 16)
		(void)jitcode_find(j, 0x1000, 50, &f); /* the past is sorted in between */
	if (file_write_full(fd, data + 1 + part, size - 1 - part) < 0)
		abort();
	r = jitcode_read_dump(j, fd, 200);
	assert(r >= 0 || r == -EINVAL);
	assert(jitcode_bytes(j) <= (1 << 20) + 65536);
	/* Nothing was appended: the same again. */
	again = jitcode_read_dump(j, fd, 250);
	assert(again == 0 || (again == -EINVAL && r == again));
	/* The corpus and its mutations lie here. */
	for (uint64_t addr = 0x1000; addr < 0x1400; addr += 4) {
		int now = jitcode_find(j, addr, UINT64_MAX, &f);

		for (uint64_t t = 0; t < 300; t += 50) {
			r = jitcode_find(j, addr, t, &f);
			assert(r == now);
			if (r == 0)
				assert(f.name[0] && f.linkage[0] && (!f.file || f.file[0]));
		}
	}
	return 0;
}
