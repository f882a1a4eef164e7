/* SPDX-License-Identifier: Apache-2.0 */
/* cli_start.c - the line on standard error at the start of a capture */
#include "cli_priv.h"

#include <stdarg.h>
#include <string.h>

enum {
	NUMBERS_SHOWN = 4, /* of a list */
};

/* Appends text; what does not fit is cut. */
static void __attribute__((format(printf, 3, 4)))
append(char *to, size_t size, const char *format, ...)
{
	size_t len = strlen(to);
	va_list ap;

	va_start(ap, format);
	(void)vsnprintf(to + len, size - len, format, ap);
	va_end(ap);
}

static void append_numbers(char *to, size_t size, const struct cli_numbers *list)
{
	for (size_t i = 0; i < list->n && i < NUMBERS_SHOWN; i++)
		append(to, size, "%s%d", i ? ", " : "", list->v[i]);
	if (list->n > NUMBERS_SHOWN)
		append(to, size, " and %zu more", list->n - NUMBERS_SHOWN);
}

static void append_strings(char *to, size_t size, const char *what, const char *const *list)
{
	for (size_t i = 0; list[i]; i++) {
		if (i == NUMBERS_SHOWN) {
			append(to, size, " or others");
			return;
		}
		append(to, size, "%s%s", i ? " or " : what, list[i]);
	}
}

/* Describes processes and threads that were given by number. */
static void describe_numbers(const struct cli_options *o, const char *comm, char *to, size_t size)
{
	if (o->pids.n) {
		append(to, size, o->pids.n > 1 ? "pids " : "pid ");
		append_numbers(to, size, &o->pids);
	}
	if (o->pids.n == 1 && comm[0])
		append(to, size, " (%s)", comm);
	if (o->follow_children)
		append(to, size, " and %s children", o->pids.n > 1 ? "their" : "its");
	if (o->tids.n) {
		append(to, size, "%s%s ", o->pids.n ? ", " : "",
		       o->tids.n > 1 ? "threads" : "thread");
		append_numbers(to, size, &o->tids);
	}
	if (o->tids.n == 1 && !o->pids.n && comm[0])
		append(to, size, " (%s)", comm);
}

static void describe_target(const struct cli_options *o, const struct pfa_session *s,
                            const char *comm, char *to, size_t size)
{
	if (o->all)
		append(to, size, "the whole machine");
	else if (o->command)
		append(to, size, "command %s (pid %d)", comm, pfa_command_pid(s));
	else
		describe_numbers(o, comm, to, size);
	append_strings(to, size, ", threads named ", o->comms);
	append_strings(to, size, ", in cgroup ", o->cgroups);
}

/* "profiling X at 99 Hz, cpu-clock, with off-CPU time", "profiling off-CPU time of X" */
static void describe_modes(const struct cli_options *o, const struct pfa_session *s,
                           const char *target, char *to, size_t size)
{
	const char *unit = pfa_weight_unit(s);
	bool both = o->on[CLI_OFFCPU] && o->on[CLI_METRICS];
	const char *rest = both                 ? "off-CPU time and scheduler statistics"
	                   : o->on[CLI_OFFCPU]  ? "off-CPU time"
	                   : o->on[CLI_METRICS] ? "scheduler statistics"
	                                        : NULL;

	if (!o->on[CLI_PROFILE]) {
		append(to, size, "profiling %s of %s", rest ? rest : "nothing", target);
		return;
	}
	append(to, size, "profiling %s at %u Hz, %s", target, o->sample_rate_hz,
	       unit && !strcmp(unit, "cycles") ? "hardware cycles" : "cpu-clock");
	if (rest)
		append(to, size, ", with %s", rest);
}

void cli_say_start(const struct cli_options *o, const struct pfa_session *s, const char *comm,
                   uint64_t duration_ns)
{
	char target[2 * CLI_MESSAGE_MAX] = "", line[2 * CLI_MESSAGE_MAX + 256] = "", time[32];

	describe_target(o, s, comm, target, sizeof(target));
	describe_modes(o, s, target, line, sizeof(line));
	if (o->on[CLI_PROFILE] || o->on[CLI_OFFCPU])
		append(line, sizeof(line), ", %s%s",
		       o->unwind == PFA_UNWIND_FP      ? "frame pointers only"
		       : o->unwind == PFA_UNWIND_DWARF ? "unwind dwarf"
		                                       : "unwind auto",
		       o->kernel_stacks ? "" : ", without kernel stacks");
	cli_format_duration(duration_ns, time, sizeof(time));
	if (duration_ns)
		append(line, sizeof(line), ", for %s; Ctrl-C ends early", time);
	else if (o->command)
		append(line, sizeof(line), ", until it ends; Ctrl-C ends early");
	else
		append(line, sizeof(line), ", until Ctrl-C");
	cli_say("%s", line);
}
