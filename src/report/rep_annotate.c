/* SPDX-License-Identifier: Apache-2.0 */
/* Functions with their values next to source lines, as `go tool pprof -list` has them, and next to
 * instructions. */
#include <inttypes.h>

#include "report/rep_priv.h"

#define FUNCTIONS_SHOWN 3
#define LISTINGS_SHOWN  4    /* of a function: one that is inlined is in many symbols */
#define CONTEXT         5    /* lines before and after a line with a value */
#define STRETCH_MAX     100  /* lines in a row without values; longer stretches lose their middle */
#define TEXT_BYTES_MAX  4096 /* of a line */
#define VALUE_BYTES_MAX 64

static const struct rep_column source_columns[] = {
        {"self", "self", REP_WEIGHT},
        {"cum", "cum", REP_WEIGHT},
        {"line", "line", REP_LINE},
        {"text", "source", REP_CODE},
};
static const struct rep_column instruction_columns[] = {
        {"self", "self", REP_WEIGHT},      {"cum", "cum", REP_WEIGHT},
        {"line", "line", REP_LINE},        {"address", "address", REP_ADDRESS},
        {"text", "instruction", REP_CODE},
};

/* A listing that is being written. */
struct listing {
	struct rep_view *v;
	struct rep_table *t;
	const char *name;
	int64_t skipped; /* lines since the last row */
	size_t left;     /* listings of this kind that may be shown */
	size_t more;     /* listings that were not shown, and their self value */
	int64_t more_self;
};

static int add_row(struct listing *l, int64_t line, uint64_t addr, const char *text, size_t len,
                   int64_t self, int64_t cum)
{
	const bool source = l->t->columns == source_columns;
	const char *copy = arena_strndup(&l->v->doc->mem, text, MIN_OF(len, TEXT_BYTES_MAX));
	const struct rep_cell of_source[] = {
	        {.num = self}, {.num = cum}, {.num = line}, {.text = copy}};
	const struct rep_cell of_code[] = {
	        {.num = self}, {.num = cum}, {.num = line}, {.num = (int64_t)addr}, {.text = copy}};

	_Static_assert(ARRAY_SIZE(of_source) == ARRAY_SIZE(source_columns), "a cell a column");
	_Static_assert(ARRAY_SIZE(of_code) == ARRAY_SIZE(instruction_columns), "a cell a column");
	return copy ? rep_table_row(l->t, source ? of_source : of_code) : -ENOMEM;
}

/* Returns whether number @at is in the middle of a long stretch from @last to @next, which are
 * shown. */
static bool is_far(int64_t last, int64_t at, int64_t next)
{
	return next - last > STRETCH_MAX && at - last > CONTEXT && next - at > CONTEXT;
}

/* Ends a stretch of lines that are left out; in JSON, their numbers say so. */
static int end_stretch(struct listing *l)
{
	const char *text;
	int r = 0;

	if (l->skipped && l->v->doc->o->format != REP_JSON) {
		text = rep_doc_text(l->v->doc, "\xe2\x80\xa6 %" PRId64 " lines without values",
		                    l->skipped);
		r = text ? add_row(l, 0, 0, text, strlen(text), 0, 0) : -ENOMEM;
	}
	l->skipped = 0;
	return r;
}

static int begin(struct listing *l, bool source, const char *file)
{
	l->t = source ? rep_doc_table(l->v->section, "source", "source of", source_columns,
	                              ARRAY_SIZE(source_columns))
	              : rep_doc_table(l->v->section, "instructions", "instructions of",
	                              instruction_columns, ARRAY_SIZE(instruction_columns));
	if (!l->t)
		return -ENOMEM;
	l->t->subject = l->name;
	l->t->file = file;
	l->skipped = 0;
	return 0;
}

/* Adds to the note of a listing. Returns 0, -ENOMEM. */
static int add_note(struct listing *l, const char *text)
{
	l->t->note = l->t->note ? rep_doc_text(l->v->doc, "%s; %s", l->t->note, text)
	                        : rep_doc_text(l->v->doc, "%s", text);
	return l->t->note ? 0 : -ENOMEM;
}

