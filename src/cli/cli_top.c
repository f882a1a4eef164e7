/* SPDX-License-Identifier: Apache-2.0 */
/* cli_top.c - perf-agent top: the loop */
#include "cli_top.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const uint64_t REFRESH_NS = 1000000000;

struct top {
	const struct cli_options *o;
	struct pfa_session *session;
	struct cli_top_data *data;
	struct cli_top_screen *screen;
	struct cli_top_view view;
	uint32_t modes;
	uint64_t due_ns;
	char failure[CLI_MESSAGE_MAX]; /* why the loop ended; "": the user ended it */
};

static uint64_t now_ns(void)
{
	struct timespec t;

	(void)clock_gettime(CLOCK_MONOTONIC, &t); /* cannot fail with this clock */
	return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

/* ---- the command line ------------------------------------------------------------------------ */

/* Whether a mode is among the words before "--". */
static bool has_mode(int argc, char *const *argv)
{
	for (int i = 2; i < argc && strcmp(argv[i], "--") != 0; i++) {
		const char *name = argv[i];

		if (name[0] != '-')
			continue;
		name += name[1] == '-' ? 2 : 1;
		if (!strncmp(name, "profile", 7) && (!name[7] || name[7] == '='))
			return true;
		if (!strncmp(name, "offcpu", 6) && (!name[6] || name[6] == '='))
			return true;
	}
	return false;
}

/* Refuses options of outputs. Returns 0 or -EINVAL. */
static int check(const struct cli_options *o, char message[CLI_MESSAGE_MAX])
{
	if (o->on[CLI_METRICS])
		return cli_refuse(message, "top: --pmu has no live view; use it without top");
	if (o->extra.common)
		return cli_refuse(message, "top: --output is not for the live view: its key w "
		                           "writes a profile");
	for (int i = 0; i < CLI_PRODUCT_CNT; i++)
		if (o->output[i])
			return cli_refuse(message,
			                  "top: %s is not for the live view: its key w writes a "
			                  "profile",
			                  cli_product_option((enum cli_product)i));
	if (o->duration_ns)
		return cli_refuse(message,
		                  "top: --duration is not for the live view; the key q ends it");
	return 0;
}

static int check_terminal(char message[CLI_MESSAGE_MAX])
{
	const char *kind = getenv("TERM");

	if (!isatty(STDIN_FILENO) || !isatty(STDOUT_FILENO))
		return cli_refuse(message, "top: standard input and output must be a terminal; for "
		                           "a file use perf-agent --profile");
	if (!kind || !*kind || !strcmp(kind, "dumb"))
		return cli_refuse(
		        message,
		        "top: a terminal of the kind '%s' (TERM) cannot show a live view; "
		        "use perf-agent --profile",
		        kind ? kind : "");
	return 0;
}

/* The words of a capture: top left out, and both modes if none is given. Owned. */
static char **words_of(int argc, char **argv, int *ret_n)
{
	static char profile[] = "--profile", offcpu[] = "--offcpu";
	char **words = calloc((size_t)argc + 3, sizeof(*words));
	int n = 0;

	if (!words)
		return NULL;
	words[n++] = argv[0];
	if (!has_mode(argc, argv)) {
		words[n++] = profile;
		words[n++] = offcpu;
	}
	for (int i = 2; i < argc; i++)
		words[n++] = argv[i];
	*ret_n = n;
	return words;
}

/* ---- one refresh ----------------------------------------------------------------------------- */

/* Returns false if the view cannot go on. */
static bool list(struct top *t)
{
	int rc = cli_top_data_list(t->data, &t->view);

	if (rc < 0)
		(void)snprintf(t->failure, sizeof(t->failure), "cannot make the view: %s",
		               cli_error(-rc));
	return rc == 0;
}

static bool refresh(struct top *t)
{
	struct pfa_error err = {0};
	int rc = cli_top_data_refresh(t->data, t->session, t->modes, t->view.ended_only, &err);

	t->due_ns = now_ns() + REFRESH_NS;
	if (rc == -EINTR)
		return true; /* the signal is handled by the loop */
	if (rc < 0) {
		(void)snprintf(t->failure, sizeof(t->failure), "%s",
		               err.message[0] ? err.message : cli_error(-rc));
		return false;
	}
	return list(t);
}

static void draw(struct top *t)
{
	cli_term_size(&t->screen->rows, &t->screen->columns);
	cli_top_draw(&t->view, t->screen);
	cli_term_show(t->screen);
}

/* ---- keys ------------------------------------------------------------------------------------ */

/* @rc: of a call that takes the terminal again. Returns false if that failed. */
static bool has_terminal(struct top *t, int rc)
{
	if (rc < 0)
		(void)snprintf(t->failure, sizeof(t->failure), "cannot use the terminal: %s",
		               cli_error(-rc));
	return rc == 0;
}

/* Returns false if the view ends. */
static bool act(struct top *t, enum cli_top_act what)
{
	switch (what) {
	case CLI_TOP_NOTHING:
		return true;
	case CLI_TOP_LIST:
		return list(t);
	case CLI_TOP_QUIT:
		return false;
	case CLI_TOP_SUSPEND:
		return has_terminal(t, cli_term_suspend());
	case CLI_TOP_WRITE:
		cli_top_write(t->data, &t->view);
		return true;
	}
	return true;
}

/* @gone: the terminal hung up. Returns false if the view ends. */
static bool read_keys(struct top *t, bool gone)
{
	unsigned char bytes[64];
	ssize_t n = cli_term_read(bytes, sizeof(bytes));
	bool on = true;

	if (n == 0)
		return !gone; /* a stop or a continue has discarded them */
	if (n < 0)
		return n == -EINTR || n == -EAGAIN;
	for (size_t at = 0, used; on && at < (size_t)n; at += used) {
		int key;

		used = cli_key_decode(bytes + at, (size_t)n - at, &key);
		on = act(t, cli_top_key(&t->view, key, cli_top_list_rows(t->screen)));
	}
	return on;
}

/* ---- the loop -------------------------------------------------------------------------------- */

static bool on_signals(struct top *t)
{
	unsigned int came = cli_term_signals();

	if (came & CLI_TERM_ENDED)
		return false;
	if (came & CLI_TERM_SUSPEND)
		return has_terminal(t, cli_term_suspend());
	return !(came & CLI_TERM_CONTINUED) || has_terminal(t, cli_term_resume());
}

/* The target has ended: its last samples, then the view stays. */
static bool on_ended(struct top *t)
{
	t->view.ended = true;
	(void)snprintf(t->view.message, sizeof(t->view.message),
	               "the target has ended; w writes what is shown, q quits");
	return refresh(t);
}

static void loop(struct top *t)
{
	struct pollfd fds[] = {{.fd = cli_term_signals_fd(), .events = POLLIN},
	                       {.fd = cli_term_keys_fd(), .events = POLLIN},
	                       {.fd = pfa_ended_fd(t->session), .events = POLLIN}};
	bool on = true;

	t->due_ns = now_ns() + REFRESH_NS / 2;
	(void)list(t); /* nothing is there yet */
	while (on) {
		const uint64_t now = now_ns();
		const bool due = !t->view.paused && !t->view.ended;

		draw(t);
		(void)poll(fds, sizeof(fds) / sizeof(fds[0]),
		           !due              ? -1
		           : t->due_ns > now ? (int)((t->due_ns - now) / 1000000) + 1
		                             : 0); /* EINTR: a signal, which its descriptor tells */
		if (fds[0].revents)
			on = on_signals(t);
		if (on && fds[1].revents)
			on = read_keys(t, fds[1].revents & ~POLLIN);
		if (on && fds[2].revents) {
			fds[2].fd = -1;
			on = on_ended(t);
		} else if (on && due && now_ns() >= t->due_ns) {
			on = refresh(t);
		}
	}
}

/* ---- start and end --------------------------------------------------------------------------- */

static void name_target(const struct cli_options *o, char *ret, size_t size)
{
	struct cli_process p;

	if (o->all)
		(void)snprintf(ret, size, "all processes");
	else if (o->command)
		(void)snprintf(ret, size, "%s", cli_base_name(o->command[0]));
	else if (o->pids.n == 1 && cli_process_read(o->pids.v[0], &p) == 0)
		(void)snprintf(ret, size, "%s (%d)", p.comm, o->pids.v[0]);
	else if (o->pids.n)
		(void)snprintf(ret, size, "%zu processes", o->pids.n);
	else
		(void)snprintf(ret, size, "%zu threads", o->tids.n);
}

/* Starts the capture: with the terminal as it was, so that its errors are lines. Returns enum cli_exit. */
static int start(struct top *t)
{
	struct pfa_options p = PFA_OPTIONS_INIT;
	struct pfa_error err = {0};
	int rc;

	cli_session_options(t->o, &p);
	rc = pfa_new(&p, &t->session, &err);
	if (rc < 0) {
		cli_say("%s", err.message[0] ? err.message : cli_error(-rc));
		return rc == -EINVAL ? CLI_USAGE : CLI_FAILED;
	}
	rc = t->o->command ? cli_term_hide() : 0;
	if (rc == 0)
		rc = pfa_start(t->session, &err);
	cli_term_unhide();
	if (rc < 0) {
		cli_say("%s", err.message[0] ? err.message : cli_error(-rc));
		return CLI_FAILED;
	}
	t->modes = pfa_modes_run(t->session);
	t->view.both = t->modes == (PFA_MODE_PROFILE | PFA_MODE_OFFCPU);
	t->view.offcpu = t->modes == PFA_MODE_OFFCPU;
	t->view.unit = pfa_weight_unit(t->session);
	return CLI_DONE;
}

/* Returns enum cli_exit. */
static int run(struct top *t)
{
	int rc = start(t);

	if (rc != CLI_DONE)
		return rc;
	cli_term_interrupts(t->session);
	rc = cli_term_open();
	if (rc == 0)
		loop(t);
	cli_term_close();
	cli_term_interrupts(NULL);
	if (t->o->command)
		(void)cli_command_finish(t->session, cli_base_name(t->o->command[0]),
		                         t->o->keep_command ? CLI_COMMAND_STAYS : CLI_COMMAND_ENDS,
		                         true);
	for (size_t i = 0; pfa_note(t->session, i); i++)
		cli_say("note: %s", pfa_note(t->session, i));
	if (rc < 0)
		cli_say("cannot use the terminal: %s", cli_error(-rc));
	else if (t->failure[0])
		cli_say("%s", t->failure);
	return rc < 0 || t->failure[0] ? CLI_FAILED : CLI_DONE;
}

static int run_options(const struct cli_options *o)
{
	/* Most threads of a machine are idle. */
	struct top t = {.o = o, .view = {.unit = "nanoseconds", .ended_only = o->all}};
	int rc = CLI_FAILED;

	name_target(o, t.view.target, sizeof(t.view.target));
	t.data = cli_top_data_new();
	t.screen = calloc(1, sizeof(*t.screen));
	if (t.data && t.screen)
		rc = run(&t);
	else
		cli_say("out of memory");
	cli_top_data_free(t.data);
	cli_top_view_done(&t.view);
	free(t.screen);
	pfa_free(t.session);
	return rc;
}

int cli_top(int argc, char **argv, uint32_t max_rate_hz)
{
	struct cli_options options;
	char message[CLI_MESSAGE_MAX];
	char **words;
	int n, rc;

	words = words_of(argc, argv, &n);
	rc = words ? cli_options_parse(n, words, max_rate_hz, &options, message) : -ENOMEM;
	if (rc == CLI_ACTION_HELP || rc == CLI_ACTION_VERSION) {
		cli_options_done(&options);
		free(words);
		rc = rc == CLI_ACTION_HELP ? cli_command_help(stdout, "top") : cli_version(stdout);
		if (rc < 0)
			cli_say("cannot write to standard output");
		return rc < 0 ? CLI_FAILED : CLI_DONE;
	}
	if (rc == 0) {
		rc = check(&options, message);
		if (rc == 0)
			rc = check_terminal(message);
		if (rc < 0)
			cli_options_done(&options);
	}
	if (rc < 0) {
		cli_say("%s", rc == -EINVAL ? message : cli_error(-rc));
		free(words);
		return rc == -EINVAL ? CLI_USAGE : CLI_FAILED;
	}
	rc = cli_pids_find(&options);
	if (rc == CLI_DONE)
		rc = run_options(&options);
	cli_options_done(&options);
	free(words);
	return rc;
}
