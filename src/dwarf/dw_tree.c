/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Functions and inlined calls of a unit that hold wanted addresses. Entries are the nodes of a
 * tree, in preorder. The last entry that covers an address is the innermost. Most of a unit is
 * skipped: types, declarations, functions without a wanted address.
 */
#include "dwarf/dwarf_priv.h"

#define NODES_MAX (1 << 20)
/* Compilers align functions to 16 bytes: a smaller gap contains no function. */
#define PADDING_BYTES 16
#define CODE_SLOTS                                                                                 \
	(DW_BIT(DW_V_SIBLING) | DW_BIT(DW_V_LOW) | DW_BIT(DW_V_HIGH) | DW_BIT(DW_V_RANGES) |       \
	 DW_BIT(DW_V_CALL_FILE) | DW_BIT(DW_V_CALL_LINE) | DW_BIT(DW_V_CALL_COLUMN))

/* An entry whose children are being read. */
struct dw_scope {
	uint64_t off;
	uint64_t call_file, call_line, call_column;
	uint32_t node; /* DW_NO_NODE until it covers a wanted address */
	uint8_t class;
};

int dw_tree_init(struct dw_tree *t, struct dw_file *d, size_t max)
{
	int r;

	*t = (struct dw_tree){.d = d, .nodes.max = NODES_MAX};
	r = dw_alloc(d, max * sizeof(*t->leaf), &t->leaf);
	r = r < 0 ? r : dw_alloc(d, max * sizeof(*t->first_leaf), &t->first_leaf);
	r = r < 0 ? r : dw_alloc(d, max * sizeof(*t->prev_end), &t->prev_end);
	r = r < 0 ? r : dw_alloc(d, max * sizeof(*t->next_start), &t->next_start);
	return r < 0 ? r : dw_alloc(d, (DW_DEPTH_MAX + 1) * sizeof(*t->scopes), &t->scopes);
}

void dw_tree_done(struct dw_tree *t, size_t max)
{
	if (!t->d)
		return;
	dw_dealloc(t->d, t->leaf, max * sizeof(*t->leaf));
	dw_dealloc(t->d, t->first_leaf, max * sizeof(*t->first_leaf));
	dw_dealloc(t->d, t->prev_end, max * sizeof(*t->prev_end));
	dw_dealloc(t->d, t->next_start, max * sizeof(*t->next_start));
	dw_dealloc(t->d, t->scopes, (DW_DEPTH_MAX + 1) * sizeof(*t->scopes));
	dw_vec_done(t->d, &t->nodes);
}

static int add_node(struct dw_tree *t, const struct dw_scope *s, uint32_t parent, uint32_t *ret)
{
	const bool inlined = s->class == DW_CLASS_INLINED;
	int r = dw_vec_reserve(t->d, &t->nodes);

	if (r < 0)
		return r;
	*ret = (uint32_t)t->nodes.n;
	t->nodes.p[t->nodes.n++] = (struct dw_node){
	        .off = s->off,
	        .parent = inlined ? parent : DW_NO_NODE,
	        .call_file = s->call_file,
	        .call_line = (uint32_t)MIN_OF(s->call_line, (uint64_t)UINT32_MAX),
	        .call_column = (uint32_t)MIN_OF(s->call_column, (uint64_t)UINT32_MAX),
	        .inlined = inlined,
	};
	return 0;
}

/* Makes the node of scopes[depth], and the nodes that it is inlined into. */
static int make_node(struct dw_tree *t, size_t depth, uint32_t *ret)
{
	struct dw_scope *s = t->scopes;
	uint32_t parent = DW_NO_NODE;
	size_t k = depth;

	/* Up to the function, or to a scope that has its node. */
	while (k > 0 && s[k].node == DW_NO_NODE && s[k].class != DW_CLASS_FUNCTION)
		k--;
	for (; k <= depth; k++) {
		int r = 0;

		if (s[k].class != DW_CLASS_FUNCTION && s[k].class != DW_CLASS_INLINED)
			continue;
		if (s[k].node == DW_NO_NODE)
			r = add_node(t, &s[k], parent, &s[k].node);
		if (r < 0)
			return r;
		parent = s[k].node;
	}
	*ret = parent;
	return 0;
}

/* Adds one range of scopes[depth]. */
static int cover(struct dw_tree *t, size_t depth, uint64_t lo, uint64_t hi, bool *covers)
{
	const struct dw_scope *s = &t->scopes[depth];
	size_t i = bisect_first(m, 0, t->n, t->addrs[m] >= lo), k = i;
	uint32_t node = DW_NO_NODE;
	int r = 0;

	if (i < t->n && t->addrs[i] < hi) {
		*covers = true;
		if (s->class != DW_CLASS_BLOCK)
			r = make_node(t, depth, &node);
	}
	for (; r == 0 && k < t->n && t->addrs[k] < hi; k++) {
		if (s->class == DW_CLASS_BLOCK)
			break;
		t->leaf[k] = node;
		r = dw_step(t->d);
	}
	if (r == 0 && s->class == DW_CLASS_FUNCTION) {
		if (i > 0)
			t->next_start[i - 1] = MIN_OF(t->next_start[i - 1], lo);
		if (k < t->n)
			t->prev_end[k] = MAX_OF(t->prev_end[k], hi);
	}
	return r;
}

