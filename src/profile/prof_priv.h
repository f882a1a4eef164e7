/* SPDX-License-Identifier: Apache-2.0 */
/* Parts of profile: what changed in an aggregation since it was copied. */
#ifndef PA_PROF_PRIV_H
#define PA_PROF_PRIV_H

#include "profile/profile.h"

/* Entries that are new or have changed, each once. */
struct prof_changed {
	VEC(uint32_t) ids;
	VEC(uint8_t) marks; /* by id: it is in ids */
	bool lost;          /* there was no memory for all of them */
};

struct prof_followed {
	const struct prof_seen *by; /* whose lists these are; NULL: they are not kept */
	struct prof_changed counts, threads;
};
/* Borrowed until the aggregation is freed. */
struct prof_followed *prof_agg_followed(struct prof_agg *a);

#endif