/* Returns whether one more listing is shown; else counts it. */
static bool is_shown(struct listing *l, int64_t self)
{
	if (l->left) {
		l->left--;
		return true;
	}
	l->more++;
	l->more_self = prof_sat_add(l->more_self, self);
	return false;
}

/* Says after the last listing what was not shown. */
static int end_listings(struct listing *l, const char *what)
{
	_cleanup_(sbuf_done) struct sbuf b;

	sbuf_init(&b, VALUE_BYTES_MAX);
	if (!l->more)
		return 0;
	rep_put_value(&b, l->more_self, l->v->section->unit);
	l->t->rest = b.err ? NULL
	                   : rep_doc_text(l->v->doc, "and %zu more %s, with self %s", l->more, what,
	                                  b.p);
	return l->t->rest ? 0 : -ENOMEM;
}

/* A failure of the reader is shown in the listing, except for a lack of memory. */
static int add_failure(struct listing *l, int r, const struct err *err)
{
	if (r == -ENOMEM)
		return r;
	return add_note(l, err->msg[0] ? err->msg : err_name(r));
}

/* ---- source ---------------------------------------------------------------------------------- */

/* The values of one file: sums[n], by line. */
struct source {
	const struct rep_line_sum *sums;
	size_t n;
	int64_t from, to; /* lines that are shown */
	int64_t self, cum;
};

/* The first line of the function is the first one that is shown, if the profile has it. */
static void set_range(const struct prof_model *m, uint32_t name, struct source *s)
{
	const int64_t first = s->sums[s->n > 1 && !s->sums[0].line].line;

	s->from = MAX_OF(first - CONTEXT, (int64_t)1);
	for (size_t i = 0; i < m->functions.n; i++) {
		const struct prof_function *fn = &m->functions.p[i];

		if (fn->name == name && fn->file == s->sums[0].file && fn->start_line > 0 &&
		    fn->start_line <= first)
			s->from = fn->start_line;
	}
	if (__builtin_add_overflow(s->sums[s->n - 1].line, (int64_t)CONTEXT, &s->to))
		s->to = INT64_MAX;
}

static int add_sum(struct listing *l, const struct rep_line_sum *s, const char *text, size_t len)
{
	const int r = end_stretch(l);

	return r < 0 ? r : add_row(l, s->line, 0, text, len, s->self, s->cum);
}

/* Adds the lines of the file; *@ret_i: values that have a line in it. */
static int add_lines(struct listing *l, const struct source *s, const struct ev_source *text,
                     size_t *ret_i)
{
	struct cursor c = cursor_of(text->text, text->len);
	int64_t last = s->from;
	const char *line;
	size_t i = *ret_i, len;
	int r = 0;

	for (int64_t at = 1; at <= s->to && r == 0 && cursor_line(&c, &line, &len) == 0; at++) {
		if (i < s->n && s->sums[i].line == at) {
			r = add_sum(l, &s->sums[i++], line, len);
			last = at;
		} else if (at < s->from) {
			continue;
		} else if (is_far(last, at, i < s->n ? s->sums[i].line : INT64_MAX)) {
			l->skipped++;
		} else {
			r = end_stretch(l);
			if (r == 0)
				r = add_row(l, at, 0, line, len, 0, 0);
		}
	}
	*ret_i = i;
	return r;
}

