/* SPDX-License-Identifier: Apache-2.0 */
/* Questions about a model besides its top functions: tasks, and callers of functions. */
#include "profile/profile.h"

/* ---- tasks ----------------------------------------------------------------------------------- */

struct task_key {
	int64_t pid, tid;
};
_Static_assert(sizeof(struct task_key) == 16, "hashed as bytes");

/* The name of a task so far: of a sample of the main thread if there is one, then of the heaviest:
 * a process that executes another program changes its name. */
struct task_name {
	bool main;
	int64_t value;
};

struct tasks {
	struct intern *keys; /* struct task_key -> index of v and names */
	VEC(struct prof_task) v;
	VEC(struct task_name) names;
};

static void tasks_done(struct tasks *t)
{
	t->keys = intern_free(t->keys);
	vec_done(&t->v);
	vec_done(&t->names);
}

static int add_task(const struct prof_model *m, const struct prof_sample *s, bool threads,
                    const uint32_t keys[3], struct tasks *to)
{
	struct task_key key = {0};
	struct task_name name;
	struct prof_task *t;
	int64_t tid = 0;
	uint32_t comm = 0, id;
	bool is_new;
	int r;

	for (uint32_t i = 0; i < s->label_cnt; i++) {
		const struct prof_label *l = &m->labels.p[s->label_first + i];

		if (l->key == keys[0])
			key.pid = l->num;
		else if (l->key == keys[1])
			tid = l->num;
		else if (l->key == keys[2])
			comm = l->str;
	}
	key.tid = threads ? tid : 0;
	r = intern_add(to->keys, &key, sizeof(key), &id, &is_new);
	if (r == 0 && is_new)
		r = vec_push(&to->v, (struct prof_task){.pid = key.pid, .tid = key.tid});
	if (r == 0 && is_new)
		r = vec_push(&to->names, (struct task_name){0});
	if (r < 0)
		return r;
	t = &to->v.p[id];
	for (uint32_t i = 0; i < m->n_types; i++)
		t->value[i] = prof_sat_add(t->value[i], s->value[i]);
	name = (struct task_name){.main = tid == key.pid, .value = s->value[m->n_types - 1]};
	if (comm && (!t->comm || name.main > to->names.p[id].main ||
	             (name.main == to->names.p[id].main && name.value > to->names.p[id].value))) {
		t->comm = comm;
		to->names.p[id] = name;
	}
	return 0;
}

static int cmp_tasks(const void *a, const void *b)
{
	const struct prof_task *x = a, *y = b;

	for (int i = PROF_TYPE_MAX - 1; i >= 0; i--)
		if (x->value[i] != y->value[i])
			return (x->value[i] < y->value[i]) - (x->value[i] > y->value[i]);
	if (x->pid != y->pid)
		return (x->pid > y->pid) - (x->pid < y->pid);
	return (x->tid > y->tid) - (x->tid < y->tid);
}

int prof_model_tasks(const struct prof_model *m, bool threads, struct prof_task **ret,
                     size_t *ret_n)
{
	static const char *const names[] = {"pid", "tid", "comm"};
	_cleanup_(tasks_done) struct tasks t = {.v.max = PROF_SAMPLES_MAX,
	                                        .names.max = PROF_SAMPLES_MAX};
	uint32_t keys[ARRAY_SIZE(names)];
	int r = intern_new(PROF_SAMPLES_MAX, PROF_KEY_BYTES_MAX, &t.keys);

	for (size_t i = 0; i < ARRAY_SIZE(names); i++)
		keys[i] = intern_find(m->strings, names[i], strlen(names[i]));
	for (size_t i = 0; i < m->samples.n && r == 0; i++)
		r = add_task(m, &m->samples.p[i], threads, keys, &t);
	if (r < 0)
		return r;
	if (t.v.n)
		qsort(t.v.p, t.v.n, sizeof(*t.v.p), cmp_tasks);
	*ret_n = t.v.n;
	*ret = TAKE_PTR(t.v.p);
	return 0;
}

/* ---- callers --------------------------------------------------------------------------------- */

/* The functions of a sample, innermost first. */
struct frame {
	uint32_t name, mapping;
};

struct callers {
	const struct prof_model *m;
	const uint32_t *path; /* path[n_path]: strings */
	size_t n_path;
	VEC(struct frame) frames;
	uint32_t *seen; /* by string: number + 1 of the last sample that had this caller */
	int64_t *sum;   /* likewise: weight */
	uint32_t *mapping;
	bool *several; /* not all in one file */
};