/* Adds the ranges of the entry at scopes[depth]. @ret_has: it has some. @ret_covers: they cover
 * wanted addresses. */
static int look_at(struct dw_tree *t, size_t depth, const struct dw_die *die, bool *ret_has,
                   bool *ret_covers)
{
	struct dw_ranges l;
	uint64_t lo, hi;
	int r = dw_ranges_of(t->d, t->cu, die, &l);

	*ret_has = r != -ENOENT;
	*ret_covers = false;
	while (r >= 0) {
		r = dw_ranges_next(t->d, &l, &lo, &hi);
		if (r <= 0)
			break;
		r = cover(t, depth, lo, hi, ret_covers);
	}
	if (r == -ETIME)
		return r;
	return r < 0 ? dw_note(t->d, r) : 0;
}

/* Follows DW_AT_sibling, which may only lead forward. */
static int jump(const struct dw_cu *cu, struct cursor *c, uint64_t to)
{
	uint64_t at = (uint64_t)(c->p - cu->bytes);

	if (to < at || to >= cu->end - cu->off)
		return -EINVAL;
	return dw_next_skip(c, to - at);
}

/* Skips an entry. Its children are skipped, too, if DW_AT_sibling is at a fixed offset: returns 1.
 * Otherwise returns 0 with the cursor at its children. */
static inline int skip_entry(const struct dw_cu *cu, const struct dw_decl *decl, struct cursor *c,
                             bool by_sibling)
{
	int r;

	if (by_sibling && decl->sibling_at != DW_NO_SIBLING) {
		struct cursor s = *c;
		uint64_t to = 0;

		r = dw_next_skip(&s, decl->sibling_at);
		r = r < 0 ? r : cursor_bytes(&s, &to, decl->sibling_size);
		if (r < 0)
			return r;
		*c = s; /* the target must be after the attribute */
		r = jump(cu, c, to);
		return r < 0 ? r : 1;
	}
	return dw_skip_attrs(cu->abbrevs, decl, c);
}

/* Skips all children of an entry, from the first one. */
static int skip_children(struct dw_tree *t, struct cursor *c)
{
	const struct dw_cu *cu = t->cu;
	uint64_t depth = 1, steps = 0;
	int r = 0;

	while (depth > 0) {
		const struct dw_decl *decl;
		uint64_t code = 0;

		if (steps++ >= t->d->steps) {
			r = -ETIME;
			break;
		}
		r = dw_next_uleb(c, &code);
		if (r < 0)
			break;
		if (code == 0) {
			depth--;
			continue;
		}
		decl = dw_abbrevs_find(cu->abbrevs, code);
		r = decl ? skip_entry(cu, decl, c, decl->children) : -EINVAL;
		if (r < 0)
			break;
		depth += decl->children && r == 0;
	}
	t->d->steps -= MIN_OF(steps, t->d->steps);
	return MIN_OF(r, 0);
}

static void scope_of(struct dw_scope *s, const struct dw_die *die, uint64_t off)
{
	*s = (struct dw_scope){.off = off, .node = DW_NO_NODE, .class = die->decl->class};
	if (die->has & DW_BIT(DW_V_CALL_FILE))
		(void)dw_val_num(&die->v[DW_V_CALL_FILE], &s->call_file); /* 0: unknown */
	if (die->has & DW_BIT(DW_V_CALL_LINE))
		(void)dw_val_num(&die->v[DW_V_CALL_LINE], &s->call_line);
	if (die->has & DW_BIT(DW_V_CALL_COLUMN))
		(void)dw_val_num(&die->v[DW_V_CALL_COLUMN], &s->call_column);
}

/* Reads an entry that may have code, at scopes[depth]: returns 1 (its children are to be read), 0
 * (the cursor is at them), 2 (they were skipped). */
static int read_code(struct dw_tree *t, size_t depth, const struct dw_decl *decl, uint64_t off,
                     struct cursor *c, bool all)
{
	struct dw_die die;
	bool has = false, covers = false;
	uint64_t to = 0;
	int r = dw_die_read(t->cu, c, decl, CODE_SLOTS, &die);

	if (r < 0)
		return r;
	scope_of(&t->scopes[depth], &die, off);
	r = look_at(t, depth, &die, &has, &covers);
	if (r < 0)
		return r;
	if (all || covers || (!has && decl->class != DW_CLASS_FUNCTION))
		return 1;
	if (!decl->children || !(die.has & DW_BIT(DW_V_SIBLING)))
		return 0;
	switch (die.v[DW_V_SIBLING].form) {
	case DW_FORM_ref1:
	case DW_FORM_ref2:
	case DW_FORM_ref4:
	case DW_FORM_ref8:
	case DW_FORM_ref_udata:
		to = die.v[DW_V_SIBLING].u;
		r = jump(t->cu, c, to);
		return r < 0 ? r : 2;
	default:
		return 0;
	}
}

