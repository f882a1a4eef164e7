/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fake-words - what the kernel side of a store would be, in plain memory
 */
#ifndef PA_TEST_FAKE_WORDS_H
#define PA_TEST_FAKE_WORDS_H

#include "unwind/unwind.h"

#define FW_IMAGES   4096
#define FW_SEGMENTS 64

struct fake_words {
	struct abi_image images[FW_IMAGES];
	uint32_t *segments[FW_SEGMENTS];
	uint32_t made;
	int fail; /* what segment() returns, if negative */
};

static inline int fw_segment(void *arg, uint32_t i, uint32_t **ret)
{
	struct fake_words *w = arg;

	if (w->fail < 0)
		return w->fail;
	assert(i < FW_SEGMENTS && !w->segments[i]);
	w->segments[i] = malloc(ABI_SEGMENT_WORDS * sizeof(uint32_t));
	assert(w->segments[i]);
	/* Not zero: nothing may rely on it. */
	memset(w->segments[i], 0xee, ABI_SEGMENT_WORDS * sizeof(uint32_t));
	w->made++;
	*ret = w->segments[i];
	return 0;
}

static inline struct fake_words *fw_new(void)
{
	struct fake_words *w = calloc(1, sizeof(*w));

	assert(w);
	return w;
}

static inline struct uw_backing fw_backing(struct fake_words *w, uint32_t segments)
{
	return (struct uw_backing){
	        .images = w->images,
	        .n_images = FW_IMAGES,
	        .max_segments = segments,
	        .segment = fw_segment,
	        .arg = w,
	};
}

static inline void fw_free(struct fake_words *w)
{
	for (size_t i = 0; i < FW_SEGMENTS; i++)
		free(w->segments[i]);
	free(w);
}

#endif
