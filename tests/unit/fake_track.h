/* SPDX-License-Identifier: Apache-2.0 */
/* For the tests of session without a real track: up to when events were heard of, and its statistics.
 */
#ifndef PA_TESTS_FAKE_TRACK_H
#define PA_TESTS_FAKE_TRACK_H

#include "track/track.h"

static uint64_t watermark_ns;
static struct trk_stats track_stats;

uint64_t __wrap_trk_watermark_ns(const struct trk *t);
const struct trk_stats *__wrap_trk_stats(const struct trk *t);

uint64_t __wrap_trk_watermark_ns(const struct trk *t)
{
	(void)t;
	return watermark_ns;
}

const struct trk_stats *__wrap_trk_stats(const struct trk *t)
{
	(void)t;
	return &track_stats;
}

#endif
