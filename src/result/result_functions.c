/* SPDX-License-Identifier: Apache-2.0 */
/* Functions of a profile for the eyes of people: by process, and with interpreted functions in the place of
 * their evaluator. Thread: control. */
#include "result/result.h"

/* Hashed as bytes. */
struct function_key {
	uint32_t name;    /* string */
	uint32_t path;    /* string; for code without names alone, which is one entry a module */
	uint32_t process; /* string; 0: all */
};
_Static_assert(sizeof(struct function_key) == 12, "hashed as bytes");

struct entry {
	uint32_t name, path, process; /* strings */
	uint32_t seen;                /* number + 1 of the last sample that had it */
	uint32_t whole;               /* of this process, in wholes */
	int64_t self, cum, complete;  /* of complete stacks: cum */
};

struct report {
	const struct prof_model *m;
	const struct result *result;
	prof_skip_fn skip;
	bool by_process;
	uint32_t key_pid, key_comm; /* strings; INTERN_NONE: no sample has one */
	struct intern *keys;
	VEC(struct entry) entries; /* by number in keys */
	struct intern *processes;  /* strings */
	VEC(int64_t) wholes;       /* by number in processes: complete stacks */
};

/* The sample that is added. */
struct visited {
	uint32_t number, process, whole;
	bool complete;
};

static void report_done(struct report *rep)
{
	rep->keys = intern_free(rep->keys);
	rep->processes = intern_free(rep->processes);
	vec_done(&rep->wholes);
	vec_done(&rep->entries);
}

static const struct prof_location *location_of(const struct prof_model *m,
                                               const struct prof_sample *s, uint32_t i)
{
	return &m->locations.p[m->loc_ids.p[s->loc_first + i] - 1];
}

static uint32_t path_of(const struct prof_model *m, const struct prof_location *loc)
{
	return loc->mapping ? m->mappings.p[loc->mapping - 1].path : 0;
}

static uint32_t name_of(const struct prof_model *m, const struct prof_location *loc, uint32_t line)
{
	uint32_t function = line < loc->line_cnt ? m->lines.p[loc->line_first + line].function : 0;

	return function ? m->functions.p[function - 1].name : 0;
}

/* ---- processes ------------------------------------------------------------------------------- */

static const struct prof_label *label_of(const struct prof_model *m, const struct prof_sample *s,
                                         uint32_t key)
{
	for (uint32_t i = 0; i < s->label_cnt; i++)
		if (m->labels.p[s->label_first + i].key == key)
			return &m->labels.p[s->label_first + i];
	return NULL;
}

/* Returns the string of the process's name, or of the thread's if that is not known. */
static uint32_t process_of(const struct report *rep, const struct prof_sample *s)
{
	const struct prof_label *pid = label_of(rep->m, s, rep->key_pid),
	                        *comm = label_of(rep->m, s, rep->key_comm);
	uint32_t number = pid ? (uint32_t)pid->num : 0,
	         id = pid && rep->result->pids
	                      ? intern_find(rep->result->pids, &number, sizeof(number))
	                      : INTERN_NONE;

	return id != INTERN_NONE ? rep->result->comms.p[id] : comm ? comm->str : 0;
}

/* ---- functions ------------------------------------------------------------------------------- */

/* Whether frame @i is an evaluator that runs a function with a name, which is the next frame. */
static bool runs_interpreted(const struct prof_model *m, const struct prof_sample *s, uint32_t i)
{
	const struct prof_location *loc = location_of(m, s, i), *caller;

	if (i + 1 == s->loc_cnt || !prof_is_evaluator(prof_model_str(m, name_of(m, loc, 0))))
		return false;
	caller = location_of(m, s, i + 1);
	return caller->reason == EV_REASON_NAMED &&
	       strcmp(prof_model_str(m, path_of(m, caller)), "[jit]") == 0;
}

/* Returns the frame that has the self value of a sample. */
static uint32_t leaf_of(const struct report *rep, const struct prof_sample *s)
{
	const struct prof_model *m = rep->m;
	uint32_t i = 0;

	while (rep->skip && i < s->loc_cnt &&
	       rep->skip(prof_model_str(m, path_of(m, location_of(m, s, i))),
	                 prof_model_str(m, name_of(m, location_of(m, s, i), 0))))
		i++;
	if (i == s->loc_cnt)
		return 0;
	return runs_interpreted(m, s, i) ? i + 1 : i;
}

/* Whether the outermost frame is one from which programs and threads start: a stack that ends in code
 * of its own, in the kernel or in "[truncated]" may lack frames. */
static bool is_complete(const struct prof_model *m, const struct prof_sample *s)
{
	const struct prof_location *loc = s->loc_cnt ? location_of(m, s, s->loc_cnt - 1) : NULL;
	const char *path = loc ? prof_model_str(m, path_of(m, loc)) : "";
	enum prof_owner owner;

	if (!*path)
		return false;
	owner = prof_owner(path, prof_model_str(m, name_of(m, loc, 0)));
	return owner == PROF_SYSTEM || owner == PROF_RUNTIME;
}

static int add_whole(struct report *rep, const struct visited *s, uint32_t *ret)
{
	int r = vec_reserve(&rep->wholes, 1);

	if (r == 0)
		r = intern_add(rep->processes, &s->process, sizeof(s->process), ret, NULL);
	if (r < 0)
		return r;
	if (*ret == rep->wholes.n)
		rep->wholes.p[rep->wholes.n++] = 0;
	if (s->complete)
		rep->wholes.p[*ret] =
		        prof_sat_add(rep->wholes.p[*ret], rep->m->samples.p[s->number].value[1]);
	return 0;
}

