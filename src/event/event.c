/* SPDX-License-Identifier: Apache-2.0 */
#include "event/event.h"

#define X(id, val, name, help) [val] = name,
static const char *const walk_names[] = { EV_WALKS(X) };
#undef X

#define X(id, name) name,
static const char *const reason_names[] = { EV_REASONS(X) };
#undef X

const char *ev_walk_name(enum ev_walk w)
{
	return (size_t)w < ARRAY_SIZE(walk_names) ? walk_names[w] : "unknown";
}

const char *ev_reason_name(enum ev_reason r)
{
	return (size_t)r < ARRAY_SIZE(reason_names) ? reason_names[r] : "unknown";
}
