/* SPDX-License-Identifier: Apache-2.0 */
/* cli-run.c - one capture: from options to exit status */
#include "cli_priv.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
	PROGRESS_MS = 500,
	PROGRESS_MAX = 160,
	COMMAND_END_MS = 1000,
};

static const uint64_t DEFAULT_DURATION_NS = 10ull * 1000 * 1000 * 1000;
/* timeout(1) signals its child and then the child's group, the child again: two signals within this
 * time are one. */
static const uint64_t SAME_SIGNAL_NS = 100ull * 1000 * 1000;

enum end {
	END_DURATION,
	END_SIGNAL,
	END_TARGET,
};

struct run {
	const struct cli_options *o;
	struct pfa_session *session;
	struct cli_output out;
	char comm[CLI_NAME_MAX];  /* of the target as it is; "" = unknown or whole machine */
	char clean[CLI_NAME_MAX]; /* the same for file names */
	uint64_t duration_ns;     /* 0: no end by time */
	uint64_t start_ns;
	size_t n_notes;        /* printed */
	size_t progress_width; /* columns of the progress line that stands there */
};

/* Handlers have no argument: the one state of this program that is not on a stack. */
static struct {
	int wake_fd;               /* eventfd: readable once a signal came */
	_Atomic uint64_t first_ns; /* when the first came, 0: none yet */
	_Atomic int number;        /* which */
	struct pfa_session
	        *_Atomic session; /* whose start may have to be interrupted; NULL: none */
} caught = {.wake_fd = -EBADF};

static uint64_t now_ns(void)
{
	struct timespec t;

	(void)clock_gettime(CLOCK_MONOTONIC, &t); /* cannot fail with this clock */
	return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

static void on_end_signal(int number)
{
	static const char text[] =
	        "\nperf-agent: aborted by a second signal; no profile was written\n";
	uint64_t first = atomic_load(&caught.first_ns), now = now_ns(), one = 1;
	int saved_errno = errno;

	if (!first) {
		struct pfa_session *session;

		atomic_store(&caught.number, number);
		atomic_store(&caught.first_ns, now);
		/* Behind the above: start() sets the one and then looks at the other. */
		session = atomic_load(&caught.session);
		if (session)
			pfa_interrupt(session);
		/* Cannot fail: one write to a counter that is 0. */
		(void)!write(caught.wake_fd, &one, sizeof(one));
	} else if (now - first > SAME_SIGNAL_NS) {
		(void)!write(STDERR_FILENO, text,
		             sizeof(text) - 1); /* nowhere to report a failure */
		_exit(CLI_FAILED);
	}
	errno = saved_errno;
}

/* Instead of SIG_IGN, which a command would inherit: writing to a closed pipe is an error, not the
 * end. */
static void on_sigpipe(int number)
{
	(void)number;
}

static int set_handler(int number, void (*handler)(int), bool keep_ignored)
{
	struct sigaction action = {.sa_handler = handler, .sa_flags = SA_RESTART}, old;

	if (sigaction(number, NULL, &old) < 0)
		return -errno;
	if (keep_ignored && old.sa_handler == SIG_IGN)
		return 0;
	return sigaction(number, &action, NULL) < 0 ? -errno : 0;
}

static int catch_signals(void)
{
	int rc;

	caught.wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (caught.wake_fd < 0)
		return -errno;
	rc = set_handler(SIGINT, on_end_signal, false);
	if (!rc)
		rc = set_handler(SIGTERM, on_end_signal, false);
	if (!rc)
		rc = set_handler(SIGHUP, on_end_signal, true); /* nohup(1) */
	if (!rc)
		rc = set_handler(SIGPIPE, on_sigpipe, true);
	return rc;
}

/* The profile is written: from here on a signal may end us as it likes. */
static void release_signals(void)
{
	static const int numbers[] = {SIGINT, SIGTERM, SIGHUP};

	for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++)
		(void)set_handler(numbers[i], SIG_DFL,
		                  true); /* worked before with the same arguments */
}

