/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cli_term.c - the terminal of the live view.
 *
 * Raw mode, the alternate screen and a hidden cursor are undone by all ends: return, exit(), signals that
 * end or stop the process, and faults.
 */
#include "cli_top.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

static const char ENTER[] = "\033[?1049h\033[?25l\033[2J";
static const char LEAVE[] = "\033[?25h\033[?1049l";
#define HOME "\033[H"

/* Signal handlers and exit handlers have no argument. */
static struct {
	int in, out;   /* the terminal; -1: not open */
	int wake_fd;   /* eventfd */
	int hidden[3]; /* the standard streams while they are /dev/null; -1: they are not */
	bool attributes, hooked;
	struct termios saved;
	_Atomic bool raw;
	_Atomic unsigned int came;
	struct pfa_session *_Atomic session;
} term = {.in = -1, .out = -1, .wake_fd = -1, .hidden = {-1, -1, -1}};

static void put(const char *p, size_t n)
{
	while (n) {
		ssize_t done = write(term.out, p, n);

		if (done < 0 && errno != EINTR && errno != EAGAIN)
			return; /* the terminal is gone */
		if (done > 0) {
			p += done;
			n -= (size_t)done;
		}
	}
}

static void leave(void)
{
	if (!atomic_exchange(&term.raw, false))
		return;
	put(LEAVE, sizeof(LEAVE) - 1);
	(void)tcsetattr(term.in, TCSAFLUSH, &term.saved);
}

/* Stops the process while it is in the background, as "perf-agent top &" or a shell's bg leave it: the
 * terminal belongs to another program. Returns 0; -EIO: it cannot be stopped. */
static int await_foreground(void)
{
	enum {
		TRIES = 100
	}; /* each ends with a SIGCONT; without job control they all end at once */

	for (int i = 0; i < TRIES; i++) {
		const pid_t owner = tcgetpgrp(term.in);

		if (owner < 0 || owner == getpgrp())
			return 0; /* -1: not the controlling terminal, so there is no other program */
		(void)raise(SIGTTIN);
	}
	return -EIO;
}

static int enter(void)
{
	struct termios raw;
	int rc = await_foreground();

	if (rc < 0)
		return rc;
	(void)atomic_fetch_and(&term.came, ~(unsigned int)CLI_TERM_CONTINUED);
	if (tcgetattr(term.in, &term.saved) < 0)
		return -errno;
	raw = term.saved;
	raw.c_iflag &= ~(tcflag_t)(BRKINT | ICRNL | INPCK | ISTRIP | IXON);
	raw.c_oflag &= ~(tcflag_t)OPOST;
	raw.c_lflag &= ~(tcflag_t)(ECHO | ICANON | IEXTEN | ISIG);
	raw.c_cc[VMIN] = 0;
	raw.c_cc[VTIME] = 0;
	atomic_store(&term.raw, true);
	if (tcsetattr(term.in, TCSAFLUSH, &raw) < 0) {
		atomic_store(&term.raw, false);
		return -errno;
	}
	put(ENTER, sizeof(ENTER) - 1);
	return 0;
}

static void on_signal(int number)
{
	const uint64_t one = 1;
	int saved_errno = errno;
	unsigned int bit = number == SIGWINCH  ? CLI_TERM_RESIZED
	                   : number == SIGCONT ? CLI_TERM_CONTINUED
	                   : number == SIGTSTP ? CLI_TERM_SUSPEND
	                                       : CLI_TERM_ENDED;

	if (bit == CLI_TERM_ENDED) {
		struct pfa_session *s = atomic_load(&term.session);

		if (atomic_fetch_or(&term.came, bit) & bit) {
			leave(); /* the second one: something hangs */
			_exit(CLI_FAILED);
		}
		if (s)
			pfa_interrupt(s);
	} else {
		atomic_fetch_or(&term.came, bit);
	}
	(void)!write(term.wake_fd, &one, sizeof(one)); /* a full counter wakes as well */
	errno = saved_errno;
}

static void on_fault(int number)
{
	leave();
	(void)raise(number); /* by default: SA_RESETHAND */
}

static int catch_all(void)
{
	static const int plain[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGWINCH, SIGCONT, SIGTSTP};
	static const int faults[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT};
	const struct sigaction on = {.sa_handler = on_signal, .sa_flags = SA_RESTART},
	                       fault = {.sa_handler = on_fault,
	                                .sa_flags = SA_RESETHAND | SA_NODEFER},
	                       ignore = {.sa_handler = SIG_IGN};

	for (size_t i = 0; i < sizeof(plain) / sizeof(plain[0]); i++)
		if (sigaction(plain[i], &on, NULL) < 0)
			return -errno;
	for (size_t i = 0; i < sizeof(faults) / sizeof(faults[0]); i++)
		if (sigaction(faults[i], &fault, NULL) < 0)
			return -errno;
	(void)sigaction(SIGTTOU, &ignore, NULL); /* restores the terminal from the background too */
	return 0;
}

