/* SPDX-License-Identifier: Apache-2.0 */
/*
 * report - views of finished profiles: filters, tables, conversions. Pure functions over models;
 * only the caller's struct rep_reader reads files.
 * Thread: any; objects belong to one thread at a time.
 */
#ifndef PA_REPORT_H
#define PA_REPORT_H

#include "profile/profile.h"

/* Regular expressions as `go tool pprof` has them; NULL or "": none. Inline flags other than (?i)
 * at the start, Unicode classes and numeric escapes are refused. */
struct rep_filter {
	const char *focus, *ignore;       /* keep samples with a frame that matches; drop them */
	const char *hide, *show;          /* remove frames that match; all others */
	const char *tagfocus, *tagignore; /* [KEY=]REGEX,... or [KEY=]N, N:, :N, N:M with units */
};
/**
 * rep_filter_any - returns whether any of them is given
 */
bool rep_filter_any(const struct rep_filter *o);
/**
 * rep_filter_check - compile all filters
 * Returns: 0, -EINVAL (@err: not a regular expression), -ENOMEM.
 */
int rep_filter_check(const struct rep_filter *o, struct err *err);
/**
 * rep_filter - the samples of a model that pass all filters, as a new model
 * A frame matches by the name or the source file of its function or the path of its mapping.
 * Returns: 0, -EINVAL (@err: not a regular expression), -ENOENT (@err: no sample is left), -E2BIG,
 * -ENOMEM.
 */
int rep_filter(const struct prof_model *m, const struct rep_filter *o, struct prof_model **ret,
               struct err *err);

/**
 * rep_same_types - returns whether two models have the same values, in the same order
 */
bool rep_same_types(const struct prof_model *a, const struct prof_model *b);
/**
 * rep_merge - the sum of models[n], n at least 1
 * Durations add up; the period is the mean of all samples; comments are those of all. The same part of a file is one mapping, whatever its
 * address.
 * Returns: 0, -EINVAL (values of different types), -E2BIG, -ENOMEM.
 */
int rep_merge(const struct prof_model *const *models, size_t n, struct prof_model **ret);

/* A function by its name; all code without names of one file is one function. */
struct rep_fn {
	uint32_t name;             /* string; 0: no name */
	uint32_t path;             /* string: file of its code; 0 unknown */
	bool several;              /* functions of this name are in several files */
	uint32_t mapping;          /* id of the first mapping; 0 none */
	int64_t self, cum;         /* of the value; recursion counts once a sample in cum */
	int64_t self_cnt, cum_cnt; /* samples; 0 if the profile does not count them */
};
struct rep_fns {
	struct rep_fn *p; /* owned */
	size_t n;
	int64_t total, samples; /* of all samples */
	int64_t whole;          /* of shares: the total of the values without their signs */
	bool by_site;           /* an off-CPU profile: self is as prof_site_location */
};
/**
 * rep_functions - all functions of a model, in no particular order
 * @type_idx:  which of the values, < n_types
 * @count_idx: the value that counts samples; UINT32_MAX: none
 * Returns: 0, -ENOMEM. Cost: O(frames of all samples).
 */
int rep_functions(const struct prof_model *m, uint32_t type_idx, uint32_t count_idx,
                  struct rep_fns *ret);
/**
 * rep_functions_sort - by self value, then cum (@by_cum: the reverse), then name
 */
void rep_functions_sort(const struct prof_model *m, struct rep_fns *f, bool by_cum);
void rep_fns_done(struct rep_fns *f);

enum rep_format {
	REP_TEXT = 0,
	REP_MARKDOWN = 1,
	REP_JSON = 2,
	REP_FOLDED = 3, /* from here on: the profiles themselves */
	REP_PPROF = 4,
	REP_HTML = 5,
	REP_SVG = 6,
};

/**
 * rep_subject_check - whether .subject of REP_PEEK or REP_ANNOTATE is a regular expression
 * @view: its name, for messages
 * Returns: 0, -EINVAL (@err), -ENOMEM.
 */
int rep_subject_check(const char *view, const char *subject, struct err *err);

/**
 * rep_put_name - append a function's name, shortened
 * @columns: room; 0: any. A longer name loses its middle, that of its qualifier if it has one.
 * @fold:    template arguments become "…", but short ones
 * Control characters and bytes that are not UTF-8 become '?'.
 * Returns: columns written.
 */
size_t rep_put_name(struct sbuf *b, const char *name, size_t columns, bool fold);

/* ---- what a profile can be trusted for (rep_judge.c) ------------------------------------------ */

enum rep_level {
	REP_GOOD = 0,
	REP_FAIR = 1, /* a defect that may mislead */
	REP_POOR = 2, /* a defect that does */
	REP_NOTHING = 3,
};
/* Returns "good", "fair", "poor", "none". */
const char *rep_level_name(enum rep_level level);

