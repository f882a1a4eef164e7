/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cli - the command. It uses the library through its public header alone. One thread.
 *
 *   cli_table.c     the options of options.def; --help
 *   cli_options.c   words of the command line -> struct cli_options
 *   cli_check.c     which options go together
 *   cli_suffix.c    --output: the end of its name selects the format
 *   cli_help.c      --version; the help of commands
 *   cli_suggest.c   unknown words: "did you mean"
 *   cli_duration.c  numbers: durations, sizes, weights, shares
 *   cli_name.c      names of output files
 *   cli_output.c    destinations of the outputs
 *   cli_process.c   processes of /proc: those of a name, descendants
 *   cli_command.c   the end of the command and its exit status
 *   cli_say.c       lines on standard error
 *   cli_run.c       one capture, from options to exit status
 *   cli_start.c     the line on standard error at its start
 *   cli_progress.c  the line on a terminal while it runs
 *   cli_report.c    the report on standard error at its end
 *   cli_functions.c the tables of functions, in that report
 *   cli_columns.c   tables that fit the terminal
 *   cli_sites.c     the table of functions that block
 *   cli_quality.c   what a profile can be trusted for
 *   cli_quality_json.c the same as JSON
 *   cli_children.c  children of the target that are not profiled; stopped targets
 *   cli_statistics.c values of the lines of a profile
 *   cli_session.c   from the options to those of the library
 *   cli_unwind.c    perf-agent unwind-info
 *   cli_report_cmd.c  perf-agent report
 *   cli_pager.c     text on a terminal, through a pager
 *   cli_top.c       perf-agent top: see cli_top.h
 */
#ifndef CLI_PRIV_H
#define CLI_PRIV_H

#include <perfagent/perfagent.h>

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/types.h>
#include <time.h>

/* Exit status; documented in the man page. */
enum cli_exit {
	CLI_DONE = 0,   /* everything was written; of a command: its own status instead */
	CLI_FAILED = 1, /* something was not */
	CLI_USAGE = 2,  /* the command line is wrong; nothing was opened */
};

enum {
	CLI_NAME_MAX = 128, /* a name of a process in texts and in file names */
	CLI_WIDTH_MIN = 40, /* below, a terminal does not know its size, or no table fits */
	CLI_WIDTH_MAX = 10000,
	CLI_WIDTH_DEFAULT = 100,  /* columns, where standard error is not a terminal */
	CLI_PID_MAX = 0x7fffffff, /* largest pid_t; the kernel knows whether it exists */
	CLI_RATE_DEFAULT_HZ = 99,
	CLI_MESSAGE_MAX = 512,
	CLI_NAME_BYTES_MAX = 1024, /* shown of the name of a function */
	CLI_DEBUG_DIRS_MAX = 64,   /* as the library */
	CLI_PROC_COMM_MAX = 64,    /* in /proc/PID/stat, with its NUL */
	CLI_FUNCTIONS_MAX = 10000, /* considered in reports; colder ones do not matter */
};

/* The products of a capture, in the order in which they are written and reported. */
enum cli_product {
	CLI_PROFILE = 0, /* --profile */
	CLI_OFFCPU = 1,  /* --offcpu */
	CLI_METRICS = 2, /* --pmu */
	CLI_FLAME = 3,   /* --flamegraph-output: of the profiles above */
	CLI_FOLDED = 4,  /* --folded-output: likewise */
	CLI_PERF = 5,    /* --perf-data-output: likewise */
	CLI_QUALITY = 6, /* --quality-output: about the profiles; written by the command */
	CLI_PRODUCT_CNT,
};

/* Options by their rows in options.def. */
enum cli_opt {
#define CLI_OPTION(id, name, short_name, argument, kind, completion, help, more) OPT_##id,
#define CLI_HIDDEN(id, name, argument)                                           OPT_##id,
#include "option_rows.def"
	OPT_CNT
};
_Static_assert(OPT_CNT <= 64, "a bit each");

/* Numbers in the order of the command line, without duplicates; v[n] is 0. Owned. */
struct cli_numbers {
	int32_t *v; /* NULL: none */
	size_t n;
};

/* Words; v[n] is NULL. Owned. */
struct cli_names {
	char **v; /* NULL: none */
	size_t n;
};

/* Sizes that tests set; 0: chosen by the library. */
struct cli_sizes {
	uint32_t ring_bytes, count_entries, range_entries, offcpu_threads;
};

