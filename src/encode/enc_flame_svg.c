/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A profile as a picture: a rectangle for each frame, as wide as its share, what it calls above it.
 * No script, no style sheet, attributes only: viewers of images know no more of SVG.
 */
#include <inttypes.h>
#include <stdio.h>

#include "encode/enc_flame_priv.h"

/* Pixels. */
#define WIDTH     1200
#define MARGIN    10
#define ROW       18
#define HEAD      58 /* title, and what the colours mean */
#define FOOT      30
#define CHAR      6.65 /* of 11 px in the fonts below; the widest of them */
#define MIN_WIDTH 0.25 /* narrower frames are not drawn: 4,800 in a row at most */
#define MIN_CHARS 3
/* Hundreds of rows are beyond what anybody looks at, and renderers stop at 32,767 pixels. */
#define ROWS_MAX 1024

struct svg {
	struct sbuf *out;
	const struct flame_tree *t;
	const struct prof_model *m;
	const struct enc_flame_diff *diff;   /* NULL: one profile */
	const struct flame_changes *changes; /* of diff */
	uint64_t *value, *count; /* by node: with all below it; count: of the first type */
	uint32_t *depth;         /* by node */
	double *x, *next;        /* by node: left edge, and that of its next child */
	bool *drawn;             /* by node */
	uint64_t left_out;       /* value that ends in frames that are not drawn */
	size_t n_left_out;
	bool too_deep;
	uint32_t type, n_rows;
	double scale; /* pixels a unit of value */
};

/* The same as in src/encode/flame/flame.css, --k0 and so on: dark text is readable on all of
 * them, and their lightness differs where their hues look alike to the colour-blind. */
static const char *const fills[FLAME_KIND_CNT] = {
        [FLAME_NATIVE] = "#8ec3e6",    [FLAME_CPP] = "#efe07a",     [FLAME_RUST] = "#e2b28a",
        [FLAME_GO] = "#6fcfb3",        [FLAME_JIT] = "#dda0c8",     [FLAME_KERNEL] = "#f0a04b",
        [FLAME_INLINED] = "#c9e3f4",   [FLAME_UNNAMED] = "#c4c4c4", [FLAME_MARK] = "#a8a8a8",
        [FLAME_HEURISTIC] = "#b39ddb",
};

/* Less to more, --d0 and so on. */
static const char *const step_fills[2 * FLAME_STEPS + 1] = {
        "#5fa8dc", "#9ccbeb", "#cfe5f5", "#dcdcdc", "#fbdcb8", "#f5b56f", "#e68a2e",
};

static void put_escaped(struct sbuf *b, const char *s, size_t len)
{
	for (size_t i = 0; i < len; i++) {
		switch (s[i]) {
		case '<':
			(void)sbuf_str(b, "&lt;");
			break;
		case '>':
			(void)sbuf_str(b, "&gt;");
			break;
		case '&':
			(void)sbuf_str(b, "&amp;");
			break;
		case '"':
			(void)sbuf_str(b, "&quot;");
			break;
		case '\xef': /* U+FFFE and U+FFFF are no XML; no other of EF BF begins in BE, BF */
			if (len - i > 2 && s[i + 1] == '\xbf' && (s[i + 2] & 0xfe) == 0xbe) {
				(void)sbuf_char(b, '?');
				i += 2;
				break;
			}
			(void)sbuf_char(b, s[i]);
			break;
		default:
			(void)sbuf_char(b, s[i]);
		}
	}
}

static void put_name(struct svg *v, uint32_t string)
{
	size_t len;
	const char *s = intern_get(v->t->strings, string, &len);

	put_escaped(v->out, s, len);
}

/* A string of the model that is not in the tree: a type. */
static void put_name_of(struct svg *v, uint32_t string)
{
	uint32_t id;

	if (flame_string(v->t->strings, prof_model_str(v->m, string), &id) == 0)
		put_name(v, id);
}

/* As much of a name as fits, in whole characters; two dots end what was cut. */
static void put_cut(struct svg *v, uint32_t string, size_t max)
{
	size_t len, at = 0, chars = 0, cut = 0;
	const char *s = intern_get(v->t->strings, string, &len);

	for (; at < len; chars++) {
		if (chars + 2 <= max)
			cut = at;
		at += utf8_len((const uint8_t *)s + at, len - at);
	}
	put_escaped(v->out, s, chars <= max ? len : cut);
	if (chars > max)
		(void)sbuf_str(v->out, "..");
}

