/* SPDX-License-Identifier: Apache-2.0 */
/* Values by process, thread, module, source file, line or any label. */
#include <inttypes.h>

#include "report/rep_priv.h"

#define KEYS_MAX       16777216U
#define KEY_BYTES_MAX  ((size_t)1 << 30)
#define LABELS_LISTED  20
#define TEXT_BYTES_MAX ((size_t)1 << 20)

/* Columns of keys of samples: all of a sample has one key. */
static const struct rep_column sample_columns[] = {
        {"value", "value", REP_VALUE},
        {"value_pct", "share", REP_SHARE},
        {"name", NULL, REP_NAME}, /* its title is that of the view */
        {"samples", NULL, REP_COUNT},
};
/* Columns of keys of frames: a sample has a key for each of its frames. */
static const struct rep_column frame_columns[] = {
        {"self", "self", REP_VALUE},      {"self_pct", "self %", REP_SHARE},
        {"cum", "cum", REP_VALUE},        {"cum_pct", "cum %", REP_SHARE},
        {"name", NULL, REP_NAME},         {"self_samples", NULL, REP_COUNT},
        {"cum_samples", NULL, REP_COUNT},
};

enum key_kind {
	BY_PROCESS,
	BY_THREAD,
	BY_LABEL, /* those before and this are of samples */
	BY_MODULE,
	BY_FILE,
	BY_LINE,
};

struct sum {
	int64_t self, cum, self_cnt, cum_cnt;
	size_t seen; /* number + 1 of the last sample that had it */
	uint32_t id;
};

struct by {
	struct rep_view *v;
	enum key_kind kind;
	uint32_t label, pid, tid, comm; /* strings of keys; INTERN_NONE: no sample has it */
	struct intern *keys;            /* texts */
	VEC(struct sum) sums;           /* by id of keys */
	struct intern *pids;            /* int64_t */
	VEC(uint32_t) names;            /* by id of pids: string */
	struct sbuf text;
};

static void by_done(struct by *b)
{
	b->keys = intern_free(b->keys);
	b->pids = intern_free(b->pids);
	vec_done(&b->sums);
	vec_done(&b->names);
	sbuf_done(&b->text);
}

static const struct prof_label *label_of(const struct by *b, const struct prof_sample *s,
                                         uint32_t key)
{
	const struct prof_model *m = b->v->m;

	for (uint32_t i = 0; i < s->label_cnt; i++)
		if (m->labels.p[s->label_first + i].key == key)
			return &m->labels.p[s->label_first + i];
	return NULL;
}

static int64_t number_of(const struct by *b, const struct prof_sample *s, uint32_t key)
{
	const struct prof_label *l = label_of(b, s, key);

	return l ? l->num : 0;
}

/* A process has the name of its main thread, else of any. */
static int name_process(struct by *b, const struct prof_sample *s)
{
	const struct prof_label *comm = label_of(b, s, b->comm);
	const int64_t pid = number_of(b, s, b->pid);
	uint32_t id;
	bool is_new;
	int r = intern_add(b->pids, &pid, sizeof(pid), &id, &is_new);

	if (r == 0 && is_new)
		r = vec_push(&b->names, 0);
	if (r == 0 && comm && (!b->names.p[id] || number_of(b, s, b->tid) == pid))
		b->names.p[id] = comm->str;
	return r;
}

/* ---- the keys of a sample -------------------------------------------------------------------- */

static void put_process(struct by *b, const struct prof_sample *s)
{
	const int64_t pid = number_of(b, s, b->pid);
	const uint32_t id = intern_find(b->pids, &pid, sizeof(pid));

	(void)sbuf_addf(&b->text, "%s (%" PRId64 ")", /* failures stick in .err */
	                prof_model_str(b->v->m, b->names.p[id]), pid);
}

static void put_thread(struct by *b, const struct prof_sample *s)
{
	const struct prof_label *comm = label_of(b, s, b->comm);

	(void)sbuf_addf(&b->text, "%s (%" PRId64 "/%" PRId64 ")",
	                prof_model_str(b->v->m, comm ? comm->str : 0), number_of(b, s, b->pid),
	                number_of(b, s, b->tid));
}

static void put_label(struct by *b, const struct prof_sample *s)
{
	const struct prof_label *l = label_of(b, s, b->label);

	if (!l)
		(void)sbuf_str(&b->text, "[none]");
	else if (l->str)
		(void)sbuf_str(&b->text, prof_model_str(b->v->m, l->str));
	else
		(void)sbuf_addf(&b->text, "%" PRId64 "%s%s", l->num, l->unit ? " " : "",
		                prof_model_str(b->v->m, l->unit));
}

