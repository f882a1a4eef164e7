/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cli - words for people. Knows the library by its public header alone. One thread.
 *
 *   cli-options.c   words of the command line -> struct cli_options; --help
 *   cli-duration.c  numbers as people write and read them
 *   cli-name.c      names of output files
 *   cli-output.c    where the profile goes
 *   cli-say.c       lines on standard error
 *   cli-run.c       one capture, from options to exit status
 *   cli-report.c    what stands on standard error at its end
 *   cli-unwind.c    perf-agent unwind-info
 */
#ifndef CLI_PRIV_H
#define CLI_PRIV_H

#include <perfagent/perfagent.h>

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <time.h>

/* Exit status; documented in the man page. */
enum cli_exit {
	CLI_DONE = 0,   /* what was asked for was written */
	CLI_FAILED = 1, /* it was not */
	CLI_USAGE = 2,  /* the command line is wrong; nothing was opened */
};

enum {
	CLI_NAME_MAX = 128,       /* a name of a process in texts and in file names */
	CLI_WIDTH_DEFAULT = 100,  /* columns, where standard error is not a terminal */
	CLI_PID_MAX = 0x7fffffff, /* what fits a pid_t; whether it exists is the kernel's answer */
	CLI_RATE_DEFAULT_HZ = 99,
	CLI_MESSAGE_MAX = 512,
};

/* Strings are borrowed from argv; the array @tags is owned. */
struct cli_options {
	bool profile;
	bool all;
	bool kernel_stacks;
	int32_t pid;          /* 0: not given */
	uint64_t duration_ns; /* 0: not given */
	uint32_t sample_rate_hz;
	uint32_t event;              /* enum pfa_event */
	const char *profile_output;  /* NULL: a name is made */
	const char **tags;           /* NULL-terminated */
	char *const *command;        /* NULL-terminated; NULL: none */
	uint32_t unwind;             /* enum pfa_unwind */
	uint64_t table_budget_bytes; /* 0: not given */
	uint32_t ring_bytes, count_entries,
	        range_entries; /* forced by tests; 0: the library's choice */
};

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
 * Words as Go's flag package reads them: -name is --name, the value follows '=' or is the next
 * word, booleans take only '='. Unlike there, a word that is no option is an error. Not argp's
 * parser, which accepts abbreviations and knows no '=false'; its formatter prints the help.
 */
int cli_options_parse(int argc, char *const *argv, uint32_t max_rate_hz, struct cli_options *ret,
                      char message[CLI_MESSAGE_MAX]);
void cli_options_done(struct cli_options *o);
/* Whether @word ("-x…", "--x…", "--x=…") is an option of a capture. */
bool cli_options_has(const char *word);
/* 0 or -EIO. */
int cli_options_help(FILE *to);

/**
 * cli_parse_bool - a boolean as Go's strconv.ParseBool reads it
 * Returns: 0, -EINVAL.
 */
int cli_parse_bool(const char *s, bool *ret);

/**
 * cli_parse_duration - a duration as Go's time.ParseDuration reads it ("300ms", "1m30s", "-1.5h",
 * "0") Returns: 0, -EINVAL (not of that form), -ERANGE (more than 292 years).
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

/**
 * cli_clean_name - a process's name as part of a file name
 * @name: any bytes; blanks around it are dropped, '/', control characters and a leading '.' or '-'
 * become '_'
 * @ret:  at most @size - 1 bytes, never a part of an UTF-8 sequence at its end; "" when nothing is
 * left
 */
void cli_clean_name(const char *name, char *ret, size_t size);

/**
 * cli_profile_name - <comm>-<YYYYMMDDHHMM>-on-cpu.pb.gz
 * @comm:   cleaned; NULL = left out, with its '-'
 * @number: from 2 on it stands before the suffix
 * Returns: 0, -ENAMETOOLONG.
 */
int cli_profile_name(const char *comm, const struct tm *when, unsigned int number, char *ret,
                     size_t size);

/* Where the profile goes; filled by cli_output_open(). */
struct cli_output {
	int fd;           /* duplicate of standard output, or -EBADF */
	const char *path; /* as given, borrowed; NULL: a name is made */
	bool made;        /* the library writes @hidden, cli_output_publish() moves it to @name */
	const char *comm; /* of the made name, borrowed; NULL: none */
	struct tm when;   /* of the made name */
	unsigned int number; /* of the made name */
	char name[NAME_MAX + 1];
	char hidden[64];
};

/**
 * cli_output_open - decide where the profile goes, before anything is sampled
 * @path: as given: a path, "-" (standard output is taken for the profile alone, everything else
 * that goes there, a command's output too, goes to standard error), or NULL: a name is made
 * @comm: for the made name, must outlive @out; NULL: none
 * Returns: enum cli_exit; has said why when it is not CLI_DONE. Creates nothing. cli_output_done()
 * in any case.
 */
int cli_output_open(struct cli_output *out, const char *path, const char *comm);
/* Moves a profile with a made name to it, or to the next that is free: 0, negative errno. Else
 * nothing: 0. */
int cli_output_publish(struct cli_output *out);
/* For people. */
const char *cli_output_path(const struct cli_output *out);
/**
 * cli_output_words - a message of the library with the output as people know it
 * @message: may name the hidden file, or a descriptor's number
 * @ret:     the same with the final name, or "standard output"; cut at @size
 */
void cli_output_words(const struct cli_output *out, const char *message, char *ret, size_t size);
void cli_output_done(struct cli_output *out);

/* One line on standard error: "perf-agent: ", the text with control characters as '?', a newline.
 */
void cli_say(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* The same without "perf-agent: ". */
void cli_say_plain(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* Replaces in place what a terminal would obey: C0, DEL, and C1 as UTF-8. */
void cli_make_printable(char *s);
/* Shortens @s in place to @columns, ".." at its end (or start: keep_end), whole UTF-8 sequences. */
void cli_shorten(char *s, size_t columns, bool keep_end);
size_t cli_columns(const char *s);
/* Of the terminal on standard error, else CLI_WIDTH_DEFAULT. */
size_t cli_terminal_width(void);

/* Samples of perf-agent itself: left out on purpose, and part of what the library calls dropped. */
uint64_t cli_own_samples(const struct pfa_session *s);
/* "" after 1, else "s". */
const char *cli_plural(uint64_t n);
/* Table of functions, losses: after pfa_stop. @o: of this capture. */
void cli_report_functions(const struct pfa_session *s, const struct cli_options *o);
/* The quality line. */
void cli_report_quality(const struct pfa_session *s);

/* perf-agent unwind-info: argv[1] is its name. Returns enum cli_exit. */
int cli_unwind_info(int argc, char *const *argv);

/* One capture. Returns enum cli_exit. */
int cli_run(const struct cli_options *o);

#endif
