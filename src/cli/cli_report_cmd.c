/* SPDX-License-Identifier: Apache-2.0 */
/* cli_report_cmd.c - perf-agent report [OPTION...] FILE... */
#include "cli_priv.h"

#include <perfagent/perfagent_report.h>

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#define COMMAND      "report"
#define ROWS_DEFAULT 40
#define MIN_PERMILLE 5

struct words {
	struct pfa_report_options o;
	const char **files; /* owned; NULL-terminated */
	size_t n_files;
	const char *before[2];                  /* of --diff, NULL-terminated */
	const char **source_dirs, **debug_dirs; /* owned; NULL-terminated */
	size_t n_source_dirs, n_debug_dirs;
	const char *output; /* NULL: standard output */
	bool has_format;
	int page_error;   /* negative errno of the terminal */
	const char *view; /* name of its option; NULL: the table of functions */
};

/* Options whose value is a text that the library reads. */
static const struct {
	const char *name;
	size_t offset; /* of a const char * in struct pfa_report_options */
} text_options[] = {
        {"focus", offsetof(struct pfa_report_options, focus)},
        {"ignore", offsetof(struct pfa_report_options, ignore)},
        {"hide", offsetof(struct pfa_report_options, hide)},
        {"show", offsetof(struct pfa_report_options, show)},
        {"tagfocus", offsetof(struct pfa_report_options, tagfocus)},
        {"tagignore", offsetof(struct pfa_report_options, tagignore)},
        {"value", offsetof(struct pfa_report_options, value)},
};

/* Views; the library's default is the table of functions. */
static const struct {
	const char *name;
	uint32_t view;
	bool has_subject;
} views[] = {
        {"peek", PFA_REPORT_PEEK, true},         {"by", PFA_REPORT_BY, true},
        {"annotate", PFA_REPORT_ANNOTATE, true}, {"tree", PFA_REPORT_TREE, false},
        {"diff", PFA_REPORT_DIFF, false},
};
#define VIEW_CNT (sizeof(views) / sizeof(views[0]))

/* Formats; the end of a file's name selects one as well. */
static const struct {
	const char *name, *suffix;
	uint32_t format;
} formats[] = {
        {"text", ".txt", PFA_REPORT_TEXT},     {"markdown", ".md", PFA_REPORT_MARKDOWN},
        {"json", ".json", PFA_REPORT_JSON},    {"folded", ".folded", PFA_REPORT_FOLDED},
        {"pprof", ".pb.gz", PFA_REPORT_PPROF}, {"html", ".html", PFA_REPORT_HTML},
        {"svg", ".svg", PFA_REPORT_SVG},
};

#define FORMAT_CNT (sizeof(formats) / sizeof(formats[0]))
#define FORMATS    "text, markdown, json, folded, pprof, html and svg"

static bool set_text(struct words *w, const char *name, const char *value)
{
	for (size_t i = 0; i < sizeof(text_options) / sizeof(text_options[0]); i++) {
		if (strcmp(name, text_options[i].name) != 0)
			continue;
		memcpy((char *)&w->o + text_options[i].offset, &value, sizeof(value));
		return true;
	}
	return false;
}

static int set_format(struct words *w, const char *value)
{
	for (size_t i = 0; i < FORMAT_CNT; i++) {
		if (!strcmp(value, formats[i].name)) {
			w->o.format = formats[i].format;
			w->has_format = true;
			return CLI_DONE;
		}
	}
	cli_say(COMMAND ": --format: '%s' is unknown; it is one of " FORMATS, value);
	return CLI_USAGE;
}

/* .txt is any text for people or scripts, as after --folded-output. */
static bool fits(size_t row, uint32_t format)
{
	return formats[row].format == format ||
	       (formats[row].format == PFA_REPORT_TEXT &&
	        (format == PFA_REPORT_MARKDOWN || format == PFA_REPORT_FOLDED));
}

static const char *format_name(uint32_t format)
{
	size_t row = 0;

	while (formats[row].format != format)
		row++;
	return formats[row].name;
}

/* Refuses the end of a name that selects no format. */
static int refuse_end(const struct words *w)
{
	char list[256] = "";

	for (size_t i = 0; i < FORMAT_CNT; i++) {
		const size_t len = strlen(list);

		(void)snprintf(list + len, sizeof(list) - len, "%s%s (%s)", i ? ", " : "",
		               formats[i].suffix, formats[i].name); /* fits */
	}
	cli_say(COMMAND ": --output: the end of '%s' selects no format; give --format, or use %s",
	        w->output, list);
	return CLI_USAGE;
}

