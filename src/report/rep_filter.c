/* SPDX-License-Identifier: Apache-2.0 */
/*
 * focus, ignore, hide and show as `go tool pprof` has them. A location matches if the name or the
 * source file of one of its functions does, or the path of its mapping.
 * Source: profile/filter.go of github.com/google/pprof.
 */
#include <stdio.h>

#include "report/rep_priv.h"

/* The effect of a location on the samples that have it. */
enum effect {
	EFFECT_NONE = 0,
	EFFECT_KEEP = 1,
	EFFECT_DROP = 2,
};

enum name_filter { FOCUS, IGNORE, HIDE, SHOW, NAME_FILTERS };

struct filter {
	const struct prof_model *m;
	struct rep_regex *re[NAME_FILTERS]; /* NULL: not given */
	uint8_t *known[NAME_FILTERS];       /* by string id: 0 not tried, 1 no match, 2 match */
	uint8_t *effect;                    /* by location id - 1: enum effect */
	bool *hidden;                       /* by location id - 1 */
	bool *keep;                         /* by line; NULL: all of them */
	struct rep_tags *tagfocus, *tagignore;
};

static void filter_done(struct filter *f)
{
	for (int i = 0; i < NAME_FILTERS; i++) {
		rep_regex_freep(&f->re[i]);
		freep(&f->known[i]);
	}
	freep(&f->effect);
	freep(&f->hidden);
	freep(&f->keep);
	rep_tags_freep(&f->tagfocus);
	rep_tags_freep(&f->tagignore);
}

static bool matches(struct filter *f, enum name_filter which, uint32_t string)
{
	uint8_t *known = &f->known[which][string];

	if (!*known)
		*known = rep_regex_matches(f->re[which], prof_model_str(f->m, string)) ? 2 : 1;
	return *known == 2;
}

static bool line_matches(struct filter *f, enum name_filter which, const struct prof_line *l)
{
	const struct prof_function *fn;

	if (!l->function)
		return false;
	fn = &f->m->functions.p[l->function - 1];
	return matches(f, which, fn->name) || matches(f, which, fn->file);
}

static bool mapping_matches(struct filter *f, enum name_filter which,
                            const struct prof_location *loc)
{
	return loc->mapping && matches(f, which, f->m->mappings.p[loc->mapping - 1].path);
}

static bool location_matches(struct filter *f, enum name_filter which,
                             const struct prof_location *loc)
{
	for (uint32_t i = 0; i < loc->line_cnt; i++)
		if (line_matches(f, which, &f->m->lines.p[loc->line_first + i]))
			return true;
	return mapping_matches(f, which, loc);
}

/* Clears .keep of the lines that are hidden. Returns whether none is left. */
static bool hide_lines(struct filter *f, const struct prof_location *loc)
{
	const bool all = mapping_matches(f, HIDE, loc);
	bool left = false;

	for (uint32_t i = 0; i < loc->line_cnt; i++) {
		const uint32_t at = loc->line_first + i;

		if (all || line_matches(f, HIDE, &f->m->lines.p[at]))
			f->keep[at] = false;
		left |= f->keep[at];
	}
	return !left;
}

/* As hide_lines. A line without a function matches, as in pprof. */
static bool show_lines(struct filter *f, const struct prof_location *loc)
{
	const bool all = mapping_matches(f, SHOW, loc);
	bool left = false;

	for (uint32_t i = 0; i < loc->line_cnt; i++) {
		const uint32_t at = loc->line_first + i;
		const struct prof_line *l = &f->m->lines.p[at];

		if (!all && l->function && !line_matches(f, SHOW, l))
			f->keep[at] = false;
		left |= f->keep[at];
	}
	return !left;
}

static void judge_location(struct filter *f, size_t i)
{
	const struct prof_location *loc = &f->m->locations.p[i];

	if (f->re[IGNORE] && location_matches(f, IGNORE, loc))
		f->effect[i] = EFFECT_DROP;
	else if (!f->re[FOCUS] || location_matches(f, FOCUS, loc))
		f->effect[i] = EFFECT_KEEP;
	if (f->re[HIDE] && location_matches(f, HIDE, loc))
		f->hidden[i] = hide_lines(f, loc);
	if (f->re[SHOW] && show_lines(f, loc))
		f->hidden[i] = true;
}

static bool any_names(const struct filter *f)
{
	return f->re[FOCUS] || f->re[IGNORE] || f->re[HIDE] || f->re[SHOW];
}

/* Returns whether a sample stays; then the ids of its locations are in locs[*n]. */
static bool select_sample(const struct filter *f, const struct prof_sample *s, uint32_t *locs,
                          uint32_t *n)
{
	bool stays = !any_names(f);

	*n = 0;
	for (uint32_t i = 0; i < s->loc_cnt; i++) {
		const uint32_t id = f->m->loc_ids.p[s->loc_first + i];

		if (f->effect[id - 1] == EFFECT_DROP)
			return false;
		stays |= f->effect[id - 1] == EFFECT_KEEP;
		if (!f->hidden[id - 1])
			locs[(*n)++] = id;
	}
	if (!stays || (s->loc_cnt && !*n))
		return false;
	if (f->tagfocus && !rep_tags_match(f->tagfocus, s))
		return false;
	return !f->tagignore || !rep_tags_match(f->tagignore, s);
}

