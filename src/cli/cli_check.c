/* SPDX-License-Identifier: Apache-2.0 */
/* cli_check.c - checks options of the command line against each other; pure */
#include "cli_priv.h"

#include <errno.h>
#include <string.h>

static int check_target(const struct cli_options *o, char *message)
{
	bool pid = o->pids.n || o->pid_names.n, tid = o->tids.n;

	if (o->all && pid)
		return cli_refuse(message, "--pid and -a/--all cannot be combined");
	if (o->command && pid)
		return cli_refuse(message, "--pid and -- COMMAND cannot be combined");
	if (o->command && o->all)
		return cli_refuse(message, "-a/--all and -- COMMAND cannot be combined");
	if (tid && o->all)
		return cli_refuse(message, "--tid and -a/--all cannot be combined");
	if (o->keep_command && (!o->command || !o->duration_ns))
		return cli_refuse(message, "--keep-command needs --duration and -- COMMAND");
	if (tid && o->command)
		return cli_refuse(message, "--tid and -- COMMAND cannot be combined");
	if (tid && o->follow_children)
		return cli_refuse(message, "--tid and --follow-children cannot be combined: "
		                           "children have threads of their own");
	if (o->follow_children && o->all)
		return cli_refuse(message, "--follow-children and -a/--all cannot be combined: -a "
		                           "includes every process");
	if (!o->all && !pid && !tid && !o->command)
		return cli_refuse(
		        message, "no target: give --pid, --tid, -a/--all, --cgroup or -- COMMAND%s",
		        o->comms[0] ? "; --comm selects threads of a target, as in -a --comm NAME"
		        : o->follow_children ? "; --follow-children needs --pid"
		                             : "");
	return 0;
}

/* Options that need one of these products. */
static const struct {
	enum cli_opt id;
	bool with[CLI_PRODUCT_CNT];
	const char *modes;
} needs[] = {
#define NEEDS_PROFILE {[CLI_PROFILE] = true}, "--profile"
#define NEEDS_OFFCPU  {[CLI_OFFCPU] = true}, "--offcpu"
#define NEEDS_PMU     {[CLI_METRICS] = true}, "--pmu"
#define NEEDS_STACKS  {[CLI_PROFILE] = true, [CLI_OFFCPU] = true}, "--profile or --offcpu"
        {OPT_SAMPLE_RATE, NEEDS_PROFILE},
        {OPT_EVENT, NEEDS_PROFILE},
        {OPT_PROFILE_OUTPUT, NEEDS_PROFILE},
        {OPT_OFFCPU_STATES, NEEDS_OFFCPU},
        {OPT_OFFCPU_MIN, NEEDS_OFFCPU},
        {OPT_OFFCPU_MAX, NEEDS_OFFCPU},
        {OPT_OFFCPU_WAKERS, NEEDS_OFFCPU},
        {OPT_OFFCPU_OUTPUT, NEEDS_OFFCPU},
        {OPT_KERNEL_THREADS, NEEDS_OFFCPU},
        {OPT_PMU_OUTPUT, NEEDS_PMU},
        {OPT_PMU_FORMAT, NEEDS_PMU},
        {OPT_UNWIND, NEEDS_STACKS},
        {OPT_TABLE_BUDGET, NEEDS_STACKS},
        {OPT_KERNEL_STACKS, NEEDS_STACKS},
        {OPT_LINES, NEEDS_STACKS},
        {OPT_DEBUG_DIR, NEEDS_STACKS},
        {OPT_SYMBOL_BUDGET, NEEDS_STACKS},
        {OPT_FLAMEGRAPH_OUTPUT, NEEDS_STACKS},
        {OPT_FOLDED_OUTPUT, NEEDS_STACKS},
        {OPT_PERF_DATA_OUTPUT, NEEDS_STACKS},
        {OPT_QUALITY_OUTPUT, NEEDS_STACKS},
        {OPT_TIMELINE, {[CLI_FLAME] = true}, "--flamegraph-output FILE.html"},
        {OPT_FOLDED_ROOT, {[CLI_FOLDED] = true}, "--folded-output"},
        {OPT_PERF_DATA_COMPRESS, {[CLI_PERF] = true}, "--perf-data-output"},
};

static int check_modes(struct cli_options *o, uint64_t given, char *message)
{
	int rc;

	if (!o->on[CLI_PROFILE] && !o->on[CLI_OFFCPU] && !o->on[CLI_METRICS])
		return cli_refuse(message,
		                  "no mode: give at least one of --profile, --offcpu and --pmu");
	/* Before the table: --per-pid needs two options, and its message names both. */
	if (o->per_pid && (!o->all || !o->on[CLI_METRICS]))
		return cli_refuse(message, "--per-pid needs -a/--all and --pmu");
	/* It may select one of the products that options need. */
	rc = o->extra.common ? cli_suffix_select(o, given, message) : 0;
	if (rc < 0)
		return rc;
	for (size_t i = 0; i < sizeof(needs) / sizeof(needs[0]); i++) {
		bool on = false;

		for (size_t k = 0; k < CLI_PRODUCT_CNT; k++)
			on |= needs[i].with[k] && o->on[k];
		if (given >> needs[i].id & 1 && !on)
			return cli_refuse(message, "--%s needs %s", cli_option_name(needs[i].id),
			                  needs[i].modes);
	}
	return 0;
}

/* Standard output is written from its current position. Under a name in /dev it would be replaced
 * like a file. */
