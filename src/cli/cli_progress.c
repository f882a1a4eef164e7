/* SPDX-License-Identifier: Apache-2.0 */
/* cli_progress.c - the line on a terminal while a capture runs */
#include "cli_priv.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
	PROGRESS_MS = 1000,
	PROGRESS_MAX = 160,
};

static bool wanted(void)
{
	const char *term = getenv("TERM");

	return isatty(STDERR_FILENO) && !(term && !strcmp(term, "dumb"));
}

bool cli_colours(void)
{
	const char *none = getenv("NO_COLOR");

	return wanted() && !(none && *none);
}

/* Writes @text over the line; "" removes it. @colour: around it, or "". */
static void draw(struct cli_progress *p, const char *text, const char *colour)
{
	size_t width = cli_columns(text), rest = p->width > width ? p->width - width : 0;

	/* Blanks work on every terminal, escape sequences do not. */
	(void)fprintf(stderr, "\r%s%s%s%*s%s", colour, text, *colour ? CLI_COLOUR_OFF : "",
	              (int)rest, "", *text ? "" : "\r");
	p->width = width;
}

static void show(struct cli_progress *p, uint64_t now)
{
	struct pfa_stats st = {.size = sizeof(st)};
	uint64_t own = cli_own_samples(p->session), seen, lost;
	char text[PROGRESS_MAX], samples[96], whole[48] = "";
	int n;

	if (pfa_stats(p->session, &st) < 0)
		return; /* the quality line says so at the end */
	if (p->duration_ns) {
		(void)snprintf(whole, sizeof(whole), " of ");
		cli_format_duration(p->duration_ns, whole + 4, sizeof(whole) - 4);
	}
	/* Counters grow while they are read one after the other. */
	seen = st.seen > own ? st.seen - own : 0;
	lost = st.dropped > own ? st.dropped - own : 0;
	n = snprintf(samples, sizeof(samples), ", %" PRIu64 " sample%s", seen, cli_plural(seen));
	if (lost)
		(void)snprintf(samples + n, sizeof(samples) - (size_t)n, ", %" PRIu64 " lost",
		               lost);
	/* Counts of the other modes are read at the end. */
	(void)snprintf(text, sizeof(text), "perf-agent: %" PRIu64 " s%s%s",
	               (now - p->start_ns) / 1000000000, whole, p->samples ? samples : "");
	cli_shorten(text, cli_terminal_width() - 1, false);
	draw(p, text, lost && p->samples && cli_colours() ? CLI_COLOUR_FAIR : "");
}

void cli_progress_init(struct cli_progress *p, const struct pfa_session *s, bool samples,
                       uint64_t start_ns, uint64_t duration_ns)
{
	*p = (struct cli_progress){.session = s,
	                           .on = s && wanted(),
	                           .samples = samples,
	                           .start_ns = start_ns,
	                           .duration_ns = duration_ns};
	p->next_ns = p->on ? start_ns : UINT64_MAX;
}

void cli_progress_show(struct cli_progress *p, uint64_t now_ns)
{
	if (now_ns < p->next_ns)
		return;
	show(p, now_ns);
	p->next_ns = now_ns + PROGRESS_MS * 1000000ull;
}

void cli_progress_remove(struct cli_progress *p)
{
	if (p->on)
		draw(p, "", "");
}
