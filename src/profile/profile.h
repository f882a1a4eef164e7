/* SPDX-License-Identifier: Apache-2.0 */
/*
 * profile - aggregation and the profile model. No system calls, no symbols of its own.
 * Thread: objects belong to one thread at a time.
 *
 * prof_agg adds up what samplers deliver: stacks by hash, counts by (process, thread, stacks,
 * cgroup), thread names. prof_model is the finished profile that encoders turn into bytes: strings,
 * mappings, functions, locations and samples, each with a dense id.
 */
#ifndef PA_PROFILE_H
#define PA_PROFILE_H

#include "event/event.h"

/* ---- aggregation ---------------------------------------------------------------------------- */

struct prof_agg;

struct prof_agg_limits {
	uint32_t max_stacks; /* distinct stacks; 0: 1 M */
	uint32_t max_counts; /* distinct (thread, stacks) pairs; 0: 4 M */
	size_t max_bytes;    /* of frames; 0: 256 MiB */
};

struct prof_agg_stats {
	uint64_t stacks, counts, threads; /* distinct */
	uint64_t samples, weight;         /* added up */
	uint64_t stacks_dropped; /* calls refused at a limit: their counts become [stack lost] */
	uint64_t counts_dropped_samples,
	        counts_dropped_weight;         /* over max_counts; not in samples, weight */
	uint64_t intervals, intervals_dropped; /* off-CPU; the others count samples alone */
	uint64_t threads_dropped;              /* names refused: over 1 M threads */
	uint64_t wakers_dropped;               /* over 1 M wakers */
};

/**
 * prof_agg_new - an empty aggregation
 * @lim: copied; NULL: the defaults
 * Returns: 0, -ENOMEM.
 */
int prof_agg_new(const struct prof_agg_limits *lim, struct prof_agg **ret);
/**
 * prof_agg_free, prof_agg_freep - NULL is accepted; free returns NULL
 */
struct prof_agg *prof_agg_free(struct prof_agg *a);
void prof_agg_freep(struct prof_agg **a);
/**
 * prof_agg_add_stack - keep a stack, which may have no frames; known hashes are ignored
 * @s:       copied with its frames
 * @ret_new: may be NULL; whether it was new
 * Returns: 0, -EINVAL (hash 0: it says "no stack" in a count); counted in stacks_dropped: -E2BIG
 * (max_stacks, or max_bytes of frames), -ENOMEM.
 */
int prof_agg_add_stack(struct prof_agg *a, const struct ev_stack *s, bool *ret_new);
/**
 * prof_agg_add_count - add values to the entry of this process, thread, stacks, cgroup
 * The key of an off-CPU interval also has state and waker.
 * @c: copied if it is the first with its key
 * Returns: 0; counted in counts_dropped_*: -E2BIG (max_counts), -ENOMEM.
 */
int prof_agg_add_count(struct prof_agg *a, const struct ev_count *c);
/**
 * prof_agg_add_count_id - the same; returns the index of the entry, for prof_agg_count_at
 */
int prof_agg_add_count_id(struct prof_agg *a, const struct ev_count *c, uint32_t *ret_id);
/**
 * prof_agg_subtract_intervals - take the values of off-CPU counts off the entries of their thread, stacks,
 * cgroup and state
 * @v: v[n]; keeps the values that no entry has
 * Waker and JIT epoch may differ: an open interval has neither for sure. longest_ns stays. Not for an
 * aggregation whose changes are copied.
 * Returns: 0; -ENOMEM, with nothing changed. Cost: O(entries + n).
 */
int prof_agg_subtract_intervals(struct prof_agg *a, struct ev_count *v, size_t n);
/**
 * prof_agg_add_thread - set the name of a thread; the newest is kept
 * Returns: 0; counted in threads_dropped: -E2BIG (1 M threads), -ENOMEM.
 */
int prof_agg_add_thread(struct prof_agg *a, const struct ev_thread *t);

/**
 * prof_agg_add_waker - add a waker; known hashes are ignored
 * Returns: 0; counted in wakers_dropped: -E2BIG (1 M), -ENOMEM.
 */
int prof_agg_add_waker(struct prof_agg *a, const struct ev_waker *w);
/**
 * prof_agg_waker - by hash, NULL if it never arrived; borrowed until the next add_waker or free
 */
const struct ev_waker *prof_agg_waker(const struct prof_agg *a, uint64_t hash);

/**
 * prof_agg_stack - stack by hash, NULL if it never arrived
 * Borrowed until the next add_stack or free.
 */