/* Whether a file has no end that could select a format: "out", "/dev/fd/3". */
static bool has_no_end(const char *path)
{
	const char *name = cli_base_name(path), *dot = strrchr(name, '.');

	return !dot || dot == name || !dot[1];
}

/* Selects the format by the end of the output's name; one of another format is refused. */
static int format_by_name(struct words *w)
{
	size_t row = 0;

	if (!w->output)
		return CLI_DONE;
	if (cli_suffix_is(w->output, ".data")) {
		cli_say(COMMAND
		        ": --output: '%s' is the name of a perf.data, which a report cannot "
		        "write; --format is one of " FORMATS,
		        w->output);
		return CLI_USAGE;
	}
	while (row < FORMAT_CNT && !cli_suffix_is(w->output, formats[row].suffix))
		row++;
	if (row == FORMAT_CNT)
		return w->has_format || has_no_end(w->output) ? CLI_DONE : refuse_end(w);
	if (!w->has_format) {
		w->o.format = formats[row].format;
		return CLI_DONE;
	}
	if (fits(row, w->o.format))
		return CLI_DONE;
	cli_say(COMMAND ": --output: '%s' is the name of another format than --format %s; its end "
	                "selects %s",
	        w->output, format_name(w->o.format), formats[row].name);
	return CLI_USAGE;
}

/* Checks that the format can have the view. */
static int check_format(const struct words *w)
{
	const bool tables = w->o.format == PFA_REPORT_TEXT || w->o.format == PFA_REPORT_MARKDOWN ||
	                    w->o.format == PFA_REPORT_JSON;
	const bool pictures = w->o.format == PFA_REPORT_HTML || w->o.format == PFA_REPORT_SVG;

	if (!w->view || tables || (pictures && w->o.view == PFA_REPORT_DIFF))
		return CLI_DONE;
	cli_say(COMMAND ": --%s cannot be written as %s; use text, markdown%s", w->view,
	        format_name(w->o.format),
	        w->o.view == PFA_REPORT_DIFF ? ", json, html or svg" : " or json");
	return CLI_USAGE;
}

/* Returns enum cli_exit; -1: @name is no view. */
static int set_view(struct words *w, const char *name, const char *subject)
{
	size_t i = 0;

	while (i < VIEW_CNT && strcmp(name, views[i].name) != 0)
		i++;
	if (i == VIEW_CNT)
		return -1;
	if (w->view && strcmp(w->view, name) != 0) {
		cli_say(COMMAND ": --%s and --%s are two views; one at a time", w->view, name);
		return CLI_USAGE;
	}
	w->view = views[i].name;
	w->o.view = views[i].view;
	w->o.subject = subject;
	return CLI_DONE;
}

/* "0.5", "2%": percent of the total, in tenths. */
static int set_min_share(struct words *w, const char *value)
{
	char *end;
	const double pct = strtod(value, &end);

	if (*end == '%')
		end++;
	if (*end || end == value || !(pct >= 0 && pct <= 100)) {
		cli_say(COMMAND ": --min-share: '%s' is no percentage from 0 to 100", value);
		return CLI_USAGE;
	}
	w->o.min_permille = (uint32_t)(pct * 10 + 0.5);
	return CLI_DONE;
}

static int set_rows(struct words *w, const char *value)
{
	uint64_t n;

	if (!strcmp(value, "all")) {
		w->o.rows = 0;
	} else if (cli_parse_u64(value, &n) < 0 || n == 0 || n > UINT32_MAX) {
		cli_say(COMMAND ": --rows: '%s' is not a number from 1 on, nor all", value);
		return CLI_USAGE;
	} else {
		w->o.rows = (uint32_t)n;
	}
	return CLI_DONE;
}

/* Returns enum cli_exit. */
static int set_value(struct words *w, const char *name, const char *value)
{
	const int rc = set_view(w, name, value);

	if (rc >= 0)
		return rc;
	if (set_text(w, name, value))
		return CLI_DONE;
	if (!strcmp(name, "format"))
		return set_format(w, value);
	if (!strcmp(name, "source-dir")) {
		w->source_dirs[w->n_source_dirs++] = value;
		return CLI_DONE;
	}
	if (!strcmp(name, "debug-dir")) {
		w->debug_dirs[w->n_debug_dirs++] = value;
		return CLI_DONE;
	}
	if (!strcmp(name, "rows"))
		return set_rows(w, value);
	if (!strcmp(name, "min-share"))
		return set_min_share(w, value);
	w->output = strcmp(value, "-") ? value : NULL; /* --output, the only one left */
	return CLI_DONE;
}

