/* SPDX-License-Identifier: Apache-2.0 */
/* cli_report.c - the report on standard error at the end of a capture */
#include "base/utf8.h"
#include "cli_priv.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>
#include <unistd.h>

enum {
	FILTERS_MAX = 256, /* as far as they are shown */
	STOPPED_MAX = 128,
};

/* The filters as they were given, "--comm foo, --cgroup x"; "": none. */
static void filters_of(const struct cli_options *o, char *text, size_t size)
{
	size_t n = 0;

	text[0] = '\0';
	for (size_t i = 0; i < o->tids.n && n < size; i++)
		n += (size_t)snprintf(text + n, size - n, "%s%d", i ? "," : "--tid ", o->tids.v[i]);
	for (size_t i = 0; o->comms[i] && n < size; i++)
		n += (size_t)snprintf(text + n, size - n, "%s--comm %s", n ? ", " : "",
		                      o->comms[i]);
	for (size_t i = 0; o->cgroups[i] && n < size; i++)
		n += (size_t)snprintf(text + n, size - n, "%s--cgroup %s", n ? ", " : "",
		                      o->cgroups[i]);
}

/* Prints why there are no samples, as far as it is known. */
static void say_nothing_seen(const struct pfa_session *s, const struct cli_options *o,
                             uint64_t elapsed_ns)
{
	const char *cpu_time_ms = cli_statistic(s, PFA_KIND_ONCPU, "cpu_time_ms");
	uint64_t period_ns = 1000000000 / o->sample_rate_hz;
	char elapsed[32], period[32], filters[FILTERS_MAX], stopped[STOPPED_MAX];

	filters_of(o, filters, sizeof(filters));

	if (elapsed_ns < 2 * period_ns) {
		cli_format_duration(elapsed_ns, elapsed, sizeof(elapsed));
		cli_format_duration(period_ns, period, sizeof(period));
		cli_say("no samples: the capture was shorter than two sampling periods (it took "
		        "%s, a period is %s)",
		        elapsed, period);
	} else if (cpu_time_ms && strcmp(cpu_time_ms, "0.000") != 0) {
		cli_say("no samples: the target used only %.24s ms of CPU time, and no tick hit "
		        "it; "
		        "capture for longer, or raise --sample-rate",
		        cpu_time_ms);
	} else if (cli_stopped(o, stopped, sizeof(stopped))) {
		cli_say("no samples: the target is stopped (state T of %s in /proc/PID/stat): let "
		        "it "
		        "run with kill -CONT %s",
		        stopped, stopped);
	} else if (filters[0]) {
		cli_say("no samples: no matching thread used the CPU (filter: %s)", filters);
	} else if (o->all) {
		cli_say("no samples: the machine was idle");
	} else {
		cli_say("no samples: the target used no CPU (it was blocked, or ended at once)");
	}
}

static void report_functions(const struct pfa_session *s, const struct cli_options *o)
{
	struct pfa_stats st = {.size = sizeof(st)};
	bool own = false;
	int n;

	for (size_t k = 0; k < o->pids.n; k++)
		own |= o->pids.v[k] == getpid();
	if (pfa_stats(s, &st) < 0)
		return; /* the quality line says so */
	n = cli_report_function_table(s, o, &st);
	if (n < 0)
		cli_say("cannot list functions: %s", cli_error(-n));
	else if (n == 0 && (own || (st.seen && cli_own_samples(s) == st.seen)))
		cli_say("no samples: the only target is perf-agent itself, which it does not "
		        "sample");
	else if (n == 0 && !st.seen)
		say_nothing_seen(s, o, st.elapsed_ns);
	else if (n == 0)
		cli_say("no samples: all %" PRIu64 " were dropped", st.seen);
}

static void report_sites(const struct pfa_session *s, const struct cli_options *o)
{
	struct pfa_stats st = {.size = sizeof(st)};
	char filters[FILTERS_MAX], stopped[STOPPED_MAX];
	int n;

	if (pfa_stats(s, &st) < 0)
		return; /* the quality line says so */
	filters_of(o, filters, sizeof(filters));
	n = cli_report_site_table(s, o, &st);
	if (n < 0)
		cli_say("cannot list off-CPU functions: %s", cli_error(-n));
	else if (n == 0 && !st.offcpu_seen && cli_stopped(o, stopped, sizeof(stopped)))
		cli_say("no off-CPU intervals in the selected states and lengths: the target is "
		        "stopped (state T of %s in /proc/PID/stat): select that with "
		        "--offcpu-states=stopped, or let it run with kill -CONT %s",
		        stopped, stopped);
	else if (n == 0 && !st.offcpu_seen && filters[0])
		cli_say("no off-CPU intervals: no matching thread was off-CPU in the selected "
		        "states and lengths (filter: %s)",
		        filters);
	else if (n == 0 && !st.offcpu_seen)
		cli_say("no off-CPU intervals in the selected states and lengths");
	else if (n == 0)
		cli_say("no off-CPU intervals: all %" PRIu64 " were dropped", st.offcpu_seen);
}

/* ---- the verdict ----------------------------------------------------------------------------- */

const char *cli_verdict_name(enum cli_verdict v)
{
	static const char *const names[] = {[CLI_GOOD] = "good",
	                                    [CLI_FAIR] = "fair",
	                                    [CLI_POOR] = "poor",
	                                    [CLI_NOTHING] = "none"};

	return names[v];
}

