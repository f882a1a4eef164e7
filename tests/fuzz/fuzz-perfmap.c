/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A perf-map that grows. Input: a byte, after how many 16ths of the rest it is read for the first
 * time; the map.
 */
#include "jitcode/jitcode.h"

#include <sys/mman.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	_cleanup_(jitcode_freep) struct jitcode *j = NULL;
	_cleanup_close_ int fd = memfd_create("map", MFD_CLOEXEC);
	const struct jitcode_stats *st;
	struct sym_frame f;
	uint64_t entries;
	size_t part;

	if (fd < 0 || jitcode_new(1 << 20, &j) < 0)
		abort();
	if (size < 1)
		return 0;
	part = (size - 1) * (data[0] & 15) / 16;
	if (file_write_full(fd, data + 1, part) < 0)
		abort();
	assert(jitcode_read_map(j, fd, 100, false) >= 0);
	if (data[0] & 16)
		(void)jitcode_find(j, 0x1000, 50, &f); /* the past is sorted in between */
	if (file_write_full(fd, data + 1 + part, size - 1 - part) < 0)
		abort();
	assert(jitcode_read_map(j, fd, 200, true) >= 0);
	st = jitcode_stats(j);
	assert(st->entries >= st->reused);
	/* Nothing was appended: no entry is replaced. */
	entries = st->entries;
	assert(jitcode_read_map(j, fd, 250, true) == 0 && jitcode_stats(j)->entries == entries);
	assert(jitcode_bytes(j) <= (1 << 20) + 65536);
	/* The corpus and its mutations lie here. */
	for (uint64_t addr = 0x1000; addr < 0x1400; addr += 4) {
		int now = jitcode_find(j, addr, UINT64_MAX, &f);

		assert((now == 0) == (jitcode_version(j, addr) != 0));
		for (uint64_t t = 0; t < 300; t += 100) {
			int r = jitcode_find(j, addr, t, &f);

			/* An address with code now had code, this or earlier, at each time. */
			assert(r == now);
			if (r == 0)
				assert(f.name[0] && f.linkage[0] && (!f.file || f.file[0]));
		}
	}
	return 0;
}