/* Run times whose code is among the functions of a profile; their JIT code has remedies. */
struct rep_runtimes {
	bool java, node, dotnet;
	double evaluator_pct; /* in Python's evaluator and below */
	uint32_t
	        python_minor; /* 11 of "libpython3.11.so.1.0", which has this evaluator; 0: not known */
	bool python_named; /* functions of Python have names */
};
/**
 * rep_runtimes_of - the run times of a profile
 * rep_runtimes_add - look at one function; for profiles that are not models
 * Returns: 0, -ENOMEM.
 */
int rep_runtimes_of(const struct prof_model *m, struct rep_runtimes *ret);
void rep_runtimes_add(struct rep_runtimes *r, const char *path, const char *name, double cum_pct);

/* Facts about a profile; all is borrowed. */
struct rep_evidence {
	const char *const *lines; /* lines[n_lines], "key: value"; docs/output.md has the keys */
	size_t n_lines;
	bool offcpu;           /* it has intervals, not samples */
	int64_t samples, lost; /* lost: without those of perf-agent itself */
	struct rep_runtimes runtimes;
};
struct rep_defect {
	const char *id; /* static; docs/quality.schema.json has them */
	enum rep_level level;
	char *text, *remedy; /* owned; remedy "": none */
};
struct rep_judgement {
	enum rep_level level; /* of the worst defect */
	VEC(struct rep_defect) defects;
};
/**
 * rep_judge - the verdict of a profile: at the end of its capture, and of its file
 * @ret: for rep_judgement_done
 * Returns: 0, -ENOMEM.
 */
int rep_judge(const struct rep_evidence *e, struct rep_judgement *ret);
void rep_judgement_done(struct rep_judgement *j);

/* A model and the name of its file, borrowed. */
struct rep_input {
	const char *name;
	const struct prof_model *model;
	const char *format;       /* "pprof" */
	bool tool_unknown;        /* the format does not say which tool wrote it */
	const char *const *notes; /* notes[n_notes]: of the reader */
	size_t n_notes;
};

enum rep_view_kind {
	REP_TOP = 0,      /* functions */
	REP_PEEK = 1,     /* callers and callees of the functions that match .subject */
	REP_TREE = 2,     /* calls, from the outermost function down */
	REP_BY = 3,       /* .subject: process, thread, module, file, line, or the key of a label */
	REP_DIFF = 4,     /* changes from .base */
	REP_ANNOTATE = 5, /* source lines and instructions of the functions that match .subject */
};

/* Reads the files that REP_ANNOTATE shows. Results are borrowed until the next call of the same
 * function. Each returns 0, or a negative errno with @err, which the report then shows instead;
 * -ENOMEM ends it. */
struct rep_reader {
	void *arg;
	int (*source)(void *arg, const char *path, struct ev_source *ret, struct err *err);
	/* Sites ret[n] of file offsets offs[n], which ascend. @build_id: in hex, "": not known. */
	int (*sites)(void *arg, const char *path, const char *build_id, const uint64_t *offs,
	             size_t n, struct ev_site *ret, struct err *err);
	/* Instructions from @start to @end in the file of the last call of .sites, ascending. */
	int (*instructions)(void *arg, uint64_t start, uint64_t end,
	                    const struct ev_instruction **ret, size_t *ret_n, struct err *err);
};

struct rep_options {
	enum rep_format format;
	enum rep_view_kind view;
	const char *subject;
	const struct rep_input *base; /* DIFF: base[n_base], the earlier profiles */
	size_t n_base;
	double min_share;  /* TREE: nodes below this part of the total, 0 to 1, are left out */
	const char *value; /* name of the type of values; NULL: the profile's default */
	bool by_cum;
	size_t max_rows; /* 0: all */
	struct rep_filter filter;
	size_t width;    /* columns of text; 0: names are not shortened */
	bool colours;    /* of terminals, in text */
	bool full_names; /* template arguments are not folded */
	bool addresses; /* TREE: code without names has a row for each address, not for each file */
	const struct rep_reader *reader; /* ANNOTATE */
};
/**
 * rep_write - a report of profiles, or the profiles themselves in another format
 * Profiles with the same types of values are merged; the others have tables of their own.
 * @in:  in[n], n at least 1
 * @out: appended to
 * Returns: 0, -EINVAL (@err: an option is wrong for these profiles), -ENOENT (@err: no samples),
 * -E2BIG, -ENOMEM.
 */
int rep_write(const struct rep_options *o, const struct rep_input *in, size_t n, struct sbuf *out,
              struct err *err);

#endif
