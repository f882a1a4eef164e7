/* SPDX-License-Identifier: Apache-2.0 */
/* Mappings, functions, locations and samples of a pprof. */
#include "decode/dec_pprof_priv.h"

#include <inttypes.h>

static uint64_t offset_of(const struct dec_pprof *p, const struct cursor *c)
{
	return (uint64_t)(c->p - p->in->data);
}

/* Adds the id of an item whose message begins at @at. */
static int add_id(struct dec_pprof *p, const struct cursor *at, const char *kind,
                  struct dec_ids *ids, uint64_t id, uint32_t to)
{
	int r = dec_ids_add(ids, id, to);

	if (r == -EEXIST)
		return dec_bad(p->in, -EINVAL, offset_of(p, at),
		               "pprof: a second %s with id %" PRIu64, kind, id);
	if (r == -EINVAL)
		return dec_bad(p->in, -EINVAL, offset_of(p, at), "pprof: a %s with id 0", kind);
	return r < 0 ? dec_model_err(p->in, r, offset_of(p, at)) : 0;
}

/* ---- mappings -------------------------------------------------------------------------------- */

static int read_mapping(struct dec_pprof *p, struct cursor c, struct prof_mapping *map,
                        uint64_t *ret_id)
{
	struct dec_field f;
	uint64_t id = 0;

	assert(map);
	while (cursor_left(&c) > 0) {
		uint64_t unused, *to = &unused;
		bool *flag = NULL;
		int r = dec_pprof_field(p, &c, &f);

		if (r < 0)
			return r;
		switch (f.num) {
		case 1:
			to = &id;
			break;
		case 2:
			to = &map->start;
			break;
		case 3:
			to = &map->limit;
			break;
		case 4:
			to = &map->offset;
			break;
		case 5:
			r = dec_pprof_string(p, &c, &f, &map->path);
			break;
		case 6:
			r = dec_pprof_string(p, &c, &f, &map->build_id);
			break;
		case 7:
			flag = &map->has_functions;
			break;
		case 8:
			flag = &map->has_filenames;
			break;
		case 9:
			flag = &map->has_lines;
			break;
		case 10:
			flag = &map->has_inlines;
			break;
		default:
			continue;
		}
		if (r == 0)
			r = dec_pprof_wire(p, &c, &f, DEC_WIRE_VARINT);
		if (r < 0)
			return r;
		*to = f.value;
		if (flag)
			*flag = f.value != 0;
	}
	*ret_id = id;
	return 0;
}

int dec_pprof_mapping(struct dec_pprof *p, struct cursor c)
{
	struct prof_mapping map = {0};
	uint32_t to;
	uint64_t id;
	int r = read_mapping(p, c, &map, &id);

	if (r < 0)
		return r;
	r = prof_model_mapping(p->m, &map, &to);
	return r < 0 ? dec_model_err(p->in, r, offset_of(p, &c))
	             : add_id(p, &c, "mapping", &p->mapping_ids, id, to);
}

int dec_pprof_mapping_flags(struct dec_pprof *p, struct cursor c)
{
	struct prof_mapping map = {0}, *to;
	uint64_t id;
	int r = read_mapping(p, c, &map, &id);

	if (r < 0)
		return r;
	to = &p->m->mappings.p[dec_ids_find(&p->mapping_ids, id) - 1];
	to->has_functions = map.has_functions;
	to->has_filenames = map.has_filenames;
	to->has_lines = map.has_lines;
	to->has_inlines = map.has_inlines;
	return 0;
}

/* ---- functions ------------------------------------------------------------------------------- */

int dec_pprof_function(struct dec_pprof *p, struct cursor c)
{
	const struct cursor at = c;
	struct prof_function fn = {0};
	struct dec_field f;
	uint64_t id = 0;
	uint32_t to;
	int r = 0;

	while (r == 0 && cursor_left(&c) > 0) {
		r = dec_pprof_field(p, &c, &f);
		if (r < 0)
			break;
		switch (f.num) {
		case 1:
			r = dec_pprof_wire(p, &c, &f, DEC_WIRE_VARINT);
			id = f.value;
			break;
		case 2:
			r = dec_pprof_string(p, &c, &f, &fn.name);
			break;
		case 3:
			r = dec_pprof_string(p, &c, &f, &fn.system_name);
			break;
		case 4:
			r = dec_pprof_string(p, &c, &f, &fn.file);
			break;
		case 5:
			r = dec_pprof_wire(p, &c, &f, DEC_WIRE_VARINT);
			fn.start_line = (int64_t)f.value;
			break;
		default:
			break;
		}
	}
	if (r < 0)
		return r;
	r = prof_model_function(p->m, &fn, &to);
	return r < 0 ? dec_model_err(p->in, r, offset_of(p, &at))
	             : add_id(p, &at, "function", &p->function_ids, id, to);
}

