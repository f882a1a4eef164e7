/* SPDX-License-Identifier: Apache-2.0 */
/* report, private - what the files of the module share. */
#ifndef PA_REP_PRIV_H
#define PA_REP_PRIV_H

#include "encode/encode.h"
#include "report/report.h"

/* ---- regular expressions (rep_regex.c) and filters by labels (rep_tags.c) --------------------- */

struct rep_regex;
/**
 * rep_regex_new - compile an expression of RE2's syntax
 * @option: its name, for messages
 * Returns: 0, -EINVAL (@err), -ENOMEM.
 */
int rep_regex_new(const char *option, const char *text, struct rep_regex **ret, struct err *err);
bool rep_regex_matches(const struct rep_regex *r, const char *text);
void rep_regex_freep(struct rep_regex **r);

struct rep_tags;
/**
 * rep_tags_new - compile a filter by labels for the samples of a model, borrowed
 * @m: NULL: it is only checked
 * Returns: 0, -EINVAL (@err), -ENOMEM.
 */
int rep_tags_new(const char *option, const char *text, const struct prof_model *m,
                 struct rep_tags **ret, struct err *err);
bool rep_tags_match(const struct rep_tags *t, const struct prof_sample *s);
void rep_tags_freep(struct rep_tags **t);

/* ---- parts of one model into another (rep_copy.c) --------------------------------------------- */

/* Mappings of the target by file and offset, for merges. */
struct rep_places {
	struct intern *keys;
	VEC(uint32_t) ids; /* by id of keys */
};

/* By id of .from, ids of .to; 0: not copied yet. */
struct rep_copy {
	const struct prof_model *from;
	struct prof_model *to;
	struct rep_places *places; /* borrowed; NULL: mappings stay apart */
	uint32_t *strings, *mappings, *functions, *locations;
	struct prof_line *lines; /* room for those of one location */
};
/**
 * rep_copy_begin - allocate the tables; rep_copy_done frees them, also after a failure
 * @c: zero but for .places
 * Returns: 0, -ENOMEM.
 */
int rep_copy_begin(struct rep_copy *c, const struct prof_model *from, struct prof_model *to);
void rep_copy_done(struct rep_copy *c);
/**
 * rep_copy_head - copy types, period, times and comments
 * rep_copy_location - copy a location, at its first call
 * rep_copy_sample - add a sample with locations of .to
 * @keep: keep[line_cnt]: which lines are copied; NULL: all
 * Returns: 0, -E2BIG, -ENOMEM.
 */
int rep_copy_head(struct rep_copy *c);
int rep_copy_location(struct rep_copy *c, uint32_t id, const bool *keep, uint32_t *ret);
int rep_copy_sample(struct rep_copy *c, const struct prof_sample *s, const uint32_t *locs,
                    uint32_t n_locs);

/* ---- parts of a model (rep_functions.c, rep_frames.c) ------------------------------------------------- */

/* A frame of a stack, by its function. */
struct rep_frame {
	uint32_t node; /* string of its name; without one the number of strings + path */
	uint32_t path; /* string: file of its code */
};
struct rep_frames {
	VEC(struct rep_frame) v; /* leaf first, inlined calls before their callers */
	bool addresses; /* set by the caller: code without names is a function an address */
};
/**
 * rep_frames_of - the functions of a sample, in @f, whose memory is used again
 * Returns: 0, -E2BIG, -ENOMEM.
 */
int rep_frames_of(const struct prof_model *m, const struct prof_sample *s, struct rep_frames *f);
void rep_frames_done(struct rep_frames *f);
/* Node of a line, or of a location without lines (NULL). */
uint32_t rep_node(const struct prof_model *m, const struct prof_location *loc,
                  const struct prof_line *l, bool addresses);
/* Path of the file of a location, name of the function of a line: strings, 0 none.
 * "0x12 [file]" is no name. */
uint32_t rep_location_path(const struct prof_model *m, const struct prof_location *loc);
uint32_t rep_line_name(const struct prof_model *m, const struct prof_line *l);

