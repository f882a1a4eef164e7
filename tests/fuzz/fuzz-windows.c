/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A packed section read in pieces, here and there, against itself read from its beginning. Before
 * the packed bytes: 1 zstd or not, spacing of points in 64 bytes, claimed size in 16 bytes.
 */
#include <elf.h>

#include "image/image.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define HEAD_BYTES 4
#define MAX_BYTES  ((size_t)16 << 20)
#define READS      32
#define PIECE      700

static const Elf64_Ehdr ehdr = {
        .e_ident = {ELFMAG0, ELFMAG1, ELFMAG2, ELFMAG3, ELFCLASS64, ELFDATA2LSB, EV_CURRENT},
        .e_type = ET_DYN,
        .e_machine = EM_X86_64,
        .e_version = EV_CURRENT,
        .e_ehsize = sizeof(Elf64_Ehdr),
        .e_phentsize = sizeof(Elf64_Phdr),
        .e_shentsize = sizeof(Elf64_Shdr),
};

static struct img_windows *open_windows(const struct img_file *f, const struct img_area *a,
                                        size_t window, uint64_t spacing)
{
	const struct img_windows_options o = {
	        .max_bytes = MAX_BYTES, .window_bytes = window, .spacing_bytes = spacing};
	struct img_windows *w = NULL;

	assert(img_windows_new(f, a, &o, &w) == 0);
	return w;
}

static void check_error(int r)
{
	assert(r == -EINVAL || r == -ENODATA || r == -ETIME || r == -E2BIG);
}

/* How many bytes can be read from the beginning on. */
static size_t read_on(struct img_windows *w, uint8_t *p, size_t n)
{
	uint64_t work = 1 << 24;
	size_t len = 0;

	while (len < n) {
		size_t k = MIN_OF((size_t)512, n - len);
		int r = img_windows_read(w, len, p + len, k, &work);

		if (r < 0) {
			check_error(r);
			break;
		}
		len += k;
	}
	return len;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	_cleanup_(img_windows_freep) struct img_windows *one = NULL, *two = NULL;
	_cleanup_(img_file_freep) struct img_file *f = NULL;
	_cleanup_free_ uint8_t *elf = NULL, *plain = NULL;
	struct img_area a = {.off = sizeof(ehdr)};
	uint64_t x = 1, work = 1 << 24;
	uint8_t buf[PIECE];
	size_t good;

	if (size < HEAD_BYTES || size > 1 << 18)
		return 0;
	a.file_size = size - HEAD_BYTES;
	a.size = (uint64_t)(data[2] | data[3] << 8) * 16;
	a.compression = data[0] & 1 ? IMG_COMPRESSED_ZSTD : IMG_COMPRESSED_ZLIB;
	elf = malloc(sizeof(ehdr) + a.file_size);
	plain = malloc(a.size + 1);
	if (!elf || !plain)
		abort();
	memcpy(elf, &ehdr, sizeof(ehdr));
	memcpy(elf + sizeof(ehdr), data + HEAD_BYTES, a.file_size);
	assert(img_file_open_mem(elf, sizeof(ehdr) + a.file_size, &f, NULL) == 0);
	one = open_windows(f, &a, 0, 0);
	good = read_on(one, plain, a.size);
	two = open_windows(f, &a, 4096, (uint64_t)data[1] * 64 + 1);
	for (size_t i = 0; i < READS && a.size >= PIECE; i++) {
		uint64_t off;
		int r;

		x = x * 6364136223846793005ULL + data[i % size] + 1;
		off = (x >> 33) % (a.size - PIECE + 1);
		r = img_windows_read(two, off, buf, PIECE, &work);
		if (r < 0)
			check_error(r);
		if (r == 0 && off + PIECE <= good)
			assert(memcmp(buf, plain + off, PIECE) == 0);
		/* zstd loses what it gave in the call that met the damage. */
		if (off + PIECE <= good && a.compression == IMG_COMPRESSED_ZLIB)
			assert(r == 0 || r == -ETIME);
		if (i % 8 == 7)
			img_windows_trim(two);
		assert(img_windows_bytes(two) <= MAX_BYTES);
	}
	return 0;
}