const struct ev_stack *prof_agg_stack(const struct prof_agg *a, uint64_t hash);
/**
 * prof_agg_comm - name of a thread, NULL if unknown
 * Borrowed until the next add_thread or free.
 */
const char *prof_agg_comm(const struct prof_agg *a, const struct ev_proc_id *proc, uint32_t tid);
/**
 * prof_agg_count_cnt, prof_agg_count_at, prof_agg_stack_cnt, prof_agg_stack_at - all of them
 * @i: below the _cnt, else an assert stops; in the order of their arrival
 * Borrowed until the next call that adds one, or free.
 */
size_t prof_agg_count_cnt(const struct prof_agg *a);
const struct ev_count *prof_agg_count_at(const struct prof_agg *a, size_t i);
size_t prof_agg_stack_cnt(const struct prof_agg *a);
const struct ev_stack *prof_agg_stack_at(const struct prof_agg *a, size_t i);
/**
 * prof_agg_waker_cnt, prof_agg_waker_at, prof_agg_thread_cnt, prof_agg_thread_at - the same
 * @ret: filled
 */
size_t prof_agg_waker_cnt(const struct prof_agg *a);
const struct ev_waker *prof_agg_waker_at(const struct prof_agg *a, size_t i);
size_t prof_agg_thread_cnt(const struct prof_agg *a);
void prof_agg_thread_at(const struct prof_agg *a, size_t i, struct ev_thread *ret);
/**
 * prof_agg_look_up_in - find stacks, wakers and names that @a lacks in @base
 * @base: must live longer; NULL: none
 */
void prof_agg_look_up_in(struct prof_agg *a, const struct prof_agg *base);
/**
 * prof_agg_stats - statistics up to now; borrowed until free, and updated until then
 */
const struct prof_agg_stats *prof_agg_stats(const struct prof_agg *a);

/* ---- changes of an aggregation ---------------------------------------------------------------- */

struct prof_seen_count {
	uint64_t samples, weight, runq_ns, longest_ns;
};
/* How far an aggregation was copied. All zero: nothing was. */
struct prof_seen {
	size_t stacks, wakers;
	VEC(struct prof_seen_count) counts; /* by index of the count */
	bool follows;                       /* the aggregation keeps its changes */
};
/**
 * prof_agg_copy_changes - add what was added to an aggregation since the last call to another one
 * @from: keeps a list of its changes for the last @seen from now on
 * @seen: how far @from was copied; updated, not to be moved
 * @to: gets stacks, wakers, names and counts
 * @since: since[2], on-CPU and off-CPU: get counts as well, and look up the rest in @to; NULL: none
 * Sums of all calls are those of @from. The longest interval of a count that did not grow is an
 * upper bound: the shorter of its earlier longest one and the added time.
 * Returns: 0; -ENOMEM (nothing was copied). What @to or @since refuses is counted there.
 * Cost: O(what has changed); for the first time, for another @seen than the last time, and where
 * memory for the list was refused, O(counts and threads of @from).
 */
int prof_agg_copy_changes(struct prof_agg *from, struct prof_seen *seen, struct prof_agg *to,
                          struct prof_agg *const since[2]);
/**
 * prof_seen_done - free it; leaves it zeroed
 */
void prof_seen_done(struct prof_seen *seen);

/* ---- model ---------------------------------------------------------------------------------- */

/* Ids: strings from 0 ("" is 0); mappings, functions, locations from 1, 0 = none. An id that was
 * never given out is a bug and stops in an assert. Every prof_model_* that returns int gives 0,
 * -ENOMEM, or -E2BIG at one of these caps, and then leaves the model as it was (but for lists that
 * no sample uses): */
#define PROF_STRINGS_MAX     16777216U
#define PROF_MAPPINGS_MAX    1048576U /* 10,000 processes of 100 mappings */
#define PROF_FUNCTIONS_MAX   4194304U
#define PROF_LOCATIONS_MAX   16777216U /* as many as there are frames in prof_agg's 256 MiB */
#define PROF_LINES_MAX       67108864U
#define PROF_SAMPLES_MAX     4194304U /* as prof_agg's max_counts */
#define PROF_LOC_IDS_MAX     134217728U
#define PROF_LABELS_MAX      33554432U
#define PROF_COMMENTS_MAX    65536U
#define PROF_VALUE_BYTES_MAX ((size_t)PROF_SAMPLES_MAX * PROF_TYPE_MAX * sizeof(int64_t))
#define PROF_KEY_BYTES_MAX                                                                         \
	((size_t)1 << 30) /* of each interner: strings, keys of locations and stacks */