/* Formats of extra outputs, and --output. */
struct cli_extra {
	uint32_t flame_format;  /* enum pfa_profile_format */
	uint32_t folded_root;   /* enum pfa_root */
	uint32_t perf_compress; /* level of zstd; 0: none */
	bool timeline;
	const char *common; /* --output; NULL: not given, or given to one product */
	/* Modes that run, but write no file of their own, since --output is another product. */
	bool no_file[CLI_PRODUCT_CNT];
};

/* How much is printed on standard error. */
struct cli_show {
	bool quiet, verbose;
	bool kernel_threads; /* in the table of --offcpu */
};

/* Strings are borrowed from argv, except pid_names; the arrays of them are owned, and NULL-terminated. */
struct cli_options {
	bool on[CLI_PRODUCT_CNT]; /* modes that are selected; extra outputs that are wanted */
	bool all;
	bool kernel_stacks;
	bool follow_children;
	bool keep_command;
	struct cli_numbers pids, tids;
	struct cli_names pid_names; /* of --pid, until cli_pids_find() makes pids of them */
	const char **comms, **cgroups;
	uint64_t duration_ns; /* 0: not given */
	uint32_t sample_rate_hz;
	uint32_t event;                        /* enum pfa_event */
	const char *output[CLI_PRODUCT_CNT];   /* path, or "-"; NULL: a made-up name */
	uint32_t offcpu_states;                /* PFA_STATE_…; 0: not given */
	uint64_t offcpu_min_ns, offcpu_max_ns; /* 0: not given */
	bool offcpu_wakers;
	bool per_pid;
	uint32_t pmu_format; /* enum pfa_format */
	struct cli_extra extra;
	const char **tags;
	const char **debug_dirs;
	bool lines;
	uint64_t symbol_budget_bytes; /* 0: not given */
	char *const *command;         /* NULL-terminated; NULL: none */
	uint32_t unwind;              /* enum pfa_unwind */
	uint64_t table_budget_bytes;  /* 0: not given */
	struct cli_show show;
	struct cli_sizes sizes;
};

enum cli_kind {
	CLI_BOOL,
	CLI_VALUE,
	CLI_LIST,
};
/* A row of options.def. */
struct cli_option_row {
	enum cli_opt id;
	const char *name;
	char short_name; /* 0: none */
	enum cli_kind kind;
};
/* Returns the option with this name, long or short, of @len bytes; NULL: none. */
const struct cli_option_row *cli_option_find(const char *name, size_t len);
const char *cli_option_name(enum cli_opt id);
/* Returns the command ("unwind-info") that has this option; NULL: none. */
const char *cli_option_command(const char *name, size_t len);
/* Returns the name of row @i of the options that texts show, of a command (NULL: of a capture), or of the
 * commands; NULL past the last. */
const char *cli_option_shown(const char *command, size_t i);
const char *cli_command_shown(const char *command, size_t i);
/* Returns what was probably meant by @word of @len bytes (without dashes): an option of a command (NULL: of a
 * capture), a command; NULL: nothing is near. */
const char *cli_suggest_option(const char *command, const char *word, size_t len);
const char *cli_suggest_command(const char *word);
/* Whether @word ("-x…", "--x…", "--x=…") is an option of a capture. */
bool cli_options_has(const char *word);
/* Prints --help; that of a command ("report", "unwind-info", "top") alone; --version. Return 0 or -EIO. */
int cli_options_help(FILE *to);
int cli_command_help(FILE *to, const char *command);
int cli_version(FILE *to);
#define CLI_COMMAND_OPTIONS_MAX 64
/**
 * cli_command_text - print --help or --version of a command if one of its words asks for it
 * @argv: argv[1] is its name
 * Returns: enum cli_exit; -1: none does.
 */
int cli_command_text(int argc, char *const *argv);

/* Fills @message (long words are cut); returns -EINVAL. */
int cli_refuse(char message[CLI_MESSAGE_MAX], const char *format, ...)
        __attribute__((format(printf, 2, 3)));
/**
 * cli_options_check - check options against each other
 * @o:     as read; --cgroup without a target becomes -a
 * @given: a bit for each enum cli_opt that differs from its default
 * Returns: 0, -EINVAL (@message). Opens nothing.
 */
int cli_options_check(struct cli_options *o, uint64_t given, uint32_t max_rate_hz,
                      char message[CLI_MESSAGE_MAX]);

/**
 * cli_suffix_select - give --output to the product that its name selects
 * @o:     modes are final; the path becomes the output of one product
 * @given: a bit for each enum cli_opt that differs from its default
 * Returns: 0, -EINVAL (@message).
 */
