/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The tree of a flame graph. Frames are interned in the order in which samples have them, sorted by
 * name and renumbered; then the stacks are merged from the root, and the nodes renumbered so that
 * each is followed by what it calls.
 */
#include <inttypes.h>
#include <stdio.h>

#include "encode/enc_flame_priv.h"

/* A node before it is renumbered: hashed as bytes. */
struct node_key {
	uint32_t parent, frame;
};
_Static_assert(sizeof(struct node_key) == 8, "hashed as bytes");

struct build {
	const struct prof_model *m;
	struct flame_tree *t;
	struct intern *frame_keys; /* struct flame_frame; ids in order of arrival */
	struct intern *node_keys;  /* struct node_key; number of the node - 1 */
	uint32_t *loc_first;       /* by location - 1: index in loc_frames + 1; 0: not used */
	VEC(uint32_t) loc_frames;  /* ids of a location, outermost first */
	uint32_t *text;            /* by string of the model: ours + 1; 0: not yet */
	uint32_t *rank;            /* by id in frame_keys: index in frames */
	VEC(uint32_t) raw_node;    /* by sample: number in node_keys + 1; 0: the root */
	struct sbuf scratch;
};

static void build_done(struct build *b)
{
	b->frame_keys = intern_free(b->frame_keys);
	b->node_keys = intern_free(b->node_keys);
	free(b->loc_first);
	free(b->text);
	free(b->rank);
	vec_done(&b->loc_frames);
	vec_done(&b->raw_node);
	sbuf_done(&b->scratch);
}

/* ---- text ------------------------------------------------------------------------------------ */

static int add_text(struct sbuf *scratch, struct intern *strings, const char *str, uint32_t *ret)
{
	const uint8_t *s = (const uint8_t *)str;

	sbuf_reset(scratch);
	for (size_t left = strlen(str); left > 0;) {
		size_t n = utf8_len(s, left);

		if (n == 0)
			(void)sbuf_addf(scratch, "\\x%02x", *s);
		else if (utf8_is_control(s, n))
			(void)sbuf_char(scratch, '?');
		else
			(void)sbuf_add(scratch, s, n);
		s += MAX_OF(n, (size_t)1);
		left -= MAX_OF(n, (size_t)1);
	}
	if (scratch->err)
		return scratch->err;
	return intern_add(strings, scratch->len ? scratch->p : "", scratch->len, ret, NULL);
}

int flame_string(struct intern *strings, const char *s, uint32_t *ret)
{
	_cleanup_(sbuf_done) struct sbuf scratch;

	sbuf_init(&scratch, FLAME_BYTES_MAX);
	return add_text(&scratch, strings, s, ret);
}

/* A string of the model. */
static int text_of(struct build *b, uint32_t id, uint32_t *ret)
{
	uint32_t ours;
	int r;

	if (!b->text[id]) {
		r = add_text(&b->scratch, b->t->strings, prof_model_str(b->m, id), &ours);
		if (r < 0)
			return r;
		b->text[id] = ours + 1;
	}
	*ret = b->text[id] - 1;
	return 0;
}

/* ---- frames ---------------------------------------------------------------------------------- */

static bool starts_with(const char *s, const char *with)
{
	return strncmp(s, with, strlen(with)) == 0;
}

/* Rust's older mangling is that of C++ with a hash at its end: "17h0123456789abcdefE". */
static bool is_rust(const char *linkage)
{
	size_t len = strlen(linkage);

	if (starts_with(linkage, "_R"))
		return true;
	if (!starts_with(linkage, "_ZN") || len < 23 || strncmp(linkage + len - 20, "17h", 3) != 0)
		return false;
	return linkage[len - 1] == 'E' && strspn(linkage + len - 17, "0123456789abcdef") == 16;
}

static const char *path_of(const struct prof_model *m, const struct prof_location *l)
{
	return l->mapping ? prof_model_str(m, m->mappings.p[l->mapping - 1].path) : "";
}

