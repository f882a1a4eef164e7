/* SPDX-License-Identifier: Apache-2.0 */
/* Names of functions: read at once, or later in file order. See dw_names.h. */
#include "dwarf/dw_names.h"

#define NAMES_MAX (1 << 18)
#define NAME_SLOTS                                                                                 \
	(DW_BIT(DW_V_NAME) | DW_BIT(DW_V_LINKAGE) | DW_BIT(DW_V_DECL_LINE) | DW_BIT(DW_V_ORIGIN) | \
	 DW_BIT(DW_V_SPEC))
#define HELD_FRAMES_MAX (1 << 16)
#define HELD_TEXTS_MAX  (1 << 15)

/* Key of an entry that others refer to. All calls of an inlined function share it. */
struct name_key {
	uint64_t off;
	uint64_t sec_id;
};

/* Returns whether a file stays open. Files of split units may be closed for others. */
static bool stays(const struct dw_file *d, const struct dw_src *src)
{
	return src == &d->main || src == &d->alt || src == &d->dwp;
}

/* Copies a string into the call's memory, or notes that it is to be read. NULL if there is no
 * room. */
static int keep_str(struct dw_names *w, const struct dw_cu *cu, const struct dw_val *v,
                    struct dw_text *ret)
{
	struct dw_held_text t = {.no = (uint32_t)w->texts.n};
	int r;

	if (w->hold && stays(w->d, cu->src) && dw_val_str_at(w->d, cu, v, &t.sec, &t.off) == 0 &&
	    dw_is_slow(t.sec)) {
		r = dw_vec_reserve(w->d, &w->texts);
		if (r == 0) {
			w->texts.p[w->texts.n++] = t;
			ret->held = (uint32_t)w->texts.n;
			return 0;
		}
		if (r != -E2BIG)
			return r;
	}
	sbuf_reset(&w->buf);
	r = dw_val_str(w->d, cu, v, &w->buf);
	if (r < 0)
		return dw_note(w->d, r);
	ret->s = arena_strndup(&w->text, w->buf.p ? w->buf.p : "", w->buf.len);
	if (!ret->s)
		w->d->stats.over_limit++;
	return 0;
}

static bool has_text(const struct dw_text *t)
{
	return t->s || t->held;
}

/* Adds the values of @die that @n lacks. */
static int add_name(struct dw_names *w, const struct dw_cu *cu, const struct dw_die *die,
                    struct dw_name *n)
{
	uint64_t line = 0;
	int r = 0;

	if (!has_text(&n->name) && (die->has & DW_BIT(DW_V_NAME)))
		r = keep_str(w, cu, &die->v[DW_V_NAME], &n->name);
	if (r == 0 && !has_text(&n->linkage) && (die->has & DW_BIT(DW_V_LINKAGE)))
		r = keep_str(w, cu, &die->v[DW_V_LINKAGE], &n->linkage);
	if (!n->decl_line && (die->has & DW_BIT(DW_V_DECL_LINE)) &&
	    dw_val_num(&die->v[DW_V_DECL_LINE], &line) == 0)
		n->decl_line = (uint32_t)MIN_OF(line, (uint64_t)UINT32_MAX);
	return r;
}

static bool is_whole(const struct dw_name *n)
{
	return has_text(&n->name) && has_text(&n->linkage) && n->decl_line;
}

/* Completes @own with the values of @more. */
static void complete(struct dw_name *own, const struct dw_name *more)
{
	own->name = has_text(&own->name) ? own->name : more->name;
	own->linkage = has_text(&own->linkage) ? own->linkage : more->linkage;
	own->decl_line = own->decl_line ? own->decl_line : more->decl_line;
	own->rest = more->rest;
}

/* Finds the entry that completes @die. -ENOENT: there is none. */
static int next_ref(struct dw_file *d, const struct dw_cu *cu, const struct dw_die *die,
                    struct dw_src **src, uint64_t *off)
{
	if (die->has & DW_BIT(DW_V_ORIGIN))
		return dw_val_ref(d, cu, &die->v[DW_V_ORIGIN], src, off);
	if (die->has & DW_BIT(DW_V_SPEC))
		return dw_val_ref(d, cu, &die->v[DW_V_SPEC], src, off);
	return -ENOENT;
}

