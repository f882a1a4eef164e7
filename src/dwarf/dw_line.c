/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Headers of line programs: tables of directories and files.
 * Source: DWARF 5 §6.2.4, DWARF 2 to 4 §6.2.4.
 */
#include "dwarf/dw_line_priv.h"

/* Entries of one table. The largest known ones (a whole kernel, a browser's library) have some ten
 * thousands. Each costs 4 bytes here. */
#define ENTRIES_MAX (1u << 18)

static struct cursor at_offset(const struct dw_line *l, uint32_t off)
{
	struct cursor c = l->unit;

	(void)cursor_skip(&c, off); /* in range since dw_line_note */
	return c;
}

/* ---- entries -------------------------------------------------------------------------------- */

/* Converts a value of DW_LNCT_path. */
static struct text text_of(const struct dw_val *v)
{
	switch (v->form) {
	case DW_FORM_string:
		return (struct text){.kind = TEXT_HERE, .s = (const char *)v->data.p};
	case DW_FORM_strp:
		return (struct text){.kind = TEXT_STR, .v = v->u};
	case DW_FORM_line_strp:
		return (struct text){.kind = TEXT_LINE_STR, .v = v->u};
	case DW_FORM_strx:
	case DW_FORM_strx1:
	case DW_FORM_strx2:
	case DW_FORM_strx3:
	case DW_FORM_strx4:
	case DW_FORM_GNU_str_index:
		return (struct text){.kind = TEXT_STRX, .v = v->u};
	default: /* also DW_FORM_strp_sup: dwz writes none into line tables */
		return (struct text){.kind = TEXT_NONE};
	}
}

/* Reads an entry of version 5: 0, -ENODATA, -ERANGE, -EINVAL, -ENOTSUP. That is a form of unknown
 * length, or of none: any number of entries would fit into no bytes. */
static int read_entry(const struct dw_line *l, const struct format *f, struct cursor *c,
                      struct entry *ret)
{
	const struct dw_sizes sizes = {.address = l->address_size, .offset = l->is64 ? 8 : 4};
	struct dw_val v = {0};
	int r = 0;

	*ret = (struct entry){0};
	for (size_t i = 0; r == 0 && i < f->n; i++) {
		const uint16_t form = f->item[i].form;

		r = dw_form_size(sizes, form) ? dw_form_read(sizes, c, form, 0, &v) : -ENOTSUP;
		if (r == 0 && f->item[i].content == DW_LNCT_path)
			ret->path = text_of(&v);
		else if (r == 0 && f->item[i].content == DW_LNCT_directory_index)
			(void)dw_val_num(&v, &ret->dir); /* of another class: as if absent */
	}
	return r;
}

int dw_line_old_file(struct cursor *c, struct entry *ret)
{
	uint64_t unused;
	int r;

	*ret = (struct entry){.path.kind = TEXT_HERE};
	r = cursor_str(c, &ret->path.s);
	if (r == 0)
		r = cursor_uleb(c, &ret->dir);
	if (r == 0)
		r = cursor_uleb(c, &unused); /* time */
	if (r == 0)
		r = cursor_uleb(c, &unused); /* size */
	return r;
}

/* ---- header --------------------------------------------------------------------------------- */

int dw_line_note(struct dw_line *l, offset_vec *v, const uint8_t *p)
{
	int r = vec_push(v, (uint32_t)(p - l->unit.p));

	if (r == -E2BIG)
		l->env.stats->over_limit++;
	return r;
}

static int read_old_tables(struct dw_line *l, struct cursor *c)
{
	struct entry e;
	const char *dir;
	const uint8_t *p;
	int r = 0;

	while (cursor_left(c) > 0 && *c->p) {
		p = c->p;
		r = cursor_str(c, &dir);
		if (r == 0)
			r = step(l) ? dw_line_note(l, &l->dirs, p) : -E2BIG;
		if (r < 0)
			return r;
	}
	r = cursor_skip(c, 1);
	while (r == 0 && cursor_left(c) > 0 && *c->p) {
		p = c->p;
		r = dw_line_old_file(c, &e);
		if (r == 0)
			r = step(l) ? dw_line_note(l, &l->files, p) : -E2BIG;
	}
	return r < 0 ? r : cursor_skip(c, 1);
}