static void put_frame(struct by *b, const struct prof_location *loc, const struct prof_line *l)
{
	const struct prof_model *m = b->v->m;
	const struct prof_function *fn = l && l->function ? &m->functions.p[l->function - 1] : NULL;
	const char *path = prof_model_str(m, rep_location_path(m, loc));
	const char *file = fn ? prof_model_str(m, fn->file) : "";

	if (b->kind == BY_MODULE)
		(void)sbuf_str(&b->text, *path ? path : "[unknown]");
	else if (!*file)
		(void)sbuf_addf(&b->text, "[no file] %s", str_base_name(path));
	else if (b->kind == BY_LINE && l->line)
		(void)sbuf_addf(&b->text, "%s:%" PRId64, file, l->line);
	else
		(void)sbuf_str(&b->text, file);
}

static int add(struct by *b, size_t sample, bool leaf)
{
	const struct rep_view *v = b->v;
	const struct prof_sample *s = &v->m->samples.p[sample];
	const int64_t value = s->value[v->type_idx],
	              count = v->count_idx < v->m->n_types ? s->value[v->count_idx] : 0;
	struct sum *sum;
	uint32_t id = 0;
	bool is_new = false;
	int r = b->text.err ? b->text.err
	                    : intern_add(b->keys, b->text.p ? b->text.p : "", b->text.len, &id,
	                                 &is_new);

	if (r == 0 && is_new)
		r = vec_push(&b->sums, (struct sum){.id = id});
	sbuf_reset(&b->text);
	if (r < 0)
		return r;
	sum = &b->sums.p[id];
	if (leaf) {
		sum->self = prof_sat_add(sum->self, value);
		sum->self_cnt = prof_sat_add(sum->self_cnt, count);
	}
	if (sum->seen != sample + 1) {
		sum->cum = prof_sat_add(sum->cum, value);
		sum->cum_cnt = prof_sat_add(sum->cum_cnt, count);
	}
	sum->seen = sample + 1;
	return 0;
}

static int add_frames(struct by *b, size_t sample)
{
	const struct prof_model *m = b->v->m;
	const struct prof_sample *s = &m->samples.p[sample];
	int r = 0;

	for (uint32_t i = 0; i < s->loc_cnt && r == 0; i++) {
		const struct prof_location *loc =
		        &m->locations.p[m->loc_ids.p[s->loc_first + i] - 1];

		for (uint32_t k = 0; k < MAX_OF(loc->line_cnt, 1U) && r == 0; k++) {
			put_frame(b, loc, loc->line_cnt ? &m->lines.p[loc->line_first + k] : NULL);
			r = add(b, sample, i == 0 && k == 0);
		}
	}
	return r;
}

static int add_sample(struct by *b, size_t sample)
{
	const struct prof_sample *s = &b->v->m->samples.p[sample];

	if (b->kind > BY_LABEL)
		return add_frames(b, sample);
	if (b->kind == BY_PROCESS)
		put_process(b, s);
	else if (b->kind == BY_THREAD)
		put_thread(b, s);
	else
		put_label(b, s);
	return add(b, sample, true);
}

/* ---- the table ------------------------------------------------------------------------------- */

static int compare(const void *a, const void *b, void *arg)
{
	const struct sum *x = a, *y = b;
	const struct by *by = arg;
	const bool cum = by->v->doc->o->by_cum;
	const int64_t first_x = cum ? x->cum : x->self, first_y = cum ? y->cum : y->self;

	if (first_x != first_y)
		return rep_larger(first_x, first_y);
	if (x->cum != y->cum)
		return rep_larger(x->cum, y->cum);
	return strcmp(intern_get(by->keys, x->id, NULL), intern_get(by->keys, y->id, NULL));
}

static int add_row(struct by *b, struct rep_table *t, const struct sum *s)
{
	const int64_t total = b->v->section->whole;
	const char *name =
	        rep_doc_text(b->v->doc, "%s", (const char *)intern_get(b->keys, s->id, NULL));
	const struct rep_cell of_frames[] = {
	        {.num = s->self},    {.real = rep_share(s->self, total)},
	        {.num = s->cum},     {.real = rep_share(s->cum, total)},
	        {.text = name},      {.num = s->self_cnt},
	        {.num = s->cum_cnt},
	};
	const struct rep_cell of_samples[] = {{.num = s->self},
	                                      {.real = rep_share(s->self, total)},
	                                      {.text = name},
	                                      {.num = s->self_cnt}};

	_Static_assert(ARRAY_SIZE(of_frames) == ARRAY_SIZE(frame_columns), "a cell a column");
	_Static_assert(ARRAY_SIZE(of_samples) == ARRAY_SIZE(sample_columns), "a cell a column");
	if (!name)
		return -ENOMEM;
	return rep_table_row(t, b->kind > BY_LABEL ? of_frames : of_samples);
}

