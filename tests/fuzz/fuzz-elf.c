/* SPDX-License-Identifier: Apache-2.0 */
/* An untrusted ELF file: headers, build-id, symbols with their names, look-ups. */
#include "symbolize/symbolize.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct walk {
	struct img_file *f;
	struct sbuf name;
	size_t named;
};

static void walk_one(void *arg, const struct img_symbol *s)
{
	struct walk *w = arg;

	assert(s->value + s->size >= s->value && s->limit >= s->value);
	if (w->named > 2000) /* enough; names of 64 KiB that overlap cost time */
		return;
	sbuf_reset(&w->name);
	if (img_symbol_name(w->f, s, &w->name) < 0)
		return;
	w->named++;
	assert(w->name.len <= 64 * 1024 && strlen(w->name.p) == w->name.len);
}

static void resolve(struct img_file *f, const uint64_t *offs, size_t n)
{
	struct sym_batch b;

	if (sym_elf_resolve(f, offs, n, &b) < 0)
		return;
	assert(b.n == n);
	for (size_t i = 0; i < n; i++) {
		bool named = b.names[i].reason == EV_REASON_NAMED;

		assert(named == (sym_batch_frames(&b, i) != NULL));
		assert(!named || (*sym_batch_frames(&b, i)->name && b.names[i].start <= offs[i]));
	}
	/* An offset alone has the name that it has among others. */
	for (size_t i = 0; i < n; i += 21) {
		struct sym_batch one;

		if (sym_elf_resolve(f, &offs[i], 1, &one) < 0)
			continue;
		assert(one.names[0].reason == b.names[i].reason);
		assert(one.names[0].start == b.names[i].start);
		assert(!one.names[0].n ||
		       strcmp(sym_batch_frames(&one, 0)->name, sym_batch_frames(&b, i)->name) == 0);
		sym_batch_done(&one);
	}
	sym_batch_done(&b);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	_cleanup_(img_file_freep) struct img_file *f = NULL;
	const struct img_segment *segs;
	uint8_t id[IMG_BUILD_ID_MAX];
	uint64_t offs[64];
	struct walk w = {0};
	size_t id_len = 0, n = 0, n_segs;

	if (img_file_open_mem(data, size, &f, NULL) < 0)
		return 0;
	if (img_build_id(f, id, &id_len) == 0)
		assert(id_len >= 1 && id_len <= IMG_BUILD_ID_MAX);
	w.f = f;
	sbuf_init(&w.name, 1 << 17);
	(void)img_symbols(f, walk_one, &w); /* all its results are fine */
	sbuf_done(&w.name);
	for (uint64_t off = 0; n < ARRAY_SIZE(offs); off += 97)
		offs[n++] = off;
	resolve(f, offs, n);
	n_segs = img_segments(f, &segs);
	for (size_t i = 0; i < n_segs; i++) {
		uint64_t at[2] = {segs[i].off, segs[i].off + segs[i].file_size / 2};

		if (segs[i].exec)
			resolve(f, at, at[1] > at[0] ? 2 : 1);
		if (i > 4)
			break;
	}
	return 0;
}