/* Reads one entry, and sets *depth to that of the next one. */
static int read_entry(struct dw_tree *t, size_t *depth, const struct dw_decl *decl, uint64_t off,
                      struct cursor *c, bool all)
{
	bool enter = false;
	int r = 0;

	switch ((enum dw_class)decl->class) {
	case DW_CLASS_LEAF:
		r = skip_entry(t->cu, decl, c, decl->children);
		break;
	case DW_CLASS_OPEN:
	case DW_CLASS_TYPE:
		enter = all || decl->class == DW_CLASS_OPEN;
		r = skip_entry(t->cu, decl, c, decl->children && !enter);
		t->scopes[*depth] = (struct dw_scope){.node = DW_NO_NODE, .class = DW_CLASS_OPEN};
		break;
	case DW_CLASS_FUNCTION:
		if (!all && !(decl->slots & (DW_BIT(DW_V_LOW) | DW_BIT(DW_V_RANGES)))) {
			r = skip_entry(t->cu, decl, c, decl->children);
			break;
		}
		__attribute__((fallthrough));
	case DW_CLASS_BLOCK:
	case DW_CLASS_INLINED:
		r = read_code(t, *depth, decl, off, c, all);
		enter = r == 1;
		r = r == 2 ? 1 : MIN_OF(r, 0);
		break;
	}
	if (r < 0 || !decl->children || r == 1)
		return MIN_OF(r, 0);
	if (enter && *depth == DW_DEPTH_MAX) {
		t->d->stats.over_limit++;
		enter = false;
	}
	if (!enter)
		return skip_children(t, c);
	(*depth)++;
	return 0;
}

/* @all: no entry that may have code is skipped. */
static int walk(struct dw_tree *t, bool all)
{
	const struct dw_cu *cu = t->cu;
	struct cursor c = cursor_of(cu->bytes, (size_t)(cu->end - cu->off));
	const struct dw_decl *decl;
	uint64_t code = 0;
	size_t depth = 1;
	int r;

	for (size_t i = 0; i < t->n; i++) {
		t->leaf[i] = DW_NO_NODE;
		t->prev_end[i] = 0;
		t->next_start[i] = UINT64_MAX;
	}
	t->scopes[0] = (struct dw_scope){.node = DW_NO_NODE, .class = DW_CLASS_OPEN};
	r = cursor_skip(&c, (size_t)(cu->die_off - cu->off));
	r = r < 0 ? r : cursor_uleb(&c, &code);
	if (r < 0)
		return r;
	decl = code ? dw_abbrevs_find(cu->abbrevs, code) : NULL;
	r = decl ? dw_skip_attrs(cu->abbrevs, decl, &c) : -EINVAL;
	if (r < 0 || !decl->children)
		return r;
	while (r == 0 && depth > 0 && cursor_left(&c) > 0) {
		uint64_t off = cu->off + (uint64_t)(c.p - cu->bytes);

		r = dw_step(t->d);
		r = r < 0 ? r : dw_next_uleb(&c, &code);
		if (r < 0)
			break;
		if (code == 0) {
			depth--;
			continue;
		}
		decl = dw_abbrevs_find(cu->abbrevs, code);
		r = decl ? read_entry(t, &depth, decl, off, &c, all) : -EINVAL;
	}
	return r;
}

/* Returns whether a function that was skipped may cover an address: not one in the gap between two
 * adjacent functions. */
static bool may_be_hidden(struct dw_tree *t)
{
	uint64_t end = 0, start = UINT64_MAX;

	for (size_t i = 0; i < t->n; i++)
		t->prev_end[i] = end = MAX_OF(end, t->prev_end[i]);
	for (size_t i = t->n; i-- > 0;) {
		start = MIN_OF(start, t->next_start[i]);
		if (t->leaf[i] == DW_NO_NODE && start - t->prev_end[i] >= PADDING_BYTES)
			return true;
	}
	return false;
}

int dw_tree_read(struct dw_tree *t, const struct dw_cu *cu, const uint64_t *addrs, size_t n)
{
	int r;

	t->cu = cu;
	t->addrs = addrs;
	t->n = n;
	t->nodes.n = 0;
	r = walk(t, false);
	/* Nested functions of C and Fortran are children of functions with other addresses, and so
	 * are functions of local classes. All is read if one may be missing. */
	if (r == 0 && may_be_hidden(t)) {
		const size_t nodes = t->nodes.n;

		memcpy(t->first_leaf, t->leaf, n * sizeof(*t->leaf));
		r = walk(t, true);
		if (r < 0) { /* no step is left, or damage in what was skipped before */
			memcpy(t->leaf, t->first_leaf, n * sizeof(*t->leaf));
			t->nodes.n = nodes;
			r = r == -ETIME || r == -ENOMEM ? r : 0;
		}
	}
	return r;
}