/* "quality: good, 1,912 samples, 0 lost; overhead 1.3 % CPU"; at most 100 columns. */
static void say_verdict(const struct cli_quality *q, bool cost)
{
	static const char *const colours[] = {CLI_COLOUR_GOOD, CLI_COLOUR_FAIR, CLI_COLOUR_POOR,
	                                      ""};
	const char *colour = cli_colours() ? colours[q->verdict] : "";
	const bool off = q->kind == PFA_KIND_OFFCPU;
	const char *what = off ? "interval" : "sample",
	           *title = off ? "off-CPU quality" : "quality";
	char samples[CLI_COUNT_MAX], lost[CLI_COUNT_MAX], more[48] = "", overhead[48] = "";

	cli_format_count(q->samples, samples);
	cli_format_count(q->lost, lost);
	if (off && q->samples) {
		(void)snprintf(more, sizeof(more), ", ");
		cli_format_duration(q->offcpu_ns, more + 2, sizeof(more) - 2);
	} else if (q->idle_pct > 0) {
		char pct[CLI_PCT_MAX];

		cli_format_pct(q->idle_pct, q->samples, pct);
		(void)snprintf(more, sizeof(more), ", %s %% idle", pct);
	}
	/* It is measured, not sampled. */
	if (cost && q->overhead_pct > 0)
		(void)snprintf(overhead, sizeof(overhead),
		               q->overhead_pct < 0.05 ? "; overhead <0.1 %% CPU"
		                                      : "; overhead %.1f %% CPU",
		               q->overhead_pct);
	if (q->verdict == CLI_NOTHING)
		cli_say_plain("%s: no %ss%s", title, what, overhead);
	else
		(void)fprintf(stderr, "%s: %s%s%s, %s %s%s%s, %s lost%s\n", title, colour,
		              cli_verdict_name(q->verdict), *colour ? CLI_COLOUR_OFF : "", samples,
		              what, cli_plural(q->samples), more, lost, overhead);
}

static void say_defects(const struct cli_quality *q)
{
	for (size_t i = 0; i < q->n; i++)
		cli_say_plain("  %s%s%s", q->defects[i].text, *q->defects[i].remedy ? ": " : "",
		              q->defects[i].remedy);
}

/* --verbose */
static void say_statistics(const struct pfa_session *s, uint32_t kind)
{
	const char *line;

	for (size_t i = 0; (line = pfa_quality_of(s, kind, i)); i++)
		cli_say_plain("    %s", line);
}

void cli_report_table(const struct pfa_session *s, const struct cli_options *o, uint32_t kind)
{
	if (kind == PFA_KIND_OFFCPU)
		report_sites(s, o);
	else
		report_functions(s, o);
}

void cli_report_quality(const struct pfa_session *s, const struct cli_options *o,
                        const struct cli_quality *q, bool cost)
{
	say_verdict(q, cost);
	say_defects(q);
	if (o->show.verbose)
		say_statistics(s, q->kind);
}

/* ---- how to go on ---------------------------------------------------------------------------- */

/* Quotes a word for bash and zsh, "$'a\012b'": a terminal must not obey its control characters, and what is
 * not UTF-8 would be printed as '?'. */
static void quote_bytes(const char *word, const char *dir, char *ret, size_t size)
{
	size_t at = (size_t)snprintf(ret, size, "$'%s", dir);

	for (size_t left = strlen(word), step; left && at + 16 < size; word += step, left -= step) {
		const size_t n = utf8_len((const uint8_t *)word, left);
		const bool bad = n == 0 || utf8_is_control((const uint8_t *)word, n);

		step = n ? n : 1;
		for (size_t i = 0; i < step && bad; i++)
			at += (size_t)snprintf(ret + at, size - at, "\\%03o",
			                       (unsigned char)word[i]);
		if (!bad)
			at += (size_t)snprintf(ret + at, size - at, "%s%.*s",
			                       *word == '\'' || *word == '\\' ? "\\" : "", (int)n,
			                       word);
	}
	(void)snprintf(ret + at, size - at, "'");
}

/* Whether cli_make_printable would leave the text as it is. */
static bool is_printable(const char *s)
{
	for (size_t left = strlen(s), n; left; s += n, left -= n) {
		n = utf8_len((const uint8_t *)s, left);
		if (n == 0 || utf8_is_control((const uint8_t *)s, n))
			return false;
	}
	return true;
}

void cli_quote(const char *word, char *ret, size_t size)
{
	static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
	                            "_./:=@%+,-";
	const char *dir = *word == '-' ? "./" : "";
	size_t n = 0;

	if (*word && strspn(word, plain) == strlen(word)) {
		(void)snprintf(ret, size, "%s%s", dir, word);
		return;
	}
	if (!is_printable(word)) {
		quote_bytes(word, dir, ret, size);
		return;
	}
	n = (size_t)snprintf(ret, size, "'%s", dir);
	for (; *word && n + 6 < size; word++) {
		if (*word == '\'')
			n += (size_t)snprintf(ret + n, size - n, "'\\''");
		else
			ret[n++] = *word;
	}
	(void)snprintf(ret + n, size - n, "'");
}

void cli_report_reading(const char *path, bool pprof)
{
	char quoted[2 * CLI_MESSAGE_MAX];

	if (strlen(path) > CLI_MESSAGE_MAX)
		return; /* as no command would be typed */
	cli_quote(path, quoted, sizeof(quoted));
	if (pprof)
		cli_say_plain("to read: perf-agent report %s, or go tool pprof -http=: %s", quoted,
		              quoted);
	else
		cli_say_plain("to read: perf-agent report %s", quoted);
}