static void name_stdout(struct cli_options *o)
{
	static const char *const names[] = {"/dev/stdout", "/dev/fd/1", "/proc/self/fd/1"};

	for (size_t i = 0; i < CLI_PRODUCT_CNT; i++)
		for (size_t k = 0; k < sizeof(names) / sizeof(names[0]); k++)
			if (o->output[i] && !strcmp(o->output[i], names[k]))
				o->output[i] = "-";
}

/* Returns the option that has the path of a product: its own, or --output. */
static const char *given_by(const struct cli_options *o, enum cli_product p)
{
	const bool common = o->extra.common && o->output[p] == o->extra.common;

	return common ? "--output" : cli_product_option(p);
}

static int check_outputs(const struct cli_options *o, char *message)
{
	for (size_t i = 0; i < CLI_PRODUCT_CNT; i++) {
		for (size_t k = 0; k < i; k++) {
			const char *a = o->output[k], *b = o->output[i];

			if (o->on[i] && o->on[k] && a && b && !strcmp(a, "-") && !strcmp(b, "-"))
				return cli_refuse(message,
				                  "%s and %s: only one output can be standard "
				                  "output; give a file for the other",
				                  given_by(o, (enum cli_product)k),
				                  given_by(o, (enum cli_product)i));
		}
	}
	return 0;
}

/* @both: whether the capture has two profiles */
static int check_flame(struct cli_options *o, const char *path, bool both, char *message)
{
	o->extra.flame_format =
	        cli_suffix_is(path, ".svg") ? PFA_PROFILE_FLAME_SVG : PFA_PROFILE_FLAME_HTML;
	if (!cli_suffix_is(path, ".svg") && !cli_suffix_is(path, ".html") &&
	    strcmp(path, "auto") != 0)
		return cli_refuse(message,
		                  "--flamegraph-output: '%s' does not end in .html or .svg", path);
	if (o->extra.flame_format == PFA_PROFILE_FLAME_SVG && o->extra.timeline)
		return cli_refuse(message, "--timeline: a .svg file has no time line; write a "
		                           ".html file");
	if (o->extra.flame_format == PFA_PROFILE_FLAME_SVG && both)
		return cli_refuse(message,
		                  "%s: a .svg file shows one profile; leave out --profile or "
		                  "--offcpu, or write a .html file",
		                  given_by(o, CLI_FLAME));
	return 0;
}

static int check_folded(const struct cli_options *o, bool both, char *message)
{
	if (both)
		return cli_refuse(message,
		                  "%s: folded stacks have one profile; leave out --profile or "
		                  "--offcpu",
		                  given_by(o, CLI_FOLDED));
	return 0;
}

/* Whether the names and the modes fit the formats of extra outputs. */
static int check_extra(struct cli_options *o, char *message)
{
	const bool both = o->on[CLI_PROFILE] && o->on[CLI_OFFCPU];
	int rc = 0;

	for (int i = 0; i < CLI_PRODUCT_CNT && rc == 0; i++)
		if (i != CLI_FLAME) /* has a check of its own */
			rc = cli_suffix_check(o, (enum cli_product)i, message);
	if (rc == 0 && o->output[CLI_FLAME])
		rc = check_flame(o, o->output[CLI_FLAME], both, message);
	if (rc == 0 && o->output[CLI_FOLDED])
		rc = check_folded(o, both, message);
	return rc;
}

static int check_show(const struct cli_options *o, char *message)
{
	if (o->show.quiet && o->show.verbose)
		return cli_refuse(message, "-q/--quiet and -v/--verbose cannot be combined");
	return 0;
}

static int check_waits(const struct cli_options *o, char *message)
{
	char min[32], max[32];

	if (!o->offcpu_max_ns || o->offcpu_min_ns <= o->offcpu_max_ns)
		return 0;
	cli_format_duration(o->offcpu_min_ns, min, sizeof(min));
	cli_format_duration(o->offcpu_max_ns, max, sizeof(max));
	return cli_refuse(message, "--offcpu-min (%s) is above --offcpu-max (%s)", min, max);
}

int cli_options_check(struct cli_options *o, uint64_t given, uint32_t max_rate_hz,
                      char message[CLI_MESSAGE_MAX])
{
	int rc;

	if (o->cgroups[0] && !o->pids.n && !o->pid_names.n && !o->tids.n && !o->command)
		o->all = true;
	rc = check_target(o, message);
	if (rc == 0)
		rc = check_modes(o, given, message);
	if (rc < 0)
		return rc;
	if (o->on[CLI_PROFILE] && max_rate_hz && o->sample_rate_hz > max_rate_hz)
		return cli_refuse(message,
		                  "--sample-rate: %u is above the limit of the kernel: "
		                  "kernel.perf_event_max_sample_rate is %u",
		                  o->sample_rate_hz, max_rate_hz);
	rc = check_show(o, message);
	if (rc == 0)
		rc = check_waits(o, message);
	if (rc < 0)
		return rc;
	/* Metrics alone go to standard output by default. */
	if (o->on[CLI_METRICS] && !o->output[CLI_METRICS])
		o->output[CLI_METRICS] = "-";
	name_stdout(o);
	rc = check_extra(o, message);
	if (rc == 0)
		rc = check_outputs(o, message);
	if (rc < 0)
		return rc;
	for (size_t i = 0; i < CLI_PRODUCT_CNT; i++)
		if (o->output[i] && !strcmp(o->output[i], "auto"))
			o->output[i] = NULL; /* a made-up name */
	return 0;
}