static int add_source(struct listing *l, const struct source *s)
{
	const struct prof_model *m = l->v->m;
	const struct rep_reader *reader = l->v->doc->o->reader;
	const char *path = prof_model_str(m, s->sums[0].file);
	struct ev_source text = {0};
	struct err err = {0};
	size_t i = 0;
	int r = begin(l, true, path);

	if (r < 0)
		return r;
	if (!*path)
		r = add_note(l, "the profile has no source file of this function");
	else if (!s->sums[s->n - 1].line)
		r = add_note(l, "the profile has no lines of this function");
	else
		r = reader->source(reader->arg, path, &text, &err);
	if (r < 0)
		r = add_failure(l, r, &err);
	/* Line 0: the profile does not know it. */
	if (r == 0 && !s->sums[0].line)
		r = add_sum(l, &s->sums[i++], "(line not known)", strlen("(line not known)"));
	if (r == 0 && text.text) {
		l->t->read = rep_doc_text(l->v->doc, "%s", text.path);
		r = l->t->read ? add_lines(l, s, &text, &i) : -ENOMEM;
		if (r == 0 && i < s->n)
			r = add_note(l, "the file is shorter than the profile says: it is another "
			                "version");
		if (r == 0 && m->time_realtime_ns > 0 &&
		    text.changed_realtime_ns > prof_sat_add(m->time_realtime_ns, m->duration_ns))
			r = add_note(l, "the file was changed after the profile was taken");
	}
	for (; i < s->n && r == 0; i++)
		r = add_sum(l, &s->sums[i], "", 0);
	return r;
}

static int compare_sources(const void *a, const void *b)
{
	const struct source *x = a, *y = b;

	if (x->self != y->self)
		return rep_larger(x->self, y->self);
	return x->cum != y->cum ? rep_larger(x->cum, y->cum)
	                        : (x->sums > y->sums) - (x->sums < y->sums);
}

/* Adds a listing for each source file, that with the most self value first. */
static int add_sources(struct listing *l, uint32_t name, const struct rep_sites *sites)
{
	_cleanup_free_ struct source *v = calloc(sites->lines.n + 1, sizeof(*v));
	size_t n = 0;
	int r = 0;

	if (!v)
		return -ENOMEM;
	for (size_t i = 0; i < sites->lines.n; i++) {
		const struct rep_line_sum *sum = &sites->lines.p[i];

		if (n == 0 || v[n - 1].sums->file != sum->file)
			v[n++].sums = sum;
		v[n - 1].n++;
		v[n - 1].self = prof_sat_add(v[n - 1].self, sum->self);
		v[n - 1].cum = prof_sat_add(v[n - 1].cum, sum->cum);
	}
	qsort(v, n, sizeof(*v), compare_sources);
	l->left = LISTINGS_SHOWN;
	for (size_t i = 0; i < n && r == 0; i++) {
		if (!is_shown(l, v[i].self))
			continue;
		set_range(l->v->m, name, &v[i]);
		r = add_source(l, &v[i]);
	}
	return r < 0 ? r : end_listings(l, "source files");
}

/* ---- instructions ---------------------------------------------------------------------------- */

/* An address with a value, and its site in the file. */
struct spot {
	const struct rep_address_sum *sum;
	struct ev_site site;
};
/* The addresses of one symbol: spots[n], ascending. */
struct piece {
	const struct spot *spots;
	size_t n;
	int64_t self, cum;
};

static int compare_spots(const void *a, const void *b)
{
	const struct spot *x = a, *y = b;

	if (x->site.start != y->site.start)
		return x->site.start < y->site.start ? -1 : 1;
	if (x->site.addr != y->site.addr)
		return x->site.addr < y->site.addr ? -1 : 1;
	return (x->sum > y->sum) - (x->sum < y->sum);
}

static int compare_pieces(const void *a, const void *b)
{
	const struct piece *x = a, *y = b;

	if (x->self != y->self)
		return rep_larger(x->self, y->self);
	return x->cum != y->cum ? rep_larger(x->cum, y->cum)
	                        : (x->spots > y->spots) - (x->spots < y->spots);
}

/* Adds rows for addresses without instructions. */
static int add_bare(struct listing *l, const struct spot *spots, size_t n)
{
	int r = 0;

	for (size_t i = 0; i < n && r == 0; i++)
		r = add_row(l, spots[i].sum->line,
		            spots[i].site.addr ? spots[i].site.addr : spots[i].sum->off, "", 0,
		            spots[i].sum->self, spots[i].sum->cum);
	return r;
}

