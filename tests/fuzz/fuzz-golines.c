/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Names and lines by .gopclntab, with the segment around it. Input: a byte of flags; two bytes, how
 * long the code is; two bytes, where the dynamic section is in the rest; the code; the table and
 * what lies after it.
 */
#include "../unit/go_builder.h"
#include "gotab/gotab.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define FLAG_SECTION 1 /* the table has a section of its own, and no address */
#define FLAG_ARM64   2
#define FLAG_DYNAMIC 4

#define HEAD_BYTES 5
#define ADDRESSES  16
/* Inputs that stay below the budget of steps: memory does not change their frames. */
#define SAME_BYTES 8192

static int on_frame(void *arg, const struct gotab_frame *f, bool last)
{
	struct sbuf *b = arg;

	assert(f->name[0] && f->inlined == !last);
	(void)sbuf_addf(b, "%s %s:%u %u %d\n", f->name, f->file ? f->file : "?", f->line,
	                f->start_line, last);
	return 0;
}

static void resolve(struct gotab *t, const uint64_t *at, struct sbuf *b)
{
	for (size_t i = 0; i < ADDRESSES; i++) {
		int r = gotab_resolve(t, at[i], on_frame, b);

		assert(r == 0 || r == -ENOENT || r == -EINVAL);
		(void)sbuf_addf(b, "%d\n", r);
	}
}

/* All functions and their depths, as unwinding reads them. */
static void walk(struct img_file *f)
{
	_cleanup_(gotab_freep) struct gotab *t = NULL;
	struct gotab_func fn;
	uint64_t steps = 100000;
	int r = gotab_load(f, 1 << 20, &t);

	assert(r == 0 || r == -ENOENT || r == -EINVAL || r == -ENODATA);
	for (uint64_t i = 0; r == 0 && i < gotab_count(t) && steps; i++, steps--) {
		struct gotab_values v;

		if (gotab_func(t, i, &fn) < 0)
			continue;
		assert(fn.start < fn.end && strlen(fn.name) < 256);
		gotab_values_begin(t, fn.pcsp, fn.start, fn.end, &v);
		while (steps && gotab_values_next(t, &v) > 0) {
			assert(v.from >= fn.start && v.from < v.to && v.to <= fn.end);
			steps--;
		}
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	_cleanup_(img_file_freep) struct img_file *f = NULL;
	_cleanup_(gotab_freep) struct gotab *roomy = NULL, *narrow = NULL;
	_cleanup_(sbuf_done) struct sbuf b, one, other;
	size_t text_len, dynamic, table;
	uint64_t at[ADDRESSES];
	Elf64_Ehdr e;
	int r;

	sbuf_init(&b, 1 << 20);
	sbuf_init(&one, 1 << 20);
	sbuf_init(&other, 1 << 20);
	if (size < HEAD_BYTES || size > 1 << 16)
		return 0;
	text_len = MIN_OF((size_t)data[1] | (size_t)data[2] << 8, size - HEAD_BYTES);
	dynamic = (size_t)data[3] | (size_t)data[4] << 8;
	gb_wrap(&b, data[0] & FLAG_SECTION ? NULL : ".text", true, data + HEAD_BYTES, text_len,
	        data + HEAD_BYTES + text_len, size - HEAD_BYTES - text_len, &table);
	if (data[0] & FLAG_DYNAMIC)
		gb_dynamic(&b, table + dynamic);
	if (data[0] & FLAG_ARM64) {
		memcpy(&e, b.p, sizeof(e));
		e.e_machine = EM_AARCH64;
		memcpy(b.p, &e, sizeof(e));
	}
	if (img_file_open_mem(b.p, b.len, &f, NULL) < 0)
		return 0;
	for (size_t i = 0; i < ADDRESSES; i++)
		at[i] = GB_TEXT_VADDR + text_len * (i * 7 % ADDRESSES) / ADDRESSES;
	walk(f);
	r = gotab_open(f, 8 << 20, &roomy);
	assert(r == 0 || r == -ENOENT);
	if (r < 0)
		return 0;
	resolve(roomy, at, &one);
	r = gotab_open(f, 1, &narrow);
	assert(r == 0);
	resolve(narrow, at, &other);
	assert(gotab_bytes(narrow) < 128 << 10);
	if (size <= SAME_BYTES)
		assert(one.len == other.len && memcmp(one.p, other.p, one.len) == 0);
	return 0;
}
