/* SPDX-License-Identifier: Apache-2.0 */
/* Parts of one model added to another: what filters and merges are made of. */
#include "report/rep_priv.h"

int rep_copy_begin(struct rep_copy *c, const struct prof_model *from, struct prof_model *to)
{
	c->from = from;
	c->to = to;
	c->strings = calloc(intern_count(from->strings), sizeof(*c->strings)); /* "" at least */
	c->mappings = calloc(from->mappings.n + 1, sizeof(*c->mappings));
	c->functions = calloc(from->functions.n + 1, sizeof(*c->functions));
	c->locations = calloc(from->locations.n + 1, sizeof(*c->locations));
	c->lines = calloc(PROF_LOCATION_LINES_MAX, sizeof(*c->lines));
	return c->strings && c->mappings && c->functions && c->locations && c->lines ? 0 : -ENOMEM;
}

void rep_copy_done(struct rep_copy *c)
{
	freep(&c->strings);
	freep(&c->mappings);
	freep(&c->functions);
	freep(&c->locations);
	freep(&c->lines);
}

/* 0 is both "" and "not copied yet". */
static int copy_string(struct rep_copy *c, uint32_t id, uint32_t *ret)
{
	if (id && !c->strings[id]) {
		size_t len;
		const void *s = intern_get(c->from->strings, id, &len);
		int r = intern_add(c->to->strings, s, len, &c->strings[id], NULL);

		if (r < 0)
			return r;
	}
	*ret = c->strings[id];
	return 0;
}

/* The same file at another address in another process is one mapping: its key has no address. */
struct place_key {
	uint64_t offset, bytes;
	uint32_t path, build_id;
};
_Static_assert(sizeof(struct place_key) == 24, "hashed as bytes");

static int copy_mapping(struct rep_copy *c, uint32_t id, uint32_t *ret)
{
	if (id && !c->mappings[id]) {
		struct prof_mapping map = c->from->mappings.p[id - 1];
		struct place_key key = {.offset = map.offset, .bytes = map.limit - map.start};
		uint32_t place = INTERN_NONE, new_id;
		int r = copy_string(c, map.path, &map.path);

		if (r == 0)
			r = copy_string(c, map.build_id, &map.build_id);
		if (r < 0)
			return r;
		key.path = map.path;
		key.build_id = map.build_id;
		if (c->places)
			place = intern_find(c->places->keys, &key, sizeof(key));
		if (place != INTERN_NONE) {
			new_id = c->places->ids.p[place];
		} else {
			r = prof_model_mapping(c->to, &map, &new_id);
			if (r == 0 && c->places)
				r = intern_add(c->places->keys, &key, sizeof(key), &place, NULL);
			if (r == 0 && c->places)
				r = vec_push(&c->places->ids, new_id);
			if (r < 0)
				return r;
		}
		c->mappings[id] = new_id;
	}
	*ret = c->mappings[id];
	return 0;
}

static int copy_function(struct rep_copy *c, uint32_t id, uint32_t *ret)
{
	if (id && !c->functions[id]) {
		struct prof_function fn = c->from->functions.p[id - 1];
		int r = copy_string(c, fn.name, &fn.name);

		if (r == 0)
			r = copy_string(c, fn.system_name, &fn.system_name);
		if (r == 0)
			r = copy_string(c, fn.file, &fn.file);
		if (r == 0)
			r = prof_model_function(c->to, &fn, &c->functions[id]);
		if (r < 0)
			return r;
	}
	*ret = c->functions[id];
	return 0;
}

int rep_copy_location(struct rep_copy *c, uint32_t id, const bool *keep, uint32_t *ret)
{
	const struct prof_location *loc = &c->from->locations.p[id - 1];
	uint64_t address = loc->address;
	uint32_t mapping, n = 0;
	int r;

	if (c->locations[id]) {
		*ret = c->locations[id];
		return 0;
	}
	r = copy_mapping(c, loc->mapping, &mapping);
	for (uint32_t i = 0; i < loc->line_cnt && r == 0; i++) {
		if (keep && !keep[i])
			continue;
		c->lines[n] = c->from->lines.p[loc->line_first + i];
		r = copy_function(c, c->lines[n].function, &c->lines[n].function);
		n++;
	}
	if (r < 0)
		return r;
	if (mapping)
		address += c->to->mappings.p[mapping - 1].start -
		           c->from->mappings.p[loc->mapping - 1].start;
	r = prof_model_location(c->to, mapping, address, loc->reason, c->lines, n,
	                        &c->locations[id]);
	if (r < 0)
		return r;
	*ret = c->locations[id];
	return 0;
}

int rep_copy_sample(struct rep_copy *c, const struct prof_sample *s, const uint32_t *locs,
                    uint32_t n_locs)
{
	struct prof_label labels[PROF_SAMPLE_LABELS_MAX];
	int r = 0;

	for (uint32_t i = 0; i < s->label_cnt && r == 0; i++) {
		labels[i] = c->from->labels.p[s->label_first + i];
		r = copy_string(c, labels[i].key, &labels[i].key);
		if (r == 0)
			r = copy_string(c, labels[i].str, &labels[i].str);
		if (r == 0)
			r = copy_string(c, labels[i].unit, &labels[i].unit);
	}
	return r < 0 ? r : prof_model_sample(c->to, locs, n_locs, labels, s->label_cnt, s->value);
}

static int copy_type(struct rep_copy *c, const struct prof_type *t, struct prof_type *ret)
{
	int r = copy_string(c, t->type, &ret->type);

	return r < 0 ? r : copy_string(c, t->unit, &ret->unit);
}

int rep_copy_head(struct rep_copy *c)
{
	struct prof_model *to = c->to;
	int r = 0;

	to->n_types = c->from->n_types;
	for (uint32_t i = 0; i < to->n_types && r == 0; i++)
		r = copy_type(c, &c->from->sample_type[i], &to->sample_type[i]);
	if (r == 0)
		r = copy_string(c, c->from->default_type, &to->default_type);
	if (r == 0)
		r = copy_type(c, &c->from->period_type, &to->period_type);
	to->period = c->from->period;
	to->time_realtime_ns = c->from->time_realtime_ns;
	to->duration_ns = c->from->duration_ns;
	for (size_t i = 0; i < c->from->comments.n && r == 0; i++)
		r = prof_model_comment(to, "%s", prof_model_str(c->from, c->from->comments.p[i]));
	return r;
}
