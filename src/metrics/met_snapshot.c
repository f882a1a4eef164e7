/* SPDX-License-Identifier: Apache-2.0 */
#include "metrics/metrics.h"

void met_entry_init(struct met_entry *e)
{
	*e = (struct met_entry){
	        .counters = VEC_INIT(MET_COUNTERS_MAX),
	        .threads = VEC_INIT(MET_THREADS_MAX),
	        .labels = VEC_INIT(MET_LABELS_MAX),
	};
}

static int make_label(const char *key, const char *value, struct met_label *ret)
{
	_cleanup_free_ char *key_copy = strdup(key);
	_cleanup_free_ char *value_copy = strdup(value);

	if (!key_copy || !value_copy)
		return -ENOMEM;
	*ret = (struct met_label){TAKE_PTR(key_copy), TAKE_PTR(value_copy)};
	return 0;
}

static void free_label(struct met_label *l)
{
	free(l->key);
	free(l->value);
}

int met_entry_label(struct met_entry *e, const char *key, const char *value)
{
	struct met_label l;
	int r = make_label(key, value, &l);

	if (r < 0)
		return r;
	r = vec_push(&e->labels, l);
	if (r < 0)
		free_label(&l);
	return r;
}

void met_entry_done(struct met_entry *e)
{
	vec_done(&e->counters);
	vec_done(&e->threads);
	vec_each (label, &e->labels)
		free_label(label);
	vec_done(&e->labels);
}

int met_snapshot_new(struct met_snapshot **ret)
{
	struct met_snapshot *s = calloc(1, sizeof(*s));

	if (!s)
		return -ENOMEM;
	met_entry_init(&s->all);
	s->core_types.max = MET_CORE_TYPES_MAX;
	s->procs.max = MET_PROCS_MAX;
	s->notes.max = MET_NOTES_MAX;
	s->labels.max = MET_TAGS_MAX;
	*ret = s;
	return 0;
}

struct met_snapshot *met_snapshot_free(struct met_snapshot *s)
{
	if (!s)
		return NULL;
	met_entry_done(&s->all);
	vec_each (e, &s->procs)
		met_entry_done(e);
	vec_done(&s->procs);
	vec_each (name, &s->core_types)
		free(*name);
	vec_done(&s->core_types);
	vec_each (note, &s->notes)
		free(*note);
	vec_done(&s->notes);
	vec_each (label, &s->labels)
		free_label(label);
	vec_done(&s->labels);
	free(s);
	return NULL;
}

void met_snapshot_freep(struct met_snapshot **s)
{
	*s = met_snapshot_free(*s);
}

int met_snapshot_core_type(struct met_snapshot *s, const char *name)
{
	_cleanup_free_ char *copy = strdup(name);
	int r = copy ? vec_push(&s->core_types, copy) : -ENOMEM;

	if (r == 0)
		copy = NULL; /* the list's now */
	return r;
}

int met_snapshot_note(struct met_snapshot *s, const char *text)
{
	_cleanup_free_ char *copy = strdup(text);
	int r = copy ? vec_push(&s->notes, copy) : -ENOMEM;

	if (r == 0)
		copy = NULL;
	return r;
}

int met_snapshot_label(struct met_snapshot *s, const char *key, const char *value)
{
	struct met_label l;
	int r = make_label(key, value, &l);

	if (r < 0)
		return r;
	r = vec_push(&s->labels, l);
	if (r < 0)
		free_label(&l);
	return r;
}

/* ---- order ---------------------------------------------------------------------------------- */

static int compare_counters(const void *a, const void *b)
{
	const struct met_counter *x = a, *y = b;

	if (x->id != y->id)
		return (x->id > y->id) - (x->id < y->id);
	return (x->core_type > y->core_type) - (x->core_type < y->core_type);
}

static int compare_threads(const void *a, const void *b)
{
	const struct met_thread *x = a, *y = b;

	if (x->ns[MET_SLICE] != y->ns[MET_SLICE])
		return (x->ns[MET_SLICE] < y->ns[MET_SLICE]) -
		       (x->ns[MET_SLICE] > y->ns[MET_SLICE]);
	return (x->tid > y->tid) - (x->tid < y->tid);
}

static int compare_procs(const void *a, const void *b)
{
	const struct met_entry *x = a, *y = b;

	if ((x->pid == 0) != (y->pid == 0))
		return x->pid == 0 ? 1 : -1;
	if (x->ns[MET_SLICE] != y->ns[MET_SLICE])
		return (x->ns[MET_SLICE] < y->ns[MET_SLICE]) -
		       (x->ns[MET_SLICE] > y->ns[MET_SLICE]);
	return (x->pid > y->pid) - (x->pid < y->pid);
}

static void sort_entry(struct met_entry *e)
{
	/* qsort of NULL is undefined, even of no items. */
	if (e->counters.n > 1)
		qsort(e->counters.p, e->counters.n, sizeof(*e->counters.p), compare_counters);
	if (e->threads.n > 1)
		qsort(e->threads.p, e->threads.n, sizeof(*e->threads.p), compare_threads);
}

void met_snapshot_sort(struct met_snapshot *s)
{
	sort_entry(&s->all);
	vec_each (e, &s->procs)
		sort_entry(e);
	if (s->procs.n > 1)
		qsort(s->procs.p, s->procs.n, sizeof(*s->procs.p), compare_procs);
}