static int visit(struct report *rep, const struct prof_location *loc, uint32_t line,
                 const struct visited *s, bool leaf)
{
	const struct prof_model *m = rep->m;
	int64_t value = m->samples.p[s->number].value[1];
	uint32_t name = name_of(m, loc, line), path = path_of(m, loc), id = 0;
	const struct function_key key = {name, name ? 0 : path, s->process};
	struct entry *e;
	int r = vec_reserve(&rep->entries, 1);

	if (r == 0)
		r = intern_add(rep->keys, &key, sizeof(key), &id, NULL);
	if (r < 0)
		return r;
	if (id == rep->entries.n)
		rep->entries.p[rep->entries.n++] = (struct entry){
		        .name = name, .path = path, .process = s->process, .whole = s->whole};
	e = &rep->entries.p[id];
	if (e->seen != s->number + 1) { /* recursion counts once */
		e->cum = prof_sat_add(e->cum, value);
		e->complete = prof_sat_add(e->complete, s->complete ? value : 0);
	}
	if (leaf)
		e->self = prof_sat_add(e->self, value);
	e->seen = s->number + 1;
	return 0;
}

static int visit_sample(struct report *rep, uint32_t sample)
{
	const struct prof_model *m = rep->m;
	const struct prof_sample *s = &m->samples.p[sample];
	struct visited v = {.number = sample,
	                    .process = rep->by_process ? process_of(rep, s) : 0,
	                    .complete = is_complete(m, s)};
	uint32_t leaf = leaf_of(rep, s);
	int r = add_whole(rep, &v, &v.whole);

	for (uint32_t i = 0; i < s->loc_cnt && r == 0; i++) {
		const struct prof_location *loc = location_of(m, s, i);

		for (uint32_t k = 0; k < MAX_OF(loc->line_cnt, 1U) && r == 0; k++)
			r = visit(rep, loc, k, &v, i == leaf && k == 0);
	}
	return r;
}

static int cmp_entries(const void *a, const void *b, void *arg)
{
	const struct entry *x = a, *y = b;
	const struct prof_model *m = arg;
	int r;

	if (x->self != y->self)
		return (x->self < y->self) - (x->self > y->self);
	if (x->cum != y->cum)
		return (x->cum < y->cum) - (x->cum > y->cum);
	r = strcmp(prof_model_str(m, x->name), prof_model_str(m, y->name));
	if (r == 0)
		r = strcmp(prof_model_str(m, x->path), prof_model_str(m, y->path));
	return r ? r : strcmp(prof_model_str(m, x->process), prof_model_str(m, y->process));
}

static size_t copy(struct report *rep, struct pfa_hot_function *ret, size_t max)
{
	const struct prof_model *m = rep->m;
	size_t n = MIN_OF(rep->entries.n, max);

	/* The const goes into a call-back that takes it back as const. */
	if (rep->entries.n)
		qsort_r(rep->entries.p, rep->entries.n, sizeof(*rep->entries.p), cmp_entries,
		        (void *)(uintptr_t)m);
	for (size_t i = 0; i < n; i++) {
		const struct entry *e = &rep->entries.p[i];
		const char *name = prof_model_str(m, e->name), *path = prof_model_str(m, e->path);

		ret[i] = (struct pfa_hot_function){
		        .name = name,
		        .module = path,
		        .process = prof_model_str(m, e->process),
		        .own = prof_owner(path, name) == PROF_OWN,
		        .complete_pct = (uint32_t)result_pct((uint64_t)e->complete,
		                                             (uint64_t)rep->wholes.p[e->whole]),
		        .self = (uint64_t)e->self,
		        .cum = (uint64_t)e->cum,
		};
	}
	return n;
}

static uint32_t find_string(const struct prof_model *m, const char *s)
{
	return intern_find(m->strings, s, strlen(s));
}

int result_name_process(struct result *res, uint32_t pid, const char *name)
{
	uint32_t id, string;
	int r = 0;

	if (!res->pids) {
		res->comms.max = UINT32_MAX;
		r = intern_new(UINT32_MAX - 1, SIZE_MAX / 2, &res->pids);
	}
	if (r < 0 || intern_find(res->pids, &pid, sizeof(pid)) != INTERN_NONE)
		return r;
	r = prof_model_text(res->model, name, &string);
	if (r == 0)
		r = vec_reserve(&res->comms, 1);
	if (r == 0)
		r = intern_add(res->pids, &pid, sizeof(pid), &id, NULL);
	return r == 0 ? vec_push(&res->comms, string) : r;
}

int result_functions(const struct result *res, prof_skip_fn skip, bool by_process,
                     struct pfa_hot_function *ret, size_t max)
{
	const struct prof_model *m = res->model;
	struct report rep = {.m = m,
	                     .result = res,
	                     .skip = skip,
	                     .by_process = by_process,
	                     .key_pid = find_string(m, "pid"),
	                     .key_comm = find_string(m, "comm")};
	int r;

	rep.entries.max = UINT32_MAX;
	rep.wholes.max = UINT32_MAX;
	r = intern_new(UINT32_MAX - 1, SIZE_MAX / 2, &rep.keys);
	if (r == 0)
		r = intern_new(UINT32_MAX - 1, SIZE_MAX / 2, &rep.processes);
	for (size_t i = 0; i < m->samples.n && r == 0; i++)
		r = visit_sample(&rep, (uint32_t)i);
	if (r == 0)
		r = (int)copy(&rep, ret, max); /* at most 1,000,000 */
	report_done(&rep);
	return r;
}