/* comm of process @pid, "" when it cannot be read. */
static void read_comm(int32_t pid, char *ret, size_t size)
{
	char path[64];
	size_t n = 0;
	FILE *f;

	(void)snprintf(path, sizeof(path), "/proc/%d/comm", pid);
	f = fopen(path, "re");
	if (f) {
		n = fread(ret, 1, size - 1, f);
		fclose(f);
	}
	while (n && ret[n - 1] == '\n')
		n--;
	ret[n] = '\0';
}

static void name_target(struct run *r)
{
	const struct cli_options *o = r->o;
	const char *slash;

	if (o->command) {
		slash = strrchr(o->command[0], '/');
		(void)snprintf(r->comm, sizeof(r->comm), "%s",
		               slash ? slash + 1 : o->command[0]); /* cut */
	} else if (o->pid) {
		read_comm(o->pid, r->comm, sizeof(r->comm));
	}
	cli_clean_name(r->comm, r->clean, sizeof(r->clean));
	if (!r->clean[0] && o->pid)
		(void)snprintf(r->clean, sizeof(r->clean), "pid%d", o->pid);
	else if (!r->clean[0])
		(void)snprintf(r->clean, sizeof(r->clean), "command");
}

/* An error of the library's; it names the call and the object. */
static void say_error(const struct run *r, const char *what, int rc, const struct pfa_error *err)
{
	char words[sizeof(err->message) + NAME_MAX];

	cli_output_words(&r->out, err->message, words, sizeof(words));
	if (words[0])
		cli_say("%s", words);
	else
		cli_say("%s: %s", what, strerrorname_np(-rc));
}

static int new_session(struct run *r)
{
	const struct cli_options *o = r->o;
	struct pfa_options p = PFA_OPTIONS_INIT;
	struct pfa_error err = {0};
	int rc;

	p.target = o->all ? PFA_TARGET_ALL : o->command ? PFA_TARGET_COMMAND : PFA_TARGET_PID;
	p.pid = o->pid;
	p.argv = (const char *const *)o->command;
	p.sample_rate_hz = o->sample_rate_hz;
	p.event = o->event;
	p.unwind = o->unwind;
	p.table_budget_bytes = o->table_budget_bytes;
	p.flags = (o->kernel_stacks ? 0 : PFA_NO_KERNEL_STACKS) |
	          (o->all ? PFA_EXCLUDE_OWN_PROCESS : 0);
	p.tags = o->tags;
	if (r->out.fd >= 0)
		p.profile_fd = r->out.fd;
	else
		p.profile_path = r->out.made ? r->out.hidden : o->profile_output;
	p.ring_bytes = o->ring_bytes;
	p.count_entries = o->count_entries;
	p.range_entries = o->range_entries;

	rc = pfa_new(&p, &r->session, &err);
	if (rc < 0) {
		say_error(r, "options", rc, &err);
		return rc == -EINVAL ? CLI_USAGE : CLI_FAILED;
	}
	return CLI_DONE;
}

static void say_notes(struct run *r)
{
	const char *note;

	for (; (note = pfa_note(r->session, r->n_notes)); r->n_notes++)
		cli_say("note: %s", note);
}

static const char *weight_unit(const struct run *r)
{
	const char *unit = pfa_weight_unit(r->session);

	return unit ? unit : "";
}

static void say_start(const struct run *r)
{
	const struct cli_options *o = r->o;
	char target[CLI_NAME_MAX + 64], end[64], time[32];
	const char *event = strcmp(weight_unit(r), "cycles") ? "cpu-clock" : "hardware cycles";

	if (o->all)
		(void)snprintf(target, sizeof(target), "the whole machine");
	else if (o->command)
		(void)snprintf(target, sizeof(target), "command %s (pid %d)", r->comm,
		               pfa_command_pid(r->session));
	else if (r->comm[0])
		(void)snprintf(target, sizeof(target), "pid %d (%s)", o->pid, r->comm);
	else
		(void)snprintf(target, sizeof(target), "pid %d", o->pid);

	cli_format_duration(r->duration_ns, time, sizeof(time));
	if (r->duration_ns)
		(void)snprintf(end, sizeof(end), "for %s; Ctrl-C ends early", time);
	else if (o->command)
		(void)snprintf(end, sizeof(end), "until it ends; Ctrl-C ends early");
	else
		(void)snprintf(end, sizeof(end), "until Ctrl-C");
	cli_say("profiling %s at %u Hz, %s, %s%s, %s", target, o->sample_rate_hz, event,
	        o->unwind == PFA_UNWIND_FP      ? "frame pointers only"
	        : o->unwind == PFA_UNWIND_DWARF ? "unwind dwarf"
	                                        : "unwind auto",
	        o->kernel_stacks ? "" : ", without kernel stacks", end);
}

