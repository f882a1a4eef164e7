/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pprof. Messages may be in any order, and refer to later ones: a scan finds their places, and
 * reads strings; then they are read in the order in which they depend on each other.
 * Source: github.com/google/pprof/proto/profile.proto.
 */
#include "decode/dec_pprof_priv.h"

#include <inttypes.h>

/* Field numbers of the profile. */
enum {
	SAMPLE_TYPE = 1,
	SAMPLE = 2,
	MAPPING = 3,
	LOCATION = 4,
	FUNCTION = 5,
	STRING_TABLE = 6,
	DROP_FRAMES = 7,
	KEEP_FRAMES = 8,
	TIME_NANOS = 9,
	DURATION_NANOS = 10,
	PERIOD_TYPE = 11,
	PERIOD = 12,
	COMMENT = 13,
	DEFAULT_SAMPLE_TYPE = 14,
	DOC_URL = 15,
};

static int add_string(struct dec_pprof *p, const struct cursor *c, struct cursor bytes)
{
	uint32_t id;
	int r;

	if (p->strings.n == 0 && cursor_left(&bytes) > 0)
		return dec_bad(p->in, -EINVAL, (uint64_t)(c->p - p->in->data),
		               "pprof: string 0 before it is not empty");
	r = dec_text(p->m, bytes.p, cursor_left(&bytes), '?', &id);
	if (r == 0)
		r = vec_push(&p->strings, id);
	return r < 0 ? dec_model_err(p->in, r, (uint64_t)(c->p - p->in->data)) : 0;
}

static void add_part(struct dec_part *part, size_t from, size_t to)
{
	if (part->n == 0)
		part->first = from;
	part->end = to;
	part->n++;
}

/* Checks the outermost level, finds the messages and reads the strings. */
static int scan(struct dec_pprof *p)
{
	struct cursor c = cursor_of(p->in->data, p->in->len);
	struct dec_field f;
	int r = 0;

	while (r == 0 && cursor_left(&c) > 0) {
		const size_t from = (size_t)(c.p - p->in->data);
		struct dec_part *part = NULL;

		r = dec_pprof_field(p, &c, &f);
		if (r < 0)
			break;
		switch (f.num) {
		case SAMPLE:
			part = &p->samples;
			break;
		case MAPPING:
			part = &p->mappings;
			break;
		case LOCATION:
			part = &p->locations;
			break;
		case FUNCTION:
			part = &p->functions;
			break;
		case STRING_TABLE:
			r = dec_pprof_wire(p, &c, &f, DEC_WIRE_BYTES);
			if (r == 0)
				r = add_string(p, &c, f.bytes);
			break;
		case SAMPLE_TYPE:
			p->n_types++;
			break;
		default:
			break;
		}
		if (!part)
			continue;
		r = dec_pprof_wire(p, &c, &f, DEC_WIRE_BYTES);
		add_part(part, from, (size_t)(c.p - p->in->data));
	}
	return r;
}

/* Reads all messages of a kind. */
static int read_part(struct dec_pprof *p, const struct dec_part *part, uint32_t num,
                     int (*add)(struct dec_pprof *p, struct cursor c))
{
	struct cursor c = cursor_of(p->in->data + part->first, part->end - part->first);
	struct dec_field f;
	int r = 0;

	while (r == 0 && cursor_left(&c) > 0) {
		r = dec_pprof_field(p, &c, &f);
		if (r == 0 && f.num == num)
			r = add(p, f.bytes);
	}
	return r;
}

/* ---- fields of the profile ------------------------------------------------------------------- */

static int read_type(struct dec_pprof *p, struct cursor c, struct prof_type *ret)
{
	struct dec_field f;
	int r = 0;

	*ret = (struct prof_type){0};
	while (r == 0 && cursor_left(&c) > 0) {
		r = dec_pprof_field(p, &c, &f);
		if (r == 0 && f.num == 1)
			r = dec_pprof_string(p, &c, &f, &ret->type);
		else if (r == 0 && f.num == 2)
			r = dec_pprof_string(p, &c, &f, &ret->unit);
	}
	return r;
}

static int add_comment(struct dec_pprof *p, const struct cursor *c, uint64_t idx)
{
	const struct dec_field f = {.num = COMMENT, .value = idx};
	uint32_t id;
	int r = dec_pprof_string(p, c, &f, &id);

	if (r < 0)
		return r;
	r = vec_push(&p->m->comments, id);
	return r < 0 ? dec_model_err(p->in, r, (uint64_t)(c->p - p->in->data)) : 0;
}

