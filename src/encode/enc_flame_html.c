/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Profiles as a page that shows them. The data is a list of columns of numbers, compressed and in
 * base 85, which no name can end; the page unpacks it. docs/formats.md has the layout.
 */
#include <libdeflate.h>

#include "encode/enc_flame_priv.h"

#define MAGIC       "PAFLAME3"
#define LEVEL       6
#define LEVEL_LARGE 5 /* half the time of level 6 for 2 % more bytes */
#define LARGE_BYTES ((size_t)4 << 20)
#define NUMBERS_MAX 4 /* label keys whose values are amounts: "longest", "runqueue" */
#define SET_MAX     PROF_SAMPLE_LABELS_MAX

/* A label that groups samples: hashed as bytes. */
struct label {
	uint32_t key, str; /* strings of the page; str 0: the number */
	int64_t num;
};
_Static_assert(sizeof(struct label) == 16, "hashed as bytes");

struct html {
	struct intern *strings;
	VEC(uint32_t) number;  /* by string: its number on the page; 0: none yet */
	VEC(uint32_t) written; /* strings by number: in the order in which they are first met */
	struct sbuf body;      /* all but the strings */
	struct flame_column column; /* one at a time */
};

/* The profiles of a page: profiles[n]. */
struct pages {
	const struct enc_flame_profile *profiles;
	size_t n;
	const char *const *names; /* names[n_names]: of two that are compared */
	size_t n_names;
};

struct samples {
	const struct flame_tree *t;
	struct intern *labels;                                      /* struct label */
	struct intern *sets;                                        /* uint32_t ids of labels */
	uint32_t *order;                                            /* samples by node */
	VEC(uint32_t) set_of;                                       /* by sample */
	uint32_t number_key[NUMBERS_MAX], number_unit[NUMBERS_MAX]; /* strings of the model */
	uint32_t n_numbers;
};

/* ---- numbers --------------------------------------------------------------------------------- */

static void put(struct html *h, uint64_t v)
{
	enc_put_varint(&h->body, v);
}

static void add(struct html *h, uint64_t v)
{
	flame_column_add(&h->column, v);
}

static void put_column(struct html *h)
{
	flame_column_put(&h->column, &h->body);
}

/* ---- strings --------------------------------------------------------------------------------- */

static void fail(struct html *h, int r)
{
	h->body.err = h->body.err ? h->body.err : r;
}

/* The number of a string on the page. Names of frames get theirs in the order of the alphabet, in which
 * they compress best, and in which their numbers ascend. */
static uint32_t number_of(struct html *h, uint32_t id)
{
	int r = 0;

	while (h->number.n <= id && r == 0)
		r = vec_push(&h->number, 0);
	if (r == 0 && h->number.p[id] == 0 && id != 0) {
		h->number.p[id] = (uint32_t)h->written.n + 1;
		r = vec_push(&h->written, id);
	}
	if (r < 0)
		fail(h, r);
	return r < 0 ? 0 : h->number.p[id];
}

static int put_string(struct html *h, const char *s)
{
	uint32_t id;
	int r = flame_string(h->strings, s, &id);

	if (r == 0)
		put(h, number_of(h, id));
	return r;
}

/* ---- frames and nodes ------------------------------------------------------------------------ */

/* Adds the difference to @before, which becomes @v. */
static void add_step(struct html *h, uint32_t v, uint32_t *before)
{
	add(h, flame_zigzag((int64_t)v - *before));
	*before = v;
}

