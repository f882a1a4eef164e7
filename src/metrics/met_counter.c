/* SPDX-License-Identifier: Apache-2.0 */
#include "metrics/metrics.h"

#define ALL_CORE_TYPES UINT32_MAX

static const char *const reason_names[MET_REASON_CNT] = {
#define X(id, name) [MET_REASON_##id] = (name),
        MET_REASONS(X)
#undef X
};

static const struct {
	const char *name;
	bool hardware;
} counters[MET_COUNTER_CNT] = {
#define X(id, name, hw) [MET_COUNTER_##id] = {name, hw},
        MET_COUNTERS(X)
#undef X
};

const char *met_reason_name(enum met_reason r)
{
	assert((unsigned int)r < MET_REASON_CNT);
	return reason_names[r];
}

const char *met_counter_name(enum met_counter_id id)
{
	assert((unsigned int)id < MET_COUNTER_CNT);
	return counters[id].name;
}

bool met_counter_is_hardware(enum met_counter_id id)
{
	assert((unsigned int)id < MET_COUNTER_CNT);
	return counters[id].hardware;
}

bool met_counter_counted(const struct met_counter *c)
{
	if (c->error != 0)
		return false;
	return c->running_ns > 0 || (c->enabled_ns == 0 && !met_counter_is_hardware(c->id));
}

uint64_t met_counter_scale(uint64_t raw, uint64_t enabled_ns, uint64_t running_ns)
{
	unsigned __int128 v;

	if (running_ns == 0 || running_ns >= enabled_ns)
		return raw;
	v = (unsigned __int128)raw * enabled_ns / running_ns;
	return v > UINT64_MAX ? UINT64_MAX : (uint64_t)v;
}

int met_counter_find(const struct met_entry *e, enum met_counter_id id, uint64_t *ret)
{
	int error = -ENODATA;
	bool any = false, met = false;
	uint64_t sum = 0;

	vec_each (c, &e->counters) {
		if (c->id != id)
			continue;
		if (met_counter_counted(c)) {
			any = true;
			sum = c->value > UINT64_MAX - sum ? UINT64_MAX : sum + c->value;
		} else if (!met && c->error != 0) {
			met = true;
			error = c->error;
		}
	}
	if (!any)
		return error;
	*ret = sum;
	return 0;
}

static const struct met_counter *counted_on(const struct met_entry *e, enum met_counter_id id,
                                            uint32_t core_type)
{
	vec_each (c, &e->counters) {
		if (c->id == id && c->core_type == core_type)
			return met_counter_counted(c) ? c : NULL;
	}
	return NULL;
}

int met_ratio_on(const struct met_entry *e, uint32_t core_type, enum met_counter_id num,
                 enum met_counter_id den, double *ret)
{
	double above = 0, below = 0;

	vec_each (c, &e->counters) {
		const struct met_counter *other;

		if (c->id != num || !met_counter_counted(c))
			continue;
		if (core_type != ALL_CORE_TYPES && c->core_type != core_type)
			continue;
		other = counted_on(e, den, c->core_type);
		if (!other)
			continue;
		above += (double)c->value;
		below += (double)other->value;
	}
	if (!(below > 0))
		return -ENODATA;
	*ret = above / below;
	return 0;
}

int met_ratio(const struct met_entry *e, enum met_counter_id num, enum met_counter_id den,
              double *ret)
{
	return met_ratio_on(e, ALL_CORE_TYPES, num, den, ret);
}