/* @i: which of its lines. */
static enum flame_kind kind_of(const struct prof_model *m, const struct prof_location *l,
                               uint32_t i)
{
	const char *path = path_of(m, l), *name, *linkage, *file;
	const struct prof_function *fn;
	size_t len;

	if (strcmp(path, "[kernel]") == 0)
		return FLAME_KERNEL;
	if (l->uncovered && i + 1 >= l->line_cnt)
		return FLAME_HEURISTIC;
	if (i >= l->line_cnt || l->reason != EV_REASON_NAMED)
		return FLAME_UNNAMED;
	if (strcmp(path, "[jit]") == 0)
		return FLAME_JIT;
	fn = &m->functions.p[m->lines.p[l->line_first + i].function - 1];
	name = prof_model_str(m, fn->name);
	if (!l->mapping && !l->address && *name == '[')
		return FLAME_MARK;
	if (i + 1 < l->line_cnt)
		return FLAME_INLINED;
	linkage = prof_model_str(m, fn->system_name);
	file = prof_model_str(m, fn->file);
	len = strlen(file);
	if (is_rust(linkage))
		return FLAME_RUST;
	if (starts_with(linkage, "_Z"))
		return FLAME_CPP;
	return len > 3 && strcmp(file + len - 3, ".go") == 0 ? FLAME_GO : FLAME_NATIVE;
}

/* A location without a function: the file and the offset in it. */
static int address_text(struct build *b, const struct prof_location *l, uint32_t *ret)
{
	const struct prof_mapping *map = l->mapping ? &b->m->mappings.p[l->mapping - 1] : NULL;
	const char *path = path_of(b->m, l);
	char text[512];

	if (!map || *path == '[' || !*path)
		(void)snprintf(text, sizeof(text), "0x%" PRIx64, l->address);
	else
		(void)snprintf(text, sizeof(text), "%.400s+0x%" PRIx64, str_base_name(path),
		               l->address - map->start + map->offset);
	return add_text(&b->scratch, b->t->strings, text, ret);
}

static int add_frame(struct build *b, const struct prof_location *l, uint32_t i)
{
	struct flame_frame f = {.kind = (uint8_t)kind_of(b->m, l, i), .reason = l->reason};
	int r = 0;
	uint32_t id = 0; /* clang-tidy does not see that intern_add sets it */

	if (i < l->line_cnt) {
		const struct prof_line *line = &b->m->lines.p[l->line_first + i];
		const struct prof_function *fn = &b->m->functions.p[line->function - 1];

		f.line = fn->start_line > 0 ? fn->start_line : 0;
		r = text_of(b, fn->name, &f.name);
		if (r == 0)
			r = text_of(b, fn->file, &f.file);
	} else {
		r = address_text(b, l, &f.name);
	}
	if (r == 0)
		r = text_of(b, l->mapping ? b->m->mappings.p[l->mapping - 1].path : 0, &f.module);
	if (r == 0)
		r = text_of(b, l->mapping ? b->m->mappings.p[l->mapping - 1].build_id : 0,
		            &f.build_id);
	if (r == 0)
		r = intern_add(b->frame_keys, &f, sizeof(f), &id, NULL);
	return r < 0 ? r : vec_push(&b->loc_frames, id);
}

/* The frames of a location, once: outermost first, ended by a UINT32_MAX. */
static int add_location(struct build *b, uint32_t loc)
{
	const struct prof_location *l = &b->m->locations.p[loc - 1];
	uint32_t named = 0;
	int r = 0;

	b->loc_first[loc - 1] = (uint32_t)b->loc_frames.n + 1;
	for (uint32_t i = l->line_cnt; i-- > 0 && r == 0;) {
		if (!b->m->lines.p[l->line_first + i].function)
			continue;
		r = add_frame(b, l, i);
		named++;
	}
	if (r == 0 && !named)
		r = add_frame(b, l, l->line_cnt);
	return r < 0 ? r : vec_push(&b->loc_frames, UINT32_MAX);
}

static int add_frames(struct build *b)
{
	int r = 0;

	vec_each (s, &b->m->samples)
		for (uint32_t i = 0; i < s->loc_cnt && r == 0; i++) {
			uint32_t loc = b->m->loc_ids.p[s->loc_first + i];

			if (!b->loc_first[loc - 1])
				r = add_location(b, loc);
		}
	return r;
}

static int cmp_text(const struct build *b, uint32_t x, uint32_t y)
{
	return x == y ? 0
	              : strcmp(intern_get(b->t->strings, x, NULL),
	                       intern_get(b->t->strings, y, NULL));
}