static bool progress_wanted(void)
{
	const char *term = getenv("TERM");

	return isatty(STDERR_FILENO) && !(term && !strcmp(term, "dumb"));
}

/* Writes @text over the progress line that stands there; "" removes it. */
static void draw_progress(struct run *r, const char *text)
{
	size_t width = cli_columns(text),
	       rest = r->progress_width > width ? r->progress_width - width : 0;

	/* Blanks instead of an escape sequence: they work on every terminal. */
	(void)fprintf(stderr, "\r%s%*s%s", text, (int)rest, "", *text ? "" : "\r");
	r->progress_width = width;
}

static void show_progress(struct run *r, uint64_t now)
{
	struct pfa_stats st = {.size = sizeof(st)};
	uint64_t elapsed = now - r->start_ns, own = cli_own_samples(r->session), seen, lost;
	char text[PROGRESS_MAX];
	double seconds;

	if (pfa_stats(r->session, &st) < 0)
		return; /* the quality line says so at the end */
	if (r->duration_ns)
		seconds = (double)(r->duration_ns > elapsed ? r->duration_ns - elapsed : 0) / 1e9;
	else
		seconds = (double)elapsed / 1e9;
	/* Counters are read one after the other while they grow. */
	seen = st.seen > own ? st.seen - own : 0;
	lost = st.dropped > own ? st.dropped - own : 0;
	(void)snprintf(text, sizeof(text),
	               "perf-agent: %.1f s%s, %" PRIu64 " sample%s, %" PRIu64 " lost", seconds,
	               r->duration_ns ? " left" : "", seen, cli_plural(seen), lost);
	cli_shorten(text, cli_terminal_width() - 1, false);
	draw_progress(r, text);
}

/* Milliseconds for poll: rounded up, so that the time has come when it returns. */
static int timeout_ms(uint64_t now, uint64_t until)
{
	uint64_t ms = until > now ? (until - now + 999999) / 1000000 : 0;

	return ms > INT_MAX ? INT_MAX : (int)ms;
}

static enum end wait_for_end(struct run *r)
{
	struct pollfd fds[] = {
	        {.fd = caught.wake_fd, .events = POLLIN},
	        {.fd = pfa_ended_fd(r->session), .events = POLLIN}, /* -1: poll passes over it */
	};
	bool progress = progress_wanted();
	uint64_t deadline = r->duration_ns ? r->start_ns + r->duration_ns : UINT64_MAX;
	uint64_t next_progress = progress ? r->start_ns : UINT64_MAX, now;
	enum end end;

	for (;;) {
		now = now_ns();
		if (now >= deadline) {
			end = END_DURATION;
			break;
		}
		if (now >= next_progress) {
			show_progress(r, now);
			next_progress = now + PROGRESS_MS * 1000000ull;
		}
		if (poll(fds, 2,
		         timeout_ms(now, deadline < next_progress ? deadline : next_progress)) < 0)
			continue; /* EINTR: the handler has made the eventfd readable */
		if (fds[0].revents) {
			end = END_SIGNAL;
			break;
		}
		if (fds[1].revents) {
			end = END_TARGET;
			break;
		}
	}
	if (progress)
		draw_progress(r, "");
	return end;
}

static void say_end(const struct run *r, enum end end)
{
	char time[32];

	if (end == END_SIGNAL)
		cli_say("SIG%s: the capture ends; a second signal aborts",
		        sigabbrev_np(atomic_load(&caught.number)));
	if (end == END_TARGET && r->o->pid) {
		cli_format_duration(now_ns() - r->start_ns, time, sizeof(time));
		cli_say("pid %d ended after %s", r->o->pid, time);
	}
}

