/* SPDX-License-Identifier: Apache-2.0 */
/* Frames of addresses: unit by unit, with the names of their functions and the lines of the
 * program. */
#include "dwarf/dw_line.h"
#include "dwarf/dw_names.h"

#define FILES_MAX 65536 /* files of a unit whose paths are kept */
#define LINES_MAX (256u << 20)
/* A line program, and the paths of its files that were asked for so far. */
struct lines {
	struct dw_file *d;
	struct dw_line *line;
	uint8_t *bytes; /* bytes[len] */
	size_t len;
	VEC(const char *) files; /* by index; NULL: not asked for yet */
	const struct dw_cu *cu;  /* has the strings */
};

struct pair {
	uint32_t unit, i; /* index in addrs */
};

struct work {
	struct dw_file *d;
	const uint64_t *addrs;
	size_t n;
	struct pair *pairs; /* pairs[n_pairs], by unit and address */
	size_t n_pairs, max_unit;
	/* of the current unit, [max_unit] */
	uint64_t *unit_addrs;
	struct dw_row *rows;
	struct dw_tree tree;
	struct lines rows_of,
	        calls_of; /* of the program; of calls, if the split unit has a table of its own */
	struct dw_names names;
};

/* ---- lines ---------------------------------------------------------------------------------- */

static int line_str(void *arg, enum dw_line_str where, uint64_t off, struct sbuf *b)
{
	const struct lines *l = arg;
	enum dw_sec_kind k = where == DW_LINE_STR ? DW_SEC_STR : DW_SEC_LINE_STR;

	return dw_sec_str(l->d, &l->cu->src->secs[k], off, b);
}

static int line_strx(void *arg, uint64_t index, uint64_t *ret_off)
{
	const struct lines *l = arg;

	return dw_str_offset(l->d, l->cu, index, ret_off);
}

static void lines_done(struct work *w, struct lines *l)
{
	l->line = dw_line_free(l->line);
	dw_dealloc(w->d, l->bytes, l->len);
	l->bytes = NULL;
	l->files.n = 0;
	l->cu = NULL;
}

/* Opens the line program at @off. l->line stays NULL if there is no good one. */
static int lines_open(struct work *w, struct lines *l, struct dw_span span, uint64_t off,
                      struct dw_line_env *env)
{
	uint64_t end = 0;
	uint8_t offset_size;
	int r;

	if (!span.sec || off >= span.size)
		return dw_note(w->d, -EINVAL);
	off += span.off;
	r = dw_read_length(w->d, span.sec, off, &end, &offset_size);
	if (r == 0 && (end - off > LINES_MAX || end - off > w->d->max_bytes - w->d->bytes)) {
		w->d->stats.units_refused++;
		r = -E2BIG;
	}
	if (r < 0)
		return dw_note(w->d, r);
	l->len = (size_t)(end - off);
	r = dw_alloc(w->d, l->len, &l->bytes);
	r = r < 0 ? r : dw_sec_read(w->d, span.sec, off, l->bytes, l->len);
	if (r < 0)
		return dw_note(w->d, r);
	r = dw_line_open(cursor_of(l->bytes, l->len), env, &l->line);
	return r == -EINVAL || r == -ENOTSUP ? 0 : r; /* dw_line_open has counted them */
}

static int file_of(struct work *w, struct lines *l, uint64_t index, const char **ret)
{
	int r;

	*ret = NULL;
	if (!l->line)
		return 0;
	if (index < l->files.n && l->files.p[index]) {
		*ret = l->files.p[index];
		return 0;
	}
	sbuf_reset(&w->names.buf);
	r = dw_line_file(l->line, index, &w->names.buf);
	if (r < 0)
		return r == -ENOENT ? 0 : dw_note(w->d, r);
	*ret = arena_strndup(&w->names.text, w->names.buf.p ? w->names.buf.p : "",
	                     w->names.buf.len);
	if (!*ret) {
		w->d->stats.over_limit++;
		return 0;
	}
	r = index < FILES_MAX ? 0 : -E2BIG;
	while (r == 0 && l->files.n <= index) {
		r = dw_vec_reserve(w->d, &l->files);
		if (r == 0)
			l->files.p[l->files.n++] = NULL;
	}
	if (r == 0)
		l->files.p[index] = *ret;
	return r == -E2BIG ? 0 : r; /* not kept: it is looked up again */
}

/* ---- frames --------------------------------------------------------------------------------- */

/* As dw_names_make_room, between two addresses of a unit. */
static int make_room_within(struct work *w)
{
	for (size_t i = 0; i < w->tree.nodes.n; i++)
		w->tree.nodes.p[i].name = 0;
	w->rows_of.files.n = w->calls_of.files.n = 0;
	return dw_names_make_room(&w->names);
}

