/* SPDX-License-Identifier: Apache-2.0 */
/*
 * perfagent_report.h - reports of profiles that are in files
 *
 * Reads pprof profiles (of perf-agent, of Go programs and of other tools), folded stacks and
 * perf.data, and writes tables for people or programs. Needs no privileges and no session. The
 * conventions are those of perfagent.h.
 *
 *     const char *files[] = {"app-on-cpu.pb.gz", NULL};
 *     struct pfa_report_options o = PFA_REPORT_OPTIONS_INIT;
 *     struct pfa_output to = {0};
 *     struct pfa_error err = {0};
 *
 *     o.files = files;
 *     o.rows = 20;
 *     to.fd = STDOUT_FILENO;
 *     if (pfa_report(&o, &to, &err) < 0)
 *             fprintf(stderr, "%s\n", err.message);
 *
 * Files are untrusted: memory is bounded, and names of functions are written so that no terminal
 * obeys them.
 */
#ifndef PERFAGENT_REPORT_H
#define PERFAGENT_REPORT_H

#include <perfagent/perfagent.h>

#ifdef __cplusplus
extern "C" {
#endif

enum pfa_report_format {
	PFA_REPORT_TEXT = 0,
	PFA_REPORT_MARKDOWN = 1,
	PFA_REPORT_JSON = 2, /* docs/report.schema.json */
	/* The profiles themselves, merged and filtered, instead of a report: */
	PFA_REPORT_FOLDED = 3, /* numbers of samples, else microseconds; or value */
	PFA_REPORT_PPROF = 4,
	PFA_REPORT_HTML = 5, /* flame graphs; the only one for values of different types */
	PFA_REPORT_SVG = 6,  /* a flame graph */
};

enum pfa_report_view {
	PFA_REPORT_TOP = 0,  /* functions */
	PFA_REPORT_PEEK = 1, /* callers and callees of the functions that match subject */
	PFA_REPORT_TREE = 2, /* calls, from the outermost function down */
	PFA_REPORT_BY = 3,   /* subject: process, thread, module, file, line, or a label's key */
	PFA_REPORT_DIFF = 4, /* changes from base to files; also HTML and SVG */
	/* Source lines and instructions of the functions that match subject. Reads the source files
	 * and programs that the profile names, and runs objdump (binutils) from PATH. */
	PFA_REPORT_ANNOTATE = 5,
};

enum pfa_report_sort {
	PFA_REPORT_BY_SELF = 0,
	PFA_REPORT_BY_CUM = 1,
};

enum {
	PFA_REPORT_FULL_NAMES = 1 << 0, /* TEXT, MARKDOWN: template arguments are not folded */
	PFA_REPORT_COLOURS = 1 << 1,    /* TEXT: with escape sequences of terminals */
	/* TREE: code without names has a row for each address, not for each file */
	PFA_REPORT_ADDRESSES = 1 << 2,
};

struct pfa_report_options {
	size_t size; /* sizeof(struct pfa_report_options); PFA_REPORT_OPTIONS_INIT sets it */

	/* Required: at most 1,024 paths, NULL-terminated; "-": standard input. Profiles with the
	 * same types of values are merged; the others have tables of their own. */
	const char *const *files;
	uint32_t format; /* enum pfa_report_format */
	uint32_t sort;   /* enum pfa_report_sort */
	uint32_t flags;  /* PFA_REPORT_… */
	uint32_t rows;   /* of a table, at most; 0: all */
	uint32_t width;  /* TEXT: columns of a line; 0: names are not shortened */
	/* TREE: nodes below so many thousandths of the total are left out; 0: none is. */
	uint32_t min_permille;
	uint32_t view; /* enum pfa_report_view; TEXT, MARKDOWN and JSON only */
	uint32_t reserved0;
	/* PEEK, ANNOTATE: the name of a function, or a regular expression if none has it; BY: see
	 * there. */
	const char *subject;
	/* DIFF: the earlier profiles, as files. They are scaled to the duration of the later ones,
	 * numbers of samples also to their rate; without durations, to their total. */
	const char *const *base;
	/* Name of the values, such as "samples", "cpu" or "alloc_space"; NULL: the profile's
	 * default. Folded stacks have "value", and what of "samples", "cpu" and "offcpu" (both in
	 * microseconds) is given here. */
	const char *value;

	/* Filters as go tool pprof has them; NULL: none. Regular expressions have the syntax of
	 * Go; Unicode classes and flags other than (?i) at the start are refused. A frame matches
	 * by function, source file or path of its module. */
	const char *focus, *ignore;       /* keep samples with a matching frame; drop them */
	const char *hide, *show;          /* remove matching frames; all others */
	const char *tagfocus, *tagignore; /* labels: "KEY=REGEX", "KEY=N", "KEY=N:M", "N:" */

	/* NULL-terminated, or NULL. Directories that are searched first: for source files (ANNOTATE),
	 * by their whole path and without its first folders; for debug files (ANNOTATE, and names of
	 * a perf.data), before /usr/lib/debug. */
	const char *const *source_dirs;
	const char *const *debug_dirs;
};
#define PFA_REPORT_OPTIONS_INIT                                                                    \
	{                                                                                          \
		.size = sizeof(struct pfa_report_options)                                          \
	}

/* Shortens the name of a function as reports do: template arguments are folded, "std::map<…>::at(int)", and
 * a name of more than @columns (0: any) loses the middle of its qualifier, else its own. Control characters
 * and bytes that are not UTF-8 become '?'. @ret: ret[size], size at least 1; longer names are cut. Returns
 * the bytes of *@ret without its NUL; 0 without memory. */
PFA_API size_t pfa_short_name(const char *name, uint32_t columns, char *ret, size_t size);

/* Checks the options without reading a file. Returns 0, -EINVAL, -E2BIG or -ENOMEM. */
PFA_API int pfa_report_check(const struct pfa_report_options *o, struct pfa_error *err);

/* Reads the files and writes the report. @to: exactly one of path, fd and write is set. It is checked
 * before a file is read, and written once, at the end; a path is replaced as a whole or not at all.
 * Returns 0, or:
 *
 *     -EINVAL   an option is wrong, or a file is no profile (the message has the offset of the
 *               damage)
 *     -ENOENT   no such file, or no sample is left after the filters
 *     -E2BIG    a file or the report is too large
 *     -ENOMEM   out of memory
 *
 * Other codes are those of open(2), read(2) and write(2), or what the call-back returned. If the
 * output cannot be written, the cause of @err is PFA_CAUSE_OUTPUT. */
PFA_API int pfa_report(const struct pfa_report_options *o, const struct pfa_output *to,
                       struct pfa_error *err);

#ifdef __cplusplus
}
#endif
#endif