/* An instruction has the values of all addresses in it: a caller's is inside its call. */
static int add_instructions(struct listing *l, const struct piece *p,
                            const struct ev_instruction *code, size_t n)
{
	size_t k = 0;
	int64_t last = 0;
	int r = 0;

	for (size_t i = 0, next = 0; i < n && r == 0; i++) {
		const uint64_t end = i + 1 < n ? code[i + 1].addr : UINT64_MAX;
		int64_t self = 0, cum = 0, line = 0;
		bool has = false;

		for (; k < p->n && p->spots[k].site.addr < end; k++) {
			self = prof_sat_add(self, p->spots[k].sum->self);
			cum = prof_sat_add(cum, p->spots[k].sum->cum);
			line = has ? line : p->spots[k].sum->line;
			has = true;
		}
		/* The next instruction with a value: the one before the first that begins after. */
		if (next <= i)
			next = k < p->n ? bisect_first(j, i + 1, n,
			                               code[j].addr > p->spots[k].site.addr) -
			                          1
			                : n - 1;
		if (has)
			last = (int64_t)i;
		if (!has && is_far(last, (int64_t)i, (int64_t)next)) {
			l->skipped++;
			continue;
		}
		r = end_stretch(l);
		if (r == 0)
			r = add_row(l, line, code[i].addr, code[i].text, strlen(code[i].text), self,
			            cum);
	}
	return r;
}

/* Adds a listing of one symbol of the file that the reader has open. */
static int add_piece(struct listing *l, const struct piece *p)
{
	const struct rep_reader *reader = l->v->doc->o->reader;
	const struct rep_address_sum *sum = p->spots->sum;
	const struct ev_site *site = &p->spots->site;
	const char *path = prof_model_str(l->v->m, sum->path);
	const struct ev_instruction *code;
	struct err err = {0};
	size_t n;
	int r = begin(l, false, path);

	if (r < 0)
		return r;
	l->t->read = path;
	if (!*prof_model_str(l->v->m, sum->build_id))
		r = add_note(l, "the profile has no build-id: the file may be another build");
	if (r == 0 && !site->end) {
		r = add_note(l, "no symbol has these addresses; give the folder of the debug file: "
		                "--debug-dir DIR");
		return r < 0 ? r : add_bare(l, p->spots, p->n);
	}
	if (r == 0 && site->symbol) {
		l->t->symbol = rep_doc_text(l->v->doc, "%s", site->symbol);
		r = l->t->symbol ? 0 : -ENOMEM;
	}
	if (r < 0)
		return r;
	r = reader->instructions(reader->arg, site->start, site->end, &code, &n, &err);
	if (r == 0)
		return add_instructions(l, p, code, n);
	r = add_failure(l, r, &err);
	return r < 0 ? r : add_bare(l, p->spots, p->n);
}

/* Adds the listings of spots[n] with sites. */
static int add_pieces(struct listing *l, struct spot *spots, size_t n)
{
	_cleanup_free_ struct piece *v = calloc(n, sizeof(*v));
	size_t pieces = 0;
	int r = 0;

	if (!v)
		return -ENOMEM;
	qsort(spots, n, sizeof(*spots), compare_spots);
	for (size_t i = 0; i < n; i++) {
		const struct ev_site *s = &spots[i].site, *last = i ? &spots[i - 1].site : NULL;

		if (!last || last->start != s->start || last->end != s->end)
			v[pieces++].spots = &spots[i];
		v[pieces - 1].n++;
		v[pieces - 1].self = prof_sat_add(v[pieces - 1].self, spots[i].sum->self);
		v[pieces - 1].cum = prof_sat_add(v[pieces - 1].cum, spots[i].sum->cum);
	}
	qsort(v, pieces, sizeof(*v), compare_pieces);
	for (size_t i = 0; i < pieces && r == 0; i++)
		if (is_shown(l, v[i].self))
			r = add_piece(l, &v[i]);
	return r;
}