static int add_table(struct by *b)
{
	const struct rep_options *o = b->v->doc->o;
	const bool frames = b->kind > BY_LABEL;
	const size_t n = frames ? ARRAY_SIZE(frame_columns) : ARRAY_SIZE(sample_columns);
	struct rep_column *columns = arena_alloc(&b->v->doc->mem, n * sizeof(*columns));
	struct rep_table *t;
	int r = 0;

	if (!columns)
		return -ENOMEM;
	memcpy(columns, frames ? frame_columns : sample_columns, n * sizeof(*columns));
	for (size_t i = 0; i < n; i++)
		if (columns[i].kind == REP_NAME)
			columns[i].title = o->subject;
	t = rep_doc_table(b->v->section, frames ? "frames" : "samples", NULL, columns, n);
	if (!t)
		return -ENOMEM;
	qsort_r(b->sums.p, b->sums.n, sizeof(*b->sums.p), compare, b);
	for (size_t i = 0; i < b->sums.n && (!o->max_rows || i < o->max_rows) && r == 0; i++)
		r = add_row(b, t, &b->sums.p[i]);
	if (r == 0 && o->max_rows && b->sums.n > o->max_rows) {
		t->rest = rep_doc_text(b->v->doc, "and %zu more", b->sums.n - o->max_rows);
		r = t->rest ? 0 : -ENOMEM;
	}
	return r;
}

/* The message lists the labels that there are. */
static int no_label(const struct by *b, struct err *err)
{
	const struct prof_model *m = b->v->m;
	_cleanup_(sbuf_done) struct sbuf list;
	uint32_t seen[LABELS_LISTED];
	size_t n = 0;

	sbuf_init(&list, 400);
	for (size_t i = 0; i < m->labels.n && n < LABELS_LISTED; i++) {
		size_t k = 0;

		while (k < n && seen[k] != m->labels.p[i].key)
			k++;
		if (k < n)
			continue;
		seen[n++] = m->labels.p[i].key;
		(void)sbuf_addf(&list, "%s%s", n > 1 ? ", " : "", /* a longer list loses its end */
		                prof_model_str(m, m->labels.p[i].key));
	}
	return err_set(err, -ENOENT, "%s has no label '%.80s'; its labels: %s",
	               b->v->group->first->name, b->v->doc->o->subject, list.p ? list.p : "none");
}

static int choose(struct by *b, struct err *err)
{
	static const struct {
		const char *name;
		enum key_kind kind;
	} kinds[] = {{"process", BY_PROCESS},
	             {"thread", BY_THREAD},
	             {"module", BY_MODULE},
	             {"file", BY_FILE},
	             {"line", BY_LINE}};
	const struct prof_model *m = b->v->m;
	const char *by = b->v->doc->o->subject;

	b->pid = intern_find(m->strings, "pid", 3);
	b->tid = intern_find(m->strings, "tid", 3);
	b->comm = intern_find(m->strings, "comm", 4);
	b->kind = BY_LABEL;
	for (size_t i = 0; i < ARRAY_SIZE(kinds); i++)
		if (strcmp(by, kinds[i].name) == 0)
			b->kind = kinds[i].kind;
	if (b->kind > BY_LABEL)
		return 0;
	/* Any profile has processes in its own way; perf-agent's are by the label pid. */
	b->label = b->kind != BY_LABEL ? b->pid : intern_find(m->strings, by, strlen(by));
	for (size_t i = 0; i < m->labels.n; i++)
		if (m->labels.p[i].key == b->label)
			return 0;
	return no_label(b, err);
}

int rep_view_by(struct rep_view *v, struct err *err)
{
	_cleanup_(by_done) struct by b = {.v = v, .sums.max = KEYS_MAX, .names.max = KEYS_MAX};
	int r = choose(&b, err);

	sbuf_init(&b.text, TEXT_BYTES_MAX);
	if (r == 0)
		r = intern_new(KEYS_MAX, KEY_BYTES_MAX, &b.keys);
	if (r == 0)
		r = intern_new(KEYS_MAX, KEY_BYTES_MAX, &b.pids);
	for (size_t i = 0; i < v->m->samples.n && r == 0 && b.kind == BY_PROCESS; i++)
		r = name_process(&b, &v->m->samples.p[i]);
	for (size_t i = 0; i < v->m->samples.n && r == 0; i++) {
		r = add_sample(&b, i);
		rep_section_add(v, &v->m->samples.p[i]);
	}
	return r < 0 ? r : add_table(&b);
}
