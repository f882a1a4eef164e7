/* SPDX-License-Identifier: Apache-2.0 */
/* Areas of an untrusted ELF file: they lie in it, and give no more bytes than asked for. */
#include "image/image.h"

#define MAX_BYTES ((size_t)4 << 20)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static bool in_segment(const struct img_segment *segs, size_t n, uint64_t vaddr, uint64_t off)
{
	for (size_t i = 0; i < n; i++)
		if (segs[i].exec && vaddr - segs[i].vaddr < segs[i].file_size &&
		    off == segs[i].off + (vaddr - segs[i].vaddr))
			return true;
	return false;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	_cleanup_(img_file_freep) struct img_file *f = NULL;
	const struct img_segment *segs;
	uint64_t off;
	size_t n;

	if (img_file_open_mem(data, size, &f, NULL) < 0)
		return 0;
	for (int kind = IMG_AREA_EH_FRAME_HDR; kind <= IMG_AREA_PLT; kind++) {
		_cleanup_free_ uint8_t *p = NULL;
		struct img_area a;
		size_t len = 0;
		int r = img_area_find(f, (enum img_area_kind)kind, &a);

		assert(r == 0 || r == -ENOENT || r == -EINVAL);
		if (r < 0)
			continue;
		assert(a.off <= size && a.file_size <= size - a.off);
		r = img_area_load(f, &a, MAX_BYTES, &p, &len);
		assert(r == 0 || r == -E2BIG || r == -EINVAL || r == -ENODATA || r == -ENOMEM);
		if (r == 0)
			assert(p && len == a.size && len <= MAX_BYTES);
	}
	n = img_segments(f, &segs);
	for (size_t i = 0; i < n; i++) {
		uint64_t v = segs[i].vaddr + segs[i].file_size / 2;
		uint8_t buf[8];
		int r;

		/* A segment of the file has it, at that offset. */
		if (img_vaddr_to_off(f, v, &off) == 0)
			assert(in_segment(segs, n, v, off));
		r = img_read_vaddr(f, v, buf, sizeof(buf));
		assert(r == 0 || r == -ENODATA);
		if (r == 0)
			assert(memmem(data, size, buf, sizeof(buf)));
	}
	return 0;
}