#define PROF_COMMENT_LEN_MAX    1048576
#define PROF_LOCATION_LINES_MAX 1024U  /* inlined functions at one address */
#define PROF_SAMPLE_LOCS_MAX    65536U /* user and kernel stack, 512 frames each at most, and room */
#define PROF_SAMPLE_LABELS_MAX  64U

struct prof_mapping {
	uint64_t start, limit, offset; /* addresses, limit exclusive; file offset of start, bytes */
	uint32_t path, build_id;       /* strings; build-id in hex */
	bool has_functions, has_filenames, has_lines,
	        has_inlines; /* kept true by prof_model_location */
	uint32_t serial;     /* private: order of arrival */
};

struct prof_function {
	uint32_t name, system_name,
	        file;       /* strings: demangled, as in the symbol table, source file */
	int64_t start_line; /* 0 unknown */
};

struct prof_line {
	uint32_t function; /* id */
	uint32_t column;   /* 0 unknown */
	int64_t line;      /* 0 unknown */
};

struct prof_location {
	uint32_t mapping;              /* id or 0 */
	uint64_t address;              /* absolute, inside its mapping */
	uint32_t line_first, line_cnt; /* lines[]: innermost inlined function first */
	uint8_t reason;                /* enum ev_reason */
	bool uncovered;                /* no unwind rule: its caller was found heuristically */
};

struct prof_label {
	uint32_t key;  /* string */
	uint32_t str;  /* string value, when != 0 */
	int64_t num;   /* else a number */
	uint32_t unit; /* string: of the number; 0: none */
	uint32_t pad;  /* 0: labels are compared as bytes */
};

struct prof_sample {
	uint32_t loc_first, loc_cnt;     /* loc_ids[]: leaf first */
	uint32_t label_first, label_cnt; /* labels[] */
	int64_t *value;                  /* value[n_types], in the model's .values */
};

/* Go's heap profiles have 4 types; programs with counters of their own have more. */
#define PROF_TYPE_MAX 16
struct prof_type {
	uint32_t type, unit; /* strings */
};

struct prof_model {
	struct intern *strings;
	VEC(struct prof_mapping) mappings;
	VEC(struct prof_function) functions;
	VEC(struct prof_location) locations;
	VEC(struct prof_line) lines;
	VEC(struct prof_sample) samples;
	VEC(uint32_t) loc_ids;         /* each distinct list once: samples share them */
	VEC(struct prof_label) labels; /* as well */
	struct arena values;           /* of the samples */
	VEC(uint32_t) comments;        /* strings */
	struct prof_type sample_type[PROF_TYPE_MAX];
	uint32_t n_types;      /* set before samples are added */
	uint32_t default_type; /* string: a sample_type's name */
	struct prof_type period_type;
	int64_t period;
	int64_t time_realtime_ns, duration_ns;
	/* strings, 0 none; for other tools: functions to hide and not to hide (regular expressions),
	 * and a page about the profile */
	uint32_t drop_frames, keep_frames, doc_url;
	/* private: de-duplication */
	struct intern *function_keys, *location_keys, *sample_keys, *mapping_keys, *stack_keys,
	        *label_keys;
	VEC(uint32_t) mapping_ids; /* by serial: id */
	VEC(uint32_t) stack_first,
	        label_first; /* by id in stack_keys, label_keys: index in loc_ids, labels */
	struct sbuf scratch;
};

/**
 * prof_model_new - a model without types, with the string ""
 * Returns: 0, -ENOMEM.
 */
int prof_model_new(struct prof_model **ret);
/**
 * prof_model_free, prof_model_freep - NULL is accepted; free returns NULL
 */
struct prof_model *prof_model_free(struct prof_model *m);
void prof_model_freep(struct prof_model **m);
/**
 * prof_model_string - id of a string, added if it is new
 * @s: copied
 * Returns: 0, -E2BIG, -ENOMEM.
 */
int prof_model_string(struct prof_model *m, const char *s, uint32_t *ret_id);
/**
 * prof_model_text - the same for untrusted text: control bytes, which a terminal would obey, become
 * '?'
 */
int prof_model_text(struct prof_model *m, const char *s, uint32_t *ret_id);
/**
 * prof_model_str - string of an id; borrowed until prof_model_free
 */
const char *prof_model_str(const struct prof_model *m, uint32_t id);
/**
 * prof_model_comment - add a comment of one line
 * Newlines and control bytes become blanks.
 * Returns: 0, -E2BIG (also: longer than PROF_COMMENT_LEN_MAX), -ENOMEM.
 */