/* Notes an entry outside of the current unit, to be read later. */
static int hold_ref(struct dw_names *w, struct dw_src *src, uint64_t off, uint32_t *ret)
{
	const struct name_key key = {.off = off, .sec_id = src->secs[DW_SEC_INFO].id};
	uint32_t id = intern_find(w->keys, &key, sizeof(key));
	int r;

	if (id == INTERN_NONE) {
		r = vec_reserve(&w->names, 1);
		r = r < 0 ? r : intern_add(w->keys, &key, sizeof(key), &id, NULL);
		if (r < 0)
			return r;
		w->names.p[w->names.n++] = (struct dw_name){.src = src, .off = off};
	}
	*ret = id + 1;
	return 0;
}

/* Names the entry at @off of @src, with the entries that it refers to. @cu has the reference; NULL:
 * the entry was noted before. */
static int follow(struct dw_names *w, const struct dw_cu *cu, struct dw_src *src, uint64_t off,
                  struct dw_name *n)
{
	const struct dw_cu *at = cu;

	for (size_t i = 0; i < DW_REFS_MAX; i++) {
		const bool inside = cu && src == cu->src && off >= cu->die_off && off < cu->end;
		struct dw_cu *other = NULL;
		struct dw_die die;
		int r = dw_step(w->d);

		if (r == 0 && w->hold && cu && !inside && stays(w->d, src) &&
		    dw_is_slow(&src->secs[DW_SEC_INFO])) {
			r = hold_ref(w, src, off, &n->rest);
			if (r != -E2BIG) /* no room to note it: read it now */
				return r;
			r = 0;
		}
		/* The current unit is in memory. Of other units, only the cache's last one is
		 * valid. */
		if (r == 0 && inside) {
			at = cu;
		} else if (r == 0) {
			r = dw_cu_at(w->d, src, off, &other);
			at = other;
		}
		r = r < 0 ? r : dw_die_at(w->d, at, off, NAME_SLOTS, &die);
		r = r < 0 ? r : add_name(w, at, &die, n);
		if (r < 0)
			return dw_note(w->d, r);
		if (is_whole(n))
			return 0;
		r = next_ref(w->d, at, &die, &src, &off);
		if (r < 0)
			return dw_note(w->d, r);
	}
	w->d->stats.over_limit++; /* a loop, or as bad as one */
	return 0;
}

static int forget_names(struct dw_names *w)
{
	w->keys = intern_free(w->keys);
	w->names.n = 0;
	arena_done(&w->text);
	return intern_new(NAMES_MAX, w->names_bytes / 4, &w->keys);
}

/* The same, once a call for each entry. */
static int shared_name(struct dw_names *w, const struct dw_cu *cu, struct dw_src *src, uint64_t off,
                       struct dw_name *ret)
{
	struct name_key key = {.off = off, .sec_id = src->secs[DW_SEC_INFO].id};
	struct dw_name n = {0};
	uint32_t id = 0;
	int r;

	id = intern_find(w->keys, &key, sizeof(key));
	if (id != INTERN_NONE) {
		*ret = w->names.p[id];
		if (ret->src) /* to be read later */
			*ret = (struct dw_name){.rest = id + 1};
		return 0;
	}
	r = follow(w, cu, src, off, &n);
	if (r < 0)
		return r;
	*ret = n;
	if (n.rest && !has_text(&n.name) && !has_text(&n.linkage) && !n.decl_line)
		return 0; /* hold_ref has added it to names */
	r = vec_reserve(&w->names, 1);
	r = r < 0 ? r : intern_add(w->keys, &key, sizeof(key), &id, NULL);
	if (r == 0)
		w->names.p[w->names.n++] = n; /* n is the id: keys and names grow together */
	return r == -E2BIG ? 0 : r;
}