static void callers_done(struct callers *c)
{
	vec_done(&c->frames);
	free(c->seen);
	free(c->sum);
	free(c->mapping);
	free(c->several);
}

static int expand(struct callers *c, const struct prof_sample *s)
{
	const struct prof_model *m = c->m;
	int r = 0;

	c->frames.n = 0;
	for (uint32_t i = 0; i < s->loc_cnt; i++) {
		const struct prof_location *loc =
		        &m->locations.p[m->loc_ids.p[s->loc_first + i] - 1];

		for (uint32_t k = 0; k < loc->line_cnt && r == 0; k++) {
			uint32_t fn = m->lines.p[loc->line_first + k].function;
			struct frame f = {.name = fn ? m->functions.p[fn - 1].name : 0,
			                  .mapping = loc->mapping};

			r = vec_push(&c->frames, f);
		}
	}
	return r;
}

/* Whether the path begins at frame @at. */
static bool begins_at(const struct callers *c, size_t at)
{
	for (size_t i = 0; i < c->n_path; i++)
		if (at + i >= c->frames.n || c->frames.p[at + i].name != c->path[i])
			return false;
	return true;
}

static int add_callers(struct callers *c, uint32_t number, int64_t value)
{
	int r = expand(c, &c->m->samples.p[number]);

	for (size_t at = 0; r == 0 && at < c->frames.n; at++) {
		const bool root = at + c->n_path >= c->frames.n;
		struct frame by = {0};

		if (!begins_at(c, at))
			continue;
		if (!root)
			by = c->frames.p[at + c->n_path];
		if (!c->seen[by.name])
			c->mapping[by.name] = by.mapping;
		else if (prof_mapping_path(c->m, by.mapping) !=
		         prof_mapping_path(c->m, c->mapping[by.name]))
			c->several[by.name] = by.name != 0; /* the end of a stack is in none */
		if (c->seen[by.name] == number + 1)
			continue; /* recursion counts once */
		c->seen[by.name] = number + 1;
		c->sum[by.name] = prof_sat_add(c->sum[by.name], value);
	}
	return r;
}

static int cmp_callers(const void *a, const void *b)
{
	const struct prof_top *x = a, *y = b;

	if (x->cum != y->cum)
		return (x->cum < y->cum) - (x->cum > y->cum);
	return (x->name > y->name) - (x->name < y->name);
}

static int list_callers(const struct callers *c, size_t n_strings, struct prof_top **ret,
                        size_t *ret_n)
{
	struct prof_top *top;
	size_t n = 0;

	for (size_t i = 0; i < n_strings; i++)
		n += c->seen[i] != 0;
	top = calloc(n ? n : 1, sizeof(*top));
	if (!top)
		return -ENOMEM;
	n = 0;
	for (size_t i = 0; i < n_strings; i++)
		if (c->seen[i])
			top[n++] = (struct prof_top){.name = (uint32_t)i,
			                             .mapping = c->mapping[i],
			                             .several = c->several[i],
			                             .self = c->sum[i],
			                             .cum = c->sum[i]};
	qsort(top, n, sizeof(*top), cmp_callers);
	*ret = top;
	*ret_n = n;
	return 0;
}

int prof_model_callers(const struct prof_model *m, uint32_t type_idx, const uint32_t *path,
                       size_t n_path, struct prof_top **ret, size_t *ret_n)
{
	_cleanup_(callers_done) struct callers c = {
	        .m = m, .path = path, .n_path = n_path, .frames.max = UINT32_MAX};
	const size_t n = intern_count(m->strings);
	int r = 0;

	if (type_idx >= m->n_types || n_path == 0)
		return -EINVAL;
	c.seen = calloc(n, sizeof(*c.seen));
	c.sum = calloc(n, sizeof(*c.sum));
	c.mapping = calloc(n, sizeof(*c.mapping));
	c.several = calloc(n, sizeof(*c.several));
	if (!c.seen || !c.sum || !c.mapping || !c.several)
		return -ENOMEM;
	for (size_t i = 0; i < m->samples.n && r == 0; i++)
		r = add_callers(&c, (uint32_t)i, m->samples.p[i].value[type_idx]);
	return r < 0 ? r : list_callers(&c, n, ret, ret_n);
}