static void set_flag(struct words *w, uint32_t flag, bool on)
{
	w->o.flags = on ? w->o.flags | flag : w->o.flags & ~flag;
}

static int set_bool(struct words *w, const char *name, const char *value)
{
	bool on = true;

	if (value && cli_parse_bool(value, &on) < 0) {
		cli_say(COMMAND ": --%s: '%s' is neither true nor false", name, value);
		return CLI_USAGE;
	}
	if (!strcmp(name, "tree") || !strcmp(name, "diff"))
		return on ? set_view(w, name, NULL) : CLI_DONE;
	if (!strcmp(name, "cum"))
		w->o.sort = on ? PFA_REPORT_BY_CUM : PFA_REPORT_BY_SELF;
	else
		set_flag(w,
		         !strcmp(name, "addresses") ? PFA_REPORT_ADDRESSES : PFA_REPORT_FULL_NAMES,
		         on);
	return CLI_DONE;
}

/* @name: @len bytes in @word */
static int refuse_option(const char *word, const char *name, size_t len)
{
	const char *meant = cli_suggest_option(COMMAND, name, len);

	if (cli_options_has(word))
		cli_say(COMMAND ": %s is an option of a capture; see perf-agent report --help",
		        word);
	else if (meant)
		cli_say(COMMAND ": unknown option %.*s; did you mean --%s?",
		        (int)(name + len - word), word, meant);
	else
		cli_say(COMMAND ": unknown option %.*s; see perf-agent report --help",
		        (int)(name + len - word), word);
	return CLI_USAGE;
}

/* Reads an option. @next: the argument after it, or NULL. *@used: arguments read. */
static int read_option(struct words *w, const char *word, const char *next, int *used)
{
	const char *name = word + (word[1] == '-' ? 2 : 1);
	const size_t len = strcspn(name, "=");
	const char *value = name[len] ? name + len + 1 : NULL;
	const struct cli_command_option *row = cli_command_option(COMMAND, name, len);

	*used = 1;
	if (!row)
		return refuse_option(word, name, len);
	if (!row->takes_value)
		return set_bool(w, row->name, value);
	if (!value) {
		value = next;
		*used = 2;
	}
	if (!value || !*value) {
		cli_say(COMMAND ": --%s needs a value", row->name);
		return CLI_USAGE;
	}
	return set_value(w, row->name, value);
}

/* Checks the use of standard input. */
static int check_input(const struct words *w)
{
	size_t n = 0;

	for (size_t i = 0; i < w->n_files; i++)
		n += !strcmp(w->files[i], "-");
	if (n > 1)
		cli_say(COMMAND ": '-' is given twice; standard input can be read once");
	else if (n && isatty(STDIN_FILENO))
		cli_say(COMMAND ": '-' is standard input, which is a terminal; give a file, or a "
		                "pipe such as: zcat FILE | perf-agent report -");
	else
		return CLI_DONE;
	return CLI_USAGE;
}

static int read_words(int argc, char *const *argv, struct words *w)
{
	bool options = true;
	int used, rc;

	for (int i = 2; i < argc; i += used) {
		used = 1;
		if (options && !strcmp(argv[i], "--")) {
			options = false;
		} else if (options && argv[i][0] == '-' && argv[i][1]) {
			rc = read_option(w, argv[i], argv[i + 1], &used);
			if (rc != CLI_DONE)
				return rc;
		} else {
			w->files[w->n_files++] = argv[i];
		}
	}
	if (!w->n_files) {
		cli_say(COMMAND ": no profile given: perf-agent report FILE...");
		return CLI_USAGE;
	}
	if (w->o.view == PFA_REPORT_DIFF && w->n_files != 2) {
		cli_say(COMMAND ": --diff compares two profiles, not %zu: perf-agent report --diff "
		                "BEFORE AFTER",
		        w->n_files);
		return CLI_USAGE;
	}
	if (w->n_source_dirs && w->o.view != PFA_REPORT_ANNOTATE) {
		cli_say(COMMAND ": --source-dir needs --annotate");
		return CLI_USAGE;
	}
	rc = check_input(w);
	if (rc == CLI_DONE)
		rc = format_by_name(w);
	if (rc == CLI_DONE)
		rc = check_format(w);
	if (rc != CLI_DONE)
		return rc;
	if (w->o.format == PFA_REPORT_PPROF && !w->output && isatty(STDOUT_FILENO)) {
		cli_say(COMMAND ": pprof is no text for a terminal; use --output FILE.pb.gz");
		return CLI_USAGE;
	}
	return CLI_DONE;
}