static void put_frames(struct html *h, const struct flame_tree *t)
{
	uint32_t before = 0;

	put(h, t->frames.n);
	vec_each (f, &t->frames)
		add_step(h, number_of(h, f->name), &before);
	put_column(h);
	before = 0;
	vec_each (f, &t->frames)
		add_step(h, number_of(h, f->file), &before);
	put_column(h);
	vec_each (f, &t->frames)
		add(h, (uint64_t)f->line);
	put_column(h);
	vec_each (f, &t->frames)
		add(h, number_of(h, f->module));
	put_column(h);
	/* Most modules have one. */
	vec_each (f, &t->frames)
		add(h, flame_zigzag((int64_t)number_of(h, f->build_id) - number_of(h, f->module)));
	put_column(h);
	vec_each (f, &t->frames)
		add(h, f->kind);
	put_column(h);
	vec_each (f, &t->frames)
		add(h, f->reason);
	put_column(h);
}

/*
 * How many levels a node is above the previous one, less the one that it would be below. And its
 * frame: a function calls few others, so it is one of those that were met below the parent's frame.
 */
static int put_nodes(struct html *h, const struct flame_tree *t)
{
	_cleanup_(flame_places_done) struct flame_places frames;
	_cleanup_free_ uint32_t *depth = calloc(t->nodes.n, sizeof(*depth));
	int r = flame_places_init(&frames, t->frames.n + 1);

	if (!depth)
		return -ENOMEM;
	put(h, t->nodes.n - 1);
	for (size_t i = 1; i < t->nodes.n && r == 0; i++) {
		const struct flame_node *n = &t->nodes.p[i];
		/* The root's number is that after the last frame. */
		uint32_t above = n->parent ? t->nodes.p[n->parent].frame : (uint32_t)t->frames.n;

		depth[i] = depth[n->parent] + 1;
		add(h, depth[i - 1] + 1 - depth[i]);
		r = flame_places_add(&frames, above, n->frame, n->frame);
	}
	put_column(h);
	flame_places_put(&frames, &h->body);
	return r;
}

/* ---- samples --------------------------------------------------------------------------------- */

static void samples_done(struct samples *s)
{
	s->labels = intern_free(s->labels);
	s->sets = intern_free(s->sets);
	free(s->order);
	vec_done(&s->set_of);
}

static int cmp_node(const void *a, const void *b, void *arg)
{
	const struct samples *s = arg;
	uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
	uint32_t m = s->t->sample_node.p[x], n = s->t->sample_node.p[y];

	return m != n ? (m > n) - (m < n) : (x > y) - (x < y);
}

/* Labels with a unit are amounts: they group nothing. */
static bool is_amount(const struct prof_label *l)
{
	return !l->str && l->unit;
}

/* Samples with sets that differ in amounts alone share one. */
static int add_set(struct html *h, struct samples *s, const struct prof_sample *sample)
{
	const struct prof_model *m = s->t->m;
	uint32_t ids[SET_MAX], n = 0, i;
	uint32_t set = 0; /* clang-tidy does not see that intern_add sets it */
	int r = 0;

	for (uint32_t k = 0; k < sample->label_cnt && k < SET_MAX && r == 0; k++) {
		const struct prof_label *l = &m->labels.p[sample->label_first + k];
		struct label mine = {.num = l->str ? 0 : l->num};

		if (is_amount(l)) {
			for (i = 0; i < s->n_numbers && s->number_key[i] != l->key; i++)
				;
			if (i == s->n_numbers && i < NUMBERS_MAX) {
				s->number_key[i] = l->key;
				s->number_unit[i] = l->unit;
				s->n_numbers++;
			}
			continue;
		}
		r = flame_string(h->strings, prof_model_str(m, l->key), &mine.key);
		if (r == 0)
			r = flame_string(h->strings, prof_model_str(m, l->str), &mine.str);
		if (r == 0)
			r = intern_add(s->labels, &mine, sizeof(mine), &ids[n++], NULL);
	}
	if (r == 0)
		r = intern_add(s->sets, ids, n * sizeof(*ids), &set, NULL);
	return r < 0 ? r : vec_push(&s->set_of, set);
}