static int by_name(const void *a, const void *c, void *arg)
{
	const struct build *b = arg;
	const struct flame_frame *x = intern_get(b->frame_keys, *(const uint32_t *)a, NULL),
	                         *y = intern_get(b->frame_keys, *(const uint32_t *)c, NULL);
	int r = cmp_text(b, x->name, y->name);

	if (r == 0)
		r = cmp_text(b, x->module, y->module);
	if (r == 0)
		r = cmp_text(b, x->file, y->file);
	if (r == 0)
		r = cmp_text(b, x->build_id, y->build_id);
	if (r == 0)
		r = (x->line > y->line) - (x->line < y->line);
	if (r == 0)
		r = x->kind - y->kind;
	return r ? r : x->reason - y->reason;
}

static int sort_frames(struct build *b)
{
	uint32_t n = intern_count(b->frame_keys);
	_cleanup_free_ uint32_t *order = malloc(MAX_OF(n, 1U) * sizeof(*order));
	int r = vec_reserve(&b->t->frames, n);

	b->rank = malloc(MAX_OF(n, 1U) * sizeof(*b->rank));
	if (!order || !b->rank)
		return -ENOMEM;
	if (r < 0)
		return r;
	for (uint32_t i = 0; i < n; i++)
		order[i] = i;
	qsort_r(order, n, sizeof(*order), by_name, b);
	for (uint32_t i = 0; i < n; i++) {
		const struct flame_frame *f = intern_get(b->frame_keys, order[i], NULL);

		b->t->frames.p[b->t->frames.n++] = *f;
		b->rank[order[i]] = i;
	}
	return 0;
}

/* ---- nodes ----------------------------------------------------------------------------------- */

static int add_stack(struct build *b, const struct prof_sample *s)
{
	uint32_t node = 0, id;
	int r;

	for (uint32_t i = s->loc_cnt; i-- > 0;) {
		uint32_t loc = b->m->loc_ids.p[s->loc_first + i];

		for (const uint32_t *f = &b->loc_frames.p[b->loc_first[loc - 1] - 1];
		     *f != UINT32_MAX; f++) {
			const struct node_key key = {.parent = node, .frame = b->rank[*f]};

			r = intern_add(b->node_keys, &key, sizeof(key), &id, NULL);
			if (r < 0)
				return r;
			node = id + 1;
		}
	}
	return vec_push(&b->raw_node, node);
}

/* Children are put before their siblings, the last in the order of frames first: afterwards
 * each list ascends. */
static void link_children(const struct build *b, const uint32_t *order, uint32_t n, uint32_t *first,
                          uint32_t *next)
{
	for (uint32_t i = n; i-- > 0;) {
		const struct node_key *key = intern_get(b->node_keys, order[i] - 1, NULL);

		next[order[i]] = first[key->parent];
		first[key->parent] = order[i];
	}
}

/* Nodes ascending by frame: as many frames as there are buckets. */
static int order_by_frame(const struct build *b, uint32_t *order, uint32_t n)
{
	_cleanup_free_ uint32_t *at = calloc(b->t->frames.n + 1, sizeof(*at));

	if (!at)
		return -ENOMEM;
	for (uint32_t i = 0; i < n; i++)
		at[((const struct node_key *)intern_get(b->node_keys, i, NULL))->frame + 1]++;
	for (size_t i = 0; i < b->t->frames.n; i++)
		at[i + 1] += at[i];
	for (uint32_t i = 0; i < n; i++)
		order[at[((const struct node_key *)intern_get(b->node_keys, i, NULL))->frame]++] =
		        i + 1;
	return 0;
}

/* @first, @next: lists of children; @number: gets the new number of each node. */
static void number_nodes(struct build *b, const uint32_t *first, const uint32_t *next,
                         uint32_t *number)
{
	uint32_t raw = 0;

	b->t->nodes.p[b->t->nodes.n++] = (struct flame_node){.frame = UINT32_MAX};
	number[0] = FLAME_ROOT;
	for (;;) {
		const struct node_key *key;

		if (first[raw]) {
			raw = first[raw];
		} else {
			while (raw && !next[raw])
				raw = ((const struct node_key *)intern_get(b->node_keys, raw - 1,
				                                           NULL))
				              ->parent;
			if (!raw)
				return;
			raw = next[raw];
		}
		key = intern_get(b->node_keys, raw - 1, NULL);
		number[raw] = (uint32_t)b->t->nodes.n;
		b->t->nodes.p[b->t->nodes.n++] =
		        (struct flame_node){.parent = number[key->parent], .frame = key->frame};
	}
}