int dw_names_of(struct dw_names *w, const struct dw_cu *cu, struct dw_node *node,
                struct dw_name *ret)
{
	struct dw_name own = {0}, shared = {0};
	struct dw_src *src = NULL;
	struct dw_die die;
	uint64_t off = 0;
	int r;

	if (node->name) {
		*ret = w->node_names.p[node->name - 1];
		return 0;
	}
	r = dw_die_at(w->d, cu, node->off, NAME_SLOTS, &die);
	if (r == 0) {
		r = add_name(w, cu, &die, &own);
		r = r < 0 ? r : next_ref(w->d, cu, &die, &src, &off);
		r = r < 0 ? r : shared_name(w, cu, src, off, &shared);
	}
	if (r < 0 && dw_note(w->d, r) < 0)
		return r;
	complete(&own, &shared);
	*ret = own;
	r = dw_vec_reserve(w->d, &w->node_names);
	if (r < 0)
		return r == -E2BIG ? 0 : r; /* not kept: it is looked up again */
	w->node_names.p[w->node_names.n++] = own;
	node->name = (uint32_t)w->node_names.n;
	return 0;
}

/* ---- frames that wait --------------------------------------------------------------------- */

static int by_entry(const void *pa, const void *pb)
{
	const struct dw_name *a = *(struct dw_name *const *)pa, *b = *(struct dw_name *const *)pb;
	const uint32_t ia = a->src->secs[DW_SEC_INFO].id, ib = b->src->secs[DW_SEC_INFO].id;

	if (ia != ib)
		return ia < ib ? -1 : 1;
	return (a->off > b->off) - (a->off < b->off);
}

static int by_place(const void *pa, const void *pb)
{
	const struct dw_held_text *a = pa, *b = pb;

	if (a->sec->id != b->sec->id)
		return a->sec->id < b->sec->id ? -1 : 1;
	return (a->off > b->off) - (a->off < b->off);
}

static int by_no(const void *pa, const void *pb)
{
	const struct dw_held_text *a = pa, *b = pb;

	return (a->no > b->no) - (a->no < b->no);
}

/* Reads the noted entries, in file order. */
static int read_held_names(struct dw_names *w)
{
	struct dw_name **list = NULL;
	const size_t cnt = w->names.n;
	size_t n = 0;
	int r = dw_alloc(w->d, cnt * sizeof(struct dw_name *), &list);

	if (r < 0)
		return r == -E2BIG ? dw_note(w->d, r) : r;
	for (size_t i = 0; i < cnt; i++) {
		if (w->names.p[i].src)
			/* names does not grow until the end of this function */
			list[n++] = &w->names.p[i];
	}
	if (n)
		qsort(list, n, sizeof(*list), by_entry);
	for (size_t i = 0; i < n && r == 0; i++) {
		struct dw_src *src = list[i]->src;

		list[i]->src = NULL;
		r = follow(w, NULL, src, list[i]->off, list[i]);
	}
	dw_dealloc(w->d, list, cnt * sizeof(struct dw_name *));
	return r;
}

static int read_held_texts(struct dw_names *w)
{
	int r = 0;

	if (w->texts.n == 0)
		return 0;
	qsort(w->texts.p, w->texts.n, sizeof(*w->texts.p), by_place);
	for (size_t i = 0; i < w->texts.n && r == 0; i++) {
		struct dw_held_text *t = &w->texts.p[i];

		if (i > 0 && by_place(t, t - 1) == 0) {
			t->s = t[-1].s;
			continue;
		}
		sbuf_reset(&w->buf);
		r = dw_sec_str(w->d, t->sec, t->off, &w->buf);
		if (r == 0) /* without room, it is read when it is passed on */
			t->s = arena_strndup(&w->text, w->buf.p ? w->buf.p : "", w->buf.len);
		r = r < 0 ? dw_note(w->d, r) : 0;
	}
	qsort(w->texts.p, w->texts.n, sizeof(*w->texts.p), by_no);
	return r;
}