static int prepare_samples(struct html *h, struct samples *s)
{
	size_t n = s->t->m->samples.n;
	int r;

	s->set_of.max = PROF_SAMPLES_MAX;
	s->order = malloc(MAX_OF(n, (size_t)1) * sizeof(*s->order));
	if (!s->order)
		return -ENOMEM;
	r = intern_new(PROF_LABELS_MAX, FLAME_BYTES_MAX, &s->labels);
	if (r == 0)
		r = intern_new(PROF_SAMPLES_MAX, FLAME_BYTES_MAX, &s->sets);
	for (size_t i = 0; i < n && r == 0; i++) {
		s->order[i] = (uint32_t)i;
		r = add_set(h, s, &s->t->m->samples.p[i]);
	}
	if (r == 0)
		qsort_r(s->order, n, sizeof(*s->order), cmp_node, s);
	return r;
}

static void put_labels(struct html *h, const struct samples *s)
{
	put(h, intern_count(s->labels));
	for (uint32_t i = 0; i < intern_count(s->labels); i++) {
		const struct label *l = intern_get(s->labels, i, NULL);

		put(h, number_of(h, l->key));
		put(h, number_of(h, l->str));
		if (!l->str)
			put(h, flame_zigzag(l->num));
	}
	put(h, intern_count(s->sets));
	for (uint32_t i = 0; i < intern_count(s->sets); i++) {
		size_t len;
		const uint32_t *ids = intern_get(s->sets, i, &len);

		put(h, len / sizeof(*ids));
		for (size_t k = 0; k < len / sizeof(*ids); k++)
			put(h, ids[k]);
	}
}

static uint64_t amount_of(const struct samples *s, const struct prof_sample *sample, uint32_t key)
{
	for (uint32_t i = 0; i < sample->label_cnt; i++) {
		const struct prof_label *l = &s->t->m->labels.p[sample->label_first + i];

		if (l->key == key && is_amount(l))
			return l->num > 0 ? (uint64_t)l->num : 0;
	}
	return 0;
}

/*
 * A value but the count. Of one event it is one of few: a period for each CPU, scaled for each thread.
 * Of more it is near their number times the period.
 */
static int put_values(struct html *h, const struct samples *s, uint32_t type)
{
	const struct prof_model *m = s->t->m;
	_cleanup_(flame_places_done) struct flame_places values;
	int r = flame_places_init(&values, intern_count(s->sets) + 1);

	for (size_t i = 0; i < m->samples.n && r == 0; i++) {
		const struct prof_sample *x = &m->samples.p[s->order[i]];
		const uint64_t v = flame_value(x, type), count = flame_value(x, 0);
		const uint64_t rest =
		        flame_zigzag((int64_t)(v - count * (uint64_t)MAX_OF(m->period, 0)));

		if (count == 1)
			r = flame_places_add(&values, s->set_of.p[s->order[i]], v, rest);
		else
			add(h, rest);
	}
	put_column(h);
	flame_places_put(&values, &h->body);
	return r;
}

static int put_samples(struct html *h, struct samples *s)
{
	const struct prof_model *m = s->t->m;
	size_t n = m->samples.n;
	uint32_t node = 0;
	int r = prepare_samples(h, s);

	if (r < 0)
		return r;
	put_labels(h, s);
	put(h, s->n_numbers);
	for (uint32_t i = 0; i < s->n_numbers && r == 0; i++) {
		r = put_string(h, prof_model_str(m, s->number_key[i]));
		if (r == 0)
			r = put_string(h, prof_model_str(m, s->number_unit[i]));
	}
	put(h, n);
	for (size_t i = 0; i < n; i++) {
		add(h, s->t->sample_node.p[s->order[i]] - node);
		node = s->t->sample_node.p[s->order[i]];
	}
	put_column(h);
	for (size_t i = 0; i < n; i++)
		add(h, s->set_of.p[s->order[i]]);
	put_column(h);
	for (size_t i = 0; i < n; i++)
		add(h, flame_value(&m->samples.p[s->order[i]], 0));
	put_column(h);
	for (uint32_t type = 1; type < m->n_types && r == 0; type++)
		r = put_values(h, s, type);
	for (uint32_t k = 0; k < s->n_numbers; k++) {
		for (size_t i = 0; i < n; i++)
			add(h, amount_of(s, &m->samples.p[s->order[i]], s->number_key[k]));
		put_column(h);
	}
	return r;
}