int cli_suffix_select(struct cli_options *o, uint64_t given, char message[CLI_MESSAGE_MAX]);
/* Refuses the path of an output that ends as those of another format do. Returns 0, -EINVAL. */
int cli_suffix_check(const struct cli_options *o, enum cli_product p,
                     char message[CLI_MESSAGE_MAX]);
/* Whether @s ends in @end, which is not all of it; the case of letters is ignored. */
bool cli_suffix_is(const char *s, const char *end);

enum cli_action {
	CLI_ACTION_RUN = 0,
	CLI_ACTION_HELP = 1,
	CLI_ACTION_VERSION = 2,
};

/**
 * cli_options_parse - read a command line
 * @argv:    argv[argc] is NULL; must outlive @ret
 * @max_rate_hz: the kernel's limit of sample rates, 0 = unknown
 * @ret:     on success; cli_options_done() frees it. Whole only for CLI_ACTION_RUN.
 * @message: on -EINVAL, one line that names the option
 * Returns: enum cli_action, -EINVAL (message), -ENOMEM. Opens nothing.
 *
 * The syntax is that of Go's flag package: -name is --name, a value follows '=' or is the next
 * argument, booleans take only '='. A number may follow the letter of an option at once, as in -F99. Any
 * other argument is an error. argp's parser is
 * not used, since it accepts abbreviations and has no '=false'; its formatter prints the help.
 */
int cli_options_parse(int argc, char *const *argv, uint32_t max_rate_hz, struct cli_options *ret,
                      char message[CLI_MESSAGE_MAX]);
void cli_options_done(struct cli_options *o);
/**
 * cli_parse_bool - true, yes, on, 1, t, y and their opposites; the case of letters is ignored
 * Returns: 0, -EINVAL.
 */
int cli_parse_bool(const char *s, bool *ret);

/**
 * cli_parse_duration - a duration as Go's time.ParseDuration reads it ("300ms", "1m30s", "-1.5h"), or
 * a number of seconds ("10").
 * Returns: 0, -EINVAL (not of that form), -ERANGE (more than 292 years).
 */
int cli_parse_duration(const char *s, int64_t *ret_ns);

/**
 * cli_parse_u64 - a decimal number, digits only
 * Returns: 0, -EINVAL (anything else), -ERANGE.
 */
int cli_parse_u64(const char *s, uint64_t *ret);

/**
 * cli_parse_size - a number of bytes: digits, then nothing, K, M or G (powers of 1024)
 * Returns: 0, -EINVAL (not of that form), -ERANGE (2^64 and more).
 */
int cli_parse_size(const char *s, uint64_t *ret);
/**
 * cli_parse_address - a hexadecimal number, with or without 0x
 * Returns: 0, -EINVAL, -ERANGE.
 */
int cli_parse_address(const char *s, uint64_t *ret);

/* "1.25 s", "12.0 ms"; always terminated. */
void cli_format_duration(uint64_t ns, char *ret, size_t size);
/* Like above for @unit "nanoseconds"; other units get SI prefixes: "1.25 G". */
void cli_format_weight(uint64_t weight, const char *unit, char *ret, size_t size);

/* Returns "" for 1, else "s". */
const char *cli_plural(uint64_t n);
/* "1,912" */
#define CLI_COUNT_MAX 32
void cli_format_count(uint64_t n, char ret[CLI_COUNT_MAX]);
#define CLI_PCT_MAX 16
/**
 * cli_format_pct - a share with the precision that the number of samples gives it: "86"
 * @samples: below 1,000 whole percents, below 100,000 tenths, else hundredths
 * A share that is neither 0 nor 100 is never shown as such, but as "<1" or ">99".
 */
void cli_format_pct(double pct, uint64_t samples, char ret[CLI_PCT_MAX]);

/**
 * cli_clean_name - a process's name as part of a file name
 * @name: any bytes. Blanks around it are removed. ASCII letters, digits, "._-+@" and other
 *        UTF-8 that a terminal shows are kept; the rest, and a leading '.' or '-', becomes '_'.
 * @ret:  at most @size - 1 bytes, cut at the end of a character; "" if nothing is left
 */
void cli_clean_name(const char *name, char *ret, size_t size);