static int get_text(struct dw_names *w, const struct dw_text *t, struct sbuf *b, const char **ret)
{
	const struct dw_held_text *h = t->held ? &w->texts.p[t->held - 1] : NULL;
	int r;

	*ret = h ? h->s : t->s;
	if (*ret || !h)
		return 0;
	sbuf_reset(b);
	r = dw_sec_str(w->d, h->sec, h->off, b);
	if (r == 0)
		*ret = b->p ? b->p : "";
	return r < 0 ? (dw_is_local(r) ? 0 : r) : 0; /* counted before */
}

int dw_names_release(struct dw_names *w)
{
	int r = w->hold ? read_held_names(w) : 0;

	r = r < 0 ? r : read_held_texts(w);
	for (size_t i = 0; i < w->held.n && r == 0; i++) {
		struct dw_held_frame *h = &w->held.p[i];

		for (size_t k = 0; h->n.rest && k < 2; k++)
			complete(&h->n, &w->names.p[h->n.rest - 1]);
		r = get_text(w, &h->n.name, &w->buf, &h->f.name);
		r = r < 0 ? r : get_text(w, &h->n.linkage, &w->buf2, &h->f.linkage);
		h->f.start_line = h->n.decl_line;
		r = r < 0 ? r : w->fn(w->arg, h->i, &h->f, h->last);
	}
	w->held.n = w->texts.n = 0;
	return r;
}

int dw_names_give(struct dw_names *w, uint32_t i, struct dw_frame *f, const struct dw_name *n,
                  bool last)
{
	int r;

	if (w->hold) {
		r = dw_vec_reserve(w->d, &w->held);
		if (r < 0)
			return r;
		w->held.p[w->held.n++] =
		        (struct dw_held_frame){.i = i, .n = *n, .f = *f, .last = last};
		return 0;
	}
	f->name = n->name.s;
	f->linkage = n->linkage.s;
	f->start_line = n->decl_line;
	return w->fn(w->arg, i, f, last);
}

bool dw_names_full(const struct dw_names *w)
{
	return w->text.used_bytes > w->names_bytes / 4 || w->held.n > HELD_FRAMES_MAX ||
	       w->texts.n > HELD_TEXTS_MAX;
}

int dw_names_make_room(struct dw_names *w)
{
	int r = dw_names_release(w);

	w->node_names.n = 0;
	return r < 0 ? r : forget_names(w);
}

/* ---- life ----------------------------------------------------------------------------------- */

static bool is_slow(const struct dw_file *d)
{
	const struct dw_src *const srcs[] = {&d->main, &d->alt, &d->dwp};

	for (size_t i = 0; i < ARRAY_SIZE(srcs); i++) {
		if (dw_is_slow(&srcs[i]->secs[DW_SEC_STR]) ||
		    dw_is_slow(&srcs[i]->secs[DW_SEC_INFO]))
			return true;
	}
	return false;
}

int dw_names_init(struct dw_names *w, struct dw_file *d, dw_frame_fn fn, void *arg)
{
	const bool hold = is_slow(d);
	int r;

	*w = (struct dw_names){.d = d, .fn = fn, .arg = arg, .hold = hold};
	w->names_bytes = hold ? 2 * d->names_bytes : d->names_bytes;
	sbuf_init(&w->buf, DW_STRING_MAX);
	sbuf_init(&w->buf2, DW_STRING_MAX);
	arena_init(&w->text, w->names_bytes / 2);
	w->names.max = NAMES_MAX;
	w->node_names.max = SIZE_MAX / sizeof(*w->node_names.p);
	w->held.max = SIZE_MAX / sizeof(*w->held.p);
	w->texts.max = UINT32_MAX - 1;
	r = dw_charge(d, w->names_bytes);
	w->taken = r == 0;
	return r < 0 ? r : forget_names(w);
}

void dw_names_done(struct dw_names *w)
{
	if (w->taken)
		dw_release(w->d, w->names_bytes);
	intern_free(w->keys);
	vec_done(&w->names);
	dw_vec_done(w->d, &w->node_names);
	dw_vec_done(w->d, &w->held);
	dw_vec_done(w->d, &w->texts);
	arena_done(&w->text);
	sbuf_done(&w->buf);
	sbuf_done(&w->buf2);
}