/* Returns whether the self value of a profile is that of sites: it is off-CPU. */
bool rep_by_site(const struct prof_model *m);
/* Returns which location of a sample has the self value: the innermost; of a site the program's own
 * function that is blocked, as the tables of captures have it. */
uint32_t rep_leaf(const struct prof_model *m, const struct prof_sample *s, bool by_site);
/* A line for tables by site. */
#define REP_SITE_LINE                                                                              \
	"off-CPU: self is in the program's own function that is blocked; what it calls in "        \
	"libraries of the system and in the kernel has cum only"

/* ---- values among the lines of a profile (rep_items.c) ----------------------------------------- */

/* Lines "key: value", p[n]; borrowed. */
struct rep_items {
	const char *const *p;
	size_t n;
};
/**
 * rep_item - returns the first value of a key, NULL without one
 * rep_item_next - returns the next one from line *@at on
 * rep_item_number - returns the first value as a number; @otherwise if there is none
 */
const char *rep_item(const struct rep_items *it, const char *key);
const char *rep_item_next(const struct rep_items *it, const char *key, size_t *at);
double rep_item_number(const struct rep_items *it, const char *key, double otherwise);
/* A name with its share of the whole, "libx.so 3.20". */
struct rep_part {
	const char *name; /* name[len] */
	size_t len;
	double pct;
};
/* Finds the next part of a key from line *@at on. Returns false without one. */
bool rep_item_part(const struct rep_items *it, const char *key, size_t *at, struct rep_part *ret);
/**
 * rep_put_listed - append a part to a list, "a.so 6 %, b 1 %"; small ones are left out
 * rep_put_files - append all parts of a key
 * rep_put_reasons - append why walks of user stacks ended before the root, the most frequent first
 * @b: has nothing but the list
 */
void rep_put_listed(struct sbuf *b, const struct rep_part *f, int64_t samples);
void rep_put_files(struct sbuf *b, const struct rep_items *it, const char *key, int64_t samples);
void rep_put_reasons(struct sbuf *b, const struct rep_items *it, int64_t samples);

/* ---- values of one function by line and by address (rep_sites.c) ------------------------------ */

struct rep_line_sum {
	uint32_t file;     /* string: source file, 0 unknown */
	int64_t line;      /* 0 unknown */
	int64_t self, cum; /* a sample counts once in cum */
	size_t seen;       /* private */
};
struct rep_address_sum {
	uint32_t path, build_id; /* strings: of its mapping; 0 unknown */
	uint64_t off;            /* in the file; without a mapping the address, 0 unknown */
	int64_t line;            /* of the function, 0 unknown */
	int64_t self, cum;
	size_t seen;
};
/* Each of the two lists has all of the function's self value. */
struct rep_sites {
	VEC(struct rep_line_sum) lines;        /* by file and line */
	VEC(struct rep_address_sum) addresses; /* by path, build-id and offset */
};
/**
 * rep_sites_of - the places where a function is in the stacks, inlined or not
 * @name: string, not 0
 * Returns: 0, -E2BIG, -ENOMEM. Cost: O(frames of all samples).
 */
int rep_sites_of(const struct prof_model *m, uint32_t type_idx, uint32_t name,
                 struct rep_sites *ret);
void rep_sites_done(struct rep_sites *s);

/* ---- what is known of a profile (rep_quality.c) ----------------------------------------------- */

