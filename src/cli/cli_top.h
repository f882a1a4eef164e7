/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cli_top - perf-agent top, the live view.
 *
 *   cli_top.c       the loop: keys, refreshes, the end
 *   cli_top_data.c  from profiles to rows
 *   cli_top_keys.c  what a terminal sends, and what a key does to the view
 *   cli_top_view.c  from rows to lines; no terminal
 *   cli_top_write.c the key w: what is shown, in a file
 *   cli_term.c      the terminal: raw mode, drawing, signals
 */
#ifndef CLI_TOP_H
#define CLI_TOP_H

#include "cli_priv.h"

#include <perfagent/perfagent_snapshot.h>

enum {
	CLI_TOP_ROWS_MAX = 200, /* lines of a screen that are used */
	CLI_TOP_COLUMNS_MAX = 250,
	CLI_TOP_LINE_MAX = 1024,
	CLI_TOP_PATH_MAX = 63, /* callers of callers */
	CLI_TOP_TEXT_MAX = 256,
	CLI_TOP_WINDOWS = 5, /* refreshes that are "the last seconds" */
};

/* ---- the view ---- */

enum cli_top_page {
	CLI_TOP_FUNCTIONS = 0,
	CLI_TOP_PROCESSES,
	CLI_TOP_THREADS,
	CLI_TOP_WAITS,
	CLI_TOP_CALLERS, /* of view.path */
};

enum cli_top_prompt {
	CLI_TOP_NO_PROMPT = 0,
	CLI_TOP_SEARCH,
	CLI_TOP_FILE,
};

/* A function, task, or place; strings are borrowed. */
struct cli_top_row {
	const char *name, *module; /* module "": none; WAITS: where; "[several]" */
	uint32_t pid, tid;         /* PROCESSES, THREADS */
	/* By window: 0 the last seconds, 1 since the start. self and cum weight; of WAITS time and
	 * intervals; of others twice the weight. */
	uint64_t last[2], all[2];
};

/* Sums of what is shown. */
struct cli_top_sums {
	uint64_t last_weight, last_ns, all_weight, all_ns, samples, lost;
};

struct cli_top_view {
	enum cli_top_page page;
	bool offcpu; /* the profile that is shown */
	bool both;   /* the capture has both profiles */
	bool by_cum, by_all;
	bool ended_only; /* without off-CPU intervals that have not ended */
	bool paused, help, ended;
	char target[CLI_NAME_MAX];
	const char *unit; /* of weights */
	struct cli_top_sums sums;
	const struct cli_top_row *rows; /* rows[n], sorted and filtered */
	size_t n, selected, first;
	char *path[CLI_TOP_PATH_MAX + 1]; /* owned, NULL-terminated: a function, its caller, … */
	size_t n_path;
	enum cli_top_page before; /* the page to which the last caller leads back */
	char search[CLI_TOP_TEXT_MAX];
	enum cli_top_prompt prompt;
	char typed[CLI_TOP_TEXT_MAX];
	char message[CLI_TOP_TEXT_MAX]; /* in the last line, until the next key */
};

enum cli_top_look { CLI_TOP_PLAIN = 0, CLI_TOP_TITLE, CLI_TOP_HEADING, CLI_TOP_SELECTED };

struct cli_top_screen {
	size_t rows, columns; /* of the terminal, within the limits above */
	size_t n;             /* lines that are used */
	enum cli_top_look look[CLI_TOP_ROWS_MAX];
	char line[CLI_TOP_ROWS_MAX][CLI_TOP_LINE_MAX]; /* printable, at most columns wide */
	char frame[CLI_TOP_ROWS_MAX * (CLI_TOP_LINE_MAX + 16) + 8]; /* of cli_term_show */
};

/* Draws the view into lines. Keeps the selected row on the screen. */
void cli_top_draw(struct cli_top_view *v, struct cli_top_screen *s);
/* Returns how many rows of the list fit. */
size_t cli_top_list_rows(const struct cli_top_screen *s);

/* ---- keys ---- */