/**
 * cli_output_name - <comm>-<YYYYMMDDHHMM><suffix>
 * @comm:   cleaned; NULL: left out, with its '-'
 * @number: from 2 on it is put before the suffix
 * @suffix: "-on-cpu.pb.gz"
 * Returns: 0, -ENAMETOOLONG.
 */
int cli_output_name(const char *comm, const struct tm *when, unsigned int number,
                    const char *suffix, char *ret, size_t size);

/* The destination of one product; filled by cli_outputs_open(). */
struct cli_output {
	bool wanted;
	int fd;           /* duplicate of standard output, or -EBADF */
	const char *path; /* as given, borrowed; NULL: a made-up name */
	bool made;        /* the library writes @hidden, cli_output_publish() renames it to @name */
	const char *comm; /* of the made name, borrowed; NULL: none */
	const char *suffix; /* of the made name */
	struct tm when;     /* of the made name */
	char name[NAME_MAX + 1];
	char hidden[64];
	/* The file at @path before the capture; all 0 if there is none. */
	bool special; /* a device or a pipe, not a regular file */
	dev_t dev;
	ino_t ino;
};
struct cli_outputs {
	struct cli_output of[CLI_PRODUCT_CNT];
	unsigned int number; /* of all made names */
};

/**
 * cli_outputs_open - decide the destination of each product, before the capture
 * @comm: for made-up names, must outlive @outs; NULL: none
 * A profile has standard output for itself: the output of a command goes to standard error then.
 * Metrics share standard output.
 * Returns: enum cli_exit; has printed the reason if it is not CLI_DONE. Creates nothing.
 * cli_outputs_done() must be called in any case.
 */
int cli_outputs_open(struct cli_outputs *outs, const struct cli_options *o, const char *comm);
/* "profile", "off-CPU profile", "metrics"; "--profile-output" … */
const char *cli_product_name(enum cli_product p);
const char *cli_product_option(enum cli_product p);
/* Returns the path for the library; NULL: it gets the descriptor. */
const char *cli_output_target(const struct cli_output *out);
/* Renames the outputs that were written and have made-up names, to these or to the next ones that are free.
 * @error: 0 or a negative errno each */
void cli_outputs_publish(struct cli_outputs *outs, const bool written[CLI_PRODUCT_CNT],
                         int error[CLI_PRODUCT_CNT]);
/* Returns the name of the destination for messages. */
const char *cli_output_path(const struct cli_output *out);
/**
 * cli_outputs_find - the output that the library knows by another name than its user
 * @object: member of a struct pfa_error: a hidden file, or "descriptor 5"
 * Returns: NULL if it is none of these.
 */
const struct cli_output *cli_outputs_find(const struct cli_outputs *outs, const char *object);
/* Removes files with hidden names. May be called by signal handlers. */
void cli_outputs_remove(const struct cli_outputs *outs);
void cli_outputs_done(struct cli_outputs *outs);

/* A process of /proc. */
struct cli_process {
	int32_t pid, parent;
	char state;                   /* 'Z': a zombie */
	bool kthread;                 /* a thread of the kernel */
	char comm[CLI_PROC_COMM_MAX]; /* of kernel threads longer than 15 bytes */
	uint64_t start, ticks;        /* clock ticks: start since boot; CPU time */
	uint64_t ended;               /* CPU time of its children that ended and were waited for */
};
/* Returns the next word of @p as a number, 0 if it is none, and moves past it. */
uint64_t cli_next_number(const char **p);
/* Returns 0, or -ENOENT if there is no such process. */
int cli_process_read(int32_t pid, struct cli_process *ret);
/* Adds a number unless the list has it. Returns 0, -E2BIG (PFA_PIDS_MAX are in it) or -ENOMEM. */
int cli_numbers_add(struct cli_numbers *list, int32_t number);
/* Adds the processes that have the names of --pid to o->pids, and prints them. Returns enum cli_exit;
 * has printed the reason if it is not CLI_DONE. */
int cli_pids_find(struct cli_options *o);
/* Fills @ret with descriptors of @pid and of its descendants at this moment. Returns how many. */
size_t cli_process_tree(int32_t pid, int *ret, size_t max);

/* Fate of a command that still runs at the end of the capture. */
enum cli_command_end {
	CLI_COMMAND_STAYS = 0,  /* left running */
	CLI_COMMAND_AWAITS = 1, /* given a moment: it got the signal that ended the capture too */
	CLI_COMMAND_ENDS = 2,   /* SIGTERM, then SIGKILL */
};
/* Prints how the command ended, unless @quiet, after what @how says. Returns the exit status that it gives perf-agent: its
 * own, 128 + the signal that ended it, or 0 if it still runs or had to be ended. */