static int sort_nodes(struct build *b)
{
	uint32_t n = intern_count(b->node_keys);
	_cleanup_free_ uint32_t *order = malloc(((size_t)n + 1) * sizeof(*order));
	_cleanup_free_ uint32_t *first = calloc((size_t)n + 1, sizeof(*first));
	_cleanup_free_ uint32_t *next = calloc((size_t)n + 1, sizeof(*next));
	_cleanup_free_ uint32_t *number = calloc((size_t)n + 1, sizeof(*number));
	int r;

	if (!order || !first || !next || !number)
		return -ENOMEM;
	r = order_by_frame(b, order, n);
	if (r == 0)
		r = vec_reserve(&b->t->nodes, (size_t)n + 1);
	if (r == 0)
		r = vec_reserve(&b->t->sample_node, b->raw_node.n);
	if (r < 0)
		return r;
	link_children(b, order, n, first, next);
	number_nodes(b, first, next, number);
	vec_each (raw, &b->raw_node)
		b->t->sample_node.p[b->t->sample_node.n++] = number[*raw];
	return 0;
}

static int build(struct build *b)
{
	int r;

	b->loc_first = calloc(b->m->locations.n + 1, sizeof(*b->loc_first));
	b->text = calloc((size_t)intern_count(b->m->strings) + 1, sizeof(*b->text));
	if (!b->loc_first || !b->text)
		return -ENOMEM;
	r = intern_new(PROF_LOCATIONS_MAX, FLAME_BYTES_MAX, &b->frame_keys);
	if (r == 0)
		r = intern_new(FLAME_NODES_MAX, FLAME_BYTES_MAX, &b->node_keys);
	if (r == 0)
		r = add_frames(b);
	if (r == 0)
		r = sort_frames(b);
	for (size_t i = 0; i < b->m->samples.n && r == 0; i++)
		r = add_stack(b, &b->m->samples.p[i]);
	return r == 0 ? sort_nodes(b) : r;
}

int flame_tree_new(const struct prof_model *m, struct intern *strings, struct flame_tree **ret)
{
	_cleanup_(flame_tree_freep) struct flame_tree *t = calloc(1, sizeof(*t));
	_cleanup_(build_done) struct build b = {.m = m, .t = t};
	int r;

	if (!t)
		return -ENOMEM;
	t->m = m;
	t->strings = strings;
	t->frames.max = PROF_LOCATIONS_MAX;
	t->nodes.max = (size_t)FLAME_NODES_MAX + 1;
	t->sample_node.max = b.raw_node.max = PROF_SAMPLES_MAX;
	b.loc_frames.max = PROF_LINES_MAX;
	sbuf_init(&b.scratch, FLAME_BYTES_MAX);
	r = build(&b);
	if (r < 0)
		return r;
	*ret = TAKE_PTR(t);
	return 0;
}

/* ---- two trees ------------------------------------------------------------------------------- */

struct pair {
	struct build b;
	struct intern *names; /* string ids; id: of the merged frame before it is sorted */
	VEC(struct flame_frame) by_id;
	VEC(uint32_t) raw; /* by node of the side that is added: number in node_keys + 1 */
};

static void pair_done(struct pair *p)
{
	p->names = intern_free(p->names);
	vec_done(&p->by_id);
	vec_done(&p->raw);
	build_done(&p->b);
}

static int add_names(struct pair *p, const struct flame_tree *side)
{
	int r = 0;

	vec_each (f, &side->frames) {
		bool is_new;
		uint32_t id;

		r = intern_add(p->names, &f->name, sizeof(f->name), &id, &is_new);
		if (r == 0 && is_new)
			r = vec_push(&p->by_id, *f);
		if (r < 0)
			return r;
	}
	return r;
}

static int by_text(const void *a, const void *c, void *arg)
{
	const struct pair *p = arg;

	return cmp_text(&p->b, p->by_id.p[*(const uint32_t *)a].name,
	                p->by_id.p[*(const uint32_t *)c].name);
}