/* ---- locations ------------------------------------------------------------------------------- */

static int read_line(struct dec_pprof *p, struct cursor c)
{
	struct prof_line line = {0};
	struct dec_field f = {0};
	int r;

	while (cursor_left(&c) > 0) {
		r = dec_pprof_field(p, &c, &f);
		if (r == 0 && f.num <= 3)
			r = dec_pprof_wire(p, &c, &f, DEC_WIRE_VARINT);
		if (r < 0)
			return r;
		if (f.num == 1) {
			line.function = dec_ids_find(&p->function_ids, f.value);
			if (f.value && !line.function)
				return dec_bad(p->in, -EINVAL, offset_of(p, &c),
				               "pprof: no function with the id %" PRIu64
				               " before it",
				               f.value);
		} else if (f.num == 2) {
			line.line = (int64_t)f.value;
		} else if (f.num == 3) {
			line.column = f.value > UINT32_MAX ? 0 : (uint32_t)f.value;
		}
	}
	if (p->lines.n == PROF_LOCATION_LINES_MAX)
		return dec_bad(p->in, -E2BIG, offset_of(p, &c),
		               "pprof: a location with more than %u lines",
		               PROF_LOCATION_LINES_MAX);
	r = vec_push(&p->lines, line);
	return r < 0 ? dec_model_err(p->in, r, offset_of(p, &c)) : 0;
}

/* perf-agent writes the reason into the system name: "unresolved: no symbol table". */
static enum ev_reason reason_of(const struct dec_pprof *p, uint32_t mapping)
{
	static const char mark[] = "unresolved: ";
	const char *system = "";

	if (p->lines.n > 0 && p->lines.p[0].function)
		system = prof_model_str(p->m,
		                        p->m->functions.p[p->lines.p[0].function - 1].system_name);
	else
		return mapping ? EV_REASON_NO_SYMBOL : EV_REASON_NO_MAPPING;
	if (!str_starts(system, mark))
		return EV_REASON_NAMED;
	for (int i = EV_REASON_NAMED + 1; i < EV_REASON_CNT; i++) {
		if (strcmp(system + strlen(mark), ev_reason_name((enum ev_reason)i)) == 0)
			return (enum ev_reason)i;
	}
	return EV_REASON_NO_SYMBOL;
}

/* Adds a location to the model. If its address is not in its mapping, as where a tool knows no
 * addresses, it gets a mapping of the same file without a range. */
static int add_location(struct dec_pprof *p, uint32_t mapping, uint64_t address, uint32_t *ret)
{
	const uint8_t reason = (uint8_t)reason_of(p, mapping);
	struct prof_mapping map = {0};
	int r = prof_model_location(p->m, mapping, address, reason, p->lines.p,
	                            (uint32_t)p->lines.n, ret);

	if (r != -EINVAL)
		return r;
	map.path = p->m->mappings.p[mapping - 1].path;
	map.build_id = p->m->mappings.p[mapping - 1].build_id;
	p->outside++;
	r = prof_model_mapping(p->m, &map, &mapping);
	return r < 0 ? r
	             : prof_model_location(p->m, mapping, address, reason, p->lines.p,
	                                   (uint32_t)p->lines.n, ret);
}

int dec_pprof_location(struct dec_pprof *p, struct cursor c)
{
	const struct cursor at = c;
	uint64_t id = 0, mapping_id = 0, address = 0;
	struct dec_field f;
	uint32_t mapping, to;
	int r = 0;

	p->lines.n = 0;
	while (r == 0 && cursor_left(&c) > 0) {
		r = dec_pprof_field(p, &c, &f);
		if (r == 0 && f.num <= 4)
			r = dec_pprof_wire(p, &c, &f,
			                   f.num == 4 ? DEC_WIRE_BYTES : DEC_WIRE_VARINT);
		if (r < 0)
			break;
		if (f.num == 1)
			id = f.value;
		else if (f.num == 2)
			mapping_id = f.value;
		else if (f.num == 3)
			address = f.value;
		else if (f.num == 4)
			r = read_line(p, f.bytes);
	}
	if (r < 0)
		return r;
	mapping = dec_ids_find(&p->mapping_ids, mapping_id);
	p->no_mapping += mapping_id && !mapping;
	r = add_location(p, mapping, address, &to);
	return r < 0 ? dec_model_err(p->in, r, offset_of(p, &at))
	             : add_id(p, &at, "location", &p->location_ids, id, to);
}