/* In every locale with a point. @places: 1 or 2. */
static void put_fixed(struct sbuf *b, double v, unsigned int places)
{
	const uint64_t unit = places == 1 ? 10 : 100;
	const uint64_t n = (uint64_t)(v * (double)unit + 0.5);

	(void)sbuf_addf(b, "%" PRIu64 ".%0*" PRIu64, n / unit, (int)places, n % unit);
}

static void put_pct(struct svg *v, uint64_t part)
{
	put_fixed(v->out,
	          v->value[FLAME_ROOT] ? 100 * (double)part / (double)v->value[FLAME_ROOT] : 0, 1);
	(void)sbuf_str(v->out, " %");
}

static void put_count(struct svg *v, uint64_t n)
{
	const char *type = prof_model_str(v->m, v->m->sample_type[0].type);

	(void)sbuf_addf(v->out, "%" PRIu64 " %s%s", n,
	                strcmp(type, "contentions") == 0 ? "interval" : "sample",
	                n == 1 ? "" : "s");
}

static void put_time(struct svg *v, double ns)
{
	static const struct {
		double size;
		const char *name;
	} units[] = {{1e9, "s"}, {1e6, "ms"}, {1e3, "us"}};
	size_t i = 0;

	while (i < 2 && ns < units[i].size)
		i++;
	put_fixed(v->out, ns / units[i].size, 2);
	(void)sbuf_addf(v->out, " %s", units[i].name);
}

static void put_value(struct svg *v, uint64_t n)
{
	const char *unit = prof_model_str(v->m, v->m->sample_type[v->type].unit);

	if (v->type == 0) {
		put_count(v, n);
		return;
	}
	if (strcmp(unit, "nanoseconds") != 0) {
		(void)sbuf_addf(v->out, "%" PRIu64 " ", n);
		put_name_of(v, v->m->sample_type[v->type].type);
		return;
	}
	put_time(v, (double)n);
}

static void put_more(struct svg *v, uint64_t count)
{
	(void)sbuf_str(v->out, ", ");
	put_count(v, count);
}

/* Puts a value of a comparison: per second, or in percent. */
static void put_rate(struct svg *v, double n)
{
	const struct prof_type *t = &v->m->sample_type[v->type];

	if (!v->changes->shares && strcmp(prof_model_str(v->m, t->unit), "nanoseconds") == 0) {
		put_time(v, n);
		(void)sbuf_str(v->out, "/s");
	} else {
		put_fixed(v->out, n, 2);
		(void)sbuf_str(v->out, v->changes->shares ? " %" : "/s");
	}
}

static void put_change(struct svg *v, const struct flame_change *c)
{
	char text[FLAME_CHANGE_MAX];

	(void)sbuf_str(v->out, "before ");
	put_rate(v, c->value[0]);
	(void)sbuf_str(v->out, ", after ");
	put_rate(v, c->value[1]);
	(void)sbuf_addf(v->out, ", %s", flame_change_text(c, text));
	if (c->variance > 0 && flame_change_step(c) == 0)
		(void)sbuf_str(v->out, ": small, or may be chance");
}

/* ---- layout ---------------------------------------------------------------------------------- */

static void add_values(struct svg *v)
{
	const size_t n = v->t->nodes.n;

	if (v->changes) {
		/* Proportions are all that is needed of them: a part in 10^12. */
		const double whole = v->changes->node[FLAME_ROOT].value[1];

		for (size_t i = 0; i < n && whole > 0; i++)
			v->value[i] = (uint64_t)(v->changes->node[i].value[1] / whole * 1e12);
		return;
	}
	for (size_t i = 0; i < v->m->samples.n; i++) {
		uint32_t node = v->t->sample_node.p[i];

		v->value[node] += flame_value(&v->m->samples.p[i], v->type);
		v->count[node] += flame_value(&v->m->samples.p[i], 0);
	}
	for (size_t i = n; i-- > 1;) {
		v->value[v->t->nodes.p[i].parent] += v->value[i];
		v->count[v->t->nodes.p[i].parent] += v->count[i];
	}
}