static int compile(struct filter *f, const struct rep_filter *o, struct err *err)
{
	const char *const texts[NAME_FILTERS] = {o->focus, o->ignore, o->hide, o->show};
	static const char *const names[NAME_FILTERS] = {"focus", "ignore", "hide", "show"};
	int r = 0;

	for (int i = 0; i < NAME_FILTERS && r == 0; i++) {
		if (!texts[i] || !*texts[i])
			continue;
		r = rep_regex_new(names[i], texts[i], &f->re[i], err);
	}
	if (r == 0 && o->tagfocus && *o->tagfocus)
		r = rep_tags_new("tagfocus", o->tagfocus, f->m, &f->tagfocus, err);
	if (r == 0 && o->tagignore && *o->tagignore)
		r = rep_tags_new("tagignore", o->tagignore, f->m, &f->tagignore, err);
	return r;
}

int rep_filter_check(const struct rep_filter *o, struct err *err)
{
	_cleanup_(filter_done) struct filter f = {0};

	return compile(&f, o, err);
}

/* Compiles the filters and judges all locations. */
static int prepare(struct filter *f, const struct rep_filter *o, struct err *err)
{
	const struct prof_model *m = f->m;
	int r = compile(f, o, err);

	for (int i = 0; i < NAME_FILTERS && r == 0; i++) {
		f->known[i] = calloc(intern_count(m->strings), 1);
		if (!f->known[i])
			r = -ENOMEM;
	}
	if (r < 0)
		return r;
	f->effect = calloc(m->locations.n + 1, 1);
	f->hidden = calloc(m->locations.n + 1, sizeof(*f->hidden));
	f->keep = malloc((m->lines.n + 1) * sizeof(*f->keep));
	if (!f->effect || !f->hidden || !f->keep)
		return -ENOMEM;
	memset(f->keep, true, (m->lines.n + 1) * sizeof(*f->keep));
	for (size_t i = 0; i < m->locations.n; i++)
		judge_location(f, i);
	return 0;
}

static int copy_selected(const struct filter *f, struct prof_model *to)
{
	_cleanup_(rep_copy_done) struct rep_copy c = {0};
	_cleanup_free_ uint32_t *locs = calloc(PROF_SAMPLE_LOCS_MAX, sizeof(*locs));
	int r = locs ? rep_copy_begin(&c, f->m, to) : -ENOMEM;

	if (r == 0)
		r = rep_copy_head(&c);
	for (size_t i = 0; i < f->m->samples.n && r == 0; i++) {
		const struct prof_sample *s = &f->m->samples.p[i];
		uint32_t n;

		if (!select_sample(f, s, locs, &n))
			continue;
		for (uint32_t k = 0; k < n && r == 0; k++)
			r = rep_copy_location(&c, locs[k],
			                      f->keep + f->m->locations.p[locs[k] - 1].line_first,
			                      &locs[k]);
		if (r == 0)
			r = rep_copy_sample(&c, s, locs, n);
	}
	return r;
}

static void describe(const struct rep_filter *o, char *ret, size_t size)
{
	const struct {
		const char *name, *text;
	} all[] = {{"focus", o->focus}, {"ignore", o->ignore},     {"hide", o->hide},
	           {"show", o->show},   {"tagfocus", o->tagfocus}, {"tagignore", o->tagignore}};
	size_t at = 0;

	*ret = 0;
	for (size_t i = 0; i < ARRAY_SIZE(all); i++) {
		int n;

		if (!all[i].text || !*all[i].text || at >= size)
			continue;
		n = snprintf(ret + at, size - at, "%s%s '%.60s'", at ? ", " : "", all[i].name,
		             all[i].text);
		at += n > 0 ? (size_t)n : 0;
	}
}

bool rep_filter_any(const struct rep_filter *o)
{
	char text[8];

	describe(o, text, sizeof(text));
	return *text;
}

int rep_filter(const struct prof_model *m, const struct rep_filter *o, struct prof_model **ret,
               struct err *err)
{
	_cleanup_(prof_model_freep) struct prof_model *to = NULL;
	_cleanup_(filter_done) struct filter f = {.m = m};
	char text[512];
	int r = prepare(&f, o, err);

	if (r == 0)
		r = prof_model_new(&to);
	if (r < 0)
		return r;
	assert(to);
	r = copy_selected(&f, to);
	if (r < 0)
		return r;
	if (m->samples.n && !to->samples.n) {
		describe(o, text, sizeof(text));
		return err_set(err, -ENOENT, "the filters leave no sample: %s", text);
	}
	*ret = TAKE_PTR(to);
	return 0;
}