/* ---- the whole ------------------------------------------------------------------------------- */

/* Counts the items of all comments; adds them too if @add. Returns 0 or a negative errno. */
static int each_item(struct html *h, const struct prof_model *m, bool add, uint64_t *ret_n)
{
	int r = 0;

	*ret_n = 0;
	for (size_t i = 0; i < m->comments.n && r == 0; i++) {
		struct prof_items it;
		const char *item;

		prof_items_init(&it, prof_model_str(m, m->comments.p[i]));
		while (r == 0 && (item = prof_items_next(&it))) {
			++*ret_n;
			r = add ? put_string(h, item) : 0;
		}
		r = r == 0 ? it.item.err : r;
		prof_items_done(&it);
	}
	return r;
}

/* A packed comment is a string for each of its items. */
static int put_comments(struct html *h, const struct prof_model *m)
{
	uint64_t n;
	int r = each_item(h, m, false, &n);

	put(h, n);
	return r == 0 ? each_item(h, m, true, &n) : r;
}

static int put_header(struct html *h, const struct prof_model *m)
{
	uint32_t by_default = 0;
	int r = put_string(h, flame_title(m));

	put(h, m->n_types);
	for (uint32_t i = 0; i < m->n_types && r == 0; i++) {
		r = put_string(h, prof_model_str(m, m->sample_type[i].type));
		if (r == 0)
			r = put_string(h, prof_model_str(m, m->sample_type[i].unit));
		if (m->sample_type[i].type == m->default_type)
			by_default = i;
	}
	put(h, by_default);
	put(h, (uint64_t)MAX_OF(m->time_realtime_ns, 0));
	put(h, (uint64_t)MAX_OF(m->duration_ns, 0));
	put(h, (uint64_t)MAX_OF(m->period, 0));
	return r == 0 ? put_comments(h, m) : r;
}

static int put_profile(struct html *h, const struct enc_flame_profile *p)
{
	_cleanup_(flame_tree_freep) struct flame_tree *t = NULL;
	_cleanup_(samples_done) struct samples s = {0};
	int r = flame_tree_new(p->model, h->strings, &t);

	if (r < 0)
		return r;
	s.t = t;
	r = put_header(h, p->model);
	if (r == 0)
		put_frames(h, t);
	if (r == 0)
		r = put_nodes(h, t);
	if (r == 0)
		r = put_samples(h, &s);
	return r == 0 ? flame_put_times(p, s.order, &h->body) : r;
}

static void put_strings(struct html *h, struct sbuf *to)
{
	size_t len;

	enc_put_varint(to, h->written.n + 1);
	add(h, 0); /* number 0 is "" */
	vec_each (id, &h->written) {
		(void)intern_get(h->strings, *id, &len);
		add(h, len);
	}
	flame_column_put(&h->column, to);
	vec_each (id, &h->written) {
		const char *s = intern_get(h->strings, *id, &len);

		(void)sbuf_add(to, s, len);
	}
}

/* The strings come first, although they are known last. */
static int put_data(struct html *h, const struct pages *p, struct sbuf *raw)
{
	uint32_t empty;
	int r = flame_string(h->strings, "", &empty); /* is 0 here, too */

	put(h, p->n_names);
	for (size_t i = 0; i < p->n_names && r == 0; i++)
		r = put_string(h, p->names[i]);
	put(h, p->n);
	for (size_t i = 0; i < p->n && r == 0; i++)
		r = put_profile(h, &p->profiles[i]);
	if (r < 0)
		return r;
	(void)sbuf_str(raw, MAGIC);
	put_strings(h, raw);
	if (h->body.err)
		return h->body.err;
	return sbuf_add(raw, h->body.p, h->body.len);
}

