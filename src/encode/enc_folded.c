/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One line per stack, root first: "main;serve;read_[k] 42".
 * Source: the format of stackcollapse-perf.pl and flamegraph.pl.
 */
#include "encode/encode_priv.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define LINES_MAX      PROF_SAMPLES_MAX
#define LINE_BYTES_MAX ((size_t)1 << 30) /* of all lines */

struct folded {
	const struct prof_model *m;
	const struct enc_folded_options *o;
	uint32_t key_pid, key_tid, key_comm; /* strings; 0: no sample has it */
	struct intern *pids;                 /* int64_t */
	VEC(uint32_t) names;                 /* by id of pids: string */
	VEC(bool) leads;      /* by id of pids: the name is that of the main thread */
	struct intern *lines; /* without their value */
	VEC(int64_t) values;  /* by id of lines */
	struct sbuf line;
};

static void folded_done(struct folded *f)
{
	f->pids = intern_free(f->pids);
	f->lines = intern_free(f->lines);
	vec_done(&f->names);
	vec_done(&f->leads);
	vec_done(&f->values);
	sbuf_done(&f->line);
}

/* A semicolon ends a frame and a newline the line: neither can be in a name. */
static void put_name(struct sbuf *b, const char *name)
{
	const uint8_t *s = (const uint8_t *)name, *from = s, *end = s + strlen(name);

	while (s < end) {
		size_t n = utf8_len(s, (size_t)(end - s));
		const bool bad = !n || utf8_is_control(s, n);
		const char *instead = *s == ';' ? ":" : bad ? "?" : NULL;

		if (instead) {
			(void)sbuf_add(b, from, (size_t)(s - from));
			(void)sbuf_str(b, instead);
			from = s + MAX_OF(n, (size_t)1);
		}
		s += MAX_OF(n, (size_t)1);
	}
	(void)sbuf_add(b, from, (size_t)(end - from));
}

static const struct prof_label *label_of(const struct folded *f, const struct prof_sample *s,
                                         uint32_t key)
{
	for (uint32_t i = 0; key && i < s->label_cnt; i++)
		if (f->m->labels.p[s->label_first + i].key == key)
			return &f->m->labels.p[s->label_first + i];
	return NULL;
}

static int64_t number_of(const struct folded *f, const struct prof_sample *s, uint32_t key)
{
	const struct prof_label *l = label_of(f, s, key);

	return l ? l->num : 0;
}

static uint32_t string_of(const struct prof_model *m, const char *s)
{
	uint32_t id = intern_find(m->strings, s, strlen(s));

	return id == INTERN_NONE ? 0 : id;
}

/* Names of processes: that of the main thread, or of whichever thread comes first. */
static int name_processes(struct folded *f)
{
	vec_each (s, &f->m->samples) {
		const struct prof_label *comm = label_of(f, s, f->key_comm);
		int64_t pid = number_of(f, s, f->key_pid);
		bool lead = number_of(f, s, f->key_tid) == pid, is_new;
		uint32_t id;
		int r = intern_add(f->pids, &pid, sizeof(pid), &id, &is_new);

		if (r == 0 && is_new)
			r = vec_push(&f->names, 0);
		if (r == 0 && is_new)
			r = vec_push(&f->leads, false);
		if (r < 0)
			return r;
		if (comm && (!f->names.p[id] || (lead && !f->leads.p[id]))) {
			f->names.p[id] = comm->str;
			f->leads.p[id] = lead;
		}
	}
	return 0;
}

static void put_root(struct folded *f, const struct prof_sample *s)
{
	const struct prof_label *comm = label_of(f, s, f->key_comm);
	int64_t pid = number_of(f, s, f->key_pid), tid = number_of(f, s, f->key_tid);
	uint32_t name = comm ? comm->str : 0;

	if (f->o->root == ENC_FOLDED_PROCESS) {
		uint32_t id = intern_find(f->pids, &pid, sizeof(pid));

		assert(id != INTERN_NONE);
		name = f->names.p[id];
	}
	put_name(&f->line, prof_model_str(f->m, name));
	(void)sbuf_addf(&f->line, "-%" PRId64, pid);
	if (f->o->root == ENC_FOLDED_THREAD)
		(void)sbuf_addf(&f->line, "/%" PRId64, tid);
}

/* A location without a function: the file and the offset in it. */
static void put_address(struct folded *f, const struct prof_location *l)
{
	const struct prof_mapping *m = l->mapping ? &f->m->mappings.p[l->mapping - 1] : NULL;

	/* "[kernel]" and "[jit]" are no files: an offset in them says nothing. */
	if (!m || !m->path || *prof_model_str(f->m, m->path) == '[') {
		(void)sbuf_addf(&f->line, "0x%" PRIx64, l->address);
		return;
	}
	put_name(&f->line, str_base_name(prof_model_str(f->m, m->path)));
	(void)sbuf_addf(&f->line, "+0x%" PRIx64, l->address - m->start + m->offset);
}