static int lay_out(struct svg *v)
{
	const size_t n = v->t->nodes.n;

	v->value = calloc(n, sizeof(*v->value));
	v->count = calloc(n, sizeof(*v->count));
	v->depth = calloc(n, sizeof(*v->depth));
	v->x = calloc(n, sizeof(*v->x));
	v->next = calloc(n, sizeof(*v->next));
	v->drawn = calloc(n, sizeof(*v->drawn));
	if (!v->value || !v->count || !v->depth || !v->x || !v->next || !v->drawn)
		return -ENOMEM;
	add_values(v);
	v->scale = v->value[FLAME_ROOT] ? (WIDTH - 2 * MARGIN) / (double)v->value[FLAME_ROOT] : 0;
	v->x[FLAME_ROOT] = v->next[FLAME_ROOT] = MARGIN;
	v->drawn[FLAME_ROOT] = true;
	v->n_rows = 1;
	for (size_t i = 1; i < n; i++) {
		uint32_t parent = v->t->nodes.p[i].parent;
		double width = (double)v->value[i] * v->scale;

		v->x[i] = v->next[i] = v->next[parent];
		v->next[parent] += width;
		v->depth[i] = v->depth[parent] + 1;
		v->drawn[i] = v->drawn[parent] && width >= MIN_WIDTH && v->depth[i] < ROWS_MAX;
		v->n_left_out += !v->drawn[i] && v->value[i];
		v->too_deep |= v->depth[i] >= ROWS_MAX;
		if (v->drawn[i])
			v->n_rows = MAX_OF(v->n_rows, v->depth[i] + 1);
		else if (v->drawn[parent])
			v->left_out += v->value[i];
	}
	return 0;
}

/* ---- drawing --------------------------------------------------------------------------------- */

static void put_text(struct svg *v, double x, uint32_t y, const char *more)
{
	(void)sbuf_str(v->out, "<text x=\"");
	put_fixed(v->out, x, 2);
	(void)sbuf_addf(v->out, "\" y=\"%u\"%s>", y, more);
}

/* @f: the frame of node @i; NULL: the root. */
static const char *fill_of(const struct svg *v, uint32_t i, const struct flame_frame *f)
{
	if (v->changes)
		return step_fills[flame_change_step(&v->changes->node[i]) + FLAME_STEPS];
	return f ? fills[f->kind] : "#d9d9d9";
}

/* The name in a frame; a change is before it as text, so that colours are not needed. */
static void put_label(struct svg *v, uint32_t i, size_t chars, uint32_t y)
{
	const struct flame_change *c = v->changes ? &v->changes->node[i] : NULL;
	char text[FLAME_CHANGE_MAX] = "";
	size_t len;

	if (c && flame_change_step(c) != 0)
		(void)flame_change_text(c, text);
	len = strlen(text);
	put_text(v, v->x[i] + 2, y, "");
	if (len > 0 && len <= chars)
		(void)sbuf_str(v->out, text);
	if (len > 0 && len + 1 + MIN_CHARS <= chars)
		(void)sbuf_char(v->out, ' ');
	if (len == 0 || len + 1 + MIN_CHARS <= chars) {
		if (i)
			put_cut(v, v->t->frames.p[v->t->nodes.p[i].frame].name,
			        len ? chars - len - 1 : chars);
		else
			(void)sbuf_str(v->out, "all");
	}
	(void)sbuf_str(v->out, "</text>");
}

static void put_frame(struct svg *v, uint32_t i)
{
	const struct flame_frame *f = i ? &v->t->frames.p[v->t->nodes.p[i].frame] : NULL;
	const double width = (double)v->value[i] * v->scale;
	const uint32_t y = HEAD + (v->n_rows - 1 - v->depth[i]) * ROW;
	const double shown = MAX_OF(width - 0.5, width / 2); /* the rest is the gap to the next */

	(void)sbuf_str(v->out, "<g><title>");
	if (f)
		put_name(v, f->name);
	else
		(void)sbuf_str(v->out, "all");
	(void)sbuf_str(v->out, " (");
	if (v->changes)
		put_change(v, &v->changes->node[i]);
	else
		put_value(v, v->value[i]);
	(void)sbuf_str(v->out, ", ");
	put_pct(v, v->value[i]);
	if (v->type && !v->changes)
		put_more(v, v->count[i]);
	(void)sbuf_str(v->out, ")");
	if (f) {
		(void)sbuf_addf(v->out, "\n%s ", flame_kind_name((enum flame_kind)f->kind));
		put_name(v, f->module);
	}
	(void)sbuf_str(v->out, "</title><rect x=\"");
	put_fixed(v->out, v->x[i], 2);
	(void)sbuf_addf(v->out, "\" y=\"%u\" width=\"", y);
	put_fixed(v->out, shown, 2);
	(void)sbuf_addf(v->out, "\" height=\"%d\" fill=\"%s\"/>", ROW - 1, fill_of(v, i, f));
	if (width >= MIN_CHARS * CHAR + 4)
		put_label(v, i, (size_t)((width - 4) / CHAR), y + 13);
	(void)sbuf_str(v->out, "</g>\n");
}

