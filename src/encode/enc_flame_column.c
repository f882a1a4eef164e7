/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Columns of numbers of a page. Bytes of equal significance are next to each other: the low bytes of
 * times and values are noise, and deflate stores those and compresses the others.
 */
#include "encode/enc_flame_priv.h"

void flame_column_init(struct flame_column *c)
{
	*c = (struct flame_column){.values.max = FLAME_BYTES_MAX / sizeof(uint64_t)};
}

void flame_column_done(struct flame_column *c)
{
	vec_done(&c->values);
}

void flame_column_add(struct flame_column *c, uint64_t v)
{
	int r = vec_push(&c->values, v);

	c->err = c->err ? c->err : r;
}

void flame_column_put(struct flame_column *c, struct sbuf *to)
{
	const size_t n = c->values.n;
	uint64_t all = 0;
	size_t width = 0;
	uint8_t *at;

	vec_each (v, &c->values)
		all |= *v;
	while (width < sizeof(all) && all >> 8 * width)
		width++;
	to->err = to->err ? to->err : c->err;
	if (n)
		enc_put_varint(to, width);
	at = sbuf_reserve(to, n * width);
	if (at) {
		for (size_t byte = 0; byte < width; byte++)
			vec_each (v, &c->values)
				*at++ = (uint8_t)(*v >> 8 * byte);
		to->len += n * width;
		to->p[to->len] = 0;
	}
	c->values.n = 0;
}

int flame_places_init(struct flame_places *p, size_t n_groups)
{
	*p = (struct flame_places){.met = calloc(n_groups, sizeof(*p->met)),
	                           .place.max = UINT32_MAX};
	flame_column_init(&p->places);
	flame_column_init(&p->fresh);
	return p->met ? intern_new(UINT32_MAX - 1, FLAME_BYTES_MAX, &p->pairs) : -ENOMEM;
}

void flame_places_done(struct flame_places *p)
{
	p->pairs = intern_free(p->pairs);
	free(p->met);
	vec_done(&p->place);
	flame_column_done(&p->places);
	flame_column_done(&p->fresh);
}

int flame_places_add(struct flame_places *p, uint32_t group, uint64_t v, uint64_t fresh)
{
	const uint64_t pair[2] = {group, v};
	uint32_t id = 0; /* clang-tidy does not see that intern_add sets it */
	bool is_new = false;
	int r = intern_add(p->pairs, pair, sizeof(pair), &id, &is_new);

	if (r == 0 && is_new)
		r = vec_push(&p->place, ++p->met[group]);
	if (r < 0)
		return r;
	flame_column_add(&p->places, is_new ? 0 : p->place.p[id]);
	if (is_new)
		flame_column_add(&p->fresh, fresh);
	return 0;
}

void flame_places_put(struct flame_places *p, struct sbuf *to)
{
	flame_column_put(&p->places, to);
	flame_column_put(&p->fresh, to);
}