int prof_model_comment(struct prof_model *m, const char *fmt, ...) PRINTF_FMT(2, 3);
/**
 * prof_model_mapping - id of a mapping, added if it is new
 * @map: copied; its has_* flags and its serial do not matter
 * Equal ones (path, build-id, offset, start, limit) share an id.
 * Returns: 0, -E2BIG, -ENOMEM.
 */
int prof_model_mapping(struct prof_model *m, const struct prof_mapping *map, uint32_t *ret_id);
/**
 * prof_model_function - id of a function, added if it is new
 * @fn: copied; equal ones, in all fields, share an id
 * Returns: 0, -E2BIG, -ENOMEM.
 */
int prof_model_function(struct prof_model *m, const struct prof_function *fn, uint32_t *ret_id);
/**
 * prof_model_location - id of a location, added if it is new
 * @mapping: id, 0 for none
 * @address: absolute, inside its mapping
 * @reason:  enum ev_reason
 * @lines:   lines[n_lines], innermost inlined function first; copied
 * Equal ones (mapping, address - start + offset, reason, lines) share an id. The flags of the
 * mapping follow the lines of locations with EV_REASON_NAMED.
 * Returns: 0, -EINVAL (the address is outside of its mapping; one whose limit is 0 has no known
 * range), -E2BIG (also: n_lines over PROF_LOCATION_LINES_MAX), -ENOMEM.
 */
int prof_model_location(struct prof_model *m, uint32_t mapping, uint64_t address, uint8_t reason,
                        const struct prof_line *lines, uint32_t n_lines, uint32_t *ret_id);
/**
 * prof_model_uncovered - mark a location whose caller was found heuristically
 * Its id, key and samples stay as they are.
 */
void prof_model_uncovered(struct prof_model *m, uint32_t id);
/**
 * prof_model_sample - add values to the sample with these locations and labels
 * @locs:   locs[n_locs], ids, leaf first; copied
 * @labels: labels[n_labels], whose order matters; copied
 * @values: values[m->n_types]; sums stop at the ends of int64
 * Returns: 0, -E2BIG (also: n_locs over PROF_SAMPLE_LOCS_MAX, n_labels over
 * PROF_SAMPLE_LABELS_MAX), -ENOMEM.
 */
int prof_model_sample(struct prof_model *m, const uint32_t *locs, uint32_t n_locs,
                      const struct prof_label *labels, uint32_t n_labels, const int64_t *values);
/**
 * prof_model_sample_at - index of the sample with these locations and labels, which was added
 * Returns: UINT32_MAX if there is none. As for prof_model_sample otherwise.
 */
uint32_t prof_model_sample_at(struct prof_model *m, const uint32_t *locs, uint32_t n_locs,
                              const struct prof_label *labels, uint32_t n_labels);
/**
 * prof_model_main_mapping - move a mapping to the front: pprof takes the first for the main binary
 * @id: 0 does nothing
 * Ids in all locations follow, and so do later look-ups; ids that the caller holds do not.
 * Cost: O(locations).
 */
void prof_model_main_mapping(struct prof_model *m, uint32_t id);

/* ---- packed comments ------------------------------------------------------------------------- */

/**
 * prof_comment_pack - append an item to a packed comment: "# perf-agent: VERSION; key: value; …"
 * @to:   empty before the first item, which must be "perf-agent: VERSION"
 * @item: any text; ';' and '\\' get a '\\' before them
 * Failures stay in @to.
 */
void prof_comment_pack(struct sbuf *to, const char *item);

/* The items of a comment. One that is not packed is a single item. */
struct prof_items {
	const char *at; /* the rest of the comment, borrowed; NULL: no more */
	bool packed;
	struct sbuf item;
};
/**
 * prof_items_init, prof_items_done - begin and end to read @comment, which must live that long
 */
void prof_items_init(struct prof_items *it, const char *comment);
void prof_items_done(struct prof_items *it);
/**
 * prof_items_next - the next item, valid until the next call
 * Returns: NULL past the last, and without memory (.item.err is set).
 */
const char *prof_items_next(struct prof_items *it);

/**
 * prof_sat_add - returns a + b, or the end of int64: a value too large must not turn negative
 */
static inline int64_t prof_sat_add(int64_t a, int64_t b)
{
	int64_t sum;

	if (!__builtin_add_overflow(a, b, &sum))
		return sum;
	return b > 0 ? INT64_MAX : INT64_MIN;
}

