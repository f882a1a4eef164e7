/* SPDX-License-Identifier: Apache-2.0 */
/* /proc/kallsyms: holds module and BPF program names that others choose. */
#include "ksyms/ksyms.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	_cleanup_(ksyms_freep) struct ksyms *k = NULL;
	uint64_t first, end, start = 0, addrs[4], between[16];
	struct sym_batch b;
	size_t n = 0;

	if (ksyms_parse((const char *)data, size, &k) < 0)
		return 0;
	assert(ksyms_cnt(k) > 0);
	assert(ksyms_range(k, &first, &end) == 0 && end > first);
	addrs[n++] = first - 1;
	addrs[n++] = first;
	if (end - 1 > first)
		addrs[n++] = end - 1;
	addrs[n++] = end;
	if (ksyms_resolve(k, addrs, n, &b) < 0)
		return 0;
	assert(b.names[0].reason == EV_REASON_NO_SYMBOL);
	assert(b.names[1].reason == EV_REASON_NAMED && b.names[1].start == first);
	assert(*sym_batch_frames(&b, 1)->name && *sym_batch_frames(&b, 1)->linkage);
	assert(b.names[n - 1].reason == EV_REASON_NO_SYMBOL || end == UINT64_MAX);
	sym_batch_done(&b);
	/* Addresses in between: each name begins at or before its address, and no earlier than the last. */
	for (size_t i = 0; i < ARRAY_SIZE(between); i++)
		between[i] = first + (end - first) / ARRAY_SIZE(between) * i + i;
	if (between[ARRAY_SIZE(between) - 1] < first ||
	    ksyms_resolve(k, between, ARRAY_SIZE(between), &b) < 0)
		return 0;
	for (size_t i = 0; i < ARRAY_SIZE(between); i++) {
		if (b.names[i].reason != EV_REASON_NAMED)
			continue;
		assert(b.names[i].start >= start && b.names[i].start <= between[i]);
		start = b.names[i].start;
	}
	sym_batch_done(&b);
	return 0;
}