static int sort_names(struct pair *p)
{
	const uint32_t n = intern_count(p->names);
	_cleanup_free_ uint32_t *order = malloc(MAX_OF(n, 1U) * sizeof(*order));
	int r = vec_reserve(&p->b.t->frames, n);

	p->b.rank = malloc(MAX_OF(n, 1U) * sizeof(*p->b.rank));
	if (!order || !p->b.rank)
		return -ENOMEM;
	if (r < 0)
		return r;
	for (uint32_t i = 0; i < n; i++)
		order[i] = i;
	qsort_r(order, n, sizeof(*order), by_text, p);
	for (uint32_t i = 0; i < n; i++) {
		p->b.t->frames.p[p->b.t->frames.n++] = p->by_id.p[order[i]];
		p->b.rank[order[i]] = i;
	}
	return 0;
}

static int add_side(struct pair *p, const struct flame_tree *side)
{
	int r = 0;

	p->raw.n = 0;
	for (size_t i = 0; i < side->nodes.n && r == 0; i++) {
		struct node_key key = {0};
		uint32_t id = 0;

		if (i > 0) {
			const struct flame_node *n = &side->nodes.p[i];
			const uint32_t name = side->frames.p[n->frame].name;

			key.parent = p->raw.p[n->parent];
			key.frame = p->b.rank[intern_find(p->names, &name, sizeof(name))];
			r = intern_add(p->b.node_keys, &key, sizeof(key), &id, NULL);
			id++;
		}
		if (r == 0)
			r = vec_push(&p->raw, id);
	}
	for (size_t i = 0; i < side->sample_node.n && r == 0; i++)
		r = vec_push(&p->b.raw_node, p->raw.p[side->sample_node.p[i]]);
	return r;
}

int flame_tree_merge(const struct flame_tree *before, const struct flame_tree *after,
                     struct flame_tree **ret)
{
	_cleanup_(flame_tree_freep) struct flame_tree *t = calloc(1, sizeof(*t));
	_cleanup_(pair_done) struct pair p = {.b = {.m = after->m, .t = t}};
	int r;

	if (!t)
		return -ENOMEM;
	t->m = after->m;
	t->strings = after->strings;
	t->frames.max = p.by_id.max = PROF_LOCATIONS_MAX;
	t->nodes.max = p.raw.max = (size_t)FLAME_NODES_MAX + 1;
	t->sample_node.max = p.b.raw_node.max = 2 * (size_t)PROF_SAMPLES_MAX;
	sbuf_init(&p.b.scratch, FLAME_BYTES_MAX);
	r = intern_new(PROF_LOCATIONS_MAX, FLAME_BYTES_MAX, &p.names);
	if (r == 0)
		r = intern_new(FLAME_NODES_MAX, FLAME_BYTES_MAX, &p.b.node_keys);
	if (r == 0)
		r = add_names(&p, after);
	if (r == 0)
		r = add_names(&p, before);
	if (r == 0)
		r = sort_names(&p);
	if (r == 0)
		r = add_side(&p, before);
	if (r == 0)
		r = add_side(&p, after);
	if (r == 0)
		r = sort_nodes(&p.b);
	if (r < 0)
		return r;
	*ret = TAKE_PTR(t);
	return 0;
}

/* ---- end ------------------------------------------------------------------------------------- */

struct flame_tree *flame_tree_free(struct flame_tree *t)
{
	if (t) {
		vec_done(&t->frames);
		vec_done(&t->nodes);
		vec_done(&t->sample_node);
		free(t);
	}
	return NULL;
}

void flame_tree_freep(struct flame_tree **t)
{
	*t = flame_tree_free(*t);
}

const char *flame_title(const struct prof_model *m)
{
	if (m->n_types &&
	    strcmp(prof_model_str(m, m->sample_type[m->n_types - 1].type), "offcpu") == 0)
		return "Off-CPU";
	return "On-CPU";
}

const char *flame_kind_name(enum flame_kind k)
{
	static const char *const names[FLAME_KIND_CNT] = {
	        [FLAME_NATIVE] = "native",   [FLAME_CPP] = "C++",
	        [FLAME_RUST] = "Rust",       [FLAME_GO] = "Go",
	        [FLAME_JIT] = "JIT",         [FLAME_KERNEL] = "kernel",
	        [FLAME_INLINED] = "inlined", [FLAME_UNNAMED] = "no name",
	        [FLAME_MARK] = "no code",    [FLAME_HEURISTIC] = "heuristic",
	};

	return names[k];
}