/* The string that is the path of a mapping; 0: of none. @id: 0 none. */
static inline uint32_t prof_mapping_path(const struct prof_model *m, uint32_t id)
{
	return id ? m->mappings.p[id - 1].path : 0;
}

/* ---- report --------------------------------------------------------------------------------- */

struct prof_top {
	uint32_t name;    /* string; 0: all locations of this mapping that have no function */
	uint32_t mapping; /* id of the mapping of its first location, 0 none */
	bool several;     /* other locations are in files with another path */
	int64_t self,
	        cum; /* of value[type_idx]; a recursive function counts once a sample in cum */
};
/**
 * prof_model_top - the @max hottest functions (one entry a name) by self value, then cum, then name
 * @type_idx: which of the values, < n_types
 * @ret:      ret[*ret_n], *ret_n <= @max; the caller's to free()
 * The innermost line of the leaf location has the self value.
 * Returns: 0, -ENOMEM, -EINVAL (no such type). Cost: O(frames of all samples).
 */
int prof_model_top(const struct prof_model *m, uint32_t type_idx, size_t max, struct prof_top **ret,
                   size_t *ret_n);
/* Whether a leaf of this mapping and this name ("": none) is skipped. */
typedef bool (*prof_skip_fn)(const char *path, const char *name);
/**
 * prof_model_top_beyond - the same, but the self value belongs to the first location that is not
 * skipped; to the leaf if all are
 * @skip: NULL: skips none
 */
int prof_model_top_beyond(const struct prof_model *m, uint32_t type_idx, prof_skip_fn skip,
                          size_t max, struct prof_top **ret, size_t *ret_n);

/**
 * prof_top_module - returns the path of an entry's mapping: "" for none, "[several]"
 */
const char *prof_top_module(const struct prof_model *m, const struct prof_top *t);

struct prof_task {
	int64_t pid, tid; /* labels; tid 0: all threads of the process */
	uint32_t comm;    /* string: of the thread; of a process that of its main thread if known */
	int64_t value[PROF_TYPE_MAX];
};
/**
 * prof_model_tasks - processes or threads by their labels, by descending last value
 * @ret: ret[*ret_n]; the caller's to free()
 * Returns: 0, -ENOMEM, -E2BIG. Cost: O(samples).
 */
int prof_model_tasks(const struct prof_model *m, bool threads, struct prof_task **ret,
                     size_t *ret_n);
/**
 * prof_model_callers - functions that call a chain of functions, by descending value
 * @path: path[n_path]: strings; a function, its caller, the caller of that one, …
 * @ret: ret[*ret_n], one entry a name, with self equal to cum; name 0: the chain has no caller. The
 *       caller's to free()
 * A caller counts once a sample. Returns: 0, -EINVAL (no path, no such type), -ENOMEM. Cost:
 * O(frames of all samples).
 */
int prof_model_callers(const struct prof_model *m, uint32_t type_idx, const uint32_t *path,
                       size_t n_path, struct prof_top **ret, size_t *ret_n);

/* ---- whose code it is (prof_owner.c), and where threads are blocked (prof_site.c) -------------- */

/* The owner of the code of a function. */
enum prof_owner {
	PROF_KERNEL = 0,
	PROF_SYSTEM = 1, /* libc and the like; no file */
	PROF_RUNTIME =
	        2,    /* interpreters and run times; wrappers that compilers put into programs */
	PROF_OWN = 3, /* the program's own */
};
/**
 * prof_owner - the owner of a function by the path of its file and its name ("": none)
 */
enum prof_owner prof_owner(const char *path, const char *name);
/**
 * prof_is_evaluator - does a function evaluate the code of interpreted functions?
 */
bool prof_is_evaluator(const char *name);
/**
 * prof_is_switch - is a kernel function part of every off-CPU stack?
 * @path: path of its mapping
 * These functions switch threads, or call our program.
 */
bool prof_is_switch(const char *path, const char *name);
/* Frames of an off-CPU stack; NULL: it has none. */
struct prof_site {
	const struct prof_location *own;     /* innermost of the program's own */
	const struct prof_location *runtime; /* innermost of a run time */
	const struct prof_location *user;    /* innermost of all in user space */
	const struct prof_location *kernel;  /* in which it is blocked */
	const struct prof_location *mark;    /* replaces a stack that is missing */
};
/**
 * prof_site_of - the frames of a sample of an off-CPU profile
 * prof_site_location - returns the first of them that there is, NULL: the stack is empty
 */
struct prof_site prof_site_of(const struct prof_model *m, const struct prof_sample *s);
const struct prof_location *prof_site_location(const struct prof_site *f);

#endif
