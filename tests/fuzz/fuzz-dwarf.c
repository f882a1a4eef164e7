/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Debug information of a whole ELF file. Its last byte says whether it is its own common file (1),
 * package (2) and split unit (4) as well, and whether there is little memory (8): then packed
 * sections are read by windows.
 */
#include <sys/mman.h>

#include "dwarf/dwarf.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define ADDRS     24
#define BYTES_MAX (24u << 20)
#define BYTES_FEW (1u << 20)
#define STEPS_MAX 100000

struct input {
	const uint8_t *p;
	size_t n;
};

struct seen {
	size_t i, frames;
	bool begun, last;
	uint64_t total;
};

static int open_dwo(void *arg, const char *dir, const char *name, int *ret_fd)
{
	const struct input *in = arg;
	_cleanup_close_ int fd = -EBADF;

	assert(strlen(dir) < SIZE_MAX && strlen(name) < SIZE_MAX);
	fd = memfd_create("dwo", MFD_CLOEXEC);
	if (fd < 0 || file_write_full(fd, in->p, in->n) < 0)
		abort();
	*ret_fd = TAKE_FD(fd);
	return 0;
}

static int on_frame(void *arg, size_t i, const struct dw_frame *f, bool last)
{
	struct seen *s = arg;

	assert(i < ADDRS);
	/* All frames of an address in a row. */
	assert(!s->begun || s->last || s->i == i);
	if (!s->begun || s->last)
		s->frames = 0;
	s->i = i;
	s->begun = true;
	s->last = last;
	assert(++s->frames <= DW_FRAMES_MAX);
	s->total += f->line;
	if (f->name)
		s->total += strlen(f->name);
	if (f->linkage)
		s->total += strlen(f->linkage);
	if (f->file)
		s->total += strlen(f->file);
	return 0;
}

/* Over the executable segments, and what is in no file; ascending, unique. */
static size_t choose(const struct img_file *f, uint64_t ret[ADDRS])
{
	const struct img_segment *segs;
	size_t n_segs = img_segments(f, &segs), n = 0;
	uint64_t fixed[] = {0, 1, 0x10, UINT64_MAX - 1};

	for (size_t i = 0; i < ARRAY_SIZE(fixed); i++) {
		if (i == ARRAY_SIZE(fixed) - 1) {
			for (size_t k = 0; k < n_segs && n < ADDRS - 1; k++) {
				uint64_t len = MIN_OF(segs[k].mem_size, 1u << 20);

				for (uint64_t j = 0; segs[k].exec && j < 16 && n < ADDRS - 1; j++) {
					uint64_t a = segs[k].vaddr + len * j / 16;

					if (a > ret[n - 1] && a < fixed[i])
						ret[n++] = a;
				}
			}
		}
		ret[n++] = fixed[i];
	}
	return n;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	_cleanup_(img_file_freep) struct img_file *f = NULL;
	_cleanup_(dw_freep) struct dw_file *d = NULL;
	struct input in = {data, size};
	struct dw_options o = {.arg = &in, .max_bytes = BYTES_MAX, .max_steps = STEPS_MAX};
	struct seen s = {0};
	uint64_t addrs[ADDRS];
	uint8_t flags;
	size_t n;
	int r;

	if (size < 16 || size > 1 << 18 || img_file_open_mem(data, size, &f, NULL) < 0)
		return 0;
	flags = data[size - 1];
	if (flags & 1)
		o.alt = f;
	if (flags & 2)
		o.dwp = f;
	if (flags & 4)
		o.open_dwo = open_dwo;
	if (flags & 8)
		o.max_bytes = BYTES_FEW;
	r = dw_open(f, &o, &d);
	assert(r == 0 || r == -ENOENT || r == -EINVAL || r == -E2BIG);
	if (r < 0)
		return 0;
	n = choose(f, addrs);
	r = dw_resolve(d, addrs, n, on_frame, &s);
	assert(r == 0);
	assert(!s.begun || s.last);
	assert(dw_bytes(d) <= o.max_bytes);
	/* The same answer again, from what is cached. */
	if (dw_stats(d)->over_steps == 0 && dw_stats(d)->over_limit == 0) {
		struct seen again = {0};

		r = dw_resolve(d, addrs, n, on_frame, &again);
		assert(r == 0 && again.total == s.total);
	}
	return 0;
}
