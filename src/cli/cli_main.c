/* SPDX-License-Identifier: Apache-2.0 */
/* cli_main.c - main() of perf-agent */
#include "cli_priv.h"
#include "cli_top.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Opens standard streams that are closed. Else a file opened later would become one, and a profile
 * would be mixed with messages. */
static int fill_standard_descriptors(void)
{
	int fd;

	do {
		/* Read-only for 1 and 2 too: writing to a closed stream must fail. */
		fd = open("/dev/null", O_RDONLY);
		if (fd < 0)
			return -errno;
	} while (fd <= STDERR_FILENO);
	close(fd);
	return 0;
}

static uint32_t read_max_rate_hz(void)
{
	char text[32];
	uint64_t value;
	FILE *f;

	f = fopen("/proc/sys/kernel/perf_event_max_sample_rate", "re");
	if (!f)
		return 0;
	if (!fgets(text, sizeof(text), f))
		text[0] = '\0';
	fclose(f);
	text[strcspn(text, "\n")] = '\0';
	return cli_parse_u64(text, &value) < 0 || value > UINT32_MAX ? 0 : (uint32_t)value;
}

/* Prints --help or --version. Returns enum cli_exit. */
static int print_text(int action)
{
	int rc = action == CLI_ACTION_HELP ? cli_options_help(stdout) : cli_version(stdout);

	if (rc < 0)
		cli_say("cannot write to standard output");
	return rc < 0 ? CLI_FAILED : CLI_DONE;
}

/* Called without arguments. */
static int print_usage(void)
{
	cli_say_plain("usage: perf-agent MODE... TARGET [OPTION...]");
	cli_say_plain("  perf-agent --profile -p 1234 -d 10 -o flame.html   # where process 1234 "
	              "uses the CPU");
	cli_say_plain("  perf-agent --offcpu -- ./program                   # where a program is "
	              "blocked");
	cli_say_plain("modes: --profile, --offcpu, --pmu; targets: -p PID, -a, -- COMMAND; all "
	              "options: --help");
	return CLI_USAGE;
}

int main(int argc, char **argv)
{
	struct cli_options options;
	char message[CLI_MESSAGE_MAX];
	int rc;

	rc = fill_standard_descriptors();
	if (rc < 0) {
		cli_say("cannot open /dev/null: %s", cli_error(-rc));
		return CLI_FAILED;
	}
	if (argc < 2)
		return print_usage();
	if (!strcmp(argv[1], "help"))
		return print_text(CLI_ACTION_HELP);
	if (!strcmp(argv[1], "report"))
		return cli_report_files(argc, argv);
	if (!strcmp(argv[1], "unwind-info"))
		return cli_unwind_info(argc, argv);
	if (!strcmp(argv[1], "top"))
		return cli_top(argc, argv, read_max_rate_hz());
	rc = cli_options_parse(argc, argv, read_max_rate_hz(), &options, message);
	if (rc == -EINVAL) {
		cli_say("%s", message);
		return CLI_USAGE;
	}
	if (rc < 0) {
		cli_say("cannot read the command line: %s", cli_error(-rc));
		return CLI_FAILED;
	}
	if (rc != CLI_ACTION_RUN) {
		rc = print_text(rc);
	} else {
		rc = cli_pids_find(&options);
		if (rc == CLI_DONE)
			rc = cli_run(&options);
	}
	cli_options_done(&options);
	return rc;
}
