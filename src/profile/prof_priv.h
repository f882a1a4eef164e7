/* SPDX-License-Identifier: Apache-2.0 */
/*
 * profile, private - what the model and the report share.
 */
#ifndef PA_PROF_PRIV_H
#define PA_PROF_PRIV_H

#include "profile/profile.h"

/* Sums stop at the ends of int64: a value too large must not turn negative. */
static inline int64_t sat_add(int64_t a, int64_t b)
{
	int64_t sum;

	if (!__builtin_add_overflow(a, b, &sum))
		return sum;
	return b > 0 ? INT64_MAX : INT64_MIN;
}

#endif