/* Percentages; negative: not known. */
struct rep_quality {
	VEC(char *) lines;   /* items of all comments; owned */
	const char *tool;    /* version of perf-agent, one of the items; NULL: another tool */
	const char *verdict; /* "good", "fair", "poor"; "not known" */
	struct rep_judgement judgement; /* if the verdict is known */
	int64_t samples;                /* in the file; 0: not counted */
	int64_t left;                   /* those that the filters leave; -1: all */
	bool sampled;       /* each sample is drawn by chance, so shares have an error */
	uint32_t count_idx; /* which of the values counts samples; UINT32_MAX: none */
	const char *lacks;  /* type of values that is shown of other files; NULL: it has them */
	double duration_s;  /* 0: not known */
	double error_pct;   /* bound of the error of a share, at 95 %; negative: none */
	double complete_pct, lost_pct, heuristic_pct, named_user_pct, named_kernel_pct;
};
/* Returns whether a profile has values of this type. */
bool rep_has_type(const struct prof_model *m, const char *type);
/* Returns which of the values counts samples, or intervals (@ret_sampled false: none is left out by
 * chance); UINT32_MAX: none does. */
uint32_t rep_count_idx(const struct prof_model *m, bool *ret_sampled);
/**
 * rep_quality_of - read the quality of a profile from its comments and values
 * @left: the samples that pass the filters; NULL: there are no filters
 * Returns: 0, -E2BIG, -ENOMEM.
 */
int rep_quality_of(const struct prof_model *m, const struct prof_model *left,
                   struct rep_quality *ret);
void rep_quality_done(struct rep_quality *q);
/**
 * rep_quality_lines - lines for people
 * @line: gets one line without newline
 * Returns: 0, or what @line returned.
 */
typedef int (*rep_line_fn)(void *arg, const char *text);
int rep_quality_lines(const struct rep_input *in, const struct rep_quality *q, rep_line_fn line,
                      void *arg);

/* ---- names and numbers as text (rep_name.c) --------------------------------------------------- */

/**
 * rep_put_code - append a line of code
 * @columns: room; 0: any. A longer line loses its end.
 * Tabs become blanks up to the next multiple of 8; other characters are as in rep_put_name.
 * Returns: columns written.
 */
size_t rep_put_code(struct sbuf *b, const char *text, size_t columns);
/**
 * rep_put_value - append a value with its unit: "1.23 s", "4.5 MB", "1,234"
 * rep_put_count - append a number with commas
 * rep_put_pct - append a share in percent, without sign, as precise as the number of samples allows
 * @samples: 0: not known
 */
void rep_put_value(struct sbuf *b, int64_t v, const char *unit);
void rep_put_count(struct sbuf *b, int64_t v);
void rep_put_pct(struct sbuf *b, double pct, int64_t samples);
/**
 * rep_put_fixed - append a number with @decimals, at most 4, and a point, in every locale
 */
void rep_put_fixed(struct sbuf *b, double v, uint32_t decimals);

/* ---- profiles that go together (rep_group.c), and in other formats (rep_convert.c) ------------ */

/* Profiles with the same types of values, merged and filtered. */
struct rep_group {
	const struct rep_input *first;
	size_t n_members;
	const struct prof_model *m;
	uint32_t type_idx; /* of the values that are shown */
};
struct rep_groups {
	VEC(struct rep_group) v;
	VEC(struct prof_model *) models; /* owned: those that are not of an input */
};
/**
 * rep_groups_of - make the groups of profiles in[n], in their order
 * Profiles without values of type o->value are left out, if another one has them.
 * Returns: 0, -EINVAL, -ENOENT (both with @err), -E2BIG, -ENOMEM.
 */
int rep_groups_of(const struct rep_options *o, const struct rep_input *in, size_t n,
                  struct rep_groups *ret, struct err *err);
void rep_groups_done(struct rep_groups *g);
/* Returns the group with the same types of values, NULL without one. */
const struct rep_group *rep_group_like(const struct rep_groups *g, const struct rep_group *like);
/* As rep_group_like; without one, the first group that shows values of the same type. */
const struct rep_group *rep_group_shown_like(const struct rep_groups *g,
                                             const struct rep_group *like);
/**
 * rep_convert_diff - write the differential flame graph of two profiles
 * Returns: 0, -EINVAL (@err: the format cannot have it, or the types differ), -E2BIG, -ENOMEM.
 */