/* Passes on the frames of address @k of the unit, which is addrs[@i]. */
static int emit(struct work *w, size_t k, uint32_t i)
{
	struct lines *calls = w->calls_of.line ? &w->calls_of : &w->rows_of;
	const struct dw_row *row = &w->rows[k];
	uint32_t id = w->tree.leaf[k];
	struct dw_frame f = {0};
	int r = 0;

	if (row->found) {
		r = file_of(w, &w->rows_of, row->file, &f.file);
		/* A line without a file is damaged, or its table was cut. */
		f.line = f.file ? row->line : 0;
		f.column = f.file ? row->column : 0;
	}
	if (r < 0)
		return r;
	if (id == DW_NO_NODE)
		return f.file ? dw_names_give(&w->names, i, &f, &(struct dw_name){0}, true) : 0;
	for (size_t depth = 1;; depth++) {
		struct dw_node *node = &w->tree.nodes.p[id];
		struct dw_name n = {0};
		bool last = node->parent == DW_NO_NODE || depth == DW_FRAMES_MAX;

		r = dw_names_of(&w->names, w->tree.cu, node, &n);
		if (r < 0)
			return r;
		f.inlined = node->inlined;
		r = dw_names_give(&w->names, i, &f, &n, last);
		if (r < 0 || last)
			return r;
		r = file_of(w, calls, node->call_file, &f.file);
		if (r < 0)
			return r;
		f.line = node->call_line;
		f.column = node->call_column;
		id = node->parent;
	}
}

/* The same if frames may have to wait: all frames of an address or none. */
static int emit_held(struct work *w, size_t k, uint32_t i)
{
	int r = dw_names_full(&w->names) ? make_room_within(w) : 0;

	for (int tries = 0; tries < 2 && r == 0; tries++) {
		const size_t before = w->names.held.n;

		r = emit(w, k, i);
		if (r != -E2BIG)
			return r;
		w->names.held.n = before;
		r = tries == 0 ? make_room_within(w) : dw_note(w->d, -E2BIG);
	}
	return r;
}

static struct dw_line_env line_env(struct work *w, struct lines *l, uint8_t address_size)
{
	return (struct dw_line_env){
	        .address_size = address_size,
	        .comp_dir = "",
	        .name = "",
	        .str = line_str,
	        .strx = line_strx,
	        .arg = l,
	        .steps = &w->d->steps,
	        .stats = &w->d->stats,
	};
}

/* Finds the rows of unit_addrs[n]. @cu has the line program, @split, if not NULL, the functions. */
static int read_lines(struct work *w, const struct dw_cu *cu, const struct dw_cu *split, size_t n)
{
	struct dw_line_env env = line_env(w, &w->rows_of, cu->sizes.address);
	int r = 0;

	memset(w->rows, 0, n * sizeof(*w->rows));
	env.comp_dir = cu->comp_dir ? cu->comp_dir : "";
	env.name = cu->name ? cu->name : split && split->name ? split->name : "";
	w->rows_of.cu = cu;
	if (cu->has_stmt_list) {
		r = lines_open(w, &w->rows_of, cu->line, cu->stmt_list, &env);
		if (r == 0 && w->rows_of.line)
			r = dw_line_find(w->rows_of.line, w->unit_addrs, n, w->rows);
	}
	/* A split unit may number the files of its calls by a table of its own. */
	if (r == 0 && split && split->has_stmt_list && split->line.size > 0) {
		env.arg = &w->calls_of;
		w->calls_of.cu = split;
		r = lines_open(w, &w->calls_of, split->line, split->stmt_list, &env);
	}
	return r;
}

/* Resolves the addresses of one unit, pairs[n]. */
static int resolve_unit(struct work *w, const struct pair *pairs, size_t n)
{
	struct dw_file *d = w->d;
	struct dw_cu cu, split = {0};
	bool has_split = false;
	int r;

	r = dw_names_full(&w->names) ? dw_names_make_room(&w->names) : 0;
	if (r < 0)
		return r;
	for (size_t k = 0; k < n; k++) {
		w->unit_addrs[k] = w->addrs[pairs[k].i];
		w->tree.leaf[k] = DW_NO_NODE;
	}
	w->names.node_names.n = 0;
	dw_cu_init(&cu, &d->main);
	r = dw_cu_open(d, &cu, d->main.units.p[pairs->unit], DW_CU_WORK);
	if (r == 0) {
		r = dw_split_open(d, &cu, &split);
		has_split = r == 0;
		if (r == -ENOENT)
			r = 0;
		r = r < 0 ? r : dw_cu_load(d, has_split ? &split : &cu);
		/* Lines without their inlined calls would be those of other functions. */
		if (r == -E2BIG)
			n = 0;
		r = r < 0 ? r : dw_tree_read(&w->tree, has_split ? &split : &cu, w->unit_addrs, n);
		/* Frames read before the damage are good, and lines do not depend on them. */
		r = r < 0 ? dw_note(d, r) : 0;
		r = r < 0 || n == 0 ? r : read_lines(w, &cu, has_split ? &split : NULL, n);
		for (size_t k = 0; r == 0 && k < n; k++) {
			r = w->names.hold ? emit_held(w, k, pairs[k].i) : emit(w, k, pairs[k].i);
		}
	} else {
		r = dw_note(d, r);
	}
	lines_done(w, &w->calls_of);
	lines_done(w, &w->rows_of);
	w->tree.cu = NULL;
	w->tree.addrs = NULL;
	dw_cu_done(d, &split);
	dw_cu_done(d, &cu);
	return r;
}