static int read_table(struct dw_line *l, struct cursor *c, struct format *f, offset_vec *v)
{
	uint64_t n = 0, content = 0, form = 0;
	struct entry e;
	int r = cursor_u8(c, &f->n);

	for (size_t i = 0; r == 0 && i < f->n; i++) {
		r = cursor_uleb(c, &content);
		if (r == 0)
			r = cursor_uleb(c, &form);
		f->item[i].content = (uint16_t)MIN_OF(content, UINT16_MAX);
		f->item[i].form = (uint16_t)MIN_OF(form, UINT16_MAX);
	}
	if (r == 0)
		r = cursor_uleb(c, &n);
	if (r == 0 && n > 0 && f->n == 0)
		return -EINVAL; /* any number of empty entries would fit */
	for (; r == 0 && n > 0; n--) {
		const uint8_t *p = c->p;

		r = read_entry(l, f, c, &e);
		if (r == 0)
			r = step(l) ? dw_line_note(l, v, p) : -E2BIG;
	}
	return r;
}

/* Reads the header after length and version, up to the tables. */
static int read_fixed_part(struct dw_line *l, struct cursor *c, struct cursor *ret_header)
{
	struct cursor operands;
	uint64_t header_len = 0;
	uint8_t v = 0;
	int r = 0;

	l->address_size = l->env.address_size;
	if (l->version >= 5) {
		r = cursor_u8(c, &l->address_size);
		if (r == 0)
			r = cursor_u8(c, &v); /* size of segment selectors: unused */
	}
	if (r == 0)
		r = dw_next_num(c, l->is64 ? 8 : 4, &header_len);
	if (r == 0 && header_len > cursor_left(c))
		r = -ENODATA;
	if (r == 0)
		r = cursor_sub(c, (size_t)header_len, ret_header);
	if (r < 0)
		return r;
	l->program = *c;
	c = ret_header;
	r = cursor_u8(c, &l->min_insn_bytes);
	/* Operations of an instruction are all counted as its first. No supported machine has more
	 * than one. */
	if (r == 0 && l->version >= 4)
		r = cursor_u8(c, &v);
	if (r == 0)
		r = cursor_u8(c, &v); /* default_is_stmt */
	if (r == 0)
		r = cursor_u8(c, &v);
	l->line_base = (int8_t)v;
	if (r == 0)
		r = cursor_u8(c, &l->line_range);
	if (r == 0)
		r = cursor_u8(c, &l->opcode_base);
	if (r == 0)
		r = cursor_sub(c, l->opcode_base ? l->opcode_base - 1u : 0, &operands);
	if (r == 0)
		l->operands = operands.p;
	return r;
}

static int read_header(struct dw_line *l, struct cursor c)
{
	const uint8_t *start = c.p;
	struct cursor header;
	uint32_t len32 = 0;
	uint64_t len = 0;
	int r = cursor_u32(&c, &len32);

	len = len32;
	if (r == 0 && len32 == DWARF3_LENGTH_64_BIT) {
		l->is64 = true;
		r = cursor_u64(&c, &len);
	} else if (len32 >= DWARF3_LENGTH_MIN_ESCAPE_CODE) {
		return -EINVAL; /* reserved */
	}
	if (r < 0)
		return r;
	if (len > cursor_left(&c)) {
		l->env.stats->bad++; /* the existing part may be good */
		len = cursor_left(&c);
	}
	if (len > UINT32_MAX - 64) {
		l->env.stats->over_limit++;
		return -EINVAL;
	}
	(void)cursor_sub(&c, (size_t)len, &c);
	l->unit = (struct cursor){.p = start, .end = c.end};
	r = cursor_u16(&c, &l->version);
	if (r < 0)
		return r;
	if (l->version < 2 || l->version > 5)
		return -ENOTSUP;
	r = read_fixed_part(l, &c, &header);
	if (r < 0)
		return r;
	if (l->version >= 5) {
		r = read_table(l, &header, &l->dir_format, &l->dirs);
		if (r == 0)
			r = read_table(l, &header, &l->file_format, &l->files);
	} else {
		r = read_old_tables(l, &header);
	}
	l->header_files = l->files.n;
	if (r == -ENOMEM)
		return r;
	/* A table that ends early lacks its other entries. Rows whose file it has are still
	 * good. */
	if (r == -ENOTSUP)
		l->env.stats->unsupported++;
	else if (r < 0 && r != -E2BIG)
		l->env.stats->bad++;
	return 0;
}

