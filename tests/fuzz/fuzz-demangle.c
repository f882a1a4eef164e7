/* SPDX-License-Identifier: Apache-2.0 */
/* Linkage names of other people's files. */
#include "symbolize/symbolize.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	_cleanup_free_ char *name = malloc(size + 1);
	struct sbuf b, again;
	int r;

	if (!name)
		return 0;
	memcpy(name, data, size);
	name[size] = 0;
	sbuf_init(&b, 1 << 20);
	sbuf_char(&b, 'x');
	r = sym_demangle(name, &b);
	assert(r == 0 || r == -ENOENT);
	assert(b.p[0] == 'x' && (r == 0) == (b.len > 1) && b.len <= 64 * 1024 + 1);
	/* The same again: what an earlier name left behind changes nothing. */
	sbuf_init(&again, 1 << 20);
	sbuf_char(&again, 'x');
	assert(sym_demangle(name, &again) == r);
	assert(again.len == b.len && memcmp(again.p, b.p, b.len) == 0);
	sbuf_done(&again);
	sbuf_done(&b);
	return 0;
}