/* Resolves by a file of lines alone: each program is searched for all addresses. */
static int resolve_lines(struct work *w)
{
	struct dw_sec *s = &w->d->main.secs[DW_SEC_LINE];
	struct dw_span span = dw_span_all(s);
	struct dw_line_env env = line_env(w, &w->rows_of, img_is_64(w->d->main.img) ? 8 : 4);
	struct dw_cu none;
	uint64_t off = 0, end = 0;
	uint8_t offset_size;
	int r = 0;

	dw_cu_init(&none, &w->d->main);
	for (; off < s->size && r == 0; off = end) {
		r = dw_steps(w->d, w->n);
		r = r < 0 ? r : dw_read_length(w->d, s, off, &end, &offset_size);
		if (r < 0)
			return dw_note(w->d, r);
		memset(w->rows, 0, w->n * sizeof(*w->rows));
		w->rows_of.cu = &none;
		r = lines_open(w, &w->rows_of, span, off, &env);
		if (r == 0 && w->rows_of.line)
			r = dw_line_find(w->rows_of.line, w->addrs, w->n, w->rows);
		for (size_t k = 0; r == 0 && k < w->n; k++) {
			/* The first program that has the address wins. */
			if (w->rows[k].found && w->pairs[k].unit != 0) {
				w->tree.leaf[k] = DW_NO_NODE;
				w->pairs[k].unit = 0;
				r = emit(w, k, (uint32_t)k);
			}
		}
		lines_done(w, &w->rows_of);
	}
	return r;
}

static int by_unit(const void *pa, const void *pb)
{
	const struct pair *a = pa, *b = pb;

	if (a->unit != b->unit)
		return a->unit < b->unit ? -1 : 1;
	return (a->i > b->i) - (a->i < b->i);
}

/* Sorts by unit, then by address. */
static void group(struct work *w, bool lines_only)
{
	size_t run = 0;

	for (size_t i = 0; i < w->n; i++) {
		uint32_t unit = lines_only ? 1 : dw_index_find(w->d, w->addrs[i]);

		if (unit != DW_NO_UNIT)
			w->pairs[w->n_pairs++] = (struct pair){.unit = unit, .i = (uint32_t)i};
	}
	if (lines_only) {
		w->max_unit = w->n;
		return;
	}
	qsort(w->pairs, w->n_pairs, sizeof(*w->pairs), by_unit);
	for (size_t i = 0; i < w->n_pairs; i++) {
		run = i > 0 && w->pairs[i].unit == w->pairs[i - 1].unit ? run + 1 : 1;
		w->max_unit = MAX_OF(w->max_unit, run);
	}
}

static int resolve(struct work *w)
{
	struct dw_file *d = w->d;
	const bool lines_only = !dw_has(&d->main, DW_SEC_INFO);
	size_t end;
	int r = dw_alloc(d, w->n * sizeof(*w->pairs), &w->pairs);

	if (r < 0)
		return r;
	group(w, lines_only);
	r = dw_alloc(d, w->max_unit * sizeof(*w->unit_addrs), &w->unit_addrs);
	r = r < 0 ? r : dw_alloc(d, w->max_unit * sizeof(*w->rows), &w->rows);
	r = r < 0 ? r : dw_tree_init(&w->tree, d, w->max_unit);
	if (r < 0)
		return r;
	if (r == 0 && lines_only)
		r = resolve_lines(w);
	for (size_t i = 0; r == 0 && !lines_only && i < w->n_pairs; i = end) {
		for (end = i; end < w->n_pairs && w->pairs[end].unit == w->pairs[i].unit;)
			end++;
		r = resolve_unit(w, &w->pairs[i], end - i);
	}
	if (r == 0 || r == -ETIME || r == -E2BIG) {
		int released = dw_names_release(&w->names);

		r = released < 0 ? released : r;
	}
	return r;
}

int dw_resolve(struct dw_file *d, const uint64_t *addrs, size_t n, dw_frame_fn fn, void *arg)
{
	struct work w = {.d = d, .addrs = addrs, .n = n};
	int r;

	if (n == 0)
		return 0;
	d->steps = d->o.max_steps;
	w.rows_of.d = w.calls_of.d = d;
	w.rows_of.files.max = w.calls_of.files.max = FILES_MAX;
	r = dw_names_init(&w.names, d, fn, arg);
	r = r < 0 ? r : resolve(&w);
	if (d->steps == 0)
		d->stats.over_steps++;
	if (r == -E2BIG || r == -ETIME)
		r = dw_note(d, r);
	dw_names_done(&w.names);
	dw_vec_done(d, &w.rows_of.files);
	dw_vec_done(d, &w.calls_of.files);
	dw_tree_done(&w.tree, w.max_unit);
	dw_dealloc(d, w.rows, w.max_unit * sizeof(*w.rows));
	dw_dealloc(d, w.unit_addrs, w.max_unit * sizeof(*w.unit_addrs));
	dw_dealloc(d, w.pairs, n * sizeof(*w.pairs));
	dw_pages_drop(d);
	return r;
}