enum cli_key {
	CLI_KEY_NONE = 0,
	/* 1 to 255: a byte */
	CLI_KEY_ENTER = 13,
	CLI_KEY_ESCAPE = 27,
	CLI_KEY_BACKSPACE = 127,
	CLI_KEY_UP = 256,
	CLI_KEY_DOWN,
	CLI_KEY_LEFT,
	CLI_KEY_RIGHT,
	CLI_KEY_PAGE_UP,
	CLI_KEY_PAGE_DOWN,
	CLI_KEY_HOME,
	CLI_KEY_END,
};

/* Work for the loop after a key. */
enum cli_top_act {
	CLI_TOP_NOTHING = 0,
	CLI_TOP_LIST, /* make the rows again */
	CLI_TOP_QUIT,
	CLI_TOP_SUSPEND,
	CLI_TOP_WRITE, /* the file view.typed */
};
enum cli_top_act cli_top_key(struct cli_top_view *v, int key, size_t page_rows);
void cli_top_view_done(struct cli_top_view *v);

/**
 * cli_key_decode - one key of what a terminal sent
 * @p: p[n], n at least 1
 * @ret: enum cli_key, or a byte
 * Returns: bytes used, at least 1. A sequence that is cut off, or not known, is CLI_KEY_NONE.
 */
size_t cli_key_decode(const unsigned char *p, size_t n, int *ret);
/* Whether bytes end within a sequence of the terminal. An escape alone may be a key or begin one. */
bool cli_key_is_cut(const unsigned char *p, size_t n);

/* ---- rows ---- */

struct cli_top_data;
/* NULL: out of memory. */
struct cli_top_data *cli_top_data_new(void);
void cli_top_data_free(struct cli_top_data *d);
/* Takes new profiles. @modes: PFA_MODE_…, those of the capture. @ended_only: without off-CPU intervals that
 * have not ended. Returns 0, -EINTR (the user wants to
 * end), or a negative errno with @err. */
int cli_top_data_refresh(struct cli_top_data *d, struct pfa_session *s, uint32_t modes,
                         bool ended_only, struct pfa_error *err);
/* Makes the rows of the view's page, which are valid until the next call. */
int cli_top_data_list(struct cli_top_data *d, struct cli_top_view *v);
/* The profiles that make up what is shown: that since the start, or those of the last seconds. Returns how
 * many; 0: none yet. They are valid until the next refresh. */
size_t cli_top_data_profiles(const struct cli_top_data *d, const struct cli_top_view *v,
                             const struct pfa_profile *ret[CLI_TOP_WINDOWS]);

/* ---- files ---- */

/* Writes the profile of what is shown to the file view.typed. The message says what it has, or why there is
 * none. */
void cli_top_write(const struct cli_top_data *d, struct cli_top_view *v);

/* ---- the terminal ---- */

/* Signals that came, as bits. */
enum {
	CLI_TERM_ENDED = 1,
	CLI_TERM_RESIZED = 2,
	CLI_TERM_SUSPEND = 4,
	CLI_TERM_CONTINUED = 8,
};

/* Takes standard input and output as a terminal. @colour: with attributes. Returns 0 or a negative errno. */
int cli_term_open(void);
/* Gives the terminal back as it was. May be called again, and by signal handlers. */
void cli_term_close(void);
/* Gives it back, stops the process, and takes it again when it continues. */
int cli_term_suspend(void);
/* Takes it again after a stop that no handler knew of: SIGSTOP. */
int cli_term_resume(void);
void cli_term_size(size_t *rows, size_t *columns);
void cli_term_show(struct cli_top_screen *s);
/* Descriptors to poll: of keys; readable once a signal came. */
int cli_term_keys_fd(void);
/* Reads keys, the last one completely. Returns bytes, 0 (there are none), or a negative errno. */
ssize_t cli_term_read(unsigned char *bytes, size_t size);
int cli_term_signals_fd(void);
/* Returns and clears the signals that came. */
unsigned int cli_term_signals(void);
/* The session that an ending signal interrupts; NULL: none. */
void cli_term_interrupts(struct pfa_session *s);
/* Connects the standard streams with /dev/null, for a command that must not write into the view; and back. */
int cli_term_hide(void);
void cli_term_unhide(void);

/* Runs perf-agent top; argv[1] is its name. Returns enum cli_exit. */
int cli_top(int argc, char **argv, uint32_t max_rate_hz);

#endif
