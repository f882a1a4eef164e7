/* SPDX-License-Identifier: Apache-2.0 */
/* Functions of programs in which threads are blocked, of an off-CPU profile. Thread: control. */
#include "result/result.h"

/* A function (where is 0), or all addresses of a file that have no name (name is 0). The latter
 * differ by the function in which they are blocked. Hashed as bytes. */
struct site_key {
	uint32_t name, path, where; /* strings */
};
_Static_assert(sizeof(struct site_key) == 12, "hashed as bytes");

struct pair_key {
	uint32_t site, where; /* number of the site; string */
};
_Static_assert(sizeof(struct pair_key) == 8, "hashed as bytes");

struct site {
	uint32_t name, path; /* strings, of the first that was met */
	uint32_t where;      /* string: that of most_ns */
	uint32_t where_cnt, unnamed_cnt;
	int64_t ns, waits, longest_ns, most_ns;
};

struct pair {
	uint32_t site, where;
	int64_t ns;
};

struct report {
	const struct prof_model *m;
	uint32_t key_state, key_longest; /* strings; INTERN_NONE: no sample has one */
	struct intern *site_keys, *pair_keys, *unnamed_keys;
	VEC(struct site) sites;
	VEC(struct pair) pairs;
};

static void report_done(struct report *rep)
{
	rep->site_keys = intern_free(rep->site_keys);
	rep->pair_keys = intern_free(rep->pair_keys);
	rep->unnamed_keys = intern_free(rep->unnamed_keys);
	vec_done(&rep->sites);
	vec_done(&rep->pairs);
}

static uint32_t path_of(const struct prof_model *m, const struct prof_location *loc)
{
	return loc->mapping ? m->mappings.p[loc->mapping - 1].path : 0;
}

/* The innermost function that was inlined there. */
static uint32_t name_of(const struct prof_model *m, const struct prof_location *loc)
{
	uint32_t function = loc->line_cnt ? m->lines.p[loc->line_first].function : 0;

	return function ? m->functions.p[function - 1].name : 0;
}

/* Returns the string for the cause of blocking: a kernel function or, if that is of no use, the
 * state. */
static uint32_t where_of(const struct report *rep, const struct prof_sample *s,
                         const struct prof_site *f)
{
	const struct prof_model *m = rep->m;
	uint32_t state = 0;

	for (uint32_t i = 0; i < s->label_cnt; i++) {
		const struct prof_label *l = &m->labels.p[s->label_first + i];

		if (l->key == rep->key_state)
			state = l->str;
	}
	/* The site of a preemption is chance; the site of a kernel thread is its function
	 * anyway. */
	if (!f->kernel || !f->user || strcmp(prof_model_str(m, state), "preempted") == 0)
		return state;
	return name_of(m, f->kernel);
}

static int64_t longest_of(const struct report *rep, const struct prof_sample *s)
{
	for (uint32_t i = 0; i < s->label_cnt; i++) {
		const struct prof_label *l = &rep->m->labels.p[s->label_first + i];

		if (l->key == rep->key_longest)
			return l->num;
	}
	return 0;
}

/* Finds or adds the site of a location, blocked in @where. */
static int site_of(struct report *rep, const struct prof_location *loc, uint32_t where,
                   uint32_t *ret)
{
	const struct prof_model *m = rep->m;
	bool unnamed = loc->reason != EV_REASON_NAMED, is_new = false;
	struct site_key key = {.name = name_of(m, loc), .path = path_of(m, loc)};
	uint32_t name = key.name, ignored;
	int r = vec_reserve(&rep->sites, 1);

	if (unnamed)
		key.where = where;
	if (r == 0 && unnamed)
		r = intern_add(rep->unnamed_keys, &key, sizeof(key), &ignored, &is_new);
	if (unnamed)
		key.name = 0;
	if (r == 0)
		r = intern_add(rep->site_keys, &key, sizeof(key), ret, NULL);
	if (r < 0)
		return r;
	if (*ret == rep->sites.n)
		rep->sites.p[rep->sites.n++] = (struct site){.name = name, .path = key.path};
	rep->sites.p[*ret].unnamed_cnt += is_new;
	return 0;
}

static int64_t add_up(int64_t a, int64_t b)
{
	int64_t sum;

	return __builtin_add_overflow(a, b, &sum) ? INT64_MAX : sum;
}