int dw_line_open(struct cursor unit, const struct dw_line_env *env, struct dw_line **ret)
{
	_cleanup_(dw_line_freep) struct dw_line *l = calloc(1, sizeof(*l));
	int r;

	if (!l)
		return -ENOMEM;
	l->env = *env;
	l->dirs.max = l->files.max = ENTRIES_MAX;
	r = read_header(l, unit);
	if (r == -ENOTSUP)
		env->stats->unsupported++;
	else if (r < 0 && r != -ENOMEM)
		env->stats->bad++;
	if (r < 0)
		return r == -ENOTSUP || r == -ENOMEM ? r : -EINVAL;
	*ret = TAKE_PTR(l);
	return 0;
}

struct dw_line *dw_line_free(struct dw_line *l)
{
	if (l) {
		vec_done(&l->dirs);
		vec_done(&l->files);
		free(l);
	}
	return NULL;
}

void dw_line_freep(struct dw_line **l)
{
	*l = dw_line_free(*l);
}

/* ---- names ---------------------------------------------------------------------------------- */

/* Appends a string. -ENOENT: there is no such string. */
static int add_text(const struct dw_line *l, const struct text *t, struct sbuf *b)
{
	enum dw_line_str where = t->kind == TEXT_LINE_STR ? DW_LINE_LINE_STR : DW_LINE_STR;
	uint64_t off = t->v;
	int r = 0;

	switch (t->kind) {
	case TEXT_NONE:
		return -ENOENT;
	case TEXT_HERE:
		return sbuf_str(b, t->s);
	case TEXT_STRX:
		r = l->env.strx ? l->env.strx(l->env.arg, t->v, &off) : -EINVAL;
		break;
	case TEXT_STR:
	case TEXT_LINE_STR:
		break;
	}
	if (r == 0)
		r = l->env.str(l->env.arg, where, off, b);
	return r == -EINVAL ? -ENOENT : r;
}

static void cut(struct sbuf *b, size_t len)
{
	b->len = len;
	if (b->p)
		b->p[len] = 0;
}

/* Appends a part of the path that begins at @start. An absolute part replaces what is before it.
 * After a failure @b is as it was. */
static int add_part(const struct dw_line *l, size_t start, const struct text *t, struct sbuf *b)
{
	const size_t old = b->len;
	size_t at;
	int r = 0;

	if (old > start && b->p[old - 1] != '/')
		r = sbuf_char(b, '/');
	at = b->len;
	if (r == 0)
		r = add_text(l, t, b);
	if (r < 0 || b->len == at) {
		cut(b, old);
	} else if (b->p[at] == '/') {
		memmove(b->p + start, b->p + at, b->len - at);
		cut(b, start + b->len - at);
	}
	return r;
}

static int find_entry(const struct dw_line *l, uint64_t index, struct entry *ret)
{
	struct cursor c;

	if (l->version < 5)
		index--; /* 0 becomes too large */
	if (index >= l->files.n)
		return -ENOENT;
	c = at_offset(l, l->files.p[index]);
	if (l->version < 5 || index >= l->header_files)
		return dw_line_old_file(&c, ret);
	return read_entry(l, &l->file_format, &c, ret);
}

static void find_dir(const struct dw_line *l, uint64_t index, struct text *ret)
{
	struct entry e = {0};
	struct cursor c;

	*ret = (struct text){0};
	if (l->version < 5)
		index--; /* 0, the unit's own directory, becomes too large */
	if (index >= l->dirs.n)
		return;
	c = at_offset(l, l->dirs.p[index]);
	if (l->version < 5) {
		ret->kind = TEXT_HERE;
		(void)cursor_str(&c, &ret->s); /* terminated: read_old_tables has read it */
	} else if (read_entry(l, &l->dir_format, &c, &e) == 0) {
		*ret = e.path;
	}
}

int dw_line_file(struct dw_line *l, uint64_t index, struct sbuf *b)
{
	const struct text comp_dir = {.kind = TEXT_HERE, .s = l->env.comp_dir};
	const size_t start = b->len;
	struct entry e;
	struct text dir;
	int r = find_entry(l, index, &e);

	if (r < 0)
		return -ENOENT;
	find_dir(l, e.dir, &dir);
	r = add_part(l, start, &comp_dir, b);
	if (r == 0) {
		r = add_part(l, start, &dir, b);
		if (r == -ENOENT)
			r = 0; /* the file name alone is still useful */
	}
	if (r == 0)
		r = add_part(l, start, &e.path, b);
	if (r < 0)
		cut(b, start);
	return r;
}