/* A function without a name: "[libfoo.so]", as reports have it. An empty frame would not be read. */
static void put_function(struct folded *f, const char *name, const char *path)
{
	if (name[strspn(name, " ")]) {
		put_name(&f->line, name);
		return;
	}
	if (!*path || *path == '[') {
		(void)sbuf_str(&f->line, *path ? path : "[unknown]");
		return;
	}
	(void)sbuf_char(&f->line, '[');
	put_name(&f->line, str_base_name(path));
	(void)sbuf_char(&f->line, ']');
}

static void put_location(struct folded *f, const struct prof_location *l)
{
	const char *path =
	        l->mapping ? prof_model_str(f->m, f->m->mappings.p[l->mapping - 1].path) : "";
	const char *suffix = strcmp(path, "[kernel]") == 0 ? "_[k]" : "";
	bool named = false;

	for (uint32_t i = l->line_cnt; i-- > 0;) {
		uint32_t fn = f->m->lines.p[l->line_first + i].function;

		if (!fn)
			continue;
		named = true;
		if (f->line.len)
			(void)sbuf_char(&f->line, ';');
		put_function(f, prof_model_str(f->m, f->m->functions.p[fn - 1].name), path);
		(void)sbuf_str(&f->line, suffix);
	}
	if (named)
		return;
	if (f->line.len)
		(void)sbuf_char(&f->line, ';');
	put_address(f, l);
	(void)sbuf_str(&f->line, suffix);
}

static int add_sample(struct folded *f, const struct prof_sample *s)
{
	uint32_t id;
	bool is_new;
	int r;

	sbuf_reset(&f->line);
	if (f->o->root != ENC_FOLDED_NO_ROOT)
		put_root(f, s);
	for (uint32_t i = s->loc_cnt; i-- > 0;)
		put_location(f, &f->m->locations.p[f->m->loc_ids.p[s->loc_first + i] - 1]);
	if (!f->line.len)
		(void)sbuf_str(&f->line, "[no stack]");
	if (f->line.err)
		return f->line.err;
	r = intern_add(f->lines, f->line.p, f->line.len, &id, &is_new);
	if (r == 0 && is_new)
		r = vec_push(&f->values, 0);
	if (r == 0 &&
	    __builtin_add_overflow(f->values.p[id], s->value[f->o->type_idx], &f->values.p[id]))
		f->values.p[id] = INT64_MAX;
	return r;
}

static int by_text(const void *a, const void *b, void *arg)
{
	const struct folded *f = arg;

	return strcmp(intern_get(f->lines, *(const uint32_t *)a, NULL),
	              intern_get(f->lines, *(const uint32_t *)b, NULL));
}

static int write_lines(struct folded *f, struct sbuf *out)
{
	uint32_t n = intern_count(f->lines);
	_cleanup_free_ uint32_t *order = malloc(MAX_OF(n, 1U) * sizeof(*order));
	const int64_t unit = f->o->divisor ? f->o->divisor : 1;

	if (!order)
		return -ENOMEM;
	for (uint32_t i = 0; i < n; i++)
		order[i] = i;
	qsort_r(order, n, sizeof(*order), by_text, f);
	for (uint32_t i = 0; i < n; i++) {
		/* A stack of less than half a unit is one all the same: no line may vanish. */
		int64_t v = (f->values.p[order[i]] + unit / 2) / unit;

		if (f->values.p[order[i]] <= 0)
			continue;
		(void)sbuf_addf(out, "%s %" PRId64 "\n",
		                (const char *)intern_get(f->lines, order[i], NULL), MAX_OF(v, 1));
	}
	return out->err;
}

int enc_folded(const struct prof_model *m, const struct enc_folded_options *o, struct sbuf *out)
{
	_cleanup_(folded_done) struct folded f = {.m = m, .o = o};
	size_t before = out->len;
	int r;

	if (out->err)
		return out->err;
	f.names.max = f.leads.max = f.values.max = LINES_MAX;
	sbuf_init(&f.line, LINE_BYTES_MAX);
	f.key_pid = string_of(m, "pid");
	f.key_tid = string_of(m, "tid");
	f.key_comm = string_of(m, "comm");
	r = intern_new(LINES_MAX, LINE_BYTES_MAX, &f.lines);
	if (r == 0)
		r = intern_new(LINES_MAX, LINE_BYTES_MAX, &f.pids);
	if (r == 0 && o->root == ENC_FOLDED_PROCESS)
		r = name_processes(&f);
	for (size_t i = 0; i < m->samples.n && r == 0; i++)
		r = add_sample(&f, &m->samples.p[i]);
	if (r == 0)
		r = write_lines(&f, out);
	if (r < 0) {
		out->len = before;
		if (out->p)
			out->p[before] = 0;
		out->err = r;
	}
	return r;
}
