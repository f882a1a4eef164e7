/* SPDX-License-Identifier: Apache-2.0 */
/* cli_top_keys.c - keys of the live view: what a terminal sends, and what they do. No terminal. */
#include "cli_top.h"

#include <stdlib.h>
#include <string.h>

static void move(struct cli_top_view *v, long by)
{
	const long last = v->n ? (long)v->n - 1 : 0;
	long to = (long)v->selected + by;

	v->selected = (size_t)(to < 0 ? 0 : to > last ? last : to);
}

static void leave_callers(struct cli_top_view *v)
{
	while (v->n_path) {
		free(v->path[--v->n_path]);
		v->path[v->n_path] = NULL;
	}
}

static enum cli_top_act show_page(struct cli_top_view *v, enum cli_top_page page)
{
	if (page == CLI_TOP_WAITS && !v->offcpu) {
		if (!v->both) {
			(void)snprintf(v->message, sizeof(v->message),
			               "off-CPU waits are not sampled: see --offcpu");
			return CLI_TOP_NOTHING;
		}
		v->offcpu = true;
	}
	leave_callers(v);
	v->page = page;
	v->selected = v->first = 0;
	return CLI_TOP_LIST;
}

static enum cli_top_act switch_mode(struct cli_top_view *v)
{
	if (!v->both) {
		(void)snprintf(v->message, sizeof(v->message), "only %s time is sampled",
		               v->offcpu ? "off-CPU" : "on-CPU");
		return CLI_TOP_NOTHING;
	}
	v->offcpu = !v->offcpu;
	if (v->page == CLI_TOP_WAITS)
		v->page = CLI_TOP_FUNCTIONS;
	return CLI_TOP_LIST;
}

/* Shows the callers of the selected row. */
static enum cli_top_act descend(struct cli_top_view *v)
{
	const struct cli_top_row *r = v->selected < v->n ? &v->rows[v->selected] : NULL;
	char *name;

	if (!r || !*r->name || v->page == CLI_TOP_PROCESSES || v->page == CLI_TOP_THREADS ||
	    v->n_path == CLI_TOP_PATH_MAX)
		return CLI_TOP_NOTHING;
	name = strdup(r->name);
	if (!name)
		return CLI_TOP_NOTHING;
	if (v->page != CLI_TOP_CALLERS)
		v->before = v->page;
	v->page = CLI_TOP_CALLERS;
	v->path[v->n_path++] = name;
	v->selected = v->first = 0;
	v->search[0] = '\0';
	return CLI_TOP_LIST;
}

static enum cli_top_act go_back(struct cli_top_view *v)
{
	if (v->help) {
		v->help = false;
	} else if (v->n_path) {
		free(v->path[--v->n_path]);
		v->path[v->n_path] = NULL;
		if (v->n_path == 0)
			v->page = v->before;
		v->selected = v->first = 0;
		return CLI_TOP_LIST;
	} else if (v->search[0]) {
		v->search[0] = '\0';
		return CLI_TOP_LIST;
	}
	return CLI_TOP_NOTHING;
}

/* A key while a line is typed. */
static enum cli_top_act type(struct cli_top_view *v, int key)
{
	const enum cli_top_prompt prompt = v->prompt;
	size_t len = strlen(v->typed);

	switch (key) {
	case CLI_KEY_ENTER:
		v->prompt = CLI_TOP_NO_PROMPT;
		if (prompt == CLI_TOP_FILE)
			return v->typed[0] ? CLI_TOP_WRITE : CLI_TOP_NOTHING;
		(void)snprintf(v->search, sizeof(v->search), "%s", v->typed);
		v->selected = v->first = 0;
		return CLI_TOP_LIST;
	case CLI_KEY_ESCAPE:
	case 3: /* Ctrl-C */
		v->prompt = CLI_TOP_NO_PROMPT;
		return CLI_TOP_NOTHING;
	case CLI_KEY_BACKSPACE:
		while (len && ((unsigned char)v->typed[len - 1] & 0xc0) == 0x80)
			v->typed[--len] = '\0';
		if (len)
			v->typed[len - 1] = '\0';
		return CLI_TOP_NOTHING;
	case 21: /* Ctrl-U */
		v->typed[0] = '\0';
		return CLI_TOP_NOTHING;
	default:
		if (key >= 0x20 && key < 256 && len + 1 < sizeof(v->typed)) {
			v->typed[len] = (char)key;
			v->typed[len + 1] = '\0';
		}
		return CLI_TOP_NOTHING;
	}
}

static enum cli_top_act begin_typing(struct cli_top_view *v, enum cli_top_prompt prompt)
{
	v->prompt = prompt;
	if (prompt == CLI_TOP_FILE)
		(void)snprintf(v->typed, sizeof(v->typed), "top-%s.pb.gz",
		               v->offcpu ? "off-cpu" : "on-cpu");
	else
		v->typed[0] = '\0';
	return CLI_TOP_NOTHING;
}