int cli_command_finish(struct pfa_session *s, const char *comm, enum cli_command_end how,
                       bool quiet);

/* Returns an errno in words with its name, "no such file or directory (ENOENT)", until the next
 * call. */
const char *cli_error(int number);
/* One line on standard error: "perf-agent: ", the text with control characters as '?', a newline.
 */
void cli_say(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* As cli_say, without "perf-agent: ". */
void cli_say_plain(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* Replaces control characters and direction controls (utf8_is_control) and bytes that are not UTF-8 in
 * place, each by one '?'. */
void cli_make_printable(char *s);
/* Shortens @s in place to @columns with ".." at its end (@keep_end: at its start). Never cuts a
 * UTF-8 sequence. */
void cli_shorten(char *s, size_t columns, bool keep_end);
size_t cli_columns(const char *s);
/* Returns the columns of the terminal on standard error, else COLUMNS of the environment, else
 * CLI_WIDTH_DEFAULT. */
size_t cli_terminal_width(void);
/* Returns COLUMNS of the environment; 0: it is not set, or out of bounds. */
uint32_t cli_columns_given(void);

/* "/usr/lib/libc.so.6" -> "libc.so.6"; names such as "[kernel]" and "//anon" stay. */
const char *cli_base_name(const char *path);
/* @s made printable and cut to @columns. */
void cli_fit(const char *s, size_t columns, char ret[CLI_NAME_BYTES_MAX]);
/* Returns the columns of @s in a table, after cli_make_printable. */
size_t cli_columns_printed(const char *s);

/* ---- statistics: the lines "key: value" of a profile; @kind: enum pfa_kind ---- */

/* Returns the value of @key, or NULL. */
const char *cli_statistic(const struct pfa_session *s, uint32_t kind, const char *key);
double cli_statistic_number(const struct pfa_session *s, uint32_t kind, const char *key,
                            double otherwise);

/* ---- quality ---- */

enum cli_verdict { /* numbers of enum pfa_level */
	           CLI_GOOD = PFA_LEVEL_GOOD,
	           CLI_FAIR = PFA_LEVEL_FAIR,
	           CLI_POOR = PFA_LEVEL_POOR,
	           CLI_NOTHING = PFA_LEVEL_NONE,
};
#define CLI_DEFECTS_MAX 24
struct cli_defect {
	char id[32]; /* "few_samples"; stable */
	enum cli_verdict level;
	char text[1536];
	char remedy[128]; /* "": none */
};
struct cli_quality {
	uint32_t kind;          /* enum pfa_kind */
	uint64_t samples, lost; /* without those of perf-agent itself */
	uint64_t offcpu_ns;     /* OFFCPU */
	double overhead_pct, idle_pct;
	enum cli_verdict verdict;
	size_t n;
	struct cli_defect defects[CLI_DEFECTS_MAX];
};
/**
 * cli_quality_new - judge a profile, after pfa_stop
 * @ret: for free()
 * Returns: 0, -ENOMEM, or an error of the library.
 */
int cli_quality_new(const struct pfa_session *s, uint32_t kind, struct cli_quality **ret);
/* "good" */
const char *cli_verdict_name(enum cli_verdict v);
/**
 * cli_quality_write - write --quality-output, after pfa_stop
 * Returns: 0 or a negative errno. A file is replaced at the end only.
 */
int cli_quality_write(const struct pfa_session *s, const struct cli_outputs *outs);
/* The CPU time of the children of --pid, before the capture. NULL: there is nothing to compare.
 * For free(). */
struct cli_children *cli_children_new(const struct cli_options *o);
/* Adds the children that have used the CPU since to the statistics of the profile. @before: NULL: none */
void cli_children_add(struct pfa_session *s, const struct cli_children *before,
                      const struct cli_options *o, uint64_t elapsed_ns);
/* Returns how many processes of the target are stopped (kill -STOP); @ret gets their numbers. */
size_t cli_stopped(const struct cli_options *o, char *ret, size_t size);
/* Returns the samples of perf-agent itself, which the library counts as dropped. */
uint64_t cli_own_samples(const struct pfa_session *s);

/* ---- tables ---- */

enum {
	CLI_TABLE_ROWS = 10,
	CLI_TABLE_COLUMNS = 8,
};
struct cli_column {
	const char *title;
	bool right;        /* numbers */
	size_t min, max;   /* cells are cut to fit, in the middle, down to min (0: never) */
	unsigned int drop; /* left out on narrow terminals, 1 first; 0: never */
};
struct cli_table {
	const struct cli_column *columns;
	size_t n_columns, n; /* n: rows */
	char cells[CLI_TABLE_ROWS][CLI_TABLE_COLUMNS][CLI_NAME_BYTES_MAX];
};
/**
 * cli_table_new - a table without rows
 * @columns: columns[n_columns], at most CLI_TABLE_COLUMNS; must live as long
 * @ret: for free()
 * Returns: 0, -ENOMEM.
 */
int cli_table_new(const struct cli_column *columns, size_t n_columns, struct cli_table **ret);
/* Sets a cell of the last row; one of column 0 begins a row. Rows beyond CLI_TABLE_ROWS replace the
 * last. Any bytes. */
void cli_table_add(struct cli_table *t, size_t column, const char *text);
/* Prints titles and rows in the width of the terminal; nothing without rows. Columns without text
 * are left out. */
void cli_table_print(const struct cli_table *t);

/* ---- report ---- */

/* Prints the table of functions (of the functions that block), or why there is none. */
void cli_report_table(const struct pfa_session *s, const struct cli_options *o, uint32_t kind);
/* The tables alone. Return the number of rows, or a negative errno. */
int cli_report_function_table(const struct pfa_session *s, const struct cli_options *o,
                              const struct pfa_stats *st);
int cli_report_site_table(const struct pfa_session *s, const struct cli_options *o,
                          const struct pfa_stats *st);
/* Prints the verdict, then the defects. @cost: with the CPU time of perf-agent itself */
void cli_report_quality(const struct pfa_session *s, const struct cli_options *o,
                        const struct cli_quality *q, bool cost);
/* Prints the command that shows a profile. @pprof: name that of pprof too */
void cli_report_reading(const char *path, bool pprof);
/* Quotes a word for a shell, if it has to be. */
void cli_quote(const char *word, char *ret, size_t size);

/* ---- progress ---- */

/* Whether standard error shows colours: a terminal, and NO_COLOR is not set. */
bool cli_colours(void);
#define CLI_COLOUR_GOOD "\033[32m"
#define CLI_COLOUR_FAIR "\033[33m"
#define CLI_COLOUR_POOR "\033[31m"
#define CLI_COLOUR_OFF  "\033[0m"

struct cli_progress {
	const struct pfa_session *session; /* NULL: no line */
	bool on;                           /* standard error is a terminal that can redraw a line */
	bool samples;                      /* of --profile */
	uint64_t start_ns;                 /* of the capture, CLOCK_MONOTONIC */
	uint64_t duration_ns;              /* 0: no end by time */
	uint64_t next_ns;                  /* when the line is to be drawn; UINT64_MAX: never */
	size_t width;                      /* columns of the line on the terminal */
};
void cli_progress_init(struct cli_progress *p, const struct pfa_session *s, bool samples,
                       uint64_t start_ns, uint64_t duration_ns);
/* Draws the line if it is due. */
void cli_progress_show(struct cli_progress *p, uint64_t now_ns);
void cli_progress_remove(struct cli_progress *p);

/* Prints what is captured, of which target, and until when.
 * @comm: name of the target, or ""; @duration_ns: 0: no end by time */
void cli_say_start(const struct cli_options *o, const struct pfa_session *s, const char *comm,
                   uint64_t duration_ns);

/* An option of a command other than a capture. */
struct cli_command_option {
	const char *command, *name;
	char short_name; /* 0: none */
	bool takes_value;
};
/* Returns the option with this name, of @len bytes, of a command; NULL: none. */
const struct cli_command_option *cli_command_option(const char *command, const char *name,
                                                    size_t len);

/**
 * cli_page - show text on the terminal of standard output, by $PAGER or less if it is there
 * Returns: 0, or a negative errno: it could not be written.
 */
int cli_page(const void *text, size_t len);

/* Runs perf-agent report; argv[1] is its name. Returns enum cli_exit. */
int cli_report_files(int argc, char *const *argv);

/* Runs perf-agent unwind-info; argv[1] is its name. Returns enum cli_exit. */
int cli_unwind_info(int argc, char *const *argv);

/* Fills in all but the outputs. @p: PFA_OPTIONS_INIT */
void cli_session_options(const struct cli_options *o, struct pfa_options *p);
/* Runs one capture. Returns enum cli_exit. */
int cli_run(const struct cli_options *o);

#endif