int rep_convert_diff(const struct rep_options *o, const struct rep_groups *before,
                     const struct rep_groups *after, struct sbuf *out, struct err *err);
/**
 * rep_convert - write groups, at least one, in a format of profiles
 * Returns: 0, -EINVAL (@err: more than one group for a format that has one), -E2BIG, -ENOMEM.
 */
int rep_convert(const struct rep_options *o, const struct rep_groups *g, struct sbuf *out,
                struct err *err);

/* ---- documents: tables, and what is before them (rep_doc.c) ----------------------------------- */

enum rep_kind {
	REP_VALUE,        /* .num, in the unit of the section */
	REP_CHANGE,       /* .num, with a sign */
	REP_WEIGHT,       /* .num, in the unit of the section; 0 is "." */
	REP_COUNT,        /* .num */
	REP_LINE,         /* .num; 0: none */
	REP_ADDRESS,      /* .num, in hexadecimal */
	REP_SHARE,        /* .real, percent */
	REP_SHARE_CHANGE, /* .real, percent, with a sign */
	REP_REAL,         /* .real; NAN: none */
	REP_NAME,         /* .text: a function; folded and shortened; indented by .depth */
	REP_PATH,         /* .text: a file; text shows its last part */
	REP_WORD,         /* .text */
	REP_CODE,         /* .text: a line of code */
};
struct rep_column {
	const char *key, *title; /* of JSON, of text; a title that is NULL: not in text */
	enum rep_kind kind;
};
struct rep_cell {
	int64_t num;
	double real;
	const char *text; /* borrowed from models, or of the document's memory */
	uint32_t depth;   /* of a name in a tree */
	uint32_t times;   /* of a name in a tree: calls of itself in a row; 0, 1: none */
};
struct rep_table {
	const char *key, *title;          /* title: NULL: none */
	const char *subject;              /* function after the title; NULL: none */
	const struct rep_column *columns; /* static */
	size_t n_columns;
	VEC(struct rep_cell) cells; /* row by row */
	const char *rest;           /* a line after the table; NULL: none */
	/* Listings of code only: the file of the profile, that which was read (NULL: none), the
	 * symbol (NULL: none), and what its reader should know (NULL: nothing). */
	const char *file, *read, *symbol, *note;
};
/* A profile, or several that were merged. */
struct rep_section {
	const char *type, *unit;
	int64_t total, samples;
	int64_t whole; /* as rep_fns.whole */
	VEC(struct rep_table) tables;
};
struct rep_source {
	const struct rep_input *in;
	struct rep_quality quality;
};
struct rep_doc {
	struct arena mem;
	const char *view;
	VEC(struct rep_source) sources;
	VEC(struct rep_section) sections;
	const struct rep_options *o;
};
void rep_doc_init(struct rep_doc *d, const struct rep_options *o);
void rep_doc_done(struct rep_doc *d);
/* Appends what a section shows, where there are several: "cpu: 1.23 s, 123 samples or intervals". */
void rep_put_section(const struct rep_section *s, struct sbuf *b);
/* Returns the new table of a section, NULL without memory. Valid until the next one. */
struct rep_table *rep_doc_table(struct rep_section *s, const char *key, const char *title,
                                const struct rep_column *columns, size_t n);
/* Adds a row of the table's n_columns cells. Returns 0, -E2BIG, -ENOMEM. */
int rep_table_row(struct rep_table *t, const struct rep_cell *cells);
/* Formats text into the document's memory. Returns NULL without memory. */
const char *rep_doc_text(struct rep_doc *d, const char *format, ...) PRINTF_FMT(2, 3);

int rep_doc_write_text(const struct rep_doc *d, struct sbuf *out);
/* Writes one table as text; 0, -E2BIG, -ENOMEM. */
int rep_table_write_text(const struct rep_doc *d, const struct rep_section *s,
                         const struct rep_table *t, struct sbuf *out);
int rep_doc_write_markdown(const struct rep_doc *d, struct sbuf *out);
int rep_doc_write_json(const struct rep_doc *d, struct sbuf *out);

