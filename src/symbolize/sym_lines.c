/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Adds the frames of DWARF or Go's table to a batch. Each name and each path is made once a batch:
 * an inlined function occurs at thousands of addresses.
 */
#include "symbolize/symbolize_priv.h"

void sym_lines_done(struct sym_lines *l)
{
	l->name_keys = intern_free(l->name_keys);
	l->file_keys = intern_free(l->file_keys);
	vec_done(&l->names);
	vec_done(&l->files);
	sbuf_done(&l->scratch);
}

int sym_lines_init(struct sym_lines *l, struct sym_batch *b)
{
	int r;

	*l = (struct sym_lines){.b = b};
	l->names.max = l->files.max = UINT32_MAX;
	sbuf_init(&l->scratch, 2 * SYM_DEMANGLED_MAX + 2);
	r = intern_new(UINT32_MAX - 1, SYM_STRINGS_MAX, &l->name_keys);
	if (r == 0)
		r = intern_new(UINT32_MAX - 1, SYM_STRINGS_MAX, &l->file_keys);
	return r;
}

/* Sets name and linkage of @out: 0, -E2BIG (the batch's strings are at their cap), -ENOMEM. */
static int name_of(struct sym_lines *l, const char *name, struct sym_frame *out)
{
	struct sym_frame text;
	uint32_t id = intern_find(l->name_keys, name, strlen(name));
	int r = 0;

	if (id == INTERN_NONE) {
		r = sym_batch_text(l->b, name, "", &l->scratch, &text);
		if (r == 0)
			r = vec_reserve(&l->names, 1);
		if (r == 0)
			r = intern_add(l->name_keys, name, strlen(name), &id, NULL);
		if (r == 0)
			r = vec_push(&l->names, text);
	}
	if (r == 0) {
		out->name = l->names.p[id].name;
		out->linkage = l->names.p[id].linkage;
	}
	return r;
}

static int file_of(struct sym_lines *l, const char *file, const char **ret)
{
	uint32_t id = intern_find(l->file_keys, file, strlen(file));
	const char *copy;
	int r = 0;

	if (id == INTERN_NONE) {
		copy = arena_strndup(&l->b->strings, file, strlen(file));
		if (!copy)
			return -E2BIG;
		r = vec_reserve(&l->files, 1);
		if (r == 0)
			r = intern_add(l->file_keys, file, strlen(file), &id, NULL);
		if (r == 0)
			r = vec_push(&l->files, copy);
	}
	if (r == 0)
		*ret = l->files.p[id];
	return r;
}

/* Publishes the frames of names[i], or drops them if they are not usable. */
static void finish(struct sym_lines *l, size_t i)
{
	struct sym_name *n = &l->b->names[i];
	const struct sym_frame *frames = l->b->frames.p;

	if (l->given_up || !frames || l->b->frames.n == l->first ||
	    !frames[l->b->frames.n - 1].name) {
		l->b->frames.n = l->first; /* the symbol's name stays, without a line */
		return;
	}
	if (n->reason != EV_REASON_NAMED)
		n->start = l->start;
	n->reason = EV_REASON_NAMED;
	n->first = l->first;
	n->n = (uint32_t)l->b->frames.n - l->first;
}

void sym_lines_drop(struct sym_lines *l)
{
	if (l->open)
		l->b->frames.n = l->first;
	l->open = false;
}

int sym_lines_add(struct sym_lines *l, size_t i, const struct sym_line_frame *f, bool last)
{
	const struct sym_frame *symbol = sym_batch_frames(l->b, i);
	struct sym_frame out = {.line = f->line, .column = f->column, .start_line = f->start_line};
	const char *name = f->linkage ? f->linkage : f->name;
	int r = 0;

	if (!l->open) {
		l->open = true;
		l->given_up = false;
		l->first = (uint32_t)l->b->frames.n;
		l->start = f->start;
	}
	if (last && symbol && !f->name_wins) {
		/* If both have the function, the symbol table's name is better: it names clones and
		 * split-off parts. */
		out.name = symbol->name;
		out.linkage = symbol->linkage;
	} else if (name) {
		r = name_of(l, name, &out);
	}
	if (r == 0 && f->file)
		r = file_of(l, f->file, &out.file);
	/* An inlined call without a name is left out. */
	if (r == 0 && (out.name || last) && l->b->frames.n - l->first < SYM_FRAMES_MAX)
		r = vec_push(&l->b->frames, out);
	else if (r == 0 && last && l->b->frames.p && l->b->frames.n > l->first)
		/* There are too many. The function itself replaces the last inlined call. */
		l->b->frames.p[l->b->frames.n - 1] = out;
	if (r == -E2BIG) {
		l->given_up = true;
		r = 0;
	}
	if (last && r == 0) {
		finish(l, i);
		l->open = false;
	}
	return r;
}
