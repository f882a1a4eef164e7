/* SPDX-License-Identifier: Apache-2.0 */
/* cli_help.c - --version, and --help of the commands */
#include "cli_priv.h"

#include <errno.h>
#include <string.h>

int cli_version(FILE *to)
{
	bool same = !strcmp(pfa_version(), PERF_AGENT_VERSION);

	(void)fprintf(to, "perf-agent %s%s%s%s\n", PERF_AGENT_VERSION, same ? "" : " (library ",
	              same ? "" : pfa_version(), same ? "" : ")");
	return fflush(to) || ferror(to) ? -EIO : 0;
}

/* Whether a word is -NAME or --NAME. */
static bool is_option(const char *word, const char *name)
{
	return *word == '-' && !strcmp(word + (word[1] == '-' ? 2 : 1), name);
}

int cli_command_text(int argc, char *const *argv)
{
	int rc = 1;

	for (int i = 2; i < argc && strcmp(argv[i], "--") != 0 && rc > 0; i++) {
		if (!strcmp(argv[i], "-h") || is_option(argv[i], "help"))
			rc = cli_command_help(stdout, argv[1]);
		else if (is_option(argv[i], "version"))
			rc = cli_version(stdout);
	}
	if (rc < 0)
		cli_say("cannot write to standard output");
	return rc > 0 ? -1 : rc < 0 ? CLI_FAILED : CLI_DONE;
}