/* Adds the listings of addresses sums[n], which are of one file. */
static int add_file(struct listing *l, const struct rep_address_sum *sums, size_t n)
{
	const struct rep_reader *reader = l->v->doc->o->reader;
	const char *path = prof_model_str(l->v->m, sums->path);
	_cleanup_free_ uint64_t *offs = calloc(n, sizeof(*offs));
	_cleanup_free_ struct ev_site *sites = calloc(n, sizeof(*sites));
	_cleanup_free_ struct spot *spots = calloc(n, sizeof(*spots));
	struct err err = {0};
	int r = 0;

	if (!offs || !sites || !spots)
		return -ENOMEM;
	for (size_t i = 0; i < n; i++)
		offs[i] = sums[i].off;
	if (sums->path)
		r = reader->sites(reader->arg, path, prof_model_str(l->v->m, sums->build_id), offs,
		                  n, sites, &err);
	for (size_t i = 0; i < n; i++)
		spots[i] = (struct spot){.sum = &sums[i], .site = sites[i]};
	if (r == 0 && sums->path)
		return add_pieces(l, spots, n);
	if (r == -ENOMEM)
		return r;
	r = begin(l, false, path);
	if (r == 0)
		r = add_note(l, sums->path ? err.msg
		                           : "the profile has no addresses of this function in a "
		                             "file");
	return r;
}

static int add_code(struct listing *l, const struct rep_sites *sites)
{
	int r = 0;

	l->left = LISTINGS_SHOWN;
	l->more = 0;
	l->more_self = 0;
	for (size_t i = 0, to; i < sites->addresses.n && r == 0; i = to) {
		const struct rep_address_sum *a = &sites->addresses.p[i];

		to = i + 1;
		while (to < sites->addresses.n && sites->addresses.p[to].path == a->path &&
		       sites->addresses.p[to].build_id == a->build_id)
			to++;
		r = add_file(l, a, to - i);
	}
	return r < 0 ? r : end_listings(l, "symbols that contain it");
}

/* ---- functions ------------------------------------------------------------------------------- */

static int annotate(struct rep_view *v, uint32_t name)
{
	_cleanup_(rep_sites_done) struct rep_sites sites = {0};
	struct listing l = {.v = v, .name = prof_model_str(v->m, name)};
	int r = rep_sites_of(v->m, v->type_idx, name, &sites);

	if (r == 0)
		r = add_sources(&l, name, &sites);
	return r < 0 ? r : add_code(&l, &sites);
}

/* Adds the table of the n selected functions, and says how many of them have no listing. */
static int add_functions(struct rep_view *v, const struct rep_fns *all, size_t n)
{
	struct rep_table *t;
	int r = rep_top_table(v, all, n);

	if (r < 0 || n <= FUNCTIONS_SHOWN)
		return r;
	t = &v->section->tables.p[v->section->tables.n - 1];
	t->rest = rep_doc_text(v->doc, "%s%sthe first %d are listed; a longer name selects others",
	                       t->rest ? t->rest : "", t->rest ? "; " : "", FUNCTIONS_SHOWN);
	return t->rest ? 0 : -ENOMEM;
}

int rep_view_annotate(struct rep_view *v, struct err *err)
{
	_cleanup_(rep_fns_done) struct rep_fns all = {0};
	size_t n = 0, named = 0;
	int r = rep_view_functions(v, v->doc->o->by_cum, &all);

	if (r < 0)
		return r;
	/* Code without a name is no function. */
	for (size_t i = 0; i < all.n; i++)
		if (all.p[i].name)
			all.p[named++] = all.p[i];
	all.n = named;
	r = rep_select(v, &all, &n, err);
	if (r == 0)
		r = add_functions(v, &all, n);
	for (size_t i = 0; i < MIN_OF(n, (size_t)FUNCTIONS_SHOWN) && r == 0; i++)
		r = annotate(v, all.p[i].name);
	return r;
}
