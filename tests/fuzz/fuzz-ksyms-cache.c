/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The cache of the kernel's symbols: the bytes as a whole file, and as what follows a header whose
 * hash is right, so that the entries are reached.
 */
#include "ksyms/ksyms_priv.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void one(const void *bytes, size_t len, const struct ksyms_cache_key *key)
{
	_cleanup_(ksyms_freep) struct ksyms *k = NULL;
	uint64_t first, end, addrs[2];
	struct sym_batch batch;
	struct sbuf b;
	int r = ksyms_cache_parse(bytes, len, key, &k);

	assert(r == 0 || r == -EINVAL || r == -ESTALE || r == -ENOMEM);
	if (r < 0)
		return;
	assert(ksyms_cnt(k) > 0);
	assert(ksyms_range(k, &first, &end) == 0 && end > first);
	addrs[0] = first;
	addrs[1] = end;
	if (ksyms_resolve(k, addrs, 2, &batch) == 0) {
		assert(batch.names[0].reason == EV_REASON_NAMED);
		assert(batch.names[1].reason == EV_REASON_NO_SYMBOL || end == UINT64_MAX);
		sym_batch_done(&batch);
	}
	/* Its cache file can be read again, unless nothing is left. */
	sbuf_init(&b, 1 << 24);
	if (ksyms_cache_format(k, key, &b) == 0) {
		struct ksyms *again = NULL;

		r = ksyms_cache_parse(b.p, b.len, key, &again);
		assert(r == 0 || r == -ENOMEM || r == -EINVAL);
		assert(r < 0 || ksyms_cnt(again) <= ksyms_cnt(k));
		ksyms_free(again);
	}
	sbuf_done(&b);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const struct ksyms_cache_key zero;
	const uint32_t head[2] = {0x4b414c53, 1};
	uint64_t sums[3] = {0, hash_bytes(data, size), size};
	uint32_t tail[2] = {0, 0};
	struct sbuf b;

	one(data, size, &zero);
	if (size < sizeof(tail[0]))
		return 0;
	/* The first bytes say how many entries there shall be. */
	memcpy(&tail[0], data, sizeof(tail[0]));
	data += sizeof(tail[0]);
	size -= sizeof(tail[0]);
	sums[1] = hash_bytes(data, size);
	sums[2] = size;
	sbuf_init(&b, 1 << 24);
	sbuf_add(&b, head, sizeof(head));
	sbuf_add(&b, zero.boot_id, sizeof(zero.boot_id));
	sbuf_add(&b, sums, sizeof(sums));
	sbuf_add(&b, tail, sizeof(tail));
	if (sbuf_add(&b, data, size) == 0)
		one(b.p, b.len, &zero);
	sbuf_done(&b);
	return 0;
}