/* Ctrl-C reaches the command as well, and so does what timeout(1) sends: it may be about to end. */
static void await_command(const struct run *r)
{
	struct pollfd p = {.events = POLLIN};
	int pid = pfa_command_pid(r->session);

	p.fd = pid > 0 ? (int)syscall(SYS_pidfd_open, pid, 0) : -1;
	if (p.fd < 0)
		return; /* it is reported as it is now */
	(void)poll(&p, 1, COMMAND_END_MS);
	close(p.fd);
}

static void say_command(const struct run *r, enum end end)
{
	const char *signal_name;
	int rc, status;

	rc = pfa_command_status(r->session, &status);
	if (rc == 0 && end == END_SIGNAL) {
		await_command(r);
		rc = pfa_command_status(r->session, &status);
	}
	if (rc < 0)
		cli_say("command %s: status unknown: %s", r->comm, strerrorname_np(-rc));
	else if (rc == 0)
		cli_say("command %s (pid %d) has not ended; it is left running", r->comm,
		        pfa_command_pid(r->session));
	else if (WIFSIGNALED(status)) {
		signal_name = sigabbrev_np(WTERMSIG(status));
		cli_say("command %s was ended by signal %d (SIG%s)", r->comm, WTERMSIG(status),
		        signal_name ? signal_name : "RT");
	} else {
		cli_say("command %s ended with exit status %d", r->comm, WEXITSTATUS(status));
	}
}

/* Writes, and says what was written. Returns enum cli_exit. */
static int finish(struct run *r, enum end end)
{
	struct pfa_error err = {0};
	int stopped, moved = 0;

	stopped = pfa_stop(r->session, &err);
	if (!stopped)
		moved = cli_output_publish(&r->out);
	release_signals();
	say_notes(r);
	if (r->o->command)
		say_command(r, end);
	cli_report_functions(r->session, r->o);
	if (!stopped && !moved) {
		cli_say("profile written: %s", cli_output_path(&r->out));
		cli_report_quality(r->session);
		return CLI_DONE;
	}
	/* What was sampled is not lost altogether, but the failure is the last that is read. */
	cli_report_quality(r->session);
	if (stopped)
		say_error(r, "writing the profile", stopped, &err);
	else
		cli_say("rename %s to %s: %s; the profile stays where it is", r->out.hidden,
		        r->out.name, strerrorname_np(-moved));
	return CLI_FAILED;
}

/* A signal from now on, and one that has come already, ends the start. */
static int start(struct run *r, struct pfa_error *err)
{
	int rc;

	atomic_store(&caught.session, r->session);
	if (atomic_load(&caught.first_ns))
		pfa_interrupt(r->session);
	rc = pfa_start(r->session, err);
	atomic_store(&caught.session, NULL);
	return rc;
}

static int capture(struct run *r)
{
	struct pfa_error err = {0};
	enum end end;
	int rc;

	if (r->o->unwind == PFA_UNWIND_DWARF)
		cli_say("reading the call-frame information of what is mapped; Ctrl-C ends that "
		        "too");
	rc = start(r, &err);
	if (rc == -EINTR && atomic_load(&caught.first_ns)) {
		cli_say("SIG%s before sampling began: no profile",
		        sigabbrev_np(atomic_load(&caught.number)));
		return CLI_FAILED;
	}
	if (rc < 0) {
		say_error(r, "starting the capture", rc, &err);
		return CLI_FAILED;
	}
	r->start_ns = now_ns();
	say_start(r);
	say_notes(r);
	end = wait_for_end(r);
	say_end(r, end);
	return finish(r, end);
}

int cli_run(const struct cli_options *o)
{
	struct run r = {.o = o, .duration_ns = o->duration_ns};
	int status, rc;

	if (!r.duration_ns && !o->command && !isatty(STDERR_FILENO))
		r.duration_ns = DEFAULT_DURATION_NS;
	rc = catch_signals(); /* before anything that may take a while */
	if (rc < 0) {
		cli_say("catching signals: %s", strerrorname_np(-rc));
		return CLI_FAILED;
	}
	name_target(&r);
	status = cli_output_open(&r.out, o->profile_output, o->all ? NULL : r.clean);
	if (status == CLI_DONE)
		status = new_session(&r);
	if (status == CLI_DONE)
		status = capture(&r);
	pfa_free(r.session);
	cli_output_done(&r.out);
	if (caught.wake_fd >= 0)
		close(caught.wake_fd);
	return status;
}
