/* SPDX-License-Identifier: Apache-2.0 */
/* References of an ELF file to its debug files: sections by name, links, .gnu_debugdata. */
#include "image/image.h"

#define MAX_BYTES ((size_t)4 << 20)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void inner(struct img_file *f)
{
	_cleanup_(img_file_freep) struct img_file *in = NULL;
	_cleanup_free_ uint8_t *p = NULL;
	size_t len = 0;
	int r = img_minidebug(f, MAX_BYTES, &p, &len);

	assert(r == 0 || r == -ENOENT || r == -E2BIG || r == -EINVAL || r == -ENOMEM);
	assert((r == 0) == (p != NULL) && len <= MAX_BYTES);
	if (r == 0 && img_file_open_mem(p, len, &in, NULL) == 0) {
		struct img_debuglink l;

		(void)img_debuglink(in, &l); /* or it has none */
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const char *const names[] = {".debug_info", ".debug_line", ".symtab", ".text"};
	_cleanup_free_ struct img_altlink *alt = calloc(1, sizeof(*alt));
	_cleanup_(img_file_freep) struct img_file *f = NULL;
	struct img_debuglink l;
	struct img_area a;
	uint8_t buf[16];
	uint64_t off;
	size_t len;
	int r;

	if (!alt || img_file_open_mem(data, size, &f, NULL) < 0)
		return 0;
	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		r = img_section_find(f, names[i], &a);
		assert(r == 0 || r == -ENOENT || r == -EINVAL || r == -ENOMEM);
		if (r < 0)
			continue;
		assert(a.off <= size && a.file_size <= size - a.off);
		off = a.file_size / 2;
		len = (size_t)MIN_OF(a.file_size - off, sizeof(buf));
		r = img_area_read(f, &a, off, buf, len);
		assert(r == 0 || r == -EINVAL);
		if (r == 0)
			assert(memcmp(buf, data + a.off + off, len) == 0);
	}
	r = img_debuglink(f, &l);
	assert(r == 0 || r == -ENOENT || r == -EINVAL || r == -ENOMEM);
	if (r == 0) {
		len = strnlen(l.name, sizeof(l.name));
		assert(len > 0 && len < sizeof(l.name) && !memchr(l.name, '/', len));
	}
	r = img_altlink(f, alt);
	assert(r == 0 || r == -ENOENT || r == -EINVAL || r == -ENOMEM);
	if (r == 0) {
		assert(strnlen(alt->path, sizeof(alt->path)) < sizeof(alt->path));
		assert(alt->build_id_len > 0 && alt->build_id_len <= IMG_BUILD_ID_MAX);
	}
	inner(f);
	return 0;
}