/* ---- samples --------------------------------------------------------------------------------- */

static int add_loc(struct dec_pprof *p, const struct cursor *c, uint64_t id)
{
	const uint32_t loc = dec_ids_find(&p->location_ids, id);
	int r;

	if (!loc)
		return dec_bad(p->in, -EINVAL, offset_of(p, c),
		               "pprof: no location with the id %" PRIu64 " before it", id);
	r = vec_push(&p->locs, loc);
	if (r == -E2BIG)
		return dec_bad(p->in, r, offset_of(p, c), "pprof: a stack of more than %u frames",
		               PROF_SAMPLE_LOCS_MAX);
	return r < 0 ? dec_model_err(p->in, r, offset_of(p, c)) : 0;
}

static void add_value(struct dec_pprof *p, uint64_t value)
{
	if (p->n_values < PROF_TYPE_MAX)
		p->values[p->n_values] = (int64_t)value;
	p->n_values++;
}

static int read_label(struct dec_pprof *p, struct cursor c)
{
	struct prof_label label = {0};
	struct dec_field f;
	int r = 0;

	while (r == 0 && cursor_left(&c) > 0) {
		r = dec_pprof_field(p, &c, &f);
		if (r < 0)
			break;
		if (f.num == 1) {
			r = dec_pprof_string(p, &c, &f, &label.key);
		} else if (f.num == 2) {
			r = dec_pprof_string(p, &c, &f, &label.str);
		} else if (f.num == 3) {
			r = dec_pprof_wire(p, &c, &f, DEC_WIRE_VARINT);
			label.num = (int64_t)f.value;
		} else if (f.num == 4) {
			r = dec_pprof_string(p, &c, &f, &label.unit);
		}
	}
	if (r < 0)
		return r;
	if (p->n_labels == PROF_SAMPLE_LABELS_MAX)
		return dec_bad(p->in, -E2BIG, offset_of(p, &c),
		               "pprof: a sample with more than %u labels", PROF_SAMPLE_LABELS_MAX);
	if (label.str) {
		label.num = 0;
		label.unit = 0;
	}
	p->labels[p->n_labels++] = label;
	return 0;
}

/* Locations (1) and values (2) are lists: packed, or a field each. */
static int read_numbers(struct dec_pprof *p, struct cursor *c, struct dec_field *f)
{
	uint64_t v;
	int r = 0;

	if (f->wire == DEC_WIRE_VARINT) {
		if (f->num == 1)
			return add_loc(p, c, f->value);
		add_value(p, f->value);
		return 0;
	}
	r = dec_pprof_wire(p, c, f, DEC_WIRE_BYTES);
	while (r == 0 && cursor_left(&f->bytes) > 0) {
		r = dec_pb_varint(&f->bytes, &v);
		if (r < 0)
			return dec_pprof_bad(p, &f->bytes, r);
		if (f->num == 1)
			r = add_loc(p, &f->bytes, v);
		else
			add_value(p, v);
	}
	return r;
}

int dec_pprof_sample(struct dec_pprof *p, struct cursor c)
{
	const struct cursor at = c;
	struct dec_field f;
	int r = 0;

	p->locs.n = 0;
	p->n_values = p->n_labels = 0;
	while (r == 0 && cursor_left(&c) > 0) {
		r = dec_pprof_field(p, &c, &f);
		if (r < 0)
			break;
		if (f.num == 1 || f.num == 2) {
			r = read_numbers(p, &c, &f);
		} else if (f.num == 3) {
			r = dec_pprof_wire(p, &c, &f, DEC_WIRE_BYTES);
			if (r == 0)
				r = read_label(p, f.bytes);
		}
	}
	if (r < 0)
		return r;
	if (p->n_values != p->n_types)
		return dec_bad(p->in, -EINVAL, offset_of(p, &at),
		               "pprof: a sample with %" PRIu64 " values, but there are %" PRIu64
		               " sample types",
		               p->n_values, p->n_types);
	r = prof_model_sample(p->m, p->locs.p, (uint32_t)p->locs.n, p->labels, p->n_labels,
	                      p->values);
	return r < 0 ? dec_model_err(p->in, r, offset_of(p, &at)) : 0;
}
