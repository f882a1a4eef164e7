/* SPDX-License-Identifier: Apache-2.0 */
/* Fields, strings and ids of a pprof. */
#include "decode/dec_pprof_priv.h"

#include <inttypes.h>

int dec_pprof_bad(struct dec_pprof *p, const struct cursor *c, int code)
{
	const char *what = code == -ENODATA  ? "truncated"
	                   : code == -ERANGE ? "a number is over 64 bits"
	                                     : "no protobuf field";

	return dec_bad(p->in, -EINVAL, (uint64_t)(c->p - p->in->data), "pprof: %s", what);
}

int dec_pprof_field(struct dec_pprof *p, struct cursor *c, struct dec_field *ret)
{
	const struct cursor at = *c;
	int r = dec_pb_field(c, ret);

	return r < 0 ? dec_pprof_bad(p, &at, r) : 0;
}

int dec_pprof_wire(struct dec_pprof *p, const struct cursor *c, const struct dec_field *f,
                   enum dec_wire wire)
{
	if (f->wire == wire)
		return 0;
	return dec_bad(p->in, -EINVAL, (uint64_t)(c->p - p->in->data),
	               "pprof: field %u before it has wire type %d instead of %d", f->num,
	               (int)f->wire, (int)wire);
}

int dec_pprof_string(struct dec_pprof *p, const struct cursor *c, const struct dec_field *f,
                     uint32_t *ret)
{
	int r = dec_pprof_wire(p, c, f, DEC_WIRE_VARINT);

	if (r < 0)
		return r;
	if (f->value == 0) {
		*ret = 0;
		return 0;
	}
	if (f->value >= p->strings.n)
		return dec_bad(p->in, -EINVAL, (uint64_t)(c->p - p->in->data),
		               "pprof: string %" PRIu64 " of %zu before it", f->value,
		               p->strings.n);
	*ret = p->strings.p[f->value];
	return 0;
}

/* ---- ids ------------------------------------------------------------------------------------- */

/* Writers number from 1, so an array is mostly full. */
void dec_ids_init(struct dec_ids *ids, size_t n)
{
	ids->dense.max = 2 * n + 1024;
	ids->sparse_to.max = UINT32_MAX;
}

void dec_ids_done(struct dec_ids *ids)
{
	vec_done(&ids->dense);
	ids->sparse = intern_free(ids->sparse);
	vec_done(&ids->sparse_to);
}

static int add_sparse(struct dec_ids *ids, uint64_t id, uint32_t to)
{
	uint32_t idx;
	bool is_new = false;
	int r = vec_reserve(&ids->sparse_to, 1);

	if (r == 0 && !ids->sparse)
		r = intern_new(UINT32_MAX, SIZE_MAX / 2, &ids->sparse);
	if (r == 0)
		r = intern_add(ids->sparse, &id, sizeof(id), &idx, &is_new);
	if (r < 0)
		return r;
	return is_new ? vec_push(&ids->sparse_to, to) : -EEXIST;
}

int dec_ids_add(struct dec_ids *ids, uint64_t id, uint32_t to)
{
	int r = 0;

	if (id == 0)
		return -EINVAL;
	if (id >= ids->dense.max)
		return add_sparse(ids, id, to);
	if (id >= ids->dense.n)
		r = vec_reserve(&ids->dense, id + 1 - ids->dense.n);
	while (r == 0 && ids->dense.n <= id)
		ids->dense.p[ids->dense.n++] = 0;
	if (r == 0 && ids->dense.p[id])
		r = -EEXIST;
	if (r == 0)
		ids->dense.p[id] = to;
	return r;
}

uint32_t dec_ids_find(const struct dec_ids *ids, uint64_t id)
{
	uint32_t idx;

	if (id < ids->dense.n)
		return ids->dense.p[id];
	if (!ids->sparse || id < ids->dense.max)
		return 0;
	idx = intern_find(ids->sparse, &id, sizeof(id));
	return idx == INTERN_NONE ? 0 : ids->sparse_to.p[idx];
}