/* Returns the columns of the terminal on standard output, 0 if it is none. */
static uint32_t output_width(void)
{
	struct winsize size;

	if (!isatty(STDOUT_FILENO))
		return 0;
	if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col >= CLI_WIDTH_MIN)
		return size.ws_col;
	return cli_columns_given() ? cli_columns_given() : CLI_WIDTH_DEFAULT;
}

static int say_error(int rc, const struct pfa_error *err, const struct words *w)
{
	if (err->cause == PFA_CAUSE_OUTPUT && !w->output) {
		if (rc == -EPIPE)
			return CLI_DONE; /* "| head" has all that it wanted */
		cli_say("cannot write to standard output: %s", cli_error(-rc));
	} else {
		cli_say("%s", err->message[0] ? err->message : cli_error(-rc));
	}
	return CLI_FAILED;
}

static int show(void *arg, const void *data, size_t len)
{
	struct words *w = arg;

	w->page_error = cli_page(data, len);
	return 0;
}

/* Selects the destination; a terminal gets colours and a pager. */
static void choose_output(struct words *w, struct pfa_output *to)
{
	const char *none = getenv("NO_COLOR"), *term = getenv("TERM");

	*to = (struct pfa_output){.path = w->output};
	if (w->output)
		return;
	w->o.width = output_width();
	if (!w->o.width) {
		to->fd = STDOUT_FILENO;
		return;
	}
	if ((!none || !*none) && term && strcmp(term, "dumb") != 0)
		w->o.flags |= PFA_REPORT_COLOURS;
	to->write = show;
	to->write_arg = w;
}

static int run(struct words *w)
{
	struct pfa_output to;
	struct pfa_error err = {0};
	int rc;

	w->o.files = w->files;
	w->o.source_dirs = w->source_dirs;
	w->o.debug_dirs = w->debug_dirs;
	if (w->o.view == PFA_REPORT_DIFF) {
		w->before[0] = w->files[0];
		w->o.base = w->before;
		w->o.files = w->files + 1;
	}
	rc = pfa_report_check(&w->o, &err);
	if (rc == -EINVAL || rc == -E2BIG) {
		/* "focus: '(' is not …" names a member of the options, which is an option of ours. */
		cli_say(COMMAND ": %s%s",
		        cli_command_option(COMMAND, err.message, strcspn(err.message, ":")) ? "--"
		                                                                            : "",
		        err.message);
		return CLI_USAGE;
	}
	choose_output(w, &to);
	if (rc == 0)
		rc = pfa_report(&w->o, &to, &err);
	if (rc < 0)
		return say_error(rc, &err, w);
	if (w->page_error < 0) {
		cli_say("cannot write to standard output: %s", cli_error(-w->page_error));
		return CLI_FAILED;
	}
	return CLI_DONE;
}

int cli_report_files(int argc, char *const *argv)
{
	struct words w = {.o = PFA_REPORT_OPTIONS_INIT};
	int rc = cli_command_text(argc, argv);

	if (rc >= 0)
		return rc;
	w.files = calloc((size_t)argc + 1, sizeof(*w.files));
	w.source_dirs = calloc((size_t)argc + 1, sizeof(*w.source_dirs));
	w.debug_dirs = calloc((size_t)argc + 1, sizeof(*w.debug_dirs));
	if (w.files && w.source_dirs && w.debug_dirs) {
		w.o.rows = ROWS_DEFAULT;
		w.o.min_permille = MIN_PERMILLE;
		rc = read_words(argc, argv, &w);
		if (rc == CLI_DONE)
			rc = run(&w);
	} else {
		cli_say(COMMAND ": %s", cli_error(ENOMEM));
		rc = CLI_FAILED;
	}
	free(w.files);
	free(w.source_dirs);
	free(w.debug_dirs);
	return rc;
}