static int add_wait(struct report *rep, const struct prof_sample *s)
{
	const struct prof_site f = prof_site_of(rep->m, s);
	const struct prof_location *loc = prof_site_location(&f);
	struct pair_key key = {.where = where_of(rep, s, &f)};
	struct site *p;
	uint32_t id = 0; /* clang-tidy does not see that it is set */
	int r;

	if (!loc)
		return 0; /* cannot happen: each sample has a frame, or its replacement */
	r = site_of(rep, loc, key.where, &key.site);
	if (r == 0)
		r = vec_reserve(&rep->pairs, 1);
	if (r == 0)
		r = intern_add(rep->pair_keys, &key, sizeof(key), &id, NULL);
	if (r < 0)
		return r;
	if (id == rep->pairs.n)
		rep->pairs.p[rep->pairs.n++] = (struct pair){.site = key.site, .where = key.where};
	rep->pairs.p[id].ns = add_up(rep->pairs.p[id].ns, s->value[1]);
	p = &rep->sites.p[key.site];
	p->ns = add_up(p->ns, s->value[1]);
	p->waits = add_up(p->waits, s->value[0]);
	p->longest_ns = MAX_OF(p->longest_ns, longest_of(rep, s));
	return 0;
}

static int cmp_sites(const void *a, const void *b, void *arg)
{
	const struct site *x = a, *y = b;
	const struct prof_model *m = arg;
	int r;

	if (x->ns != y->ns)
		return (x->ns < y->ns) - (x->ns > y->ns);
	r = strcmp(prof_model_str(m, x->name), prof_model_str(m, y->name));
	if (r == 0)
		r = strcmp(prof_model_str(m, x->path), prof_model_str(m, y->path));
	/* Sites without a name have one entry for each cause. */
	return r ? r : strcmp(prof_model_str(m, x->where), prof_model_str(m, y->where));
}

static size_t copy_sites(struct report *rep, struct pfa_offcpu_site *ret, size_t max)
{
	const struct prof_model *m = rep->m;
	size_t n = MIN_OF(rep->sites.n, max);

	vec_each (pair, &rep->pairs) {
		struct site *p = &rep->sites.p[pair->site];

		if (p->where_cnt++ == 0 || pair->ns > p->most_ns) {
			p->where = pair->where;
			p->most_ns = pair->ns;
		}
	}
	/* The const goes into a call-back that takes it back as const. */
	if (rep->sites.n)
		qsort_r(rep->sites.p, rep->sites.n, sizeof(*rep->sites.p), cmp_sites,
		        (void *)(uintptr_t)m);
	for (size_t i = 0; i < n; i++) {
		const struct site *p = &rep->sites.p[i];

		ret[i] = (struct pfa_offcpu_site){.name = prof_model_str(m, p->name),
		                                  .module = prof_model_str(m, p->path),
		                                  .where = prof_model_str(m, p->where),
		                                  .where_cnt = p->where_cnt,
		                                  .unnamed_cnt = p->unnamed_cnt,
		                                  .offcpu_ns = (uint64_t)p->ns,
		                                  .intervals = (uint64_t)p->waits,
		                                  .longest_ns = (uint64_t)p->longest_ns};
	}
	return n;
}

int result_sites(const struct prof_model *m, struct pfa_offcpu_site *ret, size_t max)
{
	struct report rep = {.m = m,
	                     .key_state = intern_find(m->strings, "state", strlen("state")),
	                     .key_longest = intern_find(m->strings, "longest", strlen("longest"))};
	struct intern **const keys[] = {&rep.site_keys, &rep.pair_keys, &rep.unnamed_keys};
	int r = 0;

	/* At most one of each for a sample. */
	rep.sites.max = rep.pairs.max = PROF_SAMPLES_MAX;
	for (size_t i = 0; i < ARRAY_SIZE(keys) && r == 0; i++)
		r = intern_new(PROF_SAMPLES_MAX, PROF_KEY_BYTES_MAX, keys[i]);
	for (size_t i = 0; i < m->samples.n && r == 0; i++)
		r = add_wait(&rep, &m->samples.p[i]);
	if (r == 0)
		r = (int)copy_sites(&rep, ret, max); /* fits: see above */
	report_done(&rep);
	return r;
}