int cli_term_open(void)
{
	const char *no_colour = getenv("NO_COLOR");
	int rc;

	term.in = fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 3);
	term.out = fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 3);
	term.wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (term.in < 0 || term.out < 0 || term.wake_fd < 0)
		return -errno;
	term.attributes = !no_colour || !*no_colour;
	if (!term.hooked && atexit(leave))
		return -ENOMEM;
	term.hooked = true;
	rc = catch_all();
	return rc < 0 ? rc : enter();
}

void cli_term_close(void)
{
	leave();
}

int cli_term_suspend(void)
{
	const struct sigaction by_default = {.sa_handler = SIG_DFL},
	                       on = {.sa_handler = on_signal, .sa_flags = SA_RESTART};

	leave();
	if (sigaction(SIGTSTP, &by_default, NULL) < 0 || raise(SIGTSTP) < 0 ||
	    sigaction(SIGTSTP, &on, NULL) < 0)
		return -errno;
	return enter(); /* with the attributes that it has now */
}

int cli_term_resume(void)
{
	/* A shell takes the terminal when its job stops, and gives it back with its own attributes. */
	atomic_store(&term.raw, false);
	return enter();
}

void cli_term_size(size_t *rows, size_t *columns)
{
	struct winsize w = {0};

	if (ioctl(term.out, TIOCGWINSZ, &w) < 0 || !w.ws_row || !w.ws_col)
		w = (struct winsize){.ws_row = 24, .ws_col = 80};
	*rows = w.ws_row > CLI_TOP_ROWS_MAX ? CLI_TOP_ROWS_MAX : w.ws_row;
	*columns = w.ws_col > CLI_TOP_COLUMNS_MAX ? CLI_TOP_COLUMNS_MAX : w.ws_col;
}

void cli_term_show(struct cli_top_screen *s)
{
	static const char *const on[] = {[CLI_TOP_PLAIN] = "",
	                                 [CLI_TOP_TITLE] = "\033[1m",
	                                 [CLI_TOP_HEADING] = "\033[4m",
	                                 [CLI_TOP_SELECTED] = "\033[7m"};
	size_t n = 0;

	/* Lines are erased before they are written: after the last column of a full line the cursor is
	 * still on that column, which would be erased. */
	for (size_t i = 0; i < s->n; i++) {
		const char *look = term.attributes ? on[s->look[i]] : "";

		n += (size_t)snprintf(s->frame + n, sizeof(s->frame) - n, "%s%s%s%s%s",
		                      i ? "\r\n" : HOME, i + 1 < s->n ? "\033[K" : "\033[J", look,
		                      s->line[i], *look ? "\033[0m" : "");
	}
	n += (size_t)snprintf(s->frame + n, sizeof(s->frame) - n, HOME);
	put(s->frame, n); /* in one piece: a slow connection shows no halves */
}

int cli_term_keys_fd(void)
{
	return term.in;
}

ssize_t cli_term_read(unsigned char *bytes, size_t size)
{
	enum { REST_MS = 50 }; /* longest between the bytes of one key over a slow connection */
	struct pollfd more = {.fd = term.in, .events = POLLIN};
	ssize_t n = read(term.in, bytes, size);

	if (n < 0)
		return -errno;
	while (n > 0 && (size_t)n < size && cli_key_is_cut(bytes, (size_t)n) &&
	       poll(&more, 1, REST_MS) > 0) {
		ssize_t rest = read(term.in, bytes + n, size - (size_t)n);

		if (rest <= 0)
			break; /* the next read reports it */
		n += rest;
	}
	return n;
}

int cli_term_signals_fd(void)
{
	return term.wake_fd;
}

unsigned int cli_term_signals(void)
{
	uint64_t n;

	(void)!read(term.wake_fd, &n, sizeof(n)); /* EAGAIN: none came */
	/* An end stays: a second signal must know of the first. */
	return atomic_fetch_and(&term.came, CLI_TERM_ENDED);
}

void cli_term_interrupts(struct pfa_session *s)
{
	atomic_store(&term.session, s);
}

int cli_term_hide(void)
{
	int null = open("/dev/null", O_RDWR | O_CLOEXEC);

	if (null < 0)
		return -errno;
	for (int fd = 0; fd < 3; fd++) {
		term.hidden[fd] = fcntl(fd, F_DUPFD_CLOEXEC, 3);
		if (term.hidden[fd] < 0 || dup2(null, fd) < 0)
			return -errno;
	}
	close(null);
	return 0;
}

void cli_term_unhide(void)
{
	for (int fd = 0; fd < 3; fd++) {
		if (term.hidden[fd] < 0)
			continue;
		(void)dup2(term.hidden[fd], fd); /* cannot fail: both are open */
		close(term.hidden[fd]);
		term.hidden[fd] = -1;
	}
}