static enum cli_top_act toggle_open(struct cli_top_view *v)
{
	v->ended_only = !v->ended_only;
	(void)snprintf(v->message, sizeof(v->message),
	               "off-CPU: %s intervals that have not ended, from now on",
	               v->ended_only ? "without" : "with");
	return CLI_TOP_LIST;
}

static enum cli_top_act sort(struct cli_top_view *v, int key)
{
	if (key == 't')
		v->by_all = !v->by_all;
	else
		v->by_cum = key == 'c';
	return CLI_TOP_LIST;
}

enum cli_top_act cli_top_key(struct cli_top_view *v, int key, size_t page_rows)
{
	v->message[0] = '\0';
	if (v->prompt)
		return type(v, key);
	switch (key) {
	case 'q':
	case 3: /* Ctrl-C */
		return CLI_TOP_QUIT;
	case 26: /* Ctrl-Z */
		return CLI_TOP_SUSPEND;
	case CLI_KEY_UP:
	case 'k':
		move(v, -1);
		return CLI_TOP_NOTHING;
	case CLI_KEY_DOWN:
	case 'j':
		move(v, 1);
		return CLI_TOP_NOTHING;
	case CLI_KEY_PAGE_UP:
		move(v, -(long)page_rows);
		return CLI_TOP_NOTHING;
	case CLI_KEY_PAGE_DOWN:
		move(v, (long)page_rows);
		return CLI_TOP_NOTHING;
	case CLI_KEY_HOME:
		v->selected = 0;
		return CLI_TOP_NOTHING;
	case CLI_KEY_END:
		move(v, (long)v->n);
		return CLI_TOP_NOTHING;
	case CLI_KEY_ENTER:
	case CLI_KEY_RIGHT:
		return descend(v);
	case CLI_KEY_BACKSPACE:
	case CLI_KEY_LEFT:
	case CLI_KEY_ESCAPE:
		return go_back(v);
	case 's':
	case 'c':
	case 't':
		return sort(v, key);
	case 'm':
		return switch_mode(v);
	case 'o':
		return toggle_open(v);
	case '1':
	case '2':
	case '3':
	case '4':
		return show_page(v, (enum cli_top_page)(key - '1'));
	case '/':
		return begin_typing(v, CLI_TOP_SEARCH);
	case 'w':
		return begin_typing(v, CLI_TOP_FILE);
	case 'p':
	case ' ':
		v->paused = !v->paused;
		return CLI_TOP_NOTHING;
	case '?':
	case 'h':
		v->help = !v->help;
		return CLI_TOP_NOTHING;
	default:
		return CLI_TOP_NOTHING;
	}
}

void cli_top_view_done(struct cli_top_view *v)
{
	leave_callers(v);
}

/* ---- from a terminal ------------------------------------------------------------------------------------ */

/* Returns the bytes of a sequence with its last byte; 0: that is missing. @p: begins with ESC [ or ESC O. */
static size_t sequence_end(const unsigned char *p, size_t n)
{
	for (size_t i = 2; i < n; i++)
		if (p[i] >= 0x40 && p[i] <= 0x7e)
			return i + 1;
	return 0;
}

bool cli_key_is_cut(const unsigned char *p, size_t n)
{
	size_t at = n;

	while (at > 0 && p[at - 1] != CLI_KEY_ESCAPE)
		at--;
	if (at == 0)
		return false;
	p += at - 1;
	n -= at - 1;
	return n == 1 || ((p[1] == '[' || p[1] == 'O') && !sequence_end(p, n));
}

size_t cli_key_decode(const unsigned char *p, size_t n, int *ret)
{
	static const struct {
		const char *text; /* after ESC [ or ESC O */
		int key;
	} keys[] = {
	        {"A", CLI_KEY_UP},   {"B", CLI_KEY_DOWN},     {"C", CLI_KEY_RIGHT},
	        {"D", CLI_KEY_LEFT}, {"5~", CLI_KEY_PAGE_UP}, {"6~", CLI_KEY_PAGE_DOWN},
	        {"H", CLI_KEY_HOME}, {"F", CLI_KEY_END},      {"1~", CLI_KEY_HOME},
	        {"4~", CLI_KEY_END},
	};
	size_t used;

	*ret = p[0] == '\n' ? CLI_KEY_ENTER : p[0] == '\b' ? CLI_KEY_BACKSPACE : p[0];
	if (p[0] != CLI_KEY_ESCAPE || n == 1 || (p[1] != '[' && p[1] != 'O'))
		return 1;
	*ret = CLI_KEY_NONE;
	used = sequence_end(p, n);
	if (!used)
		return n; /* the rest did not come in time */
	for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++)
		if (strlen(keys[i].text) == used - 2 && !memcmp(keys[i].text, p + 2, used - 2))
			*ret = keys[i].key;
	return used;
}
