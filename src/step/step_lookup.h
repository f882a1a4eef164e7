/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/*
 * step_lookup - file offset -> code, over the packed tables of bpf/abi/abi_unwind.h. The same
 * text for BPF and the host.
 *
 * Before including, define
 *   UW_TABLES                    type of the object through which the word space is read
 *   UW_VALUE(tables, value)      const __u32 * of ABI_VALUE_WORDS words, or NULL; value = word >>
 *                                ABI_VALUE_SHIFT
 */
#ifndef PA_STEP_LOOKUP_H
#define PA_STEP_LOOKUP_H

#include "bpf/abi/abi.h"

/* Returns the code at offset @rel from the table's first chunk (< n_chunks * ABI_CHUNK_BYTES); NONE
 * if the words do not exist, as after an eviction. */
static __attribute__((always_inline)) inline __u32 uw_table_code(UW_TABLES *tables, __u32 base,
                                                                 __u32 rel)
{
	__u32 at = base + 2 * (rel >> ABI_CHUNK_SHIFT), first, lo, hi, mid, i;
	__u32 low = rel & 0xffff;
	const __u32 *w;

	(void)tables; /* the hook may not need it */
	w = UW_VALUE(tables, at >> ABI_VALUE_SHIFT);

	if (!w)
		return ABI_CODE_NONE;
	/* base is even: both words lie in one value */
	first = w[at & (ABI_VALUE_WORDS - 2)];
	hi = w[(at & (ABI_VALUE_WORDS - 2)) + 1];
	if (hi == 0)
		return first & 0xffff;
	first += base;
	w = UW_VALUE(tables, first >> ABI_VALUE_SHIFT);
	if (!w)
		return ABI_CODE_NONE;
	/* The last row that begins at or before @rel; the first one always does. */
	lo = 0;
	for (i = 0; i < ABI_CHUNK_STEPS; i++) {
		if (hi - lo <= 1)
			break;
		mid = lo + (hi - lo) / 2;
		if ((w[(first + mid) & (ABI_VALUE_WORDS - 1)] & 0xffff) <= low)
			lo = mid;
		else
			hi = mid;
	}
	return w[(first + lo) & (ABI_VALUE_WORDS - 1)] >> 16;
}

/* Mixes (table, offset) for the shared cache: a bijection of 62 bits, so that the slot and the 48
 * bits of the tag identify it. serial < 2^30. */
static __attribute__((always_inline)) inline __u64 uw_cache_mix(__u32 serial, __u32 rel)
{
	const __u64 mask = (1ULL << 62) - 1;
	__u64 k = ((__u64)serial << 32 | rel) & mask;

	k = (k * 0x9e3779b97f4a7c15ULL) & mask;
	k ^= k >> 31;
	k = (k * 0xbf58476d1ce4e5b9ULL) & mask;
	return k;
}
#define UW_CACHE_SLOT(k) ((__u32)((k) >> 48) & (ABI_CACHE_ENTRIES - 1))
#define UW_CACHE_TAG(k)  ((k) << 16)

#endif