/* Returns the left edge of the next item. */
static double put_item(struct svg *v, double x, const char *fill, const char *name)
{
	(void)sbuf_str(v->out, "<rect x=\"");
	put_fixed(v->out, x, 2);
	(void)sbuf_addf(v->out, "\" y=\"34\" width=\"12\" height=\"12\" fill=\"%s\"/>", fill);
	put_text(v, x + 17, 44, "");
	(void)sbuf_addf(v->out, "%s</text>\n", name);
	return x + 17 + CHAR * (double)strlen(name) + 18;
}

static void put_steps(struct svg *v)
{
	static const char *const names[2 * FLAME_STEPS + 1] = {
	        "less by 60 % or more, or gone",    "30 %",         "10 %",
	        "about the same, or may be chance", "more by 10 %", "30 %",
	        "60 % of the value after, or new"};
	double x = MARGIN;

	for (size_t i = 0; i < ARRAY_SIZE(names); i++)
		x = put_item(v, x, step_fills[i], names[i]);
}

static void put_legend(struct svg *v)
{
	bool used[FLAME_KIND_CNT] = {false};
	double x = MARGIN;

	if (v->changes) {
		put_steps(v);
		return;
	}

	for (size_t i = 1; i < v->t->nodes.n; i++)
		if (v->drawn[i])
			used[v->t->frames.p[v->t->nodes.p[i].frame].kind] = true;
	for (int k = 0; k < FLAME_KIND_CNT; k++) {
		if (used[k])
			x = put_item(v, x, fills[k], flame_kind_name((enum flame_kind)k));
	}
}

/* Puts the target if @comment has it. Returns whether it has. */
static bool put_target_of(struct svg *v, const char *comment)
{
	struct prof_items it;
	const char *item;
	uint32_t id;

	prof_items_init(&it, comment);
	while ((item = prof_items_next(&it)) && !str_starts(item, "target: "))
		;
	if (item && flame_string(v->t->strings, item + strlen("target: "), &id) == 0) {
		(void)sbuf_str(v->out, ", ");
		put_cut(v, id, 80);
	}
	prof_items_done(&it);
	return item;
}

static void put_target(struct svg *v)
{
	vec_each (c, &v->m->comments) {
		if (put_target_of(v, prof_model_str(v->m, *c)))
			return;
	}
}

static void put_names(struct svg *v)
{
	uint32_t id;

	if (flame_string(v->t->strings, v->diff->after_name, &id) == 0)
		put_cut(v, id, 30);
	(void)sbuf_str(v->out, " compared with ");
	if (flame_string(v->t->strings, v->diff->before_name, &id) == 0)
		put_cut(v, id, 30);
	(void)sbuf_str(v->out, ": ");
}

static void put_title(struct svg *v)
{
	put_text(v, MARGIN, 22, " font-size=\"15\" font-weight=\"bold\"");
	(void)sbuf_addf(v->out, "%s: ", flame_title(v->m));
	if (v->changes) {
		put_names(v);
		put_change(v, &v->changes->node[FLAME_ROOT]);
		(void)sbuf_str(v->out, "</text>\n");
		return;
	}
	put_value(v, v->value[FLAME_ROOT]);
	if (v->type)
		put_more(v, v->count[FLAME_ROOT]);
	put_target(v);
	(void)sbuf_str(v->out, "</text>\n");
}

