/* SPDX-License-Identifier: Apache-2.0 */
/* The functions that the subject of a view selects. */
#include "report/rep_priv.h"

uint32_t rep_fn_node(const struct prof_model *m, const struct rep_fn *fn)
{
	return fn->name ? fn->name : intern_count(m->strings) + fn->path;
}

int rep_select(struct rep_view *v, struct rep_fns *all, size_t *ret_n, struct err *err)
{
	const char *want = v->doc->o->subject;
	_cleanup_(rep_regex_freep) struct rep_regex *re = NULL;
	bool exact = false;
	size_t n = 0;
	int r = 0;

	for (size_t i = 0; i < all->n && !exact; i++)
		exact = !strcmp(want, prof_model_str(v->m, all->p[i].name));
	if (!exact)
		r = rep_regex_new(v->doc->view, want, &re, err);
	for (size_t i = 0; i < all->n && r == 0; i++) {
		const char *name = rep_node_name(v->doc, v->m, rep_fn_node(v->m, &all->p[i]));
		struct rep_fn fn = all->p[i];

		if (!name)
			return -ENOMEM;
		if (exact ? strcmp(want, name) != 0 : !rep_regex_matches(re, name))
			continue;
		all->p[i] = all->p[n];
		all->p[n++] = fn;
	}
	if (r == 0 && n == 0)
		return err_set(err, -ENOENT, "%s: no function matches '%s'", v->group->first->name,
		               want);
	*ret_n = n;
	return r;
}

int rep_subject_check(const char *view, const char *subject, struct err *err)
{
	_cleanup_(rep_regex_freep) struct rep_regex *re = NULL;

	return rep_regex_new(view, subject, &re, err);
}
