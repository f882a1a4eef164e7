/* SPDX-License-Identifier: Apache-2.0 */
/* cli_table.c - the rows of options.def: look-up by name and by id, --help; pure */
#include "cli_priv.h"

#include <argp.h>
#include <errno.h>
#include <string.h>

static const struct cli_option_row option_rows[] = {
#define CLI_OPTION(id, name, short_name, argument, kind, completion, help, more)                   \
	{OPT_##id, name, short_name, CLI_##kind},
#define CLI_HIDDEN(id, name, argument) {OPT_##id, name, 0, CLI_VALUE},
#include "option_rows.def"
};

/* Options of the commands that are not a capture. */
static const struct cli_command_option command_option_rows[] = {
#define CLI_COMMAND_OPTION(command, name, argument, help, more)                                    \
	{command, name, 0, (argument) != NULL},
#define CLI_COMMAND_SHORT(command, name, short_name, argument, help, more)                         \
	{command, name, short_name, (argument) != NULL},
#include "option_rows.def"
};

/* For argp's formatter. Keys that are no printable character mean "no short name". */
static const struct argp_option argp_rows[] = {
#define CLI_GROUP(heading) {NULL, 0, NULL, 0, heading, 0},
#define CLI_OPTION(id, name, short_name, argument, kind, completion, help, more)                   \
	{name, (short_name) ? (short_name) : 0x100 + OPT_##id, argument, 0, help, 0},
#define CLI_HIDDEN(id, name, argument) {name, 0x100 + OPT_##id, argument, OPTION_HIDDEN, "", 0},
#define CLI_COMMAND(name, argument, help, more)                                                    \
	{NULL, 0, NULL, 0, "perf-agent " name " " argument ", " help ":", 0},                      \
	        {"perf-agent " name " --help",     0, NULL, OPTION_DOC,                            \
	         "print the help of this command", 0},
#define CLI_COMMAND_OPTION(command, name, argument, help, more) {name, 0x200, argument, 0, help, 0},
#define CLI_COMMAND_SHORT(command, name, short_name, argument, help, more)                         \
	{name, short_name, argument, 0, help, 0},
#include "option_rows.def"
        {NULL, 0, NULL, 0, NULL, 0},
};

/* Names that texts show: hidden ones are not suggested. */
static const char *const shown[] = {
#define CLI_OPTION(id, name, short_name, argument, kind, completion, help, more) name,
#include "option_rows.def"
        NULL,
};
static const char *const commands[] = {
#define CLI_COMMAND(name, argument, help, more) name,
#include "option_rows.def"
        NULL,
};

const char *cli_option_shown(const char *command, size_t i)
{
	if (!command)
		return shown[i];
	for (size_t k = 0; k < sizeof(command_option_rows) / sizeof(command_option_rows[0]); k++)
		if (!strcmp(command_option_rows[k].command, command) && i-- == 0)
			return command_option_rows[k].name;
	return NULL;
}

const char *cli_command_shown(const char *command, size_t i)
{
	(void)command;
	return commands[i];
}

const char *cli_option_name(enum cli_opt id)
{
	return option_rows[id].name; /* both are in the order of the table */
}

const struct cli_option_row *cli_option_find(const char *name, size_t len)
{
	for (size_t i = 0; i < sizeof(option_rows) / sizeof(option_rows[0]); i++) {
		const struct cli_option_row *r = &option_rows[i];

		if (strlen(r->name) == len && !memcmp(r->name, name, len))
			return r;
		if (r->short_name && len == 1 && name[0] == r->short_name)
			return r;
	}
	return NULL;
}

bool cli_options_has(const char *word)
{
	const char *name = word + (word[1] == '-' ? 2 : 1);

	return cli_option_find(name, strcspn(name, "="));
}

const char *cli_option_command(const char *name, size_t len)
{
	for (size_t i = 0; i < sizeof(command_option_rows) / sizeof(command_option_rows[0]); i++) {
		const char *known = command_option_rows[i].name;

		if (strlen(known) == len && !memcmp(known, name, len))
			return command_option_rows[i].command;
	}
	return NULL;
}

const struct cli_command_option *cli_command_option(const char *command, const char *name,
                                                    size_t len)
{
	for (size_t i = 0; i < sizeof(command_option_rows) / sizeof(command_option_rows[0]); i++) {
		const struct cli_command_option *r = &command_option_rows[i];

		if (strcmp(r->command, command) != 0)
			continue;
		if (strlen(r->name) == len && !memcmp(r->name, name, len))
			return r;
		if (r->short_name && len == 1 && *name == r->short_name)
			return r;
	}
	return NULL;
}

/* Texts of the help of a command: argp's .args_doc, and its .doc with examples. */
static const struct {
	const char *name, *usage, *doc;
} command_texts[] = {
        {"report", "FILE...",
         "Prints what is in profiles: pprof, perf.data or folded stacks; - is standard input.\n\n"
         "  perf-agent report app.pb.gz\n"
         "  perf-agent report --focus parse --tree app.pb.gz"
         "\v"
         "docs/report.md explains the tables. Options of a capture: perf-agent --help."},
        {"unwind-info", "FILE",
         "Describes the unwind table of a program or library.\n\n"
         "  perf-agent unwind-info /usr/bin/python3\n"
         "  perf-agent unwind-info --pc 0x1234 ./program"
         "\v"
         "docs/unwinding.md explains the lines. Options of a capture: perf-agent --help."},
        {"top", "TARGET",
         "Shows each second where functions, processes and threads spend their time.\n\n"
         "  perf-agent top -p 1234\n"
         "  perf-agent top --offcpu -- ./program"
         "\v"
         "Keys: arrows, Enter callers, 1-4 pages, m mode, s c t sort, / search, p pause, "
         "w write, ? help, q quit.\n"
         "Standard input and output must be a terminal. Outputs are for a capture: perf-agent "
         "--help."},
};
#define COMMAND_CNT (sizeof(command_texts) / sizeof(command_texts[0]))

/* Whether top takes this option of a capture; outputs are in a group that it does not have. */
static bool is_for_top(const struct argp_option *row)
{
	static const enum cli_opt others[] = {OPT_PMU, OPT_SCHED, OPT_DURATION, OPT_PER_PID,
	                                      OPT_KERNEL_THREADS};

	for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++)
		if (!strcmp(row->name, cli_option_name(others[i])))
			return false;
	return true;
}

/* Adds the capture options that top takes: those of the first groups. */
static void add_for_top(struct argp_option *own)
{
	size_t n = 0;

	for (const struct argp_option *row = argp_rows; n < CLI_COMMAND_OPTIONS_MAX; row++) {
		if (!row->name && row->doc && !strcmp(row->doc, "Output:"))
			break;
		if (!row->name || is_for_top(row))
			own[n++] = *row;
	}
	own[0].doc = "Modes (default: both):";
}

int cli_command_help(FILE *to, const char *command)
{
	struct argp_option own[CLI_COMMAND_OPTIONS_MAX + 1] = {0};
	struct argp argp = {.options = own};
	const struct argp_option *row = argp_rows;
	char name[64];
	size_t n = 0, text = 0, len;

	while (strcmp(command_texts[text].name, command) != 0)
		text++;
	argp.args_doc = command_texts[text].usage;
	argp.doc = command_texts[text].doc;
	len = (size_t)snprintf(name, sizeof(name), "perf-agent %s", command); /* fits */
	while (!row->doc || strncmp(row->doc, name, len) != 0 || row->doc[len] != ' ')
		row++;
	/* After the heading and the pointer to this help. */
	for (row += 2; row->name && n < CLI_COMMAND_OPTIONS_MAX; row++)
		own[n++] = *row;
	if (!n)
		add_for_top(own);
	argp_help(&argp, to, ARGP_HELP_SHORT_USAGE | ARGP_HELP_LONG | ARGP_HELP_DOC, name);
	return fflush(to) || ferror(to) ? -EIO : 0;
}

int cli_options_help(FILE *to)
{
	static char name[] = "perf-agent";
	static const struct argp argp = {
	        .options = argp_rows,
	        .args_doc = "MODE... --pid N|NAME[,...]\nMODE... --tid N[,N...]\nMODE... --cgroup "
	                    "PATH\n"
	                    "MODE... -a\nMODE... -- COMMAND [ARG...]",
	        .doc = "Profiles a process, a command or the whole machine: where it spends its "
	               "time on and off the CPU, as pprof profiles, and how it is scheduled, as "
	               "text or JSON. MODE is --profile, --offcpu or --pmu; several can be "
	               "combined."
	               "\v"
	               "-name and --name mean the same. A value follows = or is the next "
	               "argument. Options without a value take =yes and =no.\n"
	               "Exit status: 0 everything was written, 1 something was not, 2 the "
	               "command line is wrong; of COMMAND its own.",
	};

	argp_help(&argp, to, ARGP_HELP_SHORT_USAGE, name);
	for (size_t i = 0; i < COMMAND_CNT; i++)
		(void)fprintf(to, "  or:  %s %s [OPTION...] %s\n", name, command_texts[i].name,
		              command_texts[i].usage);
	argp_help(&argp, to, ARGP_HELP_LONG | ARGP_HELP_DOC, name);
	return fflush(to) || ferror(to) ? -EIO : 0;
}
