// SPDX-License-Identifier: Apache-2.0
/* Any rows, packed at any base: each look-up gives what a search from the first row on gives. */
#include "unwind/unwind.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define CHUNKS_MAX 512
#define SEGMENTS   16
/* Every byte of so many chunks is looked up, of the others the places around each row. */
#define CHUNKS_WHOLE 4

static struct abi_image images[4];
static uint32_t *segments[SEGMENTS];

static int segment(void *arg, uint32_t i, uint32_t **ret)
{
	(void)arg;
	if (!segments[i])
		segments[i] = malloc(ABI_SEGMENT_WORDS * sizeof(uint32_t));
	if (!segments[i])
		return -ENOMEM;
	*ret = segments[i];
	return 0;
}

static void check(const struct uw_store *s, uint32_t image, const struct uw_table *t, uint64_t rel,
                  uint16_t want)
{
	uint16_t code = 0;

	if (uw_store_code(s, image, t->lo + rel, &code) != 0 || code != want ||
	    uw_table_find(t, t->lo + rel) != want)
		abort();
}

static void check_all(const struct uw_store *s, uint32_t image, const struct uw_table *t)
{
	uint64_t bytes = (uint64_t)t->n_chunks << ABI_CHUNK_SHIFT;

	for (uint32_t i = 0; i < t->n_rows; i++) {
		uint64_t end = i + 1 < t->n_rows ? t->rows[i + 1].rel : bytes;

		for (uint64_t rel = t->rows[i].rel; rel < end; rel++) {
			/* The first and the last byte of the row, and of each chunk in it. */
			if (rel >= CHUNKS_WHOLE * ABI_CHUNK_BYTES && rel != t->rows[i].rel &&
			    rel + 1 < end && (rel & (ABI_CHUNK_BYTES - 1)))
				rel = MIN_OF(end - 1, rel | (ABI_CHUNK_BYTES - 1));
			check(s, image, t, rel, t->rows[i].code);
		}
	}
	check(s, image, t, bytes, ABI_CODE_NONE);
	if (t->lo)
		check(s, image, t, (uint64_t)-1, ABI_CODE_NONE);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const struct uw_backing b = {.images = images,
	                             .n_images = ARRAY_SIZE(images),
	                             .max_segments = SEGMENTS,
	                             .segment = segment};
	_cleanup_(uw_store_freep) struct uw_store *s = NULL;
	struct uw_row *rows, only = {.code = ABI_CODE_ROOT};
	struct cursor c = cursor_of(data, size);
	struct uw_table t = {0}, filler = {.n_chunks = 1, .n_rows = 1, .rows = &only};
	uint16_t n_chunks, base, delta, code;
	uint64_t rel = 0;

	if (cursor_u16(&c, &base) < 0 || cursor_u16(&c, &n_chunks) < 0 || cursor_u16(&c, &code) < 0)
		return 0;
	memset(images, 0, sizeof(images));
	if (uw_store_new(&b, 0, &s) < 0)
		return 0;
	rows = malloc((cursor_left(&c) / 3 + 1) * sizeof(*rows));
	if (!rows)
		return 0;
	t.lo = (uint64_t)(base & 7) << ABI_CHUNK_SHIFT;
	t.n_chunks = n_chunks % CHUNKS_MAX + 1;
	t.rows = rows;
	rows[t.n_rows++] = (struct uw_row){.code = code};
	/* Small steps in one byte; 0: a large one. */
	for (;;) {
		uint8_t step;

		if (cursor_u8(&c, &step) < 0 || cursor_u16(&c, &code) < 0)
			break;
		delta = step;
		if (step == 0 && cursor_u16(&c, &delta) < 0)
			break;
		rel += MAX_OF(delta, 1);
		if (rel >= (uint64_t)t.n_chunks << ABI_CHUNK_SHIFT)
			break;
		rows[t.n_rows++] = (struct uw_row){.rel = (uint32_t)rel, .code = code};
	}
	/* Twice: after a filler of any size, and after the first one. */
	filler.n_chunks = base + 1;
	if (uw_store_install(s, 1, &filler) < 0 || uw_store_install(s, 2, &t) < 0 ||
	    uw_store_install(s, 3, &t) < 0)
		abort();
	check_all(s, 2, &t);
	check_all(s, 3, &t);
	check(s, 1, &filler, (uint64_t)base << ABI_CHUNK_SHIFT, ABI_CODE_ROOT);
	free(rows);
	return 0;
}