static void put_foot(struct svg *v, uint32_t y)
{
	put_text(v, MARGIN, y, "");
	if (v->changes && v->changes->vanished > 0) {
		put_rate(v, v->changes->vanished);
		(void)sbuf_str(v->out, " of before has vanished and is not drawn; ");
	}
	if (!v->value[FLAME_ROOT]) {
		(void)sbuf_str(v->out, "no samples</text>\n");
		return;
	}
	if (v->n_left_out) {
		(void)sbuf_addf(v->out, "%zu frames narrower than ", v->n_left_out);
		put_fixed(v->out, MIN_WIDTH, 2);
		(void)sbuf_str(v->out, " pixels");
		if (v->too_deep)
			(void)sbuf_addf(v->out, " or deeper than %d rows", ROWS_MAX);
		(void)sbuf_str(v->out, " are not drawn; ");
		put_pct(v, v->left_out);
		(void)sbuf_str(v->out, " of the total ends in them");
	} else {
		(void)sbuf_addf(v->out, "all %sframes are drawn",
		                v->changes && v->changes->vanished > 0 ? "other " : "");
	}
	(void)sbuf_str(v->out, "</text>\n");
}

static void put_picture(struct svg *v)
{
	const uint32_t height = HEAD + v->n_rows * ROW + FOOT;

	(void)sbuf_addf(v->out,
	                "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n"
	                "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%u\" "
	                "viewBox=\"0 0 %d %u\" font-family=\"DejaVu Sans Mono, Menlo, Consolas, "
	                "monospace\" font-size=\"11\" fill=\"#111\">\n"
	                "<rect width=\"100%%\" height=\"100%%\" fill=\"#fff\"/>\n",
	                WIDTH, height, WIDTH, height);
	put_title(v);
	put_legend(v);
	for (uint32_t i = 0; i < v->t->nodes.n; i++)
		if (v->drawn[i])
			put_frame(v, i);
	put_foot(v, height - 11);
	(void)sbuf_str(v->out, "</svg>\n");
}

static void svg_done(struct svg *v)
{
	free(v->value);
	free(v->count);
	free(v->depth);
	free(v->x);
	free(v->next);
	free(v->drawn);
}

/* Draws @v, whose tree is set. Returns 0 or a negative errno, with @out as it was. */
static int put_whole(struct svg *v, int r)
{
	const size_t before = v->out->len;

	if (r == 0)
		r = lay_out(v);
	if (r == 0) {
		put_picture(v);
		r = v->out->err;
	}
	if (r < 0) {
		v->out->len = before;
		if (v->out->p)
			v->out->p[before] = 0;
		v->out->err = r;
	}
	return r;
}

int enc_flame_svg(const struct prof_model *m, uint32_t type_idx, struct sbuf *out)
{
	_cleanup_(svg_done) struct svg v = {.out = out, .m = m, .type = type_idx};
	_cleanup_(flame_tree_freep) struct flame_tree *t = NULL;
	_cleanup_(intern_freep) struct intern *strings = NULL;
	int r = out->err;

	if (r < 0)
		return r;
	r = intern_new(PROF_STRINGS_MAX, FLAME_BYTES_MAX, &strings);
	if (r == 0)
		r = flame_tree_new(m, strings, &t);
	v.t = t;
	return put_whole(&v, r);
}

int enc_flame_diff_svg(const struct enc_flame_diff *d, uint32_t type_idx, struct sbuf *out)
{
	_cleanup_(flame_changes_done) struct flame_changes changes = {0};
	_cleanup_(svg_done) struct svg v = {
	        .out = out, .m = d->after, .type = type_idx, .diff = d, .changes = &changes};
	_cleanup_(flame_tree_freep) struct flame_tree *before = NULL, *after = NULL, *merged = NULL;
	_cleanup_(intern_freep) struct intern *strings = NULL;
	int r = out->err;

	if (r < 0)
		return r;
	if (!flame_same_types(d->before, d->after))
		return -EINVAL;
	r = intern_new(PROF_STRINGS_MAX, FLAME_BYTES_MAX, &strings);
	if (r == 0)
		r = flame_tree_new(d->before, strings, &before);
	if (r == 0)
		r = flame_tree_new(d->after, strings, &after);
	if (r == 0)
		r = flame_tree_merge(before, after, &merged);
	if (r == 0)
		r = flame_changes_new(d, merged, type_idx, &changes);
	v.t = merged;
	return put_whole(&v, r);
}