/* ---- views ------------------------------------------------------------------------------------ */

/* The input of a view. */
struct rep_view {
	struct rep_doc *doc;
	struct rep_section *section;
	const struct rep_group *group;
	const struct prof_model *m; /* that of the group */
	uint32_t type_idx;
	uint32_t count_idx; /* of samples; UINT32_MAX: none. DIFF: not of intervals */
	uint32_t event_idx; /* of samples or intervals; UINT32_MAX: none */
};
/**
 * rep_view_functions - the sorted functions of a view's model; their sums go into its section
 * @by_cum: as rep_functions_sort
 * Returns: 0, -ENOMEM.
 */
int rep_view_functions(struct rep_view *v, bool by_cum, struct rep_fns *ret);
/**
 * rep_view_top, rep_view_peek, rep_view_tree, rep_view_by, rep_view_annotate - add the tables of a
 * view to its section
 * Returns: 0, -EINVAL, -ENOENT (both with @err), -E2BIG, -ENOMEM.
 */
int rep_view_top(struct rep_view *v);
int rep_view_peek(struct rep_view *v, struct err *err);
int rep_view_tree(struct rep_view *v);
int rep_view_by(struct rep_view *v, struct err *err);
int rep_view_annotate(struct rep_view *v, struct err *err);
/**
 * rep_select - move the functions that the view's subject selects to the front of a list
 * Those are the function of exactly this name, else those that match. Their order stays.
 * @ret_n: how many, at least 1
 * Returns: 0, -ENOENT (none), -EINVAL (no regular expression; both with @err), -ENOMEM.
 */
int rep_select(struct rep_view *v, struct rep_fns *all, size_t *ret_n, struct err *err);
/* Returns the node of a function, as in rep_frame. */
uint32_t rep_fn_node(const struct prof_model *m, const struct rep_fn *fn);
/**
 * rep_view_diff - add the table of changes to the section of @after
 * Returns: 0, -E2BIG, -ENOMEM.
 */
int rep_view_diff(struct rep_view *before, struct rep_view *after);
/**
 * rep_put_number - append a cell that is a number, as people read it
 */
void rep_put_number(const struct rep_section *s, enum rep_kind kind, const struct rep_cell *c,
                    struct sbuf *b);
/* Appends how often a function calls itself in a row, " ×12", if it does. */
static inline void rep_put_times(struct sbuf *b, const struct rep_cell *c)
{
	if (c->times > 1)
		(void)sbuf_addf(b, " \xc3\x97%u", c->times); /* failures stick in .err */
}
static inline bool rep_is_number(enum rep_kind kind)
{
	return kind <= REP_REAL;
}
/* Adds the table of the first @rows functions. Returns 0, -E2BIG, -ENOMEM. */
int rep_top_table(struct rep_view *v, const struct rep_fns *all, size_t rows);
/* Returns the name of a node of rep_frames_of, as rep_fn_name. */
const char *rep_node_name(struct rep_doc *d, const struct prof_model *m, uint32_t node);
/* Adds a sample to the totals of the section. */
void rep_section_add(struct rep_view *v, const struct prof_sample *s);
/* Returns a value without its sign. */
static inline int64_t rep_size(int64_t v)
{
	return v >= 0 ? v : v == INT64_MIN ? INT64_MAX : -v;
}
/* Orders the larger of two values first, whatever their signs; the positive one of equals. */
static inline int rep_larger(int64_t a, int64_t b)
{
	const int64_t x = rep_size(a), y = rep_size(b);

	return x != y ? (x < y) - (x > y) : (a < b) - (a > b);
}
/* Returns @part of @whole in percent. */
double rep_share(int64_t part, int64_t whole);
/* Returns the name of a function; "[libc.so.6]" for code without one. NULL without memory. */
const char *rep_fn_name(struct rep_doc *d, const struct prof_model *m, uint32_t name,
                        uint32_t path);

#endif
