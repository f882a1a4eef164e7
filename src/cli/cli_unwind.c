/* SPDX-License-Identifier: Apache-2.0 */
/* cli_unwind.c - perf-agent unwind-info FILE [--pc ADDR] */
#include "cli_priv.h"

#include <errno.h>
#include <string.h>

static void print_line(void *arg, const char *text)
{
	(void)fprintf(arg, "%s\n", text); /* errors are checked at the end */
}

/* Returns the value of --pc, or NULL. @next: the argument after @word, or NULL. *@used: arguments
 * read. */
static const char *pc_value(const char *word, const char *next, int *used)
{
	const char *name = word + (word[1] == '-' ? 2 : 1);

	*used = 1;
	if (!strncmp(name, "pc=", 3))
		return name + 3;
	*used = 2;
	return next;
}

static bool is_pc(const char *word)
{
	const char *name;

	if (word[0] != '-')
		return false;
	name = word + (word[1] == '-' ? 2 : 1);
	return !strcmp(name, "pc") || !strncmp(name, "pc=", 3);
}

/* Returns enum cli_exit; has printed the reason if it is not CLI_DONE. */
static int read_words(int argc, char *const *argv, const char **ret_file, uint64_t *pc,
                      bool *ret_has_pc)
{
	bool options = true;
	int used;

	for (int i = 2; i < argc; i += used) {
		used = 1;
		if (options && !strcmp(argv[i], "--")) {
			options = false;
		} else if (options && is_pc(argv[i])) {
			const char *value = pc_value(argv[i], argv[i + 1], &used);

			if (!value) {
				cli_say("--pc needs a value");
				return CLI_USAGE;
			}
			if (cli_parse_address(value, pc) < 0) {
				cli_say("--pc: '%s' is not an address such as 0x1234", value);
				return CLI_USAGE;
			}
			*ret_has_pc = true;
		} else if (options && argv[i][0] == '-' && argv[i][1]) {
			cli_say("unwind-info: %s %s; its only option is --pc ADDR", argv[i],
			        cli_options_has(argv[i]) ? "is an option of a capture"
			                                 : "is unknown");
			return CLI_USAGE;
		} else if (*ret_file) {
			cli_say("unwind-info: one file at a time, not '%s' and '%s'", *ret_file,
			        argv[i]);
			return CLI_USAGE;
		} else {
			*ret_file = argv[i];
		}
	}
	if (!*ret_file || !**ret_file) {
		cli_say("unwind-info: no program or library given: perf-agent unwind-info FILE");
		return CLI_USAGE;
	}
	return CLI_DONE;
}

int cli_unwind_info(int argc, char *const *argv)
{
	struct pfa_error err = {0};
	const char *file = NULL;
	uint64_t pc = 0;
	bool has_pc = false;
	int rc;

	rc = cli_command_text(argc, argv);
	if (rc >= 0)
		return rc;
	rc = read_words(argc, argv, &file, &pc, &has_pc);
	if (rc != CLI_DONE)
		return rc;
	rc = pfa_unwind_info(file, has_pc ? &pc : NULL, print_line, stdout, &err);
	if (rc < 0) {
		if (err.message[0])
			cli_say("%s", err.message);
		else
			cli_say("%s: %s", file, cli_error(-rc));
		return CLI_FAILED;
	}
	rc = fflush(stdout) || ferror(stdout) ? -EIO : 0;
	if (rc < 0) {
		cli_say("cannot write to standard output");
		return CLI_FAILED;
	}
	return CLI_DONE;
}