/* From '#', without '<', which begins a tag, and '\\'. */
static char digit_of(uint32_t v)
{
	char c = (char)('#' + v);

	c = (char)(c + (c >= '<'));
	return (char)(c + (c >= '\\'));
}

/* Four bytes are five digits, the highest first; n bytes at the end are the first n + 1. */
static void put_base85(struct sbuf *out, const uint8_t *p, size_t len)
{
	const size_t digits = len + (len + 3) / 4;
	char *to = sbuf_reserve(out, digits + 4); /* the last group is written as a whole */

	if (!to)
		return;
	for (size_t i = 0; i < len; i += 4, to += 5) {
		uint32_t v = 0;

		for (size_t k = 0; k < 4; k++)
			v = v << 8 | (i + k < len ? p[i + k] : 0);
		for (size_t k = 5; k-- > 0; v /= 85)
			to[k] = digit_of(v % 85);
	}
	out->len += digits;
	out->p[out->len] = '\0';
}

static int put_compressed(struct sbuf *out, const struct sbuf *raw)
{
	struct libdeflate_compressor *c =
	        libdeflate_alloc_compressor(raw->len < LARGE_BYTES ? LEVEL : LEVEL_LARGE);
	_cleanup_free_ uint8_t *packed = NULL;
	size_t room, len = 0;

	if (!c)
		return -ENOMEM;
	room = libdeflate_zlib_compress_bound(c, raw->len);
	packed = malloc(room);
	if (packed)
		len = libdeflate_zlib_compress(c, raw->p, raw->len, packed, room);
	libdeflate_free_compressor(c);
	if (!packed)
		return -ENOMEM;
	put_base85(out, packed, len);
	return out->err;
}

static void html_done(struct html *h)
{
	h->strings = intern_free(h->strings);
	vec_done(&h->number);
	vec_done(&h->written);
	sbuf_done(&h->body);
	flame_column_done(&h->column);
}

static int put_page(const struct pages *p, struct sbuf *out)
{
	_cleanup_(html_done) struct html h = {0};
	_cleanup_(sbuf_done) struct sbuf raw;
	size_t before = out->len;
	int r;

	sbuf_init(&raw, FLAME_BYTES_MAX);
	sbuf_init(&h.body, FLAME_BYTES_MAX);
	flame_column_init(&h.column);
	h.number.max = h.written.max = PROF_STRINGS_MAX;
	if (out->err)
		return out->err;
	r = intern_new(PROF_STRINGS_MAX, FLAME_BYTES_MAX, &h.strings);
	if (r == 0)
		r = put_data(&h, p, &raw);
	if (r == 0)
		r = sbuf_add(out, enc_flame_page_head, enc_flame_page_head_len);
	if (r == 0)
		r = put_compressed(out, &raw);
	if (r == 0)
		r = sbuf_add(out, enc_flame_page_tail, enc_flame_page_tail_len);
	if (r < 0) {
		out->len = before;
		if (out->p)
			out->p[before] = 0;
		out->err = r;
	}
	return r;
}

int enc_flame_html(const struct enc_flame_profile *profiles, size_t n, struct sbuf *out)
{
	return put_page(&(struct pages){.profiles = profiles, .n = n}, out);
}

int enc_flame_diff_html(const struct enc_flame_diff *d, struct sbuf *out)
{
	const struct enc_flame_profile profiles[2] = {{.model = d->before}, {.model = d->after}};
	const char *const names[2] = {d->before_name, d->after_name};
	const struct pages pages = {.profiles = profiles, .n = 2, .names = names, .n_names = 2};

	return flame_same_types(d->before, d->after) ? put_page(&pages, out) : -EINVAL;
}