static int read_comments(struct dec_pprof *p, const struct cursor *c, struct dec_field *f)
{
	uint64_t idx;
	int r = 0;

	if (f->wire == DEC_WIRE_VARINT)
		return add_comment(p, c, f->value);
	r = dec_pprof_wire(p, c, f, DEC_WIRE_BYTES);
	while (r == 0 && cursor_left(&f->bytes) > 0) {
		r = dec_pb_varint(&f->bytes, &idx);
		r = r < 0 ? dec_pprof_bad(p, &f->bytes, r) : add_comment(p, &f->bytes, idx);
	}
	return r;
}

static int read_header_field(struct dec_pprof *p, const struct cursor *c, struct dec_field *f)
{
	struct prof_model *m = p->m;
	int64_t *number = NULL;
	int r;

	switch (f->num) {
	case SAMPLE_TYPE:
	case PERIOD_TYPE:
		r = dec_pprof_wire(p, c, f, DEC_WIRE_BYTES);
		if (r < 0)
			return r;
		if (f->num == PERIOD_TYPE)
			return read_type(p, f->bytes, &m->period_type);
		if (m->n_types < PROF_TYPE_MAX)
			return read_type(p, f->bytes, &m->sample_type[m->n_types++]);
		return 0;
	case DROP_FRAMES:
		return dec_pprof_string(p, c, f, &m->drop_frames);
	case KEEP_FRAMES:
		return dec_pprof_string(p, c, f, &m->keep_frames);
	case DEFAULT_SAMPLE_TYPE:
		return dec_pprof_string(p, c, f, &m->default_type);
	case DOC_URL:
		return dec_pprof_string(p, c, f, &m->doc_url);
	case COMMENT:
		return read_comments(p, c, f);
	case TIME_NANOS:
		number = &m->time_realtime_ns;
		break;
	case DURATION_NANOS:
		number = &m->duration_ns;
		break;
	case PERIOD:
		number = &m->period;
		break;
	default:
		return 0;
	}
	r = dec_pprof_wire(p, c, f, DEC_WIRE_VARINT);
	if (r == 0)
		*number = (int64_t)f->value;
	return r;
}

static int read_header(struct dec_pprof *p)
{
	struct cursor c = cursor_of(p->in->data, p->in->len);
	struct dec_field f;
	int r = 0;

	while (r == 0 && cursor_left(&c) > 0) {
		r = dec_pprof_field(p, &c, &f);
		if (r == 0)
			r = read_header_field(p, &c, &f);
	}
	if (r < 0)
		return r;
	if (p->n_types == 0)
		return err_set(p->in->err, -EINVAL,
		               "%s: no profile, or a pprof without sample types", p->in->name);
	if (p->n_types > PROF_TYPE_MAX)
		dec_note(p->in, "%" PRIu64 " sample types over %d were left out",
		         p->n_types - PROF_TYPE_MAX, PROF_TYPE_MAX);
	return 0;
}

static int read_all(struct dec_pprof *p)
{
	int r = scan(p);

	if (r == -EINVAL && p->n_types == 0 && p->strings.n == 0 && p->samples.n == 0)
		return err_set(p->in->err, r, "%s: no profile: neither folded stacks nor pprof",
		               p->in->name);
	dec_ids_init(&p->mapping_ids, p->mappings.n);
	dec_ids_init(&p->location_ids, p->locations.n);
	dec_ids_init(&p->function_ids, p->functions.n);
	if (r == 0)
		r = read_header(p);
	if (r == 0)
		r = read_part(p, &p->mappings, MAPPING, dec_pprof_mapping);
	if (r == 0)
		r = read_part(p, &p->functions, FUNCTION, dec_pprof_function);
	if (r == 0)
		r = read_part(p, &p->locations, LOCATION, dec_pprof_location);
	if (r == 0)
		r = read_part(p, &p->mappings, MAPPING, dec_pprof_mapping_flags);
	if (r == 0)
		r = read_part(p, &p->samples, SAMPLE, dec_pprof_sample);
	if (r == 0 && p->no_mapping)
		dec_note(p->in, "%" PRIu64 " locations have a mapping that the file lacks",
		         p->no_mapping);
	if (r == 0 && p->outside)
		dec_note(p->in, "%" PRIu64 " locations have an address outside of their mapping",
		         p->outside);
	return r;
}

int dec_pprof(struct dec_input *in)
{
	_cleanup_free_ struct dec_pprof *p = calloc(1, sizeof(*p));
	int r;

	if (!p)
		return err_set(in->err, -ENOMEM, "%s: out of memory", in->name);
	p->in = in;
	p->strings.max = SIZE_MAX / 8;
	p->locs.max = PROF_SAMPLE_LOCS_MAX;
	p->lines.max = PROF_LOCATION_LINES_MAX;
	r = dec_add_model(in, &p->m);
	if (r == 0)
		r = read_all(p);
	vec_done(&p->strings);
	vec_done(&p->locs);
	vec_done(&p->lines);
	dec_ids_done(&p->mapping_ids);
	dec_ids_done(&p->location_ids);
	dec_ids_done(&p->function_ids);
	return r;
}
